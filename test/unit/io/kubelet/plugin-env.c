/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/io/kubelet/plugin-env.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include "lib/base/fd.h"

struct env env;

void run_for_ms(unsigned ms)
{
	patience_run_for(&env.patience, ms);
}

/* --- the kubelet --- */

static void disconnect_kubelet(struct kubelet *k)
{
	struct rpc_client *c = k->client;

	if (!c)
		return;
	k->client = NULL;
	k->disconnects++;
	rpc_client_close(c);
}

void kubelet_disconnect_late(uv_timer_t *t)
{
	disconnect_kubelet(t->data);
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
		(void)uv_timer_start(&k->late, kubelet_disconnect_late, 100, 0);
	else
		disconnect_kubelet(k);
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

void kubelet_start(struct kubelet *k)
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

void kubelet_stop(struct kubelet *k)
{
	if (k->client)
		rpc_client_close(STEAL_PTR(k->client));
	k->stream = NULL;
	if (k->server)
		rpc_server_close(STEAL_PTR(k->server));
}

/* --- the owner of the plugin --- */

static int prefer_first(void *arg, const struct prefer_request *req, const char **ret_ids,
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

static int allocate_first_gpu(void *arg, const char *const *ids, size_t n_ids,
	struct allocation **ret, struct error *err)
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

const struct plugin_ops plugin_env_ops = { .prefer = prefer_first,
	.allocate = allocate_first_gpu,
	.state = on_state };

void set_devices(bool healthy)
{
	const struct plugin_device v[] = {
		{ .id = "GPU-0", .healthy = true, .numa_node = 0 },
		{ .id = "GPU-1", .healthy = healthy, .numa_node = -1 },
	};
	struct error err = ERROR_INIT;

	assert_ok(plugin_set_devices(env.plugin, v, ARRAY_LEN(v), &err), &err);
}

void start_plugin(void)
{
	struct error err = ERROR_INIT;

	assert_ok(plugin_start(&env.plugin, env.rpc, env.dir, NULL, RESOURCE, &plugin_env_ops,
			  NULL, &err),
		&err);
	set_devices(true);
}

bool is_up(void)
{
	return plugin_state(env.plugin, NULL) == PLUGIN_REGISTERED && env.kubelet.lists > 0 &&
	       env.kubelet.stream;
}

int plugin_env_setup(void **state)
{
	struct error err = ERROR_INIT;

	(void)state;
	memset(&env, 0, sizeof(env));
	assert_int_equal(uv_loop_init(&env.loop), 0);
	patience_init(&env.patience, &env.loop);
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

int plugin_env_teardown(void **state)
{
	(void)state;
	env.plugin = plugin_stop(env.plugin);
	kubelet_stop(&env.kubelet);
	plugin_devices_fini(&env.kubelet.devices);
	env.rpc = rpc_free(env.rpc);
	patience_close(&env.patience);
	uv_close((uv_handle_t *)&env.kubelet.late, NULL);
	assert_int_equal(uv_run(&env.loop, UV_RUN_DEFAULT), 0);
	assert_int_equal(uv_loop_close(&env.loop), 0);
	assert_int_equal(access(env.plugin_path, F_OK), -1); /* nothing is left behind */
	test_rmdir(env.dir);
	return 0;
}

struct plugin_reply got = { .reply = BUF_INIT(1 << 20) };

static void on_plugin_reply(void *arg, enum rpc_status status, const char *text,
	const uint8_t *reply, size_t len)
{
	(void)arg;
	got.status = status;
	(void)snprintf(got.text, sizeof(got.text), "%s", text);
	buf_clear(&got.reply);
	buf_add(&got.reply, reply, len);
	got.answered = true;
}

void call(const char *method, struct buf *request)
{
	struct error err = ERROR_INIT;

	got.answered = false;
	assert_ok(rpc_invoke(env.kubelet.client, method, buf_str(request), request->len,
			  10 * NS_PER_SEC, on_plugin_reply, NULL, &err),
		&err);
	run_until(got.answered, 10000);
	buf_fini(request);
}
