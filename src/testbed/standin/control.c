/* SPDX-License-Identifier: Apache-2.0 */
#include "testbed/standin/control.h"

#include "lib/base/time.h"
#include "lib/http/server/server.h"
#include "testbed/standin/view.h"

#include <stdlib.h>
#include <string.h>

struct standin_control {
	struct standin *s;
	struct http_server *http;
};

int control_address(char *ret, size_t cap, const char *kubelet_dir, struct error *err)
{
	int len = snprintf(ret, cap, "unix:%s/" STANDIN_SOCKET, kubelet_dir);

	if (len < 0 || (size_t)len >= cap)
		return error_set(err, ERR_LIMIT, "'%s' is too long for a socket path",
			kubelet_dir);
	return 0;
}

static void reply_owned_json(struct http_exchange *x, json_t *o)
{
	CLEANUP(freep) char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
	struct error err = ERROR_INIT;

	json_decref(o);
	if (text) {
		http_reply(x, 200, "application/json", text, strlen(text));
		return;
	}
	(void)error_nomem(&err);
	http_reply_error(x, &err);
}

/* --- bodies of POST --- */

static const char *get_body_text(const json_t *body, const char *key, const char *def)
{
	const char *text = json_string_value(json_object_get(body, key));

	return text ? text : def;
}

static int require_body_text(const char *text, const char *key, struct error *err)
{
	return text ? 0 : error_set(err, ERR_INVALID, "%s: expected a string, found none", key);
}

static int read_manifest(const json_t *body, struct manifest **ret, struct error *err)
{
	json_t *text = json_object_get(body, "manifest");

	if (!json_is_string(text))
		return error_set(err, ERR_INVALID, "manifest: expected a string, found none");
	return manifest_parse(ret, get_body_text(body, "name", "manifest"),
		json_string_value(text), json_string_length(text), err);
}

static json_t *lines_json(const struct strv *lines)
{
	json_t *list = json_array();

	for (size_t i = 0; i < lines->n; i++)
		(void)json_array_append_new(list, json_string(lines->v[i]));
	return json_pack("{s:o}", "lines", list);
}

static int post_apply(struct standin *s, const json_t *body, json_t **ret, struct error *err)
{
	CLEANUP(manifest_freep) struct manifest *m = NULL;
	CLEANUP(strv_fini) struct strv lines = STRV_INIT;

	if (read_manifest(body, &m, err) < 0 || standin_apply(s, m, &lines, err) < 0)
		return -1;
	*ret = lines_json(&lines);
	return 0;
}

static int post_delete(struct standin *s, const json_t *body, json_t **ret, struct error *err)
{
	CLEANUP(manifest_freep) struct manifest *m = NULL;
	CLEANUP(strv_fini) struct strv lines = STRV_INIT;
	const char *kind = get_body_text(body, "kind", NULL),
		   *name = get_body_text(body, "name", NULL);
	enum object_kind k;

	if (!kind) {
		if (read_manifest(body, &m, err) < 0 ||
			standin_delete_all(s, m, &lines, err) < 0)
			return -1;
		*ret = lines_json(&lines);
		return 0;
	}
	if (!object_kind_parse(kind, &k))
		return error_set(err, ERR_INVALID,
			"the server doesn't have a resource type \"%.60s\"", kind);
	if (require_body_text(name, "name", err) < 0 ||
		standin_delete(s, k, get_body_text(body, "namespace", NULL), name, err) < 0)
		return -1;
	*ret = json_pack("{s:[o]}", "lines",
		json_sprintf("%s \"%s\" deleted", object_kind_arg(k), name));
	return 0;
}

static int post_scale(struct standin *s, const json_t *body, json_t **ret, struct error *err)
{
	const char *name = get_body_text(body, "name", NULL);
	json_t *n = json_object_get(body, "replicas");

	if (require_body_text(name, "name", err) < 0)
		return -1;
	if (!json_is_integer(n) || json_integer_value(n) < 0 ||
		json_integer_value(n) > MANIFEST_REPLICAS_MAX)
		return error_set(err, ERR_INVALID, "replicas: expected 0 to %d",
			MANIFEST_REPLICAS_MAX);
	if (standin_scale(s, get_body_text(body, "namespace", NULL), name,
		    (uint32_t)json_integer_value(n), err) < 0)
		return -1;
	*ret = json_pack("{s:[o]}", "lines", json_sprintf("deployment.apps/%s scaled", name));
	return 0;
}

static int post_label(struct standin *s, const json_t *body, json_t **ret, struct error *err)
{
	const char *key = get_body_text(body, "key", NULL);

	if (require_body_text(key, "key", err) < 0 ||
		standin_label(s, key, get_body_text(body, "value", NULL), err) < 0)
		return -1;
	*ret = json_pack("{s:[o]}", "lines",
		json_sprintf("node/%s labeled", standin_node(s)->name));
	return 0;
}

