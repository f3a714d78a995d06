/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Private to bench/check: what is run, and in which order. Thread: loop. */
#include "tools/bench/check/kinds.h"

#define TASKS_MAX 64

/* A test, what one pod does alone, or how much work a kernel is. */
struct task {
	const struct check_kind *kind; /* NULL: that of .sized is measured */
	const struct suite_workload *sized;
	enum bench_mode mode;
};

struct task_list {
	size_t n;
	struct task v[TASKS_MAX];
};

/* Tests that are asked for and can be had in @place, behind what they want to be known and @result does not say. */
void tasks_make(struct task_list *ret, const struct check_runner_options *o,
	const struct place *place, const struct bench_result *result);
