/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What an allocation needs to know of the host's device nodes.
 *
 * Thread: any.
 */
#include "lib/base/error.h"
#include "model/allocate/allocate.h"

#include <stdbool.h>

/*
 * Whether the host has the device node @node, as far as the agent can see: below the driver root's mount, or in
 * the agent's own /dev, where NVIDIA's container runtime puts device nodes.
 */
bool host_has_node(const struct config *c, const char *node);

/*
 * Fills *ret, which starts empty and is the caller's also after an error: alloc_host_fini(). ERR_NOT_FOUND: the
 * config requires an IMEX channel that the host does not have.
 */
int alloc_host_probe(struct alloc_host *ret, const struct config *c,
	struct error *err) MUST_USE;
void alloc_host_fini(struct alloc_host *h);
