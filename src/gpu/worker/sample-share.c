/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/worker/sample-share.h"

#include <string.h>

#define NS_PER_US UINT64_C(1000)
/* How long before the interval a process's previous sample may lie and still count from there. */
#define CARRY_US UINT64_C(2000000)

/* NVML's period between two samples is a second at most. */
#define PERIOD_US UINT64_C(1000000)

static int by_time(const void *a, const void *b)
{
	const nvmlProcessUtilizationSample_t *x = a, *y = b;

	return (x->timeStamp > y->timeStamp) - (x->timeStamp < y->timeStamp);
}

static struct share_last *last_of(struct share_state *s, uint32_t pid)
{
	for (uint32_t i = 0; i < s->n; i++) {
		if (s->last[i].pid == pid)
			return &s->last[i];
	}
	return NULL;
}

static void remember(struct share_state *s, uint32_t pid, uint64_t at_us)
{
	struct share_last *l = last_of(s, pid);

	if (!l && s->n < SHARE_PIDS_MAX) {
		l = &s->last[s->n++];
		*l = (struct share_last){ .pid = pid };
	}
	if (l)
		l->at_us = at_us;
	if (at_us > s->last_seen_us)
		s->last_seen_us = at_us;
}

/* Those that would not count from there any more. */
static void forget_before(struct share_state *s, uint64_t at_us)
{
	for (uint32_t i = 0; i < s->n;) {
		if (s->last[i].at_us < at_us)
			s->last[i] = s->last[--s->n];
		else
			i++;
	}
}

static struct sample_process *row_of(struct sample_process *list, uint32_t *n, uint32_t room,
	uint32_t pid)
{
	for (uint32_t i = 0; i < *n; i++) {
		if (list[i].pid == pid)
			return &list[i];
	}
	if (*n >= room)
		return NULL;
	list[*n] = (struct sample_process){ .pid = pid, .busy_known = true };
	return &list[(*n)++];
}

struct count {
	const nvmlProcessUtilizationSample_t *v;
	uint32_t n, listed; /* rows of the list that NVML gave */
	uint64_t from_us;
	struct sample_process *list;
	share_began *began;
	void *arg;
};

static bool is_listed(const struct count *c, uint32_t pid)
{
	for (uint32_t i = 0; i < c->listed; i++) {
		if (c->list[i].pid == pid)
			return true;
	}
	return false;
}

/* Since when the sample @i counts, which is the first of its process. */
static uint64_t since_first(const struct count *c, uint32_t i)
{
	uint32_t pid = c->v[i].pid;
	uint64_t at = c->v[i].timeStamp, since = c->began(c->arg, pid), next = 0;

	for (uint32_t k = i + 1; k < c->n && !next; k++) {
		if (c->v[k].pid == pid && c->v[k].timeStamp > at)
			next = c->v[k].timeStamp;
	}
	if (!since && !is_listed(c, pid))
		since = at - (at > PERIOD_US ? PERIOD_US : at);
	if (next && next - at < at && at - (next - at) > since)
		since = at - (next - at);
	return since > c->from_us ? since : c->from_us;
}

/* Keeps the times of an interval with samples; in one without, those of the last one are taken. */
static void keep_or_repeat(struct share_state *s, struct sample_process *list, uint32_t n,
	bool any)
{
	for (uint32_t i = 0; i < s->n && any; i++)
		s->last[i].busy_ns = 0;
	for (uint32_t i = 0; i < n; i++) {
		struct share_last *l = last_of(s, list[i].pid);

		if (l && any)
			l->busy_ns = list[i].busy_ns;
		else if (l)
			list[i].busy_ns = l->busy_ns;
	}
}

void share_count(struct share_state *s, nvmlProcessUtilizationSample_t *v, uint32_t n,
	uint64_t from_us, uint64_t to_us, struct sample_process *list, uint32_t *n_list,
	uint32_t room, share_began *began, void *arg)
{
	const struct count c = { v, n, *n_list, from_us, list, began, arg };
	uint64_t earliest = from_us > CARRY_US ? from_us - CARRY_US : 0;
	uint64_t most_ns = from_us && to_us > from_us ? (to_us - from_us) * NS_PER_US : 0;
	bool counts = most_ns > 0, any = false;

	for (uint32_t i = 0; i < *n_list; i++) {
		list[i].busy_known = counts;
		list[i].busy_ns = 0;
	}
	forget_before(s, earliest);
	qsort(v, n, sizeof *v, by_time);
	for (uint32_t i = 0; i < n; i++) {
		const struct share_last *l = last_of(s, v[i].pid);
		uint64_t at = v[i].timeStamp, since;
		struct sample_process *p;

		if (v[i].pid == 0 || v[i].smUtil > 100 || at > to_us + CARRY_US || at == 0)
			continue;
		since = l ? l->at_us : counts ? since_first(&c, i) : at;
		if (counts && at > since && at >= earliest) {
			p = row_of(list, n_list, room, v[i].pid);
			any = true;
			if (p)
				p->busy_ns += (at - since) * NS_PER_US / 100 * v[i].smUtil;
		}
		if (!l || at > l->at_us)
			remember(s, v[i].pid, at);
	}
	if (counts)
		keep_or_repeat(s, list, *n_list, any);
}

uint64_t share_sum(const struct sample_process *list, uint32_t n)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < n; i++)
		sum += list[i].busy_known ? list[i].busy_ns : 0;
	return sum;
}

void share_fit(struct sample_process *list, uint32_t n, uint64_t most_ns, uint64_t raise_ns)
{
	uint64_t sum = share_sum(list, n);
	uint64_t to = sum + raise_ns < most_ns ? sum + raise_ns : most_ns;

	for (uint32_t i = 0; i < n && sum > 0; i++) {
		if (list[i].busy_known)
			list[i].busy_ns =
				(uint64_t)((unsigned __int128)list[i].busy_ns * to / sum);
	}
}
