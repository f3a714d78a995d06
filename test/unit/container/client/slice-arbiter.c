/* SPDX-License-Identifier: Apache-2.0 */
#include "slice-arbiter.h"

#include "abi/slice-dir.h"
#include "lib/base/fd-pass.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

uint8_t ta_uuid[SLICE_UUID_BYTES] = { 1, 2, 3, 4, 5, 6, 7, 8 };

static void must(bool ok, const char *what)
{
	if (!ok) {
		perror(what);
		abort();
	}
}

static uint64_t random_below(struct test_arbiter *a, uint64_t n)
{
	uint64_t r = (uint64_t)rand_r(&a->seed) << 31 | (uint64_t)rand_r(&a->seed);

	return n ? r % n : 0;
}

static uint64_t sum(const struct test_arbiter *a)
{
	uint64_t n = 0;

	for (int i = 0; i < TA_PROCESSES; i++)
		n += a->processes[i].known ? a->processes[i].granted : 0;
	return n;
}

static void grant(struct ta_process *p, uint64_t used, uint64_t credit)
{
	struct slice_gpu_page *g = &p->page->gpus[0];

	p->granted += used + credit;
	atomic_fetch_add(&g->seq, 1);
	atomic_store(&g->granted, p->granted);
	atomic_fetch_add(&g->credit, credit);
	atomic_fetch_add(&g->seq, 1);
}

static uint64_t reclaim(struct ta_process *p, uint64_t bytes)
{
	struct slice_gpu_page *g = &p->page->gpus[0];
	uint64_t credit = atomic_load(&g->credit), n;

	do
		n = credit < bytes ? credit : bytes;
	while (n && !atomic_compare_exchange_weak(&g->credit, &credit, credit - n));
	atomic_fetch_add(&g->seq, 1);
	p->granted -= n;
	atomic_store(&g->granted, p->granted);
	atomic_fetch_add(&g->seq, 1);
	return n;
}

static void be_unkind(struct test_arbiter *a)
{
	for (int i = 0; i < TA_PROCESSES; i++) {
		struct ta_process *p = &a->processes[i];
		uint64_t room = a->limit - sum(a);

		if (!p->known || !p->page)
			continue;
		if (random_below(a, 2))
			(void)reclaim(p, random_below(a, UINT64_C(64) << 20));
		else if (random_below(a, 4) == 0)
			grant(p, 0, random_below(a, room < (64 << 20) ? room : 64 << 20));
	}
}

