/* SPDX-License-Identifier: Apache-2.0 */
#include "io/nvml/monitor/monitor.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/time.h"
#include "lib/base/backoff.h"
#include "lib/base/minmax.h"
#include "io/nvml/monitor/client.h"
#include "io/nvml/monitor/reading.h"
#include "io/nvml/monitor/sampling.h"

#define BACKOFF_CRASH_NS  (100 * NS_PER_MS)
#define BACKOFF_DRIVER_NS (1 * NS_PER_SEC)
#define BACKOFF_MAX_NS    (30 * NS_PER_SEC)
/* A crash of a worker that lived this long starts the back-off from the beginning. */
#define LONG_LIFE_NS (10 * NS_PER_SEC)
/* The minimum time between a probe and the probe that a worker's hint causes. */
#define HINT_GAP_NS (250 * NS_PER_MS)
/* Limit between the closing of the socket and the end of the process. */
#define ENDING_MAX_NS      (500 * NS_PER_MS)
#define REAP_MAX_NS        (1 * NS_PER_SEC)
#define CRASH_GRACE_NS     (5 * NS_PER_SEC) /* age at which the last inventory is too old */
#define SESSION_INTERVALS  6 /* in probe intervals: limit between new sessions for a lost GPU */
#define SESSION_DEFAULT_NS (10 * NS_PER_SEC) /* where probes come on request only */
#define STOP_MAX_NS        (128 * NS_PER_MS)
#define PACKETS_A_TURN     1024

/* The poll handle of one worker's socket. The handle outlives the socket by one iteration of the loop. */
struct worker_watch {
	uv_poll_t poll;
	struct gpu_monitor *m; /* NULL: dropped */
};

struct gpu_monitor {
	uv_loop_t *loop;
	uv_timer_t timer;
	struct worker_watch *watch; /* of the running worker */
	struct gpu_monitor_ops ops;
	void *arg;
	struct nvml_client client;
	bool stopped;
	bool paused;          /* released: no worker starts until a request */
	bool probe_requested; /* a probe is due */
	bool ending;          /* the socket is closed, the process not yet collected */
	bool last_was_crash;
	bool mismatch;          /* in ops.down: see gpu_monitor_mismatch() */
	uint32_t failures;      /* in a row, for the back-off */
	uint32_t crashes;       /* since the last inventory */
	uint64_t retry_at_ns;   /* earliest start of a worker */
	uint64_t started_at_ns; /* start of the worker */
	uint64_t tried_at_ns;   /* the last start */
	uint64_t ending_since_ns;
	uint64_t hint_at_ns;   /* UINT64_MAX: no hint */
	uint64_t probed_at_ns; /* end of the last probe */
	uint64_t interval_ns, next_ns;
	/* for a GPU that needs a new session; 0: none */
	uint64_t session_wait_ns, session_at_ns;
	uint64_t reap_wait_ns, reap_at_ns;
	struct processes_read reading;
	struct sampling sampling;
	bool start_failed; /* in gpu_monitor_start(); reported from the loop */
	struct error start_error;
};

static void run_monitor_tasks(struct gpu_monitor *m);
static void on_monitor_timer(uv_timer_t *timer);

/* --- handles --- */

static void on_watch_closed(uv_handle_t *h)
{
	free(h->data);
}

static void drop_watch(struct gpu_monitor *m)
{
	struct worker_watch *w = m->watch;

	if (!w)
		return;
	m->watch = NULL;
	w->m = NULL;
	(void)uv_poll_stop(&w->poll);
	uv_close((uv_handle_t *)&w->poll, on_watch_closed);
}

static void kill_worker(struct gpu_monitor *m)
{
	drop_watch(m);
	m->reading.broken = m->reading.active; /* reported later, by run_monitor_tasks() */
	m->sampling.broken = m->sampling.active;
	client_kill(&m->client);
	m->ending = false;
	m->reap_wait_ns = NS_PER_MS;
	m->reap_at_ns = time_mono_ns() + m->reap_wait_ns;
}

