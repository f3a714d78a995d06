/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/status-view.h"

#include "base/strv.h"

#include <assert.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define CELL_MAX      160
#define COLUMNS       8
#define ROWS_MAX      65536
#define EARLIER_NAMES 4 /* of pods in one line */
#define RED           "\033[31m"
#define YELLOW        "\033[33m"
#define GREEN         "\033[32m"
#define BOLD          "\033[1m"
#define PLAIN         "\033[0m"

/* --- reading a peer's JSON --- */

/* Text of a key, "" if absent or of another type. */
static const char *text_of(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : "";
}

static int64_t number_of(const json_t *o, const char *key)
{
	return json_integer_value(json_object_get(o, key));
}

/* Copies with every control character replaced, so that no name can drive the terminal. */
static void clean(char *to, size_t cap, const char *from)
{
	size_t n = 0;

	for (; *from && n + 1 < cap; from++)
		to[n++] = (unsigned char)*from < 0x20 || *from == 0x7f ? '?' : *from;
	to[n] = '\0';
}

/* --- a table whose columns are as wide as they must be --- */

struct table {
	const char *const *headers;
	size_t columns;
	size_t width[COLUMNS];
	struct buf *out;
};

struct row {
	char cells[COLUMNS][CELL_MAX];
	const char *colour; /* of the whole row; NULL: plain */
};

static void measure(struct table *t, const struct row *r)
{
	for (size_t i = 0; i < t->columns; i++) {
		size_t w = strlen(r->cells[i]);

		if (w > t->width[i])
			t->width[i] = w;
	}
}

static void put_row(struct table *t, const struct row *r, bool colour)
{
	if (colour && r->colour)
		buf_puts(t->out, r->colour);
	for (size_t i = 0; i < t->columns; i++) {
		if (i + 1 < t->columns)
			buf_printf(t->out, "%-*s  ", (int)t->width[i], r->cells[i]);
		else
			buf_puts(t->out, r->cells[i]);
	}
	if (colour && r->colour)
		buf_puts(t->out, PLAIN);
	buf_putc(t->out, '\n');
}

static void put_table(struct buf *b, const char *const *headers, size_t columns,
	const struct row *rows, size_t n, bool colour)
{
	struct table t = { .headers = headers, .columns = columns, .out = b };
	struct row head = { .colour = BOLD };

	for (size_t i = 0; i < columns; i++)
		clean(head.cells[i], CELL_MAX, headers[i]);
	measure(&t, &head);
	for (size_t i = 0; i < n; i++)
		measure(&t, &rows[i]);
	put_row(&t, &head, colour);
	for (size_t i = 0; i < n; i++)
		put_row(&t, &rows[i], colour);
}

static struct row *new_rows(const json_t *list, size_t *ret_n, struct error *err)
{
	size_t n = json_array_size(list);
	struct row *rows;

	if (n > ROWS_MAX) {
		(void)error_set(err, ERR_LIMIT, "the agent's status has more than %d rows",
			ROWS_MAX);
		return NULL;
	}
	rows = calloc(n ? n : 1, sizeof(*rows));
	if (!rows)
		(void)error_nomem(err);
	*ret_n = n;
	return rows;
}

/* --- the parts --- */

