/* SPDX-License-Identifier: Apache-2.0 */
#include "container/charges/alloc-table.h"

#include "container/sys.h"

#include <string.h>

/* Open addressing with linear probing. A removal moves the following rows up, so the table has no
 * tombstones. */
#define SHARDS    64
#define FIRST_LEN 64 /* slots of a shard's first table: below one page */

struct alloc_slot {
	uint64_t key;
	uint32_t kind; /* ALLOC_FREE: empty */
	uint32_t unused;
	struct alloc_row row;
};

struct alloc_shard {
	_Alignas(64) struct sys_lock lock; /* guards what follows */
	uint32_t used, len;                /* len: a power of two, or 0 */
	struct alloc_slot *slots;
};

struct alloc_table {
	struct alloc_shard shards[SHARDS];
};

static _Atomic(void *) root;

static struct alloc_table *get_alloc_table(void)
{
	struct alloc_table *t = wiped_get(&root, sizeof(*t));

	if (!t)
		warn_once(WARN_NO_ALLOC_TABLE, "no memory for the table of allocations");
	return t;
}

/* Multiply and fold: keys are addresses, so their low bits are zero. */
static uint64_t hash_alloc_key(enum alloc_kind kind, uint64_t key)
{
	uint64_t h = (key ^ ((uint64_t)kind << 56)) * UINT64_C(0x9E3779B97F4A7C15);

	return h ^ (h >> 29);
}

static struct alloc_shard *get_alloc_shard(struct alloc_table *t, enum alloc_kind kind,
	uint64_t key)
{
	return &t->shards[hash_alloc_key(kind, key) >> 58];
}

/* The slot of the key, or the empty slot for it. The table is never full. */
static struct alloc_slot *find_alloc_slot(const struct alloc_shard *s, enum alloc_kind kind,
	uint64_t key)
{
	uint32_t i = (uint32_t)hash_alloc_key(kind, key) & (s->len - 1);

	while (s->slots[i].kind != ALLOC_FREE &&
		(s->slots[i].key != key || s->slots[i].kind != (uint32_t)kind))
		i = (i + 1) & (s->len - 1);
	return &s->slots[i];
}

static bool grow_alloc_shard(struct alloc_shard *s)
{
	struct alloc_shard bigger = { .len = s->len ? 2 * s->len : FIRST_LEN };

	bigger.slots = wiped_map(bigger.len * sizeof(struct alloc_slot));
	if (!bigger.slots) {
		warn_once(WARN_NO_ALLOC_TABLE, "no memory for the table of allocations");
		return false;
	}
	for (uint32_t i = 0; i < s->len; i++)
		if (s->slots[i].kind != ALLOC_FREE)
			*find_alloc_slot(&bigger, s->slots[i].kind, s->slots[i].key) =
				s->slots[i];
	if (s->slots)
		wiped_unmap(s->slots, s->len * sizeof(struct alloc_slot));
	s->slots = bigger.slots;
	s->len = bigger.len;
	return true;
}

/* The slot for a row of this key; NULL: no memory. */
static struct alloc_slot *add_alloc_slot(struct alloc_shard *s, enum alloc_kind kind,
	uint64_t key)
{
	struct alloc_slot *slot;

	if (4 * (uint64_t)(s->used + 1) > 3 * (uint64_t)s->len && !grow_alloc_shard(s))
		return NULL;
	slot = find_alloc_slot(s, kind, key);
	if (slot->kind == ALLOC_FREE) {
		s->used++;
		slot->kind = kind;
		slot->key = key;
	}
	return slot;
}

static struct alloc_slot *find_used_alloc_slot(const struct alloc_shard *s,
	enum alloc_kind kind, uint64_t key)
{
	struct alloc_slot *slot = s->len ? find_alloc_slot(s, kind, key) : NULL;

	return slot && slot->kind != ALLOC_FREE ? slot : NULL;
}

static void remove_alloc_slot(struct alloc_shard *s, struct alloc_slot *slot)
{
	uint32_t mask = s->len - 1, hole = (uint32_t)(slot - s->slots);

	for (uint32_t i = (hole + 1) & mask; s->slots[i].kind != ALLOC_FREE;
		i = (i + 1) & mask) {
		uint32_t home =
			(uint32_t)hash_alloc_key(s->slots[i].kind, s->slots[i].key) & mask;

		/* The row may move up if the hole is between the row's home and the row. */
		if (((i - home) & mask) >= ((i - hole) & mask)) {
			s->slots[hole] = s->slots[i];
			hole = i;
		}
	}
	s->slots[hole] = (struct alloc_slot){ .kind = ALLOC_FREE };
	s->used--;
}

