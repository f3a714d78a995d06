/* SPDX-License-Identifier: Apache-2.0 */

/* When the MIG manager begins an attempt: layouts from files, drift, retries, invalid options; and its status. */
#include "unit/node/agent/mig/mig-env.h"

#include "io/config/json.h"
#include "node/agent/config/source/source.h"

#include <unistd.h>

#define MODE "planned 0 2 '\"enable\"'\n"
#define SAME "planned 0 0\n"
/* Waits until mig_env_write(e, "go", ""). */
#define WAIT "while [ ! -e \"$dir/go\" ]; do sleep 0.01; done\n"

/* GPU-0 with so many MIG devices, GPU-1 with one; @n GPUs in all. */
static struct inventory *make_gpus(uint32_t n, uint32_t devices)
{
	struct inventory *inv = fixture_inventory(n);

	for (uint32_t i = 0; i < n; i++)
		inv->gpus[i].mig_capable = true;
	for (uint32_t i = 0; i < devices; i++)
		(void)fixture_mig(inv, 0, 1, 1, 5);
	inv->gpus[0].mig_enabled = true;
	(void)fixture_mig(inv, 1, 1, 1, 5);
	return inv;
}

static void change_gpus(struct mig_env *e, struct inventory *inv)
{
	inventory_free(e->gpus);
	e->gpus = inv;
	mig_env_probe(e);
}

static void set_capable(struct mig_env *e, bool capable)
{
	e->gpus->gpus[0].mig_capable = e->gpus->gpus[1].mig_capable = capable;
}

/* --- the desired layout --- */

static void mig_sync__waits_until_the_gpus_are_known(void **state)
{
	struct mig_env *e = *state;

	mig_env_start(e);
	mig_sync(&e->mig);
	assert_string_equal(e->mig.desired.waiting, "the GPUs are not known yet");
	/* The driver is not loaded: without a GPU there is no desired state. */
	(void)error_set(&e->f->facts.nvml_down, ERR_UNAVAILABLE, "no driver");
	mig_sync(&e->mig);
	assert_string_equal(e->mig.desired.waiting, "");
	assert_true(mig_settled(&e->mig));
	assert_int_equal(e->mig.phase, MIG_REST);
	mig_env_probe(e);
	assert_int_equal(e->mig.phase, MIG_PLAN);
}

static void mig_sync__leaves_gpus_without_mig_alone(void **state)
{
	struct mig_env *e = *state;

	set_capable(e, false);
	mig_env_begin(e);
	assert_int_equal(e->mig.phase, MIG_REST);
	assert_true(mig_settled(&e->mig));
	set_capable(e, true);
	mig_env_probe(e);
	mig_env_until(e, mig_env_attempted(e));
	assert_ended(e, "success", "applied");
}

static void mig_sync__does_nothing_where_it_is_off(void **state)
{
	struct mig_env *e = *state;
	json_t *status;

	e->options.enabled = false;
	e->options.default_name = "not valid";
	mig_env_begin(e);
	mig_retry(&e->mig);
	assert_int_equal(e->mig.phase, MIG_REST);
	assert_true(mig_settled(&e->mig));
	assert_int_equal(e->f->components[COMPONENT_MIG_MANAGER].code, ERR_NONE);
	status = mig_status(&e->mig);
	assert_int_equal(json_object_size(status), 1);
	assert_true(json_is_false(json_object_get(status, "enabled")));
	json_decref(status);
}

static void mig_sync__ends_a_plan_that_is_no_longer_desired(void **state)
{
	struct mig_env *e = *state;

	mig_env_write(e, "plan", WAIT MODE);
	mig_env_begin(e);
	mig_env_until(e, mig_env_count(e, "plan all") == 1);
	set_capable(e, false);
	mig_env_probe(e);
	assert_int_equal(e->mig.phase, MIG_REST);
	assert_null(e->mig.attempt.child);
	mig_env_write(e, "go", "");
	set_capable(e, true);
	mig_env_probe(e);
	mig_env_until(e, mig_env_attempted(e));
	assert_calls(e, "plan all\nplan all\nholders\nholders\nrelease\napply all\n");
}

/* --- layouts from files --- */

