/* SPDX-License-Identifier: Apache-2.0 */

/* The arbiter as its clients see it, while it lives and they do: registration, limits, and what is refused. */
#include "serve-env.h"

#include "abi/slice-dir.h"
#include "node/arbiter/arbiter.h"
#include "node/arbiter/clients/passed-fds.h"
#include "lib/base/fd-pass.h"
#include "lib/base/fd.h"
#include "lib/base/time.h"

#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SKIPPED 77

static void process__registers_allocates_and_is_listed(void **state)
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
	assert_int_equal(client_request(&c, 0, 2 * GIB, &left), SLICE_NO_ROOM);
	assert_int_equal(left, GIB);
	assert_true(client_allocate(&c, 0, 100 * MIB));
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

static void process__that_only_reads_has_no_page(void **state)
{
	struct env *e = *state;
	struct slice_viewed v;
	struct slice_client c;

	assert_int_equal(client_connect(&c, e->slice), 0);
	assert_int_equal(client_hello(&c, 0), SLICE_OK);
	assert_null(c.page);
	assert_int_equal(client_view(&c, 0, &v), 0);
	assert_int_equal(v.gpu_count, 1);
	/* The process registered without memory, so it cannot request any. */
	assert_int_equal(client_request(&c, 0, 1, NULL), -1);
	client_close(&c);
}

static void process__of_another_version_is_refused_with_the_version(void **state)
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

static void reading__sets_the_memory_that_no_hook_charged(void **state)
{
	struct env *e = *state;
	struct slice_client c;

	assert_int_equal(client_connect(&c, e->slice), 0);
	assert_int_equal(client_hello(&c, SLICE_HELLO_MEMORY), SLICE_OK);
	assert_true(client_allocate(&c, 0, 100 * MIB));
	atomic_store(&e->shared->pid[0], (uint32_t)getpid());
	atomic_store(&e->shared->bytes[0], 618 * MIB);
	subscribe(e);
	assert_int_equal(client_compare(&c, 0), 0);
	assert_true(eventually(e, "used", 618 * MIB));
	atomic_store(&e->shared->bytes[0], 2 * GIB);
	assert_true(eventually(e, "used", 2 * GIB));
	assert_int_equal(client_request(&c, 0, 1, NULL), SLICE_NO_ROOM);
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
	assert_true(client_allocate(&c, 0, 100 * MIB));
	write_limit(e, 4 * GIB, "report");
	assert_true(eventually(e, "limit", 4 * GIB));
	assert_int_equal(atomic_load(&c.page->gpus[0].limit), 4 * GIB);
	assert_true(client_allocate(&c, 0, 3 * GIB));
	/* An invalid slice file changes nothing. */
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
	assert_int_equal(client_request(&c, 0, 1, NULL), SLICE_NO_ROOM);
	client_close(&c);
}

static void slice__is_added_and_removed(void **state)
{
	struct env *e = *state;
	struct slice_client c, late;
	char path[300], away[300];
	int r = -1;

	assert_int_equal(client_connect(&c, e->slice), 0);
	assert_int_equal(client_hello(&c, SLICE_HELLO_MEMORY), SLICE_OK);
	assert_true(client_allocate(&c, 0, 100 * MIB));
	(void)snprintf(away, sizeof(away), "%s/away", e->dir);
	assert_int_equal(rename(e->slice, away), 0);
	(void)snprintf(path, sizeof(path), "%s/slices", e->dir);
	for (int i = 0; i < 5000 && r != SLICE_GONE; i++) {
		r = client_connect(&late, away) == 0 ? client_hello(&late, 0) : SLICE_GONE;
		client_close(&late);
		wait_ms(1);
	}
	assert_int_equal(r, SLICE_GONE);
	/* The processes of the slice continue. */
	assert_true(client_allocate(&c, 0, 200 * MIB));
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

static void malformed_packet__ends_its_own_connection_only(void **state)
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
	assert_true(client_allocate(&good, 0, MIB));
	client_close(&good);
}

