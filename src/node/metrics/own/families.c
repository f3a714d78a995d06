/* SPDX-License-Identifier: Apache-2.0 */
#include "node/metrics/own/own.h"

static const struct family_group {
	const struct metrics_table *tables;
	size_t n;
} groups[] = {
	{ metrics_node_tables, ARRAY_LEN(metrics_node_tables) },
	{ metrics_resource_tables, ARRAY_LEN(metrics_resource_tables) },
	{ metrics_gpu_tables, ARRAY_LEN(metrics_gpu_tables) },
	{ metrics_device_tables, ARRAY_LEN(metrics_device_tables) },
	{ metrics_container_tables, ARRAY_LEN(metrics_container_tables) },
	{ metrics_slice_tables, ARRAY_LEN(metrics_slice_tables) },
	{ metrics_opencost_tables, ARRAY_LEN(metrics_opencost_tables) },
	{ metrics_agent_tables, ARRAY_LEN(metrics_agent_tables) },
	{ metrics_web_tables, ARRAY_LEN(metrics_web_tables) },
};

const struct metrics_family *metrics_family_at(size_t i)
{
	for (size_t g = 0; g < ARRAY_LEN(groups); g++) {
		for (size_t t = 0; t < groups[g].n; t++) {
			const struct metrics_table *table = &groups[g].tables[t];

			if (i < table->n)
				return table->families ? &table->families[i]
						       : &table->rows[i].family;
			i -= table->n;
		}
	}
	return NULL;
}
