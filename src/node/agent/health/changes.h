/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Logs each change of a device's health, and emits an Event, once: a GPU or MIG device became unhealthy, for another
 * reason, or healthy again; it got a warning, or lost it. A MIG device of an unhealthy GPU is not logged, as the GPU is.
 * Thread: loop.
 */
#include "node/agent/base/report.h"
#include "model/node/node.h"

struct logged_device;

struct health_changes {
	const struct reporter *reporter; /* borrowed */
	struct logged_device *devices;   /* what was last logged of each */
	size_t n, room;
};

/* Compares the health of @n, which has an inventory, with what was last logged. */
void health_changes_log(struct health_changes *c, const struct node *n);

void health_changes_fini(struct health_changes *c);
