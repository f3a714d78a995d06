/* SPDX-License-Identifier: Apache-2.0 */
#include "price/import/import.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yajl/yajl_parse.h>

/*
 * AWS's Price List in bulk: products by SKU with their attributes, then terms by SKU with their prices. The file of a
 * region is hundreds of megabytes, so it is read as a stream; of it stays which SKUs are Linux on demand of types that
 * the catalogue knows.
 */

#define DEPTH_MAX 16
#define WORD_MAX \
	96 /* bytes of a key or a value that is looked at; longer ones are none of those wanted */
#define SKUS_MAX 200000
#define DAY_LEN  10 /* "2026-11-01" */

/* What a product has to be; in the order of struct product.has. */
static const struct {
	const char *key, *value;
	bool within; /* the value is somewhere in it */
} wanted[] = {
	{ "tenancy", "Shared", false },
	{ "operatingSystem", "Linux", false },
	{ "preInstalledSw", "NA", false },
	{ "capacitystatus", "Used", false },
	{ "marketoption", "OnDemand", false },
	{ "usagetype", "BoxUsage", true },
};

struct product {
	char type[WORD_MAX], region[WORD_MAX];
	unsigned has; /* bit: of wanted */
	bool compute;
};

struct sku {
	char name[24];
	const char *type; /* the catalogue's */
	char region[PRICE_NAME_MAX];
};

struct price_list {
	struct price_catalogue *c;
	const char *name;
	const struct price_file *file;
	yajl_handle yajl;
	char path[DEPTH_MAX][WORD_MAX]; /* keys on the way to where it is */
	unsigned depth;                 /* objects and lists that are open */
	struct product product;
	struct sku *skus;
	size_t n, room, found, too_many;
	bool sorted;
	char day[DAY_LEN + 1], currency[4];
	struct error *err; /* of the call that is running */
	size_t line;
};

/* ---- products ---------------------------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct sku *)a)->name, ((const struct sku *)b)->name);
}

static bool is_wanted(const struct product *p)
{
	return p->compute && p->has == (1U << ARRAY_LEN(wanted)) - 1 && *p->type && *p->region;
}

/* The product whose object has just ended. */
static int keep_product(struct price_list *l, const char *name)
{
	const struct product *p = &l->product;
	const struct price_type *t = is_wanted(p) ? price_type_find(l->c, p->type) : NULL;
	struct sku *s;

	if (!t || strlen(name) >= sizeof(s->name) || strlen(p->region) >= sizeof(s->region))
		return 0;
	if (l->n == SKUS_MAX) {
		l->too_many++;
		return 0;
	}
	if (l->n == l->room) {
		size_t room = l->room ? 2 * l->room : 256;
		struct sku *more = reallocarray(l->skus, room, sizeof(*more));

		if (!more)
			return error_nomem(l->err);
		l->skus = more;
		l->room = room;
	}
	s = &l->skus[l->n++];
	(void)snprintf(s->name, sizeof(s->name), "%s", name);
	(void)snprintf(s->region, sizeof(s->region), "%s", p->region);
	s->type = t->name;
	l->sorted = false;
	return 0;
}

static void see_attribute(struct product *p, const char *key, const char *value)
{
	if (!strcmp(key, "instanceType"))
		(void)snprintf(p->type, sizeof(p->type), "%s", value);
	else if (!strcmp(key, "regionCode"))
		(void)snprintf(p->region, sizeof(p->region), "%s", value);
	for (size_t i = 0; i < ARRAY_LEN(wanted); i++)
		if (!strcmp(key, wanted[i].key) &&
			(wanted[i].within ? strstr(value, wanted[i].value) != NULL
					  : !strcmp(value, wanted[i].value)))
			p->has |= 1U << i;
}

/* ---- prices ------------------------------------------------------------------------------------------------------- */

static int see_price(struct price_list *l, const char *sku, const char *currency,
	const char *value)
{
	struct price_amendment a = { .what = PRICE_IS_ON_DEMAND, .rank = PRICE_RANK_FOREIGN };
	const struct sku *s;
	struct sku key = { .type = NULL };

	if (strlen(sku) >= sizeof(key.name) || !l->n)
		return 0;
	if (!l->sorted)
		qsort(l->skus, l->n, sizeof(*l->skus), by_name);
	l->sorted = true;
	(void)snprintf(key.name, sizeof(key.name), "%s", sku);
	s = bsearch(&key, l->skus, l->n, sizeof(*l->skus), by_name);
	if (!s)
		return 0;
	if (!price_parse(value, &a.low))
		return error_set(l->err, ERR_INVALID,
			"%s: pricePerUnit of SKU %s: expected an amount, found '%.40s'",
			l->name, sku, value);
	if (!a.low)
		return 0;
	if (!l->file) {
		(void)snprintf(l->currency, sizeof(l->currency), "%.3s", currency);
		l->file = price_source_add(l->c, l->name, l->currency, l->day, l->err);
		if (!l->file)
			return -1;
	}
	if (strcmp(currency, l->currency) != 0)
		return 0;
	a.type = s->type;
	a.region = s->region;
	a.file = l->file;
	l->found++;
	return price_amend(l->c, &a, l->err) < 0 ? -1 : 0;
}

