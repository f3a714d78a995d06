/* SPDX-License-Identifier: Apache-2.0 */

/* What a reading of NVML changes: for living processes, after an exec, and for ended processes. */
#include "grants-client.h"

static void grants_compare__sets_the_memory_that_no_hook_charged(void **state)
{
	struct grants_table table;
	struct grants_test_client c;
	struct grants_slice *s;

	(void)state;
	grants_init(&table);
	s = slice_new(&table, "a", GIB);
	assert_int_equal(join(&table, s, &c, 1), SLICE_OK);
	assert_true(allocate_from_credit(&c, 0, 100 * MIB, false));
	assert_true(allocate_from_credit(&c, 0, 600 * MIB, true)); /* a context: a bound */
	/* The context uses 518 MiB: the rest of its bound returns to the credit. */
	grants_snapshot(&table);
	assert_true(grants_compare(c.m->task, uuids[0], 618 * MIB));
	assert_int_equal(grants_get_used(c.m, 0), 618 * MIB);
	assert_int_equal(grants_get_overhead(c.m, 0), 518 * MIB);
	assert_false(grants_compare(c.m->task, uuids[0], 618 * MIB));
	/* The process grows by 30 MiB that no hook charges. */
	assert_true(grants_compare(c.m->task, uuids[0], 648 * MIB));
	assert_int_equal(grants_get_used(c.m, 0), 648 * MIB);
	/* A reading beyond the limit counts as used. The arbiter grants nothing more. */
	assert_true(grants_compare(c.m->task, uuids[0], GIB + MIB));
	assert_true(grants_slice_is_over_limit(s, 0));
	assert_int_equal(grants_request(c.m, 0, 1, 1, NULL), SLICE_NO_ROOM);
	assert_int_equal(atomic_load(&c.page.gpus[0].granted), GIB + MIB);
	/* Never below what the hooks charged. */
	assert_true(grants_compare(c.m->task, uuids[0], MIB));
	assert_int_equal(grants_get_used(c.m, 0), 100 * MIB);
	grants_fini(&table);
}

/* The charges may exceed the used memory where allocations share granules. */
static void grants_compare__does_not_subtract_doubtful_charges(void **state)
{
	struct grants_table table;
	struct grants_test_client c;
	struct grants_slice *s;
	struct slice_gpu_page *p = &c.page.gpus[0];

	(void)state;
	grants_init(&table);
	s = slice_new(&table, "a", GIB);
	assert_int_equal(join(&table, s, &c, 1), SLICE_OK);
	assert_true(allocate_from_credit(&c, 0, 100 * MIB, false));
	assert_true(allocate_from_credit(&c, 0, 518 * MIB, true));
	/* Two charges of a granule, of which the driver may have put the second into the first. */
	assert_true(allocate_from_credit(&c, 0, 4 * MIB, false));
	atomic_store(&p->packed, MIB);
	atomic_store(&p->packed_in, 4 * MIB);
	grants_snapshot(&table);
	assert_false(grants_compare(c.m->task, uuids[0], 620 * MIB));
	assert_false(grants_compare(c.m->task, uuids[0], 622 * MIB));
	assert_int_equal(grants_get_overhead(c.m, 0), 518 * MIB);
	/* A difference of one granule is no doubt. */
	assert_true(grants_compare(c.m->task, uuids[0], 619 * MIB));
	assert_int_equal(grants_get_overhead(c.m, 0), 517 * MIB);
	assert_true(grants_compare(c.m->task, uuids[0], 623 * MIB));
	assert_int_equal(grants_get_overhead(c.m, 0), 519 * MIB);
	/* The process frees its packed allocations. The bytes of the last reading stay charged. */
	free_to_credit(&c, 0, 4 * MIB);
	atomic_store(&p->packed, 0);
	atomic_store(&p->packed_in, 0);
	assert_int_equal(grants_get_used(c.m, 0), 619 * MIB);
	grants_snapshot(&table);
	assert_false(grants_compare(c.m->task, uuids[0], 619 * MIB));
	/* Nonsense on the page takes nothing off, and puts nothing on. */
	atomic_store(&p->packed, UINT64_MAX);
	atomic_store(&p->packed_in, UINT64_MAX);
	assert_false(grants_compare(c.m->task, uuids[0], 619 * MIB));
	atomic_store(&p->packed, 0);
	assert_false(grants_compare(c.m->task, uuids[0], 619 * MIB));
	grants_fini(&table);
}

