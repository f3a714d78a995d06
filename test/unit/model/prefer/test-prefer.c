/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/model/core-fixture.h"

#include "model/prefer/prefer.h"

/* Whole GPUs: the choices of NVIDIA's search on four kinds of node. */

/* "0 2 5" to ids "GPU-0", "GPU-2", "GPU-5". Returns how many. */
static size_t ids_of(const char *text, char store[][16], const char **ids)
{
	size_t n = 0;

	for (; *text; text++) {
		if (*text == ' ')
			continue;
		(void)snprintf(store[n], 16, "GPU-%c", *text);
		ids[n] = store[n];
		n++;
	}
	return n;
}

static void text_of(const char **ids, size_t n, char *ret)
{
	for (size_t i = 0; i < n; i++) {
		if (i)
			*ret++ = ' ';
		*ret++ = ids[i][4];
	}
	*ret = '\0';
}

static const struct {
	char topology;
	const char *available, *required;
	size_t size;
	const char *result;
} aligned[] = {
	{ 'A', "01234567", "", 1, "0" },
	{ 'A', "01234567", "", 2, "0 1" },
	{ 'A', "01234567", "", 3, "0 1 2" },
	{ 'A', "01234567", "", 4, "0 1 2 3" },
	{ 'A', "52", "", 1, "5" },
	{ 'A', "52", "2", 1, "2" },
	{ 'A', "0235", "", 2, "2 3" },
	{ 'A', "0123", "1", 2, "0 1" },
	{ 'A', "0123", "12", 2, "1 2" },
	{ 'A', "02467", "0", 3, "0 2 4" },
	{ 'A', "02467", "", 3, "0 2 4" },
	{ 'A', "023457", "", 4, "0 2 3 7" },
	{ 'A', "012", "", 4, "" },
	{ 'A', "012", "", 0, "" },
	{ 'A', "012", "012", 2, "" },
	{ 'A', "012", "7", 2, "" },
	{ 'B', "01234567", "", 2, "0 1" },
	{ 'B', "345", "", 2, "4 5" },
	{ 'B', "014567", "", 4, "4 5 6 7" },
	{ 'B', "012567", "", 4, "0 1 2 5" },
	{ 'B', "2345", "3", 3, "2 3 4" },
	{ 'C', "01234567", "", 2, "0 3" },
	{ 'C', "01234567", "", 4, "0 1 2 3" },
	{ 'C', "012456", "", 2, "1 2" },
	{ 'C', "012456", "", 4, "1 2 5 6" },
	{ 'C', "01234567", "0", 2, "0 3" },
	{ 'C', "01234567", "5", 4, "4 5 6 7" },
	{ 'D', "7654", "", 2, "7 6" },
	{ 'D', "01234567", "7", 2, "6 7" },
	{ 'D', "01234567", "", 5, "0 1 2 3 4" },
};

static void prefer_choose__aligned_vectors(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(aligned); i++) {
		struct error err = ERROR_INIT;
		struct inventory *inv = fixture_topology(aligned[i].topology);
		struct config *c = fixture_config();
		struct offer *o = fixture_offer(inv, c);
		char store[2][8][16], text[32];
		const char *available[8], *required[8], *ids[8];
		struct prefer_request req = {
			.available = available,
			.n_available = ids_of(aligned[i].available, store[0], available),
			.required = required,
			.n_required = ids_of(aligned[i].required, store[1], required),
			.size = aligned[i].size,
		};
		size_t n = 99;

		/* The policy does not apply to whole GPUs. */
		for (int policy = 0; policy < 2; policy++) {
			assert_ok(prefer_choose(&o->resources[0], inv,
					  policy ? ALLOCATION_PACKED : ALLOCATION_DISTRIBUTED,
					  &req, ids, &n, &err),
				&err);
			text_of(ids, n, text);
			if (strcmp(text, aligned[i].result) != 0)
				fail_msg("row %zu (%c, %s, size %zu): '%s', expected '%s'", i,
					aligned[i].topology, aligned[i].available,
					aligned[i].size, text, aligned[i].result);
		}
		offer_free(o);
		config_free(c);
		inventory_free(inv);
	}
}

