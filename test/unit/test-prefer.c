/* SPDX-License-Identifier: Apache-2.0 */
#include "core-fixture.h"

#include "core/prefer.h"
#include "core/prefer-search.h"

/* Whole GPUs: the vectors of device-plugin.md 13.6. */

static void set_link(struct inventory *inv, uint32_t a, uint32_t b, enum gpu_level level,
	uint8_t nvlinks)
{
	struct gpu_link link = { .level = (uint8_t)level, .nvlinks = nvlinks };

	inv->links[a * inv->n + b] = link;
	inv->links[b * inv->n + a] = link;
}

static void connect_cube(struct inventory *inv)
{
	static const uint8_t twice[][2] = { { 0, 3 }, { 0, 4 }, { 1, 2 }, { 1, 5 }, { 2, 3 },
		{ 4, 7 }, { 5, 6 }, { 6, 7 } };
	static const uint8_t once[][2] = { { 0, 1 }, { 0, 2 }, { 1, 3 }, { 2, 6 }, { 3, 7 },
		{ 4, 5 }, { 4, 6 }, { 5, 7 } };

	for (size_t i = 0; i < ARRAY_LEN(twice); i++)
		inv->links[twice[i][0] * 8 + twice[i][1]].nvlinks =
			inv->links[twice[i][1] * 8 + twice[i][0]].nvlinks = 2;
	for (size_t i = 0; i < ARRAY_LEN(once); i++)
		inv->links[once[i][0] * 8 + once[i][1]].nvlinks =
			inv->links[once[i][1] * 8 + once[i][0]].nvlinks = 1;
}

static struct inventory *topology(char which)
{
	struct inventory *inv = fixture_inventory(8);

	for (uint32_t a = 0; a < 8; a++) {
		for (uint32_t b = a + 1; b < 8; b++) {
			bool near = which == 'A' || which == 'D' || a / 4 == b / 4;
			enum gpu_level level = which == 'A' || which == 'D' ? GPU_LEVEL_SAME_CPU
					       : near ? GPU_LEVEL_HOST_BRIDGE
						      : GPU_LEVEL_CROSS_CPU;

			set_link(inv, a, b, level,
				which == 'D'                     ? 18
				: which == 'A' && a / 2 == b / 2 ? 4
								 : 0);
		}
	}
	if (which == 'C')
		connect_cube(inv);
	return inv;
}

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
		struct inventory *inv = topology(aligned[i].topology);
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

/*
 * The reference, literally (section 5.5): enumerate every division into sets, keep the first best
 * one, return its first best set. Only the empty places are left out of the last step.
 */
#define ORACLE_MAX 16
#define EMPTY      (-1)

struct oracle {
	uint32_t n, size, pad;
	const uint32_t *scores;
	const bool *required;
	int places[ORACLE_MAX + 8];
	int best[ORACLE_MAX][ORACLE_MAX];
	uint32_t n_best;
	int64_t best_score;
	uint64_t seen;
};

static int64_t oracle_score(const struct oracle *o, const int *set)
{
	int64_t sum = 0;

	for (uint32_t i = 0; i < o->size; i++)
		for (uint32_t j = i + 1; j < o->size; j++)
			if (set[i] != EMPTY && set[j] != EMPTY)
				sum += o->scores[(uint32_t)set[i] * o->n + (uint32_t)set[j]];
	return sum;
}

static bool oracle_fits(const struct oracle *o, const int *set)
{
	for (uint32_t i = 0; i < o->n; i++) {
		bool has = false;

		for (uint32_t k = 0; k < o->size; k++)
			has = has || set[k] == (int)i;
		if (o->required[i] && !has)
			return false;
	}
	for (uint32_t k = 0; k < o->size; k++)
		if (set[k] == EMPTY)
			return false;
	return true;
}

static void oracle_division(struct oracle *o, int division[][ORACLE_MAX], uint32_t n_sets)
{
	int64_t score = 0;
	bool fits = false;

	o->seen++;
	for (uint32_t i = 0; i < n_sets; i++) {
		fits = fits || oracle_fits(o, division[i]);
		score += oracle_score(o, division[i]);
	}
	if (!fits || (o->n_best && score <= o->best_score))
		return;
	o->n_best = n_sets;
	o->best_score = score;
	memcpy(o->best, division, sizeof(o->best));
}

static void oracle_sets(struct oracle *o, const int *left, uint32_t n_left,
	int division[][ORACLE_MAX], uint32_t n_sets);

/* @picks: positions in @left that make the set, ascending; picks[0] is 0. */
static void oracle_set(struct oracle *o, const int *left, uint32_t n_left,
	const uint32_t *picks, int division[][ORACLE_MAX], uint32_t n_sets)
{
	int rest[ORACLE_MAX + 8];
	uint32_t n_rest = 0, empty = 0;

	for (uint32_t k = 0; k < o->size; k++) {
		division[n_sets][k] = left[picks[k]];
		empty += left[picks[k]] == EMPTY;
	}
	if (empty != 0 && empty != o->pad)
		return;
	for (uint32_t i = 0, k = 0; i < n_left; i++) {
		if (k < o->size && picks[k] == i)
			k++;
		else
			rest[n_rest++] = left[i];
	}
	if (n_rest)
		oracle_sets(o, rest, n_rest, division, n_sets + 1);
	else
		oracle_division(o, division, n_sets + 1);
}

