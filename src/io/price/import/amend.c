/* SPDX-License-Identifier: Apache-2.0 */
#include "io/price/import/amend.h"

#include "lib/base/array.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- sources --- */

const struct price_file *price_source_add(struct price_catalogue *c, const char *source,
	const char *currency, const char *stamp, struct error *err)
{
	struct price_file *f = calloc(1, sizeof(*f));

	if (!f || !ARRAY_EXTEND(&c->more, c->n_more, 1, ARRAY_NO_LIMIT) ||
		strv_add(&c->pool, source, err) < 0 || strv_add(&c->pool, currency, err) < 0 ||
		strv_add(&c->pool, stamp, err) < 0) {
		free(f);
		(void)error_nomem(err);
		return NULL;
	}
	f->source = c->pool.v[c->pool.n - 3];
	f->currency = c->pool.v[c->pool.n - 2];
	f->stamp = c->pool.v[c->pool.n - 1];
	c->more[c->n_more++] = f;
	return f;
}

/* --- amounts --- */

static struct price_region *add_price_region(struct price_catalogue *c, struct price_type *t,
	const char *region, struct error *err)
{
	struct price_region *at = price_type_find_region(t, region);

	if (at)
		return at;
	if (t->n_regions == PRICE_REGIONS_MAX) {
		(void)error_set(err, ERR_LIMIT, "'%s': more than %d regions", t->name,
			PRICE_REGIONS_MAX);
		return NULL;
	}
	if (strv_add(&c->pool, region, err) < 0)
		return NULL;
	return price_type_add_region(t, c->pool.v[c->pool.n - 1], err);
}

/* Of two sources with the same rank the later one counts; a better source stays. */
static bool may_replace_price(unsigned *has, unsigned rank)
{
	if (*has > rank)
		return false;
	*has = rank;
	return true;
}

int price_amend(struct price_catalogue *c, const struct price_amendment *a, struct error *err)
{
	struct price_type *t = price_type_find(c, a->type);
	struct price_region *at;

	if (!t)
		return 0;
	at = add_price_region(c, t, a->region, err);
	if (!at)
		return -1;
	switch (a->what) {
	case PRICE_IS_ON_DEMAND:
		if (may_replace_price(&at->rank, a->rank)) {
			at->nano_per_hour = a->low;
			at->from = a->file;
		}
		break;
	case PRICE_IS_SPOT:
		if (may_replace_price(&at->spot_rank, a->rank)) {
			at->spot_low = a->low;
			at->spot_high = a->high;
			at->spot_from = a->file;
		}
		break;
	case PRICE_IS_INTERRUPTION:
		if (may_replace_price(&at->interrupt_rank, a->rank)) {
			at->interrupt_low_milli = (uint32_t)a->low;
			at->interrupt_high_milli = (uint32_t)a->high;
		}
		break;
	}
	return 1;
}

/* --- overrides --- */

int price_override(struct price_catalogue *c, const char *text, struct error *err)
{
	static const char spot[] = "/spot";
	struct price_amendment a = { .region = PRICE_ANYWHERE, .rank = PRICE_RANK_OVERRIDE };
	const char *equals = strchr(text, '=');
	char type[PRICE_NAME_MAX];
	struct price_type *t;
	size_t len = equals ? (size_t)(equals - text) : 0;

	if (!len || len >= sizeof(type) || !price_parse(equals + 1, &a.low))
		return error_set(err, ERR_INVALID,
			"--price: expected TYPE=AMOUNT or TYPE/spot=AMOUNT, such as p3.2xlarge=2.5, found "
			"'%.80s'",
			text);
	memcpy(type, text, len);
	type[len] = '\0';
	a.high = a.low;
	a.type = type;
	if (len > sizeof(spot) - 1 && !strcmp(type + len - (sizeof(spot) - 1), spot)) {
		type[len - (sizeof(spot) - 1)] = '\0';
		a.what = PRICE_IS_SPOT;
	}
	t = price_type_find(c, type);
	if (!t)
		return error_set(err, ERR_NOT_FOUND,
			"--price: the instance type '%.63s' is not in the catalogue, so its GPUs are not "
			"known: give it in a catalogue file",
			type);
	a.file = price_source_add(c, "--price", t->file->currency, "", err);
	if (!a.file)
		return -1;
	/* A listed region has precedence over "*", so amend each. */
	for (size_t i = 0; i < t->n_regions; i++) {
		a.region = t->regions[i].name;
		if (price_amend(c, &a, err) < 0)
			return -1;
	}
	a.region = PRICE_ANYWHERE;
	return price_amend(c, &a, err) < 0 ? -1 : 0;
}
