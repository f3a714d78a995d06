/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The NVML ABI as numbers: sizes, offsets and constants, once as we know them and, compiled against
 * the vendor's header (nvml-vendor.c), as the vendor has them. Types and members have the same
 * names in both; constants name ours and the vendor's.
 */
#include <stddef.h>

struct layout_row {
	const char *name;
	unsigned long long value;
};

/* S(type, size) */
#define LAYOUT_SIZES(S)                             \
	S(nvmlPciInfo_t, 68)                        \
	S(nvmlPciInfoExt_v1_t, 64)                  \
	S(nvmlMemory_t, 24)                         \
	S(nvmlMemory_v2_t, 40)                      \
	S(nvmlBAR1Memory_t, 24)                     \
	S(nvmlUtilization_t, 8)                     \
	S(nvmlProcessInfo_v1_t, 16)                 \
	S(nvmlProcessInfo_t, 24)                    \
	S(nvmlProcessDetail_v1_t, 32)               \
	S(nvmlProcessDetailList_v1_t, 24)           \
	S(nvmlProcessUtilizationSample_t, 32)       \
	S(nvmlDeviceAttributes_t, 40)               \
	S(nvmlGpuInstancePlacement_t, 8)            \
	S(nvmlComputeInstancePlacement_t, 8)        \
	S(nvmlGpuInstanceProfileInfo_t, 48)         \
	S(nvmlGpuInstanceProfileInfo_v2_t, 152)     \
	S(nvmlGpuInstanceProfileInfo_v3_t, 152)     \
	S(nvmlGpuInstanceInfo_t, 24)                \
	S(nvmlComputeInstanceProfileInfo_t, 36)     \
	S(nvmlComputeInstanceProfileInfo_v2_t, 136) \
	S(nvmlComputeInstanceProfileInfo_v3_t, 140) \
	S(nvmlComputeInstanceInfo_t, 32)            \
	S(nvmlEventData_t, 32)                      \
	S(nvmlFieldValue_t, 40)                     \
	S(nvmlSample_t, 16)                         \
	S(nvmlViolationTime_t, 16)                  \
	S(nvmlEccErrorCounts_t, 32)                 \
	S(nvmlRowRemapperHistogramValues_t, 20)     \
	S(nvmlGpmMetric_t, 40)                      \
	S(nvmlGpmSupport_t, 8)                      \
	S(nvmlGpuFabricInfo_t, 28)                  \
	S(nvmlGpuFabricInfo_v2_t, 36)               \
	S(nvmlGpuFabricInfo_v3_t, 40)               \
	S(nvmlTemperature_v1_t, 12)                 \
	S(nvmlMarginTemperature_v1_t, 8)            \
	S(nvmlDeviceAddressingMode_v1_t, 8)         \
	S(nvmlPlatformInfo_v2_t, 44)                \
	S(nvmlExcludedDeviceInfo_t, 148)            \
	S(nvmlDevice_t, 8)                          \
	S(nvmlReturn_t, 4)

