/* SPDX-License-Identifier: Apache-2.0 */
#include "io/price/catalogue.h"

#include "lib/yaml/yaml.h"
#include "lib/base/array.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* The reader of catalogue files. Copies texts of the file to the pool, as the YAML tree is freed. */

#define VERSION     "gpuslice/prices/v1"
#define WHOLE_MILLI 1000

struct catalogue_reader {
	struct price_catalogue *c;
	struct price_file *file;
	const struct yaml_source *src;
	struct error *err;
};

static int set_catalogue_error(const struct catalogue_reader *r, const struct yaml_node *n,
	const char *key, const char *expected)
{
	char found[YAML_SHOW_MAX];

	return yaml_fail(r->src, n->line, n->column, ERR_INVALID, r->err,
		"%s: expected %s, found %s", key, expected, yaml_show(n, found, sizeof(found)));
}

/* Reads a scalar as a word; the pool owns the copy. */
static int read_catalogue_word(const struct catalogue_reader *r, const struct yaml_node *n,
	const char *key, const char **ret)
{
	bool fits = n->type != YAML_LIST && n->type != YAML_OBJECT && n->type != YAML_NULL &&
		    n->len > 0 && n->len < PRICE_NAME_MAX;

	for (size_t i = 0; fits && i < n->len; i++)
		fits = isgraph((unsigned char)n->text[i]);
	if (!fits)
		return set_catalogue_error(r, n, key,
			"a name of 1 to 63 characters without blanks");
	if (strv_add(&r->c->pool, n->text, r->err) < 0)
		return -1;
	*ret = r->c->pool.v[r->c->pool.n - 1];
	return 0;
}

static int read_catalogue_number(const struct catalogue_reader *r, const struct yaml_node *n,
	const char *key, uint32_t *ret)
{
	int64_t v;

	if (n->type == YAML_NULL)
		return 0;
	if (!yaml_integer(n, &v) || v < 0 || v > UINT32_MAX)
		return set_catalogue_error(r, n, key, "a number from 0 to 4294967295");
	*ret = (uint32_t)v;
	return 0;
}

/* The region @name of @t, added if missing. @at is its key, or NULL. NULL: an error. */
static struct price_region *region_named(const struct catalogue_reader *r,
	const struct yaml_node *at, const char *name, struct price_type *t)
{
	struct price_region *region = price_type_find_region(t, name);

	if (region)
		return region;
	if (t->n_regions == PRICE_REGIONS_MAX) {
		(void)yaml_fail(r->src, at ? at->line : 1, at ? at->column : 1, ERR_LIMIT,
			r->err, "%s: expected at most %d regions", t->name, PRICE_REGIONS_MAX);
		return NULL;
	}
	return price_type_add_region(t, name, r->err);
}

static struct price_region *region_at(const struct catalogue_reader *r,
	const struct yaml_node *key, struct price_type *t)
{
	const char *name = NULL;

	if (read_catalogue_word(r, key, "region", &name) < 0)
		return NULL;
	return region_named(r, key, name, t);
}

static bool is_price(const struct yaml_node *n, int64_t *ret)
{
	return n->type != YAML_LIST && n->type != YAML_OBJECT && n->type != YAML_NULL &&
	       price_parse(n->text, ret);
}

static int read_on_demand(const struct catalogue_reader *r, const struct yaml_node *n,
	struct price_region *region)
{
	if (is_price(n, &region->nano_per_hour))
		return 0;
	return set_catalogue_error(r, n, region->name,
		"a price per hour from 0 to 1000000, such as 3.06");
}

static int read_spot(const struct catalogue_reader *r, const struct yaml_node *n,
	struct price_region *region)
{
	if (n->type == YAML_LIST && n->n == 2 && is_price(n->items[0], &region->spot_low) &&
		is_price(n->items[1], &region->spot_high) &&
		region->spot_low <= region->spot_high)
		return 0;
	if (is_price(n, &region->spot_low)) {
		region->spot_high = region->spot_low;
		return 0;
	}
	return set_catalogue_error(r, n, region->name,
		"a spot price per hour, or the lowest and the highest, such as [0.36, 0.38]");
}

