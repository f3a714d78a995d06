/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * This process's end of the slice's socket. The process registers at the first need, never before. It registers
 * again after a fork (in the child), or after the arbiter was down.
 *
 * Model. The link has three states:
 *	- no slice: SLICE_CONTAINER_DIR does not exist (nor a directory in its place, abi/slice-dir.h), and all calls
 *	  pass through;
 *	- up: the process is registered, and has a page if it asked for one;
 *	- down: the process is in a slice, but the arbiter is unavailable or refused it. The arbiter grants
 *	  nothing more, so allocations beyond the credit fail. A limit is never dropped.
 *
 * Requests. One request at a time, each with a deadline. A thread holds the lock for a request and its answer,
 * and never across a driver call.
 *
 * Forks. All state is in memory that a child sees as zero (MADV_WIPEONFORK), and a child does not have the
 * mapping of the page (MADV_DONTFORK). So a child starts without a link.
 *
 * Thread: any. Blocks: for the lock, then up to LINK_DEADLINE_MS; not link_page() and link_welcome().
 */
#include "abi/slice-wire.h"

#include <stdbool.h>

enum link_state {
	LINK_NO_SLICE, /* the process is in no slice */
	LINK_UP,
	LINK_DOWN, /* in a slice, but refused, or without an answer within LINK_DEADLINE_MS (later tries: 300 ms) */
};

#ifndef LINK_DEADLINE_MS               /* tests set less */
#	define LINK_DEADLINE_MS 10000 /* time for an arbiter to restart, or a node to start */
#endif

/* True: the process is in no slice. This never changes, as a child cannot be in one either. The result of
 * link_open() for the price of a load. */
extern _Atomic bool link_off;

/* Registers if needed. @memory: the caller needs a page (the CUDA library); else it only reads figures (NVML). */
enum link_state link_open(bool memory);

/* The page, or NULL if this process never was LINK_UP with @memory. It stays when the arbiter is down, as grants
 * stay. Valid for the life of the process (not of its children). */
struct slice_page *link_page(void);

/* The welcome: UUIDs and limits as of the first registration. Only after link_open() returned LINK_UP. */
const struct slice_welcome *link_welcome(void);

/*
 * Requests @bytes for this process on GPU number @gpu. SLICE_OK: they belong to the caller. SLICE_NO_ROOM: the
 * limit is reached. -1: no answer. *free_bytes, unless NULL: of the slice; not set without an answer.
 */
int link_request_bytes(unsigned int gpu, uint64_t bytes, uint64_t *free_bytes);

/* Reads the slice's present figures. 0, or -1: no answer. @first: see struct slice_view. */
int link_view(unsigned int first, struct slice_viewed *ret);

/* Asks the arbiter to compare @gpu with NVML soon (slice-wire.h, SLICE_COMPARE). Best effort. */
void link_compare(unsigned int gpu);
