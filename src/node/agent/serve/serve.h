/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the agent serves over TCP (--metrics-listen): /metrics, /api/v1, the status page. The web thread makes
 * all of it from the last view, so requests cost the loop nothing.
 *
 * The web thread renders a text of /metrics or of /api/v1 once for each view and format, for any number of
 * requests.
 * Thread: loop, except functions that io/web/web.h calls.
 */
#include "lib/base/error.h"
#include "lib/base/strv.h"
#include "model/field/field.h"
#include "node/metrics/metrics.h"
#include "node/view/view.h"
#include "io/web/web.h"

struct serve;

struct serve_options {
	struct web_options web;      /* .listen NULL or "": nothing is served */
	const char *web_config_file; /* exporter-toolkit's, with a certificate; NULL: none */
	struct metrics_options metrics;
};

/*
 * Reads the counters file and adds rows that are left out to @warnings. If the file cannot be read, the built-in
 * counters serve, and serve_check_counters() retries. Does not listen yet. Errors: ERR_NOMEM.
 */
int serve_new(struct serve **ret, const struct serve_options *options, struct strv *warnings,
	struct error *err) MUST_USE;

/*
 * serve_start() starts the web server, if there is an address. The server retries what fails. serve_retry()
 * reads invalid options again, and checks the web config file of a server that runs.
 */
void serve_start(struct serve *s);
void serve_retry(struct serve *s);

/*
 * Of a server that has an address. *ret_why for WEB_DOWN: the reason. For WEB_SERVING: which file is invalid
 * now, or has a change that needs a restart.
 */
enum web_state serve_web_state(const struct serve *s, struct error *ret_why);

/* Whether the counters in force are not the requested ones. *ret_why: the reason. */
bool serve_counters_down(const struct serve *s, struct error *ret_why);

/* Serves @v from now on, and takes a reference. */
void serve_show(struct serve *s, struct view *v);

/* The view that is served, with a reference. NULL: none yet. Thread: any. */
struct view *serve_view(struct serve *s);

/*
 * Call this periodically. Reads the counters file again if it has changed. If it cannot be read, the counters in
 * force stay.
 */
void serve_check_counters(struct serve *s);

/*
 * Sets counters from elsewhere, which take precedence over the file. @name: their name in messages. Invalid
 * counters are logged, and the counters in force stay. @text NULL: the file's counters again.
 */
void serve_counters(struct serve *s, const char *name, const char *text, size_t len);

/* Marks the fields that a sample must have. */
void serve_fields(const struct serve *s, bool wanted[FIELDS_MAX]);

/* Whether the counters in force have a row from this source. */
bool serve_has_source(const struct serve *s, enum metrics_source source);

/* 0: nothing is served. */
unsigned serve_port(const struct serve *s);

/* False: nothing is served. */
bool serve_counts(const struct serve *s, struct web_counts *ret);

/* Returns NULL. A web thread that web_stop() left behind keeps the memory until it has ended. */
struct serve *serve_free(struct serve *s);
