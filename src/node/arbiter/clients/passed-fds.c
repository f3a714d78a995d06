/* SPDX-License-Identifier: Apache-2.0 */
#include "node/arbiter/clients/passed-fds.h"

#include "node/arbiter/grants/fair-quota.h"
#include "lib/base/cleanup.h"
#include "lib/base/fd-pass.h"
#include "lib/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* One for each slice with a quota of its own (fair-quota.h), and one for its pages. A slow owner delays only
 * its threads. */
#define THREADS_MAX (2 * FAIR_QUOTA_SLICES)
#define STACK_BYTES (256 * 1024)
/* Packets without descriptors that passed_fds_hang_up() takes from a queue. A socket with more goes to another
 * thread. */
#define DRAIN_MAX 64

/* --- packets --- */

/* Receives without room for descriptors. MSG_CTRUNC in *ret_flags: the packet has some. Without MSG_PEEK in @flags
 * the kernel closes them in this call. */
static ssize_t receive_data(int sock, void *data, size_t cap, int flags, int *ret_flags)
{
	return fd_pass_receive(sock, data, cap, NULL, 0, flags | MSG_DONTWAIT, ret_flags);
}

ssize_t passed_fds_receive(int sock, void *data, size_t cap, bool *cut)
{
	int flags;
	ssize_t n = receive_data(sock, data, cap, MSG_PEEK, &flags);

	if (n < 0)
		return n;
	if (flags & MSG_CTRUNC)
		return PASSED_FDS_PRESENT;
	if (n == 0)
		return 0;
	n = receive_data(sock, data, cap, 0, &flags);
	*cut = flags & MSG_TRUNC;
	return n;
}

ssize_t passed_fds_peek(int sock, void *data, size_t cap, int *fd, bool *more)
{
	int flags;
	ssize_t n = fd_pass_receive(sock, data, cap, fd, 1, MSG_PEEK | MSG_DONTWAIT, &flags);

	*more = flags & MSG_CTRUNC;
	return n;
}

void passed_fds_take_packet(int sock)
{
	int flags;
	char byte;

	(void)receive_data(sock, &byte, sizeof(byte), 0, &flags);
}

/* With SO_PASSCRED the kernel adds credentials to each packet. So MSG_CTRUNC shows also a packet of length 0. */
static bool was_packet(ssize_t n, int flags)
{
	return n > 0 || (n == 0 && (flags & MSG_CTRUNC));
}

enum next_packet_kind { NEXT_NONE, NEXT_PLAIN, NEXT_HAS_DESCRIPTORS };

static bool set_passcred(int sock, int on)
{
	return setsockopt(sock, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) == 0;
}

/* The next packet of a socket that was shut down. If the kernel does not tell, the packet may have descriptors. */
static enum next_packet_kind peek_next_packet(int sock)
{
	int flags;
	char byte;
	ssize_t n;

	if (!set_passcred(sock, 0))
		return NEXT_HAS_DESCRIPTORS;
	n = receive_data(sock, &byte, sizeof(byte), MSG_PEEK, &flags);
	if (n >= 0 && (flags & MSG_CTRUNC))
		return NEXT_HAS_DESCRIPTORS;
	if (n > 0)
		return NEXT_PLAIN;
	/* The end, or a packet of length 0. */
	if (!set_passcred(sock, 1))
		return NEXT_HAS_DESCRIPTORS;
	n = receive_data(sock, &byte, sizeof(byte), MSG_PEEK, &flags);
	return was_packet(n, flags) ? NEXT_PLAIN : NEXT_NONE;
}

bool passed_fds_hang_up(int *sock)
{
	/* No packet arrives after this. */
	(void)shutdown(*sock, SHUT_RDWR);
	for (int i = 0; i <= DRAIN_MAX; i++) {
		enum next_packet_kind next = peek_next_packet(*sock);

		if (next == NEXT_NONE) {
			closep(sock);
			return true;
		}
		if (next == NEXT_HAS_DESCRIPTORS)
			break;
		passed_fds_take_packet(*sock);
	}
	/* drain_and_close() needs it. */
	(void)set_passcred(*sock, 1);
	return false;
}

/* Called after passed_fds_hang_up(). Closing a socket with packets in its queue would discard answers that the
 * peer has not read yet. */