static int read_regions(const struct catalogue_reader *r, const struct yaml_node *n,
	const char *key, struct price_type *t,
	int (*read)(const struct catalogue_reader *r, const struct yaml_node *n,
		struct price_region *region))
{
	if (n->type != YAML_OBJECT)
		return set_catalogue_error(r, n, key,
			"prices by region, such as {us-east-1: 3.06}");
	if (n->n > PRICE_REGIONS_MAX)
		return yaml_fail(r->src, n->line, n->column, ERR_LIMIT, r->err,
			"%s: expected at most %d regions, found %zu", key, PRICE_REGIONS_MAX,
			n->n);
	for (size_t i = 0; i < n->n; i++) {
		struct price_region *region = region_at(r, n->pairs[i].key, t);

		if (!region)
			return -1;
		if (n->pairs[i].value->type != YAML_NULL && /* null: not sold there */
			read(r, n->pairs[i].value, region) < 0)
			return -1;
	}
	return 0;
}

static bool is_share(const struct yaml_node *n, uint32_t *ret_milli)
{
	if ((n->type != YAML_FLOAT && n->type != YAML_INT) || !(n->f >= 0 && n->f <= 1))
		return false;
	*ret_milli = (uint32_t)(n->f * WHOLE_MILLI + 0.5);
	return true;
}

/* Only the user's catalogue has these; the share of interrupted instances in a month. */
static int read_interruptions(const struct catalogue_reader *r, const struct yaml_node *n,
	struct price_region *region)
{
	bool range = n->type == YAML_LIST && n->n == 2;

	if (!is_share(range ? n->items[0] : n, &region->interrupt_low_milli) ||
		!is_share(range ? n->items[1] : n, &region->interrupt_high_milli) ||
		region->interrupt_low_milli > region->interrupt_high_milli)
		return set_catalogue_error(r, n, region->name,
			"the share of instances that are interrupted in a month, from 0 to 1, or from "
			"and to, such as [0.05, 0.1]");
	return 0;
}

static int read_gpu_fraction(const struct catalogue_reader *r, const struct yaml_node *n,
	struct price_type *t)
{
	if ((n->type != YAML_FLOAT && n->type != YAML_INT) || !(n->f > 0 && n->f <= 1))
		return set_catalogue_error(r, n, "part",
			"a part of a GPU, above 0 and at most 1");
	t->gpu_milli = (uint32_t)(n->f * WHOLE_MILLI + 0.5);
	if (!t->gpu_milli)
		t->gpu_milli = 1;
	return 0;
}

static int read_allocatable(const struct catalogue_reader *r, const struct yaml_node *n,
	struct price_type *t)
{
	if (n->type != YAML_OBJECT)
		return set_catalogue_error(r, n, "allocatable",
			"an object with cpuMilli and memoryMiB");
	for (size_t i = 0; i < n->n; i++) {
		const char *word = yaml_as_text(n->pairs[i].key);
		int got;

		if (!strcmp(word, "cpuMilli"))
			got = read_catalogue_number(r, n->pairs[i].value, word,
				&t->allocatable_cpu_milli);
		else if (!strcmp(word, "memoryMiB"))
			got = read_catalogue_number(r, n->pairs[i].value, word,
				&t->allocatable_memory_mib);
		else
			got = set_catalogue_error(r, n->pairs[i].key, "allocatable",
				"cpuMilli or memoryMiB");
		if (got < 0)
			return -1;
	}
	return 0;
}

static int read_fields(const struct catalogue_reader *r, const struct yaml_node *n,
	struct price_type *t)
{
	const struct {
		const char *key;
		uint32_t *to;
	} numbers[] = { { "gpus", &t->gpus }, { "gpuMemoryMiB", &t->gpu_memory_mib },
		{ "vcpus", &t->vcpus }, { "memoryMiB", &t->memory_mib } };