static void grants_compare__leaves_busy_processes_alone(void **state)
{
	struct grants_table table;
	struct grants_test_client c;
	struct grants_slice *s;

	(void)state;
	grants_init(&table);
	s = slice_new(&table, "a", GIB);
	assert_int_equal(join(&table, s, &c, 1), SLICE_OK);
	assert_true(allocate_from_credit(&c, 0, 100 * MIB, true));
	/* Did something since NVML was asked. */
	grants_snapshot(&table);
	assert_true(allocate_from_credit(&c, 0, 2 * MIB, false));
	assert_false(grants_compare(c.m->task, uuids[0], 50 * MIB));
	/* Was in the midst of something then. */
	atomic_fetch_add(&c.page.gpus[0].begun, 1);
	grants_snapshot(&table);
	atomic_fetch_add(&c.page.gpus[0].done, 1);
	assert_false(grants_compare(c.m->task, uuids[0], 50 * MIB));
	/* Is now. */
	grants_snapshot(&table);
	atomic_fetch_add(&c.page.gpus[0].begun, 1);
	assert_false(grants_compare(c.m->task, uuids[0], 50 * MIB));
	atomic_fetch_add(&c.page.gpus[0].done, 1);
	grants_snapshot(&table);
	assert_true(grants_compare(c.m->task, uuids[0], 50 * MIB));
	assert_int_equal(grants_get_used(c.m, 0), 50 * MIB);
	grants_fini(&table);
}

static void grants_compare__adds_up_all_registrations_of_a_process(void **state)
{
	struct grants_table table;
	struct grants_test_client one, two;
	struct grants_slice *s;

	(void)state;
	grants_init(&table);
	s = slice_new(&table, "a", GIB);
	assert_int_equal(join(&table, s, &one, 1), SLICE_OK);
	assert_int_equal(join(&table, s, &two, 1), SLICE_OK);
	assert_ptr_equal(one.m->task, two.m->task);
	assert_true(grants_member_is_oldest(one.m));
	assert_false(grants_member_is_oldest(two.m));
	assert_true(allocate_from_credit(&one, 0, 100 * MIB, false));
	assert_true(allocate_from_credit(&one, 0, 50 * MIB, true));
	assert_true(allocate_from_credit(&two, 0, 20 * MIB, false));
	assert_true(allocate_from_credit(&two, 0, 50 * MIB, true));
	grants_snapshot(&table);
	assert_false(grants_compare(one.m->task, uuids[0], 220 * MIB));
	assert_true(grants_compare(one.m->task, uuids[0], 140 * MIB));
	assert_int_equal(grants_slice_used(s, 0), 140 * MIB);
	assert_int_equal(grants_get_overhead(one.m, 0) + grants_get_overhead(two.m, 0),
		20 * MIB);
	grants_task_remove(&table, one.m->task);
	assert_int_equal(s->gpus[0].granted, 0);
	assert_int_equal(table.members.n, 0);
	assert_int_equal(table.n_tasks, 0);
	grants_fini(&table);
}

static void exec__is_counted_until_a_reading_shows_the_memory_gone(void **state)
{
	struct grants_table table;
	struct grants_test_client old, new;
	struct grants_slice *s;

	(void)state;
	grants_init(&table);
	s = slice_new(&table, "a", GIB);
	assert_int_equal(join(&table, s, &old, 1), SLICE_OK);
	assert_true(allocate_from_credit(&old, 0, 700 * MIB, false));
	grants_member_abandon(old.m);
	assert_int_equal(join(&table, s, &new, 1), SLICE_OK);
	assert_false(allocate_from_credit(&new, 0, 400 * MIB, false));
	assert_true(allocate_from_credit(&new, 0, 100 * MIB, false));
	/* Half of it is still there. */
	grants_snapshot(&table);
	assert_true(grants_compare(new.m->task, uuids[0], 450 * MIB));
	assert_int_equal(grants_slice_used(s, 0), 450 * MIB);
	assert_int_equal(table.members.n, 2);
	assert_true(grants_compare(new.m->task, uuids[0], 100 * MIB));
	assert_false(grants_compare(new.m->task, uuids[1], 0));
	grants_compare_end(&table);
	assert_int_equal(table.members.n, 1);
	assert_int_equal(grants_slice_used(s, 0), 100 * MIB);
	assert_int_equal(atomic_load(&old.rec.state), GRANTS_RECORD_FREE);
	grants_fini(&table);
}

/* A reading: so much on the first GPU, nothing on the other. */
static void read_both(struct grants_table *table, struct grants_task *t, uint64_t bytes)
{
	grants_snapshot(table);
	(void)grants_compare(t, uuids[0], bytes);
	(void)grants_compare(t, uuids[1], 0);
	grants_compare_end(table);
}

