/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Tests of the hooks of memory and contexts, between the driver of memory-driver.h and an arbiter. */
#include "unit/container/cuda/memory-driver.h"
#include "unit/container/slice-arbiter.h"

/* The directory and the arbiter of this test binary. */
extern char *mt_dir;
extern struct slice_arbiter *arbiter;

/* How the next child starts: in no slice; the status that its registration gets, 0: admitted. */
extern bool mt_no_slice;
extern unsigned int mt_status_of_hello;

/* Runs @fn, which uses CHECK(), in a process of its own. The process registers again, and at the end all is
 * in order. */
void mt_in_child(void (*fn)(void));

/* A pool of the device has reserved so many bytes. */
void mt_make_pool(uint64_t bytes);

int mt_setup(void **state);
int mt_teardown(void **state);
