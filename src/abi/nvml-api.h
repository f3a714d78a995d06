/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The part of NVML's binary interface that gpuslice calls and that its simulator offers: numbers, memory layouts
 * and function types of 64-bit little-endian Linux. The build needs no vendor header.
 *
 * Names are those of the ABI, so that a reader finds them in the vendor's documentation; the text is original.
 * test/unit/io/nvml/nvml-layout.h pins every size and offset. test-nvml-api compiles it against this file and,
 * where it is installed, against the vendor's nvml.h.
 *
 * Rules for callers:
 * - Handles are opaque and pointer-sized. MIG devices are nvmlDevice_t as well.
 * - A struct whose first member is `version` needs NVML_STRUCT_VERSION() there before each call.
 * - Parameters that the vendor declares as enums are unsigned int here: the same ABI, no casts.
 * Thread: NVML is thread-safe; calls on a sick GPU may block for seconds or forever.
 */
#include <stdint.h>

#define NVML_SONAME "libnvidia-ml.so.1"

/* --- results --- */

/* name, number, text of nvmlErrorString(); other numbers have "Unknown Error". */
#define NVML_RESULTS(X)                                                                  \
	X(NVML_SUCCESS, 0, "Success")                                                    \
	X(NVML_ERROR_UNINITIALIZED, 1, "Uninitialized")                                  \
	X(NVML_ERROR_INVALID_ARGUMENT, 2, "Invalid Argument")                            \
	X(NVML_ERROR_NOT_SUPPORTED, 3, "Not Supported")                                  \
	X(NVML_ERROR_NO_PERMISSION, 4, "Insufficient Permissions")                       \
	X(NVML_ERROR_ALREADY_INITIALIZED, 5, "Already Initialized")                      \
	X(NVML_ERROR_NOT_FOUND, 6, "Not Found")                                          \
	X(NVML_ERROR_INSUFFICIENT_SIZE, 7, "Insufficient Size")                          \
	X(NVML_ERROR_INSUFFICIENT_POWER, 8, "Insufficient External Power")               \
	X(NVML_ERROR_DRIVER_NOT_LOADED, 9, "Driver Not Loaded")                          \
	X(NVML_ERROR_TIMEOUT, 10, "Timeout")                                             \
	X(NVML_ERROR_IRQ_ISSUE, 11, "Interrupt Request Issue")                           \
	X(NVML_ERROR_LIBRARY_NOT_FOUND, 12, "NVML Shared Library Not Found")             \
	X(NVML_ERROR_FUNCTION_NOT_FOUND, 13, "Function Not Found")                       \
	X(NVML_ERROR_CORRUPTED_INFOROM, 14, "Corrupted infoROM")                         \
	X(NVML_ERROR_GPU_IS_LOST, 15, "GPU is lost")                                     \
	X(NVML_ERROR_RESET_REQUIRED, 16, "GPU requires reset")                           \
	X(NVML_ERROR_OPERATING_SYSTEM, 17, "GPU access blocked by the operating system") \
	X(NVML_ERROR_LIB_RM_VERSION_MISMATCH, 18, "Driver/library version mismatch")     \
	X(NVML_ERROR_IN_USE, 19, "In use by another client")                             \
	X(NVML_ERROR_MEMORY, 20, "Insufficient Memory")                                  \
	X(NVML_ERROR_NO_DATA, 21, "No data")                                             \
	X(NVML_ERROR_VGPU_ECC_NOT_SUPPORTED, 22, "vGPU ECC not supported")               \
	X(NVML_ERROR_INSUFFICIENT_RESOURCES, 23, "Insufficient Resources")               \
	X(NVML_ERROR_FREQ_NOT_SUPPORTED, 24, "Invalid Frequency")                        \
	X(NVML_ERROR_ARGUMENT_VERSION_MISMATCH, 25, "Argument version mismatch")         \
	X(NVML_ERROR_DEPRECATED, 26, "Requested functionality has been deprecated")      \
	X(NVML_ERROR_NOT_READY, 27, "System is not in ready state")                      \
	X(NVML_ERROR_GPU_NOT_FOUND, 28, "No supported GPUs were found")                  \
	X(NVML_ERROR_INVALID_STATE, 29,                                                  \
		"Resource not in correct state to perform requested operation")          \
	X(NVML_ERROR_RESET_TYPE_NOT_SUPPORTED, 30,                                       \
		"Reset type is not supported for given device")                          \
	X(NVML_ERROR_UNKNOWN, 999, "Unknown Error")

