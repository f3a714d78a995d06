/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The control socket (abi/arbiter-control.h). Thread: loop. Blocks: never. */
#include "lib/base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct arbiter;

/*
 * Listens in the run directory. Call arbiter_control_stop() after a failure too. Errors: ERR_NOMEM; the
 * system's.
 */
int arbiter_control_start(struct arbiter *a, struct error *err) MUST_USE;

/* Closes all connections. Handles close as the loop runs. Does nothing if the socket was never served. */
void arbiter_control_stop(struct arbiter *a);

/* Whether a client reads NVML for the arbiter. */
bool control_subscribed(const struct arbiter *a);

/*
 * Asks the subscriber for the figures of @gpus_json, a JSON list of UUIDs. The answer has @seq
 * (readings_apply()). False: there is no subscriber, it was disconnected because it does not read, or the list
 * is too long.
 */
bool control_request_reading(struct arbiter *a, uint64_t seq, const char *gpus_json);
