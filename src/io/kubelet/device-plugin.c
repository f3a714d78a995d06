/* SPDX-License-Identifier: Apache-2.0 */
#include "io/kubelet/device-plugin.h"

#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "lib/base/fd.h"
#include "lib/base/time.h"
#include "lib/base/unix-socket.h"

#define REGISTER_TIMEOUT_NS (5 * NS_PER_SEC)
#define RETRY_MIN_NS        (200 * NS_PER_MS)
#define RETRY_MAX_NS        (5 * NS_PER_SEC)
#define SOCKET_POLL_NS      (2 * NS_PER_SEC) /* in case inotify misses an event */
#define WATCH_GRACE_NS      (5 * NS_PER_SEC) /* after Register, for the kubelet's ListAndWatch */
#define DRAIN_NS            (1 * NS_PER_SEC)  /* for old connections to end */
#define STABLE_NS           (30 * NS_PER_SEC) /* after this, a registration was a success */

/* One open ListAndWatch. */
struct list_watch {
	LIST_ENTRY(list_watch) link;
	struct plugin *plugin;
	struct rpc_call *call;
};

struct plugin {
	struct rpc *rpc;
	struct rpc_server *server;
	struct rpc_client *kubelet; /* while registering */
	const struct plugin_ops *ops;
	void *arg;
	char *name, *path, *kubelet_path; /* kubelet_path NULL: never register */
	const char *endpoint;             /* the last part of .path */
	struct buf devices;               /* the encoded device list */
	bool have_devices, stopping;
	LIST_HEAD(, list_watch) watches;
	unsigned n_watches;
	uv_timer_t timer;

	enum plugin_state state;
	char why[ERROR_MSG_MAX];
	char no_socket[ERROR_MSG_MAX]; /* why the plugin cannot listen, or "" */
	struct file_id kubelet_id;     /* the kubelet's socket, as last seen */
	bool kubelet_known;
	uint64_t tried_ns;       /* start of the last attempt */
	uint64_t next_ns;        /* earliest next attempt */
	uint64_t retry_ns;       /* last delay; 0: none yet */
	uint64_t watch_until_ns; /* deadline for the kubelet's ListAndWatch */
	uint64_t drain_until_ns; /* 0: not waiting for connections to end */
};

/* @why NULL keeps the text: an attempt under way has no news. */
static void set_plugin_state(struct plugin *p, enum plugin_state state, const char *why)
{
	bool change = (state == PLUGIN_REGISTERED) != (p->state == PLUGIN_REGISTERED) ||
		      (why && strcmp(why, p->why) != 0);

	p->state = state;
	if (why)
		(void)snprintf(p->why, sizeof(p->why), "%s", why);
	if (change && p->ops->state)
		p->ops->state(p->arg, state == PLUGIN_REGISTERED, p->why);
}

static void on_plugin_timer(uv_timer_t *t)
{
	plugin_sync(t->data);
}

static void arm_plugin_timer(struct plugin *p, uint64_t ns)
{
	/* Rounded up: a timer that expires early would find nothing due. */
	(void)uv_timer_start(&p->timer, on_plugin_timer, (ns + NS_PER_MS - 1) / NS_PER_MS, 0);
}

/* Delays the next attempt, longer each time. */
static void delay_plugin_retry(struct plugin *p, uint64_t now)
{
	p->retry_ns = p->retry_ns ? p->retry_ns * 2 : RETRY_MIN_NS;
	if (p->retry_ns > RETRY_MAX_NS)
		p->retry_ns = RETRY_MAX_NS;
	p->next_ns = now + p->retry_ns;
}

/* --- registration --- */

static void on_registered(void *arg, enum rpc_status status, const char *text,
	const uint8_t *reply, size_t len)
{
	struct plugin *p = arg;
	uint64_t now = time_mono_ns();
	struct error e = ERROR_INIT;

	(void)reply;
	(void)len;
	if (p->stopping)
		return;
	rpc_client_close(p->kubelet);
	p->kubelet = NULL;
	/* Without an answer but with a watch, the plugin is registered all the same. A retry would make the
	 * kubelet drop one of the two registrations. */
	if (status == RPC_OK || p->n_watches > 0) {
		p->watch_until_ns = now + WATCH_GRACE_NS;
		set_plugin_state(p, PLUGIN_REGISTERED, "");
	} else {
		delay_plugin_retry(p, now);
		(void)error_set(&e, ERR_UNAVAILABLE, "register '%s': %s", p->name,
			*text ? text : "refused without a reason");
		set_plugin_state(p, PLUGIN_WAITING, e.msg);
	}
	plugin_sync(p);
}

