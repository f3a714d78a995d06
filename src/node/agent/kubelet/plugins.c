/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/internal.h"

#include "node/agent/kubelet/host.h"
#include "model/prefer/prefer.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* --- trials --- */

/*
 * Which devices an Allocate would refuse now. If a device is advertised as healthy and then refused, a
 * Deployment creates failed pods without end. So a trial makes an answer with the code of an Allocate,
 * allocation_new(), and calls slices_check(). The agent does this for one device of each physical device and
 * share, and discards the answer.
 */

static int get_trial_host(const struct agent *a, struct alloc_host *host, struct error *err)
{
	const struct config *c = a->facts.config;

	if (alloc_host_probe(host, c, err) < 0)
		return -1;
	return agent_cdi_facts(&a->cdi, c, &host->cdi, err);
}

static int try_device(struct agent *a, const struct resource *r, const struct offer_device *d,
	const struct alloc_host *host, struct error *err)
{
	CLEANUP(allocation_freep) struct allocation *answer = NULL;
	const char *id = d->id;

	if (allocation_new(&answer, r, a->facts.offered.inv, a->facts.config, host, &id, 1,
		    err) < 0)
		return -1;
	return slices_check(&a->slices, r, &id, 1, err);
}

static bool is_same_trial_device(const struct offer_device *a, const struct offer_device *b)
{
	return a->gpu == b->gpu && a->mig == b->mig && a->share == b->share;
}

static int add_refusal(struct agent_trial *t, const struct offer_device *d,
	const struct error *why)
{
	struct agent_refusal *more = reallocarray(t->v, t->n + 1, sizeof(*more));

	if (!more)
		return -1;
	t->v = more;
	more = &t->v[t->n++];
	*more = (struct agent_refusal){ .gpu = d->gpu, .mig = d->mig, .share = d->share };
	memcpy(more->why, why->msg, sizeof(more->why));
	return 0;
}

static void agent_trial_fini(struct agent_trial *t)
{
	free(t->v);
	*t = (struct agent_trial){ .n = 0 };
}

/* Devices are sorted, so those of one physical device and share are neighbors. */
static void run_allocation_trial(struct agent *a, const struct resource *r,
	struct agent_trial *ret)
{
	CLEANUP(alloc_host_fini) struct alloc_host host = { .control_nodes = STRV_INIT };
	struct error host_error = ERROR_INIT;
	int host_known = get_trial_host(a, &host, &host_error);

	*ret = (struct agent_trial){ .n = 0 };
	for (uint32_t i = 0; i < r->n_devices; i++) {
		const struct offer_device *d = &r->devices[i];
		struct error err = ERROR_INIT;

		if (d->why || (i && is_same_trial_device(d, d - 1)))
			continue;
		if (host_known < 0)
			err = host_error;
		else if (try_device(a, r, d, &host, &err) == 0)
			continue;
		if (add_refusal(ret, d, &err) < 0)
			return;
	}
}

static bool is_same_trial_result(const struct agent_trial *a, const struct agent_trial *b)
{
	bool same = a->n == b->n;

	for (size_t i = 0; same && i < a->n; i++)
		same = a->v[i].gpu == b->v[i].gpu && a->v[i].mig == b->v[i].mig &&
		       a->v[i].share == b->v[i].share && !strcmp(a->v[i].why, b->v[i].why);
	return same;
}

static void report_allocation_trial(struct agent *a, const char *resource,
	const struct agent_trial *t)
{
	if (t->n == 0) {
		log_info("devices can be allocated again", LOG_STR("resource", resource));
		report_event(&a->reporter, EVENT_NORMAL, "DevicesAllocatable",
			"%s: its devices can be allocated again", resource);
		return;
	}
	log_error("devices cannot be allocated, and are unhealthy",
		LOG_STR("resource", resource), LOG_STR("reason", t->v[0].why));
	report_event(&a->reporter, EVENT_WARNING, "DevicesNotAllocatable",
		"%s: devices are unhealthy, as they cannot be allocated: %s", resource,
		t->v[0].why);
}

/* True: the devices that Allocate would refuse changed; the change is logged, with an Event. */
static bool agent_trial_run(struct agent *a, struct agent_trial *t, const struct resource *r)
{
	struct agent_trial now;
	bool news;

	run_allocation_trial(a, r, &now);
	news = !is_same_trial_result(&now, t);
	if (news)
		report_allocation_trial(a, r->name, &now);
	agent_trial_fini(t);
	*t = now;
	return news;
}

/* --- plugins --- */

/* The resource as it is offered now. The offer may have lost it during the kubelet's request. */
static const struct resource *find_plugin_resource(const struct agent_plugin *p,
	struct error *err)
{
	const struct offer *o = p->agent->facts.offered.offer;
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
	return prefer_choose(r, p->agent->facts.offered.inv, p->agent->facts.config->allocation,
		req, ret_ids, ret_n, err);
}

