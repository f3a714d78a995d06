/* SPDX-License-Identifier: Apache-2.0 */

/* Slices: the agent counts the arbiter's charges once and for the right pod, also where the arbiter is down
 * for a while. */
#include "unit/node/agent/monitoring/monitoring-env.h"

#define SMALL      "nvidia.com/small"
#define SMALL_0    "GPU-0::small::0"
#define SMALL_1    "GPU-0::small::1"
#define ID         "0123456789abcdef0123456789abcdef"
#define OTHER      "fedcba9876543210fedcba9876543210"
#define MS(n)      ((uint64_t)(n)*NS_PER_MS)
#define MIB(n)     ((uint64_t)(n) << 20)
#define LONG_AGO_S 3600

/* GPU-0 is cut into two slices; "one" has the first. */
static void sliced_gpu(struct monitoring_env *e)
{
	struct config *c = fixture_config();
	struct inventory *inv = fixture_inventory(1);

	inv->gpus[0].memory_usable_bytes = MIB(16384);
	(void)fixture_profile(fixture_add_slices(c, "nvidia.com/gpu", NULL), SMALL, 2, 4096);
	agent_fixture_know(e->f, inv, c);
	e->units[0] = (struct env_device){ .uuid = "GPU-0",
		.used_mib = 4096,
		.busy_ms = -1,
		.no_processes = true };
	env_allocate_device(e, "one", SMALL, SMALL_0);
}

static struct stored_slice *small_slice(struct monitoring_env *e, enum slice_compute compute)
{
	return env_slice(e, ID, SMALL, SMALL_0, "GPU-0", compute);
}

static void charged(struct monitoring_env *e, uint64_t ns)
{
	char text[256];

	(void)snprintf(text, sizeof(text),
		"[{\"id\":\"" ID "\",\"gpus\":[{\"uuid\":\"GPU-0\",\"charged_ns\":%llu}]}]",
		(unsigned long long)ns);
	env_set_arbiter_status(e, text);
}

static void start_first_round(struct monitoring_env *e)
{
	env_start(e);
	env_answer(e);
	(void)env_end(e);
}

static uint64_t busy(const struct monitoring_env *e, const char *pod)
{
	return env_find_usage(e, pod)->busy_ns;
}

/* --- time --- */

static void charge__of_a_new_slice_counts_from_zero(void **state)
{
	struct monitoring_env *e = *state;

	sliced_gpu(e);
	start_first_round(e);
	env_pass(10 * NS_PER_SEC);
	small_slice(e, SLICE_COMPUTE_FAIR_SHARE)->file.created_s = time_wall_ns() / NS_PER_SEC;
	charged(e, MS(3000));
	(void)env_round(e, 5 * NS_PER_SEC);
	assert_int_equal(busy(e, "one"), MS(3000));
	assert_int_equal(env_find_usage(e, "one")->busy_from, VIEW_FROM_SLICE);
	assert_true(env_find_usage(e, "one")->busy_exact);
	charged(e, MS(3500));
	(void)env_round(e, NS_PER_SEC);
	assert_int_equal(busy(e, "one"), MS(3500));
	assert_int_equal(env_find_usage(e, "one")->received, 500000);
	(void)env_round(e, NS_PER_SEC);
	assert_int_equal(busy(e, "one"), MS(3500));
	assert_int_equal(env_find_usage(e, "one")->received, 0);
}

/* An earlier agent has counted what the slice had before this agent, or no agent has. */
static void charge__of_an_old_slice_counts_from_its_first_sample(void **state)
{
	struct monitoring_env *e = *state;

	sliced_gpu(e);
	small_slice(e, SLICE_COMPUTE_FAIR_SHARE)->file.created_s =
		e->context.started_wall_ns / NS_PER_SEC - LONG_AGO_S;
	charged(e, MS(50000));
	start_first_round(e);
	(void)env_round(e, NS_PER_SEC);
	assert_int_equal(busy(e, "one"), 0);
	charged(e, MS(50250));
	(void)env_round(e, NS_PER_SEC);
	assert_int_equal(busy(e, "one"), MS(250));
}

