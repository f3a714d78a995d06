/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/model/core-fixture.h"

#include "lib/base/buf.h"
#include "model/labels/labels.h"
#include "model/prefer/prefer.h"
#include "model/slice/slice.h"
#include "model/sched/sched.h"

#include <assert.h>

static_assert(SLICE_WEIGHT_MAX == SLICE_WEIGHT_MAX, "what is written is what is understood");

/* What sharing.slices gives of a node, and a container of it. */

#define GPU       "nvidia.com/gpu"
#define MIB       (UINT64_C(1) << 20)
#define LIST(...) ((const char *const[]){ __VA_ARGS__, NULL })

struct node {
	struct inventory *inv;
	struct config *config;
	struct offer *offer;
};

/* GPUs of so many MiB each. */
static struct node node_of(uint32_t n, const uint64_t *mib)
{
	struct node node = { .inv = fixture_inventory(n), .config = fixture_config() };

	for (uint32_t i = 0; i < n; i++)
		node.inv->gpus[i].memory_usable_bytes = mib[i] * MIB;
	return node;
}

static void node_end(struct node *n)
{
	(void)offer_free(n->offer);
	(void)config_free(n->config);
	(void)inventory_free(n->inv);
}

/* "gpu=GPU-1 small=GPU-0::small::0,GPU-0::small::1" */
static void expect_slices(int line, struct node *n, const char *want)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(1 << 20);

	n->offer = fixture_offer(n->inv, n->config);
	for (uint32_t i = 0; i < n->offer->n; i++) {
		const struct resource *r = &n->offer->resources[i];

		buf_printf(&b, "%s%s=", i ? " " : "", r->name + strlen("nvidia.com/"));
		for (uint32_t k = 0; k < r->n_devices; k++)
			buf_printf(&b, "%s%s", k ? "," : "", r->devices[k].id);
	}
	if (strcmp(buf_str(&b), want) != 0)
		fail_msg("line %d: %s", line, buf_str(&b));
}
#define EXPECT(n, want) expect_slices(__LINE__, n, want)

/* Exactly these notes, each in part and in any order; NULL ends. */
static void expect_notes(int line, const struct node *n, const char *const *want)
{
	size_t count = 0;

	for (; want[count]; count++) {
		bool found = false;

		for (size_t i = 0; i < n->offer->notes.n; i++)
			found = found || strstr(n->offer->notes.v[i], want[count]);
		if (!found)
			fail_msg("line %d: no note '%s', the first is '%s'", line, want[count],
				n->offer->notes.n ? n->offer->notes.v[0] : "");
	}
	if (count != n->offer->notes.n)
		fail_msg("line %d: %zu notes, the last '%s'", line, n->offer->notes.n,
			n->offer->notes.v[n->offer->notes.n - 1]);
}
#define EXPECT_NOTES(n, ...) \
	expect_notes(__LINE__, n, (const char *const[]){ __VA_ARGS__, NULL })

static struct slice_plan plan_of(const struct node *n, const char *resource,
	const char *const *ids, size_t count)
{
	const struct resource *r = offer_find(n->offer, resource);
	struct error err = ERROR_INIT;
	struct slice_plan plan;

	assert_non_null(r);
	assert_ok(slice_plan_make(&plan, r, n->inv, ids, count, &err), &err);
	return plan;
}

static void offer__slices_named_gpus_and_keeps_the_rest(void **state)
{
	struct node n = node_of(3, (uint64_t[]){ 16384, 16384, 16384 });
	struct slice_set *s = fixture_add_slices(n.config, GPU, LIST("1", "GPU-1"));
	const struct resource *r;

	(void)state;
	(void)fixture_profile(s, GPU ".small", 2, 2048);
	(void)fixture_profile(s, GPU ".large", 1, 8192);
	EXPECT(&n, "gpu=GPU-0,GPU-2 gpu.large=GPU-1::gpu.large::0 "
		   "gpu.small=GPU-1::gpu.small::0,GPU-1::gpu.small::1");
	assert_int_equal(n.offer->notes.n, 0);
	r = offer_find(n.offer, GPU ".small");
	assert_int_equal(r->strategy, SHARING_SLICES);
	assert_string_equal(r->original, GPU);
	assert_int_equal(r->replicas, 2);
	assert_false(r->shares[0].fail_requests_greater_than_one);
	assert_int_equal(r->shares[0].strategy, SHARING_SLICES);
	assert_true(device_id_is_replica(r->devices[0].id));
	assert_int_equal(device_id_physical_len(r->devices[0].id), strlen("GPU-1"));
	node_end(&n);
}

