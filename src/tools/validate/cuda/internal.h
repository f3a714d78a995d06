/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The process that calls CUDA and the process that watches it. Thread: main. */
#include "lib/base/strv.h"
#include "model/gpu/gpu.h"
#include "tools/validate/cuda/calls.h"

#include <stdbool.h>

/* --- notes --- */

/*
 * The packets that the CUDA process sends to the process that watches it:
 *
 *	STEP (device, step)            before each call: the last step names a call that hangs
 *	COUNT (value: devices)         after cuInit
 *	RESULT (device, step, value)   one for each device; value is a CUresult or CUDA_NOTE_*
 *	END (step, value)              the last packet; value of the calls for all devices
 *
 * Both ends are one program. The reader still checks each packet, as a broken libcuda may have written
 * anywhere in the sender's memory.
 */

#define CUDA_NOTE_FD     3
#define CUDA_NOTE_MAGIC  UINT32_C(0x44554347) /* "GCUD" */
#define CUDA_DEVICES_MAX GPU_NODE_MAX

enum cuda_note_type {
	CUDA_NOTE_STEP = 1,
	CUDA_NOTE_COUNT,
	CUDA_NOTE_RESULT,
	CUDA_NOTE_END,
	CUDA_NOTE_TYPE_COUNT_,
};

/* Values besides those of CUresult, which are >= 0. */
enum {
	CUDA_NOTE_NO_LIBRARY = -1,
	CUDA_NOTE_BAD_LIBRARY = -2,
	CUDA_NOTE_WRONG_SUM = -3,
};

enum cuda_step {
	CUDA_STEP_OPEN, /* dlopen() */
#define X(name, params) CUDA_STEP_##name,
	CUDA_CALLS(X)
#undef X
		CUDA_STEP_COUNT_,
};

struct cuda_note {
	uint32_t magic, size, type;
	uint32_t device; /* CUDA's ordinal in the CUDA process */
	uint32_t step;   /* enum cuda_step */
	int32_t value;
	uint64_t took_ns;        /* of a device, from context to result */
	char uuid[GPU_UUID_MAX]; /* "GPU-..."; "": unknown. A MIG device has its own */
	char bus_id[GPU_BUS_ID_MAX];
	char name[GPU_NAME_MAX];
	char text[160]; /* CUDA's text for .value; "" */
};

/* Whether the packet of @len bytes in @n is valid: sizes, ranges, terminated texts. */
int cuda_note_check(const struct cuda_note *n, size_t len, struct error *err) MUST_USE;

const char *cuda_step_name(unsigned step); /* "cuInit"; accepts any number; static */

/* --- runs --- */

/*
 * One run of the process that calls CUDA, in the process that watches it: the results of each device,
 * and how the run ended. Kills the CUDA process if one call takes too long. Blocks up to the deadlines.
 */

enum cuda_end {
	CUDA_END_REPORTED, /* .last is the END note: all devices were tested, or why none */
	CUDA_END_HUNG,     /* in the step of .last */
	CUDA_END_CRASHED,  /* in the step of .last; .how describes the end */
};

struct cuda_run {
	int count;                 /* devices that CUDA sees; -1: no COUNT note came */
	struct cuda_note *results; /* in the order of arrival */
	size_t n_results;
	enum cuda_end end;
	struct cuda_note last;
	char how[96];
};

/* Runs CUDA on @uuids only (a comma list for CUDA_VISIBLE_DEVICES; NULL: does not set that
 * variable). < 0: the process could not be started, or sent a malformed note. */
int cuda_run(struct cuda_run *ret, const char *library, const char *uuids, uint64_t timeout_ns,
	struct error *err) MUST_USE;
void cuda_run_fini(struct cuda_run *r);
