/* SPDX-License-Identifier: Apache-2.0 */

/* A round: its sources, which answer late, with an error or never, and when the next round begins. */
#include "unit/node/agent/monitoring/monitoring-env.h"

#include "lib/base/fd.h"

#include <unistd.h>

#define GPU_RESOURCE "nvidia.com/gpu"

static void one_gpu(struct monitoring_env *e)
{
	agent_fixture_know(e->f, fixture_inventory(1), NULL);
	e->units[0] = (struct env_device){ .uuid = "GPU-0", .used_mib = 1024, .busy_ms = 250 };
}

/* --- all answer --- */

static void round__shows_a_view_when_all_have_answered(void **state)
{
	struct monitoring_env *e = *state;
	const struct view *v;

	one_gpu(e);
	env_allocate_device(e, "train", GPU_RESOURCE, "GPU-0");
	env_start(e);
	assert_true(e->sample.pending && e->list.pending && e->slices_refresh.pending);
	assert_int_equal(e->shown, 0);
	env_answer(e);
	v = env_end(e);
	assert_int_equal(e->shown, 1);
	assert_int_equal(v->seq, 1);
	assert_true(v->nvml_up && v->allocations_known);
	assert_string_equal(v->node, "node-1");
	assert_string_equal(v->nvml_error, "");
	assert_string_equal(env_find_usage(e, "train")->container, "main");
	assert_int_equal(env_find_device(e, "GPU-0")->memory_used, UINT64_C(1024) << 20);
	assert_int_equal(v->agent.nvml_calls, 7);
	assert_int_equal(v->agent.kubelet_lists, 1);
	assert_int_equal(env_round(e, 5 * NS_PER_SEC)->seq, 2);
	assert_int_equal(e->view->agent.nvml_calls, 14);
	assert_int_equal(env_find_usage(e, "train")->allocated_ns, 5 * NS_PER_SEC);
}

/* Each order of the three answers, one of them before its question returns. */
static void round__waits_for_each_source(void **state)
{
	static const struct {
		enum env_how sample, list, slices;
	} rows[] = {
		{ ENV_NEVER, ENV_LATER, ENV_LATER },
		{ ENV_LATER, ENV_NEVER, ENV_LATER },
		{ ENV_LATER, ENV_LATER, ENV_NEVER },
		{ ENV_NEVER, ENV_AT_ONCE, ENV_AT_ONCE },
		{ ENV_LATER, ENV_AT_ONCE, ENV_NEVER },
	};
	struct monitoring_env *e = *state;

	one_gpu(e);
	env_start(e);
	env_answer(e);
	(void)env_end(e);
	for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
		e->sample.how = rows[i].sample;
		e->list.how = rows[i].list;
		e->slices_refresh.how = rows[i].slices;
		env_pass(5 * NS_PER_SEC);
		env_tick(e);
		env_answer(e);
		agent_fixture_run_once(e->f);
		if (e->mon.round.step != MONITORING_AWAITING || e->shown != i + 1)
			fail_msg("row %u: it did not wait", i);
		e->sample.how = e->list.how = e->slices_refresh.how = ENV_LATER;
		env_answer(e);
		(void)env_end(e);
		assert_int_equal(e->shown, i + 2);
	}
}

/* When the last request returns, the round waits for no answer. */
static void round__ends_where_all_answer_at_once(void **state)
{
	struct monitoring_env *e = *state;

	one_gpu(e);
	env_allocate_device(e, "train", GPU_RESOURCE, "GPU-0");
	e->sample.how = ENV_REFUSES;
	e->list.how = e->slices_refresh.how = ENV_AT_ONCE;
	env_start(e);
	assert_int_equal(e->mon.round.step, MONITORING_READING);
	(void)env_end(e);
	(void)env_round(e, 5 * NS_PER_SEC);
	assert_int_equal(e->shown, 2);
	assert_int_equal(env_find_usage(e, "train")->allocated_ns, 5 * NS_PER_SEC);
	assert_int_equal(env_due_ms(e), 5001);
}

