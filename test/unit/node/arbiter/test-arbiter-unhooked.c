/* SPDX-License-Identifier: Apache-2.0 */

/* Processes that use the GPU past the libraries: NVML shows them, and they see the directory of a slice. */
#include "serve-env.h"

#include "abi/slice-dir.h"
#include "node/arbiter/clients/pages.h"
#include "node/arbiter/process/proc.h"
#include "lib/base/fd.h"
#include "lib/base/time.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* Starts a process that bypasses the interception libraries, after @prepare in that process; NULL: nothing. */
static pid_t unhooked_process_after(struct env *e, bool (*prepare)(void))
{
	uint32_t ready = atomic_load(&e->shared->ready);
	pid_t pid = child(e);

	if (pid == 0) {
		if (!enter_slice(e) || (prepare && !prepare()))
			atomic_store(&e->shared->failed, 1);
		atomic_fetch_add(&e->shared->ready, 1);
		for (;;)
			(void)pause();
	}
	wait_for(&e->shared->ready, ready + 1);
	atomic_store(&e->shared->pid[0], (uint32_t)pid);
	atomic_store(&e->shared->bytes[0], 300 * MIB);
	return pid;
}

static pid_t unhooked_process(struct env *e)
{
	return unhooked_process_after(e, NULL);
}

static bool is_known(struct env *e)
{
	json_t *j = status(e), *slice = json_array_get(json_object_get(j, "slices"), 0);
	const json_t *gpu = json_array_get(json_object_get(slice, "gpus"), 0);
	bool list = json_is_array(json_object_get(slice, "unhooked_processes"));
	bool figure = json_is_integer(json_object_get(gpu, "unhooked_used"));

	json_decref(j);
	assert_int_equal(list, figure);
	return list;
}

/* The agent has not reported the processes yet. */
static void unhooked__is_unknown_before_the_first_reading(void **state)
{
	struct env *e = *state;
	uint64_t end = time_mono_ns() + 20 * NS_PER_SEC;

	assert_false(is_known(e));
	subscribe(e);
	while (!is_known(e)) {
		assert_true(time_mono_ns() < end);
		wait_ms(2);
	}
	assert_int_equal(gpu_figure(e, "unhooked_used"), 0);
}

static void unhooked__process_is_counted_and_reported(void **state)
{
	struct env *e = *state;
	pid_t pid = unhooked_process(e);
	struct slice_client c;
	const json_t *slice, *p;
	json_t *j;

	if (!atomic_load(&e->shared->failed)) {
		subscribe(e);
		assert_true(eventually(e, "unhooked_used", 300 * MIB));
		j = status(e);
		slice = json_array_get(json_object_get(j, "slices"), 0);
		p = json_array_get(json_object_get(slice, "unhooked_processes"), 0);
		assert_int_equal(json_integer_value(json_object_get(p, "host_pid")), pid);
		json_decref(j);
		assert_int_equal(client_connect(&c, e->slice), 0);
		assert_int_equal(client_hello(&c, SLICE_HELLO_MEMORY), SLICE_OK);
		assert_false(client_allocate(&c, 0, 725 * MIB));
		assert_true(client_allocate(&c, 0, 700 * MIB));
		client_close(&c);
		wait_ms(1200);
		assert_int_equal(gpu_figure(e, "unhooked_used"), 300 * MIB);
		assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
	} else {
		print_message("# skipped: no mount namespaces\n");
	}
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
}

