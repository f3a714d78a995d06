/* SPDX-License-Identifier: Apache-2.0 */
#include "core/prefer/search.h"

#include <string.h>

#include "core/prefer.h"

/* Exact: subsets of at most 16 places are 32-bit masks. */

#define UNKNOWN    INT32_MIN
#define IMPOSSIBLE (-1)

struct exact {
	uint32_t size, pad; /* pad: empty places of the one set that is not full */
	uint32_t required;
	int32_t *score; /* [2^n] of each subset as a set */
	int32_t *best;  /* [2^n] best total of dividing the subset, or UNKNOWN */
	int32_t most[PREFER_EXACT_GPUS + 1]; /* highest score of a subset of that size */
	int32_t goal;    /* walking down: the total to reach; else the best so far */
	int32_t rest[2]; /* what a full, a padded set leaves of the subset adds at most this */
	bool walking;
	uint32_t found; /* walking down: the set that reaches it; 0: not yet */
};

static int32_t divide(struct exact *x, uint32_t rest);

/* The empty places are still to come if the full sets do not use up @rest. */
static bool pad_left(const struct exact *x, uint32_t rest)
{
	return (uint32_t)__builtin_popcount(rest) % x->size != 0;
}

/* Takes @set out of @rest and looks at the total. True: enough seen. */
static bool consider(struct exact *x, uint32_t rest, uint32_t set, bool padded)
{
	uint32_t common = set & x->required;
	int32_t below, total;

	/* The required places stay together, and never beside an empty one. */
	if (common && (padded || common != x->required))
		return false;
	if (x->score[set] + x->rest[padded] < x->goal + !x->walking)
		return false; /* whatever comes below */
	below = divide(x, rest & ~set);
	if (below == IMPOSSIBLE)
		return false;
	total = x->score[set] + below;
	if (x->walking) {
		if (total != x->goal)
			return false;
		x->found = set;
		return true;
	}
	if (total > x->goal)
		x->goal = total;
	return false;
}

/*
 * Completes @set with @k more places out of @more, in lexicographic order; where exactly the empty
 * places are missing, they come after all others.
 */
static bool complete(struct exact *x, uint32_t rest, uint32_t set, uint32_t more, uint32_t k,
	uint32_t pad)
{
	uint32_t need = k > pad ? k - pad : k, left = (uint32_t)__builtin_popcount(more);

	/* Below @pad places to go, the empty ones can no longer help. */
	for (; left >= need; left--, more &= more - 1) {
		uint32_t place = more & -more;

		if (k == 1 ? consider(x, rest, set | place, /* padded= */ false)
			   : complete(x, rest, set | place, more & ~(place | (place - 1)),
				     k - 1, pad))
			return true;
	}
	return pad && k == pad && consider(x, rest, set, /* padded= */ true);
}

/* No division of @places places has a higher total: each set the best of its size. */
static int32_t ceiling(const struct exact *x, uint32_t places)
{
	return (int32_t)(places / x->size) * x->most[x->size] + x->most[places % x->size];
}

/* Goes through all sets that the lowest place of @rest can be in. */
static void enumerate(struct exact *x, uint32_t rest)
{
	uint32_t first = rest & -rest, places = (uint32_t)__builtin_popcount(rest);

	x->rest[false] = places < x->size ? 0 : ceiling(x, places - x->size);
	x->rest[true] = ceiling(x, places - (x->size - x->pad));
	complete(x, rest, first, rest & ~first, x->size - 1, pad_left(x, rest) ? x->pad : 0);
}

static int32_t divide(struct exact *x, uint32_t rest)
{
	struct exact sub;

	if (x->best[rest] == UNKNOWN) {
		sub = *x;
		sub.goal = IMPOSSIBLE;
		sub.walking = false;
		enumerate(&sub, rest);
		x->best[rest] = sub.goal;
	}
	return x->best[rest];
}

/*
 * The score of each subset: that of the subset without its lowest place, and its links. @most gets
 * the highest of each size.
 */
static void fill_scores(const struct prefer_search *s, int32_t *score, int32_t *most)
{
	for (uint32_t set = 1; set < 1u << s->n; set++) {
		uint32_t a = (uint32_t)__builtin_ctz(set), others = set & (set - 1);
		int32_t *highest = &most[__builtin_popcount(set)];

		score[set] = score[others];
		for (uint32_t m = others; m; m &= m - 1)
			score[set] += (int32_t)s->scores[a * s->n + (uint32_t)__builtin_ctz(m)];
		if (score[set] > *highest)
			*highest = score[set];
	}
}

