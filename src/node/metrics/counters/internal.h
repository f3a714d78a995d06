/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The text of the built-in counters file. Thread: any (constant). */
#include <stddef.h>

extern const char metrics_counters_builtin[];
extern const size_t metrics_counters_builtin_len;
