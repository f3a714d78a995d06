/* SPDX-License-Identifier: Apache-2.0 */
#include "io/kubelet/pod-resources.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "io/kubelet/messages/messages.h"

static_assert(POD_DEVICES_MAX == MESSAGE_DEVICES_MAX, "one limit");

static char *copy_pod_text(const char *s)
{
	return strdup(s ? s : "");
}

static bool copy_pod_device(struct pod_device *to, const struct pod_entry *from)
{
	to->namespace_ = copy_pod_text(from->namespace_);
	to->pod = copy_pod_text(from->pod);
	to->container = copy_pod_text(from->container);
	to->resource = copy_pod_text(from->resource);
	to->id = copy_pod_text(from->id);
	to->dynamic = from->dynamic;
	return to->namespace_ && to->pod && to->container && to->resource && to->id;
}

int pod_devices_decode(struct pod_devices **ret, const uint8_t *data, size_t len,
	struct error *err)
{
	CLEANUP(pod_devices_freep) struct pod_devices *list = calloc(1, sizeof(*list));
	CLEANUP(pod_entries_fini) struct pod_entries e = { 0 };
	size_t i;

	if (!list)
		return error_nomem(err);
	if (pod_list_decode(&e, data, len, err) < 0)
		return -1;
	list->v = calloc(e.n ? e.n : 1, sizeof(*list->v));
	if (!list->v)
		return error_nomem(err);
	for (i = 0; i < e.n; i++) {
		list->n++;
		if (!copy_pod_device(&list->v[i], &e.v[i]))
			return error_nomem(err);
	}
	*ret = STEAL_PTR(list);
	return 0;
}

struct pod_resources_query {
	void (*done)(void *arg, struct pod_devices *list, const struct error *err);
	void *arg;
};

static enum error_code get_rpc_error_code(enum rpc_status status)
{
	switch ((int)status) {
	case RPC_CANCELLED:
		return ERR_CANCELLED;
	case RPC_DEADLINE_EXCEEDED:
		return ERR_TIMEOUT;
	case RPC_UNIMPLEMENTED:
		return ERR_UNSUPPORTED;
	case RPC_RESOURCE_EXHAUSTED:
		return ERR_LIMIT;
	default:
		return ERR_UNAVAILABLE;
	}
}

static void on_pod_resources_reply(void *arg, enum rpc_status status, const char *text,
	const uint8_t *reply, size_t len)
{
	struct pod_resources_query q = *(struct pod_resources_query *)arg;
	struct pod_devices *list = NULL;
	struct error err = ERROR_INIT;

	free(arg);
	if (status != RPC_OK)
		(void)error_set(&err, get_rpc_error_code(status), "list pod resources: %s",
			text);
	else if (pod_devices_decode(&list, reply, len, &err) == 0) {
		q.done(q.arg, list, NULL);
		return;
	}
	q.done(q.arg, NULL, &err);
}

int pod_resources_list(struct rpc_client *c, uint64_t timeout_ns,
	void (*done)(void *arg, struct pod_devices *list, const struct error *err), void *arg,
	struct error *err)
{
	struct pod_resources_query *q = malloc(sizeof(*q));

	if (!q)
		return error_nomem(err);
	*q = (struct pod_resources_query){ .done = done, .arg = arg };
	if (rpc_invoke(c, METHOD_POD_LIST, "", 0, timeout_ns, on_pod_resources_reply, q, err) <
		0) {
		free(q);
		return -1;
	}
	return 0;
}
