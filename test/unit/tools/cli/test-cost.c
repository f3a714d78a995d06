/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "io/price/price.h"
#include "lib/base/text.h"
#include "tools/cli/cost/view/view.h"

#include <jansson.h>

#define NOW UINT64_C(1767225600) /* 2026-01-01T00:00:00Z */

static void cost_time__accepts_common_formats(void **state)
{
	static const struct {
		const char *text;
		int64_t s; /* -1: refused */
	} rows[] = {
		{ "now", NOW },
		{ "0", NOW },
		{ "24h", NOW - 86400 },
		{ "24h ago", NOW - 86400 },
		{ "1h30m", NOW - 5400 },
		{ "7d", NOW - 7 * 86400 },
		{ "2w ago", NOW - 14 * 86400 },
		{ "99999d", 0 },
		{ "2026-01-01", NOW },
		{ "2024-02-29", 1709164800 },
		{ "1970-01-01", 0 },
		{ "2026-01-01T00:00:00Z", NOW },
		{ "2026-01-01t00:00:01.999z", NOW + 1 },
		{ "2026-01-01 01:00+01:00", NOW },
		{ "2025-12-31T18:30:00-05:30", NOW },
		{ "2023-02-29", -1 },
		{ "2026-04-31", -1 },
		{ "2026-13-01", -1 },
		{ "2026-00-01", -1 },
		{ "2026-1-1", -1 },
		{ "1969-12-31", -1 },
		{ "1970-01-01T00:00:00+01:00", -1 },
		{ "2026-01-01T24:00:00Z", -1 },
		{ "2026-01-01T00:00:60Z", -1 },
		{ "2026-01-01T00:00:00", -1 },
		{ "2026-01-01T00:00:00.Z", -1 },
		{ "2026-01-01T00:00:00Zx", -1 },
		{ "", -1 },
		{ "d", -1 },
		{ " ago", -1 },
		{ "-1h", -1 },
		{ "yesterday", -1 },
		{ "18446744073709551615w", -1 },
	};
	struct error err = ERROR_INIT;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		uint64_t s = 0;
		int r = cost_time_parse(&s, "from", rows[i].text, NOW, &err);

		if (rows[i].s < 0 ? r >= 0 : r < 0 || s != (uint64_t)rows[i].s)
			fail_msg("'%s': %d, %llu", rows[i].text, r, (unsigned long long)s);
	}
	assert_error(cost_time_parse(&(uint64_t){ 0 }, "from", "x", NOW, &err), &err,
		"--from: expected a time such as 24h");
}

/* Two buckets: one with a price that does not divide, one without rows for some GPUs. */
static const struct usage_db_period buckets[] = {
	{ NOW, NOW + 300, "node-1", "p3.8xlarge", "us-east-1", "USD", "test", 12240000000, 4,
		INT64_C(300000000000), 1020000000 },
	{ NOW + 300, NOW + 600, "node-1", "p3.8xlarge", "us-east-1", "USD", "test", 12240000000,
		4, INT64_C(300000000000), 1020000000 },
};

static const struct {
	size_t bucket;
	struct usage_db_row row;
} rows[] = {
	{ 0, { .kind = USAGE_DB_UNALLOCATED,
		     .gpu = "GPU-1",
		     .gpu_ns = INT64_C(1100000000000),
		     .cost_nano = 935000001 } },
	{ 0, { USAGE_DB_ALLOCATED, "team", "web", "u1", "main", "GPU-0", "GPU-0",
		     "nvidia.com/gpu.shared", "time-slicing", INT64_C(300000000000),
		     INT64_C(50000000000), INT64_C(25000000000), false, 1, 2, 42500000,
		     false } },
	{ 0, { USAGE_DB_ALLOCATED, "team", "job", "u2", "main", "GPU-0", "GPU-0",
		     "nvidia.com/gpu.shared", "time-slicing", INT64_C(300000000000),
		     INT64_C(50000000000), 0, true, 0, 0, 42499999, true } },
	{ 1, { USAGE_DB_ALLOCATED, "=x", "a\tb", "u3", "c\"d", "GPU-0", "MIG-0",
		     "nvidia.com/mig-1g", "mig", INT64_C(300000000000), INT64_C(1200000000000),
		     INT64_C(1200000000000), false, 1, 2, 1020000000, false } },
};

