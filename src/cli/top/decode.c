/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top/decode.h"

#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

static const char *type_name(const json_t *j)
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

static int wrong(const char *where, const char *key, const char *expected, const json_t *j,
	struct error *err)
{
	return error_set(err, ERR_INVALID, "%s%s%s: expected %s, found %s", where,
		*where && *key ? "." : "", *where || *key ? key : "the document", expected,
		type_name(j));
}

static int set_unsigned(void *to, const json_t *j, uint64_t max, const char *where,
	const char *key, struct error *err)
{
	json_int_t value;

	if (!json_is_integer(j))
		return wrong(where, key, "an integer", j, err);
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

static int set(void *to, const json_t *j, const struct decode_field *f, const char *where,
	struct error *err)
{
	switch (f->kind) {
	case DECODE_TEXT:
		if (!json_is_string(j))
			return wrong(where, f->key, "a text", j, err);
		*(const char **)to = json_string_value(j);
		return 0;
	case DECODE_BOOL:
		if (!json_is_boolean(j))
			return wrong(where, f->key, "true or false", j, err);
		*(bool *)to = json_is_true(j);
		return 0;
	case DECODE_U32:
		return set_unsigned(to, j, UINT32_MAX, where, f->key, err);
	case DECODE_U64:
		return set_unsigned(to, j, UINT64_MAX, where, f->key, err);
	case DECODE_REAL:
		if (!json_is_number(j))
			return wrong(where, f->key, "a number", j, err);
		*(double *)to = json_number_value(j);
		return 0;
	}
	return 0;
}

static void set_unknown(void *to, enum decode_kind kind)
{
	switch (kind) {
	case DECODE_TEXT:
		*(const char **)to = "";
		break;
	case DECODE_BOOL:
		*(bool *)to = false;
		break;
	case DECODE_U32:
		*(uint32_t *)to = UINT32_MAX;
		break;
	case DECODE_U64:
		*(uint64_t *)to = UINT64_MAX;
		break;
	case DECODE_REAL:
		*(double *)to = NAN;
		break;
	}
}

int decode_object(void *to, const json_t *object, const struct decode_field *fields, size_t n,
	const char *where, struct error *err)
{
	if (object && !json_is_object(object) && !json_is_null(object))
		return wrong(where, "", "an object", object, err);
	for (size_t i = 0; i < n; i++) {
		void *at = (char *)to + fields[i].offset;
		const json_t *j = json_object_get(object, fields[i].key);

		set_unknown(at, fields[i].kind);
		if (j && !json_is_null(j) && set(at, j, &fields[i], where, err) < 0)
			return -1;
	}
	return 0;
}

int decode_array(const json_t **ret, const json_t *object, const char *key, size_t max,
	const char *where, struct error *err)
{
	const json_t *j = json_object_get(object, key);

	*ret = NULL;
	if (!j || json_is_null(j))
		return 0;
	if (!json_is_array(j))
		return wrong(where, key, "a list", j, err);
	if (json_array_size(j) > max)
		return error_set(err, ERR_LIMIT,
			"%s%s%s: expected at most %zu elements, found %zu", where,
			*where ? "." : "", key, max, json_array_size(j));
	*ret = j;
	return 0;
}
