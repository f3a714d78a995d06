/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/cluster/condition.h"
#include "node/agent/api/patch.h"
#include "node/agent/config/saved.h"

#include <stdint.h>
#include <string.h>

#define KEEP "nvidia.com/device-plugin.config"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* The agent never removes a label of other clients, or a label that it would never write, whatever the
 * record says. */
static void check_patch(const json_t *patch)
{
	const json_t *labels = json_object_get(json_object_get(patch, "metadata"), "labels");
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)labels, key, value)
	{
		if (json_is_null(value) &&
			(!strcmp(key, KEEP) || (strncmp(key, "nvidia.com/", 11) != 0 &&
						       strncmp(key, "gpuslice.io/", 12) != 0)))
			__builtin_trap();
	}
}

/* A condition of another agent is never made True; a written one is the desired one. */
static void write_condition(const json_t *have)
{
	static const struct node_repair wants[] = { { .state = REPAIR_NONE },
		{ .state = REPAIR_NEEDED, .reason = "R", .message = "M" } };

	for (size_t i = 0; i < ARRAY_LEN(wants); i++) {
		json_t *patch, *now;
		const char *text = json_string_value(json_object_get(have, "message"));
		bool ours = !have || (text && !strncmp(text, "gpuslice: ", 10));

		if (condition_decide(have, &wants[i]) != CONDITION_WRITE)
			continue;
		if (!ours && wants[i].state == REPAIR_NONE)
			__builtin_trap();
		patch = condition_patch("T", have, &wants[i], 0);
		now = json_array_get(
			json_object_get(json_object_get(patch, "status"), "conditions"), 0);
		if (patch && condition_decide(now, &wants[i]) != CONDITION_HEARTBEAT)
			__builtin_trap();
		json_decref(patch);
	}
}

static void patch_node(const json_t *node)
{
	static const struct label wanted[] = { { (char *)(uintptr_t) "nvidia.com/a",
						       (char *)(uintptr_t) "1" },
		{ (char *)(uintptr_t)LABEL_TIMESTAMP, (char *)(uintptr_t) "100" } };
	const struct labels desired = { .v = (struct label *)(uintptr_t)wanted, .n = 2 };
	const json_t *metadata = json_object_get(node, "metadata");
	const char *record = json_string_value(
		json_object_get(json_object_get(metadata, "annotations"), LABEL_RECORD));
	json_t *patch = NULL;

	if (label_patch(&patch, &desired, KEEP, json_object_get(metadata, "labels"), record,
		    NULL) == 0)
		check_patch(patch);
	json_decref(patch);
	write_condition(json_object_get(node, "condition"));
	if (taint_patch(&patch, json_object_get(json_object_get(node, "spec"), "taints"), "t",
		    NULL) == 0)
		json_decref(patch);
}

/* Reads the agent's Node, and the config that the agent kept for a start without a server. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct saved_config saved = { .text = BUF_INIT(0) };
	json_t *node = json_loadb((const char *)data, len, 0, NULL);

	patch_node(node);
	json_decref(node);
	if (saved_config_parse(&saved, (const char *)data, len, "/c", NULL) == 0 &&
		*saved.entry && !config_entry_name_ok(saved.entry))
		__builtin_trap();
	buf_fini(&saved.text);
	return 0;
}
