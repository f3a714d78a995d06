/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/kubelet/host.h"

#include "lib/base/fd.h"

#include <limits.h>
#include <unistd.h>

/* Device nodes that every container needs besides those of its GPUs, in the order of the answer. */
static const char *const control_nodes[] = { "/dev/nvidiactl", "/dev/nvidia-uvm",
	"/dev/nvidia-uvm-tools", "/dev/nvidia-modeset" };

#define IMEX_CHANNEL0 "/dev/nvidia-caps-imex-channels/channel0"

bool host_has_node(const struct config *c, const char *node)
{
	char path[PATH_MAX];

	if (path_join(path, sizeof(path), c->container_driver_root, node + 1, NULL) == 0 &&
		access(path, F_OK) == 0)
		return true;
	return access(node, F_OK) == 0;
}

int alloc_host_probe(struct alloc_host *ret, const struct config *c, struct error *err)
{
	for (size_t i = 0; i < ARRAY_LEN(control_nodes); i++) {
		if (host_has_node(c, control_nodes[i]) &&
			strv_add(&ret->control_nodes, control_nodes[i], err) < 0)
			return -1;
	}
	ret->imex_channel0 = c->imex_channel0 && host_has_node(c, IMEX_CHANNEL0);
	if (c->imex_channel0 && c->imex_required && !ret->imex_channel0)
		return error_set(err, ERR_NOT_FOUND,
			"error querying IMEX channels: requested IMEX channel channel0 does not "
			"exist");
	return 0;
}

void alloc_host_fini(struct alloc_host *h)
{
	strv_fini(&h->control_nodes);
}
