/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/web/web-env.h"

#include <dlfcn.h>
#include <microhttpd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"

/*
 * When libmicrohttpd begins with a connection: at once in MHD_add_connection() (0.9.75), in its next
 * run (1.0), later, or never. Its two functions are replaced here by ones that do each of them.
 */
enum order {
	AS_IT_IS, /* of the installed version */
	NEXT_RUN,
	SECOND_RUN,
	DROPPED, /* in the next run, without a word */
	REFUSED, /* by MHD_add_connection() */
};

static atomic_int order;

#define QUEUE_MAX 64

/* Of the web thread. */
static struct queued {
	struct sockaddr_storage from;
	socklen_t len;
	int fd;
	enum order order;
	unsigned runs; /* since it was put here */
} queue[QUEUE_MAX];
static size_t n_queued;

typedef enum MHD_Result (
	*add_fn)(struct MHD_Daemon *, MHD_socket, const struct sockaddr *, socklen_t);
typedef enum MHD_Result (*run_fn)(struct MHD_Daemon *);

static enum MHD_Result real_add(struct MHD_Daemon *d, int fd, const void *from, socklen_t len)
{
	add_fn add = (add_fn)dlsym(RTLD_NEXT, "MHD_add_connection");

	assert_non_null(add);
	return add(d, fd, from, len);
}

enum MHD_Result MHD_add_connection(struct MHD_Daemon *daemon, MHD_socket fd,
	const struct sockaddr *from, socklen_t len)
{
	enum order how = (enum order)atomic_load(&order);

	if (how == AS_IT_IS)
		return real_add(daemon, fd, from, len);
	if (how == REFUSED || n_queued == QUEUE_MAX) {
		(void)close(fd);
		return MHD_NO;
	}
	queue[n_queued] = (struct queued){ .fd = fd, .len = len, .order = how };
	memcpy(&queue[n_queued++].from, from, len);
	return MHD_YES;
}

/* True: it is out of the queue. */
static bool leave_queue(struct MHD_Daemon *daemon, struct queued *q)
{
	if (q->order == SECOND_RUN && q->runs++ == 0)
		return false;
	if (q->order == DROPPED)
		(void)close(q->fd);
	else
		(void)real_add(daemon, q->fd, &q->from, q->len);
	return true;
}

enum MHD_Result MHD_run(struct MHD_Daemon *daemon)
{
	run_fn run = (run_fn)dlsym(RTLD_NEXT, "MHD_run");
	size_t stay = 0;

	assert_non_null(run);
	for (size_t i = 0; i < n_queued; i++)
		if (!leave_queue(daemon, &queue[i]))
			queue[stay++] = queue[i];
	n_queued = stay;
	return run(daemon);
}

static int setup(void **state)
{
	struct web_env *e = malloc(sizeof(*e));

	assert_non_null(e);
	web_env_init(e);
	atomic_store(&order, AS_IT_IS);
	*state = e;
	return 0;
}

static int teardown(void **state)
{
	struct web_env *e = *state;

	web_env_fini(e);
	free(e);
	return 0;
}

static void web__serves_whenever_libmicrohttpd_begins(void **state)
{
	static const char request[] = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
	static const enum order rows[] = { AS_IT_IS, NEXT_RUN };
	CLEANUP(buf_fini) struct buf b = BUF_INIT(REPLY_MAX);
	struct web_env *e = *state;

	web_env_start(e);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(closep) int kept = -1;

		atomic_store(&order, rows[i]);
		kept = web_connect(e);
		for (int n = 0; n < 3; n++) {
			web_say(kept, request);
			web_read_reply(kept, false, &b);
			assert_int_equal(web_status_of(&b), 200);
			web_expect(e, GET("/healthz"), 200);
		}
		web_wait_count(e, open, 1);
		closep(&kept);
		web_wait_count(e, open, 0);
	}
	assert_int_equal(web_counts(e->web).malformed, 0);
}

#define FEW 4

/* At the limit of connections as well: what libmicrohttpd has not begun with counts. */
static void web__counts_connections_that_wait_to_begin(void **state)
{
	struct web_env *e = *state;
	int fds[3 * FEW];

	e->options.limits.connections = FEW;
	web_env_start(e);
	atomic_store(&order, NEXT_RUN);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		fds[i] = web_connect(e);
	web_wait_count(e, displaced, ARRAY_LEN(fds) - FEW);
	web_wait_count(e, open, FEW);
	web_expect(e, GET("/metrics"), 200);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		closep(&fds[i]);
	web_wait_count(e, open, 0);
}

static void web__gives_up_connections_that_never_begin(void **state)
{
	static const enum order rows[] = { DROPPED, REFUSED, SECOND_RUN };
	struct web_env *e = *state;

	e->options.limits.connections = FEW;
	web_env_start(e);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		atomic_store(&order, rows[i]);
		for (int n = 0; n < 2 * FEW; n++) {
			CLEANUP(closep) int fd = web_connect(e);

			web_wait_closed(fd);
		}
		web_wait_count(e, open, 0);
		/* Their descriptors' numbers are those of the next. */
		atomic_store(&order, NEXT_RUN);
		for (int n = 0; n < 2 * FEW; n++)
			web_expect(e, GET("/metrics"), 200);
		web_wait_count(e, open, 0);
	}
	assert_int_equal(web_counts(e->web).displaced, 0);
	assert_int_equal(web_counts(e->web).refused_full, 0);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(web__serves_whenever_libmicrohttpd_begins),
		TEST(web__counts_connections_that_wait_to_begin),
		TEST(web__gives_up_connections_that_never_begin),
	};

	return cmocka_run_group_tests_name("web-order", tests, NULL, NULL);
}
