/* SPDX-License-Identifier: Apache-2.0 */

/* Health signals, XIDs that are counted, and what of it asks for a repair of the node. On virtual time. */
#include "unit/model/core-fixture.h"

#include "model/health/repair.h"

#define S NS_PER_SEC

enum event { XID, PROBE, TICK };

#define NOTHING UINT32_MAX

struct step {
	uint64_t at; /* seconds */
	enum event what;
	uint32_t arg; /* the XID; of a probe: the signal that is raised, or NOTHING */
	bool changed; /* what is reported */
	bool ok;
	const char *reason, *warning; /* a part of it; "": none */
};

/* All signals of @g are known; @raised, unless NOTHING, has the value 3 or is asked for. */
static void know_all(struct gpu *g, uint32_t raised)
{
	g->recovery = GPU_RECOVERY_NONE;
	for (int i = 0; i < GPU_SIGNAL_STORED_; i++)
		gpu_signal_set(g, (enum gpu_signal)i, (uint32_t)i == raised ? 3 : 0);
	if (raised != NOTHING && raised >= GPU_SIGNAL_STORED_)
		g->recovery = (enum gpu_recovery)(
			raised - GPU_SIGNAL_STORED_ + GPU_RECOVERY_RESET_GPU);
}

static bool has_part(const char *text, const char *part)
{
	return part[0] ? strstr(text, part) != NULL : text[0] == '\0';
}

static void play(const struct health_policy *p, const struct step *steps, size_t n)
{
	struct health h;

	health_init(&h, 0);
	for (size_t i = 0; i < n; i++) {
		const struct step *s = &steps[i];
		struct gpu seen = { .index = 0 };
		bool changed;

		know_all(&seen, s->arg);
		changed = s->what == XID     ? health_xid(&h, p, s->arg, s->at * S)
			  : s->what == PROBE ? health_probe(&h, p, &seen, s->at * S)
					     : health_tick(&h, p, s->at * S);
		if (changed != s->changed || health_ok(&h) != s->ok ||
			!has_part(h.reason, s->reason) || !has_part(h.warning, s->warning))
			fail_msg("step %zu: changed %d, %s, reason '%s', warning '%s'", i,
				changed, health_state_name(h.state), h.reason, h.warning);
	}
}

#define PLAY(p, ...)                                  \
	play(p, (const struct step[]){ __VA_ARGS__ }, \
		ARRAY_LEN(((const struct step[]){ __VA_ARGS__ })))

static struct health_policy policy_with(const struct xid_rate *rates, size_t n)
{
	struct error err = ERROR_INIT;
	struct health_policy p;

	health_policy_default(&p);
	for (size_t i = 0; i < n; i++)
		assert_ok(health_policy_add_rate(&p, &rates[i], &err), &err);
	return p;
}

static void health__each_signal_obeys_its_policy(void **state)
{
	(void)state;
	for (uint32_t s = 0; s < GPU_SIGNAL_COUNT_; s++) {
		struct health_policy p;
		const char *text = health_signals[s].text;

		health_policy_default(&p);
		p.signals[s] = HEALTH_IGNORE;
		PLAY(&p, { 1, PROBE, s, false, true, "", "" });
		p.signals[s] = HEALTH_WARN;
		PLAY(&p, { 1, PROBE, s, true, true, "", text },
			{ 2, PROBE, s, false, true, "", text },
			{ 3, PROBE, NOTHING, true, true, "", "" });
		p.signals[s] = HEALTH_ACT;
		PLAY(&p, { 1, PROBE, s, true, false, text, "" },
			{ 100, PROBE, s, false, false, text, "" },
			{ 200, TICK, 0, false, false, text, "" },
			{ 300, PROBE, NOTHING, true, false, "on probation", "" },
			{ 310, PROBE, NOTHING, true, true, "", "" });
		/* All health checks switched off: the signal is reported, without an effect. */
		p.disabled = true;
		PLAY(&p, { 1, PROBE, s, true, true, "", text });
	}
}

