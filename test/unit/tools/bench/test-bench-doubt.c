/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "lib/base/time.h"
#include "tools/bench/run/doubt.h"
#include "tools/bench/run/host.h"

#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define DOUBT_TIMEOUT_NS (20 * NS_PER_SEC)

static void doubt_text__omits_unknown_figures_and_those_within_bounds(void **state)
{
	struct doubt_facts f = doubt_unknown();
	char text[DOUBT_TEXT_MAX];

	(void)state;
	doubt_text(text, &f);
	assert_string_equal(text, "");
	f.waited = DOUBT_WAITED_MAX;
	f.slowed[DOUBT_BASE] = DOUBT_SLOWED_MAX;
	f.reasons = 0x1 | 0x2 |
		    0x4; /* idle, application clocks, the power limit, which has a counter */
	f.busy = 1;
	f.clock_from_mhz = 1980;
	f.clock_to_mhz = 1900;
	doubt_text(text, &f);
	assert_string_equal(text, "");
}

static void doubt_text__names_each_disturbance_with_its_figure(void **state)
{
	struct doubt_facts f = doubt_unknown();
	char text[DOUBT_TEXT_MAX];

	(void)state;
	f.waited = 0.34;
	doubt_text(text, &f);
	assert_string_equal(text,
		"host too busy: a thread waited for a CPU for 34 % of the time (limit 5 %)");
	f.waited = 0.0504;
	doubt_text(text, &f);
	assert_string_equal(text,
		"host too busy: a thread waited for a CPU for 5.04 % of the time (limit 5 %)");
	f.waited = NAN;
	f.slowed[DOUBT_THERMAL] = 0.2;
	f.reasons = 0x20;
	f.others = 1;
	doubt_text(text, &f);
	assert_string_equal(text,
		"the GPU was slowed down by its temperature for 20 % of the time (limit 10 %); "
		"the GPU reports software thermal slowdown; 1 other process used the GPU");
	f = doubt_unknown();
	f.slowed[DOUBT_BASE] = 0.19;
	doubt_text(text, &f);
	assert_non_null(strstr(text, "host too busy"));
	assert_non_null(strstr(text, "for 19 % of the time"));
}

static void doubt_others__are_unknown_where_nvml_omits_them_or_lists_more(void **state)
{
	(void)state;
	assert_true(doubt_others(3, 0, 2, BENCH_FAIR_SHARE) == 1);
	assert_true(doubt_others(2, 0, 2, BENCH_FAIR_SHARE) == 0);
	assert_true(doubt_others(1, 0, 2, BENCH_FAIR_SHARE) == 0); /* one has ended */
	assert_true(isnan(doubt_others(NAN, NAN, 2, BENCH_FAIR_SHARE)));
	assert_true(isnan(doubt_others(3, 0, 2, BENCH_MPS)));
	assert_true(isnan(doubt_others(3, 0, DOUBT_UNCOUNTED, BENCH_FAIR_SHARE)));
}

static void doubt_others__are_earlier_processes_where_ours_are_unknown(void **state)
{
	(void)state;
	assert_true(doubt_others(4, 1, DOUBT_UNCOUNTED, BENCH_FAIR_SHARE) == 1);
	assert_true(doubt_others(4, 2, 2, BENCH_MPS) == 2);
	assert_true(doubt_others(2, 1, 2, BENCH_FAIR_SHARE) ==
		    1); /* and one of the bench's processes ended */
	assert_true(isnan(doubt_others(NAN, NAN, DOUBT_UNCOUNTED, BENCH_MPS)));
}

static void doubt_gaps__name_unknown_figures_and_their_place(void **state)
{
	struct doubt_facts f = { .reasons_known = true, .clock_known = true };
	struct doubt_gaps g = { .all = 0 };
	char text[DOUBT_GAPS_MAX];

	(void)state;
	doubt_gaps_text(text, &g);
	assert_string_equal(text, "");
	doubt_gaps_add(&g, BENCH_FAIR_SHARE, &f);
	doubt_gaps_text(text, &g);
	assert_string_equal(text, "");
	f.others = NAN;
	doubt_gaps_add(&g, BENCH_MPS, &f);
	doubt_gaps_text(text, &g);
	assert_string_equal(text,
		"Not known, so no doubt could come of it: whether other processes used the GPU (mps).");
	f.slowed[DOUBT_POWER] = NAN;
	doubt_gaps_add(&g, BENCH_MPS, &f);
	doubt_gaps_add(&g, BENCH_FAIR_SHARE, &f);
	doubt_gaps_text(text, &g);
	assert_string_equal(text,
		"Not known, so no doubt could come of it: how long its power limit slowed down the GPU; "
		"whether other processes used the GPU.");
	/* The text has room for all of them. */
	f = doubt_unknown();
	for (unsigned int m = 0; m < BENCH_MODES; m++)
		doubt_gaps_add(&g, (enum bench_mode)m, &f);
	g.all |= 1U << BENCH_MODES;
	doubt_gaps_text(text, &g);
	assert_int_equal(text[strlen(text) - 1], '.');
	assert_true(strlen(text) < DOUBT_GAPS_MAX - 1);
}

