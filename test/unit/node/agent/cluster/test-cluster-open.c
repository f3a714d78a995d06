/* SPDX-License-Identifier: Apache-2.0 */

/* The agent finds the API server at the start, later, or never. The cluster part reports that to the agent. */
#include "unit/node/agent/cluster/cluster-env.h"

#include <unistd.h>

#define POD_TOKEN "/var/run/secrets/kubernetes.io/serviceaccount/token"
#define NODE      "{'metadata':{'uid':'u-1'}}"

/* --- at the start --- */

static const char *const kubeconfigs[] = { [0] = NULL, [1] = "", [2] = "a: [" };
enum { NO_FILE, GOOD_FILE, BAD_FILE, NO_OPTION };

static void pretend_pod(void)
{
	(void)setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1", 1);
	(void)setenv("KUBERNETES_SERVICE_PORT", "443", 1);
}

static void cluster_init__reports_what_is_available(void **state)
{
	static const struct {
		int kubeconfig;
		const char *node_name, *namespace_;
		enum labels_where labels;
		bool pod, possible, found;
		enum error_code why, down;
		const char *namespace_then;
	} rows[] = {
		/* The agent needs nothing of the API server, so nothing is missing. */
		{ NO_OPTION, NODE_NAME, "", LABELS_OFF, false, false, false, ERR_NOT_FOUND,
			ERR_NONE, "" },
		{ NO_OPTION, NODE_NAME, "x", LABELS_FILE, false, false, false, ERR_NOT_FOUND,
			ERR_NONE, "x" },
		{ NO_OPTION, NODE_NAME, "", LABELS_NODE, false, false, false, ERR_NOT_FOUND,
			ERR_NOT_FOUND, "" },
		{ NO_OPTION, NODE_NAME, "", LABELS_NFD, false, false, false, ERR_NOT_FOUND,
			ERR_NOT_FOUND, "" },
		/* A pod whose token is not there (yet). */
		{ NO_OPTION, NODE_NAME, "", LABELS_OFF, true, true, false, ERR_INVALID,
			ERR_INVALID, "" },
		{ GOOD_FILE, NODE_NAME, "", LABELS_OFF, false, true, true, ERR_NONE, ERR_NONE,
			"gpu" },
		{ GOOD_FILE, NODE_NAME, "x", LABELS_OFF, false, true, true, ERR_NONE, ERR_NONE,
			"x" },
		/* The file may come, or be mended; a name does not come. */
		{ NO_FILE, NODE_NAME, "", LABELS_OFF, false, true, false, ERR_NOT_FOUND,
			ERR_NOT_FOUND, "" },
		{ BAD_FILE, NODE_NAME, "", LABELS_OFF, false, true, false, ERR_INVALID,
			ERR_INVALID, "" },
		{ GOOD_FILE, "", "", LABELS_OFF, false, false, true, ERR_INVALID, ERR_INVALID,
			"gpu" },
		{ NO_FILE, "", "", LABELS_OFF, false, false, false, ERR_NOT_FOUND,
			ERR_NOT_FOUND, "" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		void *env = NULL;
		struct cluster_env *x;
		const struct error *down;

		if (rows[i].pod && access(POD_TOKEN, F_OK) == 0)
			continue; /* this is a pod indeed */
		assert_int_equal(cluster_env_setup(&env), 0);
		x = env;
		x->context.options = (struct cluster_options){
			.kubeconfig = rows[i].kubeconfig == NO_OPTION ? NULL : x->kubeconfig,
			.node_name = rows[i].node_name,
			.namespace_ = rows[i].namespace_,
			.labels = rows[i].labels,
		};
		if (rows[i].pod)
			pretend_pod();
		if (rows[i].kubeconfig == GOOD_FILE || rows[i].kubeconfig == BAD_FILE)
			cluster_env_kubeconfig(x, kubeconfigs[rows[i].kubeconfig]);
		cluster_env_init(x);
		down = cluster_down(&x->c);
		if (x->c.link.possible != rows[i].possible ||
			x->c.link.found != rows[i].found || x->c.link.why.code != rows[i].why ||
			(down ? down->code : ERR_NONE) != rows[i].down)
			fail_msg("row %zu: %s", i, x->c.link.why.msg);
		assert_string_equal(x->c.link.namespace_, rows[i].namespace_then);
		/* Events wait for a server that may come, and for no other. */
		assert_int_equal(x->c.events.node != NULL, rows[i].possible);
		assert_null(x->c.link.api);
		assert_int_equal(cluster_env_teardown(&env), 0);
	}
}

static void cluster_start__reports_at_once_that_there_is_no_server(void **state)
{
	struct cluster_env *x = *state;

	x->context.options = (struct cluster_options){ .kubeconfig = NULL };
	cluster_env_init(x);
	assert_string_equal(x->order, "");
	cluster_start(&x->c);
	assert_string_equal(x->order, "u");
	assert_int_equal(x->why.code, ERR_NOT_FOUND);
	assert_false(uv_is_active((uv_handle_t *)&x->c.open));
	cluster_retry(&x->c);
	cluster_sync(&x->c); /* as the agent does next */
	run_for_ms(x->n->e, 2);
	assert_string_equal(x->order, "u");
}

static void cluster_start__comes_after_the_kubelet_if_a_config_is_there(void **state)
{
	struct cluster_env *x = *state;

	cluster_env_kubeconfig(x, "");
	cluster_env_init(x);
	x->f->facts.decided = true;
	cluster_start(&x->c);
	assert_in_range(uv_timer_get_due_in(&x->c.open), 200, 250);
	x->f->facts.decided = false; /* the config is on the server, perhaps */
	cluster_start(&x->c);
	assert_int_equal(uv_timer_get_due_in(&x->c.open), 0);
	assert_null(x->c.link.api); /* never from inside */
}

/* --- later --- */

static void cluster__reports_the_server_once_and_then_the_node(void **state)
{
	struct cluster_env *x = *state;

	cluster_env_open(x, NODE);
	assert_string_equal(x->order, "rc");
	assert_int_equal(cluster_down(&x->c)->code, ERR_NONE);
	assert_string_equal(api_link_error(&x->c.link), "");
	/* The server goes and comes. */
	stub_script(x->n->e, &x->n->steps[1], 1);
	stub_hang_up(x->n->e);
	run(x->n->e, &x->n->e->requests, 1);
	node_env_send_event(x->n, "{'metadata':{'uid':'u-2'}}");
	assert_string_equal(x->order, "rcc");
	assert_int_equal(x->api_unavailable, 0);
}

static bool is_why(const struct cluster_env *x, enum error_code code)
{
	return cluster_down(&x->c) && cluster_down(&x->c)->code == code;
}

static bool opened(const struct cluster_env *x)
{
	return x->c.link.api != NULL;
}

static void cluster__uses_a_kubeconfig_that_comes_later(void **state)
{
	struct cluster_env *x = *state;

	cluster_env_init(x);
	event_send(&x->c.events, NULL, EVENT_NORMAL, "Started", "early");
	cluster_start(&x->c);
	run_for_ms(x->n->e, 5);
	assert_true(is_why(x, ERR_NOT_FOUND));
	cluster_env_kubeconfig(x, "a: ["); /* half of it */
	cluster_env_until(x, is_why(x, ERR_INVALID));
	cluster_retry(&x->c); /* it is read again and again anyway */
	assert_true(is_why(x, ERR_INVALID));
	assert_false(opened(x));
	assert_string_equal(x->order, "");
	node_env_script(x->n, NULL);
	x->n->steps[0].expects = x->n->steps[1].expects =
		NULL; /* the Event is sent meanwhile */
	cluster_env_kubeconfig(x, "");
	cluster_env_until(x, opened(x));
	assert_string_equal(x->order, "r");
	assert_true(is_why(x, ERR_NONE));
	assert_string_equal(x->c.link.namespace_, "gpu");
	/* The agent sends the Events from before that moment. */
	cluster_env_until(x, x->c.events.task.call != NULL);
}

static void cluster__continues_without_an_unusable_server(void **state)
{
	struct cluster_env *x = *state;

	cluster_env_kubeconfig(x, "");
	cluster_env_init(x);
	/* Stands for all errors of api_new(): mostly a missing libcurl. */
	free(x->c.config.server);
	x->c.config.server = strdup("gopher://x");
	cluster_start(&x->c);
	run(x->n->e, &x->api_unavailable, 1);
	assert_string_equal(x->order, "u");
	assert_int_equal(x->why.code, ERR_INVALID);
	assert_true(is_why(x, ERR_INVALID));
	assert_false(x->c.link.possible);
	run_for_ms(x->n->e, 5);
	assert_string_equal(x->order, "u");
}

static void cluster_retry__keeps_the_last_valid_credentials(void **state)
{
	static const struct {
		const char *text, *says; /* NULL: no file; NULL: it is good */
	} rows[] = {
		{ "a: [", "kubeconfig" },
		{ "", NULL },
		{ "apiVersion: v1\nkind: Config\n", "current-context" },
		{ NULL, "No such file" },
	};
	struct cluster_env *x = *state;

	cluster_env_open(x, NODE);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cluster_env_kubeconfig(x, rows[i].text);
		cluster_retry(&x->c);
		if (rows[i].says) {
			assert_non_null(strstr(cluster_down(&x->c)->msg, rows[i].says));
			assert_non_null(strstr(cluster_down(&x->c)->msg,
				"the last valid one is in use; a restart would not use the API"));
		} else {
			assert_true(is_why(x, ERR_NONE));
		}
		assert_true(opened(x));
	}
	node_env_send_event(x->n, "{'metadata':{'uid':'u-2'}}"); /* the watch continues */
	assert_string_equal(x->order, "rcc");
}

