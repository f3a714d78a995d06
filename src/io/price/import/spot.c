/* SPDX-License-Identifier: Apache-2.0 */
/* Reads AWS's history of spot prices and Spot Instance Advisor into the catalogue (import.h). */
#include "io/price/import/import.h"

#include "lib/base/time.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* --- the history of spot prices --- */

/*
 * `aws ec2 describe-spot-price-history`: an entry is a change of price. The price holds until the next
 * entry of the same type, zone and product.
 *
 * The price of a zone is a median over the 30 days before the latest entry of a known type. Each price
 * has the time for which it held as its weight. A price that held at the start of the 30 days counts
 * from there on.
 */

#define WINDOW_NS    (INT64_C(30) * 86400 * (int64_t)NS_PER_SEC)
#define ENTRIES_MAX  2000000
#define ZONE_MAX_LEN 32

struct spot_change {
	const char *type, *zone; /* texts of the document */
	int64_t at_ns, nano;
};

static int by_zone_and_time(const void *a, const void *b)
{
	const struct spot_change *x = a, *y = b;
	int order = strcmp(x->type, y->type);

	if (!order)
		order = strcmp(x->zone, y->zone);
	if (!order)
		order = x->at_ns < y->at_ns ? -1 : x->at_ns > y->at_ns;
	return order;
}

/* A price and how long it held. */
struct price_span {
	int64_t nano, ns;
};

static int by_price(const void *a, const void *b)
{
	const struct price_span *x = a, *y = b;

	return x->nano < y->nano ? -1 : x->nano > y->nano;
}

/* The median of the @n changes of one zone, in order of time, from @from to @to. -1: no price held
 * then. */
static int64_t get_zone_median(const struct spot_change *v, size_t n, int64_t from, int64_t to,
	struct price_span *room)
{
	int64_t whole = 0, sum = 0;
	size_t kept = 0;

	for (size_t i = 0; i < n; i++) {
		int64_t begin = v[i].at_ns > from ? v[i].at_ns : from;
		int64_t end = i + 1 < n ? v[i + 1].at_ns : to;

		/* The last price counts, even if it holds only for the moment of the end. */
		if (end < begin || (end == begin && i + 1 < n))
			continue;
		room[kept++] = (struct price_span){ v[i].nano, end > begin ? end - begin : 1 };
		whole += room[kept - 1].ns;
	}
	if (!kept)
		return -1;
	qsort(room, kept, sizeof(*room), by_price);
	for (size_t i = 0; i < kept; i++) {
		sum += room[i].ns;
		if (sum * 2 >= whole)
			return room[i].nano;
	}
	return room[kept - 1].nano;
}

/* "us-east-1a" is in us-east-1. False: no zone's name, or a local zone such as us-west-2-lax-1a. */
static bool parse_zone_region(const char *zone, char ret[static ZONE_MAX_LEN])
{
	size_t len = strlen(zone), digits = strcspn(zone, "0123456789");

	if (len < 4 || len >= ZONE_MAX_LEN || digits + 2 != len || zone[len - 1] < 'a' ||
		zone[len - 1] > 'z')
		return false;
	for (size_t i = 0; i < digits; i++)
		if (zone[i] != '-' && (zone[i] < 'a' || zone[i] > 'z'))
			return false;
	memcpy(ret, zone, len - 1);
	ret[len - 1] = '\0';
	return true;
}

/* Parses @n digits of @text at @at as a number from @min to @max. False: no such number. */
static bool parse_stamp_digits(const char *text, size_t at, size_t n, int min, int max,
	int *ret)
{
	*ret = 0;
	for (size_t i = at; i < at + n; i++) {
		if (text[i] < '0' || text[i] > '9')
			return false;
		*ret = *ret * 10 + (text[i] - '0');
	}
	return *ret >= min && *ret <= max;
}

/* AWS's form of a time, "2026-11-01T12:34:56.000Z": UTC, with Z or +00:00. Ignores fractions of
 * seconds. */
