/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The little of a CDI spec that a validation asks for: its kind, and the names of its devices. JSON
 * or YAML. What the spec puts into a container is the runtime's business.
 * Thread: any (pure).
 */
#include "lib/base/error.h"
#include "lib/base/strv.h"

#include <stddef.h>

#define CDI_SPEC_MAX    (4 * 1024 * 1024) /* bytes of a file */
#define CDI_DEVICES_MAX 4096              /* of one spec */

struct cdi_spec {
	char kind[128];      /* "nvidia.com/gpu" */
	struct strv devices; /* names */
};

/* @name is for messages. ERR_INVALID names what is wrong with the text. */
int cdi_spec_read(struct cdi_spec *ret, const char *name, const char *text, size_t len,
	struct error *err) MUST_USE;
void cdi_spec_fini(struct cdi_spec *s);
