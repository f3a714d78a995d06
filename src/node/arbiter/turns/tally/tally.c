/* SPDX-License-Identifier: Apache-2.0 */

/* Accounts, seats and GPUs: how they begin, count and end. In the order of the stores a kill loses nothing. */
#include "node/arbiter/turns/tally/internal.h"

#include <stdio.h>
#include <string.h>

/* ---- figures, checks -------------------------------------------------------------------------- */

uint64_t tally_get(const _Atomic uint64_t *at)
{
	return atomic_load_explicit(at, memory_order_relaxed);
}

void tally_raise(_Atomic uint64_t *at, uint64_t to)
{
	if (to > tally_get(at))
		tally_put(at, to);
}

static uint64_t hash(uint64_t h, const void *data, size_t len)
{
	const unsigned char *at = data;

	for (size_t i = 0; i < len; i++)
		h = (h ^ at[i]) * UINT64_C(0x100000001b3);
	return h;
}

uint64_t tally_account_check(const char *slice, const uint8_t *uuid)
{
	uint64_t h = hash(UINT64_C(0xcbf29ce484222325), slice, strlen(slice));

	return hash(h, uuid, SLICE_UUID_BYTES);
}

/* With the account's, so that a seat is never taken for that of another one. */
uint64_t tally_seat_check(const struct tally *t, const struct tally_seat *s)
{
	const uint64_t parts[] = { t->accounts[s->account].check, s->account, s->serial,
		s->start, s->pid, s->gpu };

	return hash(UINT64_C(0x84222325cbf29ce4), parts, sizeof(parts));
}

/* ---- accounts --------------------------------------------------------------------------------- */

struct tally_account *tally_account_find(const struct tally *t, const char *slice,
	const uint8_t *uuid)
{
	uint64_t check = tally_account_check(slice, uuid);

	for (uint32_t i = 0; i < tally_accounts_touched(t); i++) {
		struct tally_account *a = &t->accounts[i];

		if (a->check == check && tally_state(&a->state) == TALLY_USED &&
			!strncmp(a->slice, slice, sizeof(a->slice)) &&
			!memcmp(a->uuid, uuid, sizeof(a->uuid)))
			return a;
	}
	return NULL;
}

static struct tally_account *free_account(struct tally *t)
{
	uint32_t n = tally_accounts_touched(t);

	for (; t->free_account < n; t->free_account++) {
		if (tally_state(&t->accounts[t->free_account].state) != TALLY_USED)
			return &t->accounts[t->free_account];
	}
	if (n == TALLY_ACCOUNTS || !tally_touch_account(t))
		return NULL;
	return &t->accounts[n];
}

struct tally_account *tally_account(struct tally *t, const char *slice, const uint8_t *uuid)
{
	struct tally_account *a = tally_account_find(t, slice, uuid);

	if (a)
		return a;
	a = free_account(t);
	if (!a)
		return NULL;
	memset(a->slice, 0, sizeof(a->slice));
	(void)snprintf(a->slice, sizeof(a->slice), "%s", slice);
	memcpy(a->uuid, uuid, sizeof(a->uuid));
	a->check = tally_account_check(slice, uuid);
	tally_put(&a->charged_ns, 0);
	tally_put(&a->queue_ns, 0);
	tally_put(&a->turns, 0);
	tally_put(&a->revocations, 0);
	tally_put(&a->refusals, 0);
	for (unsigned int i = 0; i < TALLY_COUNTERS; i++)
		tally_put(&a->ended[i], 0);
	tally_set_state(&a->state, TALLY_USED);
	return a;
}

static uint32_t index_of(const struct tally *t, const struct tally_account *a)
{
	return (uint32_t)(a - t->accounts);
}

void tally_seat_link(struct tally *t, uint32_t i)
{
	uint32_t account = t->seats[i].account;

	t->next[i] = t->first[account];
	t->first[account] = i + 1;
	t->shared += ++t->count[account] > TALLY_PART;
}

