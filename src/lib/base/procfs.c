/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/procfs.h"

#include "lib/base/fd.h"
#include "lib/base/time.h"
#include "lib/base/parse.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The kernel prepares so much at a time, whatever the reader asks for. */
#define PIECE_BYTES 4096

static uint64_t thread_ns(void)
{
	struct timespec t = { .tv_sec = 0 };

	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * NS_PER_SEC + (uint64_t)t.tv_nsec;
}

static bool is_spent(const struct procfs_budget *budget, uint64_t used_ns)
{
	return used_ns >= budget->cpu_ns || time_mono_ns() >= budget->end_ns;
}

static enum procfs_outcome read_pieces(struct buf *b, int fd,
	const struct procfs_budget *budget, uint64_t began_ns)
{
	char piece[PIECE_BYTES];

	for (;;) {
		uint64_t used_ns = thread_ns() - began_ns;
		ssize_t n;

		if (is_spent(budget, used_ns))
			return PROCFS_SPENT;
		if (used_ns >= budget->file_cpu_ns)
			return PROCFS_TRUNCATED;
		n = read(fd, piece, sizeof(piece));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return PROCFS_GONE;
		if (n == 0)
			return PROCFS_WHOLE;
		if (b->len + (size_t)n > budget->file_bytes)
			return PROCFS_TRUNCATED;
		buf_add(b, piece, (size_t)n);
		if (!buf_ok(b))
			return PROCFS_TRUNCATED;
	}
}

enum procfs_outcome procfs_read(struct buf *b, const char *procfs, uint32_t pid,
	const char *file, struct procfs_budget *budget)
{
	uint64_t began_ns = thread_ns(), used_ns;
	CLEANUP(closep) int fd = -1;
	enum procfs_outcome outcome;
	char path[PATH_MAX];

	buf_clear(b);
	if (is_spent(budget, 0))
		return PROCFS_SPENT;
	(void)snprintf(path, sizeof(path), "%s/%u/%s", procfs, (unsigned)pid, file);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return PROCFS_GONE;
	outcome = read_pieces(b, fd, budget, began_ns);
	used_ns = thread_ns() - began_ns;
	budget->cpu_ns -= used_ns < budget->cpu_ns ? used_ns : budget->cpu_ns;
	return outcome;
}

void procfs_boot_id(const char *procfs, char *ret, size_t cap)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(256);
	char path[PATH_MAX];

	ret[0] = '\0';
	if (path_join(path, sizeof(path), procfs, "sys/kernel/random/boot_id", NULL) == 0 &&
		file_read(path, &b, NULL) == 0)
		(void)snprintf(ret, cap, "%.*s", (int)strcspn(buf_str(&b), "\n"), buf_str(&b));
}

/* --- time that a thread waits --- */

/* "TIME_ON_CPU TIME_WAITED SLICES" */
bool schedstat_waited(const char *path, uint64_t *ret_ns)
{
	char text[96], *waited;
	CLEANUP(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (n <= 0)
		return false;
	text[n] = '\0';
	waited = strchr(text, ' ');
	if (!waited)
		return false;
	waited++;
	waited[strcspn(waited, " ")] = '\0';
	return parse_u64(waited, ret_ns);
}
