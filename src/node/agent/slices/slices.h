/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The slices of containers with isolated memory or compute. The agent makes them at Allocate, changes them with
 * the config, and removes them when no container can need them any more (slices/life.h). The arbiter enforces what
 * their files say.
 *
 * Removal. A timer starts this check:
 *
 * 1. The agent asks the arbiter which slices have processes, then the kubelet which pod has which device.
 * 2. If slice_life_ends() allows the removal of a slice, a thread of libuv's pool searches the mounts of all
 *    processes.
 * 3. The agent repeats step 1. It removes the slices that slice_life_ends() still allows and that are mounted
 *    nowhere.
 *
 * Threads. The loop; libuv's pool for step 2 and for flushing files.
 */
#include "node/agent/base/facts.h"
#include "node/agent/base/report.h"
#include "node/agent/slices/arbiter-link.h"
#include "node/agent/slices/store.h"
#include "model/allocate/allocate.h"
#include "model/pods/pods.h"
#include "io/nvml/monitor/monitor.h"

/* Borrowed from argv or the environment. */
struct slices_options {
	const char *state_dir;
	const char *runtime_dir; /* of the libraries; NULL or "": beside this program */
	uint64_t keep_ns;        /* for slices without a pod */
};

/* What the slices need of the agent's other parts. */
struct agent_slices_ops {
	/* Which pod has which device. Calls @done once. False: not available, and @done is not called. */
	bool (*request_pod_devices)(void *arg,
		void (*done)(void *done_arg, const struct pod_devices *list,
			const struct error *err),
		void *done_arg);
	/* Which processes NVML lists on the GPUs. Calls @done once. < 0: NVML cannot be asked, and @done is not
	 * called. */
	int (*read_processes)(void *arg, const char *const *uuids, uint32_t n,
		gpu_processes_done *done, void *done_arg);
	/* The directory of a new slice cannot be made, so devices that need a slice cannot be allocated. */
	void (*on_dir_unavailable)(void *arg);
	/* The peak memory of a container on a device, as the API and the metrics show it. False: not known. */
	bool (*peak)(void *arg, const char *uuid, const struct pod_device *pod_device,
		uint64_t *ret_bytes);
};

/* The context of the slices. All borrowed. */
struct slices_context {
	uv_loop_t *loop;
	const struct facts *facts;
	const struct reporter *reporter;
	const char *run_dir, *plugin_dir;
	struct slices_options options;
	const struct agent_slices_ops *ops;
	void *arg; /* of .ops */
};

struct slices {
	struct slices_context c;
	struct slice_store store;
	bool loaded;                  /* .store */
	bool wanted;                  /* by the config in force */
	char lib[SLICE_LIB_NAME_MAX]; /* installed, for new slices; "": see .lib_error */
	struct error lib_error;
	struct arbiter_link *arbiter;
	json_t *arbiter_slices; /* the arbiter's last answer; NULL: see .arbiter_error */
	json_t *arbiter_gpus;   /* from that answer, too: GPUs with slices that have compute */
	struct error arbiter_error;
	uv_timer_t timer; /* of the removal check */
	bool checking;    /* the check is under way */
	uv_work_t mounts; /* the search of the mounts, on libuv's pool; fills the next three */
	struct strv mounted; /* slices that containers have mounted, from the last search */
	struct error mounted_error; /* the search failed: not known */
	bool mounts_partial;        /* of some container only the first mounts were read */
	bool searched;              /* the three members above are current */
	uv_timer_t spare;           /* makes spare directories for new slices */
	struct strv unsaved;        /* paths to flush to the disk */
	uv_work_t save;
	struct strv saving; /* the pool's thread flushes these; no other thread reads them */
	bool saves, stopped;
	json_int_t reading_seq; /* of the arbiter's present question */
};

/* Copies *context; reads nothing. */
void slices_init(struct slices *s, const struct slices_context *context);
/* Loads the slices and starts the link to the arbiter. If that fails, no container gets a slice until
 * slices_retry() succeeds. */
void slices_start(struct slices *s);
/* Retries slices_start(), if that failed. */
void slices_retry(struct slices *s);

/* Brings limits of slices, libraries and the arbiter in sync with the present config and offer. */
void slices_sync(struct slices *s);

/*
 * Whether slices_allocate() would refuse @ids because something is missing on this node. Changes nothing, except
 * that it may make a spare directory.
 */
int slices_check(struct slices *s, const struct resource *r, const char *const *ids,
	size_t n_ids, struct error *err) MUST_USE;

/*
 * Makes the slice for an allocation of @ids, if the config requires one, and adds its mounts to @to. After an
 * error nothing is left behind.
 */
int slices_allocate(struct slices *s, const struct resource *r, const char *const *ids,
	size_t n_ids, struct allocation *to, struct error *err) MUST_USE;

/* Asks the arbiter what slices use, then calls @done. By then .arbiter_slices is current, or .arbiter_error says
 * why not. */
void slices_refresh(struct slices *s, void (*done)(void *arg), void *arg);

/* The part of /v1/status (docs/status.md). A new reference. */
json_t *slices_status(const struct slices *s, const struct pod_devices *pod_devices);

/* Why pods cannot get slices; "" if they can. Borrowed. */
const char *slices_get_error(const struct slices *s);

/* The loop must run until all handles are closed. Then call slices_fini(), which blocks while it flushes the files
 * that were not flushed yet. */
void slices_stop(struct slices *s);
void slices_fini(struct slices *s);
