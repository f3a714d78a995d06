/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which rows of a model are looked at, and in what order.
 * Thread: any (pure).
 */
#include "lib/base/error.h"
#include "tools/cli/top/view/model.h"

#include <stdbool.h>
#include <stddef.h>

enum top_table {
	TOP_PODS,   /* a row for each container on each unit */
	TOP_SLICES, /* a row for each seat, held or free */
	TOP_GPUS,   /* a row for each unit: GPU or MIG device */
	TOP_BOARDS, /* a row for each GPU, where there is no room for their frame */
	TOP_TABLE_COUNT_,
};

enum top_sort {
	TOP_BY_GPU, /* as the agent lists them */
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
int top_sort_find(const char *name, enum top_sort *ret); /* < 0: no such name */

bool top_sort_fits(enum top_sort s, enum top_table table); /* whether its rows differ in that */

#define TOP_FILTER_MAX 64

struct top_choice {
	enum top_table table;
	enum top_sort sort;
	bool reverse;   /* the other way round than the natural one: names up, numbers down */
	bool hide_idle; /* what is free, has ended, or did nothing in the last interval */
	char filter[TOP_FILTER_MAX]; /* "": all */
};

/* What does not apply is NULL; .usage is NULL for a seat that is free, or of which nothing is known. Borrowed from the model. */
struct top_row {
	const struct top_gpu *gpu;
	const struct top_device *device;
	const struct top_replica *replica;
	const struct top_usage *usage;
	size_t order; /* as the agent lists them */
};

struct top_rows {
	struct top_row *v; /* yours: free() */
	size_t n, all;     /* shown, and how many there are without filter */
};

int top_rows_make(struct top_rows *ret, const struct top_model *m, const struct top_choice *c,
	struct error *err) MUST_USE;
void top_rows_fini(struct top_rows *r);

/* A seat that no container holds, as the kubelet has said. */
bool top_row_is_free(const struct top_row *r);

/* Whose counters and memory stand in this row; NULL: nobody's, as the container has an earlier seat where they do. */
const struct top_usage *top_row_figures(const struct top_row *r);

/* Numbers of a row; TOP_UNKNOWN: not known, or does not apply. Shares are of the whole GPU. */
uint64_t top_row_share(const struct top_row *r);
uint64_t top_row_received(const struct top_row *r);
uint64_t top_row_memory(const struct top_row *r);
uint64_t top_row_limit(const struct top_row *r);
uint64_t top_row_cost(const struct top_row *r); /* nano-units an hour */
