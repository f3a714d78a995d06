/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The families of ours. Each file has those of one kind of thing, with their table; own/families.c lists the
 * tables in the order of the text. Every series has the label node.
 *
 * A container whose name comes twice on a unit (a pod that was made again within the time that ended ones are
 * listed) has one line, that of the later one; what the earlier one counted goes to the unit's "ended" counters, so
 * that the sums of view.h can be made from the text as well.
 * Thread: that of the writer.
 */
#include "node/metrics/rows.h"

struct metrics_own {
	struct metrics_writer *w;
	struct metrics_text node;
	struct metrics_text *gpus, *devices,
		*resources;        /* label blocks, by position in the view */
	struct metrics_text *uses; /* len 0: not listed */
	struct metrics_text *live; /* the same of those that are live */
	uint32_t *order;           /* uses by namespace, pod, container */
	uint32_t n_order;
	struct view_past *ended; /* by unit: past, and uses that are not listed */
	const void **objects;    /* room for as many as there are of anything */
};

int metrics_own_init(struct metrics_own *own, struct metrics_writer *w,
	struct error *err) MUST_USE;
void metrics_own_fini(struct metrics_own *own);

/* Both end in the same container's series but for the unit. */
bool metrics_is_same_container(const struct view_use *a, const struct view_use *b);

/* @n rows of objects in an array of @stride. */
void metrics_own_rows(struct metrics_own *own, const struct metrics_row *rows, size_t n_rows,
	const void *array, size_t stride, uint32_t n, const struct metrics_text *labels);

/* A line with one more label than @base has. */
void metrics_line_with(struct metrics_writer *w, struct metrics_text base, const char *name,
	const char *value, enum metrics_kind kind, uint64_t number);

/* A line of a cost counter, with its currency if that is known. */
void metrics_line_cost(struct metrics_own *own, struct metrics_text base, uint64_t nano);

/* @nano times @millionths, rounded down. */
uint64_t metrics_scale_cost(uint64_t nano, uint64_t millionths);

void metrics_own_node(struct metrics_own *own);
void metrics_own_resources(struct metrics_own *own);
void metrics_own_gpus(struct metrics_own *own);
void metrics_own_devices(struct metrics_own *own);
void metrics_own_containers(struct metrics_own *own);
void metrics_own_slices(struct metrics_own *own);
void metrics_own_opencost(struct metrics_own *own);
void metrics_own_agent(struct metrics_own *own);
void metrics_own_web(struct metrics_own *own);

/* The tables, for own/families.c. */
struct metrics_table {
	const struct metrics_row *rows;        /* or */
	const struct metrics_family *families; /* NULL: .rows */
	size_t n;
};
extern const struct metrics_table metrics_node_tables[2], metrics_resource_tables[2],
	metrics_gpu_tables[2], metrics_device_tables[2], metrics_container_tables[3],
	metrics_slice_tables[3], metrics_opencost_tables[1], metrics_agent_tables[2],
	metrics_web_tables[1];
