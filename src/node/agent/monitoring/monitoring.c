/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/monitoring/internal.h"

#include "node/agent/slices/life.h"
#include "lib/base/fd.h"
#include "lib/base/time.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATIENCE_NS  (8 * NS_PER_SEC) /* for who is asked */
#define TICK_MS      100              /* while somebody is waited for */
#define LIST_AWAY_NS (60 * NS_PER_SEC)

/* Log lines that processes can cause. */
#define UNREAD_PER_NS (60 * NS_PER_SEC)
#define UNREAD_BURST  5

static void on_timer(uv_timer_t *t);

/* --- the view for others --- */

struct view *agent_view(struct agent *a)
{
	return a->serve ? serve_view(a->serve) : NULL;
}

static void publish(struct agent *a)
{
	if (a->see.made && a->serve)
		serve_show(a->serve, a->see.made);
	a->see.made = view_unref(a->see.made);
}

/* --- the clock of rounds --- */

static void arm(struct agent *a, uint64_t ms)
{
	struct agent_see *s = &a->see;

	if (s->stopped)
		return;
	/* The timer's own clock may be of long ago: Allocate comes from a socket. */
	uv_update_time(a->loop);
	(void)uv_timer_start(&s->timer, on_timer, ms, 0);
}

/* Something was given out a moment ago, and the kubelet has not listed it yet. */
static bool waits_for_list(const struct agent_see *s, uint64_t now)
{
	for (size_t i = 0; i < s->givens.n; i++)
		if (s->givens.v[i].at_ns + SEE_LISTED_NS > now)
			return true;
	return false;
}

/* When the next round is due: an interval after this one began, or soon after an allocation, but not before the
 * kubelet can have noted it. */
static void arm_next(struct agent *a)
{
	struct agent_see *s = &a->see;
	uint64_t now = time_mono_ns(), due = s->began_ns + s->options.interval_ns;
	uint64_t soon = s->began_ns + SEE_SOON_MS * NS_PER_MS;

	if (soon < s->given_ns + SEE_NOTED_MS * NS_PER_MS)
		soon = s->given_ns + SEE_NOTED_MS * NS_PER_MS;
	if (due > soon && waits_for_list(s, now))
		due = soon;
	arm(a, due > now ? (due - now) / NS_PER_MS + 1 : 1);
}

static void end_round(struct agent *a)
{
	struct agent_see *s = &a->see;

	s->running = false;
	s->sample = sample_free(s->sample);
	s->list = pod_devices_free(s->list);
	arm_next(a);
}

/* --- keep, then publish --- */

static struct agent *agent_of(uv_work_t *w)
{
	return w->data;
}

static void keep_work(uv_work_t *w)
{
	see_keep_write(&agent_of(w)->see.keep, time_mono_ns());
}

static void kept(uv_work_t *w, int status)
{
	struct agent *a = agent_of(w);

	(void)status;
	a->see.working = false;
	see_keep_written(&a->see.keep);
	if (!a->see.stopped)
		publish(a);
	end_round(a);
}

static int prepare(struct agent *a, const struct see_round *r, struct error *err)
{
	struct agent_see *s = &a->see;
	const struct see_keep_node node = { .node = a->cluster.link.node_name,
		.instance_type = see_instance_type(a),
		.region = see_region(a),
		.currency = s->price.currency,
		.price_source = s->price.source,
		.price_nano_per_hour = s->price.nano_per_hour,
		.n_gpus = r->in.n_gpus,
		.gpus = r->gpus,
		.wall_ns = r->wall_ns,
		.dt_ns = r->dt_ns,
		.since_wall_ns = s->since_wall_ns };
	CLEANUP(freep) struct see_kept_xid *xids = calloc(s->n_xids + 1, sizeof(*xids));

	if (!xids)
		return error_nomem(err);
	for (size_t i = 0; i < s->n_xids; i++) {
		memcpy(xids[i].uuid, s->xids[i].uuid, sizeof(xids[i].uuid));
		xids[i].xid = s->xids[i].xid;
		xids[i].count = s->xids[i].count;
		xids[i].last_wall_ns = s->xids[i].last_wall_ns;
	}
	return see_keep_prepare(&s->keep, &s->accounts, &r->in, &node, xids, s->n_xids,
		&s->charges, err);
}