static void health__names_a_signal_where_recovery_is_off(void **state)
{
	struct health_policy p;

	(void)state;
	health_policy_default(&p);
	p.recovery = false;
	PLAY(&p,
		{ 1, PROBE, GPU_SIGNAL_REMAP_FAILED, true, false,
			"replace the GPU: out until restart", "" },
		{ 9999, PROBE, NOTHING, true, false, "out until restart", "" });
}

static void health__unknown_signal_is_not_raised(void **state)
{
	struct gpu blind = { .index = 0 };
	struct health_policy p;
	struct health h;

	(void)state;
	health_policy_default(&p);
	health_init(&h, 0);
	for (int i = 0; i < GPU_SIGNAL_COUNT_; i++) {
		assert_false(gpu_signal(&blind, (enum gpu_signal)i, NULL));
		p.signals[i] = HEALTH_ACT;
	}
	assert_false(health_probe(&h, &p, &blind, S));
	assert_true(health_ok(&h));
}

static void health__counts_xids_within_a_window(void **state)
{
	static const struct xid_rate three = { .xids = { 31 },
		.n_xids = 1,
		.count = 3,
		.within_ns = 600 * S,
		.action = HEALTH_ACT };
	struct health_policy p = policy_with(&three, 1);

	(void)state;
	/* The window slides: 0 and 590 do not count together with 601. */
	PLAY(&p, { 0, XID, 31, false, true, "", "" }, { 590, XID, 31, false, true, "", "" },
		{ 601, XID, 31, false, true, "", "" },
		{ 700, XID, 31, true, false,
			"XID 31 (GPU memory page fault), 3 within 10m: looking again after 30s",
			"" },
		/* Errors that have made the GPU unhealthy do not count again. */
		{ 735, PROBE, NOTHING, true, false, "on probation", "" },
		{ 745, PROBE, NOTHING, true, true, "", "" },
		{ 750, XID, 31, false, true, "", "" }, { 751, XID, 31, false, true, "", "" },
		{ 752, XID, 31, true, false, "3 within 10m", "" });
	/* The edge belongs to the window; others do not count. */
	PLAY(&p, { 100, XID, 31, false, true, "", "" }, { 150, XID, 13, false, true, "", "" },
		{ 200, XID, 31, false, true, "", "" },
		{ 700, XID, 31, true, false, "3 within 10m", "" });
	PLAY(&p, { 0, XID, 31, false, true, "", "" }, { 300, XID, 31, false, true, "", "" },
		{ 600, TICK, 0, false, true, "", "" },
		{ 700, XID, 31, false, true, "", "" } /* the first is 100 s too old */,
		{ 899, XID, 31, true, false, "3 within 10m", "" });
}

static void health__an_xid_warning_ends_with_its_window(void **state)
{
	static const struct xid_rate rates[] = {
		{ .xids = { 13, 31 },
			.n_xids = 2,
			.count = 2,
			.within_ns = 60 * S,
			.action = HEALTH_WARN },
		{ .xids = { 31 },
			.n_xids = 1,
			.count = 4,
			.within_ns = 600 * S,
			.action = HEALTH_ACT },
	};
	struct health_policy p = policy_with(rates, 2);
	struct health h;

	(void)state;
	PLAY(&p, { 10, XID, 13, false, true, "", "" },
		{ 20, XID, 31, true, true, "", "XID 31 (GPU memory page fault), 2 within 1m" },
		{ 70, TICK, 0, false, true, "", "XID 31" }, { 71, TICK, 0, true, true, "", "" },
		/* 20 is too old by then, so it takes another one */
		{ 81, XID, 31, false, true, "", "" }, { 82, XID, 31, true, true, "", "XID 31" },
		{ 83, XID, 31, true, false, "4 within 10m", "XID 31" });
	p.probe_interval_ns = 0;
	health_init(&h, 0);
	assert_false(health_xid(&h, &p, 13, 10 * S));
	assert_true(health_due(&h, &p) == UINT64_MAX);
	assert_true(health_xid(&h, &p, 13, 20 * S));
	assert_true(health_due(&h, &p) == 70 * S + 1);
	assert_true(health_tick(&h, &p, health_due(&h, &p)));
	assert_string_equal(h.warning, "");
	assert_true(health_due(&h, &p) == UINT64_MAX);
}

