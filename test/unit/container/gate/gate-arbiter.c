/* SPDX-License-Identifier: Apache-2.0 */
#include "gate-arbiter.h"

#include "abi/slice-dir.h"
#include "container/sys.h"
#include "lib/base/fd-pass.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/un.h>

static void must(bool ok, const char *what)
{
	if (!ok) {
		perror(what);
		abort();
	}
}

static void *sealed(size_t bytes, int *ret)
{
	int fd = memfd_create("page", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	void *p;

	must(fd >= 0 && !ftruncate(fd, (off_t)bytes), "memfd");
	must(!fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), "seal");
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	must(p != MAP_FAILED, "mmap");
	*ret = fd;
	return p;
}

static void answer(int fd, const void *packet, size_t len, int pass)
{
	(void)fd_pass_send(fd, packet, len, &pass, pass >= 0, 0);
}

static int memory_page(struct gate_arbiter *a)
{
	int fd;
	struct slice_page *p = sealed(SLICE_PAGE_BYTES, &fd);

	p->magic = SLICE_PAGE_MAGIC;
	p->version = SLICE_PAGE_VERSION;
	p->bytes = SLICE_PAGE_BYTES;
	p->gpu_count = a->gpu_count;
	p->serial = ++a->serial;
	atomic_store(&p->turns, 1);
	a->memory = p;
	return fd;
}

static int new_process_page(struct gate_arbiter *a)
{
	int bad = atomic_load(&a->bad_page), fd;
	struct turn_page *p;

	if (bad == 3)
		return -1;
	p = sealed(bad == 1 ? TURN_PAGE_BYTES / 2 : TURN_PAGE_BYTES, &fd);
	if (bad)
		return fd;
	p->magic = TURN_PAGE_MAGIC;
	p->version = TURN_PAGE_VERSION;
	p->bytes = TURN_PAGE_BYTES;
	p->gpu_count = a->gpu_count;
	p->serial = ++a->serial;
	for (uint32_t i = 0; i < a->gpu_count; i++)
		atomic_store(&p->gpus[i].gate, atomic_load(&a->start_state) | TURN_BELL);
	a->page = p;
	return fd;
}

static void on_hello(struct gate_arbiter *a, int n, const struct slice_hello *h, int passed)
{
	struct slice_welcome w = {
		.head = { SLICE_WELCOME, h->head.tag },
		.version = SLICE_WIRE_VERSION,
		.gpu_count = a->gpu_count,
	};
	int fd = a->connections[n].fd, page = -1;

	if (!(h->flags & SLICE_HELLO_TURNS)) {
		if (!(h->flags & SLICE_HELLO_AGAIN))
			page = memory_page(a);
		answer(fd, &w, sizeof(w), page);
		if (page >= 0)
			(void)close(page);
		return;
	}
	atomic_fetch_add(&a->hellos, 1);
	w.status = atomic_load(&a->refuse);
	if (!w.status && h->flags & SLICE_HELLO_AGAIN) {
		struct turn_page *p;

		must(passed >= 0, "no page came");
		p = mmap(NULL, TURN_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, passed, 0);
		must(p != MAP_FAILED && p->magic == TURN_PAGE_MAGIC, "the page that came");
		atomic_fetch_add(&a->again, 1);
		a->page = p;
		for (uint32_t i = 0; i < a->gpu_count; i++) {
			uint32_t was = atomic_load(&p->gpus[i].gate);

			while (!atomic_compare_exchange_weak(&p->gpus[i].gate, &was,
				((was & ~TURN_STATE) | atomic_load(&a->start_state)) +
					TURN_GENERATION))
				;
		}
	} else if (!w.status) {
		page = new_process_page(a);
	}
	if (!w.status) {
		memset(a->clients, 0, sizeof(a->clients));
		a->connections[n].turns = true;
		a->connected = true;
		a->last = n;
	}
	answer(fd, &w, sizeof(w), page);
	if (page >= 0)
		(void)close(page);
}

