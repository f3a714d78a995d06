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
	struct device_context *x =
		object < SIM_DEVICE_CONTEXTS_MAX ? &c->contexts[object] : NULL;

	return x && x->engine && x->is_server ? x : NULL;
}

uint32_t mps_serve(struct device_client *c, const struct sim_device_request *q,
	struct device_answer *a)
{
	struct simulated_gpus *d = c->device;
	struct device_context *x;
	uint32_t r = request_context_begin(c, q->slot, &x);

	if (r)
		return r;
	if (c->instance)
		return NOT_SUPPORTED;
	if (!mps_mode_allows(c, q->slot, NULL))
		return UNAVAILABLE;
	if (SIM_DEVICE_MPS_SERVER_BYTES > usage_get_free(c, q->slot) || !usage_list(c, q->slot))
		return NO_MEMORY;
	x->engine = engine_context_new(d->engine, q->slot, false, 0, x);
	if (!x->engine)
		return NO_MEMORY;
	x->is_server = true;
	x->bytes = SIM_DEVICE_MPS_SERVER_BYTES;
	c->shares[q->slot].contexts++;
	request_charge(c, q->slot, x->bytes);
	usage_show(d, q->slot);
	a->reply.object = x->index;
	a->reply.bytes = x->bytes;
	return OK;
}

/* Clients that died before they used their tickets leave them. The oldest one goes. */
static void drop_oldest_ticket(struct device_context *x)
{
	struct ticket **at = &x->tickets;

	while ((*at)->next)
		at = &(*at)->next;
	free(STEAL_PTR(*at));
	x->ticket_count--;
}

uint32_t mps_ticket(struct device_client *c, const struct sim_device_request *q,
	struct device_answer *a)
{
	struct device_context *x = find_mps_server(c, q->object);
	struct ticket *t;

	if (!x)
		return BAD_CONTEXT;
	if (q->bytes > LIMIT_MAX || q->flags > 1 || !q->percent ||
		q->percent > c->device->slots[x->slot].sm_count)
		return BAD_VALUE;
	if (x->faulted)
		return atomic_load(&c->page->contexts[x->index].error);
	t = calloc(1, sizeof(*t));
	if (!t || getrandom(&t->cookie, sizeof(t->cookie), GRND_NONBLOCK) < 0) {
		free(t);
		return OS_ERROR;
	}
	t->id = ++c->device->last_ticket;
	t->limit = q->bytes;
	t->width = q->percent;
	t->priority = -(int)q->flags;
	t->next = x->tickets;
	x->tickets = t;
	if (++x->ticket_count > SIM_DEVICE_TICKETS_MAX)
		drop_oldest_ticket(x);
	a->reply.id = t->id;
	a->reply.cookie = t->cookie;
	return OK;
}

static struct ticket *claim_ticket(struct device_context *x, const struct sim_device_request *q)
{
	for (struct ticket **at = &x->tickets; *at; at = &(*at)->next) {
		struct ticket *t = *at;

		if (t->id != q->id || t->cookie != q->cookie)
			continue;
		*at = t->next;
		x->ticket_count--;
		return t;
	}
	return NULL;
}

uint32_t mps_use_ticket(struct simulated_gpus *d, const struct sim_device_request *q,
	struct device_context **server, struct ticket **ret)
{
	*server = NULL;
	if (!q->id)
		return OK;
	for (struct device_client *c = d->clients; c; c = c->next)
		for (uint32_t i = 0; i < SIM_DEVICE_CONTEXTS_MAX; i++) {
			struct device_context *x = &c->contexts[i];

			if (!x->engine || !x->is_server || x->slot != q->slot)
				continue;
			*ret = claim_ticket(x, q);
			if (!*ret)
				continue;
			*server = x;
			return x->faulted ? atomic_load(&c->page->contexts[i].error) : OK;
		}
	return MPS_RPC_FAILURE;
}

uint32_t mps_end(struct device_client *c, const struct sim_device_request *q,
	struct device_answer *a)
{
	(void)a;
	if (!q->flags || !q->id)
		return BAD_VALUE;
	for (struct device_client *o = c->device->clients; o; o = o->next)
		for (uint32_t i = 0; i < SIM_DEVICE_CONTEXTS_MAX; i++) {
			struct device_context *x = &o->contexts[i];

			if (!x->engine || x->ticket != q->id || !x->server ||
				x->server->client != c)
				continue;
			x->ended = true;
			engine_context_fail(x->engine, q->flags);
			return OK;
		}
	return BAD_HANDLE;
}

/* The process that counts for the compute mode: the context's own, or its server. */
static uint32_t get_context_owner_pid(const struct device_context *x)
{
	return x->server ? x->server->client->pid : x->client->pid;
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
			const struct device_context *x = &o->contexts[i];

			if (x->engine && x->slot == slot && o->instance == c->instance &&
				get_context_owner_pid(x) != owner)
				return false;
		}
	return true;
}

void mps_server_end(struct device_context *x)
{
	for (struct ticket *t = x->tickets, *next; t; t = next) {
		next = t->next;
		free(t);
	}
	x->tickets = NULL;
	for (struct device_client *o = x->client->device->clients; o; o = o->next)
		for (uint32_t i = 0; i < SIM_DEVICE_CONTEXTS_MAX; i++) {
			struct device_context *member = &o->contexts[i];

			if (!member->engine || member->server != x)
				continue;
			member->server = NULL;
			member->ended = true;
			engine_context_fail(member->engine, MPS_RPC_FAILURE);
		}
}
