/* SPDX-License-Identifier: Apache-2.0 */

/* A libnvidia-ml.so.1 from before the _v2 names, with the needed calls alone. */
#include "abi/nvml-api.h"

#include <stdint.h>
#include <stdio.h>

nvmlReturn_t nvmlInit(void);
nvmlReturn_t nvmlDeviceGetCount(unsigned int *n);
nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *d);
nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t d, char *text, unsigned int len);
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t d, char *text, unsigned int len);

nvmlReturn_t nvmlInit(void)
{
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount(unsigned int *n)
{
	*n = 1;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *d)
{
	static char gpu;

	(void)index;
	*d = (nvmlDevice_t)&gpu;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t d, char *text, unsigned int len)
{
	(void)d;
	(void)snprintf(text, len, "Old");
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t d, char *text, unsigned int len)
{
	(void)d;
	(void)snprintf(text, len, "GPU-old");
	return NVML_SUCCESS;
}
