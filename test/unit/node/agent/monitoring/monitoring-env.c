/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/node/agent/monitoring/monitoring-env.h"

#include "lib/base/fd.h"
#include "node/agent/base/kubelet-checkpoint.h"

#include <stdatomic.h>

/* --- the clocks --- */

#define NEVER_MS (UINT64_C(3600) * 1000) /* no test takes so long */

static _Atomic uint64_t clock_ns;
static const uv_timer_t *rounds; /* the timer that only env_tick() ends */
static uint64_t rounds_ms;       /* what it was started with */

uint64_t __wrap_time_mono_ns(void);
uint64_t __wrap_time_mono_ns(void)
{
	return clock_ns;
}

uint64_t __wrap_time_wall_ns(void);
uint64_t __wrap_time_wall_ns(void)
{
	return ENV_BOOT_S * NS_PER_SEC + clock_ns;
}

int __real_uv_timer_start(uv_timer_t *t, uv_timer_cb cb, uint64_t ms, uint64_t repeat);
int __wrap_uv_timer_start(uv_timer_t *t, uv_timer_cb cb, uint64_t ms, uint64_t repeat);
int __wrap_uv_timer_start(uv_timer_t *t, uv_timer_cb cb, uint64_t ms, uint64_t repeat)
{
	if (t != rounds)
		return __real_uv_timer_start(t, cb, ms, repeat);
	rounds_ms = ms;
	return __real_uv_timer_start(t, cb, NEVER_MS, repeat);
}

void env_pass(uint64_t ns)
{
	clock_ns += ns;
}

uint64_t env_now_ns(void)
{
	return clock_ns;
}

/* --- sources of a round --- */

static void fill_processes(struct sample_device *to, const struct env_device *from)
{
	to->processes = calloc(ENV_PROCESSES, sizeof(*to->processes));
	assert_non_null(to->processes);
	for (size_t i = 0; i < ENV_PROCESSES && from->processes[i].pid; i++) {
		const struct env_process *p = &from->processes[i];

		to->processes[to->n_processes++] = (struct sample_process){
			.pid = p->pid,
			.busy_known = p->busy_ms >= 0,
			.bytes = p->mib >= 0 ? (uint64_t)p->mib << 20 : GPU_BYTES_UNKNOWN,
			.busy_ns = p->busy_ms >= 0 ? (uint64_t)p->busy_ms * NS_PER_MS : 0,
		};
	}
}

static void fill_device_reading(struct sample_device *to, const struct env_device *from)
{
	(void)snprintf(to->uuid, sizeof(to->uuid), "%s", from->uuid);
	(void)snprintf(to->reason, sizeof(to->reason), "%s", from->reason ? from->reason : "");
	to->at_ns = clock_ns;
	to->interval_ns = from->first ? 0 : NS_PER_SEC;
	to->memory_known = from->used_mib >= 0;
	if (to->memory_known) {
		to->memory_total = UINT64_C(16384) << 20;
		to->memory_used = (uint64_t)from->used_mib << 20;
		to->memory_free = to->memory_total - to->memory_used;
	}
	to->busy_known = from->busy_ms >= 0;
	to->busy_ns = to->busy_known ? (uint64_t)from->busy_ms * NS_PER_MS : 0;
	to->processes_known = !from->no_processes;
	fill_processes(to, from);
}

static struct sample *make_sample(const struct monitoring_env *e)
{
	struct error err = ERROR_INIT;
	struct sample *s = NULL;
	uint32_t n = 0;

	while (n < ENV_DEVICES && e->units[n].uuid)
		n++;
	assert_ok(sample_new(&s, n, &err), &err);
	for (uint32_t i = 0; i < n; i++)
		fill_device_reading(&s->devices[i], &e->units[i]);
	s->nvml_calls = 7;
	s->nvml_ns = 70;
	return s;
}

static int op_sample(void *arg, const struct gpu_sample_request *request, gpu_sample_done *done,
	void *done_arg, struct error *err)
{
	struct monitoring_env *e = arg;

	e->sample.n++;
	e->request = *request;
	if (e->sample.how == ENV_REFUSES)
		return error_set(err, ERR_UNAVAILABLE, "no worker");
	e->sample.pending = true;
	e->sample_done = done;
	e->sample_arg = done_arg;
	return 0;
}

static void op_request_pod_devices(void *arg,
	void (*done)(void *done_arg, const struct pod_devices *list, const struct error *err),
	void *done_arg)
{
	struct monitoring_env *e = arg;

	e->list.n++;
	e->list.pending = e->list.how != ENV_AT_ONCE;
	e->list_done = done;
	e->list_arg = done_arg;
	if (!e->list.pending)
		done(done_arg, &e->pod_list, NULL);
}

