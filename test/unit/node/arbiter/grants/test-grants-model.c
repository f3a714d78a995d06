/* SPDX-License-Identifier: Apache-2.0 */

/* Random steps: after each step the grants agree with the true state of the processes. */
#include "grants-client.h"

#define CLIENTS 12

struct world {
	struct grants_table b;
	struct grants_slice *s;
	struct grants_test_client c[CLIENTS];
	uint64_t limit[2], unhooked[2];
	uint32_t next_pid;
	uint64_t random;
};

static uint64_t random_below(struct world *w, uint64_t below)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	return w->random % below;
}

static uint64_t get_used_bytes(const struct world *w, unsigned int gpu)
{
	uint64_t sum = w->unhooked[gpu];

	for (size_t i = 0; i < CLIENTS; i++)
		sum += w->c[i].alive ? w->c[i].has[gpu] : 0;
	return sum;
}

static void check_grants_world(struct world *w)
{
	/* Memory freed above a lowered limit. */
	grants_reclaim_over_limit(&w->b);
	for (unsigned int g = 0; g < 2; g++) {
		uint64_t granted = 0, used = get_used_bytes(w, g);

		for (size_t i = 0; i < CLIENTS; i++) {
			const struct grants_test_client *c = &w->c[i];

			if (!c->alive)
				continue;
			granted += grants_get_granted(c->m, g);
			assert_int_equal(grants_get_granted(c->m, g),
				atomic_load(&c->page.gpus[g].granted));
			assert_int_equal(grants_get_used(c->m, g), c->has[g]);
			assert_int_equal(atomic_load(&c->page.gpus[g].seq) & 1, 0);
			assert_int_equal(atomic_load(&c->page.gpus[g].limit), w->limit[g]);
		}
		assert_int_equal(granted, w->s->gpus[g].granted);
		assert_int_equal(used, grants_slice_used(w->s, g));
		/* Only used memory is above the limit, and then no credit is left. */
		if (granted + w->unhooked[g] > w->limit[g])
			assert_int_equal(granted + w->unhooked[g], used);
	}
}

static void request_at_random(struct world *w, struct grants_test_client *c, unsigned int g)
{
	uint64_t bytes = 1 + (random_below(w, 8) ? random_below(w, 40 * MIB)
						 : random_below(w, w->limit[g] + MIB));
	uint64_t used = get_used_bytes(w, g);
	bool fits = used <= w->limit[g] && bytes <= w->limit[g] - used;
	bool hidden = random_below(w, 4) == 0;
	bool got = allocate_from_credit(c, g, bytes, hidden);

	/* Credit may cover bytes that do not fit a lowered limit; else bytes are granted if and only if they fit. */
	if (!got)
		assert_false(fits);
	else
		assert_true(fits);
	if (got && !hidden)
		c->physical[g] += bytes;
}

static void compare_at_random(struct world *w, struct grants_test_client *c, unsigned int g)
{
	uint64_t seen = atomic_load(&c->page.gpus[g].seen), physical;

	assert_int_equal(seen, c->physical[g]);
	physical = seen + random_below(w, 30 * MIB);
	grants_snapshot(&w->b);
	(void)grants_compare(c->m->task, uuids[g], physical);
	c->has[g] = physical;
}

static void run_random_event(struct world *w)
{
	struct grants_test_client *c = &w->c[random_below(w, CLIENTS)];
	unsigned int g = (unsigned int)random_below(w, 2);
	uint64_t what = random_below(w, 100);

	if (!c->alive) {
		assert_int_equal(join(&w->b, w->s, c, ++w->next_pid), SLICE_OK);
	} else if (what < 45) {
		request_at_random(w, c, g);
	} else if (what < 75) {
		uint64_t bytes = random_below(w, c->physical[g] + 1);

		if (random_below(w, 3) == 0)
			bytes = c->physical[g];
		free_to_credit(c, g, bytes);
		c->physical[g] -= bytes;
	} else if (what < 85) {
		compare_at_random(w, c, g);
	} else if (what < 89) {
		w->limit[g] = 100 * MIB + random_below(w, GIB);
		grants_slice_set_limit(w->s, g, w->limit[g]);
	} else if (what < 93) {
		w->unhooked[g] = random_below(w, 2) ? 0 : random_below(w, 200 * MIB);
		grants_slice_set_unhooked(w->s, g, w->unhooked[g]);
	} else if (what < 98) {
		grants_task_remove(&w->b, c->m->task);
		c->alive = false;
	} else {
		restart(&w->b, &w->s, GIB, w->c, CLIENTS);
		for (size_t i = 0; i < CLIENTS; i++) {
			if (w->c[i].alive)
				grants_adopt_page(w->c[i].m, &w->c[i].page);
		}
		for (unsigned int i = 0; i < 2; i++) {
			grants_slice_set_limit(w->s, i, w->limit[i]);
			grants_slice_set_unhooked(w->s, i, w->unhooked[i]);
		}
	}
}

static void grants__keep_all_invariants_in_random_scenarios(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 40; seed++) {
		struct world *w = calloc(1, sizeof(*w));

		assert_non_null(w);
		w->random = seed * UINT64_C(0x9e3779b97f4a7c15);
		grants_init(&w->b);
		w->limit[0] = w->limit[1] = GIB;
		w->s = slice_new(&w->b, "a", GIB);
		for (int i = 0; i < 3000; i++) {
			run_random_event(w);
			check_grants_world(w);
		}
		grants_fini(&w->b);
		free(w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(grants__keep_all_invariants_in_random_scenarios),
	};

	return cmocka_run_group_tests_name("grants-model", tests, NULL, NULL);
}
