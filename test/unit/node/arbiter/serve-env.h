/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * An arbiter (arbiter-env.h) with one slice of 1 GiB, other processes that allocate or request memory of it, and
 * this one, which is the agent: it reads "NVML", the table in struct shared.
 */
#include "arbiter-env.h"

#define MIB UINT64_C(1048576)
#define GIB (1024 * MIB)
#define ID  "0123456789abcdef0123456789abcdef"

int serve_env_setup(void **state);
int serve_env_teardown(void **state);

/* --- slice.json --- */

void write_slice(const struct env *e, const char *text);
void write_limit(const struct env *e, uint64_t limit, const char *unhooked);

/* --- the agent --- */

const char *op_of(const json_t *line);
/* Connects as the agent: from now on the arbiter requests readings from the test. */
void subscribe(struct env *e);
/* Answers a "read" with the figures of the table. */
void answer_reading(struct env *e, const json_t *read);
/* Status now; readings that are asked for meanwhile are answered. */
json_t *status(struct env *e);
/* The figure @key of the first GPU of the first slice. */
uint64_t gpu_figure(struct env *e, const char *key);
/* False: it is not, for a long time. */
bool eventually(struct env *e, const char *key, uint64_t value);

/* --- processes --- */

/* Starts a process that has @bytes and waits; with @hang_up, after a hang-up. */
pid_t holder(struct env *e, uint64_t bytes, bool hang_up);
/* Waits for a child that must have ended well. */
void reap(pid_t pid);
/* In a child: sees the slice's directory where a container of the slice sees it. False: not allowed here. */
bool enter_slice(const struct env *e);
