/* SPDX-License-Identifier: Apache-2.0 */
/* Registration of device plugins, and their ListAndWatch streams (internal.h). */
#include "testbed/standin/kubelet/internal.h"

#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/base/time.h"
#include "io/kubelet/messages/messages.h"

#include <stdlib.h>
#include <string.h>

#define DIAL_TIMEOUT_NS (10 * NS_PER_SEC)

struct plugin_conn *kubelet_conn(const struct kubelet *k, const char *resource)
{
	struct plugin_conn *c;

	TAILQ_FOREACH(c, &k->conns, link)
	if (c->current && strcmp(c->resource, resource) == 0)
		return c;
	return NULL;
}

/* Called last, after the connection is off the list and its client is closed. */
static void conn_free(struct plugin_conn *c)
{
	free(c->resource);
	free(c->endpoint);
	free(c);
}

/* Closes the client, which ends its calls and streams (their callbacks see .client NULL). */
static void close_plugin_conn(struct plugin_conn *c)
{
	struct rpc_client *client = STEAL_PTR(c->client);
	struct rpc_call *registering = STEAL_PTR(c->registering);

	TAILQ_REMOVE(&c->k->conns, c, link);
	if (registering)
		rpc_reply_error(registering, RPC_UNKNOWN, "the kubelet closed the connection");
	if (client)
		rpc_client_close(client);
	conn_free(c);
}

/* The stream of @c has ended: does what the kubelet's runClient() does. */
void kubelet_conn_lost(struct plugin_conn *c)
{
	struct kubelet *k = c->k;
	struct plugin_conn *victim = c->current ? c : NULL;

	/* Up to 1.36 the kubelet finds clients by resource name alone. So the end of an old stream
	 * disconnects the new client. */
	if (!victim && k->faults.reregister_race)
		victim = kubelet_conn(k, c->resource);
	if (victim) {
		log_info("plugin disconnected", LOG_STR("resource", victim->resource),
			LOG_STR("endpoint", victim->endpoint));
		device_manager_disconnect(k->devices, victim->resource, time_mono_ns());
		if (victim != c)
			close_plugin_conn(victim);
	}
	close_plugin_conn(c);
	kubelet_changed(k);
}

void kubelet_close_conns(struct kubelet *k)
{
	struct plugin_conn *c;

	while ((c = TAILQ_FIRST(&k->conns)))
		close_plugin_conn(c);
}

static int apply_plugin_devices(struct plugin_conn *c, const uint8_t *data, size_t len,
	struct error *err)
{
	CLEANUP(plugin_devices_fini) struct plugin_devices list = { 0 };
	CLEANUP(freep) struct managed_device *device = NULL;
	size_t healthy = 0;

	if (len > MESSAGE_TO_KUBELET_MAX)
		return error_set(err, ERR_LIMIT,
			"received message larger than max (%zu vs. %u)", len,
			MESSAGE_TO_KUBELET_MAX);
	if (plugin_devices_decode(&list, data, len, err) < 0)
		return -1;
	device = calloc(list.n ? list.n : 1, sizeof(*device));
	if (!device)
		return error_nomem(err);
	for (size_t i = 0; i < list.n; i++) {
		device[i].id =
			(char *)(uintptr_t)list.v[i].id; /* borrowed, copied by update() */
		device[i].healthy = list.v[i].healthy;
		device[i].numa_node = list.v[i].numa_node;
		healthy += device[i].healthy;
	}
	/* Logs each message, so that a test also sees short-lived states. */
	log_info("device list", LOG_STR("resource", c->resource), LOG_UINT("devices", list.n),
		LOG_UINT("healthy", healthy));
	return device_manager_update(c->k->devices, c->resource, device, list.n, err);
}

void kubelet_on_devices(void *arg, const uint8_t *data, size_t len)
{
	struct plugin_conn *c = arg;
	struct error err = ERROR_INIT;

	if (!c->client)
		return;
	if (apply_plugin_devices(c, data, len, &err) < 0) {
		log_warn("device list refused", LOG_STR("resource", c->resource),
			LOG_STR("reason", err.msg));
		kubelet_conn_lost(c);
		return;
	}
	kubelet_changed(c->k);
}

static void on_stream_end(void *arg, enum rpc_status status, const char *text)
{
	struct plugin_conn *c = arg;

	(void)status;
	(void)text;
	c->stream = NULL;
	if (c->client)
		kubelet_conn_lost(c);
}

static int open_stream(struct plugin_conn *c, struct error *err)
{
	return rpc_stream_open(c->client, METHOD_LIST_AND_WATCH, "", 0, kubelet_on_devices,
		on_stream_end, c, &c->stream, err);
}

