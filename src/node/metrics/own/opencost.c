/* SPDX-License-Identifier: Apache-2.0 */
#include "node/metrics/own/own.h"

/*
 * The inputs of OpenCost's GPU costs, with its names and labels: the price of one GPU, unscaled, and the share of
 * a GPU that each container holds. OpenCost itself knows only whole GPUs; the operator must tell OpenCost to drop
 * its own series of these names. gpuslice assigns the node's whole price to the GPUs; OpenCost divides it among
 * GPUs, CPUs and memory.
 */

enum { HOURLY, COUNT, ALLOCATION };

static const struct metrics_family families[] = {
	[HOURLY] = { "node_gpu_hourly_cost", NULL, "Price of one GPU of the node per hour",
		METRICS_GAUGE, "instance, instance_type, region, arch" },
	[COUNT] = { "node_gpu_count", NULL, "GPUs of the node that NVML has reported",
		METRICS_GAUGE, "instance, instance_type, region, arch" },
	[ALLOCATION] = { "container_gpu_allocation", NULL,
		"GPUs that the container has, in parts of a whole one", METRICS_GAUGE,
		"instance, namespace, pod, container" },
};

const struct metrics_table metrics_opencost_tables[1] = {
	{ .families = families, .n = ARRAY_LEN(families) },
};

#if defined(__x86_64__)
#	define ARCH "amd64"
#elif defined(__aarch64__)
#	define ARCH "arm64"
#else
#	define ARCH ""
#endif

static void write_container_allocation(struct metrics_own *own, struct metrics_text node,
	const struct view_use *use, uint64_t share)
{
	struct metrics_writer *w = own->w;
	uint32_t start = metrics_labels_from(w, node);

	metrics_label(w, start, "namespace", use->namespace_);
	metrics_label(w, start, "pod", use->pod);
	metrics_label(w, start, "container", use->container);
	metrics_line(w, metrics_labels_end(w, start), METRICS_MICRO, share);
	metrics_labels_drop(w, start);
}

/* One line for each container, over all its GPUs: own->order has its uses one after the other. */
static void write_node_allocations(struct metrics_own *own, struct metrics_text node)
{
	const struct view *v = own->w->v;
	uint64_t share = 0;

	for (uint32_t i = 0; i < own->n_order; i++) {
		const struct view_use *use = &v->uses[own->order[i]];
		const struct view_use *next =
			i + 1 < own->n_order ? &v->uses[own->order[i + 1]] : NULL;

		share += use->live && use->allocation_current ? use->share : 0;
		if (next && metrics_is_same_container(use, next))
			continue;
		if (share)
			write_container_allocation(own, node, use, share);
		share = 0;
	}
}

void metrics_own_opencost(struct metrics_own *own)
{
	struct metrics_writer *w = own->w;
	const struct view *v = w->v;
	uint32_t start;
	struct metrics_text node, kind;

	if (!w->o->opencost)
		return;
	start = metrics_labels_from(w, own->node);
	metrics_label(w, start, "instance", v->node);
	node = metrics_labels_end(w, start);
	start = metrics_labels_from(w, node);
	metrics_label(w, start, "instance_type", v->instance_type);
	metrics_label(w, start, "region", v->region);
	metrics_label(w, start, "arch", ARCH);
	kind = metrics_labels_end(w, start);

	metrics_begin(w, &families[HOURLY]);
	if (v->priced && v->n_gpus)
		metrics_line(w, kind, METRICS_NANO, v->price_nano_per_hour / v->n_gpus);
	metrics_begin(w, &families[COUNT]);
	if (view_gpus_known(v))
		metrics_line(w, kind, METRICS_COUNT, v->n_gpus);
	metrics_begin(w, &families[ALLOCATION]);
	write_node_allocations(own, node);
}
