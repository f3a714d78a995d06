/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/node/agent/mig/mig-cluster.h"

#define OK "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"

enum { NODE, MAP };

/* --- objects --- */

static void merge_patch(json_t *to, const json_t *patch)
{
	const char *key;
	json_t *v;

	json_object_foreach((json_t *)(uintptr_t)patch, key, v)
	{
		if (json_is_null(v)) {
			(void)json_object_del(to, key);
		} else if (json_is_object(v)) {
			if (!json_object_get(to, key))
				(void)json_object_set_new(to, key, json_object());
			merge_patch(json_object_get(to, key), v);
		} else {
			(void)json_object_set(to, key, v);
		}
	}
}

static json_t *get_metadata(const struct mig_cluster *c, const char *key)
{
	return json_object_get(json_object_get(c->node, "metadata"), key);
}

static const char *text_or_empty(const json_t *v)
{
	const char *s = json_string_value(v);

	return s ? s : "";
}

const char *mig_cluster_get(const struct mig_cluster *c, const char *key)
{
	return text_or_empty(json_object_get(get_metadata(c, "labels"), key));
}

const char *mig_cluster_note(const struct mig_cluster *c, const char *key)
{
	return text_or_empty(json_object_get(get_metadata(c, "annotations"), key));
}

/* --- the watches --- */

static void notify_mig_watch(struct mig_cluster *c, int which, const json_t *now)
{
	const char *type = !now ? "DELETED" : c->sent[which] ? "MODIFIED" : "ADDED";
	json_t *event =
		json_pack("{s:s, s:O?}", "type", type, "object", now ? now : c->sent[which]);
	char *line = json_dumps(event, JSON_COMPACT), *chunk = NULL;

	assert_non_null(line);
	assert_true(asprintf(&chunk, "%zx\r\n%s\n\r\n", strlen(line) + 1, line) > 0);
	stub_send_to(c->watch[which], chunk);
	free(chunk);
	free(line);
	json_decref(event);
	json_decref(c->sent[which]);
	c->sent[which] = json_deep_copy(now);
}

static void on_echo(uv_timer_t *t)
{
	struct mig_cluster *c = t->data;
	const json_t *const now[] = { c->node, c->map };

	for (int i = NODE; i <= MAP; i++) {
		if (c->watch[i] && !(i == NODE && c->quiet) &&
			!(now[i] == c->sent[i] ||
				(now[i] && c->sent[i] && json_equal(now[i], c->sent[i]))))
			notify_mig_watch(c, i, now[i]);
	}
}

static void raise_version(struct mig_cluster *c, json_t *object)
{
	char version[16];

	if (object) {
		(void)snprintf(version, sizeof(version), "%u", ++c->version);
		(void)json_object_set_new(json_object_get(object, "metadata"),
			"resourceVersion", json_string(version));
	}
	(void)uv_timer_start(&c->echo, on_echo, 1, 20); /* again, as nothing was reported */
}

static void add_pairs(json_t *o, const char *pairs)
{
	while (*pairs) {
		size_t key = strcspn(pairs, "="), len = strcspn(pairs, " ");

		(void)json_object_setn_new(o, pairs, key,
			json_stringn(pairs + key + 1, len - key - 1));
		pairs += len + (pairs[len] == ' ');
	}
}

void mig_cluster_node(struct mig_cluster *c, const char *labels, const char *annotations)
{
	json_t *l = json_object(), *a = json_object();

	add_pairs(l, labels);
	add_pairs(a, annotations);
	json_decref(c->node);
	c->node = json_pack("{s:{s:s, s:o, s:o}}", "metadata", "name", "n-1", "labels", l,
		"annotations", a);
	assert_non_null(c->node);
	raise_version(c, c->node);
}

void mig_cluster_delete_node(struct mig_cluster *c)
{
	json_decref(c->node);
	c->node = NULL;
	raise_version(c, NULL);
}

