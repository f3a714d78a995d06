/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the parts of forward/ share. All symbols are hidden: each library has its own. */
#include "container/loader/dl.h"
#include "container/loader/forward.h"
#include "container/loader/parse/image.h"

#include <stdint.h>

#pragma GCC visibility push(hidden)

/* Of this library, made by gen-forward.py. Offsets instead of pointers: nothing to relocate. */
extern const char forward_soname[];
extern const char forward_absent_name[]; /* of a file that does not exist */
extern const uint32_t forward_count;     /* names, sorted; a name's place is its slot */
extern const char forward_names[];
extern const uint32_t forward_name_at[];
extern const uint32_t forward_spare_hash;
extern const uint32_t forward_hook_count;
/* A slot, and how far its hook's address is from .ours. */
extern const struct forward_hook {
	uint32_t slot;
	int32_t ours;
} forward_hook_table[];

/* absent-*.c: the beginning of the real library's names, and what answers instead of @name: the
 * whole library is @absent, or has no such function. */
extern const char forward_prefix[];
void *forward_answer(const char *name, bool absent);

/* load.c. Loads the real library; @path, unless NULL, is a file that is to be tried first.
 * Again and again while there is none. */
bool forward_load_from(const char *path);
bool forward_loaded(void);

/* find.c: calls @use with the path of each candidate, @first (unless NULL) and then in the loader's own order, until it
 * says true. */
bool find_real(const char *first, bool (*use)(const char *path, void *arg), void *arg);

bool find_is_library(const char *path);

/* complete.c: makes what is found by name in this library what is found in @real. Called once, with
 * no other such call under way, or again after a fork in the middle of it. */
void complete_names(const struct loader_image *real);

/* dl.c: the directories of LD_LIBRARY_PATH and the like, as the loader knows them; each to @use until it
 * says true. @defaults: the system's own instead. */
bool dl_directories(bool defaults, bool (*use)(const char *dir, void *arg), void *arg);

#pragma GCC visibility pop
