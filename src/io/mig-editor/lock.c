/* SPDX-License-Identifier: Apache-2.0 */
#include "io/mig-editor/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/fd.h"
#include "lib/base/parse.h"
#include "lib/base/time.h"

/* The pid in the file is for messages only; the kernel's lock decides. */
static uint32_t read_lock_holder(int fd)
{
	char text[16] = "";
	uint32_t pid = 0;
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

	text[n > 0 ? n : 0] = '\0';
	text[strcspn(text, "\n")] = '\0';
	return parse_u32(text, &pid) ? pid : 0;
}

static int set_lock_held_error(const char *path, uint32_t pid, uint64_t wait_ns,
	struct error *err)
{
	char age[TIME_AGE_MAX];

	time_age(wait_ns, age);
	if (pid)
		return error_set(err, ERR_EXISTS,
			"process %u changes the MIG layout of this node already (waited %s for '%s')",
			pid, age, path);
	return error_set(err, ERR_EXISTS,
		"another process changes the MIG layout of this node already (waited %s for '%s')",
		age, path);
}

int mig_lock_acquire(const char *run_dir, uint64_t wait_ns, const volatile sig_atomic_t *stop,
	struct error *err)
{
	CLEANUP(closep) int fd = -1;
	char path[PATH_MAX], text[16];
	int r;

	if (path_join(path, sizeof(path), run_dir, "mig.lock", err) < 0 ||
		dir_make(run_dir, 0755, err) < 0)
		return -1;
	/* No access for others: flock() also works on a descriptor opened for reading. */
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return error_sys(err, errno, "open '%s'", path);
	r = fd_lock(fd, wait_ns, stop);
	if (r == ECANCELED)
		return error_set(err, ERR_CANCELLED, "stopped by a signal");
	if (r == EWOULDBLOCK)
		return set_lock_held_error(path, read_lock_holder(fd), wait_ns, err);
	if (r)
		return error_sys(err, r, "lock '%s'", path);
	(void)snprintf(text, sizeof(text), "%d\n", (int)getpid());
	(void)!ftruncate(fd, 0);
	(void)!pwrite(fd, text, strlen(text), 0);
	return steal_fd(&fd);
}
