/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One session of `gpuslice bench`: suite, MIG devices and isolation tests on one GPU, with progress and a
 * clean end on signals (bench.h).
 */
#include "tools/cli/bench/bench.h"

#include "tools/cli/bench/mig-partition.h"

#include "lib/base/fd.h"
#include "lib/base/paths.h"
#include "lib/base/parse.h"
#include "lib/base/time.h"
#include "lib/base/units.h"
#include "tools/bench/isolation/isolation.h"
#include "tools/bench/run/slice-watch.h"
#include "tools/bench/run/load-io.h"
#include "tools/bench/run/run.h"
#include "testbed/sim/control/control.h"

#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#define TMPDIR_MAX 32  /* bytes: paths of sockets are some levels below */
#define SETUP_S    1.5 /* setup time of a step, a rough guess */
#define LIBRARY    "libnvidia-ml.so.1"
#define N_SIGNALS  3

static const int signal_numbers[N_SIGNALS] = { SIGINT, SIGTERM, SIGHUP };

struct session_state {
	const struct bench_session *s;
	uv_loop_t loop;
	uv_signal_t signals[N_SIGNALS];
	/* For signals between two parts of the run: is_stopped() polls this loop, so no signal is
	 * lost. */
	uv_loop_t guard;
	uv_signal_t guards[N_SIGNALS];
	struct bench_runner *runner;
	struct profile_watch *watch; /* NULL: no observation of pods */
	struct isolation_runner *checker;
	struct isolation_runner_options checks;
	/* In a directory of its own: programs of the suite may still be exiting. */
	struct environment_options check_place;
	char check_dir[PATH_MAX];
	struct strv *texts;
	struct bench_result *result;
	struct error error;
	unsigned int check_names; /* isolation tests of the part that runs now */
	bool stopped, terminal;
	uint64_t began_ns;
};

/* --- progress --- */

static void clear_line(const struct session_state *run)
{
	if (run->terminal)
		(void)fputs("\r\033[K", stderr);
}

/* Estimated from the steps so far; before the first step ends, from the suite's durations. */
static double seconds_left(const struct session_state *run, size_t done, size_t all)
{
	double each = run->s->suite->warmup_s + run->s->suite->seconds + SETUP_S;

	if (done)
		each = (double)(time_mono_ns() - run->began_ns) / 1e9 / (double)done;
	return each * (double)(all - done);
}

static void on_progress(void *arg, size_t done, size_t all, const struct suite_step *step)
{
	struct session_state *run = arg;
	char left[TIME_AGE_MAX];

	if (!step) {
		run->began_ns = time_mono_ns();
		clear_line(run);
		(void)fprintf(stderr, "measuring how much work a kernel is%s",
			run->terminal ? "" : "\n");
		return;
	}
	if (!done)
		run->began_ns = time_mono_ns();
	time_age((uint64_t)(seconds_left(run, done, all) * 1e9), left);
	clear_line(run);
	(void)fprintf(stderr, "%zu of %zu, %s left: %s, %s%s", done + 1, all, left,
		bench_mode_names[step->mode],
		step->mode == BENCH_EXCLUSIVE ? run->s->suite->workloads[step->scenario].name
					      : run->s->suite->scenarios[step->scenario].name,
		run->terminal ? "" : "\n");
}

void bench_windows_fini(struct bench_windows *w)
{
	for (size_t i = 0; i < w->n; i++)
		profile_window_fini(&w->window[i]);
	w->n = 0;
}

/* A window that cannot be stored for lack of memory counts as not observed. */
static void on_window(void *arg, const struct suite_step *step,
	const struct environment *environment, bool begins, bool whole)
{
	struct session_state *run = arg;
	struct bench_windows *to = run->s->windows;
	const struct suite_scenario *sc = &run->s->suite->scenarios[step->scenario];
	struct profile_window *w;
	struct error err = ERROR_INIT;

	if (!run->watch || step->mode == BENCH_EXCLUSIVE || to->n == PROFILE_WINDOWS_MAX)
		return;
	if (begins) {
		watch_begin_window(run->watch, environment, step->mode == BENCH_FAIR_SHARE);
		return;
	}
	w = &to->window[to->n];
	if (watch_end_window(run->watch, w, &err) < 0)
		return;
	if (!whole) {
		profile_window_fini(w);
		return;
	}
	w->mode = step->mode;
	w->sm_share = sc->sm_share > 0 ? sc->sm_share : 1;
	to->n++;
}

