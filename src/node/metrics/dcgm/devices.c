/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The devices of DCGM's families, with their labels, their containers and the values of fields (dcgm.h,
 * "Devices").
 */
#include "node/metrics/dcgm/dcgm.h"

#include "lib/base/units.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* --- values --- */

enum { ID_DRIVER_VERSION = 1, ID_NVML_VERSION = 2 };

/* Rates that GPM reports in MiB/s, as dcgm-exporter writes them. A sample has bytes/s. */
static bool is_gpm_rate(uint16_t id)
{
	return (id >= 1009 && id <= 1012) || (id >= 1040 && id <= 1075);
}

static bool format_sampled_value(const struct sample_device *device, uint16_t field,
	bool raw_units, char *ret)
{
	const struct sample_value *value;
	const char *text;

	if (!device)
		return false;
	if (fields[field].kind == FIELD_TEXT) {
		text = sample_text(device, field);
		if (text && *text)
			(void)snprintf(ret, DCGM_VALUE_MAX, "%s", text);
		return text && *text;
	}
	value = sample_value(device, field);
	if (!value)
		return false;
	if (fields[field].kind == FIELD_REAL)
		(void)snprintf(ret, DCGM_VALUE_MAX, "%.6f", value->real);
	else
		(void)snprintf(ret, DCGM_VALUE_MAX, "%" PRId64,
			raw_units && is_gpm_rate(fields[field].id) ? value->i / (int64_t)MIB
								   : value->i);
	return true;
}

/* What the agent knows of the node, if no GPU reported it. */
static bool known_of_node(const struct view *v, uint16_t id, char *ret)
{
	const char *text = id == ID_DRIVER_VERSION ? v->driver_version
			   : id == ID_NVML_VERSION ? v->nvml_version
						   : NULL;

	if (!text || !*text)
		return false;
	(void)snprintf(ret, DCGM_VALUE_MAX, "%s", text);
	return true;
}

bool dcgm_value(const struct dcgm_device *d, const struct view *v, uint16_t field, bool copies,
	bool raw_units, char *ret)
{
	bool of_instance = fields[field].of & (FIELD_OF_MIG | FIELD_OF_GI);

	if (d->mig_device && of_instance)
		return format_sampled_value(d->sample, field, raw_units, ret);
	/* Figures of boards: an instance has them only as a copy. */
	if (d->mig_device && !copies)
		return false;
	/* Figures of instances: at the board too, they would count twice. */
	if (d->divided && of_instance && !copies)
		return false;
	return format_sampled_value(d->board, field, raw_units, ret) ||
	       known_of_node(v, fields[field].id, ret);
}

/* --- labels --- */

/* Names that a series itself uses, now or later: a pod label of the same name would make the text invalid. */
static bool is_reserved_label(const struct metrics_writer *w, const char *name)
{
	static const char *const names[] = { "GPU_I_ID", "GPU_I_PROFILE", "Hostname", "UUID",
		"clock_event", "container", "container_name", "device", "err_code", "err_msg",
		"gpu", "health_error_code", "health_watch", "hostname", "link_status",
		"modelName", "namespace", "pci_bus_id", "peer_gpu", "pod", "pod_name",
		"pod_namespace", "pod_uid", "uuid", "vgpu", "window_size_in_ms", "xid" };
	const struct metrics_counters *c = w->rq->counters;

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (!strcmp(names[i], name))
			return true;
	for (uint32_t i = c->n_families; i < c->n; i++)
		if (!strcmp(c->rows[i].name, name))
			return true;
	return false;
}

