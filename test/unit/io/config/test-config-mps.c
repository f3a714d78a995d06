/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "lib/base/buf.h"
#include "io/config/config.h"
#include "unit/io/config/test-config-read.h"

/* `sharing.mps`, alone and beside `sharing.timeSlicing`. */

#define MPS(keys)  "sharing: {mps: {resources: [{name: gpu, replicas: 3}]" keys "}}"
#define ENTRY(...) "{name: gpu, replicas: 2, " #__VA_ARGS__ "}"

static void config_parse__reads_mps(void **state)
{
	static const struct {
		const char *text;
		bool fail, rename, exclusive;
	} rows[] = {
		{ MPS(""), true, false, false },
		{ MPS(", failRequestsGreaterThanOne: null, computeMode: null"), true, false,
			false },
		{ MPS(", failRequestsGreaterThanOne: true"), true, false, false },
		{ MPS(", failRequestsGreaterThanOne: no, renameByDefault: on"), false, true,
			false },
		{ MPS(", computeMode: default"), true, false, false },
		{ MPS(", computeMode: exclusive"), true, false, true },
		{ "flags: {migStrategy: mixed}\n" MPS(""), true, false, false },
		{ "flags: {mpsRoot: \"\"}\n" MPS(""), true, false, false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(strv_fini) struct strv warnings = STRV_INIT;
		struct config *c = read_good(rows[i].text, &warnings);
		const struct sharing_kind *k = &c->sharing.kinds[SHARING_MPS];
		struct error err = ERROR_INIT;

		assert_int_equal(c->sharing.n_entries, 1);
		assert_int_equal(c->sharing.entries[0].strategy, SHARING_MPS);
		assert_int_equal(c->sharing.entries[0].replicas, 3);
		assert_int_equal(k->fail_requests_greater_than_one, rows[i].fail);
		assert_int_equal(k->rename_by_default, rows[i].rename);
		assert_int_equal(c->sharing.mps_exclusive, rows[i].exclusive);
		assert_string_equal(c->mps_root, "/run/nvidia/mps");
		assert_false(
			c->sharing.kinds[SHARING_TIME_SLICING].fail_requests_greater_than_one);
		assert_true(sharing_has(&c->sharing, SHARING_MPS) && config_wants_mps(c));
		assert_false(sharing_has(&c->sharing, SHARING_TIME_SLICING));
		assert_ok(config_unsupported(c, "c.yaml", &err), &err);
		assert_int_equal(warnings.n, 0);
		(void)config_free(c);
	}
}

static void config_parse__refuses_invalid_mps(void **state)
{
	static const struct {
		const char *text, *want;
	} rows[] = {
		{ "sharing: {mps: {resources: [{name: gpu, replicas: 0}]}}",
			"c.yaml:1:51: sharing.mps.resources[0].replicas: number of replicas must be "
			">= 1; found 0" },
		{ "sharing: {mps: {resources: [{name: gpu, replicas: null}]}}",
			"must be >= 1" },
		{ "sharing: {mps: {}}", "sharing.mps: no resources specified" },
		{ "sharing: {mps: {resources: []}}", "no resources specified" },
		{ "sharing: {mps: {resources: {}}}", "sharing.mps.resources: expected a list" },
		{ MPS(", computeMode: prohibited"),
			"sharing.mps.computeMode: expected default or exclusive, found "
			"'prohibited'" },
		{ "sharing: {timeSlicing: {computeMode: default, resources: [" ENTRY() "]}}",
			"sharing.timeSlicing: unknown key 'computeMode'" },
		/* 1 is for MPS only */
		{ "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 1}]}}",
			"must be >= 2; found 1" },
		{ "flags: {mpsRoot: run/mps}\n" MPS(""),
			"c.yaml:1:18: flags.mpsRoot: expected an absolute path, found 'run/mps'" },
		{ "flags: {mpsRoot: run/mps}\nsharing: {slices: [{name: gpu, mps: true, "
		  "profiles: [{name: x, count: 1}]}]}",
			"flags.mpsRoot: expected an absolute path" },
		{ "sharing: {slices: [{name: gpu, mps: 1, profiles: [{name: x, count: 1}]}]}",
			"sharing.slices[0].mps: " },
		{ "sharing: {slices: [{name: gpu, devices: [0], profiles: [{name: x, count: 1}]}], "
		  "mps: {resources: [" ENTRY(
			  devices
			  : [0]) "]}, timeSlicing: {resources: [" ENTRY(devices
									: [1]) "]}}",
			"expected GPUs that sharing.mps (line 1) does not divide, found 0" },
		{ "sharing: {slices: [{name: gpu, devices: [1], profiles: [{name: x, count: 1}]}], "
		  "mps: {resources: [" ENTRY(
			  devices
			  : [0]) "]}, timeSlicing: {resources: [" ENTRY(devices
									: [1]) "]}}",
			"expected GPUs that sharing.timeSlicing (line 1) does not divide" },
		{ "sharing: {slices: [{name: gpu, devices: [1], profiles: [{name: gpu.shared, "
		  "count: 1}]}], mps: {renameByDefault: true, resources: [" ENTRY(devices
										  : [0]) "]}}",
			"expected a name of its own, found nvidia.com/gpu.shared, which is the name "
			"of replicas" },
	};
	struct config *c;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		read_expect_error(rows[i].text, rows[i].want);
	/* the parser does not check a root that nothing uses */
	c = read_good("flags: {mpsRoot: run/mps}", NULL);
	assert_false(config_wants_mps(c));
	(void)config_free(c);
}

static void config_parse__applies_time_slicing_and_mps_together(void **state)
{
	struct config *c = read_good(
		"sharing:\n  timeSlicing:\n    renameByDefault: true\n    resources:\n"
		"    - {name: gpu, replicas: 4, devices: [0]}\n    - {name: b, replicas: 5}\n"
		"  mps:\n    failRequestsGreaterThanOne: false\n    resources:\n"
		"    - {name: gpu, replicas: 1, devices: [1]}\n    - {name: c, replicas: 2}\n",
		NULL);
	static const struct {
		enum sharing_strategy strategy;
		uint32_t replicas, line;
	} want[] = {
		{ SHARING_MPS, 1, 10 },
		{ SHARING_MPS, 2, 11 },
		{ SHARING_TIME_SLICING, 4, 5 },
		{ SHARING_TIME_SLICING, 5, 6 },
	};
	const struct sharing *s = &c->sharing;

	(void)state;
	assert_int_equal(s->n_entries, ARRAY_LEN(want));
	for (size_t i = 0; i < ARRAY_LEN(want); i++) {
		assert_int_equal(s->entries[i].strategy, want[i].strategy);
		assert_int_equal(s->entries[i].replicas, want[i].replicas);
		assert_int_equal(s->entries[i].pos.line, want[i].line);
	}
	assert_true(s->kinds[SHARING_TIME_SLICING].rename_by_default);
	assert_false(s->kinds[SHARING_TIME_SLICING].fail_requests_greater_than_one);
	assert_false(s->kinds[SHARING_MPS].rename_by_default);
	assert_false(s->kinds[SHARING_MPS].fail_requests_greater_than_one);
	assert_int_equal(s->kinds[SHARING_TIME_SLICING].pos.line, 3);
	assert_int_equal(s->kinds[SHARING_MPS].pos.line, 8);
	(void)config_free(c);
}

/* Entries of timeSlicing that have nothing left are warned of; what may have something is not. */
static void config_parse__warns_of_settings_that_mps_replaces(void **state)
{
#define ALL     "sharing.timeSlicing: has no effect: sharing.mps is there too, and takes precedence"
#define SOME(n) "sharing.timeSlicing.resources[" #n "]: has no effect: sharing.mps is there too"
	static const struct {
		const char *mps, *slicing, *want; /* NULL: no warning */
	} rows[] = {
		{ ENTRY(), ENTRY(), "c.yaml:2:16: " ALL },
		{ ENTRY(),
			ENTRY(devices
				: [0]),
			ALL },
		{ ENTRY(), ENTRY(devices : 2), ALL },
		{ ENTRY(devices
			  : [ 0, 1 ]),
			ENTRY(devices
				: [ 1, 0 ]),
			ALL },
		{ ENTRY(devices
			  : [0]) ", " ENTRY(devices
					    : [1]),
			ENTRY(devices
				: [ 1, 0 ]),
			ALL },
		{ ENTRY(devices
			  : [0]),
			ENTRY(devices
				: [ 1, 0 ]),
			NULL },
		{ ENTRY(devices
			  : [0]),
			ENTRY(), NULL },
		{ ENTRY(devices : 1), ENTRY(), NULL },
		{ ENTRY(devices : 1), ENTRY(devices : 1), NULL },
		{ ENTRY(devices : 1),
			ENTRY(devices
				: [0]),
			NULL },
		{ "{name: b, replicas: 2}", ENTRY(), NULL },
		{ ENTRY(), ENTRY() ", {name: b, replicas: 2}", "c.yaml:2:29: " SOME(0) },
		{ ENTRY(),
			"{name: b, replicas: 2}, " ENTRY(rename
							 : c),
			SOME(1) },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(strv_fini) struct strv warnings = STRV_INIT;
		char text[512];

		(void)snprintf(text, sizeof(text),
			"sharing: {mps: {resources: [%s]},\n  timeSlicing: {resources: [%s]}}",
			rows[i].mps, rows[i].slicing);
		(void)config_free(read_good(text, &warnings));
		if (warnings.n != (rows[i].want ? 1 : 0) ||
			(rows[i].want && !strstr(warnings.v[0], rows[i].want)))
			fail_msg("row %zu: %zu warnings, first %s", i, warnings.n,
				warnings.n ? warnings.v[0] : "");
	}
#undef ALL
#undef SOME
}

/* Slices under MPS have no quanta, so they take no GPU time from slices with quanta. */
static void config_parse__mixes_computes_under_mps(void **state)
{
#define TWO                                                                              \
	"[{name: gpu, replicas: 2, rename: a, isolation: {compute: fair}}, {name: gpu, " \
	"replicas: 2, rename: b}]"
	CLEANUP(strv_fini) struct strv warnings = STRV_INIT;

	(void)state;
	(void)config_free(read_good("sharing: {timeSlicing: {resources: " TWO "}}", &warnings));
	assert_int_equal(warnings.n, 1);
	assert_non_null(strstr(warnings.v[0], "takes no turns"));
	strv_clear(&warnings);
	(void)config_free(read_good("sharing: {mps: {resources: " TWO "}}", &warnings));
	assert_int_equal(warnings.n, 0);
	/* in the second list of two */
	(void)config_free(read_good("sharing: {mps: {resources: [{name: x, replicas: 2}]}, "
				    "timeSlicing: {resources: " TWO "}}",
		&warnings));
	assert_int_equal(warnings.n, 1);
	assert_non_null(strstr(warnings.v[0], "sharing.timeSlicing.resources[1].isolation"));
#undef TWO
}

static void config_parse__reads_slices_under_mps(void **state)
{
	struct config *c = read_good(
		"sharing: {slices: [{name: gpu, devices: [0], mps: true, profiles: [{name: x, "
		"count: 1}]}, {name: gpu, devices: [1], mps: false, profiles: [{name: x, count: "
		"1}]}, {name: b, profiles: [{name: x, count: 1}]}]}",
		NULL);

	(void)state;
	assert_true(c->slices[0].mps && config_wants_mps(c));
	assert_false(c->slices[1].mps || c->slices[2].mps);
	c->slices[0].mps = false;
	assert_false(config_wants_mps(c));
	(void)config_free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(config_parse__reads_mps),
		cmocka_unit_test(config_parse__refuses_invalid_mps),
		cmocka_unit_test(config_parse__applies_time_slicing_and_mps_together),
		cmocka_unit_test(config_parse__warns_of_settings_that_mps_replaces),
		cmocka_unit_test(config_parse__mixes_computes_under_mps),
		cmocka_unit_test(config_parse__reads_slices_under_mps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
