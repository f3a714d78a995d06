/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/json/record.h"

#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

static const char *describe_json_type(const json_t *j)
{
	switch (json_typeof(j)) {
	case JSON_OBJECT:
		return "an object";
	case JSON_ARRAY:
		return "a list";
	case JSON_STRING:
		return "a text";
	case JSON_INTEGER:
		return "an integer";
	case JSON_REAL:
		return "a fraction";
	case JSON_TRUE:
	case JSON_FALSE:
		return "true or false";
	case JSON_NULL:
		break;
	}
	return "null";
}

static int set_json_type_error(const char *where, const char *key, const char *expected,
	const json_t *j, struct error *err)
{
	return error_set(err, ERR_INVALID, "%s%s%s: expected %s, found %s", where,
		*where && *key ? "." : "", *where || *key ? key : "the document", expected,
		describe_json_type(j));
}

static int set_unsigned(void *to, const json_t *j, uint64_t max, const char *where,
	const char *key, struct error *err)
{
	json_int_t value;

	if (!json_is_integer(j))
		return set_json_type_error(where, key, "an integer", j, err);
	value = json_integer_value(j);
	if (value < 0 || (uint64_t)value > max)
		return error_set(err, ERR_INVALID,
			"%s%s%s: expected 0 to %" PRIu64 ", found %" PRId64, where,
			*where ? "." : "", key, max, (int64_t)value);
	if (max == UINT32_MAX)
		*(uint32_t *)to = (uint32_t)value;
	else
		*(uint64_t *)to = (uint64_t)value;
	return 0;
}

static int set_record_field(void *to, const json_t *j, const struct record_field *f,
	const char *where, struct error *err)
{
	switch (f->kind) {
	case RECORD_TEXT:
		if (!json_is_string(j))
			return set_json_type_error(where, f->key, "a text", j, err);
		*(const char **)to = json_string_value(j);
		return 0;
	case RECORD_BOOL:
		if (!json_is_boolean(j))
			return set_json_type_error(where, f->key, "true or false", j, err);
		*(bool *)to = json_is_true(j);
		return 0;
	case RECORD_U32:
		return set_unsigned(to, j, UINT32_MAX, where, f->key, err);
	case RECORD_U64:
		return set_unsigned(to, j, UINT64_MAX, where, f->key, err);
	case RECORD_REAL:
		if (!json_is_number(j))
			return set_json_type_error(where, f->key, "a number", j, err);
		*(double *)to = json_number_value(j);
		return 0;
	}
	return 0;
}

static void set_record_field_unknown(void *to, enum record_kind kind)
{
	switch (kind) {
	case RECORD_TEXT:
		*(const char **)to = "";
		break;
	case RECORD_BOOL:
		*(bool *)to = false;
		break;
	case RECORD_U32:
		*(uint32_t *)to = UINT32_MAX;
		break;
	case RECORD_U64:
		*(uint64_t *)to = UINT64_MAX;
		break;
	case RECORD_REAL:
		*(double *)to = NAN;
		break;
	}
}

int record_read(void *to, const json_t *object, const struct record_field *fields, size_t n,
	const char *where, struct error *err)
{
	if (object && !json_is_object(object) && !json_is_null(object))
		return set_json_type_error(where, "", "an object", object, err);
	for (size_t i = 0; i < n; i++) {
		void *at = (char *)to + fields[i].offset;
		const json_t *j = json_object_get(object, fields[i].key);

		set_record_field_unknown(at, fields[i].kind);
		if (j && !json_is_null(j) &&
			set_record_field(at, j, &fields[i], where, err) < 0)
			return -1;
	}
	return 0;
}

int record_list(const json_t **ret, const json_t *object, const char *key, size_t max,
	const char *where, struct error *err)
{
	const json_t *j = json_object_get(object, key);

	*ret = NULL;
	if (!j || json_is_null(j))
		return 0;
	if (!json_is_array(j))
		return set_json_type_error(where, key, "a list", j, err);
	if (json_array_size(j) > max)
		return error_set(err, ERR_LIMIT,
			"%s%s%s: expected at most %zu elements, found %zu", where,
			*where ? "." : "", key, max, json_array_size(j));
	*ret = j;
	return 0;
}

static json_t *write_unsigned(uint64_t v, uint64_t unknown)
{
	return v == unknown || v > INT64_MAX ? json_null() : json_integer((json_int_t)v);
}

static json_t *write_one(const void *from, enum record_kind kind)
{
	switch (kind) {
	case RECORD_TEXT: {
		const char *text = *(const char *const *)from;

		return text && *text ? json_string(text) : json_null();
	}
	case RECORD_BOOL:
		return json_boolean(*(const bool *)from);
	case RECORD_U32:
		return write_unsigned(*(const uint32_t *)from, UINT32_MAX);
	case RECORD_U64:
		return write_unsigned(*(const uint64_t *)from, UINT64_MAX);
	case RECORD_REAL:
		break;
	}
	return isfinite(*(const double *)from) ? json_real(*(const double *)from) : json_null();
}

json_t *record_write(const void *from, const struct record_field *fields, size_t n)
{
	json_t *o = json_object();

	for (size_t i = 0; o && i < n; i++)
		if (json_object_set_new(o, fields[i].key,
			    write_one((const char *)from + fields[i].offset, fields[i].kind)) <
			0) {
			json_decref(o);
			o = NULL;
		}
	return o;
}

/* --- lists --- */

json_t *json_by_id(const json_t *list)
{
	json_t *o = json_object();

	for (size_t i = 0; i < json_array_size(list); i++) {
		json_t *s = json_array_get(list, i);
		const char *id = json_string_value(json_object_get(s, "id"));

		if (id)
			(void)json_object_set(o, id, s);
	}
	return o;
}

const json_t *json_find_uuid(const json_t *list, const char *uuid)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *o = json_array_get(list, i);
		const char *own = json_string_value(json_object_get(o, "uuid"));

		if (own && !strcasecmp(own, uuid))
			return o;
	}
	return NULL;
}
