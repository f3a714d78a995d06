/* SPDX-License-Identifier: Apache-2.0 */
#include "client.h"

#include "lib/base/fd-pass.h"
#include "lib/base/fd.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define ANSWER_MS 20000

int client_connect(struct slice_client *c, const char *slice_dir)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };

	if (slice_dir) {
		memset(c, 0, sizeof(*c));
		c->page_fd = c->fd = -1;
		(void)snprintf(c->path, sizeof(c->path), "%s/socket", slice_dir);
	}
	closep(&c->fd);
	if (strlen(c->path) >= sizeof(at.sun_path))
		return -1;
	memcpy(at.sun_path, c->path, strlen(c->path) + 1);
	c->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	return connect(c->fd, (const struct sockaddr *)&at, sizeof(at));
}

static int send_packet(struct slice_client *c, const void *data, size_t len, int fd)
{
	return fd_pass_send(c->fd, data, len, &fd, fd >= 0, 0) == (ssize_t)len ? 0 : -1;
}

static int receive_packet(struct slice_client *c, void *ret, size_t cap, int *fd)
{
	struct pollfd p = { .fd = c->fd, .events = POLLIN };
	int flags;
	ssize_t n;

	if (poll(&p, 1, ANSWER_MS) != 1)
		return -1;
	n = fd_pass_receive(c->fd, ret, cap, fd, fd != NULL, 0, &flags);
	return n > 0 ? (int)n : -1;
}

int client_hello(struct slice_client *c, uint32_t flags)
{
	struct slice_hello h = { .head = { .op = SLICE_HELLO, .tag = ++c->tag },
		.version = SLICE_WIRE_VERSION,
		.flags = flags,
		.pid = (uint32_t)getpid(),
		.unanswered = c->unanswered,
		.name = "client" };
	int fd = -1;

	if (send_packet(c, &h, sizeof(h), flags & SLICE_HELLO_AGAIN ? c->page_fd : -1) < 0 ||
		receive_packet(c, &c->welcome, sizeof(c->welcome), &fd) != sizeof(c->welcome))
		return -1;
	if (fd >= 0) {
		bool turns = flags & SLICE_HELLO_TURNS;
		void *at = mmap(NULL, turns ? TURN_PAGE_BYTES : SLICE_PAGE_BYTES,
			PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

		c->page_fd = fd;
		if (at == MAP_FAILED)
			return -1;
		c->page = turns ? NULL : at;
		c->turns = turns ? at : NULL;
	}
	if (c->welcome.status == SLICE_OK)
		c->unanswered = 0;
	return (int)c->welcome.status;
}

int client_reconnect(struct slice_client *c, int tries)
{
	const struct timespec ms = { .tv_nsec = 1000000 };

	while (tries-- > 0) {
		if (client_connect(c, NULL) == 0) {
			int r = client_hello(c,
				(c->turns ? SLICE_HELLO_TURNS : SLICE_HELLO_MEMORY) |
					SLICE_HELLO_AGAIN);

			if (r >= 0)
				return r;
		}
		(void)nanosleep(&ms, NULL);
	}
	return -1;
}

int client_call(struct slice_client *c, void *request, size_t len, void *ret, size_t cap)
{
	struct slice_head *head = request;

	head->tag = ++c->tag;
	if (send_packet(c, request, len, -1) < 0)
		return -1;
	return receive_packet(c, ret, cap, NULL);
}

int client_request(struct slice_client *c, unsigned int gpu, uint64_t bytes,
	uint64_t *free_bytes)
{
	struct slice_want w = { .head = { .op = SLICE_WANT }, .gpu = gpu, .bytes = bytes };
	struct slice_grant g;

	if (client_call(c, &w, sizeof(w), &g, sizeof(g)) != sizeof(g)) {
		c->unanswered = c->tag;
		return -1;
	}
	if (free_bytes)
		*free_bytes = g.free_bytes;
	return (int)g.status;
}

int client_view(struct slice_client *c, unsigned int first, struct slice_viewed *ret)
{
	struct slice_view v = { .head = { .op = SLICE_VIEW }, .first = first };

	return client_call(c, &v, sizeof(v), ret, sizeof(*ret)) == sizeof(*ret) ? 0 : -1;
}

int client_compare(struct slice_client *c, unsigned int gpu)
{
	struct slice_compare q = { .head = { .op = SLICE_COMPARE }, .gpu = gpu };
	struct slice_compared r;

	return client_call(c, &q, sizeof(q), &r, sizeof(r)) == sizeof(r) ? 0 : -1;
}

bool client_allocate(struct slice_client *c, unsigned int gpu, uint64_t bytes)
{
	struct slice_gpu_page *p = &c->page->gpus[gpu];
	uint64_t credit = atomic_load(&p->credit);
	int r;

	atomic_fetch_add(&p->begun, 1);
	while (credit >= bytes) {
		if (atomic_compare_exchange_weak(&p->credit, &credit, credit - bytes)) {
			atomic_fetch_add(&p->seen, bytes);
			atomic_fetch_add(&p->done, 1);
			return true;
		}
	}
	while ((r = client_request(c, gpu, bytes, NULL)) < 0) {
		if (client_reconnect(c, 10000) != SLICE_OK)
			break;
	}
	if (r == SLICE_OK)
		atomic_fetch_add(&p->seen, bytes);
	atomic_fetch_add(&p->done, 1);
	return r == SLICE_OK;
}

void client_free_bytes(struct slice_client *c, unsigned int gpu, uint64_t bytes)
{
	struct slice_gpu_page *p = &c->page->gpus[gpu];

	atomic_fetch_add(&p->begun, 1);
	atomic_fetch_sub(&p->seen, bytes);
	atomic_fetch_add(&p->credit, bytes);
	atomic_fetch_add(&p->done, 1);
}

int client_report_state(struct slice_client *c, unsigned int gpu, bool busy, bool wants)
{
	struct slice_state s = { .head = { .op = SLICE_STATE },
		.gpu = gpu,
		.generation = atomic_load(&c->turns->gpus[gpu].gate) / TURN_GENERATION,
		.busy = busy,
		.wants = wants };

	return send_packet(c, &s, sizeof(s), -1);
}

uint32_t client_gate(const struct slice_client *c, unsigned int gpu)
{
	return atomic_load(&c->turns->gpus[gpu].gate) & TURN_STATE;
}

static uint64_t mono_ms(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

bool client_wait_gate(const struct slice_client *c, unsigned int gpu, bool open, int ms)
{
	_Atomic uint32_t *gate = &c->turns->gpus[gpu].gate;
	/* The arbiter does not wake threads for a gate that closes. */
	const struct timespec look = { .tv_nsec = open ? 100000000 : 200000 };
	uint64_t end = mono_ms() + (uint64_t)ms;

	for (;;) {
		uint32_t now = atomic_load(gate);

		if (((now & TURN_STATE) != TURN_CLOSED) == open)
			return true;
		if (mono_ms() >= end)
			return false;
		(void)syscall(SYS_futex, gate, FUTEX_WAIT, now, &look, NULL, 0);
	}
}

void client_hang_up(struct slice_client *c)
{
	closep(&c->fd);
}

void client_close(struct slice_client *c)
{
	if (c->page)
		(void)munmap(c->page, SLICE_PAGE_BYTES);
	c->page = NULL;
	if (c->turns)
		(void)munmap(c->turns, TURN_PAGE_BYTES);
	c->turns = NULL;
	closep(&c->page_fd);
	closep(&c->fd);
}
