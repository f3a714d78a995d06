/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Where workloads cannot be, even with nobody beside them: each workload on each GPU that may be had, in each mode
 * that the policy allows.
 * Thread: any.
 */
#include "tools/plan/answer/answer.h"

#define REJECTIONS_MAX 20000

struct rejection {
	uint32_t workload;
	const struct plan_gpu *gpu;
	enum plan_mode mode;
	enum plan_reason reason;
};

/* By workload, GPU, mode. @ret has room for @room; returns how many there are, also if that is more. */
size_t reject_list(const struct plan_answer *a, struct rejection *ret, size_t room);
