/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/run/run.h"

#include "lib/base/array.h"
#include "lib/base/time.h"
#include "lib/base/units.h"
#include "tools/bench/run/load-io.h"
#include "tools/bench/run/host.h"
#include "tools/bench/run/load-pod.h"
#include "tools/bench/run/tenant.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CALIBRATE_NS (120 * NS_PER_SEC)
#define HOST_SAMPLE_LEAD_NS \
	(30 * NS_PER_MS) /* before the end, while pods that end by themselves still run */

struct run_slot {
	struct bench_runner *r;
	struct tenant *pod;
	uint32_t tenants, workload;
	double weight;
	bool ready, ended;
};

struct bench_runner {
	uv_loop_t *loop;
	struct bench_runner_options o;
	const struct bench_runner_ops *ops;
	void *arg;
	struct bench_result *result;
	struct strv *texts;
	struct environment *environment;
	struct bench_sampler *sampler;
	struct suite_step *steps;
	size_t n, at;
	struct args_size sizes[SUITE_WORKLOADS_MAX];
	uint32_t calibrating; /* index of the workload */
	struct child *calibration;
	unsigned int refused; /* bits: enum bench_mode that are unavailable */
	size_t n_slots, n_ready, n_ended;
	struct run_slot slots[BENCH_PODS_MAX];
	struct environment_pod places[BENCH_PODS_MAX];
	uv_timer_t timer;
	uint64_t from_ns, to_ns;
	struct host_watch host;
	double waited; /* host_watch_waited() of the step; NaN */
	struct bench_gpu gpu;
	const char *doubt;
	bool gpu_known, started, window, over, stopping, finished, closing;
	bool others_noted;
	struct doubt_gaps gaps;
	bool disturbed; /* an MPS client was ended during its work */
	struct error error;
};

static void next_step(struct bench_runner *r);
static void next_calibration(struct bench_runner *r);

static const struct suite_step *step_of(const struct bench_runner *r)
{
	return &r->steps[r->at];
}

/* --- the end --- */

static void on_bench_cleanup_done(void *arg, const struct error *err)
{
	struct bench_runner *r = arg;

	(void)err; /* environment_free() kills what has not ended */
	r->ops->ended(r->arg, &r->error);
}

static void drop_pods(struct bench_runner *r)
{
	for (size_t i = 0; i < r->n_slots; i++)
		r->slots[i].pod = tenant_free(r->slots[i].pod);
	r->n_slots = r->n_ready = r->n_ended = 0;
}

/* Prepares an environment without pods, so that the programs of the last step end in order. */
static void finish_bench_run(struct bench_runner *r)
{
	char gaps[DOUBT_GAPS_MAX];
	struct error err = ERROR_INIT;

	if (r->finished)
		return;
	r->finished = true;
	doubt_gaps_text(gaps, &r->gaps);
	if (*gaps)
		bench_add_note(r->result, bench_store_text(r->texts, gaps));
	(void)uv_timer_stop(&r->timer);
	drop_pods(r);
	if (environment_prepare(r->environment, BENCH_EXCLUSIVE, NULL, 0, on_bench_cleanup_done,
		    r, &err) < 0)
		on_bench_cleanup_done(r, &err);
}

static void fail_bench_run(struct bench_runner *r, const struct error *err)
{
	error_copy(&r->error, err);
	finish_bench_run(r);
}

/* --- one step --- */

static double get_step_memory_limit(const struct bench_runner *r)
{
	if (!bench_mode_slices(step_of(r)->mode) || r->o.observe)
		return NAN;
	return (double)environment_slice_memory(r->o.environment, r->n_slots) / MIB;
}

