/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/test.h"

#include "abi/slice-layout.h"
#include "arbiter/book.h"

#define MIB UINT64_C(1048576)
#define GIB (1024 * MIB)

static const uint8_t uuids[2][SLICE_UUID_BYTES] = { "0123456789abcde", "fedcba987654321" };

/* A process as the runtime library is one: takes from its credit, asks when that is too little. */
struct client {
	bool alive;
	struct slice_page page;
	struct book_record rec;
	struct book_member *m;
	uint64_t has[2];      /* what it really uses, by its own count */
	uint64_t physical[2]; /* of that, what NVML would show */
};

static struct book_slice *slice_new(struct book *b, const char *id, uint64_t limit)
{
	const uint64_t limits[2] = { limit, limit };
	struct book_slice *s = book_slice_new(b, id, 2, uuids, limits);

	assert_non_null(s);
	return s;
}

static enum slice_status join(struct book *b, struct book_slice *s, struct client *c,
	uint32_t pid)
{
	static uint64_t last;
	const uint64_t serial = ++last;
	const struct book_who who = { .pid = pid,
		.ns_pid = 7,
		.start = 100,
		.serial = serial,
		.name = "tester" };
	enum slice_status r;

	memset(c, 0, sizeof(*c));
	r = book_register(b, s, &who, &c->rec, &c->page, &c->m);
	c->alive = r == SLICE_OK;
	return r;
}

static uint64_t credit(const struct client *c, unsigned int gpu)
{
	return atomic_load(&c->page.gpus[gpu].credit);
}

/* As ledger.c does it, in one thread. */
static bool take(struct client *c, unsigned int gpu, uint64_t bytes, bool hidden)
{
	struct slice_gpu_page *p = &c->page.gpus[gpu];

	atomic_fetch_add(&p->begun, 1);
	if (atomic_load(&p->credit) >= bytes) {
		atomic_fetch_sub(&p->credit, bytes);
	} else if (book_want(c->m, gpu, bytes, 1, NULL) != SLICE_OK) {
		atomic_fetch_add(&p->done, 1);
		return false;
	}
	c->has[gpu] += bytes;
	if (!hidden)
		atomic_fetch_add(&p->seen, bytes);
	atomic_fetch_add(&p->done, 1);
	return true;
}

static void give(struct client *c, unsigned int gpu, uint64_t bytes)
{
	struct slice_gpu_page *p = &c->page.gpus[gpu];

	atomic_fetch_add(&p->begun, 1);
	atomic_fetch_sub(&p->seen, bytes);
	atomic_fetch_add(&p->credit, bytes);
	c->has[gpu] -= bytes;
	atomic_fetch_add(&p->done, 1);
}

static void want__grants_what_fits_and_not_a_byte_more(void **state)
{
	struct book b;
	struct client c;
	struct book_slice *s;
	uint64_t left = 0;

	(void)state;
	book_init(&b);
	s = slice_new(&b, "a", GIB);
	assert_int_equal(join(&b, s, &c, 1), SLICE_OK);
	assert_int_equal(book_want(c.m, 0, GIB + 1, 1, &left), SLICE_NO_ROOM);
	assert_int_equal(left, GIB);
	assert_int_equal(book_want(c.m, 0, GIB, 2, &left), SLICE_OK);
	assert_int_equal(left, 0);
	assert_int_equal(atomic_load(&c.page.gpus[0].granted), GIB);
	assert_int_equal(credit(&c, 0), 0);
	assert_int_equal(book_want(c.m, 0, 1, 3, NULL), SLICE_NO_ROOM);
	assert_int_equal(book_want(c.m, 0, UINT64_MAX, 3, NULL), SLICE_NO_ROOM);
	/* The other GPU of the slice has its own. */
	assert_int_equal(book_want(c.m, 1, GIB, 4, NULL), SLICE_OK);
	book_fini(&b);
}

