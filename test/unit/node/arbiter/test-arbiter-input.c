/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "abi/slice-dir.h"
#include "node/arbiter/grants/journal.h"
#include "node/arbiter/clients/packet.h"
#include "node/arbiter/process/proc.h"
#include "node/arbiter/control/request.h"
#include "node/arbiter/slices/file.h"
#include "lib/base/fd.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define SKIPPED 77

#define ID "0123456789abcdef0123456789abcdef"
#define U1 "GPU-00112233-4455-6677-8899-aabbccddeeff"
#define U2 "MIG-00112233-4455-6677-8899-AABBCCDDEE00"

static void slice_def_read__accepts_the_output_of_the_agent(void **state)
{
	static const char text[] =
		"{\"version\": 1, \"id\": \"" ID "\", \"resource\": \"nvidia.com/gpu\","
		"\"devices\": [\"" U1 "::0\", \"" U1 "::1\"], \"later\": {},"
		"\"gpus\": [{\"uuid\": \"" U1 "\", \"memory\": 4294967296}, {\"uuid\": \"" U2
		"\"}], \"unhooked\": \"stop\"}";
	struct error err = ERROR_INIT;
	struct slice_def d;

	(void)state;
	assert_ok(slice_def_read(&d, "f", ID, text, strlen(text), &err), &err);
	assert_string_equal(d.id, ID);
	assert_string_equal(d.resource, "nvidia.com/gpu");
	assert_int_equal(d.devices.n, 2);
	assert_true(d.stop_unhooked);
	assert_int_equal(d.n_gpus, 2);
	assert_string_equal(d.gpus[0].text, U1);
	assert_int_equal(d.gpus[0].uuid[1], 0x11);
	assert_int_equal(d.gpus[0].limit, UINT64_C(4294967296));
	assert_int_equal(d.gpus[1].uuid[14], 0xee);
	assert_true(d.gpus[1].limit == SLICE_NO_LIMIT);
	slice_def_fini(&d);
}

static void slice_def_read__accepts_shares(void **state)
{
	static const char text[] =
		"{\"version\": 1, \"id\": \"" ID "\", \"resource\": \"nvidia.com/gpu\","
		"\"gpus\": [{\"uuid\": \"" U1 "\", \"weight\": 10000, \"cap\": 1000000},"
		"{\"uuid\": \"" U2 "\"}], \"compute\": \"turns\", \"class\": \"latency\"}",
			  plain[] = "{\"version\": 1, \"id\": \"" ID "\", \"resource\": \"r\","
				    "\"gpus\": [{\"uuid\": \"" U1 "\"}], \"class\": \"batch\"}",
			  mps[] = "{\"version\": 1, \"id\": \"" ID "\", \"resource\": \"r\","
				  "\"gpus\": [{\"uuid\": \"" U1 "\", \"weight\": 25,"
				  "\"cap\": 250000}], \"compute\": \"mps\"}";
	struct error err = ERROR_INIT;
	struct slice_def d;

	(void)state;
	assert_ok(slice_def_read(&d, "f", ID, text, strlen(text), &err), &err);
	assert_true(d.has_compute && d.latency && !d.mps);
	assert_int_equal(d.gpus[0].weight, 10000);
	assert_int_equal(d.gpus[0].cap, 1000000);
	assert_int_equal(d.gpus[1].weight, 1);
	assert_int_equal(d.gpus[1].cap, 0);
	slice_def_fini(&d);
	assert_ok(slice_def_read(&d, "f", ID, plain, strlen(plain), &err), &err);
	assert_false(d.has_compute || d.latency || d.mps);
	slice_def_fini(&d);
	assert_ok(slice_def_read(&d, "f", ID, mps, strlen(mps), &err), &err);
	assert_true(d.has_compute && d.mps && !d.latency);
	assert_int_equal(d.gpus[0].cap, 250000);
	slice_def_fini(&d);
}

#define HEAD "{\"version\": 1, \"id\": \"" ID "\", \"resource\": \"r\""

