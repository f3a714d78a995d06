/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/check/check.h"

#include "tools/bench/check/tasks.h"
#include "tools/bench/run/sampler.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define SECONDS_LEAST 0.4
#define SECONDS_MOST  1.5

struct check_runner {
	uv_loop_t *loop;
	struct check_runner_options o;
	const struct check_runner_ops *ops;
	void *arg;
	struct bench_result *result;
	struct strv *texts;
	struct place *place;
	struct task_list tasks;
	size_t at, trial;
	struct case_alone alone;
	struct check_case now;
	struct trial_plan plan;
	struct trial *running;
	const struct trial_facts *facts; /* of .running, which has ended; NULL: it has not */
	struct sampler *sampler;
	bool looked, sampling; /* at the GPU during .running; the answer is awaited */
	size_t pods;           /* that had the GPU when it began */
	double busy;           /* of the GPU meanwhile; NaN */
	struct doubt_gaps gaps;
	struct error dead[BENCH_MODES]; /* why there is no place of that mode */
	bool stopping, finished;
	struct error error;
};

static void next_trial(struct check_runner *r);

/* ---- the end ------------------------------------------------------------------------------------------------ */

static void on_all_ended(void *arg, const struct error *err)
{
	struct check_runner *r = arg;

	(void)err; /* what does not end is killed with the place */
	r->ops->ended(r->arg, &r->error);
}

/* An empty place is made, as what was there has to end in order. */
static void finish(struct check_runner *r)
{
	char text[sizeof("Isolation tests: ") + DOUBT_GAPS_MAX], gaps[DOUBT_GAPS_MAX];
	struct error err = ERROR_INIT;

	if (r->finished)
		return;
	r->finished = true;
	doubt_gaps_text(gaps, &r->gaps);
	(void)snprintf(text, sizeof(text), "Isolation tests: %s", gaps);
	if (*gaps)
		bench_note(r->result, bench_keep(r->texts, text));
	r->running = trial_free(r->running);
	if (place_prepare(r->place, BENCH_EXCLUSIVE, NULL, 0, on_all_ended, r, &err) < 0)
		on_all_ended(r, &err);
}

static void fail(struct check_runner *r, const struct error *err)
{
	error_copy(&r->error, err);
	finish(r);
}

/* ---- what comes out ----------------------------------------------------------------------------------------- */

static int add_check(struct check_runner *r, const struct verdict *v, struct error *err)
{
	struct bench_result *b = r->result;
	struct bench_check *checks;

	if (b->n_checks == BENCH_CHECKS_MAX)
		return error_set(err, ERR_LIMIT, "expected at most %d checks",
			BENCH_CHECKS_MAX);
	checks = realloc(b->checks, (b->n_checks + 1) * sizeof(*checks));
	if (!checks)
		return error_nomem(err);
	b->checks = checks;
	checks[b->n_checks++] = (struct bench_check){ .name = r->now.kind->name,
		.mode_name = bench_mode_names[r->now.mode],
		.what = bench_keep(r->texts, v->what),
		.passed = v->known && v->passed,
		.known = v->known,
		.value = v->value,
		.unit = v->unit };
	return 0;
}

static int add_size(struct check_runner *r, const struct suite_workload *w,
	const json_t *answer, struct error *err)
{
	struct bench_result *b = r->result;
	json_int_t rounds = json_integer_value(json_object_get(answer, "rounds"));
	json_int_t sms = json_integer_value(json_object_get(answer, "multiprocessors"));
	struct bench_size *sizes;

	if (rounds <= 0 || sms <= 0 || sms >= UINT16_MAX)
		return error_set(err, ERR_UNAVAILABLE,
			"how much work a kernel of '%s' is: gpuslice-load does not say",
			w->name);
	sizes = realloc(b->sizes, (b->n_sizes + 1) * sizeof(*sizes));
	if (!sizes)
		return error_nomem(err);
	b->sizes = sizes;
	sizes[b->n_sizes++] = (struct bench_size){ w->name, (uint64_t)rounds, (uint32_t)sms };
	b->head.multiprocessors = (double)sms;
	return 0;
}

/* ---- one task ----------------------------------------------------------------------------------------------- */

static struct args_size size_of(const struct check_runner *r, const struct suite_workload *w)
{
	const struct bench_size *s = bench_size_of(r->result, w->name);
	uint32_t sms = r->result->n_sizes ? r->result->sizes[0].multiprocessors : 1;

