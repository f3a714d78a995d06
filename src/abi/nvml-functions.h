/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The functions that the programs of gpuslice look up in libnvidia-ml.so.1: symbol and parameters, the newest
 * generation of each. All return nvmlReturn_t, except nvmlErrorString(). An older driver may lack any of them; the
 * caller then acts as on NOT_SUPPORTED. abi/nvml-api.h has the types and includes this header.
 *
 *	#define X(name, params) nvmlReturn_t(*name) params;
 *	struct nvml_table { NVML_FUNCTIONS(X) const char *(*nvmlErrorString)(nvmlReturn_t); };
 *	#undef X
 */

/* clang-format off */
#define NVML_FUNCTIONS(X)                                                                          \
	NVML_FUNCTIONS_SYSTEM(X)                                                                   \
	NVML_FUNCTIONS_IDENTITY(X)                                                                 \
	NVML_FUNCTIONS_STATE(X)                                                                    \
	NVML_FUNCTIONS_ERRORS(X)                                                                   \
	NVML_FUNCTIONS_TOPOLOGY(X)                                                                 \
	NVML_FUNCTIONS_PROCESSES(X)                                                                \
	NVML_FUNCTIONS_EVENTS(X)                                                                   \
	NVML_FUNCTIONS_GPM(X)                                                                      \
	NVML_FUNCTIONS_SETTERS(X)                                                                  \
	NVML_FUNCTIONS_MIG(X)

#define NVML_FUNCTIONS_SYSTEM(X)                                                                   \
	X(nvmlInit_v2, (void))                                                                     \
	X(nvmlInitWithFlags, (unsigned int flags))                                                 \
	X(nvmlShutdown, (void))                                                                    \
	X(nvmlSystemGetDriverVersion, (char *text, unsigned int len))                              \
	X(nvmlSystemGetNVMLVersion, (char *text, unsigned int len))                                \
	X(nvmlSystemGetCudaDriverVersion_v2, (int *version))                                       \
	X(nvmlSystemGetProcessName, (unsigned int pid, char *text, unsigned int len))              \
	X(nvmlGetExcludedDeviceCount, (unsigned int *count))                                       \
	X(nvmlGetExcludedDeviceInfoByIndex, (unsigned int index, nvmlExcludedDeviceInfo_t *info))