static void offer__follows_counts_as_far_as_memory_allows(void **state)
{
	struct node n = node_of(2, (uint64_t[]){ 16384, 6144 });
	struct slice_set *s = fixture_add_slices(n.config, GPU, NULL);

	(void)state;
	/* The profile without a count is first in the file, and is served last. */
	(void)fixture_profile(s, GPU ".rest", 0, 1024);
	(void)fixture_profile(s, GPU ".large", 1, 8192);
	(void)fixture_profile(s, GPU ".small", 2, 4096);
	EXPECT(&n, "gpu.large=GPU-0::gpu.large::0 "
		   "gpu.rest=GPU-1::gpu.rest::0,GPU-1::gpu.rest::1 "
		   "gpu.small=GPU-0::gpu.small::0,GPU-0::gpu.small::1,GPU-1::gpu.small::0");
	EXPECT_NOTES(&n,
		"profile 'nvidia.com/gpu.large' (line 12): does not fit on GPU 1: it needs 8192 MiB, "
		"and 6144 MiB are left of 6144 MiB",
		"profile 'nvidia.com/gpu.small' (line 13): 1 of 2 fit on GPU 1: each needs 4096 MiB, "
		"and 2048 MiB are left of 6144 MiB",
		"profile 'nvidia.com/gpu.rest' (line 11): does not fit on GPU 0: it needs 1024 MiB, "
		"and 0 MiB are left of 16384 MiB");
	node_end(&n);
}

static void offer__keeps_whole_gpus_where_no_profile_fits(void **state)
{
	struct node n = node_of(3, (uint64_t[]){ 1000, 16384, 1000 });
	struct slice_set *s = fixture_add_slices(n.config, GPU, NULL);

	(void)state;
	(void)fixture_profile(s, GPU ".large", 1, 2048);
	(void)fixture_profile(s, GPU ".huge", 1, 1 << 20);
	EXPECT(&n, "gpu=GPU-0,GPU-2 gpu.large=GPU-1::gpu.large::0");
	EXPECT_NOTES(&n,
		"'nvidia.com/gpu.large' (line 11): does not fit on GPU 0, GPU 2: it needs",
		"'nvidia.com/gpu.huge' (line 12): does not fit on GPU 0, GPU 2: it needs 1048576 MiB",
		"does not fit on GPU 1: it needs 1048576 MiB, and 14336 MiB are left of 16384 MiB",
		"slices of 'nvidia.com/gpu' (line 1): no profile fits on GPU 0, GPU 2, offered whole");
	node_end(&n);
}

/* Two GPUs that lack the same are in one note; for more than a few GPUs the note has their number. */
static void offer__collects_notes(void **state)
{
	uint64_t mib[20];
	struct slice_set *s;
	struct node n;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(mib); i++)
		mib[i] = 4096;
	n = node_of(ARRAY_LEN(mib), mib);
	s = fixture_add_slices(n.config, GPU, NULL);
	(void)fixture_profile(s, GPU ".a", 5, 1024);
	n.offer = fixture_offer(n.inv, n.config);
	EXPECT_NOTES(&n,
		"4 of 5 fit on GPU 0, GPU 1, GPU 2, GPU 3, GPU 4, GPU 5, GPU 6, GPU 7 and "
		"12 more: each");
	node_end(&n);
}

static void offer__accepts_profiles_without_a_limit(void **state)
{
	struct node n = node_of(1, (uint64_t[]){ 16383 });
	struct slice_set *s = fixture_add_slices(n.config, GPU, NULL);
	struct slice_plan plan;

	(void)state;
	fixture_profile(s, GPU ".part", 0, 1)->isolation.memory = ISOLATION_MEMORY_PERMILLE;
	s->profiles[0].isolation.memory_value = 250;
	(void)fixture_profile(s, GPU ".open", 1, 0);
	EXPECT(&n, "gpu.open=GPU-0::gpu.open::0 gpu.part=GPU-0::gpu.part::0,GPU-0::gpu.part::1,"
		   "GPU-0::gpu.part::2,GPU-0::gpu.part::3");
	plan = plan_of(&n, GPU ".part", LIST("GPU-0::gpu.part::3"), 1);
	assert_true(plan.gpus[0].memory == 4094 * MIB);
	plan = plan_of(&n, GPU ".open", LIST("GPU-0::gpu.open::0"), 1);
	assert_true(plan.wanted);
	assert_true(plan.gpus[0].memory == SLICE_NO_LIMIT);
	node_end(&n);
}

