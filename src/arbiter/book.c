/* SPDX-License-Identifier: Apache-2.0 */
#include "arbiter/book.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static struct book_task **bucket_of(struct book *b, uint32_t pid)
{
	return &b->buckets[pid % BOOK_BUCKETS];
}

/* ---- figures ---------------------------------------------------------------------------------- */

uint64_t book_granted(const struct book_member *m, unsigned int gpu)
{
	return atomic_load_explicit(&m->rec->granted[gpu], memory_order_relaxed);
}

/* Unused, and no more than was granted whatever the page says. */
static uint64_t credit_of(const struct book_member *m, unsigned int gpu)
{
	if (!m->page || m->execed)
		return 0;
	return min_u64(atomic_load_explicit(&m->page->gpus[gpu].credit, memory_order_acquire),
		book_granted(m, gpu));
}

uint64_t book_used(const struct book_member *m, unsigned int gpu)
{
	return book_granted(m, gpu) - credit_of(m, gpu);
}

static uint64_t charged_by_hooks(const struct book_member *m, unsigned int gpu, bool seen_only)
{
	const struct slice_gpu_page *p = &m->page->gpus[gpu];
	uint64_t seen =
		min_u64(atomic_load_explicit(&p->seen, memory_order_acquire), BOOK_GRANT_MAX);
	uint64_t unseen =
		min_u64(atomic_load_explicit(&p->unseen, memory_order_acquire), BOOK_GRANT_MAX);

	return seen_only ? seen : seen + unseen;
}

/* Of what hooks charged as seen: at most so much may not be there (abi/slice-page.h). */
static uint64_t doubtful(const struct book_member *m, unsigned int gpu)
{
	const struct slice_gpu_page *p = &m->page->gpus[gpu];
	uint64_t in = min_u64(atomic_load_explicit(&p->packed_in, memory_order_acquire),
		charged_by_hooks(m, gpu, true));
	uint64_t least = min_u64(atomic_load_explicit(&p->packed, memory_order_acquire), in);

	least = (least + SLICE_GRANULE - 1) / SLICE_GRANULE * SLICE_GRANULE;
	return in > least ? in - least : 0;
}

uint64_t book_overhead(const struct book_member *m, unsigned int gpu)
{
	uint64_t used = book_used(m, gpu), charged;

	if (!m->page || m->execed)
		return 0;
	charged = charged_by_hooks(m, gpu, false);
	return used > charged ? used - charged : 0;
}

static void note_peak(struct book_member *m, unsigned int gpu)
{
	uint64_t peak = book_used(m, gpu);

	if (m->page && !m->execed)
		peak = max_u64(peak,
			atomic_load_explicit(&m->page->gpus[gpu].peak, memory_order_relaxed));
	/* No more was ever used than was granted, whatever the page says. */
	peak = min_u64(peak, m->gpus[gpu].most);
	m->gpus[gpu].peak = max_u64(m->gpus[gpu].peak, peak);
}

uint64_t book_peak(struct book_member *m, unsigned int gpu)
{
	note_peak(m, gpu);
	return m->gpus[gpu].peak;
}

uint64_t book_slice_used(struct book_slice *s, unsigned int gpu)
{
	uint64_t used = s->gpus[gpu].unhooked;

	for (struct book_member *m = s->members; m; m = m->next) {
		used += book_used(m, gpu);
		note_peak(m, gpu);
		s->gpus[gpu].peak = max_u64(s->gpus[gpu].peak, m->gpus[gpu].peak);
	}
	s->gpus[gpu].peak = max_u64(s->gpus[gpu].peak, used);
	return used;
}

uint64_t book_slice_free(struct book_slice *s, unsigned int gpu)
{
	uint64_t limit = s->gpus[gpu].limit, used = book_slice_used(s, gpu);

	if (limit == SLICE_NO_LIMIT)
		return SLICE_NO_LIMIT;
	return limit > used ? limit - used : 0;
}

bool book_slice_over(const struct book_slice *s, unsigned int gpu)
{
	const struct book_gpu *g = &s->gpus[gpu];

	return g->limit != SLICE_NO_LIMIT && g->granted + g->unhooked > g->limit;
}

