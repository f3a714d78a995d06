/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A few functions of NVML that do what a file defines. The library reads the file again at each call. FAKE_NVML names
 * the file; a line has one word and its arguments.
 *
 *	gpus N                     how many (default 2)
 *	fixed                      the number at init stays, as with the real library
 *	error CALL GPU CODE        that call on that GPU returns CODE (GPU -1: on any)
 *	hang CALL GPU
 *	crash CALL GPU
 *	slow CALL GPU MS           CALL * is any
 *	xid SEQ GPU XID GI CI      delivered once for each new SEQ
 *	memory MIB                 of each GPU (default 1000 bytes)
 *	migmode GPU PENDING        the GPU is in MIG mode, and PENDING (0 or 1) after its next reset
 *	mig GPU INDEX GI CI ID SLICES   a MIG device: its place in the list, instances, the id of the
 *	                           GI's profile and the CI's slices; the device is "GPU" 100 * GPU +
 *	                           100 + INDEX of the lines above
 *	process LIST GPU PID MIB GI CI   a process on the GPU, in the list "compute", "graphics" or "mps";
 *	                           MIB or GI -1: NVML does not know it, or there is no MIG
 *	figure CALL GPU ARG VALUE  what a call that gives numbers returns, for its argument (or the index of
 *	                           the number, or the field, or the metric) ARG; NOT_SUPPORTED without a
 *	                           line. VALUEs of GPM metrics are thousandths, GPU of a MIG sample
 *	                           is 100 * GPU + 100 + GI
 *	figure fieldError GPU FIELD CODE   that field of nvmlDeviceGetFieldValues() has this error
 *	nogpm                      no GPU has GPM
 *	utilization GPU PID AGO_MS PERCENT   a sample of process utilization, so long before the call
 *	log                        each call is written to the file of that name with ".calls"
 *	switch N                   after N more calls of a thread the file and the file with ".next" change places
 *	fabric CALL GPU STATE STATUS BYTE   of a call for fabric info; the cluster's UUID is all BYTEs
 *
 * MIG is in fake-nvml-mig.c, numbers that are measured in fake-nvml-figures.c.
 */
#include "fake-nvml-internal.h"

#include "lib/base/parse.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static unsigned int fixed_count = ~0U;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned int xid_seen; /* guarded by lock */

static void pause_ms(long ms)
{
	struct timespec ts = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };

	(void)nanosleep(&ts, NULL);
}

FILE *fake_nvml_open(void)
{
	const char *path = getenv("FAKE_NVML");

	return path ? fopen(path, "re") : NULL;
}

int fake_nvml_number(const char *text)
{
	int64_t v = 0;

	return parse_i64(text, &v) ? (int)v : 0;
}

void fake_nvml_split(const char *line, char words[WORDS_MAX][64])
{
	memset(words, 0, WORDS_MAX * sizeof words[0]);
	(void)sscanf(line, "%63s %63s %63s %63s %63s %63s %63s %63s", words[0], words[1],
		words[2], words[3], words[4], words[5], words[6], words[7]);
}

static void log_call(const char *call, int gpu)
{
	const char *path = getenv("FAKE_NVML");
	char name[4096];
	FILE *f;

	(void)snprintf(name, sizeof name, "%s.calls", path);
	f = fopen(name, "ae");
	if (!f)
		return;
	(void)fprintf(f, "%s %d\n", call, gpu);
	(void)fclose(f);
}

static void switch_files(void)
{
	const char *path = getenv("FAKE_NVML");
	char next[4096];

	(void)snprintf(next, sizeof next, "%s.next", path);
	if (renameat2(AT_FDCWD, next, AT_FDCWD, path, RENAME_EXCHANGE) < 0)
		abort();
}

nvmlReturn_t fake_nvml_act(const char *call, int gpu)
{
	nvmlReturn_t r = NVML_SUCCESS;
	static _Thread_local unsigned int calls; /* of a file that will be switched */
	bool counts = false, due = false;
	char line[256], words[WORDS_MAX][64];
	FILE *f = fake_nvml_open();

	while (f && fgets(line, sizeof line, f)) {
		int g, value;

		fake_nvml_split(line, words);
		if (strcmp(words[0], "log") == 0)
			log_call(call, gpu);
		if (strcmp(words[0], "switch") == 0) {
			counts = true;
			due = calls >= (unsigned int)fake_nvml_number(words[1]);
		}
		g = fake_nvml_number(words[2]);
		value = fake_nvml_number(words[3]);
		if ((strcmp(words[1], call) != 0 && strcmp(words[1], "*") != 0) ||
			(g != gpu && g != -1))
			continue;
		if (strcmp(words[0], "error") == 0)
			r = (nvmlReturn_t)value;
		if (strcmp(words[0], "hang") == 0)
			pause_ms(1000000);
		if (strcmp(words[0], "slow") == 0)
			pause_ms(value);
		if (strcmp(words[0], "crash") == 0)
			abort();
	}
	if (f)
		(void)fclose(f);
	calls = counts && !due ? calls + 1 : 0;
	if (due) {
		switch_files();
		return fake_nvml_act(call, gpu);
	}
	return r;
}

