/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Registrations of processes for turns, from the hello on (register.c): states are read here. The process has its
 * seats until the connection or the process ends, whichever is first: a child may hold the other end open.
 */
#include "node/arbiter/turns/internal.h"

#include "node/arbiter/clients/foreign.h"
#include "node/arbiter/clients/packet.h"
#include "node/arbiter/process/proc.h"

#include <errno.h>

struct turn_conn *turn_conns_of(const struct turn_slice *s, uint32_t pid)
{
	return s->by_pid[pid % TURN_PIDS];
}

bool turn_conn_is_of(const struct turn_conn *c, uint32_t pid, uint64_t start)
{
	return c->pid == pid && c->start == start;
}

/* ---- end -------------------------------------------------------------------------------------- */

void turn_conn_end(struct turn_conn *c, uint64_t now)
{
	struct turn *t = c->turn;
	bool dead;

	if (c->ended)
		return;
	dead = proc_ended(c->pidfd);
	c->ended = true;
	c->slice->n_conns--;
	t->n_conns--;
	turn_unwatch(c->slice->epoll, c->fd);
	turn_unwatch(c->slice->epoll, c->pidfd);
	turns_settle(t->turns, now);
	for (unsigned int i = 0; i < c->n_gpus; i++) {
		struct turn_seat *seat = &c->seats[i];
		struct turns_seat *there = seat->seat;

		turn_count_seat(seat);
		/* It may come again. */
		if (dead)
			tally_seat_end(&t->tally, seat->record);
		else
			tally_seat_release(&t->tally, seat->record);
		seat->record = NULL;
		seat->seat = NULL;
		turn_look_at_seat(seat, now);
		turns_seat_drop(t->turns, there, now);
	}
	turn_count_slice(t, c->slice, now);
	turn_settled(t, now);
	turn_post(c);
}

/* ---- states ----------------------------------------------------------------------------------- */

static void on_state(struct turn_conn *c, const struct slice_state *s, uint64_t now)
{
	const struct turn_seat *seat = &c->seats[s->gpu];

	/* It crossed a change of the gate, and another one follows. */
	if (s->generation != seat->gate / TURN_GENERATION)
		return;
	turns_state(c->turn->turns, seat->seat, s->busy, s->wants,
		s->idle_ns < now ? s->idle_ns : now, now);
}

static void refuse(struct turn_conn *c, const struct error *err, uint64_t now)
{
	struct turn_slice *s = c->slice;

	if (log_limit_pass(&s->noise, now, UINT64_C(10000000000), 5))
		log_warn("connection ended", LOG_STR("slice", s->id), LOG_UINT("pid", c->pid),
			LOG_STR("reason", err->msg));
	turn_conn_end(c, now);
}

void turn_conn_read(struct turn_conn *c, uint64_t now)
{
	char data[sizeof(struct slice_state) + 1];
	struct error err = ERROR_INIT;
	union packet p;
	bool cut;
	ssize_t n = foreign_receive(c->fd, data, sizeof(data), &cut);

	if (n == -1 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n == FOREIGN_CAME) {
		(void)error_set(&err, ERR_INVALID, "packet: expected no descriptors");
		refuse(c, &err, now);
		return;
	}
	if (n <= 0) {
		turn_conn_end(c, now);
		return;
	}
	if (packet_read(&p, data, (size_t)n, c->n_gpus, &err) < 0 ||
		(p.head.op != SLICE_STATE &&
			error_set(&err, ERR_INVALID,
				"packet: expected a state, found number %u", p.head.op) < 0)) {
		refuse(c, &err, now);
		return;
	}
	on_state(c, &p.state, now);
}
