/* SPDX-License-Identifier: Apache-2.0 */
#include "testbed/sim/device/client/client.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/fd-pass.h"
#include "lib/base/fd.h"
#include "lib/base/time.h"
#include "testbed/sim/model.h"

#define STATUS_GONE     999 /* CUDA_ERROR_UNKNOWN */
#define PROGRAM         "gpuslice-sim-gpu"
#define START_LOCK      "cuda.start"
#define START_TRIES     8
#define ENV_MAX         4096
#define DAEMON_CHECK_NS (100 * NS_PER_MS) /* a sleeper checks that the daemon lives */
#define CALL_STATUS_OK  0

/* --- connecting --- */

/*
 * Connects through a descriptor of the directory, as a socket's path has at most 107 bytes. Returns 0, or an
 * errno.
 */
static int connect_daemon_socket(const char *dir, int *ret)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	CLEANUP(closep) int dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	CLEANUP(closep) int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (dir_fd < 0 || fd < 0)
		return errno;
	(void)snprintf(sa.sun_path, sizeof(sa.sun_path), "/proc/self/fd/%d/" SIM_DEVICE_SOCKET,
		dir_fd);
	while (connect(fd, (const struct sockaddr *)&sa, sizeof(sa)) < 0)
		if (errno != EINTR)
			return errno;
	*ret = steal_fd(&fd);
	return 0;
}

/* The file of the library that contains @beside, or of this program. NULL: unknown. */
static const char *own_file(const void *beside, char exe[SIM_PATH_MAX])
{
	ssize_t len;
	Dl_info info;

	if (beside)
		return dladdr(beside, &info) ? info.dli_fname : NULL;
	len = readlink("/proc/self/exe", exe, SIM_PATH_MAX - 1);
	exe[len > 0 ? len : 0] = '\0';
	return exe;
}

static int find_sim_daemon_program(const void *beside, char *ret, struct error *err)
{
	static const char *const places[] = { "../../../libexec/gpuslice/" PROGRAM,
		"../device/" PROGRAM };
	const char *named = getenv(SIM_ENV_GPU), *file, *slash;
	char exe[SIM_PATH_MAX];

	if (named && named[0]) {
		(void)snprintf(ret, SIM_PATH_MAX, "%s", named);
		return 0;
	}
	file = own_file(beside, exe);
	if (file && (slash = strrchr(file, '/')))
		for (size_t i = 0; i < ARRAY_LEN(places); i++) {
			(void)snprintf(ret, SIM_PATH_MAX, "%.*s%s", (int)(slash - file) + 1,
				file, places[i]);
			if (access(ret, X_OK) == 0)
				return 0;
		}
	return error_set(err, ERR_NOT_FOUND,
		"no " PROGRAM " beside the library; " SIM_ENV_GPU " names it");
}

/* The environment without the variables that would preload libraries into the daemon. */
static void daemon_env(char **ret)
{
	static const char *const drop[] = { "LD_PRELOAD=", "LD_AUDIT=", "LD_LIBRARY_PATH=" };
	size_t n = 0;

	for (char **e = environ; e && *e && n < ENV_MAX; e++) {
		bool keep = true;

		for (size_t i = 0; i < ARRAY_LEN(drop); i++)
			keep = keep && strncmp(*e, drop[i], strlen(drop[i])) != 0;
		if (keep)
			ret[n++] = *e;
	}
	ret[n] = NULL;
}

/*
 * A child without a report of its end: no SIGCHLD, no row for a plain wait(). The child runs no fork handlers of
 * the host program. The child has a copy of the memory, and only makes system calls.
 */
static pid_t quiet_fork(void)
{
	return (pid_t)syscall(SYS_clone, 0, NULL, NULL, NULL, NULL);
}

/* A sanitizer's _exit() writes what the host program has buffered, which the program would write again. */
static _Noreturn void quiet_exit(int status)
{
	for (;;)
		(void)syscall(SYS_exit_group, status);
}

static _Noreturn void become_daemon(char *const *argv, char *const *env)
{
	sigset_t none;

	(void)setsid();
	if (quiet_fork() != 0)
		quiet_exit(0);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)execve(argv[0], argv, env);
	quiet_exit(127);
}

