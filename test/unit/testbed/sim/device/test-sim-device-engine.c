/* SPDX-License-Identifier: Apache-2.0 */

/* The engines of simulated GPUs in virtual time: which context computes and copies, and when. */
#include "support/test.h"

#include <string.h>

#include "testbed/sim/device/engine/engine.h"

#define US     UINT64_C(1000)
#define MS     UINT64_C(1000000)
#define SLICE  (1024 * US)
#define SWITCH (135 * US)
#define WIDTH  100

/* One stream, and what its hooks reported. */
struct lane {
	struct engine_stream *stream;
	uint64_t done, host, drained;
	uint64_t at[64]; /* when number i completed */
};

struct event_times {
	uint64_t recorded, time_ns;
};

static struct engine *e;
static uint64_t now;
static uint32_t failed_code;

static void on_completed(void *arg, void *user, uint64_t seq)
{
	struct lane *l = user;

	(void)arg;
	assert_true(seq > l->done);
	l->done = seq;
	if (seq < ARRAY_LEN(l->at))
		l->at[seq] = now;
}

static void on_host(void *arg, void *user, uint64_t seq)
{
	(void)arg;
	((struct lane *)user)->host = seq;
}

static void on_recorded(void *arg, void *user, uint64_t completed, uint64_t time_ns)
{
	(void)arg;
	*(struct event_times *)user = (struct event_times){ completed, time_ns };
}

static void on_failed(void *arg, void *user, uint32_t code)
{
	(void)arg;
	(void)user;
	failed_code = code;
}

static void on_drained(void *arg, void *user)
{
	(void)arg;
	((struct lane *)user)->drained++;
}

static void configure_gpu(uint64_t switch_ns)
{
	engine_gpu_set(e, 0,
		&(struct engine_gpu_config){ .slice_ns = SLICE,
			.switch_ns = switch_ns,
			.width = WIDTH,
			.host_mbps = 1000,
			.local_mbps = 100000 });
}

static int begin(void **state)
{
	static const struct engine_hooks hooks = { on_completed, on_host, on_recorded,
		on_failed, on_drained };

	(void)state;
	e = engine_new(1, &hooks, NULL);
	assert_non_null(e);
	now = 0;
	failed_code = 0;
	configure_gpu(SWITCH);
	return 0;
}

static int end(void **state)
{
	(void)state;
	e = engine_free(e);
	return 0;
}

/* Runs to @until, event by event, so that hooks see the time. */
static void run_until(uint64_t until)
{
	for (;;) {
		uint64_t next = engine_next(e);

		if (next > until)
			break;
		now = next > now ? next : now;
		engine_advance(e, now);
	}
	now = until;
	engine_advance(e, now);
}

static void open_lane(struct lane *l, struct engine_context *c)
{
	memset(l, 0, sizeof(*l));
	l->stream = engine_stream_new(c, 0, l);
	assert_non_null(l->stream);
}

static void submit_to_lane(struct lane *l, uint32_t kind, uint64_t amount, uint32_t width)
{
	assert_true(engine_submit(l->stream,
		&(struct engine_command){ .kind = kind, .amount = amount, .width = width },
		now));
}

static void submit_lane_kernel(struct lane *l, uint64_t ns, uint32_t width)
{
	submit_to_lane(l, SIM_DEVICE_KERNEL, ns, width);
}

static void stream__runs_in_order(void **state)
{
	struct engine_context *c = engine_context_new(e, 0, false, 0, NULL);
	struct lane l;

	(void)state;
	open_lane(&l, c);
	submit_lane_kernel(&l, 10 * US, 0);
	submit_lane_kernel(&l, 20 * US, 0);
	submit_to_lane(&l, SIM_DEVICE_COPY, 1000000,
		0); /* 1 ms at 1000 MB/s, and 2 us to begin */
	run_until(29 * US);
	assert_int_equal(l.done, 1);
	run_until(2 * MS);
	assert_int_equal(l.at[1], 10 * US);
	assert_int_equal(l.at[2], 30 * US);
	assert_int_equal(l.at[3], 32 * US + MS);
	assert_int_equal(engine_gpu_counters(e, 0).busy_ns, 30 * US);
	assert_int_equal(engine_context_busy_ns(c), 30 * US);
	assert_int_equal(engine_gpu_counters(e, 0).switches, 0);
	engine_context_free(c);
}

