/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "lib/base/buf.h"
#include "lib/base/fd.h"
#include "io/price/import/import.h"
#include "io/price/import/load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Files of others, and which of two amounts counts. */

#define LIST    DATA "/price-list.json"
#define QUERY   DATA "/price-query.json"
#define HISTORY DATA "/spot-history.json"
#define ADVISOR DATA "/spot-advisor.json"
#define VANTAGE DATA "/instances.json"

struct offer {
	const char *type;
	bool spot;
	struct price_offer is;
	bool found;
};

static int save_matching_offer(void *arg, const struct price_offer *p)
{
	struct offer *o = arg;

	if (!strcmp(p->price.type, o->type) && p->spot == o->spot) {
		o->is = *p;
		o->found = true;
	}
	return 0;
}

static struct price_offer find_only_offer(const struct price_catalogue *c, const char *type,
	const char *region, bool spot)
{
	struct offer o = { type, spot, { .spot = false }, false };

	assert_int_equal(price_each(c, region, save_matching_offer, &o), 0);
	if (!o.found)
		fail_msg("no %s in %s", type, region);
	return o.is;
}

/* @files and @amounts end with NULL. */
static int load_catalogue(struct price_catalogue **ret, const char *const *files,
	const char *const *amounts, struct strv *warnings, struct error *err)
{
	CLEANUP(strv_fini) struct strv list = { .v = NULL }, over = { .v = NULL };

	for (; *files; files++)
		assert_int_equal(strv_add(&list, *files, err), 0);
	for (; *amounts; amounts++)
		assert_int_equal(strv_add(&over, *amounts, err), 0);
	return price_catalogue_load_all(ret, &list, &over, warnings, err);
}

static const char *const nothing[] = { NULL };

