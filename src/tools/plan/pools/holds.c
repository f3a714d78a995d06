/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/plan/pools/internal.h"

#include <stdlib.h>
#include <string.h>

/*
 * The worst that a scheduler can make of a pool. It puts any replica anywhere where the resource that it asks for is
 * left, so on a GPU those may meet that want most of its time, of its memory or of its bandwidth, and with them
 * anybody: also those that the plan has in another pool, if they ask for the same here.
 */

enum want { WANT_TIME, WANT_MEMORY, WANT_BANDWIDTH, WANTS };

static double want_of(const struct plan_answer *a, const struct pool *p, uint32_t workload,
	enum want want)
{
	const struct fit_pod *pod = fit_pod(a->fit, workload, p->offer->gpu);

	switch (want) {
	case WANT_TIME:
		return pod->busy;
	case WANT_BANDWIDTH: /* where they run side by side */
		return pod->busy * pod->dram;
	case WANT_MEMORY:
	case WANTS:
		break;
	}
	return pod->memory_mib;
}

/* A GPU of the pool while it is filled. */
struct meeting {
	const struct plan_answer *a;
	const struct pool *p;
	enum want want;
	uint32_t who[PLAN_PODS_MAX], n;
	uint32_t *used; /* replicas of each tenant that are on it */
};

/* Adds up to @n of those that ask for @resource, who want most first. */
static void add_most(struct meeting *m, uint32_t resource, uint32_t n)
{
	while (n) {
		size_t best = m->p->n_tenants;
		double most = -1;

		for (size_t i = 0; i < m->p->n_tenants; i++) {
			const struct pool_tenant *t = &m->p->tenants[i];
			double want = want_of(m->a, m->p, t->workload, m->want);

			if (t->resource != resource || m->used[i] >= t->reach ||
				(m->used[i] && m->a->in->workloads[t->workload].anti_affinity))
				continue;
			if (want > most) {
				most = want;
				best = i;
			}
		}
		if (best == m->p->n_tenants || m->n == PLAN_PODS_MAX)
			return;
		m->used[best]++;
		m->who[m->n++] = m->p->tenants[best].workload;
		n--;
	}
}

static enum plan_reason ask(const struct meeting *m, uint32_t *culprit)
{
	struct fit_gpu g = { m->p->offer, m->p->mode, m->p->slots, m->who, m->n };

	return m->n ? fit_check(m->a->fit, &g, NULL, NULL, culprit) : PLAN_FITS;
}

static void say_meeting(const struct meeting *m, enum plan_reason reason, uint32_t culprit,
	struct buf *say)
{
	buf_printf(say, "'%s' (%s) beside",
		m->a->in->workloads[m->who[culprit < m->n ? culprit : 0]].name,
		plan_reason_names[reason]);
	for (uint32_t i = 0; i < m->n && i < 8; i++)
		if (i != culprit)
			buf_printf(say, " '%s'", m->a->in->workloads[m->who[i]].name);
}

/* @first is there, and beside it those who want most. */
static bool meets(struct meeting *m, size_t first, struct buf *say)
{
	const struct pool_tenant *t = &m->p->tenants[first];
	const struct pool_cut *cuts = m->p->cuts;
	uint32_t culprit = 0, gpus = cuts ? m->p->offer->gpus : 1;
	enum plan_reason reason;

	for (uint32_t g = 0; g < gpus; g++) {
		bool seated = false;

		for (size_t i = 0; i < m->p->n_tenants; i++)
			m->used[i] = 0;
		m->n = 0;
		m->used[first] = 1;
		m->who[m->n++] = t->workload;
		if (!cuts)
			add_most(m, t->resource, m->p->slots - 1);
		for (uint32_t i = 0; cuts && i < cuts[g].n; i++) {
			char name[POOL_KEY_MAX];
			struct plan_tenant like = { .memory_mib = cuts[g].v[i] };
			const struct plan_node node = { .offer = m->p->offer,
				.mode = m->p->mode };
			uint32_t resource = 0;

			resource_of(&node, &like, name);
			while (resource < m->p->n_resources &&
				strcmp(m->p->resources[resource].name, name) != 0)
				resource++;
			if (resource == t->resource && !seated)
				seated = true; /* it has this one itself */
			else
				add_most(m, resource, 1);
		}
		if (cuts && !seated)
			continue;
		reason = ask(m, &culprit);
		if (reason != PLAN_FITS) {
			say_meeting(m, reason, culprit, say);
			return false;
		}
	}
	return true;
}

bool pool_holds(const struct plan_answer *a, const struct pool *p, struct buf *say)
{
	struct meeting m = { .a = a, .p = p };
	bool holds = true;

	/* MIG devices are apart, and a whole GPU is nobody else's. */
	if (p->mode == PLAN_EXCLUSIVE || p->mode == PLAN_MIG || p->slots == 1)
		return true;
	m.used = calloc(p->n_tenants + 1, sizeof(*m.used));
	if (!m.used)
		return false;
	for (int w = 0; w < WANTS && holds; w++) {
		m.want = (enum want)w;
		for (size_t i = 0; i < p->n_tenants && holds; i++)
			holds = meets(&m, i, say);
	}
	free(m.used);
	return holds;
}
