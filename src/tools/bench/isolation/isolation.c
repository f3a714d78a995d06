/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/isolation/isolation.h"

#include "tools/bench/isolation/internal.h"
#include "tools/bench/run/sampler.h"
#include "lib/base/array.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- tasks and their order --- */

#define ISOLATION_TASKS_MAX 64

/* A test, a measurement of one pod alone, or a measurement of a kernel's size. */
struct isolation_task {
	const struct isolation_test_kind *kind; /* NULL: measures the kernel size of .sized */
	const struct suite_workload *sized;
	enum bench_mode mode;
};

struct isolation_task_list {
	size_t n;
	struct isolation_task v[ISOLATION_TASKS_MAX];
};

static const struct isolation_test_kind *const kinds[ISOLATION_TESTS] = {
	[ISOLATION_TEST_MEMORY] = &isolation_test_memory,
	[ISOLATION_TEST_NEIGHBOR] = &isolation_test_neighbor,
	[ISOLATION_TEST_FAULT] = &isolation_test_fault,
	[ISOLATION_TEST_RECOVERY] = &isolation_test_recovery,
};

int isolation_tests_parse(unsigned int *ret, const struct strv *words, struct error *err)
{
	unsigned int set = 0;

	for (size_t i = 0; i < words->n; i++) {
		unsigned int k = 0;

		while (k < ISOLATION_TESTS && strcmp(kinds[k]->name, words->v[i]) != 0)
			k++;
		if (k < ISOLATION_TESTS)
			set |= 1U << k;
		else if (strcmp(words->v[i], "none") != 0 || words->n > 1)
			return error_set(err, ERR_INVALID,
				"--checks: expected memory, neighbour, fault, recovery, or none, found "
				"'%.40s'",
				words->v[i]);
	}
	*ret = set;
	return 0;
}

static void add_isolation_task(struct isolation_task_list *l,
	const struct isolation_test_kind *kind, const struct suite_workload *sized,
	enum bench_mode m)
{
	if (l->n < ISOLATION_TASKS_MAX)
		l->v[l->n++] = (struct isolation_task){ kind, sized, m };
}

/* @m BENCH_MODES: in any mode. */
static bool has_isolation_task(const struct isolation_task_list *l,
	const struct isolation_test_kind *kind, enum bench_mode m)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->v[i].kind == kind && (m == BENCH_MODES || l->v[i].mode == m))
			return true;
	return false;
}

static void add_tests(struct isolation_task_list *l, const struct isolation_runner_options *o,
	const struct environment *environment)
{
	struct error err = ERROR_INIT;

	for (unsigned int k = 0; k < ISOLATION_TESTS; k++)
		for (unsigned int m = 0; m < BENCH_MODES; m++)
			if (o->tests & 1U << k && o->modes & 1U << m &&
				kinds[k]->is_for((enum bench_mode)m) &&
				environment_check_mode(environment, (enum bench_mode)m, 2,
					&err) == 0)
				add_isolation_task(l, kinds[k], NULL, (enum bench_mode)m);
}

/* Measures the size of a kernel, unless the suite has measured it. */
static void add_kernel_size_task(struct isolation_task_list *l,
	const struct bench_result *result, const struct suite_workload *w, enum bench_mode m)
{
	if (!bench_size_of(result, w->name))
		add_isolation_task(l, NULL, w, m);
}

/* The requested tests that @environment can run. The measurements that they need and @result lacks come
 * first. */
