/* SPDX-License-Identifier: Apache-2.0 */
#include "container/sys.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MADV_WIPEONFORK
#	define MADV_WIPEONFORK 18
#endif

#define WARN_LINES 16
#define WARN_BYTES 512
#define WIPED_MAX  8 /* blocks in one library that the fork handler can wipe */

_Static_assert(WARN_CAUSES <= WARN_LINES, "each cause has its line");

/* --- memory that a fork wipes --- */

/* The function behind pthread_atfork(), which is in another library on old systems. */
extern int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void),
	void *dso) __attribute__((weak));

/* Only for kernels without MADV_WIPEONFORK. */
static struct {
	_Atomic(void *) memory;
	_Atomic size_t bytes;
} by_hand[WIPED_MAX];

static void wipe_in_child(void)
{
	for (size_t i = 0; i < WIPED_MAX; i++) {
		void *p = atomic_load(&by_hand[i].memory);

		if (p)
			memset(p, 0, atomic_load(&by_hand[i].bytes));
	}
}

static void wipe_by_hand(void *memory, size_t bytes)
{
	static atomic_flag registered = ATOMIC_FLAG_INIT;

	for (size_t i = 0; i < WIPED_MAX; i++) {
		size_t none = 0;

		if (!atomic_compare_exchange_strong(&by_hand[i].bytes, &none, bytes))
			continue;
		atomic_store(&by_hand[i].memory, memory);
		break;
	}
	if (__register_atfork && !atomic_flag_test_and_set(&registered))
		(void)__register_atfork(NULL, NULL, wipe_in_child, by_hand);
}

void *wiped_map(size_t bytes)
{
	int e = errno;
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	errno = e;
	return p == MAP_FAILED ? NULL : p;
}

void wiped_unmap(void *p, size_t bytes)
{
	int e = errno;

	(void)munmap(p, bytes);
	errno = e;
}

static void *init_wiped_block(_Atomic(void *) *where, size_t bytes)
{
	void *p = wiped_map(bytes), *was = NULL;
	int e = errno;
	bool wiped;

	if (!p)
		return NULL;
	wiped = !madvise(p, bytes, MADV_WIPEONFORK);
	errno = e;
	if (!atomic_compare_exchange_strong(where, &was, p)) {
		wiped_unmap(p, bytes);
		return was;
	}
	if (!wiped)
		wipe_by_hand(p, bytes);
	return p;
}

void *wiped_get(_Atomic(void *) *where, size_t bytes)
{
	void *p = atomic_load_explicit(where, memory_order_acquire);

	return __builtin_expect(p != NULL, 1) ? p : init_wiped_block(where, bytes);
}

/* --- warnings --- */

static unsigned int said; /* one bit for each cause */

void warn_once(enum warn_cause cause, const char *fmt, ...)
{
	char text[WARN_BYTES], line[WARN_BYTES + 16];
	unsigned int bit = 1U << (unsigned int)cause;
	int saved = errno, n;
	va_list args;

	if (__atomic_fetch_or(&said, bit, __ATOMIC_RELAXED) & bit)
		return;
	va_start(args, fmt);
	/* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): it does not see the va_start() */
	(void)vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	n = snprintf(line, sizeof(line), "gpuslice: %s\n", text);
	/* Not write(): that can be cancelled, and a caller may hold a lock here. A failed write has no other
	 * place for a report. */
	if (n > 0 && syscall(SYS_write, STDERR_FILENO, line, (size_t)n) < 0)
		errno = 0;
	errno = saved;
}
