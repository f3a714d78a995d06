/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Physical memory of simulated GPUs: who holds which allocation, and whose it is. An allocation lives
 * while a client holds it or a descriptor that was exported is open somewhere. It is its oldest
 * holder's. Sums of bytes are kept by the caller, who is told of each change of owner.
 *
 * Contents are a memfd each, empty until written to, so that 80 GiB fit anywhere. Thread: one.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct memory_table;
struct device_memory;
struct memory_holder { /* part of a client */
	struct memory_hold *holds;
	uint32_t count;
};

struct memory_facts {
	uint64_t id, cookie, bytes;
	uint32_t slot, flags; /* SIM_DEVICE_MEM_* */
	int fd;               /* -1: no contents */
};

/* @bytes of @slot went from @from to @to; NULL: nobody, or it did not exist or does not any more (@lives). */
typedef void memory_moved_fn(void *arg, const struct memory_facts *m,
	struct memory_holder *from, struct memory_holder *to, bool lives);

struct memory_table *memory_table_new(memory_moved_fn *moved, void *arg); /* NULL: no memory */
struct memory_table *memory_table_free(struct memory_table *b);

/* Allocates, with one reference of @holder. NULL: no memory or descriptor on this machine. */
const struct memory_facts *memory_new(struct memory_table *b, struct memory_holder *holder,
	uint32_t slot, uint64_t bytes, uint32_t flags);

/* One reference more of what @id names, with its cookie. NULL: no such. */
const struct memory_facts *memory_open(struct memory_table *b, struct memory_holder *holder,
	uint64_t id, uint64_t cookie);

/* One less. False: @holder has none. */
bool memory_release(struct memory_table *b, struct memory_holder *holder, uint64_t id);
void memory_release_all(struct memory_table *b, struct memory_holder *holder);

/*
 * A descriptor (yours) that keeps the memory while any copy of it is open, and can be handed to
 * memory_import(). -1: @holder has no such, or too many (@max in all).
 */
int memory_export(struct memory_table *b, struct memory_holder *holder, uint64_t id,
	uint32_t max);
const struct memory_facts *memory_import(struct memory_table *b, struct memory_holder *holder,
	int fd);
uint32_t memory_exports(const struct memory_table *b);

/* Readable when memory_exports_closed() has something to do. */
int memory_exports_fd(const struct memory_table *b);
bool memory_exports_closed(struct memory_table *b);
