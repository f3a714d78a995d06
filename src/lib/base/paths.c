/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/paths.h"

#include "lib/base/fd.h"
#include "lib/base/time.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- helper programs --- */

static bool find_libexec_in(char ret[PATH_MAX], const char *dir, const char *below,
	const char *name)
{
	int len = snprintf(ret, PATH_MAX, "%s/%s%s%s", dir, below, *below ? "/" : "", name);

	return len > 0 && len < PATH_MAX && access(ret, X_OK) == 0;
}

int libexec_find(char ret[PATH_MAX], const char *name, const char *build_dir, struct error *err)
{
	const char *libexec = getenv("GPUSLICE_LIBEXEC");
	char exe[PATH_MAX], beside[PATH_MAX], *slash;
	ssize_t len = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	if (libexec && *libexec && find_libexec_in(ret, libexec, "", name))
		return 0;
	exe[len > 0 ? len : 0] = '\0';
	slash = strrchr(exe, '/');
	if (slash)
		*slash = '\0';
	(void)snprintf(beside, sizeof(beside), "../../%.200s", build_dir);
	if (slash && (find_libexec_in(ret, exe, "../libexec/gpuslice", name) ||
			     find_libexec_in(ret, exe, beside, name)))
		return 0;
	if (find_libexec_in(ret, GPUSLICE_LIBEXECDIR, "", name))
		return 0;
	return error_set(err, ERR_NOT_FOUND,
		"no program %s in ../libexec/gpuslice beside this one or in %s", name,
		GPUSLICE_LIBEXECDIR);
}

/* --- paths below a root --- */

int root_join(char *ret, size_t cap, const char *root, const char *path, struct error *err)
{
	size_t len = strlen(root);
	int n;

	while (len && root[len - 1] == '/')
		len--;
	n = snprintf(ret, cap, "%.*s%s", (int)len, root, path);
	if (len > INT_MAX || n < 0 || (size_t)n >= cap)
		return error_set(err, ERR_LIMIT, "'%.60s%.60s' is longer than %zu bytes", root,
			path, cap - 1);
	return 0;
}

struct root_walk {
	const char *root;
	char done[PATH_MAX]; /* without links; "" is the root itself */
	char rest[PATH_MAX];
	unsigned links;
	struct stat st; /* of .done */
};

static void strip_root_component(struct root_walk *w)
{
	char *slash = strrchr(w->done, '/');

	if (slash)
		*slash = '\0';
}

/* Replaces the link's name in the rest of the path with the link's text. */
static int follow_root_link(struct root_walk *w, const char *at, struct error *err)
{
	char text[PATH_MAX], rest[PATH_MAX];
	ssize_t len = readlink(at, text, sizeof(text) - 1);
	int n;

	if (len < 0)
		return error_sys(err, errno, "read the link '%s'", at);
	text[len] = '\0';
	if (++w->links > ROOT_LINKS_MAX)
		return error_set(err, ERR_LIMIT, "'%s': more than %d links", at,
			ROOT_LINKS_MAX);
	n = snprintf(rest, sizeof(rest), "%s/%s", text, w->rest);
	if (n < 0 || (size_t)n >= sizeof(rest))
		return error_set(err, ERR_LIMIT, "'%s': the path is too long", at);
	memcpy(w->rest, rest, (size_t)n + 1);
	if (text[0] == '/')
		w->done[0] = '\0';
	else
		strip_root_component(w);
	return 0;
}

static int resolve_path_component(struct root_walk *w, const char *name, size_t len,
	struct error *err)
{
	size_t done = strlen(w->done);
	char at[PATH_MAX];

	if (len == 0 || (len == 1 && name[0] == '.'))
		return 0;
	if (len == 2 && name[0] == '.' && name[1] == '.') {
		strip_root_component(w);
		return 0;
	}
	if (done + 1 + len >= sizeof(w->done))
		return error_set(err, ERR_LIMIT, "'%s%.60s': the path is too long", w->root,
			w->done);
	w->done[done] = '/';
	memcpy(w->done + done + 1, name, len);
	w->done[done + 1 + len] = '\0';
	if (root_join(at, sizeof(at), w->root, w->done, err) < 0)
		return -1;
	if (lstat(at, &w->st) < 0)
		return error_sys(err, errno, "'%s'", at);
	return S_ISLNK(w->st.st_mode) ? follow_root_link(w, at, err) : 0;
}

int root_resolve(char *ret, size_t cap, const char *root, const char *path, struct stat *st,
	struct error *err)
{
	struct root_walk w = { .root = root };
	size_t len = strlen(path);
	char name[NAME_MAX + 1], at[PATH_MAX];

	if (len >= sizeof(w.rest))
		return error_set(err, ERR_LIMIT, "'%.60s': the path is too long", path);
	memcpy(w.rest, path, len + 1);
	while (*w.rest) {
		len = strcspn(w.rest, "/");
		if (len >= sizeof(name))
			return error_set(err, ERR_LIMIT, "'%.60s': a name is too long", w.rest);
		memcpy(name, w.rest, len);
		memmove(w.rest, w.rest + len + (w.rest[len] == '/'),
			strlen(w.rest + len + (w.rest[len] == '/')) + 1);
		if (resolve_path_component(&w, name, len, err) < 0)
			return -1;
	}
	/* Again: the last step may have been "..". */
	if (root_join(at, sizeof(at), root, *w.done ? w.done : "/", err) < 0)
		return -1;
	if (lstat(at, &w.st) < 0)
		return error_sys(err, errno, "'%s'", at);
	if (snprintf(ret, cap, "%s", *w.done ? w.done : "/") >= (int)cap)
		return error_set(err, ERR_LIMIT, "'%s' is longer than %zu bytes", w.done,
			cap - 1);
	if (st)
		*st = w.st;
	return 0;
}

int root_list(struct strv *ret, const char *root, const char *path, const char *pattern,
	struct error *err)
{
	char real[PATH_MAX], at[PATH_MAX];
	const struct dirent *e;
	int r = 0;
	DIR *dir;

	if (root_resolve(real, sizeof(real), root, path, NULL, NULL) < 0 ||
		root_join(at, sizeof(at), root, real, NULL) < 0)
		return 0;
	dir = opendir(at);
	if (!dir)
		return 0;
	while (r == 0 && (e = readdir(dir)))
		if (fnmatch(pattern, e->d_name, FNM_PERIOD) == 0)
			r = strv_add(ret, e->d_name, err);
	(void)closedir(dir);
	if (r == 0)
		strv_sort(ret);
	return r;
}

/* --- a directory for one command --- */

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

/* --- whether a file is still the one that was read --- */

static uint64_t to_ns(struct timespec t)
{
	return (uint64_t)t.tv_sec * NS_PER_SEC + (uint64_t)t.tv_nsec;
}

struct file_stamp file_stamp_of(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return (struct file_stamp){ .dev = 0 };
	return (struct file_stamp){ .dev = st.st_dev,
		.ino = st.st_ino,
		.size = (uint64_t)st.st_size,
		.mtime_ns = to_ns(st.st_mtim),
		.ctime_ns = to_ns(st.st_ctim) };
}

bool file_stamp_same(const struct file_stamp *a, const struct file_stamp *b)
{
	return a->dev == b->dev && a->ino == b->ino && a->size == b->size &&
	       a->mtime_ns == b->mtime_ns && a->ctime_ns == b->ctime_ns;
}