static void want__gives_some_credit_besides(void **state)
{
	struct book b;
	struct client c;
	struct book_slice *s;

	(void)state;
	book_init(&b);
	s = slice_new(&b, "a", 4 * GIB);
	assert_int_equal(join(&b, s, &c, 1), SLICE_OK);
	assert_int_equal(book_want(c.m, 0, MIB, 1, NULL), SLICE_OK);
	assert_int_equal(credit(&c, 0), BOOK_EXTRA_MAX);
	assert_int_equal(atomic_load(&c.page.gpus[0].granted), MIB + BOOK_EXTRA_MAX);
	/* Near the limit it is a part of what is left. */
	assert_int_equal(book_want(c.m, 1, 4 * GIB - 160 * MIB, 2, NULL), SLICE_OK);
	assert_int_equal(credit(&c, 1), 10 * MIB);
	book_fini(&b);
}

static void want__takes_unused_credit_from_others_and_from_itself(void **state)
{
	struct book b;
	struct client one, two;
	struct book_slice *s;

	(void)state;
	book_init(&b);
	s = slice_new(&b, "a", GIB);
	assert_int_equal(join(&b, s, &one, 1), SLICE_OK);
	assert_int_equal(join(&b, s, &two, 2), SLICE_OK);
	assert_true(take(&one, 0, GIB, false));
	give(&one, 0, 600 * MIB);
	assert_int_equal(credit(&one, 0), 600 * MIB);
	assert_true(take(&two, 0, 600 * MIB, false));
	assert_int_equal(credit(&one, 0), 0);
	assert_int_equal(atomic_load(&one.page.gpus[0].granted), 424 * MIB);
	assert_false(take(&two, 0, 1, false));
	/* 300 MiB of its own, in its credit, and 100 MiB of the other. */
	give(&two, 0, 300 * MIB);
	give(&one, 0, 100 * MIB);
	assert_int_equal(book_want(two.m, 0, 400 * MIB, 9, NULL), SLICE_OK);
	assert_int_equal(book_used(two.m, 0), 700 * MIB);
	book_fini(&b);
}

static void want__without_limit_counts_all_the_same(void **state)
{
	struct book b;
	struct client c;
	struct book_slice *s;
	uint64_t left = 0;

	(void)state;
	book_init(&b);
	s = slice_new(&b, "a", SLICE_NO_LIMIT);
	assert_int_equal(join(&b, s, &c, 1), SLICE_OK);
	assert_int_equal(book_want(c.m, 0, 500 * GIB, 1, &left), SLICE_OK);
	assert_true(left == SLICE_NO_LIMIT);
	assert_int_equal(book_slice_used(s, 0), 500 * GIB);
	assert_false(book_slice_over(s, 0));
	book_fini(&b);
}

static void alone__is_told_before_another_has_anything(void **state)
{
	struct book b;
	struct client one, two;
	struct book_slice *s;

	(void)state;
	book_init(&b);
	s = slice_new(&b, "a", GIB);
	assert_int_equal(join(&b, s, &one, 1), SLICE_OK);
	assert_int_equal(atomic_load(&one.page.gpus[0].alone), 1);
	assert_true(take(&one, 0, MIB, false));
	assert_int_equal(join(&b, s, &two, 2), SLICE_OK);
	assert_int_equal(atomic_load(&one.page.gpus[0].alone), 1);
	assert_int_equal(atomic_load(&two.page.gpus[0].alone), 0);
	assert_true(take(&two, 0, MIB, false));
	assert_int_equal(atomic_load(&one.page.gpus[0].alone), 0);
	assert_int_equal(atomic_load(&two.page.gpus[0].alone), 0);
	book_member_drop(&b, one.m);
	assert_int_equal(atomic_load(&two.page.gpus[0].alone), 1);
	book_slice_unhooked(s, 0, 1);
	assert_int_equal(atomic_load(&two.page.gpus[0].alone), 0);
	book_fini(&b);
}

