/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/suite/suite.h"

#include "lib/base/parse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS UINT64_C(1000000)
#define US UINT64_C(1000)

#define MODES_DEFAULT                                                                \
	(1U << BENCH_EXCLUSIVE | 1U << BENCH_TIME_SLICING | 1U << BENCH_FAIR_SHARE | \
		1U << BENCH_FAIR_SHARE_WEIGHTED | 1U << BENCH_FAIR_SHARE_LATENCY |   \
		1U << BENCH_MPS | 1U << BENCH_MPS_LIMITED)

const struct suite_workload suite_builtin[SUITE_BUILTIN] = {
	{ .name = "burn",
		.what = "arithmetic that fills the GPU",
		.kernel = "burn",
		.kernels = 1,
		.kernel_ns = 400 * US,
		.depth = 16 },
	{ .name = "small",
		.what = "many small kernels, of 16 blocks each",
		.kernel = "burn",
		.kernels = 1,
		.blocks = 16,
		.kernel_ns = 90 * US,
		.depth = 16 },
	{ .name = "bandwidth",
		.what = "copies of 256 MiB within the GPU's memory",
		.kernel = "stream",
		.kernels = 1,
		.depth = 8 },
	{ .name = "decode",
		.what = "tokens one after the other, each a graph of 60 short kernels",
		.kernel = "burn",
		.kernels = 60,
		.blocks = 64,
		.kernel_ns = 20 * US,
		.graph = true,
		.flow = SUITE_CLOSED },
	{ .name = "latency",
		.what = "20 short kernels every 10 ms",
		.kernel = "burn",
		.kernels = 20,
		.blocks = 16,
		.kernel_ns = 8 * US,
		.flow = SUITE_PERIODIC,
		.every_ns = 10 * MS,
		.waits = true },
	{ .name = "requests",
		.what = "requests of 2 ms that arrive at random, 50 a second",
		.kernel = "burn",
		.kernels = 20,
		.kernel_ns = 100 * US,
		.flow = SUITE_POISSON,
		.every_ns = 20 * MS,
		.waits = true },
};
static const char *const default_scenarios[] = { "4 burn", "4 small", "4 bandwidth", "4 decode",
	"latency + 3 burn", "2 requests + 2 small" };

void suite_defaults(struct suite *s)
{
	*s = (struct suite){ .workloads = suite_builtin,
		.n_workloads = SUITE_BUILTIN,
		.modes = MODES_DEFAULT,
		.repetitions = 3,
		.warmup_s = 0.5,
		.startup_s = 600,
		.seconds = 2.5,
		.seed = 1 };
	for (size_t i = 0; i < ARRAY_LEN(default_scenarios); i++) {
		struct error err = ERROR_INIT;

		if (suite_add(s, default_scenarios[i], &err) < 0)
			abort(); /* a bug in the table */
	}
}

/* Sets the workloads to the built-in ones and @w, and the scenarios to @scenario alone. */
static void add_workload(struct suite *s, struct suite_workload room[static SUITE_BUILTIN + 1],
	const struct suite_workload *w, const char *scenario)
{
	struct error err = ERROR_INIT;

	memcpy(room, suite_builtin, sizeof(suite_builtin));
	room[SUITE_BUILTIN] = *w;
	s->workloads = room;
	s->n_workloads = SUITE_BUILTIN + 1;
	s->n_scenarios = 0;
	if (suite_add(s, scenario, &err) < 0)
		abort(); /* a bug */
}

void suite_command(struct suite *s, struct suite_workload room[static SUITE_BUILTIN + 1],
	const char *command, const char *pattern)
{
	add_workload(s, room,
		&(struct suite_workload){ .name = "command",
			.what = "the command",
			.command = command,
			.pattern = pattern },
		"4 command");
}

void suite_trace(struct suite *s, struct suite_workload room[static SUITE_BUILTIN + 1],
	const char *path)
{
	add_workload(s, room,
		&(struct suite_workload){ .name = "trace",
			.what = "requests as in a file, a graph of ten short kernels for each token",
			.kernel = "burn",
			.kernels = 10,
			.blocks = 64,
			.kernel_ns = 20 * US,
			.graph = true,
			.flow = SUITE_LIST,
			.arrivals = path,
			.waits = true },
		"2 trace + 2 small");
}

