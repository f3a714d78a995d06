/* SPDX-License-Identifier: Apache-2.0 */

/* What the agent makes of our Node: the startup taint, the condition and the labels, by the facts of the moment. */
#include "unit/node/agent/cluster/cluster-env.h"

#include "lib/base/fd.h"

#include <unistd.h>

#define OURS        "{'key':'" TAINT "','effect':'NoSchedule'}"
#define THEIRS      "{'key':'node.kubernetes.io/not-ready','effect':'NoExecute'}"
#define NODE(spec)  "{'metadata':{'uid':'u-1'},'spec':{" spec "}}"
#define TAINTED     NODE("'taints':[" OURS "," THEIRS "]")
#define UNTAINTED   NODE("'taints':[" THEIRS "]")
#define PATCH_TAINT "PATCH /api/v1/nodes/" NODE_NAME "?fieldManager=gpusliced "

static struct env *env_of(const struct cluster_env *x)
{
	return x->n->e;
}

/* --- the startup taint --- */

static void open_tainted(struct cluster_env *x)
{
	x->context.options.startup_taint = TAINT;
	cluster_env_open(x, TAINTED);
}

static void sync_taint(struct cluster_env *x)
{
	cluster_sync(&x->c);
	task_settle(env_of(x), &x->c.taint);
}

static void cluster_sync__removes_our_taint_alone_once_the_node_is_ready(void **state)
{
	struct cluster_env *x = *state;

	open_tainted(x);
	SCRIPT(env_of(x), STEP(PATCH_TAINT, "200 OK", "{}"));
	sync_taint(x);
	assert_int_equal(env_of(x)->requests, 0);
	assert_int_equal(x->c.taint_removed_wall_ns, 0);
	x->ready = true;
	sync_taint(x);
	assert_json(request_body(env_of(x), 0),
		"[{'op':'test','path':'/spec/taints','value':[" OURS "," THEIRS "]},"
		"{'op':'replace','path':'/spec/taints','value':[" THEIRS "]}]");
	assert_non_null(strstr(env_of(x)->seen[0], "Content-Type: " API_JSON_PATCH "\r\n"));
	assert_true(x->c.taint_removed_wall_ns > 0);
	/* The agent sends nothing without the taint, whatever changes. */
	node_env_send_event(x->n, UNTAINTED);
	task_settle(env_of(x), &x->c.taint);
	node_env_send_event(x->n, NODE(""));
	task_settle(env_of(x), &x->c.taint);
	assert_int_equal(env_of(x)->requests, 1);
	/* Another client sets the taint again: the agent removes it again. */
	node_env_send_event(x->n, TAINTED);
	task_settle(env_of(x), &x->c.taint);
	assert_int_equal(env_of(x)->requests, 2);
}

static void cluster_sync__leaves_the_taint_of_a_node_that_is_not_ready(void **state)
{
	struct cluster_env *x = *state;

	open_tainted(x);
	SCRIPT(env_of(x), STEP(PATCH_TAINT, "409 Conflict", "{}"));
	x->ready = true;
	sync_taint(x);
	assert_int_equal(env_of(x)->requests, 1);
	x->ready = false; /* the kubelet has restarted meanwhile */
	task_skip(&x->c.taint);
	task_settle(env_of(x), &x->c.taint);
	assert_int_equal(env_of(x)->requests, 1);
}

static void cluster__reads_the_node_again_where_the_taints_changed_meanwhile(void **state)
{
	static const char *const collisions[] = { ANSWER("409 Conflict", "{}"),
		ANSWER("422 Unprocessable", "{}") };
	struct cluster_env *x = *state;

	open_tainted(x);
	x->ready = true;
	for (size_t i = 0; i < ARRAY_LEN(collisions); i++) {
		SCRIPT(env_of(x), { .answer = collisions[i], .hang_up = true });
		x->c.taint.backoff.failures = 0;
		for (unsigned k = 1; k <= 4; k++) {
			if (k > 1 || i > 0)
				task_skip(&x->c.taint);
			else
				cluster_sync(&x->c);
			task_settle(env_of(x), &x->c.taint);
			assert_int_equal(env_of(x)->requests, k);
			/* The agent does not log it until it continues. */
			assert_int_equal(*x->c.taint.logged_error != '\0', k >= 4);
		}
		x->c.taint.logged_error[0] = '\0';
	}
	/* The Node as it is now. */
	SCRIPT(env_of(x), STEP(PATCH_TAINT, "200 OK", "{}"));
	node_env_send_event(x->n, NODE("'taints':[" OURS "]"));
	task_skip(&x->c.taint);
	task_settle(env_of(x), &x->c.taint);
	assert_json(request_body(env_of(x), 0),
		"[{'op':'test','path':'/spec/taints','value':[" OURS "]},"
		"{'op':'replace','path':'/spec/taints','value':[]}]");
	assert_int_equal(x->c.taint.last_error.code, ERR_NONE);
}