static struct cost_summary *make_cost_summary(enum cost_by by, int64_t price)
{
	struct cost_summary *summary = NULL;
	struct error err = ERROR_INIT;
	struct cost_reprice r = { .price_nano = price, .currency = "EUR" };

	assert_ok(cost_summary_new(&summary, by, &err), &err);
	r.summary = summary;
	for (size_t i = 0; i < ARRAY_LEN(buckets); i++) {
		assert_ok(cost_summary_add_record(&r, &buckets[i], NULL, &err), &err);
		for (size_t j = 0; j < ARRAY_LEN(rows); j++) {
			if (rows[j].bucket == i)
				assert_ok(cost_summary_add_record(&r, &buckets[i], &rows[j].row,
						  &err),
					&err);
		}
	}
	assert_ok(cost_reprice_end(&r, &err), &err);
	cost_reprice_fini(&r);
	return summary;
}

static struct cost_line get_total(struct cost_summary *summary, const char *currency)
{
	struct cost_line total = { .parts = 0 };
	struct error err = ERROR_INIT;

	assert_ok(cost_summary_total(summary, currency, &total, &err), &err);
	return total;
}

static void cost_table__shows_idle_apart_and_the_whole(void **state)
{
	static const char expected[] =
		"2026-01-01T00:00:00Z to 2026-01-02T00:00:00Z\n"
		"node-1, p3.8xlarge in us-east-1, 4 GPUs: 12.24 USD per hour (test), 10m00s accounted from "
		"2026-01-01T00:00:00Z to 2026-01-01T00:10:00Z\n"
		"\n"
		"NAMESPACE   POD   HELD HOURS   GPU HOURS   USED GPU HOURS   USED      COST          CURRENCY\n"
		"=x          a?b   0.08         0.33        0.33             100.0%    1.0200        USD\n"
		"team        job   0.08         0.01        -                -         0.042499999   USD\n"
		"team        web   0.08         0.01        0.01             50.0%     0.0425        USD\n"
		"(idle)            -            0.31        -                -         0.935000001   USD\n"
		"total             0.25         0.67        >=0.34           >=51.0%   2.0400        USD\n";
	CLEANUP(cost_summary_freep)
	struct cost_summary *summary = make_cost_summary(COST_BY_POD, -1);
	CLEANUP(buf_fini) struct buf text = BUF_INIT(COST_TEXT_MAX);
	const struct cost_print p = { .summary = summary,
		.by = COST_BY_POD,
		.from_s = NOW,
		.to_s = NOW + 86400 };
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(cost_print_table(&text, &p, &err), &err);
	assert_string_equal(buf_str(&text), expected);
}

static void cost_table__reports_an_empty_result(void **state)
{
	CLEANUP(cost_summary_freep) struct cost_summary *summary = NULL;
	CLEANUP(buf_fini) struct buf text = BUF_INIT(COST_TEXT_MAX);
	struct cost_print p = { .by = COST_BY_POD, .from_s = NOW, .to_s = NOW + 86400 };
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(cost_summary_new(&summary, COST_BY_POD, &err), &err);
	p.summary = summary;
	assert_ok(cost_print_table(&text, &p, &err), &err);
	assert_non_null(strstr(buf_str(&text), "Nothing was accounted in that time.\n"));
}

