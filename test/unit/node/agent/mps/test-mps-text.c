/* SPDX-License-Identifier: Apache-2.0 */

/* What the agent understands of MPS's text: the daemon's log, its answers, the identity of a client. */
#include "support/test.h"

#include "node/agent/mps/clients.h"
#include "node/agent/mps/command.h"
#include "node/agent/mps/log.h"
#include "node/agent/mps/daemon-dir.h"
#include "lib/base/fd.h"
#include "lib/base/time.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATIENT_NS (60 * NS_PER_SEC)

/* --- the log --- */

struct heard {
	char text[4096];
};

static void on_event(void *arg, const struct mps_log_event *e)
{
	static const char *const names[] = {
		[MPS_LOG_CONNECTED] = "connected",
		[MPS_LOG_DISCONNECTED] = "gone",
		[MPS_LOG_FAULT] = "fault",
		[MPS_LOG_NAMED] = "named",
		[MPS_LOG_CLIENT_FAULTED] = "hit",
		[MPS_LOG_SERVER_READY] = "ready",
		[MPS_LOG_SERVER_ENDED] = "ended",
		[MPS_LOG_SERVER_DIED] = "died",
		[MPS_LOG_COMPLAINT] = "complaint",
	};
	struct heard *h = arg;
	size_t n = strlen(h->text);

	(void)snprintf(h->text + n, sizeof(h->text) - n, "%s %u;", names[e->kind], e->pid);
}

#define AT      "[2026-11-23 17:47:17.605 Server   609] "
#define CONTROL "[2026-11-23 17:47:17.605 Control   474] "

static void assert_log(const char *text, const char *events)
{
	for (size_t piece = 1; piece < 200; piece += 66) {
		struct heard h = { "" };
		size_t len = strlen(text);
		struct mps_log l;

		mps_log_init(&l);
		for (size_t at = 0; at < len; at += piece)
			mps_log_feed(&l, text + at, len - at < piece ? len - at : piece,
				on_event, &h);
		mps_log_fini(&l);
		assert_string_equal(h.text, events);
	}
}

static void log__reports_clients_and_servers(void **state)
{
	(void)state;
	assert_log(AT "Received new client request for {PID: 607, Context ID: 1}\n" AT
		      "Client {PID: 832, Context ID: 0} connected\n" AT
		      "Client {PID: 832, Context ID: 1} connected\n" AT
		      "Client process 832 disconnected\n",
		"connected 832;gone 832;");
	assert_log(CONTROL "NEW SERVER 1015: Ready\n", "ready 1015;");
	assert_log(CONTROL "NEW SERVER x: Ready\n", "");
	assert_log("Client process 832 disconnected\n", ""); /* not behind a date */
	assert_log(CONTROL "Client process 99999999999 disconnected\n", "");
}

static void log__reports_whether_a_server_was_stopped(void **state)
{
	(void)state;
	assert_log(CONTROL "Server 609 exited with status 0\n", "died 609;");
	assert_log(AT "Exiting\n" CONTROL "Server 609 exited with status 0\n", "ended 609;");
	assert_log(AT "Exiting\n" CONTROL "Server 610 exited with status 0\n", "died 610;");
}

/* Measured: an illegal address, where a client is named that did not do it; a trap, where none is. */
static void log__reports_a_fault_and_the_affected_clients(void **state)
{
	(void)state;
	assert_log(AT "Client {PID: 832, Context: 1} encountered a fatal GPU error.\n" AT
		      "Server is handling a fatal GPU error.\n" AT
		      "Client {PID: 832, Context ID: 1} on device 0 to be torn down\n" AT
		      "The following devices will be reset:\n" AT "0\n" AT
		      "The following client process have a sticky error set:\n" AT "832\n" AT
		      "847\n" AT "Client process 831 disconnected\n" AT "848\n",
		"named 832;fault 0;hit 832;hit 847;gone 831;");
	assert_log(AT "Server is handling a fatal GPU error.\n", "fault 0;");
}

static void log__survives_long_lines(void **state)
{
	char text[3 * MPS_LOG_LINE_MAX];

	(void)state;
	memset(text, 'x', sizeof(text));
	memcpy(text + sizeof(text) - 70, "\n" CONTROL "NEW SERVER 5: Ready\n",
		strlen("\n" CONTROL "NEW SERVER 5: Ready\n") + 1);
	assert_log(text, "ready 5;");
}

