/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* How long a thread has waited for a CPU, by the scheduler's own account. Thread: any; reads a file. */
#include <stdbool.h>
#include <stdint.h>

/* @path: "/proc/self/schedstat", "/proc/PID/task/TID/schedstat". Nanoseconds since the thread began; false: unknown. */
bool schedstat_waited(const char *path, uint64_t *ret_ns);
