/* SPDX-License-Identifier: Apache-2.0 */
#include "container/nvml/hooks.h"
#include "container/nvml/slice.h"

/* After it the driver may hand out the same handles for other GPUs. */
HOOK nvmlReturn_t nvmlShutdown(void)
{
	nvml_slice_forget_handles();
	return REAL(nvmlShutdown)();
}
