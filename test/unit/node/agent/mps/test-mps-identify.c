/* SPDX-License-Identifier: Apache-2.0 */

/* The clients of a daemon: one query at a time to a helper, which may not answer, end, or answer invalid text. */
#include "unit/node/agent/mps/mps-env.h"

#include "lib/base/fd.h"

#include <string.h>
#include <unistd.h>

#define GPU "GPU-0"

static const struct mps_client *find_mps_client(const struct mps_env *e, uint32_t pid)
{
	return mps_clients_find(&mps_env_find_daemon(e, GPU)->clients, pid);
}

static bool is_identity_of_client(const struct mps_env *e, uint32_t pid, enum mps_identity who)
{
	return find_mps_client(e, pid) && find_mps_client(e, pid)->identity == who;
}

static void identify__asks_one_helper_about_one_client_after_the_other(void **state)
{
	struct mps_env *e = *state;

	mps_env_up(e, 1);
	mps_env_write(e, "who-7", "7 uid-7 GPU-0::1,GPU-0::2\n");
	mps_env_log(e, GPU, "Client {PID: 6, Context ID: 0} connected");
	mps_env_log(e, GPU, "Client {PID: 7, Context ID: 0} connected");
	mps_env_log(e, GPU, "Client {PID: 8, Context ID: 0} connected");
	agent_fixture_until(e->f, is_identity_of_client(e, 8, MPS_IDENTITY_KNOWN) &&
					  is_identity_of_client(e, 7, MPS_IDENTITY_KNOWN));
	assert_string_equal(find_mps_client(e, 6)->devices, "");
	assert_string_equal(find_mps_client(e, 7)->devices, "GPU-0::1,GPU-0::2");
	assert_string_equal(find_mps_client(e, 7)->pod_uid, "uid-7");
	assert_int_equal(mps_env_lines(e, "helped", "clients"), 1);
	assert_int_equal(mps_env_lines(e, "who-asked", ""), 3);
	/* No client is requested twice. */
	mps_env_log(e, GPU, "Client {PID: 7, Context ID: 1} connected");
	mps_env_client(e, GPU, 9);
	agent_fixture_until(e->f, is_identity_of_client(e, 9, MPS_IDENTITY_KNOWN));
	assert_int_equal(mps_env_lines(e, "who-asked", ""), 4);
}

static void identify__asks_again_about_a_reused_pid(void **state)
{
	struct mps_env *e = *state;

	mps_env_up(e, 1);
	mps_env_write(e, "who-7", "7 uid-7 GPU-0::1\n");
	mps_env_client(e, GPU, 7);
	agent_fixture_until(e->f, is_identity_of_client(e, 7, MPS_IDENTITY_KNOWN));
	mps_env_no_client(e, GPU);
	mps_env_write(e, "who-7", "7 uid-8 GPU-0::2\n");
	mps_env_client(e, GPU, 7);
	agent_fixture_until(e->f, is_identity_of_client(e, 7, MPS_IDENTITY_KNOWN) &&
					  find_mps_client(e, 7)->connected);
	assert_string_equal(find_mps_client(e, 7)->pod_uid, "uid-8");
}

static void identify__fails_where_the_helper_ends(void **state)
{
	struct mps_env *e = *state;

	mps_env_up(e, 1);
	mps_env_write(e, "who-ends", "no /proc here\n");
	mps_env_client(e, GPU, 6);
	agent_fixture_until(e->f, is_identity_of_client(e, 6, MPS_IDENTITY_UNKNOWN));
	/* The next one is asked of another helper. */
	mps_env_write(e, "who-ends", NULL);
	mps_env_client(e, GPU, 7);
	agent_fixture_until(e->f, is_identity_of_client(e, 7, MPS_IDENTITY_KNOWN));
	assert_true(is_identity_of_client(e, 6, MPS_IDENTITY_UNKNOWN));
	assert_int_equal(mps_env_lines(e, "helped", "clients"), 2);
	assert_true(mps_env_ok(e, "GPU-0::0", NULL));
}

