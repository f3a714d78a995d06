/* SPDX-License-Identifier: Apache-2.0 */

/* Quanta under faults: processes that die, hang or lie, an arbiter that was killed. */
#include "scheduler-env.h"

#include "node/arbiter/scheduler/usage-accounts/usage-accounts.h"
#include "lib/base/fd.h"
#include "lib/base/time.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* A process that has the quantum of slice 0, with a child that inherits its connection. */
static pid_t find_holder(struct env *e, bool with_child, pid_t *grandchild)
{
	int pipes[2];
	pid_t pid;

	assert_int_equal(pipe(pipes), 0);
	pid = child(e);
	if (pid == 0) {
		struct slice_client c;
		pid_t other;

		join(e, &c, 0);
		other = with_child ? fork() : 0;
		if (with_child && other == 0) {
			for (;;)
				(void)pause();
		}
		(void)write(pipes[1], &other, sizeof(other));
		report_until(&c, false, true, is_open);
		atomic_fetch_add(&c.turns->gpus[0].begun, 5);
		atomic_fetch_add(&c.turns->gpus[0].ended, 5);
		atomic_fetch_add(&e->shared->ready, 1);
		for (;;)
			(void)pause();
	}
	assert_int_equal(read(pipes[0], grandchild, sizeof(*grandchild)), sizeof(*grandchild));
	(void)close(pipes[0]);
	(void)close(pipes[1]);
	return pid;
}

static bool is_empty(struct env *e, unsigned int slice)
{
	size_t n = 1;

	for (int i = 0; i < WAIT_MS && n; i++) {
		json_t *j = status(e);

		n = json_array_size(json_object_get(slice_of(j, slice), "processes"));
		json_decref(j);
		wait_ms(1);
	}
	return n == 0;
}

static void death__frees_the_quantum(void **state)
{
	struct env *e = *state;
	struct slice_client b;
	pid_t pid, grandchild;

	join(e, &b, 1);
	for (unsigned int i = 0; i < 2; i++) {
		pid = find_holder(e, i == 1, &grandchild);
		wait_for(&e->shared->ready, i + 1);
		(void)kill(pid, SIGKILL);
		(void)waitpid(pid, NULL, 0);
		report_until(&b, false, true, is_open);
		/* The killed process has no client any more, though its child lives. */
		assert_true(is_empty(e, 0));
		report_until(&b, false, false, is_open);
		if (grandchild)
			(void)kill(grandchild, SIGKILL);
		assert_true(eventually(e, 0, "launches", 5 * (i + 1)));
	}
	client_close(&b);
}

static void restart__adopts_page_and_accounts(void **state)
{
	struct env *e = *state;
	struct slice_client a, b;
	uint64_t charged, generation, turns;
	struct turn_gpu_page *g;
	pid_t grandchild, pid;

	pid = find_holder(e, false, &grandchild);
	wait_for(&e->shared->ready, 1);
	join(e, &a, 0);
	join(e, &b, 1);
	g = &a.turns->gpus[0];
	atomic_fetch_add(&g->copies, 3);
	atomic_fetch_add(&g->bytes, 300);
	atomic_fetch_add(&g->ended, 10);
	(void)client_report_state(&a, 0, false, true);
	assert_true(eventually(e, 0, "launches", 12));
	assert_int_equal(figure(e, 0, "copies"), 3);
	charged = figure(e, 0, "charged_ns");
	turns = figure(e, 0, "turns");
	assert_true(charged > 0 && turns > 0);
	generation = atomic_load(&g->gate) / TURN_GENERATION;
	end_arbiter(e, SIGKILL);
	/* Counts and ends work meanwhile. */
	atomic_fetch_add(&g->ended, 100);
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
	start_arbiter(e);
	/* No process of the slice registered again, and no figure is smaller. */
	assert_int_equal(figure(e, 0, "launches"), 12);
	assert_true(figure(e, 0, "charged_ns") >= charged);
	assert_int_equal(figure(e, 0, "turns"), turns);
	assert_int_equal(client_reconnect(&b, WAIT_MS), SLICE_OK);
	/* Slice 0 delays no other slice. */
	report_until(&b, false, true, is_open);
	assert_int_equal(client_reconnect(&a, WAIT_MS), SLICE_OK);
	assert_true(atomic_load(&g->gate) / TURN_GENERATION > generation);
	assert_int_equal(figure(e, 0, "launches"), 112);
	assert_int_equal(figure(e, 0, "copies"), 3);
	report_until(&a, false, true, is_open);
	charged = figure(e, 0, "charged_ns");
	client_close(&a);
	assert_true(figure(e, 0, "charged_ns") >= charged);
	assert_int_equal(figure(e, 0, "launches"), 112);
	client_close(&b);
}

