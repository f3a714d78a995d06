/* SPDX-License-Identifier: Apache-2.0 */
#include "io/mig-editor/command.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/buf.h"
#include "lib/base/fd.h"
#include "lib/base/time.h"

#define OUTPUT_MAX    (64 * 1024)
#define LAST_LINE_MAX 200
#define END_POLL_MS   50
#define RESET_TRIES   6
#define RESET_WAIT_NS (1500 * NS_PER_MS)

/* In the child: system calls and exec. After a failure also dprintf() and strerror(). */
static void exec_mig_command(const struct mig_command *c, int out)
{
	sigset_t none;

	if (c->own_group)
		(void)setpgid(0, 0);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)signal(SIGPIPE, SIG_DFL);
	if (dup2(out, STDOUT_FILENO) < 0 || dup2(out, STDERR_FILENO) < 0)
		_exit(126);
	if (c->root && (chroot(c->root) < 0 || chdir("/") < 0))
		goto failed;
	if (c->workdir && *c->workdir && chdir(c->workdir) < 0)
		goto failed;
	if (c->env)
		(void)execvpe(c->file, c->argv, c->env);
	else
		(void)execvp(c->file, c->argv);
failed:
	(void)dprintf(STDERR_FILENO, "%s: %s\n", c->file, strerror(errno));
	_exit(errno == ENOENT ? 127 : 126);
}

/* Copies the last line that has text. */
static void copy_last_output_line(const struct buf *b, char *ret, size_t cap)
{
	const char *text = buf_str(b), *from = text, *to = text + b->len, *p;
	size_t n = 0;

	while (to > text && (unsigned char)to[-1] <= ' ')
		to--;
	for (p = text; p < to; p++) {
		if (*p == '\n')
			from = p + 1;
	}
	for (; from < to && n + 1 < cap; from++)
		ret[n++] = (unsigned char)*from >= ' ' && *from != 0x7f ? *from : '?';
	ret[n] = '\0';
}

static void add_command_output(struct buf *b, const char *part, size_t n, bool show)
{
	if (show)
		(void)!write(STDERR_FILENO, part, n);
	if (b->len + n > OUTPUT_MAX)
		buf_clear(b); /* only the last line is needed */
	buf_add(b, part, n);
}

/*
 * Reads the output of the process until it ends. Programs that the process leaves running may keep the
 * pipe open, or write, without end. So after the end only what is in the pipe counts.
 */
static int read_command_output(pid_t pid, int fd, bool show, struct buf *b, int *status,
	struct error *err)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	bool ended = false;
	size_t late = 0;
	char part[4096];

	while (late < OUTPUT_MAX) {
		int ready = poll(&p, 1, ended ? 0 : END_POLL_MS);
		ssize_t n = ready > 0 ? read(fd, part, sizeof(part)) : 0;

		if (n > 0) {
			add_command_output(b, part, (size_t)n, show);
			late += ended ? (size_t)n : 0;
		} else if (ready > 0 && (n == 0 || errno != EINTR)) {
			break;
		} else if (ready == 0 && ended) {
			break;
		}
		ended = ended || waitpid(pid, status, WNOHANG) == pid;
	}
	while (!ended) {
		ended = waitpid(pid, status, 0) == pid;
		if (!ended && errno != EINTR)
			return error_sys(err, errno, "wait for process %d", (int)pid);
	}
	return 0;
}

static int status_error(const struct mig_command *c, int status, const struct buf *output,
	struct error *err)
{
	char line[LAST_LINE_MAX];

	copy_last_output_line(output, line, sizeof(line));
	if (WIFSIGNALED(status))
		return error_set(err, ERR_UNAVAILABLE, "'%s' was ended by signal %d%s%s",
			c->file, WTERMSIG(status), *line ? ": " : "", line);
	return error_set(err, ERR_UNAVAILABLE, "'%s' ended with exit status %d%s%s", c->file,
		WEXITSTATUS(status), *line ? ": " : "", line);
}

/* ERR_UNAVAILABLE: the program ended by a signal or with another status than 0; the text has its
 * last line. */
