/* SPDX-License-Identifier: Apache-2.0 */

/* The table of slices, tasks and members. Pure; credit.c changes what is granted. */
#include "node/arbiter/grants/internal.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct grants_task **get_task_bucket(struct grants_table *table, uint32_t pid)
{
	return &table->buckets[pid % GRANTS_BUCKETS];
}

/* --- slices --- */

void grants_init(struct grants_table *table)
{
	*table = (struct grants_table){ .members = { .capacity = GRANTS_MEMBERS_MAX } };
}

struct grants_slice *grants_slice_find(const struct grants_table *table, const char *id)
{
	struct grants_slice *s = table->slices;

	while (s && strcmp(s->id, id) != 0)
		s = s->next;
	return s;
}

struct grants_slice *grants_slice_new(struct grants_table *table, const char *id,
	unsigned int n_gpus, const uint8_t uuids[][SLICE_UUID_BYTES], const uint64_t *limits)
{
	struct grants_slice *s;

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
	s->next = table->slices;
	table->slices = s;
	table->n_slices++;
	return s;
}

static void slice_remove(struct grants_table *table, struct grants_slice *s)
{
	struct grants_slice **at = &table->slices;

	if (table->removed)
		table->removed(table->arg, s);
	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	table->n_slices--;
	free(s);
}

void grants_slice_remove(struct grants_table *table, struct grants_slice *s)
{
	s->removed = true;
	if (!s->members)
		slice_remove(table, s);
}

/* --- members --- */

struct grants_task *grants_task_find(const struct grants_table *table, uint32_t pid,
	uint64_t start)
{
	struct grants_task *t = table->buckets[pid % GRANTS_BUCKETS];

	while (t && (t->pid != pid || t->start != start))
		t = t->next;
	return t;
}

struct grants_member *grants_member_find_serial(struct grants_slice *s, uint64_t serial)
{
	for (struct grants_member *m = s->members; m; m = m->next) {
		if (m->rec->serial == serial)
			return m;
	}
	return NULL;
}

bool grants_member_is_oldest(const struct grants_member *m)
{
	for (const struct grants_member *o = m->task->members; o; o = o->next_of_task) {
		if (o != m && o->slice == m->slice && o->rec->serial < m->rec->serial)
			return false;
	}
	return true;
}

/* FNV-1a over the fields that do not change. */
static uint64_t record_check(const struct grants_record *r)
{
	const unsigned char *at = (const unsigned char *)r +
				  offsetof(struct grants_record, pid),
			    *end = (const unsigned char *)r +
				   offsetof(struct grants_record, check);
	uint64_t h = UINT64_C(14695981039346656037);

	for (; at < end; at++)
		h = (h ^ *at) * UINT64_C(1099511628211);
	return h;
}

bool grants_record_is_valid(const struct grants_record *r)
{
	if (atomic_load_explicit(&r->state, memory_order_acquire) != GRANTS_RECORD_USED ||
		r->check != record_check(r))
		return false;
	if (!r->pid || !r->serial || r->gpu_count > SLICE_GPUS_MAX ||
		!memchr(r->slice, '\0', sizeof(r->slice)) ||
		!memchr(r->name, '\0', sizeof(r->name)))
		return false;
	for (unsigned int i = 0; i < r->gpu_count; i++) {
		if (atomic_load_explicit(&r->granted[i], memory_order_relaxed) >
			GRANTS_BYTES_MAX)
			return false;
	}
	return true;
}

void grants_record_fill(struct grants_record *r, const struct grants_slice *s,
	const struct grants_client *who, const struct slice_page *page)
{
	atomic_store_explicit(&r->state, GRANTS_RECORD_FREE, memory_order_seq_cst);
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
		atomic_store_explicit(&r->granted[i], min_u64(granted, GRANTS_BYTES_MAX),
			memory_order_relaxed);
	}
	atomic_store_explicit(&r->request_state, GRANTS_REQUEST_NONE, memory_order_relaxed);
	r->request_tag = r->request_gpu = 0;
	atomic_store_explicit(&r->retained, 0, memory_order_relaxed);
	r->request_bytes = r->granted_before = 0;
	r->check = record_check(r);
	/* From here on the next arbiter finds the record. */
	atomic_store_explicit(&r->state, GRANTS_RECORD_USED, memory_order_seq_cst);
}

