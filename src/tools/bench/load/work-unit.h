/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A unit of work on the GPU: so many kernels of one kind, launched one by one or as a graph. All sizes are fixed
 * before it begins, so that the same unit can be timed alone and beside others. Thread: one.
 */
#include "tools/bench/load/cuda.h"

#include <stdbool.h>

enum work_unit_kernel {
	WORK_UNIT_BURN,
	WORK_UNIT_STREAM,
	WORK_UNIT_NOP,
	WORK_UNIT_BAD
}; /* the last one faults */

struct work_unit_plan {
	enum work_unit_kernel kernel;
	uint32_t kernels; /* of a unit, at least 1 */
	uint32_t blocks;  /* of a kernel; 0: all multiprocessors are full */
	uint64_t rounds;  /* WORK_UNIT_BURN: of each thread */
	uint64_t bytes;   /* WORK_UNIT_STREAM: that a kernel copies within the GPU's memory */
	uint32_t
		reserve_percent; /* percent of the memory that is free at first, which it only holds */
	bool graph;
};

struct work_unit {
	struct work_unit_plan plan;
	CUdevice device;
	CUcontext context;
	CUfunction function;
	CUstream stream;
	CUdeviceptr from, to;
	CUgraphExec graph;
	uint32_t multiprocessors, blocks;
	size_t free, total; /* bytes, as the driver says, before it holds any */
	uint64_t held;
};

/* Takes device 0 of those that are visible; cuda_open() was called. Ends the program where that fails. */
void work_unit_open(struct work_unit *u, const struct work_unit_plan *p);
/* Launches the kernels of @units units, one after the other, and does not wait. */
void work_unit_launch(const struct work_unit *u, uint32_t units);
void work_unit_wait(const struct work_unit *u);

/* Whether the driver runs this program under MPS; -1: it does not say (before CUDA 12.1). */
int work_unit_is_under_mps(const struct work_unit *u);

/* Of WORK_UNIT_BURN: .plan.rounds such that a kernel takes @kernel_ns; returns what one takes then. Wants nobody else
 * on the GPU. */
uint64_t work_unit_calibrate(struct work_unit *u, uint64_t kernel_ns);