static void oracle_sets(struct oracle *o, const int *left, uint32_t n_left,
	int division[][ORACLE_MAX], uint32_t n_sets)
{
	uint32_t picks[ORACLE_MAX];
	uint32_t k;

	for (k = 0; k < o->size; k++)
		picks[k] = k;
	for (;;) { /* all ascending picks with picks[0] = 0, in lexicographic order */
		oracle_set(o, left, n_left, picks, division, n_sets);
		for (k = o->size; k-- > 1;)
			if (picks[k] < n_left - (o->size - k))
				break;
		if (k == 0 || k > o->size)
			return;
		for (picks[k]++; k + 1 < o->size; k++)
			picks[k + 1] = picks[k] + 1;
	}
}

static void oracle_run(struct oracle *o, bool *chosen)
{
	int division[ORACLE_MAX][ORACLE_MAX] = { { 0 } };
	int64_t best = -1;

	memset(chosen, 0, o->n * sizeof(*chosen));
	o->pad = (o->size - o->n % o->size) % o->size;
	for (uint32_t i = 0; i < o->n + o->pad; i++)
		o->places[i] = i < o->n ? (int)i : EMPTY;
	oracle_sets(o, o->places, o->n + o->pad, division, 0);
	for (uint32_t i = 0; i < o->n_best; i++) {
		int64_t score = oracle_score(o, o->best[i]);

		if (!oracle_fits(o, o->best[i]) || score <= best)
			continue;
		best = score;
		memset(chosen, 0, o->n * sizeof(*chosen));
		for (uint32_t k = 0; k < o->size; k++)
			chosen[o->best[i][k]] = true;
	}
}

/* Few different values, so that ties are the rule; some with padding, some with required. */
static void random_scores(uint64_t *seed, uint32_t n, uint32_t *scores)
{
	static const uint32_t values[] = { 0, 10, 20, 30, 50, 120, 220, 1820 };
	uint32_t kinds = 1 + fixture_random(seed) % ARRAY_LEN(values);

	for (uint32_t a = 0; a < n; a++) {
		scores[a * n + a] = 0;
		for (uint32_t b = a + 1; b < n; b++)
			scores[a * n + b] = scores[b * n + a] =
				values[fixture_random(seed) % kinds];
	}
}

static void prefer_search_exact__equals_the_reference(void **state)
{
	uint64_t seed = 20250601;

	(void)state;
	for (int round = 0; round < 4000; round++) {
		uint32_t scores[64];
		bool required[8] = { false }, chosen[8] = { false }, expected[8];
		uint32_t n = 2 + fixture_random(&seed) % 7;
		uint32_t size = 2 + fixture_random(&seed) % (n - 1);
		uint32_t n_required = round % 2 ? 0 : fixture_random(&seed) % (size + 1);
		struct oracle o = { .n = n,
			.size = size,
			.scores = scores,
			.required = required };
		struct prefer_search s = { .n = n,
			.size = size,
			.scores = scores,
			.required = required,
			.chosen = chosen };
		struct error err = ERROR_INIT;

		random_scores(&seed, n, scores);
		for (uint32_t i = 0; i < n_required; i++)
			required[fixture_random(&seed) % n] = true;
		oracle_run(&o, expected);
		assert_ok(prefer_search_exact(&s, &err), &err);
		if (memcmp(chosen, expected, n * sizeof(*chosen)) != 0)
			fail_msg("round %d: n %u size %u required %u differ", round, n, size,
				n_required);
	}
}

/* Every subset of GPUs, size and one required GPU, on the four topologies of 13.6. */
static void prefer_search_exact__equals_the_reference_on_the_topologies(void **state)
{
	(void)state;
	for (int t = 0; t < 4; t++) {
		struct inventory *inv = topology("ABCD"[t]);

		for (uint32_t mask = 1; mask < 256; mask += 3) {
			uint32_t scores[64], at[8], n = 0;

			for (uint32_t i = 0; i < 8; i++)
				if (mask >> i & 1)
					at[n++] = i;
			for (uint32_t a = 0; a < n; a++)
				for (uint32_t b = 0; b < n; b++)
					scores[a * n + b] =
						a == b ? 0
						       : 10 +
								 inv->links[at[a] * 8 + at[b]]
										 .nvlinks *
									 100u +
								 (60u - 10u * inv->links[at[a] * 8 +
											 at[b]]
											 .level);
			for (uint32_t size = 2; size <= n; size++) {
				for (uint32_t r = 0; r <= n; r++) {
					bool required[8] = { false }, chosen[8] = { false };
					bool expected[8];
					struct oracle o = { .n = n,
						.size = size,
						.scores = scores,
						.required = required };
					struct prefer_search s = { .n = n,
						.size = size,
						.scores = scores,
						.required = required,
						.chosen = chosen };
					struct error err = ERROR_INIT;

					if (r < n)
						required[r] = true;
					oracle_run(&o, expected);
					assert_ok(prefer_search_exact(&s, &err), &err);
					assert_memory_equal(chosen, expected,
						n * sizeof(*chosen));
				}
			}
		}
		inventory_free(inv);
	}
}

