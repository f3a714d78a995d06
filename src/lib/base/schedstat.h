/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* How long a thread has waited for a CPU, as the kernel's scheduler counts it. Thread: any; reads a file. */
#include <stdbool.h>
#include <stdint.h>

/* @path: "/proc/self/schedstat", "/proc/PID/task/TID/schedstat". In ns since the thread began; false:
 * unknown. */
bool schedstat_waited(const char *path, uint64_t *ret_ns);
