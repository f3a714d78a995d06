/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A unit of work on the GPU: a number of equal kernels, launched one by one or as a graph. All sizes are fixed
 * before the run, so that the same unit can be measured alone and beside other pods. Thread: one.
 */
#include "tools/bench/load/cuda.h"

#include <stdbool.h>

enum work_unit_kernel {
	WORK_UNIT_BURN,
	WORK_UNIT_STREAM,
	WORK_UNIT_NOP,
	WORK_UNIT_BAD
}; /* WORK_UNIT_BAD faults */

struct work_unit_plan {
	enum work_unit_kernel kernel;
	uint32_t kernels; /* in each unit, at least 1 */
	uint32_t blocks;  /* in each kernel; 0: enough to fill all multiprocessors */
	uint64_t rounds;  /* WORK_UNIT_BURN: in each thread */
	uint64_t bytes;   /* WORK_UNIT_STREAM: that a kernel copies within the GPU's memory */
	uint32_t
		reserve_percent; /* percent of the memory free at start, allocated but not used */
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
	size_t free, total; /* bytes that the driver reports before .held is allocated */
	uint64_t held;
};

/* Opens visible device 0, after cuda_open(). Ends the program on failure. */
void work_unit_open(struct work_unit *u, const struct work_unit_plan *p);
/* Launches the kernels of @units units one after another. Does not wait. */
void work_unit_launch(const struct work_unit *u, uint32_t units);
void work_unit_wait(const struct work_unit *u);

/* Whether the driver runs this program under MPS. -1: unknown (before CUDA 12.1). */
int work_unit_is_under_mps(const struct work_unit *u);

/*
 * WORK_UNIT_BURN: sets .plan.rounds so that a kernel takes @kernel_ns. Returns the measured time of a kernel, ns.
 * No other process may use the GPU.
 */
uint64_t work_unit_calibrate(struct work_unit *u, uint64_t kernel_ns);
