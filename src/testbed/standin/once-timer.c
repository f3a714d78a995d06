/* SPDX-License-Identifier: Apache-2.0 */
#include "testbed/standin/once-timer.h"

#include "lib/base/time.h"

#include <stdlib.h>

struct once_timer {
	uv_timer_t timer;
	void (*fn)(void *arg);
	void *arg;
};

static void on_once_timer_closed(uv_handle_t *h)
{
	free(h->data);
}

static void on_once_timer(uv_timer_t *t)
{
	struct once_timer *l = t->data;
	void (*fn)(void *) = l->fn;
	void *arg = l->arg;

	uv_close((uv_handle_t *)t, on_once_timer_closed);
	fn(arg);
}

struct once_timer *once_timer_start(uv_loop_t *loop, uint64_t delay_ns, void (*fn)(void *arg),
	void *arg)
{
	struct once_timer *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->fn = fn;
	l->arg = arg;
	l->timer.data = l;
	(void)uv_timer_init(loop, &l->timer); /* always returns 0 */
	(void)uv_timer_start(&l->timer, on_once_timer, (delay_ns + NS_PER_MS - 1) / NS_PER_MS,
		0);
	uv_unref((uv_handle_t *)&l->timer);
	return l;
}

struct once_timer *once_timer_cancel(struct once_timer *l)
{
	if (l)
		uv_close((uv_handle_t *)&l->timer, on_once_timer_closed);
	return NULL;
}