/* Walks down the first best division and returns its best set. */
static uint32_t first_best(struct exact *x, uint32_t all)
{
	uint32_t rest = all, best = 0;

	while (rest) {
		x->walking = true;
		x->goal = divide(x, rest);
		x->found = 0;
		enumerate(x, rest);
		if (!x->found)
			return 0; /* not reached: the total came from one of these sets */
		rest &= ~x->found;
		if ((uint32_t)__builtin_popcount(x->found) == x->size &&
			(x->found & x->required) == x->required &&
			(!best || x->score[x->found] > x->score[best]))
			best = x->found;
	}
	return best;
}

int prefer_search_exact(const struct prefer_search *s, struct error *err)
{
	size_t subsets = (size_t)1 << s->n;
	CLEANUP(freep) int32_t *score = NULL;
	CLEANUP(freep) int32_t *best = NULL;
	struct exact x = { .size = s->size, .pad = (s->size - s->n % s->size) % s->size };
	uint32_t set = 0;

	for (uint32_t i = 0; i < s->n; i++)
		x.required |= (uint32_t)s->required[i] << i;
	if (s->size == 1) {
		/* Every place is a division of its own; scores do not count. */
		set = x.required ? x.required : 1;
	} else {
		score = calloc(subsets, sizeof(*score));
		best = calloc(subsets, sizeof(*best));
		if (!score || !best)
			return error_nomem(err);
		fill_scores(s, score, x.most);
		for (size_t i = 0; i < subsets; i++)
			best[i] = UNKNOWN;
		best[0] = 0;
		x.score = score;
		x.best = best;
		set = first_best(&x, (uint32_t)(subsets - 1));
	}
	for (uint32_t i = 0; i < s->n; i++)
		s->chosen[i] = set >> i & 1;
	return 0;
}

/* Greedy, for more places. */

struct greedy {
	const struct prefer_search *s;
	bool *in;       /* the set that grows */
	int64_t *gain;  /* [n] score of each place with the set */
	int64_t *links; /* [n] score of each place with all others */
	int64_t score;  /* of the set */
	int64_t degree; /* sum of .links of the set; 2 * score less is what leads outside */
};

static void add(struct greedy *g, uint32_t place)
{
	const uint32_t *row = &g->s->scores[(size_t)place * g->s->n];

	g->in[place] = true;
	g->score += g->gain[place];
	g->degree += g->links[place];
	for (uint32_t i = 0; i < g->s->n; i++)
		g->gain[i] += row[i];
}

static void drop(struct greedy *g, uint32_t place)
{
	const uint32_t *row = &g->s->scores[(size_t)place * g->s->n];

	g->in[place] = false;
	for (uint32_t i = 0; i < g->s->n; i++)
		g->gain[i] -= row[i];
	g->score -= g->gain[place];
	g->degree -= g->links[place];
}

static void grow(struct greedy *g, uint32_t have)
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
		add(g, best);
	}
}

/* The best single exchange, if it makes the set better. */
static bool exchange(struct greedy *g)
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
	drop(g, out);
	add(g, in);
	return true;
}

static void start(struct greedy *g)
{
	g->score = 0;
	g->degree = 0;
	for (uint32_t i = 0; i < g->s->n; i++) {
		g->in[i] = false;
		g->gain[i] = 0;
	}
	for (uint32_t i = 0; i < g->s->n; i++)
		if (g->s->required[i])
			add(g, i);
}

#define STARTS_COST 4000000 /* places looked at in all starts together; a few milliseconds */
#define EXCHANGES   64

static void search(struct greedy *g, uint32_t n_required)
{
	const struct prefer_search *s = g->s;
	uint64_t cost = 2 * (uint64_t)s->n * s->size, starts = STARTS_COST / cost + 1;
	int64_t best_score = -1, best_degree = 0;

	for (uint32_t seed = 0; seed < s->n && starts; seed++, starts--) {
		start(g);
		if (!n_required)
			add(g, seed);
		grow(g, n_required ? n_required : 1);
		for (int i = 0; i < EXCHANGES && (seed == 0 || g->score > best_score); i++)
			if (!exchange(g))
				break;
		if (g->score > best_score ||
			(g->score == best_score && g->degree < best_degree)) {
			best_score = g->score;
			best_degree = g->degree;
			memcpy(s->chosen, g->in, s->n * sizeof(*s->chosen));
		}
		if (n_required)
			break; /* every start would be the same */
	}
}

int prefer_search_greedy(const struct prefer_search *s, struct error *err)
{
	CLEANUP(freep) bool *in = calloc(s->n, sizeof(*in));
	CLEANUP(freep) int64_t *gain = calloc(s->n, sizeof(*gain));
	CLEANUP(freep) int64_t *links = calloc(s->n, sizeof(*links));
	struct greedy g = { .s = s, .in = in, .gain = gain, .links = links };
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
		search(&g, n_required);
	return 0;
}
