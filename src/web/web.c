/* SPDX-License-Identifier: Apache-2.0 */
#include "web/internal.h"

#include "base/fd.h"
#include "http/listen.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

/* Of a connection: twice the headers, as libmicrohttpd keeps what it has parsed beside the text. */
#define POOL_BYTES ((size_t)2 * WEB_HEADERS_MAX)
#define PRIORITIES "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

static const struct web_limits usual = {
	.connections = 512,
	.per_address = 64,
	.cpu_permille = 500,
	.request_ns = 10 * NS_PER_SEC,
	.idle_ns = 20 * NS_PER_SEC,
	.reply_ns = 30 * NS_PER_SEC,
	.check_ns = NS_PER_SEC,
};

/* So many descriptors are left to the others in this process, or half of all where they are few: who comes to the port
 * must not take those that the process needs for its work. */
static unsigned fitting(unsigned connections)
{
	struct rlimit r;
	rlim_t taken, others;

	if (getrlimit(RLIMIT_NOFILE, &r) < 0)
		return connections;
	others = r.rlim_cur / 2 < WEB_OTHERS_FDS ? r.rlim_cur / 2 : WEB_OTHERS_FDS;
	taken = others + WEB_LEAVING_MAX;
	if (r.rlim_cur < taken + WEB_CONNECTIONS_MIN)
		return WEB_CONNECTIONS_MIN;
	return r.rlim_cur - taken < connections ? (unsigned)(r.rlim_cur - taken) : connections;
}

#define OR_USUAL(limits, field) ((limits)->field ? (limits)->field : usual.field)

static void set_limits(struct web *w, const struct web_limits *l)
{
	w->limits = (struct web_limits){
		.connections = fitting(OR_USUAL(l, connections)),
		.per_address = OR_USUAL(l, per_address),
		.cpu_permille = OR_USUAL(l, cpu_permille),
		.request_ns = OR_USUAL(l, request_ns),
		.idle_ns = OR_USUAL(l, idle_ns),
		.reply_ns = OR_USUAL(l, reply_ns),
		.check_ns = OR_USUAL(l, check_ns),
	};
	w->book.connections = w->limits.connections;
	w->book.per_address = w->limits.per_address;
	w->book.lasts_ns[WEB_CONN_REQUEST] = w->limits.request_ns;
	w->book.lasts_ns[WEB_CONN_IDLE] = w->limits.idle_ns;
	w->book.lasts_ns[WEB_CONN_REPLY] = w->limits.reply_ns;
	w->book.lasts_ns[WEB_CONN_ENDING] = WEB_ENDING_NS;
}

static struct web *web_free(struct web *w)
{
	if (!w)
		return NULL;
	closep(&w->listen_fd);
	closep(&w->epoll_fd);
	closep(&w->stop_fd);
	web_token_fini(&w->token);
	web_tls_fini(&w->tls);
	for (size_t i = 0; i < ARRAY_LEN(w->paths); i++)
		free(w->paths[i]);
	free(w);
	return NULL;
}

DEFINE_CLEANUP(struct web *, web_free)

static bool is_loopback(int fd)
{
	struct sockaddr_storage name = { .ss_family = AF_UNSPEC };
	socklen_t len = sizeof(name);
	struct in6_addr a;

	if (getsockname(fd, (struct sockaddr *)&name, &len) < 0)
		return false;
	a = web_address(&name);
	return IN6_IS_ADDR_LOOPBACK(&a) || (IN6_IS_ADDR_V4MAPPED(&a) && a.s6_addr[12] == 127);
}

static int copy_paths(struct web *w, const struct web_options *o, struct error *err)
{
	const char *const from[] = { o->token_file, o->cert_file, o->key_file };

	static_assert(ARRAY_LEN(from) == ARRAY_LEN(w->paths), "one for each");
	for (size_t i = 0; i < ARRAY_LEN(from); i++) {
		w->paths[i] = from[i] ? strdup(from[i]) : NULL;
		if (from[i] && !w->paths[i])
			return error_nomem(err);
	}
	w->token.path = w->paths[0];
	w->tls.cert_path = w->paths[1];
	w->tls.key_path = w->paths[2];
	return 0;
}

static int load_files(struct web *w, const struct web_options *o, struct error *err)
{
	if (!o->cert_file != !o->key_file)
		return error_set(err, ERR_INVALID,
			"TLS needs a certificate and a key; there is only '%s'",
			o->cert_file ? o->cert_file : o->key_file);
	if (copy_paths(w, o, err) < 0)
		return -1;
	if (o->cert_file && MHD_is_feature_supported(MHD_FEATURE_TLS) != MHD_YES)
		return error_set(err, ERR_UNSUPPORTED,
			"this libmicrohttpd is built without TLS");
	w->checked_ns = time_mono_ns();
	if (web_token_refresh(&w->token, err) < 0)
		return -1;
	return web_tls_refresh(&w->tls, 0, err);
}