/* --- count --- */

/*
 * Of a GPU that several containers hold without slices, only PIDs tell which of them uses how much: the component is
 * degraded while there is such a GPU and the agent cannot see the node's processes.
 */
static bool is_shared(const struct view *v)
{
	for (uint32_t i = 0; i < v->n_units; i++) {
		const struct view_unit *u = &v->units[i];

		if (u->n_seats > 1 && (u->mode == VIEW_TIME_SLICING || u->mode == VIEW_MPS))
			return true;
	}
	return false;
}

static void report_pod_usage(struct agent *a, const struct view *v)
{
	struct error why = ERROR_INIT;

	if (holders_pids(a->holders) == HOLDERS_PIDS_OWN && is_shared(v))
		(void)error_set(&why, ERR_PERMISSION,
			"use by pod of shared GPUs is not known: set metrics.hostPID: true in the chart's values "
			"(hostPID: true in the pod); the agent has a PID namespace of its own and does not see the "
			"processes of pods");
	report_component(&a->reporter, COMPONENT_POD_USAGE, &why);
}

static void count(struct agent *a)
{
	struct agent_see *s = &a->see;
	struct see_round r = { .now_ns = s->began_ns, .wall_ns = time_wall_ns() };
	struct error err = ERROR_INIT;
	uint64_t began = time_mono_ns();

	r.dt_ns = r.now_ns > s->last_count_ns ? r.now_ns - s->last_count_ns : 0;
	if (r.dt_ns > ACCOUNT_ROUND_MAX_NS)
		r.dt_ns = ACCOUNT_ROUND_MAX_NS;
	see_price_look(a);
	if (see_count(a, &r, &err) == 0) {
		see_pods_look(&s->pods, &s->holds, r.now_ns);
		s->last_count_ns = r.now_ns;
		s->made = view_unref(s->made);
		s->made = see_build(a, &r, &err);
	}
	if (s->made)
		report_pod_usage(a, s->made);
	if (err.code == ERR_NONE && prepare(a, &r, &err) == 0 &&
		uv_queue_work(a->loop, &s->work, keep_work, kept) == 0)
		s->working = true;
	s->round_ns = time_mono_ns() - began;
	if (err.code != ERR_NONE)
		log_error("this round is not shown", LOG_STR("reason", err.msg));
	see_round_fini(&r);
	if (!s->working)
		end_round(a);
}

/* --- read the checkpoint, and whose the processes are --- */

static bool same_file(const struct stat *a, const struct stat *b)
{
	return a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
	       a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* What cannot be read leaves what was known. */
static void read_checkpoint(struct agent_see *s)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(SLICE_CHECKPOINT_MAX);
	struct see_checkpoint c;
	struct stat st;

	if (stat(s->checkpoint_path, &st) < 0 || same_file(&st, &s->checkpoint_stat) ||
		file_read(s->checkpoint_path, &b, NULL) < 0 ||
		see_checkpoint_parse(&c, buf_str(&b), b.len, NULL) < 0)
		return;
	see_checkpoint_fini(&s->checkpoint);
	s->checkpoint = c;
	s->checkpoint_stat = st;
}

static void look_at_processes(struct see_processes *p, const struct sample *s)
{
	see_processes_begin(p);
	for (uint32_t i = 0; s && i < s->n; i++)
		for (uint32_t k = 0; k < s->units[i].n_processes; k++)
			(void)see_processes_look(p, s->units[i].processes[k].pid);
	see_processes_end(p);
}

/* On the pool's thread, which has these while it works: how long it takes is the processes' choice. */
static void read_work(uv_work_t *w)
{
	struct agent_see *s = &agent_of(w)->see;

	read_checkpoint(s);
	look_at_processes(&s->processes, s->sample);
}

