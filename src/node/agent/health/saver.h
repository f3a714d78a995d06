/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Saves the health of the node's GPUs in the state directory, for the next agent (saved.h has the format).
 * Thread: loop.
 */
#include "node/agent/base/facts.h"
#include "node/agent/base/report.h"

#include <uv.h>

struct health_saver {
	struct facts *facts; /* borrowed, like the reporter and both paths */
	const struct reporter *reporter;
	const char *state_dir, *procfs_root;
	uv_timer_t timer;
	char boot[64];
	char *written; /* content of the file; NULL: not this agent's */
	bool unsaved;  /* the last write failed */
};

/* @procfs_root: NULL: /proc. */
void health_saver_init(struct health_saver *s, uv_loop_t *loop, struct facts *facts,
	const struct reporter *reporter, const char *state_dir, const char *procfs_root);

/* Reads the file into the facts, before the first inventory. */
void health_saver_start(struct health_saver *s);

/* Writes the file if the health changed, but at most once per second. */
void health_saver_save(struct health_saver *s);

/* Writes the last change. The loop must run until the timer is closed. */
void health_saver_stop(struct health_saver *s);
void health_saver_fini(struct health_saver *s);
