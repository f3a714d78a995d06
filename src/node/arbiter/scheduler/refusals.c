/* SPDX-License-Identifier: Apache-2.0 */

/* How often each slice was refused memory: a counter of its account, which outlives the arbiter. */
#include "node/arbiter/scheduler/internal.h"

struct refusals_call {
	const char *slice;
	const uint8_t *uuid;
	uint64_t n;
	bool good;
};

static bool read_refusals_step(struct scheduler *scheduler, void *arg)
{
	struct refusals_call *c = arg;
	const struct usage_account *a =
		usage_account_find(&scheduler->accounts, c->slice, c->uuid);

	c->n = a ? usage_load(&a->refusals) : 0;
	return true;
}

uint64_t scheduler_read_refusals(struct scheduler *scheduler, const char *slice,
	const uint8_t *uuid)
{
	struct refusals_call c = { .slice = slice, .uuid = uuid };

	scheduler_call(scheduler, read_refusals_step, &c);
	return c.n;
}

static bool store_refusals_step(struct scheduler *scheduler, void *arg)
{
	struct refusals_call *c = arg;
	struct usage_account *a = usage_account(&scheduler->accounts, c->slice, c->uuid);

	c->good = a != NULL;
	if (a)
		usage_raise(&a->refusals, c->n);
	return true;
}

bool scheduler_store_refusals(struct scheduler *scheduler, const char *slice,
	const uint8_t *uuid, uint64_t refusals)
{
	struct refusals_call c = { .slice = slice, .uuid = uuid, .n = refusals };

	scheduler_call(scheduler, store_refusals_step, &c);
	return c.good;
}