static void restart__keeps_the_revoked_quanta(void **state)
{
	struct env *e = *state;
	struct slice_client a, b;

	join(e, &a, 0);
	join(e, &b, 1);
	report_until(&a, false, true, is_open);
	report_until(&b, false, true, is_open);
	/* The work in flight never ends, and the process wants no more. */
	assert_true(closes(&a));
	assert_true(eventually(e, 0, "revocations", 1));
	assert_int_equal(figure(e, 1, "revocations"), 0);
	end_arbiter(e, SIGKILL);
	start_arbiter(e);
	assert_int_equal(figure(e, 0, "revocations"), 1);
	assert_int_equal(client_reconnect(&a, WAIT_MS), SLICE_OK);
	assert_int_equal(client_reconnect(&b, WAIT_MS), SLICE_OK);
	report_until(&a, false, true, is_open);
	report_until(&b, false, true, is_open);
	assert_true(eventually(e, 0, "revocations", 2));
	client_close(&a);
	client_close(&b);
}

static void page__of_another_process_is_refused(void **state)
{
	struct env *e = *state;
	struct slice_client c, other;
	int fd, status;
	pid_t pid;

	join(e, &c, 0);
	/* Another process of the slice has the page open. */
	pid = child(e);
	if (pid == 0)
		_exit(client_reconnect(&c, WAIT_MS) != SLICE_REFUSED);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	/* After a restart the arbiter knows the page's owner only from its record. */
	end_arbiter(e, SIGKILL);
	start_arbiter(e);
	pid = child(e);
	if (pid == 0)
		_exit(client_reconnect(&c, WAIT_MS) != SLICE_REFUSED);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(client_reconnect(&c, WAIT_MS), SLICE_OK);

	/* Pages that the arbiter did not create: of any size, without seals, with another slice's GPUs. */
	other = c;
	fd = memfd_create("other", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(ftruncate(fd, TURN_PAGE_BYTES), 0);
	assert_int_equal(pwrite(fd, c.turns, TURN_PAGE_BYTES, 0), TURN_PAGE_BYTES);
	other.fd = -1;
	other.page_fd = fd;
	assert_int_equal(client_reconnect(&other, WAIT_MS), SLICE_REFUSED);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	for (unsigned int i = 0; i < 5; i++) {
		struct turn_page bad = *c.turns;

		bad.magic += i == 0;
		bad.version += i == 1;
		bad.bytes += i == 2;
		bad.gpu_count += i == 3;
		bad.serial *= i != 4;
		assert_int_equal(pwrite(fd, &bad, sizeof(bad), 0), sizeof(bad));
		assert_int_equal(client_reconnect(&other, WAIT_MS), SLICE_REFUSED);
	}
	other.page_fd = -1;
	assert_int_equal(client_reconnect(&other, WAIT_MS), SLICE_REFUSED);
	closep(&other.fd);
	(void)close(fd);
	/* The process still has its client. */
	report_until(&c, false, true, is_open);
	client_close(&c);
}

static void packet__that_is_malformed_ends_its_own_connection_only(void **state)
{
	struct env *e = *state;
	struct slice_state s = { .head = { .op = SLICE_STATE }, .wants = 1 };
	struct slice_client a, b, c;

	join(e, &b, 1);
	report_until(&b, false, true, is_open);
	for (unsigned int i = 0; i < 5; i++) {
		struct slice_state bad = s;

		join(e, &a, 0);
		bad.head.op += i == 0;
		bad.gpu += i == 1;
		bad.busy += i == 2 ? 7 : 0;
		bad.generation += i == 3 ? 0x1000000 : 0;
		assert_true(send(a.fd, &bad, sizeof(bad) - (i == 4), MSG_NOSIGNAL) > 0);
		assert_true(hung_up(&a));
		client_close(&a);
	}
	/* A state without quanta. */
	assert_int_equal(client_connect(&c, slice_dir(e, 0)), 0);
	assert_int_equal(client_hello(&c, SLICE_HELLO_MEMORY), SLICE_OK);
	assert_true(send(c.fd, &s, sizeof(s), MSG_NOSIGNAL) > 0);
	assert_true(hung_up(&c));
	client_close(&c);
	/* The arbiter ignores a descriptor that comes along, and an old generation. */
	join(e, &a, 0);
	s.generation =
		(atomic_load(&a.turns->gpus[0].gate) / TURN_GENERATION + 0x800000) & 0xffffff;
	s.idle_ns = UINT64_MAX;
	assert_true(send(a.fd, &s, sizeof(s), MSG_NOSIGNAL) > 0);
	wait_ms(50);
	assert_true(is_closed(&a));
	report_until(&a, false, true, is_open);
	client_close(&a);
	report_until(&b, false, true, is_open);
	client_close(&b);
}

/* The process rings its doorbell, or worse, all the time. */
static void page__with_invalid_values_affects_its_own_slice_only(void **state)
{
	struct env *e = *state;
	struct slice_client b;
	struct slice_client a;
	pid_t pid = child(e);

	if (pid == 0) {
		join(e, &a, 0);
		report_until(&a, false, true, is_open);
		atomic_fetch_add(&e->shared->ready, 1);
		for (uint32_t i = 0;; i++) {
			uint64_t *words = (uint64_t *)(void *)&a.turns->gpus[0];

			for (unsigned int k = 0; k < sizeof(a.turns->gpus[0]) / 8; k++)
				__atomic_store_n(&words[k], i * UINT64_C(0x9e3779b97f4a7c15),
					__ATOMIC_RELAXED);
			if (i % 4096 == 0)
				(void)client_report_state(&a, 0, i & 4096, i & 8192);
		}
	}
	wait_for(&e->shared->ready, 1);
	join(e, &b, 1);
	for (int i = 0; i < 10; i++) {
		report_until(&b, false, true, is_open);
		wait_ms(5);
		assert_int_equal(client_report_state(&b, 0, false, false), 0);
	}
	assert_true(figure(e, 1, "launches") == 0);
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
	report_until(&b, false, true, is_open);
	client_close(&b);
}

/* --- more than there is room for --- */

/* Comes and goes @n times, and counts one launch each time. Returns how often the arbiter admitted it. */
static unsigned int start_and_end_client(struct env *e, unsigned int slice, unsigned int n)
{
	unsigned int i = 0;

	for (; i < n; i++) {
		struct slice_client c;
		int r = client_connect(&c, slice_dir(e, slice)) < 0
				? -1
				: client_hello(&c, SLICE_HELLO_TURNS);

		if (r == SLICE_OK)
			atomic_fetch_add(&c.turns->gpus[0].ended, 1);
		client_close(&c);
		if (r != SLICE_OK)
			return i;
	}
	return i;
}

static void process__that_ended_uses_no_quota(void **state)
{
	const unsigned int n = USAGE_CLIENTS_RESERVED + USAGE_CLIENTS_SHARED_SLICE + 100;
	struct env *e = *state;
	struct slice_client c;

	assert_int_equal(start_and_end_client(e, 0, n), n);
	assert_true(eventually(e, 0, "launches", n));
	end_arbiter(e, SIGKILL);
	start_arbiter(e);
	assert_int_equal(figure(e, 0, "launches"), n);
	assert_int_equal(start_and_end_client(e, 0, 100), 100);
	assert_true(eventually(e, 0, "launches", n + 100));
	join(e, &c, 1);
	client_close(&c);
}

/* The page has any number, and as many counts as the process likes. */
static void page__made_by_the_process_uses_no_quota_and_counts_nothing(void **state)
{
	struct turn_page page = { .magic = TURN_PAGE_MAGIC,
		.version = TURN_PAGE_VERSION,
		.bytes = TURN_PAGE_BYTES,
		.gpu_count = 1 };
	struct env *e = *state;
	struct slice_client c;

	atomic_store(&page.gpus[0].ended, 1000);
	atomic_store(&page.gpus[0].waits, 1000);
	for (unsigned int i = 0; i < USAGE_CLIENTS_RESERVED + USAGE_CLIENTS_SHARED_SLICE + 100;
		i++) {
		int fd = memfd_create("own", MFD_CLOEXEC | MFD_ALLOW_SEALING);

		page.serial = i % 2 ? i : UINT64_MAX - i;
		assert_int_equal(ftruncate(fd, TURN_PAGE_BYTES), 0);
		assert_int_equal(pwrite(fd, &page, sizeof(page), 0), sizeof(page));
		assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
		assert_int_equal(client_connect(&c, slice_dir(e, 0)), 0);
		c.page_fd = fd;
		assert_int_equal(client_hello(&c, SLICE_HELLO_TURNS | SLICE_HELLO_AGAIN),
			SLICE_OK);
		client_close(&c);
	}
	assert_int_equal(figure(e, 0, "launches"), 0);
	assert_int_equal(figure(e, 0, "waits"), 0);
	join(e, &c, 1);
	client_close(&c);
}

/* The page's client ended while the process was disconnected, because the process had too many clients. Its
 * earlier counts count once. */
static void page__that_was_disconnected_too_long_is_counted_once(void **state)
{
	struct env *e = *state;
	struct slice_client c;

	join(e, &c, 0);
	atomic_fetch_add(&c.turns->gpus[0].ended, 7);
	client_hang_up(&c);
	assert_true(eventually(e, 0, "launches", 7));
	assert_int_equal(start_and_end_client(e, 0, 2 * USAGE_CLIENTS_SPARE),
		2 * USAGE_CLIENTS_SPARE);
	assert_true(eventually(e, 0, "launches", 7 + 2 * USAGE_CLIENTS_SPARE));
	assert_int_equal(client_reconnect(&c, WAIT_MS), SLICE_OK);
	atomic_fetch_add(&c.turns->gpus[0].ended, 2);
	assert_true(eventually(e, 0, "launches", 9 + 2 * USAGE_CLIENTS_SPARE));
	end_arbiter(e, SIGKILL);
	start_arbiter(e);
	assert_int_equal(client_reconnect(&c, WAIT_MS), SLICE_OK);
	atomic_fetch_add(&c.turns->gpus[0].ended, 1);
	assert_true(eventually(e, 0, "launches", 10 + 2 * USAGE_CLIENTS_SPARE));
	client_close(&c);
}

/* A slice of as many GPUs as there can be. */
static void write_large(struct env *e, unsigned int slice)
{
	char gpus[2048] = "[";

	for (unsigned int i = 0; i < SLICE_GPUS_MAX; i++)
		(void)snprintf(gpus + strlen(gpus), sizeof(gpus) - strlen(gpus),
			"%s{\"uuid\": \"GPU-00000000-0000-0000-0000-0000000%u%04u\"}",
			i ? ", " : "", slice, i);
	(void)snprintf(gpus + strlen(gpus), sizeof(gpus) - strlen(gpus), "]");
	write_slice(e, slice, gpus, ", \"compute\": \"turns\"");
}

static bool is_status_crowded(struct env *e, unsigned int slice)
{
	json_t *j = status(e);
	const char *error =
		json_string_value(json_object_get(slice_of(j, slice), "compute_error"));
	bool r = error && strstr(error, "too many processes");

	assert_string_equal(json_string_value(json_object_get(slice_of(j, slice), "compute")),
		"turns");
	json_decref(j);
	return r;
}

static void slice__has_no_more_than_its_quota(void **state)
{
	const unsigned int max =
		USAGE_CLIENTS_RESERVED + USAGE_CLIENTS_SHARED_SLICE / SLICE_GPUS_MAX;
	struct env *e = *state;
	pid_t pids[64];
	unsigned int n = 0;
	struct slice_client c, other;

	write_large(e, 2);
	for (int i = 0; i < WAIT_MS && client_connect(&c, slice_dir(e, 2)) < 0; i++)
		wait_ms(1);
	client_close(&c);
	assert_false(is_status_crowded(e, 2));
	assert_true(max / USAGE_CLIENTS_SPARE < ARRAY_LEN(pids));
	/* Each process leaves as many clients as it may, and lives. */
	for (; n * USAGE_CLIENTS_SPARE < max; n++) {
		pids[n] = child(e);
		if (pids[n] == 0) {
			(void)start_and_end_client(e, 2, USAGE_CLIENTS_SPARE);
			atomic_fetch_add(&e->shared->ready, 1);
			for (;;)
				(void)pause();
		}
		wait_for(&e->shared->ready, n + 1);
	}
	assert_int_equal(client_connect(&c, slice_dir(e, 2)), 0);
	assert_int_equal(client_hello(&c, SLICE_HELLO_TURNS), SLICE_TOO_MANY);
	assert_non_null(strstr(c.welcome.reason, "too many processes"));
	client_close(&c);
	assert_true(is_status_crowded(e, 2));
	/* The other slice is not affected. */
	join(e, &other, 1);
	assert_false(is_status_crowded(e, 1));
	/* This slice works again as soon as they are closed. */
	for (unsigned int i = 0; i < n; i++) {
		(void)kill(pids[i], SIGKILL);
		(void)waitpid(pids[i], NULL, 0);
	}
	for (int i = 0; i < WAIT_MS; i++) {
		int r;

		assert_int_equal(client_connect(&c, slice_dir(e, 2)), 0);
		r = client_hello(&c, SLICE_HELLO_TURNS);
		if (r == SLICE_OK)
			break;
		assert_int_equal(r, SLICE_TOO_MANY);
		client_close(&c);
		wait_ms(1);
	}
	assert_non_null(c.turns);
	client_close(&c);
	client_close(&other);
}

/* Opens as many connections as the slice can have. */
static void take_connections(struct env *e, unsigned int slice)
{
	static struct slice_client c;

	for (unsigned int n = 0, refused = 0; n < 2100 && refused < 20; n++) {
		/* The connection only reads, as that of nvidia-smi. */
		if (client_connect(&c, slice_dir(e, slice)) == 0 &&
			client_hello(&c, 0) == SLICE_OK) {
			refused = 0;
		} else {
			client_close(&c);
			refused++;
		}
	}
}

/* Comes and goes and keeps its pages. Returns the status of the refusal. */
static int keep_pages(struct env *e, unsigned int slice, uint32_t flags)
{
	for (unsigned int i = 0; i < 6000; i++) {
		struct slice_client c;
		int r = -1;

		if (client_connect(&c, slice_dir(e, slice)) == 0)
			r = client_hello(&c, flags);
		client_hang_up(&c);
		if (r != SLICE_OK)
			return r;
	}
	return SLICE_OK;
}

static void pages__kept_open_are_limited(void **state)
{
	static const uint32_t flags[] = { SLICE_HELLO_MEMORY, SLICE_HELLO_TURNS };
	struct env *e = *state;
	struct slice_client c;
	struct rlimit r;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &r), 0);
	SKIP_UNLESS(r.rlim_max >= 8192, "too few descriptors");
	for (unsigned int i = 0; i < ARRAY_LEN(flags); i++) {
		pid_t pid = child(e);

		if (pid == 0) {
			r.rlim_cur = r.rlim_max;
			(void)setrlimit(RLIMIT_NOFILE, &r);
			if (keep_pages(e, 0, flags[i]) != SLICE_TOO_MANY)
				_exit(1);
			atomic_fetch_add(&e->shared->ready, 1);
			for (;;)
				(void)pause();
		}
		wait_for(&e->shared->ready, i + 1);
		/* Another slice has a quota of its own. */
		join(e, &c, 1);
		client_close(&c);
		(void)kill(pid, SIGKILL);
		(void)waitpid(pid, NULL, 0);
		/* The slice whose processes were killed has room again. */
		join(e, &c, 0);
		client_close(&c);
	}
}

