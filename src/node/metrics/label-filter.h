/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which labels of pods are written, and under which names, as dcgm-exporter does it: those whose key one of the
 * regular expressions matches anywhere (none given: all), with '_' for what a label of Prometheus cannot have.
 *
 * The expressions are Go's (RE2), as far as POSIX's extended ones say the same: classes such as \d, \w and [[:alpha:]],
 * groups of all kinds, lazy repetition (which matches the same), and (?i) at the beginning. What is left (other flags,
 * \p, \x, \Q, \pN, classes such as [^\d]) is told in a warning and matches nothing, so that a filter never lets through more
 * than it says.
 * Thread: any, once made.
 */
#include "lib/base/error.h"
#include "lib/base/strv.h"

#include <stddef.h>

#define METRICS_LABEL_PATTERNS_MAX 64
#define METRICS_LABEL_PATTERN_MAX  512 /* bytes */

struct metrics_label_filter;

/* An empty pattern is none. Each that is not understood is a line in @warnings, which may be NULL. */
int metrics_label_filter_new(struct metrics_label_filter **ret, const struct strv *patterns,
	struct strv *warnings, struct error *err) MUST_USE;
struct metrics_label_filter *metrics_label_filter_free(struct metrics_label_filter *f);
DEFINE_CLEANUP(struct metrics_label_filter *, metrics_label_filter_free)

bool metrics_label_filter_has(const struct metrics_label_filter *f, const char *key);

/* "app.kubernetes.io/name" is app_kubernetes_io_name; a digit in front, which Prometheus would refuse, gets a '_'. Cut to
 * @cap. */
void metrics_label_name(char *to, size_t cap, const char *key);