static void offer__uses_counts_where_memory_is_unknown(void **state)
{
	struct node n = node_of(2, (uint64_t[]){ 0, 8192 });
	struct slice_set *s = fixture_add_slices(n.config, GPU, NULL);

	(void)state;
	(void)fixture_profile(s, GPU ".a", 2, 2048);
	(void)fixture_profile(s, GPU ".b", 0, 4096);
	EXPECT(&n, "gpu.a=GPU-0::gpu.a::0,GPU-0::gpu.a::1,GPU-1::gpu.a::0,GPU-1::gpu.a::1 "
		   "gpu.b=GPU-1::gpu.b::0");
	EXPECT_NOTES(&n,
		"profile 'nvidia.com/gpu.b' (line 12): the memory of GPU 0 is not known, so "
		"it cannot be said how many fit");
	node_end(&n);
}

static void offer__follows_the_product(void **state)
{
	struct node n = node_of(3, (uint64_t[]){ 16384, 81920, 16384 });
	struct slice_set *s = fixture_add_slices(n.config, GPU, NULL);

	(void)state;
	s->product = strdup("NVIDIA H100*");
	(void)snprintf(n.inv->gpus[1].name, GPU_NAME_MAX, "NVIDIA H100 80GB HBM3");
	(void)fixture_profile(s, GPU ".a", 1, 2048);
	EXPECT(&n, "gpu=GPU-0,GPU-2 gpu.a=GPU-1::gpu.a::0");
	assert_int_equal(n.offer->notes.n, 0);
	n.offer = offer_free(n.offer);
	free(s->product);
	s->product = strdup("NVIDIA H100");
	EXPECT(&n, "gpu=GPU-0,GPU-1,GPU-2");
	EXPECT_NOTES(&n, "this node has no such device whose product is 'NVIDIA H100'");
	node_end(&n);
}

/* A profile that no GPU of the node has room for is more than a note. */
static void offer__warns_of_profiles_that_fit_nowhere(void **state)
{
	struct node n = node_of(3, (uint64_t[]){ 6144, 16384, 16384 });
	struct slice_set *s = fixture_add_slices(n.config, GPU, LIST("0", "1"));
	struct slice_profile *p;

	(void)state;
	(void)fixture_profile(s, GPU ".large", 1, 12288);
	(void)fixture_profile(s, GPU ".huge", 2, 20480);
	(void)fixture_profile(s, GPU ".rest", 0, 6146);
	n.offer = fixture_offer(n.inv, n.config);
	assert_int_equal(n.offer->warnings.n, 2);
	assert_string_equal(n.offer->warnings.v[0],
		"profile 'nvidia.com/gpu.huge' (line 12): fits nowhere on this node, so nothing of "
		"it is offered: it needs 20480 MiB, and GPU 0, which has most left, has 6144 of "
		"6144 MiB");
	assert_non_null(strstr(n.offer->warnings.v[1], "gpu.rest' (line 13): fits nowhere"));
	n.offer = offer_free(n.offer);
	/* The other profile is on another GPU, through another set. */
	s = fixture_add_slices(n.config, GPU, LIST("2"));
	(void)fixture_profile(s, GPU ".rest", 0, 6146);
	n.offer = fixture_offer(n.inv, n.config);
	assert_int_equal(n.offer->warnings.n, 1);
	n.offer = offer_free(n.offer);
	/* A profile that fits in neither set is reported once. */
	p = fixture_profile(&n.config->slices[1], GPU ".huge", 1, 20480);
	n.offer = fixture_offer(n.inv, n.config);
	assert_int_equal(n.offer->warnings.n, 1);
	n.offer = offer_free(n.offer);
	p->isolation.memory = ISOLATION_MEMORY_PERMILLE;
	p->isolation.memory_value = 1;
	(void)snprintf(p->name, sizeof(p->name), GPU ".tiny");
	n.inv->gpus[2].memory_usable_bytes = UINT64_C(1024) * MIB;
	n.offer = fixture_offer(n.inv, n.config);
	assert_int_equal(n.offer->warnings.n, 3);
	assert_non_null(strstr(n.offer->warnings.v[2],
		"gpu.tiny' (line 12): nothing of it is offered on this node: its part of GPU 2, as "
		"of the others, is less than 2 MiB"));
	n.offer = offer_free(n.offer);
	/* Unknown, or this node has no such GPUs at all: a case for the notes. */
	n.inv->gpus[0].memory_usable_bytes = 0;
	n.inv->gpus[2].memory_usable_bytes = 0;
	n.offer = fixture_offer(n.inv, n.config);
	assert_int_equal(n.offer->warnings.n, 0);
	n.offer = offer_free(n.offer);
	n.inv->n = 1;
	n.inv->gpus[0].memory_usable_bytes = UINT64_C(16384) * MIB;
	n.config->slices[0].product = strdup("NVIDIA H100");
	n.config->slices[0].devices = DEVICES_ALL;
	n.offer = fixture_offer(n.inv, n.config);
	assert_int_equal(n.offer->warnings.n, 0);
	n.inv->n = 3;
	node_end(&n);
}

