/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/plan/model/model.h"

#include "lib/base/text.h"

#include <math.h>
#include <string.h>

/* --- taking turns: time-slicing and the scheduler --- */

#define STATES_MAX        1024 /* limit of populations for the exact solution */
#define SCHWEITZER_ROUNDS 2000
#define SCHWEITZER_CLOSE  1e-10

struct model_rotation model_time_slicing(void)
{
	return (struct model_rotation){ MODEL_SIGMA_TIME_SLICING, MODEL_TIME_SLICE_S, 0 };
}

struct model_rotation model_fair_share(size_t n)
{
	double quantum = fmin(MODEL_QUANTUM_S, MODEL_QUANTUM_ROUND_S / fmax(1, (double)n));

	return (struct model_rotation){ MODEL_SIGMA_FAIR_SHARE,
		quantum > MODEL_QUANTUM_MIN_S ? quantum : MODEL_QUANTUM_MIN_S,
		MODEL_QUANTUM_SHORT_S };
}

/* Equal closed pods. */
struct class
{
	double demand_s, rest_s;
	size_t n;
	double seen; /* mean queue at the GPU when one of them arrives */
};

struct closed_classes {
	size_t n;
	struct class class[MODEL_PODS_MAX];
	uint16_t of[MODEL_PODS_MAX]; /* the class of each pod */
};

static void classify_closed_pods(struct closed_classes *c, const struct model_pod *pods,
	size_t n)
{
	c->n = 0;
	for (size_t i = 0; i < n; i++) {
		size_t k = 0;

		if (pods[i].rate > 0)
			continue;
		while (k < c->n && (c->class[k].demand_s != pods[i].demand_s ||
					   c->class[k].rest_s != pods[i].rest_s))
			k++;
		if (k == c->n)
			c->class[c->n++] =
				(struct class){ pods[i].demand_s, pods[i].rest_s, 0, 0 };
		c->class[k].n++;
		c->of[i] = (uint16_t)k;
	}
}

/* Number of populations of the classes, from none to all pods; above STATES_MAX the result is only a lower
 * bound. */
static size_t states_of(const struct closed_classes *c)
{
	size_t states = 1;

	for (size_t k = 0; k < c->n && states <= STATES_MAX; k++)
		states *= c->class[k].n + 1;
	return states;
}

/*
 * Exact mean-value analysis: the queue of a population follows from those with one pod less of each class.
 * Populations are numbered with the last class fastest; one pod less of class k is .step[k] before.
 */
static void solve_exact_mva(struct closed_classes *c, double stretch, size_t states)
{
	double queue[STATES_MAX];
	size_t step[MODEL_PODS_MAX], left = states;

	for (size_t k = 0; k < c->n; k++)
		step[k] = left /= c->class[k].n + 1;
	queue[0] = 0;
	for (size_t s = 1; s < states; s++) {
		queue[s] = 0;
		for (size_t k = 0; k < c->n; k++) {
			struct class *class = &c->class[k];
			size_t there = s / step[k] % (class->n + 1);
			double here;

			if (!there)
				continue;
			class->seen = queue[s - step[k]];
			here = class->demand_s * stretch * (1 + class->seen);
			if (here > 0)
				queue[s] += (double)there * here / (class->rest_s + here);
		}
	}
}

/* Schweitzer: an arriving pod finds the mean queue without its own part. */
static void solve_approximate_mva(struct closed_classes *c, double stretch)
{
	double queue[MODEL_PODS_MAX], sum = 0;

	for (size_t k = 0; k < c->n; k++)
		sum += queue[k] = (double)c->class[k].n / 2;
	for (unsigned round = 0; round < SCHWEITZER_ROUNDS; round++) {
		double change = 0, next_sum = 0;

		for (size_t k = 0; k < c->n; k++) {
			struct class *class = &c->class[k];
			double n = (double)class->n, here, next;

			class->seen = sum - queue[k] / n;
			here = class->demand_s * stretch * (1 + class->seen);
			next = here > 0 ? n * here / (here + class->rest_s) : 0;
			change = fmax(change, fabs(next - queue[k]));
			queue[k] = next;
			next_sum += next;
		}
		sum = next_sum;
		if (change < SCHWEITZER_CLOSE)
			break;
	}
}

/* Load beside a request: share of the GPU's time in use, that of open pods; number of pods, of closed ones. */
struct background_load {
	double used, rho;
	size_t n, closed;
};

/*
 * The number of requests that share the GPU with a request, itself included; exceeded with probability @beyond. A
 * closed pod has at most one request. So without open pods the limit is @n. With open pods the number is that of a
 * queue in use for @used of the time. Closed pods that leave little idle time would make that infinite. So the
 * limit is the queue of the open pods alone, times one more than the number of closed pods.
 */