static void health__a_counted_xid_does_nothing_by_itself(void **state)
{
	static const struct xid_rate rate = { .xids = { 79 },
		.n_xids = 1,
		.count = 2,
		.within_ns = 60 * S,
		.action = HEALTH_ACT };
	struct health_policy p = policy_with(&rate, 1);
	struct error err = ERROR_INIT;

	(void)state;
	assert_int_equal(health_policy_verdict(&p, 79), XID_COUNTED);
	assert_int_equal(health_policy_verdict(&p, 48), XID_ACTED);
	PLAY(&p, { 1, XID, 79, false, true, "", "" },
		{ 2, XID, 79, true, false, "XID 79", "" });
	/* Like an XID that is enabled, a rule counts where all are disabled. */
	p.disabled = true;
	assert_int_equal(health_policy_verdict(&p, 79), XID_COUNTED);
	assert_int_equal(health_policy_verdict(&p, 48), XID_IGNORED);
	/* The variables' setting of this XID has precedence. */
	assert_ok(health_policy_env(&p, "79", NULL, NULL, &err), &err);
	assert_int_equal(health_policy_verdict(&p, 79), XID_IGNORED);
	assert_ok(health_policy_env(&p, NULL, "79", NULL, &err), &err);
	assert_int_equal(health_policy_verdict(&p, 79), XID_ACTED);
}

static void health__other_rules_count_from_the_start(void **state)
{
	struct xid_rate rate = { .xids = { 31 },
		.n_xids = 1,
		.count = 3,
		.within_ns = 60 * S,
		.action = HEALTH_ACT };
	struct health_policy p = policy_with(&rate, 1), other;
	struct health h;

	(void)state;
	rate.count = 2;
	other = policy_with(&rate, 1);
	health_init(&h, 0);
	assert_false(health_xid(&h, &p, 31, S));
	assert_false(health_xid(&h, &p, 31, 2 * S));
	assert_false(health_xid(&h, &other, 31, 3 * S));
	assert_true(health_xid(&h, &other, 31, 4 * S));
}

/* Against a count that keeps everything. */
static void health__counts_as_a_list_of_all_would(void **state)
{
	uint64_t seed = 5, at[2000], now = 0;
	size_t n = 0, fired = 0;

	(void)state;
	for (int round = 0; round < 50; round++) {
		const struct xid_rate rate = { .xids = { 31 },
			.n_xids = 1,
			.count = 1 + (uint32_t)(fixture_random(&seed) % XID_RATE_COUNT_MAX),
			.within_ns = (1 + fixture_random(&seed) % 300) * S,
			.action = HEALTH_ACT };
		struct health_policy p = policy_with(&rate, 1);
		struct health h;

		health_init(&h, now);
		n = 0;
		for (int i = 0; i < 1000; i++) {
			uint32_t before, in = 0;

			now += fixture_random(&seed) % 20 * S;
			at[n++] = now;
			for (size_t k = 0; k < n; k++)
				in += now - at[k] <= rate.within_ns;
			before = h.cause_times;
			h.cause_times = 0;
			(void)health_xid(&h, &p, 31, now);
			assert_int_equal(h.cause_times, in >= rate.count ? rate.count : 0);
			if (h.cause_times) {
				n = 0;
				fired++;
			}
			h.cause_times = before;
			(void)health_tick(&h, &p, now);
		}
	}
	assert_true(fired > 100);
}

/* --- of the node --- */

struct fixture {
	struct node node;
	struct health_policy policy;
	struct inventory *inv;
	struct node_repair repair;
};

static void setup(struct fixture *f)
{
	*f = (struct fixture){ .inv = fixture_inventory(3) };
	health_policy_default(&f->policy);
	node_init(&f->node);
	for (uint32_t i = 0; i < 3; i++)
		know_all(&f->inv->gpus[i], NOTHING);
}

