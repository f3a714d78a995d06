/* SPDX-License-Identifier: Apache-2.0 */
#include "container/client/warn.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#define WARN_LINES 16
#define WARN_BYTES 512

_Static_assert(WARN_CAUSES <= WARN_LINES, "each cause has its line");

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
