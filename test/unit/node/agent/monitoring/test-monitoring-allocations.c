/* SPDX-License-Identifier: Apache-2.0 */

/* Which share of a GPU a replica is, and which pod has a replica that the kubelet lists with several pods. */
#include "unit/model/core-fixture.h"

#include "node/agent/monitoring/usage.h"

#define GPU_RESOURCE    "nvidia.com/gpu"
#define SHARED_RESOURCE "nvidia.com/gpu.shared"

struct scene {
	struct inventory *inv;
	struct config *config;
	struct offer *offer;
	struct monitoring_devices devices;
	struct monitoring_replicas replicas;
	struct monitoring_pending pending;
	struct monitoring_allocations allocations, before;
	struct monitoring_usage usage;
	struct pod_device listed[8];
	struct pod_devices list;
	uint64_t now_ns;
};

static void scene_init(struct scene *s, uint32_t n_gpus)
{
	*s = (struct scene){ .inv = fixture_inventory(n_gpus),
		.config = fixture_config(),
		.now_ns = 100 * NS_PER_SEC };
	for (uint32_t i = 0; i < n_gpus; i++)
		s->inv->gpus[i].memory_usable_bytes = UINT64_C(16384) << 20;
	s->list.v = s->listed;
}

static void scene_offer(struct scene *s)
{
	struct error err = ERROR_INIT;

	s->offer = fixture_offer(s->inv, s->config);
	assert_ok(monitoring_devices_make(&s->devices, s->inv, s->offer, s->inv, &err), &err);
	assert_ok(monitoring_replicas_make(&s->replicas, &s->devices, s->offer, s->inv, &err),
		&err);
}

static void scene_fini(struct scene *s)
{
	monitoring_usage_fini(&s->usage);
	monitoring_allocations_fini(&s->allocations);
	monitoring_allocations_fini(&s->before);
	monitoring_pending_fini(&s->pending);
	monitoring_replicas_fini(&s->replicas);
	monitoring_devices_fini(&s->devices);
	s->offer = offer_free(s->offer);
	s->config = config_free(s->config);
	s->inv = inventory_free(s->inv);
}

static const struct monitoring_replica *make_test_replica(const struct scene *s,
	const char *resource, const char *id)
{
	uint32_t at = monitoring_replicas_find(&s->replicas, resource, id);

	if (at == MONITORING_NONE)
		fail_msg("no replica %s of %s", id, resource);
	return &s->replicas.v[at];
}

/* --- replicas --- */

/* Whatever the number of replicas: all replicas are the whole GPU, and no two differ by more than a
 * millionth. */
static void replicas__add_up_to_the_whole_gpu_exactly(void **state)
{
	static const uint32_t replicas[] = { 1, 2, 3, 7, 48, 999, 30000 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(replicas); i++) {
		struct scene s;
		uint32_t min = UINT32_MAX, max = 0;
		uint64_t sum = 0;

		scene_init(&s, 1);
		if (replicas[i] > 1)
			(void)fixture_share(s.config, GPU_RESOURCE, NULL, replicas[i], NULL);
		scene_offer(&s);
		assert_int_equal(s.replicas.n, replicas[i]);
		for (uint32_t k = 0; k < s.replicas.n; k++) {
			uint32_t share = s.replicas.v[k].share;

			sum += share;
			min = share < min ? share : min;
			max = share > max ? share : max;
		}
		if (sum != ACCOUNT_MILLION || max - min > 1)
			fail_msg("%u replicas: from %u to %u, in sum %llu", replicas[i], min,
				max, (unsigned long long)sum);
		scene_fini(&s);
	}
}

