/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A process registers for turns, or comes again with the page that it has. On each GPU of its slice it gets a
 * record in the accounts and a seat, or the reason why not; then nothing is left of the attempt.
 */
#include "node/arbiter/turns/internal.h"

#include "node/arbiter/process/proc.h"
#include "lib/base/time.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static const struct turn_refusal admitted = { .status = SLICE_OK };

static struct turn_refusal refused(const char *reason)
{
	return (struct turn_refusal){ .status = SLICE_REFUSED, .reason = reason };
}

/* For this one there is no room, as the status is to say too. */
static struct turn_refusal crowded(struct turn_slice *s, const char *reason)
{
	s->crowded_ns = time_mono_ns();
	return (struct turn_refusal){ .status = SLICE_TOO_MANY, .reason = reason };
}

static bool crowded_step(struct turn *t, void *arg)
{
	(void)t;
	(void)crowded(arg, "");
	return true;
}

void turn_crowded(struct turn *t, struct turn_slice *s)
{
	turn_call(t, crowded_step, s);
}

/* ---- room ------------------------------------------------------------------------------------- */

static unsigned int count_pid(const struct turn_slice *s, uint32_t pid, uint64_t start)
{
	unsigned int n = 0;

	for (const struct turn_conn *c = turn_conns_of(s, pid); c; c = c->next_of_pid)
		n += !c->ended && turn_conn_is_of(c, pid, start);
	return n;
}

/* What a program had that this process has executed over: a child of it may have its connection open, so that
 * it never hangs up. */
static void end_execed(struct turn *t, const struct turn_slice *s,
	const struct turn_client *who)
{
	for (struct turn_conn *c = turn_conns_of(s, who->pid); c; c = c->next_of_pid) {
		if (turn_conn_is_of(c, who->pid, who->start) && c->image && who->image &&
			c->image != who->image)
			turn_conn_end(c, turn_now(t));
	}
}

struct join_call {
	struct turn_slice *slice;
	const struct turn_client *who;
	struct turn_conn *conn;
	struct turn_refusal refusal;
};

static bool room_step(struct turn *t, void *arg)
{
	struct join_call *j = arg;

	end_execed(t, j->slice, j->who);
	if (j->slice->n_conns >= TURN_CONNS_SLICE)
		j->refusal = crowded(j->slice, "too many processes of this slice");
	else if (count_pid(j->slice, j->who->pid, j->who->start) >= TURN_CONNS_PID)
		j->refusal = crowded(j->slice, "too many registrations of this process");
	return true;
}

struct turn_refusal turn_room(struct turn *t, struct turn_slice *s,
	const struct turn_client *who)
{
	struct join_call j = { .slice = s, .who = who, .refusal = admitted };

	turn_call(t, room_step, &j);
	return j.refusal;
}

/* ---- records ---------------------------------------------------------------------------------- */

/* Of the page those that are there. */
static struct turn_refusal find_records(struct turn_conn *c)
{
	struct tally *tally = &c->turn->tally;

	for (unsigned int i = 0; i < c->n_gpus; i++) {
		struct tally_seat *r =
			tally_seat_find(tally, c->slice->gpus[i].account, c->page->serial, i);

		if (r && (r->pid != c->pid || r->start != c->start))
			return refused("the page is another process's");
		if (r && tally_seat_held(tally, r))
			return refused("the page is in use");
		c->seats[i].record = r;
	}
	return admitted;
}

/* And those that are not. A page that comes again counts from now on: what it says was counted before, or by an
 * arbiter whose file is lost. False: there is no room, and nothing was changed. */
static bool make_records(struct turn_conn *c)
{
	struct tally *tally = &c->turn->tally;
	bool made[SLICE_GPUS_MAX] = { false };
	unsigned int n = 0;

	for (; n < c->n_gpus; n++) {
		struct turn_seat *seat = &c->seats[n];
		uint64_t now[TALLY_COUNTERS];

		if (seat->record)
			continue;
		turn_counters(&c->page->gpus[n], now);
		seat->record = tally_seat_new(tally, c->slice->gpus[n].account, c->page->serial,
			n, c->pid, c->start, now);
		if (!seat->record)
			break;
		made[n] = true;
	}
	for (unsigned int i = 0; n < c->n_gpus && i < n; i++) {
		if (made[i])
			tally_seat_end(tally, c->seats[i].record);
	}
	return n == c->n_gpus;
}

static struct turn_refusal take_records(struct turn_conn *c)
{
	struct turn_refusal r = find_records(c);

	if (r.status == SLICE_OK && !make_records(c))
		r = (struct turn_refusal){ .status = SLICE_TOO_MANY,
			.reason = "too many processes have taken turns, of this slice or on "
				  "this node",
			.records = true };
	for (unsigned int i = 0; i < c->n_gpus; i++) {
		struct turn_seat *seat = &c->seats[i];

		if (r.status == SLICE_OK)
			seat->charged_ns = tally_get(&seat->record->charged_ns);
		else
			seat->record = NULL;
	}
	return r;
}

/* ---- seats ------------------------------------------------------------------------------------ */

static bool take_seats(struct turn_conn *c, bool again, uint64_t now)
{
	struct turn *t = c->turn;

	for (unsigned int i = 0; i < c->n_gpus; i++) {
		struct turn_seat *seat = &c->seats[i];
		struct turn_gpu_page *p = &c->page->gpus[i];

		seat->conn = c;
		seat->gpu = i;
		/* A new one has nothing in flight, and is to say so when it begins. */
		if (!again)
			atomic_store(&p->gate, TURN_BELL | TURN_CLOSED);
		seat->gate = atomic_load(&p->gate) & ~TURN_BELL;
		seat->seat = turns_seat_new(t->turns, c->slice->turns, c->slice->gpus[i].number,
			seat, now);
		if (!seat->seat)
			return false;
		tally_seat_hold(&t->tally, seat->record);
		turn_set_gate(seat, seat->seat->gate, &seat->seat->meter);
	}
	return true;
}

