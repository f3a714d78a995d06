/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "lib/base/buf.h"
#include "io/price/price.h"

static void price_parse__is_exact_and_rounds_half_to_even(void **state)
{
	static const struct {
		const char *text;
		int64_t nano; /* -1: refused */
	} rows[] = {
		{ "3.06", 3060000000 },
		{ "0", 0 },
		{ "98.32", 98320000000 },
		{ "0.0000000001", 0 },
		{ "0.0000000005", 0 },
		{ "0.0000000015", 2 },
		{ "0.0000000025", 2 },
		{ "0.00000000250", 2 },
		{ "0.00000000251", 3 },
		{ "0.0000000026", 3 },
		{ "21.9576420000", 21957642000 },
		{ "1000000", PRICE_MAX },
		{ "1000000.000000001", -1 },
		{ "99999999999999999999999", -1 },
		{ "", -1 },
		{ ".5", -1 },
		{ "1.", -1 },
		{ "-1", -1 },
		{ "+1", -1 },
		{ "1e3", -1 },
		{ "1,5", -1 },
		{ " 1", -1 },
		{ "0x10", -1 },
		{ "nan", -1 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		int64_t v = -1;

		assert_int_equal(price_parse(rows[i].text, &v), rows[i].nano >= 0);
		if (v != rows[i].nano)
			fail_msg("'%s' = %lld", rows[i].text, (long long)v);
	}
}

static void price_text__shows_all_significant_digits(void **state)
{
	static const struct {
		int64_t nano;
		unsigned decimals;
		const char *text;
	} rows[] = {
		{ 3060000000, 0, "3.06" },
		{ 3060000000, 4, "3.0600" },
		{ 3000000000, 0, "3" },
		{ 500, 2, "0.0000005" },
		{ -1, 0, "-0.000000001" },
		{ INT64_MIN, 0, "-9223372036.854775808" },
		{ 0, 2, "0.00" },
		{ 0, 99, "0.000000000" },
	};
	char buf[PRICE_TEXT_MAX];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_string_equal(price_text(rows[i].nano, rows[i].decimals, buf),
			rows[i].text);
}

static void price_split__sums_to_the_whole(void **state)
{
	const int64_t weights[] = { 1, 1, 1, -5, 0 };
	int64_t parts[5];

	(void)state;
	price_split(100, weights, parts, 5);
	assert_int_equal(parts[0], 33);
	assert_int_equal(parts[3], 0);
	assert_int_equal(parts[4], 1);
	price_split(INT64_MAX, (const int64_t[]){ INT64_MAX, INT64_MAX }, parts, 2);
	assert_int_equal(parts[0], INT64_MAX / 2);
	assert_true(parts[0] + parts[1] == INT64_MAX);
	price_split(7, (const int64_t[]){ 0, 0 }, parts, 2);
	assert_int_equal(parts[0], 0);
	assert_int_equal(parts[1], 7);
	price_split(7, weights, parts, 0);
}

struct type_count {
	char last[128];
	size_t n;
};

/* Offers come by the name of their type. */
static int count_offer_type(void *arg, const struct price_offer *offer)
{
	struct type_count *c = arg;

	c->n += strcmp(c->last, offer->price.type) != 0;
	(void)snprintf(c->last, sizeof(c->last), "%s", offer->price.type);
	return 0;
}

static void price_catalogue__has_the_shipped_prices(void **state)
{
	struct type_count types = { .n = 0 };
	CLEANUP(price_catalogue_freep) struct price_catalogue *c = NULL;
	struct error err = ERROR_INIT;
	struct price p;

	(void)state;
	assert_ok(price_catalogue_load(&c, NULL, &err), &err);
	assert_ok(price_each(c, "us-east-1", count_offer_type, &types), &err);
	assert_in_range(types.n, 60, 200);
	assert_ok(price_find(c, "p3.2xlarge", "us-east-1", &p, &err), &err);
	assert_int_equal(p.nano_per_hour, 3060000000);
	assert_string_equal(p.currency, "USD");
	assert_string_equal(p.gpu, "V100-SXM2-16GB");
	assert_int_equal(p.gpus, 1);
	assert_int_equal(p.gpu_memory_mib, 16384);
	assert_int_equal(p.vcpus, 8);
	assert_ok(price_find(c, "g6e.2xlarge", "us-east-1", &p, &err), &err);
	assert_int_equal(p.nano_per_hour, 2242080000);
	assert_error(price_find(c, "g6.xlarge", "eu-west-1", &p, &err), &err,
		"no price of 'g6.xlarge' in region 'eu-west-1' in shipped catalogue; there is one "
		"for: us-east-1");
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_error(price_find(c, "m5.large", "us-east-1", &p, &err), &err, "'m5.large'");
}

static void price_find__assumes_a_region_where_none_is_known(void **state)
{
	static const char text[] =
		"version: gpuslice/prices/v1\ntypes:\n"
		"  usual: {pricePerHour: {eu-west-1: 1, us-east-1: 3}}\n"
		"  other: {pricePerHour: {eu-west-1: 3, eu-west-2: 2.5, eu-west-3: 2.75}}\n"
		"  rack: {pricePerHour: {'*': 12}}\n"
		"  both: {pricePerHour: {us-east-1: 3, '*': 12}}\n"
		"  none: {pricePerHour: {us-east-1: null}}\n";
	static const struct {
		const char *type, *region;
		int64_t nano_per_hour;
		bool assumed;
	} rows[] = {
		{ "usual", "us-east-1", 3 * PRICE_NANO, true },
		{ "other", "eu-west-2", 5 * PRICE_NANO / 2, true },
		{ "rack", "*", 12 * PRICE_NANO, false },
		{ "both", "*", 12 * PRICE_NANO, false },
	};
	CLEANUP(price_catalogue_freep) struct price_catalogue *c = NULL;
	struct error err = ERROR_INIT;
	struct price p;

	(void)state;
	assert_ok(price_catalogue_parse(&c, "f.yaml", text, sizeof(text) - 1, &err), &err);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		assert_ok(price_find(c, rows[i].type, "", &p, &err), &err);
		assert_string_equal(p.region, rows[i].region);
		assert_int_equal(p.nano_per_hour, rows[i].nano_per_hour);
		assert_int_equal(p.assumed, rows[i].assumed);
	}
	assert_error(price_find(c, "none", "", &p, &err), &err, "no region");
	assert_ok(price_find(c, "usual", "us-east-1", &p, &err), &err);
	assert_false(p.assumed);
}

