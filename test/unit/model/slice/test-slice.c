/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/model/core-fixture.h"

#include "lib/base/buf.h"
#include "model/prefer/prefer.h"
#include "model/slice/slice.h"

#define MIB   (UINT64_C(1) << 20)
#define GIB   (UINT64_C(1) << 30)
#define H100  UINT64_C(85017493504) /* NVML's total less reserved, as CUDA's total */
#define EQUAL ISOLATION_MEMORY_EQUAL
#define BYTES ISOLATION_MEMORY_BYTES
#define PART  ISOLATION_MEMORY_PERMILLE
#define NONE  ISOLATION_MEMORY_NONE

static void slice_limit__is_a_share_in_whole_granules(void **state)
{
	static const struct {
		enum isolation_memory memory;
		uint64_t value;
		uint32_t replicas, k;
		uint64_t usable, want;
	} rows[] = {
		{ NONE, 0, 4, 1, H100, SLICE_NO_LIMIT },
		{ NONE, 0, 4, 1, 0, SLICE_NO_LIMIT },
		{ EQUAL, 0, 4, 1, H100, 20268 * MIB },
		{ EQUAL, 0, 4, 2, H100, 2 * 20268 * MIB },
		{ EQUAL, 0, 4, 4, H100, 4 * 20268 * MIB },
		{ EQUAL, 0, 3, 1, 10 * MIB, 2 * MIB },
		{ EQUAL, 0, 3, 3, 10 * MIB, 6 * MIB },
		{ EQUAL, 0, 4, 1, 0, 0 },
		/* so many that a replica has not one grain */
		{ EQUAL, 0, 100, 1, 100 * MIB, 0 },
		/* and so some of them together have what they come to */
		{ EQUAL, 0, 100, 2, 100 * MIB, 2 * MIB },
		{ EQUAL, 0, 100, 35, 100 * MIB, 34 * MIB },
		{ EQUAL, 0, 100, 100, 100 * MIB, 100 * MIB },
		{ PART, 1, 1000, 700, GIB, 716 * MIB },
		{ PART, 250, 4, 1, 16 * GIB, 4 * GIB },
		{ PART, 250, 2, 2, 16 * GIB, 8 * GIB },
		{ PART, 1, 2, 1, 16 * GIB, 16 * MIB },
		{ PART, 1000, 1, 1, UINT64_MAX / 2,
			UINT64_MAX / 2 - (UINT64_MAX / 2) % SLICE_GRANULE },
		{ PART, 250, 4, 1, 0, 0 },
		{ BYTES, 8 * GIB, 4, 1, H100, 8 * GIB },
		{ BYTES, 8 * GIB, 4, 3, H100, 24 * GIB },
		{ BYTES, 8 * GIB + 1, 4, 1, H100, 8 * GIB },
		/* never more than there is */
		{ BYTES, 100 * GIB, 4, 1, H100, H100 },
		{ BYTES, 30 * GIB, 4, 4, H100, H100 },
		{ BYTES, UINT64_MAX, 4, 4, H100, H100 },
		/* an amount needs no card to be known */
		{ BYTES, 8 * GIB, 4, 2, 0, 16 * GIB },
		{ BYTES, UINT64_MAX, 4, 4, 0, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct isolation isolation = { .present = true,
			.memory = rows[i].memory,
			.memory_value = rows[i].value };
		uint64_t got =
			slice_limit(&isolation, rows[i].replicas, rows[i].usable, rows[i].k);

		if (got != rows[i].want)
			fail_msg("row %zu: %llu instead of %llu", i, (unsigned long long)got,
				(unsigned long long)rows[i].want);
	}
}

struct node {
	struct inventory *inv;
	struct config *config;
	struct offer *offer;
};

/* Two GPUs of 16 GiB, 4 replicas each, of which the first entry isolates. */
static struct node node_of(enum isolation_memory memory, uint64_t value)
{
	struct node n = { .inv = fixture_inventory(2), .config = fixture_config() };
	struct replicated *e = fixture_share(n.config, "nvidia.com/gpu", NULL, 4, NULL);
	struct error err = ERROR_INIT;

	e->isolation =
		(struct isolation){ .present = true, .memory = memory, .memory_value = value };
	for (uint32_t i = 0; i < n.inv->n; i++)
		n.inv->gpus[i].memory_usable_bytes = 16 * GIB;
	assert_ok(offer_new(&n.offer, n.inv, n.config, &err), &err);
	return n;
}

static void node_end(struct node *n)
{
	(void)offer_free(n->offer);
	(void)config_free(n->config);
	(void)inventory_free(n->inv);
}

static const struct resource *gpus(const struct node *n)
{
	const struct resource *r = offer_find(n->offer, "nvidia.com/gpu");

	assert_non_null(r);
	return r;
}

static void slice_plan__has_a_row_for_each_gpu(void **state)
{
	static const char *const one[] = { "GPU-1::3" };
	static const char *const two[] = { "GPU-0::0", "GPU-0::2" };
	static const char *const both[] = { "GPU-1::0", "GPU-0::0", "GPU-1::1", "nonsense" };
	struct node n = node_of(EQUAL, 0);
	struct error err = ERROR_INIT;
	struct slice_plan plan;

	(void)state;
	assert_ok(slice_plan_make(&plan, gpus(&n), n.inv, one, 1, &err), &err);
	assert_true(plan.wanted);
	assert_int_equal(plan.n, 1);
	assert_string_equal(plan.gpus[0].uuid, "GPU-1");
	assert_true(plan.gpus[0].memory == 4 * GIB);
	assert_int_equal(plan.unhooked, UNHOOKED_REPORT);

	assert_ok(slice_plan_make(&plan, gpus(&n), n.inv, two, 2, &err), &err);
	assert_int_equal(plan.n, 1);
	assert_true(plan.gpus[0].memory == 8 * GIB);

	assert_ok(slice_plan_make(&plan, gpus(&n), n.inv, both, ARRAY_LEN(both), &err), &err);
	assert_int_equal(plan.n, 2);
	assert_string_equal(plan.gpus[0].uuid, "GPU-1");
	assert_true(plan.gpus[0].memory == 8 * GIB);
	assert_string_equal(plan.gpus[1].uuid, "GPU-0");
	assert_true(plan.gpus[1].memory == 4 * GIB);
	node_end(&n);
}

static void slice_plan__is_empty_without_isolation(void **state)
{
	static const char *const ids[] = { "GPU-0::0" };
	struct node n = node_of(NONE, 0);
	struct error err = ERROR_INIT;
	struct slice_plan plan;

	(void)state;
	assert_ok(slice_plan_make(&plan, gpus(&n), n.inv, ids, 1, &err), &err);
	assert_false(plan.wanted);
	assert_int_equal(n.offer->notes.n, 0);
	node_end(&n);
}

static void slice_plan__requires_the_memory_size(void **state)
{
	static const char *const ids[] = { "GPU-0::0" };
	struct node n = node_of(EQUAL, 0);
	struct error err = ERROR_INIT;
	struct slice_plan plan;

	(void)state;
	n.inv->gpus[0].memory_usable_bytes = 0;
	assert_error(slice_plan_make(&plan, gpus(&n), n.inv, ids, 1, &err), &err,
		"the memory of 'GPU-0' is not known");
	assert_int_equal(err.code, ERR_UNAVAILABLE);
	n.inv->gpus[0].memory_usable_bytes = 7 * MIB;
	error_clear(&err);
	assert_error(slice_plan_make(&plan, gpus(&n), n.inv, ids, 1, &err), &err,
		"a replica's part of 'GPU-0' is less than 2 MiB");
	node_end(&n);
}

/* A list of which one entry isolates, and the other not: the same resource. */
static void slice_plan__follows_the_entry_of_each_gpu(void **state)
{
	static const char *const first[] = { "0", NULL }, *const second[] = { "1", NULL };
	static const char *const both[] = { "GPU-0::0", "GPU-1::0" };
	static const char *const open[] = { "GPU-1::0" };
	struct node n = { .inv = fixture_inventory(2), .config = fixture_config() };
	struct error err = ERROR_INIT;
	struct slice_plan plan;
	struct replicated *e = fixture_share(n.config, "nvidia.com/gpu", NULL, 2, first);

	(void)state;
	e->isolation = (struct isolation){ .present = true,
		.memory = PART,
		.memory_value = 500,
		.unhooked = UNHOOKED_STOP };
	(void)fixture_share(n.config, "nvidia.com/gpu", NULL, 2, second);
	n.inv->gpus[0].memory_usable_bytes = n.inv->gpus[1].memory_usable_bytes = 8 * GIB;
	assert_ok(offer_new(&n.offer, n.inv, n.config, &err), &err);
	assert_ok(slice_plan_make(&plan, gpus(&n), n.inv, both, 2, &err), &err);
	assert_true(plan.wanted);
	assert_int_equal(plan.unhooked, UNHOOKED_STOP);
	assert_true(plan.gpus[0].memory == 4 * GIB);
	assert_true(plan.gpus[1].memory == SLICE_NO_LIMIT);
	assert_ok(slice_plan_make(&plan, gpus(&n), n.inv, open, 1, &err), &err);
	assert_false(plan.wanted);
	node_end(&n);
}

/* Replicas of a MIG device share what that has. */
static void slice_plan__divides_mig_devices(void **state)
{
	static const char *const ids[] = { "MIG-0-0::1" };
	struct node n = { .inv = fixture_inventory(1), .config = fixture_config() };
	struct replicated *e = fixture_share(n.config, "nvidia.com/mig-1g.10gb", NULL, 2, NULL);
	struct error err = ERROR_INIT;
	struct slice_plan plan;

	(void)state;
	e->isolation = (struct isolation){ .present = true, .memory = EQUAL };
	n.config->mig_strategy = MIG_STRATEGY_MIXED;
	(void)fixture_mig(n.inv, 0, 1, 1, 10);
	assert_ok(offer_new(&n.offer, n.inv, n.config, &err), &err);
	assert_ok(slice_plan_make(&plan, offer_find(n.offer, "nvidia.com/mig-1g.10gb"), n.inv,
			  ids, 1, &err),
		&err);
	assert_true(plan.wanted);
	assert_string_equal(plan.gpus[0].uuid, "MIG-0-0");
	assert_true(plan.gpus[0].memory == 5 * GIB);
	node_end(&n);
}

/* Under MPS there are no quanta. A replica without isolation has no slice there either. */
static void slice_plan__of_mps(void **state)
{
	static const struct {
		struct isolation isolation;
		bool wanted;
		enum slice_compute sliced, mps;
		enum slice_class class_;
		uint32_t weight, cap;
	} rows[] = {
		{ { .present = true }, false, SLICE_COMPUTE_NONE, SLICE_COMPUTE_NONE,
			SLICE_CLASS_BATCH, 2, 0 },
		{ { .memory = EQUAL }, true, SLICE_COMPUTE_NONE, SLICE_COMPUTE_MPS,
			SLICE_CLASS_BATCH, 2, 0 },
		{ { .compute = ISOLATION_COMPUTE_FAIR, .class_ = SLICE_CLASS_LATENCY }, true,
			SLICE_COMPUTE_FAIR_SHARE, SLICE_COMPUTE_MPS, SLICE_CLASS_LATENCY, 2,
			0 },
		{ { .compute = ISOLATION_COMPUTE_CAPPED }, true, SLICE_COMPUTE_FAIR_SHARE,
			SLICE_COMPUTE_MPS, SLICE_CLASS_BATCH, 2, 500000 },
	};
	static const char *const ids[] = { "GPU-0::0", "GPU-0::1" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct node n = node_of(NONE, 0);
		struct error err = ERROR_INIT;
		struct slice_plan sliced, mps;

		n.config->sharing.entries[0].isolation = rows[i].isolation;
		n.offer = offer_free(n.offer);
		n.offer = fixture_offer(n.inv, n.config);
		assert_ok(slice_plan_make(&sliced, n.offer->resources, n.inv, ids, 2, &err),
			&err);
		fixture_strategy(n.config, SHARING_MPS);
		n.offer = offer_free(n.offer);
		n.offer = fixture_offer(n.inv, n.config);
		assert_ok(slice_plan_make(&mps, n.offer->resources, n.inv, ids, 2, &err), &err);
		assert_int_equal(sliced.compute, rows[i].sliced);
		assert_int_equal(mps.compute, rows[i].mps);
		assert_int_equal(mps.wanted, rows[i].wanted);
		assert_int_equal(mps.class_, rows[i].class_);
		if (rows[i].wanted) {
			assert_int_equal(mps.n, 1);
			assert_int_equal(mps.gpus[0].weight, rows[i].weight);
			assert_int_equal(mps.gpus[0].cap, rows[i].cap);
			assert_true(mps.gpus[0].memory == sliced.gpus[0].memory);
			assert_int_equal(slice_plan_equal(&mps, &sliced), false);
		}
		slice_plan_open(&mps);
		assert_int_equal(mps.compute, SLICE_COMPUTE_NONE);
		offer_free(n.offer);
		config_free(n.config);
		inventory_free(n.inv);
	}
}

static void slice_replicas_for__returns_the_fewest(void **state)
{
	static const struct {
		enum isolation_memory memory;
		uint64_t value;
		uint32_t replicas;
		uint64_t usable, bytes;
		uint32_t want;
	} rows[] = {
		{ NONE, 0, 4, GIB, 600 * MIB, 1 },
		{ EQUAL, 0, 4, GIB, 256 * MIB, 1 },
		{ EQUAL, 0, 4, GIB, 256 * MIB + 1, 2 },
		{ EQUAL, 0, 4, GIB, GIB, 4 },
		{ EQUAL, 0, 4, GIB, GIB + 1, 0 },
		{ EQUAL, 0, 16384, 16 * GIB, 600 * MIB, 600 },
		{ EQUAL, 0, 4, 0, 600 * MIB, 0 },
		{ BYTES, 512 * MIB, 30, 15 * GIB, 600 * MIB, 2 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct isolation isolation = { .present = true,
			.memory = rows[i].memory,
			.memory_value = rows[i].value };

		assert_int_equal(slice_replicas_for(&isolation, rows[i].replicas,
					 rows[i].usable, rows[i].bytes),
			rows[i].want);
	}
}

static void offer__notes_limits_that_do_not_fit(void **state)
{
	static const struct {
		enum isolation_memory memory;
		uint64_t value;
		const char *note; /* NULL: none */
	} rows[] = {
		{ EQUAL, 0, NULL },
		{ BYTES, 4 * GIB, NULL },
		{ BYTES, 5 * GIB,
			"the memory limits of all replicas of GPU 0 come to 20480 MiB, and it has "
			"16384 MiB" },
		{ BYTES, 17 * GIB, "isolation.memory is more than GPU 0 has (16384 MiB)" },
		{ PART, 250, NULL },
		{ BYTES, CUDA_CONTEXT_BYTES, NULL },
		{ BYTES, CUDA_CONTEXT_BYTES - 1,
			"a replica of GPU 0 has 598 MiB, and a program needs 600 MiB for its first "
			"CUDA context" },
		{ PART, 20, "a replica of GPU 0 has 326 MiB" },
		/* units of account: how many a container needs */
		{ BYTES, 512 * MIB, "a container must request at least 2 replicas" },
		{ BYTES, 64 * MIB, "it will not start" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct node n = node_of(rows[i].memory, rows[i].value);

		assert_int_equal(n.offer->notes.n, rows[i].note ? 1 : 0); /* of two GPUs */
		if (rows[i].note && !strstr(n.offer->notes.v[0], rows[i].note))
			fail_msg("row %zu: %s", i, n.offer->notes.v[0]);
		node_end(&n);
	}
}

/* Replicas that are too small for a program are units of memory: k of them are wanted on one GPU. */
static void prefer__selects_memory_units_of_one_gpu(void **state)
{
	static const char *const available[] = { "GPU-0::0", "GPU-0::1", "GPU-1::0", "GPU-1::1",
		"GPU-1::2" };
	static const struct {
		uint64_t each;
		size_t size;
		const char *want;
	} rows[] = {
		{ 512 * MIB, 2, "GPU-1::0 GPU-1::1 " },
		{ 512 * MIB, 3, "GPU-1::0 GPU-1::1 GPU-1::2 " },
		/* no GPU has room for all */
		{ 512 * MIB, 4, "GPU-1::0 GPU-0::0 GPU-1::1 GPU-0::1 " },
		{ 600 * MIB, 2, "GPU-1::0 GPU-0::0 " },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(buf_fini) struct buf b = BUF_INIT(256);
		struct node n = node_of(BYTES, rows[i].each);
		const struct prefer_request req = { .available = available,
			.n_available = ARRAY_LEN(available),
			.size = rows[i].size };
		struct error err = ERROR_INIT;
		const char *ids[4];
		size_t got;

		assert_ok(prefer_choose(gpus(&n), n.inv, ALLOCATION_DISTRIBUTED, &req, ids,
				  &got, &err),
			&err);
		for (size_t k = 0; k < got; k++)
			buf_printf(&b, "%s ", ids[k]);
		assert_string_equal(buf_str(&b), rows[i].want);
		node_end(&n);
	}
}

/* One GPU under two names: both limits count. */
static void offer__adds_up_limits_over_resources(void **state)
{
	struct node n = { .inv = fixture_inventory(1), .config = fixture_config() };
	struct error err = ERROR_INIT;
	bool told = false;

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct replicated *e = fixture_share(n.config, "nvidia.com/gpu",
			i ? "nvidia.com/other" : NULL, 2, NULL);

		e->isolation = (struct isolation){ .present = true, .memory = EQUAL };
	}
	n.inv->gpus[0].memory_usable_bytes = 16 * GIB;
	assert_ok(offer_new(&n.offer, n.inv, n.config, &err), &err);
	for (size_t i = 0; i < n.offer->notes.n; i++)
		told = told || strstr(n.offer->notes.v[i], "come to 32768 MiB");
	assert_true(told);
	node_end(&n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slice_limit__is_a_share_in_whole_granules),
		cmocka_unit_test(slice_replicas_for__returns_the_fewest),
		cmocka_unit_test(slice_plan__has_a_row_for_each_gpu),
		cmocka_unit_test(slice_plan__is_empty_without_isolation),
		cmocka_unit_test(slice_plan__requires_the_memory_size),
		cmocka_unit_test(slice_plan__follows_the_entry_of_each_gpu),
		cmocka_unit_test(slice_plan__divides_mig_devices),
		cmocka_unit_test(slice_plan__of_mps),
		cmocka_unit_test(offer__notes_limits_that_do_not_fit),
		cmocka_unit_test(prefer__selects_memory_units_of_one_gpu),
		cmocka_unit_test(offer__adds_up_limits_over_resources),
	};

	return cmocka_run_group_tests_name("slice", tests, NULL, NULL);
}