/* Takes back what was done for it. */
static void give_up(struct turn_conn *c, uint64_t now)
{
	struct turn *t = c->turn;

	turn_unwatch(c->slice->epoll, c->fd);
	turn_unwatch(c->slice->epoll, c->pidfd);
	for (unsigned int i = 0; i < c->n_gpus; i++) {
		struct turn_seat *seat = &c->seats[i];

		if (seat->seat)
			turns_seat_drop(t->turns, seat->seat, now);
		if (seat->record)
			tally_seat_release(&t->tally, seat->record);
	}
	turn_settled(t, now);
	free(c);
}

static void link_conn(struct turn_conn *c)
{
	struct turn_slice *s = c->slice;
	struct turn *t = c->turn;

	c->number = ++t->numbers;
	c->next = s->conns;
	if (s->conns)
		s->conns->prev = c;
	s->conns = c;
	c->next_of_pid = turn_conns_of(s, c->pid);
	s->by_pid[c->pid % TURN_PIDS] = c;
	s->n_conns++;
	if (t->n_conns++ == 0)
		turn_count_start(t);
	for (unsigned int i = 0; i < c->n_gpus; i++) {
		turn_tell_cap_of(c, i);
		turn_tell_cap(s, i);
	}
}

static void unlink_conn(struct turn_conn *c)
{
	struct turn_slice *s = c->slice;
	struct turn_conn **at = &s->by_pid[c->pid % TURN_PIDS];

	while (*at != c)
		at = &(*at)->next_of_pid;
	*at = c->next_of_pid;
	if (c->prev)
		c->prev->next = c->next;
	else
		s->conns = c->next;
	if (c->next)
		c->next->prev = c->prev;
}

static struct turn_conn *conn_new(struct turn *t, struct turn_slice *s,
	const struct turn_client *who)
{
	struct turn_conn *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->turn = t;
	c->slice = s;
	c->user = who->conn;
	c->fd = who->fd;
	c->pidfd = who->pidfd;
	c->pid = who->pid;
	c->ns_pid = who->ns_pid;
	c->start = who->start;
	c->image = who->image;
	memcpy(c->name, who->name, sizeof(c->name));
	proc_printable(c->name);
	c->page = who->page;
	c->page_ino = who->page_ino;
	c->packets = (struct turn_source){ .kind = TURN_PACKETS, .of = c };
	c->death = (struct turn_source){ .kind = TURN_DEATH, .of = c };
	c->n_gpus = s->n_gpus;
	return c;
}

/* ---- join, leave ------------------------------------------------------------------------------ */

/* A registration of this slice that has the page: its process has given it up, or it is another's. */
static struct turn_conn *find_page(const struct turn_slice *s, ino_t ino)
{
	struct turn_conn *c = s->conns;

	while (c && (c->ended || c->page_ino != ino))
		c = c->next;
	return c;
}

static struct turn_refusal join(struct turn *t, struct join_call *j)
{
	struct turn_slice *s = j->slice;
	struct turn_conn *old = j->who->again ? find_page(s, j->who->page_ino) : NULL, *c;
	struct turn_refusal r;
	uint64_t now = turn_now(t);

	if (old && !turn_conn_is_of(old, j->who->pid, j->who->start))
		return refused("the page is another process's");
	if (old)
		turn_conn_end(old, now);
	c = conn_new(t, s, j->who);
	if (!c)
		return refused("no memory");
	r = take_records(c);
	if (r.status == SLICE_OK && (turn_watch(s->epoll, c->fd, &c->packets) < 0 ||
					    turn_watch(s->epoll, c->pidfd, &c->death) < 0 ||
					    !take_seats(c, j->who->again, now)))
		r = refused("no memory");
	if (r.status != SLICE_OK) {
		give_up(c, now);
		return r;
	}
	link_conn(c);
	turn_settled(t, now);
	j->conn = c;
	return r;
}

static bool join_step(struct turn *t, void *arg)
{
	struct join_call *j = arg;

	j->refusal = join(t, j);
	return true;
}

struct turn_refusal turn_join(struct turn *t, struct turn_slice *s,
	const struct turn_client *who, struct turn_conn **ret)
{
	struct join_call j = { .slice = s, .who = who };

	turn_call(t, join_step, &j);
	*ret = j.conn;
	return j.refusal;
}

static bool leave_step(struct turn *t, void *arg)
{
	struct turn_conn *c = arg;

	turn_conn_end(c, turn_now(t));
	turn_take_back(c);
	turn_count_skip_conn(t, c);
	unlink_conn(c);
	return true;
}

void turn_leave(struct turn *t, struct turn_conn *c)
{
	turn_call(t, leave_step, c);
	(void)munmap(c->page, TURN_PAGE_BYTES);
	free(c);
}

/* ---- whose pages are mapped ------------------------------------------------------------------- */

struct has_call {
	const struct turn_slice *slice;
	uint32_t pid;
	uint64_t start;
	bool has;
};

static bool has_step(struct turn *t, void *arg)
{
	struct has_call *h = arg;
	const struct turn_conn *c = turn_conns_of(h->slice, h->pid);

	(void)t;
	while (c && !turn_conn_is_of(c, h->pid, h->start))
		c = c->next_of_pid;
	h->has = c != NULL;
	return true;
}

bool turn_has_process(struct turn *t, struct turn_slice *s, uint32_t pid, uint64_t start)
{
	struct has_call h = { .slice = s, .pid = pid, .start = start };

	turn_call(t, has_step, &h);
	return h.has;
}
