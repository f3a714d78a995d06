/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The log of launches (abi/launch-log.h), where the slice has one. Thread: any. */
#include "abi/launch-log.h"

/* NULL: @dir has none of this version. Mapped for the life of the process, not of its children. */
struct launch_log *launches_open(const char *dir);

/* @kind: as of gate_begin_kind(). */
void launches_add(struct launch_log *log, uintptr_t kind);
