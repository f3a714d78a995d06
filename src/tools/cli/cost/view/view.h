/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What `gpuslice cost` adds up and prints: sums of charges, a price from the user, the queries for
 * Prometheus, and the sums as a table, as JSON and as CSV. Pure, except for the C library's calendar in
 * UTC; tools/cli/cmd-cost.c reads the usage records and asks the server.
 * Thread: any; a summary: the owner's.
 */
#include "io/usage-db/usage-db.h"
#include "lib/base/buf.h"
#include "lib/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- sums --- */

/*
 * Sums charges by what the user asks for. Two sources feed it with rows in the form of the usage
 * records: the usage-db and a Prometheus server. The printers read the sums in order.
 */

#define COST_LINES_MAX 1000000 /* sums in one summary */
#define COST_NODES_MAX 1000    /* nodes and prices in one summary */

enum cost_by {
	COST_BY_NAMESPACE,
	COST_BY_POD,
	COST_BY_CONTAINER,
	COST_BY_GPU,
	COST_BY_MODE,
	COST_BY_CHARGE, /* no sums: every row of every bucket, for CSV */
};

/* The known numbers of a row. The others are unknown, not 0. */
enum cost_field {
	COST_ALLOCATED = 1 << 0,
	COST_GPU = 1 << 1,
	COST_BUSY = 1 << 2,
	COST_MONEY = 1 << 3,
	COST_MEMORY = 1 << 4,
	COST_ALL = COST_ALLOCATED | COST_GPU | COST_BUSY | COST_MONEY | COST_MEMORY,
};

/* A sum. Texts that the user did not ask for are "". */
struct cost_line {
	struct usage_db_period period; /* only .currency, except with COST_BY_CHARGE */
	struct usage_db_row row;
	unsigned parts; /* enum cost_field: known in some of its rows */
	unsigned lacks; /* unknown in some of its rows */
	bool folded;    /* private */
};

/* The fields that all rows of a sum have. COST_BUSY may also be known in part (row.busy_unknown). */
static inline unsigned cost_line_is_known(const struct cost_line *l)
{
	return l->parts & ~(l->lacks & ~(unsigned)COST_BUSY);
}

/* The sum of all rows of a node at one price. */
struct cost_node {
	/* .start_s is that of the first bucket, .end_s that of the last one. */
	struct usage_db_period period;
};

struct cost_summary;

/* Makes an empty summary, which the caller frees. ERR_NOMEM. */
int cost_summary_new(struct cost_summary **ret, enum cost_by by, struct error *err) MUST_USE;
struct cost_summary *cost_summary_free(struct cost_summary *summary); /* returns NULL */
DEFINE_CLEANUP(struct cost_summary *, cost_summary_free)

/*
 * Adds one row, and copies its texts. @parts: bits of enum cost_field, the known numbers of the row. ERR_LIMIT: more
 * than COST_LINES_MAX sums or COST_NODES_MAX nodes.
 */
int cost_summary_add(struct cost_summary *summary, const struct usage_db_period *p,
	const struct usage_db_row *row, unsigned parts, struct error *err) MUST_USE;

/*
 * Adds the lines of @from, a COST_BY_CHARGE summary. The fields of its lines came one by one, so a
 * field that is missing in a line now is unknown. A line without a currency joins the line with the
 * same key and a currency.
 */
int cost_summary_merge(struct cost_summary *to, struct cost_summary *from,
	struct error *err) MUST_USE;

/* The lines, sorted by bucket and names; within a bucket idle lines come last. The summary owns
 * them. */
const struct cost_line *const *cost_summary_lines(struct cost_summary *summary, size_t *ret_n);
const struct cost_node *cost_summary_nodes(const struct cost_summary *summary, size_t *ret_n);

/* *ret: the sum of all lines of one currency; its other texts are NULL. ERR_LIMIT: the sum is too large, even if
 * each line fits. */
int cost_summary_total(struct cost_summary *summary, const char *currency,
	struct cost_line *ret, struct error *err) MUST_USE;

/* The currencies of the summary, in order: @i from 0; NULL after the last. */
const char *cost_summary_currency(struct cost_summary *summary, size_t i);

/* --- a price from the user --- */

/*
 * Puts buckets of the usage records into a summary. If @price_nano is 0 or more, it replaces the price
 * of the node: each row pays for its GPU time, and the rest of the bucket's price goes to the bucket's
 * last idle row.
 */