#define NVML_RESULT_ENUM_(name, number, text) name = (number),
typedef enum nvmlReturn_enum { NVML_RESULTS(NVML_RESULT_ENUM_) } nvmlReturn_t;
#undef NVML_RESULT_ENUM_

/* --- constants --- */

/* Sizes of buffers that are always sufficient, with the NUL. */
#define NVML_DEVICE_UUID_BUFFER_SIZE            80
#define NVML_DEVICE_UUID_V2_BUFFER_SIZE         96
#define NVML_DEVICE_NAME_BUFFER_SIZE            64
#define NVML_DEVICE_NAME_V2_BUFFER_SIZE         96
#define NVML_DEVICE_SERIAL_BUFFER_SIZE          30
#define NVML_DEVICE_PART_NUMBER_BUFFER_SIZE     80
#define NVML_DEVICE_VBIOS_VERSION_BUFFER_SIZE   32
#define NVML_DEVICE_INFOROM_VERSION_BUFFER_SIZE 16
#define NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE      32
#define NVML_DEVICE_PCI_BUS_ID_BUFFER_V2_SIZE   16
#define NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE  80
#define NVML_SYSTEM_NVML_VERSION_BUFFER_SIZE    80
#define NVML_GPU_FABRIC_UUID_LEN                16
#define NVML_NVLINK_MAX_LINKS                   36

#define NVML_VALUE_NOT_AVAILABLE UINT64_C(0xFFFFFFFFFFFFFFFF) /* memory of a process: unknown */
#define NVML_NO_INSTANCE         UINT32_C(0xFFFFFFFF)         /* gi and ci while MIG is off */

enum {
	NVML_FEATURE_DISABLED = 0,
	NVML_FEATURE_ENABLED = 1,

	NVML_INIT_FLAG_NO_GPUS = 1,
	NVML_INIT_FLAG_NO_ATTACH = 2,

	NVML_BRAND_UNKNOWN = 0,
	NVML_BRAND_QUADRO = 1,
	NVML_BRAND_TESLA = 2,
	NVML_BRAND_GEFORCE = 5,
	NVML_BRAND_TITAN = 6,
	NVML_BRAND_QUADRO_RTX = 12,
	NVML_BRAND_NVIDIA_RTX = 13,
	NVML_BRAND_NVIDIA = 14,

	NVML_CLOCK_GRAPHICS = 0,
	NVML_CLOCK_SM = 1,
	NVML_CLOCK_MEM = 2,
	NVML_CLOCK_VIDEO = 3,
	NVML_CLOCK_ID_CURRENT = 0,
	NVML_CLOCK_ID_APP_CLOCK_TARGET = 1,
	NVML_CLOCK_ID_APP_CLOCK_DEFAULT = 2,
	NVML_CLOCK_ID_CUSTOMER_BOOST_MAX = 3,

	NVML_TEMPERATURE_GPU = 0,
	NVML_TEMPERATURE_THRESHOLD_SHUTDOWN = 0,
	NVML_TEMPERATURE_THRESHOLD_SLOWDOWN = 1,
	NVML_TEMPERATURE_THRESHOLD_MEM_MAX = 2,
	NVML_TEMPERATURE_THRESHOLD_GPU_MAX = 3,

	NVML_COMPUTEMODE_DEFAULT = 0,
	NVML_COMPUTEMODE_EXCLUSIVE_THREAD = 1,
	NVML_COMPUTEMODE_PROHIBITED = 2,
	NVML_COMPUTEMODE_EXCLUSIVE_PROCESS = 3,

