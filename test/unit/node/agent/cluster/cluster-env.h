/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The agent's side of a scripted API server, with facts of its own, and an agent that records the reports. */
#include "unit/node/agent/agent-fixture.h"
#include "unit/node/agent/api/node-env.h"

#include "node/agent/cluster/cluster.h"

#include <limits.h>

#define TAINT     "gpuslice.io/not-ready"
#define CONDITION "AcceleratedHardwareReady"

struct cluster_env {
	struct node_env *n;
	struct agent_fixture *f;
	struct cluster_context context; /* set .options before cluster_env_init() */
	struct cluster_client c;
	bool inited;
	char kubeconfig[PATH_MAX]; /* of options; not there at first */
	bool ready;                /* the result of .node_ready() */
	unsigned changed, api_ready, api_unavailable;
	char order[64];   /* of the calls: c, r, u */
	struct error why; /* of api_unavailable */
};

int cluster_env_setup(void **state);
int cluster_env_teardown(void **state);

/* Writes the kubeconfig: "" leads to our server, else that text. NULL: none. */
void cluster_env_kubeconfig(struct cluster_env *x, const char *text);
void cluster_env_init(struct cluster_env *x);
/* Runs with a kubeconfig from init until our Node, which is @object, is watched. No config is decided yet. */
void cluster_env_open(struct cluster_env *x, const char *object);
/* NVML has reported @n GPUs, of which the first has @fault; the config is in force. */
void cluster_env_know(struct cluster_env *x, uint32_t n, enum gpu_fault fault);

/* Runs the loop of the server until a condition is true. */
#define cluster_env_until(x, condition)                                     \
	do {                                                                \
		bool in_time_ = true;                                       \
		patience_start(&(x)->n->e->patience, FIXTURE_WAIT_MS);      \
		while (!(condition) && in_time_)                            \
			in_time_ = patience_run_once(&(x)->n->e->patience); \
		patience_stop(&(x)->n->e->patience);                        \
		if (!(condition))                                           \
			fail_msg("waited in vain for %s", #condition);      \
	} while (0)

#define CLUSTER_TEST(f) \
	cmocka_unit_test_setup_teardown(f, cluster_env_setup, cluster_env_teardown)
