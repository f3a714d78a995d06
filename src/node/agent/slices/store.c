/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/slices/store.h"

#include "abi/slice-dir.h"
#include "lib/base/array.h"
#include "lib/base/fd.h"
#include "lib/base/time.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define NEW_PREFIX ".new-" /* of a directory that is being made or removed */
#define TEMP_MAX   (sizeof(NEW_PREFIX) + SLICE_ID_DIGITS)
#define DIR_MODE   0755 /* the container's user may be any */
#define FILE_MODE  0644
/* Reserved for a file: about 60 devices. This is one block of most file systems, so that Allocate frees none,
 * which is slow. */
#define ROOM 4096
/* In the directory of a slice, after its devices went to a container without a slice. */
#define PASSED ".passed"

static struct stored_slice *free_stored_slice(struct stored_slice *s)
{
	if (s)
		slice_file_fini(&s->file);
	free(s);
	return NULL;
}
DEFINE_CLEANUP(struct stored_slice *, free_stored_slice)

static void drop_ready(struct slice_store *s);

void slice_store_fini(struct slice_store *s)
{
	drop_ready(s);
	for (size_t i = 0; i < s->n; i++)
		(void)free_stored_slice(s->v[i]);
	free(s->v);
	strv_fini(&s->broken);
	*s = (struct slice_store){ .n = 0 };
}

/* --- directories --- */

