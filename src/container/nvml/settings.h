/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Functions that change a GPU, an NVLink, an NVML unit or the node for all users. No tenant of a slice may call
 * them, regardless of the rights of its container's user.
 *
 * These functions change nothing beyond the process and are not listed: nvmlDeviceSetCpuAffinity and
 * nvmlDeviceClearCpuAffinity (of the calling thread), event sets, GPM samples.
 */
/* clang-format off */
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
