/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "model/sched/sched.h"

/*
 * Programs whose kernels wait for launches of the same program, as kernels of collectives do. They are on one GPU
 * or two, beside a program that saturates, or with a cap. Time has steps of STEP. A program does one piece of work
 * in each step in which all its gates are open. When a gate closes, the work in flight on its first GPU stays
 * there until all its gates are open again. Meanwhile the program has more to submit on its last GPU.
 */
#define MS    UINT64_C(1000000)
#define STEP  (MS / 10)
#define START UINT64_C(5000000000)

enum kind {
	SATURATES, /* and its work in flight ends at once */
	WAITS,     /* for its next launch */
	WAITS_ALL, /* the same on all its GPUs */
	HANGS,     /* has one kernel that never ends, and other kernels that do */
	STUCK,     /* has only a kernel that never ends */
	PINGS,     /* has work for .busy of each .period */
};

struct program {
	enum kind kind;
	unsigned int gpu, n_gpus; /* from that one on */
	struct sched_share_config share;
	uint64_t busy, period, from; /* PINGS; begins so much later */
	uint64_t least;              /* ns of ten seconds in which its gates have to be open */
	struct sched_slice *slice;
	struct sched_client *clients[2];
	uint64_t done;   /* pieces of work */
	uint64_t opened; /* ns in which its gates were open */
	uint64_t shut, shut_most;
	bool was_open;
};

struct world {
	struct sched *t;
	struct program *programs;
	unsigned int n;
	uint64_t now;
};

static void on_gate(void *arg, struct sched_client *client)
{
	(void)arg;
	(void)client;
}

static uint64_t done_of(void *arg, const struct sched_client *client)
{
	const struct program *p = client->user;

	(void)arg;
	return p->kind == STUCK ? 0 : p->done;
}

static bool is_open(const struct program *p)
{
	for (unsigned int i = 0; i < p->n_gpus; i++) {
		if (p->clients[i]->gate == SCHED_GATE_CLOSED)
			return false;
	}
	return true;
}

static void begin_world(struct world *w)
{
	w->now = START;
	w->t = sched_new(on_gate, done_of, w);
	assert_non_null(w->t);
	for (struct program *p = w->programs; p < w->programs + w->n; p++) {
		p->slice = sched_slice_new(w->t, NULL);
		assert_non_null(p->slice);
		for (unsigned int i = 0; i < p->n_gpus; i++) {
			assert_int_equal(sched_slice_set_share(w->t, p->slice, p->gpu + i,
						 &p->share, w->now),
				0);
			p->clients[i] = sched_client_new(w->t, p->slice, p->gpu + i, p, w->now);
			assert_non_null(p->clients[i]);
		}
	}
}

static void close_gates(struct world *w, const struct program *p)
{
	for (unsigned int i = 0; i < p->n_gpus; i++) {
		bool busy = p->kind != SATURATES && p->done && (i == 0 || p->kind == WAITS_ALL);
		bool wants = !p->done || p->kind == SATURATES || i == p->n_gpus - 1;

		if (p->clients[i]->gate == SCHED_GATE_CLOSED)
			sched_client_set_state(w->t, p->clients[i], busy, wants, 0, w->now);
	}
}

static void ping_once(struct world *w, const struct program *p)
{
	bool work = (w->now - START) % p->period < p->busy;
	bool closed = p->clients[0]->gate == SCHED_GATE_CLOSED;

	sched_client_set_state(w->t, p->clients[0], work && !closed, work && closed, 0, w->now);
}

/* The first piece of work of a program whose gates never closed. */
static void begin_work(struct world *w, const struct program *p)
{
	for (unsigned int i = 0; !p->done && i < p->n_gpus; i++)
		sched_client_set_state(w->t, p->clients[i], true, false, 0, w->now);
}

static void step_program(struct world *w, struct program *p)
{
	if (w->now < START + p->from)
		return;
	if (p->kind == PINGS) {
		ping_once(w, p);
	} else if (is_open(p)) {
		begin_work(w, p);
		p->done++;
		p->opened += STEP;
		p->shut = 0;
	} else {
		close_gates(w, p);
		p->shut += STEP;
		if (p->shut > p->shut_most)
			p->shut_most = p->shut;
	}
}

/* Runs for @ns; the counts are those of that time. */
static void run_world(struct world *w, uint64_t ns)
{
	uint64_t until = w->now + ns;

	for (struct program *p = w->programs; p < w->programs + w->n; p++)
		p->opened = p->shut_most = 0;
	while (w->now < until) {
		uint64_t next = w->now + STEP;

		while (sched_next_deadline(w->t) < next) {
			w->now = sched_next_deadline(w->t);
			sched_advance_time(w->t, w->now);
		}
		w->now = next;
		sched_advance_time(w->t, w->now);
		for (struct program *p = w->programs; p < w->programs + w->n; p++)
			step_program(w, p);
	}
	sched_update_charges(w->t, w->now);
}

