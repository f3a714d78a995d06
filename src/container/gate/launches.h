/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The log of launches (abi/launch-log.h), where the slice has one. Thread: any. */
#include "abi/launch-log.h"

#include <stdint.h>

/* Maps the log in @dir, for the life of the process, not of its children. NULL: @dir has none of this
 * version. */
struct launch_log *gate_launches_open(const char *dir);

/* Adds a launch of now. @kind: as of gate_begin_kind(). */
void gate_launches_add(struct launch_log *log, uintptr_t kind);
