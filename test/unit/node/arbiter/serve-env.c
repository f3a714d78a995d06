/* SPDX-License-Identifier: Apache-2.0 */
#include "serve-env.h"

#include "abi/slice-dir.h"
#include "lib/base/fd.h"
#include "lib/base/time.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

void write_slice(const struct env *e, const char *text)
{
	struct error err = ERROR_INIT;
	char path[300];

	assert_ok(path_join(path, sizeof(path), e->slice, SLICE_FILE, &err), &err);
	assert_ok(file_write_atomic(path, text, strlen(text), 0644, &err), &err);
}

void write_limit(const struct env *e, uint64_t limit, const char *unhooked)
{
	char text[512];

	(void)snprintf(text, sizeof(text),
		"{\"version\": 1, \"id\": \"" ID "\", \"resource\": \"nvidia.com/gpu\","
		" \"devices\": [\"" UUID "::0\"], \"gpus\": [{\"uuid\": \"" UUID
		"\", \"memory\": %llu}], \"unhooked\": \"%s\"}",
		(unsigned long long)limit, unhooked);
	write_slice(e, text);
}

int serve_env_setup(void **state)
{
	struct env *e = arbiter_env_new();
	struct error err = ERROR_INIT;

	(void)snprintf(e->slice, sizeof(e->slice), "%s/slices/" ID, e->dir);
	assert_ok(dir_make(e->slice, 0755, &err), &err);
	write_limit(e, GIB, "report");
	start_arbiter(e);
	*state = e;
	return 0;
}

int serve_env_teardown(void **state)
{
	arbiter_env_free(*state);
	return 0;
}

/* --- the agent --- */

const char *op_of(const json_t *j)
{
	const char *op = json_string_value(json_object_get(j, "op"));

	return op ? op : "";
}

void answer_reading(struct env *e, const json_t *read)
{
	json_t *list = json_array(), *top;
	char *text;

	for (size_t i = 0; i < PROCS; i++) {
		if (atomic_load(&e->shared->pid[i]) && atomic_load(&e->shared->bytes[i]))
			(void)json_array_append_new(list,
				json_pack("{s:I, s:I}", "pid",
					(json_int_t)atomic_load(&e->shared->pid[i]), "bytes",
					(json_int_t)atomic_load(&e->shared->bytes[i])));
	}
	top = json_pack("{s:s, s:O, s:[{s:s, s:o}]}", "op", "reading", "seq",
		json_object_get(read, "seq"), "gpus", "uuid", UUID, "processes", list);
	text = json_dumps(top, JSON_COMPACT);
	assert_non_null(text);
	send_control_line(e, text);
	send_control_line(e, "\n");
	free(text);
	json_decref(top);
}

void subscribe(struct env *e)
{
	json_t *j;

	send_control_line(e, "{\"op\": \"readings\"}\n");
	j = next_line(e, 20000);
	assert_string_equal(op_of(j), "subscribed");
	json_decref(j);
}

json_t *status(struct env *e)
{
	send_control_line(e, "{\"op\": \"status\"}\n");
	for (;;) {
		json_t *j = next_line(e, 20000);

		assert_non_null(j);
		if (!strcmp(op_of(j), "status"))
			return j;
		if (!strcmp(op_of(j), "read"))
			answer_reading(e, j);
		json_decref(j);
	}
}

uint64_t gpu_figure(struct env *e, const char *key)
{
	json_t *j = status(e), *slice = json_array_get(json_object_get(j, "slices"), 0);
	const json_t *gpu = json_array_get(json_object_get(slice, "gpus"), 0);
	uint64_t v = (uint64_t)json_integer_value(json_object_get(gpu, key));

	json_decref(j);
	return v;
}

bool eventually(struct env *e, const char *key, uint64_t value)
{
	uint64_t end = time_mono_ns() + 20 * NS_PER_SEC, v;

	while ((v = gpu_figure(e, key)) != value) {
		if (time_mono_ns() > end) {
			print_message("# %s is %llu, not %llu\n", key, (unsigned long long)v,
				(unsigned long long)value);
			return false;
		}
		wait_ms(2);
	}
	return true;
}

/* --- processes --- */

pid_t holder(struct env *e, uint64_t bytes, bool hang_up)
{
	uint32_t ready = atomic_load(&e->shared->ready);
	pid_t pid = child(e);
	struct slice_client c;

	if (pid == 0) {
		if (client_connect(&c, e->slice) < 0 ||
			client_hello(&c, SLICE_HELLO_MEMORY) != SLICE_OK ||
			!client_allocate(&c, 0, bytes))
			_exit(1);
		if (hang_up)
			client_hang_up(&c);
		atomic_fetch_add(&e->shared->ready, 1);
		for (;;)
			(void)pause();
	}
	wait_for(&e->shared->ready, ready + 1);
	return pid;
}

void reap(pid_t pid)
{
	int status = 0;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

bool enter_slice(const struct env *e)
{
	if (unshare(CLONE_NEWNS) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
		return false;
	return mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
	       mount("none", "/run", "tmpfs", 0, NULL) == 0 &&
	       dir_make(SLICE_CONTAINER_DIR, 0755, NULL) == 0 &&
	       mount(e->slice, SLICE_CONTAINER_DIR, NULL, MS_BIND, NULL) == 0;
}
