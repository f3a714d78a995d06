/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/test.h"

#include <fcntl.h>
#include <malloc.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/parse.h"
#include "base/time.h"
#include "kube/rpc.h"
#include "kube/unix-socket.h"

/* Teardown closes what is open, so what callbacks write to must outlive the test. */
#define FRESH(type, name) \
	static type name; \
	memset(&name, 0, sizeof(name))

/* A loop, an rpc and a directory; run() turns the loop until *@flag or a time-out. */
struct env {
	uv_loop_t loop;
	uv_timer_t timer;
	bool late;
	struct rpc *rpc;
	char *dir;
	char path[108];
};

static void on_late(uv_timer_t *t)
{
	((struct env *)t->data)->late = true;
	uv_stop(t->loop);
}

static int setup(void **state)
{
	struct env *e = calloc(1, sizeof(*e));
	struct error err = ERROR_INIT;

	assert_non_null(e);
	assert_int_equal(uv_loop_init(&e->loop), 0);
	assert_int_equal(uv_timer_init(&e->loop, &e->timer), 0);
	e->timer.data = e;
	assert_ok(rpc_new(&e->rpc, &e->loop, &err), &err);
	e->dir = test_tmpdir();
	assert_ok(path_join(e->path, sizeof(e->path), e->dir, "nvidia-gpu.sock", &err), &err);
	*state = e;
	return 0;
}

static int teardown(void **state)
{
	struct env *e = *state;

	e->rpc = rpc_free(e->rpc);
	uv_close((uv_handle_t *)&e->timer, NULL);
	assert_int_equal(uv_run(&e->loop, UV_RUN_DEFAULT), 0);
	assert_int_equal(uv_loop_close(&e->loop), 0);
	test_rmdir(e->dir);
	free(e);
	return 0;
}

static void run(struct env *e, const unsigned *counter, unsigned until)
{
	e->late = false;
	(void)uv_timer_start(&e->timer, on_late, 20000, 0);
	while (*counter < until && !e->late)
		(void)uv_run(&e->loop, UV_RUN_ONCE);
	(void)uv_timer_stop(&e->timer);
	if (e->late)
		fail_msg("waited in vain for %u, have %u", until, *counter);
}

static void run_for_ms(struct env *e, unsigned ms)
{
	e->late = false;
	(void)uv_timer_start(&e->timer, on_late, ms, 0);
	while (!e->late)
		(void)uv_run(&e->loop, UV_RUN_ONCE);
}

/* --- the server that the tests talk to --- */

struct service {
	unsigned calls, ends;
	struct rpc_call *kept[4]; /* of /t.T/Keep and /t.T/Watch */
	unsigned n_kept;
	struct rpc_server *close_in_handler;
};

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

static void handle_keep(struct rpc_call *call, const uint8_t *data, size_t len, void *arg)
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

	handle_keep(call, data, len, arg);
	rpc_stream_on_end(call, on_end, s);
	rpc_stream_send(call, "0", 1);
}

static const struct rpc_method methods[] = {
	{ .path = "/t.T/Echo", .handle = handle_echo },
	{ .path = "/t.T/Refuse", .handle = handle_refuse },
	{ .path = "/t.T/Keep", .handle = handle_keep },
	{ .path = "/t.T/Big", .handle = handle_big },
	{ .path = "/t.T/Close", .handle = handle_close },
	{ .path = "/t.T/Watch", .streaming = true, .handle = handle_watch },
};

static struct rpc_server *serve(struct env *e, struct service *s)
{
	struct rpc_server *server = NULL;
	struct error err = ERROR_INIT;

	assert_ok(rpc_serve(e->rpc, e->path, methods, ARRAY_LEN(methods), s, &server, &err),
		&err);
	return server;
}

/* --- the client's side --- */

struct answer {
	unsigned n;
	enum rpc_status status;
	char text[512];
	uint8_t *reply;
	size_t len;
};

