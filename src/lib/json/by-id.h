/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>

/*
 * The objects of @list, an array or NULL, as an object by the text of their key "id". Those without one are left out.
 * A new reference; NULL: no memory. Thread: any.
 */
json_t *json_by_id(const json_t *list);
