/* SPDX-License-Identifier: Apache-2.0 */

/* GPU clients that are paused while a GPU loses something, waited for, and brought back. */
#include "unit/node/agent/mig/mig-cluster.h"

#define MODE "planned 0 2 '\"enable\"'\n"
#define MORE "planned 1 1 null '{\"gi\":7,\"ci\":0}'\n"
#define USED "finish false unavailable 'in use by process 7'\n"

static const char *get_deploy_label(const struct mig_cluster *c, const char *label)
{
	char key[128];

	(void)snprintf(key, sizeof(key), DEPLOY "%s", label);
	return mig_cluster_get(c, key);
}

static void mig_pause__waits_for_clients_and_restores_their_labels(void **state)
{
	struct mig_cluster *c = *state;

	mig_cluster_node(c,
		MIG_LABEL "=a " DEPLOY "dcgm=true " DEPLOY "client=team-a " DEPLOY
			  "nvsm=false " DEPLOY "device-plugin=true",
		"");
	mig_cluster_pods(c,
		"[{\"metadata\":{\"namespace\":\"gpu\",\"name\":\"gpusliced-1\"},\"spec\":{"
		"\"nodeSelector\":{\"" DEPLOY
		"device-plugin\":\"true\"}}}," POD("dcgm-1", "dcgm") "]");
	mig_cluster_begin(c);
	mig_env_until(c->m, *c->m->mig.attempt.awaited_pod && c->lists > 2);
	assert_string_equal(c->m->mig.attempt.awaited_pod, "ops/dcgm-1");
	assert_int_equal(c->m->mig.phase, MIG_PAUSE);
	assert_string_equal(get_deploy_label(c, "dcgm"), PAUSED);
	assert_string_equal(get_deploy_label(c, "client"), PAUSED);
	assert_string_equal(get_deploy_label(c, "nvsm"), "false");
	assert_string_equal(get_deploy_label(c, "device-plugin"),
		"true"); /* our own pod needs it */
	assert_string_equal(mig_cluster_get(c, MIG_STATE_LABEL), "pending");
	assert_calls(c->m, "plan a\nholders\n");
	assert_false(c->m->mig.attempt.masked);
	mig_cluster_pods(c, "[]");
	mig_cluster_wait(c, "success");
	mig_env_until(c->m, strcmp(get_deploy_label(c, "dcgm"), "true") == 0);
	assert_string_equal(get_deploy_label(c, "client"), "team-a");
	assert_string_equal(mig_cluster_note(c, MIG_PAUSED_OLD), "");
	assert_string_equal(c->states, "pending success ");
	assert_calls(c->m, "plan a\nholders\nholders\nrelease\napply a\n");
}

static void mig_pause__runs_only_where_a_device_is_removed_and_a_client_runs(void **state)
{
	static const struct {
		const char *labels, *plan;
		bool asked;
	} cases[] = {
		{ " " DEPLOY "dcgm=true", MODE, true },
		{ " " DEPLOY "dcgm=" PAUSED, MODE, true }, /* by an agent before us */
		{ " " DEPLOY "dcgm=true", MORE, false },
		{ " " DEPLOY "dcgm=false", MODE, false },
		{ " " DEPLOY "dcgm=", MODE, false },
		{ " " DEPLOY "driver=true", MODE, false },
		{ "", MODE, false },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct mig_cluster *c = mig_cluster_another(state);
		char labels[256];

		(void)snprintf(labels, sizeof(labels), MIG_LABEL "=a%s", cases[i].labels);
		mig_cluster_node(c, labels, "");
		mig_env_write(c->m, "plan", cases[i].plan);
		mig_cluster_run(c);
		assert_ended(c->m, "success", "a: applied");
		if ((c->lists > 0) != cases[i].asked)
			fail_msg("row %zu: pods were listed %u times", i, c->lists);
		assert_int_equal(c->m->mig.attempt.paused, cases[i].asked);
		assert_string_not_equal(get_deploy_label(c, "dcgm"), PAUSED);
	}
}

static void mig_pause__fails_when_clients_do_not_end(void **state)
{
	static const struct {
		unsigned status;
		const char *reason;
	} cases[] = {
		{ 0, "GPU clients did not go in time: waited for ops/dcgm-1" },
		{ 500, "GPU clients did not go in time: waited for GET" },
		{ 403, "refused" }, /* that does not pass */
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct mig_cluster *c = mig_cluster_another(state);

		mig_cluster_node(c, MIG_LABEL "=a " DEPLOY "dcgm=true", "");
		mig_cluster_pods(c, "[" POD("dcgm-1", "dcgm") "]");
		mig_cluster_begin(c);
		c->pods_status = cases[i].status;
		mig_env_until(c->m, c->lists > 1 || mig_env_attempted(c->m));
		if (!mig_env_attempted(c->m))
			mig_env_until(c->m, *c->m->mig.attempt.awaited_pod);
		mig_env_until(c->m,
			c->pods_status || !strcmp(get_deploy_label(c, "dcgm"), PAUSED));
		c->m->mig.clients_ns = 0;
		mig_cluster_wait(c, "failed");
		assert_ended(c->m, "failed", cases[i].reason);
		mig_env_until(c->m, strcmp(get_deploy_label(c, "dcgm"), "true") == 0);
		/* The attempt changed nothing but the clients. */
		assert_calls(c->m, "plan a\nholders\n");
		assert_int_equal(c->m->probes, 0);
	}
}