	NVML_MEMORY_ERROR_TYPE_CORRECTED = 0,
	NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 1,
	NVML_VOLATILE_ECC = 0,
	NVML_AGGREGATE_ECC = 1,
	NVML_MEMORY_LOCATION_L1_CACHE = 0,
	NVML_MEMORY_LOCATION_L2_CACHE = 1,
	NVML_MEMORY_LOCATION_DRAM = 2,
	NVML_MEMORY_LOCATION_REGISTER_FILE = 3,
	NVML_MEMORY_LOCATION_TEXTURE_MEMORY = 4,
	NVML_MEMORY_LOCATION_TEXTURE_SHM = 5,
	NVML_MEMORY_LOCATION_CBU = 6,
	NVML_MEMORY_LOCATION_SRAM = 7,

	NVML_TOPOLOGY_INTERNAL = 0,
	NVML_TOPOLOGY_SINGLE = 10,
	NVML_TOPOLOGY_MULTIPLE = 20,
	NVML_TOPOLOGY_HOSTBRIDGE = 30,
	NVML_TOPOLOGY_NODE = 40,
	NVML_TOPOLOGY_SYSTEM = 50,

	NVML_P2P_CAPS_INDEX_READ = 0,
	NVML_P2P_CAPS_INDEX_WRITE = 1,
	NVML_P2P_CAPS_INDEX_NVLINK = 2,
	NVML_P2P_CAPS_INDEX_ATOMICS = 3,
	NVML_P2P_STATUS_OK = 0,
	NVML_P2P_STATUS_CHIPSET_NOT_SUPPORTED = 1,
	NVML_P2P_STATUS_GPU_NOT_SUPPORTED = 2,
	NVML_P2P_STATUS_NOT_SUPPORTED = 5,

	NVML_GPU_VIRTUALIZATION_MODE_NONE = 0,
	NVML_GPU_VIRTUALIZATION_MODE_PASSTHROUGH = 1,
	NVML_GPU_VIRTUALIZATION_MODE_VGPU = 2,

	NVML_PCIE_UTIL_TX_BYTES = 0,
	NVML_PCIE_UTIL_RX_BYTES = 1,

	NVML_NVLINK_DEVICE_TYPE_GPU = 0,
	NVML_NVLINK_DEVICE_TYPE_IBMNPU = 1,
	NVML_NVLINK_DEVICE_TYPE_SWITCH = 2,
	NVML_NVLINK_DEVICE_TYPE_UNKNOWN = 0xFF,

	NVML_DEVICE_ADDRESSING_MODE_NONE = 0,
	NVML_DEVICE_ADDRESSING_MODE_HMM = 1,
	NVML_DEVICE_ADDRESSING_MODE_ATS = 2,

	NVML_GPU_FABRIC_STATE_NOT_SUPPORTED = 0,
	NVML_GPU_FABRIC_STATE_NOT_STARTED = 1,
	NVML_GPU_FABRIC_STATE_IN_PROGRESS = 2,
	NVML_GPU_FABRIC_STATE_COMPLETED = 3,

	NVML_VALUE_TYPE_DOUBLE = 0,
	NVML_VALUE_TYPE_UNSIGNED_INT = 1,
	NVML_VALUE_TYPE_UNSIGNED_LONG = 2,
	NVML_VALUE_TYPE_UNSIGNED_LONG_LONG = 3,
	NVML_VALUE_TYPE_SIGNED_LONG_LONG = 4,
	NVML_VALUE_TYPE_SIGNED_INT = 5,
	NVML_VALUE_TYPE_UNSIGNED_SHORT = 6,

	NVML_DEVICE_MIG_DISABLE = 0,
	NVML_DEVICE_MIG_ENABLE = 1,

	NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED = 0,

	/* Bits of `capabilities` in version 3 of the profile infos. */
	NVML_GPU_INSTANCE_PROFILE_CAPS_P2P = 1,
	NVML_GPU_INSTANCE_PROFILE_CAPS_GFX = 2,
	NVML_COMPUTE_INSTANCE_PROFILE_CAPS_GFX = 1,
};