static void cluster_taint_down__reports_a_missing_permission_and_no_conflict(void **state)
{
	static const struct {
		const char *answer;
		bool down;
	} rows[] = {
		{ ANSWER("403 Forbidden", "{}"), true },
		{ ANSWER("404 Not Found", "{}"), true },
		{ ANSWER("500 No", "{}"),
			false }, /* the server's own: api-server is degraded */
		{ ANSWER("422 Unprocessable", "{}"), false },
		{ ANSWER("200 OK", "{}"), false },
	};
	struct cluster_env *x = *state;

	open_tainted(x);
	x->ready = true;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		SCRIPT(env_of(x), { .answer = rows[i].answer, .hang_up = true });
		x->c.taint.logged_error[0] = '\0';
		backoff_reset(&x->c.taint.backoff);
		task_wait(&x->c.taint, 0);
		task_settle(env_of(x), &x->c.taint);
		assert_int_equal(env_of(x)->requests, 1);
		if ((cluster_taint_down(&x->c) != NULL) != rows[i].down)
			fail_msg("row %zu", i);
	}
}

/* --- the condition --- */

static void sync_condition(struct cluster_env *x)
{
	cluster_sync(&x->c);
	task_settle(env_of(x), &x->c.condition.task);
}

static void cluster_sync__writes_the_condition_of_the_gpus(void **state)
{
	static const struct step good[] = { STEP("/status?", "200 OK", "{}") };
	static const struct step bad[] = { STEP("/status?", "403 Forbidden", "{}") };
	struct cluster_env *x = *state;

	x->context.options.node_condition = CONDITION;
	cluster_env_open(x, NODE(""));
	stub_script(env_of(x), good, 1);
	sync_condition(x); /* NVML was not read yet */
	assert_int_equal(env_of(x)->requests, 0);
	cluster_env_know(x, 2, GPU_OK);
	sync_condition(x);
	assert_int_equal(env_of(x)->requests, 1);
	assert_non_null(strstr(env_of(x)->seen[0], "\"status\":\"True\""));
	stub_script(env_of(x), bad, 1);
	cluster_env_know(x, 2, GPU_FAULT_LOST);
	sync_condition(x);
	assert_non_null(strstr(env_of(x)->seen[0], "\"reason\":\"GPULost\""));
	assert_int_equal(x->f->components[COMPONENT_NODE_CONDITION].code, ERR_PERMISSION);
	stub_script(env_of(x), good, 1);
	task_skip(&x->c.condition.task);
	task_settle(env_of(x), &x->c.condition.task);
	assert_int_equal(x->f->components[COMPONENT_NODE_CONDITION].code, ERR_NONE);
	/* Another client changes the condition back. For the agent that alone is no change of the Node. */
	node_env_send(x->n,
		"{'metadata':{'uid':'u-1'},'spec':{},'status':{'conditions':[{'type':"
		"'" CONDITION "','status':'True','reason':'x','message':'y'}]}}");
	cluster_env_until(x, node_object_condition(x->c.link.node));
	assert_int_equal(x->changed, 1);
	assert_in_range(task_due_ms(&x->c.condition.task), 1, 10000);
}

static void cluster_sync__without_a_name_writes_no_condition(void **state)
{
	struct cluster_env *x = *state;

	cluster_env_open(x, NODE(""));
	SCRIPT(env_of(x), STEP(NULL, "200 OK", "{}"));
	cluster_env_know(x, 1, GPU_FAULT_LOST);
	sync_condition(x);
	assert_int_equal(env_of(x)->requests, 0);
}

