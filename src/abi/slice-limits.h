/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Quantities of a slice on which the planner, the agent, the arbiter and the interception libraries must agree.
 * Each is defined here and nowhere else.
 *
 * CUDA_CONTEXT_MIB. The libraries reserve this much for the first CUDA context of a process, so it is also the
 * smallest size of a slice. The bound is one for all products and drivers, as only one combination is measured:
 * an H100 under driver 580 takes 518 MiB, and 476 to 516 MiB as a client of MPS. Once the context exists, the
 * arbiter replaces the bound by NVML's figure. The planner replaces it by the measured `context_mib` of a
 * profile. But the planner never makes a slice smaller than the bound, as the libraries request all of it before
 * they call the driver.
 */
#include <stdint.h>

#define CUDA_CONTEXT_MIB   600
#define CUDA_CONTEXT_BYTES ((uint64_t)CUDA_CONTEXT_MIB << 20)

#define SLICE_GRANULE    (UINT64_C(2) << 20) /* bytes; the driver's unit of mapped memory */
#define SLICE_GPUS_MAX   16                  /* physical devices of one slice */
#define SLICE_NO_LIMIT   UINT64_MAX          /* bytes: no memory limit */
#define SLICE_WEIGHT_MAX 10000
#define SLICE_CAP_ALL    1000000 /* the whole GPU as a cap: the unit is a millionth of it */
