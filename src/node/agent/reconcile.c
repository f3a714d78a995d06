/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/internal.h"

#include "lib/base/time.h"

#include <stdio.h>
#include <string.h>

#define DUE_MIN_MS 100 /* keeps a date in the past from spinning the loop */

/* The least time between two requests of a probe. */
#define ASK_AGAIN_NS NS_PER_SEC

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

/* --- changes, for the log --- */

/*
 * The search begins at *at, behind the last found entry: callers mostly ask in the same order. NULL: out of
 * memory.
 */
static struct agent_logged_gpu *find_logged_device(struct agent *a, const char *key, bool mig,
	size_t *at)
{
	struct agent_logged_gpu *more;

	for (size_t i = 0; i < a->n_logged_gpus; i++) {
		size_t k = (*at + i) % a->n_logged_gpus;

		if (a->logged_gpus[k].mig != mig || strcmp(a->logged_gpus[k].key, key) != 0)
			continue;
		*at = k + 1;
		return &a->logged_gpus[k];
	}
	more = reallocarray(a->logged_gpus, a->n_logged_gpus + 1, sizeof(*more));
	if (!more)
		return NULL;
	a->logged_gpus = more;
	more = &a->logged_gpus[a->n_logged_gpus++];
	*more = (struct agent_logged_gpu){ .ok = true, .mig = mig };
	(void)snprintf(more->key, sizeof(more->key), "%s", key);
	*at = a->n_logged_gpus;
	return more;
}

/*
 * The key of a device without a UUID is its position. With a common key each such device would be logged again and
 * again.
 */
static struct agent_logged_gpu *update_logged_gpu(struct agent *a, const struct gpu *g,
	size_t *at)
{
	char place[16];

	(void)snprintf(place, sizeof(place), "%u", g->index);
	return find_logged_device(a, g->uuid[0] ? g->uuid : place, false, at);
}

static struct agent_logged_gpu *update_logged_mig(struct agent *a, const struct gpu *g,
	const struct gpu_mig *m, size_t *at)
{
	char place[32];

	(void)snprintf(place, sizeof(place), "%u:%u", g->index, m->index);
	return find_logged_device(a, m->uuid[0] ? m->uuid : place, true, at);
}

static void log_gpu_change(struct agent *a, const struct gpu *g, const struct health *h)
{
	if (health_ok(h)) {
		log_info("GPU is healthy again", LOG_UINT("gpu", g->index),
			LOG_STR("uuid", g->uuid));
		report_event(&a->reporter, EVENT_NORMAL, "GPUHealthy",
			"GPU %u (%s) is healthy again", g->index, g->uuid);
	} else {
		log_warn("GPU is unhealthy", LOG_UINT("gpu", g->index),
			LOG_STR("uuid", g->uuid), LOG_STR("reason", h->reason));
		report_event(&a->reporter, EVENT_WARNING, "GPUUnhealthy", "GPU %u (%s): %s",
			g->index, g->uuid, h->reason);
	}
}

static void log_mig_change(struct agent *a, const struct gpu *g, const struct gpu_mig *m,
	const struct health *h)
{
	if (health_ok(h)) {
		log_info("MIG device is healthy again", LOG_UINT("gpu", g->index),
			LOG_UINT("mig", m->index), LOG_STR("uuid", m->uuid));
		report_event(&a->reporter, EVENT_NORMAL, "GPUHealthy",
			"MIG device %u:%u (%s) is healthy again", g->index, m->index, m->uuid);
	} else {
		log_warn("MIG device is unhealthy", LOG_UINT("gpu", g->index),
			LOG_UINT("mig", m->index), LOG_STR("uuid", m->uuid),
			LOG_STR("profile", m->profile), LOG_STR("reason", h->reason));
		report_event(&a->reporter, EVENT_WARNING, "GPUUnhealthy",
			"MIG device %u:%u (%s): %s", g->index, m->index, m->uuid, h->reason);
	}
}

/*
 * A warning is not a health state: the device stays allocatable, and may be unhealthy too. @what: "GPU 0
 * (GPU-...)".
 */
static void log_gpu_warning(struct agent *a, const char *what, const char *warning)
{
	if (*warning) {
		log_warn("GPU has a health warning, it stays allocatable",
			LOG_STR("device", what), LOG_STR("warning", warning));
		report_event(&a->reporter, EVENT_WARNING, "GPUWarning", "%s: %s", what,
			warning);
	} else {
		log_info("GPU has no health warning any more", LOG_STR("device", what));
		report_event(&a->reporter, EVENT_NORMAL, "GPUWarningCleared",
			"%s: the health warning is over", what);
	}
}

/* Whether the warning of @h is new. Saves it as logged. */
static bool is_new_warning(struct agent_logged_gpu *seen, const struct health *h)
{
	if (!strcmp(seen->warning, h->warning))
		return false;
	memcpy(seen->warning, h->warning, sizeof(seen->warning));
	return true;
}

