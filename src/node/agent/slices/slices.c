/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/slices/slices.h"

#include "abi/slice-dir.h"
#include "abi/slice-page.h"
#include "node/agent/base/kubelet-checkpoint.h"
#include "node/agent/slices/checkpoint.h"
#include "node/agent/slices/install.h"
#include "node/agent/slices/life.h"
#include "node/agent/slices/mounts.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/json/record.h"
#include "lib/base/time.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SLICES_CHECK_MAX_MS 30000 /* longest and shortest interval of the removal check */
#define SLICES_CHECK_MIN_MS 50
#define SPARE_MS            20 /* after an allocation, since others often follow at once */

const char *slices_get_error(const struct slices *s)
{
	return s->wanted && !*s->lib ? s->lib_error.msg : "";
}

/* --- flushing to the disk, which also has the kubelet's record of the mounts --- */

static void flush_slice_path(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0) /* it was removed meanwhile */
		return;
	(void)fsync(fd);
	(void)close(fd);
}

/* On a thread of libuv's pool, since a disk may be slow. */
static void save_work(uv_work_t *w)
{
	const struct strv *paths = w->data;

	for (size_t i = 0; i < paths->n; i++)
		flush_slice_path(paths->v[i]);
}

static void save_next(struct slices *s);

static void save_done(uv_work_t *w, int status)
{
	struct slices *s = (struct slices *)((char *)w - offsetof(struct slices, save));

	(void)status;
	s->saves = false;
	strv_clear(&s->saving);
	save_next(s);
}

static void save_next(struct slices *s)
{
	struct strv free_one = s->saving;

	if (s->saves || s->stopped || s->unsaved.n == 0)
		return;
	s->saving = s->unsaved;
	s->unsaved = free_one;
	s->save.data = &s->saving;
	s->saves = uv_queue_work(s->c.loop, &s->save, save_work, save_done) == 0;
}

/* Flushes a slice's file, its directory, and the parent directory. */
static void save_slice(struct slices *s, const struct stored_slice *slice)
{
	char path[PATH_MAX], file[PATH_MAX];
	struct error err = ERROR_INIT;

	if (slice_store_path(&s->store, slice, path, &err) < 0 ||
		path_join(file, sizeof(file), path, SLICE_FILE, &err) < 0 ||
		strv_add(&s->unsaved, file, &err) < 0 ||
		strv_add(&s->unsaved, path, &err) < 0 ||
		strv_add(&s->unsaved, s->store.dir, &err) < 0)
		log_warn("a slice is not flushed to the disk", LOG_STR("reason", err.msg));
	save_next(s);
}

/* --- the arbiter's questions --- */

static json_t *format_gpu_processes(const struct gpu_processes *g)
{
	json_t *o = json_pack("{s:s}", "uuid", g->uuid), *list;

	if (!g->known) {
		(void)json_object_set_new(o, "error", json_string(g->reason));
		return o;
	}
	list = json_array();
	for (uint32_t i = 0; i < g->n; i++) {
		json_t *p = json_pack("{s:I}", "pid", (json_int_t)g->v[i].pid);

		if (g->v[i].bytes != GPU_BYTES_UNKNOWN)
			(void)json_object_set_new(p, "bytes",
				json_integer((json_int_t)g->v[i].bytes));
		(void)json_array_append_new(list, p);
	}
	(void)json_object_set_new(o, "processes", list);
	return o;
}

static void reply_reading(struct slices *s, json_int_t seq, const struct gpu_processes *list,
	uint32_t n)
{
	json_t *gpus;

	if (!s->arbiter) /* the agent is stopping */
		return;
	gpus = json_array();
	for (uint32_t i = 0; i < n; i++)
		(void)json_array_append_new(gpus, format_gpu_processes(&list[i]));
	arbiter_link_reading(s->arbiter,
		json_pack("{s:s, s:I, s:o}", "op", "reading", "seq", seq, "gpus", gpus));
}

static void on_processes(void *arg, const struct gpu_processes *list, uint32_t n,
	const struct error *err)
{
	struct slices *s = arg;

	(void)err;
	reply_reading(s, s->reading_seq, list, list ? n : 0);
}

