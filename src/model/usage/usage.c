/* SPDX-License-Identifier: Apache-2.0 */
#include "model/usage/internal.h"

#include <stdlib.h>
#include <string.h>

#define SECOND_NS UINT64_C(1000000000)

/* --- life --- */

void accounts_init(struct accounts *a)
{
	*a = (struct accounts){ .units = NULL };
}

static void unit_free(struct account_unit *u)
{
	for (size_t i = 0; i < u->n_uses; i++)
		(void)account_free(u->uses[i]);
	free(u->uses);
	free(u->uuid);
	free(u);
}

void accounts_fini(struct accounts *a)
{
	for (size_t i = 0; i < a->n_units; i++)
		unit_free(a->units[i]);
	free(a->units);
	free(a->gpu_other);
	accounts_init(a);
}

struct account_unit *accounts_unit(const struct accounts *a, const char *uuid)
{
	for (size_t i = 0; i < a->n_units; i++)
		if (!strcmp(a->units[i]->uuid, uuid))
			return a->units[i];
	return NULL;
}

static struct account_unit *unit_of(struct accounts *a, const char *uuid, struct error *err)
{
	struct account_unit *u = accounts_unit(a, uuid), **more;

	if (u)
		return u;
	more = reallocarray(a->units, a->n_units + 1, sizeof(struct account_unit *));
	if (more)
		a->units = more;
	u = more ? calloc(1, sizeof(*u)) : NULL;
	if (u)
		u->uuid = strdup(uuid);
	if (!u || !u->uuid) {
		free(u);
		(void)error_nomem(err);
		return NULL;
	}
	a->units[a->n_units++] = u;
	return u;
}

/* --- a round of one unit --- */

static uint64_t sum_shares(const struct account_use *uses, uint32_t n)
{
	account_wide sum = 0;

	for (uint32_t i = 0; i < n; i++)
		sum += uses[i].share_ns;
	return sum > UINT64_MAX ? UINT64_MAX : (uint64_t)sum;
}

/* Seats of an earlier layout may come on top of those of now: more than the whole is shared out as the whole. */
static uint64_t scaled(uint64_t share_ns, uint64_t sum, uint64_t whole)
{
	return sum > whole ? account_part(share_ns, whole, sum) : share_ns;
}

/* What a slice uses between two looks only its arbiter sees: without its word 0 says nothing. */
static void raise_peak(struct account *a, const struct account_use *in)
{
	bool seen = in->memory_from != ACCOUNT_FROM_NOTHING;

	a->memory_high = seen ? in->memory : 0;
	if (in->peak_known && in->peak > a->memory_peak && in->peak > a->memory_high)
		a->memory_high = in->peak;
	if (a->memory_high > a->memory_peak)
		a->memory_peak = a->memory_high;
	a->peak_known =
		a->peak_known || in->peak_known || a->memory_peak > 0 || (seen && !in->sliced);
}

static void count_memory(struct account *a, const struct account_use *in)
{
	bool known = in->memory_from != ACCOUNT_FROM_NOTHING;
	account_wide sum;

	a->memory_from = in->live ? in->memory_from : ACCOUNT_FROM_NOTHING;
	a->memory = a->memory_from ? in->memory : 0;
	a->memory_ever = a->memory_ever || known;
	/* Of one that has ended the last part of a round is not known, of one that was never seen nothing is. */
	a->memory_unknown = a->memory_unknown || (!known && (in->live || !a->memory_ever));
	raise_peak(a, in);
	if (!known)
		return;
	sum = (account_wide)in->memory * in->held_ns + a->memory_rest;
	a->memory_rest = (uint64_t)(sum % SECOND_NS);
	a->delta.memory_byte_s = (uint64_t)(sum / SECOND_NS);
	a->total.memory_byte_s += a->delta.memory_byte_s;
}

static void count_use(struct account_unit *u, const struct account_unit_round *r,
	const struct account_use *in, uint64_t share_ns, uint64_t whole, uint64_t cost,
	uint64_t dt_ns)
{
	struct account *a = in->account;
	uint64_t held = in->held_ns > dt_ns ? dt_ns : in->held_ns;

	a->delta = (struct account_counts){
		.held_ns = held,
		.gpu_ns = account_part(share_ns, r->part,
			(uint64_t)ACCOUNT_MILLION * ACCOUNT_MILLION),
		.cost_nano = whole ? account_part(cost, share_ns, whole) : 0,
	};
	a->total.held_ns += held;
	a->total.gpu_ns += a->delta.gpu_ns;
	a->total.cost_nano += a->delta.cost_nano;
	u->delta.idle_gpu_ns -= a->delta.gpu_ns;
	u->delta.idle_cost_nano -= a->delta.cost_nano;
	count_memory(a, in);
}

static void count_present(struct account_unit *u, uint32_t part, uint64_t dt_ns)
{
	account_wide present = (account_wide)dt_ns * part + u->present_rest;

	u->present_rest = (uint64_t)(present % ACCOUNT_MILLION);
	u->delta.present_ns = (uint64_t)(present / ACCOUNT_MILLION);
	u->present_ns += u->delta.present_ns;
}

/* @counted: it is known who held what. */
static void count_unit(struct account_unit *u, const struct account_unit_round *r,
	struct account_use *uses, uint64_t cost, bool counted, uint64_t dt_ns)
{
	uint64_t whole = dt_ns * ACCOUNT_MILLION, sum;
	uint32_t n = uses ? r->n_uses : 0; /* without uses there are none */
	uint64_t held = 0;