/* The shard of the key, locked. NULL: no memory for the table. */
static struct alloc_shard *lock_alloc_shard(enum alloc_kind kind, uint64_t key)
{
	struct alloc_table *t = get_alloc_table();
	struct alloc_shard *s = t ? get_alloc_shard(t, kind, key) : NULL;

	if (s)
		sys_lock(&s->lock);
	return s;
}

bool alloc_table_put(enum alloc_kind kind, uint64_t key, const struct alloc_row *row)
{
	struct alloc_shard *s = lock_alloc_shard(kind, key);
	struct alloc_slot *slot;

	if (!s)
		return false;
	slot = add_alloc_slot(s, kind, key);
	if (slot)
		slot->row = *row;
	sys_unlock(&s->lock);
	return slot != NULL;
}

bool alloc_table_get(enum alloc_kind kind, uint64_t key, struct alloc_row *ret)
{
	struct alloc_shard *s = lock_alloc_shard(kind, key);
	struct alloc_slot *slot;

	if (!s)
		return false;
	slot = find_used_alloc_slot(s, kind, key);
	if (slot)
		*ret = slot->row;
	sys_unlock(&s->lock);
	return slot != NULL;
}

bool alloc_table_remove(enum alloc_kind kind, uint64_t key, struct alloc_row *ret)
{
	struct alloc_shard *s = lock_alloc_shard(kind, key);
	struct alloc_slot *slot;

	if (!s)
		return false;
	slot = find_used_alloc_slot(s, kind, key);
	if (slot) {
		*ret = slot->row;
		remove_alloc_slot(s, slot);
	}
	sys_unlock(&s->lock);
	return slot != NULL;
}

static int64_t add_to_alloc_count(enum alloc_kind kind, uint64_t key, const uint64_t *context,
	int delta, struct alloc_row *ret)
{
	struct alloc_shard *s = lock_alloc_shard(kind, key);
	struct alloc_slot *slot;
	int64_t n = -1;

	if (!s)
		return -1;
	slot = find_used_alloc_slot(s, kind, key);
	if (slot && (!context || slot->row.context == *context)) {
		n = (int64_t)slot->row.count + delta;
		if (n < 0)
			n = 0;
		slot->row.count = (uint32_t)n;
		if (ret)
			*ret = slot->row;
		if (!n)
			remove_alloc_slot(s, slot);
	}
	sys_unlock(&s->lock);
	return n;
}

int64_t alloc_table_count(enum alloc_kind kind, uint64_t key, int delta, struct alloc_row *ret)
{
	return add_to_alloc_count(kind, key, NULL, delta, ret);
}

int64_t alloc_table_count_of(enum alloc_kind kind, uint64_t key, uint64_t context, int delta,
	struct alloc_row *ret)
{
	return add_to_alloc_count(kind, key, &context, delta, ret);
}

bool alloc_table_set_bits(enum alloc_kind kind, uint64_t key, uint64_t bits)
{
	struct alloc_shard *s = lock_alloc_shard(kind, key);
	struct alloc_slot *slot;

	if (!s)
		return false;
	slot = find_used_alloc_slot(s, kind, key);
	if (slot)
		slot->row.other |= bits;
	sys_unlock(&s->lock);
	return slot != NULL;
}

int64_t alloc_table_join(enum alloc_kind kind, uint64_t key, const struct alloc_row *row)
{
	struct alloc_shard *s = lock_alloc_shard(kind, key);
	struct alloc_slot *slot;
	int64_t count = -1;

	if (!s)
		return -1;
	slot = find_used_alloc_slot(s, kind, key);
	if (slot) {
		if (slot->row.gpu == row->gpu)
			count = (int64_t)++slot->row.count;
	} else if ((slot = add_alloc_slot(s, kind, key))) {
		slot->row = *row;
		slot->row.count = 1;
		count = 1;
	}
	sys_unlock(&s->lock);
	return count;
}

void alloc_table_drop_context(uint64_t context,
	void (*fn)(enum alloc_kind kind, uint64_t key, const struct alloc_row *row, void *arg),
	void *arg)
{
	struct alloc_table *t = get_alloc_table();

	for (size_t n = 0; t && n < SHARDS; n++) {
		struct alloc_shard *s = &t->shards[n];

		sys_lock(&s->lock);
		/* After a removal, the next row may be in the same slot. */
		for (uint32_t i = 0; i < s->len;) {
			struct alloc_slot slot = s->slots[i];

			if (slot.kind == ALLOC_FREE || !context ||
				slot.row.context != context) {
				i++;
				continue;
			}
			remove_alloc_slot(s, &s->slots[i]);
			fn(slot.kind, slot.key, &slot.row, arg);
		}
		sys_unlock(&s->lock);
	}
}
