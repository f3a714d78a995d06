/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/model/core-fixture.h"

#include "model/node/node.h"

/* MIG devices in the node's memory, and their health. */

#define S   NS_PER_SEC
#define ALL NODE_XID_ALL

struct fixture {
	struct node node;
	struct health_policy policy;
	struct error err;
};

/* GPU 0 with two devices in one GI and one in another; GPU 1 with one; GPU 2 without MIG. */
static struct inventory *three_gpus(void)
{
	struct inventory *inv = fixture_inventory(3);

	fixture_mig(inv, 0, 1, 2, 10)->gi = 3;
	fixture_mig(inv, 0, 1, 2, 10)->gi = 3;
	inv->mig[1].ci = 1;
	fixture_mig(inv, 0, 1, 1, 5)->gi = 9;
	fixture_mig(inv, 1, 1, 1, 5)->gi = 3;
	return inv;
}

static bool observe_node(struct fixture *f, const struct inventory *seen, uint64_t at)
{
	int r = node_observe(&f->node, &f->policy, seen, NULL, at * S, &f->err);

	assert_true(r >= 0);
	return r > 0;
}

static struct inventory *setup(struct fixture *f)
{
	struct inventory *inv = three_gpus();

	*f = (struct fixture){ .err = ERROR_INIT };
	node_init(&f->node);
	health_policy_default(&f->policy);
	observe_node(f, inv, 0);
	return inv;
}

static void fini_node_fixture(struct fixture *f, struct inventory *inv)
{
	node_fini(&f->node);
	inventory_free(inv);
}

/* Health of devices: one letter for GPU 0 to 2 and the MIG devices in order. */
static void assert_health(int line, const struct fixture *f, const char *want)
{
	const struct inventory *inv = f->node.inv;
	char text[64];
	size_t n = 0;

	for (uint32_t i = 0; i < inv->n; i++)
		text[n++] = health_ok(&f->node.gpus[i].health) ? '+' : '-';
	text[n++] = ' ';
	for (uint32_t i = 0; i < inv->n_mig; i++)
		text[n++] = node_device_ok(&f->node, inv->mig[i].gpu, inv->mig[i].uuid, NULL)
				    ? '+'
				    : '-';
	text[n] = '\0';
	if (strcmp(text, want) != 0)
		fail_msg("line %d: '%s'", line, text);
}

#define HEALTH(f, want) assert_health(__LINE__, f, want)

