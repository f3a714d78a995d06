/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * DCGM_* families with dcgm-exporter's labels.
 *
 * A device is a GPU or a GPU instance (MIG devices that are cut out of one instance are one device, since the
 * figures are the instance's). Of a GPU in MIG mode the board has what only a board can have, and the instances
 * what instances have, so no sum counts anything twice; .per_instance_board brings dcgm-exporter's copies back.
 *
 * Pods. A device that one container has for itself has that container's labels on all its series, as
 * dcgm-exporter writes them. A shared one keeps its series without pod labels, whoever comes and goes, and each
 * container has its measured part beside it, of what can be measured for it:
 *	DCGM_FI_DEV_GPU_UTIL           its busy time of the last interval, in percent
 *	DCGM_FI_PROF_GR_ENGINE_ACTIVE  the same as a ratio (of the instance, under MIG)
 *	DCGM_FI_DEV_FB_USED            its memory in MiB
 * The parts are at most the whole in sum, but for rounding; what is left is in our own families ("other").
 * With .virtual_gpus each series is repeated for each container instead, but these three, which are parts there too.
 * Thread: that of the writer.
 */
#include "node/metrics/write.h"

/* A container on a device. */
struct dcgm_container {
	const struct view_use *use;
	bool memory_known, busy_known;
	uint64_t memory;            /* bytes */
	uint64_t busy;              /* millionths of a whole GPU */
	struct metrics_text labels; /* the device's and its own */
};

struct dcgm_device {
	const struct view_gpu *gpu;
	const struct view_device
		*mig_device; /* the first MIG device of an instance; NULL: a GPU */
	const struct sample_device *sample, *board; /* NULL: not known */
	bool divided;                               /* a GPU whose instances stand beside it */
	bool alone;                                 /* its only part has it for itself */
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

int dcgm_devices_make(struct dcgm_devices *ret, struct metrics_writer *w,
	struct error *err) MUST_USE;
void dcgm_devices_fini(struct dcgm_devices *d);

/* Labels that a series has besides those of its device and pod. */
struct dcgm_label {
	const char *name, *value;
};
#define DCGM_LABELS_MAX 80 /* 64 of the pod */

/* Adds @extra and the labels of the container (NULL: none) behind what the block has, by name. */
void dcgm_labels_add(struct metrics_writer *w, uint32_t start, const struct view_use *use,
	const struct dcgm_label *extra, size_t n_extra);

/* The text of a value as dcgm-exporter writes it; false: not known. */
#define DCGM_VALUE_MAX 128
bool dcgm_value(const struct dcgm_device *d, const struct view *v, uint16_t field, bool copies,
	bool raw_units, char *ret);

/* The families of the counters file. */
int dcgm_write(struct metrics_writer *w, struct error *err) MUST_USE;
