/* SPDX-License-Identifier: Apache-2.0 */

/* Grants of memory to processes, and what a slice has left. */
#include "grants-client.h"

static void grants_request__grants_up_to_the_limit_and_no_byte_more(void **state)
{
	struct grants_table table;
	struct grants_test_client c;
	struct grants_slice *s;
	uint64_t left = 0;

	(void)state;
	grants_init(&table);
	s = slice_new(&table, "a", GIB);
	assert_int_equal(join(&table, s, &c, 1), SLICE_OK);
	assert_int_equal(grants_request(c.m, 0, GIB + 1, 1, &left), SLICE_NO_ROOM);
	assert_int_equal(left, GIB);
	assert_int_equal(grants_request(c.m, 0, GIB, 2, &left), SLICE_OK);
	assert_int_equal(left, 0);
	assert_int_equal(atomic_load(&c.page.gpus[0].granted), GIB);
	assert_int_equal(credit(&c, 0), 0);
	assert_int_equal(grants_request(c.m, 0, 1, 3, NULL), SLICE_NO_ROOM);
	assert_int_equal(grants_request(c.m, 0, UINT64_MAX, 3, NULL), SLICE_NO_ROOM);
	/* The other GPU of the slice has its own. */
	assert_int_equal(grants_request(c.m, 1, GIB, 4, NULL), SLICE_OK);
	grants_fini(&table);
}

static void grants_request__grants_some_credit_in_addition(void **state)
{
	struct grants_table table;
	struct grants_test_client c;
	struct grants_slice *s;

	(void)state;
	grants_init(&table);
	s = slice_new(&table, "a", 4 * GIB);
	assert_int_equal(join(&table, s, &c, 1), SLICE_OK);
	assert_int_equal(grants_request(c.m, 0, MIB, 1, NULL), SLICE_OK);
	assert_int_equal(credit(&c, 0), GRANTS_EXTRA_MAX);
	assert_int_equal(atomic_load(&c.page.gpus[0].granted), MIB + GRANTS_EXTRA_MAX);
	/* Near the limit the credit is a part of the free bytes. */
	assert_int_equal(grants_request(c.m, 1, 4 * GIB - 160 * MIB, 2, NULL), SLICE_OK);
	assert_int_equal(credit(&c, 1), 10 * MIB);
	grants_fini(&table);
}

static void grants_request__reclaims_unused_credit_of_all_processes(void **state)
{
	struct grants_table table;
	struct grants_test_client one, two;
	struct grants_slice *s;

	(void)state;
	grants_init(&table);
	s = slice_new(&table, "a", GIB);
	assert_int_equal(join(&table, s, &one, 1), SLICE_OK);
	assert_int_equal(join(&table, s, &two, 2), SLICE_OK);
	assert_true(allocate_from_credit(&one, 0, GIB, false));
	free_to_credit(&one, 0, 600 * MIB);
	assert_int_equal(credit(&one, 0), 600 * MIB);
	assert_true(allocate_from_credit(&two, 0, 600 * MIB, false));
	assert_int_equal(credit(&one, 0), 0);
	assert_int_equal(atomic_load(&one.page.gpus[0].granted), 424 * MIB);
	assert_false(allocate_from_credit(&two, 0, 1, false));
	/* 300 MiB of its own, in its credit, and 100 MiB of the other. */
	free_to_credit(&two, 0, 300 * MIB);
	free_to_credit(&one, 0, 100 * MIB);
	assert_int_equal(grants_request(two.m, 0, 400 * MIB, 9, NULL), SLICE_OK);
	assert_int_equal(grants_get_used(two.m, 0), 700 * MIB);
	grants_fini(&table);
}

