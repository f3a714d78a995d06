/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/mig/attempt.h"

#include "lib/base/time.h"

#include <stdio.h>
#include <string.h>

/* The phases of an attempt, from PLAN to RESTORE, and the table of them. */

#define MPS_ANSWER_NS (5 * NS_PER_SEC)
#define PROBE_NS      (500 * NS_PER_MS)
#define API_NS        (60 * NS_PER_SEC)

/* --- PLAN: what is there to do? --- */

static bool has_clients(const struct mig *m)
{
	const struct node_object *n = m->c.link->node;

	return n && node_object_state(n) == NODE_PRESENT &&
	       mig_clients_any(node_object_labels(n), m->node.own);
}

static void begin_change(struct mig *m)
{
	char text[MIG_DESIRED_NAME_MAX + 64];

	(void)snprintf(text, sizeof(text), "%s: being applied", m->tried.name);
	if (!strcmp(m->node.state, "pending") && !strcmp(m->node.reason, text))
		return;
	mig_node_set_state(m, "pending", text);
	log_info("changing the MIG layout", LOG_STR("config", m->tried.name));
	report_event(m->c.reporter, EVENT_NORMAL, "MigConfigPending", "%s", text);
}

static void enter_mig_prepare(struct mig *m)
{
	mig_enter_phase(m, m->attempt.removes_devices && !m->attempt.paused && has_clients(m)
				   ? MIG_PAUSE
				   : MIG_WITHDRAW);
}

/* True: a pod has a device that would go, or the kubelet does not answer. False: no pod has one. */
static bool is_masked_device_held(const struct mig *m, const struct pod_devices *list,
	const struct error *err, struct error *why)
{
	const struct pod_device *d = NULL;

	if (err && !m->c.ops->is_kubelet_absent(m->c.arg))
		(void)error_set(why, ERR_UNAVAILABLE,
			"the kubelet does not say who uses the devices: %s", err->msg);
	else if (!err)
		d = mig_mask_find_holder(&m->attempt.mask, m->c.facts->node.inv, list);
	if (d)
		(void)error_set(why, ERR_UNAVAILABLE, "in use by pod %s/%s (%s %s)",
			d->namespace_, d->pod, d->resource, d->id);
	return why->code != ERR_NONE;
}

/* The agent asks before it changes anything, so that a retry while a pod runs disturbs no process. */
static void on_mig_plan_holders(void *arg, const struct pod_devices *list,
	const struct error *err)
{
	struct mig *m = arg;
	struct error why = ERROR_INIT;

	if (m->phase != MIG_PLAN || m->attempt.child || !m->c.facts->node.inv)
		return;
	if (is_masked_device_held(m, list, err, &why) &&
		(m->attempt.paused || m->outcome.paused_in_vain || !has_clients(m)))
		mig_fail(m, /* in_use= */ true, &why);
	else
		enter_mig_prepare(m);
}

static void on_mig_plan_ended(void *arg, const struct child_end *e)
{
	struct mig *m = arg;
	struct error err = ERROR_INIT;
	bool in_use;

	m->attempt.child = NULL;
	if (!mig_tool_ended_well(m, e, &in_use, &err)) {
		/*
		 * A client may be the process that uses the GPU. So the agent pauses clients once and plans
		 * again.
		 */
		if (in_use && !m->attempt.paused && !m->outcome.paused_in_vain &&
			has_clients(m)) {
			mig_enter_phase(m, MIG_PAUSE);
			return;
		}
		mig_fail(m, in_use, &err);
		return;
	}
	if (!mig_report_changes(&m->report)) {
		mig_enter_phase(m, MIG_SETTLE);
		return;
	}
	if (!m->c.facts->node.inv) {
		mig_fail_text(m, ERR_UNAVAILABLE, "the GPUs are not known yet");
		return;
	}
	if (mig_mask_make(&m->attempt.mask, &m->report, m->c.facts->node.inv, &err) < 0) {
		mig_fail(m, /* in_use= */ false, &err);
		return;
	}
	m->attempt.removes_devices =
		mig_mask_removes_any(&m->attempt.mask, m->c.facts->node.inv);
	if (m->attempt.removes_devices && !m->c.options.force)
		m->c.ops->request_pod_devices(m->c.arg, on_mig_plan_holders, m);
	else
		enter_mig_prepare(m);
}

