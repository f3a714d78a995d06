/* SPDX-License-Identifier: Apache-2.0 */

/* Named configs of a ConfigMap: the API server reports the entries and the label, one before the other. */
#include "unit/io/kube-api/api-env.h"
#include "unit/node/agent/config/config-env.h"

#include <string.h>

#define TEXT(n)                                                                                  \
	"{version: v1, sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: " #n \
	"}]}}}"
#define ENTRY(name, n) "\"" name "\":\"" TEXT(n) "\""
#define MAP(v, data)                                                                         \
	"{\"metadata\":{\"name\":\"configs\",\"resourceVersion\":\"" v "\"},\"data\":{" data \
	"}}"
#define LIST(items)                                    \
	"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" \
	"{\"metadata\":{\"resourceVersion\":\"10\"},\"items\":[" items "]}"
#define LIST_REQUEST \
	"GET /api/v1/namespaces/gpu/configmaps?fieldSelector=metadata.name%3Dconfigs HTTP/1.1\r\n"
#define HEAD "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

struct map_env {
	struct config_env *e;
	struct env *server; /* its loop is that of the config */
	struct env *
		elsewhere; /* of our Node, which is never reported: a test passes the label itself */
};

static uint64_t skipped_ns;

uint64_t __real_time_mono_ns(void);
uint64_t __wrap_time_mono_ns(void);

uint64_t __wrap_time_mono_ns(void)
{
	return __real_time_mono_ns() + skipped_ns;
}

static void on_node(void *arg)
{
	(void)arg;
}

static const struct node_object_ops node_ops = { .changed = on_node,
	.condition_changed = on_node };

static int setup(void **state)
{
	struct map_env *m = calloc(1, sizeof(*m));
	struct error err = ERROR_INIT;
	void *e, *server, *elsewhere;

	assert_non_null(m);
	assert_int_equal(config_env_setup(&e), 0);
	assert_int_equal(api_env_setup(&server), 0);
	assert_int_equal(api_env_setup(&elsewhere), 0);
	*m = (struct map_env){ .e = e, .server = server, .elsewhere = elsewhere };
	api_open(m->server, "secret", NULL);
	api_open(m->elsewhere, "secret", NULL);
	assert_ok(node_object_start(&m->e->link.node, m->elsewhere->api, "n-1", NULL, &node_ops,
			  m, &err),
		&err);
	m->e->loop = &m->server->loop;
	m->e->link.possible = true;
	m->e->options.map = "gpu/configs";
	m->e->options.default_name = "a";
	*state = m;
	return 0;
}

static int teardown(void **state)
{
	struct map_env *m = *state;
	void *e = m->e, *server = m->server, *elsewhere = m->elsewhere;

	config_env_stop(m->e);
	m->e->link.node = node_object_stop(m->e->link.node);
	free(m);
	assert_int_equal(config_env_teardown(&e), 0);
	assert_int_equal(api_env_teardown(&server), 0);
	return api_env_teardown(&elsewhere);
}

#define MAP_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

static void start_with_api(struct map_env *m)
{
	config_env_start(m->e);
	agent_config_with_api(&m->e->config, m->server->api);
}

/* The watch reports it. */
static void send_event(struct map_env *m, const char *type, const char *object)
{
	char line[4096], text[4200];
	int n = snprintf(line, sizeof(line), "{\"type\":\"%s\",\"object\":%s}\n", type, object);

	assert_true(n > 0 && (size_t)n < sizeof(line));
	(void)snprintf(text, sizeof(text), "%x\r\n%s\r\n", (unsigned)n, line);
	stub_send(m->server, text);
}

/* --- its name --- */

static void agent_config_start__needs_a_name_and_a_namespace(void **state)
{
	static const struct {
		const char *map, *own;
		bool possible;
		const char *says; /* in the error; NULL: a valid name */
		const char *source;
	} rows[] = {
		{ "gpu/configs", "", true, NULL, "configmap gpu/configs" },
		{ "configs", "kube-system", true, NULL, "configmap kube-system/configs" },
		{ "gpu/configs", "kube-system", true, NULL, "configmap gpu/configs" },
		/* Without an API server the agent never requests this object. */
		{ "configs", "", false, NULL, "configmap /configs" },
		{ "configs", "", true, "the namespace of this pod is not known: no file", "" },
		{ "/configs", "kube-system", true, "expected NAME or NAMESPACE/NAME", "" },
		{ "gpu/", "", true, "expected NAME or NAMESPACE/NAME", "" },
		{ "a/b/c", "", true, "expected NAME or NAMESPACE/NAME", "" },
		{ "gpu/..data", "", true, "expected NAME or NAMESPACE/NAME", "" },
		{ "a123456789b123456789c123456789d123456789e123456789f123456789g123/x", "",
			true, "expected NAME or NAMESPACE/NAME", "" },
	};
	struct map_env *m = *state;
	struct error err = ERROR_INIT;

	(void)error_set(&m->e->link.why, ERR_IO, "no file");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		m->e->options.map = rows[i].map;
		m->e->link.possible = rows[i].possible;
		(void)snprintf(m->e->link.namespace_, sizeof(m->e->link.namespace_), "%s",
			rows[i].own);
		if (rows[i].says) {
			assert_error(config_env_try(m->e, &err), &err, rows[i].says);
		} else {
			config_env_start(m->e);
			assert_string_equal(m->e->config.source_text, rows[i].source);
		}
		assert_undecided(m->e);
	}
}

