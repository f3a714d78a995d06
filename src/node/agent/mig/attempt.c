/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/mig/attempt.h"

#include "lib/base/time.h"
#include "lib/base/utf8.h"

#include <stdio.h>
#include <string.h>

/* --- failure --- */

/* Enters the phase that puts back what this attempt took away. */
static void end_mig_attempt(struct mig *m)
{
	if (m->phase == MIG_SETTLE || m->phase == MIG_RESTORE)
		mig_enter_phase(m, MIG_RESTORE);
	else
		mig_enter_phase(m,
			m->masked || m->released || m->applied ? MIG_SETTLE : MIG_RESTORE);
}

void mig_fail(struct mig *m, bool in_use, const struct error *err)
{
	m->child = proc_stop(m->child);
	m->call = api_cancel(m->call);
	mig_host_cancel(&m->host);
	if (m->outcome.code == ERR_NONE)
		m->outcome = *err;
	m->in_use = in_use;
	end_mig_attempt(m);
}

void mig_fail_text(struct mig *m, enum error_code code, const char *fmt, ...)
{
	struct error err = ERROR_INIT;
	va_list ap;

	va_start(ap, fmt);
	(void)error_vset(&err, code, fmt, ap);
	va_end(ap);
	mig_fail(m, /* in_use= */ false, &err);
}

/* --- the end --- */

static void save_mig_basis(struct mig *m)
{
	const char *uuids[GPU_NODE_MAX];
	struct error err = ERROR_INIT;

	for (uint32_t i = 0; i < m->report.n; i++)
		uuids[i] = m->report.gpus[i].uuid;
	m->drift_known =
		m->c.facts->node.inv && mig_basis_record(&m->basis, m->c.facts->node.inv, uuids,
						m->report.n, &err) == 0;
}

static void finish_well(struct mig *m)
{
	uint32_t n = 0;
	char text[sizeof(m->reason)];

	for (uint32_t i = 0; i < m->report.n; i++)
		n += !strcmp(m->report.gpus[i].result, "changed");
	if (m->applied)
		(void)snprintf(text, sizeof(text), "%s: applied, %u of %u GPUs changed",
			m->name, n, m->report.n);
	else
		(void)snprintf(text, sizeof(text), "%s: applied", m->name);
	save_mig_basis(m);
	m->succeeded = true;
	m->failures = 0;
	m->retry_at_ns = 0;
	m->reported_error[0] = '\0';
	m->rebooting = false;
	/* A repeated check that finds nothing to do is not reported. */
	if (m->applied || strcmp(m->state, "success") != 0 ||
		strcmp(m->desired_key, m->tried_key) != 0) {
		log_info("MIG layout is as wanted", LOG_STR("config", m->name),
			LOG_UINT("changed", n));
		mig_node_set_state(m, "success", text);
		if (m->applied)
			report_event(m->c.reporter, EVENT_NORMAL, "MigConfigApplied", "%s",
				text);
	}
	mig_node_rebooted(m, "");
	if (m->paused)
		mig_node_rerun_validators(m);
}

static void finish_badly(struct mig *m)
{
	char text[sizeof(m->reason)];

	(void)snprintf(text, sizeof(text), "%s: %.*s", m->name,
		(int)(sizeof(text) - sizeof(m->name) - 3), m->outcome.msg);
	utf8_make_valid(text);
	m->succeeded = false;
	m->drift_known = false;
	m->failures++;
	m->retry_at_ns = time_mono_ns() + mig_retry_ns(m->failures, m->in_use);
	m->failed_with = m->c.facts->node.inv ? mig_basis_hash(m->c.facts->node.inv) : 0;
	m->paused_in_vain |= m->in_use && m->paused;
	if (strcmp(m->state, "failed") != 0 || strcmp(m->reason, text) != 0)
		mig_node_set_state(m, "failed", text);
	if (strcmp(m->reported_error, text) != 0) {
		log_error("MIG layout not applied, trying again", LOG_STR("config", m->name),
			LOG_STR("reason", m->outcome.msg));
		report_event(m->c.reporter, EVENT_WARNING, "MigConfigFailed", "%s", text);
		memcpy(m->reported_error, text, sizeof(m->reported_error));
	}
}

void mig_finish(struct mig *m)
{
	mig_enter_phase(m, MIG_REST);
	m->attempted = true;
	if (m->outcome.code == ERR_NONE)
		finish_well(m);
	else
		finish_badly(m);
	mig_node_clients(m, MIG_CLIENTS_RUN);
	wake_up(m->c.wake); /* the startup taint waited for this */
	m->at_rest(m);
}

/* --- the phases --- */

static void on_mig_phase_tick(uv_timer_t *t)
{
	struct mig *m = t->data;
	const struct mig_phase_row *p = &m->phases[m->phase];

	if (p->on_timeout && time_mono_ns() - m->phase_since_ns > p->limit_ns)
		p->on_timeout(m);
	else
		p->tick(m);
}

/* .enter may enter the next phase itself, so nothing of @phase may follow the call. */
void mig_enter_phase(struct mig *m, enum mig_phase phase)
{
	const struct mig_phase_row *p = &m->phases[phase];

	log_debug("MIG manager", LOG_STR("phase", p->text));
	m->phase = phase;
	m->phase_since_ns = time_mono_ns();
	if (p->tick)
		(void)uv_timer_start(&m->timer, on_mig_phase_tick, p->tick_ms, p->tick_ms);
	else
		(void)uv_timer_stop(&m->timer);
	if (p->enter)
		p->enter(m);
}

void mig_attempt_start(struct mig *m)
{
	error_clear(&m->outcome);
	m->removes_devices = m->paused = m->applied = m->rebooted_now = false;
	m->in_use = m->cleaned = false;
	mig_mask_fini(&m->mask);
	if (m->source_error.code != ERR_NONE) {
		mig_report_fini(&m->report);
		mig_fail(m, /* in_use= */ false, &m->source_error);
		return;
	}
	mig_enter_phase(m, MIG_PLAN);
}

bool mig_attempt_interrupt(struct mig *m)
{
	if (m->phase != MIG_PLAN && m->phase != MIG_PAUSE)
		return false;
	m->child = proc_stop(m->child);
	m->call = api_cancel(m->call);
	mig_enter_phase(m, MIG_REST);
	return true;
}

static void on_cleaned(void *arg, const struct error *err)
{
	struct mig *m = arg;

	(void)err; /* each service has its line in the log */
	mig_enter_phase(m, MIG_REST);
	m->at_rest(m);
}

void mig_attempt_clean(struct mig *m)
{
	if (m->host.stopped.n == 0 || m->cleaned)
		return;
	m->cleaned = true;
	m->phase = MIG_RESTORE; /* other work waits meanwhile */
	m->host.done = on_cleaned;
	m->host.arg = m;
	mig_host_start(&m->host);
}

void mig_attempt_recheck(struct mig *m)
{
	enum mig_phase p = m->phase;

	/* These phases may wait for the event that just came. */
	if (p == MIG_PAUSE || p == MIG_SETTLE || p == MIG_REBOOT)
		m->phases[p].tick(m);
}

void mig_attempt_on_probed(struct mig *m)
{
	m->n_probes++;
	if (m->phase == MIG_SETTLE && m->n_probes < m->n_probes_needed)
		m->c.ops->probe(m->c.arg, /* all= */ false);
	mig_attempt_recheck(m);
}

void mig_attempt_stop(struct mig *m)
{
	m->child = proc_stop(m->child);
	m->call = api_cancel(m->call);
	mig_host_cancel(&m->host);
	m->phase = MIG_REST;
	(void)uv_timer_stop(&m->timer);
}
