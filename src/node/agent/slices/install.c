/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/slices/install.h"

#include "abi/slice-dir.h"
#include "node/agent/slices/file.h"
#include "lib/base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LIBS_DIR    "lib"
#define NEW_PREFIX  ".new-"
#define LIBRARY_MAX (32 << 20) /* bytes of one library */
#define DIR_MODE    0755
#define LIB_MODE    0755
#define TEXT_MODE   0644

/* In the order in which ld.so loads them. */
static const char *const libraries[] = { SLICE_LIB_CUDA, SLICE_LIB_NVML };

/* Relative to this program's directory: installed, and in the build tree. */
#define INSTALLED "../lib/gpuslice"
#define BUILT     "../../container"

static const char preload_text[] = SLICE_CONTAINER_LIB_DIR
	"/" SLICE_LIB_CUDA "\n" SLICE_CONTAINER_LIB_DIR "/" SLICE_LIB_NVML "\n";

struct bundle {
	struct buf content[ARRAY_LEN(libraries)];
	char name[SLICE_LIB_NAME_MAX];
};

static void bundle_fini(struct bundle *b)
{
	for (size_t i = 0; i < ARRAY_LEN(libraries); i++)
		buf_fini(&b->content[i]);
}

int slice_libs_path(char *ret, const char *state_dir, const char *name, const char *file,
	struct error *err)
{
	int n = snprintf(ret, PATH_MAX, "%s/" LIBS_DIR "%s%s%s%s", state_dir, *name ? "/" : "",
		name, file ? "/" : "", file ? file : "");

	if (n < 0 || n >= PATH_MAX)
		return error_set(err, ERR_LIMIT, "'%.200s': the path is too long", state_dir);
	return 0;
}

/* --- what there is to install --- */

static bool find_readable_library(char ret[PATH_MAX], const char *dir, const char *below,
	const char *name)
{
	int n = snprintf(ret, PATH_MAX, "%s/%s%s%s", dir, below, *below ? "/" : "", name);

	return n > 0 && n < PATH_MAX && access(ret, R_OK) == 0;
}

static int find_runtime_library(size_t i, const char *runtime_dir, char ret[PATH_MAX],
	struct error *err)
{
	char exe[PATH_MAX], *slash;
	ssize_t len;

	if (runtime_dir && *runtime_dir) {
		if (find_readable_library(ret, runtime_dir, "", libraries[i]))
			return 0;
		return error_set(err, ERR_NOT_FOUND, "no library %s in '%.200s'", libraries[i],
			runtime_dir);
	}
	len = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	exe[len > 0 ? len : 0] = '\0';
	slash = strrchr(exe, '/');
	if (slash)
		*slash = '\0';
	if (find_readable_library(ret, exe, INSTALLED, libraries[i]) ||
		find_readable_library(ret, exe, BUILT, libraries[i]))
		return 0;
	return error_set(err, ERR_NOT_FOUND,
		"no library %s in " INSTALLED
		" beside this program; is it installed as a whole?",
		libraries[i]);
}

/* FNV-1a of 64 bits. The hash distinguishes builds. It does not protect against a crafted collision. */
static uint64_t hash_library(uint64_t h, const void *data, size_t len)
{
	const unsigned char *p = data;

	for (size_t i = 0; i < len; i++)
		h = (h ^ p[i]) * UINT64_C(0x100000001b3);
	return h;
}

static int read_bundle(struct bundle *b, const char *runtime_dir, struct error *err)
{
	uint64_t h =
		hash_library(UINT64_C(0xcbf29ce484222325), preload_text, sizeof(preload_text));

	for (size_t i = 0; i < ARRAY_LEN(libraries); i++) {
		char path[PATH_MAX];

		if (find_runtime_library(i, runtime_dir, path, err) < 0 ||
			file_read(path, &b->content[i], err) < 0)
			return -1;
		if (b->content[i].len < 4 || memcmp(b->content[i].data, "\177ELF", 4) != 0)
			return error_set(err, ERR_INVALID, "'%s' is no library", path);
		h = hash_library(h, &b->content[i].len, sizeof(b->content[i].len));
		h = hash_library(h, b->content[i].data, b->content[i].len);
	}
	(void)snprintf(b->name, sizeof(b->name), "%.40s-%016" PRIx64, GPUSLICE_VERSION, h);
	return 0;
}

/* --- putting it in place --- */

static int write_library_file(int dir, const char *name, const void *data, size_t len,
	mode_t mode, struct error *err)
{
	CLEANUP(closep)
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);

	if (fd < 0)
		return error_sys(err, errno, "make '%s'", name);
	if (fd_write_all(fd, data, len, err) < 0)
		return -1;
	if (fchmod(fd, mode) < 0 || fsync(fd) < 0)
		return error_sys(err, errno, "write '%s'", name);
	return 0;
}

