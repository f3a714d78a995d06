/* SPDX-License-Identifier: Apache-2.0 */

/* Accounts, clients and GPUs: how they begin, count and end. The order of the stores makes them safe against
 * kills. */
#include "node/arbiter/scheduler/usage-accounts/internal.h"

#include <stdio.h>
#include <string.h>

/* --- figures, checks --- */

uint64_t usage_load(const _Atomic uint64_t *at)
{
	return atomic_load_explicit(at, memory_order_relaxed);
}

void usage_raise(_Atomic uint64_t *at, uint64_t to)
{
	if (to > usage_load(at))
		usage_store(at, to);
}

static uint64_t hash_account_key(uint64_t h, const void *data, size_t len)
{
	const unsigned char *at = data;

	for (size_t i = 0; i < len; i++)
		h = (h ^ at[i]) * UINT64_C(0x100000001b3);
	return h;
}

uint64_t usage_account_check(const char *slice, const uint8_t *uuid)
{
	uint64_t h = hash_account_key(UINT64_C(0xcbf29ce484222325), slice, strlen(slice));

	return hash_account_key(h, uuid, SLICE_UUID_BYTES);
}

uint64_t usage_client_check(const struct usage_accounts *accounts,
	const struct usage_client *client)
{
	const uint64_t parts[] = { accounts->accounts[client->account].check, client->account,
		client->serial, client->start, client->pid, client->gpu };

	return hash_account_key(UINT64_C(0x84222325cbf29ce4), parts, sizeof(parts));
}

/* --- accounts --- */

struct usage_account *usage_account_find(const struct usage_accounts *accounts,
	const char *slice, const uint8_t *uuid)
{
	uint64_t check = usage_account_check(slice, uuid);

	for (uint32_t i = 0; i < usage_accounts_touched(accounts); i++) {
		struct usage_account *a = &accounts->accounts[i];

		if (a->check == check && usage_record_state(&a->state) == USAGE_RECORD_USED &&
			!strncmp(a->slice, slice, sizeof(a->slice)) &&
			!memcmp(a->uuid, uuid, sizeof(a->uuid)))
			return a;
	}
	return NULL;
}

static struct usage_account *find_free_account(struct usage_accounts *accounts)
{
	uint32_t n = usage_accounts_touched(accounts);

	for (; accounts->free_account < n; accounts->free_account++) {
		if (usage_record_state(&accounts->accounts[accounts->free_account].state) !=
			USAGE_RECORD_USED)
			return &accounts->accounts[accounts->free_account];
	}
	if (n == USAGE_ACCOUNTS_MAX || !usage_accounts_touch_account(accounts))
		return NULL;
	return &accounts->accounts[n];
}

struct usage_account *usage_account(struct usage_accounts *accounts, const char *slice,
	const uint8_t *uuid)
{
	struct usage_account *a = usage_account_find(accounts, slice, uuid);

	if (a)
		return a;
	a = find_free_account(accounts);
	if (!a)
		return NULL;
	memset(a->slice, 0, sizeof(a->slice));
	(void)snprintf(a->slice, sizeof(a->slice), "%s", slice);
	memcpy(a->uuid, uuid, sizeof(a->uuid));
	a->check = usage_account_check(slice, uuid);
	usage_store(&a->charged_ns, 0);
	usage_store(&a->queue_ns, 0);
	usage_store(&a->quanta, 0);
	usage_store(&a->revocations, 0);
	for (unsigned int i = 0; i < SCHED_ENDS; i++)
		usage_store(&a->quantum_ends[i], 0);
	usage_store(&a->refusals, 0);
	for (unsigned int i = 0; i < USAGE_COUNTERS; i++)
		usage_store(&a->ended[i], 0);
	usage_record_set_state(&a->state, USAGE_RECORD_USED);
	return a;
}

static uint32_t get_account_index(const struct usage_accounts *accounts,
	const struct usage_account *a)
{
	return (uint32_t)(a - accounts->accounts);
}

void usage_client_link(struct usage_accounts *accounts, uint32_t i)
{
	uint32_t account = accounts->clients[i].account;

	accounts->next[i] = accounts->first[account];
	accounts->first[account] = i + 1;
	accounts->shared += ++accounts->count[account] > USAGE_CLIENTS_RESERVED;
}

