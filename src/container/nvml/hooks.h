/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The functions of NVML that this library hooks (marked in container/loader/nvml.txt), as the ABI declares them,
 * and the functions that it calls besides. Thread: any. */
#include "abi/nvml-api.h"
#include "container/loader/forward.h"

typedef struct nvmlProcessUtilizationInfo_v1_st {
	unsigned long long timeStamp; /* us since 1970 */
	unsigned int pid;
	unsigned int smUtil, memUtil, encUtil, decUtil, jpgUtil, ofaUtil; /* percent */
} nvmlProcessUtilizationInfo_v1_t;

typedef struct nvmlProcessesUtilizationInfo_v1_st {
	unsigned int version, processSamplesCount;
	unsigned long long lastSeenTimeStamp;
	nvmlProcessUtilizationInfo_v1_t *procUtilArray;
} nvmlProcessesUtilizationInfo_v1_t;

/* clang-format off */
#define HOOKS(X) \
	X(nvmlShutdown, (void)) \
	X(nvmlDeviceGetMemoryInfo, (nvmlDevice_t, nvmlMemory_t *)) \
	X(nvmlDeviceGetMemoryInfo_v2, (nvmlDevice_t, nvmlMemory_v2_t *)) \
	X(nvmlDeviceGetComputeRunningProcesses, (nvmlDevice_t, unsigned int *, nvmlProcessInfo_v1_t *)) \
	X(nvmlDeviceGetComputeRunningProcesses_v2, (nvmlDevice_t, unsigned int *, nvmlProcessInfo_t *)) \
	X(nvmlDeviceGetComputeRunningProcesses_v3, (nvmlDevice_t, unsigned int *, nvmlProcessInfo_t *)) \
	X(nvmlDeviceGetGraphicsRunningProcesses, (nvmlDevice_t, unsigned int *, nvmlProcessInfo_v1_t *)) \
	X(nvmlDeviceGetGraphicsRunningProcesses_v2, (nvmlDevice_t, unsigned int *, nvmlProcessInfo_t *)) \
	X(nvmlDeviceGetGraphicsRunningProcesses_v3, (nvmlDevice_t, unsigned int *, nvmlProcessInfo_t *)) \
	X(nvmlDeviceGetMPSComputeRunningProcesses, (nvmlDevice_t, unsigned int *, nvmlProcessInfo_v1_t *)) \
	X(nvmlDeviceGetMPSComputeRunningProcesses_v2, (nvmlDevice_t, unsigned int *, nvmlProcessInfo_t *)) \
	X(nvmlDeviceGetMPSComputeRunningProcesses_v3, (nvmlDevice_t, unsigned int *, nvmlProcessInfo_t *)) \
	X(nvmlDeviceGetRunningProcessDetailList, (nvmlDevice_t, nvmlProcessDetailList_v1_t *)) \
	X(nvmlDeviceGetProcessUtilization, (nvmlDevice_t, nvmlProcessUtilizationSample_t *, unsigned int *, unsigned long long)) \
	X(nvmlDeviceGetProcessesUtilizationInfo, (nvmlDevice_t, nvmlProcessesUtilizationInfo_v1_t *)) \
	X(nvmlDeviceGetAccountingPids, (nvmlDevice_t, unsigned int *, unsigned int *)) \
	X(nvmlDeviceGetAccountingStats, (nvmlDevice_t, unsigned int, void *))

/* Called, but not hooked. */
#define CALLED(X) \
	X(nvmlDeviceGetUUID, (nvmlDevice_t, char *, unsigned int)) \
	X(nvmlDeviceGetGpuInstanceId, (nvmlDevice_t, unsigned int *)) \
	X(nvmlDeviceGetComputeInstanceId, (nvmlDevice_t, unsigned int *))

/*
 * Functions that change a GPU, an NVLink, an NVML unit or the node for all users; they are hooked, too. No tenant of a
 * slice may call them, regardless of the rights of its container's user (settings.c).
 *
 * These functions change nothing beyond the process and are not listed: nvmlDeviceSetCpuAffinity and
 * nvmlDeviceClearCpuAffinity (of the calling thread), event sets, GPM samples.
 */