void dcgm_labels_add(struct metrics_writer *w, uint32_t start, const struct view_use *use,
	const struct dcgm_label *extra, size_t n_extra)
{
	struct dcgm_label all[DCGM_LABELS_MAX];
	bool old = w->o->old_namespace;
	char replica[METRICS_NUMBER_MAX];
	size_t n = 0;

	for (; n < n_extra; n++)
		all[n] = extra[n];
	if (use) {
		all[n++] = (struct dcgm_label){ old ? "container_name" : "container",
			use->container };
		all[n++] = (struct dcgm_label){ old ? "pod_namespace" : "namespace",
			use->namespace_ };
		all[n++] = (struct dcgm_label){ old ? "pod_name" : "pod", use->pod };
		if (w->o->pod_uid || w->o->virtual_gpus)
			all[n++] = (struct dcgm_label){ "pod_uid", use->uid };
	}
	for (uint32_t i = 0;
		use && w->o->pod_labels && i < use->n_labels && n < ARRAY_LEN(all) - 1; i++)
		if (!is_reserved_label(w, use->labels[i].name))
			all[n++] = (struct dcgm_label){ use->labels[i].name,
				use->labels[i].value };
	if (use && w->o->virtual_gpus && use->mode != VIEW_EXCLUSIVE &&
		use->replica != VIEW_NONE) {
		(void)metrics_number(replica, METRICS_COUNT, use->replica);
		all[n++] = (struct dcgm_label){ "vgpu", replica };
	}
	for (size_t i = 1; i < n; i++)
		for (size_t k = i; k && strcmp(all[k].name, all[k - 1].name) < 0; k--) {
			struct dcgm_label swap = all[k];

			all[k] = all[k - 1];
			all[k - 1] = swap;
		}
	for (size_t i = 0; i < n; i++)
		metrics_label(w, start, all[i].name, all[i].value);
}

static void label_model(struct metrics_writer *w, uint32_t start, const char *name)
{
	char text[GPU_NAME_MAX];
	size_t n = strnlen(name, sizeof(text) - 1);

	memcpy(text, name, n);
	text[n] = '\0';
	for (size_t i = 0; w->o->replace_blanks_in_model_name && i < n; i++)
		if (text[i] == ' ')
			text[i] = '-';
	metrics_label(w, start, "modelName", text);
}

static void label_hostname(struct metrics_writer *w, uint32_t start)
{
	const char *name = w->v->node && *w->v->node ? w->v->node : w->v->hostname;

	if (w->o->hostname != METRICS_HOSTNAME_NONE)
		metrics_label(w, start,
			w->o->hostname == METRICS_HOSTNAME ? "Hostname" : "hostname", name);
}

/* The counters of type label; unknown values are left out. */
static void label_counters(struct metrics_writer *w, uint32_t start,
	const struct dcgm_device *d)
{
	const struct metrics_counters *c = w->rq->counters;
	char value[DCGM_VALUE_MAX];

	for (uint32_t i = c->n_families; i < c->n; i++)
		if (dcgm_value(d, w->v, c->rows[i].field, true, false, value))
			metrics_label(w, start, c->rows[i].name, value);
}

static void make_labels(struct dcgm_devices *all, struct dcgm_device *d)
{
	struct metrics_writer *w = all->w;
	uint32_t start = metrics_labels(w);
	char device[32] = "";

	metrics_label_u64(w, start, "gpu", d->gpu->index);
	metrics_label(w, start, w->o->old_namespace ? "uuid" : "UUID", d->gpu->uuid);
	metrics_label(w, start, "pci_bus_id", d->gpu->bus_id);
	if (d->gpu->minor != VIEW_NONE)
		(void)snprintf(device, sizeof(device), "nvidia%u", d->gpu->minor);
	metrics_label(w, start, "device", device);
	label_model(w, start, d->gpu->name);
	if (d->mig_device) {
		metrics_label(w, start, "GPU_I_PROFILE", d->mig_device->profile);
		metrics_label_u64(w, start, "GPU_I_ID", d->mig_device->gi);
	}
	label_hostname(w, start);
	label_counters(w, start, d);
	d->fixed = d->labels = metrics_labels_end(w, start);
	for (uint32_t i = 0; i < d->n_containers; i++) {
		struct dcgm_container *p = &all->containers[d->first_container + i];

		start = metrics_labels_from(w, d->fixed);
		dcgm_labels_add(w, start, p->use, NULL, 0);
		p->labels = metrics_labels_end(w, start);
	}
	if (d->alone)
		d->labels = all->containers[d->first_container].labels;
}

/* --- devices and their containers --- */

static bool is_same_use_container(const struct view_use *a, const struct view_use *b)
{
	return !strcmp(a->pod, b->pod) && !strcmp(a->namespace_, b->namespace_) &&
	       !strcmp(a->container, b->container);
}

/* A container may be there already, with another MIG device of the instance. It has one series: the sums, if all
 * parts are known. */