unsigned int fake_nvml_count(void)
{
	char line[256], words[WORDS_MAX][64];
	unsigned int n = 2;
	bool fixed = false;
	FILE *f = fake_nvml_open();

	while (f && fgets(line, sizeof line, f)) {
		fake_nvml_split(line, words);
		if (strcmp(words[0], "gpus") == 0)
			n = (unsigned int)fake_nvml_number(words[1]);
		fixed |= strcmp(words[0], "fixed") == 0;
	}
	if (f)
		(void)fclose(f);
	if (fixed && fixed_count == ~0U)
		fixed_count = n;
	return fixed ? fixed_count : n;
}

int fake_nvml_index(nvmlDevice_t d)
{
	return (int)((uintptr_t)d - 1000);
}

nvmlDevice_t fake_nvml_device(unsigned int index)
{
	return (nvmlDevice_t)(uintptr_t)(1000 + index);
}

bool fake_nvml_find_line(const char *word, int a, int b, char words[WORDS_MAX][64])
{
	char line[256];
	bool found = false;
	FILE *f = fake_nvml_open();

	while (f && !found && fgets(line, sizeof line, f)) {
		fake_nvml_split(line, words);
		found = strcmp(words[0], word) == 0 && fake_nvml_number(words[1]) == a &&
			(b == -1 || fake_nvml_number(words[2]) == b);
	}
	if (f)
		(void)fclose(f);
	return found;
}

static unsigned long long memory_bytes(void)
{
	char line[256], words[WORDS_MAX][64];
	unsigned long long bytes = 1000;
	FILE *f = fake_nvml_open();

	while (f && fgets(line, sizeof line, f)) {
		fake_nvml_split(line, words);
		if (strcmp(words[0], "memory") == 0)
			bytes = (unsigned long long)fake_nvml_number(words[1]) << 20;
	}
	if (f)
		(void)fclose(f);
	return bytes;
}

nvmlReturn_t nvmlInit_v2(void)
{
	(void)fake_nvml_count();
	return fake_nvml_act(__func__, -2);
}

const char *nvmlErrorString(nvmlReturn_t r)
{
	return r == NVML_ERROR_GPU_IS_LOST ? "GPU is lost" : "fake text";
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *text, unsigned int len)
{
	(void)snprintf(text, len, "1.2.3");
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *n)
{
	*n = fake_nvml_count();
	return fake_nvml_act(__func__, -2);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *d)
{
	*d = fake_nvml_device(index);
	ACT(*d);
	return index < fake_nvml_count() ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t d, char *text, unsigned int len)
{
	ACT(d);
	(void)snprintf(text, len, "Fake \x01GPU");
	return NVML_SUCCESS;
}

/* --- processes --- */

static nvmlReturn_t list_fake_processes(const char *list, nvmlDevice_t d, unsigned int *n,
	nvmlProcessInfo_t *infos)
{
	char line[256], words[WORDS_MAX][64];
	unsigned int room = *n;
	FILE *f = fake_nvml_open();

	*n = 0;
	while (f && fgets(line, sizeof line, f)) {
		fake_nvml_split(line, words);
		if (strcmp(words[0], "process") != 0 || strcmp(words[1], list) != 0 ||
			fake_nvml_number(words[2]) != fake_nvml_index(d))
			continue;
		if (*n < room)
			infos[*n] = (nvmlProcessInfo_t){ .pid = (unsigned int)fake_nvml_number(
								 words[3]),
				.usedGpuMemory =
					fake_nvml_number(words[4]) < 0
						? NVML_VALUE_NOT_AVAILABLE
						: (unsigned long long)fake_nvml_number(words[4])
							  << 20,
				.gpuInstanceId = (unsigned int)fake_nvml_number(words[5]),
				.computeInstanceId = (unsigned int)fake_nvml_number(words[6]) };
		++*n;
	}
	if (f)
		(void)fclose(f);
	return *n > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t d, unsigned int *n,
	nvmlProcessInfo_t *infos)
{
	ACT(d);
	return list_fake_processes("compute", d, n, infos);
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t d, unsigned int *n,
	nvmlProcessInfo_t *infos)
{
	ACT(d);
	return list_fake_processes("graphics", d, n, infos);
}

nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t d, unsigned int *n,
	nvmlProcessInfo_t *infos)
{
	ACT(d);
	return list_fake_processes("mps", d, n, infos);
}