static void grants_request__counts_without_a_limit_too(void **state)
{
	struct grants_table table;
	struct grants_test_client c;
	struct grants_slice *s;
	uint64_t left = 0;

	(void)state;
	grants_init(&table);
	s = slice_new(&table, "a", SLICE_NO_LIMIT);
	assert_int_equal(join(&table, s, &c, 1), SLICE_OK);
	assert_int_equal(grants_request(c.m, 0, 500 * GIB, 1, &left), SLICE_OK);
	assert_true(left == SLICE_NO_LIMIT);
	assert_int_equal(grants_slice_used(s, 0), 500 * GIB);
	assert_false(grants_slice_is_over_limit(s, 0));
	grants_fini(&table);
}

static void grants_alone__is_cleared_before_another_process_has_a_grant(void **state)
{
	struct grants_table table;
	struct grants_test_client one, two;
	struct grants_slice *s;

	(void)state;
	grants_init(&table);
	s = slice_new(&table, "a", GIB);
	assert_int_equal(join(&table, s, &one, 1), SLICE_OK);
	assert_int_equal(atomic_load(&one.page.gpus[0].alone), 1);
	assert_true(allocate_from_credit(&one, 0, MIB, false));
	assert_int_equal(join(&table, s, &two, 2), SLICE_OK);
	assert_int_equal(atomic_load(&one.page.gpus[0].alone), 1);
	assert_int_equal(atomic_load(&two.page.gpus[0].alone), 0);
	assert_true(allocate_from_credit(&two, 0, MIB, false));
	assert_int_equal(atomic_load(&one.page.gpus[0].alone), 0);
	assert_int_equal(atomic_load(&two.page.gpus[0].alone), 0);
	grants_member_drop(&table, one.m);
	assert_int_equal(atomic_load(&two.page.gpus[0].alone), 1);
	grants_slice_set_unhooked(s, 0, 1);
	assert_int_equal(atomic_load(&two.page.gpus[0].alone), 0);
	grants_fini(&table);
}

static void grants_slice_set_limit__reclaims_credit_below_the_used_memory(void **state)
{
	struct grants_table table;
	struct grants_test_client c;
	struct grants_slice *s;

	(void)state;
	grants_init(&table);
	s = slice_new(&table, "a", GIB);
	assert_int_equal(join(&table, s, &c, 1), SLICE_OK);
	assert_true(allocate_from_credit(&c, 0, 600 * MIB, false));
	free_to_credit(&c, 0, 100 * MIB);
	grants_slice_set_limit(s, 0, 550 * MIB);
	assert_int_equal(atomic_load(&c.page.gpus[0].limit), 550 * MIB);
	assert_int_equal(atomic_load(&c.page.gpus[0].granted), 550 * MIB);
	assert_false(grants_slice_is_over_limit(s, 0));
	grants_slice_set_limit(s, 0, 400 * MIB);
	assert_int_equal(credit(&c, 0), 0);
	assert_int_equal(atomic_load(&c.page.gpus[0].granted), 500 * MIB);
	assert_true(grants_slice_is_over_limit(s, 0));
	assert_int_equal(grants_request(c.m, 0, 1, 1, NULL), SLICE_NO_ROOM);
	assert_int_equal(grants_slice_free_bytes(s, 0), 0);
	grants_slice_set_limit(s, 0, GIB);
	assert_true(allocate_from_credit(&c, 0, 524 * MIB, false));
	grants_fini(&table);
}

static void grants_slice_set_unhooked__counts_against_the_limit(void **state)
{
	struct grants_table table;
	struct grants_test_client c;
	struct grants_slice *s;

	(void)state;
	grants_init(&table);
	s = slice_new(&table, "a", GIB);
	assert_int_equal(join(&table, s, &c, 1), SLICE_OK);
	assert_true(allocate_from_credit(&c, 0, 100 * MIB, false));
	grants_slice_set_unhooked(s, 0, 900 * MIB);
	assert_int_equal(grants_slice_used(s, 0), 1000 * MIB);
	assert_int_equal(credit(&c, 0), 24 * MIB);
	assert_false(allocate_from_credit(&c, 0, 25 * MIB, false));
	assert_true(allocate_from_credit(&c, 0, 24 * MIB, false));
	grants_slice_set_unhooked(s, 0, 2 * GIB);
	assert_true(grants_slice_is_over_limit(s, 0));
	grants_slice_set_unhooked(s, 0, 0);
	assert_true(allocate_from_credit(&c, 0, 900 * MIB, false));
	grants_fini(&table);
}

