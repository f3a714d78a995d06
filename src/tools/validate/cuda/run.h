/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One run of the process that calls CUDA, in the process that watches it: the results of each device,
 * and how the run ended. Kills the CUDA process if one call takes too long. Thread: main; blocks up to
 * the deadlines.
 */
#include "lib/base/strv.h"
#include "tools/validate/cuda/note.h"

#include <stdbool.h>

enum cuda_end {
	CUDA_END_REPORTED, /* .last is the END note: all devices were tested, or why none */
	CUDA_END_HUNG,     /* in the step of .last */
	CUDA_END_CRASHED,  /* in the step of .last; .how describes the end */
};

struct cuda_run {
	int count;                 /* devices that CUDA sees; -1: no COUNT note came */
	struct cuda_note *results; /* in the order of arrival */
	size_t n_results;
	enum cuda_end end;
	struct cuda_note last;
	char how[96];
};

/* Runs CUDA on @uuids only (a comma list for CUDA_VISIBLE_DEVICES; NULL: does not set that
 * variable). < 0: the process could not be started, or sent a malformed note. */
int cuda_run(struct cuda_run *ret, const char *library, const char *uuids, uint64_t timeout_ns,
	struct error *err) MUST_USE;
void cuda_run_fini(struct cuda_run *r);
