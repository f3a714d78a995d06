/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A file of records that are there for the next arbiter however this one ends: it is mapped shared, and the
 * kernel keeps what was stored. It needs no write and no flush, as it must not outlive a reboot. A head of
 * some pages, then records; it is sparse, so those that were never used take no memory. Without persistent_file_reserve()
 * for them a full file system would show as a signal at the first look. Thread: loop.
 */
#include "lib/base/error.h"

#include <stdbool.h>
#include <stddef.h>

struct persistent_file {
	int fd;
	void *head; /* the head; NULL: not open */
	size_t bytes, head_bytes;
};

/*
 * Opens or makes the file at @path, of @bytes of which the first @head_bytes have room. One of another size is
 * zero. @lock: it is this arbiter's as long as it is open; ERR_EXISTS: another has it. On an error nothing is
 * open.
 */
int persistent_file_open(struct persistent_file *f, const char *path, size_t bytes,
	size_t head_bytes, bool lock, struct error *err) MUST_USE;

/* Makes it zero, in its place and without touching each page of it. @path: for messages. */
int persistent_file_clear(const struct persistent_file *f, const char *path,
	struct error *err) MUST_USE;

/* Room for @bytes at @offset. False: the file system has none. */
bool persistent_file_reserve(const struct persistent_file *f, size_t offset,
	size_t bytes) MUST_USE;

/* Nothing where it is not open. */
void persistent_file_close(struct persistent_file *f);
