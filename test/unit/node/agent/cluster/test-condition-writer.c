/* SPDX-License-Identifier: Apache-2.0 */

/* The condition on our Node: when it is written, its heartbeat, and other writers. */
#include "unit/node/agent/api/node-env.h"

#include "node/agent/cluster/condition.h"

#define TYPE "AcceleratedHardwareReady"
#define NODE(uid, conditions) \
	"{'metadata':{'uid':'" uid "'},'status':{'conditions':[" conditions "]}}"
#define CONDITION(status, reason, message)                                                   \
	"{'type':'" TYPE "','status':'" status "','reason':'" reason "','message':'" message \
	"','lastTransitionTime':'2026-01-01T00:00:00Z'}"
#define BARE   NODE("u-1", "{'type':'Ready','status':'True'}")
#define READY  CONDITION("True", "GPUsReady", "gpuslice: no GPU needs a repair")
#define LOST   CONDITION("False", "GPULost", "gpuslice: GPU 1 is lost")
#define THEIRS CONDITION("True", "AllWell", "ours says all is well")

#define PATCHED(status)                                                                        \
	{                                                                                      \
		.expects = "PATCH /api/v1/nodes/" NODE_NAME "/status?fieldManager=gpusliced ", \
		.answer = ANSWER(status, "{}"), .hang_up = true                                \
	}

static const struct node_repair none = { .state = REPAIR_NONE };
static const struct node_repair unknown = { .state = REPAIR_UNKNOWN };
static const struct node_repair lost = { .state = REPAIR_NEEDED,
	.reason = "GPULost",
	.message = "GPU 1 is lost" };
static const struct node_repair both_lost = { .state = REPAIR_NEEDED,
	.reason = "GPULost",
	.message = "GPU 1 and GPU 2 are lost" };

struct written {
	struct condition_writer w;
	struct node_env *n;
	unsigned good, bad;
	struct error why;
};

static void on_done(void *arg, const struct error *err)
{
	struct written *x = arg;

	x->good += !err;
	x->bad += err != NULL;
	error_clear(&x->why);
	error_copy(&x->why, err);
}

static const struct step patched[] = { PATCHED("200 OK") };

static void open_writer(struct written *x, struct node_env *n, const char *object)
{
	*x = (struct written){ .n = n };
	node_env_watch(n, object, TYPE);
	condition_writer_init(&x->w, &n->e->loop);
	x->w.type = TYPE;
	x->w.node = n->node;
	x->w.done = on_done;
	x->w.arg = x;
	x->w.task.api = n->e->api;
	stub_script(n->e, patched, 1);
}

static void set_condition(struct written *x, const struct node_repair *desired)
{
	condition_writer_set(&x->w, desired);
	task_settle(x->n->e, &x->w.task);
}

/* Another client changes the Node, and the writer compares. */
static void change(struct written *x, const char *object)
{
	node_env_send_event(x->n, object);
	condition_writer_wake(&x->w);
	task_settle(x->n->e, &x->w.task);
}

/* The writer has sent @n requests, and the last one wrote @status. */
static void assert_sent(const struct written *x, unsigned n, const char *status)
{
	json_t *body;
	const char *got = NULL;

	assert_int_equal(x->n->e->requests, n);
	body = request_body(x->n->e, n - 1);
	assert_int_equal(
		json_unpack(body, "{s:{s:[{s:s}]}}", "status", "conditions", "status", &got),
		0);
	assert_string_equal(got, status);
	json_decref(body);
}

/* --- our condition --- */

static void condition_writer__writes_it_and_repeats_its_heartbeat(void **state)
{
	struct written x;

	open_writer(&x, *state, BARE);
	set_condition(&x, &none);
	assert_sent(&x, 1, "True");
	assert_non_null(strstr(x.n->e->seen[0], "Content-Type: " API_STRATEGIC_PATCH "\r\n"));
	assert_int_equal(x.good, 1);
	change(&x, NODE("u-1", READY));
	assert_in_range(task_due_ms(&x.w.task), 290000, 300000);
	change(&x, "{'metadata':{'uid':'u-1','labels':{'x':'y'}},"
		   "'status':{'conditions':[" READY "]}}");
	assert_sent(&x, 1, "True"); /* what else changes does not matter */
	task_skip(&x.w.task);
	task_settle(x.n->e, &x.w.task);
	assert_sent(&x, 2, "True");
	assert_non_null(strstr(x.n->e->seen[1], "2026-01-01T00:00:00Z")); /* no transition */
	assert_int_equal(x.w.drift.failures, 1); /* of the first write alone */
	task_end(x.n->e, &x.w.task);
}

