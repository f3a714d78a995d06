/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/status/view.h"

#include "lib/base/strv.h"
#include "tools/cli/status/internal.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define EARLIER_NAMES 4 /* pod names in one line */

/* --- the sections --- */

static void render_status_head(struct buf *b, const json_t *root)
{
	const json_t *config = json_object_get(root, "config");
	const json_t *nvml = json_object_get(root, "nvml");
	const json_t *last = json_object_get(config, "lastError");
	char line[5][STATUS_CELL_MAX * 4];

	status_clean(line[0], sizeof(line[0]), status_get_text(nvml, "driverVersion"));
	status_clean(line[1], sizeof(line[1]), status_get_text(nvml, "cudaVersion"));
	status_clean(line[2], sizeof(line[2]),
		status_get_text(json_object_get(nvml, "error"), "message"));
	buf_printf(b, "Driver    %s", *line[0] ? line[0] : "unknown");
	if (*line[1])
		buf_printf(b, ", CUDA %s", line[1]);
	if (strcmp(status_get_text(nvml, "state"), "up") != 0)
		buf_printf(b, "  NOT USABLE: %s", *line[2] ? line[2] : "starting");
	status_clean(line[3], sizeof(line[3]), status_get_text(config, "file"));
	status_clean(line[4], sizeof(line[4]), status_get_text(config, "since"));
	status_clean(line[2], sizeof(line[2]), status_get_text(config, "sharing"));
	if (json_is_false(json_object_get(config, "decided"))) {
		status_clean(line[2], sizeof(line[2]), status_get_text(config, "waiting"));
		buf_printf(b, "\nConfig    none yet, nothing is offered%s%s\n",
			*line[2] ? ": " : "", line[2]);
	} else {
		buf_printf(b,
			"\nConfig    %s, in force since %s (generation %" PRId64
			", sharing %s)\n",
			*line[3] ? line[3] : "no file", line[4],
			status_number(config, "generation"), line[2]);
	}
	if (*status_get_text(config, "chosenBy")) {
		status_clean(line[3], sizeof(line[3]), status_get_text(config, "chosenBy"));
		buf_printf(b, "          chosen by the %s\n", line[3]);
	}
	if (*status_get_text(json_object_get(config, "sourceError"), "message")) {
		status_clean(line[0], sizeof(line[0]),
			status_get_text(json_object_get(config, "sourceError"), "message"));
		buf_printf(b, "          changes are not seen: %s\n", line[0]);
	}
	if (json_is_object(last)) {
		status_clean(line[0], sizeof(line[0]), status_get_text(last, "message"));
		status_clean(line[1], sizeof(line[1]), status_get_text(last, "at"));
		buf_printf(b, "REFUSED   at %s, what is above stays:\n          %s\n", line[1],
			line[0]);
	}
}

/* Whether the labels go through the API server. If so, a missing API server is reported. */
static bool wants_cluster(const json_t *cluster)
{
	const char *where = status_get_text(json_object_get(cluster, "labels"), "where");

	return !strcmp(where, "node") || !strcmp(where, "nfd");
}

/* One line about the API server, and one line for each failing part. */
static void render_cluster_lines(struct buf *b, const json_t *cluster)
{
	static const char *const parts[] = { "labels", "startupTaint", "events" };
	char node[STATUS_CELL_MAX], state[STATUS_CELL_MAX], why[STATUS_CELL_MAX * 4];

	status_clean(state, sizeof(state), status_get_text(cluster, "state"));
	if (!*state || (!strcmp(state, "off") && !wants_cluster(cluster)))
		return;
	status_clean(node, sizeof(node), status_get_text(cluster, "node"));
	status_clean(why, sizeof(why),
		status_get_text(json_object_get(cluster, "error"), "message"));
	buf_printf(b, "Cluster   node %s, API server %s%s%s\n", node, state, *why ? ": " : "",
		why);
	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		const json_t *part = json_object_get(cluster, parts[i]);

		status_clean(why, sizeof(why),
			status_get_text(json_object_get(part, "error"), "message"));
		if (*why)
			buf_printf(b, "          %s: %s\n", parts[i], why);
	}
}

