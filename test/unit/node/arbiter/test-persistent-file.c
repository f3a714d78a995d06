/* SPDX-License-Identifier: Apache-2.0 */

/* Files that are kept for the next arbiter. */
#include "support/test.h"

#include "node/arbiter/persistent-file.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define HEAD  UINT32_C(8192)
#define BYTES (UINT32_C(64) << 20)

struct env {
	char *dir;
	char path[128];
};

static int setup(void **state)
{
	struct env *e = calloc(1, sizeof(*e));

	assert_non_null(e);
	e->dir = test_tmpdir();
	(void)snprintf(e->path, sizeof(e->path), "%s/kept", e->dir);
	*state = e;
	return 0;
}

static int teardown(void **state)
{
	struct env *e = *state;

	test_rmdir(e->dir);
	free(e);
	return 0;
}

static struct persistent_file open_persistent_file(const struct env *e, size_t bytes)
{
	struct error err = ERROR_INIT;
	struct persistent_file f;

	assert_ok(persistent_file_open(&f, e->path, bytes, HEAD, false, &err), &err);
	return f;
}

static void persistent_file__keeps_its_content(void **state)
{
	struct env *e = *state;
	struct persistent_file f = open_persistent_file(e, BYTES);
	struct error err = ERROR_INIT;
	struct stat st;
	char *at = f.head;

	assert_int_equal(at[0], 0);
	assert_true(persistent_file_reserve(&f, BYTES / 2, 1));
	at[1] = 'a';
	at[BYTES / 2] = 'b';
	persistent_file_close(&f);
	persistent_file_close(&f); /* nothing */
	f = open_persistent_file(e, BYTES);
	at = f.head;
	assert_int_equal(at[1], 'a');
	assert_int_equal(at[BYTES / 2], 'b');
	/* Unused records take no memory. */
	assert_int_equal(stat(e->path, &st), 0);
	assert_int_equal(st.st_size, BYTES);
	assert_true(st.st_blocks * 512 < BYTES / 4);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_ok(persistent_file_clear(&f, e->path, &err), &err);
	assert_int_equal(at[1], 0);
	assert_int_equal(at[BYTES / 2], 0);
	persistent_file_close(&f);
}

static void persistent_file__of_another_size_is_zero(void **state)
{
	struct env *e = *state;
	struct persistent_file f = open_persistent_file(e, BYTES);

	memset(f.head, 'x', HEAD);
	persistent_file_close(&f);
	f = open_persistent_file(e, BYTES / 2);
	assert_int_equal(*(char *)f.head, 0);
	persistent_file_close(&f);
}

static void persistent_file__belongs_to_one_process(void **state)
{
	struct env *e = *state;
	struct error err = ERROR_INIT;
	struct persistent_file f, other;

	assert_ok(persistent_file_open(&f, e->path, BYTES, HEAD, true, &err), &err);
	memset(f.head, 'x', HEAD);
	/* The file is locked also for an opener that expects another size. */
	assert_error(persistent_file_open(&other, e->path, HEAD, HEAD, true, &err), &err,
		"another arbiter has this directory");
	assert_int_equal(err.code, ERR_EXISTS);
	assert_null(other.head);
	assert_int_equal(*(char *)f.head, 'x');
	persistent_file_close(&f);
	error_clear(&err);
	assert_ok(persistent_file_open(&other, e->path, BYTES, HEAD, true, &err), &err);
	persistent_file_close(&other);
}

static void persistent_file__reports_why_it_cannot_be_opened(void **state)
{
	struct env *e = *state;
	struct error err = ERROR_INIT;
	struct persistent_file f;
	char path[160];

	(void)snprintf(path, sizeof(path), "%s/none/kept", e->dir);
	assert_error(persistent_file_open(&f, path, BYTES, HEAD, true, &err), &err,
		"none/kept");
	/* The arbiter never opens the file through a link. */
	test_write(e->dir, "other", "keep", 4, 0600);
	(void)snprintf(path, sizeof(path), "%s/other", e->dir);
	assert_int_equal(symlink(path, e->path), 0);
	assert_error(persistent_file_open(&f, e->path, BYTES, HEAD, true, &err), &err,
		"/kept'");
	assert_int_equal(unlink(e->path), 0);
}

static bool write_proc(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		(void)close(fd);
	return ok;
}

/* An ordinary user is in a user namespace then, and needs ids there to make files. */
static bool own_mounts(void)
{
	unsigned uid = geteuid(), gid = getegid();
	char uids[32], gids[32];

	if (unshare(CLONE_NEWNS) == 0)
		return true;
	(void)snprintf(uids, sizeof(uids), "0 %u 1", uid);
	(void)snprintf(gids, sizeof(gids), "0 %u 1", gid);
	return unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 &&
	       write_proc("/proc/self/setgroups", "deny") &&
	       write_proc("/proc/self/uid_map", uids) && write_proc("/proc/self/gid_map", gids);
}

/* 0: success; 77: this machine allows no mounts; else the step that failed. */
static int fill_file_system(const struct env *e)
{
	struct error err = ERROR_INIT;
	struct persistent_file f;
	size_t at = HEAD, step = 65536;
	char more[160];

	if (!own_mounts() || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		mount("none", e->dir, "tmpfs", 0, "size=1m") < 0)
		return 77;
	if (persistent_file_open(&f, e->path, BYTES, HEAD, true, &err) < 0)
		return 1;
	for (; persistent_file_reserve(&f, at, step); at += step)
		memset((char *)f.head + at, 'x', step);
	if (at == HEAD || at > 1 << 20)
		return 2;
	*(char *)f.head = 'y'; /* the head has its room */
	persistent_file_close(&f);
	/* A head that finds none is an error and not a signal. */
	(void)snprintf(more, sizeof(more), "%s/more", e->dir);
	if (persistent_file_open(&f, more, BYTES, 4 * step, true, &err) == 0 ||
		!strstr(err.msg, "room for"))
		return 3;
	return 0;
}

static void persistent_file__survives_a_full_file_system(void **state)
{
	const struct env *e = *state;
	int status = -1;
	pid_t pid = fork();

	if (!pid)
		_exit(fill_file_system(e));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	SKIP_UNLESS(WEXITSTATUS(status) != 77, "no mounts here");
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(persistent_file__keeps_its_content, setup,
			teardown),
		cmocka_unit_test_setup_teardown(persistent_file__of_another_size_is_zero, setup,
			teardown),
		cmocka_unit_test_setup_teardown(persistent_file__belongs_to_one_process, setup,
			teardown),
		cmocka_unit_test_setup_teardown(
			persistent_file__reports_why_it_cannot_be_opened, setup, teardown),
		cmocka_unit_test_setup_teardown(persistent_file__survives_a_full_file_system,
			setup, teardown),
	};

	return cmocka_run_group_tests_name("persistent-file", tests, NULL, NULL);
}
