/* SPDX-License-Identifier: Apache-2.0 */

/* Numbers that the fake NVML measures: figures, GPM, utilization, fields, links between GPUs. */
#include "fake-nvml-internal.h"

#include "lib/base/parse.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static bool find_fake_figure(const char *call, int gpu, int arg, long long *ret)
{
	char line[256], words[WORDS_MAX][64];
	bool found = false;
	FILE *f = fake_nvml_open();

	while (f && !found && fgets(line, sizeof line, f)) {
		int64_t v = 0;

		fake_nvml_split(line, words);
		found = strcmp(words[0], "figure") == 0 && strcmp(words[1], call) == 0 &&
			fake_nvml_number(words[2]) == gpu &&
			fake_nvml_number(words[3]) == arg && parse_i64(words[4], &v);
		*ret = v;
	}
	if (f)
		(void)fclose(f);
	return found;
}

static nvmlReturn_t figure_u32(const char *call, nvmlDevice_t d, int arg, unsigned int *ret)
{
	long long v = 0;
	nvmlReturn_t r = fake_nvml_act(call, fake_nvml_index(d));

	if (r != NVML_SUCCESS)
		return r;
	if (!find_fake_figure(call, fake_nvml_index(d), arg, &v))
		return NVML_ERROR_NOT_SUPPORTED;
	*ret = (unsigned int)v;
	return NVML_SUCCESS;
}

#define FIGURE(name)                                         \
	nvmlReturn_t name(nvmlDevice_t d, unsigned int *ret) \
	{                                                    \
		return figure_u32(__func__, d, 0, ret);      \
	}
#define FIGURE_OF(name)                                                        \
	nvmlReturn_t name(nvmlDevice_t d, unsigned int arg, unsigned int *ret) \
	{                                                                      \
		return figure_u32(__func__, d, (int)arg, ret);                 \
	}

FIGURE(nvmlDeviceGetPowerUsage)
FIGURE(nvmlDeviceGetFanSpeed)
FIGURE(nvmlDeviceGetPerformanceState)
FIGURE_OF(nvmlDeviceGetTemperature)
FIGURE_OF(nvmlDeviceGetClockInfo)

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t d, nvmlUtilization_t *rates)
{
	nvmlReturn_t r = figure_u32(__func__, d, 0, &rates->gpu);

	return r == NVML_SUCCESS ? figure_u32(__func__, d, 1, &rates->memory) : r;
}

nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t d,
	nvmlProcessUtilizationSample_t *samples, unsigned int *n,
	unsigned long long last_seen_us)
{
	char line[256], words[WORDS_MAX][64];
	unsigned int room = *n, have = 0;
	struct timespec ts;
	FILE *f;

	ACT(d);
	f = fake_nvml_open();
	(void)clock_gettime(CLOCK_REALTIME, &ts);
	while (f && fgets(line, sizeof line, f)) {
		unsigned long long at = (unsigned long long)ts.tv_sec * 1000000 +
					(unsigned long long)ts.tv_nsec / 1000;

		fake_nvml_split(line, words);
		at -= (unsigned long long)fake_nvml_number(words[3]) * 1000;
		if (strcmp(words[0], "utilization") != 0 ||
			fake_nvml_number(words[1]) != fake_nvml_index(d) ||
			at <= last_seen_us || have >= room)
			continue;
		samples[have++] =
			(nvmlProcessUtilizationSample_t){ .pid = (unsigned int)fake_nvml_number(
								  words[2]),
				.timeStamp = at,
				.smUtil = (unsigned int)fake_nvml_number(words[4]) };
	}
	if (f)
		(void)fclose(f);
	*n = have;
	return have ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}

struct nvmlGpmSample_st {
	int of;
};