static void kernels__run_side_by_side_as_they_fit(void **state)
{
	struct engine_context *c = engine_context_new(e, 0, false, 0, NULL);
	struct lane l[3];

	(void)state;
	for (int i = 0; i < 3; i++) {
		open_lane(&l[i], c);
		submit_lane_kernel(&l[i], MS, 40);
	}
	run_until(3 * MS);
	assert_int_equal(l[0].at[1], MS);
	assert_int_equal(l[1].at[1], MS);
	assert_int_equal(l[2].at[1], 2 * MS);
	engine_context_free(c);
}

static void contexts__rotate_and_pay_for_the_switch(void **state)
{
	struct engine_context *c[2];
	struct engine_counters n;
	struct lane l[2];
	uint64_t a, b;

	(void)state;
	for (int i = 0; i < 2; i++) {
		c[i] = engine_context_new(e, 0, false, 0, NULL);
		open_lane(&l[i], c[i]);
		submit_lane_kernel(&l[i], 10000 * MS, 0);
	}
	run_until(1000 * MS);
	n = engine_gpu_counters(e, 0);
	a = engine_context_busy_ns(c[0]);
	b = engine_context_busy_ns(c[1]);
	/* All time is work or context switch. Both contexts have the same; 1024 of 1159 us are work. */
	assert_int_equal(a + b, n.busy_ns);
	assert_int_equal(n.busy_ns + n.switch_ns, 1000 * MS);
	assert_true(a >= b && a - b <= SLICE);
	assert_in_range(n.busy_ns, 883 * MS, 885 * MS);
	engine_context_free(c[0]);
	/* Alone, the context has all. */
	run_until(2000 * MS);
	assert_true(engine_context_busy_ns(c[1]) - b >= 998 * MS);
	engine_context_free(c[1]);
}

static void idle_contexts__are_skipped(void **state)
{
	struct engine_context *c[3];
	struct lane l[3];

	(void)state;
	for (int i = 0; i < 3; i++) {
		c[i] = engine_context_new(e, 0, false, 0, NULL);
		open_lane(&l[i], c[i]);
	}
	submit_lane_kernel(&l[1], 50 * MS, 0);
	run_until(50 * MS);
	assert_int_equal(l[1].at[1], 50 * MS); /* none before: no switch, no slice */
	submit_lane_kernel(&l[2], MS, 0);
	run_until(60 * MS);
	assert_int_equal(l[2].at[1], 51 * MS + SWITCH);
	submit_lane_kernel(&l[2], MS, 0);
	run_until(70 * MS);
	assert_int_equal(l[2].at[2], 61 * MS); /* the context is still on the GPU: no switch */
	for (int i = 0; i < 3; i++)
		engine_context_free(c[i]);
}

static void short_kernel__waits_for_time_slices_of_others_only(void **state)
{
	struct engine_context *c[4];
	struct lane l[4];

	(void)state;
	for (int i = 0; i < 4; i++) {
		c[i] = engine_context_new(e, 0, false, 0, NULL);
		open_lane(&l[i], c[i]);
		if (i < 3)
			submit_lane_kernel(&l[i], ENGINE_NEVER, 0);
	}
	run_until(100 * MS);
	submit_lane_kernel(&l[3], 100 * US, 0);
	run_until(200 * MS);
	assert_int_equal(l[3].done, 1);
	assert_in_range(l[3].at[1], 100 * MS, 100 * MS + 4 * (SLICE + SWITCH) + 100 * US);
	for (int i = 0; i < 4; i++)
		engine_context_free(c[i]);
}