/* --- labels --- */

/* The agent writes the labels to a file, without an API server. */
static void init_file_labels(struct cluster_env *x)
{
	char path[PATH_MAX];
	struct error err = ERROR_INIT;
	struct config *c = x->f->facts.config;

	x->context.options =
		(struct cluster_options){ .node_name = NODE_NAME, .labels = LABELS_FILE };
	assert_ok(path_join(path, sizeof(path), x->f->dir, "gfd", &err), &err);
	free(c->gfd.output_file);
	c->gfd.output_file = strdup(path);
	assert_ok(path_join(path, sizeof(path), x->f->dir, "machine", &err), &err);
	free(c->gfd.machine_type_file);
	c->gfd.machine_type_file = strdup(path);
	test_write(x->f->dir, "machine", "DGX\n", 4, 0644);
	cluster_env_init(x);
	cluster_start(&x->c);
}

static bool has_file(const struct cluster_env *x)
{
	return access(x->f->facts.config->gfd.output_file, F_OK) == 0;
}

static void assert_labelled(const struct cluster_env *x, const char *line)
{
	struct buf b = BUF_INIT(64U << 10);
	struct error err = ERROR_INIT;

	assert_ok(file_read(x->f->facts.config->gfd.output_file, &b, &err), &err);
	if (!strstr(buf_str(&b), line))
		fail_msg("expected %s in %s", line, buf_str(&b));
	buf_fini(&b);
}

static void sync_labels(struct cluster_env *x)
{
	cluster_sync(&x->c);
	cluster_env_until(x, !uv_is_active((uv_handle_t *)&x->c.label_state.timer));
	task_settle(env_of(x), &x->c.labels.task);
}

static void cluster_labels__are_built_from_facts_and_decisions(void **state)
{
	struct cluster_env *x = *state;
	struct facts *facts = &x->f->facts;

	init_file_labels(x);
	assert_int_equal(x->api_unavailable, 1);
	sync_labels(x); /* nothing is known */
	assert_false(has_file(x));
	cluster_env_know(x, 2, GPU_OK);
	facts->decided = false;
	sync_labels(x);
	assert_false(has_file(x));
	facts->decided = true;
	sync_labels(x);
	assert_labelled(x, "nvidia.com/gpu.count=2\n");
	assert_labelled(x, "nvidia.com/gpu.machine=DGX\n");
	assert_labelled(x, "nvidia.com/gfd.timestamp=1700000000\n");
}

/* Pods that run were placed by them. */
static void cluster_labels__stay_while_the_gpus_are_unknown(void **state)
{
	struct cluster_env *x = *state;
	struct facts *facts = &x->f->facts;

	init_file_labels(x);
	cluster_env_know(x, 1, GPU_OK);
	sync_labels(x);
	cluster_env_know(x, 2, GPU_OK);
	(void)error_set(&facts->nvml_down, ERR_UNAVAILABLE, "driver not loaded");
	sync_labels(x);
	assert_labelled(x, "nvidia.com/gpu.count=1\n");
	error_clear(&facts->nvml_down);
	(void)error_set(&facts->offer_error, ERR_LIMIT, "too many replicas");
	sync_labels(x);
	assert_labelled(x, "nvidia.com/gpu.count=1\n");
	assert_int_equal(cluster_labels_down(&x->c)->code, ERR_NONE);
	error_clear(&facts->offer_error);
	sync_labels(x);
	assert_labelled(x, "nvidia.com/gpu.count=2\n");
}

