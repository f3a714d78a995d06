/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "lib/base/cleanup.h"
#include "lib/base/parse.h"
#include "unit/model/sched/bench.h"
#include "model/sched/internal.h"

#include <inttypes.h>
#include <stdlib.h>

/*
 * The scheduler and a model of what happens around it. Checked at each event of each scenario:
 *
 *	1. Charges add up to the time in which the arbiter thought any process busy, and never decrease.
 *	2. No two slices have their gates open, except by class latency, concurrent, or under MPS.
 *	3. No client waits before an open gate.
 *	4. A slice under MPS has only open gates, and never the quantum.
 *	5. No quantum is longer than the longest. The lag of slices that always have work is within its bound.
 *	6. No slice exceeds its cap over any stretch of time.
 *	7. Each event is settled, and no event asks for another one at once.
 *
 * Checked at the end: the arbiter's charges are true, except for the time in which it could not know better. No
 * process waited longer than its bound. No GPU was idle longer than its bound while a process waited for it.
 *
 * TURNS_SCENARIOS (default 100) is the number of random scenarios, TURNS_SEED is the first seed.
 */
static unsigned int mps_percent; /* of the slices of a scenario are under MPS */

static bool draw_chance(struct model *m, unsigned int percent)
{
	return model_random(m, 100) < percent;
}

static struct sched_share_config random_share(struct model *m, bool plain)
{
	static const uint32_t weights[] = { 1, 1, 1, 2, 3, 10, 40, 99, 10000 };
	struct sched_share_config share = {
		.weight = weights[model_random(m, ARRAY_LEN(weights))]
	};

	if (!plain && draw_chance(m, 20))
		share.cap = (uint32_t)(10000 + model_random(m, 990000));
	share.latency = !plain && draw_chance(m, 20);
	share.mps = mps_percent && !plain && draw_chance(m, mps_percent);
	return share;
}

static uint64_t random_kernel(struct model *m)
{
	static const uint64_t kernels[] = { 20 * US, 50 * US, 100 * US, 300 * US, MS, 3 * MS,
		20 * MS };

	if (draw_chance(m, 3))
		return 500 * MS + model_random(m, 2500 * MS);
	return kernels[model_random(m, ARRAY_LEN(kernels))];
}

/* How likely a task is, in a plain scenario and in a wild one. */
static const struct {
	enum model_kind kind;
	unsigned int plain, wild;
} likely[] = {
	{ MODEL_SATURATE, 60, 35 },
	{ MODEL_LOOP, 25, 20 },
	{ MODEL_PACED, 15, 10 },
	{ MODEL_BURST, 0, 20 },
	{ MODEL_FLAPPER, 0, 5 },
	{ MODEL_FALSE_BUSY, 0, 5 },
	{ MODEL_SHY, 0, 5 },
};

static struct model_task random_task(struct model *m, bool plain)
{
	struct model_task task = { .kernel_ns = random_kernel(m) };
	uint64_t dice = model_random(m, 100);
	size_t i = 0;

	for (; dice >= (plain ? likely[i].plain : likely[i].wild); i++)
		dice -= plain ? likely[i].plain : likely[i].wild;
	task.kind = likely[i].kind;
	task.ahead = draw_chance(m, 20) ? 1000 : 2 + (unsigned int)model_random(m, 30);
	task.burst = 1 + (unsigned int)model_random(m, 50);
	task.think_ns = 20 * US + model_random(m, draw_chance(m, 50) ? 200 * US : 50 * MS);
	task.rest_ns = model_random(m, 3 * MS);
	if (task.kind == MODEL_LOOP && draw_chance(m, 20))
		task.kernel_ns = US;
	if (task.kind == MODEL_BURST)
		task.kernel_ns = 10 * US + model_random(m, 2 * MS);
	if (!plain && draw_chance(m, 20))
		task.estimate_permille = (unsigned int)(100 + model_random(m, 5000));
	return task;
}

/* One slice with its processes: on one GPU, or a gang. */
static struct model_slice *random_slice(struct model *m, bool plain)
{
	struct sched_share_config share = random_share(m, plain);
	struct model_slice *s = model_slice(m, &share);
	struct model_task task = random_task(m, plain);
	unsigned int first = (unsigned int)model_random(m, m->n_gpus), width = 1;

	if (m->n_gpus > 1 && draw_chance(m, 40)) {
		width = 2 + (unsigned int)model_random(m, m->n_gpus - 1);
		if (task.kind == MODEL_SATURATE && draw_chance(m, 70)) {
			task.kind = MODEL_GROUP;
			task.ahead = 2 + task.ahead % 8;
		}
	}
	for (unsigned int i = 0; i < width; i++)
		(void)model_proc(m, s, (first + i) % m->n_gpus, &task);
	if (plain && task.kind == MODEL_SATURATE)
		s->steady = true;
	else if (draw_chance(m, 20)) /* a second process */
		(void)model_proc(m, s, first, &task);
	return s;
}

static unsigned int n_slices(const struct model *m)
{
	unsigned int n = 0;

	for (size_t i = 0; i < MODEL_SLICES_MAX; i++)
		n += m->slices[i].slice != NULL;
	return n;
}