static void free_seat(struct tally *t, struct tally_seat *s)
{
	uint32_t i = (uint32_t)(s - t->seats), *at = &t->first[s->account];

	while (*at != i + 1)
		at = &t->next[*at - 1];
	*at = t->next[i];
	t->shared -= t->count[s->account]-- > TALLY_PART;
	t->held[i] = false;
	tally_set_state(&s->state, TALLY_FREE);
	if (i < t->free_seat)
		t->free_seat = i;
}

/* What was charged to it stays the GPU's. */
void tally_account_end(struct tally *t, struct tally_account *a)
{
	struct tally_busy *b = tally_busy_find(t, a->uuid);

	/* A state of its own, so that a kill within this finds what was there before it began. */
	if (b && tally_state(&a->state) != TALLY_ENDING) {
		a->before = tally_get(&b->ns);
		tally_set_state(&a->state, TALLY_ENDING);
	}
	if (b)
		tally_put(&b->ns, tally_add(a->before, tally_get(&a->charged_ns)));
	tally_set_state(&a->state, TALLY_FREE);
}

void tally_account_drop(struct tally *t, struct tally_account *a)
{
	uint32_t i = index_of(t, a);

	/* The account last: what is left of it by a kill has less, and is of no slice. */
	while (t->first[i])
		free_seat(t, &t->seats[t->first[i] - 1]);
	tally_account_end(t, a);
	if (i < t->free_account)
		t->free_account = i;
}

void tally_total(const struct tally *t, const struct tally_account *a,
	uint64_t ret[TALLY_COUNTERS])
{
	for (unsigned int k = 0; k < TALLY_COUNTERS; k++)
		ret[k] = tally_get(&a->ended[k]);
	for (uint32_t i = t->first[index_of(t, a)]; i; i = t->next[i - 1]) {
		for (unsigned int k = 0; k < TALLY_COUNTERS; k++)
			ret[k] = tally_add(ret[k], tally_get(&t->seats[i - 1].counted[k]));
	}
}

/* ---- seats ------------------------------------------------------------------------------------ */

/* What the slice has of TALLY_SHARED, in all of its accounts. */
static uint32_t shared_of(const struct tally *t, const char *slice)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i < tally_accounts_touched(t); i++) {
		if (t->count[i] > TALLY_PART &&
			!strncmp(t->accounts[i].slice, slice, sizeof(t->accounts[i].slice)))
			sum += t->count[i] - TALLY_PART;
	}
	return sum;
}

static bool may_have_more(const struct tally *t, const struct tally_account *a)
{
	return t->count[index_of(t, a)] < TALLY_PART ||
	       (t->shared < TALLY_SHARED && shared_of(t, a->slice) < TALLY_SHARED_SLICE);
}

struct tally_seat *tally_seat_new(struct tally *t, struct tally_account *a, uint64_t serial,
	uint32_t gpu, uint32_t pid, uint64_t start, const uint64_t *base)
{
	uint32_t n = tally_seats_touched(t), i;
	struct tally_seat *s;

	if (!may_have_more(t, a))
		return NULL;
	while (t->free_seat < n && tally_state(&t->seats[t->free_seat].state) != TALLY_FREE)
		t->free_seat++;
	i = t->free_seat < n ? t->free_seat : n;
	if (i == TALLY_SEATS || (i == n && !tally_touch_seat(t)))
		return NULL;
	s = &t->seats[i];
	s->account = index_of(t, a);
	s->serial = serial;
	s->start = start;
	s->pid = pid;
	s->gpu = gpu;
	s->check = tally_seat_check(t, s);
	tally_put(&s->charged_ns, 0);
	for (unsigned int k = 0; k < TALLY_COUNTERS; k++) {
		tally_put(&s->counted[k], 0);
		s->before[k] = 0;
		s->base[k] = base ? base[k] : 0;
	}
	tally_set_state(&s->state, TALLY_USED);
	tally_seat_link(t, i);
	return s;
}

struct tally_seat *tally_seat_find(const struct tally *t, const struct tally_account *a,
	uint64_t serial, uint32_t gpu)
{
	for (uint32_t i = t->first[index_of(t, a)]; i; i = t->next[i - 1]) {
		struct tally_seat *s = &t->seats[i - 1];

		if (s->serial == serial && s->gpu == gpu)
			return s;
	}
	return NULL;
}

