/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What cuGetProcAddress knows (lookups.txt), sorted by name and version. A caller may ask for the per-thread
 * default stream. Then cuGetProcAddress searches only the rows with such a function, if the name has any.
 */
#include <stddef.h>

struct lookup {
	const char *name;
	int version; /* first CUDA version with the function */
	unsigned int (*function)(void);
	unsigned int (*per_thread)(void); /* NULL: the same for both kinds of default stream */
	int per_thread_version;
};

extern const struct lookup lookups[];
extern const size_t lookup_count;
