/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The part of the CUDA driver API's binary interface that a vector add needs, for 64-bit Linux:
 * names with the suffixes of the symbols, since libcuda's plain names are older layouts. No vendor
 * header is needed to build. Enums of the vendor are int here: the same ABI.
 * Source: https://docs.nvidia.com/cuda/cuda-driver-api/
 */
#include <stddef.h>
#include <stdint.h>

#define CUDA_SONAME "libcuda.so.1"

typedef int CUresult;
typedef int CUdevice;
typedef uint64_t CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;

typedef struct {
	unsigned char bytes[16];
} CUuuid;

/* Results that we tell apart. */
enum {
	CUDA_SUCCESS = 0,
	CUDA_ERROR_INVALID_VALUE = 1,
	CUDA_ERROR_OUT_OF_MEMORY = 2,
	CUDA_ERROR_NOT_INITIALIZED = 3,
	CUDA_ERROR_STUB_LIBRARY = 34,
	CUDA_ERROR_DEVICE_UNAVAILABLE = 46,
	CUDA_ERROR_NO_DEVICE = 100,
	CUDA_ERROR_INVALID_DEVICE = 101,
	CUDA_ERROR_INVALID_CONTEXT = 201,
	CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
	CUDA_ERROR_INVALID_PTX = 218,
	CUDA_ERROR_JIT_COMPILER_NOT_FOUND = 221,
	CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222,
	CUDA_ERROR_JIT_COMPILATION_DISABLED = 223,
	CUDA_ERROR_OPERATING_SYSTEM = 304,
	CUDA_ERROR_NOT_FOUND = 500,
	CUDA_ERROR_SYSTEM_NOT_READY = 802,
	CUDA_ERROR_SYSTEM_DRIVER_MISMATCH = 803,
	CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE = 804,
	CUDA_ERROR_UNKNOWN = 999,
};

/* clang-format off */
#define CUDA_FUNCTIONS(X) \
	X(cuInit, (unsigned int flags)) \
	X(cuDriverGetVersion, (int *version)) \
	X(cuDeviceGetCount, (int *n)) \
	X(cuDeviceGet, (CUdevice *device, int ordinal)) \
	X(cuDeviceGetName, (char *name, int len, CUdevice device)) \
	X(cuDeviceGetUuid_v2, (CUuuid *uuid, CUdevice device)) \
	X(cuDeviceGetPCIBusId, (char *id, int len, CUdevice device)) \
	X(cuDevicePrimaryCtxRetain, (CUcontext *context, CUdevice device)) \
	X(cuDevicePrimaryCtxRelease_v2, (CUdevice device)) \
	X(cuCtxSetCurrent, (CUcontext context)) \
	X(cuCtxSynchronize, (void)) \
	X(cuModuleLoadData, (CUmodule *module, const void *image)) \
	X(cuModuleUnload, (CUmodule module)) \
	X(cuModuleGetFunction, (CUfunction *function, CUmodule module, const char *name)) \
	X(cuMemAlloc_v2, (CUdeviceptr *ptr, size_t bytes)) \
	X(cuMemFree_v2, (CUdeviceptr ptr)) \
	X(cuMemcpyHtoD_v2, (CUdeviceptr to, const void *from, size_t bytes)) \
	X(cuMemcpyDtoH_v2, (void *to, CUdeviceptr from, size_t bytes)) \
	X(cuLaunchKernel, (CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared_bytes, CUstream stream, void **params, void **extra)) \
	X(cuGetErrorName, (CUresult result, const char **name)) \
	X(cuGetErrorString, (CUresult result, const char **text))

/* Older symbols with the same parameters, for drivers before R470 (CUDA 11.4). */
#define CUDA_FALLBACKS(X) \
	X(cuDeviceGetUuid_v2, cuDeviceGetUuid) \
	X(cuDevicePrimaryCtxRelease_v2, cuDevicePrimaryCtxRelease)
/* clang-format on */