static int collect_step_result(struct bench_runner *r, struct error *err)
{
	struct collect_pod pods[BENCH_PODS_MAX];
	struct collect_step s = { .suite = r->o.suite,
		.step = step_of(r),
		/* A step that never started gets the requested time, as no repetition of a result has a
		 * length of 0. */
		.seconds = r->started ? (double)(r->to_ns - r->from_ns) / 1e9
				      : r->o.suite->seconds,
		.sm_share = step_of(r)->mode == BENCH_MPS_LIMITED ? r->places[0].sm_share : NAN,
		.mem_limit_mib = get_step_memory_limit(r),
		.gpu = r->gpu,
		.n = r->n_slots,
		.pods = pods,
		.doubt = r->doubt };

	for (size_t i = 0; i < r->n_slots; i++) {
		struct run_slot *slot = &r->slots[i];
		const struct error *why = tenant_error(slot->pod);

		pods[i] = (struct collect_pod){ .tenants = slot->tenants,
			.weight = slot->weight,
			.n_blocks = ARGS_PARTS,
			.blocks = r->started ? tenant_blocks(slot->pod) : NULL,
			.error = why->code != ERR_NONE ? bench_store_text(r->texts, why->msg)
						       : "another pod could not begin" };
	}
	return collect_add(r->result, &s, err);
}

/* Runs when all pods have ended and the GPU's figures have arrived. */
static void check_step_end(struct bench_runner *r)
{
	struct error err = ERROR_INIT;

	if (r->n_ended < r->n_slots || (r->started && !r->gpu_known) || r->finished)
		return;
	(void)uv_timer_stop(&r->timer);
	/* An interrupted step has no result. */
	if (!(r->stopping && !r->over) && collect_step_result(r, &err) < 0) {
		fail_bench_run(r, &err);
		return;
	}
	drop_pods(r);
	r->at++;
	next_step(r);
}

/* A user's command does not end by itself. */
static bool ends_programs(const struct bench_runner *r)
{
	for (size_t i = 0; i < r->n_slots; i++)
		if (r->o.suite->workloads[r->slots[i].workload].command)
			return true;
	return false;
}

static double others_of(const struct bench_runner *r)
{
	struct bench_sampler_processes seen = bench_sampler_processes(r->sampler);

	return doubt_others(seen.all, seen.earlier,
		ends_programs(r) ? DOUBT_UNCOUNTED : r->n_slots, step_of(r)->mode);
}

static void add_others_note(struct bench_runner *r, double others)
{
	char text[160];

	if (r->others_noted || !(others > 0))
		return;
	r->others_noted = true;
	(void)snprintf(text, sizeof(text),
		"The GPU is not free: %.0f other process%s on it during the benchmark.", others,
		others > 1 ? "es were" : " was");
	bench_add_note(r->result, bench_store_text(r->texts, text));
}

static const char *find_step_doubt(struct bench_runner *r, const struct bench_gpu *gpu)
{
	struct doubt_facts f = doubt_unknown();
	char text[DOUBT_TEXT_MAX];

	bench_sampler_doubt(r->sampler, &f);
	f.waited = r->waited;
	f.busy = gpu->busy;
	f.others = others_of(r);
	add_others_note(r, f.others);
	doubt_gaps_add(&r->gaps, step_of(r)->mode, &f);
	doubt_text(text, &f);
	return *text ? bench_store_text(r->texts, text) : "";
}

static void on_step_gpu_figures(void *arg, const struct bench_gpu *gpu)
{
	struct bench_runner *r = arg;

	r->doubt = find_step_doubt(r, gpu);
	r->gpu = *gpu;
	r->gpu_known = true;
	check_step_end(r);
}

static void notify_window(struct bench_runner *r, bool begins)
{
	if (r->ops->window)
		r->ops->window(r->arg, step_of(r), r->environment, begins, r->n_ended == 0);
}

static void on_to(uv_timer_t *t)
{
	struct bench_runner *r = t->data;

	r->over = true;
	notify_window(r, false);
	for (size_t i = 0; i < r->n_slots; i++)
		tenant_over(r->slots[i].pod);
	r->disturbed = bench_mode_mps(step_of(r)->mode) && ends_programs(r);
	bench_sampler_end(r->sampler, on_step_gpu_figures, r);
}

