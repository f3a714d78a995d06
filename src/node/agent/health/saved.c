/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/health/saved.h"

#include "lib/base/parse.h"
#include "lib/json/record.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct health_row {
	const char *uuid, *profile, *bus_id;
	uint32_t index, xid, times, relapses;
	uint64_t within_ns, trouble_ns, since_ns;
	bool missing, recovered;
};

static const struct record_field row_fields[] = {
	RECORD(struct health_row, uuid, "uuid"),
	RECORD(struct health_row, profile, "profile"),
	RECORD(struct health_row, bus_id, "busId"),
	RECORD(struct health_row, index, "index"),
	RECORD(struct health_row, missing, "missing"),
	RECORD(struct health_row, xid, "xid"),
	RECORD(struct health_row, times, "times"),
	RECORD(struct health_row, within_ns, "withinNs"),
	RECORD(struct health_row, trouble_ns, "troubleNs"),
	RECORD(struct health_row, since_ns, "sinceNs"),
	RECORD(struct health_row, relapses, "relapses"),
	RECORD(struct health_row, recovered, "recovered"),
};

/* --- writing --- */

static json_t *counted_json(const struct health *h, const struct health_policy *p,
	bool *ret_any)
{
	json_t *list = json_array();

	for (size_t i = 0; i < p->n_rates; i++) {
		uint64_t at_ns[XID_RATE_COUNT_MAX];
		uint32_t n = health_recent(h, p, i, at_ns);
		json_t *at = json_array();

		for (uint32_t k = 0; k < n; k++)
			(void)json_array_append_new(at, json_integer((json_int_t)at_ns[k]));
		*ret_any |= n > 0;
		(void)json_array_append_new(list,
			json_pack("{s:I, s:o}", "xid", (json_int_t)h->recent[i].last_xid,
				"atNs", at));
	}
	return list;
}

/* @counted and @signals, owned, may be NULL. */
static void add_health_row(json_t *list, const struct health_row *row, json_t *counted,
	json_t *signals)
{
	json_t *o = record_write(row, row_fields, ARRAY_LEN(row_fields));

	if (counted)
		(void)json_object_set_new(o, "counted", counted);
	if (signals)
		(void)json_object_set_new(o, "signals", signals);
	if (json_array_size(list) < SAVED_HEALTH_MAX)
		(void)json_array_append_new(list, o);
	else
		json_decref(o);
}

/* The raised signals of @g, by name; NULL: none. */
static json_t *signals_json(const struct gpu *g)
{
	json_t *o = NULL;

	for (int i = 0; i < GPU_SIGNAL_COUNT_; i++) {
		uint64_t value;

		if (!gpu_signal(g, (enum gpu_signal)i, &value) || value == 0)
			continue;
		if (!o)
			o = json_object();
		(void)json_object_set_new(o, health_signals[i].name,
			json_integer(value < INT64_MAX ? (json_int_t)value : INT64_MAX));
	}
	return o;
}

/* A device that never had trouble gets no row. @g is NULL for a MIG device: signals are of GPUs. */
static void add_device_health(json_t *list, struct health_row row, const struct gpu *g,
	const struct health *h, const struct health_policy *p)
{
	json_t *signals = g ? signals_json(g) : NULL;
	bool any = h->cause_xid || h->recovered || signals;
	json_t *counted = counted_json(h, p, &any);

	if (!any) {
		json_decref(counted);
		return;
	}
	row.xid = h->cause_xid;
	row.times = h->cause_times;
	row.within_ns = h->cause_within_ns;
	row.trouble_ns = h->trouble_ns;
	row.since_ns = h->since_ns;
	row.relapses = h->relapses;
	row.recovered = h->recovered;
	add_health_row(list, &row, counted, signals);
}

static void add_missing_gpu_health(json_t *list, const struct node_missing *m)
{
	const struct health_row row = { .uuid = m->uuid,
		.bus_id = m->bus_id,
		.index = m->index,
		.xid = m->xid,
		.missing = true };

	add_health_row(list, &row, NULL, NULL);
}