static void end_world(struct world *w)
{
	assert_null(sched_free(w->t));
}

static void sched__boosts_a_launch_that_other_work_waits_for(void **state)
{
	struct program programs[] = {
		{ .kind = WAITS, .n_gpus = 1, .share = { .weight = 1 } },
		{ .kind = SATURATES, .n_gpus = 1, .share = { .weight = 1 } },
	};
	struct world w = { .programs = programs, .n = 2 };

	(void)state;
	begin_world(&w);
	run_world(&w, 1000 * MS);
	run_world(&w, 10000 * MS);
	assert_true(programs[0].shut_most < 50 * MS);
	assert_true(programs[1].shut_most < 10 * MS);
	end_world(&w);
}

static void sched__boosts_collectives_of_a_gang(void **state)
{
	struct program programs[] = {
		{ .kind = WAITS, .n_gpus = 2, .share = { .weight = 1 } },
		{ .kind = SATURATES, .n_gpus = 1, .share = { .weight = 5 } },
	};
	struct world w = { .programs = programs, .n = 2 };

	(void)state;
	begin_world(&w);
	run_world(&w, 1000 * MS);
	run_world(&w, 10000 * MS);
	assert_true(programs[0].shut_most < 50 * MS);
	assert_true(programs[1].shut_most < 10 * MS);
	assert_true(programs[1].opened > 8000 * MS);
	end_world(&w);
}

/* The bucket of the cap would never fill without a boost. */
static void sched__boosts_a_capped_program_that_waits_for_itself(void **state)
{
	struct program programs[] = {
		{ .kind = WAITS, .n_gpus = 1, .share = { .weight = 1, .cap = 100000 } },
	};
	struct world w = { .programs = programs, .n = 1 };

	(void)state;
	begin_world(&w);
	run_world(&w, 1000 * MS);
	run_world(&w, 10000 * MS);
	assert_true(programs[0].shut_most < 200 * MS);
	assert_in_range(programs[0].opened, 300 * MS, 1200 * MS);
	end_world(&w);
}

/* A program that waits for itself gets nothing of the other programs' time by that. */
static void sched__boosts_a_program_that_never_ends_only_a_little(void **state)
{
	struct program programs[] = {
		{ .kind = HANGS, .n_gpus = 1, .share = { .weight = 1 } },
		{ .kind = SATURATES, .n_gpus = 1, .share = { .weight = 1 } },
	};
	struct world w = { .programs = programs, .n = 2 };

	(void)state;
	begin_world(&w);
	run_world(&w, 1000 * MS);
	run_world(&w, 10000 * MS);
	assert_true(programs[1].opened > 8000 * MS);
	end_world(&w);
}

static void sched__boosts_a_stuck_program_hardly_at_all(void **state)
{
	struct program programs[] = {
		{ .kind = STUCK, .n_gpus = 1, .share = { .weight = 1 } },
		{ .kind = SATURATES, .n_gpus = 1, .share = { .weight = 1 } },
	};
	struct world w = { .programs = programs, .n = 2 };

	(void)state;
	begin_world(&w);
	run_world(&w, 2000 * MS);
	run_world(&w, 10000 * MS);
	assert_true(programs[1].opened > 9950 * MS);
	end_world(&w);
}

static void sched__boosts_collectives_beside_class_latency(void **state)
{
	struct program programs[] = {
		{ .kind = WAITS, .n_gpus = 2, .share = { .weight = 1 } },
		{ .kind = SATURATES, .n_gpus = 1, .share = { .weight = 1 } },
		{ .kind = PINGS,
			.n_gpus = 1,
			.share = { .weight = 1, .latency = true },
			.busy = 2 * MS,
			.period = 20 * MS },
	};
	struct world w = { .programs = programs, .n = 3 };

	(void)state;
	begin_world(&w);
	run_world(&w, 1000 * MS);
	run_world(&w, 10000 * MS);
	assert_true(programs[0].shut_most < 100 * MS);
	end_world(&w);
}

/* The program owes what the scheduler lent it: it has used the GPU all along. */
static void sched__charges_the_time_of_a_boost_later(void **state)
{
	struct program programs[] = {
		{ .kind = WAITS, .n_gpus = 1, .share = { .weight = 1, .cap = 500000 } },
	};
	struct world w = { .programs = programs, .n = 1 };

	(void)state;
	begin_world(&w);
	run_world(&w, 2000 * MS);
	programs[0].kind = SATURATES;
	/* With a cap of 50 %, the share waits two seconds for each second that it was charged too much. */
	run_world(&w, 1500 * MS);
	assert_in_range(programs[0].opened, 0, 100 * MS);
	run_world(&w, 4000 * MS);
	assert_in_range(programs[0].opened, 1500 * MS, 2000 * MS);
	end_world(&w);
}

