/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/monitoring/internal.h"

#include "node/agent/base/kubelet-checkpoint.h"
#include "node/agent/monitoring/build/build.h"
#include "lib/base/array.h"
#include "lib/base/fd.h"
#include "lib/base/time.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ANSWERS_TIMEOUT_NS (8 * NS_PER_SEC) /* for the answers of a round */
#define TICK_MS            100              /* while a round waits for answers */
#define LIST_AWAY_NS       (60 * NS_PER_SEC)

/* Limit of the log lines that processes can cause. */
#define UNREAD_PER_NS (60 * NS_PER_SEC)
#define UNREAD_BURST  5

static void on_round_timer(uv_timer_t *t);

/* --- publish --- */

static void publish_view(struct monitoring *mon)
{
	if (mon->round.unpublished_view)
		mon->c.ops->publish(mon->c.arg, mon->round.unpublished_view);
	mon->round.unpublished_view = view_unref(mon->round.unpublished_view);
}

/* --- the timer of rounds --- */

static void arm_round_timer(struct monitoring *mon, uint64_t ms)
{
	if (mon->stopped)
		return;
	/* The loop's cached time may be old here, as Allocate comes from a socket. */
	uv_update_time(mon->c.loop);
	(void)uv_timer_start(&mon->timer, on_round_timer, ms, 0);
}

/* The agent allocated a device within MONITORING_LIST_TIMEOUT_NS, and the kubelet has not listed that device yet. */
static bool waits_for_list(const struct monitoring *mon, uint64_t now)
{
	for (size_t i = 0; i < mon->pending.n; i++)
		if (mon->pending.v[i].at_ns + MONITORING_LIST_TIMEOUT_NS > now)
			return true;
	return false;
}

/* Arms the timer for the next round: an interval after the current round began, or soon after an allocation. The
 * kubelet first gets MONITORING_LIST_DELAY_MS to record the allocation. */
static void arm_next(struct monitoring *mon)
{
	uint64_t now = time_mono_ns(), due = mon->round.began_ns + mon->c.options.interval_ns;
	uint64_t soon = mon->round.began_ns + MONITORING_MIN_GAP_MS * NS_PER_MS;

	if (soon < mon->allocated_ns + MONITORING_LIST_DELAY_MS * NS_PER_MS)
		soon = mon->allocated_ns + MONITORING_LIST_DELAY_MS * NS_PER_MS;
	if (due > soon && waits_for_list(mon, now))
		due = soon;
	arm_round_timer(mon, due > now ? (due - now) / NS_PER_MS + 1 : 1);
}

static void end_round(struct monitoring *mon)
{
	mon->round.step = MONITORING_IDLE;
	mon->round.sample = sample_free(mon->round.sample);
	mon->round.list = pod_devices_free(mon->round.list);
	arm_next(mon);
}

/* --- work on a pool thread: one at a time --- */

static struct monitoring *monitoring_of(uv_work_t *w)
{
	return w->data;
}

/*
 * Begins @step: runs @work on a pool thread, then @done on the loop. Cannot fail: libuv refuses only a request
 * without @work.
 */
static void start_pool_work(struct monitoring *mon, enum monitoring_step step, uv_work_cb work,
	uv_after_work_cb done)
{
	mon->round.step = step;
	(void)uv_queue_work(mon->c.loop, &mon->work, work, done);
}

/* --- persist, then publish --- */

static void run_persist_work(uv_work_t *w)
{
	monitoring_persist_write(&monitoring_of(w)->persist, time_mono_ns());
}

static void on_round_persisted(uv_work_t *w, int status)
{
	struct monitoring *mon = monitoring_of(w);

	(void)status;
	monitoring_persist_written(&mon->persist);
	if (!mon->stopped)
		publish_view(mon);
	end_round(mon);
}

