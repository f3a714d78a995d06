/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the parts of container/loader share. All symbols are hidden: each library has its own. */
#include "container/loader/forward.h"
#include "container/loader/parse/image.h"

#include <stdint.h>

#pragma GCC visibility push(hidden)

/* Of this library, made by gen-forward.py. Offsets instead of pointers: nothing to relocate. */
extern const char forward_soname[];
extern const char forward_absent_name[]; /* of a file that does not exist */
extern const uint32_t forward_count;     /* names, sorted; the index of a name is its slot */
/* The name of slot i is at forward_names + forward_name_at[i]. */
extern const char forward_names[];
extern const uint32_t forward_name_at[];
extern const uint32_t forward_spare_hash; /* of the spare symbols (complete.c) */
extern const uint32_t forward_hook_count; /* rows of forward_hook_table */
/* A slot, and the distance of its hook's address from .ours. */
extern const struct forward_hook {
	uint32_t slot;
	int32_t ours;
} forward_hook_table[];

/* cuda.c, nvml.c: the prefix of the real library's names, and the function that answers instead of @name. @absent:
 * the whole library is absent; else only this function is. */
extern const char forward_prefix[];
void *forward_answer(const char *name, bool absent);

/* load.c. Loads the real library; tries the file @path first, unless NULL. True: it is loaded. While the library
 * is absent, each call tries again. */
bool forward_load_from(const char *path);
/* Whether the real library is loaded. Loads nothing. */
bool forward_loaded(void);

/* find.c. Calls @use with the path of each candidate until @use returns true: @first (unless NULL), then the
 * files in the loader's own order. */
bool find_real(const char *first, bool (*use)(const char *path, void *arg), void *arg);

/* Whether the file at @path begins as a shared library for this machine does. */
bool find_is_library(const char *path);

/* complete.c. Makes the names of this library's symbol table those of @real. The caller has the claim of load.c,
 * so no other such call runs. A child forked during a call repeats it. */
void complete_names(const struct loader_image *real);

/* dl.c. Calls @use with each directory of LD_LIBRARY_PATH and the like, as the loader knows them, until @use
 * returns true. @defaults: with the system's own directories instead. */
bool dl_directories(bool defaults, bool (*use)(const char *dir, void *arg), void *arg);

#pragma GCC visibility pop