/* Layouts of the file NAME below the directory "layouts". */
static char *layouts_in(struct mig_env *e, const char *name, const char *text)
{
	char file[64];

	mig_env_write(e, "layouts/other", "");
	(void)snprintf(file, sizeof(file), "layouts/%s", name);
	if (text)
		mig_env_write(e, file, text);
	return mig_env_path(e, file);
}

static void mig_sync__passes_the_text_of_the_file_to_the_tool(void **state)
{
	struct mig_env *e = *state;
	CLEANUP(freep) char *path = layouts_in(e, "a.yaml", "one");

	e->options.config_file = path;
	mig_env_run(e);
	assert_ended(e, "success", "all: applied");
	assert_string_equal(mig_env_read(e, "text"), "one");
	assert_non_null(strstr(mig_env_read(e, "args"), " -f - -c all "));
	assert_null(strstr(e->text, "--builtin"));
	/* Another file, or the same text, does not change the desired state. */
	mig_env_write(e, "layouts/other", "two");
	mig_env_write(e, "layouts/a.yaml", "one");
	config_source_check(e->mig.layouts.source);
	mig_sync(&e->mig);
	mig_env_write(e, "layouts/a.yaml", "two");
	mig_env_until(e, mig_env_count(e, "apply all") == 2);
	mig_env_until(e, e->mig.phase == MIG_REST);
	assert_string_equal(mig_env_read(e, "text"), "two");
	assert_int_equal(mig_env_count(e, "plan all"), 2);
}

static void mig_sync__reads_config_yaml_of_a_directory(void **state)
{
	struct mig_env *e = *state;
	CLEANUP(freep) char *path = mig_env_path(e, "layouts");

	mig_env_write(e, "layouts/config.yaml", "of a volume");
	e->options.config_file = path;
	mig_env_run(e);
	assert_ended(e, "success", "all: applied");
	assert_string_equal(mig_env_read(e, "text"), "of a volume");
}

static void mig_sync__fails_without_the_file_until_it_is_created(void **state)
{
	struct mig_env *e = *state;
	CLEANUP(freep) char *path = layouts_in(e, "a.yaml", NULL);

	e->options.config_file = path;
	mig_env_run(e);
	assert_ended(e, "failed", "has no a.yaml");
	assert_calls(e, "");
	assert_int_equal(e->mig.report.n, 0);
	mig_env_write(e, "layouts/a.yaml", "at last");
	mig_env_retry(e);
	assert_ended(e, "success", "all: applied");
	/* The file is deleted: the agent can apply nothing, and the present layout stays. */
	assert_int_equal(unlink(path), 0);
	mig_env_retry(e);
	assert_ended(e, "failed", "has no a.yaml");
	assert_int_equal(mig_env_count(e, "apply all"), 1);
}

static void mig_sync__plans_again_when_the_text_changes_meanwhile(void **state)
{
	struct mig_env *e = *state;
	CLEANUP(freep) char *path = layouts_in(e, "a.yaml", "one");

	e->options.config_file = path;
	mig_env_write(e, "plan", WAIT MODE);
	mig_env_begin(e);
	mig_env_until(e, strcmp(mig_env_read(e, "text"), "one") == 0);
	mig_env_write(e, "layouts/a.yaml", "two");
	mig_env_until(e, mig_env_count(e, "plan all") == 2);
	mig_env_write(e, "go", "");
	mig_env_until(e, mig_env_attempted(e));
	assert_int_equal(mig_env_count(e, "apply all"), 1);
	assert_string_equal(mig_env_read(e, "text"), "two");
}

static void mig_sync__applies_a_new_text_after_the_attempt_in_progress(void **state)
{
	struct mig_env *e = *state;
	CLEANUP(freep) char *path = layouts_in(e, "a.yaml", "one");

	e->options.config_file = path;
	mig_env_write(e, "apply", WAIT "result 0 changed\n");
	mig_env_begin(e);
	mig_env_until(e, e->mig.phase == MIG_APPLY);
	mig_env_write(e, "layouts/a.yaml", "two");
	mig_env_until(e, strcmp(e->mig.desired.key, e->mig.tried.key) != 0);
	assert_int_equal(e->mig.phase, MIG_APPLY);
	mig_env_write(e, "go", "");
	mig_env_until(e, mig_env_count(e, "apply all") == 2);
	mig_env_until(e, e->mig.phase == MIG_REST);
	assert_calls(e, "plan all\nholders\nholders\nrelease\napply all\n"
			"plan all\nholders\nholders\nrelease\napply all\n");
	assert_string_equal(mig_env_read(e, "text"), "two");
}

