/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Commands to run around a MIG change. io/config/mig/mig.h reads them from a file.
 * Thread: any (plain data).
 */
#include "lib/base/strv.h"

#define MIG_HOOKS_MAX      64   /* commands of one name; names of one file */
#define MIG_HOOK_WORDS_MAX 1024 /* arguments of one command; also variables */

struct mig_hook {
	char *command; /* found by PATH */
	struct strv args;
	struct strv envs; /* "NAME=value", sorted by name */
	char *workdir;    /* "": the caller's directory */
};

struct mig_hook_list {
	char *name; /* apply-start, pre-apply-mode, pre-apply-config, apply-exit */
	struct mig_hook *hooks;
	size_t n;
};

struct mig_hooks {
	struct mig_hook_list *lists; /* in file order */
	size_t n;
};

struct mig_hooks *mig_hooks_free(struct mig_hooks *h); /* returns NULL */
DEFINE_CLEANUP(struct mig_hooks *, mig_hooks_free)

/* The commands of @name; NULL: none. Borrowed. */
const struct mig_hook_list *mig_hooks_find(const struct mig_hooks *h, const char *name);
