/* SPDX-License-Identifier: Apache-2.0 */
#include "io/web/worker/internal.h"

#include "lib/base/time.h"
#include "io/web/packet/throttle.h"
#include "io/web/packet/yield.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/*
 * The loop of the process.
 *
 * The loop accepts connections itself, so that a connection above a limit is closed at once instead of waiting
 * in the kernel's queue. It hands the others to libmicrohttpd, which never waits. The process waits only in
 * this loop, and in web_link_request() for the agent.
 *
 * libmicrohttpd has no call that closes a connection. The loop shuts down a connection whose time is up;
 * libmicrohttpd sees that as a client that went away.
 *
 * libmicrohttpd up to 1.0 misses an end of the stream that comes together with the last bytes. The loop
 * therefore watches for it (EPOLLRDHUP). Otherwise a client that sends malformed bytes and leaves would keep
 * its connection until the deadline.
 */

#define EVENTS          64
#define ACCEPTS         64                /* in one round */
#define ACCEPT_PAUSE_NS (100 * NS_PER_MS) /* when no descriptors are left */

/* A NOTICE that could not be sent is sent with the next check. */
static void notify_web_agent(struct web_server *w, const struct error *why)
{
	if (strcmp(w->noticed, why->msg) != 0 &&
		web_message_send(WEB_FD_SOCKET, WEB_PACKET_NOTICE, why))
		memcpy(w->noticed, why->msg, sizeof(w->noticed));
}

/* Reads the files again, if a check is due. Sends the agent a NOTICE when they become invalid, and when they
 * are valid again. */
static void web_check_files(struct web_server *w, uint64_t now_ns)
{
	struct error why = ERROR_INIT, tls = ERROR_INIT;
	bool token_ok, tls_ok;

	if (now_ns - w->checked_ns < w->limits.check_ns)
		return;
	w->checked_ns = now_ns;
	token_ok = web_token_refresh(&w->token, &why) == 0;
	tls_ok = web_tls_refresh(&w->tls, w->conns.last_serial, &tls) == 0;
	if (token_ok && !tls_ok) {
		why = tls;
	} else if (!tls_ok) {
		error_suffix(&why, "; ");
		error_suffix(&why, tls.msg);
	}
	notify_web_agent(w, &why);
	if (w->tls.retired)
		web_tls_drop(&w->tls, web_conn_list_oldest_serial(&w->conns));
}

/* --- connections --- */

/* The watch ends when the descriptor is closed. */
static void watch_conn_end(struct web_server *w, struct web_conn *c)
{
	struct epoll_event e = { .events = EPOLLRDHUP | EPOLLET | EPOLLONESHOT, .data.ptr = c };

	(void)epoll_ctl(w->epoll_fd, EPOLL_CTL_ADD, c->fd, &e);
}

static void on_conn_hangup(struct web_server *w, struct web_conn *c)
{
	c->ended = true;
	if (c->state == WEB_CONN_REQUEST || c->state == WEB_CONN_IDLE)
		web_conn_list_set_state(&w->conns, c, WEB_CONN_ENDING, time_mono_ns());
}

static void publish_open(struct web_server *w)
{
	atomic_store_explicit(&w->shm->open, w->conns.open, memory_order_relaxed);
}

static void free_web_conn(struct web_server *w, struct web_conn *c)
{
	web_conn_list_remove(&w->conns, c);
	free(c);
	publish_open(w);
}

/* Runs when libmicrohttpd has begun a connection. NULL: the loop has given that connection up. */
static struct web_conn *begin_web_conn(struct web_server *w, int fd)
{
	struct web_conn *c = web_conn_list_find_new(&w->conns, fd);

	if (!c) {
		(void)shutdown(fd, SHUT_RDWR);
		return NULL;
	}
	c->has_request = true;
	watch_conn_end(w, c);
	return c;
}

static void end_web_conn(struct web_server *w, struct web_conn *c)
{
	if (!c->heard && !c->late)
		web_count(&w->shm->malformed);
	free_web_conn(w, c);
}

void web_on_connection(void *cls, struct MHD_Connection *mhd, void **context,
	enum MHD_ConnectionNotificationCode what)
{
	struct web_server *w = cls;

	if (what == MHD_CONNECTION_NOTIFY_STARTED) {
		const union MHD_ConnectionInfo *info =
			MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);