static void slice_def_read__names_the_invalid_member(void **state)
{
	static const struct {
		const char *text, *error;
	} rows[] = {
		{ "", "f:1:0: " },
		{ "[]", "f: the file: expected an object, found a list" },
		{ "{\"version\": 1, \"version\": 1}", "f:1:" },
		{ "{}", "f: version: expected 1, found nothing" },
		{ "{\"version\": 2}", "f: version: expected 1, found 2" },
		{ "{\"version\": 1}", "f: id: expected a text" },
		{ "{\"version\": 1, \"id\": \"ff\"}",
			"f: id: expected the name of its directory, found 'ff'" },
		{ "{\"version\": 1, \"id\": \"" ID "\"}", "f: resource: expected a text" },
		{ HEAD "}", "f: gpus: expected a list of 1 to 16 GPUs, found nothing" },
		{ HEAD ", \"gpus\": []}", "f: gpus: expected a list of 1 to 16 GPUs" },
		{ HEAD ", \"gpus\": [7]}", "f: gpus[0]: expected an object, found 7" },
		{ HEAD ", \"gpus\": [{\"uuid\": \"GPU-1\"}]}",
			"f: gpus[0].uuid: expected GPU- or MIG- and a UUID, found 'GPU-1'" },
		{ HEAD ", \"gpus\": [{\"uuid\": \"" U1 "\"}, {\"uuid\": \"" U1 "\"}]}",
			"f: gpus[1].uuid: expected each GPU once" },
		{ HEAD ", \"gpus\": [{\"uuid\": \"" U1 "\", \"memory\": 0}]}",
			"f: gpus[0].memory: expected bytes, from 1 to 2^48, found 0" },
		{ HEAD ", \"gpus\": [{\"uuid\": \"" U1 "\", \"memory\": -1}]}", "found -1" },
		{ HEAD ", \"gpus\": [{\"uuid\": \"" U1 "\", \"memory\": 1.5}]}",
			"found a number with a fraction" },
		{ HEAD ", \"gpus\": [{\"uuid\": \"" U1 "\", \"memory\": null}]}",
			"found null" },
		{ HEAD ", \"devices\": 1, \"gpus\": [{\"uuid\": \"" U1 "\"}]}",
			"f: devices: " },
		{ HEAD ", \"devices\": [1], \"gpus\": [{\"uuid\": \"" U1 "\"}]}",
			"f: devices[0]: expected a device ID, found 1" },
		{ HEAD ", \"gpus\": [{\"uuid\": \"" U1 "\"}], \"unhooked\": \"kill\"}",
			"f: unhooked: expected report or stop, found 'kill'" },
		{ HEAD ", \"gpus\": [{\"uuid\": \"" U1 "\"}], \"unhooked\": true}",
			"f: unhooked: expected report or stop, found true" },
		{ HEAD ", \"gpus\": [{\"uuid\": \"" U1 "\", \"weight\": 0}]}",
			"f: gpus[0].weight: expected a number from 1 to 10000, found 0" },
		{ HEAD ", \"gpus\": [{\"uuid\": \"" U2 "\"}, {\"uuid\": \"" U1
		       "\", \"weight\": 10001}]}",
			"f: gpus[1].weight: expected a number from 1 to 10000, found 10001" },
		{ HEAD ", \"gpus\": [{\"uuid\": \"" U1 "\", \"weight\": null}]}",
			"f: gpus[0].weight: expected a number from 1 to 10000, found null" },
		{ HEAD ", \"gpus\": [{\"uuid\": \"" U1 "\", \"cap\": 0}]}",
			"f: gpus[0].cap: expected a number from 1 to 1000000, found 0" },
		{ HEAD ", \"gpus\": [{\"uuid\": \"" U1 "\", \"cap\": 1000001}]}",
			"f: gpus[0].cap: expected a number from 1 to 1000000" },
		{ HEAD ", \"gpus\": [{\"uuid\": \"" U1 "\", \"cap\": 0.5}]}",
			"found a number with a fraction" },
		{ HEAD ", \"gpus\": [{\"uuid\": \"" U1 "\"}], \"compute\": \"mig\"}",
			"f: compute: expected turns or mps, or no such key, found 'mig'" },
		{ HEAD ", \"gpus\": [{\"uuid\": \"" U1 "\"}], \"compute\": null}",
			"f: compute: expected turns or mps, or no such key, found null" },
		{ HEAD ", \"gpus\": [{\"uuid\": \"" U1 "\"}], \"class\": \"fast\"}",
			"f: class: expected batch or latency, found 'fast'" },
		{ HEAD ", \"gpus\": [{\"uuid\": \"" U1 "\"}], \"class\": 1}",
			"f: class: expected batch or latency, found 1" },
	};
	struct error err = ERROR_INIT;
	struct slice_def d;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_error(
			slice_def_read(&d, "f", ID, rows[i].text, strlen(rows[i].text), &err),
			&err, rows[i].error);
}