/* Of the limit, not granted to anyone. */
static uint64_t room_of(const struct book_slice *s, unsigned int gpu)
{
	const struct book_gpu *g = &s->gpus[gpu];
	uint64_t limit = min_u64(g->limit, BOOK_GRANT_MAX), taken = g->granted + g->unhooked;

	return limit > taken ? limit - taken : 0;
}

/* ---- the only places that change what is granted ---------------------------------------------- */

static void set_record(struct book_member *m, unsigned int gpu, uint64_t granted)
{
	struct book_gpu *g = &m->slice->gpus[gpu];

	g->granted = g->granted - book_granted(m, gpu) + granted;
	/* Nobody reads it but an arbiter after this one. In this order to the page's stores. */
	atomic_store_explicit(&m->rec->granted[gpu], granted, memory_order_seq_cst);
	m->gpus[gpu].most = max_u64(m->gpus[gpu].most, granted);
}

static uint32_t page_begin(struct slice_gpu_page *p)
{
	uint32_t odd = atomic_load_explicit(&p->seq, memory_order_relaxed) | 1;

	/* Pairs with the process that reads .seq, both values, and .seq again. */
	atomic_store_explicit(&p->seq, odd, memory_order_seq_cst);
	atomic_thread_fence(memory_order_seq_cst);
	return odd;
}

static void page_end(struct slice_gpu_page *p, uint32_t odd)
{
	atomic_thread_fence(memory_order_seq_cst);
	atomic_store_explicit(&p->seq, odd + 1, memory_order_seq_cst);
}

/* @used and @credit more for the member. */
static void grant(struct book_member *m, unsigned int gpu, uint64_t used, uint64_t credit)
{
	uint64_t granted = book_granted(m, gpu) + used + credit;

	set_record(m, gpu, granted);
	if (m->page && !m->execed) {
		struct slice_gpu_page *p = &m->page->gpus[gpu];
		uint32_t odd = page_begin(p);

		atomic_store_explicit(&p->granted, granted, memory_order_seq_cst);
		if (credit)
			atomic_fetch_add_explicit(&p->credit, credit, memory_order_seq_cst);
		page_end(p, odd);
	}
}

/* Takes up to @bytes of unused credit. Returns how much it was. */
static uint64_t reclaim(struct book_member *m, unsigned int gpu, uint64_t bytes)
{
	struct slice_gpu_page *p;
	uint64_t credit, take = 0, granted;
	bool taken = false;
	uint32_t odd;

	if (!bytes || !credit_of(m, gpu))
		return 0;
	p = &m->page->gpus[gpu];
	granted = book_granted(m, gpu);
	odd = page_begin(p);
	credit = atomic_load_explicit(&p->credit, memory_order_acquire);
	for (int i = 0; i < BOOK_CAS_TRIES && !taken; i++) {
		take = min_u64(min_u64(credit, granted), bytes);
		if (!take)
			break;
		/* What was never granted is no credit: a spoiled word is put right. */
		taken = atomic_compare_exchange_strong_explicit(&p->credit, &credit,
			min_u64(credit, granted) - take, memory_order_seq_cst,
			memory_order_acquire);
	}
	if (taken)
		atomic_store_explicit(&p->granted, granted - take, memory_order_seq_cst);
	page_end(p, odd);
	if (!taken)
		return 0;
	set_record(m, gpu, granted - take);
	return take;
}

/* Lowers what is granted by @bytes that are in use by the figures, but not in truth. */
static void give_back_used(struct book_member *m, unsigned int gpu, uint64_t bytes)
{
	uint64_t granted = book_granted(m, gpu);

	bytes = min_u64(bytes, granted);
	if (m->page && !m->execed) {
		struct slice_gpu_page *p = &m->page->gpus[gpu];
		uint32_t odd = page_begin(p);

		atomic_store_explicit(&p->granted, granted - bytes, memory_order_seq_cst);
		page_end(p, odd);
	}
	set_record(m, gpu, granted - bytes);
}

/* The largest unused credit of the slice but for @not's, and whose it is. */
static struct book_member *richest(struct book_slice *s, unsigned int gpu,
	const struct book_member * not )
{
	struct book_member *best = NULL;
	uint64_t most = 0;

	for (struct book_member *m = s->members; m; m = m->next) {
		uint64_t credit = m == not ? 0 : credit_of(m, gpu);

		if (credit > most) {
			most = credit;
			best = m;
		}
	}
	return best;
}