/* Removes a directory of the slices' directory, with its files. No error if there is none. */
static int remove_slice_dir(const struct slice_store *s, const char *name, struct error *err)
{
	CLEANUP(closep) int parent = open(s->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int fd = parent < 0 ? -1
			    : openat(parent, name,
				      O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	if (!d) {
		if (fd >= 0)
			(void)close(fd);
		return errno == ENOENT ? 0
				       : error_sys(err, errno, "open '%s/%s'", s->dir, name);
	}
	while ((e = readdir(d)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			(void)unlinkat(dirfd(d), e->d_name, 0); /* the rmdir reports failures */
	(void)closedir(d);
	if (unlinkat(parent, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
		return error_sys(err, errno, "remove '%s/%s'", s->dir, name);
	return 0;
}

static int open_slice_file(int dir, const char *name, struct error *err)
{
	CLEANUP(closep)
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, FILE_MODE);

	if (fd < 0)
		return error_sys(err, errno, "make '%s'", name);
	if (fchmod(fd, FILE_MODE) < 0) /* whatever the umask is */
		return error_sys(err, errno, "chmod '%s'", name);
	return steal_fd(&fd);
}

/* Overwrites the file, then truncates it. So it needs no disk space beyond what reserve_file() has reserved. */
static int write_slice_file(int dir, const char *name, const char *text, struct error *err)
{
	CLEANUP(closep) int fd = open_slice_file(dir, name, err);
	size_t len = strlen(text);

	if (fd < 0 || fd_write_all(fd, text, len, err) < 0)
		return -1;
	return ftruncate(fd, (off_t)len) < 0 ? error_sys(err, errno, "truncate '%s'", name) : 0;
}

static int reserve_file(int dir, const char *name, off_t bytes, struct error *err)
{
	CLEANUP(closep) int fd = open_slice_file(dir, name, err);
	int r;

	if (fd < 0 || bytes == 0)
		return fd < 0 ? -1 : 0;
	r = posix_fallocate(fd, 0, bytes);
	return r ? error_sys(err, r, "reserve %lld bytes for '%s'", (long long)bytes, name) : 0;
}

/* Makes a directory with an empty slice.json, and with a file that reserves the inode of its socket. */
static int make_slice_temp_dir(const struct slice_store *s, const char *temp, struct error *err)
{
	CLEANUP(closep) int parent = open(s->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CLEANUP(closep) int dir = -1;

	if (parent < 0)
		return error_sys(err, errno, "open '%s'", s->dir);
	if (mkdirat(parent, temp, DIR_MODE) < 0)
		return error_sys(err, errno, "make '%s/%s'", s->dir, temp);
	dir = openat(parent, temp, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0 || fchmod(dir, DIR_MODE) < 0)
		return error_sys(err, errno, "open '%s/%s'", s->dir, temp);
	if (reserve_file(dir, SLICE_FILE, ROOM, err) < 0 ||
		reserve_file(dir, SLICE_SOCKET_NEW, 0, err) < 0)
		return error_prefix(err, "%s/%s", s->dir, temp);
	return 0;
}

static int make_parents(const struct slice_store *s, struct error *err)
{
	if (access(s->dir, F_OK) == 0)
		return 0;
	if (dir_make(s->state_dir, DIR_MODE, err) < 0)
		return -1;
	return dir_make_exact(s->dir, SLICES_DIR_MODE, err);
}

static void temp_name(char ret[TEMP_MAX], uint32_t number)
{
	(void)snprintf(ret, TEMP_MAX, NEW_PREFIX "%u", number);
}

/* Makes one more spare directory. */
static int make_ready(struct slice_store *s, struct error *err)
{
	char temp[TEMP_MAX];

	temp_name(temp, s->made);
	if (make_parents(s, err) < 0)
		return -1;
	if (make_slice_temp_dir(s, temp, err) < 0) {
		(void)remove_slice_dir(s, temp, NULL);
		return -1;
	}
	s->made++;
	return 0;
}

static void drop_ready(struct slice_store *s)
{
	for (; s->used != s->made; s->used++) {
		char temp[TEMP_MAX];

		temp_name(temp, s->used);
		(void)remove_slice_dir(s, temp, NULL);
	}
}

bool slice_store_prepare(struct slice_store *s, struct error *err)
{
	if (s->made - s->used >= SLICE_SPARES)
		return false;
	return make_ready(s, err) == 0 && s->made - s->used < SLICE_SPARES;
}

/* Whether the next spare directory still exists: an operator may have removed it. */
static bool spare_is_there(const struct slice_store *s)
{
	char temp[TEMP_MAX], path[PATH_MAX];

	temp_name(temp, s->used);
	return path_join(path, sizeof(path), s->dir, temp, NULL) == 0 &&
	       access(path, F_OK) == 0;
}

int slice_store_ready(struct slice_store *s, struct error *err)
{
	if (s->n >= SLICES_MAX)
		return error_set(err, ERR_LIMIT, "there are %d slices on this node already",
			SLICES_MAX);
	while (s->made != s->used && !spare_is_there(s))
		s->used++;
	if (s->made == s->used)
		return make_ready(s, err);
	/* The file system may have become read-only since. */
	return access(s->dir, W_OK) < 0 ? error_sys(err, errno, "write to '%s'", s->dir) : 0;
}

/* Fills the next spare directory and renames it to the slice's ID. */
static int fill_slice_dir(struct slice_store *s, const char *id, const char *text,
	struct error *err)
{
	CLEANUP(closep) int parent = open(s->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CLEANUP(closep) int dir = -1;
	char temp[TEMP_MAX];

	temp_name(temp, s->used);
	dir = parent < 0
		      ? -1
		      : openat(parent, temp, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		(void)error_sys(err, errno, "open '%s/%s'", s->dir, temp);
	else if (write_slice_file(dir, SLICE_FILE, text, err) < 0)
		(void)error_prefix(err, "%s/%s", s->dir, temp);
	else if (renameat(parent, temp, parent, id) < 0)
		(void)error_sys(err, errno, "rename '%s/%s'", s->dir, temp);
	else {
		s->used++;
		return 0;
	}
	/* Filling the other spare directories would fail too. slice_store_ready() finds out whether new ones can
	 * be made. */
	drop_ready(s);
	return -1;
}

int slice_store_path(const struct slice_store *s, const struct stored_slice *slice, char *ret,
	struct error *err)
{
	return path_join(ret, PATH_MAX, s->dir, slice->file.id, err);
}

/* --- load --- */

static int append_slice(struct slice_store *s, struct stored_slice *slice, struct error *err)
{
	if (!ARRAY_GROW(&s->v, s->n, &s->room, ARRAY_NO_LIMIT))
		return error_nomem(err);
	s->v[s->n++] = slice;
	return 0;
}

static int read_slice(const struct slice_store *s, const char *id, struct slice_file *ret,
	struct error *err)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(SLICE_FILE_MAX);
	char path[PATH_MAX], name[SLICE_ID_DIGITS + sizeof(SLICE_FILE) + 1];

	(void)snprintf(name, sizeof(name), "%s/" SLICE_FILE, id);
	if (path_join(path, sizeof(path), s->dir, name, err) < 0 ||
		file_read(path, &b, err) < 0)
		return -1;
	if (slice_file_parse(ret, buf_str(&b), b.len, err) < 0)
		return error_prefix(err, "%s", path);
	if (strcmp(ret->id, id) == 0)
		return 0;
	slice_file_fini(ret);
	return error_set(err, ERR_INVALID, "%s: the id is not that of its directory", path);
}

/* Whether slice_store_pass() has marked the slice. */
static bool is_passed(const struct slice_store *s, const char *id)
{
	char path[PATH_MAX], name[SLICE_ID_DIGITS + sizeof(PASSED) + 1];

	(void)snprintf(name, sizeof(name), "%s/" PASSED, id);
	return path_join(path, sizeof(path), s->dir, name, NULL) == 0 &&
	       access(path, F_OK) == 0;
}

static int load_one(struct slice_store *s, const char *name, struct error *err)
{
	CLEANUP(free_stored_slicep) struct stored_slice *slice = NULL;
	struct error why = ERROR_INIT;

	if (!strncmp(name, NEW_PREFIX, strlen(NEW_PREFIX))) {
		(void)remove_slice_dir(s, name, &why); /* the next start tries again */
		return 0;
	}
	if (!slice_id_ok(name))
		return 0;
	slice = calloc(1, sizeof(*slice));
	if (!slice)
		return error_nomem(err);
	if (read_slice(s, name, &slice->file, &why) < 0) {
		if (why.code == ERR_NOMEM)
			return error_nomem(err);
		return strv_add(&s->broken, why.msg, err);
	}
	if (is_passed(s, name)) {
		slice->superseded = true;
		slice->superseded_ns = time_mono_ns();
	}
	if (append_slice(s, slice, err) < 0)
		return -1;
	(void)STEAL_PTR(slice);
	return 0;
}

static int by_age(const void *a, const void *b)
{
	const struct slice_file *x = &(*(struct stored_slice *const *)a)->file,
				*y = &(*(struct stored_slice *const *)b)->file;

	if (x->created_s != y->created_s)
		return x->created_s < y->created_s ? -1 : 1;
	return strcmp(x->id, y->id);
}

static void supersede_slices(struct slice_store *s, const struct stored_slice *by,
	uint64_t now_ns);

/* Sorts by age, then marks the slices that later ones supersede. */
static void sort_slices(struct slice_store *s)
{
	uint64_t now = time_mono_ns();

	if (s->n > 1)
		qsort(s->v, s->n, sizeof(struct stored_slice *), by_age);
	for (size_t i = 1; i < s->n; i++)
		supersede_slices(s, s->v[i], now);
}

int slice_store_load(struct slice_store *s, const char *state_dir, struct error *err)
{
	struct dirent *e;
	DIR *d;
	int r = 0;

	*s = (struct slice_store){ .n = 0 };
	if (state_dir[0] != '/' || strlen(state_dir) >= sizeof(s->state_dir))
		return error_set(err, ERR_INVALID,
			"--state-dir: expected an absolute path, as the host has it, found '%.200s'",
			state_dir);
	memcpy(s->state_dir, state_dir, strlen(state_dir) + 1);
	if (path_join(s->dir, sizeof(s->dir), state_dir, SLICES_DIR, err) < 0)
		return -1;
	if (access(s->dir, F_OK) < 0 && errno == ENOENT)
		return 0;
	/* The directory may exist with another mode. */
	if (dir_make_exact(s->dir, SLICES_DIR_MODE, err) < 0)
		return -1;
	d = opendir(s->dir);
	if (!d)
		return error_sys(err, errno, "open '%s'", s->dir);
	while (r == 0 && (errno = 0, e = readdir(d)))
		r = load_one(s, e->d_name, err);
	if (r == 0 && errno != 0)
		r = error_sys(err, errno, "read '%s'", s->dir);
	(void)closedir(d);
	if (r == 0)
		sort_slices(s);
	return r;
}

/* --- changes --- */

static int new_id(char ret[SLICE_ID_DIGITS + 1], struct error *err)
{
	static const char digits[] = "0123456789abcdef";
	unsigned char bits[SLICE_ID_DIGITS / 2];

	if (getrandom(bits, sizeof(bits), 0) != (ssize_t)sizeof(bits))
		return error_sys(err, errno, "random bits for a slice");
	for (size_t i = 0; i < sizeof(bits); i++) {
		ret[2 * i] = digits[bits[i] >> 4];
		ret[2 * i + 1] = digits[bits[i] & 15];
	}
	ret[SLICE_ID_DIGITS] = '\0';
	return 0;
}

/* Whether a slice that is not superseded yet has any of the devices. */
static bool has_any(const struct stored_slice *s, const char *resource, const char *const *ids,
	size_t n)
{
	if (s->superseded || strcmp(s->file.resource, resource) != 0)
		return false;
	for (size_t i = 0; i < n; i++)
		if (strv_has(&s->file.devices, ids[i]))
			return true;
	return false;
}

static void supersede_slices(struct slice_store *s, const struct stored_slice *by,
	uint64_t now_ns)
{
	for (size_t i = 0; i < s->n; i++) {
		struct stored_slice *old = s->v[i];

		if (old == by || by->file.created_s < old->file.created_s + SLICE_SIBLING_S ||
			!has_any(old, by->file.resource,
				(const char *const *)by->file.devices.v, by->file.devices.n))
			continue;
		old->superseded = true;
		old->superseded_ns = now_ns;
	}
}

void slice_store_pass(struct slice_store *s, const char *resource, const char *const *ids,
	size_t n_ids, uint64_t now_ns)
{
	for (size_t i = 0; i < s->n; i++) {
		struct stored_slice *old = s->v[i];
		char path[PATH_MAX];

		if (!has_any(old, resource, ids, n_ids))
			continue;
		old->superseded = true;
		old->superseded_ns = now_ns;
		if (slice_store_path(s, old, path, NULL) == 0) {
			CLEANUP(closep)
			int dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

			if (dir >= 0)
				(void)write_slice_file(dir, PASSED, "", NULL);
		}
	}
}

static int fill_slice_file(struct slice_file *f, const char *resource, const char *const *ids,
	size_t n_ids, const struct slice_plan *plan, const char *lib, uint64_t wall_s,
	struct error *err)
{
	(void)snprintf(f->resource, sizeof(f->resource), "%s", resource);
	(void)snprintf(f->lib, sizeof(f->lib), "%s", lib);
	f->plan = *plan;
	f->created_s = wall_s;
	for (size_t i = 0; i < n_ids; i++)
		if (strv_add(&f->devices, ids[i], err) < 0)
			return -1;
	return new_id(f->id, err);
}

int slice_store_add(struct slice_store *s, struct stored_slice **ret, const char *resource,
	const char *const *ids, size_t n_ids, const struct slice_plan *plan, const char *lib,
	uint64_t now_ns, uint64_t wall_s, struct error *err)
{
	CLEANUP(free_stored_slicep) struct stored_slice *slice = calloc(1, sizeof(*slice));
	CLEANUP(freep) char *text = NULL;

	if (!slice)
		return error_nomem(err);
	if (slice_store_ready(s, err) < 0)
		return -1;
	if (fill_slice_file(&slice->file, resource, ids, n_ids, plan, lib, wall_s, err) < 0)
		return -1;
	text = slice_file_text(&slice->file);
	if (!text)
		return error_nomem(err);
	if (append_slice(s, slice, err) < 0)
		return -1;
	if (fill_slice_dir(s, slice->file.id, text, err) < 0) {
		s->n--;
		return -1;
	}
	*ret = STEAL_PTR(slice);
	supersede_slices(s, *ret, now_ns);
	return 0;
}

int slice_store_change(struct slice_store *s, struct stored_slice *slice,
	const struct slice_plan *plan, struct error *err)
{
	struct slice_plan before = slice->file.plan;
	CLEANUP(freep) char *text = NULL;
	CLEANUP(closep) int dir = -1;
	char path[PATH_MAX];

	if (slice_store_path(s, slice, path, err) < 0)
		return -1;
	slice->file.plan = *plan;
	text = slice_file_text(&slice->file);
	slice->file.plan = before;
	if (!text)
		return error_nomem(err);
	dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		return error_sys(err, errno, "open '%s'", path);
	if (write_slice_file(dir, "." SLICE_FILE, text, err) < 0)
		return error_prefix(err, "%s", path);
	if (renameat(dir, "." SLICE_FILE, dir, SLICE_FILE) < 0)
		return error_sys(err, errno, "rename '%s/" SLICE_FILE "'", path);
	slice->file.plan = *plan;
	return 0;
}

int slice_store_remove(struct slice_store *s, struct stored_slice *slice, struct error *err)
{
	char from[PATH_MAX], to[PATH_MAX], temp[TEMP_MAX];

	(void)snprintf(temp, sizeof(temp), NEW_PREFIX "%s", slice->file.id);
	if (slice_store_path(s, slice, from, err) < 0 ||
		path_join(to, sizeof(to), s->dir, temp, err) < 0)
		return -1;
	/* The rename removes the slice for the arbiter at once. If the agent is killed here, its next start
	 * removes the rest. */
	if (rename(from, to) < 0 && errno != ENOENT)
		return error_sys(err, errno, "rename '%s'", from);
	(void)remove_slice_dir(s, temp, NULL);
	for (size_t i = 0; i < s->n; i++) {
		if (s->v[i] != slice)
			continue;
		/* Keeps the order, which is that of the node's status. */
		memmove(&s->v[i], &s->v[i + 1], (s->n - i - 1) * sizeof(*s->v));
		s->n--;
		break;
	}
	(void)free_stored_slice(slice);
	return 0;
}