static void identify__rejects_an_invalid_answer(void **state)
{
	static const char *const answers[] = { "7\n", "x - -\n", "7 a b c\n", "7  b\n" };
	struct mps_env *e = *state;
	char name[32], long_id[2 * MPS_DEVICES_MAX];

	memset(long_id, 'x', sizeof(long_id) - 1);
	memcpy(long_id, "7 - ", 4);
	long_id[sizeof(long_id) - 2] = '\n';
	long_id[sizeof(long_id) - 1] = '\0';
	mps_env_up(e, 1);
	for (uint32_t i = 0; i <= ARRAY_LEN(answers); i++) {
		(void)snprintf(name, sizeof(name), "who-%u", 100 + i);
		mps_env_write(e, name, i < ARRAY_LEN(answers) ? answers[i] : long_id);
		mps_env_client(e, GPU, 100 + i);
		agent_fixture_until(e->f,
			is_identity_of_client(e, 100 + i, MPS_IDENTITY_UNKNOWN));
		assert_string_equal(find_mps_client(e, 100 + i)->devices, "");
	}
}

static void identify__fails_without_a_helper(void **state)
{
	struct mps_env *e = *state;
	char path[PATH_MAX];

	mps_env_up(e, 1);
	(void)snprintf(path, sizeof(path), "%s/gpuslice-mps", e->f->dir);
	/* The agent finds the helper, but cannot execute it. */
	test_write(e->f->dir, "gpuslice-mps",
		"\x7f"
		"ELF",
		4, 0755);
	mps_env_log(e, GPU, "Client {PID: 6, Context ID: 0} connected");
	mps_env_log(e, GPU, "Client {PID: 7, Context ID: 0} connected");
	agent_fixture_until(e->f, is_identity_of_client(e, 6, MPS_IDENTITY_UNKNOWN) &&
					  is_identity_of_client(e, 7, MPS_IDENTITY_UNKNOWN));
	assert_null(mps_env_find_daemon(e, GPU)->identify.child);
	assert_int_equal(unlink(path), 0);
}

/* After many that did not answer, others wait: each such question leaves a process behind. */
static void identify__waits_after_many_missing_answers(void **state)
{
	struct mps_env *e = *state;
	struct mps_supervisor *sup;

	mps_env_up(e, 1);
	sup = mps_env_find_daemon(e, GPU);
	for (int i = 0; i < MPS_UNANSWERED_MAX; i++)
		mps_unanswered_count(&sup->identify.unanswered, time_mono_ns());
	mps_env_client(e, GPU, 7);
	agent_fixture_run_once(e->f);
	assert_true(is_identity_of_client(e, 7, MPS_IDENTITY_NEEDED));
	assert_int_equal(mps_env_lines(e, "who-asked", ""), 0);
	/* Each check of the daemon tries again. */
	mps_env_skip(e, MPS_UNANSWERED_RETRY_NS);
	agent_fixture_until(e->f, is_identity_of_client(e, 7, MPS_IDENTITY_KNOWN));
}

/* The one wait that is real: for ANSWER_NS of identify.c. */
static void identify__times_out_without_an_answer(void **state)
{
	struct mps_env *e = *state;
	struct mps_supervisor *sup;

	mps_env_up(e, 1);
	sup = mps_env_find_daemon(e, GPU);
	mps_env_write(e, "who-hangs", "");
	mps_env_client(e, GPU, 6);
	agent_fixture_until(e->f, mps_env_lines(e, "who-asked", "6") == 1);
	mps_env_write(e, "who-hangs", NULL);
	mps_env_client(e, GPU, 7);
	assert_true(is_identity_of_client(e, 7, MPS_IDENTITY_NEEDED)); /* one at a time */
	agent_fixture_until(e->f, is_identity_of_client(e, 7, MPS_IDENTITY_KNOWN));
	assert_true(is_identity_of_client(e, 6, MPS_IDENTITY_UNKNOWN));
	assert_true(sup->identify.unanswered.until_ns > time_mono_ns());
}

static void identify__ignores_an_answer_about_an_ended_process(void **state)
{
	struct mps_env *e = *state;
	struct mps_supervisor *sup;

	mps_env_up(e, 1);
	sup = mps_env_find_daemon(e, GPU);
	mps_env_write(e, "who-6", "6 uid-6 GPU-0::1\n");
	mps_env_log(e, GPU, "Client {PID: 6, Context ID: 0} connected");
	agent_fixture_until(e->f, sup->identify.pid == 6);
	mps_clients_fini(&sup->clients); /* as if it had been dropped */
	mps_env_write(e, "who-7", "7 uid-7 GPU-0::1\n");
	mps_env_log(e, GPU, "Client {PID: 7, Context ID: 0} connected");
	agent_fixture_until(e->f, is_identity_of_client(e, 7, MPS_IDENTITY_KNOWN));
	assert_null(find_mps_client(e, 6));
	assert_string_equal(find_mps_client(e, 7)->pod_uid, "uid-7");
}

