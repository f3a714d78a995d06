/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>

/* The objects of @list (an array or NULL) as one object, with the text of each one's "id" as its key. Leaves
 * out objects without an id. Returns a new reference; NULL: no memory. Thread: any. */
json_t *json_by_id(const json_t *list);