static double compute_queue_quantile(double beyond, struct background_load o)
{
	double max;

	if (o.used <= 0)
		return 1;
	if (o.rho <= 0)
		return o.used < 1 ? fmin((double)o.n, 1 + log(beyond) / log(o.used))
				  : (double)o.n;
	max = (double)(1 + o.closed) * (1 + log(beyond) / log(o.rho));
	return o.used < 1 ? fmin(max, 1 + log(beyond) / log(o.used)) : max;
}

static void set_tail_times(struct model_times *t, const struct model_pod *p, double sigma,
	struct background_load o)
{
	double served = p->demand_s * (1 + sigma);

	t->p50_s = p->rest_s + served * compute_queue_quantile(MODEL_BEYOND_P50, o);
	t->p95_s = p->rest_s + served * compute_queue_quantile(MODEL_BEYOND_P95, o);
	t->p99_s = p->rest_s + served * compute_queue_quantile(MODEL_BEYOND_P99, o);
}

/* The distribution has a long tail, so the median is not above the mean. */
static void order_time_quantiles(struct model_times *t)
{
	t->p50_s = fmin(t->p50_s, t->mean_s);
	t->p95_s = fmax(t->p95_s, t->mean_s);
	t->p99_s = fmax(t->p99_s, t->p95_s);
}

/* A whole stretch of each other pod, for a pod that needs less than one: at times its request just misses
 * its own. */
static void add_waiting_tail(struct model_times *t, const struct model_pod *p, double slice_s,
	size_t n)
{
	if (n < 2 || p->demand_s >= slice_s)
		return;
	t->p95_s += slice_s * (double)(n - 1);
	t->p99_s += slice_s * (double)(n - 1);
}

/* Mean time for which each closed pod besides @i has the GPU: a pod that pauses gives it up then. */
static double stretch_of_others(const struct model_pod *pods, size_t n, size_t i,
	const struct model_rotation *r)
{
	double sum = 0;
	size_t closed = 0;

	for (size_t k = 0; k < n; k++) {
		if (k == i || pods[k].rate > 0)
			continue;
		sum += pods[k].rest_s < MODEL_KEEP_S ? r->slice_s
						     : fmin(r->slice_s, pods[k].demand_s);
		closed++;
	}
	return closed ? sum / (double)closed * (1 + r->sigma) : 0;
}

/* A new request: @served_s of the GPU, while @queue other pods have work on average. Returns whether its pod
 * is below an equal share, and so waits only for the end of one short stretch. */
static bool set_request_times(struct model_times *t, const struct model_pod *pods, size_t i,
	const struct model_rotation *r, double served_s, double queue, struct background_load o)
{
	const struct model_pod *p = &pods[i];
	double stretch = stretch_of_others(pods, o.n, i, r), shared = served_s * (1 + queue);
	double wait = r->short_s * fmin(1, queue), mean = p->rest_s + served_s + wait / 2;
	double per_s = p->rate > 0 ? p->rate : 1 / mean;

	if (r->short_s > 0 && stretch > r->short_s &&
		per_s * p->demand_s * (1 + r->sigma) < 1 / (double)o.n) {
		t->mean_s = mean;
		set_tail_times(t, p, r->sigma,
			(struct background_load){ o.rho, o.rho, o.n, 0 });
		t->p50_s += wait / 2;
		t->p95_s += wait;
		t->p99_s += wait;
		return true;
	}
	t->mean_s = p->rest_s + fmax(shared, served_s + queue * stretch / 2);
	return false;
}

/* All times of a pod. For a closed pod, mean and rate already are those of its share. */
static void set_times(struct model_times *t, const struct model_pod *pods, size_t i,
	const struct model_rotation *r, double stretch, double seen, struct background_load o)
{
	const struct model_pod *p = &pods[i];
	bool by_request = p->rate > 0 || (o.n > 1 && p->rest_s >= MODEL_KEEP_S), within = false;

	if (by_request) {
		within = set_request_times(t, pods, i, r, p->demand_s * stretch, seen, o);
		t->rate = p->rate > 0 ? p->rate : 1 / t->mean_s;
	}
	if (!within) {
		set_tail_times(t, p, o.n > 1 ? r->sigma : 0, o);
		add_waiting_tail(t, p, r->slice_s, o.n);
		if (by_request)
			t->p50_s = fmax(t->p50_s, t->mean_s);
	}
	order_time_quantiles(t);
}

int model_rotate(const struct model_pod *pods, size_t n, const struct model_rotation *r,
	struct model_times *ret, double *rho, struct error *err)
{
	double sigma = n > 1 ? r->sigma : 0, stretch, used, queue = 0;
	struct closed_classes c = { 0 };
	size_t states, n_closed = 0;