/* ---- the stream ------------------------------------------------------------------------------------------------------ */

static bool at(const struct price_list *l, unsigned depth, const char *first,
	const char *second)
{
	return l->depth == depth && !strcmp(l->path[0], first) &&
	       (!second || !strcmp(l->path[1], second));
}

/* products.SKU.attributes.KEY; terms.OnDemand.SKU.TERM.priceDimensions.RATE.pricePerUnit.CURRENCY */
static int see_value(struct price_list *l, const char *value)
{
	const char *key = l->depth ? l->path[l->depth - 1] : "";

	if (at(l, 1, "publicationDate", NULL) && strlen(value) >= DAY_LEN) {
		(void)snprintf(l->day, sizeof(l->day), "%.10s", value);
		return 0;
	}
	if (at(l, 3, "products", NULL) && !strcmp(key, "productFamily"))
		l->product.compute = !strncmp(value, "Compute Instance", 16);
	else if (at(l, 4, "products", NULL) && !strcmp(l->path[2], "attributes"))
		see_attribute(&l->product, key, value);
	else if (at(l, 8, "terms", "OnDemand") && !strcmp(l->path[4], "priceDimensions") &&
		 !strcmp(l->path[6], "pricePerUnit"))
		return see_price(l, l->path[2], key, value);
	return 0;
}

static void copy_word(char ret[static WORD_MAX], const unsigned char *text, size_t len)
{
	ret[0] = '\0';
	if (len >= WORD_MAX || memchr(text, 0, len))
		return;
	memcpy(ret, text, len);
	ret[len] = '\0';
}

static int on_string(void *ctx, const unsigned char *text, size_t len)
{
	char value[WORD_MAX];

	copy_word(value, text, len);
	return see_value(ctx, value) == 0;
}

static int on_other(void *ctx)
{
	(void)ctx;
	return 1;
}

static int on_boolean(void *ctx, int value)
{
	(void)ctx;
	(void)value;
	return 1;
}

static int on_number(void *ctx, const char *text, size_t len)
{
	return on_string(ctx, (const unsigned char *)text, len);
}

static int on_key(void *ctx, const unsigned char *text, size_t len)
{
	struct price_list *l = ctx;

	if (l->depth && l->depth <= DEPTH_MAX)
		copy_word(l->path[l->depth - 1], text, len);
	return 1;
}

static int on_begin(void *ctx)
{
	struct price_list *l = ctx;

	if (l->depth == DEPTH_MAX) {
		(void)error_set(l->err, ERR_LIMIT, "%s: nested more than %d deep", l->name,
			DEPTH_MAX);
		return 0;
	}
	if (at(l, 2, "products", NULL))
		l->product = (struct product){ .has = 0 };
	l->path[l->depth++][0] = '\0';
	return 1;
}

static int on_end(void *ctx)
{
	struct price_list *l = ctx;

	l->depth--;
	return !at(l, 2, "products", NULL) || keep_product(l, l->path[1]) == 0;
}

static const yajl_callbacks callbacks = {
	.yajl_null = on_other,
	.yajl_boolean = on_boolean,
	.yajl_number = on_number,
	.yajl_string = on_string,
	.yajl_start_map = on_begin,
	.yajl_map_key = on_key,
	.yajl_end_map = on_end,
	.yajl_start_array = on_begin,
	.yajl_end_array = on_end,
};

int price_list_new(struct price_list **ret, struct price_catalogue *c, const char *name,
	struct error *err)
{
	struct price_list *l = calloc(1, sizeof(*l));

	if (!l)
		return error_nomem(err);
	l->c = c;
	l->name = name;
	l->yajl = yajl_alloc(&callbacks, NULL, l);
	if (!l->yajl) {
		free(l);
		return error_nomem(err);
	}
	*ret = l;
	return 0;
}

struct price_list *price_list_free(struct price_list *l)
{
	if (!l)
		return NULL;
	yajl_free(l->yajl);
	free(l->skus);
	free(l);
	return NULL;
}

static int check(struct price_list *l, yajl_status status)
{
	if (status == yajl_status_ok)
		return 0;
	if (status == yajl_status_client_canceled)
		return -1; /* the error is set */
	return error_set(l->err, ERR_INVALID, "%s: no JSON, or cut off, in line %zu", l->name,
		l->line + 1);
}

int price_list_feed(struct price_list *l, const char *text, size_t len, struct error *err)
{
	yajl_status status;

	l->err = err;
	status = yajl_parse(l->yajl, (const unsigned char *)text, len);
	if (status != yajl_status_ok)
		len = yajl_get_bytes_consumed(l->yajl);
	for (const char *c = text; c < text + len; c++)
		l->line += *c == '\n';
	return check(l, status);
}

int price_list_end(struct price_list *l, struct strv *warnings, struct error *err)
{
	l->err = err;
	if (check(l, yajl_complete_parse(l->yajl)) < 0)
		return -1;
	if (!l->found)
		import_warn(warnings,
			"%s: no price on demand of a type with GPUs that the catalogue knows",
			l->name);
	if (l->too_many)
		import_warn(warnings, "%s: more than %d products, %zu are left out", l->name,
			SKUS_MAX, l->too_many);
	return 0;
}