static void replicas__of_profiles_have_their_weight(void **state)
{
	struct slice_set *set;
	struct scene s;

	(void)state;
	scene_init(&s, 1);
	set = fixture_add_slices(s.config, GPU_RESOURCE, NULL);
	fixture_profile(set, "nvidia.com/large", 1, 8192)->weight = 2;
	(void)fixture_profile(set, "nvidia.com/small", 2, 2048);
	scene_offer(&s);
	assert_int_equal(make_test_replica(&s, "nvidia.com/large", "GPU-0::large::0")->share,
		500000);
	assert_int_equal(make_test_replica(&s, "nvidia.com/small", "GPU-0::small::0")->share,
		250000);
	assert_int_equal(make_test_replica(&s, "nvidia.com/small", "GPU-0::small::1")->mode,
		ACCOUNT_SLICES);
	assert_int_equal(
		make_test_replica(&s, "nvidia.com/large", "GPU-0::large::0")->memory_limit,
		UINT64_C(8192) << 20);
	scene_fini(&s);
}

/* One GPU that two resources offer: each resource has half of the GPU. */
static void replicas__of_a_gpu_in_two_resources_count_half(void **state)
{
	struct scene s;

	(void)state;
	scene_init(&s, 1);
	(void)fixture_share(s.config, GPU_RESOURCE, "nvidia.com/a", 2, NULL);
	(void)fixture_share(s.config, GPU_RESOURCE, "nvidia.com/b", 4, NULL);
	scene_offer(&s);
	assert_int_equal(s.replicas.n, 6);
	assert_int_equal(make_test_replica(&s, "nvidia.com/a", "GPU-0::0")->share, 250000);
	assert_int_equal(make_test_replica(&s, "nvidia.com/b", "GPU-0::0")->share, 125000);
	assert_int_equal(monitoring_replicas_find(&s.replicas, "nvidia.com/a", "GPU-0::2"),
		MONITORING_NONE);
	assert_int_equal(monitoring_replicas_find(&s.replicas, "nvidia.com/c", "GPU-0::0"),
		MONITORING_NONE);
	scene_fini(&s);
}

/* A GPU of the offer that NVML does not report any more: its replicas have no device. */
static void replicas__of_a_missing_gpu_have_no_device(void **state)
{
	struct monitoring_devices devices = { .n = 0 };
	struct monitoring_replicas replicas;
	struct error err = ERROR_INIT;
	struct inventory *one;
	struct scene s;

	(void)state;
	scene_init(&s, 2);
	(void)fixture_share(s.config, GPU_RESOURCE, NULL, 2, NULL);
	scene_offer(&s);
	one = fixture_inventory(1);
	assert_ok(monitoring_devices_make(&devices, one, s.offer, s.inv, &err), &err);
	assert_ok(monitoring_replicas_make(&replicas, &devices, s.offer, s.inv, &err), &err);
	assert_int_equal(replicas.n, 2);
	assert_int_equal(monitoring_replicas_find(&replicas, GPU_RESOURCE, "GPU-1::0"),
		MONITORING_NONE);
	assert_int_equal(monitoring_replicas_find(&replicas, GPU_RESOURCE, "GPU-0::1"), 1);
	monitoring_replicas_fini(&replicas);
	monitoring_devices_fini(&devices);
	one = inventory_free(one);
	scene_fini(&s);
}

/* A GPU in MIG mode that is offered as a whole is one device. Its MIG devices are none. */
static void devices__of_a_gpu_in_mig_mode_follow_the_offer(void **state)
{
	static const struct {
		enum mig_strategy strategy;
		uint32_t n;
		const char *first;
	} rows[] = { { MIG_STRATEGY_NONE, 1, "GPU-0" }, { MIG_STRATEGY_MIXED, 2, "MIG-0-0" } };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct scene s;

		scene_init(&s, 1);
		(void)fixture_mig(s.inv, 0, 3, 3, 20);
		(void)fixture_mig(s.inv, 0, 4, 4, 20);
		s.config->mig_strategy = rows[i].strategy;
		scene_offer(&s);
		assert_int_equal(s.devices.n, rows[i].n);
		assert_string_equal(s.devices.v[0].uuid, rows[i].first);
		scene_fini(&s);
	}
}

