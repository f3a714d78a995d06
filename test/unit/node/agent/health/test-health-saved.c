/* SPDX-License-Identifier: Apache-2.0 */

/* What of the GPUs' health outlives the agent. On virtual time. */
#include "unit/model/core-fixture.h"

#include "node/agent/health/saved.h"
#include "lib/base/time.h"
#include "model/health/repair.h"

#include <stdlib.h>
#include <string.h>

#define S    NS_PER_SEC
#define BOOT "2f6b"

static struct inventory *make_inventory(uint32_t n)
{
	struct inventory *inv = fixture_inventory(n);

	for (uint32_t i = 0; i < n; i++)
		inv->gpus[i].recovery = GPU_RECOVERY_NONE;
	return inv;
}

static void make_policy(struct health_policy *p)
{
	const struct xid_rate rate = { .xids = { 31 },
		.n_xids = 1,
		.count = 3,
		.within_ns = 600 * S,
		.action = HEALTH_ACT };
	struct error err = ERROR_INIT;

	health_policy_default(p);
	assert_ok(health_policy_add_rate(p, &rate, &err), &err);
}

static void observe_at(struct node *n, const struct health_policy *p,
	const struct inventory *inv, uint64_t at_s)
{
	struct error err = ERROR_INIT;

	assert_true(node_observe(n, p, inv, NULL, at_s * S, &err) >= 0);
}

static void xid(struct node *n, const struct health_policy *p, const char *uuid,
	uint32_t number, uint64_t at_s)
{
	(void)node_xid(n, p, uuid, NODE_XID_ALL, NODE_XID_ALL, number, at_s * S);
}

/* Starts another agent at @at_s, in the boot @boot. */
static int restart_agent(struct node *n, const struct health_policy *p, const char *boot,
	uint64_t at_s, struct error *err)
{
	char *text = saved_health_format(n, p, BOOT);
	int r;

	assert_non_null(text);
	node_fini(n);
	node_init(n);
	r = *text ? saved_health_parse(n, text, strlen(text), boot, at_s * S, err) : 0;
	free(text);
	return r;
}

static void saved_health__restores_counted_xids(void **state)
{
	struct inventory *inv = make_inventory(2);
	struct error err = ERROR_INIT;
	struct health_policy p;
	struct node n;

	(void)state;
	make_policy(&p);
	for (uint64_t third = 500; third <= 700; third += 200) {
		node_init(&n);
		observe_at(&n, &p, inv, 1);
		xid(&n, &p, "GPU-1", 31, 10);
		xid(&n, &p, "GPU-1", 31, 20);
		assert_ok(restart_agent(&n, &p, BOOT, 30, &err), &err);
		observe_at(&n, &p, inv, 31);
		assert_true(health_ok(&n.gpus[1].health));
		xid(&n, &p, "GPU-0", 31, third);
		xid(&n, &p, "GPU-1", 31, third);
		assert_true(health_ok(&n.gpus[0].health));
		/* The third within the window counts, one after it does not. */
		assert_int_equal(health_ok(&n.gpus[1].health), third > 620);
		node_fini(&n);
	}
	inventory_free(inv);
}

static void saved_health__continues_a_cool_down_from_its_start(void **state)
{
	struct inventory *inv = make_inventory(1);
	struct error err = ERROR_INIT;
	struct health_policy p;
	struct node n;
	char *text;

	(void)state;
	make_policy(&p);
	inv->gpus[0].recovery =
		GPU_RECOVERY_UNKNOWN; /* the driver does not report it: 10 minutes */
	node_init(&n);
	observe_at(&n, &p, inv, 1);
	xid(&n, &p, "GPU-0", 48, 100);
	assert_ok(restart_agent(&n, &p, BOOT, 400, &err), &err);
	observe_at(&n, &p, inv, 401);
	assert_false(health_ok(&n.gpus[0].health));
	assert_non_null(strstr(n.gpus[0].health.reason, "XID 48"));
	observe_at(&n, &p, inv, 690);
	assert_int_equal(n.gpus[0].health.state, HEALTH_UNHEALTHY);
	observe_at(&n, &p, inv, 701);
	observe_at(&n, &p, inv, 711);
	assert_true(health_ok(&n.gpus[0].health));
	/* The next fault of the GPU is a relapse. */
	assert_ok(restart_agent(&n, &p, BOOT, 800, &err), &err);
	observe_at(&n, &p, inv, 801);
	xid(&n, &p, "GPU-0", 48, 900);
	assert_true(n.gpus[0].health.retry_at_ns == (900 + 1200) * S);
	/* A restart makes the GPU healthy where the policy has no recovery. */
	p.recovery = false;
	assert_ok(restart_agent(&n, &p, BOOT, 1000, &err), &err);
	observe_at(&n, &p, inv, 1001);
	assert_true(health_ok(&n.gpus[0].health));
	node_fini(&n);
	/* The agent saves nothing of a GPU without faults. */
	node_init(&n);
	observe_at(&n, &p, inv, 1);
	text = saved_health_format(&n, &p, BOOT);
	assert_string_equal(text, "");
	free(text);
	node_fini(&n);
	inventory_free(inv);
}