static bool parse_stamp(const char *text, int64_t *ret_ns)
{
	static const char form[] = "dddd-dd-ddTdd:dd:dd";
	struct tm tm = { 0 };
	const char *rest;

	if (strlen(text) < sizeof(form) - 1)
		return false;
	for (size_t i = 0; i < sizeof(form) - 1; i++)
		if (form[i] != 'd' && text[i] != form[i])
			return false;
	if (!parse_stamp_digits(text, 0, 4, 1970, 2200, &tm.tm_year) ||
		!parse_stamp_digits(text, 5, 2, 1, 12, &tm.tm_mon) ||
		!parse_stamp_digits(text, 8, 2, 1, 31, &tm.tm_mday) ||
		!parse_stamp_digits(text, 11, 2, 0, 23, &tm.tm_hour) ||
		!parse_stamp_digits(text, 14, 2, 0, 59, &tm.tm_min) ||
		!parse_stamp_digits(text, 17, 2, 0, 60, &tm.tm_sec))
		return false;
	rest = text + sizeof(form) - 1;
	if (*rest == '.')
		rest += 1 + strspn(rest + 1, "0123456789");
	if (strcmp(rest, "Z") != 0 && strcmp(rest, "+00:00") != 0)
		return false;
	tm.tm_year -= 1900;
	tm.tm_mon -= 1;
	*ret_ns = (int64_t)timegm(&tm) * (int64_t)NS_PER_SEC;
	return true;
}

struct history_reader {
	struct price_catalogue *c;
	const char *name;
	struct spot_change *v;
	size_t n;
	int64_t last_ns;
	struct error *err;
};

static int set_history_error(const struct history_reader *r, size_t at, const char *key,
	const char *expected)
{
	return error_set(r->err, ERR_INVALID, "%s: SpotPriceHistory[%zu].%s: expected %s",
		r->name, at, key, expected);
}

static int read_spot_change(struct history_reader *r, size_t at, const json_t *entry)
{
	const char *type = json_string_value(json_object_get(entry, "InstanceType"));
	const char *zone = json_string_value(json_object_get(entry, "AvailabilityZone"));
	const char *price = json_string_value(json_object_get(entry, "SpotPrice"));
	const char *stamp = json_string_value(json_object_get(entry, "Timestamp"));
	const char *product = json_string_value(json_object_get(entry, "ProductDescription"));
	struct spot_change c = { .type = type, .zone = zone };

	if (product && strcmp(product, "Linux/UNIX") != 0 &&
		strcmp(product, "Linux/UNIX (Amazon VPC)") != 0)
		return 0;
	if (!type)
		return set_history_error(r, at, "InstanceType", "a text");
	if (!zone)
		return set_history_error(r, at, "AvailabilityZone", "a text");
	if (!price || !price_parse(price, &c.nano))
		return set_history_error(r, at, "SpotPrice",
			"an amount as a text, such as \"0.4423\"");
	if (!stamp || !parse_stamp(stamp, &c.at_ns))
		return set_history_error(r, at, "Timestamp",
			"a time, such as \"2026-11-01T00:00:00.000Z\"");
	if (!c.nano || !price_type_find(r->c, type))
		return 0;
	if (c.at_ns > r->last_ns)
		r->last_ns = c.at_ns;
	r->v[r->n++] = c;
	return 0;
}

/* The lowest and the highest price of the zones of one region, for the type at @v[@i]. Returns the
 * index of the next region. */
static size_t find_region_spot_range(const struct history_reader *r, size_t i,
	struct price_span *room, struct price_amendment *a, bool *any)
{
	char region[ZONE_MAX_LEN], other[ZONE_MAX_LEN];
	size_t to = i;

	*any = false;
	if (!parse_zone_region(r->v[i].zone, region))
		return i + 1;
	a->type = r->v[i].type;
	while (to < r->n && !strcmp(r->v[to].type, a->type) &&
		parse_zone_region(r->v[to].zone, other) && !strcmp(other, region)) {
		size_t end = to;
		int64_t is;

		while (end < r->n && !strcmp(r->v[end].type, a->type) &&
			!strcmp(r->v[end].zone, r->v[to].zone))
			end++;
		is = get_zone_median(r->v + to, end - to, r->last_ns - WINDOW_NS, r->last_ns,
			room);
		if (is >= 0) {
			a->low = !*any || is < a->low ? is : a->low;
			a->high = !*any || is > a->high ? is : a->high;
			*any = true;
		}
		to = end;
	}
	return to;
}

