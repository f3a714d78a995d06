/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Physical memory of simulated GPUs: the holders and the owner of each allocation. An allocation lives while a
 * client holds it, or while an exported descriptor of it is open in any process. Its oldest holder owns it. The
 * caller keeps the sums of bytes; this module calls it at each change of owner.
 *
 * Each content is a memfd, empty until a program writes to it, so that 80 GiB fit on any machine. Thread: one.
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
	int fd;               /* -1: no content */
};

/* The owner of @m changed from @from to @to. NULL: no owner. @lives is false when the allocation ends. */
typedef void memory_moved_fn(void *arg, const struct memory_facts *m,
	struct memory_holder *from, struct memory_holder *to, bool lives);

struct memory_table *memory_table_new(memory_moved_fn *moved, void *arg); /* NULL: no memory */
/* Frees all allocations, without a call of @moved. Accepts NULL. Returns NULL. */
struct memory_table *memory_table_free(struct memory_table *table);

/* Allocates, with one reference of @holder. NULL: this machine has no memory or descriptor. */
const struct memory_facts *memory_new(struct memory_table *table, struct memory_holder *holder,
	uint32_t slot, uint64_t bytes, uint32_t flags);

/*
 * Adds a reference to allocation @id, which must have @cookie. NULL: no such allocation, or no further reference.
 */
const struct memory_facts *memory_open(struct memory_table *table, struct memory_holder *holder,
	uint64_t id, uint64_t cookie);

/* Drops a reference. False: @holder has none. */
bool memory_release(struct memory_table *table, struct memory_holder *holder, uint64_t id);
/* Drops all references of @holder. */
void memory_release_all(struct memory_table *table, struct memory_holder *holder);

/*
 * A descriptor (the caller's) for memory_import(), which keeps the memory while any copy of it is open. -1:
 * @holder has no such memory, or @max exports exist.
 */
int memory_export(struct memory_table *table, struct memory_holder *holder, uint64_t id,
	uint32_t max);
/*
 * Adds a reference of @holder to the memory of @fd, which stays the caller's. NULL: no such export, or no further
 * reference.
 */
const struct memory_facts *memory_import(struct memory_table *table,
	struct memory_holder *holder, int fd);
uint32_t memory_exports(const struct memory_table *table); /* number of open exports */

/* Readable when memory_exports_closed() has work. That returns true if an export ended. */
int memory_exports_fd(const struct memory_table *table);
bool memory_exports_closed(struct memory_table *table);
