/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One resource as a kubelet device plugin, v1beta1: its socket, its streams, its registration.
 *
 * The owner says what the devices are (plugin_set_devices(), as often as it likes) and answers
 * GetPreferredAllocation and Allocate through callbacks. This module serves, registers, registers
 * again when the kubelet has restarted or has dropped our stream, and notices when its socket
 * file was deleted (docs/kubelet.md).
 * Thread: loop.
 */
#include "model/allocate/allocate.h"
#include "model/prefer/prefer.h"
#include "io/kubelet/messages/messages.h" /* struct plugin_device */
#include "io/kubelet/rpc/rpc.h"

struct plugin;

struct plugin_ops {
	/* Answer into @ret_ids (room for size ids, borrowed from the request) or fail. NULL: this
	 * plugin has no preferences and says so. */
	int (*prefer)(void *arg, const struct prefer_request *req, const char **ret_ids,
		size_t *ret_n, struct error *err);
	int (*allocate)(void *arg, const char *const *ids, size_t n_ids,
		struct allocation **ret, struct error *err);
	/* For status and logs: registered or not, and why not; runs when one of the two changes.
	 * May be NULL. Not the place for plugin_stop(). */
	void (*state)(void *arg, bool registered, const char *why);
};

enum plugin_state { PLUGIN_WAITING, PLUGIN_REGISTERING, PLUGIN_REGISTERED };

/*
 * Serves the resource @name on "<dir>/nvidia-<name after the slash>.sock" (for another domain than
 * nvidia.com: "<dir>/<domain>-<name>.sock") and registers with "<dir>/kubelet.sock" (or
 * @kubelet_socket if not NULL; "" means: never register) as soon as that exists. Returns when the
 * socket is listening; registration goes on by itself, from the loop. No callback before that.
 * ERR_EXISTS: another process serves that socket. ERR_INVALID: a file that is no socket has its name. ERR_LIMIT: a path is
 * too long.
 */
int plugin_start(struct plugin **ret, struct rpc *rpc, const char *dir,
	const char *kubelet_socket, const char *name, const struct plugin_ops *ops, void *arg,
	struct error *err) MUST_USE;

/* The complete list; sent to every open stream if it differs from the last. On an error (an id
 * that is not UTF-8, more than MESSAGE_TO_KUBELET_MAX bytes) the last list stays. */
int plugin_set_devices(struct plugin *p, const struct plugin_device *devices, size_t n,
	struct error *err) MUST_USE;

/* Something happened in the plugin directory, or time passed: look whether our socket and the
 * kubelet's are the ones that we know, and do what is needed. Cheap; call it freely. It also runs
 * by itself every two seconds. */
void plugin_sync(struct plugin *p);

/* *ret_why is borrowed until the next callback; "" if there is nothing to say. May be NULL. */
enum plugin_state plugin_state(const struct plugin *p, const char **ret_why);
const char *plugin_name(const struct plugin *p);
unsigned plugin_watches(const struct plugin *p); /* open ListAndWatch streams */

/* Ends streams, closes the socket, frees. No callback after it. Returns NULL. */
struct plugin *plugin_stop(struct plugin *p);
