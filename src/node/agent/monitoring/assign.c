/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/monitoring/internal.h"

#include "model/mps/mps.h"

#include <string.h>

/*
 * A process belongs to a container of its pod that holds the unit: the one in which the arbiter knows it, else the one
 * that /proc names, else the only one of its pod there. A process that belongs to no container makes the rest of the
 * unit's memory and time.
 *
 * A container without a process has used nothing only if the owner of every process on its unit is known. It is not
 * known, and so is the container's use, where
 *
 *	1. the agent has a PID namespace of its own: NVML lists the processes of the caller's namespace alone;
 *	2. NVML names a process that /proc does not show: it has ended since, or is hidden from the agent;
 *	3. the process is of a pod whose container, or of a container whose pod, is not known yet.
 *
 * A container that alone holds its unit then has the unit's own figures.
 */

enum owner { OWNER_USE, OWNER_OTHER, OWNER_HIDDEN };

/* SEE_NONE also where it may be several. */
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

/* A container of the unit that may be of the pod @uid: pods are listed before their UID is known. */
static bool may_be_of(const struct see_uses *uses, uint32_t unit, const char *uid)
{
	for (uint32_t i = 0; i < uses->n; i++)
		if (uses->v[i].unit == unit &&
			(!*uses->v[i].in.uid || !strcmp(uses->v[i].in.uid, uid)))
			return true;
	return false;
}

static enum owner owner_of(const struct monitoring *mon, const struct see_round *r,
	uint32_t unit, uint32_t pid, uint32_t *ret_use)
{
	const struct see_process *p = see_processes_find(&mon->processes, pid);

	*ret_use = see_slices_process(&r->slices, &r->uses, unit, pid);
	if (*ret_use != SEE_NONE)
		return OWNER_USE;
	if (!p || !p->readable)
		return OWNER_HIDDEN;
	if (!*p->uid)
		return OWNER_OTHER;
	*ret_use = use_of_pod(&r->uses, unit, p->uid, p->container);
	if (*ret_use != SEE_NONE)
		return OWNER_USE;
	return may_be_of(&r->uses, unit, p->uid) ? OWNER_HIDDEN : OWNER_OTHER;
}

/*
 * Under MPS the driver does not say of any process how long it computed, whatever it says while none does. Nor does a
 * container alone on the unit get the unit's time there: a counter that ends when a second one comes would be worse
 * than none.
 */
static bool under_mps(const struct see_round *r, const struct see_use *u)
{
	const struct see_seat *seat;

	if (!u->in.live || u->first->seat == SEE_NONE)
		return u->in.mode == ACCOUNT_MPS;
	seat = &r->seats.v[u->first->seat];
	return mps_shares(seat->resource, seat->device);
}

/* No process is seen yet. */
static void begin(struct see_round *r, uint32_t unit, bool busy_known)
{
	for (uint32_t i = 0; i < r->uses.n; i++) {
		struct see_use *u = &r->uses.v[i];

		if (u->unit != unit)
			continue;
		u->processes_known = true;
		u->in.memory_from = u->in.live ? ACCOUNT_FROM_PROCESSES : ACCOUNT_FROM_NOTHING;
		u->in.busy_from = busy_known ? ACCOUNT_FROM_PROCESSES : ACCOUNT_FROM_NOTHING;
		if (!under_mps(r, u))
			continue;
		u->in.busy_from = ACCOUNT_FROM_NOTHING;
		r->in_units[unit].foreign = true;
	}
}

static void take(struct see_use *u, const struct sample_process *p, uint64_t interval_ns)
{
	u->n_processes++;
	if (p->bytes != GPU_BYTES_UNKNOWN)
		u->in.memory += p->bytes;
	else
		u->in.memory_from = ACCOUNT_FROM_NOTHING;
	if (!p->busy_known)
		u->in.busy_from = ACCOUNT_FROM_NOTHING;
	u->in.busy_ns += p->busy_known ? p->busy_ns : 0;
	u->in.busy_of_ns = interval_ns;
}

/* Each container without a process may be the owner of one that is hidden. */
static void forget_idle(struct see_round *r, uint32_t unit)
{
	for (uint32_t i = 0; i < r->uses.n; i++) {
		struct see_use *u = &r->uses.v[i];

		if (u->unit != unit || u->n_processes > 0)
			continue;
		u->processes_known = false;
		u->in.memory_from = u->in.busy_from = ACCOUNT_FROM_NOTHING;
	}
}

static void assign_unit(struct monitoring *mon, struct see_round *r, uint32_t unit,
	const struct sample_unit *s)
{
	struct account_unit_round *in = &r->in_units[unit];
	bool hidden = mon->c.ops->holders_pids(mon->c.arg) != HOLDERS_PIDS_NODE;

	in->busy_known = s->busy_known && s->interval_ns;
	in->busy_ns = in->busy_known ? s->busy_ns : 0;
	in->busy_of_ns = in->busy_known ? s->interval_ns : 0;
	if (!s->processes_known)
		return;
	begin(r, unit, s->interval_ns > 0);
	for (uint32_t i = 0; i < s->n_processes; i++) {
		uint32_t use;

		switch (owner_of(mon, r, unit, s->processes[i].pid, &use)) {
		case OWNER_USE:
			take(&r->uses.v[use], &s->processes[i], s->interval_ns);
			break;
		case OWNER_OTHER:
			in->foreign = true;
			break;
		case OWNER_HIDDEN:
			hidden = true;
			break;
		}
	}
	if (hidden)
		forget_idle(r, unit);
}

void see_assign(struct monitoring *mon, struct see_round *r)
{
	for (uint32_t i = 0; i < r->units.n; i++) {
		const struct sample_unit *s = sample_find(mon->sample, r->units.v[i].uuid);

		if (s)
			assign_unit(mon, r, i, s);
	}
}

void see_assign_sole(struct monitoring *mon, struct see_round *r)
{
	for (uint32_t i = 0; i < r->units.n; i++) {
		const struct sample_unit *s = sample_find(mon->sample, r->units.v[i].uuid);
		const struct account_unit_round *in = &r->in_units[i];
		struct account_use *use;

		if (!s || !s->memory_known || in->n_uses != 1 || in->foreign)
			continue;
		use = &r->uses.v[in->first_use].in;
		if (!use->live || use->memory_from)
			continue;
		use->memory = s->memory_used;
		use->memory_from = ACCOUNT_FROM_DEVICE;
	}
}
