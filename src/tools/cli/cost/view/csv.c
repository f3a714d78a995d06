/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/cost/view/view.h"

#include "io/price/price.h"
#include "lib/base/text.h"
#include "lib/base/time.h"
#include "lib/report/table.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/*
 * FOCUS 1.3, dataset Cost and Usage, with split cost allocation. The origin charge is the charge of a
 * node for one bucket of time. Charges of the containers that held GPUs, and one or more charges of
 * unallocated time, replace it. Each column that can be summed sums to the origin charge. The
 * remainder of a division goes to the last row of the bucket, which is an idle row if there is one.
 * Source: https://focus.finops.org/focus-specification
 */

#define METHOD "gpuslice-gpu-time-v1" /* docs/cost.md defines the allocation */

/* The data of one row. */
struct cost_csv_row {
	const struct cost_print *p;
	const struct cost_line *l;
	int64_t quantity_nano; /* share of the node's hours */
	int64_t ratio_nano;    /* share of the bucket */
};

/* --- columns --- */

static void write_csv_money(struct buf *b, int64_t nano)
{
	char text[PRICE_TEXT_MAX];

	buf_puts(b, price_text(nano, 0, text));
}

static void write_csv_hours(struct buf *b, int64_t ns)
{
	char text[COST_HOURS_MAX];

	buf_puts(b, cost_hours(ns, 9, text));
}

static void write_csv_time(struct buf *b, uint64_t s)
{
	char text[TIME_RFC3339_MAX];

	buf_puts(b, cost_time_text(s, text));
}

/* The start of the month of @s (@ahead 0) or of the next month (1). */
static uint64_t get_month_start(uint64_t s, int ahead)
{
	time_t at = (time_t)s;
	struct tm tm = { 0 };

	if (!gmtime_r(&at, &tm))
		return s;
	tm = (struct tm){ .tm_year = tm.tm_year, .tm_mon = tm.tm_mon + ahead, .tm_mday = 1 };
	at = timegm(&tm);
	return at < 0 ? 0 : (uint64_t)at;
}

static bool is_idle(const struct cost_csv_row *c)
{
	return c->l->row.kind == USAGE_DB_UNALLOCATED;
}

/* @o NULL: a name is not UTF-8, and the cell is empty. The agent's usage records have no such name. */
static void json_cell(struct buf *b, json_t *o)
{
	char *text = o ? json_dumps(o, JSON_COMPACT) : strdup("");

	if (text)
		escape_csv(b, text);
	else
		b->failed = true;
	free(text);
	json_decref(o);
}

static void method_details(struct buf *b, const struct cost_csv_row *c)
{
	char ratio[PRICE_TEXT_MAX], quantity[COST_HOURS_MAX], text[256];

	if (c->p->estimated)
		return;
	(void)snprintf(text, sizeof(text),
		"{\"Elements\":[{\"AllocatedRatio\":%s,\"UsageUnit\":\"GPU-Hours\",\"UsageQuantity\":%s}]}",
		price_text(c->ratio_nano, 0, ratio), cost_hours(c->l->row.gpu_ns, 9, quantity));
	escape_csv(b, text);
}

static void allocated_id(struct buf *b, const struct cost_csv_row *c)
{
	const struct usage_db_row *r = &c->l->row;
	CLEANUP(buf_fini) struct buf id = BUF_INIT(4096);

	if (is_idle(c))
		buf_printf(&id, "unused/%s", r->gpu);
	else
		buf_printf(&id, "%s/%s", *r->pod_uid ? r->pod_uid : r->pod, r->container);
	escape_csv(b, buf_str(&id));
}

static void allocated_name(struct buf *b, const struct cost_csv_row *c)
{
	const struct usage_db_row *r = &c->l->row;
	CLEANUP(buf_fini) struct buf name = BUF_INIT(4096);

	if (is_idle(c))
		buf_puts(&name, "unused capacity");
	else
		buf_printf(&name, "%s/%s/%s", r->namespace_, r->pod, r->container);
	escape_csv(b, buf_str(&name));
}