enum {
	NVML_DEVICE_ARCH_KEPLER = 2,
	NVML_DEVICE_ARCH_MAXWELL = 3,
	NVML_DEVICE_ARCH_PASCAL = 4,
	NVML_DEVICE_ARCH_VOLTA = 5,
	NVML_DEVICE_ARCH_TURING = 6,
	NVML_DEVICE_ARCH_AMPERE = 7,
	NVML_DEVICE_ARCH_ADA = 8,
	NVML_DEVICE_ARCH_HOPPER = 9,
	NVML_DEVICE_ARCH_BLACKWELL = 10,
};

/* Bits of the mask of reasons for reduced clocks. */
#define NVML_CLOCKS_REASON_GPU_IDLE            UINT64_C(0x001)
#define NVML_CLOCKS_REASON_APPLICATIONS_CLOCKS UINT64_C(0x002)
#define NVML_CLOCKS_REASON_SW_POWER_CAP        UINT64_C(0x004)
#define NVML_CLOCKS_REASON_HW_SLOWDOWN         UINT64_C(0x008)
#define NVML_CLOCKS_REASON_SYNC_BOOST          UINT64_C(0x010)
#define NVML_CLOCKS_REASON_SW_THERMAL          UINT64_C(0x020)
#define NVML_CLOCKS_REASON_HW_THERMAL          UINT64_C(0x040)
#define NVML_CLOCKS_REASON_HW_POWER_BRAKE      UINT64_C(0x080)
#define NVML_CLOCKS_REASON_DISPLAY             UINT64_C(0x100)

/* Event types. */
#define NVML_EVENT_SINGLE_BIT_ECC     UINT64_C(0x0001)
#define NVML_EVENT_DOUBLE_BIT_ECC     UINT64_C(0x0002)
#define NVML_EVENT_PSTATE             UINT64_C(0x0004)
#define NVML_EVENT_XID_CRITICAL       UINT64_C(0x0008)
#define NVML_EVENT_CLOCK              UINT64_C(0x0010)
#define NVML_EVENT_POWER_SOURCE       UINT64_C(0x0080)
#define NVML_EVENT_MIG_CONFIG         UINT64_C(0x0100)
#define NVML_EVENT_ECC_STORM          UINT64_C(0x0200)
#define NVML_EVENT_DRAM_RETIREMENT    UINT64_C(0x0400)
#define NVML_EVENT_RETIREMENT_FAILURE UINT64_C(0x0800)
#define NVML_EVENT_NON_FATAL_POISON   UINT64_C(0x1000)
#define NVML_EVENT_FATAL_POISON       UINT64_C(0x2000)
#define NVML_EVENT_GPU_UNAVAILABLE    UINT64_C(0x4000)
#define NVML_EVENT_RECOVERY_ACTION    UINT64_C(0x8000)

