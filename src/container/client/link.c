/* SPDX-License-Identifier: Apache-2.0 */
#include "container/client/link.h"

#include "container/client/socket.h"
#include "container/sys.h"

#include <string.h>
#include <sys/mman.h>

#define RETRY_MS       300 /* length of each later try, while the arbiter is unavailable */
#define BACK_OFF_MS    100 /* between two such tries, doubled up to BACK_OFF_MAX */
#define BACK_OFF_MAX   5000
#define COMPARE_MS     1000
#define PAUSE_MS       2 /* between two connects of one try, doubled up to PAUSE_MAX */
#define PAUSE_MAX      100
#define EXCHANGE_TRIES 3 /* of one request, if the arbiter closes the connection each time */

struct slice_link {
	_Atomic uint32_t state;   /* 0: not opened yet; else enum link_state + 1 */
	_Atomic int64_t next_try; /* LINK_DOWN: earliest next try, on sys_now()'s clock */
	_Atomic(struct slice_page *) page; /* set once; stays when the arbiter is down */
	/* Written before .state first becomes LINK_UP, never after. */
	struct slice_welcome welcome;

	struct sys_lock lock; /* guards the members below and the packets on the socket */
	bool have_welcome, memory;
	struct own_fd socket, page_fd;
	uint32_t tag;
	/* Tag of a SLICE_WANT without answer, which may have been granted; 0: none. */
	uint32_t unanswered;
	int back_off;
	char dir[SOCKET_DIR_MAX];
};

static _Atomic(void *) root;
_Atomic bool link_off;

/* The parent's descriptors. A child has them open, but its struct slice_link is wiped. The child closes
 * them by this copy. */
static struct own_fd inherited[2];

static struct slice_link *link_get(void)
{
	struct slice_link *l = wiped_get(&root, sizeof(*l));

	return l;
}

/* Maps the page that the arbiter sent. NULL: not a valid page. */
static struct slice_page *map_slice_page(int fd)
{
	struct slice_page *p = socket_map_page(fd, SLICE_PAGE_BYTES);

	if (!p || (p->magic == SLICE_PAGE_MAGIC && p->version == SLICE_PAGE_VERSION &&
			  p->bytes == SLICE_PAGE_BYTES && p->gpu_count <= SLICE_GPUS_MAX &&
			  p->serial))
		return p;
	(void)munmap(p, SLICE_PAGE_BYTES);
	return NULL;
}

enum link_attempt { LINK_ATTEMPT_DONE, LINK_ATTEMPT_RETRY, LINK_ATTEMPT_REFUSED };

/* Applies the answer to a hello. @page_fd: -1, or the function takes it over. */
static enum link_attempt apply_link_welcome(struct slice_link *l, struct slice_welcome *w,
	bool again, int page_fd)
{
	struct slice_page *page = NULL;

	w->reason[sizeof(w->reason) - 1] = '\0';
	w->slice[sizeof(w->slice) - 1] = '\0';
	if (again || !l->memory || w->status != SLICE_OK) {
		if (page_fd >= 0)
			(void)sys_close(page_fd);
	} else if (page_fd < 0 || !(page = map_slice_page(page_fd)) ||
		   !own_fd_set(&l->page_fd, page_fd)) {
		warn_once(WARN_BAD_PAGE,
			"what the slice's arbiter sent is no page of version %d",
			SLICE_PAGE_VERSION);
		if (page)
			(void)munmap(page, SLICE_PAGE_BYTES);
		else if (page_fd >= 0)
			(void)sys_close(page_fd);
		return LINK_ATTEMPT_REFUSED;
	}
	if (w->status != SLICE_OK || w->gpu_count > SLICE_GPUS_MAX ||
		(page && page->gpu_count != w->gpu_count)) {
		warn_once(WARN_NOT_ADMITTED, "not admitted to the slice: %s",
			w->reason[0] ? w->reason : "no reason was given");
		if (page) {
			own_fd_close(&l->page_fd);
			(void)munmap(page, SLICE_PAGE_BYTES);
		}
		return LINK_ATTEMPT_REFUSED;
	}
	if (!l->have_welcome)
		l->welcome = *w;
	l->have_welcome = true;
	l->unanswered = 0;
	if (page)
		atomic_store_explicit(&l->page, page, memory_order_release);
	return LINK_ATTEMPT_DONE;
}

/* Never 0, which means no tag. */
static uint32_t next_tag(struct slice_link *l)
{
	return ++l->tag ? l->tag : ++l->tag;
}

/* Connects and registers, one time. The caller holds the lock. */
static enum link_attempt register_link_once(struct slice_link *l, int64_t deadline)
{
	bool again = atomic_load_explicit(&l->page, memory_order_relaxed) != NULL;
	uint32_t flags = (l->memory ? SLICE_HELLO_MEMORY : 0) | (again ? SLICE_HELLO_AGAIN : 0);
	struct slice_hello hello = { 0 };
	struct slice_welcome w = { 0 };
	enum link_attempt r = LINK_ATTEMPT_RETRY;
	int fd, page_fd = -1;

