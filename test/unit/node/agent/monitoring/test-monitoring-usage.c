/* SPDX-License-Identifier: Apache-2.0 */

/* The container to which the memory and the time of a GPU belong; or another process; or unknown. */
#include "unit/node/agent/monitoring/monitoring-env.h"

#include "lib/base/fd.h"
#include "node/agent/base/kubelet-checkpoint.h"

#include <unistd.h>

#define GPU_RESOURCE    "nvidia.com/gpu"
#define SHARED_RESOURCE "nvidia.com/gpu.shared"

/* GPU-0 has four replicas. */
static void shared_gpu(struct monitoring_env *e, enum sharing_strategy how)
{
	struct config *c = fixture_config();
	struct inventory *inv = fixture_inventory(1);

	(void)fixture_share_by(c, how, GPU_RESOURCE, SHARED_RESOURCE, 4, NULL);
	inv->gpus[0].memory_total_bytes = UINT64_C(16384) << 20;
	inv->gpus[0].cc_major = 7;
	inv->gpus[0].cc_minor = 5;
	agent_fixture_know(e->f, inv, c);
	e->units[0] = (struct env_device){ .uuid = "GPU-0", .used_mib = 4096, .busy_ms = 800 };
}

static void whole_gpu(struct monitoring_env *e)
{
	agent_fixture_know(e->f, fixture_inventory(1), NULL);
	e->units[0] = (struct env_device){ .uuid = "GPU-0", .used_mib = 4096, .busy_ms = 800 };
}

/* "one" and "two" have a replica each. The kubelet's checkpoint has their UIDs, 1 and 2. */
static void two_pods(struct monitoring_env *e)
{
	static const char *const pods[] = { "one", "two" };

	env_allocate_device(e, "one", SHARED_RESOURCE, "GPU-0::0");
	env_allocate_device(e, "two", SHARED_RESOURCE, "GPU-0::1");
	env_write_checkpoint(e, pods, ARRAY_LEN(pods));
}

static void set_process(struct monitoring_env *e, size_t at, uint32_t pid, int64_t mib,
	int64_t busy_ms)
{
	e->units[0].processes[at] =
		(struct env_process){ .pid = pid, .mib = mib, .busy_ms = busy_ms };
}

/* The start, and a round of a second. */
static void two_rounds(struct monitoring_env *e)
{
	env_start(e);
	env_answer(e);
	(void)env_end(e);
	(void)env_round(e, NS_PER_SEC);
}

struct expected {
	enum view_source memory, busy;
	uint64_t mib, busy_ms, n_processes;
	bool processes;
};

static void check_pod_usage(const struct monitoring_env *e, const char *pod, struct expected x)
{
	const struct view_use *u = env_find_usage(e, pod);

	if (u->memory_from != x.memory || u->busy_from != x.busy ||
		u->processes_known != x.processes)
		fail_msg("%s: memory from %d, time from %d, processes known %d", pod,
			u->memory_from, u->busy_from, u->processes_known);
	assert_int_equal(u->memory_used >> 20, x.mib);
	assert_int_equal(u->busy_ns, x.busy_ms * NS_PER_MS);
	assert_int_equal(u->n_processes, x.n_processes);
}

#define PROCESSES VIEW_FROM_PROCESSES
#define DEVICE    VIEW_FROM_DEVICE
#define NOTHING   VIEW_FROM_NOTHING

/* --- processes of pods --- */

