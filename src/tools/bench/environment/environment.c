/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/environment/environment.h"

#include "abi/launch-log.h"
#include "abi/slice-dir.h"
#include "abi/arbiter-control.h"
#include "lib/base/fd.h"
#include "lib/base/paths.h"
#include "lib/base/time.h"
#include "model/offer/offer.h"
#include "lib/proc/child.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define READY_POLL_MS    2
#define READY_TIMEOUT_NS (30 * NS_PER_SEC)
#define FOREVER_NS       (24 * 3600 * NS_PER_SEC)
#define QUIT_NS          (5 * NS_PER_SEC) /* for an MPS daemon to end by itself after "quit" */
#define SLICES           "slices"
#define MPS_PERCENT_MAX  100

struct environment {
	uv_loop_t *loop;
	const struct environment_options *o;
	char state[PATH_MAX], run[PATH_MAX], pipe[PATH_MAX], log[PATH_MAX];
	struct child *arbiter, *mps, *quit;
	struct error arbiter_end, mps_end; /* ERR_NONE: the program runs */
	enum bench_mode mode;
	bool observed;
	size_t n;
	struct strv *envs;
	uint32_t next_id, first_id;
	uv_timer_t timer;
	uint64_t until_ns;
	environment_done_fn *done;
	void *arg;
};

static bool has_environment_slices(const struct environment *env)
{
	return bench_mode_slices(env->mode) || (bench_mode_mps(env->mode) && env->observed);
}

/* --- environment variables --- */

/*
 * The environment of a child program: that of this process with changes. env->v has the form that exec needs.
 */

extern char **environ;

/* Copies the environment of this process. ERR_NOMEM. */
static int env_init(struct strv *env, struct error *err)
{
	for (size_t i = 0; environ[i]; i++)
		if (strv_add(env, environ[i], err) < 0)
			return -1;
	return 0;
}

static char **find_env_variable(const struct strv *env, const char *name)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < env->n; i++)
		if (!strncmp(env->v[i], name, len) && env->v[i][len] == '=')
			return &env->v[i];
	return NULL;
}

/* @value NULL: removes the variable. ERR_NOMEM. */
static int env_set(struct strv *env, const char *name, const char *value, struct error *err)
{
	char **at = find_env_variable(env, name), *text = NULL;

	if (at) {
		free(*at);
		memmove(at, at + 1, (size_t)(env->v + env->n - at) * sizeof(*at));
		env->n--;
	}
	if (!value)
		return 0;
	if (asprintf(&text, "%s=%s", name, value) < 0)
		return error_nomem(err);
	if (strv_add(env, text, err) < 0) {
		free(text);
		return -1;
	}
	free(text);
	return 0;
}

/* --- files --- */

static void slice_id(char ret[ENVIRONMENT_ID_MAX], uint32_t id)
{
	(void)snprintf(ret, ENVIRONMENT_ID_MAX, "%032x", id);
}

static int slice_dir(char ret[PATH_MAX], const struct environment *env, uint32_t id,
	struct error *err)
{
	char name[ENVIRONMENT_ID_MAX + sizeof(SLICES)], number[ENVIRONMENT_ID_MAX];

	slice_id(number, id);
	(void)snprintf(name, sizeof(name), SLICES "/%s", number);
	return path_join(ret, PATH_MAX, env->state, name, err);
}

static json_t *build_slice_json(const struct environment *env, uint32_t id,
	const struct environment_pod *pod)
{
	char number[ENVIRONMENT_ID_MAX], device[DEVICE_ID_MAX];
	json_t *o, *gpu;

	slice_id(number, id);
	if (!device_id_make(device, sizeof(device), env->o->uuid, id))
		return NULL;
	gpu = json_pack("{s:s, s:I}", "uuid", env->o->uuid, "weight", (json_int_t)pod->weight);
	o = json_pack("{s:i, s:s, s:s, s:[s], s:[o], s:s, s:s, s:s}", "version", 1, "id",
		number, "resource", OFFER_GPU, "devices", device, "gpus", gpu, "compute",
		bench_mode_mps(env->mode) ? "mps" : "turns", "class",
		pod->latency ? "latency" : "batch", "unhooked", "report");
	if (o && !pod->observed &&
		json_object_set_new(gpu, "memory",
			json_integer((json_int_t)environment_slice_memory(env->o, env->n))) <
			0) {
		json_decref(o);
		return NULL;
	}
	return o;
}