static int fill_library_dir(const char *path, const struct bundle *b, struct error *err)
{
	CLEANUP(closep) int dir = -1;

	if (mkdir(path, DIR_MODE) < 0)
		return error_sys(err, errno, "make '%s'", path);
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (dir < 0 || fchmod(dir, DIR_MODE) < 0)
		return error_sys(err, errno, "open '%s'", path);
	for (size_t i = 0; i < ARRAY_LEN(libraries); i++)
		if (write_library_file(dir, libraries[i], b->content[i].data, b->content[i].len,
			    LIB_MODE, err) < 0)
			return error_prefix(err, "%s", path);
	if (write_library_file(dir, SLICE_LIBS_PRELOAD, preload_text, strlen(preload_text),
		    TEXT_MODE, err) < 0)
		return error_prefix(err, "%s", path);
	return fsync(dir) < 0 ? error_sys(err, errno, "flush '%s'", path) : 0;
}

static void remove_library_dir(const char *path)
{
	DIR *d = opendir(path);
	struct dirent *e;

	while (d && (e = readdir(d)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			(void)unlinkat(dirfd(d), e->d_name, 0);
	if (d)
		(void)closedir(d);
	(void)rmdir(path);
}

static bool is_library_file_valid(int dir, const char *name, size_t len)
{
	struct stat st;

	return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
	       (size_t)st.st_size == len;
}

/* Replaces the file, whole, unless it is a regular file of length @len. */
static int repair_file(int dir, const char *name, const void *data, size_t len, mode_t mode,
	struct error *err)
{
	static const char temp[] = NEW_PREFIX "file";

	if (is_library_file_valid(dir, name, len))
		return 0;
	(void)unlinkat(dir, temp, 0);
	/* Container runtimes make a directory where a mount's source is missing. */
	(void)unlinkat(dir, name, AT_REMOVEDIR);
	if (write_library_file(dir, temp, data, len, mode, err) < 0)
		return -1;
	if (renameat(dir, temp, dir, name) < 0)
		return error_sys(err, errno, "rename '%s'", name);
	return 0;
}

/*
 * A directory that exists keeps its place, whatever is wrong with it. Running containers have it mounted, and
 * programs that they start later must find the libraries.
 */
static int repair_library_dir(int dir, const struct bundle *b, struct error *err)
{
	for (size_t i = 0; i < ARRAY_LEN(libraries); i++)
		if (repair_file(dir, libraries[i], b->content[i].data, b->content[i].len,
			    LIB_MODE, err) < 0)
			return -1;
	return repair_file(dir, SLICE_LIBS_PRELOAD, preload_text, strlen(preload_text),
		TEXT_MODE, err);
}

static bool is_library_file(const char *state_dir, const char *name, const char *file)
{
	char path[PATH_MAX];
	struct stat st;

	return slice_libs_path(path, state_dir, name, file, NULL) == 0 &&
	       stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

bool slice_libs_there(const char *state_dir, const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(libraries); i++)
		if (!is_library_file(state_dir, name, libraries[i]))
			return false;
	return is_library_file(state_dir, name, SLICE_LIBS_PRELOAD);
}

static int make_new(const char *path, const char *temp, const struct bundle *b,
	struct error *err)
{
	remove_library_dir(temp);
	if (fill_library_dir(temp, b, err) == 0) {
		if (rename(temp, path) == 0)
			return 0;
		(void)error_sys(err, errno, "rename '%s'", temp);
	}
	remove_library_dir(temp);
	return -1;
}

static int install_library_dir(const char *state_dir, const struct bundle *b, struct error *err)
{
	CLEANUP(closep) int dir = -1;
	char parent[PATH_MAX], path[PATH_MAX], temp[PATH_MAX], name[64];

	(void)snprintf(name, sizeof(name), NEW_PREFIX "%d", (int)getpid());
	if (slice_libs_path(parent, state_dir, "", NULL, err) < 0 ||
		slice_libs_path(path, state_dir, b->name, NULL, err) < 0 ||
		slice_libs_path(temp, state_dir, name, NULL, err) < 0 ||
		dir_make(parent, DIR_MODE, err) < 0)
		return -1;
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (dir < 0)
		return make_new(path, temp, b, err);
	return repair_library_dir(dir, b, err) < 0 ? error_prefix(err, "%s", path) : 0;
}

int slice_libs_install(char *ret_name, const char *state_dir, const char *runtime_dir,
	struct error *err)
{
	CLEANUP(bundle_fini)
	struct bundle b = { .content = { BUF_INIT(LIBRARY_MAX), BUF_INIT(LIBRARY_MAX) } };

	if (read_bundle(&b, runtime_dir, err) < 0)
		return -1;
	if (install_library_dir(state_dir, &b, err) < 0)
		return -1;
	memcpy(ret_name, b.name, sizeof(b.name));
	return 0;
}

void slice_libs_sweep(const char *state_dir, const struct strv *keep)
{
	char path[PATH_MAX];
	struct dirent *e;
	DIR *d = slice_libs_path(path, state_dir, "", NULL, NULL) == 0 ? opendir(path) : NULL;

	while (d && (e = readdir(d))) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") ||
			strv_has(keep, e->d_name))
			continue;
		if (slice_libs_path(path, state_dir, e->d_name, NULL, NULL) == 0)
			remove_library_dir(path);
	}
	if (d)
		(void)closedir(d);
}
