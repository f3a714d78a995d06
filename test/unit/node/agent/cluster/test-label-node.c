/* SPDX-License-Identifier: Apache-2.0 */

/* Labels on our Node: when they are patched, and the reaction to other writers. */
#include "unit/node/agent/api/node-env.h"

#include "node/agent/cluster/label-writer.h"

#define NODE(uid, labels, record)                             \
	"{'metadata':{'uid':'" uid "','labels':{" labels "}," \
	"'annotations':{'gpuslice.io/labels':'" record "'}}}"
#define BARE    NODE("u-1", "'x':'y'", "")
#define WRITTEN NODE("u-1", "'nvidia.com/a':'1'", "nvidia.com/a")
#define PATCHED \
	STEP("PATCH /api/v1/nodes/" NODE_NAME "?fieldManager=gpusliced ", "200 OK", "{}")

struct fought {
	unsigned calls;
	uint32_t rounds;
};

static void on_label_conflict(void *arg, uint32_t rounds)
{
	struct fought *f = arg;

	f->calls++;
	f->rounds = rounds;
}

static void open_writer(struct label_writer *w, struct node_env *n)
{
	label_writer_init(w, &n->e->loop, LABELS_NODE);
	w->task.api = n->e->api;
	w->node = n->node;
}

static void end_writer(struct label_writer *w, struct node_env *n)
{
	label_writer_close(w);
	run_for_ms(n->e, 1);
	label_writer_fini(w);
}

static const struct step patched[] = { PATCHED };

/* nvidia.com/a=1 has been written to our Node. */
static void start_written(struct label_writer *w, struct node_env *n)
{
	node_env_watch(n, BARE, NULL);
	open_writer(w, n);
	stub_script(n->e, patched, 1);
	label_writer_set(w, labels_of("nvidia.com/a=1"), "");
	task_settle(n->e, &w->task);
	assert_int_equal(w->writes, 1);
	node_env_send_event(n, WRITTEN);
}

static bool is_writer_waiting(const struct label_writer *w)
{
	return uv_is_active((const uv_handle_t *)&w->task.timer);
}

/* --- writing --- */

static void label_writer_node__patches_changes_then_sends_nothing(void **state)
{
	struct node_env *n = *state;
	struct label_writer w;

	node_env_watch(n, BARE, NULL);
	open_writer(&w, n);
	SCRIPT(n->e, PATCHED);
	label_writer_set(&w, labels_of("nvidia.com/a=1"), "");
	task_settle(n->e, &w.task);
	assert_json(request_body(n->e, 0),
		"{'metadata':{'labels':{'nvidia.com/a':'1'},"
		"'annotations':{'gpuslice.io/labels':'nvidia.com/a'}}}");
	assert_non_null(strstr(n->e->seen[0], "Content-Type: " API_MERGE_PATCH "\r\n"));
	assert_int_equal(w.writes, 1);
	assert_true(w.written && w.written_wall_ns > 0);
	/* The watch has not shown the change yet: until then the Node seems unchanged. */
	assert_in_range(task_due_ms(&w.task), 1000, 2000);
	node_env_send_event(n, WRITTEN);
	task_skip(&w.task);
	task_settle(n->e, &w.task);
	assert_int_equal(n->e->requests, 1);
	assert_false(is_writer_waiting(&w));
	end_writer(&w, n);
}

static void label_writer_node__sends_no_existing_label(void **state)
{
	struct node_env *n = *state;
	struct label_writer w;

	node_env_watch(n, WRITTEN, NULL);
	open_writer(&w, n);
	label_writer_set(&w, labels_of("nvidia.com/a=1"), "");
	task_settle(n->e, &w.task);
	assert_true(w.written);
	assert_int_equal(w.writes, 0);
	assert_int_equal(n->e->requests, 2); /* list and watch */
	end_writer(&w, n);
}