static int allocate_plugin_devices(struct agent_plugin *p, const char *const *ids, size_t n_ids,
	struct allocation **ret, struct error *err)
{
	const struct config *c = p->agent->facts.config;
	const struct resource *r = find_plugin_resource(p, err);
	CLEANUP(alloc_host_fini) struct alloc_host host = { .control_nodes = STRV_INIT };
	CLEANUP(allocation_freep) struct allocation *answer = NULL;

	if (!r || alloc_host_probe(&host, c, err) < 0 ||
		agent_cdi_facts(&p->agent->cdi, c, &host.cdi, err) < 0)
		return -1;
	if (allocation_new(&answer, r, p->agent->facts.offered.inv, c, &host, ids, n_ids, err) <
			0 ||
		mps_allocate(&p->agent->mps, r, ids, n_ids, answer, err) < 0 ||
		slices_allocate(&p->agent->slices, r, ids, n_ids, answer, err) < 0)
		return -1;
	*ret = STEAL_PTR(answer);
	return 0;
}

static int on_allocate(void *arg, const char *const *ids, size_t n_ids, struct allocation **ret,
	struct error *err)
{
	struct agent_plugin *p = arg;
	int r = allocate_plugin_devices(p, ids, n_ids, ret, err);

	monitoring_allocated(&p->agent->monitoring, p->name, ids, n_ids, r == 0);
	return r;
}

static void on_plugin_state(void *arg, bool registered, const char *why)
{
	struct agent_plugin *p = arg;

	if (registered) {
		log_info("registered with the kubelet", LOG_STR("resource", p->name));
		wake_up(&p->agent->wake);
	} else if (*why) { /* without a reason, registration is about to begin */
		log_warn("not registered with the kubelet, trying again",
			LOG_STR("resource", p->name), LOG_STR("reason", why));
	}
}

static const struct plugin_ops ops = {
	.prefer = on_prefer,
	.allocate = on_allocate,
	.state = on_plugin_state,
};

struct agent_plugin *agent_plugin_new(struct agent *a, const char *name)
{
	struct agent_plugin *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->agent = a;
	memcpy(p->name, name, strnlen(name, sizeof(p->name) - 1));
	return p;
}

void agent_plugin_start(struct agent_plugin *p)
{
	struct agent *a = p->agent;
	struct error err = ERROR_INIT;

	if (p->plugin)
		return;
	if (access(a->plugin_dir, F_OK) < 0) {
		(void)error_sys(&err, errno, "'%s'", a->plugin_dir);
	} else if (plugin_start(&p->plugin, a->rpc, a->plugin_dir, a->kubelet_socket, p->name,
			   &ops, p, &err) == 0) {
		p->why[0] = '\0';
		a->served = true;
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
	if (err.code == ERR_EXISTS && !a->served)
		failure_set(&a->failure, &err);
}

bool agent_plugins_try(struct agent *a)
{
	bool news = false;

	for (uint32_t i = 0; a->facts.offered.offer && i < a->facts.offered.offer->n; i++) {
		const struct resource *r = &a->facts.offered.offer->resources[i];
		struct agent_plugin *p = agent_plugin_of(a, r->name);

		if (p && p->offered)
			news |= agent_trial_run(a, &p->trial, r);
	}
	return news;
}

void agent_plugin_set_devices(struct agent_plugin *p, const struct resource *r)
{
	const struct inventory *inv = p->agent->facts.offered.inv;
	CLEANUP(freep) struct plugin_device *devices = NULL;
	struct error err = ERROR_INIT;

	if (!p->plugin)
		return;
	if (r->n_devices > 0)
		(void)agent_trial_run(p->agent, &p->trial, r);
	devices = calloc(r->n_devices ? r->n_devices : 1, sizeof(*devices));
	if (!devices) {
		log_error("device list not updated", LOG_STR("reason", "out of memory"));
		return;
	}
	for (uint32_t i = 0; i < r->n_devices; i++) {
		const struct offer_device *d = &r->devices[i];

		devices[i] = (struct plugin_device){
			.id = d->id,
			.healthy = agent_device_ok(p->agent, r, d, NULL),
			.numa_node = inv->gpus[d->gpu].numa_node,
		};
	}
	if (plugin_set_devices(p->plugin, devices, r->n_devices, &err) < 0)
		log_error("device list not updated", LOG_STR("resource", p->name),
			LOG_STR("reason", err.msg));
}

struct agent_plugin *agent_plugin_free(struct agent_plugin *p)
{
	if (p) {
		p->plugin = plugin_stop(p->plugin);
		agent_trial_fini(&p->trial);
	}
	free(p);
	return NULL;
}