static void allocated_tags(struct buf *b, const struct cost_csv_row *c)
{
	const struct usage_db_row *r = &c->l->row;

	if (!is_idle(c))
		json_cell(b, json_pack("{s:s,s:s,s:s}", "namespace", r->namespace_, "pod",
				     r->pod, "container", r->container));
}

static void write_focus_account(struct buf *b, const struct cost_csv_row *c)
{
	escape_csv(b, c->p->account);
}

static void write_focus_currency(struct buf *b, const struct cost_csv_row *c)
{
	escape_csv(b, c->l->period.currency);
}

static void write_focus_cost(struct buf *b, const struct cost_csv_row *c)
{
	write_csv_money(b, c->l->row.cost_nano);
}

static void billing_end(struct buf *b, const struct cost_csv_row *c)
{
	write_csv_time(b, get_month_start(c->l->period.start_s, 1));
}

static void billing_start(struct buf *b, const struct cost_csv_row *c)
{
	write_csv_time(b, get_month_start(c->l->period.start_s, 0));
}

static void write_focus_description(struct buf *b, const struct cost_csv_row *c)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(4096);

	buf_printf(&text, "%s of %s", is_idle(c) ? "unused GPU time" : "GPU time",
		*c->l->period.node ? c->l->period.node : "a node");
	escape_csv(b, buf_str(&text));
}

static void write_focus_charge_end(struct buf *b, const struct cost_csv_row *c)
{
	write_csv_time(b, c->l->period.end_s);
}

static void charge_start(struct buf *b, const struct cost_csv_row *c)
{
	write_csv_time(b, c->l->period.start_s);
}

static void write_focus_consumed(struct buf *b, const struct cost_csv_row *c)
{
	if (c->l->parts & COST_GPU)
		write_csv_hours(b, c->l->row.gpu_ns);
}

static void consumed_unit(struct buf *b, const struct cost_csv_row *c)
{
	buf_puts(b, c->l->parts & COST_GPU ? "GPU-Hours" : "");
}

/* Prometheus does not have the price of the node, only the resulting costs. */
static void unit_price(struct buf *b, const struct cost_csv_row *c)
{
	if (!c->p->estimated)
		write_csv_money(b, c->l->period.price_nano_per_hour);
}

static void pricing_category(struct buf *b, const struct cost_csv_row *c)
{
	buf_puts(b, c->p->estimated ? "" : "Standard");
}

static void pricing_quantity(struct buf *b, const struct cost_csv_row *c)
{
	if (!c->p->estimated)
		write_csv_money(b, c->quantity_nano);
}

static void pricing_unit(struct buf *b, const struct cost_csv_row *c)
{
	buf_puts(b, c->p->estimated ? "" : "Hours");
}

static void write_focus_provider(struct buf *b, const struct cost_csv_row *c)
{
	escape_csv(b, c->p->provider);
}

static void write_focus_region(struct buf *b, const struct cost_csv_row *c)
{
	escape_csv(b, c->l->period.region);
}

static void write_focus_node(struct buf *b, const struct cost_csv_row *c)
{
	escape_csv(b, c->l->period.node);
}

static void write_focus_sku(struct buf *b, const struct cost_csv_row *c)
{
	escape_csv(b, c->l->period.instance_type);
}

static void sku_price(struct buf *b, const struct cost_csv_row *c)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(4096);

	if (*c->l->period.instance_type)
		buf_printf(&text, "%s/%s", c->l->period.instance_type, c->l->period.region);
	escape_csv(b, buf_str(&text));
}

static void write_focus_device(struct buf *b, const struct cost_csv_row *c)
{
	escape_csv(b, c->l->row.device);
}

static void write_focus_gpu(struct buf *b, const struct cost_csv_row *c)
{
	escape_csv(b, c->l->row.gpu);
}

