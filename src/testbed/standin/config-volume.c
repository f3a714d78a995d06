/* SPDX-License-Identifier: Apache-2.0 */
#include "testbed/standin/config-volume.h"

#include "lib/base/fd.h"
#include "lib/base/time.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define DATA "..data"

static void remove_tree(int dir_fd, const char *name)
{
	CLEANUP(closep)
	int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	DIR *d;
	struct dirent *e;

	if (fd < 0)
		return;
	d = fdopendir(dup(fd));
	while (d && (e = readdir(d))) {
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			(void)unlinkat(fd, e->d_name, 0);
	}
	if (d)
		(void)closedir(d);
	(void)unlinkat(dir_fd, name, AT_REMOVEDIR);
}

/* "..2026_11_21_01_02_03.123456789", the name in pkg/volume/util/atomic_writer.go. */
static void format_volume_stamp(char *ret, size_t cap)
{
	uint64_t now = time_wall_ns();
	time_t seconds = (time_t)(now / NS_PER_SEC);
	struct tm tm = { 0 };

	(void)gmtime_r(&seconds, &tm);
	(void)snprintf(ret, cap, "..%04d_%02d_%02d_%02d_%02d_%02d.%09u", tm.tm_year + 1900,
		tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec,
		(unsigned)(now % NS_PER_SEC));
}

static int write_keys(int dir_fd, const char *name, const struct str_map *data,
	struct error *err)
{
	CLEANUP(closep) int sub = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (sub < 0)
		return error_sys(err, errno, "open '%s'", name);
	for (size_t i = 0; i < data->n; i++) {
		CLEANUP(closep)
		int fd = openat(sub, data->v[i].key,
			O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);

		if (fd < 0)
			return error_sys(err, errno, "create '%s/%s'", name, data->v[i].key);
		if (fd_write_all(fd, data->v[i].value, strlen(data->v[i].value), err) < 0)
			return -1;
	}
	return 0;
}

/* After the swap: removes the links of keys that are gone, and adds the links of new ones. */
static int fix_links(int dir_fd, const struct str_map *data, struct error *err)
{
	DIR *d = fdopendir(dup(dir_fd));
	struct dirent *e;

	if (d)
		rewinddir(d);
	while (d && (e = readdir(d))) {
		struct stat st;

		if (strncmp(e->d_name, "..", 2) == 0 || strcmp(e->d_name, ".") == 0 ||
			str_map_get(data, e->d_name))
			continue;
		if (fstatat(dir_fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
			S_ISLNK(st.st_mode))
			(void)unlinkat(dir_fd, e->d_name, 0);
	}
	if (d)
		(void)closedir(d);
	for (size_t i = 0; i < data->n; i++) {
		char target[NAME_MAX + 16];

		(void)snprintf(target, sizeof(target), DATA "/%s", data->v[i].key);
		if (symlinkat(target, dir_fd, data->v[i].key) < 0 && errno != EEXIST)
			return error_sys(err, errno, "link '%s'", data->v[i].key);
	}
	return 0;
}

int config_volume_write(const char *dir, const struct str_map *data, struct error *err)
{
	CLEANUP(closep) int fd = -1;
	char fresh[64], old[NAME_MAX + 1] = "";
	ssize_t len;

	if (dir_make(dir, 0755, err) < 0)
		return -1;
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return error_sys(err, errno, "open '%s'", dir);
	format_volume_stamp(fresh, sizeof(fresh));
	if (mkdirat(fd, fresh, 0755) < 0)
		return error_sys(err, errno, "mkdir '%s/%s'", dir, fresh);
	len = readlinkat(fd, DATA, old, sizeof(old) - 1);
	old[len > 0 ? len : 0] = '\0';
	if (write_keys(fd, fresh, data, err) < 0) {
		remove_tree(fd, fresh);
		return -1;
	}
	(void)unlinkat(fd, DATA "_tmp", 0);
	if (symlinkat(fresh, fd, DATA "_tmp") < 0 || renameat(fd, DATA "_tmp", fd, DATA) < 0) {
		int sys = errno;

		remove_tree(fd, fresh);
		return error_sys(err, sys, "swap '%s/" DATA "'", dir);
	}
	if (fix_links(fd, data, err) < 0)
		return -1;
	if (strncmp(old, "..", 2) == 0 && !strchr(old, '/'))
		remove_tree(fd, old);
	return 0;
}
