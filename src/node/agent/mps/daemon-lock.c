/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/mps/daemon-lock.h"

#include "lib/base/fd.h"
#include "lib/base/parse.h"
#include "lib/base/time.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOCK_FILE   "lock"
#define STAT_MAX    4096
#define STAT_START  22 /* field of /proc/PID/stat */
#define ASIDE       ".gpuslice-old-"
#define ASIDE_TRIES 1000             /* names that others may have taken */
#define EMPTY_NS    (2 * NS_PER_SEC) /* a container may make new files all the time */

/* Parses the digits at @text. Returns their end; NULL: there are none. */
static const char *parse_pid_digits(const char *text, uint64_t *ret)
{
	size_t n = strspn(text, "0123456789");
	char digits[24];

	if (n >= sizeof(digits))
		return NULL;
	memcpy(digits, text, n);
	digits[n] = '\0';
	return parse_u64(digits, ret) ? text + n : NULL;
}

uint64_t mps_process_start_ticks(pid_t pid)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(STAT_MAX);
	uint64_t ticks;
	const char *at;
	char path[32];

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (pid <= 0 || file_read(path, &b, NULL) < 0)
		return 0;
	at = strrchr(buf_str(&b), ')'); /* the process's name may contain anything */
	if (!at || at[1] != ' ' || at[2] == 'Z')
		return 0;
	for (int field = 2; at && field < STAT_START; field++)
		at = strchr(at + 1, ' ');
	return at && parse_pid_digits(at + 1, &ticks) ? ticks : 0;
}

bool mps_lock_owner_is_alive(const struct mps_lock_owner *owner)
{
	return owner->pid > 0 && owner->ticks != 0 &&
	       mps_process_start_ticks(owner->pid) == owner->ticks;
}

struct mps_lock_owner mps_lock_find_owner(const char *dir)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(256);
	struct mps_lock_owner owner = { .pid = 0 };
	char path[PATH_MAX];
	const char *at;
	uint64_t pid;

	if (path_join(path, sizeof(path), dir, MPS_PID_FILE, NULL) < 0 ||
		file_read(path, &b, NULL) < 0)
		return owner;
	at = parse_pid_digits(buf_str(&b), &pid);
	if (!at || *at != ' ' || pid > INT32_MAX || !parse_pid_digits(at + 1, &owner.ticks))
		return (struct mps_lock_owner){ .pid = 0 };
	owner.pid = (pid_t)pid;
	return mps_lock_owner_is_alive(&owner) ? owner : (struct mps_lock_owner){ .pid = 0 };
}

/*
 * Root of a container may fill its pipe directory with trees of any depth and millions of files, also during the
 * removal. So nothing here is recursive, and all of it has a time limit:
 *
 * 1. clear_top() removes each file and each empty directory at the top. It renames any other entry there to a name
 *    with ASIDE. The daemon's names are then free.
 * 2. clear_aside() does the same with the entries of those directories, renaming to the top, and then removes the
 *    directories, now empty.
 * 3. Each round brings the next level to the top. The rounds end when one removes and renames nothing, or at the
 *    time limit.
 */
struct directory_removal {
	int top;
	uint64_t until_ns, next; /* .next: number of the next such name */
	bool progress;
};

static bool is_aside(const char *name)
{
	return strncmp(name, ASIDE, strlen(ASIDE)) == 0;
}

static void set_aside(struct directory_removal *x, int dir, const char *name)
{
	char to[sizeof(ASIDE) + 24];
	int r = -1;

	for (int i = 0; r < 0 && i < ASIDE_TRIES; i++) {
		(void)snprintf(to, sizeof(to), ASIDE "%" PRIu64, x->next++);
		r = renameat(dir, name, x->top, to);
		if (r < 0 && errno != EEXIST && errno != ENOTEMPTY && errno != ENOTDIR)
			return; /* immutable, or a mount point: another name does not help */
	}
	x->progress |= r == 0;
}

static bool remove_dir_entry(struct directory_removal *x, int dir, const char *name)
{
	bool gone = unlinkat(dir, name, 0) == 0 || unlinkat(dir, name, AT_REMOVEDIR) == 0;

	x->progress |= gone;
	return gone;
}

static DIR *list_dir(int at, const char *name)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	if (!d)
		closep(&fd);
	return d;
}

