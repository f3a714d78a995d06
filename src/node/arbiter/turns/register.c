/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A process registers for turns, or comes again with the page that it has. On each GPU of its slice it gets a
 * record in the accounts and a seat, or it is told why not; then nothing is left of the attempt.
 */
#include "node/arbiter/turns/turn.h"

#include "node/arbiter/process/proc.h"
#include "lib/base/fd.h"
#include "lib/base/time.h"

#include <string.h>
#include <sys/mman.h>

/* Why a process has no turns. */
struct refusal {
	enum slice_status status; /* SLICE_OK: it has */
	const char *reason;
};

static struct refusal refused(const char *reason)
{
	return (struct refusal){ .status = SLICE_REFUSED, .reason = reason };
}

/* For this one there is no room, as the status is to say too. */
static struct refusal crowded(struct turn_slice *ts, const char *reason)
{
	ts->crowded_ns = time_mono_ns();
	return (struct refusal){ .status = SLICE_TOO_MANY, .reason = reason };
}

static struct refusal refused_page(struct turn_slice *ts, int trouble)
{
	return trouble == PAGE_TOO_MANY ? crowded(ts, page_trouble_text(trouble))
					: refused(page_trouble_text(trouble));
}

/* ---- records ---------------------------------------------------------------------------------- */

/* Of the page those that are there. */
static struct refusal find_records(struct turn_conn *tc)
{
	struct conn *c = tc->conn;
	struct tally *tally = &c->arbiter->turn->tally;

	for (unsigned int i = 0; i < tc->n_gpus; i++) {
		struct tally_seat *r = tally_seat_find(tally, c->slice->turn->gpus[i].account,
			tc->page->serial, i);

		if (r && (r->pid != c->pid || r->start != c->start))
			return refused("the page is another process's");
		if (r && tally_seat_held(tally, r))
			return refused("the page is in use");
		tc->seats[i].record = r;
	}
	return (struct refusal){ .status = SLICE_OK };
}

/* And those that are not. A page that comes again counts from now on: what it says was counted before, or by an
 * arbiter whose file is lost. False: there is no room, and nothing was changed. */
static bool make_records(struct turn_conn *tc)
{
	struct conn *c = tc->conn;
	struct tally *tally = &c->arbiter->turn->tally;
	bool made[SLICE_GPUS_MAX] = { false };
	unsigned int n = 0;

	for (; n < tc->n_gpus; n++) {
		struct turn_seat *seat = &tc->seats[n];
		uint64_t now[TALLY_COUNTERS];

		if (seat->record)
			continue;
		turn_counters(&tc->page->gpus[n], now);
		seat->record = tally_seat_new(tally, c->slice->turn->gpus[n].account,
			tc->page->serial, n, c->pid, c->start, now);
		if (!seat->record)
			break;
		made[n] = true;
	}
	for (unsigned int i = 0; n < tc->n_gpus && i < n; i++) {
		if (made[i])
			tally_seat_end(tally, tc->seats[i].record);
	}
	return n == tc->n_gpus;
}

static struct refusal take_records(struct turn_conn *tc)
{
	struct turn_slice *ts = tc->conn->slice->turn;
	struct refusal r = find_records(tc);
	bool good = r.status == SLICE_OK && make_records(tc);

	if (r.status == SLICE_OK && !good) {
		/* Those who just went may have left theirs; which changes what was found. */
		turn_sweep_slice(ts);
		r = find_records(tc);
		good = r.status == SLICE_OK && make_records(tc);
		if (r.status == SLICE_OK && !good)
			r = crowded(ts, "too many processes have taken turns, of this slice "
					"or on this node");
	}
	for (unsigned int i = 0; i < tc->n_gpus; i++) {
		struct turn_seat *seat = &tc->seats[i];

		if (good)
			seat->charged_ns = tally_get(&seat->record->charged_ns);
		else
			seat->record = NULL;
	}
	return r;
}

