/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * JSON objects of a peer into structs and back, by a table: which key, of what type, goes where. Keys that the
 * table does not have are passed over, so that a newer peer can say more; a value of another type than expected
 * is an error that names its place. What is absent or null becomes "not known": "" for text, the largest
 * number for integers, false, NaN; and what is not known becomes null, but for false.
 * Thread: any (pure).
 */
#include "lib/base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum record_kind {
	RECORD_TEXT, /* const char *: borrowed from the document */
	RECORD_BOOL,
	RECORD_U32,
	RECORD_U64,
	RECORD_REAL, /* double; an integer will do */
};

struct record_field {
	const char *key;
	enum record_kind kind;
	size_t offset;
};

/* A member of the struct, with the kind that its type asks for. */
#define RECORD(type, member, json_key)                                                          \
	{                                                                                       \
		.key = (json_key),                                                            \
		.kind = _Generic(((type *)NULL)->member, const char *: RECORD_TEXT, bool      \
				 : RECORD_BOOL, uint32_t                                      \
				 : RECORD_U32, uint64_t                                       \
				 : RECORD_U64, double                                         \
				 : RECORD_REAL),                                              \
		.offset = offsetof(type, member), \
	}

/* @where is the object's place for messages: "gpus[0].units[1]"; "" is the document. NULL as @object or JSON's
 * null: all is not known. */
int record_read(void *to, const json_t *object, const struct record_field *fields, size_t n,
	const char *where, struct error *err) MUST_USE;

/* The array under @key of @object, NULL if there is none; else it has at most @max elements. */
int record_list(const json_t **ret, const json_t *object, const char *key, size_t max,
	const char *where, struct error *err) MUST_USE;

/* New reference; NULL: no memory. Text that is no UTF-8 is NULL too. */
json_t *record_write(const void *from, const struct record_field *fields, size_t n);
