/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/monitoring/internal.h"

#include <stdlib.h>

void see_round_fini(struct see_round *r)
{
	see_slices_fini(&r->slices);
	see_uses_fini(&r->uses);
	see_holds_fini(&r->before);
	see_seats_fini(&r->seats);
	see_units_fini(&r->units);
	free(r->in_units);
	free(r->in_uses);
	free(r->gpus);
}

/* The offer, unless positions in it may be of something else. */
static const struct offer *offer_of(const struct monitoring *mon)
{
	return mon->c.facts->offer_error.code == ERR_NONE ? mon->c.facts->offered.offer : NULL;
}

static int make_places(struct monitoring *mon, struct see_round *r, struct error *err)
{
	const struct inventory *inv = mon->c.facts->node.inv;
	const struct offer *offer = offer_of(mon);

	if (see_units_make(&r->units, inv, offer, mon->c.facts->offered.inv, err) < 0 ||
		see_seats_make(&r->seats, &r->units, offer, mon->c.facts->offered.inv, err) < 0)
		return -1;
	r->in.n_gpus = inv ? inv->n : 0;
	r->gpus = calloc(r->in.n_gpus + 1, sizeof(*r->gpus));
	if (!r->gpus)
		return error_nomem(err);
	for (uint32_t i = 0; i < r->in.n_gpus; i++)
		r->gpus[i] = inv->gpus[i].uuid;
	return 0;
}

/* Who held what in the round. */
static int make_uses(struct monitoring *mon, struct see_round *r, struct error *err)
{
	const struct see_span span = { .from_ns = r->now_ns - r->dt_ns, .to_ns = r->now_ns };
	struct see_holds now;
	bool first = mon->list_ns == 0;

	/* Of those who were there before a time that is not known, nobody knows when in it they ended. */
	r->counted = mon->list ? first || see_holders_known(mon)
			       : !first && mon->unknown_rounds < SEE_UNKNOWN_ROUNDS;
	if (!mon->list) {
		mon->unknown_rounds++;
		see_holds_stay(&mon->holds, &r->seats);
		return see_uses_make(&r->uses, &mon->holds, &mon->holds, &r->units, span,
			r->counted, err);
	}
	if (see_holds_make(&now, &mon->holds, mon->list, &mon->checkpoint, &r->units, &r->seats,
		    &mon->givens, span, err) < 0)
		return -1;
	r->before = mon->holds;
	mon->holds = now;
	mon->list_ns = r->now_ns;
	mon->unknown_rounds = 0;
	/* Those who were there before us held it before too. */
	return see_uses_make(&r->uses, &mon->holds, first ? &mon->holds : &r->before, &r->units,
		span, r->counted, err);
}

static int make_input(struct see_round *r, struct error *err)
{
	r->in_units = calloc(r->units.n + 1, sizeof(*r->in_units));
	r->in_uses = calloc(r->uses.n + 1, sizeof(*r->in_uses));
	if (!r->in_units || !r->in_uses)
		return error_nomem(err);
	for (uint32_t i = 0; i < r->units.n; i++)
		r->in_units[i] = (struct account_unit_round){ .uuid = r->units.v[i].uuid,
			.gpu = r->units.v[i].at,
			.part = r->units.v[i].part };
	for (uint32_t i = 0; i < r->seats.n; i++)
		r->in_units[r->seats.v[i].unit].priced = true;
	for (uint32_t i = 0; i < r->uses.n; i++) {
		struct account_unit_round *u = &r->in_units[r->uses.v[i].unit];

		u->priced = true;
		if (!u->n_uses++)
			u->first_use = i;
	}
	return 0;
}

static int count_round(struct monitoring *mon, struct see_round *r, struct error *err)
{
	for (uint32_t i = 0; i < r->uses.n; i++)
		r->in_uses[i] = r->uses.v[i].in;
	r->in.dt_ns = r->dt_ns;
	r->in.wall_ns = r->wall_ns;
	r->in.holders_unknown = !r->counted;
	r->in.price_nano_per_hour = (uint64_t)mon->price.nano_per_hour;
	/* While NVML is not asked, or not there, devices are not gone. */
	r->in.complete = mon->c.facts->nvml_answered &&
			 mon->c.facts->nvml_down.code == ERR_NONE &&
			 !mon->c.ops->are_gpus_released(mon->c.arg);
	r->in.units = r->in_units;
	r->in.n_units = r->units.n;
	r->in.uses = r->in_uses;
	r->in.n_uses = r->uses.n;
	if (accounts_round(&mon->accounts, &r->in, err) < 0)
		return -1;
	for (uint32_t i = 0; i < r->uses.n; i++) {
		r->uses.v[i].in.account = r->in_uses[i].account;
		r->uses.v[i].in.busy_from = r->in_uses[i].busy_from;
	}
	see_charges_lend(&mon->charges, &r->uses);
	return 0;
}

int see_count(struct monitoring *mon, struct see_round *r, struct error *err)
{
	if (make_places(mon, r, err) < 0 || make_uses(mon, r, err) < 0 ||
		make_input(r, err) < 0 ||
		see_slices_make(&r->slices, mon->c.slices, &mon->holds, err) < 0)
		return -1;
	see_assign(mon, r);
	if (see_charges_round(&mon->charges, &r->slices, &r->uses, &r->units,
		    mon->c.started_wall_ns, r->wall_ns, r->now_ns, err) < 0)
		return -1;
	see_assign_sole(mon, r);
	return count_round(mon, r, err);
}
