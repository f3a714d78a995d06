/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/warn.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>

#define WARN_LINES 16
#define WARN_BYTES 512

_Static_assert(WARN_CAUSES <= WARN_LINES, "each cause has its line");

static _Atomic(unsigned int) said; /* a bit for each cause */

void warn_once(enum warn_cause cause, const char *fmt, ...)
{
	static const char prefix[] = "gpuslice: ";
	char line[WARN_BYTES];
	unsigned int bit = 1U << (unsigned int)cause;
	size_t at = sizeof(prefix) - 1;
	int saved = errno, n;
	va_list args;

	if (atomic_fetch_or_explicit(&said, bit, memory_order_relaxed) & bit)
		return;
	memcpy(line, prefix, at);
	va_start(args, fmt);
	n = vsnprintf(line + at, sizeof(line) - at - 1, fmt, args);
	va_end(args);
	if (n > 0)
		at += (size_t)n < sizeof(line) - at - 1 ? (size_t)n : sizeof(line) - at - 2;
	line[at++] = '\n';
	/* Nobody is left to tell that it could not be said. */
	if (write(STDERR_FILENO, line, at) < 0)
		errno = 0;
	errno = saved;
}
