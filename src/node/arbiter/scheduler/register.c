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

static bool scheduler_registration_is_of(const struct scheduler_registration *reg, uint32_t pid,
	uint64_t start)
{
	return reg->pid == pid && reg->start == start;
}

/* --- end --- */

void scheduler_registration_end(struct scheduler_registration *reg, uint64_t now)
{
	struct scheduler *scheduler = reg->scheduler;
	bool dead;

	if (reg->ended)
		return;
	dead = proc_ended(reg->pidfd);
	reg->ended = true;
	reg->slice->n_registrations--;
	scheduler->n_registrations--;
	scheduler_unwatch_fd(reg->slice->epoll, reg->fd);
	scheduler_unwatch_fd(reg->slice->epoll, reg->pidfd);
	sched_update_charges(scheduler->sched, now);
	for (unsigned int i = 0; i < reg->n_gpus; i++) {
		struct scheduler_client *client = &reg->clients[i];
		struct sched_client *there = client->client;

		scheduler_count_client(client);
		/* A living process may register again. */
		if (dead)
			usage_client_end(&scheduler->accounts, client->record);
		else
			usage_client_detach(&scheduler->accounts, client->record);
		client->record = NULL;
		client->client = NULL;
		scheduler_check_stuck(client, now);
		sched_client_free(scheduler->sched, there, now);
	}
	scheduler_count_slice(scheduler, reg->slice, now);
	scheduler_settle(scheduler, now);
	scheduler_post_ended(reg);
}

/* --- states --- */

static void on_sched_state_packet(struct scheduler_registration *reg,
	const struct slice_state *s, uint64_t now)
{
	const struct scheduler_client *client = &reg->clients[s->gpu];

	/* The packet crossed a change of the gate. The process sends another one for the new generation. */
	if (s->generation != client->gate / TURN_GENERATION)
		return;
	sched_client_set_state(reg->scheduler->sched, client->client, s->busy, s->wants,
		s->idle_ns < now ? s->idle_ns : now, now);
}

static void refuse_sched_packet(struct scheduler_registration *reg, const struct error *err,
	uint64_t now)
{
	struct scheduler_slice *s = reg->slice;

	if (log_limit_pass(&s->log_limit, now, UINT64_C(10000000000), 5))
		log_warn("connection ended", LOG_STR("slice", s->id), LOG_UINT("pid", reg->pid),
			LOG_STR("reason", err->msg));
	scheduler_registration_end(reg, now);
}

void scheduler_registration_read(struct scheduler_registration *reg, uint64_t now)
{
	char data[sizeof(struct slice_state) + 1];
	struct error err = ERROR_INIT;
	union packet p;
	bool cut;
	ssize_t n = passed_fds_receive(reg->fd, data, sizeof(data), &cut);

	if (n == -1 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n == PASSED_FDS_PRESENT) {
		(void)error_set(&err, ERR_INVALID, "packet: expected no descriptors");
		refuse_sched_packet(reg, &err, now);
		return;
	}
	if (n <= 0) {
		scheduler_registration_end(reg, now);
		return;
	}
	if (packet_read(&p, data, (size_t)n, reg->n_gpus, &err) < 0 ||
		(p.head.op != SLICE_STATE &&
			error_set(&err, ERR_INVALID,
				"packet: expected a state, found number %u", p.head.op) < 0)) {
		refuse_sched_packet(reg, &err, now);
		return;
	}
	on_sched_state_packet(reg, &p.state, now);
}

/* --- refusals --- */

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

static bool crowded_step(struct scheduler *scheduler, void *arg)
{
	(void)scheduler;
	(void)build_crowded_refusal(arg, "");
	return true;
}

void scheduler_report_crowded(struct scheduler *scheduler, struct scheduler_slice *s)
{
	scheduler_call(scheduler, crowded_step, s);
}

/* --- room --- */

