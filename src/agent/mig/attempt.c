/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/internal.h"

#include "base/time.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* An allocation that is under way when devices are withdrawn ends in this time. */
#define WITHDRAW_MS   200
#define RELEASE_NS    (10 * NS_PER_SEC)
#define REGISTER_NS   (60 * NS_PER_SEC) /* for the new devices to be registered */
#define PROBE_NS      (500 * NS_PER_MS)
#define REBOOT_NS     (600 * NS_PER_SEC)
#define API_NS        (60 * NS_PER_SEC)
#define TOOL_ARGS_MAX 32

static void enter(struct agent *a, enum mig_phase phase);
static void finish(struct agent *a);

/* --- failure --- */

/* To what puts back what this attempt took away. */
static void end(struct agent *a)
{
	struct agent_mig *m = &a->mig;

	if (m->phase == MIG_SETTLE || m->phase == MIG_RESTORE)
		enter(a, MIG_RESTORE);
	else
		enter(a, m->masked || m->released || m->applied ? MIG_SETTLE : MIG_RESTORE);
}

static void fail(struct agent *a, bool in_use, const struct error *err)
{
	struct agent_mig *m = &a->mig;

	m->child = mig_child_stop(m->child);
	m->call = api_cancel(m->call);
	mig_host_cancel(&m->host);
	if (m->outcome.code == ERR_NONE)
		m->outcome = *err;
	m->in_use = in_use;
	end(a);
}

static void fail_text(struct agent *a, enum error_code code, const char *fmt, ...) PRINTF(3, 4);

static void fail_text(struct agent *a, enum error_code code, const char *fmt, ...)
{
	struct error err = ERROR_INIT;
	va_list ap;

	va_start(ap, fmt);
	(void)error_vset(&err, code, fmt, ap);
	va_end(ap);
	fail(a, /* in_use= */ false, &err);
}

/* --- the tool --- */

static int on_line(void *arg, const char *line, size_t len, struct error *err)
{
	struct agent_mig *m = &((struct agent *)arg)->mig;
	char before[sizeof(m->report.doing)];

	memcpy(before, m->report.doing, sizeof(before));
	if (mig_report_line(&m->report, line, len, err) < 0)
		return -1;
	if (strcmp(before, m->report.doing) != 0 && m->phase == MIG_APPLY)
		log_debug("MIG", LOG_STR("step", m->report.doing));
	if (*m->report.note && m->phase == MIG_APPLY)
		log_warn("MIG", LOG_STR("note", m->report.note));
	return 0;
}

/* A run that did not say how it ended. */
static void describe(const struct agent_mig *m, const struct mig_child_end *e,
	struct error *err)
{
	const char *doing = *m->report.doing ? m->report.doing : "reading the GPUs";

	if (e->silent)
		(void)error_set(err, ERR_TIMEOUT,
			"gpuslice mig said nothing for %llu s and was ended at: %s",
			(unsigned long long)(m->silence_ns / NS_PER_SEC), doing);
	else if (e->error.code != ERR_NONE)
		error_copy(err, &e->error);
	else
		(void)error_set(err, ERR_INTERNAL, "gpuslice mig ended with %s %d at: %s%s%s",
			e->signal ? "signal" : "status", e->signal ? e->signal : e->status,
			doing, *e->words ? ": " : "", e->words);
}

static enum error_code code_of(const char *name)
{
	for (int i = 1; i < ERR_COUNT_; i++) {
		if (!strcmp(error_class((enum error_code)i)->name, name))
			return (enum error_code)i;
	}
	return ERR_INTERNAL;
}

