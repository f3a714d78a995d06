/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prepares the server in the process: limits, files, libmicrohttpd and the listener (internal.h). loop.c runs
 * it.
 */
#include "io/web/worker/internal.h"

#include "lib/base/fd.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/resource.h>

/* For one connection: twice the headers, as libmicrohttpd keeps its parsed form beside the text. */
#define POOL_BYTES ((size_t)2 * WEB_HEADERS_MAX)
#define PRIORITIES "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"
#define TURNS      8 /* least rounds of the loop in .hang_ns */

/* Leaves WEB_OTHERS_FDS descriptors for everything but connections, or half of all if they are few. */
static unsigned fit_connection_limit(unsigned connections)
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

static void set_limits(struct web_server *w)
{
	w->limits = w->setup.limits;
	w->limits.connections = fit_connection_limit(w->limits.connections);
	w->loop_max_ns =
		w->limits.hang_ns / TURNS > NS_PER_MS ? w->limits.hang_ns / TURNS : NS_PER_MS;
	w->conns.connections = w->limits.connections;
	w->conns.per_address = w->limits.per_address;
	w->conns.lasts_ns[WEB_CONN_REQUEST] = w->limits.request_ns;
	w->conns.lasts_ns[WEB_CONN_IDLE] = w->limits.idle_ns;
	w->conns.lasts_ns[WEB_CONN_REPLY] = w->limits.reply_ns;
	w->conns.lasts_ns[WEB_CONN_ENDING] = WEB_ENDING_NS;
}

static int load_files(struct web_server *w, struct error *err)
{
	const struct web_setup *s = &w->setup;

	if (!s->cert_file != !s->key_file)
		return error_set(err, ERR_INVALID,
			"TLS needs a certificate and a key; there is only '%s'",
			s->cert_file ? s->cert_file : s->key_file);
	if (s->cert_file && MHD_is_feature_supported(MHD_FEATURE_TLS) != MHD_YES)
		return error_set(err, ERR_UNSUPPORTED,
			"this libmicrohttpd is built without TLS");
	w->token.path = s->token_file;
	w->tls.cert_path = s->cert_file;
	w->tls.key_path = s->key_file;
	w->checked_ns = time_mono_ns();
	if (web_token_refresh(&w->token, err) < 0)
		return -1;
	return web_tls_refresh(&w->tls, 0, err);
}

static int watch_web_fd(struct web_server *w, int fd, void *what, struct error *err)
{
	struct epoll_event e = { .events = EPOLLIN, .data.ptr = what };

	if (epoll_ctl(w->epoll_fd, EPOLL_CTL_ADD, fd, &e) < 0)
		return error_sys(err, errno, "watch the web server");
	return 0;
}

static int start_daemon(struct web_server *w, struct error *err)
{
	unsigned flags = MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET;
	/* Only where TLS is used: the process does not touch GnuTLS otherwise. */
	const struct MHD_OptionItem tls[] = {
		{ MHD_OPTION_HTTPS_CERT_CALLBACK, 0, (void *)(uintptr_t)web_tls_retrieve },
		{ MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)PRIORITIES },
		{ MHD_OPTION_END, 0, NULL },
	};
	const struct MHD_OptionItem none[] = { { MHD_OPTION_END, 0, NULL } };
	const union MHD_DaemonInfo *info;

	if (w->tls.cert_path)
		flags |= MHD_USE_TLS;
	/* libmicrohttpd's own limit of connections is never reached: 0.9.75 does not release a lock there. */
	w->daemon = MHD_start_daemon(flags, 0, NULL, NULL, web_on_request, w,
		MHD_OPTION_NOTIFY_COMPLETED, web_on_completed, w, MHD_OPTION_NOTIFY_CONNECTION,
		web_on_connection, w, MHD_OPTION_CONNECTION_LIMIT,
		w->limits.connections + WEB_LEAVING_MAX + 1, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
		POOL_BYTES, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_ARRAY,
		w->tls.cert_path ? tls : none, MHD_OPTION_END);
	if (!w->daemon)
		return error_set(err, ERR_INTERNAL, "start the web server");
	info = MHD_get_daemon_info(w->daemon, MHD_DAEMON_INFO_EPOLL_FD);
	return info ? watch_web_fd(w, info->epoll_fd, &w->daemon, err)
		    : error_set(err, ERR_INTERNAL, "start the web server: it has no epoll");
}

int web_server_init(struct web_server *w, size_t len, struct web_shm *page, struct error *err)
{
	w->listen_fd = -1;
	w->shm = page;
	w->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (w->epoll_fd < 0)
		return error_sys(err, errno, "start the web server");
	if (web_unpack_start(w->start, len, &w->setup, err) < 0)
		return -1;
	set_limits(w);
	if (load_files(w, err) < 0 || start_daemon(w, err) < 0)
		return -1;
	return watch_web_fd(w, WEB_FD_SOCKET, &w->link, err);
}

int web_server_listen(struct web_server *w, int fd, bool only_local, struct error *err)
{
	w->listen_fd = fd;
	w->only_local = only_local;
	return watch_web_fd(w, fd, &w->listen_fd, err);
}

void web_server_fini(struct web_server *w)
{
	if (w->daemon)
		MHD_stop_daemon(w->daemon);
	closep(&w->listen_fd);
	closep(&w->epoll_fd);
	web_token_fini(&w->token);
	web_tls_fini(&w->tls);
}
