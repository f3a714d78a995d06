/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads a CDI specification of any vendor, JSON or YAML, as far as two questions need: which devices
 * it names, and whether a container runtime accepts it. A runtime ignores the whole file if the file
 * has keys unknown to CDI, bad names, or devices without edits.
 * Thread: any.
 */
#include "lib/base/strv.h"

#define CDI_LIST_DEVICES_MAX 8192 /* in one file */

struct cdi_listed {
	char *kind;          /* "vendor.com/class" */
	struct strv devices; /* names, in the order of the file */
};

/* Errors begin with "@name:line:column: ". Release *ret with cdi_listed_fini(), also after an error. */
int cdi_list_parse(struct cdi_listed *ret, const char *name, const char *text, size_t len,
	struct error *err) MUST_USE;
void cdi_listed_fini(struct cdi_listed *l);
