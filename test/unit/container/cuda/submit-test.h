/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Between test-submit.c and what gen-submit-test.py makes for it. */
#include "container/cuda/driver.h"

#include <stddef.h>

/* NONE: it is no work. */
enum submit_kind { SUBMIT_LAUNCH, SUBMIT_COPY, SUBMIT_SYNC, SUBMIT_PASS, SUBMIT_NONE };

/* A parameter: any bits, or readable zeros, or a number of things in arrays of them. */
enum submit_canary { SUBMIT_BITS, SUBMIT_POINTER, SUBMIT_COUNT };

struct submit_row {
	const char *name;
	unsigned int slot, params;
	enum submit_kind kind;
	bool own;
	bool parks; /* its stream may wait for others */
	void (*real)(void);
	CUresult (*call)(struct submit_row *row); /* through the hook; fills in what follows */
	CUstream stream;
	uint64_t bytes;
};

extern struct submit_row submit_rows[];
extern const size_t submit_row_count;

/* Fills a parameter with bytes that are its own. */
void submit_canary(unsigned int i, void *where, size_t size, enum submit_canary kind);
/* The driver received it. */
void submit_got(unsigned int i, const void *where, size_t size);
CUresult submit_called(void);
