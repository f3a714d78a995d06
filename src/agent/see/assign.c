/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/see/internal.h"

#include "core/mps.h"

#include <string.h>

/*
 * A process belongs to a container of its pod's that holds the unit: the one that the arbiter knows it in, else the one
 * that /proc names, else the only one of its pod there. One that belongs to nobody makes the rest of the unit's
 * memory and time.
 */

/* *ret_n: how many containers of the pod are on the unit. */
static uint32_t use_of_pod(const struct see_uses *uses, uint32_t unit, const char *uid,
	const char *container)
{
	uint32_t found = SEE_NONE, n = 0;

	for (uint32_t i = 0; i < uses->n; i++) {
		const struct account_use *in = &uses->v[i].in;

		if (uses->v[i].unit != unit || strcmp(in->uid, uid) != 0)
			continue;
		if (*container && !strcmp(in->container, container))
			return i;
		/* One that ended in this round is meant only if there is no other. */
		if (found == SEE_NONE || in->live) {
			n = found != SEE_NONE && uses->v[found].in.live && in->live ? n + 1 : 1;
			found = i;
		}
	}
	return n == 1 && !*container ? found : SEE_NONE;
}

static uint32_t use_of_process(struct agent *a, const struct see_round *r, uint32_t unit,
	uint32_t pid)
{
	/* In any case, so that it is known when it has ended. */
	const struct see_process *p = see_processes_look(&a->see.processes, pid);
	uint32_t use = see_slices_process(&r->slices, &r->uses, unit, pid);

	if (use != SEE_NONE)
		return use;
	return p && *p->uid ? use_of_pod(&r->uses, unit, p->uid, p->container) : SEE_NONE;
}

/*
 * Under MPS the driver says of nobody how long he computed, whatever it says when nobody does; nor is one alone there,
 * as a counter that ends when a second one comes would be worse than none.
 */
static bool under_mps(const struct see_round *r, const struct see_use *u)
{
	const struct see_seat *seat;

	if (!u->in.live || u->first->seat == SEE_NONE)
		return u->in.mode == ACCOUNT_MPS;
	seat = &r->seats.v[u->first->seat];
	return mps_shares(seat->resource, seat->device);
}

/* Nothing runs, as far as is known. */
static void begin(struct see_round *r, uint32_t unit, bool busy_known)
{
	for (uint32_t i = 0; i < r->uses.n; i++) {
		struct account_use *in = &r->uses.v[i].in;

		if (r->uses.v[i].unit != unit)
			continue;
		in->memory_known = in->live;
		in->busy = busy_known ? ACCOUNT_BUSY_ESTIMATED : ACCOUNT_BUSY_UNKNOWN;
		if (!under_mps(r, &r->uses.v[i]))
			continue;
		in->busy = ACCOUNT_BUSY_UNKNOWN;
		r->in_units[unit].foreign = true;
	}
}

static void take(struct see_use *u, const struct sample_process *p, uint64_t interval_ns)
{
	u->n_processes++;
	if (p->bytes != GPU_BYTES_UNKNOWN)
		u->in.memory += p->bytes;
	else
		u->in.memory_known = false;
	if (!p->busy_known)
		u->in.busy = ACCOUNT_BUSY_UNKNOWN;
	u->in.busy_ns += p->busy_known ? p->busy_ns : 0;
	u->in.busy_of_ns = interval_ns;
}

static void assign_unit(struct agent *a, struct see_round *r, uint32_t unit,
	const struct sample_unit *s)
{
	struct account_unit_round *in = &r->in_units[unit];

	in->busy_known = s->busy_known && s->interval_ns;
	in->busy_ns = in->busy_known ? s->busy_ns : 0;
	in->busy_of_ns = in->busy_known ? s->interval_ns : 0;
	if (!s->processes_known) {
		in->foreign = true; /* perhaps */
		return;
	}
	begin(r, unit, s->interval_ns > 0);
	for (uint32_t i = 0; i < s->n_processes; i++) {
		uint32_t use = use_of_process(a, r, unit, s->processes[i].pid);

		if (use == SEE_NONE)
			in->foreign = true;
		else
			take(&r->uses.v[use], &s->processes[i], s->interval_ns);
	}
}

void see_assign(struct agent *a, struct see_round *r)
{
	see_processes_begin(&a->see.processes);
	for (uint32_t i = 0; i < r->units.n; i++) {
		const struct sample_unit *s = sample_find(a->see.sample, r->units.v[i].uuid);

		if (s)
			assign_unit(a, r, i, s);
	}
	see_processes_end(&a->see.processes);
}
