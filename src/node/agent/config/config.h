/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which config is in force.
 *
 * A single file must be valid at the first start on a node. At a later start the agent falls back to the last
 * valid config. Named configs may arrive after the start, like the node's label. Until one is decided, the agent
 * offers nothing: if it offered the default first, it would take replicas from running pods a moment later. Once
 * a config is in force, it stays in force whatever fails afterwards.
 * Thread: loop.
 */
#include "node/agent/api/node-object.h"
#include "node/agent/base/facts.h"
#include "node/agent/base/report.h"
#include "node/agent/config/label-wait.h"
#include "node/agent/config/source/source.h"
#include "io/config/config.h"
#include "model/config/choice.h"

/* At most one of the first three. All three NULL or "": command-line options and environment variables alone. */
struct agent_config_options {
	const char *file;
	const char *dir; /* named configs; the node's label chooses one */
	const char *map; /* "[namespace/]name" of a ConfigMap with named configs */
	const char *default_name;
	/* strategies without label and default; borrowed until agent_config_start() copies them */
	const struct strv *fallbacks;
};

/* What the config reports to the agent. */
struct agent_config_ops {
	/* Another config is in force. @moved: the driver's library is now searched for elsewhere. */
	void (*changed)(void *arg, bool moved);
};

/* What the config depends on. All borrowed. */
struct agent_config_context {
	uv_loop_t *loop;
	struct facts *facts; /* only this module writes .config and .decided */
	const struct api_link *link;
	const struct reporter *reporter;
	const char *state_dir; /* for the config of the last run */
	struct config_sources sources;
	struct agent_config_options options; /* after the init: no "" in the first three */
	const struct agent_config_ops *ops;
	void *arg; /* of .ops */
};

/* Whether this node's GPUs can have the last text that was checked. */
enum config_fit {
	FIT_UNKNOWN, /* no GPU seen yet: the config in force may be impossible */
	FIT_GOOD,    /* the GPUs can have it, or it has another error */
	FIT_REFUSED, /* valid, but impossible on these GPUs; others may have it */
};

struct agent_config {
	struct agent_config_context c;
	char *where;          /* name in messages; NULL: options and variables alone */
	struct strv warnings; /* of the config in force */
	uint64_t since_wall_ns;
	struct error last_error; /* of a newer config, refused; ERR_NONE: none */
	uint64_t last_error_wall_ns;
	enum config_fit fit;
	char waiting[ERROR_MSG_MAX]; /* why no config is decided yet; "" */

	char map_namespace[64], map[CONFIG_ENTRY_NAME_MAX]; /* of the ConfigMap; "": none */
	char *source_text; /* the directory or ConfigMap, for messages; NULL: neither */
	struct strv fallbacks;
	/* NULL: options and variables alone, or no API server yet */
	struct config_source *source;
	struct buf seen; /* name and text of the last check */
	bool forced;     /* a reload came while the entry was not known */

	struct label_wait label;
	uv_timer_t wait; /* for label_wait_tick() */
	bool unsaved;    /* the saved config is not the one in force */
	bool chosen;     /* .entry is chosen, for the reason .by */
	char entry[CONFIG_ENTRY_NAME_MAX];
	enum config_choice_by by;
};

/* Copies *context. Call agent_config_stop() and agent_config_fini() afterwards in any case. */
void agent_config_init(struct agent_config *config, const struct agent_config_context *context);

/*
 * < 0: the options are wrong, or the single file is invalid and no config was saved. Call agent_config_stop() in
 * any case.
 */
int agent_config_start(struct agent_config *config, struct error *err) MUST_USE;

/* The Node is there, with this label; NULL: no label. */
void agent_config_label(struct agent_config *config, const char *uid, const char *label);
void agent_config_with_api(struct agent_config *config,
	struct api *api);                                    /* with .link->node set */
void agent_config_without_api(struct agent_config *config);  /* there will be no API server */
void agent_config_gpus_changed(struct agent_config *config); /* in the facts */
void agent_config_reload(struct agent_config *config); /* checks the source now (SIGHUP) */
void agent_config_retry(struct agent_config *config);  /* saving, if that failed */

/* The loop must run until all handles are closed. Then agent_config_fini() frees the config of the facts. */
void agent_config_stop(struct agent_config *config);
void agent_config_fini(struct agent_config *config);