static struct model_slice *any_slice(struct model *m)
{
	for (unsigned int tries = 0; tries < 100; tries++) {
		struct model_slice *s = &m->slices[model_random(m, MODEL_SLICES_MAX)];

		if (s->slice)
			return s;
	}
	return NULL;
}

static struct model_proc *any_proc(struct model *m)
{
	for (unsigned int tries = 0; tries < 100; tries++) {
		struct model_proc *p = &m->procs[model_random(m, MODEL_PROCS_MAX)];

		if (p->slice)
			return p;
	}
	return NULL;
}

static unsigned int n_procs(const struct model *m)
{
	unsigned int n = 0;

	for (size_t i = 0; i < MODEL_PROCS_MAX; i++)
		n += m->procs[i].slice != NULL;
	return n;
}

/* A slice or a process comes, goes, is killed, or gets another share. */
static void random_event(struct model *m)
{
	struct model_slice *s = any_slice(m);
	struct model_proc *p = any_proc(m);
	struct sched_share_config share = random_share(m, false);
	struct model_task task = random_task(m, false);

	switch (model_random(m, 6)) {
	case 0:
		if (p)
			model_kill(p);
		break;
	case 1:
		if (s)
			model_slice_drop(m, s);
		break;
	case 2:
		if (s && n_procs(m) < MODEL_PROCS_MAX)
			(void)model_proc(m, s, (unsigned int)model_random(m, m->n_gpus), &task);
		break;
	case 3:
		if (n_slices(m) < 10 && n_procs(m) < MODEL_PROCS_MAX - MODEL_GPUS_MAX - 1)
			(void)random_slice(m, false);
		break;
	default:
		if (s)
			model_share(m, s, &share);
	}
}

/*
 * How long a process may wait, as sched.h says: its own overrun runs, all other shares come level with it, and
 * have a quantum each. Where shares of a large weight come and go, quanta before that were as without them. A
 * share that reports busy all the time slows down the charges of others.
 */
static double wait_bound(const struct model *m, const struct model_proc *p)
{
	const struct sched_share_config *mine = &p->slice->config[p->gpu];
	double overrun = (double)p->slice->overrun[p->gpu], bound = overrun;
	double credit = (double)SCHED_QUANTUM_MIN_NS + overrun;
	unsigned int liars = 0, beside = 0;

	for (size_t i = 0; i < m->n_slices; i++) {
		if (m->slices[i].slice && !m->slices[i].steady)
			credit = (double)(SCHED_QUANTUM_NS * 3 / 2) + overrun;
	}
	for (size_t i = 0; i < m->n_procs; i++)
		liars += m->procs[i].slice && m->procs[i].task.kind >= MODEL_FLAPPER;
	/* Beside slices that are always there a quantum costs its holder only a part of its time. */
	for (size_t i = 0; i < m->n_slices; i++)
		beside += m->slices[i].slice && m->slices[i].config[p->gpu].mps;
	if (mine->latency)
		credit += (double)SCHED_LATENCY_LEAD_NS;
	for (size_t i = 0; i < m->n_slices; i++) {
		const struct model_slice *s = &m->slices[i];

		if (!s->slice || s == p->slice || s->config[p->gpu].mps)
			continue;
		bound += (double)s->config[p->gpu].weight / mine->weight * credit;
		bound += 4 * (double)SCHED_QUANTUM_NS + (double)s->overrun[p->gpu];
		bound += s->config[p->gpu].latency
				 ? (double)(SCHED_LATENCY_LEAD_NS + SCHED_QUANTUM_NS)
				 : 0;
	}
	return bound * (1 + liars + beside);
}

static void assert_no_process_starves(const struct model *m, bool plain)
{
	for (size_t i = 0; i < m->n_procs; i++) {
		const struct model_proc *p = &m->procs[i];
		double bound;

		if (!p->slice || p->slice->config[p->gpu].cap)
			continue;
		/* Gangs wait for one GPU after the other. This code cannot see slices that have come, gone or
		 * changed. */
		bound = wait_bound(m, p);
		if (!plain)
			bound = 4 * m->n_gpus * bound + (double)S;
		if ((double)p->waited_most > bound)
			fail_msg("process %zu waited for %.3f ms, bound %.3f", i,
				(double)p->waited_most / 1e6, bound / 1e6);
	}
}

/* Slices that always have some tasks of the same kind on one GPU. */
static void run_plain(struct model *m)
{
	for (uint64_t n = 2 + model_random(m, 7); n; n--)
		(void)random_slice(m, true);
	model_run(m, (1 + model_random(m, 3)) * S);
}

/* The scheduler waits for an idle holder. Then it takes some time until the report has arrived. */
static void assert_never_dry(const struct model *m)
{
	if (m->dry_most > SCHED_GRACE_MAX_NS + 300 * US)
		fail_msg("idle for %.3f ms", (double)m->dry_most / 1e6);
}