static void on_state(struct gate_arbiter *a, const struct slice_state *s)
{
	struct gate_client_state *client = &a->clients[s->gpu];
	uint32_t gate = atomic_load(&a->page->gpus[s->gpu].gate);

	must(s->gpu < a->gpu_count && s->busy <= 1 && s->wants <= 1, "a state");
	if (s->generation != gate / TURN_GENERATION) {
		client->ignored++;
		return;
	}
	client->reports++;
	client->idles += !s->busy && !s->wants;
	client->busy = s->busy;
	client->wants = s->wants;
	client->idle_ns = s->idle_ns;
}

static void on_packet(struct gate_arbiter *a, int n)
{
	union {
		struct slice_head head;
		struct slice_hello hello;
		struct slice_state state;
		char room[SLICE_PACKET_MAX];
	} packet;
	int fd, flags;
	ssize_t len = fd_pass_receive(a->connections[n].fd, &packet, sizeof(packet), &fd, 1,
		MSG_DONTWAIT, &flags);

	if (len < 0 && errno == EAGAIN)
		return;
	if (len < (ssize_t)sizeof(packet.head)) {
		(void)close(a->connections[n].fd);
		a->connections[n].fd = -1;
		if (a->connections[n].turns) {
			a->connected = a->connected && n != a->last;
			atomic_fetch_add(&a->lost, 1);
		}
		return;
	}
	if (packet.head.op == SLICE_HELLO)
		on_hello(a, n, &packet.hello, fd);
	else if (packet.head.op == SLICE_STATE && len == sizeof(packet.state))
		on_state(a, &packet.state);
	else
		abort();
	if (fd >= 0)
		(void)close(fd);
}

static void on_connect(struct gate_arbiter *a)
{
	int fd = accept4(a->listener, NULL, NULL, SOCK_CLOEXEC);

	for (int i = 0; fd >= 0 && i < GA_CONNECTIONS; i++)
		if (a->connections[i].fd < 0) {
			a->connections[i].fd = fd;
			a->connections[i].turns = false;
			return;
		}
	must(fd < 0, "room for a connection");
}

static void *serve(void *arg)
{
	struct gate_arbiter *a = arg;

	for (;;) {
		struct pollfd fds[GA_CONNECTIONS + 2];
		bool mute = atomic_load(&a->mute);

		atomic_fetch_add(&a->rounds, 1);
		pthread_mutex_lock(&a->lock);
		fds[0] = (struct pollfd){ .fd = a->stop_fd, .events = POLLIN };
		fds[1] = (struct pollfd){ .fd = mute ? -1 : a->listener, .events = POLLIN };
		for (int i = 0; i < GA_CONNECTIONS; i++)
			fds[i + 2] = (struct pollfd){
				.fd = mute ? -1 : a->connections[i].fd,
				.events = POLLIN,
			};
		pthread_mutex_unlock(&a->lock);
		(void)poll(fds, GA_CONNECTIONS + 2, 5);
		if (fds[0].revents)
			return NULL;
		pthread_mutex_lock(&a->lock);
		for (int i = 0; i < GA_CONNECTIONS; i++)
			if (fds[i + 2].fd >= 0 && fds[i + 2].revents)
				on_packet(a, i);
		if (fds[1].revents)
			on_connect(a);
		pthread_mutex_unlock(&a->lock);
	}
}

void ga_again(struct gate_arbiter *a)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };

	for (int i = 0; i < GA_CONNECTIONS; i++)
		a->connections[i].fd = -1;
	a->connected = false;
	(void)snprintf(sun.sun_path, sizeof(sun.sun_path), "%s/" SLICE_SOCKET, a->dir);
	(void)unlink(sun.sun_path);
	a->stop_fd = eventfd(0, EFD_CLOEXEC);
	a->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	must(a->stop_fd >= 0 && a->listener >= 0, "socket");
	must(!bind(a->listener, (struct sockaddr *)&sun, sizeof(sun)), sun.sun_path);
	must(!listen(a->listener, 64), "listen");
	must(!pthread_create(&a->thread, NULL, serve, a), "thread");
}