/* The agent has just started. */
static void condition_writer__begins_with_a_heartbeat_where_our_condition_exists(void **state)
{
	struct written x;

	open_writer(&x, *state, NODE("u-1", READY));
	set_condition(&x, &none);
	assert_sent(&x, 1, "True");
	assert_true(x.w.beats);
	assert_int_equal(x.w.drift.failures, 0);
	task_end(x.n->e, &x.w.task);
}

static void condition_writer__writes_a_fault_at_once_and_other_texts_later(void **state)
{
	struct written x;

	open_writer(&x, *state, NODE("u-1", READY));
	set_condition(&x, &none);
	set_condition(&x, &lost); /* the earlier heartbeat is pending, and delays nothing */
	assert_sent(&x, 2, "False");
	change(&x, NODE("u-1", LOST));
	set_condition(&x, &both_lost);
	assert_sent(&x, 2, "False");
	assert_in_range(task_due_ms(&x.w.task), 1000, 2000);
	task_skip(&x.w.task);
	task_settle(x.n->e, &x.w.task);
	assert_sent(&x, 3, "False");
	assert_non_null(strstr(x.n->e->seen[2], "GPU 2"));
	set_condition(&x, &none); /* repaired: at once as well */
	assert_sent(&x, 4, "True");
	task_end(x.n->e, &x.w.task);
}

static void condition_writer__writes_nothing_while_the_state_is_unknown(void **state)
{
	struct written x;

	open_writer(&x, *state, BARE);
	set_condition(&x, &unknown);
	assert_int_equal(x.n->e->requests, 0);
	set_condition(&x, &lost);
	assert_sent(&x, 1, "False");
	change(&x, NODE("u-1", LOST));
	set_condition(&x,
		&unknown); /* NVML is unavailable: the known state stays on the Node */
	change(&x, NODE("u-1", READY));
	assert_int_equal(x.n->e->requests, 1);
	task_end(x.n->e, &x.w.task);
}

static void condition_writer__waits_for_the_node(void **state)
{
	struct written x;

	open_writer(&x, *state, NULL);
	x.w.node = NULL;
	set_condition(&x, &lost);
	x.w.node = x.n->node;
	condition_writer_wake(&x.w);
	task_settle(x.n->e, &x.w.task);
	assert_int_equal(x.n->e->requests, 0);
	change(&x, BARE);
	assert_sent(&x, 1, "False");
	task_end(x.n->e, &x.w.task);
}

static void condition_writer__writes_a_new_node_at_once(void **state)
{
	struct written x;

	open_writer(&x, *state, BARE);
	set_condition(&x, &lost);
	change(&x, NODE("u-2", READY)); /* as an image was made with it, perhaps */
	assert_sent(&x, 2, "False");
	change(&x, NODE("u-3", LOST)); /* another client wrote its heartbeat */
	assert_sent(&x, 3, "False");
	assert_string_equal(x.w.uid, "u-3");
	task_end(x.n->e, &x.w.task);
}

static void condition_writer__trusts_the_condition_in_the_answer(void **state)
{
	struct node_env *n = *state;
	struct written x;
	char *answer;
	json_t *node = json_of(NODE("u-1", LOST));
	char *text = json_dumps(node, JSON_COMPACT);
	struct step step;

	answer = http_answer("200 OK", "Connection: close\r\n", text);
	step = (struct step){ .expects = "PATCH ", .answer = answer, .hang_up = true };
	open_writer(&x, n, BARE);
	stub_script(n->e, &step, 1);
	set_condition(&x, &lost);
	task_skip(&x.w.task); /* the watch is late */
	task_settle(n->e, &x.w.task);
	assert_sent(&x, 1, "False");
	assert_in_range(task_due_ms(&x.w.task), 200000, 300000);
	task_end(n->e, &x.w.task);
	json_decref(node);
	free(text);
	free(answer);
}

/* --- others --- */

