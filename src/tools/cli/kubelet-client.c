/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/kubelet-client.h"
#include "tools/cli/kubelet-item.h"

#include "lib/base/paths.h"
#include "lib/base/fd.h"
#include "lib/base/parse.h"
#include "lib/base/time.h"
#include "lib/report/table.h"
#include "tools/cli/output.h"
#include "lib/http/client/client.h"
#include "testbed/standin/control.h"

#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TIMEOUT_NS (30 * NS_PER_SEC)

struct kubelet_client {
	const struct options *o;
	char address[160];
};

/* --- transport --- */

static int call_standin_kubelet(const struct kubelet_client *c, const char *method,
	const char *path, const char *body, json_t **ret, struct error *err)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(HTTP_REPLY_MAX);
	json_error_t where;

	if (http_call_json(c->address, method, path, body, TIMEOUT_NS, &b, err) < 0) {
		if (err->code == ERR_UNAVAILABLE)
			return error_prefix(err,
				"no stand-in kubelet answers; start one with "
				"'gpuslice kubelet run' or give its --kubelet-dir");
		return -1;
	}
	*ret = json_loadb(buf_str(&b), b.len, 0, &where);
	return *ret ? 0 : error_set(err, ERR_INTERNAL, "answer: %s", where.text);
}

/* Posts @body_take, which it takes over, and prints the lines of the answer. */
static int post_owned_body(const struct kubelet_client *c, const char *path, json_t *body_take,
	struct error *err)
{
	json_auto_t *body = body_take;
	json_auto_t *answer = NULL;
	CLEANUP(freep) char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
	json_t *lines;

	if (!text)
		return error_set(err, ERR_INVALID, "an argument is not valid UTF-8");
	if (call_standin_kubelet(c, "POST", path, text, &answer, err) < 0)
		return -1;
	lines = json_object_get(answer, "lines");
	for (size_t i = 0; i < json_array_size(lines); i++)
		(void)printf("%s\n", json_string_value(json_array_get(lines, i)));
	return 0;
}

static void escape_query_text(struct buf *b, const char *text)
{
	for (; *text; text++) {
		if (isalnum((unsigned char)*text) || strchr("-._~", *text))
			buf_putc(b, *text);
		else
			buf_printf(b, "%%%02X", (unsigned char)*text);
	}
}

/* @name NULL: all items. */
static int get_kubelet_list(const struct kubelet_client *c, const char *kind, const char *name,
	json_t **ret, struct error *err)
{
	CLEANUP(buf_fini) struct buf path = BUF_INIT(4096);
	const char *namespace_ = option_str(c->o, "namespace", NULL);

	buf_printf(&path, "/v1/%s?", kind);
	if (namespace_) {
		buf_puts(&path, "namespace=");
		escape_query_text(&path, namespace_);
		buf_putc(&path, '&');
	}
	if (name) {
		buf_puts(&path, "name=");
		escape_query_text(&path, name);
	}
	if (!buf_ok(&path))
		return error_set(err, ERR_LIMIT, "name is too long");
	return call_standin_kubelet(c, "GET", buf_str(&path), NULL, ret, err);
}

/* --- get --- */

static void device_list(json_t *pod, struct buf *b)
{
	json_t *grants = json_object_get(json_object_get(pod, "gpuslice"), "grants"), *g, *id;
	size_t i, k = 0;

	json_array_foreach(grants, i, g)
	{
		json_array_foreach(json_object_get(g, "ids"), k, id)
			buf_printf(b, "%s%s", b->len ? "," : "", json_string_value(id));
	}
}

static void pods_table(const struct kubelet_client *c, json_t *items, struct buf *out)
{
	bool is_wide = strcmp(option_str(c->o, "output", ""), "wide") == 0;
	const char *const heads[] = { "NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE",
		is_wide ? "DEVICES" : NULL, NULL };
	CLEANUP(table_fini) struct table t = { .columns = 0 };
	char age[TIME_AGE_MAX];
	json_t *p;
	size_t i;

	table_init(&t, heads);
	json_array_foreach(items, i, p)
	{
		CLEANUP(buf_fini) struct buf devices = BUF_INIT(64 * 1024);
		size_t n = json_array_size(
			json_object_get(json_object_get(p, "spec"), "containers"));
		bool up = strcmp(kubelet_item_text(p, "status", "phase"), "Running") == 0;

		table_add(&t, kubelet_item_text(p, "metadata", "namespace"));
		table_add(&t, kubelet_item_text(p, "metadata", "name"));
		table_addf(&t, "%zu/%zu", up ? n : 0, n);
		table_add(&t, kubelet_item_text(p, "gpuslice", "status"));
		table_add(&t, "0");
		table_add(&t, kubelet_item_age(p, age));
		if (is_wide) {
			device_list(p, &devices);
			table_add(&t, devices.len ? buf_str(&devices) : "<none>");
		}
	}
	if (table_has_rows(&t))
		table_print(&t, out);
}

