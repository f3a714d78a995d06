/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/model/core-fixture.h"

#include "model/node/node.h"

#define S   NS_PER_SEC
#define ALL NODE_XID_ALL

struct fixture {
	struct node node;
	struct health_policy policy;
	struct error err;
};

static void setup(struct fixture *f)
{
	*f = (struct fixture){ .err = ERROR_INIT };
	node_init(&f->node);
	health_policy_default(&f->policy);
}

static int observe(struct fixture *f, const struct inventory *seen, uint64_t at)
{
	int r = node_observe(&f->node, &f->policy, seen, NULL, at * S, &f->err);

	assert_true(r >= 0);
	for (uint32_t i = 0; i < f->node.inv->n; i++) /* the two lists agree */
		assert_memory_equal(&f->node.inv->gpus[i], &f->node.gpus[i].gpu,
			sizeof(struct gpu));
	return r > 0;
}

static const struct node_gpu *by_uuid(const struct fixture *f, const char *uuid)
{
	for (uint32_t i = 0; i < f->node.inv->n; i++)
		if (strcmp(f->node.gpus[i].gpu.uuid, uuid) == 0)
			return &f->node.gpus[i];
	return NULL;
}

/* Takes GPU @i out of @inv. */
static void remove_inventory_gpu(struct inventory *inv, uint32_t i)
{
	memmove(&inv->gpus[i], &inv->gpus[i + 1], (inv->n - i - 1) * sizeof(*inv->gpus));
	inv->n--;
	free(inv->links);
	inv->links = NULL;
}

static void node_observe__reports_only_changes(void **state)
{
	struct inventory *inv = fixture_inventory(2);
	struct fixture f;

	(void)state;
	setup(&f);
	(void)snprintf(inv->driver_version, sizeof(inv->driver_version), "580.1");
	assert_true(observe(&f, inv, 0));
	assert_int_equal(f.node.inv->n, 2);
	assert_string_equal(f.node.inv->driver_version, "580.1");
	assert_false(observe(&f, inv, 10));
	inv->gpus[0].memory_used_bytes = 123;
	assert_false(observe(&f, inv, 20));
	assert_int_equal(f.node.inv->gpus[0].memory_used_bytes, 123);
	inv->gpus[0].minor = 7;
	assert_true(observe(&f, inv, 30));
	inv->links[1].nvlinks = 4;
	assert_true(observe(&f, inv, 40));
	assert_int_equal(inventory_link(f.node.inv, 0, 1).nvlinks, 4);
	inv->links[1].p2p = 1 + GPU_P2P_NOT_SUPPORTED;
	assert_true(observe(&f, inv, 42));
	inv->links[1].p2p = 0; /* not asked any more, and it does not change */
	assert_false(observe(&f, inv, 44));
	assert_int_equal(inventory_link(f.node.inv, 0, 1).p2p, 1 + GPU_P2P_NOT_SUPPORTED);
	(void)snprintf(inv->driver_version, sizeof(inv->driver_version), "590.1");
	assert_true(observe(&f, inv, 50));
	assert_false(observe(&f, inv, 60));
	node_fini(&f.node);
	inventory_free(inv);
}

/* What labels are made from besides the offer. */
static void node_observe__keeps_class_and_fabric(void **state)
{
	struct inventory *inv = fixture_inventory(1);
	struct gpu *g = &inv->gpus[0];
	struct fixture f;

	(void)state;
	setup(&f);
	assert_true(observe(&f, inv, 0));
	g->pci_class = 0x030200;
	assert_true(observe(&f, inv, 10));
	g->fabric_attached = true;
	assert_true(observe(&f, inv, 20));
	(void)snprintf(g->cluster_uuid, sizeof(g->cluster_uuid), "c");
	assert_true(observe(&f, inv, 30));
	g->clique_id = 3;
	assert_true(observe(&f, inv, 40));
	assert_false(observe(&f, inv, 50));
	*g = (struct gpu){ .numa_node = -1, .fault = GPU_FAULT_LOST };
	(void)snprintf(g->uuid, sizeof(g->uuid), "GPU-0");
	assert_true(observe(&f, inv, 60));
	assert_int_equal(f.node.inv->gpus[0].pci_class, 0x030200);
	assert_true(f.node.inv->gpus[0].fabric_attached);
	assert_string_equal(f.node.inv->gpus[0].cluster_uuid, "c");
	assert_int_equal(f.node.inv->gpus[0].clique_id, 3);
	node_fini(&f.node);
	inventory_free(inv);
}

