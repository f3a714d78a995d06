/* SPDX-License-Identifier: Apache-2.0 */
#include "container/charges/rows.h"

#include "container/sys.h"
#include "container/client/warn.h"
#include "container/client/wiped.h"

#include <string.h>

/* Open addressing with linear probing; a removed row's followers move up, so there are no tombs. */
#define SHARDS    64
#define FIRST_LEN 64 /* slots of a shard's first table: below one page */

struct slot {
	uint64_t key;
	uint32_t kind; /* ROW_FREE: empty */
	uint32_t unused;
	struct row row;
};

struct shard {
	_Alignas(64) struct sys_lock lock; /* guards what follows */
	uint32_t used, len;                /* len: a power of two, or 0 */
	struct slot *slots;
};

struct table {
	struct shard shards[SHARDS];
};

static _Atomic(void *) root;

static struct table *table_get(void)
{
	struct table *t = wiped_get(&root, sizeof(*t));

	if (!t)
		warn_once(WARN_NO_ROOM_FOR_ROWS, "no memory for the table of allocations");
	return t;
}

/* Multiply and fold; keys are addresses, whose low bits are zero. */
static uint64_t hash(enum row_kind kind, uint64_t key)
{
	uint64_t h = (key ^ ((uint64_t)kind << 56)) * UINT64_C(0x9E3779B97F4A7C15);

	return h ^ (h >> 29);
}

static struct shard *shard_of(struct table *t, enum row_kind kind, uint64_t key)
{
	return &t->shards[hash(kind, key) >> 58];
}

/* Where the key is, or the empty slot where it would be. The table is never full. */
static struct slot *find(const struct shard *s, enum row_kind kind, uint64_t key)
{
	uint32_t i = (uint32_t)hash(kind, key) & (s->len - 1);

	while (s->slots[i].kind != ROW_FREE &&
		(s->slots[i].key != key || s->slots[i].kind != (uint32_t)kind))
		i = (i + 1) & (s->len - 1);
	return &s->slots[i];
}

static bool grow(struct shard *s)
{
	struct shard bigger = { .len = s->len ? 2 * s->len : FIRST_LEN };

	bigger.slots = wiped_map(bigger.len * sizeof(struct slot));
	if (!bigger.slots) {
		warn_once(WARN_NO_ROOM_FOR_ROWS, "no memory for the table of allocations");
		return false;
	}
	for (uint32_t i = 0; i < s->len; i++)
		if (s->slots[i].kind != ROW_FREE)
			*find(&bigger, s->slots[i].kind, s->slots[i].key) = s->slots[i];
	if (s->slots)
		wiped_unmap(s->slots, s->len * sizeof(struct slot));
	s->slots = bigger.slots;
	s->len = bigger.len;
	return true;
}

/* The slot to put a row of this key into; NULL: no memory. */
static struct slot *place(struct shard *s, enum row_kind kind, uint64_t key)
{
	struct slot *slot;

	if (4 * (uint64_t)(s->used + 1) > 3 * (uint64_t)s->len && !grow(s))
		return NULL;
	slot = find(s, kind, key);
	if (slot->kind == ROW_FREE) {
		s->used++;
		slot->kind = kind;
		slot->key = key;
	}
	return slot;
}

static struct slot *look(const struct shard *s, enum row_kind kind, uint64_t key)
{
	struct slot *slot = s->len ? find(s, kind, key) : NULL;

	return slot && slot->kind != ROW_FREE ? slot : NULL;
}

static void erase(struct shard *s, struct slot *slot)
{
	uint32_t mask = s->len - 1, hole = (uint32_t)(slot - s->slots);

	for (uint32_t i = (hole + 1) & mask; s->slots[i].kind != ROW_FREE; i = (i + 1) & mask) {
		uint32_t home = (uint32_t)hash(s->slots[i].kind, s->slots[i].key) & mask;

		/* May it move up: is the hole on its way from home. */
		if (((i - home) & mask) >= ((i - hole) & mask)) {
			s->slots[hole] = s->slots[i];
			hole = i;
		}
	}
	s->slots[hole] = (struct slot){ .kind = ROW_FREE };
	s->used--;
}

bool row_put(enum row_kind kind, uint64_t key, const struct row *row)
{
	struct table *t = table_get();
	struct shard *s = t ? shard_of(t, kind, key) : NULL;
	struct slot *slot;

	if (!s)
		return false;
	sys_lock(&s->lock);
	slot = place(s, kind, key);
	if (slot)
		slot->row = *row;
	sys_unlock(&s->lock);
	return slot != NULL;
}