static void death__is_counted_until_a_reading_shows_whether_a_child_has_the_memory(void **state)
{
	struct grants_table table;
	struct grants_test_client dead, idle, c;
	struct grants_slice *s;
	struct grants_task *t;

	(void)state;
	grants_init(&table);
	s = slice_new(&table, "a", GIB);
	assert_int_equal(join(&table, s, &dead, 1), SLICE_OK);
	assert_int_equal(join(&table, s, &idle, 1), SLICE_OK);
	assert_int_equal(join(&table, s, &c, 2), SLICE_OK);
	t = dead.m->task;
	assert_true(allocate_from_credit(&dead, 0, 700 * MIB, false));
	/* The reading began before the process died: it lacks later allocations. */
	grants_snapshot(&table);
	assert_true(allocate_from_credit(&dead, 0, 100 * MIB, false));
	grants_task_abandon(t);
	assert_true(grants_slice_needs_reading(s, 0));
	assert_false(grants_slice_needs_reading(s, 1));
	assert_false(grants_compare(t, uuids[0], 700 * MIB));
	grants_compare_end(&table);
	assert_true(grants_slice_needs_reading(s, 0));
	assert_false(allocate_from_credit(&c, 0, 300 * MIB, false));

	read_both(&table, t, 600 * MIB);
	assert_false(grants_slice_needs_reading(s, 0));
	/* The arbiter cannot know which of the two processes had the memory. It drops the process without
	 * charges. */
	assert_int_equal(table.members.n, 2);
	grants_drop_dead_tasks(&table);
	assert_int_equal(grants_slice_used(s, 0), 600 * MIB);
	assert_true(allocate_from_credit(&c, 0, 300 * MIB, false));
	/* The process has more than was known: a context, for example. */
	read_both(&table, t, 650 * MIB);
	assert_int_equal(grants_slice_used(s, 0), 950 * MIB);
	read_both(&table, t, GRANTS_UNKNOWN);
	assert_int_equal(grants_slice_used(s, 0), 950 * MIB);
	read_both(&table, t, 0);
	assert_int_equal(grants_slice_used(s, 0), 300 * MIB);
	assert_int_equal(table.n_tasks, 1);
	grants_fini(&table);
}

static void death__frees_the_grants_where_a_gpu_stays_unreadable(void **state)
{
	struct grants_table table;
	struct grants_test_client dead, old;
	struct grants_slice *s;

	(void)state;
	grants_init(&table);
	s = slice_new(&table, "a", GIB);
	assert_int_equal(join(&table, s, &dead, 1), SLICE_OK);
	assert_int_equal(join(&table, s, &old, 2), SLICE_OK);
	assert_true(allocate_from_credit(&dead, 0, 700 * MIB, false));
	assert_true(allocate_from_credit(&old, 0, 100 * MIB, false));
	grants_task_abandon(dead.m->task);
	grants_member_abandon(old.m);
	for (int i = 1; i <= GRANTS_MISSED_MAX; i++) {
		assert_int_equal(grants_slice_needs_reading(s, 0), i == 1);
		assert_int_equal(table.members.n, 2);
		grants_snapshot(&table);
		(void)grants_compare(dead.m->task, uuids[1], 0);
		grants_compare_end(&table);
	}
	/* A process that lives keeps its old memory until a reading shows that the memory is gone. */
	assert_int_equal(table.members.n, 1);
	assert_int_equal(atomic_load(&dead.rec.state), GRANTS_RECORD_FREE);
	grants_fini(&table);
}

static void death__without_a_later_reading_frees_the_grants(void **state)
{
	struct grants_table table;
	struct grants_test_client dead, c;
	struct grants_slice *s;

	(void)state;
	grants_init(&table);
	s = slice_new(&table, "a", GIB);
	assert_int_equal(join(&table, s, &dead, 1), SLICE_OK);
	assert_int_equal(join(&table, s, &c, 2), SLICE_OK);
	assert_true(allocate_from_credit(&dead, 1, 700 * MIB, false));
	assert_true(allocate_from_credit(&c, 1, 100 * MIB, false));
	grants_task_abandon(dead.m->task);
	grants_drop_dead_tasks(&table);
	assert_int_equal(grants_slice_used(s, 1), 100 * MIB);
	assert_int_equal(table.n_tasks, 1);
	grants_fini(&table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(grants_compare__sets_the_memory_that_no_hook_charged),
		cmocka_unit_test(grants_compare__does_not_subtract_doubtful_charges),
		cmocka_unit_test(grants_compare__leaves_busy_processes_alone),
		cmocka_unit_test(grants_compare__adds_up_all_registrations_of_a_process),
		cmocka_unit_test(exec__is_counted_until_a_reading_shows_the_memory_gone),
		cmocka_unit_test(
			death__is_counted_until_a_reading_shows_whether_a_child_has_the_memory),
		cmocka_unit_test(death__frees_the_grants_where_a_gpu_stays_unreadable),
		cmocka_unit_test(death__without_a_later_reading_frees_the_grants),
	};

	return cmocka_run_group_tests_name("grants-compare", tests, NULL, NULL);
}
