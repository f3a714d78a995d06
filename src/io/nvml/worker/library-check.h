/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whether a program that starts now gets a library that fits the kernel module.
 *
 * Problem. When a package manager replaces the driver's libraries, the worker's session does not notice. It
 * continues with the old library, which fits the loaded module. Each new container gets the new library and fails.
 *
 * Check. NVML compares the versions of library and module only in the first init of a process. So at times another
 * process opens the library that is found then, initializes it without attaching to a GPU, and ends. The worker
 * never waits for that process: a probe takes the last known result.
 *
 * Thread: the worker's main thread, which probes.
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct library_check {
	const char *nvml_path, *driver_root; /* as in nvml_find(); borrowed */
	pid_t pid;                           /* 0: no check runs */
	uint64_t started_ns;
	uint32_t looks;       /* probes since .started_ns */
	bool known, mismatch; /* result of the last check; not known if it failed */
};

/* Called with each probe: collects a check that has ended, and starts a check that is due. */
void library_check_step(struct library_check *c, uint64_t now_ns);

/* The process of one check: "gpuslice-nvml --check-library". Returns its exit status. */
int library_check_main(const char *nvml_path, const char *driver_root);
