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

/* ---- processes -------------------------------------------------------------------------------- */

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

static bool may_be_gone(const struct usage_accounts *t, const struct usage_client *r,
	const struct scheduler_slice *of)
{
	return atomic_load(&r->state) == USAGE_RECORD_USED && !usage_client_is_attached(t, r) &&
	       (!of || has_account(of, &t->accounts[r->account]));
}

static bool list_clients_step(struct scheduler *t, void *arg)
{
	struct clients_call *c = arg;
	uint32_t end = usage_clients_touched(&t->accounts);

	for (unsigned int i = 0; i < SOME && c->from < end; i++, c->from++) {
		const struct usage_client *r = &t->accounts.clients[c->from];

		if (may_be_gone(&t->accounts, r, c->of))
			c->v[c->n++] = (struct client_record_name){ .index = c->from,
				.pid = r->pid,
				.page_serial = r->serial,
				.start = r->start };
	}
	c->over = c->from >= end;
	return true;
}

/* One per step, as the accounts search the list of its account for it. */
static bool end_client_step(struct scheduler *t, void *arg)
{
	struct clients_call *c = arg;
	const struct client_record_name *name = &c->v[--c->n];
	struct usage_client *r = &t->accounts.clients[name->index];

	if (may_be_gone(&t->accounts, r, c->of) && r->pid == name->pid &&
		r->start == name->start && r->serial == name->page_serial)
		usage_client_end(&t->accounts, r);
	return c->n == 0;
}

static bool is_record_process_alive(const struct scheduler *t,
	const struct client_record_name *s)
{
	struct proc_stat st;

	return proc_stat(t->options.procfs, s->pid, &st) && st.start == s->start;
}

/* The records of a process mostly lie side by side: the loop looks up each process once. */
static void filter_gone_records(const struct scheduler *t, struct clients_call *c)
{
	struct client_record_name last = { .pid = 0 };
	bool there = false;
	unsigned int n = 0;

	for (unsigned int i = 0; i < c->n; i++) {
		if (!last.pid || last.pid != c->v[i].pid || last.start != c->v[i].start) {
			last = c->v[i];
			there = is_record_process_alive(t, &last);
		}
		if (!there)
			c->v[n++] = c->v[i];
	}
	c->n = n;
}

static void sweep_clients(struct scheduler *t, const struct scheduler_slice *of)
{
	struct clients_call c = { .of = of };

	while (!c.over) {
		c.n = 0;
		scheduler_call(t, list_clients_step, &c);
		filter_gone_records(t, &c);
		if (c.n)
			scheduler_call(t, end_client_step, &c);
	}
}

bool scheduler_sweep_slice(struct scheduler *t, struct scheduler_slice *s)
{
	uint64_t now = time_mono_ns();

	if (now - t->swept_ns < SCHEDULER_SWEEP_NS)
		return false;
	t->swept_ns = now;
	sweep_clients(t, s);
	return true;
}

/* ---- slices ----------------------------------------------------------------------------------- */

struct accounts_call {
	uint32_t from;
	bool over;
	unsigned int n;
	struct {
		uint32_t index;
		char slice[SLICE_ID_MAX];
	} v[SOME];
};

static bool list_accounts_step(struct scheduler *t, void *arg)
{
	struct accounts_call *c = arg;
	uint32_t end = usage_accounts_touched(&t->accounts);

	for (unsigned int i = 0; i < SOME && c->from < end; i++, c->from++) {
		const struct usage_account *a = &t->accounts.accounts[c->from];

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
static bool drop_account_step(struct scheduler *t, void *arg)
{
	struct accounts_call *c = arg;
	struct usage_account *a = &t->accounts.accounts[c->v[--c->n].index];

	if (atomic_load(&a->state) == USAGE_RECORD_USED &&
		!strncmp(a->slice, c->v[c->n].slice, sizeof(a->slice)))
		usage_account_drop(&t->accounts, a);
	return c->n == 0;
}

void scheduler_sweep(struct scheduler *t, bool (*is_slice)(void *arg, const char *slice),
	void *arg)
{
	struct accounts_call c = { .from = 0 };

	while (!c.over) {
		unsigned int n = 0;

		c.n = 0;
		scheduler_call(t, list_accounts_step, &c);
		for (unsigned int i = 0; i < c.n; i++) {
			if (!is_slice(arg, c.v[i].slice))
				c.v[n++] = c.v[i];
		}
		c.n = n;
		if (n)
			scheduler_call(t, drop_account_step, &c);
	}
	sweep_clients(t, NULL);
}

/* ---- refused memory --------------------------------------------------------------------------- */

struct refusals_call {
	const char *slice;
	const uint8_t *uuid;
	uint64_t n;
	bool good;
};

static bool read_refusals_step(struct scheduler *t, void *arg)
{
	struct refusals_call *c = arg;
	const struct usage_account *a = usage_account_find(&t->accounts, c->slice, c->uuid);

	c->n = a ? usage_load(&a->refusals) : 0;
	return true;
}

uint64_t scheduler_read_refusals(struct scheduler *t, const char *slice, const uint8_t *uuid)
{
	struct refusals_call c = { .slice = slice, .uuid = uuid };

	scheduler_call(t, read_refusals_step, &c);
	return c.n;
}

static bool store_refusals_step(struct scheduler *t, void *arg)
{
	struct refusals_call *c = arg;
	struct usage_account *a = usage_account(&t->accounts, c->slice, c->uuid);

	c->good = a != NULL;
	if (a)
		usage_raise(&a->refusals, c->n);
	return true;
}

bool scheduler_store_refusals(struct scheduler *t, const char *slice, const uint8_t *uuid,
	uint64_t refusals)
{
	struct refusals_call c = { .slice = slice, .uuid = uuid, .n = refusals };

	scheduler_call(t, store_refusals_step, &c);
	return c.good;
}