/* When the next task is due, apart from packets. */
static uint64_t find_next_due_time(const struct gpu_monitor *m, uint64_t now)
{
	uint64_t at = UINT64_MAX;
	const struct nvml_client *c = &m->client;

	if (m->start_failed || m->reading.broken || m->sampling.broken)
		return now;
	if (m->ending)
		at = min_u64(at, now + NS_PER_MS);
	else if (c->pid > 0)
		at = min_u64(at, c->checked_at_ns + client_period_ns(c));
	if (c->n_ended > 0)
		at = min_u64(at, m->reap_at_ns);
	/*
	 * No probe begins before the probe under way, or the worker, has ended. The timer must not wait for times
	 * that pass meanwhile: they would be due again and again, and nothing else would run.
	 */
	if (m->paused || c->round.active || m->ending)
		return at;
	if (m->probe_requested)
		return c->pid > 0 ? now : min_u64(at, m->retry_at_ns);
	if (m->interval_ns)
		at = min_u64(at, m->next_ns);
	at = min_u64(at, probe_round_retry_at(&c->round));
	return min_u64(at, m->hint_at_ns);
}

static void arm_monitor_timer(struct gpu_monitor *m, uint64_t least_ms)
{
	uint64_t now = time_mono_ns(), at, ms;

	if (m->stopped)
		return;
	at = find_next_due_time(m, now);
	if (at == UINT64_MAX) {
		(void)uv_timer_stop(&m->timer);
		return;
	}
	ms = at <= now ? 0 : (at - now + NS_PER_MS - 1) / NS_PER_MS;
	(void)uv_timer_start(&m->timer, on_monitor_timer, ms < least_ms ? least_ms : ms, 0);
}

static void update_monitor_timer(struct gpu_monitor *m)
{
	uv_update_time(m->loop);
	arm_monitor_timer(m, 0);
}

/*
 * libuv (1.44) runs a timer that is due again in its own callback before it reads any socket, as often as that
 * happens. So this callback waits at least 1 ms and does not update the time of the loop.
 */
static void on_monitor_timer(uv_timer_t *timer)
{
	struct gpu_monitor *m = timer->data;

	run_monitor_tasks(m);
	arm_monitor_timer(m, 1);
}

/* --- failures --- */

static void delay_worker_retry(struct gpu_monitor *m, uint64_t base_ns, uint64_t now)
{
	m->retry_at_ns = now + backoff_doubled(base_ns, BACKOFF_MAX_NS, m->failures++);
	m->probe_requested = true;
}

/* NVML refuses, or no worker can start: wait for a driver. */
static void report_nvml_unusable(struct gpu_monitor *m, const struct error *why)
{
	kill_worker(m);
	if (m->last_was_crash)
		m->failures = 0;
	m->last_was_crash = false;
	delay_worker_retry(m, BACKOFF_DRIVER_NS, time_mono_ns());
	m->ops.down(m->arg, why);
}

/*
 * The worker has died, or is killed for what it does. One crash may be another process's kill, and the last
 * inventory is still valid. The second crash without an inventory in between is reported.
 */
static void on_worker_crashed(struct gpu_monitor *m, const struct error *why, bool notify)
{
	uint64_t now = time_mono_ns();

	kill_worker(m);
	if (!m->last_was_crash || now - m->started_at_ns >= LONG_LIFE_NS)
		m->failures = 0;
	m->last_was_crash = true;
	m->crashes++;
	delay_worker_retry(m, BACKOFF_CRASH_NS, now);
	/* Some kills in a row do not invalidate an inventory that is a moment old. */
	if (notify || (m->crashes >= 2 && (m->probed_at_ns == 0 ||
						  now - m->probed_at_ns >= CRASH_GRACE_NS)))
		m->ops.down(m->arg, why);
}

