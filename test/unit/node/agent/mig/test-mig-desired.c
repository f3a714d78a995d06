/* SPDX-License-Identifier: Apache-2.0 */

/* When the MIG manager acts, and what it writes onto the Node. */
#include "unit/model/core-fixture.h"

#include "node/agent/mig/node-labels.h"
#include "node/agent/mig/desired.h"

/* --- the desired layout --- */

static void mig_desired__is_the_label_then_the_default(void **state)
{
	static const struct {
		bool api, known, capable;
		const char *label, *def;
		enum mig_desired_source by;
		const char *name;
	} cases[] = {
		{ true, true, true, "a", "d", MIG_DESIRED_LABEL, "a" },
		{ true, true, false, "a", "", MIG_DESIRED_LABEL, "a" },
		{ true, true, true, NULL, "d", MIG_DESIRED_DEFAULT, "d" },
		{ true, true, true, "", "d", MIG_DESIRED_DEFAULT, "d" },
		{ true, true, false, NULL, "d", MIG_DESIRED_NONE, "" },
		{ true, true, true, NULL, "", MIG_DESIRED_NONE, "" },
		/* A default that came before the label would destroy what the label wants. */
		{ true, false, true, NULL, "d", MIG_DESIRED_UNKNOWN, "" },
		{ false, false, true, NULL, "d", MIG_DESIRED_DEFAULT, "d" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct inventory *inv = fixture_inventory(1);
		const struct mig_desired_input in = { .label_needed = cases[i].api,
			.label_known = cases[i].known,
			.label = cases[i].label,
			.default_name = cases[i].def,
			.inv = inv };
		const char *name;

		inv->gpus[0].mig_capable = cases[i].capable;
		assert_int_equal(mig_find_desired(&in, &name), cases[i].by);
		assert_string_equal(name, cases[i].name);
		inventory_free(inv);
	}
}

static void mig_desired_key__tells_names_and_texts_apart(void **state)
{
	char a[MIG_DESIRED_KEY_MAX], b[MIG_DESIRED_KEY_MAX], name[300];

	(void)state;
	mig_desired_key("x", "text", 4, a);
	mig_desired_key("x", "text", 4, b);
	assert_string_equal(a, b);
	mig_desired_key("x", "Text", 4, b);
	assert_string_not_equal(a, b);
	mig_desired_key("y", "text", 4, b);
	assert_string_not_equal(a, b);
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	mig_desired_key(name, NULL, 0, a); /* fits, whatever it is */
}

static void mig_retry__backs_off_unless_a_device_is_in_use(void **state)
{
	static const uint64_t seconds[] = { 10, 20, 40, 80, 160, 300, 300 };

	(void)state;
	for (uint32_t i = 0; i < ARRAY_LEN(seconds); i++) {
		assert_int_equal(mig_retry_ns(i + 1, false), seconds[i] * NS_PER_SEC);
		assert_int_equal(mig_retry_ns(i + 1, true), 10 * NS_PER_SEC);
	}
	assert_int_equal(mig_retry_ns(UINT32_MAX, false), 300 * NS_PER_SEC);
}

/* --- drift --- */

static struct inventory *add_mig_instances(uint32_t devices_of_0)
{
	struct inventory *inv = fixture_inventory(2);

	for (uint32_t i = 0; i < devices_of_0; i++)
		(void)fixture_mig(inv, 0, 1, 1, 5);
	inv->gpus[0].mig_enabled = true;
	(void)fixture_mig(inv, 1, 1, 1, 5);
	return inv;
}

static enum mig_drift find_drift(struct mig_basis *b, struct inventory *inv)
{
	const struct gpu *g = NULL;
	enum mig_drift d = mig_basis_drift(b, inv, &g);

	assert_true((d == MIG_DRIFT_NONE) == (g == NULL));
	inventory_free(inv);
	return d;
}

static void mig_basis__acts_on_lost_devices_and_reports_manual_changes_once(void **state)
{
	static const char *const first[] = { "GPU-0" };
	struct mig_basis b = { 0 };
	struct error err = ERROR_INIT;
	struct inventory *inv = add_mig_instances(2), *other;

	(void)state;
	assert_ok(mig_basis_record(&b, inv, first, 1, &err), &err);
	inventory_free(inv);
	assert_int_equal(find_drift(&b, add_mig_instances(2)), MIG_DRIFT_NONE);
	assert_int_equal(find_drift(&b, add_mig_instances(1)), MIG_DRIFT_OTHER);
	assert_int_equal(find_drift(&b, add_mig_instances(1)), MIG_DRIFT_NONE);
	assert_int_equal(find_drift(&b, add_mig_instances(3)), MIG_DRIFT_OTHER);
	assert_int_equal(find_drift(&b, add_mig_instances(2)), MIG_DRIFT_NONE);
	assert_int_equal(find_drift(&b, add_mig_instances(1)), MIG_DRIFT_OTHER);
	assert_int_equal(find_drift(&b, add_mig_instances(0)), MIG_DRIFT_MISSING);
	other = add_mig_instances(2); /* the mode is off: after a reboot of a Hopper */
	other->gpus[0].mig_enabled = false;
	assert_int_equal(find_drift(&b, other), MIG_DRIFT_MISSING);
	other = add_mig_instances(0); /* it cannot be read: nothing is known */
	other->gpus[0].fault = GPU_FAULT_LOST;
	assert_int_equal(find_drift(&b, other), MIG_DRIFT_NONE);
	other = add_mig_instances(2); /* a GPU that the agent does not manage */
	other->n_mig = 2;
	assert_int_equal(find_drift(&b, other), MIG_DRIFT_NONE);
	other = add_mig_instances(2); /* a new one */
	(void)snprintf(other->gpus[1].uuid, sizeof(other->gpus[1].uuid), "GPU-new");
	assert_int_equal(find_drift(&b, other), MIG_DRIFT_MISSING);
	other = add_mig_instances(2); /* another profile at the same place has the same UUID */
	(void)snprintf(other->mig[0].profile, sizeof(other->mig[0].profile), "2g.10gb");
	assert_int_equal(find_drift(&b, other), MIG_DRIFT_OTHER);
	mig_basis_fini(&b);
}

/* --- labels --- */

#define DEPLOY "nvidia.com/gpu.deploy."

static void assert_patch(const struct mig_node_labels *desired, const char *labels,
	struct mig_node_labels_actual now, const char *expected)
{
	json_t *l = labels ? json_loads(labels, 0, NULL) : NULL, *got = NULL, *e = NULL;
	struct error err = ERROR_INIT;
	char *text;

	assert_true(!labels || l);
	now.labels = l;
	assert_ok(mig_node_labels_patch(&got, desired, &now, &err), &err);
	e = expected ? json_loads(expected, 0, NULL) : NULL;
	assert_true(!expected || e);
	text = got ? json_dumps(got, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
	if (!(got == e || (got && e && json_equal(got, e))))
		fail_msg("got %s, expected %s", text ? text : "nothing",
			expected ? expected : "nothing");
	free(text);
	json_decref(l);
	json_decref(got);
	json_decref(e);
}

static void mig_node_labels__write_only_changes(void **state)
{
	const struct mig_node_labels pending = { .state = "pending", .reason = "a: x" };
	const struct mig_node_labels none = { .state = "", .reason = "" };
	const struct mig_node_labels silent = { .clients = MIG_CLIENTS_UNCHANGED };
	const struct mig_node_labels rebooted = { .rebooted = "a-1" };

	(void)state;
	assert_patch(&pending, NULL, (struct mig_node_labels_actual){ 0 },
		"{\"metadata\":{\"labels\":{\"nvidia.com/mig.config.state\":\"pending\"},"
		"\"annotations\":{\"gpuslice.io/mig.config.reason\":\"a: x\"}}}");
	assert_patch(&pending, "{\"nvidia.com/mig.config.state\":\"pending\"}",
		(struct mig_node_labels_actual){ .reason = "a: x" }, NULL);
	assert_patch(&none, "{\"nvidia.com/mig.config.state\":\"pending\"}",
		(struct mig_node_labels_actual){ .reason = "a: x" },
		"{\"metadata\":{\"labels\":{\"nvidia.com/mig.config.state\":null},"
		"\"annotations\":{\"gpuslice.io/mig.config.reason\":null}}}");
	assert_patch(&none, "{}", (struct mig_node_labels_actual){ 0 }, NULL);
	assert_patch(&silent, "{\"" DEPLOY "dcgm\":\"paused-for-mig-change\"}",
		(struct mig_node_labels_actual){ .reason = "b" }, NULL);
	assert_patch(&rebooted, NULL, (struct mig_node_labels_actual){ .rebooted = "a-0" },
		"{\"metadata\":{\"annotations\":{\"gpuslice.io/mig.config.rebooted\":\"a-1\"}}}");
}

static void mig_node_labels__pause_clients_and_restore_their_values(void **state)
{
	static const char *const own[] = { DEPLOY "device-plugin", NULL };
	const struct mig_node_labels pause = { .clients = MIG_CLIENTS_PAUSE, .own = own };
	const struct mig_node_labels run = { .clients = MIG_CLIENTS_RUN };
	const struct mig_node_labels_actual nothing = { 0 };

	(void)state;
	assert_patch(&pause,
		"{\"" DEPLOY "dcgm\":\"true\",\"" DEPLOY "nvsm\":\"false\",\"" DEPLOY
		"client\":\"\",\"" DEPLOY "device-plugin\":\"true\",\"" DEPLOY
		"other\":\"true\"}",
		nothing,
		"{\"metadata\":{\"labels\":{\"" DEPLOY "dcgm\":\"paused-for-mig-change\"}}}");
	assert_patch(&pause, "{\"" DEPLOY "client\":\"team-a\"}", nothing,
		"{\"metadata\":{\"labels\":{\"" DEPLOY "client\":\"paused-for-mig-change\"},"
		"\"annotations\":{\"gpuslice.io/mig.paused\":\"" DEPLOY "client=team-a\"}}}");
	assert_patch(&pause, "{\"" DEPLOY "dcgm\":\"paused-for-mig-change\"}", nothing, NULL);
	assert_patch(&pause, "{}", nothing, NULL);
	assert_patch(&run,
		"{\"" DEPLOY "client\":\"paused-for-mig-change\",\"" DEPLOY
		"dcgm\":\"paused-for-mig-change\",\"" DEPLOY "nvsm\":\"false\"}",
		(struct mig_node_labels_actual){ .old_paused = "x=y," DEPLOY "client=team-a" },
		"{\"metadata\":{\"labels\":{\"" DEPLOY "client\":\"team-a\",\"" DEPLOY
		"dcgm\":\"true\"},\"annotations\":{\"gpuslice.io/mig.paused\":null}}}");
	assert_patch(&run, "{\"" DEPLOY "dcgm\":\"true\"}", nothing, NULL);
	assert_patch(&run, NULL, nothing, NULL);
}

#define PODS                                                                                 \
	"[{\"metadata\":{\"namespace\":\"a\",\"name\":\"free\"},\"spec\":{}},"               \
	"{\"metadata\":{\"namespace\":\"a\",\"name\":\"done\"},\"spec\":{\"nodeSelector\":{" \
	"\"" DEPLOY "dcgm\":\"true\"}},\"status\":{\"phase\":\"Succeeded\"}},"               \
	"{\"metadata\":{\"namespace\":\"b\",\"name\":\"dcgm\"},\"spec\":{\"nodeSelector\":{" \
	"\"" DEPLOY "dcgm\":\"true\"}},\"status\":{\"phase\":\"Running\"}}, 1, {}]"

static void mig_clients__count_only_with_a_paused_label(void **state)
{
	static const struct {
		const char *labels, *waits;
	} cases[] = {
		{ "{\"" DEPLOY "dcgm\":\"paused-for-mig-change\"}", "b/dcgm" },
		{ "{\"" DEPLOY "dcgm\":\"true\"}", NULL },
		{ "{\"" DEPLOY "nvsm\":\"paused-for-mig-change\"}", NULL },
	};
	json_t *pods = json_loads(PODS, 0, NULL);
	const char *own[MIG_CLIENTS_MAX + 1];
	char name[100];

	(void)state;
	assert_non_null(pods);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		json_t *l = json_loads(cases[i].labels, 0, NULL);
		bool waits = mig_clients_wait(l, pods, name, sizeof(name));

		assert_true(waits == (cases[i].waits != NULL));
		if (waits)
			assert_string_equal(name, cases[i].waits);
		json_decref(l);
	}
	mig_clients_own(pods, "b", "dcgm", own);
	assert_string_equal(own[0], DEPLOY "dcgm");
	assert_null(own[1]);
	mig_clients_own(pods, "a", "dcgm", own);
	assert_null(own[0]);
	json_decref(pods);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mig_desired__is_the_label_then_the_default),
		cmocka_unit_test(mig_desired_key__tells_names_and_texts_apart),
		cmocka_unit_test(mig_retry__backs_off_unless_a_device_is_in_use),
		cmocka_unit_test(
			mig_basis__acts_on_lost_devices_and_reports_manual_changes_once),
		cmocka_unit_test(mig_node_labels__write_only_changes),
		cmocka_unit_test(mig_node_labels__pause_clients_and_restore_their_values),
		cmocka_unit_test(mig_clients__count_only_with_a_paused_label),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
