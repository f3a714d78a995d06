/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Macros of libraries that cppcheck must expand to see a loop (tools/check-cppcheck.sh). */
#define json_array_foreach(array, i, value)                                               \
	for ((i) = 0;                                                                     \
		(i) < json_array_size(array) && ((value) = json_array_get((array), (i))); \
		(i)++)
#define json_object_foreach(object, key, value)                               \
	for ((key) = json_next(object); (key) && ((value) = json_at(object)); \
		(key) = json_next(object))