static void run_wild(struct model *m)
{
	for (uint64_t n = 1 + model_random(m, 7); n && n_procs(m) < 24; n--)
		(void)random_slice(m, false);
	for (uint64_t n = model_random(m, 10); n; n--) {
		model_run(m, model_random(m, 300 * MS));
		random_event(m);
	}
	model_run(m, 300 * MS);
}

/* Slices that leave the GPU idle, so that they are concurrent; then a wild scenario. */
static void run_loose(struct model *m)
{
	for (uint64_t n = 2 + model_random(m, 4); n; n--) {
		struct sched_share_config share = { .weight =
							    1 + (uint32_t)model_random(m, 3) };
		struct model_task task = random_task(m, true);

		task.kind = MODEL_PACED;
		task.kernel_ns = min_u64(max_u64(task.kernel_ns, 20 * US), MS);
		task.think_ns = task.kernel_ns * (100 + model_random(m, 200)) / 100;
		(void)model_proc(m, model_slice(m, &share), 0, &task);
	}
	model_run(m, 2500 * MS);
	for (uint64_t n = model_random(m, 6); n; n--) {
		random_event(m);
		model_run(m, model_random(m, 500 * MS));
	}
}

/* Slices with quanta, as above. Beside them slices under MPS come, go, and change to quanta and back. */
static void run_beside_mps(struct model *m)
{
	const struct sched_share_config under = { .weight = 3, .cap = 100000, .mps = true };

	for (uint64_t n = 2 + model_random(m, 4); n; n--)
		(void)random_slice(m, true);
	for (uint64_t n = 1 + model_random(m, 3); n; n--) {
		struct model_slice *s = random_slice(m, true);

		s->steady = false;
		model_share(m, s, &under);
		model_run(m, model_random(m, 500 * MS));
		if (draw_chance(m, 50))
			model_slice_drop(m, s);
	}
	model_run(m, S);
}

static void clear_model(struct model *m)
{
	uint64_t busy[MODEL_GPUS_MAX];

	for (size_t i = 0; i < MODEL_SLICES_MAX; i++) {
		if (m->slices[i].slice)
			model_slice_drop(m, &m->slices[i]);
	}
	for (unsigned int g = 0; g < m->n_gpus; g++)
		busy[g] = sched_gpu_busy_ns(m->sched, g);
	model_run(m, 2 * S);
	for (unsigned int g = 0; g < m->n_gpus; g++)
		assert_int_equal(sched_gpu_busy_ns(m->sched, g), busy[g]);
	assert_true(sched_next_deadline(m->sched) == UINT64_MAX);
}

static void run_scenario(uint64_t seed, uint64_t *n_events, uint64_t *n_lags,
	uint64_t *together, uint64_t quantum_ends[SCHED_ENDS])
{
	bool plain = seed % 3 == 0, loose = seed % 9 == 1, beside = seed % 9 == 5;
	struct model *m = model_new(seed,
		plain || loose || beside ? 1 : 1 + (unsigned int)(seed / 3 % 8));

	mps_percent = seed % 9 == 2 ? 40 : 0;
	if (plain)
		run_plain(m);
	else if (beside)
		run_beside_mps(m);
	else if (loose)
		run_loose(m);
	else
		run_wild(m);
	assert_sound(m);
	assert_no_process_starves(m, plain || beside);
	if (plain)
		assert_never_dry(m);
	clear_model(m);
	assert_sound(m);
	*n_events += m->n_events;
	*n_lags += m->n_lags;
	for (unsigned int i = 0; i < SCHED_ENDS; i++)
		quantum_ends[i] += m->quantum_ends[i];
	for (unsigned int g = 0; g < m->n_gpus; g++)
		*together += m->concurrent[g];
	(void)model_free(m);
}

static uint64_t number_of(const char *variable, uint64_t otherwise)
{
	const char *text = getenv(variable);
	uint64_t n = otherwise;

	if (text && !parse_u64(text, &n))
		fail_msg("%s is no number", variable);
	return n;
}

static void sched__keeps_all_promises_in_random_scenarios(void **state)
{
	uint64_t first = number_of("TURNS_SEED", 1), n = number_of("TURNS_SCENARIOS", 100);
	uint64_t n_events = 0, n_lags = 0, together = 0, quantum_ends[SCHED_ENDS] = { 0 };

	(void)state;
	for (uint64_t seed = first; seed < first + n; seed++) {
		/* After a failure the last line names the scenario. */
		if (n == 1 || getenv("TURNS_VERBOSE"))
			print_message("# scenario %" PRIu64 "\n", seed);
		run_scenario(seed, &n_events, &n_lags, &together, quantum_ends);
	}
	print_message("# %" PRIu64 " scenarios, %" PRIu64 " events, %" PRIu64
		      " pairs within their lag, %" PRIu64 " s together\n",
		n, n_events, n_lags, together / S);
	assert_true(n < 100 || (n_lags > 0 && together > 0));
	for (unsigned int i = 0; i < SCHED_ENDS; i++) {
		print_message("# %" PRIu64 " quanta ended: %s\n", quantum_ends[i],
			sched_end_reason_names[i]);
		assert_true(n < 100 || quantum_ends[i] > 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sched__keeps_all_promises_in_random_scenarios),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
