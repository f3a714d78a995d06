/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/io/kube-api/api-env.h"

#include "lib/base/fd.h"

#define REQUEST_MAX (256U << 10)

struct stub_conn {
	uv_tcp_t tcp;
	uv_timer_t timer; /* for the rest of a split answer */
	struct env *env;
	LIST_ENTRY(stub_conn) link;
	unsigned open_handles;
	struct buf in;
	char chunk[16384];
	char *rest;
	size_t rest_len;
	bool hang_up_then;
};

/* --- the server --- */

static void on_conn_closed(uv_handle_t *h)
{
	struct stub_conn *c = h->data;

	if (--c->open_handles > 0)
		return;
	buf_fini(&c->in);
	free(c->rest);
	free(c);
}

static void conn_close(struct stub_conn *c)
{
	if (uv_is_closing((uv_handle_t *)&c->tcp))
		return;
	LIST_REMOVE(c, link);
	uv_close((uv_handle_t *)&c->tcp, on_conn_closed);
	uv_close((uv_handle_t *)&c->timer, on_conn_closed);
}

/* Loopback accepts some hundred KiB at once; the test waits for the rest. */
static void conn_write(struct stub_conn *c, const char *data, size_t len)
{
	while (len > 0) {
		uv_buf_t b = uv_buf_init((char *)(uintptr_t)data, (unsigned)len);
		int n = uv_try_write((uv_stream_t *)&c->tcp, &b, 1);

		if (n == UV_EAGAIN) { /* the client is on this very loop: later */
			char *rest = malloc(len);

			assert_non_null(rest);
			memcpy(rest, data, len);
			free(c->rest);
			c->rest = rest;
			c->rest_len = len;
			return;
		}
		if (n < 0)
			return; /* the client disconnected */
		data += n;
		len -= (size_t)n;
	}
}

static void on_rest_timer(uv_timer_t *t)
{
	struct stub_conn *c = t->data;
	char *rest = STEAL_PTR(c->rest);

	conn_write(c, rest, c->rest_len);
	free(rest);
	if (c->rest)
		(void)uv_timer_start(&c->timer, on_rest_timer, 1, 0);
	else if (c->hang_up_then)
		conn_close(c);
}

static void run_next_step(struct stub_conn *c)
{
	struct env *e = c->env;
	const struct step *s;
	size_t len, first;

	assert_true(e->n_steps > 0);
	s = &e->steps[e->requests < e->n_steps ? e->requests : e->n_steps - 1];
	if (e->requests < STUB_REQUESTS)
		e->seen[e->requests] = strdup(buf_str(&c->in));
	e->requests++;
	if (s->expects && !strstr(buf_str(&c->in), s->expects))
		fail_msg("request %u: expected '%s' in '%s'", e->requests, s->expects,
			buf_str(&c->in));
	if (s->refuses && strstr(buf_str(&c->in), s->refuses))
		fail_msg("request %u: unexpected '%s'", e->requests, s->refuses);
	buf_clear(&c->in);
	LIST_REMOVE(c, link);
	LIST_INSERT_HEAD(&e->conns, c, link);
	if (s->before)
		s->before(e->arg);
	if (s->silent)
		return;
	if (!s->answer) {
		conn_close(c);
		return;
	}
	len = s->len ? s->len : strlen(s->answer);
	first = s->split ? s->split : len;
	conn_write(c, s->answer, first);
	c->hang_up_then = s->hang_up;
	if (first < len) {
		c->rest_len = len - first;
		c->rest = malloc(c->rest_len);
		assert_non_null(c->rest);
		memcpy(c->rest, s->answer + first, c->rest_len);
	}
	if (c->rest)
		(void)uv_timer_start(&c->timer, on_rest_timer, 1, 0);
	else if (s->hang_up)
		conn_close(c);
}

/* Headers, and the bytes of their Content-Length. */
static bool is_whole(const char *request, size_t len)
{
	const char *end = strstr(request, "\r\n\r\n");
	const char *p = strstr(request, "Content-Length: ");
	size_t body = 0;

	if (!end)
		return false;
	for (p = p && p < end ? p + 16 : ""; *p >= '0' && *p <= '9'; p++)
		body = body * 10 + (size_t)(*p - '0');
	return len >= (size_t)(end + 4 - request) + body;
}

static void on_alloc(uv_handle_t *h, size_t size, uv_buf_t *ret)
{
	struct stub_conn *c = h->data;

	(void)size;
	*ret = uv_buf_init(c->chunk, sizeof(c->chunk));
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *b)
{
	struct stub_conn *c = stream->data;

	if (n < 0) {
		conn_close(c);
		return;
	}
	buf_add(&c->in, b->base, (size_t)n);
	assert_true(buf_ok(&c->in));
	if (is_whole(buf_str(&c->in), c->in.len))
		run_next_step(c);
}

static void on_connection(uv_stream_t *listener, int status)
{
	struct env *e = listener->data;
	struct stub_conn *c = calloc(1, sizeof(*c));

	assert_int_equal(status, 0);
	assert_non_null(c);
	c->env = e;
	c->in = (struct buf)BUF_INIT(REQUEST_MAX);
	c->open_handles = 2;
	assert_int_equal(uv_tcp_init(&e->loop, &c->tcp), 0);
	assert_int_equal(uv_timer_init(&e->loop, &c->timer), 0);
	c->tcp.data = c->timer.data = c;
	assert_int_equal(uv_accept(listener, (uv_stream_t *)&c->tcp), 0);
	(void)uv_tcp_nodelay(&c->tcp, 1);
	LIST_INSERT_HEAD(&e->conns, c, link);
	e->accepted++;
	assert_int_equal(uv_read_start((uv_stream_t *)&c->tcp, on_alloc, on_read), 0);
}

