/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/model/sched/bench.h"

#include "support/test.h"

#include <inttypes.h>
#include <stdlib.h>

void assert_sound(const struct model *m)
{
	if (m->failure[0])
		fail_msg("%s", m->failure);
	for (unsigned int g = 0; g < m->n_gpus; g++) {
		uint64_t counted = sched_gpu_busy_ns(m->sched, g);
		uint64_t off =
			counted > m->busy[g] ? counted - m->busy[g] : m->busy[g] - counted;

		if (off > m->wrong[g] + m->n_events)
			fail_msg("GPU %u was busy for %" PRIu64 " ns, charged %" PRIu64
				 ", wrong for %" PRIu64,
				g, m->busy[g], counted, m->wrong[g]);
	}
}

struct bench *bench_run(const struct row *rows, unsigned int n_gpus)
{
	struct bench *b = calloc(1, sizeof(*b));
	uint64_t work = 0;

	assert_non_null(b);
	b->m = model_new(1, n_gpus);
	for (; rows[b->n].share.weight; b->n++) {
		b->slices[b->n] = model_slice(b->m, &rows[b->n].share);
		for (unsigned int g = 0; g < n_gpus; g++) {
			if (rows[b->n].gpus >> g & 1)
				b->procs[b->n][g] =
					model_proc(b->m, b->slices[b->n], g, &rows[b->n].task);
		}
	}
	model_run(b->m, S);
	b->m->dry_most = 0;
	for (unsigned int i = 0; i < b->n; i++)
		work -= b->procs[i][0] ? b->procs[i][0]->work_ns : 0;
	for (unsigned int k = 0; k <= SAMPLES; k++) {
		for (unsigned int i = 0; i < b->n; i++) {
			b->used[i][k] = b->slices[i]->used[0];
			b->charged[i][k] = model_charged(b->m, b->slices[i], 0);
		}
		if (k < SAMPLES)
			model_run(b->m, SAMPLE);
	}
	for (unsigned int i = 0; i < b->n; i++)
		work += b->procs[i][0] ? b->procs[i][0]->work_ns : 0;
	b->work = PERCENT * (double)work / (double)(SECONDS * S);
	assert_sound(b->m);
	return b;
}

void bench_free(struct bench *b)
{
	(void)model_free(b->m);
	free(b);
}

double share_of(const uint64_t *samples, unsigned int from, unsigned int n)
{
	return PERCENT * (double)(samples[from + n] - samples[from]) / (double)(n * SAMPLE);
}

void assert_share_within(const struct bench *b, unsigned int i, double percent, double points)
{
	double used = share_of(b->used[i], 0, SAMPLES);
	double charged = share_of(b->charged[i], 0, SAMPLES);

	if (used < percent - 1 || used > percent + 1 || charged < percent - 1 ||
		charged > percent + 1)
		fail_msg("slice %u: %.2f %% used, %.2f %% charged, expected %.2f %%", i, used,
			charged, percent);
	/* The difference is at most what the arbiter does not know at once, and the hardware's choice between
	 * two contexts. */
	if (used < charged - 0.3 || used > charged + 0.3)
		fail_msg("slice %u: %.3f %% used, %.3f %% charged", i, used, charged);
	for (unsigned int from = 0; from + 100 <= SAMPLES; from++) {
		used = share_of(b->used[i], from, 100);
		if (used < percent - points || used > percent + points)
			fail_msg("slice %u: %.2f %% of the second from %.2f s on, expected "
				 "%.2f %%",
				i, used, from * 0.01, percent);
	}
}

void assert_share(const struct bench *b, unsigned int i, double percent)
{
	assert_share_within(b, i, percent, 2);
}

void assert_capped(const struct bench *b, unsigned int i, double percent, unsigned int others)
{
	double waited = percent / PERCENT * (double)(others * SCHED_QUANTUM_NS);
	double max = (double)(SCHED_CAP_PORTION_NS + 3 * KERNEL_NS + MODEL_CHANGE_NS) + waited;

	assert_share_within(b, i, percent, PERCENT * max / (double)S);
}