/* Whether @h is a change of the device's health. Saves it as logged. */
static bool is_news(struct agent_logged_gpu *seen, const struct health *h)
{
	bool ok = health_ok(h);

	if (seen->ok == ok && (ok || !strcmp(seen->reason, h->reason)))
		return false;
	seen->ok = ok;
	memcpy(seen->reason, h->reason, sizeof(seen->reason));
	return true;
}

/* Removes MIG devices that no longer exist, or the entries of old layouts would accumulate. */
static void drop_old_migs(struct agent *a)
{
	size_t kept = 0;

	for (size_t i = 0; i < a->n_logged_gpus; i++) {
		if (a->logged_gpus[i].mig && !a->logged_gpus[i].present)
			continue;
		a->logged_gpus[kept] = a->logged_gpus[i];
		a->logged_gpus[kept++].present = false;
	}
	a->n_logged_gpus = kept;
}

static void log_health(struct agent *a)
{
	const struct inventory *inv = a->facts.node.inv;
	char what[GPU_UUID_MAX + 48];
	size_t at = 0;

	for (uint32_t i = 0; i < inv->n; i++) {
		const struct node_gpu *g = &a->facts.node.gpus[i];
		struct agent_logged_gpu *seen = update_logged_gpu(a, &g->gpu, &at);

		if (!seen)
			continue;
		if (is_news(seen, &g->health))
			log_gpu_change(a, &g->gpu, &g->health);
		if (is_new_warning(seen, &g->health)) {
			(void)snprintf(what, sizeof(what), "GPU %u (%s)", g->gpu.index,
				g->gpu.uuid);
			log_gpu_warning(a, what, g->health.warning);
		}
	}
	for (uint32_t i = 0; i < inv->n_mig; i++) {
		const struct gpu_mig *m = &inv->mig[i];
		const struct node_gpu *g = &a->facts.node.gpus[m->gpu];
		struct agent_logged_gpu *seen = update_logged_mig(a, &g->gpu, m, &at);

		if (!seen)
			continue;
		seen->present = true;
		/* A MIG device of an unhealthy GPU is not logged: the GPU is. */
		if (health_ok(&g->health) && is_news(seen, &a->facts.node.migs[i]))
			log_mig_change(a, &g->gpu, m, &a->facts.node.migs[i]);
		if (is_new_warning(seen, &a->facts.node.migs[i])) {
			(void)snprintf(what, sizeof(what), "MIG device %u:%u (%s)",
				g->gpu.index, m->index, m->uuid);
			log_gpu_warning(a, what, a->facts.node.migs[i].warning);
		}
	}
	drop_old_migs(a);
}

/* --- decide --- */

/* Logs the lines of @now that @before lacks. */
static void log_news(const char *what, const struct strv *now, const struct strv *before)
{
	for (size_t i = 0; i < now->n; i++)
		if (!before || !strv_has(before, now->v[i]))
			log_warn(what, LOG_STR("reason", now->v[i]));
}

/*
 * Replaces the offer by a decision from the present facts. On an error (no memory, too many devices) the old offer
 * stays in force, with its own copy of the inventory.
 */
static void update_offer(struct agent *a)
{
	CLEANUP(offer_freep) struct offer *offer = NULL;
	CLEANUP(inventory_freep) struct inventory *inv = NULL;
	struct error err = ERROR_INIT;

	if (inventory_copy(&inv, a->facts.node.inv, &err) == 0)
		mig_apply_mask(&a->mig, inv);
	if (!inv || offer_new(&offer, inv, a->facts.config, &err) < 0) {
		if (strcmp(a->facts.offer_error.msg, err.msg) != 0)
			log_error("cannot decide what to offer, keeping the last",
				LOG_STR("reason", err.msg));
		a->facts.offer_error = err;
		return;
	}
	error_clear(&a->facts.offer_error);
	log_news("the config does not fit this node", &offer->warnings,
		a->facts.offered.offer ? &a->facts.offered.offer->warnings : NULL);
	log_news("not offered as configured", &offer->notes,
		a->facts.offered.offer ? &a->facts.offered.offer->notes : NULL);
	a->facts.offered.offer = offer_free(a->facts.offered.offer);
	a->facts.offered.inv = inventory_free(a->facts.offered.inv);
	a->facts.offered.offer = STEAL_PTR(offer);
	a->facts.offered.inv = STEAL_PTR(inv);
}

/* --- act --- */

static struct agent_plugin *add_plugin(struct agent *a, const struct resource *r)
{
	struct agent_plugin **more = reallocarray(a->plugins, a->n_plugins + 1, sizeof(*more));
	struct agent_plugin *p;

	if (!more)
		return NULL;
	a->plugins = more;
	p = agent_plugin_new(a, r->name);
	if (!p)
		return NULL;
	a->plugins[a->n_plugins++] = p;
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
	agent_plugin_set_devices(p, &none);
	p->retire_at_ns = now + RETIRE_NS;
	return true;
}

