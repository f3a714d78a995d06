/* SPDX-License-Identifier: Apache-2.0 */
#include "node/metrics/own/own.h"

#include <stdlib.h>
#include <string.h>

/* --- helpers of all files --- */

uint64_t metrics_scale_cost(uint64_t nano, uint64_t millionths)
{
	return nano / VIEW_MILLION * millionths +
	       nano % VIEW_MILLION * millionths / VIEW_MILLION;
}

void metrics_own_rows(struct metrics_own *own, const struct metrics_row *rows, size_t n_rows,
	const void *array, size_t stride, uint32_t n, const struct metrics_text *labels)
{
	for (uint32_t i = 0; i < n; i++)
		own->objects[i] = (const char *)array + i * stride;
	metrics_rows(own->w, rows, n_rows,
		&(struct metrics_objects){ .object = own->objects, .labels = labels, .n = n });
}

void metrics_line_with(struct metrics_writer *w, struct metrics_text base, const char *name,
	const char *value, enum metrics_kind kind, uint64_t number)
{
	uint32_t start = metrics_labels_from(w, base);

	metrics_label(w, start, name, value);
	metrics_line(w, metrics_labels_end(w, start), kind, number);
	metrics_labels_drop(w, start);
}

void metrics_line_cost(struct metrics_own *own, struct metrics_text base, uint64_t nano)
{
	const char *currency = metrics_str(own->w->v->currency);

	if (*currency)
		metrics_line_with(own->w, base, "currency", currency, METRICS_NANO, nano);
	else
		metrics_line(own->w, base, METRICS_NANO, nano);
}

bool metrics_is_same_container(const struct view_use *a, const struct view_use *b)
{
	return !strcmp(a->pod, b->pod) && !strcmp(a->namespace_, b->namespace_) &&
	       !strcmp(a->container, b->container);
}

/* --- uses with lines --- */

static int compare_text_lists(const char *a[], const char *b[], size_t n)
{
	int r = 0;

	for (size_t i = 0; i < n && !r; i++)
		r = strcmp(a[i], b[i]);
	return r;
}

static int compare_series(const struct view_use *a, const struct view_use *b, bool uids)
{
	int r = compare_text_lists((const char *[]){ a->namespace_, a->pod, a->container },
		(const char *[]){ b->namespace_, b->pod, b->container }, 3);

	if (!r && uids)
		r = strcmp(a->uid, b->uid);
	if (!r && a->device != b->device)
		r = a->device < b->device ? -1 : 1;
	if (!r && a->mode != b->mode)
		r = a->mode < b->mode ? -1 : 1;
	return r ? r : strcmp(a->resource, b->resource);
}

/* Of several uses with the same series, the first is listed. */
static int compare_use_order(const void *a, const void *b, void *arg)
{
	const struct metrics_own *own = arg;
	const struct view_use *x = &own->w->v->uses[*(const uint32_t *)a],
			      *y = &own->w->v->uses[*(const uint32_t *)b];
	int r = compare_series(x, y, own->w->o->pod_uid);

	if (!r && x->live != y->live)
		r = x->live ? -1 : 1;
	if (!r && x->began_wall_ns != y->began_wall_ns)
		r = x->began_wall_ns > y->began_wall_ns ? -1 : 1;
	return r;
}

static void add_ended(struct view_past *to, const struct view_use *use)
{
	to->busy_ns += use->busy_ns;
	to->gpu_ns += use->gpu_ns;
	to->cost_nano += use->cost_nano;
}

/* --- label blocks --- */

static void add_device_labels(struct metrics_writer *w, uint32_t start,
	const struct view_device *device)
{
	const struct view_gpu *g = &w->v->gpus[device->gpu];

	metrics_label_u64(w, start, "gpu", g->index);
	metrics_label(w, start, "UUID", g->uuid);
	if (!device->mig)
		return;
	metrics_label(w, start, "GPU_I_PROFILE", device->profile ? device->profile : "");
	metrics_label_u64(w, start, "GPU_I_ID", device->gi);
	metrics_label_u64(w, start, "GPU_CI_ID", device->ci);
}

static struct metrics_text add_usage_labels(struct metrics_own *own, const struct view_use *use)
{
	struct metrics_writer *w = own->w;
	uint32_t start = metrics_labels_from(w, own->node);