static void cost_reprice__splits_a_given_price_exactly(void **state)
{
	CLEANUP(cost_summary_freep)
	struct cost_summary *summary = make_cost_summary(COST_BY_GPU, 7000000001);
	struct cost_line total = get_total(summary, "EUR");
	const struct cost_node *nodes;
	const struct cost_line *const *lines;
	size_t n;

	(void)state;
	nodes = cost_summary_nodes(summary, &n);
	assert_int_equal(n, 1);
	/* 300 s of 7.000000001 an hour, twice, each rounded down. */
	assert_int_equal(nodes[0].period.cost_nano, 2 * 583333333);
	assert_int_equal(total.row.cost_nano, 2 * 583333333);
	assert_string_equal(cost_summary_currency(summary, 0), "EUR");
	assert_null(cost_summary_currency(summary, 1));
	lines = cost_summary_lines(summary, &n);
	assert_int_equal(n, 2);
	assert_int_equal(lines[1]->row.kind, USAGE_DB_UNALLOCATED);
	assert_string_equal(lines[1]->row.gpu, "GPU-1");
	/* 2 x 24305555 to the pods with a replica in the first bucket; the rest there is idle. */
	assert_int_equal(lines[1]->row.cost_nano, 583333333 - 2 * 24305555);
}

static void cost_reprice__never_splits_more_than_the_price(void **state)
{
	CLEANUP(cost_summary_freep) struct cost_summary *summary = NULL;
	struct usage_db_row row = { .kind = USAGE_DB_ALLOCATED, .namespace_ = "a" };
	struct error err = ERROR_INIT;
	struct cost_reprice r = { .price_nano = 3600, .currency = "USD" };

	(void)state;
	assert_ok(cost_summary_new(&summary, COST_BY_NAMESPACE, &err), &err);
	r.summary = summary;
	assert_ok(cost_summary_add_record(&r, &buckets[0], NULL, &err), &err);
	row.gpu_ns = INT64_MAX / 4; /* clocks that disagree */
	assert_ok(cost_summary_add_record(&r, &buckets[0], &row, &err), &err);
	assert_ok(cost_summary_add_record(&r, &buckets[0], &row, &err), &err);
	assert_ok(cost_reprice_end(&r, &err), &err);
	assert_int_equal(get_total(summary, "USD").row.cost_nano, 300);
}

/* Each line fits, but the sum does not. */
static void cost_print__refuses_a_total_that_is_too_large(void **state)
{
	CLEANUP(cost_summary_freep) struct cost_summary *summary = NULL;
	CLEANUP(buf_fini) struct buf text = BUF_INIT(COST_TEXT_MAX);
	struct cost_print p = { .by = COST_BY_NAMESPACE, .from_s = NOW, .to_s = NOW + 86400 };
	struct usage_db_row row = { .kind = USAGE_DB_ALLOCATED, .cost_nano = INT64_MAX };
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(cost_summary_new(&summary, COST_BY_NAMESPACE, &err), &err);
	for (char name[] = "a"; *name <= 'b'; ++*name) {
		row.namespace_ = name;
		assert_ok(cost_summary_add(summary, &buckets[0], &row, COST_ALL, &err), &err);
	}
	p.summary = summary;
	assert_error(cost_print_table(&text, &p, &err), &err, "a sum is larger than 2^63");
	assert_int_equal(err.code, ERR_LIMIT);
	assert_error(cost_print_json(&text, &p, &err), &err, "a sum is larger than 2^63");
}

/* Reads the CSV cell at *p into @cell of 2048 bytes, and goes behind it and its comma. */
static void next_cell(const char **p, char *cell)
{
	bool quoted = **p == '"';
	size_t n = 0;

	for (*p += quoted; **p; ++*p) {
		if (quoted && **p == '"' && *++*p != '"')
			break;
		if (!quoted && (**p == ',' || **p == '\r'))
			break;
		cell[n++] = **p;
		assert_true(n < 2048);
	}
	cell[n] = '\0';
	*p += **p == ',';
}

