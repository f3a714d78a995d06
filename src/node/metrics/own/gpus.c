/* SPDX-License-Identifier: Apache-2.0 */
#include "node/metrics/own/own.h"

#include "model/health/health.h"

#include <string.h>

/* Boards: whether each is present and healthy. */

static const struct metrics_row rows[] = {
	{ .family = { "gpuslice_gpu_present", NULL, "Whether NVML shows the GPU now",
		  METRICS_GAUGE, NULL },
		METRICS_MEMBER(struct view_gpu, present, METRICS_COUNT) },
	{ .family = { "gpuslice_gpu_mig_enabled", NULL, "Whether the GPU is in MIG mode",
		  METRICS_GAUGE, NULL },
		METRICS_MEMBER(struct view_gpu, mig_enabled, METRICS_COUNT),
		METRICS_KNOWN(struct view_gpu, mig_known) },
	{ .family = { "gpuslice_gpu_mig_pending", NULL,
		  "Whether another MIG mode waits for a reset", METRICS_GAUGE, NULL },
		METRICS_MEMBER(struct view_gpu, mig_pending, METRICS_COUNT),
		METRICS_KNOWN(struct view_gpu, mig_known) },
	{ .family = { "gpuslice_gpu_health_since_timestamp_seconds", "seconds",
		  "When the health state of the GPU last changed, in seconds since 1970",
		  METRICS_GAUGE, NULL },
		METRICS_MEMBER(struct view_gpu, health_since_wall_ns, METRICS_NANO) },
};

enum {
	ABOUT,
	HEALTHY,
	HEALTH,
	REASON,
	WARNING,
	SIGNAL,
	FAULT,
	RESET,
	RECOVERY,
	XIDS,
	XID_SEEN,
	SAMPLE_AGE,
	PRICE
};

static const struct metrics_family families[] = {
	[ABOUT] = { "gpuslice_gpu", NULL, "What the GPU is", METRICS_INFO,
		"pci_bus_id, device, model, compute_capability, numa_node" },
	[HEALTHY] = { "gpuslice_gpu_healthy", NULL,
		"Whether the GPU is healthy, so that its devices are allocatable",
		METRICS_GAUGE, NULL },
	[HEALTH] = { "gpuslice_gpu_health", NULL, "1 for the state that its health is in",
		METRICS_GAUGE, "state" },
	[REASON] = { "gpuslice_gpu_health_reason", NULL,
		"Why the GPU is unhealthy or refused; no sample for a healthy GPU",
		METRICS_INFO, "reason, refused" },
	[WARNING] = { "gpuslice_gpu_health_warning", NULL,
		"What is wrong with a GPU that stays allocatable; no sample without a warning",
		METRICS_INFO, "warning" },
	[SIGNAL] = { "gpuslice_gpu_health_signal", NULL,
		"What NVML reports of the GPU's health: 0 clear, else 1 or a count; no sample where it cannot be read",
		METRICS_GAUGE, "signal, policy" },
	[FAULT] = { "gpuslice_gpu_fault", NULL,
		"1 for the fault that the last probe of the GPU found: unreadable, lost, reset, stuck or gone",
		METRICS_GAUGE, "fault" },
	[RESET] = { "gpuslice_gpu_reset_required", NULL,
		"Whether NVML or the driver reports that the GPU must be reset; no sample where neither can",
		METRICS_GAUGE, NULL },
	[RECOVERY] = { "gpuslice_gpu_recovery_action", NULL,
		"Recovery action that the driver reports for the GPU, where it supports that",
		METRICS_INFO, "action" },
	[XIDS] = { "gpuslice_gpu_xid_errors", NULL, "XID errors by their number",
		METRICS_COUNTER, "xid, text" },
	[XID_SEEN] = { "gpuslice_gpu_xid_last_seen_timestamp_seconds", "seconds",
		"When the last error of this number occurred, in seconds since 1970",
		METRICS_GAUGE, "xid, text" },
	[SAMPLE_AGE] = { "gpuslice_gpu_sample_age_seconds", "seconds",
		"Age of the last sample of the GPU; no sample where there never was one",
		METRICS_GAUGE, NULL },
	[PRICE] = { "gpuslice_gpu_hourly_cost", NULL,
		"The GPU's part of the node's price per hour", METRICS_GAUGE, NULL },
};

const struct metrics_table metrics_gpu_tables[2] = {
	{ .rows = rows, .n = ARRAY_LEN(rows) },
	{ .families = families, .n = ARRAY_LEN(families) },
};

static void write_gpu_info(struct metrics_own *own, uint32_t i)
{
	const struct view_gpu *g = &own->w->v->gpus[i];
	struct metrics_writer *w = own->w;
	uint32_t start = metrics_labels_from(w, own->gpus[i]);
	char text[32];

	metrics_label(w, start, "pci_bus_id", g->bus_id);
	(void)snprintf(text, sizeof(text), "nvidia%u", g->minor);
	metrics_label(w, start, "device", g->minor == VIEW_NONE ? "" : text);
	metrics_label(w, start, "model", g->name);
	(void)snprintf(text, sizeof(text), "%u.%u", g->cc_major, g->cc_minor);
	metrics_label(w, start, "compute_capability", g->cc_known ? text : "");
	(void)snprintf(text, sizeof(text), "%d", g->numa_node);
	metrics_label(w, start, "numa_node", g->numa_node < 0 ? "" : text);
	metrics_line(w, metrics_labels_end(w, start), METRICS_COUNT, 1);
	metrics_labels_drop(w, start);
}

