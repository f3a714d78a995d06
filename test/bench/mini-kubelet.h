/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The least that a device plugin needs of a kubelet, with a clock on it: a Registration server, and
 * a client for what registered. Blocking calls that run the loop inside. For benchmarks.
 * Thread: main.
 */
#include "lib/base/error.h"
#include "io/kubelet/messages/messages.h"
#include "io/kubelet/rpc/rpc.h"

struct mini_kubelet {
	uv_loop_t loop;
	uv_timer_t deadline;
	struct rpc *rpc;
	struct rpc_server *server;
	struct rpc_client *plugin;
	struct rpc_stream *stream;
	char dir[64];       /* the device-plugin directory */
	char endpoint[128]; /* of the last registration */
	uint64_t registered_ns;
	uint64_t listed_ns; /* when the last list came */
	size_t n_devices;   /* in it */
	char (*ids)[128];   /* of it; [n_devices] */
	bool timed_out, called;
	enum rpc_status call_status;
};

/* Serves <dir>/kubelet.sock. */
int mini_kubelet_start(struct mini_kubelet *k, const char *dir, struct error *err) MUST_USE;
void mini_kubelet_stop(struct mini_kubelet *k);

/* Runs the loop until a registration has come since @since_ns; then opens ListAndWatch and waits
 * for the first list. */
int mini_kubelet_wait_registered(struct mini_kubelet *k, uint64_t since_ns, uint64_t timeout_ns,
	struct error *err) MUST_USE;

/* Runs the loop until a list of @n devices has come. */
int mini_kubelet_wait_devices(struct mini_kubelet *k, size_t n, uint64_t timeout_ns,
	struct error *err) MUST_USE;

/* One Allocate of the device @id; *ret_ns is the time from call to answer. */
int mini_kubelet_allocate(struct mini_kubelet *k, const char *id, uint64_t *ret_ns,
	struct error *err) MUST_USE;

/* Runs the loop for a while. */
void mini_kubelet_run(struct mini_kubelet *k, uint64_t ns);