static void offer__warns_of_very_small_caps(void **state)
{
	struct node n = node_of(2, (uint64_t[]){ 16384, 16384 });
	struct slice_set *s = fixture_add_slices(n.config, GPU, NULL);

	(void)state;
	(void)fixture_profile(s, GPU ".small", 1, 0);
	s->profiles[0].isolation.compute = ISOLATION_COMPUTE_CAPPED;
	fixture_profile(s, GPU ".large", 1, 0)->weight = 999;
	n.offer = fixture_offer(n.inv, n.config);
	assert_int_equal(n.offer->warnings.n, 0);
	n.offer = offer_free(n.offer);
	s->profiles[1].count = 2;
	n.offer = fixture_offer(n.inv, n.config);
	assert_int_equal(n.offer->warnings.n, 1);
	assert_string_equal(n.offer->warnings.v[0],
		"profile 'nvidia.com/gpu.small' (line 11): a slice of GPU 0 may have 0.0500% of its "
		"time, as it weighs 1 of 1999 and is capped; expected at least 0.1%");
	node_end(&n);
}

/* Only the node can decide it: an index, a UUID and a product are one GPU. */
static void offer__slices_by_the_first_set_that_selects_a_gpu(void **state)
{
	struct node n = node_of(2, (uint64_t[]){ 16384, 16384 });

	(void)state;
	(void)fixture_profile(fixture_add_slices(n.config, GPU, LIST("0", "7")), GPU ".a", 1,
		2048);
	(void)fixture_profile(fixture_add_slices(n.config, GPU, LIST("GPU-0", "GPU-9")),
		GPU ".b", 1, 2048);
	(void)fixture_share(n.config, GPU, NULL, 2, LIST("GPU-0", "GPU-1"));
	EXPECT(&n, "gpu=GPU-1::0,GPU-1::1 gpu.a=GPU-0::gpu.a::0");
	EXPECT_NOTES(&n, "slices of 'nvidia.com/gpu' (line 1): no matching device at index: 7",
		"slices of 'nvidia.com/gpu' (line 2): GPU 0 is cut already as line 1 says",
		"(line 2): no matching device with UUID: GPU-9",
		"sharing of 'nvidia.com/gpu': GPU 0 is cut into slices, and is left so");
	node_end(&n);
}

static void offer__slices_mig_devices(void **state)
{
	struct node n = node_of(1, (uint64_t[]){ 40960 });
	struct slice_set *s =
		fixture_add_slices(n.config, "nvidia.com/mig-3g.20gb", LIST("0:1"));
	struct slice_plan plan;

	(void)state;
	n.config->mig_strategy = MIG_STRATEGY_MIXED;
	(void)fixture_mig(n.inv, 0, 1, 1, 5);
	(void)fixture_mig(n.inv, 0, 3, 3, 20);
	(void)fixture_mig(n.inv, 0, 3, 3, 20);
	(void)fixture_profile(s, "nvidia.com/half", 0, 10240);
	EXPECT(&n, "half=MIG-0-1::half::0,MIG-0-1::half::1 mig-1g.5gb=MIG-0-0 "
		   "mig-3g.20gb=MIG-0-2");
	assert_int_equal(n.offer->notes.n, 0);
	plan = plan_of(&n, "nvidia.com/half", LIST("MIG-0-1::half::0", "MIG-0-1::half::1"), 2);
	assert_string_equal(plan.gpus[0].uuid, "MIG-0-1");
	assert_true(plan.gpus[0].memory == 20480 * MIB);
	assert_int_equal(plan.gpus[0].weight, 2);
	node_end(&n);
}

