/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The parts of `gpuslice profile`. Thread: main. */
#include "lib/base/option.h"
#include "tools/bench/profile/profile.h"
#include "tools/bench/suite/suite.h"
#include "tools/cli/bench/bench.h"

#include <sys/types.h>

#define PROFILE_OUTPUT_MAX  (1U << 20)
#define PROFILE_NAME_MAX    63
#define PROFILE_COMMAND_MAX 4096
#define PROFILE_UID_MAX     37

struct profile_request {
	const char *kind, *save_path;
	char name[PROFILE_NAME_MAX + 1], command[PROFILE_COMMAND_MAX],
		shown[PROFILE_COMMAND_MAX];
	const char *pod; /* NULL */
	pid_t pid;       /* 0 */
	double observe_s;
	size_t n_shares; /* shares of the multiprocessors, without 100 % */
	bool yaml, silent;
};

/* Read the options of the request; words are borrowed from @o. ERR_INVALID, ERR_LIMIT. Called first. */
int profile_read_words(struct profile_request *request, const struct options *o,
	struct error *err) MUST_USE;
int profile_read_form(struct profile_request *request, const struct options *o,
	struct error *err) MUST_USE;
/* Called next, unless the request only observes: makes the suite. @room must outlive it. */
int profile_read_suite(struct suite *s, struct suite_workload *room,
	struct profile_request *request, const struct options *o, struct error *err) MUST_USE;

/* Observes the processes of .pid or .pod, and prints the profile. */
int profile_run_observation(const struct profile_request *request, const struct options *o,
	struct error *err) MUST_USE;

/* Prints the measured profile, and saves it if requested. EXIT_INCONCLUSIVE: a figure could not be
 * measured or was disturbed. */
int profile_show(const struct bench_result *r, const struct bench_windows *w,
	const struct profile_request *request, const struct suite *s,
	struct error *err) MUST_USE;

/* Saves @yaml if requested, and prints @yaml or @text. */
int profile_out(const struct profile_request *request, const struct buf *yaml,
	const struct buf *text, struct error *err) MUST_USE;

/* The figures, and the source of each. */
void profile_table(struct buf *b, const struct profile *p);

/* The planner's name of a GPU, from NVML's name; "": unknown to the planner. */
const char *profile_gpu(const char *name);
