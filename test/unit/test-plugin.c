/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/test.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/time.h"
#include "kube/device-plugin.h"
#include "kube/unix-socket.h"

#define RESOURCE "nvidia.com/gpu"

/*
 * The kubelet's side, as small as it can be: a registration server that dials the plugin and asks
 * for its options before it answers, and then watches. Its table of clients has one place, as the
 * real one has one for each name: a new registration takes it, and when a stream has ended,
 * whoever sits there is disconnected (kubernetes.md 1.4).
 */
struct kubelet {
	struct rpc_server *server;
	enum { KUBELET_GOOD, KUBELET_REFUSES, KUBELET_SILENT, KUBELET_DIES } mode;
	bool closes_late; /* 100 ms between the end of a stream and the disconnect */
	unsigned registers, options, lists, ends, disconnects;
	char endpoint[64], version[16], resource[64];
	struct plugin_options announced, answered;
	struct rpc_call *register_call;
	struct rpc_client *client;
	struct rpc_stream *stream;
	struct plugin_devices devices;
	uint64_t ended_ns, registered_ns;
	uv_timer_t late;
};

struct env {
	uv_loop_t loop;
	uv_timer_t timer;
	bool timed_out;
	struct rpc *rpc;
	char *dir;
	char kubelet_path[108], plugin_path[108];
	struct kubelet kubelet;
	struct plugin *plugin;
	unsigned state_calls;
	bool registered;
	char why[512];
};

static struct env env;

static void on_time_out(uv_timer_t *t)
{
	(void)t;
	env.timed_out = true;
}

