/* SPDX-License-Identifier: Apache-2.0 */
#include "test-config-read.h"

/* `sharing.slices`: profiles, and what may not stand beside them. */

#define PROFILE(rest) "sharing: {slices: [{name: gpu, profiles: [{" rest "}]}]}"

static void config_parse__reads_profiles(void **state)
{
	struct config *c = read_good(
		"sharing:\n  slices:\n  - name: nvidia.com/gpu\n    devices: {product: Tesla T4}\n"
		"    profiles:\n    - {name: gpu.small, count: 4, memory: 4Gi, class: latency}\n"
		"    - {name: gpu.large, count: 1, memory: 12.5%, weight: 4, compute: capped}\n"
		"    - {name: gpu.rest, memory: 1Gi, compute: fair, unhooked: stop}\n"
		"    - {name: gpu.open, count: 2}\n",
		NULL);
	const struct slice_profile *p;

	(void)state;
	assert_int_equal(c->n_slices, 1);
	assert_string_equal(c->slices[0].product, "Tesla T4");
	assert_int_equal(c->slices[0].n_profiles, 4);
	p = c->slices[0].profiles;
	assert_string_equal(p[0].name, "nvidia.com/gpu.small");
	assert_int_equal(p[0].count, 4);
	assert_int_equal(p[0].weight, 1);
	assert_int_equal(p[0].isolation.memory, ISOLATION_MEMORY_BYTES);
	assert_true(p[0].isolation.memory_value == UINT64_C(4) << 30);
	assert_int_equal(p[0].isolation.compute, ISOLATION_COMPUTE_FAIR);
	assert_int_equal(p[0].isolation.class_, SLICE_CLASS_LATENCY);
	assert_int_equal(p[1].weight, 4);
	assert_int_equal(p[1].isolation.memory, ISOLATION_MEMORY_PERMILLE);
	assert_int_equal(p[1].isolation.memory_value, 125);
	assert_int_equal(p[1].isolation.compute, ISOLATION_COMPUTE_CAPPED);
	assert_int_equal(p[1].isolation.class_, SLICE_CLASS_BATCH);
	assert_int_equal(p[2].count, 0);
	assert_int_equal(p[2].isolation.compute, ISOLATION_COMPUTE_FAIR);
	assert_int_equal(p[2].isolation.unhooked, UNHOOKED_STOP);
	assert_int_equal(p[3].isolation.memory, ISOLATION_MEMORY_NONE);
	assert_true(config_wants_slices(c));
	(void)config_free(c);
}

