/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/io/config/test-config-read.h"

#include "io/config/field.h"

/* What makes a GPU unhealthy: XIDs, rules that count them, and other signals. */

static void config_parse__reads_health(void **state)
{
	struct config *c =
		read_good("health:\n  recovery: no\n  cooldown: 5s\n  resetCooldown: 1m\n"
			  "  maxCooldown: 2h\n  probes: 3\n  probeInterval: 500ms\n"
			  "  forgetAfter: 0s\n  ignoreXids: [48, 62]\n  actXids: [13]\n",
			NULL);
	const struct health_policy *p = &c->health;
	static const struct row rows[] = {
		{ "health: {cooldown: 5}",
			"expected a duration such as 30s or 1m30s, found 5" },
		{ "health: {cooldown: -5s}", "expected a duration from 0ms" },
		{ "health: {probeInterval: 1ms}", "expected a duration from 100ms" },
		{ "health: {probes: 0}", "expected a whole number from 1 to 1000, found 0" },
		{ "health: {recovery: 1}", "cannot unmarshal number" },
		{ "health: {cooldown: 3h}", "not shorter than cooldown" },
		{ "health: {ignoreXids: 48}", "expected a list of XIDs or all, found 48" },
		{ "health: {ignoreXids: [x]}", "cannot unmarshal string" },
		{ "health: {ignoreXids: [0]}", "from 1 to" },
		{ "health: {ignoreXids: [null]}", "expected a whole number" },
		{ "health: {ignoreXids: [48], actXids: [48]}",
			"XID 48 is already in ignoreXids" },
	};

	(void)state;
	assert_false(p->recovery);
	assert_true(p->cooldown_ns == UINT64_C(5000000000));
	assert_true(p->max_cooldown_ns == UINT64_C(7200000000000));
	assert_int_equal(p->probes_needed, 3);
	assert_true(p->probe_interval_ns == 500000000);
	assert_true(p->forget_after_ns == 0);
	assert_false(health_policy_acts(p, 48));
	assert_true(health_policy_acts(p, 13));
	assert_true(health_policy_acts(p, 79));
	assert_false(health_policy_acts(p, 43));
	(void)config_free(c);
	c = read_good("health: {ignoreXids: all, actXids: [48]}", NULL);
	assert_true(health_policy_acts(&c->health, 48));
	assert_false(health_policy_acts(&c->health, 79));
	(void)config_free(c);
	c = read_good("health: {actXids: all}", NULL);
	assert_true(health_policy_acts(&c->health, 13));
	(void)config_free(c);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		read_expect_error(rows[i].text, rows[i].want);
}