static void peak__outlives_the_process(void **state)
{
	struct grants_table table;
	struct grants_test_client c;
	struct grants_slice *s;

	(void)state;
	grants_init(&table);
	s = slice_new(&table, "a", GIB);
	assert_int_equal(join(&table, s, &c, 1), SLICE_OK);
	assert_true(allocate_from_credit(&c, 0, 300 * MIB, false));
	free_to_credit(&c, 0, 200 * MIB);
	assert_int_equal(grants_get_peak(c.m, 0), 300 * MIB);
	/* The process knows its peak better, but not beyond its grants. */
	atomic_store(&c.page.gpus[0].peak, 310 * MIB);
	assert_int_equal(grants_get_peak(c.m, 0), 310 * MIB);
	atomic_store(&c.page.gpus[0].peak, UINT64_MAX);
	assert_true(grants_get_peak(c.m, 0) <= GIB);
	grants_task_remove(&table, c.m->task);
	assert_true(s->gpus[0].peak >= 310 * MIB);
	grants_fini(&table);
}

static void page__with_invalid_values_changes_no_sum(void **state)
{
	struct grants_table table;
	struct grants_test_client bad, good;
	struct grants_slice *s;

	(void)state;
	grants_init(&table);
	s = slice_new(&table, "a", GIB);
	assert_int_equal(join(&table, s, &bad, 1), SLICE_OK);
	assert_int_equal(join(&table, s, &good, 2), SLICE_OK);
	assert_true(allocate_from_credit(&bad, 0, 500 * MIB, false));
	for (unsigned int i = 0; i < 3; i++) {
		memset(&bad.page, 0xff, sizeof(bad.page));
		grants_snapshot(&table);
		(void)grants_compare(bad.m->task, uuids[0], 10 * MIB);
		(void)allocate_from_credit(&good, 0, 200 * MIB, false);
		assert_true(s->gpus[0].granted <= GIB);
		assert_int_equal(s->gpus[0].granted,
			grants_get_granted(bad.m, 0) + grants_get_granted(good.m, 0));
		assert_true(grants_get_used(bad.m, 0) <= GIB);
	}
	grants_fini(&table);
}

static void refused__counts_each_refusal_once_also_of_ended_processes(void **state)
{
	struct grants_table table;
	struct grants_test_client c[2];
	struct grants_slice *s;

	(void)state;
	grants_init(&table);
	s = slice_new(&table, "a", GIB);
	assert_int_equal(join(&table, s, &c[0], 1), SLICE_OK);
	assert_int_equal(join(&table, s, &c[1], 2), SLICE_OK);
	atomic_store(&c[0].page.gpus[0].refused, 3);
	atomic_store(&c[1].page.gpus[0].refused, 4);
	atomic_store(&c[1].page.gpus[1].refused, 1);
	assert_int_equal(grants_slice_refused(s, 0), 7);
	assert_int_equal(grants_slice_refused(s, 0), 7);
	/* Refusals since the last reading of the page end with the process, but are not lost. */
	atomic_store(&c[0].page.gpus[0].refused, 5);
	grants_task_remove(&table, c[0].m->task);
	assert_int_equal(grants_slice_refused(s, 0), 9);
	assert_int_equal(grants_slice_refused(s, 1), 1);
	/* The word wraps to 0 after its largest value. */
	atomic_store(&c[1].page.gpus[0].counted, UINT32_MAX - 1);
	atomic_store(&c[1].page.gpus[0].refused, 2);
	assert_int_equal(grants_slice_refused(s, 0), 13);
	grants_fini(&table);
}

