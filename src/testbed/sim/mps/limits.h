/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The settings of MPS as text. NVIDIA's programs parse what they can and count the rest as 0, so these functions
 * fail only where NVIDIA's do. Pure. Thread: any.
 */
#include "testbed/sim/mps/wire.h"

#include <stddef.h>

/* "25", "12.5" to thousandths; 0: not above 0, above 100, or no number. */
uint32_t mps_percent_parse(const char *text);
/* "25.0" */
void mps_percent_format(uint32_t percent, char *ret, size_t cap);

/* "20389M", "1G", "64K", "1024": bytes; 0: no limit, or no number. */
uint64_t mps_limit_parse(const char *text);
/* "19G": in the largest unit that is not above @bytes, rounded down. */
void mps_limit_format(uint64_t bytes, char *ret, size_t cap);

/* Settings from a process's variables. @env as getenv(); a missing variable counts as 0. */
void mps_settings_from_env(struct mps_settings *ret, const char *(*env)(const char *name));

/* The settings of a client that asks for @own from a server that allows @server: never more than @server. */
void mps_settings_lower(struct mps_settings *ret, const struct mps_settings *server,
	const struct mps_settings *own);
