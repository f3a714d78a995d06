/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What slices used of the time of their GPUs: accounts that outlive this program. Their file is mapped shared,
 * like that of the grants (node/arbiter/grants/journal.h), so the kernel keeps what was stored, however the
 * program ends.
 *
 *	account		a slice on one GPU: its charges, and what its ended clients counted
 *	client		a process in an account (one registration): what it counted so far
 *	busy		a GPU: the charges of accounts that are gone. With the charges of the present accounts
 *			this is the time in which the GPU had work: the scheduler divides exactly that time
 *
 * Counters. Charges are the arbiter's own figures. Counters come from the page, which the process writes
 * (abi/turn-page.h). A client has what its page said last. The total of an account is .ended plus the counters
 * of its clients. So a page that comes back after a restart goes on counting, and nothing counts twice. When a
 * client ends, all its counters move to .ended. If the arbiter is killed within that, the next arbiter finishes
 * it. A page may come back after its client ended, or without a known client. Then only what it counts beyond
 * .base counts; .base is what the page said when it came.
 *
 * Room. A client record has a registration, or waits for its process to register again; that may last as long
 * as the process lives. Four limits keep slices and processes out of each other's way:
 *
 * - A process has at most USAGE_CLIENTS_SPARE waiting clients in an account. A further one ends the oldest.
 *   That is more than a process usually has: a program that the process executed over leaves one.
 * - An account has USAGE_CLIENTS_RESERVED clients of its own. With up to USAGE_ACCOUNTS_FAIR accounts no other
 *   account can take them.
 * - All further clients come from USAGE_CLIENTS_SHARED.
 * - One slice has at most USAGE_CLIENTS_SHARED_SLICE of these.
 *
 * No figure ever decreases. If a page says less than before, or an invalid value, its largest value counts.
 * Sums stop at UINT64_MAX.
 *
 * The arbiter clears a file of another boot, version or size, and frees a record whose check is wrong.
 *
 * Thread: the scheduler's, or the loop while that thread does not run (open, close). The lock of the journal
 * protects this file too: the arbiter opens the journal first.
 */
#include "node/arbiter/persistent-file.h"
#include "model/sched/quantum-end.h"
#include "abi/slice-wire.h"
#include "lib/base/error.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#define USAGE_ACCOUNTS_FILE "arbiter.turns"
#define USAGE_ACCOUNTS_MAX  8192
#define USAGE_CLIENTS_MAX   16384
#define USAGE_GPUS_MAX      256

#define USAGE_CLIENTS_SPARE  16
#define USAGE_ACCOUNTS_FAIR  256
#define USAGE_CLIENTS_SHARED (USAGE_CLIENTS_MAX / 2)
#define USAGE_CLIENTS_RESERVED \
	((USAGE_CLIENTS_MAX - USAGE_CLIENTS_SHARED) / USAGE_ACCOUNTS_FAIR)
#define USAGE_CLIENTS_SHARED_SLICE (USAGE_CLIENTS_SHARED / 4)

enum usage_counter {
	USAGE_LAUNCHES,
	USAGE_COPIES,
	USAGE_BYTES,
	USAGE_WAITS,
	USAGE_WAIT_NS,
	USAGE_THROTTLE_NS,
	USAGE_COUNTERS
};

/* For all records: the fields that .check covers do not change while .state is not USAGE_RECORD_FREE. */
enum usage_record_state {
	USAGE_RECORD_FREE = 0,
	USAGE_RECORD_USED = 0x4c4c4154,
	USAGE_RECORD_ENDING = 0x474e4445
};

struct usage_account {
	_Atomic uint32_t state;
	uint32_t unused;
	char slice[SLICE_ID_MAX];
	uint8_t uuid[SLICE_UUID_BYTES];
	uint64_t check;
	_Atomic uint64_t charged_ns, queue_ns, quanta, revocations;
	_Atomic uint64_t quantum_ends[SCHED_ENDS];
	/* Allocations that the memory limit refused. From the first one on, a slice without compute has an account,
	 * too. */
	_Atomic uint64_t refusals;
	_Atomic uint64_t ended[USAGE_COUNTERS];
	uint64_t before; /* USAGE_RECORD_ENDING: .ns of the GPU becomes .before + .charged_ns */
};

