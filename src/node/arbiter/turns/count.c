/* SPDX-License-Identifier: Apache-2.0 */

/* Charges and counters: from turns and pages to the accounts. */
#include "node/arbiter/turns/turn.h"

#include "node/arbiter/process/proc.h"
#include "lib/base/time.h"

#include <string.h>

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
	struct turn_share *g = &seat->conn->conn->slice->turn->gpus[seat->gpu];
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
			pid = c->conn->pid;
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
			LOG_STR("slice", s->slice->id), LOG_STR("gpu", gpu),
			LOG_UINT("pid", longest_still(s, i)));
	else
		log_info("work on a GPU that did not end is over",
			LOG_STR("slice", s->slice->id), LOG_STR("gpu", gpu));
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

void turn_count_all(struct arbiter *a)
{
	struct turn *t = a->turn;
	uint64_t now = time_mono_ns();

	turns_settle(t->turns, now);
	turn_settled(t, now);
	for (struct slice *s = a->slices; s; s = s->next) {
		if (!turn_slice_on(s))
			continue;
		turn_count_slice(t, s->turn, now);
		/* Not where one leaves: that all do when the arbiter ends. */
		for (unsigned int i = 0; i < s->turn->n_gpus; i++)
			turn_tell_cap(s->turn, i);
		for (struct turn_conn *c = s->turn->conns; c; c = c->next) {
			for (unsigned int i = 0; i < c->n_gpus; i++) {
				turn_count_seat(&c->seats[i]);
				turn_look_at_seat(&c->seats[i], now);
			}
			turn_breathe(a);
			/* Its time may be later than ours, and time does not go back. */
			now = t->served_ns > now ? t->served_ns : now;
		}
	}
	t->counted_ns = now;
}

/* ---- records of those who are gone ------------------------------------------------------------ */

/* A process, and whether it is there: its records mostly lie side by side. */
struct looked {
	uint32_t pid;
	uint64_t start;
	bool there;
};

static bool is_there(const struct arbiter *a, const struct tally_seat *record,
	struct looked *last)
{
	struct proc_stat st;

	if (last->pid == record->pid && last->start == record->start)
		return last->there;
	*last = (struct looked){ .pid = record->pid, .start = record->start };
	last->there = proc_stat(a->o.procfs, record->pid, &st) && st.start == record->start;
	return last->there;
}

static bool has_account(const struct turn_slice *s, const struct tally_account *account)
{
	for (unsigned int i = 0; i < s->n_gpus; i++) {
		if (s->gpus[i].account == account)
			return true;
	}
	return false;
}

/* By number, as each look may end any of them. @of: NULL is all slices. */
static void sweep_seats(struct arbiter *a, const struct turn_slice *of)
{
	struct tally *t = &a->turn->tally;
	struct looked last = { .pid = 0 };

	for (uint32_t i = 0; i < tally_seats_touched(t); i++) {
		struct tally_seat *record = &t->seats[i];

		turn_breathe(a);
		if (atomic_load(&record->state) != TALLY_USED || tally_seat_held(t, record) ||
			(of && !has_account(of, &t->accounts[record->account])))
			continue;
		if (!is_there(a, record, &last))
			tally_seat_end(t, record);
	}
}

void turn_sweep_slice(struct turn_slice *s)
{
	struct arbiter *a = s->slice->arbiter;
	uint64_t now = time_mono_ns();

	/* Who is refused asks again and again. */
	if (now - a->turn->swept_ns < TURN_SWEEP_NS)
		return;
	a->turn->swept_ns = now;
	sweep_seats(a, s);
}

void turn_sweep(struct arbiter *a)
{
	struct tally *t = &a->turn->tally;

	for (uint32_t i = 0; i < tally_accounts_touched(t); i++) {
		struct tally_account *account = &t->accounts[i];

		turn_breathe(a);
		if (atomic_load(&account->state) == TALLY_USED &&
			!slices_find(a, account->slice))
			tally_account_drop(t, account);
	}
	sweep_seats(a, NULL);
}