static void add_device_use(struct dcgm_devices *all, struct dcgm_device *d,
	const struct view_use *use)
{
	struct dcgm_container *p = NULL;

	for (uint32_t i = 0; i < d->n_containers && !p; i++)
		if (is_same_use_container(all->containers[d->first_container + i].use, use))
			p = &all->containers[d->first_container + i];
	if (!p) {
		p = &all->containers[all->n_containers++];
		*p = (struct dcgm_container){ .use = use,
			.memory_known = true,
			.busy_known = true };
		d->n_containers++;
	}
	p->memory_known = p->memory_known && use->memory_known;
	p->memory += use->memory_known ? use->memory_used : 0;
	p->busy_known = p->busy_known && use->received != VIEW_NONE;
	p->busy += use->received != VIEW_NONE ? use->received : 0;
}

/* Whether @device belongs to the device: the whole GPU, or a MIG device of the same instance. */
static bool is_part_of_dcgm_device(const struct dcgm_device *d,
	const struct view_device *device)
{
	return d->mig_device ? device->mig && device->gi == d->mig_device->gi : !device->mig;
}

static void add_device_containers(struct dcgm_devices *all, struct dcgm_device *d)
{
	const struct view *v = all->w->v;
	bool shared = false;

	d->first_container = all->n_containers;
	for (uint32_t i = 0; i < d->gpu->n_devices; i++) {
		const struct view_device *device = &v->devices[d->gpu->first_device + i];

		if (!is_part_of_dcgm_device(d, device))
			continue;
		d->share += device->part;
		for (uint32_t k = 0; k < device->n_uses; k++) {
			const struct view_use *use = &v->uses[device->first_use + k];

			if (!use->live || !all->w->o->kubernetes)
				continue;
			shared |= use->mode != VIEW_EXCLUSIVE;
			add_device_use(all, d, use);
		}
	}
	d->alone = d->n_containers == 1 && !shared;
}

static void add_dcgm_device(struct dcgm_devices *all, const struct view_gpu *g,
	const struct view_device *device, bool divided)
{
	struct dcgm_device *d = &all->devices[all->n++];

	*d = (struct dcgm_device){ .gpu = g,
		.mig_device = device,
		.sample = device ? device->sample : g->sample,
		.board = g->sample,
		.divided = divided };
	add_device_containers(all, d);
	make_labels(all, d);
}

/* Whether an earlier MIG device of the GPU belongs to the same instance. */
static bool has_earlier_instance_device(const struct view *v, const struct view_gpu *g,
	uint32_t device)
{
	for (uint32_t i = g->first_device; i < device; i++)
		if (v->devices[i].mig && v->devices[i].gi == v->devices[device].gi)
			return true;
	return false;
}

static void add_gpu_dcgm_devices(struct dcgm_devices *all, const struct view_gpu *g)
{
	const struct view *v = all->w->v;
	const struct metrics_options *o = all->w->o;
	bool divided = g->n_devices && v->devices[g->first_device].mig;

	if (!(divided && o->per_instance_board) &&
		metrics_devices_have(&o->devices, false, g->index))
		add_dcgm_device(all, g, NULL, divided && o->devices.instances);
	for (uint32_t i = g->first_device; i < g->first_device + g->n_devices; i++)
		if (v->devices[i].mig && !has_earlier_instance_device(v, g, i) &&
			metrics_devices_have(&o->devices, true, all->n_instances++))
			add_dcgm_device(all, g, &v->devices[i], false);
}

int dcgm_devices_make(struct dcgm_devices *ret, struct metrics_writer *w, struct error *err)
{
	*ret = (struct dcgm_devices){ .w = w };
	ret->devices =
		calloc((size_t)w->v->n_gpus + w->v->n_devices + 1, sizeof(*ret->devices));
	ret->containers = calloc(w->v->n_uses + 1U, sizeof(*ret->containers));
	if (!ret->devices || !ret->containers)
		return error_nomem(err);
	for (uint32_t i = 0; i < w->v->n_gpus; i++)
		add_gpu_dcgm_devices(ret, &w->v->gpus[i]);
	return 0;
}

void dcgm_devices_fini(struct dcgm_devices *d)
{
	free(d->devices);
	free(d->containers);
}
