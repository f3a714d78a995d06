/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* For the files of this folder only. */
#include "node/agent/base/report.h"
#include "node/agent/serve/serve.h"
#include "node/agent/serve/web-config.h"
#include "node/view/json/json.h"

#include <pthread.h>

/* A text rendered from a view. Thread: web only. */
struct serve_text {
	unsigned refs;     /* the cache, and each reply in progress */
	uint64_t seq;      /* of the view */
	uint64_t counters; /* of the counters */
	char *data;
	size_t len;
};

/* Kinds of text: the two formats of /metrics, then the parts of /api/v1. */
#define SERVE_METRICS_COUNT 2
#define SERVE_TEXT_COUNT    (SERVE_METRICS_COUNT + VIEW_PART_COUNT_)

struct serve {
	struct serve_options options;
	struct web *web;
	struct metrics_xids *xids;
	struct metrics_clocks *clocks;
	struct web_config web_config; /* as at the start of .web */
	/* Why .web cannot start. After the start: why the web config file is invalid or has changed. */
	struct error web_error;
	struct error file_error; /* why the counters file could not be read */
	/* why the counters of serve_counters() are not in force; reported before .file_error */
	struct error other_error;
	bool from_other;  /* the counters in force are those of serve_counters() */
	bool file_needed; /* the file's counters are due and not read yet */

	/*
	 * Of what follows. The loop waits for it, and the web thread runs at the lowest priority: so a thread holds it
	 * to take or replace a reference, and never to render.
	 */
	pthread_mutex_t lock;
	struct view *view;
	struct metrics_counters *counters;
	uint64_t counters_seq;

	struct serve_text *texts[SERVE_TEXT_COUNT]; /* the web thread's */
};

extern const struct web_route serve_routes[];
extern const size_t serve_n_routes;

void serve_text_unref(void *text);
