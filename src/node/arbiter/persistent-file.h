/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A file of records for the next arbiter, however this one ends. The file is mapped shared, so the kernel keeps
 * what was stored. No write and no flush is needed, since the file need not outlive a reboot. The file has a head
 * of some pages, then records. The file is sparse: records that were never used take no memory. Call
 * persistent_file_reserve() before the first access to a record. Otherwise a full file system shows as a signal at
 * that access. Thread: loop.
 */
#include "lib/base/error.h"

#include <stdbool.h>
#include <stddef.h>

struct persistent_file {
	int fd;
	void *head; /* the mapping; NULL: not open */
	size_t bytes, head_bytes;
};

/*
 * Opens or makes the file at @path, of @bytes; the first @head_bytes are reserved. A file of another size is
 * cleared. @lock: locks the file for this arbiter while it is open; ERR_EXISTS: another arbiter has it. On an
 * error nothing is open.
 */
int persistent_file_open(struct persistent_file *f, const char *path, size_t bytes,
	size_t head_bytes, bool lock, struct error *err) MUST_USE;

/* Clears the file in place, without touching each of its pages. @path: for messages. */
int persistent_file_clear(const struct persistent_file *f, const char *path,
	struct error *err) MUST_USE;

/* Reserves @bytes at @offset. False: the file system is full. */
bool persistent_file_reserve(const struct persistent_file *f, size_t offset,
	size_t bytes) MUST_USE;

/* Does nothing if the file is not open. */
void persistent_file_close(struct persistent_file *f);
