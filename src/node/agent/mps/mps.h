/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * CUDA MPS on this node: starts and watches the control daemons that the config wants (model/mps/mps.h), and tells
 * containers of them. No second program, no label: a daemon is ready when it answers, and only then are its devices
 * healthy.
 * Thread: loop.
 */
#include "model/allocate/allocate.h"
#include "model/mps/mps.h"

#include <jansson.h>
#include <uv.h>

struct agent;
struct mig_mask;
struct mps_unit;

/* Borrowed: argv or environment. */
struct agent_mps_options {
	const char *control; /* nvidia-cuda-mps-control; NULL or "": looked for */
};

struct agent_mps {
	struct agent_mps_options options;
	struct mps_plan *plan; /* of what is offered; NULL: none was made */
	struct mps_unit *units;
	struct error error; /* the plan could not be made, or a daemon has no place */
	bool stopped;
};

void agent_mps_init(struct agent *a, const struct agent_mps_options *options);
/* Finds daemons that run, and compute modes that were left behind. */
void agent_mps_start(struct agent *a);

/* What is offered is another one: daemons follow. */
void agent_mps_look(struct agent *a);

/* Whether the daemon of a device can be used, if it needs one; *ret_why, unless NULL: why not. */
bool agent_mps_device_ok(const struct agent *a, const struct resource *r,
	const struct offer_device *d, const char **ret_why);

/* Gives an allocation what a client needs, if its devices are shared by MPS. */
int agent_mps_allocate(struct agent *a, const struct resource *r, const char *const *ids,
	size_t n_ids, struct allocation *to, struct error *err) MUST_USE;

/* Asks each daemon for its servers and their clients. Answered: all that can say so have, since @since_ns. */
void agent_mps_ask(struct agent *a);
bool agent_mps_answered(const struct agent *a, uint64_t since_ns);

/*
 * Processes of servers that had no clients when they were asked since @since_ns: they are on their GPUs and use nothing.
 * Returns how many, at most @max.
 */
uint32_t agent_mps_idle_servers(const struct agent *a, uint64_t since_ns, uint32_t *ret,
	uint32_t max);

/*
 * @m takes devices from the offer, as they are about to be changed, and by that their daemons quit. 0: the daemons
 * have ended; 1: not yet; < 0: ERR_UNAVAILABLE: one has a client, which @err names.
 */
int agent_mps_left(const struct agent *a, const struct mig_mask *m, struct error *err) MUST_USE;

/* The part of /v1/status (docs/status.md). A new reference. */
json_t *agent_mps_status(const struct agent *a);

/*
 * Daemons without clients end, compute modes are put back; daemons with clients go on for the next agent, if they
 * outlive this one. The loop is to run until all that is closed.
 */
void agent_mps_stop(struct agent *a);
void agent_mps_fini(struct agent *a);
