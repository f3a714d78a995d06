/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Checks packets from processes of slices against abi/slice-wire.h. Thread: any. */
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

/* Reads @len bytes at @data, of any alignment, into *ret. A valid request has the length of its struct,
 * terminated texts, no unknown flags, and GPUs below @n_gpus. < 0: *err is set. */
int packet_read(union packet *ret, const void *data, size_t len, unsigned int n_gpus,
	struct error *err) MUST_USE;