static void on_done(void *arg, enum rpc_status status, const char *text, const uint8_t *reply,
	size_t len)
{
	struct answer *a = arg;

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

static struct rpc_client *dial(struct env *e)
{
	struct rpc_client *c = NULL;
	struct error err = ERROR_INIT;

	assert_ok(rpc_dial(e->rpc, e->path, &c, &err), &err);
	return c;
}

static void invoke(struct rpc_client *c, const char *method, const void *data, size_t len,
	struct answer *a)
{
	struct error err = ERROR_INIT;

	assert_ok(rpc_invoke(c, method, data, len, 10 * NS_PER_SEC, on_done, a, &err), &err);
}

/* Asks and waits. */
static void ask(struct env *e, struct rpc_client *c, const char *method, const void *data,
	size_t len, struct answer *a)
{
	unsigned before = a->n;

	invoke(c, method, data, len, a);
	assert_int_equal(a->n, before); /* never before the call has returned */
	run(e, &a->n, before + 1);
}

struct watcher {
	unsigned messages, ends;
	enum rpc_status status;
	char last[64];
	struct rpc_client *close_at_message;
};

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

static struct rpc_stream *watch(struct rpc_client *c, struct watcher *w)
{
	struct rpc_stream *s = NULL;
	struct error err = ERROR_INIT;

	assert_ok(
		rpc_stream_open(c, "/t.T/Watch", "", 0, on_message, on_stream_end, w, &s, &err),
		&err);
	return s;
}

/* --- unary calls --- */

static void rpc_invoke__returns_reply(void **state)
{
	struct env *e = *state;
	FRESH(struct service, s);
	FRESH(struct answer, a);
	struct rpc_client *c;
	size_t len = 3U << 20;
	uint8_t *big = malloc(len);
	size_t i;

	assert_non_null(big);
	for (i = 0; i < len; i++)
		big[i] = (uint8_t)(i * 7);
	(void)serve(e, &s);
	c = dial(e);
	ask(e, c, "/t.T/Echo", "hello", 5, &a);
	assert_int_equal(a.status, RPC_OK);
	assert_memory_equal(a.reply, "hello", 5);
	ask(e, c, "/t.T/Echo", "", 0, &a);
	assert_int_equal(a.status, RPC_OK);
	assert_int_equal(a.len, 0);
	ask(e, c, "/t.T/Echo", big, len, &a);
	assert_int_equal(a.status, RPC_OK);
	assert_int_equal(a.len, len);
	assert_memory_equal(a.reply, big, len);
	free(a.reply);
	free(big);
}

static void rpc_invoke__returns_error_text(void **state)
{
	struct env *e = *state;
	FRESH(struct service, s);
	FRESH(struct answer, a);
	struct rpc_client *c;

	(void)serve(e, &s);
	c = dial(e);
	ask(e, c, "/t.T/Refuse", "x", 1, &a);
	assert_int_equal(a.status, RPC_UNKNOWN);
	assert_string_equal(a.text, "no device \"é\": 100 % sure\nreally");
	ask(e, c, "/t.T/Nothing", "x", 1, &a);
	assert_int_equal(a.status, RPC_UNIMPLEMENTED);
	ask(e, c, "/u.U/Echo", "x", 1, &a);
	assert_int_equal(a.status, RPC_UNIMPLEMENTED);
	assert_int_equal(s.calls, 1);
}

static void rpc_invoke__refuses_too_long(void **state)
{
	struct env *e = *state;
	FRESH(struct service, s);
	FRESH(struct answer, a);
	struct error err = ERROR_INIT;
	struct rpc_client *c;
	char *big = calloc(1, RPC_MESSAGE_MAX + 1);

	(void)serve(e, &s);
	c = dial(e);
	assert_error(rpc_invoke(c, "/t.T/Echo", big, RPC_MESSAGE_MAX + 1, 1, on_done, &a, &err),
		&err, "longer than");
	assert_int_equal(err.code, ERR_LIMIT);
	ask(e, c, "/t.T/Echo", big, RPC_MESSAGE_MAX, &a);
	assert_int_equal(a.status, RPC_OK);
	ask(e, c, "/t.T/Big", "x", 1, &a);
	assert_int_equal(a.status, RPC_RESOURCE_EXHAUSTED);
	free(a.reply);
	free(big);
}

static void rpc_invoke__ends_at_deadline(void **state)
{
	struct env *e = *state;
	FRESH(struct service, s);
	FRESH(struct answer, a);
	struct error err = ERROR_INIT;
	struct rpc_client *c;
	uint64_t begin = time_mono_ns(), took;

	(void)serve(e, &s);
	c = dial(e);
	assert_ok(rpc_invoke(c, "/t.T/Keep", "x", 1, 100 * NS_PER_MS, on_done, &a, &err), &err);
	run(e, &a.n, 1);
	took = time_mono_ns() - begin;
	assert_int_equal(a.status, RPC_DEADLINE_EXCEEDED);
	assert_true(took >= 99 * NS_PER_MS && took < 3 * NS_PER_SEC);
	/* The answer to nobody is allowed, and the connection is as good as before. */
	run(e, &s.n_kept, 1);
	run_for_ms(e, 50);
	rpc_reply(s.kept[0], "y", 1);
	ask(e, c, "/t.T/Echo", "z", 1, &a);
	assert_int_equal(a.status, RPC_OK);
	free(a.reply);
}

static void rpc_reply__may_come_later(void **state)
{
	struct env *e = *state;
	FRESH(struct service, s);
	FRESH(struct answer, a);
	FRESH(struct answer, b);
	struct rpc_client *c;

	(void)serve(e, &s);
	c = dial(e);
	invoke(c, "/t.T/Keep", "a", 1, &a);
	invoke(c, "/t.T/Keep", "b", 1, &b);
	run(e, &s.n_kept, 2);
	rpc_reply(s.kept[0], "one", 3);
	rpc_reply(s.kept[1], "two", 3);
	run(e, &a.n, 1);
	run(e, &b.n, 1);
	assert_int_equal(a.status, RPC_OK);
	assert_int_equal(b.status, RPC_OK);
	assert_int_equal(a.len + b.len, 6);
	free(a.reply);
	free(b.reply);
}

static void rpc_client_close__cancels(void **state)
{
	struct env *e = *state;
	FRESH(struct service, s);
	FRESH(struct answer, a);
	FRESH(struct watcher, w);
	struct rpc_client *c;

	(void)serve(e, &s);
	c = dial(e);
	invoke(c, "/t.T/Keep", "a", 1, &a);
	(void)watch(c, &w);
	run(e, &w.messages, 1);
	run(e, &s.n_kept, 2);
	rpc_client_close(c);
	assert_int_equal(a.n, 1);
	assert_int_equal(a.status, RPC_CANCELLED);
	assert_int_equal(w.ends, 1);
	assert_int_equal(w.status, RPC_CANCELLED);
	run(e, &s.ends, 1); /* the server's stream sees it */
	run_for_ms(e, 20);
	assert_int_equal(a.n, 1);
	assert_int_equal(w.ends, 1);
	/* One of the two is the unary call, which is left to answer. */
	rpc_reply(s.kept[0] ? s.kept[0] : s.kept[1], "late", 4);
}

static void rpc_client_close__inside_callback(void **state)
{
	struct env *e = *state;
	FRESH(struct service, s);
	FRESH(struct watcher, w);

	(void)serve(e, &s);
	w.close_at_message = dial(e);
	(void)watch(w.close_at_message, &w);
	run(e, &w.ends, 1);
	assert_int_equal(w.messages, 1);
	run(e, &s.ends, 1);
}

/* --- streams --- */

static void rpc_stream__sends_and_finishes(void **state)
{
	struct env *e = *state;
	FRESH(struct service, s);
	FRESH(struct watcher, w);
	FRESH(struct watcher, w2);
	struct rpc_client *c;

	(void)serve(e, &s);
	c = dial(e);
	(void)watch(c, &w);
	(void)watch(c, &w2);
	run(e, &w.messages, 1);
	run(e, &w2.messages, 1);
	rpc_stream_send(s.kept[0], "1", 1);
	run_for_ms(e, 30);
	rpc_stream_send(s.kept[0], "2", 1);
	rpc_stream_send(s.kept[0], "3", 1);
	rpc_stream_send(s.kept[0], "last", 4); /* takes the place of 3 if 2 is in flight */
	rpc_stream_finish(s.kept[0], RPC_UNAVAILABLE, "bye");
	while (w.ends + w2.ends == 0)
		(void)uv_run(&e->loop, UV_RUN_ONCE);
	assert_int_equal((w.ends ? &w : &w2)->status, RPC_UNAVAILABLE);
	assert_string_equal((w.ends ? &w : &w2)->last, "last");
	assert_int_equal(s.ends, 0); /* whoever finishes knows */
}

static void rpc_stream_cancel__ends_both_sides(void **state)
{
	struct env *e = *state;
	FRESH(struct service, s);
	FRESH(struct watcher, w);
	struct rpc_stream *stream;
	struct rpc_client *c;

	(void)serve(e, &s);
	c = dial(e);
	stream = watch(c, &w);
	run(e, &w.messages, 1);
	rpc_stream_cancel(stream);
	assert_int_equal(w.ends, 0);
	run(e, &w.ends, 1);
	assert_int_equal(w.status, RPC_CANCELLED);
	run(e, &s.ends, 1);
}

/* Frames of HTTP/2, to be a client that gRPC would not be. */
static void add_frame(struct buf *b, uint8_t type, uint8_t flags, uint32_t stream,
	const void *data, size_t len)
{
	const uint8_t head[9] = { (uint8_t)(len >> 16), (uint8_t)(len >> 8), (uint8_t)len, type,
		flags, (uint8_t)(stream >> 24), (uint8_t)(stream >> 16), (uint8_t)(stream >> 8),
		(uint8_t)stream };

	buf_add(b, head, sizeof(head));
	buf_add(b, data, len);
}

static void add_header(struct buf *b, const char *name, const char *value)
{
	buf_putc(b, 0); /* literal, not indexed, new name */
	buf_putc(b, (char)strlen(name));
	buf_puts(b, name);
	buf_putc(b, (char)strlen(value));
	buf_puts(b, value);
}

/* Connects and calls /t.T/Watch with a huge window for the connection but reads nothing. */
static int deaf_client(struct env *e)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(4096), headers = BUF_INIT(1024);
	struct error err = ERROR_INIT;
	int fd = -1;

	add_header(&headers, ":method", "POST");
	add_header(&headers, ":scheme", "http");
	add_header(&headers, ":path", "/t.T/Watch");
	add_header(&headers, ":authority", "localhost");
	add_header(&headers, "te", "trailers");
	add_header(&headers, "content-type", "application/grpc");
	buf_puts(&b, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
	add_frame(&b, 4, 0, 0, "", 0);
	add_frame(&b, 1, 4, 1, headers.data, headers.len);
	add_frame(&b, 0, 1, 1, "\0\0\0\0", 5);
	assert_true(buf_ok(&b) && buf_ok(&headers));
	assert_ok(unix_connect(e->path, &fd, &err), &err);
	assert_ok(fd_write_all(fd, b.data, b.len, &err), &err);
	return fd;
}

static void rpc_stream_send__slow_reader_costs_one_message(void **state)
{
	struct env *e = *state;
	FRESH(struct service, s);
	size_t len = 256U << 10, before, after;
	char *big = calloc(1, len);
	int fd, i;

	(void)serve(e, &s);
	fd = deaf_client(e);
	run(e, &s.n_kept, 1);
	for (i = 0; i < 20; i++) { /* fill what buffers there are */
		rpc_stream_send(s.kept[0], big, len);
		(void)uv_run(&e->loop, UV_RUN_NOWAIT);
	}
	run_for_ms(e, 50);
	before = mallinfo2().uordblks + mallinfo2().hblkhd;
	for (i = 0; i < 400; i++) {
		rpc_stream_send(s.kept[0], big, len);
		(void)uv_run(&e->loop, UV_RUN_NOWAIT);
	}
	after = mallinfo2().uordblks + mallinfo2().hblkhd;
	assert_true(after < before + 4 * len);
	free(big);
	/* The peer dies without a word. */
	(void)close(fd);
	run(e, &s.ends, 1);
}

static void rpc_serve__survives_garbage(void **state)
{
	struct env *e = *state;
	FRESH(struct service, s);
	FRESH(struct answer, a);
	struct error err = ERROR_INIT;
	struct rpc_server *server = serve(e, &s);
	struct rpc_client *c;
	int fd = -1, silent = -1;

	assert_ok(unix_connect(e->path, &silent, &err), &err);
	assert_ok(unix_connect(e->path, &fd, &err), &err);
	assert_ok(fd_write_all(fd, "GET / HTTP/1.1\r\n\r\n", 18, &err), &err);
	c = dial(e);
	ask(e, c, "/t.T/Echo", "x", 1, &a);
	assert_int_equal(a.status, RPC_OK);
	assert_int_equal(rpc_server_peers(server), 2); /* gRPC has thrown the other one out */
	(void)close(fd);
	(void)close(silent);
	free(a.reply);
}

/* --- opening and closing servers --- */

static void rpc_server_close__ends_what_is_open(void **state)
{
	struct env *e = *state;
	FRESH(struct service, s);
	FRESH(struct answer, a);
	FRESH(struct watcher, w);
	struct rpc_server *server = serve(e, &s);
	struct rpc_client *c = dial(e);

	(void)watch(c, &w);
	run(e, &w.messages, 1);
	invoke(c, "/t.T/Keep", "a", 1, &a);
	run(e, &s.n_kept, 2);
	rpc_server_close(server);
	assert_int_equal(s.ends, 1); /* at once */
	run(e, &a.n, 1);
	run(e, &w.ends, 1);
	assert_int_not_equal(a.status, RPC_OK);
	assert_int_not_equal(w.status, RPC_OK);
	assert_int_equal(access(e->path, F_OK), -1);
	run_for_ms(e, 20);
	rpc_reply_error(s.kept[1], RPC_INTERNAL, "late");

	/* Nobody there: an answer with the reason, and at once. */
	ask(e, c, "/t.T/Echo", "x", 1, &a);
	assert_int_equal(a.status, RPC_UNAVAILABLE);
	assert_non_null(strstr(a.text, "No such file"));
	(void)watch(c, &w);
	run(e, &w.ends, 2);
	assert_int_equal(w.status, RPC_UNAVAILABLE);
}

static void rpc_server_close__inside_handler(void **state)
{
	struct env *e = *state;
	FRESH(struct service, s);
	FRESH(struct answer, a);
	struct rpc_client *c;

	s.close_in_handler = serve(e, &s);
	c = dial(e);
	ask(e, c, "/t.T/Close", "x", 1, &a);
	assert_int_equal(s.calls, 1);
	free(a.reply);
}

static void rpc_free__closes_what_is_left(void **state)
{
	struct env *e = *state;
	FRESH(struct service, s);
	FRESH(struct answer, a);
	FRESH(struct watcher, w);
	struct rpc_client *c;

	(void)serve(e, &s);
	c = dial(e);
	(void)watch(c, &w);
	run(e, &w.messages, 1);
	invoke(c, "/t.T/Keep", "a", 1, &a);
	run(e, &s.n_kept, 2);
	invoke(c, "/t.T/Echo", "a", 1, &a);
	e->rpc = rpc_free(e->rpc);
	assert_int_equal(a.n, 2);
	assert_int_equal(w.ends, 1);
	assert_int_equal(s.ends, 1);
}

static void rpc_client__finds_restarted_server_at_once(void **state)
{
	struct env *e = *state;
	FRESH(struct service, s);
	FRESH(struct answer, a);
	struct rpc_server *server = serve(e, &s);
	struct rpc_client *c = dial(e);
	uint64_t begin;
	int i;

	ask(e, c, "/t.T/Echo", "1", 1, &a);
	for (i = 0; i < 5; i++) {
		rpc_server_close(server);
		ask(e, c, "/t.T/Echo", "x", 1, &a);
		assert_int_equal(a.status, RPC_UNAVAILABLE);
		server = serve(e, &s);
		begin = time_mono_ns();
		ask(e, c, "/t.T/Echo", "2", 1, &a);
		assert_int_equal(a.status, RPC_OK);
		assert_true(time_mono_ns() - begin < 500 * NS_PER_MS);
	}
	free(a.reply);
}

static void rpc_serve__refuses_path_in_use(void **state)
{
	struct env *e = *state;
	FRESH(struct service, s);
	FRESH(struct answer, a);
	struct error err = ERROR_INIT;
	struct rpc_server *other = NULL;

	(void)serve(e, &s);
	assert_error(rpc_serve(e->rpc, e->path, methods, ARRAY_LEN(methods), &s, &other, &err),
		&err, "another process serves");
	assert_int_equal(err.code, ERR_EXISTS);
	/* The attempt has done no harm. */
	ask(e, dial(e), "/t.T/Echo", "x", 1, &a);
	assert_int_equal(a.status, RPC_OK);
	free(a.reply);
}

static void rpc_serve__replaces_dead_socket_but_no_file(void **state)
{
	struct env *e = *state;
	FRESH(struct service, s);
	FRESH(struct answer, a);
	struct error err = ERROR_INIT;
	struct rpc_server *server = NULL;
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_ok(file_write_atomic(e->path, "x", 1, 0600, &err), &err);
	assert_error(rpc_serve(e->rpc, e->path, methods, ARRAY_LEN(methods), &s, &server, &err),
		&err, "no socket");
	assert_int_equal(unlink(e->path), 0);

	(void)snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", e->path);
	assert_int_equal(bind(fd, (const struct sockaddr *)&sa, sizeof(sa)), 0);
	(void)close(fd);
	(void)serve(e, &s);
	ask(e, dial(e), "/t.T/Echo", "x", 1, &a);
	assert_int_equal(a.status, RPC_OK);
	free(a.reply);
}

static void rpc_serve__refuses_long_path(void **state)
{
	struct env *e = *state;
	struct error err = ERROR_INIT;
	struct rpc_server *server = NULL;
	struct rpc_client *client = NULL;
	char path[200] = "/tmp/";

	memset(path + 5, 'x', sizeof(path) - 6);
	path[108] = '\0';
	assert_error(rpc_serve(e->rpc, path, methods, ARRAY_LEN(methods), NULL, &server, &err),
		&err, "has 108 bytes; a unix socket's path has at most 107");
	assert_int_equal(err.code, ERR_LIMIT);
	assert_error(rpc_dial(e->rpc, path, &client, &err), &err, "at most 107");
}

static void rpc_server_close__spares_newer_socket(void **state)
{
	struct env *e = *state;
	FRESH(struct service, s);
	FRESH(struct service, s2);
	FRESH(struct answer, a);
	struct rpc_server *old = serve(e, &s);

	/* Somebody deletes the file, and another server takes the name. */
	assert_int_equal(unlink(e->path), 0);
	(void)serve(e, &s2);
	rpc_server_close(old);
	run_for_ms(e, 100);
	ask(e, dial(e), "/t.T/Echo", "x", 1, &a);
	assert_int_equal(a.status, RPC_OK);
	assert_int_equal(s2.calls, 1);
	free(a.reply);
}

static void rpc_server_relisten__brings_back_deleted_socket(void **state)
{
	struct env *e = *state;
	FRESH(struct service, s);
	FRESH(struct answer, a);
	FRESH(struct watcher, w);
	struct error err = ERROR_INIT;
	struct rpc_server *server = serve(e, &s);

	(void)watch(dial(e), &w);
	run(e, &w.messages, 1);
	assert_ok(rpc_server_relisten(server, &err), &err);
	assert_int_equal(unlink(e->path), 0);
	assert_int_equal(rpc_server_relisten(server, &err), RPC_LISTENS_ANEW);
	assert_ok(rpc_server_relisten(server, &err), &err);
	ask(e, dial(e), "/t.T/Echo", "x", 1, &a);
	assert_int_equal(a.status, RPC_OK);
	/* The old connection has not suffered. */
	rpc_stream_send(s.kept[0], "still", 5);
	run(e, &w.messages, 2);
	free(a.reply);
}

static void on_hangup(void *arg, unsigned left)
{
	assert_int_equal(left, 0);
	++*(unsigned *)arg;
}

static void rpc_server_peers__counts_connections(void **state)
{
	struct env *e = *state;
	FRESH(struct service, s);
	FRESH(struct answer, a);
	struct rpc_server *server = serve(e, &s);
	struct rpc_client *c = dial(e);
	unsigned hangups = 0;

	rpc_server_on_hangup(server, on_hangup, &hangups);
	assert_int_equal(rpc_server_peers(server), 0);
	ask(e, c, "/t.T/Echo", "x", 1, &a);
	assert_int_equal(rpc_server_peers(server), 1);
	rpc_client_close(c);
	run(e, &hangups, 1);
	assert_int_equal(rpc_server_peers(server), 0);
	free(a.reply);
}

static unsigned open_fds(void)
{
	unsigned n = 0;
	int fd;

	for (fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void rpc_serve__opens_and_closes_often(void **state)
{
	struct env *e = *state;
	const char *count = getenv("RPC_TEST_CYCLES");
	uint32_t i, cycles = 1000;
	unsigned fds = 0;

	if (count)
		assert_true(parse_u32(count, &cycles));
	for (i = 0; i < cycles; i++) {
		FRESH(struct service, s);
		FRESH(struct answer, a);
		FRESH(struct watcher, w);
		struct rpc_server *server = serve(e, &s);
		struct rpc_client *c = dial(e);

		if (i % 4 == 0)
			(void)watch(c, &w);
		ask(e, c, "/t.T/Echo", "x", 1, &a);
		assert_int_equal(a.status, RPC_OK);
		if (i % 2)
			rpc_client_close(c);
		rpc_server_close(server);
		if (!(i % 2))
			rpc_client_close(c);
		free(a.reply);
		if (i == 20)
			fds = open_fds();
	}
	run_for_ms(e, 50);
	if (cycles > 20)
		assert_true(open_fds() <= fds);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(rpc_invoke__returns_reply),
		T(rpc_invoke__returns_error_text),
		T(rpc_invoke__refuses_too_long),
		T(rpc_invoke__ends_at_deadline),
		T(rpc_reply__may_come_later),
		T(rpc_client_close__cancels),
		T(rpc_client_close__inside_callback),
		T(rpc_stream__sends_and_finishes),
		T(rpc_stream_cancel__ends_both_sides),
		T(rpc_stream_send__slow_reader_costs_one_message),
		T(rpc_serve__survives_garbage),
		T(rpc_server_close__ends_what_is_open),
		T(rpc_server_close__inside_handler),
		T(rpc_free__closes_what_is_left),
		T(rpc_client__finds_restarted_server_at_once),
		T(rpc_serve__refuses_path_in_use),
		T(rpc_serve__replaces_dead_socket_but_no_file),
		T(rpc_serve__refuses_long_path),
		T(rpc_server_close__spares_newer_socket),
		T(rpc_server_relisten__brings_back_deleted_socket),
		T(rpc_server_peers__counts_connections),
		T(rpc_serve__opens_and_closes_often),
	};

	return cmocka_run_group_tests_name("rpc", tests, NULL, NULL);
}