/* --- the list --- */

static void clients__are_limited_and_affected_ones_stay(void **state)
{
	struct mps_clients c = { .n = 0 };

	(void)state;
	for (uint32_t i = 1; i <= MPS_CLIENTS_MAX; i++)
		assert_non_null(mps_clients_add(&c, i));
	assert_null(mps_clients_add(&c, 5000));
	mps_clients_find(&c, 3)->faulted = true;
	mps_clients_remove(&c, 3); /* it is not reported yet */
	assert_null(mps_clients_add(&c, 5000));
	mps_clients_remove(&c, 4); /* it is remembered, as long as there is room */
	assert_non_null(mps_clients_add(&c, 5000));
	assert_null(mps_clients_find(&c, 4));
	assert_non_null(mps_clients_find(&c, 3));
	assert_int_equal(mps_clients_count(&c), MPS_CLIENTS_MAX - 1);
	assert_int_equal(c.n, MPS_CLIENTS_MAX);
	mps_clients_fini(&c);
}

static void clients__that_ended_are_dropped_after_a_while(void **state)
{
	struct mps_env *e = *state;
	struct mps_clients c = { .n = 0 };

	for (uint32_t pid = 1; pid <= 3; pid++)
		assert_non_null(mps_clients_add(&c, pid));
	mps_clients_remove(&c, 1);
	mps_env_skip(e, NS_PER_SEC);
	mps_clients_remove(&c, 2);
	assert_int_equal(mps_clients_last_disconnected(&c, 0)->pid, 2);
	mps_clients_remove(&c, 1); /* again: it went when it went */
	assert_int_equal(mps_clients_last_disconnected(&c, 0)->pid, 2);
	mps_env_skip(e, MPS_DISCONNECTED_RETAIN_NS - NS_PER_SEC / 2);
	mps_clients_remove(&c, 4);
	assert_null(mps_clients_find(&c, 1));
	assert_non_null(mps_clients_find(&c, 2));
	mps_clients_find(&c, 2)->faulted = true; /* a fault's: no culprit, and kept */
	assert_null(mps_clients_last_disconnected(&c, 0));
	mps_env_skip(e, MPS_DISCONNECTED_RETAIN_NS);
	mps_clients_set(&c, (const uint32_t[]){ 3 }, 1);
	assert_non_null(mps_clients_find(&c, 2));
	assert_int_equal(mps_clients_count(&c), 1);
	mps_clients_fini(&c);
}

static void clients__that_connect_again_are_identified_again(void **state)
{
	struct mps_clients c = { .n = 0 };

	(void)state;
	mps_clients_add(&c, 1)->identity = MPS_IDENTITY_KNOWN;
	(void)snprintf(mps_clients_find(&c, 1)->devices, MPS_DEVICES_MAX, "GPU-0::1");
	mps_clients_find(&c, 1)->faulted = true;
	assert_string_equal(mps_clients_add(&c, 1)->devices, "GPU-0::1"); /* it is there */
	assert_null(mps_clients_next_unidentified(&c));
	mps_clients_remove(&c, 1);
	assert_null(mps_clients_next_unidentified(&c));
	assert_non_null(mps_clients_add(&c, 1));
	assert_int_equal(mps_clients_next_unidentified(&c)->pid, 1);
	assert_string_equal(mps_clients_find(&c, 1)->devices, "");
	assert_int_equal(mps_clients_count_faulted(&c), 0);
	mps_clients_fini(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		MPS_TEST(identify__asks_one_helper_about_one_client_after_the_other),
		MPS_TEST(identify__asks_again_about_a_reused_pid),
		MPS_TEST(identify__fails_where_the_helper_ends),
		MPS_TEST(identify__rejects_an_invalid_answer),
		MPS_TEST(identify__fails_without_a_helper),
		MPS_TEST(identify__waits_after_many_missing_answers),
		MPS_TEST(identify__times_out_without_an_answer),
		MPS_TEST(identify__ignores_an_answer_about_an_ended_process),
		cmocka_unit_test(clients__are_limited_and_affected_ones_stay),
		MPS_TEST(clients__that_ended_are_dropped_after_a_while),
		cmocka_unit_test(clients__that_connect_again_are_identified_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
