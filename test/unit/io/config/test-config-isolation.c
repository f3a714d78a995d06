/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/io/config/test-config-read.h"

/* `isolation` of replicas: valid values, refused ones, and combinations that make no sense. */

static void config_parse__reads_isolation(void **state)
{
	CLEANUP(strv_fini) struct strv warnings = STRV_INIT;
	struct config *c = read_good(
		TS("name: gpu, replicas: 4, isolation: {memory: 25%, compute: fair, class: latency}"),
		NULL);

	(void)state;
	assert_true(c->sharing.entries[0].isolation.present);
	assert_int_equal(c->sharing.entries[0].isolation.memory, ISOLATION_MEMORY_PERMILLE);
	assert_int_equal(c->sharing.entries[0].isolation.memory_value, 250);
	assert_int_equal(c->sharing.entries[0].isolation.compute, ISOLATION_COMPUTE_FAIR);
	assert_int_equal(c->sharing.entries[0].isolation.class_, SLICE_CLASS_LATENCY);
	(void)config_free(c);
	c = read_good(TS("name: gpu, replicas: 4, isolation: {memory: 8Gi}"), NULL);
	assert_int_equal(c->sharing.entries[0].isolation.memory, ISOLATION_MEMORY_BYTES);
	assert_true(c->sharing.entries[0].isolation.memory_value == UINT64_C(8) << 30);
	assert_int_equal(c->sharing.entries[0].isolation.unhooked, UNHOOKED_REPORT);
	(void)config_free(c);
	c = read_good(TS("name: gpu, replicas: 4, isolation: {memory: equal, unhooked: stop}"),
		NULL);
	assert_int_equal(c->sharing.entries[0].isolation.unhooked, UNHOOKED_STOP);
	(void)config_free(c);
	c = read_good(TS("name: gpu, replicas: 4, isolation: {unhooked: stop}"), &warnings);
	assert_int_equal(warnings.n, 1);
	assert_non_null(strstr(warnings.v[0],
		"resources[0].isolation.unhooked: has no effect without isolation.memory or "
		"isolation.compute"));
	(void)config_free(c);
	strv_clear(&warnings);
	c = read_good(TS("name: gpu, replicas: 4, isolation: {class: latency}"), &warnings);
	assert_int_equal(warnings.n, 1);
	assert_non_null(strstr(warnings.v[0],
		"resources[0].isolation.class: has no effect without isolation.compute"));
	(void)config_free(c);
	strv_clear(&warnings);
	c = read_good(
		TS("name: gpu, replicas: 4, isolation: {compute: capped, unhooked: stop}"),
		&warnings);
	assert_int_equal(warnings.n, 0);
	assert_int_equal(c->sharing.entries[0].isolation.compute, ISOLATION_COMPUTE_CAPPED);
	assert_int_equal(c->sharing.entries[0].isolation.class_, SLICE_CLASS_BATCH);
	(void)config_free(c);
}

/* Two entries for one GPU, of which only one has quanta. */
static void config_parse__warns_of_replicas_without_the_scheduler(void **state)
{
#define TWO(a, b)                                          \
	"sharing:\n  timeSlicing:\n    resources:\n"       \
	"    - {name: gpu, replicas: 2, rename: a" a "}\n" \
	"    - {name: gpu, replicas: 2, " b "}\n"
#define FAIR             ", isolation: {compute: fair}"
#define EXPECTED_COMPUTE "].isolation.compute: expected fair or capped, as in line "
	static const struct row rows[] = {
		{ TWO("", "rename: b" FAIR),
			"c.yaml:4:7: sharing.timeSlicing.resources[0" EXPECTED_COMPUTE
			"5 for the same GPUs, found none: who has these replicas takes no turns" },
		{ TWO(FAIR, "isolation: {memory: equal}"),
			"c.yaml:5:43: sharing.timeSlicing.resources[1" EXPECTED_COMPUTE "4" },
		{ TWO(FAIR, "rename: b, isolation: {compute: none}"),
			"c.yaml:5:64: sharing.timeSlicing.resources[1" EXPECTED_COMPUTE "4" },
		{ TWO(FAIR, "devices: [0]"), "resources[1" EXPECTED_COMPUTE "4" },
		{ TWO(", devices: 2" FAIR, "devices: 1"), "resources[1" EXPECTED_COMPUTE "4" },
		/* only the node can decide, or nothing has to be decided */
		{ TWO(", devices: [0]" FAIR, "devices: [0]"), NULL },
		{ TWO(", devices: 1" FAIR, "devices: [0]"), NULL },
		{ TWO(FAIR, "devices: []"), NULL },
		{ TWO(FAIR, "rename: a"), NULL },
		{ TWO(FAIR, "rename: b" FAIR), NULL },
		{ TWO("", "rename: b"), NULL },
		{ "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 2" FAIR
		  "}, {name: x, replicas: 2}]}}",
			NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(strv_fini) struct strv warnings = STRV_INIT;
		bool told = false;

		(void)config_free(read_good(rows[i].text, &warnings));
		for (size_t k = 0; k < warnings.n; k++) {
			if (rows[i].want && strstr(warnings.v[k], rows[i].want))
				told = true;
			else if (strstr(warnings.v[k], "turns"))
				fail_msg("row %zu: %s", i, warnings.v[k]);
		}
		if (told != (rows[i].want != NULL))
			fail_msg("row %zu: %zu warnings, the first '%s'", i, warnings.n,
				warnings.n ? warnings.v[0] : "");
	}
}

static void config_parse__refuses_invalid_isolation(void **state)
{
#define ISOLATION(rest) TS("name: gpu, replicas: 4, isolation: {" rest "}")
	static const struct row rows[] = {
		{ ISOLATION("memory: most"), "expected none, equal, an amount such as 8Gi" },
		{ ISOLATION("memory: 101%"), "expected from 0.1% to 100%, found '101%'" },
		{ ISOLATION("memory: 0.05%"), "expected from 0.1% to 100%, found '0.05%'" },
		{ TS("name: gpu, replicas: 1001, isolation: {memory: 0.1%}"),
			"isolation.memory: 1001 replicas of 0.1% are more than the GPU has; "
			"expected at most 1000 replicas" },
		{ TS("name: gpu, replicas: 5000, isolation: {compute: capped}"),
			"isolation.compute: expected fair, or at most 1000 replicas, so that each "
			"may have 0.1% of the time; found capped with 5000 replicas, which may "
			"have 0.0200% each" },
		{ ISOLATION("memory: 50%"), "4 replicas of 50% are more than the GPU has" },
		{ ISOLATION("memory: 0"), "an amount such as 8Gi" },
		{ ISOLATION("memory: []"), "cannot unmarshal array" },
		{ ISOLATION("memory: 1Mi"), "expected at least 2Mi" },
		{ ISOLATION("unhooked: ignore"), "expected report or stop, found 'ignore'" },
		{ ISOLATION("compute: some"), "expected none, fair or capped, found 'some'" },
		{ ISOLATION("class: fast"), "expected batch or latency, found 'fast'" },
		{ TS("name: gpu, replicas: 2, isolation: x"), "isolation: expected an object" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		read_expect_error(rows[i].text, rows[i].want);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(config_parse__reads_isolation),
		cmocka_unit_test(config_parse__warns_of_replicas_without_the_scheduler),
		cmocka_unit_test(config_parse__refuses_invalid_isolation),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