void mig_cluster_label(struct mig_cluster *c, const char *key, const char *value)
{
	if (value)
		(void)json_object_set_new(get_metadata(c, "labels"), key, json_string(value));
	else
		(void)json_object_del(get_metadata(c, "labels"), key);
	raise_version(c, c->node);
}

void mig_cluster_pods(struct mig_cluster *c, const char *items)
{
	json_decref(c->pods);
	c->pods = json_loads(items, 0, NULL);
	assert_true(json_is_array(c->pods));
}

void mig_cluster_map(struct mig_cluster *c, const char *entry, const char *text)
{
	json_decref(c->map);
	c->map = json_pack("{s:{s:s}, s:{s:s}}", "metadata", "name", "layouts", "data", entry,
		text);
	raise_version(c, c->map);
}

void mig_cluster_delete_map(struct mig_cluster *c)
{
	json_decref(c->map);
	c->map = NULL;
	raise_version(c, NULL);
}

/* --- the server --- */

static void answer_fails(struct mig_cluster *c, unsigned status)
{
	c->failures++;
	assert_true(asprintf(&c->answer,
			    "HTTP/1.1 %u No\r\nConnection: close\r\n\r\n"
			    "{\"kind\":\"Status\",\"message\":\"refused\"}",
			    status) > 0);
}

static void answer_list(struct mig_cluster *c, const json_t *items)
{
	char *text = json_dumps(items, JSON_COMPACT);

	assert_true(asprintf(&c->answer,
			    OK "{\"metadata\":{\"resourceVersion\":\"%u\"},\"items\":%s}",
			    c->version, text) > 0);
	free(text);
}

