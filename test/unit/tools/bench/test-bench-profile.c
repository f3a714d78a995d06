/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/tools/bench/bench-world.h"
#include "support/test.h"

#include "tools/bench/run/observe.h"
#include "tools/bench/run/slice-watch.h"
#include "tools/bench/profile/profile.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MS UINT64_C(1000000)
#define US UINT64_C(1000)

static bool close_to(double a, double b, double by)
{
	return fabs(a - b) <= by;
}

#define CLOSE(a, b, by)                                                                  \
	do                                                                               \
		if (!close_to((a), (b), (by)))                                           \
			fail_msg("%s is %g, expected %g", #a, (double)(a), (double)(b)); \
	while (0)

/* --- steps --- */

/* A program: a head, some equal layers, a tail; a launch each 10 us, and a wait at the end of a step. */
struct program {
	unsigned int head, layers, each, tail;
	uint64_t wait_ns;
	unsigned int noise; /* each so-many-th launch is another one */
};

static struct profile_launch *launches_of(const struct program *p, unsigned int steps,
	size_t *n)
{
	size_t of_step = p->head + (size_t)p->layers * p->each + p->tail, at = 0;
	struct profile_launch *l = calloc(of_step * steps, sizeof(*l));
	uint64_t now = 1000 * MS;

	assert_non_null(l);
	for (unsigned int s = 0; s < steps; s++, now += p->wait_ns)
		for (size_t i = 0; i < of_step; i++, at++, now += 10 * US) {
			size_t k = i - p->head;

			l[at].at_ns = now;
			l[at].kind = (uint32_t)(i < p->head             ? 100 + i
						: i < of_step - p->tail ? 1000 + k % p->each
									: 5000 + i);
			if (p->noise && at % p->noise == p->noise - 1)
				l[at].kind = (uint32_t)at;
		}
	*n = at;
	return l;
}

static void steps__are_the_shortest_repeated_sequence(void **state)
{
	static const struct {
		struct program p;
		unsigned int steps;
		size_t launches;
	} rows[] = {
		{ { 3, 12, 20, 5, 0, 0 }, 40, 248 },   /* layers are not steps */
		{ { 1, 96, 12, 1, 0, 0 }, 12, 1154 },  /* nor if there are many */
		{ { 0, 1, 1, 0, 0, 0 }, 500, 1 },      /* one kernel, again and again */
		{ { 3, 12, 20, 5, 0, 211 }, 40, 248 }, /* now and then another one */
		{ { 0, 4, 10, 0, 300 * US, 0 }, 200,
			40 }, /* only layers: a wait marks the step */
		{ { 999, 0, 1, 1, 0, 0 }, 12, 1000 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		size_t n, of_step;
		struct profile_launch *l = launches_of(&rows[i].p, rows[i].steps, &n);
		struct profile_steps s = profile_steps_find(l, n);

		free(l);
		if (s.launches != rows[i].launches)
			fail_msg("row %zu: %zu launches, expected %zu", i, s.launches,
				rows[i].launches);
		of_step = rows[i].launches;
		CLOSE(s.mean_s, (double)(of_step * 10 * US + rows[i].p.wait_ns) / 1e9, 1e-7);
		CLOSE(s.span_s, (double)((of_step - 1) * 10 * US) / 1e9, 1e-7);
		assert_true(s.n >= rows[i].steps / 2 || n > 10000);
		CLOSE(s.cv, 0, 1e-3);
	}
}

static void steps__are_not_found_without_repetition(void **state)
{
	struct profile_launch l[4000];
	uint64_t z = 1;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(l); i++) {
		z = z * UINT64_C(6364136223846793005) + 1442695040888963407;
		l[i] = (struct profile_launch){ i * 10 * US, (uint32_t)(z >> 40) % 97 };
	}
	assert_int_equal(profile_steps_find(l, ARRAY_LEN(l)).launches, 0);
	assert_int_equal(profile_steps_find(l, 3).launches, 0);
	assert_int_equal(profile_steps_find(l, 0).launches, 0);
	/* Entries of several threads may be out of order by their clocks. */
	for (size_t i = 0; i < ARRAY_LEN(l); i++)
		l[i] = (struct profile_launch){ (i ^ 1) * 10 * US, (uint32_t)(i % 4) };
	assert_int_equal(profile_steps_find(l, ARRAY_LEN(l)).launches % 4, 0);
}

/* --- fewer multiprocessors --- */

static void utilization__follows_amdahls_law(void **state)
{
	struct profile_point p[] = { { 0.5, 1.4, 0 }, { 0.25, 2.2, 0 } };

	(void)state;
	CLOSE(profile_fit_u(p, 2), 0.4, 1e-9);
	CLOSE(profile_fit_u(p, 1), 0.4, 1e-9); /* T(50) / T(100) - 1 */
	p[0].stretch = 0.99;
	CLOSE(profile_fit_u(p, 1), 0, 1e-9);
	p[0].stretch = 9;
	CLOSE(profile_fit_u(p, 1), 1, 1e-9);
	assert_true(isnan(profile_fit_u(p, 0)));
}

/* --- a profile from what was measured --- */

#define PROFILE_SAMPLE_COUNT 21

struct world {
	struct bench_result r;
	struct profile_window w[4];
	struct noise noise;
};

/* 100 launches of a step, of which @stretch says how long they take, as 10 ms alone; busy for 80 % of that. */
static void fill_window(struct profile_window *w, enum bench_mode m, double share,
	double stretch)
{
	*w = (struct profile_window){ .mode = m,
		.sm_share = share,
		.n_samples = PROFILE_SAMPLE_COUNT };
	w->samples = calloc(PROFILE_SAMPLE_COUNT, sizeof(*w->samples));
	assert_non_null(w->samples);
	for (unsigned int i = 0; i < PROFILE_SAMPLE_COUNT; i++)
		w->samples[i] = (struct profile_sample){ .at_ns = i * 100 * MS,
			.charged_ns = i * 80 * MS,
			.launches = (uint64_t)(i * 900 / stretch),
			.copies = (uint64_t)(i * 100 / stretch),
			.used = UINT64_C(3) << 30,
			.peak = UINT64_C(3) << 30,
			.overhead = UINT64_C(512) << 20,
			.overhead_known = true };
	w->n_launches = 2000;
	w->launches = calloc(w->n_launches, sizeof(*w->launches));
	assert_non_null(w->launches);
	for (unsigned int i = 0; i < w->n_launches; i++)
		w->launches[i] = (struct profile_launch){ i * 100 * US, i % 100 };
}

static void fill_test_row(struct world *w, size_t i, enum bench_mode m, double share,
	double mean_ns)
{
	struct bench_row *row = &w->r.rows[i];

	w->noise.mean_ns = mean_ns;
	noise_row(row, &w->noise, m, 1);
	row->sm_share = share;
	for (size_t k = 0; k < row->n; k++)
		row->runs[k].gpu = (struct bench_gpu){ 0.8, 0.6, 0.2, 3000, 400, 1900 };
}

static void world_init(struct world *w)
{
	*w = (struct world){ .noise = { .state = 1,
				     .within = 0.01,
				     .between = 0.001,
				     .runs = 3,
				     .blocks = 20,
				     .units = 50 } };
	w->r.rows = calloc(5, sizeof(*w->r.rows));
	assert_non_null(w->r.rows);
	w->r.n_rows = 5;
	w->r.head.gpu = "NVIDIA H100 80GB HBM3";
	fill_test_row(w, 0, BENCH_EXCLUSIVE, NAN, 10e6);
	fill_test_row(w, 1, BENCH_FAIR_SHARE, NAN, 10.2e6);
	fill_test_row(w, 2, BENCH_MPS_LIMITED, 1, 10e6);
	fill_test_row(w, 3, BENCH_MPS_LIMITED, 0.5, 13e6);
	fill_test_row(w, 4, BENCH_MPS_LIMITED, 0.25, 19e6);
	fill_window(&w->w[0], BENCH_FAIR_SHARE, 1, 1);
	fill_window(&w->w[1], BENCH_MPS_LIMITED, 1, 1);
	fill_window(&w->w[2], BENCH_MPS_LIMITED, 0.5, 1.3);
	fill_window(&w->w[3], BENCH_MPS_LIMITED, 0.25, 1.9);
}

static void world_fini(struct world *w)
{
	for (size_t i = 0; i < ARRAY_LEN(w->w); i++)
		profile_window_fini(&w->w[i]);
	bench_result_fini(&w->r);
}

static struct profile make(struct world *w, bool open, bool silent)
{
	const struct profile_facts f = { "train", open ? "inference-open" : "train", open,
		silent, /* intervals= */ true, &w->r, w->w, ARRAY_LEN(w->w) };
	struct error err = ERROR_INIT;
	struct profile p;

	if (profile_make(&p, &f, &err) < 0)
		fail_msg("%s", err.msg);
	return p;
}

static void profile__of_a_program_that_prints_its_steps(void **state)
{
	struct world w;
	struct profile p;

	(void)state;
	world_init(&w);
	p = make(&w, false, false);
	CLOSE(p.t_solo.v, 0.010, 1e-4);
	assert_true(p.t_solo.half > 0 && p.t_solo.half < 0.02);
	CLOSE(p.busy.v, 0.8, 1e-9);
	CLOSE(p.u.v, 0.3, 0.01);
	assert_int_equal(p.u.origin, PROFILE_MEASURED);
	CLOSE(p.u_bw.v, 0.25, 1e-9); /* 0.2 / 0.8 */
	assert_int_equal(p.u_bw.origin, PROFILE_DERIVED);
	CLOSE(p.mem_peak_mib.v, 2560, 1e-9);
	CLOSE(p.context_mib.v, 512, 1e-9);
	CLOSE(p.launches.v, 10000, 1);
	CLOSE(p.burst.v, 1, 1e-9);
	CLOSE(p.overhead.v, 0.02, 0.005);
	assert_true(isnan(p.rate.v) && isnan(p.arrival_cv.v));
	assert_int_equal(p.steps.launches, 100);
	assert_int_equal(p.n_points, 2);
	CLOSE(p.points[1].fitted, 1.9, 0.05);
	assert_string_equal(p.problem, "");
	world_fini(&w);
}

static void profile__of_a_program_without_output_uses_its_launches(void **state)
{
	struct world w;
	struct profile p;

	(void)state;
	world_init(&w);
	p = make(&w, false, true);
	CLOSE(p.t_solo.v, 0.010, 1e-6); /* 100 launches at 10,000 a second */
	CLOSE(p.u.v, 0.3, 0.01);
	assert_true(isnan(p.overhead.v));
	/* An open program that launches less often has fewer requests a second. */
	p = make(&w, true, true);
	assert_true(isnan(p.u.v));
	CLOSE(p.rate.v, 100, 0.1);
	CLOSE(p.t_solo.v, 0.0099, 1e-4);
	assert_int_equal(p.t_solo.origin, PROFILE_DERIVED);
	assert_int_equal(p.n_points, 0);
	/* The lines of an open program do not show how long a request took: they come as requests do. */
	p = make(&w, true, false);
	assert_true(isnan(p.u.v) && isnan(p.overhead.v));
	CLOSE(p.t_solo.v, 0.0099, 1e-4);
	CLOSE(p.rate.v, 100, 1);
	/* No kind of launch repeats. */
	for (size_t i = 0; i < w.w[0].n_launches; i++)
		w.w[0].launches[i].kind = (uint32_t)i;
	p = make(&w, false, true);
	assert_true(isnan(p.t_solo.v));
	assert_string_equal(p.t_solo.how,
		"no steps were found in what it launches: give --pattern");
	CLOSE(p.u.v, 0.3, 0.01);
	world_fini(&w);
}

static void profile__reports_unmeasured_figures(void **state)
{
	struct world w;
	struct profile p;

	(void)state;
	world_init(&w);
	for (size_t i = 2; i < 5; i++)
		for (size_t k = 0; k < w.r.rows[i].n; k++) {
			w.r.rows[i].runs[k].errors = 1;
			w.r.rows[i].runs[k].error = "no MPS here";
		}
	for (size_t i = 1; i < 4; i++)
		w.w[i].n_samples = 0;
	for (size_t k = 0; k < w.r.rows[0].n; k++)
		w.r.rows[0].runs[k].gpu = (struct bench_gpu){ NAN, NAN, NAN, NAN, NAN, NAN };
	p = make(&w, false, false);
	assert_true(isnan(p.u.v) && isnan(p.u_bw.v) && isnan(p.sm_active.v));
	CLOSE(p.busy.v, 0.8, 1e-9); /* as the runtime counts it */
	assert_string_equal(p.problem, "no MPS here");
	world_fini(&w);
}

static void profile__is_written_for_the_planner(void **state)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(1 << 16);
	struct world w;
	struct profile p;

	(void)state;
	world_init(&w);
	p = make(&w, false, false);
	p.gpu = "H100-SXM5-80GB";
	profile_write(&b, &p, "made by hand\nof \033[1mtwo lines");
	assert_true(buf_ok(&b));
	assert_non_null(strstr(buf_str(&b),
		"# made by hand\n# of  [1mtwo lines\nversion: gpuslice/plan/v1\n"));
	assert_non_null(strstr(buf_str(&b), "- name: \"train\"\n  kind: train\n"));
	assert_non_null(strstr(buf_str(&b), "  gpu_ref: H100-SXM5-80GB\n"));
	assert_non_null(strstr(buf_str(&b), "  busy: 0.8 "));
	assert_non_null(strstr(buf_str(&b), "  u_bw: {value: 0.25, origin: derived}"));
	assert_null(strstr(buf_str(&b), "rate"));
	assert_null(strstr(buf_str(&b), "disturbed"));
	w.r.rows[0].runs[0].doubt = "host too busy: so";
	p = make(&w, false, false);
	profile_write(&b, &p, "");
	assert_non_null(strstr(buf_str(&b), "\n  disturbed: \"host too busy: so\"\n"));
	world_fini(&w);
}

