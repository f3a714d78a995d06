/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The calls of the CUDA driver API that a vector add makes. The names have the suffixes of the
 * symbols, as libcuda's plain names are older layouts. abi/cuda-api.h has the types and results.
 * Source: https://docs.nvidia.com/cuda/cuda-driver-api/
 */
#include "abi/cuda-api.h"

/* clang-format off */
#define CUDA_CALLS(X) \
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
#define CUDA_CALLS_BEFORE_R470(X) \
	X(cuDeviceGetUuid_v2, cuDeviceGetUuid) \
	X(cuDevicePrimaryCtxRelease_v2, cuDevicePrimaryCtxRelease)
/* clang-format on */