static void assign__attributes_processes_to_their_pods(void **state)
{
	struct monitoring_env *e = *state;

	shared_gpu(e, SHARING_TIME_SLICING);
	two_pods(e);
	set_process(e, 0, 11, 1000, 100);
	set_process(e, 1, 12, 500, 50);
	set_process(e, 2, 21, 2000, 300);
	env_process(e, 11, 1, "main");
	env_process(e, 12, 1, NULL); /* the only container of its pod here */
	env_process(e, 21, 2, "main");
	two_rounds(e);
	check_pod_usage(e, "one",
		(struct expected){ PROCESSES, PROCESSES, 1500, 300, 2, true });
	check_pod_usage(e, "two",
		(struct expected){ PROCESSES, PROCESSES, 2000, 600, 1, true });
	assert_string_equal(env_find_usage(e, "one")->uid, ENV_UID "1");
	assert_int_equal(env_find_device(e, "GPU-0")->other_memory >> 20, 596);
	assert_int_equal(env_find_device(e, "GPU-0")->other_busy_ns, 700 * NS_PER_MS);
	assert_int_equal(env_find_device(e, "GPU-0")->busy_ns, 1600 * NS_PER_MS);
	assert_int_equal(env_find_usage(e, "two")->received, 300000);
}

static void assign__attributes_a_process_of_no_pod_to_no_pod(void **state)
{
	static const unsigned digits[] = { 0,
		7 }; /* of the node itself, of a pod without a device */
	struct monitoring_env *e = *state;

	shared_gpu(e, SHARING_TIME_SLICING);
	two_pods(e);
	set_process(e, 0, 11, 1000, 100);
	set_process(e, 1, 31, 3000, 700);
	env_process(e, 11, 1, "main");
	for (size_t i = 0; i < ARRAY_LEN(digits); i++) {
		env_process(e, 31, digits[i], "main");
		two_rounds(e);
		check_pod_usage(e, "one",
			(struct expected){ PROCESSES, PROCESSES, 1000, (i + 1) * 200, 1,
				true });
		check_pod_usage(e, "two",
			(struct expected){ PROCESSES, PROCESSES, 0, 0, 0, true });
		assert_int_equal(env_find_device(e, "GPU-0")->other_memory >> 20, 3096);
		env_stop(e);
	}
}

/* An unreadable process may belong to each container without a process. */
static void assign__reports_unknown_idle_time_beside_a_hidden_process(void **state)
{
	static const struct {
		const char *what;
		bool ended;     /* /proc has nothing of it */
		unsigned digit; /* of the pod, if the process has not ended */
		const char *container;
	} rows[] = {
		{ "it has ended", true, 0, NULL },
		{ "it is of a container of the pod that does not hold this GPU", false, 2,
			"sidecar" },
	};
	struct monitoring_env *e = *state;

	shared_gpu(e, SHARING_TIME_SLICING);
	two_pods(e);
	set_process(e, 0, 11, 1000, 100);
	set_process(e, 1, 41, 500, 50);
	env_process(e, 11, 1, "main");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (!rows[i].ended)
			env_process(e, 41, rows[i].digit, rows[i].container);
		two_rounds(e);
		assert_int_equal(env_find_usage(e, "one")->memory_from, PROCESSES);
		if (env_find_usage(e, "two")->memory_known ||
			env_find_usage(e, "two")->processes_known ||
			env_find_usage(e, "two")->busy_from)
			fail_msg("%s: it is taken to be idle", rows[i].what);
		env_stop(e);
	}
}

/* A new pod is listed before the kubelet's checkpoint has its UID: the process may belong to it. */
static void assign__waits_for_the_uid_of_a_new_pod(void **state)
{
	static const char *const pods[] = { "one", "two" };
	struct monitoring_env *e = *state;

	shared_gpu(e, SHARING_TIME_SLICING);
	env_allocate_device(e, "one", SHARED_RESOURCE, "GPU-0::0");
	env_allocate_device(e, "two", SHARED_RESOURCE, "GPU-0::1");
	set_process(e, 0, 21, 2000, 300);
	env_process(e, 21, 2, "main");
	two_rounds(e);
	check_pod_usage(e, "one", (struct expected){ NOTHING, NOTHING, 0, 0, 0, false });
	check_pod_usage(e, "two", (struct expected){ NOTHING, NOTHING, 0, 0, 0, false });
	env_write_checkpoint(e, pods, ARRAY_LEN(pods));
	(void)env_round(e, NS_PER_SEC);
	check_pod_usage(e, "one", (struct expected){ PROCESSES, PROCESSES, 0, 0, 0, true });
	check_pod_usage(e, "two",
		(struct expected){ PROCESSES, PROCESSES, 2000, 300, 1, true });
}

