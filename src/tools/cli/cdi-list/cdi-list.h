/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Anybody's CDI specification, JSON or YAML, as far as one has to read it to say which devices it
 * names, and whether a container runtime would take it: keys that CDI does not have, bad names and
 * devices without edits make a runtime pass over the whole file.
 * Thread: any.
 */
#include "lib/base/strv.h"

#define CDI_LIST_DEVICES_MAX 8192 /* of one file */

struct cdi_listed {
	char *kind;          /* "vendor.com/class" */
	struct strv devices; /* names, in the order of the file */
};

/* Errors begin with "@name:line:column: ". *ret is released also after an error. */
int cdi_list_parse(struct cdi_listed *ret, const char *name, const char *text, size_t len,
	struct error *err) MUST_USE;
void cdi_listed_fini(struct cdi_listed *l);