struct usage_client {
	/* USAGE_RECORD_ENDING: .ended of the account becomes .before + .counted. */
	_Atomic uint32_t state;
	uint32_t account;
	uint64_t serial, start; /* of the page; of the process */
	uint32_t pid, gpu;      /* index in the page */
	uint64_t check;
	_Atomic uint64_t charged_ns;
	_Atomic uint64_t counted[USAGE_COUNTERS];
	uint64_t before[USAGE_COUNTERS];
	uint64_t base[USAGE_COUNTERS]; /* the page's counters that .counted does not include */
};

struct usage_gpu {
	_Atomic uint32_t state;
	uint8_t uuid[SLICE_UUID_BYTES];
	uint64_t check;
	_Atomic uint64_t ns;
};

struct usage_accounts {
	struct persistent_file file;
	struct usage_accounts_head *head; /* in the file, before the records */
	struct usage_gpu *gpus;           /* [USAGE_GPUS_MAX] */
	struct usage_account *accounts;   /* [USAGE_ACCOUNTS_MAX] */
	struct usage_client *clients;     /* [USAGE_CLIENTS_MAX] */
	/* Not in the file. The clients of each account, as a list of indices. */
	uint32_t *first, *next;
	uint32_t *count; /* clients of each account */
	uint32_t shared; /* clients beyond the reserved ones of their accounts */
	bool *attached;  /* clients with a registration */
	uint32_t free_account, free_client; /* no free record is before these */
};

/* Opens or makes the file at @path, and checks its records. @boot: the kernel's boot ID. < 0: nothing is open. */
int usage_accounts_open(struct usage_accounts *accounts, const char *path, const char *boot,
	struct error *err) MUST_USE;
/* Unmaps the file; the records stay in it. Nothing happens if it is not open. */
void usage_accounts_close(struct usage_accounts *accounts);

/* Finds or makes the account. NULL: no room for one more. */
struct usage_account *usage_account(struct usage_accounts *accounts, const char *slice,
	const uint8_t *uuid);
/* NULL: none. */
struct usage_account *usage_account_find(const struct usage_accounts *accounts,
	const char *slice, const uint8_t *uuid);
/* Drops the account with its clients: the slice is gone. */
void usage_account_drop(struct usage_accounts *accounts, struct usage_account *a);

/* Accounts from this index on were never used. */
uint32_t usage_accounts_touched(const struct usage_accounts *accounts);
/* Clients from this index on were never used. */
uint32_t usage_clients_touched(const struct usage_accounts *accounts);

/* Makes a client without a registration. @base: NULL is zero. NULL: no room for one more. */
struct usage_client *usage_client_new(struct usage_accounts *accounts, struct usage_account *a,
	uint64_t serial, uint32_t gpu, uint32_t pid, uint64_t start, const uint64_t *base);
/* The client of a page, in this account only: a process of one slice cannot name a client of another slice.
 * NULL: none. */
struct usage_client *usage_client_find(const struct usage_accounts *accounts,
	const struct usage_account *a, uint64_t serial, uint32_t gpu);
/* The client has a registration from now on. */
void usage_client_attach(struct usage_accounts *accounts, const struct usage_client *client);
/* Whether the client has a registration. A client from the file of an earlier arbiter has none at first. */
bool usage_client_is_attached(const struct usage_accounts *accounts,
	const struct usage_client *client);
/* The connection is gone. While the process has more than USAGE_CLIENTS_SPARE clients without a registration,
 * ends the oldest of them, perhaps @client. */
void usage_client_detach(struct usage_accounts *accounts, const struct usage_client *client);
/* The process is gone, or will not register again. */
void usage_client_end(struct usage_accounts *accounts, struct usage_client *client);

/* Counts what the page says now. */
void usage_client_count(struct usage_client *client, const uint64_t now[USAGE_COUNTERS]);

/* Sum over all clients of the account, ended ones included. */
void usage_account_total(const struct usage_accounts *accounts, const struct usage_account *a,
	uint64_t ret[USAGE_COUNTERS]);

/* Finds or makes the record of a GPU. If all are in use, reuses one that @keep does not need. NULL: no room. */
struct usage_gpu *usage_gpu(struct usage_accounts *accounts, const uint8_t *uuid,
	bool (*keep)(void *arg, const uint8_t *uuid), void *arg);

/* Stores @to unless it is less than the stored value. */
void usage_raise(_Atomic uint64_t *at, uint64_t to);
/* Loads a figure that any thread may be storing, relaxed. */
uint64_t usage_load(const _Atomic uint64_t *at);

/* Stops at UINT64_MAX. */
static inline uint64_t usage_add(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}
