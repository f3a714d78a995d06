/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/mig/attempt.h"

#include "lib/base/time.h"

#include <stdio.h>
#include <string.h>

#define MPS_ANSWER_NS (5 * NS_PER_SEC)

/* --- PLAN: what is there to do? --- */

static bool has_clients(const struct agent *a)
{
	const struct node_object *n = a->cluster.link.node;

	return n && node_object_state(n) == NODE_PRESENT &&
	       mig_clients_any(node_object_labels(n), a->mig.own);
}

static void begin_change(struct agent *a)
{
	struct agent_mig *m = &a->mig;
	char text[MIG_WISH_NAME_MAX + 64];

	(void)snprintf(text, sizeof(text), "%s: being applied", m->name);
	if (!strcmp(m->state, "pending") && !strcmp(m->reason, text))
		return;
	mig_node_say(a, "pending", text);
	log_info("changing the MIG layout", LOG_STR("config", m->name));
	report_event(&a->reporter, EVENT_NORMAL, "MigConfigPending", "%s", text);
}

static void begin(struct agent *a)
{
	const struct agent_mig *m = &a->mig;

	mig_enter(a, m->takes && !m->paused && has_clients(a) ? MIG_PAUSE : MIG_WITHDRAW);
}

/* Somebody has what would go; false: nobody, or nobody can say. */
static bool is_held(const struct agent *a, const struct pod_devices *list,
	const struct error *err, struct error *why)
{
	const struct pod_device *d = NULL;

	if (err && !holders_absent(a->holders))
		(void)error_set(why, ERR_UNAVAILABLE,
			"the kubelet does not say who uses the devices: %s", err->msg);
	else if (!err)
		d = mig_mask_holder(&a->mig.mask, a->facts.node.inv, list);
	if (d)
		(void)error_set(why, ERR_UNAVAILABLE, "in use by pod %s/%s (%s %s)",
			d->namespace_, d->pod, d->resource, d->id);
	return why->code != ERR_NONE;
}

/* Asked before anything is touched, so that trying again while a pod runs disturbs nobody. */
static void on_first_holders(void *arg, const struct pod_devices *list, const struct error *err)
{
	struct agent *a = arg;
	struct agent_mig *m = &a->mig;
	struct error why = ERROR_INIT;

	if (m->phase != MIG_PLAN || m->child || !a->facts.node.inv)
		return;
	if (is_held(a, list, err, &why) && (m->paused || m->paused_in_vain || !has_clients(a)))
		mig_fail(a, /* in_use= */ true, &why);
	else
		begin(a);
}

static void planned(void *arg, const struct child_end *e)
{
	struct agent *a = arg;
	struct agent_mig *m = &a->mig;
	struct error err = ERROR_INIT;
	bool in_use;

	m->child = NULL;
	if (!mig_tool_ended_well(m, e, &in_use, &err)) {
		/* Perhaps it is a client that uses it: they are paused once, and then it is seen. */
		if (in_use && !m->paused && !m->paused_in_vain && has_clients(a)) {
			mig_enter(a, MIG_PAUSE);
			return;
		}
		mig_fail(a, in_use, &err);
		return;
	}
	if (!mig_report_changes(&m->report)) {
		mig_enter(a, MIG_SETTLE);
		return;
	}
	if (!a->facts.node.inv) {
		mig_fail_text(a, ERR_UNAVAILABLE, "the GPUs are not known yet");
		return;
	}
	if (mig_mask_make(&m->mask, &m->report, a->facts.node.inv, &err) < 0) {
		mig_fail(a, /* in_use= */ false, &err);
		return;
	}
	m->takes = mig_mask_takes(&m->mask, a->facts.node.inv);
	if (m->takes && !m->options.force)
		holders_ask_anew(a->holders, on_first_holders, a);
	else
		begin(a);
}

static const struct child_ops plan_ops = { .line = mig_tool_line, .ended = planned };

/* Which servers are idle is asked first; a daemon that does not say so is in use. */
void mig_plan_tick(struct agent *a)
{
	struct agent_mig *m = &a->mig;

	if (!mps_answered(&a->mps, m->phase_since_ns) &&
		time_mono_ns() - m->phase_since_ns < MPS_ANSWER_NS)
		return;
	(void)uv_timer_stop(&m->timer);
	mig_tool_run(a, /* dry_run= */ true, &plan_ops);
}

void mig_plan_enter(struct agent *a)
{
	mps_ask(&a->mps);
	mig_plan_tick(a);
}

/* --- PAUSE: the GPU clients go --- */

static void on_pods(void *arg, const struct api_reply *reply, const struct error *err)
{
	struct agent *a = arg;
	struct agent_mig *m = &a->mig;
	const json_t *items = json_object_get(reply->body, "items");

	m->call = NULL;
	if (err && err->code != ERR_UNAVAILABLE && err->code != ERR_TIMEOUT) {
		mig_fail(a, /* in_use= */ false, err);
		return;
	}
	if (err) {
		(void)snprintf(m->waits_for, sizeof(m->waits_for), "%s", err->msg);
		return;
	}
	if (!m->own_known) {
		mig_clients_own(items, a->cluster.link.namespace_, a->cluster.link.pod_name,
			m->own);
		m->own_known = true;
		mig_node_clients(a, MIG_CLIENTS_PAUSE);
		return;
	}
	/* The Node may have been made anew since: then nobody is paused yet. */
	if (!mig_node_shows(a))
		return;
	if (mig_clients_wait(node_object_labels(a->cluster.link.node), items, m->waits_for,
		    sizeof(m->waits_for)))
		return;
	m->paused = true;
	log_info("GPU clients are paused");
	/* What was refused as in use is asked anew; else the plan stands. */
	mig_enter(a, mig_report_changes(&m->report) && m->report.ok ? MIG_WITHDRAW : MIG_PLAN);
}

