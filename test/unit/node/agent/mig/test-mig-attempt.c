/* SPDX-License-Identifier: Apache-2.0 */

/* One attempt of the MIG manager without an API server: what each phase requests, and what it restores on
 * failure. */
#include "unit/node/agent/mig/mig-env.h"

#define MODE     "planned 0 2 '\"enable\"'\n" /* takes GPU-0 as a whole */
#define INSTANCE "planned 1 2\n"              /* takes MIG-1-0 */
#define MORE     "planned 1 1 null '{\"gi\":7,\"ci\":0}'\n"
#define SAME     "planned 0 0\n"

/* --- an attempt that ends well --- */

static void mig_attempt__runs_its_steps_in_order_and_reverts_them(void **state)
{
	struct mig_env *e = *state;

	mig_env_services(e);
	mig_env_run(e);
	assert_ended(e, "success", "all: applied, 1 of 1 GPUs changed");
	assert_calls(e,
		"plan all\nholders\nholders\n"
		"is-active a.service\nstop a.service\nis-active b.service\nstop b.service\n"
		"release\napply all\nstart b.service\nstart a.service\n");
	assert_int_equal(agent_fixture_count(e->f, ""), 2);
	assert_string_equal(e->f->events[0].reason, "MigConfigPending");
	assert_string_equal(e->f->events[1].message, "all: applied, 1 of 1 GPUs changed");
	assert_int_equal(e->mps_queries, 1);
	assert_true(mig_settled(&e->mig));
}

static void mig_attempt__runs_only_the_steps_that_the_change_needs(void **state)
{
	static const struct {
		const char *plan, *calls, *leaving;
		bool force, takes;
	} cases[] = {
		{ MODE, "plan all\nholders\nholders\nrelease\napply all\n", " GPU-0", false,
			true },
		{ INSTANCE, "plan all\nholders\nholders\napply all\n", " GPU-1 MIG-1-0", false,
			true },
		{ MORE, "plan all\napply all\n", "", false, false },
		{ SAME, "plan all\n", "", false, false },
		{ "", "plan all\n", "", false, false }, /* the layout is about no GPU here */
		{ MODE, "plan all\nrelease\napply all\n", " GPU-0", true, true },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct mig_env *e = mig_env_another(state);

		mig_env_write(e, "plan", cases[i].plan);
		e->options.force = cases[i].force;
		mig_env_run(e);
		assert_ended(e, "success", "all: applied");
		assert_calls(e, cases[i].calls);
		assert_string_equal(e->leaving, cases[i].leaving);
		assert_int_equal(e->mig.attempt.removes_devices, cases[i].takes);
		assert_int_equal(e->mig.attempt.applied,
			strstr(cases[i].calls, "apply") != NULL);
		assert_int_equal(agent_fixture_count(e->f, "MigConfigPending"),
			e->mig.attempt.applied);
		assert_int_equal(agent_fixture_count(e->f, "MigConfigApplied"),
			e->mig.attempt.applied);
	}
}

static void mig_attempt__passes_the_options_of_the_agent_to_the_tool(void **state)
{
	static const char *const words[] = { "mig apply -o json --builtin -c all",
		"--driver-root /driver-root", "--run-dir /", "-k /hooks.yaml", "--force" };
	struct mig_env *e = *state;
	const char *second;

	e->options.force = true;
	e->options.hooks_file = "/hooks.yaml";
	e->idle_servers = 2;
	mig_env_run(e);
	second = strchr(mig_env_read(e, "args"), '\n') + 1;
	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		assert_non_null(strstr(e->text, words[i]));
		assert_non_null(strstr(second, words[i]));
	}
	/* The daemons have quit before anything is changed. */
	assert_non_null(strstr(e->text, "--dry-run --force --ignore-process 11,12\n"));
	assert_null(strstr(second, "--ignore-process"));
	assert_null(strstr(second, "--dry-run"));
	assert_null(strstr(second, "--nvml"));
}

/* --- PLAN --- */