	if (again && !own_fd_is(&l->page_fd))
		return LINK_ATTEMPT_REFUSED; /* the program closed it: the process cannot send its page again */
	fd = socket_connect(l->dir);
	if (fd < 0)
		return LINK_ATTEMPT_RETRY;
	socket_hello(&hello, next_tag(l), flags);
	hello.unanswered = again ? l->unanswered : 0;
	if (socket_send(fd, &hello, sizeof(hello), again ? l->page_fd.fd : -1, deadline) &&
		socket_receive(fd, &hello.head, SLICE_WELCOME, &w, sizeof(w), &page_fd,
			deadline))
		r = apply_link_welcome(l, &w, again, page_fd);
	else if (page_fd >= 0)
		(void)sys_close(page_fd);
	if (r != LINK_ATTEMPT_DONE)
		(void)sys_close(fd);
	else if (!own_fd_set(&l->socket, fd))
		r = LINK_ATTEMPT_RETRY;
	inherited[0] = l->socket;
	inherited[1] = l->page_fd;
	return r;
}

static void set_link_state(struct slice_link *l, enum link_state s)
{
	atomic_store_explicit(&l->state, (uint32_t)s + 1, memory_order_release);
}

static void set_link_down(struct slice_link *l)
{
	l->back_off = l->back_off ? 2 * l->back_off : BACK_OFF_MS;
	if (l->back_off > BACK_OFF_MAX)
		l->back_off = BACK_OFF_MAX;
	atomic_store(&l->next_try, sys_now() + l->back_off);
	set_link_state(l, LINK_DOWN);
}

/* Tries to register until the deadline. The caller holds the lock. */
static bool register_until_deadline(struct slice_link *l, int64_t deadline)
{
	for (int64_t pause = PAUSE_MS;; pause = 2 * pause < PAUSE_MAX ? 2 * pause : PAUSE_MAX) {
		enum link_attempt r = register_link_once(l, deadline);

		if (r == LINK_ATTEMPT_DONE) {
			l->back_off = 0;
			set_link_state(l, LINK_UP);
			return true;
		}
		if (r == LINK_ATTEMPT_REFUSED)
			break;
		if (sys_now() + pause >= deadline) {
			warn_once(WARN_NO_ARBITER,
				"the arbiter of this slice does not answer in %s", l->dir);
			break;
		}
		(void)sys_wait(-1, 0, sys_now() + pause);
	}
	set_link_down(l);
	return false;
}

/* Deadline of a try that starts now; < 0: too early for a try. */
static int64_t deadline_now(const struct slice_link *l)
{
	int64_t now = sys_now();

	if (atomic_load(&l->state) != (uint32_t)LINK_DOWN + 1)
		return now + LINK_DEADLINE_MS;
	return now < atomic_load(&l->next_try) ? -1 : now + RETRY_MS;
}

/* The first open of this process, or of a child after its fork. The caller holds the lock. */
static void open_link_first(struct slice_link *l)
{
	own_fd_close(&inherited[0]);
	own_fd_close(&inherited[1]);
	if (socket_find_dir(l->dir)) {
		(void)register_until_deadline(l, sys_now() + LINK_DEADLINE_MS);
		return;
	}
	set_link_state(l, LINK_NO_SLICE);
	atomic_store(&link_off, true);
}

static bool is_link_settled(struct slice_link *l, bool memory, enum link_state *ret)
{
	uint32_t s = atomic_load_explicit(&l->state, memory_order_acquire);

	if (!s)
		return false;
	*ret = (enum link_state)(s - 1);
	switch (*ret) {
	case LINK_NO_SLICE:
		return true;
	case LINK_UP:
		return !memory || atomic_load_explicit(&l->page, memory_order_acquire);
	case LINK_DOWN:
		return deadline_now(l) < 0;
	}
	return true;
}

enum link_state link_open(bool memory)
{
	enum link_state r = LINK_DOWN;
	struct slice_link *l;
	int e = errno;

	if (atomic_load_explicit(&link_off, memory_order_relaxed))
		return LINK_NO_SLICE;
	l = link_get();
	if (!l)
		return LINK_DOWN;
	if (is_link_settled(l, memory, &r))
		return r;
	sys_lock(&l->lock);
	if (!is_link_settled(l, memory, &r)) {
		if (memory && !l->memory) {
			l->memory = true;
			own_fd_close(&l->socket);
		}
		if (!atomic_load(&l->state))
			open_link_first(l);
		else
			(void)register_until_deadline(l, deadline_now(l));
		r = (enum link_state)(atomic_load(&l->state) - 1);
	}
	sys_unlock(&l->lock);
	errno = e;
	return r;
}