/* --- answers --- */

static void pids__are_read_one_a_line(void **state)
{
	uint32_t v[2];

	(void)state;
	assert_int_equal(mps_pids_read(v, 2, ""), 0);
	assert_int_equal(mps_pids_read(v, 2, "Server 1 not found\n"), 0);
	assert_int_equal(mps_pids_read(v, 2, "736\n\n12 x\n-5\n737\n738\n"), 2);
	assert_int_equal(v[0], 736);
	assert_int_equal(v[1], 737);
}

/* --- identity of a client --- */

static void environ__is_searched_by_full_names(void **state)
{
	static const char env[] = "XA=no\0A=GPU-1::3\0AA=no\0B=cut";

	(void)state;
	assert_string_equal(mps_environ_find(env, sizeof(env) - 1, "A"), "GPU-1::3");
	assert_null(mps_environ_find(env, sizeof(env) - 1, "B")); /* has no end */
	assert_null(mps_environ_find(env, 0, "A"));
}

static void mps_unanswered__limits_the_rate_of_queries(void **state)
{
	struct mps_unanswered s = { 0 };
	uint64_t now = 7;

	(void)state;
	for (int i = 0; i < MPS_UNANSWERED_MAX; i++) {
		assert_true(mps_unanswered_may_query(&s, now));
		mps_unanswered_count(&s, now);
	}
	assert_false(mps_unanswered_may_query(&s, now));
	now += MPS_UNANSWERED_RETRY_NS - 1;
	assert_false(mps_unanswered_may_query(&s, now));
	now++;
	assert_true(mps_unanswered_may_query(&s, now));
	mps_unanswered_count(&s, now);
	assert_false(mps_unanswered_may_query(&s, now));
	/* A long time without queries does not raise the limit. */
	now += 1000 * MPS_UNANSWERED_RETRY_NS;
	for (int i = 0; i < MPS_UNANSWERED_MAX; i++) {
		assert_true(mps_unanswered_may_query(&s, now));
		mps_unanswered_count(&s, now);
	}
	assert_false(mps_unanswered_may_query(&s, now));
}

static void clients__are_kept_when_they_are_affected(void **state)
{
	struct mps_clients c = { .n = 0 };
	uint32_t self = (uint32_t)getpid(), both[] = { self, 1 };

	(void)state;
	assert_non_null(mps_clients_add(&c, self));
	assert_string_not_equal(mps_clients_find(&c, self)->name, "");
	assert_non_null(mps_clients_add(&c, self)); /* again is nothing new */
	assert_int_equal(mps_clients_count(&c), 1);
	mps_clients_set(&c, both, 2);
	assert_int_equal(mps_clients_count(&c), 2);
	mps_clients_find(&c, self)->faulted = true;
	assert_int_equal(mps_clients_count_faulted(&c), 1);
	mps_clients_remove(&c, self);
	mps_clients_remove(&c, 1);
	mps_clients_remove(&c, 77);
	assert_int_equal(mps_clients_count(&c), 0);
	assert_int_equal(mps_clients_count_faulted(&c), 0);
	assert_non_null(mps_clients_find(&c, self)); /* it is not reported yet */
	/* The table remembers client 1: the client may have been killed in the middle of its work. */
	assert_int_equal(mps_clients_last_disconnected(&c, 0)->pid, 1);
	assert_null(mps_clients_last_disconnected(&c, UINT64_MAX));
	mps_clients_find(&c, 1)->disconnected_ns = 1;
	mps_clients_set(&c, NULL, 0);
	assert_null(mps_clients_find(&c, 1));
	assert_null(mps_clients_last_disconnected(&c, 0));
	mps_clients_fini(&c);
}