/* --- shares by others --- */

static void status__of_the_arbiter_is_read(void **state)
{
	static const char text[] =
		"{\"op\": \"status\", \"slices\": [{\"gpus\": [{\"charged_ns\": 5, \"launches\": 7, \"copies\": 2, "
		"\"bytes\": 9, \"used\": 100, \"peak\": 200, \"later\": 1}], \"processes\": [{\"gpus\": [{\"overhead\": "
		"30}]}, {\"gpus\": [{\"overhead\": 12}, {}]}]}]}";
	static const char *const none[] = { "", "{}", "[]", "{\"slices\": []}",
		"{\"slices\": [{\"gpus\": []}]}", "{\"slices\": 1}",
		"{\"slices\": [{\"gpus\": [1]}]}" };
	struct profile_sample sample;

	(void)state;
	assert_true(watch_parse_status(&sample, text, strlen(text)));
	assert_int_equal(sample.charged_ns, 5);
	assert_int_equal(sample.launches + sample.copies, 9);
	assert_int_equal(sample.peak, 200);
	assert_int_equal(sample.overhead, 42);
	assert_true(sample.overhead_known);
	for (size_t i = 0; i < ARRAY_LEN(none); i++)
		assert_false(watch_parse_status(&sample, none[i], strlen(none[i])));
}