static void import__tells_forms_apart(void **state)
{
	static const struct {
		const char *text;
		enum import_form form;
	} rows[] = {
		{ "", IMPORT_OWN },
		{ "version: gpuslice/prices/v1\n", IMPORT_OWN },
		{ "{\"version\": \"gpuslice/prices/v1\"}", IMPORT_OWN },
		{ "\n {\"formatVersion\": \"v1.0\", \"offerCode\": \"AmazonEC2\"",
			IMPORT_PRICE_LIST },
		{ "{\"SpotPriceHistory\": []}", IMPORT_SPOT_HISTORY },
		{ "{\"FormatVersion\": \"aws_v1\", \"PriceList\": [", IMPORT_PRICE_QUERY },
		{ "{\"instance_types\": {}", IMPORT_SPOT_ADVISOR },
		{ "[ {\"GPU\": 1, \"instance_type\": \"g6.xlarge\"", IMPORT_INSTANCES },
		{ "[]", IMPORT_UNKNOWN },
		{ "{\"foo\": 1}", IMPORT_UNKNOWN },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_int_equal(import_form(rows[i].text, strlen(rows[i].text)), rows[i].form);
}

static void price_list__is_linux_on_demand_alone(void **state)
{
	CLEANUP(price_catalogue_freep) struct price_catalogue *c = NULL;
	CLEANUP(strv_fini) struct strv warnings = { .v = NULL };
	struct error err = ERROR_INIT;
	struct price_offer o;

	(void)state;
	assert_ok(load_catalogue(&c, (const char *const[]){ LIST, NULL }, nothing, &warnings,
			  &err),
		&err);
	o = find_only_offer(c, "g6.xlarge", "us-east-1", false);
	assert_int_equal(o.price.nano_per_hour, 700000000);
	assert_string_equal(o.price.source, LIST);
	assert_string_equal(o.price.stamp, "2026-11-01");
	assert_string_equal(o.price.currency, "USD");
	/* A region that the shipped catalogue does not have; ten decimals, rounded to nine. */
	assert_int_equal(
		find_only_offer(c, "p3.2xlarge", "eu-west-3", false).price.nano_per_hour,
		3456789012);
	/* A price of 0 is none. */
	o = find_only_offer(c, "g5.xlarge", "us-east-1", false);
	assert_int_equal(o.price.nano_per_hour, 1006000000);
	assert_string_equal(o.price.source, "shipped catalogue");
	assert_int_equal(warnings.n, 0);
}

/* 30 days before 2026-10-31: us-east-1a was at 0.3 until half a day before the end, then at 0.1. */
/* The same products as a query returns them, and one with an unknown GPU. */
static void price_query__is_the_list_as_texts(void **state)
{
	CLEANUP(price_catalogue_freep) struct price_catalogue *c = NULL;
	CLEANUP(strv_fini) struct strv warnings = { .v = NULL };
	struct error err = ERROR_INIT;
	struct price_offer o;

	(void)state;
	assert_ok(load_catalogue(&c, (const char *const[]){ QUERY, NULL }, nothing, &warnings,
			  &err),
		&err);
	o = find_only_offer(c, "g6.xlarge", "us-east-1", false);
	assert_int_equal(o.price.nano_per_hour, 700000000);
	assert_string_equal(o.price.source, QUERY);
	assert_string_equal(o.price.stamp, "2026-11-01");
	assert_int_equal(
		find_only_offer(c, "p3.2xlarge", "eu-west-3", false).price.nano_per_hour,
		3456789012);
	assert_int_equal(warnings.n, 1);
	assert_string_equal(warnings.v[0],
		QUERY ": left out, as the catalogue does not know their GPUs: g99.xlarge");
}

static void spot_history__weighs_by_time(void **state)
{
	CLEANUP(price_catalogue_freep) struct price_catalogue *c = NULL;
	struct error err = ERROR_INIT;
	struct price_offer o;

	(void)state;
	assert_ok(load_catalogue(&c, (const char *const[]){ HISTORY, ADVISOR, NULL }, nothing,
			  NULL, &err),
		&err);
	o = find_only_offer(c, "g6.xlarge", "us-east-1", true);
	assert_int_equal(o.low, 300000000);
	assert_int_equal(o.high, 350000000);
	assert_int_equal(o.price.nano_per_hour, 325000000);
	assert_string_equal(o.price.source, HISTORY);
	assert_string_equal(o.price.stamp, "2026-10-31");
	assert_int_equal(o.interrupt_low_milli, 50);
	assert_int_equal(o.interrupt_high_milli, 100);
	o = find_only_offer(c, "g6.xlarge", "us-west-2", true);
	assert_int_equal(o.low, 250000000);
	assert_int_equal(o.interrupt_high_milli, 0); /* 9 is no range */
	/* The on-demand price has not changed. */
	assert_string_equal(find_only_offer(c, "g6.xlarge", "us-east-1", false).price.source,
		"shipped catalogue");
}

/* The order of ranks: --price, the catalogue of the user, prices of AWS, the shipped catalogue; whatever the order of the files. */
static void load__ranks_sources(void **state)
{
	static const char own[] = "version: gpuslice/prices/v1\ntypes:\n"
				  "  g6.xlarge: {pricePerHour: {us-east-1: 0.6}}\n";
	char path[] = "/tmp/test-price-import.XXXXXX";
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(write(fd, own, strlen(own)), strlen(own));
	close(fd);
	for (int turn = 0; turn < 2; turn++) {
		CLEANUP(price_catalogue_freep) struct price_catalogue *c = NULL;
		CLEANUP(price_catalogue_freep) struct price_catalogue *over = NULL;
		const char *const files[] = { turn ? LIST : path, turn ? path : LIST, NULL };
		const char *const amounts[] = { "g6.xlarge=0.5", "g6.xlarge/spot=0.2",
			"p3.2xlarge=1", NULL };
		struct error err = ERROR_INIT;

		assert_ok(load_catalogue(&c, files, nothing, NULL, &err), &err);
		assert_int_equal(
			find_only_offer(c, "g6.xlarge", "us-east-1", false).price.nano_per_hour,
			600000000);
		assert_ok(load_catalogue(&over, files, amounts, NULL, &err), &err);
		assert_int_equal(find_only_offer(over, "g6.xlarge", "us-east-1", false)
					 .price.nano_per_hour,
			500000000);
		assert_int_equal(find_only_offer(over, "g6.xlarge", "us-east-1", true)
					 .price.nano_per_hour,
			200000000);
		assert_int_equal(find_only_offer(over, "p3.2xlarge", "eu-west-1", false)
					 .price.nano_per_hour,
			PRICE_NANO);
		assert_int_equal(find_only_offer(over, "p3.2xlarge", "nowhere", false)
					 .price.nano_per_hour,
			PRICE_NANO);
		assert_string_equal(
			find_only_offer(over, "p3.2xlarge", "nowhere", false).price.source,
			"--price");
	}
	unlink(path);
}

static void errors__name_file_and_place(void **state)
{
	static const char *const bad[][2] = {
		{ "g6.xlarge", "expected TYPE=AMOUNT" },
		{ "=3", "expected TYPE=AMOUNT" },
		{ "g6.xlarge=-1", "expected TYPE=AMOUNT" },
		{ "nobody.large=1", "is not in the catalogue" },
	};
	static const struct {
		int (*read)(struct price_catalogue *c, const char *name, const char *text,
			size_t len, struct strv *warnings, struct error *err);
		const char *text, *error;
	} texts[] = {
		{ spot_history_read, "{\"SpotPriceHistory\": 7}",
			"f: SpotPriceHistory: expected a list" },
		{ spot_history_read,
			"{\"SpotPriceHistory\": [{\"InstanceType\": \"g6.xlarge\", "
			"\"AvailabilityZone\": \"us-east-1a\", \"SpotPrice\": \"x\"}]}",
			"f: SpotPriceHistory[0].SpotPrice: expected an amount" },
		{ spot_history_read,
			"{\"SpotPriceHistory\": [{\"InstanceType\": \"g6.xlarge\", "
			"\"AvailabilityZone\": \"us-east-1a\", \"SpotPrice\": \"1\", \"Timestamp\": "
			"\"2026-13-01T00:00:00Z\"}]}",
			"f: SpotPriceHistory[0].Timestamp: expected a time" },
		{ spot_history_read, "{", "f:1:" },
		{ price_query_read, "{\"PriceList\": 7}", "f: PriceList: expected a list" },
		{ price_query_read, "{\"PriceList\": [7]}",
			"f: PriceList[0]: expected a product with a sku" },
		{ price_query_read, "{\"PriceList\": [\"{\"]}", "f: PriceList[0]: " },
		{ spot_advisor_read, "{\"spot_advisor\": []}",
			"f: spot_advisor: expected an object" },
	};
	struct error err = ERROR_INIT;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct price_catalogue *c = NULL;

		assert_error(load_catalogue(&c, nothing,
				     (const char *const[]){ bad[i][0], NULL }, NULL, &err),
			&err, bad[i][1]);
	}
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		CLEANUP(price_catalogue_freep) struct price_catalogue *c = NULL;

		assert_ok(load_catalogue(&c, nothing, nothing, NULL, &err), &err);
		assert_error(
			texts[i].read(c, "f", texts[i].text, strlen(texts[i].text), NULL, &err),
			&err, texts[i].error);
	}
}

