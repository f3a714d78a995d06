/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/monitoring/internal.h"

#include "model/mps/mps.h"

#include <stdlib.h>
#include <string.h>

/* ---- whose usage ---- */

/*
 * Assigns the processes on a device to the containers that hold the device. The container of a process is
 *
 *	1. the container in whose slice the arbiter knows the process,
 *	2. else the container that /proc names,
 *	3. else the only container of the process's pod on that device.
 *
 * Memory and time of a process without a container are the rest of the device.
 *
 * A container without a process has used nothing only if the owner of every process on its device is known. The
 * owner of a process is not known, and neither is the container's usage, if
 *
 *	1. the agent has a PID namespace of its own: NVML lists only the processes of the caller's namespace;
 *	2. NVML names a process that /proc does not show: the process has ended since, or is hidden from the
 *	   agent;
 *	3. the container of the process's pod, or the pod of the process's container, is not known yet.
 *
 * A container that alone holds its device then gets the device's own figures.
 */

enum owner { OWNER_CONTAINER, OWNER_OTHER, OWNER_HIDDEN };

/* Also MONITORING_NONE if several containers match. */
static uint32_t find_pod_usage(const struct monitoring_usage *uses, uint32_t device,
	const char *uid, const char *container)
{
	uint32_t found = MONITORING_NONE, n = 0;

	for (uint32_t i = 0; i < uses->n; i++) {
		const struct account_use *in = &uses->v[i].in;

		if (uses->v[i].device_index != device || strcmp(in->uid, uid) != 0)
			continue;
		if (*container && !strcmp(in->container, container))
			return i;
		/* A container that ended in this round matches only if no live one does. */
		if (found == MONITORING_NONE || in->live) {
			n = found != MONITORING_NONE && uses->v[found].in.live && in->live
				    ? n + 1
				    : 1;
			found = i;
		}
	}
	return n == 1 && !*container ? found : MONITORING_NONE;
}

/* Whether a container on the device may belong to pod @uid. The kubelet lists a pod before the checkpoint has the
 * pod's UID. */