static int register_begin(struct plugin *p, uint64_t now, struct error *err)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(4096);
	const struct register_request r = {
		.version = DEVICE_PLUGIN_VERSION,
		.endpoint = p->endpoint,
		.resource_name = p->name,
		.options.preferred_allocation = p->ops->prefer != NULL,
	};

	p->tried_ns = now;
	if (register_request_encode(&b, &r, err) < 0)
		return -1;
	if (rpc_dial(p->rpc, p->kubelet_path, &p->kubelet, err) < 0)
		return -1;
	if (rpc_invoke(p->kubelet, METHOD_REGISTER, b.data, b.len, REGISTER_TIMEOUT_NS,
		    on_registered, p, err) < 0) {
		rpc_client_close(p->kubelet);
		p->kubelet = NULL;
		return -1;
	}
	return 0;
}

static void forget_watch(struct list_watch *w)
{
	LIST_REMOVE(w, link);
	w->plugin->n_watches--;
	free(w);
}

/*
 * Ends the plugin's streams before a new registration. Kubelets up to 1.36 key their clients by resource name
 * alone. When an old stream ends after a new registration, the kubelet disconnects the new client. Hence this
 * order:
 *  1. The plugin ends its ListAndWatch streams.
 *  2. The kubelet notes the end of its old client, and then hangs up.
 *  3. The plugin registers once all peers have hung up, or after DRAIN_NS.
 * Returns false while the plugin waits for step 2.
 */
static bool drain_plugin_streams(struct plugin *p, uint64_t now)
{
	struct list_watch *w;

	while ((w = LIST_FIRST(&p->watches))) {
		rpc_stream_finish(w->call, RPC_UNAVAILABLE, "registering again");
		forget_watch(w);
	}
	if (p->drain_until_ns == 0)
		p->drain_until_ns = now + DRAIN_NS;
	if (rpc_server_peers(p->server) > 0 && now < p->drain_until_ns)
		return false;
	p->drain_until_ns = 0;
	return true;
}

/* Whether the registration is still valid. If not, sets PLUGIN_WAITING and the reason; for a missing socket
 * the caller does. */
static bool still_registered(struct plugin *p, bool there, bool same, uint64_t now,
	uint64_t *ret_wait)
{
	*ret_wait = SOCKET_POLL_NS;
	if (same || !there) {
		if (p->n_watches > 0)
			return true; /* the kubelet listens, whatever became of its socket file */
		if (same && now < p->watch_until_ns) {
			*ret_wait = p->watch_until_ns - now;
			return true;
		}
	}
	if (same) {
		if (now - p->tried_ns > STABLE_NS)
			p->retry_ns = 0;
		delay_plugin_retry(p, now);
		set_plugin_state(p, PLUGIN_WAITING,
			p->watch_until_ns ? "the kubelet registered us but does not watch"
					  : "the kubelet has ended its watch");
	} else if (there) {
		set_plugin_state(p, PLUGIN_WAITING, "the kubelet has restarted");
	}
	return false;
}

/* Takes one step towards a registration. Returns the time until the next step, in ns. */
static uint64_t sync_plugin_registration(struct plugin *p, uint64_t now)
{
	struct error e = ERROR_INIT;
	struct file_id id;
	bool there = file_id_get(p->kubelet_path, &id);
	bool same = there && p->kubelet_known && file_id_equal(&id, &p->kubelet_id);
	uint64_t wait;

	if (p->state == PLUGIN_REGISTERING)
		return SOCKET_POLL_NS; /* on_registered() follows */
	if (p->state == PLUGIN_REGISTERED && still_registered(p, there, same, now, &wait))
		return wait;
	if (!there) {
		p->kubelet_known = false;
		(void)error_set(&e, ERR_UNAVAILABLE, "waiting for the kubelet's socket '%s'",
			p->kubelet_path);
		set_plugin_state(p, PLUGIN_WAITING, e.msg);
		return SOCKET_POLL_NS;
	}
	if (!same) {
		p->kubelet_id = id;
		p->kubelet_known = true;
		p->retry_ns = 0;
		p->next_ns = now;
	}
	if (p->no_socket[0]) {
		set_plugin_state(p, PLUGIN_WAITING, p->no_socket);
		return RETRY_MIN_NS;
	}
	if (now < p->next_ns)
		return p->next_ns - now;
	if (!drain_plugin_streams(p, now))
		return p->drain_until_ns - now;
	if (register_begin(p, now, &e) < 0) {
		delay_plugin_retry(p, now);
		set_plugin_state(p, PLUGIN_WAITING, e.msg);
		return p->retry_ns;
	}
	set_plugin_state(p, PLUGIN_REGISTERING, NULL);
	return SOCKET_POLL_NS;
}

