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
 * the process lives. So that nobody's seats are in others' way, a process has TALLY_SPARE at most that wait in
 * an account (more than it has pages: a program that it executed over leaves one): the oldest ends before there
 * is one more. An account has TALLY_PART seats for itself, and with up to TALLY_ACCOUNTS_FAIR accounts
 * nobody can take them from it. All beyond that come from TALLY_SHARED, of which one slice has
 * TALLY_SHARED_SLICE at most.
 *
 * No figure ever becomes less: of a page that says less than before, or nonsense, the most that it said
 * counts, and sums stop at UINT64_MAX.
 *
 * A file of another boot, version or size is begun anew, and so is a record whose check is wrong.
 * Thread: loop. The journal's lock is this file's too: open it after that.
 */
#include "node/arbiter/kept-file.h"
#include "abi/slice-wire.h"
#include "lib/base/error.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#define TALLY_FILE     "arbiter.turns"
#define TALLY_ACCOUNTS 8192
#define TALLY_SEATS    16384
#define TALLY_GPUS     256
#define TALLY_NONE     UINT32_MAX

#define TALLY_SPARE         16
#define TALLY_ACCOUNTS_FAIR 256
#define TALLY_SHARED        (TALLY_SEATS / 2)
#define TALLY_PART          ((TALLY_SEATS - TALLY_SHARED) / TALLY_ACCOUNTS_FAIR)
#define TALLY_SHARED_SLICE  (TALLY_SHARED / 4)

enum tally_counter {
	TALLY_LAUNCHES,
	TALLY_COPIES,
	TALLY_BYTES,
	TALLY_WAITS,
	TALLY_WAIT_NS,
	TALLY_METER_NS,
	TALLY_COUNTERS
};

/* Of all records: those fields that .check is over do not change while .state is not TALLY_FREE. */
enum tally_state { TALLY_FREE = 0, TALLY_USED = 0x4c4c4154, TALLY_ENDING = 0x474e4445 };

struct tally_account {
	_Atomic uint32_t state;
	uint32_t unused;
	char slice[SLICE_ID_MAX];
	uint8_t uuid[SLICE_UUID_BYTES];
	uint64_t check;
	_Atomic uint64_t charged_ns, queue_ns, turns, revocations;
	_Atomic uint64_t
		refusals; /* of memory: also of a slice without turns, from its first one on */
	_Atomic uint64_t ended[TALLY_COUNTERS];
	uint64_t before; /* TALLY_ENDING: .ns of the GPU is to be .before + .charged_ns */
};

struct tally_seat {
	_Atomic uint32_t
		state; /* TALLY_ENDING: .ended of the account is to be .before + .counted */
	uint32_t account;
	uint64_t serial, start; /* of the page; of the process */
	uint32_t pid, gpu;      /* place in the page */
	uint64_t check;
	_Atomic uint64_t charged_ns;
	_Atomic uint64_t counted[TALLY_COUNTERS];
	uint64_t before[TALLY_COUNTERS];
	uint64_t base[TALLY_COUNTERS]; /* of the page: that is no part of .counted */
};

struct tally_busy {
	_Atomic uint32_t state;
	uint8_t uuid[SLICE_UUID_BYTES];
	uint64_t check;
	_Atomic uint64_t ns;
};

struct tally {
	struct kept_file file;
	struct tally_head *head;        /* in it, before the records */
	struct tally_busy *busy;        /* [TALLY_GPUS] */
	struct tally_account *accounts; /* [TALLY_ACCOUNTS] */
	struct tally_seat *seats;       /* [TALLY_SEATS] */
	/* Not in the file. Seats of each account, as a list of indices. */
	uint32_t *first, *next;
	uint32_t *count;                  /* of each account: its seats */
	uint32_t shared;                  /* seats beyond the parts of their accounts */
	bool *held;                       /* seats that somebody looks after */
	uint32_t free_account, free_seat; /* no free one is before it */
};

/* @boot: the kernel's boot ID. */
int tally_open(struct tally *t, const char *path, const char *boot, struct error *err) MUST_USE;
void tally_close(struct tally *t);

/* The account, found or begun; NULL: there is no room for one more. */
struct tally_account *tally_account(struct tally *t, const char *slice, const uint8_t *uuid);
/* NULL: there is none. */
struct tally_account *tally_account_find(const struct tally *t, const char *slice,
	const uint8_t *uuid);
/* It and its seats are forgotten: there is no such slice any more. */
void tally_account_drop(struct tally *t, struct tally_account *a);

/* Records from these on were never used. */
uint32_t tally_accounts_touched(const struct tally *t);
uint32_t tally_seats_touched(const struct tally *t);

/* Nobody holds it yet. @base: NULL is zero. NULL: there is no room for one more. */
struct tally_seat *tally_seat_new(struct tally *t, struct tally_account *a, uint64_t serial,
	uint32_t gpu, uint32_t pid, uint64_t start, const uint64_t *base);
/* That of a page, of this account only: what one slice's process says does not reach another's. NULL: none. */
struct tally_seat *tally_seat_find(const struct tally *t, const struct tally_account *a,
	uint64_t serial, uint32_t gpu);
void tally_seat_hold(struct tally *t, const struct tally_seat *s);
bool tally_seat_held(const struct tally *t, const struct tally_seat *s);
/* Its connection is gone. Ends the oldest seats of its process that nobody holds, this one too, if there are more
 * than TALLY_SPARE. */
void tally_seat_release(struct tally *t, const struct tally_seat *s);
/* The process is gone, or will not come again. */
void tally_seat_end(struct tally *t, struct tally_seat *s);

/* What its page says now. */
void tally_count(struct tally_seat *s, const uint64_t now[TALLY_COUNTERS]);

/* Of all seats of the account, of those that ended too. */
void tally_total(const struct tally *t, const struct tally_account *a,
	uint64_t ret[TALLY_COUNTERS]);

/* Found or begun; where all are in use one of no GPU of @keep is given up. NULL: no room. */
struct tally_busy *tally_busy(struct tally *t, const uint8_t *uuid,
	bool (*keep)(void *arg, const uint8_t *uuid), void *arg);

/* The time in which anybody had work on the GPU. */
uint64_t tally_busy_ns(const struct tally *t, const struct tally_busy *b);

/* Stores what is not less than what is there. */
void tally_raise(_Atomic uint64_t *at, uint64_t to);
uint64_t tally_get(const _Atomic uint64_t *at);

/* Sums stop at UINT64_MAX. */
static inline uint64_t tally_add(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}