/* --- which comes first --- */

static void agent_config__waits_for_the_label_when_the_config_map_is_known(void **state)
{
	struct map_env *m = *state;

	SCRIPT(m->server,
		{ .expects = LIST_REQUEST,
			.answer = LIST(MAP("7", ENTRY("a", 2) "," ENTRY("b", 3))),
			.hang_up = true },
		{ .answer = HEAD });
	start_with_api(m);
	agent_fixture_until(m->server, strstr(m->e->config.waiting, "label of this node"));
	assert_undecided(m->e);
	assert_int_equal(m->e->f->n_events, 0);
	agent_config_label(&m->e->config, "u1", "b");
	assert_good(m->e, 3);
	assert_chosen(m->e, CHOICE_LABEL, "b");
	assert_string_equal(m->e->config.where, "configmap gpu/configs#b");
}

static void agent_config__waits_for_the_config_map_when_the_label_is_known(void **state)
{
	struct map_env *m = *state;

	SCRIPT(m->server, { .answer = LIST(MAP("7", ENTRY("a", 2))), .hang_up = true },
		{ .answer = HEAD });
	config_env_start(m->e);
	agent_config_label(&m->e->config, "u1", NULL);
	assert_undecided(m->e);
	assert_non_null(strstr(m->e->config.waiting, "configmap gpu/configs"));
	agent_config_with_api(&m->e->config, m->server->api);
	agent_fixture_until(m->server, m->e->f->facts.decided);
	assert_good(m->e, 2);
	assert_chosen(m->e, CHOICE_DEFAULT, "a");
	assert_int_equal(m->e->f->n_events, 0);
}

static void agent_config__reports_a_missing_answer_after_the_timeout(void **state)
{
	struct map_env *m = *state;

	SCRIPT(m->server, { .silent = true });
	start_with_api(m);
	agent_config_label(&m->e->config, "u1", "a");
	run(m->server, &m->server->requests, 1);
	assert_undecided(m->e);
	assert_int_equal(m->e->f->n_events, 0);
	skipped_ns += LABEL_WAIT_NS;
	agent_fixture_until(m->server, agent_fixture_count(m->e->f, "ConfigNotFound") == 1);
	assert_undecided(m->e);
	assert_non_null(strstr(m->e->config.last_error.msg, "has not answered yet"));
	assert_string_equal(m->e->config.waiting, "");
	/* The API server answers at last. */
	SCRIPT(m->server, { .answer = LIST(MAP("7", ENTRY("a", 2))), .hang_up = true },
		{ .answer = HEAD });
	stub_hang_up(m->server);
	agent_fixture_until(m->server, m->e->f->facts.decided);
	assert_good(m->e, 2);
}

static void agent_config_with_api__decides_nothing_before_the_node_is_read(void **state)
{
	struct map_env *m = *state;
	const struct node_object *n = m->e->link.node;
	const struct label_wait *w = &m->e->config.label;

	SCRIPT(m->server, { .silent = true });
	config_env_start(m->e);
	/* The error has the same effect as a server that is down. */
	assert_int_equal(label_wait_answer(w, node_object_state(n), node_object_error(n)),
		LABEL_DOWN);
	agent_config_with_api(&m->e->config, m->server->api);
	assert_int_equal(label_wait_answer(w, node_object_state(n), node_object_error(n)),
		LABEL_SILENT);
}

/* --- changes --- */

