/* SPDX-License-Identifier: Apache-2.0 */

/* The label that the agent follows, what it writes onto the Node and when, reboots, and layouts from a
 * ConfigMap. */
#include "unit/node/agent/mig/mig-cluster.h"

#define RESET "finish false reset-required 'GPU 0: the mode is pending'\n"
/* Waits until mig_env_write(m, "go", ""). */
#define WAIT "while [ ! -e \"$dir/go\" ]; do sleep 0.01; done\n"

/* --- the label --- */

static void mig_node__label_is_followed_before_the_default(void **state)
{
	static const struct {
		const char *labels, *default_name, *reason;
		enum mig_desired_source by;
	} cases[] = {
		{ MIG_LABEL "=a", "d", "a: applied", MIG_DESIRED_LABEL },
		{ MIG_LABEL "=", "d", "d: applied", MIG_DESIRED_DEFAULT },
		{ "x=y", "d", "d: applied", MIG_DESIRED_DEFAULT },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct mig_cluster *c = mig_cluster_another(state);

		c->m->options.default_name = cases[i].default_name;
		mig_cluster_node(c, cases[i].labels, "");
		mig_cluster_run(c);
		assert_ended(c->m, "success", cases[i].reason);
		assert_int_equal(c->m->mig.tried.by, cases[i].by);
		assert_string_equal(c->states, "pending success ");
		assert_non_null(strstr(mig_cluster_note(c, MIG_REASON), cases[i].reason));
	}
}

/* A default that came before the label would destroy what the label wants. */
static void mig_node__default_waits_for_the_node(void **state)
{
	struct mig_cluster *c = *state;
	struct mig *m = &c->m->mig;

	c->m->options.default_name = "d";
	mig_cluster_begin(c);
	mig_env_until(c->m, node_object_state(c->m->link.node) == NODE_ABSENT);
	mig_sync(m);
	assert_string_equal(m->desired.waiting, "there is no Node of our name");
	assert_false(mig_settled(m));
	assert_calls(c->m, "");
	mig_cluster_node(c, MIG_LABEL "=a", "");
	mig_cluster_wait(c, "success");
	assert_int_equal(mig_env_count(c->m, "plan a"), 1);
	assert_int_equal(mig_env_count(c->m, "plan d"), 0);
	assert_true(mig_settled(m));
}

static void mig_node__another_label_waits_for_the_attempt_in_progress(void **state)
{
	struct mig_cluster *c = *state;

	mig_env_write(c->m, "apply", WAIT "result 0 changed\n");
	mig_cluster_node(c, MIG_LABEL "=a", "");
	mig_cluster_begin(c);
	mig_env_until(c->m, mig_env_count(c->m, "apply a") == 1);
	mig_cluster_label(c, MIG_LABEL, "b");
	mig_env_until(c->m, strcmp(c->m->mig.desired.key, c->m->mig.tried.key) != 0);
	assert_int_equal(mig_env_count(c->m, "plan b"), 0);
	mig_env_write(c->m, "go", "");
	mig_env_until(c->m, !strncmp(mig_cluster_note(c, MIG_REASON), "b: applied", 10));
	mig_cluster_wait(c, "success");
	assert_int_equal(mig_env_count(c->m, "apply b"), 1);
}

static void mig_node__label_that_changes_and_changes_back_meanwhile_did_not_change(void **state)
{
	struct mig_cluster *c = *state;

	mig_env_write(c->m, "apply", WAIT "result 0 changed\n");
	mig_cluster_node(c, MIG_LABEL "=a", "");
	mig_cluster_begin(c);
	mig_env_until(c->m, mig_env_count(c->m, "apply a") == 1);
	mig_cluster_label(c, MIG_LABEL, "b");
	mig_env_until(c->m, strcmp(c->m->mig.desired.key, c->m->mig.tried.key) != 0);
	mig_cluster_label(c, MIG_LABEL, "a");
	mig_env_until(c->m, strcmp(c->m->mig.desired.key, c->m->mig.tried.key) == 0);
	mig_env_write(c->m, "go", "");
	mig_cluster_wait(c, "success");
	mig_sync(&c->m->mig);
	assert_int_equal(c->m->mig.phase, MIG_REST);
	assert_string_equal(c->states, "pending success ");
	assert_calls(c->m, "plan a\nholders\nholders\nrelease\napply a\n");
}