static void deployments_table(const struct kubelet_client *c, json_t *items, struct buf *out)
{
	static const char *const heads[] = { "NAMESPACE", "NAME", "READY", "UP-TO-DATE",
		"AVAILABLE", "AGE", NULL };
	CLEANUP(table_fini) struct table t = { .columns = 0 };
	char age[TIME_AGE_MAX];
	json_t *d;
	size_t i;

	(void)c;
	table_init(&t, heads);
	json_array_foreach(items, i, d)
	{
		table_add(&t, kubelet_item_text(d, "metadata", "namespace"));
		table_add(&t, kubelet_item_text(d, "metadata", "name"));
		table_addf(&t, "%lld/%lld", kubelet_item_number(d, "status", "readyReplicas"),
			kubelet_item_number(d, "spec", "replicas"));
		table_addf(&t, "%lld", kubelet_item_number(d, "status", "replicas"));
		table_addf(&t, "%lld", kubelet_item_number(d, "status", "availableReplicas"));
		table_add(&t, kubelet_item_age(d, age));
	}
	if (table_has_rows(&t))
		table_print(&t, out);
}

static void config_maps_table(const struct kubelet_client *c, json_t *items, struct buf *out)
{
	static const char *const heads[] = { "NAMESPACE", "NAME", "DATA", "AGE", NULL };
	CLEANUP(table_fini) struct table t = { .columns = 0 };
	char age[TIME_AGE_MAX];
	json_t *m;
	size_t i;

	(void)c;
	table_init(&t, heads);
	json_array_foreach(items, i, m)
	{
		table_add(&t, kubelet_item_text(m, "metadata", "namespace"));
		table_add(&t, kubelet_item_text(m, "metadata", "name"));
		table_addf(&t, "%zu", json_object_size(json_object_get(m, "data")));
		table_add(&t, kubelet_item_age(m, age));
	}
	if (table_has_rows(&t))
		table_print(&t, out);
}

static void nodes_table(const struct kubelet_client *c, json_t *items, struct buf *out)
{
	static const char *const heads[] = { "NAME", "STATUS", "ROLES", "VERSION",
		"ALLOCATABLE", NULL };
	CLEANUP(table_fini) struct table t = { .columns = 0 };
	json_t *n, *v;
	const char *key;
	size_t i;

	(void)c;
	table_init(&t, heads);
	json_array_foreach(items, i, n)
	{
		CLEANUP(buf_fini) struct buf what = BUF_INIT(64 * 1024);

		json_object_foreach(
			json_object_get(json_object_get(n, "status"), "allocatable"), key, v)
		{
			if (strchr(key, '/'))
				buf_printf(&what, "%s%s=%s", what.len ? "," : "", key,
					json_string_value(v));
		}
		table_add(&t, kubelet_item_text(n, "metadata", "name"));
		table_add(&t, kubelet_node_is_ready(n) ? "Ready" : "NotReady");
		table_add(&t, "<none>");
		table_add(&t, kubelet_item_text(json_object_get(n, "status"), "nodeInfo",
				      "kubeletVersion"));
		table_add(&t, what.len ? buf_str(&what) : "<none>");
	}
	table_print(&t, out);
}

