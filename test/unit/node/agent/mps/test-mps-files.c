/* SPDX-License-Identifier: Apache-2.0 */

/* What MPS has on disk and reads from others, malformed and at its limits; how the control program is found and asked. */
#include "unit/node/agent/mps/mps-env.h"

#include "lib/base/fd.h"
#include "lib/base/time.h"

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Inits @dir as place "k" of the root, with its directories and a daemon.json. */
static void make_place(const struct mps_env *e, struct mps_daemon_dir *dir)
{
	struct error err = ERROR_INIT;

	assert_ok(mps_daemon_dir_init(dir, e->root, "k", &err), &err);
	assert_ok(mps_daemon_dir_make(dir, &err), &err);
	assert_ok(mps_daemon_dir_save(dir, &err), &err);
}

/* --- whose a place is --- */

static void mps_lock_find_owner__accepts_the_pid_of_a_running_process(void **state)
{
	struct mps_env *e = *state;
	uint64_t ticks = mps_process_start_ticks(getpid());
	static const struct {
		const char *before, *between, *after;
		bool ok;
	} rows[] = {
		{ "", " ", "\n", true },
		{ "", " ", "", true },
		{ "", " ", " more", true },
		{ "", "  ", "", false },
		{ " ", " ", "", false },
		{ "-", " ", "", false },
		{ "", "\n", "", false },
		{ "", ",", "", false },
		{ "", " x", "", false },
		{ "", " ", "0", false }, /* it began at another time */
		{ "4294967295", " ", "", false },
		{ "99999999999999999999999999", " ", "", false },
	};
	struct mps_daemon_dir dir;
	char text[128];

	make_place(e, &dir);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		(void)snprintf(text, sizeof(text), "%s%d%s%" PRIu64 "%s", rows[i].before,
			(int)getpid(), rows[i].between, ticks, rows[i].after);
		mps_env_write(e, "m/k/pid", text);
		if ((mps_lock_find_owner(dir.dir).pid == getpid()) != rows[i].ok)
			fail_msg("'%s': %d", text, (int)mps_lock_find_owner(dir.dir).pid);
	}
	mps_daemon_dir_fini(&dir);
}

static void mps_process__that_is_a_zombie_is_not_alive(void **state)
{
	struct mps_lock_owner owner;
	int fds[2];
	pid_t pid;
	char c;

	(void)state;
	assert_int_equal(pipe(fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		/* A name like the end of the field; every process can choose its name. */
		(void)prctl(PR_SET_NAME, ") Z 1 2 (");
		(void)!write(fds[1], "", 1);
		(void)pause();
		_exit(0);
	}
	assert_int_equal(read(fds[0], &c, 1), 1);
	owner = (struct mps_lock_owner){ .pid = pid, .ticks = mps_process_start_ticks(pid) };
	assert_true(mps_lock_owner_is_alive(&owner));
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitid(P_PID, (id_t)pid, &(siginfo_t){ 0 }, WEXITED | WNOWAIT), 0);
	assert_false(mps_lock_owner_is_alive(&owner));
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	(void)close(fds[0]);
	(void)close(fds[1]);
}

static void mps_lock_take__removes_files_of_the_last_daemon(void **state)
{
	struct mps_env *e = *state;
	struct error err = ERROR_INIT;
	struct mps_daemon_dir dir;

	make_place(e, &dir);
	mps_env_write(e, "m/k/pipe/control", "");
	mps_env_write(e, "m/k/pipe/deep/er", "");
	mps_env_write(e, "m/k/shm/cuda.shm", "");
	mps_env_write(e, "m/k/log/mps.log", "");
	mps_env_write(e, "m/k/pid", "1 1\n");
	assert_ok(mps_lock_take(dir.dir, &err), &err);
	assert_false(mps_env_has_file(e, "k", "pipe/control"));
	assert_false(mps_env_has_file(e, "k", "pipe/deep"));
	assert_false(mps_env_has_file(e, "k", "shm/cuda.shm"));
	assert_true(mps_env_has_file(e, "k", "log/mps.log"));
	assert_int_equal(mps_lock_find_owner(dir.dir).pid, getpid());
	mps_daemon_dir_fini(&dir);
}

