/* SPDX-License-Identifier: Apache-2.0 */

/* Invariants of the model: after each call of the scheduler, and while time passes. */
#include "unit/model/sched/model-internal.h"

#include "model/sched/internal.h"

#include <inttypes.h>
#include <stdio.h>

void model_record_failure(struct model *m, const char *failure)
{
	if (!m->failure[0])
		(void)snprintf(m->failure, sizeof(m->failure), "at %.3f ms: %s",
			(double)(m->now - START) / 1e6, failure);
}

/* --- after each call of the scheduler --- */

static void check_gates(struct model *m, unsigned int gpu)
{
	const struct model_slice *holder = NULL;
	bool together = m->sched->gpus[gpu].period.concurrent;

	for (size_t i = 0; i < m->n_procs; i++) {
		const struct model_proc *p = &m->procs[i];

		if (!p->slice || p->gpu != gpu || !p->client)
			continue;
		if (together && p->client->gate != SCHED_GATE_OPEN)
			model_fail(m, "process %zu has a closed gate though all go together",
				i);
		if (p->client->wants && p->client->gate != SCHED_GATE_CLOSED)
			model_fail(m, "process %zu wants before an open gate", i);
		if (p->client->share->config.mps && p->client->gate != SCHED_GATE_OPEN)
			model_fail(m, "process %zu is under MPS and its gate is not open", i);
		if (p->client->gate == SCHED_GATE_CLOSED ||
			!sched_is_time_shared(p->client->share) || together)
			continue;
		if (holder && holder != p->slice)
			model_fail(m, "GPU %u has two holders", gpu);
		holder = p->slice;
	}
}

/* Each quantum that began has ended once, and for one reason, or continues. */
static void check_quantum_ends(struct model *m, struct model_slice *s, unsigned int gpu,
	const struct sched_account *a)
{
	bool is_holder =
		m->sched->gpus[gpu].holder && m->sched->gpus[gpu].holder->slice == s->slice;
	uint64_t sum = 0;

	for (unsigned int i = 0; i < SCHED_ENDS; i++) {
		sum += a->quantum_ends[i];
		m->quantum_ends[i] += a->quantum_ends[i] - s->quantum_ends[gpu][i];
		s->quantum_ends[gpu][i] = a->quantum_ends[i];
	}
	if (a->quanta + a->resumed != sum + is_holder)
		model_fail(m,
			"slice %td had %" PRIu64 " quanta, %" PRIu64 " resumed, %" PRIu64
			" have ended",
			s - m->slices, a->quanta, a->resumed, sum);
}

static void check_slice(struct model *m, struct model_slice *s, unsigned int gpu)
{
	struct sched_account a;

	sched_account(m->sched, s->slice, gpu, m->now, &a);
	check_quantum_ends(m, s, gpu, &a);
	if (a.charged_ns < s->charged[gpu])
		model_fail(m, "slice %td was charged less than before", s - m->slices);
	s->charged[gpu] = a.charged_ns;
	if (s->config[gpu].mps && a.has_quantum)
		model_fail(m, "slice %td is under MPS and has the turn", s - m->slices);
	if (!s->config[gpu].mps && (a.stuck_ns || !a.has_quantum))
		s->overrun[gpu] = max_u64(s->overrun[gpu], a.charged_ns - s->closed_at[gpu]);
}

static void check_sum(struct model *m, unsigned int gpu)
{
	uint64_t sum = m->gone[gpu];

	for (size_t i = 0; i < m->n_slices; i++) {
		struct model_slice *s = &m->slices[i];

		if (!s->slice)
			continue;
		check_slice(m, s, gpu);
		sum += s->charged[gpu];
	}
	if (sum != sched_gpu_busy_ns(m->sched, gpu))
		model_fail(m, "GPU %u: charges %llu, busy %llu", gpu, (unsigned long long)sum,
			(unsigned long long)sched_gpu_busy_ns(m->sched, gpu));
}

static struct sched_share *find_model_share(struct model *m, const struct model_slice *s,
	unsigned int gpu)
{
	struct sched_share *share = m->sched->gpus[gpu].shares;

	while (share && share->slice != s->slice)
		share = share->next;
	return share;
}

static bool is_slice_waiting(struct model *m, const struct model_slice *s)
{
	return s->slice && s->steady && !s->config[0].mps &&
	       !sched_is_idle(find_model_share(m, s, 0));
}

/* The bound that sched.h proves: from the time on when a share that continues to want was level with another
 * share. */