static void on_check(void *arg, const char *title, const char *mode)
{
	const struct session_state *run = arg;

	clear_line(run);
	(void)fprintf(stderr, "isolation: %s, %s%s", title, mode, run->terminal ? "" : "\n");
}

static void on_bench_checks_ended(void *arg, const struct error *err)
{
	struct session_state *run = arg;

	clear_line(run);
	error_copy(&run->error, err);
	for (size_t i = 0; i < ARRAY_LEN(run->signals); i++)
		uv_close((uv_handle_t *)&run->signals[i], NULL);
	run->checker = isolation_runner_free(run->checker);
}

/* The suite has ended; the isolation tests follow. */
static void on_bench_suite_ended(void *arg, const struct error *err)
{
	static const struct isolation_runner_ops ops = { .progress = on_check,
		.ended = on_bench_checks_ended };
	struct session_state *run = arg;
	struct error own = ERROR_INIT;

	error_copy(&own, err);
	run->runner = bench_runner_free(run->runner);
	run->watch = watch_free(run->watch);
	if (own.code == ERR_NONE && !run->stopped && run->checks.tests &&
		isolation_runner_start(&run->checker, &run->loop, &run->checks, run->result,
			run->texts, &ops, run, &own) == 0)
		return;
	on_bench_checks_ended(run, &own);
}

static void stop_bench_stage(struct session_state *run)
{
	if (run->runner)
		bench_runner_stop(run->runner);
	else if (run->checker)
		isolation_runner_stop(run->checker);
}

static void on_bench_signal(uv_signal_t *s, int number)
{
	struct session_state *run = s->data;

	(void)number;
	if (run->stopped)
		return;
	run->stopped = true;
	clear_line(run);
	(void)fputs("stopping; what was measured is kept\n", stderr);
	stop_bench_stage(run);
}

static bool is_stopped(void *arg)
{
	struct session_state *run = arg;

	(void)uv_run(&run->guard, UV_RUN_NOWAIT);
	return run->stopped;
}

static int guard_begin(struct session_state *run, struct error *err)
{
	int r = uv_loop_init(&run->guard);

	if (r != 0)
		return error_set(err, ERR_INTERNAL, "event loop: %s", uv_strerror(r));
	for (size_t i = 0; i < N_SIGNALS; i++) {
		(void)uv_signal_init(&run->guard, &run->guards[i]);
		run->guards[i].data = run;
		(void)uv_signal_start(&run->guards[i], on_bench_signal, signal_numbers[i]);
	}
	return 0;
}

static void guard_end(struct session_state *run)
{
	for (size_t i = 0; i < N_SIGNALS; i++)
		uv_close((uv_handle_t *)&run->guards[i], NULL);
	(void)uv_run(&run->guard, UV_RUN_DEFAULT);
	(void)uv_loop_close(&run->guard);
}

/* --- the environment of the measurement --- */

static void fill_head(struct bench_head *h, struct strv *texts, const struct session_state *run,
	const struct inventory *inv, const struct gpu *g)
{
	const struct suite *s = run->s->suite;
	char made[TIME_RFC3339_MAX], cuda[32];
	struct utsname u;

	time_rfc3339(time_wall_ns(), made);
	(void)snprintf(cuda, sizeof(cuda), "%u.%u", (unsigned int)inv->cuda_version / 1000,
		(unsigned int)inv->cuda_version % 1000 / 10);
	*h = (struct bench_head){ .made = bench_store_text(texts, made),
		.version = GPUSLICE_VERSION,
		.kernel = uname(&u) == 0 ? bench_store_text(texts, u.release) : "",
		.driver = bench_store_text(texts, inv->driver_version),
		.cuda = bench_store_text(texts, cuda),
		.gpu = bench_store_text(texts, g->name),
		.uuid = bench_store_text(texts, g->uuid),
		.simulated = run->s->model || getenv("GPUSLICE_SIM_NODE"),
		.mig = g->mig_enabled,
		.power_limit_w = NAN,
		.memory_mib = (double)g->memory_total_bytes / MIB,
		.multiprocessors = NAN,
		.seconds = s->seconds,
		.warmup_s = s->warmup_s,
		.repetitions = s->repetitions,
		.seed = s->seed,
		.usd_per_hour = NAN };
}

