/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/cost/view/summary.h"

#include "io/price/price.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_HOUR INT64_C(3600000000000)

__extension__ typedef __int128 wide;

static int64_t cap_cost_nano(wide v, int64_t max)
{
	return v < max ? (int64_t)v : max;
}

/* The part of the bucket's price that a row pays. Never more than the rest of the price. */
static int64_t get_repriced_cost(const struct cost_reprice *r, const struct usage_db_row *row)
{
	wide v;

	if (r->period.gpus == 0)
		return 0;
	v = (wide)r->price_nano * row->gpu_ns / ((wide)NS_PER_HOUR * r->period.gpus);
	return cap_cost_nano(v, r->remaining_nano);
}

void cost_reprice_fini(struct cost_reprice *r)
{
	free((void *)(uintptr_t)r->period.node);
	free((void *)(uintptr_t)r->period.instance_type);
	free((void *)(uintptr_t)r->period.region);
	r->period = (struct usage_db_period){ .node = NULL };
	r->open = false;
}

static int begin_repriced_period(struct cost_reprice *r, const struct usage_db_period *p,
	struct error *err)
{
	r->period = *p;
	r->period.node = strdup(p->node);
	r->period.instance_type = strdup(p->instance_type);
	r->period.region = strdup(p->region);
	r->open = true;
	r->idle_gpu[0] = '\0';
	if (!r->period.node || !r->period.instance_type || !r->period.region)
		return error_nomem(err);
	r->period.currency = r->currency;
	r->period.price_source = "--price";
	r->period.price_nano_per_hour = r->price_nano;
	r->period.cost_nano =
		cap_cost_nano((wide)r->price_nano * p->covered_ns / NS_PER_HOUR, INT64_MAX);
	r->remaining_nano = r->period.cost_nano;
	return cost_summary_add_node(r->summary, &r->period, err);
}

int cost_reprice_end(struct cost_reprice *r, struct error *err)
{
	const struct usage_db_row rest = { .kind = USAGE_DB_UNALLOCATED,
		.gpu = r->idle_gpu,
		.cost_nano = r->remaining_nano };
	int got = 0;

	if (r->open && r->remaining_nano > 0)
		got = cost_summary_add(r->summary, &r->period, &rest, COST_ALL, err);
	cost_reprice_fini(r);
	return got;
}

int cost_reprice_each(void *reprice, const struct usage_db_period *p,
	const struct usage_db_row *row, struct error *err)
{
	struct cost_reprice *r = reprice;
	struct usage_db_row now;

	if (r->price_nano < 0)
		return row ? cost_summary_add(r->summary, p, row, COST_ALL, err)
			   : cost_summary_add_node(r->summary, p, err);
	if (!row) {
		if (cost_reprice_end(r, err) < 0)
			return -1;
		return begin_repriced_period(r, p, err);
	}
	if (row->kind == USAGE_DB_UNALLOCATED)
		(void)snprintf(r->idle_gpu, sizeof(r->idle_gpu), "%s", row->gpu);
	now = *row;
	now.cost_nano = get_repriced_cost(r, row);
	r->remaining_nano -= now.cost_nano;
	return cost_summary_add(r->summary, &r->period, &now, COST_ALL, err);
}