/* Keeps two kernels in each stream until the time is over. */
static void saturate_lanes(struct lane *l, unsigned int n, uint64_t kernel_ns, uint64_t until)
{
	for (uint64_t t = 0; t < until; t += 100 * US) {
		for (unsigned int i = 0; i < n; i++)
			while (engine_stream_submitted(l[i].stream) -
					engine_stream_completed(l[i].stream) <
				8)
				submit_lane_kernel(&l[i], kernel_ns, 0);
		run_until(t);
	}
}

static void four_saturating_contexts__lose_the_time_that_an_h100_loses(void **state)
{
	struct engine_context *c[4];
	struct lane l[4];
	uint64_t sum = 0;

	(void)state;
	engine_gpu_set(e, 0,
		&(struct engine_gpu_config){ .slice_ns = 2048 * US,
			.switch_ns = 135 * US,
			.preempt_ns = 80 * US,
			.width = WIDTH,
			.host_mbps = 1000,
			.local_mbps = 100000 });
	for (int i = 0; i < 4; i++) {
		c[i] = engine_context_new(e, 0, false, 0, NULL);
		open_lane(&l[i], c[i]);
	}
	saturate_lanes(l, 4, 230 * US, 2000 * MS);
	for (int i = 0; i < 4; i++) {
		uint64_t done = engine_stream_completed(l[i].stream);

		sum += done;
		assert_in_range(done, 1940, 2000);
	}
	/* One context alone would do 8,696. */
	assert_in_range(sum, 8696 * 900 / 1000, 8696 * 910 / 1000);
	for (int i = 0; i < 4; i++)
		engine_context_free(c[i]);
}

/* A hand-over between kernels costs less than within a kernel. The engine does not wait for a dead context. */
static void hand_over__costs_as_much_as_it_interrupts(void **state)
{
	struct engine_context *c[3];
	struct lane l[3];

	(void)state;
	engine_gpu_set(e, 0,
		&(struct engine_gpu_config){ .slice_ns = SLICE,
			.switch_ns = 135 * US,
			.preempt_ns = 80 * US,
			.width = WIDTH,
			.host_mbps = 1000,
			.local_mbps = 100000 });
	for (int i = 0; i < 3; i++) {
		c[i] = engine_context_new(e, 0, false, 0, NULL);
		open_lane(&l[i], c[i]);
	}
	submit_lane_kernel(&l[0], 500 * US, 0);
	submit_lane_kernel(&l[1], 500 * US, 0);
	run_until(10 * MS);
	assert_int_equal(l[1].at[1], 1000 * US + 135 * US);
	submit_lane_kernel(&l[1], ENGINE_NEVER, 0);
	submit_lane_kernel(&l[2], 500 * US, 0);
	run_until(20 * MS);
	/* The other context's time slice was over long before the new context had work. */
	assert_in_range(l[2].at[1], 10 * MS + 500 * US + 215 * US,
		10 * MS + SLICE + 500 * US + 215 * US);
	submit_lane_kernel(&l[0], 500 * US, 0);
	engine_context_free(c[1]); /* killed with a kernel that never ends */
	run_until(30 * MS);
	assert_in_range(l[0].at[2], 20 * MS + 500 * US, 20 * MS + 500 * US + 350 * US);
	engine_context_free(c[0]);
	engine_context_free(c[2]);
}

static void mps__runs_contexts_side_by_side(void **state)
{
	struct engine_context *c[2];
	struct lane l[2];

	(void)state;
	for (int i = 0; i < 2; i++) {
		c[i] = engine_context_new(e, 0, true, 50, NULL);
		open_lane(&l[i], c[i]);
		submit_lane_kernel(&l[i], 10 * MS,
			0); /* of all multiprocessors, on half of them */
	}
	run_until(100 * MS);
	assert_int_equal(l[0].at[1], 20 * MS);
	assert_int_equal(l[1].at[1], 20 * MS);
	assert_int_equal(engine_gpu_counters(e, 0).switches, 0);
	for (int i = 0; i < 2; i++)
		engine_context_free(c[i]);
}

