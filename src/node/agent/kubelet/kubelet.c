/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/kubelet/kubelet.h"

#include "node/agent/kubelet/host.h"
#include "node/agent/kubelet/trial.h"
#include "node/agent/kubelet/watch.h"
#include "lib/base/array.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/base/time.h"
#include "lib/base/unix-socket.h"
#include "io/kubelet/device-plugin.h"
#include "model/prefer/prefer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/*
 * The retry interval for a plugin that could not start. Most reasons end with an event in the kubelet's directory,
 * but a full disk does not.
 */
#define SERVE_AGAIN_NS (2 * NS_PER_SEC)

/*
 * How long a withdrawn resource lists no devices before its socket goes. A kubelet takes the empty list at once.
 * After a stream that just ends, the kubelet keeps the capacity for five minutes.
 */
#define RETIRE_NS NS_PER_SEC

/* One resource served to the kubelet. */
struct agent_plugin {
	struct agent_kubelet *kubelet;
	char name[RESOURCE_NAME_MAX];
	struct plugin *plugin; /* NULL: not started, .why says why */
	char why[ERROR_MSG_MAX];
	struct allocate_trial trial;
	bool offered;          /* part of the last decision */
	uint64_t retire_at_ns; /* withdrawn: end of its socket; 0: not withdrawn */
};

static struct agent_plugin *find_agent_plugin(const struct agent_kubelet *k, const char *name)
{
	for (size_t i = 0; i < k->n_plugins; i++)
		if (!strcmp(k->plugins[i]->name, name))
			return k->plugins[i];
	return NULL;
}

/* --- trials --- */

/* The host is probed once for all devices of a resource. */
struct trial_host {
	const struct agent_kubelet *kubelet;
	struct alloc_host host;
	struct error error; /* why .host is not known; ERR_NONE: it is */
};

static int probe_alloc_host(const struct agent_kubelet *k, struct alloc_host *ret,
	struct error *err)
{
	if (alloc_host_probe(ret, k->c.facts->config, err) < 0)
		return -1;
	return agent_cdi_facts(k->c.cdi, &ret->cdi, err);
}

static int try_device(void *arg, const struct resource *r, const struct offer_device *d,
	struct error *err)
{
	const struct trial_host *h = arg;
	const struct agent_kubelet *k = h->kubelet;
	CLEANUP(allocation_freep) struct allocation *answer = NULL;
	const char *id = d->id;

	if (h->error.code != ERR_NONE) {
		error_copy(err, &h->error);
		return -1;
	}
	if (allocation_new(&answer, r, k->c.facts->offered.inv, k->c.facts->config, &h->host,
		    &id, 1, err) < 0)
		return -1;
	return k->c.ops->check(k->c.arg, r, &id, 1, err);
}

static void report_allocation_trial(const struct agent_kubelet *k, const char *resource,
	const struct allocate_trial *t)
{
	if (t->n == 0) {
		log_info("devices can be allocated again", LOG_STR("resource", resource));
		report_event(k->c.reporter, EVENT_NORMAL, "DevicesAllocatable",
			"%s: its devices can be allocated again", resource);
		return;
	}
	log_error("devices cannot be allocated, and are unhealthy",
		LOG_STR("resource", resource), LOG_STR("reason", t->v[0].why));
	report_event(k->c.reporter, EVENT_WARNING, "DevicesNotAllocatable",
		"%s: devices are unhealthy, as they cannot be allocated: %s", resource,
		t->v[0].why);
}

/* True: the devices that Allocate would refuse changed; the change is logged, with an Event. */
static bool try_plugin_devices(struct agent_plugin *p, const struct resource *r)
{
	const struct agent_kubelet *k = p->kubelet;
	struct trial_host h = { .kubelet = k,
		.host = { .control_nodes = STRV_INIT },
		.error = ERROR_INIT };
	bool news;

	(void)probe_alloc_host(k, &h.host, &h.error);
	news = allocate_trial_run(&p->trial, r, try_device, &h);
	alloc_host_fini(&h.host);
	if (news)
		report_allocation_trial(k, r->name, &p->trial);
	return news;
}

