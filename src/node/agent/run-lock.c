/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/run-lock.h"

#include "lib/base/fd.h"
#include "lib/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOCK_NAME "gpusliced.lock"

/* ERR_EXISTS: another agent had the lock for at least @wait_ns. */
static int acquire_run_lock(struct run_lock *l, uint64_t wait_ns, struct error *err)
{
	CLEANUP(closep) int fd = -1;
	char path[PATH_MAX], owner[32] = "";
	ssize_t n;
	int r;

	if (dir_make(l->dir, 0755, err) < 0 ||
		path_join(path, sizeof(path), l->dir, LOCK_NAME, err) < 0)
		return -1;
	/* No other user may open the file: even a reader can lock it. */
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return error_sys(err, errno, "open '%s'", path);
	r = fd_lock(fd, wait_ns, NULL);
	if (r == EWOULDBLOCK) {
		n = pread(fd, owner, sizeof(owner) - 1, 0);
		owner[n > 0 ? strspn(owner, "0123456789") : 0] = '\0';
		return error_set(err, ERR_EXISTS,
			"another gpusliced (pid %s) has the run directory '%s'; stop it or give "
			"--run-dir another one",
			*owner ? owner : "unknown", l->dir);
	}
	if (r)
		return error_sys(err, r, "lock '%s'", path);
	/* Only for the message above. The lock is what counts, so a full disk does not matter. */
	(void)snprintf(owner, sizeof(owner), "%d\n", (int)getpid());
	if (ftruncate(fd, 0) < 0 || pwrite(fd, owner, strlen(owner), 0) < 0)
		log_debug("lock file has no pid", LOG_STR("file", path));
	l->fd = steal_fd(&fd);
	return 0;
}

/*
 * Whether the file in the run directory is still the locked one. The directory may be emptied or replaced: a lock
 * on a removed file keeps no agent out.
 */
static bool has_lock(const struct run_lock *l)
{
	char path[PATH_MAX];
	struct stat ours, there;

	return l->fd >= 0 && path_join(path, sizeof(path), l->dir, LOCK_NAME, NULL) == 0 &&
	       fstat(l->fd, &ours) == 0 && lstat(path, &there) == 0 &&
	       ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
}

int run_lock_take(struct run_lock *l, uint64_t wait_ns, struct error *err)
{
	struct error why = ERROR_INIT;

	if (has_lock(l))
		return 0;
	closep(&l->fd);
	if (acquire_run_lock(l, wait_ns, &why) < 0 && why.code == ERR_EXISTS) {
		error_copy(err, &why);
		return -1;
	}
	report_component(l->reporter, COMPONENT_RUN_DIR, &why);
	return 0;
}

void run_lock_retry(struct run_lock *l)
{
	struct error err = ERROR_INIT;

	if (run_lock_take(l, /* wait_ns= */ 0, &err) < 0)
		failure_set(l->failure, &err);
}

void run_lock_release(struct run_lock *l)
{
	closep(&l->fd);
}
