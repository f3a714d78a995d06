/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* One line towards the arbiter on the control socket (abi/arbiter-control.h), read. Thread: any. */
#include "abi/slice-wire.h"
#include "lib/base/error.h"

#include <stdbool.h>
#include <stddef.h>

enum request_op { REQUEST_STATUS, REQUEST_READINGS, REQUEST_READING };

struct reading_process {
	uint32_t pid;
	bool known; /* .bytes is */
	uint64_t bytes;
};

struct reading_gpu {
	uint8_t uuid[SLICE_UUID_BYTES];
	size_t n;
	struct reading_process *processes; /* [n], by pid, each once */
};

struct reading {
	uint64_t seq;
	size_t n;
	struct reading_gpu *gpus; /* [n]: those that could be read, each once */
};

struct control_request {
	enum request_op op;
	bool has_slice;
	char slice[SLICE_ID_MAX]; /* "": no slice has the name that was asked for */
	struct reading reading;
};

/* On success to be released with request_fini(). */
int request_read(struct control_request *ret, const char *line, size_t len,
	struct error *err) MUST_USE;
void request_fini(struct control_request *r);

/* NULL: NVML does not list the process on that GPU. */
const struct reading_process *reading_find(const struct reading_gpu *g, uint32_t pid);
