/* SPDX-License-Identifier: Apache-2.0 */

/* Slices that follow the config: when there are any, what a container gets, its limits, and what is missing. */
#include "unit/node/agent/slices/slices-env.h"

#include "abi/slice-dir.h"
#include "node/agent/slices/install.h"
#include "lib/base/fd.h"

#include <sys/stat.h>
#include <unistd.h>

static const struct isolation none = { .present = true };
static const struct isolation fair = { .present = true, .compute = ISOLATION_COMPUTE_FAIR };

static int check_trial(struct slices_env *e, const char *id, struct error *err)
{
	const struct resource *r = offer_find(e->f->facts.offered.offer, ENV_RESOURCE);

	assert_non_null(r);
	return slices_check(&e->s, r, &id, 1, err);
}

static bool all_ready(const struct slices_env *e)
{
	return e->s.store.made - e->s.store.used == SLICE_SPARES;
}

/* --- whether there are slices at all --- */

static void slices_sync__starts_nothing_without_isolation(void **state)
{
	struct slices_env *e = *state;
	struct error err = ERROR_INIT;

	env_libraries(e, false);
	env_know(e, env_config(4, &none));
	env_start(e);
	agent_fixture_run_once(e->f);
	assert_false(e->s.wanted);
	assert_string_equal(slices_get_error(&e->s), "");
	assert_int_equal(e->arbiter.n_peers, 0);
	assert_int_equal(e->f->n_events, 0);
	assert_ok(check_trial(e, "GPU-0::0", &err), &err);
	assert_int_equal(env_count(e), 0);
	assert_false(uv_is_active((uv_handle_t *)&e->s.timer));
}

static void slices_sync__waits_for_the_first_offer(void **state)
{
	struct slices_env *e = *state;

	env_know(e, env_config(4, &env_equal));
	e->f->facts.decided = false;
	env_start(e);
	agent_fixture_run_once(e->f);
	assert_false(e->s.wanted);
	assert_int_equal(e->arbiter.n_peers, 0);
	assert_string_equal(e->s.lib, "");
	e->f->facts.decided = true;
	slices_sync(&e->s);
	agent_fixture_until(e->f, fake_arbiter_count_received(&e->arbiter, "readings") == 1);
	assert_true(slice_libs_there(e->state, e->s.lib));
}

static void slices_check__succeeds_before_the_libraries_were_tried(void **state)
{
	struct slices_env *e = *state;
	struct error err = ERROR_INIT;

	env_know(e, env_config(4, &env_equal));
	e->f->facts.decided = false;
	env_start(e);
	assert_ok(check_trial(e, "GPU-0::0", &err), &err);
	assert_int_equal(e->s.store.made,
		1); /* one directory is prepared, and no more after it */
	assert_ok(check_trial(e, "GPU-0::1", &err), &err);
	assert_int_equal(e->s.store.made, 1);
	(void)env_allocate(e, "GPU-0::0");
	assert_true(slice_libs_there(e->state, e->s.lib));
}

static void slices_sync__ends_the_arbiter_only_without_slices(void **state)
{
	struct slices_env *e = *state;

	env_start_isolated(e);
	(void)env_allocate(e, "GPU-0::0");
	env_know(e, env_config(4, &none));
	slices_sync(&e->s);
	assert_false(e->s.wanted);
	assert_int_equal(fake_arbiter_ends(), 0);
	assert_int_equal(e->s.store.n, 1);
}

static void slices_sync__ends_the_arbiter_when_isolation_is_switched_off(void **state)
{
	struct slices_env *e = *state;

	env_start_isolated(e);
	env_know(e, env_config(4, &none));
	slices_sync(&e->s);
	assert_int_equal(fake_arbiter_ends(), 1);
	slices_sync(&e->s);
	assert_int_equal(fake_arbiter_ends(), 0);
	env_know(e, env_config(4, &env_equal));
	slices_sync(&e->s);
	agent_fixture_until(e->f, fake_arbiter_count_received(&e->arbiter, "readings") == 2);
}