/* One GPU caused it and has been marked: continue without that GPU, at once. */
static void restart_without_gpu(struct gpu_monitor *m)
{
	kill_worker(m);
	m->probe_requested = true;
	m->retry_at_ns = time_mono_ns();
	if (m->client.round.last)
		m->ops.inventory(m->arg, m->client.round.last);
}

static void on_worker_hung(struct gpu_monitor *m, const struct error *why)
{
	/* If the call was on a GPU, client_check() has marked that GPU. Otherwise NVML as a whole hangs. */
	if (m->client.hung_gpu)
		restart_without_gpu(m);
	else
		on_worker_crashed(m, why, /* notify= */ true);
}

static void on_worker_ended(struct gpu_monitor *m, int status)
{
	struct error err = ERROR_INIT;
	char how[128];
	bool blame = client_status_text(status, how, sizeof how);

	if (client_crashed(&m->client, how, blame, time_mono_ns(), &err))
		restart_without_gpu(m);
	else
		on_worker_crashed(m, &err, /* notify= */ false);
}

/* --- messages of the worker --- */

static void on_worker_inventory(struct gpu_monitor *m)
{
	m->probed_at_ns = time_mono_ns();
	m->crashes = 0;
	if (!m->last_was_crash)
		m->failures = 0;
	m->ops.inventory(m->arg, m->client.round.last);
}

static void on_error_message(struct gpu_monitor *m, const union worker_msg *msg)
{
	struct error err = ERROR_INIT;

	(void)error_set(&err, (enum error_code)msg->error.code, "%s", msg->error.text);
	m->mismatch = msg->error.mismatch;
	report_nvml_unusable(m, &err);
	m->mismatch = false;
}

static bool apply_sample_message(struct gpu_monitor *m, const union worker_msg *msg)
{
	struct error err = ERROR_INIT;

	if (sampling_apply(&m->sampling, msg, time_mono_ns(), &err) >= 0)
		return true;
	on_worker_crashed(m, &err, /* notify= */ err.code != ERR_NOMEM);
	return false;
}

/* False: the caller reads nothing more of this worker. */
static bool apply_worker_news(struct gpu_monitor *m, enum client_news news,
	const union worker_msg *msg)
{
	switch (news) {
	case CLIENT_NONE:
	case CLIENT_MORE:
		return true;
	case CLIENT_INVENTORY:
		on_worker_inventory(m);
		return true;
	case CLIENT_XID:
		m->ops.xid(m->arg, msg->xid.uuid, msg->xid.xid, msg->xid.gi, msg->xid.ci);
		return true;
	case CLIENT_PROCESSES:
		reading_apply(&m->reading, &msg->processes);
		return true;
	case CLIENT_READ_END:
		reading_end(&m->reading, msg->read_end.seq, m->client.round.last);
		return true;
	case CLIENT_SAMPLE:
		return apply_sample_message(m, msg);
	case CLIENT_SAMPLE_END:
		sampling_end(&m->sampling, &msg->sample_end, time_mono_ns(),
			m->client.round.last);
		return true;
	case CLIENT_PROBE_HINT:
		m->hint_at_ns = m->probed_at_ns + HINT_GAP_NS;
		return true;
	case CLIENT_REINIT:
		kill_worker(m);
		m->probe_requested = true;
		m->retry_at_ns = time_mono_ns();
		return false;
	case CLIENT_ERROR:
		on_error_message(m, msg);
		return false;
	case CLIENT_CLOSED:
	default:
		drop_watch(m);
		m->ending = true;
		m->ending_since_ns = time_mono_ns();
		return false;
	}
}

