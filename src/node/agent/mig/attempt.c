/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/mig/attempt.h"

#include "lib/base/time.h"
#include "lib/base/utf8.h"

#include <stdio.h>
#include <string.h>

/* --- failure --- */

/* To what puts back what this attempt took away. */
static void end(struct agent *a)
{
	struct agent_mig *m = &a->mig;

	if (m->phase == MIG_SETTLE || m->phase == MIG_RESTORE)
		mig_enter(a, MIG_RESTORE);
	else
		mig_enter(a, m->masked || m->released || m->applied ? MIG_SETTLE : MIG_RESTORE);
}

void mig_fail(struct agent *a, bool in_use, const struct error *err)
{
	struct agent_mig *m = &a->mig;

	m->child = proc_stop(m->child);
	m->call = api_cancel(m->call);
	mig_host_cancel(&m->host);
	if (m->outcome.code == ERR_NONE)
		m->outcome = *err;
	m->in_use = in_use;
	end(a);
}

void mig_fail_text(struct agent *a, enum error_code code, const char *fmt, ...)
{
	struct error err = ERROR_INIT;
	va_list ap;

	va_start(ap, fmt);
	(void)error_vset(&err, code, fmt, ap);
	va_end(ap);
	mig_fail(a, /* in_use= */ false, &err);
}

/* --- the end --- */

static void keep_basis(struct agent *a)
{
	struct agent_mig *m = &a->mig;
	const char *uuids[GPU_NODE_MAX];
	struct error err = ERROR_INIT;

	for (uint32_t i = 0; i < m->report.n; i++)
		uuids[i] = m->report.gpus[i].uuid;
	m->drift_known = a->facts.node.inv && mig_basis_take(&m->basis, a->facts.node.inv,
						      uuids, m->report.n, &err) == 0;
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
			report_event(&a->reporter, EVENT_NORMAL, "MigConfigApplied", "%s",
				text);
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
	utf8_make_valid(text);
	m->good = false;
	m->drift_known = false;
	m->failures++;
	m->retry_at_ns = time_mono_ns() + mig_retry_ns(m->failures, m->in_use);
	m->failed_with = a->facts.node.inv ? mig_basis_all(a->facts.node.inv) : 0;
	m->paused_in_vain |= m->in_use && m->paused;
	if (strcmp(m->state, "failed") != 0 || strcmp(m->reason, text) != 0)
		mig_node_say(a, "failed", text);
	if (strcmp(m->told, text) != 0) {
		log_error("MIG layout not applied, trying again", LOG_STR("config", m->name),
			LOG_STR("reason", m->outcome.msg));
		report_event(&a->reporter, EVENT_WARNING, "MigConfigFailed", "%s", text);
		memcpy(m->told, text, sizeof(m->told));
	}
}

void mig_finish(struct agent *a)
{
	struct agent_mig *m = &a->mig;

	mig_enter(a, MIG_REST);
	m->ever = true;
	if (m->outcome.code == ERR_NONE)
		finish_well(a);
	else
		finish_badly(a);
	mig_node_clients(a, MIG_CLIENTS_RUN);
	wake_up(&a->wake); /* the startup taint waited for it */
	a->mig.at_rest(a);
}

/* --- the phases --- */

static void on_tick(uv_timer_t *t)
{
	struct agent *a = t->data;
	const struct mig_phase_row *p = &a->mig.phases[a->mig.phase];

	if (p->late && time_mono_ns() - a->mig.phase_since_ns > p->limit_ns)
		p->late(a);
	else
		p->tick(a);
}

/* Enters may enter the next phase themselves: nothing of @phase may come after them. */
void mig_enter(struct agent *a, enum mig_phase phase)
{
	struct agent_mig *m = &a->mig;
	const struct mig_phase_row *p = &m->phases[phase];

	log_debug("MIG manager", LOG_STR("phase", p->text));
	m->phase = phase;
	m->phase_since_ns = time_mono_ns();
	if (p->tick)
		(void)uv_timer_start(&m->timer, on_tick, p->tick_ms, p->tick_ms);
	else
		(void)uv_timer_stop(&m->timer);
	if (p->enter)
		p->enter(a);
}

void mig_attempt_start(struct agent *a)
{
	struct agent_mig *m = &a->mig;

	error_clear(&m->outcome);
	m->takes = m->paused = m->applied = m->rebooted_now = false;
	m->in_use = m->cleaned = false;
	mig_mask_fini(&m->mask);
	if (m->source_error.code != ERR_NONE) {
		mig_report_fini(&m->report);
		mig_fail(a, /* in_use= */ false, &m->source_error);
		return;
	}
	mig_enter(a, MIG_PLAN);
}

bool mig_attempt_interrupt(struct agent *a)
{
	struct agent_mig *m = &a->mig;

	if (m->phase != MIG_PLAN && m->phase != MIG_PAUSE)
		return false;
	m->child = proc_stop(m->child);
	m->call = api_cancel(m->call);
	mig_enter(a, MIG_REST);
	return true;
}

static void on_cleaned(void *arg, const struct error *err)
{
	struct agent *a = arg;

	(void)err; /* each service has its line in the log */
	mig_enter(a, MIG_REST);
	a->mig.at_rest(a);
}

void mig_attempt_clean(struct agent *a)
{
	struct agent_mig *m = &a->mig;

	if (m->host.stopped.n == 0 || m->cleaned)
		return;
	m->cleaned = true;
	m->phase = MIG_RESTORE; /* whatever is wanted meanwhile waits */
	m->host.done = on_cleaned;
	m->host.arg = a;
	mig_host_start(&m->host);
}

void mig_attempt_look(struct agent *a)
{
	enum mig_phase p = a->mig.phase;

	/* These wait for what has just been heard of, perhaps. */
	if (p == MIG_PAUSE || p == MIG_SETTLE || p == MIG_REBOOT)
		a->mig.phases[p].tick(a);
}

void mig_attempt_looked(struct agent *a)
{
	a->mig.looks++;
	if (a->mig.phase == MIG_SETTLE && a->mig.looks < a->mig.looks_wanted)
		gpu_monitor_probe(a->monitor);
	mig_attempt_look(a);
}

void mig_attempt_stop(struct agent *a)
{
	struct agent_mig *m = &a->mig;

	m->child = proc_stop(m->child);
	m->call = api_cancel(m->call);
	mig_host_cancel(&m->host);
	m->phase = MIG_REST;
	(void)uv_timer_stop(&m->timer);
}
