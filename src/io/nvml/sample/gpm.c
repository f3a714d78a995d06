/* SPDX-License-Identifier: Apache-2.0 */

/*
 * GPM: the last sample, the present one, and metrics computed from both. The metrics of a GPU instance are those
 * of all its compute instances together.
 */
#include "io/nvml/sample/reading.h"

#include <math.h>
#include <string.h>

#define CALL(name, ...) PROBE_CALL(r->query.p, r->query.gpu, name, __VA_ARGS__)

static bool is_mig(const struct sample_reading *r)
{
	return r->state->gi != GPU_NO_INSTANCE;
}

/*
 * INVALID_ARGUMENT means that the instance was removed or replaced since the last probe, so it is not a refusal.
 */
static nvmlReturn_t map_gpm_code(nvmlReturn_t code)
{
	return code == NVML_ERROR_INVALID_ARGUMENT ? NVML_ERROR_NO_DATA : code;
}

/* Whether this GPU has GPM: asked once, and again when the refusal has expired. */
static bool is_gpm_supported(struct sample_reading *r)
{
	nvmlGpmSupport_t support = { .version = 1 };
	nvmlReturn_t code;

	if (!sample_may_query(r, SAMPLE_QUERY_GPM))
		return false;
	if (r->state->gpm_checked)
		return true;
	code = CALL(nvmlGpmQueryDeviceSupport, r->parent, &support);
	if (code == NVML_SUCCESS && !support.isSupportedDevice)
		code = NVML_ERROR_NOT_SUPPORTED;
	r->state->gpm_checked = sample_answered(r, SAMPLE_QUERY_GPM, code);
	return r->state->gpm_checked;
}

void sample_gpm_collect(struct sample_reading *r)
{
	struct sample_state *s = r->state;
	uint32_t slot = s->gpm_base ? 1 - s->gpm_new : 0;
	bool had_base = s->gpm_base;
	nvmlReturn_t code;

	s->gpm_pair = s->gpm_base = false;
	if (!is_gpm_supported(r))
		return;
	if (!s->gpm[slot]) {
		code = CALL(nvmlGpmSampleAlloc, &s->gpm[slot]);
		if (!sample_answered(r, SAMPLE_QUERY_GPM, code)) {
			s->gpm[slot] = NULL;
			return;
		}
	}
	r->now_ns = time_mono_ns();
	code = is_mig(r) ? CALL(nvmlGpmMigSampleGet, r->parent, s->gi, s->gpm[slot])
			 : CALL(nvmlGpmSampleGet, r->parent, s->gpm[slot]);
	if (!sample_answered(r, SAMPLE_QUERY_GPM, map_gpm_code(code)))
		return;
	s->gpm_new = slot;
	s->gpm_base = true;
	s->gpm_pair = had_base;
}

static double clamp_ratio(double v)
{
	return v < 0 ? 0 : v > 1 ? 1 : v;
}

/*
 * For a metric that the library knows but the GPU does not have, NVML returns success with value 0. Only the
 * missing name tells it from a real zero (driver 580).
 */
static nvmlReturn_t check_gpm_metric(const nvmlGpmMetric_t *m)
{
	if (m->nvmlReturn != NVML_SUCCESS)
		return m->nvmlReturn;
	if (!isfinite(m->value) || m->value < 0)
		return NVML_ERROR_NO_DATA;
	return m->metricInfo.shortName ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

static void report_gpm_metric(struct sample_reading *r, size_t position,
	const nvmlGpmMetric_t *m)
{
	union source_value v = { .real = 0 };
	double value = m->value * sources[position].scale;
	nvmlReturn_t code = check_gpm_metric(m);

	if (fields[position].kind == FIELD_REAL)
		v.real = clamp_ratio(value);
	else if (code == NVML_SUCCESS && value < (double)(UINT64_C(1) << 62))
		v.i = (int64_t)(value + 0.5);
	else if (code == NVML_SUCCESS)
		code = NVML_ERROR_NO_DATA;
	sample_set_result(r, position, code, &v);
}

/* Makes one call, for at most NVML_GPM_METRICS_PER_CALL metrics. With @busy the first metric is the busy time. */
static void read_gpm_metrics(struct sample_reading *r, nvmlGpmMetricsGet_t *get,
	const size_t *positions, bool busy)
{
	struct sample_state *s = r->state;
	uint32_t first = busy;
	nvmlReturn_t code;

	get->version = 1;
	get->sample1 = s->gpm[1 - s->gpm_new];
	get->sample2 = s->gpm[s->gpm_new];
	code = CALL(nvmlGpmMetricsGet, get);
	if (!sample_answered(r, SAMPLE_QUERY_GPM, map_gpm_code(code)))
		code = NVML_ERROR_NO_DATA; /* refusal of GPM, not of each field */
	for (uint32_t i = 0; i < get->numMetrics && code != NVML_SUCCESS; i++)
		get->metrics[i].nvmlReturn = code;
	if (busy && check_gpm_metric(&get->metrics[0]) == NVML_SUCCESS)
		r->gpm_busy = clamp_ratio(get->metrics[0].value / 100);
	for (uint32_t i = first; i < get->numMetrics; i++)
		report_gpm_metric(r, positions[i - first], &get->metrics[i]);
}

void sample_gpm_read(struct sample_reading *r)
{
	nvmlGpmMetricsGet_t get = { .numMetrics = 1 };
	size_t positions[NVML_GPM_METRICS_PER_CALL] = { 0 };
	bool busy = true;

	r->gpm_busy = -1;
	if (!r->state->gpm_pair)
		return;
	get.metrics[0].metricId = NVML_GPM_METRIC_GRAPHICS_UTIL;
	for (size_t i = 0; i < n_fields; i++) {
		if (sources[i].how != SOURCE_GPM || !sample_needs_query(r, i))
			continue;
		if (get.numMetrics == NVML_GPM_METRICS_PER_CALL) {
			read_gpm_metrics(r, &get, positions, busy);
			get = (nvmlGpmMetricsGet_t){ .numMetrics = 0 };
			busy = false;
		}
		positions[get.numMetrics - busy] = i;
		get.metrics[get.numMetrics++].metricId = sources[i].arg;
	}
	if (get.numMetrics > 0)
		read_gpm_metrics(r, &get, positions, busy);
}

void sample_gpm_free(const struct nvml *nvml, struct sample_state *s)
{
	for (int i = 0; i < 2; i++) {
		if (s->gpm[i])
			(void)nvml->nvmlGpmSampleFree(s->gpm[i]);
		s->gpm[i] = NULL;
	}
	s->gpm_base = s->gpm_pair = false;
}
