/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/node/agent/api/node-env.h"

#define WATCH_HEAD          ANSWER_HEAD("200 OK") "Transfer-Encoding: chunked\r\n\r\n"
#define ANSWER_HEAD(status) "HTTP/1.1 " status "\r\n"

#define SETTLE_MS 2 /* what no wait of a task is shorter than */

/* --- the clock --- */

static uint64_t skipped_ns;

uint64_t __real_time_mono_ns(void);
uint64_t __wrap_time_mono_ns(void);

uint64_t __wrap_time_mono_ns(void)
{
	return __real_time_mono_ns() + skipped_ns;
}

void clock_skip(uint64_t ns)
{
	skipped_ns += ns;
}

uint64_t task_due_ms(const struct api_task *t)
{
	if (!uv_is_active((const uv_handle_t *)&t->timer))
		fail_msg("the task '%s' does not wait", t->complaint);
	return uv_timer_get_due_in(&t->timer);
}

void task_skip(struct api_task *t)
{
	clock_skip((task_due_ms(t) + 1) * NS_PER_MS);
	task_wait(t, 0);
}

static bool is_due(const struct api_task *t)
{
	return t->call || (uv_is_active((const uv_handle_t *)&t->timer) &&
				  uv_timer_get_due_in(&t->timer) < SETTLE_MS);
}

void task_settle(struct env *e, const struct api_task *t)
{
	bool in_time = true;

	patience_start(&e->patience, 20000);
	while (is_due(t) && in_time)
		in_time = patience_run_once(&e->patience);
	patience_stop(&e->patience);
	if (is_due(t))
		fail_msg("the task '%s' does not come to rest", t->complaint);
}

void task_end(struct env *e, struct api_task *t)
{
	task_close(t);
	run_for_ms(e, 1); /* the loop lets go of it */
}

/* --- JSON --- */

json_t *json_of(const char *text)
{
	char *copy = text ? strdup(text) : NULL;
	json_t *o;

	if (!text)
		return NULL;
	assert_non_null(copy);
	for (char *p = copy; *p; p++)
		*p = *p == '\'' ? '"' : *p;
	o = json_loads(copy, JSON_DECODE_ANY, NULL);
	if (!o)
		fail_msg("no JSON: %s", copy);
	free(copy);
	return o;
}

void assert_json(json_t *got, const char *want)
{
	json_t *w = json_of(want);
	char *text =
		got ? json_dumps(got, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY) : NULL;

	if (!(got == w || (got && w && json_equal(got, w))))
		fail_msg("got %s, expected %s", text ? text : "nothing",
			want ? want : "nothing");
	free(text);
	json_decref(w);
	json_decref(got);
}

json_t *request_body(const struct env *e, size_t i)
{
	const char *head = i < STUB_REQUESTS ? e->seen[i] : NULL;
	const char *body = head ? strstr(head, "\r\n\r\n") : NULL;

	if (!body)
		fail_msg("there was no request %zu", i);
	return json_of(body + 4);
}

/* --- labels --- */

struct labels *labels_of(const char *list)
{
	struct labels *l = calloc(1, sizeof(*l));
	struct error err = ERROR_INIT;
	CLEANUP(strv_fini) struct strv parts = STRV_INIT;

	assert_non_null(l);
	if (!*list)
		return l;
	assert_ok(strv_split(&parts, list, ',', &err), &err);
	l->v = calloc(parts.n, sizeof(*l->v));
	assert_non_null(l->v);
	for (; l->n < parts.n; l->n++) {
		char *eq = strchr(parts.v[l->n], '=');

		assert_non_null(eq);
		l->v[l->n].key = strndup(parts.v[l->n], (size_t)(eq - parts.v[l->n]));
		l->v[l->n].value = strdup(eq + 1);
	}
	return l;
}

/* --- the Node --- */

static json_t *make_node(struct node_env *n, const char *object)
{
	json_t *o = json_of(object ? object : "{}");
	json_t *metadata = json_object_get(o, "metadata");
	char version[16];

	if (!metadata) {
		metadata = json_object();
		assert_int_equal(json_object_set_new(o, "metadata", metadata), 0);
	}
	(void)snprintf(version, sizeof(version), "%u", ++n->version);
	assert_int_equal(json_object_set_new(metadata, "name", json_string(NODE_NAME)), 0);
	assert_int_equal(json_object_set_new(metadata, "resourceVersion", json_string(version)),
		0);
	return o;
}

static char *dump_json(json_t *o)
{
	char *text = json_dumps(o, JSON_COMPACT);

	assert_non_null(text);
	json_decref(o);
	return text;
}

void node_env_send(struct node_env *n, const char *object)
{
	char *text = dump_json(json_pack("{s:s, s:o}", "type", object ? "MODIFIED" : "DELETED",
		"object", make_node(n, object)));
	char chunk[4096];

	assert_true(strlen(text) < sizeof(chunk) - 32);
	(void)snprintf(chunk, sizeof(chunk), "%zx\r\n%s\n\r\n", strlen(text) + 1, text);
	stub_send(n->e, chunk);
	free(text);
}

void node_env_send_event(struct node_env *n, const char *object)
{
	unsigned before = n->calls;

	node_env_send(n, object);
	run(n->e, &n->calls, before + 1);
}

static void on_change(void *arg)
{
	struct node_env *n = arg;

	n->changes++;
	n->calls++;
}

static void on_condition(void *arg)
{
	struct node_env *n = arg;

	n->condition_changes++;
	n->calls++;
}

static const struct node_object_ops ops = { .changed = on_change,
	.condition_changed = on_condition };

void node_env_script(struct node_env *n, const char *object)
{
	json_t *items = json_array();
	char *list;

	if (object)
		assert_int_equal(json_array_append_new(items, make_node(n, object)), 0);
	list = dump_json(json_pack("{s:{s:s}, s:o}", "metadata", "resourceVersion", "1",
		"items", items));
	free(n->listed);
	n->listed = http_answer("200 OK", "Connection: close\r\n", list);
	free(list);
	n->steps[0] = (struct step){ .expects = "GET /api/v1/nodes?fieldSelector",
		.answer = n->listed,
		.hang_up = true };
	n->steps[1] = (struct step){ .expects = "&watch=1", .answer = WATCH_HEAD };
	stub_script(n->e, n->steps, ARRAY_LEN(n->steps));
}

void node_env_watch(struct node_env *n, const char *object, const char *condition_type)
{
	struct error err = ERROR_INIT;

	node_env_script(n, object);
	assert_ok(node_object_start(&n->node, n->e->api, NODE_NAME, condition_type, &ops, n,
			  &err),
		&err);
	run(n->e, &n->e->requests, 2);
	assert_int_equal(node_object_state(n->node), object ? NODE_PRESENT : NODE_ABSENT);
}

int node_env_setup(void **state)
{
	struct node_env *n = calloc(1, sizeof(*n));
	void *e = NULL;

	assert_non_null(n);
	if (api_env_setup(&e) != 0)
		return -1;
	n->e = e;
	api_open(n->e, "secret", NULL);
	*state = n;
	return 0;
}

int node_env_teardown(void **state)
{
	struct node_env *n = *state;
	void *e = n->e;
	int r;

	n->node = node_object_stop(n->node);
	r = api_env_teardown(&e);
	free(n->listed);
	free(n);
	return r;
}