static int prepare_persist_round(struct monitoring *mon, const struct monitoring_round *r,
	struct error *err)
{
	const struct monitoring_persist_node node = { .node = mon->c.link->node_name,
		.instance_type = monitoring_instance_type(mon),
		.region = monitoring_region(mon),
		.currency = mon->price.currency,
		.price_source = mon->price.source,
		.price_nano_per_hour = mon->price.nano_per_hour,
		.n_gpus = r->in.n_gpus,
		.gpus = r->gpus,
		.wall_ns = r->wall_ns,
		.dt_ns = r->dt_ns,
		.since_wall_ns = mon->since_wall_ns };
	CLEANUP(freep)
	struct monitoring_persist_xid *xids = calloc(mon->xids.n + 1, sizeof(*xids));

	if (!xids)
		return error_nomem(err);
	for (size_t i = 0; i < mon->xids.n; i++) {
		memcpy(xids[i].uuid, mon->xids.v[i].uuid, sizeof(xids[i].uuid));
		xids[i].xid = mon->xids.v[i].xid;
		xids[i].count = mon->xids.v[i].count;
		xids[i].last_wall_ns = mon->xids.v[i].last_wall_ns;
	}
	return monitoring_persist_prepare(&mon->persist, &mon->accounts, &r->in, &node, xids,
		mon->xids.n, &mon->charges, err);
}

/* --- count --- */

/*
 * If several containers share a GPU without slices, only PIDs tell how much each container uses. The component is
 * degraded while such a GPU exists and the agent does not see the node's processes.
 */
static bool has_shared_device(const struct view *v)
{
	for (uint32_t i = 0; i < v->n_devices; i++) {
		const struct view_device *device = &v->devices[i];

		if (device->n_replicas > 1 &&
			(device->mode == VIEW_TIME_SLICING || device->mode == VIEW_MPS))
			return true;
	}
	return false;
}

static void report_pod_usage(struct monitoring *mon, const struct view *v)
{
	struct error why = ERROR_INIT;

	if (mon->c.ops->kubelet_pids(mon->c.arg) == KUBELET_PIDS_OWN && has_shared_device(v))
		(void)error_set(&why, ERR_PERMISSION,
			"use by pod of shared GPUs is not known: set metrics.hostPID: true in the chart's values "
			"(hostPID: true in the pod); the agent has a PID namespace of its own and does not see the "
			"processes of pods");
	report_component(mon->c.reporter, COMPONENT_POD_USAGE, &why);
}

static void count_monitoring_round(struct monitoring *mon)
{
	struct monitoring_round r = { .now_ns = mon->round.began_ns,
		.wall_ns = time_wall_ns() };
	struct error err = ERROR_INIT;
	uint64_t began = time_mono_ns();

	r.dt_ns = r.now_ns > mon->last_count_ns ? r.now_ns - mon->last_count_ns : 0;
	if (r.dt_ns > ACCOUNT_ROUND_MAX_NS)
		r.dt_ns = ACCOUNT_ROUND_MAX_NS;
	monitoring_price_update(mon);
	if (monitoring_count_round(mon, &r, &err) == 0) {
		monitoring_pods_sync(&mon->pods, &mon->allocation_list, r.now_ns);
		mon->last_count_ns = r.now_ns;
		mon->round.unpublished_view = view_unref(mon->round.unpublished_view);
		mon->round.unpublished_view = monitoring_build_view(mon, &r, &err);
	}
	if (mon->round.unpublished_view)
		report_pod_usage(mon, mon->round.unpublished_view);
	if (err.code == ERR_NONE && prepare_persist_round(mon, &r, &err) == 0)
		start_pool_work(mon, MONITORING_PERSISTING, run_persist_work,
			on_round_persisted);
	mon->round_ns = time_mono_ns() - began;
	if (err.code != ERR_NONE)
		log_error("this round is not shown", LOG_STR("reason", err.msg));
	monitoring_round_fini(&r);
	if (mon->round.step != MONITORING_PERSISTING)
		end_round(mon);
}

