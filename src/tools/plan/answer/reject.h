/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Workloads that do not fit, even alone: each workload on each available GPU, in each mode that the policy allows.
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

/* By workload, GPU, mode. @ret has @room elements; returns the number of all rejections, even if larger. */
size_t reject_list(const struct plan_answer *a, struct rejection *ret, size_t room);
