/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The two facts of a CDI spec that a validation needs: its kind, and the names of its devices. JSON or
 * YAML. The reader ignores what the spec puts into a container.
 * Thread: any (pure).
 */
#include "lib/base/error.h"
#include "lib/base/strv.h"

#include <stddef.h>

#define CDI_SPEC_MAX    (4 * 1024 * 1024) /* limit of a file, bytes */
#define CDI_DEVICES_MAX 4096              /* limit of one spec */

struct cdi_spec {
	char kind[128];      /* "nvidia.com/gpu" */
	struct strv devices; /* names */
};

/* @name is for messages. ERR_INVALID: the text names the fault. */
int cdi_spec_read(struct cdi_spec *ret, const char *name, const char *text, size_t len,
	struct error *err) MUST_USE;
void cdi_spec_fini(struct cdi_spec *s);
