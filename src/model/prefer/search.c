/* SPDX-License-Identifier: Apache-2.0 */
#include "model/prefer/search.h"

#include <string.h>

#include "model/prefer/prefer.h"

/* Exact search: a subset of at most 16 places is a 32-bit mask. */

#define IMPOSSIBLE (-1)

/* PASS_RATE finds the set with the greatest possible total, SEARCH the best total, and WALK the first set
 * that reaches that total. */
enum pass { PASS_RATE, SEARCH, WALK };

struct exact_search {
	uint32_t size, pad; /* pad: empty places in the one set that is not full */
	uint32_t required;
	const int32_t *score; /* [2^n] score of each subset as one set */
	int32_t *most;        /* [2^n] upper bound of the total of each subset */
	bool *known;          /* [2^n] whether .most is the exact best total, or IMPOSSIBLE */
	uint8_t *count;       /* [2^n] number of places of each subset */
	enum pass pass;
	int32_t goal;   /* best so far (PASS_RATE, SEARCH), or the total to reach (WALK) */
	uint32_t found; /* the first set with that total; 0: none yet */
};

static int32_t find_best_division(struct exact_search *x, uint32_t rest, int32_t min);

/* Full sets do not use up @rest, so the empty places are still in @rest. */
static bool is_padding_left(const struct exact_search *x, uint32_t rest)
{
	return x->count[rest] % x->size != 0;
}

/* Takes @set out of @rest and evaluates the total. True: stop. */
static bool try_division_set(struct exact_search *x, uint32_t rest, uint32_t set, bool padded)
{
	uint32_t common = set & x->required;
	int32_t min = x->goal + (x->pass != WALK) - x->score[set], below;

	/* Required places stay in one set, which has no empty place. */
	if (common && (padded || common != x->required))
		return false;
	below = x->most[rest & ~set];
	if (below < min || below == IMPOSSIBLE)
		return false;
	if (x->pass != PASS_RATE)
		below = find_best_division(x, rest & ~set, min > 0 ? min : 0);
	if (below < min || below == IMPOSSIBLE)
		return false;
	x->goal = x->score[set] + below;
	x->found = set;
	return x->pass == WALK;
}

/* Completes @set with @k more places of @more, in lexicographic order. If exactly the empty places are
 * missing, they come last. */
static bool complete_division_set(struct exact_search *x, uint32_t rest, uint32_t set,
	uint32_t more, uint32_t k, uint32_t pad)
{
	uint32_t need = k > pad ? k - pad : k, left = x->count[more];

	/* With fewer than @pad places to go, empty places no longer fit. */
	for (; left >= need; left--, more &= more - 1) {
		uint32_t place = more & -more;

		if (k == 1 ? try_division_set(x, rest, set | place, /* padded= */ false)
			   : complete_division_set(x, rest, set | place,
				     more & ~(place | (place - 1)), k - 1, pad))
			return true;
	}
	return pad && k == pad && try_division_set(x, rest, set, /* padded= */ true);
}

/* Enumerates all sets that contain the lowest place of @rest. */
static void enumerate_division_sets(struct exact_search *x, uint32_t rest)
{
	uint32_t first = rest & -rest;

	complete_division_set(x, rest, first, rest & ~first, x->size - 1,
		is_padding_left(x, rest) ? x->pad : 0);
}

/* The best total of @rest if it is at least @min (which is >= 0), else a value below @min. */
static int32_t find_best_division(struct exact_search *x, uint32_t rest, int32_t min)
{
	struct exact_search sub;

	if (x->most[rest] < min)
		return IMPOSSIBLE;
	if (!x->known[rest]) {
		sub = *x;
		sub.pass = SEARCH;
		sub.goal = min - 1;
		enumerate_division_sets(&sub, rest);
		x->most[rest] = sub.goal;
		x->known[rest] = sub.goal >= min || sub.goal == IMPOSSIBLE;
	}
	return x->most[rest] < min ? IMPOSSIBLE : x->most[rest];
}

/* A total of @rest that is possible, or 0: the total with the set of the best upper bound. */
static int32_t estimate_best_total(struct exact_search *x, uint32_t rest)
{
	int32_t below = IMPOSSIBLE;

	x->pass = PASS_RATE;
	x->goal = IMPOSSIBLE;
	x->found = 0;
	enumerate_division_sets(x, rest);
	if (x->found)
		below = find_best_division(x, rest & ~x->found, 0);
	return below == IMPOSSIBLE ? 0 : x->score[x->found] + below;
}