/* False: it did not end as it should, or says no; then *err and *in_use. */
static bool ended_well(const struct agent_mig *m, const struct mig_child_end *e, bool *in_use,
	struct error *err)
{
	*in_use = false;
	if (e->silent || e->error.code != ERR_NONE || !m->report.ended) {
		describe(m, e, err);
		return false;
	}
	if (m->report.ok)
		return true;
	(void)error_set(err, code_of(m->report.code), "%s",
		*m->report.reason ? m->report.reason : "gpuslice mig gives no reason");
	/* In use, or another editor is at work: asking again soon costs nobody anything. */
	*in_use = err->code == ERR_UNAVAILABLE || err->code == ERR_EXISTS;
	return false;
}

struct args {
	const char *v[TOOL_ARGS_MAX];
	size_t n;
};

static void add(struct args *args, const char *option, const char *value)
{
	if (value && !*value)
		return;
	args->v[args->n++] = option;
	if (value)
		args->v[args->n++] = value;
}

static void run_tool(struct agent *a, bool dry_run, const struct mig_child_ops *ops)
{
	struct agent_mig *m = &a->mig;
	const struct agent_mig_options *o = &m->options;
	struct args args = { .v = { m->tool, "mig", "apply", "-o", "json" }, .n = 5 };
	struct error err = ERROR_INIT;
	bool text = *m->dir || *m->map;

	add(&args, text ? "-f" : "--builtin", text ? "-" : NULL);
	add(&args, "-c", m->name);
	add(&args, "--nvml", a->nvml_path ? a->nvml_path : "");
	add(&args, "--driver-root", a->config.config->container_driver_root);
	add(&args, "--sysfs", a->sysfs_root ? a->sysfs_root : "");
	add(&args, "--procfs", a->procfs_root ? a->procfs_root : "");
	add(&args, "--run-dir", a->run_dir);
	add(&args, "-k", o->hooks_file);
	if (dry_run)
		add(&args, "--dry-run", NULL);
	if (o->force)
		add(&args, "--force", NULL);
	mig_report_fini(&m->report);
	if (mig_child_start(&m->child, a->loop, args.v, text ? buf_str(&m->text) : NULL,
		    m->text.len, m->silence_ns, ops, a, &err) < 0)
		fail(a, /* in_use= */ false, &err);
}

/* --- PLAN: what is there to do? --- */

static bool has_clients(const struct agent *a)
{
	const struct node_object *n = a->cluster.node;

	return n && node_object_state(n) == NODE_PRESENT &&
	       mig_clients_any(node_object_labels(n), a->mig.own);
}

static void begin_change(struct agent *a)
{
	struct agent_mig *m = &a->mig;
	char text[MIG_WISH_NAME_MAX + 64];

	if (!strcmp(m->state, "pending"))
		return;
	(void)snprintf(text, sizeof(text), "%s: being applied", m->name);
	mig_node_say(a, "pending", text);
	log_info("changing the MIG layout", LOG_STR("config", m->name));
	agent_event(a, EVENT_NORMAL, "MigConfigPending", "%s", text);
}

static void begin(struct agent *a)
{
	const struct agent_mig *m = &a->mig;

	enter(a, m->takes && !m->paused && has_clients(a) ? MIG_PAUSE : MIG_WITHDRAW);
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
		d = mig_mask_holder(&a->mig.mask, a->node.inv, list);
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

	if (m->phase != MIG_PLAN || m->child || !a->node.inv)
		return;
	if (is_held(a, list, err, &why) && (m->paused || m->paused_in_vain || !has_clients(a)))
		fail(a, /* in_use= */ true, &why);
	else
		begin(a);
}

