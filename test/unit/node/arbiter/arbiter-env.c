/* SPDX-License-Identifier: Apache-2.0 */
#include "arbiter-env.h"

#include "node/arbiter/arbiter.h"
#include "abi/arbiter-control.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/base/time.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- the arbiter --- */

static void on_term(uv_signal_t *s, int number)
{
	(void)number;
	uv_stop(s->loop);
}

static _Noreturn void run_arbiter(const struct env *e)
{
	struct arbiter_options o = { .procfs = "/proc" };
	struct error err = ERROR_INIT;
	struct arbiter *a = NULL;
	uv_signal_t term;
	uv_loop_t loop;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)signal(SIGPIPE, SIG_IGN);
	if (e->keep_log && !freopen(e->log, "w", stderr))
		_exit(1);
	log_setup(getenv("TEST_VERBOSE") ? LOG_DEBUG
		  : e->keep_log          ? LOG_INFO
					 : LOG_ERROR,
		LOG_TEXT);
	(void)snprintf(o.state_dir, sizeof(o.state_dir), "%s", e->dir);
	(void)snprintf(o.run_dir, sizeof(o.run_dir), "%s", e->run);
	(void)uv_loop_init(&loop);
	(void)uv_signal_init(&loop, &term);
	(void)uv_signal_start(&term, on_term, SIGTERM);
	if (arbiter_start(&a, &loop, &o, &err) < 0) {
		(void)fprintf(stderr, "%s\n", err.msg);
		_exit(1);
	}
	(void)uv_run(&loop, UV_RUN_DEFAULT);
	uv_close((uv_handle_t *)&term, NULL);
	arbiter_stop(a);
	(void)uv_run(&loop, UV_RUN_DEFAULT);
	_exit(uv_loop_close(&loop) == 0 ? (arbiter_free(a), 0) : 3);
}

void start_arbiter(struct env *e)
{
	uint64_t end = time_mono_ns() + 20 * NS_PER_SEC;

	e->arbiter = fork();
	if (e->arbiter == 0)
		run_arbiter(e);
	while (open_control(e) < 0) {
		assert_true(time_mono_ns() < end);
		wait_ms(1);
	}
}

void end_arbiter(struct env *e, int signal_number)
{
	int status = 0;

	(void)kill(e->arbiter, signal_number);
	assert_int_equal(waitpid(e->arbiter, &status, 0), e->arbiter);
	if (signal_number == SIGTERM)
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	e->arbiter = 0;
}

bool start_arbiter_apart(struct env *e)
{
	int status = 0;

	atomic_store(&e->shared->arbiter, 0);
	e->arbiter = fork();
	if (e->arbiter == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (unshare(CLONE_NEWPID) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWPID) < 0)
			_exit(77);
		e->arbiter = fork();
		if (e->arbiter == 0)
			run_arbiter(e);
		atomic_store(&e->shared->arbiter, (uint32_t)e->arbiter);
		_exit(waitpid(e->arbiter, &status, 0) > 0 ? WEXITSTATUS(status) : 1);
	}
	while (open_control(e) < 0) {
		if (waitpid(e->arbiter, &status, WNOHANG) == e->arbiter) {
			e->arbiter = 0;
			assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 77);
			return false;
		}
		wait_ms(1);
	}
	/* The arbiter may answer before its parent has stored its pid; 0 would name our own process group. */
	wait_for(&e->shared->arbiter, 1);
	return true;
}

struct env *arbiter_env_new(void)
{
	struct env *e = calloc(1, sizeof(*e));

	assert_non_null(e);
	e->control = -1;
	e->dir = test_tmpdir();
	(void)snprintf(e->run, sizeof(e->run), "%s/run", e->dir);
	(void)snprintf(e->log, sizeof(e->log), "%s/log", e->dir);
	e->shared = mmap(NULL, sizeof(*e->shared), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(e->shared, MAP_FAILED);
	return e;
}

void arbiter_env_free(struct env *e)
{
	if (e->arbiter > 0)
		end_arbiter(e, SIGTERM);
	closep(&e->control);
	(void)munmap(e->shared, sizeof(*e->shared));
	test_rmdir(e->dir);
	free(e);
}

unsigned int log_lines(const struct env *e, const char *text, const char *also)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(1024 * 1024);
	struct error err = ERROR_INIT;
	unsigned int n = 0;

	assert_ok(file_read(e->log, &b, &err), &err);
	for (const char *at = buf_str(&b), *end; *at; at = end) {
		const char *found = strstr(at, text), *other = strstr(at, also);

		end = strchrnul(at, '\n');
		n += found && found < end && other && other < end;
		end += *end == '\n';
	}
	return n;
}

/* --- the control socket --- */

int open_control(struct env *e)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };

	(void)snprintf(at.sun_path, sizeof(at.sun_path), "%s/%s", e->run, CONTROL_SOCKET);
	closep(&e->control);
	e->len = 0;
	e->control = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	return connect(e->control, (const struct sockaddr *)&at, sizeof(at));
}

void send_control_line(struct env *e, const char *text)
{
	assert_int_equal(write(e->control, text, strlen(text)), strlen(text));
}

json_t *next_line(struct env *e, int ms)
{
	char *end;
	json_t *j;

	while (!(end = memchr(e->line, '\n', e->len))) {
		struct pollfd p = { .fd = e->control, .events = POLLIN };
		ssize_t n;

		if (poll(&p, 1, ms) != 1)
			return NULL;
		n = read(e->control, e->line + e->len, sizeof(e->line) - e->len);
		if (n <= 0)
			return NULL;
		e->len += (size_t)n;
	}
	j = json_loadb(e->line, (size_t)(end - e->line), 0, NULL);
	e->len -= (size_t)(end + 1 - e->line);
	memmove(e->line, end + 1, e->len);
	return j;
}

/* --- children --- */

pid_t child(struct env *e)
{
	pid_t pid = fork();

	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		closep(&e->control);
	}
	return pid;
}

void wait_for(_Atomic uint32_t *word, uint32_t value)
{
	uint64_t end = time_mono_ns() + 30 * NS_PER_SEC;

	while (atomic_load(word) < value) {
		assert_true(time_mono_ns() < end);
		wait_ms(1);
	}
}

void wait_ms(long ms)
{
	const struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };

	(void)nanosleep(&t, NULL);
}
