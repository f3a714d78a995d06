/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Slices of containers whose config isolates memory or compute: made at Allocate, changed with the config, taken
 * away when nobody can need them any more (slices/life.h). The arbiter enforces what their files say.
 * Thread: loop.
 */
#include "node/agent/base/facts.h"
#include "node/agent/base/report.h"
#include "node/agent/slices/arbiter.h"
#include "node/agent/slices/store.h"
#include "model/allocate/allocate.h"
#include "model/pods/pods.h"
#include "io/nvml/monitor/monitor.h"

/* Borrowed: argv or environment. */
struct slices_options {
	const char *state_dir;
	const char *runtime_dir; /* of the libraries; NULL or "": beside this program */
	uint64_t retain_ns;      /* a slice that no pod holds */
};

/* What slices ask of the agent. */
struct agent_slices_ops {
	/* Who has which device: @done is called once. False: nobody knows, and it is not. */
	bool (*request_pod_devices)(void *arg,
		void (*done)(void *done_arg, const struct pod_devices *list,
			const struct error *err),
		void *done_arg);
	/* Which processes are on the GPUs, of NVML: @done is called once. < 0: that cannot be asked, and it is not. */
	int (*read_processes)(void *arg, const char *const *uuids, uint32_t n,
		gpu_processes_done *done, void *done_arg);
	/* A directory that a new slice needs cannot be made: devices that need one cannot be allocated. */
	void (*on_dir_unavailable)(void *arg);
	/* The most memory that a container has used of a device, as the API and the metrics show it; false: not known. */
	bool (*peak)(void *arg, const char *uuid, const struct pod_device *pod_device,
		uint64_t *ret_bytes);
};

/* What they live in. Borrowed, all of it. */
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
	char lib[SLICE_LIB_NAME_MAX]; /* in place for new slices; "": see: */
	struct error lib_error;
	struct arbiter_link *arbiter;
	json_t *arbiter_slices; /* what the arbiter said last; NULL: nothing, or it is away: */
	json_t *arbiter_gpus;   /* and of GPUs on which slices take turns; as .arbiter_slices */
	struct error arbiter_error;
	uv_timer_t timer; /* looks whose slices may go */
	bool checking;    /* that is under way */
	uv_work_t mounts; /* finds: */
	struct strv
		mounted; /* slices that containers have mounted, as of the search just done */
	struct error mounted_error; /* it failed: nobody knows */
	bool mounts_partial;        /* of a container only the beginning was read */
	bool searched;              /* all three are of now */
	uv_timer_t spare;           /* makes directories ready for new slices */
	struct strv unsaved;        /* paths to flush to the disk */
	uv_work_t save;
	struct strv saving; /* being flushed by the pool's thread, which alone reads it */
	bool saves, stopped;
	json_int_t reading_seq; /* the arbiter's question under way */
};

void slices_init(struct slices *s, const struct slices_context *context);
/* What cannot be started or loaded now is retried by slices_retry(); no container gets a slice before. */
void slices_start(struct slices *s);
void slices_retry(struct slices *s);

/* Makes limits of slices, libraries and arbiter those of the config and the offer of now. */
void slices_sync(struct slices *s);

/*
 * Whether slices_allocate() would refuse them for what is missing on this node. Changes nothing but that a
 * directory may lie ready afterwards.
 */
int slices_check(struct slices *s, const struct resource *r, const char *const *ids,
	size_t n_ids, struct error *err) MUST_USE;

/*
 * Gives an allocation of @ids its slice, if the config wants one: the directory is there and @to has its
 * mounts afterwards. Nothing is left behind on an error.
 */
int slices_allocate(struct slices *s, const struct resource *r, const char *const *ids,
	size_t n_ids, struct allocation *to, struct error *err) MUST_USE;

/* Asks the arbiter what slices use; .arbiter_slices is of now when @done is called, or .arbiter_error says why not. */
void slices_refresh(struct slices *s, void (*done)(void *arg), void *arg);

/* The part of /v1/status (docs/status.md). A new reference. */
json_t *slices_status(const struct slices *s, const struct pod_devices *pod_devices);

/* Why pods cannot be given slices; "" if they can. Borrowed. */
const char *slices_get_error(const struct slices *s);

void slices_stop(struct slices *s);
void slices_fini(struct slices *s);