#define run_until(condition, ms)                                           \
	do {                                                               \
		env.timed_out = false;                                     \
		(void)uv_timer_start(&env.timer, on_time_out, ms, 0);      \
		while (!(condition) && !env.timed_out)                     \
			(void)uv_run(&env.loop, UV_RUN_ONCE);              \
		(void)uv_timer_stop(&env.timer);                           \
		if (!(condition))                                          \
			fail_msg("in vain: %s (%s)", #condition, env.why); \
	} while (0)

static void run_for_ms(unsigned ms)
{
	env.timed_out = false;
	(void)uv_timer_start(&env.timer, on_time_out, ms, 0);
	while (!env.timed_out)
		(void)uv_run(&env.loop, UV_RUN_ONCE);
}

/* --- the kubelet --- */

static void disconnect(struct kubelet *k)
{
	struct rpc_client *c = k->client;

	if (!c)
		return;
	k->client = NULL;
	k->disconnects++;
	rpc_client_close(c);
}

static void on_late(uv_timer_t *t)
{
	disconnect(t->data);
}

static void on_list(void *arg, const uint8_t *data, size_t len)
{
	struct kubelet *k = arg;
	struct error err = ERROR_INIT;

	plugin_devices_fini(&k->devices);
	assert_ok(plugin_devices_decode(&k->devices, data, len, &err), &err);
	k->lists++;
}

static void on_stream_end(void *arg, enum rpc_status status, const char *text)
{
	struct kubelet *k = arg;

	(void)status;
	(void)text;
	k->ends++;
	k->stream = NULL;
	k->ended_ns = time_mono_ns();
	if (k->closes_late)
		(void)uv_timer_start(&k->late, on_late, 100, 0);
	else
		disconnect(k);
}

static void kubelet_watch(struct kubelet *k)
{
	struct error err = ERROR_INIT;

	assert_ok(rpc_stream_open(k->client, METHOD_LIST_AND_WATCH, "", 0, on_list,
			  on_stream_end, k, &k->stream, &err),
		&err);
}

static void on_options(void *arg, enum rpc_status status, const char *text,
	const uint8_t *reply, size_t len)
{
	struct kubelet *k = arg;
	struct error err = ERROR_INIT;

	(void)text;
	if (status != RPC_OK)
		return;
	assert_ok(plugin_options_decode(&k->answered, reply, len, &err), &err);
	k->options++;
	if (k->mode != KUBELET_SILENT)
		rpc_reply(STEAL_PTR(k->register_call), "", 0);
	kubelet_watch(k);
}

static void kubelet_stop(struct kubelet *k);

static void handle_register(struct rpc_call *call, const uint8_t *data, size_t len, void *arg)
{
	struct kubelet *k = arg;
	struct register_request r;
	struct error err = ERROR_INIT;
	char path[108];

	k->registers++;
	k->registered_ns = time_mono_ns();
	assert_ok(register_request_decode(&r, data, len, &err), &err);
	(void)snprintf(k->version, sizeof(k->version), "%s", r.version);
	(void)snprintf(k->endpoint, sizeof(k->endpoint), "%s", r.endpoint);
	(void)snprintf(k->resource, sizeof(k->resource), "%s", r.resource_name);
	k->announced = r.options;
	register_request_fini(&r);
	if (k->mode == KUBELET_REFUSES) {
		rpc_reply_error(call, RPC_UNKNOWN, "the resource name is invalid");
		return;
	}
	if (k->mode == KUBELET_DIES) {
		rpc_reply_error(call, RPC_OK, "");
		kubelet_stop(k);
		return;
	}
	k->register_call = call;
	if (k->client) { /* the last one wins */
		rpc_client_close(STEAL_PTR(k->client));
		k->stream = NULL;
	}
	assert_ok(path_join(path, sizeof(path), env.dir, k->endpoint, &err), &err);
	assert_ok(rpc_dial(env.rpc, path, &k->client, &err), &err);
	assert_ok(rpc_invoke(k->client, METHOD_PLUGIN_OPTIONS, "", 0, 10 * NS_PER_SEC,
			  on_options, k, &err),
		&err);
}

static const struct rpc_method kubelet_methods[] = {
	{ .path = METHOD_REGISTER, .handle = handle_register },
};

/* Deletes every socket, as the kubelet does, and listens anew. */
static void kubelet_start(struct kubelet *k)
{
	struct error err = ERROR_INIT;
	struct dirent *e;
	DIR *d = opendir(env.dir);

	assert_non_null(d);
	while ((e = readdir(d)))
		if (e->d_type == DT_SOCK)
			assert_int_equal(unlinkat(dirfd(d), e->d_name, 0), 0);
	(void)closedir(d);
	assert_ok(rpc_serve(env.rpc, env.kubelet_path, kubelet_methods,
			  ARRAY_LEN(kubelet_methods), k, &k->server, &err),
		&err);
}

static void kubelet_stop(struct kubelet *k)
{
	if (k->client)
		rpc_client_close(STEAL_PTR(k->client));
	k->stream = NULL;
	if (k->server)
		rpc_server_close(STEAL_PTR(k->server));
}

/* --- the owner of the plugin --- */

static int prefer(void *arg, const struct prefer_request *req, const char **ret_ids,
	size_t *ret_n, struct error *err)
{
	size_t i;

	(void)arg;
	if (req->n_available < req->size)
		return error_set(err, ERR_INVALID, "not enough available devices");
	for (i = 0; i < req->size; i++)
		ret_ids[i] = req->available[req->n_available - 1 - i];
	*ret_n = req->size;
	return 0;
}

static int allocate(void *arg, const char *const *ids, size_t n_ids, struct allocation **ret,
	struct error *err)
{
	struct allocation *a;

	(void)arg;
	if (n_ids == 0 || strcmp(ids[0], "GPU-0") != 0)
		return error_set(err, ERR_INVALID,
			"invalid allocation request for \"" RESOURCE "\": unknown device: %s",
			n_ids ? ids[0] : "");
	a = calloc(1, sizeof(*a));
	a->n_envs = 1;
	a->envs = calloc(1, sizeof(*a->envs));
	a->envs[0].name = strdup("NVIDIA_VISIBLE_DEVICES");
	a->envs[0].value = strdup(ids[0]);
	a->n_devices = 1;
	a->devices = calloc(1, sizeof(*a->devices));
	a->devices[0].container_path = strdup("/dev/nvidia0");
	a->devices[0].host_path = strdup("/dev/nvidia0");
	memcpy(a->devices[0].permissions, "rw", 3);
	*ret = a;
	return 0;
}

static void on_state(void *arg, bool registered, const char *why)
{
	(void)arg;
	env.state_calls++;
	env.registered = registered;
	(void)snprintf(env.why, sizeof(env.why), "%s", why);
}

static const struct plugin_ops ops = { .prefer = prefer,
	.allocate = allocate,
	.state = on_state };

static void set_devices(bool healthy)
{
	const struct plugin_device v[] = {
		{ .id = "GPU-0", .healthy = true, .numa_node = 0 },
		{ .id = "GPU-1", .healthy = healthy, .numa_node = -1 },
	};
	struct error err = ERROR_INIT;

	assert_ok(plugin_set_devices(env.plugin, v, ARRAY_LEN(v), &err), &err);
}

static void start_plugin(void)
{
	struct error err = ERROR_INIT;

	assert_ok(plugin_start(&env.plugin, env.rpc, env.dir, NULL, RESOURCE, &ops, NULL, &err),
		&err);
	set_devices(true);
}

static bool is_up(void)
{
	return plugin_state(env.plugin, NULL) == PLUGIN_REGISTERED && env.kubelet.lists > 0 &&
	       plugin_watches(env.plugin) == 1;
}

static int setup(void **state)
{
	struct error err = ERROR_INIT;

	(void)state;
	memset(&env, 0, sizeof(env));
	assert_int_equal(uv_loop_init(&env.loop), 0);
	assert_int_equal(uv_timer_init(&env.loop, &env.timer), 0);
	assert_int_equal(uv_timer_init(&env.loop, &env.kubelet.late), 0);
	env.kubelet.late.data = &env.kubelet;
	assert_ok(rpc_new(&env.rpc, &env.loop, &err), &err);
	env.dir = test_tmpdir();
	assert_ok(path_join(env.kubelet_path, sizeof(env.kubelet_path), env.dir, "kubelet.sock",
			  &err),
		&err);
	assert_ok(path_join(env.plugin_path, sizeof(env.plugin_path), env.dir,
			  "nvidia-gpu.sock", &err),
		&err);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	env.plugin = plugin_stop(env.plugin);
	kubelet_stop(&env.kubelet);
	plugin_devices_fini(&env.kubelet.devices);
	env.rpc = rpc_free(env.rpc);
	uv_close((uv_handle_t *)&env.timer, NULL);
	uv_close((uv_handle_t *)&env.kubelet.late, NULL);
	assert_int_equal(uv_run(&env.loop, UV_RUN_DEFAULT), 0);
	assert_int_equal(uv_loop_close(&env.loop), 0);
	assert_int_equal(access(env.plugin_path, F_OK), -1); /* nothing is left behind */
	test_rmdir(env.dir);
	return 0;
}

/* Calls a method of the plugin as the kubelet would. */
static enum rpc_status got_status;
static char got_text[512];
static struct buf got = BUF_INIT(1 << 20);
static bool got_it;

static void on_got(void *arg, enum rpc_status status, const char *text, const uint8_t *reply,
	size_t len)
{
	(void)arg;
	got_status = status;
	(void)snprintf(got_text, sizeof(got_text), "%s", text);
	buf_clear(&got);
	buf_add(&got, reply, len);
	got_it = true;
}

static void call(const char *method, struct buf *request)
{
	struct error err = ERROR_INIT;

	got_it = false;
	assert_ok(rpc_invoke(env.kubelet.client, method, buf_str(request), request->len,
			  10 * NS_PER_SEC, on_got, NULL, &err),
		&err);
	run_until(got_it, 10000);
	buf_fini(request);
}

/* --- registration --- */

static void plugin__registers_and_is_watched(void **state)
{
	struct kubelet *k = &env.kubelet;
	const char *why;

	(void)state;
	kubelet_start(k);
	start_plugin();
	run_until(is_up(), 5000);
	assert_string_equal(k->version, "v1beta1");
	assert_string_equal(k->endpoint, "nvidia-gpu.sock");
	assert_string_equal(k->resource, RESOURCE);
	assert_int_equal(k->registers, 1);
	assert_int_equal(k->options, 1); /* answered inside Register */
	assert_true(k->announced.preferred_allocation && !k->announced.pre_start_required);
	assert_true(k->answered.preferred_allocation && !k->answered.pre_start_required);
	assert_int_equal(k->devices.n, 2);
	assert_string_equal(k->devices.v[0].id, "GPU-0");
	assert_true(k->devices.v[0].healthy);
	assert_int_equal(k->devices.v[0].numa_node, 0);
	assert_int_equal(k->devices.v[1].numa_node, -1);
	assert_int_equal(plugin_state(env.plugin, &why), PLUGIN_REGISTERED);
	assert_string_equal(why, "");
	assert_true(env.registered);
	assert_string_equal(plugin_name(env.plugin), RESOURCE);
}

static void plugin__waits_for_kubelet(void **state)
{
	const char *why;

	(void)state;
	start_plugin();
	run_for_ms(50);
	assert_int_equal(plugin_state(env.plugin, &why), PLUGIN_WAITING);
	assert_non_null(strstr(why, "waiting for the kubelet's socket"));
	kubelet_start(&env.kubelet); /* which deletes our socket */
	plugin_look(env.plugin);     /* what inotify would do */
	run_until(is_up(), 1000);
}

static void plugin__sees_kubelet_without_being_told(void **state)
{
	(void)state;
	start_plugin();
	run_for_ms(20);
	kubelet_start(&env.kubelet);
	run_until(is_up(), 4000);
}

static void plugin__tries_again_after_refusal(void **state)
{
	uint64_t begin = time_mono_ns();

	(void)state;
	env.kubelet.mode = KUBELET_REFUSES;
	kubelet_start(&env.kubelet);
	start_plugin();
	run_until(env.kubelet.registers == 3, 5000);
	assert_true(time_mono_ns() - begin > 550 * NS_PER_MS); /* 0.2 s, then 0.4 s */
	assert_true(time_mono_ns() - begin < 3 * NS_PER_SEC);
	run_until(!env.registered && strstr(env.why, "the resource name is invalid"), 1000);
	env.kubelet.mode = KUBELET_GOOD;
	run_until(is_up(), 5000);
}

static void plugin__believes_watch_when_answer_is_lost(void **state)
{
	(void)state;
	env.kubelet.mode = KUBELET_SILENT;
	kubelet_start(&env.kubelet);
	start_plugin();
	run_until(plugin_watches(env.plugin) == 1, 2000);
	assert_int_equal(plugin_state(env.plugin, NULL), PLUGIN_REGISTERING);
	run_until(plugin_state(env.plugin, NULL) == PLUGIN_REGISTERED, 7000); /* its 5 s */
	run_for_ms(500);
	assert_int_equal(env.kubelet.registers, 1);
	assert_int_equal(env.kubelet.ends, 0);
	rpc_reply(env.kubelet.register_call, "", 0);
}

static void plugin__outlives_kubelet_that_dies_in_register(void **state)
{
	(void)state;
	env.kubelet.mode = KUBELET_DIES;
	kubelet_start(&env.kubelet);
	start_plugin();
	run_until(env.kubelet.registers == 1, 2000);
	run_until(plugin_state(env.plugin, NULL) == PLUGIN_WAITING, 2000);
	env.kubelet.mode = KUBELET_GOOD;
	kubelet_start(&env.kubelet);
	plugin_look(env.plugin);
	run_until(is_up(), 1000);
}

static void plugin__follows_restarts(void **state)
{
	struct kubelet *k = &env.kubelet;
	unsigned i;

	(void)state;
	kubelet_start(k);
	start_plugin();
	run_until(is_up(), 2000);
	for (i = 2; i < 12; i++) {
		uint64_t begin;

		kubelet_stop(k);
		if (i % 2) /* else the new one comes before we noticed */
			run_until(!env.registered, 2000);
		k->lists = 0;
		kubelet_start(k);
		begin = time_mono_ns();
		plugin_look(env.plugin);
		run_until(is_up(), 2000);
		assert_true(time_mono_ns() - begin < 900 * NS_PER_MS);
		assert_int_equal(k->registers, i);
		assert_int_equal(k->devices.n, 2);
	}
}

static void plugin__follows_new_kubelet_while_the_old_one_hangs(void **state)
{
	struct kubelet old;

	(void)state;
	kubelet_start(&env.kubelet);
	start_plugin();
	run_until(is_up(), 2000);
	/* A second kubelet takes the directory; the first one's connection stays open. */
	old = env.kubelet;
	memset(&env.kubelet.devices, 0, sizeof(env.kubelet.devices));
	env.kubelet.client = NULL;
	env.kubelet.lists = env.kubelet.registers = 0;
	kubelet_start(&env.kubelet);
	plugin_look(env.plugin);
	run_until(is_up(), 4000);
	assert_int_equal(env.kubelet.registers, 1);
	rpc_client_close(old.client);
	rpc_server_close(old.server);
	run_for_ms(100);
	assert_true(is_up());
	plugin_devices_fini(&old.devices);
}

static void plugin__registers_again_when_stream_is_reset(void **state)
{
	struct kubelet *k = &env.kubelet;
	unsigned i;

	(void)state;
	kubelet_start(k);
	start_plugin();
	run_until(is_up(), 2000);
	for (i = 2; i < 5; i++) {
		k->lists = 0;
		rpc_stream_cancel(k->stream);
		run_until(is_up(), 3000);
		assert_int_equal(k->registers, i);
	}
}

static void plugin__waits_for_hangup_before_it_registers_again(void **state)
{
	struct kubelet *k = &env.kubelet;

	(void)state;
	k->closes_late = true;
	kubelet_start(k);
	start_plugin();
	run_until(is_up(), 2000);
	/* Back off is 0.2 s and the kubelet's delay 0.1 s: make the delay the longer one. */
	k->lists = 0;
	rpc_stream_cancel(k->stream);
	run_until(k->ends == 1, 1000);
	(void)uv_timer_start(&k->late, on_late, 500, 0);
	run_until(is_up(), 3000);
	assert_int_equal(k->registers, 2);
	assert_int_equal(k->disconnects, 1);
	assert_true(k->registered_ns - k->ended_ns > 450 * NS_PER_MS);
	/* The race would strike now: the late end of the old stream takes the new client. */
	run_for_ms(800);
	assert_true(is_up());
	assert_int_equal(k->disconnects, 1);
}

static void plugin__does_not_wait_for_ever_for_hangup(void **state)
{
	struct error err = ERROR_INIT;
	int fd = -1;

	(void)state;
	kubelet_start(&env.kubelet);
	start_plugin();
	assert_ok(unix_connect(env.plugin_path, &fd, &err), &err); /* somebody who stays */
	run_until(is_up(), 3000);
	(void)close(fd);
}

static void plugin__brings_back_its_socket_and_stays_registered(void **state)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(64);
	struct kubelet *k = &env.kubelet;

	(void)state;
	kubelet_start(k);
	start_plugin();
	run_until(is_up(), 2000);
	assert_int_equal(unlink(env.plugin_path), 0);
	plugin_look(env.plugin);
	assert_int_equal(access(env.plugin_path, F_OK), 0);
	run_for_ms(300);
	assert_true(is_up());
	assert_int_equal(k->registers, 1);
	/* And it is dialled under its name again. */
	rpc_client_close(STEAL_PTR(k->client));
	run_until(k->registers == 2, 3000);
	run_until(is_up(), 2000);
	call(METHOD_PLUGIN_OPTIONS, &b);
	assert_int_equal(got_status, RPC_OK);
}

