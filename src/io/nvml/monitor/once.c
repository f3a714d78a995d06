/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_inventory_once(): one inventory for a program that answers and ends (monitor.h). Restarts the NVML
 * worker if a GPU hangs it or the library crashes it.
 */
#include "io/nvml/monitor/monitor.h"

#include <errno.h>
#include <poll.h>
#include <time.h>

#include "lib/base/time.h"
#include "io/nvml/monitor/client.h"

#define ENDING_MAX_NS (500 * NS_PER_MS)
/* Starts of the worker for one inventory: each GPU may hang once, and a crash is retried once. */
#define STARTS_MAX  (GPU_NODE_MAX + 4)
#define CRASHES_MAX 2

static void pause_ms(void)
{
	struct timespec ts = { .tv_nsec = (long)NS_PER_MS };

	(void)nanosleep(&ts, NULL);
}

/* Says why a worker ended by itself. True: one GPU caused it and is skipped from now on. */
static bool wait_worker_end(struct nvml_client *c, struct error *err)
{
	uint64_t until = time_mono_ns() + ENDING_MAX_NS;
	char how[128];
	int status = 0;
	bool blame;

	while (!client_collect(c, &status)) {
		if (time_mono_ns() > until) {
			(void)error_set(err, ERR_UNAVAILABLE,
				"the NVML worker closed its socket but does not end");
			client_kill(c);
			return false;
		}
		pause_ms();
	}
	blame = client_status_text(status, how, sizeof how);
	return client_crashed(c, how, blame, time_mono_ns(), err);
}

enum attempt_outcome { DONE, FAILED, AGAIN_BLAMED, AGAIN_CRASHED };

/* Reads what the worker has sent. 0: the probe goes on; > 0: *ret is the outcome of this attempt. */
static int read_worker_news(struct nvml_client *c, enum attempt_outcome *ret, struct error *err)
{
	enum client_news news;
	union worker_msg msg;

	*ret = FAILED;
	do {
		if (client_receive(c, &news, &msg, err) < 0)
			return 1;
	} while (news == CLIENT_MORE || news == CLIENT_XID || news == CLIENT_PROBE_HINT ||
		 news == CLIENT_PROCESSES || news == CLIENT_READ_END || news == CLIENT_SAMPLE ||
		 news == CLIENT_SAMPLE_END);
	if (news == CLIENT_NONE)
		return 0;
	if (news == CLIENT_ERROR)
		(void)error_set(err, (enum error_code)msg.error.code, "%s", msg.error.text);
	else if (news == CLIENT_INVENTORY)
		*ret = DONE;
	else if (news == CLIENT_REINIT)
		*ret = AGAIN_CRASHED;
	else
		*ret = wait_worker_end(c, err) ? AGAIN_BLAMED : AGAIN_CRASHED;
	return 1;
}

/* Runs one worker until an outcome. */
static enum attempt_outcome try_once(struct nvml_client *c, struct error *err)
{
	enum attempt_outcome r;

	if (client_start(c, time_mono_ns(), err) < 0)
		return FAILED;
	for (;;) {
		struct pollfd p = { .fd = c->sock, .events = POLLIN };

		if (poll(&p, 1, (int)(client_period_ns(c) / NS_PER_MS)) < 0 && errno != EINTR) {
			(void)error_sys(err, errno, "wait for the NVML worker");
			return FAILED;
		}
		if (read_worker_news(c, &r, err) > 0)
			return r;
		if (client_check(c, time_mono_ns(), err))
			return c->hung_gpu ? AGAIN_BLAMED : FAILED;
	}
}

int gpu_inventory_once(struct inventory **ret, const struct gpu_monitor_options *options,
	struct error *err)
{
	struct error why = ERROR_INIT;
	enum attempt_outcome r = FAILED;
	struct nvml_client c;
	int crashes = 0;

	if (client_init(&c, options, /* events= */ false, err) < 0)
		return -1;
	for (int i = 0; i < STARTS_MAX; i++) {
		r = try_once(&c, &why);
		client_kill(&c);
		if (r == DONE || r == FAILED ||
			(r == AGAIN_CRASHED && ++crashes >= CRASHES_MAX))
			break;
	}
	if (r == DONE)
		*ret = STEAL_PTR(c.round.last);
	else
		error_copy(err, &why);
	/* Collects workers that end at once; does not wait for a worker that the kernel holds. */
	for (int i = 0; i < 100 && !client_reap(&c); i++)
		pause_ms();
	client_fini(&c);
	return r == DONE ? 0 : -1;
}