static void checkpoint__that_is_malformed_or_missing_keeps_the_former_pods(void **state)
{
	static const char *const texts[] = { "", "{", "{\"Data\":{}}", "[]", NULL };
	struct monitoring_env *e = *state;

	shared_gpu(e, SHARING_TIME_SLICING);
	two_pods(e);
	two_rounds(e);
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		if (texts[i])
			test_write(e->plugin_dir, KUBELET_CHECKPOINT, texts[i],
				strlen(texts[i]), 0600);
		else
			assert_int_equal(unlink(e->mon.checkpoint.path), 0);
		(void)env_round(e, NS_PER_SEC);
		assert_string_equal(env_find_usage(e, "one")->uid, ENV_UID "1");
		assert_int_equal(e->mon.checkpoint.content.n, 2);
	}
}

/* A second container of the pod has the GPU: the agent has to know to which of the two the process belongs. */
static void assign__tells_containers_of_one_pod_apart(void **state)
{
	static const char *const pods[] = { "one" };
	struct monitoring_env *e = *state;
	const struct view_use *uses;

	shared_gpu(e, SHARING_TIME_SLICING);
	env_allocate_device(e, "one", SHARED_RESOURCE, "GPU-0::0");
	env_allocate_device(e, "one", SHARED_RESOURCE, "GPU-0::1");
	(void)snprintf(e->pods[1].container, sizeof("main"), "side");
	env_write_checkpoint(e, pods, ARRAY_LEN(pods));
	set_process(e, 0, 11, 1000, 100);
	set_process(e, 1, 12, 500, 50);
	env_process(e, 11, 1, "main");
	env_process(e, 12, 1, "side");
	two_rounds(e);
	assert_int_equal(e->view->n_uses, 2);
	uses = e->view->uses; /* by name */
	assert_int_equal(uses[0].memory_used >> 20, 1000);
	assert_int_equal(uses[1].memory_used >> 20, 500);
	/* /proc does not have the container: the process may belong to either, and neither is idle for sure. */
	env_process(e, 13, 1, NULL);
	set_process(e, 1, 13, 500, 50);
	(void)env_round(e, NS_PER_SEC);
	assert_int_equal(e->view->uses[0].memory_used >> 20, 1000);
	assert_false(e->view->uses[1].memory_known);
}

/* The largest figure that NVML has of a process counts. An unknown figure makes the sum unknown. */
static void assign__reports_a_sum_with_an_unknown_term_as_unknown(void **state)
{
	struct monitoring_env *e = *state;

	shared_gpu(e, SHARING_TIME_SLICING);
	two_pods(e);
	set_process(e, 0, 11, 1000, 100);
	set_process(e, 1, 12, -1, -1);
	set_process(e, 2, 21, 100, -1);
	env_process(e, 11, 1, "main");
	env_process(e, 12, 1, "main");
	env_process(e, 21, 2, "main");
	two_rounds(e);
	assert_false(env_find_usage(e, "one")->memory_known);
	assert_int_equal(env_find_usage(e, "one")->busy_from, NOTHING);
	assert_int_equal(env_find_usage(e, "one")->n_processes, 2);
	check_pod_usage(e, "two", (struct expected){ PROCESSES, NOTHING, 100, 0, 1, true });
}

/* A process whose files have no end: its control group has the pod. The container is known once the files
 * are readable. */