static void connections__are_reserved_for_each_slice(void **state)
{
	struct env *e = *state;
	struct slice_client c[8];
	struct rlimit r;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &r), 0);
	SKIP_UNLESS(r.rlim_max >= 17000, "too few descriptors");
	for (unsigned int slice = 2; slice < 6; slice++) {
		write_share(e, slice, 1, 0, "batch");
		if (child(e) == 0) {
			r.rlim_cur = r.rlim_max;
			(void)setrlimit(RLIMIT_NOFILE, &r);
			while (client_connect(&c[0], slice_dir(e, slice)) < 0)
				wait_ms(1);
			take_connections(e, slice);
			atomic_fetch_add(&e->shared->ready, 1);
			for (;;)
				(void)pause();
		}
	}
	wait_for(&e->shared->ready, 4);
	for (unsigned int i = 0; i < ARRAY_LEN(c); i++)
		join(e, &c[i], i % 2);
	for (unsigned int i = 0; i < ARRAY_LEN(c); i++)
		client_close(&c[i]);
}

/* --- processes that are stopped --- */

static const json_t *process_of(const json_t *top, unsigned int slice, pid_t pid)
{
	json_t *one;
	size_t i;

	json_array_foreach(json_object_get(slice_of(top, slice), "processes"), i, one)
	{
		if (json_integer_value(json_object_get(one, "host_pid")) == pid)
			return json_array_get(json_object_get(one, "gpus"), 0);
	}
	return NULL;
}