static void round__begins_one_interval_after_the_last_begin(void **state)
{
	struct monitoring_env *e = *state;

	one_gpu(e);
	env_start(e);
	env_answer(e);
	(void)env_end(e);
	assert_int_equal(env_due_ms(e), 5001);
	env_pass(5 * NS_PER_SEC);
	env_tick(e);
	env_pass(2 * NS_PER_SEC); /* they take their time */
	env_answer(e);
	(void)env_end(e);
	assert_int_equal(env_due_ms(e), 3001);
	env_pass(3 * NS_PER_SEC);
	env_tick(e);
	env_pass(7 * NS_PER_SEC);
	env_answer(e);
	(void)env_end(e);
	assert_int_equal(env_due_ms(e), 1);
}

static void round__replaces_an_interval_of_zero_by_5_s(void **state)
{
	struct monitoring_env *e = *state;

	one_gpu(e);
	e->context.options.interval_ns = 0;
	env_start(e);
	env_answer(e);
	assert_int_equal(env_end(e)->interval_ns, MONITORING_INTERVAL_NS);
	assert_int_equal(e->request.interval_ns, MONITORING_INTERVAL_NS);
}

static void round__requests_the_desired_fields_and_the_common_ones(void **state)
{
	struct monitoring_env *e = *state;
	size_t clock = (size_t)field_position("DCGM_FI_DEV_SM_CLOCK"), n = 0;

	one_gpu(e);
	e->wanted[clock] = true;
	e->wants_p2p = true;
	env_start(e);
	assert_true(e->p2p);
	for (size_t i = 0; i < n_fields; i++)
		n += (e->request.fields[i / 64] >> i % 64) & 1;
	assert_int_equal(n, 6);
	assert_true(e->request.fields[clock / 64] & UINT64_C(1) << clock % 64);
	env_answer(e);
	assert_non_null(env_end(e)->gpus[0].p2p);
	e->wanted[clock] = e->wants_p2p = false;
	(void)env_round(e, 5 * NS_PER_SEC);
	assert_false(e->p2p);
	assert_false(e->request.fields[clock / 64] & UINT64_C(1) << clock % 64);
	assert_null(e->view->gpus[0].p2p);
}

static void monitoring__requests_nothing_where_nothing_is_shown(void **state)
{
	struct monitoring_env *e = *state;
	uint64_t peak;

	one_gpu(e);
	e->context.options.enabled = false;
	env_start(e);
	env_add_pending(e, GPU_RESOURCE, "GPU-0");
	monitoring_allocated(&e->mon, GPU_RESOURCE, NULL, 0, false);
	monitoring_retry(&e->mon);
	agent_fixture_run_once(e->f);
	assert_int_equal(e->sample.n + e->list.n + e->slices_refresh.n, 0);
	assert_int_equal(e->mon.counters.allocations + e->mon.counters.allocation_errors, 0);
	assert_false(monitoring_peak(&e->mon, "GPU-0", &(struct pod_device){ 0 }, &peak));
	assert_false(uv_is_active((uv_handle_t *)&e->mon.timer));
}

/* --- NVML --- */

static void sample__that_fails_leaves_the_rest_of_the_view(void **state)
{
	static const struct {
		enum env_how how;
		const char *why;
		uint64_t errors;
	} rows[] = { { ENV_FAILS, "GPU 0 hangs", 1 }, { ENV_REFUSES, "no worker", 1 } };
	struct monitoring_env *e = *state;

	one_gpu(e);
	env_allocate_device(e, "train", GPU_RESOURCE, "GPU-0");
	env_start(e);
	env_answer(e);
	(void)env_end(e);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		e->sample.how = rows[i].how;
		(void)env_round(e, 5 * NS_PER_SEC);
		assert_string_equal(e->view->nvml_error, rows[i].why);
		assert_int_equal(e->view->agent.nvml_errors, rows[i].errors);
		assert_false(env_find_device(e, "GPU-0")->memory_known);
		assert_null(e->view->gpus[0].sample);
		assert_false(env_find_usage(e, "train")->memory_known);
		assert_int_equal(env_find_usage(e, "train")->received, VIEW_NONE);
		assert_true(e->view->allocations_known);
		/* The figures grow older. */
		assert_true(e->view->gpus[0].sampled);
		assert_int_equal(e->view->gpus[0].sample_age_ns, (i + 1) * 5 * NS_PER_SEC);
	}
	e->sample.how = ENV_LATER;
	(void)env_round(e, 5 * NS_PER_SEC);
	assert_string_equal(e->view->nvml_error, "");
	assert_true(env_find_device(e, "GPU-0")->memory_known);
}