/* How many descriptors this process has of the file. */
static unsigned int count_descriptors(const char *path)
{
	struct stat want, st;
	unsigned int n = 0;

	assert_int_equal(stat(path, &want), 0);
	for (int fd = 0; fd < 256; fd++)
		n += fstat(fd, &st) == 0 && st.st_ino == want.st_ino &&
		     st.st_dev == want.st_dev;
	return n;
}

static void *take_lock(void *dir)
{
	struct error err = ERROR_INIT;

	return mps_lock_take(dir, &err) < 0 ? dir : NULL;
}

/* The process waits for the lock while another process removes the file, and a third one makes and locks a new one. */
static void mps_lock_take__locks_the_existing_file(void **state)
{
	struct mps_env *e = *state;
	uint64_t end = time_mono_ns() + 60 * NS_PER_SEC;
	struct mps_daemon_dir dir;
	char path[PATH_MAX];
	int first, second;
	pthread_t t;
	void *r;

	make_place(e, &dir);
	(void)snprintf(path, sizeof(path), "%.2000s/k/lock", e->root);
	first = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(flock(first, LOCK_EX), 0);
	assert_int_equal(pthread_create(&t, NULL, take_lock, dir.dir), 0);
	while (count_descriptors(path) < 2 && time_mono_ns() < end)
		(void)sched_yield();
	assert_int_equal(count_descriptors(path), 2);
	assert_int_equal(unlink(path), 0);
	second = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(flock(second, LOCK_EX), 0);
	(void)close(first);
	/* The thread continues with the new file, and has done nothing yet. */
	while (count_descriptors(path) < 2 && time_mono_ns() < end)
		(void)sched_yield();
	assert_int_equal(count_descriptors(path), 2);
	assert_false(mps_env_has_file(e, "k", "pid"));
	(void)close(second);
	assert_int_equal(pthread_join(t, &r), 0);
	assert_null(r);
	assert_true(mps_env_has_file(e, "k", "pid"));
	mps_daemon_dir_fini(&dir);
}

/* Another process is about to start a daemon in the directory at that moment. */
static void mps_lock_drop__does_not_wait_for_the_lock(void **state)
{
	struct mps_env *e = *state;
	struct error err = ERROR_INIT;
	struct mps_daemon_dir dir;
	char path[PATH_MAX];
	int fd;

	make_place(e, &dir);
	(void)snprintf(path, sizeof(path), "%.2000s/k/lock", e->root);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(flock(fd, LOCK_EX), 0);
	assert_error(mps_lock_drop(dir.dir, &err), &err, "lock");
	assert_error(mps_daemon_dir_clear(&dir, &err), &err, "lock");
	assert_true(mps_env_has_file(e, "k", "daemon.json"));
	(void)close(fd);
	error_clear(&err);
	assert_ok(mps_daemon_dir_clear(&dir, &err), &err);
	assert_ok(mps_daemon_dir_clear(&dir, &err), &err); /* again is no error */
	mps_daemon_dir_fini(&dir);
}

static void mps_lock__follows_no_link(void **state)
{
	struct mps_env *e = *state;
	struct error err = ERROR_INIT;
	struct mps_daemon_dir dir;
	char path[PATH_MAX];

	make_place(e, &dir);
	(void)snprintf(path, sizeof(path), "%.2000s/k/lock", e->root);
	assert_int_equal(symlink("/dev/null", path), 0);
	assert_error(mps_lock_take(dir.dir, &err), &err, "open");
	assert_error(mps_lock_drop(dir.dir, &err), &err, "open");
	assert_true(mps_env_has_file(e, "k", "daemon.json"));
	mps_daemon_dir_fini(&dir);
}

/* --- directories --- */

