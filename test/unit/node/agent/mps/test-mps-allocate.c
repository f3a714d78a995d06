/* SPDX-License-Identifier: Apache-2.0 */

/* The interface of MPS: a container's environment, whether GPUs may be changed, and the state of daemons. */
#include "unit/node/agent/mps/mps-env.h"

#include "lib/base/fd.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#define GPU "GPU-0"
#define IDS(...)                                \
	((const char *const[]){ __VA_ARGS__ }), \
		ARRAY_LEN(((const char *const[]){ __VA_ARGS__ }))

/* --- containers --- */

static int allocate_mps(struct mps_env *e, struct allocation *a, const char *resource,
	const char *const *ids, size_t n, struct error *err)
{
	const struct resource *r = offer_find(e->f->facts.offered.offer, resource);

	assert_non_null(r);
	error_clear(err);
	return mps_allocate(&e->mps, r, ids, n, a, err);
}

static const char *env_of(const struct allocation *a, const char *name)
{
	for (size_t i = 0; i < a->n_envs; i++)
		if (!strcmp(a->envs[i].name, name))
			return a->envs[i].value;
	return NULL;
}

static struct allocation *new_allocation(void)
{
	struct allocation *a = calloc(1, sizeof(*a));

	assert_non_null(a);
	return a;
}