static unsigned int count_pid(const struct scheduler_slice *s, uint32_t pid, uint64_t start)
{
	unsigned int n = 0;

	for (const struct scheduler_registration *reg = scheduler_registrations_of(s, pid); reg;
		reg = reg->next_of_pid)
		n += !reg->ended && scheduler_registration_is_of(reg, pid, start);
	return n;
}

/* Ends the registrations that the process made before it executed another program. A child of that program may
 * hold its connection open, so that it never hangs up. */
static void end_execed_registrations(struct scheduler *scheduler,
	const struct scheduler_slice *s, const struct scheduler_join_request *who)
{
	for (struct scheduler_registration *reg = scheduler_registrations_of(s, who->pid); reg;
		reg = reg->next_of_pid) {
		if (scheduler_registration_is_of(reg, who->pid, who->start) && reg->image &&
			who->image && reg->image != who->image)
			scheduler_registration_end(reg, scheduler_now(scheduler));
	}
}

struct join_call {
	struct scheduler_slice *slice;
	const struct scheduler_join_request *request;
	struct scheduler_registration *registration;
	struct scheduler_refusal refusal;
};

static bool check_join_room_step(struct scheduler *scheduler, void *arg)
{
	struct join_call *j = arg;

	end_execed_registrations(scheduler, j->slice, j->request);
	if (j->slice->n_registrations >= SCHEDULER_REGISTRATIONS_SLICE)
		j->refusal =
			build_crowded_refusal(j->slice, "too many processes of this slice");
	else if (count_pid(j->slice, j->request->pid, j->request->start) >=
		 SCHEDULER_REGISTRATIONS_PID)
		j->refusal = build_crowded_refusal(j->slice,
			"too many registrations of this process");
	return true;
}

struct scheduler_refusal scheduler_check_room(struct scheduler *scheduler,
	struct scheduler_slice *s, const struct scheduler_join_request *who)
{
	struct join_call j = { .slice = s, .request = who, .refusal = admitted };

	scheduler_call(scheduler, check_join_room_step, &j);
	return j.refusal;
}

/* --- records --- */

/* The records that the accounts have of this page. */
static struct scheduler_refusal find_records(struct scheduler_registration *reg)
{
	struct usage_accounts *accounts = &reg->scheduler->accounts;

	for (unsigned int i = 0; i < reg->n_gpus; i++) {
		struct usage_client *client = usage_client_find(accounts,
			reg->slice->gpus[i].account, reg->page->serial, i);

		if (client && (client->pid != reg->pid || client->start != reg->start))
			return build_join_refusal("the page is another process's");
		if (client && usage_client_is_attached(accounts, client))
			return build_join_refusal("the page is in use");
		reg->clients[i].record = client;
	}
	return admitted;
}

/* Makes the other records. If the process brought the page, its counters count from now on: an earlier record
 * counted what they already contain, or an arbiter whose file is lost did. False: no room, and nothing was changed. */
static bool create_records(struct scheduler_registration *reg)
{
	struct usage_accounts *accounts = &reg->scheduler->accounts;
	bool made[SLICE_GPUS_MAX] = { false };
	unsigned int n = 0;

	for (; n < reg->n_gpus; n++) {
		struct scheduler_client *client = &reg->clients[n];
		uint64_t now[USAGE_COUNTERS];

		if (client->record)
			continue;
		scheduler_read_counters(&reg->page->gpus[n], now);
		client->record = usage_client_new(accounts, reg->slice->gpus[n].account,
			reg->page->serial, n, reg->pid, reg->start, now);
		if (!client->record)
			break;
		made[n] = true;
	}
	for (unsigned int i = 0; n < reg->n_gpus && i < n; i++) {
		if (made[i])
			usage_client_end(accounts, reg->clients[i].record);
	}
	return n == reg->n_gpus;
}

static struct scheduler_refusal acquire_records(struct scheduler_registration *reg)
{
	struct scheduler_refusal r = find_records(reg);

