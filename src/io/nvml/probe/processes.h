/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The processes on a GPU, from NVML's three lists (compute, graphics, MPS). A process in several lists is one
 * entry, with the larger figure: each list gives all memory of the process on that GPU. For a GPU in MIG mode the
 * lists have an entry for each pair of process and instance.
 *
 * Thread: one at a time for each struct probe.
 */
#include "io/nvml/probe/probe.h"

#define PROBE_PROCESSES_MAX 4096 /* of one GPU, all lists together; further ones are left out */

struct probe_processes {
	uint32_t n;
	int32_t code;  /* of the first call that failed; 0: the list is good */
	uint32_t call; /* that call: enum nvml_call */
	struct gpu_process v[PROBE_PROCESSES_MAX];
	nvmlProcessInfo_t raw[PROBE_PROCESSES_MAX]; /* room for one list */
};

/*
 * Fills @ret. A library without the lists of graphics and MPS has no such processes. Any other failure sets .code
 * and leaves no process in .v. A list that is longer than .raw is such a failure, too (INSUFFICIENT_SIZE).
 */
void probe_processes(struct probe *p, uint32_t gpu, nvmlDevice_t device,
	struct probe_processes *ret);
