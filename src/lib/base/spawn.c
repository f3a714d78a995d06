/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

int spawn_helper(pid_t *ret, const char *path, char *const *argv, const struct spawn_fd *fds,
	size_t n, struct error *err)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t none, all;
	int r;

	(void)sigemptyset(&none);
	(void)sigfillset(&all);
	(void)posix_spawn_file_actions_init(&actions);
	(void)posix_spawnattr_init(&attr);
	(void)posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDWR, 0);
	(void)posix_spawn_file_actions_adddup2(&actions, 0, 1);
	for (size_t i = 0; i < n; i++)
		(void)posix_spawn_file_actions_adddup2(&actions, fds[i].from, fds[i].to);
	(void)posix_spawnattr_setsigmask(&attr, &none);
	(void)posix_spawnattr_setsigdefault(&attr, &all);
	(void)posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	r = posix_spawn(ret, path, &actions, &attr, argv, environ);
	(void)posix_spawnattr_destroy(&attr);
	(void)posix_spawn_file_actions_destroy(&actions);
	return r == 0 ? 0 : error_sys(err, r, "start '%s'", path);
}
