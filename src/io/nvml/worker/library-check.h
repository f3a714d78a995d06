/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whether a program that starts now gets a library that fits the kernel module.
 *
 * The worker's own session does not notice when a package manager replaces the driver's libraries below
 * it: it goes on with the old one, which fits the loaded module, while each new container gets the new
 * one and fails. NVML compares the two versions only in the first init of a process. So now and then
 * another process opens the library as it is found then, inits it without attaching to a GPU, and ends.
 * It is never waited for: a look takes what is known.
 * Thread: that of the looks.
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct library_check {
	const char *nvml_path, *driver_root; /* as in nvml_find(); borrowed */
	pid_t pid;                           /* 0: none runs */
	uint64_t started_ns;
	uint32_t looks;       /* since then */
	bool known, mismatch; /* as the last one that could tell has found */
};

/* To be called with each look: collects a check that has ended, and starts one that is due. */
void library_check_step(struct library_check *c, uint64_t now_ns);

/* The process of one check: "gpuslice-nvml --check-library". Returns its exit status. */
int library_check_main(const char *nvml_path, const char *driver_root);