static void clients__accept_answers_about_themselves(void **state)
{
	static const struct {
		const char *line;
		bool ok;
		enum mps_identity who;
		const char *pod_uid, *devices;
	} rows[] = {
		{ "1 u GPU-1::3,GPU-1::4", true, MPS_IDENTITY_KNOWN, "u", "GPU-1::3,GPU-1::4" },
		{ "1 - GPU-1::3", true, MPS_IDENTITY_KNOWN, "", "GPU-1::3" },
		{ "1 - -", true, MPS_IDENTITY_KNOWN, "", "" },
		{ "2 u GPU-1::3", true, MPS_IDENTITY_REQUESTED, "", "" }, /* no client */
		{ "1 u", false, MPS_IDENTITY_REQUESTED, "", "" },
		{ "1 u a b", false, MPS_IDENTITY_REQUESTED, "", "" },
		{ "1  a", false, MPS_IDENTITY_REQUESTED, "", "" },
		{ "x u a", false, MPS_IDENTITY_REQUESTED, "", "" },
		{ "4294967296 u a", false, MPS_IDENTITY_REQUESTED, "", "" },
		{ "", false, MPS_IDENTITY_REQUESTED, "", "" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct mps_clients c = { .n = 0 };
		struct error err = ERROR_INIT;
		struct mps_client *m = mps_clients_add(&c, 1);

		assert_ptr_equal(mps_clients_next_unidentified(&c), m);
		m->identity = MPS_IDENTITY_REQUESTED;
		assert_null(mps_clients_next_unidentified(&c));
		if ((mps_clients_answer(&c, rows[i].line, strlen(rows[i].line), &err) == 0) !=
				rows[i].ok ||
			m->identity != rows[i].who ||
			strcmp(m->pod_uid, rows[i].pod_uid) != 0 ||
			strcmp(m->devices, rows[i].devices) != 0)
			fail_msg("'%s': %s", rows[i].line, err.msg);
		mps_clients_fini(&c);
	}
}

static void client__is_found_by_its_device(void **state)
{
	char shop[] = "shop", web[] = "web", container[] = "c", gpu[] = "nvidia.com/gpu";
	char id[] = "GPU-1::3";
	struct pod_device d = { shop, web, container, gpu, id, false };
	const struct pod_devices list = { .v = &d, .n = 1 };
	struct mps_client c = { .pid = 7, .devices = "GPU-1::3,GPU-1::4", .pod_uid = "u" };
	struct event_about a;

	(void)state;
	assert_true(mps_client_pod(&c, &list, &a));
	assert_string_equal(a.namespace_, "shop");
	assert_string_equal(a.pod, "web");
	assert_string_equal(a.uid, "u");
	assert_false(mps_client_pod(&c, NULL, &a));
	(void)snprintf(c.devices, sizeof(c.devices), "GPU-1::33");
	assert_false(mps_client_pod(&c, &list, &a));
	c.devices[0] = '\0';
	assert_false(mps_client_pod(&c, &list, &a));
}

/* --- the place --- */

static void daemon_dir__is_written_and_found_again(void **state)
{
	char root[] = "/tmp/test-mps.XXXXXX", path[PATH_MAX];
	CLEANUP(strv_fini) struct strv keys = STRV_INIT;
	struct error err = ERROR_INIT;
	struct mps_saved_mode mode = { .uuid = "GPU-1", .before = 2 };
	struct mps_daemon_dir dir, q;
	struct stat st;

	(void)state;
	assert_non_null(mkdtemp(root));
	(void)umask(077); /* permissions do not depend on the umask */
	assert_ok(mps_daemon_dir_init(&dir, root, "GPU-1", &err), &err);
	assert_ok(mps_daemon_dir_load(&dir, &err), &err); /* nothing is there */
	assert_int_equal(dir.n_modes, 0);
	assert_ok(mps_daemon_dir_make(&dir, &err), &err);
	assert_int_equal(stat(dir.pipe, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0755);
	assert_int_equal(stat(dir.shm, &st), 0);
	assert_int_equal(st.st_mode & 07777, 01777);
	dir.modes = &mode;
	dir.n_modes = 1;
	assert_ok(strv_add(&dir.devices, "GPU-1", &err), &err);
	assert_ok(strv_add(&dir.devices, "GPU-3", &err), &err);
	assert_ok(mps_daemon_dir_save(&dir, &err), &err);
	assert_ok(mps_daemon_dirs_find(&keys, root, &err), &err);
	assert_int_equal(keys.n, 1);
	assert_string_equal(keys.v[0], "GPU-1");
	assert_ok(mps_daemon_dir_init(&q, root, "GPU-1", &err), &err);
	assert_ok(mps_daemon_dir_load(&q, &err), &err);
	assert_int_equal(q.n_modes, 1);
	assert_string_equal(q.modes[0].uuid, "GPU-1");
	assert_int_equal(q.modes[0].before, 2);
	assert_true(strv_equal(&q.devices, &dir.devices));
	strv_fini(&dir.devices);
	/* Root of a container may put anything there: directories, and links that lead elsewhere. */
	assert_ok(path_join(path, sizeof(path), dir.pipe, "control", &err), &err);
	assert_int_equal(mkdir(path, 0755), 0);
	assert_ok(path_join(path, sizeof(path), dir.pipe, "control/deep", &err), &err);
	assert_int_equal(mkdir(path, 0755), 0);
	assert_ok(path_join(path, sizeof(path), dir.pipe, "link", &err), &err);
	assert_int_equal(symlink(root, path), 0);
	dir_empty(dir.pipe, PATIENT_NS);
	assert_int_equal(rmdir(dir.pipe) | mkdir(dir.pipe, 0755), 0);
	assert_int_equal(access(dir.dir, F_OK), 0);
	/* The state stays while a mode has to be restored; without a mode the pipe directory alone keeps the
	 * directory. */
	assert_int_equal(mps_daemon_dir_clear(&q, &err), -1);
	assert_ok(path_join(path, sizeof(path), q.dir, MPS_STATE, &err), &err);
	assert_int_equal(access(path, F_OK), 0);
	mps_daemon_dir_fini(&q);
	error_clear(&err);
	assert_ok(mps_daemon_dir_clear(&q, &err), &err);
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(access(q.shm, F_OK), -1);
	assert_int_equal(access(q.pipe, F_OK), 0);
	assert_int_equal(rmdir(q.pipe) | rmdir(q.dir) | rmdir(root), 0);
}

/* A tree of @depth levels in each of @n directories of @top, with a link to @elsewhere and a file in each level. */
static void plant_tree(int top, const char *const names[], size_t n, int depth,
	const char *elsewhere)
{
	for (size_t i = 0; i < n; i++) {
		int at = dup(top);

		for (int k = 0; k < depth; k++) {
			const char *name = k ? "x" : names[i];
			int next;

			assert_int_equal(mkdirat(at, name, 0700), 0);
			next = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
			assert_true(next >= 0);
			assert_int_equal(symlinkat(elsewhere, next, "link"), 0);
			assert_int_equal(mknodat(next, "file", S_IFREG | 0600, 0), 0);
			(void)close(at);
			at = next;
		}
		(void)close(at);
	}
}

static size_t count_entries(const char *path)
{
	DIR *d = opendir(path);
	size_t n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	(void)closedir(d);
	return n - 2;
}

static void dir_empty__takes_trees_of_any_depth_and_name(void **state)
{
	static const char *const names[] = { "control", "log", ".gpuslice-old-0",
		".gpuslice-old-1" };
	char dir[] = "/tmp/test-mps.XXXXXX", other[] = "/tmp/test-mps.XXXXXX", path[64];
	int top;

	(void)state;
	assert_non_null(mkdtemp(dir));
	assert_non_null(mkdtemp(other));
	(void)snprintf(path, sizeof(path), "%s/kept", other);
	assert_int_equal(mkdir(path, 0700), 0);
	top = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	plant_tree(top, names, ARRAY_LEN(names), 1000, other);
	dir_empty(dir, PATIENT_NS);
	assert_int_equal(count_entries(dir), 0);
	assert_int_equal(count_entries(other), 1);
	/* The names that a daemon needs are removed first, if the time is too short for all. */
	plant_tree(top, names, 1, 1000, other);
	for (int i = 0; faccessat(top, "control", F_OK, 0) == 0; i++) {
		assert_true(i < 1000);
		dir_empty(dir, NS_PER_MS);
	}
	assert_true(count_entries(dir) >= 1);
	dir_empty(dir, PATIENT_NS);
	(void)close(top);
	assert_int_equal(rmdir(path) | rmdir(other) | rmdir(dir), 0);
}

static void daemon_dir__belongs_to_one_process(void **state)
{
	char root[] = "/tmp/test-mps.XXXXXX";
	struct error err = ERROR_INIT;
	struct mps_daemon_dir dir;

	(void)state;
	assert_non_null(mkdtemp(root));
	assert_ok(mps_daemon_dir_init(&dir, root, "k", &err), &err);
	assert_ok(mps_daemon_dir_make(&dir, &err), &err);
	/* There is no lock without a saved daemon. */
	assert_int_equal(mps_lock_take(dir.dir, &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_int_equal(mps_lock_find_owner(dir.dir).pid, 0);
	error_clear(&err);
	assert_ok(mps_daemon_dir_save(&dir, &err), &err);
	assert_ok(mps_lock_take(dir.dir, &err), &err);
	assert_int_equal(mps_lock_find_owner(dir.dir).pid, getpid());
	/* The lock is refused while its owner runs, even if the owner is this process. */
	assert_int_equal(mps_lock_take(dir.dir, &err), -1);
	assert_int_equal(err.code, ERR_EXISTS);
	error_clear(&err);
	assert_int_equal(mps_lock_drop(dir.dir, &err), -1);
	assert_int_equal(err.code, ERR_EXISTS);
	/* The number alone is not the process. */
	error_clear(&err);
	{
		char path[PATH_MAX], text[32];

		assert_ok(path_join(path, sizeof(path), dir.dir, MPS_PID_FILE, &err), &err);
		(void)snprintf(text, sizeof(text), "%d 1\n", (int)getpid());
		assert_ok(file_write_atomic(path, text, strlen(text), 0644, &err), &err);
	}
	assert_int_equal(mps_lock_find_owner(dir.dir).pid, 0);
	assert_ok(mps_daemon_dir_clear(&dir, &err), &err);
	assert_int_equal(rmdir(dir.pipe) | rmdir(dir.dir) | rmdir(root), 0);
}

static void daemon_dir__of_others_is_refused(void **state)
{
	char root[] = "/tmp/test-mps.XXXXXX", dir[64];
	struct error err = ERROR_INIT;
	struct mps_daemon_dir p;

	(void)state;
	assert_non_null(mkdtemp(root));
	assert_ok(mps_daemon_dir_init(&p, root, "k", &err), &err);
	(void)snprintf(dir, sizeof(dir), "%s/k", root);
	assert_int_equal(symlink("/tmp", dir), 0);
	assert_int_equal(mps_daemon_dir_make(&p, &err), -1);
	assert_non_null(strstr(err.msg, "expected a directory"));
	assert_int_equal(unlink(dir), 0);
	if (geteuid() == 0) {
		assert_int_equal(mkdir(dir, 0755), 0);
		assert_int_equal(chown(dir, 12345, 0), 0);
		error_clear(&err);
		assert_int_equal(mps_daemon_dir_make(&p, &err), -1);
		assert_non_null(strstr(err.msg, "belongs to user 12345"));
		assert_int_equal(rmdir(dir), 0);
	}
	assert_int_equal(rmdir(root), 0);
}

static void daemon_dir__leaves_room_for_socket_names(void **state)
{
	struct error err = ERROR_INIT;
	struct mps_daemon_dir dir;
	char root[101];

	(void)state;
	memset(root, 'r', sizeof(root) - 1);
	root[0] = '/';
	root[sizeof(root) - 1] = '\0';
	assert_int_equal(mps_daemon_dir_init(&dir, root, "GPU-1", &err), -1);
	assert_non_null(strstr(err.msg, "--mps-root"));
	assert_ok(mps_daemon_dir_init(&dir, MPS_DEFAULT_ROOT,
			  "MIG-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77", NULL),
		&err);
}

static void process__is_identified_by_its_start_time(void **state)
{
	(void)state;
	assert_true(mps_process_start_ticks(getpid()) > 0);
	assert_int_equal(mps_process_start_ticks(0), 0);
	assert_int_equal(mps_process_start_ticks(-1), 0);
	assert_int_equal(mps_process_start_ticks(INT32_MAX), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(log__reports_clients_and_servers),
		cmocka_unit_test(log__reports_whether_a_server_was_stopped),
		cmocka_unit_test(log__reports_a_fault_and_the_affected_clients),
		cmocka_unit_test(log__survives_long_lines),
		cmocka_unit_test(pids__are_read_one_a_line),
		cmocka_unit_test(environ__is_searched_by_full_names),
		cmocka_unit_test(mps_unanswered__limits_the_rate_of_queries),
		cmocka_unit_test(clients__are_kept_when_they_are_affected),
		cmocka_unit_test(clients__accept_answers_about_themselves),
		cmocka_unit_test(client__is_found_by_its_device),
		cmocka_unit_test(daemon_dir__is_written_and_found_again),
		cmocka_unit_test(dir_empty__takes_trees_of_any_depth_and_name),
		cmocka_unit_test(daemon_dir__belongs_to_one_process),
		cmocka_unit_test(daemon_dir__of_others_is_refused),
		cmocka_unit_test(daemon_dir__leaves_room_for_socket_names),
		cmocka_unit_test(process__is_identified_by_its_start_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