static void isolation_tasks_make(struct isolation_task_list *ret,
	const struct isolation_runner_options *o, const struct environment *environment,
	const struct bench_result *result)
{
	enum bench_mode alone = o->environment->n_mig ? BENCH_MIG : BENCH_EXCLUSIVE;
	struct isolation_task_list tests = { .n = 0 };
	bool answers, neighbour, rate;

	*ret = (struct isolation_task_list){ .n = 0 };
	add_tests(&tests, o, environment);
	answers =
		has_isolation_task(&tests, &isolation_test_neighbor, BENCH_FAIR_SHARE_LATENCY);
	neighbour = has_isolation_task(&tests, &isolation_test_neighbor, BENCH_MODES);
	rate = neighbour || has_isolation_task(&tests, &isolation_test_recovery, BENCH_MODES);
	if (rate || has_isolation_task(&tests, &isolation_test_fault, BENCH_MODES))
		add_kernel_size_task(ret, result, &isolation_load_burn, alone);
	if (neighbour)
		add_kernel_size_task(ret, result, &isolation_load_small_hog, alone);
	if (answers)
		add_kernel_size_task(ret, result, &isolation_load_short, alone);
	if (rate)
		add_isolation_task(ret, &isolation_alone_burn, NULL, alone);
	if (answers)
		add_isolation_task(ret, &isolation_alone_latency, NULL, alone);
	for (size_t i = 0; i < tests.n; i++)
		add_isolation_task(ret, tests.v[i].kind, tests.v[i].sized, tests.v[i].mode);
}

/* --- the runner --- */

#define ISOLATION_SECONDS_MIN 0.4
#define ISOLATION_SECONDS_MAX 1.5

struct isolation_runner {
	uv_loop_t *loop;
	struct isolation_runner_options o;
	const struct isolation_runner_ops *ops;
	void *arg;
	struct bench_result *result;
	struct strv *texts;
	struct environment *environment;
	struct isolation_task_list tasks;
	size_t at, trial;
	struct case_alone alone;
	struct isolation_case now;
	struct trial_plan plan;
	struct trial *running;
	const struct trial_facts *facts; /* of .running after its end; else NULL */
	struct bench_sampler *sampler;
	bool sampled, sampling; /* .running was sampled; the sampler still owes its answer */
	size_t pods;            /* pods on the GPU when .running began */
	double busy;            /* GPU utilization during .running; NaN */
	struct doubt_gaps gaps;
	struct error dead[BENCH_MODES]; /* why the environment of that mode is unavailable */
	bool stopping, finished;
	struct error error;
};

static void next_trial(struct isolation_runner *r);

/* --- the end --- */

static void on_isolation_cleanup_done(void *arg, const struct error *err)
{
	struct isolation_runner *r = arg;

	(void)err; /* environment_free() kills what has not ended */
	r->ops->ended(r->arg, &r->error);
}

/* Prepares an environment without pods, so that an MPS daemon ends in order. */
static void finish_isolation_run(struct isolation_runner *r)
{
	char text[sizeof("Isolation tests: ") + DOUBT_GAPS_MAX], gaps[DOUBT_GAPS_MAX];
	struct error err = ERROR_INIT;

	if (r->finished)
		return;
	r->finished = true;
	doubt_gaps_text(gaps, &r->gaps);
	(void)snprintf(text, sizeof(text), "Isolation tests: %s", gaps);
	if (*gaps)
		bench_add_note(r->result, bench_store_text(r->texts, text));
	r->running = trial_free(r->running);
	if (environment_prepare(r->environment, BENCH_EXCLUSIVE, NULL, 0,
		    on_isolation_cleanup_done, r, &err) < 0)
		on_isolation_cleanup_done(r, &err);
}

static void fail_isolation_run(struct isolation_runner *r, const struct error *err)
{
	error_copy(&r->error, err);
	finish_isolation_run(r);
}

/* --- results --- */

static int add_check(struct isolation_runner *r, const struct verdict *v, struct error *err)
{
	struct bench_result *b = r->result;

	if (b->n_checks == BENCH_CHECKS_MAX)
		return error_set(err, ERR_LIMIT, "expected at most %d checks",
			BENCH_CHECKS_MAX);
	if (!ARRAY_EXTEND(&b->checks, b->n_checks, 1, BENCH_CHECKS_MAX))
		return error_nomem(err);
	b->checks[b->n_checks++] = (struct bench_isolation){ .name = r->now.kind->name,
		.mode_name = bench_mode_names[r->now.mode],
		.what = bench_store_text(r->texts, v->text),
		.passed = v->known && v->passed,
		.known = v->known,
		.value = v->value,
		.unit = v->unit };
	return 0;
}

