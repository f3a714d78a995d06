/* SPDX-License-Identifier: Apache-2.0 */
#include "io/price/import/import.h"
#include "io/price/import/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * instances.json of instances.vantage.sh: a list of types, each with pricing.REGION.linux.{ondemand,
 * spot_avg, spot_min, spot_max, pct_interrupt}. The name of the type may be anywhere in an object. So
 * the reader applies the prices at the object's end.
 */

#define REGIONS_MAX 128

struct region {
	char name[PRICE_NAME_MAX];
	int64_t on_demand, average, least, most; /* < 0: none */
	int interruption;                        /* position in ranges; < 0: none */
};

static const struct {
	const char *word;
	uint32_t low, high; /* thousandths a month */
} ranges[] = { { "<5%", 0, 50 }, { "5-10%", 50, 100 }, { "10-15%", 100, 150 },
	{ "15-20%", 150, 200 }, { ">20%", 200, 1000 } };

struct price_instances {
	struct price_stream stream;
	struct price_catalogue *c;
	const struct price_file *file;
	char type[PRICE_NAME_MAX];
	struct region regions[REGIONS_MAX];
	size_t n, found;
	bool gpu;
	struct strv unknown;
};

/* [].pricing.REGION.linux.KEY */
static int read_instance_price(struct price_instances *p, const char *text)
{
	const char *region = p->stream.path[2], *key = p->stream.path[4];
	struct region *r = p->n ? &p->regions[p->n - 1] : NULL;
	int64_t nano;

	if (!r || strcmp(r->name, region) != 0) {
		if (p->n == REGIONS_MAX || strlen(region) >= sizeof(r->name))
			return 0;
		r = &p->regions[p->n++];
		*r = (struct region){ .on_demand = -1,
			.average = -1,
			.least = -1,
			.most = -1,
			.interruption = -1 };
		(void)snprintf(r->name, sizeof(r->name), "%s", region);
	}
	if (!strcmp(key, "pct_interrupt")) {
		for (size_t i = 0; i < ARRAY_LEN(ranges); i++)
			if (!strcmp(text, ranges[i].word))
				r->interruption = (int)i;
		return 0;
	}
	/* "N/A" and the like are no prices; 0 is none either. */
	if (!price_parse(text, &nano) || !nano)
		return 0;
	if (!strcmp(key, "ondemand"))
		r->on_demand = nano;
	else if (!strcmp(key, "spot_avg"))
		r->average = nano;
	else if (!strcmp(key, "spot_min"))
		r->least = nano;
	else if (!strcmp(key, "spot_max"))
		r->most = nano;
	return 0;
}

static int on_instances_value(void *arg, const char *text, struct error *err)
{
	struct price_instances *p = arg;
	const struct price_stream *s = &p->stream;

	(void)err;
	if (stream_at(s, 2, "", "instance_type"))
		(void)snprintf(p->type, sizeof(p->type), "%.63s", text);
	else if (stream_at(s, 2, "", "GPU"))
		p->gpu = strspn(text, "0.") < strlen(text);
	else if (stream_at(s, 5, "", "pricing") && !strcmp(s->path[3], "linux"))
		return read_instance_price(p, text);
	return 0;
}

static int amend_instance_price(struct price_instances *p, const struct region *r,
	enum price_what what, int64_t low, int64_t high, struct error *err)
{
	const struct price_amendment a = { p->type, r->name, what, low, high, PRICE_RANK_OTHERS,
		p->file };

	return price_amend(p->c, &a, err) < 0 ? -1 : 0;
}

static int amend_instance_region(struct price_instances *p, const struct region *r,
	struct error *err)
{
	if (r->on_demand >= 0 && amend_instance_price(p, r, PRICE_IS_ON_DEMAND, r->on_demand,
					 r->on_demand, err) < 0)
		return -1;
	if (r->average >= 0) {
		if (amend_instance_price(p, r, PRICE_IS_SPOT, r->average, r->average, err) < 0)
			return -1;
	} else if (r->least >= 0 && r->most >= r->least &&
		   amend_instance_price(p, r, PRICE_IS_SPOT, r->least, r->most, err) < 0) {
		return -1;
	}
	if (r->interruption < 0)
		return 0;
	return amend_instance_price(p, r, PRICE_IS_INTERRUPTION, ranges[r->interruption].low,
		ranges[r->interruption].high, err);
}

static int on_instances_end(void *arg, struct error *err)
{
	struct price_instances *p = arg;

	if (!stream_at(&p->stream, 1, "", NULL))
		return 0;
	for (size_t i = 0; i < p->n && price_type_find(p->c, p->type); i++) {
		if (!p->file) {
			p->file = price_source_add(p->c, p->stream.name, "USD", "", err);
			if (!p->file)
				return -1;
		}
		if (amend_instance_region(p, &p->regions[i], err) < 0)
			return -1;
		p->found++;
	}
	if (p->gpu && !price_type_find(p->c, p->type) &&
		import_unknown_add(&p->unknown, p->type, err) < 0)
		return -1;
	p->gpu = false;
	p->n = 0;
	p->type[0] = '\0';
	return 0;
}

int price_instances_new(struct price_instances **ret, struct price_catalogue *c,
	const char *name, struct error *err)
{
	struct price_instances *p = calloc(1, sizeof(*p));

	if (!p)
		return error_nomem(err);
	p->c = c;
	p->stream = (struct price_stream){ .name = name,
		.value = on_instances_value,
		.end = on_instances_end,
		.arg = p };
	if (stream_init(&p->stream, err) < 0) {
		free(p);
		return -1;
	}
	*ret = p;
	return 0;
}

struct price_instances *price_instances_free(struct price_instances *p)
{
	if (!p)
		return NULL;
	import_stream_fini(&p->stream);
	strv_fini(&p->unknown);
	free(p);
	return NULL;
}

int price_instances_feed(struct price_instances *p, const char *text, size_t len,
	struct error *err)
{
	return stream_feed(&p->stream, text, len, err);
}

int price_instances_end(struct price_instances *p, struct strv *warnings, struct error *err)
{
	if (stream_end(&p->stream, err) < 0)
		return -1;
	import_unknown_warn(&p->unknown, p->stream.name, warnings);
	if (!p->found)
		import_warn(warnings,
			"%s: no price of a type with GPUs that the catalogue knows",
			p->stream.name);
	return 0;
}