static json_t *format_devices_health(const struct node *n, const struct health_policy *p)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < n->n_missing; i++)
		add_missing_gpu_health(list, &n->missing[i]);
	for (uint32_t i = 0; n->inv && i < n->inv->n; i++) {
		const struct node_gpu *g = &n->gpus[i];
		struct node_missing m;

		if (!g->gpu.uuid[0])
			continue;
		node_missing_of(&m, g);
		if (g->present)
			add_device_health(list,
				(struct health_row){ .uuid = m.uuid,
					.bus_id = m.bus_id,
					.index = m.index },
				&g->gpu, &g->health, p);
		else
			add_missing_gpu_health(list, &m);
	}
	for (uint32_t i = 0; n->inv && i < n->inv->n_mig; i++) {
		const struct gpu_mig *m = &n->inv->mig[i];

		if (m->uuid[0] && m->profile[0])
			add_device_health(list,
				(struct health_row){ .uuid = m->uuid,
					.profile = m->profile,
					.index = m->index },
				NULL, &n->migs[i], p);
	}
	return list;
}

char *saved_health_format(const struct node *n, const struct health_policy *p, const char *boot)
{
	json_t *devices = format_devices_health(n, p);
	char rates[24], *text;
	json_t *o;

	if (json_array_size(devices) == 0) {
		json_decref(devices);
		return strdup("");
	}
	(void)snprintf(rates, sizeof(rates), "%" PRIu64, p->rates_id);
	o = json_pack("{s:s, s:s, s:o}", "boot", boot, "rules", rates, "devices", devices);
	text = o ? json_dumps(o, JSON_INDENT(1)) : NULL;
	json_decref(o);
	return text;
}

/* --- reading --- */

struct health_row_reader {
	const char *name;
	uint64_t now_ns;
	struct error *err;
};

static int set_health_row_error(const struct health_row_reader *w, const char *key,
	const char *expected)
{
	return error_set(w->err, ERR_INVALID, "%s.%s: expected %s", w->name, key, expected);
}

static int copy_health_row_text(char *to, size_t cap, const char *from, const char *key,
	const struct health_row_reader *w)
{
	if (strlen(from) >= cap)
		return set_health_row_error(w, key, "a shorter text");
	memcpy(to, from, strlen(from) + 1);
	return 0;
}

/* The times of the XIDs that one rule counts. They are in the order of the rules, which .rates_id identifies. */
static int parse_counted_xids(struct xid_recent *r, const json_t *o,
	const struct health_row_reader *w)
{
	const json_t *at, *xid = json_object_get(o, "xid");

	if (record_list(&at, o, "atNs", XID_RATE_COUNT_MAX, w->name, w->err) < 0)
		return -1;
	if (!json_is_integer(xid) || json_integer_value(xid) < 0 ||
		json_integer_value(xid) > UINT32_MAX)
		return set_health_row_error(w, "counted[].xid", "the number of an XID");
	r->last_xid = (uint32_t)json_integer_value(xid);
	for (; r->n < json_array_size(at); r->n++) {
		const json_t *t = json_array_get(at, r->n);
		json_int_t ns = json_integer_value(t);

		if (!json_is_integer(t) || ns < 0 || (uint64_t)ns > w->now_ns ||
			(r->n > 0 && (uint64_t)ns < r->at_ns[r->n - 1]))
			return set_health_row_error(w, "counted[].atNs",
				"times that have passed, in order");
		r->at_ns[r->n] = (uint64_t)ns;
	}
	return 0;
}

static int parse_device_health(struct health *h, const struct health_row *row, const json_t *o,
	const struct health_row_reader *w)
{
	const json_t *counted;

	if (row->xid == UINT32_MAX || row->relapses == UINT32_MAX || row->times == UINT32_MAX)
		return set_health_row_error(w, "xid, times, relapses", "numbers");
	if (row->trouble_ns > w->now_ns || row->since_ns > w->now_ns)
		return set_health_row_error(w, "troubleNs, sinceNs", "times that have passed");
	*h = (struct health){ .cause_xid = row->xid,
		.cause_times = row->times,
		.cause_within_ns = row->within_ns,
		.trouble_ns = row->trouble_ns,
		.since_ns = row->since_ns,
		.relapses = row->relapses,
		.recovered = row->recovered };
	if (record_list(&counted, o, "counted", XID_RATES_MAX, w->name, w->err) < 0)
		return -1;
	for (size_t i = 0; i < json_array_size(counted); i++)
		if (parse_counted_xids(&h->recent[i], json_array_get(counted, i), w) < 0)
			return -1;
	return 0;
}

/* Unknown signals are those of a later version, and are ignored. */
static int parse_health_signals(struct gpu *g, const json_t *o,
	const struct health_row_reader *w)
{
	if (o && !json_is_object(o))
		return set_health_row_error(w, "signals", "an object");
	for (int i = 0; i < GPU_SIGNAL_COUNT_; i++) {
		const json_t *v = json_object_get(o, health_signals[i].name);

		if (!v)
			continue;
		if (!json_is_integer(v) || json_integer_value(v) <= 0)
			return set_health_row_error(w, "signals", "numbers from 1 on");
		if (i < GPU_SIGNAL_STORED_)
			gpu_signal_set(g, (enum gpu_signal)i, (uint64_t)json_integer_value(v));
		else
			g->recovery = (enum gpu_recovery)(
				GPU_RECOVERY_RESET_GPU + i - GPU_SIGNAL_STORED_);
	}
	return 0;
}