static void mig_node__label_that_is_removed_meanwhile_leaves_nothing_pending(void **state)
{
	struct mig_cluster *c = *state;

	mig_env_write(c->m, "apply", WAIT "result 0 changed\n");
	mig_cluster_node(c, MIG_LABEL "=a " DEPLOY "dcgm=true", "");
	mig_cluster_begin(c);
	mig_env_until(c->m, mig_env_count(c->m, "apply a") == 1);
	mig_cluster_label(c, MIG_LABEL, NULL);
	mig_env_until(c->m, !*c->m->mig.desired.key);
	assert_int_equal(c->m->mig.phase, MIG_APPLY);
	mig_env_write(c->m, "go", "");
	mig_env_until(c->m, mig_env_attempted(c->m) && c->m->mig.phase == MIG_REST);
	mig_env_until(c->m, mig_node_is_in_sync(&c->m->mig));
	assert_string_not_equal(mig_cluster_get(c, MIG_STATE_LABEL), "pending");
	assert_string_equal(mig_cluster_get(c, DEPLOY "dcgm"), "true");
	/* The same label is a new desired state then. */
	mig_cluster_label(c, MIG_LABEL, "a");
	mig_env_until(c->m, mig_env_count(c->m, "plan a") == 2);
}

/* --- what an agent before us has left --- */