static void mig_pause__does_not_wait_for_pods_that_are_no_clients(void **state)
{
	struct mig_cluster *c = *state;

	mig_cluster_node(c, MIG_LABEL "=a " DEPLOY "dcgm=true " DEPLOY "nvsm=false", "");
	mig_cluster_pods(c,
		"[" POD("nvsm-1",
			"nvsm") ","
				"{\"metadata\":{\"namespace\":\"ml\",\"name\":\"train\"}},"
				"{\"metadata\":{\"namespace\":\"ops\",\"name\":\"old\"},\"status\":{"
				"\"phase\":\"Failed\"},\"spec\":{\"nodeSelector\":{\"" DEPLOY
				"dcgm\":\"true\"}}},1]");
	mig_cluster_run(c);
	assert_ended(c->m, "success", "a: applied");
	assert_true(c->m->mig.attempt.paused);
}

/* The process that uses the GPU may be a client. The agent finds out by pausing the clients, and only then. */
static void mig_pause__runs_once_for_a_device_in_use(void **state)
{
	struct mig_cluster *c = *state;

	mig_cluster_node(c, MIG_LABEL "=a " DEPLOY "dcgm=true", "");
	mig_env_write(c->m, "plan", USED);
	mig_cluster_run(c);
	assert_ended(c->m, "failed", "in use by process 7");
	assert_calls(c->m, "plan a\nplan a\n"); /* and once more when they ended */
	assert_true(c->lists > 0);
	assert_string_equal(get_deploy_label(c, "dcgm"), "true");
	/* None of the clients used the GPU, so the retry does not pause them again. */
	c->lists = 0;
	c->m->mig.outcome.retry_at_ns = 1;
	mig_sync(&c->m->mig);
	mig_env_retry(c->m);
	assert_int_equal(c->lists, 0);
	assert_int_equal(mig_env_count(c->m, "plan a"), 3);
	/* The agent pauses them for another layout. */
	mig_cluster_label(c, MIG_LABEL, "b");
	mig_env_until(c->m, mig_env_count(c->m, "plan b") == 2);
	assert_true(c->lists > 0);
}

static void mig_pause__continues_where_a_client_used_the_device(void **state)
{
	struct mig_cluster *c = *state;

	mig_cluster_node(c, MIG_LABEL "=a " DEPLOY "dcgm=true", "");
	c->m->holder[0] = "GPU-0";
	mig_cluster_run(c);
	assert_ended(c->m, "success", "a: applied");
	assert_calls(c->m, "plan a\nholders\nholders\nrelease\napply a\n");
	/* A device that a pod has is in use if there are no clients, or if they were paused. */
	c->m->holder[1] = "GPU-0";
	mig_cluster_label(c, MIG_LABEL, "b");
	mig_cluster_wait(c, "failed");
	assert_ended(c->m, "failed", "in use by pod ml/train-0");
}

static void mig_pause__begins_again_with_another_label_and_ends_without_one(void **state)
{
	struct mig_cluster *c = *state;

	mig_cluster_node(c, MIG_LABEL "=a " DEPLOY "dcgm=true", "");
	mig_cluster_pods(c, "[" POD("dcgm-1", "dcgm") "]");
	mig_cluster_begin(c);
	mig_env_until(c->m, c->m->mig.phase == MIG_PAUSE && c->lists > 1);
	mig_cluster_label(c, MIG_LABEL, "b");
	mig_env_until(c->m, !strcmp(mig_cluster_note(c, MIG_REASON), "b: being applied"));
	assert_int_equal(mig_env_count(c->m, "plan b"), 1);
	mig_env_until(c->m, c->m->mig.phase == MIG_PAUSE);
	mig_cluster_label(c, MIG_LABEL, NULL);
	mig_env_until(c->m, !strcmp(get_deploy_label(c, "dcgm"), "true"));
	mig_env_until(c->m, !*mig_cluster_get(c, MIG_STATE_LABEL));
	assert_string_equal(mig_cluster_note(c, MIG_REASON), "");
	assert_int_equal(c->m->mig.phase, MIG_REST);
	assert_int_equal(mig_env_count(c->m, "apply a") + mig_env_count(c->m, "apply b"), 0);
}

