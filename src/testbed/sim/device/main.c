/* SPDX-License-Identifier: Apache-2.0 */

/*
 * gpuslice-sim-gpu: the hardware and the kernel driver of a simulated node's GPUs, as one process.
 *
 * Life. The first client starts it (testbed/sim/device/client/client.c). It ends by itself after a while without
 * clients, or when the node's state file is gone or replaced.
 *
 * Difference from a real driver. A real driver frees a process's memory before the process is a zombie. This
 * process sees the end of the connection some microseconds later. So NVML may show a dead process until the kernel
 * schedules this one. No client gets any of its memory before, and no answer includes it: before each answer this
 * process ends the clients that are gone.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/base/fd-pass.h"
#include "lib/base/fd.h"
#include "lib/base/parse.h"
#include "lib/base/procfs.h"
#include "lib/base/time.h"
#include "testbed/sim/device/device.h"

#define LOCK_FILE       "cuda.lock"
#define LOG_FILE        "cuda.log"
#define SCHEDSTAT       "/proc/self/schedstat"
#define NEW_SOCKET      SIM_DEVICE_SOCKET ".new"
#define LOCK_TIMEOUT_NS (5 * NS_PER_SEC) /* for an earlier one that is just ending */
#define IDLE_DEFAULT_MS 10000
#define STATE_CHECK_NS  (300 * NS_PER_MS) /* interval of checks of the state file and of load */
#define LATE_NS         NS_PER_MS         /* lateness of wake-ups that any idle machine has */
#define LATE_REPORT_NS  (100 * NS_PER_MS)
#define EVENTS          64
#define PACKETS_AT_ONCE 32 /* of one client, before other clients */
#define BACKLOG         512
#define SPEED_MAX       1000000 /* percent of real time */

struct device_conn {
	int fd;
	struct device_client *client;
	struct device_conn *next, **at;
	bool dead;
};

struct device_server {
	struct sim_state *state;
	struct simulated_gpus *device;
	const char *dir, *account;
	int listen_fd, epoll, gone_epoll, timer, signals, account_fd;
	struct device_conn *conns;
	double speed;
	uint64_t start_ns, idle_ns, idle_since_ns;
	uint64_t missed_ns, reported_ns,
		last_waited_ns; /* lateness not yet reported to the device */
	bool stop;
};

/* The source of an epoll event; a connection's events have its own address. */
static const char on_listen, on_gone, on_timer, on_signal, on_exports;

/* --- time --- */

static uint64_t now_ns(const struct device_server *s)
{
	return (uint64_t)((double)(time_mono_ns() - s->start_ns) * s->speed);
}

/* The next time at which the device has work, by the monotonic clock; UINT64_MAX: none. */
static uint64_t get_next_due_ns(const struct device_server *s)
{
	uint64_t next = device_next_ns(s->device);
	double real = (double)next / s->speed;

	if (next == UINT64_MAX)
		return next;
	return s->start_ns + (real < 1e18 ? (uint64_t)real : (uint64_t)1e18);
}

static void arm_engine_timer(struct device_server *s)
{
	uint64_t now = time_mono_ns(), due = get_next_due_ns(s);
	uint64_t at = due < now + STATE_CHECK_NS ? due : now + STATE_CHECK_NS;
	struct itimerspec t = { .it_interval = { 0 } };

	at = at > now ? at : now + 1;
	t.it_value.tv_sec = (time_t)(at / NS_PER_SEC);
	t.it_value.tv_nsec = (long)(at % NS_PER_SEC);
	(void)timerfd_settime(s->timer, TFD_TIMER_ABSTIME, &t, NULL);
}

/* --- lateness --- */

/* Compares at each advance, as the host may stop this process at any place, not only in a wait. */
static void advance_engine(struct device_server *s)
{
	uint64_t due = get_next_due_ns(s), now = time_mono_ns();

	if (now > due && now - due > LATE_NS)
		s->missed_ns += now - due;
	device_advance(s->device, now_ns(s));
}

/*
 * Deadlines show when the host stopped this process. The kernel's scheduler statistics show work that came while
 * this process could not run. The larger figure counts.
 */
static void report_late_time(struct device_server *s)
{
	uint64_t now = time_mono_ns(), waited;

	if (now - s->reported_ns < LATE_REPORT_NS)
		return;
	s->reported_ns = now;
	if (!schedstat_waited(SCHEDSTAT, &waited))
		waited = s->last_waited_ns; /* only deadlines count */
	device_add_lateness(s->device, waited - s->last_waited_ns > s->missed_ns
					       ? waited - s->last_waited_ns
					       : s->missed_ns);
	s->last_waited_ns = waited;
	s->missed_ns = 0;
}

