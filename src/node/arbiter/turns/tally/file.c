/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The file of the accounts: mapped, begun anew where it is not of this boot, and its records looked at, which an
 * earlier arbiter may have left in the midst of something.
 */
#include "node/arbiter/turns/tally/internal.h"

#include "node/arbiter/slices/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TALLY_MAGIC   UINT32_C(0x54545047) /* "GPTT" */
#define TALLY_VERSION 2                    /* 1: without .revocations and .refusals */
#define BOOT_MAX      40
#define HEAD_BYTES    16384 /* with the GPUs */
#define ROOM_STEP     64

struct tally_head {
	_Atomic uint32_t magic; /* stored last */
	uint32_t version, account_bytes, seat_bytes, accounts, seats;
	char boot[BOOT_MAX];
	_Atomic uint32_t accounts_touched, seats_touched; /* the rest has no memory yet */
	struct tally_busy busy[TALLY_GPUS];
};

_Static_assert(sizeof(struct tally_head) <= HEAD_BYTES, "records begin behind it");
_Static_assert(TALLY_ACCOUNTS % ROOM_STEP == 0 && TALLY_SEATS % ROOM_STEP == 0, "whole steps");

static const size_t accounts_at = HEAD_BYTES,
		    seats_at = HEAD_BYTES + TALLY_ACCOUNTS * sizeof(struct tally_account),
		    tally_bytes = HEAD_BYTES + TALLY_ACCOUNTS * sizeof(struct tally_account) +
				  TALLY_SEATS * sizeof(struct tally_seat);

/* ---- mapped ----------------------------------------------------------------------------------- */

static bool is_ours(const struct tally_head *h, const char *boot)
{
	return atomic_load_explicit(&h->magic, memory_order_acquire) == TALLY_MAGIC &&
	       h->version == TALLY_VERSION &&
	       h->account_bytes == sizeof(struct tally_account) &&
	       h->seat_bytes == sizeof(struct tally_seat) && h->accounts == TALLY_ACCOUNTS &&
	       h->seats == TALLY_SEATS && !strncmp(h->boot, boot, sizeof(h->boot));
}

static void begin(struct tally_head *h, const char *boot)
{
	h->version = TALLY_VERSION;
	h->account_bytes = sizeof(struct tally_account);
	h->seat_bytes = sizeof(struct tally_seat);
	h->accounts = TALLY_ACCOUNTS;
	h->seats = TALLY_SEATS;
	(void)snprintf(h->boot, sizeof(h->boot), "%s", boot);
	atomic_store_explicit(&h->magic, TALLY_MAGIC, memory_order_seq_cst);
}

static int map_file(struct tally *t, const char *path, const char *boot, struct error *err)
{
	char *at;

	if (kept_open(&t->file, path, tally_bytes, HEAD_BYTES, false, err) < 0)
		return -1;
	at = t->file.at;
	t->head = t->file.at;
	if (!is_ours(t->head, boot)) {
		atomic_store_explicit(&t->head->magic, 0, memory_order_seq_cst);
		if (kept_clear(&t->file, path, err) < 0)
			return -1;
		begin(t->head, boot);
	}
	t->busy = t->head->busy;
	t->accounts = (struct tally_account *)(void *)(at + accounts_at);
	t->seats = (struct tally_seat *)(void *)(at + seats_at);
	return 0;
}

/* ---- records that were there before ----------------------------------------------------------- */

/* A seat that an earlier arbiter left: taken in, finished, or given up. */
static void check_seat(struct tally *t, uint32_t i)
{
	struct tally_seat *s = &t->seats[i];
	uint32_t state = tally_state(&s->state);

	if (state == TALLY_FREE)
		return;
	if ((state != TALLY_USED && state != TALLY_ENDING) || s->account >= TALLY_ACCOUNTS ||
		s->gpu >= SLICE_GPUS_MAX ||
		tally_state(&t->accounts[s->account].state) != TALLY_USED ||
		s->check != tally_seat_check(t, s)) {
		tally_set_state(&s->state, TALLY_FREE);
		return;
	}
	tally_seat_link(t, i);
	if (state == TALLY_ENDING)
		tally_seat_end(t, s);
}

static void check_account(struct tally *t, struct tally_account *a)
{
	uint32_t state = tally_state(&a->state);

	if (state == TALLY_FREE)
		return;
	if ((state != TALLY_USED && state != TALLY_ENDING) ||
		!memchr(a->slice, '\0', sizeof(a->slice)) || !slice_id_valid(a->slice) ||
		a->check != tally_account_check(a->slice, a->uuid) ||
		(state == TALLY_USED && tally_account_find(t, a->slice, a->uuid) != a))
		tally_set_state(&a->state, TALLY_FREE);
	else if (state == TALLY_ENDING)
		tally_account_end(t, a);
}

static void check_records(struct tally *t)
{
	for (uint32_t i = 0; i < TALLY_GPUS; i++) {
		struct tally_busy *b = &t->busy[i];

		if (tally_state(&b->state) != TALLY_USED ||
			b->check != tally_account_check("", b->uuid))
			tally_set_state(&b->state, TALLY_FREE);
	}
	for (uint32_t i = 0; i < tally_accounts_touched(t); i++)
		check_account(t, &t->accounts[i]);
	for (uint32_t i = 0; i < tally_seats_touched(t); i++)
		check_seat(t, i);
}

/* ---- open, close ------------------------------------------------------------------------------ */

int tally_open(struct tally *t, const char *path, const char *boot, struct error *err)
{
	*t = (struct tally){ 0 };
	t->first = calloc(TALLY_ACCOUNTS, sizeof(t->first[0]));
	t->next = calloc(TALLY_SEATS, sizeof(t->next[0]));
	t->count = calloc(TALLY_ACCOUNTS, sizeof(t->count[0]));
	t->held = calloc(TALLY_SEATS, sizeof(t->held[0]));
	if (!t->first || !t->next || !t->count || !t->held) {
		tally_close(t);
		return error_nomem(err);
	}
	if (map_file(t, path, boot, err) < 0) {
		tally_close(t);
		return -1;
	}
	check_records(t);
	return 0;
}

void tally_close(struct tally *t)
{
	kept_close(&t->file);
	free(t->first);
	free(t->next);
	free(t->count);
	free(t->held);
	*t = (struct tally){ 0 };
}

/* ---- records that were never used ------------------------------------------------------------- */

static uint32_t touched(const _Atomic uint32_t *at, uint32_t most)
{
	uint32_t n = atomic_load_explicit(at, memory_order_acquire);

	return n < most ? n : most;
}

uint32_t tally_accounts_touched(const struct tally *t)
{
	return touched(&t->head->accounts_touched, TALLY_ACCOUNTS);
}

uint32_t tally_seats_touched(const struct tally *t)
{
	return touched(&t->head->seats_touched, TALLY_SEATS);
}

/* Room is made for some at a time. */
static bool touch(const struct tally *t, _Atomic uint32_t *at, size_t offset, size_t bytes,
	uint32_t n)
{
	if (n % ROOM_STEP == 0 && !kept_room(&t->file, offset + n * bytes, ROOM_STEP * bytes))
		return false;
	atomic_store_explicit(at, n + 1, memory_order_seq_cst);
	return true;
}

bool tally_touch_account(struct tally *t)
{
	return touch(t, &t->head->accounts_touched, accounts_at, sizeof(struct tally_account),
		tally_accounts_touched(t));
}

bool tally_touch_seat(struct tally *t)
{
	return touch(t, &t->head->seats_touched, seats_at, sizeof(struct tally_seat),
		tally_seats_touched(t));
}