/* Until @bytes can be granted or nothing is left to be taken back. @own: may be taken from last. */
static void make_room(struct book_slice *s, unsigned int gpu, uint64_t bytes,
	struct book_member *own, bool from_own)
{
	/* Each round empties one member or ends; a process that always has new credit ends it too. */
	for (unsigned int i = 0; i < 2 * s->n_members && room_of(s, gpu) < bytes; i++) {
		struct book_member *m = richest(s, gpu, own);

		if (!m)
			break;
		(void)reclaim(m, gpu, bytes - room_of(s, gpu));
	}
	if (own && from_own && room_of(s, gpu) < bytes)
		(void)reclaim(own, gpu, bytes - room_of(s, gpu));
}

/* Tells each page whether its member has the GPU's slice for itself. @next will be granted more. */
static void tell_alone(struct book_slice *s, unsigned int gpu, const struct book_member *next)
{
	const struct book_member *one = next;
	unsigned int n = next ? 1 : 0;

	for (const struct book_member *m = s->members; m; m = m->next) {
		if (m != next && book_granted(m, gpu)) {
			n++;
			one = m;
		}
	}
	for (struct book_member *m = s->members; m; m = m->next) {
		/* Also one that has nothing yet: it is alone if all others have nothing either. */
		bool alone = !s->gpus[gpu].unhooked && (n == 0 || (n == 1 && one == m));

		if (m->page && !m->execed)
			atomic_store_explicit(&m->page->gpus[gpu].alone, alone,
				memory_order_seq_cst);
	}
}

/* ---- slices ----------------------------------------------------------------------------------- */

void book_init(struct book *b)
{
	memset(b, 0, sizeof(*b));
}

struct book_slice *book_slice_find(const struct book *b, const char *id)
{
	struct book_slice *s = b->slices;

	while (s && strcmp(s->id, id) != 0)
		s = s->next;
	return s;
}

struct book_slice *book_slice_new(struct book *b, const char *id, unsigned int n_gpus,
	const uint8_t uuids[][SLICE_UUID_BYTES], const uint64_t *limits)
{
	struct book_slice *s;

	if (n_gpus > SLICE_GPUS_MAX || strlen(id) >= SLICE_ID_MAX)
		return NULL;
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	memcpy(s->id, id, strlen(id) + 1);
	s->n_gpus = n_gpus;
	s->members_end = &s->members;
	for (unsigned int i = 0; i < n_gpus; i++) {
		memcpy(s->gpus[i].uuid, uuids[i], SLICE_UUID_BYTES);
		s->gpus[i].limit = limits[i];
	}
	s->next = b->slices;
	b->slices = s;
	b->n_slices++;
	return s;
}

static void slice_remove(struct book *b, struct book_slice *s)
{
	struct book_slice **at = &b->slices;

	if (b->removed)
		b->removed(b->arg, s);
	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	b->n_slices--;
	free(s);
}

void book_slice_gone(struct book *b, struct book_slice *s)
{
	s->gone = true;
	if (!s->members)
		slice_remove(b, s);
}

/* What is granted above the limit and not used is taken back. */
static void shrink(struct book_slice *s, unsigned int gpu)
{
	struct book_gpu *g = &s->gpus[gpu];

	for (unsigned int i = 0; i < 2 * s->n_members && book_slice_over(s, gpu); i++) {
		struct book_member *m = richest(s, gpu, NULL);

		if (!m)
			break;
		(void)reclaim(m, gpu, g->granted + g->unhooked - g->limit);
	}
}

void book_shrink(struct book *b)
{
	for (struct book_slice *s = b->slices; s; s = s->next) {
		for (unsigned int i = 0; i < s->n_gpus; i++)
			shrink(s, i);
	}
}

void book_slice_limit(struct book_slice *s, unsigned int gpu, uint64_t limit)
{
	s->gpus[gpu].limit = limit;
	shrink(s, gpu);
	for (struct book_member *m = s->members; m; m = m->next) {
		if (m->page)
			atomic_store_explicit(&m->page->gpus[gpu].limit, limit,
				memory_order_seq_cst);
	}
}