static void grants_slice_remove__frees_the_slice_with_its_last_member(void **state)
{
	struct grants_table table;
	struct grants_test_client c, late;
	struct grants_slice *s;

	(void)state;
	grants_init(&table);
	s = slice_new(&table, "a", GIB);
	assert_int_equal(join(&table, s, &c, 1), SLICE_OK);
	grants_slice_remove(&table, s);
	assert_ptr_equal(grants_slice_find(&table, "a"), s);
	assert_int_equal(join(&table, s, &late, 2), SLICE_GONE);
	assert_true(allocate_from_credit(&c, 0, MIB, false));
	grants_task_remove(&table, c.m->task);
	assert_null(grants_slice_find(&table, "a"));
	grants_fini(&table);
}

static void register__has_limits(void **state)
{
	static struct grants_test_client c[GRANTS_SLICE_MEMBERS_MAX + 1];
	struct grants_table table;
	struct grants_slice *s;

	(void)state;
	grants_init(&table);
	s = slice_new(&table, "a", GIB);
	for (unsigned int i = 0; i < GRANTS_TASK_MEMBERS_MAX; i++)
		assert_int_equal(join(&table, s, &c[i], 1), SLICE_OK);
	assert_int_equal(join(&table, s, &c[GRANTS_TASK_MEMBERS_MAX], 1), SLICE_TOO_MANY);
	assert_int_equal(atomic_load(&c[GRANTS_TASK_MEMBERS_MAX].rec.state),
		GRANTS_RECORD_FREE);
	for (unsigned int i = GRANTS_TASK_MEMBERS_MAX; i < GRANTS_SLICE_MEMBERS_MAX; i++)
		assert_int_equal(join(&table, s, &c[i], i), SLICE_OK);
	assert_int_equal(join(&table, s, &c[GRANTS_SLICE_MEMBERS_MAX], 5000), SLICE_TOO_MANY);
	grants_fini(&table);
}

/* Four slices with all that they can have. */
static void register__keeps_places_for_each_slice(void **state)
{
	static struct grants_test_client c[4][GRANTS_SLICE_MEMBERS_MAX], late[8];
	struct grants_slice *s;
	struct grants_table table;
	char id[8];

	(void)state;
	grants_init(&table);
	for (unsigned int k = 0; k < 4; k++) {
		unsigned int i = 0;

		(void)snprintf(id, sizeof(id), "%u", k);
		s = slice_new(&table, id, GIB);
		while (i < GRANTS_SLICE_MEMBERS_MAX &&
			join(&table, s, &c[k][i], k * GRANTS_SLICE_MEMBERS_MAX + i + 1) ==
				SLICE_OK)
			i++;
		assert_true(i > ARRAY_LEN(late));
	}
	s = slice_new(&table, "late", GIB);
	for (unsigned int i = 0; i < ARRAY_LEN(late); i++)
		assert_int_equal(join(&table, s, &late[i], 10000 + i), SLICE_OK);
	grants_fini(&table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(grants_request__grants_up_to_the_limit_and_no_byte_more),
		cmocka_unit_test(grants_request__grants_some_credit_in_addition),
		cmocka_unit_test(grants_request__reclaims_unused_credit_of_all_processes),
		cmocka_unit_test(grants_request__counts_without_a_limit_too),
		cmocka_unit_test(grants_alone__is_cleared_before_another_process_has_a_grant),
		cmocka_unit_test(grants_slice_set_limit__reclaims_credit_below_the_used_memory),
		cmocka_unit_test(grants_slice_set_unhooked__counts_against_the_limit),
		cmocka_unit_test(peak__outlives_the_process),
		cmocka_unit_test(page__with_invalid_values_changes_no_sum),
		cmocka_unit_test(refused__counts_each_refusal_once_also_of_ended_processes),
		cmocka_unit_test(grants_slice_remove__frees_the_slice_with_its_last_member),
		cmocka_unit_test(register__has_limits),
		cmocka_unit_test(register__keeps_places_for_each_slice),
	};

	return cmocka_run_group_tests_name("grants", tests, NULL, NULL);
}