#define NVML_FUNCTIONS_IDENTITY(X)                                                                 \
	X(nvmlDeviceGetCount_v2, (unsigned int *count))                                            \
	X(nvmlDeviceGetHandleByIndex_v2, (unsigned int index, nvmlDevice_t *d))                    \
	X(nvmlDeviceGetHandleByUUID, (const char *uuid, nvmlDevice_t *d))                          \
	X(nvmlDeviceGetHandleByPciBusId_v2, (const char *bus_id, nvmlDevice_t *d))                 \
	X(nvmlDeviceGetHandleBySerial, (const char *serial, nvmlDevice_t *d))                      \
	X(nvmlDeviceGetName, (nvmlDevice_t d, char *text, unsigned int len))                       \
	X(nvmlDeviceGetUUID, (nvmlDevice_t d, char *text, unsigned int len))                       \
	X(nvmlDeviceGetIndex, (nvmlDevice_t d, unsigned int *index))                               \
	X(nvmlDeviceGetMinorNumber, (nvmlDevice_t d, unsigned int *minor))                         \
	X(nvmlDeviceGetSerial, (nvmlDevice_t d, char *text, unsigned int len))                     \
	X(nvmlDeviceGetVbiosVersion, (nvmlDevice_t d, char *text, unsigned int len))               \
	X(nvmlDeviceGetBoardPartNumber, (nvmlDevice_t d, char *text, unsigned int len))            \
	X(nvmlDeviceGetInforomVersion, (nvmlDevice_t d, unsigned int object, char *text, unsigned int len)) \
	X(nvmlDeviceGetInforomImageVersion, (nvmlDevice_t d, char *text, unsigned int len))        \
	X(nvmlDeviceGetPciInfo_v3, (nvmlDevice_t d, nvmlPciInfo_t *pci))                           \
	X(nvmlDeviceGetPciInfoExt, (nvmlDevice_t d, nvmlPciInfoExt_v1_t *pci))                     \
	X(nvmlDeviceGetBrand, (nvmlDevice_t d, unsigned int *brand))                               \
	X(nvmlDeviceGetArchitecture, (nvmlDevice_t d, unsigned int *arch))                         \
	X(nvmlDeviceGetCudaComputeCapability, (nvmlDevice_t d, int *major, int *minor))            \
	X(nvmlDeviceGetBoardId, (nvmlDevice_t d, unsigned int *id))                                \
	X(nvmlDeviceGetMultiGpuBoard, (nvmlDevice_t d, unsigned int *multi))                       \
	X(nvmlDeviceGetModuleId, (nvmlDevice_t d, unsigned int *id))                               \
	X(nvmlDeviceGetNumGpuCores, (nvmlDevice_t d, unsigned int *cores))                         \
	X(nvmlDeviceGetMemoryBusWidth, (nvmlDevice_t d, unsigned int *bits))                       \
	X(nvmlDeviceGetVirtualizationMode, (nvmlDevice_t d, unsigned int *mode))                   \
	X(nvmlDeviceGetAddressingMode, (nvmlDevice_t d, nvmlDeviceAddressingMode_v1_t *mode))      \
	X(nvmlDeviceGetPlatformInfo, (nvmlDevice_t d, nvmlPlatformInfo_v2_t *info))                \
	X(nvmlDeviceGetGpuFabricInfo, (nvmlDevice_t d, nvmlGpuFabricInfo_t *info))                 \
	X(nvmlDeviceGetGpuFabricInfoV, (nvmlDevice_t d, nvmlGpuFabricInfo_v2_t *info))