int bench_find_gpu(const struct gpu **ret, const struct inventory *inv, const char *name,
	struct error *err)
{
	uint32_t index = 0;
	bool number = !name || parse_u32(name, &index);

	for (uint32_t i = 0; i < inv->n; i++) {
		const struct gpu *g = &inv->gpus[i];

		if (number ? g->index != index : strcmp(g->uuid, name) != 0)
			continue;
		if (g->fault != GPU_OK)
			return error_set(err, ERR_UNAVAILABLE, "GPU %u: %s", g->index,
				g->reason);
		*ret = g;
		return 0;
	}
	return error_set(err, ERR_NOT_FOUND, "no GPU '%.60s' on this node, which has %u",
		name ? name : "0", inv->n);
}

/* --- the run --- */

static int start_bench_run(struct session_state *run, const struct bench_runner_options *o,
	struct strv *texts, struct error *err)
{
	static const struct bench_runner_ops ops = { .progress = on_progress,
		.window = on_window,
		.ended = on_bench_suite_ended };

	if (run->s->windows && watch_new(&run->watch, &run->loop, err) < 0)
		return -1;
	if (bench_runner_start(&run->runner, &run->loop, o, run->result, texts, &ops, run,
		    err) < 0) {
		run->watch = watch_free(run->watch);
		return -1;
	}
	for (size_t i = 0; i < N_SIGNALS; i++) {
		(void)uv_signal_init(&run->loop, &run->signals[i]);
		run->signals[i].data = run;
		(void)uv_signal_start(&run->signals[i], on_bench_signal, signal_numbers[i]);
	}
	if (is_stopped(run))
		stop_bench_stage(run);
	return 0;
}

/* The environment of the next part of the run. */
struct stage {
	struct strv *texts;
	const struct gpu_monitor_options *monitor;
	const char *dir; /* where the part makes its files */
	bool sized;      /* the result already has the kernel sizes */
};

static int run_suite(struct session_state *run, const struct stage *st,
	const struct inventory *inv, struct error *err)
{
	const struct gpu *g = NULL;
	struct environment_paths paths;
	struct environment_options environment = { .dir = st->dir,
		.paths = &paths,
		.mps_control = run->s->mps_control,
		.simulated = run->s->model != NULL };
	const struct bench_runner_options o = { .suite = run->s->suite,
		.environment = &environment,
		.monitor = st->monitor,
		.like = st->sized ? run->result : run->s->like,
		.observe = run->s->windows != NULL };
	const char *mig[GPU_MIG_MAX];
	int r;

	if (bench_find_gpu(&g, inv, run->s->gpu, err) < 0 ||
		environment_paths_find(&paths, environment.simulated, err) < 0)
		return -1;
	if (!run->result->head.made)
		fill_head(&run->result->head, st->texts, run, inv, g);
	environment.uuid = g->uuid;
	environment.memory =
		g->memory_usable_bytes ? g->memory_usable_bytes : g->memory_total_bytes;
	for (uint32_t i = 0; i < inv->n_mig && environment.n_mig < GPU_MIG_MAX; i++)
		if (&inv->gpus[inv->mig[i].gpu] == g && inv->mig[i].uuid[0])
			mig[environment.n_mig++] = inv->mig[i].uuid;
	environment.mig_uuids = mig;
	run->check_place = environment;
	run->check_place.dir = run->check_dir;
	run->checks = (struct isolation_runner_options){ .tests = run->check_names,
		.modes = run->s->suite->modes,
		.seconds = run->s->suite->seconds,
		.environment = &run->check_place,
		.monitor = st->monitor };
	if (path_join(run->check_dir, sizeof(run->check_dir), st->dir, "c", err) < 0)
		return -1;
	run->texts = st->texts;
	r = uv_loop_init(&run->loop);
	if (r != 0)
		return error_set(err, ERR_INTERNAL, "event loop: %s", uv_strerror(r));
	r = start_bench_run(run, &o, st->texts, err);
	(void)uv_run(&run->loop, UV_RUN_DEFAULT);
	if (uv_loop_close(&run->loop) != 0 && r == 0)
		r = error_set(err, ERR_INTERNAL, "event loop: something is left on it");
	run->result->head.interrupted = run->stopped || run->error.code != ERR_NONE;
	if (r == 0 && run->error.code != ERR_NONE) {
		error_copy(err, &run->error);
		return -1;
	}
	return r;
}