	sum = sum_shares(uses, n);
	count_present(u, r->part, counted ? dt_ns : 0);
	u->delta.idle_gpu_ns = u->delta.present_ns;
	u->delta.cost_nano = u->delta.idle_cost_nano = cost;
	for (uint32_t i = 0; i < n; i++) {
		count_use(u, r, &uses[i], counted ? scaled(uses[i].share_ns, sum, whole) : 0,
			whole, cost, dt_ns);
		held += uses[i].live ? uses[i].share : 0;
	}
	for (uint32_t i = 0; i < n; i++)
		uses[i].account->share =
			!uses[i].live ? 0
				      : (uint32_t)scaled(uses[i].share, held, ACCOUNT_MILLION);
	u->held = held > ACCOUNT_MILLION ? ACCOUNT_MILLION : (uint32_t)held;
	account_busy(u, r, uses, dt_ns);
	u->idle_gpu_ns += u->delta.idle_gpu_ns;
	u->cost_nano += cost;
	u->idle_cost_nano += u->delta.idle_cost_nano;
}

/* --- a round --- */

static int match_all(struct accounts *a, const struct account_round *r, struct error *err)
{
	for (size_t i = 0; i < a->n_units; i++) {
		a->units[i]->listed = false;
		for (size_t k = 0; k < a->units[i]->n_uses; k++)
			a->units[i]->uses[k]->matched = false;
	}
	for (uint32_t i = 0; i < r->n_units; i++) {
		struct account_unit *u = unit_of(a, r->units[i].uuid, err);

		if (!u)
			return -1;
		u->listed = true;
		for (uint32_t k = 0; k < r->units[i].n_uses; k++) {
			struct account_use *in = &r->uses[r->units[i].first_use + k];
			uint64_t began =
				r->wall_ns > in->held_ns ? r->wall_ns - in->held_ns : 0;

			in->account = account_match(u, in, began, err);
			if (!in->account)
				return -1;
		}
	}
	return 0;
}

/* Those that end within the round are told of it now, those that come back have not ended. */
static void set_life(const struct account_round *r, const struct account_unit_round *u)
{
	for (uint32_t i = 0; i < u->n_uses; i++) {
		const struct account_use *in = &r->uses[u->first_use + i];

		if (in->live)
			in->account->ended_wall_ns = in->account->ended_for_ns = 0;
		else if (in->account->live || !in->account->ended_wall_ns)
			in->account->ended_wall_ns = r->wall_ns;
		in->account->live = in->live;
	}
}

static void drop_gone(struct accounts *a)
{
	size_t kept = 0;

	for (size_t i = 0; i < a->n_units; i++) {
		if (a->units[i]->listed) {
			a->units[kept++] = a->units[i];
			continue;
		}
		a->other_cost_nano += a->units[i]->cost_nano;
		unit_free(a->units[i]);
	}
	a->n_units = kept;
}

int accounts_round(struct accounts *a, const struct account_round *r, struct error *err)
{
	CLEANUP(freep) uint64_t *costs = calloc(r->n_units ? r->n_units : 1, sizeof(*costs));
	uint64_t dt = r->dt_ns > ACCOUNT_ROUND_MAX_NS ? ACCOUNT_ROUND_MAX_NS : r->dt_ns;

	if (!costs)
		return error_nomem(err);
	if (match_all(a, r, err) < 0 || account_cost(a, r, dt, costs, err) < 0)
		return -1;
	for (uint32_t i = 0; i < r->n_units; i++) {
		struct account_unit *u = accounts_unit(a, r->units[i].uuid);

		count_unit(u, &r->units[i], r->n_uses ? r->uses + r->units[i].first_use : NULL,
			costs[i], !r->holders_unknown, dt);
		set_life(r, &r->units[i]);
		account_end_others(u, dt, r->wall_ns);
	}
	if (r->complete)
		drop_gone(a);
	return 0;
}

/* --- what was kept --- */

int accounts_restore_unit(struct accounts *a, const char *uuid, struct account_unit **ret,
	struct error *err)
{
	*ret = unit_of(a, uuid, err);
	return *ret ? 0 : -1;
}

int accounts_restore_use(struct account_unit *u, const struct account_use *use,
	struct account **ret, struct error *err)
{
	*ret = account_new(u, use, err);
	return *ret ? 0 : -1;
}

/* What @parts lack of @whole; parts that are more make it larger. */
static uint64_t rest_of(uint64_t *whole, uint64_t parts)
{
	if (parts > *whole)
		*whole = parts;
	return *whole - parts;
}

void accounts_settle(struct accounts *a)
{
	uint64_t cost = a->other_cost_nano;

	for (size_t i = 0; i < a->n_units; i++) {
		struct account_unit *u = a->units[i];
		struct account_counts sum = { 0 };

		for (size_t k = 0; k < u->n_uses; k++) {
			sum.busy_ns += u->uses[k]->total.busy_ns;
			sum.gpu_ns += u->uses[k]->total.gpu_ns;
			sum.cost_nano += u->uses[k]->total.cost_nano;
		}
		u->past.busy_ns = rest_of(&u->busy_ns, sum.busy_ns + u->other_busy_ns);
		u->past.gpu_ns = rest_of(&u->present_ns, sum.gpu_ns + u->idle_gpu_ns);
		u->past.cost_nano = rest_of(&u->cost_nano, sum.cost_nano + u->idle_cost_nano);
		cost += u->cost_nano;
	}
	a->other_cost_nano += rest_of(&a->cost_nano, cost);
}
