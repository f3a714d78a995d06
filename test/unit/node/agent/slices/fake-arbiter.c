/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/node/agent/slices/fake-arbiter.h"

#include "abi/arbiter-control.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t ends;

/* A SIGTERM from outside of the test ends the test. */
static void on_term(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)context;
	if (info->si_pid != getpid())
		_exit(1);
	ends = ends + 1;
}

unsigned fake_arbiter_ends(void)
{
	unsigned n = (unsigned)ends;

	ends = 0;
	return n;
}

static void send_to_agent(struct fake_peer *p, const char *text)
{
	CLEANUP(freep) char *copy = strdup(text);
	size_t len = strlen(text), at = 0;

	while (at < len) {
		uv_buf_t b = uv_buf_init(copy + at, (unsigned)(len - at));
		int n = uv_try_write((uv_stream_t *)&p->pipe, &b, 1);

		if (n == UV_EAGAIN) /* the socket is full until the agent reads */
			(void)uv_run(p->pipe.loop, UV_RUN_NOWAIT);
		else if (n < 0)
			return; /* the agent has closed it */
		else
			at += (size_t)n;
	}
}

static void hang_up(struct fake_peer *p)
{
	if (p->open)
		uv_close((uv_handle_t *)&p->pipe, NULL);
	p->open = false;
}

static void record_agent_line(struct fake_peer *p, const char *line)
{
	struct fake_arbiter *a = p->a;
	struct error err = ERROR_INIT;

	assert_ok(strv_add(&a->received, line, &err), &err);
	if (strstr(line, "\"readings\""))
		send_to_agent(p, "{\"op\":\"subscribed\"}\n");
	else if (strstr(line, "\"status\"") && a->answer)
		send_to_agent(p, a->answer);
}

static void on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *b)
{
	struct fake_peer *p = s->data;
	char *end;

	if (n < 0) {
		hang_up(p);
		return;
	}
	assert_true(p->len + (size_t)n < sizeof(p->in));
	memcpy(p->in + p->len, b->base, (size_t)n);
	p->len += (size_t)n;
	while ((end = memchr(p->in, '\n', p->len))) {
		*end = '\0';
		record_agent_line(p, p->in);
		p->len -= (size_t)(end + 1 - p->in);
		memmove(p->in, end + 1, p->len);
	}
}

static void on_alloc(uv_handle_t *h, size_t size, uv_buf_t *ret)
{
	struct fake_peer *p = h->data;

	(void)size;
	*ret = uv_buf_init(p->chunk, sizeof(p->chunk));
}

static void on_connection(uv_stream_t *s, int status)
{
	struct fake_arbiter *a = s->data;
	struct fake_peer *p = &a->peers[a->n_peers];

	assert_int_equal(status, 0);
	assert_true(a->n_peers < FAKE_ARBITER_PEERS);
	a->n_peers++;
	*p = (struct fake_peer){ .a = a, .open = true };
	(void)uv_pipe_init(a->loop, &p->pipe, 0);
	p->pipe.data = p;
	assert_int_equal(uv_accept(s, (uv_stream_t *)&p->pipe), 0);
	assert_int_equal(uv_read_start((uv_stream_t *)&p->pipe, on_alloc, on_read), 0);
}

void fake_arbiter_listen(struct fake_arbiter *a, uv_loop_t *loop, const char *run_dir)
{
	const struct sigaction term = { .sa_sigaction = on_term, .sa_flags = SA_SIGINFO };
	char path[108];

	assert_int_equal(sigaction(SIGTERM, &term, NULL), 0);
	(void)signal(SIGPIPE, SIG_IGN);
	assert_true((size_t)snprintf(path, sizeof(path), "%s/" CONTROL_SOCKET, run_dir) <
		    sizeof(path));
	a->loop = loop;
	(void)uv_pipe_init(loop, &a->listener, 0);
	a->listener.data = a;
	assert_int_equal(uv_pipe_bind(&a->listener, path), 0);
	assert_int_equal(uv_listen((uv_stream_t *)&a->listener, 8, on_connection), 0);
	a->listens = true;
}

void fake_arbiter_send(struct fake_arbiter *a, const char *text)
{
	assert_true(a->n_peers > 0);
	send_to_agent(&a->peers[a->n_peers - 1], text);
}

unsigned fake_arbiter_count_received(const struct fake_arbiter *a, const char *text)
{
	unsigned n = 0;

	for (size_t i = 0; i < a->received.n; i++)
		n += strstr(a->received.v[i], text) != NULL;
	return n;
}

void fake_arbiter_hang_up(struct fake_arbiter *a)
{
	assert_true(a->n_peers > 0);
	hang_up(&a->peers[a->n_peers - 1]);
}

void fake_arbiter_stop(struct fake_arbiter *a)
{
	if (a->listens)
		uv_close((uv_handle_t *)&a->listener, NULL);
	a->listens = false;
	for (size_t i = 0; i < a->n_peers; i++)
		hang_up(&a->peers[i]);
	strv_fini(&a->received);
}