static void config_parse__refuses_invalid_profiles(void **state)
{
	static const struct row rows[] = {
		{ "sharing: {slices: {}}", "expected a list" },
		{ "sharing: {slices: [{}]}", "no resource name specified" },
		{ "sharing: {slices: [{name: gpu}]}", "no profiles specified" },
		{ "sharing: {slices: [{name: gpu, profiles: []}]}", "no profiles specified" },
		{ "sharing: {slices: [{name: gpu, profiles: x}]}",
			"expected a list of profiles" },
		{ "sharing: {slices: [{name: gpu, devices: 2, profiles: []}]}",
			"expected all, a list of GPUs, or {product: NAME}, found 2" },
		{ "sharing: {slices: [{name: gpu, devices: {product: }, profiles: []}]}",
			"expected a product name" },
		{ "sharing: {slices: [{name: gpu, devices: {prodct: x}, profiles: []}]}",
			"did you mean 'product'" },
		{ "sharing: {slices: [{name: gpu, memory: 4Gi, profiles: []}]}",
			"unknown key 'memory'; did you mean 'sharing.slices[].profiles[].memory'?" },
		{ "sharing: {slices: [{name: gpu, replicas: 4, profiles: []}]}",
			"unknown key 'replicas'; did you mean" },
		{ PROFILE(""), "no resource name specified" },
		{ PROFILE("name: X"), "incorrect format" },
		{ PROFILE("name: x"), "expected a count, or memory by which as many" },
		{ PROFILE("name: x, memory: none"), "expected a count, or memory by which" },
		{ PROFILE("name: x, count: 0"),
			"expected a whole number from 1 to 40000, found 0" },
		{ PROFILE("name: x, count: 1, memory: big"),
			"profiles[0].memory: expected none, an amount such as 4Gi, or a part such "
			"as 25%, found 'big'" },
		{ PROFILE("name: x, count: 1, memory: equal"), "found 'equal'" },
		{ PROFILE("name: x, count: 1, memory: 1Mi"), "expected at least 2Mi" },
		{ PROFILE("name: x, count: 1, memory: 101%"), "expected from 0.1% to 100%" },
		{ PROFILE("name: x, count: 1, memory: 1Gi, weight: 0"), "from 1 to 1000" },
		{ PROFILE("name: x, count: 1, memory: 1Gi, class: x"),
			"profiles[0].class: expected batch or latency, found 'x'" },
		{ PROFILE("name: x, count: 1, compute: none"),
			"profiles[0].compute: expected fair or capped, found 'none'" },
		{ PROFILE("name: x, count: 1, unhooked: x"), "expected report or stop" },
		{ PROFILE("name: x, count: 40000, memory: 1Gi}, {name: z, count: 1, memory: 1Gi"),
			"expected at most 40000 slices" },
		{ PROFILE("name: x, count: 1, memory: 1Gi}, {name: x, count: 1, memory: 1Gi"),
			"the name nvidia.com/x is already given" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		read_expect_error(rows[i].text, rows[i].want);
}

/* SET(name, devices, profile) is a set; ENTRY(name, devices) is a sharing entry. */
#define SET(name, devices, profile) \
	"{name: " name ", devices: " devices ", profiles: [{name: " profile ", count: 1}]}"
#define ENTRY(name, devices) "{name: " name ", replicas: 2, devices: " devices "}"
#define SHARING(entries, sets) \
	"sharing: {timeSlicing: {resources: [" entries "]}, slices: [" sets "]}"

static void config_parse__refuses_devices_that_are_selected_twice(void **state)
{
	static const struct row bad[] = {
		{ "sharing: {slices: [" SET("gpu", "all", "a") ", " SET("gpu", "all", "b") "]}",
			"slices[1].devices: expected a list of GPUs here and another one in "
			"sharing.slices (line 1), found all of nvidia.com/gpu here and all there" },
		{ "sharing: {slices: [" SET("gpu", "[0]", "a") ", " SET("gpu", "all", "b") "]}",
			"slices[1].devices: expected a list of GPUs" },
		{ "sharing: {slices: [" SET("gpu", "all", "a") ", " SET("gpu", "[0]", "b") "]}",
			"slices[1].devices: expected a list of GPUs" },
		{ "sharing: {slices: [" SET("gpu", "all", "a") ", " SET("gpu", "{product: x}",
			  "b") "]}",
			"slices[1].devices: expected a list of GPUs" },
		{ "sharing: {slices: [" SET("gpu", "{product: x}", "a") ", " SET("gpu",
			  "{product: x}", "b") "]}",
			"slices[1].devices: expected GPUs that sharing.slices (line 1) does not "
			"divide, found x, which is there too" },
		{ "sharing: {slices: [" SET("gpu", "[3, 1]", "a") ", " SET("nvidia.com/gpu",
			  "[2, 1]", "b") "]}",
			"slices[1].devices: expected GPUs that sharing.slices (line 1) does not "
			"divide, found 1, which is there too" },
		{ SHARING(ENTRY("gpu", "all"), SET("gpu", "[0]", "a")),
			"slices[0].devices: expected a list of GPUs here and another one in "
			"sharing.timeSlicing (line 1), found 0 of nvidia.com/gpu here and all "
			"there" },
		{ SHARING(ENTRY("gpu", "1"), SET("gpu", "[0]", "a")), "and a count there" },
		{ SHARING(ENTRY("gpu", "[1]"), SET("gpu", "all", "a")),
			"found all of nvidia.com/gpu here and 1 there" },
		{ SHARING(ENTRY("x", "all") ", " ENTRY("gpu", "[\"0:1\", 5]"),
			  SET("gpu", "[5]", "a")),
			"expected GPUs that sharing.timeSlicing (line 1) does not divide, found "
			"5" },
	};
	static const char *const good[] = {
		"sharing: {slices: [" SET("gpu", "[0, 2]", "a") ", " SET("gpu", "[1]",
			"b") "]}",
		"sharing: {slices: [" SET("gpu", "all", "a") ", " SET("mig-1g.5gb", "all",
			"b") "]}",
		"sharing: {slices: [" SET("gpu", "{product: x}", "a") ", " SET("gpu",
			"{product: z}", "b") ", " SET("gpu", "[0]", "c") "]}",
		SHARING(ENTRY("gpu", "[0]") ", " ENTRY("gpu", "[0, 1]"),
			SET("gpu", "[2]", "a")),
		SHARING(ENTRY("x", "all"), SET("gpu", "all", "a")),
		SHARING(ENTRY("gpu", "[]"), SET("gpu", "all", "a")),
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		read_expect_error(bad[i].text, bad[i].want);
	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		(void)config_free(read_good(good[i], NULL));
}

static void config_parse__refuses_ambiguous_names(void **state)
{
#define TWO(a, b)                                                           \
	"sharing:\n  slices:\n  - {name: gpu, devices: [0], profiles: [{" a \
	"}]}\n  - {name: gpu, devices: [1], profiles: [{name: q, count: 1}, {" b "}]}\n"
	static const struct row bad[] = {
		{ "sharing:\n  slices:\n  - name: gpu\n    profiles:\n    - {count: 1, name: gpu}\n",
			"c.yaml:5:24: sharing.slices[0].profiles[0].name: expected a name of its own, "
			"found nvidia.com/gpu, which is the name of whole GPUs" },
		{ PROFILE("name: mig-1g.5gb, count: 1"), "the name of MIG devices" },
		{ "sharing: {slices: [" SET("x", "all", "x") "]}",
			"the name of the devices that are cut" },
		{ "resources: {gpus: [{pattern: T, name: t}]}\n" PROFILE("name: t, count: 1"),
			"the name of whole GPUs, by resources.gpus" },
		{ "resources: {mig: [{pattern: T, name: t}]}\n" PROFILE("name: t, count: 1"),
			"the name of MIG devices, by resources.mig" },
		{ SHARING("{name: x, replicas: 2, rename: k}", SET("gpu", "all", "k")),
			"found nvidia.com/k, which is the name of replicas" },
		{ "sharing: {timeSlicing: {renameByDefault: true, resources: [{name: x, replicas: 2}]}, "
		  "slices: [" SET("gpu", "all", "x.shared") "]}",
			"the name of replicas" },
		{ TWO("name: a, memory: 1Gi", "name: a, memory: 2Gi"),
			"c.yaml:4:81: sharing.slices[1].profiles[1].memory: expected the same as in "
			"line 3, where nvidia.com/a is given too: 1Gi, found 2Gi" },
		{ TWO("name: a, count: 1", "name: a, memory: 2Gi"),
			"profiles[1].memory: expected the same as in line 3, where nvidia.com/a is "
			"given too: none, found 2Gi" },
		{ TWO("name: a, count: 1, weight: 2", "name: a, count: 1"),
			"profiles[1].weight: expected the same as in line 3, where nvidia.com/a is "
			"given too: 2, found 1" },
		{ TWO("name: a, count: 1", "name: a, count: 1, compute: capped"),
			"profiles[1].compute: expected the same as in line 3, where nvidia.com/a is "
			"given too: fair, found capped" },
		{ TWO("name: a, count: 1, class: latency", "name: a, count: 1"),
			"profiles[1].class: expected the same as in line 3, where nvidia.com/a is "
			"given too: latency, found batch" },
		{ TWO("name: a, count: 1", "name: a, count: 1, unhooked: stop"),
			"profiles[1].unhooked: expected the same as in line 3, where nvidia.com/a is "
			"given too: report, found stop" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		read_expect_error(bad[i].text, bad[i].want);
	/* One size on GPUs of two kinds, of which one has room for more. */
	(void)config_free(read_good(
		TWO("name: a, memory: 1Gi, count: 3", "name: a, memory: 1024Mi"), NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(config_parse__reads_profiles),
		cmocka_unit_test(config_parse__refuses_invalid_profiles),
		cmocka_unit_test(config_parse__refuses_devices_that_are_selected_twice),
		cmocka_unit_test(config_parse__refuses_ambiguous_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