/* Uses its quanta, and the work that it submits ends. */
static void finish_work(struct slice_client *c)
{
	bool closed = is_closed(c);

	atomic_fetch_add(&c->turns->gpus[0].begun, 1);
	atomic_fetch_add(&c->turns->gpus[0].ended, 1);
	atomic_fetch_add(&c->turns->gpus[0].done, 1);
	assert_int_equal(client_report_state(c, 0, !closed, closed), 0);
}

/* The arbiter cannot know whether the process has work on the GPU, so it reports only that. Another process of
 * the slice continues. */
static void process__that_is_stopped_is_reported_as_stuck(void **state)
{
	struct env *e = *state;
	uint64_t end = time_mono_ns() + 50 * NS_PER_SEC;
	struct slice_client a, b, c;
	bool stuck = false;
	char text[32];
	pid_t pid;

	end_arbiter(e, SIGTERM);
	e->keep_log = true;
	start_arbiter(e);
	pid = child(e);
	if (pid == 0) {
		join(e, &c, 0);
		report_until(&c, false, true, is_open);
		atomic_fetch_add(&e->shared->ready, 1);
		(void)raise(SIGSTOP);
		(void)client_report_state(&c, 0, false, false);
		for (;;)
			(void)pause();
	}
	(void)snprintf(text, sizeof(text), "pid=%d", (int)pid);
	wait_for(&e->shared->ready, 1);
	join(e, &a, 0);
	join(e, &b, 1);
	while (!stuck) {
		json_t *j;

		for (int i = 0; i < 20; i++) {
			finish_work(&a);
			finish_work(&b);
			wait_ms(1);
		}
		j = status(e);
		stuck = json_is_true(json_object_get(process_of(j, 0, pid), "stuck"));
		assert_true(!stuck || figure_in(j, 0, "stuck"));
		assert_false(figure_in(j, 1, "stuck"));
		assert_true(
			json_is_false(json_object_get(process_of(j, 0, getpid()), "stuck")));
		json_decref(j);
		assert_true(time_mono_ns() < end);
	}
	/* The log has it, too, once. */
	for (int i = 0; i < 50; i++) {
		finish_work(&a);
		finish_work(&b);
		assert_true(figure(e, 0, "stuck"));
		wait_ms(10);
	}
	assert_int_equal(log_lines(e, "does not end", text), 1);
	assert_int_equal(log_lines(e, "does not end", ""), 1);
	(void)kill(pid, SIGCONT);
	assert_true(eventually(e, 0, "stuck", 0));
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
	assert_int_equal(log_lines(e, "does not end", ""), 1);
	client_close(&a);
	client_close(&b);
}