	metrics_label(w, start, "namespace", use->namespace_);
	metrics_label(w, start, "pod", use->pod);
	metrics_label(w, start, "container", use->container);
	if (w->o->pod_uid)
		metrics_label(w, start, "pod_uid", use->uid);
	add_device_labels(w, start, &w->v->devices[use->device]);
	metrics_label(w, start, "mode", view_mode_name(use->mode));
	metrics_label(w, start, "resource", use->resource);
	return metrics_labels_end(w, start);
}

static void build_use_labels(struct metrics_own *own)
{
	const struct view *v = own->w->v;
	const struct view_use *last = NULL;

	if (!own->w->o->kubernetes)
		return;
	for (uint32_t i = 0; i < v->n_uses; i++)
		own->order[own->n_order++] = i;
	qsort_r(own->order, own->n_order, sizeof(*own->order), compare_use_order, own);
	for (uint32_t i = 0; i < own->n_order; i++) {
		uint32_t at = own->order[i];
		const struct view_use *use = &v->uses[at];

		if (last && !compare_series(last, use, own->w->o->pod_uid)) {
			add_ended(&own->ended[use->device], use);
			continue;
		}
		own->uses[at] = add_usage_labels(own, use);
		if (use->live)
			own->live[at] = own->uses[at];
		last = use;
	}
}

static void build_gpu_labels(struct metrics_own *own)
{
	struct metrics_writer *w = own->w;

	for (uint32_t i = 0; i < w->v->n_gpus; i++) {
		uint32_t start = metrics_labels_from(w, own->node);

		metrics_label_u64(w, start, "gpu", w->v->gpus[i].index);
		metrics_label(w, start, "UUID", w->v->gpus[i].uuid);
		own->gpus[i] = metrics_labels_end(w, start);
	}
}

static void build_device_labels(struct metrics_own *own)
{
	struct metrics_writer *w = own->w;

	for (uint32_t i = 0; i < w->v->n_devices; i++) {
		const struct view_device *device = &w->v->devices[i];
		uint32_t start = metrics_labels_from(w, own->node);

		add_device_labels(w, start, device);
		metrics_label(w, start, "mode", view_mode_name(device->mode));
		metrics_label(w, start, "resource", device->resource);
		own->devices[i] = metrics_labels_end(w, start);
		own->ended[i] = device->past;
	}
}

static void build_resource_labels(struct metrics_own *own)
{
	struct metrics_writer *w = own->w;

	for (uint32_t i = 0; i < w->v->n_resources; i++) {
		uint32_t start = metrics_labels_from(w, own->node);

		metrics_label(w, start, "resource", w->v->resources[i].name);
		metrics_label(w, start, "mode", view_mode_name(w->v->resources[i].mode));
		own->resources[i] = metrics_labels_end(w, start);
	}
}

static uint32_t get_largest_view_count(const struct view *v)
{
	const uint32_t counts[] = { v->n_gpus, v->n_devices, v->n_uses, v->n_resources };
	uint32_t n = 1;

	for (size_t i = 0; i < ARRAY_LEN(counts); i++)
		n = counts[i] > n ? counts[i] : n;
	return n;
}

int metrics_own_init(struct metrics_own *own, struct metrics_writer *w, struct error *err)
{
	const struct view *v = w->v;
	uint32_t start;

	*own = (struct metrics_own){ .w = w };
	own->gpus = calloc(v->n_gpus + 1U, sizeof(*own->gpus));
	own->devices = calloc(v->n_devices + 1U, sizeof(*own->devices));
	own->resources = calloc(v->n_resources + 1U, sizeof(*own->resources));
	own->uses = calloc(v->n_uses + 1U, sizeof(*own->uses));
	own->live = calloc(v->n_uses + 1U, sizeof(*own->live));
	own->order = calloc(v->n_uses + 1U, sizeof(*own->order));
	own->ended = calloc(v->n_devices + 1U, sizeof(*own->ended));
	own->objects = calloc(get_largest_view_count(v), sizeof(*own->objects));
	if (!own->gpus || !own->devices || !own->resources || !own->uses || !own->live ||
		!own->order || !own->ended || !own->objects)
		return error_nomem(err);
	start = metrics_labels(w);
	metrics_label(w, start, "node", v->node);
	own->node = metrics_labels_end(w, start);
	build_gpu_labels(own);
	build_device_labels(own);
	build_resource_labels(own);
	build_use_labels(own);
	return 0;
}

void metrics_own_fini(struct metrics_own *own)
{
	free(own->gpus);
	free(own->devices);
	free(own->resources);
	free(own->uses);
	free(own->live);
	free(own->order);
	free(own->ended);
	free(own->objects);
}