/* Allocates the whole file. On a full disk, a write to a missing block would kill the program that maps the
 * file. */
static int make_log(const char *dir, struct error *err)
{
	static const uint32_t head[] = { LAUNCH_LOG_MAGIC, LAUNCH_LOG_VERSION };
	char path[PATH_MAX];
	CLEANUP(closep) int fd = -1;
	int r;

	if (path_join(path, sizeof(path), dir, LAUNCH_LOG_FILE, err) < 0)
		return -1;
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return error_sys(err, errno, "make the log of launches '%s'", path);
	r = posix_fallocate(fd, 0, (off_t)LAUNCH_LOG_BYTES);
	if (r == 0 && write(fd, head, sizeof(head)) != (ssize_t)sizeof(head))
		r = errno;
	return r == 0 ? 0 : error_sys(err, r, "make the log of launches '%s'", path);
}

/* rename() makes the slice visible to the arbiter as a whole. */
static int make_slice(const struct environment *env, uint32_t id,
	const struct environment_pod *pod, struct error *err)
{
	char new[PATH_MAX], file[PATH_MAX], dir[PATH_MAX];
	json_t *o = build_slice_json(env, id, pod);
	int r = -1;

	if (!o)
		return error_nomem(err);
	if (path_join(new, sizeof(new), env->state, "new", err) == 0 &&
		path_join(file, sizeof(file), new, "slice.json", err) == 0 &&
		slice_dir(dir, env, id, err) == 0 && dir_make(new, 0755, err) == 0 &&
		(!pod->observed || make_log(new, err) == 0)) {
		if (json_dump_file(o, file, JSON_COMPACT) < 0 || rename(new, dir) < 0)
			(void)error_sys(err, errno, "make the slice '%s'", dir);
		else
			r = 0;
	}
	json_decref(o);
	return r;
}

static void remove_slices(struct environment *env)
{
	for (uint32_t id = env->first_id; id < env->next_id; id++) {
		char dir[PATH_MAX];
		struct error err = ERROR_INIT;

		if (slice_dir(dir, env, id, &err) == 0)
			tree_remove(dir);
	}
	env->first_id = env->next_id;
}

/* --- programs --- */

static void set_child_end_error(struct error *ret, const char *what,
	const struct child_end *end)
{
	if (end->signal)
		(void)error_set(ret, ERR_UNAVAILABLE, "%s ended by signal %d: %s", what,
			end->signal, end->words);
	else
		(void)error_set(ret, ERR_UNAVAILABLE, "%s ended with status %d: %s", what,
			end->status, end->words);
}

static void on_arbiter_end(void *arg, const struct child_end *end)
{
	struct environment *env = arg;

	env->arbiter = NULL;
	set_child_end_error(&env->arbiter_end, "gpuslice-arbiter", end);
}

static void on_mps_end(void *arg, const struct child_end *end)
{
	struct environment *env = arg;

	env->mps = NULL;
	set_child_end_error(&env->mps_end, "nvidia-cuda-mps-control", end);
}

static void on_quit_end(void *arg, const struct child_end *end)
{
	struct environment *env = arg;

	(void)end;
	env->quit = NULL;
	if (env->mps)
		proc_expect(env->mps, QUIT_NS);
}

/* Fills in the first TIED_ARGS_MAX words of @argv, so that the program ends with this process. */
#define TIED_ARGS_MAX 3
static int start_tied_child(const struct environment *p, struct child **ret, const char **argv,
	const struct strv *env, const struct child_ops *ops, struct error *err)
{
	char self[16];

	(void)snprintf(self, sizeof(self), "%d", (int)getpid());
	argv[0] = p->o->paths->load;
	argv[1] = "--tied";
	argv[2] = self;
	return proc_start(ret, p->loop,
		&(struct child_spec){ .argv = argv,
			.env = (const char *const *)env->v,
			.silence_ns = FOREVER_NS },
		ops, (void *)(uintptr_t)p, err);
}

