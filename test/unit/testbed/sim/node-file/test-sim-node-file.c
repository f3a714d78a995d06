/* SPDX-License-Identifier: Apache-2.0 */

/* Node files: their keys, and the error of each mistake. */
#include "unit/testbed/sim/sim-fixture.h"

#include "abi/nvml-api.h"
#include "testbed/sim/node-file/node-file.h"

static struct sim_node *node;

static int begin(void **state)
{
	(void)state;
	node = calloc(1, sizeof(*node));
	return node ? 0 : -1;
}

static int end(void **state)
{
	(void)state;
	free(node);
	return 0;
}

static int parse_node_file(const char *text, struct error *err)
{
	return sim_node_parse(text, strlen(text), "dir/my-node.yaml", node, err);
}

static void file__has_full_control(void **state)
{
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(
		parse_node_file(
			"version: v1\n"
			"model: p3.8xlarge\n"
			"seed: 7\n"
			"driver: {version: 550.163.01, cuda: 12040, nvml: 12}\n"
			"gpu: {persistence: 0}\n"
			"gpus:\n"
			"- index: 1\n"
			"  memory_total: 8Gi\n"
			"  product: T4\n"
			"  name: \"My T4\"\n"
			"- {index: 3, uuid: GPU-1, numa_node: -1, fail: {power: NOT_SUPPORTED, energy: 999}}\n",
			&err),
		&err);
	assert_string_equal(node->head.name, "my-node");
	assert_int_equal(node->head.info.slot_count, 4);
	assert_string_equal(node->head.driver_version, "550.163.01");
	assert_int_equal(node->head.info.cuda_version, 12040);
	assert_int_equal(node->gpus[0].keys.persistence, 0);
	assert_string_equal(node->gpus[1].keys.product, "T4");
	assert_string_equal(node->gpus[1].keys.name, "My T4");
	assert_int_equal(node->gpus[1].keys.memory_total, 8 * SIM_GIB);
	assert_int_equal(node->gpus[1].keys.minor, 1);
	assert_int_equal(node->gpus[1].keys.pci_device, 0x1C);
	assert_string_equal(node->gpus[3].keys.uuid, "GPU-1");
	assert_int_equal(node->gpus[3].fail[SIM_GROUP_POWER], 3);
	assert_int_equal(node->gpus[3].fail[SIM_GROUP_ENERGY], 999);
}

static void file__accepts_json_and_a_bare_product(void **state)
{
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(
		parse_node_file(
			"{\"version\": \"v1\", \"product\": \"T4\", \"count\": 12, \"name\": \"x\"}",
			&err),
		&err);
	assert_int_equal(node->head.info.slot_count, 12);
	assert_string_equal(node->head.name, "x");
	assert_int_equal(node->gpus[11].keys.minor, 11);
}