static void sample__that_never_arrives_times_out_after_8_s(void **state)
{
	struct monitoring_env *e = *state;

	one_gpu(e);
	env_allocate_device(e, "train", GPU_RESOURCE, "GPU-0");
	env_start(e);
	e->sample.how = ENV_NEVER;
	env_answer(e);
	env_pass(8 * NS_PER_SEC - 1);
	env_tick(e);
	assert_int_equal(e->mon.round.step, MONITORING_AWAITING);
	assert_int_equal(env_due_ms(e), 100); /* the polling continues */
	env_pass(1);
	env_tick(e);
	(void)env_end(e);
	assert_int_equal(e->shown, 1);
	assert_false(env_find_device(e, "GPU-0")->memory_known);
	(void)env_find_usage(e, "train");
}

/* The late sample belongs to no round: neither to the present round nor to the time between two rounds. */
static void sample__that_arrives_too_late_is_dropped(void **state)
{
	struct monitoring_env *e = *state;

	one_gpu(e);
	env_start(e);
	e->sample.how = ENV_NEVER;
	env_answer(e);
	env_pass(9 * NS_PER_SEC);
	env_tick(e);
	(void)env_end(e);
	e->sample.how = ENV_LATER;
	env_answer(e);
	assert_null(e->mon.round.sample);
	assert_int_equal(e->mon.counters.nvml_calls, 0);
	(void)env_round(e, 5 * NS_PER_SEC);
	assert_true(env_find_device(e, "GPU-0")->memory_known);
	assert_int_equal(e->view->agent.nvml_calls, 7);
}

/* Slices and allocations have clocks of their own. The view has no invented figures meanwhile. */
static void round__does_not_end_without_list_and_slices(void **state)
{
	struct monitoring_env *e = *state;

	one_gpu(e);
	env_start(e);
	e->list.how = e->slices_refresh.how = ENV_NEVER;
	env_answer(e);
	env_pass(60 * NS_PER_SEC);
	env_tick(e);
	assert_int_equal(e->mon.round.step, MONITORING_AWAITING);
	e->list.how = e->slices_refresh.how = ENV_LATER;
	env_answer(e);
	(void)env_end(e);
	assert_int_equal(e->shown, 1);
}

static void sample__of_an_unreadable_device_is_unknown(void **state)
{
	struct monitoring_env *e = *state;

	agent_fixture_know(e->f, fixture_inventory(2), NULL);
	e->units[0] = (struct env_device){ .uuid = "GPU-0", .reason = "the GPU is lost" };
	e->units[1] = (struct env_device){ .uuid = "GPU-1", .used_mib = 512, .busy_ms = 100 };
	env_start(e);
	env_answer(e);
	(void)env_end(e);
	assert_null(env_find_device(e, "GPU-0")->sample);
	assert_null(e->view->gpus[0].sample);
	assert_false(env_find_device(e, "GPU-0")->memory_known);
	assert_int_equal(env_find_device(e, "GPU-0")->busy, VIEW_NONE);
	assert_int_equal(env_find_device(e, "GPU-1")->busy, 100000);
	assert_true(env_find_device(e, "GPU-1")->memory_known);
}

/* --- the kubelet --- */