static void price_catalogue__accepts_types_of_the_user(void **state)
{
	static const char text[] =
		"version: gpuslice/prices/v1\ncurrency: EUR\ntypes:\n"
		"  p3.2xlarge: {pricePerHour: {eu-west-1: 2.5, us-east-1: null}}\n"
		"  rack-7: {gpu: H100, gpus: 8, pricePerHour: {'*': 12.0000000005}}\n";
	CLEANUP(price_catalogue_freep) struct price_catalogue *c = NULL;
	struct error err = ERROR_INIT;
	char *dir = test_tmpdir(), path[4096], warning[PRICE_WARNING_MAX];
	struct price p;

	(void)state;
	test_write(dir, "prices.yaml", text, sizeof(text) - 1, 0600);
	(void)snprintf(path, sizeof(path), "%s/prices.yaml", dir);
	assert_ok(price_catalogue_load(&c, path, &err), &err);
	assert_ok(price_find(c, "p3.2xlarge", "eu-west-1", &p, &err), &err);
	assert_int_equal(p.nano_per_hour, 2500000000);
	assert_string_equal(p.currency, "EUR");
	assert_string_equal(p.source, path);
	assert_int_equal(p.gpus, 1); /* of the shipped one */
	assert_false(price_is_stale(&p, UINT64_C(4000000000), warning));
	assert_error(price_find(c, "p3.2xlarge", "us-east-1", &p, &err), &err, "eu-west-1");
	assert_ok(price_find(c, "rack-7", "anywhere", &p, &err), &err);
	assert_int_equal(p.nano_per_hour, 12000000000);
	assert_ok(price_find(c, "p3.8xlarge", "us-east-1", &p, &err), &err);
	assert_string_equal(p.currency, "USD");
	test_rmdir(dir);
}

struct type_offers {
	const char *type;
	struct price_offer on_demand, spot;
};

static int save_type_offer(void *arg, const struct price_offer *o)
{
	struct type_offers *s = arg;

	if (!strcmp(o->price.type, s->type))
		*(o->spot ? &s->spot : &s->on_demand) = *o;
	return 0;
}

