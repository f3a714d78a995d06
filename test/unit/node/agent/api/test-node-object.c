/* SPDX-License-Identifier: Apache-2.0 */

/* Our Node in the API server: which changes are reported, and what stays when the server is unavailable. */
#include "unit/node/agent/api/node-env.h"

#include "node/agent/api/node-object.h"

#define TYPE "GPUReady"
#define CONDITION(status, beat) \
	"{'type':'" TYPE "','status':'" status "','lastHeartbeatTime':'" beat "'}"
#define WITH_CONDITIONS(list) "{'metadata':{'uid':'u-1'},'status':{'conditions':[" list "]}}"

static const char first[] =
	"{'metadata':{'uid':'u-1','labels':{'a':'1','n':2},'annotations':{'r':'x'}},"
	"'spec':{'taints':[{'key':'t'}]},"
	"'status':{'conditions':[{'type':'Ready'}," CONDITION("True", "1") "]}}";

static void node_object__keeps_the_members_in_use(void **state)
{
	struct node_env *n = *state;

	node_env_watch(n, first, TYPE);
	assert_int_equal(n->changes, 1);
	assert_int_equal(n->condition_changes, 0); /* part of the first change */
	assert_string_equal(node_object_name(n->node), NODE_NAME);
	assert_string_equal(node_object_uid(n->node), "u-1");
	assert_string_equal(node_object_label(n->node, "a"), "1");
	assert_null(node_object_label(n->node, "n")); /* no string */
	assert_null(node_object_label(n->node, "b"));
	assert_string_equal(node_object_annotation(n->node, "r"), "x");
	assert_json(json_deep_copy(node_object_labels(n->node)), "{'a':'1','n':2}");
	assert_json(json_deep_copy(node_object_taints(n->node)), "[{'key':'t'}]");
	assert_json(json_deep_copy(node_object_condition(n->node)),
		"{'type':'" TYPE "','status':'True'}");
	assert_int_equal(node_object_error(n->node)->code, ERR_NONE);
}

static void node_object__reports_each_change(void **state)
{
	static const struct {
		const char *object; /* NULL: deleted */
		unsigned changes, condition_changes;
	} rows[] = {
		{ WITH_CONDITIONS(CONDITION("True", "1")), 1, 0 },
		{ WITH_CONDITIONS(CONDITION("False", "1")), 0, 1 },
		{ WITH_CONDITIONS("{'type':'Ready'}"), 0, 1 }, /* it was removed */
		/* The object is another Node of that name. */
		{ "{'metadata':{'uid':'u-2'}}", 1, 0 },
		{ "{'metadata':{'uid':'u-2','labels':{'a':'1'}}}", 1, 0 },
		{ "{'metadata':{'uid':'u-2','labels':{'a':'2'}}}", 1, 0 },
		{ "{'metadata':{'uid':'u-2','annotations':{'a':'2'}}}", 1, 0 },
		{ "{'metadata':{'uid':'u-2'},'spec':{'taints':[]}}", 1, 0 },
		{ "{'metadata':{'uid':'u-2'},'spec':{'taints':[{'key':'a'}]}}", 1, 0 },
		/* Labels and the condition: one call. */
		{ "{'metadata':{'uid':'u-3'},'status':{'conditions':[" CONDITION("True",
			  "9") "]}}",
			1, 0 },
		{ NULL, 1, 0 },
		{ "{'metadata':{'uid':'u-3'}}", 1, 0 },
	};
	struct node_env *n = *state;

	node_env_watch(n, first, TYPE);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		n->changes = n->condition_changes = 0;
		node_env_send_event(n, rows[i].object);
		if (n->changes != rows[i].changes ||
			n->condition_changes != rows[i].condition_changes)
			fail_msg("row %zu: %u changes, %u of the condition", i, n->changes,
				n->condition_changes);
		assert_int_equal(node_object_state(n->node),
			rows[i].object ? NODE_PRESENT : NODE_ABSENT);
	}
	assert_null(node_object_labels(n->node));
	assert_null(node_object_condition(n->node));
}

/* The kubelet writes the status of each Node every few seconds. */
static void node_object__reports_no_heartbeat(void **state)
{
	struct node_env *n = *state;

	node_env_watch(n, WITH_CONDITIONS(CONDITION("True", "1")), TYPE);
	for (int i = 0; i < 3; i++)
		node_env_send(n, WITH_CONDITIONS(CONDITION("True", "2")));
	node_env_send(n,
		"{'metadata':{'uid':'u-1','generation':7},'spec':{'unschedulable':true},"
		"'status':{'capacity':{'cpu':'1'},'conditions':[" CONDITION("True", "3") "]}}");
	node_env_send_event(n, WITH_CONDITIONS(CONDITION("False", "4")));
	assert_int_equal(n->changes, 1);
	assert_int_equal(n->condition_changes, 1);
}

