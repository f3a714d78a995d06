/* SPDX-License-Identifier: Apache-2.0 */
#include "io/web/internal.h"

#include "lib/base/fd.h"
#include "lib/http/listen.h"
#include "io/web/packet/throttle.h"
#include "io/web/packet/yield.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/*
 * The agent's thread for its web server.
 *
 * The thread starts the process and answers its requests, one at a time. It restarts a process that has ended,
 * hangs, or sends a malformed packet. The listening socket is the agent's: while there is no process,
 * connections wait in its queue.
 *
 * Waits. Whatever the process does, the thread waits in these places only:
 *  1. in wait_web_event() and pause_web_thread(), which web_stop() ends at once;
 *  2. for up to WEB_END_NS, for the process to exit by itself;
 *  3. for up to WEB_KILL_NS more, for a process that it kills.
 */

#define HANG_CHECKS 4 /* checks whether the loop runs, in .hang_ns */

enum web_wake { WAKE_TIME, WAKE_STOP, WAKE_PACKET };

/* Waits up to @for_ns for a packet, the end of the process, or web_stop(). */
static enum web_wake wait_web_event(const struct web *w, uint64_t for_ns)
{
	struct pollfd fds[] = { { .fd = w->stop_fd, .events = POLLIN },
		{ .fd = w->process.sock, .events = POLLIN } };

	(void)poll(fds, ARRAY_LEN(fds), (int)((for_ns + NS_PER_MS - 1) / NS_PER_MS));
	if (fds[0].revents)
		return WAKE_STOP;
	return fds[1].revents ? WAKE_PACKET : WAKE_TIME;
}

/* --- the start of a process --- */

static int set_refusal_error(const struct web_message *word, struct error *err)
{
	error_copy(err, &word->error);
	if (!err->code)
		err->code = ERR_INTERNAL;
	return -1;
}

/* Receives READY or REFUSED, the first packet of a process. > 0: the process has ended. */
static int receive_first(struct web *w, struct error *err)
{
	uint64_t now_ns, until_ns = w->started_ns + WEB_READY_NS;
	struct web_message word;
	size_t len = 0;
	int r = 1;

	while (r > 0) {
		now_ns = time_mono_ns();
		if (now_ns >= until_ns)
			return error_set(err, ERR_TIMEOUT,
				"the web server's process did not come up in time");
		if (wait_web_event(w, until_ns - now_ns) == WAKE_STOP)
			return error_set(err, ERR_CANCELLED, "the web server is being stopped");
		r = web_packet_receive(w->process.sock, w->packet, &len, NULL, err);
	}
	if (r < 0 || (len > 0 && web_unpack_message(w->packet, len, &word, err) < 0))
		return -1;
	if (len == 0)
		return 1;
	return word.type == WEB_PACKET_READY ? 0 : set_refusal_error(&word, err);
}

static bool is_loopback(int fd)
{
	struct sockaddr_storage name = { .ss_family = AF_UNSPEC };
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)&name;
	const struct in6_addr *v6 = &((const struct sockaddr_in6 *)&name)->sin6_addr;
	socklen_t len = sizeof(name);

	if (getsockname(fd, (struct sockaddr *)&name, &len) < 0)
		return false;
	if (name.ss_family == AF_INET)
		return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
	return name.ss_family == AF_INET6 &&
	       (IN6_IS_ADDR_LOOPBACK(v6) ||
		       (IN6_IS_ADDR_V4MAPPED(v6) && v6->s6_addr[12] == 127));
}

/* The process shares the socket. A compromised process may have made it unusable for the next process. */
static bool still_listens(int fd)
{
	int on = 0;
	socklen_t len = sizeof(on);

	return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &on, &len) == 0 && on &&
	       fcntl(fd, F_SETFL, O_NONBLOCK) == 0;
}

/* Listens on the last port, if there was one. */
static int listen_again(struct web *w, unsigned *ret_port, struct error *err)
{
	char host[HTTP_HOST_MAX], address[HTTP_HOST_MAX + 16];
	unsigned before = atomic_load(&w->port);
	const char *port;

	if (!before)
		return http_listen_tcp(w->listen, &w->listen_fd, ret_port, err);
	if (http_split_address(w->listen, host, &port, err) < 0)
		return -1;
	(void)snprintf(address, sizeof(address), strchr(host, ':') ? "[%s]:%u" : "%s:%u", host,
		before);
	return http_listen_tcp(address, &w->listen_fd, ret_port, err);
}

/* Keeps the socket over restarts of the process. */
static int make_listener(struct web *w, struct error *err)
{
	unsigned port = 0;

	if (w->listen_fd >= 0 && still_listens(w->listen_fd))
		return 0;
	closep(&w->listen_fd);
	if (listen_again(w, &port, err) < 0)
		return -1;
	w->only_local = w->no_token && is_loopback(w->listen_fd);
	w->listen_port = port;
	return 0;
}

