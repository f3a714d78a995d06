/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * This process's end of the slice's socket: registered at the first need, never before, and again
 * after a fork or after the arbiter was away. One request at a time, each with a deadline; the lock
 * is never held across a driver call.
 *
 * Three states: in no slice (SLICE_CONTAINER_DIR is not there: everything passes through), in a
 * slice (the page is mapped), or in a slice whose arbiter cannot be reached. In the last one nothing
 * more is granted: LINK_DOWN, and allocations beyond the credit fail. A limit is never dropped.
 *
 * All state is in memory that a fork's child sees as zero (MADV_WIPEONFORK), the page is in none of
 * its mappings (MADV_DONTFORK): so the child begins anew by itself. Thread: any.
 */
#include "abi/slice-wire.h"

#include <stdbool.h>

enum link_state {
	LINK_NO_SLICE, /* not ours to limit */
	LINK_UP,
	LINK_DOWN, /* in a slice, not served; has been tried for LINK_DEADLINE_MS */
};

#ifndef LINK_DEADLINE_MS               /* tests have less patience */
#	define LINK_DEADLINE_MS 10000 /* for an arbiter that restarts, or a node that starts */
#endif

/* Known to be in no slice, for good: a child cannot be in one either. What link_open() says, for the
 * price of a load. */
extern _Atomic bool link_off;

/* Registers if need be. @memory: wants a page (the CUDA library); else it only looks (NVML). */
enum link_state link_open(bool memory);

/* The page, or NULL if this process never was LINK_UP. It stays when the arbiter goes: what is granted
 * is granted. Valid for the life of the process (not of its children). */
struct slice_page *link_page(void);

/* The welcome: uuids and limits as of the first registration. Only after link_open() said LINK_UP. */
const struct slice_welcome *link_welcome(void);

/*
 * @bytes for this process on GPU number @gpu. SLICE_OK: they are its own. SLICE_NO_ROOM, or -1: not
 * answered. *free_bytes, unless NULL: of the slice.
 */
int link_request_bytes(unsigned int gpu, uint64_t bytes, uint64_t *free_bytes);

/* The slice now. 0, or -1: not answered. @first: see struct slice_view. */
int link_view(unsigned int first, struct slice_viewed *ret);

/* What no hook can know may have changed on @gpu (slice-wire.h, SLICE_COMPARE). Best effort. */
void link_compare(unsigned int gpu);
