/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"

#include "testbed/sim/node-file/node-file.h"

#include <stdlib.h>
#include <string.h>

/* Reads one node file. A file that is accepted is within the limits; an error has its place and reason. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct sim_node node; /* megabytes: made once */
	struct error err = ERROR_INIT;
	int r = sim_node_parse((const char *)data, size, "n.yaml", &node, &err);

	if (r < 0) {
		if (err.code == ERR_NONE || strncmp(err.msg, "n.yaml:", 7) != 0)
			abort();
		return 0;
	}
	if (r > 0 || node.head.info.slot_count == 0 || node.head.info.slot_count > SIM_MAX_GPUS)
		abort();
	for (uint32_t i = 0; i < node.head.info.slot_count; i++) {
		const struct sim_keys *k = &node.gpus[i].keys;

		/* All text ends inside its field, and every key can be read back. */
		for (size_t j = 0; j < sim_key_count; j++) {
			struct sim_keys again = *k;
			char text[128];

			sim_key_format(k, &sim_key_table[j], text, sizeof(text));
			if (sim_key_set(&again, &sim_key_table[j], text, NULL) < 0 ||
				memcmp(&again, k, sizeof(again)) != 0)
				abort();
		}
	}
	return 0;
}
