/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/io/kubelet/rpc/rpc-env.h"

#include <malloc.h>
#include <unistd.h>

#include "lib/base/fd.h"
#include "lib/base/unix-socket.h"

/* --- unary calls --- */

static void rpc_invoke__returns_reply(void **state)
{
	struct env *e = *state;
	FRESH(struct service, s);
	FRESH(struct rpc_answer, a);
	struct rpc_client *c;
	size_t len = 3U << 20;
	uint8_t *big = malloc(len);
	size_t i;

	assert_non_null(big);
	for (i = 0; i < len; i++)
		big[i] = (uint8_t)(i * 7);
	(void)start_test_server(e, &s);
	c = dial(e);
	assert_int_equal(rpc_client_peer_pid(c), -1); /* the first call connects */
	call_and_wait(e, c, "/t.T/Echo", "hello", 5, &a);
	assert_int_equal(a.status, RPC_OK);
	assert_memory_equal(a.reply, "hello", 5);
	assert_int_equal(rpc_client_peer_pid(c), getpid());
	call_and_wait(e, c, "/t.T/Echo", "", 0, &a);
	assert_int_equal(a.status, RPC_OK);
	assert_int_equal(a.len, 0);
	call_and_wait(e, c, "/t.T/Echo", big, len, &a);
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
	FRESH(struct rpc_answer, a);
	struct rpc_client *c;

	(void)start_test_server(e, &s);
	c = dial(e);
	call_and_wait(e, c, "/t.T/Refuse", "x", 1, &a);
	assert_int_equal(a.status, RPC_UNKNOWN);
	assert_string_equal(a.text, "no device \"é\": 100 % sure\nreally");
	call_and_wait(e, c, "/t.T/Nothing", "x", 1, &a);
	assert_int_equal(a.status, RPC_UNIMPLEMENTED);
	call_and_wait(e, c, "/u.U/Echo", "x", 1, &a);
	assert_int_equal(a.status, RPC_UNIMPLEMENTED);
	assert_int_equal(s.calls, 1);
}

static void rpc_invoke__refuses_too_long(void **state)
{
	struct env *e = *state;
	FRESH(struct service, s);
	FRESH(struct rpc_answer, a);
	struct error err = ERROR_INIT;
	struct rpc_client *c;
	char *big = calloc(1, RPC_MESSAGE_MAX + 1);

	(void)start_test_server(e, &s);
	c = dial(e);
	assert_error(rpc_invoke(c, "/t.T/Echo", big, RPC_MESSAGE_MAX + 1, 1, on_done, &a, &err),
		&err, "longer than");
	assert_int_equal(err.code, ERR_LIMIT);
	call_and_wait(e, c, "/t.T/Echo", big, RPC_REQUEST_MAX + 1, &a);
	assert_int_equal(a.status, RPC_RESOURCE_EXHAUSTED);
	assert_int_equal(s.calls, 0);
	call_and_wait(e, c, "/t.T/Echo", big, RPC_REQUEST_MAX, &a);
	assert_int_equal(a.status, RPC_OK);
	assert_int_equal(s.calls, 1);
	call_and_wait(e, c, "/t.T/Big", "x", 1, &a);
	assert_int_equal(a.status, RPC_RESOURCE_EXHAUSTED);
	free(a.reply);
	free(big);
}

/* gRPC ends the oldest call of a quota that is used up, as the kubelet's stream would be. */
static void rpc_invoke__too_long_leaves_other_connections_alone(void **state)
{
	struct env *e = *state;
	FRESH(struct service, s);
	FRESH(struct watcher, w);
	struct rpc_client *other;
	char *big = calloc(1, RPC_MESSAGE_MAX);

	(void)start_test_server(e, &s);
	(void)watch(dial(e), &w);
	run(e, &w.messages, 1);
	other = dial(e);
	for (int i = 0; i < 4; i++) {
		FRESH(struct rpc_answer, a);

		call_and_wait(e, other, "/t.T/Echo", big, RPC_MESSAGE_MAX, &a);
		assert_int_not_equal(a.status, RPC_OK);
	}
	assert_int_equal(w.ends, 0);
	rpc_stream_send(s.kept[0], "1", 1);
	run(e, &w.messages, 2);
	assert_string_equal(w.last, "1");
	free(big);
}

