/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The records of the book (node/arbiter/grants/grants.h) in a file that is kept for the next arbiter. It need not outlive
 * a reboot: no process does. A file of another boot, version or size is begun anew; then arbiters believe
 * what the processes' pages say.
 *
 * The file is locked by the arbiter that has it: there is one. Thread: loop.
 */
#include "node/arbiter/grants/grants.h"
#include "node/arbiter/persistent-file.h"

#include <limits.h>

#define JOURNAL_FILE    "arbiter.book"
#define JOURNAL_RECORDS GRANTS_MEMBERS_MAX

struct journal {
	struct persistent_file file;
	char path[PATH_MAX];
	struct journal_head *head;     /* in it, before the records */
	struct grants_record *records; /* [JOURNAL_RECORDS] */
};

/*
 * @boot: the kernel's boot ID. @wall_ns: the wall clock, from which serials start in a new file, so that
 * none of a lost one comes again. ERR_EXISTS: another arbiter has it.
 */
int journal_open(struct journal *j, const char *path, const char *boot, uint64_t wall_ns,
	struct error *err) MUST_USE;
void journal_close(struct journal *j);

/* The file's name leads to another file now, or to none. */
bool journal_is_replaced(const struct journal *j);

/* A free record, or NULL: all are in use, or there is no room for one more on the file system. It is in use
 * as soon as grants_record_fill() was there. */
struct grants_record *journal_record(struct journal *j);

/* Records from this one on were never used: looking at them would only cost memory. */
size_t journal_touched(const struct journal *j);

/* A number that no page had yet; never 0. */
uint64_t journal_serial(struct journal *j);