static void fini_rules_fixture(struct fixture *f)
{
	node_fini(&f->node);
	inventory_free(f->inv);
}

static enum repair_state observe(struct fixture *f, uint64_t at_s)
{
	struct error err = ERROR_INIT;

	assert_true(node_observe(&f->node, &f->policy, f->inv, NULL, at_s * S, &err) >= 0);
	node_repair(&f->node, &f->policy, &f->repair);
	return f->repair.state;
}

static void node_observe__raised_signal_stays_until_it_reads_as_clear(void **state)
{
	struct fixture f;
	struct gpu *g;
	uint64_t value;

	(void)state;
	setup(&f);
	g = &f.inv->gpus[1];
	gpu_signal_set(g, GPU_SIGNAL_REMAP_FAILED, 1);
	observe(&f, 1);
	assert_false(health_ok(&f.node.gpus[1].health));
	/* An unknown signal, as with MIG instances, does not count as clear. */
	g->signals_known = 0;
	observe(&f, 100);
	observe(&f, 200);
	assert_false(health_ok(&f.node.gpus[1].health));
	assert_true(gpu_signal(&f.node.gpus[1].gpu, GPU_SIGNAL_REMAP_FAILED, &value));
	assert_int_equal(value, 1);
	/* A signal that was clear is unknown now. */
	assert_false(gpu_signal(&f.node.gpus[1].gpu, GPU_SIGNAL_REMAP_PENDING, NULL));
	gpu_signal_set(g, GPU_SIGNAL_REMAP_FAILED, 0);
	observe(&f, 300);
	observe(&f, 310);
	assert_true(health_ok(&f.node.gpus[1].health));
	fini_rules_fixture(&f);
}

static void node_observe__reset_ends_unreadable_signals(void **state)
{
	struct fixture f;
	struct gpu *g;

	(void)state;
	setup(&f);
	g = &f.inv->gpus[1];
	gpu_signal_set(g, GPU_SIGNAL_REMAP_FAILED, 1);
	observe(&f, 1);
	g->fault = GPU_FAULT_LOST;
	observe(&f, 2);
	g->fault = GPU_OK;
	g->signals_known = 0;
	observe(&f, 3);
	assert_false(gpu_signal(&f.node.gpus[1].gpu, GPU_SIGNAL_REMAP_FAILED, NULL));
	fini_rules_fixture(&f);
}

/* A call that fails proves nothing, whatever came before it: the GPU may be unhealthy, and may not be
 * repaired. */
static void node_observe__unreadable_signal_does_not_recover(void **state)
{
	static const uint32_t signals[] = { GPU_SIGNAL_REMAP_FAILED, GPU_SIGNAL_DRIVER_MISMATCH,
		GPU_SIGNAL_RESET, GPU_SIGNAL_REBOOT, GPU_SIGNAL_DRAIN_RESET };
	static const enum gpu_fault faults[] = { GPU_OK, GPU_FAULT_FIELD, GPU_FAULT_LOST,
		GPU_FAULT_RESET, GPU_FAULT_STUCK, GPU_FAULT_GONE };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(signals) * ARRAY_LEN(faults); i++) {
		const enum gpu_signal raised = signals[i / ARRAY_LEN(faults)];
		const enum gpu_fault fault = faults[i % ARRAY_LEN(faults)];
		struct fixture f;
		struct gpu *g;
		uint64_t value = 0;

		setup(&f);
		g = &f.inv->gpus[2];
		know_all(g, raised);
		observe(&f, 1);
		g->signals_known = 0;
		g->signals_failed = (UINT32_C(2) << GPU_SIGNAL_STORED_) - 1;
		g->recovery = GPU_RECOVERY_UNKNOWN;
		g->fault = fault;
		f.inv->n -= fault == GPU_FAULT_GONE;
		observe(&f, 2);
		g = &f.node.gpus[2].gpu;
		assert_true(gpu_signal(g, raised, &value));
		assert_true(value > 0);
		/* A signal that was clear is unknown now. */
		assert_false(gpu_signal(g, GPU_SIGNAL_REMAP_PENDING, NULL));
		if (raised < GPU_SIGNAL_STORED_)
			assert_false(gpu_signal(g, GPU_SIGNAL_REBOOT, NULL));
		f.inv->n = 3;
		f.inv->gpus[2].fault = GPU_OK;
		for (uint64_t s = 10; s < 10000; s += 1000)
			observe(&f, s);
		if (health_ok(&f.node.gpus[2].health))
			fail_msg("row %zu: healthy again", i);
		know_all(&f.inv->gpus[2], NOTHING);
		observe(&f, 20000);
		observe(&f, 20010);
		assert_true(health_ok(&f.node.gpus[2].health));
		fini_rules_fixture(&f);
	}
}

