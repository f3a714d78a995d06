/* SPDX-License-Identifier: Apache-2.0 */
/* The answers of CUDA's functions while the driver is absent, and of functions that the driver lacks. */
#include "container/loader/internal.h"

#include "abi/cuda-api.h"

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