static const struct child_ops plan_ops = { .line = mig_tool_line, .ended = on_mig_plan_ended };

/* First asks the MPS daemons which servers are idle. A daemon that does not answer counts as in use. */
static void mig_plan_tick(struct mig *m)
{
	if (!m->c.ops->mps_has_answered(m->c.arg, m->phase_since_ns) &&
		time_mono_ns() - m->phase_since_ns < MPS_ANSWER_NS)
		return;
	(void)uv_timer_stop(&m->timer);
	mig_tool_run(m, /* dry_run= */ true, &plan_ops);
}

static void mig_plan_enter(struct mig *m)
{
	m->c.ops->mps_query_clients(m->c.arg);
	mig_plan_tick(m);
}

/* --- PAUSE: the GPU clients go --- */

static void on_pods(void *arg, const struct api_reply *reply, const struct error *err)
{
	struct mig *m = arg;
	const json_t *items = json_object_get(reply->body, "items");

	m->attempt.call = NULL;
	if (err && err->code != ERR_UNAVAILABLE && err->code != ERR_TIMEOUT) {
		mig_fail(m, /* in_use= */ false, err);
		return;
	}
	if (err) {
		(void)snprintf(m->attempt.awaited_pod, sizeof(m->attempt.awaited_pod), "%s",
			err->msg);
		return;
	}
	if (!m->node.own_known) {
		mig_clients_own(items, m->c.link->namespace_, m->c.link->pod_name, m->node.own);
		m->node.own_known = true;
		mig_node_clients(m, MIG_CLIENTS_PAUSE);
		return;
	}
	/* The Node may have been recreated since. Then no client is paused yet. */
	if (!mig_node_is_in_sync(m))
		return;
	if (mig_clients_wait(node_object_labels(m->c.link->node), items, m->attempt.awaited_pod,
		    sizeof(m->attempt.awaited_pod)))
		return;
	m->attempt.paused = true;
	log_info("GPU clients are paused");
	/* If the plan was refused because of a process in use, plan again. Otherwise the plan stays valid. */
	mig_enter_phase(m,
		mig_report_changes(&m->report) && m->report.ok ? MIG_WITHDRAW : MIG_PLAN);
}

static void request_mig_pods(struct mig *m)
{
	CLEANUP(buf_fini) struct buf path = BUF_INIT(2048);
	struct error err = ERROR_INIT;

	buf_puts(&path, "/api/v1/pods?fieldSelector=spec.nodeName%3D");
	api_escape(&path, m->c.link->node_name);
	if (!buf_ok(&path) ||
		api_send(m->c.link->api,
			&(struct api_request){ .method = "GET", .path = buf_str(&path) },
			on_pods, m, &m->attempt.call, &err) < 0)
		(void)snprintf(m->attempt.awaited_pod, sizeof(m->attempt.awaited_pod), "%s",
			err.msg);
}

static void mig_pause_tick(struct mig *m)
{
	if (m->attempt.call)
		return;
	if (time_mono_ns() - m->phase_since_ns > m->clients_ns) {
		mig_fail_text(m, ERR_TIMEOUT, "GPU clients did not go in time: waited for %s",
			m->attempt.awaited_pod);
		return;
	}
	if (!m->node.own_known || mig_node_is_in_sync(m))
		request_mig_pods(m);
	else
		(void)snprintf(m->attempt.awaited_pod, sizeof(m->attempt.awaited_pod),
			"the Node's labels");
}

static void mig_pause_enter(struct mig *m)
{
	begin_change(m);
	if (m->node.own_known)
		mig_node_clients(m, MIG_CLIENTS_PAUSE);
	mig_pause_tick(m);
}

/* --- WITHDRAW: no new pod gets a device that goes, its MPS daemons quit; which pod has one? --- */

static void on_mig_withdraw_pod_devices(void *arg, const struct pod_devices *list,
	const struct error *err)
{
	struct mig *m = arg;
	struct error why = ERROR_INIT;

	if (m->phase != MIG_WITHDRAW || !m->c.facts->node.inv)
		return;
	if (is_masked_device_held(m, list, err, &why))
		mig_fail(m, /* in_use= */ true, &why);
	else
		mig_enter_phase(m, MIG_HOST);
}