/* O(type, member, offset) */
#define LAYOUT_OFFSETS(O)                                         \
	O(nvmlPciInfo_t, busIdLegacy, 0)                          \
	O(nvmlPciInfo_t, domain, 16)                              \
	O(nvmlPciInfo_t, bus, 20)                                 \
	O(nvmlPciInfo_t, device, 24)                              \
	O(nvmlPciInfo_t, pciDeviceId, 28)                         \
	O(nvmlPciInfo_t, pciSubSystemId, 32)                      \
	O(nvmlPciInfo_t, busId, 36)                               \
	O(nvmlPciInfoExt_v1_t, domain, 4)                         \
	O(nvmlPciInfoExt_v1_t, baseClass, 24)                     \
	O(nvmlPciInfoExt_v1_t, busId, 32)                         \
	O(nvmlMemory_t, total, 0)                                 \
	O(nvmlMemory_t, free, 8)                                  \
	O(nvmlMemory_t, used, 16)                                 \
	O(nvmlMemory_v2_t, total, 8)                              \
	O(nvmlMemory_v2_t, reserved, 16)                          \
	O(nvmlMemory_v2_t, free, 24)                              \
	O(nvmlMemory_v2_t, used, 32)                              \
	O(nvmlBAR1Memory_t, bar1Free, 8)                          \
	O(nvmlProcessInfo_v1_t, usedGpuMemory, 8)                 \
	O(nvmlProcessInfo_t, usedGpuMemory, 8)                    \
	O(nvmlProcessInfo_t, gpuInstanceId, 16)                   \
	O(nvmlProcessInfo_t, computeInstanceId, 20)               \
	O(nvmlProcessDetail_v1_t, usedGpuCcProtectedMemory, 24)   \
	O(nvmlProcessDetailList_v1_t, mode, 4)                    \
	O(nvmlProcessDetailList_v1_t, numProcArrayEntries, 8)     \
	O(nvmlProcessDetailList_v1_t, procArray, 16)              \
	O(nvmlProcessUtilizationSample_t, timeStamp, 8)           \
	O(nvmlProcessUtilizationSample_t, smUtil, 16)             \
	O(nvmlProcessUtilizationSample_t, decUtil, 28)            \
	O(nvmlDeviceAttributes_t, gpuInstanceSliceCount, 24)      \
	O(nvmlDeviceAttributes_t, memorySizeMB, 32)               \
	O(nvmlGpuInstanceProfileInfo_t, multiprocessorCount, 16)  \
	O(nvmlGpuInstanceProfileInfo_t, memorySizeMB, 40)         \
	O(nvmlGpuInstanceProfileInfo_v2_t, id, 4)                 \
	O(nvmlGpuInstanceProfileInfo_v2_t, memorySizeMB, 48)      \
	O(nvmlGpuInstanceProfileInfo_v2_t, name, 56)              \
	O(nvmlGpuInstanceProfileInfo_v3_t, sliceCount, 8)         \
	O(nvmlGpuInstanceProfileInfo_v3_t, memorySizeMB, 40)      \
	O(nvmlGpuInstanceProfileInfo_v3_t, name, 48)              \
	O(nvmlGpuInstanceProfileInfo_v3_t, capabilities, 144)     \
	O(nvmlGpuInstanceInfo_t, profileId, 12)                   \
	O(nvmlGpuInstanceInfo_t, placement, 16)                   \
	O(nvmlComputeInstanceProfileInfo_v2_t, id, 4)             \
	O(nvmlComputeInstanceProfileInfo_v2_t, name, 40)          \
	O(nvmlComputeInstanceProfileInfo_v3_t, capabilities, 136) \
	O(nvmlComputeInstanceInfo_t, gpuInstance, 8)              \
	O(nvmlComputeInstanceInfo_t, id, 16)                      \
	O(nvmlComputeInstanceInfo_t, placement, 24)               \
	O(nvmlEventData_t, eventType, 8)                          \
	O(nvmlEventData_t, eventData, 16)                         \
	O(nvmlEventData_t, gpuInstanceId, 24)                     \
	O(nvmlFieldValue_t, scopeId, 4)                           \
	O(nvmlFieldValue_t, timestamp, 8)                         \
	O(nvmlFieldValue_t, valueType, 24)                        \
	O(nvmlFieldValue_t, nvmlReturn, 28)                       \
	O(nvmlFieldValue_t, value, 32)                            \
	O(nvmlSample_t, sampleValue, 8)                           \
	O(nvmlEccErrorCounts_t, registerFile, 24)                 \
	O(nvmlRowRemapperHistogramValues_t, none, 16)             \
	O(nvmlGpmMetric_t, nvmlReturn, 4)                         \
	O(nvmlGpmMetric_t, value, 8)                              \
	O(nvmlGpmMetric_t, metricInfo, 16)                        \
	O(nvmlGpmMetricsGet_t, numMetrics, 4)                     \
	O(nvmlGpmMetricsGet_t, sample1, 8)                        \
	O(nvmlGpmMetricsGet_t, sample2, 16)                       \
	O(nvmlGpmMetricsGet_t, metrics, 24)                       \
	O(nvmlGpuFabricInfo_t, status, 16)                        \
	O(nvmlGpuFabricInfo_t, state, 24)                         \
	O(nvmlGpuFabricInfo_v2_t, clusterUuid, 4)                 \
	O(nvmlGpuFabricInfo_v2_t, state, 28)                      \
	O(nvmlGpuFabricInfo_v2_t, healthMask, 32)                 \
	O(nvmlGpuFabricInfo_v3_t, healthSummary, 36)              \
	O(nvmlTemperature_v1_t, temperature, 8)                   \
	O(nvmlPlatformInfo_v2_t, moduleId, 40)                    \
	O(nvmlExcludedDeviceInfo_t, uuid, 68)

