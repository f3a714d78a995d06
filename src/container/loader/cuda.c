/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What stands in for CUDA's library alone.
 *
 * Absent. The answers of functions while the driver is absent, and of functions that the driver lacks.
 *
 * cuGetProcAddress. The real function decides, with the caller's own arguments, which function of which version
 * and stream variant the caller gets. If that function has a hook, the caller gets the hook instead. So the
 * result is right for names, versions and flags that are newer than this library, too.
 */
#include "container/loader/internal.h"

#include "abi/cuda-api.h"

/* --- absent --- */

const char forward_prefix[] = "cu";

static CUresult no_device(void)
{
	return CUDA_ERROR_NO_DEVICE;
}

static CUresult answer_cuda_not_found(void)
{
	return CUDA_ERROR_NOT_FOUND;
}

/* Programs print the string of these two without a check of the result. */
static CUresult answer_cuda_error_string(CUresult error, const char **text)
{
	*text = error == CUDA_ERROR_NO_DEVICE ? "no CUDA-capable device is detected" : NULL;
	return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult error_name(CUresult error, const char **name)
{
	*name = error == CUDA_ERROR_NO_DEVICE ? "CUDA_ERROR_NO_DEVICE" : NULL;
	return *name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

void *forward_answer(const char *name, bool absent)
{
	if (!absent)
		return (void *)answer_cuda_not_found;
	if (strcmp(name, "cuGetErrorString") == 0)
		return (void *)answer_cuda_error_string;
	if (strcmp(name, "cuGetErrorName") == 0)
		return (void *)error_name;
	return (void *)no_device;
}

/* --- cuGetProcAddress --- */

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
