/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Offsets and sizes of what processes of other builds read: the pages and the packets. A change of any line here
 * requires another SLICE_PAGE_VERSION, TURN_PAGE_VERSION or SLICE_WIRE_VERSION. Each program or library at one
 * end of the protocol includes this header in one file.
 */
#include "abi/slice-wire.h"
#include "abi/turn-page.h"

#include <stddef.h>

#define SLICE_AT(type, member, offset) \
	_Static_assert(offsetof(struct type, member) == (offset), #type "." #member)
#define SLICE_SIZE(type, bytes) _Static_assert(sizeof(struct type) == (bytes), #type)

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "little-endian");
_Static_assert(sizeof(_Atomic uint64_t) == 8 && sizeof(_Atomic uint32_t) == 4, "atomics");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2, "no hidden locks");

SLICE_AT(slice_page, magic, 0);
SLICE_AT(slice_page, version, 4);
SLICE_AT(slice_page, bytes, 8);
SLICE_AT(slice_page, gpu_count, 12);
SLICE_AT(slice_page, serial, 16);
SLICE_AT(slice_page, turns, 24);
SLICE_AT(slice_page, gpus, 64);
SLICE_SIZE(slice_page, 64 + 16 * 192);

SLICE_AT(slice_gpu_page, uuid, 0);
SLICE_AT(slice_gpu_page, limit, 16);
SLICE_AT(slice_gpu_page, granted, 24);
SLICE_AT(slice_gpu_page, seq, 32);
SLICE_AT(slice_gpu_page, alone, 36);
SLICE_AT(slice_gpu_page, counted, 40);
SLICE_AT(slice_gpu_page, credit, 64);
SLICE_AT(slice_gpu_page, seen, 128);
SLICE_AT(slice_gpu_page, unseen, 136);
SLICE_AT(slice_gpu_page, peak, 144);
SLICE_AT(slice_gpu_page, begun, 152);
SLICE_AT(slice_gpu_page, done, 160);
SLICE_AT(slice_gpu_page, packed, 168);
SLICE_AT(slice_gpu_page, packed_in, 176);
SLICE_AT(slice_gpu_page, mps, 184);
SLICE_AT(slice_gpu_page, refused, 188);
SLICE_SIZE(slice_gpu_page, 192);

SLICE_AT(slice_head, op, 0);
SLICE_AT(slice_head, tag, 4);
SLICE_SIZE(slice_head, 8);

SLICE_AT(slice_hello, version, 8);
SLICE_AT(slice_hello, flags, 12);
SLICE_AT(slice_hello, pid, 16);
SLICE_AT(slice_hello, unanswered, 20);
SLICE_AT(slice_hello, name, 24);
SLICE_SIZE(slice_hello, 56);

SLICE_AT(slice_welcome, version, 8);
SLICE_AT(slice_welcome, status, 12);
SLICE_AT(slice_welcome, gpu_count, 16);
SLICE_AT(slice_welcome, slice, 24);
SLICE_AT(slice_welcome, reason, 64);
SLICE_AT(slice_welcome, gpus, 224);
SLICE_AT(slice_welcome, gpus[1], 248);
SLICE_AT(slice_welcome, gpus[0].limit, 240);
SLICE_SIZE(slice_welcome, 608);

SLICE_AT(slice_want, gpu, 8);
SLICE_AT(slice_want, bytes, 16);
SLICE_SIZE(slice_want, 24);

SLICE_AT(slice_grant, status, 8);
SLICE_AT(slice_grant, free_bytes, 16);
SLICE_SIZE(slice_grant, 24);

SLICE_AT(slice_view, first, 8);
SLICE_SIZE(slice_view, 16);

SLICE_AT(slice_viewed, gpu_count, 8);
SLICE_AT(slice_viewed, process_count, 12);
SLICE_AT(slice_viewed, here, 16);
SLICE_AT(slice_viewed, gpus, 24);
SLICE_AT(slice_viewed, gpus[0].used, 32);
SLICE_AT(slice_viewed, gpus[0].peak, 40);
SLICE_AT(slice_viewed, processes, 408);
SLICE_AT(slice_viewed, processes[0].host_pid, 412);
SLICE_AT(slice_viewed, processes[0].gpu, 416);
SLICE_AT(slice_viewed, processes[0].used, 424);
SLICE_AT(slice_viewed, processes[1], 432);
SLICE_SIZE(slice_viewed, 1944);

SLICE_AT(slice_compare, gpu, 8);
SLICE_SIZE(slice_compare, 16);
SLICE_SIZE(slice_compared, 8);

SLICE_AT(slice_state, gpu, 8);
SLICE_AT(slice_state, generation, 12);
SLICE_AT(slice_state, busy, 16);
SLICE_AT(slice_state, wants, 20);
SLICE_AT(slice_state, idle_ns, 24);
SLICE_SIZE(slice_state, 32);

SLICE_AT(turn_page, magic, 0);
SLICE_AT(turn_page, version, 4);
SLICE_AT(turn_page, bytes, 8);
SLICE_AT(turn_page, gpu_count, 12);
SLICE_AT(turn_page, serial, 16);
SLICE_AT(turn_page, gpus, 64);
SLICE_SIZE(turn_page, 64 + 16 * 256);

SLICE_AT(turn_gpu_page, gate, 0);
SLICE_AT(turn_gpu_page, cap, 4);
SLICE_AT(turn_gpu_page, window_ns, 8);
SLICE_AT(turn_gpu_page, overrun_ns, 16);
SLICE_AT(turn_gpu_page, quantum_ns, 24);
SLICE_AT(turn_gpu_page, charged_ns, 32);
SLICE_AT(turn_gpu_page, begun, 64);
SLICE_AT(turn_gpu_page, ended, 128);
SLICE_AT(turn_gpu_page, done, 192);
SLICE_AT(turn_gpu_page, copies, 200);
SLICE_AT(turn_gpu_page, bytes, 208);
SLICE_AT(turn_gpu_page, waits, 216);
SLICE_AT(turn_gpu_page, wait_ns, 224);
SLICE_AT(turn_gpu_page, throttled_ns, 232);
SLICE_SIZE(turn_gpu_page, 256);

_Static_assert(SLICE_HELLO == 1 && SLICE_WELCOME == 2 && SLICE_WANT == 3 && SLICE_GRANT == 4 &&
		       SLICE_VIEW == 5 && SLICE_VIEWED == 6 && SLICE_COMPARE == 7 &&
		       SLICE_COMPARED == 8 && SLICE_STATE == 9,
	"numbers of packets");
_Static_assert(SLICE_TURNS_NONE == 0 && SLICE_TURNS_ON == 1 && SLICE_TURNS_MPS == 2 &&
		       SLICE_MPS_UNKNOWN == 0 && SLICE_MPS_OUTSIDE == 1 &&
		       SLICE_MPS_INSIDE == 2,
	"words of the page");
_Static_assert(SLICE_OK == 0 && SLICE_NO_ROOM == 1 && SLICE_BAD_VERSION == 2 &&
		       SLICE_GONE == 3 && SLICE_TOO_MANY == 4 && SLICE_REFUSED == 5,
	"numbers of answers");

#undef SLICE_AT
#undef SLICE_SIZE
