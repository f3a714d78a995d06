/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Programs that a change of MIG runs: hooks, and nvidia-smi for resets. The editor waits for each
 * without a time-out. The agent, which runs the editor as a child, has a deadline for the editor's
 * silence.
 * Thread: main. No other thread may hold locks that the child needs before exec.
 */
#include "model/mig/hooks.h"

#include <stdbool.h>
#include <stdint.h>

struct mig_command {
	const char *file;    /* found in PATH unless it has a slash */
	char *const *argv;   /* ends with NULL */
	char *const *env;    /* ends with NULL; NULL: the caller's environment */
	const char *workdir; /* NULL or "": the caller's directory */
	const char *root;    /* chroot before exec; NULL: none */
	bool own_group;      /* own process group: ^C on the terminal does not reach it */
	bool show;           /* output goes to standard error; otherwise only errors quote it */
};

/*
 * Runs the commands of a hook one after the other; the first failure ends the hook. The environment of
 * a command is what the file gives, overridden by @env ("NAME=value"), and nothing else.
 */
int mig_hook_run(const struct mig_hook_list *list, const struct strv *env, bool show,
	struct error *err) MUST_USE;

/*
 * Resets GPUs with `nvidia-smi -r -i`. Prefers the program of @driver_root (NULL: none), with that
 * directory as its root, over the program in PATH. If another program has a GPU open, the editor tries
 * up to 6 times, 1.5 s apart. Monitoring programs get a report before the reset (.resetting of struct
 * mig_apply) and close the GPU.
 */
int mig_reset_gpus(const char *driver_root, const char *const *bus_ids, uint32_t n, bool show,
	struct error *err) MUST_USE;