static void assign__reports_the_container_of_endless_files_as_unknown(void **state)
{
	static const char *const pods[] = { "one" };
	struct monitoring_env *e = *state;
	const struct monitoring_process *p;
	char path[PATH_MAX];
	struct error err = ERROR_INIT;

	shared_gpu(e, SHARING_TIME_SLICING);
	env_allocate_device(e, "one", SHARED_RESOURCE, "GPU-0::0");
	env_allocate_device(e, "one", SHARED_RESOURCE, "GPU-0::1");
	(void)snprintf(e->pods[1].container, sizeof("main"), "side");
	env_write_checkpoint(e, pods, ARRAY_LEN(pods));
	set_process(e, 0, 11, 1000, 100);
	env_process(e, 11, 1, "main");
	assert_ok(path_join(path, sizeof(path), e->proc_dir, "11/mountinfo", &err), &err);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(symlink("/dev/zero", path), 0);
	two_rounds(e);
	assert_int_equal(e->view->n_uses, 2);
	assert_false(e->view->uses[0].memory_known || e->view->uses[1].memory_known);
	p = monitoring_processes_find(&e->mon.processes, 11);
	assert_non_null(p);
	assert_true(p->logged);
	assert_string_equal(p->uid, ENV_UID "1");
	assert_int_equal(unlink(path), 0);
	env_process(e, 11, 1, "main");
	for (int i = 0; i <= MONITORING_OVERSIZE_ROUNDS; i++)
		(void)env_round(e, NS_PER_SEC);
	p = monitoring_processes_find(&e->mon.processes, 11);
	assert_non_null(p);
	assert_string_equal(p->container, "main");
	assert_false(p->logged);
	assert_int_equal(e->view->uses[0].memory_used >> 20, 1000);
	assert_true(e->view->uses[1].processes_known);
}

static void assign__reports_no_time_for_the_first_sample(void **state)
{
	struct monitoring_env *e = *state;

	shared_gpu(e, SHARING_TIME_SLICING);
	two_pods(e);
	set_process(e, 0, 11, 1000, 100);
	env_process(e, 11, 1, "main");
	e->units[0].first = true;
	two_rounds(e);
	check_pod_usage(e, "one", (struct expected){ PROCESSES, NOTHING, 1000, 0, 1, true });
	assert_int_equal(env_find_device(e, "GPU-0")->busy_ns, 0);
	assert_int_equal(env_find_device(e, "GPU-0")->busy, VIEW_NONE);
}

/* --- a container that has the GPU alone --- */

static void sole_pod__has_the_figures_of_the_device_without_better_ones(void **state)
{
	static const struct {
		const char *what;
		bool no_processes, foreign, own;
		struct expected one;
	} rows[] = {
		{ "NVML lists no processes", true, false, false,
			{ DEVICE, DEVICE, 4096, 800, 0, false } },
		{ "it has none", false, false, false, { PROCESSES, DEVICE, 0, 800, 0, true } },
		{ "it has one", false, false, true, { PROCESSES, DEVICE, 1000, 800, 1, true } },
		{ "somebody else is there", false, true, true,
			{ PROCESSES, PROCESSES, 1000, 100, 1, true } },
	};
	static const char *const pods[] = { "one" };
	struct monitoring_env *e = *state;

	whole_gpu(e);
	env_allocate_device(e, "one", GPU_RESOURCE, "GPU-0");
	env_write_checkpoint(e, pods, ARRAY_LEN(pods));
	env_process(e, 11, 1, "main");
	env_process(e, 31, 0, NULL);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		size_t n = 0;

		test_rmdir(strdup(e->state_dir));
		memset(e->units[0].processes, 0, sizeof(e->units[0].processes));
		e->units[0].no_processes = rows[i].no_processes;
		if (rows[i].own)
			set_process(e, n++, 11, 1000, 100);
		if (rows[i].foreign)
			set_process(e, n++, 31, 3000, 600);
		env_start(e);
		env_answer(e);
		(void)env_end(e);
		print_message("# %s\n", rows[i].what);
		check_pod_usage(e, "one", rows[i].one);
		env_stop(e);
	}
}

