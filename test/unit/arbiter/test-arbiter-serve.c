/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The arbiter as its clients see it: a child process that runs it, other children that are processes
 * of slices, and this one, which is the agent: it reads "NVML", a table in shared memory.
 */
#include "lib/patience.h"
#include "lib/test.h"

#include "client.h"

#include "abi/slice-dir.h"
#include "arbiter/arbiter.h"
#include "arbiter/control.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/time.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB   UINT64_C(1048576)
#define GIB   (1024 * MIB)
#define ID    "0123456789abcdef0123456789abcdef"
#define UUID  "GPU-00112233-4455-6677-8899-aabbccddeeff"
#define PROCS 64

/* What children and this process tell each other. */
struct shared {
	_Atomic uint32_t pid[PROCS];
	_Atomic uint64_t bytes[PROCS]; /* physical */
	_Atomic uint64_t truth, most;  /* sum of them, and the highest that anyone saw */
	_Atomic uint32_t go, ready, refused, taken, failed;
};

struct env {
	char *dir;
	char slice[80], run[80];
	pid_t arbiter;
	int control;
	char line[256 * 1024]; /* read, up to .len */
	size_t len;
	struct shared *shared;
};

static void write_slice(const struct env *e, const char *text)
{
	struct error err = ERROR_INIT;
	char path[300];

	assert_ok(path_join(path, sizeof(path), e->slice, SLICE_FILE, &err), &err);
	assert_ok(file_write_atomic(path, text, strlen(text), 0644, &err), &err);
}

static void write_limit(const struct env *e, uint64_t limit, const char *unhooked)
{
	char text[512];

	(void)snprintf(text, sizeof(text),
		"{\"version\": 1, \"id\": \"" ID "\", \"resource\": \"nvidia.com/gpu\","
		" \"devices\": [\"" UUID "::0\"], \"gpus\": [{\"uuid\": \"" UUID
		"\", \"memory\": %llu}], \"unhooked\": \"%s\"}",
		(unsigned long long)limit, unhooked);
	write_slice(e, text);
}

/* ---- the arbiter ------------------------------------------------------------------------------ */

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
	log_setup(getenv("TEST_VERBOSE") ? LOG_DEBUG : LOG_ERROR, LOG_TEXT);
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

static int open_control(struct env *e)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };

	(void)snprintf(at.sun_path, sizeof(at.sun_path), "%s/%s", e->run, CONTROL_SOCKET);
	closep(&e->control);
	e->len = 0;
	e->control = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	return connect(e->control, (const struct sockaddr *)&at, sizeof(at));
}

static void wait_ms(long ms)
{
	const struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };

	(void)nanosleep(&t, NULL);
}

static void start_arbiter(struct env *e)
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

static void end_arbiter(struct env *e, int signal_number)
{
	int status = 0;

	(void)kill(e->arbiter, signal_number);
	assert_int_equal(waitpid(e->arbiter, &status, 0), e->arbiter);
	if (signal_number == SIGTERM)
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	e->arbiter = 0;
}

static int setup(void **state)
{
	struct env *e = calloc(1, sizeof(*e));
	struct error err = ERROR_INIT;

	assert_non_null(e);
	e->control = -1;
	e->dir = test_tmpdir();
	(void)snprintf(e->slice, sizeof(e->slice), "%s/slices/" ID, e->dir);
	(void)snprintf(e->run, sizeof(e->run), "%s/run", e->dir);
	assert_ok(dir_make(e->slice, 0755, &err), &err);
	e->shared = mmap(NULL, sizeof(*e->shared), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(e->shared, MAP_FAILED);
	write_limit(e, GIB, "report");
	start_arbiter(e);
	*state = e;
	return 0;
}

static int teardown(void **state)
{
	struct env *e = *state;

	if (e->arbiter > 0)
		end_arbiter(e, SIGTERM);
	closep(&e->control);
	(void)munmap(e->shared, sizeof(*e->shared));
	test_rmdir(e->dir);
	free(e);
	return 0;
}

/* ---- the control socket ----------------------------------------------------------------------- */

/* The next line within @ms, without its end, as an object to be released; NULL: none came. */
static json_t *next_line(struct env *e, int ms)
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

static void say(struct env *e, const char *text)
{
	assert_int_equal(write(e->control, text, strlen(text)), strlen(text));
}

static const char *op_of(const json_t *j)
{
	const char *op = json_string_value(json_object_get(j, "op"));

	return op ? op : "";
}

/* Answers a "read" with what the table says. */
static void answer_reading(struct env *e, const json_t *read)
{
	json_t *list = json_array(), *top;
	char *text;

	for (size_t i = 0; i < PROCS; i++) {
		if (atomic_load(&e->shared->pid[i]) && atomic_load(&e->shared->bytes[i]))
			(void)json_array_append_new(list,
				json_pack("{s:I, s:I}", "pid",
					(json_int_t)atomic_load(&e->shared->pid[i]), "bytes",
					(json_int_t)atomic_load(&e->shared->bytes[i])));
	}
	top = json_pack("{s:s, s:O, s:[{s:s, s:o}]}", "op", "reading", "seq",
		json_object_get(read, "seq"), "gpus", "uuid", UUID, "processes", list);
	text = json_dumps(top, JSON_COMPACT);
	assert_non_null(text);
	say(e, text);
	say(e, "\n");
	free(text);
	json_decref(top);
}

static void subscribe(struct env *e)
{
	json_t *j;

	say(e, "{\"op\": \"readings\"}\n");
	j = next_line(e, 20000);
	assert_string_equal(op_of(j), "subscribed");
	json_decref(j);
}

/* Status now; readings that are asked for meanwhile are answered. */
static json_t *status(struct env *e)
{
	say(e, "{\"op\": \"status\"}\n");
	for (;;) {
		json_t *j = next_line(e, 20000);

		assert_non_null(j);
		if (!strcmp(op_of(j), "status"))
			return j;
		if (!strcmp(op_of(j), "read"))
			answer_reading(e, j);
		json_decref(j);
	}
}

static uint64_t gpu_figure(struct env *e, const char *key)
{
	json_t *j = status(e), *slice = json_array_get(json_object_get(j, "slices"), 0);
	const json_t *gpu = json_array_get(json_object_get(slice, "gpus"), 0);
	uint64_t v = (uint64_t)json_integer_value(json_object_get(gpu, key));

	json_decref(j);
	return v;
}

static bool eventually(struct env *e, const char *key, uint64_t value)
{
	uint64_t end = time_mono_ns() + 20 * NS_PER_SEC, v;

	while ((v = gpu_figure(e, key)) != value) {
		if (time_mono_ns() > end) {
			print_message("# %s is %llu, not %llu\n", key, (unsigned long long)v,
				(unsigned long long)value);
			return false;
		}
		wait_ms(2);
	}
	return true;
}

/* ---- children --------------------------------------------------------------------------------- */

static pid_t child(struct env *e)
{
	pid_t pid = fork();

	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		closep(&e->control);
	}
	return pid;
}