/* A busy time that NVML has counted meanwhile is not counted twice. */
static void charge__of_the_time_without_an_arbiter_counts_once(void **state)
{
	struct monitoring_env *e = *state;

	sliced_gpu(e);
	small_slice(e, SLICE_COMPUTE_FAIR_SHARE)->file.created_s =
		e->context.started_wall_ns / NS_PER_SEC - LONG_AGO_S;
	charged(e, MS(1000));
	start_first_round(e);
	env_set_arbiter_status(e, NULL);
	e->units[0].busy_ms = 300;
	(void)env_round(e, NS_PER_SEC);
	(void)env_round(e, NS_PER_SEC);
	assert_int_equal(busy(e, "one"), MS(600));
	assert_int_equal(env_find_usage(e, "one")->busy_from, VIEW_FROM_DEVICE);
	charged(e, MS(3000));
	(void)env_round(e, NS_PER_SEC);
	assert_int_equal(busy(e, "one"), MS(2000));
	/* NVML had counted more than the true time. */
	env_set_arbiter_status(e, NULL);
	(void)env_round(e, NS_PER_SEC);
	charged(e, MS(3100));
	(void)env_round(e, NS_PER_SEC);
	assert_int_equal(busy(e, "one"), MS(2300));
	charged(e, MS(3400));
	(void)env_round(e, NS_PER_SEC);
	assert_int_equal(busy(e, "one"), MS(2600));
}

static void charge__that_decreases_subtracts_nothing(void **state)
{
	struct monitoring_env *e = *state;

	sliced_gpu(e);
	small_slice(e, SLICE_COMPUTE_FAIR_SHARE)->file.created_s =
		e->context.started_wall_ns / NS_PER_SEC - LONG_AGO_S;
	charged(e, MS(1000));
	start_first_round(e);
	charged(e, MS(1400));
	(void)env_round(e, NS_PER_SEC);
	charged(e, MS(100)); /* another arbiter */
	(void)env_round(e, NS_PER_SEC);
	assert_int_equal(busy(e, "one"), MS(400));
	charged(e, MS(150));
	(void)env_round(e, NS_PER_SEC);
	assert_int_equal(busy(e, "one"), MS(450));
}

static void charge__of_an_ended_pod_stays_its_own(void **state)
{
	struct monitoring_env *e = *state;

	sliced_gpu(e);
	small_slice(e, SLICE_COMPUTE_FAIR_SHARE)->file.created_s =
		e->context.started_wall_ns / NS_PER_SEC - LONG_AGO_S;
	charged(e, MS(1000));
	start_first_round(e);
	(void)env_round(e, NS_PER_SEC);
	env_release_all(e);
	charged(e, MS(1200));
	(void)env_round(e, NS_PER_SEC);
	assert_false(env_find_usage(e, "one")->live);
	assert_int_equal(busy(e, "one"), MS(200));
	charged(e, MS(1300)); /* of no known pod */
	(void)env_round(e, NS_PER_SEC);
	assert_int_equal(busy(e, "one"), MS(200));
	assert_int_equal(e->mon.charges.n, 1);
	env_set_arbiter_status(e,
		NULL); /* down: no answer reports that the slice was removed */
	(void)env_round(e, NS_PER_SEC);
	assert_int_equal(e->mon.charges.n, 1);
	/* The arbiter has other slices, and not this one any more. */
	env_set_arbiter_status(e, "[{\"id\":\"" OTHER "\",\"gpus\":[]}]");
	(void)env_round(e, NS_PER_SEC);
	assert_int_equal(e->mon.charges.n, 0);
}

/* The pod's successor with the same devices has a slice of its own. */
static void charge__of_a_superseded_slice_does_not_go_to_the_next_pod(void **state)
{
	struct monitoring_env *e = *state;
	struct stored_slice *s;

	sliced_gpu(e);
	s = small_slice(e, SLICE_COMPUTE_FAIR_SHARE);
	s->file.created_s = e->context.started_wall_ns / NS_PER_SEC - LONG_AGO_S;
	charged(e, MS(1000));
	start_first_round(e);
	env_release_all(e);
	s->superseded = true;
	env_pass(NS_PER_SEC / 2);
	env_add_pending(e, SMALL, SMALL_0);
	env_allocate_device(e, "two", SMALL, SMALL_0);
	charged(e, MS(1100));
	(void)env_round(e, NS_PER_SEC / 2);
	assert_int_equal(busy(e, "one"), MS(100));
	assert_int_equal(busy(e, "two"), 0);
	assert_null(env_find_usage(e, "two")->slice);
}