	*rho = 0;
	if (n > MODEL_PODS_MAX)
		return error_set(err, ERR_LIMIT, "%zu pods on one GPU; at most %d", n,
			MODEL_PODS_MAX);
	for (size_t i = 0; i < n; i++) {
		*rho += pods[i].rate * pods[i].demand_s * (1 + sigma);
		n_closed += pods[i].rate <= 0;
	}
	if (*rho >= 1)
		return error_set(err, ERR_UNAVAILABLE, "they ask for %.*f %% of the GPU's time",
			digits_to_differ(*rho * 100, 100, 0), *rho * 100);
	/* Open pods take part of the GPU, which makes it slower for closed pods. */
	stretch = (1 + sigma) / (1 - *rho);
	classify_closed_pods(&c, pods, n);
	states = states_of(&c);
	if (states <= STATES_MAX)
		solve_exact_mva(&c, stretch, states);
	else
		solve_approximate_mva(&c, stretch);
	used = *rho;
	for (size_t i = 0; i < n; i++) {
		double here;

		if (pods[i].rate > 0)
			continue;
		here = pods[i].demand_s * stretch * (1 + c.class[c.of[i]].seen);
		ret[i].mean_s = pods[i].rest_s + here;
		ret[i].rate = ret[i].mean_s > 0 ? 1 / ret[i].mean_s : 0;
		queue += ret[i].rate * here;
		used += ret[i].rate * pods[i].demand_s * (1 + sigma);
	}
	used = fmin(used, 1);
	for (size_t i = 0; i < n; i++)
		set_times(&ret[i], pods, i, r, stretch,
			pods[i].rate > 0 ? queue : c.class[c.of[i]].seen,
			(struct background_load){ used, *rho, n, n_closed });
	return 0;
}

/* --- side by side: MPS and MIG --- */

/* Rounds of a fixed point: a pod that is slowed down has work on the GPU for longer. */
#define ROUNDS 3

/* (1 - u) + u / share, Amdahl's law with a share of a processor. */
static double model_amdahl(double u, double share)
{
	return 1 - u + u / share;
}

/* GPU time of a request: all extra time is spent on the GPU. */
static double compute_stretched_time(const struct model_pod *p, double stretch)
{
	return p->demand_s + (p->demand_s + p->rest_s) * (stretch - 1);
}

int model_side_by_side(const struct model_pod *pods, const struct model_side *sides, size_t n,
	double *stretch, struct error *err)
{
	double busy[MODEL_PODS_MAX];

	if (n > MODEL_PODS_MAX)
		return error_set(err, ERR_LIMIT, "%zu pods on one GPU; at most %d", n,
			MODEL_PODS_MAX);
	for (size_t i = 0; i < n; i++)
		busy[i] = sides[i].busy;
	for (unsigned round = 0; round < ROUNDS; round++) {
		double demand = 0, bandwidth = 0, bound = 0;

		for (size_t i = 0; i < n; i++) {
			demand += busy[i] * sides[i].u;
			bandwidth += busy[i] * sides[i].dram;
			bound += busy[i] * sides[i].bw;
		}
		for (size_t i = 0; i < n; i++) {
			double beside =
				sides[i].limit < 1
					? fmax(sides[i].kappa *
							  (bandwidth - busy[i] * sides[i].dram),
						  sides[i].bw > 0
							  ? bound - busy[i] * sides[i].bw
							  : 0)
					: demand - busy[i] * sides[i].u;

			stretch[i] = model_amdahl(sides[i].u, sides[i].limit) * (1 + beside);
		}
		/* An open pod has as many requests as before, each of them longer. */
		for (size_t i = 0; i < n; i++)
			if (pods[i].rate > 0)
				busy[i] = fmin(1, pods[i].rate * compute_stretched_time(
									 &pods[i], stretch[i]));
	}
	return 0;
}

double model_split_stretch(double u_sm, double u_bw, double sm_share, double bw_share)
{
	return 1 - u_sm - u_bw + u_sm / sm_share + u_bw / bw_share;
}

double model_conserving(double a, double used)
{
	return fmax(a, 1 - used);
}

int model_exclusive(const struct model_pod *p, double stretch, struct model_times *ret,
	double *used, struct error *err)
{
	double demand = compute_stretched_time(p, stretch), before = p->rate * p->demand_s;

	*used = p->rate * demand;
	if (*used >= 1)
		return error_set(err, ERR_UNAVAILABLE, "it asks for %.*f %% of what it has",
			digits_to_differ(*used * 100, 100, 0), *used * 100);
	/* The measured time already includes waiting of its requests for each other, up to that load. */
	ret->mean_s = p->rest_s + demand * (1 - fmin(before, *used)) / (1 - *used);
	ret->p50_s = ret->p95_s = ret->p99_s = ret->mean_s;
	ret->rate = ret->mean_s > 0 ? 1 / ret->mean_s : 0;
	if (p->rate > 0) {
		ret->rate = p->rate;
		if (*used > 0) {
			ret->p95_s += demand * log(MODEL_BEYOND_P95) / log(*used);
			ret->p99_s += demand * log(MODEL_BEYOND_P99) / log(*used);
		}
	}
	return 0;
}

double model_translate(double u_sm, double u_bw, double compute_ratio, double bandwidth_ratio)
{
	return 1 - u_sm - u_bw + u_sm * compute_ratio + u_bw * bandwidth_ratio;
}
