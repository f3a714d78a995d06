/* SPDX-License-Identifier: Apache-2.0 */

/* What a restart restores, and the usage records. */
#include "unit/node/agent/monitoring/monitoring-env.h"

#include "lib/base/fd.h"
#include "node/agent/monitoring/persist/internal.h"

#include <unistd.h>

#define GPU_RESOURCE "nvidia.com/gpu"

static void one_gpu(struct monitoring_env *e)
{
	agent_fixture_know(e->f, fixture_inventory(1), NULL);
	e->units[0] = (struct env_device){ .uuid = "GPU-0", .used_mib = 1024, .busy_ms = 500 };
	e->context.options.price_given = true;
	e->context.options.price_nano = 3600 * PRICE_NANO;
}

static void start_persisted(struct monitoring_env *e)
{
	env_start(e);
	env_answer(e);
	(void)env_end(e);
}

static void join_path_below(char ret[PATH_MAX], const char *dir, const char *name)
{
	struct error err = ERROR_INIT;

	assert_ok(path_join(ret, PATH_MAX, dir, name, &err), &err);
}

/* --- the usage records --- */

struct records {
	unsigned held, idle; /* rows */
	int64_t held_ns, idle_ns, covered_ns, cost_nano;
	int64_t busy_ns, peak_bytes;
	bool busy_unknown, memory_unknown;
	char mode[16], pod[USAGE_DB_NAME_MAX + 1], device[64], source[64];
};

static int collect_usage_row(void *arg, const struct usage_db_period *period,
	const struct usage_db_row *row, struct error *err)
{
	struct records *r = arg;

	(void)err;
	if (!row) {
		r->covered_ns += period->covered_ns;
		r->cost_nano += period->cost_nano;
		(void)snprintf(r->source, sizeof(r->source), "%s", period->price_source);
		return 0;
	}
	if (row->kind == USAGE_DB_UNALLOCATED) {
		r->idle++;
		r->idle_ns += row->gpu_ns;
		return 0;
	}
	r->held++;
	r->held_ns += row->allocated_ns;
	r->busy_ns += row->busy_ns;
	r->busy_unknown = r->busy_unknown || row->busy_unknown;
	r->memory_unknown = r->memory_unknown || row->memory_unknown;
	r->peak_bytes = row->memory_peak_bytes;
	(void)snprintf(r->mode, sizeof(r->mode), "%s", row->mode);
	(void)snprintf(r->pod, sizeof(r->pod), "%s", row->pod);
	(void)snprintf(r->device, sizeof(r->device), "%s", row->device);
	return 0;
}

static struct records records_of(const struct monitoring_env *e)
{
	struct records r = { .held = 0 };
	struct error err = ERROR_INIT;

	assert_ok(
		usage_db_read(e->mon.persist.path, 0, UINT32_MAX, collect_usage_row, &r, &err),
		&err);
	return r;
}

static void records__have_the_allocated_and_idle_time_of_the_round(void **state)
{
	struct monitoring_env *e = *state;
	struct records r;

	one_gpu(e);
	env_allocate_device(e, "train", GPU_RESOURCE, "GPU-0");
	start_persisted(e);
	(void)env_round(e, 10 * NS_PER_SEC);
	env_release_all(e);
	(void)env_round(e, 10 * NS_PER_SEC);
	r = records_of(e);
	assert_int_equal(r.held, 1);
	assert_int_equal(r.held_ns, 15 * NS_PER_SEC);
	assert_int_equal(r.idle, 1);
	assert_int_equal(r.idle_ns, 5 * NS_PER_SEC);
	assert_int_equal(r.covered_ns, 20 * NS_PER_SEC);
	assert_int_equal(r.cost_nano, 20 * PRICE_NANO);
	assert_string_equal(r.mode, "exclusive");
	assert_string_equal(r.device, "GPU-0");
	assert_string_equal(r.source, "option");
}

