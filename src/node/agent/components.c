/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/components.h"

#include "node/agent/internal.h"
#include "lib/base/time.h"

#include <inttypes.h>
#include <string.h>

#define SYNC_MS  1000
#define RETRY_NS (10 * NS_PER_SEC)

/* GPUs that one reason names. */
#define XID_GPUS_MAX      8
#define XID_GPUS_TEXT_MAX 128

static const struct {
	const char *name;
	bool logs; /* its own code logs what fails */
	bool needed; /* by some devices, which are unhealthy without it (node/agent/kubelet/trial.c) */
} rows[] = {
	[COMPONENT_OPTIONS] = { .name = "options", .logs = true },
	[COMPONENT_RUN_DIR] = { .name = "run-directory" },
	[COMPONENT_STATUS_SOCKET] = { .name = "status-socket" },
	[COMPONENT_HEALTH_TCP] = { .name = "health-tcp" },
	[COMPONENT_WEB_SERVER] = { .name = "web-server", .logs = true },
	[COMPONENT_COUNTERS] = { .name = "counters", .logs = true },
	[COMPONENT_USAGE_RECORDS] = { .name = "usage-records", .logs = true },
	[COMPONENT_PRICES] = { .name = "prices", .logs = true },
	[COMPONENT_CDI] = { .name = "cdi", .logs = true, .needed = true },
	[COMPONENT_API_SERVER] = { .name = "api-server", .logs = true },
	[COMPONENT_LABELS] = { .name = "labels", .logs = true },
	[COMPONENT_XID_EVENTS] = { .name = "xid-events" },
	[COMPONENT_POD_USAGE] = { .name = "pod-usage" },
	[COMPONENT_MIG_MANAGER] = { .name = "mig-manager" },
	[COMPONENT_SLICES] = { .name = "slices", .needed = true },
	[COMPONENT_NODE_CONDITION] = { .name = "node-condition", .logs = true },
	[COMPONENT_STARTUP_TAINT] = { .name = "startup-taint", .logs = true },
	[COMPONENT_KEPT_CONFIG] = { .name = "kept-config" },
	[COMPONENT_KEPT_HEALTH] = { .name = "kept-health" },
};

const char *component_name(enum component c)
{
	return rows[c].name;
}

bool component_set(struct component_state *s, const struct error *why, uint64_t wall_ns)
{
	if (!why || why->code == ERR_NONE) {
		bool news = s->why.code != ERR_NONE;

		*s = (struct component_state){ .since_wall_ns = 0 };
		return news;
	}
	if (s->why.code != ERR_NONE && !strcmp(s->why.msg, why->msg))
		return false;
	if (s->why.code == ERR_NONE)
		s->since_wall_ns = wall_ns;
	s->why = *why;
	return true;
}

void agent_component(struct agent *a, enum component c, const struct error *why)
{
	struct component_state *s = &a->components.v[c];
	const char *name = rows[c].name;

	if (!component_set(s, why, time_wall_ns()))
		return;
	if (s->why.code == ERR_NONE) {
		log_info("component recovered", LOG_STR("component", name));
		agent_event(a, EVENT_NORMAL, "ComponentRecovered", "%s works again", name);
		return;
	}
	if (!rows[c].logs)
		log_warn(rows[c].needed ? "component degraded"
					: "component degraded, devices are not affected",
			LOG_STR("component", name), LOG_STR("reason", s->why.msg));
	agent_event(a, EVENT_WARNING, "ComponentDegraded", "%s: %s%s", name, s->why.msg,
		rows[c].needed ? "" : "; devices are not affected");
}

/* --- what the components say of themselves --- */

static void sync_serve(struct agent *a)
{
	struct error why = ERROR_INIT;
	enum web_state state;

	if (!a->serve)
		return;
	state = serve_web_state(a->serve, &why);
	if (state != WEB_STARTING)
		agent_component(a, COMPONENT_WEB_SERVER, &why);
	error_clear(&why);
	(void)serve_counters_down(a->serve, &why);
	agent_component(a, COMPONENT_COUNTERS, &why);
	agent_component(a, COMPONENT_USAGE_RECORDS, &a->see.keep.failure);
}

/* Of GPUs that answer; of another its health says more. */
static void sync_xid_events(struct agent *a)
{
	const struct node *n = &a->node;
	CLEANUP(buf_fini) struct buf gpus = BUF_INIT(XID_GPUS_TEXT_MAX);
	struct error why = ERROR_INIT;
	uint32_t unseen = 0;

	for (uint32_t i = 0; n->inv && i < n->inv->n; i++) {
		const struct gpu *g = &n->gpus[i].gpu;

		if (!n->gpus[i].present || g->fault != GPU_OK || g->xid_events)
			continue;
		if (unseen++ < XID_GPUS_MAX)
			buf_printf(&gpus, "%s%" PRIu32, unseen > 1 ? ", " : "", g->index);
	}
	if (unseen > XID_GPUS_MAX)
		buf_printf(&gpus, " and %" PRIu32 " more", unseen - XID_GPUS_MAX);
	if (unseen)
		(void)error_set(&why, ERR_UNAVAILABLE,
			"XIDs of GPU %s are not seen: NVML reports no XID events of it. What only an XID tells does "
			"not make it unhealthy; look for \"NVRM: Xid\" in the kernel's log",
			buf_str(&gpus));
	agent_component(a, COMPONENT_XID_EVENTS, &why);
}

static void sync_others(struct agent *a)
{
	const struct agent_cdi *cdi = &a->cdi;

	agent_component(a, COMPONENT_PRICES, &a->see.price.error);
	agent_component(a, COMPONENT_CDI,
		cdi->error.code != ERR_NONE ? &cdi->error : &cdi->other_error);
	agent_component(a, COMPONENT_API_SERVER, agent_cluster_down(a));
	agent_component(a, COMPONENT_LABELS, agent_labels_down(a));
	agent_component(a, COMPONENT_STARTUP_TAINT, agent_taint_down(a));
	sync_xid_events(a);
}

static void retry(struct agent *a)
{
	struct components *c = &a->components;
	uint64_t now_ns = time_mono_ns();

	if (now_ns < c->retry_at_ns)
		return;
	c->retry_at_ns = now_ns + RETRY_NS;
	agent_lock_retry(a);
	agent_config_retry(a);
	agent_http_retry(a);
	agent_cluster_retry(a);
	agent_mig_retry(a);
	agent_slices_retry(a);
	agent_health_keep(a);
	if (a->serve)
		serve_retry(a->serve);
	agent_see_retry(a);
}

static void on_timer(uv_timer_t *t)
{
	retry(t->data);
	sync_serve(t->data);
	sync_others(t->data);
}

void agent_components_init(struct agent *a)
{
	(void)uv_timer_init(a->loop, &a->components.timer);
	a->components.timer.data = a;
}

void agent_components_start(struct agent *a, const struct strv *option_errors)
{
	struct error why = ERROR_INIT;

	if (option_errors->n > 0) {
		(void)error_set(&why, ERR_INVALID, "%s", option_errors->v[0]);
		if (option_errors->n > 1)
			(void)error_prefix(&why, "%zu options are ignored, the first",
				option_errors->n);
		agent_component(a, COMPONENT_OPTIONS, &why);
	}
	a->components.retry_at_ns = time_mono_ns() + RETRY_NS;
	(void)uv_timer_start(&a->components.timer, on_timer, SYNC_MS, SYNC_MS);
}

void agent_components_stop(struct agent *a)
{
	uv_close((uv_handle_t *)&a->components.timer, NULL);
}
