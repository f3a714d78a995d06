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

/* ---- a user's command: its lines are its units ----------------------------------------------------------------- */

static void count_tenant_unit(struct tenant *p)
{
	uint64_t now = time_mono_ns();

	if (p->count.blocks && p->last_ns)
		count_add_unit(&p->count, now, now - p->last_ns);
	p->last_ns = now;
	if (!p->is_ready) {
		p->is_ready = true;
		p->ops->ready(p->arg);
	}
}

static int on_tenant_line(void *arg, const char *line, size_t len, struct error *err)
{
	struct tenant *p = arg;

	(void)len;
	(void)err;
	if (!p->has_regex || regexec(&p->pattern, line, 0, NULL, 0) == 0)
		count_tenant_unit(p);
	else
		(void)snprintf(p->last, sizeof(p->last), "%s", line);
	return 0;
}

/* ---- gpuslice-load: two lines ------------------------------------------------------------------------------- */

static void on_tenant_load_ready(void *arg, const json_t *report, const struct error *why)
{
	struct tenant *p = arg;

	if (!report) {
		error_copy(&p->error, why);
		return;
	}
	p->is_ready = true;
	p->ops->ready(p->arg);
}

static int on_tenant_load_answer(void *arg, const char *line, size_t len, struct error *err)
{
	struct tenant *p = arg;

	(void)err; /* a wrong answer does not end the pod: gpuslice-load ends by itself */
	if (p->count.blocks)
		p->counted =
			collect_read(p->count.blocks, p->count.n, line, len, &p->error) == 0;
	return 0;
}

/* ---- the end ------------------------------------------------------------------------------------------------ */

/* The program's last line shows the cause: a wrong pattern, or the program's own error. */
static void set_given_up_error(struct tenant *p, const struct child_end *end)
{
	const char *said = *p->last ? p->last : end->words;

	(void)error_set(&p->error, ERR_TIMEOUT, "no unit in %g s%s; %s%.200s", p->gave_up_s,
		*p->last && p->has_regex ? ", no line matched the pattern" : "",
		*said ? "it said last: " : "it said nothing (python3 wants -u)", said);
}

static void on_tenant_ended(void *arg, const struct child_end *end)
{
	struct tenant *p = arg;

	p->child = NULL;
	p->has_ended = true;
	if (p->gave_up_s > 0)
		set_given_up_error(p, end);
	if (p->workload->command && p->is_over)
		p->counted = true; /* tenant_over() ended the command */
	if (!p->counted && p->error.code == ERR_NONE) {
		if (end->was_silent)
			(void)error_set(&p->error, ERR_TIMEOUT, "no answer: %.200s",
				end->words);
		else if (end->signal)
			(void)error_set(&p->error, ERR_UNAVAILABLE,
				"ended by signal %d%s%.200s", end->signal,
				*end->words ? ": " : "", end->words);
		else
			(void)error_set(&p->error, ERR_UNAVAILABLE,
				"ended with status %d%s%.200s", end->status,
				*end->words ? ": " : "", end->words);
	}
	p->ops->ended(p->arg);
}

static int make_pattern(struct tenant *p, struct error *err)
{
	char why[128];
	int r;

	if (!p->workload->command || !p->workload->pattern)
		return 0;
	r = regcomp(&p->pattern, p->workload->pattern, REG_EXTENDED | REG_NOSUB);
	if (r != 0) {
		(void)regerror(r, &p->pattern, why, sizeof(why));
		return error_set(err, ERR_INVALID, "pattern '%.80s': %s", p->workload->pattern,
			why);
	}
	p->has_regex = true;
	return 0;
}

static int start_command(struct tenant *p, uv_loop_t *loop, const struct tenant_options *what,
	struct error *err)
{
	static const struct child_ops ops = { .line = on_tenant_line,
		.ended = on_tenant_ended };
	CLEANUP(strv_fini) struct strv args = STRV_INIT;

	if (args_command(&args, what->load, what->workload, err) < 0)
		return -1;
	return proc_start(&p->child, loop,
		&(struct child_spec){ .argv = (const char *const *)args.v,
			.env = (const char *const *)what->env->v,
			.silence_ns = SILENT_NS },
		&ops, p, err);
}

static int start_load(struct tenant *p, uv_loop_t *loop, const struct tenant_options *what,
	struct error *err)
{
	static const struct load_pod_ops ops = { .ready = on_tenant_load_ready,
		.answer = on_tenant_load_answer,
		.ended = on_tenant_ended };
	CLEANUP(strv_fini) struct strv args = STRV_INIT;

	if (args_run(&args, what->load, what->workload, what->size, what->seed, err) < 0)
		return -1;
	return load_pod_start(&p->load, loop,
		&(struct load_pod_options){ .args = &args,
			.env = what->env,
			.mps = what->mps,
			.setup_ns = SETUP_NS },
		&ops, p, err);
}

int tenant_start(struct tenant **ret, uv_loop_t *loop, const struct tenant_options *what,
	const struct tenant_ops *ops, void *arg, struct error *err)
{
	struct tenant *p = calloc(1, sizeof(*p));

	if (!p)
		return error_nomem(err);
	p->ops = ops;
	p->arg = arg;
	p->workload = what->workload;
	if (make_pattern(p, err) < 0 ||
		(p->workload->command ? start_command(p, loop, what, err)
				      : start_load(p, loop, what, err)) < 0) {
		(void)tenant_free(p);
		return -1;
	}
	*ret = p;
	return 0;
}

void tenant_begin(struct tenant *p, uint64_t begin_ns, uint64_t from_ns, uint64_t to_ns)
{
	if (p->has_ended)
		return;
	if (count_init(&p->count, from_ns, to_ns, ARGS_PARTS, &p->error) < 0)
		return;
	if (p->child)
		proc_expect(p->child, SILENT_NS);
	else
		(void)!load_pod_begin(p->load, begin_ns, from_ns, to_ns,
			to_ns - begin_ns + GRACE_NS, &p->error);
}

void tenant_over(struct tenant *p)
{
	p->is_over = true;
	if (p->child)
		proc_expect(p->child, 0);
}

void tenant_kill(struct tenant *p)
{
	if (p && p->child)
		proc_expect(p->child, 0);
	else if (p && p->load)
		load_pod_expect(p->load, 0);
}

void tenant_give_up(struct tenant *p, double seconds)
{
	if (!p->child || p->is_ready)
		return;
	p->gave_up_s = seconds;
	tenant_kill(p);
}

struct hist *tenant_blocks(struct tenant *p)
{
	return p->counted ? p->count.blocks : NULL;
}

const struct error *tenant_error(const struct tenant *p)
{
	return &p->error;
}

struct tenant *tenant_free(struct tenant *p)
{
	if (!p)
		return NULL;
	p->child = proc_stop(p->child);
	p->load = load_pod_free(p->load);
	if (p->has_regex)
		regfree(&p->pattern);
	count_fini(&p->count);
	free(p);
	return NULL;
}