/* While NVML is unavailable only the earlier faults of a GPU are known. */
static void node_observe__without_nvml_signals_are_unknown(void **state)
{
	struct error why = ERROR_INIT, err = ERROR_INIT;
	struct fixture f;

	(void)state;
	setup(&f);
	know_all(&f.inv->gpus[1], GPU_SIGNAL_REMAP_FAILED);
	observe(&f, 1);
	(void)error_set(&why, ERR_TIMEOUT, "no answer");
	assert_true(node_observe(&f.node, &f.policy, NULL, &why, 2 * S, &err) >= 0);
	for (int s = 0; s < GPU_SIGNAL_COUNT_; s++) {
		assert_false(gpu_signal(&f.node.gpus[0].gpu, (enum gpu_signal)s, NULL));
		assert_int_equal(gpu_signal(&f.node.gpus[1].gpu, (enum gpu_signal)s, NULL),
			s == GPU_SIGNAL_REMAP_FAILED);
	}
	fini_rules_fixture(&f);
}

static void node_repair__requests_repairs_of_permanent_faults(void **state)
{
	static const struct {
		uint32_t xid;
		enum gpu_fault fault;
		uint32_t signal;
		enum repair_state state;
		const char *reason;
	} rows[] = {
		{ 0, GPU_OK, NOTHING, REPAIR_NONE, "" },
		{ 31, GPU_OK, NOTHING, REPAIR_NONE, "" },
		{ 94, GPU_OK, NOTHING, REPAIR_NONE, "" }, /* unhealthy, and it passes */
		{ 48, GPU_OK, NOTHING, REPAIR_NEEDED, "NvidiaXID48Error" },
		{ 54, GPU_OK, NOTHING, REPAIR_NEEDED, "NvidiaXID54Error" },
		{ 79, GPU_FAULT_LOST, NOTHING, REPAIR_NEEDED, "NvidiaXID79Error" },
		{ 0, GPU_FAULT_LOST, NOTHING, REPAIR_NEEDED, "GPULost" },
		{ 0, GPU_FAULT_RESET, NOTHING, REPAIR_NEEDED, "GPUResetRequired" },
		{ 0, GPU_FAULT_STUCK, NOTHING, REPAIR_NEEDED, "GPUStuck" },
		{ 0, GPU_FAULT_FIELD, NOTHING, REPAIR_UNKNOWN, "" },
		{ 0, GPU_OK, GPU_SIGNAL_REMAP_FAILED, REPAIR_NEEDED, "RowRemapFailed" },
		{ 0, GPU_OK, GPU_SIGNAL_REMAP_PENDING, REPAIR_NONE, "" }, /* a warning */
		{ 0, GPU_OK, GPU_SIGNAL_ECC_VOLATILE, REPAIR_NONE, "" },
		{ 0, GPU_OK, GPU_SIGNAL_DRIVER_MISMATCH, REPAIR_NEEDED,
			"DriverLibraryMismatch" },
		{ 0, GPU_OK, GPU_SIGNAL_RESET, REPAIR_NEEDED, "GPUResetRequired" },
		{ 0, GPU_OK, GPU_SIGNAL_REBOOT, REPAIR_NEEDED, "NodeRebootRequired" },
		{ 0, GPU_OK, GPU_SIGNAL_DRAIN_P2P, REPAIR_NONE, "" },
		{ 0, GPU_OK, GPU_SIGNAL_DRAIN_RESET, REPAIR_NEEDED, "GPUResetRequired" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct fixture f;

		setup(&f);
		assert_int_equal(observe(&f, 1), REPAIR_NONE);
		if (rows[i].xid)
			(void)node_xid(&f.node, &f.policy, "GPU-1", NODE_XID_ALL, NODE_XID_ALL,
				rows[i].xid, S);
		f.inv->gpus[1].fault = rows[i].fault;
		know_all(&f.inv->gpus[1], rows[i].signal);
		if (observe(&f, 2) != rows[i].state ||
			strcmp(f.repair.reason, rows[i].reason) != 0)
			fail_msg("row %zu: %d '%s' '%s'", i, (int)f.repair.state,
				f.repair.reason, f.repair.message);
		if (rows[i].state == REPAIR_NEEDED)
			assert_non_null(strstr(f.repair.message, "GPU 1 (GPU-1): "));
		fini_rules_fixture(&f);
	}
}

/* Repair tools wait about as long as an agent keeps a missing GPU: the request must last longer. */
static void node_repair__missing_gpu_is_listed_until_it_is_back(void **state)
{
	static const struct {
		uint32_t xid;
		const char *reason;
	} rows[] = { { 0, "GPUGone" }, { 79, "NvidiaXID79Error" } };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows) * 3; i++) {
		const uint32_t xid = rows[i / 3].xid;
		struct fixture f;

		setup(&f);
		observe(&f, 1);
		if (xid)
			(void)node_xid(&f.node, &f.policy, "GPU-2", NODE_XID_ALL, NODE_XID_ALL,
				xid, S);
		f.inv->n = 2;
		for (uint64_t s = 2; s < 3000; s += 7) {
			if (i % 2) /* dropped by the clock, or by a probe */
				(void)node_tick(&f.node, &f.policy, s * S);
			if (observe(&f, s) != REPAIR_NEEDED ||
				strcmp(f.repair.reason, rows[i / 3].reason) != 0)
				fail_msg("row %zu after %d s: '%s'", i, (int)s,
					f.repair.reason);
			assert_non_null(strstr(f.repair.message, "GPU 2 (GPU-2): GPU is gone"));
			assert_null(strstr(f.repair.message, "; and "));
		}
		assert_int_equal(f.node.inv->n, 2); /* it is not shown any more */
		f.inv->n = 3;
		if (i % 3 == 1) /* another one in its slot */
			(void)snprintf(f.inv->gpus[2].uuid, sizeof(f.inv->gpus[2].uuid),
				"GPU-new");
		if (i % 3 == 2) { /* and one in another slot is another one */
			(void)snprintf(f.inv->gpus[2].uuid, sizeof(f.inv->gpus[2].uuid),
				"GPU-new");
			(void)snprintf(f.inv->gpus[2].bus_id, sizeof(f.inv->gpus[2].bus_id),
				"0000FFFF:01:00.0");
		}
		assert_int_equal(observe(&f, 4000), i % 3 == 2 ? REPAIR_NEEDED : REPAIR_NONE);
		fini_rules_fixture(&f);
	}
}

