/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The figures of MPS as text: NVIDIA's programs read what they can and take the rest for 0, so nothing here
 * fails but where they do. Pure. Thread: any.
 */
#include "testbed/sim/mps/wire.h"

#include <stddef.h>

/* "25", "12.5" as thousandths; 0: not above 0, above 100, or no number. */
uint32_t mps_percent_parse(const char *text);
/* "25.0" */
void mps_percent_format(uint32_t percent, char *ret, size_t cap);

/* "20389M", "1G", "64K", "1024": bytes; 0: no limit, or no number. */
uint64_t mps_limit_parse(const char *text);
/* "19G": in the largest unit of which there is one, rounded down. */
void mps_limit_format(uint64_t bytes, char *ret, size_t cap);

/* "0=1G,1=512MB" into @limits, which keep what is not named. */
void mps_limits_parse(const char *text, uint64_t limits[MPS_DEVICES_MAX]);

/* What the variables of a process say; @env as getenv(), what it does not have is 0. */
void mps_settings_from_env(struct mps_settings *ret, const char *(*env)(const char *name));

/* What a client has of a server that allows @server, when it asks for @own: never more. */
void mps_settings_lower(struct mps_settings *ret, const struct mps_settings *server,
	const struct mps_settings *own);