static void slices_stop__leaves_the_arbiter_and_the_slices(void **state)
{
	struct slices_env *e = *state;
	char id[SLICE_ID_DIGITS + 1];

	env_start_isolated(e);
	memcpy(id, env_allocate(e, "GPU-1::2")->file.id, sizeof(id));
	env_stop(e);
	assert_int_equal(fake_arbiter_ends(), 0);
	assert_true(env_there(e, id));
	assert_int_equal(env_count(e), 1);

	env_start(e);
	assert_int_equal(e->s.store.n, 1);
	assert_string_equal(e->s.store.v[0]->file.id, id);
	assert_true(strv_has(&e->s.store.v[0]->file.devices, "GPU-1::2"));
	/* The slice stays also where the new agent's config isolates nothing. */
	agent_fixture_until(e->f, fake_arbiter_count_received(&e->arbiter, "readings") == 2);
}

static void slices_sync__does_nothing_after_the_stop(void **state)
{
	struct slices_env *e = *state;

	env_start_isolated(e);
	slices_stop(&e->s);
	e->stopped = true;
	env_know(e, env_config(4, &none));
	slices_sync(&e->s);
	assert_true(e->s.wanted);
	assert_int_equal(fake_arbiter_ends(), 0);
}

/* --- the libraries --- */

static void slices_sync__reports_each_reason_of_missing_libraries_once(void **state)
{
	struct slices_env *e = *state;

	env_libraries(e, false);
	env_know(e, env_config(4, &env_equal));
	env_start(e);
	slices_sync(&e->s);
	assert_int_equal(agent_fixture_count(e->f, "SliceLibraries"), 1);
	assert_non_null(strstr(slices_get_error(&e->s), "no library " SLICE_LIB_CUDA));
	assert_string_equal(agent_fixture_last(e->f, "SliceLibraries")->message,
		slices_get_error(&e->s));

	test_write(e->runtime, SLICE_LIB_CUDA, "text", 4, 0755);
	slices_sync(&e->s);
	slices_sync(&e->s);
	assert_int_equal(agent_fixture_count(e->f, "SliceLibraries"), 2);
	assert_non_null(strstr(slices_get_error(&e->s), "is no library"));
}

static void slices_error__ends_when_the_libraries_are_installed(void **state)
{
	struct slices_env *e = *state;
	struct error err = ERROR_INIT;

	env_libraries(e, false);
	env_know(e, env_config(4, &env_equal));
	env_start(e);
	assert_error(check_trial(e, "GPU-0::0", &err), &err,
		"isolates memory, and without its libraries");
	env_allocate_fails(e, "GPU-0::0", "no library");
	env_libraries(e, true);
	env_sweep(e); /* without a slice, as long as they are missing */
	assert_string_equal(slices_get_error(&e->s), "");
	error_clear(&err);
	assert_ok(check_trial(e, "GPU-0::0", &err), &err);
	assert_false(uv_is_active((uv_handle_t *)&e->s.timer));
	assert_int_equal(e->s.lib_error.code, ERR_NONE);
}

static void slices_check__names_compute_where_that_is_isolated(void **state)
{
	struct slices_env *e = *state;
	struct error err = ERROR_INIT;

	env_libraries(e, false);
	env_know(e, env_config(4, &fair));
	env_start(e);
	assert_error(check_trial(e, "GPU-0::0", &err), &err, "isolates compute, and without");
	assert_int_equal(err.code, ERR_UNAVAILABLE);
}

static void slices_error__is_empty_where_no_slice_is_desired(void **state)
{
	struct slices_env *e = *state;

	env_libraries(e, false);
	env_know(e, env_config(4, &env_equal));
	env_start(e);
	assert_string_not_equal(slices_get_error(&e->s), "");
	env_know(e, env_config(4, &none));
	slices_sync(&e->s);
	assert_string_equal(slices_get_error(&e->s), "");
}

static void slices_allocate__installs_removed_libraries_again(void **state)
{
	struct slices_env *e = *state;
	char path[PATH_MAX];
	struct error err = ERROR_INIT;

	env_start_isolated(e);
	assert_ok(slice_libs_path(path, e->state, e->s.lib, SLICE_LIBS_PRELOAD, &err), &err);
	assert_int_equal(unlink(path), 0);
	(void)env_allocate(e, "GPU-0::0");
	assert_int_equal(access(path, F_OK), 0);

	/* No container starts without its limit where the libraries cannot be installed. */
	assert_int_equal(unlink(path), 0);
	env_libraries(e, false);
	env_allocate_fails(e, "GPU-0::1", "would have no limit: the slice libraries cannot be");
	assert_string_not_equal(slices_get_error(&e->s), "");
}