struct cost_reprice {
	struct cost_summary *summary;
	int64_t price_nano; /* per hour; < 0: the price in the usage records */
	const char *currency;
	struct usage_db_period period; /* the current bucket; owns its texts */
	int64_t remaining_nano;
	char idle_gpu[USAGE_DB_DEVICE_MAX + 1]; /* GPU of the last idle row; "": none so far */
	bool open;
};

/*
 * A callback of type usage_db_each, with a struct cost_reprice: adds a row, or without @row the bucket @p itself.
 * The costs are those of the usage records, or with .price_nano those of that price.
 */
int cost_summary_add_record(void *reprice, const struct usage_db_period *p,
	const struct usage_db_row *row, struct error *err);
/*
 * After the last row: gives the rest of the last bucket's price to the bucket's last idle row. Frees what @r
 * owns, also on an error.
 */
int cost_reprice_end(struct cost_reprice *r, struct error *err) MUST_USE;
void cost_reprice_fini(struct cost_reprice *r);

/* --- from a Prometheus server --- */

/*
 * Costs of a cluster from a Prometheus server: the queries, and the conversion of the answers into a
 * summary. The server estimates an increase from its samples. So its sums are near those of the usage
 * records, not equal.
 */

#define COST_SERIES_MAX 200000 /* in one answer */

struct cost_query {
	const char *metric;
	enum usage_db_kind kind;
	enum cost_field part;
};

/* The command sends all of them; the order does not matter. */
extern const struct cost_query cost_queries[];
extern const size_t cost_n_queries;

/* The PromQL expression for a range of @seconds. */
void cost_query_text(struct buf *b, const struct cost_query *q, uint64_t seconds);

/*
 * Adds the answer @json of /api/v1/query to @summary, which is COST_BY_CHARGE. The caller merges
 * @summary into another summary after the last answer. Errors say what is wrong with the answer. They
 * include the server's own text, cut and without control characters. Values that are not numbers are
 * ignored.
 */
int cost_query_read(struct cost_summary *summary, const struct cost_query *q, const char *json,
	size_t len, uint64_t from_s, uint64_t to_s, struct error *err) MUST_USE;

/* --- printers --- */

/*
 * A cost summary as a table, as JSON and as CSV for FinOps tools. Amounts are exact decimals made from
 * integers. Names come from outside: no control character reaches the terminal, and no CSV cell begins
 * like a spreadsheet formula.
 */

struct cost_print {
	struct cost_summary *summary;
	enum cost_by by;
	uint64_t from_s, to_s;          /* as requested */
	bool estimated;                 /* from Prometheus: no buckets, no exact sums */
	const char *provider, *account; /* for the CSV */
};

#define COST_TEXT_MAX (256U << 20) /* bytes; limit of the output buffer */

/* Append the table or the JSON document to @b. ERR_LIMIT: as cost_summary_total(). ERR_NOMEM. */
int cost_print_table(struct buf *b, const struct cost_print *p, struct error *err) MUST_USE;
int cost_print_json(struct buf *b, const struct cost_print *p, struct error *err) MUST_USE;

/* FOCUS 1.3, Cost and Usage, a row for each charge. The summary must be COST_BY_CHARGE. */
int cost_print_csv(struct buf *b, const struct cost_print *p, struct error *err) MUST_USE;

/* --- cells --- */

/* Nanoseconds as hours, such as "1.5": @decimals below 9 are rounded half up; 9 or more are rounded
 * down to 9. */
#define COST_HOURS_MAX 32
const char *cost_hours(int64_t ns, unsigned decimals, char *buf);

/* --- times of a command line --- */

/*
 * @text as seconds since 1970. Forms: "now"; a duration before @now_s ("24h", "24h ago", "7d",
 * "1h30m"); a day ("2026-11-01": its start in UTC); RFC 3339 ("2026-11-01T12:00:00Z", "2026-11-01
 * 12:00+02:00"). Fractions of a second are ignored. @option: the option's name for errors.
 */
int cost_time_parse(uint64_t *ret_s, const char *option, const char *text, uint64_t now_s,
	struct error *err) MUST_USE;

/* Writes "2026-11-01T12:00:00Z" into @buf of TIME_RFC3339_MAX bytes, and returns @buf. */
const char *cost_time_text(uint64_t s, char *buf);