static void node_xid__affects_the_named_instances(void **state)
{
	static const struct {
		uint32_t gi, ci;
		const char *gpu, *health;
	} rows[] = {
		{ 3, 0, "GPU-0", "+++ -+++" },
		{ 3, 1, "GPU-0", "+++ +-++" },
		{ 9, 0, "GPU-0", "+++ ++-+" },
		{ 3, ALL, "GPU-0", "+++ --++" },
		{ ALL, 0, "GPU-0", "+++ -+-+" },
		{ ALL, ALL, "GPU-0", "-++ ---+" },
		{ 3, 0, "GPU-1", "+++ +++-" },
		{ 5, 0, "GPU-0", "+++ ++++" }, /* none of those that are known */
		{ 9, 1, "GPU-0", "+++ ++++" }, /* both must be its own */
		{ 3, 0, "GPU-2", "++- ++++" }, /* MIG is off there */
		{ ALL, ALL, "GPU-2", "++- ++++" },
		{ 3, 0, "GPU-9", "+++ ++++" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct fixture f;
		struct inventory *inv = setup(&f);
		bool any = strchr(rows[i].health, '-') != NULL;

		HEALTH(&f, "+++ ++++");
		assert_int_equal(node_xid(&f.node, &f.policy, rows[i].gpu, rows[i].gi,
					 rows[i].ci, 48, 5 * S),
			any);
		HEALTH(&f, rows[i].health);
		/* an application's fault makes no device unhealthy, and is counted */
		assert_false(node_xid(&f.node, &f.policy, rows[i].gpu, rows[i].gi, rows[i].ci,
			13, 6 * S));
		HEALTH(&f, rows[i].health);
		if (strcmp(rows[i].gpu, "GPU-0") == 0) {
			assert_int_equal(f.node.gpus[0].health.xid_count, 2);
			assert_int_equal(f.node.gpus[0].health.last_xid, 13);
		}
		fini_node_fixture(&f, inv);
	}
}

static void node_xid__of_an_instance_recovers_like_that_of_a_gpu(void **state)
{
	struct fixture f;
	struct inventory *inv = setup(&f);
	const char *why;

	(void)state;
	for (uint32_t i = 0; i < inv->n; i++)
		inv->gpus[i].recovery = GPU_RECOVERY_NONE;
	observe_node(&f, inv, 1);
	assert_true(node_xid(&f.node, &f.policy, "GPU-0", 3, 1, 94, 5 * S));
	assert_false(node_device_ok(&f.node, 0, "MIG-0-1", &why));
	assert_non_null(strstr(why, "XID 94"));
	assert_true(node_device_ok(&f.node, 0, "MIG-0-0", &why));
	assert_string_equal(why, "");
	/* strategy none offers the GPU as a whole: it is as good as the worst of it */
	assert_false(node_device_ok(&f.node, 0, NULL, &why));
	assert_non_null(strstr(why, "XID 94"));
	assert_int_equal(node_due(&f.node, &f.policy), 11 * S);
	observe_node(&f, inv, 20);
	HEALTH(&f, "+++ +-++");
	f.policy.probe_interval_ns = 0;
	assert_int_equal(node_due(&f.node, &f.policy), 35 * S);
	assert_true(node_tick(&f.node, &f.policy, 35 * S));
	assert_int_equal(f.node.migs[1].state, HEALTH_PROBATION);
	assert_false(observe_node(&f, inv, 40));
	HEALTH(&f, "+++ +-++");
	assert_true(observe_node(&f, inv, 50));
	HEALTH(&f, "+++ ++++");
	assert_true(node_device_ok(&f.node, 0, NULL, NULL));
	assert_false(observe_node(&f, inv, 60));
	fini_node_fixture(&f, inv);
}

static void node_observe__of_a_faulty_gpu_keeps_its_devices(void **state)
{
	struct fixture f;
	struct inventory *inv = setup(&f), *all = three_gpus();
	struct error why = ERROR_INIT;
	const char *text;

	(void)state;
	/* the second GPU is lost, and nothing of it could be read */
	inv->gpus[1].fault = GPU_FAULT_LOST;
	inv->gpus[1].mig_enabled = false;
	(void)snprintf(inv->gpus[1].reason, GPU_REASON_MAX, "GPU is lost");
	inv->n_mig = 3;
	assert_true(observe_node(&f, inv, 10));
	assert_int_equal(f.node.inv->n_mig, 4);
	assert_true(f.node.inv->gpus[1].mig_enabled);
	HEALTH(&f, "+-+ +++-");
	assert_false(node_device_ok(&f.node, 1, "MIG-1-0", &text));
	assert_string_equal(text, "GPU is lost");
	assert_false(observe_node(&f, inv, 20));
	/* then it is not even listed; the third one moves up */
	inv->gpus[1] = inv->gpus[2];
	inv->gpus[1].index = 1;
	inv->n = 2;
	free(inv->links);
	inv->links = NULL;
	assert_true(observe_node(&f, inv, 30));
	assert_int_equal(f.node.inv->n_mig, 4);
	assert_string_equal(f.node.inv->mig[3].uuid, "MIG-1-0");
	assert_string_equal(f.node.inv->gpus[f.node.inv->mig[3].gpu].uuid, "GPU-1");
	/* and is forgotten with its devices */
	assert_true(node_tick(&f.node, &f.policy, 620 * S + f.policy.forget_after_ns));
	assert_int_equal(f.node.inv->n, 2);
	assert_int_equal(f.node.inv->n_mig, 3);
	HEALTH(&f, "++ +++");
	observe_node(&f, all, 2000);
	HEALTH(&f, "+++ ++++");
	/* NVML is unavailable: that affects all devices, and changes nothing twice */
	(void)error_set(&why, ERR_UNAVAILABLE, "no driver");
	assert_int_equal(node_observe(&f.node, &f.policy, NULL, &why, 2010 * S, &f.err), 1);
	HEALTH(&f, "--- ----");
	assert_int_equal(node_due(&f.node, &f.policy), 2020 * S); /* all were probed */
	assert_int_equal(node_observe(&f.node, &f.policy, NULL, &why, 2020 * S, &f.err), 0);
	observe_node(&f, all, 2030);
	observe_node(&f, all, 2040);
	HEALTH(&f, "+++ ++++");
	inventory_free(all);
	fini_node_fixture(&f, inv);
}

static void node_tick__drops_the_devices_of_one_gpu_only(void **state)
{
	struct fixture f;
	struct inventory *inv = setup(&f), *rest = fixture_inventory(3);

	(void)state;
	assert_true(node_xid(&f.node, &f.policy, "GPU-1", 3, 0, 48, 5 * S));
	/* GPU 0 goes, with three devices before that of GPU 1 */
	memmove(&rest->gpus[0], &rest->gpus[1], 2 * sizeof(*rest->gpus));
	rest->n = 2;
	free(rest->links);
	rest->links = NULL;
	fixture_mig(rest, 0, 1, 1, 5)->gi = 3;
	assert_true(observe_node(&f, rest, 10));
	assert_int_equal(f.node.inv->n_mig, 4);
	assert_true(node_tick(&f.node, &f.policy, 601 * S));
	assert_int_equal(f.node.inv->n_mig, 1);
	assert_string_equal(f.node.inv->mig[0].uuid, "MIG-1-0");
	assert_int_equal(f.node.inv->mig[0].gpu, 0);
	HEALTH(&f, "++ -");
	inventory_free(rest);
	fini_node_fixture(&f, inv);
}

static void node_observe__follows_the_layout(void **state)
{
	struct fixture f;
	struct inventory *inv = setup(&f);
	struct gpu_mig *last;

	(void)state;
	assert_false(observe_node(&f, inv, 10));
	/* each thing that is offered or shown of a device is a change, once */
#define CHANGES(statement)                               \
	do {                                             \
		last = &inv->mig[3];                     \
		statement;                               \
		assert_true(observe_node(&f, inv, 11));  \
		assert_false(observe_node(&f, inv, 12)); \
	} while (0)
	CHANGES(last->index = 2);
	CHANGES(last->gi = 4);
	CHANGES(last->ci = 4);
	CHANGES(last->gi_minor++);
	CHANGES(last->ci_minor++);
	CHANGES(last->has_minors = false);
	CHANGES(last->uuid[4]++);
	CHANGES(last->profile[0]++);
	CHANGES(last->memory_mib++);
	CHANGES(last->multiprocessors++);
	CHANGES(last->gi_slices++);
	CHANGES(last->ci_slices++);
	CHANGES(last->copy++);
	CHANGES(last->decoder++);
	CHANGES(last->encoder++);
	CHANGES(last->jpeg++);
	CHANGES(last->ofa++);
	CHANGES(inv->n_mig--);
	CHANGES(inv->n_mig++);
	CHANGES(last->gpu = 2);
#undef CHANGES
	fini_node_fixture(&f, inv);
}

/* A UUID is made of placements: the next instance there has the same one. */
static void node_observe__starts_new_instances_healthy(void **state)
{
	struct fixture f;
	struct inventory *inv = setup(&f), *empty = fixture_inventory(3);

	(void)state;
	assert_true(node_xid(&f.node, &f.policy, "GPU-0", 3, ALL, 48, 0));
	assert_true(node_xid(&f.node, &f.policy, "GPU-0", 9, ALL, 48, 0));
	HEALTH(&f, "+++ ---+");
	/* of one a new profile with the old UUID, of the other a new UUID */
	(void)snprintf(inv->mig[1].profile, sizeof(inv->mig[1].profile), "2g.10gb");
	inv->mig[1].ci_slices = 2;
	(void)snprintf(inv->mig[2].uuid, sizeof(inv->mig[2].uuid), "MIG-new");
	assert_true(observe_node(&f, inv, 10));
	HEALTH(&f, "+++ -+++");
	/* a device that was gone counts as new */
	empty->gpus[0].mig_enabled = true;
	empty->gpus[1].mig_enabled = true;
	assert_true(observe_node(&f, empty, 20));
	assert_int_equal(f.node.inv->n_mig, 0);
	assert_false(node_device_ok(&f.node, 0, "MIG-0-0", NULL));
	assert_true(node_device_ok(&f.node, 0, NULL, NULL));
	assert_true(observe_node(&f, inv, 30));
	HEALTH(&f, "+++ ++++");
	/* but not better than its GPU */
	assert_true(node_xid(&f.node, &f.policy, "GPU-0", ALL, ALL, 48, 31 * S));
	(void)snprintf(inv->mig[0].uuid, sizeof(inv->mig[0].uuid), "MIG-newer");
	assert_true(observe_node(&f, inv, 32));
	HEALTH(&f, "-++ ---+");
	inventory_free(empty);
	fini_node_fixture(&f, inv);
}

static void node_observe__keeps_the_state_of_an_unreadable_device(void **state)
{
	struct fixture f;
	struct inventory *inv = setup(&f), *bad = three_gpus();
	const char *why;

	(void)state;
	/* one without attributes, one without a UUID, recognised by its place */
	(void)snprintf(bad->mig[0].reason, GPU_REASON_MAX, "attributes: unknown error");
	bad->mig[0].profile[0] = '\0';
	bad->mig[0].memory_mib = 0;
	(void)snprintf(bad->mig[3].reason, GPU_REASON_MAX, "UUID: unknown error");
	bad->mig[3].uuid[0] = '\0';
	assert_true(observe_node(&f, bad, 10));
	HEALTH(&f, "+++ -++-");
	assert_string_equal(f.node.inv->mig[0].profile, "1c.2g.10gb");
	assert_int_equal(f.node.inv->mig[0].memory_mib, 10240);
	assert_string_equal(f.node.inv->mig[3].uuid, "MIG-1-0");
	assert_false(node_device_ok(&f.node, 0, "MIG-0-0", &why));
	assert_string_equal(why, "attributes: unknown error");
	assert_false(observe_node(&f, bad, 20));
	observe_node(&f, inv, 30);
	assert_true(observe_node(&f, inv, 40));
	HEALTH(&f, "+++ ++++");
	/* one that was never readable has no past */
	(void)snprintf(bad->mig[0].uuid, sizeof(bad->mig[0].uuid), "MIG-never");
	assert_true(observe_node(&f, bad, 50));
	assert_string_equal(f.node.inv->mig[0].uuid, "MIG-never");
	assert_string_equal(f.node.inv->mig[0].profile, "");
	HEALTH(&f, "+++ -++-");
	inventory_free(bad);
	fini_node_fixture(&f, inv);
}

/* A probe that cannot read the UUID may not know the instances either: both are 0 then. */
static void node_observe__does_not_confuse_devices_without_a_uuid(void **state)
{
	struct fixture f = { .err = ERROR_INIT };
	struct inventory *inv = fixture_inventory(1), *bad;
	const char *why;

	(void)state;
	node_init(&f.node);
	health_policy_default(&f.policy);
	for (uint32_t i = 0; i < 3; i++) {
		struct gpu_mig *m = fixture_mig(inv, 0, 1, 7, 40);

		m->gi = 0;
		m->ci = i;
	}
	observe_node(&f, inv, 0);
	assert_ok(inventory_copy(&bad, inv, &f.err), &f.err);
	bad->mig[2] = (struct gpu_mig){ .index = 2, .reason = "UUID: unknown error" };
	assert_true(observe_node(&f, bad, 10));
	HEALTH(&f, "+ ++-");
	assert_string_equal(f.node.inv->mig[2].uuid, "MIG-0-2");
	assert_int_equal(f.node.inv->mig[2].ci, 2);
	assert_false(node_device_ok(&f.node, 0, "MIG-0-2", &why));
	assert_string_equal(why, "UUID: unknown error");
	/* the one that was at its place is seen at another: it is a new one, of which nothing is known */
	bad->mig[1] = inv->mig[2];
	bad->mig[1].index = 1;
	observe_node(&f, bad, 20);
	assert_int_equal(f.node.inv->n_mig, 3);
	assert_string_equal(f.node.inv->mig[1].uuid, "MIG-0-2");
	assert_string_equal(f.node.inv->mig[2].uuid, "");
	inventory_free(bad);
	fini_node_fixture(&f, inv);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(node_xid__affects_the_named_instances),
		cmocka_unit_test(node_xid__of_an_instance_recovers_like_that_of_a_gpu),
		cmocka_unit_test(node_observe__of_a_faulty_gpu_keeps_its_devices),
		cmocka_unit_test(node_tick__drops_the_devices_of_one_gpu_only),
		cmocka_unit_test(node_observe__follows_the_layout),
		cmocka_unit_test(node_observe__starts_new_instances_healthy),
		cmocka_unit_test(node_observe__keeps_the_state_of_an_unreadable_device),
		cmocka_unit_test(node_observe__does_not_confuse_devices_without_a_uuid),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
