/* SPDX-License-Identifier: Apache-2.0 */

/*
 * CPU time of one /metrics of 8 GPUs with 56 slices each, all allocated to pods in enforced slices with long names:
 * the longest text of a node. Fails if a text takes more than 5 ms.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "lib/base/time.h"
#include "node/metrics/metrics.h"

#define GPUS   8
#define SLICES 56
#define ROUNDS 41
#define MAX_NS (5 * NS_PER_MS)

static uint64_t cpu_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * NS_PER_SEC + (uint64_t)t.tv_nsec;
}

static void make_use(struct view *v, uint32_t i)
{
	struct view_slice *s = view_array(v, 1, sizeof(*s));

	if (!s)
		return;
	*s = (struct view_slice){ .id = view_printf(v, "slice-%u", i),
		.compute = view_text(v, "fair"),
		.class_ = view_text(v, "batch"),
		.weight = 1,
		.time_known = true,
		.reported = true,
		.charged_ns = 123456789012345 + i,
		.queue_ns = 23456789012345,
		.wait_ns = 3456789012345,
		.quanta = 1234567,
		.waits = 234567,
		.launches = 123456789,
		.copies = 456789,
		.copied_bytes = 12345678901234,
		.revocations_known = true,
		.quantum_ends = { [SCHED_END_EXPIRED] = 1000000, [SCHED_END_IDLE] = 234567 },
		.quantum_ends_known = true,
		.refusals_known = true };
	v->uses[i] = (struct view_use){ .device = i / SLICES,
		.namespace_ = view_printf(v, "team-%u-production", i % 7),
		.pod = view_printf(v, "inference-server-large-model-%u-6f7d8c9b5-x%03uq", i / 9,
			i),
		.container = view_text(v, "inference-server"),
		.uid = view_printf(v, "0b0bc5a1-1111-2222-3333-44445555%04u", i),
		.resource = view_text(v, "nvidia.com/gpu.shared"),
		.mode = VIEW_SLICES,
		.live = true,
		.n_replicas = 1,
		.share = VIEW_MILLION / SLICES,
		.received = 12345,
		.memory_known = true,
		.memory_counted = true,
		.peak_known = true,
		.memory_current = true,
		.busy_current = true,
		.allocation_current = true,
		.memory_used = 1234567890 + i,
		.memory_peak = 1334567890,
		.memory_limit = 1500000000,
		.busy_known = true,
		.busy_exact = true,
		.allocated_ns = 12345678901234567,
		.gpu_ns = 123456789012345,
		.busy_ns = 12345678901234 + i,
		.memory_byte_s = 1234567890123456,
		.cost_nano = 12345678901,
		.slice = s };
}

static int make_gpu(struct view *v, uint32_t i)
{
	struct sample_device *s = &v->sample->devices[i];

	s->values = calloc(n_fields, sizeof(*s->values));
	if (!s->values)
		return -1;
	for (size_t f = 0; f < n_fields; f++) {
		if (fields[f].kind == FIELD_TEXT)
			continue;
		s->values[s->n_values] = (struct sample_value){ .field = (uint16_t)f };
		if (fields[f].kind == FIELD_REAL)
			s->values[s->n_values].real = 0.123456 * i;
		else
			s->values[s->n_values].i = INT64_C(12345) * i;
		s->n_values++;
	}
	v->gpus[i] = (struct view_gpu){ .index = i,
		.minor = i,
		.uuid = view_printf(v, "GPU-0bb0c5a1-1111-2222-3333-44445555000%u", i),
		.name = view_text(v, "NVIDIA H100 80GB HBM3"),
		.bus_id = view_printf(v, "00000000:%02X:00.0", i),
		.reason = "",
		.refused = "",
		.fault = "ok",
		.recovery = "none",
		.present = true,
		.sample = s,
		.first_device = i,
		.n_devices = 1,
		.cost_nano_per_hour = 6880000000 };
	v->devices[i] = (struct view_device){ .gpu = i,
		.part = VIEW_MILLION,
		.mode = VIEW_SLICES,
		.resource = view_text(v, "nvidia.com/gpu.shared"),
		.offered = true,
		.sample = s,
		.memory_known = true,
		.busy_known = true,
		.first_use = i * SLICES,
		.n_uses = SLICES };
	return 0;
}

static int make_large_view(struct view **ret, struct error *err)
{
	CLEANUP(view_unrefp) struct view *v = NULL;

	if (view_new(&v, err) < 0 || sample_new(&v->sample, GPUS, err) < 0)
		return -1;
	v->node = view_text(v, "ip-10-0-12-34.ec2.internal");
	v->priced = true;
	v->gpus = view_array(v, GPUS, sizeof(*v->gpus));
	v->devices = view_array(v, GPUS, sizeof(*v->devices));
	v->uses = view_array(v, (size_t)GPUS * SLICES, sizeof(*v->uses));
	if (view_failed(v))
		return error_nomem(err);
	v->n_gpus = v->n_devices = GPUS;
	v->n_uses = GPUS * SLICES;
	for (uint32_t i = 0; i < GPUS; i++)
		if (make_gpu(v, i) < 0)
			return error_nomem(err);
	for (uint32_t i = 0; i < v->n_uses; i++)
		make_use(v, i);
	*ret = STEAL_PTR(v);
	return 0;
}

/* The fastest of a few: what else the machine does only adds. */
static int measure_render(const struct metrics_request *rq, uint64_t *ret_ns, size_t *ret_len,
	struct error *err)
{
	*ret_ns = UINT64_MAX;
	for (int i = 0; i < ROUNDS; i++) {
		CLEANUP(buf_fini) struct buf out = BUF_INIT(METRICS_BYTES_MAX);
		uint64_t began = cpu_ns(), took;

		if (metrics_render(&out, rq, err) < 0)
			return -1;
		took = cpu_ns() - began;
		*ret_ns = took < *ret_ns ? took : *ret_ns;
		*ret_len = out.len;
	}
	return 0;
}

int main(void)
{
	CLEANUP(view_unrefp) struct view *v = NULL;
	CLEANUP(metrics_counters_unrefp) struct metrics_counters *c = NULL;
	struct metrics_options o;
	struct error err = ERROR_INIT;
	uint64_t ns = 0, worst = 0;
	size_t len = 0;

	metrics_options_default(&o);
	if (make_large_view(&v, &err) < 0 || metrics_counters_read(&c, NULL, NULL, &err) < 0)
		goto fail;
	for (int f = METRICS_PROMETHEUS; f <= METRICS_OPENMETRICS; f++) {
		if (measure_render(&(struct metrics_request){ .view = v,
					   .counters = c,
					   .options = &o,
					   .format = (enum metrics_format)f },
			    &ns, &len, &err) < 0)
			goto fail;
		printf("%-12s %" PRIu64 " us of CPU, %zu KiB\n",
			f == METRICS_PROMETHEUS ? "prometheus" : "openmetrics", ns / 1000,
			len / 1024);
		worst = ns > worst ? ns : worst;
	}
	return worst > MAX_NS;
fail:
	(void)fprintf(stderr, "bench-metrics: %s\n", err.msg);
	return 1;
}
