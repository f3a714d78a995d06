/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/model/core-fixture.h"

#include "model/prefer/search.h"

/*
 * NVIDIA's best-effort policy, literally: enumerate every division into sets, keep the first best
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
		struct inventory *inv = fixture_topology("ABCD"[t]);

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
static void prefer_search_greedy__breaks_ties_in_favor_of_the_rest(void **state)
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
	/* The same inside: 1 and 2 are linked to the required 0 alike, 1 is needed elsewhere. */
	memset(scores, 0, sizeof(scores));
	memset(chosen, 0, sizeof(chosen));
	scores[0 * 6 + 1] = scores[1 * 6 + 0] = scores[0 * 6 + 2] = scores[2 * 6 + 0] = 100;
	scores[1 * 6 + 3] = scores[3 * 6 + 1] = 100;
	required[0] = true;
	assert_ok(prefer_search_greedy(&s, &err), &err);
	assert_true(chosen[0] && chosen[2]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(prefer_search_exact__equals_the_reference),
		cmocka_unit_test(prefer_search_exact__equals_the_reference_on_the_topologies),
		cmocka_unit_test(prefer_search_greedy__stays_on_an_island),
		cmocka_unit_test(prefer_search_greedy__breaks_ties_in_favor_of_the_rest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
