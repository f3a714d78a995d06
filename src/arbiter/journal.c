/* SPDX-License-Identifier: Apache-2.0 */
#include "arbiter/journal.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

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
	sizeof(struct journal_head) + JOURNAL_RECORDS * sizeof(struct book_record);

static bool is_ours(const struct journal_head *h, const char *boot)
{
	return atomic_load_explicit(&h->magic, memory_order_acquire) == JOURNAL_MAGIC &&
	       h->version == JOURNAL_VERSION && h->record_bytes == sizeof(struct book_record) &&
	       h->records == JOURNAL_RECORDS && !strncmp(h->boot, boot, sizeof(h->boot));
}

static void begin(struct journal_head *h, const char *boot, uint64_t wall_ns)
{
	h->version = JOURNAL_VERSION;
	h->record_bytes = sizeof(struct book_record);
	h->records = JOURNAL_RECORDS;
	(void)snprintf(h->boot, sizeof(h->boot), "%s", boot);
	atomic_store_explicit(&h->serial, wall_ns, memory_order_relaxed);
	atomic_store_explicit(&h->magic, JOURNAL_MAGIC, memory_order_seq_cst);
}

/* Locked, of the right size, mapped. */
static int map_file(struct journal *j, const char *path, struct error *err)
{
	struct stat st;
	void *at;
	int r;

	if (flock(j->fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno == EWOULDBLOCK)
			return error_set(err, ERR_EXISTS,
				"'%s': another arbiter has this directory", path);
		return error_sys(err, errno, "lock '%s'", path);
	}
	if (fstat(j->fd, &st) < 0)
		return error_sys(err, errno, "look at '%s'", path);
	if ((size_t)st.st_size != journal_bytes &&
		(ftruncate(j->fd, 0) < 0 || ftruncate(j->fd, (off_t)journal_bytes) < 0))
		return error_sys(err, errno, "size '%s'", path);
	/* Without it a full file system would show as a signal at the first look. */
	r = posix_fallocate(j->fd, 0, sizeof(struct journal_head));
	if (r)
		return error_sys(err, r, "room for '%s'", path);
	at = mmap(NULL, journal_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, j->fd, 0);
	if (at == MAP_FAILED)
		return error_sys(err, errno, "map '%s'", path);
	j->head = at;
	return 0;
}

int journal_open(struct journal *j, const char *path, const char *boot, uint64_t wall_ns,
	struct error *err)
{
	int r;

	*j = (struct journal){ .fd = -1 };
	(void)snprintf(j->path, sizeof(j->path), "%s", path);
	j->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (j->fd < 0)
		return error_sys(err, errno, "open '%s'", path);
	if (map_file(j, path, err) < 0) {
		journal_close(j);
		return -1;
	}
	if (!is_ours(j->head, boot)) {
		atomic_store_explicit(&j->head->magic, 0, memory_order_seq_cst);
		/* Zero without touching each page of it. */
		r = ftruncate(j->fd, 0) < 0 || ftruncate(j->fd, (off_t)journal_bytes) < 0
			    ? errno
			    : posix_fallocate(j->fd, 0, sizeof(struct journal_head));
		if (r) {
			(void)error_sys(err, r, "size '%s'", path);
			journal_close(j);
			return -1;
		}
		begin(j->head, boot, wall_ns ? wall_ns : 1);
	}
	j->records = (struct book_record *)(j->head + 1);
	return 0;
}

void journal_close(struct journal *j)
{
	if (j->head)
		(void)munmap(j->head, journal_bytes);
	closep(&j->fd);
	*j = (struct journal){ .fd = -1 };
}

size_t journal_touched(const struct journal *j)
{
	size_t n = atomic_load_explicit(&j->head->touched, memory_order_acquire);

	return n < JOURNAL_RECORDS ? n : JOURNAL_RECORDS;
}

bool journal_lost(const struct journal *j)
{
	struct stat there, ours;

	if (fstat(j->fd, &ours) < 0)
		return false;
	if (stat(j->path, &there) < 0)
		return errno == ENOENT || errno == ENOTDIR;
	return there.st_dev != ours.st_dev || there.st_ino != ours.st_ino;
}

struct book_record *journal_record(struct journal *j)
{
	size_t n = journal_touched(j);

	for (size_t i = 0; i < n; i++) {
		struct book_record *r = &j->records[i];

		if (atomic_load_explicit(&r->state, memory_order_acquire) != BOOK_USED)
			return r;
	}
	if (n == JOURNAL_RECORDS ||
		posix_fallocate(j->fd,
			(off_t)(sizeof(struct journal_head) + n * sizeof(struct book_record)),
			sizeof(struct book_record)) != 0)
		return NULL;
	atomic_store_explicit(&j->head->touched, (uint32_t)n + 1, memory_order_seq_cst);
	return &j->records[n];
}

uint64_t journal_serial(struct journal *j)
{
	return atomic_fetch_add_explicit(&j->head->serial, 1, memory_order_seq_cst) + 1;
}