static void list__that_fails_keeps_allocations_for_three_rounds(void **state)
{
	struct monitoring_env *e = *state;
	uint64_t held;

	one_gpu(e);
	env_allocate_device(e, "train", GPU_RESOURCE, "GPU-0");
	env_start(e);
	env_answer(e);
	(void)env_end(e);
	e->list.how = ENV_FAILS;
	for (unsigned i = 1; i <= MONITORING_UNKNOWN_ROUNDS_MAX; i++) {
		(void)env_round(e, 60 * NS_PER_SEC);
		assert_true(e->view->allocations_known);
		assert_string_equal(e->view->allocations_error,
			"kubelet.sock: connection refused");
		assert_int_equal(env_find_usage(e, "train")->allocated_ns, i * 60 * NS_PER_SEC);
		assert_true(env_find_usage(e, "train")->allocation_current);
	}
	held = env_find_device(e, "GPU-0")->present_ns;
	(void)env_round(e, 60 * NS_PER_SEC);
	assert_false(e->view->allocations_known);
	assert_false(e->view->resources[0].allocated_known);
	assert_false(env_find_usage(e, "train")->allocation_current);
	assert_true(env_find_usage(e, "train")->live);
	assert_int_equal(env_find_usage(e, "train")->allocated_ns, 180 * NS_PER_SEC);
	assert_int_equal(env_find_device(e, "GPU-0")->present_ns, held);
	assert_int_equal(e->view->agent.kubelet_errors, 4);
	/* The agent does not know which pod had the device in that time. The time counts from this answer
	 * on. */
	e->list.how = ENV_LATER;
	(void)env_round(e, 60 * NS_PER_SEC);
	assert_true(e->view->allocations_known);
	assert_string_equal(e->view->allocations_error, "");
	assert_int_equal(env_find_usage(e, "train")->allocated_ns, 180 * NS_PER_SEC);
	(void)env_round(e, 60 * NS_PER_SEC);
	assert_int_equal(env_find_usage(e, "train")->allocated_ns, 240 * NS_PER_SEC);
}

static void list__that_never_arrived_makes_nothing_idle(void **state)
{
	struct monitoring_env *e = *state;

	one_gpu(e);
	e->list.how = ENV_FAILS;
	env_start(e);
	env_answer(e);
	(void)env_end(e);
	(void)env_round(e, 60 * NS_PER_SEC);
	assert_false(e->view->allocations_known);
	assert_false(env_find_device(e, "GPU-0")->counted);
	assert_int_equal(env_find_device(e, "GPU-0")->idle_gpu_ns, 0);
	assert_int_equal(e->view->gpus[0].n_points, 1);
	assert_int_equal(e->view->gpus[0].points[0].allocated, VIEW_NONE);
	e->list.how = ENV_LATER;
	(void)env_round(e, 60 * NS_PER_SEC);
	assert_true(env_find_device(e, "GPU-0")->counted);
	assert_int_equal(env_find_device(e, "GPU-0")->idle_gpu_ns, 60 * NS_PER_SEC);
}

/* Half of 5, 10, 20 ... seconds, at most of a minute. */
static void list__that_fails_is_requested_with_back_off(void **state)
{
	static const uint64_t waits_ms[] = { 2500, 5000, 10000, 20000, 30000, 30000, 30000 };
	struct monitoring_env *e = *state;

	one_gpu(e);
	e->list.how = ENV_FAILS;
	env_start(e);
	env_answer(e);
	(void)env_end(e);
	for (size_t i = 0; i < ARRAY_LEN(waits_ms); i++) {
		unsigned asked = e->list.n;

		(void)env_round(e, waits_ms[i] * NS_PER_MS - 1);
		assert_int_equal(e->list.n, asked);
		(void)env_round(e, 1);
		assert_int_equal(e->list.n, asked + 1);
	}
	/* A kubelet that allocates is up; after an answer the interval is as before. */
	e->list.how = ENV_LATER;
	env_add_pending(e, GPU_RESOURCE, "GPU-0");
	(void)env_round(e, 1);
	assert_int_equal(e->mon.listing.failures, 0);
	e->list.how = ENV_FAILS;
	(void)env_round(e, 1);
	assert_int_equal(e->mon.listing.not_before_ns, env_now_ns() + 2500 * NS_PER_MS);
}