static void limit__lowered_takes_credit_and_then_grants_nothing(void **state)
{
	struct book b;
	struct client c;
	struct book_slice *s;

	(void)state;
	book_init(&b);
	s = slice_new(&b, "a", GIB);
	assert_int_equal(join(&b, s, &c, 1), SLICE_OK);
	assert_true(take(&c, 0, 600 * MIB, false));
	give(&c, 0, 100 * MIB);
	book_slice_limit(s, 0, 550 * MIB);
	assert_int_equal(atomic_load(&c.page.gpus[0].limit), 550 * MIB);
	assert_int_equal(atomic_load(&c.page.gpus[0].granted), 550 * MIB);
	assert_false(book_slice_over(s, 0));
	book_slice_limit(s, 0, 400 * MIB);
	assert_int_equal(credit(&c, 0), 0);
	assert_int_equal(atomic_load(&c.page.gpus[0].granted), 500 * MIB);
	assert_true(book_slice_over(s, 0));
	assert_int_equal(book_want(c.m, 0, 1, 1, NULL), SLICE_NO_ROOM);
	assert_int_equal(book_slice_free(s, 0), 0);
	book_slice_limit(s, 0, GIB);
	assert_true(take(&c, 0, 524 * MIB, false));
	book_fini(&b);
}

static void compare__sets_what_no_hook_charged(void **state)
{
	struct book b;
	struct client c;
	struct book_slice *s;

	(void)state;
	book_init(&b);
	s = slice_new(&b, "a", GIB);
	assert_int_equal(join(&b, s, &c, 1), SLICE_OK);
	assert_true(take(&c, 0, 100 * MIB, false));
	assert_true(take(&c, 0, 600 * MIB, true)); /* a context: a bound */
	/* It took 518: the rest comes back. */
	book_snapshot(&b);
	assert_true(book_compare(c.m->task, uuids[0], 618 * MIB));
	assert_int_equal(book_used(c.m, 0), 618 * MIB);
	assert_int_equal(book_overhead(c.m, 0), 518 * MIB);
	assert_false(book_compare(c.m->task, uuids[0], 618 * MIB));
	/* It grew by 30 without a hook. */
	assert_true(book_compare(c.m->task, uuids[0], 648 * MIB));
	assert_int_equal(book_used(c.m, 0), 648 * MIB);
	/* And beyond the limit: a fact. Nothing more is granted. */
	assert_true(book_compare(c.m->task, uuids[0], GIB + MIB));
	assert_true(book_slice_over(s, 0));
	assert_int_equal(book_want(c.m, 0, 1, 1, NULL), SLICE_NO_ROOM);
	assert_int_equal(atomic_load(&c.page.gpus[0].granted), GIB + MIB);
	/* Never below what the hooks charged. */
	assert_true(book_compare(c.m->task, uuids[0], MIB));
	assert_int_equal(book_used(c.m, 0), 100 * MIB);
	book_fini(&b);
}

/* Where things share granules, what is charged may be more than there is. */
static void compare__does_not_take_doubtful_charges_off(void **state)
{
	struct book b;
	struct client c;
	struct book_slice *s;
	struct slice_gpu_page *p = &c.page.gpus[0];

	(void)state;
	book_init(&b);
	s = slice_new(&b, "a", GIB);
	assert_int_equal(join(&b, s, &c, 1), SLICE_OK);
	assert_true(take(&c, 0, 100 * MIB, false));
	assert_true(take(&c, 0, 518 * MIB, true));
	/* Two charges of a granule, of which the driver may have put the second into the first. */
	assert_true(take(&c, 0, 4 * MIB, false));
	atomic_store(&p->packed, MIB);
	atomic_store(&p->packed_in, 4 * MIB);
	book_snapshot(&b);
	assert_false(book_compare(c.m->task, uuids[0], 620 * MIB));
	assert_false(book_compare(c.m->task, uuids[0], 622 * MIB));
	assert_int_equal(book_overhead(c.m, 0), 518 * MIB);
	/* One granule is no doubt at all. */
	assert_true(book_compare(c.m->task, uuids[0], 619 * MIB));
	assert_int_equal(book_overhead(c.m, 0), 517 * MIB);
	assert_true(book_compare(c.m->task, uuids[0], 623 * MIB));
	assert_int_equal(book_overhead(c.m, 0), 519 * MIB);
	/* They go, and all of what there was stays charged. */
	give(&c, 0, 4 * MIB);
	atomic_store(&p->packed, 0);
	atomic_store(&p->packed_in, 0);
	assert_int_equal(book_used(c.m, 0), 619 * MIB);
	book_snapshot(&b);
	assert_false(book_compare(c.m->task, uuids[0], 619 * MIB));
	/* Nonsense on the page takes nothing off, and puts nothing on. */
	atomic_store(&p->packed, UINT64_MAX);
	atomic_store(&p->packed_in, UINT64_MAX);
	assert_false(book_compare(c.m->task, uuids[0], 619 * MIB));
	atomic_store(&p->packed, 0);
	assert_false(book_compare(c.m->task, uuids[0], 619 * MIB));
	book_fini(&b);
}

