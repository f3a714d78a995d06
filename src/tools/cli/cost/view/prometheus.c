/* SPDX-License-Identifier: Apache-2.0 */
/* The queries of `gpuslice cost` for Prometheus, and the reader of its answers (view.h). */
#include "tools/cli/cost/view/view.h"

#include "lib/base/parse.h"
#include "lib/base/text.h"
#include "io/price/price.h"

#include <ctype.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define LABELS    "namespace,pod,container,gpu,UUID,mode,node,currency"
#define CURRENCY  "USD" /* of series without the label */
#define WORDS_MAX 160   /* bytes of the server's text in an error */

const struct cost_query cost_queries[] = {
	{ "gpuslice_container_gpu_held_seconds_total", USAGE_DB_ALLOCATED, COST_ALLOCATED },
	{ "gpuslice_container_gpu_seconds_total", USAGE_DB_ALLOCATED, COST_GPU },
	{ "gpuslice_container_gpu_busy_seconds_total", USAGE_DB_ALLOCATED, COST_BUSY },
	{ "gpuslice_container_gpu_cost_total", USAGE_DB_ALLOCATED, COST_MONEY },
	{ "gpuslice_gpu_idle_cost_total", USAGE_DB_UNALLOCATED, COST_MONEY },
	{ "gpuslice_gpu_idle_seconds_total", USAGE_DB_UNALLOCATED, COST_GPU },
};
const size_t cost_n_queries = ARRAY_LEN(cost_queries);

void cost_query_text(struct buf *b, const struct cost_query *q, uint64_t seconds)
{
	buf_printf(b, "sum by (" LABELS ") (increase(%s[%" PRIu64 "s]))", q->metric, seconds);
}

/* The server's @text, made safe for an error. */
static const char *clean_server_text(const char *text, char *buf, size_t cap)
{
	(void)snprintf(buf, cap, "%s", text ? text : "");
	for (char *p = buf; *p; p++) {
		if (iscntrl((unsigned char)*p))
			*p = ' ';
	}
	utf8_make_valid(buf);
	return buf;
}

static int set_query_error(const struct cost_query *q, struct error *err, const char *what,
	const char *found)
{
	char buf[WORDS_MAX];

	return error_set(err, ERR_INVALID, "the server's answer about %s: %s%s%s", q->metric,
		what, found ? ": " : "", clean_server_text(found, buf, sizeof(buf)));
}

static const char *get_metric_label(const json_t *metric, const char *name)
{
	const char *text = json_string_value(json_object_get(metric, name));

	return text && strlen(text) <= USAGE_DB_KEY_MAX ? text : "";
}

/* The text of a sample as billionths. False: not a number (NaN, +Inf), or out of range. */
static bool parse_cost_sample(const char *text, int64_t *ret)
{
	double v;

	if (!parse_double(text, &v) || v < 0 || v >= (double)(INT64_MAX / PRICE_NANO))
		return false;
	*ret = llround(v * (double)PRICE_NANO);
	return true;
}

static void set_usage_row_part(struct usage_db_row *row, enum cost_field part, int64_t v)
{
	row->allocated_ns = part == COST_ALLOCATED ? v : 0;
	row->gpu_ns = part == COST_GPU ? v : 0;
	row->busy_ns = part == COST_BUSY ? v : 0;
	row->cost_nano = part == COST_MONEY ? v : 0;
}

static int add_series(struct cost_summary *summary, const struct cost_query *q,
	const json_t *series, uint64_t from_s, uint64_t to_s, struct error *err)
{
	const json_t *metric = json_object_get(series, "metric");
	const json_t *sample = json_object_get(series, "value");
	const char *text = json_string_value(json_array_get(sample, 1));
	const char *gpu = get_metric_label(metric, "UUID"),
		   *currency = get_metric_label(metric, "currency");
	const struct usage_db_period p = { .start_s = from_s,
		.end_s = to_s,
		.node = get_metric_label(metric, "node"),
		.currency = q->part != COST_MONEY ? ""
			    : *currency           ? currency
						  : CURRENCY,
		.price_source = "Prometheus" };
	struct usage_db_row row = { .kind = q->kind,
		.namespace_ = get_metric_label(metric, "namespace"),
		.pod = get_metric_label(metric, "pod"),
		.container = get_metric_label(metric, "container"),
		.gpu = *gpu ? gpu : get_metric_label(metric, "gpu"),
		.mode = get_metric_label(metric, "mode") };
	int64_t v;

	if (!json_is_object(metric) || json_array_size(sample) != 2 || !text)
		return set_query_error(q, err,
			"expected series of {\"metric\": {...}, \"value\": [time, \"number\"]}",
			NULL);
	if (!parse_cost_sample(text, &v))
		return 0;
	set_usage_row_part(&row, q->part, v);
	return cost_summary_add(summary, &p, &row, q->part, err);
}

/* Error types of the server. An unlisted type is an error in the query. */
static const struct {
	const char *type;
	enum error_code code;
} server_errors[] = {
	{ "canceled", ERR_UNAVAILABLE },
	{ "execution", ERR_UNAVAILABLE },
	{ "internal", ERR_UNAVAILABLE },
	{ "timeout", ERR_TIMEOUT },
	{ "unavailable", ERR_UNAVAILABLE },
};

static int fail_as_server(const struct cost_query *q, const json_t *answer, struct error *err)
{
	const char *type = json_string_value(json_object_get(answer, "errorType"));

	(void)set_query_error(q, err, "an error",
		json_string_value(json_object_get(answer, "error")));
	for (size_t i = 0; type && i < ARRAY_LEN(server_errors); i++)
		if (!strcmp(type, server_errors[i].type))
			err->code = server_errors[i].code;
	return -1;
}

static int parse_query_reply(struct cost_summary *summary, const struct cost_query *q,
	const json_t *answer, uint64_t from_s, uint64_t to_s, struct error *err)
{
	const char *status = json_string_value(json_object_get(answer, "status"));
	const json_t *data = json_object_get(answer, "data");
	const json_t *result = json_object_get(data, "result");
	const char *type = json_string_value(json_object_get(data, "resultType"));

	if (status && !strcmp(status, "error"))
		return fail_as_server(q, answer, err);
	if (!status || strcmp(status, "success") != 0)
		return set_query_error(q, err,
			"expected {\"status\": \"success\", ...}; is this a Prometheus server?",
			NULL);
	if (!type || strcmp(type, "vector") != 0 || !json_is_array(result))
		return set_query_error(q, err, "expected a vector, found", type);
	if (json_array_size(result) > COST_SERIES_MAX)
		return error_set(err, ERR_LIMIT,
			"the server's answer about %s: more than %d series; ask for a shorter time",
			q->metric, COST_SERIES_MAX);
	for (size_t i = 0; i < json_array_size(result); i++) {
		if (add_series(summary, q, json_array_get(result, i), from_s, to_s, err) < 0)
			return -1;
	}
	return 0;
}

int cost_query_read(struct cost_summary *summary, const struct cost_query *q, const char *json,
	size_t len, uint64_t from_s, uint64_t to_s, struct error *err)
{
	json_error_t at;
	json_t *answer = json_loadb(json, len, JSON_REJECT_DUPLICATES, &at);
	int r;

	if (!answer)
		return set_query_error(q, err, "expected JSON; is this a Prometheus server?",
			at.text);
	r = parse_query_reply(summary, q, answer, from_s, to_s, err);
	json_decref(answer);
	return r;
}