/* The instances have more compute slices than the GPU: the shares still add up to no more than the whole. */
static void devices__never_add_up_to_more_than_the_gpu(void **state)
{
	struct scene s;
	uint64_t sum = 0;

	(void)state;
	scene_init(&s, 1);
	for (int i = 0; i < 3; i++)
		(void)fixture_mig(s.inv, 0, 3, 3, 20);
	s.config->mig_strategy = MIG_STRATEGY_MIXED;
	scene_offer(&s);
	assert_int_equal(s.devices.n, 3);
	for (uint32_t i = 0; i < s.devices.n; i++)
		sum += s.devices.v[i].part;
	assert_int_equal(sum, ACCOUNT_MILLION);
	scene_fini(&s);
}

/* --- pending allocations --- */

static void pending__drops_the_oldest_beyond_its_limit(void **state)
{
	struct monitoring_pending pending = { .n = 0 };
	struct error err = ERROR_INIT;
	char id[16];

	(void)state;
	for (unsigned i = 0; i <= MONITORING_PENDING_MAX; i++) {
		(void)snprintf(id, sizeof(id), "GPU-%u", i);
		assert_ok(monitoring_pending_add(&pending, "r", id, i + 1, &err), &err);
	}
	assert_int_equal(pending.n, MONITORING_PENDING_MAX);
	assert_string_equal(pending.v[0].id, "GPU-1");
	/* The same allocation again counts once, with a new time. */
	assert_ok(monitoring_pending_add(&pending, "r", "GPU-1", 9999, &err), &err);
	assert_int_equal(pending.n, MONITORING_PENDING_MAX);
	assert_int_equal(pending.v[0].at_ns, 9999);
	assert_ok(monitoring_pending_add(&pending, "other", "GPU-1", 1, &err), &err);
	assert_int_equal(pending.v[pending.n - 1].at_ns, 1);
	monitoring_pending_fini(&pending);
}

/* --- allocations --- */

static void list_pod_as(struct scene *s, const char *pod, const char *container,
	const char *resource, const char *id, bool dynamic)
{
	assert_true(s->list.n < ARRAY_LEN(s->listed));
	s->listed[s->list.n++] = (struct pod_device){ .namespace_ = (char *)(uintptr_t) "ml",
		.pod = (char *)(uintptr_t)pod,
		.container = (char *)(uintptr_t)container,
		.resource = (char *)(uintptr_t)resource,
		.id = (char *)(uintptr_t)id,
		.dynamic = dynamic };
}

static void list_pod(struct scene *s, const char *pod, const char *id)
{
	list_pod_as(s, pod, "main", SHARED_RESOURCE, id, false);
}

static void add_test_pending(struct scene *s, const char *id, uint64_t after_ns)
{
	struct error err = ERROR_INIT;

	assert_ok(monitoring_pending_add(&s->pending, SHARED_RESOURCE, id, s->now_ns + after_ns,
			  &err),
		&err);
}

/* A round of one second. The list is read at its end, and is empty for the next round. */
static void update_allocations(struct scene *s)
{
	struct monitoring_span span = { .from_ns = s->now_ns, .to_ns = s->now_ns + NS_PER_SEC };
	struct error err = ERROR_INIT;

	monitoring_usage_fini(&s->usage);
	monitoring_allocations_fini(&s->before);
	s->before = s->allocations;
	assert_ok(monitoring_allocations_make(&s->allocations, &s->before, &s->list, NULL,
			  &s->devices, &s->replicas, &s->pending, span, &err),
		&err);
	assert_ok(monitoring_usage_make(&s->usage, &s->allocations, &s->before, &s->devices,
			  span, true, &err),
		&err);
	s->now_ns += NS_PER_SEC;
	s->list.n = 0;
}

