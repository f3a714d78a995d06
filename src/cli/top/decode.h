/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * JSON objects of a peer into structs, by a table: which key, of what type, goes where. Keys that the table
 * does not have are passed over, so that a newer agent can say more; a value of another type than expected
 * is an error that names its place. What is absent or null becomes "not known": "" for text, the largest
 * number for integers, false, NaN.
 * Thread: any (pure).
 */
#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum decode_kind {
	DECODE_TEXT, /* const char *: borrowed from the document */
	DECODE_BOOL,
	DECODE_U32,
	DECODE_U64,
	DECODE_REAL, /* double; an integer will do */
};

struct decode_field {
	const char *key;
	enum decode_kind kind;
	size_t offset;
};

/* A member of the struct, with the kind that its type asks for. */
#define DECODE(type, member, json_key)                                                          \
	{                                                                                       \
		.key = (json_key),                                                            \
		.kind = _Generic(((type *)NULL)->member, const char *: DECODE_TEXT, bool      \
				 : DECODE_BOOL, uint32_t                                      \
				 : DECODE_U32, uint64_t                                       \
				 : DECODE_U64, double                                         \
				 : DECODE_REAL),                                              \
		.offset = offsetof(type, member), \
	}

/* @where is the object's place for messages: "gpus[0].units[1]"; "" is the document. NULL as @object or JSON's
 * null: all is not known. */
int decode_object(void *to, const json_t *object, const struct decode_field *fields, size_t n,
	const char *where, struct error *err) MUST_USE;

/* The array under @key of @object, NULL if there is none; else it has at most @max elements. */
int decode_array(const json_t **ret, const json_t *object, const char *key, size_t max,
	const char *where, struct error *err) MUST_USE;
