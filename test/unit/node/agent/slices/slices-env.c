/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/node/agent/slices/slices-env.h"

#include "abi/slice-dir.h"
#include "lib/base/fd.h"
#include "lib/base/time.h"

#include <dirent.h>
#include <string.h>
#include <unistd.h>

const struct isolation env_equal = { .present = true, .memory = ISOLATION_MEMORY_EQUAL };

uint64_t env_now_ns;

uint64_t __wrap_time_mono_ns(void);

uint64_t __wrap_time_mono_ns(void)
{
	return env_now_ns;
}

/* --- the ops --- */

static bool ask_holders(void *arg,
	void (*done)(void *done_arg, const struct pod_devices *list, const struct error *err),
	void *done_arg)
{
	struct slices_env *e = arg;
	struct pod_devices list;
	struct error err = ERROR_INIT;

	e->n_requests++;
	if (!e->pod_devices_available)
		return false;
	if (e->n_requests == e->allocate_at_request)
		env_allocate_device(e, "late", "GPU-0::0");
	if (e->n_requests == e->stop_at_request) {
		slices_stop(&e->s);
		e->stopped = true;
	}
	if (!e->holders_known || e->pod_devices_stale)
		(void)error_set(&err, ERR_UNAVAILABLE, "the kubelet does not answer");
	list = (struct pod_devices){ .v = e->holders, .n = e->n_holders };
	done(done_arg, e->holders_known ? &list : NULL, &err);
	return true;
}

static int read_processes(void *arg, const char *const *uuids, uint32_t n,
	gpu_processes_done *done, void *done_arg)
{
	struct slices_env *e = arg;
	struct error err = ERROR_INIT;

	strv_clear(&e->read);
	for (uint32_t i = 0; i < n; i++)
		assert_ok(strv_add(&e->read, uuids[i], &err), &err);
	if (!e->processes)
		return -1;
	done(done_arg, e->processes, e->n_processes, NULL);
	return 0;
}

static void on_dir_unavailable(void *arg)
{
	((struct slices_env *)arg)->on_dir_unavailable++;
}

static bool peak(void *arg, const char *uuid, const struct pod_device *pod_device,
	uint64_t *ret_bytes)
{
	(void)uuid;
	assert_non_null(pod_device);
	*ret_bytes = ((struct slices_env *)arg)->peak;
	return *ret_bytes != 0;
}

static const struct agent_slices_ops ops = { .request_pod_devices = ask_holders,
	.read_processes = read_processes,
	.on_dir_unavailable = on_dir_unavailable,
	.peak = peak };

/* --- the node --- */

struct config *env_config(uint32_t replicas, const struct isolation *isolation)
{
	struct config *c = fixture_config();

	fixture_share(c, ENV_RESOURCE, NULL, replicas, NULL)->isolation = *isolation;
	return c;
}

void env_know(struct slices_env *e, struct config *c)
{
	struct inventory *inv = fixture_inventory(2);

	for (uint32_t i = 0; i < inv->n; i++)
		inv->gpus[i].memory_usable_bytes = ENV_MEMORY;
	agent_fixture_know(e->f, inv, c);
}

void env_libraries(struct slices_env *e, bool there)
{
	static const char *const names[] = { SLICE_LIB_CUDA, SLICE_LIB_NVML };
	char path[PATH_MAX];
	struct error err = ERROR_INIT;

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		assert_ok(path_join(path, sizeof(path), e->runtime, names[i], &err), &err);
		if (there)
			test_write(e->runtime, names[i], "\177ELF", 4, 0755);
		else
			assert_int_equal(unlink(path), 0);
	}
}

static void make_dir(struct slices_env *e, char *ret, const char *name)
{
	struct error err = ERROR_INIT;

	assert_ok(path_join(ret, PATH_MAX, e->f->dir, name, &err), &err);
	assert_ok(dir_make(ret, 0755, &err), &err);
}

int slices_env_setup(void **state)
{
	struct slices_env *e = calloc(1, sizeof(*e));

	assert_non_null(e);
	env_now_ns = 1000 * NS_PER_SEC;
	assert_int_equal(agent_fixture_setup((void **)&e->f), 0);
	make_dir(e, e->state, "state");
	make_dir(e, e->run, "run");
	make_dir(e, e->plugins, "plugins");
	make_dir(e, e->runtime, "runtime");
	/* No program: where no arbiter listens, none can be started. */
	assert_int_equal(setenv("GPUSLICE_LIBEXEC", e->f->dir, 1), 0);
	env_libraries(e, true);
	fake_arbiter_listen(&e->arbiter, &e->f->loop, e->run);
	(void)fake_arbiter_ends();
	e->arbiter.answer = "{\"op\":\"status\",\"slices\":[]}\n";
	e->holders_known = e->pod_devices_available = true;
	*state = e;
	return 0;
}

int slices_env_teardown(void **state)
{
	struct slices_env *e = *state;

	if (e->runs)
		env_stop(e);
	fake_arbiter_stop(&e->arbiter);
	strv_fini(&e->read);
	(void)agent_fixture_teardown((void **)&e->f);
	free(e);
	return 0;
}

/* --- a run of the agent --- */

void env_start(struct slices_env *e)
{
	const struct slices_context context = { .loop = &e->f->loop,
		.facts = &e->f->facts,
		.reporter = &e->f->reporter,
		.run_dir = e->run,
		.plugin_dir = e->plugins,
		.options = { .state_dir = e->state,
			.runtime_dir = e->runtime,
			.keep_ns = ENV_KEEP_NS },
		.ops = &ops,
		.arg = e };

	assert_false(e->runs);
	slices_init(&e->s, &context);
	e->runs = true;
	e->stopped = false;
	slices_start(&e->s);
}

