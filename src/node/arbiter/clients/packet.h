/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Whether what came from a process of a slice is a request of abi/slice-wire.h. Thread: any. */
#include "abi/slice-wire.h"
#include "lib/base/error.h"

#include <stddef.h>

union packet {
	struct slice_head head;
	struct slice_hello hello;
	struct slice_want want;
	struct slice_view view;
	struct slice_compare compare;
	struct slice_state state;
};

/*
 * Reads the @len bytes at @data, of any alignment, into *ret: a request of a length that is its
 * struct's, with texts that end and no unknown flags. Of a slice with @n_gpus; < 0 with @err.
 */
int packet_read(union packet *ret, const void *data, size_t len, unsigned int n_gpus,
	struct error *err) MUST_USE;