static void op_refresh_slices(void *arg, void (*done)(void *done_arg), void *done_arg)
{
	struct monitoring_env *e = arg;

	e->slices_refresh.n++;
	e->slices_refresh.pending = e->slices_refresh.how != ENV_AT_ONCE;
	e->slices_done = done;
	e->slices_arg = done_arg;
	if (!e->slices_refresh.pending)
		done(done_arg);
}

/* True: it answers now. */
static bool take_answer(struct env_source *a)
{
	bool now = a->pending && a->how != ENV_NEVER;

	a->pending = a->pending && !now;
	return now;
}

void env_answer(struct monitoring_env *e)
{
	struct error why = ERROR_INIT;

	if (take_answer(&e->sample)) {
		(void)error_set(&why, ERR_TIMEOUT, "GPU 0 hangs");
		if (e->sample.how == ENV_FAILS)
			e->sample_done(e->sample_arg, NULL, &why);
		else
			e->sample_done(e->sample_arg, make_sample(e), NULL);
	}
	if (take_answer(&e->list)) {
		error_clear(&why);
		(void)error_set(&why, ERR_UNAVAILABLE, "kubelet.sock: connection refused");
		/* The list of before may come along. */
		e->list_done(e->list_arg, &e->pod_list, e->list.how == ENV_FAILS ? &why : NULL);
	}
	if (take_answer(&e->slices_refresh))
		e->slices_done(e->slices_arg);
}

/* --- the other ops --- */

static void op_want_p2p(void *arg, bool want)
{
	((struct monitoring_env *)arg)->p2p = want;
}

static bool op_released(void *arg)
{
	return ((const struct monitoring_env *)arg)->released;
}

static enum kubelet_pids op_pids(void *arg)
{
	return ((const struct monitoring_env *)arg)->pids;
}

static bool op_wanted(void *arg, bool want[FIELDS_MAX])
{
	const struct monitoring_env *e = arg;

	memcpy(want, e->wanted, sizeof(e->wanted));
	return e->wants_p2p;
}

static void op_show(void *arg, struct view *v)
{
	struct monitoring_env *e = arg;

	if (view_check(v, &e->wrong) < 0) /* a test cannot end inside of the loop */
		e->n_wrong++;
	e->view = view_unref(e->view);
	e->view = view_ref(v);
	e->shown++;
}

static struct view_web op_web(void *arg)
{
	(void)arg;
	return (struct view_web){ .known = true, .connections = 3 };
}

static bool op_device_ok(void *arg, const struct resource *r, const struct offer_device *d)
{
	const struct monitoring_env *e = arg;

	(void)r;
	return !e->unhealthy || strcmp(e->unhealthy, d->id) != 0;
}

static const char *op_refusal(void *arg, const char *uuid)
{
	const struct monitoring_env *e = arg;

	return e->refused && !strcmp(e->refused, uuid) ? "of another type" : "";
}

static const char *op_resource_state(void *arg, const char *name, const char **ret_why)
{
	(void)arg;
	(void)name;
	*ret_why = "the kubelet is restarting";
	return "waiting";
}

static bool op_is_ready(void *arg, struct buf *why)
{
	(void)why;
	return !((const struct monitoring_env *)arg)->not_ready;
}

static void op_fill_config(void *arg, struct view *v)
{
	(void)arg;
	v->config_generation = 4;
}

static const struct monitoring_ops ops = {
	.sample = op_sample,
	.want_p2p = op_want_p2p,
	.are_gpus_released = op_released,
	.request_pod_devices = op_request_pod_devices,
	.kubelet_pids = op_pids,
	.refresh_slices = op_refresh_slices,
	.collect_wanted_fields = op_wanted,
	.publish = op_show,
	.web = op_web,
	.device_ok = op_device_ok,
	.device_refusal = op_refusal,
	.resource_state = op_resource_state,
	.is_ready = op_is_ready,
	.fill_view_config = op_fill_config,
};

/* --- life --- */

static void make_dir(struct monitoring_env *e, char ret[PATH_MAX], const char *name)
{
	struct error err = ERROR_INIT;

	assert_ok(path_join(ret, PATH_MAX, e->f->dir, name, &err), &err);
	assert_ok(dir_make(ret, 0755, &err), &err);
}