bool agent_kubelet_try(struct agent_kubelet *k)
{
	const struct offer *offer = k->c.facts->offered.offer;
	bool news = false;

	for (uint32_t i = 0; offer && i < offer->n; i++) {
		struct agent_plugin *p = find_agent_plugin(k, offer->resources[i].name);

		if (p && p->offered)
			news |= try_plugin_devices(p, &offer->resources[i]);
	}
	return news;
}

/* --- which devices are usable --- */

/* Why Allocate would refuse the device, whatever its health; "": it would not. Borrowed. */
static const char *find_device_refusal(const struct agent_kubelet *k, const struct resource *r,
	const struct offer_device *d)
{
	const struct agent_plugin *p;
	const char *why;

	if (d->why)
		return k->c.facts->offered.offer->notes.v[d->why - 1];
	p = find_agent_plugin(k, r->name);
	why = p ? allocate_trial_refusal(&p->trial, d) : NULL;
	return why ? why : "";
}

/*
 * GPUs have the same positions in the offer, which was made from a copy of the node's inventory. MIG devices may
 * not: a change of the layout removes some from the copy.
 */
bool agent_kubelet_device_ok(const struct agent_kubelet *k, const struct resource *r,
	const struct offer_device *d, const char **ret_why)
{
	const struct facts *f = k->c.facts;
	const char *mig = d->mig == OFFER_WHOLE ? NULL : f->offered.inv->mig[d->mig].uuid;
	const char *refusal = find_device_refusal(k, r, d);

	if (!*refusal)
		return node_device_ok(&f->node, d->gpu, mig, ret_why) &&
		       k->c.ops->device_ok(k->c.arg, r, d, ret_why);
	if (ret_why)
		*ret_why = refusal;
	return false;
}

const char *agent_kubelet_refusal(const struct agent_kubelet *k, const char *uuid)
{
	const struct offer *offer = k->c.facts->offered.offer;
	char id[DEVICE_ID_MAX], cut[DEVICE_ID_MAX];

	if (!uuid[0] || !device_id_make(id, sizeof(id), uuid, 0))
		return "";
	for (uint32_t i = 0; offer && i < offer->n; i++) {
		const struct resource *r = &offer->resources[i];
		const struct offer_device *d = resource_find(r, uuid);

		if (!d)
			d = resource_find(r, id);
		if (!d && device_id_make_slice(cut, sizeof(cut), uuid, r->name, 0))
			d = resource_find(r, cut);
		if (d && *find_device_refusal(k, r, d))
			return find_device_refusal(k, r, d);
	}
	return "";
}

/* --- the state of a resource --- */

static enum plugin_state get_plugin_state(const struct agent_plugin *p, const char **ret_why)
{
	*ret_why = p ? p->why : "not started";
	return p && p->plugin ? plugin_state(p->plugin, ret_why) : PLUGIN_WAITING;
}

static const char *const plugin_states[] = {
	[PLUGIN_WAITING] = "waiting",
	[PLUGIN_REGISTERING] = "registering",
	[PLUGIN_REGISTERED] = "registered",
};

const char *agent_kubelet_state(const struct agent_kubelet *k, const char *resource,
	const char **ret_why)
{
	enum plugin_state state = get_plugin_state(find_agent_plugin(k, resource), ret_why);

	if (!*ret_why)
		*ret_why = "";
	return plugin_states[state];
}

bool agent_kubelet_ready(const struct agent_kubelet *k, struct buf *why)
{
	bool ready = true;

	if (k->socket && !*k->socket) /* the agent never registers */
		return true;
	for (size_t i = 0; i < k->n_plugins; i++) {
		const struct agent_plugin *p = k->plugins[i];
		const char *text;

		if (!p->offered || get_plugin_state(p, &text) == PLUGIN_REGISTERED)
			continue;
		buf_printf(why, "%s: not registered: %s\n", p->name, text ? text : "");
		ready = false;
	}
	return ready;
}

