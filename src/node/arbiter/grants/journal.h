/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The records of the grants (node/arbiter/grants/grants.h) in a file for the next arbiter. The file need not
 * outlive a reboot, since no process does. The arbiter clears a file of another boot, version or size. After that,
 * arbiters rely on the figures in the processes' pages.
 *
 * The file is JOURNAL_FILE in the arbiter's directory: a head of 4096 bytes (journal.c), then JOURNAL_RECORDS times
 * struct grants_record. "Book", in the file's name and in GRANTS_RECORD_USED, is a former word for the journal, and
 * the format keeps it.
 *
 * The arbiter locks the file, so that only one arbiter uses it. Thread: loop.
 */
#include "node/arbiter/grants/grants.h"
#include "node/arbiter/persistent-file.h"

#include <limits.h>

#define JOURNAL_FILE    "arbiter.book"
#define JOURNAL_RECORDS GRANTS_MEMBERS_MAX

struct journal {
	struct persistent_file file;
	char path[PATH_MAX];
	struct journal_head *head;     /* at the start of the file */
	struct grants_record *records; /* [JOURNAL_RECORDS] */
};

/*
 * @boot: the kernel's boot ID. @wall_ns: the wall clock. Serials of a new file start from it, so that no serial of
 * a lost file is used again. ERR_EXISTS: another arbiter has the file.
 */
int journal_open(struct journal *j, const char *path, const char *boot, uint64_t wall_ns,
	struct error *err) MUST_USE;
/* Unlocks and unmaps the file; the records stay in it. Nothing happens if it is not open. */
void journal_close(struct journal *j);

/* Whether the file's name leads to another file now, or to none. */
bool journal_is_replaced(const struct journal *j);

/* A free record. NULL: all are in use, or the file system has no space for one more. grants_record_fill() marks it
 * used. */
struct grants_record *journal_record(struct journal *j);

/* The number of records that were ever used. Reading the others would only cost memory. */
size_t journal_touched(const struct journal *j);

/* A number that no page has had; never 0. */
uint64_t journal_serial(struct journal *j);
