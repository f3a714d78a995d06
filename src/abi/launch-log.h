/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the processes of a slice have sent to the GPU lately, one entry each, for who looks for the steps of a program
 * (gpuslice profile). Only where a file LAUNCH_LOG_FILE of LAUNCH_LOG_BYTES lies in the slice's directory and may
 * be written, when a process registers; in a pod neither is so.
 *
 * A ring: entry n lies at n modulo LAUNCH_LOG_ENTRIES, and is whole if .number says n + 1 before and after it was
 * read. .at_ns is the monotonic clock of who wrote it. Little-endian, no pointers.
 */
#include <stdatomic.h>
#include <stdint.h>

#define LAUNCH_LOG_FILE    "launches"
#define LAUNCH_LOG_MAGIC   UINT32_C(0x47504C4C) /* "LLPG" */
#define LAUNCH_LOG_VERSION 1
#define LAUNCH_LOG_ENTRIES (UINT32_C(1) << 18) /* a second of the busiest programs */

struct launch_log_entry {
	_Atomic uint64_t number; /* 0: nothing yet, or it is being written */
	_Atomic uint64_t at_ns;
	_Atomic uint32_t kind; /* the same for the same kernel with as many blocks, and so on */
	uint32_t unused;
};

struct launch_log {
	uint32_t magic, version;
	_Alignas(64) _Atomic uint64_t next;
	_Alignas(64) struct launch_log_entry entries[LAUNCH_LOG_ENTRIES];
};

#define LAUNCH_LOG_BYTES sizeof(struct launch_log)

_Static_assert(sizeof(struct launch_log_entry) == 24, "layout");
_Static_assert(sizeof(struct launch_log) == 128 + 24 * LAUNCH_LOG_ENTRIES, "layout");