void book_slice_unhooked(struct book_slice *s, unsigned int gpu, uint64_t bytes)
{
	bool some = s->gpus[gpu].unhooked > 0;

	s->gpus[gpu].unhooked = min_u64(bytes, BOOK_GRANT_MAX);
	shrink(s, gpu);
	if (some != (bytes > 0))
		tell_alone(s, gpu, NULL);
}

/* ---- members ---------------------------------------------------------------------------------- */

struct book_task *book_task_find(const struct book *b, uint32_t pid, uint64_t start)
{
	struct book_task *t = b->buckets[pid % BOOK_BUCKETS];

	while (t && (t->pid != pid || t->start != start))
		t = t->next;
	return t;
}

struct book_task *book_task_by_pid(const struct book *b, uint32_t pid)
{
	struct book_task *best = NULL;

	for (struct book_task *t = b->buckets[pid % BOOK_BUCKETS]; t; t = t->next) {
		if (t->pid == pid && (!best || t->start > best->start))
			best = t;
	}
	return best;
}

/* FNV-1a over the fields that do not change. */
static uint64_t record_check(const struct book_record *r)
{
	const unsigned char *at = (const unsigned char *)r + offsetof(struct book_record, pid),
			    *end = (const unsigned char *)r +
				   offsetof(struct book_record, check);
	uint64_t h = UINT64_C(14695981039346656037);

	for (; at < end; at++)
		h = (h ^ *at) * UINT64_C(1099511628211);
	return h;
}

bool book_record_valid(const struct book_record *r)
{
	if (atomic_load_explicit(&r->state, memory_order_acquire) != BOOK_USED ||
		r->check != record_check(r))
		return false;
	if (!r->pid || !r->serial || r->gpu_count > SLICE_GPUS_MAX ||
		!memchr(r->slice, '\0', sizeof(r->slice)) ||
		!memchr(r->name, '\0', sizeof(r->name)))
		return false;
	for (unsigned int i = 0; i < r->gpu_count; i++) {
		if (atomic_load_explicit(&r->granted[i], memory_order_relaxed) > BOOK_GRANT_MAX)
			return false;
	}
	return true;
}

void book_record_fill(struct book_record *r, const struct book_slice *s,
	const struct book_who *who, const struct slice_page *page)
{
	atomic_store_explicit(&r->state, BOOK_FREE, memory_order_seq_cst);
	r->pid = who->pid;
	r->start = who->start;
	r->serial = who->serial;
	r->ns_pid = who->ns_pid;
	r->image = who->image;
	r->gpu_count = s->n_gpus;
	memset(r->slice, 0, sizeof(r->slice));
	memcpy(r->slice, s->id, strlen(s->id));
	memset(r->name, 0, sizeof(r->name));
	(void)snprintf(r->name, sizeof(r->name), "%s", who->name);
	memset(r->uuids, 0, sizeof(r->uuids));
	for (unsigned int i = 0; i < SLICE_GPUS_MAX; i++) {
		uint64_t granted = 0;

		if (i < s->n_gpus)
			memcpy(r->uuids[i], s->gpus[i].uuid, SLICE_UUID_BYTES);
		if (i < s->n_gpus && page)
			granted = atomic_load_explicit(&page->gpus[i].granted,
				memory_order_acquire);
		atomic_store_explicit(&r->granted[i], min_u64(granted, BOOK_GRANT_MAX),
			memory_order_relaxed);
	}
	atomic_store_explicit(&r->want_state, BOOK_WANT_NONE, memory_order_relaxed);
	r->want_tag = r->want_gpu = r->unused = 0;
	r->want_bytes = r->want_before = 0;
	r->check = record_check(r);
	/* From here on an arbiter after this one would find it. */
	atomic_store_explicit(&r->state, BOOK_USED, memory_order_seq_cst);
}

struct book_member *book_restore(struct book *b, struct book_slice *s, struct book_record *rec)
{
	struct book_task *t = book_task_find(b, rec->pid, rec->start);
	struct book_member *m;