static void full_share__does_not_delay_others(void **state)
{
	struct engine_context *c[2];
	struct lane l[3];

	(void)state;
	c[0] = engine_context_new(e, 0, true, 25, NULL);
	c[1] = engine_context_new(e, 0, true, 0, NULL);
	open_lane(&l[0], c[0]);
	open_lane(&l[1], c[0]);
	open_lane(&l[2], c[1]);
	submit_lane_kernel(&l[0], MS, 25);
	submit_lane_kernel(&l[1], MS, 25);
	submit_lane_kernel(&l[2], MS, 75);
	run_until(10 * MS);
	assert_int_equal(l[0].at[1], MS);
	assert_int_equal(l[1].at[1], 2 * MS);
	assert_int_equal(l[2].at[1], MS);
	for (int i = 0; i < 2; i++)
		engine_context_free(c[i]);
}

/* Clients of a server: with shares side by side, in the order of their priorities. */
static void mps__clients_join_their_server(void **state)
{
	struct engine_context *server = engine_context_new(e, 0, false, 0, NULL);
	struct engine_context *c[3];
	struct lane l[4];

	(void)state;
	c[0] = engine_context_join(server, WIDTH / 4, 0, NULL);
	c[1] = engine_context_join(server, 0, -1, NULL);
	c[2] = engine_context_join(server, 0, 0, NULL);
	for (int i = 0; i < 3; i++)
		open_lane(&l[i], c[i]);
	submit_lane_kernel(&l[0], MS, 0); /* of all, on a quarter */
	run_until(10 * MS);
	assert_int_equal(l[0].at[1], 4 * MS);
	submit_lane_kernel(&l[2], MS, 0);
	open_lane(&l[3], c[2]);
	submit_lane_kernel(&l[1], MS, 0); /* came before, has a lower priority */
	submit_lane_kernel(&l[3], MS, 0);
	run_until(20 * MS);
	assert_int_equal(l[2].at[1], 11 * MS);
	assert_int_equal(l[3].at[1], 12 * MS);
	assert_int_equal(l[1].at[1], 13 * MS);
	assert_int_equal(engine_gpu_counters(e, 0).switches, 0);
	for (int i = 0; i < 3; i++)
		engine_context_free(c[i]);
	engine_context_free(server);
}

static unsigned failed_count;

static void count_failed(void *arg, void *user, uint32_t code)
{
	(void)arg;
	(void)user;
	failed_code = code;
	failed_count++;
}

static void mps__fault_affects_all_clients(void **state)
{
	static const struct engine_hooks hooks = { on_completed, on_host, on_recorded,
		count_failed, on_drained };
	struct engine_context *server, *c[3], *other;
	struct lane l[4];

	(void)state;
	e = engine_free(e);
	e = engine_new(1, &hooks, NULL);
	assert_non_null(e);
	configure_gpu(0);
	failed_count = 0;
	server = engine_context_new(e, 0, false, 0, NULL);
	other = engine_context_new(e, 0, false, 0, NULL);
	for (int i = 0; i < 3; i++) {
		c[i] = engine_context_join(server, 0, 0, NULL);
		open_lane(&l[i], c[i]);
	}
	open_lane(&l[3], other);
	engine_context_fail(c[2], 810); /* ended by its server: alone */
	assert_int_equal(failed_count, 1);
	submit_lane_kernel(&l[0], ENGINE_NEVER, WIDTH / 2);
	submit_lane_kernel(&l[3], MS, 0);
	assert_true(engine_submit(l[1].stream,
		&(struct engine_command){ .kind = SIM_DEVICE_KERNEL,
			.amount = MS,
			.width = WIDTH / 2,
			.fail = 700 },
		now));
	run_until(100 * MS);
	assert_int_equal(failed_code, 700);
	assert_int_equal(failed_count, 4); /* two clients and the server */
	assert_int_equal(l[0].done, 1);
	assert_int_equal(l[3].done, 1);
	submit_lane_kernel(&l[3], MS, 0);
	run_until(200 * MS);
	assert_int_equal(l[3].done, 2);
	for (int i = 0; i < 3; i++)
		engine_context_free(c[i]);
	engine_context_free(other);
	engine_context_free(server);
}

