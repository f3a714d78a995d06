/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Connections of processes for turns, from the hello on (register.c): packets are read here (turn.h says why).
 * The process has its seats until the connection or the process ends, whichever is first: a child may hold
 * the other end open.
 */
#include "node/arbiter/turns/turn.h"

#include "node/arbiter/clients/foreign.h"
#include "node/arbiter/clients/packet.h"
#include "node/arbiter/process/proc.h"
#include "lib/base/fd.h"
#include "lib/base/time.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

/* ---- ends ------------------------------------------------------------------------------------- */

void turn_conn_end(struct turn_conn *tc, uint64_t now)
{
	struct turn *t = tc->conn->arbiter->turn;
	bool dead = proc_ended(tc->conn->pidfd);

	if (tc->ended)
		return;
	tc->ended = t->some_ended = true;
	turn_unwatch(t, tc->conn->watch->fd);
	turn_unwatch(t, tc->conn->pidfd);
	turns_settle(t->turns, now);
	for (unsigned int i = 0; i < tc->n_gpus; i++) {
		struct turn_seat *seat = &tc->seats[i];
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
	turn_count_slice(t, tc->conn->slice->turn, now);
	turn_settled(t, now);
}

static void unlink_conn(struct turn_conn *tc)
{
	struct turn_slice *ts = tc->conn->slice->turn;
	struct turn_conn **at = &ts->by_pid[tc->conn->pid % TURN_PIDS];

	while (*at != tc)
		at = &(*at)->next_of_pid;
	*at = tc->next_of_pid;
	if (tc->prev)
		tc->prev->next = tc->next;
	else
		ts->conns = tc->next;
	if (tc->next)
		tc->next->prev = tc->prev;
	ts->n_conns--;
	tc->conn->arbiter->turn->n_conns--;
}

void turn_conn_free(struct conn *c)
{
	struct turn_conn *tc = c->turn;

	turn_conn_end(tc, time_mono_ns());
	unlink_conn(tc);
	(void)munmap(tc->page, TURN_PAGE_BYTES);
	free(tc);
	c->turn = NULL;
}

void turn_conns_close(struct turn_slice *s, bool all)
{
	struct turn_conn *next;

	for (struct turn_conn *tc = s->conns; tc; tc = next) {
		next = tc->next;
		if (all || tc->ended)
			conn_close(tc->conn);
		/* Many may have ended at once. Not where their gates are to stay as they are now. */
		if (!all)
			turn_breathe(s->slice->arbiter);
	}
}

/* ---- whose they are --------------------------------------------------------------------------- */

struct turn_conn *turn_conns_of(const struct turn_slice *s, uint32_t pid)
{
	return s->by_pid[pid % TURN_PIDS];
}

bool turn_conn_is_of(const struct turn_conn *tc, uint32_t pid, uint64_t start)
{
	return tc->conn->pid == pid && tc->conn->start == start;
}

/* ---- states ----------------------------------------------------------------------------------- */

static void on_state(struct turn_conn *tc, const struct slice_state *s, uint64_t now)
{
	struct turn *t = tc->conn->arbiter->turn;
	const struct turn_seat *seat = &tc->seats[s->gpu];

	/* It crossed a change of the gate, and another one follows. */
	if (s->generation != seat->gate / TURN_GENERATION)
		return;
	turns_state(t->turns, seat->seat, s->busy, s->wants,
		s->idle_ns < now ? s->idle_ns : now, now);
}

static void refuse(struct turn_conn *tc, const struct error *err, uint64_t now)
{
	struct slice *s = tc->conn->slice;

	if (log_limit_pass(&s->noise, now, NS_PER_SEC * 10, 5))
		log_warn("connection ended", LOG_STR("slice", s->id),
			LOG_UINT("pid", tc->conn->pid), LOG_STR("reason", err->msg));
	turn_conn_end(tc, now);
}

void turn_packets(struct turn_conn *tc)
{
	struct turn_slice *ts = tc->conn->slice->turn;
	char data[sizeof(struct slice_state) + 1];
	struct error err = ERROR_INIT;
	union packet p;

	while (ts->left) {
		uint64_t now = turn_now(tc->conn->arbiter->turn);
		bool cut;
		ssize_t n = foreign_receive(tc->conn->watch->fd, data, sizeof(data), &cut);

		if (n == -1 && (errno == EAGAIN || errno == EINTR))
			return;
		ts->left--;
		if (n == FOREIGN_CAME) {
			(void)error_set(&err, ERR_INVALID, "packet: expected no descriptors");
			refuse(tc, &err, now);
			return;
		}
		if (n <= 0) {
			turn_conn_end(tc, now);
			return;
		}
		if (packet_read(&p, data, (size_t)n, tc->n_gpus, &err) < 0 ||
			(p.head.op != SLICE_STATE &&
				error_set(&err, ERR_INVALID,
					"packet: expected a state, found number %u",
					p.head.op) < 0)) {
			refuse(tc, &err, now);
			return;
		}
		on_state(tc, &p.state, now);
	}
}