static void slice_plan__divides_time_by_weight(void **state)
{
	struct node n = node_of(2, (uint64_t[]){ 16384, 6144 });
	struct slice_set *s = fixture_add_slices(n.config, GPU, NULL);
	struct slice_profile *p;
	struct slice_plan plan;

	(void)state;
	p = fixture_profile(s, GPU ".large", 1, 8192);
	p->weight = 4;
	p->isolation.compute = ISOLATION_COMPUTE_CAPPED;
	p = fixture_profile(s, GPU ".small", 4, 2048);
	p->isolation.compute = ISOLATION_COMPUTE_CAPPED;
	p->isolation.class_ = SLICE_CLASS_LATENCY;
	n.offer = fixture_offer(n.inv, n.config);
	plan = plan_of(&n, GPU ".large", LIST("GPU-0::gpu.large::0"), 1);
	assert_true(plan.wanted && plan.compute == SLICE_COMPUTE_FAIR_SHARE);
	assert_int_equal(plan.class_, SLICE_CLASS_BATCH);
	assert_int_equal(plan.gpus[0].weight, 4);
	assert_int_equal(plan.gpus[0].cap, 500000);
	plan = plan_of(&n, GPU ".small", LIST("GPU-0::gpu.small::1", "GPU-0::gpu.small::3"), 2);
	assert_int_equal(plan.class_, SLICE_CLASS_LATENCY);
	assert_true(plan.gpus[0].memory == 4096 * MIB);
	assert_int_equal(plan.gpus[0].weight, 2);
	assert_int_equal(plan.gpus[0].cap, 250000);
	/* The other GPU has three of these and nothing else: they are larger parts of it. */
	plan = plan_of(&n, GPU ".small", LIST("GPU-1::gpu.small::0", "GPU-0::gpu.small::0"), 2);
	assert_int_equal(plan.n, 2);
	assert_int_equal(plan.gpus[0].cap, 333333);
	assert_int_equal(plan.gpus[1].cap, 125000);
	node_end(&n);
}

static void slice_plan__divides_time_of_replicas(void **state)
{
	struct node n = node_of(1, (uint64_t[]){ 16384 });
	struct replicated *e = fixture_share(n.config, GPU, NULL, 4, NULL);
	struct slice_plan plan, open;

	(void)state;
	e->isolation = (struct isolation){ .present = true, .compute = ISOLATION_COMPUTE_FAIR };
	n.offer = fixture_offer(n.inv, n.config);
	plan = plan_of(&n, GPU, LIST("GPU-0::0", "GPU-0::2"), 2);
	assert_true(plan.wanted && plan.compute == SLICE_COMPUTE_FAIR_SHARE);
	assert_true(plan.gpus[0].memory == SLICE_NO_LIMIT);
	assert_int_equal(plan.gpus[0].weight, 2);
	assert_int_equal(plan.gpus[0].cap, 0);
	n.offer = offer_free(n.offer);
	e->isolation.compute = ISOLATION_COMPUTE_CAPPED;
	n.offer = fixture_offer(n.inv, n.config);
	open = plan_of(&n, GPU, LIST("GPU-0::0", "GPU-0::2", "GPU-0::3"), 3);
	assert_int_equal(open.gpus[0].cap, 750000);
	assert_false(slice_plan_equal(&plan, &open));
	slice_plan_open(&open);
	assert_int_equal(open.compute, SLICE_COMPUTE_NONE);
	assert_int_equal(open.gpus[0].cap, 0);
	node_end(&n);
}

/* Who asks for devices of several entries goes first only if all of them say so. */
static void slice_plan__is_latency_if_all_replicas_are(void **state)
{
	static const char *const both[][2] = { { "GPU-0::0", "GPU-1::0" },
		{ "GPU-1::0", "GPU-0::0" } };
	struct node n = node_of(3, (uint64_t[]){ 8192, 8192, 8192 });
	struct replicated *e;
	struct slice_plan plan;

	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		const char index[] = { (char)('0' + i), '\0' };

		e = fixture_share(n.config, GPU, NULL, 2, LIST(index));
		e->isolation = (struct isolation){ .present = true,
			.compute = i < 2 ? ISOLATION_COMPUTE_FAIR : ISOLATION_COMPUTE_NONE,
			.class_ = i == 0 ? SLICE_CLASS_LATENCY : SLICE_CLASS_BATCH };
	}
	n.offer = fixture_offer(n.inv, n.config);
	for (size_t i = 0; i < 2; i++) {
		plan = plan_of(&n, GPU, both[i], 2);
		assert_int_equal(plan.compute, SLICE_COMPUTE_FAIR_SHARE);
		assert_int_equal(plan.class_, SLICE_CLASS_BATCH);
	}
	/* An entry that does not divide time does not count. */
	plan = plan_of(&n, GPU, LIST("GPU-0::0", "GPU-2::0"), 2);
	assert_int_equal(plan.compute, SLICE_COMPUTE_FAIR_SHARE);
	assert_int_equal(plan.class_, SLICE_CLASS_LATENCY);
	plan = plan_of(&n, GPU, LIST("GPU-2::0"), 1);
	assert_false(plan.wanted);
	node_end(&n);
}