static void mps_daemon_dir_make__refuses_directories_that_others_may_write_to(void **state)
{
	struct mps_env *e = *state;
	struct error err = ERROR_INIT;
	struct mps_daemon_dir dir;

	make_place(e, &dir);
	assert_int_equal(chmod(dir.dir, 0777), 0);
	assert_error(mps_daemon_dir_make(&dir, &err), &err,
		"anybody may write there (mode 0777)");
	assert_int_equal(err.code, ERR_PERMISSION);
	assert_int_equal(chmod(dir.dir, 01777),
		0); /* no user can replace another user's files */
	error_clear(&err);
	assert_ok(mps_daemon_dir_make(&dir, &err), &err);
	/* Containers have the pipe directory: the agent undoes what their root does to it, but follows no
	 * link. */
	assert_int_equal(chmod(dir.pipe, 0400), 0);
	assert_ok(mps_daemon_dir_make(&dir, &err), &err);
	assert_int_equal(rmdir(dir.pipe), 0);
	assert_int_equal(symlink("/tmp", dir.pipe), 0);
	assert_error(mps_daemon_dir_make(&dir, &err), &err, "open");
	assert_int_equal(unlink(dir.pipe), 0);
	mps_daemon_dir_fini(&dir);
}

static void mps_daemon_dirs_find__lists_directories_with_a_daemon_json(void **state)
{
	struct mps_env *e = *state;
	CLEANUP(strv_fini) struct strv keys = STRV_INIT;
	struct error err = ERROR_INIT;
	char name[128];

	assert_ok(mps_daemon_dirs_find(&keys, e->root, &err), &err); /* there is no root */
	assert_int_equal(keys.n, 0);
	mps_env_write(e, "m/GPU-1/daemon.json", "{}");
	mps_env_write(e, "m/GPU-2/pid", "1 1");
	mps_env_write(e, "m/.hidden/daemon.json", "{}");
	mps_env_write(e, "m/daemon.json", "{}");
	(void)snprintf(name, sizeof(name), "m/%0*d/daemon.json", MPS_KEY_MAX, 1);
	mps_env_write(e, name, "{}");
	assert_ok(mps_daemon_dirs_find(&keys, e->root, &err), &err);
	assert_int_equal(keys.n, 1);
	assert_string_equal(keys.v[0], "GPU-1");
	mps_env_write(e, "file", "");
	(void)snprintf(name, sizeof(name), "%s/file", e->f->dir);
	assert_error(mps_daemon_dirs_find(&keys, name, &err), &err, "read");
}

static void mps_daemon_dir_load__accepts_valid_files_only(void **state)
{
	static const struct {
		const char *text;
		uint32_t n_modes;
		size_t n_devices;
	} rows[] = {
		{ "{}", 0, 0 },
		{ "{\"modes\": {\"GPU-1\": 2, \"GPU-2\": \"3\", \"GPU-3\": null}}", 1, 0 },
		{ "{\"modes\": [1], \"devices\": {\"GPU-1\": 1}}", 0, 0 },
		{ "{\"devices\": [\"GPU-1\", \"GPU-2\"], \"modes\": {}, \"version\": 9}", 0,
			2 },
		{ "{\"modes\": {\"GPU-0123456789012345678901234567890123456789012345678901234567890"
		  "12345678901234567890123456789012345678901234567890\": 2, \"GPU-1\": 1}}",
			1, 0 },
	};
	struct mps_env *e = *state;
	struct error err = ERROR_INIT;
	struct mps_daemon_dir dir;

	make_place(e, &dir);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		mps_env_write(e, "m/k/daemon.json", rows[i].text);
		assert_ok(mps_daemon_dir_load(&dir, &err), &err);
		assert_int_equal(dir.n_modes, rows[i].n_modes);
		assert_int_equal(dir.devices.n, rows[i].n_devices);
		if (dir.n_modes)
			assert_string_equal(dir.modes[0].uuid, "GPU-1");
	}
	mps_daemon_dir_fini(&dir);
}