static int watch(struct web *w, int fd, void *what, struct error *err)
{
	struct epoll_event e = { .events = EPOLLIN, .data.ptr = what };

	if (epoll_ctl(w->epoll_fd, EPOLL_CTL_ADD, fd, &e) < 0)
		return error_sys(err, errno, "watch the web server");
	return 0;
}

static int start_daemon(struct web *w, struct error *err)
{
	unsigned flags = MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET;
	/* Only as far as TLS is used: GnuTLS is not touched otherwise. */
	const struct MHD_OptionItem tls[] = {
		{ MHD_OPTION_HTTPS_CERT_CALLBACK, 0, (void *)(uintptr_t)web_tls_retrieve },
		{ MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)PRIORITIES },
		{ MHD_OPTION_END, 0, NULL },
	};
	const struct MHD_OptionItem none[] = { { MHD_OPTION_END, 0, NULL } };
	const union MHD_DaemonInfo *info;

	if (w->tls.cert_path)
		flags |= MHD_USE_TLS;
	/* Its own limit of connections is never reached: 0.9.75 does not give back a lock there. */
	w->daemon = MHD_start_daemon(flags, 0, NULL, NULL, web_on_request, w,
		MHD_OPTION_NOTIFY_COMPLETED, web_on_completed, w, MHD_OPTION_NOTIFY_CONNECTION,
		web_on_connection, w, MHD_OPTION_CONNECTION_LIMIT,
		w->limits.connections + WEB_LEAVING_MAX + 1, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
		POOL_BYTES, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_ARRAY,
		w->tls.cert_path ? tls : none, MHD_OPTION_END);
	if (!w->daemon)
		return error_set(err, ERR_INTERNAL, "start the web server");
	info = MHD_get_daemon_info(w->daemon, MHD_DAEMON_INFO_EPOLL_FD);
	return info ? watch(w, info->epoll_fd, &w->daemon, err)
		    : error_set(err, ERR_INTERNAL, "start the web server: it has no epoll");
}

/* Signals are for the other threads. */
static int start_thread(struct web *w, struct error *err)
{
	sigset_t all, old;
	int r;

	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(&w->thread, NULL, web_main, w);
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	return r == 0 ? 0 : error_sys(err, r, "start the web thread");
}

static int open_all(struct web *w, const struct web_options *o, struct error *err)
{
	const char *port;

	if (http_split_address(o->listen, w->host, &port, err) < 0 ||
		http_listen_tcp(o->listen, &w->listen_fd, &w->port, err) < 0)
		return -1;
	w->only_local = !o->token_file && is_loopback(w->listen_fd);
	w->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	w->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (w->epoll_fd < 0 || w->stop_fd < 0)
		return error_sys(err, errno, "start the web server");
	if (watch(w, w->listen_fd, &w->listen_fd, err) < 0)
		return -1;
	return watch(w, w->stop_fd, &w->stop_fd, err);
}

int web_start(struct web **ret, const struct web_options *options, const struct web_ops *ops,
	void *arg, struct error *err)
{
	CLEANUP(web_freep) struct web *w = calloc(1, sizeof(*w));

	if (!w)
		return error_nomem(err);
	w->listen_fd = w->epoll_fd = w->stop_fd = -1;
	w->ops = *ops;
	w->arg = arg;
	set_limits(w, &options->limits);
	if (load_files(w, options, err) < 0 || open_all(w, options, err) < 0)
		return -1;
	if (start_daemon(w, err) < 0 || start_thread(w, err) < 0) {
		if (w->daemon)
			MHD_stop_daemon(w->daemon);
		return -1;
	}
	*ret = STEAL_PTR(w);
	return 0;
}

unsigned web_port(const struct web *w)
{
	return w->port;
}

#define COUNT(w, field) atomic_load_explicit(&(w)->field, memory_order_relaxed)

struct web_counts web_counts(const struct web *w)
{
	struct web_counts c = {
		.refused_full = COUNT(w, refused_full),
		.refused_address = COUNT(w, refused_address),
		.displaced = COUNT(w, displaced),
		.timeouts = COUNT(w, timeouts),
		.malformed = COUNT(w, malformed),
		.throttled = COUNT(w, throttled),
		.open = COUNT(w, open),
	};

	for (size_t i = 0; i < ARRAY_LEN(c.requests); i++)
		c.requests[i] = COUNT(w, requests[i]);
	return c;
}

struct web *web_stop(struct web *w)
{
	const uint64_t one = 1;

	if (!w)
		return NULL;
	(void)!write(w->stop_fd, &one, sizeof(one));
	(void)pthread_join(w->thread, NULL);
	return web_free(w);
}
