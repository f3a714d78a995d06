/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Private to bench/isolation: the tasks and their order. Thread: loop. */
#include "tools/bench/isolation/case.h"

#define ISOLATION_TASKS_MAX 64

/* A test, a measurement of one pod alone, or a measurement of a kernel's size. */
struct isolation_task {
	const struct isolation_test_kind *kind; /* NULL: measures the kernel size of .sized */
	const struct suite_workload *sized;
	enum bench_mode mode;
};

struct isolation_task_list {
	size_t n;
	struct isolation_task v[ISOLATION_TASKS_MAX];
};

/* The requested tests that @environment can run. The measurements that they need and @result lacks come
 * first. */
void isolation_tasks_make(struct isolation_task_list *ret,
	const struct isolation_runner_options *o, const struct environment *environment,
	const struct bench_result *result);