/* The state of the MIG manager; nothing if it has no config and does not wait. */
static void render_mig_manager_line(struct buf *b, const json_t *mig)
{
	char config[STATUS_CELL_MAX], state[STATUS_CELL_MAX], phase[STATUS_CELL_MAX],
		text[STATUS_CELL_MAX * 4];

	status_clean(config, sizeof(config), status_get_text(mig, "config"));
	status_clean(state, sizeof(state), status_get_text(mig, "state"));
	status_clean(phase, sizeof(phase), status_get_text(mig, "phase"));
	status_clean(text, sizeof(text), status_get_text(mig, "waiting"));
	if (*text)
		buf_printf(b, "MIG       waiting: %s\n", text);
	if (!*config)
		return;
	buf_printf(b, "MIG       %s, %s", config, *state ? state : "not tried yet");
	if (*phase && strcmp(phase, "rest") != 0)
		buf_printf(b, ": %s", phase);
	status_clean(text, sizeof(text), status_get_text(mig, "step"));
	if (*text)
		buf_printf(b, ", %s", text);
	status_clean(text, sizeof(text), status_get_text(mig, "reason"));
	buf_printf(b, "%s%s\n", !strcmp(state, "failed") ? "\n          " : "",
		!strcmp(state, "failed") ? text : "");
}

static void render_component_lines(struct buf *b, const json_t *list)
{
	char name[STATUS_CELL_MAX], reason[STATUS_CELL_MAX * 4];

	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *o = json_array_get(list, i);

		if (!json_is_true(json_object_get(o, "degraded")))
			continue;
		status_clean(name, sizeof(name), status_get_text(o, "name"));
		status_clean(reason, sizeof(reason), status_get_text(o, "reason"));
		buf_printf(b, "DEGRADED  %s: %s\n", name, reason);
	}
}

/* Health as the kubelet sees it: a device that is refused for another reason is not healthy. */
static void fill_health_cells(struct status_row *r, const json_t *o, size_t health,
	size_t reason)
{
	const char *refused = status_get_text(o, "refused"),
		   *state = status_get_text(o, "health");
	const char *warning = status_get_text(o, "warning");
	bool ok = !strcmp(state, "healthy");

	status_clean(r->cells[health], STATUS_CELL_MAX,
		ok && *refused ? "unhealthy"
		: *state       ? state
			       : "unknown");
	status_clean(r->cells[reason], STATUS_CELL_MAX,
		ok ? refused : status_get_text(o, "reason"));
	r->colour = ok && !*refused ? NULL : RED;
	/* A device with a warning stays allocatable, so its health does not change. Other problems
	 * take precedence. */
	if (ok && !*refused && *warning) {
		char text[STATUS_CELL_MAX - 16];

		status_clean(text, sizeof(text), warning);
		(void)snprintf(r->cells[reason], STATUS_CELL_MAX, "warning: %s", text);
		r->colour = YELLOW;
	}
}

static const char *text_or_dash(const json_t *o, const char *key)
{
	const char *text = status_get_text(o, key);

	return *text ? text : "-";
}

static int print_gpu_table(struct buf *b, const json_t *list, bool nvml_up, bool colour,
	struct error *err)
{
	static const char *const headers[] = { "GPU", "NAME", "MEMORY", "NUMA", "HEALTH",
		"XIDS", "UUID", "REASON" };
	size_t n = json_array_size(list);
	CLEANUP(freep) struct status_row *rows = status_new_rows(n, err);

