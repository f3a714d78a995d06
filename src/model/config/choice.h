/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Chooses the config of a node among several named configs: NVIDIA's config-manager as a pure function.
 *
 *  1. The node label names the config.
 *  2. Without a label, the default names the config.
 *  3. Without a default, the fallback strategies apply in their order.
 *
 * Differences from NVIDIA's config-manager:
 *  - A wrong name is an error for the caller, which keeps the config in force. The program does not end.
 *  - "empty" applies even before there are any entries, so that a node can start with whole GPUs. After an
 *    entry was in force, an empty list of entries is a mistake and does not undo that config.
 *
 * Thread: any (pure).
 */
#include "lib/base/error.h"
#include "lib/base/strv.h"

#define CONFIG_NODE_LABEL       "nvidia.com/device-plugin.config"
#define CONFIG_FALLBACK_DEFAULT "default" /* the entry that the strategy "named" uses */

#define CONFIG_ENTRY_NAME_MAX 254 /* bytes of a ConfigMap's key, with the terminating NUL */
#define CONFIG_ENTRIES_MAX    1000

struct config_choice_input {
	const char *label;            /* value of the node label; NULL or "": none */
	const char *default_name;     /* NULL or "": none */
	const struct strv *fallbacks; /* any of "named", "single", "empty" */
	const struct strv *names;     /* names of the existing entries, sorted */
	bool undecided;               /* no config is in force yet, or the one of "empty" */
};

enum config_choice_by {
	CHOICE_LABEL,
	CHOICE_DEFAULT,
	CHOICE_NAMED,
	CHOICE_SINGLE,
	CHOICE_EMPTY
};

struct config_choice {
	const char *name; /* borrowed from .names; NULL for CHOICE_EMPTY (all defaults) */
	enum config_choice_by by;
};

/* Returns < 0 with ERR_NOT_FOUND. The text names the missing and the existing entries: "specified config X
 * does not exist (from the node label); there are a, b". The texts begin with NVIDIA's. */
int config_choose(struct config_choice *ret, const struct config_choice_input *in,
	struct error *err) MUST_USE;

const char *config_choice_by_text(enum config_choice_by by); /* "node label"; static */

/* ERR_INVALID: "unknown fallback strategy: X". */
int config_fallbacks_check(const struct strv *fallbacks, struct error *err) MUST_USE;

/* Whether @name can be an entry. Entries are file names in a ConfigMap volume: no '/', and no leading ".."
 * as in the kubelet's own files. */
bool config_entry_name_ok(const char *name);
