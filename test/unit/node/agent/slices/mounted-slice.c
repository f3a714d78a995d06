/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/node/agent/slices/mounted-slice.h"

#include "support/test.h"

#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

pid_t mounted_slice_begin(const char *slice_dir, const char *at)
{
	int ready[2];
	char c = 0;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		c = unshare(CLONE_NEWNS) == 0 &&
		    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
		    mount(slice_dir, at, NULL, MS_BIND, NULL) == 0;
		(void)!write(ready[1], &c, 1);
		for (;;)
			(void)pause();
	}
	assert_int_equal(read(ready[0], &c, 1), 1);
	(void)close(ready[0]);
	(void)close(ready[1]);
	if (c)
		return pid;
	mounted_slice_end(pid);
	return 0;
}

void mounted_slice_end(pid_t pid)
{
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
}