	if (!rows)
		return -1;
	for (size_t i = 0; i < n; i++) {
		const json_t *g = json_array_get(list, i);
		struct status_row *r = &rows[i];
		const char *mig = json_is_true(json_object_get(g, "migPending"))
					  ? " (MIG mode changes with a reset)"
				  : !strcmp(status_get_text(g, "mig"), "on") ? " (MIG)"
									     : "";
		char name[STATUS_CELL_MAX - 40];

		/* A GPU that is gone has no index: another GPU may have it now. */
		status_format_number(r->cells[0], json_object_get(g, "index"), "-");
		status_clean(name, sizeof(name), text_or_dash(g, "name"));
		(void)snprintf(r->cells[1], STATUS_CELL_MAX, "%s%s", name, mig);
		status_format_mib(r->cells[2], json_object_get(g, "memoryTotalBytes"), "-");
		status_format_number(r->cells[3], json_object_get(g, "numaNode"), "-");
		status_format_number(r->cells[5], json_object_get(g, "xids"), "-");
		status_clean(r->cells[6], STATUS_CELL_MAX, text_or_dash(g, "uuid"));
		fill_health_cells(r, g, 4, 7);
	}
	buf_putc(b, '\n');
	if (n == 0)
		buf_puts(b,
			nvml_up ? "No GPUs.\n" : "GPUs      unknown: NVML has not answered\n");
	else
		status_render_table(b, headers, ARRAY_LEN(headers), rows, n, colour);
	return 0;
}

/* "team/pod (container)", and the number of further holders: a device with replicas can have
 * several. */
static void format_mig_holders(char *cell, const json_t *holders)
{
	size_t n = json_array_size(holders), len;

	if (n == 0) {
		(void)snprintf(cell, STATUS_CELL_MAX, json_is_array(holders) ? "-" : "?");
		return;
	}
	status_format_pod(cell, json_array_get(holders, 0));
	len = strlen(cell);
	if (n > 1)
		(void)snprintf(cell + len, STATUS_CELL_MAX - len, " and %zu more", n - 1);
}

/* The MIG devices of all GPUs; nothing if there are none. */
static int print_mig_table(struct buf *b, const json_t *gpus, bool colour, struct error *err)
{
	static const char *const headers[] = { "MIG", "PROFILE", "MEMORY", "HEALTH", "XIDS",
		"UUID", "HELD BY", "REASON" };
	CLEANUP(freep) struct status_row *rows = NULL;
	size_t n;
	json_t *all = json_array();

	for (size_t i = 0; i < json_array_size(gpus); i++)
		(void)json_array_extend(all,
			json_object_get(json_array_get(gpus, i), "migDevices"));
	n = json_array_size(all);
	rows = status_new_rows(n, err);
	for (size_t i = 0; rows && i < n; i++) {
		const json_t *m = json_array_get(all, i);
		struct status_row *r = &rows[i];

		status_clean(r->cells[0], STATUS_CELL_MAX, text_or_dash(m, "index"));
		status_clean(r->cells[1], STATUS_CELL_MAX, text_or_dash(m, "profile"));
		status_format_mib(r->cells[2], json_object_get(m, "memoryBytes"), "-");
		status_format_number(r->cells[4], json_object_get(m, "xids"), "-");
		status_clean(r->cells[5], STATUS_CELL_MAX, text_or_dash(m, "uuid"));
		format_mig_holders(r->cells[6], json_object_get(m, "holders"));
		fill_health_cells(r, m, 3, 7);
	}
	json_decref(all);
	if (!rows)
		return -1;
	if (n > 0) {
		buf_putc(b, '\n');
		status_render_table(b, headers, ARRAY_LEN(headers), rows, n, colour);
	}
	return 0;
}

static int print_resource_table(struct buf *b, const json_t *list, bool colour,
	struct error *err)
{
	static const char *const headers[] = { "RESOURCE", "SHARING", "PER DEVICE", "REPLICAS",
		"HEALTHY", "USED", "KUBELET", "REASON" };
	size_t n = json_array_size(list);
	CLEANUP(freep) struct status_row *rows = status_new_rows(n, err);