nvmlReturn_t nvmlGpmQueryDeviceSupport(nvmlDevice_t d, nvmlGpmSupport_t *support)
{
	char line[256], words[WORDS_MAX][64];
	FILE *f;

	ACT(d);
	support->isSupportedDevice = 1;
	f = fake_nvml_open();
	while (f && fgets(line, sizeof line, f)) {
		fake_nvml_split(line, words);
		if (strcmp(words[0], "nogpm") == 0)
			support->isSupportedDevice = 0;
	}
	if (f)
		(void)fclose(f);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpmSampleAlloc(nvmlGpmSample_t *sample)
{
	*sample = calloc(1, sizeof **sample);
	return *sample ? fake_nvml_act(__func__, -2) : NVML_ERROR_MEMORY;
}

nvmlReturn_t nvmlGpmSampleFree(nvmlGpmSample_t sample)
{
	free(sample);
	return fake_nvml_act(__func__, -2);
}

nvmlReturn_t nvmlGpmSampleGet(nvmlDevice_t d, nvmlGpmSample_t sample)
{
	ACT(d);
	sample->of = fake_nvml_index(d);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpmMigSampleGet(nvmlDevice_t d, unsigned int gi, nvmlGpmSample_t sample)
{
	ACT(d);
	sample->of = MIG_FIRST * (fake_nvml_index(d) + 1) + (int)gi;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpmMetricsGet(nvmlGpmMetricsGet_t *get)
{
	static char name[] = "name";
	nvmlReturn_t r = fake_nvml_act(__func__, -2);

	if (get->sample1 == get->sample2 || get->sample1->of != get->sample2->of)
		return NVML_ERROR_INVALID_ARGUMENT;
	for (unsigned int i = 0; i < get->numMetrics; i++) {
		nvmlGpmMetric_t *m = &get->metrics[i];
		long long v = 0;
		bool has = find_fake_figure(__func__, get->sample1->of, (int)m->metricId, &v);

		m->nvmlReturn = NVML_SUCCESS;
		m->value = (double)v / 1000;
		m->metricInfo.shortName = has ? name : NULL;
	}
	return r;
}

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t d, int n, nvmlFieldValue_t *values)
{
	ACT(d);
	for (int i = 0; i < n; i++) {
		long long v = 0;

		values[i].nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
		if (find_fake_figure("fieldError", fake_nvml_index(d), (int)values[i].fieldId,
			    &v)) {
			values[i].nvmlReturn = (nvmlReturn_t)v;
			continue;
		}
		if (find_fake_figure(__func__, fake_nvml_index(d), (int)values[i].fieldId,
			    &v)) {
			values[i].nvmlReturn = NVML_SUCCESS;
			values[i].valueType = NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
			values[i].value.ullVal = (unsigned long long)v;
			continue;
		}
		if (values[i].fieldId != NVML_FI_DEV_GPU_RECOVERY_ACTION)
			continue;
		values[i].nvmlReturn = NVML_SUCCESS;
		values[i].valueType = NVML_VALUE_TYPE_UNSIGNED_SHORT;
		values[i].value.ullVal = ~0ULL;
		values[i].value.usVal = (unsigned short)(fake_nvml_index(d) == 1 ? 2 : 0);
	}
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t a, nvmlDevice_t b,
	unsigned int *level)
{
	(void)b;
	ACT(a);
	*level = NVML_TOPOLOGY_NODE;
	return NVML_SUCCESS;
}

/* Each reaches the next one, and is reached by the one before. */
nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t a, nvmlDevice_t b, unsigned int index,
	unsigned int *status)
{
	ACT(a);
	*status = index == NVML_P2P_CAPS_INDEX_NVLINK &&
				  fake_nvml_index(b) == fake_nvml_index(a) + 1
			  ? NVML_P2P_STATUS_OK
			  : NVML_P2P_STATUS_NOT_SUPPORTED;
	return NVML_SUCCESS;
}

/* Each GPU has three links: two to the next one, one down, in a ring. */
nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t d, unsigned int link, unsigned int *active)
{
	ACT(d);
	*active = link < 2;
	return link < 3 ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t d, unsigned int link,
	nvmlPciInfo_t *pci)
{
	unsigned int n = fake_nvml_count(), next = (unsigned int)fake_nvml_index(d) + 1;

	(void)link;
	ACT(d);
	return nvmlDeviceGetPciInfo_v3(fake_nvml_device(next < n ? next : 0), pci);
}
