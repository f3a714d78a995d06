/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The file of the accounts.
 *
 * 1. The arbiter maps the file, and clears it where it is of another boot, version or size.
 * 2. It then checks all records, as an earlier arbiter may have been killed within a change. It finishes the
 *    change, or frees the record.
 */
#include "node/arbiter/scheduler/usage-accounts/internal.h"

#include "node/arbiter/slices/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define USAGE_ACCOUNTS_MAGIC   UINT32_C(0x54545047) /* "GPTT" */
#define USAGE_ACCOUNTS_VERSION 3
#define BOOT_MAX               40
#define HEAD_BYTES             16384 /* includes the GPUs */
#define ROOM_STEP              64

struct usage_accounts_head {
	_Atomic uint32_t magic; /* stored last */
	uint32_t version, account_bytes, client_bytes, accounts, clients;
	char boot[BOOT_MAX];
	/* Records that were ever used. Later records have no memory yet. */
	_Atomic uint32_t accounts_touched, clients_touched;
	struct usage_gpu gpus[USAGE_GPUS_MAX];
};

_Static_assert(sizeof(struct usage_accounts_head) <= HEAD_BYTES, "records begin behind it");
_Static_assert(USAGE_ACCOUNTS_MAX % ROOM_STEP == 0 && USAGE_CLIENTS_MAX % ROOM_STEP == 0,
	"whole steps");

static const size_t accounts_at = HEAD_BYTES,
		    clients_at = HEAD_BYTES + USAGE_ACCOUNTS_MAX * sizeof(struct usage_account),
		    usage_accounts_bytes = HEAD_BYTES +
					   USAGE_ACCOUNTS_MAX * sizeof(struct usage_account) +
					   USAGE_CLIENTS_MAX * sizeof(struct usage_client);

/* --- mapped --- */

static bool is_accounts_file_valid(const struct usage_accounts_head *h, const char *boot)
{
	return atomic_load_explicit(&h->magic, memory_order_acquire) == USAGE_ACCOUNTS_MAGIC &&
	       h->version == USAGE_ACCOUNTS_VERSION &&
	       h->account_bytes == sizeof(struct usage_account) &&
	       h->client_bytes == sizeof(struct usage_client) &&
	       h->accounts == USAGE_ACCOUNTS_MAX && h->clients == USAGE_CLIENTS_MAX &&
	       !strncmp(h->boot, boot, sizeof(h->boot));
}

static void init_accounts_file(struct usage_accounts_head *h, const char *boot)
{
	h->version = USAGE_ACCOUNTS_VERSION;
	h->account_bytes = sizeof(struct usage_account);
	h->client_bytes = sizeof(struct usage_client);
	h->accounts = USAGE_ACCOUNTS_MAX;
	h->clients = USAGE_CLIENTS_MAX;
	(void)snprintf(h->boot, sizeof(h->boot), "%s", boot);
	atomic_store_explicit(&h->magic, USAGE_ACCOUNTS_MAGIC, memory_order_seq_cst);
}

static int map_file(struct usage_accounts *accounts, const char *path, const char *boot,
	struct error *err)
{
	char *at;

	if (persistent_file_open(&accounts->file, path, usage_accounts_bytes, HEAD_BYTES, false,
		    err) < 0)
		return -1;
	at = accounts->file.head;
	accounts->head = accounts->file.head;
	if (!is_accounts_file_valid(accounts->head, boot)) {
		atomic_store_explicit(&accounts->head->magic, 0, memory_order_seq_cst);
		if (persistent_file_clear(&accounts->file, path, err) < 0)
			return -1;
		init_accounts_file(accounts->head, boot);
	}
	accounts->gpus = accounts->head->gpus;
	accounts->accounts = (struct usage_account *)(void *)(at + accounts_at);
	accounts->clients = (struct usage_client *)(void *)(at + clients_at);
	return 0;
}

/* --- records of an earlier arbiter --- */

/* A client record of an earlier arbiter: kept, finished, or freed. */
static void check_client_record(struct usage_accounts *accounts, uint32_t i)
{
	struct usage_client *client = &accounts->clients[i];
	uint32_t state = usage_record_state(&client->state);

	if (state == USAGE_RECORD_FREE)
		return;
	if ((state != USAGE_RECORD_USED && state != USAGE_RECORD_ENDING) ||
		client->account >= USAGE_ACCOUNTS_MAX || client->gpu >= SLICE_GPUS_MAX ||
		usage_record_state(&accounts->accounts[client->account].state) !=
			USAGE_RECORD_USED ||
		client->check != usage_client_check(accounts, client)) {
		usage_record_set_state(&client->state, USAGE_RECORD_FREE);
		return;
	}
	usage_client_link(accounts, i);
	if (state == USAGE_RECORD_ENDING)
		usage_client_end(accounts, client);
}

