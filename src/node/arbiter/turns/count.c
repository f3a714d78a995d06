/* SPDX-License-Identifier: Apache-2.0 */

/* Charges and counters: from turns and pages to the accounts. */
#include "node/arbiter/turns/internal.h"

static uint64_t get(const _Atomic uint64_t *at)
{
	return atomic_load_explicit(at, memory_order_acquire);
}

void turn_counters(const struct turn_gpu_page *p, uint64_t ret[TALLY_COUNTERS])
{
	/* A copy counts .copies before .ended: read the other way round, none is taken for a launch. */
	uint64_t ended = get(&p->ended), copies = get(&p->copies);

	ret[TALLY_LAUNCHES] = ended > copies ? ended - copies : 0;
	ret[TALLY_COPIES] = copies;
	ret[TALLY_BYTES] = get(&p->bytes);
	ret[TALLY_WAITS] = get(&p->waits);
	ret[TALLY_WAIT_NS] = get(&p->wait_ns);
	ret[TALLY_METER_NS] = get(&p->meter_ns);
}

void turn_count_seat(struct turn_seat *seat)
{
	struct turn_gpu_page *p = &seat->conn->page->gpus[seat->gpu];
	uint64_t now[TALLY_COUNTERS];

	if (!seat->seat || !seat->record)
		return;
	turn_counters(p, now);
	tally_count(seat->record, now);
	tally_raise(&seat->record->charged_ns, seat->charged_ns + seat->seat->charged_ns);
	atomic_store_explicit(&p->charged_ns, tally_get(&seat->record->charged_ns),
		memory_order_relaxed);
}

void turn_look_at_seat(struct turn_seat *seat, uint64_t now)
{
	struct turn_share *g = &seat->conn->slice->gpus[seat->gpu];
	uint64_t done = get(&seat->conn->page->gpus[seat->gpu].done);
	bool closed = (seat->gate & TURN_STATE) == TURN_CLOSED, stuck;

	if (!seat->seat || !seat->seat->busy || done != seat->done)
		seat->still_ns = 0;
	else if (!seat->still_ns && closed)
		seat->still_ns = now;
	seat->done = done;
	stuck = seat->still_ns && now - seat->still_ns >= TURNS_STUCK_NS;
	g->n_stuck = g->n_stuck - seat->stuck + stuck;
	seat->stuck = stuck;
}

/* Whose work it is, as far as it can be told: of whom nothing has ended for longest. 0: no one's. */
static uint32_t longest_still(const struct turn_slice *s, unsigned int gpu)
{
	uint64_t since = UINT64_MAX;
	uint32_t pid = 0;

	for (const struct turn_conn *c = s->conns; c; c = c->next) {
		const struct turn_seat *seat = &c->seats[gpu];

		if (seat->still_ns && seat->still_ns < since) {
			since = seat->still_ns;
			pid = c->pid;
		}
	}
	return pid;
}

/* Once for each time. */
static void tell_stuck(struct turn_slice *s, unsigned int i, const char *gpu, uint64_t part_ns)
{
	struct turn_share *g = &s->gpus[i];
	bool stuck = part_ns >= TURN_STUCK_NS || g->n_stuck;

	if (stuck == g->stuck)
		return;
	g->stuck = stuck;
	if (stuck)
		log_warn("work on a GPU does not end, or its process is stopped",
			LOG_STR("slice", s->id), LOG_STR("gpu", gpu),
			LOG_UINT("pid", longest_still(s, i)));
	else
		log_info("work on a GPU that did not end is over", LOG_STR("slice", s->id),
			LOG_STR("gpu", gpu));
}

void turn_count_slice(struct turn *t, struct turn_slice *s, uint64_t now)
{
	for (unsigned int i = 0; s->turns && i < s->n_gpus; i++) {
		struct turn_share *g = &s->gpus[i];
		struct turns_account account;

		turns_account(t->turns, s->turns, g->number, now, &account);
		tally_raise(&g->account->charged_ns, g->charged_ns + account.charged_ns);
		tally_raise(&g->account->queue_ns, g->queue_ns + account.waited_ns);
		tally_raise(&g->account->turns, g->turns + account.turns);
		tally_raise(&g->account->revocations, g->revocations + account.revoked);
		tell_stuck(s, i, t->gpus[g->number].text, account.stuck_ns);
	}
}

/* ---- all of them, some registrations at a time -------------------------------------------------- */

static void at_slice(struct turn_count *c, struct turn_slice *s)
{
	while (s && !s->turns)
		s = s->next;
	c->slice = s;
	c->conn = s ? s->conns : NULL;
}

void turn_count_begin(struct turn *t, struct turn_count *c)
{
	uint64_t now = turn_now(t);

	turns_settle(t->turns, now);
	turn_settled(t, now);
	at_slice(c, t->slices);
}

static void count_conn(struct turn_conn *c, uint64_t now)
{
	for (unsigned int i = 0; i < c->n_gpus; i++) {
		turn_count_seat(&c->seats[i]);
		turn_look_at_seat(&c->seats[i], now);
	}
}

static void end_slice(struct turn *t, struct turn_count *c, uint64_t now)
{
	struct turn_slice *s = c->slice;

	turn_count_slice(t, s, now);
	/* Not where one leaves: that all do when the arbiter ends. */
	for (unsigned int i = 0; i < s->n_gpus; i++)
		turn_tell_cap(s, i);
	at_slice(c, s->next);
}

void turn_count_step(struct turn *t, struct turn_count *c)
{
	uint64_t now = turn_now(t);

	for (int i = 0; i < TURN_STEP && c->slice; i++) {
		if (c->conn) {
			count_conn(c->conn, now);
			c->conn = c->conn->next;
		}
		if (!c->conn)
			end_slice(t, c, now);
	}
}

void turn_count_skip_conn(struct turn *t, const struct turn_conn *c)
{
	if (t->count.conn == c)
		t->count.conn = c->next;
}

void turn_count_skip_slice(struct turn *t, const struct turn_slice *s)
{
	if (t->count.slice == s)
		at_slice(&t->count, s->next);
}