/* ---- seats ------------------------------------------------------------------------------------ */

static bool take_seats(struct turn_conn *tc, bool again, uint64_t now)
{
	struct turn *t = tc->conn->arbiter->turn;
	struct turn_slice *ts = tc->conn->slice->turn;

	for (unsigned int i = 0; i < tc->n_gpus; i++) {
		struct turn_seat *seat = &tc->seats[i];
		struct turn_gpu_page *p = &tc->page->gpus[i];

		seat->conn = tc;
		seat->gpu = i;
		/* A new one has nothing in flight, and is to say so when it begins. */
		if (!again)
			atomic_store(&p->gate, TURN_BELL | TURN_CLOSED);
		seat->gate = atomic_load(&p->gate) & ~TURN_BELL;
		seat->seat = turns_seat_new(t->turns, ts->turns, ts->gpus[i].number, seat, now);
		if (!seat->seat)
			return false;
		tally_seat_hold(&t->tally, seat->record);
		turn_set_gate(seat, seat->seat->gate, &seat->seat->meter);
	}
	return true;
}

/* Takes back what was done for it. */
static void give_up(struct turn_conn *tc, uint64_t now)
{
	struct turn *t = tc->conn->arbiter->turn;

	for (unsigned int i = 0; i < tc->n_gpus; i++) {
		struct turn_seat *seat = &tc->seats[i];

		if (seat->seat)
			turns_seat_drop(t->turns, seat->seat, now);
		if (seat->record)
			tally_seat_release(&t->tally, seat->record);
	}
	turn_settled(t, now);
	(void)munmap(tc->page, TURN_PAGE_BYTES);
	free(tc);
}

static void link_conn(struct turn_conn *tc)
{
	struct turn_slice *ts = tc->conn->slice->turn;
	struct turn *t = tc->conn->arbiter->turn;

	tc->next = ts->conns;
	if (ts->conns)
		ts->conns->prev = tc;
	ts->conns = tc;
	tc->next_of_pid = turn_conns_of(ts, tc->conn->pid);
	ts->by_pid[tc->conn->pid % TURN_PIDS] = tc;
	ts->n_conns++;
	if (t->n_conns++ == 0)
		turn_count_start(t);
	tc->conn->turn = tc;
	for (unsigned int i = 0; i < tc->n_gpus; i++)
		turn_tell_cap(ts, i);
}

/* Where it is refused @page is unmapped. */
static struct refusal attach(struct conn *c, const struct slice_hello *h,
	struct turn_page *page, ino_t ino, bool again)
{
	struct turn *t = c->arbiter->turn;
	struct turn_conn *tc = calloc(1, sizeof(*tc));
	struct refusal r;
	uint64_t now;

	if (!tc) {
		(void)munmap(page, TURN_PAGE_BYTES);
		return refused("no memory");
	}
	tc->conn = c;
	tc->page = page;
	tc->page_ino = ino;
	tc->n_gpus = c->slice->turn->n_gpus;
	tc->packets = (struct turn_source){ .kind = TURN_PACKETS, .conn = tc };
	tc->death = (struct turn_source){ .kind = TURN_DEATH, .conn = tc };
	tc->ns_pid = h->pid;
	memcpy(tc->name, h->name, sizeof(tc->name));
	proc_printable(tc->name);
	r = take_records(tc);
	/* Others may have been served meanwhile, and time does not go back. */
	now = time_mono_ns();
	if (r.status == SLICE_OK && (turn_watch(t, c->watch->fd, &tc->packets) < 0 ||
					    turn_watch(t, c->pidfd, &tc->death) < 0 ||
					    !take_seats(tc, again, now))) {
		turn_unwatch(t, c->watch->fd);
		turn_unwatch(t, c->pidfd);
		r = refused("no memory");
	}
	if (r.status != SLICE_OK) {
		give_up(tc, now);
		return r;
	}
	link_conn(tc);
	watch_pause(c->watch, true);
	turn_settled(t, now);
	return r;
}

