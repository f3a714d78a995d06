/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A reader of the two text formats that forgives nothing: it ends the test at the first line that is not as the
 * format has it. It shares no code with what writes them.
 */
#include "node/metrics/metrics.h"

/* Ends the test unless @text is right; returns how many series it has. */
size_t strict_read(const char *text, enum metrics_format format);

/* The value of the first series whose line begins with @name and has all of @labels (a list of label="value" ended by
 * NULL); NULL: there is none. Static, until the next call. */
const char *strict_find(const char *text, const char *name, const char *const *labels);

/* The sum of the values of all series of that name whose line has @label, in millionths. */
uint64_t strict_sum(const char *text, const char *name, const char *label);
