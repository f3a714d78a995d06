/* SPDX-License-Identifier: Apache-2.0 */
#include "slice-arbiter.h"

#include "abi/slice-dir.h"
#include "lib/base/fd-pass.h"
#include "container/sys.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/un.h>

uint8_t slice_arbiter_uuid[SLICE_UUID_BYTES] = { 1, 2, 3, 4, 5, 6, 7, 8 };

union packet {
	struct slice_head head;
	struct slice_hello hello;
	struct slice_want want;
	struct slice_view view;
	struct slice_compare compare;
	struct slice_state state;
	char room[SLICE_PACKET_MAX];
};

static void die_unless(bool ok, const char *what)
{
	if (!ok) {
		perror(what);
		abort();
	}
}

static uint64_t random_below(struct slice_arbiter *a, uint64_t n)
{
	uint64_t r = (uint64_t)rand_r(&a->seed) << 31 | (uint64_t)rand_r(&a->seed);

	return n ? r % n : 0;
}

/* --- packets --- */

/* @pass: a descriptor to send along, or -1. A disconnected peer does not matter. */
static void send_answer(int fd, const void *packet, size_t len, int pass)
{
	(void)fd_pass_send(fd, packet, len, &pass, pass >= 0, 0);
}

/* Returns what recvmsg() returns. @passed: the descriptor that came along, or -1. */
static ssize_t receive_packet(int fd, union packet *ret, int *passed)
{
	int flags;

	return fd_pass_receive(fd, ret, sizeof(*ret), passed, 1, MSG_DONTWAIT, &flags);
}

/* --- memory --- */

static uint64_t sum_granted(const struct slice_arbiter *a)
{
	uint64_t n = 0;

	for (int i = 0; i < SLICE_ARBITER_PROCESSES; i++)
		n += a->processes[i].known ? a->processes[i].granted : 0;
	return n;
}

static void grant_bytes(struct slice_arbiter_process *p, uint64_t used, uint64_t credit)
{
	struct slice_gpu_page *g = &p->page->gpus[0];

	p->granted += used + credit;
	atomic_fetch_add(&g->seq, 1);
	atomic_store(&g->granted, p->granted);
	atomic_fetch_add(&g->credit, credit);
	atomic_fetch_add(&g->seq, 1);
}

static uint64_t take_credit_back(struct slice_arbiter_process *p, uint64_t bytes)
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

static void run_unkind_options(struct slice_arbiter *a)
{
	for (int i = 0; i < SLICE_ARBITER_PROCESSES; i++) {
		struct slice_arbiter_process *p = &a->processes[i];
		uint64_t room = a->limit - sum_granted(a);

		if (!p->known || !p->page)
			continue;
		if (random_below(a, 2))
			(void)take_credit_back(p, random_below(a, UINT64_C(64) << 20));
		else if (random_below(a, 4) == 0)
			grant_bytes(p, 0, random_below(a, room < (64 << 20) ? room : 64 << 20));
	}
}

static void take_all_credit(struct slice_arbiter *a)
{
	for (int i = 0; i < SLICE_ARBITER_PROCESSES; i++)
		if (a->processes[i].known && a->processes[i].page)
			(void)take_credit_back(&a->processes[i], UINT64_MAX);
}

/* --- pages --- */

static const struct {
	bool is_short, is_unsealed, has_other_magic, is_absent;
} page_faults[] = {
	[SLICE_ARBITER_PAGE_SHORT] = { .is_short = true },
	[SLICE_ARBITER_PAGE_UNSEALED] = { .is_unsealed = true },
	[SLICE_ARBITER_PAGE_MAGIC] = { .has_other_magic = true },
	[SLICE_ARBITER_PAGE_NONE] = { .is_absent = true },
};

/* Makes shared memory of @bytes, zeroed, and maps it. The caller closes *@ret_fd. */
static void *make_page(size_t bytes, enum slice_arbiter_page kind, int *ret_fd)
{
	int fd = memfd_create("page", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	void *p;

	die_unless(fd >= 0 && !ftruncate(fd,
				      (off_t)(page_faults[kind].is_short ? bytes / 2 : bytes)),
		"memfd");
	if (!page_faults[kind].is_unsealed)
		die_unless(!fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL),
			"seal");
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	die_unless(p != MAP_FAILED, "mmap");
	*ret_fd = fd;
	return p;
}

/* Returns what to send along with the welcome, or -1. The fake keeps a good page mapped, and no other. */
static int give_page(void *page, size_t bytes, enum slice_arbiter_page kind, int fd)
{
	if (kind != SLICE_ARBITER_PAGE_GOOD)
		(void)munmap(page, bytes);
	if (!page_faults[kind].is_absent)
		return fd;
	(void)close(fd);
	return -1;
}

