/* SPDX-License-Identifier: Apache-2.0 */

/* What the agent logs of a device's health: each change once, as an Event. */
#include "unit/node/agent/agent-fixture.h"

#include "node/agent/health/changes.h"

#include <string.h>

struct env {
	struct agent_fixture *f;
	struct health_changes c;
};

static int setup(void **state)
{
	struct env *e = calloc(1, sizeof(*e));

	assert_non_null(e);
	(void)agent_fixture_setup((void **)&e->f);
	e->c.reporter = &e->f->reporter;
	*state = e;
	return 0;
}

static int teardown(void **state)
{
	struct env *e = *state;

	health_changes_fini(&e->c);
	(void)agent_fixture_teardown((void **)&e->f);
	free(e);
	return 0;
}

static void set_inventory(struct env *e, struct inventory *inv)
{
	agent_fixture_know(e->f, inv, NULL);
	health_changes_log(&e->c, &e->f->facts.node);
}

static struct inventory *inventory_with_fault(uint32_t n, uint32_t gpu, const char *why)
{
	struct inventory *inv = fixture_inventory(n);

	inv->gpus[gpu].fault = GPU_FAULT_FIELD;
	(void)snprintf(inv->gpus[gpu].reason, sizeof(inv->gpus[gpu].reason), "%s", why);
	return inv;
}

static void health_changes__are_reported_once(void **state)
{
	struct env *e = *state;

	set_inventory(e, fixture_inventory(3));
	assert_int_equal(e->f->n_events,
		0); /* a device that is healthy from the start is no news */
	set_inventory(e, inventory_with_fault(3, 1, "no answer"));
	assert_int_equal(agent_fixture_count(e->f, "GPUUnhealthy"), 1);
	assert_string_equal(agent_fixture_last(e->f, "GPUUnhealthy")->message,
		"GPU 1 (GPU-1): no answer");
	set_inventory(e, inventory_with_fault(3, 1, "no answer"));
	assert_int_equal(e->f->n_events, 1);
	set_inventory(e, inventory_with_fault(3, 1, "another reason"));
	assert_int_equal(agent_fixture_count(e->f, "GPUUnhealthy"), 2);
	for (int probe = 0; probe < 10; probe++) /* recovery takes some good ones */
		set_inventory(e, fixture_inventory(3));
	assert_int_equal(agent_fixture_count(e->f, "GPUHealthy"), 1);
	assert_int_equal(agent_fixture_count(e->f, "GPUUnhealthy"),
		3); /* its recovery is a reason, too */
}

static void health_changes__tell_devices_without_a_uuid_apart(void **state)
{
	struct env *e = *state;

	for (int round = 0; round < 2; round++) {
		struct inventory *inv = inventory_with_fault(3, 0, "a");

		inv->gpus[2].fault = GPU_FAULT_FIELD;
		(void)snprintf(inv->gpus[2].reason, sizeof(inv->gpus[2].reason), "b");
		inv->gpus[0].uuid[0] = inv->gpus[2].uuid[0] = '\0';
		assert_int_equal(node_observe(&e->f->facts.node, &e->f->facts.config->health,
					 inv, NULL, time_mono_ns(),
					 &(struct error)ERROR_INIT) >= 0,
			true);
		health_changes_log(&e->c, &e->f->facts.node);
		assert_int_equal(e->f->n_events, 2); /* not again in the second round */
		inv = inventory_free(inv);
	}
}

static void health_changes__of_a_gpu_are_not_those_of_its_mig_devices(void **state)
{
	struct env *e = *state;
	struct inventory *inv = fixture_inventory(1);

	(void)fixture_mig(inv, 0, 1, 1, 5);
	set_inventory(e, inv);
	inv = inventory_with_fault(1, 0, "lost");
	(void)fixture_mig(inv, 0, 1, 1, 5);
	set_inventory(e, inv);
	assert_int_equal(e->f->n_events, 1);
	assert_string_equal(e->f->events[0].message, "GPU 0 (GPU-0): lost");
}

static void health_changes__of_a_mig_device_name_it(void **state)
{
	struct env *e = *state;
	struct inventory *inv = fixture_inventory(1);

	(void)snprintf(fixture_mig(inv, 0, 1, 1, 5)->reason, GPU_REASON_MAX, "no node");
	set_inventory(e, inv);
	assert_int_equal(e->f->n_events, 1);
	assert_string_equal(e->f->events[0].message, "MIG device 0:0 (MIG-0-0): no node");
}

static void health_changes__forget_mig_devices_of_old_layouts(void **state)
{
	struct env *e = *state;

	for (uint32_t round = 0; round < 50; round++) {
		struct inventory *inv = fixture_inventory(1);

		(void)snprintf(fixture_mig(inv, 0, 1, 1, 5)->uuid, GPU_UUID_MAX, "MIG-%u",
			round);
		set_inventory(e, inv);
	}
	assert_int_equal(e->c.n, 2);
}

static void health_changes__of_warnings_are_reported_once(void **state)
{
	struct env *e = *state;
	struct node *n = &e->f->facts.node;

	set_inventory(e, fixture_inventory(1));
	for (int round = 0; round < 2; round++) {
		(void)snprintf(n->gpus[0].health.warning, GPU_REASON_MAX, "reset due");
		health_changes_log(&e->c, n);
	}
	assert_int_equal(agent_fixture_count(e->f, "GPUWarning"), 1);
	assert_string_equal(e->f->events[0].message, "GPU 0 (GPU-0): reset due");
	n->gpus[0].health.warning[0] = '\0';
	health_changes_log(&e->c, n);
	assert_int_equal(agent_fixture_count(e->f, "GPUWarningCleared"), 1);
	assert_int_equal(e->f->n_events, 2);
}

#define CHANGES_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHANGES_TEST(health_changes__are_reported_once),
		CHANGES_TEST(health_changes__tell_devices_without_a_uuid_apart),
		CHANGES_TEST(health_changes__of_a_gpu_are_not_those_of_its_mig_devices),
		CHANGES_TEST(health_changes__of_a_mig_device_name_it),
		CHANGES_TEST(health_changes__forget_mig_devices_of_old_layouts),
		CHANGES_TEST(health_changes__of_warnings_are_reported_once),
	};

	return cmocka_run_group_tests_name("health-changes", tests, NULL, NULL);
}
