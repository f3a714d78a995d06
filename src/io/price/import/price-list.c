/* SPDX-License-Identifier: Apache-2.0 */
/* Reads AWS's Price List, in bulk or as a query prints it, into the catalogue (import.h). */
#include "io/price/import/import.h"

#include "lib/base/array.h"
#include "lib/base/buf.h"
#include "io/price/import/stream.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- the Price List in bulk --- */

/*
 * AWS's Price List in bulk: products by SKU with their attributes, then terms by SKU with their
 * prices. The file of a region has hundreds of megabytes, so the reader is a stream. The reader keeps
 * only the SKUs that are Linux on demand, of types that the catalogue knows.
 */

#define SKUS_MAX 200000
#define DAY_LEN  10 /* "2026-11-01" */

/* Required attributes of a product, in the order of the bits of struct product.has. */
static const struct {
	const char *key, *value;
	bool within; /* the attribute contains the value */
} wanted[] = {
	{ "operatingSystem", "Linux", false },
	{ "preInstalledSw", "NA", false },
	{ "capacitystatus", "Used", false },
	{ "marketoption", "OnDemand", false },
	{ "usagetype", "BoxUsage", true },
};

struct product {
	char type[STREAM_WORD_MAX], region[STREAM_WORD_MAX];
	unsigned has; /* bits: rows of the table */
	bool compute, metal;
	bool shared, dedicated; /* tenancy */
	bool gpu;
};

struct sku {
	char name[24];
	const char *type; /* text of the catalogue */
	char region[PRICE_NAME_MAX];
};

struct price_list {
	struct price_stream stream;
	struct price_catalogue *c;
	const struct price_file *file;
	struct product product;
	struct sku *skus;
	size_t n, room, found, too_many;
	struct strv unknown;
	bool sorted;
	char day[DAY_LEN + 1], currency[4];
};

/* --- products --- */

static int compare_skus(const void *a, const void *b)
{
	return strcmp(((const struct sku *)a)->name, ((const struct sku *)b)->name);
}

static bool is_wanted(const struct product *p)
{
	return p->compute && (p->metal ? p->dedicated : p->shared) &&
	       p->has == (1U << ARRAY_LEN(wanted)) - 1 && *p->type && *p->region;
}

/* Keeps the product whose object has just ended. */
static int save_listed_product(struct price_list *l, const char *name, struct error *err)
{
	const struct product *p = &l->product;
	const struct price_type *t = is_wanted(p) ? price_type_find(l->c, p->type) : NULL;
	struct sku *s;

	if (!t && is_wanted(p) && p->gpu && import_unknown_add(&l->unknown, p->type, err) < 0)
		return -1;
	if (!t || strlen(name) >= sizeof(s->name) || strlen(p->region) >= sizeof(s->region))
		return 0;
	if (l->n == SKUS_MAX) {
		l->too_many++;
		return 0;
	}
	if (!ARRAY_GROW(&l->skus, l->n, &l->room, SKUS_MAX))
		return error_nomem(err);
	s = &l->skus[l->n++];
	(void)snprintf(s->name, sizeof(s->name), "%s", name);
	(void)snprintf(s->region, sizeof(s->region), "%s", p->region);
	s->type = t->name;
	l->sorted = false;
	return 0;
}

/* Bare metal has no other tenants: its tenancy is Dedicated. */
static void read_product_family(struct product *p, const char *value)
{
	p->metal = !strcmp(value, "Compute Instance (bare metal)");
	p->compute = p->metal || !strcmp(value, "Compute Instance");
}

/* "2026-11-01". Other text is not kept, as terminals show the day. */
static bool is_list_day(const char *text)
{
	for (size_t i = 0; i < DAY_LEN; i++)
		if (i == 4 || i == 7 ? text[i] != '-' : text[i] < '0' || text[i] > '9')
			return false;
	return true;
}

static bool is_list_currency(const char *text)
{
	for (size_t i = 0; i < 3; i++)
		if (text[i] < 'A' || text[i] > 'Z')
			return false;
	return !text[3];
}

static void read_product_attribute(struct product *p, const char *key, const char *value)
{
	if (!strcmp(key, "instanceType"))
		(void)snprintf(p->type, sizeof(p->type), "%s", value);
	else if (!strcmp(key, "regionCode"))
		(void)snprintf(p->region, sizeof(p->region), "%s", value);
	else if (!strcmp(key, "tenancy")) {
		p->shared = !strcmp(value, "Shared");
		p->dedicated = !strcmp(value, "Dedicated");
	}
	p->gpu |= !strcmp(key, "gpu");
	for (size_t i = 0; i < ARRAY_LEN(wanted); i++)
		if (!strcmp(key, wanted[i].key) &&
			(wanted[i].within ? strstr(value, wanted[i].value) != NULL
					  : !strcmp(value, wanted[i].value)))
			p->has |= 1U << i;
}

