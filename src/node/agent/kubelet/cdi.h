/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Keeps the CDI specifications of this node in sync with its GPUs, driver and config (docs/cdi.md), for the
 * device list strategies cdi-annotations and cdi-cri. Without these strategies it does nothing. The agent writes
 * a file only if its text changes, and never removes one, because containers restart while no agent runs.
 * Thread: loop.
 */
#include "node/agent/base/facts.h"
#include "lib/base/buf.h"
#include "model/allocate/allocate.h"
#include "io/cdi/cdi.h"

struct agent_cdi {
	const struct facts *facts; /* borrowed, like the paths */
	const char *sysfs_root;    /* NULL: /sys */
	const char *dir;           /* of the option */
	bool written[CDI_CLASSES]; /* the file is in place and current */
	struct error error;        /* why the GPUs' file is not in place; ERR_NONE: no error */
	/* Why a file of another class is not in place; does not affect the node. */
	struct error other_error;
	uint64_t checked_ns;  /* last check; 0: never, and none is due */
	uint64_t searched_ns; /* last search for the driver's files */
	/* paths whose stat() shows that a search would find something else */
	struct strv watched;
	struct buf stamp; /* the stat() of these paths at the last check */
	struct buf key;   /* the GPUs, driver and config at the last check */
};

/* @dir: NULL: CDI_DIR. */
void agent_cdi_init(struct agent_cdi *c, const struct facts *facts, const char *sysfs_root,
	const char *dir);
void agent_cdi_fini(struct agent_cdi *c);

/*
 * Checks whether the files are right and writes them. A check is due at once after a change of GPUs, driver or
 * config. Otherwise it is due every ten seconds, for a library that comes later or a file that was deleted. Such
 * a check is a stat() of a hundred paths. The agent searches for the driver's files only when a path has
 * changed, after a failure, and every ten minutes. Call this before devices are offered.
 */
void agent_cdi_sync(struct agent_cdi *c);

/* When the next check is due (monotonic, ns); UINT64_MAX: never. */
uint64_t agent_cdi_due(const struct agent_cdi *c);

/*
 * What an allocation needs to know, with a new random ID if the config has a CDI strategy. .why is borrowed until
 * the next check.
 */
int agent_cdi_facts(const struct agent_cdi *c, struct alloc_cdi *ret,
	struct error *err) MUST_USE;