static void put_head(struct buf *b, const json_t *root)
{
	const json_t *config = json_object_get(root, "config");
	const json_t *nvml = json_object_get(root, "nvml");
	const json_t *last = json_object_get(config, "lastError");
	char line[5][CELL_MAX * 4];

	clean(line[0], sizeof(line[0]), text_of(nvml, "driverVersion"));
	clean(line[1], sizeof(line[1]), text_of(nvml, "cudaVersion"));
	clean(line[2], sizeof(line[2]), text_of(json_object_get(nvml, "error"), "message"));
	buf_printf(b, "Driver    %s", *line[0] ? line[0] : "unknown");
	if (*line[1])
		buf_printf(b, ", CUDA %s", line[1]);
	if (strcmp(text_of(nvml, "state"), "up") != 0)
		buf_printf(b, "  NOT USABLE: %s", *line[2] ? line[2] : "starting");
	clean(line[3], sizeof(line[3]), text_of(config, "file"));
	clean(line[4], sizeof(line[4]), text_of(config, "since"));
	clean(line[2], sizeof(line[2]), text_of(config, "sharing"));
	if (json_is_false(json_object_get(config, "decided"))) {
		clean(line[2], sizeof(line[2]), text_of(config, "waiting"));
		buf_printf(b, "\nConfig    none yet, nothing is offered%s%s\n",
			*line[2] ? ": " : "", line[2]);
	} else {
		buf_printf(b,
			"\nConfig    %s, in force since %s (generation %" PRId64
			", sharing %s)\n",
			*line[3] ? line[3] : "no file", line[4],
			number_of(config, "generation"), line[2]);
	}
	if (*text_of(config, "chosenBy")) {
		clean(line[3], sizeof(line[3]), text_of(config, "chosenBy"));
		buf_printf(b, "          chosen by the %s\n", line[3]);
	}
	if (*text_of(json_object_get(config, "sourceError"), "message")) {
		clean(line[0], sizeof(line[0]),
			text_of(json_object_get(config, "sourceError"), "message"));
		buf_printf(b, "          changes are not seen: %s\n", line[0]);
	}
	if (json_is_object(last)) {
		clean(line[0], sizeof(line[0]), text_of(last, "message"));
		clean(line[1], sizeof(line[1]), text_of(last, "at"));
		buf_printf(b, "REFUSED   at %s, what is above stays:\n          %s\n", line[1],
			line[0]);
	}
}

/* What is written through the API server; without one there is something to say. */
static bool wants_cluster(const json_t *cluster)
{
	const char *where = text_of(json_object_get(cluster, "labels"), "where");

	return !strcmp(where, "node") || !strcmp(where, "nfd");
}

/* One line about the API server, and one for each thing that does not go well there. */
static void put_cluster(struct buf *b, const json_t *cluster)
{
	static const char *const parts[] = { "labels", "startupTaint", "events" };
	char node[CELL_MAX], state[CELL_MAX], why[CELL_MAX * 4];

	clean(state, sizeof(state), text_of(cluster, "state"));
	if (!*state || (!strcmp(state, "off") && !wants_cluster(cluster)))
		return;
	clean(node, sizeof(node), text_of(cluster, "node"));
	clean(why, sizeof(why), text_of(json_object_get(cluster, "error"), "message"));
	buf_printf(b, "Cluster   node %s, API server %s%s%s\n", node, state, *why ? ": " : "",
		why);
	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		const json_t *part = json_object_get(cluster, parts[i]);

		clean(why, sizeof(why), text_of(json_object_get(part, "error"), "message"));
		if (*why)
			buf_printf(b, "          %s: %s\n", parts[i], why);
	}
}

/* The MIG manager, if it has anything to say. */
static void put_mig_manager(struct buf *b, const json_t *mig)
{
	char config[CELL_MAX], state[CELL_MAX], phase[CELL_MAX], text[CELL_MAX * 4];

	clean(config, sizeof(config), text_of(mig, "config"));
	clean(state, sizeof(state), text_of(mig, "state"));
	clean(phase, sizeof(phase), text_of(mig, "phase"));
	clean(text, sizeof(text), text_of(mig, "waiting"));
	if (*text)
		buf_printf(b, "MIG       waiting: %s\n", text);
	if (!*config)
		return;
	buf_printf(b, "MIG       %s, %s", config, *state ? state : "not tried yet");
	if (*phase && strcmp(phase, "rest") != 0)
		buf_printf(b, ": %s", phase);
	clean(text, sizeof(text), text_of(mig, "step"));
	if (*text)
		buf_printf(b, ", %s", text);
	clean(text, sizeof(text), text_of(mig, "reason"));
	buf_printf(b, "%s%s\n", !strcmp(state, "failed") ? "\n          " : "",
		!strcmp(state, "failed") ? text : "");
}