/* --- connections --- */

static bool watch_daemon_fd(int epoll, int fd, uint32_t events, const void *what)
{
	struct epoll_event ev = { .events = events };

	memcpy(&ev.data.ptr, &what, sizeof(what));
	return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &ev) == 0;
}

/*
 * When this returns, all that the process had is free (unless cuda_free_ms delays its memory), and NVML shows
 * that.
 */
static void conn_end(struct device_server *s, struct device_conn *c)
{
	if (c->dead)
		return;
	c->dead = true;
	device_client_gone(c->client, now_ns(s));
	closep(&c->fd);
}

/* Frees connections, after the loop has handled all events that may name them. */
static void free_dead_conns(struct device_server *s)
{
	for (struct device_conn *c = s->conns, *next; c; c = next) {
		next = c->next;
		if (!c->dead)
			continue;
		*c->at = next;
		if (next)
			next->at = c->at;
		free(c);
	}
}

/* Ends the connections of all clients that are gone by now. */
static void end_gone_peers(struct device_server *s)
{
	struct epoll_event ev[EVENTS];
	int n;

	do {
		n = epoll_wait(s->gone_epoll, ev, EVENTS, 0);
		for (int i = 0; i < n; i++)
			conn_end(s, ev[i].data.ptr);
	} while (n == EVENTS);
}

static void accept_one(struct device_server *s, int fd)
{
	struct ucred cred = { .pid = 0 };
	socklen_t len = sizeof(cred);
	struct device_conn *c = calloc(1, sizeof(*c));

	if (!c || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0 || cred.pid <= 0 ||
		!(c->client = device_client_new(s->device, (uint32_t)cred.pid))) {
		free(c);
		(void)close(fd);
		return;
	}
	c->fd = fd;
	c->next = s->conns;
	if (c->next)
		c->next->at = &c->next;
	c->at = &s->conns;
	s->conns = c;
	/*
	 * A child that inherited the connection keeps it open, and with it a dead parent's memory. So does the
	 * driver.
	 */
	if (!watch_daemon_fd(s->epoll, fd, EPOLLIN, c) ||
		!watch_daemon_fd(s->gone_epoll, fd, EPOLLRDHUP, c))
		conn_end(s, c);
}

static void accept_all(struct device_server *s)
{
	int fd;

	while ((fd = accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0)
		accept_one(s, fd);
}

/* --- packets --- */

/* Does not wait for a peer that does not read its answers. */
static bool send_device_answer(int to, struct device_answer *a)
{
	return fd_pass_send(to, &a->reply, sizeof(a->reply), &a->fd, a->fd >= 0,
		       MSG_DONTWAIT) == (ssize_t)sizeof(a->reply);
}

/* False: no more packets, or the connection has ended. */
static bool handle_client_packet(struct device_server *s, struct device_conn *c)
{
	struct sim_device_submit packet;
	CLEANUP(closep) int fd = -1;
	int flags;
	ssize_t n =
		fd_pass_receive(c->fd, &packet, sizeof(packet), &fd, 1, MSG_DONTWAIT, &flags);
	struct device_answer a;
	bool ok;

	if (n < 0 && errno == EAGAIN)
		return false;
	/*
	 * First ends the clients that are gone by now, and the memory that no process has. Only then may this
	 * client get any.
	 */
	end_gone_peers(s);
	device_exports(s->device);
	if (c->dead)
		return false;
	ok = n > 0 && !(flags & (MSG_TRUNC | MSG_CTRUNC)) &&
	     device_packet(c->client, &packet, (size_t)n, fd, now_ns(s), &a);
	if (ok && a.send) {
		ok = send_device_answer(c->fd, &a);
		if (a.close_fd)
			closep(&a.fd);
	}
	if (!ok)
		conn_end(s, c);
	return ok;
}

/* --- life --- */

static void check_daemon_idle(struct device_server *s)
{
	uint64_t now = time_mono_ns();

	if (!device_is_idle(s->device))
		s->idle_since_ns = now;
	if (now - s->idle_since_ns >= s->idle_ns || !sim_state_is_current(s->state, s->dir))
		s->stop = true;
}

static void handle_server_event(struct device_server *s, const struct epoll_event *ev)
{
	const void *what = ev->data.ptr;
	uint64_t count;

	if (what == &on_listen) {
		accept_all(s);
	} else if (what == &on_gone) {
		end_gone_peers(s);
	} else if (what == &on_exports) {
		device_exports(s->device);
	} else if (what == &on_signal) {
		s->stop = true;
	} else if (what == &on_timer) {
		(void)!read(s->timer, &count, sizeof(count));
	} else {
		struct device_conn *c = ev->data.ptr;

		for (int i = 0; i < PACKETS_AT_ONCE && !c->dead && handle_client_packet(s, c);
			i++)
			;
	}
}

static void run_sim_daemon_loop(struct device_server *s)
{
	struct epoll_event ev[EVENTS];

	s->idle_since_ns = time_mono_ns();
	while (!s->stop) {
		int n;

		arm_engine_timer(s);
		n = epoll_wait(s->epoll, ev, EVENTS, -1);
		advance_engine(s);
		report_late_time(s);
		for (int i = 0; i < n; i++)
			handle_server_event(s, &ev[i]);
		advance_engine(s);
		free_dead_conns(s);
		check_daemon_idle(s);
	}
}

/* --- start --- */

/* Only one process serves a node. 1: another one does. */
static int lock_node(int *ret, struct error *err)
{
	uint64_t until = time_mono_ns() + LOCK_TIMEOUT_NS;
	CLEANUP(closep) int fd = open(LOCK_FILE, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0)
		return error_sys(err, errno, "open '" LOCK_FILE "'");
	while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		struct timespec ms = { .tv_nsec = (long)NS_PER_MS };

		if (time_mono_ns() >= until)
			return 1;
		(void)nanosleep(&ms, NULL);
	}
	*ret = steal_fd(&fd);
	return 0;
}

