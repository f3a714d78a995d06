/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A few functions of NVML that do what a file says. The library reads the file again at each call. FAKE_NVML names
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
 * With FAKE_NVML_OLD the library is from before the _v2 names, with the needed calls alone.
 */
#include "lib/base/error.h"
#include "lib/base/parse.h"
#include "abi/nvml-api.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifdef FAKE_NVML_OLD
nvmlReturn_t nvmlInit(void);
nvmlReturn_t nvmlDeviceGetCount(unsigned int *n);
nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *d);
nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t d, char *text, unsigned int len);
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t d, char *text, unsigned int len);

nvmlReturn_t nvmlInit(void)
{
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount(unsigned int *n)
{
	*n = 1;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *d)
{
	static char gpu;

	(void)index;
	*d = (nvmlDevice_t)&gpu;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t d, char *text, unsigned int len)
{
	(void)d;
	(void)snprintf(text, len, "Old");
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t d, char *text, unsigned int len)
{
	(void)d;
	(void)snprintf(text, len, "GPU-old");
	return NVML_SUCCESS;
}
#else

#	define X(name, params) nvmlReturn_t name params;
NVML_FUNCTIONS(X)
#	undef X
const char *nvmlErrorString(nvmlReturn_t r);

static unsigned int fixed_count = ~0U;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned int xid_seen; /* guarded by lock */

static void pause_ms(long ms)
{
	struct timespec ts = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };

	(void)nanosleep(&ts, NULL);
}

static FILE *control(void)
{
	const char *path = getenv("FAKE_NVML");

	return path ? fopen(path, "re") : NULL;
}

/* Numbers of a line; what is none is 0. */
static int number(const char *text)
{
	int64_t v = 0;

	return parse_i64(text, &v) ? (int)v : 0;
}

#	define WORDS_MAX 8

/* Splits a line at blanks; missing words are "". */
static void split(const char *line, char words[WORDS_MAX][64])
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

static nvmlReturn_t act(const char *call, int gpu)
{
	nvmlReturn_t r = NVML_SUCCESS;
	static _Thread_local unsigned int calls; /* of a file that will be switched */
	bool counts = false, due = false;
	char line[256], words[WORDS_MAX][64];
	FILE *f = control();

	while (f && fgets(line, sizeof line, f)) {
		int g, value;

		split(line, words);
		if (strcmp(words[0], "log") == 0)
			log_call(call, gpu);
		if (strcmp(words[0], "switch") == 0) {
			counts = true;
			due = calls >= (unsigned int)number(words[1]);
		}
		g = number(words[2]);
		value = number(words[3]);
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
		return act(call, gpu);
	}
	return r;
}

static unsigned int count(void)
{
	char line[256], words[WORDS_MAX][64];
	unsigned int n = 2;
	bool fixed = false;
	FILE *f = control();

	while (f && fgets(line, sizeof line, f)) {
		split(line, words);
		if (strcmp(words[0], "gpus") == 0)
			n = (unsigned int)number(words[1]);
		fixed |= strcmp(words[0], "fixed") == 0;
	}
	if (f)
		(void)fclose(f);
	if (fixed && fixed_count == ~0U)
		fixed_count = n;
	return fixed ? fixed_count : n;
}

static int index_of(nvmlDevice_t d)
{
	return (int)((uintptr_t)d - 1000);
}

static nvmlDevice_t device_of(unsigned int index)
{
	return (nvmlDevice_t)(uintptr_t)(1000 + index);
}

/* The first line of @word whose next words are @a and, if it is not -1, @b. False: there is none. */
static bool find_line(const char *word, int a, int b, char words[WORDS_MAX][64])
{
	char line[256];
	bool found = false;
	FILE *f = control();

	while (f && !found && fgets(line, sizeof line, f)) {
		split(line, words);
		found = strcmp(words[0], word) == 0 && number(words[1]) == a &&
			(b == -1 || number(words[2]) == b);
	}
	if (f)
		(void)fclose(f);
	return found;
}