/* Starts the daemon, and waits until it serves or gives up. */
static int start_sim_daemon(const char *dir, const void *beside, struct error *err)
{
	CLEANUP(freep) char **env = calloc(ENV_MAX + 1, sizeof(*env));
	CLEANUP(closep) int read_end = -1;
	CLEANUP(closep) int write_end = -1;
	char program[SIM_PATH_MAX], where[SIM_PATH_MAX], ready[16], byte;
	char arg_dir[] = "--dir", arg_ready[] = "--ready-fd";
	char *argv[] = { program, arg_dir, where, arg_ready, ready, NULL };
	int ends[2], status;
	ssize_t n;
	pid_t pid;

	if (!env)
		return error_nomem(err);
	if (find_sim_daemon_program(beside, program, err) < 0)
		return -1;
	(void)snprintf(where, sizeof(where), "%s", dir);
	if (pipe2(ends, O_CLOEXEC) < 0)
		return error_sys(err, errno, "pipe");
	read_end = ends[0];
	/* Without close-on-exec, for the daemon. A program that forks now keeps a copy for a while. */
	write_end = fcntl(ends[1], F_DUPFD, 3);
	(void)close(ends[1]);
	if (write_end < 0)
		return error_sys(err, errno, "pipe");
	(void)snprintf(ready, sizeof(ready), "%d", write_end);
	daemon_env(env);
	pid = quiet_fork();
	if (pid == 0)
		become_daemon(argv, env);
	if (pid < 0)
		return error_sys(err, errno, "start '%s'", program);
	while (waitpid(pid, &status, __WCLONE) < 0 && errno == EINTR)
		;
	(void)close(steal_fd(&write_end));
	do
		n = read(read_end, &byte, 1);
	while (n < 0 && errno == EINTR);
	/* No byte: another process's daemon may serve already. The caller's connect() finds out. */
	return 0;
}

static int lock_start(const char *dir, int *ret, struct error *err)
{
	char path[SIM_PATH_MAX];
	CLEANUP(closep) int fd = -1;

	if (path_join(path, sizeof(path), dir, START_LOCK, err) < 0)
		return -1;
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return error_sys(err, errno, "open '%s'", path);
	while (flock(fd, LOCK_EX) < 0)
		if (errno != EINTR)
			return error_sys(err, errno, "lock '%s'", path);
	*ret = steal_fd(&fd);
	return 0;
}

/* A connection; starts the daemon if none runs. */
static int connect_or_start_daemon(const char *dir, const void *beside, int *ret,
	struct error *err)
{
	CLEANUP(closep) int lock = -1;
	int sys = connect_daemon_socket(dir, ret);

	if (sys == 0)
		return 0;
	if (sys != ENOENT && sys != ECONNREFUSED)
		return error_sys(err, sys, "connect '%s/" SIM_DEVICE_SOCKET "'", dir);
	if (lock_start(dir, &lock, err) < 0)
		return -1;
	sys = connect_daemon_socket(dir, ret);
	if (sys == 0)
		return 0;
	if (start_sim_daemon(dir, beside, err) < 0)
		return -1;
	sys = connect_daemon_socket(dir, ret);
	return sys == 0 ? 0 : error_sys(err, sys, "connect '%s/" SIM_DEVICE_SOCKET "'", dir);
}

static int map_daemon_page(struct sim_device *d, int fd, struct error *err)
{
	void *page = mmap(NULL, sizeof(struct sim_device_page), PROT_READ | PROT_WRITE,
		MAP_SHARED, fd, 0);

	if (page == MAP_FAILED)
		return error_sys(err, errno, "map the page of the simulated GPU");
	d->page = page;
	return 0;
}

int sim_device_connect(struct sim_device *d, const char *dir, const void *beside,
	struct error *err)
{
	for (int i = 0; i < START_TRIES; i++) {
		struct sim_device_request request = { .op = SIM_DEVICE_HELLO,
			.bytes = SIM_DEVICE_VERSION };
		struct sim_device_reply r;
		CLEANUP(closep) int page_fd = -1;
		uint32_t status;

		if (connect_or_start_daemon(dir, beside, &d->fd, err) < 0)
			return -1;
		status = sim_device_call(d, &request, &r, -1, &page_fd);
		if (status == CALL_STATUS_OK && page_fd >= 0) {
			if (map_daemon_page(d, page_fd, err) == 0)
				return 0;
			sim_device_close(d);
			return -1;
		}
		closep(&d->fd);
		d->fd = -1;
		if (status != STATUS_GONE)
			return error_set(err, ERR_UNSUPPORTED,
				"the simulated GPU of '%s' refuses: CUDA error %u", dir,
				status);
		/* The daemon ended after its idle time, just when this client connected. */
	}
	return error_set(err, ERR_UNAVAILABLE, "the simulated GPU of '%s' goes away each time",
		dir);
}

static void close_sim_device(struct sim_device *d)
{
	if (d->page)
		(void)munmap(d->page, sizeof(*d->page));
	d->page = NULL;
	closep(&d->fd);
	d->fd = -1;
}

