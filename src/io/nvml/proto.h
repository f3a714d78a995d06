/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the agent and its NVML worker say to each other.
 *
 *	agent                        gpuslice-nvml
 *	  │ ── PROBE (skip, known) ──▶ │     one look at all GPUs but those to skip
 *	  │ ◀── BEGIN, (GPU, MIG?)…, LINKS…, END
 *	  │ ── READ (GPUs) ──────────▶ │     who uses them, now; also while a look is under way
 *	  │ ◀── PROCESSES…, READ_END
 *	  │ ── SAMPLE (fields) ──────▶ │     the figures of all GPUs that the last look could touch
 *	  │ ◀── (UNIT, VALUES?, TEXTS?, USERS…)…, SAMPLE_END
 *	  │ ◀── XID, LOOK              │     at any time
 *	  │ ◀── ERROR or REINIT        │     last words: the worker ends after them
 *
 * One packet a message on a SOCK_SEQPACKET pair, which the worker has as descriptor 3. Both ends
 * are of one build; the version in the head says so. The agent still treats every packet as a
 * stranger's, since a broken libnvidia-ml may have written anywhere in the worker's memory.
 *
 * Descriptor 4 is one shared page with breadcrumbs: before each call into NVML a thread of the
 * worker stores the call's number and the GPU's index there. A crumb that lies still is a call that
 * hangs. It costs the worker one store, and the agent nothing while all is well.
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
	WORKER_PROBE_HINT, /* something happened that is worth a look */
	WORKER_ERROR,      /* NVML cannot be used */
	WORKER_REINIT,     /* GPUs came or went: only a new NVML session will see it */
	WORKER_MIG,        /* all MIG devices of a GPU in MIG mode, behind its GPU */
	WORKER_READ,
	WORKER_PROCESSES, /* of one GPU; of one with very many, several in a row */
	WORKER_READ_END,
	WORKER_SAMPLE,
	WORKER_DEVICE, /* a GPU or a MIG device; what follows up to the next is of it */
	WORKER_VALUES, /* at most one of a unit */
	WORKER_TEXTS,  /* likewise */
	WORKER_USERS,  /* of one with many processes, several in a row */
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
	uint16_t skip[GPU_NODE_MAX]; /* NVML indexes that are not to be touched */
	uint64_t known
		[GPU_NODE_MAX]; /* worker_uuid_hash() of GPUs whose links are known, as far as wanted */
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

/* Not sent of a GPU whose list could not be read: then those known before stay. */
struct worker_mig {
	struct worker_head head;
	uint32_t seq;
	uint32_t gpu; /* NVML index, in each of .mig as well */
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
	char uuid[GPU_UUID_MAX]; /* "": NVML did not say which */
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
	int32_t code;  /* of the call that said no; 0: the list is good */
	uint32_t call; /* that one: enum nvml_call */
	uint32_t n, padding;
	char uuid[GPU_UUID_MAX]; /* of that GPU in the last look */
	struct gpu_process v[WORKER_PROCESSES_MAX];
};

struct worker_read_end {
	struct worker_head head;
	uint32_t seq;
};

/* ---- samples ---------------------------------------------------------------------------------- */

#define WORKER_FIELD_WORDS ((FIELDS_MAX + 63) / 64)

struct worker_sample {
	struct worker_head head;
	uint32_t seq, padding;
	uint64_t interval_ns;                /* until the next one, about */
	uint64_t wanted[WORKER_FIELD_WORDS]; /* bit: position in fields[] */
};

#define WORKER_DEVICE_MEMORY    1U /* flags of what is known */
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
	uint64_t at_ns, interval_ns, busy_ns; /* as in struct sample_device, and so on */
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
	uint64_t calls, ns; /* what it took the worker */
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

/* Different for any two builds that could misunderstand each other. */
uint32_t worker_version(void);

/* Fills the head. The length is that of the type's struct. */
void worker_head(struct worker_head *h, enum worker_type type);

/*
 * Whether the @len bytes in @m are a message: length, texts that end, numbers in range, and only
 * values that the types can hold. After it, the message of its type may be read as it stands.
 */
int worker_msg_check(const union worker_msg *m, size_t len, struct error *err) MUST_USE;

uint64_t worker_uuid_hash(const char *uuid);

/* ---- breadcrumbs ------------------------------------------------------------------------------ */

enum worker_slot { WORKER_SLOT_PROBE, WORKER_SLOT_EVENTS, WORKER_SLOT_COUNT_ };

/* Numbers of steps that may hang as well, behind those of the calls. */
enum {
	WORKER_STEP_OPEN = NVML_CALL_COUNT_, /* dlopen() */
	WORKER_STEP_SYSFS,
	WORKER_STEP_PROCFS,
	WORKER_STEP_COUNT_,
	WORKER_STEP_NONE = 0xFFFF,
};

#define WORKER_GPU_NONE 0xFFFFu

struct worker_crumbs {
	_Atomic uint64_t
		slot[WORKER_SLOT_COUNT_]; /* count << 32 | gpu << 16 | step; 0: no thread */
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

/* "nvmlDeviceGetName", "open of the library"; for any number. Static. */
const char *worker_step_name(unsigned step);