static void doubt_text__checks_clocks_only_while_the_gpu_has_work(void **state)
{
	struct doubt_facts f = doubt_unknown();
	char text[DOUBT_TEXT_MAX];

	(void)state;
	f.clock_from_mhz = 1980;
	f.clock_to_mhz = 540;
	f.busy = 0.01;
	doubt_text(text, &f);
	assert_string_equal(text, "");
	f.busy = 0.99;
	doubt_text(text, &f);
	assert_string_equal(text, "the GPU's clock changed from 1980 to 540 MHz");
}

/* A GPU that three pods keep busy for 85 % of the time may rest just when it is read. */
static void doubt_clock__of_an_idle_gpu_is_not_compared(void **state)
{
	struct doubt_facts f = doubt_unknown();
	char text[DOUBT_TEXT_MAX];

	(void)state;
	assert_true(isnan(doubt_clock(540, 0x1)));
	assert_true(isnan(doubt_clock(540, 0x5)));
	assert_true(doubt_clock(540, 0) == 540);
	assert_true(doubt_clock(540, 0x4) == 540);
	assert_true(doubt_clock(540, NAN) == 540);
	assert_true(isnan(doubt_clock(NAN, 0)));
	f.busy = 0.99;
	f.clock_from_mhz = doubt_clock(540, 0x1);
	f.clock_to_mhz = doubt_clock(1980, 0);
	doubt_text(text, &f);
	assert_string_equal(text, "");
}

static pid_t start_loop(int cpu)
{
	pid_t pid = fork();
	cpu_set_t set;

	if (pid)
		return pid;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	(void)sched_setaffinity(0, sizeof(set), &set);
	for (;;)
		;
}

static int some_cpu(void)
{
	cpu_set_t set;

	assert_int_equal(sched_getaffinity(0, sizeof(set), &set), 0);
	for (int i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &set))
			return i;
	return 0;
}

/* Two that compute on one CPU: one of them always waits. */
static void host_watch__detects_children_that_wait_for_a_cpu(void **state)
{
	int cpu = some_cpu();
	pid_t pids[] = { start_loop(cpu), start_loop(cpu) };
	struct host_watch *w = calloc(1, sizeof(*w));
	uint64_t until = time_mono_ns() + DOUBT_TIMEOUT_NS;
	double waited;

	(void)state;
	assert_non_null(w);
	assert_true(isnan(host_watch_waited(w)));
	host_watch_begin(w);
	do
		waited = host_watch_waited(w);
	while (!(waited > DOUBT_WAITED_MAX) && time_mono_ns() < until && !isnan(waited));
	for (size_t i = 0; i < ARRAY_LEN(pids); i++) {
		(void)kill(pids[i], SIGKILL);
		(void)waitpid(pids[i], NULL, 0);
	}
	if (isnan(waited)) {
		free(w);
		skip(); /* a kernel without schedstat */
	}
	assert_true(waited > DOUBT_WAITED_MAX && waited <= 1);
	free(w);
}

static void host_watch__has_no_figures_without_children(void **state)
{
	struct host_watch *w = calloc(1, sizeof(*w));

	(void)state;
	assert_non_null(w);
	host_watch_begin(w);
	assert_true(isnan(host_watch_waited(w)));
	free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(doubt_text__omits_unknown_figures_and_those_within_bounds),
		cmocka_unit_test(doubt_text__names_each_disturbance_with_its_figure),
		cmocka_unit_test(doubt_others__are_unknown_where_nvml_omits_them_or_lists_more),
		cmocka_unit_test(doubt_others__are_earlier_processes_where_ours_are_unknown),
		cmocka_unit_test(doubt_gaps__name_unknown_figures_and_their_place),
		cmocka_unit_test(doubt_text__checks_clocks_only_while_the_gpu_has_work),
		cmocka_unit_test(doubt_clock__of_an_idle_gpu_is_not_compared),
		cmocka_unit_test(host_watch__detects_children_that_wait_for_a_cpu),
		cmocka_unit_test(host_watch__has_no_figures_without_children),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
