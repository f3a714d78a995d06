/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the interception libraries have of the system: locks, a clock, system calls, memory that a fork wipes, and
 * warnings. They are guests in a process of a program. So they use syscall() instead of the wrappers of libc, for
 * three reasons:
 *	- a wrapper can be cancelled (pthread_cancel) while the calling thread holds a lock of the library;
 *	- other preloaded libraries can replace a wrapper;
 *	- an old libc lacks some versions of wrappers (fstat, fcntl64).
 * The calls that can wait are repeated after EINTR. Thread: any.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static inline uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* --- locks --- */

/* 0: free, 1: held, 2: held, and threads may wait. Zeroed memory is a free lock. Not recursive. */
struct sys_lock {
	_Atomic uint32_t word;
};

static inline void sys_lock(struct sys_lock *l)
{
	uint32_t was = 0;

	if (atomic_compare_exchange_strong(&l->word, &was, 1))
		return;
	if (was != 2)
		was = atomic_exchange(&l->word, 2);
	while (was) {
		int e = errno;

		(void)syscall(SYS_futex, &l->word, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
		errno = e;
		was = atomic_exchange(&l->word, 2);
	}
}

/* False: another thread holds the lock. Does not block. */
static inline bool sys_trylock(struct sys_lock *l)
{
	uint32_t was = 0;

	return atomic_compare_exchange_strong(&l->word, &was, 1);
}

static inline void sys_unlock(struct sys_lock *l)
{
	if (atomic_exchange(&l->word, 0) == 2) {
		int e = errno;

		(void)syscall(SYS_futex, &l->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
		errno = e;
	}
}

/* --- clock and futexes --- */

/* Milliseconds of the monotonic clock. */
static inline int64_t sys_now(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Nanoseconds of the monotonic clock. */
static inline uint64_t sys_now_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Sleeps while *word is @value, until another thread wakes this one or @ns have passed (UINT64_MAX: no end). May
 * return early. @shared: another process maps the memory of the word too. */
static inline void sys_futex_wait(_Atomic uint32_t *word, uint32_t value, uint64_t ns,
	bool shared)
{
	struct timespec t = { .tv_sec = (time_t)(ns / 1000000000),
		.tv_nsec = (long)(ns % 1000000000) };

	(void)syscall(SYS_futex, word, shared ? FUTEX_WAIT : FUTEX_WAIT_PRIVATE, value,
		ns == UINT64_MAX ? NULL : &t, NULL, 0);
}

/* Wakes up to @n threads of this process that sleep on @word. */
static inline void sys_futex_wake_some(_Atomic uint32_t *word, int n)
{
	(void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

/* Wakes all threads that sleep on @word. @shared: as in sys_futex_wait(). */
static inline void sys_futex_wake(_Atomic uint32_t *word, bool shared)
{
	(void)syscall(SYS_futex, word, shared ? FUTEX_WAKE : FUTEX_WAKE_PRIVATE, INT32_MAX,
		NULL, NULL, 0);
}

/* --- descriptors --- */

/* Waits until @fd has one of @events (@fd < 0: only sleeps) or sys_now() reaches @deadline. False: the deadline. */
static inline bool sys_wait(int fd, short events, int64_t deadline)
{
	struct pollfd p = { .fd = fd, .events = events };

	for (;;) {
		int64_t left = deadline - sys_now();
		struct timespec t;

		if (left <= 0)
			return false;
		t = (struct timespec){ .tv_sec = left / 1000,
			.tv_nsec = left % 1000 * 1000000 };
		if (syscall(SYS_ppoll, &p, fd < 0 ? 0L : 1L, &t, NULL, 0L) > 0)
			return true;
	}
}

static inline int sys_close(int fd)
{
	return (int)syscall(SYS_close, fd); /* after EINTR the descriptor is closed too */
}

static inline int sys_open(const char *path, int flags)
{
	long fd;

	do
		fd = syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, 0);
	while (fd < 0 && errno == EINTR);
	return (int)fd;
}

static inline ssize_t sys_read(int fd, void *buf, size_t len)
{
	ssize_t n;

	do
		n = syscall(SYS_read, fd, buf, len);
	while (n < 0 && errno == EINTR);
	return n;
}

static inline int sys_fstat(int fd, struct stat *ret)
{
	return (int)syscall(SYS_fstat, fd, ret);
}

/* For a nonblocking socket. 0 or -1; EAGAIN: the queue of the listening socket is full. */
static inline int sys_connect(int fd, const void *address, uint32_t len)
{
	long r;

	do
		r = syscall(SYS_connect, fd, address, len);
	while (r < 0 && errno == EINTR);
	return (int)r;
}

/* For a nonblocking socket. Waits until @deadline at most (ETIMEDOUT). */
static inline ssize_t sys_sendmsg(int fd, const struct msghdr *m, int64_t deadline)
{
	for (;;) {
		ssize_t n = syscall(SYS_sendmsg, fd, m, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n >= 0 || (errno != EAGAIN && errno != EINTR))
			return n;
		if (errno == EAGAIN && !sys_wait(fd, POLLOUT, deadline)) {
			errno = ETIMEDOUT;
			return -1;
		}
	}
}

static inline ssize_t sys_recvmsg(int fd, struct msghdr *m, int64_t deadline)
{
	size_t room = m->msg_controllen;

	for (;;) {
		ssize_t n;

		m->msg_controllen = room;
		n = syscall(SYS_recvmsg, fd, m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
		if (n >= 0 || (errno != EAGAIN && errno != EINTR))
			return n;
		if (errno == EAGAIN && !sys_wait(fd, POLLIN, deadline)) {
			errno = ETIMEDOUT;
			return -1;
		}
	}
}

/* --- memory that a fork wipes --- */

/*
 * Memory that the child of a fork finds zeroed, regardless of which thread forked and which locks were held
 * (MADV_WIPEONFORK, Linux 4.14). So a child starts without state, and the library needs no fork handler. On
 * older kernels a fork handler zeroes the memory; a bare clone() bypasses it.
 *
 * Only the root of the state is there. All other memory is found by pointers from it, so a child has no way to
 * that either.
 */

/* The block of *@where: @bytes of zeroed memory, made at the first call and never freed. NULL: no memory. */
void *wiped_get(_Atomic(void *) *where, size_t bytes);

/* Zeroed memory from the system, which a fork does not wipe. NULL: no memory. */
void *wiped_map(size_t bytes);
/* Frees memory of wiped_map(), with the same @bytes. Keeps errno. */
void wiped_unmap(void *p, size_t bytes);

/* --- warnings --- */

/*
 * The only output of the interception libraries: one line to stderr ("gpuslice: ...") when they cannot do their
 * work. Each library prints it once for each cause. Tools parse the output of programs, so nothing that works
 * has a line. Not async-signal-safe. Allocates nothing.
 */
enum warn_cause {
	WARN_NO_DRIVER,    /* the driver's library is absent */
	WARN_NO_ARBITER,   /* the arbiter does not answer: no grants beyond the present ones */
	WARN_NOT_ADMITTED, /* the arbiter refused this process */
	WARN_BAD_PAGE,
	WARN_NEW_NAMES, /* more new names of the driver than space for them */
	WARN_NO_ALLOC_TABLE,
	WARN_NOT_SCHEDULED, /* no gate holds the process's work */
	WARN_NO_MPS,        /* the slice runs under MPS, but this process does not */
	WARN_CAUSES
};

/* Prints the line, unless one was printed for @cause. @fmt: without "gpuslice: " and line feed. Keeps errno. */
void warn_once(enum warn_cause cause, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
