/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A small driver for the tests of memory and contexts. It has pointers, of which small ones share a granule,
 * physical memory and its mappings, contexts, and what the driver allocates for all these. It reuses freed
 * addresses and handles at once, which is the hardest case. Allocated memory must be within the limit, and within
 * the charges. Thread: any.
 */
#include "container/cuda/driver.h"
#include "container/charges/charges.h"
#include "container/client/link.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#define MIB     (UINT64_C(1) << 20)
#define G       CHARGES_GRANULE
#define LIMIT   (1024 * MIB)
#define PRIMARY (518 * MIB)

#define CHECK(condition)                                                                   \
	do {                                                                               \
		if (!(condition)) {                                                        \
			(void)fprintf(stderr, "# %s:%d: not so: %s\n", __FILE__, __LINE__, \
				#condition);                                               \
			_exit(1);                                                          \
		}                                                                          \
	} while (0)

/* Addresses from BASE, in granules; small ones in slots of a granule. */
#define BASE    (UINT64_C(0x7f) << 40)
#define SPAN    2048
#define SLOT    (UINT64_C(64) << 10)
#define HANDLES 64
#define LOW_MAX 16
#define LOW     (64 * MIB) /* between low pointers */
#define IN_POOL 0x5000     /* the pool's pointer, and its handle */
#define SMALL   (1 * MIB)

/* The bytes of all processes of a test (.total), and of each (.of). */
struct md_shared {
	_Atomic uint64_t total, of[8], over, refused, done;
	_Atomic bool stop;
};

extern struct md_shared *md_shared;
extern int md_me; /* which process this is */

struct memory_driver {
	uint32_t slots[SPAN];  /* in use, of a chunk */
	uint32_t length[SPAN]; /* of a large one that begins here */
	bool taken[SPAN];
	struct {
		int refs, maps;
		uint64_t bytes;
	} handles[HANDLES];
	int mapped[SPAN]; /* handle + 1 */
	int primary_refs;
	int contexts;
	size_t stack;
	CUresult fail; /* the next free, alloc or destroy */
	/* Called before and after the next free or release does anything, as another thread would at that
	 * moment. */
	void (*before)(void), (*after)(void);
	bool strict; /* one thread: the driver's allocated bytes never exceed the charged ones */
	uint64_t real_free;
	int context_refs;
	uint64_t pool;          /* that it holds */
	bool unmaps;            /* with the addresses, else they are refused */
	uint64_t low[LOW_MAX];  /* of pointers that fit into 32 bits */
	int mps;                /* runs the process under it; -1: does not know of that */
	_Atomic int attributes; /* so often it was asked */
};

extern struct memory_driver md;

/* A driver without allocations, on GPU 0 of the slice, which is device 3. */
void md_new(void);

/* The slice's page, and the used bytes of this process in it. */
struct slice_gpu_page *page(void);
uint64_t used(void);

/* Bytes that the driver has allocated for this process; md_driver_take() and md_driver_give() change them. */
uint64_t md_driver_bytes(void);
void md_driver_take(uint64_t bytes);
void md_driver_give(uint64_t bytes);
