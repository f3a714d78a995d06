/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Memory that the child of a fork finds zeroed, regardless of which thread forked and which locks were held
 * (MADV_WIPEONFORK, Linux 4.14). So a child starts without state, and the library needs no fork handler. On
 * older kernels a fork handler zeroes the memory; a bare clone() bypasses it.
 *
 * Only the root of the state is there. All other memory is found by pointers from it, so a child has no way to
 * that either. Thread: any.
 */
#include <stdatomic.h>
#include <stddef.h>

#define WIPED_MAX 8 /* blocks in one library that the fork handler can wipe */

/* The block of *@where: @bytes of zeroed memory, made at the first call and never freed. NULL: no memory. */
void *wiped_get(_Atomic(void *) *where, size_t bytes);

/* Zeroed memory from the system, which a fork does not wipe. NULL: no memory. */
void *wiped_map(size_t bytes);
void wiped_unmap(void *p, size_t bytes);
