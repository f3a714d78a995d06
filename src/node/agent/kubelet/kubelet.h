/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The agent's side of the kubelet: a device plugin for each resource of the offer, the directory of their sockets,
 * and the PodResources socket. io/kubelet has the protocol; this module decides which resources it serves, and
 * answers GetPreferredAllocation and Allocate from the facts.
 * Thread: loop.
 */
#include "node/agent/base/facts.h"
#include "node/agent/base/loop.h"
#include "node/agent/base/report.h"
#include "node/agent/kubelet/cdi.h"
#include "node/agent/kubelet/pod-resources-cache.h"
#include "lib/base/buf.h"

#include <limits.h>

/* What the kubelet's side asks of the agent. Devices are those of the offer in force. */
struct agent_kubelet_ops {
	/* Whether allocate() would succeed now, without an effect. */
	int (*check)(void *arg, const struct resource *r, const char *const *ids, size_t n_ids,
		struct error *err);
	/* Adds to @answer what limits and MPS need, and creates it on the node. */
	int (*allocate)(void *arg, const struct resource *r, const char *const *ids,
		size_t n_ids, struct allocation *answer, struct error *err);
	/* An Allocate for @resource was answered; @ok: not with an error. */
	void (*allocated)(void *arg, const char *resource, const char *const *ids, size_t n_ids,
		bool ok);
	/* Whether what shares the device works; *ret_why, unless NULL: why not. */
	bool (*device_ok)(void *arg, const struct resource *r, const struct offer_device *d,
		const char **ret_why);
};

/* What the kubelet's side depends on. All borrowed. */
struct agent_kubelet_context {
	uv_loop_t *loop;
	const struct facts *facts;
	const struct reporter *reporter;
	const struct agent_cdi *cdi;
	struct wake *wake;
	struct failure *failure;
	const struct agent_kubelet_ops *ops;
	void *arg; /* of .ops */
};

struct agent_plugin;

struct agent_kubelet {
	struct agent_kubelet_context c;
	char dir[PATH_MAX], plugin_dir[PATH_MAX];
	char *socket; /* NULL: option not given; "": never register */
	struct rpc *rpc;
	struct agent_plugin **plugins; /* in order of creation */
	size_t n_plugins;
	bool served; /* a plugin socket was served at least once */
	struct kubelet_watch *watch;
	struct pod_resources_cache *pod_resources;
};

/* Copies *context; opens nothing. */
void agent_kubelet_init(struct agent_kubelet *k, const struct agent_kubelet_context *context);

/*
 * Sets the kubelet's directory, and its socket for registrations (NULL: the one in its directory). Fails if a path is
 * too long: the agent could never reach a kubelet.
 */
int agent_kubelet_set_paths(struct agent_kubelet *k, const char *dir, const char *socket,
	struct error *err) MUST_USE;

/* Starts the watch of the kubelet's directory. Before that, agent_kubelet_set_paths() has set it. Plugins are served
 * by agent_kubelet_sync(). */
int agent_kubelet_start(struct agent_kubelet *k, struct error *err) MUST_USE;

/* Answers the requests that wait for the kubelet. No callback runs afterwards. The loop must run once more. */
void agent_kubelet_stop(struct agent_kubelet *k);
void agent_kubelet_fini(struct agent_kubelet *k);

/*
 * Serves the resources of the offer in force, with their devices. Withdraws the others: first their devices, and
 * their sockets a moment later.
 */
void agent_kubelet_sync(struct agent_kubelet *k);

/* When agent_kubelet_sync() is due again (monotonic, ns); UINT64_MAX: after the next change. */
uint64_t agent_kubelet_due(const struct agent_kubelet *k, uint64_t now_ns);

/* Checks the kubelet's directory, as after an event in it. */
void agent_kubelet_check_dir(struct agent_kubelet *k);

/* Finds the devices of each resource that Allocate would refuse now; true: they changed. */
bool agent_kubelet_try(struct agent_kubelet *k);

/* Whether an offered device is usable; *ret_why, unless NULL: why not, for users. */
bool agent_kubelet_device_ok(const struct agent_kubelet *k, const struct resource *r,
	const struct offer_device *d, const char **ret_why);

/* Why the listed device @uuid is not allocatable, whatever its health; "": it is. Borrowed. */
const char *agent_kubelet_refusal(const struct agent_kubelet *k, const char *uuid);

/* The state of a resource, such as "registered"; *ret_why: why not. Borrowed. */
const char *agent_kubelet_state(const struct agent_kubelet *k, const char *resource,
	const char **ret_why);

/* Whether every resource of the offer is registered. Else @why gets one line per reason. */
bool agent_kubelet_ready(const struct agent_kubelet *k, struct buf *why);