	for (size_t i = 0; i < n->n; i++) {
		const struct yaml_node *key = n->pairs[i].key, *value = n->pairs[i].value;
		const char *word = yaml_as_text(key);
		size_t j = 0;
		int got;

		while (j < ARRAY_LEN(numbers) && strcmp(word, numbers[j].key) != 0)
			j++;
		if (j < ARRAY_LEN(numbers))
			got = read_catalogue_number(r, value, word, numbers[j].to);
		else if (!strcmp(word, "gpu"))
			got = read_catalogue_word(r, value, word, &t->gpu);
		else if (!strcmp(word, "arch"))
			got = read_catalogue_word(r, value, word, &t->arch);
		else if (!strcmp(word, "part"))
			got = read_gpu_fraction(r, value, t);
		else if (!strcmp(word, "allocatable"))
			got = read_allocatable(r, value, t);
		else if (!strcmp(word, "pricePerHour"))
			got = read_regions(r, value, word, t, read_on_demand);
		else if (!strcmp(word, "spotPerHour"))
			got = read_regions(r, value, word, t, read_spot);
		else if (!strcmp(word, "interruptions"))
			got = read_regions(r, value, word, t, read_interruptions);
		else
			got = set_catalogue_error(r, key, t->name,
				"gpu, gpus, gpuMemoryMiB, vcpus, memoryMiB, arch, part, allocatable, "
				"pricePerHour, spotPerHour or interruptions");
		if (got < 0)
			return -1;
	}
	if (!t->n_regions && !yaml_get(n, "pricePerHour", false))
		return yaml_fail(r->src, n->line, n->column, ERR_INVALID, r->err,
			"%s: pricePerHour is missing", t->name);
	return 0;
}

/* Takes the hardware facts from the old type where the file does not give them. */
static void inherit_gpu(const struct yaml_node *n, struct price_type *t,
	const struct price_type *old)
{
	t->gpu = old->gpu;
	if (!yaml_get(n, "arch", false))
		t->arch = old->arch;
	if (!yaml_get(n, "part", false))
		t->gpu_milli = old->gpu_milli;
	t->gpus = t->gpus ? t->gpus : old->gpus;
	t->gpu_memory_mib = t->gpu_memory_mib ? t->gpu_memory_mib : old->gpu_memory_mib;
	if (!t->allocatable_cpu_milli && !t->vcpus)
		t->allocatable_cpu_milli = old->allocatable_cpu_milli;
	if (!t->allocatable_memory_mib && !t->memory_mib)
		t->allocatable_memory_mib = old->allocatable_memory_mib;
	t->vcpus = t->vcpus ? t->vcpus : old->vcpus;
	t->memory_mib = t->memory_mib ? t->memory_mib : old->memory_mib;
}

/* Takes the old type's spot prices, which have the same currency. */
static int inherit_spot(const struct catalogue_reader *r, struct price_type *t,
	const struct price_type *old)
{
	for (size_t i = 0; i < old->n_regions; i++) {
		const struct price_region *from = &old->regions[i];
		struct price_region *to;

		if (from->spot_low < 0)
			continue;
		to = region_named(r, NULL, from->name, t);
		if (!to)
			return -1;
		to->spot_low = from->spot_low;
		to->spot_high = from->spot_high;
		to->spot_from = old->file;
	}
	return 0;
}

/* Keeps the facts of the old type that the file does not give, except prices on demand. A file that
 * gives the key gpu keeps nothing. */
static int inherit_price_type(const struct catalogue_reader *r, const struct yaml_node *n,
	struct price_type *t, const struct price_type *old)
{
	if (!yaml_get(n, "gpu", false))
		inherit_gpu(n, t, old);
	if (yaml_get(n, "gpu", false) || yaml_get(n, "spotPerHour", false) ||
		strcmp(old->file->currency, r->file->currency) != 0)
		return 0;
	return inherit_spot(r, t, old);
}

/* The empty place of the type @name in the catalogue. A type that was there moves to @old. */
static struct price_type *reserve_price_type(const struct catalogue_reader *r,
	const struct yaml_node *at, const char *name, struct price_type *old)
{
	struct price_catalogue *c = r->c;
	struct price_type *t = NULL;

	/* The types of this file follow those of earlier files; YAML has no key twice. */
	for (size_t i = 0; i < c->n && !t; i++)
		t = c->types[i].file != r->file && !strcmp(c->types[i].name, name)
			    ? &c->types[i]
			    : NULL;
	if (t)
		*old = *t;
	if (!t && c->n == PRICE_TYPES_MAX) {
		(void)yaml_fail(r->src, at->line, at->column, ERR_LIMIT, r->err,
			"expected at most %d instance types", PRICE_TYPES_MAX);
		return NULL;
	}
	if (!t && !ARRAY_GROW(&c->types, c->n, &c->room, PRICE_TYPES_MAX)) {
		(void)error_nomem(r->err);
		return NULL;
	}
	if (!t)
		t = &c->types[c->n++];
	*t = (struct price_type){ .name = name,
		.gpu = "",
		.arch = "amd64",
		.gpu_milli = WHOLE_MILLI,
		.file = r->file };
	return t;
}

