/* SPDX-License-Identifier: Apache-2.0 */
/* The servers of the control daemon: start, settings, questions and stop (control.h). */
#include "testbed/sim/mps/control/control.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/fd.h"
#include "lib/base/time.h"
#include "testbed/sim/mps/link.h"
#include "testbed/sim/mps/log.h"
#include "testbed/sim/location.h"

#define PROGRAM "nvidia-cuda-mps-server"

struct mps_server *servers_find(const struct mps_control_daemon *c, pid_t pid)
{
	struct mps_server *s = c->servers;

	while (s && s->pid != pid)
		s = s->next;
	return s;
}

struct mps_server *servers_of(const struct mps_control_daemon *c, uid_t uid)
{
	struct mps_server *s = c->servers;

	while (s && !c->multiuser && s->uid != uid)
		s = s->next;
	return s;
}

/* Finds the server program in the directory of this program. */
static bool find_server_program(char *ret, size_t cap)
{
	char self[SIM_PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	const char *slash;

	self[n > 0 ? n : 0] = '\0';
	slash = strrchr(self, '/');
	return slash &&
	       snprintf(ret, cap, "%.*s/" PROGRAM, (int)(slash - self), self) < (int)cap;
}

/* Runs in the child. The server keeps the lock, so that no other daemon takes the directory while it lives. */
static _Noreturn void become_server(const struct mps_control_daemon *c, uid_t uid,
	const char *program)
{
	char name[] = PROGRAM, option[] = "-multiuser-server";
	char *argv[] = { name, c->multiuser ? option : NULL, NULL };
	sigset_t none;

	mps_log(c->log_fd, "Control", "Starting new server %d for user %u", (int)getpid(), uid);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)fcntl(c->lock, F_SETFD, 0);
	if (uid != getuid() && (setgroups(0, NULL) < 0 || setgid(uid) < 0 || setuid(uid) < 0)) {
		mps_log(c->log_fd, "Control", "Failed to start server using uid %u, error: %s",
			uid, strerror(errno));
		_exit(1);
	}
	(void)execv(program, argv);
	_exit(127);
}

struct mps_server *servers_start(struct mps_control_daemon *c, uid_t uid)
{
	struct mps_server *s = calloc(1, sizeof(*s));
	char program[SIM_PATH_MAX];

	/* The one server for all users runs as the daemon's user. */
	if (c->multiuser)
		uid = c->uid;
	if (!s || !find_server_program(program, sizeof(program))) {
		free(s);
		return NULL;
	}
	*s = (struct mps_server){ .uid = uid, .fd = -1, .settings = c->defaults };
	s->pid = fork();
	if (s->pid == 0)
		become_server(c, uid, program);
	if (s->pid < 0) {
		free(s);
		return NULL;
	}
	s->next = c->servers;
	c->servers = s;
	return s;
}

void servers_send_settings(struct mps_server *s)
{
	struct mps_packet p = { .op = MPS_SETTINGS, .settings = s->settings };

	if (s->fd >= 0)
		(void)mps_send(s->fd, &p, -1, MSG_DONTWAIT);
}

static void on_mps_server_state(struct mps_control_daemon *c, struct mps_server *s,
	uint32_t state)
{
	bool first = s->state == MPS_INITIALIZING;

	s->state = state == MPS_FAULT ? MPS_FAULT : MPS_ACTIVE;
	if (!first)
		return;
	control_log(c, "NEW SERVER %d: Ready", (int)s->pid);
	servers_send_settings(s);
	conn_serve_waiting(c);
}

void servers_read(struct mps_control_daemon *c, struct mps_server *s)
{
	struct mps_packet p;

	switch (mps_receive(s->fd, &p, NULL, MSG_DONTWAIT)) {
	case MPS_GONE:
		(void)close(steal_fd(&s->fd));
		break;
	case MPS_RECEIVED:
		if (p.op == MPS_STATE)
			on_mps_server_state(c, s, p.status);
		break;
	case MPS_RETRY:
		break;
	}
}

void servers_retry_waiting(struct mps_control_daemon *c, struct mps_server *s)
{
	s->behind = false;
	conn_serve_waiting(c);
}

