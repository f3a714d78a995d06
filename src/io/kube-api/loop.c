/* SPDX-License-Identifier: Apache-2.0 */
/* libcurl, loaded at its first use, and its sockets and timer on the libuv loop (internal.h). */
#include "io/kube-api/internal.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

/* --- libcurl, opened at its first use --- */

static int find_curl_symbol(void *lib, const char *name, void *field, struct error *err)
{
	void *sym = dlsym(lib, name);

	if (!sym)
		return error_set(err, ERR_UNSUPPORTED,
			CURL_SONAME " has no %s(); version " CURL_OLDEST_AS
				    " or later is needed (package libcurl4)",
			name);
	/* ISO C has no conversion from an object pointer to a function pointer; POSIX promises one. */
	memcpy(field, &sym, sizeof sym);
	return 0;
}

static int load_curl_table(struct curl_table *t, void *lib, struct error *err)
{
	const curl_version_info_data *version;

#define X(name)                                                              \
	if (find_curl_symbol(lib, "curl_" #name, (void *)&t->name, err) < 0) \
		return -1;
	CURL_FUNCTIONS(X)
#undef X
	version = t->version_info(CURLVERSION_NOW);
	if (version->version_num < CURL_OLDEST)
		return error_set(err, ERR_UNSUPPORTED,
			CURL_SONAME " is version %s; " CURL_OLDEST_AS
				    " or later is needed (package libcurl4)",
			version->version);
	if (!(version->features & CURL_VERSION_SSL))
		return error_set(err, ERR_UNSUPPORTED, CURL_SONAME " was built without TLS");
	if (t->global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		return error_set(err, ERR_UNSUPPORTED, CURL_SONAME " does not start");
	return 0;
}

int curl_open(struct curl_table *ret, const char *soname, struct error *err)
{
	struct curl_table t;
	void *lib = dlopen(soname, RTLD_NOW | RTLD_LOCAL);

	if (!lib) {
		const char *why = dlerror();

		return error_set(err, ERR_UNSUPPORTED,
			"open %s, which talks to the API server (package libcurl4): %s", soname,
			why ? why : "?");
	}
	if (load_curl_table(&t, lib, err) < 0) {
		(void)dlclose(lib);
		return -1;
	}
	*ret = t;
	return 0;
}

int curl_get(const struct curl_table **ret, struct error *err)
{
	static struct curl_table table;
	static bool is_open;

	if (!is_open && curl_open(&table, CURL_SONAME, err) < 0)
		return -1;
	is_open = true;
	*ret = &table;
	return 0;
}

/* --- libcurl on the loop --- */

#define IDLE_CONNECTIONS_MAX 4 /* libcurl keeps them for the next request */

/* One socket of libcurl. libuv frees the memory through on_socket_closed(). */
struct api_socket {
	uv_poll_t poll;
	LIST_ENTRY(api_socket) link;
	struct api *api;
	curl_socket_t fd;
};

static void on_socket_closed(uv_handle_t *h)
{
	free(h->data);
}

static void socket_close(struct api_socket *s)
{
	LIST_REMOVE(s, link);
	(void)uv_poll_stop(&s->poll);
	uv_close((uv_handle_t *)&s->poll, on_socket_closed);
}

static void run_socket_action(struct api *a, curl_socket_t fd, int events)
{
	int running;

	(void)a->curl->multi_socket_action(a->multi, fd, events, &running);
	api_settle(a);
}

static void on_curl_poll(uv_poll_t *poll, int status, int events)
{
	struct api_socket *s = poll->data;
	int what = 0;

	if (status < 0)
		what |= CURL_CSELECT_ERR;
	if (events & UV_READABLE)
		what |= CURL_CSELECT_IN;
	if (events & UV_WRITABLE)
		what |= CURL_CSELECT_OUT;
	run_socket_action(s->api, s->fd, what);
}

static struct api_socket *socket_watch(struct api *a, curl_socket_t fd)
{
	struct api_socket *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	if (uv_poll_init_socket(a->loop, &s->poll, fd) < 0) {
		free(s);
		return NULL;
	}
	s->poll.data = s;
	s->api = a;
	s->fd = fd;
	LIST_INSERT_HEAD(&a->sockets, s, link);
	return s;
}

/* libcurl calls this to choose the events of a socket to watch. */
static int on_curl_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *unused)
{
	struct api *a = arg;
	struct api_socket *s;
	int events = 0;

	(void)easy;
	(void)unused;
	LIST_FOREACH(s, &a->sockets, link)
	if (s->fd == fd)
		break;
	if (what == CURL_POLL_REMOVE) {
		if (s)
			socket_close(s);
		return 0;
	}
	if (!s)
		s = socket_watch(a, fd);
	if (what & CURL_POLL_IN)
		events |= UV_READABLE;
	if (what & CURL_POLL_OUT)
		events |= UV_WRITABLE;
	return s && uv_poll_start(&s->poll, events, on_curl_poll) == 0 ? 0 : -1;
}

static void on_curl_timer(uv_timer_t *timer)
{
	run_socket_action(timer->data, CURL_SOCKET_TIMEOUT, 0);
}

/* libcurl calls this to request a time-out in @ms; -1: none. */
static int on_want_timer(CURLM *multi, long ms, void *arg)
{
	struct api *a = arg;

	(void)multi;
	if (ms < 0) {
		(void)uv_timer_stop(&a->timer);
		return 0;
	}
	uv_update_time(a->loop); /* a long callback before this one must not shorten the wait */
	return uv_timer_start(&a->timer, on_curl_timer, (uint64_t)ms, 0) == 0 ? 0 : -1;
}

int api_loop_init(struct api *a, struct error *err)
{
	const struct curl_table *c = a->curl;
	CURLM *m = c->multi_init();

	if (!m)
		return error_nomem(err);
	LIST_INIT(&a->sockets);
	TAILQ_INIT(&a->news);
	(void)c->multi_setopt(m, CURLMOPT_SOCKETFUNCTION, on_curl_socket);
	(void)c->multi_setopt(m, CURLMOPT_SOCKETDATA, a);
	(void)c->multi_setopt(m, CURLMOPT_TIMERFUNCTION, on_want_timer);
	(void)c->multi_setopt(m, CURLMOPT_TIMERDATA, a);
	(void)c->multi_setopt(m, CURLMOPT_MAXCONNECTS, (long)IDLE_CONNECTIONS_MAX);
	a->multi = m;
	(void)uv_timer_init(a->loop, &a->timer);
	a->timer.data = a;
	return 0;
}

static void on_curl_timer_closed(uv_handle_t *h)
{
	api_free_memory(h->data);
}

void api_loop_fini(struct api *a)
{
	struct api_socket *s;

	(void)a->curl->multi_cleanup(STEAL_PTR(a->multi));
	while ((s = LIST_FIRST(&a->sockets)))
		socket_close(s);
	uv_close((uv_handle_t *)&a->timer, on_curl_timer_closed);
}