/* Field ids for nvmlDeviceGetFieldValues(), with unit and type. */
enum {
	NVML_FI_DEV_ECC_CURRENT = 1,
	NVML_FI_DEV_ECC_PENDING = 2,
	/* 3 to 6: SBE, DBE volatile; SBE, DBE aggregate (ull) */
	NVML_FI_DEV_ECC_SBE_VOL_TOTAL = 3,
	NVML_FI_DEV_ECC_DBE_VOL_TOTAL = 4,
	NVML_FI_DEV_ECC_SBE_AGG_TOTAL = 5,
	NVML_FI_DEV_ECC_DBE_AGG_TOTAL = 6,
	NVML_FI_DEV_RETIRED_SBE = 29,
	NVML_FI_DEV_RETIRED_DBE = 30,
	NVML_FI_DEV_RETIRED_PENDING = 31,
	NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL = 38,
	NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL = 45,
	NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL = 52,
	NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL = 59,
	NVML_FI_DEV_PERF_POLICY_POWER = 74, /* to 81: violation times (ns, ull) */
	NVML_FI_DEV_PERF_POLICY_THERMAL = 75,
	NVML_FI_DEV_PERF_POLICY_SYNC_BOOST = 76,
	NVML_FI_DEV_PERF_POLICY_BOARD_LIMIT = 77,
	NVML_FI_DEV_PERF_POLICY_LOW_UTILIZATION = 78,
	NVML_FI_DEV_PERF_POLICY_RELIABILITY = 79,
	NVML_FI_DEV_PERF_POLICY_TOTAL_APP_CLOCKS = 80,
	NVML_FI_DEV_PERF_POLICY_TOTAL_BASE_CLOCKS = 81,
	NVML_FI_DEV_MEMORY_TEMP = 82,              /* C (uint) */
	NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION = 83, /* mJ (ull) */
	NVML_FI_DEV_NVLINK_LINK_COUNT = 91,
	NVML_FI_DEV_PCIE_REPLAY_COUNTER = 94,
	NVML_FI_DEV_PCIE_REPLAY_ROLLOVER_COUNTER = 95,
	NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX = 138, /* KiB (ull); scope: link, UINT_MAX: sum */
	NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX = 139,
	NVML_FI_DEV_NVLINK_THROUGHPUT_RAW_TX = 140,
	NVML_FI_DEV_NVLINK_THROUGHPUT_RAW_RX = 141,
	NVML_FI_DEV_REMAPPED_COR = 142,
	NVML_FI_DEV_REMAPPED_UNC = 143,
	NVML_FI_DEV_REMAPPED_PENDING = 144,
	NVML_FI_DEV_REMAPPED_FAILURE = 145,
	NVML_FI_DEV_NVSWITCH_CONNECTED_LINK_COUNT = 147,
	NVML_FI_DEV_NVLINK_GET_SPEED = 164, /* Mbit/s; scope: link */
	NVML_FI_DEV_NVLINK_GET_STATE = 165,
	NVML_FI_DEV_NVLINK_GET_VERSION = 166,
	NVML_FI_DEV_IS_RESETLESS_MIG_SUPPORTED = 184,
	NVML_FI_DEV_POWER_AVERAGE = 185, /* mW; scope 0 GPU, 1 module, 2 memory */
	NVML_FI_DEV_POWER_INSTANT = 186,
	NVML_FI_DEV_POWER_MIN_LIMIT = 187,
	NVML_FI_DEV_POWER_MAX_LIMIT = 188,
	NVML_FI_DEV_POWER_DEFAULT_LIMIT = 189,
	NVML_FI_DEV_POWER_CURRENT_LIMIT = 190,
	NVML_FI_DEV_POWER_REQUESTED_LIMIT = 192,
	NVML_FI_DEV_TEMPERATURE_SHUTDOWN_TLIMIT = 193, /* signed, degrees to the limit */
	NVML_FI_DEV_TEMPERATURE_SLOWDOWN_TLIMIT = 194,
	NVML_FI_DEV_TEMPERATURE_MEM_MAX_TLIMIT = 195,
	NVML_FI_DEV_TEMPERATURE_GPU_MAX_TLIMIT = 196,
	NVML_FI_DEV_PCIE_COUNT_TX_BYTES = 197, /* 32 bits, wraps */
	NVML_FI_DEV_PCIE_COUNT_RX_BYTES = 198,
	NVML_FI_DEV_IS_MIG_MODE_INDEPENDENT_MIG_QUERY_CAPABLE = 199,
	NVML_FI_DEV_GPU_RECOVERY_ACTION = 230,
};

/* GPM metrics (Hopper and later): percent, or MiB/s for traffic. */
enum {
	NVML_GPM_METRIC_GRAPHICS_UTIL = 1,
	NVML_GPM_METRIC_SM_UTIL = 2,
	NVML_GPM_METRIC_SM_OCCUPANCY = 3,
	NVML_GPM_METRIC_INTEGER_UTIL = 4,
	NVML_GPM_METRIC_ANY_TENSOR_UTIL = 5,
	NVML_GPM_METRIC_DRAM_BW_UTIL = 10,
	NVML_GPM_METRIC_FP64_UTIL = 11,
	NVML_GPM_METRIC_FP32_UTIL = 12,
	NVML_GPM_METRIC_FP16_UTIL = 13,
	NVML_GPM_METRIC_PCIE_TX_PER_SEC = 20,
	NVML_GPM_METRIC_PCIE_RX_PER_SEC = 21,
	NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC = 60,
	NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC = 61,
};