static void plugin__never_registers_if_told_so(void **state)
{
	struct error err = ERROR_INIT;
	const char *why;

	(void)state;
	kubelet_start(&env.kubelet);
	assert_ok(plugin_start(&env.plugin, env.rpc, env.dir, "", RESOURCE, &ops, NULL, &err),
		&err);
	run_for_ms(100);
	assert_int_equal(plugin_state(env.plugin, &why), PLUGIN_WAITING);
	assert_string_equal(why, "registration is switched off");
	assert_int_equal(env.kubelet.registers, 0);
}

static void plugin_stop__while_registering(void **state)
{
	(void)state;
	env.kubelet.mode = KUBELET_SILENT;
	kubelet_start(&env.kubelet);
	start_plugin();
	run_until(env.kubelet.registers == 1, 2000);
	env.plugin = plugin_stop(env.plugin);
	run_for_ms(50);
	rpc_reply(env.kubelet.register_call, "", 0);
}

static void plugin_start__refuses(void **state)
{
	static const struct {
		const char *name, *text;
	} rows[] = {
		{ "gpu", "is not <domain>/<name>" },
		{ "/gpu", "is not <domain>/<name>" },
		{ "nvidia.com/", "is not <domain>/<name>" },
		{ "nvidia.com/../x", "is not <domain>/<name>" },
		{ "nvidia.com/gpu", "another process serves" },
		{ "nvidia.com/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
		  "aaaaaaaaaaaaaaaaaaaa",
			"at most 107" },
	};
	struct error err = ERROR_INIT;
	struct plugin *p = NULL;
	size_t i;

	(void)state;
	start_plugin();
	for (i = 0; i < ARRAY_LEN(rows); i++)
		assert_error(plugin_start(&p, env.rpc, env.dir, NULL, rows[i].name, &ops, NULL,
				     &err),
			&err, rows[i].text);
	assert_ok(plugin_start(&p, env.rpc, env.dir, NULL, "example.com/gpu", &ops, NULL, &err),
		&err);
	assert_null(plugin_stop(p));
}

