/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/device/engine.h"

#include <stdlib.h>
#include <string.h>

#define COPY_START_NS 2000 /* before the first byte */
#define QUEUE_FIRST   16

/* Lists. */

struct link {
	struct link *next, *prev; /* NULL: in no list */
};

#define OWNER(type, member, at) ((type *)(void *)((char *)(at)-offsetof(type, member)))

static void list_init(struct link *head)
{
	head->next = head->prev = head;
}

static bool list_empty(const struct link *head)
{
	return head->next == head;
}

static void link_before(struct link *at, struct link *l)
{
	l->prev = at->prev;
	l->next = at;
	at->prev->next = l;
	at->prev = l;
}

static void link_out(struct link *l)
{
	if (!l->next)
		return;
	l->prev->next = l->next;
	l->next->prev = l->prev;
	l->next = l->prev = NULL;
}

/* What there is. */

struct group {
	struct link in_round; /* gpu.round */
	struct gpu *gpu;
	struct link ready;   /* streams whose kernel may start, in the order of their turn */
	struct link running; /* streams whose kernel runs, the first to end first */
	uint32_t used;       /* multiprocessors */
	uint64_t ran_ns;     /* its own clock: time it had the engine */
	uint32_t contexts;
};

struct copy_engine {
	struct link queue; /* streams; the first is being served */
	uint64_t end_ns;
};

struct gpu {
	struct engine *engine;
	struct engine_gpu_config config;
	struct link round;      /* groups */
	struct group *mps;      /* of those that run side by side */
	struct group *current;  /* on the engine, or coming onto it */
	struct group *resident; /* whose state is on the engine; NULL: nobody's that lives */
	bool was_used;
	bool switching;
	uint64_t switch_end_ns, slice_end_ns;
	struct copy_engine copies[SIM_DEVICE_COPIES];
	struct engine_counters counters;
};

struct engine {
	struct engine_hooks hooks;
	void *arg;
	uint64_t now_ns;
	struct link delays; /* streams, the first to end first */
	struct link pokes;  /* streams whose first command is to be looked at */
	uint32_t gpu_count;
	uint32_t used; /* GPUs behind these have never had a context */
	struct gpu gpus[];
};

struct engine_context {
	struct group *group;
	struct gpu *gpu;
	struct link streams;
	void *user;
	uint32_t share; /* multiprocessors it may have */
	uint32_t used;
	uint32_t running;               /* kernels */
	uint64_t busy_ns, busy_from_ns; /* by the group's clock */
	uint32_t error;
	bool freed;
};

enum place {
	PLACE_NONE,
	PLACE_READY,
	PLACE_RUNNING,
	PLACE_COPY,
	PLACE_DELAY,
	PLACE_HOST,
	PLACE_WAIT
};

struct engine_stream {
	struct engine_context *context;
	struct link in_context, in_pokes;
	struct link in_place; /* ready, running, copy queue, delays, or a waited-for object's */
	struct link waiters;  /* streams that wait for this one */
	enum place place;
	int priority;
	uint32_t width;    /* of the kernel that runs */
	uint64_t end_ns;   /* RUNNING: by the group's clock; DELAY: of the engine */
	uint64_t wait_for; /* WAIT */
	void *user;
	uint64_t completed, submitted;
	struct engine_command *queue; /* a ring of @room */
	uint32_t room, first;
	uint32_t refs; /* itself, and waits in queues */
	bool dying, gone;
};

struct engine_event {
	struct engine *engine;
	void *user;
	uint64_t recorded, completed, time_ns;
	struct link waiters;
	uint32_t refs; /* its owner, and commands in queues */
	bool owned;
};

static uint64_t add_sat(uint64_t a, uint64_t b)
{
	return b > UINT64_MAX - a ? UINT64_MAX : a + b;
}

static struct engine *engine_of(const struct engine_stream *s)
{
	return s->context->gpu->engine;
}

static struct engine_command *head_of(struct engine_stream *s)
{
	return s->submitted > s->completed ? &s->queue[s->first] : NULL;
}

/* Making and removing. */

struct engine *engine_new(uint32_t gpu_count, const struct engine_hooks *hooks, void *arg)
{
	struct engine *e = calloc(1, sizeof(*e) + gpu_count * sizeof(e->gpus[0]));