/* The process may mount any directory over the slice's: here one whose path ends like that of another slice. */
static pid_t unhooked_process_of_a_made_up_slice(struct env *e, const char *id)
{
	uint32_t ready = atomic_load(&e->shared->ready);
	pid_t pid = child(e);
	char path[100];

	if (pid == 0) {
		(void)snprintf(path, sizeof(path), "/run/made-up/" SLICES_DIR "/%s", id);
		/* The parent of the process is in the slice, as a container's first process is. */
		if (!enter_slice(e) || (pid = fork()) < 0)
			atomic_store(&e->shared->failed, 1);
		if (pid == 0 &&
			(unshare(CLONE_NEWNS) < 0 || dir_make(path, 0755, NULL) < 0 ||
				mount(path, SLICE_CONTAINER_DIR, NULL, MS_BIND, NULL) < 0))
			atomic_store(&e->shared->failed, 1);
		if (pid == 0) {
			(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
			atomic_store(&e->shared->pid[0], (uint32_t)getpid());
			atomic_fetch_add(&e->shared->ready, 1);
		}
		for (;;)
			(void)pause();
	}
	wait_for(&e->shared->ready, ready + 1);
	atomic_store(&e->shared->bytes[0], 300 * MIB);
	return pid;
}

static void unhooked__process_cannot_name_another_slice(void **state)
{
	static const char victim[] = "fedcba9876543210fedcba9876543210";
	struct env *e = *state;
	struct error err = ERROR_INIT;
	char dir[160], own[160];
	pid_t pid;

	memcpy(own, e->slice, sizeof(own));
	(void)snprintf(dir, sizeof(dir), "%s/slices/%s", e->dir, victim);
	assert_ok(dir_make(dir, 0755, &err), &err);
	memcpy(e->slice, dir, sizeof(dir));
	write_slice(e, "{\"version\": 1, \"id\": \"fedcba9876543210fedcba9876543210\","
		       " \"resource\": \"r\", \"gpus\": [{\"uuid\": \"" UUID
		       "\", \"memory\": 1073741824}]}");
	memcpy(e->slice, own, sizeof(own));
	pid = unhooked_process_of_a_made_up_slice(e, victim);
	if (!atomic_load(&e->shared->failed)) {
		uint64_t end = time_mono_ns() + 20 * NS_PER_SEC;
		uint64_t of_own = 0, of_victim = 0;

		subscribe(e);
		while (!of_own && !of_victim) {
			json_t *j = status(e);
			const json_t *s;
			size_t i;

			assert_true(time_mono_ns() < end);
			json_array_foreach(json_object_get(j, "slices"), i, s)
			{
				const json_t *gpu =
					json_array_get(json_object_get(s, "gpus"), 0);
				uint64_t used = (uint64_t)json_integer_value(
					json_object_get(gpu, "unhooked_used"));

				if (!strcmp(json_string_value(json_object_get(s, "id")),
					    victim))
					of_victim = used;
				else
					of_own = used;
			}
			json_decref(j);
		}
		assert_int_equal(of_victim, 0);
		assert_int_equal(of_own, 300 * MIB);
	} else {
		print_message("# skipped: no mount namespaces\n");
	}
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
}

static void unhooked__process_is_stopped_where_the_slice_demands_it(void **state)
{
	struct env *e = *state;
	pid_t pid = unhooked_process(e), other = child(e);
	uint64_t end = time_mono_ns() + 20 * NS_PER_SEC;
	int status_of_it = 0;

	if (other == 0) {
		for (;;)
			(void)pause();
	}
	/* The arbiter does not stop a process of no slice. */
	atomic_store(&e->shared->pid[1], (uint32_t)other);
	atomic_store(&e->shared->bytes[1], 300 * MIB);
	write_limit(e, GIB, "stop");
	if (!atomic_load(&e->shared->failed)) {
		subscribe(e);
		while (waitpid(pid, &status_of_it, WNOHANG) == 0 && time_mono_ns() < end) {
			(void)gpu_figure(e, "used");
			wait_ms(5);
		}
		assert_true(WIFSIGNALED(status_of_it) && WTERMSIG(status_of_it) == SIGKILL);
		atomic_store(&e->shared->bytes[0], 0);
		assert_true(eventually(e, "unhooked_used", 0));
		assert_int_equal(waitpid(other, NULL, WNOHANG), 0);
	} else {
		print_message("# skipped: no mount namespaces\n");
		(void)kill(pid, SIGKILL);
		(void)waitpid(pid, NULL, 0);
	}
	(void)kill(other, SIGKILL);
	(void)waitpid(other, NULL, 0);
}

static bool open_many(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) < 0 || r.rlim_max < 2 * PROC_FDS_MAX)
		return false;
	r.rlim_cur = r.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &r) < 0)
		return false;
	for (int i = 0; i < PROC_FDS_MAX + 500; i++) {
		if (dup(STDERR_FILENO) < 0)
			return false;
	}
	return true;
}