static void slice_time__stays_in_its_bounds(void **state)
{
	const struct offer_share large = { .replicas = 40000,
		.weight = 1000,
		.weights = UINT64_C(40000000),
		.isolation.compute = ISOLATION_COMPUTE_CAPPED };
	const struct offer_share small = { .replicas = 1,
		.weight = 1,
		.weights = UINT64_C(40000000),
		.isolation.compute = ISOLATION_COMPUTE_CAPPED };
	struct slice_gpu g;

	(void)state;
	slice_time(&g, &large, 40000);
	assert_int_equal(g.weight, SLICE_WEIGHT_MAX);
	assert_int_equal(g.cap, SLICE_CAP_ALL);
	slice_time(&g, &small, 1);
	assert_int_equal(g.weight, 1);
	assert_int_equal(g.cap, 1); /* none would be no cap */
}

/* Whatever a change alters must be seen, or it would not reach those that run. */
static void slice_plan_equal__compares_each_field(void **state)
{
	const struct slice_plan a = { .wanted = true,
		.compute = SLICE_COMPUTE_FAIR_SHARE,
		.n = 1,
		.gpus = { { .uuid = "GPU-0", .memory = MIB, .weight = 2, .cap = 3 } } };
	struct slice_plan b;

	(void)state;
	assert_true(slice_plan_equal(&a, &a));
#define CHANGE(statement)                               \
	do {                                            \
		b = a;                                  \
		statement;                              \
		assert_false(slice_plan_equal(&a, &b)); \
		assert_false(slice_plan_equal(&b, &a)); \
	} while (0)
	CHANGE(b.wanted = false);
	CHANGE(b.compute = SLICE_COMPUTE_NONE);
	CHANGE(b.compute = SLICE_COMPUTE_MPS);
	CHANGE(b.class_ = SLICE_CLASS_LATENCY);
	CHANGE(b.unhooked = UNHOOKED_STOP);
	CHANGE(b.n = 0);
	CHANGE(b.gpus[0].uuid[0] = 'x');
	CHANGE(b.gpus[0].memory = 1);
	CHANGE(b.gpus[0].weight = 1);
	CHANGE(b.gpus[0].cap = 0);
#undef CHANGE
}

static void prefer__selects_slices_of_one_gpu(void **state)
{
	static const char *const available[] = { "GPU-0::a::0", "GPU-1::a::0", "GPU-1::a::1",
		"GPU-2::a::0", "GPU-2::a::1", "GPU-2::a::2" };
	static const struct {
		enum allocation_policy policy;
		const char *required; /* or NULL */
		size_t size;
		const char *want;
	} rows[] = {
		{ ALLOCATION_DISTRIBUTED, NULL, 1, "GPU-2::a::0" },
		{ ALLOCATION_DISTRIBUTED, NULL, 2, "GPU-2::a::0 GPU-2::a::1" },
		{ ALLOCATION_PACKED, NULL, 1, "GPU-0::a::0" },
		{ ALLOCATION_PACKED, NULL, 2, "GPU-1::a::0 GPU-1::a::1" },
		{ ALLOCATION_PACKED, NULL, 3, "GPU-2::a::0 GPU-2::a::1 GPU-2::a::2" },
		{ ALLOCATION_DISTRIBUTED, "GPU-1::a::1", 2, "GPU-1::a::1 GPU-1::a::0" },
		/* none has room for four: spread as replicas are */
		{ ALLOCATION_PACKED, NULL, 4,
			"GPU-0::a::0 GPU-1::a::0 GPU-1::a::1 GPU-2::a::0" },
	};
	struct node n = node_of(3, (uint64_t[]){ 8192, 8192, 8192 });
	struct slice_set *s = fixture_add_slices(n.config, GPU, NULL);

	(void)state;
	(void)fixture_profile(s, "nvidia.com/a", 4, 2048);
	n.offer = fixture_offer(n.inv, n.config);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct prefer_request req = { .available = available,
			.n_available = ARRAY_LEN(available),
			.required = &rows[i].required,
			.n_required = rows[i].required != NULL,
			.size = rows[i].size };
		CLEANUP(buf_fini) struct buf b = BUF_INIT(1024);
		struct error err = ERROR_INIT;
		const char *ids[4];
		size_t got;

		assert_ok(prefer_choose(&n.offer->resources[0], n.inv, rows[i].policy, &req,
				  ids, &got, &err),
			&err);
		for (size_t k = 0; k < got; k++)
			buf_printf(&b, "%s%s", k ? " " : "", ids[k]);
		if (strcmp(buf_str(&b), rows[i].want) != 0)
			fail_msg("row %zu: %s", i, buf_str(&b));
	}
	node_end(&n);
}