/* ---- hello ------------------------------------------------------------------------------------ */

static void hello_new(struct conn *c, const struct slice_hello *h)
{
	CLEANUP(closep) int fd = -1;
	struct turn_page *page = NULL;
	struct refusal r;
	ino_t ino = 0;

	fd = turn_page_new(&(struct page_who){ c->arbiter, c->slice, c->pid, c->start }, &page,
		&ino, journal_serial(&c->arbiter->journal), c->slice->turn->n_gpus);
	r = fd < 0 ? refused_page(c->slice->turn, fd) : attach(c, h, page, ino, false);
	(void)conn_welcome(c, h, r.status, r.reason, r.status == SLICE_OK ? fd : -1);
}

/* A connection of this slice that has the page: its process has given it up, or it is another's. */
static struct turn_conn *find_page(const struct slice *s, ino_t ino)
{
	struct turn_conn *tc = s->turn->conns;

	while (tc && tc->page_ino != ino)
		tc = tc->next;
	return tc;
}

static void hello_again(struct conn *c, const struct slice_hello *h, int fd)
{
	const struct page_who who = { c->arbiter, c->slice, c->pid, c->start };
	struct turn_page *page = NULL;
	ino_t ino = 0;
	int trouble = turn_page_accept(&who, fd, &page, &ino, c->slice->turn->n_gpus);
	const struct turn_conn *old = page ? find_page(c->slice, ino) : NULL;
	struct refusal r;

	if (!page) {
		r = refused_page(c->slice->turn, trouble);
	} else if (old && !turn_conn_is_of(old, c->pid, c->start)) {
		(void)munmap(page, TURN_PAGE_BYTES);
		r = refused("the page is another process's");
	} else {
		if (old)
			conn_close(old->conn);
		r = attach(c, h, page, ino, true);
	}
	(void)conn_welcome(c, h, r.status, r.reason, -1);
}

static unsigned int count_pid(const struct conn *c)
{
	unsigned int n = 0;

	for (const struct turn_conn *tc = turn_conns_of(c->slice->turn, c->pid); tc;
		tc = tc->next_of_pid)
		n += turn_conn_is_of(tc, c->pid, c->start);
	return n;
}

/* What a program had that this process has executed over: a child of it may have its connection open, so that
 * it never hangs up. */
static void end_execed(const struct conn *c)
{
	struct turn_conn *next;

	for (struct turn_conn *tc = turn_conns_of(c->slice->turn, c->pid); tc; tc = next) {
		const struct conn *o = tc->conn;

		next = tc->next_of_pid;
		if (turn_conn_is_of(tc, c->pid, c->start) && o->image && c->image &&
			o->image != c->image)
			conn_close(tc->conn);
	}
}

void turn_hello(struct conn *c, const struct slice_hello *h, int fd)
{
	const struct slice *s = c->slice;
	struct refusal r = { .status = SLICE_OK };

	mps_look_at_process(c);
	if (turn_slice_on(s)) {
		end_execed(c);
		if (s->turn->n_conns >= TURN_CONNS_SLICE)
			r = crowded(s->turn, "too many processes of this slice");
		else if (count_pid(c) >= TURN_CONNS_PID)
			r = crowded(s->turn, "too many registrations of this process");
	}
	if (!turn_slice_on(s))
		(void)conn_welcome(c, h, SLICE_REFUSED,
			s->turn && s->turn->error.code != ERR_NONE ? s->turn->error.msg
								   : "this slice has no turns",
			-1);
	else if (r.status != SLICE_OK)
		(void)conn_welcome(c, h, r.status, r.reason, -1);
	else if (h->flags & SLICE_HELLO_AGAIN)
		hello_again(c, h, fd);
	else
		hello_new(c, h);
}
