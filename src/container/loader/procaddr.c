/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuGetProcAddress. The real function decides, with the caller's own arguments, which function of which version
 * and stream variant the caller gets. If that function has a hook, the caller gets the hook instead. So the
 * result is right for names, versions and flags that are newer than this library, too.
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