/* The sum of a column of numbers, in billionths. */
static int64_t sum_column(const char *csv, const char *name)
{
	int64_t sum = 0, nano = 0;
	size_t column = 0, line = 0;

	for (const char *p = csv; *p; p += 2, line++) {
		for (size_t i = 0; *p && *p != '\r'; i++) {
			char cell[2048];

			next_cell(&p, cell);
			if (line == 0 && strcmp(cell, name) == 0)
				column = i;
			if (line == 0 || i != column)
				continue;
			assert_true(price_parse(cell, &nano));
			sum += nano;
		}
	}
	return sum;
}

static void cost_csv__sums_to_the_origin_charge(void **state)
{
	CLEANUP(cost_summary_freep)
	struct cost_summary *summary = make_cost_summary(COST_BY_CHARGE, -1);
	CLEANUP(buf_fini) struct buf text = BUF_INIT(COST_TEXT_MAX);
	const struct cost_print p = { .summary = summary,
		.by = COST_BY_CHARGE,
		.from_s = NOW,
		.to_s = NOW + 86400,
		.provider = "AWS",
		.account = "123" };
	struct error err = ERROR_INIT;
	static const char *const money[] = { "BilledCost", "EffectiveCost", "ListCost",
		"ContractedCost" };

	(void)state;
	assert_ok(cost_print_csv(&text, &p, &err), &err);
	for (size_t i = 0; i < ARRAY_LEN(money); i++)
		assert_int_equal(sum_column(buf_str(&text), money[i]), 2040000000);
	/* Two buckets of a twelfth of an hour, each rounded down to a billionth. */
	assert_int_equal(sum_column(buf_str(&text), "PricingQuantity"), 2 * 83333333);
	assert_non_null(strstr(buf_str(&text), "\"'=x/a\\x09b/c\"\"d\""));
	assert_non_null(strstr(buf_str(&text), "\"\"AllocatedRatio\"\":0.041666666,"));
	assert_non_null(
		strstr(buf_str(&text), ",2026-02-01T00:00:00Z,2026-01-01T00:00:00Z,Usage,"));
}

static void escape_csv__produces_no_formula(void **state)
{
	static const struct {
		const char *text, *cell;
	} cells[] = {
		{ "plain", "plain" },
		{ "", "" },
		{ "=1+1", "\"'=1+1\"" },
		{ "+1", "\"'+1\"" },
		{ "-1", "\"'-1\"" },
		{ "@a", "\"'@a\"" },
		{ "  =1", "\"'  =1\"" },
		{ "\t=1", "\"'\\x09=1\"" },
		{ "\r", "\"'\\x0d\"" },
		{ "a,b", "\"a,b\"" },
		{ "a\"b", "\"a\"\"b\"" },
		{ "a\nb", "a\\x0ab" },
		{ "\x1b[31m", "\\x1b[31m" },
		{ "\xc2\x9b", "\\xc2\\x9b" },
		{ "\xc3\xa4", "\xc3\xa4" },
		{ "\xff", "?" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cells); i++) {
		CLEANUP(buf_fini) struct buf b = BUF_INIT(256);

		escape_csv(&b, cells[i].text);
		assert_string_equal(buf_str(&b), cells[i].cell);
	}
}

static void cost_hours__round(void **state)
{
	char buf[COST_HOURS_MAX];

	(void)state;
	assert_string_equal(cost_hours(INT64_C(3600000000000), 2, buf), "1.00");
	assert_string_equal(cost_hours(INT64_C(17999999999), 2, buf), "0.00");
	assert_string_equal(cost_hours(INT64_C(18000000000), 2, buf), "0.01");
	assert_string_equal(cost_hours(INT64_C(300000000000), 9, buf), "0.083333333");
	assert_string_equal(cost_hours(INT64_MAX, 2, buf), "2562047.79");
}