	if (r.status == SLICE_OK && !create_records(reg))
		r = (struct scheduler_refusal){ .status = SLICE_TOO_MANY,
			.reason = "too many processes have taken turns, of this slice or on "
				  "this node",
			.records = true };
	for (unsigned int i = 0; i < reg->n_gpus; i++) {
		struct scheduler_client *client = &reg->clients[i];

		if (r.status == SLICE_OK)
			client->charged_ns = usage_load(&client->record->charged_ns);
		else
			client->record = NULL;
	}
	return r;
}

/* --- clients --- */

static bool add_sched_clients(struct scheduler_registration *reg, bool again, uint64_t now)
{
	struct scheduler *scheduler = reg->scheduler;

	for (unsigned int i = 0; i < reg->n_gpus; i++) {
		struct scheduler_client *client = &reg->clients[i];
		struct turn_gpu_page *p = &reg->page->gpus[i];

		client->registration = reg;
		client->gpu = i;
		/* A new process has nothing in flight. The doorbell makes it report its first submission. */
		if (!again)
			atomic_store(&p->gate, TURN_DOORBELL | TURN_CLOSED);
		client->gate = atomic_load(&p->gate) & ~TURN_DOORBELL;
		client->client = sched_client_new(scheduler->sched, reg->slice->sched,
			reg->slice->gpus[i].number, client, now);
		if (!client->client)
			return false;
		usage_client_attach(&scheduler->accounts, client->record);
		scheduler_set_gate(client, client->client->gate, &client->client->throttle);
	}
	return true;
}

/* Withdraws a registration that failed. */
static void undo_registration(struct scheduler_registration *reg, uint64_t now)
{
	struct scheduler *scheduler = reg->scheduler;

	scheduler_unwatch_fd(reg->slice->epoll, reg->fd);
	scheduler_unwatch_fd(reg->slice->epoll, reg->pidfd);
	for (unsigned int i = 0; i < reg->n_gpus; i++) {
		struct scheduler_client *client = &reg->clients[i];

		if (client->client)
			sched_client_free(scheduler->sched, client->client, now);
		if (client->record)
			usage_client_detach(&scheduler->accounts, client->record);
	}
	scheduler_settle(scheduler, now);
	free(reg);
}

static void link_registration(struct scheduler_registration *reg)
{
	struct scheduler_slice *s = reg->slice;
	struct scheduler *scheduler = reg->scheduler;

	reg->number = ++scheduler->numbers;
	reg->next = s->registrations;
	if (s->registrations)
		s->registrations->prev = reg;
	s->registrations = reg;
	reg->next_of_pid = scheduler_registrations_of(s, reg->pid);
	s->by_pid[reg->pid % SCHEDULER_PID_BUCKETS] = reg;
	s->n_registrations++;
	if (scheduler->n_registrations++ == 0)
		scheduler_count_start(scheduler);
	for (unsigned int i = 0; i < reg->n_gpus; i++) {
		scheduler_set_process_cap(reg, i);
		scheduler_set_process_caps(s, i);
	}
}

static void unlink_registration(struct scheduler_registration *reg)
{
	struct scheduler_slice *s = reg->slice;
	struct scheduler_registration **at = &s->by_pid[reg->pid % SCHEDULER_PID_BUCKETS];

	while (*at != reg)
		at = &(*at)->next_of_pid;
	*at = reg->next_of_pid;
	if (reg->prev)
		reg->prev->next = reg->next;
	else
		s->registrations = reg->next;
	if (reg->next)
		reg->next->prev = reg->prev;
}

static struct scheduler_registration *new_registration(struct scheduler *scheduler,
	struct scheduler_slice *s, const struct scheduler_join_request *who)
{
	struct scheduler_registration *reg = calloc(1, sizeof(*reg));

	if (!reg)
		return NULL;
	reg->scheduler = scheduler;
	reg->slice = s;
	reg->user = who->user;
	reg->fd = who->fd;
	reg->pidfd = who->pidfd;
	reg->pid = who->pid;
	reg->ns_pid = who->ns_pid;
	reg->start = who->start;
	reg->image = who->image;
	memcpy(reg->name, who->name, sizeof(reg->name));
	proc_printable(reg->name);
	reg->page = who->page;
	reg->page_ino = who->page_ino;
	reg->packets = (struct scheduler_source){ .kind = SCHEDULER_SOURCE_PACKETS, .of = reg };
	reg->death = (struct scheduler_source){ .kind = SCHEDULER_SOURCE_DEATH, .of = reg };
	reg->n_gpus = s->n_gpus;
	return reg;
}