static void mps_root_save__saves_each_root_once(void **state)
{
	struct mps_env *e = *state;
	CLEANUP(strv_fini) struct strv roots = STRV_INIT;
	CLEANUP(buf_fini) struct buf full = BUF_INIT(1 << 17);
	struct error err = ERROR_INIT;

	mps_env_write(e, "mps-roots", "\nrelative\n/a\n\n/b"); /* no end of the last line */
	assert_ok(mps_root_save(e->f->dir, "/a", &err), &err);
	assert_ok(mps_root_save(e->f->dir, "/c", &err), &err);
	assert_ok(mps_root_save(e->f->dir, "/c", &err), &err);
	assert_ok(mps_roots_load(&roots, e->f->dir, &err), &err);
	assert_int_equal(roots.n, 3);
	assert_string_equal(roots.v[1], "/b");
	assert_string_equal(roots.v[2], "/c");
	while (full.len < 65000)
		buf_printf(&full, "/%0*zu\n", 99, full.len);
	mps_env_write(e, "mps-roots", buf_str(&full));
	assert_ok(mps_root_save(e->f->dir, "/a", &err), &err);
	buf_printf(&full, "/%0*d\n", 65530 - 2 - (int)full.len, 1);
	mps_env_write(e, "mps-roots", buf_str(&full));
	assert_error(mps_root_save(e->f->dir, "/another", &err), &err, "more MPS roots than");
	assert_int_equal(mps_env_lines(e, "mps-roots", "/another"), 0);
	/* Longer than the agent would write it: nothing is known, and nothing is lost. */
	buf_printf(&full, "/%0*d\n", 520, 2);
	mps_env_write(e, "mps-roots", buf_str(&full));
	assert_int_equal(mps_root_save(e->f->dir, "/another", &err), -1);
}

/* --- the control program --- */

static void mps_control_find__searches_path_and_then_the_driver_root(void **state)
{
	struct mps_env *e = *state;
	CLEANUP(freep) char *before = strdup(getenv("PATH"));
	char found[PATH_MAX], path[PATH_MAX], root[PATH_MAX];
	struct error err = ERROR_INIT;

	(void)snprintf(root, sizeof(root), "%s/root", e->f->dir);
	(void)snprintf(path, sizeof(path), "::/nonexistent:%s/a:%s/b:", e->f->dir, e->f->dir);
	assert_int_equal(setenv("PATH", path, 1), 0);
	assert_error(mps_control_find(found, NULL, root, &err), &err, "belongs to the driver");
	assert_int_equal(err.code, ERR_NOT_FOUND);
	test_write(e->f->dir, "root/sbin/" MPS_CONTROL, "", 0, 0755);
	error_clear(&err);
	assert_ok(mps_control_find(found, "", root, &err), &err);
	assert_non_null(strstr(found, "/root/sbin/"));
	test_write(e->f->dir, "root/usr/bin/" MPS_CONTROL, "", 0, 0755);
	assert_ok(mps_control_find(found, NULL, root, &err), &err);
	assert_non_null(strstr(found, "/root/usr/bin/"));
	test_write(e->f->dir, "a/" MPS_CONTROL, "", 0, 0644); /* no program */
	assert_ok(mps_control_find(found, NULL, root, &err), &err);
	assert_non_null(strstr(found, "/root/usr/bin/"));
	test_write(e->f->dir, "b/" MPS_CONTROL, "", 0, 0755);
	assert_ok(mps_control_find(found, NULL, root, &err), &err);
	assert_non_null(strstr(found, "/b/"));
	/* A configured program is not replaced by another one. */
	assert_error(mps_control_find(found, "/nonexistent", root, &err), &err,
		"--mps-control");
	assert_int_equal(setenv("PATH", before, 1), 0);
}

struct answer {
	unsigned n;
	bool ok;
	size_t len;
	struct error err;
	char text[128];
};

static void on_answer(void *arg, const char *answer, const struct error *err)
{
	struct answer *a = arg;

	a->n++;
	a->ok = answer != NULL;
	if (answer) {
		a->len = strlen(answer);
		(void)snprintf(a->text, sizeof(a->text), "%.100s", answer);
	} else {
		a->len = 0;
		a->err = *err;
		(void)snprintf(a->text, sizeof(a->text), "%.100s", err->msg);
	}
}

