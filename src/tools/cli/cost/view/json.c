/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/cost/view/view.h"

#include "io/price/price.h"
#include "lib/base/time.h"
#include "lib/base/text.h"

#include <jansson.h>
#include <string.h>

/*
 * `gpuslice cost --output json`. Each amount is written twice: as a text with the exact decimal
 * number, because a reader may parse a JSON number as a float, and as an integer of nano-units. Times
 * are integers of nanoseconds.
 */

/* Takes over @value. Sets *failed on an error, and keeps it otherwise. */
static void set_cost_json(json_t *o, const char *key, json_t *value, bool *failed)
{
	if (json_object_set_new(o, key, value) < 0)
		*failed = true;
}

static void set_cost_json_text(json_t *o, const char *key, const char *text, bool *failed)
{
	CLEANUP(freep) char *valid = strdup(text);

	if (valid)
		utf8_make_valid(valid);
	set_cost_json(o, key, json_string(valid ? valid : ""), failed);
}

static void set_numbers(json_t *o, const struct cost_line *l, bool *failed)
{
	const struct usage_db_row *r = &l->row;
	unsigned known = cost_line_is_known(l);
	bool busy = known & COST_BUSY && !(r->busy_unknown && r->busy_ns == 0);
	bool memory = !(r->memory_unknown && r->memory_peak_bytes == 0);
	char text[PRICE_TEXT_MAX];

	set_cost_json(o, "heldNs",
		known & COST_ALLOCATED ? json_integer(r->allocated_ns) : json_null(), failed);
	set_cost_json(o, "gpuNs", known & COST_GPU ? json_integer(r->gpu_ns) : json_null(),
		failed);
	set_cost_json(o, "busyNs", busy ? json_integer(r->busy_ns) : json_null(), failed);
	set_cost_json(o, "busyIncomplete", json_boolean(r->busy_unknown), failed);
	if (known & COST_MEMORY) {
		set_cost_json(o, "memoryByteSeconds",
			memory ? json_integer(r->memory_byte_seconds) : json_null(), failed);
		set_cost_json(o, "memoryPeakBytes",
			memory ? json_integer(r->memory_peak_bytes) : json_null(), failed);
		set_cost_json(o, "memoryIncomplete", json_boolean(r->memory_unknown), failed);
	}
	if (!(known & COST_MONEY) || !*l->period.currency) {
		set_cost_json(o, "cost", json_null(), failed);
		return;
	}
	set_cost_json_text(o, "cost", price_text(r->cost_nano, 0, text), failed);
	set_cost_json(o, "costNano", json_integer(r->cost_nano), failed);
	set_cost_json_text(o, "currency", l->period.currency, failed);
}

static json_t *line_object(const struct cost_line *l, enum cost_by by, bool *failed)
{
	const struct {
		const char *key, *text;
		bool shown;
	} texts[] = {
		{ "namespace", l->row.namespace_, by <= COST_BY_CONTAINER },
		{ "pod", l->row.pod, by == COST_BY_POD || by == COST_BY_CONTAINER },
		{ "container", l->row.container, by == COST_BY_CONTAINER },
		{ "gpu", l->row.gpu, by == COST_BY_GPU },
		{ "mode", l->row.mode, by == COST_BY_MODE },
	};
	json_t *o = json_object();

	set_cost_json(o, "idle", json_boolean(l->row.kind == USAGE_DB_UNALLOCATED), failed);
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		if (texts[i].shown && (l->row.kind == USAGE_DB_ALLOCATED || by == COST_BY_GPU))
			set_cost_json_text(o, texts[i].key, texts[i].text, failed);
	}
	set_numbers(o, l, failed);
	return o;
}

static json_t *node_object(const struct usage_db_period *n, bool *failed)
{
	char text[PRICE_TEXT_MAX], time[TIME_RFC3339_MAX];
	json_t *o = json_object();

	set_cost_json_text(o, "node", n->node, failed);
	set_cost_json_text(o, "instanceType", n->instance_type, failed);
	set_cost_json_text(o, "region", n->region, failed);
	set_cost_json(o, "gpus", json_integer(n->gpus), failed);
	set_cost_json_text(o, "from", cost_time_text(n->start_s, time), failed);
	set_cost_json_text(o, "to", cost_time_text(n->end_s, time), failed);
	set_cost_json(o, "accountedNs", json_integer(n->covered_ns), failed);
	if (!*n->currency) {
		set_cost_json(o, "cost", json_null(), failed);
		return o;
	}
	set_cost_json_text(o, "pricePerHour", price_text(n->price_nano_per_hour, 0, text),
		failed);
	set_cost_json_text(o, "priceSource", n->price_source, failed);
	set_cost_json_text(o, "cost", price_text(n->cost_nano, 0, text), failed);
	set_cost_json(o, "costNano", json_integer(n->cost_nano), failed);
	set_cost_json_text(o, "currency", n->currency, failed);
	return o;
}

static json_t *lines_array(const struct cost_print *p, bool *failed)
{
	size_t n;
	const struct cost_line *const *lines = cost_summary_lines(p->summary, &n);
	json_t *a = json_array();

	for (size_t i = 0; i < n; i++) {
		if (json_array_append_new(a, line_object(lines[i], p->by, failed)) < 0)
			*failed = true;
	}
	return a;
}

static json_t *nodes_array(const struct cost_print *p, bool *failed)
{
	size_t n;
	const struct cost_node *nodes = cost_summary_nodes(p->summary, &n);
	json_t *a = json_array();

	for (size_t i = 0; i < n; i++) {
		if (json_array_append_new(a, node_object(&nodes[i].period, failed)) < 0)
			*failed = true;
	}
	return a;
}

static json_t *totals_array(const struct cost_print *p, bool *failed, struct error *err)
{
	json_t *a = json_array();
	const char *currency;

	for (size_t i = 0; (currency = cost_summary_currency(p->summary, i)) != NULL; i++) {
		struct cost_line total;
		json_t *o;

		if (cost_summary_total(p->summary, currency, &total, err) < 0) {
			*failed = true;
			break;
		}
		o = json_object();
		set_numbers(o, &total, failed);
		if (json_array_append_new(a, o) < 0)
			*failed = true;
	}
	return a;
}

int cost_print_json(struct buf *b, const struct cost_print *p, struct error *err)
{
	static const char *const names[] = { "namespace", "pod", "container", "gpu", "mode",
		"charge" };
	char time[TIME_RFC3339_MAX];
	json_t *o = json_object();
	struct error why = ERROR_INIT;
	bool failed = false;
	char *text;

	set_cost_json_text(o, "from", cost_time_text(p->from_s, time), &failed);
	set_cost_json_text(o, "to", cost_time_text(p->to_s, time), &failed);
	set_cost_json_text(o, "by", names[p->by], &failed);
	set_cost_json(o, "estimated", json_boolean(p->estimated), &failed);
	set_cost_json(o, "nodes", nodes_array(p, &failed), &failed);
	set_cost_json(o, "rows", lines_array(p, &failed), &failed);
	set_cost_json(o, "totals", totals_array(p, &failed, &why), &failed);
	text = failed ? NULL : json_dumps(o, JSON_INDENT(2));
	json_decref(o);
	if (why.code) {
		free(text);
		error_copy(err, &why);
		return -1;
	}
	if (!text)
		return error_nomem(err);
	buf_printf(b, "%s\n", text);
	free(text);
	return buf_ok(b) ? 0 : error_nomem(err);
}