/* Health as the kubelet sees it: one that cannot be had for another reason is not healthy. */
static void put_health(struct row *r, const json_t *o, size_t health, size_t reason)
{
	const char *refused = text_of(o, "refused");
	bool ok = !strcmp(text_of(o, "health"), "healthy");

	clean(r->cells[health], CELL_MAX, ok && *refused ? "unhealthy" : text_of(o, "health"));
	clean(r->cells[reason], CELL_MAX, ok ? refused : text_of(o, "reason"));
	r->colour = ok && !*refused ? NULL : RED;
}

static int put_gpus(struct buf *b, const json_t *list, bool colour, struct error *err)
{
	static const char *const headers[] = { "GPU", "NAME", "MEMORY", "NUMA", "HEALTH",
		"XIDS", "UUID", "REASON" };
	size_t n = 0;
	CLEANUP(freep) struct row *rows = new_rows(list, &n, err);

	if (!rows)
		return -1;
	for (size_t i = 0; i < n; i++) {
		const json_t *g = json_array_get(list, i),
			     *numa = json_object_get(g, "numaNode");
		struct row *r = &rows[i];
		const char *mig = json_is_true(json_object_get(g, "migPending"))
					  ? " (MIG mode changes with a reset)"
				  : !strcmp(text_of(g, "mig"), "on") ? " (MIG)"
								     : "";
		char name[CELL_MAX - 40];

		(void)snprintf(r->cells[0], CELL_MAX, "%" PRId64, number_of(g, "index"));
		clean(name, sizeof(name), text_of(g, "name"));
		(void)snprintf(r->cells[1], CELL_MAX, "%s%s", name, mig);
		(void)snprintf(r->cells[2], CELL_MAX, "%" PRId64 " MiB",
			number_of(g, "memoryTotalBytes") >> 20);
		if (json_is_integer(numa))
			(void)snprintf(r->cells[3], CELL_MAX, "%" PRId64,
				(int64_t)json_integer_value(numa));
		else
			r->cells[3][0] = '-';
		(void)snprintf(r->cells[5], CELL_MAX, "%" PRId64, number_of(g, "xids"));
		clean(r->cells[6], CELL_MAX, text_of(g, "uuid"));
		put_health(r, g, 4, 7);
	}
	buf_putc(b, '\n');
	if (n == 0)
		buf_puts(b, "No GPUs.\n");
	else
		put_table(b, headers, COLUMNS, rows, n, colour);
	return 0;
}

/* "team/pod (container)", and how many more: replicas have several. */
static void put_holders(char *cell, const json_t *holders)
{
	const json_t *h = json_array_get(holders, 0);
	char ns[CELL_MAX / 4], pod[CELL_MAX / 3], container[CELL_MAX / 5], more[32] = "";
	size_t n = json_array_size(holders);

	if (n == 0) {
		(void)snprintf(cell, CELL_MAX, json_is_array(holders) ? "-" : "?");
		return;
	}
	clean(ns, sizeof(ns), text_of(h, "namespace"));
	clean(pod, sizeof(pod), text_of(h, "pod"));
	clean(container, sizeof(container), text_of(h, "container"));
	if (n > 1)
		(void)snprintf(more, sizeof(more), " and %zu more", n - 1);
	(void)snprintf(cell, CELL_MAX, "%s/%s (%s)%s", ns, pod, container, more);
}

