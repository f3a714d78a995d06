/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One resource as a kubelet device plugin, v1beta1: its socket, its streams, its registration.
 *
 * The owner sets the devices (plugin_set_devices(), as often as it likes), and answers GetPreferredAllocation
 * and Allocate through callbacks. The plugin serves and registers. It registers again when the kubelet has
 * restarted or has dropped the plugin's stream. It listens again when its socket file was deleted
 * (docs/kubelet.md).
 * Thread: loop.
 */
#include "model/allocate/allocate.h"
#include "model/prefer/prefer.h"
#include "io/kubelet/messages/messages.h" /* struct plugin_device */
#include "io/kubelet/rpc/rpc.h"

struct plugin;

struct plugin_ops {
	/* Answers into @ret_ids (room for .size ids, borrowed from the request), or fails. NULL: the plugin
	 * reports to the kubelet that it has no preferences. */
	int (*prefer)(void *arg, const struct prefer_request *req, const char **ret_ids,
		size_t *ret_n, struct error *err);
	int (*allocate)(void *arg, const char *const *ids, size_t n_ids,
		struct allocation **ret, struct error *err);
	/* For status and logs: whether the plugin is registered, and why not. Runs when either changes. May
	 * be NULL. Must not call plugin_stop(). */
	void (*state)(void *arg, bool registered, const char *why);
};

enum plugin_state { PLUGIN_WAITING, PLUGIN_REGISTERING, PLUGIN_REGISTERED };

/*
 * Serves the resource @name on "<dir>/nvidia-<name after the slash>.sock" (for another domain than nvidia.com:
 * "<dir>/<domain>-<name>.sock"). Registers with "<dir>/kubelet.sock" as soon as that exists, or with
 * @kubelet_socket if not NULL ("": never). Returns when the socket is listening. The registration goes on from
 * the loop; no callback runs before. ERR_EXISTS: another process serves that socket. ERR_INVALID: @name is
 * malformed, or a file that is no socket has the socket's name. ERR_LIMIT: a path is too long.
 */
int plugin_start(struct plugin **ret, struct rpc *rpc, const char *dir,
	const char *kubelet_socket, const char *name, const struct plugin_ops *ops, void *arg,
	struct error *err) MUST_USE;

/* Sets the complete list, and sends it to every open stream if it differs from the last. On an error (an id
 * that is not UTF-8, more than MESSAGE_TO_KUBELET_MAX bytes) the last list stays. */
int plugin_set_devices(struct plugin *p, const struct plugin_device *devices, size_t n,
	struct error *err) MUST_USE;

/*
 * Checks whether the plugin's socket and the kubelet's are still the known ones, and does what is needed. Call
 * it after an event in the plugin directory; it is cheap. It also runs by itself: every 2 s, or after up to 5 s
 * while the plugin waits for a retry or for the kubelet's ListAndWatch.
 */
void plugin_sync(struct plugin *p);

/* *ret_why: borrowed until the next callback; "" if there is no reason. @ret_why may be NULL. */
enum plugin_state plugin_state(const struct plugin *p, const char **ret_why);

/* Ends the streams, closes the socket, frees. No callback runs afterwards. Returns NULL. */
struct plugin *plugin_stop(struct plugin *p);