static void compare__leaves_busy_processes_alone(void **state)
{
	struct book b;
	struct client c;
	struct book_slice *s;

	(void)state;
	book_init(&b);
	s = slice_new(&b, "a", GIB);
	assert_int_equal(join(&b, s, &c, 1), SLICE_OK);
	assert_true(take(&c, 0, 100 * MIB, true));
	/* Did something since NVML was asked. */
	book_snapshot(&b);
	assert_true(take(&c, 0, 2 * MIB, false));
	assert_false(book_compare(c.m->task, uuids[0], 50 * MIB));
	/* Was in the midst of something then. */
	atomic_fetch_add(&c.page.gpus[0].begun, 1);
	book_snapshot(&b);
	atomic_fetch_add(&c.page.gpus[0].done, 1);
	assert_false(book_compare(c.m->task, uuids[0], 50 * MIB));
	/* Is now. */
	book_snapshot(&b);
	atomic_fetch_add(&c.page.gpus[0].begun, 1);
	assert_false(book_compare(c.m->task, uuids[0], 50 * MIB));
	atomic_fetch_add(&c.page.gpus[0].done, 1);
	book_snapshot(&b);
	assert_true(book_compare(c.m->task, uuids[0], 50 * MIB));
	assert_int_equal(book_used(c.m, 0), 50 * MIB);
	book_fini(&b);
}

static void compare__adds_up_all_registrations_of_a_process(void **state)
{
	struct book b;
	struct client one, two;
	struct book_slice *s;

	(void)state;
	book_init(&b);
	s = slice_new(&b, "a", GIB);
	assert_int_equal(join(&b, s, &one, 1), SLICE_OK);
	assert_int_equal(join(&b, s, &two, 1), SLICE_OK);
	assert_ptr_equal(one.m->task, two.m->task);
	assert_true(take(&one, 0, 100 * MIB, false));
	assert_true(take(&one, 0, 50 * MIB, true));
	assert_true(take(&two, 0, 20 * MIB, false));
	assert_true(take(&two, 0, 50 * MIB, true));
	book_snapshot(&b);
	assert_false(book_compare(one.m->task, uuids[0], 220 * MIB));
	assert_true(book_compare(one.m->task, uuids[0], 140 * MIB));
	assert_int_equal(book_slice_used(s, 0), 140 * MIB);
	assert_int_equal(book_overhead(one.m, 0) + book_overhead(two.m, 0), 20 * MIB);
	book_task_gone(&b, one.m->task);
	assert_int_equal(s->gpus[0].granted, 0);
	assert_int_equal(b.n_members, 0);
	assert_int_equal(b.n_tasks, 0);
	book_fini(&b);
}

static void exec__is_counted_until_a_reading_shows_the_memory_gone(void **state)
{
	struct book b;
	struct client old, new;
	struct book_slice *s;

	(void)state;
	book_init(&b);
	s = slice_new(&b, "a", GIB);
	assert_int_equal(join(&b, s, &old, 1), SLICE_OK);
	assert_true(take(&old, 0, 700 * MIB, false));
	book_abandon(old.m);
	assert_int_equal(join(&b, s, &new, 1), SLICE_OK);
	assert_false(take(&new, 0, 400 * MIB, false));
	assert_true(take(&new, 0, 100 * MIB, false));
	/* Half of it is still there. */
	book_snapshot(&b);
	assert_true(book_compare(new.m->task, uuids[0], 450 * MIB));
	assert_int_equal(book_slice_used(s, 0), 450 * MIB);
	assert_int_equal(b.n_members, 2);
	assert_true(book_compare(new.m->task, uuids[0], 100 * MIB));
	assert_false(book_compare(new.m->task, uuids[1], 0));
	book_compared(&b);
	assert_int_equal(b.n_members, 1);
	assert_int_equal(book_slice_used(s, 0), 100 * MIB);
	assert_int_equal(atomic_load(&old.rec.state), BOOK_FREE);
	book_fini(&b);
}

