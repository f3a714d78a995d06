/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * CUDA MPS on this node: starts and supervises the control daemons of the plan (model/mps/mps.h), and adds what an
 * MPS client needs to allocations. It needs no second program and no node label. A daemon is ready when it
 * answers, and only then are its devices healthy.
 * Thread: loop.
 */
#include "node/agent/base/facts.h"
#include "node/agent/base/report.h"
#include "node/agent/base/loop.h"
#include "model/pods/pods.h"
#include "model/allocate/allocate.h"
#include "model/mps/mps.h"

#include <jansson.h>
#include <uv.h>

struct mps_supervisor;

/* Borrowed: argv or environment. */
struct mps_options {
	const char *control; /* nvidia-cuda-mps-control; NULL or "": search for it */
};

/* What MPS asks of other parts of the agent. */
struct mps_ops {
	/*
	 * Reads which container has which device now. Calls @done once, with NULL and the error if that is not
	 * known.
	 */
	void (*request_pod_devices)(void *arg,
		void (*done)(void *done_arg, const struct pod_devices *list,
			const struct error *err),
		void *done_arg);
};

/* What MPS gets from the agent. All of it is borrowed. */
struct mps_context {
	uv_loop_t *loop;
	const struct facts *facts;
	const struct reporter *reporter;
	struct wake *wake;               /* leads to mps_sync(): the usable devices changed */
	const char *run_dir, *nvml_path; /* .nvml_path NULL: search for it */
	struct mps_options options;
	const struct mps_ops *ops;
	void *arg; /* for .ops */
};

struct mps {
	struct mps_context c;
	struct mps_plan *plan; /* of the offer; NULL: no plan yet */
	struct mps_supervisor *daemons;
	struct error error; /* the plan could not be made, or a daemon could not be added */
	bool stopped;
};

void mps_init(struct mps *m, const struct mps_context *context);
/* Finds running daemons, and compute modes that are not restored. */
void mps_start(struct mps *m);

/* Makes the daemons equal the plan of the present offer. */
void mps_sync(struct mps *m);

/* Whether the daemon of device @d is usable, or @d needs none. *ret_why, unless NULL: why not. */
bool mps_device_ok(const struct mps *m, const struct resource *r, const struct offer_device *d,
	const char **ret_why);

/* Adds what an MPS client needs to an allocation, if its devices are shared by MPS. */
int mps_allocate(struct mps *m, const struct resource *r, const char *const *ids, size_t n_ids,
	struct allocation *to, struct error *err) MUST_USE;

/*
 * mps_query_clients() asks each daemon that can answer for its servers and their clients. mps_has_answered(): all
 * of these daemons have answered since @since_ns.
 */
void mps_query_clients(struct mps *m);
bool mps_has_answered(const struct mps *m, uint64_t since_ns);

/*
 * The servers that had no clients at their daemon's last answer since @since_ns: they are on their GPUs and use
 * nothing. Writes at most @max PIDs to @ret and returns how many.
 */
uint32_t mps_idle_servers(const struct mps *m, uint64_t since_ns, uint32_t *ret, uint32_t max);

/*
 * Checks the daemons of devices for which @leaves is true. The agent has withdrawn these devices from the offer to
 * change them, so their daemons quit. 0: the daemons have ended. 1: not yet. < 0: ERR_UNAVAILABLE; a daemon has a
 * client, which @err names.
 */
int mps_check_withdrawn(const struct mps *m, bool (*leaves)(void *arg, const char *uuid),
	void *arg, struct error *err) MUST_USE;

/* The MPS part of /v1/status (docs/status.md). A new reference. */
json_t *mps_status(const struct mps *m);

/*
 * Ends daemons without clients and restores compute modes. Daemons with clients go on for the next agent, if they
 * outlive this one. The loop must run until all of this is closed.
 */
void mps_stop(struct mps *m);
void mps_fini(struct mps *m);
