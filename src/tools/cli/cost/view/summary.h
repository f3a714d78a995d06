/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Charges added up by what the user asks for. Both sources, the ledger and a Prometheus server, put
 * rows of the ledger's form into it; the printers take the sums out in order.
 * Thread: whoever owns it.
 */
#include "io/usage-db/usage-db.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COST_LINES_MAX 1000000 /* sums in one book */
#define COST_NODES_MAX 1000    /* nodes and prices in one */

enum cost_by {
	COST_BY_NAMESPACE,
	COST_BY_POD,
	COST_BY_CONTAINER,
	COST_BY_GPU,
	COST_BY_MODE,
	COST_BY_CHARGE, /* every row of every bucket for itself: what CSV prints */
};

/* Which numbers of a row are known; the others are not 0 but unknown. */
enum cost_field {
	COST_ALLOCATED = 1 << 0,
	COST_GPU = 1 << 1,
	COST_BUSY = 1 << 2,
	COST_MONEY = 1 << 3,
	COST_MEMORY = 1 << 4,
	COST_ALL = COST_ALLOCATED | COST_GPU | COST_BUSY | COST_MONEY | COST_MEMORY,
};

/* A sum. Texts that were not asked for are "". */
struct cost_line {
	struct usage_db_period period; /* but for COST_BY_CHARGE only .currency */
	struct usage_db_row row;
	unsigned parts; /* enum cost_field: known of some of its rows */
	unsigned lacks; /* not known of some of its rows */
	bool folded;    /* private */
};

/* What is known of all rows of a sum; a time that was used may be known in part (row.busy_unknown). */
static inline unsigned cost_line_is_known(const struct cost_line *l)
{
	return l->parts & ~(l->lacks & ~(unsigned)COST_BUSY);
}

/* A node at one price: what all its rows come to. */
struct cost_node {
	struct usage_db_period
		period; /* .start_s to .end_s: from its first to its last bucket */
};

struct cost_summary;

int cost_summary_new(struct cost_summary **ret, enum cost_by by, struct error *err) MUST_USE;
struct cost_summary *cost_summary_free(struct cost_summary *b); /* returns NULL */
DEFINE_CLEANUP(struct cost_summary *, cost_summary_free)

/* Adds one row; copies the texts. */
int cost_summary_add(struct cost_summary *b, const struct usage_db_period *p,
	const struct usage_db_row *row, unsigned parts, struct error *err) MUST_USE;

/*
 * Adds the lines of @from, of which the parts came one by one (COST_BY_CHARGE): what now is missing in one of them is
 * not known. Those without a currency go with the same row that has one.
 */
int cost_summary_merge(struct cost_summary *to, struct cost_summary *from,
	struct error *err) MUST_USE;

/* Adds a bucket of a node: covered time and price. */
int cost_summary_add_node(struct cost_summary *b, const struct usage_db_period *p,
	struct error *err) MUST_USE;

/* The lines in order, by time and names, idle ones last in a bucket. Borrowed from the book. */
const struct cost_line *const *cost_summary_lines(struct cost_summary *b, size_t *ret_n);
const struct cost_node *cost_summary_nodes(const struct cost_summary *b, size_t *ret_n);

/* The sum of all lines of one currency, of all kinds or of one; texts are "". */
struct cost_line cost_summary_total(struct cost_summary *b, const char *currency);

/* The currencies in the book, in order; @i from 0, NULL behind the last. */
const char *cost_summary_currency(struct cost_summary *b, size_t i);

/* ---- a price of the user's -------------------------------------------------------------------- */

/*
 * Puts buckets of the ledger into a book, with the price of the node replaced if @price_nano is 0 or
 * more: every row pays for its GPU time, and what is left of the bucket's price goes to its last idle
 * row.
 */
struct cost_reprice {
	struct cost_summary *summary;
	int64_t price_nano; /* per hour; < 0: what the ledger says */
	const char *currency;
	struct usage_db_period period; /* the bucket at hand; texts are owned */
	int64_t remaining_nano;
	char idle_gpu[USAGE_DB_DEVICE_MAX + 1]; /* of that row; "": none so far */
	bool open;
};

/* A usage_db_each. */
int cost_reprice_each(void *reprice, const struct usage_db_period *p,
	const struct usage_db_row *row, struct error *err);
int cost_reprice_end(struct cost_reprice *r, struct error *err) MUST_USE;
void cost_reprice_fini(struct cost_reprice *r);
