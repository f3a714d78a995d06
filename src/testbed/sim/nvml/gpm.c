/* SPDX-License-Identifier: Apache-2.0 */

/*
 * GPM (Hopper and later): two samples of a GPU, and metrics computed from both.
 *
 * A sample has the load and the counters of its moment. A metric is the mean load, or traffic per time. While CUDA
 * programs run on the GPU, the load is what the device daemon has measured between the two samples.
 *
 * Samples are memory of the caller's process, freed by the caller: real pointers, with a magic number.
 */
#include <string.h>

#include "lib/base/time.h"
#include "lib/base/units.h"
#include "testbed/sim/load.h"
#include "testbed/sim/mig.h"
#include "testbed/sim/nvml/lib.h"

#define SAMPLE_MAGIC UINT64_C(0x6770736C67706D31)
#define METRIC_LAST  209 /* driver 580 */
#define METRICS_MAX  210 /* in one call */

struct nvmlGpmSample_st {
	uint64_t magic, at_ns;
	nvmlDevice_t device;
	uint32_t load_percent, memory_percent;
	uint64_t pcie_kb[2];
	bool measured; /* .busy_ns is valid */
	uint64_t busy_ns, mono_ns;
};

static bool is_sample(const struct nvmlGpmSample_st *s)
{
	return s && s->magic == SAMPLE_MAGIC;
}

