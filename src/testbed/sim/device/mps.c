/* SPDX-License-Identifier: Apache-2.0 */

/*
 * MPS servers. A server has its own context on each GPU, and gives tickets for it to clients. A client with a
 * ticket joins that context's group, with the ticket's limits. NVML learns of a client by the client's own
 * connection, as of any process, and not by the server.
 */
#include "testbed/sim/device/internal.h"

#include "abi/nvml-api.h"

#include <sys/random.h>

#define LIMIT_MAX (UINT64_C(1) << 50)

static struct device_context *find_mps_server(struct device_client *c, uint32_t object)
{
	struct device_context *context =
		object < SIM_DEVICE_CONTEXTS_MAX ? &c->contexts[object] : NULL;

	return context && context->engine && context->is_server ? context : NULL;
}

uint32_t mps_serve(struct device_client *c, const struct sim_device_request *request,
	struct device_answer *a)
{
	struct simulated_gpus *gpus = c->device;
	struct device_context *context;
	uint32_t r = request_context_begin(c, request->slot, &context);

	if (r)
		return r;
	if (c->instance)
		return NOT_SUPPORTED;
	if (!mps_mode_allows(c, request->slot, NULL))
		return UNAVAILABLE;
	if (SIM_DEVICE_MPS_SERVER_BYTES > usage_get_free(c, request->slot) ||
		!usage_list(c, request->slot))
		return NO_MEMORY;
	context->engine = engine_context_new(gpus->engine, request->slot, false, 0, context);
	if (!context->engine)
		return NO_MEMORY;
	context->is_server = true;
	context->bytes = SIM_DEVICE_MPS_SERVER_BYTES;
	c->shares[request->slot].contexts++;
	request_charge(c, request->slot, context->bytes);
	usage_show(gpus, request->slot);
	a->reply.object = context->index;
	a->reply.bytes = context->bytes;
	return OK;
}

/* Clients that died before they used their tickets leave them. The oldest one goes. */
static void drop_oldest_ticket(struct device_context *context)
{
	struct ticket **at = &context->tickets;

	while ((*at)->next)
		at = &(*at)->next;
	free(STEAL_PTR(*at));
	context->ticket_count--;
}

uint32_t mps_ticket(struct device_client *c, const struct sim_device_request *request,
	struct device_answer *a)
{
	struct device_context *context = find_mps_server(c, request->object);
	struct ticket *t;

	if (!context)
		return BAD_CONTEXT;
	if (request->bytes > LIMIT_MAX || request->flags > 1 || !request->percent ||
		request->percent > c->device->slots[context->slot].sm_count)
		return BAD_VALUE;
	if (context->faulted)
		return atomic_load(&c->page->contexts[context->index].error);
	t = calloc(1, sizeof(*t));
	if (!t || getrandom(&t->cookie, sizeof(t->cookie), GRND_NONBLOCK) < 0) {
		free(t);
		return OS_ERROR;
	}
	t->id = ++c->device->last_ticket;
	t->limit = request->bytes;
	t->width = request->percent;
	t->priority = -(int)request->flags;
	t->next = context->tickets;
	context->tickets = t;
	if (++context->ticket_count > SIM_DEVICE_TICKETS_MAX)
		drop_oldest_ticket(context);
	a->reply.id = t->id;
	a->reply.cookie = t->cookie;
	return OK;
}

static struct ticket *claim_ticket(struct device_context *context,
	const struct sim_device_request *request)
{
	for (struct ticket **at = &context->tickets; *at; at = &(*at)->next) {
		struct ticket *t = *at;

		if (t->id != request->id || t->cookie != request->cookie)
			continue;
		*at = t->next;
		context->ticket_count--;
		return t;
	}
	return NULL;
}

uint32_t mps_use_ticket(struct simulated_gpus *gpus, const struct sim_device_request *request,
	struct device_context **server, struct ticket **ret)
{
	*server = NULL;
	if (!request->id)
		return OK;
	for (struct device_client *c = gpus->clients; c; c = c->next)
		for (uint32_t i = 0; i < SIM_DEVICE_CONTEXTS_MAX; i++) {
			struct device_context *context = &c->contexts[i];

			if (!context->engine || !context->is_server ||
				context->slot != request->slot)
				continue;
			*ret = claim_ticket(context, request);
			if (!*ret)
				continue;
			*server = context;
			return context->faulted ? atomic_load(&c->page->contexts[i].error) : OK;
		}
	return MPS_RPC_FAILURE;
}

uint32_t mps_end(struct device_client *c, const struct sim_device_request *request,
	struct device_answer *a)
{
	(void)a;
	if (!request->flags || !request->id)
		return BAD_VALUE;
	for (struct device_client *o = c->device->clients; o; o = o->next)
		for (uint32_t i = 0; i < SIM_DEVICE_CONTEXTS_MAX; i++) {
			struct device_context *context = &o->contexts[i];

			if (!context->engine || context->ticket != request->id ||
				!context->server || context->server->client != c)
				continue;
			context->ended = true;
			engine_context_fail(context->engine, request->flags);
			return OK;
		}
	return BAD_HANDLE;
}

/* The process that counts for the compute mode: the context's own, or its server. */
static uint32_t get_context_owner_pid(const struct device_context *context)
{
	return context->server ? context->server->client->pid : context->client->pid;
}

bool mps_mode_allows(const struct device_client *c, uint32_t slot,
	const struct device_context *server)
{
	uint32_t owner = server ? server->client->pid : c->pid;
	uint32_t mode =
		c->instance ? c->instance->compute_mode : c->device->slots[slot].compute_mode;

	if (mode == NVML_COMPUTEMODE_PROHIBITED)
		return false;
	if (mode == NVML_COMPUTEMODE_DEFAULT)
		return true;
	for (const struct device_client *o = c->device->clients; o; o = o->next)
		for (uint32_t i = 0; i < SIM_DEVICE_CONTEXTS_MAX; i++) {
			const struct device_context *context = &o->contexts[i];

			if (context->engine && context->slot == slot &&
				o->instance == c->instance &&
				get_context_owner_pid(context) != owner)
				return false;
		}
	return true;
}

void mps_server_end(struct device_context *context)
{
	for (struct ticket *t = context->tickets, *next; t; t = next) {
		next = t->next;
		free(t);
	}
	context->tickets = NULL;
	for (struct device_client *o = context->client->device->clients; o; o = o->next)
		for (uint32_t i = 0; i < SIM_DEVICE_CONTEXTS_MAX; i++) {
			struct device_context *member = &o->contexts[i];

			if (!member->engine || member->server != context)
				continue;
			member->server = NULL;
			member->ended = true;
			engine_context_fail(member->engine, MPS_RPC_FAILURE);
		}
}
