/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Keeps the CDI specifications of this node as its GPUs, driver and config are (docs/cdi.md), for
 * the device list strategies cdi-annotations and cdi-cri; without them it does nothing. A file is
 * written only if it would be another one, and never removed: containers are restarted while no
 * agent runs.
 * Thread: loop.
 */
#include "lib/base/buf.h"
#include "model/allocate/allocate.h"
#include "io/cdi/cdi.h"

struct agent;

struct agent_cdi {
	const char *dir;           /* of the option; borrowed */
	bool written[CDI_CLASSES]; /* the file is in place, as it should be */
	struct error error;        /* why that of the GPUs is not; ERR_NONE: nothing is wrong */
	struct error other_error;  /* the same of the other classes: no matter of the node */
	uint64_t checked_ns;       /* last look; 0: never, and none is due */
	uint64_t searched_ns;      /* last search for the driver's files */
	struct strv watched; /* by which it shows that a search would find something else */
	struct buf stamp;    /* what was there before the last search */
	struct buf key;      /* the GPUs, driver and config that it was made for */
};

void agent_cdi_init(struct agent_cdi *c, const char *dir);
void agent_cdi_fini(struct agent_cdi *c);

/*
 * Looks whether the files are right and writes them: at once after a change of GPUs, driver or
 * config, else every ten seconds, for a library that comes later or a file that was deleted. Such a
 * look is a stat() of a hundred paths; the driver is searched only when one is another than before,
 * after a failure, and every ten minutes. Call it before devices are offered.
 */
void agent_cdi_sync(struct agent *a);

/* When to look again (monotonic); UINT64_MAX: never. */
uint64_t agent_cdi_due(const struct agent_cdi *c);

/* What an allocation has to know, with a new random id if @config has a CDI strategy. .why is
 * borrowed until the next look. */
int agent_cdi_facts(const struct agent_cdi *c, const struct config *config,
	struct alloc_cdi *ret, struct error *err) MUST_USE;