/* A reading: so much on the first GPU, nothing on the other. */
static void read_both(struct book *b, struct book_task *t, uint64_t bytes)
{
	book_snapshot(b);
	(void)book_compare(t, uuids[0], bytes);
	(void)book_compare(t, uuids[1], 0);
	book_compared(b);
}

static void death__is_counted_until_a_reading_says_whether_a_child_has_the_memory(void **state)
{
	struct book b;
	struct client dead, idle, c;
	struct book_slice *s;
	struct book_task *t;

	(void)state;
	book_init(&b);
	s = slice_new(&b, "a", GIB);
	assert_int_equal(join(&b, s, &dead, 1), SLICE_OK);
	assert_int_equal(join(&b, s, &idle, 1), SLICE_OK);
	assert_int_equal(join(&b, s, &c, 2), SLICE_OK);
	t = dead.m->task;
	assert_true(take(&dead, 0, 700 * MIB, false));
	/* Asked before it died: says nothing of what it took since then. */
	book_snapshot(&b);
	assert_true(take(&dead, 0, 100 * MIB, false));
	book_task_dead(t);
	assert_true(book_slice_awaits(s, 0));
	assert_false(book_slice_awaits(s, 1));
	assert_false(book_compare(t, uuids[0], 700 * MIB));
	book_compared(&b);
	assert_true(book_slice_awaits(s, 0));
	assert_false(take(&c, 0, 300 * MIB, false));

	read_both(&b, t, 600 * MIB);
	assert_false(book_slice_awaits(s, 0));
	/* Which of the two had it nobody knows; the one that has nothing is dropped. */
	assert_int_equal(b.n_members, 2);
	book_give_up(&b);
	assert_int_equal(book_slice_used(s, 0), 600 * MIB);
	assert_true(take(&c, 0, 300 * MIB, false));
	/* There is more than was known: a context, for example. */
	read_both(&b, t, 650 * MIB);
	assert_int_equal(book_slice_used(s, 0), 950 * MIB);
	read_both(&b, t, BOOK_NOTHING);
	assert_int_equal(book_slice_used(s, 0), 950 * MIB);
	read_both(&b, t, 0);
	assert_int_equal(book_slice_used(s, 0), 300 * MIB);
	assert_int_equal(b.n_tasks, 1);
	book_fini(&b);
}

static void death__is_given_up_where_a_gpu_cannot_be_read(void **state)
{
	struct book b;
	struct client dead, old;
	struct book_slice *s;

	(void)state;
	book_init(&b);
	s = slice_new(&b, "a", GIB);
	assert_int_equal(join(&b, s, &dead, 1), SLICE_OK);
	assert_int_equal(join(&b, s, &old, 2), SLICE_OK);
	assert_true(take(&dead, 0, 700 * MIB, false));
	assert_true(take(&old, 0, 100 * MIB, false));
	book_task_dead(dead.m->task);
	book_abandon(old.m);
	for (int i = 1; i <= BOOK_MISSED_MAX; i++) {
		assert_int_equal(book_slice_awaits(s, 0), i == 1);
		assert_int_equal(b.n_members, 2);
		book_snapshot(&b);
		(void)book_compare(dead.m->task, uuids[1], 0);
		book_compared(&b);
	}
	/* One that lives has its old memory until it is seen to be gone. */
	assert_int_equal(b.n_members, 1);
	assert_int_equal(atomic_load(&dead.rec.state), BOOK_FREE);
	book_fini(&b);
}

