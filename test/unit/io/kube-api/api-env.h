/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A scripted HTTP server and a client of it on one loop, for the tests of src/io/kube-api. Each request
 * takes the next step of the script, on whatever connection it comes.
 */
#include "support/test.h"

#include "lib/base/time.h"
#include "io/kube-api/api.h"
#include "io/kube-api/internal.h"
#include "support/patience.h"

#include <uv.h>

#define STUB_REQUESTS 64

struct step {
	const char *expects; /* in the request; NULL: anything */
	const char *refuses; /* not in the request; NULL: nothing */
	const char *answer;  /* raw; NULL: hang up without a word */
	size_t len;          /* of it; 0: its strlen() */
	size_t split;        /* so many bytes first, the rest a moment later; 0: all at once */
	bool hang_up;        /* after the answer */
	bool silent;         /* no answer at all */
	void (*before)(void *arg);
};

struct stub_conn;

struct env {
	uv_loop_t loop;
	struct patience patience;
	char *dir;

	uv_tcp_t listener;
	bool listening;
	unsigned port;
	const struct step *steps;
	size_t n_steps;
	void *arg;         /* of .before */
	unsigned requests; /* taken */
	unsigned accepted; /* connections */
	char *seen[STUB_REQUESTS];
	LIST_HEAD(, stub_conn) conns;

	struct api *api;
	char server[64];
};

int api_env_setup(void **state);
int api_env_teardown(void **state);

void stub_listen(struct env *e); /* on .port, 0: any */
void stub_close(struct env *e);  /* and its connections */
/* The last step is repeated for all requests after it. */
void stub_script(struct env *e, const struct step *steps, size_t n);
/* Sends to the connection of the last request, and closes it. */
void stub_send(struct env *e, const char *text);
void stub_hang_up(struct env *e);
/* Sends to a connection that was the first of .conns at its request. */
void stub_send_to(struct stub_conn *c, const char *text);
#define SCRIPT(e, ...)                                       \
	stub_script(e, (const struct step[]){ __VA_ARGS__ }, \
		ARRAY_LEN(((const struct step[]){ __VA_ARGS__ })))

/* Makes e->api for the stub, with short times. */
void api_open(struct env *e, const char *token, const char *token_file);

void run(struct env *e, const unsigned *counter, unsigned until);
void run_for_ms(struct env *e, unsigned ms);
/* dir/name, yours */
char *write_file(struct env *e, const char *name, const char *text);

/* One call and its end. */
struct api_answer {
	unsigned n;
	int status;
	uint64_t retry_after_ns;
	char body[256]; /* as compact JSON */
	bool has_error;
	struct error err;
	void (*inside)(struct api_answer *a); /* called in the callback */
	struct env *env;
	struct api_call *call, *other;
};

void on_answer(void *arg, const struct api_reply *reply, const struct error *err);
void get(struct env *e, const char *path, struct api_answer *a);   /* sends */
void fetch(struct env *e, const char *path, struct api_answer *a); /* and waits */

/* A whole answer with a length of its own; yours. */
char *http_answer(const char *status, const char *headers, const char *body);
