/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Keeps the CDI specifications of this node as its GPUs, driver and config are (docs/cdi.md), for
 * the device list strategies cdi-annotations and cdi-cri; without them it does nothing. A file is
 * written only if it would be another one, and never removed: containers are restarted while no
 * agent runs.
 * Thread: loop.
 */
#include "base/buf.h"
#include "core/allocate.h"
#include "kube/cdi/cdi.h"

struct agent;

struct agent_cdi {
	const char *dir;           /* of the option; borrowed */
	bool written[CDI_CLASSES]; /* the file is in place, as it should be */
	struct error error;        /* why that of the GPUs is not; ERR_NONE: nothing is wrong */
	uint64_t looked_ns;        /* last search for the driver's files; 0: never */
	struct buf key;            /* the GPUs, driver and config that it was made for */
};

void agent_cdi_init(struct agent_cdi *c, const char *dir);
void agent_cdi_fini(struct agent_cdi *c);

/* Looks whether the files are right and writes them: at once after a change of GPUs, driver or
 * config, else every ten seconds, for a library that comes later or a file that was deleted. Call
 * it before devices are offered. */
void agent_cdi_look(struct agent *a);

/* What an allocation has to know, with a new random id. .why is borrowed until the next look. */
int agent_cdi_facts(const struct agent_cdi *c, struct alloc_cdi *ret,
	struct error *err) MUST_USE;
