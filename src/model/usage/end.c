/* SPDX-License-Identifier: Apache-2.0 */
#include "model/usage/internal.h"

#include <string.h>

static void add_account_to_past(struct account_device *u, size_t i)
{
	struct account *a = u->uses[i];

	u->past.busy_ns += a->total.busy_ns;
	u->past.gpu_ns += a->total.gpu_ns;
	u->past.cost_nano += a->total.cost_nano;
	(void)account_free(a);
	u->n_uses--;
	memmove(&u->uses[i], &u->uses[i + 1], (u->n_uses - i) * sizeof(u->uses[0]));
}

/* The account that ended first; n_uses: none has. *ret_n: how many have ended. */
static size_t find_oldest_ended(const struct account_device *u, size_t *ret_n)
{
	size_t found = u->n_uses;

	*ret_n = 0;
	for (size_t i = 0; i < u->n_uses; i++) {
		if (u->uses[i]->live)
			continue;
		++*ret_n;
		if (found == u->n_uses ||
			u->uses[i]->ended_for_ns > u->uses[found]->ended_for_ns)
			found = i;
	}
	return found;
}

static void end_live_account(struct account *a, uint64_t wall_ns)
{
	a->live = false;
	a->ended_wall_ns = wall_ns;
	a->ended_for_ns = 0;
	a->share = 0;
	a->memory_from = ACCOUNT_FROM_NOTHING;
	a->memory = a->memory_high = 0;
}

void account_end_others(struct account_device *u, uint64_t dt_ns, uint64_t wall_ns)
{
	size_t n_ended, at;

	for (size_t i = u->n_uses; i-- > 0;) {
		struct account *a = u->uses[i];

		if (a->matched)
			continue;
		a->delta = (struct account_counts){ 0 };
		if (a->live)
			end_live_account(a, wall_ns);
		else
			a->ended_for_ns += dt_ns;
		if (a->ended_for_ns >= ACCOUNT_ENDED_RETAIN_NS)
			add_account_to_past(u, i);
	}
	for (at = find_oldest_ended(u, &n_ended); n_ended > ACCOUNT_ENDED_MAX;
		at = find_oldest_ended(u, &n_ended)) {
		/* It is reported once with its figures of this round. */
		if (u->uses[at]->matched)
			break;
		add_account_to_past(u, at);
	}
}