	if (!e)
		return NULL;
	e->hooks = *hooks;
	e->arg = arg;
	e->gpu_count = gpu_count;
	list_init(&e->delays);
	list_init(&e->pokes);
	for (uint32_t i = 0; i < gpu_count; i++) {
		struct gpu *g = &e->gpus[i];

		g->engine = e;
		g->config = (struct engine_gpu_config){ .slice_ns = 1024000,
			.switch_ns = 135000,
			.width = 1,
			.host_mbps = 25000,
			.local_mbps = 1000000 };
		list_init(&g->round);
		for (int k = 0; k < SIM_DEVICE_COPIES; k++)
			list_init(&g->copies[k].queue);
	}
	return e;
}

void engine_gpu_set(struct engine *e, uint32_t gpu, const struct engine_gpu_config *config)
{
	struct engine_gpu_config *c = &e->gpus[gpu].config;

	*c = *config;
	c->slice_ns = c->slice_ns ? c->slice_ns : 1;
	c->width = c->width ? c->width : 1;
	c->host_mbps = c->host_mbps ? c->host_mbps : 1;
	c->local_mbps = c->local_mbps ? c->local_mbps : 1;
}

static struct group *group_new(struct gpu *g)
{
	struct group *q = calloc(1, sizeof(*q));

	if (!q)
		return NULL;
	q->gpu = g;
	list_init(&q->ready);
	list_init(&q->running);
	link_before(&g->round, &q->in_round);
	return q;
}

static void group_free(struct group *q)
{
	struct gpu *g = q->gpu;

	if (g->current == q) {
		g->current = NULL;
		g->switching = false;
	}
	if (g->resident == q)
		g->resident = NULL;
	if (g->mps == q)
		g->mps = NULL;
	link_out(&q->in_round);
	free(q);
}

struct engine_context *engine_context_new(struct engine *e, uint32_t gpu, bool mps,
	uint32_t percent, void *user)
{
	struct gpu *g = &e->gpus[gpu];
	struct engine_context *c = calloc(1, sizeof(*c));
	uint64_t width = g->config.width;

	if (!c)
		return NULL;
	c->group = mps && g->mps ? g->mps : group_new(g);
	if (!c->group) {
		free(c);
		return NULL;
	}
	if (mps)
		g->mps = c->group;
	c->group->contexts++;
	e->used = gpu >= e->used ? gpu + 1 : e->used;
	c->gpu = g;
	c->user = user;
	list_init(&c->streams);
	percent = percent == 0 || percent > 100 ? 100 : percent;
	c->share = (uint32_t)((width * percent + 99) / 100);
	return c;
}

struct engine_stream *engine_stream_new(struct engine_context *c, int priority, void *user)
{
	struct engine_stream *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->context = c;
	s->priority = priority;
	s->user = user;
	s->refs = 1;
	list_init(&s->waiters);
	link_before(&c->streams, &s->in_context);
	return s;
}

uint64_t engine_stream_submitted(const struct engine_stream *s)
{
	return s->submitted;
}

uint64_t engine_stream_completed(const struct engine_stream *s)
{
	return s->completed;
}

struct engine_event *engine_event_new(struct engine *e, void *user)
{
	struct engine_event *v = calloc(1, sizeof(*v));

	if (!v)
		return NULL;
	v->engine = e;
	v->user = user;
	v->refs = 1;
	v->owned = true;
	list_init(&v->waiters);
	return v;
}

static void stream_put(struct engine_stream *s)
{
	if (--s->refs == 0)
		free(s);
}

static void event_put(struct engine_event *v)
{
	if (--v->refs == 0)
		free(v);
}

void engine_event_free(struct engine_event *v)
{
	v->owned = false;
	event_put(v);
}

uint64_t engine_event_recorded(const struct engine_event *v)
{
	return v->recorded;
}

uint64_t engine_event_completed(const struct engine_event *v)
{
	return v->completed;
}

/* Completing. */

static void poke(struct engine_stream *s)
{
	if (!s->in_pokes.next)
		link_before(&engine_of(s)->pokes, &s->in_pokes);
}

/* Wakes those that wait for no more than @value of something. */
static void wake(struct link *waiters, uint64_t value)
{
	for (struct link *l = waiters->next, *next; l != waiters; l = next) {
		struct engine_stream *s = OWNER(struct engine_stream, in_place, l);

		next = l->next;
		if (s->wait_for > value)
			continue;
		link_out(l);
		s->place = PLACE_NONE;
		poke(s);
	}
}