/* The score of each subset by inclusion-exclusion: the scores without each of its two lowest places, minus
 * the score without both, plus the link of the two. */
static void fill_scores(const struct prefer_search *s, int32_t *score)
{
	for (uint32_t set = 1; set < 1u << s->n; set++) {
		uint32_t a = set & -set, others = set & ~a, b = others & -others;

		if (others)
			score[set] = score[others] + score[set & ~b] - score[others & ~b] +
				     (int32_t)s->scores[(uint32_t)__builtin_ctz(a) * s->n +
							(uint32_t)__builtin_ctz(b)];
	}
}

/* The highest score of @size places in each subset; 0 for smaller subsets. */
static void fill_highest(uint32_t n, uint32_t size, const uint8_t *count, const int32_t *score,
	int32_t *highest)
{
	for (uint32_t set = 0; set < 1u << n; set++)
		highest[set] = count[set] == size ? score[set] : 0;
	for (uint32_t place = 1; place < 1u << n; place <<= 1)
		for (uint32_t high = place; high < 1u << n; high += 2 * place)
			for (uint32_t set = high; set < high + place; set++)
				if (highest[set - place] > highest[set])
					highest[set] = highest[set - place];
}

/* Upper bounds: no set of a division is better than the best set of its size in the subset. */
static void fill_upper_bounds(uint32_t n, uint32_t size, const uint8_t *count,
	const int32_t *score, int32_t *most, int32_t *spare)
{
	fill_highest(n, size, count, score, most);
	if (n % size)
		fill_highest(n, n % size, count, score, spare);
	for (uint32_t set = 0; set < 1u << n; set++)
		most[set] = (int32_t)(count[set] / size) * most[set] +
			    (count[set] % size ? spare[set] : 0);
}

/* Follows the first best division and returns its best set. */
static uint32_t first_best(struct exact_search *x, uint32_t all)
{
	uint32_t rest = all, best = 0;

	while (rest) {
		x->goal = find_best_division(x, rest, estimate_best_total(x, rest));
		x->pass = WALK;
		x->found = 0;
		enumerate_division_sets(x, rest);
		if (!x->found)
			return 0; /* unreachable: one of these sets gave the total */
		rest &= ~x->found;
		if (x->count[x->found] == x->size && (x->found & x->required) == x->required &&
			(!best || x->score[x->found] > x->score[best]))
			best = x->found;
	}
	return best;
}

int prefer_search_exact(const struct prefer_search *s, struct error *err)
{
	size_t subsets = (size_t)1 << s->n;
	CLEANUP(freep) int32_t *tables = NULL;
	CLEANUP(freep) bool *known = NULL;
	CLEANUP(freep) uint8_t *count = NULL;
	struct exact_search x = { .size = s->size,
		.pad = (s->size - s->n % s->size) % s->size };
	uint32_t set = 0;

	for (uint32_t i = 0; i < s->n; i++)
		x.required |= (uint32_t)s->required[i] << i;
	if (s->size == 1) {
		/* Sets of one place have no score. */
		set = x.required ? x.required : 1;
	} else {
		tables = calloc(3 * subsets, sizeof(*tables));
		known = calloc(subsets, sizeof(*known));
		count = calloc(subsets, sizeof(*count));
		if (!tables || !known || !count)
			return error_nomem(err);
		fill_scores(s, tables);
		for (uint32_t i = 1; i < subsets; i++)
			count[i] = (uint8_t)(count[i & (i - 1)] + 1);
		x.count = count;
		fill_upper_bounds(s->n, s->size, count, tables, tables + subsets,
			tables + 2 * subsets);
		x.score = tables;
		x.most = tables + subsets;
		x.known = known;
		known[0] = true;
		set = first_best(&x, (uint32_t)(subsets - 1));
	}
	for (uint32_t i = 0; i < s->n; i++)
		s->chosen[i] = set >> i & 1;
	return 0;
}

/* --- greedy search, for more places --- */

struct greedy_growth {
	const struct prefer_search *s;
	bool *in;       /* the growing set */
	int64_t *gain;  /* [n] score of each place with the set */
	int64_t *links; /* [n] score of each place with all others */
	int64_t score;  /* of the set */
	int64_t degree; /* sum of .links of the set; minus 2 * score: the links to the rest */
};

