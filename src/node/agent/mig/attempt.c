/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/mig/attempt.h"

#include "lib/base/time.h"
#include "lib/base/text.h"

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
			m->attempt.masked || m->attempt.released || m->attempt.applied
				? MIG_SETTLE
				: MIG_RESTORE);
}

void mig_fail(struct mig *m, bool in_use, const struct error *err)
{
	m->attempt.child = proc_stop(m->attempt.child);
	m->attempt.call = api_cancel(m->attempt.call);
	mig_host_cancel(&m->host);
	if (m->attempt.error.code == ERR_NONE)
		m->attempt.error = *err;
	m->attempt.in_use = in_use;
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

/* False: later layouts cannot be compared with this one. */
static bool save_mig_basis(struct mig *m)
{
	const char *uuids[GPU_NODE_MAX];
	struct error err = ERROR_INIT;

	for (uint32_t i = 0; i < m->report.n; i++)
		uuids[i] = m->report.gpus[i].uuid;
	return m->c.facts->node.inv && mig_basis_record(&m->outcome.basis, m->c.facts->node.inv,
					       uuids, m->report.n, &err) == 0;
}

static void finish_well(struct mig *m)
{
	uint32_t n = 0;
	char text[sizeof(m->node.reason)];

	for (uint32_t i = 0; i < m->report.n; i++)
		n += !strcmp(m->report.gpus[i].result, "changed");
	if (m->attempt.applied)
		(void)snprintf(text, sizeof(text), "%s: applied, %u of %u GPUs changed",
			m->tried.name, n, m->report.n);
	else
		(void)snprintf(text, sizeof(text), "%s: applied", m->tried.name);
	m->outcome.state = save_mig_basis(m) ? MIG_OUTCOME_COMPARED : MIG_OUTCOME_APPLIED;
	m->outcome.failures = 0;
	m->outcome.retry_at_ns = 0;
	m->outcome.reported_error[0] = '\0';
	m->last_boot = MIG_BOOT_OTHER;
	/* A repeated check that finds nothing to do is not reported. */
	if (m->attempt.applied || strcmp(m->node.state, "success") != 0 ||
		strcmp(m->desired.key, m->tried.key) != 0) {
		log_info("MIG layout is as wanted", LOG_STR("config", m->tried.name),
			LOG_UINT("changed", n));
		mig_node_set_state(m, "success", text);
		if (m->attempt.applied)
			report_event(m->c.reporter, EVENT_NORMAL, "MigConfigApplied", "%s",
				text);
	}
	mig_node_rebooted(m, "");
	if (m->attempt.paused)
		mig_node_rerun_validators(m);
}

static void finish_badly(struct mig *m)
{
	char text[sizeof(m->node.reason)];

	(void)snprintf(text, sizeof(text), "%s: %.*s", m->tried.name,
		(int)(sizeof(text) - sizeof(m->tried.name) - 3), m->attempt.error.msg);
	utf8_make_valid(text);
	m->outcome.state = MIG_OUTCOME_FAILED;
	m->outcome.failures++;
	m->outcome.retry_at_ns =
		time_mono_ns() + mig_retry_ns(m->outcome.failures, m->attempt.in_use);
	m->outcome.failed_with =
		m->c.facts->node.inv ? mig_basis_hash(m->c.facts->node.inv) : 0;
	m->outcome.paused_in_vain |= m->attempt.in_use && m->attempt.paused;
	if (strcmp(m->node.state, "failed") != 0 || strcmp(m->node.reason, text) != 0)
		mig_node_set_state(m, "failed", text);
	if (strcmp(m->outcome.reported_error, text) != 0) {
		log_error("MIG layout not applied, trying again",
			LOG_STR("config", m->tried.name),
			LOG_STR("reason", m->attempt.error.msg));
		report_event(m->c.reporter, EVENT_WARNING, "MigConfigFailed", "%s", text);
		memcpy(m->outcome.reported_error, text, sizeof(m->outcome.reported_error));
	}
}

void mig_finish(struct mig *m)
{
	mig_enter_phase(m, MIG_REST);
	if (m->attempt.error.code == ERR_NONE)
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
	mig_mask_fini(&m->attempt.mask);
	m->attempt = (struct mig_attempt){ .child = NULL };
	m->cleaned = false;
	if (m->tried.source_error.code != ERR_NONE) {
		mig_report_fini(&m->report);
		mig_fail(m, /* in_use= */ false, &m->tried.source_error);
		return;
	}
	mig_enter_phase(m, MIG_PLAN);
}

bool mig_attempt_interrupt(struct mig *m)
{
	if (m->phase != MIG_PLAN && m->phase != MIG_PAUSE)
		return false;
	m->attempt.child = proc_stop(m->attempt.child);
	m->attempt.call = api_cancel(m->attempt.call);
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
	if (m->phase == MIG_SETTLE && m->n_probes < m->attempt.n_probes_needed)
		m->c.ops->probe(m->c.arg, /* all= */ false);
	mig_attempt_recheck(m);
}

void mig_attempt_stop(struct mig *m)
{
	m->attempt.child = proc_stop(m->attempt.child);
	m->attempt.call = api_cancel(m->attempt.call);
	mig_host_cancel(&m->host);
	m->phase = MIG_REST;
	(void)uv_timer_stop(&m->timer);
}

/* --- the tool --- */

#define TOOL_ARGS_MAX 32
#define IGNORED_MAX   1024 /* the tool's limit */

int mig_tool_line(void *arg, const char *line, size_t len, struct error *err)
{
	struct mig *m = arg;
	char before[sizeof(m->report.current_step)];

	memcpy(before, m->report.current_step, sizeof(before));
	if (mig_report_line(&m->report, line, len, err) < 0)
		return -1;
	if (strcmp(before, m->report.current_step) != 0 && m->phase == MIG_APPLY)
		log_debug("MIG", LOG_STR("step", m->report.current_step));
	if (*m->report.note && m->phase == MIG_APPLY)
		log_warn("MIG", LOG_STR("note", m->report.note));
	return 0;
}

/* For a run that did not report how it ended. */
static void set_mig_tool_error(const struct mig *m, const struct child_end *e,
	struct error *err)
{
	const char *doing =
		*m->report.current_step ? m->report.current_step : "reading the GPUs";

	if (e->was_silent)
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

static enum error_code parse_mig_error_code(const char *name)
{
	for (int i = 1; i < ERR_COUNT_; i++) {
		if (!strcmp(error_class((enum error_code)i)->name, name))
			return (enum error_code)i;
	}
	return ERR_INTERNAL;
}

bool mig_tool_ended_well(const struct mig *m, const struct child_end *e, bool *in_use,
	struct error *err)
{
	*in_use = false;
	if (e->was_silent || e->error.code != ERR_NONE || !m->report.ended) {
		set_mig_tool_error(m, e, err);
		return false;
	}
	if (m->report.ok)
		return true;
	(void)error_set(err, parse_mig_error_code(m->report.code), "%s",
		*m->report.reason ? m->report.reason : "gpuslice mig gives no reason");
	/* The GPUs are in use, or another editor is at work. A retry soon disturbs no process. */
	*in_use = err->code == ERR_UNAVAILABLE || err->code == ERR_EXISTS;
	return false;
}

struct tool_args {
	const char *v[TOOL_ARGS_MAX];
	size_t n;
};

static void add_mig_tool_arg(struct tool_args *args, const char *option, const char *value)
{
	if (value && !*value)
		return;
	args->v[args->n++] = option;
	if (value)
		args->v[args->n++] = value;
}

static void add_idle_servers(const struct mig *m, struct tool_args *args, bool dry_run,
	struct buf *text)
{
	uint32_t pids[IGNORED_MAX], n;

	n = dry_run ? m->c.ops->mps_idle_servers(m->c.arg, m->phase_since_ns, pids, IGNORED_MAX)
		    : 0;
	for (uint32_t i = 0; i < n; i++)
		buf_printf(text, "%s%u", i ? "," : "", pids[i]);
	add_mig_tool_arg(args, "--ignore-process", buf_str(text));
}

void mig_tool_run(struct mig *m, bool dry_run, const struct child_ops *ops)
{
	const struct mig_options *o = &m->c.options;
	struct tool_args args = { .v = { m->tool, "mig", "apply", "-o", "json" }, .n = 5 };
	struct child_spec what = { .name = "mig",
		.argv = args.v,
		.input_len = m->tried.text.len,
		.silence_ns = m->silence_ns };
	CLEANUP(buf_fini) struct buf servers = BUF_INIT(IGNORED_MAX * 16);
	struct error err = ERROR_INIT;
	bool text = *m->layouts.dir || *m->layouts.map;

	add_mig_tool_arg(&args, text ? "-f" : "--builtin", text ? "-" : NULL);
	add_mig_tool_arg(&args, "-c", m->tried.name);
	add_mig_tool_arg(&args, "--nvml", m->c.nvml_path ? m->c.nvml_path : "");
	add_mig_tool_arg(&args, "--driver-root", m->c.facts->config->container_driver_root);
	add_mig_tool_arg(&args, "--sysfs", m->c.sysfs_root ? m->c.sysfs_root : "");
	add_mig_tool_arg(&args, "--procfs", m->c.procfs_root ? m->c.procfs_root : "");
	add_mig_tool_arg(&args, "--run-dir", m->c.run_dir);
	add_mig_tool_arg(&args, "-k", o->hooks_file);
	if (dry_run)
		add_mig_tool_arg(&args, "--dry-run", NULL);
	if (o->force)
		add_mig_tool_arg(&args, "--force", NULL);
	/* The MPS daemons quit before APPLY, so only the dry run has servers to ignore. */
	add_idle_servers(m, &args, dry_run, &servers);
	mig_report_fini(&m->report);
	what.input = text ? buf_str(&m->tried.text) : NULL;
	if (proc_start(&m->attempt.child, m->c.loop, &what, ops, m, &err) < 0)
		mig_fail(m, /* in_use= */ false, &err);
}