static void saved_health__ends_with_a_reboot(void **state)
{
	struct inventory *inv = make_inventory(1);
	struct error err = ERROR_INIT;
	struct health_policy p;
	struct node n;

	(void)state;
	make_policy(&p);
	node_init(&n);
	observe_at(&n, &p, inv, 1);
	xid(&n, &p, "GPU-0", 48, 100);
	assert_true(restart_agent(&n, &p, "another", 200, &err) < 0);
	assert_int_equal(err.code, ERR_NOT_FOUND);
	observe_at(&n, &p, inv, 201);
	assert_true(health_ok(&n.gpus[0].health));
	node_fini(&n);
	inventory_free(inv);
}

static void saved_health__keeps_a_missing_gpu(void **state)
{
	struct inventory *inv = make_inventory(3);
	struct error err = ERROR_INIT;
	struct node_repair repair;
	struct health_policy p;
	struct node n;

	(void)state;
	make_policy(&p);
	node_init(&n);
	observe_at(&n, &p, inv, 1);
	xid(&n, &p, "GPU-1", 79, 2);
	for (int i = 0; i < 3; i++) { /* gone, missing, and missing again */
		inv->n = 1;
		observe_at(&n, &p, inv, 10 + 1000 * (uint64_t)i);
		assert_ok(restart_agent(&n, &p, BOOT, 20 + 1000 * (uint64_t)i, &err), &err);
		node_repair(&n, &p, &repair);
		observe_at(&n, &p, inv, 30 + 1000 * (uint64_t)i);
		node_repair(&n, &p, &repair);
		assert_int_equal(repair.state, REPAIR_NEEDED);
		assert_string_equal(repair.reason, "NvidiaXID79Error");
		assert_non_null(strstr(repair.message, "GPU 1 (GPU-1)"));
		assert_non_null(strstr(repair.message, "; and 1 more"));
	}
	inv->n = 3;
	observe_at(&n, &p, inv, 9000);
	node_repair(&n, &p, &repair);
	assert_int_equal(repair.state, REPAIR_NONE);
	node_fini(&n);
	inventory_free(inv);
}

static void saved_health__keeps_a_raised_signal_until_it_is_read(void **state)
{
	static const struct {
		enum gpu_signal signal;
		enum gpu_recovery recovery;
	} rows[] = { { GPU_SIGNAL_REMAP_FAILED, GPU_RECOVERY_NONE },
		{ GPU_SIGNAL_REBOOT, GPU_RECOVERY_REBOOT },
		{ GPU_SIGNAL_DRAIN_RESET, GPU_RECOVERY_DRAIN_RESET } };
	struct inventory *inv = make_inventory(2);
	struct error err = ERROR_INIT;
	struct gpu *g = &inv->gpus[1];
	struct health_policy p;
	struct node n;

	(void)state;
	make_policy(&p);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		uint64_t value = 0;

		node_init(&n);
		g->recovery = rows[i].recovery;
		gpu_signal_set(g, GPU_SIGNAL_REMAP_FAILED, i == 0 ? 3 : 0);
		observe_at(&n, &p, inv, 1);
		assert_ok(restart_agent(&n, &p, BOOT, 10, &err), &err);
		/* The driver reports no signal of the GPU any more. */
		g->signals_known = 0;
		g->recovery = GPU_RECOVERY_UNKNOWN;
		for (uint64_t s = 20; s < 100; s += 10)
			observe_at(&n, &p, inv, s);
		assert_false(health_ok(&n.gpus[1].health));
		assert_true(health_ok(&n.gpus[0].health));
		assert_true(gpu_signal(&n.gpus[1].gpu, rows[i].signal, &value));
		assert_int_equal(value, i == 0 ? 3 : 1);
		/* The probe reads the signal as clear, so the GPU recovers. */
		gpu_signal_set(g, GPU_SIGNAL_REMAP_FAILED, 0);
		g->recovery = GPU_RECOVERY_NONE;
		observe_at(&n, &p, inv, 200);
		observe_at(&n, &p, inv, 210);
		assert_true(health_ok(&n.gpus[1].health));
		node_fini(&n);
	}
	inventory_free(inv);
}