static void planned(void *arg, const struct mig_child_end *e)
{
	struct agent *a = arg;
	struct agent_mig *m = &a->mig;
	struct error err = ERROR_INIT;
	bool in_use;

	m->child = NULL;
	if (!ended_well(m, e, &in_use, &err)) {
		/* Perhaps it is a client that uses it: they are paused once, and then it is seen. */
		if (in_use && !m->paused && !m->paused_in_vain && has_clients(a)) {
			enter(a, MIG_PAUSE);
			return;
		}
		fail(a, in_use, &err);
		return;
	}
	if (!mig_report_changes(&m->report)) {
		enter(a, MIG_SETTLE);
		return;
	}
	if (!a->node.inv) {
		fail_text(a, ERR_UNAVAILABLE, "the GPUs are not known yet");
		return;
	}
	if (mig_mask_make(&m->mask, &m->report, a->node.inv, &err) < 0) {
		fail(a, /* in_use= */ false, &err);
		return;
	}
	m->takes = mig_mask_takes(&m->mask, a->node.inv);
	if (m->takes && !m->options.force)
		holders_ask_anew(a->holders, on_first_holders, a);
	else
		begin(a);
}

static const struct mig_child_ops plan_ops = { .line = on_line, .ended = planned };

static void enter_plan(struct agent *a)
{
	run_tool(a, /* dry_run= */ true, &plan_ops);
}

/* --- PAUSE: the GPU clients go --- */

static void on_pods(void *arg, const struct api_reply *reply, const struct error *err)
{
	struct agent *a = arg;
	struct agent_mig *m = &a->mig;
	const json_t *items = json_object_get(reply->body, "items");

	m->call = NULL;
	if (err && err->code != ERR_UNAVAILABLE && err->code != ERR_TIMEOUT) {
		fail(a, /* in_use= */ false, err);
		return;
	}
	if (err) {
		(void)snprintf(m->waits_for, sizeof(m->waits_for), "%s", err->msg);
		return;
	}
	if (!m->own_known) {
		mig_clients_own(items, a->cluster.namespace_, a->cluster.options.pod_name,
			m->own);
		m->own_known = true;
		mig_node_clients(a, MIG_CLIENTS_PAUSE);
		return;
	}
	if (mig_clients_wait(node_object_labels(a->cluster.node), items, m->waits_for,
		    sizeof(m->waits_for)))
		return;
	m->paused = true;
	log_info("GPU clients are paused");
	/* What was refused as in use is asked anew; else the plan stands. */
	enter(a, mig_report_changes(&m->report) && m->report.ok ? MIG_WITHDRAW : MIG_PLAN);
}

static void ask_pods(struct agent *a)
{
	CLEANUP(buf_fini) struct buf path = BUF_INIT(2048);
	struct error err = ERROR_INIT;

	buf_puts(&path, "/api/v1/pods?fieldSelector=spec.nodeName%3D");
	api_escape(&path, a->cluster.options.node_name);
	if (!buf_ok(&path) ||
		api_send(a->cluster.api,
			&(struct api_request){ .method = "GET", .path = buf_str(&path) },
			on_pods, a, &a->mig.call, &err) < 0)
		(void)snprintf(a->mig.waits_for, sizeof(a->mig.waits_for), "%s", err.msg);
}

static void tick_pause(struct agent *a)
{
	struct agent_mig *m = &a->mig;

	if (m->call)
		return;
	if (time_mono_ns() - m->phase_since_ns > m->clients_ns) {
		fail_text(a, ERR_TIMEOUT, "GPU clients did not go in time: waited for %s",
			m->waits_for);
		return;
	}
	if (!m->own_known || mig_node_shows(a))
		ask_pods(a);
	else
		(void)snprintf(m->waits_for, sizeof(m->waits_for), "the Node's labels");
}

static void enter_pause(struct agent *a)
{
	begin_change(a);
	if (a->mig.own_known)
		mig_node_clients(a, MIG_CLIENTS_PAUSE);
	tick_pause(a);
}

/* --- WITHDRAW: nobody gets what goes, and who has it? --- */

static void on_holders(void *arg, const struct pod_devices *list, const struct error *err)
{
	struct agent *a = arg;
	struct agent_mig *m = &a->mig;
	struct error why = ERROR_INIT;

	if (m->phase != MIG_WITHDRAW || !a->node.inv)
		return;
	if (is_held(a, list, err, &why))
		fail(a, /* in_use= */ true, &why);
	else
		enter(a, MIG_HOST);
}