static const char *find_holder(const struct scene *s, const char *resource, const char *id)
{
	const struct monitoring_allocation *allocation =
		monitoring_allocations_find(&s->allocations, resource, id);

	return allocation ? allocation->pod : "nobody";
}

static void init_shared_scene(struct scene *s)
{
	scene_init(s, 1);
	(void)fixture_share(s->config, GPU_RESOURCE, SHARED_RESOURCE, 4, NULL);
	scene_offer(s);
}

/* Containers of a pod hand their devices on: both have the replica, and its share counts once for each. */
static void allocations__of_two_containers_of_a_pod_count_both(void **state)
{
	struct scene s;

	(void)state;
	init_shared_scene(&s);
	list_pod_as(&s, "one", "init", SHARED_RESOURCE, "GPU-0::0", false);
	list_pod_as(&s, "one", "main", SHARED_RESOURCE, "GPU-0::0", false);
	update_allocations(&s);
	assert_int_equal(s.allocations.n, 2);
	assert_false(s.allocations.v[0].superseded || s.allocations.v[1].superseded);
	assert_int_equal(s.usage.n, 2);
	scene_fini(&s);
}

static void allocations__of_a_claim_are_shared_by_pods_with_the_claim(void **state)
{
	struct scene s;

	(void)state;
	init_shared_scene(&s);
	list_pod_as(&s, "one", "main", "claim", "GPU-0", true);
	list_pod_as(&s, "two", "main", "claim", "GPU-0", true);
	update_allocations(&s);
	assert_int_equal(s.usage.n, 2);
	assert_false(s.allocations.v[0].superseded || s.allocations.v[1].superseded);
	assert_int_equal(s.allocations.v[0].mode, ACCOUNT_EXCLUSIVE);
	assert_int_equal(s.allocations.v[0].replica, MONITORING_NONE);
	assert_int_equal(s.allocations.v[0].share, ACCOUNT_MILLION);
	assert_int_equal(s.allocations.v[0].memory_limit, UINT64_MAX);
	scene_fini(&s);
}

/* The last of several new pods in the kubelet's list has the replica. A pod that had the replica loses it to
 * a pod that did not. */
static void allocations__of_several_pods_belong_to_the_latest(void **state)
{
	struct scene s;

	(void)state;
	init_shared_scene(&s);
	list_pod(&s, "one", "GPU-0::0");
	list_pod(&s, "two", "GPU-0::0");
	update_allocations(&s);
	assert_string_equal(find_holder(&s, SHARED_RESOURCE, "GPU-0::0"), "two");
	assert_int_equal(s.usage.n, 1);
	list_pod(&s, "three", "GPU-0::0");
	list_pod(&s, "two", "GPU-0::0");
	list_pod(&s, "one", "GPU-0::0");
	update_allocations(&s);
	assert_string_equal(find_holder(&s, SHARED_RESOURCE, "GPU-0::0"), "three");
	/* A pod that has lost the replica does not get it back, whatever the order. */
	list_pod(&s, "three", "GPU-0::0");
	list_pod(&s, "one", "GPU-0::0");
	update_allocations(&s);
	assert_string_equal(find_holder(&s, SHARED_RESOURCE, "GPU-0::0"), "three");
	assert_string_equal(find_holder(&s, SHARED_RESOURCE, "GPU-0::1"), "nobody");
	assert_string_equal(find_holder(&s, GPU_RESOURCE, "GPU-0::0"), "nobody");
	scene_fini(&s);
}

/* The replica goes from one pod to the other within the round: their times add up to the round. */
static void allocations__split_the_round_at_the_allocation(void **state)
{
	struct scene s;
	uint64_t sum = 0;

	(void)state;
	init_shared_scene(&s);
	list_pod(&s, "one", "GPU-0::0");
	update_allocations(&s);
	add_test_pending(&s, "GPU-0::0", NS_PER_SEC / 4);
	list_pod(&s, "two", "GPU-0::0");
	list_pod(&s, "one", "GPU-0::0"); /* it has ended, and an old kubelet lists it */
	update_allocations(&s);
	assert_string_equal(find_holder(&s, SHARED_RESOURCE, "GPU-0::0"), "two");
	assert_int_equal(s.usage.n, 2);
	for (uint32_t i = 0; i < s.usage.n; i++)
		sum += s.usage.v[i].in.allocated_ns;
	assert_int_equal(sum, NS_PER_SEC);
	scene_fini(&s);
}