static void start_timer(struct bench_runner *r, uv_timer_cb cb, uint64_t at_ns)
{
	uint64_t now = time_mono_ns();

	(void)uv_timer_start(&r->timer, cb, now < at_ns ? (at_ns - now) / NS_PER_MS : 0, 0);
}

/*
 * Pods end soon. If the timer fires after their end, this process waited for a CPU. Its delay then counts as the
 * waited time.
 */
static void on_step_host_timer(uv_timer_t *t)
{
	struct bench_runner *r = t->data;
	uint64_t now = time_mono_ns();

	r->waited = now < r->to_ns ? host_watch_waited(&r->host)
				   : (double)(now - r->to_ns + HOST_SAMPLE_LEAD_NS) /
					     (double)(now - r->from_ns);
	start_timer(r, on_to, r->to_ns);
}

static void on_from(uv_timer_t *t)
{
	struct bench_runner *r = t->data;

	r->window = true;
	bench_sampler_begin(r->sampler);
	host_watch_begin(&r->host);
	notify_window(r, true);
	start_timer(r, on_step_host_timer, r->to_ns - HOST_SAMPLE_LEAD_NS);
}

static uint64_t convert_seconds_to_ns(double seconds)
{
	return (uint64_t)(seconds * 1e9);
}

static void start_step_window(struct bench_runner *r)
{
	uint64_t begin = time_mono_ns() + LOAD_POD_LEAD_NS;

	r->started = true;
	r->from_ns = begin + convert_seconds_to_ns(r->o.suite->warmup_s);
	r->to_ns = r->from_ns + convert_seconds_to_ns(r->o.suite->seconds);
	for (size_t i = 0; i < r->n_slots; i++)
		tenant_begin(r->slots[i].pod, begin, r->from_ns, r->to_ns);
	start_timer(r, on_from, r->from_ns);
}

static void on_step_pod_ready(void *arg)
{
	struct run_slot *s = arg;
	struct bench_runner *r = s->r;

	s->ready = true;
	if (++r->n_ready == r->n_slots && !r->stopping)
		start_step_window(r);
}

static void on_kill(uv_timer_t *t);

/*
 * Whether all pods are user's commands that ended before the end of the window. Such commands print no result, so
 * nothing is left to measure.
 */
static bool ended_too_soon(const struct bench_runner *r)
{
	for (size_t i = 0; i < r->n_slots; i++)
		if (!r->slots[i].ended || !r->o.suite->workloads[r->slots[i].workload].command)
			return false;
	return !r->over;
}

/* The runner does not wait for the other pods if one pod cannot begin. */
static void on_step_pod_ended(void *arg)
{
	struct run_slot *s = arg;
	struct bench_runner *r = s->r;

	s->ended = true;
	r->n_ended++;
	if (!r->started || ended_too_soon(r))
		(void)uv_timer_start(&r->timer, r->window ? on_to : on_kill, 0, 0);
	check_step_end(r);
}

static const struct tenant_ops tenant_ops = { .ready = on_step_pod_ready,
	.ended = on_step_pod_ended };

/*
 * Kills the other pods of a step that is impossible or cancelled. All pods may have ended already.
 */
static void on_kill(uv_timer_t *t)
{
	struct bench_runner *r = t->data;

	r->gpu_known = true; /* the runner no longer needs the figures */
	for (size_t i = 0; i < r->n_slots; i++)
		tenant_kill(r->slots[i].pod);
	check_step_end(r);
}

/* A user's command can print lines forever without finishing a unit. */
static void on_startup_deadline(uv_timer_t *t)
{
	struct bench_runner *r = t->data;

	for (size_t i = 0; i < r->n_slots; i++)
		tenant_give_up(r->slots[i].pod, r->o.suite->startup_s);
}