	if (!rows)
		return -1;
	for (size_t i = 0; i < n; i++) {
		const json_t *o = json_array_get(list, i);
		struct status_row *r = &rows[i];

		status_clean(r->cells[0], STATUS_CELL_MAX, status_get_text(o, "name"));
		status_clean(r->cells[1], STATUS_CELL_MAX, status_get_text(o, "sharing"));
		(void)snprintf(r->cells[2], STATUS_CELL_MAX, "%" PRId64,
			status_number(o, "replicas"));
		(void)snprintf(r->cells[3], STATUS_CELL_MAX, "%" PRId64,
			status_number(o, "capacity"));
		(void)snprintf(r->cells[4], STATUS_CELL_MAX, "%" PRId64,
			status_number(o, "allocatable"));
		status_format_number(r->cells[5], json_object_get(o, "used"), "?");
		status_clean(r->cells[6], STATUS_CELL_MAX, status_get_text(o, "state"));
		status_clean(r->cells[7], STATUS_CELL_MAX, status_get_text(o, "reason"));
		r->colour =
			strcmp(status_get_text(o, "state"), "registered") != 0 ? YELLOW : NULL;
	}
	buf_putc(b, '\n');
	if (n == 0)
		buf_puts(b, "No resources are offered.\n");
	else
		status_render_table(b, headers, ARRAY_LEN(headers), rows, n, colour);
	return 0;
}

static const char *health_text(const json_t *slice)
{
	const json_t *healthy = json_object_get(slice, "healthy");

	return !healthy                ? "not offered" /* of an earlier config */
	       : json_is_true(healthy) ? "healthy"
				       : "unhealthy";
}

static void fill_replica_row(struct status_row *r, const char *resource, const json_t *slice,
	bool holders_known)
{
	const json_t *h = json_object_get(slice, "holder");

	status_clean(r->cells[0], STATUS_CELL_MAX, resource);
	if (*status_get_text(slice, "mig"))
		status_clean(r->cells[1], STATUS_CELL_MAX, status_get_text(slice, "mig"));
	else if (json_is_integer(json_object_get(slice, "gpu")))
		(void)snprintf(r->cells[1], STATUS_CELL_MAX, "%" PRId64,
			status_number(slice, "gpu"));
	else /* a MIG device that no longer exists */
		r->cells[1][0] = '-';
	status_clean(r->cells[2], STATUS_CELL_MAX, status_get_text(slice, "id"));
	(void)snprintf(r->cells[3], STATUS_CELL_MAX, "%s", health_text(slice));
	if (!json_is_object(h) && !holders_known) {
		r->cells[4][0] = '?';
		return;
	}
	if (!json_is_object(h)) {
		(void)snprintf(r->cells[4], STATUS_CELL_MAX, "free");
		r->colour = GREEN;
		return;
	}
	status_format_pod(r->cells[4], h);
}

/* @resource: of all rows; NULL: each row has its own. */
static int render_replica_table(struct buf *b, const char *resource, const json_t *list,
	bool holders_known, bool colour, struct error *err)
{
	static const char *const headers[] = { "RESOURCE", "GPU", "SLICE", "HEALTH",
		"HELD BY" };
	size_t n = json_array_size(list);
	CLEANUP(freep) struct status_row *rows = status_new_rows(n, err);

	if (!rows)
		return -1;
	for (size_t i = 0; i < n; i++) {
		const json_t *slice = json_array_get(list, i);

		fill_replica_row(&rows[i],
			resource ? resource : status_get_text(slice, "resource"), slice,
			holders_known);
	}
	buf_putc(b, '\n');
	status_render_table(b, headers, ARRAY_LEN(headers), rows, n, colour);
	return 0;
}

/* The pods that hold devices of @list, sorted, each once. */
static int holders_of(struct strv *ret, const json_t *list, struct error *err)
{
	CLEANUP(strv_fini) struct strv all = STRV_INIT;

	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *h = json_object_get(json_array_get(list, i), "holder");
		char ns[STATUS_CELL_MAX], pod[STATUS_CELL_MAX * 2],
			name[STATUS_CELL_MAX * 3 + 1];

		status_clean(ns, sizeof(ns), status_get_text(h, "namespace"));
		status_clean(pod, sizeof(pod), status_get_text(h, "pod"));
		(void)snprintf(name, sizeof(name), "%s/%s", ns, pod);
		if (strv_add(&all, name, err) < 0)
			return -1;
	}
	strv_sort(&all);
	for (size_t i = 0; i < all.n; i++)
		if ((i == 0 || strcmp(all.v[i - 1], all.v[i]) != 0) &&
			strv_add(ret, all.v[i], err) < 0)
			return -1;
	return 0;
}