/* The result is the same in pieces of one byte. The import refuses a list that is cut off, nested deeply, or
 * has an invalid price. */
static void price_list__is_a_stream(void **state)
{
	CLEANUP(price_catalogue_freep) struct price_catalogue *c = NULL;
	CLEANUP(price_list_freep) struct price_list *l = NULL;
	CLEANUP(price_list_freep) struct price_list *cut = NULL;
	CLEANUP(price_list_freep) struct price_list *deep = NULL;
	CLEANUP(buf_fini) struct buf text = BUF_INIT(1U << 20);
	struct error err = ERROR_INIT;
	char brackets[100];

	(void)state;
	assert_ok(load_catalogue(&c, nothing, nothing, NULL, &err), &err);
	assert_ok(file_read(LIST, &text, &err), &err);
	assert_ok(price_list_new(&l, c, "list", &err), &err);
	for (size_t i = 0; i < text.len; i++)
		assert_ok(price_list_feed(l, buf_str(&text) + i, 1, &err), &err);
	assert_ok(price_list_end(l, NULL, &err), &err);
	assert_int_equal(
		find_only_offer(c, "g6.xlarge", "us-east-1", false).price.nano_per_hour,
		700000000);
	assert_ok(price_list_new(&cut, c, "list", &err), &err);
	assert_ok(price_list_feed(cut, buf_str(&text), text.len / 2, &err), &err);
	assert_error(price_list_end(cut, NULL, &err), &err,
		"list: no JSON, or cut off, in line ");
	assert_ok(price_list_new(&deep, c, "list", &err), &err);
	memset(brackets, '[', sizeof(brackets));
	assert_error(price_list_feed(deep, brackets, sizeof(brackets), &err), &err,
		"list: nested more than 16 deep");
}