/* A price of one's own leaves the type what it is, and its spot prices; other hardware or other money does not. */
static void price_catalogue__keeps_members_that_the_user_omits(void **state)
{
	static const char text[] =
		"version: gpuslice/prices/v1\ntypes:\n"
		"  p3.2xlarge: {pricePerHour: {us-east-1: 2}, interruptions: {us-east-1: [0.05, 0.1]}}\n"
		"  g6.xlarge: {gpu: L40S, gpus: 1, pricePerHour: {us-east-1: 3}}\n"
		"  g5.xlarge: {part: 0.5, pricePerHour: {us-east-1: 3}, spotPerHour: {us-east-2: 1}}\n";
	CLEANUP(price_catalogue_freep) struct price_catalogue *c = NULL;
	struct error err = ERROR_INIT;
	char *dir = test_tmpdir(), path[4096];
	struct type_offers p3 = { .type = "p3.2xlarge" }, g6 = { .type = "g6.xlarge" },
			   g5 = { .type = "g5.xlarge" };

	(void)state;
	test_write(dir, "prices.yaml", text, sizeof(text) - 1, 0600);
	(void)snprintf(path, sizeof(path), "%s/prices.yaml", dir);
	assert_ok(price_catalogue_load(&c, path, &err), &err);
	test_rmdir(dir);
	(void)price_each(c, "us-east-1", save_type_offer, &p3);
	(void)price_each(c, "us-east-1", save_type_offer, &g6);
	(void)price_each(c, "us-east-1", save_type_offer, &g5);
	assert_int_equal(p3.on_demand.price.nano_per_hour, 2000000000);
	assert_string_equal(p3.on_demand.price.gpu, "V100-SXM2-16GB");
	assert_int_equal(p3.on_demand.price.vcpus, 8);
	assert_int_equal(p3.spot.price.nano_per_hour, 370400000);
	assert_string_equal(p3.spot.price.source, "shipped catalogue");
	assert_int_equal(p3.spot.interrupt_high_milli, 100);
	assert_string_equal(g6.on_demand.price.gpu, "L40S");
	assert_int_equal(g6.on_demand.price.vcpus, 0);
	assert_false(g6.spot.spot);
	assert_string_equal(g5.on_demand.price.gpu, "A10G");
	assert_int_equal(g5.on_demand.gpu_milli, 500);
	assert_int_equal(p3.on_demand.gpu_milli, 1000);
	assert_false(g5.spot.spot);
}

static void price_catalogue__names_the_place_of_a_mistake(void **state)
{
#define HEAD "version: gpuslice/prices/v1\n"
	static const struct {
		const char *text, *says;
	} rows[] = {
		{ "", "f:1:1: expected one document" },
		{ "[]", "f:1:1: expected one document" },
		{ "types: {}", "f:1:1: version: expected gpuslice/prices/v1" },
		{ "version: v9\ntypes: {}", "f:1:10: version: expected gpuslice/prices/v1" },
		{ HEAD, "types: expected instance types" },
		{ HEAD "types: 3", "f:2:8: types: expected an object" },
		{ HEAD "types: {a: 3}", "f:2:12: a: expected an object with pricePerHour" },
		{ HEAD "types: {a: {}}", "f:2:12: a: pricePerHour is missing" },
		{ HEAD "types: {a: {pricePerHour: 3}}",
			"f:2:27: pricePerHour: expected prices" },
		{ HEAD "types: {a: {pricePerHour: {x: -3}}}", "x: expected a price per hour" },
		{ HEAD "types: {a: {pricePerHour: {x: [1]}}}", "x: expected a price per hour" },
		{ HEAD "types: {a: {pricePerHour: {x: 1}, interruptions: {x: [0.2, 0.1]}}}",
			"x: expected the share of instances" },
		{ HEAD "types: {a: {pricePerHour: {x: 1}, gpus: x}}",
			"gpus: expected a number" },
		{ HEAD "types: {a: {pricePerHour: {x: 1}, cpus: 1}}",
			"f:2:35: a: expected gpu, gpus" },
		{ HEAD "types: {'a b': {pricePerHour: {x: 1}}}", "types: expected a name" },
		{ HEAD "types: {a: {pricePerHour: {x: 1, x: 2}}}", "f:2:" },
		{ HEAD "currency: usd\ntypes: {}", "f:2:11: currency: expected three capital" },
		{ HEAD "stamp: 2026-7-20\ntypes: {}", "stamp: expected the day" },
		{ HEAD "price: 1\ntypes: {}", "f:2:1: file: expected version" },
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(price_catalogue_freep) struct price_catalogue *c = NULL;
		struct error err = ERROR_INIT;

		assert_error(price_catalogue_parse(&c, "f", rows[i].text, strlen(rows[i].text),
				     &err),
			&err, rows[i].says);
	}
}