static void mig_sync__waits_for_layouts_until_a_timeout(void **state)
{
	struct mig_env *e = *state;

	e->options.config_map = "layouts";
	(void)error_set(&e->link.why, ERR_UNAVAILABLE, "no credentials");
	mig_env_begin(e);
	assert_string_equal(e->mig.desired.waiting, "configmap gpu/layouts: no credentials");
	assert_int_equal(e->mig.phase, MIG_REST);
	assert_false(mig_settled(&e->mig));
	assert_in_range(uv_timer_get_due_in(&e->mig.timer), 50000, 60001);
	e->mig.silence_ns = 30 * NS_PER_MS;
	mig_sync(&e->mig);
	mig_env_until(e, mig_env_attempted(e));
	assert_ended(e, "failed", "configmap gpu/layouts: no credentials");
	assert_calls(e, "");
	/* Another message for the same error does not change the desired state. */
	(void)error_set(&e->link.why, ERR_UNAVAILABLE, "no token");
	mig_sync(&e->mig);
	assert_int_equal(e->mig.phase, MIG_REST);
	assert_string_equal(e->mig.desired.key, e->mig.tried.key);
	assert_int_equal(agent_fixture_count(e->f, "MigConfigFailed"), 1);
}

/* --- trying again --- */

static void fail_next_attempt(struct mig_env *e)
{
	e->mig.outcome.retry_at_ns = 1;
	mig_sync(&e->mig);
	mig_env_retry(e);
	assert_string_equal(e->mig.node.state, "failed");
}

static void mig_sync__backs_off_unless_a_device_is_in_use(void **state)
{
	static const struct {
		const char *plan;
		unsigned seconds[3];
	} cases[] = {
		{ "finish false io 'unknown error'", { 10, 20, 40 } },
		{ "finish false unavailable 'in use'", { 10, 10, 10 } },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct mig_env *e = mig_env_another(state);

		mig_env_write(e, "plan", cases[i].plan);
		mig_env_run(e);
		for (unsigned k = 0; k < 3; k++) {
			uint64_t ms = cases[i].seconds[k] * 1000U;

			assert_in_range(uv_timer_get_due_in(&e->mig.timer), ms - 3000, ms + 1);
			fail_next_attempt(e);
		}
		assert_int_equal(e->mig.outcome.failures, 4);
		assert_int_equal(agent_fixture_count(e->f, "MigConfigFailed"), 1);
		/* A failure for another reason is a new Event. */
		mig_env_write(e, "plan", "finish false io 'GPU is lost'");
		fail_next_attempt(e);
		assert_int_equal(agent_fixture_count(e->f, "MigConfigFailed"), 2);
		mig_env_write(e, "plan", SAME);
		e->mig.outcome.retry_at_ns = 1;
		mig_sync(&e->mig);
		mig_env_retry(e);
		assert_ended(e, "success", "applied");
		assert_int_equal(e->mig.outcome.failures, 0);
		assert_false(uv_is_active((uv_handle_t *)&e->mig.timer));
	}
}

static void mig_sync__retries_at_once_when_the_gpus_changed(void **state)
{
	struct mig_env *e = *state;

	mig_env_write(e, "plan", "finish false io 'lost'");
	mig_env_run(e);
	mig_env_probe(e);
	mig_sync(&e->mig);
	assert_int_equal(e->mig.phase, MIG_REST);
	assert_int_equal(mig_env_count(e, "plan all"), 1);
	e->gpus->gpus[0].fault = GPU_FAULT_LOST;
	mig_env_probe(e);
	mig_env_retry(e);
	assert_int_equal(mig_env_count(e, "plan all"), 2);
	change_gpus(e, make_gpus(2, 0));
	mig_env_retry(e);
	assert_int_equal(mig_env_count(e, "plan all"), 3);
	assert_int_equal(e->mig.outcome.failures, 3);
}

/* --- drift --- */

