/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The node's GPUs through NVML, which runs in a separate process.
 *
 * Reasons. NVML runs in the process gpuslice-nvml (in libexec). A call on a sick GPU may hang forever. The library
 * may crash. Only a new process can load the library of an upgraded driver.
 *
 *	agent (loop) ── socket pair, one packet per message ── gpuslice-nvml ── dlopen(libnvidia-ml)
 *
 * A call that hangs.
 *	1. Before each call the worker stores the call and its GPU in a page shared with the agent.
 *	2. The agent sees that the call passes its deadline, and kills the worker.
 *	3. The agent reports that GPU as stuck, with the fields of its last good answer.
 *	4. The agent starts a new worker, which does not touch the GPU until the time for a retry.
 *
 * The module does not know whether the library is the real one or the simulator's. Thread: loop.
 */
#include "model/gpu/gpu.h"
#include "model/gpu/sample.h"

#include <uv.h>

struct gpu_monitor;

struct gpu_monitor_options {
	const char *nvml_path;    /* library to open; NULL or "": see nvml_find() */
	const char *driver_root;  /* root of the driver container: see nvml_find(); NULL */
	const char *sysfs_root;   /* "/sys" if NULL; for numa_node and the PCI class */
	const char *procfs_root;  /* "/proc" if NULL; for the capabilities of MIG instances */
	const char *worker_path;  /* the worker program; NULL: libexec_find() */
	uint64_t call_timeout_ns; /* limit of one NVML call; 0: 5 s */
	uint64_t stuck_retry_ns;  /* time until a stuck GPU is retried; 0: 60 s */
};

struct gpu_monitor_ops {
	/* A new probe of all GPUs; borrowed for the call. It includes stuck GPUs, with their fault. */
	void (*inventory)(void *arg, const struct inventory *inv);
	/*
	 * NVML cannot be used now. Causes:
	 *	- no driver, no library, a version mismatch, or a worker that cannot start;
	 *	- the worker hung outside of any GPU, or violated the protocol;
	 *	- the worker crashed twice without an inventory in between, and the last inventory is 5 s old.
	 * The monitor retries with back-off and calls this each time.
	 */
	void (*down)(void *arg, const struct error *why);
	/*
	 * @gi and @ci are UINT32_MAX if the event is not about a MIG instance. @uuid is "" if NVML did not say
	 * which GPU it is.
	 */
	void (*xid)(void *arg, const char *uuid, uint32_t xid, uint32_t gi, uint32_t ci);
};

/* Starts, with a probe at once. The callbacks run from the loop only. */
int gpu_monitor_start(struct gpu_monitor **ret, uv_loop_t *loop,
	const struct gpu_monitor_options *options, const struct gpu_monitor_ops *ops, void *arg,
	struct error *err) MUST_USE;

/* In ops.down: whether NVML refuses because its library does not fit the loaded kernel module. */
bool gpu_monitor_mismatch(const struct gpu_monitor *m);

/* Requests a probe now. */
void gpu_monitor_probe(struct gpu_monitor *m);
/* Requests a probe that includes stuck GPUs: another process has just had answers from them. */
void gpu_monitor_probe_all(struct gpu_monitor *m);
/* Sets the interval of probes besides the requested ones. 0, as at the start: probes only on request. */
void gpu_monitor_set_interval(struct gpu_monitor *m, uint64_t interval_ns);

/*
 * From now on probes read which GPUs reach each other over NVLink (gpu_link.p2p), once for each pair. A probe
 * follows soon if the last ones did not read it.
 */
void gpu_monitor_want_p2p(struct gpu_monitor *m, bool wanted);

/* Kills the worker, so that it holds no device file open. Until gpu_monitor_probe() the monitor starts no
 * worker, not at the interval either. The process takes a moment to end: gpu_monitor_released() reports when it
 * has ended. */
void gpu_monitor_release(struct gpu_monitor *m);
/* Whether no worker runs any more. Does not wait. */
bool gpu_monitor_released(struct gpu_monitor *m);

/* The processes on one GPU or MIG device. */
struct gpu_processes {
	const char *uuid; /* as requested */
	bool known;       /* if false, .reason says why */
	char reason[GPU_REASON_MAX];
	struct gpu_process *v;
	uint32_t n;
};

/* @list has a row for each UUID; NULL: @err says why nothing could be read. Borrowed for the call. */
typedef void gpu_processes_done(void *arg, const struct gpu_processes *list, uint32_t n,
	const struct error *err);

/*
 * Asks NVML for the processes on these GPUs and MIG devices. The monitor calls @done later, unless it is stopped
 * or the caller asks again before. The worker asks NVML after this call, with its deadlines: a GPU that hangs is
 * marked as stuck, as in a probe. ERR_UNAVAILABLE: no worker runs now, or no probe is complete yet.
 */
int gpu_monitor_processes(struct gpu_monitor *m, const char *const *uuids, uint32_t n,
	gpu_processes_done *done, void *arg, struct error *err) MUST_USE;

/* The requested fields; none: only memory, busy times and processes. */
struct gpu_sample_request {
	uint64_t fields[(FIELDS_MAX + 63) / 64]; /* bit: position in fields[] */
	uint64_t interval_ns;                    /* interval of requests, about */
};

static inline void gpu_sample_want(struct gpu_sample_request *rq, size_t position)
{
	rq->fields[position / 64] |= UINT64_C(1) << position % 64;
}

/* The callee frees @sample; NULL: @err says why there is none. */
typedef void gpu_sample_done(void *arg, struct sample *sample, const struct error *err);

/*
 * Reads the figures of all GPUs and MIG devices of the last probe. The monitor calls @done later, unless it is
 * stopped before.
 *
 * Failures. A device that could not be read is in the sample, with its reason. A GPU that hangs is marked as
 * stuck, as in a probe: @done gets the error that the worker ended, and the next sample has no figures of that
 * GPU.
 *
 * Figures. Busy times and rates are of the time since the sample before, so the first sample of a worker has none.
 * A GPU in MIG mode has no processes of its own: its MIG devices have them.
 *
 * Cache. What is costly for the driver (energy, ECC, retired pages, PCIe throughput) is read every 10 s at most
 * and repeated in between. The worker asks again after 10 minutes for a field that a GPU does not support, and
 * after one for a field that needs a permission.
 *
 * ERR_UNAVAILABLE: another sample is under way, no worker runs, or no probe is complete yet.
 */
int gpu_monitor_sample(struct gpu_monitor *m, const struct gpu_sample_request *rq,
	gpu_sample_done *done, void *arg, struct error *err) MUST_USE;

/*
 * Kills the worker and frees the monitor; no callback runs any more. Pending libuv handles close while the loop
 * runs on. That takes until the worker has ended, and a quarter of a second at most.
 */
struct gpu_monitor *gpu_monitor_stop(struct gpu_monitor *m);

/* For one-shot tools: starts a worker, takes one inventory, ends the worker. Blocks up to the time-outs. */
int gpu_inventory_once(struct inventory **ret, const struct gpu_monitor_options *options,
	struct error *err) MUST_USE;