static void death__that_no_reading_follows_sets_all_free(void **state)
{
	struct book b;
	struct client dead, c;
	struct book_slice *s;

	(void)state;
	book_init(&b);
	s = slice_new(&b, "a", GIB);
	assert_int_equal(join(&b, s, &dead, 1), SLICE_OK);
	assert_int_equal(join(&b, s, &c, 2), SLICE_OK);
	assert_true(take(&dead, 1, 700 * MIB, false));
	assert_true(take(&c, 1, 100 * MIB, false));
	book_task_dead(dead.m->task);
	book_give_up(&b);
	assert_int_equal(book_slice_used(s, 1), 100 * MIB);
	assert_int_equal(b.n_tasks, 1);
	book_fini(&b);
}

static void unhooked__counts_against_the_slice(void **state)
{
	struct book b;
	struct client c;
	struct book_slice *s;

	(void)state;
	book_init(&b);
	s = slice_new(&b, "a", GIB);
	assert_int_equal(join(&b, s, &c, 1), SLICE_OK);
	assert_true(take(&c, 0, 100 * MIB, false));
	book_slice_unhooked(s, 0, 900 * MIB);
	assert_int_equal(book_slice_used(s, 0), 1000 * MIB);
	assert_int_equal(credit(&c, 0), 24 * MIB);
	assert_false(take(&c, 0, 25 * MIB, false));
	assert_true(take(&c, 0, 24 * MIB, false));
	book_slice_unhooked(s, 0, 2 * GIB);
	assert_true(book_slice_over(s, 0));
	book_slice_unhooked(s, 0, 0);
	assert_true(take(&c, 0, 900 * MIB, false));
	book_fini(&b);
}

static void peak__outlives_the_process(void **state)
{
	struct book b;
	struct client c;
	struct book_slice *s;

	(void)state;
	book_init(&b);
	s = slice_new(&b, "a", GIB);
	assert_int_equal(join(&b, s, &c, 1), SLICE_OK);
	assert_true(take(&c, 0, 300 * MIB, false));
	give(&c, 0, 200 * MIB);
	assert_int_equal(book_peak(c.m, 0), 300 * MIB);
	/* The process knows better what it had, but not more than was granted. */
	atomic_store(&c.page.gpus[0].peak, 310 * MIB);
	assert_int_equal(book_peak(c.m, 0), 310 * MIB);
	atomic_store(&c.page.gpus[0].peak, UINT64_MAX);
	assert_true(book_peak(c.m, 0) <= GIB);
	book_task_gone(&b, c.m->task);
	assert_true(s->gpus[0].peak >= 310 * MIB);
	book_fini(&b);
}

static void page__that_is_spoiled_harms_no_sum(void **state)
{
	struct book b;
	struct client bad, good;
	struct book_slice *s;

	(void)state;
	book_init(&b);
	s = slice_new(&b, "a", GIB);
	assert_int_equal(join(&b, s, &bad, 1), SLICE_OK);
	assert_int_equal(join(&b, s, &good, 2), SLICE_OK);
	assert_true(take(&bad, 0, 500 * MIB, false));
	for (unsigned int i = 0; i < 3; i++) {
		memset(&bad.page, 0xff, sizeof(bad.page));
		book_snapshot(&b);
		(void)book_compare(bad.m->task, uuids[0], 10 * MIB);
		(void)take(&good, 0, 200 * MIB, false);
		assert_true(s->gpus[0].granted <= GIB);
		assert_int_equal(s->gpus[0].granted,
			book_granted(bad.m, 0) + book_granted(good.m, 0));
		assert_true(book_used(bad.m, 0) <= GIB);
	}
	book_fini(&b);
}

static void slice__gone_goes_with_its_last_member(void **state)
{
	struct book b;
	struct client c, late;
	struct book_slice *s;

	(void)state;
	book_init(&b);
	s = slice_new(&b, "a", GIB);
	assert_int_equal(join(&b, s, &c, 1), SLICE_OK);
	book_slice_gone(&b, s);
	assert_ptr_equal(book_slice_find(&b, "a"), s);
	assert_int_equal(join(&b, s, &late, 2), SLICE_GONE);
	assert_true(take(&c, 0, MIB, false));
	book_task_gone(&b, c.m->task);
	assert_null(book_slice_find(&b, "a"));
	book_fini(&b);
}

