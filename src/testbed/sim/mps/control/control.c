/* SPDX-License-Identifier: Apache-2.0 */
#include "testbed/sim/mps/control/control.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/base/fd.h"
#include "lib/base/time.h"
#include "testbed/sim/mps/link.h"
#include "testbed/sim/mps/log.h"
#include "testbed/sim/location.h"

#define BACKLOG   128
#define COPY_SIZE 4096
#define NEW       ".new"

/* Copies without regard to lines: each write to the pipe is one whole line. */
static void copy_log(const struct mps_control_daemon *c)
{
	char text[COPY_SIZE];
	ssize_t n;

	while (c->log_pipe >= 0 && (n = read(c->log_pipe, text, sizeof(text))) > 0)
		(void)!write(c->server_log_fd, text, (size_t)n);
}

void control_log(const struct mps_control_daemon *c, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	/* Lines that servers wrote earlier come first. */
	copy_log(c);
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	mps_log(c->log_fd, "Control", "%s", text);
}

/* --- files: all in the working directory, which is the pipe directory --- */

/* The caller has the lock, so an existing socket belongs to an older daemon. */
static int listen_mps_socket(const char *name, mode_t mode)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	(void)snprintf(sa.sun_path, sizeof(sa.sun_path), "%s" NEW, name);
	(void)unlink(sa.sun_path);
	/* The name appears once the socket serves: no client meets a half-made socket. */
	if (fd >= 0 && bind(fd, (const struct sockaddr *)&sa, sizeof(sa)) == 0 &&
		chmod(sa.sun_path, mode) == 0 && listen(fd, BACKLOG) == 0 &&
		rename(sa.sun_path, name) == 0)
		return fd;
	if (fd >= 0)
		(void)close(fd);
	return -1;
}