static void check_account(struct usage_accounts *accounts, struct usage_account *a)
{
	uint32_t state = usage_record_state(&a->state);

	if (state == USAGE_RECORD_FREE)
		return;
	if ((state != USAGE_RECORD_USED && state != USAGE_RECORD_ENDING) ||
		!memchr(a->slice, '\0', sizeof(a->slice)) || !slice_id_valid(a->slice) ||
		a->check != usage_account_check(a->slice, a->uuid) ||
		(state == USAGE_RECORD_USED &&
			usage_account_find(accounts, a->slice, a->uuid) != a))
		usage_record_set_state(&a->state, USAGE_RECORD_FREE);
	else if (state == USAGE_RECORD_ENDING)
		usage_account_end(accounts, a);
}

static void check_records(struct usage_accounts *accounts)
{
	for (uint32_t i = 0; i < USAGE_GPUS_MAX; i++) {
		struct usage_gpu *b = &accounts->gpus[i];

		if (usage_record_state(&b->state) != USAGE_RECORD_USED ||
			b->check != usage_account_check("", b->uuid))
			usage_record_set_state(&b->state, USAGE_RECORD_FREE);
	}
	for (uint32_t i = 0; i < usage_accounts_touched(accounts); i++)
		check_account(accounts, &accounts->accounts[i]);
	for (uint32_t i = 0; i < usage_clients_touched(accounts); i++)
		check_client_record(accounts, i);
}

/* --- open, close --- */

int usage_accounts_open(struct usage_accounts *accounts, const char *path, const char *boot,
	struct error *err)
{
	*accounts = (struct usage_accounts){ 0 };
	accounts->first = calloc(USAGE_ACCOUNTS_MAX, sizeof(accounts->first[0]));
	accounts->next = calloc(USAGE_CLIENTS_MAX, sizeof(accounts->next[0]));
	accounts->count = calloc(USAGE_ACCOUNTS_MAX, sizeof(accounts->count[0]));
	accounts->attached = calloc(USAGE_CLIENTS_MAX, sizeof(accounts->attached[0]));
	if (!accounts->first || !accounts->next || !accounts->count || !accounts->attached) {
		usage_accounts_close(accounts);
		return error_nomem(err);
	}
	if (map_file(accounts, path, boot, err) < 0) {
		usage_accounts_close(accounts);
		return -1;
	}
	check_records(accounts);
	return 0;
}

void usage_accounts_close(struct usage_accounts *accounts)
{
	persistent_file_close(&accounts->file);
	free(accounts->first);
	free(accounts->next);
	free(accounts->count);
	free(accounts->attached);
	*accounts = (struct usage_accounts){ 0 };
}

/* --- records that were never used --- */

static uint32_t get_touched_count(const _Atomic uint32_t *at, uint32_t max)
{
	uint32_t n = atomic_load_explicit(at, memory_order_acquire);

	return n < max ? n : max;
}

uint32_t usage_accounts_touched(const struct usage_accounts *accounts)
{
	return get_touched_count(&accounts->head->accounts_touched, USAGE_ACCOUNTS_MAX);
}

uint32_t usage_clients_touched(const struct usage_accounts *accounts)
{
	return get_touched_count(&accounts->head->clients_touched, USAGE_CLIENTS_MAX);
}

/* Reserves room for ROOM_STEP records at a time. */
static bool add_touched_record(const struct usage_accounts *accounts, _Atomic uint32_t *at,
	size_t offset, size_t bytes, uint32_t n)
{
	if (n % ROOM_STEP == 0 && !persistent_file_reserve(&accounts->file, offset + n * bytes,
					  ROOM_STEP * bytes))
		return false;
	atomic_store_explicit(at, n + 1, memory_order_seq_cst);
	return true;
}

bool usage_accounts_touch_account(struct usage_accounts *accounts)
{
	return add_touched_record(accounts, &accounts->head->accounts_touched, accounts_at,
		sizeof(struct usage_account), usage_accounts_touched(accounts));
}

bool usage_accounts_touch_client(struct usage_accounts *accounts)
{
	return add_touched_record(accounts, &accounts->head->clients_touched, clients_at,
		sizeof(struct usage_client), usage_clients_touched(accounts));
}