static void mps_command_run__reports_why_there_is_no_answer(void **state)
{
	static const struct {
		const char *script, *text;
		enum error_code code;
	} rows[] = {
		{ "cat", "hello\n", ERR_NONE },
		{ "cat; echo words >&2", "hello\n", ERR_NONE },
		{ ":", "", ERR_NONE }, /* no word is an answer */
		{ "echo out; exit 1", "out", ERR_UNAVAILABLE },
		{ "echo out; echo err >&2; exit 1", "err", ERR_UNAVAILABLE },
		{ "exit 1", "the MPS control daemon cannot be asked", ERR_UNAVAILABLE },
		{ "kill -9 $$", "the MPS control daemon cannot be asked", ERR_UNAVAILABLE },
		{ "while :; do echo 0123456789012345678901234567890123456789; done",
			"an answer of more than 65536 bytes", ERR_LIMIT },
	};
	struct mps_env *e = *state;
	char path[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/program", e->f->dir);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct mps_command c = { .child = NULL };
		struct error err = ERROR_INIT;
		struct answer a = { .n = 0 };
		char script[256];
		int len = snprintf(script, sizeof(script), "#!/bin/sh\n%s\n", rows[i].script);
		extern char **environ;

		test_write(e->f->dir, "program", script, (size_t)len, 0755);
		assert_ok(mps_command_run(&c, &e->f->loop, path,
				  (const char *const *)(uintptr_t)environ, "hello", on_answer,
				  &a, &err),
			&err);
		agent_fixture_until(e->f, a.n > 0);
		assert_null(c.child);
		assert_string_equal(a.text, rows[i].text);
		assert_int_equal(a.err.code, rows[i].code);
		assert_int_equal(a.ok, rows[i].code == ERR_NONE);
		mps_command_stop(&c);
		assert_int_equal(unlink(path), 0);
	}
}

static void mps_command_stop__calls_back_no_more(void **state)
{
	struct mps_env *e = *state;
	struct mps_command c = { .child = NULL };
	struct error err = ERROR_INIT;
	struct answer a = { .n = 0 };
	static const char *const env[] = { "CUDA_MPS_PIPE_DIRECTORY=/x/pipe",
		"PATH=/bin:/usr/bin", NULL };

	mps_env_write(e, "hang-x", "");
	mps_command_stop(&c);
	assert_ok(mps_command_run(&c, &e->f->loop, e->control, env, "x", on_answer, &a, &err),
		&err);
	agent_fixture_until(e->f, mps_env_lines(e, "asked", "x") == 1);
	mps_command_stop(&c);
	assert_null(c.child);
	agent_fixture_run_once(e->f);
	assert_int_equal(a.n, 0);
}

/* --- numbers and lines --- */

static void mps_pid__accepts_pids_only(void **state)
{
	static const struct {
		const char *text;
		uint32_t pid;
	} rows[] = { { "1", 1 }, { "0", 0 }, { "2147483647", 2147483647 }, { "2147483648", 0 },
		{ "4294967297", 0 }, { "12345678901", 0 }, { "", 0 }, { "-1", 0 }, { "+1", 0 },
		{ " 1", 0 }, { "1 ", 0 }, { "1x", 0 }, { "0x1", 0 } };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (mps_pid(rows[i].text, strlen(rows[i].text)) != rows[i].pid)
			fail_msg("'%s' is not %u", rows[i].text, rows[i].pid);
	assert_int_equal(mps_pid("123456", 3), 123); /* no end is read */
}

struct heard {
	unsigned n;
	enum mps_log_kind kind;
	uint32_t pid;
	char text[128];
};

static void on_event(void *arg, const struct mps_log_event *ev)
{
	struct heard *h = arg;

	h->n++;
	h->kind = ev->kind;
	h->pid = ev->pid;
	(void)snprintf(h->text, sizeof(h->text), "%.100s", ev->text ? ev->text : "");
}