static int new_page(struct test_arbiter *a, struct ta_process *p)
{
	enum ta_page kind = atomic_load(&a->page);
	int fd = memfd_create("page", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct slice_page *page;

	must(fd >= 0 && !ftruncate(fd, kind == TA_PAGE_SHORT ? 2048 : SLICE_PAGE_BYTES),
		"memfd");
	if (kind != TA_PAGE_UNSEALED)
		must(!fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL),
			"seal");
	page = mmap(NULL, SLICE_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	must(page != MAP_FAILED, "mmap");
	if (kind != TA_PAGE_SHORT) {
		page->magic = kind == TA_PAGE_MAGIC ? 7 : SLICE_PAGE_MAGIC;
		page->version = SLICE_PAGE_VERSION;
		page->bytes = SLICE_PAGE_BYTES;
		page->gpu_count = 1;
		page->serial = ++a->serial;
		memcpy(page->gpus[0].uuid, ta_uuid, sizeof(ta_uuid));
		atomic_store(&page->gpus[0].limit, a->limit);
		atomic_store(&page->gpus[0].alone, atomic_load(&a->alone));
	}
	p->page = page;
	p->page_fd = fd;
	return fd;
}

static void answer(int fd, const void *packet, size_t len, int pass)
{
	(void)fd_pass_send(fd, packet, len, &pass, pass >= 0, 0);
}

static void on_hello(struct test_arbiter *a, struct ta_process *p, const struct slice_hello *h,
	int fd)
{
	struct slice_welcome w = {
		.head = { SLICE_WELCOME, h->head.tag },
		.version = SLICE_WIRE_VERSION,
		.status = atomic_load(&a->status),
		.gpu_count = 1,
		.slice = "0123",
		.reason = "because",
	};
	int pass = -1;

	memcpy(w.gpus[0].uuid, ta_uuid, sizeof(ta_uuid));
	w.gpus[0].limit = a->limit;
	atomic_fetch_add(&a->hellos, 1);
	if (w.status == SLICE_OK && h->flags & SLICE_HELLO_AGAIN) {
		struct ta_process *old = NULL;

		atomic_fetch_add(&a->again, 1);
		for (int i = 0; i < TA_PROCESSES; i++)
			if (&a->processes[i] != p && a->processes[i].known &&
				a->processes[i].pid == p->pid)
				old = &a->processes[i];
		if (!old || fd < 0) {
			w.status = SLICE_REFUSED;
		} else {
			old->fd = p->fd;
			p->known = false;
			if (h->unanswered && h->unanswered == old->want_tag) {
				struct slice_gpu_page *g = &old->page->gpus[0];

				atomic_fetch_add(&g->credit, old->want_bytes);
				old->want_tag = 0;
			}
			p = old;
		}
	} else if (w.status == SLICE_OK && h->flags & SLICE_HELLO_MEMORY) {
		pass = new_page(a, p);
		if (atomic_load(&a->page) == TA_PAGE_NONE)
			pass = -1;
	}
	answer(p->fd, &w, sizeof(w), pass);
}

static void on_want(struct test_arbiter *a, struct ta_process *p, const struct slice_want *q)
{
	struct slice_grant g = { .head = { SLICE_GRANT, q->head.tag },
		.status = SLICE_NO_ROOM };
	uint64_t extra;

	atomic_fetch_add(&a->wants, 1);
	for (int i = 0; i < TA_PROCESSES && a->limit - sum(a) < q->bytes; i++)
		if (a->processes[i].known && a->processes[i].page)
			(void)reclaim(&a->processes[i], q->bytes - (a->limit - sum(a)));
	if (a->limit - sum(a) >= q->bytes) {
		uint64_t left = a->limit - sum(a) - q->bytes;

		extra = atomic_load(&a->generous) ? left : 0;
		if (atomic_load(&a->unkind))
			extra = random_below(a, left < (64 << 20) ? left : 64 << 20);
		grant(p, q->bytes, extra);
		g.status = SLICE_OK;
		p->want_tag = q->head.tag;
		p->want_bytes = q->bytes;
	}
	g.free_bytes = a->limit - sum(a);
	if (atomic_load(&a->hang_up_at) && atomic_fetch_sub(&a->hang_up_at, 1) == 1) {
		(void)close(p->fd);
		p->fd = -1;
		return;
	}
	answer(p->fd, &g, sizeof(g), -1);
}

static void on_view(struct test_arbiter *a, struct ta_process *p, const struct slice_head *h)
{
	struct slice_viewed v = { .head = { SLICE_VIEWED, h->tag }, .gpu_count = 1 };

	atomic_fetch_add(&a->views, 1);
	v.gpus[0].limit = a->limit;
	for (int i = 0; i < TA_PROCESSES; i++)
		if (a->processes[i].known && a->processes[i].page)
			v.gpus[0].used += a->processes[i].granted -
					  atomic_load(&a->processes[i].page->gpus[0].credit);
	answer(p->fd, &v, sizeof(v), -1);
}

static void on_packet(struct test_arbiter *a, struct ta_process *p)
{
	union {
		struct slice_head head;
		struct slice_hello hello;
		struct slice_want want;
		char room[SLICE_PACKET_MAX];
	} packet;
	struct slice_compared compared;
	int fd, flags;
	ssize_t n =
		fd_pass_receive(p->fd, &packet, sizeof(packet), &fd, 1, MSG_DONTWAIT, &flags);

	if (n < 0 && errno == EAGAIN)
		return;
	if (n < (ssize_t)sizeof(packet.head)) {
		(void)close(p->fd);
		p->fd = -1;
		p->known = p->known && p->page;
		return;
	}
	switch (packet.head.op) {
	case SLICE_HELLO:
		/* It was killed, and reaped, before it came to be read. */
		if (kill(p->pid, 0) && errno == ESRCH) {
			(void)close(p->fd);
			p->known = false;
			break;
		}
		on_hello(a, p, &packet.hello, fd);
		break;
	case SLICE_WANT:
		on_want(a, p, &packet.want);
		break;
	case SLICE_VIEW:
		on_view(a, p, &packet.head);
		break;
	case SLICE_COMPARE:
		atomic_fetch_add(&a->compares, 1);
		compared.head = (struct slice_head){ SLICE_COMPARED, packet.head.tag };
		answer(p->fd, &compared, sizeof(compared), -1);
		break;
	default:
		abort();
	}
	if (fd >= 0)
		(void)close(fd);
}

static void on_connect(struct test_arbiter *a)
{
	int fd = accept4(a->listener, NULL, NULL, SOCK_CLOEXEC);
	struct ucred who;
	socklen_t len = sizeof(who);

	if (fd < 0)
		return;
	must(!getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len), "peercred");
	for (int i = 0; i < TA_PROCESSES; i++) {
		if (a->processes[i].known)
			continue;
		a->processes[i] = (struct ta_process){ .known = true,
			.fd = fd,
			.pid = who.pid,
			.page_fd = -1 };
		return;
	}
	abort();
}

static void start_listening(struct test_arbiter *a)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };

	(void)snprintf(sun.sun_path, sizeof(sun.sun_path), "%s/" SLICE_SOCKET, a->dir);
	(void)unlink(sun.sun_path);
	a->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	must(a->listener >= 0, "socket");
	must(!bind(a->listener, (struct sockaddr *)&sun, sizeof(sun)), sun.sun_path);
	must(!listen(a->listener, 64), "listen");
}

