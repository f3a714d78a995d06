/* SPDX-License-Identifier: Apache-2.0 */
#include "node/metrics/dcgm/dcgm.h"

#include "lib/base/time.h"
#include "lib/base/units.h"
#include "model/health/health.h"

#include <inttypes.h>

enum { ID_GPU_UTIL = 203, ID_FB_USED = 252, ID_GR_ENGINE_ACTIVE = 1001 };

/* A line of the device: with the labels of the pod that has it alone, or, with .virtual_gpus, once for each
 * container. */
static void device_line(const struct dcgm_devices *all, const struct dcgm_device *d,
	const char *value, const struct dcgm_label *extra, size_t n_extra)
{
	struct metrics_writer *w = all->w;
	uint32_t copies =
		w->o->virtual_gpus && d->n_containers && !d->alone ? d->n_containers : 1;

	for (uint32_t i = 0; i < copies; i++) {
		const struct dcgm_container *p =
			d->alone || (w->o->virtual_gpus && d->n_containers)
				? &all->containers[d->first_container + i]
				: NULL;
		uint32_t start;

		if (!n_extra) {
			metrics_line_text(w, p ? p->labels : d->labels, value);
			continue;
		}
		start = metrics_labels_from(w, d->fixed);
		dcgm_labels_add(w, start, p ? p->use : NULL, extra, n_extra);
		metrics_line_text(w, metrics_labels_end(w, start), value);
		metrics_labels_drop(w, start);
	}
}

/* --- parts of containers --- */

static bool is_part_measured_field(uint16_t id)
{
	return id == ID_GPU_UTIL || id == ID_FB_USED || id == ID_GR_ENGINE_ACTIVE;
}

/* In millionths of the field's unit; false: not known. */
static bool compute_part_value(const struct dcgm_device *d, const struct dcgm_container *p,
	uint16_t id, uint64_t *ret)
{
	if (id == ID_FB_USED) {
		*ret = p->memory / MIB * VIEW_MILLION + p->memory % MIB * VIEW_MILLION / MIB;
		return p->memory_known;
	}
	*ret = d->share ? p->busy * VIEW_MILLION / d->share : 0;
	if (id == ID_GPU_UTIL)
		*ret *= 100;
	return p->busy_known && d->share;
}

static void write_part_lines(const struct dcgm_devices *all, const struct dcgm_device *d,
	uint16_t id)
{
	uint64_t value;

	for (uint32_t i = 0; i < d->n_containers; i++) {
		const struct dcgm_container *p = &all->containers[d->first_container + i];

		if (compute_part_value(d, p, id, &value))
			metrics_line(all->w, p->labels, METRICS_MICRO, value);
	}
}

/* --- families by source --- */

static void write_field(const struct dcgm_devices *all, const struct metrics_counter *c)
{
	const struct metrics_options *o = all->w->o;
	char value[DCGM_VALUE_MAX];

	for (uint32_t i = 0; i < all->n; i++) {
		const struct dcgm_device *d = &all->devices[i];
		bool in_parts = is_part_measured_field(c->id) && d->n_containers && !d->alone;

		if (!dcgm_value(d, all->w->v, c->field, o->per_instance_board, o->gpm_raw_units,
			    value))
			continue;
		if (!in_parts || !o->virtual_gpus)
			device_line(all, d, value, NULL, 0);
		if (in_parts)
			write_part_lines(all, d, c->id);
	}
}

/* XIDs, clock events and health are figures of the board. */
static bool is_board(const struct dcgm_devices *all, const struct dcgm_device *d)
{
	return !d->mig_device || all->w->o->per_instance_board;
}

static void write_last_xid_of(const struct dcgm_devices *all, const struct dcgm_device *d)
{
	char value[METRICS_NUMBER_MAX];
	const char *text = xid_text(d->gpu->last_xid);
	const struct dcgm_label labels[] = { { "err_code", value },
		{ "err_msg", *text ? text : "Unknown Error" } };

	if (!d->gpu->last_xid)
		return;
	(void)metrics_number(value, METRICS_COUNT, d->gpu->last_xid);
	device_line(all, d, value, labels, ARRAY_LEN(labels));
}

static void write_xids_of(const struct dcgm_devices *all, const struct dcgm_device *d)
{
	struct metrics_writer *w = all->w;
	struct metrics_xid xids[64];
	size_t n = !w->rq->xids ? 0
				: metrics_xids_within(w->rq->xids, d->gpu->uuid, w->v->mono_ns,
					  w->o->xid_window_ns, xids, ARRAY_LEN(xids));
	char window[METRICS_NUMBER_MAX], number[METRICS_NUMBER_MAX], value[METRICS_NUMBER_MAX];

	(void)metrics_number(window, METRICS_COUNT, w->o->xid_window_ns / NS_PER_MS);
	for (size_t i = 0; i < n; i++) {
		const struct dcgm_label labels[] = { { "window_size_in_ms", window },
			{ "xid", number } };

		(void)metrics_number(number, METRICS_COUNT, xids[i].xid);
		(void)metrics_number(value, METRICS_COUNT, xids[i].count);
		device_line(all, d, value, labels, ARRAY_LEN(labels));
	}
}