static void on_arbiter_read_request(void *arg, json_int_t seq, const char *const *uuids,
	uint32_t n)
{
	struct slices *s = arg;

	s->reading_seq = seq;
	if (s->c.ops->read_processes(s->c.arg, uuids, n, on_processes, s) < 0)
		reply_reading(s, seq, NULL, 0);
}

static void on_arbiter_hung(void *arg, const char *why)
{
	report_event(((struct slices *)arg)->c.reporter, EVENT_WARNING, "ArbiterHung",
		"%s; the agent restarts it", why);
}

static const struct arbiter_ops arbiter_ops = { .read = on_arbiter_read_request,
	.hung = on_arbiter_hung };

/* --- status --- */

struct refresh {
	struct slices *s;
	void (*done)(void *arg);
	void *arg;
};

static void on_arbiter_status(void *arg, const json_t *status, const struct error *err)
{
	CLEANUP(freep) struct refresh *r = arg;
	struct slices *s = r->s;

	json_decref(s->arbiter_slices);
	json_decref(s->arbiter_gpus);
	s->arbiter_slices = status ? json_incref(json_object_get(status, "slices")) : NULL;
	s->arbiter_gpus = status ? json_incref(json_object_get(status, "gpus")) : NULL;
	error_clear(&s->arbiter_error);
	if (err)
		s->arbiter_error = *err;
	r->done(r->arg);
}

void slices_refresh(struct slices *s, void (*done)(void *arg), void *arg)
{
	struct refresh *r = s->wanted || s->store.n ? malloc(sizeof(*r)) : NULL;

	if (!r || !s->arbiter) {
		free(r);
		done(arg);
		return;
	}
	*r = (struct refresh){ .s = s, .done = done, .arg = arg };
	arbiter_link_status(s->arbiter, on_arbiter_status, r);
}

/* --- removal --- */

static void on_slices_timer(uv_timer_t *t);

static void arm_slices_timer(struct slices *s)
{
	uint64_t ms = s->c.options.keep_ns / 4 / NS_PER_MS;
	bool due = s->store.n > 0 || (s->wanted && !*s->lib);

	if (s->stopped || !due || s->checking || uv_is_active((uv_handle_t *)&s->timer))
		return;
	ms = ms > SLICES_CHECK_MAX_MS   ? SLICES_CHECK_MAX_MS
	     : ms < SLICES_CHECK_MIN_MS ? SLICES_CHECK_MIN_MS
					: ms;
	/* libuv's cached time may be old: Allocate comes from a socket. */
	uv_update_time(s->c.loop);
	(void)uv_timer_start(&s->timer, on_slices_timer, ms, 0);
}

/* The slices that the kubelet's checkpoint names; false: it cannot be read. */
static bool named_slices(const struct slices *s, struct strv *ret)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(KUBELET_CHECKPOINT_MAX);
	char path[PATH_MAX];

	return path_join(path, sizeof(path), s->c.plugin_dir, KUBELET_CHECKPOINT, NULL) == 0 &&
	       file_read(path, &b, NULL) == 0 &&
	       slice_checkpoint_ids(ret, buf_str(&b), b.len, NULL) == 0;
}

static enum slice_life_answer yes_or_no(bool known, bool yes)
{
	return !known ? SLICE_LIFE_UNKNOWN : yes ? SLICE_LIFE_YES : SLICE_LIFE_NO;
}

/* An object with the strings of @v as keys. */
static json_t *set_of(const struct strv *v)
{
	json_t *o = json_object();

	for (size_t i = 0; i < v->n; i++)
		(void)json_object_set_new(o, v->v[i], json_true());
	return o;
}

static bool is_busy(const json_t *seen)
{
	const json_t *gpus = json_object_get(seen, "gpus");

	if (json_array_size(json_object_get(seen, "processes")) > 0 ||
		json_array_size(json_object_get(seen, "unhooked_processes")) > 0)
		return true;
	for (size_t i = 0; i < json_array_size(gpus); i++)
		if (json_integer_value(json_object_get(json_array_get(gpus, i), "used")) > 0)
			return true;
	return false;
}