struct grants_member *grants_restore(struct grants_table *table, struct grants_slice *s,
	struct grants_record *rec)
{
	struct grants_task *t = grants_task_find(table, rec->pid, rec->start);
	struct grants_member *m;

	if (table->members.n >= table->members.capacity ||
		s->n_members >= GRANTS_SLICE_MEMBERS_MAX ||
		(t && t->n_members >= GRANTS_TASK_MEMBERS_MAX))
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
		t->next = *get_task_bucket(table, rec->pid);
		*get_task_bucket(table, rec->pid) = t;
		table->n_tasks++;
	}
	m->slice = s;
	m->task = t;
	m->rec = rec;
	m->next_of_task = t->members;
	t->members = m;
	t->n_members++;
	*s->members_end = m;
	s->members_end = &m->next;
	fair_quota_add(&table->members, s->n_members++);
	for (unsigned int i = 0; i < s->n_gpus; i++) {
		uint64_t granted = grants_get_granted(m, i);

		m->gpus[i].physical = m->gpus[i].begun = GRANTS_UNKNOWN;
		m->gpus[i].most = granted;
		s->gpus[i].granted += granted;
		grants_publish_sole_member(s, i, NULL);
	}
	return m;
}

bool grants_has_capacity(const struct grants_table *table, const struct grants_slice *s)
{
	return s->n_members < GRANTS_SLICE_MEMBERS_MAX &&
	       fair_quota_allows(&table->members, s->n_members);
}

enum slice_status grants_register(struct grants_table *table, struct grants_slice *s,
	const struct grants_client *who, struct grants_record *rec, struct slice_page *page,
	struct grants_member **ret)
{
	struct grants_member *m;

	if (s->removed)
		return SLICE_GONE;
	if (!grants_has_capacity(table, s))
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
	grants_record_fill(rec, s, who, NULL);
	m = grants_restore(table, s, rec);
	if (!m) {
		atomic_store_explicit(&rec->state, GRANTS_RECORD_FREE, memory_order_seq_cst);
		return SLICE_TOO_MANY;
	}
	m->page = page;
	for (unsigned int i = 0; i < s->n_gpus; i++)
		grants_publish_sole_member(s, i, NULL);
	*ret = m;
	return SLICE_OK;
}

bool grants_page_matches(const struct grants_record *rec, const struct slice_page *page)
{
	return page->magic == SLICE_PAGE_MAGIC && page->version == SLICE_PAGE_VERSION &&
	       page->bytes == SLICE_PAGE_BYTES && page->serial == rec->serial &&
	       page->gpu_count == rec->gpu_count;
}

/* --- ends --- */

static void unlink_from_task(struct grants_table *table, struct grants_member *m)
{
	struct grants_task *t = m->task, **at = get_task_bucket(table, t->pid);
	struct grants_member **link = &t->members;

	while (*link != m)
		link = &(*link)->next_of_task;
	*link = m->next_of_task;
	if (--t->n_members > 0)
		return;
	if (table->ended)
		table->ended(table->arg, t);
	while (*at != t)
		at = &(*at)->next;
	*at = t->next;
	table->n_tasks--;
	free(t);
}

static void unlink_from_slice(struct grants_member *m)
{
	struct grants_slice *s = m->slice;
	struct grants_member **link = &s->members;

	while (*link && *link != m)
		link = &(*link)->next;
	*link = m->next;
	if (!m->next)
		s->members_end = link;
	s->n_members--;
}

void grants_member_drop(struct grants_table *table, struct grants_member *m)
{
	struct grants_slice *s = m->slice;

	for (unsigned int i = 0; i < s->n_gpus; i++) {
		(void)grants_slice_used(s, i); /* updates the slice's peak */
		grants_count_refused(m, i);
		s->gpus[i].granted -= grants_get_granted(m, i);
	}
	if (table->dropped)
		table->dropped(table->arg, m);
	atomic_store_explicit(&m->rec->state, GRANTS_RECORD_FREE, memory_order_seq_cst);
	fair_quota_remove(&table->members, s->n_members);
	unlink_from_slice(m);
	unlink_from_task(table, m);
	free(m);
	for (unsigned int i = 0; i < s->n_gpus; i++)
		grants_publish_sole_member(s, i, NULL);
	if (s->removed && !s->members)
		slice_remove(table, s);
}