/* --- devices --- */

static struct plugin_devices second;
static unsigned second_lists, second_ends;

static void on_second(void *arg, const uint8_t *data, size_t len)
{
	struct error err = ERROR_INIT;

	(void)arg;
	plugin_devices_fini(&second);
	assert_ok(plugin_devices_decode(&second, data, len, &err), &err);
	second_lists++;
}

static void on_second_end(void *arg, enum rpc_status status, const char *text)
{
	(void)arg;
	(void)status;
	(void)text;
	second_ends++;
}

static void plugin_set_devices__reaches_every_stream(void **state)
{
	static const struct plugin_device bad = { .id = "GPU-\xff", .numa_node = -1 };
	struct kubelet *k = &env.kubelet;
	struct error err = ERROR_INIT;
	struct rpc_stream *s;

	(void)state;
	second_lists = second_ends = 0;
	kubelet_start(k);
	start_plugin();
	run_until(is_up(), 2000);
	assert_ok(rpc_stream_open(k->client, METHOD_LIST_AND_WATCH, "", 0, on_second,
			  on_second_end, NULL, &s, &err),
		&err);
	run_until(second_lists == 1, 2000);
	set_devices(false);
	run_until(k->lists == 2 && second_lists == 2, 2000);
	assert_int_equal(k->devices.n, 2); /* always complete */
	assert_false(k->devices.v[1].healthy);
	assert_false(second.v[1].healthy);
	set_devices(false); /* nothing new */
	assert_error(plugin_set_devices(env.plugin, &bad, 1, &err), &err, "not UTF-8");
	run_for_ms(50);
	assert_int_equal(k->lists, 2);
	set_devices(true);
	run_until(k->lists == 3 && second_lists == 3, 2000);
	assert_true(k->devices.v[1].healthy);
	env.plugin = plugin_stop(env.plugin);
	run_until(second_ends == 1, 2000);
	plugin_devices_fini(&second);
}

