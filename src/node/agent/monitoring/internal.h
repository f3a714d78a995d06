/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* For the files of this folder only. */
#include "node/agent/monitoring/monitoring.h"

/* Everything about the round that was just counted; gone when its view is made. */
struct see_round {
	uint64_t now_ns, wall_ns, dt_ns;
	bool counted; /* it is known who held what in it */
	struct see_units units;
	struct see_seats seats;
	struct see_holds before; /* what was held in the round before */
	struct see_uses uses;
	struct see_slices slices;
	struct account_unit_round *in_units; /* [units.n] */
	struct account_use *in_uses;         /* [uses.n] */
	struct account_round in;
	const char **gpus; /* UUIDs [in.n_gpus] */
};

/* The kubelet has said who holds what, and not too long ago. */
static inline bool see_holders_known(const struct monitoring *s)
{
	return s->list_ns && s->unknown_rounds <= SEE_UNKNOWN_ROUNDS;
}

/* count.c */
int see_count(struct monitoring *mon, struct see_round *r, struct error *err) MUST_USE;
void see_round_fini(struct see_round *r);

/* assign.c: what NVML says of units and their processes, into the round. */
void see_assign(struct monitoring *mon, struct see_round *r);
/* Afterwards: the unit's memory to a container that alone holds it, where nothing better is known. */
void see_assign_sole(struct monitoring *mon, struct see_round *r);

/* price.c */
void see_price_look(struct monitoring *mon);
void see_price_fini(struct see_price *p);
/* Of the Node's labels or the options; "" if not known. Borrowed. */
const char *see_instance_type(const struct monitoring *mon);
const char *see_region(const struct monitoring *mon);
const char *see_hostname(void);

/* build*.c: the view of the round. Takes the sample. NULL: *err says why. */
struct view *see_build(struct monitoring *mon, struct see_round *r, struct error *err);
void see_build_gpus(const struct monitoring *mon, const struct see_round *r, struct view *v);
void see_build_units(struct monitoring *mon, const struct see_round *r, struct view *v);
void see_build_seats(const struct monitoring *mon, const struct see_round *r, struct view *v);
void see_build_uses(const struct monitoring *mon, const struct see_round *r, struct view *v);
void see_build_resources(const struct monitoring *mon, const struct see_round *r,
	struct view *v);
void see_build_agent(const struct monitoring *mon, struct view *v);