static int make_slice_page(struct slice_arbiter *a, struct slice_arbiter_process *p)
{
	enum slice_arbiter_page kind = atomic_load(&a->memory.page);
	int fd;
	struct slice_page *page = make_page(SLICE_PAGE_BYTES, kind, &fd);

	page->magic = page_faults[kind].has_other_magic ? 7 : SLICE_PAGE_MAGIC;
	page->version = SLICE_PAGE_VERSION;
	page->bytes = SLICE_PAGE_BYTES;
	page->gpu_count = a->gpu_count;
	page->serial = ++a->serial;
	atomic_store(&page->turns, a->limit == 0);
	if (a->limit)
		memcpy(page->gpus[0].uuid, slice_arbiter_uuid, sizeof(slice_arbiter_uuid));
	atomic_store(&page->gpus[0].limit, a->limit);
	atomic_store(&page->gpus[0].alone, atomic_load(&a->alone));
	if (kind == SLICE_ARBITER_PAGE_GOOD)
		p->page = a->slice_page = page;
	return give_page(page, SLICE_PAGE_BYTES, kind, fd);
}

static int make_gate_page(struct slice_arbiter *a)
{
	enum slice_arbiter_page kind = atomic_load(&a->quanta.page);
	int fd;
	struct turn_page *page = make_page(TURN_PAGE_BYTES, kind, &fd);

	page->magic = page_faults[kind].has_other_magic ? 7 : TURN_PAGE_MAGIC;
	page->version = TURN_PAGE_VERSION;
	page->bytes = TURN_PAGE_BYTES;
	page->gpu_count = a->gpu_count;
	page->serial = ++a->serial;
	for (uint32_t i = 0; i < a->gpu_count; i++)
		atomic_store(&page->gpus[i].gate, atomic_load(&a->start_state) | TURN_DOORBELL);
	if (kind == SLICE_ARBITER_PAGE_GOOD)
		a->turn_page = page;
	return give_page(page, TURN_PAGE_BYTES, kind, fd);
}

/* Continues with the page that a process sent along, in the state in which gates start. */
static void adopt_gate_page(struct slice_arbiter *a, int passed)
{
	struct turn_page *p;

	die_unless(passed >= 0, "no page came");
	p = mmap(NULL, TURN_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, passed, 0);
	die_unless(p != MAP_FAILED && p->magic == TURN_PAGE_MAGIC, "the page that came");
	a->turn_page = p;
	for (uint32_t i = 0; i < a->gpu_count; i++) {
		uint32_t was = atomic_load(&p->gpus[i].gate);

		while (!atomic_compare_exchange_weak(&p->gpus[i].gate, &was,
			((was & ~TURN_STATE) | atomic_load(&a->start_state)) + TURN_GENERATION))
			;
	}
}

/* --- registrations --- */

/* The earlier registration of the process of @p for memory, or NULL. */
static struct slice_arbiter_process *find_registered(struct slice_arbiter *a,
	const struct slice_arbiter_process *p)
{
	struct slice_arbiter_process *found = NULL;

	for (int i = 0; i < SLICE_ARBITER_PROCESSES; i++)
		if (&a->processes[i] != p && a->processes[i].known && a->processes[i].page &&
			a->processes[i].pid == p->pid)
			found = &a->processes[i];
	return found;
}

/* The process of @p continues with its earlier registration. Returns the status of the welcome; *@p becomes the
 * process that has the connection. */
static uint32_t register_memory_again(struct slice_arbiter *a, struct slice_arbiter_process **p,
	const struct slice_hello *h, int passed)
{
	struct slice_arbiter_process *old = find_registered(a, *p);

	atomic_fetch_add(&a->memory.again, 1);
	if (!old || passed < 0)
		return SLICE_REFUSED;
	old->fd = (*p)->fd;
	(*p)->known = false;
	if (h->unanswered && h->unanswered == old->request_tag) {
		atomic_fetch_add(&old->page->gpus[0].credit, old->request_bytes);
		old->request_tag = 0;
	}
	*p = old;
	return SLICE_OK;
}

/* Returns the descriptor of a page, or -1. */
static int register_quanta(struct slice_arbiter *a, struct slice_arbiter_process *p,
	const struct slice_hello *h, int passed)
{
	int page = -1;

	if (h->flags & SLICE_HELLO_AGAIN) {
		adopt_gate_page(a, passed);
		atomic_fetch_add(&a->quanta.again, 1);
	} else {
		page = make_gate_page(a);
	}
	memset(a->clients, 0, sizeof(a->clients));
	p->quanta = true;
	a->last = p;
	return page;
}

