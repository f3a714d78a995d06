/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The config of an agent with a state directory and small files, for its tests. A test sets the GPUs. */
#include "unit/node/agent/agent-fixture.h"

#include "node/agent/config/config.h"

#include <limits.h>

/* A config with so many replicas of each GPU. */
#define SHARING(n)                                                                              \
	"version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: " #n \
	"}]}}\n"

struct config_env {
	struct agent_fixture *f;
	uv_loop_t *loop; /* of the config; that of .f unless a test has another */
	struct api_link link;
	struct agent_config config;
	struct agent_config_options options;
	struct strv fallbacks;
	bool running;
	char state_dir[PATH_MAX], kept[PATH_MAX]; /* and the file in it */
	char file[PATH_MAX], dir[PATH_MAX];       /* where configs can be */
	unsigned changes, moves;                  /* as the agent received them */
};

/* cmocka's; *state is a struct config_env without options. Teardown ends what runs. */
int config_env_setup(void **state);
int config_env_teardown(void **state);

/* A start of the agent: 0 or < 0, as agent_config_start(). */
int config_env_try(struct config_env *e, struct error *err);
void config_env_start(struct config_env *e); /* it has to be a good one */
/* The end of the agent: GPUs and config are unknown again, what is in files stays. */
void config_env_stop(struct config_env *e);

/* The node has these GPUs now, instead of the former ones. */
void config_env_probe(struct config_env *e, uint32_t n_gpus);

/* Writes the single file, or an entry of the directory. */
void config_env_file(struct config_env *e, const char *text);
void config_env_entry(struct config_env *e, const char *name, const char *text);

/* Replicas of the config in force; 0: it does not share. */
uint32_t config_env_replicas(const struct config_env *e);

/* Undecided: no config is in force yet. Good: a config with @replicas is in force, and no newer one was
 * refused. Refused: a newer one was refused, with @why in the error. */
void assert_undecided(const struct config_env *e);
void assert_good(const struct config_env *e, uint32_t replicas);
void assert_refused(const struct config_env *e, uint32_t replicas, const char *why);
/* What chose the config in force. */
void assert_chosen(const struct config_env *e, enum config_choice_by by, const char *entry);