static void start_pods(struct bench_runner *r)
{
	struct error err = ERROR_INIT;

	r->started = r->window = r->over = r->gpu_known = false;
	r->gpu = bench_sampler_unknown();
	r->waited = NAN;
	r->doubt = "";
	for (size_t i = 0; i < r->n_slots; i++) {
		struct run_slot *s = &r->slots[i];
		const struct tenant_options what = {
			.workload = &r->o.suite->workloads[s->workload],
			.load = r->o.environment->paths->load,
			.env = environment_get_env(r->environment, i),
			.size = &r->sizes[s->workload],
			.mps = bench_mode_mps(step_of(r)->mode),
			.seed = r->o.suite->seed + step_of(r)->repetition * 1000 + i
		};

		if (tenant_start(&s->pod, r->loop, &what, &tenant_ops, s, &err) < 0) {
			fail_bench_run(r, &err);
			return;
		}
	}
	(void)uv_timer_start(&r->timer, on_startup_deadline,
		(uint64_t)(r->o.suite->startup_s * 1000), 0);
	for (size_t i = 0; i < r->n_slots; i++)
		if (r->o.suite->workloads[r->slots[i].workload].silent)
			on_step_pod_ready(&r->slots[i]);
}

static void on_step_environment_ready(void *arg, const struct error *err)
{
	struct bench_runner *r = arg;

	if (r->stopping)
		finish_bench_run(r);
	else if (err)
		fail_bench_run(r, err);
	else
		start_pods(r);
}

static void add_slots(struct bench_runner *r, uint32_t tenants, uint32_t workload,
	uint32_t replicas)
{
	const struct suite_workload *w = &r->o.suite->workloads[workload];
	enum bench_mode m = step_of(r)->mode;

	for (uint32_t k = 0; k < replicas; k++) {
		size_t i = r->n_slots++;
		double weight = m == BENCH_FAIR_SHARE_WEIGHTED ? suite_weight((uint32_t)i) : 1;

		r->slots[i] = (struct run_slot){ .r = r,
			.tenants = tenants,
			.workload = workload,
			.weight = m == BENCH_FAIR_SHARE_WEIGHTED ? weight : NAN };
		r->places[i] = (struct environment_pod){ .weight = weight,
			.latency = m == BENCH_FAIR_SHARE_LATENCY && w->waits,
			.observed = r->o.observe && m != BENCH_EXCLUSIVE };
	}
}

static void fill_slots(struct bench_runner *r)
{
	const struct suite_step *step = step_of(r);
	const struct suite_scenario *sc = &r->o.suite->scenarios[step->scenario];

	r->n_slots = r->n_ready = r->n_ended = 0;
	if (step->mode == BENCH_EXCLUSIVE)
		add_slots(r, 0, step->scenario, 1);
	else
		for (uint32_t i = 0; i < sc->n; i++)
			add_slots(r, i, sc->tenants[i].workload, sc->tenants[i].replicas);
	for (size_t i = 0; i < r->n_slots; i++)
		r->places[i].sm_share = step->mode != BENCH_EXCLUSIVE && sc->sm_share > 0
						? sc->sm_share
						: 1.0 / (double)r->n_slots;
}

static void record_refused_mode(struct bench_runner *r, const struct error *err)
{
	enum bench_mode m = step_of(r)->mode;
	char text[ERROR_MSG_MAX + 64];

	if (!(r->refused & 1U << m)) {
		(void)snprintf(text, sizeof(text), "%s was left out: %s", bench_mode_names[m],
			err->msg);
		bench_add_note(r->result, bench_store_text(r->texts, text));
	}
	r->refused |= 1U << m;
}

static void on_bench_reset_done(void *arg, const struct error *err)
{
	struct bench_runner *r = arg;

	if (err)
		fail_bench_run(r, err);
	else
		next_step(r);
}

/*
 * An MPS server fails new clients for a while after a client ended during its work. So the next step gets a new
 * daemon.
 */