static void on_hello(struct slice_arbiter *a, struct slice_arbiter_process *p,
	const union packet *q, int passed)
{
	const struct slice_hello *h = &q->hello;
	bool quanta = h->flags & SLICE_HELLO_TURNS, again = h->flags & SLICE_HELLO_AGAIN;
	struct slice_arbiter_registrations *r = quanta ? &a->quanta : &a->memory;
	struct slice_welcome w = {
		.head = { SLICE_WELCOME, h->head.tag },
		.version = SLICE_WIRE_VERSION,
		.status = atomic_load(&r->status),
		.gpu_count = a->gpu_count,
		.slice = "0123",
		.reason = "because",
	};
	int page = -1;

	/* The process was killed and reaped before the arbiter read its packet. */
	if (kill(p->pid, 0) && errno == ESRCH) {
		(void)close(p->fd);
		p->known = false;
		return;
	}
	if (a->limit)
		memcpy(w.gpus[0].uuid, slice_arbiter_uuid, sizeof(slice_arbiter_uuid));
	w.gpus[0].limit = a->limit;
	atomic_fetch_add(&r->hellos, 1);
	if (w.status == SLICE_OK && quanta)
		page = register_quanta(a, p, h, passed);
	else if (w.status == SLICE_OK && again)
		w.status = register_memory_again(a, &p, h, passed);
	else if (w.status == SLICE_OK && h->flags & SLICE_HELLO_MEMORY)
		page = make_slice_page(a, p);
	send_answer(p->fd, &w, sizeof(w), page);
	if (page >= 0)
		(void)close(page);
}

/* --- requests and states --- */

static void on_request(struct slice_arbiter *a, struct slice_arbiter_process *p,
	const union packet *q, int passed)
{
	struct slice_grant g = { .head = { SLICE_GRANT, q->head.tag },
		.status = SLICE_NO_ROOM };
	uint64_t bytes = q->want.bytes, extra;

	(void)passed;
	atomic_fetch_add(&a->wants, 1);
	for (int i = 0; i < SLICE_ARBITER_PROCESSES && a->limit - sum_granted(a) < bytes; i++)
		if (a->processes[i].known && a->processes[i].page)
			(void)take_credit_back(&a->processes[i],
				bytes - (a->limit - sum_granted(a)));
	if (a->limit - sum_granted(a) >= bytes) {
		uint64_t left = a->limit - sum_granted(a) - bytes;

		extra = atomic_load(&a->generous) ? left : 0;
		if (atomic_load(&a->unkind))
			extra = random_below(a, left < (64 << 20) ? left : 64 << 20);
		grant_bytes(p, bytes, extra);
		g.status = SLICE_OK;
		p->request_tag = q->head.tag;
		p->request_bytes = bytes;
	}
	g.free_bytes = a->limit - sum_granted(a);
	if (atomic_load(&a->hang_up_at) && atomic_fetch_sub(&a->hang_up_at, 1) == 1) {
		(void)close(p->fd);
		p->fd = -1;
		return;
	}
	send_answer(p->fd, &g, sizeof(g), -1);
}

static void on_view(struct slice_arbiter *a, struct slice_arbiter_process *p,
	const union packet *q, int passed)
{
	struct slice_viewed v = { .head = { SLICE_VIEWED, q->head.tag }, .gpu_count = 1 };

	(void)passed;
	atomic_fetch_add(&a->views, 1);
	v.gpus[0].limit = a->limit;
	for (int i = 0; i < SLICE_ARBITER_PROCESSES; i++)
		if (a->processes[i].known && a->processes[i].page)
			v.gpus[0].used += a->processes[i].granted -
					  atomic_load(&a->processes[i].page->gpus[0].credit);
	send_answer(p->fd, &v, sizeof(v), -1);
}

static void on_compare(struct slice_arbiter *a, struct slice_arbiter_process *p,
	const union packet *q, int passed)
{
	struct slice_compared c = { { SLICE_COMPARED, q->head.tag } };

	(void)passed;
	atomic_fetch_add(&a->compares, 1);
	send_answer(p->fd, &c, sizeof(c), -1);
}

