/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/model/core-fixture.h"

#include "model/health/health.h"

#define S NS_PER_SEC

static const uint32_t ignored_by_default[] = { 13, 31, 43, 45, 68, 109 };

static void xid_class__of_the_ignored_is_application(void **state)
{
	struct health_policy p;
	uint32_t n = 0;

	(void)state;
	health_policy_default(&p);
	for (uint32_t xid = 1; xid < 1000; xid++) {
		bool app = xid_class(xid) == XID_APPLICATION;

		assert_int_equal(health_policy_acts(&p, xid), !app);
		n += app;
	}
	assert_int_equal(n, ARRAY_LEN(ignored_by_default));
	for (size_t i = 0; i < ARRAY_LEN(ignored_by_default); i++)
		assert_int_equal(xid_class(ignored_by_default[i]), XID_APPLICATION);
	assert_string_equal(xid_text(79), "GPU has fallen off the bus");
	assert_string_equal(xid_text(8), "GPU stopped processing");
	assert_string_equal(xid_text(158), "GPU fatal timeout");
	assert_string_equal(xid_text(555), "");
	assert_string_equal(xid_text(0), "");
	assert_int_equal(xid_class(79), XID_RESET);
	assert_int_equal(xid_class(555), XID_DRIVER);
}

static void health_policy_env__vectors(void **state)
{
	static const struct {
		const char *disable, *enable;
		bool disabled;
		uint32_t acts[4], ignores[7];
		const char *skipped;
	} rows[] = {
		{ NULL, NULL, false, { 48, 555 }, { 13, 31, 43, 45, 68, 109 }, "" },
		{ "", NULL, false, { 48, 555 }, { 13, 31, 43, 45, 68, 109 }, "" },
		{ "all", NULL, true, { 0 }, { 13, 48, 79, 109, 555 }, "" },
		{ "xids", NULL, true, { 0 }, { 13, 48, 79, 109, 555 }, "" },
		{ " XIDS ,5", NULL, true, { 0 }, { 13, 48, 5, 555 }, "" },
		{ "0", NULL, true, { 0 }, { 13, 48, 555 }, "" },
		{ NULL, "all", false, { 13, 109, 48, 555 }, { 0 }, "" },
		{ "all", "All", true, { 13, 109, 48, 555 }, { 0 }, "" },
		{ "11", "11", false, { 11, 555 }, { 13, 31, 43, 45, 68, 109 }, "" },
		{ "all", "48", true, { 48 }, { 13, 79, 555 }, "" },
		{ "79", NULL, false, { 48, 555 }, { 79, 13 }, "" },
		{ NULL, "13", false, { 13, 48 }, { 31, 43 }, "" },
		{ "68,67", NULL, false, { 48 }, { 67, 68 }, "" },
		{ "68,not-an-int,67", NULL, false, { 48 }, { 67, 68 }, "not-an-int" },
		{ ",", "-68", false, { 48 }, { 68 }, "-68" },
		{ "67 ,", ",66x,", false, { 66 }, { 67 }, "66x" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct strv skipped = STRV_INIT;
		struct error err = ERROR_INIT;
		struct health_policy p;

		health_policy_default(&p);
		assert_ok(
			health_policy_env(&p, rows[i].disable, rows[i].enable, &skipped, &err),
			&err);
		assert_int_equal(p.disabled, rows[i].disabled);
		for (size_t k = 0; k < 4 && rows[i].acts[k]; k++)
			if (!health_policy_acts(&p, rows[i].acts[k]))
				fail_msg("row %zu: %u is ignored", i, rows[i].acts[k]);
		for (size_t k = 0; k < 7 && rows[i].ignores[k]; k++)
			if (health_policy_acts(&p, rows[i].ignores[k]))
				fail_msg("row %zu: %u is acted on", i, rows[i].ignores[k]);
		assert_int_equal(skipped.n, rows[i].skipped[0] ? 1 : 0);
		if (skipped.n)
			assert_string_equal(skipped.v[0], rows[i].skipped);
		strv_fini(&skipped);
	}
}

/* The set that a DP_DISABLE list means, by itself. */
static void health_policy_env__list_text(void **state)
{
	static const struct {
		const char *text;
		uint32_t set[2];
	} rows[] = { { "", { 0 } }, { ",", { 0 } }, { "not-an-int", { 0 } }, { "-68", { 0 } },
		{ "68", { 68 } }, { "68  ", { 68 } }, { "68,", { 68 } }, { ",68", { 68 } },
		{ "68,67", { 67, 68 } }, { "68,not-an-int,67", { 67, 68 } } };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		size_t want = (rows[i].set[0] != 0) + (size_t)(rows[i].set[1] != 0);
		struct error err = ERROR_INIT;
		struct health_policy p;

		health_policy_default(&p);
		assert_ok(health_policy_env(&p, rows[i].text, NULL, NULL, &err), &err);
		assert_int_equal(p.n_rules, want);
		for (size_t k = 0; k < p.n_rules; k++) {
			assert_false(p.rules[k].act);
			assert_true(p.rules[k].xid == rows[i].set[0] ||
				    p.rules[k].xid == rows[i].set[1]);
		}
	}
}