static void slice_id_valid__accepts_32_hex_digits(void **state)
{
	(void)state;
	assert_true(slice_id_valid(ID));
	assert_false(slice_id_valid(""));
	assert_false(slice_id_valid(ID "0"));
	assert_false(slice_id_valid("0123456789ABCDEF0123456789abcdef"));
	assert_false(slice_id_valid("../3456789abcdef0123456789abcdef"));
}

static void packet_read__accepts_requests_of_their_length_only(void **state)
{
	static const struct {
		uint32_t op;
		size_t bytes;
	} rows[] = { { SLICE_HELLO, sizeof(struct slice_hello) },
		{ SLICE_WANT, sizeof(struct slice_want) },
		{ SLICE_VIEW, sizeof(struct slice_view) },
		{ SLICE_COMPARE, sizeof(struct slice_compare) },
		{ SLICE_STATE, sizeof(struct slice_state) } };
	char data[128] = { 0 };
	union packet p;

	(void)state;
	for (uint32_t op = 0; op < 12; op++) {
		for (size_t len = 0; len < sizeof(data); len++) {
			bool good = false;

			for (size_t i = 0; i < ARRAY_LEN(rows); i++)
				good |= rows[i].op == op && rows[i].bytes == len;
			memcpy(data, &op, sizeof(op));
			assert_int_equal(packet_read(&p, data, len, 1, NULL) == 0, good);
		}
	}
}

static void packet_read__refuses_values_out_of_range(void **state)
{
	struct slice_want w = { .head = { .op = SLICE_WANT }, .gpu = 2 };
	struct slice_compare c = { .head = { .op = SLICE_COMPARE }, .gpu = 2 };
	struct slice_hello h = { .head = { .op = SLICE_HELLO },
		.version = SLICE_WIRE_VERSION,
		.flags = SLICE_HELLO_MEMORY | SLICE_HELLO_AGAIN };
	struct error err = ERROR_INIT;
	union packet p;

	(void)state;
	assert_error(packet_read(&p, &w, sizeof(w), 2, &err), &err, "a GPU below 2, found 2");
	assert_error(packet_read(&p, &c, sizeof(c), 0, &err), &err, "a GPU below 0, found 2");
	assert_ok(packet_read(&p, &w, sizeof(w), 3, &err), &err);
	assert_ok(packet_read(&p, &h, sizeof(h), 0, &err), &err);
	h.flags |= SLICE_HELLO_TURNS;
	assert_error(packet_read(&p, &h, sizeof(h), 0, &err), &err, "for memory or for turns");
	h.flags = SLICE_HELLO_TURNS | SLICE_HELLO_AGAIN;
	assert_ok(packet_read(&p, &h, sizeof(h), 0, &err), &err);
	h.flags |= 8;
	assert_error(packet_read(&p, &h, sizeof(h), 0, &err), &err, "unknown flags");
	h.version++;
	assert_ok(packet_read(&p, &h, sizeof(h), 0, &err), &err);
	memset(h.name, 'x', sizeof(h.name));
	assert_error(packet_read(&p, &h, sizeof(h), 0, &err), &err, "the name has no end");
}

static void packet_read__refuses_an_unknown_state(void **state)
{
	struct slice_state s = { .head = { .op = SLICE_STATE },
		.gpu = 1,
		.generation = 0xffffff,
		.busy = 1,
		.wants = 1,
		.idle_ns = UINT64_MAX };
	struct error err = ERROR_INIT;
	union packet p;

	(void)state;
	assert_ok(packet_read(&p, &s, sizeof(s), 2, &err), &err);
	assert_true(p.state.idle_ns == UINT64_MAX);
	assert_error(packet_read(&p, &s, sizeof(s), 1, &err), &err, "a GPU below 1, found 1");
	s.busy = 2;
	assert_error(packet_read(&p, &s, sizeof(s), 2, &err), &err, "found busy 2, wants 1");
	s.busy = 0;
	s.wants = UINT32_MAX;
	assert_error(packet_read(&p, &s, sizeof(s), 2, &err), &err,
		"found busy 0, wants 42949");
	s.wants = 0;
	s.generation++;
	assert_error(packet_read(&p, &s, sizeof(s), 2, &err), &err,
		"a generation of 24 bits, found 0x1000000");
}