static void on_state(struct slice_arbiter *a, struct slice_arbiter_process *p,
	const union packet *q, int passed)
{
	const struct slice_state *s = &q->state;
	struct slice_arbiter_client *client = &a->clients[s->gpu];
	uint32_t gate = atomic_load(&a->turn_page->gpus[s->gpu].gate);

	(void)p;
	(void)passed;
	die_unless(s->gpu < a->gpu_count && s->busy <= 1 && s->wants <= 1, "a state");
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

/* What the fake answers, and in which form of the slice. @passed: a descriptor that came along, or -1. */
static const struct {
	void (*answer)(struct slice_arbiter *a, struct slice_arbiter_process *p,
		const union packet *q, int passed);
	size_t bytes; /* of the packet */
	bool of_memory, of_quanta;
} answers[] = {
	[SLICE_HELLO] = { on_hello, sizeof(struct slice_hello), true, true },
	[SLICE_WANT] = { on_request, sizeof(struct slice_want), true, false },
	[SLICE_VIEW] = { on_view, sizeof(struct slice_view), true, false },
	[SLICE_COMPARE] = { on_compare, sizeof(struct slice_compare), true, false },
	[SLICE_STATE] = { on_state, sizeof(struct slice_state), false, true },
};

/* --- connections --- */

/* Ends a connection. A registration for memory outlives it. */
static void disconnect_process(struct slice_arbiter *a, struct slice_arbiter_process *p)
{
	if (p->fd >= 0)
		(void)close(p->fd);
	p->fd = -1;
	p->known = p->known && p->page;
	if (a->last == p)
		a->last = NULL;
}

static void on_packet(struct slice_arbiter *a, struct slice_arbiter_process *p)
{
	union packet packet;
	int passed;
	ssize_t n = receive_packet(p->fd, &packet, &passed);
	uint32_t op;

	if (n < 0 && errno == EAGAIN)
		return;
	if (n < (ssize_t)sizeof(packet.head)) {
		atomic_fetch_add(p->quanta ? &a->quanta.lost : &a->memory.lost, 1);
		disconnect_process(a, p);
		return;
	}
	op = packet.head.op;
	die_unless(op < sizeof(answers) / sizeof(answers[0]) && answers[op].answer &&
			   (a->limit ? answers[op].of_memory : answers[op].of_quanta) &&
			   (size_t)n == answers[op].bytes,
		"a packet of this form of slice");
	answers[op].answer(a, p, &packet, passed);
	if (passed >= 0)
		(void)close(passed);
}

static void on_connect(struct slice_arbiter *a)
{
	int fd = accept4(a->listener, NULL, NULL, SOCK_CLOEXEC);
	struct ucred who;
	socklen_t len = sizeof(who);

	if (fd < 0)
		return;
	die_unless(!getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len), "peercred");
	for (int i = 0; i < SLICE_ARBITER_PROCESSES; i++) {
		if (a->processes[i].known)
			continue;
		a->processes[i] = (struct slice_arbiter_process){ .known = true,
			.fd = fd,
			.pid = who.pid };
		return;
	}
	abort();
}

static void listen_for_processes(struct slice_arbiter *a)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };

	(void)snprintf(sun.sun_path, sizeof(sun.sun_path), "%s/" SLICE_SOCKET, a->dir);
	(void)unlink(sun.sun_path);
	a->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	die_unless(a->listener >= 0, "socket");
	die_unless(!bind(a->listener, (struct sockaddr *)&sun, sizeof(sun)), sun.sun_path);
	die_unless(!listen(a->listener, 64), "listen");
}

static void hang_up(struct slice_arbiter *a)
{
	(void)close(a->listener);
	for (int i = 0; i < SLICE_ARBITER_PROCESSES; i++)
		if (a->processes[i].known)
			disconnect_process(a, &a->processes[i]);
}

/* --- the thread --- */

static void run_commands(struct slice_arbiter *a)
{
	int ms = atomic_load(&a->restart_ms);

	if (atomic_load(&a->unkind))
		run_unkind_options(a);
	if (atomic_load(&a->take_all)) {
		take_all_credit(a);
		atomic_store(&a->take_all, false);
	}
	if (ms) {
		hang_up(a);
		(void)poll(NULL, 0, ms);
		listen_for_processes(a);
		atomic_store(&a->restart_ms, 0);
	}
}