void plugin_sync(struct plugin *p)
{
	uint64_t wait = SOCKET_POLL_NS;
	struct error e = ERROR_INIT;

	if (p->stopping)
		return;
	p->no_socket[0] = '\0';
	if (rpc_server_relisten(p->server, &e) < 0)
		(void)snprintf(p->no_socket, sizeof(p->no_socket), "%s", e.msg);
	if (p->kubelet_path)
		wait = sync_plugin_registration(p, time_mono_ns());
	else
		set_plugin_state(p, PLUGIN_WAITING,
			p->no_socket[0] ? p->no_socket : "registration is switched off");
	if (!p->stopping)
		arm_plugin_timer(p, wait);
}

/* --- the methods --- */

static void handle_options(struct rpc_call *call, const uint8_t *data, size_t len, void *arg)
{
	const struct plugin *p = arg;
	const struct plugin_options o = { .preferred_allocation = p->ops->prefer != NULL };
	CLEANUP(buf_fini) struct buf b = BUF_INIT(64);
	struct error e = ERROR_INIT;

	(void)data;
	(void)len;
	if (plugin_options_encode(&b, &o, &e) < 0)
		rpc_reply_error(call, RPC_INTERNAL, e.msg);
	else
		rpc_reply(call, buf_str(&b), b.len);
}

static void on_watch_end(struct rpc_call *call, void *arg)
{
	struct list_watch *w = arg;
	struct plugin *p = w->plugin;

	(void)call;
	forget_watch(w);
	if (p->n_watches == 0 && !p->stopping) {
		p->watch_until_ns = 0; /* the kubelet had opened its watch */
		plugin_sync(p);
	}
}

static void handle_watch(struct rpc_call *call, const uint8_t *data, size_t len, void *arg)
{
	struct plugin *p = arg;
	struct list_watch *w = calloc(1, sizeof(*w));

	(void)data;
	(void)len;
	if (!w) {
		rpc_stream_finish(call, RPC_RESOURCE_EXHAUSTED, "no memory");
		return;
	}
	w->plugin = p;
	w->call = call;
	LIST_INSERT_HEAD(&p->watches, w, link);
	p->n_watches++;
	rpc_stream_on_end(call, on_watch_end, w);
	if (p->have_devices)
		rpc_stream_send(call, buf_str(&p->devices), p->devices.len);
	/* The kubelet's answer to Register was lost, but its watch shows the registration. */
	if (p->state == PLUGIN_WAITING && p->tried_ns &&
		time_mono_ns() - p->tried_ns < 2 * REGISTER_TIMEOUT_NS)
		set_plugin_state(p, PLUGIN_REGISTERED, "");
}

/* Answers for all containers of one request. */
static int prefer_all(struct plugin *p, const struct prefer_requests *r, struct id_list *to,
	const char **ids, struct error *err)
{
	size_t i;

	for (i = 0; i < r->n; i++) {
		size_t n = 0;

		if (p->ops->prefer(p->arg, &r->v[i], ids, &n, err) < 0)
			return -1;
		to[i] = (struct id_list){ .v = ids, .n = n < r->v[i].size ? n : r->v[i].size };
		ids += r->v[i].size;
	}
	return 0;
}