/* The MIG devices of all GPUs, if there are any. */
static int put_migs(struct buf *b, const json_t *gpus, bool colour, struct error *err)
{
	static const char *const headers[] = { "MIG", "PROFILE", "MEMORY", "HEALTH", "XIDS",
		"UUID", "HELD BY", "REASON" };
	CLEANUP(freep) struct row *rows = NULL;
	size_t n = 0, room;
	json_t *all = json_array();

	for (size_t i = 0; i < json_array_size(gpus); i++)
		(void)json_array_extend(all,
			json_object_get(json_array_get(gpus, i), "migDevices"));
	rows = new_rows(all, &room, err);
	for (; rows && n < room; n++) {
		const json_t *m = json_array_get(all, n);
		struct row *r = &rows[n];

		clean(r->cells[0], CELL_MAX, text_of(m, "index"));
		clean(r->cells[1], CELL_MAX, text_of(m, "profile"));
		(void)snprintf(r->cells[2], CELL_MAX, "%" PRId64 " MiB",
			number_of(m, "memoryBytes") >> 20);
		(void)snprintf(r->cells[4], CELL_MAX, "%" PRId64, number_of(m, "xids"));
		clean(r->cells[5], CELL_MAX, text_of(m, "uuid"));
		put_holders(r->cells[6], json_object_get(m, "holders"));
		put_health(r, m, 3, 7);
	}
	json_decref(all);
	if (!rows)
		return -1;
	if (n > 0) {
		buf_putc(b, '\n');
		put_table(b, headers, COLUMNS, rows, n, colour);
	}
	return 0;
}

static int put_resources(struct buf *b, const json_t *list, bool colour, struct error *err)
{
	static const char *const headers[] = { "RESOURCE", "SHARING", "REPLICAS", "SLICES",
		"HEALTHY", "USED", "KUBELET", "REASON" };
	size_t n = 0;
	CLEANUP(freep) struct row *rows = new_rows(list, &n, err);

	if (!rows)
		return -1;
	for (size_t i = 0; i < n; i++) {
		const json_t *o = json_array_get(list, i), *used = json_object_get(o, "used");
		struct row *r = &rows[i];

		clean(r->cells[0], CELL_MAX, text_of(o, "name"));
		clean(r->cells[1], CELL_MAX, text_of(o, "sharing"));
		(void)snprintf(r->cells[2], CELL_MAX, "%" PRId64, number_of(o, "replicas"));
		(void)snprintf(r->cells[3], CELL_MAX, "%" PRId64, number_of(o, "capacity"));
		(void)snprintf(r->cells[4], CELL_MAX, "%" PRId64, number_of(o, "allocatable"));
		if (json_is_integer(used))
			(void)snprintf(r->cells[5], CELL_MAX, "%" PRId64,
				(int64_t)json_integer_value(used));
		else
			r->cells[5][0] = '?';
		clean(r->cells[6], CELL_MAX, text_of(o, "state"));
		clean(r->cells[7], CELL_MAX, text_of(o, "reason"));
		r->colour = strcmp(text_of(o, "state"), "registered") != 0 ? YELLOW : NULL;
	}
	buf_putc(b, '\n');
	if (n == 0)
		buf_puts(b, "No resources are offered.\n");
	else
		put_table(b, headers, COLUMNS, rows, n, colour);
	return 0;
}

static const char *health_text(const json_t *slice)
{
	const json_t *healthy = json_object_get(slice, "healthy");

	return !healthy                ? "not offered" /* one of an earlier config */
	       : json_is_true(healthy) ? "healthy"
				       : "unhealthy";
}

static void slice_row(struct row *r, const char *resource, const json_t *slice)
{
	const json_t *h = json_object_get(slice, "holder");
	char ns[CELL_MAX / 4], pod[CELL_MAX / 3], container[CELL_MAX / 4];

	clean(r->cells[0], CELL_MAX, resource);
	if (*text_of(slice, "mig"))
		clean(r->cells[1], CELL_MAX, text_of(slice, "mig"));
	else if (json_is_integer(json_object_get(slice, "gpu")))
		(void)snprintf(r->cells[1], CELL_MAX, "%" PRId64, number_of(slice, "gpu"));
	else /* a MIG device that is not there any more */
		r->cells[1][0] = '-';
	clean(r->cells[2], CELL_MAX, text_of(slice, "id"));
	(void)snprintf(r->cells[3], CELL_MAX, "%s", health_text(slice));
	if (!json_is_object(h)) {
		(void)snprintf(r->cells[4], CELL_MAX, "free");
		r->colour = GREEN;
		return;
	}
	clean(ns, sizeof(ns), text_of(h, "namespace"));
	clean(pod, sizeof(pod), text_of(h, "pod"));
	clean(container, sizeof(container), text_of(h, "container"));
	(void)snprintf(r->cells[4], CELL_MAX, "%s/%s (%s)", ns, pod, container);
}