/* --- allocations --- */

static void allocated__starts_the_next_round_soon(void **state)
{
	struct monitoring_env *e = *state;

	one_gpu(e);
	env_start(e);
	env_answer(e);
	(void)env_end(e);
	/* Long after the round: as soon as the kubelet can have recorded the allocation. */
	env_pass(3 * NS_PER_SEC);
	env_add_pending(e, GPU_RESOURCE, "GPU-0");
	assert_int_equal(env_due_ms(e), 51);
	/* A probe just after the round waits: the agent limits the rate. */
	(void)env_round(e, 50 * NS_PER_MS);
	env_add_pending(e, GPU_RESOURCE, "GPU-0");
	assert_int_equal(env_due_ms(e), 351);
}

/* A pod that is not listed within three seconds will not be listed. */
static void allocated__is_pending_until_it_is_listed(void **state)
{
	struct monitoring_env *e = *state;

	one_gpu(e);
	env_start(e);
	env_answer(e);
	(void)env_end(e);
	env_pass(NS_PER_SEC);
	env_add_pending(e, GPU_RESOURCE, "GPU-0");
	(void)env_round(e, 100 * NS_PER_MS);
	assert_int_equal(env_due_ms(e), 351);
	(void)env_round(e, 2 * NS_PER_SEC);
	assert_int_equal(env_due_ms(e), 351);
	(void)env_round(e, NS_PER_SEC);
	assert_int_equal(env_due_ms(e), 5001);
	env_add_pending(e, GPU_RESOURCE, "GPU-0");
	env_allocate_device(e, "train", GPU_RESOURCE, "GPU-0");
	(void)env_round(e, NS_PER_SEC);
	assert_int_equal(env_find_usage(e, "train")->allocated_ns, NS_PER_SEC);
	assert_int_equal(env_due_ms(e), 5001);
	assert_int_equal(e->mon.pending.n, 0);
}

static void allocated__within_a_round_counts_in_the_next(void **state)
{
	struct monitoring_env *e = *state;

	one_gpu(e);
	env_start(e);
	env_answer(e);
	(void)env_end(e);
	env_pass(5 * NS_PER_SEC);
	env_tick(e);
	env_pass(NS_PER_SEC);
	env_add_pending(e, GPU_RESOURCE, "GPU-0"); /* after the list was asked for */
	env_answer(e);
	(void)env_end(e);
	assert_int_equal(e->view->agent.allocations, 1);
	assert_int_equal(e->mon.pending.n, 1);
	env_allocate_device(e, "train", GPU_RESOURCE, "GPU-0");
	(void)env_round(e, NS_PER_SEC);
	assert_int_equal(env_find_usage(e, "train")->allocated_ns, NS_PER_SEC);
}

static void allocated__before_the_end_of_the_start_waits_for_it(void **state)
{
	struct monitoring_env *e = *state;

	one_gpu(e);
	monitoring_init(&e->mon, &e->context);
	monitoring_processes_init(&e->mon.processes, e->proc_dir);
	monitoring_start(&e->mon);
	env_add_pending(e, GPU_RESOURCE, "GPU-0");
	assert_false(uv_is_active((uv_handle_t *)&e->mon.timer));
	agent_fixture_until(e->f, e->slices_refresh.n > 0);
	env_allocate_device(e, "train", GPU_RESOURCE, "GPU-0");
	env_answer(e);
	(void)env_end(e);
	assert_true(env_find_usage(e, "train")->live);
}