static void mig_plan__that_fails_changes_nothing(void **state)
{
	static const struct {
		const char *plan, *reason;
		bool in_use;
	} cases[] = {
		{ "finish false invalid 'no such layout'", "all: no such layout", false },
		{ "finish false unavailable 'in use by process 7'", "process 7", true },
		{ "finish false exists 'another editor'", "another editor", true },
		{ "finish false of-tomorrow", "gpuslice mig gives no reason", false },
		{ MODE "exit 0", "ended with status 0 at: reading the GPUs", false },
		{ "echo boom >&2; exit 3", "status 3 at: reading the GPUs: boom", false },
		{ "step one; kill -9 $$", "ended with signal 9 at: GPU 0: one", false },
		{ "echo Hello", "expected a JSON object, found 'Hello'", false },
		{ "planned 0 1 '\"x\"'", "no usable 'mode'", false },
		{ MODE MODE, "GPU GPU-0 is planned twice", false },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct mig_env *e = mig_env_another(state);

		mig_env_services(e);
		mig_env_write(e, "plan", cases[i].plan);
		mig_env_run(e);
		assert_ended(e, "failed", cases[i].reason);
		assert_calls(e, "plan all\n");
		assert_int_equal(e->mig.attempt.in_use, cases[i].in_use);
		assert_int_equal(e->probes, 0);
		assert_int_equal(agent_fixture_count(e->f, "MigConfigFailed"), 1);
		assert_int_equal(e->f->n_events, 1);
		assert_true(mig_settled(&e->mig)); /* it was tried */
	}
}

static void mig_plan__ends_a_tool_that_is_silent(void **state)
{
	struct mig_env *e = *state;

	mig_env_write(e, "plan", "step 'read GPU 0'; exec sleep 600");
	mig_env_start(e);
	e->mig.silence_ns = 100 * NS_PER_MS;
	mig_env_probe(e);
	mig_env_until(e, mig_env_attempted(e));
	assert_ended(e, "failed", "said nothing for 0 s and was ended at: GPU 0: read GPU 0");
	assert_int_equal(e->mig.attempt.error.code, ERR_TIMEOUT);
}

static void mig_plan__fails_without_the_tool(void **state)
{
	struct mig_env *e = *state;

	(void)setenv("GPUSLICE_TOOL", "/nowhere/gpuslice", 1);
	mig_env_run(e);
	assert_ended(e, "failed", "/nowhere/gpuslice");
	assert_int_equal(agent_fixture_count(e->f, "MigConfigFailed"), 1);
}

static void mig_plan__waits_for_mps_to_answer_until_a_timeout(void **state)
{
	struct mig_env *e = *state;

	e->mps_silent = true;
	mig_env_begin(e);
	mig_env_ticks(e);
	assert_int_equal(e->mig.phase, MIG_PLAN);
	assert_calls(e, "");
	e->mps_silent = false;
	mig_env_until(e, mig_env_attempted(e));
	assert_ended(e, "success", "applied");
	/* A daemon that does not answer may be in use: the tool will report that. */
	e->mps_silent = true;
	e->mig.tried.key[0] = '\0';
	mig_sync(&e->mig);
	assert_int_equal(e->mig.phase, MIG_PLAN);
	e->mig.phase_since_ns -= 6 * NS_PER_SEC;
	mig_env_until(e, mig_env_count(e, "plan all") == 2);
}

static void mig_plan__fails_where_a_pod_has_a_device_that_is_removed(void **state)
{
	static const struct {
		const char *holder, *plan, *reason; /* .reason NULL: it is done */
		bool kubelet_fails, no_kubelet, force;
	} cases[] = {
		{ "GPU-0", MODE, .reason = "in use by pod ml/train-0 (nvidia.com/gpu GPU-0)" },
		{ "GPU-0::3", MODE,
			.reason = "in use by pod ml/train-0 (nvidia.com/gpu GPU-0::3)" },
		{ "MIG-1-0", INSTANCE, .reason = "MIG-1-0" },
		{ "MIG-1-0", MODE, .reason = NULL },
		{ "MIG-1-0", MORE, .reason = NULL },
		{ "GPU-0", MODE, NULL, .force = true },
		{ NULL, MODE, "does not say who uses the devices: kubelet.sock: refused",
			.kubelet_fails = true },
		{ NULL, MODE, NULL, .kubelet_fails = true, .no_kubelet = true },
		{ NULL, MODE, NULL, .kubelet_fails = true, .force = true },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct mig_env *e = mig_env_another(state);

		e->holder[0] = e->holder[1] = cases[i].holder;
		e->kubelet_fails = cases[i].kubelet_fails;
		e->no_kubelet = cases[i].no_kubelet;
		e->options.force = cases[i].force;
		mig_env_write(e, "plan", cases[i].plan);
		mig_env_run(e);
		assert_ended(e, cases[i].reason ? "failed" : "success",
			cases[i].reason ? cases[i].reason : "all: applied");
		assert_int_equal(e->mig.attempt.in_use, cases[i].reason != NULL);
		if (cases[i].reason) {
			/* The plan alone stops and probes nothing. */
			assert_calls(e, "plan all\nholders\n");
			assert_int_equal(e->probes, 0);
			assert_int_equal(agent_fixture_count(e->f, "MigConfigPending"), 0);
		}
	}
}

