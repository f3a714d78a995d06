/* SPDX-License-Identifier: Apache-2.0 */
#include "io/price/price.h"

#include "lib/base/array.h"
#include "lib/base/fd.h"
#include "io/price/catalogue.h"
#include "io/price/shipped.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHIPPED   "shipped catalogue"
#define DAY_S     86400U
#define LIST_TEXT 120 /* limit of the list of regions in a message, bytes */

static int compare_type_names(const void *a, const void *b)
{
	const struct price_type *x = a, *y = b;

	return strcmp(x->name, y->name);
}

/* Readers keep the types in the order of the files; lookups need the order of names. */
static void sort_price_types(struct price_catalogue *c)
{
	if (c->n)
		qsort(c->types, c->n, sizeof(*c->types), compare_type_names);
}

struct price_catalogue *price_catalogue_free(struct price_catalogue *c)
{
	if (!c)
		return NULL;
	for (size_t i = 0; i < c->n; i++)
		free(c->types[i].regions);
	for (size_t i = 0; i < c->n_more; i++)
		free(c->more[i]);
	free(c->more);
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
	sort_price_types(c);
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
	sort_price_types(c);
	*ret = STEAL_PTR(c);
	return 0;
}

struct price_type *price_type_find(const struct price_catalogue *c, const char *name)
{
	const struct price_type key = { .name = name };

	return c->n ? bsearch(&key, c->types, c->n, sizeof(key), compare_type_names) : NULL;
}

struct price_region *price_type_find_region(const struct price_type *t, const char *name)
{
	for (size_t i = 0; i < t->n_regions; i++)
		if (!strcmp(t->regions[i].name, name))
			return &t->regions[i];
	return NULL;
}

struct price_region *price_type_add_region(struct price_type *t, const char *name,
	struct error *err)
{
	if (!ARRAY_EXTEND(&t->regions, t->n_regions, 1, PRICE_REGIONS_MAX)) {
		(void)error_nomem(err);
		return NULL;
	}
	t->regions[t->n_regions] = (struct price_region){ .name = name,
		.nano_per_hour = -1,
		.spot_low = -1,
		.spot_high = -1 };
	return &t->regions[t->n_regions++];
}

/*
 * The region itself has precedence over a price that holds everywhere, unless the latter is from a
 * better source. NULL: neither has a price.
 */
static const struct price_region *find_price_region(const struct price_type *t,
	const char *region, bool spot)
{
	const struct price_region *anywhere = NULL, *exact = NULL;

	for (size_t i = 0; i < t->n_regions; i++) {
		const struct price_region *at = &t->regions[i];

		if ((spot ? at->spot_low : at->nano_per_hour) < 0)
			continue;
		if (!strcmp(at->name, region))
			exact = at;
		else if (!strcmp(at->name, PRICE_ANYWHERE))
			anywhere = at;
	}
	if (!exact || !anywhere)
		return exact ? exact : anywhere;
	if (spot)
		return anywhere->spot_rank > exact->spot_rank ? anywhere : exact;
	return anywhere->rank > exact->rank ? anywhere : exact;
}

static const struct price_region *assume_region(const struct price_type *t)
{
	const struct price_region *at = find_price_region(t, PRICE_USUAL_REGION, false);

	if (at)
		return at;
	for (size_t i = 0; i < t->n_regions; i++)
		if (t->regions[i].nano_per_hour >= 0 &&
			(!at || t->regions[i].nano_per_hour < at->nano_per_hour))
			at = &t->regions[i];
	return at;
}

static int no_region(const struct price_type *t, const char *region, struct error *err)
{
	CLEANUP(buf_fini) struct buf list = BUF_INIT(LIST_TEXT);

	for (size_t i = 0; i < t->n_regions; i++)
		if (t->regions[i].nano_per_hour >= 0)
			buf_printf(&list, "%s%s", list.len ? ", " : "", t->regions[i].name);
	return error_set(err, ERR_NOT_FOUND,
		"no price of '%s' in region '%.63s' in %.120s; there is one for: %s", t->name,
		region, t->file->source, list.len ? buf_str(&list) : "no region");
}