void ga_start(struct gate_arbiter *a, const char *dir, uint32_t gpus)
{
	(void)snprintf(a->dir, sizeof(a->dir), "%s", dir);
	a->gpu_count = gpus;
	must(!pthread_mutex_init(&a->lock, NULL), "mutex");
	must(!setenv(SLICE_DIR_VARIABLE, dir, 1), "setenv");
	ga_again(a);
}

void ga_mute(struct gate_arbiter *a)
{
	unsigned int rounds;

	atomic_store(&a->mute, true);
	rounds = atomic_load(&a->rounds);
	while (atomic_load(&a->rounds) - rounds < 2) /* one may have begun before */
		(void)poll(NULL, 0, 1);
}

void ga_kill(struct gate_arbiter *a)
{
	must(!eventfd_write(a->stop_fd, 1), "eventfd");
	must(!pthread_join(a->thread, NULL), "join");
	(void)close(a->stop_fd);
	(void)close(a->listener);
	for (int i = 0; i < GA_CONNECTIONS; i++)
		if (a->connections[i].fd >= 0)
			(void)close(a->connections[i].fd);
}

void ga_set_gate_only(struct gate_arbiter *a, uint32_t gpu, uint32_t state)
{
	_Atomic uint32_t *gate;
	struct gate_client_state *client = &a->clients[gpu];
	uint32_t was, now;

	pthread_mutex_lock(&a->lock);
	gate = &a->page->gpus[gpu].gate;
	was = atomic_load(gate);
	do
		now = ((was & ~TURN_STATE) | state) +
		      ((was & TURN_STATE) != state ? TURN_GENERATION : 0);
	while (!atomic_compare_exchange_weak(gate, &was, now));
	if (state != TURN_CLOSED && (was & TURN_STATE) == TURN_CLOSED && client->wants) {
		client->wants = false;
		client->busy = true;
	}
	pthread_mutex_unlock(&a->lock);
}

void ga_set_gate(struct gate_arbiter *a, uint32_t gpu, uint32_t state)
{
	ga_set_gate_only(a, gpu, state);
	if (state != TURN_CLOSED)
		sys_futex_wake(&ga_page(a, gpu)->gate, true);
}

void ga_set_throttle(struct gate_arbiter *a, uint32_t gpu, uint64_t window_ns, uint64_t tail_ns,
	uint64_t turn_ns)
{
	struct turn_gpu_page *p = ga_page(a, gpu);

	atomic_store(&p->window_ns, window_ns);
	atomic_store(&p->tail_ns, tail_ns);
	atomic_store(&p->turn_ns, turn_ns);
}

void ga_set_scheduled(struct gate_arbiter *a, bool on)
{
	pthread_mutex_lock(&a->lock);
	atomic_store(&a->memory->turns, on);
	pthread_mutex_unlock(&a->lock);
}

struct gate_client_state ga_client_state(struct gate_arbiter *a, uint32_t gpu)
{
	struct gate_client_state s;

	pthread_mutex_lock(&a->lock);
	s = a->clients[gpu];
	pthread_mutex_unlock(&a->lock);
	return s;
}

struct turn_gpu_page *ga_page(struct gate_arbiter *a, uint32_t gpu)
{
	struct turn_page *p;

	for (;;) {
		pthread_mutex_lock(&a->lock);
		p = a->page;
		pthread_mutex_unlock(&a->lock);
		if (p)
			return &p->gpus[gpu];
		(void)usleep(1000);
	}
}

bool ga_is_connected(struct gate_arbiter *a)
{
	bool r;

	pthread_mutex_lock(&a->lock);
	r = a->connected;
	pthread_mutex_unlock(&a->lock);
	return r;
}