static void event_complete(struct engine_event *v, uint64_t number)
{
	struct engine *e = v->engine;

	/* Recordings may end in another order than they were made: the newest counts. */
	if (number > v->completed) {
		v->completed = number;
		v->time_ns = e->now_ns;
		if (v->owned && e->hooks.recorded)
			e->hooks.recorded(e->arg, v->user, v->completed, v->time_ns);
	}
	wake(&v->waiters, v->completed);
}

/* Takes the first command off the queue, and lets go of what it is about. */
static void pop(struct engine_stream *s)
{
	struct engine_command *c = &s->queue[s->first];

	if (c->event)
		event_put(c->event);
	if (c->stream)
		stream_put(c->stream);
	s->first = (s->first + 1) % s->room;
	s->completed++;
}

/* The first command is done: all that follows from it but looking at the next. */
static void complete(struct engine_stream *s)
{
	struct engine *e = engine_of(s);

	s->place = PLACE_NONE;
	pop(s);
	if (e->hooks.completed && !s->context->freed)
		e->hooks.completed(e->arg, s->user, s->completed);
	wake(&s->waiters, s->completed);
	poke(s);
}

static uint64_t ns_of(double ns)
{
	return ns < 1e18 ? (uint64_t)ns : ENGINE_NEVER;
}

static void copy_begin(struct gpu *g, uint32_t kind)
{
	struct copy_engine *c = &g->copies[kind];
	uint64_t mbps = kind == SIM_DEVICE_ON_GPU ? g->config.local_mbps : g->config.host_mbps;
	uint64_t bytes;

	if (list_empty(&c->queue))
		return;
	bytes = head_of(OWNER(struct engine_stream, in_place, c->queue.next))->amount;
	c->end_ns = add_sat(g->engine->now_ns,
		add_sat(COPY_START_NS, ns_of((double)bytes * 1000 / (double)mbps)));
}

/* Takes the stream out of wherever its first command is. */
static void withdraw(struct engine_stream *s)
{
	struct engine_context *c = s->context;

	if (s->place == PLACE_COPY) {
		uint32_t kind = head_of(s)->object;
		bool first = c->gpu->copies[kind].queue.next == &s->in_place;

		link_out(&s->in_place);
		if (first)
			copy_begin(c->gpu, kind);
	}
	if (s->place == PLACE_RUNNING) {
		c->group->used -= s->width;
		c->used -= s->width;
		if (--c->running == 0)
			c->busy_ns += c->group->ran_ns - c->busy_from_ns;
	}
	link_out(&s->in_place);
	s->place = PLACE_NONE;
}

static void stream_destroy(struct engine_stream *s)
{
	withdraw(s);
	link_out(&s->in_pokes);
	link_out(&s->in_context);
	while (head_of(s)) {
		const struct engine_command *c = head_of(s);

		if (c->kind == SIM_DEVICE_RECORD)
			event_complete(c->event, c->amount);
		pop(s);
	}
	s->gone = true;
	wake(&s->waiters, UINT64_MAX);
	free(s->queue);
	stream_put(s);
}

static void drop_commands(struct engine_stream *s)
{
	struct engine *e = engine_of(s);
	bool any = head_of(s) != NULL;

	withdraw(s);
	while (head_of(s)) {
		const struct engine_command *c = head_of(s);

		if (c->kind == SIM_DEVICE_RECORD)
			event_complete(c->event, c->amount);
		pop(s);
	}
	if (any && e->hooks.completed)
		e->hooks.completed(e->arg, s->user, s->completed);
	wake(&s->waiters, s->completed);
	poke(s);
}

static void context_fail(struct engine_context *c, uint32_t code)
{
	struct engine *e = c->gpu->engine;

	if (c->error)
		return;
	c->error = code;
	if (e->hooks.failed && !c->freed)
		e->hooks.failed(e->arg, c->user, code);
	for (struct link *l = c->streams.next; l != &c->streams; l = l->next)
		drop_commands(OWNER(struct engine_stream, in_context, l));
}

uint64_t engine_context_busy_ns(const struct engine_context *c)
{
	return c->busy_ns + (c->running ? c->group->ran_ns - c->busy_from_ns : 0);
}

/* The compute engine. */

static bool has_work(const struct group *q)
{
	return !list_empty(&q->ready) || !list_empty(&q->running);
}

static struct group *next_busy(const struct gpu *g, const struct group *after)
{
	const struct link *start = after ? &after->in_round : &g->round;