static struct price price_of(const struct price_type *t, const struct price_region *at,
	bool assumed)
{
	const struct price_file *from = at->from ? at->from : t->file;

	return (struct price){
		.type = t->name,
		.region = at->name,
		.currency = from->currency,
		.stamp = from->stamp,
		.source = from->source,
		.nano_per_hour = at->nano_per_hour,
		.assumed = assumed,
		.gpu = t->gpu,
		.gpus = t->gpus,
		.gpu_memory_mib = t->gpu_memory_mib,
		.vcpus = t->vcpus,
		.memory_mib = t->memory_mib,
	};
}

int price_find(const struct price_catalogue *c, const char *type, const char *region,
	struct price *ret, struct error *err)
{
	const struct price_type *t = price_type_find(c, type);
	const struct price_region *at;

	if (!t)
		return error_set(err, ERR_NOT_FOUND,
			"no price of the instance type '%.63s' in the catalogue; give one in a "
			"catalogue file, or a price per hour",
			type);
	at = find_price_region(t, region, false);
	if (!at && !*region)
		at = assume_region(t);
	if (!at)
		return no_region(t, region, err);
	*ret = price_of(t, at, !*region && strcmp(at->name, PRICE_ANYWHERE) != 0);
	return 0;
}

/* --- offers --- */

/* Defaults where a file gives none; close to measurements of EC2's types. */
#define RESERVED_CPU_MILLI 310
#define ALLOCATABLE_MEMORY 90 /* percent */
#define MILLI              1000

static struct price_offer get_price_offer(const struct price_type *t,
	const struct price_region *at)
{
	uint32_t cpu = t->vcpus > UINT32_MAX / MILLI ? UINT32_MAX : t->vcpus * MILLI;

	return (struct price_offer){
		.price = price_of(t, at, false),
		.low = at->nano_per_hour,
		.high = at->nano_per_hour,
		.arch = t->arch,
		.gpu_milli = t->gpu_milli,
		.allocatable_cpu_milli = t->allocatable_cpu_milli   ? t->allocatable_cpu_milli
					 : cpu > RESERVED_CPU_MILLI ? cpu - RESERVED_CPU_MILLI
								    : cpu,
		.allocatable_memory_mib = t->allocatable_memory_mib
						  ? t->allocatable_memory_mib
						  : (uint32_t)((uint64_t)t->memory_mib *
							       ALLOCATABLE_MEMORY / 100),
	};
}

int price_each(const struct price_catalogue *c, const char *region,
	int (*visit)(void *arg, const struct price_offer *offer), void *arg)
{
	for (size_t i = 0; i < c->n; i++) {
		for (int spot = 0; spot < 2; spot++) {
			const struct price_region *at =
				find_price_region(&c->types[i], region, spot);
			struct price_offer o;
			int got;

			if (!at)
				continue;
			o = get_price_offer(&c->types[i], at);
			o.price.region = region;
			if (spot) {
				const struct price_file *from =
					at->spot_from ? at->spot_from : c->types[i].file;

				o.spot = true;
				o.interrupt_low_milli = at->interrupt_low_milli;
				o.interrupt_high_milli = at->interrupt_high_milli;
				o.price.source = from->source;
				o.price.stamp = from->stamp;
				o.price.currency = from->currency;
				o.low = at->spot_low;
				o.high = at->spot_high;
				o.price.nano_per_hour = o.low + (o.high - o.low) / 2;
			}
			got = visit(arg, &o);
			if (got < 0)
				return got;
		}
	}
	return 0;
}

/* Days from 1970-01-01 to a day of the Gregorian calendar; years begin in March. */
static int64_t days_of(int64_t year, int64_t month, int64_t day)
{
	int64_t y = year - (month <= 2), m = (month + 9) % 12;

	return y * 365 + y / 4 - y / 100 + y / 400 + (m * 153 + 2) / 5 + day - 1 - 719468;
}

static int64_t parse_date_digits(const char *text, size_t n)
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
	/* The reader has checked the form, 2026-07-20. */
	if (strcmp(p->source, SHIPPED) != 0 || !*d)
		return false;
	age = (int64_t)(now_s / DAY_S) - days_of(parse_date_digits(d, 4),
						 parse_date_digits(d + 5, 2),
						 parse_date_digits(d + 8, 2));
	if (age <= PRICE_STALE_DAYS)
		return false;
	(void)snprintf(buf, PRICE_WARNING_MAX,
		"the shipped price of %s in %s is of %s, %lld days old: prices change, give your "
		"own in a catalogue file",
		p->type, p->region, p->stamp, (long long)age);
	return true;
}
