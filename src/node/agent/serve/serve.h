/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the agent shows to others over TCP (--metrics-listen): /metrics, /api/v1, the status page. All of it is made
 * from the last view, on the web thread, so the loop has nothing to do with who asks.
 *
 * A text of /metrics or of /api/v1 is made once for each view and format, however many ask for it.
 * Thread: loop, but for what io/web/web.h calls.
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
 * Reads the counters file; rows that are left out are added to @warnings. Where it cannot be read the built-in
 * counters serve, and serve_check_counters() retries. Does not listen yet. Errors: ERR_NOMEM.
 */
int serve_new(struct serve **ret, const struct serve_options *options, struct strv *warnings,
	struct error *err) MUST_USE;

/* Starts the web server, if there is an address. The server retries what fails. serve_retry() reads options again that
 * are invalid, and checks the web config file of a server that runs. */
void serve_start(struct serve *s);
void serve_retry(struct serve *s);

/* Of a server that has an address; *ret_why: the reason of WEB_DOWN, and of WEB_SERVING which file is invalid now, or
 * has changed in a way that only a restart follows. */
enum web_state serve_web_state(const struct serve *s, struct error *ret_why);

/* Whether the counters are not those that were asked for; *ret_why: why. */
bool serve_counters_down(const struct serve *s, struct error *ret_why);

/* The view that is shown from now on; a reference is taken. */
void serve_show(struct serve *s, struct view *v);

/* The view that is shown; a reference, NULL: none yet. Thread: any. */
struct view *serve_view(struct serve *s);

/* Call it now and then. Reads the counters file again if it has changed; the counters in force stay where it cannot
 * be read. */
void serve_check_counters(struct serve *s);

/*
 * Counters from elsewhere, which go before the file; @name stands in messages. Those that are wrong are told in the log,
 * and the ones before stay. @text NULL: the file's again.
 */
void serve_counters(struct serve *s, const char *name, const char *text, size_t len);

/* Marks the fields that a sample is to have. */
void serve_fields(const struct serve *s, bool wanted[FIELDS_MAX]);

/* Whether the counters file has a row from this source. */
bool serve_has_source(const struct serve *s, enum metrics_source source);

/* 0: nothing is served. */
unsigned serve_port(const struct serve *s);

/* False: nothing is served. */
bool serve_counts(const struct serve *s, struct web_counts *ret);

/* Returns NULL. A web thread that web_stop() left behind keeps the memory until it is done. */
struct serve *serve_free(struct serve *s);