/* NULL: no further name, or the time is over. */
static const char *next_name(const struct directory_removal *x, DIR *d)
{
	const struct dirent *e = NULL;

	while (d && time_mono_ns() < x->until_ns && (e = readdir(d)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			return e->d_name;
	if (d)
		(void)closedir(d);
	return NULL;
}

static void clear_top(struct directory_removal *x)
{
	DIR *d = list_dir(x->top, ".");
	const char *name;

	while ((name = next_name(x, d)))
		if (!remove_dir_entry(x, x->top, name) && !is_aside(name))
			set_aside(x, x->top, name);
}

static void clear_aside(struct directory_removal *x)
{
	DIR *d = list_dir(x->top, "."), *below;
	const char *name, *inner;

	while ((name = next_name(x, d))) {
		if (!is_aside(name))
			continue;
		below = list_dir(x->top, name);
		while ((inner = next_name(x, below)))
			if (!remove_dir_entry(x, dirfd(below), inner))
				set_aside(x, dirfd(below), inner);
		(void)remove_dir_entry(x, x->top, name);
	}
}

void dir_empty(const char *path, uint64_t most_ns)
{
	CLEANUP(closep)
	int top = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	struct directory_removal x = { .top = top, .until_ns = time_mono_ns() + most_ns };

	do {
		x.progress = false;
		clear_top(&x);
		clear_aside(&x);
	} while (x.progress && time_mono_ns() < x.until_ns);
}

static bool is_file_at(int fd, const char *path)
{
	struct stat held, there;

	return fstat(fd, &held) == 0 && lstat(path, &there) == 0 &&
	       held.st_ino == there.st_ino && held.st_dev == there.st_dev;
}

/* The lock lives as long as the descriptor, which the daemon does not inherit. */
static int lock_mps_dir(const char *dir, int how, struct error *err)
{
	char path[PATH_MAX];
	int fd;

	if (path_join(path, sizeof(path), dir, LOCK_FILE, err) < 0)
		return -1;
	for (;;) {
		fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (fd < 0)
			return error_sys(err, errno, "open '%s'", path);
		if (flock(fd, how) < 0) {
			(void)error_sys(err, errno, "lock '%s'", path);
			closep(&fd);
			return -1;
		}
		/* mps_lock_drop() removes the file while it holds the lock. A process that waited for that lock then
		 * holds a file that no other process finds. */
		if (is_file_at(fd, path))
			return fd;
		closep(&fd);
	}
}

static bool has_mps_dir_entry(const char *dir, const char *name)
{
	char path[PATH_MAX];

	return path_join(path, sizeof(path), dir, name, NULL) == 0 && access(path, F_OK) == 0;
}

static void empty_below(const char *dir, const char *name)
{
	char path[PATH_MAX];

	if (path_join(path, sizeof(path), dir, name, NULL) == 0)
		dir_empty(path, EMPTY_NS);
}

int mps_lock_take(const char *dir, struct error *err)
{
	CLEANUP(closep) int fd = lock_mps_dir(dir, LOCK_EX, err);
	struct mps_lock_owner owner;
	char path[PATH_MAX], text[64];

	if (fd < 0)
		return -1;
	owner = mps_lock_find_owner(dir);
	if (owner.pid > 0)
		return error_set(err, ERR_EXISTS, "process %d runs in '%s' already",
			(int)owner.pid, dir);
	if (!has_mps_dir_entry(dir, MPS_STATE))
		return error_set(err, ERR_NOT_FOUND, "nothing is to be started in '%s'", dir);
	empty_below(dir, MPS_PIPE);
	empty_below(dir, MPS_SHM);
	(void)snprintf(text, sizeof(text), "%d %" PRIu64 "\n", (int)getpid(),
		mps_process_start_ticks(getpid()));
	if (path_join(path, sizeof(path), dir, MPS_PID_FILE, err) < 0)
		return -1;
	return file_write_atomic(path, text, strlen(text), 0644, err);
}

int mps_lock_drop(const char *dir, struct error *err)
{
	CLEANUP(closep) int fd = lock_mps_dir(dir, LOCK_EX | LOCK_NB, err);
	static const char *const names[] = { MPS_PID_FILE, MPS_STATE, LOCK_FILE };
	char path[PATH_MAX];

	if (fd < 0)
		return -1;
	if (mps_lock_find_owner(dir).pid > 0)
		return error_set(err, ERR_EXISTS, "a daemon runs in '%s'", dir);
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (path_join(path, sizeof(path), dir, names[i], NULL) == 0)
			(void)unlink(path);
	return 0;
}
