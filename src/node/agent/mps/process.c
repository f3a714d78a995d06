/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/mps/process.h"

#include "node/agent/mps/supervisor.h"
#include "lib/base/fd.h"
#include "lib/base/paths.h"
#include "lib/base/parse.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* --- the environment of a daemon and of its commands --- */

#define SHM_DRIVER 580 /* from this driver on, the shared memory of MPS is anonymous */

extern char **environ;

static bool is_of_mps(const char *v)
{
	return !strncmp(v, "CUDA_MPS_", 9) || !strncmp(v, "CUDA_VISIBLE_DEVICES=", 21);
}

static bool add_mps_env_variable(char **env, size_t *n, const char *name, const char *value)
{
	if (asprintf(&env[*n], "%s=%s", name, value) < 0) {
		env[*n] = NULL;
		return false;
	}
	(*n)++;
	return true;
}

void mps_env_free(char **env)
{
	for (size_t i = 0; env && env[i]; i++)
		free(env[i]);
	free(env);
}

/* Servers see only the devices of their daemon, so a fault on a device of another daemon does not affect them. */
static char *format_visible_devices(const struct strv *uuids)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(GPU_NODE_MAX * (GPU_UUID_MAX + 1));

	for (size_t i = 0; i < uuids->n; i++)
		buf_printf(&b, "%s%s", i ? "," : "", uuids->v[i]);
	return buf_steal(&b);
}

char **mps_supervisor_env(const struct mps_supervisor *sup)
{
	CLEANUP(freep) char *devices = format_visible_devices(&sup->dir.devices);
	size_t n = 0, have = 0;
	char **env;

	while (environ[have])
		have++;
	env = devices ? calloc(have + 4, sizeof(*env)) : NULL;
	if (!env)
		return NULL;
	for (size_t i = 0; i < have; i++) {
		if (is_of_mps(environ[i]))
			continue;
		env[n] = strdup(environ[i]);
		if (!env[n++]) {
			mps_env_free(env);
			return NULL;
		}
	}
	if (!add_mps_env_variable(env, &n, "CUDA_MPS_PIPE_DIRECTORY", sup->dir.pipe) ||
		!add_mps_env_variable(env, &n, "CUDA_MPS_LOG_DIRECTORY", sup->dir.log_dir) ||
		!add_mps_env_variable(env, &n, "CUDA_VISIBLE_DEVICES", devices)) {
		mps_env_free(env);
		return NULL;
	}
	return env;
}

bool mps_needs_shm(const struct mps *m)
{
	const char *driver = m->c.facts->node.inv ? m->c.facts->node.inv->driver_version : "";
	char major[8];
	uint32_t n;

	(void)snprintf(major, sizeof(major), "%.*s", (int)strcspn(driver, "."), driver);
	return parse_u32(major, &n) && n < SHM_DRIVER;
}

/* --- the process --- */

#define HELPER   "gpuslice-mps"
#define ARGS_MAX 16

/*
 * A daemon: a child of this agent, or adopted. Freed one iteration of the loop after its supervisor has let it go.
 */
struct mps_process {
	uv_process_t child;
	uv_poll_t poll; /* of .pidfd */
	int pidfd;      /* -1: a child of this agent */
	pid_t pid;
	struct mps_supervisor *supervisor; /* NULL: no supervisor */
};

pid_t mps_process_pid(const struct mps_supervisor *sup)
{
	return sup->process ? sup->process->pid : 0;
}

static void on_mps_process_closed(uv_handle_t *h)
{
	struct mps_process *p = h->data;

	closep(&p->pidfd);
	free(p);
}

static void close_it(struct mps_process *p)
{
	if (p->pidfd >= 0)
		uv_close((uv_handle_t *)&p->poll, on_mps_process_closed);
	else
		uv_close((uv_handle_t *)&p->child, on_mps_process_closed);
}

/*
 * Kills the servers that outlive their daemon: servers end with their daemon, except a stopped one. While the
 * process group has a member, the kernel gives its number to no other process. If a process @pid exists, the group
 * is gone.
 */
static void kill_group(pid_t pid)
{
	if (getpgid(pid) < 0 && errno == ESRCH)
		(void)kill(-pid, SIGKILL);
}

static void end_mps_process(struct mps_process *p, const char *how)
{
	struct mps_supervisor *sup = p->supervisor;

	kill_group(p->pid);
	close_it(p);
	if (!sup)
		return;
	sup->process = NULL;
	sup->ended(sup, how);
}

