/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * CUDA MPS on this node: starts and watches the control daemons that the config wants (model/mps/mps.h), and tells
 * containers of them. No second program, no label: a daemon is ready when it answers, and only then are its devices
 * healthy.
 * Thread: loop.
 */
#include "node/agent/base/facts.h"
#include "node/agent/base/report.h"
#include "node/agent/base/wake.h"
#include "model/pods/pods.h"
#include "model/allocate/allocate.h"
#include "model/mps/mps.h"

#include <jansson.h>
#include <uv.h>

struct mps_supervisor;

/* Borrowed: argv or environment. */
struct mps_options {
	const char *control; /* nvidia-cuda-mps-control; NULL or "": looked for */
};

/* What MPS asks of the agent. */
struct mps_ops {
	/* Who has which device now: @done is called once, with NULL and why where nobody knows. */
	void (*request_pod_devices)(void *arg,
		void (*done)(void *done_arg, const struct pod_devices *list,
			const struct error *err),
		void *done_arg);
};

/* What MPS lives in. Borrowed, all of it. */
struct mps_context {
	uv_loop_t *loop;
	const struct facts *facts;
	const struct reporter *reporter;
	struct wake *wake; /* for mps_sync(): which devices are usable has changed */
	const char *run_dir, *nvml_path; /* .nvml_path NULL: it is looked for */
	struct mps_options options;
	const struct mps_ops *ops;
	void *arg; /* of .ops */
};

struct mps {
	struct mps_context c;
	struct mps_plan *plan; /* of what is offered; NULL: none was made */
	struct mps_supervisor *daemons;
	struct error error; /* the plan could not be made, or a daemon has no place */
	bool stopped;
};

void mps_init(struct mps *m, const struct mps_context *context);
/* Finds daemons that run, and compute modes that were left behind. */
void mps_start(struct mps *m);

/* Makes the daemons those of what is offered now. */
void mps_sync(struct mps *m);

/* Whether the daemon of a device can be used, if it needs one; *ret_why, unless NULL: why not. */
bool mps_device_ok(const struct mps *m, const struct resource *r, const struct offer_device *d,
	const char **ret_why);

/* Gives an allocation what a client needs, if its devices are shared by MPS. */
int mps_allocate(struct mps *m, const struct resource *r, const char *const *ids, size_t n_ids,
	struct allocation *to, struct error *err) MUST_USE;

/* Asks each daemon for its servers and their clients. Answered: all that can say so have, since @since_ns. */
void mps_query_clients(struct mps *m);
bool mps_has_answered(const struct mps *m, uint64_t since_ns);

/*
 * Processes of servers that had no clients when they were asked since @since_ns: they are on their GPUs and use nothing.
 * Returns how many, at most @max.
 */
uint32_t mps_idle_servers(const struct mps *m, uint64_t since_ns, uint32_t *ret, uint32_t max);

/*
 * Devices that @leaves knows are taken from the offer, as they are about to be changed, and by that their daemons
 * quit. 0: the daemons have ended; 1: not yet; < 0: ERR_UNAVAILABLE: one has a client, which @err names.
 */
int mps_check_withdrawn(const struct mps *m, bool (*leaves)(void *arg, const char *uuid),
	void *arg, struct error *err) MUST_USE;

/* The part of /v1/status (docs/status.md). A new reference. */
json_t *mps_status(const struct mps *m);

/*
 * Daemons without clients end, compute modes are put back; daemons with clients go on for the next agent, if they
 * outlive this one. The loop is to run until all that is closed.
 */
void mps_stop(struct mps *m);
void mps_fini(struct mps *m);