/* --- what a container gets --- */

static void slices_allocate__mounts_slice_libraries_and_preload_read_only(void **state)
{
	struct slices_env *e = *state;
	CLEANUP(allocation_freep) struct allocation *to = calloc(1, sizeof(*to));
	static const char *const ids[] = { "GPU-0::0", "GPU-0::3", "GPU-1::1" };
	static const char *const at[] = { SLICE_CONTAINER_DIR, SLICE_CONTAINER_LIB_DIR,
		SLICE_PRELOAD_FILE };
	const struct stored_slice *slice;
	struct error err = ERROR_INIT;

	env_start_isolated(e);
	assert_ok(slices_allocate(&e->s, &e->f->facts.offered.offer->resources[0], ids, 3, to,
			  &err),
		&err);
	assert_int_equal(to->n_mounts, ARRAY_LEN(at));
	for (size_t i = 0; i < to->n_mounts; i++) {
		assert_string_equal(to->mounts[i].container_path, at[i]);
		assert_true(to->mounts[i].read_only);
		assert_int_equal(access(to->mounts[i].host_path, F_OK), 0);
	}
	assert_int_equal(to->n_envs, 0);
	slice = e->s.store.v[0];
	assert_non_null(strstr(to->mounts[0].host_path, slice->file.id));
	assert_int_equal(slice->file.devices.n, 3);
	assert_int_equal(slice->file.plan.n, 2);
	assert_int_equal(slice->file.plan.gpus[0].memory, ENV_MEMORY / 2);
	assert_int_equal(slice->file.plan.gpus[1].memory, ENV_MEMORY / 4);
}

static void slices_allocate__flushes_all_slices_off_the_loop(void **state)
{
	struct slices_env *e = *state;

	env_start_isolated(e);
	(void)env_allocate(e, "GPU-0::0");
	assert_true(e->s.saves); /* the first is under way, */
	(void)env_allocate(e, "GPU-0::1");
	(void)env_allocate(e, "GPU-0::2");
	assert_int_equal(e->s.unsaved.n, 6); /* and the others wait for it, together */
	agent_fixture_until(e->f, !e->s.saves);
	assert_int_equal(e->s.unsaved.n, 0);
	assert_int_equal(e->s.saving.n, 0);
}

static void slices_allocate__without_isolation_supersedes_the_slice(void **state)
{
	struct slices_env *e = *state;
	CLEANUP(allocation_freep) struct allocation *to = calloc(1, sizeof(*to));
	const char *id = "GPU-0::0";
	struct error err = ERROR_INIT;

	env_start_isolated(e);
	(void)env_allocate(e, id);
	(void)env_allocate(e, "GPU-0::1");
	env_know(e, env_config(4, &none));
	slices_sync(&e->s);
	assert_ok(slices_allocate(&e->s, &e->f->facts.offered.offer->resources[0], &id, 1, to,
			  &err),
		&err);
	assert_int_equal(to->n_mounts, 0);
	for (unsigned run = 0; run < 2; run++) { /* this agent and the next one */
		assert_int_equal(e->s.store.n, 2);
		for (size_t i = 0; i < 2; i++) {
			const struct stored_slice *s = e->s.store.v[i];

			assert_int_equal(s->superseded, strv_has(&s->file.devices, id));
		}
		env_stop(e);
		env_start(e);
	}
}

static void slices_allocate__refuses_a_gpu_of_unknown_memory(void **state)
{
	struct slices_env *e = *state;
	struct error err = ERROR_INIT;

	env_start_isolated(e);
	e->f->facts.offered.inv->gpus[0].memory_usable_bytes = 0;
	assert_error(check_trial(e, "GPU-0::0", &err), &err,
		"the memory of 'GPU-0' is not known");
	env_allocate_fails(e, "GPU-0::0", "the memory of 'GPU-0' is not known");
	(void)env_allocate(e, "GPU-1::0");
}

/* --- the arbiter is down --- */