static void mig_withdraw_late(struct mig *m)
{
	mig_fail_text(m, ERR_TIMEOUT, "an MPS control daemon does not quit");
}

static bool is_device_leaving(void *arg, const char *uuid)
{
	const struct mig *m = arg;

	return mig_mask_removes(&m->attempt.mask, m->c.facts->node.inv, uuid);
}

static void mig_withdraw_tick(struct mig *m)
{
	struct error why = ERROR_INIT;
	int r = m->attempt.removes_devices && m->c.facts->node.inv
			? m->c.ops->mps_check_withdrawn(m->c.arg, is_device_leaving, m, &why)
			: 0;

	if (r > 0)
		return;
	if (r < 0 && !m->c.options.force) {
		mig_fail(m, /* in_use= */ true, &why);
		return;
	}
	(void)uv_timer_stop(&m->timer);
	if (m->c.options.force || !m->attempt.removes_devices)
		mig_enter_phase(m, MIG_HOST);
	else
		m->c.ops->request_pod_devices(m->c.arg, on_mig_withdraw_pod_devices, m);
}

static void mig_withdraw_enter(struct mig *m)
{
	begin_change(m);
	m->attempt.masked = true;
	wake_up(m->c.wake);
	if (!m->attempt.removes_devices)
		mig_withdraw_tick(m);
}

/* --- HOST: services, and the layout for the next boot --- */

static void on_stopped(void *arg, const struct error *err)
{
	struct mig *m = arg;

	if (err->code != ERR_NONE)
		mig_fail(m, /* in_use= */ false, err);
	else
		mig_enter_phase(m, MIG_RELEASE);
}

