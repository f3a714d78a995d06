/* SPDX-License-Identifier: Apache-2.0 */

/* What NVML says of processes, and what that makes of what no hook charged. Pure. */
#include "node/arbiter/grants/internal.h"

#include <string.h>

/* The number of the operation after which nothing is under way; GRANTS_UNKNOWN: something is. */
static uint64_t quiet_at(const struct grants_member *m, unsigned int gpu)
{
	const struct slice_gpu_page *p;
	uint64_t done, begun;

	if (!m->page)
		return GRANTS_UNKNOWN;
	p = &m->page->gpus[gpu];
	/* In this order: an operation that begins between the two is seen as under way. */
	done = atomic_load_explicit(&p->done, memory_order_seq_cst);
	begun = atomic_load_explicit(&p->begun, memory_order_seq_cst);
	return done == begun ? begun : GRANTS_UNKNOWN;
}

void grants_snapshot(struct grants_table *b)
{
	for (struct grants_slice *s = b->slices; s; s = s->next) {
		for (struct grants_member *m = s->members; m; m = m->next) {
			for (unsigned int i = 0; i < s->n_gpus; i++) {
				m->gpus[i].begun = quiet_at(m, i);
				m->gpus[i].read = false;
			}
			m->reading_requested = m->abandoned;
		}
	}
}

static int find_grants_gpu(const struct grants_slice *s, const uint8_t *uuid)
{
	for (unsigned int i = 0; i < s->n_gpus; i++) {
		if (!memcmp(s->gpus[i].uuid, uuid, SLICE_UUID_BYTES))
			return (int)i;
	}
	return -1;
}

/* Of what hooks charged as seen: at most so much may not be there (abi/slice-page.h). */
static uint64_t get_doubtful_bytes(const struct grants_member *m, unsigned int gpu)
{
	const struct slice_gpu_page *p = &m->page->gpus[gpu];
	uint64_t in = min_u64(atomic_load_explicit(&p->packed_in, memory_order_acquire),
		grants_get_charged(m, gpu, true));
	uint64_t min = min_u64(atomic_load_explicit(&p->packed, memory_order_acquire), in);

	min = (min + SLICE_GRANULE - 1) / SLICE_GRANULE * SLICE_GRANULE;
	return in > min ? in - min : 0;
}

/* What the driver has for a process, taken apart: by hooks of those members that go on, and else. */
struct task_charges {
	uint64_t used, charged, nvml_visible, doubtful;
	struct grants_member *first; /* a member that goes on */
};

/* False: one of the members is at work, or was since the snapshot. */
static bool sum_task_charges(struct grants_task *t, const uint8_t *uuid,
	struct task_charges *ret)
{
	*ret = (struct task_charges){ .used = 0 };
	for (struct grants_member *m = t->members; m; m = m->next_of_task) {
		int gpu = find_grants_gpu(m->slice, uuid);

		if (gpu < 0 || m->abandoned)
			continue;
		if (quiet_at(m, (unsigned int)gpu) == GRANTS_UNKNOWN ||
			quiet_at(m, (unsigned int)gpu) != m->gpus[gpu].begun)
			return false;
		ret->used += grants_get_used(m, (unsigned int)gpu);
		ret->charged += grants_get_charged(m, (unsigned int)gpu, false);
		ret->nvml_visible += grants_get_charged(m, (unsigned int)gpu, true);
		ret->doubtful += get_doubtful_bytes(m, (unsigned int)gpu);
		/* What was read is of the quiet time if it still is. */
		if (quiet_at(m, (unsigned int)gpu) != m->gpus[gpu].begun)
			return false;
		ret->first = m;
	}
	return true;
}

/* @bytes more are taken than is granted: from what is free, else beyond the limit. */
static void raise_used(struct grants_member *m, unsigned int gpu, uint64_t bytes)
{
	grants_reclaim_credit(m->slice, gpu, bytes, m, true);
	grants_publish_sole_member(m->slice, gpu, m);
	grants_add_granted(m, gpu, bytes, 0);
	(void)grants_slice_used(m->slice, gpu);
}

static bool lower_overhead(struct grants_task *t, const uint8_t *uuid, uint64_t bytes)
{
	uint64_t left = bytes;

	for (struct grants_member *m = t->members; m && left; m = m->next_of_task) {
		int gpu = find_grants_gpu(m->slice, uuid);
		uint64_t part;

		if (gpu < 0 || m->abandoned)
			continue;
		part = min_u64(grants_get_overhead(m, (unsigned int)gpu), left);
		if (part)
			grants_return(m, (unsigned int)gpu, part);
		left -= part;
	}
	return left != bytes;
}

/* What members of a program that is no more have: all of the process that the others do not. */
static bool compare_abandoned(struct grants_task *t, const uint8_t *uuid, uint64_t bytes)
{
	struct grants_member *last = NULL;
	bool changed = false;

	for (struct grants_member *m = t->members; m; m = m->next_of_task) {
		int gpu = find_grants_gpu(m->slice, uuid);
		uint64_t granted;

		/* What was asked before it was abandoned may be older than its last allocation. */
		if (gpu < 0 || !m->abandoned || !m->reading_requested)
			continue;
		m->gpus[gpu].read = true;
		if (bytes == GRANTS_UNKNOWN)
			continue;
		granted = grants_get_granted(m, (unsigned int)gpu);
		if (granted > bytes) {
			grants_return(m, (unsigned int)gpu, granted - bytes);
			changed = true;
		}
		bytes -= min_u64(bytes, granted);
		last = m;
	}
	/* A living process is raised with the members that go on. */
	if (!last || !t->dead || !bytes)
		return changed;
	raise_used(last, (unsigned int)find_grants_gpu(last->slice, uuid), bytes);
	return true;
}

bool grants_compare(struct grants_task *t, const uint8_t *uuid, uint64_t bytes)
{
	struct task_charges now;
	uint64_t overhead, min, max;
	bool changed = false;
	bool abandoned = false;

	if (bytes == GRANTS_UNKNOWN)
		return compare_abandoned(t, uuid, bytes);
	bytes = min_u64(bytes, GRANTS_BYTES_MAX);
	for (struct grants_member *m = t->members; m; m = m->next_of_task) {
		int gpu = find_grants_gpu(m->slice, uuid);

		if (gpu >= 0)
			m->gpus[gpu].physical = bytes;
		abandoned |= gpu >= 0 && m->abandoned;
	}
	if (!sum_task_charges(t, uuid, &now))
		return false;
	/* Of a replaced program first: what is left of it is not the new one's overhead. */
	if (abandoned)
		return compare_abandoned(t, uuid, bytes > now.used ? bytes - now.used : 0);
	if (!now.first)
		return false;
	overhead = now.used > now.charged ? now.used - now.charged : 0;
	min = bytes > now.nvml_visible ? bytes - now.nvml_visible : 0;
	/*
	 * What is in doubt is in the overhead or not. As it was is best: were it taken off now, it would
	 * be missing when the doubtful charges are released.
	 */
	max = bytes -
	      min_u64(bytes, now.nvml_visible - min_u64(now.nvml_visible, now.doubtful));
	if (min > overhead) {
		/* More is charged than used where a page was spoiled: never count less than physical. */
		raise_used(now.first, (unsigned int)find_grants_gpu(now.first->slice, uuid),
			min - overhead);
		changed = true;
	} else if (max < overhead) {
		changed = lower_overhead(t, uuid, overhead - max);
	}
	return changed;
}
