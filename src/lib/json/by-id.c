/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/json/by-id.h"

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
