/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/mig/attempt.h"

#include "lib/base/time.h"

#include <stdio.h>
#include <string.h>

#define TOOL_ARGS_MAX 32
#define IGNORED_MAX   1024 /* the tool's limit */

/* --- the tool --- */

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

struct args {
	const char *v[TOOL_ARGS_MAX];
	size_t n;
};

static void add_mig_tool_arg(struct args *args, const char *option, const char *value)
{
	if (value && !*value)
		return;
	args->v[args->n++] = option;
	if (value)
		args->v[args->n++] = value;
}

static void add_idle_servers(const struct mig *m, struct args *args, bool dry_run,
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
	struct args args = { .v = { m->tool, "mig", "apply", "-o", "json" }, .n = 5 };
	struct child_spec what = { .name = "mig",
		.argv = args.v,
		.input_len = m->text.len,
		.silence_ns = m->silence_ns };
	CLEANUP(buf_fini) struct buf servers = BUF_INIT(IGNORED_MAX * 16);
	struct error err = ERROR_INIT;
	bool text = *m->dir || *m->map;

	add_mig_tool_arg(&args, text ? "-f" : "--builtin", text ? "-" : NULL);
	add_mig_tool_arg(&args, "-c", m->name);
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
	what.input = text ? buf_str(&m->text) : NULL;
	if (proc_start(&m->child, m->c.loop, &what, ops, m, &err) < 0)
		mig_fail(m, /* in_use= */ false, &err);
}