static void reset_bench_environment(struct bench_runner *r)
{
	struct error err = ERROR_INIT;

	if (environment_prepare(r->environment, BENCH_EXCLUSIVE, NULL, 0, on_bench_reset_done,
		    r, &err) < 0)
		fail_bench_run(r, &err);
}

static void next_step(struct bench_runner *r)
{
	struct error err = ERROR_INIT;

	for (; r->at < r->n && !r->stopping; r->at++) {
		fill_slots(r);
		if (environment_check_mode(r->environment, step_of(r)->mode, r->n_slots,
			    &err) == 0)
			break;
		record_refused_mode(r, &err);
		r->n_slots = 0;
	}
	if (r->at == r->n || r->stopping) {
		finish_bench_run(r);
		return;
	}
	if (r->disturbed) {
		r->disturbed = false;
		reset_bench_environment(r);
		return;
	}
	r->ops->progress(r->arg, r->at, r->n, step_of(r));
	if (environment_prepare(r->environment, step_of(r)->mode, r->places, r->n_slots,
		    on_step_environment_ready, r, &err) < 0)
		fail_bench_run(r, &err);
}

/* --- calibration --- */

/*
 * Sets the kernel size of a workload, and adds it to the result, so that other runs can use the same size. A size
 * already in the result stays.
 */
static int set_size(struct bench_runner *r, uint32_t workload, const struct args_size *size,
	struct error *err)
{
	struct bench_result *b = r->result;
	const char *name = r->o.suite->workloads[workload].name;

	r->sizes[workload] = *size;
	if (bench_size_of(b, name))
		return 0;
	if (!ARRAY_EXTEND(&b->sizes, b->n_sizes, 1, ARRAY_NO_LIMIT))
		return error_nomem(err);
	b->sizes[b->n_sizes++] =
		(struct bench_size){ name, size->rounds, size->multiprocessors };
	b->head.multiprocessors = size->multiprocessors;
	return 0;
}

/*
 * The runner does not measure sizes that .like has. If .like is the runner's own result, set_size() leaves its
 * sizes as they are.
 */
static int copy_kernel_sizes(struct bench_runner *r, struct error *err)
{
	const struct suite *s = r->o.suite;

	for (uint32_t i = 0; r->o.like && i < s->n_workloads; i++) {
		const struct bench_size *size = bench_size_of(r->o.like, s->workloads[i].name);

		if (size && suite_uses(s, i) &&
			set_size(r, i,
				&(struct args_size){ size->rounds, size->multiprocessors },
				err) < 0)
			return -1;
	}
	return 0;
}

static int on_calibrated(void *arg, const char *line, size_t len, struct error *err)
{
	struct bench_runner *r = arg;
	json_auto_t *o = json_loadb(line, len, 0, NULL);
	const char *error = json_string_value(json_object_get(o, "error"));
	json_int_t rounds = json_integer_value(json_object_get(o, "rounds"));
	json_int_t sms = json_integer_value(json_object_get(o, "multiprocessors"));

	if (error)
		return error_set(err, ERR_UNAVAILABLE, "%s", error);
	if (rounds > 0 && sms > 0 && sms < UINT16_MAX)
		return set_size(r, r->calibrating,
			&(struct args_size){ (uint64_t)rounds, (uint32_t)sms }, err);
	return 0;
}

static void on_calibration_end(void *arg, const struct child_end *end)
{
	struct bench_runner *r = arg;
	struct error err = ERROR_INIT;

	r->calibration = NULL;
	if (r->stopping) {
		finish_bench_run(r);
		return;
	}
	if (r->sizes[r->calibrating].rounds) {
		r->calibrating++;
		next_calibration(r);
		return;
	}
	if (end->error.code != ERR_NONE)
		error_copy(&err, &end->error);
	else
		(void)error_set(&err, ERR_UNAVAILABLE,
			"gpuslice-load ended with status %d: %.200s", end->status, end->words);
	(void)error_prefix(&err, "calibrate '%s'", r->o.suite->workloads[r->calibrating].name);
	fail_bench_run(r, &err);
}