/* --- with own MIG devices --- */

/* One run of the suite's .modes and .mig_pods, on the GPU as it is now. */
static int run_bench_stage(struct session_state *run, const struct stage *st, const char *name,
	struct error *err)
{
	CLEANUP(inventory_freep) struct inventory *inv = NULL;
	char dir[PATH_MAX];
	struct stage part = *st;

	part.dir = dir;
	part.sized = run->result->n_sizes > 0;
	return path_join(dir, sizeof(dir), st->dir, name, err) < 0 ||
			       dir_make(dir, 0700, err) < 0 ||
			       gpu_inventory_once(&inv, st->monitor, err) < 0
		       ? -1
		       : run_suite(run, &part, inv, err);
}

static bool has_scenario(const struct suite *s, uint32_t pods)
{
	for (size_t i = 0; i < s->n_scenarios; i++)
		if (s->scenarios[i].pods == pods && suite_has(s, &s->scenarios[i], BENCH_MIG))
			return true;
	return false;
}

static void PRINTF(3, 4) add_session_note(struct session_state *run, const struct stage *st,
	const char *fmt, ...)
{
	char text[ERROR_MSG_MAX + 64];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	bench_add_note(run->result, bench_store_text(st->texts, text));
}

/* Runs the scenarios in order of their number of pods. All pods have MIG devices of one size. */
static int run_mig_partitions(struct session_state *run, const struct stage *st,
	struct bench_mig_partition *partition, struct error *err)
{
	struct suite *s = run->s->suite;

	run->check_names = run->s->checks;
	for (uint32_t pods = 2; pods <= BENCH_PODS_MAX; pods++) {
		char profile[MIG_PROFILE_NAME_MAX], name[16];
		struct error why = ERROR_INIT;
		int r;

		s->mig_pods = pods;
		if (!has_scenario(s, pods))
			continue;
		r = is_stopped(run)
			    ? 0
			    : bench_mig_partition_create(partition, pods, profile, &why);
		if (is_stopped(run))
			return 0;
		if (r < 0) { /* the GPU may have room for fewer devices, or be free later */
			add_session_note(run, st, "mig was left out for %u pods: %s", pods,
				why.msg);
			continue;
		}
		add_session_note(run, st, "mig, %u pods: each had a device %s.", pods, profile);
		clear_line(run);
		(void)fprintf(stderr, "the GPU is %u MIG devices %s now\n", pods, profile);
		(void)snprintf(name, sizeof(name), "m%u", pods);
		if (run_bench_stage(run, st, name, err) < 0)
			return -1;
		run->check_names = 0; /* the result is the same for all sizes */
	}
	return 0;
}

/* First all modes that need the whole GPU, where the kernels get their sizes; then MIG. */
static int run_bench_stages(struct session_state *run, const struct stage *st,
	struct bench_mig_partition *partition, struct error *err)
{
	struct suite *s = run->s->suite;
	unsigned int modes = s->modes;
	int r;

	if (bench_mig_partition_disable(partition, err) < 0) {
		if (is_stopped(run))
			return error_set(err, ERR_CANCELLED, "interrupted");
		return error_prefix(err, "switch MIG off");
	}
	s->modes = modes & ~(1U << BENCH_MIG);
	r = run_bench_stage(run, st, "w", err);
	s->modes = 1U << BENCH_MIG;
	if (r == 0)
		r = run_mig_partitions(run, st, partition, err);
	s->modes = modes;
	s->mig_pods = 0;
	run->result->head.interrupted = run->stopped || r < 0;
	return r;
}

