/* SPDX-License-Identifier: Apache-2.0 */

/* What NVML says of processes, and what that makes of what no hook charged. Pure. */
#include "node/arbiter/grants/internal.h"

#include <string.h>

/* The number of the operation after which nothing is under way; BOOK_NOTHING: something is. */
static uint64_t quiet_at(const struct book_member *m, unsigned int gpu)
{
	const struct slice_gpu_page *p;
	uint64_t done, begun;

	if (!m->page)
		return BOOK_NOTHING;
	p = &m->page->gpus[gpu];
	/* In this order: an operation that begins between the two is seen as under way. */
	done = atomic_load_explicit(&p->done, memory_order_seq_cst);
	begun = atomic_load_explicit(&p->begun, memory_order_seq_cst);
	return done == begun ? begun : BOOK_NOTHING;
}

void book_snapshot(struct book *b)
{
	for (struct book_slice *s = b->slices; s; s = s->next) {
		for (struct book_member *m = s->members; m; m = m->next) {
			for (unsigned int i = 0; i < s->n_gpus; i++) {
				m->gpus[i].begun = quiet_at(m, i);
				m->gpus[i].read = false;
			}
			m->asked = m->abandoned;
		}
	}
}

static int gpu_of(const struct book_slice *s, const uint8_t *uuid)
{
	for (unsigned int i = 0; i < s->n_gpus; i++) {
		if (!memcmp(s->gpus[i].uuid, uuid, SLICE_UUID_BYTES))
			return (int)i;
	}
	return -1;
}

/* Of what hooks charged as seen: at most so much may not be there (abi/slice-page.h). */
static uint64_t doubtful(const struct book_member *m, unsigned int gpu)
{
	const struct slice_gpu_page *p = &m->page->gpus[gpu];
	uint64_t in = min_u64(atomic_load_explicit(&p->packed_in, memory_order_acquire),
		book_charged(m, gpu, true));
	uint64_t least = min_u64(atomic_load_explicit(&p->packed, memory_order_acquire), in);

	least = (least + SLICE_GRANULE - 1) / SLICE_GRANULE * SLICE_GRANULE;
	return in > least ? in - least : 0;
}

/* What the driver has for a process, taken apart: by hooks of those members that go on, and else. */
struct taken {
	uint64_t used, charged, seen, doubtful;
	struct book_member *first; /* a member that goes on */
};

/* False: one of the members is at work, or was since the snapshot. */
static bool add_up(struct book_task *t, const uint8_t *uuid, struct taken *ret)
{
	*ret = (struct taken){ .used = 0 };
	for (struct book_member *m = t->members; m; m = m->next_of_task) {
		int gpu = gpu_of(m->slice, uuid);

		if (gpu < 0 || m->abandoned)
			continue;
		if (quiet_at(m, (unsigned int)gpu) == BOOK_NOTHING ||
			quiet_at(m, (unsigned int)gpu) != m->gpus[gpu].begun)
			return false;
		ret->used += book_used(m, (unsigned int)gpu);
		ret->charged += book_charged(m, (unsigned int)gpu, false);
		ret->seen += book_charged(m, (unsigned int)gpu, true);
		ret->doubtful += doubtful(m, (unsigned int)gpu);
		/* What was read is of the quiet time if it still is. */
		if (quiet_at(m, (unsigned int)gpu) != m->gpus[gpu].begun)
			return false;
		ret->first = m;
	}
	return true;
}

/* @bytes more are taken than is granted: from what is free, else beyond the limit. */
static void raise_used(struct book_member *m, unsigned int gpu, uint64_t bytes)
{
	book_make_room(m->slice, gpu, bytes, m, true);
	book_tell_alone(m->slice, gpu, m);
	book_grant(m, gpu, bytes, 0);
	(void)book_slice_used(m->slice, gpu);
}

static bool lower_overhead(struct book_task *t, const uint8_t *uuid, uint64_t bytes)
{
	uint64_t left = bytes;

	for (struct book_member *m = t->members; m && left; m = m->next_of_task) {
		int gpu = gpu_of(m->slice, uuid);
		uint64_t part;

		if (gpu < 0 || m->abandoned)
			continue;
		part = min_u64(book_overhead(m, (unsigned int)gpu), left);
		if (part)
			book_give_back(m, (unsigned int)gpu, part);
		left -= part;
	}
	return left != bytes;
}

/* What members of a program that is no more have: all of the process that the others do not. */
static bool compare_abandoned(struct book_task *t, const uint8_t *uuid, uint64_t bytes)
{
	struct book_member *last = NULL;
	bool changed = false;

	for (struct book_member *m = t->members; m; m = m->next_of_task) {
		int gpu = gpu_of(m->slice, uuid);
		uint64_t granted;

		/* What was asked before it was abandoned may be older than its last allocation. */
		if (gpu < 0 || !m->abandoned || !m->asked)
			continue;
		m->gpus[gpu].read = true;
		if (bytes == BOOK_NOTHING)
			continue;
		granted = book_granted(m, (unsigned int)gpu);
		if (granted > bytes) {
			book_give_back(m, (unsigned int)gpu, granted - bytes);
			changed = true;
		}
		bytes -= min_u64(bytes, granted);
		last = m;
	}
	/* A living process is raised with the members that go on. */
	if (!last || !t->dead || !bytes)
		return changed;
	raise_used(last, (unsigned int)gpu_of(last->slice, uuid), bytes);
	return true;
}

bool book_compare(struct book_task *t, const uint8_t *uuid, uint64_t bytes)
{
	struct taken now;
	uint64_t overhead, least, most;
	bool changed = false;
	bool abandoned = false;

	if (bytes == BOOK_NOTHING)
		return compare_abandoned(t, uuid, bytes);
	bytes = min_u64(bytes, BOOK_GRANT_MAX);
	for (struct book_member *m = t->members; m; m = m->next_of_task) {
		int gpu = gpu_of(m->slice, uuid);

		if (gpu >= 0)
			m->gpus[gpu].physical = bytes;
		abandoned |= gpu >= 0 && m->abandoned;
	}
	if (!add_up(t, uuid, &now))
		return false;
	/* Of a replaced program first: what is left of it is not the new one's overhead. */
	if (abandoned)
		return compare_abandoned(t, uuid, bytes > now.used ? bytes - now.used : 0);
	if (!now.first)
		return false;
	overhead = now.used > now.charged ? now.used - now.charged : 0;
	least = bytes > now.seen ? bytes - now.seen : 0;
	/*
	 * What is in doubt is in the overhead or not. As it was is best: were it taken off now, it would
	 * be missing when the doubtful charges are released.
	 */
	most = bytes - min_u64(bytes, now.seen - min_u64(now.seen, now.doubtful));
	if (least > overhead) {
		/* More is charged than used where a page was spoiled: never count less than physical. */
		raise_used(now.first, (unsigned int)gpu_of(now.first->slice, uuid),
			least - overhead);
		changed = true;
	} else if (most < overhead) {
		changed = lower_overhead(t, uuid, overhead - most);
	}
	return changed;
}
