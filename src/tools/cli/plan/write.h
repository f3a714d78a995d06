/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A plan's objects as files. Thread: main.
 */
#include "tools/plan/answer/answer.h"

/*
 * Writes them to @dir, which does not exist or is empty: all of them or nothing. What somebody should know goes to
 * standard error. Where something has no place nothing is written, which is no error: the plan says it.
 */
int plan_write(const struct plan_answer *a, const char *dir, struct error *err) MUST_USE;