	if (b->n_members >= BOOK_MEMBERS_MAX || s->n_members >= BOOK_SLICE_MAX ||
		(t && t->n_members >= BOOK_TASK_MAX))
		return NULL;
	m = calloc(1, sizeof(*m));
	if (!m)
		return NULL;
	if (!t) {
		t = calloc(1, sizeof(*t));
		if (!t) {
			free(m);
			return NULL;
		}
		t->pid = rec->pid;
		t->start = rec->start;
		t->next = *bucket_of(b, rec->pid);
		*bucket_of(b, rec->pid) = t;
		b->n_tasks++;
	}
	m->slice = s;
	m->task = t;
	m->rec = rec;
	m->next_of_task = t->members;
	t->members = m;
	t->n_members++;
	*s->members_end = m;
	s->members_end = &m->next;
	s->n_members++;
	b->n_members++;
	for (unsigned int i = 0; i < s->n_gpus; i++) {
		uint64_t granted = book_granted(m, i);

		m->gpus[i].physical = m->gpus[i].begun = BOOK_NOTHING;
		m->gpus[i].most = granted;
		s->gpus[i].granted += granted;
		tell_alone(s, i, NULL);
	}
	return m;
}

enum slice_status book_register(struct book *b, struct book_slice *s,
	const struct book_who *who, struct book_record *rec, struct slice_page *page,
	struct book_member **ret)
{
	struct book_member *m;

	if (s->gone)
		return SLICE_GONE;
	if (b->n_members >= BOOK_MEMBERS_MAX || s->n_members >= BOOK_SLICE_MAX)
		return SLICE_TOO_MANY;
	memset(page, 0, sizeof(*page));
	page->magic = SLICE_PAGE_MAGIC;
	page->version = SLICE_PAGE_VERSION;
	page->bytes = SLICE_PAGE_BYTES;
	page->gpu_count = s->n_gpus;
	page->serial = who->serial;
	for (unsigned int i = 0; i < s->n_gpus; i++) {
		memcpy(page->gpus[i].uuid, s->gpus[i].uuid, SLICE_UUID_BYTES);
		atomic_store_explicit(&page->gpus[i].limit, s->gpus[i].limit,
			memory_order_relaxed);
	}
	book_record_fill(rec, s, who, NULL);
	m = book_restore(b, s, rec);
	if (!m) {
		atomic_store_explicit(&rec->state, BOOK_FREE, memory_order_seq_cst);
		return SLICE_TOO_MANY;
	}
	m->page = page;
	for (unsigned int i = 0; i < s->n_gpus; i++)
		tell_alone(s, i, NULL);
	*ret = m;
	return SLICE_OK;
}

bool book_page_matches(const struct book_record *rec, const struct slice_page *page)
{
	return page->magic == SLICE_PAGE_MAGIC && page->version == SLICE_PAGE_VERSION &&
	       page->bytes == SLICE_PAGE_BYTES && page->serial == rec->serial &&
	       page->gpu_count == rec->gpu_count;
}

void book_adopt(struct book_member *m, struct slice_page *page)
{
	struct book_slice *s = m->slice;
	uint32_t want = atomic_load_explicit(&m->rec->want_state, memory_order_acquire);

	m->page = page;
	for (unsigned int i = 0; i < s->n_gpus; i++) {
		struct slice_gpu_page *p = &page->gpus[i];
		uint64_t granted = atomic_load_explicit(&p->granted, memory_order_acquire);
		uint32_t odd = page_begin(p);

		/*
		 * The record is never behind, so a difference is a change that had not reached the
		 * page, or had left it already. A page that says more was spoiled.
		 */
		if (granted < book_granted(m, i))
			set_record(m, i, granted);
		atomic_store_explicit(&p->granted, book_granted(m, i), memory_order_seq_cst);
		atomic_store_explicit(&p->limit, s->gpus[i].limit, memory_order_seq_cst);
		page_end(p, odd);
		m->gpus[i].begun = BOOK_NOTHING;
	}
	if (want == BOOK_WANT_BEGUN) {
		unsigned int gpu = m->rec->want_gpu;
		bool done = gpu < s->n_gpus && book_granted(m, gpu) != m->rec->want_before;

		atomic_store_explicit(&m->rec->want_state,
			done ? BOOK_WANT_DONE : BOOK_WANT_NONE, memory_order_seq_cst);
	}
	for (unsigned int i = 0; i < s->n_gpus; i++) {
		shrink(s, i);
		tell_alone(s, i, NULL);
	}
}