static int read_types(const struct catalogue_reader *r, const struct yaml_node *n)
{
	if (n->type != YAML_OBJECT)
		return set_catalogue_error(r, n, "types",
			"an object with a key for each instance type");
	for (size_t i = 0; i < n->n; i++) {
		const struct yaml_node *value = n->pairs[i].value;
		struct price_type *t, old = { .regions = NULL };
		const char *name = "";
		int got;

		if (read_catalogue_word(r, n->pairs[i].key, "types", &name) < 0)
			return -1;
		if (value->type != YAML_OBJECT)
			return set_catalogue_error(r, value, name,
				"an object with pricePerHour");
		t = reserve_price_type(r, n->pairs[i].key, name, &old);
		got = t ? read_fields(r, value, t) : -1;
		if (got == 0 && old.file)
			got = inherit_price_type(r, value, t, &old);
		free(old.regions);
		if (got < 0)
			return -1;
	}
	return 0;
}

static bool is_file_currency(const char *text)
{
	return strlen(text) == 3 && strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == 3;
}

static bool is_file_day(const char *text)
{
	static const char form[] = "0000-00-00";

	for (size_t i = 0; i < sizeof(form); i++) {
		if (form[i] == '0' ? !isdigit((unsigned char)text[i]) : text[i] != form[i])
			return false;
	}
	return true;
}

static int read_catalogue_head(const struct catalogue_reader *r, const struct yaml_node *n)
{
	const struct yaml_node *version = yaml_get(n, "version", false);

	if (!version || version->type != YAML_STR || strcmp(version->text, VERSION) != 0)
		return set_catalogue_error(r, version ? version : n, "version", VERSION);
	for (size_t i = 0; i < n->n; i++) {
		const struct yaml_node *key = n->pairs[i].key, *value = n->pairs[i].value;
		const char *word = yaml_as_text(key);

		if (!strcmp(word, "currency")) {
			if (read_catalogue_word(r, value, word, &r->file->currency) < 0)
				return -1;
			if (!is_file_currency(r->file->currency))
				return set_catalogue_error(r, value, word,
					"three capital letters, such as USD");
		} else if (!strcmp(word, "stamp")) {
			if (read_catalogue_word(r, value, word, &r->file->stamp) < 0)
				return -1;
			if (!is_file_day(r->file->stamp))
				return set_catalogue_error(r, value, word,
					"the day of the prices, as 2026-07-20");
		} else if (strcmp(word, "version") != 0 && strcmp(word, "types") != 0) {
			return set_catalogue_error(r, key, "file",
				"version, currency, stamp or types");
		}
	}
	return 0;
}

int price_catalogue_read(struct price_catalogue *c, struct price_file *file, const char *name,
	const char *text, size_t len, struct error *err)
{
	const struct yaml_source src = { .name = name, .text = text, .len = len };
	const struct catalogue_reader r = { c, file, &src, err };
	CLEANUP(yaml_freep) struct yaml *y = NULL;
	const struct yaml_node *types;

	file->currency = "USD";
	file->stamp = "";
	if (len > PRICE_FILE_MAX)
		return error_set(err, ERR_LIMIT, "%s: expected at most %u bytes, found %zu",
			name, PRICE_FILE_MAX, len);
	if (strv_add(&c->pool, name, err) < 0)
		return -1;
	file->source = c->pool.v[c->pool.n - 1];
	if (yaml_parse(&y, &src, err) < 0)
		return -1;
	if (y->n != 1 || y->docs[0]->type != YAML_OBJECT)
		return error_set(err, ERR_INVALID,
			"%s:1:1: expected one document, an object with version and types",
			name);
	types = yaml_get(y->docs[0], "types", false);
	if (read_catalogue_head(&r, y->docs[0]) < 0)
		return -1;
	if (!types)
		return set_catalogue_error(&r, y->docs[0], "types", "instance types");
	return read_types(&r, types);
}