/* --- answers to the kubelet --- */

/* The resource as it is offered now. The offer may have lost it during the kubelet's request. */
static const struct resource *find_plugin_resource(const struct agent_plugin *p,
	struct error *err)
{
	const struct offer *o = p->kubelet->c.facts->offered.offer;
	const struct resource *r = o ? offer_find(o, p->name) : NULL;

	if (!r)
		(void)error_set(err, ERR_NOT_FOUND, "resource \"%s\" is not offered any more",
			p->name);
	return r;
}

static int on_prefer(void *arg, const struct prefer_request *req, const char **ret_ids,
	size_t *ret_n, struct error *err)
{
	struct agent_plugin *p = arg;
	const struct resource *r = find_plugin_resource(p, err);

	if (!r)
		return -1;
	return prefer_choose(r, p->kubelet->c.facts->offered.inv,
		p->kubelet->c.facts->config->allocation, req, ret_ids, ret_n, err);
}

static int allocate_plugin_devices(struct agent_plugin *p, const char *const *ids, size_t n_ids,
	struct allocation **ret, struct error *err)
{
	const struct agent_kubelet *k = p->kubelet;
	const struct resource *r = find_plugin_resource(p, err);
	CLEANUP(alloc_host_fini) struct alloc_host host = { .control_nodes = STRV_INIT };
	CLEANUP(allocation_freep) struct allocation *answer = NULL;

	if (!r || probe_alloc_host(k, &host, err) < 0)
		return -1;
	if (allocation_new(&answer, r, k->c.facts->offered.inv, k->c.facts->config, &host, ids,
		    n_ids, err) < 0 ||
		k->c.ops->allocate(k->c.arg, r, ids, n_ids, answer, err) < 0)
		return -1;
	*ret = STEAL_PTR(answer);
	return 0;
}

static int on_allocate(void *arg, const char *const *ids, size_t n_ids, struct allocation **ret,
	struct error *err)
{
	struct agent_plugin *p = arg;
	const struct agent_kubelet_context *c = &p->kubelet->c;
	int r = allocate_plugin_devices(p, ids, n_ids, ret, err);

	c->ops->allocated(c->arg, p->name, ids, n_ids, r == 0);
	return r;
}

static void on_plugin_state(void *arg, bool registered, const char *why)
{
	struct agent_plugin *p = arg;

	if (registered) {
		log_info("registered with the kubelet", LOG_STR("resource", p->name));
		wake_up(p->kubelet->c.wake);
	} else if (*why) { /* without a reason, registration is about to begin */
		log_warn("not registered with the kubelet, trying again",
			LOG_STR("resource", p->name), LOG_STR("reason", why));
	}
}

static const struct plugin_ops plugin_ops = {
	.prefer = on_prefer,
	.allocate = on_allocate,
	.state = on_plugin_state,
};

static struct agent_plugin *new_agent_plugin(struct agent_kubelet *k, const char *name)
{
	struct agent_plugin *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->kubelet = k;
	memcpy(p->name, name, strnlen(name, sizeof(p->name) - 1));
	return p;
}