int env_setup(void **state)
{
	struct monitoring_env *e = calloc(1, sizeof(*e));
	void *f = NULL;

	assert_non_null(e);
	clock_ns = 1000 * NS_PER_SEC;
	assert_int_equal(agent_fixture_setup(&f), 0);
	e->f = f;
	make_dir(e, e->state_dir, "state");
	make_dir(e, e->plugin_dir, "plugins");
	make_dir(e, e->proc_dir, "proc");
	rounds = &e->mon.timer;
	e->link.node_name = "node-1";
	e->pod_list.v = e->pods;
	e->pids = KUBELET_PIDS_NODE;
	e->slices.store.v = e->slice_at;
	e->context = (struct monitoring_context){ .loop = &e->f->loop,
		.facts = &e->f->facts,
		.link = &e->link,
		.reporter = &e->f->reporter,
		.components = &e->components,
		.slices = &e->slices,
		.plugin_dir = e->plugin_dir,
		.state_dir = e->state_dir,
		.started_wall_ns = time_wall_ns(),
		.options = { .enabled = true, .interval_ns = 5 * NS_PER_SEC },
		.ops = &ops,
		.arg = e };
	*state = e;
	return 0;
}

void env_start(struct monitoring_env *e)
{
	unsigned asked = e->slices_refresh.n;

	monitoring_init(&e->mon, &e->context);
	monitoring_processes_init(&e->mon.processes, e->proc_dir);
	monitoring_start(&e->mon);
	if (e->context.options.enabled)
		agent_fixture_until(e->f, e->slices_refresh.n > asked);
}

void env_stop(struct monitoring_env *e)
{
	if (!e->mon.c.loop)
		return;
	if (!e->mon.stopped)
		monitoring_stop(&e->mon);
	(void)uv_run(&e->f->loop, UV_RUN_DEFAULT);
	monitoring_fini(&e->mon);
	e->mon = (struct monitoring){ .started = false };
	e->sample.pending = e->list.pending = e->slices_refresh.pending = false;
}

void env_restart(struct monitoring_env *e)
{
	env_stop(e);
	env_start(e);
}

int env_teardown(void **state)
{
	struct monitoring_env *e = *state;
	void *f = e->f;

	env_stop(e);
	e->view = view_unref(e->view);
	env_release_all(e);
	for (size_t i = 0; i < e->slices.store.n; i++)
		strv_fini(&e->slice_at[i]->file.devices);
	json_decref(e->slices.arbiter_slices);
	assert_int_equal(agent_fixture_teardown(&f), 0);
	free(e);
	return 0;
}

/* --- rounds --- */

void env_tick(struct monitoring_env *e)
{
	uv_timer_cb due = e->mon.timer.timer_cb;

	assert_true(uv_is_active((uv_handle_t *)&e->mon.timer));
	(void)uv_timer_stop(&e->mon.timer);
	due(&e->mon.timer);
}

const struct view *env_end(struct monitoring_env *e)
{
	agent_fixture_until(e->f, e->mon.round.step == MONITORING_IDLE);
	if (e->n_wrong)
		fail_msg("%s", e->wrong.msg);
	return e->view;
}

const struct view *env_round(struct monitoring_env *e, uint64_t ns)
{
	env_pass(ns);
	if (e->mon.round.step == MONITORING_IDLE)
		env_tick(e);
	env_answer(e);
	return env_end(e);
}

uint64_t env_due_ms(const struct monitoring_env *e)
{
	assert_true(uv_is_active((const uv_handle_t *)&e->mon.timer));
	return rounds_ms;
}

/* --- allocations --- */

static char *copy_text(const char *from)
{
	char *to = strdup(from);

	assert_non_null(to);
	return to;
}

void env_allocate_device(struct monitoring_env *e, const char *pod, const char *resource,
	const char *id)
{
	assert_true(e->pod_list.n < ENV_PODS);
	e->pods[e->pod_list.n++] = (struct pod_device){ .namespace_ = copy_text("ml"),
		.pod = copy_text(pod),
		.container = copy_text("main"),
		.resource = copy_text(resource),
		.id = copy_text(id) };
}

void env_release_all(struct monitoring_env *e)
{
	for (size_t i = 0; i < e->pod_list.n; i++) {
		free(e->pods[i].namespace_);
		free(e->pods[i].pod);
		free(e->pods[i].container);
		free(e->pods[i].resource);
		free(e->pods[i].id);
	}
	e->pod_list.n = 0;
}

void env_add_pending(struct monitoring_env *e, const char *resource, const char *id)
{
	monitoring_allocated(&e->mon, resource, &id, 1, true);
}

