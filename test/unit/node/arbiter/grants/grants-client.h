/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A grants table with slices of two GPUs, and processes like the interception library's: they use their credit,
 * and request more when that is too little. No sockets: the page and the record are in the test.
 */
#include "support/test.h"

#include "abi/slice-layout.h"
#include "node/arbiter/grants/grants.h"

#define MIB UINT64_C(1048576)
#define GIB (1024 * MIB)

extern const uint8_t uuids[2][SLICE_UUID_BYTES];

struct grants_test_client {
	bool alive;
	struct slice_page page;
	struct grants_record rec;
	struct grants_member *m;
	uint64_t has[2];      /* the true used bytes, by its own count */
	uint64_t physical[2]; /* of that, what NVML would show */
};

struct grants_slice *slice_new(struct grants_table *table, const char *id, uint64_t limit);
enum slice_status join(struct grants_table *table, struct grants_slice *s,
	struct grants_test_client *c, uint32_t pid);
uint64_t credit(const struct grants_test_client *c, unsigned int gpu);

/* Charges @bytes to the credit, as charges.c does in one thread. @hidden: no hook charges them. False:
 * refused. */
bool allocate_from_credit(struct grants_test_client *c, unsigned int gpu, uint64_t bytes,
	bool hidden);
void free_to_credit(struct grants_test_client *c, unsigned int gpu, uint64_t bytes);

/* The grants table of another arbiter, with the living ones of the @n clients; their pages are not found yet. */
void restart(struct grants_table *table, struct grants_slice **s, uint64_t limit,
	struct grants_test_client *c, size_t n);
