/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Validates components one after the other, writes the status files, waits, watches.
 *
 * Round. A failure skips the components after it. With .wait a failed component runs again after
 * .interval_ns, or as soon as a relevant directory changes (inotify).
 *
 * Watch. After the first round the watcher validates the components every .watch_ns; a failure skips
 * none there. A component that fails .watch_failures times in a row loses its ready file, and gets it
 * back at the next pass. The next round repeats a failed write of files.
 *
 * Signals. SIGTERM and SIGINT end both waiting and watching; a watcher then removes the files of its
 * components. A signal while a component runs ends the process at once: a watcher with status 0,
 * otherwise with 1.
 * Thread: main; blocks.
 */
#include "tools/validate/validate.h"

struct run_options {
	enum validate_component list[VALIDATE_COUNT_];
	size_t n;
	bool skip;              /* skip components that do not apply to this machine */
	const char *output_dir; /* for the status files; NULL or "": none */
	bool cleanup;           /* remove all status files first */
	bool wait;
	uint64_t interval_ns; /* between tries */
	uint64_t watch_ns;    /* between rounds; 0: do not watch */
	uint64_t watch_failures;
	/* Receives progress lines without a line feed; NULL: none. */
	void (*progress)(const char *line);
};

#define RUN_ENDED 1 /* by a signal */

/*
 * One round. Fills @reports[options->n] with the results; the caller releases the reports whatever
 * this returns. RUN_ENDED: a signal came. < 0: the round could not start.
 */
int run_round(const struct run_options *options, const struct validate_settings *settings,
	struct validate_report *reports, struct error *err) MUST_USE;

/* Repeats rounds until a signal comes; returns RUN_ENDED. @reports are those of the last round. < 0:
 * the first round could not start. */
int run_watch(const struct run_options *options, const struct validate_settings *settings,
	struct validate_report *reports, struct error *err) MUST_USE;