/* NVML refuses every init after such an upgrade, so that an agent may never have seen a GPU. */
static void node_repair__reports_a_driver_mismatch(void **state)
{
	struct error why = ERROR_INIT, err = ERROR_INIT;
	struct fixture f;

	(void)state;
	(void)error_set(&why, ERR_UNAVAILABLE, "nvmlInit_v2: Driver/library version mismatch");
	for (int known = 0; known <= 1; known++) {
		setup(&f);
		if (known)
			observe(&f, 1);
		assert_true(node_observe(&f.node, &f.policy, NULL, &why, 2 * S, &err) >= 0);
		node_repair(&f.node, &f.policy, &f.repair);
		assert_int_equal(f.repair.state, REPAIR_UNKNOWN); /* another trouble of NVML */
		f.node.driver_mismatch = true;
		assert_true(node_observe(&f.node, &f.policy, NULL, &why, 3 * S, &err) >= 0);
		node_repair(&f.node, &f.policy, &f.repair);
		assert_int_equal(f.repair.state, REPAIR_NEEDED);
		assert_string_equal(f.repair.reason, "DriverLibraryMismatch");
		assert_non_null(f.repair.message[0] ? f.repair.message : NULL);
		f.policy.signals[GPU_SIGNAL_DRIVER_MISMATCH] = HEALTH_WARN;
		node_repair(&f.node, &f.policy, &f.repair);
		assert_int_equal(f.repair.state, REPAIR_UNKNOWN);
		f.policy.signals[GPU_SIGNAL_DRIVER_MISMATCH] = HEALTH_ACT;
		f.node.driver_mismatch = false;
		observe(&f, 10);
		observe(&f, 20);
		assert_int_equal(f.repair.state, REPAIR_NONE);
		fini_rules_fixture(&f);
	}
}

