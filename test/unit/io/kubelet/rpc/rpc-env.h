/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the tests of the rpc layer share: a loop with a time-out, a server with a method for each
 * way to answer, and clients that record their answers. Teardown closes all connections, so what
 * callbacks write to must outlive the test: FRESH().
 */
#include "support/test.h"

#include "lib/base/time.h"
#include "io/kubelet/rpc/rpc.h"
#include "support/patience.h"

#define FRESH(type, name) \
	static type name; \
	memset(&name, 0, sizeof(name))

struct env {
	uv_loop_t loop;
	struct patience patience;
	struct rpc *rpc;
	char *dir;
	char path[108]; /* of the server's socket */
};

int rpc_env_setup(void **state);
int rpc_env_teardown(void **state);

/* Runs the loop until *@counter has come to @until; fails after 20 seconds. */
void run(struct env *e, const unsigned *counter, unsigned until);
void run_for_ms(struct env *e, unsigned ms);

/* The methods: /t.T/Echo, Refuse (with a text), Keep (answers nothing), Big (answers too much),
 * Close (closes the server, then answers), Watch (a stream that begins with "0"). */
extern const struct rpc_method rpc_env_methods[];
extern const size_t rpc_env_n_methods;

struct service {
	unsigned calls, ends;
	struct rpc_call *kept[4]; /* of Keep and Watch; NULL after the stream's end */
	unsigned n_kept;
	struct rpc_server *close_in_handler;
};

struct rpc_server *start_test_server(struct env *e, struct service *s);

struct rpc_answer {
	unsigned n;
	enum rpc_status status;
	char text[512];
	uint8_t *reply; /* the test's to free */
	size_t len;
};

void on_done(void *arg, enum rpc_status status, const char *text, const uint8_t *reply,
	size_t len);
struct rpc_client *dial(struct env *e);
void invoke(struct rpc_client *c, const char *method, const void *data, size_t len,
	struct rpc_answer *a);

/* Asks and waits. */
void call_and_wait(struct env *e, struct rpc_client *c, const char *method, const void *data,
	size_t len, struct rpc_answer *a);

struct watcher {
	unsigned messages, ends;
	enum rpc_status status;
	char last[64];
	struct rpc_client *close_at_message;
};

struct rpc_stream *watch(struct rpc_client *c, struct watcher *w);
