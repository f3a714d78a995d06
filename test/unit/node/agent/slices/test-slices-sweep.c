/* SPDX-License-Identifier: Apache-2.0 */

/* Which slices the sweep removes: its requests, what counts as unknown, and what stays when a request fails. */
#include "unit/node/agent/slices/mounted-slice.h"
#include "unit/node/agent/slices/slices-env.h"

#include "abi/slice-dir.h"
#include "node/agent/slices/install.h"
#include "lib/base/fd.h"
#include "lib/base/time.h"

#include <sys/stat.h>
#include <unistd.h>

#define CHECKPOINT "kubelet_internal_checkpoint"
#define FREE       ",\"processes\":[],\"unhooked_processes\":[],\"gpus\":[{\"used\":0}]"

static const struct isolation none = { .present = true };

/* The arbiter's answer about the slices at .s.store, with @more of each. The text is valid until the next call. */
static void set_arbiter_answer(struct slices_env *e, const char *more)
{
	static char text[2048];
	size_t at = (size_t)snprintf(text, sizeof(text), "{\"op\":\"status\",\"slices\":[");

	for (size_t i = 0; i < e->s.store.n; i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%s{\"id\":\"%s\"%s}",
			i ? "," : "", e->s.store.v[i]->file.id, more);
	(void)snprintf(text + at, sizeof(text) - at, "]}\n");
	e->arbiter.answer = text;
}

static void copy_id(char ret[SLICE_ID_DIGITS + 1], const struct stored_slice *slice)
{
	memcpy(ret, slice->file.id, SLICE_ID_DIGITS + 1);
}

/* Lets so much time pass without a pod that the next sweep removes every slice known to be free. */
static void age(struct slices_env *e)
{
	env_sweep(e);
	env_now_ns += 2 * ENV_KEEP_NS;
}

/* --- state of a slice --- */

enum checkpoint { NO_CHECKPOINT, NAMES_NONE, NAMES_IT, MALFORMED };
enum holders { HELD_BY_NONE, HELD, HOLDERS_FAIL };

struct known {
	enum checkpoint checkpoint;
	enum holders holders;
	const char *arbiter; /* answer about the slice; NULL: it does not know it */
	unsigned keeps;      /* the slice goes after so many ENV_KEEP_NS; 0: never */
};

static void set_known(struct slices_env *e, const struct known *k,
	const struct stored_slice *slice)
{
	if (k->checkpoint == NAMES_NONE || k->checkpoint == NAMES_IT)
		env_checkpoint(e, &slice, k->checkpoint == NAMES_IT);
	else if (k->checkpoint == MALFORMED)
		test_write(e->plugins, CHECKPOINT, "{\"Data\":", 8, 0600);
	e->holders_known = k->holders != HOLDERS_FAIL;
	if (k->holders == HELD)
		env_allocate_device(e, "p", "GPU-0::0");
	if (k->arbiter)
		set_arbiter_answer(e, k->arbiter);
}

/* After how many ENV_KEEP_NS it goes, of 3; 0: it does not. */
static unsigned count_retains_until_removed(struct slices_env *e, const char *id)
{
	env_sweep(e);
	for (unsigned i = 1; i <= 3; i++) {
		env_now_ns += ENV_KEEP_NS - 1;
		env_sweep(e);
		assert_true(env_there(e, id));
		env_now_ns++;
		env_sweep(e);
		if (!env_there(e, id))
			return i;
	}
	return 0;
}

static void sweep__treats_unknown_as_in_use(void **state)
{
	static const struct known rows[] = {
		{ NAMES_NONE, HELD_BY_NONE, FREE, 1 },
		{ NAMES_NONE, HELD_BY_NONE, "", 1 },
		{ NO_CHECKPOINT, HELD_BY_NONE, FREE, 1 },
		{ MALFORMED, HELD_BY_NONE, FREE, 1 },
		{ NAMES_NONE, HELD_BY_NONE, NULL, 2 },
		{ NAMES_IT, HELD_BY_NONE, FREE, 0 },
		{ NAMES_NONE, HELD, FREE, 0 },
		{ NAMES_NONE, HOLDERS_FAIL, FREE, 0 },
		{ NAMES_NONE, HELD_BY_NONE, ",\"processes\":[{\"pid\":7}]", 0 },
		{ NAMES_NONE, HELD_BY_NONE, ",\"unhooked_processes\":[{\"host_pid\":7}]", 0 },
		{ NAMES_NONE, HELD_BY_NONE, ",\"gpus\":[{\"used\":0},{\"used\":1}]", 0 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct slices_env *e;
		struct stored_slice *slice;
		char id[SLICE_ID_DIGITS + 1];
		unsigned keeps;

		(void)slices_env_setup(state);
		e = *state;
		env_start_isolated(e);
		slice = env_allocate(e, "GPU-0::0");
		copy_id(id, slice);
		set_known(e, &rows[i], slice);
		keeps = count_retains_until_removed(e, id);
		if (keeps != rows[i].keeps)
			fail_msg("row %zu: %u", i, keeps);
		(void)slices_env_teardown(state);
	}
}

/* An old list with an error is not the present state. */
static void sweep__does_not_trust_a_list_with_an_error(void **state)
{
	struct slices_env *e = *state;

	env_start_isolated(e);
	(void)env_allocate(e, "GPU-0::0");
	set_arbiter_answer(e, FREE);
	e->pod_devices_stale = true;
	age(e);
	env_sweep(e);
	assert_int_equal(env_count(e), 1);
	e->pod_devices_stale = false;
	age(e);
	env_sweep(e);
	assert_int_equal(env_count(e), 0);
}

static void sweep__waits_without_a_kubelet(void **state)
{
	struct slices_env *e = *state;

	env_start_isolated(e);
	(void)env_allocate(e, "GPU-0::0");
	set_arbiter_answer(e, FREE);
	age(e);
	e->pod_devices_available = false;
	env_sweep(e);
	assert_int_equal(env_count(e), 1);
	e->pod_devices_available = true;
	env_sweep(e);
	assert_int_equal(env_count(e), 0);
}

static void sweep__treats_a_lost_arbiter_as_unknown(void **state)
{
	struct slices_env *e = *state;

	env_start_isolated(e);
	(void)env_allocate(e, "GPU-0::0");
	set_arbiter_answer(e, FREE);
	env_sweep(e);
	fake_arbiter_stop(&e->arbiter);
	agent_fixture_run_once(e->f);
	env_now_ns += 2 * ENV_KEEP_NS - 1;
	env_sweep(e);
	assert_int_equal(env_count(e), 1);
	assert_int_not_equal(e->s.arbiter_error.code, ERR_NONE);
	env_now_ns++;
	env_sweep(e);
	assert_int_equal(env_count(e), 0);
}

/* --- one after the other on one device --- */

static const struct stored_slice *find_stored_slice(const struct slice_store *s, const char *id)
{
	for (size_t i = 0; i < s->n; i++)
		if (!strcmp(s->v[i]->file.id, id))
			return s->v[i];
	fail_msg("there is no slice %s", id);
	return NULL;
}

/* Two within SLICE_SIBLING_S; the kubelet's checkpoint decides whether both belong to one pod. */
static void sweep__removes_what_the_kubelet_has_replaced(void **state)
{
	static const struct {
		bool names_old, names_new, old_goes;
	} rows[] = {
		{ false, true, true },
		{ true, true, false },
		{ true, false, false },
		{ false, false, false },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct stored_slice *named[2];
		struct slices_env *e;
		char old[SLICE_ID_DIGITS + 1], new[SLICE_ID_DIGITS + 1];
		size_t n = 0;

		(void)slices_env_setup(state);
		e = *state;
		env_start_isolated(e);
		copy_id(old, env_allocate(e, "GPU-0::0"));
		copy_id(new, env_allocate(e, "GPU-0::0"));
		set_arbiter_answer(e, FREE);
		env_allocate_device(e, "p", "GPU-0::0");
		if (rows[i].names_old)
			named[n++] = find_stored_slice(&e->s.store, old);
		if (rows[i].names_new)
			named[n++] = find_stored_slice(&e->s.store, new);
		env_checkpoint(e, named, n);
		env_sweep(e);
		if (env_there(e, old) == rows[i].old_goes || !env_there(e, new))
			fail_msg("row %zu", i);
		(void)slices_env_teardown(state);
	}
}

/* The newer one has another device: both stay. */
static void sweep__does_not_treat_another_device_as_a_replacement(void **state)
{
	struct slices_env *e = *state;
	const struct stored_slice *newer;

	env_start_isolated(e);
	(void)env_allocate(e, "GPU-0::0");
	newer = env_allocate(e, "GPU-0::1");
	set_arbiter_answer(e, FREE);
	env_checkpoint(e, &newer, 1);
	env_sweep(e);
	assert_int_equal(env_count(e), 2);
}

/* The slice's device went to a container without a slice. The sweep removes the slice when no process is
 * left, whichever pod has the device. */
static void sweep__removes_a_superseded_slice_when_its_processes_end(void **state)
{
	struct slices_env *e = *state;
	const char *id = "GPU-0::0";

	env_start_isolated(e);
	(void)env_allocate(e, id);
	env_checkpoint(e, NULL, 0);
	slice_store_pass(&e->s.store, ENV_RESOURCE, &id, 1, env_now_ns);
	env_allocate_device(e, "p", id);
	set_arbiter_answer(e, ",\"processes\":[{\"pid\":7}]");
	env_sweep(e);
	assert_int_equal(env_count(e), 1);
	set_arbiter_answer(e, FREE);
	env_sweep(e);
	assert_int_equal(env_count(e), 0);
}

/* --- mounted all the same --- */

static void sweep__keeps_what_a_container_has_mounted(void **state)
{
	struct slices_env *e = *state;
	char path[PATH_MAX];
	struct error err = ERROR_INIT;
	pid_t pid;

	env_start_isolated(e);
	assert_ok(slice_store_path(&e->s.store, env_allocate(e, "GPU-0::0"), path, &err), &err);
	(void)env_allocate(e, "GPU-0::1");
	set_arbiter_answer(e, FREE);
	age(e);
	pid = mounted_slice_begin(path, e->plugins);
	SKIP_UNLESS(pid, "no mount namespaces");
	env_sweep(e);
	assert_int_equal(access(path, F_OK), 0);
	assert_int_equal(env_count(e), 1); /* the other one was removed */
	mounted_slice_end(pid);
	env_sweep(e);
	assert_int_equal(env_count(e), 0);
}

/* Between the search and the removal the sweep sends all requests again. */
static void sweep__requests_the_list_again_after_the_search(void **state)
{
	struct slices_env *e = *state;
	unsigned asks;

	env_start_isolated(e);
	(void)env_allocate(e, "GPU-0::0");
	set_arbiter_answer(e, FREE);
	age(e);
	asks = e->n_requests;
	e->allocate_at_request = asks + 2; /* the pod is there then */
	env_sweep(e);
	assert_int_equal(e->n_requests, asks + 2);
	assert_int_equal(env_count(e), 1);
}

static void slices_stop__ends_a_sweep_without_a_removal(void **state)
{
	struct slices_env *e = *state;

	env_start_isolated(e);
	(void)env_allocate(e, "GPU-0::0");
	set_arbiter_answer(e, FREE);
	age(e);
	e->stop_at_request = e->n_requests + 2; /* when the slice would be removed */
	env_sweep(e);
	assert_int_equal(env_count(e), 1);
	assert_false(e->s.checking);
}

/* --- files that end with slices --- */

static void sweep__ends_the_arbiter_with_the_last_slice(void **state)
{
	struct slices_env *e = *state;

	env_start_isolated(e);
	(void)env_allocate(e, "GPU-0::0");
	set_arbiter_answer(e, FREE);
	env_know(e, fixture_config());
	slices_sync(&e->s);
	age(e);
	assert_int_equal(fake_arbiter_ends(), 0);
	env_sweep(e);
	assert_int_equal(fake_arbiter_ends(), 1);
	assert_int_equal(env_count(e), 0);
	assert_false(uv_is_active((uv_handle_t *)&e->s.timer));
}

static void sweep__retries_what_cannot_be_removed(void **state)
{
	struct slices_env *e = *state;
	char id[SLICE_ID_DIGITS + 1], name[64], path[PATH_MAX];
	struct error err = ERROR_INIT;

	env_start_isolated(e);
	copy_id(id, env_allocate(e, "GPU-0::0"));
	set_arbiter_answer(e, FREE);
	age(e);
	/* A file exists where it would be moved. */
	(void)snprintf(name, sizeof(name), SLICES_DIR "/.new-%s/file", id);
	test_write(e->state, name, "", 0, 0600);
	env_sweep(e);
	assert_int_equal(e->s.store.n, 1);
	assert_true(env_there(e, id));
	assert_ok(path_join(path, sizeof(path), e->state, name, &err), &err);
	assert_int_equal(unlink(path), 0);
	env_sweep(e);
	assert_int_equal(e->s.store.n, 0);
	assert_false(env_there(e, id));
}

static void sweep__keeps_libraries_as_long_as_a_slice_has_them(void **state)
{
	struct slices_env *e = *state;
	char old[SLICE_LIB_NAME_MAX];

	env_start_isolated(e);
	(void)env_allocate(e, "GPU-0::0");
	memcpy(old, e->s.lib, sizeof(old));
	env_stop(e);
	test_write(e->runtime, SLICE_LIB_CUDA, "\177ELF newer", 10, 0755);
	env_start(e);
	assert_string_not_equal(e->s.lib, old);
	assert_true(slice_libs_there(e->state, old));
	agent_fixture_until(e->f, fake_arbiter_count_received(&e->arbiter, "readings") == 2);
	(void)env_allocate(e, "GPU-0::1");
	set_arbiter_answer(e, FREE);
	env_allocate_device(e, "p", "GPU-0::1");
	age(e);
	env_sweep(e);
	assert_int_equal(e->s.store.n, 1);
	assert_false(slice_libs_there(e->state, old));
	assert_true(slice_libs_there(e->state, e->s.lib));
}

/* A slice that cannot be read may have any libraries mounted. */
static void sweep__keeps_all_libraries_beside_a_broken_slice(void **state)
{
	static const char bad[] = SLICES_DIR "/0123456789abcdef0123456789abcdef/" SLICE_FILE;
	struct slices_env *e = *state;

	test_write(e->state, "lib/0.0-old/" SLICE_LIB_CUDA, "", 0, 0755);
	test_write(e->state, "lib/0.0-old/" SLICE_LIB_NVML, "", 0, 0755);
	test_write(e->state, "lib/0.0-old/" SLICE_LIBS_PRELOAD, "", 0, 0755);
	test_write(e->state, bad, "{", 1, 0644);
	env_start_isolated(e);
	assert_int_equal(e->s.store.broken.n, 1);
	assert_int_equal(e->s.store.n, 0);
	(void)env_allocate(e, "GPU-0::0");
	set_arbiter_answer(e, FREE);
	age(e);
	env_sweep(e);
	assert_int_equal(e->s.store.n, 0);
	assert_true(slice_libs_there(e->state, "0.0-old"));
	assert_int_equal(env_count(e), 1); /* left alone */
}

/* A slice's clock belongs to the agent: a slice that was free under an earlier agent has all its time again. */
static void sweep__waits_the_full_time_for_a_found_slice(void **state)
{
	struct slices_env *e = *state;

	env_start_isolated(e);
	(void)env_allocate(e, "GPU-0::0");
	set_arbiter_answer(e, FREE);
	age(e);
	env_stop(e);
	env_know(e, env_config(4, &none));
	env_start(e);
	agent_fixture_until(e->f, fake_arbiter_count_received(&e->arbiter, "readings") == 2);
	env_sweep(e);
	assert_int_equal(env_count(e), 1);
	env_now_ns += ENV_KEEP_NS;
	env_sweep(e);
	assert_int_equal(env_count(e), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sweep__treats_unknown_as_in_use),
		SLICES_TEST(sweep__does_not_trust_a_list_with_an_error),
		SLICES_TEST(sweep__waits_without_a_kubelet),
		SLICES_TEST(sweep__treats_a_lost_arbiter_as_unknown),
		cmocka_unit_test(sweep__removes_what_the_kubelet_has_replaced),
		SLICES_TEST(sweep__does_not_treat_another_device_as_a_replacement),
		SLICES_TEST(sweep__removes_a_superseded_slice_when_its_processes_end),
		SLICES_TEST(sweep__keeps_what_a_container_has_mounted),
		SLICES_TEST(sweep__requests_the_list_again_after_the_search),
		SLICES_TEST(slices_stop__ends_a_sweep_without_a_removal),
		SLICES_TEST(sweep__ends_the_arbiter_with_the_last_slice),
		SLICES_TEST(sweep__retries_what_cannot_be_removed),
		SLICES_TEST(sweep__keeps_libraries_as_long_as_a_slice_has_them),
		SLICES_TEST(sweep__keeps_all_libraries_beside_a_broken_slice),
		SLICES_TEST(sweep__waits_the_full_time_for_a_found_slice),
	};

	return cmocka_run_group_tests_name("slices-sweep", tests, NULL, NULL);
}