/* On a failure .why says why. */
static void start_plugin(struct agent_plugin *p)
{
	struct agent_kubelet *k = p->kubelet;
	struct error err = ERROR_INIT;

	if (p->plugin)
		return;
	if (access(k->plugin_dir, F_OK) < 0) {
		(void)error_sys(&err, errno, "'%s'", k->plugin_dir);
	} else if (plugin_start(&p->plugin, k->rpc, k->plugin_dir, k->socket, p->name,
			   &plugin_ops, p, &err) == 0) {
		p->why[0] = '\0';
		k->served = true;
		return;
	}
	if (strcmp(p->why, err.msg) != 0)
		log_warn("cannot serve the kubelet yet, trying again",
			LOG_STR("resource", p->name), LOG_STR("reason", err.msg));
	memcpy(p->why, err.msg, sizeof(p->why));
	/*
	 * Two agents on one node would compete for the socket. So the second agent reports this and ends. An
	 * agent that serves, or has served, a resource goes on, because it has other resources.
	 */
	if (err.code == ERR_EXISTS && !k->served)
		failure_set(k->c.failure, &err);
}

static void set_plugin_devices(struct agent_plugin *p, const struct resource *r)
{
	const struct inventory *inv = p->kubelet->c.facts->offered.inv;
	CLEANUP(freep) struct plugin_device *devices = NULL;
	struct error err = ERROR_INIT;

	if (!p->plugin)
		return;
	if (r->n_devices > 0)
		(void)try_plugin_devices(p, r);
	devices = calloc(r->n_devices ? r->n_devices : 1, sizeof(*devices));
	if (!devices) {
		log_error("device list not updated", LOG_STR("reason", "out of memory"));
		return;
	}
	for (uint32_t i = 0; i < r->n_devices; i++) {
		const struct offer_device *d = &r->devices[i];

		devices[i] = (struct plugin_device){
			.id = d->id,
			.healthy = agent_kubelet_device_ok(p->kubelet, r, d, NULL),
			.numa_node = inv->gpus[d->gpu].numa_node,
		};
	}
	if (plugin_set_devices(p->plugin, devices, r->n_devices, &err) < 0)
		log_error("device list not updated", LOG_STR("resource", p->name),
			LOG_STR("reason", err.msg));
}

static void free_agent_plugin(struct agent_plugin *p)
{
	p->plugin = plugin_stop(p->plugin);
	allocate_trial_fini(&p->trial);
	free(p);
}

/* --- sync --- */

static struct agent_plugin *add_plugin(struct agent_kubelet *k, const struct resource *r)
{
	struct agent_plugin *p;

	if (!ARRAY_EXTEND(&k->plugins, k->n_plugins, 1, ARRAY_NO_LIMIT))
		return NULL;
	p = new_agent_plugin(k, r->name);
	if (!p)
		return NULL;
	k->plugins[k->n_plugins++] = p;
	log_info("offering resource", LOG_STR("resource", r->name),
		LOG_UINT("devices", r->n_devices), LOG_UINT("replicas", r->replicas));
	return p;
}

/* Withdraws a resource: first its devices, then its socket. False: the caller may free it. */
static bool retire_plugin(struct agent_plugin *p, uint64_t now)
{
	const struct resource none = { .n_devices = 0 };

	if (!p->plugin)
		return false;
	if (p->retire_at_ns != 0)
		return now < p->retire_at_ns;
	log_info("resource is not offered any more", LOG_STR("resource", p->name));
	set_plugin_devices(p, &none);
	p->retire_at_ns = now + RETIRE_NS;
	return true;
}

/* Adds new resources first, so that a rename never leaves the node with nothing. */
void agent_kubelet_sync(struct agent_kubelet *k)
{
	const struct offer *o = k->c.facts->offered.offer;
	uint64_t now = time_mono_ns();
	size_t kept = 0;

	for (size_t i = 0; i < k->n_plugins; i++)
		k->plugins[i]->offered = false;
	for (uint32_t i = 0; i < o->n; i++) {
		const struct resource *r = &o->resources[i];
		struct agent_plugin *p = find_agent_plugin(k, r->name);

		if (!p)
			p = add_plugin(k, r);
		if (!p) {
			log_error("resource not served", LOG_STR("resource", r->name),
				LOG_STR("reason", "out of memory"));
			continue;
		}
		p->offered = true;
		p->retire_at_ns = 0;
		start_plugin(p);
		set_plugin_devices(p, r);
	}
	for (size_t i = 0; i < k->n_plugins; i++) {
		if (k->plugins[i]->offered || retire_plugin(k->plugins[i], now))
			k->plugins[kept++] = k->plugins[i];
		else
			free_agent_plugin(k->plugins[i]);
	}
	k->n_plugins = kept;
}