static void slices_check__refuses_when_the_arbiter_is_down_for_10_s(void **state)
{
	struct slices_env *e = *state;
	struct error err = ERROR_INIT;

	fake_arbiter_stop(&e->arbiter);
	agent_fixture_run_once(e->f);
	env_know(e, env_config(4, &env_equal));
	env_start(e);
	env_now_ns += ARBITER_DOWN_NS - 1;
	assert_ok(check_trial(e, "GPU-0::0", &err), &err);
	(void)env_allocate(e, "GPU-0::0");
	env_now_ns++;
	assert_error(check_trial(e, "GPU-0::1", &err), &err,
		"does not run: no program gpuslice-arbiter");
	assert_int_equal(err.code, ERR_UNAVAILABLE);
	env_allocate_fails(e, "GPU-0::1", "does not run");
	assert_string_equal(slices_get_error(&e->s), "");

	fake_arbiter_listen(&e->arbiter, &e->f->loop, e->run);
	agent_fixture_until(e->f, fake_arbiter_count_received(&e->arbiter, "readings") == 1);
	(void)env_allocate(e, "GPU-0::1");
}

static void slices_check__needs_no_arbiter_without_isolation(void **state)
{
	struct slices_env *e = *state;
	struct error err = ERROR_INIT;

	env_start_isolated(e);
	(void)env_allocate(e, "GPU-0::0"); /* for which it is wanted */
	fake_arbiter_stop(&e->arbiter);
	env_know(e, env_config(4, &none));
	slices_sync(&e->s);
	agent_fixture_run_once(e->f);
	env_now_ns += 2 * ARBITER_DOWN_NS;
	assert_ok(check_trial(e, "GPU-0::1", &err), &err);
}

/* --- the store --- */

static void block_store(const struct slices_env *e, char path[PATH_MAX])
{
	struct error err = ERROR_INIT;

	assert_ok(path_join(path, PATH_MAX, e->state, SLICES_DIR, &err), &err);
	test_write(e->state, SLICES_DIR, "", 0, 0600);
}

static void slices_retry__loads_a_store_that_could_not_be_read(void **state)
{
	struct slices_env *e = *state;
	char path[PATH_MAX];
	struct error err = ERROR_INIT;

	block_store(e, path);
	env_know(e, env_config(4, &env_equal));
	env_start(e);
	assert_int_not_equal(e->f->components[COMPONENT_SLICES].code, ERR_NONE);
	slices_sync(&e->s);
	slices_retry(&e->s);
	assert_non_null(strstr(slices_get_error(&e->s), path));
	assert_error(check_trial(e, "GPU-0::0", &err), &err, path);
	env_allocate_fails(e, "GPU-0::0", path);
	assert_int_equal(e->f->n_events, 0); /* the component's is enough */

	assert_int_equal(unlink(path), 0);
	slices_retry(&e->s);
	assert_int_equal(e->f->components[COMPONENT_SLICES].code, ERR_NONE);
	assert_string_equal(slices_get_error(&e->s), "");
	(void)env_allocate(e, "GPU-0::0");
	slices_retry(&e->s); /* does not load twice */
	assert_int_equal(e->s.store.n, 1);
}

static void slices_allocate__reports_that_no_directory_can_be_created(void **state)
{
	struct slices_env *e = *state;
	struct error err = ERROR_INIT;
	char path[PATH_MAX];

	env_start_isolated(e);
	agent_fixture_until(e->f, all_ready(e));
	agent_fixture_run_once(e->f);
	assert_int_equal(e->on_dir_unavailable, 0);
	test_rmdir(strdup(e->s.store.dir));
	block_store(e, path);
	assert_error(check_trial(e, "GPU-0::0", &err), &err, "no slice can be made");
	env_allocate_fails(e, "GPU-0::0", "no slice can be made");
	agent_fixture_until(e->f, e->on_dir_unavailable > 0);

	assert_int_equal(unlink(path), 0);
	(void)env_allocate(e, "GPU-0::0");
	agent_fixture_until(e->f, all_ready(e));
	assert_int_equal(e->on_dir_unavailable, 1);
}

/* --- limits --- */

/* Whether the arbiter reads this limit of the first GPU. */
static bool has_slice_file_limit(const struct slices_env *e, const struct stored_slice *slice,
	uint64_t memory)
{
	json_t *file = env_file(e, slice);
	const json_t *found =
		json_object_get(json_array_get(json_object_get(file, "gpus"), 0), "memory");
	bool same = memory == SLICE_NO_LIMIT ? !found
					     : json_integer_value(found) == (json_int_t)memory;

	json_decref(file);
	return same;
}