#define SETTINGS(X) \
	X(nvmlComputeInstanceDestroy) \
	X(nvmlDeviceClearAccountingPids) \
	X(nvmlDeviceClearEccErrorCounts) \
	X(nvmlDeviceClearFieldValues) \
	X(nvmlDeviceCreateGpuInstance) \
	X(nvmlDeviceCreateGpuInstanceWithPlacement) \
	X(nvmlDeviceDiscoverGpus) \
	X(nvmlDeviceFreezeNvLinkUtilizationCounter) \
	X(nvmlDeviceModifyDrainState) \
	X(nvmlDevicePowerSmoothingActivatePresetProfile) \
	X(nvmlDevicePowerSmoothingSetState) \
	X(nvmlDevicePowerSmoothingUpdatePresetProfileParam) \
	X(nvmlDeviceReadWritePRM_v1) \
	X(nvmlDeviceRemoveGpu) \
	X(nvmlDeviceRemoveGpu_v2) \
	X(nvmlDeviceResetApplicationsClocks) \
	X(nvmlDeviceResetGpuLockedClocks) \
	X(nvmlDeviceResetMemoryLockedClocks) \
	X(nvmlDeviceResetNvLinkErrorCounters) \
	X(nvmlDeviceResetNvLinkUtilizationCounter) \
	X(nvmlDeviceSetAPIRestriction) \
	X(nvmlDeviceSetAccountingMode) \
	X(nvmlDeviceSetApplicationsClocks) \
	X(nvmlDeviceSetAutoBoostedClocksEnabled) \
	X(nvmlDeviceSetClockOffsets) \
	X(nvmlDeviceSetComputeMode) \
	X(nvmlDeviceSetConfComputeUnprotectedMemSize) \
	X(nvmlDeviceSetDefaultAutoBoostedClocksEnabled) \
	X(nvmlDeviceSetDefaultFanSpeed_v2) \
	X(nvmlDeviceSetDramEncryptionMode) \
	X(nvmlDeviceSetDriverModel) \
	X(nvmlDeviceSetEccMode) \
	X(nvmlDeviceSetFanControlPolicy) \
	X(nvmlDeviceSetFanSpeed_v2) \
	X(nvmlDeviceSetGpcClkVfOffset) \
	X(nvmlDeviceSetGpuLockedClocks) \
	X(nvmlDeviceSetGpuOperationMode) \
	X(nvmlDeviceSetHostname_v1) \
	X(nvmlDeviceSetMemClkVfOffset) \
	X(nvmlDeviceSetMemoryLockedClocks) \
	X(nvmlDeviceSetMigMode) \
	X(nvmlDeviceSetNvLinkDeviceLowPowerThreshold) \
	X(nvmlDeviceSetNvLinkUtilizationControl) \
	X(nvmlDeviceSetNvlinkBwMode) \
	X(nvmlDeviceSetPersistenceMode) \
	X(nvmlDeviceSetPowerManagementLimit) \
	X(nvmlDeviceSetPowerManagementLimit_v2) \
	X(nvmlDeviceSetPowerMizerMode_v1) \
	X(nvmlDeviceSetTemperatureThreshold) \
	X(nvmlDeviceSetVgpuCapabilities) \
	X(nvmlDeviceSetVgpuHeterogeneousMode) \
	X(nvmlDeviceSetVgpuSchedulerState) \
	X(nvmlDeviceSetVirtualizationMode) \
	X(nvmlDeviceWorkloadPowerProfileClearRequestedProfiles) \
	X(nvmlDeviceWorkloadPowerProfileSetRequestedProfiles) \
	X(nvmlGpmSetStreamingEnabled) \
	X(nvmlGpuInstanceCreateComputeInstance) \
	X(nvmlGpuInstanceCreateComputeInstanceWithPlacement) \
	X(nvmlGpuInstanceDestroy) \
	X(nvmlGpuInstanceSetVgpuHeterogeneousMode) \
	X(nvmlGpuInstanceSetVgpuSchedulerState) \
	X(nvmlSetVgpuVersion) \
	X(nvmlSystemSetConfComputeGpusReadyState) \
	X(nvmlSystemSetConfComputeKeyRotationThresholdInfo) \
	X(nvmlSystemSetNvlinkBwMode) \
	X(nvmlUnitSetLedState) \
	X(nvmlVgpuInstanceClearAccountingPids) \
	X(nvmlVgpuInstanceSetEncoderCapacity)
/* clang-format on */

/* The prototypes. The arguments of SETTINGS are only passed on, so all of them have one type. */
#define DECLARE(name, params) nvmlReturn_t name params;
HOOKS(DECLARE)
CALLED(DECLARE)
#undef DECLARE
#define DECLARE(name) \
	nvmlReturn_t name(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t);
SETTINGS(DECLARE)
#undef DECLARE
