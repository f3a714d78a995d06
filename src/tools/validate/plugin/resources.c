/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/validate/plugin/resources.h"

#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/paths.h"
#include "lib/base/fd.h"
#include "lib/base/time.h"
#include "lib/http/client/client.h"
#include "io/kubelet/messages/messages.h"
#include "io/kubelet/rpc/rpc.h"
#include "tools/validate/internal.h"

#define TIMEOUT_NS (10 * NS_PER_SEC)

static uint64_t get_offer_number(const json_t *o, const char *key)
{
	json_int_t v = json_integer_value(json_object_get(o, key));

	return v < 0 ? 0 : (uint64_t)v;
}

static void copy_offer_text(const json_t *o, const char *key, char *ret, size_t cap)
{
	const char *s = json_string_value(json_object_get(o, key));

	report_text(ret, cap, s ? s : "");
}

int offers_read_status(struct offers *ret, const char *json, size_t len, struct error *err)
{
	json_error_t where;
	json_auto_t *root = json_loadb(json, len, 0, &where);
	const json_t *list = json_object_get(root, "resources");

	ret->n = 0;
	if (!root)
		return error_set(err, ERR_INVALID, "the agent's status is no JSON: %s",
			where.text);
	if (!json_is_array(list))
		return error_set(err, ERR_INVALID,
			"the answer is not the status of gpusliced: it has no resources");
	if (json_array_size(list) > OFFERS_MAX)
		return error_set(err, ERR_LIMIT, "the agent lists more than %d resources",
			OFFERS_MAX);
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *o = json_array_get(list, i);
		struct offered_resource *to = &ret->v[ret->n++];

		copy_offer_text(o, "name", to->name, sizeof(to->name));
		copy_offer_text(o, "state", to->state, sizeof(to->state));
		copy_offer_text(o, "reason", to->reason, sizeof(to->reason));
		to->devices = get_offer_number(o, "capacity");
		to->healthy = get_offer_number(o, "allocatable");
	}
	return 0;
}

int offers_of_agent(struct offers *ret, const char *run_dir, struct error *err)
{
	CLEANUP(buf_fini) struct buf json = BUF_INIT(HTTP_REPLY_MAX);
	char path[PATH_MAX], address[PATH_MAX + 8];

	if (path_join(path, sizeof(path), run_dir, AGENT_SOCKET, err) < 0)
		return -1;
	(void)snprintf(address, sizeof(address), "unix:%s", path);
	if (http_call_json(address, "GET", "/v1/status", NULL, TIMEOUT_NS, &json, err) < 0)
		return -1;
	return offers_read_status(ret, buf_str(&json), json.len, err);
}

/* --- the kubelet --- */

struct offers_query {
	struct offers *to;
	bool (*wanted)(void *arg, const char *name);
	void *arg;
	struct error *err;
	int result;
};

static bool is_gpu_resource(const struct offers_query *q, const struct pod_entry *e)
{
	return strncmp(e->resource, "nvidia.com/", 11) == 0 || strncmp(e->id, "GPU-", 4) == 0 ||
	       strncmp(e->id, "MIG-", 4) == 0 || q->wanted(q->arg, e->resource);
}

static int count_device(struct offers *o, const char *resource, struct error *err)
{
	for (size_t i = 0; i < o->n; i++) {
		if (strcmp(o->v[i].name, resource) == 0) {
			o->v[i].devices++;
			o->v[i].healthy++;
			return 0;
		}
	}
	if (o->n == OFFERS_MAX)
		return error_set(err, ERR_LIMIT, "the kubelet lists more than %d resources",
			OFFERS_MAX);
	o->v[o->n] = (struct offered_resource){ .devices = 1, .healthy = 1 };
	report_text(o->v[o->n].name, sizeof(o->v[o->n].name), resource);
	o->n++;
	return 0;
}

static void on_allocatable_answer(void *arg, enum rpc_status status, const char *text,
	const uint8_t *reply, size_t len)
{
	struct offers_query *q = arg;
	struct pod_entries e = { .n = 0 };

	if (status != RPC_OK) {
		q->result = error_set(q->err,
			status == RPC_DEADLINE_EXCEEDED ? ERR_TIMEOUT : ERR_UNAVAILABLE,
			"ask the kubelet for allocatable devices: %s", text);
		return;
	}
	q->result = pod_allocatable_decode(&e, reply, len, q->err);
	for (size_t i = 0; i < e.n && q->result == 0; i++) {
		if (e.v[i].resource && e.v[i].id && is_gpu_resource(q, &e.v[i]))
			q->result = count_device(q->to, e.v[i].resource, q->err);
	}
	pod_entries_fini(&e);
}

static int request_allocatable(struct offers_query *q, struct rpc *rpc, uv_loop_t *loop,
	const char *path, struct error *err)
{
	struct rpc_client *client = NULL;
	int r;

	if (rpc_dial(rpc, path, &client, err) < 0)
		return -1;
	r = rpc_invoke(client, METHOD_POD_ALLOCATABLE, "", 0, TIMEOUT_NS, on_allocatable_answer,
		q, err);
	if (r == 0) {
		(void)uv_run(loop, UV_RUN_DEFAULT);
		r = q->result;
	}
	rpc_client_close(client);
	return r;
}

int offers_of_kubelet(struct offers *ret, const char *kubelet_dir,
	bool (*wanted)(void *arg, const char *name), void *arg, struct error *err)
{
	struct offers_query q = { .to = ret, .wanted = wanted, .arg = arg, .err = err };
	char path[PATH_MAX];
	struct rpc *rpc = NULL;
	uv_loop_t loop;
	int r;

	ret->n = 0;
	if (path_join(path, sizeof(path), kubelet_dir, "pod-resources/kubelet.sock", err) < 0)
		return -1;
	/* This check comes before gRPC starts its threads. */
	if (access(path, F_OK) < 0)
		return error_set(err, ERR_UNAVAILABLE,
			"'%s': the kubelet's socket is not there", path);
	r = uv_loop_init(&loop);
	if (r < 0)
		return error_sys(err, -r, "make a loop");
	r = rpc_new(&rpc, &loop, err);
	if (r == 0)
		r = request_allocatable(&q, rpc, &loop, path, err);
	(void)rpc_free(rpc);
	(void)uv_run(&loop, UV_RUN_DEFAULT);
	(void)uv_loop_close(&loop);
	return r;
}