/* --- join, leave --- */

/* The registration of this slice that has the page. The process has given that registration up, or the page is
 * another process's. NULL: none. */
static struct scheduler_registration *find_registration_by_page(const struct scheduler_slice *s,
	ino_t ino)
{
	struct scheduler_registration *reg = s->registrations;

	while (reg && (reg->ended || reg->page_ino != ino))
		reg = reg->next;
	return reg;
}

static struct scheduler_refusal register_process(struct scheduler *scheduler,
	struct join_call *j)
{
	struct scheduler_slice *s = j->slice;
	struct scheduler_registration *old = j->request->has_page
						     ? find_registration_by_page(s,
							       j->request->page_ino)
						     : NULL,
				      *reg;
	struct scheduler_refusal r;
	uint64_t now = scheduler_now(scheduler);

	if (old && !scheduler_registration_is_of(old, j->request->pid, j->request->start))
		return build_join_refusal("the page is another process's");
	if (old)
		scheduler_registration_end(old, now);
	reg = new_registration(scheduler, s, j->request);
	if (!reg)
		return build_join_refusal("no memory");
	r = acquire_records(reg);
	if (r.status == SLICE_OK &&
		(scheduler_watch_fd(s->epoll, reg->fd, &reg->packets) < 0 ||
			scheduler_watch_fd(s->epoll, reg->pidfd, &reg->death) < 0 ||
			!add_sched_clients(reg, j->request->has_page, now)))
		r = build_join_refusal("no memory");
	if (r.status != SLICE_OK) {
		undo_registration(reg, now);
		return r;
	}
	link_registration(reg);
	scheduler_settle(scheduler, now);
	j->registration = reg;
	return r;
}

static bool join_step(struct scheduler *scheduler, void *arg)
{
	struct join_call *j = arg;

	j->refusal = register_process(scheduler, j);
	return true;
}

struct scheduler_refusal scheduler_register(struct scheduler *scheduler,
	struct scheduler_slice *s, const struct scheduler_join_request *who,
	struct scheduler_registration **ret)
{
	struct join_call j = { .slice = s, .request = who };

	scheduler_call(scheduler, join_step, &j);
	*ret = j.registration;
	return j.refusal;
}

static bool leave_step(struct scheduler *scheduler, void *arg)
{
	struct scheduler_registration *reg = arg;

	scheduler_registration_end(reg, scheduler_now(scheduler));
	scheduler_unpost_ended(reg);
	scheduler_count_skip_process(scheduler, reg);
	unlink_registration(reg);
	return true;
}

void scheduler_unregister(struct scheduler *scheduler, struct scheduler_registration *reg)
{
	scheduler_call(scheduler, leave_step, reg);
	(void)munmap(reg->page, TURN_PAGE_BYTES);
	free(reg);
}

/* --- processes whose pages are mapped --- */

struct has_call {
	const struct scheduler_slice *slice;
	uint32_t pid;
	uint64_t start;
	bool has;
};

static bool has_step(struct scheduler *scheduler, void *arg)
{
	struct has_call *h = arg;
	const struct scheduler_registration *reg = scheduler_registrations_of(h->slice, h->pid);

	(void)scheduler;
	while (reg && !scheduler_registration_is_of(reg, h->pid, h->start))
		reg = reg->next_of_pid;
	h->has = reg != NULL;
	return true;
}

bool scheduler_has_process(struct scheduler *scheduler, struct scheduler_slice *s, uint32_t pid,
	uint64_t start)
{
	struct has_call h = { .slice = s, .pid = pid, .start = start };

	scheduler_call(scheduler, has_step, &h);
	return h.has;
}