bool row_get(enum row_kind kind, uint64_t key, struct row *ret)
{
	struct table *t = table_get();
	struct shard *s = t ? shard_of(t, kind, key) : NULL;
	struct slot *slot;

	if (!s)
		return false;
	sys_lock(&s->lock);
	slot = look(s, kind, key);
	if (slot)
		*ret = slot->row;
	sys_unlock(&s->lock);
	return slot != NULL;
}

bool row_take(enum row_kind kind, uint64_t key, struct row *ret)
{
	struct table *t = table_get();
	struct shard *s = t ? shard_of(t, kind, key) : NULL;
	struct slot *slot;

	if (!s)
		return false;
	sys_lock(&s->lock);
	slot = look(s, kind, key);
	if (slot) {
		*ret = slot->row;
		erase(s, slot);
	}
	sys_unlock(&s->lock);
	return slot != NULL;
}

static int64_t count(enum row_kind kind, uint64_t key, const uint64_t *context, int delta,
	struct row *ret)
{
	struct table *t = table_get();
	struct shard *s = t ? shard_of(t, kind, key) : NULL;
	struct slot *slot;
	int64_t n = -1;

	if (!s)
		return -1;
	sys_lock(&s->lock);
	slot = look(s, kind, key);
	if (slot && (!context || slot->row.context == *context)) {
		n = (int64_t)slot->row.count + delta;
		if (n < 0)
			n = 0;
		slot->row.count = (uint32_t)n;
		if (ret)
			*ret = slot->row;
		if (!n)
			erase(s, slot);
	}
	sys_unlock(&s->lock);
	return n;
}

int64_t row_count(enum row_kind kind, uint64_t key, int delta, struct row *ret)
{
	return count(kind, key, NULL, delta, ret);
}

int64_t row_count_of(enum row_kind kind, uint64_t key, uint64_t context, int delta,
	struct row *ret)
{
	return count(kind, key, &context, delta, ret);
}

bool row_mark(enum row_kind kind, uint64_t key, uint64_t bits)
{
	struct table *t = table_get();
	struct shard *s = t ? shard_of(t, kind, key) : NULL;
	struct slot *slot;

	if (!s)
		return false;
	sys_lock(&s->lock);
	slot = look(s, kind, key);
	if (slot)
		slot->row.other |= bits;
	sys_unlock(&s->lock);
	return slot != NULL;
}

int64_t row_join(enum row_kind kind, uint64_t key, const struct row *row)
{
	struct table *t = table_get();
	struct shard *s = t ? shard_of(t, kind, key) : NULL;
	struct slot *slot;
	int64_t count = -1;

	if (!s)
		return -1;
	sys_lock(&s->lock);
	slot = look(s, kind, key);
	if (slot) {
		if (slot->row.gpu == row->gpu)
			count = (int64_t)++slot->row.count;
	} else if ((slot = place(s, kind, key))) {
		slot->row = *row;
		slot->row.count = 1;
		count = 1;
	}
	sys_unlock(&s->lock);
	return count;
}

void rows_drop_context(uint64_t context,
	void (*fn)(enum row_kind kind, uint64_t key, const struct row *row, void *arg),
	void *arg)
{
	struct table *t = table_get();

	for (size_t n = 0; t && n < SHARDS; n++) {
		struct shard *s = &t->shards[n];

		sys_lock(&s->lock);
		/* After a removal another row may lie in the same slot. */
		for (uint32_t i = 0; i < s->len;) {
			struct slot slot = s->slots[i];

			if (slot.kind == ROW_FREE || !context || slot.row.context != context) {
				i++;
				continue;
			}
			erase(s, &s->slots[i]);
			fn(slot.kind, slot.key, &slot.row, arg);
		}
		sys_unlock(&s->lock);
	}
}

void rows_each(enum row_kind kind,
	void (*fn)(enum row_kind kind, uint64_t key, const struct row *row, void *arg),
	void *arg)
{
	struct table *t = table_get();

	for (size_t n = 0; t && n < SHARDS; n++) {
		struct shard *s = &t->shards[n];

		sys_lock(&s->lock);
		for (uint32_t i = 0; i < s->len; i++)
			if (s->slots[i].kind == (uint32_t)kind)
				fn(kind, s->slots[i].key, &s->slots[i].row, arg);
		sys_unlock(&s->lock);
	}
}
