/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Writes a plan's objects as files. Thread: main.
 */
#include "tools/plan/answer/answer.h"

/*
 * Writes all objects to @dir, or none. @dir must be empty or must not exist. Warnings go to standard
 * error. If a workload has no place, nothing is written and the result is 0: the plan reports it.
 */
int plan_write(const struct plan_answer *a, const char *dir, struct error *err) MUST_USE;