static int post_restart(struct standin *s, const json_t *body, json_t **ret, struct error *err)
{
	json_int_t ms = json_integer_value(json_object_get(body, "downMs"));

	if (ms < 0 || ms > 3600 * 1000)
		return error_set(err, ERR_INVALID, "downMs: expected 0 to 3600000");
	if (standin_restart(s, (uint64_t)ms * NS_PER_MS,
		    json_is_true(json_object_get(body, "killed")), err) < 0)
		return -1;
	*ret = json_pack("{s:[s]}", "lines",
		ms ? "kubelet stopped, it comes back" : "kubelet restarted");
	return 0;
}

static int post_fault(struct standin *s, const json_t *body, json_t **ret, struct error *err)
{
	CLEANUP(buf_fini) struct buf lines = BUF_INIT(4096);
	const char *args[4] = { NULL }, *name = get_body_text(body, "name", NULL);
	json_t *list = json_object_get(body, "args");
	size_t n = json_array_size(list);

	if (require_body_text(name, "name", err) < 0)
		return -1;
	for (size_t i = 0; i < n && i < ARRAY_LEN(args); i++) {
		args[i] = json_string_value(json_array_get(list, i));
		if (require_body_text(args[i], "args", err) < 0)
			return -1;
	}
	if (n > ARRAY_LEN(args))
		return error_set(err, ERR_INVALID, "args: more than %zu", ARRAY_LEN(args));
	if (standin_fault(s, name, args, n, &lines, err) < 0)
		return -1;
	*ret = json_pack("{s:[s]}", "lines", buf_str(&lines));
	return 0;
}

static const struct {
	const char *path;
	int (*post)(struct standin *s, const json_t *body, json_t **ret, struct error *err);
} actions[] = {
	{ "/v1/apply", post_apply },
	{ "/v1/delete", post_delete },
	{ "/v1/fault", post_fault },
	{ "/v1/label", post_label },
	{ "/v1/restart", post_restart },
	{ "/v1/scale", post_scale },
};

static const struct {
	const char *path;
	json_t *(*get)(struct standin *s, const char *namespace_, const char *name);
} views[] = {
	{ "/v1/configmaps", view_config_maps },
	{ "/v1/deployments", view_deployments },
	{ "/v1/pods", view_pods },
};

static int do_post(struct standin_control *c, const struct http_request *req, json_t **ret,
	struct error *err)
{
	json_error_t where;
	json_t *body;
	int rc;

	for (size_t i = 0; i < ARRAY_LEN(actions); i++) {
		if (strcmp(actions[i].path, req->path) != 0)
			continue;
		body = json_loadb(req->body, req->body_len, JSON_REJECT_DUPLICATES, &where);
		if (!body)
			return error_set(err, ERR_INVALID, "request:%d:%d: %s", where.line,
				where.column, where.text);
		rc = actions[i].post(c->s, body, ret, err);
		json_decref(body);
		return rc;
	}
	return error_set(err, ERR_NOT_FOUND, "no %s %.100s here", req->method, req->path);
}

static int handle_control_get(struct standin_control *c, struct http_exchange *x,
	const struct http_request *req, json_t **ret, struct error *err)
{
	for (size_t i = 0; i < ARRAY_LEN(views); i++) {
		if (strcmp(views[i].path, req->path) == 0) {
			*ret = views[i].get(c->s, http_query(x, "namespace"),
				http_query(x, "name"));
			return 0;
		}
	}
	if (strcmp(req->path, "/v1/nodes") == 0)
		*ret = view_nodes(c->s);
	else if (strcmp(req->path, "/v1/resources") == 0)
		*ret = view_resources(c->s);
	else
		return error_set(err, ERR_NOT_FOUND, "no %s %.100s here", req->method,
			req->path);
	return 0;
}

static void on_control_request(void *arg, struct http_exchange *x,
	const struct http_request *req)
{
	struct standin_control *c = arg;
	struct error err = ERROR_INIT;
	json_t *answer = NULL;
	int rc;

	if (strcmp(req->method, "GET") == 0)
		rc = handle_control_get(c, x, req, &answer, &err);
	else if (strcmp(req->method, "POST") == 0)
		rc = do_post(c, req, &answer, &err);
	else
		rc = error_set(&err, ERR_INVALID, "method %.20s: expected GET or POST",
			req->method);
	if (rc < 0)
		http_reply_error(x, &err);
	else
		reply_owned_json(x, answer);
}

int standin_control_start(struct standin_control **ret, uv_loop_t *loop, struct standin *s,
	struct error *err)
{
	struct standin_control *c = calloc(1, sizeof(*c));
	char address[160];

	if (!c)
		return error_nomem(err);
	c->s = s;
	if (control_address(address, sizeof(address), kubelet_dir(standin_kubelet(s)), err) <
			0 ||
		http_server_start(&c->http, loop, address, 0600, on_control_request, c, err) <
			0) {
		free(c);
		return -1;
	}
	*ret = c;
	return 0;
}

struct standin_control *standin_control_stop(struct standin_control *c)
{
	if (!c)
		return NULL;
	c->http = http_server_stop(c->http);
	free(c);
	return NULL;
}
