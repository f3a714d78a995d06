/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/io/kubelet/rpc/rpc-env.h"

#include "lib/base/fd.h"

int rpc_env_setup(void **state)
{
	struct env *e = calloc(1, sizeof(*e));
	struct error err = ERROR_INIT;

	assert_non_null(e);
	assert_int_equal(uv_loop_init(&e->loop), 0);
	patience_init(&e->patience, &e->loop);
	assert_ok(rpc_new(&e->rpc, &e->loop, &err), &err);
	e->dir = test_tmpdir();
	assert_ok(path_join(e->path, sizeof(e->path), e->dir, "nvidia-gpu.sock", &err), &err);
	*state = e;
	return 0;
}

int rpc_env_teardown(void **state)
{
	struct env *e = *state;

	e->rpc = rpc_free(e->rpc);
	patience_close(&e->patience);
	assert_int_equal(uv_run(&e->loop, UV_RUN_DEFAULT), 0);
	assert_int_equal(uv_loop_close(&e->loop), 0);
	test_rmdir(e->dir);
	free(e);
	return 0;
}

void run(struct env *e, const unsigned *counter, unsigned until)
{
	patience_run(&e->patience, counter, until, 20000);
}

void run_for_ms(struct env *e, unsigned ms)
{
	patience_run_for(&e->patience, ms);
}

/* --- the server that the tests talk to --- */

static void handle_echo(struct rpc_call *call, const uint8_t *data, size_t len, void *arg)
{
	((struct service *)arg)->calls++;
	rpc_reply(call, data, len);
}

static void handle_refuse(struct rpc_call *call, const uint8_t *data, size_t len, void *arg)
{
	(void)data;
	(void)len;
	((struct service *)arg)->calls++;
	rpc_reply_error(call, RPC_UNKNOWN, "no device \"é\": 100 % sure\nreally");
}

static void handle_delayed_call(struct rpc_call *call, const uint8_t *data, size_t len,
	void *arg)
{
	struct service *s = arg;

	(void)data;
	(void)len;
	s->calls++;
	assert_true(s->n_kept < ARRAY_LEN(s->kept));
	s->kept[s->n_kept++] = call;
}

static void handle_big(struct rpc_call *call, const uint8_t *data, size_t len, void *arg)
{
	char *big = calloc(1, RPC_MESSAGE_MAX + 1);

	(void)data;
	(void)len;
	(void)arg;
	rpc_reply(call, big, RPC_MESSAGE_MAX + 1);
	free(big);
}

static void handle_close(struct rpc_call *call, const uint8_t *data, size_t len, void *arg)
{
	struct service *s = arg;

	rpc_server_close(s->close_in_handler);
	s->calls++;
	rpc_reply(call, data, len);
}

static void on_end(struct rpc_call *call, void *arg)
{
	struct service *s = arg;
	unsigned i;

	s->ends++;
	for (i = 0; i < s->n_kept; i++)
		if (s->kept[i] == call)
			s->kept[i] = NULL;
}

static void handle_watch(struct rpc_call *call, const uint8_t *data, size_t len, void *arg)
{
	struct service *s = arg;

	handle_delayed_call(call, data, len, arg);
	rpc_stream_on_end(call, on_end, s);
	rpc_stream_send(call, "0", 1);
}

const struct rpc_method rpc_env_methods[] = {
	{ .path = "/t.T/Echo", .handle = handle_echo },
	{ .path = "/t.T/Refuse", .handle = handle_refuse },
	{ .path = "/t.T/Keep", .handle = handle_delayed_call },
	{ .path = "/t.T/Big", .handle = handle_big },
	{ .path = "/t.T/Close", .handle = handle_close },
	{ .path = "/t.T/Watch", .streaming = true, .handle = handle_watch },
};

const size_t rpc_env_n_methods = ARRAY_LEN(rpc_env_methods);

struct rpc_server *start_test_server(struct env *e, struct service *s)
{
	struct rpc_server *server = NULL;
	struct error err = ERROR_INIT;

	assert_ok(rpc_serve(e->rpc, e->path, rpc_env_methods, rpc_env_n_methods, s, &server,
			  &err),
		&err);
	return server;
}

/* --- the client's side --- */

void on_done(void *arg, enum rpc_status status, const char *text, const uint8_t *reply,
	size_t len)
{
	struct rpc_answer *a = arg;

	a->n++;
	a->status = status;
	(void)snprintf(a->text, sizeof(a->text), "%s", text);
	free(a->reply);
	a->reply = NULL;
	a->len = len;
	if (len > 0) {
		a->reply = malloc(len);
		assert_non_null(a->reply);
		memcpy(a->reply, reply, len);
	}
}

struct rpc_client *dial(struct env *e)
{
	struct rpc_client *c = NULL;
	struct error err = ERROR_INIT;

	assert_ok(rpc_dial(e->rpc, e->path, &c, &err), &err);
	return c;
}

void invoke(struct rpc_client *c, const char *method, const void *data, size_t len,
	struct rpc_answer *a)
{
	struct error err = ERROR_INIT;

	assert_ok(rpc_invoke(c, method, data, len, 10 * NS_PER_SEC, on_done, a, &err), &err);
}

void call_and_wait(struct env *e, struct rpc_client *c, const char *method, const void *data,
	size_t len, struct rpc_answer *a)
{
	unsigned before = a->n;

	invoke(c, method, data, len, a);
	assert_int_equal(a->n, before); /* never before the call has returned */
	run(e, &a->n, before + 1);
}

static void on_message(void *arg, const uint8_t *data, size_t len)
{
	struct watcher *w = arg;

	w->messages++;
	(void)snprintf(w->last, sizeof(w->last), "%.*s", (int)len, (const char *)data);
	if (w->close_at_message)
		rpc_client_close(w->close_at_message);
}

static void on_stream_end(void *arg, enum rpc_status status, const char *text)
{
	struct watcher *w = arg;

	(void)text;
	w->ends++;
	w->status = status;
}

struct rpc_stream *watch(struct rpc_client *c, struct watcher *w)
{
	struct rpc_stream *s = NULL;
	struct error err = ERROR_INIT;

	assert_ok(
		rpc_stream_open(c, "/t.T/Watch", "", 0, on_message, on_stream_end, w, &s, &err),
		&err);
	return s;
}
