/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the agent shows to others over TCP (--metrics-listen): /metrics, /api/v1, the status page. All of it is made
 * from the last view, on the web server's own thread, so the loop has nothing to do with who asks.
 *
 * A text of /metrics or of /api/v1 is made once for each view and format, however many ask for it.
 * Thread: loop, but for what web/web.h calls.
 */
#include "base/error.h"
#include "base/strv.h"
#include "core/field/field.h"
#include "metrics/metrics.h"
#include "view/view.h"
#include "web/web.h"

struct serve;

struct serve_options {
	struct web_options web; /* .listen NULL or "": nothing is served */
	struct metrics_options metrics;
};

/*
 * Reads the counters file, which must be right at start. What of it cannot be given is added to @warnings.
 * Does not listen yet.
 */
int serve_new(struct serve **ret, const struct serve_options *options, struct strv *warnings,
	struct error *err) MUST_USE;

/* Listens, if there is an address. */
int serve_start(struct serve *s, struct error *err) MUST_USE;

/* The view that is shown from now on; a reference is taken. */
void serve_show(struct serve *s, struct view *v);

/* The view that is shown; a reference, NULL: none yet. Thread: any. */
struct view *serve_view(struct serve *s);

/* Reads the counters file again if it has changed; one that is wrong is told in the log and the old one stays. */
void serve_look(struct serve *s);

/* Marks the fields that a sample is to have. */
void serve_fields(const struct serve *s, bool wanted[FIELDS_MAX]);

/* 0: nothing is served. */
unsigned serve_port(const struct serve *s);

struct serve *serve_free(struct serve *s); /* returns NULL */
