/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the answer to "status" (abi/arbiter-control.h) says of compute: figures of the scheduler's thread, as JSON.
 * What could not be made is missing, and shows as no memory at the end. Thread: loop.
 */
#include "node/arbiter/internal.h"
#include "node/arbiter/scheduler/scheduler.h"

#include <jansson.h>

/* Those of a slice. */
struct compute_figures {
	struct scheduler_slice_figures slice; /* .n_gpus 0: it never had turns */
	/* One for each process, by .pid and .start: of its oldest registration, and on each GPU the sum of all. */
	struct scheduler_process_figures *processes;
	size_t n;
};

/* < 0: no memory. */
int compute_figures_read(struct compute_figures *ret, const struct arbiter_slice *s) MUST_USE;
void compute_figures_fini(struct compute_figures *f);

/* NULL: the process takes no turns in this slice. */
const struct scheduler_process_figures *compute_figures_find(const struct compute_figures *f,
	uint32_t pid, uint64_t start);

/* What the slice has to say, into an object each. */
void compute_slice_json(const struct compute_figures *f, const struct arbiter_slice *s,
	json_t *slice);
void compute_gpu_json(const struct compute_figures *f, const uint8_t *uuid, json_t *gpu);
/* Whether there are figures of that GPU. */
bool compute_has_gpu(const struct compute_figures *f, const uint8_t *uuid);
void compute_process_json(const struct compute_figures *f,
	const struct scheduler_process_figures *p, const uint8_t *uuid, json_t *gpu);
json_t *compute_gpus_json(struct arbiter *a);