static bool may_be_of(const struct monitoring_usage *uses, uint32_t device, const char *uid)
{
	for (uint32_t i = 0; i < uses->n; i++)
		if (uses->v[i].device_index == device &&
			(!*uses->v[i].in.uid || !strcmp(uses->v[i].in.uid, uid)))
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

/* Assigns NVML's figures of devices and processes to the containers of the round. */
static void monitoring_assign_usage(struct monitoring *mon, struct monitoring_round *r)
{
	for (uint32_t i = 0; i < r->devices.n; i++) {
		const struct sample_device *s =
			sample_find(mon->round.sample, r->devices.v[i].uuid);

		if (s)
			assign_device_usage(mon, r, i, s);
	}
}

/* Called after the charges are counted. If nothing better is known, a container that alone holds a device gets
 * the device's memory. */
static void monitoring_assign_sole_usage(struct monitoring *mon, struct monitoring_round *r)
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

/* ---- the round ---- */

void monitoring_round_fini(struct monitoring_round *r)
{
	monitoring_slices_fini(&r->slices);
	monitoring_usage_fini(&r->usage);
	monitoring_allocations_fini(&r->allocations_before);
	monitoring_replicas_fini(&r->replicas);
	monitoring_devices_fini(&r->devices);
	free(r->in_devices);
	free(r->in_usage);
	free(r->gpus);
}

/* The offer; NULL while its positions may belong to another inventory. */
static const struct offer *get_valid_offer(const struct monitoring *mon)
{
	return mon->c.facts->offer_error.code == ERR_NONE ? mon->c.facts->offered.offer : NULL;
}

static int make_places(struct monitoring *mon, struct monitoring_round *r, struct error *err)
{
	const struct inventory *inv = mon->c.facts->node.inv;
	const struct offer *offer = get_valid_offer(mon);

	if (monitoring_devices_make(&r->devices, inv, offer, mon->c.facts->offered.inv, err) <
			0 ||
		monitoring_replicas_make(&r->replicas, &r->devices, offer,
			mon->c.facts->offered.inv, err) < 0)
		return -1;
	r->in.n_gpus = inv ? inv->n : 0;
	r->gpus = calloc(r->in.n_gpus + 1, sizeof(*r->gpus));
	if (!r->gpus)
		return error_nomem(err);
	for (uint32_t i = 0; i < r->in.n_gpus; i++)
		r->gpus[i] = inv->gpus[i].uuid;
	return 0;
}

/* Sets the usage of the round: which container held which replica. */
static int build_round_usage(struct monitoring *mon, struct monitoring_round *r,
	struct error *err)
{
	const struct monitoring_span span = { .from_ns = r->now_ns - r->dt_ns,
		.to_ns = r->now_ns };
	struct monitoring_allocations now;
	bool first = mon->listing.listed_ns == 0;

	if (!mon->round.list) {
		r->counted =
			!first && mon->listing.unknown_rounds < MONITORING_UNKNOWN_ROUNDS_MAX;
		mon->listing.unknown_rounds++;
		monitoring_allocations_carry(&mon->allocation_list, &r->replicas);
		return monitoring_usage_make(&r->usage, &mon->allocation_list,
			&mon->allocation_list, &r->devices, span, r->counted, err);
	}
	/* After a time of unknown allocations, the end of an earlier allocation is not known. */
	r->counted = first || monitoring_allocations_known(mon);
	if (monitoring_allocations_make(&now, &mon->allocation_list, mon->round.list,
		    &mon->checkpoint.content, &r->devices, &r->replicas, &mon->pending, span,
		    err) < 0)
		return -1;
	r->allocations_before = mon->allocation_list;
	mon->allocation_list = now;
	mon->listing.listed_ns = r->now_ns;
	mon->listing.unknown_rounds = 0;
	/* At the first list, the pods held their devices before the agent started too. */
	return monitoring_usage_make(&r->usage, &mon->allocation_list,
		first ? &mon->allocation_list : &r->allocations_before, &r->devices, span,
		r->counted, err);
}

static int make_input(struct monitoring_round *r, struct error *err)
{
	r->in_devices = calloc(r->devices.n + 1, sizeof(*r->in_devices));
	r->in_usage = calloc(r->usage.n + 1, sizeof(*r->in_usage));
	if (!r->in_devices || !r->in_usage)
		return error_nomem(err);
	for (uint32_t i = 0; i < r->devices.n; i++)
		r->in_devices[i] = (struct account_device_round){ .uuid = r->devices.v[i].uuid,
			.gpu = r->devices.v[i].gpu_index,
			.part = r->devices.v[i].part };
	for (uint32_t i = 0; i < r->replicas.n; i++)
		r->in_devices[r->replicas.v[i].device_index].priced = true;
	for (uint32_t i = 0; i < r->usage.n; i++) {
		struct account_device_round *u = &r->in_devices[r->usage.v[i].device_index];

		u->priced = true;
		if (!u->n_uses++)
			u->first_use = i;
	}
	return 0;
}

static int count_round(struct monitoring *mon, struct monitoring_round *r, struct error *err)
{
	for (uint32_t i = 0; i < r->usage.n; i++)
		r->in_usage[i] = r->usage.v[i].in;
	r->in.dt_ns = r->dt_ns;
	r->in.wall_ns = r->wall_ns;
	r->in.allocations_unknown = !r->counted;
	r->in.price_nano_per_hour = (uint64_t)mon->price.nano_per_hour;
	/* While NVML is unavailable or not asked, missing devices do not count as gone. */
	r->in.complete = mon->c.facts->nvml_answered &&
			 mon->c.facts->nvml_down.code == ERR_NONE &&
			 !mon->c.ops->are_gpus_released(mon->c.arg);
	r->in.devices = r->in_devices;
	r->in.n_devices = r->devices.n;
	r->in.uses = r->in_usage;
	r->in.n_uses = r->usage.n;
	if (accounts_round(&mon->accounts, &r->in, err) < 0)
		return -1;
	for (uint32_t i = 0; i < r->usage.n; i++) {
		r->usage.v[i].in.account = r->in_usage[i].account;
		r->usage.v[i].in.busy_from = r->in_usage[i].busy_from;
	}
	monitoring_charges_add_estimate(&mon->charges, &r->usage);
	return 0;
}

int monitoring_count_round(struct monitoring *mon, struct monitoring_round *r,
	struct error *err)
{
	if (make_places(mon, r, err) < 0 || build_round_usage(mon, r, err) < 0 ||
		make_input(r, err) < 0 ||
		monitoring_slices_make(&r->slices, mon->c.slices, &mon->allocation_list, err) <
			0)
		return -1;
	monitoring_assign_usage(mon, r);
	if (monitoring_charges_count(&mon->charges, &r->slices, &r->usage, &r->devices,
		    mon->c.started_wall_ns, r->wall_ns, r->now_ns, err) < 0)
		return -1;
	monitoring_assign_sole_usage(mon, r);
	return count_round(mon, r, err);
}
