/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The protocol between the agent and its NVML worker.
 *
 *	agent                        gpuslice-nvml
 *	  │ ── PROBE (skip, known) ──▶ │     one probe of all GPUs but those to skip
 *	  │ ◀── BEGIN, (GPU, MIG?)…, LINKS…, END
 *	  │ ── READ (GPUs) ──────────▶ │     the processes on them; also while a probe is under way
 *	  │ ◀── PROCESSES…, READ_END
 *	  │ ── SAMPLE (fields) ──────▶ │     the figures of all GPUs that the last probe could touch
 *	  │ ◀── (DEVICE, VALUES?, TEXTS?, USERS…)…, SAMPLE_END
 *	  │ ◀── XID, PROBE_HINT        │     at any time
 *	  │ ◀── ERROR or REINIT        │     last message: the worker ends after it
 *
 * Messages. Each message is one packet on a SOCK_SEQPACKET pair; the worker's end is descriptor 3. Both ends
 * are of one build, which the version in the head proves. The agent nevertheless checks every packet like that
 * of an untrusted sender: a broken libnvidia-ml may have written anywhere in the worker's memory.
 *
 * Breadcrumbs. Descriptor 4 is one shared page. Before each NVML call a thread of the worker stores the number
 * of the call and the index of the GPU there. A crumb that does not change is a call that hangs. A crumb costs
 * the worker one store; the agent reads the page periodically, without a system call (client_check()).
 *
 * Thread: any (no state).
 */
#include "model/gpu/gpu.h"
#include "model/gpu/sample.h"
#include "io/nvml/nvml.h"

#include <stdatomic.h>

#define WORKER_FD_SOCKET 3
#define WORKER_FD_CRUMBS 4
#define WORKER_MAGIC     UINT32_C(0x4e535047) /* "GPSN" */

enum worker_type {
	WORKER_PROBE = 1,
	WORKER_BEGIN,
	WORKER_GPU,
	WORKER_LINKS,
	WORKER_END,
	WORKER_XID,
	WORKER_PROBE_HINT, /* an event makes a probe worthwhile */
	WORKER_ERROR,      /* NVML cannot be used */
	WORKER_REINIT,     /* GPUs were added or removed: only a new NVML session sees that */
	WORKER_MIG,        /* all MIG devices of a GPU in MIG mode, after its GPU */
	WORKER_READ,
	WORKER_PROCESSES, /* of one GPU; several in a row if it has many */
	WORKER_READ_END,
	WORKER_SAMPLE,
	WORKER_DEVICE, /* a GPU or MIG device; the messages up to the next are of it */
	WORKER_VALUES, /* at most one for each device */
	WORKER_TEXTS,  /* at most one for each device */
	WORKER_USERS,  /* several in a row for a device with many processes */
	WORKER_SAMPLE_END,
	WORKER_TYPE_COUNT_,
};

struct worker_head {
	uint32_t magic, version, type;
	uint32_t len; /* of the whole packet */
};

struct worker_probe {
	struct worker_head head;
	uint32_t seq;
	uint32_t n_skip, n_known;
	uint32_t p2p;                /* 1: links with .p2p */
	uint16_t skip[GPU_NODE_MAX]; /* NVML indexes of GPUs not to touch */
	/* worker_uuid_hash() of GPUs with known links (.p2p, too, if requested) */
	uint64_t known[GPU_NODE_MAX];
};

struct worker_begin {
	struct worker_head head;
	uint32_t seq, n;
	int32_t cuda_version;
	char driver_version[80], nvml_version[80];
};

struct worker_gpu {
	struct worker_head head;
	uint32_t seq, padding;
	struct gpu gpu;
};

/* Not sent if the list of a GPU could not be read. The agent then keeps the MIG devices known before. */
struct worker_mig {
	struct worker_head head;
	uint32_t seq;
	uint32_t gpu; /* NVML index; the same in each .mig */
	uint32_t n, padding;
	struct gpu_mig mig[GPU_MIG_MAX]; /* by index */
};

struct worker_links { /* one row of the matrix */
	struct worker_head head;
	uint32_t seq, row, n;
	struct gpu_link links[GPU_NODE_MAX];
};

struct worker_end {
	struct worker_head head;
	uint32_t seq;
};

struct worker_xid {
	struct worker_head head;
	uint32_t xid, gi, ci;
	char uuid[GPU_UUID_MAX]; /* "": NVML did not say which GPU */
};

struct worker_error {
	struct worker_head head;
	uint32_t code;     /* enum error_code */
	uint32_t mismatch; /* 1: the library does not fit the loaded kernel module */
	char text[ERROR_MSG_MAX];
};

struct worker_read {
	struct worker_head head;
	uint32_t seq, n;
	uint16_t gpus[GPU_NODE_MAX]; /* NVML indexes */
};

#define WORKER_PROCESSES_MAX 256