static void handle_prefer(struct rpc_call *call, const uint8_t *data, size_t len, void *arg)
{
	struct plugin *p = arg;
	CLEANUP(prefer_requests_fini) struct prefer_requests r = { 0 };
	CLEANUP(buf_fini) struct buf b = BUF_INIT(MESSAGE_TO_KUBELET_MAX);
	CLEANUP(freep) struct id_list *lists = NULL;
	CLEANUP(freep) const char **ids = NULL;
	struct error e = ERROR_INIT;
	size_t i, total = 1;

	if (!p->ops->prefer) {
		rpc_reply_error(call, RPC_UNIMPLEMENTED, "no preferred allocation here");
		return;
	}
	if (prefer_request_decode(&r, data, len, &e) < 0) {
		rpc_reply_error(call, RPC_INVALID_ARGUMENT, e.msg);
		return;
	}
	for (i = 0; i < r.n; i++)
		total += r.v[i].size;
	if (total > MESSAGE_DEVICES_MAX + 1) {
		rpc_reply_error(call, RPC_INVALID_ARGUMENT, "too many devices are wanted");
		return;
	}
	lists = calloc(r.n + 1, sizeof(*lists));
	ids = calloc(total, sizeof(*ids));
	if (!lists || !ids) {
		rpc_reply_error(call, RPC_RESOURCE_EXHAUSTED, "no memory");
	} else if (prefer_all(p, &r, lists, ids, &e) < 0) {
		(void)error_prefix(&e, "error getting list of preferred allocation devices");
		rpc_reply_error(call, RPC_UNKNOWN, e.msg);
	} else if (prefer_response_encode(&b, lists, r.n, &e) < 0) {
		rpc_reply_error(call, RPC_INTERNAL, e.msg);
	} else {
		rpc_reply(call, buf_str(&b), b.len);
	}
}

/* Answers into @to. The caller frees *ret_n of them, also after an error. */
static int allocate_all(struct plugin *p, const struct id_lists *r, struct allocation **to,
	size_t *ret_n, struct error *err)
{
	for (*ret_n = 0; *ret_n < r->n; ++*ret_n)
		if (p->ops->allocate(p->arg, r->v[*ret_n].v, r->v[*ret_n].n, &to[*ret_n], err) <
			0)
			return -1;
	return 0;
}

static void handle_allocate(struct rpc_call *call, const uint8_t *data, size_t len, void *arg)
{
	struct plugin *p = arg;
	CLEANUP(id_lists_fini) struct id_lists r = { 0 };
	CLEANUP(buf_fini) struct buf b = BUF_INIT(MESSAGE_TO_KUBELET_MAX);
	CLEANUP(freep) struct allocation **all = NULL;
	struct error e = ERROR_INIT;
	size_t n = 0;

	if (allocate_request_decode(&r, data, len, &e) < 0) {
		rpc_reply_error(call, RPC_INVALID_ARGUMENT, e.msg);
		return;
	}
	all = calloc(r.n + 1, sizeof(struct allocation *));
	if (!all)
		rpc_reply_error(call, RPC_RESOURCE_EXHAUSTED, "no memory");
	else if (allocate_all(p, &r, all, &n, &e) < 0)
		rpc_reply_error(call, RPC_UNKNOWN,
			e.msg); /* as NVIDIA's plugin does: the kubelet shows the text */
	else if (allocate_response_encode(&b, (const struct allocation *const *)all, n, &e) < 0)
		rpc_reply_error(call, RPC_INTERNAL, e.msg);
	else
		rpc_reply(call, buf_str(&b), b.len);
	while (n > 0)
		(void)allocation_free(all[--n]);
}

static void handle_pre_start(struct rpc_call *call, const uint8_t *data, size_t len, void *arg)
{
	(void)data;
	(void)len;
	(void)arg;
	rpc_reply(call, "", 0); /* the plugin does not ask for it, but old kubelets may call */
}

static const struct rpc_method methods[] = {
	{ .path = METHOD_PLUGIN_OPTIONS, .handle = handle_options },
	{ .path = METHOD_LIST_AND_WATCH, .streaming = true, .handle = handle_watch },
	{ .path = METHOD_PREFER, .handle = handle_prefer },
	{ .path = METHOD_ALLOCATE, .handle = handle_allocate },
	{ .path = METHOD_PRE_START, .handle = handle_pre_start },
};

/* --- start and stop --- */

static void on_hangup(void *arg, unsigned left)
{
	if (left == 0)
		plugin_sync(arg);
}

static void plugin_free(struct plugin *p)
{
	free(p->name);
	free(p->path);
	free(p->kubelet_path);
	buf_fini(&p->devices);
	free(p);
}