static int read_line(struct control_request *r, const char *line, struct error *err)
{
	return request_read(r, line, strlen(line), err);
}

static void request_read__accepts_a_reading(void **state)
{
	struct error err = ERROR_INIT;
	struct control_request r;

	(void)state;
	assert_ok(read_line(&r,
			  "{\"op\": \"reading\", \"seq\": 17, \"gpus\": ["
			  "{\"uuid\": \"" U1 "\", \"processes\": [{\"pid\": 9, \"bytes\": 5},"
			  "{\"pid\": 3}, {\"pid\": 9, \"bytes\": 7}]},"
			  "{\"uuid\": \"" U2 "\", \"error\": \"lost\"}]}",
			  &err),
		&err);
	assert_int_equal(r.op, REQUEST_READING);
	assert_int_equal(r.reading.seq, 17);
	/* The one that could not be read is not there. */
	assert_int_equal(r.reading.n, 1);
	assert_int_equal(r.reading.gpus[0].n, 2);
	assert_int_equal(reading_find(&r.reading.gpus[0], 9)->bytes, 7);
	assert_true(reading_find(&r.reading.gpus[0], 9)->known);
	assert_false(reading_find(&r.reading.gpus[0], 3)->known);
	assert_null(reading_find(&r.reading.gpus[0], 4));
	request_fini(&r);
	assert_ok(read_line(&r, "{\"op\": \"status\"}", &err), &err);
	assert_false(r.has_slice);
	assert_ok(read_line(&r, "{\"op\": \"status\", \"slice\": \"" ID "\"}", &err), &err);
	assert_string_equal(r.slice, ID);
	assert_ok(read_line(&r, "{\"op\": \"status\", \"slice\": \"none\"}", &err), &err);
	assert_true(r.has_slice);
	assert_string_equal(r.slice, "");
	assert_ok(read_line(&r, "{\"op\": \"readings\"}", &err), &err);
	assert_int_equal(r.op, REQUEST_READINGS);
}

static void request_read__refuses_all_other_lines(void **state)
{
	static const struct {
		const char *line, *error;
	} rows[] = {
		{ "", "control: column" },
		{ "7", "control: column" },
		{ "{}", "expected an object with 'op'" },
		{ "{\"op\": 1}", "expected an object with 'op'" },
		{ "{\"op\": \"x\"}", "no 'op' is called 'x'" },
		{ "{\"op\": \"status\", \"slice\": 1}", "the ID of a slice" },
		{ "{\"op\": \"reading\"}", "a number of the reading" },
		{ "{\"op\": \"reading\", \"seq\": 0, \"gpus\": []}",
			"a number of the reading" },
		{ "{\"op\": \"reading\", \"seq\": 1}", "a list of GPUs" },
		{ "{\"op\": \"reading\", \"seq\": 1, \"gpus\": [{}]}", "the UUID of a GPU" },
		{ "{\"op\": \"reading\", \"seq\": 1, \"gpus\": [{\"uuid\": \"" U1 "\"}]}",
			"a list of processes" },
		{ "{\"op\": \"reading\", \"seq\": 1, \"gpus\": [{\"uuid\": \"" U1
		  "\", \"processes\": []}, {\"uuid\": \"" U1 "\", \"processes\": []}]}",
			"each GPU once" },
		{ "{\"op\": \"reading\", \"seq\": 1, \"gpus\": [{\"uuid\": \"" U1
		  "\", \"processes\": [{\"pid\": 0}]}]}",
			"a PID" },
		{ "{\"op\": \"reading\", \"seq\": 1, \"gpus\": [{\"uuid\": \"" U1
		  "\", \"processes\": [{\"pid\": 1, \"bytes\": -1}]}]}",
			"bytes" },
	};
	struct error err = ERROR_INIT;
	struct control_request r;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_error(read_line(&r, rows[i].line, &err), &err, rows[i].error);
}