/* Time in which the idle state is unknown has no record, and is not covered. */
static void records__have_no_unknown_time(void **state)
{
	struct monitoring_env *e = *state;
	struct records r;

	one_gpu(e);
	e->list.how = ENV_FAILS;
	start_persisted(e);
	(void)env_round(e, 10 * NS_PER_SEC);
	r = records_of(e);
	assert_int_equal(r.held + r.idle, 0);
	assert_int_equal(r.covered_ns, 0);
	assert_int_equal(e->view->cost_nano, 10 * PRICE_NANO);
}

static void records__have_the_cost_of_a_node_without_gpus(void **state)
{
	struct monitoring_env *e = *state;
	struct records r;

	e->context.options.price_given = true;
	e->context.options.price_nano = 3600 * PRICE_NANO;
	start_persisted(e);
	(void)env_round(e, 10 * NS_PER_SEC);
	r = records_of(e);
	assert_int_equal(r.idle, 1);
	assert_int_equal(r.cost_nano, 10 * PRICE_NANO);
}

static void records__call_a_mig_device_mig(void **state)
{
	struct monitoring_env *e = *state;
	struct inventory *inv = fixture_inventory(1);
	struct records r;

	(void)snprintf(inv->gpus[0].name, GPU_NAME_MAX, "NVIDIA A100");
	(void)fixture_mig(inv, 0, 7, 7, 40);
	e->f->facts.config->mig_strategy = MIG_STRATEGY_MIXED;
	agent_fixture_know(e->f, inv, NULL);
	env_allocate_device(e, "train", "nvidia.com/mig-7g.40gb", "MIG-0-0");
	start_persisted(e);
	(void)env_round(e, 10 * NS_PER_SEC);
	r = records_of(e);
	assert_string_equal(r.mode, "mig");
	assert_string_equal(r.device, "MIG-0-0");
	assert_int_equal(r.held_ns, 10 * NS_PER_SEC);
}

/* The kubelet's names are foreign input: the file takes UTF-8 of a bounded length. */
static void records__truncate_names(void **state)
{
	struct monitoring_env *e = *state;
	char pod[400];
	struct records r;

	memset(pod, 'p', sizeof(pod) - 1);
	pod[sizeof(pod) - 1] = '\0';
	pod[3] = '\xff';
	pod[USAGE_DB_NAME_MAX - 1] = '\xc3'; /* the cut goes through this letter */
	pod[USAGE_DB_NAME_MAX] = '\xa4';
	one_gpu(e);
	env_allocate_device(e, pod, GPU_RESOURCE, "GPU-0");
	start_persisted(e);
	(void)env_round(e, NS_PER_SEC);
	assert_int_equal(e->mon.persist.errors, 0);
	r = records_of(e);
	assert_int_equal(strlen(r.pod), USAGE_DB_NAME_MAX);
	assert_int_equal(r.pod[3], '?');
	assert_int_equal(r.pod[USAGE_DB_NAME_MAX - 1], '?');
}