static void config_parse__reads_rules_that_count(void **state)
{
	struct config *c =
		read_good("health:\n  ignoreXids: [43]\n  xidRules:\n"
			  "  - {xids: [31], count: 3, within: 10m}\n"
			  "  - {xids: [13, 31], count: 32, within: 1s, policy: warning}\n",
			NULL);
	const struct xid_rate *r = c->health.rates;
	static const struct row rows[] = {
		{ "health: {xidRules: {xids: [31]}}",
			"c.yaml:1:20: health.xidRules: expected a list of rules, found {\"xids\":[31]}" },
		{ "health: {xidRules: [31]}", "cannot unmarshal number" },
		{ "health: {xidRules: [null]}", "health.xidRules[0]: expected an object" },
		{ "health: {xidRules: [{count: 3, within: 10m}]}",
			"health.xidRules[0].xids: expected a list of XIDs, found nothing" },
		{ "health: {xidRules: [{xids: 31, count: 3, within: 10m}]}",
			"expected a list of XIDs, found 31" },
		{ "health: {xidRules: [{xids: [], count: 3, within: 10m}]}",
			"expected a list of XIDs" },
		{ "health: {xidRules: [{xids: [x], count: 3, within: 10m}]}",
			"cannot unmarshal string" },
		{ "health: {xidRules: [{xids: [31, 31], count: 3, within: 10m}]}",
			"health.xidRules[0].xids[1]: XID 31 is already in this rule" },
		{ "health: {xidRules: [{xids: [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17], "
		  "count: 3, within: 10m}]}",
			"expected at most 16 XIDs, found 17" },
		{ "health: {xidRules: [{xids: [31], within: 10m}]}",
			"health.xidRules[0].count: expected a whole number from 1 to 32, found "
			"nothing" },
		{ "health: {xidRules: [{xids: [31], count: 33, within: 10m}]}",
			"expected a whole number from 1 to 32, found 33" },
		{ "health: {xidRules: [{xids: [31], count: 0, within: 10m}]}",
			"expected a whole number from 1 to 32, found 0" },
		{ "health: {xidRules: [{xids: [31], count: 3}]}",
			"health.xidRules[0].within: expected a duration such as 10m, found nothing" },
		{ "health: {xidRules: [{xids: [31], count: 3, within: 10}]}",
			"expected a duration such as 30s or 1m30s, found 10" },
		{ "health: {xidRules: [{xids: [31], count: 3, within: 1ms}]}",
			"expected a duration from 1000ms to 720h, found 1ms" },
		{ "health: {xidRules: [{xids: [31], count: 3, within: 1m, policy: ignore}]}",
			"health.xidRules[0].policy: expected warning or unhealthy, found 'ignore'" },
		{ "health: {xidRules: [{xids: [31], count: 3, window: 1m}]}", "window" },
		{ "health: {actXids: [31], xidRules: [{xids: [31], count: 3, within: 1m}]}",
			"XID 31 is already in actXids, so it would never be counted" },
		{ "health: {ignoreXids: [31], xidRules: [{xids: [31], count: 3, within: 1m}]}",
			"XID 31 is already in ignoreXids" },
		{ "health: {actXids: all, xidRules: [{xids: [31], count: 3, within: 1m}]}",
			"actXids is all" },
		{ "health: {xidRules: [{xids: [1], count: 1, within: 1s}, {xids: [1], count: 1, "
		  "within: 2s}, {xids: [1], count: 1, within: 3s}, {xids: [1], count: 1, within: "
		  "4s}, {xids: [1], count: 1, within: 5s}, {xids: [1], count: 1, within: 6s}, "
		  "{xids: [1], count: 1, within: 7s}, {xids: [1], count: 1, within: 8s}, {xids: "
		  "[1], count: 1, within: 9s}]}",
			"expected at most 8 rules, found 9" },
	};

	(void)state;
	assert_int_equal(c->health.n_rates, 2);
	assert_true(r[0].n_xids == 1 && r[0].xids[0] == 31 && r[0].count == 3);
	assert_true(r[0].within_ns == UINT64_C(600000000000) && r[0].action == HEALTH_ACT);
	assert_true(r[1].n_xids == 2 && r[1].xids[1] == 31 && r[1].count == 32);
	assert_true(r[1].within_ns == UINT64_C(1000000000) && r[1].action == HEALTH_WARN);
	(void)config_free(c);
	c = read_good("health: {xidRules: null}", NULL);
	assert_int_equal(c->health.n_rates, 0);
	(void)config_free(c);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		read_expect_error(rows[i].text, rows[i].want);
}

/* The table of keys has the defaults too, for `config check` and the documentation. */
static void config_parse__reads_policies_of_signals(void **state)
{
	static const struct row rows[] = {
		{ "health: {signals: unhealthy}", "health.signals" },
		{ "health: {signals: {rowRemapFailed: no}}",
			"health.signals.rowRemapFailed: expected ignore, warning or unhealthy, found" },
		{ "health: {signals: {rowRemapFaild: ignore}}",
			"did you mean 'rowRemapFailed'" },
	};

	(void)state;
	for (int i = 0; i < GPU_SIGNAL_COUNT_; i++) {
		static const char *const words[] = { "ignore", "warning", "unhealthy" };
		char text[120], path[80];
		const struct config_field *f;

		(void)snprintf(path, sizeof(path), "health.signals.%s", health_signals[i].name);
		f = field_by_path(path);
		assert_non_null(f);
		assert_string_equal(f->def, words[health_signals[i].def]);
		for (int w = 0; w < 3; w++) {
			struct config *c;

			(void)snprintf(text, sizeof(text), "health: {signals: {%s: %s}}",
				health_signals[i].name, words[w]);
			c = read_good(text, NULL);
			for (int k = 0; k < GPU_SIGNAL_COUNT_; k++)
				assert_int_equal(c->health.signals[k],
					k == i ? (enum health_action)w : health_signals[k].def);
			(void)config_free(c);
		}
	}
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		read_expect_error(rows[i].text, rows[i].want);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(config_parse__reads_health),
		cmocka_unit_test(config_parse__reads_rules_that_count),
		cmocka_unit_test(config_parse__reads_policies_of_signals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