static void on_plugin_timer_closed(uv_handle_t *h)
{
	struct plugin *p = h->data;

	rpc_unref(p->rpc);
	plugin_free(p);
}

/* "nvidia-gpu.sock" for nvidia.com/gpu, "example.com-gpu.sock" for others. */
static int name_socket(struct plugin *p, const char *dir, struct error *err)
{
	static const char ours[] = "nvidia.com/", good[] = "abcdefghijklmnopqrstuvwxyz"
							   "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
							   "0123456789-_.";
	const char *slash = strchr(p->name, '/');
	int e;

	if (!slash || slash == p->name || !slash[1] || slash[1 + strspn(slash + 1, good)] ||
		strspn(p->name, good) != (size_t)(slash - p->name))
		return error_set(err, ERR_INVALID, "resource name '%s' is not <domain>/<name>",
			p->name);
	if (strncmp(p->name, ours, sizeof(ours) - 1) == 0)
		e = asprintf(&p->path, "%s/nvidia-%s.sock", dir, slash + 1);
	else
		e = asprintf(&p->path, "%s/%.*s-%s.sock", dir, (int)(slash - p->name), p->name,
			slash + 1);
	if (e < 0) {
		p->path = NULL;
		return error_nomem(err);
	}
	p->endpoint = p->path + strlen(dir) + 1;
	return 0;
}

static int name_kubelet(struct plugin *p, const char *dir, const char *kubelet_socket,
	struct error *err)
{
	if (kubelet_socket && !*kubelet_socket)
		return 0;
	if (kubelet_socket)
		p->kubelet_path = strdup(kubelet_socket);
	else if (asprintf(&p->kubelet_path, "%s/kubelet.sock", dir) < 0)
		p->kubelet_path = NULL;
	if (!p->kubelet_path)
		return error_nomem(err);
	return unix_path_check(p->kubelet_path, err);
}

int plugin_start(struct plugin **ret, struct rpc *rpc, const char *dir,
	const char *kubelet_socket, const char *name, const struct plugin_ops *ops, void *arg,
	struct error *err)
{
	struct plugin *p = calloc(1, sizeof(*p));

	if (!p || !(p->name = strdup(name))) {
		free(p);
		return error_nomem(err);
	}
	p->rpc = rpc;
	p->ops = ops;
	p->arg = arg;
	p->devices.max = MESSAGE_TO_KUBELET_MAX;
	LIST_INIT(&p->watches);
	if (name_socket(p, dir, err) < 0 || name_kubelet(p, dir, kubelet_socket, err) < 0 ||
		rpc_serve(rpc, p->path, methods, ARRAY_LEN(methods), p, &p->server, err) < 0) {
		plugin_free(p);
		return -1;
	}
	rpc_server_on_hangup(p->server, on_hangup, p);
	(void)uv_timer_init(rpc_loop(rpc), &p->timer);
	p->timer.data = p;
	rpc_ref(rpc);
	arm_plugin_timer(p, 0); /* from the loop, after the owner has set the devices */
	*ret = p;
	return 0;
}

int plugin_set_devices(struct plugin *p, const struct plugin_device *devices, size_t n,
	struct error *err)
{
	struct buf b = BUF_INIT(MESSAGE_TO_KUBELET_MAX);
	struct list_watch *w;

	if (plugin_devices_encode(&b, devices, n, err) < 0) {
		buf_fini(&b);
		return -1;
	}
	if (p->have_devices && b.len == p->devices.len &&
		memcmp(buf_str(&b), buf_str(&p->devices), b.len) == 0) {
		buf_fini(&b);
		return 0;
	}
	buf_fini(&p->devices);
	p->devices = b;
	p->have_devices = true;
	LIST_FOREACH(w, &p->watches, link)
	rpc_stream_send(w->call, buf_str(&b), b.len);
	return 0;
}

enum plugin_state plugin_state(const struct plugin *p, const char **ret_why)
{
	if (ret_why)
		*ret_why = p->why;
	return p->state;
}

struct plugin *plugin_stop(struct plugin *p)
{
	if (!p || p->stopping)
		return NULL;
	p->stopping = true;
	if (p->kubelet)
		rpc_client_close(p->kubelet);
	rpc_server_close(p->server); /* ends the watches */
	uv_close((uv_handle_t *)&p->timer, on_plugin_timer_closed);
	return NULL;
}
