/* SPDX-License-Identifier: Apache-2.0 */
/* The node of a demo: its files, its GPUs, its stand-in kubelet, and the agent as a child process (demo.h). */
#include "tools/cli/demo/demo.h"

#include "lib/base/fd.h"
#include "lib/base/parse.h"
#include "lib/base/time.h"
#include "lib/base/paths.h"
#include "model/config/choice.h"
#include "io/nvml/monitor/monitor.h"
#include "testbed/sim/control/control.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOG_TAIL_BYTES 2048
#define NVML_NAME      "libnvidia-ml.so.1"

#ifndef GPUSLICE_LIBDIR
#	define GPUSLICE_LIBDIR "lib"
#endif
#ifndef GPUSLICE_DATADIR
#	define GPUSLICE_DATADIR "share"
#endif

/* --- places --- */

/* The first existing path among @candidates, which are relative to @base. */
static int find_demo_place(char *ret, const char *base, const char *const *candidates, size_t n,
	const char *what, struct error *err)
{
	for (size_t i = 0; i < n; i++) {
		char path[PATH_MAX], real[PATH_MAX];
		int len = snprintf(path, sizeof(path), "%s/%s", base, candidates[i]);

		if (len > 0 && (size_t)len < sizeof(path) && realpath(path, real)) {
			memcpy(ret, real, strlen(real) + 1);
			return 0;
		}
	}
	return error_set(err, ERR_NOT_FOUND,
		"%s is not beside this program: no '%s' from '%.200s'", what, candidates[0],
		base);
}

int demo_paths_find(struct demo_paths *p, const char *examples, struct error *err)
{
	static const char *const agents[] = { "gpusliced", "../../node/agent/gpusliced" };
	static const char *const libraries[] = { "../" GPUSLICE_LIBDIR
						 "/gpuslice/sim/" NVML_NAME,
		"../lib/gpuslice/sim/" NVML_NAME, "../../testbed/sim/nvml/" NVML_NAME };
	static const char *const manifests[] = { "../" GPUSLICE_DATADIR "/gpuslice/examples",
		"../../../../examples", "../../../../../examples" };
	char exe[PATH_MAX];
	ssize_t len = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	char *slash;

	if (len < 0)
		return error_sys(err, errno, "read '/proc/self/exe'");
	exe[len] = '\0';
	memcpy(p->self, exe, (size_t)len + 1);
	slash = strrchr(exe, '/');
	if (slash)
		*slash = '\0';
	if (find_demo_place(p->gpusliced, exe, agents, ARRAY_LEN(agents), "gpusliced", err) <
			0 ||
		find_demo_place(p->nvml, exe, libraries, ARRAY_LEN(libraries), "the simulator",
			err) < 0)
		return -1;
	if (examples) {
		(void)snprintf(p->examples, sizeof(p->examples), "%s", examples);
		return 0;
	}
	return find_demo_place(p->examples, exe, manifests, ARRAY_LEN(manifests), "examples/",
		err);
}

/* --- files --- */

static int make_dirs(struct demo_node *n, const char *dir, struct error *err)
{
	struct {
		char *ret;
		const char *name;
	} dirs[] = {
		{ n->kubelet_dir, "kubelet" },
		{ n->run_dir, "run" },
		{ n->sim_dir, "sim" },
		{ n->config_dir, "config" },
	};

	if (strlen(dir) >= sizeof(n->dir))
		return error_set(err, ERR_LIMIT, "'%s' is too long for sockets in it", dir);
	memcpy(n->dir, dir, strlen(dir) + 1);
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
		if (path_join(dirs[i].ret, sizeof(n->kubelet_dir), n->dir, dirs[i].name, err) <
				0 ||
			dir_make(dirs[i].ret, 0755, err) < 0)
			return -1;
	}
	return 0;
}

/* --- GPUs --- */

int demo_real_gpus(struct inventory **ret, struct error *err)
{
	struct gpu_monitor_options options = { .call_timeout_ns = 3 * NS_PER_SEC };
	struct inventory *inv = NULL;

	if (gpu_inventory_once(&inv, &options, err) < 0)
		return -1;
	if (inv->n == 0) {
		inv = inventory_free(inv);
		return error_set(err, ERR_NOT_FOUND, "the driver shows no GPU");
	}
	*ret = inv;
	return 0;
}

