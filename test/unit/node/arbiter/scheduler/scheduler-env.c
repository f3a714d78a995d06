/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-env.h"

#include "abi/slice-dir.h"
#include "lib/base/fd.h"
#include "lib/base/time.h"

#include <poll.h>
#include <sys/socket.h>

/* --- slices --- */

const char *slice_dir(struct env *e, unsigned int slice)
{
	(void)snprintf(e->slice, sizeof(e->slice), "%s/slices/" ID_HEAD "%u", e->dir, slice);
	return e->slice;
}

/* @more: keys after "gpus". */
void write_slice(struct env *e, unsigned int slice, const char *gpus, const char *more)
{
	struct error err = ERROR_INIT;
	char path[300], text[4096];

	(void)snprintf(text, sizeof(text),
		"{\"version\": 1, \"id\": \"" ID_HEAD "%u\", \"resource\": \"nvidia.com/gpu\","
		" \"gpus\": %s%s}",
		slice, gpus, more);
	assert_ok(dir_make(slice_dir(e, slice), 0755, &err), &err);
	assert_ok(path_join(path, sizeof(path), e->slice, SLICE_FILE, &err), &err);
	assert_ok(file_write_atomic(path, text, strlen(text), 0644, &err), &err);
}

void write_share(struct env *e, unsigned int slice, unsigned int weight, unsigned int cap,
	const char *class)
{
	char gpus[256], more[128], limit[32] = "";

	if (cap)
		(void)snprintf(limit, sizeof(limit), ", \"cap\": %u", cap);
	(void)snprintf(gpus, sizeof(gpus),
		"[{\"uuid\": \"" UUID "\", \"memory\": 1073741824, \"weight\": %u%s}]", weight,
		limit);
	(void)snprintf(more, sizeof(more), ", \"compute\": \"turns\", \"class\": \"%s\"",
		class);
	write_slice(e, slice, gpus, more);
}

/* --- the arbiter --- */

int scheduler_env_setup(void **state)
{
	struct env *e = arbiter_env_new();

	write_share(e, 0, 1, 0, "batch");
	write_share(e, 1, 1, 0, "batch");
	start_arbiter(e);
	*state = e;
	return 0;
}

int scheduler_env_teardown(void **state)
{
	arbiter_env_free(*state);
	return 0;
}

/* --- status --- */

json_t *status(struct env *e)
{
	json_t *j;

	send_control_line(e, "{\"op\": \"status\"}\n");
	j = next_line(e, WAIT_MS);
	assert_non_null(j);
	return j;
}

/* Borrowed from @top. NULL: no such slice. */
json_t *slice_of(const json_t *top, unsigned int slice)
{
	json_t *one;
	size_t i;
	char id[40];

	(void)snprintf(id, sizeof(id), ID_HEAD "%u", slice);
	json_array_foreach(json_object_get(top, "slices"), i, one)
	{
		if (!strcmp(json_string_value(json_object_get(one, "id")), id))
			return one;
	}
	return NULL;
}

uint64_t figure_in(const json_t *top, unsigned int slice, const char *key)
{
	const json_t *gpu = json_array_get(json_object_get(slice_of(top, slice), "gpus"), 0);
	const json_t *v = json_object_get(gpu, key);

	return json_is_boolean(v) ? json_is_true(v) : (uint64_t)json_integer_value(v);
}

/* The figure @key of the slice's first GPU. */
uint64_t figure(struct env *e, unsigned int slice, const char *key)
{
	json_t *j = status(e);
	uint64_t v = figure_in(j, slice, key);

	json_decref(j);
	return v;
}

bool eventually(struct env *e, unsigned int slice, const char *key, uint64_t value)
{
	uint64_t end = time_mono_ns() + 20 * NS_PER_SEC, v;

	while ((v = figure(e, slice, key)) != value) {
		if (time_mono_ns() > end) {
			print_message("# %s is %llu, not %llu\n", key, (unsigned long long)v,
				(unsigned long long)value);
			return false;
		}
		wait_ms(2);
	}
	return true;
}

/* --- clients --- */

void join(struct env *e, struct slice_client *c, unsigned int slice)
{
	assert_int_equal(client_connect(c, slice_dir(e, slice)), 0);
	assert_int_equal(client_hello(c, SLICE_HELLO_TURNS), SLICE_OK);
	assert_non_null(c->turns);
}

bool opens(const struct slice_client *c)
{
	return client_wait_gate(c, 0, true, WAIT_MS);
}

bool closes(const struct slice_client *c)
{
	return client_wait_gate(c, 0, false, WAIT_MS);
}

/* Reports until the arbiter has read it: a change of the gate may cross the report. */
void report_until(struct slice_client *c, bool busy, bool wants,
	bool (*is_done)(const struct slice_client *c))
{
	for (int i = 0; i < 2000; i++) {
		assert_int_equal(client_report_state(c, 0, busy, wants), 0);
		for (int k = 0; k < 10; k++) {
			if (is_done(c))
				return;
			wait_ms(1);
		}
	}
	fail_msg("not heard");
}

bool is_open(const struct slice_client *c)
{
	return client_gate(c, 0) != TURN_CLOSED;
}

bool is_closed(const struct slice_client *c)
{
	return client_gate(c, 0) == TURN_CLOSED;
}

/* The connection has ended: the client can report nothing more. */
bool hung_up(const struct slice_client *c)
{
	struct pollfd p = { .fd = c->fd, .events = POLLIN };
	char byte;

	return poll(&p, 1, WAIT_MS) == 1 && recv(c->fd, &byte, 1, MSG_DONTWAIT) <= 0;
}