void grants_task_remove(struct grants_table *table, struct grants_task *t)
{
	/* The task is freed with its last member. */
	for (unsigned int n = t->n_members; n > 0; n--)
		grants_member_drop(table, t->members);
}

void grants_member_abandon(struct grants_member *m)
{
	for (unsigned int i = 0; i < m->slice->n_gpus; i++)
		grants_update_peak(m, i);
	m->abandoned = true;
	m->reading_requested = false;
	m->missed = 0;
	atomic_store_explicit(&m->rec->retained, 0, memory_order_seq_cst);
}

bool grants_member_is_empty(const struct grants_member *m)
{
	for (unsigned int i = 0; i < m->slice->n_gpus; i++) {
		if (grants_get_granted(m, i))
			return false;
	}
	return true;
}

void grants_task_abandon(struct grants_task *t)
{
	t->dead = true;
	for (struct grants_member *m = t->members; m; m = m->next_of_task)
		grants_member_abandon(m);
}

bool grants_member_is_retained(const struct grants_member *m)
{
	return atomic_load_explicit(&m->rec->retained, memory_order_relaxed) != 0;
}

bool grants_slice_needs_reading(const struct grants_slice *s, unsigned int gpu)
{
	for (const struct grants_member *m = s->members; m; m = m->next) {
		if (m->abandoned && !grants_member_is_retained(m) && !m->missed &&
			grants_get_granted(m, gpu))
			return true;
	}
	return false;
}

static bool has_member_reading(const struct grants_member *m)
{
	for (unsigned int i = 0; i < m->slice->n_gpus; i++) {
		if (!m->gpus[i].read)
			return false;
	}
	return true;
}

/* Applies a reading to an abandoned member. */
static void check_abandoned_member(struct grants_table *table, struct grants_member *m)
{
	if (!has_member_reading(m)) {
		if (++m->missed >= GRANTS_MISSED_MAX && m->task->dead)
			grants_member_drop(table, m);
		return;
	}
	m->missed = 0;
	if (grants_member_is_empty(m))
		grants_member_drop(table, m);
	else
		atomic_store_explicit(&m->rec->retained, 1, memory_order_seq_cst);
}

void grants_compare_end(struct grants_table *table)
{
	struct grants_slice *next_slice;

	for (struct grants_slice *s = table->slices; s; s = next_slice) {
		struct grants_member *next;

		/* Dropping the last member frees a removed slice. */
		next_slice = s->next;
		for (struct grants_member *m = s->members; m; m = next) {
			next = m->next;
			if (m->abandoned && m->reading_requested)
				check_abandoned_member(table, m);
		}
	}
}

static bool needs_member_reading(const struct grants_task *t)
{
	for (const struct grants_member *m = t->members; t->dead && m; m = m->next_of_task) {
		if (!grants_member_is_retained(m))
			return true;
	}
	return false;
}

void grants_drop_dead_tasks(struct grants_table *table)
{
	for (unsigned int i = 0; i < GRANTS_BUCKETS; i++) {
		struct grants_task *next;

		for (struct grants_task *t = table->buckets[i]; t; t = next) {
			next = t->next;
			if (needs_member_reading(t))
				grants_task_remove(table, t);
		}
	}
}

void grants_fini(struct grants_table *table)
{
	for (unsigned int i = 0; i < GRANTS_BUCKETS; i++) {
		while (table->buckets[i]) {
			struct grants_task *t = table->buckets[i];

			table->buckets[i] = t->next;
			free(t);
		}
	}
	while (table->slices) {
		struct grants_slice *s = table->slices;

		table->slices = s->next;
		while (s->members) {
			struct grants_member *m = s->members;

			s->members = m->next;
			free(m);
		}
		free(s);
	}
	grants_init(table);
}
