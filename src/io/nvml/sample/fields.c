/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The values that NVML has as fields: all of one device in one call, and rates from NVLink's counters
 * (reading.h).
 */
#include "io/nvml/sample/reading.h"

#include <string.h>

#define BATCH_MAX (FIELDS_MAX + 2 * (SAMPLE_LINKS + 1))

/* The field values of one call, and where each field finds its own. */
struct batch {
	uint32_t n;
	nvmlFieldValue_t v[BATCH_MAX];
	uint16_t plain[FIELDS_MAX];         /* position of a plain field -> entry + 1 */
	uint16_t link[SAMPLE_LINKS + 1][2]; /* counter -> entry + 1 */
};

static uint16_t add_batch_field(struct batch *b, uint32_t number, uint32_t scope)
{
	b->v[b->n] = (nvmlFieldValue_t){ .fieldId = number,
		.scopeId = scope,
		.nvmlReturn = NVML_ERROR_UNKNOWN };
	return (uint16_t)++b->n;
}

static uint32_t get_link_row(uint32_t scope)
{
	return scope < SAMPLE_LINKS ? scope : SAMPLE_LINKS;
}

static void collect_batch_fields(struct sample_reading *r, struct batch *b, bool *rates)
{
	for (size_t i = 0; i < n_fields; i++) {
		const struct sample_source *s = &sources[i];
		uint16_t *link = b->link[get_link_row(s->scope)];

		if ((s->how != SOURCE_FIELD && s->how != SOURCE_RATE) ||
			!sample_needs_query(r, i))
			continue;
		if (s->how == SOURCE_FIELD) {
			b->plain[i] = add_batch_field(b, s->arg, s->scope);
			continue;
		}
		rates[i] = true;
		if ((s->arg & SOURCE_TX) && !link[0])
			link[0] = add_batch_field(b, NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX,
				s->scope);
		if ((s->arg & SOURCE_RX) && !link[1])
			link[1] = add_batch_field(b, NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX,
				s->scope);
	}
}

static nvmlReturn_t get_field_number(const nvmlFieldValue_t *v, uint64_t *ret)
{
	if (v->nvmlReturn != NVML_SUCCESS)
		return v->nvmlReturn;
	return probe_field_uint(v, ret) && *ret <= INT64_MAX ? NVML_SUCCESS
							     : NVML_ERROR_NO_DATA;
}

/*
 * KiB between the last two readings of a counter. NO_DATA: there is one reading only, or the counter restarted.
 */
static nvmlReturn_t get_counter_delta(struct sample_counter *c, const nvmlFieldValue_t *v,
	uint64_t now_ns, uint64_t *ret_kib, uint64_t *ret_ns)
{
	struct sample_counter before = *c;
	uint64_t kib = 0;
	nvmlReturn_t r = get_field_number(v, &kib);

	*c = (struct sample_counter){ .known = r == NVML_SUCCESS, .kib = kib, .at_ns = now_ns };
	if (r != NVML_SUCCESS)
		return r;
	if (!before.known || kib < before.kib || now_ns <= before.at_ns)
		return NVML_ERROR_NO_DATA;
	*ret_kib = kib - before.kib;
	*ret_ns = now_ns - before.at_ns;
	return NVML_SUCCESS;
}

struct counter_rate {
	nvmlReturn_t r;
	uint64_t kib, ns;
};

/* MB/s in DCGM's unit: 1000 KiB. */
static void report_rate_value(struct sample_reading *r, size_t position,
	struct counter_rate flow[2])
{
	const struct sample_source *s = &sources[position];
	union source_value value = { .real = 0 };
	double rate = 0;

	for (int d = 0; d < 2; d++) {
		if (!(s->arg & (d == 0 ? SOURCE_TX : SOURCE_RX)))
			continue;
		if (flow[d].r != NVML_SUCCESS) {
			sample_set_result(r, position, flow[d].r, NULL);
			return;
		}
		rate += (double)flow[d].kib / 1000 / ((double)flow[d].ns / NS_PER_SEC);
	}
	value.i = rate < (double)(UINT64_C(1) << 50) ? (int64_t)rate : 0;
	sample_set_result(r, position, NVML_SUCCESS, &value);
}

static void report_field_value(struct sample_reading *r, size_t position,
	const nvmlFieldValue_t *v)
{
	union source_value value = { .real = 0 };
	uint64_t number = 0;
	nvmlReturn_t code = get_field_number(v, &number);

	if (fields[position].kind == FIELD_REAL)
		value.real = (double)number * sources[position].scale;
	else
		value.i = (int64_t)number;
	sample_set_result(r, position, code, &value);
}

void sample_fields(struct sample_reading *r)
{
	static struct batch b; /* static as it is large; one thread uses it */
	struct counter_rate flows[SAMPLE_LINKS + 1][2];
	bool rates[FIELDS_MAX] = { false };
	nvmlReturn_t code;

	memset(&b, 0, sizeof b);
	memset(flows, 0, sizeof flows);
	collect_batch_fields(r, &b, rates);
	if (b.n == 0)
		return;
	code = PROBE_CALL(r->query.p, r->query.gpu, nvmlDeviceGetFieldValues, r->query.device,
		(int)b.n, b.v);
	for (uint32_t i = 0; i < b.n && code != NVML_SUCCESS; i++)
		b.v[i].nvmlReturn = code;
	for (uint32_t l = 0; l <= SAMPLE_LINKS; l++) {
		for (int d = 0; d < 2; d++) {
			if (b.link[l][d])
				flows[l][d].r = get_counter_delta(&r->state->counters[l][d],
					&b.v[b.link[l][d] - 1], r->now_ns, &flows[l][d].kib,
					&flows[l][d].ns);
		}
	}
	for (size_t i = 0; i < n_fields; i++) {
		if (b.plain[i])
			report_field_value(r, i, &b.v[b.plain[i] - 1]);
		else if (rates[i])
			report_rate_value(r, i, flows[get_link_row(sources[i].scope)]);
	}
}
