/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads GPUs through NVML into plain data. A failure on one GPU goes into the fault and reason of that GPU, and
 * does not affect the others.
 *
 * A GPU is healthy when its handle, UUID, name and MIG mode can be read and no call says that it is lost or needs
 * a reset. (No MIG at all is an answer.) Everything else is optional: an error leaves the field unknown.
 *
 * Thread: one at a time for each struct probe.
 */
#include "model/gpu/gpu.h"
#include "io/nvml/nvml.h"
#include "io/nvml/proto.h"

struct probe {
	const struct nvml *nvml;
	const char *sysfs;       /* "/sys" */
	const char *procfs;      /* "/proc" */
	_Atomic uint64_t *crumb; /* where the present step is stored; never NULL */
	uint32_t count;          /* of crumbs */
};

/* Stores that @step is about to be done on @gpu (WORKER_GPU_NONE: on none). */
void probe_crumb(struct probe *p, uint32_t gpu, unsigned step);

/* Calls NVML, with a crumb before: PROBE_CALL(p, 3, nvmlDeviceGetUUID, d, buf, sizeof buf). */
#define PROBE_CALL(p, gpu, name, ...) \
	(probe_crumb((p), (gpu), NVML_CALL_##name), (p)->nvml->name(__VA_ARGS__))

/* Sets the fault of @g unless it has one: later faults are mostly consequences of the first. */
void probe_set_fault(struct gpu *g, enum gpu_fault fault, const char *why);

/*
 * Check the result @r of a @call about @g. True: the call succeeded. After either call an error that says that
 * the whole GPU is gone becomes the GPU's fault. After a needed call any other error becomes GPU_FAULT_FIELD.
 */
bool probe_optional(struct probe *p, struct gpu *g, enum nvml_call call, nvmlReturn_t r);
bool probe_needed(struct probe *p, struct gpu *g, enum nvml_call call, nvmlReturn_t r);

/* Reads the GPU @index. *ret_device is NULL if NVML gives no handle. Never fails: see g->fault. */
void probe_gpu(struct probe *p, uint32_t index, struct gpu *g, nvmlDevice_t *ret_device);

/*
 * Reads the topology level and NVLinks of each pair of the @n GPUs into @links[n * n]. Pairs with a GPU without
 * handle, and levels that cannot be read, are UNKNOWN. As in NVIDIA's plugin, the PCI address at the other end
 * decides to which pair a link counts. A link into an NVSwitch therefore counts for no pair.
 */
void probe_links(struct probe *p, uint32_t n, const struct gpu *gpus,
	const nvmlDevice_t *devices, struct gpu_link *links);

/*
 * Reads for each pair with handles whether the GPUs reach each other over NVLink. GPU_P2P_UNKNOWN: NVML does not
 * support the call, or returns no state that it defines. After another error .p2p stays 0, not read.
 */
void probe_p2p(struct probe *p, uint32_t n, const struct gpu *gpus, const nvmlDevice_t *devices,
	struct gpu_link *links);

/*
 * A number that changes when GPUs are bound to or unbound from the kernel driver; 0: sysfs is unreadable. An NVML
 * session keeps the list of GPUs of its start, so a change means that a new session is due.
 */
uint64_t probe_bound_gpus(struct probe *p);

/* The number in a field value. False: an error, not an integer, or negative. */
bool probe_field_uint(const nvmlFieldValue_t *f, uint64_t *ret);

/* Copies foreign text: printable ASCII unchanged, '?' for the rest, cut to @cap. */
void probe_text(char *to, size_t cap, const char *from);

/* --- processes --- */

/*
 * The processes on a GPU, from NVML's three lists (compute, graphics, MPS). A process in several lists is one
 * entry, with the larger figure: each list gives all memory of the process on that GPU. For a GPU in MIG mode the
 * lists have an entry for each pair of process and instance.
 */

#define PROBE_PROCESSES_MAX 4096 /* of one GPU, all lists together; further ones are left out */

struct probe_processes {
	uint32_t n;
	int32_t code;  /* of the first call that failed; 0: the list is good */
	uint32_t call; /* enum nvml_call: the call that failed */
	struct gpu_process v[PROBE_PROCESSES_MAX];
	nvmlProcessInfo_t raw[PROBE_PROCESSES_MAX]; /* room for one list */
};

/*
 * Fills @ret. A library without the lists of graphics and MPS has no such processes. Any other failure sets .code
 * and leaves no process in .v. A list that is longer than .raw is such a failure, too (INSUFFICIENT_SIZE).
 */
void probe_processes(struct probe *p, uint32_t gpu, nvmlDevice_t device,
	struct probe_processes *ret);
