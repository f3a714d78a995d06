/* SPDX-License-Identifier: Apache-2.0 */
#include "io/price/import/import.h"

#include "lib/base/buf.h"
#include "lib/base/escape.h"

#include <jansson.h>

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
			escape_line(where.text));
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
			where.column, escape_line(where.text));
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