/* Narrow kernels that come after a wide kernel do not starve it, of whatever context. */
static void full_gpu__serves_kernels_in_order(void **state)
{
	struct engine_context *c[3];
	struct lane l[3];

	(void)state;
	for (int i = 0; i < 3; i++) {
		c[i] = engine_context_new(e, 0, true, 0, NULL);
		open_lane(&l[i], c[i]);
		submit_lane_kernel(&l[i], MS, i == 1 ? 80 : 30);
	}
	run_until(10 * MS);
	assert_int_equal(l[0].at[1], MS);
	assert_int_equal(l[1].at[1], 2 * MS);
	assert_int_equal(l[2].at[1], 3 * MS);
	for (int i = 0; i < 3; i++)
		engine_context_free(c[i]);
}

static void priority__goes_first(void **state)
{
	struct engine_context *c = engine_context_new(e, 0, false, 0, NULL);
	struct lane l[3];

	(void)state;
	for (int i = 0; i < 3; i++)
		open_lane(&l[i], c);
	engine_stream_free(l[2].stream);
	l[2].stream = engine_stream_new(c, 1, &l[2]);
	for (int i = 0; i < 3; i++)
		submit_lane_kernel(&l[i], MS, 0);
	run_until(10 * MS);
	assert_int_equal(l[0].at[1], MS);
	assert_int_equal(l[2].at[1], 2 * MS);
	assert_int_equal(l[1].at[1], 3 * MS);
	assert_int_equal(l[2].drained, 1);
	engine_context_free(c);
}

static void events__order_streams(void **state)
{
	struct engine_context *c = engine_context_new(e, 0, false, 0, NULL);
	struct event_times t = { 0, 0 };
	struct engine_event *event = engine_event_new(e, &t);
	struct engine_command record = { .kind = SIM_DEVICE_RECORD, .event = event };
	struct engine_command wait = { .kind = SIM_DEVICE_WAIT_EVENT, .event = event };
	struct lane l[2];

	(void)state;
	open_lane(&l[0], c);
	open_lane(&l[1], c);
	assert_true(engine_submit(l[1].stream, &wait, now)); /* never recorded: no wait */
	submit_lane_kernel(&l[0], 5 * MS, 10);
	assert_true(engine_submit(l[0].stream, &record, now));
	assert_true(engine_submit(l[1].stream, &wait, now));
	submit_lane_kernel(&l[1], MS, 10);
	assert_int_equal(l[1].done, 1);
	engine_event_free(event); /* the recorded work still counts for the wait */
	run_until(10 * MS);
	assert_int_equal(l[1].at[2], 5 * MS);
	assert_int_equal(l[1].at[3], 6 * MS);
	assert_int_equal(t.recorded, 0); /* its owner gets no report any more */

	event = engine_event_new(e, &t);
	record.event = event;
	submit_lane_kernel(&l[0], MS, 10);
	assert_true(engine_submit(l[0].stream, &record, now));
	run_until(20 * MS);
	assert_int_equal(t.recorded, 1);
	assert_int_equal(t.time_ns, 11 * MS);
	engine_event_free(event);
	engine_context_free(c);
}

