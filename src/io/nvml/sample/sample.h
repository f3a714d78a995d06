/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The worker's side of sampling: reads the figures of all GPUs and MIG devices of the last look and sends
 * them. A GPU that the look left alone or found lost is not touched; one that says in the middle that it
 * is lost is not asked further. The agent hears of both by what is missing.
 * Thread: the worker's main thread.
 */
#include "io/nvml/worker/events.h"
#include "io/nvml/probe/mig.h"

struct nvml_sampler;

struct nvml_sampler *nvml_sampler_new(struct probe *p,
	worker_send_fn *send); /* NULL: no memory */

/* Answers @q about the @n GPUs in @gpus, whose handles are in @devices (NULL: leave it alone). */
void nvml_sampler_run(struct nvml_sampler *s, const struct worker_sample *q, uint32_t n,
	const struct gpu *gpus, const nvmlDevice_t *devices, const struct probe_mig *migs);