static void prefer_choose__accepts_unhealthy_and_unknown_gpus(void **state)
{
	static const struct {
		const char *available, *required;
		uint32_t sick; /* a mask */
		size_t size;
		const char *result;
	} rows[] = {
		{ "0123", "", 1u << 0, 2, "2 3" },
		{ "0123", "0", 1u << 0, 2, "0 1" },
		{ "0123", "", 1u << 1, 4, "0 2 3 1" }, /* not enough good ones: the sick last */
		{ "0123", "", 15, 2, "0 1" },
		{ "09823", "", 0, 2, "2 3" }, /* 8 and 9 do not exist */
		{ "98", "", 0, 2, "" },
		{ "0011", "", 0, 2, "0 1" }, /* an id given twice counts once */
		{ "0011", "", 0, 3, "" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct error err = ERROR_INIT;
		struct inventory *inv = fixture_topology('A');
		struct config *c = fixture_config();
		struct offer *o;
		char store[2][8][16], text[32];
		const char *available[8], *required[8], *ids[8];
		struct prefer_request req = {
			.available = available,
			.n_available = ids_of(rows[i].available, store[0], available),
			.required = required,
			.n_required = ids_of(rows[i].required, store[1], required),
			.size = rows[i].size,
		};
		size_t n;

		for (uint32_t k = 0; k < 8; k++)
			if (rows[i].sick >> k & 1)
				inv->gpus[k].fault = GPU_FAULT_LOST;
		o = fixture_offer(inv, c);
		assert_ok(prefer_choose(&o->resources[0], inv, ALLOCATION_DISTRIBUTED, &req,
				  ids, &n, &err),
			&err);
		text_of(ids, n, text);
		assert_string_equal(text, rows[i].result);
		offer_free(o);
		config_free(c);
		inventory_free(inv);
	}
}

static void prefer_choose__refuses_an_unknown_required_gpu(void **state)
{
	struct error err = ERROR_INIT;
	struct inventory *inv = fixture_topology('A');
	struct config *c = fixture_config();
	struct offer *o = fixture_offer(inv, c);
	const char *available[] = { "GPU-0", "GPU-1" }, *required[] = { "GPU-9" }, *ids[2];
	struct prefer_request req = { .available = available,
		.n_available = 2,
		.required = required,
		.n_required = 1,
		.size = 2 };
	size_t n;

	(void)state;
	assert_error(prefer_choose(&o->resources[0], inv, ALLOCATION_DISTRIBUTED, &req, ids, &n,
			     &err),
		&err,
		"unable to retrieve list of "
		"required devices: no device with uuid: GPU-9");
	offer_free(o);
	config_free(c);
	inventory_free(inv);
}

static void prefer_choose__works_without_a_link_table(void **state)
{
	struct error err = ERROR_INIT;
	struct inventory *inv = fixture_inventory(4);
	struct config *c = fixture_config();
	struct offer *o = fixture_offer(inv, c);
	const char *available[] = { "GPU-3", "GPU-1", "GPU-0" }, *ids[2];
	struct prefer_request req = { .available = available, .n_available = 3, .size = 2 };
	size_t n;

	(void)state;
	free(inv->links);
	inv->links = NULL;
	assert_ok(prefer_choose(&o->resources[0], inv, ALLOCATION_DISTRIBUTED, &req, ids, &n,
			  &err),
		&err);
	assert_int_equal(n, 2);
	assert_string_equal(ids[0], "GPU-3");
	assert_string_equal(ids[1], "GPU-1");
	offer_free(o);
	config_free(c);
	inventory_free(inv);
}

/* --- replicas --- */

struct shared {
	struct inventory *inv;
	struct config *config;
	struct offer *offer;
	const struct resource *r;
	const char **all; /* every id */
	size_t n;
};

static struct shared shared_new(uint32_t gpus, uint32_t replicas)
{
	struct shared s = { .inv = fixture_inventory(gpus), .config = fixture_config() };

	fixture_share(s.config, "nvidia.com/gpu", NULL, replicas, NULL);
	s.offer = fixture_offer(s.inv, s.config);
	s.r = &s.offer->resources[0];
	s.n = s.r->n_devices;
	s.all = calloc(s.n, sizeof(*s.all));
	for (size_t i = 0; i < s.n; i++)
		s.all[i] = s.r->devices[i].id;
	return s;
}

static void shared_fini(struct shared *s)
{
	free(s->all);
	offer_free(s->offer);
	config_free(s->config);
	inventory_free(s->inv);
}

static int cmp_desc(const void *a, const void *b)
{
	return *(const int *)b - *(const int *)a;
}

/* How many of each GPU, greatest first: "2+1". */
static void spread_of(const char **ids, size_t n, char *ret, size_t cap)
{
	int counts[32] = { 0 };

	*ret = '\0';
	for (size_t i = 0; i < n; i++)
		counts[ids[i][4] - '0']++;
	qsort(counts, ARRAY_LEN(counts), sizeof(*counts), cmp_desc);
	for (size_t i = 0; i < ARRAY_LEN(counts) && counts[i]; i++) {
		size_t len = strlen(ret);

		(void)snprintf(ret + len, cap - len, "%s%d", i ? "+" : "", counts[i]);
	}
}

static void prefer_choose__greedy_vectors(void **state)
{
	static const struct {
		uint32_t gpus, replicas;
		size_t size;
		const char *distributed, *packed; /* NULL: error */
	} rows[] = {
		{ 2, 4, 2, "1+1", "2" },
		{ 3, 2, 3, "1+1+1", "2+1" },
		{ 2, 4, 4, "2+2", "4" },
		{ 2, 4, 5, "3+2", "4+1" },
		{ 3, 4, 3, "1+1+1", "3" },
		{ 1, 4, 1, "1", "1" },
		{ 1, 2, 5, NULL, NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct shared s = shared_new(rows[i].gpus, rows[i].replicas);
		struct prefer_request req = { .available = s.all,
			.n_available = s.n,
			.size = rows[i].size };
		struct error err = ERROR_INIT;
		const char *ids[8];
		size_t n;
		char text[64];

		for (int policy = 0; policy < 20; policy++) {
			bool packed = policy >= 10;
			const char *expected = packed ? rows[i].packed : rows[i].distributed;
			enum allocation_policy p =
				packed ? ALLOCATION_PACKED : ALLOCATION_DISTRIBUTED;

			if (!expected) {
				assert_error(prefer_choose(s.r, s.inv, p, &req, ids, &n, &err),
					&err,
					"not enough available devices to satisfy allocation");
				continue;
			}
			assert_ok(prefer_choose(s.r, s.inv, p, &req, ids, &n, &err), &err);
			assert_int_equal(n, rows[i].size);
			spread_of(ids, n, text, sizeof(text));
			assert_string_equal(text, expected);
		}
		shared_fini(&s);
	}
}

static void prefer_choose__greedy_counts_devices_in_use(void **state)
{
	static const struct {
		const char *available[8], *required[4];
		size_t size;
		bool packed;
		const char *result;
	} rows[] = {
		{ { "GPU-0::0", "GPU-0::1", "GPU-1::1" }, { NULL }, 2, false,
			"GPU-1::1 GPU-0::0" },
		{ { "GPU-0::0", "GPU-0::1", "GPU-1::0", "GPU-1::1" }, { "GPU-0::0" }, 2, false,
			"GPU-0::0 GPU-1::0" },
		{ { "GPU-0::0", "GPU-0::1", "GPU-1::0", "GPU-1::1" }, { "GPU-1::1" }, 2, true,
			"GPU-1::1 GPU-1::0" },
		/* an unknown id is ignored; a repeated one counts once */
		{ { "GPU-7::0", "GPU-1::0", "GPU-1::0" }, { NULL }, 1, false, "GPU-1::0" },
		/* more required than asked for: no preference */
		{ { "GPU-0::0", "GPU-0::1" }, { "GPU-0::0", "GPU-0::1" }, 1, false, "" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct shared s = shared_new(2, 2);
		struct prefer_request req = { .available = rows[i].available,
			.required = rows[i].required,
			.size = rows[i].size };
		struct error err = ERROR_INIT;
		const char *ids[8];
		char text[128] = "";
		size_t n;

		/* GPU-1::0 in use in row 0: allocated 1 there, 0 on GPU-0 */
		while (rows[i].available[req.n_available])
			req.n_available++;
		while (rows[i].required[req.n_required])
			req.n_required++;
		assert_ok(prefer_choose(s.r, s.inv,
				  rows[i].packed ? ALLOCATION_PACKED : ALLOCATION_DISTRIBUTED,
				  &req, ids, &n, &err),
			&err);
		for (size_t k = 0; k < n; k++) {
			size_t len = strlen(text);

			(void)snprintf(text + len, sizeof(text) - len, "%s%s", k ? " " : "",
				ids[k]);
		}
		if (i == 0)
			assert_int_equal(n, 2); /* one of each; order is the next test's */
		else
			assert_string_equal(text, rows[i].result);
		if (i == 0) {
			spread_of(ids, n, text, sizeof(text));
			assert_string_equal(text, "1+1");
		}
		shared_fini(&s);
	}
}

/* Distributed: no GPU is more than one ahead; packed: at most one GPU is partly used. */
static void prefer_choose__greedy_properties(void **state)
{
	uint64_t seed = 7;

	(void)state;
	for (int round = 0; round < 300; round++) {
		uint32_t gpus = 1 + fixture_random(&seed) % 8,
			 reps = 2 + fixture_random(&seed) % 12;
		struct shared s = shared_new(gpus, reps);
		size_t size = 1 + fixture_random(&seed) % s.n;
		struct prefer_request req = { .available = s.all,
			.n_available = s.n,
			.size = size };
		enum allocation_policy policy =
			round % 2 ? ALLOCATION_PACKED : ALLOCATION_DISTRIBUTED;
		const char **ids = calloc(size, sizeof(*ids));
		uint32_t counts[8] = { 0 }, low = UINT32_MAX, high = 0, partly = 0;
		struct error err = ERROR_INIT;
		size_t n;

		assert_ok(prefer_choose(s.r, s.inv, policy, &req, ids, &n, &err), &err);
		assert_int_equal(n, size);
		for (size_t i = 0; i < n; i++) {
			const struct offer_device *d = resource_find(s.r, ids[i]);

			assert_non_null(d);
			counts[d->gpu]++;
			for (size_t k = 0; k < i; k++)
				assert_string_not_equal(ids[i], ids[k]);
		}
		for (uint32_t i = 0; i < gpus; i++) {
			low = counts[i] < low ? counts[i] : low;
			high = counts[i] > high ? counts[i] : high;
			partly += counts[i] && counts[i] < reps;
		}
		if (policy == ALLOCATION_PACKED)
			assert_true(partly <= 1);
		else
			assert_true(high - low <= 1);
		free(ids);
		shared_fini(&s);
	}
}

/* The largest supported node, requested in one piece, within a test's time limit. */
static void prefer_choose__accepts_very_many_replicas(void **state)
{
	struct shared s = shared_new(8, OFFER_DEVICES_MAX / 8);
	struct prefer_request req = { .available = s.all, .n_available = s.n, .size = s.n };
	const char **ids = calloc(s.n, sizeof(*ids));
	uint64_t start = time_mono_ns();
	struct error err = ERROR_INIT;
	size_t n;

	(void)state;
	assert_ok(prefer_choose(s.r, s.inv, ALLOCATION_DISTRIBUTED, &req, ids, &n, &err), &err);
	assert_int_equal(n, s.n);
	assert_true(time_mono_ns() - start < NS_PER_SEC);
	req.n_available = PREFER_MAX_IDS + 1;
	assert_error(prefer_choose(s.r, s.inv, ALLOCATION_DISTRIBUTED, &req, ids, &n, &err),
		&err, "more than 40000 devices");
	free(ids);
	shared_fini(&s);
}

/* MIG devices are grouped by their parent, so that `packed` gathers them. */
static void prefer_choose__packs_mig_siblings(void **state)
{
	struct offer_device devices[] = { { .id = "MIG-a", .gpu = 0 },
		{ .id = "MIG-b", .gpu = 0 }, { .id = "MIG-c", .gpu = 1 },
		{ .id = "MIG-d", .gpu = 1 } };
	struct resource r = { .name = "nvidia.com/mig-1g.5gb",
		.devices = devices,
		.n_devices = 4 };
	const char *available[] = { "MIG-a", "MIG-c", "MIG-d" }, *ids[2];
	struct prefer_request req = { .available = available, .n_available = 3, .size = 1 };
	struct inventory *inv = fixture_inventory(2);
	struct error err = ERROR_INIT;
	size_t n;

	(void)state;
	assert_ok(prefer_choose(&r, inv, ALLOCATION_PACKED, &req, ids, &n, &err), &err);
	assert_string_equal(ids[0], "MIG-a");
	assert_ok(prefer_choose(&r, inv, ALLOCATION_DISTRIBUTED, &req, ids, &n, &err), &err);
	assert_string_equal(ids[0], "MIG-c");
	inventory_free(inv);
}

/* "0:1::0" is replica 0 of MIG device 0:1; without replicas "0:1". */
static void mig_prefers(int line, enum sharing_strategy strategy, uint32_t n_gpus,
	uint32_t migs, uint32_t replicas, enum allocation_policy policy,
	const char *const *taken, const char *const *required, size_t size, const char *result)
{
	struct inventory *inv = fixture_inventory(n_gpus);
	struct config *c = fixture_config();
	const char *available[64], *ids[64], *must[8];
	struct prefer_request req = { .available = available, .required = must, .size = size };
	struct error err = ERROR_INIT;
	char text[512] = "";
	struct offer *o;
	size_t n, len = 0;

	for (uint32_t i = 0; i < n_gpus * migs; i++)
		(void)fixture_mig(inv, i / migs, 1, 1, 5);
	c->mig_strategy = MIG_STRATEGY_SINGLE;
	if (replicas)
		fixture_share_by(c, strategy, "nvidia.com/gpu", NULL, replicas, NULL);
	o = fixture_offer(inv, c);
	for (uint32_t i = 0; i < o->resources[0].n_devices; i++) {
		const char *id = o->resources[0].devices[i].id;
		bool free_ = true;

		for (const char *const *t = taken; *t; t++)
			free_ = free_ && strcmp(*t, id + 4) != 0;
		for (const char *const *t = required; *t; t++)
			if (strcmp(*t, id + 4) == 0)
				must[req.n_required++] = id;
		if (free_)
			available[req.n_available++] = id;
	}
	assert_ok(prefer_choose(&o->resources[0], inv, policy, &req, ids, &n, &err), &err);
	for (size_t i = 0; i < n; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s", i ? " " : "",
			ids[i] + 4);
	if (strcmp(text, result) != 0)
		fail_msg("line %d: %s", line, text);
	offer_free(o);
	config_free(c);
	inventory_free(inv);
}

#define IDS(...)     ((const char *const[]){ __VA_ARGS__ NULL })
#define MIG(...)     MIG_BY(SHARING_TIME_SLICING, __VA_ARGS__)
#define MIG_MPS(...) MIG_BY(SHARING_MPS, __VA_ARGS__)
#define MIG_BY(strategy, n_gpus, migs, replicas, policy, taken, required, size, result)     \
	mig_prefers(__LINE__, strategy, n_gpus, migs, replicas, ALLOCATION_##policy, taken, \
		required, size, result)

static void prefer_choose__spreads_mig_devices(void **state)
{
	(void)state;
	/* without replicas the GPU decides; NVIDIA's packed would take the first */
	MIG(3, 3, 0, DISTRIBUTED, IDS(), IDS(), 3, "0-0 1-0 2-0");
	MIG(3, 3, 0, DISTRIBUTED, IDS(), IDS(), 4, "0-0 1-0 2-0 0-1");
	MIG(3, 3, 0, PACKED, IDS(), IDS(), 4, "0-0 0-1 0-2 1-0");
	MIG(3, 3, 0, PACKED, IDS("2-0", ), IDS(), 3, "2-1 2-2 0-0");
	MIG(3, 3, 0, DISTRIBUTED, IDS("0-0", "2-1", ), IDS(), 2, "1-0 0-1");
	MIG(3, 3, 0, PACKED, IDS(), IDS("1-1", ), 2, "1-1 1-0");
	MIG(3, 3, 0, DISTRIBUTED, IDS(), IDS("0-1", ), 2, "0-1 1-0");
	/* with replicas the device does, as with NVIDIA, and the GPU among equal ones */
	MIG(2, 2, 2, DISTRIBUTED, IDS(), IDS(), 4, "0-0::0 1-0::0 0-1::0 1-1::0");
	MIG(1, 2, 2, DISTRIBUTED, IDS(), IDS(), 2, "0-0::0 0-1::0");
	MIG(2, 2, 2, PACKED, IDS(), IDS(), 4, "0-0::0 0-0::1 0-1::0 0-1::1");
	MIG(2, 2, 2, PACKED, IDS("1-1::0", ), IDS(), 3, "1-1::1 1-0::0 1-0::1");
	MIG(2, 2, 2, DISTRIBUTED, IDS("1-1::0", ), IDS(), 3, "0-0::0 1-0::0 0-1::0");
}

/* A container with replicas of two would be refused: each MIG device has a daemon of its own. */
static void prefer_choose__gathers_mps_replicas_on_one_mig_device(void **state)
{
	(void)state;
	MIG_MPS(2, 2, 2, DISTRIBUTED, IDS(), IDS(), 2, "0-0::0 0-0::1");
	MIG_MPS(2, 2, 3, DISTRIBUTED, IDS("0-0::0", ), IDS(), 2, "1-0::0 1-0::1");
	MIG_MPS(2, 2, 2, DISTRIBUTED, IDS("0-0::0", "0-1::1", "1-0::0", ), IDS(), 2,
		"1-1::0 1-1::1");
	MIG_MPS(2, 2, 2, PACKED, IDS("0-0::0", "1-0::0", ), IDS(), 2, "0-1::0 0-1::1");
	MIG_MPS(2, 2, 2, DISTRIBUTED, IDS(), IDS("1-1::0", ), 2, "1-1::0 1-1::1");
	MIG_MPS(2, 2, 2, DISTRIBUTED, IDS(), IDS(), 1, "0-0::0");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(prefer_choose__aligned_vectors),
		cmocka_unit_test(prefer_choose__accepts_unhealthy_and_unknown_gpus),
		cmocka_unit_test(prefer_choose__refuses_an_unknown_required_gpu),
		cmocka_unit_test(prefer_choose__works_without_a_link_table),
		cmocka_unit_test(prefer_choose__greedy_vectors),
		cmocka_unit_test(prefer_choose__greedy_counts_devices_in_use),
		cmocka_unit_test(prefer_choose__greedy_properties),
		cmocka_unit_test(prefer_choose__accepts_very_many_replicas),
		cmocka_unit_test(prefer_choose__packs_mig_siblings),
		cmocka_unit_test(prefer_choose__spreads_mig_devices),
		cmocka_unit_test(prefer_choose__gathers_mps_replicas_on_one_mig_device),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
