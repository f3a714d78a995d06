/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Selects and sorts the rows of a model for a table.
 * Thread: any (pure).
 */
#include "lib/base/error.h"
#include "tools/cli/top/view/model.h"

#include <stdbool.h>
#include <stddef.h>

enum top_table {
	TOP_PODS,   /* a row for each container on each device */
	TOP_SLICES, /* a row for each replica, allocated or free */
	TOP_GPUS,   /* a row for each device (GPU or MIG device) and each GPU without one */
	TOP_BOARDS, /* a row for each GPU, if the screen has no room for the frame */
	TOP_TABLE_COUNT_,
};

enum top_sort {
	TOP_BY_GPU, /* in the agent's order */
	TOP_BY_NAME,
	TOP_BY_MODE,
	TOP_BY_SHARE,
	TOP_BY_RECEIVED,
	TOP_BY_MEMORY,
	TOP_BY_LIMIT,
	TOP_BY_PEAK,
	TOP_BY_QUANTA,
	TOP_BY_WAITS,
	TOP_BY_COST,
	TOP_SORT_COUNT_,
};

const char *top_sort_name(enum top_sort s);              /* "received" */
int top_sort_find(const char *name, enum top_sort *ret); /* < 0: unknown name */

bool top_sort_fits(enum top_sort s, enum top_table table); /* whether its rows differ in @s */

#define TOP_FILTER_MAX 64

struct top_choice {
	enum top_table table;
	enum top_sort sort;
	bool reverse;   /* the reverse of the natural order: names up, numbers down */
	bool hide_idle; /* hides free, ended, and idle in the last interval */
	char filter[TOP_FILTER_MAX]; /* "": no filter */
};

/* A member that does not apply is NULL. .usage is also NULL for a replica that is free or has an
 * unknown holder. The model owns all. */
struct top_row {
	const struct top_gpu *gpu;
	const struct top_device *device;
	const struct top_replica *replica;
	const struct top_usage *usage;
	size_t order; /* in the agent's order */
};

struct top_rows {
	struct top_row *v; /* owned: free() */
	size_t n, all;     /* rows shown, and rows without the filter */
};

int top_rows_make(struct top_rows *ret, const struct top_model *m, const struct top_choice *c,
	struct error *err) MUST_USE;
void top_rows_fini(struct top_rows *r);

/* Whether no container holds the replica, as far as the kubelet has reported. */
bool top_row_is_free(const struct top_row *r);

/* The usage with the counters and memory of this row. NULL: none, or an earlier replica of the same
 * container shows them. */
const struct top_usage *top_row_figures(const struct top_row *r);

/* Numbers of a row. TOP_UNKNOWN: not known, or does not apply. Shares are of the whole GPU. */
uint64_t top_row_share(const struct top_row *r);
uint64_t top_row_received(const struct top_row *r);
uint64_t top_row_memory(const struct top_row *r);
uint64_t top_row_limit(const struct top_row *r);
uint64_t top_row_cost(const struct top_row *r); /* nano-units an hour */