static void write_gpu_health_reason(struct metrics_own *own, uint32_t i)
{
	const struct view_gpu *g = &own->w->v->gpus[i];
	uint32_t start;

	if (g->health == VIEW_HEALTHY && !*metrics_str(g->refused))
		return;
	start = metrics_labels_from(own->w, own->gpus[i]);
	metrics_label(own->w, start, "reason", g->reason);
	metrics_label(own->w, start, "refused", g->refused);
	metrics_line(own->w, metrics_labels_end(own->w, start), METRICS_COUNT, 1);
	metrics_labels_drop(own->w, start);
}

static void write_gpu_health_states(struct metrics_own *own, uint32_t i)
{
	for (int s = VIEW_HEALTHY; s <= VIEW_PROBATION; s++)
		metrics_line_with(own->w, own->gpus[i], "state",
			view_health_name((enum view_health)s), METRICS_COUNT,
			own->w->v->gpus[i].health == (enum view_health)s);
}

static void write_gpu_faults(struct metrics_own *own, uint32_t i)
{
	for (int f = GPU_FAULT_FIELD; f <= GPU_FAULT_GONE; f++) {
		const char *name = gpu_fault_name((enum gpu_fault)f);

		metrics_line_with(own->w, own->gpus[i], "fault", name, METRICS_COUNT,
			!strcmp(metrics_str(own->w->v->gpus[i].fault), name));
	}
}

static void write_gpu_warning(struct metrics_own *own, uint32_t i)
{
	const char *text = metrics_str(own->w->v->gpus[i].warning);

	if (*text)
		metrics_line_with(own->w, own->gpus[i], "warning", text, METRICS_COUNT, 1);
}

static void write_gpu_signals(struct metrics_own *own, uint32_t i)
{
	const struct view_gpu *g = &own->w->v->gpus[i];

	for (uint32_t k = 0; k < g->n_signals; k++) {
		uint32_t start = metrics_labels_from(own->w, own->gpus[i]);

		metrics_label(own->w, start, "signal", g->signals[k].name);
		metrics_label(own->w, start, "policy", g->signals[k].policy);
		metrics_line(own->w, metrics_labels_end(own->w, start), METRICS_COUNT,
			g->signals[k].value);
		metrics_labels_drop(own->w, start);
	}
}

static void write_gpu_reset_required(struct metrics_own *own, uint32_t i)
{
	const struct view_gpu *g = &own->w->v->gpus[i];

	if (g->reset_known)
		metrics_line(own->w, own->gpus[i], METRICS_COUNT, g->reset_required);
}

static void write_gpu_recovery_action(struct metrics_own *own, uint32_t i)
{
	const char *action = metrics_str(own->w->v->gpus[i].recovery);

	if (*action)
		metrics_line_with(own->w, own->gpus[i], "action", action, METRICS_COUNT, 1);
}

static void write_gpu_xid(struct metrics_own *own, uint32_t i, const struct view_xid *x,
	bool seen)
{
	struct metrics_writer *w = own->w;
	uint32_t start = metrics_labels_from(w, own->gpus[i]);

	metrics_label_u64(w, start, "xid", x->xid);
	metrics_label(w, start, "text", xid_text(x->xid));
	if (seen)
		metrics_line(w, metrics_labels_end(w, start), METRICS_NANO, x->last_wall_ns);
	else
		metrics_line(w, metrics_labels_end(w, start), METRICS_COUNT, x->count);
	metrics_labels_drop(w, start);
}

static void write_gpu_xid_counts(struct metrics_own *own, uint32_t i)
{
	const struct view_gpu *g = &own->w->v->gpus[i];

	for (uint32_t k = 0; k < g->n_xids; k++)
		write_gpu_xid(own, i, &g->xids[k], false);
}

static void write_last_xids(struct metrics_own *own, uint32_t i)
{
	const struct view_gpu *g = &own->w->v->gpus[i];

	for (uint32_t k = 0; k < g->n_xids; k++)
		if (g->xids[k].last_wall_ns)
			write_gpu_xid(own, i, &g->xids[k], true);
}

static void write_gpu_healthy(struct metrics_own *own, uint32_t i)
{
	metrics_line(own->w, own->gpus[i], METRICS_COUNT,
		own->w->v->gpus[i].health == VIEW_HEALTHY);
}

static void sample_age(struct metrics_own *own, uint32_t i)
{
	const struct view_gpu *g = &own->w->v->gpus[i];

	if (g->sampled)
		metrics_line(own->w, own->gpus[i], METRICS_NANO, g->sample_age_ns);
}

static void write_gpu_hourly_cost(struct metrics_own *own, uint32_t i)
{
	if (own->w->v->priced)
		metrics_line(own->w, own->gpus[i], METRICS_NANO,
			own->w->v->gpus[i].cost_nano_per_hour);
}

void metrics_own_gpus(struct metrics_own *own)
{
	static void (*const write[])(struct metrics_own *, uint32_t) = {
		[ABOUT] = write_gpu_info,
		[HEALTHY] = write_gpu_healthy,
		[HEALTH] = write_gpu_health_states,
		[REASON] = write_gpu_health_reason,
		[WARNING] = write_gpu_warning,
		[SIGNAL] = write_gpu_signals,
		[FAULT] = write_gpu_faults,
		[RESET] = write_gpu_reset_required,
		[RECOVERY] = write_gpu_recovery_action,
		[XIDS] = write_gpu_xid_counts,
		[XID_SEEN] = write_last_xids,
		[SAMPLE_AGE] = sample_age,
		[PRICE] = write_gpu_hourly_cost,
	};
	const struct view *v = own->w->v;

	metrics_own_rows(own, rows, ARRAY_LEN(rows), v->gpus, sizeof(*v->gpus), v->n_gpus,
		own->gpus);
	for (size_t f = 0; f < ARRAY_LEN(families); f++) {
		metrics_begin(own->w, &families[f]);
		for (uint32_t i = 0; i < v->n_gpus; i++)
			write[f](own, i);
	}
}
