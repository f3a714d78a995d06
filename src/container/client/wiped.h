/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Memory that the child of a fork finds zeroed, whoever forked and whatever locks were held: so a
 * child begins anew with no handler of ours (MADV_WIPEONFORK, Linux 4.14). On older kernels a fork
 * handler does it, which a bare clone() goes around.
 *
 * Only what the program needs to find everything else lies in it: pointers from it to other
 * memory are then gone in the child too. Thread: any.
 */
#include <stdatomic.h>
#include <stddef.h>

#define WIPED_MAX 8 /* places in one library */

/* The memory of the place *@where, made at the first call: zero, @bytes long, never given back. NULL:
 * there is none. */
void *wiped_get(_Atomic(void *) *where, size_t bytes);

/* Memory from the system, zero; not wiped. NULL: there is none. */
void *wiped_map(size_t bytes);
void wiped_unmap(void *p, size_t bytes);
