/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * JSON objects of a peer into structs and back, by a table that maps each key to a type and a member.
 *
 * Reading. Keys that the table lacks are ignored, so that a newer peer can send more. A value of another type
 * than expected is an error that names its place. An absent key or null becomes "not known": "" for text, the
 * largest number for integers, false, NaN.
 *
 * Writing. A value that is not known becomes null, except false. An integer above INT64_MAX becomes null too.
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
	RECORD_REAL, /* double; accepts an integer */
};

struct record_field {
	const char *key;
	enum record_kind kind;
	size_t offset;
};

/* A member of the struct. The type of the member decides the kind. */
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

/* @where is the object's place for messages: "gpus[0].units[1]"; "" is the document. @object NULL or JSON's
 * null: everything is "not known". */
int record_read(void *to, const json_t *object, const struct record_field *fields, size_t n,
	const char *where, struct error *err) MUST_USE;

/* The array under @key of @object, NULL if absent. More than @max elements are an error. */
int record_list(const json_t **ret, const json_t *object, const char *key, size_t max,
	const char *where, struct error *err) MUST_USE;

/* Returns a new reference; NULL: no memory, or text that is not UTF-8. */
json_t *record_write(const void *from, const struct record_field *fields, size_t n);

/* --- lists --- */

/* The objects of @list (an array or NULL) as one object, with the text of each one's "id" as its key. Leaves
 * out objects without an id. Returns a new reference; NULL: no memory. Thread: any. */
json_t *json_by_id(const json_t *list);
/* The first object of @list (an array or NULL) with that "uuid", in any case; NULL: none. Borrowed. Thread: any. */
const json_t *json_find_uuid(const json_t *list, const char *uuid);
