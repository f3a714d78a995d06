/* SPDX-License-Identifier: Apache-2.0 */
#include "io/web/internal.h"

#include "lib/base/fd.h"
#include "lib/http/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

static const struct web_limits usual = {
	.connections = 512,
	.per_address = 64,
	.cpu_permille = 500,
	.request_ns = 10 * NS_PER_SEC,
	.idle_ns = 20 * NS_PER_SEC,
	.reply_ns = 30 * NS_PER_SEC,
	.check_ns = NS_PER_SEC,
	.hang_ns = 30 * NS_PER_SEC,
	.restart_ns = NS_PER_SEC,
};

#define OR_USUAL(limits, field) ((limits)->field ? (limits)->field : usual.field)

static struct web_limits limits_of(const struct web_limits *l)
{
	return (struct web_limits){
		.connections = OR_USUAL(l, connections),
		.per_address = OR_USUAL(l, per_address),
		.cpu_permille = OR_USUAL(l, cpu_permille),
		.request_ns = OR_USUAL(l, request_ns),
		.idle_ns = OR_USUAL(l, idle_ns),
		.reply_ns = OR_USUAL(l, reply_ns),
		.check_ns = OR_USUAL(l, check_ns),
		.hang_ns = OR_USUAL(l, hang_ns),
		.restart_ns = OR_USUAL(l, restart_ns),
	};
}

static struct web *web_free(struct web *w)
{
	if (!w)
		return NULL;
	web_reply_fini(w);
	if (w->shm)
		(void)munmap(w->shm, sizeof(*w->shm));
	closep(&w->listen_fd);
	closep(&w->shm_fd);
	closep(&w->stop_fd);
	closep(&w->ended_fd);
	buf_fini(&w->start);
	free(w->listen);
	free(w->worker_path);
	(void)pthread_mutex_destroy(&w->lock);
	free(w);
	return NULL;
}

DEFINE_CLEANUP(struct web *, web_free)

void web_release(struct web *w)
{
	void (*released)(void *arg) = w->ops.released;
	void *arg = w->arg;

	(void)web_free(w);
	if (released)
		released(arg);
}

static int copy_web_option(char **to, const char *from, struct error *err)
{
	*to = from ? strdup(from) : NULL;
	return *to || !from ? 0 : error_nomem(err);
}

