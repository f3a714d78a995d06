/* SPDX-License-Identifier: Apache-2.0 */

/* The requests of clients. */
#include "testbed/sim/device/internal.h"

#include "lib/base/fd.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#define BYTES_MAX       (UINT64_C(1) << 50)
#define STACK_BYTES_MAX (UINT64_C(512) << 10)

/* --- contexts --- */

static uint64_t round_up_granules(uint64_t bytes)
{
	return (bytes + SIM_DEVICE_GRANULE - 1) / SIM_DEVICE_GRANULE * SIM_DEVICE_GRANULE;
}

static uint64_t stack_bytes(uint32_t width, uint64_t bytes)
{
	return round_up_granules(bytes * DEVICE_THREADS_SM * width);
}

void request_charge(struct device_client *c, uint32_t slot, uint64_t bytes)
{
	c->shares[slot].bytes += bytes;
	c->device->slots[slot].used += bytes;
}

static void uncharge_client(struct device_client *c, uint32_t slot, uint64_t bytes)
{
	if (c->gone)
		return; /* later, in peer_free() */
	c->shares[slot].bytes -= bytes;
	c->device->slots[slot].used -= bytes;
}

/* Ends the context's streams too, and wakes the threads that wait for them. */
void request_context_end(struct device_context *c)
{
	struct device_client *client = c->client;
	struct share *s = &client->shares[c->slot];

	if (c->is_server)
		mps_server_end(c);
	for (uint32_t i = 0; client->streams && i < client->stream_top; i++) {
		struct device_stream *t = client->streams[i];

		if (!t || t->context != c)
			continue;
		device_publish(&client->page->streams[i].completed,
			&client->page->streams[i].waiters, engine_stream_submitted(t->engine));
		client->streams[i] = NULL;
		free(t);
	}
	s->busy_ns += engine_context_busy_ns(c->engine);
	if (c->server)
		c->server->client->shares[c->slot].served_ns +=
			engine_context_busy_ns(c->engine);
	engine_context_free(c->engine);
	uncharge_client(client, c->slot, c->bytes);
	*c = (struct device_context){ .engine = NULL };
	if (--s->contexts == 0) {
		uncharge_client(client, (uint32_t)(s - client->shares), s->base);
		s->base = 0;
		s->limit = 0;
	}
}

static uint32_t check_slot_usable(const struct device_client *c, uint32_t slot)
{
	const struct simulated_gpus *gpus = c->device;

	if (slot >= SIM_MAX_GPUS || (c->instance && !instance_on(c, slot)))
		return BAD_DEVICE;
	if (!gpus->slots[slot].usable)
		return gpus->slots[slot].total ? UNAVAILABLE : BAD_DEVICE;
	if (c->instance)
		return c->instance->usable ? OK : UNAVAILABLE;
	return gpus->slots[slot].mig ? NOT_SUPPORTED : OK;
}

uint32_t request_context_begin(struct device_client *c, uint32_t slot,
	struct device_context **ret)
{
	uint32_t r = check_slot_usable(c, slot), i = 0;

	while (i < SIM_DEVICE_CONTEXTS_MAX && c->contexts[i].engine)
		i++;
	if (r || i == SIM_DEVICE_CONTEXTS_MAX)
		return r ? r : TOO_MANY_CONTEXTS;
	c->contexts[i] = (struct device_context){ .client = c, .index = i, .slot = slot };
	atomic_store(&c->page->contexts[i].error, 0);
	atomic_store(&c->page->contexts[i].busy_ns, 0);
	*ret = &c->contexts[i];
	return OK;
}

/* What a process's first context takes besides stacks: more if the process may use more multiprocessors. */
static uint64_t base_bytes(const struct device_slot *s, uint32_t width)
{
	uint64_t scaled = DEVICE_CONTEXT_BASE - DEVICE_CONTEXT_FIXED;

	return round_up_granules(
		DEVICE_CONTEXT_FIXED + scaled * width / (s->sm_count ? s->sm_count : 1));
}