static void node_observe__keeps_a_missing_gpu_and_its_neighbours(void **state)
{
	struct inventory *all = fixture_inventory(3), *less = fixture_inventory(3);
	struct fixture f;

	(void)state;
	setup(&f);
	all->links[0 * 3 + 2].nvlinks = all->links[2 * 3 + 0].nvlinks = 2;
	all->links[0 * 3 + 1].nvlinks = all->links[1 * 3 + 0].nvlinks = 3;
	observe(&f, all, 0);
	remove_inventory_gpu(less, 1);
	less->gpus[1].index = 1; /* NVML counts the rest again */
	assert_true(observe(&f, less, 10));
	assert_int_equal(f.node.inv->n, 3);
	assert_true(health_ok(&by_uuid(&f, "GPU-0")->health));
	assert_true(health_ok(&by_uuid(&f, "GPU-2")->health));
	assert_int_equal(by_uuid(&f, "GPU-2")->gpu.index, 1);
	assert_false(health_ok(&by_uuid(&f, "GPU-1")->health));
	assert_false(by_uuid(&f, "GPU-1")->present);
	assert_int_equal(by_uuid(&f, "GPU-1")->gpu.fault, GPU_FAULT_GONE);
	assert_string_equal(by_uuid(&f, "GPU-1")->health.reason,
		"GPU is gone: NVML does not list it any more");
	/* index 1 twice: then by UUID; the links went along */
	assert_string_equal(f.node.inv->gpus[1].uuid, "GPU-1");
	assert_int_equal(inventory_link(f.node.inv, 0, 1).nvlinks, 3);
	assert_int_equal(inventory_link(f.node.inv, 0, 2).nvlinks, 2);
	assert_false(observe(&f, less, 20));
	/* The GPU returns. The return counts as a reset, so two good probes are enough. */
	assert_true(observe(&f, all, 30));
	assert_int_equal(by_uuid(&f, "GPU-1")->health.state, HEALTH_PROBATION);
	assert_true(by_uuid(&f, "GPU-1")->present);
	assert_true(observe(&f, all, 40));
	assert_true(health_ok(&by_uuid(&f, "GPU-1")->health));
	assert_false(observe(&f, all, 50));
	node_fini(&f.node);
	inventory_free(all);
	inventory_free(less);
}

static void node_tick__drops_a_gpu_that_is_missing_for_long(void **state)
{
	struct inventory *all = fixture_inventory(3), *less = fixture_inventory(3);
	struct fixture f;

	(void)state;
	setup(&f);
	all->links[0 * 3 + 2].nvlinks = 2;
	observe(&f, all, 0);
	remove_inventory_gpu(less, 1);
	observe(&f, less, 10);
	assert_true(node_due(&f.node, &f.policy) == 20 * S);
	observe(&f, less, 595);
	assert_true(node_due(&f.node, &f.policy) == 600 * S); /* last seen at 0 */
	assert_false(node_tick(&f.node, &f.policy, 599 * S));
	assert_int_equal(f.node.inv->n, 3);
	assert_true(node_tick(&f.node, &f.policy, 600 * S));
	assert_int_equal(f.node.inv->n, 2);
	assert_string_equal(f.node.inv->gpus[1].uuid, "GPU-2");
	assert_string_equal(f.node.gpus[1].gpu.uuid, "GPU-2");
	assert_int_equal(inventory_link(f.node.inv, 0, 1).nvlinks, 2);
	/* A GPU may also disappear in a probe. */
	observe(&f, all, 700);
	observe(&f, less, 800);
	assert_int_equal(f.node.inv->n, 3);
	assert_true(observe(&f, less, 1300));
	assert_int_equal(f.node.inv->n, 2);
	node_fini(&f.node);
	inventory_free(all);
	inventory_free(less);
}

/* Otherwise a caller that probes when node_due() says so would probe without a pause. */
static void node_due__is_never_past_after_a_failed_probe(void **state)
{
	struct inventory *all = fixture_inventory(3), *less = fixture_inventory(3);
	struct error why = { .code = ERR_UNAVAILABLE, .msg = "no driver" };
	struct fixture f;

	(void)state;
	setup(&f);
	observe(&f, all, 0);
	remove_inventory_gpu(less, 1);
	observe(&f, less, 10);
	assert_true(node_observe(&f.node, &f.policy, NULL, &why, 100 * S, NULL) >= 0);
	assert_true(node_due(&f.node, &f.policy) == 110 * S);
	assert_int_equal(by_uuid(&f, "GPU-1")->gpu.fault, GPU_FAULT_GONE);
	assert_string_equal(by_uuid(&f, "GPU-1")->health.reason,
		"GPU is gone: NVML does not list it any more");
	assert_string_equal(by_uuid(&f, "GPU-0")->health.reason, "no driver");
	node_fini(&f.node);
	inventory_free(all);
	inventory_free(less);
}