/* @resource: of all of the list; NULL: each says its own. */
static int put_slices(struct buf *b, const char *resource, const json_t *list, bool colour,
	struct error *err)
{
	static const char *const headers[] = { "RESOURCE", "GPU", "SLICE", "HEALTH",
		"HELD BY" };
	size_t n = 0;
	CLEANUP(freep) struct row *rows = new_rows(list, &n, err);

	if (!rows)
		return -1;
	for (size_t i = 0; i < n; i++) {
		const json_t *slice = json_array_get(list, i);

		slice_row(&rows[i], resource ? resource : text_of(slice, "resource"), slice);
	}
	buf_putc(b, '\n');
	put_table(b, headers, ARRAY_LEN(headers), rows, n, colour);
	return 0;
}

/* The pods that hold what is in @list: sorted, and each once. */
static int holders_of(struct strv *ret, const json_t *list, struct error *err)
{
	CLEANUP(strv_fini) struct strv all = STRV_INIT;

	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *h = json_object_get(json_array_get(list, i), "holder");
		char ns[CELL_MAX], pod[CELL_MAX * 2], name[CELL_MAX * 3 + 1];

		clean(ns, sizeof(ns), text_of(h, "namespace"));
		clean(pod, sizeof(pod), text_of(h, "pod"));
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

/* Who holds what is not offered any more, by name as far as one line goes. */
static int put_earlier(struct buf *b, const json_t *list, struct error *err)
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

static void put_list(struct buf *b, const char *title, const json_t *list);

/* --- slices with a memory limit --- */

static void put_mib(char *cell, const json_t *bytes, const char *none)
{
	if (json_is_integer(bytes))
		(void)snprintf(cell, CELL_MAX, "%" PRId64 " MiB",
			(int64_t)(json_integer_value(bytes) >> 20));
	else
		(void)snprintf(cell, CELL_MAX, "%s", none);
}

static void put_index(char *cell, const json_t *o)
{
	const json_t *index = json_object_get(o, "index");

	if (json_is_string(index))
		clean(cell, CELL_MAX, json_string_value(index));
	else if (json_is_integer(index))
		(void)snprintf(cell, CELL_MAX, "%" PRId64, (int64_t)json_integer_value(index));
	else
		(void)snprintf(cell, CELL_MAX, "-");
}

static void put_pod(char *cell, const json_t *h)
{
	char ns[CELL_MAX / 3], pod[CELL_MAX / 3], container[CELL_MAX / 3 - 8];

	clean(ns, sizeof(ns), text_of(h, "namespace"));
	clean(pod, sizeof(pod), text_of(h, "pod"));
	clean(container, sizeof(container), text_of(h, "container"));
	(void)snprintf(cell, CELL_MAX, "%s/%s (%s)", ns, pod, container);
}

static void put_holder(char *cell, const json_t *slice)
{
	const json_t *h = json_object_get(slice, "holder");

	if (json_is_object(h))
		put_pod(cell, h);
	else
		(void)snprintf(cell, CELL_MAX, "-");
}

/* What is wrong with a slice, in a word. */
static const char *slice_note(const json_t *slice, const json_t *gpu)
{
	if (json_is_true(json_object_get(gpu, "over")))
		return "OVER ITS LIMIT";
	if (*text_of(slice, "error"))
		return text_of(slice, "error");
	if (json_array_size(json_object_get(slice, "unhookedProcesses")) > 0)
		return "has processes past the libraries";
	return "";
}

enum {
	WALL_SLICE,
	WALL_GPU,
	WALL_LIMIT,
	WALL_USED,
	WALL_PEAK,
	WALL_WHO,
	WALL_NOTE,
	WALL_COLUMNS
};

static void wall_row(struct row *r, const json_t *slice, const json_t *gpu)
{
	char id[CELL_MAX];

	clean(id, sizeof(id), text_of(slice, "id"));
	(void)snprintf(r->cells[WALL_SLICE], CELL_MAX, "%.8s", id);
	put_index(r->cells[WALL_GPU], gpu);
	put_mib(r->cells[WALL_LIMIT], json_object_get(gpu, "limitBytes"), "none");
	put_mib(r->cells[WALL_USED], json_object_get(gpu, "usedBytes"), "?");
	put_mib(r->cells[WALL_PEAK], json_object_get(gpu, "peakBytes"), "?");
	put_holder(r->cells[WALL_WHO], slice);
	clean(r->cells[WALL_NOTE], CELL_MAX, slice_note(slice, gpu));
	if (!r->cells[WALL_NOTE][0] && number_of(slice, "stopped") > 0)
		(void)snprintf(r->cells[WALL_NOTE], CELL_MAX,
			"%" PRId64 " past the libraries stopped", number_of(slice, "stopped"));
	r->colour = json_is_true(json_object_get(gpu, "over")) ? RED
		    : r->cells[WALL_NOTE][0]                   ? YELLOW
							       : NULL;
}

static void process_row(struct row *r, const json_t *process, const json_t *gpu, bool unhooked)
{
	char name[CELL_MAX / 2];

	clean(name, sizeof(name), text_of(process, "name"));
	put_index(r->cells[WALL_GPU], gpu);
	put_mib(r->cells[WALL_USED], json_object_get(gpu, "usedBytes"), "?");
	put_mib(r->cells[WALL_PEAK], json_object_get(gpu, "peakBytes"), unhooked ? "-" : "?");
	(void)snprintf(r->cells[WALL_WHO], CELL_MAX, "  %s (pid %" PRId64 ")", name,
		number_of(process, "pid"));
	if (unhooked)
		(void)snprintf(r->cells[WALL_NOTE], CELL_MAX, "past the libraries");
	else if (json_is_true(json_object_get(process, "ended")))
		(void)snprintf(r->cells[WALL_NOTE], CELL_MAX,
			"has ended, a child keeps its memory");
	r->colour = r->cells[WALL_NOTE][0] ? YELLOW : NULL;
}

static size_t count_rows(const json_t *slice)
{
	static const char *const lists[] = { "processes", "unhookedProcesses" };
	size_t n = json_array_size(json_object_get(slice, "gpus"));

	for (size_t k = 0; k < ARRAY_LEN(lists); k++) {
		const json_t *list = json_object_get(slice, lists[k]);

		for (size_t i = 0; i < json_array_size(list); i++)
			n += json_array_size(json_object_get(json_array_get(list, i), "gpus"));
	}
	return n;
}

static void put_processes(struct row *rows, size_t *n, const json_t *list, bool unhooked)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *p = json_array_get(list, i), *gpus = json_object_get(p, "gpus");

		for (size_t k = 0; k < json_array_size(gpus); k++)
			process_row(&rows[(*n)++], p, json_array_get(gpus, k), unhooked);
	}
}