/* The memory of a new context. context->bytes and context->more are the context's, *base is the process's. */
static uint32_t context_memory(struct device_client *c, struct device_context *context,
	uint64_t *base)
{
	struct simulated_gpus *gpus = c->device;
	const struct device_slot *s = &gpus->slots[context->slot];
	const struct share *share = &c->shares[context->slot];
	uint64_t stack = stack_bytes(context->width, DEVICE_STACK_DEFAULT), all = 0;
	uint32_t value;

	context->more = share->contexts ? DEVICE_CONTEXT_MORE : 0;
	context->bytes = stack + context->more;
	if (!share->contexts)
		all = s->context ? round_up_granules(s->context)
				 : base_bytes(s, context->width) + stack;
	*base = all > context->bytes ? all - context->bytes : 0;
	if (sim_cuda_fault_hit(gpus->state, context->slot, SIM_CUDA_OOM, &value) ||
		context->bytes + *base > usage_get_free(c, context->slot) ||
		!usage_list(c, context->slot))
		return NO_MEMORY;
	return OK;
}

static uint32_t handle_context_create(struct device_client *c,
	const struct sim_device_request *request, struct device_answer *a)
{
	CLEANUP(freep) struct ticket *t = NULL;
	struct simulated_gpus *gpus = c->device;
	struct device_context *context, *server;
	struct share *share;
	uint64_t base;
	uint32_t r = request_context_begin(c, request->slot, &context);

	if (!r && request->id && c->instance)
		r = NOT_SUPPORTED;
	if (!r)
		r = mps_use_ticket(gpus, request, &server, &t);
	if (!r && !mps_mode_allows(c, request->slot, server))
		r = UNAVAILABLE;
	if (r)
		return r;
	share = &c->shares[request->slot];
	share->mps = t != NULL;
	if (t && !share->contexts)
		share->limit = t->limit;
	context->width = t             ? t->width
			 : c->instance ? c->instance->width
				       : gpus->slots[request->slot].sm_count;
	r = context_memory(c, context, &base);
	if (r)
		return r;
	context->engine =
		t ? engine_context_join(server->engine, t->width, t->priority, context)
		  : engine_context_new(gpus->engine, instance_index(c, request->slot),
			    gpus->slots[request->slot].mps, request->percent, context);
	if (!context->engine)
		return NO_MEMORY;
	context->server = server;
	context->ticket = t ? t->id : 0;
	share->contexts++;
	share->base += base;
	request_charge(c, request->slot, context->bytes + base);
	usage_show(gpus, request->slot);
	a->reply.object = context->index;
	a->reply.bytes = context->bytes + base;
	return OK;
}

static struct device_context *find_context(struct device_client *c, uint32_t object)
{
	return object < SIM_DEVICE_CONTEXTS_MAX && c->contexts[object].engine
		       ? &c->contexts[object]
		       : NULL;
}

static uint32_t handle_context_destroy(struct device_client *c,
	const struct sim_device_request *request, struct device_answer *a)
{
	struct device_context *context = find_context(c, request->object);
	uint32_t slot;

	(void)a;
	if (!context)
		return BAD_CONTEXT;
	slot = context->slot;
	request_context_end(context);
	usage_show(c->device, slot);
	usage_unlist(c);
	return OK;
}

static uint32_t handle_context_stack(struct device_client *c,
	const struct sim_device_request *request, struct device_answer *a)
{
	struct device_context *context = find_context(c, request->object);
	struct simulated_gpus *gpus = c->device;
	uint64_t bytes, want;

	if (!context)
		return BAD_CONTEXT;
	if (request->bytes > STACK_BYTES_MAX || context->is_server)
		return BAD_VALUE;
	bytes = request->bytes < DEVICE_STACK_DEFAULT ? DEVICE_STACK_DEFAULT : request->bytes;
	want = stack_bytes(context->width, bytes) + context->more;
	if (want > context->bytes && want - context->bytes > usage_get_free(c, context->slot))
		return NO_MEMORY;
	uncharge_client(c, context->slot, context->bytes);
	request_charge(c, context->slot, want);
	context->bytes = want;
	usage_show(gpus, context->slot);
	a->reply.bytes = want;
	return OK;
}

static uint32_t handle_context_fault(struct device_client *c,
	const struct sim_device_request *request, struct device_answer *a)
{
	struct device_context *context = find_context(c, request->object);

	(void)a;
	if (!context)
		return BAD_CONTEXT;
	if (!device_is_fault(request->flags))
		return BAD_VALUE;
	engine_context_fault(context->engine, request->flags);
	return OK;
}

/* --- streams and events --- */