/* --- the GPU --- */

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t d, nvmlPciInfo_t *pci)
{
	ACT(d);
	*pci = (nvmlPciInfo_t){ .bus = (unsigned int)fake_nvml_index(d) };
	(void)snprintf(pci->busId, sizeof pci->busId, "00000000:%02X:1E.0",
		fake_nvml_index(d) + 0xA0);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t d, unsigned int *minor)
{
	ACT(d);
	*minor = (unsigned int)fake_nvml_index(d);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t d, nvmlMemory_t *memory)
{
	ACT(d);
	*memory = (nvmlMemory_t){ .total = memory_bytes(), .free = 900, .used = 100 };
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t d, nvmlMemory_v2_t *memory)
{
	ACT(d);
	if (memory->version != NVML_STRUCT_VERSION(nvmlMemory_v2_t, 2))
		return NVML_ERROR_FUNCTION_NOT_FOUND;
	memory->total = memory_bytes();
	memory->used = 20;
	memory->reserved = 80;
	memory->free = 900;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t d, int *major, int *minor)
{
	ACT(d);
	*major = 7;
	*minor = 5;
	return NVML_SUCCESS;
}

/* The "fabric" line of @call on @gpu into @words; false: there is none. */
static bool fabric_line(const char *call, int gpu, char words[WORDS_MAX][64])
{
	char line[256];
	bool found = false;
	FILE *f = fake_nvml_open();

	while (f && !found && fgets(line, sizeof line, f)) {
		fake_nvml_split(line, words);
		found = strcmp(words[0], "fabric") == 0 && strcmp(words[1], call) == 0 &&
			fake_nvml_number(words[2]) == gpu;
	}
	if (f)
		(void)fclose(f);
	return found;
}

nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t d, nvmlGpuFabricInfo_t *info)
{
	char words[WORDS_MAX][64];

	ACT(d);
	if (!fabric_line(__func__, fake_nvml_index(d), words))
		return NVML_ERROR_FUNCTION_NOT_FOUND;
	*info = (nvmlGpuFabricInfo_t){ .state = (unsigned char)fake_nvml_number(words[3]),
		.status = (nvmlReturn_t)fake_nvml_number(words[4]),
		.cliqueId = 41 };
	memset(info->clusterUuid, fake_nvml_number(words[5]), sizeof info->clusterUuid);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t d, nvmlGpuFabricInfo_v2_t *info)
{
	char words[WORDS_MAX][64];

	ACT(d);
	if (!fabric_line(__func__, fake_nvml_index(d), words))
		return NVML_ERROR_FUNCTION_NOT_FOUND;
	if (info->version != NVML_STRUCT_VERSION(nvmlGpuFabricInfo_v2_t, 2))
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	info->state = (unsigned char)fake_nvml_number(words[3]);
	info->status = (nvmlReturn_t)fake_nvml_number(words[4]);
	info->cliqueId = 42;
	memset(info->clusterUuid, fake_nvml_number(words[5]), sizeof info->clusterUuid);
	return NVML_SUCCESS;
}

/* --- events --- */

nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t d, unsigned long long *types)
{
	ACT(d);
	*types = NVML_EVENT_XID_CRITICAL | NVML_EVENT_CLOCK;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
	*set = (nvmlEventSet_t)&lock;
	return fake_nvml_act(__func__, -2);
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
	(void)set;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t d, unsigned long long types,
	nvmlEventSet_t set)
{
	(void)types;
	(void)set;
	ACT(d);
	return NVML_SUCCESS;
}

/* The numbers of the first xid line that is new. */
static bool next_xid(unsigned int ret[WORDS_MAX])
{
	char line[256], words[WORDS_MAX][64];
	FILE *f = fake_nvml_open();
	bool got = false;

	while (f && !got && fgets(line, sizeof line, f)) {
		fake_nvml_split(line, words);
		if (strcmp(words[0], "xid") != 0)
			continue;
		for (int i = 1; i < WORDS_MAX; i++)
			ret[i] = (unsigned int)fake_nvml_number(words[i]);
		(void)pthread_mutex_lock(&lock);
		got = ret[1] > xid_seen;
		if (got)
			xid_seen = ret[1];
		(void)pthread_mutex_unlock(&lock);
	}
	if (f)
		(void)fclose(f);
	return got;
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data,
	unsigned int timeout_ms)
{
	unsigned int xid[WORDS_MAX];

	(void)set;
	for (unsigned int ms = 0; ms < timeout_ms; ms += 5) {
		nvmlReturn_t r = fake_nvml_act(__func__, -2);

		if (r != NVML_SUCCESS)
			return r;
		if (next_xid(xid)) {
			*data = (nvmlEventData_t){ .device = fake_nvml_device(xid[2]),
				.eventType = NVML_EVENT_XID_CRITICAL,
				.eventData = xid[3],
				.gpuInstanceId = xid[4],
				.computeInstanceId = xid[5] };
			return NVML_SUCCESS;
		}
		pause_ms(5);
	}
	return NVML_ERROR_TIMEOUT;
}