static void register__has_limits(void **state)
{
	static struct client c[BOOK_SLICE_MAX + 1];
	struct book b;
	struct book_slice *s;

	(void)state;
	book_init(&b);
	s = slice_new(&b, "a", GIB);
	for (unsigned int i = 0; i < BOOK_TASK_MAX; i++)
		assert_int_equal(join(&b, s, &c[i], 1), SLICE_OK);
	assert_int_equal(join(&b, s, &c[BOOK_TASK_MAX], 1), SLICE_TOO_MANY);
	assert_int_equal(atomic_load(&c[BOOK_TASK_MAX].rec.state), BOOK_FREE);
	for (unsigned int i = BOOK_TASK_MAX; i < BOOK_SLICE_MAX; i++)
		assert_int_equal(join(&b, s, &c[i], i), SLICE_OK);
	assert_int_equal(join(&b, s, &c[BOOK_SLICE_MAX], 5000), SLICE_TOO_MANY);
	book_fini(&b);
}

/* ---- after a kill ----------------------------------------------------------------------------- */

static void restart(struct book *b, struct book_slice **s, uint64_t limit, struct client *c,
	size_t n)
{
	book_fini(b);
	*s = slice_new(b, "a", limit);
	for (size_t i = 0; i < n; i++) {
		if (!c[i].alive)
			continue;
		assert_true(book_record_valid(&c[i].rec));
		c[i].m = book_restore(b, *s, &c[i].rec);
		assert_non_null(c[i].m);
	}
}

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

/* ---- anything, in any order ------------------------------------------------------------------- */

#define CLIENTS 12

struct world {
	struct book b;
	struct book_slice *s;
	struct client c[CLIENTS];
	uint64_t limit[2], unhooked[2];
	uint32_t next_pid;
	uint64_t random;
};

static uint64_t rnd(struct world *w, uint64_t below)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	return w->random % below;
}

static uint64_t used_in_truth(const struct world *w, unsigned int gpu)
{
	uint64_t sum = w->unhooked[gpu];

	for (size_t i = 0; i < CLIENTS; i++)
		sum += w->c[i].alive ? w->c[i].has[gpu] : 0;
	return sum;
}

static void check(struct world *w)
{
	/* What was freed above a lowered limit. */
	book_shrink(&w->b);
	for (unsigned int g = 0; g < 2; g++) {
		uint64_t granted = 0, used = used_in_truth(w, g);

		for (size_t i = 0; i < CLIENTS; i++) {
			const struct client *c = &w->c[i];

			if (!c->alive)
				continue;
			granted += book_granted(c->m, g);
			assert_int_equal(book_granted(c->m, g),
				atomic_load(&c->page.gpus[g].granted));
			assert_int_equal(book_used(c->m, g), c->has[g]);
			assert_int_equal(atomic_load(&c->page.gpus[g].seq) & 1, 0);
			assert_int_equal(atomic_load(&c->page.gpus[g].limit), w->limit[g]);
		}
		assert_int_equal(granted, w->s->gpus[g].granted);
		assert_int_equal(used, book_slice_used(w->s, g));
		/* Above the limit only what is in use, and then no credit is left. */
		if (granted + w->unhooked[g] > w->limit[g])
			assert_int_equal(granted + w->unhooked[g], used);
	}
}

static void do_want(struct world *w, struct client *c, unsigned int g)
{
	uint64_t bytes = 1 + (rnd(w, 8) ? rnd(w, 40 * MIB) : rnd(w, w->limit[g] + MIB));
	uint64_t used = used_in_truth(w, g);
	bool fits = used <= w->limit[g] && bytes <= w->limit[g] - used;
	bool hidden = rnd(w, 4) == 0;
	bool got = take(c, g, bytes, hidden);

	/* Credit may hold what no longer fits a lowered limit; else it is granted if and only if it fits. */
	if (!got)
		assert_false(fits);
	else
		assert_true(fits);
	if (got && !hidden)
		c->physical[g] += bytes;
}

static void do_compare(struct world *w, struct client *c, unsigned int g)
{
	uint64_t seen = atomic_load(&c->page.gpus[g].seen), physical;

	assert_int_equal(seen, c->physical[g]);
	physical = seen + rnd(w, 30 * MIB);
	book_snapshot(&w->b);
	(void)book_compare(c->m->task, uuids[g], physical);
	c->has[g] = physical;
}

