/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Programs that a change of MIG runs: hooks, and nvidia-smi for resets. Each is waited for; the
 * agent, which runs the editor, has a deadline on its silence.
 * Thread: main, and no other may hold locks that the child needs (it only execs).
 */
#include "model/mig/hooks.h"

#include <stdbool.h>
#include <stdint.h>

struct mig_command {
	const char *file;    /* looked up in PATH unless it has a slash */
	char *const *argv;   /* ends with NULL */
	char *const *env;    /* ends with NULL; NULL: the caller's own */
	const char *workdir; /* NULL or "": where the caller is */
	const char *root;    /* chroot first; NULL: no */
	bool own_group;      /* ^C on the terminal does not reach it */
	bool show;           /* its output goes to standard error; else it is kept for errors */
};

/* ERR_UNAVAILABLE: it ended with another status than 0; the text has its last line. */
int mig_command_run(const struct mig_command *c, struct error *err) MUST_USE;

/*
 * Runs the commands of a hook one after the other; the first that fails ends it. Their environment
 * is what the file gives, overridden by @env ("NAME=value"), and nothing else.
 */
int mig_hook_run(const struct mig_hook_list *list, const struct strv *env, bool show,
	struct error *err) MUST_USE;

/*
 * Resets GPUs with `nvidia-smi -r -i`. It is that of @driver_root (NULL: none), started with that
 * as its root, or else the one in PATH. A GPU that another program has open is tried again for some
 * seconds: who watches GPUs is told before, and lets go.
 */
int mig_reset_gpus(const char *driver_root, const char *const *bus_ids, uint32_t n, bool show,
	struct error *err) MUST_USE;
