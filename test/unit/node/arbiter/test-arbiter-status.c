/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/node/arbiter/scheduler/scheduler-env.h"

#include "lib/base/log.h"
#include "node/arbiter/arbiter.h"
#include "node/arbiter/control/status.h"

/* An arbiter in this process, so that jansson's memory can fail in it. */

static long countdown = -1; /* allocations until one fails; < 0: none, or it failed */

static void *failing_malloc(size_t n)
{
	return countdown >= 0 && countdown-- == 0 ? NULL : malloc(n);
}

/* Makes texts comparable that were made at different times. */
static void blank_digits(char *text)
{
	char *to = text;

	for (const char *at = text; *at; at++)
		if (*at < '0' || *at > '9')
			*to++ = *at;
	*to = '\0';
}

static void status__is_complete_or_absent_when_memory_fails(void **state)
{
	struct env *e = arbiter_env_new();
	struct arbiter_options o = { .procfs = "/proc" };
	struct error err = ERROR_INIT;
	struct arbiter *a = NULL;
	bool failed = true;
	char *whole, *text;
	uv_loop_t loop;
	long n = 0;

	(void)state;
	write_share(e, 0, 1, 0, "batch");
	write_share(e, 1, 2, 50, "latency");
	(void)snprintf(o.state_dir, sizeof(o.state_dir), "%s", e->dir);
	(void)snprintf(o.run_dir, sizeof(o.run_dir), "%s", e->run);
	log_setup(LOG_ERROR, LOG_TEXT);
	assert_int_equal(uv_loop_init(&loop), 0);
	assert_ok(arbiter_start(&a, &loop, &o, &err), &err);
	for (int i = 0; i < 100; i++) {
		(void)uv_run(&loop, UV_RUN_NOWAIT);
		wait_ms(1);
	}
	whole = status_render_json(a, NULL);
	assert_non_null(whole);
	blank_digits(whole);
	assert_non_null(strstr(whole, "quantum_ends"));
	json_set_alloc_funcs(failing_malloc, free);
	for (; failed; n++) {
		countdown = n;
		text = status_render_json(a, NULL);
		failed = countdown < 0;
		countdown = -1;
		if (text) {
			blank_digits(text);
			if (strcmp(text, whole) != 0)
				fail_msg("allocation %ld: %s", n, text);
		}
		assert_true(text || failed);
		free(text);
	}
	json_set_alloc_funcs(malloc, free);
	assert_true(n > 50);
	free(whole);
	arbiter_stop(a);
	(void)uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&loop), 0);
	arbiter_free(a);
	arbiter_env_free(e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(status__is_complete_or_absent_when_memory_fails),
	};

	return cmocka_run_group_tests_name("arbiter-status", tests, NULL, NULL);
}
