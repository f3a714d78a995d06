/* SPDX-License-Identifier: Apache-2.0 */

/*
 * gpuslice-web with other functions in place of two of libmicrohttpd, which begin a connection as
 * TEST_WEB_ORDER defines: "dropped:8" is the first eight so, and all others in the next run. When
 * libmicrohttpd begins: at once in MHD_add_connection() (0.9.75), in its next run (1.0), later, or never.
 */
#include <dlfcn.h>
#include <microhttpd.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/parse.h"

enum order {
	NEXT_RUN,
	AS_IT_IS, /* of the installed version */
	SECOND_RUN,
	DROPPED, /* in the next run, without a word */
	REFUSED, /* by MHD_add_connection() */
	ORDER_COUNT_,
};

static const char *const names[ORDER_COUNT_] = { [NEXT_RUN] = "next-run:",
	[AS_IT_IS] = "as-it-is:",
	[SECOND_RUN] = "second-run:",
	[DROPPED] = "dropped:",
	[REFUSED] = "refused:" };

#define QUEUE_MAX 64

static struct queued {
	struct sockaddr_storage from;
	socklen_t len;
	int fd;
	enum order order;
	unsigned runs; /* since it was put here */
} queue[QUEUE_MAX];
static size_t n_queued;

/* The order of the next connection. */
static enum order next_order(void)
{
	static unsigned n;
	const char *text = getenv("TEST_WEB_ORDER");
	uint32_t first;

	n++;
	for (int o = 0; text && o < ORDER_COUNT_; o++) {
		size_t len = strlen(names[o]);

		if (!strncmp(text, names[o], len) && parse_u32(text + len, &first) &&
			n <= first)
			return (enum order)o;
	}
	return NEXT_RUN;
}

typedef enum MHD_Result (
	*add_fn)(struct MHD_Daemon *, MHD_socket, const struct sockaddr *, socklen_t);
typedef enum MHD_Result (*run_fn)(struct MHD_Daemon *);

static enum MHD_Result real_add(struct MHD_Daemon *d, int fd, const void *from, socklen_t len)
{
	add_fn add = (add_fn)dlsym(RTLD_NEXT, "MHD_add_connection");

	return add ? add(d, fd, from, len) : MHD_NO;
}

enum MHD_Result MHD_add_connection(struct MHD_Daemon *daemon, MHD_socket fd,
	const struct sockaddr *from, socklen_t len)
{
	enum order order = next_order();

	if (order == AS_IT_IS)
		return real_add(daemon, fd, from, len);
	if (order == REFUSED || n_queued == QUEUE_MAX) {
		(void)close(fd);
		return MHD_NO;
	}
	queue[n_queued] = (struct queued){ .fd = fd, .len = len, .order = order };
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

	for (size_t i = 0; i < n_queued; i++)
		if (!leave_queue(daemon, &queue[i]))
			queue[stay++] = queue[i];
	n_queued = stay;
	return run ? run(daemon) : MHD_NO;
}