static void mig_plan__needs_the_gpus(void **state)
{
	struct mig_env *e = *state;
	struct error down = ERROR_INIT;

	(void)error_set(&down, ERR_UNAVAILABLE, "no driver");
	mig_env_write(e, "plan", "while [ ! -e \"$dir/go\" ]; do sleep 0.01; done\n" MODE);
	mig_env_begin(e);
	mig_env_until(e, mig_env_count(e, "plan all") == 1);
	/* The agent restarts while the driver is unavailable. */
	node_fini(&e->f->facts.node);
	node_init(&e->f->facts.node);
	e->f->facts.nvml_down = down;
	mig_env_write(e, "go", "");
	mig_env_until(e, mig_env_attempted(e));
	assert_ended(e, "failed", "the GPUs are not known yet");
	assert_calls(e, "plan all\n");
}

static void mig_plan__ignores_a_late_list_of_pods(void **state)
{
	struct mig_env *e = *state;

	e->kubelet_silent = true;
	mig_env_begin(e);
	mig_env_until(e, e->n_pod_device_requests == 1);
	assert_int_equal(e->mig.phase, MIG_PLAN);
	assert_true(mig_attempt_interrupt(&e->mig));
	mig_env_holders(e);
	assert_int_equal(e->mig.phase, MIG_REST);
	assert_false(mig_attempt_interrupt(&e->mig));
	/* The next attempt asks by itself. */
	mig_attempt_start(&e->mig);
	mig_env_until(e, e->n_pod_device_requests == 2);
	mig_env_holders(e);
	assert_int_equal(e->mig.phase, MIG_WITHDRAW);
	assert_false(mig_attempt_interrupt(&e->mig));
}

/* --- WITHDRAW --- */

static void mig_withdraw__removes_the_devices_from_the_offer_until_the_end(void **state)
{
	struct mig_env *e = *state;
	bool changing;
	unsigned before;

	mig_env_write(e, "plan", INSTANCE);
	e->mps_check_withdrawn = 1;
	e->slow_nvml = true;
	mig_env_begin(e);
	assert_int_equal(mig_env_offered(e, NULL), 1);
	mig_env_until(e, *e->leaving);
	assert_int_equal(e->mig.phase, MIG_WITHDRAW);
	assert_int_equal(mig_env_offered(e, &changing), 0);
	assert_false(changing);
	agent_fixture_run_once(e->f);
	assert_true(e->reconciles > 0);
	/* The daemons quit. */
	e->mps_check_withdrawn = 0;
	mig_env_until(e, e->mig.phase == MIG_SETTLE);
	assert_int_equal(mig_env_offered(e, NULL), 0);
	before = e->reconciles;
	mig_env_probe(e);
	mig_env_probe(e);
	assert_int_equal(mig_env_offered(e, NULL), 1);
	mig_env_until(e, mig_env_attempted(e));
	agent_fixture_run_once(e->f);
	assert_true(e->reconciles > before);
	assert_ended(e, "success", "applied");
}