/* Removes libraries that neither new nor present slices use. */
static void sweep_libs(struct slices *s)
{
	CLEANUP(strv_fini) struct strv keep = STRV_INIT;

	/* The libraries of a slice that cannot be read are not known. */
	if (s->store.broken.n > 0 || !*s->lib)
		return;
	if (strv_add(&keep, s->lib, NULL) < 0)
		return;
	for (size_t i = 0; i < s->store.n; i++) {
		const char *lib = s->store.v[i]->file.lib;

		if (!strv_has(&keep, lib) && strv_add(&keep, lib, NULL) < 0)
			return;
	}
	slice_libs_sweep(s->store.state_dir, &keep);
}

static void want_arbiter(struct slices *s)
{
	if (s->arbiter && !s->stopped)
		arbiter_link_set_wanted(s->arbiter, s->wanted || s->store.n > 0);
}

static void remove_slice(struct slices *s, struct stored_slice *slice)
{
	struct error err = ERROR_INIT;
	char id[sizeof(slice->file.id)];

	memcpy(id, slice->file.id, sizeof(id));
	if (slice_store_remove(&s->store, slice, &err) < 0)
		log_warn("a slice that nobody has cannot be removed, trying again",
			LOG_STR("slice", id), LOG_STR("reason", err.msg));
	else
		log_info("slice removed, nobody has it any more", LOG_STR("slice", id));
}

/* --- mounted slices: searched before a removal, then the check runs again --- */

/* On a thread of the pool: the duration depends on the containers, within bounds. */
static void search_work(uv_work_t *w)
{
	struct slices *s = w->data;

	s->mounts_partial = slice_mounts_find(&s->mounted, "/proc", &s->mounted_error) ==
			    SLICE_MOUNTS_PARTIAL;
}

static void on_refreshed(void *arg);

static void search_done(uv_work_t *w, int status)
{
	struct slices *s = w->data;

	(void)status;
	if (s->mounted_error.code != ERR_NONE)
		log_warn("no slice is removed: which are mounted is not known",
			LOG_STR("reason", s->mounted_error.msg));
	else if (s->mounts_partial)
		log_info(
			"the mount list of a container is truncated: slices mounted after the first 1 MiB are not found");
	s->searched = true;
	slices_refresh(s, on_refreshed, s);
}

/* False: the search did not start. */
static bool search_mounts(struct slices *s)
{
	strv_clear(&s->mounted);
	error_clear(&s->mounted_error);
	s->mounts.data = s;
	return uv_queue_work(s->c.loop, &s->mounts, search_work, search_done) == 0;
}

static bool may_be_mounted(const struct slices *s, const char *id)
{
	return !s->searched || s->mounted_error.code != ERR_NONE || strv_has(&s->mounted, id);
}

/*
 * Whether the kubelet's checkpoint names a newer slice that shares a device with this one, but not this one. Then
 * this slice's pod is gone, even if both were made within SLICE_SIBLING_S: the checkpoint would name the slice of
 * an init container.
 */
static bool is_replaced(const struct slice_store *s, size_t at, const json_t *names)
{
	const struct slice_file *old = &s->v[at]->file;

	if (json_object_get(names, old->id))
		return false;
	for (size_t i = at + 1; i < s->n; i++) {
		const struct slice_file *f = &s->v[i]->file;

		if (!json_object_get(names, f->id) || strcmp(f->resource, old->resource) != 0)
			continue;
		for (size_t k = 0; k < f->devices.n; k++)
			if (strv_has(&old->devices, f->devices.v[k]))
				return true;
	}
	return false;
}