static bool open_page_by_name(void)
{
	return memfd_create(PAGE_NAME, 0) >= 0;
}

static bool open_page_by_form(void)
{
	int fd = memfd_create(PAGE_NAME, MFD_ALLOW_SEALING);

	return fd >= 0 && fallocate(fd, 0, 0, SLICE_PAGE_BYTES) == 0 &&
	       fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0;
}

/* A limit of the arbiter or a file name does not protect a process from being stopped. */
static void unhooked__process_is_stopped_with_any_open_files(void **state)
{
	static bool (*const prepare[])(
		void) = { open_many, open_page_by_name, open_page_by_form };
	struct env *e = *state;

	write_limit(e, GIB, "stop");
	subscribe(e);
	for (size_t i = 0; i < ARRAY_LEN(prepare); i++) {
		uint64_t end = time_mono_ns() + 20 * NS_PER_SEC;
		pid_t pid = unhooked_process_after(e, prepare[i]);
		int status_of_it = 0;

		if (atomic_load(&e->shared->failed)) {
			print_message("# skipped: no mount namespaces, or few descriptors\n");
			(void)kill(pid, SIGKILL);
		} else {
			while (waitpid(pid, &status_of_it, WNOHANG) == 0 &&
				time_mono_ns() < end) {
				(void)gpu_figure(e, "used");
				wait_ms(5);
			}
			assert_true(
				WIFSIGNALED(status_of_it) && WTERMSIG(status_of_it) == SIGKILL);
		}
		(void)waitpid(pid, NULL, 0);
		atomic_store(&e->shared->failed, 0);
	}
}

/* NVML is asked once, and has the process in slot 0 with @bytes for that time only. */
static void read_once(struct env *e, struct slice_client *c, uint64_t bytes)
{
	json_t *j = NULL;

	assert_int_equal(client_compare(c, 0), 0);
	do {
		json_decref(j);
		j = next_line(e, 20000);
		assert_non_null(j);
	} while (strcmp(op_of(j), "read") != 0);
	atomic_store(&e->shared->bytes[0], bytes);
	answer_reading(e, j);
	atomic_store(&e->shared->bytes[0], 0);
	json_decref(j);
	json_decref(status(e));
}

static void unhooked__process_is_stopped_after_two_readings_in_a_row_only(void **state)
{
	struct env *e = *state;
	pid_t pid = unhooked_process(e);
	struct slice_client c;

	write_limit(e, GIB, "stop");
	if (!atomic_load(&e->shared->failed)) {
		atomic_store(&e->shared->bytes[0], 0);
		assert_int_equal(client_connect(&c, e->slice), 0);
		assert_int_equal(client_hello(&c, SLICE_HELLO_MEMORY), SLICE_OK);
		subscribe(e);
		for (int i = 0; i < 3; i++) {
			read_once(e, &c, 300 * MIB);
			read_once(e, &c, 0);
		}
		wait_ms(50);
		assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
		read_once(e, &c, 300 * MIB);
		assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
		read_once(e, &c, 300 * MIB);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		client_close(&c);
	} else {
		print_message("# skipped: no mount namespaces\n");
		(void)kill(pid, SIGKILL);
		(void)waitpid(pid, NULL, 0);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, serve_env_setup, serve_env_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(unhooked__is_unknown_before_the_first_reading),
		TEST(unhooked__process_is_counted_and_reported),
		TEST(unhooked__process_cannot_name_another_slice),
		TEST(unhooked__process_is_stopped_where_the_slice_demands_it),
		TEST(unhooked__process_is_stopped_with_any_open_files),
		TEST(unhooked__process_is_stopped_after_two_readings_in_a_row_only),
	};

	return cmocka_run_group_tests_name("arbiter-unhooked", tests, NULL, NULL);
}
