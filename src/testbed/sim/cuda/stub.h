/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * For the generated files: stubs of what is not simulated, and what cuGetProcAddress knows. They must not see the
 * prototypes, which have parameters.
 * Thread: any.
 */
#include <stddef.h>

#define EXPORT __attribute__((visibility("default")))
#define WEAK   __attribute__((visibility("default"), weak))

/* The result of a function that is not simulated: 3 before cuInit(), else 801. */
unsigned int cuda_lib_stub(void);

/*
 * What cuGetProcAddress knows (lookups.txt), sorted by name and version. A caller may ask for the per-thread
 * default stream. Then cuGetProcAddress searches only the rows with such a function, if the name has any.
 */
struct sim_cuda_lookup {
	const char *name;
	int version; /* first CUDA version with the function */
	unsigned int (*function)(void);
	unsigned int (*per_thread)(void); /* NULL: the same for both kinds of default stream */
	int per_thread_version;
};

/* lookup_count rows. */
extern const struct sim_cuda_lookup lookups[];
extern const size_t lookup_count;