/* True: a slice may be removed once the mounts have been searched. */
static bool check_all_slices(struct slices *s, const struct pod_devices *pod_devices,
	bool held_known)
{
	CLEANUP(strv_fini) struct strv named = STRV_INIT;
	uint64_t now = time_mono_ns();
	bool named_known = named_slices(s, &named);
	json_t *names = set_of(&named), *seen = json_by_id(s->arbiter_slices);
	size_t before = s->store.n;
	bool wants_search = false;

	for (size_t i = s->store.n; i-- > 0;) {
		struct stored_slice *slice = s->store.v[i];
		const char *id = slice->file.id;
		const json_t *one = json_object_get(seen, id);
		const struct slice_life_facts facts = {
			.named = yes_or_no(named_known, json_object_get(names, id)),
			.allocated =
				yes_or_no(held_known, slice_holder(&slice->file, pod_devices)),
			.busy = yes_or_no(one != NULL, is_busy(one)),
		};

		if (named_known && !slice->superseded && is_replaced(&s->store, i, names)) {
			slice->superseded = true;
			slice->superseded_ns = now;
		}
		if (!slice_life_ends(slice, &facts, now, s->c.options.keep_ns))
			continue;
		if (!may_be_mounted(s, id))
			remove_slice(s, slice);
		else
			wants_search = !s->searched;
	}
	json_decref(names);
	json_decref(seen);
	if (s->store.n != before) {
		sweep_libs(s);
		want_arbiter(s);
	}
	return wants_search;
}

static void on_slices_pod_devices(void *arg, const struct pod_devices *list,
	const struct error *err)
{
	struct slices *s = arg;

	if (!s->stopped && check_all_slices(s, list, list && (!err || err->code == ERR_NONE)) &&
		search_mounts(s))
		return;
	s->searched = s->checking = false;
	arm_slices_timer(s);
}

static void on_refreshed(void *arg)
{
	struct slices *s = arg;

	if (!s->stopped && s->c.ops->request_pod_devices(s->c.arg, on_slices_pod_devices, s))
		return;
	s->searched = s->checking = false;
	arm_slices_timer(s);
}

/* --- spare directories --- */

static void on_spare(uv_timer_t *t)
{
	struct slices *s = t->data;
	struct error err = ERROR_INIT;

	/* One directory per turn of the loop. */
	if (slice_store_prepare(&s->store, &err)) {
		(void)uv_timer_start(t, on_spare, 1, 0);
		return;
	}
	/* Reports now, so that the devices do not stay healthy until the next probe of NVML: an Allocate may come
	 * earlier. */
	if (slice_store_ready(&s->store, &err) < 0)
		s->c.ops->on_dir_unavailable(s->c.arg);
}

static void arm_spare_timer(struct slices *s)
{
	uv_update_time(s->c.loop);
	if (s->wanted && !s->stopped)
		(void)uv_timer_start(&s->spare, on_spare, SPARE_MS, 0);
}

/* --- libraries --- */

static void install_libs(struct slices *s)
{
	struct error err = ERROR_INIT;

	if (*s->lib || !s->loaded)
		return;
	if (slice_libs_install(s->lib, s->store.state_dir, s->c.options.runtime_dir, &err) ==
		0) {
		error_clear(&s->lib_error);
		log_info("slice libraries are in place", LOG_STR("version", s->lib));
		sweep_libs(s);
		return;
	}
	s->lib[0] = '\0';
	(void)error_prefix(&err, "the slice libraries cannot be installed");
	if (strcmp(s->lib_error.msg, err.msg) != 0) {
		log_error("pods cannot be given slices", LOG_STR("reason", err.msg));
		report_event(s->c.reporter, EVENT_WARNING, "SliceLibraries", "%s", err.msg);
	}
	s->lib_error = err;
}

static void on_slices_timer(uv_timer_t *t)
{
	struct slices *s = t->data;

	if (s->checking || s->stopped)
		return;
	if (s->wanted)
		install_libs(s);
	s->checking = true;
	slices_refresh(s, on_refreshed, s);
}

/* --- limits --- */

/* The slice's plan by the present config. False: there is none, and the slice keeps its plan. */
static bool plan_now(const struct slices *s, const struct stored_slice *slice,
	struct slice_plan *ret)
{
	const struct slice_file *f = &slice->file;
	const struct resource *r = offer_find(s->c.facts->offered.offer, f->resource);

	if (!r)
		return false;
	for (size_t i = 0; i < f->devices.n; i++)
		if (!resource_find(r, f->devices.v[i]))
			return false;
	if (slice_plan_make(ret, r, s->c.facts->offered.inv, (const char *const *)f->devices.v,
		    f->devices.n, NULL) < 0)
		return false;
	if (ret->wanted)
		return true;
	/* Isolation was removed from the config. The limits end, but the slice stays for the pod's figures. */
	*ret = f->plan;
	slice_plan_open(ret);
	return true;
}

