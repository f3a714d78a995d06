/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/cmd.h"

#include "lib/base/buf.h"
#include "lib/report/table.h"
#include "tools/cli/config-offer.h"
#include "tools/cli/node-probe.h"
#include "io/config/config.h"
#include "io/config/json.h"
#include "model/mps/mps.h"
#include "model/slice/slice.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/*
 * gpuslice config check: reads configs as the agent does, and shows what this node, or a simulated
 * node, would offer with each. The command does not know an agent's environment and flags, and does
 * not apply them.
 */

static const struct option_def check_options[] = {
	{ .name = "json", .type = OPTION_BOOL, .def = "false", .help = "print JSON" },
	{ .name = "node",
		.type = OPTION_STR,
		.arg = "MODEL",
		.help = "show what a simulated node of this model would offer, such as p3.8xlarge" },
	{ .name = "nvml",
		.type = OPTION_STR,
		.env = { "GPUSLICE_NVML" },
		.arg = "PATH",
		.help = "NVML library to ask for the GPUs, instead of the driver's" },
};

#define OFFER_TEXT_MAX (1U << 20)

struct config_check {
	struct node_probe node;
	json_t *configs; /* only with --json; else NULL */
	unsigned n_good, n_bad, n_warnings;
	int exit_code; /* for the first error */
};

/* What a node offers, and the plan of its MPS daemons. */
struct offer_facts {
	const struct offer *offer;
	const struct inventory *inv;
	const struct mps_plan *mps;
};

/* The row of one resource. */
struct offer_row {
	uint32_t gpus, min, max; /* GPUs with devices of the resource; devices on one GPU */
	uint32_t refused;        /* listed, but not allocatable; a note says why */
	/* Bytes of a replica's slice, or of each process under MPS. SLICE_NO_LIMIT: no limit. 0: not known. */
	uint64_t memory_min, memory_max;
	bool compute;              /* some devices use the fair-share scheduler */
	uint32_t weight;           /* of the last of those devices */
	uint32_t cap_min, cap_max; /* in millionths; 0: no cap */
	enum slice_class class_;
	uint32_t percent_min, percent_max; /* of the SMs, under MPS; 0: no device */
	bool latency;                      /* some device has latency priority under MPS */
	bool mixed;                        /* some devices of an MPS resource are time-sliced */
};

#define MEMORY_SMALL 1 /* bytes; for a share that is smaller than SLICE_GRANULE */

/* The slice of a container with only this device. .gpus[0].memory is 0 if the limit is not known. */
static struct slice_plan plan_of(const struct resource *r, uint32_t device,
	const struct inventory *inv)
{
	const char *const id = r->devices[device].id;
	struct error err = ERROR_INIT;
	struct slice_plan plan;

	if (slice_plan_make(&plan, r, inv, &id, 1, &err) < 0)
		plan.gpus[0].memory = err.code == ERR_INVALID ? MEMORY_SMALL : 0;
	else if (!plan.wanted)
		plan.gpus[0].memory = SLICE_NO_LIMIT;
	return plan;
}

static void format_memory_limit(char *cell, size_t cap, uint64_t bytes)
{
	if (bytes == SLICE_NO_LIMIT)
		(void)snprintf(cell, cap, "-");
	else if (!bytes)
		(void)snprintf(cell, cap, "?");
	else if (bytes < SLICE_GRANULE)
		(void)snprintf(cell, cap, "< %" PRIu64 " MiB", (uint64_t)SLICE_GRANULE >> 20);
	else
		(void)snprintf(cell, cap, "%" PRIu64 " MiB", bytes >> 20);
}

static json_t *memory_json(uint64_t bytes)
{
	return bytes >= SLICE_GRANULE && bytes != SLICE_NO_LIMIT
		       ? json_integer((json_int_t)bytes)
		       : json_null();
}

static void add_time(struct offer_row *row, const struct slice_plan *plan)
{
	const struct slice_gpu *g = &plan->gpus[0];

	if (plan->compute != SLICE_COMPUTE_FAIR_SHARE)
		return;
	if (!row->compute || g->cap < row->cap_min)
		row->cap_min = g->cap;
	if (g->cap > row->cap_max)
		row->cap_max = g->cap;
	row->compute = true;
	row->weight = g->weight;
	row->class_ = plan->class_;
}