static unsigned long long memory_bytes(void)
{
	char line[256], words[WORDS_MAX][64];
	unsigned long long bytes = 1000;
	FILE *f = control();

	while (f && fgets(line, sizeof line, f)) {
		split(line, words);
		if (strcmp(words[0], "memory") == 0)
			bytes = (unsigned long long)number(words[1]) << 20;
	}
	if (f)
		(void)fclose(f);
	return bytes;
}

#	define ACT(d)                                                  \
		do {                                                    \
			nvmlReturn_t act_ = act(__func__, index_of(d)); \
			if (act_ != NVML_SUCCESS)                       \
				return act_;                            \
		} while (0)

nvmlReturn_t nvmlInit_v2(void)
{
	(void)count();
	return act(__func__, -2);
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
	*n = count();
	return act(__func__, -2);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *d)
{
	*d = device_of(index);
	ACT(*d);
	return index < count() ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t d, char *text, unsigned int len)
{
	ACT(d);
	(void)snprintf(text, len, "Fake \x01GPU");
	return NVML_SUCCESS;
}

/* ---- processes -------------------------------------------------------------------------------- */

static nvmlReturn_t processes(const char *list, nvmlDevice_t d, unsigned int *n,
	nvmlProcessInfo_t *infos)
{
	char line[256], words[WORDS_MAX][64];
	unsigned int room = *n;
	FILE *f = control();

	*n = 0;
	while (f && fgets(line, sizeof line, f)) {
		split(line, words);
		if (strcmp(words[0], "process") != 0 || strcmp(words[1], list) != 0 ||
			number(words[2]) != index_of(d))
			continue;
		if (*n < room)
			infos[*n] = (nvmlProcessInfo_t){ .pid = (unsigned int)number(words[3]),
				.usedGpuMemory = number(words[4]) < 0
							 ? NVML_VALUE_NOT_AVAILABLE
							 : (unsigned long long)number(words[4])
								   << 20,
				.gpuInstanceId = (unsigned int)number(words[5]),
				.computeInstanceId = (unsigned int)number(words[6]) };
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
	return processes("compute", d, n, infos);
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t d, unsigned int *n,
	nvmlProcessInfo_t *infos)
{
	ACT(d);
	return processes("graphics", d, n, infos);
}

/* ---- MIG -------------------------------------------------------------------------------------- */

#	define MIG_FIRST       100 /* as the numbers of GPUs: 100 * (GPU + 1) + index */
#	define GI_HANDLES      5000

static const struct profile {
	unsigned int number, id, slices, ofa;
	unsigned long long memory_mib;
	const char *name;
} profiles[] = {
	{ 0, 19, 1, 0, 4864, "MIG 1g.5gb" },
	{ 2, 9, 3, 0, 20096, "MIG 3g.20gb" },
	{ 7, 20, 1, 1, 4864, "MIG 1g.5gb+me" },
	{ 17, 32, 3, 0, 20096, "MIG 3g.20gb+gfx" }, /* the attributes of number 2 */
	{ 25, 60, 2, 0, 9984, "MIG 2g.11gb+new" },  /* of a driver to come */
	{ 26, 61, 2, 1, 9984, "new" },
};
#	define PROFILE_NUMBERS 27

/* The "mig" line of a MIG device's handle. */
static bool mig_line(nvmlDevice_t d, char words[WORDS_MAX][64])
{
	int index = index_of(d);

	return index >= MIG_FIRST &&
	       find_line("mig", index / MIG_FIRST - 1, index % MIG_FIRST, words);
}

#	define MIG_LINE(d)                \
		char words[WORDS_MAX][64]; \
		ACT(d);                    \
		if (!mig_line(d, words))   \
		return NVML_ERROR_INVALID_ARGUMENT

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t d, char *text, unsigned int len)
{
	char words[WORDS_MAX][64];

	ACT(d);
	if (mig_line(d, words))
		(void)snprintf(text, len, "MIG-fake-%s-%s-%s", words[1], words[3], words[4]);
	else
		(void)snprintf(text, len, "GPU-fake-%d", index_of(d));
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t d, unsigned int *current, unsigned int *pending)
{
	char words[WORDS_MAX][64];

	ACT(d);
	if (!find_line("migmode", index_of(d), -1, words))
		return NVML_ERROR_NOT_SUPPORTED;
	*current = NVML_DEVICE_MIG_ENABLE;
	*pending = (unsigned int)number(words[2]);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t d, unsigned int *n)
{
	ACT(d);
	*n = 7;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t d, unsigned int index,
	nvmlDevice_t *mig)
{
	char words[WORDS_MAX][64];

	ACT(d);
	if (!find_line("mig", index_of(d), (int)index, words))
		return index < 6 ? NVML_ERROR_NOT_FOUND : NVML_ERROR_INVALID_ARGUMENT;
	*mig = device_of(MIG_FIRST * ((unsigned int)index_of(d) + 1) + index);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t d, unsigned int *id)
{
	MIG_LINE(d);
	*id = (unsigned int)number(words[3]);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t d, unsigned int *id)
{
	MIG_LINE(d);
	*id = (unsigned int)number(words[4]);
	return NVML_SUCCESS;
}