static int run_with_mig(struct session_state *run, const struct stage *st,
	const struct inventory *inv, struct error *err)
{
	struct bench_mig_partition_options o = { .nvml = st->monitor->nvml_path,
		.run_dir = run->s->model ? st->dir : run->s->run_dir,
		.stopped = is_stopped,
		.arg = run };
	struct error back = ERROR_INIT;
	const struct gpu *g = NULL;
	struct bench_mig_partition *partition;
	int r;

	if (bench_find_gpu(&g, inv, run->s->gpu, err) < 0)
		return -1;
	o.uuid = g->uuid;
	if (bench_mig_partition_begin(&partition, &o, err) < 0)
		return error_prefix(err, "--allow-mig");
	r = run_bench_stages(run, st, partition, err);
	if (bench_mig_partition_restore(partition, &back) == 0)
		return r;
	if (r < 0)
		(void)fprintf(stderr, "%s\n", back.msg);
	else
		error_copy(err, &back);
	return -1;
}

/* Makes a simulated node that lives as long as the session. */
static int create_bench_sim_node(struct sim_control *node, const char *model, const char *dir,
	struct error *err)
{
	if (dir_make(dir, 0700, err) < 0)
		return -1;
	if (setenv("GPUSLICE_SIM_NODE", model, 1) < 0 || setenv("GPUSLICE_SIM_DIR", dir, 1) < 0)
		return error_nomem(err);
	return sim_control_create(node, model, dir, /* force= */ false, /* seed= */ 0, err);
}

static int run_bench_on_node(struct session_state *run, struct strv *texts, struct error *err)
{
	const struct bench_session *s = run->s;
	CLEANUP(temp_dir_remove) struct temp_dir tmp = TEMP_DIR_INIT;
	CLEANUP(sim_control_close) struct sim_control node = { .state = NULL };
	CLEANUP(inventory_freep) struct inventory *inv = NULL;
	struct gpu_monitor_options monitor = { .nvml_path = s->nvml, .procfs_root = s->procfs };
	char dir[PATH_MAX], procfs[PATH_MAX], nvml[2 * PATH_MAX + sizeof(LIBRARY)];
	struct environment_paths paths;
	struct stage stage;

	if (temp_dir_make(&tmp, "gpuslice-bench.", TMPDIR_MAX, err) < 0)
		return -1;
	if (s->model) {
		if (path_join(dir, sizeof(dir), tmp.path, "node", err) < 0 ||
			path_join(procfs, sizeof(procfs), dir, "proc", err) < 0 ||
			environment_paths_find(&paths, true, err) < 0)
			return -1;
		if (create_bench_sim_node(&node, s->model, dir, err) < 0)
			return error_prefix(err, "--node %s", s->model);
		monitor.procfs_root = procfs;
		if (!s->nvml) {
			const char *last = strrchr(paths.sim, ':');

			(void)snprintf(nvml, sizeof(nvml), "%s/" LIBRARY,
				last ? last + 1 : paths.sim);
			monitor.nvml_path = nvml;
		}
	}
	if (gpu_inventory_once(&inv, &monitor, err) < 0) {
		if (!s->model)
			(void)fputs(
				"Without a GPU, --node h100-1 runs it on a simulated one.\n",
				stderr);
		return -1;
	}
	stage = (struct stage){ .texts = texts, .monitor = &monitor, .dir = tmp.path };
	return s->allow_mig ? run_with_mig(run, &stage, inv, err)
			    : run_suite(run, &stage, inv, err);
}

int bench_session_run(struct bench_result *ret, struct strv *texts,
	const struct bench_session *s, struct error *err)
{
	struct session_state run = { .s = s,
		.result = ret,
		.check_names = s->checks,
		.terminal = isatty(STDERR_FILENO) };
	int r;

	if (guard_begin(&run, err) < 0)
		return -1;
	r = run_bench_on_node(&run, texts, err);
	guard_end(&run);
	return r;
}
