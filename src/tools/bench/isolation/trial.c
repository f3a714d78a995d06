/* SPDX-License-Identifier: Apache-2.0 */
/* Runs one trial: starts its pods together, takes their answers, and ends them (internal.h). */
#include "tools/bench/isolation/internal.h"

#include "lib/base/strv.h"
#include "lib/base/time.h"
#include "tools/bench/run/load-pod.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Silence limits: after a pod's deadline, and after its answer, when other pods may still have to answer. */
#define GRACE_NS       (10 * NS_PER_SEC)
#define STAY_NS        (2 * GRACE_NS)
#define SETUP_NS       (30 * NS_PER_SEC)
#define REPORT_LEAD_NS (30 * NS_PER_MS) /* before the end, while pods still work */
#define RETRY_MS       100

/* One pod. If a step of the pod fails, .error of its facts has the reason. */
struct trial_slot {
	struct trial *t;
	struct load_pod *pod; /* NULL: not started */
	struct isolation_pod_facts facts;
	bool started;     /* the pod has its begin time */
	bool is_unneeded; /* the trial no longer needs the pod, which ends soon, without an error */
	bool ended;
};

struct trial {
	uv_loop_t *loop;
	struct environment *environment;
	const char *load;
	struct trial_plan plan;
	struct args_size sizes[TRIAL_PODS_MAX];
	const struct trial_ops *ops;
	void *arg;
	struct trial_facts facts;
	struct host_watch host;
	struct trial_slot slots[TRIAL_PODS_MAX];
	uv_timer_t timer; /* ends the window; retries the late pod; reports the end */
	uint64_t late_from_ns;
	bool began, in_window, stopping, report_timer_set;
};

static void check_trial_progress(struct trial *t);

static bool has_late_pod(const struct trial *t)
{
	return t->plan.n && t->plan.pods[t->plan.n - 1].late;
}

/* --- the end --- */

static void end_window(struct trial *t)
{
	if (!t->in_window)
		return;
	t->in_window = false;
	t->ops->over(t->arg);
}

static void on_trial_window_timer(uv_timer_t *timer)
{
	end_window(timer->data);
}

static void on_trial_report_timer(uv_timer_t *timer)
{
	struct trial *t = timer->data;

	end_window(t);
	for (size_t i = 0; i < t->plan.n; i++)
		t->facts.pods[i] = t->slots[i].facts;
	t->ops->done(t->arg, &t->facts);
}

/* Reports from the loop, as the caller can be a pod's callback. */
static void schedule_trial_report(struct trial *t)
{
	if (t->report_timer_set)
		return;
	t->report_timer_set = true;
	(void)uv_timer_start(&t->timer, on_trial_report_timer, 0, 0);
}

/* --- one pod --- */

static int add_trial_argument(struct strv *args, const char *name, uint64_t v, const char *unit,
	struct error *err)
{
	char text[32];

	(void)snprintf(text, sizeof(text), "%llu%s", (unsigned long long)v, unit);
	return strv_add(args, name, err) < 0 ? -1 : strv_add(args, text, err);
}

static int make_args(struct strv *args, const struct trial *t, size_t i, struct error *err)
{
	const struct trial_pod *p = &t->plan.pods[i];

	if (p->calibrates)
		return args_calibrate(args, t->load, p->workload, err);
	if (args_run(args, t->load, p->workload, &t->sizes[i], /* seed= */ 1 + i, err) < 0)
		return -1;
	for (size_t k = 0; k < TRIAL_WORDS_MAX && p->words[k]; k++)
		if (strv_add(args, p->words[k], err) < 0)
			return -1;
	if (p->block_ms && (strv_add(args, "--counts", err) < 0 ||
				   add_trial_argument(args, "--parts",
					   (p->to_ms - p->from_ms) / p->block_ms, "", err) < 0))
		return -1;
	if (p->hold && add_trial_argument(args, "--hold", p->hold, "", err) < 0)
		return -1;
	return p->die_ms ? add_trial_argument(args, "--die", p->die_ms, "ms", err) : 0;
}

static void start_trial_pod_window(struct trial *t, size_t i, uint64_t begin_ns)
{
	const struct trial_pod *p = &t->plan.pods[i];
	struct trial_slot *s = &t->slots[i];
	uint64_t to_ns = begin_ns + p->to_ms * NS_PER_MS, now = time_mono_ns();

	s->started = true;
	/* If the send fails, the pod stays silent, and the silence limit reports that. */
	(void)!load_pod_begin(s->pod, begin_ns + p->begin_ms * NS_PER_MS,
		begin_ns + p->from_ms * NS_PER_MS, to_ns,
		(to_ns > now ? to_ns - now : 0) + GRACE_NS, &s->facts.error);
}