#define NVML_FUNCTIONS_STATE(X)                                                                    \
	X(nvmlDeviceGetMemoryInfo, (nvmlDevice_t d, nvmlMemory_t *memory))                         \
	X(nvmlDeviceGetMemoryInfo_v2, (nvmlDevice_t d, nvmlMemory_v2_t *memory))                   \
	X(nvmlDeviceGetBAR1MemoryInfo, (nvmlDevice_t d, nvmlBAR1Memory_t *memory))                 \
	X(nvmlDeviceGetUtilizationRates, (nvmlDevice_t d, nvmlUtilization_t *rates))               \
	X(nvmlDeviceGetEncoderUtilization, (nvmlDevice_t d, unsigned int *percent, unsigned int *period_us)) \
	X(nvmlDeviceGetDecoderUtilization, (nvmlDevice_t d, unsigned int *percent, unsigned int *period_us)) \
	X(nvmlDeviceGetJpgUtilization, (nvmlDevice_t d, unsigned int *percent, unsigned int *period_us)) \
	X(nvmlDeviceGetOfaUtilization, (nvmlDevice_t d, unsigned int *percent, unsigned int *period_us)) \
	X(nvmlDeviceGetPowerUsage, (nvmlDevice_t d, unsigned int *mw))                             \
	X(nvmlDeviceGetEnforcedPowerLimit, (nvmlDevice_t d, unsigned int *mw))                     \
	X(nvmlDeviceGetPowerManagementLimit, (nvmlDevice_t d, unsigned int *mw))                   \
	X(nvmlDeviceGetPowerManagementDefaultLimit, (nvmlDevice_t d, unsigned int *mw))            \
	X(nvmlDeviceGetPowerManagementLimitConstraints, (nvmlDevice_t d, unsigned int *min_mw, unsigned int *max_mw)) \
	X(nvmlDeviceGetTotalEnergyConsumption, (nvmlDevice_t d, unsigned long long *mj))           \
	X(nvmlDeviceGetTemperature, (nvmlDevice_t d, unsigned int sensor, unsigned int *celsius))  \
	X(nvmlDeviceGetTemperatureV, (nvmlDevice_t d, nvmlTemperature_v1_t *t))                    \
	X(nvmlDeviceGetTemperatureThreshold, (nvmlDevice_t d, unsigned int which, unsigned int *celsius)) \
	X(nvmlDeviceGetMarginTemperature, (nvmlDevice_t d, nvmlMarginTemperature_v1_t *margin))    \
	X(nvmlDeviceGetClockInfo, (nvmlDevice_t d, unsigned int type, unsigned int *mhz))          \
	X(nvmlDeviceGetMaxClockInfo, (nvmlDevice_t d, unsigned int type, unsigned int *mhz))       \
	X(nvmlDeviceGetApplicationsClock, (nvmlDevice_t d, unsigned int type, unsigned int *mhz))  \
	X(nvmlDeviceGetClock, (nvmlDevice_t d, unsigned int type, unsigned int id, unsigned int *mhz)) \
	X(nvmlDeviceGetCurrentClocksEventReasons, (nvmlDevice_t d, unsigned long long *reasons))   \
	X(nvmlDeviceGetSupportedClocksEventReasons, (nvmlDevice_t d, unsigned long long *reasons)) \
	X(nvmlDeviceGetCurrentClocksThrottleReasons, (nvmlDevice_t d, unsigned long long *reasons)) \
	X(nvmlDeviceGetPerformanceState, (nvmlDevice_t d, unsigned int *state))                    \
	X(nvmlDeviceGetPcieThroughput, (nvmlDevice_t d, unsigned int counter, unsigned int *kb_per_s)) \
	X(nvmlDeviceGetPcieReplayCounter, (nvmlDevice_t d, unsigned int *count))                   \
	X(nvmlDeviceGetCurrPcieLinkGeneration, (nvmlDevice_t d, unsigned int *generation))         \
	X(nvmlDeviceGetMaxPcieLinkGeneration, (nvmlDevice_t d, unsigned int *generation))          \
	X(nvmlDeviceGetCurrPcieLinkWidth, (nvmlDevice_t d, unsigned int *lanes))                   \
	X(nvmlDeviceGetMaxPcieLinkWidth, (nvmlDevice_t d, unsigned int *lanes))                    \
	X(nvmlDeviceGetFanSpeed, (nvmlDevice_t d, unsigned int *percent))                          \
	X(nvmlDeviceGetNumFans, (nvmlDevice_t d, unsigned int *count))                             \
	X(nvmlDeviceGetPersistenceMode, (nvmlDevice_t d, unsigned int *mode))                      \
	X(nvmlDeviceGetComputeMode, (nvmlDevice_t d, unsigned int *mode))                          \
	X(nvmlDeviceGetViolationStatus, (nvmlDevice_t d, unsigned int policy, nvmlViolationTime_t *t)) \
	X(nvmlDeviceGetFieldValues, (nvmlDevice_t d, int n, nvmlFieldValue_t *values))

#define NVML_FUNCTIONS_ERRORS(X)                                                                   \
	X(nvmlDeviceGetEccMode, (nvmlDevice_t d, unsigned int *current, unsigned int *pending))    \
	X(nvmlDeviceGetTotalEccErrors, (nvmlDevice_t d, unsigned int type, unsigned int counter, unsigned long long *n)) \
	X(nvmlDeviceGetMemoryErrorCounter, (nvmlDevice_t d, unsigned int type, unsigned int counter, unsigned int location, unsigned long long *n)) \
	X(nvmlDeviceGetRetiredPages, (nvmlDevice_t d, unsigned int cause, unsigned int *n, unsigned long long *addresses)) \
	X(nvmlDeviceGetRetiredPagesPendingStatus, (nvmlDevice_t d, unsigned int *pending))         \
	X(nvmlDeviceGetRemappedRows, (nvmlDevice_t d, unsigned int *corrected, unsigned int *uncorrected, unsigned int *pending, unsigned int *failed)) \
	X(nvmlDeviceGetRowRemapperHistogram, (nvmlDevice_t d, nvmlRowRemapperHistogramValues_t *v))

