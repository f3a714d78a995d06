/* SPDX-License-Identifier: Apache-2.0 */

/* Who is in which slice. Pure; what is granted is credit.c's. */
#include "node/arbiter/grants/internal.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct book_task **bucket_of(struct book *b, uint32_t pid)
{
	return &b->buckets[pid % BOOK_BUCKETS];
}

/* ---- slices ----------------------------------------------------------------------------------- */

void book_init(struct book *b)
{
	*b = (struct book){ .members = { .most = BOOK_MEMBERS_MAX } };
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

/* ---- members ---------------------------------------------------------------------------------- */

struct book_task *book_task_find(const struct book *b, uint32_t pid, uint64_t start)
{
	struct book_task *t = b->buckets[pid % BOOK_BUCKETS];

	while (t && (t->pid != pid || t->start != start))
		t = t->next;
	return t;
}

struct book_member *book_member_by_serial(struct book_slice *s, uint64_t serial)
{
	for (struct book_member *m = s->members; m; m = m->next) {
		if (m->rec->serial == serial)
			return m;
	}
	return NULL;
}

bool book_member_is_first(const struct book_member *m)
{
	for (const struct book_member *o = m->task->members; o; o = o->next_of_task) {
		if (o != m && o->slice == m->slice && o->rec->serial < m->rec->serial)
			return false;
	}
	return true;
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
	r->want_tag = r->want_gpu = 0;
	atomic_store_explicit(&r->kept, 0, memory_order_relaxed);
	r->want_bytes = r->want_before = 0;
	r->check = record_check(r);
	/* From here on an arbiter after this one would find it. */
	atomic_store_explicit(&r->state, BOOK_USED, memory_order_seq_cst);
}

struct book_member *book_restore(struct book *b, struct book_slice *s, struct book_record *rec)
{
	struct book_task *t = book_task_find(b, rec->pid, rec->start);
	struct book_member *m;

	if (b->members.n >= b->members.most || s->n_members >= BOOK_SLICE_MAX ||
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
	room_take(&b->members, s->n_members++);
	for (unsigned int i = 0; i < s->n_gpus; i++) {
		uint64_t granted = book_granted(m, i);

		m->gpus[i].physical = m->gpus[i].begun = BOOK_NOTHING;
		m->gpus[i].most = granted;
		s->gpus[i].granted += granted;
		book_tell_alone(s, i, NULL);
	}
	return m;
}

bool book_has_room(const struct book *b, const struct book_slice *s)
{
	return s->n_members < BOOK_SLICE_MAX && room_for(&b->members, s->n_members);
}

enum slice_status book_register(struct book *b, struct book_slice *s,
	const struct book_who *who, struct book_record *rec, struct slice_page *page,
	struct book_member **ret)
{
	struct book_member *m;

	if (s->gone)
		return SLICE_GONE;
	if (!book_has_room(b, s))
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
		book_tell_alone(s, i, NULL);
	*ret = m;
	return SLICE_OK;
}

bool book_page_matches(const struct book_record *rec, const struct slice_page *page)
{
	return page->magic == SLICE_PAGE_MAGIC && page->version == SLICE_PAGE_VERSION &&
	       page->bytes == SLICE_PAGE_BYTES && page->serial == rec->serial &&
	       page->gpu_count == rec->gpu_count;
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
		book_count_refused(m, i);
		s->gpus[i].granted -= book_granted(m, i);
	}
	if (b->dropped)
		b->dropped(b->arg, m);
	atomic_store_explicit(&m->rec->state, BOOK_FREE, memory_order_seq_cst);
	room_give(&b->members, s->n_members);
	unlink_from_slice(m);
	unlink_from_task(b, m);
	free(m);
	for (unsigned int i = 0; i < s->n_gpus; i++)
		book_tell_alone(s, i, NULL);
	if (s->gone && !s->members)
		slice_remove(b, s);
}

void book_task_gone(struct book *b, struct book_task *t)
{
	/* The task goes with its last member. */
	for (unsigned int n = t->n_members; n > 0; n--)
		book_member_drop(b, t->members);
}

void book_abandon(struct book_member *m)
{
	for (unsigned int i = 0; i < m->slice->n_gpus; i++)
		book_note_peak(m, i);
	m->abandoned = true;
	m->asked = false;
	m->missed = 0;
	atomic_store_explicit(&m->rec->kept, 0, memory_order_seq_cst);
}

bool book_has_nothing(const struct book_member *m)
{
	for (unsigned int i = 0; i < m->slice->n_gpus; i++) {
		if (book_granted(m, i))
			return false;
	}
	return true;
}

void book_task_dead(struct book_task *t)
{
	t->dead = true;
	for (struct book_member *m = t->members; m; m = m->next_of_task)
		book_abandon(m);
}

bool book_is_kept(const struct book_member *m)
{
	return atomic_load_explicit(&m->rec->kept, memory_order_relaxed) != 0;
}

bool book_slice_awaits(const struct book_slice *s, unsigned int gpu)
{
	for (const struct book_member *m = s->members; m; m = m->next) {
		if (m->abandoned && !book_is_kept(m) && !m->missed && book_granted(m, gpu))
			return true;
	}
	return false;
}

static bool was_read(const struct book_member *m)
{
	for (unsigned int i = 0; i < m->slice->n_gpus; i++) {
		if (!m->gpus[i].read)
			return false;
	}
	return true;
}

/* What a reading makes of an abandoned member. */
static void judge(struct book *b, struct book_member *m)
{
	if (!was_read(m)) {
		if (++m->missed >= BOOK_MISSED_MAX && m->task->dead)
			book_member_drop(b, m);
		return;
	}
	m->missed = 0;
	if (book_has_nothing(m))
		book_member_drop(b, m);
	else
		atomic_store_explicit(&m->rec->kept, 1, memory_order_seq_cst);
}

void book_compared(struct book *b)
{
	struct book_slice *next_slice;

	for (struct book_slice *s = b->slices; s; s = next_slice) {
		struct book_member *next;

		/* A slice that is gone goes with its last member. */
		next_slice = s->next;
		for (struct book_member *m = s->members; m; m = next) {
			next = m->next;
			if (m->abandoned && m->asked)
				judge(b, m);
		}
	}
}

static bool waits_for_reading(const struct book_task *t)
{
	for (const struct book_member *m = t->members; t->dead && m; m = m->next_of_task) {
		if (!book_is_kept(m))
			return true;
	}
	return false;
}

void book_give_up(struct book *b)
{
	for (unsigned int i = 0; i < BOOK_BUCKETS; i++) {
		struct book_task *next;

		for (struct book_task *t = b->buckets[i]; t; t = next) {
			next = t->next;
			if (waits_for_reading(t))
				book_task_gone(b, t);
		}
	}
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