static void cost_json__has_exact_texts(void **state)
{
	CLEANUP(cost_summary_freep)
	struct cost_summary *summary = make_cost_summary(COST_BY_MODE, -1);
	CLEANUP(buf_fini) struct buf text = BUF_INIT(COST_TEXT_MAX);
	const struct cost_print p = { .summary = summary,
		.by = COST_BY_MODE,
		.from_s = NOW,
		.to_s = NOW + 300 };
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(cost_print_json(&text, &p, &err), &err);
	assert_non_null(strstr(buf_str(&text), "\"cost\": \"0.084999999\""));
	assert_non_null(strstr(buf_str(&text), "\"costNano\": 935000001"));
	assert_non_null(strstr(buf_str(&text), "\"mode\": \"time-slicing\""));
	assert_non_null(strstr(buf_str(&text), "\"pricePerHour\": \"12.24\""));
}

/* The time and the memory of 'job' are unknown. */
static void cost_json__omits_unmeasured_figures(void **state)
{
	CLEANUP(cost_summary_freep)
	struct cost_summary *summary = make_cost_summary(COST_BY_POD, -1);
	CLEANUP(buf_fini) struct buf text = BUF_INIT(COST_TEXT_MAX);
	const struct cost_print p = { .summary = summary,
		.by = COST_BY_POD,
		.from_s = NOW,
		.to_s = NOW + 300 };
	struct error err = ERROR_INIT;
	const json_t *row;
	json_t *root;
	size_t i, seen = 0;

	(void)state;
	assert_ok(cost_print_json(&text, &p, &err), &err);
	root = json_loads(buf_str(&text), 0, NULL);
	json_array_foreach(json_object_get(root, "rows"), i, row)
	{
		const char *pod = json_string_value(json_object_get(row, "pod"));
		bool job = pod && !strcmp(pod, "job");

		if (!job && (!pod || strcmp(pod, "web") != 0))
			continue;
		assert_int_equal(json_is_null(json_object_get(row, "busyNs")), job);
		assert_int_equal(json_is_null(json_object_get(row, "memoryByteSeconds")), job);
		assert_int_equal(json_is_null(json_object_get(row, "memoryPeakBytes")), job);
		assert_int_equal(json_is_true(json_object_get(row, "memoryIncomplete")), job);
		seen++;
	}
	assert_int_equal(seen, 2);
	json_decref(root);
}

#define VECTOR(series) \
	"{\"status\":\"success\",\"data\":{\"resultType\":\"vector\",\"result\":[" series "]}}"

static int read_reply(struct cost_summary *summary, size_t query, const char *json,
	struct error *err)
{
	return cost_query_read(summary, &cost_queries[query], json, strlen(json), NOW,
		NOW + 3600, err);
}

static void cost_query__adds_the_answer_of_a_server(void **state)
{
#define WEB(value)                                                                                    \
	"{\"metric\":{\"namespace\":\"team\",\"pod\":\"web\",\"node\":\"n\"},\"value\":[1.5,\"" value \
	"\"]}"
	CLEANUP(cost_summary_freep) struct cost_summary *summary = NULL;
	CLEANUP(cost_summary_freep) struct cost_summary *answers = NULL;
	CLEANUP(buf_fini) struct buf query = BUF_INIT(4096);
	struct error err = ERROR_INIT;
	const struct cost_line *const *lines;
	size_t n;

	(void)state;
	cost_query_text(&query, &cost_queries[3], 3600);
	assert_string_equal(buf_str(&query),
		"sum by (namespace,pod,container,gpu,UUID,mode,node,currency) "
		"(increase(gpuslice_container_gpu_cost_total[3600s]))");
	assert_ok(cost_summary_new(&summary, COST_BY_POD, &err), &err);
	assert_ok(cost_summary_new(&answers, COST_BY_CHARGE, &err), &err);
	assert_ok(read_reply(answers, 0, VECTOR(WEB("3600")), &err), &err);
	assert_ok(read_reply(answers, 1, VECTOR(WEB("9.00e+02")), &err), &err);
	assert_ok(read_reply(answers, 3, VECTOR(WEB("0.765") "," WEB("NaN") "," WEB("+Inf")),
			  &err),
		&err);
	assert_ok(read_reply(answers, 4,
			  VECTOR("{\"metric\":{\"UUID\":\"GPU-0\"},\"value\":[1,\"2.295\"]}"),
			  &err),
		&err);
	assert_ok(cost_summary_merge(summary, answers, &err), &err);
	lines = cost_summary_lines(summary, &n);
	assert_int_equal(n, 2);
	assert_int_equal(lines[0]->row.allocated_ns, INT64_C(3600000000000));
	assert_int_equal(lines[0]->row.gpu_ns, INT64_C(900000000000));
	assert_int_equal(lines[0]->row.cost_nano, 765000000);
	assert_int_equal(lines[0]->parts, COST_ALLOCATED | COST_GPU | COST_MONEY);
	assert_string_equal(lines[0]->period.currency, "USD");
	assert_int_equal(lines[1]->row.cost_nano, 2295000000);
	assert_int_equal(get_total(summary, "USD").row.cost_nano, 3060000000);
}

