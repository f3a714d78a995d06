/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "lib/base/fd.h"

#include <ftw.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

char *test_tmpdir(void)
{
	const char *base = getenv("TMPDIR");
	char *dir = NULL;

	/* Short names: a unix socket path has 107 bytes. */
	if (asprintf(&dir, "%s/gs.XXXXXX", base && strlen(base) < 40 ? base : "/tmp") < 0)
		abort();
	if (!mkdtemp(dir)) {
		perror(dir);
		abort();
	}
	return dir;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	(void)remove(path);
	return 0;
}

void test_rmdir(char *dir)
{
	if (dir)
		(void)nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
	free(dir);
}

void test_write(const char *dir, const char *name, const void *data, size_t len, mode_t mode)
{
	struct error err = ERROR_INIT;
	char path[PATH_MAX], *slash;

	assert_ok(path_join(path, sizeof(path), dir, name, &err), &err);
	slash = strrchr(path, '/');
	*slash = '\0';
	assert_ok(dir_make(path, 0755, &err), &err);
	*slash = '/';
	assert_ok(file_write_atomic(path, data, len, mode, &err), &err);
	assert_int_equal(chmod(path, mode), 0); /* whatever the umask is */
}

char *test_built(char *ret, const char *name)
{
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	assert_true(n > 0);
	self[n] = '\0';
	strrchr(self, '/')[1] = '\0';
	assert_true(snprintf(ret, PATH_MAX, "%s%s", self, name) < PATH_MAX);
	return ret;
}
