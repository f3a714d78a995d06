/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Registrations after the hello (register.c): the thread reads their states here. A process has its clients
 * until its connection or the process ends, whichever is first: a child may hold the other end of the
 * connection open.
 */
#include "node/arbiter/scheduler/internal.h"

#include "node/arbiter/clients/passed-fds.h"
#include "node/arbiter/clients/packet.h"
#include "node/arbiter/process/proc.h"

#include <errno.h>

struct scheduler_registration *scheduler_registrations_of(const struct scheduler_slice *s,
	uint32_t pid)
{
	return s->by_pid[pid % SCHEDULER_PID_BUCKETS];
}

bool scheduler_registration_is_of(const struct scheduler_registration *c, uint32_t pid,
	uint64_t start)
{
	return c->pid == pid && c->start == start;
}

/* ---- end -------------------------------------------------------------------------------------- */

void scheduler_registration_end(struct scheduler_registration *c, uint64_t now)
{
	struct scheduler *t = c->scheduler;
	bool dead;

	if (c->ended)
		return;
	dead = proc_ended(c->pidfd);
	c->ended = true;
	c->slice->n_registrations--;
	t->n_registrations--;
	scheduler_unwatch_fd(c->slice->epoll, c->fd);
	scheduler_unwatch_fd(c->slice->epoll, c->pidfd);
	sched_update_charges(t->sched, now);
	for (unsigned int i = 0; i < c->n_gpus; i++) {
		struct scheduler_client *client = &c->clients[i];
		struct sched_client *there = client->client;

		scheduler_count_client(client);
		/* A living process may register again. */
		if (dead)
			usage_client_end(&t->accounts, client->record);
		else
			usage_client_detach(&t->accounts, client->record);
		client->record = NULL;
		client->client = NULL;
		scheduler_check_stuck(client, now);
		sched_client_free(t->sched, there, now);
	}
	scheduler_count_slice(t, c->slice, now);
	scheduler_settle(t, now);
	scheduler_post_ended(c);
}

/* ---- states ----------------------------------------------------------------------------------- */

static void on_sched_state_packet(struct scheduler_registration *c, const struct slice_state *s,
	uint64_t now)
{
	const struct scheduler_client *client = &c->clients[s->gpu];

	/* The packet crossed a change of the gate. The process sends another one for the new generation. */
	if (s->generation != client->gate / TURN_GENERATION)
		return;
	sched_client_set_state(c->scheduler->sched, client->client, s->busy, s->wants,
		s->idle_ns < now ? s->idle_ns : now, now);
}

static void refuse_sched_packet(struct scheduler_registration *c, const struct error *err,
	uint64_t now)
{
	struct scheduler_slice *s = c->slice;

	if (log_limit_pass(&s->log_limit, now, UINT64_C(10000000000), 5))
		log_warn("connection ended", LOG_STR("slice", s->id), LOG_UINT("pid", c->pid),
			LOG_STR("reason", err->msg));
	scheduler_registration_end(c, now);
}

void scheduler_registration_read(struct scheduler_registration *c, uint64_t now)
{
	char data[sizeof(struct slice_state) + 1];
	struct error err = ERROR_INIT;
	union packet p;
	bool cut;
	ssize_t n = passed_fds_receive(c->fd, data, sizeof(data), &cut);

	if (n == -1 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n == PASSED_FDS_PRESENT) {
		(void)error_set(&err, ERR_INVALID, "packet: expected no descriptors");
		refuse_sched_packet(c, &err, now);
		return;
	}
	if (n <= 0) {
		scheduler_registration_end(c, now);
		return;
	}
	if (packet_read(&p, data, (size_t)n, c->n_gpus, &err) < 0 ||
		(p.head.op != SLICE_STATE &&
			error_set(&err, ERR_INVALID,
				"packet: expected a state, found number %u", p.head.op) < 0)) {
		refuse_sched_packet(c, &err, now);
		return;
	}
	on_sched_state_packet(c, &p.state, now);
}
