/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which of several named configs a node uses: NVIDIA's config-manager as a pure function. The
 * label chooses; without one the default; without a default the fallback strategies in their
 * order.
 *
 * Unlike NVIDIA's: a bad name is an answer, not the end of the program, and the caller keeps what is
 * in force. And "empty" counts before there are any entries, so that a node can begin with whole
 * GPUs; once an entry has been in force, no entries at all are a mistake that must not undo it.
 * Thread: any (pure).
 */
#include "lib/base/error.h"
#include "lib/base/strv.h"

#define CONFIG_NODE_LABEL       "nvidia.com/device-plugin.config"
#define CONFIG_FALLBACK_DEFAULT "default" /* the entry that "named" looks for */

#define CONFIG_ENTRY_NAME_MAX 254 /* of a ConfigMap's key, with the end */
#define CONFIG_ENTRIES_MAX    1000

struct config_choice_input {
	const char *label;            /* value of the node label; NULL or "": none */
	const char *default_name;     /* NULL or "": none */
	const struct strv *fallbacks; /* of "named", "single", "empty" */
	const struct strv *names;     /* of the entries that there are, sorted */
	bool undecided;               /* nothing is in force, or what "empty" stands for */
};

enum config_choice_by {
	CHOICE_LABEL,
	CHOICE_DEFAULT,
	CHOICE_NAMED,
	CHOICE_SINGLE,
	CHOICE_EMPTY
};

struct config_choice {
	const char *name; /* borrowed from .names; NULL for CHOICE_EMPTY: all defaults */
	enum config_choice_by by;
};

/*
 * < 0: ERR_NOT_FOUND, with the name and the names that there are: "specified config X does not
 * exist (from the node label); there are a, b". The texts begin with NVIDIA's own.
 */
int config_choose(struct config_choice *ret, const struct config_choice_input *in,
	struct error *err) MUST_USE;

const char *config_choice_by_text(enum config_choice_by by); /* "node label"; static */

/* ERR_INVALID: "unknown fallback strategy: X". */
int config_fallbacks_check(const struct strv *fallbacks, struct error *err) MUST_USE;

/* Whether @name can be an entry: a file name of a ConfigMap volume, so no '/', and not one of the
 * kubelet's own, which begin with "..". */
bool config_entry_name_ok(const char *name);