static void charge__of_a_slice_without_compute_is_zero(void **state)
{
	struct monitoring_env *e = *state;

	sliced_gpu(e);
	(void)small_slice(e, SLICE_COMPUTE_NONE);
	charged(e, MS(1000));
	start_first_round(e);
	e->units[0].busy_ms = 100;
	charged(e, MS(1700));
	(void)env_round(e, NS_PER_SEC);
	assert_int_equal(env_find_usage(e, "one")->busy_from, VIEW_FROM_DEVICE);
	assert_int_equal(busy(e, "one"), MS(100));
	assert_string_equal(env_find_usage(e, "one")->slice->compute, "none");
	assert_int_equal(env_find_usage(e, "one")->slice->weight, 0);
}

/* Two containers: each has its own charge. NVML's busy time of the GPU is no more than the rest. */
static void charge__of_two_slices_is_separate(void **state)
{
	struct monitoring_env *e = *state;

	sliced_gpu(e);
	env_allocate_device(e, "two", SMALL, SMALL_1);
	small_slice(e, SLICE_COMPUTE_FAIR_SHARE)->file.created_s = 1;
	env_slice(e, OTHER, SMALL, SMALL_1, "GPU-0", SLICE_COMPUTE_FAIR_SHARE)->file.created_s =
		1;
	start_first_round(e);
	env_set_arbiter_status(e,
		"[{\"id\":\"" ID "\",\"gpus\":[{\"uuid\":\"gpu-0\",\"charged_ns\":0}]},"
		"{\"id\":\"" OTHER "\",\"gpus\":[{\"uuid\":\"GPU-0\",\"charged_ns\":0}]}]");
	(void)env_round(e, NS_PER_SEC);
	env_set_arbiter_status(e,
		"[{\"id\":\"" ID "\",\"gpus\":[{\"uuid\":\"gpu-0\",\"charged_ns\":300000000}]},"
		"{\"id\":\"" OTHER
		"\",\"gpus\":[{\"uuid\":\"GPU-0\",\"charged_ns\":500000000}]}]");
	e->units[0].busy_ms = 900;
	(void)env_round(e, NS_PER_SEC);
	assert_int_equal(busy(e, "one"), MS(300));
	assert_int_equal(busy(e, "two"), MS(500));
	assert_int_equal(env_find_device(e, "GPU-0")->other_busy_ns, MS(100));
}

/* NVML samples, where the runtime measures. The last hour has the larger of the two, at most the whole. */
static void charge__beyond_the_sample_of_nvml_is_in_the_last_hour(void **state)
{
	static const struct {
		uint64_t charged_ms, points_millionths;
	} rows[] = { { 50, 100000 }, { 700, 700000 }, { 60000, VIEW_MILLION } };
	struct monitoring_env *e = *state;
	uint64_t sum = 0;

	sliced_gpu(e);
	small_slice(e, SLICE_COMPUTE_FAIR_SHARE)->file.created_s = 1;
	charged(e, 0);
	e->units[0].busy_ms = 100; /* of each second */
	start_first_round(e);
	for (uint32_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct view_device *device;

		sum += rows[i].charged_ms;
		charged(e, MS(sum));
		(void)env_round(e, VIEW_POINT_S * NS_PER_SEC);
		device = env_find_device(e, "GPU-0");
		assert_int_equal(device->n_points, i + 1);
		assert_int_equal(device->points[i].busy, rows[i].points_millionths);
		assert_int_equal(device->points[i].allocated, 500000);
	}
	/* A round is never more than fully busy. The surplus does not go to the next round. */
	e->units[0].busy_ms = 0;
	charged(e, MS(sum + 10000));
	(void)env_round(e, VIEW_POINT_S * NS_PER_SEC / 2);
	(void)env_round(e, VIEW_POINT_S * NS_PER_SEC / 2);
	assert_int_equal(env_find_device(e, "GPU-0")->points[ARRAY_LEN(rows)].busy, 500000);
}

