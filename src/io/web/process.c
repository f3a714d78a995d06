/* SPDX-License-Identifier: Apache-2.0 */
/* Starts, checks and ends the process gpuslice-web for the agent's thread (thread.c; internal.h). */
#include "io/web/internal.h"

#include "lib/base/fd.h"
#include "lib/base/paths.h"
#include "lib/base/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define NAME         "gpuslice-web"
#define EXIT_POLL_MS 5 /* between two checks whether a process has ended */

/* The copies are above 9: neither is overwritten when the other becomes descriptor 3 or 4 of the child. */
static int copy_up(int fd, int *ret, struct error *err)
{
	*ret = fcntl(fd, F_DUPFD_CLOEXEC, 10);
	return *ret < 0 ? error_sys(err, errno, "duplicate a descriptor") : 0;
}

static int spawn_web_process(const char *path, int sock, int page, pid_t *ret,
	struct error *err)
{
	char *argv[] = { (char *)(uintptr_t)NAME, NULL };
	const struct spawn_fd fds[] = {
		/* Not the agent's log: the process could fill it, forge lines in it, or make the agent wait for it. */
		{ 0, STDERR_FILENO },
		{ sock, WEB_FD_SOCKET },
		{ page, WEB_FD_SHM },
	};

	return spawn_helper(ret, path, argv, fds, ARRAY_LEN(fds), err);
}

static bool is_stuck(struct web_process *p)
{
	if (p->stuck && waitpid(p->stuck, NULL, WNOHANG) != 0)
		p->stuck = 0;
	return p->stuck;
}

int web_process_start(struct web_process *p, const char *path, int page_fd, struct error *err)
{
	CLEANUP(closep) int ours = -1;
	CLEANUP(closep) int theirs = -1;
	CLEANUP(closep) int sock = -1;
	CLEANUP(closep) int page = -1;
	char found[PATH_MAX];
	int pair[2];

	if (is_stuck(p))
		return error_set(err, ERR_UNAVAILABLE,
			"the last process hangs in the kernel and cannot be killed");
	if (!path && libexec_find(found, NAME, "io/web/worker", err) < 0)
		return -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return error_sys(err, errno, "make a socket for the web server");
	ours = pair[0];
	theirs = pair[1];
	if (copy_up(theirs, &sock, err) < 0 || copy_up(page_fd, &page, err) < 0 ||
		spawn_web_process(path ? path : found, sock, page, &p->pid, err) < 0)
		return -1;
	p->sock = steal_fd(&ours);
	return 0;
}

/* Waits up to @for_ns. True: the process has ended. */
static bool wait_web_process(pid_t pid, uint64_t for_ns, int *ret_status)
{
	uint64_t until_ns = time_mono_ns() + for_ns;
	pid_t r;

	while ((r = waitpid(pid, ret_status, WNOHANG)) == 0 && time_mono_ns() < until_ns)
		(void)poll(NULL, 0, EXIT_POLL_MS);
	if (r < 0)
		*ret_status = 0; /* other code has waited for the process */
	return r != 0;
}

static void format_exit_status(int status, char *how, size_t cap)
{
	if (WIFSIGNALED(status))
		(void)snprintf(how, cap, "ended by signal %d (%s)", WTERMSIG(status),
			strsignal(WTERMSIG(status)));
	else
		(void)snprintf(how, cap, "exited with status %d", WEXITSTATUS(status));
}

bool web_process_end(struct web_process *p, uint64_t grace_ns, char *how, size_t cap)
{
	bool ended;
	int status = 0;

	closep(&p->sock);
	if (p->pid <= 0)
		return true;
	ended = wait_web_process(p->pid, grace_ns, &status);
	if (!ended) {
		(void)kill(p->pid, SIGKILL);
		ended = wait_web_process(p->pid, WEB_KILL_NS, &status);
	}
	p->stuck = ended ? 0 : p->pid;
	p->pid = 0;
	if (ended)
		format_exit_status(status, how, cap);
	else
		(void)snprintf(how, cap, "hangs in the kernel and cannot be killed");
	return ended && status == 0;
}
