/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One look at the figures of all GPUs and MIG devices: what NVML and GPM say of each field that was asked
 * for, its memory, how long it was busy since the look before, and which processes use it. What is not
 * known is absent, never zero.
 *
 * Busy times: of a unit, how long it had work (GPM's GR_ENGINE_ACTIVE where there is GPM, else NVML's
 * utilization); of a process, its part by NVML's process utilization, never more in sum than the unit's.
 * Thread: owner's (plain data).
 */
#include "model/field/field.h"
#include "model/gpu/gpu.h"

struct sample_value {
	uint16_t field; /* position in fields[] */
	uint8_t padding[6];
	union {
		int64_t i;   /* FIELD_INT */
		double real; /* FIELD_REAL; never NaN */
	};
};

#define SAMPLE_TEXT_MAX 96
struct sample_text {
	uint16_t field;
	char text[SAMPLE_TEXT_MAX];
};

struct sample_process {
	uint32_t pid; /* in our PID namespace */
	bool busy_known;
	uint64_t bytes;   /* GPU_BYTES_UNKNOWN */
	uint64_t busy_ns; /* in the interval of the unit */
};

/* A GPU, also one in MIG mode, or a MIG device. */
struct sample_device {
	char uuid[GPU_UUID_MAX];
	uint32_t gpu;    /* NVML index */
	uint32_t gi, ci; /* GPU_NO_INSTANCE: a GPU */
	uint64_t at_ns;  /* monotonic: when it was read */
	uint64_t
		interval_ns; /* that busy times are of; 0: the first look at it, so none is known */
	bool memory_known, busy_known, processes_known;
	uint64_t memory_total, memory_used, memory_free,
		memory_reserved; /* bytes, as NVML says them */
	bool reserved_known;     /* drivers before 510 count it as used */
	uint64_t busy_ns;        /* at most interval_ns */
	uint32_t n_values, n_texts, n_processes;
	struct sample_value *values; /* by field */
	struct sample_text *texts;
	struct sample_process *processes;
	char reason[GPU_REASON_MAX]; /* why it could not be read; "" */
};

struct sample {
	uint32_t n;
	struct sample_device *devices; /* by GPU index; a GPU before its MIG devices */
	uint64_t nvml_calls, nvml_ns;  /* what it cost */
};

/* An empty one with room for @n units, all zero but gi and ci. */
int sample_new(struct sample **ret, uint32_t n, struct error *err) MUST_USE;
struct sample *sample_free(struct sample *s); /* returns NULL */
DEFINE_CLEANUP(struct sample *, sample_free)

/* Borrowed; NULL: no such unit. */
const struct sample_device *sample_find(const struct sample *s, const char *uuid);
/* The value of a field of @u by its position; NULL: not known. Borrowed. */
const struct sample_value *sample_value(const struct sample_device *u, uint16_t field);
const char *sample_text(const struct sample_device *u, uint16_t field);
