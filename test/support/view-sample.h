/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Views of nodes for tests: all formats of a view are tested with these, so that all of them are about the
 * same nodes. Every number is fixed, and view_check() passes.
 * Thread: any.
 */
#include "node/view/view.h"

enum view_sample_kind {
	VIEW_SAMPLE_EMPTY, /* no GPU: NVML is down, the kubelet silent, a config refused */
	VIEW_SAMPLE_ONE,   /* one H100, with a pod alone on it */
	/* 8 GPUs: time-slicing, MPS, slices, MIG twice, whole, lost with XIDs, idle; priced */
	VIEW_SAMPLE_MIXED,
	VIEW_SAMPLE_UNPRICED, /* the same without a price, and what may be unknown is not known */
	VIEW_SAMPLE_SIXTEEN, /* 16 GPUs; one in MIG mode without a device, one refused */
	VIEW_SAMPLE_COUNT_,
};
const char *view_sample_name(enum view_sample_kind kind); /* "mixed" */

/* 2026-11-25T12:00:00Z, when all of them are */
#define VIEW_SAMPLE_WALL_NS UINT64_C(1795608000000000000)

int view_sample(struct view **ret, enum view_sample_kind kind, struct error *err) MUST_USE;
