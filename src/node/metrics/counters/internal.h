/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The built-in counters file, in the form of one. Thread: any (constant). */
#include <stddef.h>

extern const char metrics_counters_builtin[];
extern const size_t metrics_counters_builtin_len;
