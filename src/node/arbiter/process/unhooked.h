/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Unhooked processes: those that NVML lists and that never registered (unhooked.c). Thread: loop. */
#include "node/arbiter/control/request.h"
#include "abi/slice-wire.h"

#include <stdbool.h>
#include <stdint.h>

struct arbiter;

struct unhooked {
	struct unhooked *next;
	uint32_t pid;
	uint64_t start;
	char slice[SLICE_ID_MAX]; /* "": of none */
	char name[SLICE_NAME_MAX];
	unsigned int n_readings; /* number of readings that listed it */
	uint64_t generation;     /* of the last one */
	long fds_offset;         /* where the next search of its descriptors begins */
	unsigned int n_fd_scans;
	bool fds_scanned; /* it has no lost page, or the limit of searches is reached */
	bool reported, stopped;
	uint64_t bytes[SLICE_GPUS_MAX];
};

/*
 * The .on_applied of struct readings_ops (control/readings.h): compares the processes of @r with the members,
 * updates the list of unhooked processes and what their memory takes from the slices, and kills those that
 * slice.json says.
 */
void unhooked_apply_reading(struct arbiter *a, const struct reading *r);

/* Frees the list. */
void unhooked_stop(struct arbiter *a);