static void node_object__without_a_type_keeps_no_condition(void **state)
{
	struct node_env *n = *state;

	node_env_watch(n, first, NULL);
	assert_null(node_object_condition(n->node));
	node_env_send(n, WITH_CONDITIONS(CONDITION("False", "4")));
	node_env_send_event(n, NULL);
	assert_int_equal(n->condition_changes, 0);
}

static void node_object__accepts_any_answer_of_a_server(void **state)
{
	static const char *const odd[] = { "{'metadata':{'uid':7,'labels':[1]}}",
		"{'metadata':{'labels':'x','annotations':1},'spec':[],'status':3}",
		"{'spec':{'taints':{'key':'t'}},'status':{'conditions':[1,{},{'type':4}]}}" };
	struct node_env *n = *state;

	node_env_watch(n, first, TYPE);
	for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
		node_env_send_event(n, odd[i]);
		assert_string_equal(node_object_uid(n->node), "");
		assert_null(node_object_label(n->node, "a"));
		assert_null(node_object_annotation(n->node, "r"));
		assert_null(node_object_condition(n->node));
	}
}

static void node_object_patched__makes_the_watch_report_nothing(void **state)
{
	static const char written[] = WITH_CONDITIONS(CONDITION("False", "5"));
	struct node_env *n = *state;
	json_t *answer = json_of(written), *odd = json_of("{'status':{}}");

	node_env_watch(n, WITH_CONDITIONS(CONDITION("True", "1")), TYPE);
	node_object_patched(n->node, answer);
	/* An answer without it proves nothing: the Node still has its condition. */
	node_object_patched(n->node, odd);
	node_object_patched(n->node, NULL);
	assert_json(json_deep_copy(node_object_condition(n->node)),
		"{'type':'" TYPE "','status':'False'}");
	node_env_send(n, written);
	node_env_send_event(n, "{'metadata':{'uid':'u-2'}}");
	assert_int_equal(n->condition_changes, 0);
	json_decref(answer);
	json_decref(odd);
}

static bool is_in_touch(const struct node_env *n)
{
	return node_object_error(n->node)->code == ERR_NONE;
}

static void node_object__keeps_its_state_while_the_server_is_unavailable(void **state)
{
	struct node_env *n = *state;
	const struct step refused = STEP("GET ", "503 No", "{}");

	node_env_watch(n, first, TYPE);
	stub_script(n->e, &refused, 1);
	stub_hang_up(n->e);
	run(n->e, &n->e->requests, 2);
	assert_false(is_in_touch(n));
	assert_int_equal(node_object_state(n->node), NODE_PRESENT);
	assert_string_equal(node_object_label(n->node, "a"), "1");
	assert_int_equal(n->changes, 1); /* a server that is down is no change */
	node_env_script(n, "{'metadata':{'uid':'u-1','labels':{'a':'2'}}}");
	run(n->e, &n->changes, 2);
	assert_true(is_in_touch(n));
	assert_string_equal(node_object_label(n->node, "a"), "2");
}

/* --- the link --- */

static void api_link_error__reports_why_our_node_is_unknown(void **state)
{
	struct node_env *n = *state;
	struct api_link l = { .node_name = NODE_NAME };
	struct error err = ERROR_INIT;

	assert_string_equal(api_link_error(&l), "the API server is not asked yet");
	(void)error_set(&l.why, ERR_NOT_FOUND, "no API server is known");
	assert_string_equal(api_link_error(&l), "no API server is known");
	assert_ok(node_object_start(&n->node, n->e->api, NODE_NAME, NULL,
			  &(const struct node_object_ops){ 0 }, n, &err),
		&err);
	l.node = n->node;
	assert_non_null(strstr(api_link_error(&l), "has not answered yet"));
	assert_int_equal(node_object_state(n->node), NODE_UNKNOWN);
	n->node = node_object_stop(n->node);
	node_env_watch(n, NULL, NULL);
	l.node = n->node;
	assert_string_equal(api_link_error(&l), "there is no Node of our name");
	node_env_send_event(n, first);
	assert_string_equal(api_link_error(&l), "");
}

static void node_object_start__needs_a_name(void **state)
{
	struct node_env *n = *state;
	struct node_object *o = NULL;
	struct error err = ERROR_INIT;

	assert_error(node_object_start(&o, n->e->api, "", NULL,
			     &(const struct node_object_ops){ 0 }, n, &err),
		&err, "expected a name");
	assert_null(o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		NODE_TEST(node_object__keeps_the_members_in_use),
		NODE_TEST(node_object__reports_each_change),
		NODE_TEST(node_object__reports_no_heartbeat),
		NODE_TEST(node_object__without_a_type_keeps_no_condition),
		NODE_TEST(node_object__accepts_any_answer_of_a_server),
		NODE_TEST(node_object_patched__makes_the_watch_report_nothing),
		NODE_TEST(node_object__keeps_its_state_while_the_server_is_unavailable),
		NODE_TEST(api_link_error__reports_why_our_node_is_unknown),
		NODE_TEST(node_object_start__needs_a_name),
	};

	return cmocka_run_group_tests_name("node-object", tests, NULL, NULL);
}