static void *run_fake_arbiter(void *arg)
{
	struct slice_arbiter *a = arg;

	for (;;) {
		struct pollfd fds[SLICE_ARBITER_PROCESSES + 2];
		bool mute = atomic_load(&a->mute);

		atomic_fetch_add(&a->rounds, 1);
		pthread_mutex_lock(&a->lock);
		fds[0] = (struct pollfd){ .fd = a->stop_fd, .events = POLLIN };
		fds[1] = (struct pollfd){ .fd = mute ? -1 : a->listener, .events = POLLIN };
		for (int i = 0; i < SLICE_ARBITER_PROCESSES; i++)
			fds[i + 2] = (struct pollfd){
				.fd = a->processes[i].known && !mute ? a->processes[i].fd : -1,
				.events = POLLIN,
			};
		pthread_mutex_unlock(&a->lock);
		(void)poll(fds, SLICE_ARBITER_PROCESSES + 2, atomic_load(&a->unkind) ? 0 : 2);
		if (fds[0].revents)
			return NULL;
		pthread_mutex_lock(&a->lock);
		for (int i = 0; i < SLICE_ARBITER_PROCESSES; i++)
			if (fds[i + 2].fd >= 0 && fds[i + 2].revents && a->processes[i].known &&
				a->processes[i].fd == fds[i + 2].fd)
				on_packet(a, &a->processes[i]);
		if (fds[1].revents)
			on_connect(a);
		run_commands(a);
		pthread_mutex_unlock(&a->lock);
	}
}

/* --- what the test does --- */

struct slice_arbiter *slice_arbiter_new(void)
{
	void *p = mmap(NULL, sizeof(struct slice_arbiter), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	die_unless(p != MAP_FAILED, "mmap");
	return p;
}

void slice_arbiter_restart(struct slice_arbiter *a)
{
	a->stop_fd = eventfd(0, EFD_CLOEXEC);
	die_unless(a->stop_fd >= 0, "eventfd");
	listen_for_processes(a);
	die_unless(!pthread_create(&a->thread, NULL, run_fake_arbiter, a), "thread");
}

static void start_serving(struct slice_arbiter *a, const char *dir, uint32_t gpu_count,
	uint64_t limit)
{
	memset(a, 0, sizeof(*a));
	(void)snprintf(a->dir, sizeof(a->dir), "%s", dir);
	a->gpu_count = gpu_count;
	a->limit = limit;
	a->seed = 1;
	die_unless(!pthread_mutex_init(&a->lock, NULL), "mutex");
	die_unless(!setenv(SLICE_DIR_VARIABLE, dir, 1), "setenv");
	slice_arbiter_restart(a);
}

void slice_arbiter_start_memory(struct slice_arbiter *a, const char *dir, uint64_t limit)
{
	start_serving(a, dir, 1, limit);
}

void slice_arbiter_start_quanta(struct slice_arbiter *a, const char *dir, uint32_t gpu_count)
{
	start_serving(a, dir, gpu_count, 0);
}

void slice_arbiter_kill(struct slice_arbiter *a)
{
	die_unless(!eventfd_write(a->stop_fd, 1), "eventfd");
	die_unless(!pthread_join(a->thread, NULL), "join");
	(void)close(a->stop_fd);
	hang_up(a);
}

static void forget_process(struct slice_arbiter_process *p)
{
	if (p->page)
		(void)munmap(p->page, SLICE_PAGE_BYTES);
	if (p->fd >= 0)
		(void)close(p->fd);
	memset(p, 0, sizeof(*p));
}

void slice_arbiter_stop(struct slice_arbiter *a)
{
	slice_arbiter_kill(a);
	for (int i = 0; i < SLICE_ARBITER_PROCESSES; i++)
		if (a->processes[i].known)
			forget_process(&a->processes[i]);
	(void)unsetenv(SLICE_DIR_VARIABLE);
}

void slice_arbiter_mute(struct slice_arbiter *a)
{
	unsigned int rounds;

	atomic_store(&a->mute, true);
	rounds = atomic_load(&a->rounds);
	while (atomic_load(&a->rounds) - rounds < 2) /* one may have begun before */
		(void)poll(NULL, 0, 1);
}

void slice_arbiter_reap(struct slice_arbiter *a, pid_t pid,
	void (*check)(const struct slice_arbiter_process *p, void *arg), void *arg)
{
	pthread_mutex_lock(&a->lock);
	for (int i = 0; i < SLICE_ARBITER_PROCESSES; i++) {
		struct slice_arbiter_process *p = &a->processes[i];

		if (!p->known || p->pid != pid)
			continue;
		if (check && p->page)
			check(p, arg);
		forget_process(p);
	}
	pthread_mutex_unlock(&a->lock);
}

uint64_t slice_arbiter_granted_sum(struct slice_arbiter *a)
{
	uint64_t n;

	pthread_mutex_lock(&a->lock);
	n = sum_granted(a);
	pthread_mutex_unlock(&a->lock);
	return n;
}