/* --- memory --- */

static void slice__memory_is_the_largest_known_figure(void **state)
{
	static const struct {
		const char *what, *gpu;
		int64_t nvml_mib; /* of its process; < 0: none */
		enum view_source from;
		uint64_t mib, peak_mib;
		bool peak_known;
	} rows[] = {
		{ "the arbiter sees more", "\"used\":2147483648,\"peak\":3221225472", 500,
			VIEW_FROM_SLICE, 2048, 3072, true },
		{ "NVML sees more", "\"used\":1048576,\"peak\":1048576", 500,
			VIEW_FROM_PROCESSES, 500, 500, true },
		{ "the arbiter says no use", "\"peak\":1048576", 500, VIEW_FROM_PROCESSES, 500,
			500, true },
		{ "its words are no numbers", "\"used\":\"2\",\"peak\":-1", 500,
			VIEW_FROM_PROCESSES, 500, 500, true },
		{ "nothing is used", "\"used\":0,\"peak\":0", -1, VIEW_FROM_PROCESSES, 0, 0,
			true },
		{ "nobody sees what it uses between two rounds", "\"charged_ns\":0", -1,
			VIEW_FROM_PROCESSES, 0, 0, false },
	};
	static const char *const pods[] = { "one" };
	struct monitoring_env *e = *state;

	sliced_gpu(e);
	e->units[0].no_processes = false;
	env_write_checkpoint(e, pods, 1);
	env_process(e, 11, 1, "main");
	(void)small_slice(e, SLICE_COMPUTE_FAIR_SHARE);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct view_use *u;
		char text[256];

		test_rmdir(strdup(e->state_dir));
		(void)snprintf(text, sizeof(text),
			"[{\"id\":\"" ID "\",\"gpus\":[{\"uuid\":\"GPU-0\",%s}]}]",
			rows[i].gpu);
		env_set_arbiter_status(e, text);
		e->units[0].processes[0] =
			(struct env_process){ .pid = rows[i].nvml_mib < 0 ? 0 : 11,
				.mib = rows[i].nvml_mib };
		start_first_round(e);
		u = env_find_usage(e, "one");
		if (u->memory_from != rows[i].from || u->memory_used != MIB(rows[i].mib) ||
			u->memory_peak != MIB(rows[i].peak_mib) ||
			u->peak_known != rows[i].peak_known)
			fail_msg("%s: from %d, %llu, peak %llu, known %d", rows[i].what,
				u->memory_from, (unsigned long long)u->memory_used,
				(unsigned long long)u->memory_peak, u->peak_known);
		assert_int_equal(u->memory_limit, MIB(4096));
		env_stop(e);
	}
}

/* /proc of its container may be hidden: the arbiter knows the processes of its clients, and the unhooked ones. */
static void slice__processes_come_from_the_arbiter(void **state)
{
	struct monitoring_env *e = *state;

	sliced_gpu(e);
	env_allocate_device(e, "two", SMALL, SMALL_1);
	e->units[0].no_processes = false;
	e->units[0].processes[0] = (struct env_process){ .pid = 11, .mib = 100, .busy_ms = 0 };
	e->units[0].processes[1] = (struct env_process){ .pid = 12, .mib = 50, .busy_ms = 0 };
	(void)small_slice(e, SLICE_COMPUTE_FAIR_SHARE);
	env_set_arbiter_status(e,
		"[{\"id\":\"" ID "\",\"gpus\":[],\"processes\":[{\"host_pid\":11},7],"
		"\"unhooked_processes\":[{\"host_pid\":12}],\"stopped\":3}]");
	start_first_round(e);
	assert_int_equal(env_find_usage(e, "one")->n_processes, 2);
	assert_int_equal(env_find_usage(e, "one")->memory_used, MIB(150));
	assert_int_equal(env_find_usage(e, "one")->slice->stopped, 3);
	assert_false(env_find_usage(e, "one")->slice->reported);
	assert_true(
		env_find_usage(e, "two")->processes_known); /* all are known, none is its own */
	assert_int_equal(env_find_usage(e, "two")->n_processes, 0);
}