static void answer_object(struct mig_cluster *c, int which, const char *request)
{
	const json_t *now = which == NODE ? c->node : c->map;
	json_t *items;

	if (strstr(request, "watch=1")) {
		c->watch[which] = LIST_FIRST(&c->stub->conns);
		c->step.hang_up = false;
		c->answer = strdup("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
		return;
	}
	items = now ? json_pack("[O]", now) : json_array();
	answer_list(c, items);
	json_decref(items);
	json_decref(c->sent[which]);
	c->sent[which] = json_deep_copy(now);
}

static void apply_node_patch(struct mig_cluster *c, const char *request)
{
	json_t *body = json_loads(strstr(request, "\r\n\r\n") + 4, 0, NULL);
	const json_t *state = json_object_get(
		json_object_get(json_object_get(body, "metadata"), "labels"), MIG_STATE_LABEL);
	size_t len = strlen(c->states);

	assert_non_null(body);
	assert_non_null(strstr(request, API_MERGE_PATCH));
	if (c->patch_status || !c->node) {
		answer_fails(c, c->node ? c->patch_status : 404);
	} else {
		c->patches++;
		if (state &&
			strcmp(mig_cluster_get(c, MIG_STATE_LABEL), text_or_empty(state)) != 0)
			(void)snprintf(c->states + len, sizeof(c->states) - len, "%s ",
				json_is_null(state) ? "-" : text_or_empty(state));
		merge_patch(c->node, body);
		raise_version(c, c->node);
		c->answer = strdup(OK "{}");
	}
	json_decref(body);
}

static void delete_pod(struct mig_cluster *c, const char *request)
{
	const char *name = strstr(request, "/pods/") + 6;
	size_t len = strlen(c->deleted);

	if (c->on_delete)
		c->on_delete(c);
	if (c->delete_status) {
		answer_fails(c, c->delete_status);
		return;
	}
	(void)snprintf(c->deleted + len, sizeof(c->deleted) - len, "%.*s ",
		(int)strcspn(name, " "), name);
	c->answer = strdup(OK "{}");
}

static bool begins_with(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

static void route(void *arg)
{
	struct mig_cluster *c = arg;
	char *request = strdup(c->stub->seen[0]);

	stub_script(c->stub, &c->step, 1); /* drops all received requests */
	free(c->answer);
	c->answer = NULL;
	c->step.hang_up = true;
	if (begins_with(request, "GET /api/v1/nodes?fieldSelector=metadata.name%3Dn-1"))
		answer_object(c, NODE, request);
	else if (begins_with(request, "GET /api/v1/namespaces/gpu/configmaps?"))
		answer_object(c, MAP, request);
	else if (begins_with(request, "PATCH /api/v1/nodes/n-1?fieldManager=gpusliced "))
		apply_node_patch(c, request);
	else if (begins_with(request, "DELETE /api/v1/namespaces/gpu-operator/pods/"))
		delete_pod(c, request);
	else if (c->pods_status && ++c->lists)
		answer_fails(c, c->pods_status);
	else if (begins_with(request, "GET /api/v1/pods?fieldSelector=spec.nodeName%3Dn-1 ") ||
		 begins_with(request, "GET /api/v1/namespaces/gpu-operator/pods?"))
		answer_list(c, (c->lists++, c->pods));
	else
		fail_msg("unexpected request: %s", request);
	c->step.answer = c->answer;
	free(request);
}

/* --- life --- */

int mig_cluster_setup(void **state)
{
	struct mig_cluster *c = calloc(1, sizeof(*c));
	void *stub = NULL;

	assert_non_null(c);
	assert_int_equal(api_env_setup(&stub), 0);
	c->stub = stub;
	c->stub->arg = c;
	c->step = (struct step){ .before = route };
	stub_script(c->stub, &c->step, 1);
	api_open(c->stub, "secret", NULL);
	c->m = mig_env_new(&c->stub->loop, &c->stub->patience);
	c->m->options.default_name = "";
	c->m->link.possible = true;
	(void)uv_timer_init(&c->stub->loop, &c->echo);
	c->echo.data = c;
	mig_cluster_pods(c, "[]");
	*state = c;
	return 0;
}

int mig_cluster_teardown(void **state)
{
	struct mig_cluster *c = *state;
	void *stub = c->stub;

	mig_env_stop(c->m);
	c->m->link.node = node_object_stop(c->m->link.node);
	uv_close((uv_handle_t *)&c->echo, NULL);
	(void)api_env_teardown(&stub);
	mig_env_free(c->m);
	for (int i = NODE; i <= MAP; i++)
		json_decref(c->sent[i]);
	json_decref(c->node);
	json_decref(c->map);
	json_decref(c->pods);
	free(c->answer);
	free(c);
	return 0;
}

struct mig_cluster *mig_cluster_another(void **state)
{
	(void)mig_cluster_teardown(state);
	(void)mig_cluster_setup(state);
	return *state;
}

static void on_node(void *arg)
{
	struct mig_cluster *c = arg;

	mig_sync(&c->m->mig);
}

static const struct node_object_ops node_ops = { on_node, on_node };

void mig_cluster_begin(struct mig_cluster *c)
{
	struct mig_env *m = c->m;
	struct error err = ERROR_INIT;

	mig_env_start(m);
	m->mig.node.task.backoff.min_ns = m->mig.validators.task.backoff.min_ns = NS_PER_MS;
	m->mig.node.task.backoff.max_ns = m->mig.validators.task.backoff.max_ns = 4 * NS_PER_MS;
	mig_env_probe(m);
	assert_ok(
		node_object_start(&m->link.node, c->stub->api, "n-1", NULL, &node_ops, c, &err),
		&err);
	m->link.api = c->stub->api;
	mig_with_api(&m->mig, m->link.api);
	mig_env_until(m, c->watch[NODE]);
}

void mig_cluster_wait(struct mig_cluster *c, const char *state)
{
	mig_env_until(c->m, strcmp(mig_cluster_get(c, MIG_STATE_LABEL), state) == 0);
}

void mig_cluster_run(struct mig_cluster *c)
{
	mig_cluster_begin(c);
	mig_env_until(c->m, mig_env_attempted(c->m) && c->m->mig.phase == MIG_REST);
	mig_env_until(c->m, mig_node_is_in_sync(&c->m->mig));
}