static void add_greedy_place(struct greedy_growth *g, uint32_t place)
{
	const uint32_t *row = &g->s->scores[(size_t)place * g->s->n];

	g->in[place] = true;
	g->score += g->gain[place];
	g->degree += g->links[place];
	for (uint32_t i = 0; i < g->s->n; i++)
		g->gain[i] += row[i];
}

static void remove_greedy_place(struct greedy_growth *g, uint32_t place)
{
	const uint32_t *row = &g->s->scores[(size_t)place * g->s->n];

	g->in[place] = false;
	for (uint32_t i = 0; i < g->s->n; i++)
		g->gain[i] -= row[i];
	g->score -= g->gain[place];
	g->degree -= g->links[place];
}

static void grow_greedy_set(struct greedy_growth *g, uint32_t have)
{
	const uint32_t n = g->s->n;

	for (; have < g->s->size; have++) {
		uint32_t best = n;

		for (uint32_t i = 0; i < n; i++) {
			if (g->in[i])
				continue;
			if (best == n || g->gain[i] > g->gain[best] ||
				(g->gain[i] == g->gain[best] && g->links[i] < g->links[best]))
				best = i;
		}
		add_greedy_place(g, best);
	}
}

/* Makes the best single exchange if it improves the set. */
static bool exchange_best_pair(struct greedy_growth *g)
{
	const struct prefer_search *s = g->s;
	uint32_t out = s->n, in = s->n;
	int64_t best = 0;

	for (uint32_t a = 0; a < s->n; a++) {
		if (!g->in[a] || s->required[a])
			continue;
		for (uint32_t b = 0; b < s->n; b++) {
			int64_t d;

			if (g->in[b])
				continue;
			d = g->gain[b] - s->scores[(size_t)a * s->n + b] - g->gain[a];
			if (d > best) {
				best = d;
				out = a;
				in = b;
			}
		}
	}
	if (out == s->n)
		return false;
	remove_greedy_place(g, out);
	add_greedy_place(g, in);
	return true;
}

static void init_greedy_set(struct greedy_growth *g)
{
	g->score = 0;
	g->degree = 0;
	for (uint32_t i = 0; i < g->s->n; i++) {
		g->in[i] = false;
		g->gain[i] = 0;
	}
	for (uint32_t i = 0; i < g->s->n; i++)
		if (g->s->required[i])
			add_greedy_place(g, i);
}

#define STARTS_COST 4000000 /* places visited in all starts; a few ms */
#define EXCHANGES   64

static void search_greedy_sets(struct greedy_growth *g, uint32_t n_required)
{
	const struct prefer_search *s = g->s;
	uint64_t cost = 2 * (uint64_t)s->n * s->size, starts = STARTS_COST / cost + 1;
	int64_t best_score = -1, best_degree = 0;

	for (uint32_t seed = 0; seed < s->n && starts; seed++, starts--) {
		init_greedy_set(g);
		if (!n_required)
			add_greedy_place(g, seed);
		grow_greedy_set(g, n_required ? n_required : 1);
		for (int i = 0; i < EXCHANGES && (seed == 0 || g->score > best_score); i++)
			if (!exchange_best_pair(g))
				break;
		if (g->score > best_score ||
			(g->score == best_score && g->degree < best_degree)) {
			best_score = g->score;
			best_degree = g->degree;
			memcpy(s->chosen, g->in, s->n * sizeof(*s->chosen));
		}
		if (n_required)
			break; /* every start gives the same set */
	}
}

int prefer_search_greedy(const struct prefer_search *s, struct error *err)
{
	CLEANUP(freep) bool *in = calloc(s->n, sizeof(*in));
	CLEANUP(freep) int64_t *gain = calloc(s->n, sizeof(*gain));
	CLEANUP(freep) int64_t *links = calloc(s->n, sizeof(*links));
	struct greedy_growth g = { .s = s, .in = in, .gain = gain, .links = links };
	uint32_t n_required = 0;

	if (!in || !gain || !links)
		return error_nomem(err);
	for (uint32_t i = 0; i < s->n; i++) {
		n_required += s->required[i];
		for (uint32_t j = 0; j < s->n; j++)
			links[i] += s->scores[(size_t)i * s->n + j];
	}
	if (s->size == 1 && !n_required)
		s->chosen[0] = true;
	else
		search_greedy_sets(&g, n_required);
	return 0;
}
