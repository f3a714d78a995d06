/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The worker's thread that waits for XIDs, with one NVML event set for all GPUs that have them. When the GPUs
 * change, the thread replaces the set as soon as the running wait ends (5 s at most). GPUs that cannot send events
 * are only probed; their .xid_events says so.
 *
 * Thread: worker_events_update() and worker_events_failed() the worker's main thread.
 */
#include "model/gpu/gpu.h"
#include "io/nvml/nvml.h"
#include "io/nvml/probe/probe.h"

#define WORKER_EVENTS_WAIT_MS 5000

/* Sends one message to the agent. Thread: any. */
typedef void worker_send_fn(union worker_msg *m);

struct worker_events;

/* Starts no thread yet. @nvml and @crumb are borrowed for the life of the process, as is *ret. The event
 * thread stores its breadcrumbs in @crumb, and calls @send. ERR_NOMEM. */
int worker_events_new(struct worker_events **ret, const struct nvml *nvml,
	_Atomic uint64_t *crumb, worker_send_fn *send, struct error *err) MUST_USE;

/* Listens to these GPUs from now on. The first GPU with events starts the thread. */
int worker_events_update(struct worker_events *e, uint32_t n, const struct gpu *gpus,
	const nvmlDevice_t *devices, struct error *err) MUST_USE;

/* Whether NVML refused events of this GPU although it reports that it supports them. */
bool worker_events_failed(struct worker_events *e, const char *uuid);