static int put_wall_table(struct buf *b, const json_t *list, bool colour, struct error *err)
{
	static const char *const headers[] = { "SLICE", "GPU", "LIMIT", "USED", "PEAK",
		"HELD BY, PROCESSES", "NOTE" };
	size_t room = 0, n = 0;
	struct row *rows;

	static_assert(ARRAY_LEN(headers) == WALL_COLUMNS, "a header for each column");
	for (size_t i = 0; i < json_array_size(list); i++)
		room += count_rows(json_array_get(list, i));
	if (room == 0)
		return 0;
	if (room > ROWS_MAX)
		return error_set(err, ERR_LIMIT, "the agent's status has more than %d rows",
			ROWS_MAX);
	rows = calloc(room, sizeof(*rows));
	if (!rows)
		return error_nomem(err);
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *s = json_array_get(list, i), *gpus = json_object_get(s, "gpus");

		for (size_t k = 0; k < json_array_size(gpus); k++)
			wall_row(&rows[n++], s, json_array_get(gpus, k));
		put_processes(rows, &n, json_object_get(s, "processes"), false);
		put_processes(rows, &n, json_object_get(s, "unhookedProcesses"), true);
	}
	buf_putc(b, '\n');
	put_table(b, headers, WALL_COLUMNS, rows, n, colour);
	free(rows);
	return 0;
}