void stub_listen(struct env *e)
{
	struct sockaddr_in at;
	int len = sizeof(at);

	assert_int_equal(uv_tcp_init(&e->loop, &e->listener), 0);
	e->listener.data = e;
	assert_int_equal(uv_ip4_addr("127.0.0.1", (int)e->port, &at), 0);
	assert_int_equal(uv_tcp_bind(&e->listener, (struct sockaddr *)&at, 0), 0);
	assert_int_equal(uv_listen((uv_stream_t *)&e->listener, 16, on_connection), 0);
	assert_int_equal(uv_tcp_getsockname(&e->listener, (struct sockaddr *)&at, &len), 0);
	e->port = ntohs(at.sin_port);
	e->listening = true;
}

void stub_close(struct env *e)
{
	struct stub_conn *c;

	if (e->listening)
		uv_close((uv_handle_t *)&e->listener, NULL);
	e->listening = false;
	while ((c = LIST_FIRST(&e->conns)))
		conn_close(c);
	run_for_ms(e, 1); /* the handle may be used again after this */
}

void stub_script(struct env *e, const struct step *steps, size_t n)
{
	for (size_t i = 0; i < STUB_REQUESTS; i++) {
		free(e->seen[i]);
		e->seen[i] = NULL;
	}
	e->steps = steps;
	e->n_steps = n;
	e->requests = 0;
}

void stub_send(struct env *e, const char *text)
{
	assert_non_null(LIST_FIRST(&e->conns));
	conn_write(LIST_FIRST(&e->conns), text, strlen(text));
}

void stub_send_to(struct stub_conn *c, const char *text)
{
	conn_write(c, text, strlen(text));
}

void stub_hang_up(struct env *e)
{
	assert_non_null(LIST_FIRST(&e->conns));
	conn_close(LIST_FIRST(&e->conns));
}

char *http_answer(const char *status, const char *headers, const char *body)
{
	struct buf b = BUF_INIT(API_BODY_MAX + 4096);
	char *ret;

	buf_printf(&b, "HTTP/1.1 %s\r\n%sContent-Type: application/json\r\n", status, headers);
	buf_printf(&b, "Content-Length: %zu\r\n\r\n", strlen(body));
	buf_puts(&b, body);
	ret = buf_steal(&b);
	assert_non_null(ret);
	return ret;
}

/* --- the test's side --- */

int api_env_setup(void **state)
{
	struct env *e = calloc(1, sizeof(*e));

	assert_non_null(e);
	assert_int_equal(uv_loop_init(&e->loop), 0);
	patience_init(&e->patience, &e->loop);
	LIST_INIT(&e->conns);
	e->dir = test_tmpdir();
	stub_listen(e);
	*state = e;
	return 0;
}

int api_env_teardown(void **state)
{
	struct env *e = *state;

	e->api = api_free(e->api);
	stub_close(e);
	patience_close(&e->patience);
	assert_int_equal(uv_run(&e->loop, UV_RUN_DEFAULT), 0);
	assert_int_equal(uv_loop_close(&e->loop), 0);
	stub_script(e, NULL, 0);
	test_rmdir(e->dir);
	free(e);
	return 0;
}

void api_open(struct env *e, const char *token, const char *token_file)
{
	struct api_config c = { .server = NULL };
	struct error err = ERROR_INIT;

	(void)snprintf(e->server, sizeof(e->server), "http://127.0.0.1:%u", e->port);
	c.server = strdup(e->server);
	c.source = strdup("test");
	c.token = token ? strdup(token) : NULL;
	c.token_file = token_file ? strdup(token_file) : NULL;
	assert_ok(api_new(&e->api, &e->loop, &c, "gpusliced/1.2", &err), &err);
	assert_null(c.server);
	e->api->intervals.jitter_ns = 0;
	e->api->intervals.quick_ns = 40 * NS_PER_MS;
	e->api->intervals.backoff.min_ns = 10 * NS_PER_MS;
	e->api->intervals.backoff.max_ns = 40 * NS_PER_MS;
}

void run(struct env *e, const unsigned *counter, unsigned until)
{
	patience_run(&e->patience, counter, until, 20000);
}

void run_for_ms(struct env *e, unsigned ms)
{
	patience_run_for(&e->patience, ms);
}

char *write_file(struct env *e, const char *name, const char *text)
{
	char path[512];
	struct error err = ERROR_INIT;
	char *ret;

	assert_ok(path_join(path, sizeof(path), e->dir, name, &err), &err);
	assert_ok(file_write_atomic(path, text, strlen(text), 0600, &err), &err);
	ret = strdup(path);
	assert_non_null(ret);
	return ret;
}

void on_answer(void *arg, const struct api_reply *reply, const struct error *err)
{
	struct api_answer *a = arg;
	char *text = reply->body ? json_dumps(reply->body, JSON_COMPACT) : NULL;

	a->n++;
	a->status = reply->status;
	a->retry_after_ns = reply->retry_after_ns;
	(void)snprintf(a->body, sizeof(a->body), "%s", text ? text : "");
	free(text);
	a->has_error = err != NULL;
	error_clear(&a->err);
	error_copy(&a->err, err);
	if (a->inside)
		a->inside(a);
}

void get(struct env *e, const char *path, struct api_answer *a)
{
	struct api_request req = { .method = "GET", .path = path };
	struct error err = ERROR_INIT;

	assert_ok(api_send(e->api, &req, on_answer, a, &a->call, &err), &err);
}

void fetch(struct env *e, const char *path, struct api_answer *a)
{
	unsigned before = a->n;

	get(e, path, a);
	assert_int_equal(a->n, before); /* never before the call has returned */
	run(e, &a->n, before + 1);
}
