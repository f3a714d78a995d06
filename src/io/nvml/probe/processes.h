/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which processes use a GPU, by NVML's three lists (compute, graphics, MPS). A process in several stands once,
 * with the larger figure: each list tells all of its memory on that GPU. Of a GPU in MIG mode the lists
 * have an entry for each pair of process and instance.
 * Thread: one at a time for each struct probe.
 */
#include "io/nvml/probe/probe.h"

#define PROBE_PROCESSES_MAX 4096 /* of one GPU; the rest of a longer list is left out */

struct probe_processes {
	uint32_t n;
	int32_t code;  /* of the first call that failed; 0: the list is good */
	uint32_t call; /* enum nvml_call: that one */
	struct gpu_process v[PROBE_PROCESSES_MAX];
	nvmlProcessInfo_t raw[PROBE_PROCESSES_MAX]; /* room for one list */
};

/* Fills @ret. A library without one of the lists has nobody in it. */
void probe_processes(struct probe *p, uint32_t gpu, nvmlDevice_t device,
	struct probe_processes *ret);