/* The pods that hold devices that are no longer advertised, with as many names as EARLIER_NAMES. */
static int render_unadvertised_pods(struct buf *b, const json_t *list, struct error *err)
{
	CLEANUP(strv_fini) struct strv pods = STRV_INIT;
	size_t n = json_array_size(list);

	if (n == 0)
		return 0;
	if (holders_of(&pods, list, err) < 0)
		return -1;
	buf_printf(b, "\nEarlier   %zu %s of an earlier config %s still held: ", n,
		n == 1 ? "device" : "devices", n == 1 ? "is" : "are");
	for (size_t i = 0; i < pods.n && i < EARLIER_NAMES; i++)
		buf_printf(b, "%s%s", i ? ", " : "", pods.v[i]);
	if (pods.n > EARLIER_NAMES)
		buf_printf(b, " and %zu more", pods.n - EARLIER_NAMES);
	buf_putc(b, '\n');
	return 0;
}

static int render_status(struct buf *b, const json_t *root,
	const struct status_view_options *options, struct error *err)
{
	const json_t *resources = json_object_get(root, "resources");
	const json_t *holders = json_object_get(root, "holders");
	const json_t *earlier = json_object_get(root, "earlier");
	const json_t *gpus = json_object_get(root, "gpus");
	const char *nvml = status_get_text(json_object_get(root, "nvml"), "state");
	bool holders_known = json_is_true(json_object_get(holders, "known"));
	char line[STATUS_CELL_MAX * 4];

	render_status_head(b, root);
	render_cluster_lines(b, json_object_get(root, "cluster"));
	render_mig_manager_line(b, json_object_get(root, "mig"));
	render_component_lines(b, json_object_get(root, "components"));
	/* Before the tables, because the tables lack what the warnings are about. */
	status_render_list(b, "WARNING", json_object_get(root, "warnings"));
	if (print_gpu_table(b, gpus, !strcmp(nvml, "up"), options->colour, err) < 0 ||
		print_mig_table(b, gpus, options->colour, err) < 0 ||
		print_resource_table(b, resources, options->colour, err) < 0 ||
		status_render_profiles(b, gpus, options->colour, err) < 0 ||
		status_render_mps(b, json_object_get(root, "mps"), gpus, options->colour, err) <
			0)
		return -1;
	for (size_t i = 0; options->slices && i < json_array_size(resources); i++) {
		const json_t *r = json_array_get(resources, i);

		if (render_replica_table(b, status_get_text(r, "name"),
			    json_object_get(r, "slices"), holders_known, options->colour,
			    err) < 0)
			return -1;
	}
	if (options->slices && json_array_size(earlier) > 0 &&
		render_replica_table(b, NULL, earlier, holders_known, options->colour, err) < 0)
		return -1;
	if (status_render_limits(b, json_object_get(root, "slices"), options->colour, err) < 0)
		return -1;
	if (options->slices && status_render_quanta(b, json_object_get(root, "slices"),
				       options->colour, err) < 0)
		return -1;
	if (render_unadvertised_pods(b, earlier, err) < 0)
		return -1;
	if (!holders_known) {
		status_clean(line, sizeof(line),
			status_get_text(json_object_get(holders, "error"), "message"));
		buf_printf(b, "\nHolders   unknown: %s\n", line);
	}
	status_render_list(b, "Note", json_object_get(root, "notes"));
	status_render_list(b, "Warning",
		json_object_get(json_object_get(root, "config"), "warnings"));
	return buf_ok(b) ? 0 : error_nomem(err);
}

int status_view(struct buf *b, const char *json, size_t len,
	const struct status_view_options *options, struct error *err)
{
	json_error_t where;
	json_t *root = json_loadb(json, len, 0, &where);
	int r;

	if (!root)
		return error_set(err, ERR_INVALID, "the agent's status is no JSON: %s",
			where.text);
	if (!json_is_object(root) || !json_is_array(json_object_get(root, "gpus")))
		r = error_set(err, ERR_INVALID, "the answer is not a gpusliced status");
	else
		r = render_status(b, root, options, err);
	json_decref(root);
	return r;
}
