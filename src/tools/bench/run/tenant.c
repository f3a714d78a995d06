/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/run/tenant.h"

#include "lib/base/time.h"
#include "tools/bench/run/load-io.h"
#include "tools/bench/run/load-pod.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SETUP_NS  (120 * NS_PER_SEC) /* for gpuslice-load; the user sets that of commands */
#define GRACE_NS  (60 * NS_PER_SEC)  /* for units in flight at the end */
#define SILENT_NS (24 * 3600 * NS_PER_SEC)

struct tenant {
	const struct tenant_ops *ops;
	void *arg;
	const struct suite_workload *workload;
	struct child *child;   /* a user's command; NULL: it has ended, or .load runs */
	struct load_pod *load; /* gpuslice-load; NULL: .child */
	bool is_ready, is_over, has_ended, has_regex;
	regex_t pattern;
	uint64_t last_ns;
	struct count count;
	struct error error; /* ERR_NONE: no failure */
	bool counted;
	double gave_up_s; /* the runner gave up after this time without a unit; 0: it did not */
	char last[64];    /* last line that was no unit, for messages */
};

/* --- a user's command: its lines are its units --- */

static void count_tenant_unit(struct tenant *tenant)
{
	uint64_t now = time_mono_ns();

	if (tenant->count.blocks && tenant->last_ns)
		count_add_unit(&tenant->count, now, now - tenant->last_ns);
	tenant->last_ns = now;
	if (!tenant->is_ready) {
		tenant->is_ready = true;
		tenant->ops->ready(tenant->arg);
	}
}

static int on_tenant_line(void *arg, const char *line, size_t len, struct error *err)
{
	struct tenant *tenant = arg;

	(void)len;
	(void)err;
	if (!tenant->has_regex || regexec(&tenant->pattern, line, 0, NULL, 0) == 0)
		count_tenant_unit(tenant);
	else
		(void)snprintf(tenant->last, sizeof(tenant->last), "%s", line);
	return 0;
}

/* --- gpuslice-load: two lines --- */

static void on_tenant_load_ready(void *arg, const json_t *report, const struct error *why)
{
	struct tenant *tenant = arg;

	if (!report) {
		error_copy(&tenant->error, why);
		return;
	}
	tenant->is_ready = true;
	tenant->ops->ready(tenant->arg);
}

static int on_tenant_load_answer(void *arg, const char *line, size_t len, struct error *err)
{
	struct tenant *tenant = arg;

	(void)err; /* a wrong answer does not end the pod: gpuslice-load ends by itself */
	if (tenant->count.blocks)
		tenant->counted = collect_read(tenant->count.blocks, tenant->count.n, line, len,
					  &tenant->error) == 0;
	return 0;
}

/* --- the end --- */

/* The program's last line shows the cause: a wrong pattern, or the program's own error. */
static void set_given_up_error(struct tenant *tenant, const struct child_end *end)
{
	const char *last_line = *tenant->last ? tenant->last : end->words;

	(void)error_set(&tenant->error, ERR_TIMEOUT, "no unit in %g s%s; %s%.200s",
		tenant->gave_up_s,
		*tenant->last && tenant->has_regex ? ", no line matched the pattern" : "",
		*last_line ? "it said last: " : "it said nothing (python3 wants -u)",
		last_line);
}

static void on_tenant_ended(void *arg, const struct child_end *end)
{
	struct tenant *tenant = arg;

	tenant->child = NULL;
	tenant->has_ended = true;
	if (tenant->gave_up_s > 0)
		set_given_up_error(tenant, end);
	if (tenant->workload->command && tenant->is_over)
		tenant->counted = true; /* tenant_over() ended the command */
	if (!tenant->counted && tenant->error.code == ERR_NONE) {
		if (end->was_silent)
			(void)error_set(&tenant->error, ERR_TIMEOUT, "no answer: %.200s",
				end->words);
		else if (end->signal)
			(void)error_set(&tenant->error, ERR_UNAVAILABLE,
				"ended by signal %d%s%.200s", end->signal,
				*end->words ? ": " : "", end->words);
		else
			(void)error_set(&tenant->error, ERR_UNAVAILABLE,
				"ended with status %d%s%.200s", end->status,
				*end->words ? ": " : "", end->words);
	}
	tenant->ops->ended(tenant->arg);
}