/* Adds new resources first, so that a rename never leaves the node with nothing. */
static void sync_plugins(struct agent *a)
{
	const struct offer *o = a->facts.offered.offer;
	uint64_t now = time_mono_ns();
	size_t kept = 0;

	for (size_t i = 0; i < a->n_plugins; i++)
		a->plugins[i]->offered = false;
	for (uint32_t i = 0; i < o->n; i++) {
		const struct resource *r = &o->resources[i];
		struct agent_plugin *p = agent_plugin_of(a, r->name);

		if (!p)
			p = add_plugin(a, r);
		if (!p) {
			log_error("resource not served", LOG_STR("resource", r->name),
				LOG_STR("reason", "out of memory"));
			continue;
		}
		p->offered = true;
		p->retire_at_ns = 0;
		agent_plugin_start(p);
		agent_plugin_set_devices(p, r);
	}
	for (size_t i = 0; i < a->n_plugins; i++) {
		if (a->plugins[i]->offered || retire_plugin(a->plugins[i], now))
			a->plugins[kept++] = a->plugins[i];
		else
			(void)agent_plugin_free(a->plugins[i]);
	}
	a->n_plugins = kept;
}

/* --- the timer --- */

static void on_due(uv_timer_t *t)
{
	struct agent *a = t->data;
	const struct health_policy *policy = &a->facts.config->health;
	uint64_t now = time_mono_ns();

	if (now >= node_due(&a->facts.node, policy)) {
		/* The config may not have fit because of a GPU that is now forgotten. */
		if (node_tick(&a->facts.node, policy, now))
			agent_config_gpus_changed(&a->config);
		a->probe_requested_ns = now;
		agent_probe(a);
	}
	wake_up(&a->wake);
}

/* When a resource needs its first socket, or the end of its socket. */
static uint64_t plugins_due(const struct agent *a, uint64_t now)
{
	uint64_t due = UINT64_MAX;

	for (size_t i = 0; i < a->n_plugins; i++) {
		const struct agent_plugin *p = a->plugins[i];
		uint64_t own = !p->plugin        ? now + SERVE_AGAIN_NS
			       : p->retire_at_ns ? p->retire_at_ns
						 : UINT64_MAX;

		if (own < due)
			due = own;
	}
	return due;
}

/*
 * An answer of NVML may take long: NVML hangs, crashes, or is released. Until ASK_AGAIN_NS is over, the agent does
 * not request an overdue probe again.
 */
static uint64_t arm_gpu_probe(const struct agent *a, uint64_t now)
{
	uint64_t due = node_due(&a->facts.node, &a->facts.config->health);
	uint64_t again = a->probe_requested_ns + ASK_AGAIN_NS;

	return due <= now && a->probe_requested_ns && now < again ? again : due;
}

/* Milliseconds; UINT64_MAX: nothing is due. */
static uint64_t due_in(const struct agent *a)
{
	uint64_t now = time_mono_ns(), due = arm_gpu_probe(a, now);
	uint64_t plugins = plugins_due(a, now), cdi = agent_cdi_due(&a->cdi);

	if (plugins < due)
		due = plugins;
	if (cdi < due)
		due = cdi;
	if (due == UINT64_MAX)
		return due;
	return due > now ? (due - now) / NS_PER_MS + DUE_MIN_MS : DUE_MIN_MS;
}

static void arm_reconcile_timer(struct agent *a)
{
	uint64_t ms = due_in(a);

	if (ms == UINT64_MAX)
		(void)uv_timer_stop(&a->due);
	else
		(void)uv_timer_start(&a->due, on_due, ms, 0);
}

/* Only moves the timer to an earlier time. Otherwise each probe would postpone a pending retry, for ever. */
void agent_set_due(struct agent *a)
{
	if (!uv_is_active((uv_handle_t *)&a->due) || due_in(a) < uv_timer_get_due_in(&a->due))
		arm_reconcile_timer(a);
}

void agent_reconcile(void *arg)
{
	struct agent *a = arg;

	a->facts.rounds++;
	if (!a->facts.node.inv) {
		/* A repair tool may wait for the reason why there are no GPUs. */
		cluster_sync(&a->cluster);
		return;
	}
	log_health(a);
	/* Until a config is decided, nothing is offered: the first offer must be right. */
	if (a->facts.decided)
		update_offer(a);
	/* The kubelet may allocate a device as soon as it is offered, so what Allocate needs comes first. */
	agent_cdi_sync(a);
	slices_sync(&a->slices);
	mps_sync(&a->mps);
	/* An old offer's positions do not fit the node's present GPUs, so the plugins keep their lists. */
	if (a->facts.offered.offer && a->facts.offer_error.code == ERR_NONE)
		sync_plugins(a);
	cluster_sync(&a->cluster);
	agent_health_save(a);
	arm_reconcile_timer(a);
}