/* C(ours, the vendor's, number) */
#define LAYOUT_CONSTANTS(C)                                                                    \
	C(NVML_SUCCESS, NVML_SUCCESS, 0)                                                       \
	C(NVML_ERROR_INSUFFICIENT_SIZE, NVML_ERROR_INSUFFICIENT_SIZE, 7)                       \
	C(NVML_ERROR_GPU_IS_LOST, NVML_ERROR_GPU_IS_LOST, 15)                                  \
	C(NVML_ERROR_ARGUMENT_VERSION_MISMATCH, NVML_ERROR_ARGUMENT_VERSION_MISMATCH, 25)      \
	C(NVML_ERROR_RESET_TYPE_NOT_SUPPORTED, NVML_ERROR_RESET_TYPE_NOT_SUPPORTED, 30)        \
	C(NVML_ERROR_UNKNOWN, NVML_ERROR_UNKNOWN, 999)                                         \
	C(NVML_BRAND_NVIDIA, NVML_BRAND_NVIDIA, 14)                                            \
	C(NVML_DEVICE_ARCH_HOPPER, NVML_DEVICE_ARCH_HOPPER, 9)                                 \
	C(NVML_CLOCK_VIDEO, NVML_CLOCK_VIDEO, 3)                                               \
	C(NVML_CLOCK_ID_CUSTOMER_BOOST_MAX, NVML_CLOCK_ID_CUSTOMER_BOOST_MAX, 3)               \
	C(NVML_COMPUTEMODE_EXCLUSIVE_PROCESS, NVML_COMPUTEMODE_EXCLUSIVE_PROCESS, 3)           \
	C(NVML_MEMORY_LOCATION_SRAM, NVML_MEMORY_LOCATION_SRAM, 7)                             \
	C(NVML_TEMPERATURE_THRESHOLD_GPU_MAX, NVML_TEMPERATURE_THRESHOLD_GPU_MAX, 3)           \
	C(NVML_TOPOLOGY_SYSTEM, NVML_TOPOLOGY_SYSTEM, 50)                                      \
	C(NVML_P2P_CAPS_INDEX_ATOMICS, NVML_P2P_CAPS_INDEX_ATOMICS, 3)                         \
	C(NVML_P2P_STATUS_NOT_SUPPORTED, NVML_P2P_STATUS_NOT_SUPPORTED, 5)                     \
	C(NVML_GPU_FABRIC_STATE_COMPLETED, NVML_GPU_FABRIC_STATE_COMPLETED, 3)                 \
	C(NVML_VALUE_TYPE_UNSIGNED_SHORT, NVML_VALUE_TYPE_UNSIGNED_SHORT, 6)                   \
	C(NVML_NVLINK_DEVICE_TYPE_SWITCH, NVML_NVLINK_DEVICE_TYPE_SWITCH, 2)                   \
	C(NVML_CLOCKS_REASON_SW_POWER_CAP, nvmlClocksEventReasonSwPowerCap, 4)                 \
	C(NVML_CLOCKS_REASON_DISPLAY, nvmlClocksEventReasonDisplayClockSetting, 0x100)         \
	C(NVML_EVENT_XID_CRITICAL, nvmlEventTypeXidCriticalError, 8)                           \
	C(NVML_EVENT_MIG_CONFIG, nvmlEventMigConfigChange, 0x100)                              \
	C(NVML_EVENT_DRAM_RETIREMENT, nvmlEventTypeDramRetirementEvent, 0x400)                 \
	C(NVML_EVENT_GPU_UNAVAILABLE, nvmlEventTypeGpuUnavailableError, 0x4000)                \
	C(NVML_EVENT_RECOVERY_ACTION, nvmlEventTypeGpuRecoveryAction, 0x8000)                  \
	C(NVML_FI_DEV_ECC_CURRENT, NVML_FI_DEV_ECC_CURRENT, 1)                                 \
	C(NVML_FI_DEV_RETIRED_PENDING, NVML_FI_DEV_RETIRED_PENDING, 31)                        \
	C(NVML_FI_DEV_PERF_POLICY_POWER, NVML_FI_DEV_PERF_POLICY_POWER, 74)                    \
	C(NVML_FI_DEV_MEMORY_TEMP, NVML_FI_DEV_MEMORY_TEMP, 82)                                \
	C(NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION, NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION, 83)      \
	C(NVML_FI_DEV_NVLINK_LINK_COUNT, NVML_FI_DEV_NVLINK_LINK_COUNT, 91)                    \
	C(NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, 138)   \
	C(NVML_FI_DEV_REMAPPED_FAILURE, NVML_FI_DEV_REMAPPED_FAILURE, 145)                     \
	C(NVML_FI_DEV_NVLINK_GET_VERSION, NVML_FI_DEV_NVLINK_GET_VERSION, 166)                 \
	C(NVML_FI_DEV_POWER_INSTANT, NVML_FI_DEV_POWER_INSTANT, 186)                           \
	C(NVML_FI_DEV_POWER_REQUESTED_LIMIT, NVML_FI_DEV_POWER_REQUESTED_LIMIT, 192)           \
	C(NVML_FI_DEV_TEMPERATURE_GPU_MAX_TLIMIT, NVML_FI_DEV_TEMPERATURE_GPU_MAX_TLIMIT, 196) \
	C(NVML_FI_DEV_PCIE_COUNT_TX_BYTES, NVML_FI_DEV_PCIE_COUNT_TX_BYTES, 197)               \
	C(NVML_FI_DEV_GPU_RECOVERY_ACTION, NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, 230)           \
	C(NVML_GPM_METRIC_DRAM_BW_UTIL, NVML_GPM_METRIC_DRAM_BW_UTIL, 10)                      \
	C(NVML_GPM_METRIC_PCIE_TX_PER_SEC, NVML_GPM_METRIC_PCIE_TX_PER_SEC, 20)                \
	C(NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC, NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC,    \
		61)                                                                            \
	C(NVML_DEVICE_UUID_V2_BUFFER_SIZE, NVML_DEVICE_UUID_V2_BUFFER_SIZE, 96)                \
	C(NVML_DEVICE_NAME_V2_BUFFER_SIZE, NVML_DEVICE_NAME_V2_BUFFER_SIZE, 96)                \
	C(NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE, NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE, 32)

extern const struct layout_row layout_vendor[];
extern const size_t layout_vendor_count;
