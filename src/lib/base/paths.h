/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Where files are. The paths on a node on which several programs must agree, the helper programs, paths below
 * the root of another system, a directory that lives as long as a command, and the identity of a file.
 * Thread: any. Blocks: on the file system.
 */
#include "lib/base/error.h"
#include "lib/base/strv.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

/* --- paths of a node --- */

/* Paths on a node on which several programs must agree. Options replace them; no other file names them.
 * DEFAULT_RUN_DIR has the agent's and the arbiter's sockets, the slices and the locks. */
#define DEFAULT_RUN_DIR     "/run/gpuslice"
#define DEFAULT_KUBELET_DIR "/var/lib/kubelet"
#define AGENT_SOCKET        "gpusliced.sock" /* in the agent's run directory */

/* --- helper programs --- */

/* Users do not call them. */

/*
 * Finds the program @name and writes its path to @ret. Searches in this order:
 *  1. the directory GPUSLICE_LIBEXEC, if that is set;
 *  2. ../libexec/gpuslice beside this program;
 *  3. ../../@build_dir beside this program: the build tree;
 *  4. the directory of the installation.
 * The build tree comes before the installation, since both ends of a protocol must be of one build.
 * ERR_NOT_FOUND: in none.
 */
int libexec_find(char ret[PATH_MAX], const char *name, const char *build_dir,
	struct error *err) MUST_USE;

/* --- paths below a root --- */

/*
 * A directory that is the root of another system, such as the driver root of a driver container. Symlinks lead
 * where they lead for a process in that root, never out of it.
 */

#define ROOT_LINKS_MAX 40 /* on one path, as in the kernel */

/* Follows all links of @path, which begins with "/". *ret (of @cap bytes) is the resulting path below @root:
 * put @root before it to open the file. ERR_NOT_FOUND: the file does not exist. @st may be NULL. */
int root_resolve(char *ret, size_t cap, const char *root, const char *path, struct stat *st,
	struct error *err) MUST_USE;

/* "ROOT/path" without doubled slashes; @root may be "/" or "". ERR_LIMIT if it does not fit. */
int root_join(char *ret, size_t cap, const char *root, const char *path,
	struct error *err) MUST_USE;

/* Names in the directory @path that match @pattern (fnmatch), sorted; none if the directory does not exist.
 * < 0 only for lack of memory. */
int root_list(struct strv *ret, const char *root, const char *path, const char *pattern,
	struct error *err) MUST_USE;

/* --- a directory for one command --- */

/* The directory lives as long as a command. When a command is killed, its directory stays with a free lock. The
 * next command with the same prefix removes it. */

struct temp_dir {
	char path[PATH_MAX]; /* "": none */
	int lock_fd;         /* held while the directory is in use */
};

#define TEMP_DIR_INIT         \
	{                     \
		.lock_fd = -1 \
	}

/* Makes the directory in TMPDIR, with mode 0700. It uses /tmp if TMPDIR is not an absolute path or is longer
 * than @base_max bytes. @prefix ends with a dot; no other program's files may begin with it. The file "lock"
 * in the directory is reserved. */
int temp_dir_make(struct temp_dir *d, const char *prefix, size_t base_max,
	struct error *err) MUST_USE;

/* Removes the directory with everything in it. Accepts TEMP_DIR_INIT; usable with CLEANUP. */
void temp_dir_remove(struct temp_dir *d);

/* Removes @dir and everything below it as far as possible. Follows no link. */
void tree_remove(const char *dir);

/* --- whether a file is still the one that was read --- */

/* The identity of a file: kubelets replace whole directories by a link. All zero: the file does not exist. */
struct file_stamp {
	uint64_t dev, ino, size, mtime_ns, ctime_ns;
};

/* Calls stat() once. Take the stamp before reading the file, so that a change in between is noticed. */
struct file_stamp file_stamp_of(const char *path);
/* Whether the file was unchanged between the two stamps, or missing at both. */
bool file_stamp_same(const struct file_stamp *a, const struct file_stamp *b);