	for (struct link *l = start->next; l != start; l = l->next) {
		struct group *q;

		if (l == &g->round)
			continue;
		q = OWNER(struct group, in_round, l);
		if (has_work(q))
			return q;
	}
	return NULL;
}

static void insert_running(struct group *q, struct engine_stream *s)
{
	struct link *at = q->running.prev;

	while (at != &q->running &&
		OWNER(struct engine_stream, in_place, at)->end_ns > s->end_ns)
		at = at->prev;
	link_before(at->next, &s->in_place);
}

static void start_kernel(struct group *q, struct engine_stream *s, uint32_t width)
{
	struct engine_context *c = s->context;
	const struct engine_command *k = head_of(s);
	uint32_t asked = k->width ? k->width : q->gpu->config.width;
	uint64_t ns = k->amount;

	if (asked > q->gpu->config.width)
		asked = q->gpu->config.width;
	/* On fewer multiprocessors than it could fill it takes longer. */
	if (ns != ENGINE_NEVER && asked > width)
		ns = ns_of((double)ns * asked / width);
	link_out(&s->in_place);
	s->place = PLACE_RUNNING;
	s->width = width;
	s->end_ns = add_sat(q->ran_ns, ns);
	q->used += width;
	c->used += width;
	if (c->running++ == 0)
		c->busy_from_ns = q->ran_ns;
	insert_running(q, s);
}

/* Starts what fits, in the order of the queue. */
static void fill(struct group *q)
{
	uint32_t all = q->gpu->config.width;

	for (struct link *l = q->ready.next, *next; l != &q->ready; l = next) {
		struct engine_stream *s = OWNER(struct engine_stream, in_place, l);
		const struct engine_command *k = head_of(s);
		uint32_t share = s->context->share < all ? s->context->share : all;
		uint32_t width = k->width && k->width < share ? k->width : share;

		next = l->next;
		if (share < all && s->context->used && s->context->used + width > share)
			continue;
		if (q->used && q->used + width > all)
			return;
		start_kernel(q, s, width);
	}
}

static void give_engine(struct gpu *g, struct group *q)
{
	uint64_t now = g->engine->now_ns;

	g->current = q;
	if (!q)
		return;
	/* The very first user finds it empty; one after a context that has gone pays. */
	if (q == g->resident || !g->was_used || !g->config.switch_ns) {
		g->resident = q;
		g->was_used = true;
		g->switching = false;
		g->slice_end_ns = add_sat(now, g->config.slice_ns);
		return;
	}
	g->switching = true;
	g->switch_end_ns = add_sat(now, g->config.switch_ns);
}

/* Settles who has the compute engine and what runs on it, at this moment. */
static void schedule(struct gpu *g)
{
	uint64_t now = g->engine->now_ns;

	if (g->switching) {
		if (now < g->switch_end_ns)
			return;
		g->switching = false;
		g->resident = g->current;
		g->was_used = true;
		g->slice_end_ns = add_sat(now, g->config.slice_ns);
		g->counters.switches++;
	}
	if (!g->current || !has_work(g->current))
		give_engine(g, next_busy(g, g->current));
	else if (now >= g->slice_end_ns) {
		struct group *next = next_busy(g, g->current);

		if (next)
			give_engine(g, next);
		else
			g->slice_end_ns = add_sat(now, g->config.slice_ns);
	}
	if (g->current && !g->switching)
		fill(g->current);
}

static uint64_t gpu_next(const struct gpu *g)
{
	const struct group *q = g->current;
	uint64_t next = ENGINE_NEVER;

	if (!q)
		return next;
	if (g->switching)
		return g->switch_end_ns;
	if (!list_empty(&q->running)) {
		const struct engine_stream *s =
			OWNER(const struct engine_stream, in_place, q->running.next);

		if (s->end_ns != ENGINE_NEVER)
			next = add_sat(g->engine->now_ns, s->end_ns - q->ran_ns);
	}
	if (g->slice_end_ns < next && next_busy(g, q))
		next = g->slice_end_ns;
	return next;
}

/* Time passes on the compute engine. */
static void gpu_pass(struct gpu *g, uint64_t ns)
{
	struct group *q = g->current;

	if (!q)
		return;
	if (g->switching) {
		g->counters.switch_ns += ns;
	} else {
		q->ran_ns += ns;
		if (!list_empty(&q->running))
			g->counters.busy_ns += ns;
	}
}