static void mig_withdraw__offers_devices_again_that_are_in_use(void **state)
{
	static const struct {
		const char *holder, *reason;
		int left;
		bool force;
		const char *calls;
	} cases[] = {
		{ "GPU-0", "in use by pod ml/train-0", 0, false,
			"plan all\nholders\nholders\n" },
		{ NULL, "in use by MPS client 12", -1, false, "plan all\nholders\n" },
		{ "GPU-0", NULL, -1, true, "plan all\nrelease\napply all\n" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct mig_env *e = mig_env_another(state);

		mig_env_services(e);
		mig_env_write(e, "systemd", "exit 3\n"); /* not active */
		e->holder[1] = cases[i].holder;
		e->mps_check_withdrawn = cases[i].left;
		e->options.force = cases[i].force;
		e->options.shutdown_clients = !cases[i].force;
		mig_env_run(e);
		assert_calls(e, cases[i].calls);
		assert_ended(e, cases[i].reason ? "failed" : "success",
			cases[i].reason ? cases[i].reason : "applied");
		assert_int_equal(e->mig.attempt.in_use, cases[i].reason != NULL);
		assert_true(e->probes > 0); /* a probe brings back what exists */
	}
}

static void mig_withdraw__fails_when_a_daemon_does_not_quit(void **state)
{
	struct mig_env *e = *state;

	e->mps_check_withdrawn = 1;
	mig_env_start(e);
	mig_env_late(e, MIG_WITHDRAW);
	mig_env_probe(e);
	mig_env_until(e, mig_env_attempted(e));
	assert_ended(e, "failed", "an MPS control daemon does not quit");
	assert_calls(e, "plan all\nholders\n");
}

static void mig_withdraw__ignores_a_late_list_of_pods(void **state)
{
	struct mig_env *e = *state;
	struct error err = ERROR_INIT;

	mig_env_begin(e);
	e->kubelet_silent = true;
	mig_env_until(e, e->n_pod_device_requests == 1);
	mig_env_holders(e);
	mig_env_until(e, e->n_pod_device_requests == 2);
	(void)error_set(&err, ERR_IO, "something else");
	mig_fail(&e->mig, /* in_use= */ false, &err);
	assert_int_equal(e->mig.phase, MIG_SETTLE);
	mig_env_holders(e);
	assert_int_equal(e->mig.phase, MIG_SETTLE);
	mig_env_until(e, mig_env_attempted(e));
	assert_ended(e, "failed", "something else");
}

/* --- HOST --- */

static void mig_host_phase__saves_the_layout_for_the_next_boot(void **state)
{
	static const char *const selected =
		"[Service]\nEnvironment=\"MIG_PARTED_SELECTED_CONFIG=all\"\n";
	struct mig_env *e = *state;

	mig_env_write(e, "host/etc/mig.conf", "[Service]\n");
	/* A failed daemon-reload does not stop the attempt: systemd does not know the new file yet. */
	mig_env_write(e, "systemd", "[ $verb != daemon-reload ]\n");
	mig_env_run(e);
	assert_ended(e, "success", "applied");
	assert_calls(e, "plan all\nholders\nholders\ndaemon-reload\nrelease\napply all\n");
	assert_string_equal(mig_env_read(e, "host/etc/mig.conf"), selected);
	/* The next attempt finds the file unchanged and needs no daemon-reload. */
	e->mig.tried.key[0] = '\0';
	mig_sync(&e->mig);
	mig_env_retry(e);
	assert_int_equal(mig_env_count(e, "apply all"), 2);
	assert_int_equal(mig_env_count(e, "daemon-reload"), 1);
}

static void mig_host_phase__that_cannot_save_it_continues(void **state)
{
	struct mig_env *e = *state;

	mig_env_write(e, "host/etc/mig.conf/in-the-way", "");
	mig_env_run(e);
	assert_ended(e, "success", "applied");
	assert_int_equal(mig_env_count(e, "daemon-reload"), 0);
}

static void mig_host_phase__stops_services_only_where_a_device_is_removed(void **state)
{
	struct mig_env *e = *state;

	mig_env_services(e);
	mig_env_write(e, "plan", MORE);
	mig_env_run(e);
	assert_ended(e, "success", "applied");
	assert_calls(e, "plan all\napply all\n");
}

static void mig_host_phase__starts_stopped_services_when_another_does_not_stop(void **state)
{
	struct mig_env *e = *state;

	mig_env_services(e);
	mig_env_write(e, "systemd", "[ \"$verb $service\" != 'stop b.service' ]\n");
	mig_env_run(e);
	assert_ended(e, "failed", "stop service b.service: status 1");
	assert_calls(e, "plan all\nholders\nholders\nis-active a.service\nstop a.service\n"
			"is-active b.service\nstop b.service\n"
			"start b.service\nstart a.service\n");
	assert_string_equal(mig_env_read(e, "mig-services"), "");
}

/* --- RELEASE, APPLY --- */

static void mig_release__waits_for_nvml_to_release_the_gpus(void **state)
{
	struct mig_env *e = *state;

	e->locked = true;
	mig_env_begin(e);
	mig_env_until(e, mig_env_count(e, "release") == 1);
	mig_env_ticks(e);
	assert_int_equal(e->mig.phase, MIG_RELEASE);
	assert_int_equal(mig_env_count(e, "apply all"), 0);
	e->locked = false;
	mig_env_until(e, mig_env_attempted(e));
	assert_ended(e, "success", "applied");
}

static void mig_release__fails_when_nvml_does_not_release_the_gpus(void **state)
{
	struct mig_env *e = *state;

	mig_env_services(e);
	e->locked = true;
	mig_env_start(e);
	mig_env_late(e, MIG_RELEASE);
	mig_env_probe(e);
	mig_env_until(e, mig_env_attempted(e));
	assert_ended(e, "failed", "the NVML worker does not let go of the GPUs");
	assert_int_equal(mig_env_count(e, "apply all"), 0);
	assert_int_equal(mig_env_count(e, "start a.service"), 1);
	assert_int_equal(mig_env_count(e, "start b.service"), 1);
}

static void mig_apply__that_fails_reverts_every_step(void **state)
{
	static const struct {
		const char *apply, *reason;
		enum error_code code;
		bool reboot;
	} cases[] = {
		{ "finish false io 'GPU 0: unknown error'", "all: GPU 0: unknown error",
			.code = ERR_IO },
		{ "step 'reset'; exit 5", "ended with status 5 at: GPU 0: reset",
			.code = ERR_INTERNAL },
		{ "finish false reset-required 'GPU 0: pending'",
			"GPU 0: pending; a reset of the GPU or a reboot of the host is needed",
			.code = ERR_UNSUPPORTED },
		/* The agent cannot record the reboot without a Node, and might reboot for ever. */
		{ "finish false reset-required", "the MIG mode did not change; a reset",
			ERR_UNSUPPORTED, true },
		{ "finish false unavailable 'in use by process 9'", "process 9",
			.code = ERR_UNAVAILABLE },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct mig_env *e = mig_env_another(state);

		mig_env_services(e);
		e->options.with_reboot = cases[i].reboot;
		mig_env_write(e, "apply", cases[i].apply);
		mig_env_run(e);
		assert_ended(e, "failed", cases[i].reason);
		assert_int_equal(e->mig.attempt.error.code, cases[i].code);
		assert_int_equal(e->mig.attempt.in_use, cases[i].code == ERR_UNAVAILABLE);
		assert_non_null(strstr(mig_env_read(e, "calls"),
			"release\napply all\nstart b.service\nstart a.service\n"));
		assert_int_equal(mig_env_offered(e, NULL), 1);
		assert_int_equal(agent_fixture_count(e->f, "MigConfigApplied"), 0);
	}
}

/* --- SETTLE --- */

/* GPU-0 is cut in two. */
static struct inventory *partition_gpu(const char *reason)
{
	struct inventory *inv = fixture_inventory(2);

	inv->gpus[0].mig_capable = inv->gpus[1].mig_capable = true;
	(void)fixture_mig(inv, 0, 3, 3, 20);
	(void)snprintf(fixture_mig(inv, 0, 3, 3, 20)->reason, GPU_REASON_MAX, "%s", reason);
	(void)fixture_mig(inv, 1, 1, 1, 5);
	return inv;
}

/* NVML's handle was closed, so the first probe is a new one. Otherwise an older probe may still run. */
static void mig_settle__shows_the_new_layout_with_the_last_probe(void **state)
{
	static const struct {
		const char *plan;
		unsigned n_probes;
	} cases[] = { { MODE, 1 }, { "planned 0 2\n", 2 } };

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct mig_env *e = mig_env_another(state);

		mig_env_write(e, "plan", cases[i].plan);
		e->slow_nvml = true;
		mig_env_begin(e);
		e->after = partition_gpu("");
		mig_env_until(e, e->mig.phase == MIG_SETTLE);
		for (unsigned k = 1; k <= cases[i].n_probes; k++) {
			assert_int_equal(e->f->facts.node.inv->n_mig, 1);
			assert_int_equal(mig_env_offered(e, NULL), 1);
			assert_true(e->mig.attempt.masked);
			assert_true(e->probes >= k);
			mig_env_probe(e);
		}
		assert_false(e->mig.attempt.masked);
		assert_int_equal(mig_env_offered(e, NULL), 3);
		mig_env_until(e, mig_env_attempted(e));
		assert_ended(e, "success", "applied");
	}
}