static int add_kernel_size(struct isolation_runner *r, const struct suite_workload *w,
	const json_t *answer, struct error *err)
{
	struct bench_result *b = r->result;
	json_int_t rounds = json_integer_value(json_object_get(answer, "rounds"));
	json_int_t sms = json_integer_value(json_object_get(answer, "multiprocessors"));

	if (rounds <= 0 || sms <= 0 || sms >= UINT16_MAX)
		return error_set(err, ERR_UNAVAILABLE,
			"how much work a kernel of '%s' is: gpuslice-load does not say",
			w->name);
	if (!ARRAY_EXTEND(&b->sizes, b->n_sizes, 1, ARRAY_NO_LIMIT))
		return error_nomem(err);
	b->sizes[b->n_sizes++] =
		(struct bench_size){ w->name, (uint64_t)rounds, (uint32_t)sms };
	b->head.multiprocessors = (double)sms;
	return 0;
}

/* --- one task --- */

static struct args_size find_kernel_size(const struct isolation_runner *r,
	const struct suite_workload *w)
{
	const struct bench_size *s = bench_size_of(r->result, w->name);
	uint32_t sms = r->result->n_sizes ? r->result->sizes[0].multiprocessors : 1;

	return s ? (struct args_size){ s->rounds, s->multiprocessors }
		 : (struct args_size){ 1, sms };
}

static void next_task(struct isolation_runner *r)
{
	r->at++;
	r->trial = 0;
	next_trial(r);
}

static void on_isolation_reset_done(void *arg, const struct error *err)
{
	struct isolation_runner *r = arg;

	if (err)
		fail_isolation_run(r, err);
	else
		next_task(r);
}

/* An MPS server that a test may have damaged does not serve the next test. */
static void reset_isolation_environment(struct isolation_runner *r)
{
	struct error err = ERROR_INIT;

	if (environment_prepare(r->environment, BENCH_EXCLUSIVE, NULL, 0,
		    on_isolation_reset_done, r, &err) < 0)
		fail_isolation_run(r, &err);
}

/*
 * Returns the doubt that applies to the current test. Other processes disturb every test, as they also take
 * memory. Other disturbances count only for tests of times and rates.
 */
static const char *find_case_doubt(const struct isolation_runner *r)
{
	const struct isolation_case *c = &r->now;

	if (!c->kind->timed || !c->kind->timed(c))
		return c->other_processes;
	return *c->doubt ? c->doubt : r->alone.doubt;
}

static void add_doubt(struct isolation_runner *r, const struct trial_facts *f)
{
	char *text = r->now.kind->name ? r->now.doubt : r->alone.doubt;
	struct bench_sampler_processes seen = bench_sampler_processes(r->sampler);
	struct doubt_facts facts = doubt_unknown(), only_others = facts;

	if (!r->sampled)
		return; /* the trial never began; it reports the reason */
	bench_sampler_doubt(r->sampler, &facts);
	facts.waited = f->waited;
	facts.busy = r->busy;
	facts.others = doubt_others(seen.all, seen.earlier, r->pods, r->now.mode);
	doubt_gaps_add(&r->gaps, r->now.mode, &facts);
	only_others.others = facts.others;
	if (!*text)
		doubt_text(text, &facts);
	if (!*r->now.other_processes)
		doubt_text(r->now.other_processes, &only_others);
}