static void price_catalogue__has_ceilings(void **state)
{
	CLEANUP(price_catalogue_freep) struct price_catalogue *c = NULL;
	CLEANUP(buf_fini) struct buf b = BUF_INIT(PRICE_FILE_MAX);
	struct error err = ERROR_INIT;

	(void)state;
	buf_puts(&b, HEAD "types:\n");
	for (unsigned i = 0; i <= PRICE_TYPES_MAX; i++)
		buf_printf(&b, " t%u: {pricePerHour: {x: 1}}\n", i);
	assert_true(buf_ok(&b));
	assert_error(price_catalogue_parse(&c, "f", buf_str(&b), b.len, &err), &err,
		"expected at most 4096 instance types");
	assert_error(price_catalogue_parse(&c, "f", buf_str(&b), PRICE_FILE_MAX + 1, &err),
		&err, "expected at most 1048576 bytes");
	assert_error(price_catalogue_load(&c, "/no/such/file", &err), &err,
		"price catalogue: open '/no/such/file'");
}

static void price_is_stale__counts_days(void **state)
{
	CLEANUP(price_catalogue_freep) struct price_catalogue *c = NULL;
	struct error err = ERROR_INIT;
	char text[PRICE_WARNING_MAX];
	struct price p;

	(void)state;
	assert_ok(price_catalogue_load(&c, "", &err), &err);
	assert_ok(price_find(c, "g5.xlarge", "us-east-1", &p, &err), &err);
	p.stamp = "2024-02-29"; /* 1709164800 */
	assert_false(price_is_stale(&p, 1709164800 + UINT64_C(90) * 86400 + 86399, text));
	assert_true(price_is_stale(&p, 1709164800 + UINT64_C(91) * 86400, text));
	assert_non_null(strstr(text, "is of 2024-02-29, 91 days old"));
	assert_false(price_is_stale(&p, 0, text));
}

static void price_sums__saturate_beyond_the_cost_of_a_month(void **state)
{
	(void)state;
	assert_int_equal(price_times(3060000000, 4), 12240000000);
	assert_int_equal(price_times(PRICE_MAX, UINT64_MAX), PRICE_SUM_MAX);
	assert_int_equal(price_times(0, UINT64_MAX), 0);
	assert_int_equal(price_plus(1, 2), 3);
	assert_int_equal(price_plus(PRICE_SUM_MAX, PRICE_MAX), PRICE_SUM_MAX);
	assert_true(PRICE_SUM_MAX * 744 > 0);
}

struct offers {
	char text[2048];
	int stop_at; /* calls; 0: never */
	int calls;
};

static int append_offer_text(void *arg, const struct price_offer *o)
{
	struct offers *f = arg;
	size_t at = strlen(f->text);
	char price[PRICE_TEXT_MAX];

	(void)snprintf(f->text + at, sizeof(f->text) - at, "%s %s %s %u %u %u;", o->price.type,
		o->spot ? "spot" : "od", price_text(o->price.nano_per_hour, 0, price),
		o->gpu_milli, o->allocatable_cpu_milli, o->allocatable_memory_mib);
	return ++f->calls == f->stop_at ? -7 : 0;
}

