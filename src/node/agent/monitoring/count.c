/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts a round: the devices and replicas of the node, which container held which, and the accounts
 * (monitoring.h, step "Count").
 */
#include "node/agent/monitoring/internal.h"

#include "node/agent/monitoring/owners.h"

#include <stdlib.h>
#include <string.h>

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