/* Once for each process, while it is so. */
static void report_unread(struct agent_see *s)
{
	struct see_processes *p = &s->processes;

	for (size_t i = 0; i < p->n; i++) {
		struct see_process *e = &p->v[i];
		bool unread = e->cut > 0 || e->late;

		if (unread && !e->told &&
			log_limit_pass(&s->unread_limit, s->began_ns, UNREAD_PER_NS,
				UNREAD_BURST))
			log_warn(
				"the pod of a process on a GPU is not fully known: /proc/PID/cgroup or mountinfo is "
				"longer, or takes the kernel longer, than is read",
				LOG_UINT("pid", e->pid), LOG_STR("pod_uid", e->uid));
		e->told = unread;
	}
}

static void on_read(uv_work_t *w, int status)
{
	struct agent *a = agent_of(w);

	(void)status;
	a->see.working = false;
	report_unread(&a->see);
	if (a->see.stopped)
		end_round(a);
	else
		count(a);
}

/* All have answered, or too late. */
static void answered(struct agent *a)
{
	struct agent_see *s = &a->see;

	if (!s->running || s->working || s->want_sample || s->want_slices || s->want_list)
		return;
	(void)uv_timer_stop(&s->timer);
	if (s->stopped) {
		end_round(a);
		return;
	}
	s->working = uv_queue_work(a->loop, &s->work, read_work, on_read) == 0;
	if (!s->working)
		count(a);
}

/* --- ask --- */

static void on_sample(void *arg, struct sample *sample, const struct error *err)
{
	struct agent *a = arg;
	struct agent_see *s = &a->see;

	if (!s->want_sample || s->stopped) { /* after its time */
		(void)sample_free(sample);
		return;
	}
	s->want_sample = false;
	s->sample = sample;
	error_clear(&s->sample_error);
	if (sample) {
		s->nvml_calls += sample->nvml_calls;
		s->nvml_ns += sample->nvml_ns;
	} else {
		s->nvml_errors++;
		if (err)
			s->sample_error = *err;
	}
	answered(a);
}

static void on_slices(void *arg)
{
	struct agent *a = arg;

	a->see.want_slices = false;
	answered(a);
}

static char *copy(const char *text, bool *failed)
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
			.namespace_ = copy(from->v[i].namespace_, &failed),
			.pod = copy(from->v[i].pod, &failed),
			.container = copy(from->v[i].container, &failed),
			.resource = copy(from->v[i].resource, &failed),
			.id = copy(from->v[i].id, &failed),
			.dynamic = from->v[i].dynamic,
		};
	return failed ? pod_devices_free(to) : to;
}

/* Twice as long each time, to a minute: the socket is everybody's. */
static void back_off(struct agent_see *s)
{
	uint64_t ns = s->options.interval_ns << (s->list_failures < 5 ? s->list_failures : 5);

	s->list_failures++;
	s->list_errors++;
	s->list_not_before_ns = time_mono_ns() + (ns < LIST_AWAY_NS ? ns : LIST_AWAY_NS) / 2;
}

static void on_list(void *arg, const struct pod_devices *list, const struct error *err)
{
	struct agent *a = arg;
	struct agent_see *s = &a->see;

	s->want_list = false;
	s->list = list && (!err || err->code == ERR_NONE) ? copy_list(list) : NULL;
	error_clear(&s->list_error);
	if (s->list) {
		s->list_failures = 0;
		s->lists++;
	} else {
		back_off(s);
		if (err)
			s->list_error = *err;
	}
	answered(a);
}

/* Those that the counters file names, and what people look at first. */
static void want_fields(struct agent *a)
{
	static const char *const always[] = { "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_POWER_USAGE",
		"DCGM_FI_DEV_POWER_MGMT_LIMIT", "DCGM_FI_DEV_FB_TOTAL", "DCGM_FI_DEV_FB_USED" };
	bool wanted[FIELDS_MAX] = { false };
	struct gpu_sample_request *rq = &a->see.request;

	serve_look(a->serve);
	serve_fields(a->serve, wanted);
	if (a->monitor)
		gpu_monitor_want_p2p(a->monitor, serve_wants(a->serve, METRICS_FROM_P2P));
	for (size_t i = 0; i < ARRAY_LEN(always); i++)
		if (field_position(always[i]) >= 0)
			wanted[field_position(always[i])] = true;
	*rq = (struct gpu_sample_request){ .interval_ns = a->see.options.interval_ns };
	for (size_t i = 0; i < n_fields; i++)
		if (wanted[i])
			gpu_sample_want(rq, i);
}