static void resources_table(const struct kubelet_client *c, json_t *items, struct buf *out)
{
	static const char *const heads[] = { "RESOURCE", "CAPACITY", "ALLOCATABLE", "REQUESTED",
		"GRANTED", "PLUGIN", NULL };
	CLEANUP(table_fini) struct table t = { .columns = 0 };
	json_t *r;
	size_t i;

	(void)c;
	table_init(&t, heads);
	json_array_foreach(items, i, r)
	{
		bool up = json_is_true(json_object_get(r, "connected"));

		table_add(&t, kubelet_item_text(r, "name", NULL));
		table_addf(&t, "%lld", kubelet_item_number(r, "capacity", NULL));
		table_addf(&t, "%lld", kubelet_item_number(r, "allocatable", NULL));
		table_addf(&t, "%lld", kubelet_item_number(r, "requested", NULL));
		table_addf(&t, "%lld", kubelet_item_number(r, "granted", NULL));
		table_add(&t, up ? kubelet_item_text(r, "endpoint", NULL) : "<gone>");
	}
	if (table_has_rows(&t))
		table_print(&t, out);
}

static const struct {
	const char *path, *forms[4];
	void (*table)(const struct kubelet_client *c, json_t *items, struct buf *out);
} kinds[] = {
	{ "pods", { "pods", "pod", "po" }, pods_table },
	{ "nodes", { "nodes", "node", "no" }, nodes_table },
	{ "resources", { "resources", "resource" }, resources_table },
	{ "deployments", { "deployments", "deployment", "deploy" }, deployments_table },
	{ "configmaps", { "configmaps", "configmap", "cm" }, config_maps_table },
};

static int find_kind(const char *text, size_t *ret, struct error *err)
{
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		for (size_t k = 0; k < ARRAY_LEN(kinds[i].forms) && kinds[i].forms[k]; k++) {
			if (strcmp(kinds[i].forms[k], text) == 0) {
				*ret = i;
				return 0;
			}
		}
	}
	return error_set(err, ERR_INVALID,
		"the stand-in doesn't have a resource type \"%.60s\"; it has pods, nodes, resources, "
		"deployments, configmaps",
		text);
}

/* Parses "deployment/x", or "deployment" "x". *ret_name is NULL without a name. */
static int kind_and_name(const struct kubelet_client *c, size_t first, char *ret_kind,
	size_t cap, const char **ret_name, struct error *err)
{
	const struct strv *args = &c->o->args;
	const char *slash;
	size_t len;

	if (first >= args->n)
		return error_set(err, ERR_INVALID, "expected KIND or KIND/NAME");
	slash = strchr(args->v[first], '/');
	len = slash ? (size_t)(slash - args->v[first]) : strlen(args->v[first]);
	if (len >= cap)
		return error_set(err, ERR_INVALID, "'%.60s' is no kind", args->v[first]);
	memcpy(ret_kind, args->v[first], len);
	ret_kind[len] = '\0';
	*ret_name = slash ? slash + 1 : first + 1 < args->n ? args->v[first + 1] : NULL;
	if (args->n > first + (slash || !*ret_name ? 1 : 2))
		return error_set(err, ERR_INVALID, "unexpected argument '%s'",
			args->v[args->n - 1]);
	return 0;
}

static int write_client_output(const struct buf *b, struct error *err)
{
	if (!buf_ok(b))
		return error_nomem(err);
	return output_write(NULL, buf_str(b), b->len, err);
}

/* The stand-in returns all nodes and resources, whatever the name. */
static void filter_named_items(json_t *items, const char *name)
{
	for (size_t i = json_array_size(items); i-- > 0;) {
		json_t *o = json_array_get(items, i);

		if (strcmp(kubelet_item_text(o, "metadata", "name"), name) != 0 &&
			strcmp(kubelet_item_text(o, "name", NULL), name) != 0)
			(void)json_array_remove(items, i);
	}
}

static int run_kubelet_get(const struct kubelet_client *c, struct error *err)
{
	CLEANUP(buf_fini) struct buf out = BUF_INIT(HTTP_REPLY_MAX);
	json_auto_t *answer = NULL;
	CLEANUP(freep) char *text = NULL;
	const char *name, *form = option_str(c->o, "output", "");
	char kind[32];
	json_t *items;
	size_t k = 0;

	if (kind_and_name(c, 1, kind, sizeof(kind), &name, err) < 0 ||
		find_kind(kind, &k, err) < 0)
		return -1;
	if (*form && strcmp(form, "json") != 0 && strcmp(form, "wide") != 0)
		return error_set(err, ERR_INVALID, "-o: expected json or wide, found '%.40s'",
			form);
	if (get_kubelet_list(c, kinds[k].path, name, &answer, err) < 0)
		return -1;
	items = json_object_get(answer, "items");
	if (name)
		filter_named_items(items, name);
	if (name && json_array_size(items) == 0)
		return error_set(err, ERR_NOT_FOUND, "%s \"%.260s\" not found", kinds[k].path,
			name);
	if (strcmp(form, "json") == 0) {
		text = json_dumps(name ? json_array_get(items, 0) : answer, JSON_INDENT(4));
		if (!text)
			return error_nomem(err);
		buf_printf(&out, "%s\n", text);
		return write_client_output(&out, err);
	}
	kinds[k].table(c, items, &out);
	if (out.len == 0)
		(void)fprintf(stderr, "No resources found\n");
	return write_client_output(&out, err);
}

