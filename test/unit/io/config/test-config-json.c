/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/io/config/test-config-read.h"

#include "lib/base/fd.h"

#include <jansson.h>

/* A config as JSON, in the form of NVIDIA's plugin. */

/* Prints as NVIDIA's plugin does, and what is printed reads back as the same. */
static void config_to_json__reads_back(void **state)
{
	static const char *const texts[] = {
		"",
		"flags: {migStrategy: single, useNodeFeatureAPI: no, gfd: {sleepInterval: infinite}}",
		"flags: {mpsRoot: /m, plugin: {deviceListStrategy: []}}\nsharing: {mps: {resources: "
		"[{name: gpu, replicas: 3, devices: [0, 1]}]}}\nimex: {channelIDs: [0]}",
		"sharing: {mps: {computeMode: exclusive, failRequestsGreaterThanOne: no, resources: "
		"[{name: gpu, replicas: 1, devices: [0]}]}, timeSlicing: {renameByDefault: yes, "
		"resources: [{name: gpu, replicas: 4, devices: [1]}, {name: b, replicas: 2}]}, "
		"slices: [{name: gpu, devices: [2], mps: true, profiles: [{name: x, count: 1}]}]}",
		"resources: {gpus: [{pattern: a*, name: a}], mig: [{pattern: b, name: b}]}\n"
		"health: {actXids: all, ignoreXids: [5], cooldown: 1500ms}",
		"health: {xidRules: [{xids: [31, 13], count: 3, within: 1h30m}, {xids: [94], count: 1, "
		"within: 1s, policy: warning}], signals: {drainP2P: ignore, rowRemapPending: "
		"unhealthy}}",
		TS("name: gpu, replicas: 2, rename: x, devices: 3, isolation: {memory: 12.5%}"),
		"sharing: {slices: [{name: gpu, devices: {product: T4}, profiles: [{name: x, count: 1, "
		"memory: 1Gi, compute: capped, unhooked: stop}, {name: z, memory: 12.5%}]}, {name: gpu, "
		"devices: [0], profiles: [{name: k, count: 1, weight: 3, class: latency}]}]}",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		struct config *c = read_good(texts[i], NULL), *again;
		char *text = config_to_json(c), *text_again, *unset;

		assert_non_null(text);
		/* Printed like NVIDIA's plugin prints it, but refused by NVIDIA's loader and by this one. */
		unset = strstr(text, "\"timeSlicing\": {}");
		if (unset)
			memset(unset, ' ', strcspn(unset, "}") + 1 + (unset[17] == ','));
		again = read_good(text, NULL);
		text_again = config_to_json(again);
		/* The built-in patterns are printed too, so compare the rest. */
		assert_true(again->n_gpu_patterns == c->n_gpu_patterns + 1);
		again->n_gpu_patterns--;
		free(again->gpu_patterns[c->n_gpu_patterns].pattern);
		if (c->mig_strategy == MIG_STRATEGY_SINGLE)
			free(again->mig_patterns[--again->n_mig_patterns].pattern);
		if (!config_equal(c, again))
			fail_msg("differs after a round trip:\n%s\n%s", text, text_again);
		free(text);
		free(text_again);
		(void)config_free(c);
		(void)config_free(again);
	}
}

static void config_to_json__has_nvidias_keys(void **state)
{
	struct config *c = read_good("flags: {gfd: {sleepInterval: 5}}", NULL);
	char *text = config_to_json(c);
	json_t *j = json_loads(text, 0, NULL), *flags = json_object_get(j, "flags");
	static const char *const keys[] = { "migStrategy", "failOnInitError", "gdrcopyEnabled",
		"gdsEnabled", "mofedEnabled", "useNodeFeatureAPI", "deviceDiscoveryStrategy" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		assert_non_null(json_object_get(flags, keys[i]));
	assert_true(json_is_null(json_object_get(flags, "useNodeFeatureAPI")));
	assert_int_equal(json_object_size(json_object_get(flags, "gfd")), 5);
	assert_string_equal(json_string_value(json_object_get(json_object_get(flags, "gfd"),
				    "sleepInterval")),
		"5ns");
	assert_int_equal(
		json_object_size(json_object_get(json_object_get(j, "sharing"), "timeSlicing")),
		0);
	json_decref(j);
	free(text);
	(void)config_free(c);
	c = read_good("", NULL);
	text = config_to_json(c);
	assert_null(strstr(text, "gfd"));
	free(text);
	(void)config_free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(config_to_json__reads_back),
		cmocka_unit_test(config_to_json__has_nvidias_keys),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