static bool make_pid_file(void)
{
	char text[16];
	int fd = open(MPS_PID_FILE, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	int n = snprintf(text, sizeof(text), "%d", (int)getpid());
	bool ok = fd >= 0 && fchmod(fd, 0666) == 0 && write(fd, text, (size_t)n) == n;

	if (fd >= 0)
		(void)close(fd);
	return ok;
}

static bool make_log_pipe(struct mps_control_daemon *c)
{
	(void)unlink(MPS_LOG_PIPE);
	if (mkfifo(MPS_LOG_PIPE, 0777) < 0 || chmod(MPS_LOG_PIPE, 0777) < 0)
		return false;
	/* Open for writing too, so that the pipe does not end with each server. */
	c->log_pipe = open(MPS_LOG_PIPE, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	return c->log_pipe >= 0;
}

static int open_control_log(const char *dir, const char *name)
{
	char path[SIM_PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	return open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
}

static bool open_logs(struct mps_control_daemon *c)
{
	const char *dir = getenv(MPS_ENV_LOG);

	dir = dir && dir[0] ? dir : MPS_LOG_DEFAULT;
	c->log_fd = c->server_log_fd = STDOUT_FILENO;
	if (!c->daemon)
		return true;
	(void)mkdir(dir, 0755);
	c->log_fd = open_control_log(dir, "control.log");
	c->server_log_fd = open_control_log(dir, "server.log");
	if (c->log_fd >= 0 && c->server_log_fd >= 0)
		return true;
	(void)fprintf(stderr, "Cannot access CUDA_MPS_LOG_DIRECTORY=%s: %s\n", dir,
		strerror(errno));
	return false;
}

/* The lock is this daemon's while the daemon or a server of it lives. */
static bool lock_mps_directory(struct mps_control_daemon *c)
{
	const char *log = getenv(MPS_ENV_LOG);
	int pipe_fd;

	c->lock = open(MPS_LOCK, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (c->lock < 0) {
		(void)fprintf(stderr, "Cannot access CUDA_MPS_PIPE_DIRECTORY=%s\n", c->dir);
		return false;
	}
	(void)fchmod(c->lock, 0666);
	if (flock(c->lock, LOCK_EX | LOCK_NB) == 0)
		return true;
	(void)fputs("An instance of this daemon is already running\n", stderr);
	pipe_fd = open(MPS_LOG_PIPE, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
	mps_log(pipe_fd, "Other", "Using log directory: %s", log ? log : MPS_LOG_DEFAULT);
	closep(&pipe_fd);
	return false;
}

static bool open_files(struct mps_control_daemon *c)
{
	sigset_t set;

	if (!make_log_pipe(c)) {
		(void)fprintf(stderr, "Cannot access CUDA_MPS_PIPE_DIRECTORY=%s\n", c->dir);
		return false;
	}
	if (!make_pid_file()) {
		(void)fprintf(stderr, "Failed to create control pid file %s/%s\n", c->dir,
			MPS_PID_FILE);
		return false;
	}
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGCHLD);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	c->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	c->privileged = listen_mps_socket(MPS_PRIVILEGED, 0755);
	c->listen = mps_fault_is("hang-start") ? c->privileged
					       : listen_mps_socket(MPS_CONTROL, 0666);
	if (c->signals >= 0 && c->privileged >= 0 && c->listen >= 0)
		return true;
	(void)fprintf(stderr, "Cannot access CUDA_MPS_PIPE_DIRECTORY=%s\n", c->dir);
	return false;
}

/* --- the loop --- */

static int timeout_ms(const struct mps_control_daemon *c)
{
	uint64_t next = servers_next_ns(c), now = time_mono_ns();

	if (next == UINT64_MAX)
		return -1;
	return next <= now ? 0 : (int)((next - now) / NS_PER_MS + 1);
}

static size_t fill_control_polls(const struct mps_control_daemon *c, struct pollfd *polls)
{
	size_t n = 0;

	polls[n++] = (struct pollfd){ .fd = c->listen, .events = POLLIN };
	polls[n++] = (struct pollfd){ .fd = c->privileged, .events = POLLIN };
	polls[n++] = (struct pollfd){ .fd = c->log_pipe, .events = POLLIN };
	polls[n++] = (struct pollfd){ .fd = c->signals, .events = POLLIN };
	for (const struct mps_server *s = c->servers; s && n < CONTROL_CONNS_MAX; s = s->next)
		polls[n++] = (struct pollfd){ .fd = s->fd,
			.events = s->behind ? POLLIN | POLLOUT : POLLIN };
	for (const struct mps_control_conn *x = c->conns; x; x = x->next)
		polls[n++] = (struct pollfd){ .fd = x->fd, .events = POLLIN };
	return n;
}

static bool has_poll_events(const struct pollfd *polls, size_t n, int fd, short events)
{
	for (size_t i = 0; i < n; i++)
		if (fd >= 0 && polls[i].fd == fd && (polls[i].revents & events))
			return true;
	return false;
}

/* Each handler may change both lists, so each descriptor is searched in @polls. */
static void handle_control_polls(struct mps_control_daemon *c, const struct pollfd *polls,
	size_t n)
{
	struct signalfd_siginfo info;

	for (struct mps_server *s = c->servers; s; s = s->next) {
		if (has_poll_events(polls, n, s->fd, ~POLLOUT))
			servers_read(c, s);
		if (has_poll_events(polls, n, s->fd, POLLOUT))
			servers_retry_waiting(c, s);
	}
	for (struct mps_control_conn *x = c->conns; x;) {
		struct mps_control_conn *next = x->next;

		if (has_poll_events(polls + 4, n - 4, x->fd, ~0)) {
			conn_read(c, x);
			return; /* the next poll() reports the others at once */
		}
		x = next;
	}
	if (polls[0].revents)
		conn_accept(c, c->listen);
	if (polls[1].revents && c->privileged != c->listen)
		conn_accept(c, c->privileged);
	if (polls[3].revents) {
		while (read(c->signals, &info, sizeof(info)) > 0)
			;
		servers_reap(c);
	}
}

static void run_mps_control_loop(struct mps_control_daemon *c, struct pollfd *polls)
{
	control_log(c, "Starting control daemon using socket %s/" MPS_CONTROL, c->dir);
	control_log(c,
		"To connect CUDA applications to this daemon, set env CUDA_MPS_PIPE_DIRECTORY=%s",
		c->dir);
	control_log(c, "CUDA MPS Control binary version: %d", CONTROL_BINARY);
	while (!c->done) {
		size_t n = fill_control_polls(c, polls);

		(void)poll(polls, n, timeout_ms(c));
		if (polls[2].revents)
			copy_log(c);
		handle_control_polls(c, polls, n);
		servers_tick(c, time_mono_ns());
	}
	copy_log(c);
	control_log(c, "Exit with status %d", 0);
	(void)unlink(MPS_LOG_PIPE);
	(void)unlink(MPS_PID_FILE);
	conn_finish(c);
}

static const char *get_control_env(const char *name)
{
	return getenv(name);
}

static int run_mps_control(struct mps_control_daemon *c)
{
	CLEANUP(freep) struct pollfd *polls = calloc(2 * CONTROL_CONNS_MAX + 8, sizeof(*polls));

	c->conns_end = &c->conns;
	c->uid = getuid();
	mps_settings_from_env(&c->defaults, get_control_env);
	if (!c->defaults.percent)
		c->defaults.percent = MPS_PERCENT_ALL;
	if (mps_fault_is("no-start")) {
		(void)fputs("Cannot start: a fault was asked for\n", stderr);
		return 1;
	}
	if (mps_fault_is("exit"))
		return 1;
	if (c->multiuser && c->uid != 0) {
		(void)fputs("Only root user may enable -multiuser-server!\n", stderr);
		return 1;
	}
	if (!strcmp(c->dir, MPS_DIR_DEFAULT))
		(void)mkdir(c->dir, 0755);
	if (!polls || chdir(c->dir) < 0) {
		(void)fprintf(stderr, "Cannot access CUDA_MPS_PIPE_DIRECTORY=%s\n", c->dir);
		return 1;
	}
	(void)umask(0);
	if (!lock_mps_directory(c) || !open_logs(c))
		return 1;
	if (c->daemon && daemon(1, 0) < 0)
		return 1;
	if (!open_files(c))
		return 1;
	(void)signal(SIGPIPE, SIG_IGN);
	run_mps_control_loop(c, polls);
	return 0;
}

/* --- the program when it sends commands --- */

/* Sends one command and prints the answer; false: the daemon does not take the command. */
static bool send_line(int fd, const char *line)
{
	struct mps_packet p = { .op = MPS_UI };

	(void)snprintf(p.text, sizeof(p.text), "%s", line);
	if (!mps_send(fd, &p, -1, 0))
		return false;
	for (;;) {
		if (mps_receive(fd, &p, NULL, 0) != MPS_RECEIVED)
			return false;
		if (p.op == MPS_DONE)
			break;
		(void)fputs(p.text, stdout);
	}
	return fflush(stdout) == 0;
}

static bool send_words(int fd, int argc, char **argv)
{
	char line[MPS_TEXT_MAX] = "";
	size_t n = 0;

	for (int i = 0; i < argc && n < sizeof(line); i++)
		n += (size_t)snprintf(line + n, sizeof(line) - n, "%s%s", i ? " " : "",
			argv[i]);
	return send_line(fd, line);
}

static bool send_input(int fd)
{
	char line[MPS_TEXT_MAX];

	while (fgets(line, sizeof(line), stdin)) {
		if (line[strspn(line, " \t\r\n")] == '\0')
			continue;
		if (!send_line(fd, line))
			return false;
	}
	return true;
}

/* Sends the command, or the lines of standard input. Returns the exit status. */
static int ui_main(const char *dir, int argc, char **argv)
{
	CLEANUP(closep) int fd = mps_dial(dir);

	if (fd < 0) {
		(void)fputs("Cannot find MPS control daemon process\n", stderr);
		return 1;
	}
	if (argc > 0 ? send_words(fd, argc, argv) : send_input(fd))
		return 0;
	(void)fputs("Cannot send command to MPS control daemon process\n", stderr);
	return 1;
}

/* --- the program --- */

static const char usage[] =
	"CUDA MPS Control for Linux/Unix/QNX. Binary version: 13000 (simulated)\n"
	"  This program allows multiple CUDA processes to share a single GPU context.\n\n"
	"nvidia-cuda-mps-control [options] [command]\n\n"
	"OPTIONS:\n"
	"  -h,--help                Print this message\n"
	"  -d,--daemon              Setup the daemon in the background\n"
	"  -f,--forground           Setup the daemon in the foreground\n"
	"  -M,--multiuser-server    Enable multi-user mode\n"
	"  -q,--ready-devices       Prepare the daemon to query devices on startup\n\n"
	"Without -d or -f: sends the command, or those of the standard input, to the daemon.\n";

static bool is_option_arg(const char *arg, const char *brief, const char *full)
{
	return !strcmp(arg, brief) || !strcmp(arg, full) || !strcmp(arg, full + 1);
}

int main(int argc, char **argv)
{
	static struct mps_control_daemon c = { .lock = -1,
		.log_pipe = -1,
		.listen = -1,
		.privileged = -1 };
	bool foreground = false;
	int i = 1;

	c.dir = mps_dir();
	for (; i < argc && argv[i][0] == '-'; i++) {
		if (is_option_arg(argv[i], "-h", "--help")) {
			(void)fputs(usage, stdout);
			return 0;
		}
		if (is_option_arg(argv[i], "-d", "--daemon"))
			c.daemon = true;
		else if (is_option_arg(argv[i], "-f", "--forground") ||
			 is_option_arg(argv[i], "-f", "--foreground"))
			foreground = true;
		else if (is_option_arg(argv[i], "-M", "--multiuser-server"))
			c.multiuser = true;
		else if (!is_option_arg(argv[i], "-q", "--ready-devices")) {
			(void)fprintf(stderr, "Unrecognized option %c\n", argv[i][1]);
			return 1;
		}
	}
	return c.daemon || foreground ? run_mps_control(&c)
				      : ui_main(c.dir, argc - i, argv + i);
}