static void health_policy_env__has_a_limit(void **state)
{
	char text[XID_LIST_MAX * 8] = "";
	struct error err = ERROR_INIT;
	struct health_policy p;
	size_t len = 0;

	(void)state;
	for (int i = 1; i <= XID_LIST_MAX + 1; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%d,", 200 + i);
	health_policy_default(&p);
	assert_error(health_policy_env(&p, text, NULL, NULL, &err), &err,
		"DP_DISABLE_HEALTHCHECKS: more than 64 XIDs");
	assert_int_equal(p.n_rules, 0);
}

/* A script of events, one row each; the clock counts seconds. */
enum event { XID, PROBE, TICK };

struct step {
	uint64_t at;
	enum event what;
	uint32_t arg; /* the XID, or the fault */
	enum gpu_recovery recovery;
	bool changed;
	enum health_state state;
	const char *reason; /* a part of it; NULL: any */
};

static void play_steps(const char *name, const struct health_policy *p,
	const struct step *steps, size_t n)
{
	struct health h;

	health_init(&h, 0);
	for (size_t i = 0; i < n; i++) {
		struct gpu seen = { .recovery = steps[i].recovery };
		bool changed = false;

		switch (steps[i].what) {
		case XID:
			changed = health_xid(&h, p, steps[i].arg, steps[i].at * S);
			break;
		case PROBE:
			seen.fault = (enum gpu_fault)steps[i].arg;
			changed = health_probe(&h, p, &seen, steps[i].at * S);
			break;
		case TICK:
			changed = health_tick(&h, p, steps[i].at * S);
			break;
		}
		if (h.state != steps[i].state || changed != steps[i].changed ||
			(steps[i].reason && !strstr(h.reason, steps[i].reason)) ||
			(steps[i].reason && !steps[i].reason[0] && h.reason[0]))
			fail_msg("%s, step %zu: %s, changed %d, '%s'", name, i,
				health_state_name(h.state), changed, h.reason);
		assert_int_equal(h.state == HEALTH_HEALTHY, h.reason[0] == '\0');
	}
}

#define PLAY(p, ...)                                                  \
	play_steps(__func__, p, (const struct step[]){ __VA_ARGS__ }, \
		ARRAY_LEN(((const struct step[]){ __VA_ARGS__ })))

static void health__driver_faults_pass(void **state)
{
	struct health_policy p;

	(void)state;
	health_policy_default(&p);
	PLAY(&p, { 1, XID, 13, 0, false, HEALTH_HEALTHY, "" },
		{ 2, PROBE, GPU_OK, 0, false, HEALTH_HEALTHY, "" },
		{ 10, XID, 94, 0, true, HEALTH_UNHEALTHY,
			"XID 94 (contained ECC error): looking again after 30s" },
		{ 20, PROBE, GPU_OK, 0, false, HEALTH_UNHEALTHY, "after 30s" },
		{ 39, TICK, 0, 0, false, HEALTH_UNHEALTHY, NULL },
		{ 40, TICK, 0, 0, true, HEALTH_PROBATION,
			"XID 94 (contained ECC error): on probation" },
		{ 41, PROBE, GPU_OK, 0, false, HEALTH_PROBATION, NULL },
		{ 51, PROBE, GPU_OK, 0, true, HEALTH_HEALTHY, "" });
	/* The probes alone end the wait, without a tick. An XID that is not listed has no text. */
	PLAY(&p,
		{ 10, XID, 555, 0, true, HEALTH_UNHEALTHY, "XID 555: looking again after 30s" },
		{ 40, PROBE, GPU_OK, 0, true, HEALTH_PROBATION, NULL },
		{ 50, PROBE, GPU_OK, 0, true, HEALTH_HEALTHY, "" });
}

static void health__a_new_xid_starts_the_wait_again(void **state)
{
	struct health_policy p;

	(void)state;
	health_policy_default(&p);
	/* An XID in the cool-down starts it again, but makes it no longer. The worst class stays the reason. */
	PLAY(&p, { 0, XID, 69, 0, true, HEALTH_UNHEALTHY, "XID 69" },
		{ 20, XID, 94, 0, true, HEALTH_UNHEALTHY, "XID 94" },
		{ 49, TICK, 0, 0, false, HEALTH_UNHEALTHY, NULL },
		{ 50, TICK, 0, 0, true, HEALTH_PROBATION, NULL });
	PLAY(&p, { 0, XID, 79, 0, true, HEALTH_UNHEALTHY, "XID 79" },
		{ 20, XID, 94, 0, false, HEALTH_UNHEALTHY, "XID 79" },
		{ 619, TICK, 0, 0, false, HEALTH_UNHEALTHY, NULL },
		{ 620, TICK, 0, 0, true, HEALTH_PROBATION, NULL });
}

static void health__relapses_double_the_wait(void **state)
{
	struct health_policy p;
	uint64_t now = 0, wait;
	struct gpu good = { 0 };
	struct health h;

	(void)state;
	health_policy_default(&p);
	health_init(&h, 0);
	for (uint32_t i = 0; i < 12; i++) {
		assert_true(health_xid(&h, &p, 94, now));
		assert_int_equal(h.relapses, i);
		wait = 30 * S << (i < 7 ? i : 7);
		wait = wait > 3600 * S ? 3600 * S : wait;
		assert_true(h.retry_at_ns - now == wait);
		now = h.retry_at_ns;
		assert_true(health_probe(&h, &p, &good, now));
		if (i % 2) { /* every other time from probation, else after a recovery */
			assert_int_equal(h.state, HEALTH_PROBATION);
			continue;
		}
		assert_true(health_probe(&h, &p, &good, now + 10 * S));
		assert_int_equal(h.state, HEALTH_HEALTHY);
		now += 60 * S;
	}
	/* Long enough healthy: forgiven. */
	now = h.retry_at_ns;
	health_probe(&h, &p, &good, now);
	health_probe(&h, &p, &good, now);
	assert_true(health_ok(&h));
	health_xid(&h, &p, 94, now + 3600 * S);
	assert_int_equal(h.relapses, 0);
}

static void health__reset_class_waits_long_or_for_the_report_of_the_driver(void **state)
{
	struct health_policy p;

	(void)state;
	health_policy_default(&p);
	/* A driver that does not report recovery actions. */
	PLAY(&p,
		{ 0, XID, 79, 0, true, HEALTH_UNHEALTHY,
			"XID 79 (GPU has fallen off the bus): reset needed, looking again after 10m" },
		{ 599, PROBE, GPU_OK, 0, false, HEALTH_UNHEALTHY, NULL },
		{ 600, PROBE, GPU_OK, 0, true, HEALTH_PROBATION, NULL },
		{ 610, PROBE, GPU_OK, 0, true, HEALTH_HEALTHY, "" });
	/* A GPU that reports its recovery action: the action decides, and there is no long wait. */
	PLAY(&p, { 0, PROBE, GPU_OK, GPU_RECOVERY_NONE, false, HEALTH_HEALTHY, "" },
		{ 1, XID, 48, 0, true, HEALTH_UNHEALTHY,
			"XID 48 (double bit ECC error): reset needed, looking again after 30s" },
		{ 10, PROBE, GPU_OK, GPU_RECOVERY_RESET_GPU, true, HEALTH_UNHEALTHY,
			"XID 48 (double bit ECC error): the driver asks for a GPU reset" },
		{ 900, TICK, 0, 0, false, HEALTH_UNHEALTHY, NULL },
		{ 900, PROBE, GPU_OK, GPU_RECOVERY_RESET_GPU, false, HEALTH_UNHEALTHY, NULL },
		{ 910, PROBE, GPU_OK, GPU_RECOVERY_NONE, true, HEALTH_PROBATION, NULL },
		{ 920, PROBE, GPU_OK, GPU_RECOVERY_RESET_GPU, true, HEALTH_UNHEALTHY, NULL },
		{ 930, PROBE, GPU_OK, GPU_RECOVERY_NONE, true, HEALTH_PROBATION, NULL },
		{ 940, PROBE, GPU_OK, GPU_RECOVERY_NONE, true, HEALTH_HEALTHY, "" });
	/* A driver that turns out to report them: the long wait becomes the short one. */
	PLAY(&p, { 0, XID, 48, 0, true, HEALTH_UNHEALTHY, "after 10m" },
		{ 10, PROBE, GPU_OK, GPU_RECOVERY_NONE, true, HEALTH_UNHEALTHY, "after 30s" },
		{ 30, PROBE, GPU_OK, GPU_RECOVERY_NONE, true, HEALTH_PROBATION, NULL },
		{ 40, PROBE, GPU_OK, GPU_RECOVERY_NONE, true, HEALTH_HEALTHY, "" });
	PLAY(&p,
		{ 0, XID, 54, 0, true, HEALTH_UNHEALTHY,
			"XID 54 (auxiliary power is not connected): hardware trouble, looking again "
			"after 10m" });
}

static void health__report_of_the_driver_alone_is_enough(void **state)
{
	struct health_policy p;

	(void)state;
	health_policy_default(&p);
	PLAY(&p,
		{ 0, PROBE, GPU_OK, GPU_RECOVERY_REBOOT, true, HEALTH_UNHEALTHY,
			"the driver asks for a reboot of the node" },
		{ 10, PROBE, GPU_OK, GPU_RECOVERY_DRAIN_P2P, true, HEALTH_UNHEALTHY,
			"the driver asks for this GPU to be drained" },
		{ 20, PROBE, GPU_OK, GPU_RECOVERY_NONE, true, HEALTH_PROBATION,
			"on probation" },
		{ 30, PROBE, GPU_OK, GPU_RECOVERY_NONE, true, HEALTH_HEALTHY, "" });
	p.disabled = true;
	/* reported, as a warning */
	PLAY(&p, { 0, PROBE, GPU_OK, GPU_RECOVERY_REBOOT, true, HEALTH_HEALTHY, "" },
		{ 1, XID, 79, 0, false, HEALTH_HEALTHY, "" },
		/* but a GPU that cannot be reached is not handed out */
		{ 2, PROBE, GPU_FAULT_LOST, 0, true, HEALTH_UNHEALTHY, "GPU is lost" });
}

static void health__faults_clear_without_a_wait(void **state)
{
	static const enum gpu_fault faults[] = { GPU_FAULT_FIELD, GPU_FAULT_LOST,
		GPU_FAULT_RESET, GPU_FAULT_GONE };
	struct health_policy p;

	(void)state;
	health_policy_default(&p);
	for (size_t i = 0; i < ARRAY_LEN(faults); i++)
		PLAY(&p, { 0, PROBE, faults[i], 0, true, HEALTH_UNHEALTHY, "GPU " },
			{ 10, PROBE, faults[i], 0, false, HEALTH_UNHEALTHY, NULL },
			{ 15, TICK, 0, 0, false, HEALTH_UNHEALTHY, NULL },
			{ 20, PROBE, GPU_OK, 0, true, HEALTH_PROBATION, ": on probation" },
			{ 25, PROBE, faults[i], 0, true, HEALTH_UNHEALTHY, NULL },
			{ 30, PROBE, GPU_OK, 0, true, HEALTH_PROBATION, NULL },
			{ 40, PROBE, GPU_OK, 0, true, HEALTH_HEALTHY, "" });
}

static void health__a_stuck_gpu_waits(void **state)
{
	struct health_policy p;

	(void)state;
	health_policy_default(&p);
	PLAY(&p,
		{ 0, PROBE, GPU_FAULT_STUCK, 0, true, HEALTH_UNHEALTHY, "GPU does not answer" },
		{ 10, PROBE, GPU_FAULT_STUCK, 0, false, HEALTH_UNHEALTHY, NULL },
		{ 20, PROBE, GPU_OK, 0, true, HEALTH_UNHEALTHY,
			"GPU did not answer: looking again after 30s" },
		{ 39, PROBE, GPU_OK, 0, false, HEALTH_UNHEALTHY, NULL },
		{ 40, TICK, 0, 0, true, HEALTH_PROBATION, NULL },
		/* again: twice as long */
		{ 41, PROBE, GPU_FAULT_STUCK, 0, true, HEALTH_UNHEALTHY, NULL },
		{ 100, PROBE, GPU_OK, 0, true, HEALTH_UNHEALTHY, "after 1m" },
		{ 101, TICK, 0, 0, true, HEALTH_PROBATION, NULL },
		{ 102, PROBE, GPU_OK, 0, false, HEALTH_PROBATION, NULL },
		{ 103, PROBE, GPU_OK, 0, true, HEALTH_HEALTHY, "" });
}

static void health__xid_and_fault_together(void **state)
{
	struct health_policy p;

	(void)state;
	health_policy_default(&p);
	/* The fault clears, the XID's wait continues. */
	PLAY(&p, { 0, XID, 79, 0, true, HEALTH_UNHEALTHY, NULL },
		{ 1, PROBE, GPU_FAULT_LOST, 0, true, HEALTH_UNHEALTHY,
			"GPU is lost, after XID 79 (GPU has fallen off the bus)" },
		{ 100, PROBE, GPU_OK, 0, true, HEALTH_UNHEALTHY, "reset needed" },
		{ 600, PROBE, GPU_OK, 0, true, HEALTH_PROBATION, NULL });
	/* Gone and back is a reset: no more wait. */
	PLAY(&p, { 0, XID, 79, 0, true, HEALTH_UNHEALTHY, NULL },
		{ 1, PROBE, GPU_FAULT_GONE, 0, true, HEALTH_UNHEALTHY,
			"GPU is gone, after XID 79" },
		{ 100, PROBE, GPU_OK, 0, true, HEALTH_PROBATION, NULL },
		{ 110, PROBE, GPU_OK, 0, true, HEALTH_HEALTHY, "" });
	/* A bad probe in the probation of an XID: longer. */
	PLAY(&p, { 0, XID, 94, 0, true, HEALTH_UNHEALTHY, NULL },
		{ 30, PROBE, GPU_OK, 0, true, HEALTH_PROBATION, NULL },
		{ 31, PROBE, GPU_FAULT_FIELD, 0, true, HEALTH_UNHEALTHY, NULL },
		{ 32, PROBE, GPU_OK, 0, true, HEALTH_UNHEALTHY, "after 1m" },
		{ 90, PROBE, GPU_OK, 0, false, HEALTH_UNHEALTHY, NULL },
		{ 91, PROBE, GPU_OK, 0, true, HEALTH_PROBATION, NULL });
	/* An XID while there is a fault is kept for later. */
	PLAY(&p, { 0, PROBE, GPU_FAULT_LOST, 0, true, HEALTH_UNHEALTHY, "GPU is lost" },
		{ 1, XID, 79, 0, false, HEALTH_UNHEALTHY, NULL },
		{ 2, PROBE, GPU_FAULT_LOST, 0, true, HEALTH_UNHEALTHY, "after XID 79" },
		{ 3, PROBE, GPU_OK, 0, true, HEALTH_UNHEALTHY, "reset needed" });
}

static void health__without_recovery_stays_unhealthy(void **state)
{
	struct health_policy p;

	(void)state;
	health_policy_default(&p);
	p.recovery = false;
	PLAY(&p,
		{ 0, XID, 94, 0, true, HEALTH_UNHEALTHY,
			"XID 94 (contained ECC error): out until restart, recovery is off" },
		{ 9999, TICK, 0, 0, false, HEALTH_UNHEALTHY, NULL },
		{ 9999, PROBE, GPU_OK, 0, false, HEALTH_UNHEALTHY, NULL },
		{ 99999, PROBE, GPU_OK, 0, false, HEALTH_UNHEALTHY, NULL });
	PLAY(&p, { 0, PROBE, GPU_FAULT_GONE, 0, true, HEALTH_UNHEALTHY, NULL },
		{ 10, PROBE, GPU_OK, 0, true, HEALTH_UNHEALTHY,
			"GPU was gone: out until restart, recovery is off" },
		{ 99999, PROBE, GPU_OK, 0, false, HEALTH_UNHEALTHY, NULL });
}

static void health__obeys_a_policy_that_changes(void **state)
{
	struct gpu good = { 0 };
	struct health_policy p;
	struct health h;

	(void)state;
	health_policy_default(&p);
	health_init(&h, 0);
	health_xid(&h, &p, 94, 0);
	p.recovery = false;
	assert_false(health_tick(&h, &p, 30 * S));
	health_probe(&h, &p, &good, 40 * S);
	health_probe(&h, &p, &good, 50 * S);
	assert_int_equal(h.state, HEALTH_UNHEALTHY);
	assert_string_equal(h.reason,
		"XID 94 (contained ECC error): out until restart, recovery is off");
	p.recovery = true;
	assert_true(health_probe(&h, &p, &good, 60 * S));
	assert_true(health_probe(&h, &p, &good, 70 * S));
	assert_true(health_ok(&h));
	/* Unhealthy while it was off: the wait starts from the trouble when it is on again. */
	p.recovery = false;
	health_xid(&h, &p, 94, 7200 * S);
	p.recovery = true;
	health_probe(&h, &p, &good, 7210 * S);
	assert_true(h.retry_at_ns == 7230 * S);
}

static void health__counts_every_xid(void **state)
{
	struct health_policy p;
	struct health h;

	(void)state;
	health_policy_default(&p);
	health_init(&h, 0);
	assert_false(health_xid(&h, &p, 13, 0));
	assert_false(health_xid(&h, &p, 31, 0));
	assert_int_equal(h.xid_count, 2);
	assert_int_equal(h.last_xid, 31);
	assert_true(health_ok(&h));
}

static void health_due__returns_the_date_of_the_next_check(void **state)
{
	struct gpu lost = { .fault = GPU_FAULT_LOST }, good = { 0 };
	struct health_policy p;
	struct health h;

	(void)state;
	health_policy_default(&p);
	health_init(&h, 5 * S);
	assert_true(health_due(&h, &p) == 15 * S);
	health_xid(&h, &p, 94, 6 * S);
	health_probe(&h, &p, &good, 30 * S);
	assert_true(health_due(&h, &p) == 36 * S);
	health_probe(&h, &p, &lost, 31 * S);
	assert_true(health_due(&h, &p) == 41 * S); /* nothing ends before the fault does */
	p.probe_interval_ns = 0;
	assert_true(health_due(&h, &p) == UINT64_MAX);
}

/* Whatever happens: shown healthy means no reason and no fault; the wait has its ceiling. */
static void health__keeps_its_invariants(void **state)
{
	static const uint32_t xids[] = { 13, 48, 54, 79, 94, 154, 555 };
	uint64_t seed = 99, now = 0;
	struct health_policy p;
	struct health h;

	(void)state;
	health_policy_default(&p);
	health_init(&h, 0);
	for (int i = 0; i < 200000; i++) {
		uint32_t r = fixture_random(&seed);
		struct gpu seen = { .fault = r % 8 ? GPU_OK : (enum gpu_fault)(r / 8 % 6),
			.recovery = (enum gpu_recovery)(r / 64 % 16 > 4 ? 1 : r / 64 % 16) };
		bool was_ok = health_ok(&h), changed;
		char reason[GPU_REASON_MAX];

		memcpy(reason, h.reason, sizeof(reason));
		now += (uint64_t)(fixture_random(&seed) % 40) * S;
		if (r % 16 == 1)
			changed = health_xid(&h, &p, xids[r / 16 % ARRAY_LEN(xids)], now);
		else if (r % 4 == 2)
			changed = health_tick(&h, &p, now);
		else
			changed = health_probe(&h, &p, &seen, now);
		assert_int_equal(changed,
			was_ok != health_ok(&h) || strcmp(reason, h.reason) != 0);
		assert_int_equal(health_ok(&h), h.reason[0] == '\0');
		if (health_ok(&h))
			assert_true(h.fault == GPU_OK && h.retry_at_ns == UINT64_MAX);
		else
			assert_true(h.retry_at_ns <= now + p.max_cooldown_ns);
		if (h.state == HEALTH_PROBATION)
			assert_true(h.good_probes < p.probes_needed);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(xid_class__of_the_ignored_is_application),
		cmocka_unit_test(health_policy_env__vectors),
		cmocka_unit_test(health_policy_env__list_text),
		cmocka_unit_test(health_policy_env__has_a_limit),
		cmocka_unit_test(health__driver_faults_pass),
		cmocka_unit_test(health__a_new_xid_starts_the_wait_again),
		cmocka_unit_test(health__relapses_double_the_wait),
		cmocka_unit_test(
			health__reset_class_waits_long_or_for_the_report_of_the_driver),
		cmocka_unit_test(health__report_of_the_driver_alone_is_enough),
		cmocka_unit_test(health__faults_clear_without_a_wait),
		cmocka_unit_test(health__a_stuck_gpu_waits),
		cmocka_unit_test(health__xid_and_fault_together),
		cmocka_unit_test(health__without_recovery_stays_unhealthy),
		cmocka_unit_test(health__obeys_a_policy_that_changes),
		cmocka_unit_test(health__counts_every_xid),
		cmocka_unit_test(health_due__returns_the_date_of_the_next_check),
		cmocka_unit_test(health__keeps_its_invariants),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
