/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/check/tasks.h"

#include <string.h>

static const struct check_kind *const kinds[CHECK_NAMES] = {
	[CHECK_MEMORY] = &check_memory,
	[CHECK_NEIGHBOUR] = &check_neighbour,
	[CHECK_FAULT] = &check_fault,
	[CHECK_RECOVERY] = &check_recovery,
};

int check_names_parse(unsigned int *ret, const struct strv *words, struct error *err)
{
	unsigned int set = 0;

	for (size_t i = 0; i < words->n; i++) {
		unsigned int k = 0;

		while (k < CHECK_NAMES && strcmp(kinds[k]->name, words->v[i]) != 0)
			k++;
		if (k < CHECK_NAMES)
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

static void add(struct task_list *l, const struct check_kind *kind,
	const struct suite_workload *sized, enum bench_mode m)
{
	if (l->n < TASKS_MAX)
		l->v[l->n++] = (struct task){ kind, sized, m };
}

/* BENCH_MODES: in any. */
static bool has(const struct task_list *l, const struct check_kind *kind, enum bench_mode m)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->v[i].kind == kind && (m == BENCH_MODES || l->v[i].mode == m))
			return true;
	return false;
}

static void add_tests(struct task_list *l, const struct check_runner_options *o,
	const struct place *place)
{
	struct error err = ERROR_INIT;

	for (unsigned int k = 0; k < CHECK_NAMES; k++)
		for (unsigned int m = 0; m < BENCH_MODES; m++)
			if (o->checks & 1U << k && o->modes & 1U << m &&
				kinds[k]->is_for((enum bench_mode)m) &&
				place_can(place, (enum bench_mode)m, 2, &err) == 0)
				add(l, kinds[k], NULL, (enum bench_mode)m);
}

/* How much work a kernel is, unless the suite has measured it. */
static void add_size(struct task_list *l, const struct bench_result *result,
	const struct suite_workload *w, enum bench_mode m)
{
	if (!bench_size_of(result, w->name))
		add(l, NULL, w, m);
}

void tasks_make(struct task_list *ret, const struct check_runner_options *o,
	const struct place *place, const struct bench_result *result)
{
	enum bench_mode alone = o->place->n_mig ? BENCH_MIG : BENCH_EXCLUSIVE;
	struct task_list tests = { .n = 0 };
	bool answers, neighbour, rate;

	*ret = (struct task_list){ .n = 0 };
	add_tests(&tests, o, place);
	answers = has(&tests, &check_neighbour, BENCH_LATENCY);
	neighbour = has(&tests, &check_neighbour, BENCH_MODES);
	rate = neighbour || has(&tests, &check_recovery, BENCH_MODES);
	if (rate || has(&tests, &check_fault, BENCH_MODES))
		add_size(ret, result, &check_burn, alone);
	if (neighbour)
		add_size(ret, result, &check_small_hog, alone);
	if (answers)
		add_size(ret, result, &check_short, alone);
	if (rate)
		add(ret, &check_alone_burn, NULL, alone);
	if (answers)
		add(ret, &check_alone_latency, NULL, alone);
	for (size_t i = 0; i < tests.n; i++)
		add(ret, tests.v[i].kind, tests.v[i].sized, tests.v[i].mode);
}