static void start_trial_window(struct trial *t)
{
	size_t pods = t->plan.n - has_late_pod(t);

	t->began = true;
	t->facts.begin_ns = time_mono_ns() + LOAD_POD_LEAD_NS;
	host_watch_begin(&t->host);
	t->in_window = true;
	t->ops->began(t->arg, pods);
	/* A shorter window ends with the pods. */
	if (t->plan.pods[0].to_ms * NS_PER_MS > REPORT_LEAD_NS)
		(void)uv_timer_start(&t->timer, on_trial_window_timer,
			(LOAD_POD_LEAD_NS + t->plan.pods[0].to_ms * NS_PER_MS -
				REPORT_LEAD_NS) /
				NS_PER_MS,
			0);
	for (size_t i = 0; i < t->plan.n; i++)
		if (!t->plan.pods[i].late && !t->plan.pods[i].after)
			start_trial_pod_window(t, i, t->facts.begin_ns);
}

static double get_load_number(const json_t *o, const char *key)
{
	return json_number_value(json_object_get(o, key));
}

static void on_trial_pod_ready(void *arg, const json_t *report, const struct error *why)
{
	struct trial_slot *s = arg;
	struct trial *t = s->t;

	if (!report) {
		error_copy(&s->facts.error, why);
		return;
	}
	s->facts.ready = true;
	s->facts.free = get_load_number(report, "free");
	s->facts.total = get_load_number(report, "total");
	s->facts.reserved = get_load_number(report, "held");
	if (t->plan.pods[s - t->slots].late) {
		start_trial_pod_window(t, (size_t)(s - t->slots),
			time_mono_ns() + LOAD_POD_LEAD_NS);
		return;
	}
	for (size_t i = 0; i < t->plan.n; i++)
		if (!t->plan.pods[i].late && !t->slots[i].facts.ready)
			return;
	if (!t->stopping)
		start_trial_window(t);
}

static void continue_after_answer(struct trial_slot *s)
{
	struct trial *t = s->t;
	size_t next = (size_t)(s - t->slots) + 1;

	/* The pod's threads still exist. */
	t->facts.waited = fmax(t->facts.waited, host_watch_waited(&t->host));
	if (next < t->plan.n && t->plan.pods[next].after && !t->stopping &&
		!t->slots[next].ended)
		start_trial_pod_window(t, next, time_mono_ns() + LOAD_POD_LEAD_NS);
	check_trial_progress(t);
}

static int parse_load_answer(struct trial_slot *s, json_t *o, struct error *err)
{
	const char *error = json_string_value(json_object_get(o, "error"));
	json_int_t dies = json_integer_value(json_object_get(o, "dies_ns"));

	if (error)
		return error_set(err, ERR_UNAVAILABLE, "%s", error);
	if (!json_is_object(o))
		return error_set(err, ERR_INVALID,
			"expected an answer of gpuslice-load, found something else");
	if (dies > 0) {
		s->facts.dies_ns = (uint64_t)dies;
		return 0;
	}
	if (s->facts.answer)
		return 0;
	s->facts.answer = json_incref(o);
	load_pod_expect(s->pod, STAY_NS);
	continue_after_answer(s);
	return 0;
}

static int on_trial_pod_answer(void *arg, const char *line, size_t len, struct error *err)
{
	struct trial_slot *s = arg;
	json_auto_t *o = json_loadb(line, len, 0, NULL);

	if (parse_load_answer(s, o, &s->facts.error) == 0)
		return 0;
	error_copy(err, &s->facts.error);
	return -1;
}

static void set_trial_pod_error(struct error *err, const struct child_end *end)
{
	if (end->status == -1)
		(void)error_set(err, ERR_TIMEOUT, "it could not be ended");
	else if (end->was_silent)
		(void)error_set(err, ERR_TIMEOUT, "no answer");
	else if (end->signal)
		(void)error_set(err, ERR_UNAVAILABLE, "ended by signal %d: %.120s", end->signal,
			end->words);
	else
		(void)error_set(err, ERR_UNAVAILABLE, "ended with status %d: %.120s",
			end->status, end->words);
}

static void on_trial_pod_ended(void *arg, const struct child_end *end)
{
	struct trial_slot *s = arg;
	bool done = s->facts.answer || s->facts.dies_ns || s->is_unneeded;

	s->facts.hung = end->status == -1 || (end->was_silent && !done);
	if (s->facts.error.code == ERR_NONE && (!done || end->status == -1))
		set_trial_pod_error(&s->facts.error, end);
	s->ended = true;
	check_trial_progress(s->t);
}

static void release_pod(struct trial_slot *s)
{
	s->is_unneeded = true;
	load_pod_expect(s->pod, 0);
}

/* Kills the pod if it runs. Its facts are gone. */
static void reset_slot(struct trial_slot *s)
{
	(void)load_pod_free(s->pod);
	json_decref(s->facts.answer);
	*s = (struct trial_slot){ .t = s->t };
}

static int start_pod(struct trial *t, size_t i, struct error *err)
{
	static const struct load_pod_ops ops = { .ready = on_trial_pod_ready,
		.answer = on_trial_pod_answer,
		.ended = on_trial_pod_ended };
	CLEANUP(strv_fini) struct strv args = STRV_INIT;
	const struct trial_pod *p = &t->plan.pods[i];
	const struct load_pod_options what = { .args = &args,
		.env = environment_get_env(t->environment, p->place),
		.mps = bench_mode_mps(t->plan.mode),
		.calibrates = p->calibrates,
		.setup_ns = p->late ? GRACE_NS : SETUP_NS };

	if (make_args(&args, t, i, err) < 0)
		return -1;
	t->slots[i].t = t;
	return load_pod_start(&t->slots[i].pod, t->loop, &what, &ops, &t->slots[i], err);
}

