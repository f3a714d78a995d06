/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The parts of cdi_search(). Inside src/io/cdi only. Thread: any. */
#include "io/cdi/cdi.h"

struct cdi_search_context {
	const struct config *config;
	const struct inventory *inv;
	const char *sysfs;
	const char *seen; /* the driver root in this process's view */
	struct cdi_found *found;
	struct error *err;
};

/* Each finds its files or nodes and adds them to .found; a missing one is no error. */
int search_libraries(struct cdi_search_context *s) MUST_USE;
int search_nodes(struct cdi_search_context *s) MUST_USE;

/* Whether a library directory below @root has the libcuda of this driver version, for this machine. */
bool search_has_driver(const char *root, const char *version);

/* Adds @path below @root to .watched: the result depends on it. */
int search_watch(struct cdi_search_context *s, const char *root, const char *path) MUST_USE;

/* "a-b_c+1.so": whether @name needs no escape in a path, a pattern and JSON. */
bool search_name_plain(const char *name);

/* Adds the file @path of the driver root if it exists. Returns > 0 if added. */
int search_add_file(struct cdi_search_context *s, struct cdi_edits *to, enum cdi_file_kind kind,
	const char *path) MUST_USE;