/* --- read the checkpoint and the pods of processes --- */

static bool same_file(const struct stat *a, const struct stat *b)
{
	return a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
	       a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* A file that cannot be read leaves the last known checkpoint. */
static void read_checkpoint(struct monitoring *mon)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(KUBELET_CHECKPOINT_MAX);
	struct monitoring_checkpoint c;
	struct stat st;

	if (stat(mon->checkpoint.path, &st) < 0 || same_file(&st, &mon->checkpoint.stat) ||
		file_read(mon->checkpoint.path, &b, NULL) < 0 ||
		monitoring_checkpoint_parse(&c, buf_str(&b), b.len, NULL) < 0)
		return;
	monitoring_checkpoint_fini(&mon->checkpoint.content);
	mon->checkpoint.content = c;
	mon->checkpoint.stat = st;
}

static void read_usage_processes(struct monitoring_processes *p, const struct sample *s)
{
	monitoring_processes_begin(p);
	for (uint32_t i = 0; s && i < s->n; i++)
		for (uint32_t k = 0; k < s->devices[i].n_processes; k++)
			(void)monitoring_processes_read(p, s->devices[i].processes[k].pid);
	monitoring_processes_end(p);
}

/* Runs on a pool thread, which has the checkpoint, the sample and .processes meanwhile. The processes decide how
 * long this takes. */
static void read_work(uv_work_t *w)
{
	struct monitoring *mon = monitoring_of(w);

	read_checkpoint(mon);
	read_usage_processes(&mon->processes, mon->round.sample);
}

/* Logs once for each process, as long as the fault lasts. */
static void report_unread(struct monitoring *mon)
{
	struct monitoring_processes *p = &mon->processes;

	for (size_t i = 0; i < p->n; i++) {
		struct monitoring_process *process = &p->v[i];
		bool unread = process->oversize_rounds > 0 || process->over_budget;

		if (unread && !process->logged &&
			log_limit_pass(&mon->unread_limit, mon->round.began_ns, UNREAD_PER_NS,
				UNREAD_BURST))
			log_warn(
				"the pod of a process on a GPU is not fully known: /proc/PID/cgroup or mountinfo is "
				"longer, or takes the kernel longer, than is read",
				LOG_UINT("pid", process->pid),
				LOG_STR("pod_uid", process->uid));
		process->logged = unread;
	}
}

static void on_round_read(uv_work_t *w, int status)
{
	struct monitoring *mon = monitoring_of(w);

	(void)status;
	report_unread(mon);
	if (mon->stopped)
		end_round(mon);
	else
		count_monitoring_round(mon);
}

/* Ends the wait when each service has answered or its deadline has passed. */
static void check_round_answers(struct monitoring *mon)
{
	if (mon->round.step != MONITORING_AWAITING || mon->round.awaiting_sample ||
		mon->round.awaiting_slices || mon->round.awaiting_list)
		return;
	(void)uv_timer_stop(&mon->timer);
	if (mon->stopped) {
		end_round(mon);
		return;
	}
	start_pool_work(mon, MONITORING_READING, read_work, on_round_read);
}

/* --- request --- */

static void on_round_sample(void *arg, struct sample *sample, const struct error *err)
{
	struct monitoring *mon = arg;

	if (!mon->round.awaiting_sample || mon->stopped) { /* too late */
		(void)sample_free(sample);
		return;
	}
	mon->round.awaiting_sample = false;
	mon->round.sample = sample;
	error_clear(&mon->sample_error);
	if (sample) {
		mon->counters.nvml_calls += sample->nvml_calls;
		mon->counters.nvml_ns += sample->nvml_ns;
	} else {
		mon->counters.nvml_errors++;
		if (err)
			mon->sample_error = *err;
	}
	check_round_answers(mon);
}

static void on_slices(void *arg)
{
	struct monitoring *mon = arg;

	mon->round.awaiting_slices = false;
	check_round_answers(mon);
}