static void mps_allocate__returns_the_environment_of_a_client(void **state)
{
	struct mps_env *e = *state;
	CLEANUP(allocation_freep) struct allocation *a = new_allocation();
	struct error err = ERROR_INIT;

	mps_env_up(e, 2);
	assert_ok(allocate_mps(e, a, "nvidia.com/gpu", IDS("GPU-1::3"), &err), &err);
	assert_int_equal(a->n_envs, 4);
	assert_string_equal(env_of(a, "CUDA_MPS_PIPE_DIRECTORY"), "/mps/nvidia.com/gpu/pipe");
	assert_string_equal(env_of(a, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"), "25");
	assert_string_equal(env_of(a, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"), "0=4096M");
	assert_string_equal(env_of(a, MPS_DEVICES_VARIABLE), "GPU-1::3");
	assert_int_equal(a->n_mounts, 1);
	assert_string_equal(a->mounts[0].container_path, "/mps/nvidia.com/gpu/pipe");
	assert_string_equal(a->mounts[0].host_path, mps_env_find_daemon(e, "GPU-1")->dir.pipe);
	assert_false(a->mounts[0].read_only); /* a socket is connected by writing to it */
}

static void mps_allocate__has_a_priority_where_compute_is_isolated(void **state)
{
	static const struct {
		enum slice_class class_;
		const char *priority;
	} rows[] = { { SLICE_CLASS_LATENCY, "0" }, { SLICE_CLASS_BATCH, "1" } };
	struct mps_env *e = *state;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(allocation_freep) struct allocation *a = new_allocation();
		struct config *c = mps_env_config(e, 4);
		struct error err = ERROR_INIT;

		c->sharing.entries[0].isolation = (struct isolation){ .present = true,
			.compute = ISOLATION_COMPUTE_CAPPED,
			.class_ = rows[i].class_ };
		mps_env_know(e, mps_env_inventory(1), c);
		mps_env_until_state(e, GPU, MPS_READY);
		assert_ok(allocate_mps(e, a, "nvidia.com/gpu", IDS("GPU-0::0"), &err), &err);
		assert_string_equal(env_of(a, "CUDA_MPS_CLIENT_PRIORITY"), rows[i].priority);
	}
}

static void mps_allocate__shares_dev_shm_with_older_drivers(void **state)
{
	static const struct {
		const char *driver;
		bool needs;
	} rows[] = { { "550.54.14", true }, { "579.99", true }, { "580.0", false },
		{ "579", true }, { "5800", false }, { "", false }, { "unknown", false },
		{ ".1", false }, { "99999999999.1", false } };
	struct mps_env *e = *state;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct inventory *inv = mps_env_inventory(1);

		(void)snprintf(inv->driver_version, sizeof(inv->driver_version), "%s",
			rows[i].driver);
		agent_fixture_know(e->f, inv, NULL);
		if (mps_needs_shm(&e->mps) != rows[i].needs)
			fail_msg("driver '%s'", rows[i].driver);
	}
	{
		CLEANUP(allocation_freep) struct allocation *a = new_allocation();
		struct inventory *inv = mps_env_inventory(1);
		struct error err = ERROR_INIT;

		(void)snprintf(inv->driver_version, sizeof(inv->driver_version), "550.54.14");
		mps_env_know(e, inv, mps_env_config(e, 4));
		mps_env_until_state(e, GPU, MPS_READY);
		assert_ok(allocate_mps(e, a, "nvidia.com/gpu", IDS("GPU-0::0"), &err), &err);
		assert_int_equal(a->n_mounts, 2);
		assert_string_equal(a->mounts[1].container_path, "/dev/shm");
		assert_string_equal(a->mounts[1].host_path,
			mps_env_find_daemon(e, GPU)->dir.shm);
		assert_int_equal(mps_env_lines(e, "helped", "--shm"), 1);
	}
}

static void mps_allocate__refuses_a_device_without_its_daemon(void **state)
{
	struct mps_env *e = *state;
	CLEANUP(allocation_freep) struct allocation *a = new_allocation();
	struct error err = ERROR_INIT;

	mps_env_up(e, 2);
	assert_int_equal(kill(mps_process_pid(mps_env_find_daemon(e, GPU)), SIGKILL), 0);
	agent_fixture_until(e->f, !mps_env_find_daemon(e, GPU)->process);
	assert_error(allocate_mps(e, a, "nvidia.com/gpu", IDS("GPU-0::0"), &err), &err,
		"\"nvidia.com/gpu\" is shared by MPS, which cannot be used now: the MPS control "
		"daemon ended by signal 9");
	assert_int_equal(err.code, ERR_UNAVAILABLE);
	assert_int_equal(a->n_envs + a->n_mounts, 0);
	assert_ok(allocate_mps(e, a, "nvidia.com/gpu", IDS("GPU-1::0"), &err), &err);
}

static void mps_allocate__refuses_a_gpu_that_its_daemon_lacks(void **state)
{
	struct mps_env *e = *state;
	CLEANUP(allocation_freep) struct allocation *a = new_allocation();
	struct config *c = mps_env_config(e, 4);
	struct inventory *inv = mps_env_inventory(2);
	struct error err = ERROR_INIT;

	MPS(c).fail_requests_greater_than_one = false;
	inv->gpus[1].fault = GPU_FAULT_LOST;
	mps_env_know(e, inv, c);
	mps_env_until_state(e, e->mps.daemons->key, MPS_READY);
	mps_env_client(e, e->mps.daemons->key, 1); /* so it is not restarted yet */
	mps_env_know(e, mps_env_inventory(2), NULL);
	assert_error(allocate_mps(e, a, "nvidia.com/gpu", IDS("GPU-0::0", "GPU-1::0"), &err),
		&err, "was started while this GPU was lost");
	assert_ok(allocate_mps(e, a, "nvidia.com/gpu", IDS("GPU-0::0", "GPU-0::1"), &err),
		&err);
	assert_string_equal(env_of(a, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"), "50");
	assert_string_equal(env_of(a, MPS_DEVICES_VARIABLE), "GPU-0::0,GPU-0::1");
}

static void mps_allocate__returns_nothing_for_other_resources(void **state)
{
	static const char *const first[] = { "0", NULL };
	struct mps_env *e = *state;
	CLEANUP(allocation_freep) struct allocation *a = new_allocation();
	struct config *c = mps_env_config(e, 0);
	struct error err = ERROR_INIT;
	const struct resource *r;

	(void)fixture_share_by(c, SHARING_MPS, "nvidia.com/gpu", "nvidia.com/mps", 2, first);
	agent_fixture_know(e->f, mps_env_inventory(2), c);
	r = offer_find(e->f->facts.offered.offer, "nvidia.com/gpu");
	/* The agent has no plan: the plan failed, or nothing was synced yet. */
	(void)error_set(&e->mps.error, ERR_LIMIT, "too many");
	assert_ok(allocate_mps(e, a, "nvidia.com/gpu", IDS("GPU-1"), &err), &err);
	assert_error(allocate_mps(e, a, "nvidia.com/mps", IDS("GPU-0::0"), &err), &err,
		"shared by MPS, which cannot be had: too many");
	assert_ok(allocate_mps(e, a, "nvidia.com/mps", IDS("GPU-9::0"), &err), &err);
	mps_sync(&e->mps);
	assert_ok(allocate_mps(e, a, "nvidia.com/gpu", IDS("GPU-1"), &err), &err);
	assert_int_equal(a->n_envs + a->n_mounts, 0);
	/* A device that is not shared by MPS needs no daemon. */
	assert_true(mps_device_ok(&e->mps, r, &r->devices[0], NULL));
	assert_null(mps_env_find_daemon(e, "GPU-1"));
}

/* --- the environment of daemon and commands --- */

static unsigned count_variables(char **env, const char *start)
{
	unsigned n = 0;

	for (size_t i = 0; env[i]; i++)
		n += !strncmp(env[i], start, strlen(start));
	return n;
}

static void mps_supervisor_env__replaces_the_variables_of_the_agent(void **state)
{
	struct mps_env *e = *state;
	char **env;

	mps_env_up(e, 1);
	assert_int_equal(setenv("CUDA_MPS_PIPE_DIRECTORY", "/elsewhere", 1), 0);
	assert_int_equal(setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "7", 1), 0);
	assert_int_equal(setenv("CUDA_VISIBLE_DEVICES", "none", 1), 0);
	assert_int_equal(setenv("CUDA_VISIBLE_DEVICES_OF_OTHERS", "1", 1), 0);
	env = mps_supervisor_env(mps_env_find_daemon(e, GPU));
	assert_non_null(env);
	assert_int_equal(count_variables(env, "CUDA_MPS_PIPE_DIRECTORY="), 1);
	assert_int_equal(count_variables(env, "CUDA_MPS_PIPE_DIRECTORY=/elsewhere"), 0);
	assert_int_equal(count_variables(env, "CUDA_MPS_LOG_DIRECTORY="), 1);
	assert_int_equal(count_variables(env, "CUDA_MPS_ACTIVE"), 0);
	assert_int_equal(count_variables(env, "CUDA_VISIBLE_DEVICES=GPU-0"), 1);
	assert_int_equal(count_variables(env, "CUDA_VISIBLE_DEVICES"), 2);
	assert_int_equal(count_variables(env, "PATH="), 1);
	mps_env_free(env);
	mps_env_free(NULL);
	assert_int_equal(unsetenv("CUDA_MPS_PIPE_DIRECTORY"), 0);
	assert_int_equal(unsetenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"), 0);
	assert_int_equal(unsetenv("CUDA_VISIBLE_DEVICES"), 0);
	assert_int_equal(unsetenv("CUDA_VISIBLE_DEVICES_OF_OTHERS"), 0);
}

/* --- GPUs before a change --- */

static bool is_uuid(void *arg, const char *uuid)
{
	return !strcmp(arg, uuid);
}

static int check_mps_withdrawn(const struct mps_env *e, const char *uuid, struct error *err)
{
	char name[GPU_UUID_MAX];

	(void)snprintf(name, sizeof(name), "%s", uuid);
	error_clear(err);
	return mps_check_withdrawn(&e->mps, is_uuid, name, err);
}

static void mps_check_withdrawn__waits_for_daemons_and_names_a_client(void **state)
{
	struct mps_env *e = *state;
	struct error err = ERROR_INIT;

	assert_int_equal(check_mps_withdrawn(e, GPU, &err), 0); /* there is no MPS at all */
	mps_env_up(e, 2);
	assert_int_equal(check_mps_withdrawn(e, "GPU-9", &err), 0);
	assert_int_equal(check_mps_withdrawn(e, GPU, &err), 1);
	mps_env_client(e, GPU, (uint32_t)getpid());
	assert_error(check_mps_withdrawn(e, GPU, &err), &err, "in use by a client of MPS: ");
	assert_int_equal(err.code, ERR_UNAVAILABLE);
	assert_non_null(strstr(err.msg, "on GPU-0"));
	assert_int_equal(check_mps_withdrawn(e, "GPU-1", &err), 1);
	mps_env_no_client(e, GPU);
	assert_int_equal(check_mps_withdrawn(e, GPU, &err), 1);
	mps_env_know(e, mps_env_inventory(2), mps_env_config(e, 0));
	mps_env_settle(e);
	mps_env_skip(e, 2 * NS_PER_SEC);
	agent_fixture_until(e->f, !e->mps.daemons);
	assert_int_equal(check_mps_withdrawn(e, GPU, &err), 0);
}

static void mps_check_withdrawn__counts_a_found_daemon_by_its_key(void **state)
{
	struct mps_env *e = *state;
	struct error err = ERROR_INIT;

	mps_env_up(e, 1);
	mps_env_client(e, GPU, 1);
	mps_env_restart(e);
	/* The agent knows neither the daemon's devices nor its clients yet: the daemon exists, without a client. */
	assert_int_equal(check_mps_withdrawn(e, GPU, &err), 1);
	mps_query_clients(&e->mps);
	agent_fixture_until(e->f, mps_has_answered(&e->mps, 1));
	assert_error(check_mps_withdrawn(e, GPU, &err), &err, "(process 1) on GPU-0");
}

static void mps_check_withdrawn__does_not_wait_for_a_daemon_that_does_not_start(void **state)
{
	struct mps_env *e = *state;
	struct error err = ERROR_INIT;

	mps_env_write(e, "no-start", "a\n");
	mps_env_know(e, mps_env_inventory(1), mps_env_config(e, 4));
	assert_int_equal(check_mps_withdrawn(e, GPU, &err), 1);
	mps_env_until_state(e, GPU, MPS_DOWN);
	assert_int_equal(check_mps_withdrawn(e, GPU, &err), 0);
}

/* --- servers --- */

static void mps_idle_servers__are_those_of_daemons_without_clients(void **state)
{
	struct mps_env *e = *state;
	uint32_t pids[3] = { 0 };
	uint64_t since;

	mps_env_up(e, 1);
	mps_env_write(e, "say-get_server_list", "609\n700\n");
	since = time_mono_ns();
	assert_int_equal(mps_idle_servers(&e->mps, since, pids, 3), 0); /* not asked since */
	assert_false(mps_has_answered(&e->mps, since));
	mps_query_clients(&e->mps);
	agent_fixture_until(e->f, mps_has_answered(&e->mps, since));
	assert_int_equal(mps_idle_servers(&e->mps, since, pids, 3), 2);
	assert_int_equal(pids[0], 609);
	assert_int_equal(pids[1], 700);
	assert_int_equal(mps_idle_servers(&e->mps, since, pids, 1), 1);
	mps_env_client(e, GPU, 1);
	assert_int_equal(mps_idle_servers(&e->mps, since, pids, 3), 0);
	/* A server does not count as idle while only the log reports the end of its client. */
	mps_env_log(e, GPU, "Client process 1 disconnected");
	agent_fixture_until(e->f,
		mps_clients_count(&mps_env_find_daemon(e, GPU)->clients) == 0);
	assert_int_equal(mps_idle_servers(&e->mps, since, pids, 3), 0);
}

/* A daemon that cannot answer delays no caller. */
static void mps_has_answered__does_not_wait_for_daemons_that_are_down(void **state)
{
	struct mps_env *e = *state;
	uint64_t since;

	mps_env_up(e, 2);
	assert_int_equal(kill(mps_process_pid(mps_env_find_daemon(e, "GPU-1")), SIGKILL), 0);
	agent_fixture_until(e->f, !mps_env_find_daemon(e, "GPU-1")->process);
	since = time_mono_ns();
	mps_query_clients(&e->mps);
	agent_fixture_until(e->f, mps_has_answered(&e->mps, since));
	assert_true(mps_env_find_daemon(e, GPU)->check.done_ns >= since);
}

/* --- status --- */

static void mps_status__shows_the_state_of_each_daemon(void **state)
{
	struct mps_env *e = *state;
	const json_t *o;
	json_t *list;

	list = mps_status(&e->mps);
	assert_int_equal(json_array_size(list), 0);
	json_decref(list);
	mps_env_up(e, 1);
	mps_env_client(e, GPU, 1);
	(void)snprintf(mps_env_find_daemon(e, GPU)->clients.v[0].name, MPS_NAME_MAX, "a\xff");
	list = mps_status(&e->mps);
	assert_int_equal(json_array_size(list), 1);
	o = json_array_get(list, 0);
	assert_string_equal(json_string_value(json_object_get(o, "key")), GPU);
	assert_string_equal(json_string_value(json_object_get(o, "state")), "ready");
	assert_true(json_is_true(json_object_get(o, "usable")));
	assert_int_equal(json_integer_value(json_object_get(o, "pid")),
		mps_process_pid(mps_env_find_daemon(e, GPU)));
	assert_int_equal(
		json_integer_value(json_array_get(json_object_get(o, "memoryLimitsMib"), 0)),
		4096);
	o = json_array_get(json_object_get(o, "clients"), 0);
	assert_non_null(json_object_get(o, "name")); /* it is UTF-8 by now */
	json_decref(list);
	assert_int_equal(kill(mps_process_pid(mps_env_find_daemon(e, GPU)), SIGKILL), 0);
	agent_fixture_until(e->f, !mps_env_find_daemon(e, GPU)->process);
	list = mps_status(&e->mps);
	o = json_array_get(list, 0);
	assert_string_equal(json_string_value(json_object_get(o, "state")), "down");
	assert_true(json_is_false(json_object_get(o, "usable")));
	assert_int_equal(json_integer_value(json_object_get(o, "pid")), 0);
	assert_int_equal(json_integer_value(json_object_get(o, "daemonDeaths")), 1);
	assert_int_equal(json_array_size(json_object_get(o, "clients")), 0);
	json_decref(list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		MPS_TEST(mps_allocate__returns_the_environment_of_a_client),
		MPS_TEST(mps_allocate__has_a_priority_where_compute_is_isolated),
		MPS_TEST(mps_allocate__shares_dev_shm_with_older_drivers),
		MPS_TEST(mps_allocate__refuses_a_device_without_its_daemon),
		MPS_TEST(mps_allocate__refuses_a_gpu_that_its_daemon_lacks),
		MPS_TEST(mps_allocate__returns_nothing_for_other_resources),
		MPS_TEST(mps_supervisor_env__replaces_the_variables_of_the_agent),
		MPS_TEST(mps_check_withdrawn__waits_for_daemons_and_names_a_client),
		MPS_TEST(mps_check_withdrawn__counts_a_found_daemon_by_its_key),
		MPS_TEST(mps_check_withdrawn__does_not_wait_for_a_daemon_that_does_not_start),
		MPS_TEST(mps_idle_servers__are_those_of_daemons_without_clients),
		MPS_TEST(mps_has_answered__does_not_wait_for_daemons_that_are_down),
		MPS_TEST(mps_status__shows_the_state_of_each_daemon),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