/* Closes all that the starting program left open: its pipes, its files. */
static void leave_starter(int ready_fd)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int log = open(LOG_FILE, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

	(void)dup2(null, 0);
	(void)dup2(null, 1);
	(void)dup2(log >= 0 ? log : null, 2);
	if (ready_fd > 3)
		(void)syscall(SYS_close_range, 3, ready_fd - 1, 0);
	(void)syscall(SYS_close_range, ready_fd < 3 ? 3 : ready_fd + 1, ~0U, 0);
	(void)setsid();
}

static void raise_limits(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) == 0) {
		r.rlim_cur = r.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &r);
	}
	(void)prctl(PR_SET_TIMERSLACK, 1UL);
}

/* The socket gets its name after it serves, so that a half-made one never refuses a client. */
static int listen_device_socket(struct device_server *s, struct error *err)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX, .sun_path = NEW_SOCKET };

	s->listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	(void)unlink(NEW_SOCKET);
	if (s->listen_fd < 0 ||
		bind(s->listen_fd, (const struct sockaddr *)&sa, sizeof(sa)) < 0 ||
		listen(s->listen_fd, BACKLOG) < 0 || rename(NEW_SOCKET, SIM_DEVICE_SOCKET) < 0)
		return error_sys(err, errno, "serve '" SIM_DEVICE_SOCKET "'");
	return 0;
}

static int open_daemon_sources(struct device_server *s, struct error *err)
{
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGINT);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	s->epoll = epoll_create1(EPOLL_CLOEXEC);
	s->gone_epoll = epoll_create1(EPOLL_CLOEXEC);
	s->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	s->signals = signalfd(-1, &set, SFD_CLOEXEC);
	if (s->epoll < 0 || s->gone_epoll < 0 || s->timer < 0 || s->signals < 0 ||
		!watch_daemon_fd(s->epoll, s->gone_epoll, EPOLLIN, &on_gone) ||
		!watch_daemon_fd(s->epoll, s->listen_fd, EPOLLIN, &on_listen) ||
		!watch_daemon_fd(s->epoll, s->timer, EPOLLIN, &on_timer) ||
		!watch_daemon_fd(s->epoll, s->signals, EPOLLIN, &on_signal) ||
		!watch_daemon_fd(s->epoll, device_exports_fd(s->device), EPOLLIN, &on_exports))
		return error_sys(err, errno, "watch descriptors");
	return 0;
}

