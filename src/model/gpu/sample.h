/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One sample of all GPUs and MIG devices: the requested fields from NVML and GPM, memory, busy time since
 * the sample before, and the processes. Unknown values are absent, never zero.
 *
 * Busy time of a device: how long the device had work, by GPM's GR_ENGINE_ACTIVE where GPM exists, else by
 * NVML's utilization. Busy time of a process: its part by NVML's process utilization. The sum over the
 * processes is never more than the device's busy time.
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
	uint32_t pid; /* in the agent's PID namespace */
	bool busy_known;
	uint64_t bytes;   /* or GPU_BYTES_UNKNOWN */
	uint64_t busy_ns; /* within the device's interval */
};

/* A GPU (also in MIG mode) or a MIG device. */
struct sample_device {
	char uuid[GPU_UUID_MAX];
	uint32_t gpu;    /* NVML index */
	uint32_t gi, ci; /* GPU_NO_INSTANCE: a whole GPU */
	uint64_t at_ns;  /* time of the sample; ns of the monotonic clock */
	/* period of the busy times; 0: first sample of the device, busy times unknown */
	uint64_t interval_ns;
	bool memory_known, busy_known, processes_known;
	/* bytes, as reported by NVML */
	uint64_t memory_total, memory_used, memory_free, memory_reserved;
	bool reserved_known; /* drivers before 510 count reserved memory as used */
	uint64_t busy_ns;    /* at most interval_ns */
	uint32_t n_values, n_texts, n_processes;
	struct sample_value *values; /* by field */
	struct sample_text *texts;
	struct sample_process *processes;
	char reason[GPU_REASON_MAX]; /* why the device could not be read; "" */
};

struct sample {
	uint32_t n;
	struct sample_device *devices; /* by GPU index; a GPU before its MIG devices */
	uint64_t nvml_calls, nvml_ns;  /* cost of the sample: NVML calls, and their time */
};

/* A sample of @n devices, zeroed except gi and ci (GPU_NO_INSTANCE). */
int sample_new(struct sample **ret, uint32_t n, struct error *err) MUST_USE;
struct sample *sample_free(struct sample *s); /* returns NULL */
DEFINE_CLEANUP(struct sample *, sample_free)

/* Borrowed; NULL: no such device. */
const struct sample_device *sample_find(const struct sample *s, const char *uuid);
/* The value of a field of @device by the field's position; NULL: unknown. Borrowed. */
const struct sample_value *sample_value(const struct sample_device *device, uint16_t field);
/* The text of a FIELD_TEXT field of @device by the field's position; NULL: unknown. Borrowed. */
const char *sample_text(const struct sample_device *device, uint16_t field);
