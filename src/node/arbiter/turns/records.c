/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Records of processes and slices that are gone. Which are there the loop finds out, as it reads /proc: it is given
 * some records at a time, and the thread ends those that it names, if they are still what they were.
 */
#include "node/arbiter/turns/internal.h"

#include "node/arbiter/process/proc.h"
#include "lib/base/time.h"

#include <stdio.h>
#include <string.h>

#define SOME 64

/* ---- processes -------------------------------------------------------------------------------- */

struct seat_name {
	uint32_t index, pid;
	uint64_t serial, start;
};

struct seats_call {
	const struct turn_slice *of; /* NULL: of all slices */
	uint32_t from;               /* the next to look at */
	bool over;
	unsigned int n;
	struct seat_name v[SOME];
};

static bool has_account(const struct turn_slice *s, const struct tally_account *account)
{
	for (unsigned int i = 0; i < s->n_gpus; i++) {
		if (s->gpus[i].account == account)
			return true;
	}
	return false;
}

static bool may_be_gone(const struct tally *t, const struct tally_seat *r,
	const struct turn_slice *of)
{
	return atomic_load(&r->state) == TALLY_USED && !tally_seat_held(t, r) &&
	       (!of || has_account(of, &t->accounts[r->account]));
}

static bool list_seats_step(struct turn *t, void *arg)
{
	struct seats_call *c = arg;
	uint32_t end = tally_seats_touched(&t->tally);

	for (unsigned int i = 0; i < SOME && c->from < end; i++, c->from++) {
		const struct tally_seat *r = &t->tally.seats[c->from];

		if (may_be_gone(&t->tally, r, c->of))
			c->v[c->n++] = (struct seat_name){ .index = c->from,
				.pid = r->pid,
				.serial = r->serial,
				.start = r->start };
	}
	c->over = c->from >= end;
	return true;
}

/* One at a time, as it is looked for in its account's list. */
static bool end_seat_step(struct turn *t, void *arg)
{
	struct seats_call *c = arg;
	const struct seat_name *name = &c->v[--c->n];
	struct tally_seat *r = &t->tally.seats[name->index];

	if (may_be_gone(&t->tally, r, c->of) && r->pid == name->pid &&
		r->start == name->start && r->serial == name->serial)
		tally_seat_end(&t->tally, r);
	return c->n == 0;
}

static bool is_there(const struct turn *t, const struct seat_name *s)
{
	struct proc_stat st;

	return proc_stat(t->o.procfs, s->pid, &st) && st.start == s->start;
}

/* A process's records mostly lie side by side: each is looked up once. */
static void keep_gone(const struct turn *t, struct seats_call *c)
{
	struct seat_name last = { .pid = 0 };
	bool there = false;
	unsigned int n = 0;

	for (unsigned int i = 0; i < c->n; i++) {
		if (!last.pid || last.pid != c->v[i].pid || last.start != c->v[i].start) {
			last = c->v[i];
			there = is_there(t, &last);
		}
		if (!there)
			c->v[n++] = c->v[i];
	}
	c->n = n;
}

static void sweep_seats(struct turn *t, const struct turn_slice *of)
{
	struct seats_call c = { .of = of };

	while (!c.over) {
		c.n = 0;
		turn_call(t, list_seats_step, &c);
		keep_gone(t, &c);
		if (c.n)
			turn_call(t, end_seat_step, &c);
	}
}

bool turn_sweep_slice(struct turn *t, struct turn_slice *s)
{
	uint64_t now = time_mono_ns();

	if (now - t->swept_ns < TURN_SWEEP_NS)
		return false;
	t->swept_ns = now;
	sweep_seats(t, s);
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

static bool list_accounts_step(struct turn *t, void *arg)
{
	struct accounts_call *c = arg;
	uint32_t end = tally_accounts_touched(&t->tally);

	for (unsigned int i = 0; i < SOME && c->from < end; i++, c->from++) {
		const struct tally_account *a = &t->tally.accounts[c->from];

		if (atomic_load(&a->state) != TALLY_USED)
			continue;
		c->v[c->n].index = c->from;
		memcpy(c->v[c->n].slice, a->slice, sizeof(a->slice));
		c->v[c->n++].slice[SLICE_ID_MAX - 1] = '\0';
	}
	c->over = c->from >= end;
	return true;
}

/* One at a time, as an account may have many seats. */
static bool drop_account_step(struct turn *t, void *arg)
{
	struct accounts_call *c = arg;
	struct tally_account *a = &t->tally.accounts[c->v[--c->n].index];

	if (atomic_load(&a->state) == TALLY_USED &&
		!strncmp(a->slice, c->v[c->n].slice, sizeof(a->slice)))
		tally_account_drop(&t->tally, a);
	return c->n == 0;
}

void turn_sweep(struct turn *t, bool (*is_slice)(void *arg, const char *slice), void *arg)
{
	struct accounts_call c = { .from = 0 };

	while (!c.over) {
		unsigned int n = 0;

		c.n = 0;
		turn_call(t, list_accounts_step, &c);
		for (unsigned int i = 0; i < c.n; i++) {
			if (!is_slice(arg, c.v[i].slice))
				c.v[n++] = c.v[i];
		}
		c.n = n;
		if (n)
			turn_call(t, drop_account_step, &c);
	}
	sweep_seats(t, NULL);
}

/* ---- memory that was refused ------------------------------------------------------------------ */

struct refusals_call {
	const char *slice;
	const uint8_t *uuid;
	uint64_t n;
	bool good;
};

static bool read_refusals_step(struct turn *t, void *arg)
{
	struct refusals_call *c = arg;
	const struct tally_account *a = tally_account_find(&t->tally, c->slice, c->uuid);

	c->n = a ? tally_get(&a->refusals) : 0;
	return true;
}

uint64_t turn_refusals(struct turn *t, const char *slice, const uint8_t *uuid)
{
	struct refusals_call c = { .slice = slice, .uuid = uuid };

	turn_call(t, read_refusals_step, &c);
	return c.n;
}

static bool keep_refusals_step(struct turn *t, void *arg)
{
	struct refusals_call *c = arg;
	struct tally_account *a = tally_account(&t->tally, c->slice, c->uuid);

	c->good = a != NULL;
	if (a)
		tally_raise(&a->refusals, c->n);
	return true;
}

bool turn_keep_refusals(struct turn *t, const char *slice, const uint8_t *uuid,
	uint64_t refusals)
{
	struct refusals_call c = { .slice = slice, .uuid = uuid, .n = refusals };

	turn_call(t, keep_refusals_step, &c);
	return c.good;
}