static void end_case(struct isolation_runner *r)
{
	struct isolation_case *c = &r->now;
	bool mps = bench_mode_mps(c->mode);
	struct verdict v = { .known = false };
	struct error err = ERROR_INIT;

	if (c->kind->name) {
		if (*c->unknown)
			verdict_set_unknown(&v, "%s", c->unknown);
		else
			c->kind->set_verdict(c, &v);
		if (v.known && *find_case_doubt(r))
			verdict_add_doubt(&v, find_case_doubt(r));
		if (add_check(r, &v, &err) < 0) {
			fail_isolation_run(r, &err);
			return;
		}
	}
	if (mps && (c->kind->breaks || !v.known))
		reset_isolation_environment(r);
	else
		next_task(r);
}

/* A pod that could not begin has an error. The trial has then ended the other pods. */
static bool all_began(struct isolation_case *c, const struct trial_plan *p,
	const struct trial_facts *f)
{
	for (size_t i = 0; i < p->n; i++)
		if (!p->pods[i].late && !p->pods[i].calibrates && !f->pods[i].ready &&
			f->pods[i].error.code != ERR_NONE) {
			(void)snprintf(c->unknown, sizeof(c->unknown),
				"a pod could not begin: %.200s", f->pods[i].error.msg);
			return false;
		}
	return true;
}

static void save_kernel_size(struct isolation_runner *r, const struct trial_facts *f)
{
	struct error err = ERROR_INIT;

	if (f->environment.code != ERR_NONE)
		error_copy(&err, &f->environment);
	else if (f->pods[0].error.code != ERR_NONE)
		error_copy(&err, &f->pods[0].error);
	else if (add_kernel_size(r, r->tasks.v[r->at].sized, f->pods[0].answer, &err) == 0) {
		r->running = trial_free(r->running);
		next_task(r);
		return;
	}
	fail_isolation_run(r, &err);
}

/* Runs after the trial has ended and the sampler has answered. */
static void process_trial_end(struct isolation_runner *r)
{
	struct isolation_case *c = &r->now;
	const struct trial_facts *f = r->facts;

	if (!f || r->sampling)
		return;
	if (r->stopping) {
		finish_isolation_run(r);
		return;
	}
	if (!r->tasks.v[r->at].kind) {
		save_kernel_size(r, f);
		return;
	}
	add_doubt(r, f);
	if (f->environment.code != ERR_NONE) {
		error_copy(&r->dead[c->mode], &f->environment);
		(void)snprintf(c->unknown, sizeof(c->unknown), "%.200s", f->environment.msg);
	} else if (all_began(c, &r->plan, f)) {
		c->kind->collect(c, r->trial, &r->plan, f);
	}
	r->running = trial_free(r->running);
	if (*c->unknown || ++r->trial == c->kind->trials(c->mode))
		end_case(r);
	else
		next_trial(r);
}

static void on_sampled(void *arg, const struct bench_gpu *gpu)
{
	struct isolation_runner *r = arg;

	r->busy = gpu->busy;
	r->sampling = false;
	process_trial_end(r);
}

static void on_began(void *arg, size_t pods)
{
	struct isolation_runner *r = arg;

	r->pods = pods;
	bench_sampler_begin(r->sampler);
}

static void on_over(void *arg)
{
	struct isolation_runner *r = arg;

	r->sampled = r->sampling = true;
	bench_sampler_end(r->sampler, on_sampled, r);
}

static void on_trial(void *arg, const struct trial_facts *f)
{
	struct isolation_runner *r = arg;

	r->facts = f;
	process_trial_end(r);
}

static void begin_case(struct isolation_runner *r)
{
	const struct isolation_task *t = &r->tasks.v[r->at];

	r->now = (struct isolation_case){ .kind = t->kind,
		.mode = t->mode,
		.environment = r->o.environment,
		.ms = (uint32_t)lround(r->o.seconds * 10) * 100, /* blocks divide 100 ms */
		.alone = &r->alone,
		.figures = { NAN, NAN } };
	r->ops->progress(r->arg, t->kind ? t->kind->title : "how much work a kernel is",
		bench_mode_names[t->mode]);
}