static void stop_services(struct mig *m)
{
	if (!m->c.options.shutdown_clients || !m->attempt.removes_devices ||
		m->host.services.n == 0) {
		mig_enter_phase(m, MIG_RELEASE);
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

static void mig_host_enter(struct mig *m)
{
	struct error err = ERROR_INIT;
	int r = mig_host_select(&m->host, m->c.options.state_file, m->tried.name, &err);

	m->host.arg = m;
	if (r < 0)
		log_warn("the layout is not kept for the next boot",
			LOG_STR("reason", err.msg));
	if (r == 0) {
		m->host.done = on_reloaded;
		mig_host_reload(&m->host);
	} else {
		stop_services(m);
	}
}

/* --- RELEASE: an open handle would block a reset --- */

static bool changes_mode(const struct mig *m)
{
	for (uint32_t i = 0; i < m->report.n; i++) {
		if (m->report.gpus[i].steps > 0 && m->report.gpus[i].mode != MIG_MODE_UNCHANGED)
			return true;
	}
	return false;
}

static void mig_release_tick(struct mig *m)
{
	if (m->c.ops->is_released(m->c.arg))
		mig_enter_phase(m, MIG_APPLY);
}

static void mig_release_enter(struct mig *m)
{
	if (!changes_mode(m)) {
		mig_enter_phase(m, MIG_APPLY);
		return;
	}
	m->attempt.released = true;
	m->c.ops->release(m->c.arg);
	mig_release_tick(m);
}

static void mig_release_late(struct mig *m)
{
	mig_fail_text(m, ERR_TIMEOUT, "the NVML worker does not let go of the GPUs");
}

/* --- APPLY --- */

static bool may_reboot(const struct mig *m)
{
	const struct node_object *n = m->c.link->node;
	const char *rebooted = n ? node_object_annotation(n, MIG_REBOOTED) : NULL;

	return m->c.options.with_reboot && n && node_object_state(n) == NODE_PRESENT &&
	       m->last_boot != MIG_BOOT_BY_AGENT &&
	       !(rebooted && !strcmp(rebooted, m->tried.key));
}

static void reset_required(struct mig *m)
{
	const char *why = *m->report.reason ? m->report.reason : "the MIG mode did not change";

	if (may_reboot(m))
		mig_enter_phase(m, MIG_REBOOT);
	else if (m->c.options.with_reboot && m->c.link->node)
		mig_fail_text(m, ERR_UNSUPPORTED,
			"%s; the host was rebooted for this already (remove the annotation %s to "
			"allow another reboot)",
			why, MIG_REBOOTED);
	else
		mig_fail_text(m, ERR_UNSUPPORTED,
			"%s; a reset of the GPU or a reboot of the host is needed", why);
}

static void on_mig_apply_ended(void *arg, const struct child_end *e)
{
	struct mig *m = arg;
	struct error err = ERROR_INIT;
	bool in_use;

	m->attempt.child = NULL;
	if (mig_tool_ended_well(m, e, &in_use, &err))
		mig_enter_phase(m, MIG_SETTLE);
	else if (m->report.ended && !strcmp(m->report.code, "reset-required"))
		reset_required(m);
	else
		mig_fail(m, in_use, &err);
}

static const struct child_ops apply_ops = { .line = mig_tool_line,
	.ended = on_mig_apply_ended };

static void mig_apply_enter(struct mig *m)
{
	m->attempt.applied = true;
	mig_tool_run(m, /* dry_run= */ false, &apply_ops);
}

/* --- REBOOT --- */

static void on_rebooted(void *arg, const struct error *err)
{
	struct mig *m = arg;

	if (err->code != ERR_NONE)
		mig_fail(m, /* in_use= */ false, err);
}

static void mig_reboot_tick(struct mig *m)
{
	char command[PATH_MAX + 32];

	if (m->attempt.rebooted_now)
		return;
	/* The Node must have the state before this boot ends. */
	if (!mig_node_is_in_sync(m)) {
		if (time_mono_ns() - m->phase_since_ns > API_NS)
			mig_fail_text(m, ERR_TIMEOUT,
				"no reboot, as the state cannot be written to the Node");
		return;
	}
	m->attempt.rebooted_now = true;
	m->host.done = on_rebooted;
	m->host.arg = m;
	(void)snprintf(command, sizeof(command), "chroot %s systemctl reboot",
		m->c.options.host_root);
	mig_host_reboot(&m->host,
		*m->c.options.reboot_command ? m->c.options.reboot_command : command);
}

static void mig_reboot_enter(struct mig *m)
{
	char text[sizeof(m->node.reason)];

	(void)snprintf(text, sizeof(text), "%s: rebooting the host: %.200s", m->tried.name,
		m->report.reason);
	mig_node_rebooted(m, m->tried.key);
	mig_node_set_state(m, "rebooting", text);
	report_event(m->c.reporter, EVENT_NORMAL, "MigConfigRebooting", "%s", text);
	mig_reboot_tick(m);
}

static void mig_reboot_late(struct mig *m)
{
	mig_fail_text(m, ERR_TIMEOUT, "the host did not reboot within 10 minutes");
}

/* --- SETTLE: the present devices are probed, offered and registered --- */

static bool mig_settle_is_probed(const struct mig *m)
{
	return m->n_probes >= m->attempt.n_probes_needed;
}

/* Whether every MIG device of the GPUs in question can be given to a pod: its capabilities exist. */
static bool devices_are_whole(const struct mig *m, struct buf *why)
{
	const struct inventory *inv = m->c.facts->node.inv;

	for (uint32_t i = 0; inv && i < inv->n_mig; i++) {
		const struct gpu_mig *d = &inv->mig[i];

		if (!*d->reason || !mig_report_has(&m->report, inv->gpus[d->gpu].uuid))
			continue;
		buf_printf(why, "MIG device %s (%s): %s", d->uuid, d->profile, d->reason);
		return false;
	}
	return true;
}

static void retry_mig_probe(struct mig *m)
{
	uint64_t now = time_mono_ns();

	if (now - m->probed_ns < PROBE_NS)
		return;
	m->probed_ns = now;
	m->c.ops->probe(m->c.arg, /* all= */ false);
}

static void mig_settle_tick(struct mig *m)
{
	CLEANUP(buf_fini) struct buf why = BUF_INIT(64 * 1024);

	if (!mig_settle_is_probed(m))
		return;
	if (m->attempt.masked) {
		m->attempt.masked = false;
		mig_mask_fini(&m->attempt.mask);
		m->attempt.round_needed = m->c.facts->rounds + 1;
		wake_up(m->c.wake);
	}
	/*
	 * Ticks come by timer and by event. The withdrawn devices are not ready before the reconcile offers them
	 * again.
	 */
	if (m->c.facts->rounds < m->attempt.round_needed)
		return;
	if (m->attempt.error.code == ERR_NONE && !devices_are_whole(m, &why)) {
		retry_mig_probe(m);
		return;
	}
	if (m->attempt.error.code != ERR_NONE || m->c.ops->is_ready(m->c.arg, &why))
		mig_enter_phase(m, MIG_RESTORE);
}

static void mig_settle_enter(struct mig *m)
{
	/* A probe in progress may have begun before the last step. Only the probe after it counts. */
	m->attempt.n_probes_needed = m->n_probes + (m->attempt.released ? 1 : 2);
	m->attempt.released = false;
	if (m->attempt.error.code == ERR_NONE)
		m->c.ops->probe(m->c.arg, /* all= */ true);
	else
		m->c.ops->probe(m->c.arg, /* all= */ false);
}

static void mig_settle_late(struct mig *m)
{
	CLEANUP(buf_fini) struct buf why = BUF_INIT(64 * 1024);

	if (devices_are_whole(m, &why))
		(void)m->c.ops->is_ready(m->c.arg, &why);
	if (m->attempt.error.code == ERR_NONE)
		(void)error_set(&m->attempt.error, ERR_TIMEOUT,
			"applied, but the devices cannot be had: %.*s",
			(int)strcspn(buf_str(&why), "\n"), buf_str(&why));
	m->attempt.masked = false;
	mig_mask_fini(&m->attempt.mask);
	wake_up(m->c.wake);
	mig_enter_phase(m, MIG_RESTORE);
}

/* --- RESTORE: the stopped services run again --- */

static void on_started(void *arg, const struct error *err)
{
	struct mig *m = arg;

	if (err->code != ERR_NONE && m->attempt.error.code == ERR_NONE)
		m->attempt.error = *err;
	mig_finish(arg);
}

static void mig_restore_enter(struct mig *m)
{
	if (m->host.stopped.n == 0) {
		mig_finish(m);
		return;
	}
	m->host.done = on_started;
	m->host.arg = m;
	mig_host_start(&m->host);
}

/* --- the table --- */

/* An allocation in progress at the withdrawal ends within this time. */
#define WITHDRAW_MS 200
#define MPS_QUIT_NS (30 * NS_PER_SEC) /* a daemon that does not quit is killed after 10 s */
#define RELEASE_NS  (10 * NS_PER_SEC)
#define REGISTER_NS (60 * NS_PER_SEC) /* for the registration of the new devices */
#define REBOOT_NS   (600 * NS_PER_SEC)

const struct mig_phase_row mig_phases[MIG_PHASES] = {
	[MIG_REST] = { .text = "rest" },
	[MIG_PLAN] = { "planning", mig_plan_enter, mig_plan_tick, 20, 0, NULL },
	[MIG_PAUSE] = { "pausing GPU clients", mig_pause_enter, mig_pause_tick, 1000, 0, NULL },
	[MIG_WITHDRAW] = { "withdrawing devices", mig_withdraw_enter, mig_withdraw_tick,
		WITHDRAW_MS, MPS_QUIT_NS, mig_withdraw_late },
	[MIG_HOST] = { .text = "stopping services", .enter = mig_host_enter },
	[MIG_RELEASE] = { "releasing the GPUs", mig_release_enter, mig_release_tick, 20,
		RELEASE_NS, mig_release_late },
	[MIG_APPLY] = { .text = "applying", .enter = mig_apply_enter },
	[MIG_REBOOT] = { "rebooting", mig_reboot_enter, mig_reboot_tick, 500, REBOOT_NS,
		mig_reboot_late },
	[MIG_SETTLE] = { "registering devices", mig_settle_enter, mig_settle_tick, 50,
		REGISTER_NS, mig_settle_late },
	[MIG_RESTORE] = { .text = "starting services", .enter = mig_restore_enter },
};