void env_stop(struct slices_env *e)
{
	if (!e->stopped)
		slices_stop(&e->s);
	e->stopped = true;
	agent_fixture_until(e->f,
		!uv_is_active((uv_handle_t *)&e->s.timer) && !e->s.saves && !e->s.checking);
	agent_fixture_run_once(e->f);
	slices_fini(&e->s);
	e->runs = false;
}

void env_start_isolated(struct slices_env *e)
{
	env_know(e, env_config(4, &env_equal));
	env_start(e);
	agent_fixture_until(e->f, fake_arbiter_count_received(&e->arbiter, "readings") == 1);
}

/* --- slices --- */

static const struct resource *gpu_resource(const struct slices_env *e)
{
	const struct resource *r = offer_find(e->f->facts.offered.offer, ENV_RESOURCE);

	assert_non_null(r);
	return r;
}

struct stored_slice *env_allocate(struct slices_env *e, const char *id)
{
	CLEANUP(allocation_freep) struct allocation *to = calloc(1, sizeof(*to));
	struct error err = ERROR_INIT;
	size_t n = e->s.store.n;

	assert_non_null(to);
	assert_ok(slices_allocate(&e->s, gpu_resource(e), &id, 1, to, &err), &err);
	assert_int_equal(e->s.store.n, n + 1);
	return e->s.store.v[n];
}

void env_allocate_fails(struct slices_env *e, const char *id, const char *why)
{
	CLEANUP(allocation_freep) struct allocation *to = calloc(1, sizeof(*to));
	struct error err = ERROR_INIT;
	size_t n = e->s.store.n;
	unsigned there = env_count(e);

	assert_non_null(to);
	assert_error(slices_allocate(&e->s, gpu_resource(e), &id, 1, to, &err), &err, why);
	assert_int_equal(e->s.store.n, n);
	assert_int_equal(env_count(e), there);
	assert_int_equal(to->n_mounts, 0);
}

void env_allocate_device(struct slices_env *e, const char *pod, const char *id)
{
	static char namespace[] = "ml", container[] = "c", resource[] = ENV_RESOURCE;
	size_t n = e->n_holders++;

	assert_true(n < ENV_HOLDERS);
	(void)snprintf(e->pods[n], sizeof(e->pods[n]), "%s", pod);
	(void)snprintf(e->ids[n], sizeof(e->ids[n]), "%s", id);
	e->holders[n] = (struct pod_device){ .namespace_ = namespace,
		.pod = e->pods[n],
		.container = container,
		.resource = resource,
		.id = e->ids[n] };
}

void env_sweep(struct slices_env *e)
{
	uv_timer_t *t = &e->s.timer;

	/* The timer would expire after seconds of the real clock; the test makes it expire now. */
	assert_true(uv_is_active((uv_handle_t *)t));
	assert_int_equal(uv_timer_start(t, t->timer_cb, 0, 0), 0);
	uv_run(&e->f->loop, UV_RUN_NOWAIT);
	agent_fixture_until(e->f, !e->s.checking);
}

static void append_base64(struct buf *to, const char *text)
{
	static const char all[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	uint32_t bits = 0;
	int n = 0;

	for (; *text; text++) {
		bits = bits << 8 | (unsigned char)*text;
		for (n += 8; n >= 6; n -= 6)
			buf_putc(to, all[bits >> (n - 6) & 63]);
	}
	if (n)
		buf_putc(to, all[bits << (6 - n) & 63]);
}

void env_checkpoint(struct slices_env *e, const struct stored_slice *const *slices, size_t n)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(65536);

	buf_puts(&b, "{\"Data\":{\"PodDeviceEntries\":[");
	for (size_t i = 0; i < n; i++) {
		char path[PATH_MAX];
		struct error err = ERROR_INIT;

		assert_ok(slice_store_path(&e->s.store, slices[i], path, &err), &err);
		buf_puts(&b, i ? ",{\"AllocResp\":\"" : "{\"AllocResp\":\"");
		append_base64(&b, path);
		buf_puts(&b, "\"}");
	}
	buf_puts(&b, "]}}");
	test_write(e->plugins, "kubelet_internal_checkpoint", buf_str(&b), b.len, 0600);
}

json_t *env_file(const struct slices_env *e, const struct stored_slice *slice)
{
	char path[PATH_MAX], file[PATH_MAX];
	struct error err = ERROR_INIT;
	json_t *o;

	assert_ok(slice_store_path(&e->s.store, slice, path, &err), &err);
	assert_ok(path_join(file, sizeof(file), path, SLICE_FILE, &err), &err);
	o = json_load_file(file, 0, NULL);
	assert_non_null(o);
	return o;
}

static void slices_path(const struct slices_env *e, char ret[PATH_MAX], const char *name)
{
	char dir[PATH_MAX];
	struct error err = ERROR_INIT;

	assert_ok(path_join(dir, sizeof(dir), e->state, SLICES_DIR, &err), &err);
	assert_ok(path_join(ret, PATH_MAX, dir, name, &err), &err);
}

bool env_there(const struct slices_env *e, const char *id)
{
	char path[PATH_MAX];

	slices_path(e, path, id);
	return access(path, F_OK) == 0;
}

unsigned env_count(const struct slices_env *e)
{
	char path[PATH_MAX];
	const struct dirent *entry;
	unsigned n = 0;
	DIR *d;

	slices_path(e, path, ".");
	d = opendir(path);
	while (d && (entry = readdir(d)))
		n += slice_id_ok(entry->d_name);
	if (d)
		(void)closedir(d);
	return n;
}
