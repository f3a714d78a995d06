/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

struct cuda_row {
	const char *name;
	unsigned long long value;
};

extern const struct cuda_row cuda_vendor[];
extern const size_t cuda_vendor_count;
