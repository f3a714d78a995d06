/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whether the node needs a repair because of its GPUs. The agent writes the answer into the Node's
 * condition. Karpenter's and EKS's node repair act on that condition: they reboot or replace the node. So
 * only trouble that does not pass by itself counts: a GPU that is unhealthy because of a fault, a health
 * signal with a .repair, or an XID of the reset or hardware class. An error of a program never causes a
 * repair, however frequent it is.
 * Thread: any (pure).
 */
#include "model/node/node.h"

enum repair_state {
	REPAIR_UNKNOWN, /* NVML is unreadable, and no need of repair is known */
	REPAIR_NONE,
	REPAIR_NEEDED,
};

struct node_repair {
	enum repair_state state;
	/* CamelCase; for an XID as in EKS's node monitoring agent: "NvidiaXID79Error" */
	char reason[64];
	char message[512]; /* readable text; "" unless needed */
};

/* Decides from the last observation of the node. REPAIR_UNKNOWN: the node was never observed. */
void node_repair(const struct node *n, const struct health_policy *p, struct node_repair *ret);