/* --- scenarios from words --- */

static int find_workload_by_name(const struct suite *s, const char *name, struct error *err)
{
	char known[256] = "";
	size_t at = 0;

	for (size_t i = 0; i < s->n_workloads; i++)
		if (!strcmp(s->workloads[i].name, name))
			return (int)i;
	for (size_t i = 0; i < s->n_workloads && at < sizeof(known); i++)
		at += (size_t)snprintf(known + at, sizeof(known) - at, "%s%s", i ? ", " : "",
			s->workloads[i].name);
	return error_set(err, ERR_INVALID, "no workload '%.40s'; there are: %s", name, known);
}

/* Parses "3 burn" or "burn". */
static int add_tenants(struct suite_scenario *sc, const struct suite *s, char *words,
	struct error *err)
{
	struct suite_tenants t = { .replicas = 1 };
	char *name = words + strspn(words, " "), *end = name + strlen(name), *space;
	int w;

	while (end > name && end[-1] == ' ')
		*--end = '\0';
	space = strchr(name, ' ');
	if (space) {
		*space = '\0';
		if (!parse_u32(name, &t.replicas) || !t.replicas || t.replicas > BENCH_PODS_MAX)
			return error_set(err, ERR_INVALID,
				"expected a number of pods, 1 to %d, before the workload, found '%.40s'",
				BENCH_PODS_MAX, name);
		name = space + 1 + strspn(space + 1, " ");
	}
	w = find_workload_by_name(s, name, err);
	if (w < 0)
		return -1;
	t.workload = (uint32_t)w;
	for (uint32_t i = 0; i < sc->n; i++)
		if (sc->tenants[i].workload == t.workload)
			return error_set(err, ERR_INVALID, "'%s' is named twice", name);
	if (sc->n == SUITE_TENANTS_MAX || sc->pods + t.replicas > BENCH_PODS_MAX)
		return error_set(err, ERR_LIMIT,
			"expected at most %d kinds of pods and %d pods", SUITE_TENANTS_MAX,
			BENCH_PODS_MAX);
	sc->tenants[sc->n++] = t;
	sc->pods += t.replicas;
	return 0;
}

/* Gives the scenario its canonical name, independent of how it was written. */
static void name_scenario(struct suite_scenario *sc, const struct suite *s)
{
	size_t at = 0;

	for (uint32_t i = 0; i < sc->n && at < sizeof(sc->name); i++) {
		const struct suite_tenants *t = &sc->tenants[i];
		const char *name = s->workloads[t->workload].name, *plus = i ? " + " : "";

		at += (size_t)(t->replicas == 1 && sc->pods > 1
				       ? snprintf(sc->name + at, sizeof(sc->name) - at, "%s%s",
						 plus, name)
				       : snprintf(sc->name + at, sizeof(sc->name) - at,
						 "%s%u %s", plus, t->replicas, name));
	}
}

int suite_add(struct suite *s, const char *text, struct error *err)
{
	struct suite_scenario sc = { .n = 0 };
	char words[256], *at = words;

	if (s->n_scenarios == SUITE_SCENARIOS_MAX)
		return error_set(err, ERR_LIMIT, "expected at most %d scenarios",
			SUITE_SCENARIOS_MAX);
	if (strlen(text) >= sizeof(words))
		return error_set(err, ERR_LIMIT,
			"scenario '%.40s...': expected at most %zu bytes", text,
			sizeof(words) - 1);
	memcpy(words, text, strlen(text) + 1);
	while (at) {
		char *plus = strchr(at, '+');

		if (plus)
			*plus = '\0';
		if (add_tenants(&sc, s, at, err) < 0)
			return error_prefix(err, "scenario '%.80s'", text);
		at = plus ? plus + 1 : NULL;
	}
	name_scenario(&sc, s);
	s->scenarios[s->n_scenarios++] = sc;
	return 0;
}

int suite_profile(struct suite *s, uint32_t workload, const double *shares, size_t n,
	struct error *err)
{
	const char *name = s->workloads[workload].name;