static const char *get_label_or_none(const struct labels *l, const char *key)
{
	const char *value = labels_get(l, key);

	return value ? value : "(none)";
}

static void labels__describe_profiles(void **state)
{
	static const char *const rows[][2] = {
		{ "gpu.count", "3" },
		{ "gpu.product", "Tesla-T4" },
		{ "gpu.replicas", "4" },
		{ "gpu.sharing-strategy", "slices" },
		{ "gpu.small.product", "Tesla-T4" },
		{ "gpu.small.count", "2" },
		{ "gpu.small.replicas", "3" },
		{ "gpu.small.sharing-strategy", "slices" },
		{ "gpu.small.memory", "2048" },
		{ "gpu.small.weight", "1" },
		{ "gpu.small.compute", "fair" },
		{ "gpu.small.class", "latency" },
		{ "gpu.large.count", "1" },
		{ "gpu.large.weight", "4" },
		{ "gpu.large.compute", "capped" },
		{ "gpu.large.class", "batch" },
		{ "gpu.open.memory", "(none)" },
		{ "gpu.huge.count", "(none)" },
	};
	struct node n = node_of(3, (uint64_t[]){ 6144, 16384, 6144 });
	struct slice_set *s = fixture_add_slices(n.config, GPU, LIST("1", "0"));
	const struct label_facts facts = { .machine = "x" };
	struct error err = ERROR_INIT;
	struct labels *l = NULL;
	struct slice_profile *p;

	(void)state;
	fixture_profile(s, GPU ".small", 3, 2048)->isolation.class_ = SLICE_CLASS_LATENCY;
	p = fixture_profile(s, GPU ".large", 1, 8192);
	p->weight = 4;
	p->isolation.compute = ISOLATION_COMPUTE_CAPPED;
	(void)fixture_profile(s, GPU ".huge", 1, 1 << 20);
	(void)snprintf(n.inv->driver_version, sizeof(n.inv->driver_version), "580.1.2");
	assert_ok(labels_new(&l, n.inv, n.config, &facts, NULL, &err), &err);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char key[80];

		(void)snprintf(key, sizeof(key), "nvidia.com/%s", rows[i][0]);
		if (strcmp(get_label_or_none(l, key), rows[i][1]) != 0)
			fail_msg("%s=%s", key, get_label_or_none(l, key));
	}
	(void)labels_free(l);
	node_end(&n);
}

/* --- on random nodes --- */

#define PROFILES 4

static void random_config(struct node *n, uint64_t *seed)
{
	static const char *const names[PROFILES] = { "nvidia.com/a", "nvidia.com/b",
		"nvidia.com/c", "nvidia.com/d" };
	static const char *const refs[] = { "0", "1", "2", "3", "GPU-0", "GPU-1", "GPU-9" };

	for (uint32_t k = fixture_random(seed) % 3 + 1; k; k--) {
		const char *list[4] = { NULL };
		struct slice_set *s;

		for (size_t i = 0; i < 3; i++)
			list[i] = refs[fixture_random(seed) % ARRAY_LEN(refs)];
		s = fixture_add_slices(n->config, GPU, fixture_random(seed) % 3 ? list : NULL);
		for (size_t i = 0; i < PROFILES; i++) {
			struct slice_profile *p;

			if (fixture_random(seed) % 2)
				continue;
			p = fixture_profile(s, names[i], fixture_random(seed) % 6,
				fixture_random(seed) % 5 * 1000);
			p->weight = fixture_random(seed) % 9 + 1;
			p->isolation.compute = fixture_random(seed) % 2
						       ? ISOLATION_COMPUTE_FAIR
						       : ISOLATION_COMPUTE_CAPPED;
			if (fixture_random(seed) % 4 == 0) {
				p->isolation.memory = ISOLATION_MEMORY_PERMILLE;
				p->isolation.memory_value = fixture_random(seed) % 1000 + 1;
			}
		}
	}
	if (fixture_random(seed) % 2)
		(void)fixture_share(n->config, GPU, NULL, 3, LIST("1", "2"));
}