static void on_worker_readable(uv_poll_t *poll, int status, int events)
{
	struct worker_watch *w = (struct worker_watch *)poll->data;
	struct gpu_monitor *m = w->m;

	(void)status; /* reading reports an error of the descriptor */
	(void)events;
	for (int i = 0; i < PACKETS_A_TURN && m && m->watch == w; i++) {
		struct error err = ERROR_INIT;
		enum client_news news;
		union worker_msg msg;

		if (client_receive(&m->client, &news, &msg, &err) < 0) {
			on_worker_crashed(m, &err, /* notify= */ true);
			break;
		}
		if (news == CLIENT_NONE || !apply_worker_news(m, news, &msg))
			break;
	}
	if (!m || m->stopped)
		return;
	run_monitor_tasks(m);
	update_monitor_timer(m);
}

/* --- probes --- */

static int start_worker(struct gpu_monitor *m, uint64_t now, struct error *err)
{
	struct worker_watch *w = calloc(1, sizeof *w);
	int r;

	m->tried_at_ns = m->started_at_ns = now;
	if (!w)
		return error_nomem(err);
	if (client_start(&m->client, now, err) < 0) {
		free(w);
		client_kill(&m->client);
		return -1;
	}
	r = uv_poll_init(m->loop, &w->poll, m->client.sock);
	if (r < 0) {
		free(w);
		client_kill(&m->client);
		return error_sys(err, -r, "watch the socket of the NVML worker");
	}
	w->m = m;
	w->poll.data = w;
	m->watch = w;
	r = uv_poll_start(&w->poll, UV_READABLE, on_worker_readable);
	if (r < 0) {
		kill_worker(m);
		return error_sys(err, -r, "watch the socket of the NVML worker");
	}
	return 0;
}

/*
 * Whether the next probe needs a new NVML session. The old session of a GPU that is lost or waits for its reset
 * keeps its old answer, and holds the GPU's device file open, which prevents the reset. But until a new session is
 * up, it gets no events of the healthy GPUs. So sessions are replaced less and less often: after one interval,
 * two, four, at most SESSION_INTERVALS.
 */
static bool wants_new_session(struct gpu_monitor *m, uint64_t now)
{
	uint64_t interval = m->interval_ns ? m->interval_ns : SESSION_DEFAULT_NS;

	if (!probe_round_needs_session(&m->client.round)) {
		m->session_wait_ns = 0;
		return false;
	}
	if (m->session_wait_ns == 0) {
		m->session_wait_ns = interval;
		m->session_at_ns = now + interval / 2;
		return false;
	}
	if (now < m->session_at_ns)
		return false;
	m->session_wait_ns = min_u64(m->session_wait_ns * 2, SESSION_INTERVALS * interval);
	m->session_at_ns = now + m->session_wait_ns - interval / 2;
	return true;
}

static void start_probe(struct gpu_monitor *m, uint64_t now)
{
	struct error err = ERROR_INIT;

	m->probe_requested = false;
	m->hint_at_ns = UINT64_MAX;
	if (m->interval_ns)
		m->next_ns = now + m->interval_ns;
	if (m->client.pid > 0 && wants_new_session(m, now))
		kill_worker(m);
	if (m->client.pid > 0) {
		if (client_probe(&m->client, now, &err) < 0)
			on_worker_crashed(m, &err, /* notify= */ true);
		return;
	}
	if (start_worker(m, now, &err) < 0)
		report_nvml_unusable(m, &err);
}

static void reap_ended_workers(struct gpu_monitor *m, uint64_t now)
{
	if (m->client.n_ended == 0 || now < m->reap_at_ns)
		return;
	if (!client_reap(&m->client)) {
		m->reap_wait_ns = min_u64(m->reap_wait_ns * 2, REAP_MAX_NS);
		m->reap_at_ns = now + m->reap_wait_ns;
	}
}

