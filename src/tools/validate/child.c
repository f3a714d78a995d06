/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/validate/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/fd.h"
#include "lib/base/time.h"

#define NOTES_FD     3
#define GIVE_UP_NS   (2 * NS_PER_SEC)
#define LAST_LINE    200
#define POLL_STEP_MS 5

/* The child's report that it cannot become the program: errno and the step that failed. */
enum step { STEP_CHROOT = 1, STEP_DESCRIPTORS, STEP_EXEC };

struct child_failure {
	int sys;
	enum step step;
};

/* The environment with @more in front. A name in @more replaces the inherited one. */
static char **join_env(const char *const *more)
{
	size_t n = 0, k = 0, own = 0;
	char **env;

	while (more && more[n])
		n++;
	while (environ[own])
		own++;
	env = calloc(n + own + 1, sizeof(*env));
	for (; env && k < n; k++)
		memcpy(&env[k], &more[k], sizeof(*env));
	for (size_t i = 0; env && i < own; i++) {
		bool covered = false;

		for (size_t j = 0; j < n && !covered; j++) {
			size_t len = strcspn(more[j], "=");

			covered = strncmp(environ[i], more[j], len + 1) == 0;
		}
		if (!covered)
			env[k++] = environ[i];
	}
	return env;
}

static void report_child_trouble(int fd, enum step step)
{
	struct child_failure t = { .sys = errno, .step = step };

	(void)!write(fd, &t, sizeof(t));
	_exit(127);
}

/* In the child, after fork: only system calls. */
static void exec_child(const struct child_options *o, char *const *argv, char **env, int out,
	int trouble)
{
	sigset_t none;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)setpgid(0, 0);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)signal(SIGPIPE, SIG_DFL);
	if (o->root && strcmp(o->root, "/") != 0 && (chroot(o->root) < 0 || chdir("/") < 0))
		report_child_trouble(trouble, STEP_CHROOT);
	if (o->notes) {
		if (dup2(out, NOTES_FD) < 0)
			report_child_trouble(trouble, STEP_DESCRIPTORS);
	} else if (dup2(out, STDOUT_FILENO) < 0 || dup2(out, STDERR_FILENO) < 0) {
		report_child_trouble(trouble, STEP_DESCRIPTORS);
	}
	(void)execve(argv[0], argv, env);
	report_child_trouble(trouble, STEP_EXEC);
}

static int start_error(const struct child_options *o, const struct child_failure *t,
	struct error *err)
{
	if (t->step == STEP_CHROOT)
		return error_sys(err, t->sys, "change the root to '%s'", o->root);
	return error_sys(err, t->sys, "run '%s'", o->argv[0]);
}

/* Both ends get numbers above the descriptors that the child uses. */
static int open_pair(bool notes, int pair[2], struct error *err)
{
	int raw[2];
	int r = notes ? socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, raw)
		      : pipe2(raw, O_CLOEXEC);

	if (r < 0)
		return error_sys(err, errno, "make a pipe");
	for (int i = 0; i < 2; i++) {
		pair[i] = fcntl(raw[i], F_DUPFD_CLOEXEC, 10);
		r = pair[i] < 0 ? -1 : r;
		(void)close(raw[i]);
	}
	return r < 0 ? error_sys(err, errno, "duplicate a descriptor") : 0;
}

/*
 * Reads the child's report until the child's end of the pipe closes, which exec does. Returns the
 * number of bytes; 0: the child became the program; < 0: the deadline passed.
 */
static ssize_t read_start_status(int fd, uint64_t deadline_ns, struct child_failure *ret)
{
	for (;;) {
		uint64_t now = time_mono_ns();
		struct pollfd p = { .fd = fd, .events = POLLIN };
		ssize_t n;

		if (now >= deadline_ns)
			return -1;
		if (poll(&p, 1, (int)((deadline_ns - now) / NS_PER_MS) + 1) <= 0)
			continue;
		n = read(fd, ret, sizeof(*ret));
		if (n >= 0 || errno != EINTR)
			return n < 0 ? 0 : n;
	}
}