static void price_each__lists_the_types_of_a_region(void **state)
{
	static const char text[] =
		"version: gpuslice/prices/v1\n"
		"types:\n"
		"  b: {gpu: L4, gpus: 1, vcpus: 4, memoryMiB: 1000, part: 0.125, arch: arm64,\n"
		"    pricePerHour: {r: 1.5, s: null}, spotPerHour: {r: [0.2, 0.4], s: 0.3}}\n"
		"  a: {vcpus: 8, memoryMiB: 2000, allocatable: {cpuMilli: 7000, memoryMiB: 1500},\n"
		"    pricePerHour: {'*': 2}}\n"
		"  c: {spotPerHour: {s: 9}}\n"
		"  d: {pricePerHour: {'*': 5}, spotPerHour: {u: 1}}\n";
	CLEANUP(price_catalogue_freep) struct price_catalogue *c = NULL;
	struct error err = ERROR_INIT;
	struct offers f = { 0 };
	struct price p;

	(void)state;
	if (price_catalogue_parse(&c, "f", text, strlen(text), &err) < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(price_each(c, "r", append_offer_text, &f), 0);
	assert_string_equal(f.text,
		"a od 2 1000 7000 1500;b od 1.5 125 3690 900;b spot 0.3 125 3690 900;d od 5 1000 0 0;");
	f = (struct offers){ 0 };
	assert_int_equal(price_each(c, "s", append_offer_text, &f), 0);
	assert_string_equal(f.text,
		"a od 2 1000 7000 1500;b spot 0.3 125 3690 900;c spot 9 1000 0 0;d od 5 1000 0 0;");
	/* One way to have it in the region, the other everywhere. */
	f = (struct offers){ 0 };
	assert_int_equal(price_each(c, "u", append_offer_text, &f), 0);
	assert_string_equal(f.text, "a od 2 1000 7000 1500;d od 5 1000 0 0;d spot 1 1000 0 0;");
	f = (struct offers){ .stop_at = 2 };
	assert_int_equal(price_each(c, "r", append_offer_text, &f), -7);
	/* What is sold on the spot market alone has no price on demand. */
	assert_int_equal(price_find(c, "b", "s", &p, &err), -1);
	assert_int_equal(price_find(c, "c", "", &p, &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
}

static void price_read__reports_errors_in_offers(void **state)
{
	static const struct {
		const char *fields, *msg;
	} rows[] = {
		{ "spotPerHour: {r: [2, 1]}",
			"f:3:24: r: expected a spot price per hour, or the lowest and the highest, such as "
			"[0.36, 0.38], found [2,1]" },
		{ "spotPerHour: {r: x}",
			"f:3:24: r: expected a spot price per hour, or the lowest and the highest, such as "
			"[0.36, 0.38], found \"x\"" },
		{ "part: 0",
			"f:3:13: part: expected a part of a GPU, above 0 and at most 1, found 0" },
		{ "allocatable: {cpu: 1}",
			"f:3:21: allocatable: expected cpuMilli or memoryMiB, found \"cpu\"" },
		{ "vcpus: 1", "f:3:6: a: pricePerHour is missing" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(price_catalogue_freep) struct price_catalogue *c = NULL;
		struct error err = ERROR_INIT;
		char text[256];

		(void)snprintf(text, sizeof(text),
			"version: gpuslice/prices/v1\ntypes:\n  a: {%s}\n", rows[i].fields);
		assert_int_equal(price_catalogue_parse(&c, "f", text, strlen(text), &err), -1);
		assert_string_equal(err.msg, rows[i].msg);
	}
}

/* C3 and C4: p3.2xlarge and p5.48xlarge. */
static void price_opencost__splits_as_opencost_does(void **state)
{
	struct price_parts p = price_opencost(3060000000, 8, 61 * 1024, 1);

	(void)state;
	assert_int_equal((p.cpu + 500) / 1000, 66192);
	assert_int_equal((p.gib + 500) / 1000, 8872);
	assert_int_equal((p.gpu + 500) / 1000, 1989263);
	p = price_opencost(55040000000, 192, 2048 * 1024, 8);
	assert_int_equal((p.gpu + 500) / 1000, 2339855);
	assert_int_equal((p.gpu * 8 * 1000 + 27520000000) / 55040000000, 340); /* 34.0 % */
	assert_int_equal(price_opencost(7, 0, 0, 0).gpu, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(price_parse__is_exact_and_rounds_half_to_even),
		cmocka_unit_test(price_text__shows_all_significant_digits),
		cmocka_unit_test(price_split__sums_to_the_whole),
		cmocka_unit_test(price_opencost__splits_as_opencost_does),
		cmocka_unit_test(price_catalogue__has_the_shipped_prices),
		cmocka_unit_test(price_find__assumes_a_region_where_none_is_known),
		cmocka_unit_test(price_catalogue__accepts_types_of_the_user),
		cmocka_unit_test(price_catalogue__keeps_members_that_the_user_omits),
		cmocka_unit_test(price_catalogue__names_the_place_of_a_mistake),
		cmocka_unit_test(price_catalogue__has_ceilings),
		cmocka_unit_test(price_is_stale__counts_days),
		cmocka_unit_test(price_sums__saturate_beyond_the_cost_of_a_month),
		cmocka_unit_test(price_each__lists_the_types_of_a_region),
		cmocka_unit_test(price_read__reports_errors_in_offers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