static void ask(struct agent *a)
{
	struct agent_see *s = &a->see;
	struct error err = ERROR_INIT;

	s->want_sample = s->want_slices = s->want_list = true;
	want_fields(a);
	/* @done is never called before it returns. */
	if (!a->monitor ||
		gpu_monitor_sample(a->monitor, &s->request, on_sample, a, &err) < 0) {
		s->want_sample = false;
		s->sample_error = err;
	}
	if (s->began_ns >= s->list_not_before_ns)
		holders_ask_anew(a->holders, on_list, a);
	else
		s->want_list = false;
	slices_refresh(&a->slices, on_slices, a);
	answered(a);
}

static void begin_round(struct agent *a)
{
	struct agent_see *s = &a->see;

	s->running = true;
	s->began_ns = time_mono_ns();
	s->deadline_ns = s->began_ns + PATIENCE_NS;
	arm(a, TICK_MS);
	ask(a);
}

static void on_timer(uv_timer_t *t)
{
	struct agent *a = t->data;
	struct agent_see *s = &a->see;

	if (s->stopped || s->working)
		return;
	if (!s->running) {
		begin_round(a);
	} else if (time_mono_ns() >= s->deadline_ns) {
		/* Only the sample may never come: the others have clocks of their own. */
		s->want_sample = false;
		answered(a);
	}
	if (s->running && !s->working && !uv_is_active((uv_handle_t *)&s->timer))
		arm(a, TICK_MS);
}

/* --- from outside --- */

void agent_see_allocated(struct agent *a, const char *resource, const char *const *ids,
	size_t n, bool ok)
{
	struct agent_see *s = &a->see;
	uint64_t now = time_mono_ns();

	if (!s->options.enabled)
		return;
	if (!ok) {
		s->allocation_errors++;
		return;
	}
	s->allocations++;
	for (size_t i = 0; i < n; i++)
		if (see_givens_add(&s->givens, resource, ids[i], now, NULL) < 0)
			log_debug("an allocation is counted from when it is listed");
	s->given_ns = now;
	/* A kubelet that failed before is there now. */
	s->list_not_before_ns = 0;
	if (s->started && !s->running)
		arm_next(a);
}

static struct see_xid *xid_of(struct agent_see *s, const char *uuid, uint32_t xid)
{
	struct see_xid *more;

	for (size_t i = 0; i < s->n_xids; i++)
		if (s->xids[i].xid == xid && !strcmp(s->xids[i].uuid, uuid))
			return &s->xids[i];
	if (s->n_xids == SEE_XIDS_MAX)
		return NULL;
	more = reallocarray(s->xids, s->n_xids + 1, sizeof(*more));
	if (!more)
		return NULL;
	s->xids = more;
	s->xids[s->n_xids] = (struct see_xid){ .xid = xid };
	(void)snprintf(s->xids[s->n_xids].uuid, sizeof(s->xids[0].uuid), "%s", uuid);
	return &s->xids[s->n_xids++];
}

void agent_see_xid(struct agent *a, const char *uuid, uint32_t xid)
{
	struct see_xid *x = *uuid ? xid_of(&a->see, uuid, xid) : NULL;

	if (!x)
		return;
	x->count++;
	x->last_wall_ns = time_wall_ns();
}

bool agent_see_peak(const struct agent *a, const char *uuid, const struct pod_device *holder,
	uint64_t *ret)
{
	const struct account_unit *u = accounts_unit(&a->see.accounts, uuid);

	for (size_t i = 0; u && i < u->n_uses; i++) {
		const struct account *use = u->uses[i];

		if (!use->live || !use->peak_known || strcmp(use->pod, holder->pod) != 0 ||
			strcmp(use->namespace_, holder->namespace_) != 0 ||
			strcmp(use->container, holder->container) != 0 ||
			strcmp(use->resource, holder->resource) != 0)
			continue;
		*ret = use->memory_peak;
		return true;
	}
	return false;
}