void tally_seat_hold(struct tally *t, const struct tally_seat *s)
{
	t->held[s - t->seats] = true;
}

bool tally_seat_held(const struct tally *t, const struct tally_seat *s)
{
	return t->held[s - t->seats];
}

/* Of the process those in the account that nobody holds: the oldest (serials rise), and how many there are. */
static struct tally_seat *oldest_spare(const struct tally *t, uint32_t account, uint32_t pid,
	uint64_t start, uint32_t *ret_n)
{
	struct tally_seat *oldest = NULL;

	*ret_n = 0;
	for (uint32_t i = t->first[account]; i; i = t->next[i - 1]) {
		struct tally_seat *s = &t->seats[i - 1];

		if (t->held[i - 1] || s->pid != pid || s->start != start)
			continue;
		++*ret_n;
		if (!oldest || s->serial < oldest->serial)
			oldest = s;
	}
	return oldest;
}

void tally_seat_release(struct tally *t, const struct tally_seat *s)
{
	uint32_t account = s->account, pid = s->pid, n;
	uint64_t start = s->start;
	struct tally_seat *oldest;

	t->held[s - t->seats] = false;
	while ((oldest = oldest_spare(t, account, pid, start, &n)) && n > TALLY_SPARE)
		tally_seat_end(t, oldest);
}

void tally_seat_end(struct tally *t, struct tally_seat *s)
{
	struct tally_account *a = &t->accounts[s->account];

	/* As with accounts. */
	if (tally_state(&s->state) != TALLY_ENDING) {
		for (unsigned int k = 0; k < TALLY_COUNTERS; k++)
			s->before[k] = tally_get(&a->ended[k]);
		tally_set_state(&s->state, TALLY_ENDING);
	}
	for (unsigned int k = 0; k < TALLY_COUNTERS; k++)
		tally_put(&a->ended[k], tally_add(s->before[k], tally_get(&s->counted[k])));
	free_seat(t, s);
}

void tally_count(struct tally_seat *s, const uint64_t now[TALLY_COUNTERS])
{
	for (unsigned int k = 0; k < TALLY_COUNTERS; k++) {
		if (now[k] > s->base[k])
			tally_raise(&s->counted[k], now[k] - s->base[k]);
	}
}

/* ---- GPUs ------------------------------------------------------------------------------------- */

struct tally_busy *tally_busy_find(const struct tally *t, const uint8_t *uuid)
{
	for (uint32_t i = 0; i < TALLY_GPUS; i++) {
		struct tally_busy *b = &t->busy[i];

		if (tally_state(&b->state) == TALLY_USED &&
			!memcmp(b->uuid, uuid, sizeof(b->uuid)))
			return b;
	}
	return NULL;
}

struct tally_busy *tally_busy(struct tally *t, const uint8_t *uuid,
	bool (*keep)(void *arg, const uint8_t *uuid), void *arg)
{
	struct tally_busy *b = tally_busy_find(t, uuid), *unused = NULL, *other = NULL;

	if (b)
		return b;
	for (uint32_t i = 0; i < TALLY_GPUS && !unused; i++) {
		b = &t->busy[i];
		if (tally_state(&b->state) != TALLY_USED)
			unused = b;
		else if (!other && !keep(arg, b->uuid))
			other = b;
	}
	b = unused ? unused : other;
	if (!b)
		return NULL;
	tally_set_state(&b->state, TALLY_FREE);
	memcpy(b->uuid, uuid, sizeof(b->uuid));
	b->check = tally_account_check("", uuid);
	tally_put(&b->ns, 0);
	tally_set_state(&b->state, TALLY_USED);
	return b;
}

uint64_t tally_busy_ns(const struct tally *t, const struct tally_busy *b)
{
	uint64_t ns = tally_get(&b->ns);

	for (uint32_t i = 0; i < tally_accounts_touched(t); i++) {
		const struct tally_account *a = &t->accounts[i];

		if (tally_state(&a->state) == TALLY_USED &&
			!memcmp(a->uuid, b->uuid, sizeof(b->uuid)))
			ns = tally_add(ns, tally_get(&a->charged_ns));
	}
	return ns;
}