static void node_repair__errors_of_programs_request_no_repair(void **state)
{
	static const struct xid_rate rate = { .xids = { 31 },
		.n_xids = 1,
		.count = 1,
		.within_ns = 60 * S,
		.action = HEALTH_ACT };
	struct fixture f;

	(void)state;
	setup(&f);
	f.policy = policy_with(&rate, 1);
	observe(&f, 1);
	assert_true(node_xid(&f.node, &f.policy, "GPU-1", NODE_XID_ALL, NODE_XID_ALL, 31, S));
	assert_false(health_ok(&f.node.gpus[1].health));
	node_repair(&f.node, &f.policy, &f.repair);
	assert_int_equal(f.repair.state, REPAIR_NONE);
	fini_rules_fixture(&f);
}

static void node_repair__counts_and_reports_when_it_is_unknown(void **state)
{
	struct error why = ERROR_INIT, err = ERROR_INIT;
	struct fixture f;

	(void)state;
	setup(&f);
	node_repair(&f.node, &f.policy, &f.repair);
	assert_int_equal(f.repair.state, REPAIR_UNKNOWN);
	know_all(&f.inv->gpus[0], GPU_SIGNAL_REMAP_FAILED);
	know_all(&f.inv->gpus[2], GPU_SIGNAL_REBOOT);
	assert_int_equal(observe(&f, 1), REPAIR_NEEDED);
	assert_string_equal(f.repair.reason, "RowRemapFailed");
	assert_non_null(strstr(f.repair.message, "; and 1 more"));
	/* NVML unavailable: raised signals stay raised. */
	(void)error_set(&why, ERR_UNAVAILABLE, "no NVML");
	assert_true(node_observe(&f.node, &f.policy, NULL, &why, 2 * S, &err) >= 0);
	node_repair(&f.node, &f.policy, &f.repair);
	assert_int_equal(f.repair.state, REPAIR_NEEDED);
	fini_rules_fixture(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(health__each_signal_obeys_its_policy),
		cmocka_unit_test(health__names_a_signal_where_recovery_is_off),
		cmocka_unit_test(health__unknown_signal_is_not_raised),
		cmocka_unit_test(health__counts_xids_within_a_window),
		cmocka_unit_test(health__an_xid_warning_ends_with_its_window),
		cmocka_unit_test(health__a_counted_xid_does_nothing_by_itself),
		cmocka_unit_test(health__other_rules_count_from_the_start),
		cmocka_unit_test(health__counts_as_a_list_of_all_would),
		cmocka_unit_test(node_observe__raised_signal_stays_until_it_reads_as_clear),
		cmocka_unit_test(node_observe__reset_ends_unreadable_signals),
		cmocka_unit_test(node_observe__unreadable_signal_does_not_recover),
		cmocka_unit_test(node_observe__without_nvml_signals_are_unknown),
		cmocka_unit_test(node_repair__requests_repairs_of_permanent_faults),
		cmocka_unit_test(node_repair__missing_gpu_is_listed_until_it_is_back),
		cmocka_unit_test(node_repair__reports_a_driver_mismatch),
		cmocka_unit_test(node_repair__errors_of_programs_request_no_repair),
		cmocka_unit_test(node_repair__counts_and_reports_when_it_is_unknown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