static void write_focus_mode(struct buf *b, const struct cost_csv_row *c)
{
	escape_csv(b, c->l->row.mode);
}

static void price_source(struct buf *b, const struct cost_csv_row *c)
{
	escape_csv(b, c->l->period.price_source);
}

static void write_focus_resource(struct buf *b, const struct cost_csv_row *c)
{
	escape_csv(b, c->l->row.resource);
}

static void write_focus_held_hours(struct buf *b, const struct cost_csv_row *c)
{
	if (!is_idle(c) && (c->l->parts & COST_ALLOCATED))
		write_csv_hours(b, c->l->row.allocated_ns);
}

static void write_focus_busy_hours(struct buf *b, const struct cost_csv_row *c)
{
	if (!is_idle(c) && (c->l->parts & COST_BUSY) && !c->l->row.busy_unknown)
		write_csv_hours(b, c->l->row.busy_ns);
}

/* Sorted by name; own columns begin with x_ and come last. Each has a text or a function. */
static const struct cost_csv_column {
	const char *name, *text;
	void (*put)(struct buf *b, const struct cost_csv_row *c);
} columns[] = {
	{ "AllocatedMethodDetails", NULL, method_details },
	{ "AllocatedMethodId", METHOD, NULL },
	{ "AllocatedResourceId", NULL, allocated_id },
	{ "AllocatedResourceName", NULL, allocated_name },
	{ "AllocatedTags", NULL, allocated_tags },
	{ "BilledCost", NULL, write_focus_cost },
	{ "BillingAccountId", NULL, write_focus_account },
	{ "BillingAccountName", "", NULL },
	{ "BillingCurrency", NULL, write_focus_currency },
	{ "BillingPeriodEnd", NULL, billing_end },
	{ "BillingPeriodStart", NULL, billing_start },
	{ "ChargeCategory", "Usage", NULL },
	{ "ChargeClass", "", NULL },
	{ "ChargeDescription", NULL, write_focus_description },
	{ "ChargeFrequency", "Usage-Based", NULL },
	{ "ChargePeriodEnd", NULL, write_focus_charge_end },
	{ "ChargePeriodStart", NULL, charge_start },
	{ "ConsumedQuantity", NULL, write_focus_consumed },
	{ "ConsumedUnit", NULL, consumed_unit },
	{ "ContractedCost", NULL, write_focus_cost },
	{ "ContractedUnitPrice", NULL, unit_price },
	{ "EffectiveCost", NULL, write_focus_cost },
	{ "HostProviderName", NULL, write_focus_provider },
	{ "InvoiceIssuerName", NULL, write_focus_provider },
	{ "ListCost", NULL, write_focus_cost },
	{ "ListUnitPrice", NULL, unit_price },
	{ "PricingCategory", NULL, pricing_category },
	{ "PricingQuantity", NULL, pricing_quantity },
	{ "PricingUnit", NULL, pricing_unit },
	{ "ProviderName", NULL, write_focus_provider },
	{ "PublisherName", NULL, write_focus_provider },
	{ "RegionId", NULL, write_focus_region },
	{ "ResourceId", NULL, write_focus_node },
	{ "ResourceName", NULL, write_focus_node },
	{ "ResourceType", "Kubernetes node", NULL },
	{ "ServiceCategory", "Compute", NULL },
	{ "ServiceName", "Virtual machines with GPUs", NULL },
	{ "ServiceProviderName", NULL, write_focus_provider },
	{ "ServiceSubcategory", "Virtual Machines", NULL },
	{ "SkuId", NULL, write_focus_sku },
	{ "SkuPriceId", NULL, sku_price },
	{ "x_BusyGpuHours", NULL, write_focus_busy_hours },
	{ "x_DeviceId", NULL, write_focus_device },
	{ "x_GpuId", NULL, write_focus_gpu },
	{ "x_HeldHours", NULL, write_focus_held_hours },
	{ "x_Mode", NULL, write_focus_mode },
	{ "x_PriceSource", NULL, price_source },
	{ "x_ResourceName", NULL, write_focus_resource },
};