static char *copy_list_text(const char *text, bool *failed)
{
	char *to = strdup(text);

	*failed = *failed || !to;
	return to;
}

static struct pod_devices *copy_list(const struct pod_devices *from)
{
	struct pod_devices *to = calloc(1, sizeof(*to));
	bool failed = false;

	if (to)
		to->v = calloc(from->n + 1, sizeof(*to->v));
	if (!to || !to->v)
		return pod_devices_free(to);
	for (size_t i = 0; i < from->n; i++)
		to->v[to->n++] = (struct pod_device){
			.namespace_ = copy_list_text(from->v[i].namespace_, &failed),
			.pod = copy_list_text(from->v[i].pod, &failed),
			.container = copy_list_text(from->v[i].container, &failed),
			.resource = copy_list_text(from->v[i].resource, &failed),
			.id = copy_list_text(from->v[i].id, &failed),
			.dynamic = from->v[i].dynamic,
		};
	return failed ? pod_devices_free(to) : to;
}

/* Doubles the delay after each failure, up to half of LIST_AWAY_NS, as other clients share the kubelet's socket. */
static void back_off_pod_list(struct monitoring *mon)
{
	uint64_t ns = mon->c.options.interval_ns
		      << (mon->listing.failures < 5 ? mon->listing.failures : 5);

	mon->listing.failures++;
	mon->counters.list_errors++;
	mon->listing.not_before_ns =
		time_mono_ns() + (ns < LIST_AWAY_NS ? ns : LIST_AWAY_NS) / 2;
}

static void on_round_pod_list(void *arg, const struct pod_devices *list,
	const struct error *err)
{
	struct monitoring *mon = arg;

	mon->round.awaiting_list = false;
	mon->round.list = list && (!err || err->code == ERR_NONE) ? copy_list(list) : NULL;
	error_clear(&mon->listing.error);
	if (mon->round.list) {
		mon->listing.failures = 0;
		mon->counters.lists++;
	} else {
		back_off_pod_list(mon);
		if (err)
			mon->listing.error = *err;
	}
	check_round_answers(mon);
}

/* Requests the fields of the counters file, and those that a reader of the status page needs first. */
static void request_sample_fields(struct monitoring *mon)
{
	static const char *const always[] = { "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_POWER_USAGE",
		"DCGM_FI_DEV_POWER_MGMT_LIMIT", "DCGM_FI_DEV_FB_TOTAL", "DCGM_FI_DEV_FB_USED" };
	bool wanted[FIELDS_MAX] = { false };
	struct gpu_sample_request *rq = &mon->round.request;

	mon->p2p = mon->c.ops->collect_wanted_fields(mon->c.arg, wanted);
	mon->c.ops->want_p2p(mon->c.arg, mon->p2p);
	for (size_t i = 0; i < ARRAY_LEN(always); i++)
		if (field_position(always[i]) >= 0)
			wanted[field_position(always[i])] = true;
	*rq = (struct gpu_sample_request){ .interval_ns = mon->c.options.interval_ns };
	for (size_t i = 0; i < n_fields; i++)
		if (wanted[i])
			gpu_sample_want(rq, i);
}

static void request_round_inputs(struct monitoring *mon)
{
	struct error err = ERROR_INIT;

	mon->round.awaiting_sample = mon->round.awaiting_slices = mon->round.awaiting_list =
		true;
	request_sample_fields(mon);
	/* sample() never calls @done before it returns. */
	if (mon->c.ops->sample(mon->c.arg, &mon->round.request, on_round_sample, mon, &err) <
		0) {
		mon->round.awaiting_sample = false;
		mon->sample_error = err;
	}
	if (mon->round.began_ns >= mon->listing.not_before_ns)
		mon->c.ops->request_pod_devices(mon->c.arg, on_round_pod_list, mon);
	else
		mon->round.awaiting_list = false;
	mon->c.ops->refresh_slices(mon->c.arg, on_slices, mon);
	check_round_answers(mon);
}

