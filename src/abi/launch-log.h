/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A log of the latest submissions of a slice's processes to the GPU, one entry each. `gpuslice profile` finds
 * the steps of a program in it. A process writes the log only if, when it registers, two conditions hold: a
 * file LAUNCH_LOG_FILE of LAUNCH_LOG_BYTES exists in the slice's directory, and the process may write it. In a
 * pod neither is true.
 *
 * The log is a ring: entry n has the index n modulo LAUNCH_LOG_ENTRIES. A submitting thread writes an entry in
 * this order, and a reader relies on it:
 *	1. The thread takes n from .next by an atomic addition.
 *	2. It sets .number to 0, writes .at_ns and .kind, and then sets .number to n + 1 (release).
 *	3. The reader reads .number, the entry, and .number again. The entry is whole if both are n + 1.
 *
 * .at_ns is the writer's monotonic clock. Little-endian, no pointers.
 */
#include <stdatomic.h>
#include <stdint.h>

#define LAUNCH_LOG_FILE    "launches"
#define LAUNCH_LOG_MAGIC   UINT32_C(0x47504C4C) /* "LLPG" */
#define LAUNCH_LOG_VERSION 1
#define LAUNCH_LOG_ENTRIES (UINT32_C(1) << 18) /* one second of the busiest programs */

struct launch_log_entry {
	_Atomic uint64_t number; /* 0: empty, or a thread writes it now */
	_Atomic uint64_t at_ns;
	_Atomic uint32_t kind; /* equal for the same kernel with as many blocks, and so on */
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