static void check_pair(struct model *m, struct model_slice *a, const struct model_slice *b,
	double quantum)
{
	const struct sched_share *share = find_model_share(m, a, 0),
				 *other = find_model_share(m, b, 0);
	double weight = share->config.weight, longest = quantum * 5 / 4, bound;
	double lag = (double)share->vtime - (double)other->vtime;
	uint32_t bit = UINT32_C(1) << (b - m->slices);

	if (share->gpu->period.concurrent || share->slice->boost_running) {
		a->level = 0;
		return;
	}
	if (longest < (double)SCHED_QUANTUM_MIN_NS / weight)
		longest = (double)SCHED_QUANTUM_MIN_NS / weight;
	/* 4 ns cover the remainders of divisions. */
	bound = quantum / 4 + longest + (double)a->overrun[0] / weight + 4;
	if (share->quanta != a->quanta && !other->n_wants)
		a->level &= ~bit;
	if (lag <= quantum / 4)
		a->level |= bit;
	if (!(a->level & bit))
		return;
	m->n_lags++;
	if (lag > bound)
		model_fail(m, "slice %td is %.0f ahead of %td, bound %.0f", a - m->slices, lag,
			b - m->slices, bound);
}

static void check_lag(struct model *m)
{
	uint32_t max = 1;

	for (size_t i = 0; i < m->n_slices; i++) {
		const struct model_slice *s = &m->slices[i];

		if (s->slice && s->steady && !s->config[0].mps)
			max = s->config[0].weight > max ? s->config[0].weight : max;
	}
	for (size_t i = 0; i < m->n_slices; i++) {
		if (!is_slice_waiting(m, &m->slices[i]))
			continue;
		for (size_t j = 0; j < m->n_slices; j++) {
			if (j != i && is_slice_waiting(m, &m->slices[j]))
				check_pair(m, &m->slices[i], &m->slices[j],
					(double)(SCHED_QUANTUM_NS / max));
		}
		m->slices[i].quanta = find_model_share(m, &m->slices[i], 0)->quanta;
	}
}

/* After each call of the scheduler. */
void model_check_call(struct model *m)
{
	if (m->sched->dirty)
		model_fail(m, "not settled");
	if (sched_next_deadline(m->sched) <= m->now)
		model_fail(m, "wants to be called at once again");
	for (unsigned int g = 0; g < m->n_gpus; g++) {
		check_gates(m, g);
		check_sum(m, g);
	}
	check_lag(m);
	for (size_t i = 0; i < m->n_procs; i++) {
		struct model_proc *p = &m->procs[i];

		if (!p->slice || !p->client)
			continue;
		if (!p->client->wants)
			p->waiting_since = 0;
		else if (!p->waiting_since)
			p->waiting_since = m->now;
	}
}

/* --- while time passes --- */

static void check_cap(struct model *m, struct model_slice *s, size_t i)
{
	const struct sched_share_config *share = &s->config[0];
	double burst = (double)SCHED_CAP_BURST_NS, over = (double)s->charged[0] - s->allowed;

	if (!s->slice || s->lies || share->mps || !share->cap || share->cap >= SLICE_CAP_ALL)
		return;
	/* Charges are as of the last settlement. Between two settlements a charge is on a straight line. */
	if (m->sched->gpus[0].accrued != m->now)
		return;
	if (over < s->over_least)
		s->over_least = over;
	/* The work in flight when the bucket is empty, and the work in flight when the gate closed. */
	burst += (double)(s->in_flight + s->overrun[0]);
	if (over - s->over_least > burst)
		model_fail(m, "slice %zu is %.3f ms over its cap", i,
			(over - s->over_least) / 1e6);
}

void model_check_time(struct model *m)
{
	for (size_t i = 0; i < m->n_slices; i++)
		check_cap(m, &m->slices[i], i);
	for (unsigned int g = 0; g < m->n_gpus; g++) {
		bool could = false;

		for (const struct sched_share *share = m->sched->gpus[g].shares; share;
			share = share->next)
			could |= share->n_wants && sched_is_ready(share) &&
				 !sched_is_gang(share->slice);
		if (model_is_busy(m, g) || !could)
			m->dry[g] = 0;
		else if (!m->dry[g])
			m->dry[g] = m->now;
		else
			m->dry_most = max_u64(m->dry_most, m->now - m->dry[g]);
	}
	for (size_t i = 0; i < m->n_procs; i++) {
		struct model_proc *p = &m->procs[i];

		if (p->slice && p->waiting_since)
			p->waited_most = max_u64(p->waited_most, m->now - p->waiting_since);
	}
}

void model_check_progress(struct model *m)
{
	m->n_events++;
	if (m->now - m->stood_at > 100 * US) {
		m->stood_at = m->now;
		m->stood = 0;
	}
	if (++m->stood > 2000)
		model_fail(m, "time stands still");
}