static void slices_sync__changes_limits_with_the_config(void **state)
{
	static const struct {
		uint32_t replicas;
		struct isolation isolation;
		struct slice_gpu gpu;
		enum slice_compute compute;
	} rows[] = {
		{ 8, { .present = true, .memory = ISOLATION_MEMORY_EQUAL },
			{ .memory = ENV_MEMORY / 8 }, SLICE_COMPUTE_NONE },
		{ 8,
			{ .present = true,
				.memory = ISOLATION_MEMORY_BYTES,
				.memory_value = 3 * ENV_GIB },
			{ .memory = 3 * ENV_GIB }, SLICE_COMPUTE_NONE },
		{ 8,
			{ .present = true,
				.compute = ISOLATION_COMPUTE_CAPPED,
				.class_ = SLICE_CLASS_LATENCY },
			{ .memory = SLICE_NO_LIMIT, .weight = 1, .cap = 125000 },
			SLICE_COMPUTE_FAIR_SHARE },
		{ 2,
			{ .present = true,
				.compute = ISOLATION_COMPUTE_CAPPED,
				.unhooked = UNHOOKED_STOP },
			{ .memory = SLICE_NO_LIMIT, .weight = 1, .cap = 500000 },
			SLICE_COMPUTE_FAIR_SHARE },
		/* The config has no isolation any more: the limits go, the slice stays. */
		{ 4, { .present = true }, { .memory = SLICE_NO_LIMIT, .weight = 1 },
			SLICE_COMPUTE_NONE },
		{ 4, { .present = true, .memory = ISOLATION_MEMORY_EQUAL },
			{ .memory = ENV_MEMORY / 4 }, SLICE_COMPUTE_NONE },
	};
	struct slices_env *e = *state;
	const struct stored_slice *slice;

	env_start_isolated(e);
	slice = env_allocate(e, "GPU-0::1");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct slice_plan *plan = &slice->file.plan;

		env_know(e, env_config(rows[i].replicas, &rows[i].isolation));
		slices_sync(&e->s);
		if (plan->gpus[0].memory != rows[i].gpu.memory ||
			plan->compute != rows[i].compute ||
			plan->unhooked != rows[i].isolation.unhooked)
			fail_msg("row %zu", i);
		if (plan->compute != SLICE_COMPUTE_NONE &&
			(plan->gpus[0].weight != rows[i].gpu.weight ||
				plan->gpus[0].cap != rows[i].gpu.cap ||
				plan->class_ != rows[i].isolation.class_))
			fail_msg("row %zu: compute", i);
		if (!has_slice_file_limit(e, slice, rows[i].gpu.memory))
			fail_msg("row %zu: the file", i);
	}
}

static void slices_sync__leaves_slices_of_devices_that_are_not_offered(void **state)
{
	struct slices_env *e = *state;
	const struct stored_slice *gone, *other;
	struct config *c;

	env_start_isolated(e);
	other = env_allocate(e, "GPU-0::1");
	gone = env_allocate(e, "GPU-0::3");
	env_know(e, env_config(2, &env_equal));
	slices_sync(&e->s);
	assert_int_equal(gone->file.plan.gpus[0].memory, ENV_MEMORY / 4);
	assert_int_equal(other->file.plan.gpus[0].memory, ENV_MEMORY / 2);

	/* The resource has another name. */
	c = env_config(8, &env_equal);
	(void)snprintf(c->sharing.entries[0].rename, RESOURCE_NAME_MAX, "nvidia.com/other");
	env_know(e, c);
	slices_sync(&e->s);
	assert_int_equal(other->file.plan.gpus[0].memory, ENV_MEMORY / 2);
	assert_int_equal(e->s.store.n, 2);
}

static void slices_sync__leaves_limits_while_the_offer_is_of_another_config(void **state)
{
	struct slices_env *e = *state;
	const struct stored_slice *slice;

	env_start_isolated(e);
	slice = env_allocate(e, "GPU-0::0");
	env_know(e, env_config(8, &env_equal));
	(void)error_set(&e->f->facts.offer_error, ERR_NOMEM, "out of memory");
	slices_sync(&e->s);
	assert_int_equal(slice->file.plan.gpus[0].memory, ENV_MEMORY / 4);
	error_clear(&e->f->facts.offer_error);
	slices_sync(&e->s);
	assert_int_equal(slice->file.plan.gpus[0].memory, ENV_MEMORY / 8);
}