static void mig_settle__waits_until_the_devices_are_available(void **state)
{
	struct mig_env *e = *state;
	unsigned probes;

	e->after = partition_gpu("no capability");
	e->not_ready = true;
	mig_env_begin(e);
	mig_env_until(e, e->mig.phase == MIG_SETTLE && !e->mig.attempt.masked);
	probes = e->probes;
	mig_env_until(e, e->probes > probes); /* the reason may pass: the agent probes again */
	assert_int_equal(e->mig.phase, MIG_SETTLE);
	e->gpus->mig[1].reason[0] = '\0';
	mig_env_probe(e);
	mig_env_ticks(e);
	assert_int_equal(e->mig.phase, MIG_SETTLE); /* not registered yet */
	e->not_ready = false;
	mig_env_until(e, mig_env_attempted(e));
	assert_ended(e, "success", "applied");
}

static void mig_settle__ignores_devices_of_other_gpus(void **state)
{
	struct mig_env *e = *state;

	e->after = partition_gpu("");
	(void)snprintf(e->after->mig[2].reason, GPU_REASON_MAX, "no capability");
	mig_env_run(e);
	assert_ended(e, "success", "applied");
}

static void mig_settle__fails_when_the_devices_do_not_appear(void **state)
{
	static const struct {
		const char *apply, *device, *reason;
		bool not_ready, slow;
	} cases[] = {
		{ NULL, "no capability",
			.reason = "cannot be had: MIG device MIG-0-1 (3g.20gb): no cap" },
		{ NULL, "", "had: nvidia.com/mig-1g.5gb is not registered", .not_ready = true },
		{ NULL, "", "applied, but the devices cannot be had", .slow = true },
		/* The first reason counts. */
		{ "finish false io 'lost'", "no capability", "all: lost", .slow = true },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct mig_env *e = mig_env_another(state);

		mig_env_services(e);
		if (cases[i].apply)
			mig_env_write(e, "apply", cases[i].apply);
		e->after = partition_gpu(cases[i].device);
		e->not_ready = cases[i].not_ready;
		e->slow_nvml = cases[i].slow;
		mig_env_begin(e);
		mig_env_until(e, e->mig.phase == MIG_SETTLE &&
					 (cases[i].slow || !e->mig.attempt.masked));
		mig_env_late(e, MIG_SETTLE);
		mig_env_until(e, mig_env_attempted(e));
		assert_ended(e, "failed", cases[i].reason);
		assert_null(strchr(e->mig.node.reason, '\n'));
		assert_int_equal(mig_env_count(e, "start a.service"), 1);
	}
}

