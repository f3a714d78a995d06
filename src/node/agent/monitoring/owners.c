/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/monitoring/owners.h"

#include "model/mps/mps.h"

#include <string.h>

enum owner { OWNER_CONTAINER, OWNER_OTHER, OWNER_HIDDEN };

/* Also MONITORING_NONE if several containers match. */
static uint32_t find_pod_usage(const struct monitoring_usage *usage, uint32_t device,
	const char *uid, const char *container)
{
	uint32_t found = MONITORING_NONE, n = 0;

	for (uint32_t i = 0; i < usage->n; i++) {
		const struct account_use *in = &usage->v[i].in;

		if (usage->v[i].device_index != device || strcmp(in->uid, uid) != 0)
			continue;
		if (*container && !strcmp(in->container, container))
			return i;
		/* A container that ended in this round matches only if no live one does. */
		if (found == MONITORING_NONE || in->live) {
			n = found != MONITORING_NONE && usage->v[found].in.live && in->live
				    ? n + 1
				    : 1;
			found = i;
		}
	}
	return n == 1 && !*container ? found : MONITORING_NONE;
}

/* Whether a container on the device may belong to pod @uid. The kubelet lists a pod before the checkpoint has the
 * pod's UID. */
static bool may_be_of(const struct monitoring_usage *usage, uint32_t device, const char *uid)
{
	for (uint32_t i = 0; i < usage->n; i++)
		if (usage->v[i].device_index == device &&
			(!*usage->v[i].in.uid || !strcmp(usage->v[i].in.uid, uid)))
			return true;
	return false;
}

static enum owner find_process_owner(const struct monitoring *mon,
	const struct monitoring_round *r, uint32_t device, uint32_t pid, uint32_t *ret_use)
{
	const struct monitoring_process *p = monitoring_processes_find(&mon->processes, pid);

	*ret_use = monitoring_slices_find_process(&r->slices, &r->usage, device, pid);
	if (*ret_use != MONITORING_NONE)
		return OWNER_CONTAINER;
	if (!p || !p->readable)
		return OWNER_HIDDEN;
	if (!*p->uid)
		return OWNER_OTHER;
	*ret_use = find_pod_usage(&r->usage, device, p->uid, p->container);
	if (*ret_use != MONITORING_NONE)
		return OWNER_CONTAINER;
	return may_be_of(&r->usage, device, p->uid) ? OWNER_HIDDEN : OWNER_OTHER;
}

/*
 * Under MPS the driver does not report how long a single process computed; what it reports while none computes
 * does not count. A container alone on the device does not get the device's time either: that counter would end
 * when a second container comes.
 */
static bool under_mps(const struct monitoring_round *r, const struct monitoring_usage_entry *u)
{
	const struct monitoring_replica *replica;

	if (!u->in.live || u->first_allocation->replica == MONITORING_NONE)
		return u->in.mode == ACCOUNT_MPS;
	replica = &r->replicas.v[u->first_allocation->replica];
	return mps_shares(replica->resource, replica->device);
}

/* Starts with no process on the device. */
static void init_usage_processes(struct monitoring_round *r, uint32_t device, bool busy_known)
{
	for (uint32_t i = 0; i < r->usage.n; i++) {
		struct monitoring_usage_entry *u = &r->usage.v[i];

		if (u->device_index != device)
			continue;
		u->processes_known = true;
		u->in.memory_from = u->in.live ? ACCOUNT_FROM_PROCESSES : ACCOUNT_FROM_NOTHING;
		u->in.busy_from = busy_known ? ACCOUNT_FROM_PROCESSES : ACCOUNT_FROM_NOTHING;
		if (!under_mps(r, u))
			continue;
		u->in.busy_from = ACCOUNT_FROM_NOTHING;
		r->in_devices[device].has_other_users = true;
	}
}

static void add_process_usage(struct monitoring_usage_entry *u, const struct sample_process *p,
	uint64_t interval_ns)
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

/* The owner of a hidden process may be any container without a process, so their usage is not known. */
static void forget_idle(struct monitoring_round *r, uint32_t device)
{
	for (uint32_t i = 0; i < r->usage.n; i++) {
		struct monitoring_usage_entry *u = &r->usage.v[i];

		if (u->device_index != device || u->n_processes > 0)
			continue;
		u->processes_known = false;
		u->in.memory_from = u->in.busy_from = ACCOUNT_FROM_NOTHING;
	}
}

static void assign_device_usage(struct monitoring *mon, struct monitoring_round *r,
	uint32_t device, const struct sample_device *s)
{
	struct account_device_round *in = &r->in_devices[device];
	bool hidden = mon->c.ops->kubelet_pids(mon->c.arg) != KUBELET_PIDS_NODE;

	in->busy_known = s->busy_known && s->interval_ns;
	in->busy_ns = in->busy_known ? s->busy_ns : 0;
	in->busy_of_ns = in->busy_known ? s->interval_ns : 0;
	if (!s->processes_known)
		return;
	init_usage_processes(r, device, s->interval_ns > 0);
	for (uint32_t i = 0; i < s->n_processes; i++) {
		uint32_t use;

		switch (find_process_owner(mon, r, device, s->processes[i].pid, &use)) {
		case OWNER_CONTAINER:
			add_process_usage(&r->usage.v[use], &s->processes[i], s->interval_ns);
			break;
		case OWNER_OTHER:
			in->has_other_users = true;
			break;
		case OWNER_HIDDEN:
			hidden = true;
			break;
		}
	}
	if (hidden)
		forget_idle(r, device);
}

void monitoring_assign_usage(struct monitoring *mon, struct monitoring_round *r)
{
	for (uint32_t i = 0; i < r->devices.n; i++) {
		const struct sample_device *s =
			sample_find(mon->round.sample, r->devices.v[i].uuid);

		if (s)
			assign_device_usage(mon, r, i, s);
	}
}

void monitoring_assign_sole_usage(struct monitoring *mon, struct monitoring_round *r)
{
	for (uint32_t i = 0; i < r->devices.n; i++) {
		const struct sample_device *s =
			sample_find(mon->round.sample, r->devices.v[i].uuid);
		const struct account_device_round *in = &r->in_devices[i];
		struct account_use *use;

		if (!s || !s->memory_known || in->n_uses != 1 || in->has_other_users)
			continue;
		use = &r->usage.v[in->first_use].in;
		if (!use->live || use->memory_from)
			continue;
		use->memory = s->memory_used;
		use->memory_from = ACCOUNT_FROM_DEVICE;
	}
}
