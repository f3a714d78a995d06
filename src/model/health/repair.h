/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whether the node needs a repair because of its GPUs: what the agent writes into the Node's condition, on which
 * Karpenter's and EKS's node repair act by rebooting or replacing the node. So only what does not pass by itself
 * counts: a GPU that is unhealthy because of a fault, a health signal that has a .repair, or an XID of the reset or
 * hardware class. An error of a program never asks for a repair, however often it comes.
 * Thread: any (pure).
 */
#include "model/node/node.h"

enum repair_state {
	REPAIR_UNKNOWN, /* NVML cannot be read, and nothing that needs a repair is known */
	REPAIR_NONE,
	REPAIR_NEEDED,
};

struct node_repair {
	enum repair_state state;
	char reason
		[64]; /* CamelCase; of an XID as EKS's node monitoring agent has it: "NvidiaXID79Error" */
	char message[512]; /* for people; "" unless needed */
};

/* Decides from the node as it was observed last; a node that was never observed is REPAIR_UNKNOWN. */
void node_repair(const struct node *n, const struct health_policy *p, struct node_repair *ret);
