/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How much GPU time the slice runtime has charged to each slice since it was asked last. The arbiter's counters
 * only grow; what they grew while it could not be asked counts when it can again, less what was
 * counted for its container by NVML meanwhile. A slice that is new counts from zero; one that was there before
 * the agent, from what the agent before had counted (node/agent/monitoring/keep/keep.h), else from when it is seen first. The last growth
 * of a slice belongs to its container even if that is not listed any more, unless it ended while no agent
 * was there.
 * Thread: owner's.
 */
#include "node/agent/monitoring/uses.h"
#include "node/agent/slices/slices.h"

struct see_charge {
	char id[SLICE_ID_DIGITS + 1], unit[GPU_UUID_MAX];
	char *holder;        /* owned: key of its use */
	uint64_t charged_ns; /* as last told */
	uint64_t at_ns;      /* when; 0: not yet by this agent */
	uint64_t at_wall_ns;
	uint64_t lent_ns; /* counted otherwise since */
	bool kept;        /* by an agent before */
	uint32_t use;     /* of the round; SEE_NONE */
	bool here;
};

struct see_charges {
	struct see_charge *v;
	size_t n;
};

/* What the round has to know of one slice on one unit. */
struct see_slice {
	const struct slice *slice; /* borrowed */
	uint32_t place;            /* in its plan's gpus */
	uint32_t use;
	const json_t *seen; /* the arbiter's words: of the slice; NULL: none */
	const json_t *gpu;  /* and of this unit; NULL: none */
};

struct see_slices {
	struct see_slice *v; /* by use */
	uint32_t n;
	json_t *by_id; /* owned */
};

/* The slices of the uses of now. @holds were given their uses. */
int see_slices_make(struct see_slices *ret, const struct slices *s,
	const struct see_holds *holds, struct error *err) MUST_USE;
void see_slices_fini(struct see_slices *s);
/* The last one of a use; NULL: none. Borrowed. */
const struct see_slice *see_slices_of(const struct see_slices *s, uint32_t use);

/*
 * Sets busy times and memory of the uses that have slices. @started_wall_ns: of the agent. Times of now.
 */
int see_charges_round(struct see_charges *c, const struct see_slices *slices,
	struct see_uses *uses, const struct see_units *units, uint64_t started_wall_ns,
	uint64_t wall_ns, uint64_t now_ns, struct error *err) MUST_USE;
/* After the accounts have counted: what was counted for them by other means. */
void see_charges_lend(struct see_charges *c, const struct see_uses *uses);
/* What an agent before has counted: .charged_ns, .at_wall_ns and .lent_ns of @as. */
int see_charges_restore(struct see_charges *c, const char *id, const char *unit,
	const struct see_charge *as, struct error *err) MUST_USE;
void see_charges_fini(struct see_charges *c);

/* Whether the arbiter has @pid among the processes of a use's slices; SEE_NONE: of none. */
uint32_t see_slices_process(const struct see_slices *s, const struct see_uses *uses,
	uint32_t unit, uint32_t pid);

/* An integer >= 0 of the arbiter's; false: it said none. */
bool see_number(const json_t *o, const char *key, uint64_t *ret);