/* --- prices --- */

static int read_sku_price(struct price_list *l, const char *sku, const char *currency,
	const char *value, struct error *err)
{
	struct price_amendment a = { .what = PRICE_IS_ON_DEMAND, .rank = PRICE_RANK_AWS };
	const struct sku *s;
	struct sku key = { .type = NULL };

	if (strlen(sku) >= sizeof(key.name) || !l->n)
		return 0;
	if (!l->sorted)
		qsort(l->skus, l->n, sizeof(*l->skus), compare_skus);
	l->sorted = true;
	(void)snprintf(key.name, sizeof(key.name), "%s", sku);
	s = bsearch(&key, l->skus, l->n, sizeof(*l->skus), compare_skus);
	if (!s)
		return 0;
	if (!price_parse(value, &a.low))
		return error_set(err, ERR_INVALID,
			"%s: pricePerUnit of SKU %s: expected an amount, found '%.40s'",
			l->stream.name, sku, value);
	if (!a.low || !is_list_currency(currency))
		return 0;
	if (!l->file) {
		(void)snprintf(l->currency, sizeof(l->currency), "%.3s", currency);
		l->file = price_source_add(l->c, l->stream.name, l->currency, l->day, err);
		if (!l->file)
			return -1;
	}
	if (strcmp(currency, l->currency) != 0)
		return 0;
	a.type = s->type;
	a.region = s->region;
	a.file = l->file;
	l->found++;
	return price_amend(l->c, &a, err) < 0 ? -1 : 0;
}

/* --- the stream --- */

/* products.SKU.attributes.KEY; terms.OnDemand.SKU.TERM.priceDimensions.RATE.pricePerUnit.CURRENCY */
static int on_price_list_value(void *arg, const char *value, struct error *err)
{
	struct price_list *l = arg;
	const struct price_stream *s = &l->stream;
	const char *key = stream_key(s);

	if (stream_at(s, 1, "publicationDate", NULL) && is_list_day(value))
		(void)snprintf(l->day, sizeof(l->day), "%.10s", value);
	else if (stream_at(s, 3, "products", NULL) && !strcmp(key, "productFamily"))
		read_product_family(&l->product, value);
	else if (stream_at(s, 4, "products", NULL) && !strcmp(s->path[2], "attributes"))
		read_product_attribute(&l->product, key, value);
	else if (stream_at(s, 8, "terms", "OnDemand") &&
		 !strcmp(s->path[4], "priceDimensions") && !strcmp(s->path[6], "pricePerUnit"))
		return read_sku_price(l, s->path[2], key, value, err);
	return 0;
}

static int on_price_list_begin(void *arg, struct error *err)
{
	struct price_list *l = arg;

	(void)err;
	if (stream_at(&l->stream, 2, "products", NULL))
		l->product = (struct product){ .has = 0 };
	return 0;
}

static int on_price_list_end(void *arg, struct error *err)
{
	struct price_list *l = arg;

	return stream_at(&l->stream, 2, "products", NULL)
		       ? save_listed_product(l, l->stream.path[1], err)
		       : 0;
}

int price_list_new(struct price_list **ret, struct price_catalogue *c, const char *name,
	struct error *err)
{
	struct price_list *l = calloc(1, sizeof(*l));

	if (!l)
		return error_nomem(err);
	l->c = c;
	l->stream = (struct price_stream){ .name = name,
		.value = on_price_list_value,
		.begin = on_price_list_begin,
		.end = on_price_list_end,
		.arg = l };
	if (stream_init(&l->stream, err) < 0) {
		free(l);
		return -1;
	}
	*ret = l;
	return 0;
}

struct price_list *price_list_free(struct price_list *l)
{
	if (!l)
		return NULL;
	import_stream_fini(&l->stream);
	free(l->skus);
	strv_fini(&l->unknown);
	free(l);
	return NULL;
}

int price_list_feed(struct price_list *l, const char *text, size_t len, struct error *err)
{
	return stream_feed(&l->stream, text, len, err);
}