/* --- RESTORE --- */

static void mig_restore__that_fails_is_retried_with_the_next_attempt(void **state)
{
	struct mig_env *e = *state;

	mig_env_services(e);
	mig_env_write(e, "systemd", "[ \"$verb $service\" != 'start b.service' ]\n");
	mig_env_run(e);
	assert_ended(e, "failed", "start service b.service: status 1");
	assert_int_equal(mig_env_count(e, "start a.service"), 1);
	assert_string_equal(mig_env_read(e, "mig-services"), "b.service\n");
	/* The plan has no steps any more, but the attempt runs again. */
	mig_env_write(e, "plan", SAME);
	mig_env_write(e, "systemd", "");
	e->mig.outcome.retry_at_ns = 1;
	mig_sync(&e->mig);
	mig_env_retry(e);
	assert_ended(e, "success", "applied");
	assert_int_equal(mig_env_count(e, "start a.service"), 1);
	assert_int_equal(mig_env_count(e, "start b.service"), 2);
	assert_string_equal(mig_env_read(e, "mig-services"), "");
}

/* --- the end of the agent --- */

static void mig_attempt_stop__ends_it_in_each_phase(void **state)
{
	static const struct {
		enum mig_phase phase;
		const char *file, *text, *calls;
	} cases[] = {
		{ MIG_PLAN, "plan", "exec sleep 600\n", "plan all\n" },
		{ MIG_WITHDRAW, NULL, NULL, "plan all\nholders\n" },
		{ MIG_HOST, "systemd", "exec sleep 600\n",
			"plan all\nholders\nholders\nis-active a.service\n" },
		{ MIG_APPLY, "apply", "exec sleep 600\n", NULL },
		{ MIG_SETTLE, NULL, NULL, NULL },
		{ MIG_RESTORE, "systemd", "[ $verb != start ] || exec sleep 600\n", NULL },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct mig_env *e = mig_env_another(state);

		mig_env_services(e);
		if (cases[i].file)
			mig_env_write(e, cases[i].file, cases[i].text);
		e->mps_check_withdrawn = cases[i].phase == MIG_WITHDRAW;
		e->slow_nvml = cases[i].phase == MIG_SETTLE;
		mig_env_begin(e);
		mig_env_until(e, e->mig.phase == cases[i].phase);
		if (cases[i].file && cases[i].calls)
			mig_env_until(e, strcmp(mig_env_read(e, "calls"), cases[i].calls) == 0);
		mig_env_stop(e);
		assert_int_equal(e->mig.phase, MIG_REST);
		assert_false(mig_env_attempted(e));
		assert_null(e->mig.attempt.child);
		assert_null(e->mig.host.child);
		/* The next agent knows the stopped services. */
		assert_int_equal(*mig_env_read(e, "mig-services") != '\0',
			cases[i].phase > MIG_HOST);
		mig_sync(&e->mig); /* does nothing any more */
		mig_on_probed(&e->mig);
		assert_int_equal(e->mig.phase, MIG_REST);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		MIG_TEST(mig_attempt__runs_its_steps_in_order_and_reverts_them),
		MIG_TEST(mig_attempt__runs_only_the_steps_that_the_change_needs),
		MIG_TEST(mig_attempt__passes_the_options_of_the_agent_to_the_tool),
		MIG_TEST(mig_plan__that_fails_changes_nothing),
		MIG_TEST(mig_plan__ends_a_tool_that_is_silent),
		MIG_TEST(mig_plan__fails_without_the_tool),
		MIG_TEST(mig_plan__waits_for_mps_to_answer_until_a_timeout),
		MIG_TEST(mig_plan__fails_where_a_pod_has_a_device_that_is_removed),
		MIG_TEST(mig_plan__needs_the_gpus),
		MIG_TEST(mig_plan__ignores_a_late_list_of_pods),
		MIG_TEST(mig_withdraw__removes_the_devices_from_the_offer_until_the_end),
		MIG_TEST(mig_withdraw__offers_devices_again_that_are_in_use),
		MIG_TEST(mig_withdraw__fails_when_a_daemon_does_not_quit),
		MIG_TEST(mig_withdraw__ignores_a_late_list_of_pods),
		MIG_TEST(mig_host_phase__saves_the_layout_for_the_next_boot),
		MIG_TEST(mig_host_phase__that_cannot_save_it_continues),
		MIG_TEST(mig_host_phase__stops_services_only_where_a_device_is_removed),
		MIG_TEST(mig_host_phase__starts_stopped_services_when_another_does_not_stop),
		MIG_TEST(mig_release__waits_for_nvml_to_release_the_gpus),
		MIG_TEST(mig_release__fails_when_nvml_does_not_release_the_gpus),
		MIG_TEST(mig_apply__that_fails_reverts_every_step),
		MIG_TEST(mig_settle__shows_the_new_layout_with_the_last_probe),
		MIG_TEST(mig_settle__waits_until_the_devices_are_available),
		MIG_TEST(mig_settle__ignores_devices_of_other_gpus),
		MIG_TEST(mig_settle__fails_when_the_devices_do_not_appear),
		MIG_TEST(mig_restore__that_fails_is_retried_with_the_next_attempt),
		MIG_TEST(mig_attempt_stop__ends_it_in_each_phase),
	};

	return cmocka_run_group_tests_name("mig-attempt", tests, NULL, NULL);
}