/* Rounds that could not be written are one row: the largest peak, and unknown where one of them was. */
static void records__of_unwritten_rounds_are_added_up(void **state)
{
	static const char *const pods[] = { "train" };
	struct monitoring_env *e = *state;
	char path[PATH_MAX];
	struct records r;

	one_gpu(e);
	test_write(e->state_dir, "ledger.db/in-the-way", "", 0, 0600);
	env_allocate_device(e, "train", GPU_RESOURCE, "GPU-0");
	env_write_checkpoint(e, pods, 1);
	env_process(e, 11, 1, "main");
	e->units[0].processes[0] =
		(struct env_process){ .pid = 11, .mib = 700, .busy_ms = 500 };
	start_persisted(e);
	(void)env_round(e, NS_PER_SEC);
	e->units[0].processes[0].mib = 300;
	(void)env_round(e, NS_PER_SEC);
	e->sample.how = ENV_FAILS;
	(void)env_round(e, NS_PER_SEC);
	assert_int_equal(e->mon.persist.n_rows, 1);
	assert_int_equal(e->mon.persist.errors, 5); /* the start, and four rounds */
	assert_string_not_equal(e->mon.persist.failure.msg, "");
	join_path_below(path, e->mon.persist.path, "in-the-way");
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(e->mon.persist.path), 0);
	/* The agent retries a minute after the last attempt. */
	e->sample.how = ENV_LATER;
	(void)env_round(e, 50 * NS_PER_SEC);
	assert_int_equal(e->mon.persist.errors, 6);
	(void)env_round(e, 7 * NS_PER_SEC);
	assert_int_equal(e->mon.persist.errors, 6);
	assert_int_equal(e->mon.persist.n_rows, 0);
	assert_string_equal(e->mon.persist.failure.msg, "");
	r = records_of(e);
	assert_int_equal(r.held, 1);
	assert_int_equal(r.held_ns, 60 * NS_PER_SEC);
	assert_int_equal(r.covered_ns, 60 * NS_PER_SEC);
	assert_int_equal(r.peak_bytes >> 20, 700);
	assert_true(r.busy_unknown && r.memory_unknown);
}

/* --- a restart --- */

static void restart__continues_counters(void **state)
{
	static const char *const pods[] = { "train" };
	struct monitoring_env *e = *state;
	uint64_t since;

	one_gpu(e);
	env_allocate_device(e, "train", GPU_RESOURCE, "GPU-0");
	env_write_checkpoint(e, pods, 1);
	env_process(e, 11, 1, "main");
	e->units[0].processes[0] =
		(struct env_process){ .pid = 11, .mib = 700, .busy_ms = 500 };
	start_persisted(e);
	monitoring_add_xid(&e->mon, "GPU-0", 31);
	(void)env_round(e, NS_PER_SEC);
	since = e->view->since_wall_ns;
	env_stop(e);
	env_pass(100 * NS_PER_SEC);
	e->context.started_wall_ns = time_wall_ns();
	e->units[0].processes[0].mib = 10;
	env_start(e);
	monitoring_add_xid(&e->mon, "GPU-0", 79);
	env_answer(e);
	(void)env_end(e);
	assert_int_equal(e->view->seq, 1);
	assert_int_equal(e->view->since_wall_ns, since);
	assert_int_equal(e->view->cost_nano, PRICE_NANO); /* not of the time without an agent */
	assert_int_equal(env_find_usage(e, "train")->allocated_ns, NS_PER_SEC);
	assert_int_equal(env_find_usage(e, "train")->cost_nano, PRICE_NANO);
	assert_int_equal(env_find_usage(e, "train")->memory_peak >> 20, 700);
	assert_int_equal(env_find_usage(e, "train")->memory_used >> 20, 10);
	assert_int_equal(env_find_usage(e, "train")->busy_ns, 1500 * NS_PER_MS);
	assert_string_equal(env_find_usage(e, "train")->uid, ENV_UID "1");
	assert_int_equal(e->view->gpus[0].xid_count, 2);
	assert_int_equal(e->view->gpus[0].n_xids, 2);
	assert_int_equal(e->view->gpus[0].last_xid, 79);
	(void)env_round(e, NS_PER_SEC);
	assert_int_equal(e->view->cost_nano, 2 * PRICE_NANO);
	assert_int_equal(env_find_device(e, "GPU-0")->present_ns, 2 * NS_PER_SEC);
}

/* XIDs that come while the file is being opened are added to those that are in it. */
static void restart__adds_xids_that_arrive_before_it_is_over(void **state)
{
	struct monitoring_env *e = *state;

	one_gpu(e);
	start_persisted(e);
	monitoring_add_xid(&e->mon, "GPU-0", 31);
	(void)env_round(e, NS_PER_SEC);
	env_stop(e);
	env_pass(NS_PER_SEC);
	monitoring_init(&e->mon, &e->context);
	monitoring_add_xid(&e->mon, "GPU-0", 31);
	monitoring_start(&e->mon);
	agent_fixture_until(e->f, e->sample.pending);
	env_answer(e);
	(void)env_end(e);
	assert_int_equal(e->view->gpus[0].xid_count, 2);
	assert_int_equal(e->view->gpus[0].n_xids, 1);
	assert_int_equal(e->view->gpus[0].xids[0].last_wall_ns, time_wall_ns());
}