static void drain_and_close(int *sock)
{
	int flags;
	char byte;

	while (*sock >= 0) {
		ssize_t n = receive_data(*sock, &byte, sizeof(byte), 0, &flags);

		if (!was_packet(n, flags))
			break;
	}
	closep(sock);
}

/* --- the other threads --- */

struct fd_job {
	struct fd_job *next;
	int sock, fd;
	/* A job that closes has .counted and .slice. */
	bool counted;
	struct arbiter_slice *slice;
	/* A job that empties a memfd has .emptied, .arg and .bytes. */
	void (*emptied)(void *arg, int fd); /* NULL: a close */
	void *arg;
	off_t bytes;
};

/* The jobs of one owner, in sequence. The owner is a slice for closes, its pages for memfds. */
struct fd_job_queue {
	struct fd_job_queue *next;
	const void *owner;
	struct fd_job *jobs, **end;
	bool served; /* a thread works on it */
};

/* Freed by the last user: the loop's handle, or a thread that a slow close still delays. */
struct passed_fds {
	pthread_mutex_t lock;        /* guards the members up to .stopped */
	struct fd_job_queue *queues; /* each has a job, or a thread that runs its last job */
	struct fd_job *done;
	unsigned int n_threads;
	bool stopped;
	/* Owned by the loop. */
	uv_async_t async;
	void (*closed)(struct arbiter_slice *s, bool counted);
};

static void free_jobs(struct fd_job *j)
{
	while (j) {
		struct fd_job *next = j->next;

		free(j);
		j = next;
	}
}

static void free_passed_fds(struct passed_fds *f)
{
	while (f->queues) {
		struct fd_job_queue *q = f->queues;

		f->queues = q->next;
		free_jobs(q->jobs);
		free(q);
	}
	free_jobs(f->done);
	(void)pthread_mutex_destroy(&f->lock);
	free(f);
}

/* NULL: no memory. The caller holds the lock. */
static struct fd_job_queue *get_owner_queue(struct passed_fds *f, const void *owner)
{
	struct fd_job_queue *q = f->queues;

	while (q && q->owner != owner)
		q = q->next;
	if (q)
		return q;
	q = calloc(1, sizeof(*q));
	if (!q)
		return NULL;
	*q = (struct fd_job_queue){ .next = f->queues, .owner = owner, .end = &q->jobs };
	f->queues = q;
	return q;
}

static void free_queue(struct passed_fds *f, struct fd_job_queue *q)
{
	struct fd_job_queue **at = &f->queues;

	while (*at != q)
		at = &(*at)->next;
	*at = q->next;
	free(q);
}

/* NULL: each queue has a thread. The caller holds the lock. */
static struct fd_job_queue *find_unserved_queue(const struct passed_fds *f)
{
	struct fd_job_queue *q = f->queues;

	while (q && q->served)
		q = q->next;
	return q;
}

static void run_fd_job(struct fd_job *j)
{
	const int flags = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;

	if (!j->emptied || fallocate(j->fd, flags, 0, j->bytes) == 0)
		closep(&j->fd);
	drain_and_close(&j->sock);
}

/* Runs the jobs of one owner until none is left. The caller holds the lock before and after. */
static void serve_owner_queue(struct passed_fds *f, struct fd_job_queue *q)
{
	struct fd_job *j;

	q->served = true;
	while (!f->stopped && (j = q->jobs) != NULL) {
		q->jobs = j->next;
		if (!q->jobs)
			q->end = &q->jobs;
		(void)pthread_mutex_unlock(&f->lock);
		run_fd_job(j);
		(void)pthread_mutex_lock(&f->lock);
		j->next = f->done;
		f->done = j;
		if (!f->stopped)
			(void)uv_async_send(&f->async);
	}
	if (!q->jobs)
		free_queue(f, q);
}

static void *run_passed_fds_thread(void *arg)
{
	struct passed_fds *f = arg;
	struct fd_job_queue *q;
	bool last;

	(void)pthread_mutex_lock(&f->lock);
	while (!f->stopped && (q = find_unserved_queue(f)) != NULL)
		serve_owner_queue(f, q);
	last = --f->n_threads == 0 && f->stopped;
	(void)pthread_mutex_unlock(&f->lock);
	if (last)
		free_passed_fds(f);
	return NULL;
}

