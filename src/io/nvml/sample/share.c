/* SPDX-License-Identifier: Apache-2.0 */
#include "io/nvml/sample/share.h"
#include "lib/base/minmax.h"

#include <stdlib.h>
#include <string.h>

#define NS_PER_US UINT64_C(1000)
#define LATE_US   UINT64_C(2000000) /* tolerance of a sample's time after the question */

static int by_pid_and_time(const void *a, const void *b)
{
	const nvmlProcessUtilizationSample_t *x = a, *y = b;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
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

static struct sample_process *get_process_row(struct sample_process *list, uint32_t *n,
	uint32_t room, uint32_t pid)
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

/* Drops percentages above 100, and times that are not of the interval. */
static uint32_t filter_utilization(nvmlProcessUtilizationSample_t *v, uint32_t n,
	uint64_t from_us, uint64_t to_us)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < n; i++)
		if (v[i].pid && v[i].smUtil <= 100 && v[i].timeStamp > from_us &&
			v[i].timeStamp <= to_us + LATE_US)
			v[kept++] = v[i];
	qsort(v, kept, sizeof *v, by_pid_and_time);
	return kept;
}

void share_count(nvmlProcessUtilizationSample_t *v, uint32_t n, uint64_t from_us,
	uint64_t to_us, struct sample_process *list, uint32_t *n_list, uint32_t room)
{
	bool counts = from_us && to_us > from_us;

	for (uint32_t i = 0; i < *n_list; i++) {
		list[i].busy_known = counts;
		list[i].busy_ns = 0;
	}
	n = counts ? filter_utilization(v, n, from_us, to_us) : 0;
	for (uint32_t i = 0; i < n; i++) {
		bool first = i == 0 || v[i - 1].pid != v[i].pid;
		bool last = i + 1 == n || v[i + 1].pid != v[i].pid;
		uint64_t since = first ? from_us : v[i - 1].timeStamp;
		uint64_t until = last ? to_us : v[i].timeStamp;
		struct sample_process *p = get_process_row(list, n_list, room, v[i].pid);

		if (p && until > since)
			p->busy_ns += (until - since) * NS_PER_US / 100 * v[i].smUtil;
	}
}

static uint64_t scale_by_ratio(uint64_t of, uint64_t share, uint64_t all)
{
	return all ? (uint64_t)((unsigned __int128)of * share / all) : 0;
}

/* The time that a process asks for: the time by its samples, and what it is owed. */
static uint64_t get_desired_time(struct share_state *s, const struct sample_process *p)
{
	const struct share_last *l = last_of(s, p->pid);

	return p->busy_known ? p->busy_ns + (l ? l->owed_ns : 0) : 0;
}

uint64_t share_wanted(struct share_state *s, const struct sample_process *list, uint32_t n)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < n; i++)
		sum += get_desired_time(s, &list[i]);
	return sum;
}

static bool is_listed(const struct sample_process *list, uint32_t n, uint32_t pid)
{
	for (uint32_t i = 0; i < n; i++)
		if (list[i].pid == pid)
			return true;
	return false;
}

/*
 * The driver reports nothing more of a process that has ended. Of the time without samples such a process gets at
 * most twice its time in the last interval, in which it may have begun, and what it is owed.
 */
static uint64_t get_ended_limit(const struct share_last *l)
{
	return 2 * l->rate_ns + l->owed_ns;
}

static uint64_t share_with_ended(const struct share_state *s, struct sample_process *list,
	uint32_t *n, uint32_t room, uint64_t rest)
{
	uint32_t listed = *n;
	uint64_t all = 0, given = 0;

	for (uint32_t i = 0; i < s->n; i++)
		all += is_listed(list, listed, s->last[i].pid) ? 0
							       : get_ended_limit(&s->last[i]);
	rest = min_u64(rest, all);
	for (uint32_t i = 0; i < s->n && rest; i++) {
		const struct share_last *l = &s->last[i];
		struct sample_process *p = is_listed(list, listed, l->pid)
						   ? NULL
						   : get_process_row(list, n, room, l->pid);

		if (!p)
			continue;
		p->busy_ns = scale_by_ratio(get_ended_limit(l), rest, all);
		given += p->busy_ns;
	}
	return given;
}

/*
 * Divides @given and @more among the listed processes, which ask for @all, in proportion to what each asks for.
 */
static void share_busy_time(struct share_state *s, struct sample_process *list, uint32_t n,
	uint64_t all, uint64_t given, uint64_t more)
{
	for (uint32_t i = 0; i < n; i++) {
		uint64_t want = get_desired_time(s, &list[i]),
			 ns = scale_by_ratio(want, given, all);
		struct share_last *l = last_of(s, list[i].pid);

		if (!list[i].busy_known)
			continue;
		if (!l && s->n < SHARE_PIDS_MAX) {
			l = &s->last[s->n++];
			*l = (struct share_last){ .pid = list[i].pid };
		}
		if (l)
			*l = (struct share_last){ .pid = l->pid,
				.rate_ns = list[i].busy_ns,
				.owed_ns = want - ns };
		list[i].busy_ns = ns + scale_by_ratio(more, want, all);
	}
}

/* Forgets processes that are not listed, and bounds what is owed to all, in proportion. */
static void prune_share_state(struct share_state *s, const struct sample_process *list,
	uint32_t n)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < s->n;)
		if (is_listed(list, n, s->last[i].pid))
			sum += s->last[i++].owed_ns;
		else
			s->last[i] = s->last[--s->n];
	for (uint32_t i = 0; i < s->n && sum > SHARE_OWED_NS; i++)
		s->last[i].owed_ns = scale_by_ratio(s->last[i].owed_ns, SHARE_OWED_NS, sum);
}

uint64_t share_settle(struct share_state *s, struct sample_process *list, uint32_t *n,
	uint32_t room, const struct share_time *t)
{
	uint64_t there = t->busy_ns + s->reserved_ns, all = share_wanted(s, list, *n);
	uint64_t given = min_u64(min_u64(all, there), t->interval_ns), ended, more;
	uint32_t listed = *n;

	/* If the busy time is a guess, no process gets time without samples. */
	ended = t->reserve_ns ? share_with_ended(s, list, n, room,
					min_u64(there - given, t->interval_ns - given))
			      : 0;
	more = there - given - ended;
	/* The rest, as the end of the interval, waits for its samples. */
	s->reserved_ns = min_u64(more, min_u64(t->busy_ns, t->reserve_ns));
	more -= s->reserved_ns;
	if (given + ended + more > t->interval_ns) {
		s->reserved_ns += given + ended + more - t->interval_ns;
		more = t->interval_ns - given - ended;
	}
	share_busy_time(s, list, listed, all, given,
		t->reserve_ns ? min_u64(more, SHARE_MORE_NS) : 0);
	prune_share_state(s, list, listed);
	return given + ended + more;
}