static int make_pattern(struct tenant *tenant, struct error *err)
{
	char why[128];
	int r;

	if (!tenant->workload->command || !tenant->workload->pattern)
		return 0;
	r = regcomp(&tenant->pattern, tenant->workload->pattern, REG_EXTENDED | REG_NOSUB);
	if (r != 0) {
		(void)regerror(r, &tenant->pattern, why, sizeof(why));
		return error_set(err, ERR_INVALID, "pattern '%.80s': %s",
			tenant->workload->pattern, why);
	}
	tenant->has_regex = true;
	return 0;
}

static int start_command(struct tenant *tenant, uv_loop_t *loop,
	const struct tenant_options *what, struct error *err)
{
	static const struct child_ops ops = { .line = on_tenant_line,
		.ended = on_tenant_ended };
	CLEANUP(strv_fini) struct strv args = STRV_INIT;

	if (args_command(&args, what->load, what->workload, err) < 0)
		return -1;
	return proc_start(&tenant->child, loop,
		&(struct child_spec){ .argv = (const char *const *)args.v,
			.env = (const char *const *)what->env->v,
			.silence_ns = SILENT_NS },
		&ops, tenant, err);
}

static int start_load(struct tenant *tenant, uv_loop_t *loop, const struct tenant_options *what,
	struct error *err)
{
	static const struct load_pod_ops ops = { .ready = on_tenant_load_ready,
		.answer = on_tenant_load_answer,
		.ended = on_tenant_ended };
	CLEANUP(strv_fini) struct strv args = STRV_INIT;

	if (args_run(&args, what->load, what->workload, what->size, what->seed, err) < 0)
		return -1;
	return load_pod_start(&tenant->load, loop,
		&(struct load_pod_options){ .args = &args,
			.env = what->env,
			.mps = what->mps,
			.setup_ns = SETUP_NS },
		&ops, tenant, err);
}

int tenant_start(struct tenant **ret, uv_loop_t *loop, const struct tenant_options *what,
	const struct tenant_ops *ops, void *arg, struct error *err)
{
	struct tenant *tenant = calloc(1, sizeof(*tenant));

	if (!tenant)
		return error_nomem(err);
	tenant->ops = ops;
	tenant->arg = arg;
	tenant->workload = what->workload;
	if (make_pattern(tenant, err) < 0 ||
		(tenant->workload->command ? start_command(tenant, loop, what, err)
					   : start_load(tenant, loop, what, err)) < 0) {
		(void)tenant_free(tenant);
		return -1;
	}
	*ret = tenant;
	return 0;
}

void tenant_begin(struct tenant *tenant, uint64_t begin_ns, uint64_t from_ns, uint64_t to_ns)
{
	if (tenant->has_ended)
		return;
	if (count_init(&tenant->count, from_ns, to_ns, ARGS_PARTS, &tenant->error) < 0)
		return;
	if (tenant->child)
		proc_expect(tenant->child, SILENT_NS);
	else
		(void)!load_pod_begin(tenant->load, begin_ns, from_ns, to_ns,
			to_ns - begin_ns + GRACE_NS, &tenant->error);
}

void tenant_over(struct tenant *tenant)
{
	tenant->is_over = true;
	if (tenant->child)
		proc_expect(tenant->child, 0);
}

void tenant_kill(struct tenant *tenant)
{
	if (tenant && tenant->child)
		proc_expect(tenant->child, 0);
	else if (tenant && tenant->load)
		load_pod_expect(tenant->load, 0);
}

void tenant_give_up(struct tenant *tenant, double seconds)
{
	if (!tenant->child || tenant->is_ready)
		return;
	tenant->gave_up_s = seconds;
	tenant_kill(tenant);
}

struct hist *tenant_blocks(struct tenant *tenant)
{
	return tenant->counted ? tenant->count.blocks : NULL;
}

const struct error *tenant_error(const struct tenant *tenant)
{
	return &tenant->error;
}

struct tenant *tenant_free(struct tenant *tenant)
{
	if (!tenant)
		return NULL;
	tenant->child = proc_stop(tenant->child);
	tenant->load = load_pod_free(tenant->load);
	if (tenant->has_regex)
		regfree(&tenant->pattern);
	count_fini(&tenant->count);
	free(tenant);
	return NULL;
}