static void instances__have_all_regions(void **state)
{
	CLEANUP(price_catalogue_freep) struct price_catalogue *c = NULL;
	CLEANUP(price_catalogue_freep) struct price_catalogue *aws = NULL;
	struct error err = ERROR_INIT;
	struct price_offer o;

	(void)state;
	assert_ok(
		load_catalogue(&c, (const char *const[]){ VANTAGE, NULL }, nothing, NULL, &err),
		&err);
	o = find_only_offer(c, "g6.xlarge", "us-east-1", false);
	assert_int_equal(o.price.nano_per_hour, 750000000);
	assert_string_equal(o.price.source, VANTAGE);
	o = find_only_offer(c, "g6.xlarge", "us-east-1", true);
	assert_int_equal(o.price.nano_per_hour, 310000000);
	assert_int_equal(o.interrupt_low_milli, 100);
	assert_int_equal(o.interrupt_high_milli, 150);
	o = find_only_offer(c, "g6.xlarge", "us-west-2", true);
	assert_int_equal(o.low, 200000000);
	assert_int_equal(o.high, 400000000);
	/* The type follows its prices. */
	assert_int_equal(
		find_only_offer(c, "p3.2xlarge", "us-east-1", false).price.nano_per_hour,
		3000000000);
	/* AWS's own files go before it, whatever the order. */
	assert_ok(load_catalogue(&aws, (const char *const[]){ LIST, HISTORY, VANTAGE, NULL },
			  nothing, NULL, &err),
		&err);
	assert_string_equal(find_only_offer(aws, "g6.xlarge", "us-east-1", false).price.source,
		LIST);
	assert_string_equal(find_only_offer(aws, "g6.xlarge", "us-east-1", true).price.source,
		HISTORY);
	assert_string_equal(find_only_offer(aws, "p3.2xlarge", "us-east-1", false).price.source,
		VANTAGE);
}

static char *own_file(const char *text)
{
	char *path = strdup("/tmp/test-price-import.XXXXXX");
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	return path;
}

/* "*" of the user's file precedes a region of AWS's; missing prices are AWS's. */
static void load__ranks_regions_and_halves(void **state)
{
	static const char *const texts[] = {
		"version: gpuslice/prices/v1\ntypes:\n  g6.xlarge: {pricePerHour: {\"*\": 2.5}}\n",
		("version: gpuslice/prices/v1\ntypes:\n"
		 "  g6.xlarge: {pricePerHour: {us-east-1: 2.5}}\n"),
		"version: gpuslice/prices/v1\ntypes:\n  g6.xlarge: {spotPerHour: {us-east-1: 0.2}}\n",
	};
	const struct {
		int64_t on_demand, spot_low;
	} want[] = { { 2500000000, 300000000 }, { 2500000000, 300000000 },
		{ 700000000, 200000000 } };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		CLEANUP(price_catalogue_freep) struct price_catalogue *c = NULL;
		char *path = own_file(texts[i]);
		struct error err = ERROR_INIT;

		assert_ok(load_catalogue(&c, (const char *const[]){ LIST, HISTORY, path, NULL },
				  nothing, NULL, &err),
			&err);
		assert_int_equal(
			find_only_offer(c, "g6.xlarge", "us-east-1", false).price.nano_per_hour,
			want[i].on_demand);
		assert_int_equal(find_only_offer(c, "g6.xlarge", "us-east-1", true).low,
			want[i].spot_low);
		unlink(path);
		free(path);
	}
}