/* Starts a thread for a queue without one. If that fails, the queue waits until another thread is free. The
 * caller holds the lock. */
static void start_passed_fds_thread(struct passed_fds *f)
{
	sigset_t all, before;
	pthread_attr_t attr;
	pthread_t t;

	if (!find_unserved_queue(f) || f->n_threads == THREADS_MAX ||
		pthread_attr_init(&attr) != 0)
		return;
	(void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	(void)pthread_attr_setstacksize(&attr, STACK_BYTES);
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	if (pthread_create(&t, &attr, run_passed_fds_thread, f) == 0)
		f->n_threads++;
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	(void)pthread_attr_destroy(&attr);
}

/* --- the loop --- */

static void on_passed_fds_jobs_done(uv_async_t *h)
{
	struct passed_fds *f = h->data;
	struct fd_job *done;

	(void)pthread_mutex_lock(&f->lock);
	done = STEAL_PTR(f->done);
	(void)pthread_mutex_unlock(&f->lock);
	for (const struct fd_job *j = done; j; j = j->next) {
		if (j->emptied)
			j->emptied(j->arg, j->fd);
		else
			f->closed(j->slice, j->counted);
	}
	free_jobs(done);
}

struct passed_fds *passed_fds_new(uv_loop_t *loop,
	void (*closed)(struct arbiter_slice *s, bool counted), struct error *err)
{
	struct passed_fds *f = calloc(1, sizeof(*f));
	int r;

	if (!f) {
		(void)error_nomem(err);
		return NULL;
	}
	r = uv_async_init(loop, &f->async, on_passed_fds_jobs_done);
	if (r < 0) {
		free(f);
		(void)error_sys(err, -r, "make an event");
		return NULL;
	}
	(void)pthread_mutex_init(&f->lock, NULL);
	f->closed = closed;
	f->async.data = f;
	return f;
}

static void on_passed_fds_async_closed(uv_handle_t *h)
{
	struct passed_fds *f = h->data;
	bool last;

	(void)pthread_mutex_lock(&f->lock);
	last = --f->n_threads == 0;
	(void)pthread_mutex_unlock(&f->lock);
	if (last)
		free_passed_fds(f);
}

struct passed_fds *passed_fds_stop(struct passed_fds *f)
{
	if (!f)
		return NULL;
	(void)pthread_mutex_lock(&f->lock);
	f->stopped = true;
	f->n_threads++; /* counts the handle as a user */
	(void)pthread_mutex_unlock(&f->lock);
	uv_close((uv_handle_t *)&f->async, on_passed_fds_async_closed);
	return NULL;
}

/* False: no memory. */
static bool submit_passed_fds_job(struct passed_fds *f, const void *owner,
	const struct fd_job *job)
{
	struct fd_job *j = malloc(sizeof(*j));
	struct fd_job_queue *q;

	if (!j)
		return false;
	*j = *job;
	(void)pthread_mutex_lock(&f->lock);
	q = get_owner_queue(f, owner);
	if (q) {
		*q->end = j;
		q->end = &j->next;
		start_passed_fds_thread(f);
	}
	(void)pthread_mutex_unlock(&f->lock);
	if (!q)
		free(j);
	return q != NULL;
}

void passed_fds_retry(struct passed_fds *f)
{
	(void)pthread_mutex_lock(&f->lock);
	start_passed_fds_thread(f);
	(void)pthread_mutex_unlock(&f->lock);
}

void passed_fds_close(struct passed_fds *f, struct arbiter_slice *s, bool counted, int sock,
	int fd)
{
	(void)submit_passed_fds_job(f, s,
		&(struct fd_job){ .sock = sock, .fd = fd, .counted = counted, .slice = s });
}

bool passed_fds_empty_memfd(struct passed_fds *f, const void *owner, int fd, off_t bytes,
	void (*emptied)(void *arg, int fd), void *arg)
{
	return submit_passed_fds_job(f, owner,
		&(struct fd_job){ .sock = -1,
			.fd = fd,
			.emptied = emptied,
			.arg = arg,
			.bytes = bytes });
}