static void mig_sync__recreates_lost_devices_and_keeps_manual_changes(void **state)
{
	static const struct {
		uint32_t n, devices;
		bool fault, down, again;
		unsigned n_reports;
	} cases[] = {
		{ 2, 2, .again = false }, { 2, 0, .again = true },
		{ 3, 2, .again = true },                 /* a new GPU */
		{ 2, 1, .n_reports = 1 },                /* by hand */
		{ 2, 0, .fault = true, .again = false }, /* it cannot be read */
		{ 2, 0, .down = true, .again = false },  /* none can */
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct mig_env *e = mig_env_another(state);
		struct inventory *inv = make_gpus(cases[i].n, cases[i].devices);

		e->after = make_gpus(2, 2);
		mig_env_run(e);
		assert_ended(e, "success", "applied");
		mig_env_write(e, "plan", SAME);
		inv->gpus[0].fault = cases[i].fault ? GPU_FAULT_LOST : GPU_OK;
		inventory_free(e->gpus);
		e->gpus = inv;
		if (cases[i].down) {
			(void)error_set(&e->f->facts.nvml_down, ERR_UNAVAILABLE, "no driver");
			e->f->facts.node.inv->n_mig = 0;
			mig_sync(&e->mig);
			assert_int_equal(e->mig.phase, MIG_REST);
			continue;
		}
		mig_env_probe(e);
		if (cases[i].again) {
			mig_env_retry(e);
			assert_ended(e, "success", "applied");
		}
		mig_sync(&e->mig);
		mig_env_probe(e); /* each Event comes once */
		assert_int_equal(e->mig.phase, MIG_REST);
		assert_int_equal(agent_fixture_count(e->f, "MigConfigDrift"),
			cases[i].n_reports);
		assert_int_equal(agent_fixture_count(e->f, "MigConfigApplied"), 1);
		assert_int_equal(mig_env_count(e, "plan all"), 1 + cases[i].again);
	}
}

/* --- options --- */