#define NVML_FUNCTIONS_TOPOLOGY(X)                                                                 \
	X(nvmlDeviceGetNumaNodeId, (nvmlDevice_t d, unsigned int *node))                           \
	X(nvmlDeviceGetCpuAffinity, (nvmlDevice_t d, unsigned int words, unsigned long *cpus))     \
	X(nvmlDeviceGetMemoryAffinity, (nvmlDevice_t d, unsigned int words, unsigned long *nodes, unsigned int scope)) \
	X(nvmlDeviceGetTopologyCommonAncestor, (nvmlDevice_t a, nvmlDevice_t b, unsigned int *level)) \
	X(nvmlDeviceGetP2PStatus, (nvmlDevice_t a, nvmlDevice_t b, unsigned int index, unsigned int *status)) \
	X(nvmlDeviceOnSameBoard, (nvmlDevice_t a, nvmlDevice_t b, int *same))                      \
	X(nvmlDeviceGetNvLinkState, (nvmlDevice_t d, unsigned int link, unsigned int *active))     \
	X(nvmlDeviceGetNvLinkVersion, (nvmlDevice_t d, unsigned int link, unsigned int *version))  \
	X(nvmlDeviceGetNvLinkCapability, (nvmlDevice_t d, unsigned int link, unsigned int cap, unsigned int *value)) \
	X(nvmlDeviceGetNvLinkRemotePciInfo_v2, (nvmlDevice_t d, unsigned int link, nvmlPciInfo_t *pci)) \
	X(nvmlDeviceGetNvLinkRemoteDeviceType, (nvmlDevice_t d, unsigned int link, unsigned int *type)) \
	X(nvmlDeviceGetNvLinkErrorCounter, (nvmlDevice_t d, unsigned int link, unsigned int counter, unsigned long long *n))

#define NVML_FUNCTIONS_PROCESSES(X)                                                                \
	X(nvmlDeviceGetComputeRunningProcesses_v3, (nvmlDevice_t d, unsigned int *n, nvmlProcessInfo_t *infos)) \
	X(nvmlDeviceGetGraphicsRunningProcesses_v3, (nvmlDevice_t d, unsigned int *n, nvmlProcessInfo_t *infos)) \
	X(nvmlDeviceGetMPSComputeRunningProcesses_v3, (nvmlDevice_t d, unsigned int *n, nvmlProcessInfo_t *infos)) \
	X(nvmlDeviceGetRunningProcessDetailList, (nvmlDevice_t d, nvmlProcessDetailList_v1_t *list)) \
	X(nvmlDeviceGetProcessUtilization, (nvmlDevice_t d, nvmlProcessUtilizationSample_t *samples, unsigned int *n, unsigned long long last_seen_us))

#define NVML_FUNCTIONS_EVENTS(X)                                                                   \
	X(nvmlEventSetCreate, (nvmlEventSet_t *set))                                               \
	X(nvmlEventSetFree, (nvmlEventSet_t set))                                                  \
	X(nvmlEventSetWait_v2, (nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeout_ms)) \
	X(nvmlDeviceGetSupportedEventTypes, (nvmlDevice_t d, unsigned long long *types))           \
	X(nvmlDeviceRegisterEvents, (nvmlDevice_t d, unsigned long long types, nvmlEventSet_t set))

