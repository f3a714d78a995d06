/* SPDX-License-Identifier: Apache-2.0 */

/* Slots of a table that threads share without a lock. */
#include "support/test.h"
#include "container/gate/slot.h"

#include <pthread.h>

#define CONTEXT(n) ((CUcontext)(uintptr_t)(0x1000 * (n)))

static void slot__is_free_where_memory_is_zero(void **state)
{
	struct gate_slot s = { 0 };

	(void)state;
	assert_int_equal(gate_slot_read_state(&s), GATE_SLOT_FREE);
	assert_null(gate_slot_context(&s));
	assert_true(gate_slot_claim(&s, GATE_SLOT_FREE));
}

static void slot__is_claimed_by_one_thread(void **state)
{
	struct gate_slot s = { 0 };

	(void)state;
	assert_false(gate_slot_claim(&s, GATE_SLOT_SET));
	assert_int_equal(gate_slot_read_state(&s), GATE_SLOT_FREE);
	assert_true(gate_slot_claim(&s, GATE_SLOT_FREE));
	assert_int_equal(gate_slot_read_state(&s), GATE_SLOT_CLAIMED);
	assert_false(gate_slot_claim(&s, GATE_SLOT_FREE));
	assert_false(gate_slot_claim(&s, GATE_SLOT_SET));
	gate_slot_set_gpu(&s, 3);
	gate_slot_set_context(&s, CONTEXT(1));
	gate_slot_release(&s, GATE_SLOT_SET);
	assert_int_equal(gate_slot_read_state(&s), GATE_SLOT_SET);
	assert_int_equal(gate_slot_gpu(&s), 3);
	assert_ptr_equal(gate_slot_context(&s), CONTEXT(1));
	assert_false(gate_slot_claim(&s, GATE_SLOT_FREE));
	assert_true(gate_slot_claim(&s, GATE_SLOT_SET));
}

static void slot__is_reclaimed_from_a_destroyed_context(void **state)
{
	static const enum gate_slot_state states[] = { GATE_SLOT_FREE, GATE_SLOT_SET };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct gate_slot s = { 0 };
		enum gate_slot_state was;

		assert_true(gate_slot_claim(&s, GATE_SLOT_FREE));
		gate_slot_set_context(&s, CONTEXT(1));
		/* The thread that has the slot uses the context. */
		assert_false(gate_slot_claim_gone(&s, CONTEXT(1), &was));
		gate_slot_release(&s, states[i]);
		assert_false(gate_slot_claim_gone(&s, CONTEXT(2), &was));
		assert_int_equal(gate_slot_read_state(&s), states[i]);
		assert_true(gate_slot_claim_gone(&s, CONTEXT(1), &was));
		assert_int_equal(was, states[i]);
		assert_int_equal(gate_slot_read_state(&s), GATE_SLOT_CLAIMED);
	}
}

/* --- threads --- */

#define THREADS 4
#define SLOTS   3
#define ROUNDS  20000

static struct {
	struct gate_slot slot;
	uint64_t uses, again; /* not atomic: only the thread that has the slot uses them */
} table[SLOTS];

/* Returns how often the thread had a slot, by either way. */
static void *claim_slots(void *arg)
{
	CUcontext mine = CONTEXT((uintptr_t)arg + 1);
	uintptr_t n = 0;

	for (unsigned int i = 0; i < ROUNDS; i++) {
		struct gate_slot *s = &table[i % SLOTS].slot;
		enum gate_slot_state was = gate_slot_read_state(s);

		if (i % 7 == 0 ? !gate_slot_claim_gone(s, mine, &was)
			       : was == GATE_SLOT_CLAIMED || !gate_slot_claim(s, was))
			continue;
		table[i % SLOTS].uses++;
		gate_slot_set_context(s, mine);
		table[i % SLOTS].again++;
		gate_slot_release(s, i % 2 ? GATE_SLOT_SET : GATE_SLOT_FREE);
		n++;
	}
	return (void *)n;
}

static void slot__is_not_reclaimed_while_in_use(void **state)
{
	pthread_t threads[THREADS];
	uint64_t had = 0, seen = 0;

	(void)state;
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, claim_slots, (void *)i), 0);
	for (int i = 0; i < THREADS; i++) {
		void *n;

		assert_int_equal(pthread_join(threads[i], &n), 0);
		had += (uintptr_t)n;
	}
	for (int i = 0; i < SLOTS; i++) {
		assert_int_equal(table[i].uses, table[i].again);
		seen += table[i].uses;
	}
	assert_int_equal(seen, had);
	assert_true(had > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slot__is_free_where_memory_is_zero),
		cmocka_unit_test(slot__is_claimed_by_one_thread),
		cmocka_unit_test(slot__is_reclaimed_from_a_destroyed_context),
		cmocka_unit_test(slot__is_not_reclaimed_while_in_use),
	};

	return cmocka_run_group_tests_name("slot", tests, NULL, NULL);
}
