/* SPDX-License-Identifier: Apache-2.0 */

/* gpuslice mig list and status: the possible and the actual MIG devices of the GPUs. */
#include "lib/report/table.h"
#include "tools/cli/mig/mig.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/config/json.h"
#include "model/mig/geometry/geometry.h"

#define OUTPUT_MAX (4 * 1024 * 1024)

#define OPTION_FORMAT                                                                        \
	{                                                                                    \
		.name = "output-format", .letter = 'o', .type = OPTION_STR, .arg = "FORMAT", \
		.def = "text", .help = "text or json"                                        \
	}

static const struct option_def mig_query_options[] = { MIG_OPTION_DEBUG(MIG_UNUSED),
	MIG_OPTION_DRIVER_ROOT("where the driver's files are"), MIG_OPTION_NVML,
	OPTION_FORMAT };

/* For a GPU that could not be read: some of its facts can still be known. */
static const char *get_mig_text_or_unknown(const char *text)
{
	return *text ? text : "unknown";
}

static json_t *render_mig_text_or_null(const char *text)
{
	return *text ? json_any_text(text) : json_null();
}

static const char *mode_text(const struct mig_state *s)
{
	if (!s->capable)
		return "none";
	if (s->enabled != s->pending_enabled)
		return s->enabled ? "on, off after a reset" : "off, on after a reset";
	return s->enabled ? "on" : "off";
}

/* "{0,2,4}:2" */
static void format_placements(const struct mig_gi_profile *p, char *ret, size_t cap)
{
	size_t len = (size_t)snprintf(ret, cap, "{");

	for (uint32_t s = 0; s < MIG_SLOTS_MAX && len < cap; s++) {
		if (p->starts >> s & 1)
			len += (size_t)snprintf(ret + len, cap - len, "%s%u",
				len > 1 ? "," : "", s);
	}
	if (len < cap)
		(void)snprintf(ret + len, cap - len, "}:%u", p->size);
}

static json_t *render_mig_gpu_json(const struct mig_node_gpu *g, const char *name)
{
	char filter[16];
	json_t *j;

	(void)snprintf(filter, sizeof(filter), "0x%08X", g->pci.device);
	j = json_pack("{s:I, s:o, s:o, s:o, s:o, s:o}", "index", (json_int_t)g->index, "uuid",
		render_mig_text_or_null(g->uuid), "busId", render_mig_text_or_null(g->bus_id),
		"deviceFilter", render_mig_text_or_null(g->pci.device ? filter : ""), "name",
		render_mig_text_or_null(name), "mig",
		render_mig_text_or_null(g->fault.code ? "" : mode_text(&g->state)));
	if (g->fault.code)
		(void)json_object_set_new(j, "fault", json_any_text(g->fault.msg));
	return j;
}

static uint32_t count_free_mig_profile(const struct mig_node_gpu *g, uint32_t profile)
{
	return mig_geometry_count_free(&g->layout, g->state.enabled ? &g->state : NULL,
		profile);
}

/* list */

static json_t *render_mig_profiles_json(const struct mig_node_gpu *g)
{
	json_t *profiles = json_array();

	for (uint32_t i = 0; i < g->layout.n; i++) {
		const struct mig_gi_profile *p = &g->layout.profiles[i];
		char name[MIG_PROFILE_NAME_MAX];
		json_t *j, *starts = json_array();

		mig_layout_name(&g->layout, i, p->slices, name);
		for (uint32_t s = 0; s < MIG_SLOTS_MAX; s++) {
			if (p->starts >> s & 1)
				(void)json_array_append_new(starts, json_integer(s));
		}
		j = json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:I}", "name",
			name, "number", (json_int_t)p->number, "id", (json_int_t)p->id, "free",
			(json_int_t)count_free_mig_profile(g, i), "max", (json_int_t)p->max,
			"slices", (json_int_t)p->slices, "memoryMiB", (json_int_t)p->memory_mib,
			"multiprocessors", (json_int_t)p->multiprocessors, "starts", starts,
			"size", (json_int_t)p->size);
		(void)json_object_update_new(j,
			json_pack("{s:I, s:I, s:I, s:I, s:I}", "copyEngines",
				(json_int_t)p->copy, "decoders", (json_int_t)p->decoder,
				"encoders", (json_int_t)p->encoder, "jpegEngines",
				(json_int_t)p->jpeg, "ofaEngines", (json_int_t)p->ofa));
		(void)json_array_append_new(profiles, j);
	}
	return profiles;
}