/* Adds what MPS grants a container with only this device. If the slice has no limit, *memory becomes
 * that of MPS. */
static void add_mps(struct offer_row *row, const struct offer_facts *o,
	const struct resource *r, uint32_t device, uint64_t *memory)
{
	const struct offer_device *d = &r->devices[device];
	const char *const id = d->id;
	struct mps_grant g;

	if (!mps_shares(r, d))
		return;
	if (*memory == SLICE_NO_LIMIT && mps_limit_mib(r, d, o->inv, 1))
		*memory = mps_limit_mib(r, d, o->inv, 1) << 20;
	if (d->why || mps_grant_make(&g, o->mps, r, o->inv, &id, 1, NULL) < 0)
		return;
	if (!row->percent_max || g.percent < row->percent_min)
		row->percent_min = g.percent;
	if (g.percent > row->percent_max)
		row->percent_max = g.percent;
	row->latency = row->latency || g.priority == 0;
}

static bool is_time_sliced_under_mps(const struct resource *r, const struct offer_device *d)
{
	const struct offer_share *s = resource_share(r, d);

	return r->strategy == SHARING_MPS && s && s->strategy == SHARING_TIME_SLICING;
}

static struct offer_row get_resource_row(const struct offer_facts *o, const struct resource *r)
{
	const struct inventory *inv = o->inv;
	struct offer_row row = { .min = UINT32_MAX, .memory_min = SLICE_NO_LIMIT };

	for (uint32_t g = 0; g < inv->n; g++) {
		uint32_t n = 0;

		for (uint32_t i = 0; i < r->n_devices; i++)
			n += r->devices[i].gpu == g;
		row.gpus += n > 0;
		if (n && n < row.min)
			row.min = n;
		if (n > row.max)
			row.max = n;
	}
	for (uint32_t i = 0; i < r->n_devices; i++) {
		struct slice_plan plan = plan_of(r, i, inv);
		uint64_t memory = plan.gpus[0].memory;

		add_time(&row, &plan);
		add_mps(&row, o, r, i, &memory);
		row.mixed = row.mixed || is_time_sliced_under_mps(r, &r->devices[i]);
		row.refused += r->devices[i].why != 0;
		if (memory < row.memory_min)
			row.memory_min = memory;
		if (memory > row.memory_max)
			row.memory_max = memory;
	}
	if (!row.gpus)
		row.min = 0;
	return row;
}

/* "25% of the SMs, latency" */
static void format_percent_limit(char *cell, size_t cap, const struct offer_row *row)
{
	char least[16] = "";

	if (row->percent_min != row->percent_max)
		(void)snprintf(least, sizeof(least), "%" PRIu32 "%% to ", row->percent_min);
	(void)snprintf(cell, cap, "%s%" PRIu32 "%% of the SMs%s", least, row->percent_max,
		row->latency ? ", latency" : "");
}

/* "weight 4, at most 25.0%, latency" */
static void format_compute_share(char *cell, size_t cap, const struct offer_row *row)
{
	char most[64] = "", mps[64] = "";

	if (row->percent_max)
		format_percent_limit(mps, sizeof(mps), row);
	if (!row->compute) {
		(void)snprintf(cell, cap, "%s", *mps ? mps : "-");
		return;
	}
	if (row->cap_max && row->cap_min != row->cap_max)
		(void)snprintf(most, sizeof(most), ", at most %.1f%% to %.1f%%",
			row->cap_min / 1e4, row->cap_max / 1e4);
	else if (row->cap_max)
		(void)snprintf(most, sizeof(most), ", at most %.1f%%", row->cap_max / 1e4);
	(void)snprintf(cell, cap, "%s%sweight %" PRIu32 "%s%s", mps, *mps ? "; " : "",
		row->weight, most, row->class_ == SLICE_CLASS_LATENCY ? ", latency" : "");
}

