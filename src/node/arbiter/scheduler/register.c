/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Registrations: how a process registers with the scheduler, its states, its end.
 *
 * A process registers with a new page or with its old one. On each GPU of its slice the process gets a record in
 * the accounts and a client. If that fails, the process gets the reason, and no client and no registration stays.
 * Records that the attempt made may stay as waiting ones (usage-accounts.h).
 *
 * The thread then reads the states of the process. A process has its clients until its connection or the process
 * ends, whichever is first: a child may hold the other end of the connection open.
 */
#include "node/arbiter/scheduler/internal.h"

#include "node/arbiter/clients/packet.h"
#include "node/arbiter/clients/passed-fds.h"
#include "node/arbiter/process/proc.h"
#include "lib/base/time.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* The bucket of the process: its registrations and others, linked by .next_of_pid. */
static struct scheduler_registration *scheduler_registrations_of(
	const struct scheduler_slice *s, uint32_t pid)
{
	return s->by_pid[pid % SCHEDULER_PID_BUCKETS];
}

static bool scheduler_registration_is_of(const struct scheduler_registration *c, uint32_t pid,
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

/* ---- refusals --------------------------------------------------------------------------------- */

static const struct scheduler_refusal admitted = { .status = SLICE_OK };

static struct scheduler_refusal build_join_refusal(const char *reason)
{
	return (struct scheduler_refusal){ .status = SLICE_REFUSED, .reason = reason };
}

/* There is no room for this process. Status shows it too. */
static struct scheduler_refusal build_crowded_refusal(struct scheduler_slice *s,
	const char *reason)
{
	s->crowded_ns = time_mono_ns();
	return (struct scheduler_refusal){ .status = SLICE_TOO_MANY, .reason = reason };
}

static bool crowded_step(struct scheduler *t, void *arg)
{
	(void)t;
	(void)build_crowded_refusal(arg, "");
	return true;
}

void scheduler_report_crowded(struct scheduler *t, struct scheduler_slice *s)
{
	scheduler_call(t, crowded_step, s);
}

/* ---- room ------------------------------------------------------------------------------------- */

static unsigned int count_pid(const struct scheduler_slice *s, uint32_t pid, uint64_t start)
{
	unsigned int n = 0;

	for (const struct scheduler_registration *c = scheduler_registrations_of(s, pid); c;
		c = c->next_of_pid)
		n += !c->ended && scheduler_registration_is_of(c, pid, start);
	return n;
}

/* Ends the registrations that the process made before it executed another program. A child of that program may
 * hold its connection open, so that it never hangs up. */
static void end_execed(struct scheduler *t, const struct scheduler_slice *s,
	const struct scheduler_join_request *who)
{
	for (struct scheduler_registration *c = scheduler_registrations_of(s, who->pid); c;
		c = c->next_of_pid) {
		if (scheduler_registration_is_of(c, who->pid, who->start) && c->image &&
			who->image && c->image != who->image)
			scheduler_registration_end(c, scheduler_now(t));
	}
}

struct join_call {
	struct scheduler_slice *slice;
	const struct scheduler_join_request *request;
	struct scheduler_registration *registration;
	struct scheduler_refusal refusal;
};

static bool check_join_room_step(struct scheduler *t, void *arg)
{
	struct join_call *j = arg;

	end_execed(t, j->slice, j->request);
	if (j->slice->n_registrations >= SCHEDULER_REGISTRATIONS_SLICE)
		j->refusal =
			build_crowded_refusal(j->slice, "too many processes of this slice");
	else if (count_pid(j->slice, j->request->pid, j->request->start) >=
		 SCHEDULER_REGISTRATIONS_PID)
		j->refusal = build_crowded_refusal(j->slice,
			"too many registrations of this process");
	return true;
}

struct scheduler_refusal scheduler_check_room(struct scheduler *t, struct scheduler_slice *s,
	const struct scheduler_join_request *who)
{
	struct join_call j = { .slice = s, .request = who, .refusal = admitted };

	scheduler_call(t, check_join_room_step, &j);
	return j.refusal;
}

/* ---- records ---------------------------------------------------------------------------------- */

/* The records that the accounts have of this page. */
static struct scheduler_refusal find_records(struct scheduler_registration *c)
{
	struct usage_accounts *accounts = &c->scheduler->accounts;

	for (unsigned int i = 0; i < c->n_gpus; i++) {
		struct usage_client *r = usage_client_find(accounts, c->slice->gpus[i].account,
			c->page->serial, i);

		if (r && (r->pid != c->pid || r->start != c->start))
			return build_join_refusal("the page is another process's");
		if (r && usage_client_is_attached(accounts, r))
			return build_join_refusal("the page is in use");
		c->clients[i].record = r;
	}
	return admitted;
}

/* Makes the other records. If the process brought the page, its counters count from now on: an earlier record
 * counted what they already contain, or an arbiter whose file is lost did. False: no room, and nothing was changed. */
static bool create_records(struct scheduler_registration *c)
{
	struct usage_accounts *accounts = &c->scheduler->accounts;
	bool made[SLICE_GPUS_MAX] = { false };
	unsigned int n = 0;

	for (; n < c->n_gpus; n++) {
		struct scheduler_client *client = &c->clients[n];
		uint64_t now[USAGE_COUNTERS];

		if (client->record)
			continue;
		scheduler_read_counters(&c->page->gpus[n], now);
		client->record = usage_client_new(accounts, c->slice->gpus[n].account,
			c->page->serial, n, c->pid, c->start, now);
		if (!client->record)
			break;
		made[n] = true;
	}
	for (unsigned int i = 0; n < c->n_gpus && i < n; i++) {
		if (made[i])
			usage_client_end(accounts, c->clients[i].record);
	}
	return n == c->n_gpus;
}

static struct scheduler_refusal acquire_records(struct scheduler_registration *c)
{
	struct scheduler_refusal r = find_records(c);

	if (r.status == SLICE_OK && !create_records(c))
		r = (struct scheduler_refusal){ .status = SLICE_TOO_MANY,
			.reason = "too many processes have taken turns, of this slice or on "
				  "this node",
			.records = true };
	for (unsigned int i = 0; i < c->n_gpus; i++) {
		struct scheduler_client *client = &c->clients[i];

		if (r.status == SLICE_OK)
			client->charged_ns = usage_load(&client->record->charged_ns);
		else
			client->record = NULL;
	}
	return r;
}

/* ---- clients ---------------------------------------------------------------------------------- */

static bool add_sched_clients(struct scheduler_registration *c, bool again, uint64_t now)
{
	struct scheduler *t = c->scheduler;

	for (unsigned int i = 0; i < c->n_gpus; i++) {
		struct scheduler_client *client = &c->clients[i];
		struct turn_gpu_page *p = &c->page->gpus[i];

		client->registration = c;
		client->gpu = i;
		/* A new process has nothing in flight. The doorbell makes it report its first submission. */
		if (!again)
			atomic_store(&p->gate, TURN_DOORBELL | TURN_CLOSED);
		client->gate = atomic_load(&p->gate) & ~TURN_DOORBELL;
		client->client = sched_client_new(t->sched, c->slice->sched,
			c->slice->gpus[i].number, client, now);
		if (!client->client)
			return false;
		usage_client_attach(&t->accounts, client->record);
		scheduler_set_gate(client, client->client->gate, &client->client->throttle);
	}
	return true;
}

/* Withdraws a registration that failed. */
static void undo_registration(struct scheduler_registration *c, uint64_t now)
{
	struct scheduler *t = c->scheduler;

	scheduler_unwatch_fd(c->slice->epoll, c->fd);
	scheduler_unwatch_fd(c->slice->epoll, c->pidfd);
	for (unsigned int i = 0; i < c->n_gpus; i++) {
		struct scheduler_client *client = &c->clients[i];

		if (client->client)
			sched_client_free(t->sched, client->client, now);
		if (client->record)
			usage_client_detach(&t->accounts, client->record);
	}
	scheduler_settle(t, now);
	free(c);
}

static void link_registration(struct scheduler_registration *c)
{
	struct scheduler_slice *s = c->slice;
	struct scheduler *t = c->scheduler;

	c->number = ++t->numbers;
	c->next = s->registrations;
	if (s->registrations)
		s->registrations->prev = c;
	s->registrations = c;
	c->next_of_pid = scheduler_registrations_of(s, c->pid);
	s->by_pid[c->pid % SCHEDULER_PID_BUCKETS] = c;
	s->n_registrations++;
	if (t->n_registrations++ == 0)
		scheduler_count_start(t);
	for (unsigned int i = 0; i < c->n_gpus; i++) {
		scheduler_set_process_cap(c, i);
		scheduler_set_process_caps(s, i);
	}
}

static void unlink_registration(struct scheduler_registration *c)
{
	struct scheduler_slice *s = c->slice;
	struct scheduler_registration **at = &s->by_pid[c->pid % SCHEDULER_PID_BUCKETS];

	while (*at != c)
		at = &(*at)->next_of_pid;
	*at = c->next_of_pid;
	if (c->prev)
		c->prev->next = c->next;
	else
		s->registrations = c->next;
	if (c->next)
		c->next->prev = c->prev;
}

static struct scheduler_registration *new_registration(struct scheduler *t,
	struct scheduler_slice *s, const struct scheduler_join_request *who)
{
	struct scheduler_registration *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->scheduler = t;
	c->slice = s;
	c->user = who->user;
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
	c->packets = (struct scheduler_source){ .kind = SCHEDULER_SOURCE_PACKETS, .of = c };
	c->death = (struct scheduler_source){ .kind = SCHEDULER_SOURCE_DEATH, .of = c };
	c->n_gpus = s->n_gpus;
	return c;
}

/* ---- join, leave ------------------------------------------------------------------------------ */

/* The registration of this slice that has the page. The process has given that registration up, or the page is
 * another process's. NULL: none. */
static struct scheduler_registration *find_registration_by_page(const struct scheduler_slice *s,
	ino_t ino)
{
	struct scheduler_registration *c = s->registrations;

	while (c && (c->ended || c->page_ino != ino))
		c = c->next;
	return c;
}

static struct scheduler_refusal register_process(struct scheduler *t, struct join_call *j)
{
	struct scheduler_slice *s = j->slice;
	struct scheduler_registration *old = j->request->has_page
						     ? find_registration_by_page(s,
							       j->request->page_ino)
						     : NULL,
				      *c;
	struct scheduler_refusal r;
	uint64_t now = scheduler_now(t);

	if (old && !scheduler_registration_is_of(old, j->request->pid, j->request->start))
		return build_join_refusal("the page is another process's");
	if (old)
		scheduler_registration_end(old, now);
	c = new_registration(t, s, j->request);
	if (!c)
		return build_join_refusal("no memory");
	r = acquire_records(c);
	if (r.status == SLICE_OK &&
		(scheduler_watch_fd(s->epoll, c->fd, &c->packets) < 0 ||
			scheduler_watch_fd(s->epoll, c->pidfd, &c->death) < 0 ||
			!add_sched_clients(c, j->request->has_page, now)))
		r = build_join_refusal("no memory");
	if (r.status != SLICE_OK) {
		undo_registration(c, now);
		return r;
	}
	link_registration(c);
	scheduler_settle(t, now);
	j->registration = c;
	return r;
}

static bool join_step(struct scheduler *t, void *arg)
{
	struct join_call *j = arg;

	j->refusal = register_process(t, j);
	return true;
}

struct scheduler_refusal scheduler_register(struct scheduler *t, struct scheduler_slice *s,
	const struct scheduler_join_request *who, struct scheduler_registration **ret)
{
	struct join_call j = { .slice = s, .request = who };

	scheduler_call(t, join_step, &j);
	*ret = j.registration;
	return j.refusal;
}

static bool leave_step(struct scheduler *t, void *arg)
{
	struct scheduler_registration *c = arg;

	scheduler_registration_end(c, scheduler_now(t));
	scheduler_unpost_ended(c);
	scheduler_count_skip_process(t, c);
	unlink_registration(c);
	return true;
}

void scheduler_unregister(struct scheduler *t, struct scheduler_registration *c)
{
	scheduler_call(t, leave_step, c);
	(void)munmap(c->page, TURN_PAGE_BYTES);
	free(c);
}

/* ---- processes whose pages are mapped --------------------------------------------------------- */

struct has_call {
	const struct scheduler_slice *slice;
	uint32_t pid;
	uint64_t start;
	bool has;
};

static bool has_step(struct scheduler *t, void *arg)
{
	struct has_call *h = arg;
	const struct scheduler_registration *c = scheduler_registrations_of(h->slice, h->pid);

	(void)t;
	while (c && !scheduler_registration_is_of(c, h->pid, h->start))
		c = c->next_of_pid;
	h->has = c != NULL;
	return true;
}

bool scheduler_has_process(struct scheduler *t, struct scheduler_slice *s, uint32_t pid,
	uint64_t start)
{
	struct has_call h = { .slice = s, .pid = pid, .start = start };

	scheduler_call(t, has_step, &h);
	return h.has;
}
