/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Drops records of processes and slices that are gone.
 *
 * 1. The scheduler thread lists up to 64 records to the loop.
 * 2. The loop reads /proc, or asks for the slices that exist, and picks the records to drop.
 * 3. The thread drops these records, one per step, if they are still what they were in step 1.
 *
 * The list goes on until all records were seen.
 */
#include "node/arbiter/scheduler/internal.h"

#include "node/arbiter/process/proc.h"
#include "lib/base/time.h"

#include <stdio.h>
#include <string.h>

#define SOME 64

/* --- processes --- */

struct client_record_name {
	uint32_t index, pid;
	uint64_t page_serial, start;
};

struct clients_call {
	const struct scheduler_slice *of; /* NULL: all slices */
	uint32_t from;                    /* index of the next record to list */
	bool over;
	unsigned int n;
	struct client_record_name v[SOME];
};

static bool has_account(const struct scheduler_slice *s, const struct usage_account *account)
{
	for (unsigned int i = 0; i < s->n_gpus; i++) {
		if (s->gpus[i].account == account)
			return true;
	}
	return false;
}

static bool may_be_gone(const struct usage_accounts *accounts,
	const struct usage_client *client, const struct scheduler_slice *of)
{
	return atomic_load(&client->state) == USAGE_RECORD_USED &&
	       !usage_client_is_attached(accounts, client) &&
	       (!of || has_account(of, &accounts->accounts[client->account]));
}

static bool list_clients_step(struct scheduler *scheduler, void *arg)
{
	struct clients_call *c = arg;
	uint32_t end = usage_clients_touched(&scheduler->accounts);

	for (unsigned int i = 0; i < SOME && c->from < end; i++, c->from++) {
		const struct usage_client *client = &scheduler->accounts.clients[c->from];

		if (may_be_gone(&scheduler->accounts, client, c->of))
			c->v[c->n++] = (struct client_record_name){ .index = c->from,
				.pid = client->pid,
				.page_serial = client->serial,
				.start = client->start };
	}
	c->over = c->from >= end;
	return true;
}

/* One per step, as the accounts search the list of its account for it. */
static bool end_client_step(struct scheduler *scheduler, void *arg)
{
	struct clients_call *c = arg;
	const struct client_record_name *name = &c->v[--c->n];
	struct usage_client *client = &scheduler->accounts.clients[name->index];

	if (may_be_gone(&scheduler->accounts, client, c->of) && client->pid == name->pid &&
		client->start == name->start && client->serial == name->page_serial)
		usage_client_end(&scheduler->accounts, client);
	return c->n == 0;
}

static bool is_record_process_alive(const struct scheduler *scheduler,
	const struct client_record_name *s)
{
	struct proc_stat st;

	return proc_stat(scheduler->options.procfs, s->pid, &st) && st.start == s->start;
}

/* The records of a process mostly lie side by side: the loop looks up each process once. */
static void filter_gone_records(const struct scheduler *scheduler, struct clients_call *c)
{
	struct client_record_name last = { .pid = 0 };
	bool there = false;
	unsigned int n = 0;

	for (unsigned int i = 0; i < c->n; i++) {
		if (!last.pid || last.pid != c->v[i].pid || last.start != c->v[i].start) {
			last = c->v[i];
			there = is_record_process_alive(scheduler, &last);
		}
		if (!there)
			c->v[n++] = c->v[i];
	}
	c->n = n;
}

static void sweep_clients(struct scheduler *scheduler, const struct scheduler_slice *of)
{
	struct clients_call c = { .of = of };

	while (!c.over) {
		c.n = 0;
		scheduler_call(scheduler, list_clients_step, &c);
		filter_gone_records(scheduler, &c);
		if (c.n)
			scheduler_call(scheduler, end_client_step, &c);
	}
}

bool scheduler_sweep_slice(struct scheduler *scheduler, struct scheduler_slice *s)
{
	uint64_t now = time_mono_ns();

	if (now - scheduler->swept_ns < SCHEDULER_SWEEP_NS)
		return false;
	scheduler->swept_ns = now;
	sweep_clients(scheduler, s);
	return true;
}

/* --- slices --- */

struct accounts_call {
	uint32_t from;
	bool over;
	unsigned int n;
	struct {
		uint32_t index;
		char slice[SLICE_ID_MAX];
	} v[SOME];
};

static bool list_accounts_step(struct scheduler *scheduler, void *arg)
{
	struct accounts_call *c = arg;
	uint32_t end = usage_accounts_touched(&scheduler->accounts);

	for (unsigned int i = 0; i < SOME && c->from < end; i++, c->from++) {
		const struct usage_account *a = &scheduler->accounts.accounts[c->from];

		if (atomic_load(&a->state) != USAGE_RECORD_USED)
			continue;
		c->v[c->n].index = c->from;
		memcpy(c->v[c->n].slice, a->slice, sizeof(a->slice));
		c->v[c->n++].slice[SLICE_ID_MAX - 1] = '\0';
	}
	c->over = c->from >= end;
	return true;
}

/* One per step, as an account may have many client records. */
static bool drop_account_step(struct scheduler *scheduler, void *arg)
{
	struct accounts_call *c = arg;
	struct usage_account *a = &scheduler->accounts.accounts[c->v[--c->n].index];

	if (atomic_load(&a->state) == USAGE_RECORD_USED &&
		!strncmp(a->slice, c->v[c->n].slice, sizeof(a->slice)))
		usage_account_drop(&scheduler->accounts, a);
	return c->n == 0;
}

void scheduler_sweep(struct scheduler *scheduler,
	bool (*is_slice)(void *arg, const char *slice), void *arg)
{
	struct accounts_call c = { .from = 0 };

	while (!c.over) {
		unsigned int n = 0;

		c.n = 0;
		scheduler_call(scheduler, list_accounts_step, &c);
		for (unsigned int i = 0; i < c.n; i++) {
			if (!is_slice(arg, c.v[i].slice))
				c.v[n++] = c.v[i];
		}
		c.n = n;
		if (n)
			scheduler_call(scheduler, drop_account_step, &c);
	}
	sweep_clients(scheduler, NULL);
}
