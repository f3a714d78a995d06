/* SPDX-License-Identifier: Apache-2.0 */
/* The kubelet's PodResources service, with its limit on the rate of requests (internal.h). */
#include "testbed/standin/kubelet/internal.h"

#include "lib/base/array.h"
#include "lib/base/time.h"
#include "io/kubelet/messages/messages.h"

#include <stdlib.h>
#include <string.h>

/* One bucket for the socket and all its clients (kubelet/apis/podresources, 1.37). */
#define TOKEN_NS (NS_PER_SEC / 100)
#define BURST    10

bool token_bucket_consume(struct token_bucket *b, uint64_t now_ns)
{
	uint64_t gained = now_ns - b->last_ns;

	if (b->last_ns == 0 || gained > BURST * TOKEN_NS ||
		b->tokens_ns + gained > BURST * TOKEN_NS)
		b->tokens_ns = BURST * TOKEN_NS;
	else
		b->tokens_ns += gained;
	b->last_ns = now_ns;
	if (b->tokens_ns < TOKEN_NS)
		return false;
	b->tokens_ns -= TOKEN_NS;
	return true;
}

struct entries {
	struct pod_entry *v;
	size_t n, room;
};

static int add_pod_list_entry(struct entries *e, struct pod_entry entry, struct error *err)
{
	if (!ARRAY_GROW(&e->v, e->n, &e->room, ARRAY_NO_LIMIT))
		return error_nomem(err);
	e->v[e->n++] = entry;
	return 0;
}

/* The devices of one resource, grouped by NUMA node. */
static int add_grant(struct entries *e, struct pod_entry base, const struct device_grant *g,
	struct error *err)
{
	base.resource = g->resource;
	for (size_t first = 0; first < g->ids.n; first++) {
		bool seen = false;

		for (size_t i = 0; i < first && !seen; i++)
			seen = g->numa_nodes[i] == g->numa_nodes[first];
		for (size_t i = first; i < g->ids.n && !seen; i++) {
			if (g->numa_nodes[i] != g->numa_nodes[first])
				continue;
			base.id = g->ids.v[i];
			base.numa_node = g->numa_nodes[i];
			if (add_pod_list_entry(e, base, err) < 0)
				return -1;
		}
	}
	return 0;
}

static int add_pod_list_entries(const struct kubelet *k, const struct pod *p, struct entries *e,
	struct error *err)
{
	for (size_t i = 0; i < p->spec->n_containers; i++) {
		const struct container *c = &p->spec->containers[i];
		struct pod_entry base = { .namespace_ = p->namespace_,
			.pod = p->name,
			.container = c->name,
			.numa_node = -1 };
		size_t before = e->n;

		if (c->init && !c->sidecar)
			continue; /* ordinary init containers never appear */
		for (size_t w = 0; w < c->n_requests; w++) {
			const struct device_grant *g = device_manager_find(k->devices, p->uid,
				c->name, c->requests[w].resource);

			if (g && add_grant(e, base, g, err) < 0)
				return -1;
		}
		if (e->n == before && add_pod_list_entry(e, base, err) < 0)
			return -1;
	}
	return 0;
}

static void send_pods_reply(struct rpc_call *call, int rc, const struct buf *b,
	const struct error *err)
{
	if (rc == 0 && buf_ok(b))
		rpc_reply(call, buf_str(b), b->len);
	else
		rpc_reply_error(call, RPC_INTERNAL, rc < 0 ? err->msg : "answer is too long");
}

static void list_now(struct kubelet *k, struct rpc_call *call, const uint8_t *data, size_t len)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(RPC_MESSAGE_MAX);
	struct entries e = { 0 };
	struct error err = ERROR_INIT;
	int rc = 0;

	(void)data;
	(void)len;
	for (size_t i = 0; i < k->cluster->n_pods && rc == 0; i++) {
		const struct pod *p = k->cluster->pods[i];

		if (p->phase == POD_RUNNING || p->phase == POD_ADMITTING)
			rc = add_pod_list_entries(k, p, &e, &err);
	}
	if (rc == 0)
		rc = pod_list_encode(&b, e.v, e.n, &err);
	send_pods_reply(call, rc, &b, &err);
	free(e.v);
}

static void allocatable_now(struct kubelet *k, struct rpc_call *call, const uint8_t *data,
	size_t len)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(RPC_MESSAGE_MAX);
	struct entries e = { 0 };
	struct error err = ERROR_INIT;
	int rc = 0;

	(void)data;
	(void)len;
	for (size_t r = 0; r < device_manager_n_resources(k->devices); r++) {
		const char *name = device_manager_resource(k->devices, r);
		size_t n;
		const struct managed_device *device =
			device_manager_devices(k->devices, name, &n);

		for (size_t i = 0; i < n && rc == 0; i++) {
			if (device[i].healthy)
				rc = add_pod_list_entry(&e,
					(struct pod_entry){ .resource = name,
						.id = device[i].id,
						.numa_node = device[i].numa_node },
					&err);
		}
	}
	if (rc == 0)
		rc = pod_allocatable_encode(&b, e.v, e.n, &err);
	send_pods_reply(call, rc, &b, &err);
	free(e.v);
}

static bool reject_over_rate(struct kubelet *k, struct rpc_call *call)
{
	k->counts.lists++;
	if (token_bucket_consume(&k->bucket, time_mono_ns()))
		return false;
	k->counts.rejected_lists++;
	rpc_reply_error(call, RPC_RESOURCE_EXHAUSTED, "rejected by rate limit");
	return true;
}

static void on_pod_list_request(struct rpc_call *call, const uint8_t *data, size_t len,
	void *arg)
{
	if (!reject_over_rate(arg, call))
		kubelet_delay_reply(arg, call, list_now, data, len);
}

static void on_allocatable(struct rpc_call *call, const uint8_t *data, size_t len, void *arg)
{
	if (!reject_over_rate(arg, call))
		kubelet_delay_reply(arg, call, allocatable_now, data, len);
}

const struct rpc_method kubelet_pod_methods[2] = {
	{ .path = METHOD_POD_LIST, .streaming = false, .handle = on_pod_list_request },
	{ .path = METHOD_POD_ALLOCATABLE, .streaming = false, .handle = on_allocatable },
};