/* --- progress --- */

static void start_late_pod(struct trial *t)
{
	size_t i = t->plan.n - 1;
	struct error err = ERROR_INIT;

	reset_slot(&t->slots[i]);
	if (start_pod(t, i, &err) < 0) {
		error_copy(&t->facts.environment, &err);
		schedule_trial_report(t);
	}
}

static void on_trial_retry_timer(uv_timer_t *timer)
{
	struct trial *t = timer->data;

	if (t->stopping)
		schedule_trial_report(t);
	else
		start_late_pod(t);
}

/* Called after all other pods have ended. */
static void check_late_pod(struct trial *t)
{
	struct trial_slot *s = &t->slots[t->plan.n - 1];

	if (!t->late_from_ns) {
		end_window(t);
		t->late_from_ns = time_mono_ns();
		start_late_pod(t);
		return;
	}
	if (!s->ended)
		return;
	t->facts.late_ns = time_mono_ns() - t->late_from_ns;
	if (s->facts.answer || s->facts.hung || t->facts.late_ns > TRIAL_LATE_MS * NS_PER_MS)
		schedule_trial_report(t);
	else
		(void)uv_timer_start(&t->timer, on_trial_retry_timer, RETRY_MS, 0);
}

/*
 * Ends the pods that the trial no longer needs:
 *
 *	1. All pods, if a pod ended before the trial began.
 *	2. A pod that waits for the answer of its predecessor, if the predecessor ended without one.
 *	3. A pod that stays, once all pods have answered or ended.
 */
static void end_unneeded(struct trial *t, size_t n)
{
	bool all = true;

	for (size_t i = 0; i < n; i++)
		all = all && (t->slots[i].facts.answer || t->slots[i].ended);
	for (size_t i = 0; i < n; i++) {
		struct trial_slot *s = &t->slots[i];
		bool left = t->plan.pods[i].after && !s->started && i && s[-1].ended;

		if (!s->ended && (!t->began || left || (t->plan.pods[i].stays && all)))
			release_pod(s);
	}
}

/* Called after each change of a pod. */
static void check_trial_progress(struct trial *t)
{
	size_t n = t->plan.n - has_late_pod(t), ended = 0;

	if (t->report_timer_set)
		return;
	for (size_t i = 0; i < n; i++)
		ended += t->slots[i].ended;
	if (ended < n) {
		if (t->began || ended)
			end_unneeded(t, n);
		return;
	}
	if (has_late_pod(t) && t->began && !t->stopping)
		check_late_pod(t);
	else if (!has_late_pod(t) || !t->late_from_ns || t->slots[n].ended)
		schedule_trial_report(t);
}

/* --- life --- */

static void on_trial_environment_ready(void *arg, const struct error *err)
{
	struct trial *t = arg;
	struct error own = ERROR_INIT;

	if (err || t->stopping) {
		if (err)
			error_copy(&t->facts.environment, err);
		schedule_trial_report(t);
		return;
	}
	for (size_t i = 0; i < t->plan.n; i++)
		if (!t->plan.pods[i].late && start_pod(t, i, &own) < 0) {
			error_copy(&t->facts.environment, &own);
			schedule_trial_report(t);
			return;
		}
}

int trial_start(struct trial **ret, uv_loop_t *loop, struct environment *environment,
	const char *load, const struct trial_plan *plan, const struct args_size *sizes,
	const struct trial_ops *ops, void *arg, struct error *err)
{
	struct trial *t = calloc(1, sizeof(*t));

	if (!t)
		return error_nomem(err);
	t->loop = loop;
	t->environment = environment;
	t->load = load;
	t->plan = *plan;
	t->facts.waited = NAN;
	for (size_t i = 0; i < plan->n; i++)
		t->sizes[i] = sizes[i];
	t->ops = ops;
	t->arg = arg;
	(void)uv_timer_init(loop, &t->timer);
	t->timer.data = t;
	if (environment_prepare(environment, plan->mode, t->plan.places, plan->n_places,
		    on_trial_environment_ready, t, err) < 0) {
		(void)trial_free(t);
		return -1;
	}
	*ret = t;
	return 0;
}

void trial_stop(struct trial *t)
{
	t->stopping = true;
	for (size_t i = 0; i < t->plan.n; i++)
		if (t->slots[i].pod && !t->slots[i].ended)
			release_pod(&t->slots[i]);
}

static void on_trial_timer_closed(uv_handle_t *h)
{
	free(h->data);
}

struct trial *trial_free(struct trial *t)
{
	if (!t)
		return NULL;
	for (size_t i = 0; i < t->plan.n; i++)
		reset_slot(&t->slots[i]);
	uv_close((uv_handle_t *)&t->timer, on_trial_timer_closed);
	return NULL;
}
