/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/backoff.h"

#include "lib/base/minmax.h"
#include "lib/base/time.h"

#include <sys/random.h>

uint64_t backoff_doubled(uint64_t min_ns, uint64_t max_ns, uint32_t failures)
{
	uint64_t wait = min_u64(min_ns, max_ns);

	/* Doubling stops at @max_ns, so neither the shift nor the product can overflow. */
	for (uint32_t i = 0; i < failures && wait < max_ns; i++)
		wait = wait > max_ns / 2 ? max_ns : wait * 2;
	return wait;
}

uint64_t backoff_next(struct backoff *b, uint64_t retry_after_ns, uint64_t random)
{
	uint64_t wait = backoff_doubled(b->min_ns, b->max_ns, b->failures);

	if (b->failures < UINT32_MAX)
		b->failures++;
	wait -= random % (wait / 2 + 1);
	retry_after_ns += random % (retry_after_ns / 4 + 1);
	return max_u64(wait, retry_after_ns);
}

void backoff_reset(struct backoff *b)
{
	b->failures = 0;
}

uint64_t backoff_random(void)
{
	uint64_t r;

	/* Before the kernel has entropy, the clock is random enough for jitter. */
	if (getrandom(&r, sizeof(r), GRND_NONBLOCK) != sizeof(r))
		r = time_mono_ns();
	return r;
}
