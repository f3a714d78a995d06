/* SPDX-License-Identifier: Apache-2.0 */
#include "io/nvml/worker/library-check.h"

#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/time.h"
#include "io/nvml/nvml.h"
#include "io/nvml/proto.h"

/* Once a minute at the default probe interval. A check takes 12 ms on an H200 (driver 580.159.04). */
#define PROBES_PER_CHECK 6
#define APART_NS         (5 * NS_PER_SEC)
#define KILL_NS          (10 * NS_PER_SEC) /* limit of a check that hangs */

/*
 * NVML_INIT_FLAG_NO_ATTACH: the check opens no /dev/nvidiaN, which would prevent a change of the MIG mode. A
 * library of another version returns 18 with this flag, too (measured with driver 580.159.04).
 */
#define NO_ATTACH 2

enum {
	CHECK_FITS = 0,
	CHECK_MISMATCH = NVML_ERROR_LIB_RM_VERSION_MISMATCH,
	CHECK_FAILED = 255
};

/* False: the check still runs. */
static bool reap_library_check(struct library_check *c)
{
	int status = 0;
	pid_t r = waitpid(c->pid, &status, WNOHANG);

	if (r == 0)
		return false;
	c->pid = 0;
	/* Any other end says nothing about the versions, so the earlier result is no longer known to hold. */
	c->known = r > 0 && WIFEXITED(status) &&
		   (WEXITSTATUS(status) == CHECK_FITS || WEXITSTATUS(status) == CHECK_MISMATCH);
	c->mismatch = c->known && WEXITSTATUS(status) == CHECK_MISMATCH;
	return true;
}

static void start_library_check(struct library_check *c)
{
	char *const argv[] = {
		(char[]){ "gpuslice-nvml" },
		(char[]){ "--check-library" },
		(char[]){ "--nvml" },
		(char *)(uintptr_t)(c->nvml_path ? c->nvml_path : ""),
		(char[]){ "--driver-root" },
		(char *)(uintptr_t)(c->driver_root ? c->driver_root : ""),
		NULL,
	};
	posix_spawn_file_actions_t files;

	if (posix_spawn_file_actions_init(&files) != 0)
		return;
	if (posix_spawn_file_actions_addclose(&files, WORKER_FD_SOCKET) != 0 ||
		posix_spawn_file_actions_addclose(&files, WORKER_FD_CRUMBS) != 0 ||
		posix_spawn(&c->pid, "/proc/self/exe", &files, NULL, argv, environ) != 0)
		c->pid = 0;
	(void)posix_spawn_file_actions_destroy(&files);
}

void library_check_step(struct library_check *c, uint64_t now_ns)
{
	c->looks++;
	if (c->pid && !reap_library_check(c)) {
		if (now_ns - c->started_ns > KILL_NS)
			(void)kill(c->pid, SIGKILL);
		return;
	}
	if (c->looks < PROBES_PER_CHECK || now_ns - c->started_ns < APART_NS)
		return;
	c->looks = 0;
	c->started_ns = now_ns;
	start_library_check(c);
}

int library_check_main(const char *nvml_path, const char *driver_root)
{
	struct error err = ERROR_INIT;
	char path[PATH_MAX];
	struct nvml nvml;
	nvmlReturn_t r;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (nvml_find(path, nvml_path, driver_root, &err) < 0 ||
		nvml_open(&nvml, path, &err) < 0)
		return CHECK_FAILED;
	r = nvml.nvmlInitWithFlags(NO_ATTACH);
	if (r != NVML_SUCCESS && r != NVML_ERROR_LIB_RM_VERSION_MISMATCH)
		r = nvml.nvmlInit_v2(); /* drivers before 440 have no flags */
	/* No nvmlShutdown(): the end of the process releases what the kernel holds for it. */
	return r == NVML_SUCCESS || r == NVML_ERROR_LIB_RM_VERSION_MISMATCH ? (int)r
									    : CHECK_FAILED;
}