static void free_client_record(struct usage_accounts *accounts, struct usage_client *client)
{
	uint32_t i = (uint32_t)(client - accounts->clients),
		 *at = &accounts->first[client->account];

	while (*at != i + 1)
		at = &accounts->next[*at - 1];
	*at = accounts->next[i];
	accounts->shared -= accounts->count[client->account]-- > USAGE_CLIENTS_RESERVED;
	accounts->attached[i] = false;
	usage_record_set_state(&client->state, USAGE_RECORD_FREE);
	if (i < accounts->free_client)
		accounts->free_client = i;
}

/* NULL: no record of the GPU. */
static struct usage_gpu *usage_gpu_find(const struct usage_accounts *accounts,
	const uint8_t *uuid)
{
	for (uint32_t i = 0; i < USAGE_GPUS_MAX; i++) {
		struct usage_gpu *b = &accounts->gpus[i];

		if (usage_record_state(&b->state) == USAGE_RECORD_USED &&
			!memcmp(b->uuid, uuid, sizeof(b->uuid)))
			return b;
	}
	return NULL;
}

/*
 * A kill at any point of this loses nothing:
 *
 * 1. The thread stores the GPU's time in .before of the account.
 * 2. It sets the state USAGE_RECORD_ENDING. From here on the next arbiter repeats steps 3 and 4.
 * 3. It stores .before plus the account's charges as the GPU's time. Repeating that changes nothing.
 * 4. It frees the account.
 */
void usage_account_end(struct usage_accounts *accounts, struct usage_account *a)
{
	struct usage_gpu *b = usage_gpu_find(accounts, a->uuid);

	if (b && usage_record_state(&a->state) != USAGE_RECORD_ENDING) {
		a->before = usage_load(&b->ns);
		usage_record_set_state(&a->state, USAGE_RECORD_ENDING);
	}
	if (b)
		usage_store(&b->ns, usage_add(a->before, usage_load(&a->charged_ns)));
	usage_record_set_state(&a->state, USAGE_RECORD_FREE);
}

void usage_account_drop(struct usage_accounts *accounts, struct usage_account *a)
{
	uint32_t i = get_account_index(accounts, a);

	/* Clients first, the account last. After a kill in between the account has fewer clients, and belongs
	 * to no slice: the next sweep drops it. */
	while (accounts->first[i])
		free_client_record(accounts, &accounts->clients[accounts->first[i] - 1]);
	usage_account_end(accounts, a);
	if (i < accounts->free_account)
		accounts->free_account = i;
}

void usage_account_total(const struct usage_accounts *accounts, const struct usage_account *a,
	uint64_t ret[USAGE_COUNTERS])
{
	for (unsigned int k = 0; k < USAGE_COUNTERS; k++)
		ret[k] = usage_load(&a->ended[k]);
	for (uint32_t i = accounts->first[get_account_index(accounts, a)]; i;
		i = accounts->next[i - 1]) {
		for (unsigned int k = 0; k < USAGE_COUNTERS; k++)
			ret[k] = usage_add(ret[k],
				usage_load(&accounts->clients[i - 1].counted[k]));
	}
}

/* --- clients --- */

/* What the slice has of USAGE_CLIENTS_SHARED, in all of its accounts. */
static uint32_t get_shared_records(const struct usage_accounts *accounts, const char *slice)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i < usage_accounts_touched(accounts); i++) {
		if (accounts->count[i] > USAGE_CLIENTS_RESERVED &&
			!strncmp(accounts->accounts[i].slice, slice,
				sizeof(accounts->accounts[i].slice)))
			sum += accounts->count[i] - USAGE_CLIENTS_RESERVED;
	}
	return sum;
}

static bool may_have_more_records(const struct usage_accounts *accounts,
	const struct usage_account *a)
{
	return accounts->count[get_account_index(accounts, a)] < USAGE_CLIENTS_RESERVED ||
	       (accounts->shared < USAGE_CLIENTS_SHARED &&
		       get_shared_records(accounts, a->slice) < USAGE_CLIENTS_SHARED_SLICE);
}

struct usage_client *usage_client_new(struct usage_accounts *accounts, struct usage_account *a,
	uint64_t serial, uint32_t gpu, uint32_t pid, uint64_t start, const uint64_t *base)
{
	uint32_t n = usage_clients_touched(accounts), i;
	struct usage_client *client;

	if (!may_have_more_records(accounts, a))
		return NULL;
	while (accounts->free_client < n &&
		usage_record_state(&accounts->clients[accounts->free_client].state) !=
			USAGE_RECORD_FREE)
		accounts->free_client++;
	i = accounts->free_client < n ? accounts->free_client : n;
	if (i == USAGE_CLIENTS_MAX || (i == n && !usage_accounts_touch_client(accounts)))
		return NULL;
	client = &accounts->clients[i];
	client->account = get_account_index(accounts, a);
	client->serial = serial;
	client->start = start;
	client->pid = pid;
	client->gpu = gpu;
	client->check = usage_client_check(accounts, client);
	usage_store(&client->charged_ns, 0);
	for (unsigned int k = 0; k < USAGE_COUNTERS; k++) {
		usage_store(&client->counted[k], 0);
		client->before[k] = 0;
		client->base[k] = base ? base[k] : 0;
	}
	usage_record_set_state(&client->state, USAGE_RECORD_USED);
	usage_client_link(accounts, i);
	return client;
}