static const struct child_ops arbiter_ops = { .ended = on_arbiter_end };
static const struct child_ops mps_ops = { .ended = on_mps_end };
static const struct child_ops quit_ops = { .ended = on_quit_end };

static int base_env(const struct environment *p, struct strv *env, struct error *err)
{
	if (env_init(env, err) < 0 || env_set(env, "LD_PRELOAD", NULL, err) < 0 ||
		env_set(env, SLICE_DIR_VARIABLE, NULL, err) < 0 ||
		env_set(env, "CUDA_MPS_PIPE_DIRECTORY", NULL, err) < 0 ||
		env_set(env, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", NULL, err) < 0 ||
		env_set(env, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", NULL, err) < 0)
		return -1;
	return p->o->simulated ? env_set(env, "LD_LIBRARY_PATH", p->o->paths->sim, err) : 0;
}

static int start_arbiter(struct environment *p, struct error *err)
{
	CLEANUP(strv_fini) struct strv env = STRV_INIT;
	const char *argv[TIED_ARGS_MAX + 2] = { [TIED_ARGS_MAX] = p->o->paths->arbiter };

	if (p->arbiter)
		return 0;
	error_clear(&p->arbiter_end);
	if (base_env(p, &env, err) < 0 ||
		env_set(&env, "GPUSLICE_STATE_DIR", p->state, err) < 0 ||
		env_set(&env, "GPUSLICE_RUN_DIR", p->run, err) < 0)
		return -1;
	return start_tied_child(p, &p->arbiter, argv, &env, &arbiter_ops, err);
}

static const char *mps_control(const struct environment *env)
{
	if (env->o->mps_control)
		return env->o->mps_control;
	return env->o->simulated ? env->o->paths->sim_mps : "nvidia-cuda-mps-control";
}

static int mps_env(const struct environment *p, struct strv *env, struct error *err)
{
	return env_set(env, "CUDA_MPS_PIPE_DIRECTORY", p->pipe, err) < 0
		       ? -1
		       : env_set(env, "CUDA_MPS_LOG_DIRECTORY", p->log, err);
}

/* In the foreground, so that the daemon is a child of this process. */
static int start_mps(struct environment *p, struct error *err)
{
	CLEANUP(strv_fini) struct strv env = STRV_INIT;
	const char *argv[TIED_ARGS_MAX + 3] = { [TIED_ARGS_MAX] = mps_control(p), "-f" };

	if (p->mps)
		return 0;
	error_clear(&p->mps_end);
	/* Removes the files of the previous daemon. With them, the new daemon would seem ready too early. */
	tree_remove(p->pipe);
	if (dir_make(p->pipe, 0755, err) < 0 || base_env(p, &env, err) < 0 ||
		mps_env(p, &env, err) < 0 ||
		env_set(&env, "CUDA_VISIBLE_DEVICES", p->o->uuid, err) < 0)
		return -1;
	return start_tied_child(p, &p->mps, argv, &env, &mps_ops, err);
}

/* The daemon ends as NVIDIA documents. If it does not react, a signal ends it after QUIT_NS. */
static void quit_mps(struct environment *p)
{
	CLEANUP(strv_fini) struct strv env = STRV_INIT;
	const char *const argv[] = { mps_control(p), NULL };
	struct error err = ERROR_INIT;

	if (!p->mps || p->quit)
		return;
	if (base_env(p, &env, &err) < 0 || mps_env(p, &env, &err) < 0 ||
		proc_start(&p->quit, p->loop,
			&(struct child_spec){ .argv = argv,
				.env = (const char *const *)env.v,
				.input = "quit\n",
				.input_len = 5,
				.silence_ns = 10 * NS_PER_SEC },
			&quit_ops, p, &err) < 0)
		p->mps = proc_stop(p->mps);
}

/* --- preparation --- */

static bool has_dir_entry(const char *dir, const char *name)
{
	char path[PATH_MAX];
	struct error err = ERROR_INIT;

	return path_join(path, sizeof(path), dir, name, &err) == 0 && access(path, F_OK) == 0;
}

/* Returns 1 if everything is ready. */
static int check_environment_ready(struct environment *env, struct error *err)
{
	if (!bench_mode_mps(env->mode) && (env->mps || env->quit))
		return 0; /* the previous daemon ends first */
	if (bench_mode_mps(env->mode)) {
		if (env->mps_end.code != ERR_NONE) {
			error_copy(err, &env->mps_end);
			return -1;
		}
		if (!has_dir_entry(env->pipe, "control"))
			return 0;
	}
	if (!has_environment_slices(env))
		return 1;
	if (env->arbiter_end.code != ERR_NONE) {
		error_copy(err, &env->arbiter_end);
		return -1;
	}
	for (uint32_t id = env->first_id; id < env->next_id; id++) {
		char dir[PATH_MAX];

		if (slice_dir(dir, env, id, err) < 0)
			return -1;
		if (!has_dir_entry(dir, SLICE_SOCKET))
			return 0;
	}
	return 1;
}

static void notify_environment_done(struct environment *env, const struct error *err)
{
	environment_done_fn *done = STEAL_PTR(env->done);

	(void)uv_timer_stop(&env->timer);
	if (done)
		done(env->arg, err);
}

static void on_environment_timer(uv_timer_t *t)
{
	struct environment *env = t->data;
	struct error err = ERROR_INIT;
	int r = check_environment_ready(env, &err);

	if (r == 0 && time_mono_ns() > env->until_ns)
		r = error_set(&err, ERR_TIMEOUT, "mode %s was not ready in %d s",
			bench_mode_names[env->mode], (int)(READY_TIMEOUT_NS / NS_PER_SEC));
	if (r != 0)
		notify_environment_done(env, r < 0 ? &err : NULL);
}

static int slice_env(const struct environment *p, struct strv *env, uint32_t id,
	struct error *err)
{
	char dir[PATH_MAX], preload[2 * PATH_MAX];

	(void)snprintf(preload, sizeof(preload), "%s:%s", p->o->paths->cuda, p->o->paths->nvml);
	return slice_dir(dir, p, id, err) < 0 || env_set(env, SLICE_DIR_VARIABLE, dir, err) < 0
		       ? -1
		       : env_set(env, "LD_PRELOAD", preload, err);
}

static int limits_env(struct strv *env, const struct environment_pod *pod, struct error *err)
{
	char text[32];

	(void)snprintf(text, sizeof(text), "%.0f", pod->sm_share * MPS_PERCENT_MAX);
	if (pod->sm_share > 0 &&
		env_set(env, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", text, err) < 0)
		return -1;
	/* 0: the only GPU of the daemon. */
	(void)snprintf(text, sizeof(text), "0=%lluM", (unsigned long long)pod->memory >> 20);
	return pod->memory ? env_set(env, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", text, err) : 0;
}

static int pod_env(const struct environment *p, struct strv *env, size_t i,
	const struct environment_pod *pod, struct error *err)
{
	if (base_env(p, env, err) < 0)
		return -1;
	if (p->mode == BENCH_MIG)
		return env_set(env, "CUDA_VISIBLE_DEVICES", p->o->mig_uuids[i], err);
	if (env_set(env, "CUDA_VISIBLE_DEVICES", p->o->uuid, err) < 0)
		return -1;
	if (has_environment_slices(p) && slice_env(p, env, p->first_id + (uint32_t)i, err) < 0)
		return -1;
	if (!bench_mode_mps(p->mode))
		return 0;
	if (mps_env(p, env, err) < 0)
		return -1;
	return p->mode == BENCH_MPS ? 0 : limits_env(env, pod, err);
}

static void drop_envs(struct environment *env)
{
	for (size_t i = 0; i < env->n; i++)
		strv_fini(&env->envs[i]);
	free(env->envs);
	env->envs = NULL;
	env->n = 0;
}

int environment_check_mode(const struct environment *env, enum bench_mode m, size_t pods,
	struct error *err)
{
	if (m == BENCH_MIG && env->o->n_mig < pods)
		return error_set(err, ERR_UNSUPPORTED,
			"MIG: %zu devices are there for %zu pods; gpuslice mig makes them, and --allow-mig",
			env->o->n_mig, pods);
	if (m != BENCH_MIG && env->o->n_mig)
		return error_set(err, ERR_UNSUPPORTED,
			"the GPU is in MIG mode, in which pods cannot share the whole of it");
	return 0;
}

int environment_prepare(struct environment *env, enum bench_mode m,
	const struct environment_pod *pods, size_t n, environment_done_fn *done, void *arg,
	struct error *err)
{
	if (environment_check_mode(env, m, n, err) < 0)
		return -1;
	remove_slices(env);
	drop_envs(env);
	env->mode = m;
	env->observed = n && pods[0].observed;
	env->envs = calloc(n + 1, sizeof(*env->envs));
	if (!env->envs)
		return error_nomem(err);
	env->n = n;
	if (!bench_mode_mps(m))
		quit_mps(env);
	if ((has_environment_slices(env) && start_arbiter(env, err) < 0) ||
		(bench_mode_mps(m) && start_mps(env, err) < 0))
		return -1;
	for (size_t i = 0; i < n; i++) {
		if (has_environment_slices(env) &&
			make_slice(env, env->next_id++, &pods[i], err) < 0)
			return -1;
		if (pod_env(env, &env->envs[i], i, &pods[i], err) < 0)
			return -1;
	}
	env->done = done;
	env->arg = arg;
	env->until_ns = time_mono_ns() + READY_TIMEOUT_NS;
	(void)uv_timer_start(&env->timer, on_environment_timer, 0, READY_POLL_MS);
	return 0;
}

uint64_t environment_slice_memory(const struct environment_options *o, size_t n)
{
	return n ? o->memory / n : o->memory;
}

const struct strv *environment_get_env(const struct environment *env, size_t i)
{
	return &env->envs[i];
}

int environment_get_slice(const struct environment *env, size_t i, char dir[static PATH_MAX],
	char id[static ENVIRONMENT_ID_MAX], struct error *err)
{
	slice_id(id, env->first_id + (uint32_t)i);
	return slice_dir(dir, env, env->first_id + (uint32_t)i, err);
}

int environment_get_control(const struct environment *env, char path[static PATH_MAX],
	struct error *err)
{
	return path_join(path, PATH_MAX, env->run, CONTROL_SOCKET, err);
}

/* --- life --- */

int environment_new(struct environment **ret, uv_loop_t *loop,
	const struct environment_options *options, struct error *err)
{
	struct environment *env = calloc(1, sizeof(*env));
	char slices[PATH_MAX];

	if (!env)
		return error_nomem(err);
	env->loop = loop;
	env->o = options;
	env->next_id = env->first_id = 1;
	(void)uv_timer_init(loop, &env->timer);
	env->timer.data = env;
	if (path_join(env->state, PATH_MAX, options->dir, "state", err) < 0 ||
		path_join(env->run, PATH_MAX, options->dir, "run", err) < 0 ||
		path_join(env->pipe, PATH_MAX, options->dir, "mps", err) < 0 ||
		path_join(env->log, PATH_MAX, options->dir, "mps-log", err) < 0 ||
		path_join(slices, PATH_MAX, env->state, SLICES, err) < 0 ||
		dir_make(env->state, 0755, err) < 0 || dir_make(slices, 0755, err) < 0 ||
		dir_make(env->run, 0755, err) < 0 || dir_make(env->pipe, 0755, err) < 0 ||
		dir_make(env->log, 0755, err) < 0) {
		(void)environment_free(env);
		return -1;
	}
	*ret = env;
	return 0;
}

static void on_environment_timer_closed(uv_handle_t *h)
{
	struct environment *env = h->data;

	free(env);
}

struct environment *environment_free(struct environment *env)
{
	if (!env)
		return NULL;
	env->done = NULL;
	drop_envs(env);
	remove_slices(env);
	env->arbiter = proc_stop(env->arbiter);
	env->mps = proc_stop(env->mps);
	env->quit = proc_stop(env->quit);
	uv_close((uv_handle_t *)&env->timer, on_environment_timer_closed);
	return NULL;
}