static int parse_health_row(struct node_persisted *k, bool *ret_missing, const json_t *o,
	const struct health_row_reader *w)
{
	struct health_row row;

	if (record_read(&row, o, row_fields, ARRAY_LEN(row_fields), w->name, w->err) < 0)
		return -1;
	if (!row.uuid[0] || row.index == UINT32_MAX)
		return set_health_row_error(w, "uuid, index", "those of a device");
	*ret_missing = row.missing;
	k->index = row.index;
	if (copy_health_row_text(k->uuid, sizeof(k->uuid), row.uuid, "uuid", w) < 0 ||
		copy_health_row_text(k->profile, sizeof(k->profile), row.profile, "profile",
			w) < 0 ||
		copy_health_row_text(k->bus_id, sizeof(k->bus_id), row.bus_id, "busId", w) <
			0 ||
		parse_health_signals(&k->raised, json_object_get(o, "signals"), w) < 0)
		return -1;
	if (!row.missing)
		return parse_device_health(&k->health, &row, o, w);
	if (row.xid == UINT32_MAX)
		return set_health_row_error(w, "xid", "the number of an XID");
	k->health.cause_xid = row.xid;
	return 0;
}

static int parse_devices_health(struct node *n, const json_t *list, uint64_t rates_id,
	uint64_t now_ns, struct error *err)
{
	CLEANUP(freep)
	struct node_persisted *persisted =
		calloc(json_array_size(list) + 1, sizeof(*persisted));
	CLEANUP(freep) struct node_missing *missing = calloc(GPU_NODE_MAX, sizeof(*missing));
	uint32_t n_kept = 0, n_missing = 0;

	if (!persisted || !missing)
		return error_nomem(err);
	for (size_t i = 0; i < json_array_size(list); i++) {
		struct node_persisted *k = &persisted[n_kept];
		bool is_missing = false;
		char name[32];
		const struct health_row_reader w = { .name = name,
			.now_ns = now_ns,
			.err = err };

		(void)snprintf(name, sizeof(name), "devices[%zu]", i);
		*k = (struct node_persisted){ .index = 0 };
		if (parse_health_row(k, &is_missing, json_array_get(list, i), &w) < 0)
			return -1;
		k->health.rates_id = rates_id;
		if (!is_missing) {
			n_kept++;
		} else if (n_missing < GPU_NODE_MAX) {
			struct node_missing *m = &missing[n_missing++];

			m->index = k->index;
			m->xid = k->health.cause_xid;
			memcpy(m->uuid, k->uuid, sizeof(m->uuid));
			memcpy(m->bus_id, k->bus_id, sizeof(m->bus_id));
		}
	}
	memcpy(n->missing, missing, n_missing * sizeof(*missing));
	n->n_missing = n_missing;
	free(n->persisted);
	n->persisted = STEAL_PTR(persisted);
	n->n_persisted = n_kept;
	return 0;
}

static int parse_saved_health(struct node *n, const json_t *o, const char *boot,
	uint64_t now_ns, struct error *err)
{
	const char *of = json_string_value(json_object_get(o, "boot"));
	const char *rules = json_string_value(json_object_get(o, "rules"));
	const json_t *list;
	uint64_t rates_id;

	if (!of || !rules || !parse_u64(rules, &rates_id))
		return error_set(err, ERR_INVALID, "expected kept health, found other JSON");
	if (!boot[0] || strcmp(of, boot) != 0)
		return error_set(err, ERR_NOT_FOUND, "the kept health is of another boot");
	if (record_list(&list, o, "devices", SAVED_HEALTH_MAX, "", err) < 0)
		return -1;
	return parse_devices_health(n, list, rates_id, now_ns, err);
}

int saved_health_parse(struct node *n, const char *json, size_t len, const char *boot,
	uint64_t now_ns, struct error *err)
{
	json_error_t where;
	json_t *o = json_loadb(json, len, 0, &where);
	int r;

	if (!o)
		return error_set(err, ERR_INVALID, "line %d: %s", where.line, where.text);
	r = parse_saved_health(n, o, boot, now_ns, err);
	json_decref(o);
	return r;
}