/* Whether some resource divides the GPU's time; else the table has no column of it. */
static bool has_time_limits(const struct offer_facts *o)
{
	for (uint32_t i = 0; i < o->offer->n; i++) {
		struct offer_row row = get_resource_row(o, &o->offer->resources[i]);

		if (row.compute || row.percent_max)
			return true;
	}
	return false;
}

static void add_resource_row(struct table *t, const struct resource *r,
	const struct offer_row *row, bool time)
{
	char refused[48] = "", memory[64], most[32], share[192] = "";

	if (row->refused)
		(void)snprintf(refused, sizeof(refused), ", %u of them unhealthy",
			row->refused);
	format_memory_limit(memory, sizeof(memory), row->memory_min);
	format_memory_limit(most, sizeof(most), row->memory_max);
	if (strcmp(memory, most) != 0)
		(void)snprintf(memory + strlen(memory), sizeof(memory) - strlen(memory),
			" to %s", most);
	table_addf(t, "  %s", r->name);
	table_addf(t, "%u", r->n_devices);
	table_addf(t, "%u", row->gpus);
	if (row->min == row->max)
		table_addf(t, "%u", row->max);
	else
		table_addf(t, "%u to %u", row->min, row->max);
	table_add(t, row->mixed ? "mps, time-slicing" : sharing_strategy_name(r->strategy));
	table_addf(t, "%s%s", memory, time ? "" : refused);
	if (time) {
		format_compute_share(share, sizeof(share), row);
		table_addf(t, "%s%s", share, refused);
	}
}

/* The table has minimum widths, so that the tables of several configs look alike. */
static void print_offer_table(const struct offer_facts *of)
{
	static const char *const heads[] = { "  RESOURCE", "DEVICES", "GPUS", "PER GPU",
		"SHARING", "MEMORY EACH", "TIME EACH" };
	static const struct table form = { .columns = ARRAY_LEN(heads),
		.widths = { 38, 7, 5, 8, 12, 22 },
		.gap = 2,
		.right = 1U << 1 | 1U << 2 | 1U << 3 };
	CLEANUP(buf_fini) struct buf b = BUF_INIT(OFFER_TEXT_MAX);
	CLEANUP(table_fini) struct table t = form;
	bool time = has_time_limits(of);

	t.columns -= !time;
	for (size_t i = 0; i < t.columns; i++)
		table_add(&t, heads[i]);
	for (uint32_t i = 0; i < of->offer->n; i++) {
		struct offer_row row = get_resource_row(of, &of->offer->resources[i]);

		add_resource_row(&t, &of->offer->resources[i], &row, time);
	}
	table_print(&t, &b);
	printf("%s", buf_ok(&b) ? buf_str(&b) : "  out of memory\n");
}

static void print_offer(const struct offer_facts *of)
{
	const struct offer *o = of->offer;

	if (o->n)
		print_offer_table(of);
	else
		printf("  nothing is offered\n");
	for (size_t i = 0; i < o->warnings.n; i++)
		printf("  warning: %s\n", o->warnings.v[i]);
	for (size_t i = 0; i < o->notes.n; i++)
		printf("  note: %s\n", o->notes.v[i]);
}

static json_t *texts_json(const struct strv *list)
{
	json_t *a = json_array();

	for (size_t i = 0; a && i < list->n; i++)
		(void)json_array_append_new(a, json_any_text(list->v[i]));
	return a;
}

static json_t *time_json(const struct offer_row *row)
{
	if (!row->compute)
		return json_null();
	return json_pack("{s:s, s:I, s:o, s:o, s:s}", "compute",
		row->cap_max ? "capped" : "fair", "weight", (json_int_t)row->weight,
		"capMinMillionths", row->cap_max ? json_integer(row->cap_min) : json_null(),
		"capMaxMillionths", row->cap_max ? json_integer(row->cap_max) : json_null(),
		"class", row->class_ == SLICE_CLASS_LATENCY ? "latency" : "batch");
}

static json_t *render_config_mps_json(const struct offer_row *row)
{
	if (!row->percent_max)
		return json_null();
	return json_pack("{s:I, s:I, s:b}", "percentMin", (json_int_t)row->percent_min,
		"percentMax", (json_int_t)row->percent_max, "latency", row->latency);
}