static void client__that_does_not_read_is_disconnected(void **state)
{
	struct env *e = *state;
	struct slice_view v = { .head = { .op = SLICE_VIEW } };
	struct slice_client good, bad;
	bool cut = false;
	int unread = 0;

	assert_int_equal(client_connect(&good, e->slice), 0);
	assert_int_equal(client_hello(&good, SLICE_HELLO_MEMORY), SLICE_OK);
	assert_int_equal(client_connect(&bad, e->slice), 0);
	assert_int_equal(client_hello(&bad, 0), SLICE_OK);
	for (int i = 0; i < 100000 && !cut; i++)
		cut = send(bad.fd, &v, sizeof(v), MSG_NOSIGNAL) < 0;
	assert_true(cut);
	/* Memory in the page is charged to the arbiter. */
	assert_int_equal(ioctl(bad.fd, FIONREAD, &unread), 0);
	assert_in_range(unread, 1, 4 * SLICE_PACKET_MAX);
	assert_true(client_allocate(&good, 0, MIB));
	client_close(&bad);
	client_close(&good);
}

/* The arbiter is the first; and there is one of an older release. */
static void slices__are_in_a_directory_of_root_alone(void **state)
{
	struct env *e = *state;
	char path[300];
	struct stat st;

	(void)snprintf(path, sizeof(path), "%s/" SLICES_DIR, e->dir);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, SLICES_DIR_MODE);
	end_arbiter(e, SIGTERM);
	assert_int_equal(chmod(path, 0755), 0);
	start_arbiter(e);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, SLICES_DIR_MODE);
}

/* In a child, which then calls from the place of a container of @dir. */
static int hello_from(const struct env *e, const char *dir, uid_t uid)
{
	struct env at = *e;
	struct slice_client c;

	(void)snprintf(at.slice, sizeof(at.slice), "%s", dir ? dir : "");
	if (dir && !enter_slice(&at))
		return SKIPPED;
	if ((uid && setresuid(uid, uid, uid) < 0) || client_connect(&c, e->slice) < 0)
		return SKIPPED;
	return client_hello(&c, SLICE_HELLO_MEMORY);
}

static int hello_of_child(struct env *e, const char *dir, uid_t uid)
{
	int status = 0;
	pid_t pid = child(e);

	if (pid == 0)
		_exit(hello_from(e, dir, uid));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/*
 * The arbiter admits a process at the socket if the process has the directory of that slice in the mount's place.
 * Where the directory of slices keeps no process out, this check does.
 */
static void process__of_another_slice_is_refused(void **state)
{
	struct env *e = *state;
	struct error err = ERROR_INIT;
	char other[200], path[300];
	int r = hello_of_child(e, e->slice, 0);

	(void)snprintf(other, sizeof(other), "%s/slices/fedcba9876543210fedcba9876543210",
		e->dir);
	assert_ok(dir_make(other, 0755, &err), &err);
	SKIP_UNLESS(r != SKIPPED, "no mount namespaces");
	assert_int_equal(r, SLICE_OK);
	assert_int_equal(hello_of_child(e, other, 0), SLICE_REFUSED);
	/* The process sees no slice: a user of the node itself. */
	assert_int_equal(hello_of_child(e, NULL, 0), SLICE_OK);
	if (geteuid() == 0) {
		(void)snprintf(path, sizeof(path), "%s/slices", e->dir);
		assert_int_equal(chmod(path, 0755), 0);
		assert_int_equal(chmod(e->dir, 0755), 0);
		assert_int_equal(hello_of_child(e, NULL, 65534), SLICE_REFUSED);
	}
}

static void page__other_than_the_one_of_the_arbiter_is_refused(void **state)
{
	struct env *e = *state;
	struct slice_client c, forged;
	struct slice_page *page;
	int fd;

	assert_int_equal(client_connect(&c, e->slice), 0);
	assert_int_equal(client_hello(&c, SLICE_HELLO_MEMORY), SLICE_OK);
	assert_true(client_allocate(&c, 0, 100 * MIB));
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
	assert_int_equal(client_reconnect(&forged, 1), SLICE_REFUSED);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	assert_int_equal(client_reconnect(&forged, 1), SLICE_REFUSED);
	assert_non_null(strstr(forged.welcome.reason, "not the one"));
	/* The true one is taken again. */
	assert_int_equal(client_reconnect(&c, 1), SLICE_OK);
	assert_true(client_allocate(&c, 0, 100 * MIB));
	assert_int_equal(gpu_figure(e, "used"), 200 * MIB);
	(void)munmap(page, SLICE_PAGE_BYTES);
	client_close(&forged);
	client_close(&c);
}

static void second_arbiter__is_refused(void **state)
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

static void start__that_fails_leaves_the_loop_usable(void **state)
{
	struct env *e = *state;
	struct arbiter_options o = { .procfs = "/proc" };
	struct error err = ERROR_INIT;
	struct arbiter *a = NULL;
	uv_loop_t loop;

	/* The state directory is a file, so it can have no slices. */
	(void)snprintf(o.state_dir, sizeof(o.state_dir), "%s/" SLICE_FILE, e->slice);
	(void)snprintf(o.run_dir, sizeof(o.run_dir), "%s/other", e->dir);
	assert_int_equal(uv_loop_init(&loop), 0);
	assert_error(arbiter_start(&a, &loop, &o, &err), &err, SLICE_FILE);
	(void)uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&loop), 0);
	arbiter_free(a);
}