struct slice_page *link_page(void)
{
	struct slice_link *l = atomic_load_explicit(&root, memory_order_acquire);

	return l ? atomic_load_explicit(&l->page, memory_order_acquire) : NULL;
}

const struct slice_welcome *link_welcome(void)
{
	return &link_get()->welcome;
}

/* Sends one request and receives its answer on the present connection. The caller holds the lock. */
static bool exchange_link_message(struct slice_link *l, void *ask, size_t ask_len, uint32_t op,
	void *answer, size_t answer_len, int64_t deadline)
{
	struct slice_head head;

	if (!own_fd_is(&l->socket)) {
		errno = EPIPE;
		return false;
	}
	memcpy(&head, ask, sizeof(head));
	head.tag = next_tag(l);
	memcpy(ask, &head, sizeof(head));
	if (socket_send(l->socket.fd, ask, ask_len, -1, deadline) &&
		socket_receive(l->socket.fd, &head, op, answer, answer_len, NULL, deadline))
		return true;
	if (head.op == SLICE_WANT)
		l->unanswered = head.tag;
	return false;
}

/*
 * exchange_link_message(), with a new connection where one is needed. If a SLICE_WANT was granted but its
 * answer was lost:
 *	1. exchange_link_message() notes its tag in .unanswered.
 *	2. The process registers again and sends the tag; the arbiter turns these bytes into credit.
 *	3. The process repeats the request with a new tag.
 */
static bool request_with_reconnect(struct slice_link *l, void *ask, size_t ask_len, uint32_t op,
	void *answer, size_t answer_len)
{
	int64_t deadline = deadline_now(l);

	for (int n = 0; deadline >= 0 && n < EXCHANGE_TRIES; n++) {
		if (!own_fd_is(&l->socket) && !register_until_deadline(l, deadline))
			return false;
		if (exchange_link_message(l, ask, ask_len, op, answer, answer_len, deadline))
			return true;
		own_fd_close(&l->socket);
		if (errno == ETIMEDOUT)
			break;
	}
	if (deadline >= 0) {
		warn_once(WARN_NO_ARBITER, "the arbiter of this slice does not answer in %s",
			l->dir);
		set_link_down(l);
	}
	return false;
}

/* The link, for requests that only a process in a slice can make. NULL: not opened, or in no slice. */
static struct slice_link *link_registered(void)
{
	struct slice_link *l = atomic_load_explicit(&root, memory_order_acquire);
	uint32_t s = l ? atomic_load_explicit(&l->state, memory_order_acquire) : 0;

	return s == (uint32_t)LINK_UP + 1 || s == (uint32_t)LINK_DOWN + 1 ? l : NULL;
}

static bool request_from_arbiter(void *question, size_t len, uint32_t op, void *answer,
	size_t answer_len)
{
	struct slice_link *l = link_registered();
	int e = errno;
	bool ok;

	if (!l)
		return false;
	sys_lock(&l->lock);
	ok = request_with_reconnect(l, question, len, op, answer, answer_len);
	sys_unlock(&l->lock);
	errno = e;
	return ok;
}

int link_request_bytes(unsigned int gpu, uint64_t bytes, uint64_t *free_bytes)
{
	struct slice_want want = { .head.op = SLICE_WANT, .gpu = gpu, .bytes = bytes };
	struct slice_grant grant = { 0 };

	if (!request_from_arbiter(&want, sizeof(want), SLICE_GRANT, &grant, sizeof(grant)))
		return -1;
	if (free_bytes)
		*free_bytes = grant.free_bytes;
	return grant.status == SLICE_OK ? SLICE_OK : SLICE_NO_ROOM;
}

int link_view(unsigned int first, struct slice_viewed *ret)
{
	struct slice_view view = { .head.op = SLICE_VIEW, .first = first };

	if (!request_from_arbiter(&view, sizeof(view), SLICE_VIEWED, ret, sizeof(*ret)))
		return -1;
	if (ret->gpu_count > SLICE_GPUS_MAX)
		ret->gpu_count = SLICE_GPUS_MAX;
	if (ret->here > SLICE_VIEW_PROCESSES)
		ret->here = SLICE_VIEW_PROCESSES;
	return 0;
}

void link_compare(unsigned int gpu)
{
	struct slice_compare compare = { .head.op = SLICE_COMPARE, .gpu = gpu };
	struct slice_compared compared;
	struct slice_link *l = link_registered();
	int e = errno;

	if (!l)
		return;
	sys_lock(&l->lock);
	/* No wait for a new connection: the arbiter compares after one anyway. */
	if (own_fd_is(&l->socket) &&
		!exchange_link_message(l, &compare, sizeof(compare), SLICE_COMPARED, &compared,
			sizeof(compared), sys_now() + COMPARE_MS))
		own_fd_close(&l->socket);
	sys_unlock(&l->lock);
	errno = e;
}