static int amend_all(const struct history_reader *r, struct price_span *room)
{
	struct price_amendment a = { .what = PRICE_IS_SPOT, .rank = PRICE_RANK_AWS };
	char day[TIME_RFC3339_MAX];

	time_rfc3339((uint64_t)r->last_ns, day);
	day[sizeof("2026-11-01") - 1] = '\0';
	a.file = price_source_add(r->c, r->name, "USD", day, r->err);
	if (!a.file)
		return -1;
	for (size_t i = 0; i < r->n;) {
		char region[ZONE_MAX_LEN];
		bool any;
		size_t first = i;

		i = find_region_spot_range(r, i, room, &a, &any);
		if (!any || !parse_zone_region(r->v[first].zone, region))
			continue;
		a.region = region;
		if (price_amend(r->c, &a, r->err) < 0)
			return -1;
	}
	return 0;
}

int spot_history_read(struct price_catalogue *c, const char *name, const char *text, size_t len,
	struct strv *warnings, struct error *err)
{
	json_error_t where;
	json_t *root = json_loadb(text, len, 0, &where), *list, *entry;
	struct history_reader r = { .c = c, .name = name, .err = err };
	const char *next;
	struct price_span *room = NULL;
	size_t i, n;
	int got = -1;

	if (!root)
		return error_set(err, ERR_INVALID, "%s:%d:%d: %s", name, where.line,
			where.column, where.text);
	list = json_object_get(root, "SpotPriceHistory");
	n = json_array_size(list);
	next = json_string_value(json_object_get(root, "NextToken"));
	if (!json_is_array(list) || n > ENTRIES_MAX) {
		(void)error_set(err, ERR_INVALID,
			"%s: SpotPriceHistory: expected a list of at most %d entries", name,
			ENTRIES_MAX);
		goto out;
	}
	r.v = calloc(n + 1, sizeof(*r.v));
	room = calloc(n + 1, sizeof(*room));
	if (!r.v || !room) {
		(void)error_nomem(err);
		goto out;
	}
	json_array_foreach(list, i, entry)
	{
		if (read_spot_change(&r, i, entry) < 0)
			goto out;
	}
	if (r.n)
		qsort(r.v, r.n, sizeof(*r.v), by_zone_and_time);
	if (next && *next)
		import_warn(warnings, "%s: one page of several: it has a NextToken", name);
	if (!r.n)
		import_warn(warnings, "%s: no price of a type with GPUs on Linux", name);
	got = r.n ? amend_all(&r, room) : 0;
out:
	free(r.v);
	free(room);
	json_decref(root);
	return got;
}

/* --- the Spot Instance Advisor --- */

/*
 * AWS's Spot Instance Advisor (spot-advisor-data.json). spot_advisor.REGION.Linux.TYPE.r is the
 * frequency of interruptions in a month, as the number of one of five ranges.
 */

static const struct {
	uint32_t low, high; /* thousandths a month */
} ranges[] = { { 0, 50 }, { 50, 100 }, { 100, 150 }, { 150, 200 }, { 200, 1000 } };

int spot_advisor_read(struct price_catalogue *c, const char *name, const char *text, size_t len,
	struct strv *warnings, struct error *err)
{
	json_error_t where;
	json_t *root = json_loadb(text, len, 0, &where);
	json_t *regions = json_object_get(root, "spot_advisor"), *region, *one;
	const char *region_name, *type;
	size_t n = 0;
	int got = 0;

	if (!root)
		return error_set(err, ERR_INVALID, "%s:%d:%d: %s", name, where.line,
			where.column, where.text);
	if (!json_is_object(regions))
		got = error_set(err, ERR_INVALID, "%s: spot_advisor: expected an object", name);
	json_object_foreach(regions, region_name, region)
	{
		json_object_foreach(json_object_get(region, "Linux"), type, one)
		{
			json_int_t r = json_integer_value(json_object_get(one, "r"));
			struct price_amendment a = { .type = type,
				.region = region_name,
				.what = PRICE_IS_INTERRUPTION,
				.rank = PRICE_RANK_AWS };

			if (got < 0 || r < 0 || r >= (json_int_t)ARRAY_LEN(ranges) ||
				!json_is_integer(json_object_get(one, "r")) ||
				strlen(region_name) >= PRICE_NAME_MAX ||
				!price_type_find(c, type))
				continue;
			a.low = ranges[r].low;
			a.high = ranges[r].high;
			got = price_amend(c, &a, err) < 0 ? -1 : 0;
			n++;
		}
	}
	if (got == 0 && !n)
		import_warn(warnings, "%s: nothing of a type with GPUs", name);
	json_decref(root);
	return got;
}
