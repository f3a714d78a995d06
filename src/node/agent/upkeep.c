/* SPDX-License-Identifier: Apache-2.0 */
/* A timer that reports the state of the agent's components, and retries what failed. */
#include "node/agent/internal.h"

#include "lib/base/time.h"

#include <inttypes.h>

#define SYNC_MS  1000
#define RETRY_NS (10 * NS_PER_SEC)

/* The limit of GPUs that one reason names. */
#define XID_GPUS_MAX      8
#define XID_GPUS_TEXT_MAX 128

/* --- state of the components --- */

static void sync_serve(struct agent *a)
{
	struct error why = ERROR_INIT;
	enum web_state state;

	if (!a->serve)
		return;
	state = serve_web_state(a->serve, &why);
	if (state != WEB_STARTING)
		report_component(&a->reporter, COMPONENT_WEB_SERVER, &why);
	error_clear(&why);
	(void)serve_counters_down(a->serve, &why);
	report_component(&a->reporter, COMPONENT_COUNTERS, &why);
	report_component(&a->reporter, COMPONENT_USAGE_RECORDS, &a->monitoring.persist.failure);
}

/* Reports GPUs that answer without XID events. For any other GPU its health says more. */
static void sync_xid_events(struct agent *a)
{
	const struct node *n = &a->facts.node;
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
	report_component(&a->reporter, COMPONENT_XID_EVENTS, &why);
}

static void sync_others(struct agent *a)
{
	const struct agent_cdi *cdi = &a->cdi;

	report_component(&a->reporter, COMPONENT_PRICES, &a->monitoring.price.error);
	report_component(&a->reporter, COMPONENT_CDI,
		cdi->error.code != ERR_NONE ? &cdi->error : &cdi->other_error);
	report_component(&a->reporter, COMPONENT_API_SERVER, cluster_down(&a->cluster));
	report_component(&a->reporter, COMPONENT_LABELS, cluster_labels_down(&a->cluster));
	report_component(&a->reporter, COMPONENT_STARTUP_TAINT,
		cluster_taint_down(&a->cluster));
	sync_xid_events(a);
}

static void retry_agent_parts(struct agent *a)
{
	uint64_t now_ns = time_mono_ns();

	if (now_ns < a->upkeep.retry_at_ns)
		return;
	a->upkeep.retry_at_ns = now_ns + RETRY_NS;
	run_lock_retry(&a->run_lock);
	agent_config_retry(&a->config);
	agent_http_sync(&a->http);
	cluster_retry(&a->cluster);
	mig_retry(&a->mig);
	slices_retry(&a->slices);
	health_saver_save(&a->health_saver);
	if (a->serve)
		serve_retry(a->serve);
	monitoring_retry(&a->monitoring);
}

static void on_upkeep_timer(uv_timer_t *t)
{
	retry_agent_parts(t->data);
	sync_serve(t->data);
	sync_others(t->data);
}

void agent_upkeep_init(struct agent *a)
{
	(void)uv_timer_init(a->loop, &a->upkeep.timer);
	a->upkeep.timer.data = a;
}

void agent_upkeep_start(struct agent *a, const struct strv *option_errors)
{
	struct error why = ERROR_INIT;

	if (option_errors->n > 0) {
		(void)error_set(&why, ERR_INVALID, "%s", option_errors->v[0]);
		if (option_errors->n > 1)
			(void)error_prefix(&why, "%zu options are ignored, the first",
				option_errors->n);
		report_component(&a->reporter, COMPONENT_OPTIONS, &why);
	}
	a->upkeep.retry_at_ns = time_mono_ns() + RETRY_NS;
	(void)uv_timer_start(&a->upkeep.timer, on_upkeep_timer, SYNC_MS, SYNC_MS);
}

void agent_upkeep_stop(struct agent *a)
{
	uv_close((uv_handle_t *)&a->upkeep.timer, NULL);
}