static int run_sim_daemon(struct device_server *s, int ready_fd, struct error *err)
{
	CLEANUP(closep) int lock = -1;
	int r;

	if (ready_fd >= 0)
		leave_starter(ready_fd);
	r = lock_node(&lock, err);
	if (r != 0)
		return r;
	raise_limits();
	(void)schedstat_waited(SCHEDSTAT, &s->last_waited_ns);
	r = sim_state_open(s->dir, &s->state, err);
	if (r == SIM_STATE_E_NONE)
		return error_set(err, ERR_NOT_FOUND, "no simulated node in '%s'", s->dir);
	if (r < 0 || device_new(s->state, &s->device, err) < 0)
		return -1;
	device_account(s->device, s->account_fd);
	s->start_ns = time_mono_ns();
	if (listen_device_socket(s, err) < 0 || open_daemon_sources(s, err) < 0)
		return -1;
	if (ready_fd >= 0) {
		(void)!write(ready_fd, "+", 1);
		(void)close(ready_fd);
	}
	run_sim_daemon_loop(s);
	(void)unlink(SIM_DEVICE_SOCKET);
	(void)close(s->listen_fd);
	for (struct device_conn *c = s->conns; c; c = c->next)
		conn_end(s, c);
	free_dead_conns(s);
	s->device = device_free(s->device);
	s->state = sim_state_close(s->state);
	return 0;
}

static int read_speed(double *ret, struct error *err)
{
	const char *text = getenv("GPUSLICE_SIM_SPEED");
	uint32_t percent = 100;

	if (text && text[0] &&
		(!parse_u32(text, &percent) || percent == 0 || percent > SPEED_MAX))
		return error_set(err, ERR_INVALID,
			"GPUSLICE_SIM_SPEED: expected a percentage from 1 to %d, found '%.40s'",
			SPEED_MAX, text);
	*ret = percent / 100.0;
	return 0;
}

static const char usage[] =
	"usage: gpuslice-sim-gpu --dir DIR [--idle-ms N] [--ready-fd N] [--account FILE]\n"
	"The GPUs of the simulated node in DIR, for the simulated libcuda.so.1, which starts it.\n"
	"It ends by itself after N ms without work (default 10000), and with the node. To FILE it adds a\n"
	"line of JSON for each process that leaves a GPU: how long it computed there, its memory.\n";

static int parse_sim_daemon_args(char *const *argv, struct device_server *s, uint32_t *idle_ms,
	uint32_t *ready_fd, struct error *err)
{
	for (int i = 1; argv[i]; i += 2) {
		const char *value = argv[i + 1];

		if (!value)
			return error_set(err, ERR_INVALID, "'%.40s' needs a value", argv[i]);
		if (!strcmp(argv[i], "--dir"))
			s->dir = value;
		else if (!strcmp(argv[i], "--account"))
			s->account = value;
		else if ((strcmp(argv[i], "--idle-ms") != 0 || !parse_u32(value, idle_ms)) &&
			 (strcmp(argv[i], "--ready-fd") != 0 || !parse_u32(value, ready_fd)))
			return error_set(err, ERR_INVALID, "unknown option '%.40s %.40s'",
				argv[i], value);
	}
	if (!s->dir)
		return error_set(err, ERR_INVALID, "--dir is missing");
	return read_speed(&s->speed, err);
}

static int open_account(struct device_server *s, struct error *err)
{
	s->account_fd = open(s->account, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	return s->account_fd < 0 ? error_sys(err, errno, "'%s'", s->account) : 0;
}

int main(int argc, char **argv)
{
	struct device_server s = { .listen_fd = -1, .account_fd = -1 };
	uint32_t idle_ms = IDLE_DEFAULT_MS, ready_fd = UINT32_MAX;
	struct error err = ERROR_INIT;
	CLEANUP(freep) char *dir = NULL;
	int r;

	if (argc == 2 && !strcmp(argv[1], "--help")) {
		(void)fputs(usage, stdout);
		return 0;
	}
	r = parse_sim_daemon_args(argv, &s, &idle_ms, &ready_fd, &err);
	if (r == 0 && s.account)
		r = open_account(&s, &err);
	if (r == 0) {
		s.idle_ns = idle_ms * NS_PER_MS;
		dir = realpath(s.dir, NULL);
		if (!dir || chdir(dir) < 0)
			r = error_sys(&err, errno, "'%s'", s.dir);
		s.dir = dir;
	}
	if (r == 0)
		r = run_sim_daemon(&s, ready_fd > INT32_MAX ? -1 : (int)ready_fd, &err);
	if (r < 0)
		(void)fprintf(stderr, "gpuslice-sim-gpu: %s\n", err.msg);
	return r < 0 ? 1 : 0;
}