static void cluster_stop__ends_all_requests(void **state)
{
	struct cluster_env *x = *state;

	x->context.options.startup_taint = TAINT;
	cluster_env_open(x,
		"{'metadata':{'uid':'u-1'},'spec':{'taints':[{'key':'" TAINT "'}]}}");
	SCRIPT(x->n->e, { .silent = true });
	x->ready = true;
	cluster_sync(&x->c);
	event_send(&x->c.events, NULL, EVENT_NORMAL, "R", "m");
	run(x->n->e, &x->n->e->requests, 2);
	cluster_stop(&x->c);
	event_send(&x->c.events, NULL, EVENT_NORMAL, "R", "of the end");
	assert_null(x->c.link.node);
	assert_null(x->c.link.api);
	run_for_ms(x->n->e, 5);
	cluster_fini(&x->c);
	x->inited = false;
	assert_string_equal(x->order, "rc");
	assert_int_equal(x->n->e->requests, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cluster_init__reports_what_is_available),
		CLUSTER_TEST(cluster_start__reports_at_once_that_there_is_no_server),
		CLUSTER_TEST(cluster_start__comes_after_the_kubelet_if_a_config_is_there),
		CLUSTER_TEST(cluster__reports_the_server_once_and_then_the_node),
		CLUSTER_TEST(cluster__uses_a_kubeconfig_that_comes_later),
		CLUSTER_TEST(cluster__continues_without_an_unusable_server),
		CLUSTER_TEST(cluster_retry__keeps_the_last_valid_credentials),
		CLUSTER_TEST(cluster_stop__ends_all_requests),
	};

	return cmocka_run_group_tests_name("cluster-open", tests, NULL, NULL);
}