uint64_t agent_kubelet_due(const struct agent_kubelet *k, uint64_t now_ns)
{
	uint64_t due = UINT64_MAX;

	for (size_t i = 0; i < k->n_plugins; i++) {
		const struct agent_plugin *p = k->plugins[i];
		uint64_t own = !p->plugin        ? now_ns + SERVE_AGAIN_NS
			       : p->retire_at_ns ? p->retire_at_ns
						 : UINT64_MAX;

		if (own < due)
			due = own;
	}
	return due;
}

/* --- life --- */

static int copy_kubelet_dir(char to[PATH_MAX], const char *dir, struct error *err)
{
	int n = snprintf(to, PATH_MAX, "%s", dir);

	if (n <= 0 || n >= PATH_MAX)
		return error_set(err, ERR_INVALID,
			"--kubelet-dir: expected a directory of 1 to %d bytes, found %d",
			PATH_MAX - 1, n);
	return 0;
}

static int check_kubelet_socket(const struct agent_kubelet *k, struct error *err)
{
	char path[PATH_MAX];

	if (k->socket)
		return *k->socket ? unix_path_check(k->socket, err) : 0;
	if (path_join(path, sizeof(path), k->plugin_dir, "kubelet.sock", err) < 0)
		return -1;
	return unix_path_check(path, err) < 0 ? error_prefix(err, "--kubelet-dir") : 0;
}

int agent_kubelet_set_paths(struct agent_kubelet *k, const char *dir, const char *socket,
	struct error *err)
{
	if (copy_kubelet_dir(k->dir, dir, err) < 0 ||
		path_join(k->plugin_dir, sizeof(k->plugin_dir), dir, "device-plugins", err) < 0)
		return -1;
	if (socket) {
		k->socket = strdup(socket);
		if (!k->socket)
			return error_nomem(err);
	}
	return check_kubelet_socket(k, err);
}

void agent_kubelet_check_dir(struct agent_kubelet *k)
{
	bool again = false;

	for (size_t i = 0; i < k->n_plugins; i++) {
		if (k->plugins[i]->plugin)
			plugin_sync(k->plugins[i]->plugin);
		else
			again = true;
	}
	if (again)
		wake_up(k->c.wake);
}

static void on_kubelet_dir(void *arg)
{
	agent_kubelet_check_dir(arg);
}

void agent_kubelet_init(struct agent_kubelet *k, const struct agent_kubelet_context *context)
{
	*k = (struct agent_kubelet){ .c = *context };
}

int agent_kubelet_start(struct agent_kubelet *k, struct error *err)
{
	char path[PATH_MAX];

	if (rpc_new(&k->rpc, k->c.loop, err) < 0 ||
		path_join(path, sizeof(path), k->dir, "pod-resources/kubelet.sock", err) < 0 ||
		pod_resources_cache_new(&k->pod_resources, k->rpc, path, err) < 0)
		return -1;
	return kubelet_watch_start(&k->watch, k->c.loop, k->plugin_dir, on_kubelet_dir, k, err);
}

void agent_kubelet_stop(struct agent_kubelet *k)
{
	k->pod_resources = pod_resources_cache_free(k->pod_resources);
	k->watch = kubelet_watch_stop(k->watch);
	for (size_t i = 0; i < k->n_plugins; i++)
		free_agent_plugin(k->plugins[i]);
	k->n_plugins = 0;
	k->rpc = rpc_free(k->rpc);
}

void agent_kubelet_fini(struct agent_kubelet *k)
{
	free(k->plugins);
	free(k->socket);
}
