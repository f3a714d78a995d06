/* SPDX-License-Identifier: Apache-2.0 */

/* The numbers of nvml-layout.h as the vendor's header has them. Built only where it is installed. */
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <nvml.h>

#include "nvml-layout.h"

#define S(type, size)           { #type, sizeof(type) },
#define O(type, member, offset) { #type "." #member, offsetof(type, member) },
#define C(ours, vendor, number) { #ours, (unsigned long long)(vendor) },

const struct layout_row layout_vendor[] = { LAYOUT_SIZES(S) LAYOUT_OFFSETS(O)
		LAYOUT_CONSTANTS(C) };
const size_t layout_vendor_count = sizeof(layout_vendor) / sizeof(layout_vendor[0]);