struct usage_client *usage_client_find(const struct usage_accounts *accounts,
	const struct usage_account *a, uint64_t serial, uint32_t gpu)
{
	for (uint32_t i = accounts->first[get_account_index(accounts, a)]; i;
		i = accounts->next[i - 1]) {
		struct usage_client *client = &accounts->clients[i - 1];

		if (client->serial == serial && client->gpu == gpu)
			return client;
	}
	return NULL;
}

void usage_client_attach(struct usage_accounts *accounts, const struct usage_client *client)
{
	accounts->attached[client - accounts->clients] = true;
}

bool usage_client_is_attached(const struct usage_accounts *accounts,
	const struct usage_client *client)
{
	return accounts->attached[client - accounts->clients];
}

/* The oldest client of the process in the account without a registration (serials rise), and how many there
 * are. */
static struct usage_client *find_oldest_spare(const struct usage_accounts *accounts,
	uint32_t account, uint32_t pid, uint64_t start, uint32_t *ret_n)
{
	struct usage_client *oldest = NULL;

	*ret_n = 0;
	for (uint32_t i = accounts->first[account]; i; i = accounts->next[i - 1]) {
		struct usage_client *client = &accounts->clients[i - 1];

		if (accounts->attached[i - 1] || client->pid != pid || client->start != start)
			continue;
		++*ret_n;
		if (!oldest || client->serial < oldest->serial)
			oldest = client;
	}
	return oldest;
}

void usage_client_detach(struct usage_accounts *accounts, const struct usage_client *client)
{
	uint32_t account = client->account, pid = client->pid, n;
	uint64_t start = client->start;
	struct usage_client *oldest;

	accounts->attached[client - accounts->clients] = false;
	while ((oldest = find_oldest_spare(accounts, account, pid, start, &n)) &&
		n > USAGE_CLIENTS_SPARE)
		usage_client_end(accounts, oldest);
}

void usage_client_end(struct usage_accounts *accounts, struct usage_client *client)
{
	struct usage_account *a = &accounts->accounts[client->account];

	/* As in usage_account_end(). */
	if (usage_record_state(&client->state) != USAGE_RECORD_ENDING) {
		for (unsigned int k = 0; k < USAGE_COUNTERS; k++)
			client->before[k] = usage_load(&a->ended[k]);
		usage_record_set_state(&client->state, USAGE_RECORD_ENDING);
	}
	for (unsigned int k = 0; k < USAGE_COUNTERS; k++)
		usage_store(&a->ended[k],
			usage_add(client->before[k], usage_load(&client->counted[k])));
	free_client_record(accounts, client);
}

void usage_client_count(struct usage_client *client, const uint64_t now[USAGE_COUNTERS])
{
	for (unsigned int k = 0; k < USAGE_COUNTERS; k++) {
		if (now[k] > client->base[k])
			usage_raise(&client->counted[k], now[k] - client->base[k]);
	}
}

/* --- GPUs --- */

struct usage_gpu *usage_gpu(struct usage_accounts *accounts, const uint8_t *uuid,
	bool (*keep)(void *arg, const uint8_t *uuid), void *arg)
{
	struct usage_gpu *b = usage_gpu_find(accounts, uuid), *unused = NULL, *other = NULL;

	if (b)
		return b;
	for (uint32_t i = 0; i < USAGE_GPUS_MAX && !unused; i++) {
		b = &accounts->gpus[i];
		if (usage_record_state(&b->state) != USAGE_RECORD_USED)
			unused = b;
		else if (!other && !keep(arg, b->uuid))
			other = b;
	}
	b = unused ? unused : other;
	if (!b)
		return NULL;
	usage_record_set_state(&b->state, USAGE_RECORD_FREE);
	memcpy(b->uuid, uuid, sizeof(b->uuid));
	b->check = usage_account_check("", uuid);
	usage_store(&b->ns, 0);
	usage_record_set_state(&b->state, USAGE_RECORD_USED);
	return b;
}
