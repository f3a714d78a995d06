/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The families of gpuslice. Each file has the families of one kind of object, with their table; metrics.c
 * lists the tables in the order of the text. Every series has the label node.
 *
 * If a pod is recreated while its ended use is still listed, a device has a container of the same name twice.
 * Only the later use has a line. The counters of the earlier use are added to the device's "ended" counters, so
 * that the sums of view.h hold in the text too.
 * Thread: that of the writer.
 */
#include "node/metrics/write.h"

struct metrics_own {
	struct metrics_writer *w;
	struct metrics_text node;
	/* Label blocks, by position in the view. len 0: the object has no lines. */
	struct metrics_text *gpus, *devices, *resources;
	struct metrics_text *uses;
	struct metrics_text *live; /* as .uses, but len 0 for ended uses, too */
	uint32_t *order;           /* positions of uses, by namespace, pod, container */
	uint32_t n_order;
	struct view_past *ended; /* by device: past, and uses without lines */
	const void **objects;    /* space for the objects of any one kind */
};

/* Makes the label blocks of @w's view. ERR_NOMEM: the caller still calls metrics_own_fini(). */
int metrics_own_init(struct metrics_own *own, struct metrics_writer *w,
	struct error *err) MUST_USE;
void metrics_own_fini(struct metrics_own *own);

/* Whether both are uses of one container, on any device. */
bool metrics_is_same_container(const struct view_use *a, const struct view_use *b);

/* metrics_rows() for the @n objects of @array, each of @stride bytes, with their label blocks. @n is at most the
 * largest count of objects of one kind in the view. */
void metrics_own_rows(struct metrics_own *own, const struct metrics_row *rows, size_t n_rows,
	const void *array, size_t stride, uint32_t n, const struct metrics_text *labels);

/* A line with one more label than @base has. */
void metrics_line_with(struct metrics_writer *w, struct metrics_text base, const char *name,
	const char *value, enum metrics_kind kind, uint64_t number);

/* A line of a cost counter, with its currency if that is known. */
void metrics_line_cost(struct metrics_own *own, struct metrics_text base, uint64_t nano);

/* @nano times @millionths, rounded down. */
uint64_t metrics_scale_cost(uint64_t nano, uint64_t millionths);

/* Each writes the families of one file. Errors are in the writer's buffers. */
void metrics_own_node(struct metrics_own *own);
void metrics_own_resources(struct metrics_own *own);
void metrics_own_gpus(struct metrics_own *own);
void metrics_own_devices(struct metrics_own *own);
void metrics_own_containers(struct metrics_own *own);
void metrics_own_slices(struct metrics_own *own);
void metrics_own_opencost(struct metrics_own *own);
void metrics_own_agent(struct metrics_own *own);
void metrics_own_web(struct metrics_own *own);

/* A table of @n families, for metrics.c. */
struct metrics_table {
	const struct metrics_row *rows;        /* NULL: the table is .families */
	const struct metrics_family *families; /* NULL: the table is .rows */
	size_t n;
};
/* In the order of their families in the text. */
extern const struct metrics_table metrics_node_tables[2], metrics_resource_tables[2],
	metrics_gpu_tables[2], metrics_device_tables[2], metrics_container_tables[3],
	metrics_slice_tables[3], metrics_opencost_tables[1], metrics_agent_tables[2],
	metrics_web_tables[1];
