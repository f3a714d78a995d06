/* SPDX-License-Identifier: Apache-2.0 */
#include "container/gate/launches.h"

#include "container/sys.h"

#include <stdio.h>
#include <sys/mman.h>

#define PATH_ROOM 1100

static struct launch_log *map_gate_launch_log(int fd)
{
	struct launch_log *log;
	struct stat st;

	if (sys_fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
		st.st_size != (off_t)LAUNCH_LOG_BYTES)
		return NULL;
	log = mmap(NULL, LAUNCH_LOG_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (log == MAP_FAILED)
		return NULL;
	if (log->magic == LAUNCH_LOG_MAGIC && log->version == LAUNCH_LOG_VERSION &&
		madvise(log, LAUNCH_LOG_BYTES, MADV_DONTFORK) == 0)
		return log;
	(void)munmap(log, LAUNCH_LOG_BYTES);
	return NULL;
}

struct launch_log *gate_launches_open(const char *dir)
{
	char path[PATH_ROOM];
	struct launch_log *log;
	int fd;

	if ((size_t)snprintf(path, sizeof(path), "%s/" LAUNCH_LOG_FILE, dir) >= sizeof(path))
		return NULL;
	fd = sys_open(path, O_RDWR | O_NOFOLLOW);
	if (fd < 0)
		return NULL;
	log = map_gate_launch_log(fd);
	(void)sys_close(fd);
	return log;
}

void gate_launches_add(struct launch_log *log, uintptr_t kind)
{
	uint64_t n = atomic_fetch_add_explicit(&log->next, 1, memory_order_relaxed);
	struct launch_log_entry *e = &log->entries[n % LAUNCH_LOG_ENTRIES];

	atomic_store_explicit(&e->number, 0, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	atomic_store_explicit(&e->at_ns, sys_now_ns(), memory_order_relaxed);
	atomic_store_explicit(&e->kind,
		(uint32_t)((uint64_t)kind * UINT64_C(0x9e3779b97f4a7c15) >> 32),
		memory_order_relaxed);
	atomic_store_explicit(&e->number, n + 1, memory_order_release);
}
