/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Validates components one after the other, keeps the status files, waits, watches.
 *
 * A component is not looked at when one before it failed. With .wait a failure is tried again after
 * the interval, or as soon as something changes in a directory that matters (inotify). Watching
 * goes on after the first round: a component that fails .watch_failures times in a row loses its
 * ready file, and gets it back when it passes; files that could not be written are tried again in
 * the next round. SIGTERM and SIGINT end both; a watcher then takes back what it vouched for. A
 * signal that comes while a component runs ends the process at once, with status 0 for a watcher
 * and 1 else.
 * Thread: main; blocks.
 */
#include "tools/validate/validate.h"

struct run_options {
	enum validate_component list[VALIDATE_COUNT_];
	size_t n;
	bool skip;              /* leave out what makes no sense on this machine */
	const char *output_dir; /* of the status files; NULL or "": none are written */
	bool cleanup;           /* remove all status files first */
	bool wait;
	uint64_t interval_ns; /* between tries */
	uint64_t watch_ns;    /* between rounds; 0: do not watch */
	uint64_t watch_failures;
	/* A line about what is going on, without a line feed; NULL: nobody wants to know. */
	void (*progress)(const char *line);
};

#define RUN_ENDED 1 /* by a signal */

/*
 * One round. Fills @reports[options->n], which are to be released whatever this returns. The
 * verdict is in them; < 0 is what kept the round from being made at all.
 */
int run_round(const struct run_options *options, const struct validate_settings *settings,
	struct validate_report *reports, struct error *err) MUST_USE;

/* Round after round; returns RUN_ENDED. @reports are those of the last round. */
int run_watch(const struct run_options *options, const struct validate_settings *settings,
	struct validate_report *reports, struct error *err) MUST_USE;
