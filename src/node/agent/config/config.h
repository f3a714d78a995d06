/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which config is in force. A single file must be valid at the first start of a node; at later ones the last valid
 * config is used where it is not. Named configs may come later, as the node's label does, and until one is decided
 * nothing is offered: a node that offered the default first would take slices away from under the pods a moment
 * later. Whatever is wrong afterwards, the config in force stays.
 * Thread: loop.
 */
#include "node/agent/api/link.h"
#include "node/agent/base/facts.h"
#include "node/agent/base/report.h"
#include "node/agent/config/label-wait.h"
#include "node/agent/config/source/source.h"
#include "io/config/config.h"
#include "model/config/choice.h"

/* At most one of the first three; NULL or "" for all: flags and variables alone. */
struct agent_config_options {
	const char *file;
	const char *dir; /* named configs, of which the node's label chooses */
	const char *map; /* the same through the API: "[namespace/]name" */
	const char *default_name;
	const struct strv
		*fallbacks; /* strategies without label and default; until it has started */
};

/* What the config tells the agent. */
struct agent_config_ops {
	/* Another config is in force; @moved: the driver's library is looked for elsewhere. */
	void (*changed)(void *arg, bool moved);
};

/* What it lives in. Borrowed, all of it. */
struct agent_config_context {
	uv_loop_t *loop;
	struct facts *facts; /* .config and .decided are written here alone */
	const struct api_link *link;
	const struct reporter *reporter;
	const char *state_dir; /* for the config of the last run */
	struct config_sources sources;
	struct agent_config_options options; /* no "" in the first three, once initialised */
	const struct agent_config_ops *ops;
	void *arg; /* of .ops */
};

/* What the GPUs say of the last text that was looked at. */
enum config_fit {
	FIT_UNKNOWN, /* none was ever seen: a config in force may be impossible here */
	FIT_GOOD,    /* they can have it, or something else is wrong with it */
	FIT_REFUSED, /* it is good, and they cannot have it: others may */
};

struct agent_config {
	struct agent_config_context c;
	char *where;          /* what messages call it; NULL: flags and variables alone */
	struct strv warnings; /* of the config in force */
	uint64_t since_wall_ns;
	uint64_t generation;     /* 1 for the first that is decided, + 1 with each change */
	struct error last_error; /* of a newer config that was refused; ERR_NONE: none */
	uint64_t last_error_wall_ns;
	enum config_fit fit;
	char waiting[ERROR_MSG_MAX]; /* why nothing is decided yet; "" */

	char map_namespace[64], map[CONFIG_ENTRY_NAME_MAX]; /* of the ConfigMap; "": none */
	char *source_text; /* the directory or ConfigMap, for messages; NULL: neither */
	struct strv fallbacks;
	struct config_source
		*source; /* NULL: flags and variables alone, or no API server yet */
	struct buf seen; /* where and text of what was last looked at */
	bool forced;     /* a reload was asked for while a change was written */

	struct label_wait label;
	uv_timer_t wait; /* for its ticks */
	bool unsaved;    /* what is kept for the next start is not what is in force */
	bool chosen;     /* then: */
	char entry[CONFIG_ENTRY_NAME_MAX];
	enum config_choice_by by;
};

void agent_config_init(struct agent_config *s, const struct agent_config_context *context);

/* < 0: the options are wrong, or the single file is and nothing was kept. agent_config_stop() all the same. */
int agent_config_start(struct agent_config *s, struct error *err) MUST_USE;

/* Our Node is there: its label; NULL: none. */
void agent_config_label(struct agent_config *s, const char *uid, const char *label);
void agent_config_with_api(struct agent_config *s, struct api *api); /* and with .link->node */
void agent_config_without_api(struct agent_config *s);               /* there will be none */
void agent_config_gpus_changed(struct agent_config *s);              /* in the facts */
void agent_config_reload(struct agent_config *s);
void agent_config_retry(struct agent_config *s); /* to keep it, where that failed */

/* The loop has to run until all is closed, then agent_config_fini(), which frees the config of the facts. */
void agent_config_stop(struct agent_config *s);
void agent_config_fini(struct agent_config *s);