static void control__answers_a_malformed_line_once_and_ends(void **state)
{
	struct env *e = *state;
	json_t *j;

	send_control_line(e, "{\"op\": \"dance\"}\n{\"op\": \"status\"}\n");
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

/* Packet @data with @n descriptors @fd. */
static void send_with_descriptors(const struct slice_client *c, const void *data, size_t len,
	size_t n, int fd)
{
	int fds[FD_PASS_MAX];

	for (size_t i = 0; i < n; i++)
		fds[i] = fd;
	assert_int_equal(fd_pass_send(c->fd, data, len, fds, n, 0), len);
}

/* The arbiter has at most 8 descriptors more than @n, once its other threads have closed theirs. */
static void assert_descriptors(const struct env *e, size_t n)
{
	uint64_t end = time_mono_ns() + 20 * NS_PER_SEC;

	/* The arbiter opens and closes files of its own meanwhile. */
	while (descriptors_of(e->arbiter) > n + 8) {
		assert_true(time_mono_ns() < end);
		wait_ms(1);
	}
}

static void descriptors__that_a_process_sends_are_closed(void **state)
{
	static const size_t counts[] = { 1, 2, 3, 253 };
	struct slice_compare ask = { .head = { .op = SLICE_COMPARE, .tag = 1 } };
	struct slice_hello hello = { .head = { .op = SLICE_HELLO, .tag = 1 },
		.version = SLICE_WIRE_VERSION,
		.name = "client" };
	struct env *e = *state;
	struct slice_client c;
	size_t before;
	char byte;

	before = descriptors_of(e->arbiter);
	for (size_t i = 0; i < 10 * ARRAY_LEN(counts); i++) {
		assert_int_equal(client_connect(&c, e->slice), 0);
		if (i % 3 == 0) {
			/* The first packet carries the descriptors, and is answered with a refusal. */
			send_with_descriptors(&c, &hello, sizeof(hello),
				counts[i % ARRAY_LEN(counts)], c.fd);
			assert_int_equal(recv(c.fd, &c.welcome, sizeof(c.welcome), 0),
				sizeof(c.welcome));
			assert_int_equal(c.welcome.status, SLICE_REFUSED);
		} else {
			assert_int_equal(client_hello(&c, SLICE_HELLO_MEMORY), SLICE_OK);
			/* Some of the packets have no bytes. */
			send_with_descriptors(&c, &ask, i % 3 == 1 ? sizeof(ask) : 0,
				counts[i % ARRAY_LEN(counts)], c.fd);
		}
		/* No answer, and the end. */
		assert_int_equal(recv(c.fd, &byte, sizeof(byte), 0), 0);
		client_close(&c);
	}
	assert_descriptors(e, before);
}

/* A socket whose last close() takes a minute: what it has sent is not read by its other end, @other. */
static int lingering_socket(int *other)
{
	const struct linger linger = { .l_onoff = 1, .l_linger = 60 };
	struct sockaddr_in at = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	static const char junk[65536];
	socklen_t len = sizeof(at);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	/* A receive buffer that is set does not grow, so the data never fits into it. */
	assert_int_equal(
		setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &(int){ 1024 }, sizeof(int)), 0);
	assert_int_equal(bind(listener, (const struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &len), 0);
	assert_int_equal(connect(fd, (const struct sockaddr *)&at, sizeof(at)), 0);
	*other = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	assert_true(*other >= 0);
	(void)close(listener);
	while (send(fd, junk, sizeof(junk), MSG_DONTWAIT) > 0)
		;
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
	return fd;
}

/* Wherever the arbiter, or the kernel in one of its calls, would close the last reference. */
static void descriptors__that_are_slow_to_close_delay_no_process(void **state)
{
	static const struct {
		const char *what;
		bool greets, hello, again, more;
	} rows[] = {
		{ "with a hello", .hello = true },
		{ "in place of a page", .hello = true, .again = true },
		{ "with a question", .greets = true },
		{ "behind a wrong packet", .more = true },
		{ "behind a hello in place of a page", .hello = true, .again = true,
			.more = true },
	};
	struct env *e = *state;
	struct slice_client c[ARRAY_LEN(rows)], good;
	int other[ARRAY_LEN(rows)];

	assert_int_equal(client_connect(&good, e->slice), 0);
	assert_int_equal(client_hello(&good, SLICE_HELLO_MEMORY), SLICE_OK);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct slice_hello hello = { .head = { .op = SLICE_HELLO, .tag = 1 },
			.version = SLICE_WIRE_VERSION,
			.flags = rows[i].again ? SLICE_HELLO_MEMORY | SLICE_HELLO_AGAIN : 0,
			.name = "client" };
		int fd = lingering_socket(&other[i]);
		uint64_t began = time_mono_ns();

		print_message("# %s\n", rows[i].what);
		/* The arbiter is stopped, so that it receives the packets of the process at once. */
		if (!rows[i].greets)
			assert_int_equal(kill(e->arbiter, SIGSTOP), 0);
		assert_int_equal(client_connect(&c[i], e->slice), 0);
		if (rows[i].greets)
			assert_int_equal(client_hello(&c[i], 0), SLICE_OK);
		hello.head.op = rows[i].hello ? SLICE_HELLO : SLICE_COMPARE;
		send_with_descriptors(&c[i], &hello, sizeof(hello), 1, fd);
		if (rows[i].more)
			send_with_descriptors(&c[i], &hello, sizeof(hello), 1, fd);
		(void)close(fd);
		assert_int_equal(kill(e->arbiter, SIGCONT), 0);
		/* The arbiter has it: the test does not wait for the answer. */
		assert_true(client_allocate(&good, 0, MIB));
		assert_int_equal(gpu_figure(e, "used"), (i + 1) * MIB);
		assert_true(time_mono_ns() - began < 30 * NS_PER_SEC);
	}
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		(void)close(other[i]);
		client_close(&c[i]);
	}
	client_close(&good);
}

