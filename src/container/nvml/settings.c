/* SPDX-License-Identifier: Apache-2.0 */

/* Settings of the whole GPU: in a slice they return NVML_ERROR_NO_PERMISSION. Elsewhere they pass through. */
#include "container/nvml/hooks.h"
#include "container/nvml/slice.h"

/*
 * Each of these functions takes at most five words and no float, so one signature forwards all of them. The real
 * function ignores words that the caller did not pass.
 */
#define SETTING(name)                                                              \
	HOOK nvmlReturn_t name(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, \
		uintptr_t e, uintptr_t f)                                          \
	{                                                                          \
		return nvml_slice_is_active() ? NVML_ERROR_NO_PERMISSION           \
					      : REAL(name)(a, b, c, d, e, f);      \
	}

SETTINGS(SETTING)
