/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/device/device.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/time.h"
#include "gpu/nvml-api.h"
#include "sim/derive.h"
#include "sim/device/engine.h"
#include "sim/device/memory.h"

/* Answers, as CUDA numbers them. */
enum {
	OK = 0,
	BAD_VALUE = 1,
	NO_MEMORY = 2,
	UNAVAILABLE = 46,
	BAD_DEVICE = 101,
	BAD_CONTEXT = 201,
	OS_ERROR = 304,
	BAD_HANDLE = 400,
	ILLEGAL_ADDRESS = 700,
	LAUNCH_FAILED = 719,
	NOT_SUPPORTED = 801,
	TOO_MANY_CONTEXTS = 808,
};

#define XID_MMU_FAULT   31
#define XID_EXCEPTION   13
#define BYTES_MAX       (UINT64_C(1) << 50)
#define KERNEL_NS_MAX   (UINT64_C(1) << 60)
#define STACK_BYTES_MAX (UINT64_C(512) << 10)
#define COMM_MAX        16

struct context {
	struct engine_context *engine; /* NULL: free place */
	struct device_client *client;
	uint32_t index, slot;
	uint64_t bytes; /* it takes, without what its process takes */
	uint64_t more;  /* of them, not for stacks */
};

struct stream {
	struct device_client *client;
	struct engine_stream *engine;
	struct context *context;
	uint32_t index;
	bool dying;
};

/* What one client sees of an event. */
struct view {
	struct event *event;
	struct device_client *client;
	uint32_t index;
	struct view *next; /* of the same event */
};

struct event {
	struct engine_event *engine;
	struct view *views;
	uint64_t id, cookie;
	struct event *next, **at;
};

/* What a client has on one GPU. */
struct share {
	uint64_t bytes;        /* shown by NVML */
	uint64_t base;         /* of them, what the process takes as long as it has a context */
	uint64_t busy_ns;      /* of contexts that are gone */
	uint64_t seen_busy_ns; /* of all, when it was last measured */
	uint32_t contexts;
	uint32_t percent; /* of the last interval, that its kernels ran */
	bool listed;      /* in NVML's list */
};

struct device_client {
	struct device *device;
	struct device_client *next, **at;
	uint32_t pid;
	char name[COMM_MAX + 1];
	struct memory_holder holder;
	bool gone;
	uint64_t free_at_ns; /* of one that is gone: by the simulated clock */
	int page_fd;
	struct sim_device_page *page; /* NULL: no hello yet */
	struct context contexts[SIM_DEVICE_CONTEXTS_MAX];
	struct stream **streams; /* by index */
	struct view **events;
	uint32_t stream_cursor, event_cursor;
	uint32_t stream_top, event_top; /* places behind these were never given */
	struct share shares[SIM_MAX_GPUS];
};

/* What of the node's state is looked at all the time. */
struct slot {
	bool usable;
	uint32_t epoch;
	bool mig, mps;
	uint64_t room;    /* bytes that CUDA may have in all */
	uint64_t total;   /* as CUDA shows it */
	uint64_t used;    /* by CUDA */
	uint64_t context; /* of a process's first, 0: derived */
	uint64_t free_ns;
	uint32_t sm_count;
};

struct device {
	struct sim_state *state;
	uint64_t generation;
	struct engine *engine;
	struct memory_book *memories;
	struct device_client *clients;
	uint32_t client_count, gone_count;
	struct event *events;
	uint64_t last_event_id;
	uint64_t measured_ns, measured_mono_ns; /* by the simulated and by the real clock */
	struct slot slots[SIM_MAX_GPUS];
};

/* Waking. */