static void write_xid_totals_of(const struct dcgm_devices *all, const struct dcgm_device *d)
{
	char number[METRICS_NUMBER_MAX], value[METRICS_NUMBER_MAX];

	for (uint32_t i = 0; i < d->gpu->n_xids; i++) {
		const struct dcgm_label label = { "xid", number };

		(void)metrics_number(number, METRICS_COUNT, d->gpu->xids[i].xid);
		(void)metrics_number(value, METRICS_COUNT, d->gpu->xids[i].count);
		device_line(all, d, value, &label, 1);
	}
}

/* One line for each reason that occurred. */
static void clock_lines(const struct dcgm_devices *all, const struct dcgm_device *d,
	const uint64_t counts[METRICS_CLOCK_EVENTS], const char *window)
{
	char value[METRICS_NUMBER_MAX];

	for (size_t i = 0; i < METRICS_CLOCK_EVENTS; i++) {
		const struct dcgm_label labels[] = { { "clock_event", metrics_clock_event(i) },
			{ "window_size_in_ms", window } };

		if (!counts[i])
			continue;
		(void)metrics_number(value, METRICS_COUNT, counts[i]);
		device_line(all, d, value, labels, window ? 2 : 1);
	}
}

static void write_clocks_of(const struct dcgm_devices *all, const struct dcgm_device *d)
{
	const struct metrics_writer *w = all->w;
	uint64_t counts[METRICS_CLOCK_EVENTS];
	char window[METRICS_NUMBER_MAX];

	if (!w->rq->clocks)
		return;
	(void)metrics_number(window, METRICS_COUNT, w->o->clock_window_ns / NS_PER_MS);
	metrics_clocks_within(w->rq->clocks, d->gpu->uuid, w->v->mono_ns, w->o->clock_window_ns,
		counts);
	clock_lines(all, d, counts, window);
}

static void write_clock_totals_of(const struct dcgm_devices *all, const struct dcgm_device *d)
{
	uint64_t counts[METRICS_CLOCK_EVENTS];

	if (!all->w->rq->clocks)
		return;
	metrics_clocks_total(all->w->rq->clocks, d->gpu->uuid, counts);
	clock_lines(all, d, counts, NULL);
}

static void write_health_of(const struct dcgm_devices *all, const struct dcgm_device *d)
{
	static const char *const results[] = {
		[VIEW_HEALTHY] = "0",
		[VIEW_PROBATION] = "10",
		[VIEW_UNHEALTHY] = "20",
	};
	const struct dcgm_label labels[] = { { "health_error_code", "" },
		{ "health_watch", "ALL" } };

	device_line(all, d, results[d->gpu->health], labels, ARRAY_LEN(labels));
}

/* Figures that only a board has. */
static void write_boards(const struct dcgm_devices *all,
	void (*write)(const struct dcgm_devices *all, const struct dcgm_device *d))
{
	for (uint32_t i = 0; i < all->n; i++)
		if (is_board(all, &all->devices[i]))
			write(all, &all->devices[i]);
}

/* dcgm-exporter's words for enum gpu_p2p. */
static void write_p2p_of(const struct dcgm_devices *all, const struct dcgm_device *d)
{
	static const char *const words[] = { "OK", "ChipsetNotSupported", "GPUNotSupported",
		"TopologyNotSupported", "DisabledByRegKey", "NotSupported", "Unknown" };
	const struct view *v = all->w->v;
	char peer[METRICS_NUMBER_MAX], value[METRICS_NUMBER_MAX];

	for (uint32_t i = 0; d->gpu->p2p && i < v->n_gpus; i++) {
		uint8_t p2p = d->gpu->p2p[i];
		const struct dcgm_label labels[] = {
			{ "link_status", p2p ? words[p2p - 1] : "" }, { "peer_gpu", peer }
		};

		if (!p2p)
			continue;
		(void)metrics_number(peer, METRICS_COUNT, v->gpus[i].index);
		(void)metrics_number(value, METRICS_COUNT, p2p - 1U);
		device_line(all, d, value, labels, ARRAY_LEN(labels));
	}
}

static void write_family(const struct dcgm_devices *all, const struct metrics_counter *c)
{
	metrics_begin_dcgm(all->w, c);
	switch ((enum metrics_source)c->source) {
	case METRICS_FROM_FIELD:
		write_field(all, c);
		return;
	case METRICS_FROM_XID:
		write_boards(all, write_last_xid_of);
		return;
	case METRICS_FROM_XIDS:
		write_boards(all, write_xids_of);
		return;
	case METRICS_FROM_XIDS_TOTAL:
		write_boards(all, write_xid_totals_of);
		return;
	case METRICS_FROM_CLOCKS:
		write_boards(all, write_clocks_of);
		return;
	case METRICS_FROM_CLOCKS_TOTAL:
		write_boards(all, write_clock_totals_of);
		return;
	case METRICS_FROM_P2P:
		write_boards(all, write_p2p_of);
		return;
	case METRICS_FROM_HEALTH:
		write_boards(all, write_health_of);
		return;
	}
}

int dcgm_write(struct metrics_writer *w, struct error *err)
{
	CLEANUP(dcgm_devices_fini) struct dcgm_devices all = { .n = 0 };

	if (dcgm_devices_make(&all, w, err) < 0)
		return -1;
	for (uint32_t i = 0; i < w->rq->counters->n_families; i++)
		write_family(&all, &w->rq->counters->rows[i]);
	return 0;
}