static void put_unlimited(struct buf *b, const json_t *list)
{
	char holder[CELL_MAX], resource[CELL_MAX];

	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *o = json_array_get(list, i);

		put_pod(holder, o);
		clean(resource, sizeof(resource), text_of(o, "resource"));
		buf_printf(b,
			"%s%-9s %s, %s: started before it isolated memory; create it anew\n",
			i ? "" : "\n", i ? "" : "No limit", holder, resource);
	}
}

/* Nothing at all where memory is not isolated. */
static int put_walls(struct buf *b, const json_t *slices, bool colour, struct error *err)
{
	const json_t *arbiter = json_object_get(slices, "arbiter");
	const json_t *broken = json_object_get(slices, "broken");
	char line[CELL_MAX * 4];

	clean(line, sizeof(line), text_of(json_object_get(slices, "error"), "message"));
	if (*line)
		buf_printf(b, "\nSlices    cannot be given: %s\n", line);
	clean(line, sizeof(line), text_of(arbiter, "reason"));
	if (!strcmp(text_of(arbiter, "state"), "away") ||
		(!strcmp(text_of(arbiter, "state"), "up") && *line))
		buf_printf(b, "\nArbiter   away, slices keep what they have: %s\n", line);
	put_list(b, "Broken", broken);
	put_unlimited(b, json_object_get(slices, "unlimited"));
	return put_wall_table(b, json_object_get(slices, "list"), colour, err);
}

static void put_list(struct buf *b, const char *title, const json_t *list)
{
	char line[CELL_MAX * 4];

	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *s = json_string_value(json_array_get(list, i));

		clean(line, sizeof(line), s ? s : "");
		buf_printf(b, "%s%-9s %s\n", i ? "" : "\n", i ? "" : title, line);
	}
}

static int put_all(struct buf *b, const json_t *root, const struct status_view_options *options,
	struct error *err)
{
	const json_t *resources = json_object_get(root, "resources");
	const json_t *holders = json_object_get(root, "holders");
	const json_t *earlier = json_object_get(root, "earlier");
	const json_t *gpus = json_object_get(root, "gpus");
	char line[CELL_MAX * 4];

	put_head(b, root);
	put_cluster(b, json_object_get(root, "cluster"));
	put_mig_manager(b, json_object_get(root, "mig"));
	if (put_gpus(b, gpus, options->colour, err) < 0 ||
		put_migs(b, gpus, options->colour, err) < 0 ||
		put_resources(b, resources, options->colour, err) < 0)
		return -1;
	for (size_t i = 0; options->slices && i < json_array_size(resources); i++) {
		const json_t *r = json_array_get(resources, i);

		if (put_slices(b, text_of(r, "name"), json_object_get(r, "slices"),
			    options->colour, err) < 0)
			return -1;
	}
	if (options->slices && json_array_size(earlier) > 0 &&
		put_slices(b, NULL, earlier, options->colour, err) < 0)
		return -1;
	if (put_walls(b, json_object_get(root, "slices"), options->colour, err) < 0)
		return -1;
	if (put_earlier(b, earlier, err) < 0)
		return -1;
	if (!json_is_true(json_object_get(holders, "known"))) {
		clean(line, sizeof(line),
			text_of(json_object_get(holders, "error"), "message"));
		buf_printf(b, "\nHolders   unknown: %s\n", line);
	}
	put_list(b, "Note", json_object_get(root, "notes"));
	put_list(b, "Warning", json_object_get(json_object_get(root, "config"), "warnings"));
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
		r = put_all(b, root, options, err);
	json_decref(root);
	return r;
}