/* --- in the view --- */

static void slice__shows_the_figures_of_the_arbiter(void **state)
{
	struct monitoring_env *e = *state;
	const struct view_slice *s;
	struct stored_slice *slice;

	sliced_gpu(e);
	slice = small_slice(e, SLICE_COMPUTE_FAIR_SHARE);
	slice->file.plan.class_ = SLICE_CLASS_LATENCY;
	env_set_arbiter_status(e,
		"[{\"id\":\"" ID
		"\",\"gpus\":[{\"uuid\":\"GPU-0\",\"charged_ns\":1,\"queue_ns\":2,"
		"\"wait_ns\":3,\"meter_ns\":4,\"turns\":5,\"waits\":6,\"launches\":7,\"copies\":8,"
		"\"bytes\":9,\"revocations\":10,\"refusals\":11,\"unhooked_used\":12,"
		"\"quantum_ends\":{\"expired\":13,\"closed\":14},"
		"\"turn\":true,\"demoted\":true,\"stuck\":1,\"over\":false}]}]");
	start_first_round(e);
	s = env_find_usage(e, "one")->slice;
	assert_string_equal(s->id, ID);
	assert_string_equal(s->class_, "latency");
	assert_string_equal(s->compute, "fair");
	assert_int_equal(s->weight, 2);
	assert_true(s->reported && s->time_known);
	assert_int_equal(s->charged_ns, 1);
	assert_int_equal(s->queue_ns, 2);
	assert_int_equal(s->wait_ns, 3);
	assert_int_equal(s->throttled_ns, 4);
	assert_int_equal(s->quanta, 5);
	assert_int_equal(s->waits, 6);
	assert_int_equal(s->launches, 7);
	assert_int_equal(s->copies, 8);
	assert_int_equal(s->copied_bytes, 9);
	assert_int_equal(s->revocations, 10);
	assert_int_equal(s->refusals, 11);
	assert_int_equal(s->unhooked, 12);
	assert_int_equal(s->quantum_ends[SCHED_END_EXPIRED], 13);
	assert_int_equal(s->quantum_ends[SCHED_END_IDLE], 0);
	assert_int_equal(s->quantum_ends[SCHED_END_CLOSED], 14);
	assert_true(s->revocations_known && s->refusals_known && s->unhooked_known);
	assert_true(s->quantum_ends_known);
	assert_true(s->has_quantum && s->demoted);
	assert_false(s->stuck || s->over_limit);
	/* The arbiter is down: the slice is listed, and its figures are unknown. */
	env_set_arbiter_status(e, NULL);
	(void)env_round(e, NS_PER_SEC);
	s = env_find_usage(e, "one")->slice;
	assert_false(s->reported || s->time_known || s->revocations_known ||
		     s->refusals_known || s->quantum_ends_known);
}

static void slice__shows_how_its_compute_is_shared(void **state)
{
	static const struct {
		enum slice_compute compute;
		uint32_t cap;
		const char *want;
		uint64_t memory, limit;
	} rows[] = {
		{ SLICE_COMPUTE_FAIR_SHARE, 0, "fair", MIB(1024), MIB(1024) },
		{ SLICE_COMPUTE_FAIR_SHARE, 500000, "capped", MIB(1024), MIB(1024) },
		{ SLICE_COMPUTE_MPS, 0, "mps", MIB(1024), MIB(1024) },
		/* The limit of the device, where the slice has no limit of its own. */
		{ SLICE_COMPUTE_NONE, 0, "none", SLICE_NO_LIMIT, MIB(4096) },
	};
	struct monitoring_env *e = *state;
	struct stored_slice *s;

	sliced_gpu(e);
	s = small_slice(e, SLICE_COMPUTE_FAIR_SHARE);
	start_first_round(e);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		s->file.plan.compute = rows[i].compute;
		s->file.plan.gpus[0].cap = rows[i].cap;
		s->file.plan.gpus[0].memory = rows[i].memory;
		(void)env_round(e, NS_PER_SEC);
		assert_string_equal(env_find_usage(e, "one")->slice->compute, rows[i].want);
		assert_int_equal(env_find_usage(e, "one")->memory_limit, rows[i].limit);
		assert_string_equal(env_find_usage(e, "one")->slice->class_, "batch");
	}
	assert_int_equal(env_find_usage(e, "one")->mode, VIEW_SLICES);
	assert_int_equal(env_find_device(e, "GPU-0")->mode, VIEW_SLICES);
}