/* The slices of a GPU have no more memory than the GPU, and caps of no more than all of its time. */
static void check_gpu(const struct node *n, uint32_t gpu, uint64_t seed)
{
	uint64_t memory = 0, caps = 0;
	bool whole = false, cut = false;

	for (uint32_t i = 0; i < n->offer->n; i++) {
		const struct resource *r = &n->offer->resources[i];

		for (uint32_t k = 0; k < r->n_devices; k++) {
			const char *const id = r->devices[k].id;
			struct error err = ERROR_INIT;
			struct slice_plan plan;

			if (r->devices[k].gpu != gpu)
				continue;
			whole = whole || r->strategy != SHARING_SLICES;
			cut = cut || r->strategy == SHARING_SLICES;
			for (uint32_t j = i + 1; j < n->offer->n; j++)
				if (resource_find(&n->offer->resources[j], id))
					fail_msg("seed %llu: %s is offered twice",
						(unsigned long long)seed, id);
			assert_ok(slice_plan_make(&plan, r, n->inv, &id, 1, &err), &err);
			if (plan.wanted && plan.gpus[0].memory != SLICE_NO_LIMIT)
				memory += plan.gpus[0].memory;
			if (plan.wanted)
				caps += plan.gpus[0].cap;
		}
	}
	if (memory > n->inv->gpus[gpu].memory_usable_bytes || caps > SLICE_CAP_ALL ||
		whole == cut)
		fail_msg("seed %llu, GPU %u: %llu bytes, %llu millionths, whole %d, cut %d",
			(unsigned long long)seed, gpu, (unsigned long long)memory,
			(unsigned long long)caps, whole, cut);
}

static void check_labels(const struct node *n, uint64_t seed)
{
	const struct label_facts facts = { .machine = "x" };
	struct error err = ERROR_INIT;
	struct labels *l = NULL;

	assert_ok(labels_new(&l, n->inv, n->config, &facts, NULL, &err), &err);
	for (uint32_t i = 0; i < n->offer->n; i++) {
		const struct resource *r = &n->offer->resources[i];
		char key[RESOURCE_NAME_MAX + 20], replicas[16];

		if (r->strategy != SHARING_SLICES)
			continue;
		(void)snprintf(key, sizeof(key), "%s.replicas", r->name);
		(void)snprintf(replicas, sizeof(replicas), "%u", r->replicas);
		if (strcmp(get_label_or_none(l, key), replicas) != 0)
			fail_msg("seed %llu: %s=%s, offered %s", (unsigned long long)seed, key,
				get_label_or_none(l, key), replicas);
	}
	(void)labels_free(l);
}

static void offer__never_exceeds_the_gpus(void **state)
{
	(void)state;
	for (uint64_t round = 0; round < 2000; round++) {
		uint64_t seed = round, mib[4];
		struct node n;

		for (size_t i = 0; i < ARRAY_LEN(mib); i++)
			mib[i] = fixture_random(&seed) % 20000 + 3;
		n = node_of(ARRAY_LEN(mib), mib);
		(void)snprintf(n.inv->driver_version, sizeof(n.inv->driver_version), "580.1.2");
		random_config(&n, &seed);
		n.offer = fixture_offer(n.inv, n.config);
		for (uint32_t g = 0; g < n.inv->n; g++)
			check_gpu(&n, g, round);
		check_labels(&n, round);
		node_end(&n);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(offer__slices_named_gpus_and_keeps_the_rest),
		cmocka_unit_test(offer__follows_counts_as_far_as_memory_allows),
		cmocka_unit_test(offer__keeps_whole_gpus_where_no_profile_fits),
		cmocka_unit_test(offer__collects_notes),
		cmocka_unit_test(offer__accepts_profiles_without_a_limit),
		cmocka_unit_test(offer__uses_counts_where_memory_is_unknown),
		cmocka_unit_test(offer__follows_the_product),
		cmocka_unit_test(offer__warns_of_profiles_that_fit_nowhere),
		cmocka_unit_test(offer__warns_of_very_small_caps),
		cmocka_unit_test(offer__slices_by_the_first_set_that_selects_a_gpu),
		cmocka_unit_test(offer__slices_mig_devices),
		cmocka_unit_test(slice_plan__divides_time_by_weight),
		cmocka_unit_test(slice_plan__divides_time_of_replicas),
		cmocka_unit_test(slice_plan__is_latency_if_all_replicas_are),
		cmocka_unit_test(slice_time__stays_in_its_bounds),
		cmocka_unit_test(slice_plan_equal__compares_each_field),
		cmocka_unit_test(prefer__selects_slices_of_one_gpu),
		cmocka_unit_test(labels__describe_profiles),
		cmocka_unit_test(offer__never_exceeds_the_gpus),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
