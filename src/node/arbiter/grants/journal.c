/* SPDX-License-Identifier: Apache-2.0 */
#include "node/arbiter/grants/journal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define JOURNAL_MAGIC   UINT32_C(0x4c4a5047) /* "GPJL" */
#define JOURNAL_VERSION 1
#define BOOT_MAX        40

struct journal_head {
	_Atomic uint32_t magic; /* stored last */
	uint32_t version, record_bytes, records;
	char boot[BOOT_MAX];
	_Atomic uint64_t serial;  /* the last one given */
	_Atomic uint32_t touched; /* records from here on were never used: no memory yet */
	uint8_t unused[4096 - 68];
};

_Static_assert(sizeof(struct journal_head) == 4096, "records begin at a page");

static const size_t journal_bytes =
	sizeof(struct journal_head) + JOURNAL_RECORDS * sizeof(struct grants_record);

static bool is_grants_journal_valid(const struct journal_head *h, const char *boot)
{
	return atomic_load_explicit(&h->magic, memory_order_acquire) == JOURNAL_MAGIC &&
	       h->version == JOURNAL_VERSION &&
	       h->record_bytes == sizeof(struct grants_record) &&
	       h->records == JOURNAL_RECORDS && !strncmp(h->boot, boot, sizeof(h->boot));
}

static void init_grants_journal(struct journal_head *h, const char *boot, uint64_t wall_ns)
{
	h->version = JOURNAL_VERSION;
	h->record_bytes = sizeof(struct grants_record);
	h->records = JOURNAL_RECORDS;
	(void)snprintf(h->boot, sizeof(h->boot), "%s", boot);
	atomic_store_explicit(&h->serial, wall_ns, memory_order_relaxed);
	atomic_store_explicit(&h->magic, JOURNAL_MAGIC, memory_order_seq_cst);
}

int journal_open(struct journal *j, const char *path, const char *boot, uint64_t wall_ns,
	struct error *err)
{
	*j = (struct journal){ 0 };
	(void)snprintf(j->path, sizeof(j->path), "%s", path);
	if (persistent_file_open(&j->file, path, journal_bytes, sizeof(struct journal_head),
		    true, err) < 0)
		return -1;
	j->head = j->file.head;
	j->records = (struct grants_record *)(j->head + 1);
	if (is_grants_journal_valid(j->head, boot))
		return 0;
	atomic_store_explicit(&j->head->magic, 0, memory_order_seq_cst);
	if (persistent_file_clear(&j->file, path, err) < 0) {
		journal_close(j);
		return -1;
	}
	init_grants_journal(j->head, boot, wall_ns ? wall_ns : 1);
	return 0;
}

void journal_close(struct journal *j)
{
	persistent_file_close(&j->file);
}

size_t journal_touched(const struct journal *j)
{
	size_t n = atomic_load_explicit(&j->head->touched, memory_order_acquire);

	return n < JOURNAL_RECORDS ? n : JOURNAL_RECORDS;
}

bool journal_is_replaced(const struct journal *j)
{
	struct stat there, ours;

	if (fstat(j->file.fd, &ours) < 0)
		return false;
	if (stat(j->path, &there) < 0)
		return errno == ENOENT || errno == ENOTDIR;
	return there.st_dev != ours.st_dev || there.st_ino != ours.st_ino;
}

struct grants_record *journal_record(struct journal *j)
{
	size_t n = journal_touched(j);

	for (size_t i = 0; i < n; i++) {
		struct grants_record *r = &j->records[i];

		if (atomic_load_explicit(&r->state, memory_order_acquire) != GRANTS_RECORD_USED)
			return r;
	}
	if (n == JOURNAL_RECORDS ||
		!persistent_file_reserve(&j->file,
			sizeof(struct journal_head) + n * sizeof(struct grants_record),
			sizeof(struct grants_record)))
		return NULL;
	atomic_store_explicit(&j->head->touched, (uint32_t)n + 1, memory_order_seq_cst);
	return &j->records[n];
}

uint64_t journal_serial(struct journal *j)
{
	return atomic_fetch_add_explicit(&j->head->serial, 1, memory_order_seq_cst) + 1;
}