EXPORT nvmlReturn_t nvmlGpmQueryDeviceSupport(nvmlDevice_t d, nvmlGpmSupport_t *support)
{
	struct sim_gpu g;
	struct target t;
	nvmlReturn_t r = device_enter(d, SIM_GROUP_HANDLE, support != NULL, &g, &t);

	if (r)
		return r;
	if (support->version != 1)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	support->isSupportedDevice = g.keys.gpm && !g.fail[SIM_GROUP_GPM];
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlGpmSampleAlloc(nvmlGpmSample_t *sample)
{
	const struct sim_state *s;
	nvmlReturn_t r = nvml_lib_enter(&s);
	struct nvmlGpmSample_st *new;

	if (r)
		return r;
	if (!sample)
		return NVML_ERROR_INVALID_ARGUMENT;
	new = calloc(1, sizeof(*new));
	if (!new)
		return NVML_ERROR_MEMORY;
	new->magic = SAMPLE_MAGIC;
	*sample = new;
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlGpmSampleFree(nvmlGpmSample_t sample)
{
	const struct sim_state *s;
	nvmlReturn_t r = nvml_lib_enter(&s);

	if (r)
		return r;
	if (!is_sample(sample))
		return NVML_ERROR_INVALID_ARGUMENT;
	sample->magic = 0;
	free(sample);
	return NVML_SUCCESS;
}

/*
 * A sample of a GPU, or of one GPU instance. PCIe traffic is known only for the whole GPU. @of: the device; both
 * samples of a metric must have the same one.
 */
static nvmlReturn_t read_gpm_sample(const struct sim_gpu *g, const struct target *t,
	const struct sim_gi *gi, nvmlDevice_t of, nvmlGpmSample_t sample)
{
	const struct sim_state *node;
	struct sim_load load;
	nvmlReturn_t r;

	if (!g->keys.gpm)
		return NVML_ERROR_NOT_SUPPORTED;
	r = lib_again(&node);
	if (r)
		return r;
	sim_load_read(node, t->handle.slot, &load);
	sample->mono_ns = time_mono_ns();
	sample->measured = sim_load_busy_ns(&load, sample->mono_ns, &sample->busy_ns) && !gi;
	sample->device = of;
	sample->at_ns = time_wall_ns();
	sample->load_percent = gi ? sim_mig_load_percent(g, gi->id) : sim_load_percent(g);
	sample->memory_percent = gi ? sample->load_percent / 2 : sim_memory_load_percent(g);
	for (unsigned int i = 0; i < 2; i++)
		sample->pcie_kb[i] = gi ? 0 : sim_pcie_kb(g, i, sample->at_ns);
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlGpmSampleGet(nvmlDevice_t d, nvmlGpmSample_t sample)
{
	struct sim_gpu g;
	struct target t;
	nvmlReturn_t r = device_enter(d, SIM_GROUP_GPM, is_sample(sample), &g, &t);

	return r ? r : read_gpm_sample(&g, &t, t.gi, d, sample);
}

EXPORT nvmlReturn_t nvmlGpmMigSampleGet(nvmlDevice_t d, unsigned int id, nvmlGpmSample_t sample)
{
	struct sim_gpu g;
	struct target t;
	nvmlReturn_t r =
		any_enter(d, 1U << HANDLE_GPU, SIM_GROUP_GPM, is_sample(sample), &g, &t);
	const struct sim_gi *gi;

	if (r)
		return r;
	gi = sim_gi_find(&g, id);
	if (!gi || !lib_is_instance_visible(&g.keys, id, SIM_NO_INSTANCE))
		return NVML_ERROR_INVALID_ARGUMENT; /* as a GPU without MIG returns (measured) */
	return read_gpm_sample(&g, &t, gi,
		handle_encode((struct handle){ .slot = t.handle.slot,
			.epoch = t.handle.epoch,
			.kind = HANDLE_GI,
			.gi = id,
			.serial = gi->serial }),
		sample);
}

EXPORT nvmlReturn_t nvmlGpmQueryIfStreamingEnabled(nvmlDevice_t d, unsigned int *state)
{
	struct sim_gpu g;
	nvmlReturn_t r = gpu_enter(d, SIM_GROUP_GPM, state != NULL, &g);

	if (r == NVML_SUCCESS)
		*state = NVML_FEATURE_DISABLED;
	return r;
}

/* --- metrics --- */

enum gpm_source { LOAD, MEMORY_LOAD, PCIE_TX, PCIE_RX, NOTHING };

/* What a metric is computed from: `share` percent of its source. */
static const struct metric {
	unsigned int id;
	enum gpm_source source;
	unsigned int share;
	const char *short_name, *long_name, *unit;
} metrics[] = {
	{ 1, LOAD, 100, "gract", "GRAPHICS_UTIL", "%" },
	{ 2, LOAD, 95, "smutil", "SM_UTIL", "%" },
	{ 3, LOAD, 50, "smocc", "SM_OCCUPANCY", "%" },
	{ 4, LOAD, 10, "intutil", "INTEGER_UTIL", "%" },
	{ 5, LOAD, 40, "mmaact", "ANY_TENSOR_UTIL", "%" },
	{ 6, NOTHING, 0, "dfmat", "DFMA_TENSOR_UTIL", "%" },
	{ 7, LOAD, 40, "hmmat", "HMMA_TENSOR_UTIL", "%" },
	{ 9, NOTHING, 0, "immat", "IMMA_TENSOR_UTIL", "%" },
	{ 10, MEMORY_LOAD, 100, "dram", "DRAM_BW_UTIL", "%" },
	{ 11, NOTHING, 0, "fp64", "FP64_UTIL", "%" },
	{ 12, LOAD, 20, "fp32", "FP32_UTIL", "%" },
	{ 13, LOAD, 5, "fp16", "FP16_UTIL", "%" },
	{ 20, PCIE_TX, 100, "pcitx", "PCIE_TX_PER_SEC", "MiB/s" },
	{ 21, PCIE_RX, 100, "pcirx", "PCIE_RX_PER_SEC", "MiB/s" },
	{ 60, NOTHING, 0, "nvlrx", "NVLINK_TOTAL_RX_PER_SEC", "MiB/s" },
	{ 61, NOTHING, 0, "nvltx", "NVLINK_TOTAL_TX_PER_SEC", "MiB/s" },
};

static double traffic_mib_per_s(const nvmlGpmMetricsGet_t *get, unsigned int direction)
{
	double seconds = (double)(get->sample2->at_ns - get->sample1->at_ns) / 1e9;
	double kb =
		(double)(get->sample2->pcie_kb[direction] - get->sample1->pcie_kb[direction]);

	return seconds > 0 ? kb * 1000 / MIB / seconds : 0;
}

static double measured_percent(const struct nvmlGpmSample_st *a,
	const struct nvmlGpmSample_st *b)
{
	double ns = b->busy_ns > a->busy_ns ? (double)(b->busy_ns - a->busy_ns) : 0;

	return ns < (double)(b->mono_ns - a->mono_ns)
		       ? ns / (double)(b->mono_ns - a->mono_ns) * 100
		       : 100;
}

static double compute_gpm_value(const nvmlGpmMetricsGet_t *get, enum gpm_source source)
{
	const struct nvmlGpmSample_st *a = get->sample1, *b = get->sample2;

	switch (source) {
	case LOAD:
		if (a->measured && b->measured && b->mono_ns > a->mono_ns)
			return measured_percent(a, b);
		return (a->load_percent + b->load_percent) / 2.0;
	case MEMORY_LOAD:
		return (a->memory_percent + b->memory_percent) / 2.0;
	case PCIE_TX:
		return traffic_mib_per_s(get, 0);
	case PCIE_RX:
		return traffic_mib_per_s(get, 1);
	case NOTHING:
		break;
	}
	return 0;
}

static void fill_gpm_metric(const nvmlGpmMetricsGet_t *get, nvmlGpmMetric_t *m)
{
	m->value = 0;
	memset(&m->metricInfo, 0, sizeof(m->metricInfo));
	m->nvmlReturn = m->metricId >= 1 && m->metricId <= METRIC_LAST
				? NVML_SUCCESS
				: NVML_ERROR_INVALID_ARGUMENT;
	for (size_t i = 0; i < ARRAY_LEN(metrics); i++) {
		if (metrics[i].id != m->metricId)
			continue;
		m->value = compute_gpm_value(get, metrics[i].source) * metrics[i].share / 100;
		/* The ABI has no const; the caller only reads them. */
		memcpy(&m->metricInfo.shortName, &metrics[i].short_name, sizeof(char *));
		memcpy(&m->metricInfo.longName, &metrics[i].long_name, sizeof(char *));
		memcpy(&m->metricInfo.unit, &metrics[i].unit, sizeof(char *));
	}
}

EXPORT nvmlReturn_t nvmlGpmMetricsGet(nvmlGpmMetricsGet_t *get)
{
	const struct sim_state *s;
	nvmlReturn_t r = nvml_lib_enter(&s);

	if (r)
		return r;
	if (!get)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (get->version != 1)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	if (get->numMetrics > METRICS_MAX || get->sample1 == get->sample2 ||
		!is_sample(get->sample1) || !is_sample(get->sample2) ||
		get->sample1->device != get->sample2->device)
		return NVML_ERROR_INVALID_ARGUMENT;
	/* The array has the length that the caller's header gives: numMetrics counts, not this type. */
	for (unsigned int i = 0; i < get->numMetrics; i++)
		fill_gpm_metric(get,
			(nvmlGpmMetric_t *)((char *)get +
					    offsetof(nvmlGpmMetricsGet_t, metrics)) +
				i);
	return NVML_SUCCESS;
}