int child_start(struct validate_child *c, const struct child_options *o, struct error *err)
{
	CLEANUP(freep) char **env = join_env(o->env);
	CLEANUP(closep) int mine = -1;
	CLEANUP(closep) int theirs = -1;
	CLEANUP(closep) int hear = -1;
	CLEANUP(closep) int say = -1;
	int pair[2] = { -1, -1 };
	struct child_failure t;
	struct validate_child started;
	char *const *argv;
	ssize_t n;
	pid_t pid;
	int r;

	if (!env)
		return error_nomem(err);
	memcpy(&argv, &o->argv, sizeof(argv));
	r = open_pair(o->notes, pair, err);
	mine = pair[0];
	theirs = pair[1];
	if (r < 0)
		return -1;
	pair[0] = pair[1] = -1;
	r = open_pair(/* notes= */ false, pair, err);
	hear = pair[0];
	say = pair[1];
	if (r < 0)
		return -1;
	pid = fork();
	if (pid < 0)
		return error_sys(err, errno, "fork");
	if (pid == 0)
		exec_child(o, argv, env, theirs, say);
	closep(&say);
	say = -1;
	started = (struct validate_child){ .pid = pid, .fd = steal_fd(&mine) };
	n = read_start_status(hear, o->deadline_ns, &t);
	if (n < 0)
		(void)error_set(err, ERR_TIMEOUT, "'%s' could not be started in time",
			o->argv[0]);
	else if (n == (ssize_t)sizeof(t))
		(void)start_error(o, &t, err);
	if (n != 0) {
		child_fini(&started);
		return -1;
	}
	*c = started;
	return 0;
}

static bool wait_until(pid_t pid, uint64_t deadline_ns, int *ret_status)
{
	for (;;) {
		struct timespec ts = { .tv_nsec = POLL_STEP_MS * (long)NS_PER_MS };
		pid_t r = waitpid(pid, ret_status, WNOHANG);

		if (r == pid || (r < 0 && errno != EINTR))
			return r == pid;
		if (time_mono_ns() >= deadline_ns)
			return false;
		(void)nanosleep(&ts, NULL);
	}
}

bool child_end(struct validate_child *c, uint64_t deadline_ns, char *ret_how, size_t cap)
{
	int status = 0;
	bool ended = c->pid > 0 && wait_until(c->pid, deadline_ns, &status);

	if (!ended) {
		child_fini(c);
		(void)snprintf(ret_how, cap, "did not end in time");
		return false;
	}
	c->pid = 0;
	child_fini(c);
	if (WIFSIGNALED(status))
		(void)snprintf(ret_how, cap, "ended by signal %d (%s)", WTERMSIG(status),
			strsignal(WTERMSIG(status)));
	else
		(void)snprintf(ret_how, cap, "exited with status %d", WEXITSTATUS(status));
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void child_fini(struct validate_child *c)
{
	int status;

	if (c->pid > 0) {
		/* The group as well: children of a script would keep the pipe open. */
		(void)kill(-c->pid, SIGKILL);
		(void)kill(c->pid, SIGKILL);
		(void)wait_until(c->pid, time_mono_ns() + GIVE_UP_NS, &status);
	}
	if (c->fd >= 0)
		(void)close(c->fd);
	*c = (struct validate_child)CHILD_INIT;
}

/* Copies the last line that has text, for a message. */
static void copy_last_child_line(const struct buf *b, char *ret, size_t cap)
{
	const char *text = buf_str(b);
	size_t end = b->len, start;

	while (end > 0 && (unsigned char)text[end - 1] <= ' ')
		end--;
	for (start = end; start > 0 && text[start - 1] != '\n';)
		start--;
	(void)snprintf(ret, cap, "%.*s", (int)(end - start), text + start);
}

/* Reads until the child's end closes. False: the deadline passed first. */
static bool read_output(int fd, uint64_t deadline_ns, struct buf *output)
{
	for (;;) {
		uint64_t now = time_mono_ns();
		struct pollfd p = { .fd = fd, .events = POLLIN };
		char chunk[4096];
		ssize_t n;

		if (now >= deadline_ns)
			return false;
		if (poll(&p, 1, (int)((deadline_ns - now) / NS_PER_MS) + 1) <= 0)
			continue;
		n = read(fd, chunk, sizeof(chunk));
		if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
			return true;
		if (n > 0 && output->len + (size_t)n < output->max)
			buf_add(output, chunk, (size_t)n);
	}
}

int child_run(const struct child_options *options, uint64_t timeout_ns, struct buf *output,
	struct error *err)
{
	uint64_t deadline = time_mono_ns() + timeout_ns;
	CLEANUP(child_fini) struct validate_child c = CHILD_INIT;
	struct child_options o = *options;
	char how[96], line[LAST_LINE];

	o.deadline_ns = deadline;
	if (child_start(&c, &o, err) < 0)
		return -1;
	if (!read_output(c.fd, deadline, output))
		return error_set(err, ERR_TIMEOUT, "'%s' did not come back in time",
			options->argv[0]);
	if (child_end(&c, deadline, how, sizeof(how)))
		return 0;
	copy_last_child_line(output, line, sizeof(line));
	return error_set(err, ERR_UNAVAILABLE, "'%s' %s%s%s", options->argv[0], how,
		line[0] ? ": " : "", line);
}
