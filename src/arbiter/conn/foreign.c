/* SPDX-License-Identifier: Apache-2.0 */
#include "arbiter/conn/foreign.h"

#include "base/cleanup.h"
#include "base/fd.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define THREADS_MAX 8

/* ---- packets ---------------------------------------------------------------------------------- */

static ssize_t receive(int sock, void *data, size_t cap, void *control, size_t room, int flags,
	struct msghdr *m)
{
	struct iovec part = { .iov_base = data, .iov_len = cap };
	ssize_t n;

	*m = (struct msghdr){ .msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = room };
	n = recvmsg(sock, m, flags | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	m->msg_iov = NULL;
	return n;
}

ssize_t foreign_receive(int sock, void *data, size_t cap, bool *cut)
{
	struct msghdr m;
	ssize_t n = receive(sock, data, cap, NULL, 0, MSG_PEEK, &m);

	if (n < 0)
		return n;
	if (m.msg_flags & MSG_CTRUNC)
		return FOREIGN_CAME;
	if (n == 0)
		return 0;
	n = receive(sock, data, cap, NULL, 0, 0, &m);
	*cut = m.msg_flags & MSG_TRUNC;
	return n;
}

ssize_t foreign_peek(int sock, void *data, size_t cap, int *fd, bool *more)
{
	union {
		struct cmsghdr head;
		char room[CMSG_LEN(sizeof(int))]; /* and none for a second one */
	} control = { .room = { 0 } };
	struct msghdr m;
	ssize_t n = receive(sock, data, cap, control.room, sizeof(control.room), MSG_PEEK, &m);

	*fd = -1;
	*more = false;
	if (n < 0)
		return n;
	if (CMSG_FIRSTHDR(&m) && control.head.cmsg_level == SOL_SOCKET &&
		control.head.cmsg_type == SCM_RIGHTS &&
		control.head.cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(fd, CMSG_DATA(&control.head), sizeof(*fd));
	*more = m.msg_flags & MSG_CTRUNC;
	return n;
}

void foreign_take(int sock)
{
	struct msghdr m;
	char byte;

	(void)receive(sock, &byte, sizeof(byte), NULL, 0, 0, &m);
}

/* With SO_PASSCRED the kernel has something to say of each packet, also of one of no length. */
static bool was_packet(ssize_t n, const struct msghdr *m)
{
	return n > 0 || (n == 0 && (m->msg_flags & MSG_CTRUNC));
}

bool foreign_hang_up(int *sock)
{
	const int on = 1;
	struct msghdr m;
	char byte;

	/* None comes after this. */
	(void)shutdown(*sock, SHUT_RDWR);
	if (setsockopt(*sock, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0 ||
		was_packet(receive(*sock, &byte, sizeof(byte), NULL, 0, MSG_PEEK, &m), &m))
		return false;
	closep(sock);
	return true;
}

/* After foreign_hang_up(). A socket that is closed with packets in its queue would take answers from its peer that the
 * peer has not read yet. */
static void drain_and_close(int *sock)
{
	struct msghdr m;
	char byte;

	while (*sock >= 0 &&
		was_packet(receive(*sock, &byte, sizeof(byte), NULL, 0, 0, &m), &m))
		;
	closep(sock);
}

/* ---- the other threads ------------------------------------------------------------------------ */

struct job {
	struct job *next;
	struct slice *slice;
	bool counted;
	int sock, fd;
};

/* Freed by who is last: the loop's side, or a thread that an owner holds up. */
struct foreign {
	pthread_mutex_t lock; /* guards what follows */
	pthread_cond_t more;
	struct job *todo, **todo_end;
	struct job *done;
	struct slice *closing[THREADS_MAX]; /* a slice holds up one thread at most */
	unsigned int n_threads, n_idle;
	bool stopped;
	/* The loop's own. */
	uv_async_t async;
	void (*closed)(struct slice *s, bool counted);
};

static void free_jobs(struct job *j)
{
	while (j) {
		struct job *next = j->next;

		free(j);
		j = next;
	}
}

static void release(struct foreign *f)
{
	free_jobs(f->todo);
	free_jobs(f->done);
	(void)pthread_cond_destroy(&f->more);
	(void)pthread_mutex_destroy(&f->lock);
	free(f);
}

static bool is_closing(const struct foreign *f, const struct slice *s)
{
	for (unsigned int i = 0; i < THREADS_MAX; i++) {
		if (f->closing[i] == s)
			return true;
	}
	return false;
}

/* NULL: nothing, for now. The lock is held. */
static struct job *next_job(struct foreign *f)
{
	struct job **at = &f->todo, *j;

	while (*at && is_closing(f, (*at)->slice))
		at = &(*at)->next;
	j = *at;
	if (!j)
		return NULL;
	*at = j->next;
	if (f->todo_end == &j->next)
		f->todo_end = at;
	return j;
}

static void *run(void *arg);

/* One more, unless there are enough. The lock is held. */
static void start_thread(struct foreign *f)
{
	sigset_t all, before;
	pthread_attr_t attr;
	pthread_t t;

	if (f->n_idle || f->n_threads == THREADS_MAX || pthread_attr_init(&attr) != 0)
		return;
	(void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	if (pthread_create(&t, &attr, run, f) == 0)
		f->n_threads++;
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	(void)pthread_attr_destroy(&attr);
}

static void close_job(struct foreign *f, struct job *j)
{
	unsigned int place = 0;

	while (f->closing[place])
		place++;
	f->closing[place] = j->slice;
	if (f->todo)
		start_thread(f);
	(void)pthread_mutex_unlock(&f->lock);
	closep(&j->fd);
	drain_and_close(&j->sock);
	(void)pthread_mutex_lock(&f->lock);
	f->closing[place] = NULL;
	j->next = f->done;
	f->done = j;
	if (!f->stopped)
		(void)uv_async_send(&f->async);
}

static void *run(void *arg)
{
	struct foreign *f = arg;
	bool last;

	(void)pthread_mutex_lock(&f->lock);
	while (!f->stopped) {
		struct job *j = next_job(f);

		if (j) {
			close_job(f, j);
			continue;
		}
		f->n_idle++;
		(void)pthread_cond_wait(&f->more, &f->lock);
		f->n_idle--;
	}
	last = --f->n_threads == 0;
	(void)pthread_mutex_unlock(&f->lock);
	if (last)
		release(f);
	return NULL;
}

/* ---- the loop's side -------------------------------------------------------------------------- */

static void on_done(uv_async_t *h)
{
	struct foreign *f = h->data;
	struct job *done;

	(void)pthread_mutex_lock(&f->lock);
	done = STEAL_PTR(f->done);
	(void)pthread_mutex_unlock(&f->lock);
	for (const struct job *j = done; j; j = j->next)
		f->closed(j->slice, j->counted);
	free_jobs(done);
}

struct foreign *foreign_new(uv_loop_t *loop, void (*closed)(struct slice *s, bool counted),
	struct error *err)
{
	struct foreign *f = calloc(1, sizeof(*f));
	int r;

	if (!f) {
		(void)error_nomem(err);
		return NULL;
	}
	r = uv_async_init(loop, &f->async, on_done);
	if (r < 0) {
		free(f);
		(void)error_sys(err, -r, "make an event");
		return NULL;
	}
	(void)pthread_mutex_init(&f->lock, NULL);
	(void)pthread_cond_init(&f->more, NULL);
	f->todo_end = &f->todo;
	f->closed = closed;
	f->async.data = f;
	return f;
}

static void on_closed(uv_handle_t *h)
{
	struct foreign *f = h->data;
	bool last;

	(void)pthread_mutex_lock(&f->lock);
	last = --f->n_threads == 0;
	(void)pthread_mutex_unlock(&f->lock);
	if (last)
		release(f);
}

struct foreign *foreign_stop(struct foreign *f)
{
	if (!f)
		return NULL;
	(void)pthread_mutex_lock(&f->lock);
	f->stopped = true;
	f->n_threads++; /* the handle */
	(void)pthread_cond_broadcast(&f->more);
	(void)pthread_mutex_unlock(&f->lock);
	uv_close((uv_handle_t *)&f->async, on_closed);
	return NULL;
}

void foreign_close(struct foreign *f, struct slice *s, bool counted, int sock, int fd)
{
	struct job *j = calloc(1, sizeof(*j));

	if (!j)
		return;
	*j = (struct job){ .slice = s, .counted = counted, .sock = sock, .fd = fd };
	(void)pthread_mutex_lock(&f->lock);
	*f->todo_end = j;
	f->todo_end = &j->next;
	start_thread(f);
	(void)pthread_cond_signal(&f->more);
	(void)pthread_mutex_unlock(&f->lock);
}
