/* SPDX-License-Identifier: Apache-2.0 */

/* After a kill: the content of records and pages, and a request whose answer was lost. */
#include "grants-client.h"

static void grants_restore__counts_all_grants_until_the_page_is_found(void **state)
{
	struct grants_table table;
	struct grants_test_client c[2];
	struct grants_slice *s;

	(void)state;
	grants_init(&table);
	s = slice_new(&table, "a", GIB);
	assert_int_equal(join(&table, s, &c[0], 1), SLICE_OK);
	assert_int_equal(join(&table, s, &c[1], 2), SLICE_OK);
	assert_true(allocate_from_credit(&c[0], 0, 900 * MIB, false));
	free_to_credit(&c[0], 0, 800 * MIB);
	restart(&table, &s, GIB, c, 2);
	assert_int_equal(grants_slice_used(s, 0), grants_get_granted(c[0].m, 0));
	grants_adopt_page(c[1].m, &c[1].page);
	assert_false(allocate_from_credit(&c[1], 0, 200 * MIB, false));
	grants_adopt_page(c[0].m, &c[0].page);
	assert_int_equal(grants_slice_used(s, 0), 100 * MIB);
	assert_true(allocate_from_credit(&c[1], 0, 900 * MIB, false));
	grants_fini(&table);
}

static void grants_restore__counts_refusals_from_the_last_count(void **state)
{
	struct grants_table table;
	struct grants_test_client c;
	struct grants_slice *s;

	(void)state;
	grants_init(&table);
	s = slice_new(&table, "a", GIB);
	assert_int_equal(join(&table, s, &c, 1), SLICE_OK);
	atomic_store(&c.page.gpus[0].refused, 3);
	assert_int_equal(grants_slice_refused(s, 0), 3);
	/* While no arbiter runs. */
	atomic_store(&c.page.gpus[0].refused, 5);
	restart(&table, &s, GIB, &c, 1);
	s->gpus[0].refused = 3;
	assert_int_equal(grants_slice_refused(s, 0), 3);
	grants_adopt_page(c.m, &c.page);
	assert_int_equal(grants_slice_refused(s, 0), 5);
	grants_fini(&table);
}

static void grants_restore__rejects_incomplete_records(void **state)
{
	struct grants_table table;
	struct grants_test_client c;
	struct grants_slice *s;

	(void)state;
	grants_init(&table);
	s = slice_new(&table, "a", GIB);
	assert_int_equal(join(&table, s, &c, 1), SLICE_OK);
	assert_true(grants_record_is_valid(&c.rec));
	c.rec.pid++;
	assert_false(grants_record_is_valid(&c.rec));
	c.rec.pid--;
	atomic_store(&c.rec.granted[0], UINT64_MAX);
	assert_false(grants_record_is_valid(&c.rec));
	atomic_store(&c.rec.granted[0], 0);
	atomic_store(&c.rec.state, GRANTS_RECORD_FREE);
	assert_false(grants_record_is_valid(&c.rec));
	grants_fini(&table);
}

/* The memory after a kill behind each store of a grant of 10 and 5 of credit. The process has 100 granted and
 * 20 of them unused. */
