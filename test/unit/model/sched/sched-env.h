/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A scheduler with a few slices, and a clock that only the test moves. One at a time. Thread: one. */
#include "model/sched/sched.h"

#define US    UINT64_C(1000)
#define MS    UINT64_C(1000000)
#define START UINT64_C(5000000000)
#define N_MAX 4

struct sched_env {
	struct sched *t;
	struct sched_slice *slices[N_MAX];
	struct sched_client *clients[N_MAX];
	uint64_t now;
	unsigned int gates; /* changes */
};

extern struct sched_env e;
extern const struct sched_share_config equal;

/* @n slices of that share, with a client each on GPU 0. end_shares() frees them. */
void begin_shares(unsigned int n, const struct sched_share_config *share);
void end_shares(void);

/* Time passes, and the scheduler is called at its deadlines. */
void pass_time(uint64_t ns);

/* What client @i reports: it wants the GPU; it has been idle for @ns. */
void set_waiting(unsigned int i);
void set_idle_since(unsigned int i, uint64_t ns);

struct sched_account get_account(unsigned int i);