static int find_gpus(struct demo_node *n, const struct demo_node_options *o, struct error *err)
{
	struct gpu_monitor_options options = { .nvml_path = o->paths->nvml };
	CLEANUP(sim_control_close) struct sim_control node = { .state = NULL };

	if (!o->model)
		return demo_real_gpus(&n->gpus, err);
	/* Created here for the error text: NVML does not say why such a node is impossible. */
	if (sim_control_create(&node, o->model, n->sim_dir, /* force= */ false, /* seed= */ 0,
		    err) < 0)
		return error_prefix(err, "--node %s", o->model);
	if (setenv("GPUSLICE_SIM_NODE", o->model, 1) < 0 ||
		setenv("GPUSLICE_SIM_DIR", n->sim_dir, 1) < 0)
		return error_nomem(err);
	return gpu_inventory_once(&n->gpus, &options, err);
}

/* --- node --- */

int demo_node_start(struct demo_node *n, uv_loop_t *loop,
	const struct demo_node_options *options, const struct standin_ops *ops, void *arg,
	struct error *err)
{
	struct standin_mount mount = { .namespace_ = options->config_map_namespace,
		.name = options->config_map };
	struct standin_options node = { .mounts = &mount,
		.n_mounts = 1,
		.node_name = "node-1" };
	struct str_map labels = { 0 };
	int rc;

	*n = (struct demo_node){ .simulated = options->model != NULL };
	if (make_dirs(n, options->dir, err) < 0 || find_gpus(n, options, err) < 0)
		return -1;
	node.dir = n->kubelet_dir;
	mount.dir = n->config_dir;
	rc = str_map_set(&labels, CONFIG_NODE_LABEL, options->entry, err);
	if (rc == 0 && options->model)
		rc = str_map_set(&labels, "node.kubernetes.io/instance-type", options->model,
			err);
	node.labels = &labels;
	if (rc == 0)
		rc = standin_start(&n->standin, loop, &node, ops, arg, err);
	if (rc == 0)
		rc = standin_control_start(&n->control, loop, n->standin, err);
	str_map_fini(&labels);
	return rc;
}

/* The demo configures the agent by its command line only. No variable of the user's shell may change
 * the agent. */
static int make_demo_agent_env(struct strv *env, struct error *err)
{
	static const char *const kept[] = { "PATH=", "HOME=", "TMPDIR=", "LD_LIBRARY_PATH=",
		"ASAN_OPTIONS=", "UBSAN_OPTIONS=", "LSAN_OPTIONS=", "GPUSLICE_LIBEXEC=",
		"GPUSLICE_SIM_" };

	for (char **e = environ; *e; e++) {
		for (size_t i = 0; i < ARRAY_LEN(kept); i++) {
			if (strncmp(*e, kept[i], strlen(kept[i])) == 0 &&
				strv_add(env, *e, err) < 0)
				return -1;
		}
	}
	return 0;
}

/* Runs between fork() and exec() in a program with threads, so it makes only system calls. */
static void become_agent(char *const *argv, char *const *env, pid_t parent, int log_fd)
{
	sigset_t none;

	(void)setpgid(0, 0); /* Ctrl-C must not reach the agent; the demo kills the group */
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(127);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)signal(SIGPIPE, SIG_DFL);
	(void)dup2(log_fd, STDOUT_FILENO);
	(void)dup2(log_fd, STDERR_FILENO);
	(void)execve(argv[0], argv, env);
	_exit(127);
}

int demo_node_start_agent(struct demo_node *n, const struct demo_node_options *options,
	struct error *err)
{
	char config[NAME_MAX + 96], log_path[96], state_dir[96];
	CLEANUP(closep) int log_fd = -1;
	CLEANUP(strv_fini) struct strv env = STRV_INIT;
	const char *argv[16] = { options->paths->gpusliced, "--kubelet-dir", n->kubelet_dir,
		"--run-dir", n->run_dir, "--config-file", config, "--state-dir", state_dir };
	size_t argc = 9;
	pid_t parent = getpid();