static void label_writer_node__waits_for_the_node(void **state)
{
	struct node_env *n = *state;
	struct label_writer w;

	open_writer(&w, n); /* nothing is known of it */
	label_writer_set(&w, labels_of("nvidia.com/a=1"), "");
	task_settle(n->e, &w.task);
	node_env_watch(n, NULL, NULL);
	w.node = n->node;
	task_poke(&w.task);
	task_settle(n->e, &w.task);
	assert_int_equal(n->e->requests, 2);
	assert_int_equal(w.task.last_error.code, ERR_NONE); /* it may come at any moment */
	SCRIPT(n->e, PATCHED);
	node_env_send_event(n, BARE);
	task_poke(&w.task);
	task_settle(n->e, &w.task);
	assert_int_equal(w.writes, 1);
	end_writer(&w, n);
}

static void label_writer_node__writes_changes_made_during_a_request(void **state)
{
	struct node_env *n = *state;
	struct label_writer w;

	node_env_watch(n, BARE, NULL);
	open_writer(&w, n);
	SCRIPT(n->e, { .silent = true }, PATCHED);
	label_writer_set(&w, labels_of("nvidia.com/a=1"), "");
	run(n->e, &n->e->requests, 1);
	label_writer_set(&w, labels_of("nvidia.com/a=2"), "");
	stub_send(n->e, ANSWER("200 OK", "{}"));
	stub_hang_up(n->e);
	run(n->e, &n->e->requests, 2); /* at once */
	task_settle(n->e, &w.task);
	assert_non_null(strstr(n->e->seen[1], "\"nvidia.com/a\":\"2\""));
	assert_true(w.written);
	assert_int_equal(w.writes, 2);
	assert_int_equal(w.drift.failures, 0);
	end_writer(&w, n);
}

static void label_writer_set__ends_an_idle_wait_and_no_wait_after_a_failure(void **state)
{
	struct node_env *n = *state;
	struct label_writer w;

	start_written(&w, n);
	label_writer_set(&w, labels_of("nvidia.com/a=1"), ""); /* the same again */
	assert_in_range(task_due_ms(&w.task), 500, 2000);
	assert_int_equal(w.generation, 1);
	SCRIPT(n->e, STEP("PATCH ", "403 Forbidden", "{}"));
	label_writer_set(&w, labels_of("nvidia.com/a=2"), "");
	task_settle(n->e, &w.task);
	assert_int_equal(n->e->requests, 1);
	assert_true(task_is_fault(&w.task));
	assert_string_equal(w.task.logged_error, w.task.last_error.msg);
	label_writer_set(&w, labels_of("nvidia.com/a=3"), "");
	assert_true(task_due_ms(&w.task) > 50000);
	end_writer(&w, n);
}

/* A restart of the agent alone must not write to each Node of a fleet. */
static void label_writer_set__ignores_a_new_timestamp(void **state)
{
	struct node_env *n = *state;
	struct label_writer w;

	node_env_watch(n, BARE, NULL);
	open_writer(&w, n);
	label_writer_set(&w, labels_of("nvidia.com/a=1,nvidia.com/gfd.timestamp=1"), "");
	label_writer_set(&w, labels_of("nvidia.com/a=1,nvidia.com/gfd.timestamp=2"), "");
	assert_int_equal(w.generation, 1);
	label_writer_set(&w, labels_of("nvidia.com/a=2,nvidia.com/gfd.timestamp=2"), "");
	assert_int_equal(w.generation, 2);
	end_writer(&w, n);
}

static void label_writer_node__logs_a_conflict_only_when_it_continues(void **state)
{
	struct node_env *n = *state;
	struct label_writer w;

	node_env_watch(n, BARE, NULL);
	open_writer(&w, n);
	SCRIPT(n->e, STEP("PATCH ", "409 Conflict", "{}"));
	label_writer_set(&w, labels_of("nvidia.com/a=1"), "");
	for (unsigned i = 1; i <= 4; i++) {
		task_settle(n->e, &w.task);
		assert_int_equal(n->e->requests, i);
		assert_int_equal(*w.task.logged_error != '\0', i >= 4);
		assert_false(task_is_fault(&w.task));
		task_skip(&w.task);
	}
	end_writer(&w, n);
}

/* --- other writers --- */