static void grants_adopt_page__finishes_or_reverts_a_change_in_progress(void **state)
{
	static const struct {
		uint64_t record, page, credit;
		uint32_t seq, want;
		uint64_t used,
			granted; /* after it, if the process reports that it got no answer */
	} rows[] = {
		{ 100, 100, 20, 2, GRANTS_REQUEST_BEGUN, 80, 100 },
		{ 115, 100, 20, 2, GRANTS_REQUEST_BEGUN, 80, 100 },
		{ 115, 100, 20, 3, GRANTS_REQUEST_BEGUN, 80, 100 },
		/* Whether the credit came cannot be known here: it counts as used, until a reading. */
		{ 115, 115, 20, 3, GRANTS_REQUEST_BEGUN, 85, 115 },
		{ 115, 115, 25, 3, GRANTS_REQUEST_BEGUN, 80, 115 },
		{ 115, 115, 25, 4, GRANTS_REQUEST_BEGUN, 80, 115 },
		{ 115, 115, 25, 4, GRANTS_REQUEST_DONE, 80, 115 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct grants_table table;
		struct grants_test_client c;
		struct grants_slice *s;

		grants_init(&table);
		s = slice_new(&table, "a", GIB);
		assert_int_equal(join(&table, s, &c, 1), SLICE_OK);
		c.rec.request_tag = 77;
		c.rec.request_bytes = 10;
		c.rec.granted_before = 100;
		atomic_store(&c.rec.request_state, rows[i].want);
		atomic_store(&c.rec.granted[0], rows[i].record);
		atomic_store(&c.page.gpus[0].granted, rows[i].page);
		atomic_store(&c.page.gpus[0].credit, rows[i].credit);
		atomic_store(&c.page.gpus[0].seq, rows[i].seq);
		restart(&table, &s, GIB, &c, 1);
		grants_adopt_page(c.m, &c.page);
		assert_int_equal(atomic_load(&c.page.gpus[0].seq) & 1, 0);
		grants_return_unanswered(c.m, 76); /* of another request: nothing */
		grants_return_unanswered(c.m, 77);
		grants_return_unanswered(c.m, 77); /* once */
		assert_int_equal(grants_get_used(c.m, 0), rows[i].used);
		assert_int_equal(grants_get_granted(c.m, 0), rows[i].granted);
		assert_int_equal(atomic_load(&c.page.gpus[0].granted), rows[i].granted);
		assert_int_equal(s->gpus[0].granted, rows[i].granted);
		grants_fini(&table);
	}
}

static void grants_request__whose_answer_is_lost_becomes_credit(void **state)
{
	struct grants_table table;
	struct grants_test_client c;
	struct grants_slice *s;

	(void)state;
	grants_init(&table);
	s = slice_new(&table, "a", GIB);
	assert_int_equal(join(&table, s, &c, 1), SLICE_OK);
	assert_int_equal(grants_request(c.m, 0, 700 * MIB, 41, NULL), SLICE_OK);
	assert_int_equal(grants_get_used(c.m, 0), 700 * MIB);
	/* The connection broke, the arbiter is the same. */
	grants_return_unanswered(c.m, 40);
	assert_int_equal(grants_get_used(c.m, 0), 700 * MIB);
	grants_return_unanswered(c.m, 41);
	assert_int_equal(grants_get_used(c.m, 0), 0);
	/* Refused: there is nothing to give back. */
	assert_true(allocate_from_credit(&c, 0, GIB, false));
	assert_int_equal(grants_request(c.m, 0, MIB, 42, NULL), SLICE_NO_ROOM);
	grants_return_unanswered(c.m, 42);
	assert_int_equal(grants_get_used(c.m, 0), GIB);
	/* The connection broke because the arbiter restarted. */
	free_to_credit(&c, 0, GIB);
	assert_int_equal(grants_request(c.m, 0, 300 * MIB, 43, NULL), SLICE_OK);
	restart(&table, &s, GIB, &c, 1);
	grants_adopt_page(c.m, &c.page);
	assert_int_equal(grants_get_used(c.m, 0), 300 * MIB);
	grants_return_unanswered(c.m, 43);
	assert_int_equal(grants_get_used(c.m, 0), 0);
	grants_fini(&table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(grants_restore__counts_all_grants_until_the_page_is_found),
		cmocka_unit_test(grants_restore__counts_refusals_from_the_last_count),
		cmocka_unit_test(grants_restore__rejects_incomplete_records),
		cmocka_unit_test(grants_adopt_page__finishes_or_reverts_a_change_in_progress),
		cmocka_unit_test(grants_request__whose_answer_is_lost_becomes_credit),
	};

	return cmocka_run_group_tests_name("grants-restore", tests, NULL, NULL);
}
