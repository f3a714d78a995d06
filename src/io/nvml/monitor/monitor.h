/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The node's GPUs through NVML, at arm's length.
 *
 * NVML runs in a process of its own (gpuslice-nvml, in libexec), because a call on a sick GPU may
 * hang for ever, because the library may crash, and because only a fresh process can load the
 * library of a driver that was upgraded. The agent keeps the last good answer. The worker says
 * which GPU and which call it is about to touch; when the deadline passes, the agent kills it,
 * reports that GPU as stuck and starts another that leaves this GPU out until it is due again.
 *
 *	agent (loop) ── socket pair, one packet a message ── gpuslice-nvml ── dlopen(libnvidia-ml)
 *
 * The simulator and the real library are reached the same way; nothing here knows which it is.
 * Thread: loop.
 */
#include "model/gpu/gpu.h"
#include "model/gpu/sample.h"

#include <uv.h>

struct gpu_monitor;

struct gpu_monitor_options {
	const char *nvml_path; /* library to open; NULL or "": by the rules below */
	const char *
		driver_root; /* container driver root: searched as NVIDIA's plugin does; NULL */
	const char *sysfs_root;  /* "/sys" if NULL: for numa_node */
	const char *procfs_root; /* "/proc" if NULL: for the capabilities of MIG instances */
	const char *
		worker_path; /* the worker program; NULL: beside the running program's libexec */
	uint64_t call_timeout_ns; /* one NVML call; default 5 s if 0 */
	uint64_t stuck_retry_ns;  /* how long a stuck GPU is left alone; default 60 s if 0 */
};

struct gpu_monitor_ops {
	/* A new look at all GPUs; borrowed for the call. Stuck ones are in it with their fault. */
	void (*inventory)(void *arg, const struct inventory *inv);
	/* NVML cannot be used now: no driver, no library, version mismatch, or the worker crashed
	 * twice and the last good look is five seconds old. Tried again by itself with back-off,
	 * and told each time. */
	void (*down)(void *arg, const struct error *why);
	/* gi and ci are UINT32_MAX if the event is not about a MIG instance; uuid is "" if NVML did
	 * not say which GPU it is. */
	void (*xid)(void *arg, const char *uuid, uint32_t xid, uint32_t gi, uint32_t ci);
};

/* Starts with a look at once; callbacks only come from the loop. */
int gpu_monitor_start(struct gpu_monitor **ret, uv_loop_t *loop,
	const struct gpu_monitor_options *options, const struct gpu_monitor_ops *ops, void *arg,
	struct error *err) MUST_USE;

/* In ops.down: whether NVML refuses since its library does not fit the loaded kernel module. */
bool gpu_monitor_mismatch(const struct gpu_monitor *m);

/* Look again now (as well as by its own clock every @interval, 0: only when asked). */
void gpu_monitor_probe(struct gpu_monitor *m);
/* The same, and no GPU is left alone for having been stuck: somebody else has just had answers of them. */
void gpu_monitor_probe_all(struct gpu_monitor *m);
void gpu_monitor_set_interval(struct gpu_monitor *m, uint64_t interval_ns);

/* From now on looks read which GPUs can reach which over NVLink (gpu_link.p2p), once for each pair. A look
 * comes soon if they have not. */
void gpu_monitor_want_p2p(struct gpu_monitor *m, bool wanted);

/*
 * Kills the worker, so that no device file is held open. Nothing starts it again, not the interval
 * either, until gpu_monitor_probe(). A process takes a moment to end: _released() says when.
 */
void gpu_monitor_release(struct gpu_monitor *m);
bool gpu_monitor_released(struct gpu_monitor *m);

/* Who uses one GPU or MIG device. */
struct gpu_processes {
	const char *uuid; /* as it was asked for */
	bool known;       /* else .reason says why not */
	char reason[GPU_REASON_MAX];
	struct gpu_process *v;
	uint32_t n;
};

/* @list has a row for each UUID; NULL: @err says why nothing could be read. Borrowed for the call. */
typedef void gpu_processes_done(void *arg, const struct gpu_processes *list, uint32_t n,
	const struct error *err);

/*
 * Asks NVML who uses these GPUs and MIG devices, and calls @done later, unless the monitor is stopped or
 * asked again before. NVML is asked after this call, by the worker with its deadlines: a GPU that hangs is
 * marked as stuck, as in a look. ERR_UNAVAILABLE: there is no worker now, or nothing is known yet.
 */
int gpu_monitor_processes(struct gpu_monitor *m, const char *const *uuids, uint32_t n,
	gpu_processes_done *done, void *arg, struct error *err) MUST_USE;

/* Which fields are wanted; none: only memory, busy times and processes. */
struct gpu_sample_request {
	uint64_t fields[(FIELDS_MAX + 63) / 64]; /* bit: position in fields[] */
	uint64_t interval_ns;                    /* about how often it is asked */
};

static inline void gpu_sample_want(struct gpu_sample_request *rq, size_t position)
{
	rq->fields[position / 64] |= UINT64_C(1) << position % 64;
}

/* @sample is the callee's to free; NULL: @err says why there is none. */
typedef void gpu_sample_done(void *arg, struct sample *sample, const struct error *err);

/*
 * Reads the figures of all GPUs and MIG devices of the last look, and calls @done later, unless the monitor is
 * stopped before. One that could not be read is in it with its reason; a GPU that hangs is marked as stuck, as
 * in a look, and then @done hears of the worker's end, and the next sample is without that GPU.
 *
 * Busy times and rates are of the time since the sample before, so there is none in the first after a start of
 * the worker. A GPU in MIG mode has no processes of its own: its devices have them. What is costly for the
 * driver (energy, ECC, retired pages, PCIe throughput) is read every 10 s at most and repeated in between; what
 * a GPU does not support is asked for again after 10 minutes, what needs a permission after one.
 * One sample at a time: ERR_UNAVAILABLE while one is under way, there is no worker, or nothing is known yet.
 */
int gpu_monitor_sample(struct gpu_monitor *m, const struct gpu_sample_request *rq,
	gpu_sample_done *done, void *arg, struct error *err) MUST_USE;

/* Kills and frees; callbacks do not run any more. Pending libuv handles close as the loop runs on,
 * which takes as long as the worker takes to end, and a quarter of a second at most. */
struct gpu_monitor *gpu_monitor_stop(struct gpu_monitor *m);

/* For one-shot tools: starts a worker, takes one inventory, ends it. Blocks up to the time-outs. */
int gpu_inventory_once(struct inventory **ret, const struct gpu_monitor_options *options,
	struct error *err) MUST_USE;