/* The plugin has answered with its options: completes the registration. */
static int complete_registration(struct plugin_conn *c, const uint8_t *reply, size_t len,
	struct error *err)
{
	struct plugin_options options;
	struct plugin_conn *old = kubelet_conn(c->k, c->resource);

	if (plugin_options_decode(&options, reply, len, err) < 0 ||
		device_manager_connect(c->k->devices, c->resource, c->endpoint,
			options.preferred_allocation, options.pre_start_required, err) < 0)
		return -1;
	if (open_stream(c, err) < 0) {
		if (!old)
			device_manager_disconnect(c->k->devices, c->resource, time_mono_ns());
		return -1;
	}
	if (old)
		old->current = false; /* the old stream stays open until the plugin ends it */
	c->current = true;
	c->k->counts.registrations++;
	log_info("plugin registered", LOG_STR("resource", c->resource),
		LOG_STR("endpoint", c->endpoint));
	return 0;
}

static void on_options(void *arg, enum rpc_status status, const char *text,
	const uint8_t *reply, size_t len)
{
	struct plugin_conn *c = arg;
	struct rpc_call *call = c->registering;
	struct error err = ERROR_INIT;
	char why[ERROR_MSG_MAX + 64], status_text[ERROR_MSG_MAX];

	if (!c->client) /* during close; the call is already answered */
		return;
	c->registering = NULL;
	if (status == RPC_OK && complete_registration(c, reply, len, &err) == 0) {
		rpc_reply(call, "", 0);
		kubelet_changed(c->k);
		return;
	}
	if (status != RPC_OK) {
		kubelet_status_text(status_text, sizeof(status_text), status, text);
		(void)error_set(&err, ERR_UNAVAILABLE, "%s", status_text);
	}
	(void)snprintf(why, sizeof(why), "failed to get device plugin options: %s", err.msg);
	log_warn("registration refused", LOG_STR("resource", c->resource),
		LOG_STR("reason", why));
	c->k->counts.refused++;
	close_plugin_conn(c);
	rpc_reply_error(call, RPC_UNKNOWN, why);
}

/* Starts the requested registration. On success on_options() answers the call. */
static int accept_registration(struct kubelet *k, struct rpc_call *call,
	const struct register_request *r, struct error *err)
{
	char path[KUBELET_PATH_MAX];
	struct plugin_conn *c;

	if (strcmp(r->version, DEVICE_PLUGIN_VERSION) != 0)
		return error_set(err, ERR_INVALID,
			"requested API version \"%.80s\" is not supported "
			"by kubelet. Supported version is [\"v1beta1\"]",
			r->version);
	if (!extended_resource_valid(r->resource_name))
		return error_set(err, ERR_INVALID, "the ResourceName \"%.120s\" is invalid",
			r->resource_name);
	if (path_join(path, sizeof(path), k->plugin_dir, r->endpoint, err) < 0)
		return -1;
	c = calloc(1, sizeof(*c));
	if (!c)
		return error_nomem(err);
	c->k = k;
	c->resource = strdup(r->resource_name);
	c->endpoint = strdup(r->endpoint);
	TAILQ_INSERT_TAIL(&k->conns, c, link);
	if (!c->resource || !c->endpoint)
		(void)error_nomem(err);
	else if (rpc_dial(k->rpc, path, &c->client, err) == 0 &&
		 rpc_invoke(c->client, METHOD_PLUGIN_OPTIONS, "", 0, DIAL_TIMEOUT_NS,
			 on_options, c, err) == 0) {
		c->registering = call;
		return 0;
	}
	close_plugin_conn(c);
	return -1;
}

static void register_now(struct kubelet *k, struct rpc_call *call, const uint8_t *data,
	size_t len)
{
	CLEANUP(register_request_fini) struct register_request r = { 0 };
	struct error err = ERROR_INIT;
	int rc = register_request_decode(&r, data, len, &err);

	if (rc == 0 && k->faults.refuse > 0) {
		k->faults.refuse--;
		rc = error_set(&err, ERR_UNAVAILABLE, "refused on purpose (fault 'refuse')");
	}
	if (rc == 0 && accept_registration(k, call, &r, &err) == 0)
		return;
	k->counts.refused++;
	log_warn("registration refused",
		LOG_STR("resource", r.resource_name ? r.resource_name : ""),
		LOG_STR("reason", err.msg));
	rpc_reply_error(call, RPC_UNKNOWN, err.msg);
}

static void on_register(struct rpc_call *call, const uint8_t *data, size_t len, void *arg)
{
	struct kubelet *k = arg;

	if (k->faults.never_answer)
		return; /* closing the server frees the call */
	kubelet_delay_reply(k, call, register_now, data, len);
}

const struct rpc_method kubelet_registration_methods[1] = {
	{ .path = METHOD_REGISTER, .streaming = false, .handle = on_register },
};