/* A slice that is there whole; its directory is in @e. */
static void add_slice(struct env *e, unsigned int number)
{
	struct error err = ERROR_INIT;
	char text[300], made[sizeof(e->slice)];

	(void)snprintf(e->slice, sizeof(e->slice), "%s/new-slice", e->dir);
	(void)snprintf(text, sizeof(text),
		"{\"version\": 1, \"id\": \"%032x\", \"resource\": \"r\","
		" \"gpus\": [{\"uuid\": \"" UUID "\", \"memory\": 1073741824}]}",
		number);
	assert_ok(dir_make(e->slice, 0755, &err), &err);
	write_slice(e, text);
	memcpy(made, e->slice, sizeof(made));
	(void)snprintf(e->slice, sizeof(e->slice), "%s/slices/%032x", e->dir, number);
	assert_int_equal(rename(made, e->slice), 0);
}

static int connect_when_there(struct env *e, struct slice_client *c)
{
	uint64_t end = time_mono_ns() + 20 * NS_PER_SEC;

	while (client_connect(c, e->slice) < 0) {
		client_close(c);
		if (time_mono_ns() > end)
			return -1;
		wait_ms(1);
	}
	return client_hello(c, 0);
}

/* The arbiter closes a slice's descriptors, however many slow ones other slices have sent. */
static void descriptors__of_many_slices_that_are_slow_to_close_delay_no_other(void **state)
{
	enum { SLOW = 12 };
	struct slice_compare ask = { .head = { .op = SLICE_COMPARE, .tag = 1 } };
	struct env *e = *state;
	struct slice_client slow[SLOW], good;
	char own[sizeof(e->slice)], byte;
	struct pollfd closed = { .events = POLLIN };
	int other[SLOW], ends[2];

	memcpy(own, e->slice, sizeof(own));
	for (unsigned int i = 0; i < SLOW; i++) {
		add_slice(e, i + 1);
		assert_int_equal(connect_when_there(e, &slow[i]), SLICE_OK);
	}
	/* The arbiter has the last references. Once only: a stop would also end what lingers. */
	assert_int_equal(kill(e->arbiter, SIGSTOP), 0);
	for (unsigned int i = 0; i < SLOW; i++) {
		int fd = lingering_socket(&other[i]);

		send_with_descriptors(&slow[i], &ask, sizeof(ask), 1, fd);
		(void)close(fd);
	}
	assert_int_equal(kill(e->arbiter, SIGCONT), 0);
	/* The arbiter has ended the connections, so it has begun to close descriptors. */
	for (unsigned int i = 0; i < SLOW; i++)
		assert_int_equal(recv(slow[i].fd, &byte, sizeof(byte), 0), 0);
	memcpy(e->slice, own, sizeof(own));
	assert_int_equal(client_connect(&good, e->slice), 0);
	assert_int_equal(client_hello(&good, 0), SLICE_OK);
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	send_with_descriptors(&good, &ask, sizeof(ask), 1, ends[1]);
	(void)close(ends[1]);
	closed.fd = ends[0];
	assert_int_equal(poll(&closed, 1, WAIT_MS), 1);
	(void)close(ends[0]);
	client_close(&good);
	for (unsigned int i = 0; i < SLOW; i++) {
		(void)close(other[i]);
		client_close(&slow[i]);
	}
}

