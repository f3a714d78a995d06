/* SPDX-License-Identifier: Apache-2.0 */
#include "io/usage-db/internal.h"

#include "lib/base/text.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

/* Limits of a batch, as tables: its texts come from the API server and the driver. */

struct text_bound {
	const char *name;
	size_t offset, max;
};

#define ROW(field, max)                                           \
	{                                                         \
#		field, offsetof(struct usage_db_row, field), max \
	}
#define PERIOD(field, max)                                           \
	{                                                            \
#		field, offsetof(struct usage_db_period, field), max \
	}

static const struct text_bound row_texts[] = {
	ROW(namespace_, USAGE_DB_NAME_MAX),
	ROW(pod, USAGE_DB_NAME_MAX),
	ROW(pod_uid, USAGE_DB_DEVICE_MAX),
	ROW(container, USAGE_DB_WORD_MAX),
	ROW(gpu, USAGE_DB_DEVICE_MAX),
	ROW(device, USAGE_DB_DEVICE_MAX),
	ROW(resource, USAGE_DB_NAME_MAX),
	ROW(mode, USAGE_DB_WORD_MAX),
};

static const struct text_bound period_texts[] = {
	PERIOD(node, USAGE_DB_NAME_MAX),
	PERIOD(instance_type, USAGE_DB_WORD_MAX),
	PERIOD(region, USAGE_DB_WORD_MAX),
	PERIOD(currency, USAGE_DB_WORD_MAX),
	PERIOD(price_source, USAGE_DB_WORD_MAX),
};

static const struct {
	const char *name;
	size_t offset;
} row_numbers[] = {
	{ "held_ns", offsetof(struct usage_db_row, allocated_ns) },
	{ "gpu_ns", offsetof(struct usage_db_row, gpu_ns) },
	{ "busy_ns", offsetof(struct usage_db_row, busy_ns) },
	{ "memory_byte_seconds", offsetof(struct usage_db_row, memory_byte_seconds) },
	{ "memory_peak_bytes", offsetof(struct usage_db_row, memory_peak_bytes) },
	{ "cost_nano", offsetof(struct usage_db_row, cost_nano) },
};

static int check_usage_texts(const void *object, const char *what, size_t index,
	const struct text_bound *bounds, size_t n, struct error *err)
{
	for (size_t i = 0; i < n; i++) {
		const char *text =
			*(const char *const *)((const char *)object + bounds[i].offset);
		size_t len = text ? strlen(text) : 0;

		if (len > bounds[i].max)
			return error_set(err, ERR_LIMIT,
				"ledger: %s %zu: %s: expected at most %zu bytes, found %zu",
				what, index, bounds[i].name, bounds[i].max, len);
		if (text && !utf8_is_valid(text))
			return error_set(err, ERR_INVALID, "ledger: %s %zu: %s: expected UTF-8",
				what, index, bounds[i].name);
	}
	return 0;
}

static int check_usage_row(const struct usage_db_row *row, size_t index, struct error *err)
{
	for (size_t i = 0; i < ARRAY_LEN(row_numbers); i++) {
		int64_t v = *(const int64_t *)(const void *)((const char *)row +
							     row_numbers[i].offset);

		if (v < 0 || v > USAGE_DB_VALUE_MAX)
			return error_set(err, ERR_INVALID,
				"ledger: row %zu: %s: expected 0 to %" PRId64
				", found %" PRId64,
				index, row_numbers[i].name, USAGE_DB_VALUE_MAX, v);
	}
	return check_usage_texts(row, "row", index, row_texts, ARRAY_LEN(row_texts), err);
}

static int check_period(const struct usage_db_batch *b, struct error *err)
{
	const struct usage_db_period *p = b->period;
	int64_t sum = 0;

	if (p->start_s % USAGE_DB_BUCKET_S != 0 || p->start_s > INT64_MAX / 2)
		return error_set(err, ERR_INVALID,
			"ledger: start of a bucket: expected a multiple of %d, found %" PRIu64,
			USAGE_DB_BUCKET_S, p->start_s);
	if (p->price_nano_per_hour < 0 || p->covered_ns < 0 ||
		p->covered_ns > USAGE_DB_VALUE_MAX)
		return error_set(err, ERR_INVALID,
			"ledger: period: price and covered time are not below 0 nor above 2^53");
	if (check_usage_texts(p, "period", 0, period_texts, ARRAY_LEN(period_texts), err) < 0)
		return -1;
	/* 2^14 rows of at most 2^53 each may overflow. */
	for (size_t i = 0; i < b->n_deltas; i++) {
		if (check_usage_row(&b->deltas[i], i, err) < 0)
			return -1;
		if (__builtin_add_overflow(sum, b->deltas[i].cost_nano, &sum))
			return error_set(err, ERR_LIMIT, "ledger: costs of more than 2^63");
	}
	if (sum != p->cost_nano)
		return error_set(err, ERR_INVALID,
			"ledger: the rows cost %" PRId64 ", the period %" PRId64, sum,
			p->cost_nano);
	return 0;
}

static int check_totals(const struct usage_db_batch *b, struct error *err)
{
	for (size_t i = 0; i < b->n_totals; i++) {
		const char *key = b->totals[i].key;

		if (!key || !*key || strlen(key) > USAGE_DB_KEY_MAX || !utf8_is_valid(key))
			return error_set(err, ERR_INVALID,
				"ledger: total %zu: expected a key of 1 to %d bytes of UTF-8",
				i, USAGE_DB_KEY_MAX);
	}
	return 0;
}

int usage_db_check(const struct usage_db_batch *b, struct error *err)
{
	if (b->n_deltas > USAGE_DB_DELTAS_MAX || b->n_totals > USAGE_DB_TOTALS_MAX)
		return error_set(err, ERR_LIMIT,
			"ledger: expected at most %d rows and %d totals, found %zu and %zu",
			USAGE_DB_DELTAS_MAX, USAGE_DB_TOTALS_MAX, b->n_deltas, b->n_totals);
	if (!b->period && b->n_deltas)
		return error_set(err, ERR_INVALID, "ledger: %zu rows without a period",
			b->n_deltas);
	if (b->period && check_period(b, err) < 0)
		return -1;
	return check_totals(b, err);
}
