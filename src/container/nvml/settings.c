/* SPDX-License-Identifier: Apache-2.0 */

/* Settings of the whole GPU: in a slice, none of one's own. Elsewhere they pass. */
#include "container/nvml/hooks.h"
#include "container/nvml/slice.h"

/*
 * All of them take at most five words, none of them a float, so one shape passes every one on: what a
 * caller did not give is not looked at.
 */
#define SETTING(name)                                                              \
	HOOK nvmlReturn_t name(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, \
		uintptr_t e, uintptr_t f)                                          \
	{                                                                          \
		return nvml_slice_is_active() ? NVML_ERROR_NO_PERMISSION           \
					      : REAL(name)(a, b, c, d, e, f);      \
	}

SETTINGS(SETTING)
