/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The status and health servers of this node: status, health and the view on a unix socket of the run
 * directory, health alone over TCP, for probes. serve.h has metrics and the status page. Thread: loop.
 */
#include "node/agent/base/report.h"
#include "node/agent/serve/status.h"
#include "node/view/view.h"
#include "lib/base/buf.h"
#include "lib/base/error.h"

#include <stdbool.h>
#include <uv.h>

/* What the servers ask of the agent. */
struct agent_http_ops {
	/* Whether every resource is registered and nothing fails. Else @why gets one line per reason. */
	bool (*is_ready)(void *arg, struct buf *why);
	/* Calls @done once, now or later: slices_status() has fresh figures, or the arbiter is unavailable. */
	void (*refresh_slices)(void *arg, void (*done)(void *done_arg), void *done_arg);
	/* pod_resources_cache_request() (kubelet/pod-resources-cache.h). */
	void (*request_pod_devices)(void *arg,
		void (*done)(void *done_arg, const struct pod_devices *list,
			const struct error *err),
		void *done_arg);
	/* The present view, a new reference that the caller owns. Errors: ERR_UNAVAILABLE, with a text for users. */
	int (*get_view)(void *arg, struct view **ret, struct error *err);
};

/* What the servers depend on. All borrowed. */
struct agent_http_context {
	uv_loop_t *loop;
	const struct reporter *reporter;
	const char *run_dir; /* holds the socket, AGENT_SOCKET; is made if it is missing */
	/* TCP, health only (lib/http/health/server.h); NULL or "": unix socket only. */
	const char *listen;
	struct agent_status_context status;
	const struct agent_http_ops *ops;
	void *arg; /* of .ops */
};

struct agent_http {
	struct agent_http_context c;
	struct http_server *local; /* NULL: not served now */
	struct health_server *tcp;
};

/* Serves nothing yet. */
void agent_http_init(struct agent_http *h, const struct agent_http_context *context);

/*
 * Serves what is not served yet, and the socket again if it has vanished. What fails is reported as a
 * component. Call this at the start, and periodically to retry.
 */
void agent_http_sync(struct agent_http *h);

/*
 * Drops unanswered requests: end those that wait for .refresh_slices or .request_pod_devices before. Handles
 * close as the loop runs.
 */
void agent_http_stop(struct agent_http *h);