static void allocations__listed_twice_count_once(void **state)
{
	struct scene s;

	(void)state;
	init_shared_scene(&s);
	list_pod(&s, "one", "GPU-0::0");
	list_pod(&s, "one", "GPU-0::0");
	list_pod(&s, "one", "of another vendor");
	update_allocations(&s);
	assert_int_equal(s.allocations.n, 1);
	scene_fini(&s);
}

/* A pending allocation that was never listed is forgotten. One from after the list waits for the next list. */
static void pending__expires_after_two_minutes(void **state)
{
	struct scene s;

	(void)state;
	init_shared_scene(&s);
	add_test_pending(&s, "GPU-0::0", 2 * NS_PER_SEC);
	list_pod(&s, "one", "GPU-0::0"); /* the earlier pod */
	update_allocations(&s);
	assert_int_equal(s.pending.n, 1);
	assert_false(s.allocations.v[0].fresh);
	update_allocations(&s);
	update_allocations(&s);
	assert_int_equal(s.pending.n, 1);
	s.now_ns += MONITORING_PENDING_TIMEOUT_NS - 2 * NS_PER_SEC;
	update_allocations(&s);
	assert_int_equal(s.pending.n, 1);
	update_allocations(&s);
	assert_int_equal(s.pending.n, 0);
	scene_fini(&s);
}

/* Names that mean a share of a GPU by the ID of another plugin. */
static void allocations__of_other_devices_have_the_mode_of_their_id(void **state)
{
	static const struct {
		const char *id;
		enum account_mode mode;
	} rows[] = { { "GPU-0", ACCOUNT_EXCLUSIVE }, { "GPU-0::9", ACCOUNT_TIME_SLICING },
		{ "nvidia0/vgpu3", ACCOUNT_TIME_SLICING }, { "nvidia0", ACCOUNT_EXCLUSIVE } };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct scene s;

		init_shared_scene(&s);
		list_pod_as(&s, "one", "main", "other.com/gpu", rows[i].id, false);
		update_allocations(&s);
		assert_int_equal(s.allocations.n, 1);
		assert_int_equal(s.allocations.v[0].mode, rows[i].mode);
		assert_int_equal(s.usage.v[0].in.share, ACCOUNT_MILLION);
		assert_false(s.usage.v[0].offered);
		scene_fini(&s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(replicas__add_up_to_the_whole_gpu_exactly),
		cmocka_unit_test(replicas__of_profiles_have_their_weight),
		cmocka_unit_test(replicas__of_a_gpu_in_two_resources_count_half),
		cmocka_unit_test(replicas__of_a_missing_gpu_have_no_device),
		cmocka_unit_test(devices__of_a_gpu_in_mig_mode_follow_the_offer),
		cmocka_unit_test(devices__never_add_up_to_more_than_the_gpu),
		cmocka_unit_test(pending__drops_the_oldest_beyond_its_limit),
		cmocka_unit_test(allocations__of_two_containers_of_a_pod_count_both),
		cmocka_unit_test(allocations__of_a_claim_are_shared_by_pods_with_the_claim),
		cmocka_unit_test(allocations__of_several_pods_belong_to_the_latest),
		cmocka_unit_test(allocations__split_the_round_at_the_allocation),
		cmocka_unit_test(allocations__listed_twice_count_once),
		cmocka_unit_test(pending__expires_after_two_minutes),
		cmocka_unit_test(allocations__of_other_devices_have_the_mode_of_their_id),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