static void list_text(const struct mig_node_gpu *g, struct buf *b)
{
	static const char *const heads[] = { "PROFILE", "ID", "FREE", "MAX", "SLICES", "MEMORY",
		"SM", "CE", "DEC", "ENC", "JPEG", "OFA", "PLACES", NULL };
	CLEANUP(table_fini) struct table t = { .columns = 0 };

	if (!g->layout.n) {
		buf_printf(b, "  %s\n",
			g->state.capable ? "its profiles are told only while MIG is on"
					 : "it has no MIG");
		return;
	}
	table_init(&t, heads);
	for (uint32_t i = 0; i < g->layout.n; i++) {
		const struct mig_gi_profile *p = &g->layout.profiles[i];
		char name[MIG_PROFILE_NAME_MAX], places[160];

		mig_layout_name(&g->layout, i, p->slices, name);
		format_placements(p, places, sizeof(places));
		table_add(&t, name);
		table_addf(&t, "%u", p->id);
		table_addf(&t, "%u", count_free_mig_profile(g, i));
		table_addf(&t, "%u", p->max);
		table_addf(&t, "%u", p->slices);
		table_addf(&t, "%llu MiB", (unsigned long long)p->memory_mib);
		table_addf(&t, "%u", p->multiprocessors);
		table_addf(&t, "%u", p->copy);
		table_addf(&t, "%u", p->decoder);
		table_addf(&t, "%u", p->encoder);
		table_addf(&t, "%u", p->jpeg);
		table_addf(&t, "%u", p->ofa);
		table_add(&t, places);
	}
	table_print(&t, b);
}

/* status */

struct pids {
	uint32_t gi, ci;
	char text[128];
	size_t len;
	json_t *list; /* NULL: text output */
};

static void add_pid(void *arg, uint32_t gi, uint32_t ci, uint32_t pid)
{
	struct pids *p = arg;

	if (gi != p->gi || (ci != p->ci && ci != UINT32_MAX))
		return;
	if (p->list)
		(void)json_array_append_new(p->list, json_integer(pid));
	else if (p->len < sizeof(p->text))
		p->len += (size_t)snprintf(p->text + p->len, sizeof(p->text) - p->len, "%s%u",
			p->len ? "," : "", pid);
}

static const char *find_mig_device_uuid(const struct mig_device_id *ids, uint32_t n,
	uint32_t gi, uint32_t ci)
{
	for (uint32_t i = 0; i < n; i++) {
		if (ids[i].gi == gi && ids[i].ci == ci)
			return ids[i].uuid;
	}
	return "";
}

struct mig_query {
	struct mig_editor *e;
	const struct mig_node_gpu *g;
	struct mig_device_id ids[MIG_GIS_MAX * MIG_CIS_MAX];
	uint32_t n;
};

static json_t *ci_json(const struct mig_query *query, const struct mig_gi *gi,
	const struct mig_ci *ci)
{
	struct pids pids = { .gi = gi->id, .ci = ci->id, .list = json_array() };
	char name[MIG_PROFILE_NAME_MAX];

	mig_layout_name(&query->g->layout, gi->profile, ci->slices, name);
	mig_editor_each_client(query->e, query->g->index, add_pid, &pids);
	return json_pack("{s:I, s:s, s:o, s:b, s:o}", "ci", (json_int_t)ci->id, "profile", name,
		"uuid",
		render_mig_text_or_null(
			find_mig_device_uuid(query->ids, query->n, gi->id, ci->id)),
		"busy", ci->busy, "processes", pids.list);
}