void request_view_end(struct event_view *w)
{
	struct device_event *v = w->event;
	struct event_view **at = &v->views;

	while (*at != w)
		at = &(*at)->next;
	*at = w->next;
	w->client->events[w->index] = NULL;
	free(w);
	if (v->views)
		return;
	*v->at = v->next;
	if (v->next)
		v->next->at = v->at;
	engine_event_free(v->engine);
	free(v);
}

static uint32_t handle_stream_create(struct device_client *c,
	const struct sim_device_request *request, struct device_answer *a)
{
	struct device_context *context = find_context(c, request->object);
	struct device_stream *s;
	uint32_t i;

	if (!context)
		return BAD_CONTEXT;
	for (uint32_t n = 0; n < SIM_DEVICE_STREAMS_MAX; n++) {
		i = (c->stream_cursor + n) % SIM_DEVICE_STREAMS_MAX;
		if (!c->streams[i])
			break;
	}
	if (c->streams[i])
		return OS_ERROR;
	s = calloc(1, sizeof(*s));
	if (!s)
		return OS_ERROR;
	*s = (struct device_stream){ .client = c, .context = context, .index = i };
	s->engine = engine_stream_new(context->engine,
		request->percent > 100 ? 100 : (int)request->percent, s);
	if (!s->engine) {
		free(s);
		return OS_ERROR;
	}
	c->streams[i] = s;
	c->stream_cursor = i + 1;
	c->stream_top = i >= c->stream_top ? i + 1 : c->stream_top;
	atomic_store(&c->page->streams[i].completed, 0);
	atomic_store(&c->page->streams[i].host_seq, 0);
	a->reply.object = i;
	return OK;
}

struct device_stream *request_stream(struct device_client *c, uint32_t object)
{
	struct device_stream *s = object < SIM_DEVICE_STREAMS_MAX ? c->streams[object] : NULL;

	return s && !s->dying ? s : NULL;
}

static uint32_t handle_stream_destroy(struct device_client *c,
	const struct sim_device_request *request, struct device_answer *a)
{
	struct device_stream *s = request_stream(c, request->object);

	(void)a;
	if (!s)
		return BAD_HANDLE;
	s->dying = true;
	engine_stream_free(s->engine);
	return OK;
}

static struct event_view *event_view_new(struct device_client *c, struct device_event *v)
{
	struct event_view *w;
	uint32_t i;

	for (uint32_t n = 0; n < SIM_DEVICE_EVENTS_MAX; n++) {
		i = (c->event_cursor + n) % SIM_DEVICE_EVENTS_MAX;
		if (!c->events[i])
			break;
	}
	if (c->events[i])
		return NULL;
	w = calloc(1, sizeof(*w));
	if (!w)
		return NULL;
	*w = (struct event_view){ .event = v, .client = c, .index = i, .next = v->views };
	v->views = w;
	c->events[i] = w;
	c->event_cursor = i + 1;
	c->event_top = i >= c->event_top ? i + 1 : c->event_top;
	atomic_store(&c->page->events[i].completed, engine_event_completed(v->engine));
	atomic_store(&c->page->events[i].recorded, engine_event_recorded(v->engine));
	atomic_store(&c->page->events[i].time_ns, 0);
	return w;
}

static uint32_t handle_event_create(struct device_client *c,
	const struct sim_device_request *request, struct device_answer *a)
{
	struct simulated_gpus *gpus = c->device;
	struct device_event *v = calloc(1, sizeof(*v));
	const struct event_view *w;

	(void)request;
	if (!v)
		return OS_ERROR;
	v->engine = engine_event_new(gpus->engine, v);
	w = v->engine ? event_view_new(c, v) : NULL;
	if (!w || getrandom(&v->cookie, sizeof(v->cookie), GRND_NONBLOCK) < 0) {
		if (v->engine)
			engine_event_free(v->engine);
		if (w)
			c->events[w->index] = NULL;
		free(v->views);
		free(v);
		return OS_ERROR;
	}
	v->id = ++gpus->last_event_id;
	v->next = gpus->events;
	if (v->next)
		v->next->at = &v->next;
	v->at = &gpus->events;
	gpus->events = v;
	a->reply.object = w->index;
	a->reply.id = v->id;
	a->reply.cookie = v->cookie;
	return OK;
}