/* --- describe --- */

static int run_kubelet_describe(const struct kubelet_client *c, struct error *err)
{
	CLEANUP(buf_fini) struct buf out = BUF_INIT(HTTP_REPLY_MAX);
	json_auto_t *answer = NULL;
	const char *name;
	char kind[32];
	json_t *items, *o;
	size_t k = 0, i;

	if (kind_and_name(c, 1, kind, sizeof(kind), &name, err) < 0 ||
		find_kind(kind, &k, err) < 0)
		return -1;
	if (strcmp(kinds[k].path, "pods") != 0 && strcmp(kinds[k].path, "nodes") != 0)
		return error_set(err, ERR_INVALID, "describe knows pods and nodes, not %s",
			kinds[k].path);
	if (get_kubelet_list(c, kinds[k].path, name, &answer, err) < 0)
		return -1;
	items = json_object_get(answer, "items");
	if (json_array_size(items) == 0)
		return error_set(err, ERR_NOT_FOUND, "%s \"%.260s\" not found", kinds[k].path,
			name ? name : "");
	json_array_foreach(items, i, o)
	{
		if (i > 0)
			buf_puts(&out, "\n\n");
		if (strcmp(kinds[k].path, "pods") == 0)
			kubelet_describe_pod(o, &out);
		else
			kubelet_describe_node(o, &out);
	}
	return write_client_output(&out, err);
}

/* --- changes --- */

static int post_files(const struct kubelet_client *c, const char *path, struct error *err)
{
	const struct strv *files = &option_get(c->o, "filename")->list;

	for (size_t i = 0; i < files->n; i++) {
		CLEANUP(buf_fini) struct buf b = BUF_INIT(MANIFEST_FILE_MAX);
		CLEANUP(manifest_freep) struct manifest *m = NULL;
		const char *file = strcmp(files->v[i], "-") == 0 ? "/dev/stdin" : files->v[i];
		json_t *text;

		if (strcmp(files->v[i], "-") == 0) {
			char chunk[4096];
			size_t n;

			while ((n = fread(chunk, 1, sizeof(chunk), stdin)) > 0)
				buf_add(&b, chunk, n);
		} else if (file_read(file, &b, err) < 0) {
			return -1;
		}
		/* Parsed here first, so that an error names the file as the user wrote it. */
		if (manifest_parse(&m, files->v[i], buf_str(&b), b.len, err) < 0)
			return -1;
		text = json_stringn(buf_str(&b), b.len);
		if (!text)
			return error_set(err, ERR_INVALID, "%s: not valid UTF-8", files->v[i]);
		if (post_owned_body(c, path,
			    json_pack("{s:s, s:o}", "name", files->v[i], "manifest", text),
			    err) < 0)
			return -1;
	}
	return 0;
}

static int run_kubelet_apply(const struct kubelet_client *c, struct error *err)
{
	if (option_get(c->o, "filename")->list.n == 0 || c->o->args.n > 1)
		return error_set(err, ERR_INVALID, "must specify -f FILE");
	return post_files(c, "/v1/apply", err);
}

static json_t *render_option_or_null(const char *text)
{
	return text ? json_string(text) : json_null();
}

static int run_kubelet_delete(const struct kubelet_client *c, struct error *err)
{
	const char *name;
	char kind[32];

	if (option_get(c->o, "filename")->list.n > 0)
		return post_files(c, "/v1/delete", err);
	if (kind_and_name(c, 1, kind, sizeof(kind), &name, err) < 0)
		return -1;
	if (!name)
		return error_set(err, ERR_INVALID, "expected KIND/NAME or -f FILE");
	return post_owned_body(c, "/v1/delete",
		json_pack("{s:s, s:s, s:o}", "kind", kind, "name", name, "namespace",
			render_option_or_null(option_str(c->o, "namespace", NULL))),
		err);
}