static void saved_health__matches_a_mig_device_by_uuid_and_profile(void **state)
{
	struct inventory *inv = make_inventory(1);
	struct gpu_mig mig = { .gi = 7, .ci = 0, .uuid = "MIG-0", .profile = "1g.10gb" };
	struct error err = ERROR_INIT;
	struct health_policy p;
	struct node n;

	(void)state;
	make_policy(&p);
	inv->gpus[0].mig_enabled = true;
	assert_ok(inventory_add_mig(inv, 0, &mig, 1, &err), &err);
	for (int same = 0; same <= 1; same++) {
		node_init(&n);
		(void)snprintf(inv->mig[0].profile, sizeof(mig.profile), "1g.10gb");
		observe_at(&n, &p, inv, 1);
		(void)node_xid(&n, &p, "GPU-0", 7, 0, 94, 2 * S);
		assert_false(health_ok(&n.migs[0]));
		assert_ok(restart_agent(&n, &p, BOOT, 10, &err), &err);
		if (!same)
			(void)snprintf(inv->mig[0].profile, sizeof(mig.profile), "2g.20gb");
		observe_at(&n, &p, inv, 11);
		assert_true(health_ok(&n.gpus[0].health));
		assert_int_equal(health_ok(&n.migs[0]), !same);
		node_fini(&n);
	}
	inventory_free(inv);
}

static void saved_health_parse__refuses_what_it_did_not_write(void **state)
{
#define DOC(devices) "{\"boot\":\"" BOOT "\",\"rules\":\"123456789\",\"devices\":" devices "}"
#define ROW(more) \
	DOC("[{\"uuid\":\"GPU-0\",\"index\":0,\"xid\":48,\"times\":0,\"relapses\":0," more "}]")
#define TIMES "\"troubleNs\":1,\"sinceNs\":1"
	static const struct {
		const char *json, *says; /* NULL: it is good */
	} rows[] = {
		{ DOC("[]"), NULL },
		{ ROW(TIMES), NULL },
		{ ROW(TIMES ",\"counted\":[{\"xid\":31,\"atNs\":[1,2]}]"), NULL },
		{ "", "line" },
		{ "[]", "other JSON" },
		{ "{\"boot\":\"" BOOT "\",\"rules\":\"x\",\"devices\":[]}", "other JSON" },
		{ DOC("{}"), "expected a list" },
		{ DOC("[1]"), "expected an object" },
		{ DOC("[{}]"), "devices[0]" },
		{ DOC("[{\"uuid\":\"GPU-0\",\"index\":0}]"), "numbers" },
		/* A date in the future would keep a GPU unhealthy until then. */
		{ ROW("\"troubleNs\":99999999999999,\"sinceNs\":1"), "have passed" },
		{ ROW("\"troubleNs\":1,\"sinceNs\":99999999999999"), "have passed" },
		{ ROW("\"sinceNs\":1"), "have passed" },
		{ ROW(TIMES ",\"counted\":[{\"xid\":31,\"atNs\":[2,1]}]"), "in order" },
		{ ROW(TIMES ",\"counted\":[{\"xid\":31,\"atNs\":[99999999999999]}]"),
			"have passed" },
		{ ROW(TIMES ",\"signals\":{\"rowRemapFailed\":1,\"later\":\"x\"}"), NULL },
		{ ROW(TIMES ",\"signals\":{\"rowRemapFailed\":0}"), "from 1 on" },
		{ ROW(TIMES ",\"signals\":[]"), "an object" },
		{ ROW(TIMES ",\"counted\":[{\"xid\":-1,\"atNs\":[]}]"), "XID" },
		{ ROW(TIMES ",\"counted\":[{},{},{},{},{},{},{},{},{}]"), "at most" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct error err = ERROR_INIT;
		const char *json = rows[i].json;
		size_t len = strlen(json);
		struct node n;

		node_init(&n);
		if (rows[i].says)
			assert_error(saved_health_parse(&n, json, len, BOOT, 1000 * S, &err),
				&err, rows[i].says);
		else
			assert_ok(saved_health_parse(&n, json, len, BOOT, 1000 * S, &err),
				&err);
		assert_int_equal(!n.persisted, rows[i].says != NULL);
		node_fini(&n);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(saved_health__restores_counted_xids),
		cmocka_unit_test(saved_health__continues_a_cool_down_from_its_start),
		cmocka_unit_test(saved_health__ends_with_a_reboot),
		cmocka_unit_test(saved_health__keeps_a_missing_gpu),
		cmocka_unit_test(saved_health__keeps_a_raised_signal_until_it_is_read),
		cmocka_unit_test(saved_health__matches_a_mig_device_by_uuid_and_profile),
		cmocka_unit_test(saved_health_parse__refuses_what_it_did_not_write),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