#define POD(pod, more, value)                                                         \
	"{\"metric\":{\"namespace\":\"team\",\"pod\":\"" pod "\",\"node\":\"n\"" more \
	"},\"value\":[1.5,\"" value "\"]}"
#define EUR ",\"currency\":\"EUR\""

/* A sum of which a series is missing is not known: of the whole, nor in the currency that only the costs name. */
static void cost_query__reports_no_sum_with_a_missing_term(void **state)
{
	static const char *const replies[] = {
		VECTOR(POD("a", "", "3600") "," POD("b", "", "3600")),
		VECTOR(POD("a", "", "900")),
		VECTOR(POD("a", "", "450")),
		VECTOR(POD("a", EUR, "0.5") "," POD("b", EUR, "0.5")),
	};
	static const struct {
		enum cost_by by;
		size_t n;
		unsigned known;
		bool busy_unknown;
	} sums[] = {
		{ COST_BY_POD, 2, COST_ALLOCATED | COST_GPU | COST_BUSY | COST_MONEY, false },
		{ COST_BY_NAMESPACE, 1, COST_ALLOCATED | COST_BUSY | COST_MONEY, true },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(sums); i++) {
		CLEANUP(cost_summary_freep) struct cost_summary *summary = NULL;
		CLEANUP(cost_summary_freep) struct cost_summary *answers = NULL;
		struct error err = ERROR_INIT;
		const struct cost_line *const *lines;
		struct cost_line total;
		size_t n;

		assert_ok(cost_summary_new(&summary, sums[i].by, &err), &err);
		assert_ok(cost_summary_new(&answers, COST_BY_CHARGE, &err), &err);
		for (size_t k = 0; k < ARRAY_LEN(replies); k++)
			assert_ok(read_reply(answers, k, replies[k], &err), &err);
		assert_ok(cost_summary_merge(summary, answers, &err), &err);
		lines = cost_summary_lines(summary, &n);
		assert_int_equal(n, sums[i].n);
		assert_int_equal(cost_line_is_known(lines[0]), sums[i].known);
		assert_int_equal(lines[0]->row.busy_unknown, sums[i].busy_unknown);
		assert_string_equal(lines[0]->period.currency, "EUR");
		total = get_total(summary, "EUR");
		assert_int_equal(cost_line_is_known(&total),
			COST_ALLOCATED | COST_BUSY | COST_MONEY);
		assert_int_equal(total.row.allocated_ns, INT64_C(7200000000000));
	}
}