static uint32_t handle_event_open(struct device_client *c,
	const struct sim_device_request *request, struct device_answer *a)
{
	struct device_event *v = c->device->events;
	const struct event_view *w;

	while (v && (v->id != request->id || v->cookie != request->cookie))
		v = v->next;
	if (!v)
		return BAD_HANDLE;
	w = event_view_new(c, v);
	if (!w)
		return OS_ERROR;
	a->reply.object = w->index;
	return OK;
}

struct event_view *request_event(const struct device_client *c, uint32_t object)
{
	return object < SIM_DEVICE_EVENTS_MAX ? c->events[object] : NULL;
}

static uint32_t handle_event_destroy(struct device_client *c,
	const struct sim_device_request *request, struct device_answer *a)
{
	struct event_view *w = request_event(c, request->object);

	(void)a;
	if (!w)
		return BAD_HANDLE;
	request_view_end(w);
	return OK;
}

/* --- memory --- */

static uint32_t handle_mem_info(struct device_client *c,
	const struct sim_device_request *request, struct device_answer *a)
{
	uint32_t r = check_slot_usable(c, request->slot);

	if (r)
		return r;
	a->reply.bytes = usage_get_free(c, request->slot);
	a->reply.total =
		c->instance ? c->instance->total : c->device->slots[request->slot].total;
	return OK;
}

static void fill_memory_reply(const struct memory_facts *m, struct device_answer *a)
{
	a->reply.id = m->id;
	a->reply.cookie = m->cookie;
	a->reply.bytes = m->bytes;
	a->reply.slot = m->slot;
	a->reply.flags = m->flags;
	a->fd = m->fd;
}

static uint32_t handle_mem_alloc(struct device_client *c,
	const struct sim_device_request *request, struct device_answer *a)
{
	struct simulated_gpus *gpus = c->device;
	bool managed = request->flags & SIM_DEVICE_MEM_MANAGED;
	const struct memory_facts *m;
	uint32_t r = check_slot_usable(c, request->slot), value;
	uint64_t bytes;

	if (r)
		return r;
	if (!request->bytes ||
		request->flags & ~(SIM_DEVICE_MEM_NO_FD | SIM_DEVICE_MEM_MANAGED))
		return BAD_VALUE;
	if (request->bytes > BYTES_MAX)
		return NO_MEMORY;
	bytes = round_up_granules(request->bytes);
	if (sim_cuda_fault_hit(gpus->state, request->slot, SIM_CUDA_OOM, &value) ||
		(!managed && bytes > usage_get_free(c, request->slot)) ||
		!usage_list(c, request->slot))
		return NO_MEMORY;
	m = memory_new(gpus->memories, &c->holder, request->slot, bytes, request->flags);
	if (!m)
		return NO_MEMORY;
	if (!managed) {
		gpus->slots[request->slot].used += bytes;
		usage_show(gpus, request->slot);
	}
	fill_memory_reply(m, a);
	return OK;
}

static uint32_t handle_mem_release(struct device_client *c,
	const struct sim_device_request *request, struct device_answer *a)
{
	struct simulated_gpus *gpus = c->device;

	(void)a;
	if (!memory_release(gpus->memories, &c->holder, request->id))
		return BAD_HANDLE;
	/* The memory's GPU is not known any more, and another process may own the memory now. */
	for (uint32_t slot = 0; slot < SIM_MAX_GPUS; slot++)
		if (c->shares[slot].listed)
			usage_show_again(gpus, slot);
	return OK;
}

static uint32_t handle_mem_export(struct device_client *c,
	const struct sim_device_request *request, struct device_answer *a)
{
	a->fd = memory_export(c->device->memories, &c->holder, request->id, DEVICE_EXPORTS_MAX);
	a->close_fd = true;
	return a->fd < 0 ? BAD_HANDLE : OK;
}

static uint32_t answer_memory_facts(struct device_client *c, const struct memory_facts *m,
	struct device_answer *a)
{
	if (!m)
		return BAD_HANDLE;
	usage_show_again(c->device, m->slot);
	fill_memory_reply(m, a);
	return OK;
}

static uint32_t handle_mem_open(struct device_client *c,
	const struct sim_device_request *request, struct device_answer *a)
{
	return answer_memory_facts(c,
		memory_open(c->device->memories, &c->holder, request->id, request->cookie), a);
}