static void mig_start__reports_invalid_options_and_leaves_mig_alone(void **state)
{
	static const struct {
		const char *name, *file, *map, *clients, *namespace_, *error;
	} cases[] = {
		{ "-x", NULL, NULL, NULL, "gpu", "--mig-config-default: expected the name" },
		{ "a b", NULL, NULL, NULL, "gpu", "found 'a b'" },
		{ "a", "/tmp/a.yaml", "layouts", NULL, "gpu", "only one can be given" },
		{ "a", "/nowhere/..data", NULL, NULL, "gpu",
			"--mig-config-file: expected the path" },
		{ "a", "/nowhere/", NULL, NULL, "gpu", "--mig-config-file: expected the path" },
		{ "a", NULL, "a/b/c", NULL, "gpu", "mig-config-map" },
		{ "a", NULL, "layouts", NULL, "", "the namespace of this pod is not known" },
		{ "a", NULL, NULL, "/nowhere.yaml", "gpu", "--mig-gpu-clients-file" },
		{ "a", NULL, NULL, "/dev/null", "gpu", "--mig-gpu-clients-file" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct mig_env *e = mig_env_another(state);
		const struct error *why = &e->f->components[COMPONENT_MIG_MANAGER];

		e->options.default_name = cases[i].name;
		e->options.config_file = cases[i].file;
		e->options.config_map = cases[i].map;
		e->options.clients_file = cases[i].clients;
		(void)snprintf(e->link.namespace_, sizeof(e->link.namespace_), "%s",
			cases[i].namespace_);
		mig_env_begin(e);
		if (!strstr(why->msg, cases[i].error))
			fail_msg("row %zu: '%s'", i, why->msg);
		mig_retry(&e->mig); /* it is the same still */
		mig_sync(&e->mig);
		assert_false(e->mig.started);
		assert_int_equal(e->mig.phase, MIG_REST);
	}
}

static void mig_retry__starts_when_the_file_has_become_valid(void **state)
{
	struct mig_env *e = *state;
	const struct error *why = &e->f->components[COMPONENT_MIG_MANAGER];

	mig_env_services(e);
	mig_env_write(e, "clients.yaml", "version: v9\n");
	mig_env_begin(e);
	assert_int_not_equal(why->code, ERR_NONE);
	mig_env_services(e);
	mig_retry(&e->mig);
	assert_int_equal(why->code, ERR_NONE);
	mig_env_until(e, mig_env_attempted(e));
	assert_ended(e, "success", "applied");
	assert_int_equal(mig_env_count(e, "stop b.service"), 1);
	/* While the attempt runs, it continues with its own text, and reports that. */
	mig_env_write(e, "clients.yaml", "version: v9\n");
	mig_retry(&e->mig);
	assert_non_null(strstr(why->msg, "the last valid one is in use"));
	assert_int_equal(e->mig.host.services.n, 2);
	mig_env_services(e);
	mig_retry(&e->mig);
	assert_int_equal(why->code, ERR_NONE);
}

/* --- what an agent before us has left --- */

static void mig_sync__starts_services_once_without_a_desired_layout(void **state)
{
	struct mig_env *e = *state;

	mig_env_write(e, "mig-services", "a.service\n\n../x y\nb.service\n");
	mig_env_write(e, "systemd", WAIT "[ $service != a.service ]\n");
	set_capable(e, false);
	mig_env_begin(e);
	assert_int_equal(e->mig.phase, MIG_RESTORE);
	/* The attempt for the new text follows. */
	set_capable(e, true);
	mig_env_probe(e);
	assert_int_equal(e->mig.phase, MIG_RESTORE);
	set_capable(e, false);
	mig_env_probe(e);
	mig_env_write(e, "go", "");
	mig_env_until(e, e->mig.phase == MIG_REST);
	assert_calls(e, "start b.service\nstart a.service\n");
	assert_string_equal(mig_env_read(e, "mig-services"), "a.service\n");
	/* A service that does not start is not started again with each probe. */
	mig_env_probe(e);
	assert_int_equal(e->mig.phase, MIG_REST);
	set_capable(e, true);
	mig_env_probe(e);
	mig_env_until(e, mig_env_attempted(e));
	assert_ended(e, "failed", "start service a.service: status 1");
}

/* --- offer and status --- */

static void mig_hide_changes__keeps_the_gpus_that_change_and_no_other(void **state)
{
	struct mig_env *e = *state;
	CLEANUP(inventory_freep) struct inventory *seen = make_gpus(2, 2), *held = NULL;
	const struct inventory *now;

	mig_env_write(e, "apply", WAIT "result 0 changed\n");
	mig_env_start(e);
	assert_ptr_equal(mig_hide_changes(&e->mig, seen, &held), seen);
	mig_env_probe(e);
	assert_ptr_equal(mig_hide_changes(&e->mig, seen, &held),
		seen); /* nothing is touched by a plan */
	mig_env_until(e, e->mig.phase == MIG_APPLY);
	(void)fixture_mig(seen, 1, 1, 1, 5);
	now = mig_hide_changes(&e->mig, seen, &held);
	assert_ptr_equal(now, held);
	assert_false(now->gpus[0].mig_enabled);
	assert_int_equal(now->n_mig, 2);
	assert_int_equal(now->mig[0].gpu, 1);
	assert_int_equal(seen->n_mig, 4);
	mig_env_write(e, "go", "");
	mig_env_until(e, mig_env_attempted(e));
	held = inventory_free(held);
	assert_ptr_equal(mig_hide_changes(&e->mig, seen, &held), seen);
}

static void mig_mask__offers_a_gpu_neither_whole_nor_partitioned_while_it_changes(void **state)
{
	struct mig_env *e = *state;
	CLEANUP(inventory_freep) struct inventory *inv = make_gpus(2, 0);
	bool changing;

	mig_env_write(e, "apply", WAIT "result 0 changed\n");
	mig_env_begin(e);
	mig_env_until(e, e->mig.phase == MIG_APPLY);
	assert_int_equal(mig_env_offered(e, &changing), 1); /* of the other GPU */
	assert_true(changing);
	inv->gpus[0].mig_enabled = false;
	mig_apply_mask(&e->mig, inv);
	assert_true(inv->gpus[0].mig_enabled);
	assert_true(inv->gpus[0].changing && !inv->gpus[1].changing);
	mig_env_write(e, "go", "");
	mig_env_until(e, mig_env_attempted(e));
	assert_int_equal(mig_env_offered(e, &changing), 1);
	assert_false(changing);
}

static void assert_status(const struct mig_env *e, const char *key, const char *expected)
{
	json_t *status = mig_status(&e->mig);
	const json_t *v = json_object_get(status, key);
	char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT);

	assert_non_null(text);
	if (strcmp(text, expected) != 0)
		fail_msg("%s: %s, expected %s", key, text, expected);
	free(text);
	json_decref(status);
}

