/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The worker's side of sampling: reads the figures of all GPUs and MIG devices of the last probe and sends them.
 * The sampler does not touch a GPU that the probe skipped or found lost. The agent sees that by the missing
 * device. If a GPU reports in the middle that it is lost, the sampler asks it no further, and sends the reason
 * with what it has.
 *
 * Thread: the worker's main thread.
 */
#include "io/nvml/worker/events.h"
#include "io/nvml/probe/mig.h"

struct nvml_sampler;

/* Borrows @p for as long as the sampler, which lives as long as the process. NULL: no memory. */
struct nvml_sampler *nvml_sampler_new(struct probe *p, worker_send_fn *send);

/* Answers @q about the @n GPUs in @gpus with the handles @devices (NULL: a GPU to skip). */
void nvml_sampler_run(struct nvml_sampler *s, const struct worker_sample *q, uint32_t n,
	const struct gpu *gpus, const nvmlDevice_t *devices, const struct probe_mig *migs);
