/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Applies what NVML reports of processes to what no hook charged. Pure.
 *
 * A figure of NVML is compared only with a page that did not change between the question and the answer:
 *
 * 1. Before the question, grants_snapshot() notes the number of each member's last operation, if none is under
 *    way.
 * 2. The agent asks NVML.
 * 3. With the answer, grants_compare() ignores a process if an operation of a member is under way or began since
 *    step 1.
 * 4. grants_compare_end() drops the abandoned members that have nothing left.
 */
#include "node/arbiter/grants/internal.h"

#include <string.h>

/* The number of the last operation, if none is under way; else GRANTS_UNKNOWN. */
static uint64_t quiet_at(const struct grants_member *m, unsigned int gpu)
{
	const struct slice_gpu_page *p;
	uint64_t done, begun;

	if (!m->page)
		return GRANTS_UNKNOWN;
	p = &m->page->gpus[gpu];
	/* Order of the loads: an operation that begins between them counts as under way. */
	done = atomic_load_explicit(&p->done, memory_order_seq_cst);
	begun = atomic_load_explicit(&p->begun, memory_order_seq_cst);
	return done == begun ? begun : GRANTS_UNKNOWN;
}

void grants_snapshot(struct grants_table *table)
{
	for (struct grants_slice *s = table->slices; s; s = s->next) {
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

/* Of the hooks' charges that NVML sees: at most this many bytes may not be there (abi/slice-page.h). */
static uint64_t get_doubtful_bytes(const struct grants_member *m, unsigned int gpu)
{
	const struct slice_gpu_page *p = &m->page->gpus[gpu];
	uint64_t in = min_u64(atomic_load_explicit(&p->packed_in, memory_order_acquire),
		grants_get_charged(m, gpu, true));
	uint64_t min = min_u64(atomic_load_explicit(&p->packed, memory_order_acquire), in);

	min = (min + SLICE_GRANULE - 1) / SLICE_GRANULE * SLICE_GRANULE;
	return in > min ? in - min : 0;
}

/* Sums over the members of a process that are not abandoned. */
struct task_charges {
	uint64_t used, charged, nvml_visible, doubtful;
	struct grants_member *first; /* one such member; NULL: none */
};

/* False: an operation of a member is under way, or began since the snapshot. */
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
		/* The figures belong to the idle time only if the member is still idle. */
		if (quiet_at(m, (unsigned int)gpu) != m->gpus[gpu].begun)
			return false;
		ret->first = m;
	}
	return true;
}

/* The driver took @bytes more than is granted: first from reclaimed credit, then beyond the limit. */
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

/* Gives the abandoned members what the process has beyond its other members. */
static bool compare_abandoned(struct grants_task *t, const uint8_t *uuid, uint64_t bytes)
{
	struct grants_member *last = NULL;
	bool changed = false;

	for (struct grants_member *m = t->members; m; m = m->next_of_task) {
		int gpu = find_grants_gpu(m->slice, uuid);
		uint64_t granted;

		/* A reading that was requested before the member was abandoned may be older than its last
		 * allocation. */
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
	/* For a living process, the members that are not abandoned are raised. */
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
	/* The memory of a replaced program comes first: it is not the new program's overhead. */
	if (abandoned)
		return compare_abandoned(t, uuid, bytes > now.used ? bytes - now.used : 0);
	if (!now.first)
		return false;
	overhead = now.used > now.charged ? now.used - now.charged : 0;
	min = bytes > now.nvml_visible ? bytes - now.nvml_visible : 0;
	/*
	 * The doubtful bytes are in the overhead or not. The overhead stays as it is: if it were lowered now, it
	 * would be too small after the process releases the doubtful charges.
	 */
	max = bytes -
	      min_u64(bytes, now.nvml_visible - min_u64(now.nvml_visible, now.doubtful));
	if (min > overhead) {
		/* A spoiled page can have charges above what is used. The grant never falls below the physical
		 * memory. */
		raise_used(now.first, (unsigned int)find_grants_gpu(now.first->slice, uuid),
			min - overhead);
		changed = true;
	} else if (max < overhead) {
		changed = lower_overhead(t, uuid, overhead - max);
	}
	return changed;
}
