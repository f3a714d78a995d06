/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One attempt (mig/mig.h), for the files that have its phases. phases.c: the phases, and their table. attempt.c:
 * changes of phase, failure and end, and how the tool runs. A phase may enter the next one at any time. Its
 * functions must do nothing after that.
 * Thread: loop.
 */
#include "node/agent/mig/mig.h"
#include "lib/base/log.h"

void mig_enter_phase(struct mig *m, enum mig_phase phase);

/*
 * Ends the attempt, after the phases that put back what it took away. The first reason counts. @in_use: a retry
 * soon disturbs no process.
 */
void mig_fail(struct mig *m, bool in_use, const struct error *err);
void mig_fail_text(struct mig *m, enum error_code code, const char *fmt, ...) PRINTF(3, 4);
void mig_finish(struct mig *m); /* .outcome has the result */

/* --- the tool --- */

void mig_tool_run(struct mig *m, bool dry_run, const struct child_ops *ops);
int mig_tool_line(void *arg, const char *line, size_t len, struct error *err);
/* False: the tool did not end properly, or reports a failure. Then *in_use and *err are set. */
bool mig_tool_ended_well(const struct mig *m, const struct child_end *e, bool *in_use,
	struct error *err);