/* A lost GPU often answers nothing at all, not even its UUID. */
static void node_observe__recognises_a_gpu_without_a_uuid(void **state)
{
	static const struct {
		bool bus_id;
		uint32_t index;
	} rows[] = { { true, 1 }, { false, 1 }, { true, 9 } };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct inventory *all = fixture_inventory(3), *bad = fixture_inventory(3);
		struct gpu *g = &bad->gpus[1];
		struct fixture f;

		setup(&f);
		observe(&f, all, 0);
		memset(g->uuid, 0, sizeof(g->uuid));
		memset(g->name, 0, sizeof(g->name));
		g->has_minor = false;
		if (!rows[i].bus_id)
			memset(g->bus_id, 0, sizeof(g->bus_id));
		g->index = rows[i].index;
		g->fault = GPU_FAULT_LOST;
		(void)snprintf(g->reason, sizeof(g->reason), "nvmlDeviceGetUUID: GPU is lost");
		assert_true(observe(&f, bad, 10));
		assert_int_equal(f.node.inv->n, 3);
		assert_false(health_ok(&by_uuid(&f, "GPU-1")->health));
		assert_string_equal(by_uuid(&f, "GPU-1")->health.reason,
			"nvmlDeviceGetUUID: GPU is lost");
		assert_string_equal(by_uuid(&f, "GPU-1")->gpu.name, "Tesla T4");
		assert_true(by_uuid(&f, "GPU-1")->gpu.has_minor);
		assert_true(health_ok(&by_uuid(&f, "GPU-0")->health));
		assert_true(health_ok(&by_uuid(&f, "GPU-2")->health));
		assert_false(observe(&f, bad, 20));
		node_fini(&f.node);
		inventory_free(all);
		inventory_free(bad);
	}
}

static void node_observe__lists_a_gpu_that_never_had_a_uuid(void **state)
{
	struct inventory *bad = fixture_inventory(2);
	struct fixture f;

	(void)state;
	setup(&f);
	bad->gpus[0].uuid[0] = '\0';
	bad->gpus[0].fault = GPU_FAULT_FIELD;
	assert_true(observe(&f, bad, 0));
	assert_int_equal(f.node.inv->n, 2);
	assert_false(health_ok(&f.node.gpus[0].health));
	assert_false(observe(&f, bad, 10));
	assert_int_equal(f.node.inv->n, 2);
	node_fini(&f.node);
	inventory_free(bad);
}

/* Two GPUs with one UUID cannot be, but must not make the list grow or hide one. */
static void node_observe__lists_twins_once_each(void **state)
{
	struct inventory *inv = fixture_inventory(2);
	struct fixture f;

	(void)state;
	setup(&f);
	observe(&f, inv, 0);
	(void)snprintf(inv->gpus[1].uuid, GPU_UUID_MAX, "GPU-0");
	inv->gpus[1].minor = 9;
	for (uint64_t at = 10; at < 100; at += 10) {
		observe(&f, inv, at);
		assert_int_equal(f.node.inv->n, 3); /* and GPU-1, which is missing */
	}
	assert_true(node_xid(&f.node, &f.policy, "GPU-0", ALL, ALL, 94, 100 * S));
	observe(&f, inv, 101);
	assert_int_equal((int)health_ok(&f.node.gpus[0].health) +
				 (int)health_ok(&f.node.gpus[1].health) +
				 (int)health_ok(&f.node.gpus[2].health),
		1);
	node_fini(&f.node);
	inventory_free(inv);
}

static void node_observe__without_nvml_reports_nvml_and_keeps_all_gpus(void **state)
{
	struct inventory *all = fixture_inventory(2);
	struct error why = ERROR_INIT;
	struct fixture f;

	(void)state;
	setup(&f);
	assert_int_equal(node_observe(&f.node, &f.policy, NULL, &why, 0, &f.err), 0);
	observe(&f, all, 0);
	error_set(&why, ERR_UNAVAILABLE, "nvmlInit_v2: Driver/library version mismatch");
	assert_true(node_observe(&f.node, &f.policy, NULL, &why, 10 * S, &f.err) > 0);
	assert_int_equal(f.node.inv->n, 2);
	assert_string_equal(f.node.gpus[1].health.reason,
		"nvmlInit_v2: Driver/library version mismatch");
	assert_int_equal(f.node.inv->gpus[1].fault, GPU_FAULT_FIELD);
	assert_int_equal(node_observe(&f.node, &f.policy, NULL, &why, 20 * S, &f.err), 0);
	assert_false(node_tick(&f.node, &f.policy, 99999 * S));
	assert_int_equal(f.node.inv->n, 2);
	error_set(&why, ERR_TIMEOUT, "NVML does not answer");
	assert_true(node_observe(&f.node, &f.policy, NULL, &why, 30 * S, &f.err) > 0);
	assert_int_equal(f.node.gpus[0].gpu.fault, GPU_FAULT_STUCK);
	node_fini(&f.node);
	inventory_free(all);
}