/* Two containers have the device: its figures belong to neither. */
static void sole_pod__does_not_exist_on_a_device_with_two_pods(void **state)
{
	struct monitoring_env *e = *state;

	shared_gpu(e, SHARING_TIME_SLICING);
	two_pods(e);
	e->units[0].no_processes = true;
	two_rounds(e);
	check_pod_usage(e, "one", (struct expected){ NOTHING, NOTHING, 0, 0, 0, false });
	assert_int_equal(env_find_device(e, "GPU-0")->other_memory >> 20, 4096);
	assert_int_equal(env_find_device(e, "GPU-0")->other_busy_ns, 1600 * NS_PER_MS);
}

/* --- the agent's own PID namespace --- */

static void pids__of_an_own_namespace_degrade_the_usage_of_shared_gpus(void **state)
{
	static const struct {
		enum kubelet_pids pids;
		bool shared, degraded, idle_known;
	} rows[] = {
		{ KUBELET_PIDS_NODE, true, false, true },
		{ KUBELET_PIDS_OWN, true, true, false },
		{ KUBELET_PIDS_UNKNOWN, true, false, false },
		{ KUBELET_PIDS_OWN, false, false, false },
	};
	struct monitoring_env *e = *state;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct error *why = &e->f->components[COMPONENT_POD_USAGE];

		if (rows[i].shared)
			shared_gpu(e, SHARING_TIME_SLICING);
		else
			agent_fixture_know(e->f, fixture_inventory(1), fixture_config());
		e->units[0] =
			(struct env_device){ .uuid = "GPU-0", .used_mib = 0, .busy_ms = 0 };
		env_release_all(e);
		env_allocate_device(e, "one", rows[i].shared ? SHARED_RESOURCE : GPU_RESOURCE,
			rows[i].shared ? "GPU-0::0" : "GPU-0");
		e->pids = rows[i].pids;
		two_rounds(e);
		if ((why->code != ERR_NONE) != rows[i].degraded ||
			env_find_usage(e, "one")->processes_known != rows[i].idle_known)
			fail_msg("row %zu: '%s', processes known %d", i, why->msg,
				env_find_usage(e, "one")->processes_known);
		env_stop(e);
	}
	/* The component recovers when the agent sees the node's PIDs. */
	assert_int_equal(e->f->components[COMPONENT_POD_USAGE].code, ERR_NONE);
}

/* --- MPS --- */

/* The driver does not report the time of a process, and a single client does not get all of the GPU's time. */
static void mps__reports_memory_and_no_time_of_a_client(void **state)
{
	static const char *const pods[] = { "one" };
	struct monitoring_env *e = *state;

	shared_gpu(e, SHARING_MPS);
	env_allocate_device(e, "one", SHARED_RESOURCE, "GPU-0::0");
	env_write_checkpoint(e, pods, ARRAY_LEN(pods));
	set_process(e, 0, 11, 1000, 100);
	env_process(e, 11, 1, "main");
	two_rounds(e);
	assert_int_equal(env_find_usage(e, "one")->mode, VIEW_MPS);
	check_pod_usage(e, "one", (struct expected){ PROCESSES, NOTHING, 1000, 0, 1, true });
	assert_int_equal(env_find_device(e, "GPU-0")->other_busy_ns, 1600 * NS_PER_MS);
	assert_int_equal(env_find_usage(e, "one")->received, VIEW_NONE);
}

/* --- peaks --- */

static bool has_peak(const struct monitoring_env *e, const char *uuid, const char *namespace_,
	const char *pod, const char *container, const char *resource, uint64_t *ret)
{
	const struct pod_device of = { .namespace_ = (char *)(uintptr_t)namespace_,
		.pod = (char *)(uintptr_t)pod,
		.container = (char *)(uintptr_t)container,
		.resource = (char *)(uintptr_t)resource };

	return monitoring_peak(&e->mon, uuid, &of, ret);
}

