/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/temp-dir.h"

#include "lib/base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	(void)remove(path);
	return 0;
}

void tree_remove(const char *dir)
{
	(void)nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

/* Another user's directory could change during the walk, and lead root's remove() elsewhere. */
static bool is_own_temp_dir(const char *dir)
{
	struct stat st;

	return lstat(dir, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid();
}

static void remove_stale(const char *base, const char *prefix)
{
	DIR *dir = opendir(base);
	struct dirent *e;

	while (dir && (e = readdir(dir))) {
		char path[PATH_MAX], lock[PATH_MAX];
		CLEANUP(closep) int fd = -1;

		if (strncmp(e->d_name, prefix, strlen(prefix)) != 0 ||
			path_join(path, sizeof(path), base, e->d_name, NULL) < 0 ||
			path_join(lock, sizeof(lock), path, "lock", NULL) < 0 ||
			!is_own_temp_dir(path))
			continue;
		fd = open(lock, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
		if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
			tree_remove(path);
	}
	if (dir)
		(void)closedir(dir);
}

/* Other commands search for the name "lock": it appears only after the lock is taken. */
static int lock_dir(struct temp_dir *d, struct error *err)
{
	char made[PATH_MAX], lock[PATH_MAX];

	if (path_join(made, sizeof(made), d->path, "lock.new", err) < 0 ||
		path_join(lock, sizeof(lock), d->path, "lock", err) < 0)
		return -1;
	d->lock_fd = open(made, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (d->lock_fd < 0 || flock(d->lock_fd, LOCK_EX | LOCK_NB) < 0 ||
		rename(made, lock) < 0)
		return error_sys(err, errno, "lock '%s'", lock);
	return 0;
}

int temp_dir_make(struct temp_dir *d, const char *prefix, size_t base_max, struct error *err)
{
	const char *base = getenv("TMPDIR");
	char name[64];

	*d = (struct temp_dir)TEMP_DIR_INIT;
	if (!base || *base != '/' || strlen(base) > base_max)
		base = "/tmp";
	remove_stale(base, prefix);
	(void)snprintf(name, sizeof(name), "%sXXXXXX", prefix);
	if (path_join(d->path, sizeof(d->path), base, name, err) < 0) {
		*d->path = '\0';
		return -1;
	}
	if (!mkdtemp(d->path)) {
		int sys = errno;

		*d->path = '\0';
		return error_sys(err, sys, "make a directory in '%s'", base);
	}
	if (lock_dir(d, err) < 0) {
		temp_dir_remove(d);
		return -1;
	}
	return 0;
}

void temp_dir_remove(struct temp_dir *d)
{
	if (*d->path)
		tree_remove(d->path);
	closep(&d->lock_fd);
	*d->path = '\0';
}
