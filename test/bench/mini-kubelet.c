/* SPDX-License-Identifier: Apache-2.0 */
#include "mini-kubelet.h"

#include "lib/base/fd.h"
#include "lib/base/time.h"

#include <stdio.h>
#include <string.h>

static void on_register(struct rpc_call *call, const uint8_t *request, size_t len, void *arg)
{
	struct mini_kubelet *k = arg;
	struct register_request r;

	k->registered_ns = time_mono_ns();
	if (register_request_decode(&r, request, len, NULL) < 0) {
		rpc_reply_error(call, RPC_INVALID_ARGUMENT, "bad registration");
		return;
	}
	(void)snprintf(k->endpoint, sizeof(k->endpoint), "%s/%s", k->dir, r.endpoint);
	register_request_fini(&r);
	rpc_reply(call, "", 0);
	uv_stop(&k->loop);
}

static const struct rpc_method methods[] = {
	{ .path = METHOD_REGISTER, .handle = on_register },
};

int mini_kubelet_start(struct mini_kubelet *k, const char *dir, struct error *err)
{
	char path[128];

	*k = (struct mini_kubelet){ .rpc = NULL };
	(void)snprintf(k->dir, sizeof(k->dir), "%s", dir);
	(void)uv_loop_init(&k->loop);
	(void)uv_timer_init(&k->loop, &k->deadline);
	k->deadline.data = k;
	if (rpc_new(&k->rpc, &k->loop, err) < 0 ||
		path_join(path, sizeof(path), dir, "kubelet.sock", err) < 0)
		return -1;
	return rpc_serve(k->rpc, path, methods, ARRAY_LEN(methods), k, &k->server, err);
}

void mini_kubelet_stop(struct mini_kubelet *k)
{
	uv_close((uv_handle_t *)&k->deadline, NULL);
	k->rpc = rpc_free(k->rpc);
	(void)uv_run(&k->loop, UV_RUN_DEFAULT);
	(void)uv_loop_close(&k->loop);
	free(k->ids);
}

static void on_deadline(uv_timer_t *t)
{
	struct mini_kubelet *k = t->data;

	k->timed_out = true;
	uv_stop(&k->loop);
}

/* Runs the loop until a callback stops it. False: the time is up. */
static bool wait_once(struct mini_kubelet *k, uint64_t until_ns)
{
	uint64_t now = time_mono_ns();

	if (now >= until_ns)
		return false;
	k->timed_out = false;
	(void)uv_timer_start(&k->deadline, on_deadline, (until_ns - now) / NS_PER_MS + 1, 0);
	(void)uv_run(&k->loop, UV_RUN_DEFAULT);
	(void)uv_timer_stop(&k->deadline);
	return !k->timed_out;
}

void mini_kubelet_run(struct mini_kubelet *k, uint64_t ns)
{
	uint64_t until = time_mono_ns() + ns;

	while (wait_once(k, until))
		;
}

static void on_list(void *arg, const uint8_t *data, size_t len)
{
	struct mini_kubelet *k = arg;
	struct plugin_devices d;

	if (plugin_devices_decode(&d, data, len, NULL) < 0)
		return;
	free(k->ids);
	k->ids = calloc(d.n ? d.n : 1, sizeof(*k->ids));
	k->n_devices = k->ids ? d.n : 0;
	for (size_t i = 0; i < k->n_devices; i++)
		(void)snprintf(k->ids[i], sizeof(k->ids[i]), "%s", d.v[i].id);
	plugin_devices_fini(&d);
	k->listed_ns = time_mono_ns();
	uv_stop(&k->loop);
}

static void on_end(void *arg, enum rpc_status status, const char *text)
{
	struct mini_kubelet *k = arg;

	(void)status;
	(void)text;
	k->stream = NULL;
}

int mini_kubelet_wait_registered(struct mini_kubelet *k, uint64_t since_ns, uint64_t timeout_ns,
	struct error *err)
{
	uint64_t until = time_mono_ns() + timeout_ns;

	while (k->registered_ns <= since_ns) {
		if (!wait_once(k, until))
			return error_set(err, ERR_TIMEOUT, "nobody registered");
	}
	if (k->plugin)
		rpc_client_close(STEAL_PTR(k->plugin));
	k->listed_ns = 0;
	if (rpc_dial(k->rpc, k->endpoint, &k->plugin, err) < 0 ||
		rpc_stream_open(k->plugin, METHOD_LIST_AND_WATCH, "", 0, on_list, on_end, k,
			&k->stream, err) < 0)
		return -1;
	while (k->listed_ns == 0) {
		if (!wait_once(k, until))
			return error_set(err, ERR_TIMEOUT, "no device list came");
	}
	return 0;
}

int mini_kubelet_wait_devices(struct mini_kubelet *k, size_t n, uint64_t timeout_ns,
	struct error *err)
{
	uint64_t until = time_mono_ns() + timeout_ns;

	while (k->n_devices != n) {
		if (!wait_once(k, until))
			return error_set(err, ERR_TIMEOUT, "%zu devices are listed, not %zu",
				k->n_devices, n);
	}
	return 0;
}

static void on_allocated(void *arg, enum rpc_status status, const char *text,
	const uint8_t *reply, size_t len)
{
	struct mini_kubelet *k = arg;

	(void)text;
	(void)reply;
	(void)len;
	k->called = true;
	k->call_status = status;
	uv_stop(&k->loop);
}

int mini_kubelet_allocate(struct mini_kubelet *k, const char *id, uint64_t *ret_ns,
	struct error *err)
{
	const struct id_list ids = { .v = &id, .n = 1 };
	CLEANUP(buf_fini) struct buf b = BUF_INIT(1 << 20);
	uint64_t start, until;

	if (allocate_request_encode(&b, &ids, 1, err) < 0)
		return -1;
	k->called = false;
	start = time_mono_ns();
	until = start + 5 * NS_PER_SEC;
	if (rpc_invoke(k->plugin, METHOD_ALLOCATE, buf_str(&b), b.len, 5 * NS_PER_SEC,
		    on_allocated, k, err) < 0)
		return -1;
	while (!k->called) {
		if (!wait_once(k, until))
			return error_set(err, ERR_TIMEOUT, "Allocate was not answered");
	}
	*ret_ns = time_mono_ns() - start;
	if (k->call_status != RPC_OK)
		return error_set(err, ERR_INTERNAL, "Allocate: status %d", (int)k->call_status);
	return 0;
}
