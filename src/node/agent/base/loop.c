/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/base/loop.h"

/* --- wake --- */

static void on_idle(uv_idle_t *idle)
{
	struct wake *w = idle->data;

	/* Before the call, so that a wake_up() from @fn counts for the next iteration. */
	(void)uv_idle_stop(idle);
	w->fn(w->arg);
}

void wake_init(struct wake *w, uv_loop_t *loop, void (*fn)(void *arg), void *arg)
{
	w->fn = fn;
	w->arg = arg;
	(void)uv_idle_init(loop, &w->idle);
	w->idle.data = w;
}

void wake_up(struct wake *w)
{
	if (!uv_is_closing((uv_handle_t *)&w->idle))
		(void)uv_idle_start(&w->idle, on_idle);
}

void wake_close(struct wake *w)
{
	uv_close((uv_handle_t *)&w->idle, NULL);
}

/* --- the end --- */

void failure_set(struct failure *f, const struct error *why)
{
	if (f->why.code == ERR_NONE)
		f->why = *why;
	uv_stop(f->loop);
}
