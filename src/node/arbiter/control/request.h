/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Parser of one line that a client sends to the arbiter's control socket (abi/arbiter-control.h). Thread: any. */
#include "abi/slice-wire.h"
#include "lib/base/error.h"

#include <stdbool.h>
#include <stddef.h>

enum request_op { REQUEST_STATUS, REQUEST_READINGS, REQUEST_READING };

struct reading_process {
	uint32_t pid;
	bool known; /* .bytes is known */
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
	struct reading_gpu *gpus; /* [n]: GPUs that could be read, each once */
};

struct control_request {
	enum request_op op;
	bool has_slice;
	char slice[SLICE_ID_MAX]; /* "": the name in the request is no valid slice ID */
	struct reading reading;
};

/* After success, release *ret with request_fini(). */
int request_read(struct control_request *ret, const char *line, size_t len,
	struct error *err) MUST_USE;
void request_fini(struct control_request *r);

/* NULL: NVML does not list the process on that GPU. */
const struct reading_process *reading_find(const struct reading_gpu *g, uint32_t pid);