static void stream__waits_for_another_and_for_the_host(void **state)
{
	struct engine_context *c = engine_context_new(e, 0, false, 0, NULL);
	struct lane l[2];

	(void)state;
	open_lane(&l[0], c);
	open_lane(&l[1], c);
	submit_lane_kernel(&l[0], MS, 10);
	submit_to_lane(&l[0], SIM_DEVICE_HOST, 0, 0);
	assert_true(engine_submit(l[1].stream,
		&(struct engine_command){ .kind = SIM_DEVICE_WAIT_STREAM,
			.stream = l[0].stream,
			.amount = 2 },
		now));
	run_until(5 * MS);
	assert_int_equal(l[0].host, 2);
	assert_int_equal(l[0].done, 1);
	assert_int_equal(l[1].done, 0);
	assert_false(engine_host_done(l[0].stream, 1, now));
	assert_true(engine_host_done(l[0].stream, 2, now));
	assert_int_equal(l[0].done, 2);
	assert_int_equal(l[1].done, 1);
	/* A stream that waits for a freed stream continues. */
	submit_to_lane(&l[0], SIM_DEVICE_HOST, 0, 0);
	assert_true(engine_submit(l[1].stream,
		&(struct engine_command){ .kind = SIM_DEVICE_WAIT_STREAM,
			.stream = l[0].stream,
			.amount = 9 },
		now));
	engine_stream_free(l[0].stream);
	assert_int_equal(l[0].drained, 0);
	assert_true(engine_host_done(l[0].stream, 3, now));
	assert_int_equal(l[0].drained, 1);
	assert_int_equal(l[1].done, 2);
	engine_context_free(c);
}

static void fault__ends_its_context_only(void **state)
{
	struct engine_context *c[2];
	struct lane l[3];

	(void)state;
	for (int i = 0; i < 2; i++)
		c[i] = engine_context_new(e, 0, false, 0, NULL);
	open_lane(&l[0], c[0]);
	open_lane(&l[1], c[0]);
	open_lane(&l[2], c[1]);
	submit_lane_kernel(&l[2], 3 * MS, 0);
	assert_true(engine_submit(l[0].stream,
		&(struct engine_command){ .kind = SIM_DEVICE_KERNEL,
			.amount = MS,
			.width = 50,
			.fail = 700 },
		now));
	submit_lane_kernel(&l[0], MS, 50);
	submit_to_lane(&l[1], SIM_DEVICE_COPY, 1 << 30, 0);
	run_until(10 * MS);
	assert_int_equal(failed_code, 700);
	assert_int_equal(l[0].done, 2);
	assert_int_equal(l[1].done, 1);
	assert_int_equal(l[2].done, 1);
	submit_lane_kernel(&l[0], MS, 0); /* sticky: done at once */
	assert_int_equal(l[0].done, 3);
	for (int i = 0; i < 2; i++)
		engine_context_free(c[i]);
}

static void copies__share_an_engine_and_survive_a_killed_context(void **state)
{
	struct engine_context *c[2];
	struct lane l[3];

	(void)state;
	configure_gpu(SWITCH);
	for (int i = 0; i < 2; i++)
		c[i] = engine_context_new(e, 0, false, 0, NULL);
	open_lane(&l[0], c[0]);
	open_lane(&l[1], c[1]);
	open_lane(&l[2], c[1]);
	submit_to_lane(&l[0], SIM_DEVICE_COPY, 10000000, 0);
	submit_to_lane(&l[1], SIM_DEVICE_COPY, 1000000, 0);
	assert_true(engine_submit(l[2].stream,
		&(struct engine_command){ .kind = SIM_DEVICE_COPY,
			.object = SIM_DEVICE_FROM_GPU,
			.amount = 1000000 },
		now));
	run_until(3 * MS);
	assert_int_equal(l[2].at[1], MS + 2 * US); /* another direction */
	assert_int_equal(l[1].done, 0);
	engine_context_free(c[0]);
	run_until(10 * MS);
	assert_int_equal(l[1].at[1], 4 * MS + 2 * US);
	engine_context_free(c[1]);
}

static void queue__has_a_limit(void **state)
{
	struct engine_context *c = engine_context_new(e, 0, false, 0, NULL);
	struct lane l;

	(void)state;
	open_lane(&l, c);
	submit_lane_kernel(&l, ENGINE_NEVER, 0);
	for (int i = 1; i < SIM_DEVICE_QUEUE_MAX; i++)
		submit_lane_kernel(&l, 1, 0);
	assert_false(engine_submit(l.stream,
		&(struct engine_command){ .kind = SIM_DEVICE_KERNEL }, now));
	engine_context_free(c);
}