static void watch_worker(struct gpu_monitor *m, uint64_t now)
{
	struct error err = ERROR_INIT;
	int status;

	if (m->ending) {
		if (client_collect(&m->client, &status)) {
			m->ending = false;
			on_worker_ended(m, status);
		} else if (now - m->ending_since_ns >= ENDING_MAX_NS) {
			(void)error_set(&err, ERR_UNAVAILABLE,
				"the NVML worker closed its socket but does not end");
			on_worker_crashed(m, &err, /* notify= */ false);
		}
	} else if (m->client.pid > 0 &&
		   now >= m->client.checked_at_ns + client_period_ns(&m->client) &&
		   client_check(&m->client, now, &err)) {
		on_worker_hung(m, &err);
	}
}

/* Answers the requests to a worker that has ended. */
static void report_broken_requests(struct gpu_monitor *m)
{
	struct error err = ERROR_INIT;

	if (!m->reading.broken && !m->sampling.broken)
		return;
	(void)error_set(&err, ERR_UNAVAILABLE, "the NVML worker ended meanwhile");
	if (!m->stopped && m->reading.broken)
		reading_fail(&m->reading, &err);
	if (!m->stopped && m->sampling.broken)
		sampling_fail(&m->sampling, &err);
}

/* Runs all tasks that are due. A callback may stop the monitor meanwhile. */
static void run_monitor_tasks(struct gpu_monitor *m)
{
	uint64_t now = time_mono_ns();

	if (m->start_failed) {
		m->start_failed = false;
		report_nvml_unusable(m, &m->start_error);
	}
	reap_ended_workers(m, now);
	if (!m->stopped)
		watch_worker(m, now);
	report_broken_requests(m);
	if (m->stopped || m->paused)
		return;
	if (m->interval_ns && now >= m->next_ns) {
		m->probe_requested = true;
		m->next_ns = now + m->interval_ns;
	}
	if (now >= m->hint_at_ns) {
		m->probe_requested = true;
		m->hint_at_ns = UINT64_MAX;
	}
	if (!m->client.round.active && now >= probe_round_retry_at(&m->client.round))
		m->probe_requested = true;
	if (!m->probe_requested || m->ending || m->client.round.active)
		return;
	if (m->client.pid > 0 || now >= m->retry_at_ns)
		start_probe(m, now);
}

/* --- interface --- */

int gpu_monitor_start(struct gpu_monitor **ret, uv_loop_t *loop,
	const struct gpu_monitor_options *options, const struct gpu_monitor_ops *ops, void *arg,
	struct error *err)
{
	struct gpu_monitor *m = calloc(1, sizeof *m);
	uint64_t now = time_mono_ns();
	int r;

	if (!m)
		return error_nomem(err);
	if (client_init(&m->client, options, /* events= */ true, err) < 0) {
		free(m);
		return -1;
	}
	r = uv_timer_init(loop, &m->timer);
	if (r < 0) {
		client_fini(&m->client);
		free(m);
		return error_sys(err, -r, "make a timer for the GPU monitor");
	}
	m->loop = loop;
	m->timer.data = m;
	m->ops = *ops;
	m->arg = arg;
	m->hint_at_ns = UINT64_MAX;
	/* At once, so that NVML starts while the caller continues with its own start. */
	if (start_worker(m, now, &m->start_error) < 0)
		m->start_failed = true;
	update_monitor_timer(m);
	*ret = m;
	return 0;
}

void gpu_monitor_probe(struct gpu_monitor *m)
{
	uint64_t now = time_mono_ns();

	m->probe_requested = true;
	m->paused = false;
	/* A driver may have been loaded. But requests do not shorten the back-off of a crashing library. */
	if (m->client.pid == 0 && !m->last_was_crash)
		m->retry_at_ns = min_u64(m->retry_at_ns, m->tried_at_ns + BACKOFF_CRASH_NS);
	if (m->client.pid == 0 && m->retry_at_ns < now)
		m->retry_at_ns = now;
	update_monitor_timer(m);
}

void gpu_monitor_probe_all(struct gpu_monitor *m)
{
	probe_round_unskip_all(&m->client.round);
	gpu_monitor_probe(m);
}

