/* SPDX-License-Identifier: Apache-2.0 */
#include "io/kube-api/backoff.h"

#include "lib/base/time.h"

#include <sys/random.h>

uint64_t backoff_next(struct backoff *b, uint64_t retry_after_ns, uint64_t random)
{
	uint64_t wait = b->min_ns;

	/* Doubling stops at .max_ns, so neither the shift nor the product can overflow. */
	for (uint32_t i = 0; i < b->failures && wait < b->max_ns; i++)
		wait = wait > b->max_ns / 2 ? b->max_ns : wait * 2;
	if (wait > b->max_ns)
		wait = b->max_ns;
	if (b->failures < UINT32_MAX)
		b->failures++;
	wait -= random % (wait / 2 + 1);
	retry_after_ns += random % (retry_after_ns / 4 + 1);
	return wait > retry_after_ns ? wait : retry_after_ns;
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