static void mig_status__shows_the_current_step(void **state)
{
	struct mig_env *e = *state;

	mig_env_write(e, "apply", MODE "step 'MIG on'\n" WAIT "result 0 changed\n");
	mig_env_start(e);
	mig_sync(&e->mig);
	assert_status(e, "state", "\"\"");
	assert_status(e, "config", "null");
	assert_status(e, "chosenBy", "null");
	assert_status(e, "since", "null");
	assert_status(e, "waiting", "\"the GPUs are not known yet\"");
	mig_env_probe(e);
	mig_env_until(e, *e->mig.report.current_step);
	assert_status(e, "state", "\"pending\"");
	assert_status(e, "phase", "\"applying\"");
	assert_status(e, "step", "\"GPU 0: MIG on\"");
	assert_status(e, "retry", "null");
	mig_env_write(e, "go", "");
	mig_env_until(e, mig_env_attempted(e));
	assert_status(e, "state", "\"success\"");
	assert_status(e, "config", "\"all\"");
	assert_status(e, "chosenBy", "\"default\"");
	assert_status(e, "source", "\"built-in\"");
	assert_status(e, "phase", "\"rest\"");
	assert_status(e, "step", "\"\"");
	assert_status(e, "nvmlCalls", "7");
	assert_status(e, "gpus",
		"[{\"index\":0,\"uuid\":\"GPU-0\",\"steps\":2,\"result\":\"changed\",\"reason\":\"\"}]");
}

static void mig_status__shows_when_it_retries(void **state)
{
	struct mig_env *e = *state;
	json_t *status;
	const char *since, *retry;

	mig_env_write(e, "plan",
		"printf 'no \\377 text\\n'\n"); /* the status is JSON all the same */
	mig_env_run(e);
	assert_status(e, "state", "\"failed\"");
	assert_status(e, "reason",
		"\"all: gpuslice mig: expected a JSON object, found 'no ? text'\"");
	status = mig_status(&e->mig);
	since = json_string_value(json_object_get(status, "since"));
	retry = json_string_value(json_object_get(status, "retry"));
	assert_non_null(since);
	assert_non_null(retry);
	assert_true(strcmp(retry, since) > 0);
	json_decref(status);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		MIG_TEST(mig_sync__waits_until_the_gpus_are_known),
		MIG_TEST(mig_sync__leaves_gpus_without_mig_alone),
		MIG_TEST(mig_sync__does_nothing_where_it_is_off),
		MIG_TEST(mig_sync__ends_a_plan_that_is_no_longer_desired),
		MIG_TEST(mig_sync__passes_the_text_of_the_file_to_the_tool),
		MIG_TEST(mig_sync__reads_config_yaml_of_a_directory),
		MIG_TEST(mig_sync__fails_without_the_file_until_it_is_created),
		MIG_TEST(mig_sync__plans_again_when_the_text_changes_meanwhile),
		MIG_TEST(mig_sync__applies_a_new_text_after_the_attempt_in_progress),
		MIG_TEST(mig_sync__waits_for_layouts_until_a_timeout),
		MIG_TEST(mig_sync__backs_off_unless_a_device_is_in_use),
		MIG_TEST(mig_sync__retries_at_once_when_the_gpus_changed),
		MIG_TEST(mig_sync__recreates_lost_devices_and_keeps_manual_changes),
		MIG_TEST(mig_start__reports_invalid_options_and_leaves_mig_alone),
		MIG_TEST(mig_retry__starts_when_the_file_has_become_valid),
		MIG_TEST(mig_sync__starts_services_once_without_a_desired_layout),
		MIG_TEST(mig_hide_changes__keeps_the_gpus_that_change_and_no_other),
		MIG_TEST(mig_mask__offers_a_gpu_neither_whole_nor_partitioned_while_it_changes),
		MIG_TEST(mig_status__shows_the_current_step),
		MIG_TEST(mig_status__shows_when_it_retries),
	};

	return cmocka_run_group_tests_name("mig-sync", tests, NULL, NULL);
}