struct worker_processes {
	struct worker_head head;
	uint32_t seq;
	uint32_t gpu;  /* NVML index */
	int32_t code;  /* of the first call that failed; 0: the list is valid */
	uint32_t call; /* enum nvml_call: the call that failed */
	uint32_t n, padding;
	char uuid[GPU_UUID_MAX]; /* of this GPU in the last probe */
	struct gpu_process v[WORKER_PROCESSES_MAX];
};

struct worker_read_end {
	struct worker_head head;
	uint32_t seq;
};

/* --- samples --- */

#define WORKER_FIELD_WORDS ((FIELDS_MAX + 63) / 64)

struct worker_sample {
	struct worker_head head;
	uint32_t seq, padding;
	uint64_t interval_ns;                /* until the next sample, about */
	uint64_t wanted[WORKER_FIELD_WORDS]; /* bit: position in fields[] */
};

#define WORKER_DEVICE_MEMORY    1U /* flags of .known */
#define WORKER_DEVICE_RESERVED  2U
#define WORKER_DEVICE_BUSY      4U
#define WORKER_DEVICE_PROCESSES 8U
#define WORKER_DEVICE_ALL       15U

struct worker_device {
	struct worker_head head;
	uint32_t seq;
	uint32_t known; /* WORKER_DEVICE_... */
	uint32_t gpu;   /* NVML index */
	uint32_t gi, ci;
	uint32_t padding;
	uint64_t at_ns, interval_ns, busy_ns; /* and below: as in struct sample_device */
	uint64_t memory_total, memory_used, memory_free, memory_reserved;
	char uuid[GPU_UUID_MAX];
	char reason[GPU_REASON_MAX];
};

struct worker_values {
	struct worker_head head;
	uint32_t seq, n;
	struct sample_value v[FIELDS_MAX]; /* by field */
};

#define WORKER_TEXTS_MAX 32

struct worker_texts {
	struct worker_head head;
	uint32_t seq, n;
	struct sample_text v[WORKER_TEXTS_MAX];
};

#define WORKER_USERS_MAX 128

struct worker_users {
	struct worker_head head;
	uint32_t seq, n;
	struct sample_process v[WORKER_USERS_MAX];
};

struct worker_sample_end {
	struct worker_head head;
	uint32_t seq, padding;
	uint64_t calls, ns; /* cost of the sample in the worker */
};

union worker_msg {
	struct worker_head head;
	struct worker_probe probe;
	struct worker_begin begin;
	struct worker_gpu gpu;
	struct worker_mig mig;
	struct worker_links links;
	struct worker_end end;
	struct worker_xid xid;
	struct worker_error error;
	struct worker_read read;
	struct worker_processes processes;
	struct worker_read_end read_end;
	struct worker_sample sample;
	struct worker_device device;
	struct worker_values values;
	struct worker_texts texts;
	struct worker_users users;
	struct worker_sample_end sample_end;
};

/* Fills the head, with the length of the type's struct. */
void worker_head(struct worker_head *h, enum worker_type type);

/*
 * Whether the @len bytes in @m are a valid message: its length, the ends of its texts, the ranges of its numbers,
 * and values that their types can hold. The caller may then read the message of its type directly.
 */
int worker_msg_check(const union worker_msg *m, size_t len, struct error *err) MUST_USE;

/* A hash (FNV) of @uuid, for .known of a PROBE. */
uint64_t worker_uuid_hash(const char *uuid);

/* --- breadcrumbs --- */

enum worker_slot { WORKER_SLOT_PROBE, WORKER_SLOT_EVENTS, WORKER_SLOT_COUNT_ };

/* Numbers of further steps that may hang, after those of the calls. */
enum {
	WORKER_STEP_OPEN = NVML_CALL_COUNT_, /* dlopen() */
	WORKER_STEP_SYSFS,
	WORKER_STEP_PROCFS,
	WORKER_STEP_COUNT_,
	WORKER_STEP_NONE = 0xFFFF,
};

#define WORKER_GPU_NONE 0xFFFFu

struct worker_crumbs {
	/* count << 32 | gpu << 16 | step; 0: no crumb yet */
	_Atomic uint64_t slot[WORKER_SLOT_COUNT_];
};

struct worker_crumb {
	uint32_t count;
	uint16_t gpu, step;
};

static inline uint64_t worker_crumb_pack(struct worker_crumb c)
{
	return (uint64_t)c.count << 32 | (uint32_t)c.gpu << 16 | c.step;
}

static inline struct worker_crumb worker_crumb_unpack(uint64_t v)
{
	return (struct worker_crumb){ .count = (uint32_t)(v >> 32),
		.gpu = (uint16_t)(v >> 16),
		.step = (uint16_t)v };
}

/* "nvmlDeviceGetName", "the opening of the NVML library"; for any number. Static. */
const char *worker_step_name(unsigned step);