/* --- handles and structs --- */

typedef struct nvmlDevice_st *nvmlDevice_t;
typedef struct nvmlGpuInstance_st *nvmlGpuInstance_t;
typedef struct nvmlComputeInstance_st *nvmlComputeInstance_t;
typedef struct nvmlEventSet_st *nvmlEventSet_t;
typedef struct nvmlGpmSample_st *nvmlGpmSample_t;

/* The value of the member `version`. */
#define NVML_STRUCT_VERSION(type, v) ((unsigned int)(sizeof(type) | ((unsigned int)(v) << 24)))

typedef struct nvmlPciInfo_st {
	char busIdLegacy[NVML_DEVICE_PCI_BUS_ID_BUFFER_V2_SIZE]; /* 0000:00:06.0 */
	unsigned int domain, bus, device;
	unsigned int pciDeviceId; /* device << 16 | vendor */
	unsigned int pciSubSystemId;
	char busId[NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE]; /* 00000000:00:06.0, upper case */
} nvmlPciInfo_t;

typedef struct nvmlPciInfoExt_v1_st {
	unsigned int version, domain, bus, device, pciDeviceId, pciSubSystemId, baseClass,
		subClass;
	char busId[NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE];
} nvmlPciInfoExt_v1_t;

typedef struct nvmlMemory_st {
	/* bytes; .used includes the driver's reserved memory */
	unsigned long long total, free, used;
} nvmlMemory_t;

typedef struct nvmlMemory_v2_st {
	unsigned int version;
	unsigned long long total, reserved, free, used; /* bytes; used excludes reserved */
} nvmlMemory_v2_t;

typedef struct nvmlBAR1Memory_st {
	unsigned long long bar1Total, bar1Free, bar1Used;
} nvmlBAR1Memory_t;

typedef struct nvmlUtilization_st {
	unsigned int gpu, memory; /* percent */
} nvmlUtilization_t;

typedef struct nvmlProcessInfo_v1_st {
	unsigned int pid;
	unsigned long long usedGpuMemory;
} nvmlProcessInfo_v1_t;