/* --- allocation --- */

static void plugin__answers_allocate(void **state)
{
	static const char *const good[] = { "GPU-0" }, *const bad[] = { "GPU-7" };
	struct id_list list = { .v = good, .n = 1 };
	struct buf b = BUF_INIT(1 << 20);
	struct allocate_response r = { 0 };
	struct error err = ERROR_INIT;

	(void)state;
	kubelet_start(&env.kubelet);
	start_plugin();
	run_until(is_up(), 2000);
	assert_ok(allocate_request_encode(&b, &list, 1, &err), &err);
	call(METHOD_ALLOCATE, &b);
	assert_int_equal(got_status, RPC_OK);
	assert_ok(allocate_response_decode(&r, (const uint8_t *)buf_str(&got), got.len, &err),
		&err);
	assert_int_equal(r.n, 1);
	assert_int_equal(r.v[0].n_envs, 1);
	assert_string_equal(r.v[0].envs[0].value, "GPU-0");
	assert_string_equal(r.v[0].devices[0].permissions, "rw");
	allocate_response_fini(&r);

	list.v = bad;
	assert_ok(allocate_request_encode(&b, &list, 1, &err), &err);
	call(METHOD_ALLOCATE, &b);
	assert_int_equal(got_status, RPC_UNKNOWN);
	assert_string_equal(got_text,
		"invalid allocation request for \"nvidia.com/gpu\": unknown device: GPU-7");

	buf_add(&b, "\x0a\xff", 2);
	call(METHOD_ALLOCATE, &b);
	assert_int_equal(got_status, RPC_INVALID_ARGUMENT);

	list.v = good;
	assert_ok(pre_start_request_encode(&b, &list, &err), &err);
	call(METHOD_PRE_START, &b);
	assert_int_equal(got_status, RPC_OK);
	assert_int_equal(got.len, 0);
	buf_fini(&got);
}