int price_list_end(struct price_list *l, struct strv *warnings, struct error *err)
{
	if (stream_end(&l->stream, err) < 0)
		return -1;
	import_unknown_warn(&l->unknown, l->stream.name, warnings);
	if (!l->found)
		import_warn(warnings,
			"%s: no price on demand of a type with GPUs that the catalogue knows",
			l->stream.name);
	if (l->too_many)
		import_warn(warnings, "%s: more than %d products, %zu are left out",
			l->stream.name, SKUS_MAX, l->too_many);
	return 0;
}

/* --- the Price List of a query --- */

/*
 * The output of `aws pricing get-products`: PriceList is an array of texts, each the JSON of one
 * product with its terms. Together they are a Price List in bulk.
 */

struct bulk {
	json_t *root, *products, *on_demand;
};

static void bulk_fini(struct bulk *b)
{
	json_decref(b->root);
}

static int bulk_init(struct bulk *b, struct error *err)
{
	b->root = json_pack("{s:s, s:{}, s:{s:{}}}", "publicationDate", "", "products", "terms",
		"OnDemand");
	if (!b->root)
		return error_nomem(err);
	b->products = json_object_get(b->root, "products");
	b->on_demand = json_object_get(json_object_get(b->root, "terms"), "OnDemand");
	return 0;
}

static int bulk_add(struct bulk *b, json_t *entry, const char *name, size_t at,
	struct error *err)
{
	json_t *product = json_object_get(entry, "product");
	json_t *terms = json_object_get(json_object_get(entry, "terms"), "OnDemand");
	json_t *day = json_object_get(entry, "publicationDate");
	const char *sku = json_string_value(json_object_get(product, "sku"));

	if (!sku)
		return error_set(err, ERR_INVALID,
			"%s: PriceList[%zu]: expected a product with a sku", name, at);
	if (json_object_set(b->products, sku, product) < 0 ||
		(terms && json_object_set(b->on_demand, sku, terms) < 0) ||
		(day && json_object_set(b->root, "publicationDate", day) < 0))
		return error_nomem(err);
	return 0;
}

/* An entry is a text that contains JSON; some tools have parsed it into an object. */
static int read_query_entry(struct bulk *b, json_t *entry, const char *name, size_t at,
	struct error *err)
{
	const char *text = json_string_value(entry);
	json_error_t where;
	json_t *inner;
	int got;

	if (!text)
		return bulk_add(b, entry, name, at, err);
	inner = json_loadb(text, json_string_length(entry), 0, &where);
	if (!inner)
		return error_set(err, ERR_INVALID, "%s: PriceList[%zu]: %s", name, at,
			where.text);
	got = bulk_add(b, inner, name, at, err);
	json_decref(inner);
	return got;
}

static int read_query_list(struct bulk *b, const json_t *list, const char *name,
	struct error *err)
{
	if (!json_is_array(list))
		return error_set(err, ERR_INVALID, "%s: PriceList: expected a list", name);
	for (size_t i = 0; i < json_array_size(list); i++)
		if (read_query_entry(b, json_array_get(list, i), name, i, err) < 0)
			return -1;
	return 0;
}

static int feed_some(const char *text, size_t len, void *arg)
{
	struct buf *to = arg;

	buf_add(to, text, len);
	return buf_ok(to) ? 0 : -1;
}

int price_query_read(struct price_catalogue *c, const char *name, const char *text, size_t len,
	struct strv *warnings, struct error *err)
{
	CLEANUP(bulk_fini) struct bulk b = { 0 };
	CLEANUP(price_list_freep) struct price_list *l = NULL;
	CLEANUP(buf_fini) struct buf bulk = BUF_INIT(IMPORT_FILE_MAX);
	json_error_t where;
	json_t *root = json_loadb(text, len, 0, &where);
	int got;

	if (!root)
		return error_set(err, ERR_INVALID, "%s:%d:%d: %s", name, where.line,
			where.column, where.text);
	got = bulk_init(&b, err) < 0 ||
	      read_query_list(&b, json_object_get(root, "PriceList"), name, err) < 0;
	json_decref(root);
	if (got)
		return -1;
	if (json_dump_callback(b.root, feed_some, &bulk, JSON_COMPACT) < 0)
		return error_set(err, ERR_LIMIT, "%s: more than %u bytes", name,
			IMPORT_FILE_MAX);
	if (price_list_new(&l, c, name, err) < 0 ||
		price_list_feed(l, buf_str(&bulk), bulk.len, err) < 0)
		return -1;
	return price_list_end(l, warnings, err);
}