static int start_calibration(struct bench_runner *r, const struct suite_workload *w,
	struct error *err)
{
	static const struct child_ops ops = { .line = on_calibrated,
		.ended = on_calibration_end };
	CLEANUP(strv_fini) struct strv args = STRV_INIT;

	if (args_calibrate(&args, r->o.environment->paths->load, w, err) < 0)
		return -1;
	return proc_start(&r->calibration, r->loop,
		&(struct child_spec){ .argv = (const char *const *)args.v,
			.env = (const char *const *)environment_get_env(r->environment, 0)->v,
			.silence_ns = CALIBRATE_NS },
		&ops, r, err);
}

static void next_calibration(struct bench_runner *r)
{
	const struct suite *s = r->o.suite;
	struct error err = ERROR_INIT;

	while (r->calibrating < s->n_workloads &&
		(!suite_uses(s, r->calibrating) || s->workloads[r->calibrating].command ||
			r->sizes[r->calibrating].rounds))
		r->calibrating++;
	if (r->calibrating == s->n_workloads) {
		next_step(r);
		return;
	}
	r->ops->progress(r->arg, 0, r->n, NULL);
	if (start_calibration(r, &s->workloads[r->calibrating], &err) < 0)
		fail_bench_run(r, &err);
}

static void on_bench_first_sample(void *arg)
{
	struct bench_runner *r = arg;

	if (r->stopping)
		finish_bench_run(r);
	else
		next_calibration(r);
}

static void on_bench_environment_ready(void *arg, const struct error *err)
{
	struct bench_runner *r = arg;

	if (err)
		fail_bench_run(r, err);
	else
		bench_sampler_request_first(r->sampler, on_bench_first_sample, r);
}

/* --- life --- */

int bench_runner_start(struct bench_runner **ret, uv_loop_t *loop,
	const struct bench_runner_options *options, struct bench_result *result,
	struct strv *texts, const struct bench_runner_ops *ops, void *arg, struct error *err)
{
	struct bench_runner *r = calloc(1, sizeof(*r));

	if (!r)
		return error_nomem(err);
	r->loop = loop;
	r->o = *options;
	r->ops = ops;
	r->arg = arg;
	r->result = result;
	r->texts = texts;
	(void)uv_timer_init(loop, &r->timer);
	r->timer.data = r;
	r->places[0] = (struct environment_pod){ .weight = 1 };
	if (suite_steps(&r->steps, &r->n, options->suite, err) < 0 ||
		copy_kernel_sizes(r, err) < 0 ||
		environment_new(&r->environment, loop, options->environment, err) < 0 ||
		bench_sampler_new(&r->sampler, loop, options->monitor,
			options->environment->uuid, err) < 0 ||
		environment_prepare(r->environment,
			options->environment->n_mig ? BENCH_MIG : BENCH_EXCLUSIVE, r->places, 1,
			on_bench_environment_ready, r, err) < 0) {
		(void)bench_runner_free(r);
		return -1;
	}
	*ret = r;
	return 0;
}

void bench_runner_stop(struct bench_runner *r)
{
	if (r->stopping)
		return;
	r->stopping = true;
	if (r->calibration)
		proc_expect(r->calibration, 0);
	else if (r->n_slots && !r->over)
		(void)uv_timer_start(&r->timer, on_kill, 0, 0);
}

static void on_bench_timer_closed(uv_handle_t *h)
{
	free(h->data);
}

struct bench_runner *bench_runner_free(struct bench_runner *r)
{
	if (!r)
		return NULL;
	drop_pods(r);
	r->calibration = proc_stop(r->calibration);
	r->sampler = bench_sampler_free(r->sampler);
	r->environment = environment_free(r->environment);
	free(r->steps);
	r->steps = NULL;
	uv_close((uv_handle_t *)&r->timer, on_bench_timer_closed);
	return NULL;
}