static void do_something(struct world *w)
{
	struct client *c = &w->c[rnd(w, CLIENTS)];
	unsigned int g = (unsigned int)rnd(w, 2);
	uint64_t what = rnd(w, 100);

	if (!c->alive) {
		assert_int_equal(join(&w->b, w->s, c, ++w->next_pid), SLICE_OK);
	} else if (what < 45) {
		do_want(w, c, g);
	} else if (what < 75) {
		uint64_t bytes = rnd(w, c->physical[g] + 1);

		if (rnd(w, 3) == 0)
			bytes = c->physical[g];
		give(c, g, bytes);
		c->physical[g] -= bytes;
	} else if (what < 85) {
		do_compare(w, c, g);
	} else if (what < 89) {
		w->limit[g] = 100 * MIB + rnd(w, GIB);
		book_slice_limit(w->s, g, w->limit[g]);
	} else if (what < 93) {
		w->unhooked[g] = rnd(w, 2) ? 0 : rnd(w, 200 * MIB);
		book_slice_unhooked(w->s, g, w->unhooked[g]);
	} else if (what < 98) {
		book_task_gone(&w->b, c->m->task);
		c->alive = false;
	} else {
		restart(&w->b, &w->s, GIB, w->c, CLIENTS);
		for (size_t i = 0; i < CLIENTS; i++) {
			if (w->c[i].alive)
				book_adopt(w->c[i].m, &w->c[i].page);
		}
		for (unsigned int i = 0; i < 2; i++) {
			book_slice_limit(w->s, i, w->limit[i]);
			book_slice_unhooked(w->s, i, w->unhooked[i]);
		}
	}
}

static void book__holds_whatever_happens(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 40; seed++) {
		struct world *w = calloc(1, sizeof(*w));

		assert_non_null(w);
		w->random = seed * UINT64_C(0x9e3779b97f4a7c15);
		book_init(&w->b);
		w->limit[0] = w->limit[1] = GIB;
		w->s = slice_new(&w->b, "a", GIB);
		for (int i = 0; i < 3000; i++) {
			do_something(w);
			check(w);
		}
		book_fini(&w->b);
		free(w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(want__grants_what_fits_and_not_a_byte_more),
		cmocka_unit_test(want__gives_some_credit_besides),
		cmocka_unit_test(want__takes_unused_credit_from_others_and_from_itself),
		cmocka_unit_test(want__without_limit_counts_all_the_same),
		cmocka_unit_test(alone__is_told_before_another_has_anything),
		cmocka_unit_test(limit__lowered_takes_credit_and_then_grants_nothing),
		cmocka_unit_test(compare__sets_what_no_hook_charged),
		cmocka_unit_test(compare__does_not_take_doubtful_charges_off),
		cmocka_unit_test(compare__leaves_busy_processes_alone),
		cmocka_unit_test(compare__adds_up_all_registrations_of_a_process),
		cmocka_unit_test(exec__is_counted_until_a_reading_shows_the_memory_gone),
		cmocka_unit_test(
			death__is_counted_until_a_reading_says_whether_a_child_has_the_memory),
		cmocka_unit_test(death__is_given_up_where_a_gpu_cannot_be_read),
		cmocka_unit_test(death__that_no_reading_follows_sets_all_free),
		cmocka_unit_test(unhooked__counts_against_the_slice),
		cmocka_unit_test(peak__outlives_the_process),
		cmocka_unit_test(page__that_is_spoiled_harms_no_sum),
		cmocka_unit_test(slice__gone_goes_with_its_last_member),
		cmocka_unit_test(register__has_limits),
		cmocka_unit_test(restore__counts_all_that_is_granted_until_the_page_is_there),
		cmocka_unit_test(restore__refuses_records_that_are_not_whole),
		cmocka_unit_test(adopt__finishes_or_takes_back_what_was_under_way),
		cmocka_unit_test(want__whose_answer_is_lost_becomes_credit),
		cmocka_unit_test(book__holds_whatever_happens),
	};

	return cmocka_run_group_tests_name("book", tests, NULL, NULL);
}