void book_unanswered(struct book_member *m, uint32_t tag)
{
	struct book_record *r = m->rec;
	unsigned int gpu = r->want_gpu;
	struct slice_gpu_page *p;
	uint64_t back;
	uint32_t odd;

	if (atomic_load_explicit(&r->want_state, memory_order_acquire) != BOOK_WANT_DONE ||
		r->want_tag != tag || gpu >= m->slice->n_gpus || !m->page || m->execed)
		return;
	atomic_store_explicit(&r->want_state, BOOK_WANT_NONE, memory_order_seq_cst);
	back = min_u64(r->want_bytes, book_used(m, gpu));
	p = &m->page->gpus[gpu];
	odd = page_begin(p);
	atomic_fetch_add_explicit(&p->credit, back, memory_order_seq_cst);
	page_end(p, odd);
	shrink(m->slice, gpu);
}

/* Written before anything changes, so that an arbiter after this one knows what was under way. */
static void want_begin(struct book_member *m, unsigned int gpu, uint64_t bytes, uint32_t tag)
{
	struct book_record *r = m->rec;

	atomic_store_explicit(&r->want_state, BOOK_WANT_NONE, memory_order_seq_cst);
	r->want_tag = tag;
	r->want_gpu = gpu;
	r->want_bytes = bytes;
	r->want_before = book_granted(m, gpu);
	atomic_store_explicit(&r->want_state, BOOK_WANT_BEGUN, memory_order_seq_cst);
}

enum slice_status book_want(struct book_member *m, unsigned int gpu, uint64_t bytes,
	uint32_t tag, uint64_t *ret_free)
{
	struct book_slice *s = m->slice;
	enum slice_status status = SLICE_NO_ROOM;
	uint64_t left = book_slice_free(s, gpu), extra;

	left = min_u64(left, BOOK_GRANT_MAX);
	/* Without a page there is nowhere to put it. An unhooked neighbour can use more than the limit. */
	if (m->page && !m->execed && bytes <= left) {
		extra = min_u64((left - bytes) / BOOK_EXTRA_PART, BOOK_EXTRA_MAX);
		make_room(s, gpu, bytes + extra, m, false);
		make_room(s, gpu, bytes, m, true);
		if (room_of(s, gpu) >= bytes) {
			extra = min_u64(extra, room_of(s, gpu) - bytes);
			tell_alone(s, gpu, m);
			want_begin(m, gpu, bytes, tag);
			grant(m, gpu, bytes, extra);
			atomic_store_explicit(&m->rec->want_state, BOOK_WANT_DONE,
				memory_order_seq_cst);
			note_peak(m, gpu);
			status = SLICE_OK;
		}
	}
	if (ret_free)
		*ret_free = book_slice_free(s, gpu);
	return status;
}

/* ---- ends ------------------------------------------------------------------------------------- */

static void unlink_from_task(struct book *b, struct book_member *m)
{
	struct book_task *t = m->task, **at = bucket_of(b, t->pid);
	struct book_member **link = &t->members;

	while (*link != m)
		link = &(*link)->next_of_task;
	*link = m->next_of_task;
	if (--t->n_members > 0)
		return;
	if (b->ended)
		b->ended(b->arg, t);
	while (*at != t)
		at = &(*at)->next;
	*at = t->next;
	b->n_tasks--;
	free(t);
}

static void unlink_from_slice(struct book_member *m)
{
	struct book_slice *s = m->slice;
	struct book_member **link = &s->members;

	while (*link && *link != m)
		link = &(*link)->next;
	*link = m->next;
	if (!m->next)
		s->members_end = link;
	s->n_members--;
}

void book_member_drop(struct book *b, struct book_member *m)
{
	struct book_slice *s = m->slice;

	for (unsigned int i = 0; i < s->n_gpus; i++) {
		(void)book_slice_used(s, i); /* the last look at its peak */
		s->gpus[i].granted -= book_granted(m, i);
	}
	if (b->dropped)
		b->dropped(b->arg, m);
	atomic_store_explicit(&m->rec->state, BOOK_FREE, memory_order_seq_cst);
	unlink_from_slice(m);
	unlink_from_task(b, m);
	b->n_members--;
	free(m);
	for (unsigned int i = 0; i < s->n_gpus; i++)
		tell_alone(s, i, NULL);
	if (s->gone && !s->members)
		slice_remove(b, s);
}

