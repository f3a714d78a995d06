/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Who held which seat for how long in a round, from what the kubelet lists, its checkpoint, and what
 * was given out (Allocate).
 *
 *	listed before and now        held all of the round
 *	listed now, given within it  held from then on, and whoever had the seat before until then
 *	listed now for the first time, and not given by us (before our start, DRA): counts from the end of the round
 *	not listed any more          held half of the round, or until its seat was given to the next
 *
 * What was given and is not listed yet waits for it. A pod is another one than that of the same name before if its
 * seat was given out anew. The checkpoint may still have the UID of the pod before: one that is the UID of
 * whom the seat was taken from says nothing.
 *
 * Kubelets before 1.34 list pods that have ended beside those that have their devices now: the one that comes
 * later has it.
 * Thread: any (pure).
 */
#include "node/agent/monitoring/checkpoint.h"
#include "node/agent/monitoring/seats.h"
#include "model/pods/pods.h"

/* A seat that a container holds, as it was listed. */
struct see_hold {
	char *namespace_, *pod, *container, *resource, *id; /* owned */
	char *uid;                                          /* owned; "" */
	char unit[GPU_UUID_MAX];                            /* UUID */
	enum account_mode mode;
	uint32_t share; /* millionths of the unit */
	uint64_t memory_limit;
	uint32_t seat;   /* SEE_NONE: it is not offered now */
	uint32_t use;    /* position in the uses of the round; SEE_NONE */
	bool dynamic;    /* of a resource claim, which several may share */
	bool superseded; /* another pod has the seat now */
	bool fresh;      /* was given out in this round, at: */
	uint64_t since_ns;
};

struct see_holds {
	struct see_hold *v; /* by resource, id, namespace, pod, container */
	size_t n;
};

/* Devices that were given out and are not yet listed. */
#define SEE_GIVEN_MAX     4096
#define SEE_GIVEN_KEEP_NS (UINT64_C(120) * 1000000000)

struct see_given {
	char *resource, *id; /* owned */
	uint64_t at_ns;
};

struct see_givens {
	struct see_given *v;
	size_t n;
};

int see_givens_add(struct see_givens *g, const char *resource, const char *id, uint64_t at_ns,
	struct error *err) MUST_USE;
void see_givens_fini(struct see_givens *g);

/* The round: from the moment of the list before to that of this one. */
struct see_span {
	uint64_t from_ns, to_ns;
};

/* What is held now. @givens loses those that are listed, and those that waited too long. */
int see_holds_make(struct see_holds *ret, const struct see_holds *before,
	const struct pod_devices *list, const struct see_checkpoint *checkpoint,
	const struct see_units *units, const struct see_seats *seats, struct see_givens *givens,
	struct see_span span, struct error *err) MUST_USE;
/* Nobody has said what is held now: the same as before, where its seats are now. */
void see_holds_stay(struct see_holds *holds, const struct see_seats *seats);
void see_holds_fini(struct see_holds *h);
/* The one that has the seat; NULL: none. */
const struct see_hold *see_holds_find(const struct see_holds *h, const char *resource,
	const char *id);

/* One container on one unit. */
struct see_use {
	struct account_use in; /* its texts are those of the holds */
	uint32_t unit;
	const struct see_hold *first; /* its first seat; borrowed */
	uint32_t n_seats;             /* that it holds now, or held */
	bool offered;                 /* all of them are offered now */
	uint64_t memory_limit;        /* UINT64_MAX: none */
	bool processes_known;
	uint32_t n_processes;
};

struct see_uses {
	struct see_use *v; /* by unit */
	uint32_t n;
};

/* @now and @before may be the same. @counted: else time passes for nobody, since it has been too long unknown who holds what. */
int see_uses_make(struct see_uses *ret, struct see_holds *now, struct see_holds *before,
	const struct see_units *units, struct see_span span, bool counted,
	struct error *err) MUST_USE;
void see_uses_fini(struct see_uses *u);