/* Kernels that have ended by now. */
static void gpu_finish(struct gpu *g)
{
	struct group *q = g->current;

	while (q && !g->switching && !list_empty(&q->running)) {
		struct engine_stream *s =
			OWNER(struct engine_stream, in_place, q->running.next);
		uint32_t fail;

		if (s->end_ns > q->ran_ns || s->end_ns == ENGINE_NEVER)
			return;
		fail = head_of(s)->fail;
		if (fail) {
			context_fail(s->context, fail);
			continue;
		}
		withdraw(s);
		complete(s);
	}
}

/* The copy engines. */

static void copies_finish(struct gpu *g)
{
	for (uint32_t k = 0; k < SIM_DEVICE_COPIES; k++) {
		struct copy_engine *c = &g->copies[k];

		while (!list_empty(&c->queue) && c->end_ns <= g->engine->now_ns) {
			struct engine_stream *s =
				OWNER(struct engine_stream, in_place, c->queue.next);

			withdraw(s); /* and the next begins */
			complete(s);
		}
	}
}

/* Streams. */

static void ready_insert(struct group *q, struct engine_stream *s)
{
	struct link *at = q->ready.prev;

	while (at != &q->ready &&
		OWNER(struct engine_stream, in_place, at)->priority < s->priority)
		at = at->prev;
	link_before(at->next, &s->in_place);
	s->place = PLACE_READY;
}

static void delay_insert(struct engine *e, struct engine_stream *s)
{
	struct link *at = e->delays.prev;

	while (at != &e->delays &&
		OWNER(struct engine_stream, in_place, at)->end_ns > s->end_ns)
		at = at->prev;
	link_before(at->next, &s->in_place);
	s->place = PLACE_DELAY;
}

/* Joins a copy engine's queue, and has it begin if it is the first. */
static void copy_insert(struct gpu *g, uint32_t kind, struct engine_stream *s)
{
	bool first = list_empty(&g->copies[kind].queue);

	link_before(&g->copies[kind].queue, &s->in_place);
	s->place = PLACE_COPY;
	if (first)
		copy_begin(g, kind);
}

/* True: the wait is over already. */
static bool wait_on(struct engine_stream *s, struct link *waiters, uint64_t have, uint64_t want)
{
	if (have >= want)
		return true;
	s->wait_for = want;
	s->place = PLACE_WAIT;
	link_before(waiters, &s->in_place);
	return false;
}

/* The first command gets where it belongs, or is done at once: then true. */
static bool begin(struct engine_stream *s, struct engine_command *c)
{
	struct engine *e = engine_of(s);

	switch (c->kind) {
	case SIM_DEVICE_KERNEL:
		ready_insert(s->context->group, s);
		return false;
	case SIM_DEVICE_COPY:
		copy_insert(s->context->gpu, c->object, s);
		return false;
	case SIM_DEVICE_RECORD:
		event_complete(c->event, c->amount);
		return true;
	case SIM_DEVICE_WAIT_EVENT:
		return wait_on(s, &c->event->waiters, c->event->completed, c->amount);
	case SIM_DEVICE_WAIT_STREAM:
		return c->stream->gone ||
		       wait_on(s, &c->stream->waiters, c->stream->completed, c->amount);
	case SIM_DEVICE_HOST:
		s->place = PLACE_HOST;
		if (e->hooks.host)
			e->hooks.host(e->arg, s->user, s->completed + 1);
		return false;
	default: /* SIM_DEVICE_DELAY */
		s->end_ns = add_sat(e->now_ns, c->amount);
		delay_insert(e, s);
		return false;
	}
}

/* Looks at the first commands of all streams that moved, until nothing moves any more. */
static void settle(struct engine *e)
{
	while (!list_empty(&e->pokes)) {
		struct engine_stream *s = OWNER(struct engine_stream, in_pokes, e->pokes.next);
		struct engine_command *c;

		link_out(&s->in_pokes);
		c = head_of(s);
		if (c && s->place == PLACE_NONE && begin(s, c))
			complete(s);
		else if (!c && s->dying) {
			if (e->hooks.drained && !s->context->freed)
				e->hooks.drained(e->arg, s->user);
			stream_destroy(s);
		}
	}
}

static void settle_all(struct engine *e)
{
	settle(e);
	for (uint32_t i = 0; i < e->used; i++)
		schedule(&e->gpus[i]);
}

