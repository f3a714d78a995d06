/* SPDX-License-Identifier: Apache-2.0 */
#include "price/price.h"

#include "base/fd.h"
#include "price/catalogue.h"
#include "price/shipped.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHIPPED   "shipped catalogue"
#define DAY_S     86400U
#define LIST_TEXT 120 /* bytes of a list of regions in a message */

static int by_name(const void *a, const void *b)
{
	const struct price_type *x = a, *y = b;

	return strcmp(x->name, y->name);
}

/* Reading is by file, in which types have their order; looking up is by name. */
static void sort(struct price_catalogue *c)
{
	if (c->n)
		qsort(c->types, c->n, sizeof(*c->types), by_name);
}

struct price_catalogue *price_catalogue_free(struct price_catalogue *c)
{
	if (!c)
		return NULL;
	for (size_t i = 0; i < c->n; i++)
		free(c->types[i].regions);
	free(c->types);
	strv_fini(&c->pool);
	free(c);
	return NULL;
}

int price_catalogue_parse(struct price_catalogue **ret, const char *name, const char *text,
	size_t len, struct error *err)
{
	CLEANUP(price_catalogue_freep) struct price_catalogue *c = calloc(1, sizeof(*c));

	*ret = NULL;
	if (!c)
		return error_nomem(err);
	if (price_catalogue_read(c, &c->files[1], name, text, len, err) < 0)
		return -1;
	sort(c);
	*ret = STEAL_PTR(c);
	return 0;
}

int price_catalogue_load(struct price_catalogue **ret, const char *user_file, struct error *err)
{
	CLEANUP(price_catalogue_freep) struct price_catalogue *c = calloc(1, sizeof(*c));
	CLEANUP(buf_fini) struct buf text = BUF_INIT(PRICE_FILE_MAX);

	*ret = NULL;
	if (!c)
		return error_nomem(err);
	c->files[0].shipped = true;
	if (price_catalogue_read(c, &c->files[0], SHIPPED, price_shipped, price_shipped_len,
		    err) < 0)
		return -1;
	if (user_file && *user_file) {
		if (file_read(user_file, &text, err) < 0)
			return error_prefix(err, "price catalogue");
		if (price_catalogue_read(c, &c->files[1], user_file, buf_str(&text), text.len,
			    err) < 0)
			return -1;
	}
	sort(c);
	*ret = STEAL_PTR(c);
	return 0;
}

size_t price_catalogue_count(const struct price_catalogue *c)
{
	return c->n;
}

struct price_type *price_type_find(const struct price_catalogue *c, const char *name)
{
	const struct price_type key = { .name = name };

	return c->n ? bsearch(&key, c->types, c->n, sizeof(key), by_name) : NULL;
}

static const struct price_region *find_region(const struct price_type *t, const char *region)
{
	const struct price_region *anywhere = NULL;

	for (size_t i = 0; i < t->n_regions; i++) {
		if (!strcmp(t->regions[i].name, region))
			return &t->regions[i];
		if (!strcmp(t->regions[i].name, PRICE_ANYWHERE))
			anywhere = &t->regions[i];
	}
	return anywhere;
}

static int no_region(const struct price_type *t, const char *region, struct error *err)
{
	CLEANUP(buf_fini) struct buf list = BUF_INIT(LIST_TEXT);

	for (size_t i = 0; i < t->n_regions; i++)
		buf_printf(&list, "%s%s", i ? ", " : "", t->regions[i].name);
	return error_set(err, ERR_NOT_FOUND,
		"no price of '%s' in region '%.63s' in %.120s; there is one for: %s", t->name,
		region, t->file->source, list.len ? buf_str(&list) : "no region");
}

int price_find(const struct price_catalogue *c, const char *type, const char *region,
	struct price *ret, struct error *err)
{
	const struct price_type *t = price_type_find(c, type);
	const struct price_region *at = t ? find_region(t, region) : NULL;

	if (!t)
		return error_set(err, ERR_NOT_FOUND,
			"no price of the instance type '%.63s' in the catalogue; give one in a "
			"catalogue file, or a price per hour",
			type);
	if (!at)
		return no_region(t, region, err);
	*ret = (struct price){
		.type = t->name,
		.region = at->name,
		.currency = t->file->currency,
		.stamp = t->file->stamp,
		.source = t->file->source,
		.nano_per_hour = at->nano_per_hour,
		.gpu = t->gpu,
		.gpus = t->gpus,
		.gpu_memory_mib = t->gpu_memory_mib,
		.vcpus = t->vcpus,
		.memory_mib = t->memory_mib,
	};
	return 0;
}

/* Days since 1970-01-01 of a day in the Gregorian calendar, by counting years from March. */
static int64_t days_of(int64_t year, int64_t month, int64_t day)
{
	int64_t y = year - (month <= 2), m = (month + 9) % 12;

	return y * 365 + y / 4 - y / 100 + y / 400 + (m * 153 + 2) / 5 + day - 1 - 719468;
}

static int64_t digits(const char *text, size_t n)
{
	int64_t v = 0;

	for (size_t i = 0; i < n; i++)
		v = v * 10 + (text[i] - '0');
	return v;
}

bool price_is_stale(const struct price *p, uint64_t now_s, char *buf)
{
	const char *d = p->stamp;
	int64_t age;

	buf[0] = '\0';
	/* The reader has seen to the form, 2026-07-20. */
	if (strcmp(p->source, SHIPPED) != 0 || !*d)
		return false;
	age = (int64_t)(now_s / DAY_S) -
	      days_of(digits(d, 4), digits(d + 5, 2), digits(d + 8, 2));
	if (age <= PRICE_STALE_DAYS)
		return false;
	(void)snprintf(buf, PRICE_WARNING_MAX,
		"the shipped price of %s in %s is of %s, %lld days old: prices change, give your "
		"own in a catalogue file",
		p->type, p->region, p->stamp, (long long)age);
	return true;
}
