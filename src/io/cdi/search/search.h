/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The parts of cdi_search(), for the files of this folder only. Thread: any. */
#include "io/cdi/cdi.h"

struct cdi_search_context {
	const struct config *config;
	const struct inventory *inv;
	const char *sysfs;
	const char *seen; /* the driver root, as it is seen from here */
	struct cdi_found *found;
	struct error *err;
};

/* Each finds its things and adds them to .found; a missing one is no error. */
int search_libraries(struct cdi_search_context *s) MUST_USE;
int search_files(struct cdi_search_context *s) MUST_USE;
int search_nodes(struct cdi_search_context *s) MUST_USE;

/* Whether the directory of libraries below @root has the libcuda of this driver version. */
bool search_has_driver(const char *root, const char *version);

/* Notes that the result depends on what is at @path below @root. */
int search_watch(struct cdi_search_context *s, const char *root, const char *path) MUST_USE;

/* "a-b_c+1.so": may stand in a path, a pattern and JSON as it is. */
bool search_name_plain(const char *name);

/* Adds the file @path of the driver root if it is there; > 0 if so. */
int search_add_file(struct cdi_search_context *s, struct cdi_edits *to, enum cdi_file_kind kind,
	const char *path) MUST_USE;

/* *@array of @n elements of @size grows by one zeroed element, which is returned; NULL: no memory. */
void *cdi_grow(void *array, size_t *n, size_t size);