static void mig_node__without_a_label_removes_the_pending_state(void **state)
{
	static const struct {
		const char *state, *then;
	} cases[] = {
		{ "pending", "" },
		{ "rebooting", "" },
		{ "success", "success" },
		{ "failed", "failed" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct mig_cluster *c = mig_cluster_another(state);
		char labels[256];

		(void)snprintf(labels, sizeof(labels),
			MIG_STATE_LABEL "=%s " DEPLOY "dcgm=" PAUSED " " DEPLOY "nvsm=" PAUSED,
			cases[i].state);
		mig_cluster_node(c, labels,
			MIG_REASON "=old " MIG_PAUSED_OLD "=" DEPLOY "nvsm=team-a");
		mig_cluster_begin(c);
		mig_env_until(c->m, !strcmp(mig_cluster_get(c, DEPLOY "dcgm"), "true"));
		mig_env_until(c->m, mig_node_is_in_sync(&c->m->mig));
		assert_string_equal(mig_cluster_get(c, DEPLOY "nvsm"), "team-a");
		assert_string_equal(mig_cluster_get(c, MIG_STATE_LABEL), cases[i].then);
		assert_string_equal(mig_cluster_note(c, MIG_REASON),
			*cases[i].then ? "old" : "");
		assert_calls(c->m, "");
	}
}

/* --- patches --- */

static void mig_node__counts_a_state_as_reported_when_the_server_accepts_it(void **state)
{
	static const unsigned statuses[] = { 409, 422, 500 };

	for (size_t i = 0; i < ARRAY_LEN(statuses); i++) {
		struct mig_cluster *c = mig_cluster_another(state);

		mig_cluster_node(c, MIG_LABEL "=a", "");
		c->patch_status = statuses[i];
		mig_cluster_begin(c);
		/* The layout does not wait for it. */
		mig_env_until(c->m, mig_env_attempted(c->m) && c->failures > 5);
		assert_ended(c->m, "success", "a: applied");
		assert_false(mig_node_is_in_sync(&c->m->mig));
		assert_int_not_equal(c->m->mig.node.task.last_error.code, ERR_NONE);
		assert_string_not_equal(c->m->mig.node.task.logged_error,
			""); /* also a repeated 409 */
		c->patch_status = 0;
		mig_cluster_wait(c, "success");
		mig_env_until(c->m, mig_node_is_in_sync(&c->m->mig));
		assert_int_equal(c->m->mig.node.task.last_error.code, ERR_NONE);
		assert_string_equal(c->states, "success "); /* the former state is over */
	}
}

static void mig_node__does_not_send_again_before_the_watch_can_report_it(void **state)
{
	struct mig_cluster *c = *state;

	mig_env_write(c->m, "apply", WAIT "result 0 changed\n");
	mig_cluster_node(c, MIG_LABEL "=a", "");
	mig_cluster_begin(c);
	c->quiet = true;
	mig_env_until(c->m, mig_env_count(c->m, "apply a") == 1 && c->patches == 1);
	mig_env_until(c->m, !c->m->mig.node.task.call);
	c->m->mig.node.task.on_due(&c->m->mig.node.task);
	assert_null(c->m->mig.node.task.call);
	assert_false(mig_node_is_in_sync(&c->m->mig));
	/* A new state is sent at once. */
	mig_env_write(c->m, "go", "");
	mig_cluster_wait(c, "success");
	assert_int_equal(c->patches, 2);
	c->quiet = false;
	mig_env_until(c->m, mig_node_is_in_sync(&c->m->mig));
}

static void mig_node__that_is_recreated_gets_the_result(void **state)
{
	struct mig_cluster *c = *state;

	mig_cluster_node(c, MIG_LABEL "=a", "");
	mig_cluster_run(c);
	mig_cluster_delete_node(c);
	mig_env_until(c->m, node_object_state(c->m->link.node) == NODE_ABSENT);
	assert_false(mig_node_is_in_sync(&c->m->mig));
	mig_cluster_node(c, MIG_LABEL "=a", "");
	mig_cluster_wait(c, "success");
	assert_int_equal(mig_env_count(c->m, "plan a"), 1); /* it is applied still */
}

static void mig_node__that_is_recreated_meanwhile_gets_the_result(void **state)
{
	struct mig_cluster *c = *state;

	mig_env_write(c->m, "apply", WAIT "result 0 changed\n");
	mig_cluster_node(c, MIG_LABEL "=a " DEPLOY "dcgm=true", "");
	mig_cluster_begin(c);
	mig_env_until(c->m, mig_env_count(c->m, "apply a") == 1);
	mig_cluster_delete_node(c);
	mig_env_until(c->m, node_object_state(c->m->link.node) == NODE_ABSENT);
	mig_env_write(c->m, "go", "");
	mig_env_until(c->m, mig_env_attempted(c->m) && c->m->mig.phase == MIG_REST);
	assert_int_equal(mig_env_offered(c->m, NULL), 1);
	mig_cluster_node(c, MIG_LABEL "=a " DEPLOY "dcgm=true", "");
	mig_cluster_wait(c, "success");
	mig_env_until(c->m, mig_node_is_in_sync(&c->m->mig));
	assert_string_equal(mig_cluster_get(c, DEPLOY "dcgm"), "true");
	assert_int_equal(mig_env_count(c->m, "apply a"), 1);
}

/* --- reboots --- */

/* Begins an attempt of "a" that ends with what a reset or a reboot is needed for. */
static void begin_reset(struct mig_cluster *c, const char *labels, const char *annotations)
{
	char all[256];

	(void)snprintf(all, sizeof(all), MIG_LABEL "=a%s", labels);
	c->m->options.with_reboot = true;
	mig_env_write(c->m, "apply", RESET);
	mig_cluster_node(c, all, annotations);
	mig_cluster_begin(c);
}

static void mig_reboot__runs_after_the_node_has_the_state(void **state)
{
	struct mig_cluster *c = *state;

	begin_reset(c, "", "");
	c->quiet = true;
	mig_cluster_wait(c, "rebooting");
	mig_phases[MIG_REBOOT].tick(&c->m->mig);
	assert_false(c->m->mig.attempt.rebooted_now);
	assert_string_equal(mig_cluster_note(c, MIG_REBOOTED), c->m->mig.tried.key);
	assert_string_equal(mig_cluster_note(c, MIG_REASON),
		"a: rebooting the host: GPU 0: the mode is pending");
	assert_int_equal(agent_fixture_count(c->m->f, "MigConfigRebooting"), 1);
	c->quiet = false;
	mig_env_until(c->m, mig_env_count(c->m, "reboot") == 1);
	/* The agent reboots once, and does not offer the devices again before the reboot. */
	mig_env_until(c->m, !c->m->mig.host.child);
	mig_phases[MIG_REBOOT].tick(&c->m->mig);
	assert_null(c->m->mig.host.child);
	assert_int_equal(c->m->mig.phase, MIG_REBOOT);
	assert_true(c->m->mig.attempt.masked);
	mig_env_late(c->m, MIG_REBOOT);
	mig_env_until(c->m, mig_env_attempted(c->m));
	assert_ended(c->m, "failed", "the host did not reboot within 10 minutes");
}

static void mig_reboot__runs_once_for_a_layout(void **state)
{
	char key[MIG_DESIRED_KEY_MAX], annotation[256];
	static const struct {
		const char *labels;
		bool annotated, reboots;
	} cases[] = {
		{ "", false, true },
		{ "", true, false },
		{ " " MIG_STATE_LABEL "=rebooting", false, false }, /* it started this agent */
		{ " " MIG_STATE_LABEL "=failed", false, true },
	};

	mig_desired_key("a", "", 0, key);
	(void)snprintf(annotation, sizeof(annotation), MIG_REBOOTED "=%s", key);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct mig_cluster *c = mig_cluster_another(state);

		begin_reset(c, cases[i].labels, cases[i].annotated ? annotation : "");
		if (cases[i].reboots) {
			mig_env_until(c->m, mig_env_count(c->m, "reboot") == 1);
			continue;
		}
		mig_cluster_wait(c, "failed");
		assert_ended(c->m, "failed", "the host was rebooted for this already");
		assert_non_null(strstr(c->m->mig.node.reason, MIG_REBOOTED));
		assert_int_equal(mig_env_count(c->m, "reboot"), 0);
		/* Another layout permits a reboot again. */
		mig_cluster_label(c, MIG_LABEL, "b");
		mig_env_until(c->m, mig_env_count(c->m, "reboot") == 1);
	}
}