static void change_limits(struct slices *s)
{
	for (size_t i = 0; i < s->store.n; i++) {
		struct stored_slice *slice = s->store.v[i];
		struct error err = ERROR_INIT;
		struct slice_plan plan;

		if (!plan_now(s, slice, &plan) || slice_plan_equal(&plan, &slice->file.plan))
			continue;
		if (slice_store_change(&s->store, slice, &plan, &err) < 0) {
			log_error("a slice keeps its old limits",
				LOG_STR("slice", slice->file.id), LOG_STR("reason", err.msg));
			continue;
		}
		save_slice(s, slice);
		log_info("limits of a slice changed", LOG_STR("slice", slice->file.id),
			LOG_STR("resource", slice->file.resource),
			LOG_UINT("mib", plan.gpus[0].memory == SLICE_NO_LIMIT
						? 0
						: plan.gpus[0].memory >> 20),
			LOG_STR("compute", plan.compute == SLICE_COMPUTE_NONE  ? "none"
					   : plan.compute == SLICE_COMPUTE_MPS ? "mps"
					   : plan.gpus[0].cap                  ? "capped"
									       : "fair"),
			LOG_UINT("weight", plan.gpus[0].weight));
	}
}

void slices_sync(struct slices *s)
{
	if (s->stopped || !s->arbiter)
		return;
	s->wanted = s->c.facts->decided && config_wants_slices(s->c.facts->config);
	if (s->wanted)
		install_libs(s);
	/* The positions in an older offer do not fit the present inventory: see agent_reconcile(). */
	if (s->c.facts->offered.offer && s->c.facts->decided &&
		s->c.facts->offer_error.code == ERR_NONE)
		change_limits(s);
	want_arbiter(s);
	arm_spare_timer(s);
	arm_slices_timer(s);
}

/* --- allocate --- */

static int add_slice_mounts(const struct slices *s, const struct stored_slice *slice,
	struct allocation *to, struct error *err)
{
	char dir[PATH_MAX], lib[PATH_MAX], preload[PATH_MAX];

	if (slice_store_path(&s->store, slice, dir, err) < 0 ||
		slice_libs_path(lib, s->store.state_dir, slice->file.lib, NULL, err) < 0 ||
		slice_libs_path(preload, s->store.state_dir, slice->file.lib,
			SLICE_LIBS_PRELOAD, err) < 0)
		return -1;
	if (allocation_add_mount(to, dir, SLICE_CONTAINER_DIR, true, err) < 0 ||
		allocation_add_mount(to, lib, SLICE_CONTAINER_LIB_DIR, true, err) < 0)
		return -1;
	return allocation_add_mount(to, preload, SLICE_PRELOAD_FILE, true, err);
}

static int no_libs(const struct slices *s, const struct resource *r,
	const struct slice_plan *plan, struct error *err)
{
	return error_set(err, ERR_UNAVAILABLE,
		"resource \"%s\" isolates %s, and without its libraries a container would have "
		"no limit: %s",
		r->name, plan->compute == SLICE_COMPUTE_FAIR_SHARE ? "compute" : "memory",
		s->lib_error.msg);
}

/* Without the arbiter a container would start, but its programs would be refused memory. */
static int check_arbiter(const struct slices *s, const struct resource *r, struct error *err)
{
	const char *why;

	if (!s->arbiter || !arbiter_link_is_down(s->arbiter, &why))
		return 0;
	return error_set(err, ERR_UNAVAILABLE,
		"resource \"%s\" is isolated, and gpuslice-arbiter, which grants memory and time, "
		"does not run: %s",
		r->name, why);
}

static int no_slice(const struct resource *r, struct error *err)
{
	return error_prefix(err, "resource \"%s\": no slice can be made", r->name);
}

int slices_check(struct slices *s, const struct resource *r, const char *const *ids,
	size_t n_ids, struct error *err)
{
	struct slice_plan plan;

	if (slice_plan_make(&plan, r, s->c.facts->offered.inv, ids, n_ids, err) < 0)
		return -1;
	if (!plan.wanted)
		return 0;
	/* An installation failed. Without an error none was tried yet. */
	if (!*s->lib && s->lib_error.code != ERR_NONE)
		return no_libs(s, r, &plan, err);
	if (check_arbiter(s, r, err) < 0)
		return -1;
	return slice_store_ready(&s->store, err) < 0 ? no_slice(r, err) : 0;
}