/* --- life --- */

static void restore_xid(void *arg, const struct see_kept_xid *x)
{
	struct see_xid *to = xid_of(arg, x->uuid, x->xid);

	if (!to)
		return;
	to->count += x->count;
	if (x->last_wall_ns > to->last_wall_ns)
		to->last_wall_ns = x->last_wall_ns;
}

static void open_work(uv_work_t *w)
{
	see_keep_open(&agent_of(w)->see.keep, time_mono_ns());
}

static void opened(uv_work_t *w, int status)
{
	struct agent *a = agent_of(w);
	struct agent_see *s = &a->see;
	struct error err = ERROR_INIT;

	(void)status;
	s->working = false;
	if (s->stopped)
		return;
	see_keep_written(&s->keep);
	if (see_keep_restore(&s->keep, &s->accounts, &s->charges, &s->since_wall_ns,
		    restore_xid, s, &err) < 0)
		log_error("counters begin anew", LOG_STR("reason", err.msg));
	s->started = true;
	begin_round(a);
}

void agent_see_init(struct agent *a, const struct agent_see_options *options)
{
	struct agent_see *s = &a->see;

	s->options = *options;
	if (!s->options.interval_ns)
		s->options.interval_ns = SEE_INTERVAL_NS;
	(void)uv_timer_init(a->loop, &s->timer);
	s->timer.data = a;
	s->work.data = a;
	s->since_wall_ns = a->started_wall_ns;
	accounts_init(&s->accounts);
	see_pods_init(&s->pods, a->loop, s->options.enabled ? s->options.pod_labels : NULL,
		a->cluster.link.node_name, s->options.interval_ns);
	see_processes_init(&s->processes,
		NULL); /* not --procfs: that is for MIG's capabilities */
}

void agent_see_start(struct agent *a)
{
	struct agent_see *s = &a->see;
	struct error err = ERROR_INIT;
	const char *dir = s->options.ledger_dir ? s->options.ledger_dir : a->state_dir;

	if (!s->options.enabled)
		return;
	s->last_count_ns = time_mono_ns();
	if (s->pods.filter && !a->cluster.link.possible)
		log_warn("labels of pods are left out",
			LOG_STR("reason", a->cluster.link.why.msg));
	if (see_keep_init(&s->keep, dir, &err) < 0 ||
		path_join(s->checkpoint_path, sizeof(s->checkpoint_path), a->plugin_dir,
			SLICE_CHECKPOINT, &err) < 0)
		log_error("nothing is kept", LOG_STR("reason", err.msg));
	s->working = uv_queue_work(a->loop, &s->work, open_work, opened) == 0;
}

void agent_see_with_api(struct agent *a, struct api *api)
{
	a->see.pods.task.api = api;
}

/* What is under way on the pool's thread is waited for by the loop, which runs until all is closed. */
void agent_see_stop(struct agent *a)
{
	struct agent_see *s = &a->see;

	s->stopped = true;
	(void)uv_timer_stop(&s->timer);
	uv_close((uv_handle_t *)&s->timer, NULL);
	see_pods_close(&s->pods);
}

void agent_see_fini(struct agent *a)
{
	struct agent_see *s = &a->see;

	s->sample = sample_free(s->sample);
	s->list = pod_devices_free(s->list);
	s->made = view_unref(s->made);
	see_checkpoint_fini(&s->checkpoint);
	see_givens_fini(&s->givens);
	see_pods_fini(&s->pods);
	see_holds_fini(&s->holds);
	see_processes_fini(&s->processes);
	see_charges_fini(&s->charges);
	see_history_fini(&s->history);
	accounts_fini(&s->accounts);
	see_keep_fini(&s->keep);
	see_price_fini(&s->price);
	free(s->xids);
}