static void proc_stat_parse__is_not_misled_by_names(void **state)
{
	struct proc_stat a, b;

	(void)state;
	assert_true(proc_stat_parse("7 (a) b) S 1 7 7 0 -1 4 1 0 0 0 0 0 0 0 20 0 1 0 4711 9 9 "
				    "18446744073709551615 94000 5 140000 0 0\n",
		&a));
	assert_int_equal(a.start, 4711);
	assert_int_equal(a.parent, 1);
	assert_true(a.image != 0);
	assert_true(proc_stat_parse("7 (x) S 1 7 7 0 -1 4 1 0 0 0 0 0 0 0 20 0 1 0 4711 9 9 "
				    "18446744073709551615 94000 5 150000 0 0\n",
		&b));
	assert_true(a.image != b.image);
	/* The kernel shows no addresses where this process has no permission. */
	assert_true(proc_stat_parse(
		"7 (x) S 1 7 7 0 -1 4 1 0 0 0 0 0 0 0 20 0 1 0 4711 9 9 9 1 1 0 0 0\n", &b));
	assert_int_equal(b.image, 0);
	assert_false(proc_stat_parse("7 (x) S 1 2 3", &b));
	assert_false(proc_stat_parse("", &b));
}

static void write_proc_entry(const char *dir, const char *pid, const char *name,
	const char *text)
{
	char path[4096];
	struct error err = ERROR_INIT;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, pid);
	assert_ok(dir_make(path, 0755, &err), &err);
	(void)snprintf(path, sizeof(path), "%s/%s/%s", dir, pid, name);
	assert_ok(file_write_atomic(path, text, strlen(text), 0644, &err), &err);
}

static void *is_same_memfd(void *arg, const struct proc_file_id *dir)
{
	return proc_file_id_equal(arg, dir) ? arg : NULL;
}

/*
 * 30 is in a container (20) that a pod's container (10) runs; 60 is in that pod too and has mounted another directory
 * there; 40 is the node's; 50 is its own parent.
 */
static void proc_nearest__searches_the_ancestors(void **state)
{
	static const char rest[] = "1 1 0 -1 4 1 0 0 0 0 0 0 0 0 20 0 1 0 1 9 9 9 1 1 0 0 0\n";
	static const struct {
		uint32_t pid, parent;
		bool sees;
	} rows[] = { { 10, 7, true }, { 20, 10, false }, { 30, 20, false }, { 60, 30, true },
		{ 40, 1, false }, { 50, 50, false }, { 1, 0, true } };
	char *dir = test_tmpdir(), path[300], pid[16], stat[100];
	struct proc_file_id slice, other;
	struct error err = ERROR_INIT;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		(void)snprintf(pid, sizeof(pid), "%u", rows[i].pid);
		(void)snprintf(stat, sizeof(stat), "%u (x) S %u %s", rows[i].pid,
			rows[i].parent, rest);
		write_proc_entry(dir, pid, "stat", stat);
		(void)snprintf(path, sizeof(path), "%s/%u/root%s", dir, rows[i].pid,
			rows[i].sees ? SLICE_CONTAINER_DIR : "");
		assert_ok(dir_make(path, 0755, &err), &err);
	}
	assert_int_equal(proc_slice_dir(dir, 10, &slice), PROC_DIR_FOUND);
	assert_int_equal(slice.type, S_IFDIR);
	assert_int_equal(proc_slice_dir(dir, 60, &other), PROC_DIR_FOUND);
	assert_false(proc_file_id_equal(&slice, &other));
	assert_int_equal(proc_slice_dir(dir, 30, &other), PROC_DIR_ABSENT);
	assert_int_equal(proc_slice_dir(dir, 70, &other), PROC_DIR_ABSENT);
	assert_ptr_equal(proc_nearest(dir, 10, is_same_memfd, &slice), &slice);
	assert_ptr_equal(proc_nearest(dir, 30, is_same_memfd, &slice), &slice);
	assert_ptr_equal(proc_nearest(dir, 60, is_same_memfd, &slice), &slice);
	assert_null(proc_nearest(dir, 40, is_same_memfd, &slice));
	assert_null(proc_nearest(dir, 50, is_same_memfd, &slice));
	assert_null(proc_nearest(dir, 70, is_same_memfd, &slice));
	test_rmdir(dir);
}

