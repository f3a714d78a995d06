/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuGetProcAddress: the real one decides, with the caller's own arguments, which function of which
 * version and stream variant is meant; if a hook of ours stands in front of the address that it
 * gives, the caller gets the hook. So names, versions and flags that we never heard of are right.
 */
#include "container/loader/forward.h"

#include "abi/cuda-api.h"

#include <stdint.h>

HOOK CUresult cuGetProcAddress(const char *symbol, void **fn, int version, uint64_t flags);
HOOK CUresult cuGetProcAddress_v2(const char *symbol, void **fn, int version, uint64_t flags,
	unsigned int *status);

CUresult cuGetProcAddress(const char *symbol, void **fn, int version, uint64_t flags)
{
	CUresult r = REAL(cuGetProcAddress)(symbol, fn, version, flags);

	if (r == CUDA_SUCCESS && fn)
		*fn = forward_ours(*fn);
	return r;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **fn, int version, uint64_t flags,
	unsigned int *status)
{
	CUresult r = REAL(cuGetProcAddress_v2)(symbol, fn, version, flags, status);

	if (r == CUDA_SUCCESS && fn)
		*fn = forward_ours(*fn);
	return r;
}