static void hang_up(struct test_arbiter *a)
{
	(void)close(a->listener);
	for (int i = 0; i < TA_PROCESSES; i++) {
		if (a->processes[i].known && a->processes[i].fd >= 0)
			(void)close(a->processes[i].fd);
		a->processes[i].fd = -1;
	}
}

static void do_as_told(struct test_arbiter *a)
{
	int ms = atomic_load(&a->restart_ms);

	if (atomic_load(&a->unkind))
		be_unkind(a);
	if (atomic_load(&a->take_all)) {
		for (int i = 0; i < TA_PROCESSES; i++)
			if (a->processes[i].known && a->processes[i].page)
				(void)reclaim(&a->processes[i], UINT64_MAX);
		atomic_store(&a->take_all, false);
	}
	if (ms) {
		hang_up(a);
		(void)poll(NULL, 0, ms);
		start_listening(a);
		atomic_store(&a->restart_ms, 0);
	}
}

static void *serve(void *arg)
{
	struct test_arbiter *a = arg;

	for (;;) {
		struct pollfd fds[TA_PROCESSES + 2];
		bool mute = atomic_load(&a->mute);

		atomic_fetch_add(&a->rounds, 1);
		pthread_mutex_lock(&a->lock);
		fds[0] = (struct pollfd){ .fd = a->stop_fd, .events = POLLIN };
		fds[1] = (struct pollfd){ .fd = mute ? -1 : a->listener, .events = POLLIN };
		for (int i = 0; i < TA_PROCESSES; i++)
			fds[i + 2] = (struct pollfd){
				.fd = a->processes[i].known && !mute ? a->processes[i].fd : -1,
				.events = POLLIN,
			};
		pthread_mutex_unlock(&a->lock);
		(void)poll(fds, TA_PROCESSES + 2, atomic_load(&a->unkind) ? 0 : 2);
		if (fds[0].revents)
			return NULL;
		pthread_mutex_lock(&a->lock);
		for (int i = 0; i < TA_PROCESSES; i++)
			if (fds[i + 2].fd >= 0 && fds[i + 2].revents && a->processes[i].known &&
				a->processes[i].fd == fds[i + 2].fd)
				on_packet(a, &a->processes[i]);
		if (fds[1].revents)
			on_connect(a);
		do_as_told(a);
		pthread_mutex_unlock(&a->lock);
	}
}

struct test_arbiter *ta_new(void)
{
	void *p = mmap(NULL, sizeof(struct test_arbiter), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	must(p != MAP_FAILED, "mmap");
	return p;
}

void ta_start(struct test_arbiter *a, const char *dir, uint64_t limit)
{
	memset(a, 0, sizeof(*a));
	(void)snprintf(a->dir, sizeof(a->dir), "%s", dir);
	a->limit = limit;
	a->seed = 1;
	must(!pthread_mutex_init(&a->lock, NULL), "mutex");
	must(!setenv(SLICE_DIR_VARIABLE, dir, 1), "setenv");
	a->stop_fd = eventfd(0, EFD_CLOEXEC);
	must(a->stop_fd >= 0, "eventfd");
	start_listening(a);
	must(!pthread_create(&a->thread, NULL, serve, a), "thread");
}

void ta_mute(struct test_arbiter *a)
{
	int rounds;

	atomic_store(&a->mute, true);
	rounds = atomic_load(&a->rounds);
	while (atomic_load(&a->rounds) - rounds < 2) /* one may have begun before */
		(void)poll(NULL, 0, 1);
}

static void forget(struct ta_process *p)
{
	if (p->page) {
		(void)munmap(p->page, SLICE_PAGE_BYTES);
		(void)close(p->page_fd);
	}
	if (p->fd >= 0)
		(void)close(p->fd);
	memset(p, 0, sizeof(*p));
}

void ta_fini(struct test_arbiter *a)
{
	must(!eventfd_write(a->stop_fd, 1), "eventfd");
	must(!pthread_join(a->thread, NULL), "join");
	(void)close(a->stop_fd);
	hang_up(a);
	for (int i = 0; i < TA_PROCESSES; i++)
		if (a->processes[i].known)
			forget(&a->processes[i]);
	(void)unsetenv(SLICE_DIR_VARIABLE);
}

void ta_reap(struct test_arbiter *a, pid_t pid,
	void (*check)(const struct ta_process *p, void *arg), void *arg)
{
	pthread_mutex_lock(&a->lock);
	for (int i = 0; i < TA_PROCESSES; i++) {
		struct ta_process *p = &a->processes[i];

		if (!p->known || p->pid != pid)
			continue;
		if (check && p->page)
			check(p, arg);
		forget(p);
	}
	pthread_mutex_unlock(&a->lock);
}

uint64_t ta_granted_sum(struct test_arbiter *a)
{
	uint64_t n;

	pthread_mutex_lock(&a->lock);
	n = sum(a);
	pthread_mutex_unlock(&a->lock);
	return n;
}