static void mig_reboot__is_forgotten_with_success(void **state)
{
	struct mig_cluster *c = *state;

	mig_cluster_node(c, MIG_LABEL "=a " MIG_STATE_LABEL "=rebooting",
		MIG_REBOOTED "=a-1 " MIG_REASON "=x");
	mig_cluster_run(c);
	assert_ended(c->m, "success", "a: applied");
	assert_string_equal(mig_cluster_note(c, MIG_REBOOTED), "");
	assert_int_equal(c->m->mig.last_boot, MIG_BOOT_OTHER);
}

static void mig_reboot__does_not_run_when_it_cannot_be_reported_or_started(void **state)
{
	struct mig_cluster *c = *state;

	c->patch_status = 500;
	begin_reset(c, "", "");
	mig_env_until(c->m, c->m->mig.phase == MIG_REBOOT);
	c->m->mig.phase_since_ns -= 61 * NS_PER_SEC;
	mig_env_until(c->m, mig_env_attempted(c->m));
	assert_ended(c->m, "failed", "no reboot, as the state cannot be written to the Node");
	assert_int_equal(mig_env_count(c->m, "reboot"), 0);

	c = mig_cluster_another(state);
	c->m->options.reboot_command = "/nowhere/reboot --now";
	begin_reset(c, "", "");
	mig_cluster_wait(c, "failed");
	assert_ended(c->m, "failed", "/nowhere/reboot");
	assert_int_equal(mig_env_offered(c->m, NULL), 1);
}

/* --- layouts of a ConfigMap --- */

static void mig_sync__uses_the_layouts_of_a_config_map(void **state)
{
	struct mig_cluster *c = *state;

	c->m->options.config_map = "layouts";
	mig_cluster_map(c, "other", "text");
	mig_cluster_node(c, MIG_LABEL "=a", "");
	mig_cluster_run(c);
	assert_ended(c->m, "failed", "has no config.yaml");
	assert_calls(c->m, "");
	mig_env_until(c->m, c->watch[1]);
	mig_cluster_map(c, MIG_CONFIG_KEY, "one");
	mig_cluster_wait(c, "success");
	assert_string_equal(mig_env_read(c->m, "text"), "one");
	mig_cluster_map(c, MIG_CONFIG_KEY, "two");
	mig_env_until(c->m, mig_env_count(c->m, "apply a") == 2);
	assert_string_equal(mig_env_read(c->m, "text"), "two");
}