static void condition_writer__backs_off_where_others_change_the_condition(void **state)
{
	struct written x;

	open_writer(&x, *state, BARE);
	set_condition(&x, &lost);
	for (unsigned i = 1; i < 7; i++) {
		uint64_t ms;

		change(&x, NODE("u-1", LOST));
		change(&x, NODE("u-1", THEIRS));
		assert_sent(&x, i, "False");
		ms = task_due_ms(&x.w.task);
		assert_in_range(ms, 2000 + (500U << (i - 1)) - 1500, 2000 + (1000U << (i - 1)));
		task_skip(&x.w.task);
		task_settle(x.n->e, &x.w.task);
	}
	/* Changes of our condition are not delayed by that. */
	change(&x, NODE("u-1", LOST));
	set_condition(&x, &none);
	assert_sent(&x, 8, "True");
	task_end(x.n->e, &x.w.task);
}

static void condition_writer__forgets_a_conflict_after_a_time_without_changes(void **state)
{
	struct written x;

	open_writer(&x, *state, BARE);
	set_condition(&x, &lost);
	for (int i = 0; i < 4; i++) {
		change(&x, NODE("u-1", LOST));
		change(&x, NODE("u-1", THEIRS));
		task_skip(&x.w.task);
		task_settle(x.n->e, &x.w.task);
	}
	assert_int_equal(x.w.drift.failures, 5);
	clock_skip(700 * NS_PER_SEC);
	change(&x, NODE("u-1", LOST));
	change(&x, NODE("u-1", THEIRS));
	assert_int_equal(x.w.drift.failures, 1);
	task_end(x.n->e, &x.w.task);
}

static void condition_writer__keeps_the_condition_of_others_where_no_repair_is_needed(
	void **state)
{
	struct written x;

	open_writer(&x, *state, NODE("u-1", THEIRS));
	set_condition(&x, &none);
	assert_int_equal(x.n->e->requests, 0);
	assert_int_equal(x.good, 1); /* as is wanted: nothing is degraded */
	assert_false(uv_is_active((uv_handle_t *)&x.w.task.timer)); /* and no heartbeat */
	task_end(x.n->e, &x.w.task);
}

/* --- failures --- */

static void condition_writer__reports_a_refusal_and_delays_later_writes(void **state)
{
	struct written x;

	open_writer(&x, *state, BARE);
	SCRIPT(x.n->e, PATCHED("403 Forbidden"), PATCHED("200 OK"));
	set_condition(&x, &none);
	assert_int_equal(x.bad, 1);
	assert_int_equal(x.why.code, ERR_PERMISSION);
	assert_string_equal(x.w.task.logged_error, x.w.task.last_error.msg);
	set_condition(&x, &lost);
	change(&x, NODE("u-1", "{'type':'Ready'}," THEIRS));
	assert_int_equal(x.n->e->requests, 1);
	assert_true(task_due_ms(&x.w.task) > 50000);
	task_skip(&x.w.task);
	task_settle(x.n->e, &x.w.task);
	assert_sent(&x, 2, "False");
	assert_int_equal(x.good, 1);
	assert_string_equal(x.w.task.logged_error, "");
	task_end(x.n->e, &x.w.task);
}

static void condition_writer__without_a_type_writes_nothing(void **state)
{
	struct written x;

	open_writer(&x, *state, BARE);
	x.w.type = "";
	set_condition(&x, &lost);
	assert_int_equal(x.n->e->requests, 0);
	task_end(x.n->e, &x.w.task);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		NODE_TEST(condition_writer__writes_it_and_repeats_its_heartbeat),
		NODE_TEST(condition_writer__begins_with_a_heartbeat_where_our_condition_exists),
		NODE_TEST(condition_writer__writes_a_fault_at_once_and_other_texts_later),
		NODE_TEST(condition_writer__writes_nothing_while_the_state_is_unknown),
		NODE_TEST(condition_writer__waits_for_the_node),
		NODE_TEST(condition_writer__writes_a_new_node_at_once),
		NODE_TEST(condition_writer__trusts_the_condition_in_the_answer),
		NODE_TEST(condition_writer__backs_off_where_others_change_the_condition),
		NODE_TEST(condition_writer__forgets_a_conflict_after_a_time_without_changes),
		NODE_TEST(
			condition_writer__keeps_the_condition_of_others_where_no_repair_is_needed),
		NODE_TEST(condition_writer__reports_a_refusal_and_delays_later_writes),
		NODE_TEST(condition_writer__without_a_type_writes_nothing),
	};

	return cmocka_run_group_tests_name("condition-writer", tests, NULL, NULL);
}
