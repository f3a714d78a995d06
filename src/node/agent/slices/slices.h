/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Slices of containers whose config isolates memory or compute: made at Allocate, changed with the config, taken
 * away when nobody can need them any more (slices/life.h). The arbiter enforces what their files say.
 * Thread: loop.
 */
#include "node/agent/slices/arbiter.h"
#include "node/agent/slices/store.h"
#include "model/allocate/allocate.h"
#include "io/kubelet/pod-resources.h"

struct agent;
struct gpu_processes;

/* Borrowed: argv or environment. */
struct agent_slices_options {
	const char *state_dir;   /* NULL: SLICE_STATE_DIR */
	const char *runtime_dir; /* of the libraries; NULL or "": beside this program */
	uint64_t keep_ns;        /* a slice that no pod holds */
};

struct slices_ops {
	/* A directory that a new slice needs cannot be made: devices that need one cannot be allocated. */
	void (*short_of_room)(void *arg);
	/* The most memory that a container has used of a device, as the API and the metrics show it; false: not known. */
	bool (*peak)(void *arg, const char *uuid, const struct pod_device *holder,
		uint64_t *ret_bytes);
};

struct agent_slices {
	const struct slices_ops *ops;
	void *arg; /* of .ops */
	struct agent_slices_options options;
	struct slice_store store;
	bool loaded;                  /* .store */
	bool wanted;                  /* by the config in force */
	char lib[SLICE_LIB_NAME_MAX]; /* in place for new slices; "": see: */
	struct error lib_error;
	struct arbiter_link *arbiter;
	json_t *seen;      /* what the arbiter said last; NULL: nothing, or it is away: */
	json_t *seen_gpus; /* and of GPUs on which slices take turns; as .seen */
	struct error seen_error;
	uv_timer_t timer; /* looks whose slices may go */
	bool looking;     /* that is under way */
	uv_work_t mounts; /* finds: */
	struct strv
		mounted; /* slices that containers have mounted, as of the search just done */
	struct error mounted_error; /* it failed: nobody knows */
	bool mounted_in_part;       /* of a container only the beginning was read */
	bool searched;              /* all three are of now */
	uv_timer_t spare;           /* makes directories ready for new slices */
	struct strv unsaved;        /* paths to flush to the disk */
	uv_work_t save;
	struct strv saving; /* being flushed by the pool's thread, which alone reads it */
	bool saves, stopped;
	json_int_t reading_seq; /* the arbiter's question under way */
};

void agent_slices_init(struct agent *a, const struct slices_ops *ops, void *arg,
	const struct agent_slices_options *options);
/* What cannot be started or loaded now is retried by agent_slices_retry(); no container gets a slice before. */
void agent_slices_start(struct agent *a);
void agent_slices_retry(struct agent *a);

/* The config or what is offered is another one: limits of slices, libraries and arbiter follow. */
void agent_slices_look(struct agent *a);

/*
 * Whether agent_slices_allocate() would refuse them for what is missing on this node. Changes nothing but that a
 * directory may lie ready afterwards.
 */
int agent_slices_check(struct agent *a, const struct resource *r, const char *const *ids,
	size_t n_ids, struct error *err) MUST_USE;

/*
 * Gives an allocation of @ids its slice, if the config wants one: the directory is there and @to has its
 * mounts afterwards. Nothing is left behind on an error.
 */
int agent_slices_allocate(struct agent *a, const struct resource *r, const char *const *ids,
	size_t n_ids, struct allocation *to, struct error *err) MUST_USE;

/* Asks the arbiter what slices use; .seen is of now when @done is called, or .seen_error says why not. */
void agent_slices_refresh(struct agent *a, void (*done)(void *arg), void *arg);

/* The part of /v1/status (docs/status.md). A new reference. */
json_t *agent_slices_status(const struct agent *a, const struct pod_devices *holders);

/* The arbiter's list of slices by their ids. A new reference. */
json_t *slices_by_id(const json_t *seen);

/* Why pods cannot be given slices; "" if they can. Borrowed. */
const char *agent_slices_trouble(const struct agent *a);

void agent_slices_stop(struct agent *a);
void agent_slices_fini(struct agent *a);