static json_t *render_free_profiles(const struct mig_node_gpu *g)
{
	json_t *j = json_object();

	for (uint32_t i = 0; i < g->layout.n && g->state.enabled; i++) {
		char name[MIG_PROFILE_NAME_MAX];
		uint32_t n = count_free_mig_profile(g, i);

		mig_layout_name(&g->layout, i, g->layout.profiles[i].slices, name);
		if (n)
			(void)json_object_set_new(j, name, json_integer(n));
	}
	return j;
}

static json_t *render_mig_status_json(const struct mig_query *query)
{
	const struct mig_state *s = &query->g->state;
	json_t *list = json_array();

	for (uint32_t i = 0; i < s->n; i++) {
		const struct mig_gi *gi = &s->gi[i];
		json_t *cis = json_array();
		char name[MIG_PROFILE_NAME_MAX];

		mig_layout_name(&query->g->layout, gi->profile,
			query->g->layout.profiles[gi->profile].slices, name);
		for (uint32_t k = 0; k < gi->n_ci; k++)
			(void)json_array_append_new(cis, ci_json(query, gi, &gi->ci[k]));
		(void)json_array_append_new(list,
			json_pack("{s:I, s:s, s:I, s:I, s:o}", "gi", (json_int_t)gi->id,
				"profile", name, "start", (json_int_t)gi->start, "size",
				(json_int_t)query->g->layout.profiles[gi->profile].size,
				"computeInstances", cis));
	}
	return list;
}

static void status_rows(const struct mig_query *query, const struct mig_gi *gi, struct table *t)
{
	for (uint32_t k = 0; k < gi->n_ci || (!k && !gi->n_ci); k++) {
		const struct mig_ci *ci = gi->n_ci ? &gi->ci[k] : NULL;
		struct pids pids = { .gi = gi->id, .ci = ci ? ci->id : UINT32_MAX };
		char name[MIG_PROFILE_NAME_MAX];

		mig_layout_name(&query->g->layout, gi->profile,
			ci ? ci->slices : query->g->layout.profiles[gi->profile].slices, name);
		mig_editor_each_client(query->e, query->g->index, add_pid, &pids);
		table_add(t, name);
		table_addf(t, "%u:%u", gi->start, query->g->layout.profiles[gi->profile].size);
		table_addf(t, "%u", gi->id);
		if (ci)
			table_addf(t, "%u", ci->id);
		else
			table_add(t, "-");
		table_add(t, pids.len ? pids.text : ci && ci->busy ? "in use" : "-");
		table_add(t, ci ? get_mig_text_or_unknown(find_mig_device_uuid(query->ids,
					  query->n, gi->id, ci->id))
				: "no compute instance");
	}
}

static void print_mig_status_text(const struct mig_query *query, struct buf *b)
{
	static const char *const heads[] = { "MIG DEVICE", "PLACE", "GI", "CI", "PROCESSES",
		"UUID", NULL };
	CLEANUP(table_fini) struct table t = { .columns = 0 };
	struct pids pids = { .gi = UINT32_MAX, .ci = UINT32_MAX };
	const char *before = "Room for ";

	mig_editor_each_client(query->e, query->g->index, add_pid, &pids);
	if (pids.len)
		buf_printf(b, "in use by %s\n", pids.text);
	if (!query->g->state.enabled)
		return;
	table_init(&t, heads);
	for (uint32_t i = 0; i < query->g->state.n; i++)
		status_rows(query, &query->g->state.gi[i], &t);
	if (table_has_rows(&t))
		table_print(&t, b);
	for (uint32_t i = 0; i < query->g->layout.n; i++) {
		char name[MIG_PROFILE_NAME_MAX];
		uint32_t n = count_free_mig_profile(query->g, i);

		if (!n)
			continue;
		mig_layout_name(&query->g->layout, i, query->g->layout.profiles[i].slices,
			name);
		buf_printf(b, "%s%u x %s", before, n, name);
		before = ", or ";
	}
	buf_puts(b, *before == ',' ? "\n" : "No free capacity\n");
}