	return s ? (struct args_size){ s->rounds, s->multiprocessors }
		 : (struct args_size){ 1, sms };
}

static void next_task(struct check_runner *r)
{
	r->at++;
	r->trial = 0;
	next_trial(r);
}

static void on_renewed(void *arg, const struct error *err)
{
	struct check_runner *r = arg;

	if (err)
		fail(r, err);
	else
		next_task(r);
}

/* A server of MPS that was hit by something is not used for the next test. */
static void renew(struct check_runner *r)
{
	struct error err = ERROR_INIT;

	if (place_prepare(r->place, BENCH_EXCLUSIVE, NULL, 0, on_renewed, r, &err) < 0)
		fail(r, &err);
}

/* Other processes disturb every test, as they take memory too; the rest only those by time. */
static const char *doubt_of(const struct check_runner *r)
{
	const struct check_case *c = &r->now;

	if (!c->kind->timed || !c->kind->timed(c))
		return c->others;
	return *c->doubt ? c->doubt : r->alone.doubt;
}

static void add_doubt(struct check_runner *r, const struct trial_facts *f)
{
	char *text = r->now.kind->name ? r->now.doubt : r->alone.doubt;
	struct sampler_processes seen = sampler_processes(r->sampler);
	struct doubt_facts facts = doubt_unknown(), only_others = facts;

	if (!r->looked)
		return; /* it never began, and says why */
	sampler_doubt(r->sampler, &facts);
	facts.waited = f->waited;
	facts.busy = r->busy;
	facts.others = doubt_others(seen.all, seen.earlier, r->pods, r->now.mode);
	doubt_gaps_add(&r->gaps, r->now.mode, &facts);
	only_others.others = facts.others;
	if (!*text)
		doubt_text(text, &facts);
	if (!*r->now.others)
		doubt_text(r->now.others, &only_others);
}

static void end_case(struct check_runner *r)
{
	struct check_case *c = &r->now;
	bool mps = bench_mode_mps(c->mode);
	struct verdict v = { .known = false };
	struct error err = ERROR_INIT;

	if (c->kind->name) {
		if (*c->unknown)
			judge_unknown(&v, "%s", c->unknown);
		else
			c->kind->judge(c, &v);
		if (v.known && *doubt_of(r))
			judge_doubt(&v, doubt_of(r));
		if (add_check(r, &v, &err) < 0) {
			fail(r, &err);
			return;
		}
	}
	if (mps && (c->kind->breaks || !v.known))
		renew(r);
	else
		next_task(r);
}