static void ask_pods(struct agent *a)
{
	CLEANUP(buf_fini) struct buf path = BUF_INIT(2048);
	struct error err = ERROR_INIT;

	buf_puts(&path, "/api/v1/pods?fieldSelector=spec.nodeName%3D");
	api_escape(&path, a->cluster.link.node_name);
	if (!buf_ok(&path) ||
		api_send(a->cluster.link.api,
			&(struct api_request){ .method = "GET", .path = buf_str(&path) },
			on_pods, a, &a->mig.call, &err) < 0)
		(void)snprintf(a->mig.waits_for, sizeof(a->mig.waits_for), "%s", err.msg);
}

void mig_pause_tick(struct agent *a)
{
	struct agent_mig *m = &a->mig;

	if (m->call)
		return;
	if (time_mono_ns() - m->phase_since_ns > m->clients_ns) {
		mig_fail_text(a, ERR_TIMEOUT, "GPU clients did not go in time: waited for %s",
			m->waits_for);
		return;
	}
	if (!m->own_known || mig_node_shows(a))
		ask_pods(a);
	else
		(void)snprintf(m->waits_for, sizeof(m->waits_for), "the Node's labels");
}

void mig_pause_enter(struct agent *a)
{
	begin_change(a);
	if (a->mig.own_known)
		mig_node_clients(a, MIG_CLIENTS_PAUSE);
	mig_pause_tick(a);
}

/* --- WITHDRAW: nobody gets what goes, its MPS daemons quit, and who has it? --- */

static void on_holders(void *arg, const struct pod_devices *list, const struct error *err)
{
	struct agent *a = arg;
	struct agent_mig *m = &a->mig;
	struct error why = ERROR_INIT;

	if (m->phase != MIG_WITHDRAW || !a->facts.node.inv)
		return;
	if (is_held(a, list, err, &why))
		mig_fail(a, /* in_use= */ true, &why);
	else
		mig_enter(a, MIG_HOST);
}

void mig_withdraw_late(struct agent *a)
{
	mig_fail_text(a, ERR_TIMEOUT, "an MPS control daemon does not quit");
}

static bool leaves(void *arg, const char *uuid)
{
	const struct agent *a = arg;

	return mig_mask_has(&a->mig.mask, a->facts.node.inv, uuid);
}

void mig_withdraw_tick(struct agent *a)
{
	struct agent_mig *m = &a->mig;
	struct error why = ERROR_INIT;
	int r = m->takes && a->facts.node.inv ? mps_left(&a->mps, leaves, a, &why) : 0;

	if (r > 0)
		return;
	if (r < 0 && !m->options.force) {
		mig_fail(a, /* in_use= */ true, &why);
		return;
	}
	(void)uv_timer_stop(&m->timer);
	if (m->options.force || !m->takes)
		mig_enter(a, MIG_HOST);
	else
		holders_ask_anew(a->holders, on_holders, a);
}

void mig_withdraw_enter(struct agent *a)
{
	begin_change(a);
	a->mig.masked = true;
	wake_up(&a->wake);
	if (!a->mig.takes)
		mig_withdraw_tick(a);
}

/* --- HOST: services, and what the next boot is to know --- */

static void on_stopped(void *arg, const struct error *err)
{
	struct agent *a = arg;

	if (err->code != ERR_NONE)
		mig_fail(a, /* in_use= */ false, err);
	else
		mig_enter(a, MIG_RELEASE);
}

static void stop_services(struct agent *a)
{
	struct agent_mig *m = &a->mig;

	if (!m->options.shutdown_clients || !m->takes || m->host.services.n == 0) {
		mig_enter(a, MIG_RELEASE);
		return;
	}
	m->host.done = on_stopped;
	mig_host_stop(&m->host);
}

static void on_reloaded(void *arg, const struct error *err)
{
	if (err->code != ERR_NONE)
		log_warn("systemd does not know the selected MIG layout yet",
			LOG_STR("reason", err->msg));
	stop_services(arg);
}

void mig_host_enter(struct agent *a)
{
	struct agent_mig *m = &a->mig;
	struct error err = ERROR_INIT;
	int r = mig_host_select(&m->host, m->options.state_file, m->name, &err);

	m->host.arg = a;
	if (r < 0)
		log_warn("the layout is not kept for the next boot",
			LOG_STR("reason", err.msg));
	if (r == 0) {
		m->host.done = on_reloaded;
		mig_host_reload(&m->host);
	} else {
		stop_services(a);
	}
}

/* --- RELEASE: an open handle would block a reset --- */

static bool changes_mode(const struct agent_mig *m)
{
	for (uint32_t i = 0; i < m->report.n; i++) {
		if (m->report.gpus[i].steps > 0 && m->report.gpus[i].mode != MIG_MODE_STAYS)
			return true;
	}
	return false;
}

void mig_release_tick(struct agent *a)
{
	if (gpu_monitor_released(a->monitor))
		mig_enter(a, MIG_APPLY);
}

void mig_release_enter(struct agent *a)
{
	if (!changes_mode(&a->mig)) {
		mig_enter(a, MIG_APPLY);
		return;
	}
	a->mig.released = true;
	gpu_monitor_release(a->monitor);
	mig_release_tick(a);
}

void mig_release_late(struct agent *a)
{
	mig_fail_text(a, ERR_TIMEOUT, "the NVML worker does not let go of the GPUs");
}