static void allocated__counts_failed_allocations(void **state)
{
	static const char *const ids[] = { "GPU-0" };
	struct monitoring_env *e = *state;

	one_gpu(e);
	env_start(e);
	env_answer(e);
	(void)env_end(e);
	monitoring_allocated(&e->mon, GPU_RESOURCE, ids, 1, false);
	assert_int_equal(env_due_ms(e), 5001);
	assert_int_equal(e->mon.pending.n, 0);
	(void)env_round(e, 5 * NS_PER_SEC);
	assert_int_equal(e->view->agent.allocation_errors, 1);
	assert_int_equal(e->view->agent.allocations, 0);
}

/* --- the end --- */

static void stop__during_requests_shows_no_further_view(void **state)
{
	static const enum env_how lates[] = { ENV_LATER, ENV_FAILS };
	struct monitoring_env *e = *state;

	one_gpu(e);
	for (size_t i = 0; i < ARRAY_LEN(lates); i++) {
		env_start(e);
		e->sample.how = e->list.how = lates[i];
		monitoring_stop(&e->mon);
		env_answer(e); /* they do not know it */
		env_stop(e);
		assert_int_equal(e->shown, 0);
		e->sample.how = e->list.how = ENV_LATER;
	}
}

static void stop__while_it_reads_or_writes_waits_for_the_thread(void **state)
{
	struct monitoring_env *e = *state;

	one_gpu(e);
	/* The usage records are being opened. */
	monitoring_init(&e->mon, &e->context);
	monitoring_start(&e->mon);
	assert_int_equal(e->mon.round.step, MONITORING_OPENING);
	env_stop(e);
	assert_int_equal(e->slices_refresh.n, 0);
	/* /proc is being read. */
	env_start(e);
	env_answer(e);
	assert_int_equal(e->mon.round.step, MONITORING_READING);
	assert_null(e->mon.round.unpublished_view);
	env_stop(e);
	assert_int_equal(e->shown, 0);
	/* The round is being written. */
	env_start(e);
	env_answer(e);
	agent_fixture_until(e->f, e->mon.round.unpublished_view);
	env_stop(e);
	assert_int_equal(e->shown, 0);
}

/* A restart never takes back a figure that was shown. */
static void view__is_shown_after_it_is_saved(void **state)
{
	struct monitoring_env *e = *state;

	one_gpu(e);
	env_start(e);
	env_answer(e);
	agent_fixture_until(e->f, e->mon.round.unpublished_view);
	assert_int_equal(e->shown, 0);
	(void)env_end(e);
	assert_int_equal(e->shown, 1);
	assert_int_equal(access(e->mon.persist.path, F_OK), 0);
	assert_true(e->mon.persist.bytes > 0);
	(void)env_round(e, 5 * NS_PER_SEC);
	assert_true(e->view->agent.usage_db_known && e->view->agent.usage_db_bytes > 0);
}

static void view__is_shown_where_nothing_can_be_saved(void **state)
{
	struct monitoring_env *e = *state;

	one_gpu(e);
	test_write(e->state_dir, "ledger.db/in-the-way", "", 0, 0600);
	env_allocate_device(e, "train", GPU_RESOURCE, "GPU-0");
	env_start(e);
	env_answer(e);
	(void)env_end(e);
	(void)env_round(e, 5 * NS_PER_SEC);
	assert_int_equal(e->shown, 2);
	assert_int_equal(env_find_usage(e, "train")->allocated_ns, 5 * NS_PER_SEC);
	assert_int_equal(e->view->agent.usage_db_errors,
		2); /* of the start, and of the first round */
	assert_string_not_equal(e->view->agent.usage_db_error, "");
	assert_false(e->view->agent.usage_db_known);
}

