/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the tests of the device plugin share: a small kubelet, and the owner of one plugin. */
#include "support/test.h"

#include "lib/base/time.h"
#include "io/kubelet/device-plugin.h"
#include "support/patience.h"

#define RESOURCE "nvidia.com/gpu"

/*
 * The kubelet's side, as small as possible: a registration server. It dials the plugin and asks for its options
 * before it answers, and then watches. Its table of clients has one place, as the real table has one for each
 * name. A new registration takes the place. When a stream has ended, the kubelet disconnects the client that has
 * the place then.
 */
struct kubelet {
	struct rpc_server *server;
	enum { KUBELET_GOOD, KUBELET_REFUSES, KUBELET_SILENT, KUBELET_DIES } mode;
	bool closes_late; /* 100 ms between the end of a stream and the disconnect */
	unsigned registers, options, lists, ends, disconnects;
	char endpoint[64], version[16], resource[64];
	struct plugin_options announced, answered;
	struct rpc_call *register_call;
	struct rpc_client *client;
	struct rpc_stream *stream;
	struct plugin_devices devices;
	uint64_t ended_ns, registered_ns;
	uv_timer_t late;
};

struct env {
	uv_loop_t loop;
	struct patience patience;
	struct rpc *rpc;
	char *dir;
	char kubelet_path[108], plugin_path[108];
	struct kubelet kubelet;
	struct plugin *plugin;
	unsigned state_calls;
	bool registered;
	char why[512];
};

extern struct env env;

int plugin_env_setup(void **state);
int plugin_env_teardown(void **state);

/* Runs the loop until the condition holds; fails after @ms. */
#define run_until(condition, ms)                                           \
	do {                                                               \
		patience_start(&env.patience, ms);                         \
		while (!(condition) && patience_run_once(&env.patience))   \
			;                                                  \
		patience_stop(&env.patience);                              \
		if (!(condition))                                          \
			fail_msg("in vain: %s (%s)", #condition, env.why); \
	} while (0)

void run_for_ms(unsigned ms);

/* Deletes every socket, as the kubelet does, and listens again. */
void kubelet_start(struct kubelet *k);
void kubelet_stop(struct kubelet *k);
void kubelet_disconnect_late(uv_timer_t *t); /* for struct kubelet.late */

/* The plugin's owner: GPU-0 and GPU-1, of which GPU-0 can be allocated. */
extern const struct plugin_ops plugin_env_ops;
void start_plugin(void);
void set_devices(bool healthy); /* GPU-1 */
bool is_up(void);               /* registered, watched and listed */

/* Calls a method of the plugin as the kubelet would, and waits. Takes the request's memory. */
struct plugin_reply {
	enum rpc_status status;
	char text[512];
	struct buf reply;
	bool answered;
};

extern struct plugin_reply got;
void call(const char *method, struct buf *request);