/* The pod ended while no agent was running. */
static void restart__ends_the_usage_of_a_removed_pod(void **state)
{
	struct monitoring_env *e = *state;

	one_gpu(e);
	env_allocate_device(e, "train", GPU_RESOURCE, "GPU-0");
	start_persisted(e);
	(void)env_round(e, NS_PER_SEC);
	env_release_all(e);
	env_restart(e);
	env_answer(e);
	(void)env_end(e);
	assert_false(env_find_usage(e, "train")->live);
	assert_int_equal(env_find_usage(e, "train")->allocated_ns, NS_PER_SEC);
	/* The usage stays ended over the next restart. */
	env_restart(e);
	env_answer(e);
	(void)env_end(e);
	assert_false(env_find_usage(e, "train")->live);
	assert_true(env_find_usage(e, "train")->ended_wall_ns > 0);
}

/* Unknown figures stay unknown after a restart. */
static void restart__keeps_unknown_figures_unknown(void **state)
{
	struct monitoring_env *e = *state;

	one_gpu(e);
	env_allocate_device(e, "train", GPU_RESOURCE, "GPU-0");
	e->sample.how = ENV_FAILS;
	start_persisted(e);
	(void)env_round(e, NS_PER_SEC);
	assert_false(env_find_usage(e, "train")->busy_known ||
		     env_find_usage(e, "train")->memory_counted);
	env_restart(e);
	env_answer(e);
	(void)env_end(e);
	assert_false(env_find_usage(e, "train")->busy_known ||
		     env_find_usage(e, "train")->memory_counted ||
		     env_find_usage(e, "train")->peak_known);
	e->sample.how = ENV_LATER;
	e->units[0].no_processes = true;
	(void)env_round(e, NS_PER_SEC);
	env_restart(e);
	e->sample.how = ENV_FAILS;
	env_answer(e);
	(void)env_end(e);
	assert_true(env_find_usage(e, "train")->busy_known &&
		    env_find_usage(e, "train")->memory_counted &&
		    env_find_usage(e, "train")->peak_known);
	assert_false(env_find_usage(e, "train")->busy_current);
}

/* --- the file --- */

static void persist__writes_a_new_file_where_it_was_removed(void **state)
{
	struct monitoring_env *e = *state;

	one_gpu(e);
	env_allocate_device(e, "train", GPU_RESOURCE, "GPU-0");
	start_persisted(e);
	(void)env_round(e, NS_PER_SEC);
	assert_int_equal(unlink(e->mon.persist.path), 0);
	(void)env_round(e, NS_PER_SEC);
	assert_int_equal(e->mon.persist.errors, 0);
	assert_int_equal(records_of(e).held_ns, NS_PER_SEC);
	/* The new file has the present counters. */
	env_restart(e);
	env_answer(e);
	(void)env_end(e);
	assert_int_equal(env_find_usage(e, "train")->allocated_ns, 2 * NS_PER_SEC);
}

static void persist__recreates_a_damaged_file(void **state)
{
	struct monitoring_env *e = *state;
	static char junk[8192];

	memset(junk, 'x', sizeof(junk));
	test_write(e->state_dir, USAGE_DB_FILE, junk, sizeof(junk), 0600);
	one_gpu(e);
	env_allocate_device(e, "train", GPU_RESOURCE, "GPU-0");
	start_persisted(e);
	(void)env_round(e, NS_PER_SEC);
	assert_int_equal(e->mon.persist.errors, 0);
	assert_int_equal(e->mon.persist.note.code, ERR_NONE); /* it was logged */
	assert_int_equal(records_of(e).held_ns, NS_PER_SEC);
	assert_true(e->view->agent.usage_db_known);
}