static void on_mps_process_exit(uv_process_t *c, int64_t status, int number)
{
	char how[64];

	if (number)
		(void)snprintf(how, sizeof(how), "by signal %d (%s)", number,
			strsignal(number));
	else
		(void)snprintf(how, sizeof(how), "with status %d", (int)status);
	end_mps_process(c->data, how);
}

static void on_pidfd(uv_poll_t *h, int status, int events)
{
	(void)status;
	(void)events;
	(void)uv_poll_stop(h);
	end_mps_process(h->data, "(it was not this agent's child, so how is not known)");
}

static int spawn_mps_control(struct mps_process *p, struct mps_supervisor *sup,
	struct error *err)
{
	char helper[PATH_MAX], control[PATH_MAX], name[] = HELPER, run[] = "run";
	char place[] = "--place", log[] = "--log", shm[] = "--shm", f[] = "-f";
	char multi[] = "-multiuser-server";
	char *argv[ARGS_MAX] = { name, place, sup->dir.dir, log, sup->dir.log };
	uv_stdio_container_t io[] = { { .flags = UV_IGNORE }, { .flags = UV_IGNORE },
		{ .flags = UV_INHERIT_FD, .data.fd = STDERR_FILENO } };
	uv_process_options_t o = { .exit_cb = on_mps_process_exit,
		.file = helper,
		.args = argv,
		.flags = UV_PROCESS_DETACHED, /* leader of a session: see kill_group() */
		.stdio_count = ARRAY_LEN(io),
		.stdio = io };
	size_t n = 5;
	int r;

	if (libexec_find(helper, HELPER, "node/agent/mps", err) < 0 ||
		mps_control_find(control, sup->mps->c.options.control,
			sup->mps->c.facts->config->container_driver_root, err) < 0)
		return -1;
	if (mps_needs_shm(sup->mps)) {
		argv[n++] = shm;
		argv[n++] = sup->dir.shm;
	}
	argv[n++] = run;
	argv[n++] = control;
	argv[n++] = f;
	if (geteuid() == 0 && !sup->no_multiuser)
		argv[n++] = multi;
	o.env = mps_supervisor_env(sup);
	if (!o.env)
		return error_nomem(err);
	r = uv_spawn(sup->mps->c.loop, &p->child, &o);
	mps_env_free(o.env);
	p->child.data = p;
	return r < 0 ? error_set(err, ERR_IO, "start '%s': %s", helper, uv_strerror(r)) : 0;
}

int mps_process_start(struct mps_supervisor *sup, struct error *err)
{
	struct mps_process *p = calloc(1, sizeof(*p));

	if (!p)
		return error_nomem(err);
	p->pidfd = -1;
	p->child.data = p;
	if (spawn_mps_control(p, sup, err) < 0) {
		/* uv_spawn() initializes its handle also when it fails. */
		if (p->child.loop)
			close_it(p);
		else
			free(p);
		return -1;
	}
	p->pid = p->child.pid;
	p->supervisor = sup;
	sup->process = p;
	return 0;
}

bool mps_process_adopt(struct mps_supervisor *sup)
{
	struct mps_lock_owner owner = mps_lock_find_owner(sup->dir.dir);
	CLEANUP(closep)
	int fd = owner.pid > 0 ? (int)syscall(SYS_pidfd_open, owner.pid, 0) : -1;
	struct mps_process *p;

	/* Checked again: while the pidfd is open, the PID cannot become another process's. */
	if (fd < 0 || !mps_lock_owner_is_alive(&owner))
		return false;
	p = calloc(1, sizeof(*p));
	if (!p)
		return false;
	p->pidfd = steal_fd(&fd);
	p->pid = owner.pid;
	p->supervisor = sup;
	(void)uv_poll_init(sup->mps->c.loop, &p->poll, p->pidfd);
	p->poll.data = p;
	(void)uv_poll_start(&p->poll, UV_READABLE, on_pidfd);
	sup->process = p;
	return true;
}

void mps_process_kill(struct mps_supervisor *sup)
{
	if (sup->process)
		(void)kill(-sup->process->pid, SIGKILL);
}

void mps_process_leave(struct mps_supervisor *sup)
{
	struct mps_process *p = sup->process;

	sup->process = NULL;
	if (!p)
		return;
	p->supervisor = NULL;
	close_it(p);
}
