/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor-env.h"

#include "support/test.h"

#include <limits.h>

const char *built_worker(void)
{
	static char path[PATH_MAX];

	return test_built(path, "../../src/io/nvml/worker/gpuslice-nvml");
}

static void on_inventory(void *arg, const struct inventory *inv)
{
	struct monitor_watcher *s = arg;
	struct error err = ERROR_INIT;

	s->inventories++;
	inventory_free(s->inv);
	s->inv = NULL;
	assert_ok(inventory_copy(&s->inv, inv, &err), &err);
	if (s->release_in_callback)
		gpu_monitor_release(s->m);
	if (s->stop_in_callback)
		s->m = gpu_monitor_stop(s->m);
}

static void on_down(void *arg, const struct error *why)
{
	struct monitor_watcher *s = arg;

	s->downs++;
	s->down = *why;
	s->mismatch = gpu_monitor_mismatch(s->m);
}

static void on_xid(void *arg, const char *uuid, uint32_t xid, uint32_t gi, uint32_t ci)
{
	struct monitor_watcher *s = arg;

	s->xids++;
	(void)snprintf(s->uuid, sizeof s->uuid, "%s", uuid);
	s->xid = xid;
	s->gi = gi;
	s->ci = ci;
}

static void on_tick(uv_timer_t *t)
{
	(void)t;
}

void monitor_watcher_start(struct monitor_watcher *s, const struct gpu_monitor_options *o)
{
	static const struct gpu_monitor_ops ops = { .inventory = on_inventory,
		.down = on_down,
		.xid = on_xid };
	struct error err = ERROR_INIT;

	assert_int_equal(uv_loop_init(&s->loop), 0);
	assert_int_equal(uv_timer_init(&s->loop, &s->tick), 0);
	assert_int_equal(uv_timer_start(&s->tick, on_tick, 5, 5), 0);
	assert_ok(gpu_monitor_start(&s->m, &s->loop, o, &ops, s, &err), &err);
}

void monitor_watcher_stop(struct monitor_watcher *s)
{
	s->m = gpu_monitor_stop(s->m);
	uv_close((uv_handle_t *)&s->tick, NULL);
	assert_int_equal(uv_run(&s->loop, UV_RUN_DEFAULT), 0);
	assert_int_equal(uv_loop_close(&s->loop), 0);
	s->inv = inventory_free(s->inv);
}