		*context = info ? begin_web_conn(w, info->connect_fd) : NULL;
	} else if (*context) {
		end_web_conn(w, *context);
		*context = NULL;
	}
}

static void cut_web_conn(struct web_server *w, struct web_conn *c,
	atomic_uint_fast64_t *counter)
{
	if (counter) {
		c->late = true;
		web_count(counter);
	}
	web_conn_list_set_state(&w->conns, c, WEB_CONN_CUT, time_mono_ns());
	(void)shutdown(c->fd, SHUT_RDWR);
}

static void cut_due_web_conns(struct web_server *w, uint64_t now_ns)
{
	struct web_conn *c;

	while ((c = web_conn_list_find_due(&w->conns, now_ns)))
		cut_web_conn(w, c,
			c->state == WEB_CONN_REQUEST || c->state == WEB_CONN_REPLY
				? &w->shm->timeouts
				: NULL);
}

static bool displace_web_conn(struct web_server *w)
{
	struct web_conn *victim = web_conn_list_find_victim(&w->conns);

	if (!victim || w->conns.cut >= WEB_LEAVING_MAX)
		return false;
	cut_web_conn(w, victim, &w->shm->displaced);
	return true;
}

/* Resets the connection, so that the kernel keeps nothing of it. */
static void reset_refused_socket(int fd)
{
	const struct linger at_once = { .l_onoff = 1 };

	(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	(void)close(fd);
}

/*
 * Hands the connection to libmicrohttpd, which owns the descriptor from here on, even when it refuses. Up to
 * 0.9.75 libmicrohttpd begins the connection at once. From 1.0 on it queues the connection for its next run,
 * and may drop it there without notice. So @c may be gone after each of the calls. A connection that has not
 * begun after that run is given up.
 */
static void add_mhd_connection(struct web_server *w, struct web_conn *c,
	const struct sockaddr *from, socklen_t len)
{
	int fd = c->fd;

	web_conn_list_add(&w->conns, c, time_mono_ns());
	publish_open(w);
	if (MHD_add_connection(w->daemon, fd, from, len) == MHD_YES &&
		web_conn_list_find_new(&w->conns, fd))
		(void)MHD_run(w->daemon);
	c = web_conn_list_find_new(&w->conns, fd);
	if (c)
		free_web_conn(w, c);
}

static void admit_connection(struct web_server *w, int fd, const struct sockaddr_storage *from,
	socklen_t len)
{
	struct in6_addr addr = web_address(from);
	enum web_verdict verdict = web_conn_list_admit(&w->conns, &addr);
	struct web_conn *c = NULL;

	if (verdict == WEB_ADMITTED || (verdict == WEB_FULL && displace_web_conn(w)))
		c = calloc(1, sizeof(*c));
	if (!c) {
		web_count(verdict == WEB_ADDRESS_FULL ? &w->shm->refused_address
						      : &w->shm->refused_full);
		reset_refused_socket(fd);
		return;
	}
	c->fd = fd;
	c->addr = addr;
	add_mhd_connection(w, c, (const struct sockaddr *)from, len);
}

/* Whether an error of accept() belongs to one connection, so that the next accept() may succeed. */
static bool is_of_connection(int failure)
{
	switch (failure) {
	case EINTR:
	case ECONNABORTED:
	case EPERM: /* a firewall */
	case EPROTO:
	case ENOPROTOOPT:
	case EOPNOTSUPP:
	case EHOSTDOWN:
	case EHOSTUNREACH:
	case ENONET:
	case ENETDOWN:
	case ENETUNREACH:
		return true;
	default:
		return false;
	}
}

/* False: an immediate retry is useless, as no descriptors are left. */
static bool accept_some(struct web_server *w)
{
	for (int i = 0; i < ACCEPTS; i++) {
		struct sockaddr_storage from = { .ss_family = AF_UNSPEC };
		socklen_t len = sizeof(from);
		int fd = accept4(w->listen_fd, (struct sockaddr *)&from, &len,
			SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0)
			admit_connection(w, fd, &from, len);
		else if (errno == EAGAIN)
			return true;
		else if (!is_of_connection(errno))
			return false;
	}
	return true;
}

static void watch_listener(struct web_server *w, bool on)
{
	struct epoll_event e = { .events = on ? EPOLLIN : 0, .data.ptr = &w->listen_fd };

	(void)epoll_ctl(w->epoll_fd, EPOLL_CTL_MOD, w->listen_fd, &e);
}

static void accept_or_pause(struct web_server *w, uint64_t now_ns)
{
	if (accept_some(w))
		return;
	w->accept_after_ns = now_ns + ACCEPT_PAUSE_NS;
	watch_listener(w, false);
}

/* --- the loop --- */

static int ms_until(uint64_t at_ns, uint64_t now_ns)
{
	if (at_ns == UINT64_MAX)
		return -1;
	if (at_ns <= now_ns)
		return 0;
	at_ns = (at_ns - now_ns + NS_PER_MS - 1) / NS_PER_MS;
	return at_ns < 60000 ? (int)at_ns : 60000;
}

/* *ret_pending: libmicrohttpd wants to run at once. */
static int wait_ms(struct web_server *w, unsigned idle_rounds, bool *ret_pending)
{
	uint64_t now_ns = time_mono_ns(), at_ns = web_conn_list_deadline(&w->conns);
	MHD_UNSIGNED_LONG_LONG ms;
	int wait;

	if (w->accept_after_ns && w->accept_after_ns < at_ns)
		at_ns = w->accept_after_ns;
	if (at_ns - now_ns > w->loop_max_ns && at_ns > now_ns)
		at_ns = now_ns + w->loop_max_ns;
	wait = ms_until(at_ns, now_ns);
	*ret_pending = MHD_get_timeout(w->daemon, &ms) == MHD_YES && ms == 0;
	if (*ret_pending && (wait < 0 || wait > web_spin_wait_ms(idle_rounds)))
		wait = web_spin_wait_ms(idle_rounds);
	return wait;
}

static uint64_t get_server_cpu_ns(const struct web_server *w)
{
	return web_thread_cpu_ns() + w->agent_cpu_ns;
}

static void throttle_web_server(struct web_server *w, struct web_throttle *pace)
{
	uint64_t ns = web_throttle_get_pause_ns(pace, time_mono_ns(), get_server_cpu_ns(w));
	struct pollfd agent = { .fd = WEB_FD_SOCKET, .events = POLLIN };

	if (ns < NS_PER_MS)
		return;
	web_count(&w->shm->throttled);
	while (ns >= NS_PER_MS) {
		uint64_t some_ns = ns < w->loop_max_ns ? ns : w->loop_max_ns;

		if (poll(&agent, 1, (int)((some_ns + NS_PER_MS - 1) / NS_PER_MS)) > 0)
			return;
		web_count(&w->shm->loop_count);
		ns -= some_ns;
	}
}

static void run_server_work(struct web_server *w, bool arrivals)
{
	uint64_t now_ns = time_mono_ns();

	web_check_files(w, now_ns);
	cut_due_web_conns(w, now_ns);
	if (w->accept_after_ns && w->accept_after_ns <= now_ns) {
		w->accept_after_ns = 0;
		watch_listener(w, true);
	}
	if (arrivals)
		accept_or_pause(w, now_ns);
	(void)MHD_run(w->daemon);
}

/* Waits for events and records them. False: there were none. */
static bool wait_events(struct web_server *w, int wait, bool *ret_arrivals)
{
	struct epoll_event events[EVENTS];
	int n = epoll_wait(w->epoll_fd, events, ARRAY_LEN(events), wait);

	*ret_arrivals = false;
	for (int i = 0; i < n; i++) {
		void *what = events[i].data.ptr;

		if (what == &w->link)
			web_link_end(w);
		else if (what == &w->listen_fd)
			*ret_arrivals = true;
		else if (what != &w->daemon)
			on_conn_hangup(w, what);
	}
	return n > 0;
}

void web_server_run(struct web_server *w)
{
	struct web_yield yield;
	struct web_throttle pace;
	unsigned idle_rounds = 0;

	web_yield_begin(&yield, time_mono_ns());
	web_tls_use(&w->tls);
	web_throttle_init(&pace, w->limits.cpu_permille, time_mono_ns(), get_server_cpu_ns(w));
	while (!w->link.ended) {
		bool pending, arrivals;
		int wait = wait_ms(w, idle_rounds, &pending);
		bool any = wait_events(w, wait, &arrivals);

		web_count(&w->shm->loop_count); /* shows the agent that the loop runs */
		idle_rounds = pending && !any ? idle_rounds + 1 : 0;
		if (w->link.ended)
			break;
		run_server_work(w, arrivals);
		throttle_web_server(w, &pace);
		web_yield_update(&yield, time_mono_ns());
	}
}