	(void)snprintf(config, sizeof(config), "%s/%s", n->config_dir, options->entry);
	(void)snprintf(log_path, sizeof(log_path), "%s/agent.log", n->dir);
	(void)snprintf(state_dir, sizeof(state_dir), "%s/state", n->dir);
	if (n->simulated) {
		argv[argc++] = "--nvml";
		argv[argc++] = options->paths->nvml;
	}
	log_fd = open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (log_fd < 0)
		return error_sys(err, errno, "open '%s'", log_path);
	if (make_demo_agent_env(&env, err) < 0)
		return -1;
	n->agent = fork();
	if (n->agent < 0) {
		n->agent = 0;
		return error_sys(err, errno, "fork");
	}
	if (n->agent == 0)
		become_agent((char *const *)(uintptr_t)argv, env.v, parent, log_fd);
	(void)setpgid(n->agent, n->agent); /* in both processes: either may be first */
	return 0;
}

static void read_demo_agent_log(const struct demo_node *n, struct buf *b)
{
	char path[96];

	(void)snprintf(path, sizeof(path), "%s/agent.log", n->dir);
	if (file_read(path, b, NULL) < 0)
		buf_fini(b);
}

/* The last lines of the agent's log. */
static void read_tail(const struct demo_node *n, struct buf *b)
{
	CLEANUP(buf_fini) struct buf all = BUF_INIT(1U << 20);
	const char *text;

	read_demo_agent_log(n, &all);
	text = buf_str(&all);
	if (all.len > LOG_TAIL_BYTES)
		text += all.len - LOG_TAIL_BYTES;
	buf_puts(b, text);
}

unsigned demo_node_page_port(const struct demo_node *n)
{
	CLEANUP(buf_fini) struct buf all = BUF_INIT(1U << 20);
	char text[16];
	uint32_t port = 0;
	const char *at;

	read_demo_agent_log(n, &all);
	at = strstr(buf_str(&all), "the status page address=");
	at = at ? strstr(at, " port=") : NULL;
	if (!at)
		return 0;
	at += strlen(" port=");
	(void)snprintf(text, sizeof(text), "%.*s", (int)strcspn(at, " \n"), at);
	return parse_u32(text, &port) ? port : 0;
}

bool demo_node_agent_runs(struct demo_node *n, struct buf *why)
{
	int status;

	if (n->agent == 0)
		return false;
	if (waitpid(n->agent, &status, WNOHANG) != n->agent)
		return true;
	n->agent = 0;
	if (WIFSIGNALED(status))
		buf_printf(why, "gpusliced was ended by signal %d", WTERMSIG(status));
	else
		buf_printf(why, "gpusliced ended with code %d", WEXITSTATUS(status));
	buf_puts(why, ":\n");
	read_tail(n, why);
	return false;
}

/* Sends SIGTERM, waits up to 1 s, then kills the whole group. */
static void stop_agent(struct demo_node *n)
{
	const struct timespec pause = { .tv_nsec = 10 * NS_PER_MS };

	if (n->agent == 0)
		return;
	(void)kill(n->agent, SIGTERM);
	for (int i = 0; i < 100; i++) {
		if (waitpid(n->agent, NULL, WNOHANG) != 0)
			break;
		(void)nanosleep(&pause, NULL);
	}
	(void)kill(-n->agent, SIGKILL);
	(void)waitpid(n->agent, NULL, 0);
	n->agent = 0;
}

void demo_node_stop(struct demo_node *n)
{
	/* Stopping the stand-in runs the loop, which may draw. The redraw must not see a
	 * half-stopped node. */
	struct standin_control *control = STEAL_PTR(n->control);
	struct standin *standin = STEAL_PTR(n->standin);

	stop_agent(n);
	control = standin_control_stop(control);
	standin = standin_stop(standin);
	n->gpus = inventory_free(n->gpus);
	if (*n->dir)
		tree_remove(n->dir);
	*n = (struct demo_node){ .agent = 0 };
}