/* A link in a process's root leads nowhere outside of that root. */
static void proc_slice_dir__stays_in_the_root_of_the_process(void **state)
{
	char *dir = test_tmpdir(), path[300], slice[300];
	struct proc_file_id id;
	struct error err = ERROR_INIT;

	(void)state;
	(void)snprintf(slice, sizeof(slice), "%s/slice", dir);
	assert_ok(dir_make(slice, 0755, &err), &err);
	(void)snprintf(path, sizeof(path), "%s/10/root/run/gpuslice", dir);
	assert_ok(dir_make(path, 0755, &err), &err);
	(void)snprintf(path, sizeof(path), "%s/10/root" SLICE_CONTAINER_DIR, dir);
	assert_int_equal(symlink(slice, path), 0);
	assert_int_equal(access(path, F_OK), 0);
	assert_int_equal(proc_slice_dir(dir, 10, &id), PROC_DIR_ABSENT);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(symlink("/proc/self/cwd", path), 0);
	assert_int_equal(proc_slice_dir(dir, 10, &id), PROC_DIR_ABSENT);
	test_rmdir(dir);
}

static void proc_ended__counts_a_zombie_as_ended(void **state)
{
	siginfo_t info;
	pid_t pid;
	int pidfd;

	(void)state;
	pid = fork();
	if (pid == 0) {
		for (;;)
			(void)pause();
	}
	pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	assert_true(pidfd >= 0);
	assert_false(proc_ended(pidfd));
	(void)kill(pid, SIGKILL);
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	assert_true(proc_ended(pidfd));
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_true(proc_ended(pidfd));
	(void)close(pidfd);
}

static bool count_memfd(void *arg, int fd)
{
	++*(unsigned int *)arg;
	(void)close(fd);
	return false;
}

/* Runs in a root of its own, where a FIFO has the name of a memfd. Exit status: 0 if the FIFO was not
 * opened, and a real memfd is; SKIPPED. */
static int memfds_beside_fifo(const char *dir)
{
	char root[300], path[400], at[400];
	unsigned int n = 0;
	int fd;

	(void)snprintf(root, sizeof(root), "%s/root", dir);
	(void)snprintf(at, sizeof(at), "%s/proc", root);
	(void)snprintf(path, sizeof(path), "%s/memfd:test (deleted)", root);
	if (dir_make(at, 0755, NULL) < 0 || mkfifo(path, 0600) < 0 ||
		(unshare(CLONE_NEWNS) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0) ||
		mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		mount("/proc", at, NULL, MS_BIND | MS_REC, NULL) < 0 || chroot(root) < 0)
		return SKIPPED;
	fd = open("/memfd:test (deleted)", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return 1;
	proc_each_memfd("/proc", (uint32_t)getpid(), "test", NULL, count_memfd, &n);
	(void)close(fd);
	if (n)
		return 2;
	fd = memfd_create("test", MFD_CLOEXEC);
	if (fd < 0)
		return 3;
	proc_each_memfd("/proc", (uint32_t)getpid(), "test", NULL, count_memfd, &n);
	return n == 1 ? 0 : 4;
}

static void proc_each_memfd__opens_nothing_else(void **state)
{
	char *dir = test_tmpdir();
	int status, fd;
	pid_t pid;

	(void)state;
	pid = fork();
	if (pid == 0)
		_exit(memfds_beside_fifo(dir));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == SKIPPED)
		print_message("# skipped: no root of its own\n");
	else
		assert_int_equal(WEXITSTATUS(status), 0);
	/* A memfd of huge pages has the name too. */
	fd = memfd_create("test", MFD_CLOEXEC | MFD_HUGETLB);
	if (fd >= 0) {
		unsigned int n = 0;

		proc_each_memfd("/proc", (uint32_t)getpid(), "test", NULL, count_memfd, &n);
		assert_int_equal(n, 0);
		(void)close(fd);
	}
	test_rmdir(dir);
}

