/* SPDX-License-Identifier: Apache-2.0 */

/* Charges and counters: from the scheduler and the pages to the accounts. */
#include "node/arbiter/scheduler/internal.h"

static uint64_t load_page_counter(const _Atomic uint64_t *at)
{
	return atomic_load_explicit(at, memory_order_acquire);
}

void scheduler_read_counters(const struct turn_gpu_page *p, uint64_t ret[USAGE_COUNTERS])
{
	/*
	 * 1. A process counts a copy in .copies, then in .ended.
	 * 2. This thread loads .ended, then .copies. So the loaded .copies has each copy of the loaded .ended,
	 *    and no copy counts as a launch.
	 */
	uint64_t ended = load_page_counter(&p->ended), copies = load_page_counter(&p->copies);

	ret[USAGE_LAUNCHES] = ended > copies ? ended - copies : 0;
	ret[USAGE_COPIES] = copies;
	ret[USAGE_BYTES] = load_page_counter(&p->bytes);
	ret[USAGE_WAITS] = load_page_counter(&p->waits);
	ret[USAGE_WAIT_NS] = load_page_counter(&p->wait_ns);
	ret[USAGE_THROTTLE_NS] = load_page_counter(&p->meter_ns);
}

void scheduler_count_client(struct scheduler_client *client)
{
	struct turn_gpu_page *p = &client->registration->page->gpus[client->gpu];
	uint64_t now[USAGE_COUNTERS];

	if (!client->client || !client->record)
		return;
	scheduler_read_counters(p, now);
	usage_client_count(client->record, now);
	usage_raise(&client->record->charged_ns,
		client->charged_ns + client->client->charged_ns);
	atomic_store_explicit(&p->charged_ns, usage_load(&client->record->charged_ns),
		memory_order_relaxed);
}

void scheduler_check_stuck(struct scheduler_client *client, uint64_t now)
{
	struct scheduler_share *g = &client->registration->slice->gpus[client->gpu];
	uint64_t done = load_page_counter(&client->registration->page->gpus[client->gpu].done);
	bool closed = (client->gate & TURN_STATE) == TURN_CLOSED, stuck;

	if (!client->client || !client->client->busy || done != client->done)
		client->stalled_since = 0;
	else if (!client->stalled_since && closed)
		client->stalled_since = now;
	client->done = done;
	stuck = client->stalled_since && now - client->stalled_since >= SCHED_STUCK_NS;
	g->n_stuck = g->n_stuck - client->stuck + stuck;
	client->stuck = stuck;
}

/* The best guess whose work does not end: the process that has made no progress for the longest time. Returns
 * its PID, or 0 without such a process. */
static uint32_t find_longest_stalled(const struct scheduler_slice *s, unsigned int gpu)
{
	uint64_t since = UINT64_MAX;
	uint32_t pid = 0;

	for (const struct scheduler_registration *c = s->registrations; c; c = c->next) {
		const struct scheduler_client *client = &c->clients[gpu];

		if (client->stalled_since && client->stalled_since < since) {
			since = client->stalled_since;
			pid = c->pid;
		}
	}
	return pid;
}

/* Logs each change once. */
static void log_stuck(struct scheduler_slice *s, unsigned int i, const char *gpu,
	uint64_t part_ns)
{
	struct scheduler_share *g = &s->gpus[i];
	bool stuck = part_ns >= SCHEDULER_STUCK_NS || g->n_stuck;

	if (stuck == g->stuck)
		return;
	g->stuck = stuck;
	if (stuck)
		log_warn("work on a GPU does not end, or its process is stopped",
			LOG_STR("slice", s->id), LOG_STR("gpu", gpu),
			LOG_UINT("pid", find_longest_stalled(s, i)));
	else
		log_info("work on a GPU that did not end is over", LOG_STR("slice", s->id),
			LOG_STR("gpu", gpu));
}

void scheduler_count_slice(struct scheduler *t, struct scheduler_slice *s, uint64_t now)
{
	for (unsigned int i = 0; s->sched && i < s->n_gpus; i++) {
		struct scheduler_share *g = &s->gpus[i];
		struct sched_account account;

		sched_account(t->sched, s->sched, g->number, now, &account);
		usage_raise(&g->account->charged_ns, g->charged_ns + account.charged_ns);
		usage_raise(&g->account->queue_ns, g->queue_ns + account.waited_ns);
		usage_raise(&g->account->quanta, g->quanta + account.quanta);
		usage_raise(&g->account->revocations, g->revocations + account.revoked);
		for (unsigned int k = 0; k < SCHED_ENDS; k++)
			usage_raise(&g->account->quantum_ends[k],
				g->quantum_ends[k] + account.quantum_ends[k]);
		log_stuck(s, i, t->gpus[g->number].text, account.stuck_ns);
	}
}

/* ---- all accounts, some registrations at a time ----------------------------------------------- */

static void move_count_to_slice(struct scheduler_count *c, struct scheduler_slice *s)
{
	while (s && !s->sched)
		s = s->next;
	c->slice = s;
	c->registration = s ? s->registrations : NULL;
}

void scheduler_count_begin(struct scheduler *t, struct scheduler_count *c)
{
	uint64_t now = scheduler_now(t);

	sched_update_charges(t->sched, now);
	scheduler_settle(t, now);
	move_count_to_slice(c, t->slices);
}

static void count_registration(struct scheduler_registration *c, uint64_t now)
{
	for (unsigned int i = 0; i < c->n_gpus; i++) {
		scheduler_count_client(&c->clients[i]);
		scheduler_check_stuck(&c->clients[i], now);
	}
}

static void end_slice_count(struct scheduler *t, struct scheduler_count *c, uint64_t now)
{
	struct scheduler_slice *s = c->slice;

	scheduler_count_slice(t, s, now);
	/* Here and not when a process leaves: all processes leave when the arbiter ends. */
	for (unsigned int i = 0; i < s->n_gpus; i++)
		scheduler_set_process_caps(s, i);
	move_count_to_slice(c, s->next);
}

void scheduler_count_step(struct scheduler *t, struct scheduler_count *c)
{
	uint64_t now = scheduler_now(t);

	for (int i = 0; i < SCHEDULER_STEP && c->slice; i++) {
		if (c->registration) {
			count_registration(c->registration, now);
			c->registration = c->registration->next;
		}
		if (!c->registration)
			end_slice_count(t, c, now);
	}
}

void scheduler_count_skip_process(struct scheduler *t, const struct scheduler_registration *c)
{
	if (t->count.registration == c)
		t->count.registration = c->next;
}

void scheduler_count_skip_slice(struct scheduler *t, const struct scheduler_slice *s)
{
	if (t->count.slice == s)
		move_count_to_slice(&t->count, s->next);
}