static void agent_config__follows_the_config_map(void **state)
{
	struct map_env *m = *state;

	SCRIPT(m->server, { .answer = LIST(MAP("7", ENTRY("a", 2))), .hang_up = true },
		{ .answer = HEAD });
	start_with_api(m);
	agent_config_label(&m->e->config, "u1", "a");
	run(m->server, &m->server->requests, 2);
	agent_fixture_until(m->server, m->e->f->facts.decided);
	send_event(m, "MODIFIED", MAP("11", ENTRY("a", 3)));
	agent_fixture_until(m->server, m->e->f->facts.config_generation == 2);
	assert_good(m->e, 3);
	send_event(m, "MODIFIED", MAP("12", ENTRY("b", 4)));
	agent_fixture_until(m->server, m->e->config.last_error.code != ERR_NONE);
	assert_refused(m->e, 3, "specified config a does not exist (from the node label)");
	send_event(m, "DELETED", MAP("13", ""));
	agent_fixture_until(m->server, m->e->f->n_events == 3);
	assert_refused(m->e, 3, "there is no configmap gpu/configs");
	send_event(m, "ADDED", MAP("14", ENTRY("a", 3)));
	agent_fixture_until(m->server, m->e->config.last_error.code == ERR_NONE);
	assert_good(m->e, 3);
	assert_int_equal(m->e->f->facts.config_generation, 2);
}

static void agent_config__offers_whole_gpus_without_a_config_map(void **state)
{
	struct map_env *m = *state;
	struct error err = ERROR_INIT;

	m->e->options.default_name = NULL;
	assert_ok(strv_split(&m->e->fallbacks, "single,empty", ',', &err), &err);
	SCRIPT(m->server, { .answer = LIST(""), .hang_up = true }, { .answer = HEAD });
	start_with_api(m);
	run(m->server, &m->server->requests, 2);
	assert_undecided(m->e); /* a label would choose */
	agent_config_label(&m->e->config, "u1", NULL);
	assert_good(m->e, 0);
	assert_chosen(m->e, CHOICE_EMPTY, "");
	send_event(m, "ADDED", MAP("11", ENTRY("x", 2)));
	agent_fixture_until(m->server, m->e->f->facts.config_generation == 2);
	assert_good(m->e, 2);
	assert_chosen(m->e, CHOICE_SINGLE, "x");
}

/* --- without a server --- */

static void agent_config_without_api__uses_the_choice_of_the_last_run_or_none(void **state)
{
	struct map_env *m = *state;

	m->e->link.possible = false;
	(void)error_set(&m->e->link.why, ERR_NOT_FOUND, "no API server is known");
	m->e->link.node = node_object_stop(m->e->link.node);
	config_env_start(m->e);
	agent_config_without_api(&m->e->config);
	assert_undecided(m->e);
	assert_int_equal(agent_fixture_count(m->e->f, "ConfigNotFound"), 1); /* not twice */
	assert_string_equal(m->e->config.last_error.msg,
		"configmap gpu/configs: no API server is known");
}

static void agent_config_start__uses_the_last_choice_while_the_server_is_silent(void **state)
{
	struct map_env *m = *state;

	SCRIPT(m->server,
		{ .answer = LIST(MAP("7", ENTRY("a", 2) "," ENTRY("b", 3))), .hang_up = true },
		{ .answer = HEAD });
	start_with_api(m);
	agent_config_label(&m->e->config, "u1", "b");
	agent_fixture_until(m->server, m->e->f->facts.decided);
	config_env_start(m->e);
	assert_good(m->e, 3);
	assert_chosen(m->e, CHOICE_LABEL, "b");
	assert_string_equal(m->e->config.label.value, "b");
	/* The same happens without a server: there is no other source of the label. */
	m->e->link.possible = false;
	config_env_start(m->e);
	agent_config_without_api(&m->e->config);
	assert_int_equal(config_env_replicas(m->e), 3);
	assert_chosen(m->e, CHOICE_LABEL, "b");
	assert_string_equal(m->e->config.label.value, "b");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		MAP_TEST(agent_config_start__needs_a_name_and_a_namespace),
		MAP_TEST(agent_config__waits_for_the_label_when_the_config_map_is_known),
		MAP_TEST(agent_config__waits_for_the_config_map_when_the_label_is_known),
		MAP_TEST(agent_config__reports_a_missing_answer_after_the_timeout),
		MAP_TEST(agent_config_with_api__decides_nothing_before_the_node_is_read),
		MAP_TEST(agent_config__follows_the_config_map),
		MAP_TEST(agent_config__offers_whole_gpus_without_a_config_map),
		MAP_TEST(agent_config_without_api__uses_the_choice_of_the_last_run_or_none),
		MAP_TEST(agent_config_start__uses_the_last_choice_while_the_server_is_silent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