static void tick_withdraw(struct agent *a)
{
	struct agent_mig *m = &a->mig;

	(void)uv_timer_stop(&m->timer);
	if (m->options.force || !m->takes)
		enter(a, MIG_HOST);
	else
		holders_ask_anew(a->holders, on_holders, a);
}

static void enter_withdraw(struct agent *a)
{
	begin_change(a);
	a->mig.masked = true;
	agent_reconcile(a);
	if (!a->mig.takes)
		tick_withdraw(a);
}

/* --- HOST: services, and what the next boot is to know --- */

static void on_stopped(void *arg, const struct error *err)
{
	struct agent *a = arg;

	if (err->code != ERR_NONE)
		fail(a, /* in_use= */ false, err);
	else
		enter(a, MIG_RELEASE);
}

static void stop_services(struct agent *a)
{
	struct agent_mig *m = &a->mig;

	if (!m->options.shutdown_clients || !m->takes || m->host.services.n == 0) {
		enter(a, MIG_RELEASE);
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

static void enter_host(struct agent *a)
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

static void tick_release(struct agent *a)
{
	if (gpu_monitor_released(a->monitor))
		enter(a, MIG_APPLY);
}

static void enter_release(struct agent *a)
{
	if (!changes_mode(&a->mig)) {
		enter(a, MIG_APPLY);
		return;
	}
	a->mig.released = true;
	gpu_monitor_release(a->monitor);
	tick_release(a);
}

static void late_release(struct agent *a)
{
	fail_text(a, ERR_TIMEOUT, "the NVML worker does not let go of the GPUs");
}

/* --- APPLY --- */

static bool may_reboot(const struct agent *a)
{
	const struct agent_mig *m = &a->mig;
	const struct node_object *n = a->cluster.node;
	const char *rebooted = n ? node_object_annotation(n, MIG_REBOOTED) : NULL;

	return m->options.with_reboot && n && node_object_state(n) == NODE_PRESENT &&
	       !m->rebooting && !(rebooted && !strcmp(rebooted, m->tried));
}

static void reset_required(struct agent *a)
{
	struct agent_mig *m = &a->mig;
	const char *why = *m->report.reason ? m->report.reason : "the MIG mode did not change";

	if (may_reboot(a))
		enter(a, MIG_REBOOT);
	else if (m->options.with_reboot && a->cluster.node)
		fail_text(a, ERR_UNSUPPORTED,
			"%s; the host was rebooted for this already (remove the annotation %s to "
			"allow another reboot)",
			why, MIG_REBOOTED);
	else
		fail_text(a, ERR_UNSUPPORTED,
			"%s; a reset of the GPU or a reboot of the host is needed", why);
}

static void applied(void *arg, const struct mig_child_end *e)
{
	struct agent *a = arg;
	struct agent_mig *m = &a->mig;
	struct error err = ERROR_INIT;
	bool in_use;

	m->child = NULL;
	if (ended_well(m, e, &in_use, &err))
		enter(a, MIG_SETTLE);
	else if (m->report.ended && !strcmp(m->report.code, "reset-required"))
		reset_required(a);
	else
		fail(a, in_use, &err);
}

static const struct mig_child_ops apply_ops = { .line = on_line, .ended = applied };

static void enter_apply(struct agent *a)
{
	a->mig.applied = true;
	run_tool(a, /* dry_run= */ false, &apply_ops);
}

/* --- REBOOT --- */

static void on_rebooted(void *arg, const struct error *err)
{
	struct agent *a = arg;

	if (err->code != ERR_NONE)
		fail(a, /* in_use= */ false, err);
}

static void tick_reboot(struct agent *a)
{
	struct agent_mig *m = &a->mig;
	char command[PATH_MAX + 32];

	if (m->rebooted_now)
		return;
	/* The state must outlive this boot before it ends. */
	if (!mig_node_shows(a)) {
		if (time_mono_ns() - m->phase_since_ns > API_NS)
			fail_text(a, ERR_TIMEOUT,
				"no reboot, as the state cannot be written to the Node");
		return;
	}
	m->rebooted_now = true;
	m->host.done = on_rebooted;
	m->host.arg = a;
	(void)snprintf(command, sizeof(command), "chroot %s systemctl reboot",
		m->options.host_root);
	mig_host_reboot(&m->host,
		*m->options.reboot_command ? m->options.reboot_command : command);
}

static void enter_reboot(struct agent *a)
{
	struct agent_mig *m = &a->mig;
	char text[sizeof(m->reason)];

	(void)snprintf(text, sizeof(text), "%s: rebooting the host: %.200s", m->name,
		m->report.reason);
	mig_node_rebooted(a, m->tried);
	mig_node_say(a, "rebooting", text);
	agent_event(a, EVENT_NORMAL, "MigConfigRebooting", "%s", text);
	tick_reboot(a);
}

static void late_reboot(struct agent *a)
{
	fail_text(a, ERR_TIMEOUT, "the host did not reboot within 10 minutes");
}

/* --- SETTLE: what there is now is seen, offered and registered --- */

static bool is_seen(const struct agent_mig *m)
{
	return m->looks >= m->looks_wanted;
}

/* Every MIG device of the GPUs in question can be given to a pod: its capabilities are there. */
static bool devices_are_whole(const struct agent *a, struct buf *why)
{
	const struct inventory *inv = a->node.inv;

	for (uint32_t i = 0; inv && i < inv->n_mig; i++) {
		const struct gpu_mig *d = &inv->mig[i];

		if (!*d->reason || !mig_report_has(&a->mig.report, inv->gpus[d->gpu].uuid))
			continue;
		buf_printf(why, "MIG device %s (%s): %s", d->uuid, d->profile, d->reason);
		return false;
	}
	return true;
}

static void probe_again(struct agent *a)
{
	struct agent_mig *m = &a->mig;
	uint64_t now = time_mono_ns();

	if (now - m->probed_ns < PROBE_NS)
		return;
	m->probed_ns = now;
	gpu_monitor_probe(a->monitor);
}

static void tick_settle(struct agent *a)
{
	struct agent_mig *m = &a->mig;
	CLEANUP(buf_fini) struct buf why = BUF_INIT(64 * 1024);

	if (!is_seen(m))
		return;
	if (m->masked) {
		m->masked = false;
		mig_mask_fini(&m->mask);
		agent_reconcile(a);
	}
	if (m->outcome.code == ERR_NONE && !devices_are_whole(a, &why)) {
		probe_again(a);
		return;
	}
	if (m->outcome.code != ERR_NONE || agent_ready(a, &why))
		enter(a, MIG_RESTORE);
}

static void enter_settle(struct agent *a)
{
	struct agent_mig *m = &a->mig;

	/* A look that is under way may have begun before the last step: the one after it counts. */
	m->looks_wanted = m->looks + (m->released ? 1 : 2);
	m->released = false;
	gpu_monitor_probe(a->monitor);
}

static void late_settle(struct agent *a)
{
	struct agent_mig *m = &a->mig;
	CLEANUP(buf_fini) struct buf why = BUF_INIT(64 * 1024);

	if (devices_are_whole(a, &why))
		(void)agent_ready(a, &why);
	if (m->outcome.code == ERR_NONE)
		(void)error_set(&m->outcome, ERR_TIMEOUT,
			"applied, but the devices cannot be had: %.*s",
			(int)strcspn(buf_str(&why), "\n"), buf_str(&why));
	m->masked = false;
	mig_mask_fini(&m->mask);
	agent_reconcile(a);
	enter(a, MIG_RESTORE);
}

/* --- RESTORE: who was stopped runs again --- */

static void on_started(void *arg, const struct error *err)
{
	struct agent_mig *m = &((struct agent *)arg)->mig;

	if (err->code != ERR_NONE && m->outcome.code == ERR_NONE)
		m->outcome = *err;
	finish(arg);
}

static void enter_restore(struct agent *a)
{
	struct agent_mig *m = &a->mig;

	if (m->host.stopped.n == 0) {
		finish(a);
		return;
	}
	m->host.done = on_started;
	m->host.arg = a;
	mig_host_start(&m->host);
}

/* --- the end --- */

static void keep_basis(struct agent *a)
{
	struct agent_mig *m = &a->mig;
	const char *uuids[GPU_NODE_MAX];
	struct error err = ERROR_INIT;

	for (uint32_t i = 0; i < m->report.n; i++)
		uuids[i] = m->report.gpus[i].uuid;
	m->drift_known = a->node.inv &&
			 mig_basis_take(&m->basis, a->node.inv, uuids, m->report.n, &err) == 0;
}

static void finish_well(struct agent *a)
{
	struct agent_mig *m = &a->mig;
	uint32_t n = 0;
	char text[sizeof(m->reason)];

	for (uint32_t i = 0; i < m->report.n; i++)
		n += !strcmp(m->report.gpus[i].result, "changed");
	if (m->applied)
		(void)snprintf(text, sizeof(text), "%s: applied, %u of %u GPUs changed",
			m->name, n, m->report.n);
	else
		(void)snprintf(text, sizeof(text), "%s: applied", m->name);
	keep_basis(a);
	m->good = true;
	m->failures = 0;
	m->retry_at_ns = 0;
	m->told[0] = '\0';
	m->rebooting = false;
	/* Another look that finds nothing to do is no news. */
	if (m->applied || strcmp(m->state, "success") != 0 || strcmp(m->key, m->tried) != 0) {
		log_info("MIG layout is as wanted", LOG_STR("config", m->name),
			LOG_UINT("changed", n));
		mig_node_say(a, "success", text);
		if (m->applied)
			agent_event(a, EVENT_NORMAL, "MigConfigApplied", "%s", text);
	}
	mig_node_rebooted(a, "");
	if (m->paused)
		mig_node_validate_again(a);
}

static void finish_badly(struct agent *a)
{
	struct agent_mig *m = &a->mig;
	char text[sizeof(m->reason)];

	(void)snprintf(text, sizeof(text), "%s: %.*s", m->name,
		(int)(sizeof(text) - sizeof(m->name) - 3), m->outcome.msg);
	m->good = false;
	m->drift_known = false;
	m->failures++;
	m->retry_at_ns = time_mono_ns() + mig_retry_ns(m->failures, m->in_use);
	m->failed_with = a->node.inv ? mig_basis_all(a->node.inv) : 0;
	m->paused_in_vain |= m->in_use && m->paused;
	if (strcmp(m->state, "failed") != 0 || strcmp(m->reason, text) != 0)
		mig_node_say(a, "failed", text);
	if (strcmp(m->told, text) != 0) {
		log_error("MIG layout not applied, trying again", LOG_STR("config", m->name),
			LOG_STR("reason", m->outcome.msg));
		agent_event(a, EVENT_WARNING, "MigConfigFailed", "%s", text);
		memcpy(m->told, text, sizeof(m->told));
	}
}

static void finish(struct agent *a)
{
	struct agent_mig *m = &a->mig;

	enter(a, MIG_REST);
	m->ever = true;
	if (m->outcome.code == ERR_NONE)
		finish_well(a);
	else
		finish_badly(a);
	mig_node_clients(a, MIG_CLIENTS_RUN);
	agent_cluster_look(a);
	agent_mig_look(a);
}

/* --- the phases --- */

static const struct {
	const char *text;
	void (*enter)(struct agent *a);
	void (*tick)(struct agent *a); /* every: */
	uint32_t tick_ms;
	uint64_t limit_ns; /* then: */
	void (*late)(struct agent *a);
} phases[MIG_PHASES] = {
	[MIG_REST] = { .text = "rest" },
	[MIG_PLAN] = { .text = "planning", .enter = enter_plan },
	[MIG_PAUSE] = { "pausing GPU clients", enter_pause, tick_pause, 1000, 0, NULL },
	[MIG_WITHDRAW] = { "withdrawing devices", enter_withdraw, tick_withdraw, WITHDRAW_MS, 0,
		NULL },
	[MIG_HOST] = { .text = "stopping services", .enter = enter_host },
	[MIG_RELEASE] = { "releasing the GPUs", enter_release, tick_release, 20, RELEASE_NS,
		late_release },
	[MIG_APPLY] = { .text = "applying", .enter = enter_apply },
	[MIG_REBOOT] = { "rebooting", enter_reboot, tick_reboot, 500, REBOOT_NS, late_reboot },
	[MIG_SETTLE] = { "registering devices", enter_settle, tick_settle, 50, REGISTER_NS,
		late_settle },
	[MIG_RESTORE] = { .text = "starting services", .enter = enter_restore },
};

const char *mig_phase_text(enum mig_phase phase)
{
	return phases[phase].text;
}

static void on_tick(uv_timer_t *t)
{
	struct agent *a = t->data;
	enum mig_phase p = a->mig.phase;

	if (phases[p].late && time_mono_ns() - a->mig.phase_since_ns > phases[p].limit_ns)
		phases[p].late(a);
	else
		phases[p].tick(a);
}

/* Enters may enter the next phase themselves: nothing of @phase may come after them. */
static void enter(struct agent *a, enum mig_phase phase)
{
	struct agent_mig *m = &a->mig;

	log_debug("MIG manager", LOG_STR("phase", phases[phase].text));
	m->phase = phase;
	m->phase_since_ns = time_mono_ns();
	if (phases[phase].tick)
		(void)uv_timer_start(&m->timer, on_tick, phases[phase].tick_ms,
			phases[phase].tick_ms);
	else
		(void)uv_timer_stop(&m->timer);
	if (phases[phase].enter)
		phases[phase].enter(a);
}

void mig_attempt_start(struct agent *a)
{
	struct agent_mig *m = &a->mig;

	error_clear(&m->outcome);
	m->takes = m->paused = m->applied = m->rebooted_now = m->superseded = false;
	m->in_use = false;
	mig_mask_fini(&m->mask);
	if (m->source_error.code != ERR_NONE) {
		mig_report_fini(&m->report);
		fail(a, /* in_use= */ false, &m->source_error);
		return;
	}
	enter(a, MIG_PLAN);
}

bool mig_attempt_interrupt(struct agent *a)
{
	struct agent_mig *m = &a->mig;

	if (m->phase != MIG_PLAN && m->phase != MIG_PAUSE) {
		m->superseded = true;
		return false;
	}
	m->child = mig_child_stop(m->child);
	m->call = api_cancel(m->call);
	enter(a, MIG_REST);
	return true;
}

void mig_attempt_look(struct agent *a)
{
	enum mig_phase p = a->mig.phase;

	/* These wait for what has just been heard of, perhaps. */
	if (p == MIG_PAUSE || p == MIG_SETTLE || p == MIG_REBOOT)
		phases[p].tick(a);
}

void mig_attempt_looked(struct agent *a)
{
	a->mig.looks++;
	if (a->mig.phase == MIG_SETTLE && !is_seen(&a->mig))
		gpu_monitor_probe(a->monitor);
	mig_attempt_look(a);
}

void mig_attempt_stop(struct agent *a)
{
	struct agent_mig *m = &a->mig;

	m->child = mig_child_stop(m->child);
	m->call = api_cancel(m->call);
	mig_host_cancel(&m->host);
	m->phase = MIG_REST;
	(void)uv_timer_stop(&m->timer);
}