static int hand_listener(struct web *w, struct error *err)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(WEB_PACKET_MAX);

	web_pack_listen(&b, w->only_local);
	if (!buf_ok(&b))
		return error_nomem(err);
	return web_packet_send(w->process.sock, &b, w->listen_fd, err);
}

static uint64_t read_loop_count(const struct web *w)
{
	return atomic_load_explicit(&w->shm->loop_count, memory_order_relaxed);
}

static int start_server_process(struct web *w, struct error *err)
{
	char how[128];
	int r;

	w->started_ns = time_mono_ns();
	/* Before the process: no process is needed to find that the address is in use. */
	if (make_listener(w, err) < 0)
		return -1;
	if (web_process_start(&w->process, w->worker_path, w->shm_fd, err) < 0)
		return -1;
	/* If the process has ended already, receive_first() reports that. */
	if (web_packet_send(w->process.sock, &w->start, -1, err) < 0)
		error_clear(err);
	r = receive_first(w, err);
	if (r == 0)
		r = hand_listener(w, err);
	if (r != 0)
		(void)web_process_end(&w->process, r > 0 ? WEB_END_NS : 0, how, sizeof(how));
	if (r > 0)
		return error_set(err, ERR_UNAVAILABLE,
			"the web server's process %s before it was ready", how);
	w->loop_count = read_loop_count(w);
	w->loop_stalled_ns = 0;
	w->checked_ns = time_mono_ns();
	w->files_news = false;
	w->notices = WEB_NOTICES_MAX;
	w->notice_ns = w->checked_ns;
	return r;
}

/* --- the end of a process --- */

static void report_web_notice(const struct web *w, const struct error *err)
{
	if (w->ops.notice && !atomic_load(&w->detached))
		w->ops.notice(w->arg, err);
}

/* Sets when the next process starts. The delay doubles each time, unless the last process served for long. */
static void plan_next(struct web *w)
{
	uint64_t most_ns = WEB_RESTART_DELAY_MAX * w->limits.restart_ns,
		 now_ns = time_mono_ns();

	if (!w->delay_ns || now_ns - w->started_ns >= most_ns)
		w->delay_ns = w->limits.restart_ns;
	else
		w->delay_ns = 2 * w->delay_ns < most_ns ? 2 * w->delay_ns : most_ns;
	w->next_ns = now_ns + w->delay_ns;
}

static void set_web_state(struct web *w, enum web_state state, const struct error *why)
{
	(void)pthread_mutex_lock(&w->lock);
	w->state = state;
	w->why = *why;
	(void)pthread_mutex_unlock(&w->lock);
}

/* @why NULL: the process has ended by itself. */
static void end_process(struct web *w, const struct error *why)
{
	struct error notice = ERROR_INIT;
	char how[128], delay[TIME_AGE_MAX];

	(void)web_process_end(&w->process, why ? 0 : WEB_END_NS, how, sizeof(how));
	atomic_store_explicit(&w->shm->open, 0, memory_order_relaxed);
	plan_next(w);
	time_age(w->delay_ns, delay);
	(void)error_set(&notice, ERR_UNAVAILABLE,
		"the web server's process %s; it is started again in %s",
		why ? "was killed" : how, delay);
	if (why)
		(void)error_prefix(&notice, "%s", why->msg);
	set_web_state(w, WEB_DOWN, &notice);
	report_web_notice(w, &notice);
}

static void set_web_serving(struct web *w)
{
	const struct error none = ERROR_INIT;

	w->last_failure[0] = '\0';
	/* Before the state: a reader of the state asks for the port. */
	atomic_store(&w->port, w->listen_port);
	set_web_state(w, WEB_SERVING, &none);
	if (w->served)
		return;
	w->served = true;
	if (w->ops.serving && !atomic_load(&w->detached))
		w->ops.serving(w->arg, w->listen_port);
}

/* The same failure may repeat for long, such as a missing token file: the thread reports it once. */
static void start_server_or_retry(struct web *w)
{
	struct error err = ERROR_INIT;

	if (start_server_process(w, &err) == 0) {
		set_web_serving(w);
		return;
	}
	/* A client that connects then gets a refusal at once. */
	if (!w->served)
		closep(&w->listen_fd);
	plan_next(w);
	set_web_state(w, WEB_DOWN, &err);
	if (err.code == ERR_CANCELLED || !strcmp(w->last_failure, err.msg))
		return;
	(void)snprintf(w->last_failure, sizeof(w->last_failure), "%s", err.msg);
	report_web_notice(w, &err);
}

/* --- while it serves --- */

/* Reports the last NOTICE of the process. The reports have a rate limit; a NOTICE above the limit is
 * reported later. */