static void begin_round(struct monitoring *mon)
{
	mon->round.step = MONITORING_AWAITING;
	mon->round.began_ns = time_mono_ns();
	mon->round.deadline_ns = mon->round.began_ns + ANSWERS_TIMEOUT_NS;
	arm_round_timer(mon, TICK_MS);
	request_round_inputs(mon);
}

static void on_round_timer(uv_timer_t *t)
{
	struct monitoring *mon = t->data;

	if (mon->stopped)
		return;
	if (mon->round.step == MONITORING_IDLE) {
		begin_round(mon);
	} else if (mon->round.step == MONITORING_AWAITING &&
		   time_mono_ns() >= mon->round.deadline_ns) {
		/* Only the sample may never come: the other requests have timeouts of their own. */
		mon->round.awaiting_sample = false;
		check_round_answers(mon);
	}
	if (mon->round.step == MONITORING_AWAITING && !uv_is_active((uv_handle_t *)&mon->timer))
		arm_round_timer(mon, TICK_MS);
}

/* --- events --- */

void monitoring_allocated(struct monitoring *mon, const char *resource, const char *const *ids,
	size_t n, bool ok)
{
	uint64_t now = time_mono_ns();

	if (!mon->c.options.enabled)
		return;
	if (!ok) {
		mon->counters.allocation_errors++;
		return;
	}
	mon->counters.allocations++;
	for (size_t i = 0; i < n; i++)
		if (monitoring_pending_add(&mon->pending, resource, ids[i], now, NULL) < 0)
			log_debug("an allocation is counted from when it is listed");
	mon->allocated_ns = now;
	/* An allocation shows that the kubelet runs again after a failure. */
	mon->listing.not_before_ns = 0;
	if (mon->started && mon->round.step == MONITORING_IDLE)
		arm_next(mon);
}

static struct monitoring_xid_counter *xid_of(struct monitoring *mon, const char *uuid,
	uint32_t xid)
{
	for (size_t i = 0; i < mon->xids.n; i++)
		if (mon->xids.v[i].xid == xid && !strcmp(mon->xids.v[i].uuid, uuid))
			return &mon->xids.v[i];
	if (!ARRAY_GROW(&mon->xids.v, mon->xids.n, &mon->xids.room, MONITORING_XIDS_MAX))
		return NULL;
	mon->xids.v[mon->xids.n] = (struct monitoring_xid_counter){ .xid = xid };
	(void)snprintf(mon->xids.v[mon->xids.n].uuid, sizeof(mon->xids.v[0].uuid), "%s", uuid);
	return &mon->xids.v[mon->xids.n++];
}

void monitoring_add_xid(struct monitoring *mon, const char *uuid, uint32_t xid)
{
	struct monitoring_xid_counter *x = *uuid ? xid_of(mon, uuid, xid) : NULL;

	if (!x)
		return;
	x->count++;
	x->last_wall_ns = time_wall_ns();
}

bool monitoring_peak(const struct monitoring *mon, const char *uuid,
	const struct pod_device *pod_device, uint64_t *ret)
{
	const struct account_device *device = accounts_find_device(&mon->accounts, uuid);

	for (size_t i = 0; device && i < device->n_uses; i++) {
		const struct account *use = device->uses[i];

		if (!use->live || !use->peak_known || strcmp(use->pod, pod_device->pod) != 0 ||
			strcmp(use->namespace_, pod_device->namespace_) != 0 ||
			strcmp(use->container, pod_device->container) != 0 ||
			strcmp(use->resource, pod_device->resource) != 0)
			continue;
		*ret = use->memory_peak;
		return true;
	}
	return false;
}

/* --- life --- */

static void restore_xid_count(void *arg, const struct monitoring_persist_xid *x)
{
	struct monitoring_xid_counter *to = xid_of(arg, x->uuid, x->xid);

	if (!to)
		return;
	to->count += x->count;
	if (x->last_wall_ns > to->last_wall_ns)
		to->last_wall_ns = x->last_wall_ns;
}

