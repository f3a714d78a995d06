/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/mig/attempt.h"

#include "lib/base/time.h"

#include <stdio.h>
#include <string.h>

#define PROBE_NS (500 * NS_PER_MS)
#define API_NS   (60 * NS_PER_SEC)

/* --- APPLY --- */

static bool may_reboot(const struct mig *m)
{
	const struct node_object *n = m->c.link->node;
	const char *rebooted = n ? node_object_annotation(n, MIG_REBOOTED) : NULL;

	return m->c.options.with_reboot && n && node_object_state(n) == NODE_PRESENT &&
	       !m->rebooting && !(rebooted && !strcmp(rebooted, m->tried_key));
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

	m->child = NULL;
	if (mig_tool_ended_well(m, e, &in_use, &err))
		mig_enter_phase(m, MIG_SETTLE);
	else if (m->report.ended && !strcmp(m->report.code, "reset-required"))
		reset_required(m);
	else
		mig_fail(m, in_use, &err);
}

static const struct child_ops apply_ops = { .line = mig_tool_line,
	.ended = on_mig_apply_ended };

void mig_apply_enter(struct mig *m)
{
	m->applied = true;
	mig_tool_run(m, /* dry_run= */ false, &apply_ops);
}

/* --- REBOOT --- */

static void on_rebooted(void *arg, const struct error *err)
{
	struct mig *m = arg;

	if (err->code != ERR_NONE)
		mig_fail(m, /* in_use= */ false, err);
}

void mig_reboot_tick(struct mig *m)
{
	char command[PATH_MAX + 32];

	if (m->rebooted_now)
		return;
	/* The Node must have the state before this boot ends. */
	if (!mig_node_is_in_sync(m)) {
		if (time_mono_ns() - m->phase_since_ns > API_NS)
			mig_fail_text(m, ERR_TIMEOUT,
				"no reboot, as the state cannot be written to the Node");
		return;
	}
	m->rebooted_now = true;
	m->host.done = on_rebooted;
	m->host.arg = m;
	(void)snprintf(command, sizeof(command), "chroot %s systemctl reboot",
		m->c.options.host_root);
	mig_host_reboot(&m->host,
		*m->c.options.reboot_command ? m->c.options.reboot_command : command);
}

void mig_reboot_enter(struct mig *m)
{
	char text[sizeof(m->reason)];

	(void)snprintf(text, sizeof(text), "%s: rebooting the host: %.200s", m->name,
		m->report.reason);
	mig_node_rebooted(m, m->tried_key);
	mig_node_set_state(m, "rebooting", text);
	report_event(m->c.reporter, EVENT_NORMAL, "MigConfigRebooting", "%s", text);
	mig_reboot_tick(m);
}

void mig_reboot_late(struct mig *m)
{
	mig_fail_text(m, ERR_TIMEOUT, "the host did not reboot within 10 minutes");
}

/* --- SETTLE: the present devices are probed, offered and registered --- */

bool mig_settle_is_probed(const struct mig *m)
{
	return m->n_probes >= m->n_probes_needed;
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

void mig_settle_tick(struct mig *m)
{
	CLEANUP(buf_fini) struct buf why = BUF_INIT(64 * 1024);

	if (!mig_settle_is_probed(m))
		return;
	if (m->masked) {
		m->masked = false;
		mig_mask_fini(&m->mask);
		m->round_needed = m->c.facts->rounds + 1;
		wake_up(m->c.wake);
	}
	/*
	 * Ticks come by timer and by event. The withdrawn devices are not ready before the reconcile offers them
	 * again.
	 */
	if (m->c.facts->rounds < m->round_needed)
		return;
	if (m->outcome.code == ERR_NONE && !devices_are_whole(m, &why)) {
		retry_mig_probe(m);
		return;
	}
	if (m->outcome.code != ERR_NONE || m->c.ops->is_ready(m->c.arg, &why))
		mig_enter_phase(m, MIG_RESTORE);
}

void mig_settle_enter(struct mig *m)
{
	/* A probe in progress may have begun before the last step. Only the probe after it counts. */
	m->n_probes_needed = m->n_probes + (m->released ? 1 : 2);
	m->released = false;
	if (m->outcome.code == ERR_NONE)
		m->c.ops->probe(m->c.arg, /* all= */ true);
	else
		m->c.ops->probe(m->c.arg, /* all= */ false);
}

void mig_settle_late(struct mig *m)
{
	CLEANUP(buf_fini) struct buf why = BUF_INIT(64 * 1024);

	if (devices_are_whole(m, &why))
		(void)m->c.ops->is_ready(m->c.arg, &why);
	if (m->outcome.code == ERR_NONE)
		(void)error_set(&m->outcome, ERR_TIMEOUT,
			"applied, but the devices cannot be had: %.*s",
			(int)strcspn(buf_str(&why), "\n"), buf_str(&why));
	m->masked = false;
	mig_mask_fini(&m->mask);
	wake_up(m->c.wake);
	mig_enter_phase(m, MIG_RESTORE);
}

/* --- RESTORE: the stopped services run again --- */

static void on_started(void *arg, const struct error *err)
{
	struct mig *m = arg;

	if (err->code != ERR_NONE && m->outcome.code == ERR_NONE)
		m->outcome = *err;
	mig_finish(arg);
}

void mig_restore_enter(struct mig *m)
{
	if (m->host.stopped.n == 0) {
		mig_finish(m);
		return;
	}
	m->host.done = on_started;
	m->host.arg = m;
	mig_host_start(&m->host);
}