typedef struct nvmlProcessInfo_st { /* v2 and v3 */
	unsigned int pid;
	unsigned long long usedGpuMemory;
	unsigned int gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_t;

typedef struct nvmlProcessDetail_v1_st {
	unsigned int pid;
	unsigned long long usedGpuMemory;
	unsigned int gpuInstanceId, computeInstanceId;
	unsigned long long usedGpuCcProtectedMemory;
} nvmlProcessDetail_v1_t;

typedef struct nvmlProcessDetailList_v1_st {
	unsigned int version;
	unsigned int mode; /* 0 compute, 1 graphics, 2 MPS */
	unsigned int numProcArrayEntries;
	nvmlProcessDetail_v1_t *procArray;
} nvmlProcessDetailList_v1_t;

typedef struct nvmlProcessUtilizationSample_st {
	unsigned int pid;
	unsigned long long timeStamp; /* us since 1970 */
	unsigned int smUtil, memUtil, encUtil, decUtil;
} nvmlProcessUtilizationSample_t;

typedef struct nvmlDeviceAttributes_st {
	unsigned int multiprocessorCount, sharedCopyEngineCount, sharedDecoderCount;
	unsigned int sharedEncoderCount, sharedJpegCount, sharedOfaCount;
	unsigned int gpuInstanceSliceCount, computeInstanceSliceCount;
	unsigned long long memorySizeMB;
} nvmlDeviceAttributes_t;

typedef struct nvmlGpuInstancePlacement_st {
	unsigned int start, size;
} nvmlGpuInstancePlacement_t;

typedef nvmlGpuInstancePlacement_t nvmlComputeInstancePlacement_t;

typedef struct nvmlGpuInstanceProfileInfo_st {
	unsigned int id, isP2pSupported, sliceCount, instanceCount, multiprocessorCount;
	unsigned int copyEngineCount, decoderCount, encoderCount, jpegCount, ofaCount;
	unsigned long long memorySizeMB;
} nvmlGpuInstanceProfileInfo_t;

typedef struct nvmlGpuInstanceProfileInfo_v2_st {
	unsigned int version; /* input only: a real driver leaves 0 here */
	unsigned int id, isP2pSupported, sliceCount, instanceCount, multiprocessorCount;
	unsigned int copyEngineCount, decoderCount, encoderCount, jpegCount, ofaCount;
	unsigned long long memorySizeMB;
	char name[NVML_DEVICE_NAME_V2_BUFFER_SIZE]; /* "MIG 1g.10gb" */
} nvmlGpuInstanceProfileInfo_v2_t;

typedef struct nvmlGpuInstanceProfileInfo_v3_st {
	unsigned int version;
	unsigned int id, sliceCount, instanceCount, multiprocessorCount;
	unsigned int copyEngineCount, decoderCount, encoderCount, jpegCount, ofaCount;
	unsigned long long memorySizeMB;
	char name[NVML_DEVICE_NAME_V2_BUFFER_SIZE]; /* driver 580 writes it 8 bytes too far */
	unsigned int capabilities;
} nvmlGpuInstanceProfileInfo_v3_t;

typedef struct nvmlGpuInstanceInfo_st {
	nvmlDevice_t device;
	unsigned int id, profileId;
	nvmlGpuInstancePlacement_t placement;
} nvmlGpuInstanceInfo_t;

typedef struct nvmlComputeInstanceProfileInfo_st {
	unsigned int id, sliceCount, instanceCount, multiprocessorCount, sharedCopyEngineCount;
	unsigned int sharedDecoderCount, sharedEncoderCount, sharedJpegCount, sharedOfaCount;
} nvmlComputeInstanceProfileInfo_t;

typedef struct nvmlComputeInstanceProfileInfo_v2_st {
	unsigned int version;
	unsigned int id, sliceCount, instanceCount, multiprocessorCount, sharedCopyEngineCount;
	unsigned int sharedDecoderCount, sharedEncoderCount, sharedJpegCount, sharedOfaCount;
	char name[NVML_DEVICE_NAME_V2_BUFFER_SIZE];
} nvmlComputeInstanceProfileInfo_v2_t;

typedef struct nvmlComputeInstanceProfileInfo_v3_st {
	unsigned int version;
	unsigned int id, sliceCount, instanceCount, multiprocessorCount, sharedCopyEngineCount;
	unsigned int sharedDecoderCount, sharedEncoderCount, sharedJpegCount, sharedOfaCount;
	char name[NVML_DEVICE_NAME_V2_BUFFER_SIZE];
	unsigned int capabilities;
} nvmlComputeInstanceProfileInfo_v3_t;

typedef struct nvmlComputeInstanceInfo_st {
	nvmlDevice_t device;
	nvmlGpuInstance_t gpuInstance;
	unsigned int id, profileId;
	nvmlComputeInstancePlacement_t placement;
} nvmlComputeInstanceInfo_t;

typedef struct nvmlEventData_st {
	nvmlDevice_t device;
	unsigned long long eventType;
	unsigned long long eventData;                  /* the XID, for an XID event */
	unsigned int gpuInstanceId, computeInstanceId; /* not written by the v1 wait call */
} nvmlEventData_t;

typedef union nvmlValue_un {
	double dVal;
	int siVal;
	unsigned int uiVal;
	unsigned long ulVal;
	unsigned long long ullVal;
	long long sllVal;
	unsigned short usVal;
} nvmlValue_t;

typedef struct nvmlFieldValue_st {
	unsigned int fieldId, scopeId;
	long long timestamp;   /* us since 1970 */
	long long latencyUsec; /* duration of the driver's query */
	unsigned int valueType;
	nvmlReturn_t nvmlReturn; /* of this field alone */
	nvmlValue_t value;
} nvmlFieldValue_t;

typedef struct nvmlSample_st {
	unsigned long long timeStamp;
	nvmlValue_t sampleValue;
} nvmlSample_t;

typedef struct nvmlViolationTime_st {
	unsigned long long referenceTime, violationTime;
} nvmlViolationTime_t;

typedef struct nvmlEccErrorCounts_st {
	unsigned long long l1Cache, l2Cache, deviceMemory, registerFile;
} nvmlEccErrorCounts_t;

typedef struct nvmlRowRemapperHistogramValues_st {
	unsigned int max, high, partial, low, none;
} nvmlRowRemapperHistogramValues_t;

typedef struct nvmlGpmMetric_st {
	unsigned int metricId;
	nvmlReturn_t nvmlReturn;
	double value;
	struct {
		char *shortName, *longName, *unit;
	} metricInfo;
} nvmlGpmMetric_t;

/*
 * The vendor's array has 98, 210 or 333 entries, depending on the edition of the header. Driver 580 refuses
 * numMetrics above 210. Callers request few metrics at a time, so this array is short; the callee reads
 * numMetrics.
 */
#define NVML_GPM_METRICS_PER_CALL 32

typedef struct nvmlGpmMetricsGet_st {
	unsigned int version; /* the plain number 1 */
	unsigned int numMetrics;
	nvmlGpmSample_t sample1, sample2; /* sample1 is the older */
	nvmlGpmMetric_t metrics[NVML_GPM_METRICS_PER_CALL];
} nvmlGpmMetricsGet_t;

typedef struct nvmlGpmSupport_st {
	unsigned int version; /* the plain number 1 */
	unsigned int isSupportedDevice;
} nvmlGpmSupport_t;

typedef struct nvmlGpuFabricInfo_st {
	unsigned char clusterUuid[NVML_GPU_FABRIC_UUID_LEN];
	nvmlReturn_t status;
	unsigned int cliqueId;
	unsigned char state;
} nvmlGpuFabricInfo_t;

typedef struct nvmlGpuFabricInfo_v2_st {
	unsigned int version;
	unsigned char clusterUuid[NVML_GPU_FABRIC_UUID_LEN];
	nvmlReturn_t status;
	unsigned int cliqueId;
	unsigned char state;
	unsigned int healthMask;
} nvmlGpuFabricInfo_v2_t;

typedef struct nvmlGpuFabricInfo_v3_st {
	unsigned int version;
	unsigned char clusterUuid[NVML_GPU_FABRIC_UUID_LEN];
	nvmlReturn_t status;
	unsigned int cliqueId;
	unsigned char state;
	unsigned int healthMask;
	unsigned char healthSummary;
} nvmlGpuFabricInfo_v3_t;

typedef struct nvmlTemperature_v1_st {
	unsigned int version, sensorType;
	int temperature;
} nvmlTemperature_v1_t;

typedef struct nvmlMarginTemperature_v1_st {
	unsigned int version;
	int marginTemperature;
} nvmlMarginTemperature_v1_t;

typedef struct nvmlDeviceAddressingMode_v1_st {
	unsigned int version, value;
} nvmlDeviceAddressingMode_v1_t;

typedef struct nvmlPlatformInfo_v2_st {
	unsigned int version;
	unsigned char ibGuid[16], chassisSerialNumber[16];
	unsigned char slotNumber, trayIndex, hostId, peerType, moduleId;
} nvmlPlatformInfo_v2_t;

typedef struct nvmlExcludedDeviceInfo_st {
	nvmlPciInfo_t pciInfo;
	char uuid[NVML_DEVICE_UUID_BUFFER_SIZE];
} nvmlExcludedDeviceInfo_t;

#include "abi/nvml-functions.h"