/* --- for both commands --- */

static int show_mig_gpu(struct mig_query *query, bool status, struct buf *b, json_t *list,
	struct error *err)
{
	const struct mig_node_gpu *g = query->g;
	char name[96] = "";
	json_t *j;

	if (!g->fault.code)
		mig_editor_gpu_name(query->e, g->index, name, sizeof(name));
	if (status && !g->fault.code && g->state.enabled &&
		mig_editor_device_ids(query->e, g->index, query->ids, &query->n, err) < 0)
		return error_prefix(err, "GPU %u", g->index);
	if (list) {
		j = render_mig_gpu_json(g, name);
		(void)json_object_set_new(j, status ? "instances" : "profiles",
			status ? render_mig_status_json(query) : render_mig_profiles_json(g));
		if (status)
			(void)json_object_set_new(j, "room", render_free_profiles(g));
		(void)json_array_append_new(list, j);
		return 0;
	}
	buf_printf(b, "%sGPU %u %s %s: MIG ", g->index ? "\n" : "", g->index,
		get_mig_text_or_unknown(g->uuid), get_mig_text_or_unknown(name));
	if (g->fault.code) {
		buf_printf(b, "cannot be read: %s\n", g->fault.msg);
		return 0;
	}
	buf_puts(b, mode_text(&g->state));
	if (!status)
		buf_printf(b, ", device-filter 0x%08X", g->pci.device);
	buf_puts(b, "\n");
	if (status)
		print_mig_status_text(query, b);
	else
		list_text(g, b);
	return 0;
}

static int run_mig_query(const struct options *o, bool status, struct error *err)
{
	CLEANUP(mig_editor_closep) struct mig_editor *e = NULL;
	CLEANUP(buf_fini) struct buf b = BUF_INIT(OUTPUT_MAX);
	const struct mig_node *node;
	json_t *list = NULL;
	char *text;
	bool json;
	int r = 0;

	if (mig_tool_json(o, "text", &json, err) < 0 || mig_tool_open(&e, o, err) < 0 ||
		mig_editor_read(e, /* clients= */ status, &node, err) < 0)
		return -1;
	list = json ? json_array() : NULL;
	for (uint32_t i = 0; i < node->n && r == 0; i++) {
		struct mig_query query = { .e = e, .g = &node->gpus[i] };

		r = show_mig_gpu(&query, status, &b, list, err);
	}
	if (!node->n && !json)
		buf_puts(&b, "no GPU\n");
	text = json ? json_dumps(list, JSON_INDENT(2)) : buf_steal(&b);
	json_decref(list);
	if (r < 0) {
		free(text);
		return r;
	}
	r = mig_tool_print(text, err);
	if (r == 0 && json)
		puts("");
	return r;
}

static int run_mig_list(const struct cmd *cmd, const struct options *o, struct error *err)
{
	(void)cmd;
	return run_mig_query(o, /* status= */ false, err);
}

static int run_status(const struct cmd *cmd, const struct options *o, struct error *err)
{
	(void)cmd;
	return run_mig_query(o, /* status= */ true, err);
}

const struct cmd mig_cmd_list = {
	.name = "mig list",
	.usage = "[-o text|json]",
	.summary = "show the profiles of the GPUs, where they may lie, and room for them",
	.options = mig_query_options,
	.n_options = ARRAY_LEN(mig_query_options),
	.exit_code = EXIT_FAILURE,
	.run = run_mig_list,
};

const struct cmd mig_cmd_status = {
	.name = "mig status",
	.usage = "[-o text|json]",
	.summary = "show how each GPU is cut, who uses it, and what room is left",
	.options = mig_query_options,
	.n_options = ARRAY_LEN(mig_query_options),
	.exit_code = EXIT_FAILURE,
	.run = run_status,
};