static void persist__creates_its_directory(void **state)
{
	struct monitoring_env *e = *state;
	char dir[PATH_MAX];

	join_path_below(dir, e->f->dir, "usage");
	e->context.options.usage_db_dir = dir;
	one_gpu(e);
	start_persisted(e);
	(void)env_round(e, NS_PER_SEC);
	assert_int_equal(e->mon.persist.errors, 0);
	assert_int_equal(strncmp(e->mon.persist.path, dir, strlen(dir)), 0);
	assert_int_equal(access(e->mon.persist.path, F_OK), 0);
}

/* --- keys of totals that the agent did not write --- */

#define S "\x1f"

static void write_test_totals(const struct monitoring_env *e, const struct usage_db_total *v,
	size_t n)
{
	const struct usage_db_batch b = { .set_totals = true, .totals = v, .n_totals = n };
	CLEANUP(usage_db_closep) struct usage_db *db = NULL;
	struct error err = ERROR_INIT;
	char path[PATH_MAX];

	join_path_below(path, e->state_dir, USAGE_DB_FILE);
	assert_ok(usage_db_open(&db, path, USAGE_DB_BYTES, &err), &err);
	assert_ok(usage_db_add(db, &b, 1000, &err), &err);
}

static void restore__skips_malformed_records(void **state)
{
	static const struct usage_db_total rows[] = {
		{ "unit" S "GPU-0", { 100 } },
		{ "unit", { 1 } },
		{ "unit" S "GPU-1" S "more", { 1 } },
		{ "use" S "GPU-0" S "ml" S "good" S S "main" S "r" S "1", { 50, 50 } },
		{ "use" S "GPU-0" S "ml" S "mode9" S S "main" S "r" S "9", { 1 } },
		{ "use" S "GPU-0" S "ml" S "mode" S S "main" S "r" S, { 1 } },
		{ "use" S "GPU-0" S "ml" S "mode12" S S "main" S "r" S "12", { 1 } },
		{ "use" S "GPU-9" S "ml" S "of no unit" S S "main" S "r" S "0", { 1 } },
		{ "use" S "GPU-0" S "ml", { 1 } },
		{ "xid" S "GPU-0" S "31", { 4, 5 } },
		{ "xid" S "GPU-0" S "many", { 4, 5 } },
		{ "xid" S "GPU-0" S "-1", { 4, 5 } },
		{ "charge" S "0a1b" S "GPU-0", { 7, 8, 9 } },
		{ "charge" S "0a1b", { 7 } },
		{ "later" S "x", { 1 } },
	};
	struct monitoring_env *e = *state;
	const struct account_device *device;

	write_test_totals(e, rows, ARRAY_LEN(rows));
	one_gpu(e);
	env_start(e);
	assert_int_equal(e->mon.accounts.n_devices, 1);
	device = e->mon.accounts.devices[0];
	assert_int_equal(device->present_ns, 100);
	assert_int_equal(device->n_uses, 1);
	assert_string_equal(device->uses[0]->pod, "good");
	assert_int_equal(device->uses[0]->mode, ACCOUNT_TIME_SLICING);
	assert_int_equal(e->mon.xids.n, 1);
	assert_int_equal(e->mon.xids.v[0].count, 4);
	assert_int_equal(e->mon.charges.n, 1);
	assert_int_equal(e->mon.charges.v[0].estimated_ns, 9);
	assert_int_equal(e->mon.persist.n_loaded_totals, 0);
	env_answer(e);
	(void)env_end(e); /* view_check() accepts the remaining ones */
}

