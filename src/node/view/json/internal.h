/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Private to src/node/view: how the JSON is built. After a lack of memory all functions go on, and .failed
 * reports it at the end. So no function here has a result to check.
 * Thread: owner's.
 */
#include "node/view/json/rows.h"

#include <jansson.h>

struct json_maker {
	const struct view *v;
	bool failed;
};

/* Takes @value; NULL: out of memory. */
void json_set_value(struct json_maker *m, json_t *object, const char *key, json_t *value);
/* Adds an empty array to @object. Borrowed; NULL: out of memory, which all functions accept. */
json_t *json_set_array(struct json_maker *m, json_t *object, const char *key);
json_t *json_add_object(struct json_maker *m, json_t *array);
void json_add(struct json_maker *m, json_t *array, json_t *value);
void json_set_rows(struct json_maker *m, json_t *object, const struct json_row *rows,
	const void *of);
/* Money is null without a price, and for this value. */
#define JSON_COST_UNKNOWN UINT64_MAX
void json_set_cost(struct json_maker *m, json_t *object, const char *key, uint64_t nano);
json_t *json_u64(uint64_t n);

void json_set_use(struct json_maker *m, json_t *object, const struct view_use *use);
void json_set_pods(struct json_maker *m, json_t *root); /* pods.c */
