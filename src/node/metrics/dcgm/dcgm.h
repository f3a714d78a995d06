/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * DCGM_* families with dcgm-exporter's labels.
 *
 * Devices. A device is a GPU or a GPU instance. MIG devices in one instance are one device, since the figures are
 * the instance's. Of a GPU in MIG mode the board has the figures that only a board has, and the instances have
 * the figures of instances. So no sum counts anything twice. .per_instance_board restores dcgm-exporter's copies
 * of the board's figures.
 *
 * Pods. If one container has a device for itself, all series of the device have that container's labels, as in
 * dcgm-exporter. A shared device keeps its series without pod labels, whichever containers come and go. Beside
 * them, each container has its measured part of
 *	DCGM_FI_DEV_GPU_UTIL           its busy time of the last interval, in percent;
 *	DCGM_FI_PROF_GR_ENGINE_ACTIVE  its busy time as a ratio (of the instance, under MIG);
 *	DCGM_FI_DEV_FB_USED            its memory in MiB.
 * The sum of the parts is at most the whole, except for rounding. The rest is in gpuslice's own families
 * ("other"). With .virtual_gpus each series is repeated for each container, except these three, which are parts
 * there too.
 * Thread: that of the writer.
 */
#include "node/metrics/write.h"

/* A container on a device. */
struct dcgm_container {
	const struct view_use *use;
	bool memory_known, busy_known;
	uint64_t memory;            /* bytes */
	uint64_t busy;              /* millionths of a whole GPU */
	struct metrics_text labels; /* the device's and the container's */
};

struct dcgm_device {
	const struct view_gpu *gpu;
	/* The first MIG device of an instance; NULL: the device is a GPU. */
	const struct view_device *mig_device;
	const struct sample_device *sample, *board; /* NULL: not known */
	bool divided;                               /* a GPU beside its own instances */
	bool alone;                                 /* its only container has it for itself */
	uint32_t share;                             /* millionths of a whole GPU */
	uint32_t first_container, n_containers;
	struct metrics_text fixed;  /* labels without a pod */
	struct metrics_text labels; /* of its series */
};

struct dcgm_devices {
	struct metrics_writer *w;
	struct dcgm_device *devices;
	struct dcgm_container *containers;
	uint32_t n, n_containers, n_instances;
};

/* The devices of @w's view that the options select, with their containers and label blocks. They point into the
 * view. ERR_NOMEM: the caller still calls dcgm_devices_fini(). */
int dcgm_devices_make(struct dcgm_devices *ret, struct metrics_writer *w,
	struct error *err) MUST_USE;
void dcgm_devices_fini(struct dcgm_devices *d);

/* Labels that a series has besides those of its device and pod. */
struct dcgm_label {
	const char *name, *value;
};
#define DCGM_LABELS_MAX 80 /* 64 of the pod */

/* Appends @extra and the labels of the container (NULL: none) to the block, by name. */
void dcgm_labels_add(struct metrics_writer *w, uint32_t start, const struct view_use *use,
	const struct dcgm_label *extra, size_t n_extra);

#define DCGM_VALUE_MAX 128
/*
 * Writes the text of a value as dcgm-exporter writes it to @ret, of DCGM_VALUE_MAX bytes. @field: position in
 * fields[]. @copies: also a figure of the board at an instance, or of instances at their board. @raw_units: rates
 * in MiB/s. False: not known.
 */
bool dcgm_value(const struct dcgm_device *d, const struct view *v, uint16_t field, bool copies,
	bool raw_units, char *ret);

/* The families of the counters file. */
int dcgm_write(struct metrics_writer *w, struct error *err) MUST_USE;
