/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Quantities of a slice on which the planner, the agent, the arbiter and the interception libraries must agree.
 * Each is defined here and nowhere else.
 *
 * CUDA_CONTEXT_MIB is what is set aside for the first CUDA context of a process, and the least that a slice must
 * have. It is one bound for all products and drivers, since only one is measured: an H100 under driver 580 takes
 * 518 MiB, and 476 to 516 MiB as a client of MPS. After the context exists, the arbiter replaces the bound by what
 * NVML shows. The planner replaces it by the measured `context_mib` of a profile, but never makes a slice smaller
 * than the bound: the interception libraries ask for all of it before the driver is called.
 */
#include <stdint.h>

#define CUDA_CONTEXT_MIB   600
#define CUDA_CONTEXT_BYTES ((uint64_t)CUDA_CONTEXT_MIB << 20)

#define SLICE_GRANULE    (UINT64_C(2) << 20) /* bytes; the driver maps memory in these */
#define SLICE_GPUS_MAX   16                  /* physical devices of one slice */
#define SLICE_NO_LIMIT   UINT64_MAX          /* bytes: no limit of memory */
#define SLICE_WEIGHT_MAX 10000
#define SLICE_CAP_ALL    1000000 /* a cap of the whole GPU, in millionths of it */