static void view__is_shown_with_too_long_a_state_directory(void **state)
{
	static const char *const pods[] = { "train" };
	struct monitoring_env *e = *state;
	char dir[PATH_MAX];

	memset(dir, 'd', sizeof(dir) - 1);
	dir[0] = '/';
	dir[sizeof(dir) - 1] = '\0';
	e->context.state_dir = dir;
	one_gpu(e);
	env_allocate_device(e, "train", GPU_RESOURCE, "GPU-0");
	env_write_checkpoint(e, pods, 1);
	env_start(e);
	env_answer(e);
	(void)env_end(e);
	(void)env_round(e, 5 * NS_PER_SEC);
	assert_int_equal(e->shown, 2);
	assert_int_equal(env_find_usage(e, "train")->allocated_ns, 5 * NS_PER_SEC);
	assert_string_not_equal(e->view->agent.usage_db_error, "");
	assert_string_not_equal(env_find_usage(e, "train")->uid, "");
}

/* --- time --- */

static void round__of_more_than_an_hour_counts_an_hour(void **state)
{
	struct monitoring_env *e = *state;

	one_gpu(e);
	env_allocate_device(e, "train", GPU_RESOURCE, "GPU-0");
	env_start(e);
	env_answer(e);
	(void)env_end(e);
	(void)env_round(e, 7 * ACCOUNT_ROUND_MAX_NS);
	assert_int_equal(env_find_usage(e, "train")->allocated_ns, ACCOUNT_ROUND_MAX_NS);
	assert_int_equal(env_find_device(e, "GPU-0")->present_ns, ACCOUNT_ROUND_MAX_NS);
}

/* The pods of the first list were there before the agent: the time since its start is theirs. */
static void round__first_one_counts_existing_pods(void **state)
{
	struct monitoring_env *e = *state;

	one_gpu(e);
	env_allocate_device(e, "train", GPU_RESOURCE, "GPU-0");
	monitoring_init(&e->mon, &e->context);
	monitoring_processes_init(&e->mon.processes, e->proc_dir);
	monitoring_start(&e->mon);
	env_pass(2 * NS_PER_SEC); /* to open the usage records takes its time */
	agent_fixture_until(e->f, e->sample.pending);
	env_answer(e);
	(void)env_end(e);
	assert_int_equal(env_find_usage(e, "train")->allocated_ns, 2 * NS_PER_SEC);
	assert_int_equal(env_find_device(e, "GPU-0")->idle_gpu_ns, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ENV_TEST(round__shows_a_view_when_all_have_answered),
		ENV_TEST(round__waits_for_each_source),
		ENV_TEST(round__ends_where_all_answer_at_once),
		ENV_TEST(round__begins_one_interval_after_the_last_begin),
		ENV_TEST(round__replaces_an_interval_of_zero_by_5_s),
		ENV_TEST(round__requests_the_desired_fields_and_the_common_ones),
		ENV_TEST(monitoring__requests_nothing_where_nothing_is_shown),
		ENV_TEST(sample__that_fails_leaves_the_rest_of_the_view),
		ENV_TEST(sample__that_never_arrives_times_out_after_8_s),
		ENV_TEST(sample__that_arrives_too_late_is_dropped),
		ENV_TEST(round__does_not_end_without_list_and_slices),
		ENV_TEST(sample__of_an_unreadable_device_is_unknown),
		ENV_TEST(list__that_fails_keeps_allocations_for_three_rounds),
		ENV_TEST(list__that_never_arrived_makes_nothing_idle),
		ENV_TEST(list__that_fails_is_requested_with_back_off),
		ENV_TEST(allocated__starts_the_next_round_soon),
		ENV_TEST(allocated__is_pending_until_it_is_listed),
		ENV_TEST(allocated__within_a_round_counts_in_the_next),
		ENV_TEST(allocated__before_the_end_of_the_start_waits_for_it),
		ENV_TEST(allocated__counts_failed_allocations),
		ENV_TEST(stop__during_requests_shows_no_further_view),
		ENV_TEST(stop__while_it_reads_or_writes_waits_for_the_thread),
		ENV_TEST(view__is_shown_after_it_is_saved),
		ENV_TEST(view__is_shown_where_nothing_can_be_saved),
		ENV_TEST(view__is_shown_with_too_long_a_state_directory),
		ENV_TEST(round__of_more_than_an_hour_counts_an_hour),
		ENV_TEST(round__first_one_counts_existing_pods),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