void engine_advance(struct engine *e, uint64_t now_ns)
{
	for (;;) {
		uint64_t next = engine_next(e), ns;

		if (next > now_ns)
			next = now_ns;
		if (next < e->now_ns)
			next = e->now_ns;
		ns = next - e->now_ns;
		e->now_ns = next;
		for (uint32_t i = 0; i < e->used; i++)
			gpu_pass(&e->gpus[i], ns);
		for (uint32_t i = 0; i < e->used; i++) {
			gpu_finish(&e->gpus[i]);
			copies_finish(&e->gpus[i]);
		}
		while (!list_empty(&e->delays)) {
			struct engine_stream *s =
				OWNER(struct engine_stream, in_place, e->delays.next);

			if (s->end_ns > e->now_ns)
				break;
			withdraw(s);
			complete(s);
		}
		settle_all(e);
		if (e->now_ns >= now_ns && engine_next(e) > now_ns)
			return;
	}
}

uint64_t engine_next(const struct engine *e)
{
	uint64_t next = ENGINE_NEVER, t;

	for (uint32_t i = 0; i < e->used; i++) {
		t = gpu_next(&e->gpus[i]);
		next = t < next ? t : next;
		for (int k = 0; k < SIM_DEVICE_COPIES; k++)
			if (!list_empty(&e->gpus[i].copies[k].queue) &&
				e->gpus[i].copies[k].end_ns < next)
				next = e->gpus[i].copies[k].end_ns;
	}
	if (!list_empty(&e->delays)) {
		t = OWNER(const struct engine_stream, in_place, e->delays.next)->end_ns;
		next = t < next ? t : next;
	}
	return next;
}

/* Room for one command more. */
static bool queue_grow(struct engine_stream *s)
{
	uint64_t used = s->submitted - s->completed;
	uint32_t room = s->room ? s->room * 2 : QUEUE_FIRST;
	struct engine_command *q;

	if (used < s->room)
		return true;
	if (used >= SIM_DEVICE_QUEUE_MAX)
		return false;
	q = calloc(room, sizeof(*q));
	if (!q)
		return false;
	for (uint64_t i = 0; s->room && i < used; i++)
		q[i] = s->queue[(s->first + i) % s->room];
	free(s->queue);
	s->queue = q;
	s->room = room;
	s->first = 0;
	return true;
}

bool engine_submit(struct engine_stream *s, const struct engine_command *command,
	uint64_t now_ns)
{
	struct engine *e = engine_of(s);
	struct engine_command *c;

	engine_advance(e, now_ns);
	if (!queue_grow(s))
		return false;
	c = &s->queue[(s->first + (s->submitted - s->completed)) % s->room];
	*c = *command;
	if (c->event) {
		struct engine_event *v = c->event;

		v->refs++;
		if (c->kind == SIM_DEVICE_RECORD) {
			c->amount = c->amount ? c->amount : v->recorded + 1;
			if (c->amount > v->recorded)
				v->recorded = c->amount;
		} else if (c->amount == 0) {
			c->amount = v->recorded;
		}
	}
	if (c->stream)
		c->stream->refs++;
	s->submitted++;
	if (s->context->error)
		drop_commands(s);
	else
		poke(s);
	settle_all(e);
	return true;
}

bool engine_host_done(struct engine_stream *s, uint64_t seq, uint64_t now_ns)
{
	struct engine *e = engine_of(s);

	engine_advance(e, now_ns);
	if (s->place != PLACE_HOST || s->completed + 1 != seq)
		return false;
	complete(s);
	settle_all(e);
	return true;
}

void engine_stream_free(struct engine_stream *s)
{
	struct engine *e = engine_of(s);

	s->dying = true;
	poke(s);
	settle_all(e);
}

void engine_context_fail(struct engine_context *c, uint32_t code)
{
	struct engine *e = c->gpu->engine;

	context_fail(c, code);
	settle_all(e);
}

static void context_destroy(struct engine_context *c)
{
	c->freed = true;
	while (!list_empty(&c->streams))
		stream_destroy(OWNER(struct engine_stream, in_context, c->streams.next));
	if (--c->group->contexts == 0)
		group_free(c->group);
	free(c);
}

void engine_context_free(struct engine_context *c)
{
	struct engine *e = c->gpu->engine;

	context_destroy(c);
	settle_all(e);
}

struct engine_counters engine_gpu_counters(const struct engine *e, uint32_t gpu)
{
	return e->gpus[gpu].counters;
}

struct engine *engine_free(struct engine *e)
{
	/* Contexts are owned by who made them: only the frame goes. */
	free(e);
	return NULL;
}
