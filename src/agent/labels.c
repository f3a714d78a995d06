/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/internal.h"

#include "base/time.h"
#include "core/labels.h"

int agent_labels(struct agent *a, struct labels **ret, struct error *err)
{
	const struct config *c = a->config.config;
	const struct label_facts facts = {
		.timestamp_s = c->gfd.no_timestamp ? 0 : a->started_wall_ns / NS_PER_SEC,
	};

	return labels_new(ret, a->node.inv, c, &facts, NULL, err);
}
