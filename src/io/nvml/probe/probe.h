/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads GPUs through NVML into plain data, each GPU for itself: what goes wrong on one is written
 * into its own fault and reason, and costs the others nothing.
 *
 * A GPU is as it should be when its handle, UUID and name can be read and no call says that it is
 * lost or needs a reset. Everything else is optional: an error leaves the field unknown.
 * Thread: one at a time for each struct probe.
 */
#include "model/gpu/gpu.h"
#include "io/nvml/nvml.h"
#include "io/nvml/proto.h"

struct probe {
	const struct nvml *nvml;
	const char *sysfs;       /* "/sys" */
	const char *procfs;      /* "/proc" */
	_Atomic uint64_t *crumb; /* where to say what is being done; never NULL */
	uint32_t count;          /* of crumbs */
};

/* Says that @step is about to be done on @gpu (WORKER_GPU_NONE: on none). */
void probe_crumb(struct probe *p, uint32_t gpu, unsigned step);

/* A call of NVML with its crumb: PROBE_CALL(p, 3, nvmlDeviceGetUUID, d, buf, sizeof buf). */
#define PROBE_CALL(p, gpu, name, ...) \
	(probe_crumb((p), (gpu), NVML_CALL_##name), (p)->nvml->name(__VA_ARGS__))

/* Gives @g a fault, unless it has one: what comes after the first is mostly its echo. */
void probe_set_fault(struct gpu *g, enum gpu_fault fault, const char *why);

/*
 * Look at the result @r of a @call about @g. True: it worked. What says that the GPU as a whole is
 * gone is its fault even after an optional call; after a needed one any failure is.
 */
bool probe_optional(struct probe *p, struct gpu *g, enum nvml_call call, nvmlReturn_t r);
bool probe_needed(struct probe *p, struct gpu *g, enum nvml_call call, nvmlReturn_t r);

/* Reads the GPU @index. *ret_device is NULL if there is no handle. Never fails: see g->fault. */
void probe_gpu(struct probe *p, uint32_t index, struct gpu *g, nvmlDevice_t *ret_device);

/*
 * Reads how close the @n GPUs are into @links[n * n]. GPUs without a handle, and what cannot be
 * read, are UNKNOWN. Links are counted as NVIDIA's plugin does, by the PCI address at the other
 * end, so a link into an NVSwitch counts for no pair.
 */
void probe_links(struct probe *p, uint32_t n, const struct gpu *gpus,
	const nvmlDevice_t *devices, struct gpu_link *links);

/* Reads besides which of them can reach which over NVLink, as far as there are handles. What NVML does not say is
 * GPU_P2P_UNKNOWN. */
void probe_p2p(struct probe *p, uint32_t n, const struct gpu *gpus, const nvmlDevice_t *devices,
	struct gpu_link *links);

/*
 * A number that changes when GPUs are bound to or taken from the kernel driver; 0 if sysfs cannot
 * say. An NVML session has the list of its start, so this is how to know that a new one is due.
 */
uint64_t probe_bound_gpus(struct probe *p);

/* The number of a field value, if it is one and not negative. */
bool probe_field_uint(const nvmlFieldValue_t *f, uint64_t *ret);

/* Copies foreign text: printable ASCII as it is, '?' for the rest, cut to @cap. */
void probe_text(char *to, size_t cap, const char *from);