/* A waiting thread continues to wait: for the next arbiter, or until its own time limit. */
static void arbiter__that_ends_opens_no_gate_permanently(void **state)
{
	struct env *e = *state;
	struct slice_client a, b;

	join(e, &a, 0);
	join(e, &b, 1);
	report_until(&a, false, true, is_open);
	report_until(&b, false, true, is_open);
	report_until(&a, false, true, is_open);
	end_arbiter(e, SIGTERM);
	assert_int_not_equal(client_gate(&a, 0), TURN_OPEN);
	assert_int_not_equal(client_gate(&b, 0), TURN_OPEN);
	client_close(&a);
	client_close(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(death__frees_the_quantum, scheduler_env_setup,
			scheduler_env_teardown),
		cmocka_unit_test_setup_teardown(restart__adopts_page_and_accounts,
			scheduler_env_setup, scheduler_env_teardown),
		cmocka_unit_test_setup_teardown(restart__keeps_the_revoked_quanta,
			scheduler_env_setup, scheduler_env_teardown),
		cmocka_unit_test_setup_teardown(page__of_another_process_is_refused,
			scheduler_env_setup, scheduler_env_teardown),
		cmocka_unit_test_setup_teardown(
			packet__that_is_malformed_ends_its_own_connection_only,
			scheduler_env_setup, scheduler_env_teardown),
		cmocka_unit_test_setup_teardown(
			page__with_invalid_values_affects_its_own_slice_only,
			scheduler_env_setup, scheduler_env_teardown),
		cmocka_unit_test_setup_teardown(process__that_ended_uses_no_quota,
			scheduler_env_setup, scheduler_env_teardown),
		cmocka_unit_test_setup_teardown(
			page__made_by_the_process_uses_no_quota_and_counts_nothing,
			scheduler_env_setup, scheduler_env_teardown),
		cmocka_unit_test_setup_teardown(
			page__that_was_disconnected_too_long_is_counted_once,
			scheduler_env_setup, scheduler_env_teardown),
		cmocka_unit_test_setup_teardown(slice__has_no_more_than_its_quota,
			scheduler_env_setup, scheduler_env_teardown),
		cmocka_unit_test_setup_teardown(pages__kept_open_are_limited,
			scheduler_env_setup, scheduler_env_teardown),
		cmocka_unit_test_setup_teardown(connections__are_reserved_for_each_slice,
			scheduler_env_setup, scheduler_env_teardown),
		cmocka_unit_test_setup_teardown(process__that_is_stopped_is_reported_as_stuck,
			scheduler_env_setup, scheduler_env_teardown),
		cmocka_unit_test_setup_teardown(arbiter__that_ends_opens_no_gate_permanently,
			scheduler_env_setup, scheduler_env_teardown),
	};

	return cmocka_run_group_tests_name("scheduler-faults", tests, NULL, NULL);
}