static json_t *offer_json(const struct offer_facts *o)
{
	json_t *list = json_array();

	for (uint32_t i = 0; list && i < o->offer->n; i++) {
		const struct resource *r = &o->offer->resources[i];
		struct offer_row row = get_resource_row(o, r);

		(void)json_array_append_new(list,
			json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:s, s:o, s:o, s:o, s:o}",
				"name", r->name, "devices", (json_int_t)r->n_devices, "refused",
				(json_int_t)row.refused, "gpus", (json_int_t)row.gpus,
				"perGpuMin", (json_int_t)row.min, "perGpuMax",
				(json_int_t)row.max, "sharing",
				sharing_strategy_name(r->strategy), "memoryMinBytes",
				memory_json(row.memory_min), "memoryMaxBytes",
				memory_json(row.memory_max), "time", time_json(&row), "mps",
				render_config_mps_json(&row)));
	}
	return list;
}

/* Prints @err, which gives the exit status, and the further mistakes. */
static void print_error(struct config_check *c, const struct error *err,
	const struct strv *more)
{
	c->n_bad++;
	if (!c->exit_code)
		c->exit_code = error_class(err->code)->exit_code;
	(void)fflush(stdout);
	(void)fprintf(stderr, "%s\n", err->msg);
	for (size_t i = 0; i < more->n; i++)
		(void)fprintf(stderr, "%s\n", more->v[i]);
	if (more->n + 1 >= CONFIG_MISTAKES_MAX)
		(void)fprintf(stderr, "These are the first %d mistakes; there may be more.\n",
			CONFIG_MISTAKES_MAX);
}

static void add_json(struct config_check *c, const char *name, const struct config *config,
	const struct offer_facts *o, const struct strv *warnings, const struct error *err,
	const struct strv *mistakes)
{
	json_t *j = json_pack("{s:o, s:b, s:o}", "name", json_any_text(name), "good",
		err == NULL, "warnings", texts_json(warnings));
	char *text = config ? config_to_json(config) : NULL;

	if (err)
		(void)json_object_set_new(j, "error",
			json_pack("{s:s, s:o, s:o}", "kind", error_class(err->code)->name,
				"text", json_any_text(err->msg), "more", texts_json(mistakes)));
	if (text)
		(void)json_object_set_new(j, "config", json_loads(text, 0, NULL));
	if (o) {
		json_t *more = texts_json(&o->offer->warnings);

		(void)json_object_set_new(j, "offers", offer_json(o));
		(void)json_array_extend(json_object_get(j, "warnings"), more);
		(void)json_object_set_new(j, "notes", texts_json(&o->offer->notes));
		json_decref(more);
	}
	free(text);
	(void)json_array_append_new(c->configs, j);
}

static void check_one(void *arg, const char *name, const char *text, struct config *config,
	const struct strv *warnings, const struct error *err, const struct strv *more)
{
	struct config_check *c = arg;
	CLEANUP(config_offer_fini) struct config_offer made = { .offer = NULL };
	const struct offer *o;
	struct offer_facts of = { .inv = c->node.inv };
	struct error why = ERROR_INIT;

	if (!text) { /* a manifest without a config */
		for (size_t i = 0; !c->configs && i < warnings->n; i++)
			printf("%s\n", warnings->v[i]);
		return;
	}
	c->n_warnings += (unsigned)warnings->n;
	if (config && c->node.inv &&
		config_offer_make(&made, name, config, c->node.inv, &why) < 0)
		err = &why;
	of.offer = o = made.offer;
	of.mps = made.mps;
	if (c->configs)
		add_json(c, name, err ? NULL : config, o ? &of : NULL, warnings, err, more);
	if (!err)
		c->n_good++;
	if (!c->configs && !err)
		printf("%s: good\n", name);
	if (!c->configs && o)
		print_offer(&of);
	c->n_warnings += o ? (unsigned)o->warnings.n : 0;
	for (size_t i = 0; !c->configs && i < warnings->n; i++)
		printf("  warning: %s\n", warnings->v[i]);
	if (err)
		print_error(c, err, more);
}

static const char *ignore_config_env(const char *name)
{
	(void)name;
	return NULL;
}

