/* SPDX-License-Identifier: Apache-2.0 */

/* What the engine reports: completed work, and failed contexts with their XIDs. */
#include "testbed/sim/device/internal.h"

#include "abi/nvml-api.h"

#include <stdlib.h>

#define XID_MMU_FAULT 31
#define XID_EXCEPTION 13

void node_show_busy(const struct device_context *c)
{
	atomic_store_explicit(&c->client->page->contexts[c->index].busy_ns,
		engine_context_busy_ns(c->engine), memory_order_relaxed);
}

static void on_stream_completed(void *arg, void *user, uint64_t seq)
{
	const struct device_stream *s = user;
	struct sim_device_stream_cell *cell = &s->client->page->streams[s->index];

	(void)arg;
	node_show_busy(s->context);
	device_publish(&cell->completed, &cell->waiters, seq);
}

static void on_host(void *arg, void *user, uint64_t seq)
{
	const struct device_stream *s = user;
	struct sim_device_page *page = s->client->page;

	(void)arg;
	atomic_store(&page->streams[s->index].host_seq, seq);
	atomic_fetch_add(&page->host_word, 1);
	device_wake(&page->host_word);
}

static void on_recorded(void *arg, void *user, uint64_t completed, uint64_t time_ns)
{
	const struct device_event *v = user;

	(void)arg;
	for (const struct event_view *w = v->views; w; w = w->next) {
		struct sim_device_event_cell *cell = &w->client->page->events[w->index];

		atomic_store(&cell->time_ns, time_ns);
		device_publish(&cell->completed, &cell->waiters, completed);
	}
}

static void post_xid(struct simulated_gpus *gpus, uint32_t slot, const struct instance *in,
	uint64_t xid)
{
	CLEANUP(sim_txn_end) struct sim_txn txn = SIM_TXN_INIT;

	if (sim_txn_begin(gpus->state, &txn, NULL) < 0)
		return;
	sim_txn_post(&txn, (struct sim_event){ .type = NVML_EVENT_XID_CRITICAL,
				   .data = xid,
				   .slot = slot,
				   .epoch = txn.node->head.slots[slot].epoch,
				   .gi = in ? in->gi : SIM_NO_INSTANCE,
				   .ci = in ? in->ci : SIM_NO_INSTANCE });
	sim_txn_commit(&txn);
}

static void on_failed(void *arg, void *user, uint32_t code)
{
	struct device_context *c = user, *server = c->is_server ? c : c->server;
	bool reported = c->ended || (server && server->faulted);
	const struct instance *in = c->client->instance;
	struct simulated_gpus *gpus = arg;
	bool there = gpus->slots[c->slot].usable && (!in || in->usable);

	/*
	 * An XID is for a context's own failure, not for a lost GPU or an ended MPS server. A fault of all a
	 * server's clients posts one XID.
	 */
	if (there && !reported)
		post_xid(gpus, c->slot, in,
			code == ILLEGAL_ADDRESS ? XID_MMU_FAULT : XID_EXCEPTION);
	if (server && !c->ended) {
		server->faulted = true;
		/*
		 * The server's error comes before the clients'. A server that first saw a client's connection end
		 * would assume a normal end.
		 */
		atomic_store(&server->client->page->contexts[server->index].error, code);
	}
	atomic_store(&c->client->page->contexts[c->index].error, code);
}

static void on_drained(void *arg, void *user)
{
	struct device_stream *s = user;

	(void)arg;
	s->client->streams[s->index] = NULL;
	free(s);
}

const struct engine_hooks engine_hooks = { .completed = on_stream_completed,
	.host = on_host,
	.recorded = on_recorded,
	.failed = on_failed,
	.drained = on_drained };