	if (n + 1 > SUITE_SCENARIOS_MAX)
		return error_set(err, ERR_LIMIT, "expected at most %d shares",
			SUITE_SCENARIOS_MAX - 1);
	s->profile = true;
	s->modes = 1U << BENCH_EXCLUSIVE | 1U << BENCH_FAIR_SHARE |
		   (n ? 1U << BENCH_MPS_LIMITED : 0);
	s->n_scenarios = 0;
	for (size_t i = 0; i <= n; i++) {
		struct suite_scenario *sc = &s->scenarios[s->n_scenarios++];

		*sc = (struct suite_scenario){ .pods = 1,
			.n = 1,
			.sm_share = i ? shares[i - 1] : 0,
			.tenants = { { workload, 1 } } };
		if (i)
			(void)snprintf(sc->name, sizeof(sc->name), "1 %.40s at %.0f%%", name,
				shares[i - 1] * 100);
		else
			(void)snprintf(sc->name, sizeof(sc->name), "1 %.40s", name);
	}
	return 0;
}

/* --- order of steps --- */

double suite_weight(uint32_t i)
{
	return i + 1;
}

bool suite_has(const struct suite *s, const struct suite_scenario *sc, enum bench_mode m)
{
	bool waits = false, fills = false;

	if (m == BENCH_MIG && s->mig_pods && sc->pods != s->mig_pods)
		return false;
	if (sc->sm_share > 0)
		return m == BENCH_MPS_LIMITED;
	if (sc->pods < 2)
		return m == BENCH_EXCLUSIVE || (s->profile && m == BENCH_FAIR_SHARE);
	for (uint32_t i = 0; i < sc->n; i++) {
		const struct suite_workload *w = &s->workloads[sc->tenants[i].workload];

		waits = waits || w->waits;
		fills = fills || !w->waits;
	}
	if (m == BENCH_FAIR_SHARE_LATENCY)
		return waits && fills;
	/*
	 * Pods that wait for answers need a share of the GPU that is unrelated to their weight. So weighted mode
	 * skips their scenarios.
	 */
	return m == BENCH_FAIR_SHARE_WEIGHTED ? !waits : m != BENCH_EXCLUSIVE;
}

bool suite_uses(const struct suite *s, uint32_t workload)
{
	for (size_t i = 0; i < s->n_scenarios; i++)
		for (uint32_t k = 0; k < s->scenarios[i].n; k++)
			if (s->scenarios[i].tenants[k].workload == workload)
				return true;
	return false;
}

static uint64_t hash_shuffle_seed(uint64_t z)
{
	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static void shuffle_steps(struct suite_step *steps, size_t n, uint64_t seed)
{
	for (size_t i = n; i > 1; i--) {
		size_t k = (size_t)(hash_shuffle_seed(seed + i * UINT64_C(0x9e3779b97f4a7c15)) %
				    i);
		struct suite_step t = steps[i - 1];

		steps[i - 1] = steps[k];
		steps[k] = t;
	}
}

/* Adds the steps of one mode and repetition, in random order. */
static size_t add_steps(struct suite_step *to, const struct suite *s, enum bench_mode m,
	uint32_t repetition)
{
	size_t n = 0, all = m == BENCH_EXCLUSIVE ? s->n_workloads : s->n_scenarios;

	for (uint32_t i = 0; i < all; i++)
		if (m == BENCH_EXCLUSIVE ? suite_uses(s, i) : suite_has(s, &s->scenarios[i], m))
			to[n++] = (struct suite_step){ m, repetition, i };
	shuffle_steps(to, n, s->seed + repetition * BENCH_MODES + m);
	return n;
}

int suite_steps(struct suite_step **ret, size_t *n, const struct suite *s, struct error *err)
{
	size_t max = (s->n_workloads + s->n_scenarios) * BENCH_MODES * s->repetitions;

	*n = 0;
	*ret = calloc(max + 1, sizeof(**ret));
	if (!*ret)
		return error_nomem(err);
	for (uint32_t r = 0; r < s->repetitions; r++)
		for (uint32_t k = 0; k < BENCH_MODES; k++) {
			enum bench_mode m = (enum bench_mode)((k + r) % BENCH_MODES);

			if (s->modes & 1U << m)
				*n += add_steps(*ret + *n, s, m, r);
		}
	return 0;
}
