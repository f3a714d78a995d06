/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Shared by the files of the kubelet: kubelet.c (life), plugins.c (registration and
 * streams), admission.c (allocation), pods.c (PodResources), faults.c.
 * Thread: loop.
 */
#include "testbed/standin/kubelet/kubelet.h"
#include "testbed/standin/once-timer.h"

#include <sys/queue.h>

#define KUBELET_PATH_MAX 108 /* sun_path */

/* One registered plugin: the kubelet's client for it. */
struct plugin_conn {
	TAILQ_ENTRY(plugin_conn) link;
	struct kubelet *k;
	char *resource, *endpoint;
	struct rpc_client *client; /* NULL during close */
	struct rpc_stream *stream, *duplicate;
	struct rpc_call *registering; /* Register call that waits for the options call */
	bool current;                 /* the last one registered for the resource */
};

/* One pod on its way from bound to running. */
struct admission {
	struct kubelet *k;
	bool dead; /* aborted: the callback frees it */
	char *uid;
	size_t container, want; /* position in the pod's spec */
	struct device_choice choice;
	bool starting; /* all is allocated: PreStartContainer calls */
};

struct token_bucket {
	uint64_t last_ns;
	uint64_t tokens_ns; /* one token is 10 ms of time */
};

struct kubelet {
	struct rpc *rpc;
	uv_loop_t *loop;
	const struct kubelet_ops *ops;
	void *arg;
	struct simulated_cluster *cluster;
	struct device_manager *devices;
	char *dir;
	bool started; /* at least once: the directory belongs to this kubelet */
	char plugin_dir[KUBELET_PATH_MAX], register_path[KUBELET_PATH_MAX];
	char pods_dir[KUBELET_PATH_MAX], pods_path[KUBELET_PATH_MAX];
	struct rpc_server *registration, *pods;
	TAILQ_HEAD(, plugin_conn) conns;
	struct admission *admission;
	struct once_timer *expiry, *notify;
	struct token_bucket bucket;
	struct kubelet_faults faults;
	struct kubelet_counts counts;
	int *slow_fds; /* connections that never read */
	size_t n_slow_fds;
	LIST_HEAD(, delayed_reply) delayed;
};

/* Notifies the owner from the loop, once for any number of changes. */
void kubelet_changed(struct kubelet *k);

/* Runs @fn with the call after the delay of the fault; immediately without a delay. */
void kubelet_delay_reply(struct kubelet *k, struct rpc_call *call,
	void (*fn)(struct kubelet *k, struct rpc_call *call, const uint8_t *data, size_t len),
	const uint8_t *data, size_t len);

/* plugins.c */
/* The method Register of the v1beta1 Registration service. */
extern const struct rpc_method kubelet_registration_methods[1];
/* Closes all connections, without changes of devices or pods. */
void kubelet_close_conns(struct kubelet *k);
struct plugin_conn *kubelet_conn(const struct kubelet *k, const char *resource); /* current */
/*
 * A plugin's stream has ended: closes the connection. If it was the current one, the devices of its resource
 * become unhealthy. @c is invalid after that.
 */
void kubelet_conn_lost(struct plugin_conn *c);
/* A ListAndWatch message of the plugin_conn @arg. An invalid list closes the connection. */
void kubelet_on_devices(void *arg, const uint8_t *data, size_t len);

/* admission.c */
/* Ends the current admission, if any: frees the devices of the pod and sets its phase. */
void kubelet_abort_admission(struct kubelet *k, enum pod_phase phase);

/* pods.c */
/* The methods List and GetAllocatableResources of the PodResources service. */
extern const struct rpc_method kubelet_pod_methods[2];
/* 100 requests a second, bursts of 10. Pure. */
bool token_bucket_consume(struct token_bucket *b, uint64_t now_ns);

/* "rpc error: code = Unknown desc = ...", as Go prints a status. */
void kubelet_status_text(char *ret, size_t cap, enum rpc_status status, const char *text);