static ino_t file_inode(const struct slices_env *e, const struct stored_slice *slice)
{
	char path[PATH_MAX], file[PATH_MAX];
	struct error err = ERROR_INIT;
	struct stat st;

	assert_ok(slice_store_path(&e->s.store, slice, path, &err), &err);
	assert_ok(path_join(file, sizeof(file), path, SLICE_FILE, &err), &err);
	assert_int_equal(stat(file, &st), 0);
	return st.st_ino;
}

static void slices_sync__writes_only_files_that_change(void **state)
{
	struct slices_env *e = *state;
	const struct stored_slice *slice;
	ino_t before;

	env_start_isolated(e);
	slice = env_allocate(e, "GPU-0::0");
	agent_fixture_until(e->f, !e->s.saves);
	before = file_inode(e, slice);
	slices_sync(&e->s);
	assert_true(file_inode(e, slice) == before);
	assert_false(e->s.saves);
	env_know(e, env_config(8, &env_equal));
	slices_sync(&e->s);
	assert_true(file_inode(e, slice) != before);
	assert_true(e->s.saves);
}

static void slices_sync__changes_the_others_where_one_cannot_be_written(void **state)
{
	struct slices_env *e = *state;
	const struct stored_slice *lost, *other;
	char path[PATH_MAX];
	struct error err = ERROR_INIT;

	env_start_isolated(e);
	lost = env_allocate(e, "GPU-0::0");
	other = env_allocate(e, "GPU-0::1");
	agent_fixture_until(e->f, !e->s.saves);
	assert_ok(slice_store_path(&e->s.store, lost, path, &err), &err);
	test_rmdir(strdup(path));
	env_know(e, env_config(8, &env_equal));
	slices_sync(&e->s);
	assert_int_equal(lost->file.plan.gpus[0].memory, ENV_MEMORY / 4);
	assert_int_equal(other->file.plan.gpus[0].memory, ENV_MEMORY / 8);
	assert_int_equal(e->s.store.n, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SLICES_TEST(slices_sync__starts_nothing_without_isolation),
		SLICES_TEST(slices_sync__waits_for_the_first_offer),
		SLICES_TEST(slices_check__succeeds_before_the_libraries_were_tried),
		SLICES_TEST(slices_sync__ends_the_arbiter_only_without_slices),
		SLICES_TEST(slices_sync__ends_the_arbiter_when_isolation_is_switched_off),
		SLICES_TEST(slices_stop__leaves_the_arbiter_and_the_slices),
		SLICES_TEST(slices_sync__does_nothing_after_the_stop),
		SLICES_TEST(slices_sync__reports_each_reason_of_missing_libraries_once),
		SLICES_TEST(slices_error__ends_when_the_libraries_are_installed),
		SLICES_TEST(slices_check__names_compute_where_that_is_isolated),
		SLICES_TEST(slices_error__is_empty_where_no_slice_is_desired),
		SLICES_TEST(slices_allocate__installs_removed_libraries_again),
		SLICES_TEST(slices_allocate__mounts_slice_libraries_and_preload_read_only),
		SLICES_TEST(slices_allocate__flushes_all_slices_off_the_loop),
		SLICES_TEST(slices_allocate__without_isolation_supersedes_the_slice),
		SLICES_TEST(slices_allocate__refuses_a_gpu_of_unknown_memory),
		SLICES_TEST(slices_check__refuses_when_the_arbiter_is_down_for_10_s),
		SLICES_TEST(slices_check__needs_no_arbiter_without_isolation),
		SLICES_TEST(slices_retry__loads_a_store_that_could_not_be_read),
		SLICES_TEST(slices_allocate__reports_that_no_directory_can_be_created),
		SLICES_TEST(slices_sync__changes_limits_with_the_config),
		SLICES_TEST(slices_sync__leaves_slices_of_devices_that_are_not_offered),
		SLICES_TEST(slices_sync__leaves_limits_while_the_offer_is_of_another_config),
		SLICES_TEST(slices_sync__writes_only_files_that_change),
		SLICES_TEST(slices_sync__changes_the_others_where_one_cannot_be_written),
	};

	return cmocka_run_group_tests_name("slices-allocate", tests, NULL, NULL);
}