static uint64_t set_score(const struct prefer_search *s)
{
	uint64_t sum = 0;

	for (uint32_t a = 0; a < s->n; a++)
		for (uint32_t b = a + 1; b < s->n; b++)
			if (s->chosen[a] && s->chosen[b])
				sum += s->scores[a * s->n + b];
	return sum;
}

static uint32_t set_size(const struct prefer_search *s)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->n; i++)
		n += s->chosen[i];
	return n;
}

/* Four islands of 8 GPUs with NVLink: any size up to 8 fits into one. */
static void prefer_search_greedy__stays_on_an_island(void **state)
{
	enum { N = 32 };
	static uint32_t scores[N * N];

	(void)state;
	for (uint32_t a = 0; a < N; a++)
		for (uint32_t b = 0; b < N; b++)
			scores[a * N + b] = a == b ? 0 : a % 4 == b % 4 ? 1820 : 10;
	for (uint32_t size = 1; size <= N; size++) {
		for (uint32_t r = 0; r <= 5; r++) {
			bool required[N] = { false }, chosen[N] = { false };
			struct prefer_search s = { .n = N,
				.size = size,
				.scores = scores,
				.required = required,
				.chosen = chosen };
			struct error err = ERROR_INIT;

			if (r)
				required[r] = true;
			assert_ok(prefer_search_greedy(&s, &err), &err);
			assert_int_equal(set_size(&s), size);
			if (r)
				assert_true(chosen[r]);
			if (size <= 8)
				assert_int_equal(set_score(&s),
					(uint64_t)1820 * size * (size - 1) / 2);
		}
	}
}

/* A place may be worth leaving alone: of equal pairs, the one with fewer links to the rest. */
static void prefer_search_greedy__breaks_ties_for_the_rest(void **state)
{
	/* 0-1-2-3 is a chain, 4-5 a pair of its own, all links equal. */
	static const uint8_t links[][2] = { { 0, 1 }, { 1, 2 }, { 2, 3 }, { 4, 5 } };
	uint32_t scores[36] = { 0 };
	bool required[6] = { false }, chosen[6] = { false };
	struct prefer_search s = { .n = 6,
		.size = 2,
		.scores = scores,
		.required = required,
		.chosen = chosen };
	struct error err = ERROR_INIT;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(links); i++)
		scores[links[i][0] * 6 + links[i][1]] = scores[links[i][1] * 6 + links[i][0]] =
			100;
	assert_ok(prefer_search_greedy(&s, &err), &err);
	assert_true(chosen[4] && chosen[5]);
	assert_int_equal(set_size(&s), 2);
}

static void prefer_choose__survives_sick_and_unknown_gpus(void **state)
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
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct error err = ERROR_INIT;
		struct inventory *inv = topology('A');
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
	struct inventory *inv = topology('A');
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
		"error getting list of preferred allocation devices: unable to retrieve list of "
		"required devices: no device with uuid: GPU-9");
	offer_free(o);
	config_free(c);
	inventory_free(inv);
}

static void prefer_choose__does_without_a_link_table(void **state)
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

/* Replicas. */

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
					"error getting list of preferred allocation devices: not "
					"enough available devices to satisfy allocation");
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

static void prefer_choose__greedy_counts_what_is_in_use(void **state)
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
		/* an id that is not ours is passed over; a repeated one counts once */
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

/* The greatest node that we handle, asked for in one piece, within a test's patience. */
static void prefer_choose__takes_very_many_replicas(void **state)
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(prefer_choose__aligned_vectors),
		cmocka_unit_test(prefer_search_exact__equals_the_reference),
		cmocka_unit_test(prefer_search_exact__equals_the_reference_on_the_topologies),
		cmocka_unit_test(prefer_search_greedy__stays_on_an_island),
		cmocka_unit_test(prefer_search_greedy__breaks_ties_for_the_rest),
		cmocka_unit_test(prefer_choose__survives_sick_and_unknown_gpus),
		cmocka_unit_test(prefer_choose__refuses_an_unknown_required_gpu),
		cmocka_unit_test(prefer_choose__does_without_a_link_table),
		cmocka_unit_test(prefer_choose__greedy_vectors),
		cmocka_unit_test(prefer_choose__greedy_counts_what_is_in_use),
		cmocka_unit_test(prefer_choose__greedy_properties),
		cmocka_unit_test(prefer_choose__takes_very_many_replicas),
		cmocka_unit_test(prefer_choose__packs_mig_siblings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