#define ON(first, n) .gpu = (first), .n_gpus = (n)
#define SHARE(...)   .share = { .weight = 1, __VA_ARGS__ }

/* Each program makes progress, whatever is beside it. */
static void sched__every_program_makes_progress_with_boosts(void **state)
{
	struct program rows[][4] = {
		/* The interrupted program gets the boost. */
		{ { WAITS, ON(0, 1), SHARE(), .least = 500 * MS },
			{ SATURATES, ON(0, 1), SHARE(), .least = 3000 * MS },
			{ PINGS, ON(0, 1), SHARE(), .busy = 12 * MS, .period = 40 * MS } },
		{ { WAITS, ON(0, 1), SHARE(), .least = 300 * MS },
			{ SATURATES, ON(0, 1), SHARE(), .least = 2000 * MS },
			{ PINGS, ON(0, 1), SHARE(.latency = true), .busy = 28 * MS,
				.period = 40 * MS } },
		/* Several programs get the boost. */
		{ { WAITS, ON(0, 1), SHARE(), .least = 300 * MS },
			{ WAITS, ON(0, 1), SHARE(), .least = 300 * MS },
			{ WAITS, ON(0, 1), SHARE(), .least = 300 * MS },
			{ SATURATES, ON(0, 1), SHARE(), .least = 6000 * MS } },
		/* The quanta on its GPUs end at different times. */
		{ { WAITS_ALL, ON(0, 2), SHARE(), .least = 500 * MS },
			{ SATURATES, ON(0, 1), .share = { .weight = 3 }, .least = 5000 * MS },
			{ SATURATES, ON(1, 1), SHARE(), .from = 13 * MS, .least = 5000 * MS } },
		{ { WAITS_ALL, ON(0, 2), SHARE(), .least = 300 * MS },
			{ SATURATES, ON(0, 1), SHARE(), .least = 2000 * MS },
			{ SATURATES, ON(1, 1), SHARE(), .from = 13 * MS, .least = 2000 * MS },
			{ SATURATES, ON(0, 2), SHARE(), .least = 2000 * MS } },
		/* The same with caps. */
		{ { WAITS, ON(0, 1), SHARE(.cap = 100000), .least = 300 * MS },
			{ SATURATES, ON(0, 1), SHARE(), .least = 3000 * MS },
			{ SATURATES, ON(0, 1), SHARE(), .least = 3000 * MS } },
		{ { WAITS_ALL, ON(0, 2), SHARE(.cap = 300000), .least = 1000 * MS } },
		{ { WAITS_ALL, ON(0, 2), SHARE(.cap = 300000), .least = 300 * MS },
			{ SATURATES, ON(1, 1), SHARE(), .least = 6000 * MS } },
		{ { WAITS, ON(0, 1), .share = { .weight = 4, .cap = 400000 },
			  .least = 500 * MS },
			{ WAITS, ON(0, 1), SHARE(.cap = 500000), .least = 500 * MS } },
		{ { WAITS, ON(0, 1), SHARE(.cap = 100000, .latency = true),
			.least = 500 * MS } },
		/* A slice of class latency keeps a boosted gang from its quantum. */
		{ { WAITS_ALL, ON(1, 2), SHARE() },
			{ SATURATES, ON(2, 1), SHARE(.latency = true), .least = 5000 * MS },
			{ SATURATES, ON(0, 2), SHARE(), .least = 5000 * MS } },
		/* Gangs, and a slice on one of their GPUs. */
		{ { WAITS_ALL, ON(0, 2), .share = { .weight = 2 }, .least = 500 * MS },
			{ WAITS, ON(1, 1), SHARE(), .least = 500 * MS } },
		{ { SATURATES, ON(0, 2), SHARE(), .least = 5000 * MS },
			{ WAITS, ON(1, 1), SHARE(), .least = 500 * MS } },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct world w = { .programs = rows[i] };

		while (w.n < 4 && rows[i][w.n].n_gpus)
			w.n++;
		begin_world(&w);
		run_world(&w, 1000 * MS);
		run_world(&w, 10000 * MS);
		for (unsigned int k = 0; k < w.n; k++) {
			if (rows[i][k].opened < rows[i][k].least)
				fail_msg("row %zu: %u had %.0f ms", i, k,
					(double)rows[i][k].opened / 1e6);
		}
		end_world(&w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sched__boosts_a_launch_that_other_work_waits_for),
		cmocka_unit_test(sched__boosts_collectives_of_a_gang),
		cmocka_unit_test(sched__boosts_a_capped_program_that_waits_for_itself),
		cmocka_unit_test(sched__boosts_a_program_that_never_ends_only_a_little),
		cmocka_unit_test(sched__boosts_a_stuck_program_hardly_at_all),
		cmocka_unit_test(sched__boosts_collectives_beside_class_latency),
		cmocka_unit_test(sched__charges_the_time_of_a_boost_later),
		cmocka_unit_test(sched__every_program_makes_progress_with_boosts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
