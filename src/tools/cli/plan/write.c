/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/plan/write.h"

#include "lib/base/fd.h"
#include "lib/base/temp-dir.h"
#include "tools/cli/plan/proof.h"
#include "tools/plan/make/make.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* No fsync: no other process uses the directory before rename() puts it in place with all files. */
static int write_plan_file(const char *path, const struct buf *text, struct error *err)
{
	CLEANUP(closep)
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	if (fd < 0)
		return error_sys(err, errno, "--write: %s", path);
	if (fd_write_all(fd, buf_str(text), text->len, err) < 0)
		return error_prefix(err, "--write: %s", path);
	return 0;
}

static int write_plan_files(const struct make_files *files, const char *dir, struct error *err)
{
	char path[PATH_MAX];

	if (path_join(path, sizeof(path), dir, "patches", err) < 0 ||
		dir_make(path, 0755, err) < 0)
		return -1;
	for (size_t i = 0; i < files->n; i++) {
		const struct make_file *f = &files->v[i];

		if (path_join(path, sizeof(path), dir, f->path, err) < 0 ||
			write_plan_file(path, &f->text, err) < 0)
			return -1;
	}
	return 0;
}

/* Replaces an empty or missing directory @dir by @temp. */
static int replace_plan_dir(const char *temp, const char *dir, struct error *err)
{
	if (rename(temp, dir) == 0)
		return 0;
	if (errno == ENOTEMPTY || errno == EEXIST)
		return error_set(err, ERR_EXISTS,
			"--write: %s: expected an empty directory or none, found files in it",
			dir);
	if (errno == ENOTDIR)
		return error_set(err, ERR_EXISTS,
			"--write: %s: expected an empty directory or none, found a file", dir);
	if (errno == EBUSY)
		return error_set(err, ERR_INVALID,
			"--write: %s: expected a directory that can be put in place, found one in use",
			dir);
	return error_sys(err, errno, "--write: %s", dir);
}

static int write_dir(const struct make_files *files, const char *dir, struct error *err)
{
	char temp[PATH_MAX];
	size_t len = strlen(dir);
	int got;

	while (len > 1 && dir[len - 1] == '/')
		len--;
	if (len + sizeof(".XXXXXX") > sizeof(temp))
		return error_set(err, ERR_LIMIT, "--write: the path is too long");
	(void)snprintf(temp, sizeof(temp), "%.*s.XXXXXX", (int)len, dir);
	if (!mkdtemp(temp))
		return error_sys(err, errno, "--write: %s", temp);
	got = chmod(temp, 0755) < 0 ? error_sys(err, errno, "--write: %s", temp)
				    : write_plan_files(files, temp, err);
	if (got == 0)
		got = replace_plan_dir(temp, dir, err);
	if (got < 0)
		tree_remove(temp);
	return got;
}

int plan_write(const struct plan_answer *a, const char *dir, struct error *err)
{
	CLEANUP(pools_freep) struct pools *pools = NULL;
	CLEANUP(make_files_fini) struct make_files files = { .v = NULL };

	/* A finding, as without --write: plan_run() returns the exit status. */
	if (a->plan.n_unplaced) {
		(void)fputs("--write: not all workloads have a place, so nothing is written\n",
			stderr);
		return 0;
	}
	if (pools_new(&pools, a, err) < 0 || make_plan_files(&files, pools, err) < 0)
		return -1;
	if (plan_prove(&files, pools, err) < 0 || write_dir(&files, dir, err) < 0)
		return -1;
	for (size_t i = 0; i < pools->n_notes; i++)
		(void)fprintf(stderr, "warning: %s\n", pools->notes[i].text);
	(void)fprintf(stderr, "%zu files are in %s; begin with %s/00-README.md\n", files.n, dir,
		dir);
	return 0;
}