/* A process may have any number of descriptors, so proc_each_memfd() stops at its limits. */
static void proc_each_memfd__has_a_limit(void **state)
{
	const int first = 1000, last = first + PROC_FDS_MAX;
	unsigned int n = 0;
	struct rlimit r;
	int fd;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &r), 0);
	SKIP_UNLESS(r.rlim_max > (rlim_t)last, "too few descriptors");
	r.rlim_cur = r.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &r), 0);
	assert_true(
		proc_each_memfd("/proc", (uint32_t)getpid(), "test", NULL, count_memfd, &n));
	fd = memfd_create("test", MFD_CLOEXEC);
	for (int i = first; i < first + PROC_MEMFDS_MAX; i++)
		assert_int_equal(dup2(fd, i), i);
	assert_false(
		proc_each_memfd("/proc", (uint32_t)getpid(), "test", NULL, count_memfd, &n));
	assert_int_equal(n, PROC_MEMFDS_MAX);
	(void)close(fd);
	fd = memfd_create("other", MFD_CLOEXEC);
	for (int i = first; i < last; i++)
		assert_int_equal(dup2(fd, i), i);
	n = 0;
	assert_false(
		proc_each_memfd("/proc", (uint32_t)getpid(), "test", NULL, count_memfd, &n));
	assert_int_equal(n, 0);
	for (int i = first; i < last; i++)
		(void)close(i);
	(void)close(fd);
}

static void journal__is_kept_for_this_boot_and_one_owner(void **state)
{
	char *dir = test_tmpdir(), path[300];
	struct error err = ERROR_INIT;
	struct journal j, other;
	struct grants_record *r;
	uint64_t serial;

	(void)state;
	assert_ok(path_join(path, sizeof(path), dir, "book", &err), &err);
	assert_ok(journal_open(&j, path, "boot-1", 1000, &err), &err);
	assert_int_equal(journal_touched(&j), 0);
	r = journal_record(&j);
	assert_non_null(r);
	atomic_store(&r->state, GRANTS_RECORD_USED);
	assert_ptr_not_equal(journal_record(&j), r);
	serial = journal_serial(&j);
	assert_true(serial > 1000);
	assert_error(journal_open(&other, path, "boot-1", 1, &err), &err, "another arbiter");
	journal_close(&j);
	assert_ok(journal_open(&j, path, "boot-1", 1, &err), &err);
	assert_int_equal(journal_touched(&j), 2);
	assert_int_equal(atomic_load(&j.records[0].state), GRANTS_RECORD_USED);
	assert_true(journal_serial(&j) > serial);
	journal_close(&j);
	assert_ok(journal_open(&j, path, "boot-2", 5000000, &err), &err);
	assert_int_equal(journal_touched(&j), 0);
	assert_int_equal(atomic_load(&j.records[0].state), GRANTS_RECORD_FREE);
	journal_close(&j);
	/* Anything at all in its place. */
	assert_ok(file_write_atomic(path, "short", 5, 0600, &err), &err);
	assert_ok(journal_open(&j, path, "boot-2", 1, &err), &err);
	for (size_t i = 0; i < JOURNAL_RECORDS; i++) {
		r = journal_record(&j);
		assert_non_null(r);
		atomic_store(&r->state, GRANTS_RECORD_USED);
	}
	assert_null(journal_record(&j));
	journal_close(&j);
	test_rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slice_def_read__accepts_the_output_of_the_agent),
		cmocka_unit_test(slice_def_read__accepts_shares),
		cmocka_unit_test(slice_def_read__names_the_invalid_member),
		cmocka_unit_test(slice_id_valid__accepts_32_hex_digits),
		cmocka_unit_test(packet_read__accepts_requests_of_their_length_only),
		cmocka_unit_test(packet_read__refuses_values_out_of_range),
		cmocka_unit_test(packet_read__refuses_an_unknown_state),
		cmocka_unit_test(request_read__accepts_a_reading),
		cmocka_unit_test(request_read__refuses_all_other_lines),
		cmocka_unit_test(proc_stat_parse__is_not_misled_by_names),
		cmocka_unit_test(proc_nearest__searches_the_ancestors),
		cmocka_unit_test(proc_slice_dir__stays_in_the_root_of_the_process),
		cmocka_unit_test(proc_ended__counts_a_zombie_as_ended),
		cmocka_unit_test(proc_each_memfd__opens_nothing_else),
		cmocka_unit_test(proc_each_memfd__has_a_limit),
		cmocka_unit_test(journal__is_kept_for_this_boot_and_one_owner),
	};

	return cmocka_run_group_tests_name("arbiter-input", tests, NULL, NULL);
}