static void plan_trial(struct isolation_runner *r)
{
	const struct isolation_task *t = &r->tasks.v[r->at];

	if (t->kind)
		t->kind->plan(&r->now, r->trial, &r->plan);
	else
		r->plan = (struct trial_plan){ .mode = t->mode,
			.n_places = 1,
			.places = { { .weight = 1 } },
			.n = 1,
			.pods = { { .workload = t->sized, .calibrates = true } } };
}

static void next_trial(struct isolation_runner *r)
{
	static const struct trial_ops ops = { .began = on_began,
		.over = on_over,
		.done = on_trial };
	struct args_size sizes[TRIAL_PODS_MAX];
	struct error err = ERROR_INIT;

	if (r->at == r->tasks.n || r->stopping) {
		finish_isolation_run(r);
		return;
	}
	if (r->trial == 0)
		begin_case(r);
	plan_trial(r);
	r->facts = NULL;
	r->sampled = r->sampling = false;
	for (size_t i = 0; i < r->plan.n; i++)
		sizes[i] = find_kernel_size(r, r->plan.pods[i].workload);
	if (r->dead[r->now.mode].code != ERR_NONE)
		error_copy(&err, &r->dead[r->now.mode]);
	else if (trial_start(&r->running, r->loop, r->environment,
			 r->o.environment->paths->load, &r->plan, sizes, &ops, r, &err) == 0)
		return;
	if (!r->now.kind) {
		fail_isolation_run(r, &err);
		return;
	}
	(void)snprintf(r->now.unknown, sizeof(r->now.unknown), "%.200s", err.msg);
	end_case(r);
}

/* --- life --- */

static void on_isolation_first_sample(void *arg)
{
	next_trial(arg);
}

static void on_isolation_environment_ready(void *arg, const struct error *err)
{
	struct isolation_runner *r = arg;

	if (err)
		fail_isolation_run(r, err);
	else
		bench_sampler_request_first(r->sampler, on_isolation_first_sample, r);
}

int isolation_runner_start(struct isolation_runner **ret, uv_loop_t *loop,
	const struct isolation_runner_options *options, struct bench_result *result,
	struct strv *texts, const struct isolation_runner_ops *ops, void *arg,
	struct error *err)
{
	const struct environment_pod first = { .weight = 1 };
	struct isolation_runner *r = calloc(1, sizeof(*r));

	if (!r)
		return error_nomem(err);
	r->loop = loop;
	r->o = *options;
	r->o.seconds =
		fmin(fmax(options->seconds, ISOLATION_SECONDS_MIN), ISOLATION_SECONDS_MAX);
	r->ops = ops;
	r->arg = arg;
	r->result = result;
	r->texts = texts;
	r->alone = (struct case_alone){ NAN, NAN, "" };
	if (environment_new(&r->environment, loop, options->environment, err) < 0 ||
		bench_sampler_new(&r->sampler, loop, options->monitor,
			options->environment->uuid, err) < 0 ||
		environment_prepare(r->environment,
			options->environment->n_mig ? BENCH_MIG : BENCH_EXCLUSIVE, &first, 1,
			on_isolation_environment_ready, r, err) < 0) {
		(void)isolation_runner_free(r);
		return -1;
	}
	isolation_tasks_make(&r->tasks, options, r->environment, result);
	*ret = r;
	return 0;
}

void isolation_runner_stop(struct isolation_runner *r)
{
	r->stopping = true;
	if (r->running)
		trial_stop(r->running);
}

struct isolation_runner *isolation_runner_free(struct isolation_runner *r)
{
	if (!r)
		return NULL;
	r->running = trial_free(r->running);
	r->sampler = bench_sampler_free(r->sampler);
	r->environment = environment_free(r->environment);
	free(r);
	return NULL;
}