static void peak__belongs_to_the_present_container(void **state)
{
	static const char *const pods[] = { "one" };
	static const struct {
		const char *uuid, *namespace_, *pod, *container, *resource;
		bool known;
	} rows[] = {
		{ "GPU-0", "ml", "one", "main", GPU_RESOURCE, true },
		{ "GPU-0", "ml", "one", "side", GPU_RESOURCE, false },
		{ "GPU-0", "ml", "two", "main", GPU_RESOURCE, false },
		{ "GPU-0", "other", "one", "main", GPU_RESOURCE, false },
		{ "GPU-0", "ml", "one", "main", SHARED_RESOURCE, false },
		{ "GPU-9", "ml", "one", "main", GPU_RESOURCE, false },
	};
	struct monitoring_env *e = *state;
	uint64_t peak = 0;

	whole_gpu(e);
	env_allocate_device(e, "one", GPU_RESOURCE, "GPU-0");
	env_write_checkpoint(e, pods, ARRAY_LEN(pods));
	set_process(e, 0, 11, 3000, 100);
	env_process(e, 11, 1, "main");
	two_rounds(e);
	set_process(e, 0, 11, 100, 100);
	(void)env_round(e, NS_PER_SEC);
	assert_int_equal(env_find_usage(e, "one")->memory_peak >> 20, 3000);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (has_peak(e, rows[i].uuid, rows[i].namespace_, rows[i].pod,
			    rows[i].container, rows[i].resource, &peak) != rows[i].known)
			fail_msg("row %zu", i);
	assert_int_equal(peak >> 20, 3000);
	/* The pod has ended, and the next pod of its name begins at zero. */
	env_release_all(e);
	(void)env_round(e, NS_PER_SEC);
	assert_false(env_find_usage(e, "one")->live);
	assert_false(has_peak(e, "GPU-0", "ml", "one", "main", GPU_RESOURCE, &peak));
}

/* --- pods end, pods come --- */

static void usage__that_ended_keeps_its_last_figures(void **state)
{
	static const char *const pods[] = { "one" };
	struct monitoring_env *e = *state;
	const struct view_use *u;

	whole_gpu(e);
	env_allocate_device(e, "one", GPU_RESOURCE, "GPU-0");
	env_write_checkpoint(e, pods, ARRAY_LEN(pods));
	set_process(e, 0, 11, 1000, 100);
	env_process(e, 11, 1, "main");
	two_rounds(e);
	env_release_all(e);
	memset(e->units[0].processes, 0, sizeof(e->units[0].processes));
	(void)env_round(e, 10 * NS_PER_SEC);
	u = env_find_usage(e, "one");
	assert_false(u->live || u->memory_known);
	assert_int_equal(u->allocated_ns,
		6 * NS_PER_SEC); /* half of the round in which it ended */
	assert_int_equal(u->memory_peak >> 20, 1000);
	assert_int_equal(u->ended_wall_ns, e->view->wall_ns);
	assert_int_equal(env_find_device(e, "GPU-0")->allocated, 0);
	/* After ten minutes its figures are a part of the device's past. */
	(void)env_round(e, 300 * NS_PER_SEC);
	(void)env_round(e, 299 * NS_PER_SEC);
	assert_non_null(env_find_use_or_null(e, "one"));
	(void)env_round(e, NS_PER_SEC);
	assert_null(env_find_use_or_null(e, "one"));
	assert_int_equal(env_find_device(e, "GPU-0")->past.gpu_ns, 6 * NS_PER_SEC);
}

