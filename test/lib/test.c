/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/test.h"

#include <ftw.h>
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
