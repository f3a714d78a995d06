/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What cuGetProcAddress knows (lookups.txt), sorted by name and version. A name of which any row has a
 * function for the per-thread default stream is looked up among those rows alone if that is asked for.
 */
#include <stddef.h>

struct lookup {
	const char *name;
	int version; /* from which on */
	unsigned int (*function)(void);
	unsigned int (*per_thread)(void); /* NULL: the same for both kinds of default stream */
	int per_thread_version;
};

extern const struct lookup lookups[];
extern const size_t lookup_count;