static void plugin__answers_preferred_allocation(void **state)
{
	static const char *const ids[] = { "a", "b", "c" };
	struct prefer_request reqs[2] = {
		{ .available = ids, .n_available = 3, .size = 2 },
		{ .available = ids, .n_available = 2, .size = 1 },
	};
	struct buf b = BUF_INIT(1 << 20);
	struct id_lists r = { 0 };
	struct error err = ERROR_INIT;

	(void)state;
	kubelet_start(&env.kubelet);
	start_plugin();
	run_until(is_up(), 2000);
	assert_ok(prefer_request_encode(&b, reqs, 2, &err), &err);
	call(METHOD_PREFER, &b);
	assert_int_equal(got_status, RPC_OK);
	assert_ok(prefer_response_decode(&r, (const uint8_t *)buf_str(&got), got.len, &err),
		&err);
	assert_int_equal(r.n, 2);
	assert_int_equal(r.v[0].n, 2);
	assert_string_equal(r.v[0].v[0], "c");
	assert_string_equal(r.v[0].v[1], "b");
	assert_int_equal(r.v[1].n, 1);
	assert_string_equal(r.v[1].v[0], "b");
	id_lists_fini(&r);

	reqs[0].size = 4;
	assert_ok(prefer_request_encode(&b, reqs, 1, &err), &err);
	call(METHOD_PREFER, &b);
	assert_int_equal(got_status, RPC_UNKNOWN);
	assert_string_equal(got_text,
		"error getting list of preferred allocation devices: not enough available devices");

	reqs[0].size = MESSAGE_DEVICES_MAX + 1;
	assert_ok(prefer_request_encode(&b, reqs, 1, &err), &err);
	call(METHOD_PREFER, &b);
	assert_int_equal(got_status, RPC_INVALID_ARGUMENT);
	buf_fini(&got);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(plugin__registers_and_is_watched),
		T(plugin__waits_for_kubelet),
		T(plugin__sees_kubelet_without_being_told),
		T(plugin__tries_again_after_refusal),
		T(plugin__believes_watch_when_answer_is_lost),
		T(plugin__outlives_kubelet_that_dies_in_register),
		T(plugin__follows_restarts),
		T(plugin__follows_new_kubelet_while_the_old_one_hangs),
		T(plugin__registers_again_when_stream_is_reset),
		T(plugin__waits_for_hangup_before_it_registers_again),
		T(plugin__does_not_wait_for_ever_for_hangup),
		T(plugin__brings_back_its_socket_and_stays_registered),
		T(plugin__never_registers_if_told_so),
		T(plugin_stop__while_registering),
		T(plugin_start__refuses),
		T(plugin_set_devices__reaches_every_stream),
		T(plugin__answers_allocate),
		T(plugin__answers_preferred_allocation),
	};

	return cmocka_run_group_tests_name("plugin", tests, NULL, NULL);
}