/* --- rows --- */

static void write_focus_row(struct buf *b, const struct cost_csv_row *c)
{
	for (size_t i = 0; i < ARRAY_LEN(columns); i++) {
		if (i > 0)
			buf_putc(b, ',');
		if (columns[i].put)
			columns[i].put(b, c);
		else
			buf_puts(b, columns[i].text);
	}
	buf_puts(b, "\r\n");
}

static bool same_bucket(const struct cost_line *a, const struct cost_line *b)
{
	return a->period.start_s == b->period.start_s && a->period.end_s == b->period.end_s &&
	       a->period.price_nano_per_hour == b->period.price_nano_per_hour &&
	       a->period.gpus == b->period.gpus && !strcmp(a->period.node, b->period.node) &&
	       !strcmp(a->period.instance_type, b->period.instance_type) &&
	       !strcmp(a->period.region, b->period.region) &&
	       !strcmp(a->period.currency, b->period.currency) &&
	       !strcmp(a->period.price_source, b->period.price_source);
}

/* The rows of one bucket. Splits the node's hours and the ratio 1 among them in proportion to GPU
 * time. */
static int print_bucket(struct buf *b, const struct cost_print *p,
	const struct cost_line *const *lines, size_t n, struct error *err)
{
	const struct usage_db_period *period = &lines[0]->period;
	CLEANUP(freep) int64_t *weights = calloc(n * 3, sizeof(*weights));
	int64_t *quantities = weights ? weights + n : NULL,
		*ratios = weights ? weights + 2 * n : NULL;

	if (!weights)
		return error_nomem(err);
	for (size_t i = 0; i < n; i++)
		weights[i] = lines[i]->row.gpu_ns;
	/* covered_ns / 3600: nanoseconds become billionths of an hour. */
	price_split(period->covered_ns / 3600, weights, quantities, n);
	price_split(PRICE_NANO, weights, ratios, n);
	for (size_t i = 0; i < n; i++)
		write_focus_row(b,
			&(struct cost_csv_row){ p, lines[i], quantities[i], ratios[i] });
	return 0;
}

/* FOCUS allows no charge with an unknown cost. */
static int check_costs(const struct cost_print *p, const struct cost_line *const *lines,
	size_t n, struct error *err)
{
	for (size_t i = 0; i < n; i++) {
		const struct usage_db_period *of = &lines[i]->period;
		CLEANUP(buf_fini) struct buf node = BUF_INIT(4096);
		char from[TIME_RFC3339_MAX], to[TIME_RFC3339_MAX];

		if ((cost_line_is_known(lines[i]) & COST_MONEY) && *of->currency)
			continue;
		table_text(&node, *of->node ? of->node : "this node");
		return error_set(err, ERR_INVALID,
			"--output csv: BilledCost: expected the price of %s from %s to %s, found none: %s",
			buf_str(&node), cost_time_text(of->start_s, from),
			cost_time_text(of->end_s, to),
			p->estimated ? "give its agent one (gpusliced --price)"
				     : "give one with --price, or ask for a time with a price");
	}
	return 0;
}

int cost_print_csv(struct buf *b, const struct cost_print *p, struct error *err)
{
	size_t n, end;
	const struct cost_line *const *lines = cost_summary_lines(p->summary, &n);

	if (check_costs(p, lines, n, err) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(columns); i++)
		buf_printf(b, "%s%s", i ? "," : "", columns[i].name);
	buf_puts(b, "\r\n");
	for (size_t i = 0; i < n; i = end) {
		for (end = i + 1; end < n && same_bucket(lines[i], lines[end]);)
			end++;
		if (print_bucket(b, p, lines + i, end - i, err) < 0)
			return -1;
	}
	return buf_ok(b)
		       ? 0
		       : error_set(err, ERR_LIMIT,
				 "more than %zu bytes of CSV; ask for a shorter time", b->max);
}
