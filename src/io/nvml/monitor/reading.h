/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One question "who uses these GPUs", from the UUIDs that are asked about to the worker's packets and
 * back. For io/nvml/monitor/monitor.c only. Pure data. Thread: owner's.
 */
#include "io/nvml/monitor/probe-round.h"
#include "io/nvml/monitor/monitor.h"

struct monitor_reading_gpu; /* what has come of one GPU */

struct processes_read {
	bool active, broken; /* broken: nothing more will come of it */
	uint32_t seq;        /* of the last one; never 0 while active */
	char (*uuids)[GPU_UUID_MAX];
	uint32_t n;
	struct monitor_reading_gpu *gpus;
	uint32_t n_gpus;
	gpu_processes_done *done;
	void *arg;
};

/* Lets go of what is under way, without a word. */
void reading_fini(struct processes_read *r);

/*
 * Begins: @ret_gpus (room for GPU_NODE_MAX) are the NVML indexes to ask the worker about. UUIDs that
 * are of no GPU of the last look, or of one that is stuck, are answered as not known.
 */
int reading_begin(struct processes_read *r, const char *const *uuids, uint32_t n,
	const struct probe_round *round, uint16_t *ret_gpus, uint32_t *ret_n,
	struct error *err) MUST_USE;

/* Takes a packet; one of another question is left. */
void reading_apply(struct processes_read *r, const struct worker_processes *m);

/* All packets of question @seq are there: calls back. @inv says which MIG instance has which UUID. */
void reading_end(struct processes_read *r, uint32_t seq, const struct inventory *inv);
void reading_fail(struct processes_read *r, const struct error *err);
