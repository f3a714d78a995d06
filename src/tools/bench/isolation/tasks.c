/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/isolation/tasks.h"

#include <string.h>

static const struct isolation_test_kind *const kinds[ISOLATION_TESTS] = {
	[ISOLATION_TEST_MEMORY] = &isolation_test_memory,
	[ISOLATION_TEST_NEIGHBOR] = &isolation_test_neighbor,
	[ISOLATION_TEST_FAULT] = &isolation_test_fault,
	[ISOLATION_TEST_RECOVERY] = &isolation_test_recovery,
};

int isolation_tests_parse(unsigned int *ret, const struct strv *words, struct error *err)
{
	unsigned int set = 0;

	for (size_t i = 0; i < words->n; i++) {
		unsigned int k = 0;

		while (k < ISOLATION_TESTS && strcmp(kinds[k]->name, words->v[i]) != 0)
			k++;
		if (k < ISOLATION_TESTS)
			set |= 1U << k;
		else if (strcmp(words->v[i], "none") != 0 || words->n > 1)
			return error_set(err, ERR_INVALID,
				"--checks: expected memory, neighbour, fault, recovery, or none, found "
				"'%.40s'",
				words->v[i]);
	}
	*ret = set;
	return 0;
}

static void add_isolation_task(struct isolation_task_list *l,
	const struct isolation_test_kind *kind, const struct suite_workload *sized,
	enum bench_mode m)
{
	if (l->n < ISOLATION_TASKS_MAX)
		l->v[l->n++] = (struct isolation_task){ kind, sized, m };
}

/* @m BENCH_MODES: in any mode. */
static bool has_isolation_task(const struct isolation_task_list *l,
	const struct isolation_test_kind *kind, enum bench_mode m)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->v[i].kind == kind && (m == BENCH_MODES || l->v[i].mode == m))
			return true;
	return false;
}

static void add_tests(struct isolation_task_list *l, const struct isolation_runner_options *o,
	const struct environment *environment)
{
	struct error err = ERROR_INIT;

	for (unsigned int k = 0; k < ISOLATION_TESTS; k++)
		for (unsigned int m = 0; m < BENCH_MODES; m++)
			if (o->tests & 1U << k && o->modes & 1U << m &&
				kinds[k]->is_for((enum bench_mode)m) &&
				environment_can_run(environment, (enum bench_mode)m, 2, &err) ==
					0)
				add_isolation_task(l, kinds[k], NULL, (enum bench_mode)m);
}

/* Measures the size of a kernel, unless the suite has measured it. */
static void add_kernel_size_task(struct isolation_task_list *l,
	const struct bench_result *result, const struct suite_workload *w, enum bench_mode m)
{
	if (!bench_size_of(result, w->name))
		add_isolation_task(l, NULL, w, m);
}

void isolation_tasks_make(struct isolation_task_list *ret,
	const struct isolation_runner_options *o, const struct environment *environment,
	const struct bench_result *result)
{
	enum bench_mode alone = o->environment->n_mig ? BENCH_MIG : BENCH_EXCLUSIVE;
	struct isolation_task_list tests = { .n = 0 };
	bool answers, neighbour, rate;

	*ret = (struct isolation_task_list){ .n = 0 };
	add_tests(&tests, o, environment);
	answers =
		has_isolation_task(&tests, &isolation_test_neighbor, BENCH_FAIR_SHARE_LATENCY);
	neighbour = has_isolation_task(&tests, &isolation_test_neighbor, BENCH_MODES);
	rate = neighbour || has_isolation_task(&tests, &isolation_test_recovery, BENCH_MODES);
	if (rate || has_isolation_task(&tests, &isolation_test_fault, BENCH_MODES))
		add_kernel_size_task(ret, result, &isolation_load_burn, alone);
	if (neighbour)
		add_kernel_size_task(ret, result, &isolation_load_small_hog, alone);
	if (answers)
		add_kernel_size_task(ret, result, &isolation_load_short, alone);
	if (rate)
		add_isolation_task(ret, &isolation_alone_burn, NULL, alone);
	if (answers)
		add_isolation_task(ret, &isolation_alone_latency, NULL, alone);
	for (size_t i = 0; i < tests.n; i++)
		add_isolation_task(ret, tests.v[i].kind, tests.v[i].sized, tests.v[i].mode);
}
