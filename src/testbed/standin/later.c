/* SPDX-License-Identifier: Apache-2.0 */
#include "testbed/standin/later.h"

#include "lib/base/time.h"

#include <stdlib.h>

struct later {
	uv_timer_t timer;
	void (*fn)(void *arg);
	void *arg;
};

static void on_closed(uv_handle_t *h)
{
	free(h->data);
}

static void on_timer(uv_timer_t *t)
{
	struct later *l = t->data;
	void (*fn)(void *) = l->fn;
	void *arg = l->arg;

	uv_close((uv_handle_t *)t, on_closed);
	fn(arg);
}

struct later *later_start(uv_loop_t *loop, uint64_t delay_ns, void (*fn)(void *arg), void *arg)
{
	struct later *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->fn = fn;
	l->arg = arg;
	l->timer.data = l;
	(void)uv_timer_init(loop, &l->timer); /* cannot say no */
	(void)uv_timer_start(&l->timer, on_timer, (delay_ns + NS_PER_MS - 1) / NS_PER_MS, 0);
	uv_unref((uv_handle_t *)&l->timer);
	return l;
}

struct later *later_cancel(struct later *l)
{
	if (l)
		uv_close((uv_handle_t *)&l->timer, on_closed);
	return NULL;
}
