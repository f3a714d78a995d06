/* SPDX-License-Identifier: Apache-2.0 */
/* Allocates devices to pods and starts their containers (internal.h). */
#include "testbed/standin/kubelet/internal.h"

#include "lib/base/log.h"
#include "lib/base/time.h"
#include "io/kubelet/messages/messages.h"

#include <stdlib.h>
#include <string.h>

#define PRE_START_TIMEOUT_NS (30 * NS_PER_SEC)

/*
 * Admission of one pod at a time. For each container in order, and each resource that the container requests:
 *
 *	1. the kubelet chooses devices;
 *	2. asks the plugin for its preference;
 *	3. calls Allocate.
 *
 * Then the containers start. Between two steps exactly one call is in progress. The callback of that call owns a
 * dead admission and frees it.
 */

static void admission_free(struct admission *a)
{
	device_choice_fini(&a->choice);
	free(a->uid);
	free(a);
}

static struct pod *pod_of(const struct admission *a)
{
	return cluster_pod_by_uid(a->k->cluster, a->uid);
}

/* The event has the message. The status of a pod that was not admitted starts with "Pod was rejected". */
static void fail_pod(const struct admission *a, struct pod *p, const char *reason,
	const char *message)
{
	CLEANUP(freep) char *status = NULL;

	if (asprintf(&status, "%s%s", a->starting ? "" : "Pod was rejected: ", message) < 0)
		status = NULL;
	(void)pod_set_status(p, POD_FAILED, reason, status ? status : message);
	pod_event(p, time_mono_ns(), true, reason, "kubelet", message);
	device_manager_release(a->k->devices, p->uid);
	log_warn("pod failed", LOG_STR("pod", p->name), LOG_STR("reason", reason),
		LOG_STR("message", message));
}

/* Ends an admission without a call in progress; @reason and @message are for a failed one. */
static void finish_admission(struct admission *a, enum pod_phase phase, const char *reason,
	const char *message)
{
	struct kubelet *k = a->k;
	struct pod *p = pod_of(a);

	k->admission = NULL;
	if (p && phase == POD_RUNNING) {
		(void)pod_set_status(p, phase, NULL, NULL);
		p->started_ns = time_mono_ns();
		pod_event(p, p->started_ns, false, "Started", "kubelet", "Started containers");
	} else if (p) {
		fail_pod(a, p, reason, message);
	}
	admission_free(a);
	kubelet_changed(k);
}

static void fail_admission(struct admission *a, const struct error *err)
{
	char text[ERROR_MSG_MAX + 64];

	a->k->counts.failed_allocations++;
	(void)snprintf(text, sizeof(text), "Allocate failed due to %s, which is unexpected",
		err->msg);
	finish_admission(a, POD_FAILED, "UnexpectedAdmissionError", text);
}

/* True if the admission was aborted during the call; @a is freed then. */
static bool was_dropped(struct admission *a)
{
	if (!a->dead)
		return false;
	admission_free(a);
	return true;
}

static void advance_admission(struct admission *a);

/* Whether the call succeeded; else @a is freed. */
static bool check_call_status(struct admission *a, enum rpc_status status, const char *text)
{
	char full[ERROR_MSG_MAX];
	struct error err = ERROR_INIT;

	if (was_dropped(a))
		return false;
	if (status == RPC_OK)
		return true;
	kubelet_status_text(full, sizeof(full), status, text);
	(void)error_set(&err, ERR_UNAVAILABLE, "%s", full);
	fail_admission(a, &err);
	return false;
}

/* Sends one call to the plugin of the choice. */
static int call_plugin(struct admission *a, const char *method, const struct buf *b,
	uint64_t timeout_ns, rpc_done_fn done, struct error *err)
{
	struct plugin_conn *c = kubelet_conn(a->k, a->choice.resource);

	if (!c || !c->client)
		return error_set(err, ERR_UNAVAILABLE, "unknown Device Plugin %s",
			a->choice.resource);
	if (!buf_ok(b))
		return error_nomem(err);
	return rpc_invoke(c->client, method, buf_str(b), b->len, timeout_ns, done, a, err);
}

static void on_allocated(void *arg, enum rpc_status status, const char *text,
	const uint8_t *reply, size_t len)
{
	CLEANUP(allocate_response_fini) struct allocate_response response = { 0 };
	struct admission *a = arg;
	struct error err = ERROR_INIT;

	if (!check_call_status(a, status, text))
		return;
	if (allocate_response_decode(&response, reply, len, &err) < 0 ||
		(response.n == 0 &&
			error_set(&err, ERR_INVALID,
				"no containers return in allocation response") < 0) ||
		device_manager_commit(a->k->devices, &a->choice, reply, len, &err) < 0) {
		fail_admission(a, &err);
		return;
	}
	a->k->counts.allocations++;
	device_choice_fini(&a->choice);
	a->want++;
	advance_admission(a);
}

/* The devices are chosen: asks the plugin to allocate them. */
static void call_plugin_allocate(struct admission *a)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(MESSAGE_TO_KUBELET_MAX);
	struct id_list ids = { .v = (const char *const *)a->choice.chosen.v,
		.n = a->choice.chosen.n };
	struct error err = ERROR_INIT;

	/* No deadline: a plugin that does not answer blocks all admission on the node. */
	if (allocate_request_encode(&b, &ids, 1, &err) < 0 ||
		call_plugin(a, METHOD_ALLOCATE, &b, UINT64_MAX, on_allocated, &err) < 0)
		fail_admission(a, &err);
}