void gpu_monitor_set_interval(struct gpu_monitor *m, uint64_t interval_ns)
{
	m->interval_ns = interval_ns;
	m->next_ns = time_mono_ns() + interval_ns;
	update_monitor_timer(m);
}

void gpu_monitor_want_p2p(struct gpu_monitor *m, bool wanted)
{
	if (m->client.round.p2p == wanted)
		return;
	m->client.round.p2p = wanted;
	if (!wanted || m->paused)
		return;
	m->hint_at_ns = min_u64(m->hint_at_ns, time_mono_ns());
	update_monitor_timer(m);
}

void gpu_monitor_release(struct gpu_monitor *m)
{
	kill_worker(m);
	m->paused = true;
	m->probe_requested = false;
	m->hint_at_ns = UINT64_MAX;
	m->retry_at_ns = 0;
	update_monitor_timer(m);
}

int gpu_monitor_processes(struct gpu_monitor *m, const char *const *uuids, uint32_t n,
	gpu_processes_done *done, void *arg, struct error *err)
{
	uint16_t gpus[GPU_NODE_MAX];
	uint32_t n_gpus;

	if (m->client.pid == 0 || m->ending || m->paused || !m->client.round.last)
		return error_set(err, ERR_UNAVAILABLE, "NVML cannot be asked now");
	if (m->reading.active) /* the new request replaces the older one */
		reading_fini(&m->reading);
	if (reading_begin(&m->reading, uuids, n, &m->client.round, gpus, &n_gpus, err) < 0)
		return -1;
	m->reading.done = done;
	m->reading.arg = arg;
	if (client_read(&m->client, m->reading.seq, gpus, n_gpus, time_mono_ns(), err) < 0) {
		reading_fini(&m->reading);
		return -1;
	}
	update_monitor_timer(m);
	return 0;
}

int gpu_monitor_sample(struct gpu_monitor *m, const struct gpu_sample_request *rq,
	gpu_sample_done *done, void *arg, struct error *err)
{
	if (m->client.pid == 0 || m->ending || m->paused || !m->client.round.last)
		return error_set(err, ERR_UNAVAILABLE, "NVML cannot be asked now");
	if (m->sampling.active)
		return error_set(err, ERR_UNAVAILABLE, "a sample is under way already");
	if (sampling_begin(&m->sampling, err) < 0)
		return -1;
	m->sampling.done = done;
	m->sampling.arg = arg;
	if (client_sample(&m->client, m->sampling.seq, rq->fields, rq->interval_ns,
		    time_mono_ns(), err) < 0) {
		sampling_fini(&m->sampling);
		return -1;
	}
	update_monitor_timer(m);
	return 0;
}

bool gpu_monitor_mismatch(const struct gpu_monitor *m)
{
	return m->mismatch;
}

bool gpu_monitor_released(struct gpu_monitor *m)
{
	return client_reap(&m->client) && m->client.pid == 0;
}

static void on_monitor_timer_closed(uv_handle_t *h)
{
	struct gpu_monitor *m = h->data;

	client_fini(&m->client);
	free(m);
}

/* Collects the worker for a short time, so that the devices are free when the agent ends. */
static void on_stopped_timer(uv_timer_t *timer)
{
	struct gpu_monitor *m = timer->data;

	if (!client_reap(&m->client) && m->reap_wait_ns < STOP_MAX_NS) {
		m->reap_wait_ns *= 2;
		(void)uv_timer_start(timer, on_stopped_timer, m->reap_wait_ns / NS_PER_MS, 0);
		return;
	}
	uv_close((uv_handle_t *)timer, on_monitor_timer_closed);
}

struct gpu_monitor *gpu_monitor_stop(struct gpu_monitor *m)
{
	if (!m)
		return NULL;
	m->stopped = true;
	reading_fini(&m->reading);
	sampling_fini(&m->sampling);
	kill_worker(m);
	(void)uv_timer_start(&m->timer, on_stopped_timer, 0, 0);
	return NULL;
}