static void wake(const void *word)
{
	(void)syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void publish(_Atomic uint64_t *completed, _Atomic uint32_t *waiters, uint64_t value)
{
	atomic_store(completed, value);
	if (atomic_load(waiters))
		wake(completed);
}

/* What NVML shows. */

static void show_usage(struct device *d, uint32_t slot)
{
	struct sim_usage rows[SIM_MAX_PROCESSES];
	size_t n = 0, i;

	for (const struct device_client *c = d->clients; c; c = c->next) {
		if (!c->shares[slot].listed)
			continue;
		for (i = 0; i < n && rows[i].pid != c->pid; i++)
			;
		if (i == SIM_MAX_PROCESSES)
			continue;
		if (i == n)
			rows[n++] = (struct sim_usage){ .pid = c->pid };
		rows[i].bytes += c->shares[slot].bytes;
	}
	sim_usage_write(d->state, slot, rows, n, d->slots[slot].used);
}

static bool remove_row(struct sim_gpu *g, uint32_t pid)
{
	for (uint32_t i = 0; i < g->process_count; i++) {
		struct sim_process *p = &g->processes[i];

		if (p->pid != pid || p->kind != SIM_PROCESS_COMPUTE)
			continue;
		memmove(p, p + 1, (g->process_count - i - 1) * sizeof(*p));
		g->process_count--;
		memset(&g->processes[g->process_count], 0, sizeof(*p));
		return true;
	}
	return false;
}

/* Another connection of the same process has something on the GPU too. */
static bool listed_by_another(const struct device_client *c, uint32_t slot)
{
	for (const struct device_client *o = c->device->clients; o; o = o->next)
		if (o != c && o->pid == c->pid && o->shares[slot].listed)
			return true;
	return false;
}

/* NVML's row of the process; its bytes are told by show_usage(). */
static bool list_process(struct device_client *c, uint32_t slot)
{
	CLEANUP(sim_txn_end) struct sim_txn txn = SIM_TXN_INIT;
	struct device *d = c->device;
	struct sim_process *p;
	struct sim_gpu *g;

	if (c->shares[slot].listed)
		return true;
	if (!listed_by_another(c, slot)) {
		if (sim_txn_begin(d->state, &txn, NULL) < 0)
			return false;
		g = &txn.node->gpus[slot];
		if (g->process_count >= SIM_MAX_PROCESSES)
			return false;
		sim_settle(g, time_wall_ns());
		(void)remove_row(g, c->pid);
		p = &g->processes[g->process_count++];
		*p = (struct sim_process){ .pid = c->pid,
			.kind = SIM_PROCESS_COMPUTE,
			.gi = SIM_NO_INSTANCE,
			.ci = SIM_NO_INSTANCE,
			.started_us = time_wall_ns() / 1000 };
		(void)snprintf(p->name, sizeof(p->name), "%s", c->name);
		sim_gpu_sum_processes(g);
		sim_txn_commit(&txn);
	}
	c->shares[slot].listed = true;
	return true;
}

/* Takes the process off the lists of GPUs on which it has nothing. Its bytes are gone already. */
static void unlist_process(struct device_client *c)
{
	CLEANUP(sim_txn_end) struct sim_txn txn = SIM_TXN_INIT;
	struct device *d = c->device;
	bool begun = false;

	for (uint32_t slot = 0; slot < SIM_MAX_GPUS; slot++) {
		struct share *s = &c->shares[slot];

		if (!s->listed || s->bytes || s->contexts)
			continue;
		s->listed = false;
		if (listed_by_another(c, slot))
			continue;
		if (!begun && sim_txn_begin(d->state, &txn, NULL) < 0)
			return;
		begun = true;
		sim_settle(&txn.node->gpus[slot], time_wall_ns());
		(void)remove_row(&txn.node->gpus[slot], c->pid);
		sim_gpu_sum_processes(&txn.node->gpus[slot]);
	}
	if (!begun)
		return;
	sim_txn_commit(&txn);
	for (uint32_t slot = 0; slot < SIM_MAX_GPUS; slot++)
		if (d->slots[slot].usable)
			show_usage(d, slot);
}

static uint64_t free_bytes(const struct slot *s)
{
	return s->room > s->used ? s->room - s->used : 0;
}

/* Memory that changes hands; sums only, show_usage() follows. */
static void moved(void *arg, const struct memory_facts *m, struct memory_holder *from,
	struct memory_holder *to, bool lives)
{
	struct device *d = arg;

	if (m->flags & SIM_DEVICE_MEM_MANAGED)
		return;
	if (from)
		((struct device_client *)(void *)((char *)from -
						  offsetof(struct device_client, holder)))
			->shares[m->slot]
			.bytes -= m->bytes;
	if (to)
		((struct device_client *)(void *)((char *)to -
						  offsetof(struct device_client, holder)))
			->shares[m->slot]
			.bytes += m->bytes;
	if (!lives)
		d->slots[m->slot].used -= m->bytes;
}

/* The same where memory may have gone over to a process that NVML does not list yet. */
static void show_usage_of(struct device *d, uint32_t slot)
{
	for (struct device_client *c = d->clients; c; c = c->next)
		if (c->shares[slot].bytes && !c->shares[slot].listed)
			(void)list_process(c, slot);
	show_usage(d, slot);
}

/* Hooks of the engine. */

static void show_busy(const struct context *c)
{
	atomic_store_explicit(&c->client->page->contexts[c->index].busy_ns,
		engine_context_busy_ns(c->engine), memory_order_relaxed);
}

static void on_completed(void *arg, void *user, uint64_t seq)
{
	const struct stream *s = user;
	struct sim_device_stream_cell *cell = &s->client->page->streams[s->index];

	(void)arg;
	show_busy(s->context);
	publish(&cell->completed, &cell->waiters, seq);
}

static void on_host(void *arg, void *user, uint64_t seq)
{
	const struct stream *s = user;
	struct sim_device_page *page = s->client->page;

	(void)arg;
	atomic_store(&page->streams[s->index].host_seq, seq);
	atomic_fetch_add(&page->host_word, 1);
	wake(&page->host_word);
}

static void on_recorded(void *arg, void *user, uint64_t completed, uint64_t time_ns)
{
	const struct event *v = user;

	(void)arg;
	for (const struct view *w = v->views; w; w = w->next) {
		struct sim_device_event_cell *cell = &w->client->page->events[w->index];

		atomic_store(&cell->time_ns, time_ns);
		publish(&cell->completed, &cell->waiters, completed);
	}
}

static void post_xid(struct device *d, uint32_t slot, uint64_t xid)
{
	CLEANUP(sim_txn_end) struct sim_txn txn = SIM_TXN_INIT;

	if (sim_txn_begin(d->state, &txn, NULL) < 0)
		return;
	sim_txn_post(&txn, (struct sim_event){ .type = NVML_EVENT_XID_CRITICAL,
				   .data = xid,
				   .slot = slot,
				   .epoch = txn.node->head.slots[slot].epoch,
				   .gi = SIM_NO_INSTANCE,
				   .ci = SIM_NO_INSTANCE });
	sim_txn_commit(&txn);
}

static void on_failed(void *arg, void *user, uint32_t code)
{
	const struct context *c = user;
	struct device *d = arg;

	/* Dead by itself, not by a GPU that is gone. */
	if (d->slots[c->slot].usable)
		post_xid(d, c->slot, code == ILLEGAL_ADDRESS ? XID_MMU_FAULT : XID_EXCEPTION);
	atomic_store(&c->client->page->contexts[c->index].error, code);
}

static void on_drained(void *arg, void *user)
{
	struct stream *s = user;

	(void)arg;
	s->client->streams[s->index] = NULL;
	free(s);
}

static const struct engine_hooks engine_hooks = { .completed = on_completed,
	.host = on_host,
	.recorded = on_recorded,
	.failed = on_failed,
	.drained = on_drained };

/* The node. */

static void slot_read(struct device *d, const struct sim_node_head *head, uint32_t i)
{
	struct slot *s = &d->slots[i];
	const struct sim_slot *now = &head->slots[i];
	const struct sim_keys *k;
	struct sim_gpu g;
	uint64_t taken;

	s->usable = i < head->info.slot_count && now->present && !now->lost;
	s->epoch = now->epoch;
	if (!s->usable)
		return;
	sim_state_read_bare(d->state, &SIM_PART_GPU(i, &g), 1);
	k = &g.keys;
	s->mig = g.mig.enabled;
	s->mps = k->cuda_mps;
	s->total =
		k->memory_total > k->memory_reserved ? k->memory_total - k->memory_reserved : 0;
	taken = sim_memory_used_bytes(&g);
	s->room = s->total > taken ? s->total - taken : 0;
	s->context = k->cuda_context;
	s->free_ns = (uint64_t)k->cuda_free_ms * NS_PER_MS;
	s->sm_count = k->sm_count;
	engine_gpu_set(d->engine, i,
		&(struct engine_gpu_config){ .slice_ns = (uint64_t)k->cuda_slice_us * 1000,
			.switch_ns = (uint64_t)k->cuda_switch_us * 1000,
			.width = k->sm_count,
			.host_mbps = k->cuda_copy_mbps,
			.local_mbps = k->cuda_local_mbps });
}

/* A GPU that is lost, gone or another than it was kills what ran on it. */
static void kill_contexts(struct device *d, uint32_t slot)
{
	for (struct device_client *c = d->clients; c; c = c->next)
		for (uint32_t i = 0; i < SIM_DEVICE_CONTEXTS_MAX; i++)
			if (c->contexts[i].engine && c->contexts[i].slot == slot)
				engine_context_fail(c->contexts[i].engine, LAUNCH_FAILED);
}

static void node_read(struct device *d, bool first)
{
	uint64_t generation = sim_state_generation(d->state);
	CLEANUP(freep) struct sim_node_head *head = NULL;

	if (generation == d->generation && !first)
		return;
	head = malloc(sizeof(*head));
	if (!head)
		return; /* the next time */
	sim_state_read_bare(d->state, &SIM_PART_HEAD(head), 1);
	d->generation = generation;
	for (uint32_t i = 0; i < SIM_MAX_GPUS; i++) {
		struct slot *s = &d->slots[i], old = *s;

		slot_read(d, head, i);
		if (!first && old.usable && (!s->usable || s->epoch != old.epoch))
			kill_contexts(d, i);
	}
}

/* Rows of processes whose daemon was killed. */
static int clear_left_over(struct device *d, struct error *err)
{
	CLEANUP(sim_txn_end) struct sim_txn txn = SIM_TXN_INIT;
	struct sim_usage rows[SIM_MAX_PROCESSES];
	bool any = false;
	uint64_t total;

	if (sim_txn_begin(d->state, &txn, err) < 0)
		return -1;
	for (uint32_t slot = 0; slot < txn.node->head.info.slot_count; slot++) {
		size_t n = sim_usage_read(d->state, slot, rows, &total);

		if (n || total)
			sim_usage_write(d->state, slot, NULL, 0, 0);
		for (size_t i = 0; i < n; i++)
			any = remove_row(&txn.node->gpus[slot], rows[i].pid) || any;
		sim_gpu_sum_processes(&txn.node->gpus[slot]);
	}
	if (any)
		sim_txn_commit(&txn);
	return 0;
}

int device_new(struct sim_state *state, struct device **ret, struct error *err)
{
	struct device *d = calloc(1, sizeof(*d));

	if (!d)
		return error_nomem(err);
	d->state = state;
	d->engine = engine_new(SIM_MAX_GPUS, &engine_hooks, d);
	d->memories = memory_book_new(moved, d);
	if (!d->engine || !d->memories) {
		(void)device_free(d);
		return error_nomem(err);
	}
	if (clear_left_over(d, err) < 0) {
		(void)device_free(d);
		return -1;
	}
	node_read(d, true);
	*ret = d;
	return 0;
}

struct device *device_free(struct device *d)
{
	while (d->clients) {
		d->clients->free_at_ns = 0;
		if (!d->clients->gone)
			device_client_gone(d->clients, UINT64_MAX);
		else
			device_advance(d, UINT64_MAX);
	}
	d->memories = memory_book_free(d->memories);
	d->engine = d->engine ? engine_free(d->engine) : NULL;
	free(d);
	return NULL;
}

/* Clients. */

static void read_name(uint32_t pid, char *ret, size_t cap)
{
	char path[64];
	CLEANUP(closep) int fd = -1;
	ssize_t n;

	(void)snprintf(path, sizeof(path), "/proc/%u/comm", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, ret, cap - 1);
	ret[n > 0 ? (size_t)n : 0] = '\0';
	ret[strcspn(ret, "\n")] = '\0';
}

struct device_client *device_client_new(struct device *d, uint32_t pid)
{
	struct device_client *c;

	if (d->client_count >= DEVICE_CLIENTS_MAX)
		return NULL;
	c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	c->device = d;
	c->pid = pid;
	c->page_fd = -1;
	read_name(pid, c->name, sizeof(c->name));
	c->next = d->clients;
	if (c->next)
		c->next->at = &c->next;
	c->at = &d->clients;
	d->clients = c;
	d->client_count++;
	return c;
}

static void context_end(struct context *c);

static void view_end(struct view *w)
{
	struct event *v = w->event;
	struct view **at = &v->views;

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

/* Contexts, queues and events go at once; memory when it is time. */
static void client_stop(struct device_client *c)
{
	for (uint32_t i = 0; i < SIM_DEVICE_CONTEXTS_MAX; i++)
		if (c->contexts[i].engine)
			context_end(&c->contexts[i]);
	for (uint32_t i = 0; c->events && i < c->event_top; i++)
		if (c->events[i])
			view_end(c->events[i]);
	free(STEAL_PTR(c->streams));
	free(STEAL_PTR(c->events));
	if (c->page)
		(void)munmap(c->page, sizeof(*c->page));
	c->page = NULL;
	closep(&c->page_fd);
	c->page_fd = -1;
}

static void client_free(struct device_client *c)
{
	struct device *d = c->device;

	memory_release_all(d->memories, &c->holder);
	for (uint32_t slot = 0; slot < SIM_MAX_GPUS; slot++) {
		struct share *s = &c->shares[slot];

		/* What a slow death has kept of its contexts. */
		d->slots[slot].used -= s->bytes;
		s->bytes = 0;
	}
	/* Memory may have gone over to another process, so look at all GPUs. */
	for (uint32_t slot = 0; slot < SIM_MAX_GPUS; slot++)
		if (c->shares[slot].listed || d->slots[slot].used)
			show_usage_of(d, slot);
	unlist_process(c);
	*c->at = c->next;
	if (c->next)
		c->next->at = c->at;
	d->client_count--;
	d->gone_count -= c->gone;
	free(c);
}

void device_client_gone(struct device_client *c, uint64_t now_ns)
{
	struct device *d = c->device;
	uint64_t wait_ns = 0;

	if (now_ns != UINT64_MAX)
		engine_advance(d->engine, now_ns);
	for (uint32_t slot = 0; slot < SIM_MAX_GPUS; slot++)
		if (c->shares[slot].bytes && d->slots[slot].free_ns > wait_ns)
			wait_ns = d->slots[slot].free_ns;
	if (!wait_ns || now_ns == UINT64_MAX) {
		client_stop(c);
		client_free(c);
		return;
	}
	/* The bytes of its contexts stay in its shares, though the contexts go. */
	c->gone = true;
	d->gone_count++;
	c->free_at_ns = now_ns + wait_ns;
	client_stop(c);
}

/* Contexts. */

static uint64_t granules(uint64_t bytes)
{
	return (bytes + SIM_DEVICE_GRANULE - 1) / SIM_DEVICE_GRANULE * SIM_DEVICE_GRANULE;
}

static uint64_t stack_bytes(const struct slot *s, uint64_t bytes)
{
	return granules(bytes * DEVICE_THREADS_SM * s->sm_count);
}

static void charge(struct device_client *c, uint32_t slot, uint64_t bytes)
{
	c->shares[slot].bytes += bytes;
	c->device->slots[slot].used += bytes;
}

static void uncharge(struct device_client *c, uint32_t slot, uint64_t bytes)
{
	if (c->gone)
		return; /* client_free() does it */
	c->shares[slot].bytes -= bytes;
	c->device->slots[slot].used -= bytes;
}

/* Streams go with their context; who waits for one is woken. */
static void context_end(struct context *c)
{
	struct device_client *client = c->client;
	struct share *s = &client->shares[c->slot];

	for (uint32_t i = 0; client->streams && i < client->stream_top; i++) {
		struct stream *t = client->streams[i];

		if (!t || t->context != c)
			continue;
		publish(&client->page->streams[i].completed, &client->page->streams[i].waiters,
			engine_stream_submitted(t->engine));
		client->streams[i] = NULL;
		free(t);
	}
	s->busy_ns += engine_context_busy_ns(c->engine);
	engine_context_free(c->engine);
	uncharge(client, c->slot, c->bytes);
	*c = (struct context){ .engine = NULL };
	if (--s->contexts == 0) {
		uncharge(client, (uint32_t)(s - client->shares), s->base);
		s->base = 0;
	}
}

static uint32_t usable(const struct device *d, uint32_t slot)
{
	if (slot >= SIM_MAX_GPUS)
		return BAD_DEVICE;
	if (!d->slots[slot].usable)
		return d->slots[slot].total ? UNAVAILABLE : BAD_DEVICE;
	return d->slots[slot].mig ? NOT_SUPPORTED : OK;
}

static uint32_t do_context_create(struct device_client *c, const struct sim_device_request *q,
	struct device_answer *a)
{
	struct device *d = c->device;
	struct slot *s = &d->slots[q->slot % SIM_MAX_GPUS];
	struct share *share = &c->shares[q->slot % SIM_MAX_GPUS];
	uint64_t stack, base = 0, bytes, more;
	struct context *x = NULL;
	uint32_t r = usable(d, q->slot), value;

	for (uint32_t i = 0; i < SIM_DEVICE_CONTEXTS_MAX && !x; i++)
		if (!c->contexts[i].engine) {
			x = &c->contexts[i];
			x->index = i;
		}
	if (r || !x)
		return r ? r : TOO_MANY_CONTEXTS;
	stack = stack_bytes(s, DEVICE_STACK_DEFAULT);
	more = share->contexts ? DEVICE_CONTEXT_MORE : 0;
	bytes = stack + more;
	if (!share->contexts)
		base = s->context ? granules(s->context) : DEVICE_CONTEXT_BASE + stack;
	base -= base > bytes ? bytes : base;
	if (sim_cuda_fault_hit(d->state, q->slot, SIM_CUDA_OOM, &value) ||
		bytes + base > free_bytes(s) || !list_process(c, q->slot))
		return NO_MEMORY;
	x->client = c;
	x->slot = q->slot;
	x->bytes = bytes;
	x->more = more;
	x->engine = engine_context_new(d->engine, q->slot, s->mps, q->percent, x);
	if (!x->engine)
		return NO_MEMORY;
	share->contexts++;
	share->base += base;
	charge(c, q->slot, bytes + base);
	show_usage(d, q->slot);
	atomic_store(&c->page->contexts[x->index].error, 0);
	atomic_store(&c->page->contexts[x->index].busy_ns, 0);
	a->reply.object = x->index;
	a->reply.bytes = bytes + base;
	return OK;
}

static struct context *find_context(struct device_client *c, uint32_t object)
{
	return object < SIM_DEVICE_CONTEXTS_MAX && c->contexts[object].engine
		       ? &c->contexts[object]
		       : NULL;
}

static uint32_t do_context_destroy(struct device_client *c, const struct sim_device_request *q,
	struct device_answer *a)
{
	struct context *x = find_context(c, q->object);
	uint32_t slot;

	(void)a;
	if (!x)
		return BAD_CONTEXT;
	slot = x->slot;
	context_end(x);
	show_usage(c->device, slot);
	unlist_process(c);
	return OK;
}

static uint32_t do_context_stack(struct device_client *c, const struct sim_device_request *q,
	struct device_answer *a)
{
	struct context *x = find_context(c, q->object);
	struct device *d = c->device;
	uint64_t bytes, want;

	if (!x)
		return BAD_CONTEXT;
	if (q->bytes > STACK_BYTES_MAX)
		return BAD_VALUE;
	bytes = q->bytes < DEVICE_STACK_DEFAULT ? DEVICE_STACK_DEFAULT : q->bytes;
	want = stack_bytes(&d->slots[x->slot], bytes) + x->more;
	if (want > x->bytes && want - x->bytes > free_bytes(&d->slots[x->slot]))
		return NO_MEMORY;
	uncharge(c, x->slot, x->bytes);
	charge(c, x->slot, want);
	x->bytes = want;
	show_usage(d, x->slot);
	a->reply.bytes = want;
	return OK;
}

/* Streams and events. */

static uint32_t do_stream_create(struct device_client *c, const struct sim_device_request *q,
	struct device_answer *a)
{
	struct context *x = find_context(c, q->object);
	struct stream *s;
	uint32_t i;

	if (!x)
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
	*s = (struct stream){ .client = c, .context = x, .index = i };
	s->engine = engine_stream_new(x->engine, q->percent > 100 ? 100 : (int)q->percent, s);
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

static struct stream *find_stream(struct device_client *c, uint32_t object)
{
	struct stream *s = object < SIM_DEVICE_STREAMS_MAX ? c->streams[object] : NULL;

	return s && !s->dying ? s : NULL;
}

static uint32_t do_stream_destroy(struct device_client *c, const struct sim_device_request *q,
	struct device_answer *a)
{
	struct stream *s = find_stream(c, q->object);

	(void)a;
	if (!s)
		return BAD_HANDLE;
	s->dying = true;
	engine_stream_free(s->engine);
	return OK;
}

static struct view *view_new(struct device_client *c, struct event *v)
{
	struct view *w;
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
	*w = (struct view){ .event = v, .client = c, .index = i, .next = v->views };
	v->views = w;
	c->events[i] = w;
	c->event_cursor = i + 1;
	c->event_top = i >= c->event_top ? i + 1 : c->event_top;
	atomic_store(&c->page->events[i].completed, engine_event_completed(v->engine));
	atomic_store(&c->page->events[i].recorded, engine_event_recorded(v->engine));
	atomic_store(&c->page->events[i].time_ns, 0);
	return w;
}

static uint32_t do_event_create(struct device_client *c, const struct sim_device_request *q,
	struct device_answer *a)
{
	struct device *d = c->device;
	struct event *v = calloc(1, sizeof(*v));
	const struct view *w;

	(void)q;
	if (!v)
		return OS_ERROR;
	v->engine = engine_event_new(d->engine, v);
	w = v->engine ? view_new(c, v) : NULL;
	if (!w || getrandom(&v->cookie, sizeof(v->cookie), GRND_NONBLOCK) < 0) {
		if (v->engine)
			engine_event_free(v->engine);
		if (w)
			c->events[w->index] = NULL;
		free(v->views);
		free(v);
		return OS_ERROR;
	}
	v->id = ++d->last_event_id;
	v->next = d->events;
	if (v->next)
		v->next->at = &v->next;
	v->at = &d->events;
	d->events = v;
	a->reply.object = w->index;
	a->reply.id = v->id;
	a->reply.cookie = v->cookie;
	return OK;
}

static uint32_t do_event_open(struct device_client *c, const struct sim_device_request *q,
	struct device_answer *a)
{
	struct event *v = c->device->events;
	const struct view *w;

	while (v && (v->id != q->id || v->cookie != q->cookie))
		v = v->next;
	if (!v)
		return BAD_HANDLE;
	w = view_new(c, v);
	if (!w)
		return OS_ERROR;
	a->reply.object = w->index;
	return OK;
}

static struct view *find_event(const struct device_client *c, uint32_t object)
{
	return object < SIM_DEVICE_EVENTS_MAX ? c->events[object] : NULL;
}

static uint32_t do_event_destroy(struct device_client *c, const struct sim_device_request *q,
	struct device_answer *a)
{
	struct view *w = find_event(c, q->object);

	(void)a;
	if (!w)
		return BAD_HANDLE;
	view_end(w);
	return OK;
}

/* Memory. */

static uint32_t do_mem_info(struct device_client *c, const struct sim_device_request *q,
	struct device_answer *a)
{
	uint32_t r = usable(c->device, q->slot);

	if (r)
		return r;
	a->reply.bytes = free_bytes(&c->device->slots[q->slot]);
	a->reply.total = c->device->slots[q->slot].total;
	return OK;
}

static void tell_memory(const struct memory_facts *m, struct device_answer *a)
{
	a->reply.id = m->id;
	a->reply.cookie = m->cookie;
	a->reply.bytes = m->bytes;
	a->reply.slot = m->slot;
	a->reply.flags = m->flags;
	a->fd = m->fd;
}

static uint32_t do_mem_alloc(struct device_client *c, const struct sim_device_request *q,
	struct device_answer *a)
{
	struct device *d = c->device;
	bool managed = q->flags & SIM_DEVICE_MEM_MANAGED;
	const struct memory_facts *m;
	uint32_t r = usable(d, q->slot), value;
	uint64_t bytes;

	if (r)
		return r;
	if (!q->bytes || q->flags & ~(SIM_DEVICE_MEM_NO_FD | SIM_DEVICE_MEM_MANAGED))
		return BAD_VALUE;
	if (q->bytes > BYTES_MAX)
		return NO_MEMORY;
	bytes = granules(q->bytes);
	if (sim_cuda_fault_hit(d->state, q->slot, SIM_CUDA_OOM, &value) ||
		(!managed && bytes > free_bytes(&d->slots[q->slot])) ||
		!list_process(c, q->slot))
		return NO_MEMORY;
	m = memory_new(d->memories, &c->holder, q->slot, bytes, q->flags);
	if (!m)
		return NO_MEMORY;
	if (!managed) {
		d->slots[q->slot].used += bytes;
		show_usage(d, q->slot);
	}
	tell_memory(m, a);
	return OK;
}

static uint32_t do_mem_release(struct device_client *c, const struct sim_device_request *q,
	struct device_answer *a)
{
	struct device *d = c->device;

	(void)a;
	if (!memory_release(d->memories, &c->holder, q->id))
		return BAD_HANDLE;
	/* Of which GPU it was is not known any more, and it may be another process's now. */
	for (uint32_t slot = 0; slot < SIM_MAX_GPUS; slot++)
		if (c->shares[slot].listed)
			show_usage_of(d, slot);
	return OK;
}

static uint32_t do_mem_export(struct device_client *c, const struct sim_device_request *q,
	struct device_answer *a)
{
	a->fd = memory_export(c->device->memories, &c->holder, q->id, DEVICE_EXPORTS_MAX);
	a->close_fd = true;
	return a->fd < 0 ? BAD_HANDLE : OK;
}

static uint32_t take_in(struct device_client *c, const struct memory_facts *m,
	struct device_answer *a)
{
	if (!m)
		return BAD_HANDLE;
	show_usage_of(c->device, m->slot);
	tell_memory(m, a);
	return OK;
}

static uint32_t do_mem_open(struct device_client *c, const struct sim_device_request *q,
	struct device_answer *a)
{
	return take_in(c, memory_open(c->device->memories, &c->holder, q->id, q->cookie), a);
}

static uint32_t do_counters(struct device_client *c, const struct sim_device_request *q,
	struct device_answer *a)
{
	struct engine_counters n;

	if (q->slot >= SIM_MAX_GPUS)
		return BAD_DEVICE;
	n = engine_gpu_counters(c->device->engine, q->slot);
	a->reply.bytes = n.busy_ns;
	a->reply.total = n.switch_ns;
	a->reply.id = n.switches;
	return OK;
}

/* Packets. */

static uint32_t do_hello(struct device_client *c, const struct sim_device_request *q,
	struct device_answer *a)
{
	CLEANUP(closep) int fd = -1;
	struct sim_device_page *page;

	if (q->bytes != SIM_DEVICE_VERSION)
		return NOT_SUPPORTED;
	fd = memfd_create("gpuslice-sim-page", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	c->streams = calloc(SIM_DEVICE_STREAMS_MAX, sizeof(struct stream *));
	c->events = calloc(SIM_DEVICE_EVENTS_MAX, sizeof(struct view *));
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

typedef uint32_t do_fn(struct device_client *c, const struct sim_device_request *q,
	struct device_answer *a);

static do_fn *const requests[SIM_DEVICE_OPS] = {
	[SIM_DEVICE_MEM_INFO] = do_mem_info,
	[SIM_DEVICE_CONTEXT_CREATE] = do_context_create,
	[SIM_DEVICE_CONTEXT_DESTROY] = do_context_destroy,
	[SIM_DEVICE_CONTEXT_STACK] = do_context_stack,
	[SIM_DEVICE_STREAM_CREATE] = do_stream_create,
	[SIM_DEVICE_STREAM_DESTROY] = do_stream_destroy,
	[SIM_DEVICE_EVENT_CREATE] = do_event_create,
	[SIM_DEVICE_EVENT_OPEN] = do_event_open,
	[SIM_DEVICE_EVENT_DESTROY] = do_event_destroy,
	[SIM_DEVICE_MEM_ALLOC] = do_mem_alloc,
	[SIM_DEVICE_MEM_RELEASE] = do_mem_release,
	[SIM_DEVICE_MEM_EXPORT] = do_mem_export,
	[SIM_DEVICE_MEM_OPEN] = do_mem_open,
	[SIM_DEVICE_COUNTERS] = do_counters,
};

static bool request(struct device_client *c, const struct sim_device_request *q, int fd,
	uint64_t now_ns, struct device_answer *a)
{
	struct sim_device_reply *r = &a->reply;

	/* First of all a hello, and only one. */
	if ((q->op == SIM_DEVICE_HELLO) == (c->page != NULL))
		return false;
	if (q->op == SIM_DEVICE_HOST_DONE) {
		const struct stream *s = find_stream(c, q->object);

		if (s)
			(void)engine_host_done(s->engine, q->id, now_ns);
		return true;
	}
	*r = (struct sim_device_reply){ .op = q->op, .tag = q->tag };
	a->send = true;
	if (q->op == SIM_DEVICE_HELLO)
		r->status = do_hello(c, q, a);
	else if (q->op == SIM_DEVICE_MEM_IMPORT)
		r->status = take_in(c, memory_import(c->device->memories, &c->holder, fd), a);
	else if (q->op < SIM_DEVICE_OPS && requests[q->op])
		r->status = requests[q->op](c, q, a);
	else
		return false;
	return true;
}

/* Fills in what the engine needs; false: a command that no library of ours makes. */
static bool translate(struct device_client *c, const struct sim_device_command *in,
	const struct stream *s, struct engine_command *out)
{
	struct device *d = c->device;
	uint32_t slot = s->context->slot, value;
	const struct view *w;
	const struct stream *other;

	*out = (struct engine_command){ .kind = in->kind,
		.object = in->object,
		.amount = in->amount,
		.width = in->width };
	switch (in->kind) {
	case SIM_DEVICE_KERNEL:
		if (out->amount > KERNEL_NS_MAX)
			out->amount = ENGINE_NEVER;
		if (sim_cuda_fault_hit(d->state, slot, SIM_CUDA_ERROR, &value))
			out->fail = value ? value : LAUNCH_FAILED;
		if (sim_cuda_fault_hit(d->state, slot, SIM_CUDA_HANG, &value))
			out->amount = ENGINE_NEVER;
		return true;
	case SIM_DEVICE_COPY:
		return in->object < SIM_DEVICE_COPIES && in->amount <= BYTES_MAX;
	case SIM_DEVICE_RECORD:
	case SIM_DEVICE_WAIT_EVENT:
		w = find_event(c, in->object);
		if (!w)
			return false;
		out->event = w->event->engine;
		return true;
	case SIM_DEVICE_WAIT_STREAM:
		other = find_stream(c, in->object);
		if (other)
			out->stream = other->engine;
		else
			*out = (struct engine_command){ .kind = SIM_DEVICE_DELAY };
		return true;
	case SIM_DEVICE_HOST:
	case SIM_DEVICE_DELAY:
		return true;
	default:
		return false;
	}
}

/* How many recordings there are, for who looks from another process. */
static void show_recorded(const struct view *w)
{
	for (const struct view *o = w->event->views; o; o = o->next)
		atomic_store(&o->client->page->events[o->index].recorded,
			engine_event_recorded(w->event->engine));
}

static bool submit(struct device_client *c, const struct sim_device_command *in,
	uint64_t now_ns)
{
	struct stream *s = find_stream(c, in->stream);
	struct engine_command out;
	struct context *x;

	if (!s || in->seq != engine_stream_submitted(s->engine) + 1 ||
		!translate(c, in, s, &out))
		return false;
	x = s->context;
	if (!engine_submit(s->engine, &out, now_ns))
		return false;
	if (in->kind == SIM_DEVICE_RECORD)
		show_recorded(find_event(c, in->object));
	show_busy(x);
	return true;
}

bool device_packet(struct device_client *c, const void *packet, size_t len, int fd,
	uint64_t now_ns, struct device_answer *ret)
{
	struct sim_device_submit many;
	struct sim_device_request q;
	uint32_t op;

	*ret = (struct device_answer){ .fd = -1 };
	if (c->gone || len < sizeof(op))
		return false;
	memcpy(&op, packet, sizeof(op));
	node_read(c->device, false);
	if (op != SIM_DEVICE_SUBMIT) {
		if (len != sizeof(q))
			return false;
		memcpy(&q, packet, sizeof(q));
		engine_advance(c->device->engine, now_ns);
		return request(c, &q, fd, now_ns, ret);
	}
	if (!c->page || len < SIM_DEVICE_SUBMIT_BYTES(1) || len > sizeof(many))
		return false;
	memcpy(&many, packet, len);
	if (many.count == 0 || many.count > SIM_DEVICE_BATCH_MAX ||
		len != SIM_DEVICE_SUBMIT_BYTES(many.count))
		return false;
	for (uint32_t i = 0; i < many.count; i++)
		if (!submit(c, &many.commands[i], now_ns))
			return false;
	return true;
}

/* Load. */

#define MEASURE_NS (250 * NS_PER_MS)

static uint64_t busy_of(const struct device_client *c, uint32_t slot)
{
	uint64_t ns = c->shares[slot].busy_ns;

	for (uint32_t i = 0; i < SIM_DEVICE_CONTEXTS_MAX; i++)
		if (c->contexts[i].engine && c->contexts[i].slot == slot)
			ns += engine_context_busy_ns(c->contexts[i].engine);
	return ns;
}

/* The percentage of the interval that each process computed. True: one has changed. */
static bool measure_clients(struct device *d, uint64_t interval_ns)
{
	bool changed = false;

	for (struct device_client *c = d->clients; c; c = c->next)
		for (uint32_t slot = 0; slot < SIM_MAX_GPUS; slot++) {
			struct share *s = &c->shares[slot];
			uint64_t busy, percent;

			if (!s->listed)
				continue;
			busy = busy_of(c, slot);
			percent = (busy - s->seen_busy_ns) * 100 / interval_ns;
			s->seen_busy_ns = busy;
			percent = percent > 100 ? 100 : percent;
			changed = changed || percent != s->percent;
			s->percent = (uint32_t)percent;
		}
	return changed;
}

static void show_load(struct sim_gpu *g, const struct device *d, uint32_t slot)
{
	sim_settle(g, time_wall_ns());
	for (const struct device_client *c = d->clients; c; c = c->next)
		for (uint32_t i = 0; c->shares[slot].listed && i < g->process_count; i++) {
			struct sim_process *p = &g->processes[i];

			if (p->pid != c->pid || p->kind != SIM_PROCESS_COMPUTE)
				continue;
			p->sm_percent = c->shares[slot].percent;
			p->mem_percent = p->sm_percent / 2;
		}
	sim_gpu_sum_processes(g);
}

static void measure(struct device *d, uint64_t now_ns)
{
	CLEANUP(sim_txn_end) struct sim_txn txn = SIM_TXN_INIT;
	uint64_t mono_ns = time_mono_ns(), interval_ns = now_ns - d->measured_ns;

	/* So often for people, however fast the simulated clock goes. */
	if (now_ns == UINT64_MAX || now_ns <= d->measured_ns ||
		mono_ns - d->measured_mono_ns < MEASURE_NS)
		return;
	d->measured_ns = now_ns;
	d->measured_mono_ns = mono_ns;
	if (!measure_clients(d, interval_ns) || sim_txn_begin(d->state, &txn, NULL) < 0)
		return;
	for (uint32_t slot = 0; slot < txn.node->head.info.slot_count; slot++)
		if (d->slots[slot].usable)
			show_load(&txn.node->gpus[slot], d, slot);
	sim_txn_commit(&txn);
}

/* Time. */

void device_advance(struct device *d, uint64_t now_ns)
{
	node_read(d, false);
	if (now_ns != UINT64_MAX)
		engine_advance(d->engine, now_ns);
	measure(d, now_ns);
	if (!d->gone_count)
		return;
	for (struct device_client *c = d->clients, *next; c; c = next) {
		next = c->next;
		if (c->gone && c->free_at_ns <= now_ns)
			client_free(c);
	}
}

uint64_t device_next_ns(const struct device *d)
{
	uint64_t next = engine_next(d->engine);

	for (const struct device_client *c = d->gone_count ? d->clients : NULL; c; c = c->next)
		if (c->gone && c->free_at_ns < next)
			next = c->free_at_ns;
	return next;
}

bool device_is_idle(const struct device *d)
{
	return !d->clients && !memory_exports(d->memories);
}

int device_exports_fd(const struct device *d)
{
	return memory_exports_fd(d->memories);
}

void device_exports(struct device *d)
{
	memory_exports_closed(d->memories);
	for (uint32_t slot = 0; slot < SIM_MAX_GPUS; slot++)
		if (d->slots[slot].usable)
			show_usage_of(d, slot);
}