#define NVML_FUNCTIONS_GPM(X)                                                                      \
	X(nvmlGpmQueryDeviceSupport, (nvmlDevice_t d, nvmlGpmSupport_t *support))                  \
	X(nvmlGpmSampleAlloc, (nvmlGpmSample_t *sample))                                           \
	X(nvmlGpmSampleFree, (nvmlGpmSample_t sample))                                             \
	X(nvmlGpmSampleGet, (nvmlDevice_t d, nvmlGpmSample_t sample))                              \
	X(nvmlGpmMigSampleGet, (nvmlDevice_t d, unsigned int gi, nvmlGpmSample_t sample))          \
	X(nvmlGpmMetricsGet, (nvmlGpmMetricsGet_t *get))

#define NVML_FUNCTIONS_SETTERS(X)                                                                  \
	X(nvmlDeviceSetPersistenceMode, (nvmlDevice_t d, unsigned int mode))                       \
	X(nvmlDeviceSetComputeMode, (nvmlDevice_t d, unsigned int mode))

#define NVML_FUNCTIONS_MIG(X)                                                                      \
	X(nvmlDeviceGetMigMode, (nvmlDevice_t d, unsigned int *current, unsigned int *pending))    \
	X(nvmlDeviceSetMigMode, (nvmlDevice_t d, unsigned int mode, nvmlReturn_t *activation))     \
	X(nvmlDeviceGetMaxMigDeviceCount, (nvmlDevice_t d, unsigned int *count))                   \
	X(nvmlDeviceGetMigDeviceHandleByIndex, (nvmlDevice_t d, unsigned int index, nvmlDevice_t *mig)) \
	X(nvmlDeviceIsMigDeviceHandle, (nvmlDevice_t d, unsigned int *is_mig))                     \
	X(nvmlDeviceGetDeviceHandleFromMigDeviceHandle, (nvmlDevice_t mig, nvmlDevice_t *d))       \
	X(nvmlDeviceGetGpuInstanceId, (nvmlDevice_t mig, unsigned int *id))                        \
	X(nvmlDeviceGetComputeInstanceId, (nvmlDevice_t mig, unsigned int *id))                    \
	X(nvmlDeviceGetAttributes_v2, (nvmlDevice_t mig, nvmlDeviceAttributes_t *attributes))      \
	X(nvmlDeviceGetGpuInstanceProfileInfo, (nvmlDevice_t d, unsigned int profile, nvmlGpuInstanceProfileInfo_t *info)) \
	X(nvmlDeviceGetGpuInstanceProfileInfoV, (nvmlDevice_t d, unsigned int profile, nvmlGpuInstanceProfileInfo_v2_t *info)) \
	X(nvmlDeviceGetGpuInstanceProfileInfoByIdV, (nvmlDevice_t d, unsigned int profile_id, nvmlGpuInstanceProfileInfo_v2_t *info)) \
	X(nvmlDeviceGetGpuInstancePossiblePlacements_v2, (nvmlDevice_t d, unsigned int profile_id, nvmlGpuInstancePlacement_t *placements, unsigned int *n)) \
	X(nvmlDeviceGetGpuInstanceRemainingCapacity, (nvmlDevice_t d, unsigned int profile_id, unsigned int *n)) \
	X(nvmlDeviceCreateGpuInstance, (nvmlDevice_t d, unsigned int profile_id, nvmlGpuInstance_t *gi)) \
	X(nvmlDeviceCreateGpuInstanceWithPlacement, (nvmlDevice_t d, unsigned int profile_id, const nvmlGpuInstancePlacement_t *placement, nvmlGpuInstance_t *gi)) \
	X(nvmlGpuInstanceDestroy, (nvmlGpuInstance_t gi))                                          \
	X(nvmlDeviceGetGpuInstances, (nvmlDevice_t d, unsigned int profile_id, nvmlGpuInstance_t *gis, unsigned int *n)) \
	X(nvmlDeviceGetGpuInstanceById, (nvmlDevice_t d, unsigned int id, nvmlGpuInstance_t *gi))  \
	X(nvmlGpuInstanceGetInfo, (nvmlGpuInstance_t gi, nvmlGpuInstanceInfo_t *info))             \
	X(nvmlGpuInstanceGetComputeInstanceProfileInfo, (nvmlGpuInstance_t gi, unsigned int profile, unsigned int engine, nvmlComputeInstanceProfileInfo_t *info)) \
	X(nvmlGpuInstanceGetComputeInstanceProfileInfoV, (nvmlGpuInstance_t gi, unsigned int profile, unsigned int engine, nvmlComputeInstanceProfileInfo_v2_t *info)) \
	X(nvmlGpuInstanceGetComputeInstanceRemainingCapacity, (nvmlGpuInstance_t gi, unsigned int profile_id, unsigned int *n)) \
	X(nvmlGpuInstanceGetComputeInstancePossiblePlacements, (nvmlGpuInstance_t gi, unsigned int profile_id, nvmlComputeInstancePlacement_t *placements, unsigned int *n)) \
	X(nvmlGpuInstanceCreateComputeInstance, (nvmlGpuInstance_t gi, unsigned int profile_id, nvmlComputeInstance_t *ci)) \
	X(nvmlGpuInstanceCreateComputeInstanceWithPlacement, (nvmlGpuInstance_t gi, unsigned int profile_id, const nvmlComputeInstancePlacement_t *placement, nvmlComputeInstance_t *ci)) \
	X(nvmlComputeInstanceDestroy, (nvmlComputeInstance_t ci))                                  \
	X(nvmlGpuInstanceGetComputeInstances, (nvmlGpuInstance_t gi, unsigned int profile_id, nvmlComputeInstance_t *cis, unsigned int *n)) \
	X(nvmlGpuInstanceGetComputeInstanceById, (nvmlGpuInstance_t gi, unsigned int id, nvmlComputeInstance_t *ci)) \
	X(nvmlComputeInstanceGetInfo_v2, (nvmlComputeInstance_t ci, nvmlComputeInstanceInfo_t *info))