int slices_allocate(struct slices *s, const struct resource *r, const char *const *ids,
	size_t n_ids, struct allocation *to, struct error *err)
{
	struct slice_plan plan;
	struct stored_slice *slice;

	if (slice_plan_make(&plan, r, s->c.facts->offered.inv, ids, n_ids, err) < 0)
		return -1;
	if (!plan.wanted) {
		slice_store_pass(&s->store, r->name, ids, n_ids, time_mono_ns());
		return 0;
	}
	if (check_arbiter(s, r, err) < 0)
		return -1;
	if (*s->lib && !slice_libs_there(s->store.state_dir, s->lib)) {
		log_error("the slice libraries were taken away, installing them again",
			LOG_STR("version", s->lib));
		s->lib[0] = '\0';
	}
	install_libs(s);
	if (!*s->lib)
		return no_libs(s, r, &plan, err);
	if (slice_store_add(&s->store, &slice, r->name, ids, n_ids, &plan, s->lib,
		    time_mono_ns(), time_wall_ns() / NS_PER_SEC, err) < 0) {
		arm_spare_timer(s); /* its callback fails too, and reports that */
		return no_slice(r, err);
	}
	if (add_slice_mounts(s, slice, to, err) < 0) {
		remove_slice(s, slice);
		return -1;
	}
	save_slice(s, slice);
	want_arbiter(s);
	arm_spare_timer(s);
	arm_slices_timer(s);
	return 0;
}

/* --- start and stop --- */

void slices_init(struct slices *s, const struct slices_context *context)
{
	*s = (struct slices){ .c = *context };
	(void)uv_timer_init(s->c.loop, &s->timer);
	s->timer.data = s;
	(void)uv_timer_init(s->c.loop, &s->spare);
	s->spare.data = s;
}

static int load_store(struct slices *s, struct error *err)
{
	slice_store_fini(&s->store);
	s->loaded = slice_store_load(&s->store, s->c.options.state_dir, err) == 0;
	if (!s->loaded) {
		s->lib_error = *err;
		return -1;
	}
	for (size_t i = 0; i < s->store.broken.n; i++)
		log_error("a slice is left alone, as it cannot be understood",
			LOG_STR("reason", s->store.broken.v[i]));
	if (s->store.n > 0)
		log_info("slices found", LOG_UINT("slices", s->store.n));
	return 0;
}

static int start_link(struct slices *s, struct error *err)
{
	const struct arbiter_link_options options = { .run_dir = s->c.run_dir,
		.state_dir = s->c.options.state_dir };

	if (s->arbiter ||
		arbiter_link_new(&s->arbiter, s->c.loop, &options, &arbiter_ops, s, err) == 0)
		return 0;
	s->lib_error = *err;
	return -1;
}

void slices_start(struct slices *s)
{
	struct error err = ERROR_INIT;

	if (start_link(s, &err) == 0 && (s->loaded || load_store(s, &err) == 0))
		slices_sync(s);
	report_component(s->c.reporter, COMPONENT_SLICES, &err);
}

void slices_retry(struct slices *s)
{
	if (!s->loaded)
		slices_start(s);
}

void slices_stop(struct slices *s)
{
	s->stopped = true;
	s->arbiter = arbiter_link_stop(s->arbiter);
	uv_close((uv_handle_t *)&s->timer, NULL);
	uv_close((uv_handle_t *)&s->spare, NULL);
}

void slices_fini(struct slices *s)
{
	/* Paths that the pool has not flushed. */
	for (size_t i = 0; i < s->unsaved.n; i++)
		flush_slice_path(s->unsaved.v[i]);
	slice_store_fini(&s->store);
	strv_fini(&s->unsaved);
	strv_fini(&s->saving);
	strv_fini(&s->mounted);
	json_decref(s->arbiter_slices);
	json_decref(s->arbiter_gpus);
}