/* Another client removes our label again. Returns for how long the agent leaves that, in ms. */
static uint64_t remove_our_label(struct label_writer *w, struct node_env *n)
{
	uint64_t ms = 0;

	if (is_writer_waiting(w)) /* for the watch to report our own change */
		task_skip(&w->task);
	task_settle(n->e, &w->task);
	node_env_send_event(n, BARE);
	stub_script(n->e, patched, 1);
	task_poke(&w->task);
	task_settle(n->e, &w->task);
	if (n->e->requests == 0) {
		ms = task_due_ms(&w->task);
		task_skip(&w->task);
		task_settle(n->e, &w->task);
	}
	assert_int_equal(n->e->requests, 1);
	node_env_send_event(n, WRITTEN);
	return ms;
}

static void label_writer_node__backs_off_its_repairs(void **state)
{
	struct node_env *n = *state;
	struct fought f = { .calls = 0 };
	struct label_writer w;

	start_written(&w, n);
	w.on_conflict = on_label_conflict;
	w.arg = &f;
	assert_int_equal(remove_our_label(&w, n), 0); /* a person with kubectl */
	for (unsigned i = 1; i < 8; i++) {
		const uint64_t max = 1000U << i;
		uint64_t ms = remove_our_label(&w, n);

		assert_in_range(ms, max / 2 - 400, max);
		assert_int_equal(f.calls, i + 1 >= LABEL_ROUNDS_REPORTED);
	}
	assert_int_equal(f.rounds, LABEL_ROUNDS_REPORTED);
	/* After a time of peace it is at once again. */
	task_skip(&w.task);
	task_settle(n->e, &w.task);
	clock_skip(601 * NS_PER_SEC);
	assert_int_equal(remove_our_label(&w, n), 0);
	assert_int_equal(w.drift.failures, 1);
	end_writer(&w, n);
}

static void label_writer_node__counts_a_new_node_as_no_conflict(void **state)
{
	struct node_env *n = *state;
	struct label_writer w;

	start_written(&w, n);
	(void)remove_our_label(&w, n);
	(void)remove_our_label(&w, n);
	SCRIPT(n->e, PATCHED);
	node_env_send_event(n, NULL);
	node_env_send_event(n, NODE("u-2", "", ""));
	task_skip(&w.task);
	task_settle(n->e, &w.task);
	assert_int_equal(n->e->requests, 1);
	assert_int_equal(w.drift.failures, 2);
	assert_string_equal(w.uid, "u-2");
	end_writer(&w, n);
}

static void label_writer_node__counts_its_own_change_as_no_conflict(void **state)
{
	struct node_env *n = *state;
	struct label_writer w;

	start_written(&w, n);
	SCRIPT(n->e, PATCHED);
	label_writer_set(&w, labels_of("nvidia.com/a=2"), "");
	task_settle(n->e, &w.task);
	/* The watch reports the former Node once more, within the time that the writer allows. */
	node_env_send_event(n, BARE);
	task_poke(&w.task);
	assert_true(task_due_ms(&w.task) > 1000);
	assert_int_equal(w.drift.failures, 0);
	end_writer(&w, n);
}

/* --- nowhere --- */

static void label_writer_off__does_nothing(void **state)
{
	struct node_env *n = *state;
	struct label_writer w;

	label_writer_init(&w, &n->e->loop, LABELS_OFF);
	w.task.api = n->e->api;
	label_writer_set(&w, labels_of("nvidia.com/a=1"), "");
	assert_null(w.desired_labels);
	task_poke(&w.task); /* the Node has changed */
	task_settle(n->e, &w.task);
	assert_int_equal(n->e->requests, 0);
	end_writer(&w, n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		NODE_TEST(label_writer_node__patches_changes_then_sends_nothing),
		NODE_TEST(label_writer_node__sends_no_existing_label),
		NODE_TEST(label_writer_node__waits_for_the_node),
		NODE_TEST(label_writer_node__writes_changes_made_during_a_request),
		NODE_TEST(label_writer_set__ends_an_idle_wait_and_no_wait_after_a_failure),
		NODE_TEST(label_writer_set__ignores_a_new_timestamp),
		NODE_TEST(label_writer_node__logs_a_conflict_only_when_it_continues),
		NODE_TEST(label_writer_node__backs_off_its_repairs),
		NODE_TEST(label_writer_node__counts_a_new_node_as_no_conflict),
		NODE_TEST(label_writer_node__counts_its_own_change_as_no_conflict),
		NODE_TEST(label_writer_off__does_nothing),
	};

	return cmocka_run_group_tests_name("label-node", tests, NULL, NULL);
}
