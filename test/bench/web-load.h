/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What remote clients do to a web server on 127.0.0.1. Each kind has a thread and addresses of its own. */
#include <stdint.h>
#include <sys/types.h>

enum web_load_kind {
	WEB_LOAD_SCRAPES, /* 50 in a second, whole */
	WEB_LOAD_SLOW,    /* 500 connections with a byte in each tenth of a second */
	WEB_LOAD_RUBBISH, /* 1000 connections in a second with random bytes */
	WEB_LOAD_STORM,   /* 10,000 connections at once, opened again when they are refused */
	WEB_LOAD_KINDS_,
};

struct web_load;

struct web_load *web_load_begin(enum web_load_kind kind, unsigned port);
/* Prints what came of it, where that is of interest. NULL is fine. */
void web_load_end(struct web_load *l);

/* This thread stays on a processor, the nth; nothing where there is one only. */
void web_load_pin(unsigned nth);

/* Processor time so far of the web server of @pid: of its thread and of its process gpuslice-web. */
uint64_t web_load_cpu_ns(pid_t pid);