static void mig_pause__runs_again_on_a_recreated_node(void **state)
{
	struct mig_cluster *c = *state;

	mig_cluster_node(c, MIG_LABEL "=a " DEPLOY "dcgm=true", "");
	mig_cluster_pods(c, "[" POD("dcgm-1", "dcgm") "]");
	mig_cluster_begin(c);
	mig_env_until(c->m, !strcmp(get_deploy_label(c, "dcgm"), PAUSED));
	mig_cluster_delete_node(c);
	mig_env_until(c->m, node_object_state(c->m->link.node) == NODE_ABSENT);
	assert_int_equal(c->m->mig.phase, MIG_PAUSE);
	mig_cluster_node(c, MIG_LABEL "=a " DEPLOY "dcgm=true", "");
	mig_env_until(c->m, !strcmp(get_deploy_label(c, "dcgm"), PAUSED));
	mig_cluster_pods(c, "[]");
	mig_cluster_wait(c, "success");
	mig_env_until(c->m, !strcmp(get_deploy_label(c, "dcgm"), "true"));
}

/* --- the GPU operator's validators --- */

static const char validator_pods[] =
	"[{\"metadata\":{\"name\":\"v-1\",\"labels\":{\"app\":\"nvidia-cuda-validator\"}}},"
	"{\"metadata\":{\"name\":\"toolkit\",\"labels\":{\"app\":\"nvidia-container-toolkit\"}}},"
	"{\"metadata\":{\"labels\":{\"app\":\"nvidia-cuda-validator\"}}},{},"
	"{\"metadata\":{\"name\":\"v-2\",\"labels\":{\"app\":\"nvidia-operator-validator\"}}}]";

static void mig_validators__run_again_after_clients_were_paused(void **state)
{
	static const struct {
		const char *namespace_, *label, *deleted;
	} cases[] = {
		{ "gpu-operator", "dcgm=true", "v-2 v-1 " },
		{ "gpu-operator", "dcgm=false", "" },
		{ "", "dcgm=true", "" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct mig_cluster *c = mig_cluster_another(state);
		char labels[256];

		(void)snprintf(labels, sizeof(labels), MIG_LABEL "=a " DEPLOY "%s",
			cases[i].label);
		c->m->options.operator_namespace = cases[i].namespace_;
		mig_cluster_node(c, labels, "");
		mig_cluster_pods(c, validator_pods);
		mig_cluster_run(c);
		assert_ended(c->m, "success", "a: applied");
		mig_env_until(c->m, c->m->mig.validators.step == MIG_VALIDATORS_DONE);
		assert_string_equal(c->deleted, cases[i].deleted);
	}
}

static void mig_validators__are_retried_unless_they_were_removed(void **state)
{
	struct mig_cluster *c = *state;

	c->m->options.operator_namespace = "gpu-operator";
	mig_cluster_node(c, MIG_LABEL "=a " DEPLOY "dcgm=true", "");
	mig_cluster_pods(c, validator_pods);
	c->delete_status = 500;
	mig_cluster_run(c);
	mig_env_until(c->m, c->failures > 2);
	assert_int_equal(c->m->mig.validators.pods.n, 2);
	c->delete_status = 404;
	mig_env_until(c->m, c->m->mig.validators.step == MIG_VALIDATORS_DONE);
	assert_string_equal(c->deleted, "");
	assert_ended(c->m, "success", "a: applied"); /* whatever becomes of them */
}

static void rerun_validators_once(struct mig_cluster *c)
{
	c->on_delete = NULL;
	mig_node_rerun_validators(&c->m->mig);
}

static void mig_validators__run_again_for_each_change(void **state)
{
	struct mig_cluster *c = *state;

	c->m->options.operator_namespace = "gpu-operator";
	mig_cluster_node(c, MIG_LABEL "=a " DEPLOY "dcgm=true", "");
	mig_cluster_pods(c, validator_pods);
	c->on_delete = rerun_validators_once;
	mig_cluster_run(c);
	mig_env_until(c->m, c->m->mig.validators.step == MIG_VALIDATORS_DONE);
	assert_string_equal(c->deleted, "v-2 v-2 v-1 "); /* the server still lists v-2 */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CLUSTER_TEST(mig_pause__waits_for_clients_and_restores_their_labels),
		CLUSTER_TEST(mig_pause__runs_only_where_a_device_is_removed_and_a_client_runs),
		CLUSTER_TEST(mig_pause__fails_when_clients_do_not_end),
		CLUSTER_TEST(mig_pause__does_not_wait_for_pods_that_are_no_clients),
		CLUSTER_TEST(mig_pause__runs_once_for_a_device_in_use),
		CLUSTER_TEST(mig_pause__continues_where_a_client_used_the_device),
		CLUSTER_TEST(mig_pause__begins_again_with_another_label_and_ends_without_one),
		CLUSTER_TEST(mig_pause__runs_again_on_a_recreated_node),
		CLUSTER_TEST(mig_validators__run_again_after_clients_were_paused),
		CLUSTER_TEST(mig_validators__are_retried_unless_they_were_removed),
		CLUSTER_TEST(mig_validators__run_again_for_each_change),
	};

	return cmocka_run_group_tests_name("mig-clients", tests, NULL, NULL);
}