static void rpc_invoke__ends_at_deadline(void **state)
{
	struct env *e = *state;
	FRESH(struct service, s);
	FRESH(struct rpc_answer, a);
	struct error err = ERROR_INIT;
	struct rpc_client *c;
	uint64_t begin = time_mono_ns(), took;

	(void)start_test_server(e, &s);
	c = dial(e);
	assert_ok(rpc_invoke(c, "/t.T/Keep", "x", 1, 100 * NS_PER_MS, on_done, &a, &err), &err);
	run(e, &a.n, 1);
	took = time_mono_ns() - begin;
	assert_int_equal(a.status, RPC_DEADLINE_EXCEEDED);
	assert_true(took >= 99 * NS_PER_MS && took < 3 * NS_PER_SEC);
	/* The server may answer a call that has ended. The connection is as good as before. */
	run(e, &s.n_kept, 1);
	run_for_ms(e, 50);
	rpc_reply(s.kept[0], "y", 1);
	call_and_wait(e, c, "/t.T/Echo", "z", 1, &a);
	assert_int_equal(a.status, RPC_OK);
	free(a.reply);
}

static void rpc_reply__may_come_later(void **state)
{
	struct env *e = *state;
	FRESH(struct service, s);
	FRESH(struct rpc_answer, a);
	FRESH(struct rpc_answer, b);
	struct rpc_client *c;

	(void)start_test_server(e, &s);
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
	FRESH(struct rpc_answer, a);
	FRESH(struct watcher, w);
	struct rpc_client *c;

	(void)start_test_server(e, &s);
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
	/* One of the two kept calls is the unary call, which still needs a reply. */
	rpc_reply(s.kept[0] ? s.kept[0] : s.kept[1], "late", 4);
}

static void rpc_client_close__inside_callback(void **state)
{
	struct env *e = *state;
	FRESH(struct service, s);
	FRESH(struct watcher, w);

	(void)start_test_server(e, &s);
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

	(void)start_test_server(e, &s);
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
	assert_int_equal(s.ends, 0); /* the side that ends a stream gets no callback */
}

static void rpc_stream_cancel__ends_both_sides(void **state)
{
	struct env *e = *state;
	FRESH(struct service, s);
	FRESH(struct watcher, w);
	struct rpc_stream *stream;
	struct rpc_client *c;

	(void)start_test_server(e, &s);
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

	(void)start_test_server(e, &s);
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

static void rpc_serve__survives_malformed_input(void **state)
{
	struct env *e = *state;
	FRESH(struct service, s);
	FRESH(struct rpc_answer, a);
	struct error err = ERROR_INIT;
	struct rpc_server *server = start_test_server(e, &s);
	struct rpc_client *c;
	int fd = -1, silent = -1;

	assert_ok(unix_connect(e->path, &silent, &err), &err);
	assert_ok(unix_connect(e->path, &fd, &err), &err);
	assert_ok(fd_write_all(fd, "GET / HTTP/1.1\r\n\r\n", 18, &err), &err);
	c = dial(e);
	call_and_wait(e, c, "/t.T/Echo", "x", 1, &a);
	assert_int_equal(a.status, RPC_OK);
	assert_int_equal(rpc_server_peers(server), 2); /* gRPC has thrown the other one out */
	(void)close(fd);
	(void)close(silent);
	free(a.reply);
}

#define T(f) cmocka_unit_test_setup_teardown(f, rpc_env_setup, rpc_env_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(rpc_invoke__returns_reply),
		T(rpc_invoke__returns_error_text),
		T(rpc_invoke__refuses_too_long),
		T(rpc_invoke__too_long_leaves_other_connections_alone),
		T(rpc_invoke__ends_at_deadline),
		T(rpc_reply__may_come_later),
		T(rpc_client_close__cancels),
		T(rpc_client_close__inside_callback),
		T(rpc_stream__sends_and_finishes),
		T(rpc_stream_cancel__ends_both_sides),
		T(rpc_stream_send__slow_reader_costs_one_message),
		T(rpc_serve__survives_malformed_input),
	};

	return cmocka_run_group_tests_name("rpc", tests, NULL, NULL);
}
