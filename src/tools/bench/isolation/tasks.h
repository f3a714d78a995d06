/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Private to bench/isolation: what is run, and in which order. Thread: loop. */
#include "tools/bench/isolation/case.h"

#define ISOLATION_TASKS_MAX 64

/* A test, what one pod does alone, or how much work a kernel is. */
struct isolation_task {
	const struct isolation_test_kind *kind; /* NULL: that of .sized is measured */
	const struct suite_workload *sized;
	enum bench_mode mode;
};

struct isolation_task_list {
	size_t n;
	struct isolation_task v[ISOLATION_TASKS_MAX];
};

/* Tests that are asked for and can be had in @environment, behind what they want to be known and @result does not say. */
void isolation_tasks_make(struct isolation_task_list *ret,
	const struct isolation_runner_options *o, const struct environment *environment,
	const struct bench_result *result);