static int mig_command_run(const struct mig_command *c, struct error *err)
{
	CLEANUP(buf_fini) struct buf output = BUF_INIT(OUTPUT_MAX + 1);
	CLEANUP(closep) int in = -1;
	CLEANUP(closep) int out = -1;
	int pair[2], status = 0;
	pid_t pid;

	if (pipe2(pair, O_CLOEXEC) < 0)
		return error_sys(err, errno, "make a pipe");
	in = pair[0];
	out = pair[1];
	(void)fflush(NULL);
	pid = fork();
	if (pid < 0)
		return error_sys(err, errno, "fork");
	if (pid == 0)
		exec_mig_command(c, out);
	closep(&out);
	out = -1;
	if (read_command_output(pid, in, c->show, &output, &status, err) < 0)
		return -1;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	return status_error(c, status, &output, err);
}

/* --- hooks --- */

static bool is_same_variable(const char *a, const char *b)
{
	size_t n = strcspn(a, "=");

	return n == strcspn(b, "=") && !memcmp(a, b, n);
}

static int build_hook_env(struct strv *ret, const struct mig_hook *h, const struct strv *env,
	struct error *err)
{
	for (size_t i = 0; i < h->envs.n; i++) {
		bool over = false;

		for (size_t k = 0; k < env->n && !over; k++)
			over = is_same_variable(env->v[k], h->envs.v[i]);
		if (!over && strv_add(ret, h->envs.v[i], err) < 0)
			return -1;
	}
	for (size_t k = 0; k < env->n; k++) {
		if (strv_add(ret, env->v[k], err) < 0)
			return -1;
	}
	return 0;
}

static int run_mig_hook(const struct mig_hook *h, const struct strv *env, bool show,
	struct error *err)
{
	CLEANUP(strv_fini) struct strv envs = STRV_INIT;
	CLEANUP(strv_fini) struct strv argv = STRV_INIT;
	char *none[] = { NULL };
	struct mig_command c = { .file = h->command, .workdir = h->workdir, .show = show };

	if (build_hook_env(&envs, h, env, err) < 0 || strv_add(&argv, h->command, err) < 0)
		return -1;
	for (size_t i = 0; i < h->args.n; i++) {
		if (strv_add(&argv, h->args.v[i], err) < 0)
			return -1;
	}
	c.argv = argv.v;
	c.env = envs.n ? envs.v : none;
	return mig_command_run(&c, err);
}

int mig_hook_run(const struct mig_hook_list *list, const struct strv *env, bool show,
	struct error *err)
{
	for (size_t i = 0; i < list->n; i++) {
		if (run_mig_hook(&list->hooks[i], env, show, err) < 0)
			return error_prefix(err, "hook %s", list->name);
	}
	return 0;
}

/* --- resets --- */

int mig_reset_gpus(const char *driver_root, const char *const *bus_ids, uint32_t n, bool show,
	struct error *err)
{
	static const char inside[] = "/usr/bin/nvidia-smi";
	CLEANUP(buf_fini) struct buf ids = BUF_INIT(OUTPUT_MAX);
	char path[PATH_MAX], *argv[5], words[4][16] = { "nvidia-smi", "-r", "-i" };
	struct mig_command c = { .file = "nvidia-smi",
		.argv = argv,
		.own_group = true,
		.show = show };
	struct timespec ts = { .tv_sec = RESET_WAIT_NS / NS_PER_SEC,
		.tv_nsec = RESET_WAIT_NS % NS_PER_SEC };

	for (uint32_t i = 0; i < n; i++)
		buf_printf(&ids, "%s%s", i ? "," : "", bus_ids[i]);
	if (!buf_ok(&ids))
		return error_nomem(err);
	for (size_t i = 0; i < 3; i++)
		argv[i] = words[i];
	argv[3] = ids.data;
	argv[4] = NULL;
	if (driver_root && *driver_root && strcmp(driver_root, "/") != 0 &&
		snprintf(path, sizeof(path), "%s%s", driver_root, inside) < (int)sizeof(path) &&
		access(path, X_OK) == 0) {
		c.root = driver_root;
		c.file = inside;
	}
	for (int i = 1;; i++) {
		if (mig_command_run(&c, err) == 0)
			return 0;
		if (i == RESET_TRIES || !err || !strcasestr(err->msg, "in use"))
			return error_prefix(err, "reset");
		(void)nanosleep(&ts, NULL);
	}
}