static void on_preferred(void *arg, enum rpc_status status, const char *text,
	const uint8_t *reply, size_t len)
{
	CLEANUP(id_lists_fini) struct id_lists lists = { 0 };
	struct admission *a = arg;
	struct error err = ERROR_INIT;

	if (!check_call_status(a, status, text))
		return;
	if (prefer_response_decode(&lists, reply, len, &err) < 0 ||
		device_manager_choose(a->k->devices, &a->choice, lists.n ? lists.v[0].v : NULL,
			lists.n ? lists.v[0].n : 0, &err) < 0) {
		fail_admission(a, &err);
		return;
	}
	a->k->counts.preferences++;
	call_plugin_allocate(a);
}

static void call_preferred_allocation(struct admission *a)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(MESSAGE_TO_KUBELET_MAX);
	struct device_choice *c = &a->choice;
	struct prefer_request r = {
		.available = (const char *const *)c->queried.v,
		.n_available = c->queried.n,
		.required = (const char *const *)c->chosen.v,
		.n_required = c->chosen.n,
		.size = c->size,
	};
	struct error err = ERROR_INIT;

	if (prefer_request_encode(&b, &r, 1, &err) < 0 ||
		call_plugin(a, METHOD_PREFER, &b, UINT64_MAX, on_preferred, &err) < 0)
		fail_admission(a, &err);
}

static void on_pre_started(void *arg, enum rpc_status status, const char *text,
	const uint8_t *reply, size_t len)
{
	struct admission *a = arg;
	char full[ERROR_MSG_MAX];

	(void)reply;
	(void)len;
	if (was_dropped(a))
		return;
	device_choice_fini(&a->choice);
	if (status != RPC_OK) {
		kubelet_status_text(full, sizeof(full), status, text);
		finish_admission(a, POD_FAILED, "PreStartContainerError", full);
		return;
	}
	a->want++;
	advance_admission(a);
}

/* PreStartContainer for the devices of the container, if the plugin requires it. True: a call is in
 * progress, or the admission is over. */
static bool pre_start(struct admission *a, const struct container *c, const char *resource)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(MESSAGE_TO_KUBELET_MAX);
	const struct device_grant *g =
		device_manager_find(a->k->devices, a->uid, c->name, resource);
	struct resource_count count;
	struct id_list ids;
	struct error err = ERROR_INIT;

	if (!g || !device_manager_count(a->k->devices, resource, &count) || !count.pre_start)
		return false;
	ids = (struct id_list){ .v = (const char *const *)g->ids.v, .n = g->ids.n };
	a->choice.resource = strdup(resource);
	if (!a->choice.resource)
		(void)error_nomem(&err);
	else if (pre_start_request_encode(&b, &ids, &err) == 0 &&
		 call_plugin(a, METHOD_PRE_START, &b, PRE_START_TIMEOUT_NS, on_pre_started,
			 &err) == 0)
		return true;
	finish_admission(a, POD_FAILED, "PreStartContainerError", err.msg);
	return true;
}

/* Devices for one resource of one container. True: a call is in progress, or the admission is over. */
static bool grant_container_devices(struct admission *a, const struct container *c,
	const struct quantity *q)
{
	struct resource_count count;
	struct error err = ERROR_INIT;
	int rc;

	if (q->n == 0 || !device_manager_count(a->k->devices, q->resource, &count))
		return false; /* not a device plugin's resource */
	rc = device_manager_begin(a->k->devices, a->uid, c->name, q->resource, q->n,
		/* reusable= */ c->init && !c->sidecar, &a->choice, &err);
	if (rc < 0)
		fail_admission(a, &err);
	else if (rc == DEVICE_CHOICE_QUERY_PLUGIN)
		call_preferred_allocation(a);
	else if (a->choice.chosen.n > 0)
		call_plugin_allocate(a);
	else {
		device_choice_fini(&a->choice); /* has its devices already */
		return false;
	}
	return true;
}

/* Continues until a call is in progress or the pod runs. */
static void advance_admission(struct admission *a)
{
	const struct pod *p = pod_of(a);

	for (;;) {
		const struct container *c;

		if (a->container == p->spec->n_containers) {
			if (a->starting)
				break;
			a->starting = true; /* all are granted; now the containers start */
			a->container = a->want = 0;
			continue;
		}
		c = &p->spec->containers[a->container];
		if (a->want == c->n_requests) {
			a->container++;
			a->want = 0;
			continue;
		}
		if (a->starting ? pre_start(a, c, c->requests[a->want].resource)
				: grant_container_devices(a, c, &c->requests[a->want]))
			return;
		a->want++;
	}
	finish_admission(a, POD_RUNNING, NULL, NULL);
}

void kubelet_step(struct kubelet *k)
{
	struct pod *p;
	struct admission *a;

	while (kubelet_runs(k) && !k->admission && (p = cluster_next_bound(k->cluster))) {
		a = calloc(1, sizeof(*a));
		if (a)
			a->uid = strdup(p->uid);
		if (!a || !a->uid) {
			free(a);
			return; /* the next step tries again */
		}
		a->k = k;
		k->admission = a;
		(void)pod_set_status(p, POD_ADMITTING, NULL, NULL);
		advance_admission(a);
	}
}

/* Leaves the admission to the callback of its call, which frees it. */
void kubelet_abort_admission(struct kubelet *k, enum pod_phase phase)
{
	struct admission *a = k->admission;
	struct pod *p;

	if (!a)
		return;
	p = pod_of(a);
	k->admission = NULL;
	a->dead = true;
	device_manager_release(k->devices, a->uid);
	if (p)
		(void)pod_set_status(p, phase, NULL, NULL);
}

void kubelet_pod_gone(struct kubelet *k, const struct pod *p)
{
	if (k->admission && strcmp(k->admission->uid, p->uid) == 0)
		kubelet_abort_admission(k, p->phase);
	device_manager_release(k->devices, p->uid);
	kubelet_changed(k);
}
