/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Selects the pod labels to write, and their names, as dcgm-exporter does. A label is written if one of the
 * regular expressions matches anywhere in its key; without expressions all labels are. '_' replaces characters
 * that a Prometheus label cannot have.
 *
 * The expressions are Go's (RE2), as far as POSIX extended expressions can say the same: classes such as \d, \w
 * and [[:alpha:]], all kinds of groups, lazy repetition (which matches the same keys), and (?i) at the beginning.
 * Others (other flags, \p, \x, \Q, \pN, classes such as [^\d]) match nothing and get a warning. So a filter never
 * accepts more than it says.
 * Thread: any, once made.
 */
#include "lib/base/error.h"
#include "lib/base/strv.h"

#include <stddef.h>

#define METRICS_LABEL_PATTERNS_MAX 64
#define METRICS_LABEL_PATTERN_MAX  512 /* bytes */

struct metrics_label_filter;

/* Skips empty patterns. Each unsupported pattern gets a line in @warnings, which may be NULL. */
int metrics_label_filter_new(struct metrics_label_filter **ret, const struct strv *patterns,
	struct strv *warnings, struct error *err) MUST_USE;
struct metrics_label_filter *metrics_label_filter_free(struct metrics_label_filter *f);
DEFINE_CLEANUP(struct metrics_label_filter *, metrics_label_filter_free)

/* Whether the pod label @key is written. */
bool metrics_label_filter_has(const struct metrics_label_filter *f, const char *key);

/* "app.kubernetes.io/name" becomes app_kubernetes_io_name. A leading digit, which Prometheus would refuse, gets a
 * '_' before it. Cut to @cap. */
void metrics_label_name(char *to, size_t cap, const char *key);
