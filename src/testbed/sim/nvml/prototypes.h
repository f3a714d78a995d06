/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Prototypes of all functions that the simulator answers: those that gpuslice's programs call
 * (abi/nvml-functions.h), and below, older generations and those that other programs call.
 * Thread: any (nvml/lib.h).
 */
#include "abi/nvml-api.h"

/* clang-format off */
#define NVML_SIM_FUNCTIONS(X) \
	X(nvmlInit, (void)) \
	X(nvmlSystemGetCudaDriverVersion, (int *version)) \
	X(nvmlGetBlacklistDeviceCount, (unsigned int *count)) \
	X(nvmlGetBlacklistDeviceInfoByIndex, (unsigned int index, nvmlExcludedDeviceInfo_t *info)) \
	X(nvmlDeviceGetCount, (unsigned int *count)) \
	X(nvmlDeviceGetHandleByIndex, (unsigned int index, nvmlDevice_t *d)) \
	X(nvmlDeviceGetHandleByPciBusId, (const char *bus_id, nvmlDevice_t *d)) \
	X(nvmlDeviceGetPciInfo, (nvmlDevice_t d, nvmlPciInfo_t *pci)) \
	X(nvmlDeviceGetPciInfo_v2, (nvmlDevice_t d, nvmlPciInfo_t *pci)) \
	X(nvmlDeviceGetDisplayMode, (nvmlDevice_t d, unsigned int *mode)) \
	X(nvmlDeviceGetDisplayActive, (nvmlDevice_t d, unsigned int *mode)) \
	X(nvmlDeviceGetDefaultApplicationsClock, (nvmlDevice_t d, unsigned int type, unsigned int *mhz)) \
	X(nvmlDeviceGetMaxCustomerBoostClock, (nvmlDevice_t d, unsigned int type, unsigned int *mhz)) \
	X(nvmlDeviceGetGpuMaxPcieLinkGeneration, (nvmlDevice_t d, unsigned int *generation)) \
	X(nvmlDeviceGetPowerManagementMode, (nvmlDevice_t d, unsigned int *mode)) \
	X(nvmlDeviceGetPowerState, (nvmlDevice_t d, unsigned int *state)) \
	X(nvmlDeviceGetSupportedClocksThrottleReasons, (nvmlDevice_t d, unsigned long long *reasons)) \
	X(nvmlDeviceGetDefaultEccMode, (nvmlDevice_t d, unsigned int *mode)) \
	X(nvmlDeviceGetDetailedEccErrors, (nvmlDevice_t d, unsigned int type, unsigned int counter, nvmlEccErrorCounts_t *counts)) \
	X(nvmlDeviceGetRetiredPages_v2, (nvmlDevice_t d, unsigned int cause, unsigned int *n, unsigned long long *addresses, unsigned long long *times)) \
	X(nvmlDeviceGetCpuAffinityWithinScope, (nvmlDevice_t d, unsigned int words, unsigned long *cpus, unsigned int scope)) \
	X(nvmlDeviceGetTopologyNearestGpus, (nvmlDevice_t d, unsigned int level, unsigned int *n, nvmlDevice_t *devices)) \
	X(nvmlDeviceGetNvLinkRemotePciInfo, (nvmlDevice_t d, unsigned int link, nvmlPciInfo_t *pci)) \
	X(nvmlDeviceGetComputeRunningProcesses, (nvmlDevice_t d, unsigned int *n, nvmlProcessInfo_v1_t *infos)) \
	X(nvmlDeviceGetComputeRunningProcesses_v2, (nvmlDevice_t d, unsigned int *n, nvmlProcessInfo_t *infos)) \
	X(nvmlDeviceGetGraphicsRunningProcesses, (nvmlDevice_t d, unsigned int *n, nvmlProcessInfo_v1_t *infos)) \
	X(nvmlDeviceGetGraphicsRunningProcesses_v2, (nvmlDevice_t d, unsigned int *n, nvmlProcessInfo_t *infos)) \
	X(nvmlDeviceGetMPSComputeRunningProcesses, (nvmlDevice_t d, unsigned int *n, nvmlProcessInfo_v1_t *infos)) \
	X(nvmlDeviceGetMPSComputeRunningProcesses_v2, (nvmlDevice_t d, unsigned int *n, nvmlProcessInfo_t *infos)) \
	X(nvmlDeviceGetAccountingMode, (nvmlDevice_t d, unsigned int *mode)) \
	X(nvmlDeviceGetAccountingPids, (nvmlDevice_t d, unsigned int *n, unsigned int *pids)) \
	X(nvmlEventSetWait, (nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeout_ms)) \
	X(nvmlGpmQueryIfStreamingEnabled, (nvmlDevice_t d, unsigned int *state)) \
	X(nvmlDeviceSetPowerManagementLimit, (nvmlDevice_t d, unsigned int mw)) \
	X(nvmlDeviceSetEccMode, (nvmlDevice_t d, unsigned int mode)) \
	X(nvmlDeviceGetAttributes, (nvmlDevice_t mig, nvmlDeviceAttributes_t *attributes)) \
	X(nvmlDeviceGetGpuInstancePossiblePlacements, (nvmlDevice_t d, unsigned int profile_id, nvmlGpuInstancePlacement_t *placements, unsigned int *n)) \
	X(nvmlComputeInstanceGetInfo, (nvmlComputeInstance_t ci, nvmlComputeInstanceInfo_t *info))
/* clang-format on */

#define PROTOTYPE_(name, params) nvmlReturn_t name params;
NVML_FUNCTIONS(PROTOTYPE_)
NVML_SIM_FUNCTIONS(PROTOTYPE_)
#undef PROTOTYPE_
const char *nvmlErrorString(nvmlReturn_t result);