static void node_xid__affects_one_gpu(void **state)
{
	struct inventory *all = fixture_inventory(2);
	struct fixture f;

	(void)state;
	setup(&f);
	assert_false(node_xid(&f.node, &f.policy, "GPU-0", ALL, ALL, 79, 0));
	observe(&f, all, 0);
	assert_false(node_xid(&f.node, &f.policy, "GPU-7", ALL, ALL, 79, 0));
	assert_false(node_xid(&f.node, &f.policy, "", ALL, ALL, 79, 0));
	assert_true(node_xid(&f.node, &f.policy, "GPU-1", ALL, ALL, 94, 5 * S));
	assert_true(health_ok(&f.node.gpus[0].health));
	assert_false(health_ok(&f.node.gpus[1].health));
	observe(&f, all, 30);
	assert_true(node_due(&f.node, &f.policy) == 35 * S);
	assert_true(node_tick(&f.node, &f.policy, 35 * S));
	assert_int_equal(f.node.gpus[1].health.state, HEALTH_PROBATION);
	node_fini(&f.node);
	inventory_free(all);
}

/* Links that an unhealthy GPU cannot report are kept for the preference. */
static void node_observe__keeps_links_of_an_unhealthy_gpu(void **state)
{
	struct inventory *all = fixture_inventory(2), *bad = fixture_inventory(2);
	struct fixture f;

	(void)state;
	setup(&f);
	all->links[1] = all->links[2] =
		(struct gpu_link){ .level = GPU_LEVEL_SAME_CPU, .nvlinks = 4 };
	observe(&f, all, 0);
	bad->gpus[1].fault = GPU_FAULT_LOST;
	observe(&f, bad, 10);
	assert_int_equal(inventory_link(f.node.inv, 0, 1).nvlinks, 4);
	bad->gpus[1].fault = GPU_OK; /* it answers, and there are no links any more */
	observe(&f, bad, 20);
	assert_int_equal(inventory_link(f.node.inv, 0, 1).nvlinks, 0);
	node_fini(&f.node);
	inventory_free(all);
	inventory_free(bad);
}

/* Random comings and goings: sorted, no UUID twice, a GPU seen without a fault is present. */
static void node_observe__keeps_its_invariants(void **state)
{
	uint64_t seed = 3, now = 0;
	struct fixture f;

	(void)state;
	setup(&f);
	for (int round = 0; round < 3000; round++) {
		struct inventory *seen = fixture_inventory(6);

		for (uint32_t i = seen->n; i-- > 0;) {
			uint32_t r = fixture_random(&seed) % 10;

			if (r == 0) {
				remove_inventory_gpu(seen, i);
			} else if (r == 1) {
				seen->gpus[i].fault = GPU_FAULT_LOST;
				seen->gpus[i].uuid[0] = '\0';
			}
		}
		for (uint32_t i = 0; i < seen->n; i++)
			seen->gpus[i].index = i;
		now += fixture_random(&seed) % 200;
		observe(&f, seen, now);
		for (uint32_t i = 0; i < f.node.inv->n; i++) {
			const struct gpu *g = &f.node.inv->gpus[i];

			if (i) {
				const struct gpu *last = g - 1;

				assert_true(last->index < g->index ||
					    (last->index == g->index &&
						    strcmp(last->uuid, g->uuid) <= 0));
			}
			for (uint32_t j = 0; j < i && g->uuid[0]; j++)
				assert_string_not_equal(f.node.inv->gpus[j].uuid, g->uuid);
		}
		for (uint32_t i = 0; i < seen->n; i++)
			if (seen->gpus[i].fault == GPU_OK)
				assert_true(by_uuid(&f, seen->gpus[i].uuid)->present);
		assert_true(f.node.inv->n <= 12);
		inventory_free(seen);
	}
	node_fini(&f.node);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(node_observe__reports_only_changes),
		cmocka_unit_test(node_observe__keeps_class_and_fabric),
		cmocka_unit_test(node_observe__keeps_a_missing_gpu_and_its_neighbours),
		cmocka_unit_test(node_tick__drops_a_gpu_that_is_missing_for_long),
		cmocka_unit_test(node_due__is_never_past_after_a_failed_probe),
		cmocka_unit_test(node_observe__recognises_a_gpu_without_a_uuid),
		cmocka_unit_test(node_observe__lists_a_gpu_that_never_had_a_uuid),
		cmocka_unit_test(node_observe__lists_twins_once_each),
		cmocka_unit_test(node_observe__without_nvml_reports_nvml_and_keeps_all_gpus),
		cmocka_unit_test(node_xid__affects_one_gpu),
		cmocka_unit_test(node_observe__keeps_links_of_an_unhealthy_gpu),
		cmocka_unit_test(node_observe__keeps_its_invariants),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
