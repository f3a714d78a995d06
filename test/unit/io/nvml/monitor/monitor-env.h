/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A monitor on a loop of its own, with the real worker, and what the monitor has reported so far. */
#include "lib/base/time.h"
#include "io/nvml/monitor/monitor.h"

/* Long enough for a sanitizer on a busy machine; no test waits for it when all is well. */
#define MONITOR_TIMEOUT_NS (20 * NS_PER_SEC)
#define CALL_TIMEOUT_NS    (300 * NS_PER_MS)

struct monitor_watcher {
	uv_loop_t loop;
	uv_timer_t tick;
	struct gpu_monitor *m;
	struct inventory *inv;
	int inventories, downs, xids;
	struct error down;
	bool mismatch;
	char uuid[GPU_UUID_MAX];
	uint32_t xid, gi, ci;
	bool release_in_callback, stop_in_callback;
};

/* The worker of this build. */
const char *built_worker(void);

void monitor_watcher_start(struct monitor_watcher *s, const struct gpu_monitor_options *o);
void monitor_watcher_stop(struct monitor_watcher *s);

/* Runs the loop until @cond; the test ends if that does not come. */
#define run_until(s, cond)                                                 \
	do {                                                               \
		uint64_t until_ = time_mono_ns() + MONITOR_TIMEOUT_NS;     \
		while (!(cond)) {                                          \
			if (time_mono_ns() > until_)                       \
				fail_msg("waited in vain for: %s", #cond); \
			(void)uv_run(&(s)->loop, UV_RUN_ONCE);             \
		}                                                          \
	} while (0)