static void file__mistakes_name_place_key_and_expectation(void **state)
{
	static const struct {
		const char *text, *want;
	} rows[] = {
		{ "", "dir/my-node.yaml:1:1: " },
		{ "[1, 2]",
			"dir/my-node.yaml:1:1: node file: expected a mapping, found a list" },
		{ "version: v2\nmodel: p3.2xlarge",
			"dir/my-node.yaml:1:10: version: expected v1, found 'v2'" },
		{ "version: v1", "expected a key model or product" },
		{ "model: p3.2xlarge\nproduct: T4", "expected model or product, found both" },
		{ "model: p9.large", "dir/my-node.yaml:1:8: model: expected a model" },
		{ "product: T9", "dir/my-node.yaml:1:10: product: expected a product" },
		{ "model: p3.2xlarge\ncount: 0",
			":2:8: count: expected a number from 1 to 256, found '0'" },
		{ "model: p3.2xlarge\ncount: 257", "from 1 to 256, found '257'" },
		{ "model: p3.2xlarge\ncount: many", "found 'many'" },
		{ "model: p3.2xlarge\ncounts: 2",
			":2:1: counts: unknown key, expected version" },
		{ "model: p3.2xlarge\ngpu: 3", "gpu: expected a mapping, found a scalar" },
		{ "model: p3.2xlarge\ngpu: {power: 3}", ":2:7: power: unknown key" },
		{ "model: p3.2xlarge\ngpu: {minor: x}",
			":2:14: minor: expected a number from 0 to 1023, found 'x'" },
		{ "model: p3.2xlarge\ngpu: {name: [a]}",
			":2:7: name: expected a scalar, found a list" },
		{ "model: p3.2xlarge\ngpu: {fail: {powr: 3}}", "powr: unknown group" },
		{ "model: p3.2xlarge\ngpu: {fail: {power: 77}}",
			"power: expected an NVML code like 3 or NOT_SUPPORTED, found '77'" },
		{ "model: p3.2xlarge\ngpus: {index: 0}",
			"gpus: expected a list, found a mapping" },
		{ "model: p3.2xlarge\ngpus:\n- {minor: 4}",
			":2:1: gpus: expected an index in each entry" },
		{ "model: p3.2xlarge\ngpus:\n- {index: 1}",
			":3:11: index: expected a number from 0 to 0, found '1'" },
		{ "model: p3.2xlarge\ngpus:\n- 3", "gpus: expected a mapping, found a scalar" },
		{ "model: p3.2xlarge\ndriver: {versoin: 1}",
			"versoin: unknown key, expected version, cuda or nvml" },
		{ "model: p3.2xlarge\ndriver: {cuda: 12.4}",
			"cuda: expected a number from 8000" },
		{ "model: p3.2xlarge\nname: a/b", "name: expected a name without '/'" },
		{ "model: p3.2xlarge\nmodel: p3.2xlarge", "dir/my-node.yaml:2:" },
		{ "model: [p3", "dir/my-node.yaml:2:1: flow sequence without" },
		{ "a: &x {b: *x}", "a: unknown key" },
		{ "model: &x p3.2xlarge\nname: *x", "name: expected a scalar, found an alias" },
		{ "model: p3.2xlarge\n%\xb3}\n",
			":2:2: expected UTF-8 text, found the byte 0xb3" },
		{ "model: p3.2xlarge\nname: \x01", ":2:7: expected UTF-8 text" },
		{ "model: p3.2xlarge\n%x\ngpu: {minor: 3}\n", "dir/my-node.yaml:" },
		{ "model: p3.2xlarge\n---\nmodel: p3.2xlarge\n",
			"expected one document, found more" },
		{ "? [a]\n: b", "expected plain keys" },
		/* An empty value has no place of its own. */
		{ "model: p3.2xlarge\nname:\n",
			":2:1: name: expected a scalar, found nothing" },
		{ "driver:\n  version: # none\nmodel: p3.2xlarge\n",
			":2:3: version: expected a scalar, found nothing" },
		{ "model: p3.2xlarge\ncount:\n",
			":2:1: count: expected a scalar, found nothing" },
		{ "model: p3.2xlarge\ngpus:\n", ":2:1: gpus: expected a list, found nothing" },
		{ "model: p4d.24xlarge\ngpu:\n  mig:\n    -\n    - 1g.5gb\n",
			":3:3: mig: expected a scalar, found nothing" },
		{ "# nothing\n", "dir/my-node.yaml:1:1: " },
		{ "--- # nothing\n", "dir/my-node.yaml:1:1: " },
		{ "? \n: b", "dir/my-node.yaml:1:1: node file: expected keys of 1 to" },
	};
	struct error err = ERROR_INIT;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_error(parse_node_file(rows[i].text, &err), &err, rows[i].want);
}

static void file__has_a_limit(void **state)
{
	CLEANUP(freep) char *text = malloc(SIM_NODE_FILE_MAX_BYTES + 2);
	struct error err = ERROR_INIT;

	(void)state;
	assert_non_null(text);
	memset(text, '#', SIM_NODE_FILE_MAX_BYTES + 1);
	assert_error(sim_node_parse(text, SIM_NODE_FILE_MAX_BYTES + 1, "big", node, &err), &err,
		"at most 1048576 bytes");
}

/* Writes a node file into a new directory and points the environment at it. */
static void write_node_file(const char *dir, const char *text)
{
	char path[512];
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s/node.yaml", dir);
	file = fopen(path, "we");
	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(setenv("GPUSLICE_SIM_NODE", path, 1), 0);
	(void)snprintf(path, sizeof(path), "%s/state.d", dir);
	assert_int_equal(setenv("GPUSLICE_SIM_DIR", path, 1), 0);
}

static void library__reads_it_through_the_plugin(void **state)
{
	char *dir = test_tmpdir();
	unsigned int n = 0;

	(void)state;
	write_node_file(dir, "version: v1\nproduct: L4\ncount: 3\n");
	assert_int_equal(nvmlInit_v2(), NVML_SUCCESS);
	assert_int_equal(nvmlDeviceGetCount_v2(&n), NVML_SUCCESS);
	assert_int_equal(n, 3);
	assert_int_equal(nvmlShutdown(), NVML_SUCCESS);
	/* The state records its source. */
	write_node_file(dir, "version: v1\nproduct: L4\ncount: 2\n");
	assert_int_equal(nvmlInit_v2(), NVML_ERROR_UNKNOWN);
	write_node_file(dir, "version: v1\nproduct: L4\ncount: 3\n");
	assert_int_equal(nvmlInit_v2(), NVML_SUCCESS);
	assert_int_equal(nvmlShutdown(), NVML_SUCCESS);
	test_rmdir(dir);
}

static void library__malformed_file_creates_no_state(void **state)
{
	char *dir = test_tmpdir(), path[512];

	(void)state;
	write_node_file(dir, "version: v1\nproduct: L5\n");
	assert_int_equal(nvmlInit_v2(), NVML_ERROR_UNKNOWN);
	(void)snprintf(path, sizeof(path), "%s/state.d/state", dir);
	assert_int_not_equal(access(path, F_OK), 0);
	test_rmdir(dir);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(file__has_full_control),
		TEST(file__accepts_json_and_a_bare_product),
		TEST(file__mistakes_name_place_key_and_expectation),
		TEST(file__has_a_limit),
		cmocka_unit_test(library__reads_it_through_the_plugin),
		cmocka_unit_test(library__malformed_file_creates_no_state),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