static void report_files(struct web *w)
{
	uint64_t now_ns = time_mono_ns();

	if (now_ns - w->notice_ns >= WEB_NOTICE_NS && w->notices < WEB_NOTICES_MAX) {
		w->notice_ns = now_ns;
		w->notices++;
	}
	if (!w->files_news || w->notices == 0)
		return;
	w->files_news = false;
	w->notices--;
	set_web_state(w, WEB_SERVING, &w->files);
	if (w->files.code != ERR_NONE)
		report_web_notice(w, &w->files);
}

/* > 0: the process has ended. */
static int apply_web_packet(struct web *w, struct error *err)
{
	enum web_packet type;
	struct web_message word;
	size_t len = 0;
	int r = web_packet_receive(w->process.sock, w->packet, &len, NULL, err);

	if (r != 0)
		return r < 0 ? -1 : 0;
	if (len == 0 || atomic_load(&w->detached))
		return 1;
	if (web_packet_type(w->packet, len, &type, err) < 0)
		return -1;
	if (type != WEB_PACKET_NOTICE && type != WEB_PACKET_REFUSED)
		return web_reply(w, w->packet, len, err);
	if (web_unpack_message(w->packet, len, &word, err) < 0)
		return -1;
	if (type == WEB_PACKET_REFUSED)
		return set_refusal_error(&word, err);
	w->files = word.error;
	w->files_news = true;
	report_files(w);
	return 0;
}

static int check_process_hang(struct web *w, struct error *err)
{
	uint64_t now_ns = time_mono_ns(), turns = read_loop_count(w);
	uint64_t passed_ns = now_ns - w->checked_ns,
		 most_ns = 2 * w->limits.hang_ns / HANG_CHECKS;
	char age[TIME_AGE_MAX];

	/* One check adds a bounded time: the whole machine or container, and the process with it, may have
	 * been paused. */
	w->loop_stalled_ns =
		turns != w->loop_count
			? 0
			: w->loop_stalled_ns + (passed_ns < most_ns ? passed_ns : most_ns);
	w->loop_count = turns;
	w->checked_ns = now_ns;
	if (w->loop_stalled_ns < w->limits.hang_ns)
		return 0;
	time_age(w->limits.hang_ns, age);
	return error_set(err, ERR_TIMEOUT, "the web server's process has done nothing for %s",
		age);
}

static void handle_web_process(struct web *w, enum web_wake wake)
{
	struct error err = ERROR_INIT;
	int r = wake == WAKE_PACKET ? apply_web_packet(w, &err) : 0;

	report_files(w);
	if (r == 0)
		r = check_process_hang(w, &err);
	/* EPIPE: the process closed its socket before the reply, which is an end by itself too. */
	if (r != 0)
		end_process(w, r < 0 && err.sys != EPIPE ? &err : NULL);
}

/* The process keeps to its CPU limit, and counts this thread's CPU time in. This pause holds the limit if
 * the process does not. True: web_stop() was called. */
static bool pause_web_thread(const struct web *w, struct web_throttle *pace)
{
	uint64_t ns = web_throttle_get_pause_ns(pace, time_mono_ns(), web_thread_cpu_ns());
	struct pollfd stop = { .fd = w->stop_fd, .events = POLLIN };

	return ns >= NS_PER_MS && poll(&stop, 1, (int)(ns / NS_PER_MS)) > 0;
}

static uint64_t time_left_ns(const struct web *w)
{
	uint64_t now_ns = time_mono_ns();

	if (w->process.pid > 0)
		return w->limits.hang_ns / HANG_CHECKS;
	return w->next_ns > now_ns ? w->next_ns - now_ns : 0;
}

static void run_web_thread(struct web *w)
{
	struct web_yield yield;
	struct web_throttle pace;
	enum web_wake wake;

	web_yield_begin(&yield, time_mono_ns());
	web_throttle_init(&pace, w->limits.cpu_permille, time_mono_ns(), web_thread_cpu_ns());
	while ((wake = wait_web_event(w, time_left_ns(w))) != WAKE_STOP) {
		if (w->process.pid > 0) {
			handle_web_process(w, wake);
		} else if (time_left_ns(w) == 0) {
			/* The process inherits this thread's scheduling policy. */
			web_yield_pause(&yield, time_mono_ns());
			start_server_or_retry(w);
		}
		if (pause_web_thread(w, &pace))
			return;
		web_yield_update(&yield, time_mono_ns());
	}
}

static void stop_server_process(struct web *w)
{
	struct error notice = ERROR_INIT;
	char how[128];

	if (web_process_end(&w->process, WEB_END_NS, how, sizeof(how)))
		return;
	(void)error_set(&notice, ERR_UNAVAILABLE, "asked to end, the web server's process %s",
		how);
	report_web_notice(w, &notice);
}

void *web_thread(void *web)
{
	const uint64_t one = 1;
	struct web *w = web;

	(void)pthread_setname_np(pthread_self(), "web");
	run_web_thread(w);
	stop_server_process(w);
	(void)!write(w->ended_fd, &one, sizeof(one));
	if (atomic_exchange(&w->detached, true))
		web_release(w);
	return NULL;
}