static void cluster_labels__read_files_of_the_node_only_when_its_gpus_change(void **state)
{
	struct cluster_env *x = *state;
	size_t n_notes;

	init_file_labels(x);
	cluster_env_know(x, 1, GPU_OK);
	sync_labels(x);
	test_write(x->f->dir, "machine", "HGX\n", 4, 0644);
	sync_labels(x);
	assert_labelled(x, "nvidia.com/gpu.machine=DGX\n");
	cluster_env_know(x, 2, GPU_OK);
	sync_labels(x);
	assert_labelled(x, "nvidia.com/gpu.machine=HGX\n");
	/* A file that is not there is noted, and the note stays as long as that is not read again. */
	n_notes = x->c.label_state.notes.n;
	free(x->f->facts.config->gfd.machine_type_file);
	x->f->facts.config->gfd.machine_type_file = strdup("/nonexistent/machine");
	sync_labels(x);
	assert_labelled(x, "nvidia.com/gpu.machine=unknown\n");
	assert_int_equal(x->c.label_state.notes.n, n_notes + 1);
	sync_labels(x);
	assert_int_equal(x->c.label_state.notes.n, n_notes + 1);
}

static void cluster_labels__are_built_once_for_several_changes_in_a_row(void **state)
{
	struct cluster_env *x = *state;

	init_file_labels(x);
	for (uint32_t n = 1; n <= 3; n++) {
		cluster_env_know(x, n, GPU_OK);
		cluster_sync(&x->c);
	}
	assert_false(has_file(x)); /* registering with the kubelet comes first */
	sync_labels(x);
	assert_labelled(x, "nvidia.com/gpu.count=3\n");
	assert_int_equal(x->c.labels.writes, 1);
}

static void cluster_labels_down__is_set_where_labels_cannot_be_written(void **state)
{
	struct cluster_env *x = *state;
	char *path;

	init_file_labels(x);
	path = x->f->facts.config->gfd.output_file;
	x->f->facts.config->gfd.output_file = strdup(x->f->dir);
	cluster_env_know(x, 1, GPU_OK);
	sync_labels(x);
	assert_int_equal(cluster_labels_down(&x->c)->code, ERR_IO);
	free(x->f->facts.config->gfd.output_file);
	x->f->facts.config->gfd.output_file = path;
	sync_labels(x);
	task_skip(&x->c.labels.task);
	task_settle(env_of(x), &x->c.labels.task);
	assert_int_equal(cluster_labels_down(&x->c)->code, ERR_NONE);
	assert_true(has_file(x));
}

static void cluster_labels__that_others_keep_changing_emit_an_event(void **state)
{
	struct cluster_env *x = *state;

	init_file_labels(x);
	x->c.labels.on_conflict(x->c.labels.arg, LABEL_ROUNDS_REPORTED);
	assert_int_equal(agent_fixture_count(x->f, "LabelConflict"), 1);
	assert_int_equal(agent_fixture_last(x->f, "LabelConflict")->type, EVENT_WARNING);
}

static void cluster_labels__are_not_built_where_they_are_off(void **state)
{
	struct cluster_env *x = *state;

	cluster_env_init(x);
	cluster_env_know(x, 1, GPU_OK);
	cluster_sync(&x->c);
	assert_false(uv_is_active((uv_handle_t *)&x->c.label_state.timer));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CLUSTER_TEST(cluster_sync__removes_our_taint_alone_once_the_node_is_ready),
		CLUSTER_TEST(cluster_sync__leaves_the_taint_of_a_node_that_is_not_ready),
		CLUSTER_TEST(cluster__reads_the_node_again_where_the_taints_changed_meanwhile),
		CLUSTER_TEST(cluster_taint_down__reports_a_missing_permission_and_no_conflict),
		CLUSTER_TEST(cluster_sync__writes_the_condition_of_the_gpus),
		CLUSTER_TEST(cluster_sync__without_a_name_writes_no_condition),
		CLUSTER_TEST(cluster_labels__are_built_from_facts_and_decisions),
		CLUSTER_TEST(cluster_labels__stay_while_the_gpus_are_unknown),
		CLUSTER_TEST(cluster_labels__read_files_of_the_node_only_when_its_gpus_change),
		CLUSTER_TEST(cluster_labels__are_built_once_for_several_changes_in_a_row),
		CLUSTER_TEST(cluster_labels_down__is_set_where_labels_cannot_be_written),
		CLUSTER_TEST(cluster_labels__that_others_keep_changing_emit_an_event),
		CLUSTER_TEST(cluster_labels__are_not_built_where_they_are_off),
	};

	return cmocka_run_group_tests_name("cluster-sync", tests, NULL, NULL);
}