void sim_device_close(struct sim_device *d)
{
	close_sim_device(d);
}

void sim_device_forget(struct sim_device *d)
{
	/*
	 * The descriptor stays open. Until this process ends too, the parent's death frees nothing, as with the
	 * driver's files.
	 */
	d->fd = -1;
	close_sim_device(d);
	d->mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

/* --- packets --- */

static bool send_packet(struct sim_device *d, const void *data, size_t len, int send_fd)
{
	return fd_pass_send(d->fd, data, len, &send_fd, send_fd >= 0, 0) == (ssize_t)len;
}

static bool receive_reply(struct sim_device *d, struct sim_device_reply *r, int *ret_fd)
{
	int flags;
	ssize_t n = fd_pass_receive(d->fd, r, sizeof(*r), ret_fd, 1, 0, &flags);

	return n == (ssize_t)sizeof(*r) && !(flags & MSG_CTRUNC);
}

uint32_t sim_device_call(struct sim_device *d, struct sim_device_request *request,
	struct sim_device_reply *r, int send_fd, int *recv_fd)
{
	CLEANUP(closep) int fd = -1;
	bool ok;

	*r = (struct sim_device_reply){ .status = STATUS_GONE };
	(void)pthread_mutex_lock(&d->mutex);
	request->tag = ++d->tag;
	ok = d->fd >= 0 && send_packet(d, request, sizeof(*request), send_fd) &&
	     receive_reply(d, r, &fd);
	(void)pthread_mutex_unlock(&d->mutex);
	if (!ok || r->tag != request->tag || r->op != request->op)
		r->status = STATUS_GONE;
	if (recv_fd)
		*recv_fd = steal_fd(&fd);
	return r->status;
}

bool sim_device_submit(struct sim_device *d, const struct sim_device_command *commands,
	size_t n)
{
	struct sim_device_submit s = { .op = SIM_DEVICE_SUBMIT };

	while (n > 0) {
		size_t now = n < SIM_DEVICE_BATCH_MAX ? n : SIM_DEVICE_BATCH_MAX;

		s.count = (uint32_t)now;
		memcpy(s.commands, commands, now * sizeof(*commands));
		if (d->fd < 0 || !send_packet(d, &s, SIM_DEVICE_SUBMIT_BYTES(now), -1))
			return false;
		commands += now;
		n -= now;
	}
	return true;
}

bool sim_device_host_done(struct sim_device *d, uint32_t stream, uint64_t seq)
{
	struct sim_device_request request = { .op = SIM_DEVICE_HOST_DONE,
		.object = stream,
		.id = seq };

	return d->fd >= 0 && send_packet(d, &request, sizeof(request), -1);
}

/* --- waiting --- */

static bool daemon_lives(const struct sim_device *d)
{
	struct pollfd p = { .fd = d->fd };

	return d->fd >= 0 && poll(&p, 1, 0) == 0;
}

/* Sleeps while *word is @seen, for at most DAEMON_CHECK_NS. */
static void sleep_on(const void *word, uint32_t seen, uint64_t deadline_ns)
{
	uint64_t now = time_mono_ns(), left;
	struct timespec t;

	if (now >= deadline_ns)
		return;
	left = deadline_ns - now < DAEMON_CHECK_NS ? deadline_ns - now : DAEMON_CHECK_NS;
	t = (struct timespec){ .tv_nsec = (long)left };
	(void)syscall(SYS_futex, word, FUTEX_WAIT, seen, &t, NULL, 0);
}

bool sim_device_wait(struct sim_device *d, _Atomic uint64_t *completed,
	_Atomic uint32_t *waiters, uint64_t value, uint64_t deadline_ns)
{
	bool done = atomic_load_explicit(completed, memory_order_acquire) >= value;
	uint64_t now;

	if (done)
		return true;
	atomic_fetch_add(waiters, 1);
	for (;;) {
		uint64_t seen = atomic_load(completed);

		done = seen >= value;
		if (done)
			break;
		now = time_mono_ns();
		if (now >= deadline_ns)
			break;
		/* The futex is the low half: this machine is little-endian. */
		sleep_on(completed, (uint32_t)seen, deadline_ns);
		if (time_mono_ns() - now >= DAEMON_CHECK_NS && !daemon_lives(d) &&
			atomic_load(completed) < value)
			break;
	}
	atomic_fetch_sub(waiters, 1);
	return done;
}

void sim_device_wait_host(struct sim_device *d, uint32_t seen, uint64_t deadline_ns)
{
	while (atomic_load(&d->page->host_word) == seen && time_mono_ns() < deadline_ns &&
		daemon_lives(d))
		sleep_on(&d->page->host_word, seen, deadline_ns);
}