static void pods__are_found_by_their_cgroups(void **state)
{
	static const char uid[] = "0bf4ee08-9f4b-4a1c-a0b1-3e0d6c6a2f11";

	(void)state;
	assert_true(observation_is_pod(
		"0::/kubepods/burstable/pod0bf4ee08-9f4b-4a1c-a0b1-3e0d6c6a2f11/abc\n", uid));
	assert_true(observation_is_pod(
		"0::/kubepods.slice/kubepods-pod0bf4ee08_9f4b_4a1c_a0b1_3e0d6c6a2f11.slice\n",
		uid));
	assert_false(observation_is_pod("0::/user.slice\n", uid));
	assert_false(observation_is_pod("0::/\n", ""));
	assert_false(observation_is_pod("0::/short\n", "short"));
}

static void outside_shares__are_reported_only_of_a_single_process(void **state)
{
	struct bench_observation o = { .n = 4,
		.processes = 1,
		.alone = true,
		.busy = 0.5,
		.busiest = 0.8,
		.sm_active = 0.3,
		.dram = 0.1,
		.peak_bytes = UINT64_C(1) << 30 };
	struct profile p;

	(void)state;
	observation_write_profile(&p, &o, "server", "inference-open");
	CLOSE(p.busy.v, 0.5, 1e-9);
	CLOSE(p.sm_active.v, 0.3, 1e-9);
	CLOSE(p.mem_peak_mib.v, 1024, 1e-9);
	CLOSE(p.burst.v, 1.6, 1e-9);
	assert_true(isnan(p.t_solo.v));
	o.alone = false;
	observation_write_profile(&p, &o, "server", "inference-open");
	assert_true(isnan(p.sm_active.v) && isnan(p.dram.v));
	assert_int_equal(p.busy.origin, PROFILE_DERIVED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(steps__are_the_shortest_repeated_sequence),
		cmocka_unit_test(steps__are_not_found_without_repetition),
		cmocka_unit_test(utilization__follows_amdahls_law),
		cmocka_unit_test(profile__of_a_program_that_prints_its_steps),
		cmocka_unit_test(profile__of_a_program_without_output_uses_its_launches),
		cmocka_unit_test(profile__reports_unmeasured_figures),
		cmocka_unit_test(profile__is_written_for_the_planner),
		cmocka_unit_test(status__of_the_arbiter_is_read),
		cmocka_unit_test(pods__are_found_by_their_cgroups),
		cmocka_unit_test(outside_shares__are_reported_only_of_a_single_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