static void mig_sync__of_a_config_map_removed_meanwhile_fails_afterwards(void **state)
{
	struct mig_cluster *c = *state;

	c->m->options.config_map = "layouts";
	mig_env_write(c->m, "apply", WAIT "result 0 changed\n");
	mig_cluster_map(c, MIG_CONFIG_KEY, "one");
	mig_cluster_node(c, MIG_LABEL "=a " DEPLOY "dcgm=true", "");
	mig_cluster_begin(c);
	mig_env_until(c->m, c->watch[1] && mig_env_count(c->m, "apply a") == 1);
	mig_cluster_delete_map(c);
	mig_env_until(c->m, strcmp(c->m->mig.desired.key, c->m->mig.tried.key) != 0);
	assert_int_equal(c->m->mig.phase, MIG_APPLY);
	mig_env_write(c->m, "go", "");
	mig_cluster_wait(c, "failed");
	assert_ended(c->m, "failed", "configmap gpu/layouts");
	mig_env_until(c->m, strcmp(mig_cluster_get(c, DEPLOY "dcgm"), "true") == 0);
	assert_int_equal(mig_env_offered(c->m, NULL), 1);
}

/* An agent before us may have paused clients: they must not wait for layouts that never come. */
static void mig_sync__without_layouts_restores_paused_clients(void **state)
{
	struct mig_cluster *c = *state;

	c->m->options.config_map = "layouts";
	mig_cluster_node(c, MIG_LABEL "=a " MIG_STATE_LABEL "=pending " DEPLOY "dcgm=" PAUSED,
		"");
	mig_cluster_begin(c);
	mig_cluster_wait(c, "failed");
	assert_ended(c->m, "failed", "there is no configmap gpu/layouts");
	mig_env_until(c->m, strcmp(mig_cluster_get(c, DEPLOY "dcgm"), "true") == 0);
	assert_calls(c->m, "");
	mig_env_until(c->m, c->watch[1]);
	mig_cluster_map(c, MIG_CONFIG_KEY, "one");
	mig_cluster_wait(c, "success");
	assert_string_equal(mig_env_read(c->m, "text"), "one");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CLUSTER_TEST(mig_node__label_is_followed_before_the_default),
		CLUSTER_TEST(mig_node__default_waits_for_the_node),
		CLUSTER_TEST(mig_node__another_label_waits_for_the_attempt_in_progress),
		CLUSTER_TEST(
			mig_node__label_that_changes_and_changes_back_meanwhile_did_not_change),
		CLUSTER_TEST(mig_node__label_that_is_removed_meanwhile_leaves_nothing_pending),
		CLUSTER_TEST(mig_node__without_a_label_removes_the_pending_state),
		CLUSTER_TEST(mig_node__counts_a_state_as_reported_when_the_server_accepts_it),
		CLUSTER_TEST(mig_node__does_not_send_again_before_the_watch_can_report_it),
		CLUSTER_TEST(mig_node__that_is_recreated_gets_the_result),
		CLUSTER_TEST(mig_node__that_is_recreated_meanwhile_gets_the_result),
		CLUSTER_TEST(mig_reboot__runs_after_the_node_has_the_state),
		CLUSTER_TEST(mig_reboot__runs_once_for_a_layout),
		CLUSTER_TEST(mig_reboot__is_forgotten_with_success),
		CLUSTER_TEST(mig_reboot__does_not_run_when_it_cannot_be_reported_or_started),
		CLUSTER_TEST(mig_sync__uses_the_layouts_of_a_config_map),
		CLUSTER_TEST(mig_sync__of_a_config_map_removed_meanwhile_fails_afterwards),
		CLUSTER_TEST(mig_sync__without_layouts_restores_paused_clients),
	};

	return cmocka_run_group_tests_name("mig-node", tests, NULL, NULL);
}