static int run_kubelet_scale(const struct kubelet_client *c, struct error *err)
{
	const char *name;
	char kind[32];

	if (kind_and_name(c, 1, kind, sizeof(kind), &name, err) < 0)
		return -1;
	if (strncmp(kind, "deploy", strlen("deploy")) != 0 || !name)
		return error_set(err, ERR_INVALID, "expected deployment/NAME");
	if (option_get(c->o, "replicas")->source == OPTION_UNSET)
		return error_set(err, ERR_INVALID, "expected --replicas N");
	return post_owned_body(c, "/v1/scale",
		json_pack("{s:s, s:o, s:I}", "name", name, "namespace",
			render_option_or_null(option_str(c->o, "namespace", NULL)), "replicas",
			(json_int_t)option_uint(c->o, "replicas", 0)),
		err);
}

/* "KEY=VALUE" sets a label, "KEY-" removes it, as in kubectl label node. */
static int run_kubelet_label(const struct kubelet_client *c, struct error *err)
{
	if (c->o->args.n < 2)
		return error_set(err, ERR_INVALID, "expected KEY=VALUE or KEY-");
	for (size_t i = 1; i < c->o->args.n; i++) {
		CLEANUP(freep) char *key = strdup(c->o->args.v[i]);
		char *equals = key ? strchr(key, '=') : NULL;

		if (!key)
			return error_nomem(err);
		if (!equals && (!*key || key[strlen(key) - 1] != '-'))
			return error_set(err, ERR_INVALID,
				"'%.120s': expected KEY=VALUE or KEY-", key);
		if (equals)
			*equals = '\0';
		else
			key[strlen(key) - 1] = '\0';
		if (post_owned_body(c, "/v1/label",
			    json_pack("{s:s, s:o}", "key", key, "value",
				    render_option_or_null(equals ? equals + 1 : NULL)),
			    err) < 0)
			return -1;
	}
	return 0;
}

static int run_kubelet_restart(const struct kubelet_client *c, struct error *err)
{
	int64_t down_ns = option_get(c->o, "down")->source == OPTION_UNSET
				  ? 0
				  : option_get(c->o, "down")->ns;

	return post_owned_body(c, "/v1/restart",
		json_pack("{s:I, s:b}", "downMs", (json_int_t)(down_ns / (int64_t)NS_PER_MS),
			"killed", option_bool(c->o, "killed", false)),
		err);
}

static int run_kubelet_fault(const struct kubelet_client *c, struct error *err)
{
	json_t *args = json_array();

	if (c->o->args.n < 2) {
		json_decref(args);
		for (size_t i = 0; i < standin_n_faults; i++)
			(void)printf("%-18s%-14s%s\n", standin_faults[i].name,
				standin_faults[i].args, standin_faults[i].help);
		return 0;
	}
	for (size_t i = 2; i < c->o->args.n; i++)
		(void)json_array_append_new(args, json_string(c->o->args.v[i]));
	return post_owned_body(c, "/v1/fault",
		json_pack("{s:s, s:o}", "name", c->o->args.v[1], "args", args), err);
}

static const struct {
	const char *name;
	int (*run)(const struct kubelet_client *c, struct error *err);
} verbs[] = {
	{ "apply", run_kubelet_apply },
	{ "delete", run_kubelet_delete },
	{ "describe", run_kubelet_describe },
	{ "fault", run_kubelet_fault },
	{ "get", run_kubelet_get },
	{ "label", run_kubelet_label },
	{ "restart", run_kubelet_restart },
	{ "scale", run_kubelet_scale },
};

int kubelet_client_run(const struct options *o, struct error *err)
{
	struct kubelet_client c = { .o = o };

	if (control_address(c.address, sizeof(c.address),
		    option_str(o, "kubelet-dir", DEFAULT_KUBELET_DIR), err) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(verbs); i++) {
		if (strcmp(verbs[i].name, o->args.v[0]) == 0)
			return verbs[i].run(&c, err);
	}
	return error_set(err, ERR_INVALID,
		"'%.60s' is no subcommand; 'gpuslice kubelet --help' lists "
		"them",
		o->args.v[0]);
}