/* A bucket from before there was a price. */
static void cost_csv__is_refused_without_a_price(void **state)
{
	static const struct {
		const char *currency;
		bool estimated;
		const char *says;
	} cases[] = {
		{ "USD", false, NULL },
		{ "", false,
			"BilledCost: expected the price of node-1 from 2026-01-01T00:00:00Z to "
			"2026-01-01T00:05:00Z, found none: give one with --price" },
		{ "", true, "found none: give its agent one (gpusliced --price)" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		CLEANUP(cost_summary_freep) struct cost_summary *summary = NULL;
		CLEANUP(buf_fini) struct buf text = BUF_INIT(COST_TEXT_MAX);
		struct usage_db_period period = buckets[0];
		struct error err = ERROR_INIT;
		struct cost_print p = { .by = COST_BY_CHARGE,
			.estimated = cases[i].estimated,
			.provider = "",
			.account = "" };

		period.currency = cases[i].currency;
		assert_ok(cost_summary_new(&summary, COST_BY_CHARGE, &err), &err);
		assert_ok(cost_summary_add(summary, &period, &rows[0].row, COST_ALL, &err),
			&err);
		p.summary = summary;
		if (cases[i].says)
			assert_error(cost_print_csv(&text, &p, &err), &err, cases[i].says);
		else
			assert_ok(cost_print_csv(&text, &p, &err), &err);
	}
}

static void cost_query__refuses_an_invalid_answer(void **state)
{
	static const struct {
		const char *json, *says;
	} replies[] = {
		{ "", "expected JSON; is this a Prometheus server?" },
		{ "<html>", "expected JSON" },
		{ "[]", "expected {\"status\": \"success\"" },
		{ "{\"status\":\"error\",\"error\":\"bad\\u001b[31m query\"}",
			"an error: bad [31m query" },
		{ "{\"status\":\"success\"}", "expected a vector" },
		{ "{\"status\":\"success\",\"data\":{\"resultType\":\"matrix\",\"result\":[]}}",
			"expected a vector, found: matrix" },
		{ VECTOR("1"), "expected series" },
		{ VECTOR("{\"metric\":{},\"value\":[1]}"), "expected series" },
		{ VECTOR("{\"metric\":{},\"value\":[1,2]}"), "expected series" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(replies); i++) {
		CLEANUP(cost_summary_freep) struct cost_summary *summary = NULL;
		struct error err = ERROR_INIT;

		assert_ok(cost_summary_new(&summary, COST_BY_POD, &err), &err);
		assert_error(read_reply(summary, 0, replies[i].json, &err), &err,
			replies[i].says);
		assert_non_null(
			strstr(err.msg, "about gpuslice_container_gpu_held_seconds_total"));
	}
}

static void cost_summary__refuses_a_sum_that_is_too_large(void **state)
{
	CLEANUP(cost_summary_freep) struct cost_summary *summary = NULL;
	const struct usage_db_row row = { .allocated_ns = INT64_MAX };
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(cost_summary_new(&summary, COST_BY_POD, &err), &err);
	assert_ok(cost_summary_add(summary, &buckets[0], &row, COST_ALL, &err), &err);
	assert_error(cost_summary_add(summary, &buckets[0], &row, COST_ALL, &err), &err,
		"larger than 2^63");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cost_time__accepts_common_formats),
		cmocka_unit_test(cost_table__shows_idle_apart_and_the_whole),
		cmocka_unit_test(cost_table__reports_an_empty_result),
		cmocka_unit_test(cost_reprice__splits_a_given_price_exactly),
		cmocka_unit_test(cost_reprice__never_splits_more_than_the_price),
		cmocka_unit_test(cost_print__refuses_a_total_that_is_too_large),
		cmocka_unit_test(cost_csv__sums_to_the_origin_charge),
		cmocka_unit_test(escape_csv__produces_no_formula),
		cmocka_unit_test(cost_hours__round),
		cmocka_unit_test(cost_json__has_exact_texts),
		cmocka_unit_test(cost_json__omits_unmeasured_figures),
		cmocka_unit_test(cost_query__adds_the_answer_of_a_server),
		cmocka_unit_test(cost_query__reports_no_sum_with_a_missing_term),
		cmocka_unit_test(cost_csv__is_refused_without_a_price),
		cmocka_unit_test(cost_query__refuses_an_invalid_answer),
		cmocka_unit_test(cost_summary__refuses_a_sum_that_is_too_large),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
