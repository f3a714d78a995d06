/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One life of the process that calls CUDA, from outside: what it said of which device, and how it
 * ended. Kills it when one call takes too long. Thread: main; blocks up to the deadlines.
 */
#include "lib/base/strv.h"
#include "tools/validate/cuda/note.h"

#include <stdbool.h>

enum cuda_end {
	CUDA_END_REPORTED, /* .last is its END note: all devices were tried, or why none */
	CUDA_END_HUNG,     /* in .last's step */
	CUDA_END_CRASHED,  /* in .last's step; .how says by what */
};

struct cuda_run {
	int count;                 /* devices that CUDA sees; -1: it did not come so far */
	struct cuda_note *results; /* in the order in which they came */
	size_t n_results;
	enum cuda_end end;
	struct cuda_note last;
	char how[96];
};

/* Sees only @uuids (a comma list for CUDA_VISIBLE_DEVICES; NULL: leaves that variable alone). < 0:
 * the process could not be started or talks nonsense. */
int cuda_run(struct cuda_run *ret, const char *library, const char *uuids, uint64_t timeout_ns,
	struct error *err) MUST_USE;
void cuda_run_fini(struct cuda_run *r);