static void usage__of_a_device_that_is_not_offered_continues(void **state)
{
	struct monitoring_env *e = *state;
	uint64_t held;

	shared_gpu(e, SHARING_TIME_SLICING);
	env_allocate_device(e, "one", SHARED_RESOURCE, "GPU-0::3");
	two_rounds(e);
	held = env_find_usage(e, "one")->allocated_ns;
	assert_true(env_find_usage(e, "one")->offered_now);
	agent_fixture_know(e->f, fixture_inventory(1), fixture_config());
	(void)env_round(e, NS_PER_SEC);
	assert_false(env_find_usage(e, "one")->offered_now);
	assert_int_equal(env_find_usage(e, "one")->replica, VIEW_NONE);
	assert_int_equal(env_find_usage(e, "one")->mode, VIEW_TIME_SLICING);
	assert_int_equal(env_find_usage(e, "one")->share, 250000);
	assert_int_equal(env_find_usage(e, "one")->allocated_ns, held + NS_PER_SEC);
	assert_int_equal(env_find_replica(e, "GPU-0")->use, VIEW_NONE);
	assert_int_equal(env_find_device(e, "GPU-0")->replicas_used, 0);
}

static void usage__ends_with_its_device_unless_nvml_is_unavailable(void **state)
{
	struct monitoring_env *e = *state;

	e->context.options.price_given = true; /* the hidden rest is the node's other cost */
	e->context.options.price_nano = 3600 * PRICE_NANO;
	agent_fixture_know(e->f, fixture_inventory(2), NULL);
	env_allocate_device(e, "one", GPU_RESOURCE, "GPU-1");
	two_rounds(e);
	assert_int_equal(e->mon.accounts.n_devices, 2);
	/* While MIG modes change the agent must not probe, and NVML may be down: no device counts as gone. */
	e->released = true;
	node_fini(&e->f->facts.node);
	node_init(&e->f->facts.node);
	agent_fixture_know(e->f, fixture_inventory(1), NULL);
	(void)env_round(e, NS_PER_SEC);
	assert_int_equal(e->mon.accounts.n_devices, 2);
	assert_null(env_find_use_or_null(e, "one"));
	assert_int_equal(e->view->cost_nano, 2 * PRICE_NANO);
	assert_int_equal(e->view->other_cost_nano, PRICE_NANO / 2);
	e->released = false;
	(void)error_set(&e->f->facts.nvml_down, ERR_UNAVAILABLE, "no driver");
	(void)env_round(e, NS_PER_SEC);
	assert_int_equal(e->mon.accounts.n_devices, 2);
	assert_false(e->view->nvml_up);
	assert_string_equal(e->view->nvml_error, "no driver");
	error_clear(&e->f->facts.nvml_down);
	(void)env_round(e, NS_PER_SEC);
	assert_int_equal(e->mon.accounts.n_devices, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ENV_TEST(assign__attributes_processes_to_their_pods),
		ENV_TEST(assign__attributes_a_process_of_no_pod_to_no_pod),
		ENV_TEST(assign__reports_unknown_idle_time_beside_a_hidden_process),
		ENV_TEST(assign__waits_for_the_uid_of_a_new_pod),
		ENV_TEST(checkpoint__that_is_malformed_or_missing_keeps_the_former_pods),
		ENV_TEST(assign__tells_containers_of_one_pod_apart),
		ENV_TEST(assign__reports_a_sum_with_an_unknown_term_as_unknown),
		ENV_TEST(assign__reports_the_container_of_endless_files_as_unknown),
		ENV_TEST(assign__reports_no_time_for_the_first_sample),
		ENV_TEST(sole_pod__has_the_figures_of_the_device_without_better_ones),
		ENV_TEST(sole_pod__does_not_exist_on_a_device_with_two_pods),
		ENV_TEST(pids__of_an_own_namespace_degrade_the_usage_of_shared_gpus),
		ENV_TEST(mps__reports_memory_and_no_time_of_a_client),
		ENV_TEST(peak__belongs_to_the_present_container),
		ENV_TEST(usage__that_ended_keeps_its_last_figures),
		ENV_TEST(usage__of_a_device_that_is_not_offered_continues),
		ENV_TEST(usage__ends_with_its_device_unless_nvml_is_unavailable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