static void open_work(uv_work_t *w)
{
	monitoring_persist_open(&monitoring_of(w)->persist, time_mono_ns());
}

static void on_persist_opened(uv_work_t *w, int status)
{
	struct monitoring *mon = monitoring_of(w);
	struct error err = ERROR_INIT;

	(void)status;
	mon->round.step = MONITORING_IDLE;
	if (mon->stopped)
		return;
	monitoring_persist_written(&mon->persist);
	if (monitoring_persist_restore(&mon->persist, &mon->accounts, &mon->charges,
		    &mon->since_wall_ns, restore_xid_count, mon, &err) < 0)
		log_error("counters begin anew", LOG_STR("reason", err.msg));
	mon->started = true;
	begin_round(mon);
}

void monitoring_init(struct monitoring *mon, const struct monitoring_context *context)
{
	mon->c = *context;
	if (!mon->c.options.interval_ns)
		mon->c.options.interval_ns = MONITORING_INTERVAL_NS;
	(void)uv_timer_init(mon->c.loop, &mon->timer);
	mon->timer.data = mon;
	mon->work.data = mon;
	mon->since_wall_ns = mon->c.started_wall_ns;
	accounts_init(&mon->accounts);
	monitoring_pods_init(&mon->pods, mon->c.loop,
		mon->c.options.enabled ? mon->c.options.pod_labels : NULL,
		mon->c.link->node_name, mon->c.options.interval_ns);
	monitoring_processes_init(&mon->processes,
		NULL); /* not --procfs, which is for MIG capabilities */
}

void monitoring_start(struct monitoring *mon)
{
	struct error err = ERROR_INIT;
	const char *dir =
		mon->c.options.usage_db_dir ? mon->c.options.usage_db_dir : mon->c.state_dir;

	if (!mon->c.options.enabled)
		return;
	mon->last_count_ns = time_mono_ns();
	if (mon->pods.filter && !mon->c.link->possible)
		log_warn("labels of pods are left out",
			LOG_STR("reason", mon->c.link->why.msg));
	if (monitoring_persist_init(&mon->persist, dir, &err) < 0)
		log_error("nothing is kept", LOG_STR("reason", err.msg));
	if (path_join(mon->checkpoint.path, sizeof(mon->checkpoint.path), mon->c.plugin_dir,
		    KUBELET_CHECKPOINT, &err) < 0)
		log_error("UIDs of pods are not known", LOG_STR("reason", err.msg));
	start_pool_work(mon, MONITORING_OPENING, open_work, on_persist_opened);
}

void monitoring_with_api(struct monitoring *mon, struct api *api)
{
	mon->pods.task.api = api;
}

/* The loop runs until all handles are closed, so the loop waits for the work on the pool thread. */
void monitoring_stop(struct monitoring *mon)
{
	mon->stopped = true;
	(void)uv_timer_stop(&mon->timer);
	uv_close((uv_handle_t *)&mon->timer, NULL);
	monitoring_pods_close(&mon->pods);
}

void monitoring_fini(struct monitoring *mon)
{
	mon->round.sample = sample_free(mon->round.sample);
	mon->round.list = pod_devices_free(mon->round.list);
	mon->round.unpublished_view = view_unref(mon->round.unpublished_view);
	monitoring_checkpoint_fini(&mon->checkpoint.content);
	monitoring_pending_fini(&mon->pending);
	monitoring_pods_fini(&mon->pods);
	monitoring_allocations_fini(&mon->allocation_list);
	monitoring_processes_fini(&mon->processes);
	monitoring_charges_fini(&mon->charges);
	monitoring_history_fini(&mon->history);
	accounts_fini(&mon->accounts);
	monitoring_persist_fini(&mon->persist);
	monitoring_price_fini(&mon->price);
	free(mon->xids.v);
}