/* The seals keep the process from shrinking the page under the agent's map. */
static int create_web_shm(struct web *w, struct error *err)
{
	void *page;

	w->shm_fd = memfd_create("gpuslice-web", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (w->shm_fd < 0 || ftruncate(w->shm_fd, sizeof(struct web_shm)) < 0 ||
		fcntl(w->shm_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return error_sys(err, errno, "make a page to share with the web server");
	page = mmap(NULL, sizeof(*w->shm), PROT_READ | PROT_WRITE, MAP_SHARED, w->shm_fd, 0);
	if (page == MAP_FAILED)
		return error_sys(err, errno, "map the page shared with the web server");
	w->shm = page;
	return 0;
}

static int make_start(struct web *w, const struct web_options *o, struct error *err)
{
	struct web_setup s = { .limits = w->limits,
		.token_file = o->token_file,
		.cert_file = o->cert_file,
		.key_file = o->key_file };
	char host[HTTP_HOST_MAX];
	const char *port;

	if (http_split_address(o->listen, host, &port, err) < 0)
		return -1;
	if (w->ops.n_routes > WEB_ROUTES_MAX)
		return error_set(err, ERR_LIMIT, "the web server has more than %d routes",
			WEB_ROUTES_MAX);
	s.host = host;
	for (; s.n_routes < w->ops.n_routes; s.n_routes++)
		s.routes[s.n_routes] =
			(struct web_route_name){ .path = w->ops.routes[s.n_routes].path,
				.open = w->ops.routes[s.n_routes].open };
	web_pack_start(&w->start, &s);
	return buf_ok(&w->start) ? 0
				 : error_set(err, ERR_LIMIT,
					   "the paths of the web server's files are too long");
}

/* The web thread blocks all signals: they are for other threads. */
static int start_web_thread(struct web *w, struct error *err)
{
	sigset_t all, old;
	int r;

	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(&w->thread, NULL, web_thread, w);
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	return r == 0 ? 0 : error_sys(err, r, "start the web thread");
}

static int open_web_resources(struct web *w, const struct web_options *o, struct error *err)
{
	if (copy_web_option(&w->listen, o->listen, err) < 0 ||
		copy_web_option(&w->worker_path, o->worker_path, err) < 0 ||
		make_start(w, o, err) < 0 || create_web_shm(w, err) < 0)
		return -1;
	w->no_token = !o->token_file;
	w->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	w->ended_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return w->stop_fd < 0 || w->ended_fd < 0 ? error_sys(err, errno, "start the web server")
						 : 0;
}

int web_start(struct web **ret, const struct web_options *options, const struct web_ops *ops,
	void *arg, struct error *err)
{
	CLEANUP(web_freep) struct web *w = calloc(1, sizeof(*w));

	if (!w)
		return error_nomem(err);
	w->listen_fd = w->shm_fd = w->stop_fd = w->ended_fd = w->process.sock = -1;
	for (size_t i = 0; i < WEB_SHARED_MAX; i++)
		w->shared[i].fd = -1;
	w->start.max = WEB_PACKET_MAX;
	w->ops = *ops;
	w->arg = arg;
	w->limits = limits_of(&options->limits);
	(void)pthread_mutex_init(&w->lock, NULL);
	if (open_web_resources(w, options, err) < 0 || start_web_thread(w, err) < 0)
		return -1;
	*ret = STEAL_PTR(w);
	return 0;
}

unsigned web_port(const struct web *w)
{
	return atomic_load(&w->port);
}

enum web_state web_state(struct web *w, struct error *ret_why)
{
	enum web_state state;

	(void)pthread_mutex_lock(&w->lock);
	state = w->state;
	*ret_why = w->why;
	(void)pthread_mutex_unlock(&w->lock);
	return state;
}

#define COUNT(w, field) atomic_load_explicit(&(w)->shm->field, memory_order_relaxed)

struct web_counts web_counts(const struct web *w)
{
	struct web_counts c = {
		.refused_full = COUNT(w, refused_full),
		.refused_address = COUNT(w, refused_address),
		.displaced = COUNT(w, displaced),
		.timeouts = COUNT(w, timeouts),
		.malformed = COUNT(w, malformed),
		.throttled = COUNT(w, throttled),
		.open = (unsigned)COUNT(w, open),
	};

	for (size_t i = 0; i < ARRAY_LEN(c.requests); i++)
		c.requests[i] = COUNT(w, requests[i]);
	return c;
}

static bool ends_in_time(const struct web *w)
{
	struct pollfd ended = { .fd = w->ended_fd, .events = POLLIN };
	uint64_t until_ns = time_mono_ns() + WEB_STOP_NS, now_ns;

	while ((now_ns = time_mono_ns()) < until_ns && !ended.revents)
		(void)poll(&ended, 1, (int)((until_ns - now_ns) / NS_PER_MS + 1));
	return ended.revents;
}

struct web *web_stop(struct web *w)
{
	const uint64_t one = 1;
	pthread_t thread;

	if (!w)
		return NULL;
	thread = w->thread;
	(void)!write(w->stop_fd, &one, sizeof(one));
	if (ends_in_time(w) || atomic_exchange(&w->detached, true)) {
		(void)pthread_join(thread, NULL);
		web_release(w);
		return NULL;
	}
	/* The kernel holds the thread up: it may be closing a descriptor that the process has sent, where no
	 * filter keeps the process from sending one. The thread frees @w at its end, which may be now. */
	(void)pthread_detach(thread);
	return NULL;
}
