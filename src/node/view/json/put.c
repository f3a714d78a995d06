/* SPDX-License-Identifier: Apache-2.0 */
#include "node/view/json/internal.h"

#include "lib/base/time.h"

void json_set_value(struct json_maker *m, json_t *object, const char *key, json_t *value)
{
	if (json_object_set_new_nocheck(object, key, value) != 0)
		m->failed = true;
}

void json_add(struct json_maker *m, json_t *array, json_t *value)
{
	if (json_array_append_new(array, value) != 0)
		m->failed = true;
}

json_t *json_set_array(struct json_maker *m, json_t *object, const char *key)
{
	json_set_value(m, object, key, json_array());
	return json_object_get(object, key);
}

json_t *json_add_object(struct json_maker *m, json_t *array)
{
	json_add(m, array, json_object());
	return json_array_get(array, json_array_size(array) - 1);
}

/* No counter comes near INT64_MAX. A wrong figure must not become negative. */
json_t *json_u64(uint64_t n)
{
	return json_integer(n > INT64_MAX ? INT64_MAX : (json_int_t)n);
}

void json_set_cost(struct json_maker *m, json_t *object, const char *key, uint64_t nano)
{
	bool known = m->v->priced && nano != JSON_COST_UNKNOWN;

	json_set_value(m, object, key, known ? json_u64(nano) : json_null());
}

static json_t *build_json_text(const char *s, bool empty_is_unknown)
{
	return s && (*s || !empty_is_unknown) ? json_string(s) : json_null();
}

static json_t *build_json_time(uint64_t wall_ns)
{
	char s[TIME_RFC3339_MAX];

	if (wall_ns == 0)
		return json_null();
	time_rfc3339(wall_ns, s);
	return json_string(s);
}

static json_t *build_json_u32(uint32_t n, uint32_t unknown)
{
	return n == unknown ? json_null() : json_integer(n);
}

static json_t *build_json_u64(uint64_t n, uint64_t unknown)
{
	return n == unknown ? json_null() : json_u64(n);
}

static json_t *build_json_value(enum json_kind kind, const void *at)
{
	switch (kind) {
	case JSON_KIND_TEXT:
	case JSON_KIND_TEXT_KNOWN:
		return build_json_text(*(const char *const *)at, kind == JSON_KIND_TEXT_KNOWN);
	case JSON_KIND_BOOL:
		return json_boolean(*(const bool *)at);
	case JSON_KIND_U32:
		return json_integer(*(const uint32_t *)at);
	case JSON_KIND_U32_NONE:
		return build_json_u32(*(const uint32_t *)at, VIEW_NONE);
	case JSON_KIND_U32_ZERO:
		return build_json_u32(*(const uint32_t *)at, 0);
	case JSON_KIND_NUMA:
		return *(const int32_t *)at < 0 ? json_null()
						: json_integer(*(const int32_t *)at);
	case JSON_KIND_INT:
		return json_integer(*(const int *)at);
	case JSON_KIND_U64:
		return json_u64(*(const uint64_t *)at);
	case JSON_KIND_U64_MAX:
		return build_json_u64(*(const uint64_t *)at, UINT64_MAX);
	case JSON_KIND_U64_ZERO:
		return build_json_u64(*(const uint64_t *)at, 0);
	case JSON_KIND_TIME:
		return build_json_time(*(const uint64_t *)at);
	case JSON_KIND_MODE:
		return json_string(view_mode_name(*(const enum view_mode *)at));
	case JSON_KIND_HEALTH:
		return json_string(view_health_name(*(const enum view_health *)at));
	case JSON_KIND_SOURCE:
		return build_json_text(view_source_name(*(const enum view_source *)at), true);
	}
	return NULL;
}

static bool is_json_row_known(const struct json_row *r, const unsigned char *of)
{
	return r->known == JSON_ALWAYS || *(const bool *)(of + r->known);
}

void json_set_rows(struct json_maker *m, json_t *object, const struct json_row *rows,
	const void *of)
{
	for (const struct json_row *r = rows; r->key; r++) {
		const void *at = (const unsigned char *)of + r->at;

		json_set_value(m, object, r->key,
			is_json_row_known(r, of) ? build_json_value(r->kind, at) : json_null());
	}
}