void env_write_checkpoint(struct monitoring_env *e, const char *const *pods, size_t n)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(1 << 16);

	buf_puts(&b, "{\"Data\":{\"PodDeviceEntries\":[0");
	for (size_t i = 0; i < e->pod_list.n; i++)
		for (size_t k = 0; k < n; k++)
			if (!strcmp(pods[k], e->pods[i].pod))
				buf_printf(&b,
					",{\"PodUID\":\"" ENV_UID
					"%zu\",\"ContainerName\":\"%s\","
					"\"ResourceName\":\"%s\",\"DeviceIDs\":[\"%s\"]}",
					k + 1, e->pods[i].container, e->pods[i].resource,
					e->pods[i].id);
	buf_puts(&b, "]}}");
	assert_true(buf_ok(&b));
	test_write(e->plugin_dir, KUBELET_CHECKPOINT, buf_str(&b), b.len, 0600);
}

static void write_proc_files(struct monitoring_env *e, uint32_t pid, const char *file,
	const char *data)
{
	char name[64];

	(void)snprintf(name, sizeof(name), "%u/%s", pid, file);
	test_write(e->proc_dir, name, data, strlen(data), 0644);
}

void env_process(struct monitoring_env *e, uint32_t pid, unsigned digit, const char *container)
{
	char line[512];

	(void)snprintf(line, sizeof(line),
		"%u (python) S 1 1 1 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 %u 99 98\n", pid,
		1000 + pid);
	write_proc_files(e, pid, "stat", line);
	(void)snprintf(line, sizeof(line), "0::/kubepods/pod" ENV_UID "%u/0a1b\n", digit);
	write_proc_files(e, pid, "cgroup", digit ? line : "0::/system.slice/x.service\n");
	(void)snprintf(line, sizeof(line),
		"1 2 8:1 /var/lib/kubelet/pods/" ENV_UID
		"%u/containers/%s/0a1b /dev/termination-log rw - ext4 /dev/x rw\n",
		digit, container ? container : "");
	write_proc_files(e, pid, "mountinfo", container ? line : "");
}

struct stored_slice *env_slice(struct monitoring_env *e, const char *id, const char *resource,
	const char *device, const char *uuid, enum slice_compute compute)
{
	size_t at = e->slices.store.n++;
	struct stored_slice *s = e->slice_at[at] = &e->slice_rows[at];
	struct error err = ERROR_INIT;

	assert_true(at < ARRAY_LEN(e->slice_rows));
	(void)snprintf(s->file.id, sizeof(s->file.id), "%s", id);
	(void)snprintf(s->file.resource, sizeof(s->file.resource), "%s", resource);
	assert_ok(strv_add(&s->file.devices, device, &err), &err);
	s->file.plan = (struct slice_plan){ .wanted = true, .compute = compute, .n = 1 };
	s->file.plan.gpus[0] =
		(struct slice_gpu){ .memory = UINT64_C(4096) << 20, .weight = 2, .cap = 0 };
	(void)snprintf(s->file.plan.gpus[0].uuid, GPU_UUID_MAX, "%s", uuid);
	s->file.created_s = e->context.started_wall_ns / NS_PER_SEC + 60;
	return s;
}

void env_set_arbiter_status(struct monitoring_env *e, const char *seen)
{
	json_decref(e->slices.arbiter_slices);
	e->slices.arbiter_slices = seen ? json_loads(seen, 0, NULL) : NULL;
	assert_true(!seen || e->slices.arbiter_slices);
}

/* --- the view --- */

const struct view_use *env_find_use_or_null(const struct monitoring_env *e, const char *pod)
{
	for (uint32_t i = 0; e->view && i < e->view->n_uses; i++)
		if (!strcmp(e->view->uses[i].pod, pod))
			return &e->view->uses[i];
	return NULL;
}

const struct view_use *env_find_usage(const struct monitoring_env *e, const char *pod)
{
	const struct view_use *u = env_find_use_or_null(e, pod);

	if (!u)
		fail_msg("no use of %s is shown", pod);
	return u;
}

const struct view_device *env_find_device(const struct monitoring_env *e, const char *uuid)
{
	for (uint32_t i = 0; e->view && i < e->view->n_devices; i++)
		if (!strcmp(e->view->devices[i].uuid, uuid))
			return &e->view->devices[i];
	fail_msg("no unit %s is shown", uuid);
	return NULL;
}

const struct view_replica *env_find_replica(const struct monitoring_env *e, const char *id)
{
	for (uint32_t i = 0; e->view && i < e->view->n_replicas; i++)
		if (!strcmp(e->view->replicas[i].id, id))
			return &e->view->replicas[i];
	fail_msg("no replica %s is shown", id);
	return NULL;
}