/* Numbers below zero, or that could not be so. */
static void restore__rejects_impossible_numbers(void **state)
{
	static const struct usage_db_total rows[] = {
		{ "node", { -5, -5, -5, INT64_MAX, INT64_MAX } },
		{ "unit" S "GPU-0", { -1, -1, -1, -1, -1, -1, INT64_MAX } },
		{ "use" S "GPU-0" S "ml" S "one" S S "main" S "r" S "0",
			{ -1, -1, -1, -1, -1, -1, -1, 3 } },
		{ "xid" S "GPU-0" S "31", { -4, -5 } },
		{ "charge" S "0a1b" S "GPU-0", { -7, -8, -9 } },
	};
	struct monitoring_env *e = *state;
	const struct account *a;

	write_test_totals(e, rows, ARRAY_LEN(rows));
	one_gpu(e);
	env_start(e);
	assert_int_equal(e->mon.accounts.cost_nano, 0);
	assert_int_equal(e->mon.since_wall_ns, e->context.started_wall_ns);
	assert_true(e->mon.accounts.price_rest < UINT64_C(3600) * NS_PER_SEC);
	assert_true(e->mon.accounts.devices[0]->present_rest < ACCOUNT_MILLION);
	a = e->mon.accounts.devices[0]->uses[0];
	assert_int_equal(a->total.allocated_ns + a->memory_peak + a->began_wall_ns, 0);
	assert_true(a->live && a->busy_unknown && a->memory_unknown);
	assert_false(a->busy_ever || a->memory_ever || a->peak_known);
	assert_int_equal(e->mon.xids.v[0].count, 0);
	assert_int_equal(e->mon.charges.v[0].charged_ns, 0);
	env_answer(e);
	(void)env_end(e);
}

/* A name that makes no key is counted, and begins at zero after a restart. */
static void totals__skip_names_that_form_no_key(void **state)
{
	struct monitoring_env *e = *state;
	char longest[USAGE_DB_KEY_MAX + 1];

	memset(longest, 'p', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	agent_fixture_know(e->f, fixture_inventory(3), NULL);
	env_allocate_device(e, longest, GPU_RESOURCE, "GPU-0");
	env_allocate_device(e, "bad-\xff", GPU_RESOURCE, "GPU-1");
	env_allocate_device(e, "good", GPU_RESOURCE, "GPU-2");
	start_persisted(e);
	(void)env_round(e, NS_PER_SEC);
	assert_int_equal(e->mon.persist.errors, 0);
	assert_int_equal(e->mon.persist.n_totals, 5); /* the node, three devices, one usage */
	env_restart(e);
	assert_int_equal(e->mon.accounts.n_devices, 3);
	assert_int_equal(accounts_find_device(&e->mon.accounts, "GPU-0")->n_uses, 0);
	assert_int_equal(accounts_find_device(&e->mon.accounts, "GPU-1")->n_uses, 0);
	assert_int_equal(accounts_find_device(&e->mon.accounts, "GPU-2")->n_uses, 1);
	env_answer(e);
	(void)env_end(e);
	assert_int_equal(env_find_usage(e, longest)->allocated_ns, 0);
	assert_int_equal(env_find_usage(e, "good")->allocated_ns, NS_PER_SEC);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ENV_TEST(records__have_the_allocated_and_idle_time_of_the_round),
		ENV_TEST(records__have_no_unknown_time),
		ENV_TEST(records__have_the_cost_of_a_node_without_gpus),
		ENV_TEST(records__call_a_mig_device_mig),
		ENV_TEST(records__truncate_names),
		ENV_TEST(records__of_unwritten_rounds_are_added_up),
		ENV_TEST(restart__continues_counters),
		ENV_TEST(restart__adds_xids_that_arrive_before_it_is_over),
		ENV_TEST(restart__ends_the_usage_of_a_removed_pod),
		ENV_TEST(restart__keeps_unknown_figures_unknown),
		ENV_TEST(persist__writes_a_new_file_where_it_was_removed),
		ENV_TEST(persist__recreates_a_damaged_file),
		ENV_TEST(persist__creates_its_directory),
		ENV_TEST(restore__skips_malformed_records),
		ENV_TEST(restore__rejects_impossible_numbers),
		ENV_TEST(totals__skip_names_that_form_no_key),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