static const struct profile *profile_of(int id)
{
	static const struct profile none = { .id = 99, .slices = 1, .memory_mib = 1 };

	for (size_t i = 0; i < ARRAY_LEN(profiles); i++) {
		if ((int)profiles[i].id == id)
			return &profiles[i];
	}
	return &none;
}

nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t d, nvmlDeviceAttributes_t *a)
{
	const struct profile *p;

	MIG_LINE(d);
	p = profile_of(number(words[5]));
	*a = (nvmlDeviceAttributes_t){ .multiprocessorCount =
					       14 * (unsigned int)number(words[6]),
		.sharedCopyEngineCount = p->slices,
		.sharedOfaCount = p->ofa,
		.gpuInstanceSliceCount = p->slices,
		.computeInstanceSliceCount = (unsigned int)number(words[6]),
		.memorySizeMB = p->memory_mib };
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfo(nvmlDevice_t d, unsigned int number,
	nvmlGpuInstanceProfileInfo_t *info)
{
	ACT(d);
	for (size_t i = 0; i < ARRAY_LEN(profiles); i++) {
		const struct profile *p = &profiles[i];

		if (p->number != number)
			continue;
		*info = (nvmlGpuInstanceProfileInfo_t){ .id = p->id,
			.sliceCount = p->slices,
			.copyEngineCount = p->slices,
			.ofaCount = p->ofa,
			.memorySizeMB = p->memory_mib };
		return NVML_SUCCESS;
	}
	return number < PROFILE_NUMBERS ? NVML_ERROR_NOT_SUPPORTED
					: NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoV(nvmlDevice_t d, unsigned int number,
	nvmlGpuInstanceProfileInfo_v2_t *info)
{
	ACT(d);
	if (info->version != NVML_STRUCT_VERSION(nvmlGpuInstanceProfileInfo_v2_t, 2))
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	for (size_t i = 0; i < ARRAY_LEN(profiles); i++) {
		if (profiles[i].number == number)
			(void)snprintf(info->name, sizeof info->name, "%s", profiles[i].name);
	}
	return NVML_SUCCESS;
}

/* A handle is the GPU and the GI's id. */
nvmlReturn_t nvmlDeviceGetGpuInstanceById(nvmlDevice_t d, unsigned int id,
	nvmlGpuInstance_t *gi)
{
	ACT(d);
	*gi = (nvmlGpuInstance_t)(uintptr_t)(GI_HANDLES + index_of(d) * MIG_FIRST + (int)id);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpuInstanceGetInfo(nvmlGpuInstance_t handle, nvmlGpuInstanceInfo_t *info)
{
	int gpu = (int)((uintptr_t)handle - GI_HANDLES) / MIG_FIRST;
	int gi = (int)((uintptr_t)handle - GI_HANDLES) % MIG_FIRST;
	char words[WORDS_MAX][64];
	nvmlReturn_t r = act(__func__, gpu);

	for (int i = 0; i < 7 && r == NVML_SUCCESS; i++) {
		if (!find_line("mig", gpu, i, words) || number(words[3]) != gi)
			continue;
		*info = (nvmlGpuInstanceInfo_t){ .id = (unsigned int)gi,
			.profileId = (unsigned int)number(words[5]) };
		return NVML_SUCCESS;
	}
	return r == NVML_SUCCESS ? NVML_ERROR_INVALID_ARGUMENT : r;
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t d, nvmlPciInfo_t *pci)
{
	ACT(d);
	*pci = (nvmlPciInfo_t){ .bus = (unsigned int)index_of(d) };
	(void)snprintf(pci->busId, sizeof pci->busId, "00000000:%02X:1E.0", index_of(d) + 0xA0);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t d, unsigned int *minor)
{
	ACT(d);
	*minor = (unsigned int)index_of(d);
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
	FILE *f = control();

	while (f && !found && fgets(line, sizeof line, f)) {
		split(line, words);
		found = strcmp(words[0], "fabric") == 0 && strcmp(words[1], call) == 0 &&
			number(words[2]) == gpu;
	}
	if (f)
		(void)fclose(f);
	return found;
}

nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t d, nvmlGpuFabricInfo_t *info)
{
	char words[WORDS_MAX][64];

	ACT(d);
	if (!fabric_line(__func__, index_of(d), words))
		return NVML_ERROR_FUNCTION_NOT_FOUND;
	*info = (nvmlGpuFabricInfo_t){ .state = (unsigned char)number(words[3]),
		.status = (nvmlReturn_t)number(words[4]),
		.cliqueId = 41 };
	memset(info->clusterUuid, number(words[5]), sizeof info->clusterUuid);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t d, nvmlGpuFabricInfo_v2_t *info)
{
	char words[WORDS_MAX][64];

	ACT(d);
	if (!fabric_line(__func__, index_of(d), words))
		return NVML_ERROR_FUNCTION_NOT_FOUND;
	if (info->version != NVML_STRUCT_VERSION(nvmlGpuFabricInfo_v2_t, 2))
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	info->state = (unsigned char)number(words[3]);
	info->status = (nvmlReturn_t)number(words[4]);
	info->cliqueId = 42;
	memset(info->clusterUuid, number(words[5]), sizeof info->clusterUuid);
	return NVML_SUCCESS;
}

/* ---- figures ---------------------------------------------------------------------------------- */

static bool figure(const char *call, int gpu, int arg, long long *ret)
{
	char line[256], words[WORDS_MAX][64];
	bool found = false;
	FILE *f = control();

	while (f && !found && fgets(line, sizeof line, f)) {
		int64_t v = 0;

		split(line, words);
		found = strcmp(words[0], "figure") == 0 && strcmp(words[1], call) == 0 &&
			number(words[2]) == gpu && number(words[3]) == arg &&
			parse_i64(words[4], &v);
		*ret = v;
	}
	if (f)
		(void)fclose(f);
	return found;
}

static nvmlReturn_t figure_u32(const char *call, nvmlDevice_t d, int arg, unsigned int *ret)
{
	long long v = 0;
	nvmlReturn_t r = act(call, index_of(d));

	if (r != NVML_SUCCESS)
		return r;
	if (!figure(call, index_of(d), arg, &v))
		return NVML_ERROR_NOT_SUPPORTED;
	*ret = (unsigned int)v;
	return NVML_SUCCESS;
}

#	define FIGURE(name)                                         \
		nvmlReturn_t name(nvmlDevice_t d, unsigned int *ret) \
		{                                                    \
			return figure_u32(__func__, d, 0, ret);      \
		}
#	define FIGURE_OF(name)                                                        \
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
	f = control();
	(void)clock_gettime(CLOCK_REALTIME, &ts);
	while (f && fgets(line, sizeof line, f)) {
		unsigned long long at = (unsigned long long)ts.tv_sec * 1000000 +
					(unsigned long long)ts.tv_nsec / 1000;

		split(line, words);
		at -= (unsigned long long)number(words[3]) * 1000;
		if (strcmp(words[0], "utilization") != 0 || number(words[1]) != index_of(d) ||
			at <= last_seen_us || have >= room)
			continue;
		samples[have++] =
			(nvmlProcessUtilizationSample_t){ .pid = (unsigned int)number(words[2]),
				.timeStamp = at,
				.smUtil = (unsigned int)number(words[4]) };
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
	f = control();
	while (f && fgets(line, sizeof line, f)) {
		split(line, words);
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
	return *sample ? act(__func__, -2) : NVML_ERROR_MEMORY;
}

nvmlReturn_t nvmlGpmSampleFree(nvmlGpmSample_t sample)
{
	free(sample);
	return act(__func__, -2);
}

nvmlReturn_t nvmlGpmSampleGet(nvmlDevice_t d, nvmlGpmSample_t sample)
{
	ACT(d);
	sample->of = index_of(d);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpmMigSampleGet(nvmlDevice_t d, unsigned int gi, nvmlGpmSample_t sample)
{
	ACT(d);
	sample->of = MIG_FIRST * (index_of(d) + 1) + (int)gi;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpmMetricsGet(nvmlGpmMetricsGet_t *get)
{
	static char name[] = "name";
	nvmlReturn_t r = act(__func__, -2);

	if (get->sample1 == get->sample2 || get->sample1->of != get->sample2->of)
		return NVML_ERROR_INVALID_ARGUMENT;
	for (unsigned int i = 0; i < get->numMetrics; i++) {
		nvmlGpmMetric_t *m = &get->metrics[i];
		long long v = 0;
		bool has = figure(__func__, get->sample1->of, (int)m->metricId, &v);

		m->nvmlReturn = NVML_SUCCESS;
		m->value = (double)v / 1000;
		m->metricInfo.shortName = has ? name : NULL;
	}
	return r;
}

nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t d, unsigned int *n,
	nvmlProcessInfo_t *infos)
{
	ACT(d);
	return processes("mps", d, n, infos);
}

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t d, int n, nvmlFieldValue_t *values)
{
	ACT(d);
	for (int i = 0; i < n; i++) {
		long long v = 0;

		values[i].nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
		if (figure("fieldError", index_of(d), (int)values[i].fieldId, &v)) {
			values[i].nvmlReturn = (nvmlReturn_t)v;
			continue;
		}
		if (figure(__func__, index_of(d), (int)values[i].fieldId, &v)) {
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
		values[i].value.usVal = (unsigned short)(index_of(d) == 1 ? 2 : 0);
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
	*status = index == NVML_P2P_CAPS_INDEX_NVLINK && index_of(b) == index_of(a) + 1
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
	unsigned int n = count(), next = (unsigned int)index_of(d) + 1;

	(void)link;
	ACT(d);
	return nvmlDeviceGetPciInfo_v3(device_of(next < n ? next : 0), pci);
}

nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t d, unsigned long long *types)
{
	ACT(d);
	*types = NVML_EVENT_XID_CRITICAL | NVML_EVENT_CLOCK;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
	*set = (nvmlEventSet_t)&lock;
	return act(__func__, -2);
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
	FILE *f = control();
	bool got = false;

	while (f && !got && fgets(line, sizeof line, f)) {
		split(line, words);
		if (strcmp(words[0], "xid") != 0)
			continue;
		for (int i = 1; i < WORDS_MAX; i++)
			ret[i] = (unsigned int)number(words[i]);
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
		nvmlReturn_t r = act(__func__, -2);

		if (r != NVML_SUCCESS)
			return r;
		if (next_xid(xid)) {
			*data = (nvmlEventData_t){ .device = device_of(xid[2]),
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
#endif