/* All time is work, switch or idle, never twice, for any work. All work that can end does. */
static void random_work__adds_up(void **state)
{
	enum { CONTEXTS = 5, LANES = 20 };
	struct engine_context *c[CONTEXTS];
	struct lane l[LANES];
	uint64_t seed = 42, work[CONTEXTS] = { 0 }, sum = 0;
	struct engine_counters n;

	(void)state;
	for (int i = 0; i < CONTEXTS; i++)
		c[i] = engine_context_new(e, 0, false, 0, NULL);
	for (int i = 0; i < LANES; i++)
		open_lane(&l[i], c[i % CONTEXTS]);
	for (int i = 0; i < 5000; i++) {
		uint64_t r = seed = seed * 6364136223846793005U + 1442695040888963407U;
		struct lane *x = &l[(r >> 33) % LANES];
		uint64_t ns = (r >> 40) % (300 * US);

		if (engine_stream_submitted(x->stream) - x->done < 100) {
			submit_lane_kernel(x, ns, 0);
			work[((size_t)(x - l)) % CONTEXTS] += ns;
		}
		run_until(now + (r >> 20) % (100 * US));
	}
	run_until(now + 10000 * MS);
	n = engine_gpu_counters(e, 0);
	for (int i = 0; i < CONTEXTS; i++) {
		assert_int_equal(engine_context_busy_ns(c[i]), work[i]);
		sum += work[i];
	}
	assert_int_equal(n.busy_ns, sum);
	assert_int_equal(n.switch_ns, n.switches * SWITCH);
	for (int i = 0; i < LANES; i++)
		assert_int_equal(l[i].done, engine_stream_submitted(l[i].stream));
	assert_int_equal(engine_next(e), ENGINE_NEVER);
	for (int i = 0; i < CONTEXTS; i++)
		engine_context_free(c[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(stream__runs_in_order, begin, end),
		cmocka_unit_test_setup_teardown(kernels__run_side_by_side_as_they_fit, begin,
			end),
		cmocka_unit_test_setup_teardown(contexts__rotate_and_pay_for_the_switch, begin,
			end),
		cmocka_unit_test_setup_teardown(idle_contexts__are_skipped, begin, end),
		cmocka_unit_test_setup_teardown(
			short_kernel__waits_for_time_slices_of_others_only, begin, end),
		cmocka_unit_test_setup_teardown(
			four_saturating_contexts__lose_the_time_that_an_h100_loses, begin, end),
		cmocka_unit_test_setup_teardown(hand_over__costs_as_much_as_it_interrupts,
			begin, end),
		cmocka_unit_test_setup_teardown(mps__runs_contexts_side_by_side, begin, end),
		cmocka_unit_test_setup_teardown(full_share__does_not_delay_others, begin, end),
		cmocka_unit_test_setup_teardown(mps__clients_join_their_server, begin, end),
		cmocka_unit_test_setup_teardown(mps__fault_affects_all_clients, begin, end),
		cmocka_unit_test_setup_teardown(full_gpu__serves_kernels_in_order, begin, end),
		cmocka_unit_test_setup_teardown(priority__goes_first, begin, end),
		cmocka_unit_test_setup_teardown(events__order_streams, begin, end),
		cmocka_unit_test_setup_teardown(stream__waits_for_another_and_for_the_host,
			begin, end),
		cmocka_unit_test_setup_teardown(fault__ends_its_context_only, begin, end),
		cmocka_unit_test_setup_teardown(
			copies__share_an_engine_and_survive_a_killed_context, begin, end),
		cmocka_unit_test_setup_teardown(queue__has_a_limit, begin, end),
		cmocka_unit_test_setup_teardown(random_work__adds_up, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