void book_task_gone(struct book *b, struct book_task *t)
{
	/* The task goes with its last member. */
	for (unsigned int n = t->n_members; n > 0; n--)
		book_member_drop(b, t->members);
}

void book_execed(struct book_member *m)
{
	for (unsigned int i = 0; i < m->slice->n_gpus; i++)
		note_peak(m, i);
	m->execed = true;
}

void book_fini(struct book *b)
{
	for (unsigned int i = 0; i < BOOK_BUCKETS; i++) {
		while (b->buckets[i]) {
			struct book_task *t = b->buckets[i];

			b->buckets[i] = t->next;
			free(t);
		}
	}
	while (b->slices) {
		struct book_slice *s = b->slices;

		b->slices = s->next;
		while (s->members) {
			struct book_member *m = s->members;

			s->members = m->next;
			free(m);
		}
		free(s);
	}
	book_init(b);
}

/* ---- what NVML says --------------------------------------------------------------------------- */

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
			for (unsigned int i = 0; i < s->n_gpus; i++)
				m->gpus[i].begun = quiet_at(m, i);
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

		if (gpu < 0 || m->execed)
			continue;
		if (quiet_at(m, (unsigned int)gpu) == BOOK_NOTHING ||
			quiet_at(m, (unsigned int)gpu) != m->gpus[gpu].begun)
			return false;
		ret->used += book_used(m, (unsigned int)gpu);
		ret->charged += charged_by_hooks(m, (unsigned int)gpu, false);
		ret->seen += charged_by_hooks(m, (unsigned int)gpu, true);
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
	make_room(m->slice, gpu, bytes, m, true);
	tell_alone(m->slice, gpu, m);
	grant(m, gpu, bytes, 0);
	(void)book_slice_used(m->slice, gpu);
}

static bool lower_overhead(struct book_task *t, const uint8_t *uuid, uint64_t bytes)
{
	uint64_t left = bytes;

	for (struct book_member *m = t->members; m && left; m = m->next_of_task) {
		int gpu = gpu_of(m->slice, uuid);
		uint64_t part;

		if (gpu < 0 || m->execed)
			continue;
		part = min_u64(book_overhead(m, (unsigned int)gpu), left);
		if (part)
			give_back_used(m, (unsigned int)gpu, part);
		left -= part;
	}
	return left != bytes;
}

/* What members of a program that is no more have: all of the process that the others do not. */
static bool compare_execed(struct book *b, struct book_task *t, const uint8_t *uuid,
	uint64_t bytes)
{
	struct book_member *next;
	bool changed = false;
	unsigned int n = t->n_members;

	for (struct book_member *m = t->members; m && n > 0; m = next, n--) {
		int gpu = gpu_of(m->slice, uuid);
		uint64_t granted, all = 0;

		next = m->next_of_task;
		if (gpu < 0 || !m->execed)
			continue;
		granted = book_granted(m, (unsigned int)gpu);
		if (granted > bytes) {
			give_back_used(m, (unsigned int)gpu, granted - bytes);
			changed = true;
		}
		bytes -= min_u64(bytes, granted);
		for (unsigned int i = 0; i < m->slice->n_gpus; i++)
			all += book_granted(m, i);
		if (!all) {
			book_member_drop(b, m);
			changed = true;
		}
	}
	return changed;
}

bool book_compare(struct book *b, struct book_task *t, const uint8_t *uuid, uint64_t bytes)
{
	struct taken now;
	uint64_t overhead, least, most;
	bool changed = false;
	bool execed = false;

	bytes = min_u64(bytes, BOOK_GRANT_MAX);
	for (struct book_member *m = t->members; m; m = m->next_of_task) {
		int gpu = gpu_of(m->slice, uuid);

		if (gpu >= 0)
			m->gpus[gpu].physical = bytes;
		execed |= gpu >= 0 && m->execed;
	}
	if (!add_up(t, uuid, &now))
		return false;
	/* Of a replaced program first: what is left of it is not the new one's overhead. */
	if (execed)
		return compare_execed(b, t, uuid, bytes > now.used ? bytes - now.used : 0);
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
