/* SPDX-License-Identifier: Apache-2.0 */
#include "container/nvml/hooks.h"
#include "container/nvml/slice.h"

/* After nvmlShutdown() the driver may use the same handles for other GPUs. */
HOOK nvmlReturn_t nvmlShutdown(void)
{
	nvml_slice_forget_handles();
	return REAL(nvmlShutdown)();
}