static uint32_t handle_counters(struct device_client *c,
	const struct sim_device_request *request, struct device_answer *a)
{
	struct engine_counters n;

	if (request->slot >= SIM_MAX_GPUS || (c->instance && !instance_on(c, request->slot)))
		return BAD_DEVICE;
	n = engine_gpu_counters(c->device->engine, instance_index(c, request->slot));
	a->reply.bytes = n.busy_ns;
	a->reply.total = n.switch_ns;
	a->reply.id = n.switches;
	return OK;
}

/* --- packets --- */

static uint32_t handle_hello(struct device_client *c, const struct sim_device_request *request,
	struct device_answer *a)
{
	CLEANUP(closep) int fd = -1;
	struct sim_device_page *page;

	if (request->bytes != SIM_DEVICE_VERSION)
		return NOT_SUPPORTED;
	fd = memfd_create("gpuslice-sim-page", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	c->streams = calloc(SIM_DEVICE_STREAMS_MAX, sizeof(struct device_stream *));
	c->events = calloc(SIM_DEVICE_EVENTS_MAX, sizeof(struct event_view *));
	if (fd < 0 || !c->streams || !c->events || ftruncate(fd, sizeof(*page)) < 0 ||
		fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return OS_ERROR;
	page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		return OS_ERROR;
	page->version = SIM_DEVICE_VERSION;
	c->page = page;
	c->page_fd = steal_fd(&fd);
	a->fd = c->page_fd;
	return OK;
}

typedef uint32_t request_fn(struct device_client *c, const struct sim_device_request *q,
	struct device_answer *a);

static request_fn *const requests[SIM_DEVICE_OPS] = {
	[SIM_DEVICE_MEM_INFO] = handle_mem_info,
	[SIM_DEVICE_CONTEXT_CREATE] = handle_context_create,
	[SIM_DEVICE_CONTEXT_DESTROY] = handle_context_destroy,
	[SIM_DEVICE_CONTEXT_STACK] = handle_context_stack,
	[SIM_DEVICE_STREAM_CREATE] = handle_stream_create,
	[SIM_DEVICE_STREAM_DESTROY] = handle_stream_destroy,
	[SIM_DEVICE_EVENT_CREATE] = handle_event_create,
	[SIM_DEVICE_EVENT_OPEN] = handle_event_open,
	[SIM_DEVICE_EVENT_DESTROY] = handle_event_destroy,
	[SIM_DEVICE_MEM_ALLOC] = handle_mem_alloc,
	[SIM_DEVICE_MEM_RELEASE] = handle_mem_release,
	[SIM_DEVICE_MEM_EXPORT] = handle_mem_export,
	[SIM_DEVICE_MEM_OPEN] = handle_mem_open,
	[SIM_DEVICE_COUNTERS] = handle_counters,
	[SIM_DEVICE_CONTEXT_FAULT] = handle_context_fault,
	[SIM_DEVICE_MPS_SERVE] = mps_serve,
	[SIM_DEVICE_MPS_TICKET] = mps_ticket,
	[SIM_DEVICE_MPS_END] = mps_end,
	[SIM_DEVICE_INSTANCE] = instance_use,
};

bool device_request(struct device_client *c, const struct sim_device_request *request, int fd,
	uint64_t now_ns, struct device_answer *a)
{
	struct sim_device_reply *r = &a->reply;

	/* HELLO comes first, and only once. */
	if ((request->op == SIM_DEVICE_HELLO) == (c->page != NULL))
		return false;
	if (request->op == SIM_DEVICE_HOST_DONE) {
		const struct device_stream *s = request_stream(c, request->object);

		if (s)
			(void)engine_host_done(s->engine, request->id, now_ns);
		return true;
	}
	*r = (struct sim_device_reply){ .op = request->op, .tag = request->tag };
	a->send = true;
	if (request->op == SIM_DEVICE_HELLO)
		r->status = handle_hello(c, request, a);
	else if (request->op == SIM_DEVICE_MEM_IMPORT)
		r->status = answer_memory_facts(c,
			memory_import(c->device->memories, &c->holder, fd), a);
	else if (request->op < SIM_DEVICE_OPS && requests[request->op])
		r->status = requests[request->op](c, request, a);
	else
		return false;
	return true;
}
