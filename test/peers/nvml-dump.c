/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Asks an NVML library everything that our programs ask and prints one line an answer:
 *
 *	nvmlDeviceGetClockInfo(0,1) = 0 345
 *
 * so that a real driver and the simulator can be compared with diff (compare.sh, which knows what
 * moves by nature). Usage: nvml-dump [--mig] [LIBRARY]; --mig: only what is about MIG, and more of it. It
 * reads only: no setter is called, and MIG is asked about as it is, which on most machines is off.
 */
#include "abi/nvml-api.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define X(name, params) static nvmlReturn_t(*name) params;
NVML_FUNCTIONS(X)
#undef X

static void *lib;
static bool only_mig;

static void load(const char *path)
{
	lib = dlopen(path, RTLD_NOW);
	if (!lib) {
		fprintf(stderr, "%s\n", dlerror());
		exit(2);
	}
#define X(name, params) *(void **)&name = dlsym(lib, #name);
	NVML_FUNCTIONS(X)
#undef X
}

/* Each macro calls if the symbol is there and prints the result in one fixed form. */
#define MISSING(fn)                       \
	if (!fn) {                        \
		printf(#fn " missing\n"); \
		break;                    \
	}
#define U(fn, ...)                                         \
	do {                                               \
		unsigned int v_ = 0xabcdef;                \
		MISSING(fn)                                \
		int r_ = fn(__VA_ARGS__, &v_);             \
		printf(#fn "(" #__VA_ARGS__ ") = %d", r_); \
		printf(r_ ? "\n" : " %u\n", v_);           \
	} while (0)
#define ULL(fn, ...)                                       \
	do {                                               \
		unsigned long long v_ = 0;                 \
		MISSING(fn)                                \
		int r_ = fn(__VA_ARGS__, &v_);             \
		printf(#fn "(" #__VA_ARGS__ ") = %d", r_); \
		printf(r_ ? "\n" : " %llu\n", v_);         \
	} while (0)
#define U2(fn, ...)                                        \
	do {                                               \
		unsigned int a_ = 0, b_ = 0;               \
		MISSING(fn)                                \
		int r_ = fn(__VA_ARGS__, &a_, &b_);        \
		printf(#fn "(" #__VA_ARGS__ ") = %d", r_); \
		printf(r_ ? "\n" : " %u %u\n", a_, b_);    \
	} while (0)
#define S(fn, ...)                                                    \
	do {                                                          \
		char s_[128] = "";                                    \
		MISSING(fn)                                           \
		int r_ = fn(__VA_ARGS__, s_, sizeof(s_));             \
		printf(#fn "(" #__VA_ARGS__ ") = %d '%s'\n", r_, s_); \
	} while (0)
#define S0(fn)                                      \
	do {                                        \
		char s_[128] = "";                  \
		MISSING(fn)                         \
		int r_ = fn(s_, sizeof(s_));        \
		printf(#fn " = %d '%s'\n", r_, s_); \
	} while (0)
#define L(fn, i, ...)                                  \
	do {                                           \
		unsigned int v_ = 0;                   \
		MISSING(fn)                            \
		int r_ = fn(__VA_ARGS__, &v_);         \
		printf(#fn "(%d) = %d", (int)(i), r_); \
		printf(r_ ? "\n" : " %u\n", v_);       \
	} while (0)

static void dump_identity(nvmlDevice_t d)
{
	nvmlPciInfo_t p = { 0 };
	nvmlPciInfoExt_v1_t e = { .version = NVML_STRUCT_VERSION(e, 1) };
	nvmlPlatformInfo_v2_t plat = { .version = NVML_STRUCT_VERSION(plat, 2) };
	nvmlDeviceAddressingMode_v1_t am = { .version = NVML_STRUCT_VERSION(am, 1) };
	int major = 0, minor = 0, r;

	S(nvmlDeviceGetName, d);
	S(nvmlDeviceGetUUID, d);
	S(nvmlDeviceGetSerial, d);
	S(nvmlDeviceGetVbiosVersion, d);
	S(nvmlDeviceGetBoardPartNumber, d);
	S(nvmlDeviceGetInforomImageVersion, d);
	U(nvmlDeviceGetIndex, d);
	U(nvmlDeviceGetMinorNumber, d);
	U(nvmlDeviceGetBrand, d);
	U(nvmlDeviceGetArchitecture, d);
	U(nvmlDeviceGetBoardId, d);
	U(nvmlDeviceGetMultiGpuBoard, d);
	U(nvmlDeviceGetModuleId, d);
	U(nvmlDeviceGetNumGpuCores, d);
	U(nvmlDeviceGetMemoryBusWidth, d);
	U(nvmlDeviceGetVirtualizationMode, d);
	U(nvmlDeviceGetNumaNodeId, d);
	r = nvmlDeviceGetCudaComputeCapability(d, &major, &minor);
	printf("nvmlDeviceGetCudaComputeCapability(d) = %d %d %d\n", r, major, minor);
	r = nvmlDeviceGetPciInfo_v3(d, &p);
	printf("nvmlDeviceGetPciInfo_v3(d) = %d '%s' %x:%x:%x %08x %08x '%s'\n", r,
		p.busIdLegacy, p.domain, p.bus, p.device, p.pciDeviceId, p.pciSubSystemId,
		p.busId);
	if (nvmlDeviceGetPciInfoExt) {
		r = nvmlDeviceGetPciInfoExt(d, &e);
		printf("nvmlDeviceGetPciInfoExt(d) = %d version %08x class %x %x '%s'\n", r,
			e.version, e.baseClass, e.subClass, e.busId);
		e.version = 1;
		printf("nvmlDeviceGetPciInfoExt(bad) = %d\n", nvmlDeviceGetPciInfoExt(d, &e));
	}
	if (nvmlDeviceGetAddressingMode) {
		r = nvmlDeviceGetAddressingMode(d, &am);
		printf("nvmlDeviceGetAddressingMode(d) = %d %u\n", r, am.value);
	}
	if (nvmlDeviceGetPlatformInfo) {
		r = nvmlDeviceGetPlatformInfo(d, &plat);
		printf("nvmlDeviceGetPlatformInfo(d) = %d slot %u tray %u host %u peer %u module %u\n",
			r, plat.slotNumber, plat.trayIndex, plat.hostId, plat.peerType,
			plat.moduleId);
	}
	if (nvmlDeviceGetGpuFabricInfo) {
		nvmlGpuFabricInfo_t f = { 0 };

		r = nvmlDeviceGetGpuFabricInfo(d, &f);
		printf("nvmlDeviceGetGpuFabricInfo(d) = %d state %u status %d clique %u\n", r,
			f.state, f.status, f.cliqueId);
	}
	if (nvmlDeviceGetGpuFabricInfoV) {
		nvmlGpuFabricInfo_v2_t f = { .version = NVML_STRUCT_VERSION(f, 2) };
		nvmlGpuFabricInfo_v3_t f3 = { .version = NVML_STRUCT_VERSION(f3, 3) };

		r = nvmlDeviceGetGpuFabricInfoV(d, &f);
		printf("nvmlDeviceGetGpuFabricInfoV(v2) = %d state %u status %d health %x\n", r,
			f.state, f.status, f.healthMask);
		r = nvmlDeviceGetGpuFabricInfoV(d, (void *)&f3);
		printf("nvmlDeviceGetGpuFabricInfoV(v3) = %d state %u health %x summary %u\n",
			r, f3.state, f3.healthMask, f3.healthSummary);
	}
}

static void dump_state(nvmlDevice_t d)
{
	nvmlMemory_t m = { 0 };
	nvmlMemory_v2_t m2 = { .version = NVML_STRUCT_VERSION(m2, 2) };
	nvmlBAR1Memory_t b = { 0 };
	nvmlUtilization_t u = { 0 };
	nvmlTemperature_v1_t t = { .version = NVML_STRUCT_VERSION(t, 1) };
	nvmlMarginTemperature_v1_t mt = { .version = NVML_STRUCT_VERSION(mt, 1) };
	int r = nvmlDeviceGetMemoryInfo(d, &m);

	printf("nvmlDeviceGetMemoryInfo(d) = %d %llu %llu %llu\n", r, m.total, m.free, m.used);
	r = nvmlDeviceGetMemoryInfo_v2(d, &m2);
	printf("nvmlDeviceGetMemoryInfo_v2(d) = %d %llu reserved %llu %llu %llu version %08x\n",
		r, m2.total, m2.reserved, m2.free, m2.used, m2.version);
	m2.version = 7;
	printf("nvmlDeviceGetMemoryInfo_v2(bad) = %d\n", nvmlDeviceGetMemoryInfo_v2(d, &m2));
	r = nvmlDeviceGetBAR1MemoryInfo(d, &b);
	printf("nvmlDeviceGetBAR1MemoryInfo(d) = %d %llu %llu %llu\n", r, b.bar1Total,
		b.bar1Free, b.bar1Used);
	r = nvmlDeviceGetUtilizationRates(d, &u);
	printf("nvmlDeviceGetUtilizationRates(d) = %d %u %u\n", r, u.gpu, u.memory);
	U2(nvmlDeviceGetEncoderUtilization, d);
	U2(nvmlDeviceGetDecoderUtilization, d);
	U2(nvmlDeviceGetJpgUtilization, d);
	U2(nvmlDeviceGetOfaUtilization, d);
	U(nvmlDeviceGetPowerUsage, d);
	U(nvmlDeviceGetEnforcedPowerLimit, d);
	U(nvmlDeviceGetPowerManagementLimit, d);
	U(nvmlDeviceGetPowerManagementDefaultLimit, d);
	U2(nvmlDeviceGetPowerManagementLimitConstraints, d);
	ULL(nvmlDeviceGetTotalEnergyConsumption, d);
	for (int i = 0; i < 3; i++)
		L(nvmlDeviceGetTemperature, i, d, i);
	if (nvmlDeviceGetTemperatureV) {
		r = nvmlDeviceGetTemperatureV(d, &t);
		printf("nvmlDeviceGetTemperatureV(d) = %d %d\n", r, t.temperature);
	}
	if (nvmlDeviceGetMarginTemperature) {
		r = nvmlDeviceGetMarginTemperature(d, &mt);
		printf("nvmlDeviceGetMarginTemperature(d) = %d %d\n", r, mt.marginTemperature);
	}
	for (int i = 0; i < 9; i++)
		L(nvmlDeviceGetTemperatureThreshold, i, d, i);
	for (int i = 0; i < 5; i++) {
		L(nvmlDeviceGetClockInfo, i, d, i);
		L(nvmlDeviceGetMaxClockInfo, i, d, i);
		L(nvmlDeviceGetApplicationsClock, i, d, i);
		for (int j = 0; j < 5; j++)
			L(nvmlDeviceGetClock, i * 10 + j, d, i, j);
	}
	ULL(nvmlDeviceGetCurrentClocksEventReasons, d);
	ULL(nvmlDeviceGetSupportedClocksEventReasons, d);
	U(nvmlDeviceGetPerformanceState, d);
	for (int i = 0; i < 3; i++)
		L(nvmlDeviceGetPcieThroughput, i, d, i);
	U(nvmlDeviceGetPcieReplayCounter, d);
	U(nvmlDeviceGetCurrPcieLinkGeneration, d);
	U(nvmlDeviceGetMaxPcieLinkGeneration, d);
	U(nvmlDeviceGetCurrPcieLinkWidth, d);
	U(nvmlDeviceGetMaxPcieLinkWidth, d);
	U(nvmlDeviceGetFanSpeed, d);
	U(nvmlDeviceGetNumFans, d);
	U(nvmlDeviceGetPersistenceMode, d);
	U(nvmlDeviceGetComputeMode, d);
	for (int i = 0; i < 13; i++) {
		nvmlViolationTime_t v = { 0 };

		r = nvmlDeviceGetViolationStatus(d, i, &v);
		printf("nvmlDeviceGetViolationStatus(%d) = %d %llu\n", i, r, v.violationTime);
	}
}

static void dump_errors(nvmlDevice_t d)
{
	nvmlRowRemapperHistogramValues_t h = { 0 };
	unsigned int n = 0, a = 0, b = 0, c = 0, e = 0;

	U2(nvmlDeviceGetEccMode, d);
	for (int type = 0; type < 3; type++)
		for (int counter = 0; counter < 3; counter++) {
			unsigned long long v = 0;
			int r = nvmlDeviceGetTotalEccErrors(d, type, counter, &v);

			printf("nvmlDeviceGetTotalEccErrors(%d,%d) = %d %llu\n", type, counter,
				r, v);
			for (int loc = 0; loc < 9; loc++) {
				r = nvmlDeviceGetMemoryErrorCounter(d, type, counter, loc, &v);
				printf("nvmlDeviceGetMemoryErrorCounter(%d,%d,%d) = %d %llu\n",
					type, counter, loc, r, v);
			}
		}
	printf("nvmlDeviceGetRetiredPages(0) = %d\n",
		nvmlDeviceGetRetiredPages(d, 0, &n, NULL));
	U(nvmlDeviceGetRetiredPagesPendingStatus, d);
	int r = nvmlDeviceGetRemappedRows(d, &a, &b, &c, &e);
	printf("nvmlDeviceGetRemappedRows(d) = %d %u %u %u %u\n", r, a, b, c, e);
	r = nvmlDeviceGetRowRemapperHistogram(d, &h);
	printf("nvmlDeviceGetRowRemapperHistogram(d) = %d %u %u %u %u %u\n", r, h.max, h.high,
		h.partial, h.low, h.none);
}

static void dump_topology(nvmlDevice_t d, nvmlDevice_t other)
{
	unsigned long words[4] = { 0 };
	int same = 0, r = nvmlDeviceGetCpuAffinity(d, 4, words);

	printf("nvmlDeviceGetCpuAffinity(d) = %d %lx %lx\n", r, words[0], words[1]);
	for (int scope = 0; scope < 3; scope++) {
		memset(words, 0, sizeof(words));
		r = nvmlDeviceGetMemoryAffinity(d, 4, words, scope);
		printf("nvmlDeviceGetMemoryAffinity(%d) = %d %lx\n", scope, r, words[0]);
	}
	U(nvmlDeviceGetTopologyCommonAncestor, d, other);
	r = nvmlDeviceOnSameBoard(d, other, &same);
	printf("nvmlDeviceOnSameBoard = %d %d\n", r, same);
	for (int i = 0; i < 6; i++)
		L(nvmlDeviceGetP2PStatus, i, d, other, i);
	for (int i = 0; i < 20; i++) {
		nvmlPciInfo_t p = { 0 };

		L(nvmlDeviceGetNvLinkState, i, d, i);
		L(nvmlDeviceGetNvLinkVersion, i, d, i);
		for (int cap = 0; cap < 7; cap++)
			L(nvmlDeviceGetNvLinkCapability, i * 10 + cap, d, i, cap);
		L(nvmlDeviceGetNvLinkRemoteDeviceType, i, d, i);
		r = nvmlDeviceGetNvLinkRemotePciInfo_v2(d, i, &p);
		printf("nvmlDeviceGetNvLinkRemotePciInfo_v2(%d) = %d '%s' %08x\n", i, r,
			p.busId, p.pciDeviceId);
		unsigned long long v = 0;
		r = nvmlDeviceGetNvLinkErrorCounter(d, i, 0, &v);
		printf("nvmlDeviceGetNvLinkErrorCounter(%d) = %d %llu\n", i, r, v);
	}
}

static void dump_processes(nvmlDevice_t d)
{
	nvmlProcessInfo_t infos[64];
	nvmlProcessDetail_v1_t details[64];
	nvmlProcessDetailList_v1_t list = { .version = NVML_STRUCT_VERSION(list, 1),
		.numProcArrayEntries = 64,
		.procArray = details };
	unsigned int n = 0;

	printf("compute(0,NULL) = %d", nvmlDeviceGetComputeRunningProcesses_v3(d, &n, NULL));
	printf(" %u\n", n);
	n = 64;
	printf("compute(64) = %d", nvmlDeviceGetComputeRunningProcesses_v3(d, &n, infos));
	printf(" %u\n", n);
	n = 0;
	printf("graphics(0,NULL) = %d", nvmlDeviceGetGraphicsRunningProcesses_v3(d, &n, NULL));
	printf(" %u\n", n);
	n = 0;
	printf("mps(0,NULL) = %d", nvmlDeviceGetMPSComputeRunningProcesses_v3(d, &n, NULL));
	printf(" %u\n", n);
	if (nvmlDeviceGetRunningProcessDetailList)
		printf("detail = %d", nvmlDeviceGetRunningProcessDetailList(d, &list));
	printf(" %u\n", list.numProcArrayEntries);
	list.version = 1;
	printf("detail(bad) = %d\n", nvmlDeviceGetRunningProcessDetailList(d, &list));
	n = 0;
	printf("utilization(NULL) = %d", nvmlDeviceGetProcessUtilization(d, NULL, &n, 0));
	printf(" %u\n", n);
	nvmlProcessUtilizationSample_t us[100];
	n = 100;
	printf("utilization(100) = %d", nvmlDeviceGetProcessUtilization(d, us, &n, 0));
	printf(" %u\n", n);
}

static void dump_fields(nvmlDevice_t d)
{
	for (unsigned int id = 0; id < 310; id++)
		for (unsigned int scope = 0; scope < (id >= 138 && id <= 141 ? 2U : 1U);
			scope++) {
			nvmlFieldValue_t v = { .fieldId = id,
				.scopeId = scope ? 0xFFFFFFFFU : 0 };
			int r = nvmlDeviceGetFieldValues(d, 1, &v);

			printf("field %u scope %u = %d %d type %u value %llu\n", id, scope, r,
				v.nvmlReturn, v.valueType,
				v.nvmlReturn ? 0ULL : v.value.ullVal);
		}
}

static void dump_events(nvmlDevice_t d)
{
	nvmlEventSet_t set = NULL;
	nvmlEventData_t data;

	ULL(nvmlDeviceGetSupportedEventTypes, d);
	printf("nvmlEventSetCreate = %d\n", nvmlEventSetCreate(&set));
	printf("register(0) = %d\n", nvmlDeviceRegisterEvents(d, 0, set));
	printf("register(0x40) = %d\n", nvmlDeviceRegisterEvents(d, 0x40, set));
	printf("register(0x8) = %d\n", nvmlDeviceRegisterEvents(d, 8, set));
	for (int bit = 0; bit < 64; bit++)
		printf("register(1 << %d) = %d\n", bit,
			nvmlDeviceRegisterEvents(d, 1ULL << bit, set));
	printf("wait(0) = %d\n", nvmlEventSetWait_v2(set, &data, 0));
	printf("wait(NULL) = %d\n", nvmlEventSetWait_v2(set, NULL, 0));
	printf("free = %d\n", nvmlEventSetFree(set));
}

/*
 * A profile by the other two ways. Driver 580 writes the name of version 3 eight bytes too far and
 * wrong: it has a line of its own.
 */
static void dump_profile(nvmlDevice_t d, unsigned int number, unsigned int id)
{
	nvmlGpuInstanceProfileInfo_v3_t v3 = { .version = NVML_STRUCT_VERSION(v3, 3) };
	nvmlGpuInstanceProfileInfo_v2_t v2 = { .version = NVML_STRUCT_VERSION(v2, 2) };
	nvmlGpuInstance_t gis[16];
	unsigned int n = 99;
	int r = nvmlDeviceGetGpuInstanceProfileInfoV(d, number, (void *)&v3);

	printf("profileV3(%u) = %d version %x id %u slices %u max %u sm %u ce %u dec %u enc %u jpg %u ofa %u mb %llu\n",
		number, r, v3.version, v3.id, v3.sliceCount, v3.instanceCount,
		v3.multiprocessorCount, v3.copyEngineCount, v3.decoderCount, v3.encoderCount,
		v3.jpegCount, v3.ofaCount, v3.memorySizeMB);
	printf("profileV3 name(%u) '%.96s' at +8 '%.88s' capabilities %x\n", number, v3.name,
		v3.name + 8, v3.capabilities);
	if (!nvmlDeviceGetGpuInstanceProfileInfoByIdV) {
		printf("nvmlDeviceGetGpuInstanceProfileInfoByIdV missing\n");
	} else {
		r = nvmlDeviceGetGpuInstanceProfileInfoByIdV(d, id, &v2);
		printf("profile by id(%u) = %d version %x id %u '%s' sm %u mb %llu\n", id, r,
			v2.version, v2.id, v2.name, v2.multiprocessorCount, v2.memorySizeMB);
	}
	r = nvmlDeviceGetGpuInstances(d, id, gis, &n);
	printf("instances(%u) = %d %u\n", id, r, n);
}

/* Refusals of queries, as far as a GPU without instances can be asked. */
static void dump_mig_refusals(nvmlDevice_t d)
{
	static const unsigned int versions[] = { 0, 1, 0x01000030, 0x02000098, 0x03000098,
		0x04000098, 0x02000030 };
	unsigned int n = 99;
	nvmlDevice_t mig = NULL;
	nvmlGpuInstance_t gis[16], gi = NULL;
	nvmlGpuInstanceInfo_t info;
	nvmlComputeInstanceProfileInfo_t ci;
	nvmlMemory_t memory;

	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
		nvmlGpuInstanceProfileInfo_v2_t v = { .version = versions[i] };

		printf("profileV version %08x = %d\n", versions[i],
			nvmlDeviceGetGpuInstanceProfileInfoV(d, 0, &v));
		v.version = versions[i];
		if (nvmlDeviceGetGpuInstanceProfileInfoByIdV)
			printf("profile by id version %08x = %d\n", versions[i],
				nvmlDeviceGetGpuInstanceProfileInfoByIdV(d, 0, &v));
	}
	if (nvmlDeviceGetGpuInstanceProfileInfoByIdV) {
		nvmlGpuInstanceProfileInfo_v2_t v = { .version = NVML_STRUCT_VERSION(v, 2) };

		printf("profile by id 99 = %d\n",
			nvmlDeviceGetGpuInstanceProfileInfoByIdV(d, 99, &v));
	}
	for (unsigned int i = 0; i < 16; i++) {
		printf("gi by id(%u) = %d\n", i, nvmlDeviceGetGpuInstanceById(d, i, &gi));
		printf("mig by index(%u) = %d\n", i,
			nvmlDeviceGetMigDeviceHandleByIndex(d, i, &mig));
	}
	printf("profile null = %d\n", nvmlDeviceGetGpuInstanceProfileInfo(d, 0, NULL));
	printf("instances(99) = %d\n", nvmlDeviceGetGpuInstances(d, 99, gis, &n));
	printf("instances null = %d\n", nvmlDeviceGetGpuInstances(d, 0, NULL, &n));
	printf("capacity(99) = %d\n", nvmlDeviceGetGpuInstanceRemainingCapacity(d, 99, &n));
	printf("capacity null = %d\n", nvmlDeviceGetGpuInstanceRemainingCapacity(d, 0, NULL));
	printf("placements null = %d\n",
		nvmlDeviceGetGpuInstancePossiblePlacements_v2(d, 0, NULL, NULL));
	printf("gi info of null = %d\n", nvmlGpuInstanceGetInfo(NULL, &info));
	printf("ci profile of null = %d\n",
		nvmlGpuInstanceGetComputeInstanceProfileInfo(NULL, 0, 0, &ci));
	printf("mig mode null = %d\n", nvmlDeviceGetMigMode(d, NULL, NULL));
	printf("memory of null = %d\n", nvmlDeviceGetMemoryInfo(NULL, &memory));
	printf("by old uuid = %d\n",
		nvmlDeviceGetHandleByUUID("MIG-GPU-00000000-0000-0000-0000-000000000000/1/0",
			&mig));
	printf("by mig uuid = %d\n",
		nvmlDeviceGetHandleByUUID("MIG-00000000-0000-5000-8000-000000000000", &mig));
}

static void dump_mig(nvmlDevice_t d)
{
	nvmlDevice_t other = NULL;
	nvmlDeviceAttributes_t a;

	U2(nvmlDeviceGetMigMode, d);
	U(nvmlDeviceGetMaxMigDeviceCount, d);
	U(nvmlDeviceIsMigDeviceHandle, d);
	U(nvmlDeviceGetGpuInstanceId, d);
	U(nvmlDeviceGetComputeInstanceId, d);
	printf("mig by index = %d\n", nvmlDeviceGetMigDeviceHandleByIndex(d, 0, &other));
	printf("parent = %d\n", nvmlDeviceGetDeviceHandleFromMigDeviceHandle(d, &other));
	printf("attributes = %d\n", nvmlDeviceGetAttributes_v2(d, &a));
	for (unsigned int i = 0; i < 20; i++) {
		nvmlGpuInstanceProfileInfo_t p = { 0 };
		nvmlGpuInstanceProfileInfo_v2_t v = { .version = NVML_STRUCT_VERSION(v, 2) };
		nvmlGpuInstancePlacement_t placements[16] = { 0 };
		unsigned int n = 0, cap = 0;
		int r = nvmlDeviceGetGpuInstanceProfileInfo(d, i, &p);

		printf("profile(%u) = %d id %u p2p %u slices %u max %u sm %u ce %u dec %u enc %u jpg %u ofa %u mb %llu\n",
			i, r, p.id, p.isP2pSupported, p.sliceCount, p.instanceCount,
			p.multiprocessorCount, p.copyEngineCount, p.decoderCount,
			p.encoderCount, p.jpegCount, p.ofaCount, p.memorySizeMB);
		r = nvmlDeviceGetGpuInstanceProfileInfoV(d, i, &v);
		printf("profileV(%u) = %d version %x '%s' mb %llu\n", i, r, v.version, v.name,
			v.memorySizeMB);
		if (r)
			continue;
		r = nvmlDeviceGetGpuInstancePossiblePlacements_v2(d, p.id, NULL, &n);
		printf("placements(%u) = %d %u:", p.id, r, n);
		if (n <= 16 &&
			!nvmlDeviceGetGpuInstancePossiblePlacements_v2(d, p.id, placements, &n))
			for (unsigned int k = 0; k < n; k++)
				printf(" %u:%u", placements[k].start, placements[k].size);
		r = nvmlDeviceGetGpuInstanceRemainingCapacity(d, p.id, &cap);
		printf(" capacity = %d %u\n", r, cap);
		if (only_mig)
			dump_profile(d, i, p.id);
	}
	printf("placements(99) = %d\n", nvmlDeviceGetGpuInstancePossiblePlacements_v2(d, 99,
						NULL, &(unsigned int){ 0 }));
	printf("gi by id = %d\n", nvmlDeviceGetGpuInstanceById(d, 0, (void *)&other));
}

static void dump_gpm(nvmlDevice_t d)
{
	nvmlGpmSupport_t s = { .version = 1 };
	nvmlGpmSample_t a = NULL, b = NULL;
	nvmlGpmMetricsGet_t get = { .version = 1, .numMetrics = 6 };
	unsigned int ids[] = { 1, 2, 10, 20, 60, 5000 };
	int r = nvmlGpmQueryDeviceSupport(d, &s);

	printf("gpm support = %d %u\n", r, s.isSupportedDevice);
	if (r || !s.isSupportedDevice)
		return;
	printf("gpm alloc = %d %d\n", nvmlGpmSampleAlloc(&a), nvmlGpmSampleAlloc(&b));
	printf("gpm get = %d\n", nvmlGpmSampleGet(d, a));
	printf("gpm mig get = %d\n", nvmlGpmMigSampleGet(d, 0, b));
	printf("gpm get = %d\n", nvmlGpmSampleGet(d, b));
	get.sample1 = a;
	get.sample2 = b;
	for (int i = 0; i < 6; i++)
		get.metrics[i].metricId = ids[i];
	printf("gpm metrics = %d\n", nvmlGpmMetricsGet(&get));
	for (int i = 0; i < 6; i++)
		printf("gpm %u = %d %.1f %s '%s' '%s'\n", ids[i], get.metrics[i].nvmlReturn,
			get.metrics[i].value, get.metrics[i].metricInfo.shortName ?: "-",
			get.metrics[i].metricInfo.longName ?: "-",
			get.metrics[i].metricInfo.unit ?: "-");
	get.sample2 = a;
	printf("gpm same = %d\n", nvmlGpmMetricsGet(&get));
	get.version = 2;
	printf("gpm bad version = %d\n", nvmlGpmMetricsGet(&get));
	printf("gpm free = %d %d\n", nvmlGpmSampleFree(a), nvmlGpmSampleFree(b));
}

static void dump_lookup(nvmlDevice_t d)
{
	nvmlDevice_t other = NULL;
	nvmlPciInfo_t p = { 0 };
	char text[8] = "zzzzzzz";
	const char *bad_uuids[] = { "", "GPU-x", "GPU-00000000-0000-0000-0000-000000000000",
		"MIG-x" };
	const char *bad_ids[] = { "", "zz", "00000000:FE:00.0", "0000:fe:00.0", "fe:00.0",
		"fe:00" };

	for (int i = 0; i < 4; i++)
		printf("by uuid '%s' = %d\n", bad_uuids[i],
			nvmlDeviceGetHandleByUUID(bad_uuids[i], &other));
	for (int i = 0; i < 6; i++)
		printf("by bus '%s' = %d\n", bad_ids[i],
			nvmlDeviceGetHandleByPciBusId_v2(bad_ids[i], &other));
	printf("by serial '1' = %d\n", nvmlDeviceGetHandleBySerial("1", &other));
	nvmlDeviceGetPciInfo_v3(d, &p);
	printf("by legacy id = %d", nvmlDeviceGetHandleByPciBusId_v2(p.busIdLegacy, &other));
	printf(" same %d\n", other == d);
	printf("short name = %d '%s'\n", nvmlDeviceGetName(d, text, 4), text);
	printf("short uuid = %d\n", nvmlDeviceGetUUID(d, text, 0));
	printf("null name = %d\n", nvmlDeviceGetName(d, NULL, 4));
	printf("null name 0 = %d\n", nvmlDeviceGetName(d, NULL, 0));
	printf("garbage handle = %d\n",
		nvmlDeviceGetIndex((nvmlDevice_t)&other, &(unsigned){ 0 }));
	printf("null handle = %d\n", nvmlDeviceGetIndex(NULL, &(unsigned){ 0 }));
	printf("null out = %d\n", nvmlDeviceGetIndex(d, NULL));
	printf("handle of 99 = %d\n", nvmlDeviceGetHandleByIndex_v2(99, &other));
	printf("count null = %d\n", nvmlDeviceGetCount_v2(NULL));
	printf("process name of 1 = %d\n", nvmlSystemGetProcessName(1, text, 4));
	printf("process name of 999999999 = %d\n",
		nvmlSystemGetProcessName(999999999, text, 4));
}

int main(int argc, char **argv)
{
	unsigned int n = 0;
	int cuda = 0, r;

	only_mig = argc > 1 && !strcmp(argv[1], "--mig");
	argv += only_mig;
	argc -= only_mig;
	load(argc > 1 ? argv[1] : NVML_SONAME);
	printf("before init: count = %d shutdown = %d\n", nvmlDeviceGetCount_v2(&n),
		nvmlShutdown());
	r = nvmlInit_v2();
	printf("nvmlInit_v2 = %d\n", r);
	if (r)
		return 1;
	S0(nvmlSystemGetDriverVersion);
	S0(nvmlSystemGetNVMLVersion);
	r = nvmlSystemGetCudaDriverVersion_v2(&cuda);
	printf("cuda = %d %d\n", r, cuda);
	r = nvmlGetExcludedDeviceCount(&n);
	printf("excluded = %d %u\n", r, n);
	printf("count = %d", nvmlDeviceGetCount_v2(&n));
	printf(" %u\n", n);
	for (unsigned int i = 0; i < n; i++) {
		nvmlDevice_t d = NULL, other = NULL;

		printf("---- GPU %u = %d\n", i, nvmlDeviceGetHandleByIndex_v2(i, &d));
		if (only_mig) {
			S(nvmlDeviceGetName, d);
			dump_mig(d);
			dump_mig_refusals(d);
			continue;
		}
		(void)nvmlDeviceGetHandleByIndex_v2((i + 1) % n, &other);
		dump_identity(d);
		dump_state(d);
		dump_errors(d);
		dump_topology(d, other);
		dump_processes(d);
		dump_fields(d);
		dump_events(d);
		dump_mig(d);
		dump_gpm(d);
		dump_lookup(d);
	}
	printf("shutdown = %d\n", nvmlShutdown());
	printf("shutdown again = %d\n", nvmlShutdown());
	return 0;
}