/* The container has two slices, as where an init container has handed its device on. */
static void slice__is_the_newer_of_two_of_a_container(void **state)
{
	struct monitoring_env *e = *state;

	sliced_gpu(e);
	env_slice(e, OTHER, SMALL, SMALL_0, "GPU-0", SLICE_COMPUTE_FAIR_SHARE)->file.created_s =
		200;
	small_slice(e, SLICE_COMPUTE_FAIR_SHARE)->file.created_s = 100;
	start_first_round(e);
	assert_string_equal(env_find_usage(e, "one")->slice->id, OTHER);
	e->slice_at[1]->file.created_s = 300;
	(void)env_round(e, NS_PER_SEC);
	assert_string_equal(env_find_usage(e, "one")->slice->id, ID);
}

static void slice__of_another_gpu_or_device_belongs_to_no_container(void **state)
{
	struct monitoring_env *e = *state;

	sliced_gpu(e);
	(void)env_slice(e, ID, SMALL, SMALL_0, "GPU-7", SLICE_COMPUTE_FAIR_SHARE);
	(void)env_slice(e, OTHER, "nvidia.com/large", SMALL_0, "GPU-0",
		SLICE_COMPUTE_FAIR_SHARE);
	start_first_round(e);
	assert_null(env_find_usage(e, "one")->slice);
}

/* --- a restart --- */

/* The next agent counts charges from the time without an agent, once. */
static void charge__continues_where_the_former_agent_ended(void **state)
{
	struct monitoring_env *e = *state;
	uint64_t before;

	sliced_gpu(e);
	small_slice(e, SLICE_COMPUTE_FAIR_SHARE)->file.created_s =
		e->context.started_wall_ns / NS_PER_SEC - LONG_AGO_S;
	charged(e, MS(1000));
	start_first_round(e);
	charged(e, MS(1500));
	(void)env_round(e, NS_PER_SEC);
	assert_int_equal(busy(e, "one"), MS(500));
	before = e->mon.charges.v[0].at_wall_ns;
	env_stop(e);
	env_pass(60 * NS_PER_SEC);
	e->context.started_wall_ns = time_wall_ns();
	charged(e, MS(9500));
	start_first_round(e);
	assert_int_equal(busy(e, "one"), MS(8500));
	assert_int_equal(e->mon.charges.v[0].at_wall_ns, before + 60 * NS_PER_SEC);
	(void)env_round(e, NS_PER_SEC);
	assert_int_equal(busy(e, "one"), MS(8500));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ENV_TEST(charge__of_a_new_slice_counts_from_zero),
		ENV_TEST(charge__of_an_old_slice_counts_from_its_first_sample),
		ENV_TEST(charge__of_the_time_without_an_arbiter_counts_once),
		ENV_TEST(charge__that_decreases_subtracts_nothing),
		ENV_TEST(charge__of_an_ended_pod_stays_its_own),
		ENV_TEST(charge__of_a_superseded_slice_does_not_go_to_the_next_pod),
		ENV_TEST(charge__of_a_slice_without_compute_is_zero),
		ENV_TEST(charge__of_two_slices_is_separate),
		ENV_TEST(charge__beyond_the_sample_of_nvml_is_in_the_last_hour),
		ENV_TEST(slice__memory_is_the_largest_known_figure),
		ENV_TEST(slice__processes_come_from_the_arbiter),
		ENV_TEST(slice__shows_the_figures_of_the_arbiter),
		ENV_TEST(slice__shows_how_its_compute_is_shared),
		ENV_TEST(slice__is_the_newer_of_two_of_a_container),
		ENV_TEST(slice__of_another_gpu_or_device_belongs_to_no_container),
		ENV_TEST(charge__continues_where_the_former_agent_ended),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