static const char *get_text_or_unknown(const char *text)
{
	return *text ? text : "unknown";
}

static void print_config_node(const struct config_check *c)
{
	uint32_t same = 0;

	if (!c->node.inv) {
		printf("Without GPUs: %s.\nThe configs are checked all the same.\n\n",
			c->node.nvml.msg);
		return;
	}
	printf("Node:");
	for (uint32_t i = 0; i < c->node.inv->n; i++) {
		same++;
		if (i + 1 < c->node.inv->n &&
			!strcmp(c->node.inv->gpus[i].name, c->node.inv->gpus[i + 1].name))
			continue;
		printf("%s %u x %s", i + 1 > same ? "," : "", same,
			get_text_or_unknown(c->node.inv->gpus[i].name));
		same = 0;
	}
	if (c->node.inv->n_mig)
		printf(", %u MIG devices", c->node.inv->n_mig);
	printf("%s, driver %s\n\n", c->node.inv->n ? "" : " no GPU",
		get_text_or_unknown(c->node.inv->driver_version));
}

static int print_config_json(struct config_check *c, struct error *err)
{
	json_t *top = json_pack("{s:b, s:o, s:O}", "good", c->n_bad == 0, "nvml",
		c->node.inv ? json_null() : json_any_text(c->node.nvml.msg), "configs",
		c->configs);
	char *text = top ? json_dumps(top, JSON_INDENT(2)) : NULL;
	bool done = text && printf("%s\n", text) > 0;

	json_decref(top);
	free(text);
	return done ? 0 : error_nomem(err);
}

static int run_check(struct config_check *c, const struct options *o, struct error *err)
{
	struct config_sources sources = { .env = ignore_config_env };

	if (o->args.n < 2)
		return error_set(err, ERR_INVALID,
			"check: expected at least one FILE, found none");
	if (node_probe(&c->node, o, NULL, NULL, err) < 0)
		return -1;
	if (option_bool(o, "json", false)) {
		c->configs = json_array();
		if (!c->configs)
			return error_nomem(err);
	} else {
		print_config_node(c);
	}
	for (size_t i = 1; i < o->args.n; i++) {
		struct error why = ERROR_INIT;
		struct strv none = STRV_INIT;

		if (config_each(o->args.v[i], &sources, check_one, c, &why) >= 0)
			continue;
		if (c->configs)
			add_json(c, o->args.v[i], NULL, NULL, &none, &why, &none);
		print_error(c, &why, &none);
	}
	if (c->configs)
		return print_config_json(c, err);
	(void)fflush(stderr);
	printf("\n%u good, %u bad, %u warning%s\n", c->n_good, c->n_bad, c->n_warnings,
		c->n_warnings == 1 ? "" : "s");
	return 0;
}

static int run_config_command(const struct cmd *cmd, const struct options *o, struct error *err)
{
	struct config_check c = { .configs = NULL };
	int r;

	(void)cmd;
	if (!o->args.n || strcmp(o->args.v[0], "check") != 0)
		return error_set(err, ERR_INVALID, "expected 'check FILE...', found '%s'",
			o->args.n ? o->args.v[0] : "");
	r = run_check(&c, o, err);
	json_decref(c.configs);
	(void)inventory_free(c.node.inv);
	return r < 0 ? r : c.exit_code;
}

const struct cmd cmd_config = {
	.name = "config",
	.usage = "check [--nvml PATH | --node MODEL] [--json] FILE...",
	.summary = "check configuration files and show what a node would offer",
	.description =
		"Each FILE is a sharing config (version: v1), a Kubernetes manifest with ConfigMaps or the\n"
		"values file of a Helm chart, of which every entry is checked; - is standard input.\n"
		"All files are checked; errors are printed as FILE:LINE:COLUMN on standard error, of each\n"
		"config up to 20, but for those that come of another one, and make the exit status\n"
		"non-zero.\n"
		"Flags and variables of an agent are not applied.\n"
		"\n"
		"  gpuslice config check time-slicing-config.yaml\n"
		"  gpuslice config check --node p3.8xlarge time-slicing-config.yaml\n",
	.options = check_options,
	.n_options = ARRAY_LEN(check_options),
	.run = run_config_command,
};
