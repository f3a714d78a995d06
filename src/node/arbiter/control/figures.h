/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The compute figures in the answer to "status" (abi/arbiter-control.h): figures of the scheduler thread, as JSON.
 * A value that could not be made (no memory) is left out. Thread: loop.
 */
#include "node/arbiter/internal.h"
#include "node/arbiter/scheduler/scheduler.h"

#include <jansson.h>

/* Figures of one slice. */
struct compute_figures {
	struct scheduler_slice_figures slice; /* .n_gpus 0: it never had compute */
	/* One entry per process, sorted by .pid and .start: from its oldest registration, with the sum over all
	 * its registrations on each GPU. */
	struct scheduler_process_figures *processes;
	size_t n;
};

/* < 0: no memory. */
int compute_figures_read(struct compute_figures *ret, const struct arbiter_slice *s) MUST_USE;
void compute_figures_fini(struct compute_figures *f);

/* NULL: the process has no registration for quanta in this slice. */
const struct scheduler_process_figures *compute_figures_find(const struct compute_figures *f,
	uint32_t pid, uint64_t start);

/* Add the slice's figures to one object each. */
void compute_slice_json(const struct compute_figures *f, const struct arbiter_slice *s,
	json_t *slice);
void compute_gpu_json(const struct compute_figures *f, const uint8_t *uuid, json_t *gpu);
/* Whether there are figures of that GPU. */
bool compute_has_gpu(const struct compute_figures *f, const uint8_t *uuid);
void compute_process_json(const struct compute_figures *f,
	const struct scheduler_process_figures *p, const uint8_t *uuid, json_t *gpu);
json_t *compute_gpus_json(struct arbiter *a);