/* Interruptions have ranks too, and what cannot be read twice is refused. */
static void load__does_not_depend_on_order(void **state)
{
	struct price_catalogue *none = NULL;
	struct error err = ERROR_INIT;
	int ends[2];
	char path[64];

	(void)state;
	for (int turn = 0; turn < 2; turn++) {
		CLEANUP(price_catalogue_freep) struct price_catalogue *c = NULL;
		const char *const files[] = { turn ? ADVISOR : VANTAGE,
			turn ? VANTAGE : ADVISOR, NULL };

		assert_ok(load_catalogue(&c, files, nothing, NULL, &err), &err);
		assert_int_equal(
			find_only_offer(c, "g6.xlarge", "us-east-1", true).interrupt_high_milli,
			100);
	}
	assert_int_equal(pipe(ends), 0);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", ends[0]);
	assert_error(
		load_catalogue(&none, (const char *const[]){ path, NULL }, nothing, NULL, &err),
		&err, "expected a regular file");
	close(ends[0]);
	close(ends[1]);
}

/* The import drops an invalid day and an invalid currency, and refuses text without an end. */
static void price_list__trusts_no_text(void **state)
{
	static const char list[] =
		"{\"offerCode\": \"x\", \"publicationDate\": \"\\u001b[31mXX-aa\", \"products\": {\"A\": "
		"{\"productFamily\": \"Compute Instance (bare metal)\", \"attributes\": {\"instanceType\": "
		"\"g6.xlarge\", \"regionCode\": \"us-east-1\", \"tenancy\": \"Dedicated\", "
		"\"operatingSystem\": \"Linux\", \"preInstalledSw\": \"NA\", \"capacitystatus\": \"Used\", "
		"\"marketoption\": \"OnDemand\", \"usagetype\": \"BoxUsage:x\"}}}, \"terms\": {\"OnDemand\": "
		"{\"A\": {\"A.J\": {\"priceDimensions\": {\"A.J.6\": {\"pricePerUnit\": "
		"{\"\\u001b[m\": \"9\", \"USD\": \"0.5\"}}}}}}}}";
	CLEANUP(price_catalogue_freep) struct price_catalogue *c = NULL;
	CLEANUP(price_list_freep) struct price_list *l = NULL;
	CLEANUP(price_list_freep) struct price_list *endless = NULL;
	struct error err = ERROR_INIT;
	struct price_offer o;
	char text[4096];
	int got = 0;

	(void)state;
	assert_ok(load_catalogue(&c, nothing, nothing, NULL, &err), &err);
	assert_ok(price_list_new(&l, c, "list", &err), &err);
	assert_ok(price_list_feed(l, list, sizeof(list) - 1, &err), &err);
	assert_ok(price_list_end(l, NULL, &err), &err);
	o = find_only_offer(c, "g6.xlarge", "us-east-1", false);
	assert_int_equal(o.price.nano_per_hour, 500000000); /* bare metal is Dedicated */
	assert_string_equal(o.price.stamp, "");
	assert_string_equal(o.price.currency, "USD");
	assert_ok(price_list_new(&endless, c, "list", &err), &err);
	assert_ok(price_list_feed(endless, "[\"", 2, &err), &err);
	memset(text, 'x', sizeof(text));
	for (int i = 0; i < 1000 && got == 0; i++)
		got = price_list_feed(endless, text, sizeof(text), &err);
	assert_int_equal(got, -1);
	assert_non_null(strstr(err.msg, "list: a text of more than 1048576 bytes in line 1"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(import__tells_forms_apart),
		cmocka_unit_test(price_list__is_linux_on_demand_alone),
		cmocka_unit_test(price_query__is_the_list_as_texts),
		cmocka_unit_test(spot_history__weighs_by_time),
		cmocka_unit_test(instances__have_all_regions),
		cmocka_unit_test(load__ranks_sources),
		cmocka_unit_test(load__ranks_regions_and_halves),
		cmocka_unit_test(load__does_not_depend_on_order),
		cmocka_unit_test(price_list__trusts_no_text),
		cmocka_unit_test(errors__name_file_and_place),
		cmocka_unit_test(price_list__is_a_stream),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