/* Only a packet with descriptors keeps a socket from being closed at once. */
static void hang_up__reads_packets_without_descriptors(void **state)
{
	int pair[2], fd = STDERR_FILENO;
	struct slice_client c = { .fd = -1 };
	char byte;

	(void)state;
	for (int with = 0; with <= 1; with++) {
		assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair),
			0);
		c.fd = pair[1];
		assert_int_equal(send(pair[0], "answer", 6, 0), 6);
		assert_int_equal(send(c.fd, "x", 1, 0), 1);
		assert_int_equal(send(c.fd, "", 0, 0), 0);
		assert_int_equal(send(c.fd, "y", 1, 0), 1);
		if (with)
			send_with_descriptors(&c, NULL, 0, 1, fd);
		assert_int_equal(passed_fds_hang_up(&pair[0]), !with);
		assert_int_equal(pair[0] >= 0, with);
		/* The client can still read the answer. */
		assert_int_equal(recv(c.fd, &byte, 1, 0), 1);
		assert_int_equal(recv(c.fd, &byte, 1, 0), 0);
		(void)close(pair[1]);
		if (with)
			(void)close(pair[0]);
	}
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
				!client_allocate(&c, 0, MIB));
		}
	}
	atomic_store(&e->shared->go, 1);
	for (size_t i = 0; i < ARRAY_LEN(pids); i++)
		reap(pids[i]);
	assert_true(eventually(e, "granted", 0));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, serve_env_setup, serve_env_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(process__registers_allocates_and_is_listed),
		TEST(process__that_only_reads_has_no_page),
		TEST(process__of_another_version_is_refused_with_the_version),
		TEST(reading__sets_the_memory_that_no_hook_charged),
		TEST(limit__changes_while_processes_run),
		TEST(slice__is_added_and_removed),
		TEST(malformed_packet__ends_its_own_connection_only),
		TEST(client__that_does_not_read_is_disconnected),
		TEST(slices__are_in_a_directory_of_root_alone),
		TEST(process__of_another_slice_is_refused),
		TEST(page__other_than_the_one_of_the_arbiter_is_refused),
		TEST(second_arbiter__is_refused),
		TEST(start__that_fails_leaves_the_loop_usable),
		TEST(control__answers_a_malformed_line_once_and_ends),
		TEST(descriptors__that_a_process_sends_are_closed),
		TEST(descriptors__that_are_slow_to_close_delay_no_process),
		TEST(descriptors__of_many_slices_that_are_slow_to_close_delay_no_other),
		cmocka_unit_test(hang_up__reads_packets_without_descriptors),
		TEST(processes__register_at_the_same_time),
	};

	return cmocka_run_group_tests_name("arbiter-serve", tests, NULL, NULL);
}
