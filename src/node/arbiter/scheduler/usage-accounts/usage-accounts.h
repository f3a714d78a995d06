/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What slices have used of their GPUs' time: accounts that outlive this program, in a file that is mapped
 * shared like the book (node/arbiter/grants/journal.h), so the kernel keeps what was stored however it ends.
 *
 *	account		a slice on one GPU: what was charged to it, and what its seats that are no more
 *			have counted
 *	seat		a process there (one registration): what was counted of it so far
 *	busy		a GPU: what was charged there to slices that are no more. With the accounts that are
 *			there it is the time in which anybody had work: turns share out just that
 *
 * Charges are the arbiter's own figures. Counters are of the page that the process writes
 * (abi/turn-page.h): a seat has what its page said last, and the account's total is what ended plus
 * its seats. So a page that comes again after a restart counts on where it was, and nothing is counted
 * twice. A seat that ends goes over to .ended with all that it had; a kill within that is finished by the
 * next one. Of a page that comes when its seat has ended, or that nobody knows, counts what it says beyond
 * .base: what it said when it came.
 *
 * Room. A seat is held by a connection, or it waits for its process to come again; that may be for as long as
 * the process lives. So that nobody's seats are in others' way, a process has USAGE_CLIENTS_SPARE at most that wait in
 * an account (more than it has pages: a program that it executed over leaves one): the oldest ends before there
 * is one more. An account has USAGE_CLIENTS_RESERVED seats for itself, and with up to USAGE_ACCOUNTS_FAIR accounts
 * nobody can take them from it. All beyond that come from USAGE_CLIENTS_SHARED, of which one slice has
 * USAGE_CLIENTS_SHARED_SLICE at most.
 *
 * No figure ever becomes less: of a page that says less than before, or nonsense, the most that it said
 * counts, and sums stop at UINT64_MAX.
 *
 * A file of another boot, version or size is begun anew, and so is a record whose check is wrong.
 * Thread: loop. The journal's lock is this file's too: open it after that.
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
#define USAGE_NONE          UINT32_MAX

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

/* Of all records: those fields that .check is over do not change while .state is not USAGE_RECORD_FREE. */
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
	_Atomic uint64_t
		refusals; /* of memory: also of a slice without turns, from its first one on */
	_Atomic uint64_t ended[USAGE_COUNTERS];
	uint64_t
		before; /* USAGE_RECORD_ENDING: .ns of the GPU is to be .before + .charged_ns */
};

struct usage_client {
	_Atomic uint32_t
		state; /* USAGE_RECORD_ENDING: .ended of the account is to be .before + .counted */
	uint32_t account;
	uint64_t serial, start; /* of the page; of the process */
	uint32_t pid, gpu;      /* place in the page */
	uint64_t check;
	_Atomic uint64_t charged_ns;
	_Atomic uint64_t counted[USAGE_COUNTERS];
	uint64_t before[USAGE_COUNTERS];
	uint64_t base[USAGE_COUNTERS]; /* of the page: that is no part of .counted */
};

struct usage_gpu {
	_Atomic uint32_t state;
	uint8_t uuid[SLICE_UUID_BYTES];
	uint64_t check;
	_Atomic uint64_t ns;
};

struct usage_accounts {
	struct persistent_file file;
	struct usage_accounts_head *head; /* in it, before the records */
	struct usage_gpu *gpus;           /* [USAGE_GPUS_MAX] */
	struct usage_account *accounts;   /* [USAGE_ACCOUNTS_MAX] */
	struct usage_client *clients;     /* [USAGE_CLIENTS_MAX] */
	/* Not in the file. Seats of each account, as a list of indices. */
	uint32_t *first, *next;
	uint32_t *count;                    /* of each account: its seats */
	uint32_t shared;                    /* seats beyond the parts of their accounts */
	bool *attached;                     /* seats that somebody looks after */
	uint32_t free_account, free_client; /* no free one is before it */
};

/* @boot: the kernel's boot ID. */
int usage_accounts_open(struct usage_accounts *t, const char *path, const char *boot,
	struct error *err) MUST_USE;
void usage_accounts_close(struct usage_accounts *t);

/* The account, found or begun; NULL: there is no room for one more. */
struct usage_account *usage_account(struct usage_accounts *t, const char *slice,
	const uint8_t *uuid);
/* NULL: there is none. */
struct usage_account *usage_account_find(const struct usage_accounts *t, const char *slice,
	const uint8_t *uuid);
/* It and its seats are forgotten: there is no such slice any more. */
void usage_account_drop(struct usage_accounts *t, struct usage_account *a);

/* Records from these on were never used. */
uint32_t usage_accounts_touched(const struct usage_accounts *t);
uint32_t usage_clients_touched(const struct usage_accounts *t);

/* Nobody holds it yet. @base: NULL is zero. NULL: there is no room for one more. */
struct usage_client *usage_client_new(struct usage_accounts *t, struct usage_account *a,
	uint64_t serial, uint32_t gpu, uint32_t pid, uint64_t start, const uint64_t *base);
/* That of a page, of this account only: what one slice's process says does not reach another's. NULL: none. */
struct usage_client *usage_client_find(const struct usage_accounts *t,
	const struct usage_account *a, uint64_t serial, uint32_t gpu);
void usage_client_attach(struct usage_accounts *t, const struct usage_client *s);
bool usage_client_is_attached(const struct usage_accounts *t, const struct usage_client *s);
/* Its connection is gone. Ends the oldest seats of its process that nobody holds, this one too, if there are more
 * than USAGE_CLIENTS_SPARE. */
void usage_client_detach(struct usage_accounts *t, const struct usage_client *s);
/* The process is gone, or will not come again. */
void usage_client_end(struct usage_accounts *t, struct usage_client *s);

/* What its page says now. */
void usage_client_count(struct usage_client *s, const uint64_t now[USAGE_COUNTERS]);

/* Of all seats of the account, of those that ended too. */
void usage_account_total(const struct usage_accounts *t, const struct usage_account *a,
	uint64_t ret[USAGE_COUNTERS]);

/* Found or begun; where all are in use one of no GPU of @keep is given up. NULL: no room. */
struct usage_gpu *usage_gpu(struct usage_accounts *t, const uint8_t *uuid,
	bool (*keep)(void *arg, const uint8_t *uuid), void *arg);

/* The time in which anybody had work on the GPU. */
uint64_t usage_gpu_busy_ns(const struct usage_accounts *t, const struct usage_gpu *b);

/* Stores what is not less than what is there. */
void usage_raise(_Atomic uint64_t *at, uint64_t to);
uint64_t usage_load(const _Atomic uint64_t *at);

/* Sums stop at UINT64_MAX. */
static inline uint64_t usage_add(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}
