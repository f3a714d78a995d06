/* SPDX-License-Identifier: Apache-2.0 */

/* After a kill: what the records and pages say, and a request whose answer nobody heard. */
#include "book-client.h"

static void restore__counts_all_that_is_granted_until_the_page_is_there(void **state)
{
	struct book b;
	struct client c[2];
	struct book_slice *s;

	(void)state;
	book_init(&b);
	s = slice_new(&b, "a", GIB);
	assert_int_equal(join(&b, s, &c[0], 1), SLICE_OK);
	assert_int_equal(join(&b, s, &c[1], 2), SLICE_OK);
	assert_true(take(&c[0], 0, 900 * MIB, false));
	give(&c[0], 0, 800 * MIB);
	restart(&b, &s, GIB, c, 2);
	assert_int_equal(book_slice_used(s, 0), book_granted(c[0].m, 0));
	book_adopt(c[1].m, &c[1].page);
	assert_false(take(&c[1], 0, 200 * MIB, false));
	book_adopt(c[0].m, &c[0].page);
	assert_int_equal(book_slice_used(s, 0), 100 * MIB);
	assert_true(take(&c[1], 0, 900 * MIB, false));
	book_fini(&b);
}

static void restore__counts_refusals_from_where_the_last_one_stopped(void **state)
{
	struct book b;
	struct client c;
	struct book_slice *s;

	(void)state;
	book_init(&b);
	s = slice_new(&b, "a", GIB);
	assert_int_equal(join(&b, s, &c, 1), SLICE_OK);
	atomic_store(&c.page.gpus[0].refused, 3);
	assert_int_equal(book_slice_refused(s, 0), 3);
	/* While nobody looks. */
	atomic_store(&c.page.gpus[0].refused, 5);
	restart(&b, &s, GIB, &c, 1);
	s->gpus[0].refused = 3;
	assert_int_equal(book_slice_refused(s, 0), 3);
	book_adopt(c.m, &c.page);
	assert_int_equal(book_slice_refused(s, 0), 5);
	book_fini(&b);
}

static void restore__refuses_records_that_are_not_whole(void **state)
{
	struct book b;
	struct client c;
	struct book_slice *s;

	(void)state;
	book_init(&b);
	s = slice_new(&b, "a", GIB);
	assert_int_equal(join(&b, s, &c, 1), SLICE_OK);
	assert_true(book_record_valid(&c.rec));
	c.rec.pid++;
	assert_false(book_record_valid(&c.rec));
	c.rec.pid--;
	atomic_store(&c.rec.granted[0], UINT64_MAX);
	assert_false(book_record_valid(&c.rec));
	atomic_store(&c.rec.granted[0], 0);
	atomic_store(&c.rec.state, BOOK_FREE);
	assert_false(book_record_valid(&c.rec));
	book_fini(&b);
}

/* What the memory looks like after a kill behind each store of a grant of 10 and 5 of credit, to a
 * process that has 100 granted and 20 of it unused. */
static void adopt__finishes_or_takes_back_what_was_under_way(void **state)
{
	static const struct {
		uint64_t record, page, credit;
		uint32_t seq, want;
		uint64_t used,
			granted; /* after it, if the process says that it got no answer */
	} rows[] = {
		{ 100, 100, 20, 2, BOOK_WANT_BEGUN, 80, 100 },
		{ 115, 100, 20, 2, BOOK_WANT_BEGUN, 80, 100 },
		{ 115, 100, 20, 3, BOOK_WANT_BEGUN, 80, 100 },
		/* Whether the credit came cannot be known here: it counts as used, until a reading. */
		{ 115, 115, 20, 3, BOOK_WANT_BEGUN, 85, 115 },
		{ 115, 115, 25, 3, BOOK_WANT_BEGUN, 80, 115 },
		{ 115, 115, 25, 4, BOOK_WANT_BEGUN, 80, 115 },
		{ 115, 115, 25, 4, BOOK_WANT_DONE, 80, 115 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct book b;
		struct client c;
		struct book_slice *s;

		book_init(&b);
		s = slice_new(&b, "a", GIB);
		assert_int_equal(join(&b, s, &c, 1), SLICE_OK);
		c.rec.want_tag = 77;
		c.rec.want_bytes = 10;
		c.rec.want_before = 100;
		atomic_store(&c.rec.want_state, rows[i].want);
		atomic_store(&c.rec.granted[0], rows[i].record);
		atomic_store(&c.page.gpus[0].granted, rows[i].page);
		atomic_store(&c.page.gpus[0].credit, rows[i].credit);
		atomic_store(&c.page.gpus[0].seq, rows[i].seq);
		restart(&b, &s, GIB, &c, 1);
		book_adopt(c.m, &c.page);
		assert_int_equal(atomic_load(&c.page.gpus[0].seq) & 1, 0);
		book_unanswered(c.m, 76); /* of another request: nothing */
		book_unanswered(c.m, 77);
		book_unanswered(c.m, 77); /* once */
		assert_int_equal(book_used(c.m, 0), rows[i].used);
		assert_int_equal(book_granted(c.m, 0), rows[i].granted);
		assert_int_equal(atomic_load(&c.page.gpus[0].granted), rows[i].granted);
		assert_int_equal(s->gpus[0].granted, rows[i].granted);
		book_fini(&b);
	}
}

static void want__whose_answer_is_lost_becomes_credit(void **state)
{
	struct book b;
	struct client c;
	struct book_slice *s;

	(void)state;
	book_init(&b);
	s = slice_new(&b, "a", GIB);
	assert_int_equal(join(&b, s, &c, 1), SLICE_OK);
	assert_int_equal(book_want(c.m, 0, 700 * MIB, 41, NULL), SLICE_OK);
	assert_int_equal(book_used(c.m, 0), 700 * MIB);
	/* The connection broke, the arbiter is the same. */
	book_unanswered(c.m, 40);
	assert_int_equal(book_used(c.m, 0), 700 * MIB);
	book_unanswered(c.m, 41);
	assert_int_equal(book_used(c.m, 0), 0);
	/* Refused: there is nothing to give back. */
	assert_true(take(&c, 0, GIB, false));
	assert_int_equal(book_want(c.m, 0, MIB, 42, NULL), SLICE_NO_ROOM);
	book_unanswered(c.m, 42);
	assert_int_equal(book_used(c.m, 0), GIB);
	/* It is another arbiter. */
	give(&c, 0, GIB);
	assert_int_equal(book_want(c.m, 0, 300 * MIB, 43, NULL), SLICE_OK);
	restart(&b, &s, GIB, &c, 1);
	book_adopt(c.m, &c.page);
	assert_int_equal(book_used(c.m, 0), 300 * MIB);
	book_unanswered(c.m, 43);
	assert_int_equal(book_used(c.m, 0), 0);
	book_fini(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(restore__counts_all_that_is_granted_until_the_page_is_there),
		cmocka_unit_test(restore__counts_refusals_from_where_the_last_one_stopped),
		cmocka_unit_test(restore__refuses_records_that_are_not_whole),
		cmocka_unit_test(adopt__finishes_or_takes_back_what_was_under_way),
		cmocka_unit_test(want__whose_answer_is_lost_becomes_credit),
	};

	return cmocka_run_group_tests_name("book-restore", tests, NULL, NULL);
}