/*
 * Older symbols with the same parameters and meaning, for a driver that lacks the newest. A function that is not
 * listed here has no usable predecessor (the v1 process lists have another entry size: see nvmlProcessInfo_v1_t).
 */
#define NVML_FALLBACKS(X)                                                                          \
	X(nvmlInit_v2, nvmlInit)                                                                   \
	X(nvmlSystemGetCudaDriverVersion_v2, nvmlSystemGetCudaDriverVersion)                       \
	X(nvmlDeviceGetCount_v2, nvmlDeviceGetCount)                                               \
	X(nvmlDeviceGetHandleByIndex_v2, nvmlDeviceGetHandleByIndex)                               \
	X(nvmlDeviceGetHandleByPciBusId_v2, nvmlDeviceGetHandleByPciBusId)                         \
	X(nvmlDeviceGetPciInfo_v3, nvmlDeviceGetPciInfo_v2)                                        \
	X(nvmlDeviceGetNvLinkRemotePciInfo_v2, nvmlDeviceGetNvLinkRemotePciInfo)                   \
	X(nvmlDeviceGetCurrentClocksEventReasons, nvmlDeviceGetCurrentClocksThrottleReasons)       \
	X(nvmlDeviceGetComputeRunningProcesses_v3, nvmlDeviceGetComputeRunningProcesses_v2)        \
	X(nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlDeviceGetGraphicsRunningProcesses_v2)      \
	X(nvmlDeviceGetMPSComputeRunningProcesses_v3, nvmlDeviceGetMPSComputeRunningProcesses_v2)  \
	X(nvmlEventSetWait_v2, nvmlEventSetWait)                                                   \
	X(nvmlDeviceGetGpuInstancePossiblePlacements_v2, nvmlDeviceGetGpuInstancePossiblePlacements) \
	X(nvmlDeviceGetAttributes_v2, nvmlDeviceGetAttributes)                                     \
	X(nvmlComputeInstanceGetInfo_v2, nvmlComputeInstanceGetInfo)
/* clang-format on */