static void mps_log_feed__parses_complete_known_lines(void **state)
{
	static const struct {
		const char *line;
		int kind; /* -1: none */
		uint32_t pid;
	} rows[] = {
		{ "[x] Client process 5 disconnected\n", MPS_LOG_DISCONNECTED, 5 },
		{ "[x] Client process 5 disconnected", -1, 0 }, /* it has no end yet */
		{ "[x]Client process 5 disconnected\n", -1, 0 },
		{ "x] Client process 5 disconnected\n", -1, 0 },
		{ "[] Client process 5 disconnected\r\n", MPS_LOG_DISCONNECTED, 5 },
		{ "[x] Client process  5 disconnected\n", -1, 0 },
		{ "[x] Client process 0 disconnected\n", -1, 0 },
		{ "[x] Client process disconnected\n", -1, 0 },
		{ "[x] the Client process 5 disconnected\n", -1, 0 },
		{ "[x] Client {PID: 5, Context ID: 0} connected\n", MPS_LOG_CONNECTED, 5 },
		{ "[x] Client {PID: 5, Context ID: 1} connected\n", -1, 0 },
		{ "[x] Client {PID: 5, Context ID: 0} connected", -1, 0 },
		{ "[x] Client {PID: 5, Context ID: 7} encountered a fatal GPU error.\n",
			MPS_LOG_NAMED, 5 },
		{ "[x] Client {PID: 5, Context encountered a fatal GPU error.\n", MPS_LOG_NAMED,
			5 },
		{ "[x] Client {PID: 5, Context ID: 7} encountered nothing\n", -1, 0 },
		{ "[x] Server 5 exited with status 1\n", MPS_LOG_SERVER_DIED, 5 },
		{ "[x] Server 0 exited with status 1\n", -1, 0 },
		{ "[x] Unable to bind\n", MPS_LOG_COMPLAINT, 0 },
		{ "[x] Insufficient privileges for that\n", MPS_LOG_COMPLAINT, 0 },
		{ "[x] unable to bind\n", -1, 0 },
		{ "[x] 5\n", -1, 0 }, /* of no list */
		{ "[x] \n", -1, 0 },
		{ "\n", -1, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct heard h = { .n = 0 };
		struct mps_log l;

		mps_log_init(&l);
		mps_log_feed(&l, rows[i].line, strlen(rows[i].line), on_event, &h);
		mps_log_fini(&l);
		if (h.n != (rows[i].kind >= 0) ||
			(h.n && ((int)h.kind != rows[i].kind || h.pid != rows[i].pid)))
			fail_msg("'%s': %u events, kind %d, process %u", rows[i].line, h.n,
				(int)h.kind, h.pid);
	}
}

static void mps_log_feed__survives_arbitrary_bytes(void **state)
{
	uint64_t seed = 7;
	struct heard h = { .n = 0 };
	struct mps_log l;
	char piece[512];

	(void)state;
	mps_log_init(&l);
	for (int round = 0; round < 200; round++) {
		size_t n = fixture_random(&seed) % sizeof(piece);

		for (size_t i = 0; i < n; i++)
			piece[i] = (char)fixture_random(&seed);
		mps_log_feed(&l, piece, n, on_event, &h);
	}
	h.n = 0;
	mps_log_feed(&l, "\n[x] NEW SERVER 5: Ready\n", 25, on_event, &h);
	assert_int_equal(h.n, 1);
	assert_int_equal(h.kind, MPS_LOG_SERVER_READY);
	mps_log_fini(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		MPS_TEST(mps_lock_find_owner__accepts_the_pid_of_a_running_process),
		cmocka_unit_test(mps_process__that_is_a_zombie_is_not_alive),
		MPS_TEST(mps_lock_take__removes_files_of_the_last_daemon),
		MPS_TEST(mps_lock_take__locks_the_existing_file),
		MPS_TEST(mps_lock_drop__does_not_wait_for_the_lock),
		MPS_TEST(mps_lock__follows_no_link),
		MPS_TEST(mps_daemon_dir_make__refuses_directories_that_others_may_write_to),
		MPS_TEST(mps_daemon_dirs_find__lists_directories_with_a_daemon_json),
		MPS_TEST(mps_daemon_dir_load__accepts_valid_files_only),
		MPS_TEST(mps_root_save__saves_each_root_once),
		MPS_TEST(mps_control_find__searches_path_and_then_the_driver_root),
		MPS_TEST(mps_command_run__reports_why_there_is_no_answer),
		MPS_TEST(mps_command_stop__calls_back_no_more),
		cmocka_unit_test(mps_pid__accepts_pids_only),
		cmocka_unit_test(mps_log_feed__parses_complete_known_lines),
		cmocka_unit_test(mps_log_feed__survives_arbitrary_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