bool servers_query(struct mps_control_daemon *c, struct mps_server *s, struct mps_packet *p)
{
	if (s->fd < 0 || !mps_send(s->fd, p, -1, MSG_DONTWAIT))
		return false;
	for (;;) {
		struct pollfd f = { .fd = s->fd, .events = POLLIN };

		if (poll(&f, 1, -1) <= 0)
			continue;
		switch (mps_receive(s->fd, p, NULL, MSG_DONTWAIT)) {
		case MPS_GONE:
			return false;
		case MPS_RECEIVED:
			if (p->op == MPS_RESULT)
				return true;
			if (p->op == MPS_STATE)
				on_mps_server_state(c, s, p->status);
			break;
		case MPS_RETRY:
			break;
		}
	}
}

/*
 * Asks a server once to stop. Returns the number of its connections: if there are any, the server goes on, and the
 * daemon asks again later.
 */
static uint64_t try_stop(struct mps_control_daemon *c, struct mps_server *s, bool backoff)
{
	struct mps_packet p = { .op = MPS_STOP };

	control_log(c, "Try shutting down server %d, backoff is %s", (int)s->pid,
		backoff ? "enabled" : "disabled");
	if (!servers_query(c, s, &p))
		return 0;
	if (p.id)
		control_log(c,
			"Server %d has %u active worker threads. Server will not shutdown.",
			(int)s->pid, (unsigned)p.id);
	return p.id;
}

static void stop_try(struct mps_control_daemon *c, struct mps_server *s)
{
	uint64_t busy;

	/* The daemon asks a server that has not begun at the next try. */
	s->try_at_ns = time_mono_ns() + CONTROL_BACKOFF_MS * NS_PER_MS;
	if (s->fd < 0 || s->state == MPS_INITIALIZING)
		return;
	busy = try_stop(c, s, s->backoff_ms != 0);
	s->try_at_ns = UINT64_MAX;
	if (!busy)
		return;
	s->backoff_ms = s->backoff_ms ? s->backoff_ms * 2 : CONTROL_BACKOFF_MS;
	s->try_at_ns = time_mono_ns() + s->backoff_ms * NS_PER_MS;
	control_log(c, "Control will try shutting down server %d again in at most %ums",
		(int)s->pid, s->backoff_ms);
}

void servers_stop(struct mps_control_daemon *c, struct mps_server *s)
{
	if (s->stopping)
		return;
	s->stopping = true;
	stop_try(c, s);
}

void servers_stop_now(struct mps_control_daemon *c, struct mps_server *s)
{
	struct mps_packet p = { .op = MPS_STOP, .id = 1 };

	control_log(c, "Force shutting down server %d", (int)s->pid);
	s->stopping = true;
	s->try_at_ns = UINT64_MAX;
	(void)servers_query(c, s, &p);
}

/* NVIDIA's daemon stays unusable once the time of `quit -t` is over (580.159.04). */
static void force_quit(struct mps_control_daemon *c)
{
	for (struct mps_server *s = c->servers; s; s = s->next) {
		(void)try_stop(c, s, false);
		control_log(c, "Force shutting down server %d", (int)s->pid);
		s->try_at_ns = UINT64_MAX;
	}
	c->wedged = true;
}

void servers_tick(struct mps_control_daemon *c, uint64_t now_ns)
{
	for (struct mps_server *s = c->servers; s; s = s->next)
		if (s->stopping && now_ns >= s->try_at_ns)
			stop_try(c, s);
	if (c->quitting && !c->wedged && c->servers && now_ns >= c->force_at_ns)
		force_quit(c);
	if (c->quitting && !c->wedged && !c->servers)
		c->done = true;
}

uint64_t servers_next_ns(const struct mps_control_daemon *c)
{
	uint64_t next = c->quitting && !c->wedged ? c->force_at_ns : UINT64_MAX;

	for (const struct mps_server *s = c->servers; s; s = s->next)
		if (s->stopping && s->try_at_ns < next)
			next = s->try_at_ns;
	return next;
}

void servers_reap(struct mps_control_daemon *c)
{
	int status;

	for (struct mps_server **at = &c->servers; *at;) {
		struct mps_server *s = *at;

		if (waitpid(s->pid, &status, WNOHANG) != s->pid) {
			at = &s->next;
			continue;
		}
		*at = s->next;
		/* A server killed by a signal counts as 0 (measured). */
		control_log(c, "Server %d exited with status %d", (int)s->pid,
			WIFEXITED(status) ? WEXITSTATUS(status) : 0);
		if (s->state == MPS_INITIALIZING)
			conn_refuse_waiting(c, s->uid);
		if (s->fd >= 0)
			(void)close(s->fd);
		free(s);
	}
	if (!c->quitting)
		conn_serve_waiting(c);
}