/* One that cannot begin says why; the others were ended then. */
static bool all_began(struct check_case *c, const struct trial_plan *p,
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

static void take_size(struct check_runner *r, const struct trial_facts *f)
{
	struct error err = ERROR_INIT;

	if (f->place.code != ERR_NONE)
		error_copy(&err, &f->place);
	else if (f->pods[0].error.code != ERR_NONE)
		error_copy(&err, &f->pods[0].error);
	else if (add_size(r, r->tasks.v[r->at].sized, f->pods[0].answer, &err) == 0) {
		r->running = trial_free(r->running);
		next_task(r);
		return;
	}
	fail(r, &err);
}

/* Once the trial has ended, and how the GPU was meanwhile is known. */
static void look_at_end(struct check_runner *r)
{
	struct check_case *c = &r->now;
	const struct trial_facts *f = r->facts;

	if (!f || r->sampling)
		return;
	if (r->stopping) {
		finish(r);
		return;
	}
	if (!r->tasks.v[r->at].kind) {
		take_size(r, f);
		return;
	}
	add_doubt(r, f);
	if (f->place.code != ERR_NONE) {
		error_copy(&r->dead[c->mode], &f->place);
		(void)snprintf(c->unknown, sizeof(c->unknown), "%.200s", f->place.msg);
	} else if (all_began(c, &r->plan, f)) {
		c->kind->take(c, r->trial, &r->plan, f);
	}
	r->running = trial_free(r->running);
	if (*c->unknown || ++r->trial == c->kind->trials(c->mode))
		end_case(r);
	else
		next_trial(r);
}

static void on_sampled(void *arg, const struct bench_gpu *gpu)
{
	struct check_runner *r = arg;

	r->busy = gpu->busy;
	r->sampling = false;
	look_at_end(r);
}

static void on_began(void *arg, size_t pods)
{
	struct check_runner *r = arg;

	r->pods = pods;
	sampler_begin(r->sampler);
}

static void on_over(void *arg)
{
	struct check_runner *r = arg;

	r->looked = r->sampling = true;
	sampler_end(r->sampler, on_sampled, r);
}

static void on_trial(void *arg, const struct trial_facts *f)
{
	struct check_runner *r = arg;

	r->facts = f;
	look_at_end(r);
}

static void begin_case(struct check_runner *r)
{
	const struct task *t = &r->tasks.v[r->at];

	r->now = (struct check_case){ .kind = t->kind,
		.mode = t->mode,
		.place = r->o.place,
		.ms = (uint32_t)lround(r->o.seconds * 10) * 100, /* blocks divide it */
		.alone = &r->alone,
		.figures = { NAN, NAN } };
	r->ops->progress(r->arg, t->kind ? t->kind->title : "how much work a kernel is",
		bench_mode_names[t->mode]);
}

static void plan_trial(struct check_runner *r)
{
	const struct task *t = &r->tasks.v[r->at];

	if (t->kind)
		t->kind->plan(&r->now, r->trial, &r->plan);
	else
		r->plan = (struct trial_plan){ .mode = t->mode,
			.n_places = 1,
			.places = { { .weight = 1 } },
			.n = 1,
			.pods = { { .workload = t->sized, .calibrates = true } } };
}

static void next_trial(struct check_runner *r)
{
	static const struct trial_ops ops = { .began = on_began,
		.over = on_over,
		.done = on_trial };
	struct args_size sizes[TRIAL_PODS_MAX];
	struct error err = ERROR_INIT;

	if (r->at == r->tasks.n || r->stopping) {
		finish(r);
		return;
	}
	if (r->trial == 0)
		begin_case(r);
	plan_trial(r);
	r->facts = NULL;
	r->looked = r->sampling = false;
	for (size_t i = 0; i < r->plan.n; i++)
		sizes[i] = size_of(r, r->plan.pods[i].workload);
	if (r->dead[r->now.mode].code != ERR_NONE)
		error_copy(&err, &r->dead[r->now.mode]);
	else if (trial_start(&r->running, r->loop, r->place, r->o.place->paths->load, &r->plan,
			 sizes, &ops, r, &err) == 0)
		return;
	if (!r->now.kind) {
		fail(r, &err);
		return;
	}
	(void)snprintf(r->now.unknown, sizeof(r->now.unknown), "%.200s", err.msg);
	end_case(r);
}

/* ---- life --------------------------------------------------------------------------------------------------- */

static void on_first_look(void *arg)
{
	next_trial(arg);
}

static void on_first_place(void *arg, const struct error *err)
{
	struct check_runner *r = arg;

	if (err)
		fail(r, err);
	else
		sampler_look(r->sampler, on_first_look, r);
}

int check_runner_start(struct check_runner **ret, uv_loop_t *loop,
	const struct check_runner_options *options, struct bench_result *result,
	struct strv *texts, const struct check_runner_ops *ops, void *arg, struct error *err)
{
	const struct place_pod first = { .weight = 1 };
	struct check_runner *r = calloc(1, sizeof(*r));

	if (!r)
		return error_nomem(err);
	r->loop = loop;
	r->o = *options;
	r->o.seconds = fmin(fmax(options->seconds, SECONDS_LEAST), SECONDS_MOST);
	r->ops = ops;
	r->arg = arg;
	r->result = result;
	r->texts = texts;
	r->alone = (struct case_alone){ NAN, NAN, "" };
	if (place_new(&r->place, loop, options->place, err) < 0 ||
		sampler_new(&r->sampler, loop, options->monitor, options->place->uuid, err) <
			0 ||
		place_prepare(r->place, options->place->n_mig ? BENCH_MIG : BENCH_EXCLUSIVE,
			&first, 1, on_first_place, r, err) < 0) {
		(void)check_runner_free(r);
		return -1;
	}
	tasks_make(&r->tasks, options, r->place, result);
	*ret = r;
	return 0;
}

void check_runner_stop(struct check_runner *r)
{
	r->stopping = true;
	if (r->running)
		trial_stop(r->running);
}

struct check_runner *check_runner_free(struct check_runner *r)
{
	if (!r)
		return NULL;
	r->running = trial_free(r->running);
	r->sampler = sampler_free(r->sampler);
	r->place = place_free(r->place);
	free(r);
	return NULL;
}