static void wait_for(_Atomic uint32_t *word, uint32_t value)
{
	uint64_t end = time_mono_ns() + 30 * NS_PER_SEC;

	while (atomic_load(word) < value) {
		assert_true(time_mono_ns() < end);
		wait_ms(1);
	}
}

static void reap(pid_t pid)
{
	int status = 0;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* A process that has @bytes and waits; with a hang-up before that, if so wanted. */
static pid_t holder(struct env *e, uint64_t bytes, bool hang_up)
{
	uint32_t ready = atomic_load(&e->shared->ready);
	pid_t pid = child(e);
	struct slice_client c;

	if (pid == 0) {
		if (client_connect(&c, e->slice) < 0 ||
			client_hello(&c, SLICE_HELLO_MEMORY) != SLICE_OK ||
			!client_take(&c, 0, bytes))
			_exit(1);
		if (hang_up)
			client_hang_up(&c);
		atomic_fetch_add(&e->shared->ready, 1);
		for (;;)
			(void)pause();
	}
	wait_for(&e->shared->ready, ready + 1);
	return pid;
}

/* ---- tests ------------------------------------------------------------------------------------ */

static void process__registers_takes_and_is_seen(void **state)
{
	struct env *e = *state;
	struct slice_viewed v;
	struct slice_client c;
	json_t *j;
	const json_t *p;
	uint64_t left = 0;

	assert_int_equal(client_connect(&c, e->slice), 0);
	assert_int_equal(client_hello(&c, SLICE_HELLO_MEMORY), SLICE_OK);
	assert_string_equal(c.welcome.slice, ID);
	assert_int_equal(c.welcome.gpu_count, 1);
	assert_int_equal(c.welcome.gpus[0].uuid[0], 0x00);
	assert_int_equal(c.welcome.gpus[0].uuid[15], 0xff);
	assert_int_equal(c.welcome.gpus[0].limit, GIB);
	assert_int_equal(c.page->magic, SLICE_PAGE_MAGIC);
	assert_int_equal(atomic_load(&c.page->gpus[0].limit), GIB);
	assert_int_equal(atomic_load(&c.page->gpus[0].alone), 1);
	assert_int_equal(fcntl(c.page_fd, F_GET_SEALS) & (F_SEAL_SHRINK | F_SEAL_GROW),
		F_SEAL_SHRINK | F_SEAL_GROW);
	assert_int_equal(client_want(&c, 0, 2 * GIB, &left), SLICE_NO_ROOM);
	assert_int_equal(left, GIB);
	assert_true(client_take(&c, 0, 100 * MIB));
	assert_int_equal(client_view(&c, 0, &v), 0);
	assert_int_equal(v.gpus[0].used, 100 * MIB);
	assert_int_equal(v.gpus[0].limit, GIB);
	assert_int_equal(v.process_count, 1);
	assert_int_equal(v.here, 1);
	assert_int_equal(v.processes[0].host_pid, getpid());
	assert_int_equal(v.processes[0].used, 100 * MIB);
	assert_int_equal(client_view(&c, 1, &v), 0);
	assert_int_equal(v.here, 0);
	assert_int_equal(client_compare(&c, 0), 0);

	j = status(e);
	p = json_array_get(
		json_object_get(json_array_get(json_object_get(j, "slices"), 0), "processes"),
		0);
	assert_int_equal(json_integer_value(json_object_get(p, "host_pid")), getpid());
	assert_int_equal(json_integer_value(json_object_get(p, "used")), 100 * MIB);
	assert_true(json_is_true(json_object_get(p, "connected")));
	json_decref(j);
	client_close(&c);
}

static void process__that_only_looks_has_no_page(void **state)
{
	struct env *e = *state;
	struct slice_viewed v;
	struct slice_client c;

	assert_int_equal(client_connect(&c, e->slice), 0);
	assert_int_equal(client_hello(&c, 0), SLICE_OK);
	assert_null(c.page);
	assert_int_equal(client_view(&c, 0, &v), 0);
	assert_int_equal(v.gpu_count, 1);
	/* It has no memory to ask for. */
	assert_int_equal(client_want(&c, 0, 1, NULL), -1);
	client_close(&c);
}

static void process__of_another_version_is_told(void **state)
{
	struct env *e = *state;
	struct slice_hello h = { .head = { .op = SLICE_HELLO }, .version = 99, .flags = ~0U };
	struct slice_welcome w;
	struct slice_client c;

	assert_int_equal(client_connect(&c, e->slice), 0);
	assert_int_equal(client_call(&c, &h, sizeof(h), &w, sizeof(w)), sizeof(w));
	assert_int_equal(w.status, SLICE_BAD_VERSION);
	assert_int_equal(w.version, SLICE_WIRE_VERSION);
	client_close(&c);
}

static void death__returns_memory_and_hanging_up_does_not(void **state)
{
	struct env *e = *state;
	pid_t one = holder(e, 300 * MIB, false), two = holder(e, 200 * MIB, true);

	assert_int_equal(gpu_figure(e, "used"), 500 * MIB);
	(void)kill(one, SIGKILL);
	(void)waitpid(one, NULL, 0);
	assert_true(eventually(e, "used", 200 * MIB));
	wait_ms(50);
	assert_int_equal(gpu_figure(e, "used"), 200 * MIB);
	(void)kill(two, SIGKILL);
	/* Not reaped: a zombie has no memory any more. */
	assert_true(eventually(e, "granted", 0));
	(void)waitpid(two, NULL, 0);
	assert_int_equal(gpu_figure(e, "peak"), 500 * MIB);
}

/* A process that asks for @bytes at .go, and then ends: with 0, or the refusal. */
static pid_t asker(struct env *e, uint64_t bytes)
{
	uint32_t ready = atomic_load(&e->shared->ready);
	pid_t pid = child(e);
	struct slice_client c;

	if (pid == 0) {
		if (client_connect(&c, e->slice) < 0 ||
			client_hello(&c, SLICE_HELLO_MEMORY) != SLICE_OK)
			_exit(100);
		atomic_fetch_add(&e->shared->ready, 1);
		wait_for(&e->shared->go, 1);
		_exit(client_want(&c, 0, bytes, NULL));
	}
	wait_for(&e->shared->ready, ready + 1);
	return pid;
}

static int answer_to(pid_t asker)
{
	int status = 0;

	assert_int_equal(waitpid(asker, &status, 0), asker);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* Until the only process of the slice has ended, and the arbiter knows. */
static void wait_ended(struct env *e, pid_t pid)
{
	uint64_t end = time_mono_ns() + 20 * NS_PER_SEC;
	bool ended = false;

	while (!ended) {
		json_t *j = status(e), *slice = json_array_get(json_object_get(j, "slices"), 0);
		const json_t *p = json_array_get(json_object_get(slice, "processes"), 0);

		assert_int_equal(json_integer_value(json_object_get(p, "host_pid")), pid);
		ended = json_is_true(json_object_get(p, "ended"));
		json_decref(j);
		assert_true(time_mono_ns() < end);
		wait_ms(1);
	}
}

static void death__returns_nothing_while_a_child_keeps_the_memory(void **state)
{
	struct env *e = *state;
	pid_t one = holder(e, 300 * MIB, false);
	pid_t other = asker(e, 800 * MIB);

	atomic_store(&e->shared->pid[0], (uint32_t)one);
	atomic_store(&e->shared->bytes[0], 300 * MIB);
	subscribe(e);
	/* A zombie: nobody has taken note of its end. */
	(void)kill(one, SIGKILL);
	wait_ended(e, one);
	/* It was with its credit, which nobody gave back, until the first reading. */
	assert_true(eventually(e, "granted", 300 * MIB));
	wait_ms(50);
	assert_int_equal(gpu_figure(e, "used"), 300 * MIB);
	/* That is known, so nobody waits for it. */
	atomic_store(&e->shared->go, 1);
	assert_int_equal(answer_to(other), SLICE_NO_ROOM);
	end_arbiter(e, SIGKILL);
	start_arbiter(e);
	wait_ms(50);
	assert_int_equal(gpu_figure(e, "used"), 300 * MIB);
	(void)waitpid(one, NULL, 0);
	end_arbiter(e, SIGKILL);
	start_arbiter(e);
	assert_int_equal(gpu_figure(e, "used"), 300 * MIB);
	subscribe(e);
	assert_int_equal(gpu_figure(e, "used"), 300 * MIB);
	assert_int_equal(gpu_figure(e, "unhooked_used"), 0);
	atomic_store(&e->shared->bytes[0], 0);
	assert_true(eventually(e, "granted", 0));
}

/* A child has its dead parent's connections, and says that it is the parent. */
static void death__lets_nobody_register_in_its_name(void **state)
{
	struct env *e = *state;
	struct slice_client has, late;
	pid_t pid = child(e);

	if (pid == 0) {
		if (client_connect(&has, e->slice) < 0 ||
			client_hello(&has, SLICE_HELLO_MEMORY) != SLICE_OK ||
			!client_take(&has, 0, 300 * MIB) || client_connect(&late, e->slice) < 0)
			_exit(1);
		if (fork() == 0) {
			wait_for(&e->shared->go, 1);
			atomic_store(&e->shared->failed,
				client_hello(&late, SLICE_HELLO_MEMORY) == SLICE_OK);
			atomic_fetch_add(&e->shared->ready, 1);
			_exit(0);
		}
		atomic_fetch_add(&e->shared->ready, 1);
		for (;;)
			(void)pause();
	}
	wait_for(&e->shared->ready, 1);
	atomic_store(&e->shared->pid[0], (uint32_t)pid);
	atomic_store(&e->shared->bytes[0], 300 * MIB);
	subscribe(e);
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
	wait_ended(e, pid);
	atomic_store(&e->shared->go, 1);
	wait_for(&e->shared->ready, 2);
	assert_int_equal(atomic_load(&e->shared->failed), 0);
	atomic_store(&e->shared->bytes[0], 0);
	assert_true(eventually(e, "granted", 0));
}

static void death__makes_others_wait_for_the_reading_and_refuses_none(void **state)
{
	struct env *e = *state;
	pid_t one = holder(e, 900 * MIB, false), two;
	pid_t other = asker(e, 800 * MIB);

	subscribe(e);
	(void)kill(one, SIGKILL);
	(void)waitpid(one, NULL, 0);
	atomic_store(&e->shared->go, 1);
	/* No reading is answered. */
	wait_ms(100);
	assert_int_equal(waitpid(other, NULL, WNOHANG), 0);
	assert_true(eventually(e, "granted", 0));
	assert_int_equal(answer_to(other), SLICE_OK);

	/* The reader goes while somebody waits. */
	two = holder(e, 900 * MIB, false);
	atomic_store(&e->shared->go, 0);
	other = asker(e, 800 * MIB);
	(void)kill(two, SIGKILL);
	(void)waitpid(two, NULL, 0);
	atomic_store(&e->shared->go, 1);
	wait_ms(50);
	assert_int_equal(open_control(e), 0);
	assert_int_equal(answer_to(other), SLICE_OK);
	assert_true(eventually(e, "granted", 0));
}

static void process__that_executes_is_counted_until_nvml_shows_it_gone(void **state)
{
	struct env *e = *state;
	uint64_t end = time_mono_ns() + 2 * NS_PER_SEC;
	struct slice_client c;
	pid_t pid = child(e);

	if (pid == 0) {
		if (client_connect(&c, e->slice) < 0 ||
			client_hello(&c, SLICE_HELLO_MEMORY) != SLICE_OK ||
			!client_take(&c, 0, 100 * MIB))
			_exit(1);
		(void)execl("/bin/sleep", "sleep", "60", (char *)NULL);
		_exit(1);
	}
	atomic_store(&e->shared->pid[0], (uint32_t)pid);
	atomic_store(&e->shared->bytes[0], 70 * MIB);
	subscribe(e);
	assert_true(eventually(e, "granted", 70 * MIB));
	while (time_mono_ns() < end && gpu_figure(e, "used") == 70 * MIB)
		wait_ms(20);
	assert_int_equal(gpu_figure(e, "used"), 70 * MIB);
	atomic_store(&e->shared->bytes[0], 0);
	assert_true(eventually(e, "granted", 0));
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
}

static void reading__sets_what_no_hook_charged(void **state)
{
	struct env *e = *state;
	struct slice_client c;

	assert_int_equal(client_connect(&c, e->slice), 0);
	assert_int_equal(client_hello(&c, SLICE_HELLO_MEMORY), SLICE_OK);
	assert_true(client_take(&c, 0, 100 * MIB));
	atomic_store(&e->shared->pid[0], (uint32_t)getpid());
	atomic_store(&e->shared->bytes[0], 618 * MIB);
	subscribe(e);
	assert_int_equal(client_compare(&c, 0), 0);
	assert_true(eventually(e, "used", 618 * MIB));
	atomic_store(&e->shared->bytes[0], 2 * GIB);
	assert_true(eventually(e, "used", 2 * GIB));
	assert_int_equal(client_want(&c, 0, 1, NULL), SLICE_NO_ROOM);
	atomic_store(&e->shared->bytes[0], 100 * MIB);
	assert_true(eventually(e, "used", 100 * MIB));
	client_close(&c);
}

static void limit__changes_while_processes_run(void **state)
{
	struct env *e = *state;
	struct slice_client c;
	json_t *j;
	const char *reason;

	assert_int_equal(client_connect(&c, e->slice), 0);
	assert_int_equal(client_hello(&c, SLICE_HELLO_MEMORY), SLICE_OK);
	assert_true(client_take(&c, 0, 100 * MIB));
	write_limit(e, 4 * GIB, "report");
	assert_true(eventually(e, "limit", 4 * GIB));
	assert_int_equal(atomic_load(&c.page->gpus[0].limit), 4 * GIB);
	assert_true(client_take(&c, 0, 3 * GIB));
	/* What is wrong changes nothing. */
	write_slice(e, "{\"version\": 1, \"id\": \"" ID "\", \"resource\": \"x\", \"gpus\": "
		       "[{\"uuid\": \"" UUID "\", \"memory\": \"4Gi\"}]}");
	for (int i = 0; i < 2000; i++) {
		j = status(e);
		reason = json_string_value(json_object_get(
			json_array_get(json_object_get(j, "slices"), 0), "error"));
		if (reason) {
			assert_non_null(strstr(reason, "gpus[0].memory: expected bytes"));
			assert_non_null(strstr(reason, "'4Gi'"));
			i = 2000;
		}
		json_decref(j);
		wait_ms(1);
	}
	assert_int_equal(gpu_figure(e, "limit"), 4 * GIB);
	write_limit(e, GIB, "report");
	assert_true(eventually(e, "limit", GIB));
	assert_int_equal(client_want(&c, 0, 1, NULL), SLICE_NO_ROOM);
	client_close(&c);
}

static void slice__comes_and_goes(void **state)
{
	struct env *e = *state;
	struct slice_client c, late;
	char path[300], away[300];
	int r = -1;

	assert_int_equal(client_connect(&c, e->slice), 0);
	assert_int_equal(client_hello(&c, SLICE_HELLO_MEMORY), SLICE_OK);
	assert_true(client_take(&c, 0, 100 * MIB));
	(void)snprintf(away, sizeof(away), "%s/away", e->dir);
	assert_int_equal(rename(e->slice, away), 0);
	(void)snprintf(path, sizeof(path), "%s/slices", e->dir);
	for (int i = 0; i < 5000 && r != SLICE_GONE; i++) {
		r = client_connect(&late, away) == 0 ? client_hello(&late, 0) : SLICE_GONE;
		client_close(&late);
		wait_ms(1);
	}
	assert_int_equal(r, SLICE_GONE);
	/* Those that are in it go on. */
	assert_true(client_take(&c, 0, 200 * MIB));
	assert_int_equal(rename(away, e->slice), 0);
	for (int i = 0; i < 5000 && r != SLICE_OK; i++) {
		r = client_connect(&late, e->slice) == 0 ? client_hello(&late, 0) : -1;
		client_close(&late);
		wait_ms(1);
	}
	assert_int_equal(r, SLICE_OK);
	assert_int_equal(gpu_figure(e, "used"), 300 * MIB);
	client_close(&c);
}

static void garbage__ends_the_connection_and_no_other(void **state)
{
	struct env *e = *state;
	struct slice_client good, bad;
	struct slice_want w = { .head = { .op = SLICE_WANT }, .gpu = 1, .bytes = 1 };
	struct slice_viewed v;
	char text[SLICE_PACKET_MAX + 1] = { 42 };

	assert_int_equal(client_connect(&good, e->slice), 0);
	assert_int_equal(client_hello(&good, SLICE_HELLO_MEMORY), SLICE_OK);
	for (size_t len = 1; len <= sizeof(text); len = len * 2 + (len == 4096)) {
		assert_int_equal(client_connect(&bad, e->slice), 0);
		assert_int_equal(client_hello(&bad, 0), SLICE_OK);
		assert_int_equal(send(bad.fd, text, len, 0), len);
		assert_int_equal(recv(bad.fd, &v, sizeof(v), 0), 0);
		client_close(&bad);
	}
	/* A GPU that the slice does not have; a request before the hello; two hellos. */
	assert_int_equal(client_connect(&bad, e->slice), 0);
	assert_int_equal(client_hello(&bad, SLICE_HELLO_MEMORY), SLICE_OK);
	assert_int_equal(client_call(&bad, &w, sizeof(w), &v, sizeof(v)), -1);
	assert_int_equal(client_connect(&bad, NULL), 0);
	assert_int_equal(client_view(&bad, 0, &v), -1);
	assert_int_equal(client_connect(&bad, NULL), 0);
	assert_int_equal(client_hello(&bad, 0), SLICE_OK);
	assert_int_equal(client_hello(&bad, 0), -1);
	client_close(&bad);
	assert_true(client_take(&good, 0, MIB));
	client_close(&good);
}

static void client__that_does_not_read_is_cut_off(void **state)
{
	struct env *e = *state;
	struct slice_view v = { .head = { .op = SLICE_VIEW } };
	struct slice_client good, bad;
	bool cut = false;

	assert_int_equal(client_connect(&good, e->slice), 0);
	assert_int_equal(client_hello(&good, SLICE_HELLO_MEMORY), SLICE_OK);
	assert_int_equal(client_connect(&bad, e->slice), 0);
	assert_int_equal(client_hello(&bad, 0), SLICE_OK);
	for (int i = 0; i < 100000 && !cut; i++)
		cut = send(bad.fd, &v, sizeof(v), MSG_NOSIGNAL) < 0;
	assert_true(cut);
	assert_true(client_take(&good, 0, MIB));
	client_close(&bad);
	client_close(&good);
}

static void page__that_is_not_the_given_one_is_refused(void **state)
{
	struct env *e = *state;
	struct slice_client c, forged;
	struct slice_page *page;
	int fd;

	assert_int_equal(client_connect(&c, e->slice), 0);
	assert_int_equal(client_hello(&c, SLICE_HELLO_MEMORY), SLICE_OK);
	assert_true(client_take(&c, 0, 100 * MIB));
	/* No page at all, one that is not sealed, one that is a copy. */
	assert_int_equal(client_connect(&forged, e->slice), 0);
	assert_int_equal(client_hello(&forged, SLICE_HELLO_MEMORY | SLICE_HELLO_AGAIN),
		SLICE_REFUSED);
	fd = memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(ftruncate(fd, SLICE_PAGE_BYTES), 0);
	page = mmap(NULL, SLICE_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(page, MAP_FAILED);
	memcpy(page, c.page, SLICE_PAGE_BYTES);
	forged.page_fd = fd;
	assert_int_equal(client_again(&forged, 1), SLICE_REFUSED);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	assert_int_equal(client_again(&forged, 1), SLICE_REFUSED);
	assert_non_null(strstr(forged.welcome.reason, "not the one"));
	/* The true one is taken again. */
	assert_int_equal(client_again(&c, 1), SLICE_OK);
	assert_true(client_take(&c, 0, 100 * MIB));
	assert_int_equal(gpu_figure(e, "used"), 200 * MIB);
	(void)munmap(page, SLICE_PAGE_BYTES);
	client_close(&forged);
	client_close(&c);
}

static void restart__counts_what_is_held_and_finds_the_pages(void **state)
{
	struct env *e = *state;
	pid_t one = holder(e, 300 * MIB, false), two = holder(e, 200 * MIB, false);
	struct slice_client c;

	end_arbiter(e, SIGKILL);
	(void)kill(two, SIGKILL);
	(void)waitpid(two, NULL, 0);
	start_arbiter(e);
	/* To the byte, and nobody had to come: the page was found in the process. */
	assert_int_equal(gpu_figure(e, "used"), 300 * MIB);
	assert_int_equal(client_connect(&c, e->slice), 0);
	assert_int_equal(client_hello(&c, SLICE_HELLO_MEMORY), SLICE_OK);
	assert_true(client_take(&c, 0, 724 * MIB));
	assert_false(client_take(&c, 0, 1));
	end_arbiter(e, SIGTERM);
	start_arbiter(e);
	assert_int_equal(client_again(&c, 5000), SLICE_OK);
	client_give(&c, 0, 700 * MIB);
	assert_true(client_take(&c, 0, 700 * MIB));
	assert_false(client_take(&c, 0, 1));
	assert_int_equal(gpu_figure(e, "used"), GIB);
	(void)kill(one, SIGKILL);
	(void)waitpid(one, NULL, 0);
	assert_true(eventually(e, "used", 724 * MIB));
	client_close(&c);
}

static void restart__believes_pages_when_the_book_is_lost(void **state)
{
	struct env *e = *state;
	struct slice_client c;
	char path[300];

	assert_int_equal(client_connect(&c, e->slice), 0);
	assert_int_equal(client_hello(&c, SLICE_HELLO_MEMORY), SLICE_OK);
	assert_true(client_take(&c, 0, 700 * MIB));
	end_arbiter(e, SIGKILL);
	(void)snprintf(path, sizeof(path), "%s/arbiter.book", e->run);
	assert_int_equal(unlink(path), 0);
	start_arbiter(e);
	assert_int_equal(gpu_figure(e, "used"), 0);
	assert_int_equal(client_again(&c, 5000), SLICE_OK);
	assert_int_equal(gpu_figure(e, "used"), 700 * MIB);
	assert_false(client_take(&c, 0, 400 * MIB));
	client_close(&c);
}

static void restart__with_a_wrong_file_drops_no_limit(void **state)
{
	struct env *e = *state;
	struct slice_client c;

	assert_int_equal(client_connect(&c, e->slice), 0);
	assert_int_equal(client_hello(&c, SLICE_HELLO_MEMORY), SLICE_OK);
	assert_true(client_take(&c, 0, 700 * MIB));
	end_arbiter(e, SIGKILL);
	write_slice(e, "{");
	start_arbiter(e);
	assert_int_equal(client_again(&c, 50), -1);
	assert_int_equal(atomic_load(&c.page->gpus[0].limit), GIB);
	write_limit(e, GIB, "report");
	assert_int_equal(client_again(&c, 20000), SLICE_OK);
	assert_int_equal(gpu_figure(e, "used"), 700 * MIB);
	assert_true(client_take(&c, 0, 324 * MIB));
	assert_false(client_take(&c, 0, 1));
	client_close(&c);
}

static void second__arbiter_is_refused(void **state)
{
	struct env *e = *state;
	struct arbiter_options o = { .procfs = "/proc" };
	struct error err = ERROR_INIT;
	struct arbiter *a = NULL;
	uv_loop_t loop;

	(void)snprintf(o.state_dir, sizeof(o.state_dir), "%s", e->dir);
	(void)snprintf(o.run_dir, sizeof(o.run_dir), "%s", e->run);
	assert_int_equal(uv_loop_init(&loop), 0);
	assert_error(arbiter_start(&a, &loop, &o, &err), &err, "another arbiter");
	assert_int_equal(uv_loop_close(&loop), 0);
}

static void control__answers_garbage_once_and_ends(void **state)
{
	struct env *e = *state;
	json_t *j;

	say(e, "{\"op\": \"dance\"}\n{\"op\": \"status\"}\n");
	j = next_line(e, 20000);
	assert_string_equal(op_of(j), "error");
	assert_non_null(strstr(json_string_value(json_object_get(j, "reason")), "dance"));
	json_decref(j);
	assert_null(next_line(e, 20000));
	assert_int_equal(open_control(e), 0);
	j = status(e);
	assert_int_equal(json_array_size(json_object_get(j, "slices")), 1);
	json_decref(j);
}

/* ---- processes past the libraries ------------------------------------------------------------- */

/* Sees the slice's directory where a container of the slice sees it. False: not allowed here. */
static bool enter_slice(const struct env *e)
{
	if (unshare(CLONE_NEWNS) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
		return false;
	return mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
	       mount("none", "/run", "tmpfs", 0, NULL) == 0 &&
	       dir_make(SLICE_CONTAINER_DIR, 0755, NULL) == 0 &&
	       mount(e->slice, SLICE_CONTAINER_DIR, NULL, MS_BIND, NULL) == 0;
}

static pid_t unhooked_process(struct env *e)
{
	uint32_t ready = atomic_load(&e->shared->ready);
	pid_t pid = child(e);

	if (pid == 0) {
		if (!enter_slice(e))
			atomic_store(&e->shared->failed, 1);
		atomic_fetch_add(&e->shared->ready, 1);
		for (;;)
			(void)pause();
	}
	wait_for(&e->shared->ready, ready + 1);
	atomic_store(&e->shared->pid[0], (uint32_t)pid);
	atomic_store(&e->shared->bytes[0], 300 * MIB);
	return pid;
}

static void unhooked__process_is_counted_and_reported(void **state)
{
	struct env *e = *state;
	pid_t pid = unhooked_process(e);
	struct slice_client c;
	const json_t *slice, *p;
	json_t *j;

	if (!atomic_load(&e->shared->failed)) {
		subscribe(e);
		assert_true(eventually(e, "unhooked_used", 300 * MIB));
		j = status(e);
		slice = json_array_get(json_object_get(j, "slices"), 0);
		p = json_array_get(json_object_get(slice, "unhooked_processes"), 0);
		assert_int_equal(json_integer_value(json_object_get(p, "host_pid")), pid);
		json_decref(j);
		assert_int_equal(client_connect(&c, e->slice), 0);
		assert_int_equal(client_hello(&c, SLICE_HELLO_MEMORY), SLICE_OK);
		assert_false(client_take(&c, 0, 725 * MIB));
		assert_true(client_take(&c, 0, 700 * MIB));
		client_close(&c);
		wait_ms(1200);
		assert_int_equal(gpu_figure(e, "unhooked_used"), 300 * MIB);
		assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
	} else {
		print_message("# skipped: no mount namespaces\n");
	}
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
}

static void unhooked__process_is_stopped_where_the_slice_says_so(void **state)
{
	struct env *e = *state;
	pid_t pid = unhooked_process(e), other = child(e);
	uint64_t end = time_mono_ns() + 20 * NS_PER_SEC;
	int status_of_it = 0;

	if (other == 0) {
		for (;;)
			(void)pause();
	}
	/* One of no slice is none of our business. */
	atomic_store(&e->shared->pid[1], (uint32_t)other);
	atomic_store(&e->shared->bytes[1], 300 * MIB);
	write_limit(e, GIB, "stop");
	if (!atomic_load(&e->shared->failed)) {
		subscribe(e);
		while (waitpid(pid, &status_of_it, WNOHANG) == 0 && time_mono_ns() < end) {
			(void)gpu_figure(e, "used");
			wait_ms(5);
		}
		assert_true(WIFSIGNALED(status_of_it) && WTERMSIG(status_of_it) == SIGKILL);
		atomic_store(&e->shared->bytes[0], 0);
		assert_true(eventually(e, "unhooked_used", 0));
		assert_int_equal(waitpid(other, NULL, WNOHANG), 0);
	} else {
		print_message("# skipped: no mount namespaces\n");
		(void)kill(pid, SIGKILL);
		(void)waitpid(pid, NULL, 0);
	}
	(void)kill(other, SIGKILL);
	(void)waitpid(other, NULL, 0);
}

/* NVML is asked once, and has the process in slot 0 with @bytes for that time only. */
static void read_once(struct env *e, struct slice_client *c, uint64_t bytes)
{
	json_t *j = NULL;

	assert_int_equal(client_compare(c, 0), 0);
	do {
		json_decref(j);
		j = next_line(e, 20000);
		assert_non_null(j);
	} while (strcmp(op_of(j), "read") != 0);
	atomic_store(&e->shared->bytes[0], bytes);
	answer_reading(e, j);
	atomic_store(&e->shared->bytes[0], 0);
	json_decref(j);
	json_decref(status(e));
}

static void unhooked__process_is_stopped_after_two_readings_in_a_row_only(void **state)
{
	struct env *e = *state;
	pid_t pid = unhooked_process(e);
	struct slice_client c;

	write_limit(e, GIB, "stop");
	if (!atomic_load(&e->shared->failed)) {
		atomic_store(&e->shared->bytes[0], 0);
		assert_int_equal(client_connect(&c, e->slice), 0);
		assert_int_equal(client_hello(&c, SLICE_HELLO_MEMORY), SLICE_OK);
		subscribe(e);
		for (int i = 0; i < 3; i++) {
			read_once(e, &c, 300 * MIB);
			read_once(e, &c, 0);
		}
		wait_ms(50);
		assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
		read_once(e, &c, 300 * MIB);
		assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
		read_once(e, &c, 300 * MIB);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		client_close(&c);
	} else {
		print_message("# skipped: no mount namespaces\n");
		(void)kill(pid, SIGKILL);
		(void)waitpid(pid, NULL, 0);
	}
}

/* An idle process says nothing to the new arbiter, and NVML shows it all the same. */
static void lost__process_of_a_lost_book_is_found_by_its_page(void **state)
{
	struct env *e = *state;
	char book[300];
	pid_t pid = child(e);

	if (pid == 0) {
		struct slice_client c;

		if (!enter_slice(e) || client_connect(&c, e->slice) < 0 ||
			client_hello(&c, SLICE_HELLO_MEMORY) != SLICE_OK ||
			!client_take(&c, 0, 700 * MIB))
			atomic_store(&e->shared->failed, 1);
		atomic_store(&e->shared->ready, 1);
		for (;;)
			(void)pause();
	}
	wait_for(&e->shared->ready, 1);
	if (!atomic_load(&e->shared->failed)) {
		write_limit(e, GIB, "stop");
		end_arbiter(e, SIGKILL);
		(void)snprintf(book, sizeof(book), "%s/arbiter.book", e->run);
		assert_int_equal(unlink(book), 0);
		start_arbiter(e);
		assert_int_equal(gpu_figure(e, "used"), 0);
		atomic_store(&e->shared->pid[0], (uint32_t)pid);
		atomic_store(&e->shared->bytes[0], 700 * MIB);
		subscribe(e);
		assert_true(eventually(e, "used", 700 * MIB));
		wait_ms(1200);
		assert_int_equal(gpu_figure(e, "unhooked_used"), 0);
		assert_int_equal(gpu_figure(e, "used"), 700 * MIB);
		assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
	} else {
		print_message("# skipped: no mount namespaces\n");
	}
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
	atomic_store(&e->shared->bytes[0], 0);
	assert_true(eventually(e, "granted", 0));
}

static void lost__run_directory_ends_the_arbiter(void **state)
{
	struct env *e = *state;
	char book[300];
	int status_of_it = 0;

	(void)snprintf(book, sizeof(book), "%s/arbiter.book", e->run);
	assert_int_equal(unlink(book), 0);
	assert_int_equal(waitpid(e->arbiter, &status_of_it, 0), e->arbiter);
	assert_true(WIFEXITED(status_of_it) && WEXITSTATUS(status_of_it) == 0);
	e->arbiter = 0;
}

static void write_other_gpus(const struct env *e)
{
	write_slice(e,
		"{\"version\": 1, \"id\": \"" ID "\", \"resource\": \"nvidia.com/gpu\","
		" \"devices\": [\"a\"], \"gpus\": ["
		"{\"uuid\": \"GPU-ffffffff-4455-6677-8899-aabbccddeeff\", \"memory\": 1073741824},"
		"{\"uuid\": \"" UUID "\", \"memory\": 536870912}]}");
}

static json_t *first_slice(struct env *e, json_t **top)
{
	*top = status(e);
	return json_array_get(json_object_get(*top, "slices"), 0);
}

static void restart__with_other_gpus_in_the_file_keeps_those_of_the_processes(void **state)
{
	struct env *e = *state;
	struct slice_client c, other;
	const json_t *slice, *gpus;
	uint64_t end = time_mono_ns() + 20 * NS_PER_SEC;
	size_t n = 0;
	json_t *top;

	assert_int_equal(client_connect(&c, e->slice), 0);
	assert_int_equal(client_hello(&c, SLICE_HELLO_MEMORY), SLICE_OK);
	assert_true(client_take(&c, 0, 300 * MIB));
	end_arbiter(e, SIGKILL);
	write_other_gpus(e);
	start_arbiter(e);
	slice = first_slice(e, &top);
	gpus = json_object_get(slice, "gpus");
	assert_int_equal(json_array_size(gpus), 1);
	assert_string_equal(json_string_value(json_object_get(json_array_get(gpus, 0), "uuid")),
		UUID);
	assert_non_null(strstr(json_string_value(json_object_get(slice, "error")), "gpus"));
	json_decref(top);
	assert_int_equal(gpu_figure(e, "used"), 300 * MIB);
	/* The file's limit of that GPU. */
	assert_int_equal(gpu_figure(e, "limit"), 512 * MIB);
	assert_true(client_take(&c, 0, 100 * MIB));
	assert_int_equal(client_connect(&other, e->slice), 0);
	assert_int_equal(client_hello(&other, SLICE_HELLO_MEMORY), SLICE_OK);
	assert_false(client_take(&other, 0, 200 * MIB));
	client_give(&c, 0, 400 * MIB);
	client_close(&c);
	client_close(&other);
	/* Those processes are this one, which does not end: as if it had executed another program. */
	end_arbiter(e, SIGTERM);
	(void)snprintf(c.path, sizeof(c.path), "%s/arbiter.book", e->run);
	assert_int_equal(unlink(c.path), 0);
	start_arbiter(e);
	while (n != 2) {
		n = json_array_size(json_object_get(first_slice(e, &top), "gpus"));
		json_decref(top);
		assert_true(time_mono_ns() < end);
	}
}

/* ---- many at once ----------------------------------------------------------------------------- */

static size_t descriptors_of(pid_t pid)
{
	char path[64];
	size_t n = 0;
	DIR *dir;

	(void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	dir = opendir(path);
	assert_non_null(dir);
	while (readdir(dir))
		n++;
	(void)closedir(dir);
	return n;
}

/* A question with @n descriptors, and its answer. */
static void ask_with_descriptors(struct slice_client *c, size_t n)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(253 * sizeof(int))];
	} control = { .room = { 0 } };
	struct slice_compare ask = { .head = { .op = SLICE_COMPARE, .tag = ++c->tag } };
	struct slice_compared answer;
	struct iovec part = { .iov_base = &ask, .iov_len = sizeof(ask) };
	struct msghdr m = { .msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = control.room,
		.msg_controllen = CMSG_SPACE(n * sizeof(int)) };

	control.head.cmsg_level = SOL_SOCKET;
	control.head.cmsg_type = SCM_RIGHTS;
	control.head.cmsg_len = CMSG_LEN(n * sizeof(int));
	for (size_t i = 0; i < n; i++)
		memcpy(control.room + CMSG_LEN(i * sizeof(int)), &c->fd, sizeof(int));
	assert_int_equal(sendmsg(c->fd, &m, MSG_NOSIGNAL), sizeof(ask));
	assert_int_equal(recv(c->fd, &answer, sizeof(answer), 0), sizeof(answer));
}

static void descriptors__that_a_process_sends_are_closed(void **state)
{
	static const size_t counts[] = { 1, 2, 3, 253 };
	struct env *e = *state;
	struct slice_client c;
	size_t before;

	assert_int_equal(client_connect(&c, e->slice), 0);
	assert_int_equal(client_hello(&c, SLICE_HELLO_MEMORY), SLICE_OK);
	before = descriptors_of(e->arbiter);
	for (size_t i = 0; i < 10 * ARRAY_LEN(counts); i++)
		ask_with_descriptors(&c, counts[i % ARRAY_LEN(counts)]);
	/* It opens and closes files of its own meanwhile. */
	assert_true(descriptors_of(e->arbiter) < before + 8);
	client_close(&c);
}

static void processes__register_at_the_same_time(void **state)
{
	struct env *e = *state;
	pid_t pids[200];

	for (size_t i = 0; i < ARRAY_LEN(pids); i++) {
		pids[i] = child(e);
		if (pids[i] == 0) {
			struct slice_client c;

			wait_for(&e->shared->go, 1);
			_exit(client_connect(&c, e->slice) < 0 ||
				client_hello(&c, SLICE_HELLO_MEMORY) != SLICE_OK ||
				!client_take(&c, 0, MIB));
		}
	}
	atomic_store(&e->shared->go, 1);
	for (size_t i = 0; i < ARRAY_LEN(pids); i++)
		reap(pids[i]);
	assert_true(eventually(e, "granted", 0));
}

static uint64_t next_random(uint64_t *r)
{
	*r ^= *r << 13;
	*r ^= *r >> 7;
	*r ^= *r << 17;
	return *r;
}

/* The memory is there from here on: no more than the limit at any instant. */
static void really_take(struct shared *s, size_t i, uint64_t bytes)
{
	uint64_t sum = atomic_fetch_add(&s->truth, bytes) + bytes;
	uint64_t most = atomic_load(&s->most);

	while (sum > most && !atomic_compare_exchange_weak(&s->most, &most, sum))
		;
	atomic_fetch_add(&s->bytes[i], bytes);
}

static _Noreturn void race(struct env *e, size_t i)
{
	struct shared *s = e->shared;
	uint64_t random = (i + 1) * UINT64_C(0x9e3779b97f4a7c15), held[64] = { 0 };
	struct slice_client c;

	if (client_connect(&c, e->slice) < 0 ||
		client_hello(&c, SLICE_HELLO_MEMORY) != SLICE_OK)
		_exit(1);
	atomic_fetch_add(&s->ready, 1);
	while (!atomic_load(&s->go)) {
		uint64_t *slot = &held[next_random(&random) % ARRAY_LEN(held)];
		uint64_t bytes = 512 + next_random(&random) % (48 * MIB);

		if (*slot) {
			atomic_fetch_sub(&s->bytes[i], *slot);
			atomic_fetch_sub(&s->truth, *slot);
			client_give(&c, 0, *slot);
			*slot = 0;
		} else if (client_take(&c, 0, bytes)) {
			really_take(s, i, bytes);
			*slot = bytes;
			atomic_fetch_add(&s->taken, 1);
		} else {
			atomic_fetch_add(&s->refused, 1);
		}
	}
	if (client_again(&c, 20000) != SLICE_OK)
		atomic_store(&s->failed, 1);
	atomic_fetch_add(&s->ready, 1);
	while (atomic_load(&s->go) < 2)
		wait_ms(1);
	_exit(0);
}

static void load__with_the_arbiter_killed_never_passes_the_limit(void **state)
{
	enum { RACERS = 8, KILLS = 30 };
	struct env *e = *state;
	struct shared *s = e->shared;
	uint64_t random = 88172645463325252U;
	pid_t pids[RACERS];
	uint32_t taken = 0;

	for (size_t i = 0; i < RACERS; i++) {
		pids[i] = child(e);
		if (pids[i] == 0)
			race(e, i);
		atomic_store(&s->pid[i], (uint32_t)pids[i]);
	}
	/* The first registration is not tried twice: none is under way when the arbiter is killed. */
	wait_for(&s->ready, RACERS);
	for (int i = 0; i < KILLS; i++) {
		uint64_t end =
			time_mono_ns() + NS_PER_MS + next_random(&random) % (40 * NS_PER_MS);

		/* It got on since the last time. */
		wait_for(&s->taken, taken + 20);
		taken = atomic_load(&s->taken);
		while (time_mono_ns() < end)
			;
		end_arbiter(e, SIGKILL);
		start_arbiter(e);
	}
	atomic_store(&s->go, 1);
	wait_for(&s->ready, 2 * RACERS);
	assert_int_equal(atomic_load(&s->failed), 0);
	assert_true(atomic_load(&s->refused) > 0);
	assert_true(atomic_load(&s->most) <= GIB);
	assert_true(atomic_load(&s->most) > GIB / 2);
	print_message("# %u taken, %u refused, most %llu of %llu\n", atomic_load(&s->taken),
		atomic_load(&s->refused), (unsigned long long)atomic_load(&s->most),
		(unsigned long long)GIB);
	/* What was under way in the two instructions that cannot be told apart comes by a reading. */
	print_message("# before a reading: %lld bytes above the truth\n",
		(long long)(gpu_figure(e, "used") - atomic_load(&s->truth)));
	assert_true(gpu_figure(e, "used") >= atomic_load(&s->truth));
	subscribe(e);
	assert_true(eventually(e, "used", atomic_load(&s->truth)));
	atomic_store(&s->go, 2);
	for (size_t i = 0; i < RACERS; i++)
		reap(pids[i]);
	for (size_t i = 0; i < RACERS; i++)
		atomic_store(&s->pid[i], 0);
	assert_true(eventually(e, "granted", 0));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(process__registers_takes_and_is_seen),
		TEST(process__that_only_looks_has_no_page),
		TEST(process__of_another_version_is_told),
		TEST(death__returns_memory_and_hanging_up_does_not),
		TEST(death__returns_nothing_while_a_child_keeps_the_memory),
		TEST(death__lets_nobody_register_in_its_name),
		TEST(death__makes_others_wait_for_the_reading_and_refuses_none),
		TEST(process__that_executes_is_counted_until_nvml_shows_it_gone),
		TEST(reading__sets_what_no_hook_charged),
		TEST(limit__changes_while_processes_run),
		TEST(slice__comes_and_goes),
		TEST(garbage__ends_the_connection_and_no_other),
		TEST(client__that_does_not_read_is_cut_off),
		TEST(page__that_is_not_the_given_one_is_refused),
		TEST(restart__counts_what_is_held_and_finds_the_pages),
		TEST(restart__believes_pages_when_the_book_is_lost),
		TEST(restart__with_a_wrong_file_drops_no_limit),
		TEST(second__arbiter_is_refused),
		TEST(control__answers_garbage_once_and_ends),
		TEST(unhooked__process_is_counted_and_reported),
		TEST(unhooked__process_is_stopped_where_the_slice_says_so),
		TEST(unhooked__process_is_stopped_after_two_readings_in_a_row_only),
		TEST(lost__process_of_a_lost_book_is_found_by_its_page),
		TEST(lost__run_directory_ends_the_arbiter),
		TEST(restart__with_other_gpus_in_the_file_keeps_those_of_the_processes),
		TEST(descriptors__that_a_process_sends_are_closed),
		TEST(processes__register_at_the_same_time),
		TEST(load__with_the_arbiter_killed_never_passes_the_limit),
	};

	return cmocka_run_group_tests_name("arbiter-serve", tests, NULL, NULL);
}
