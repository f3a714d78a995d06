/* SPDX-License-Identifier: Apache-2.0 */

/* A wait for a loop ends, also where the machine was too busy to run the loop in time. */
#include "support/test.h"

#include "lib/base/time.h"
#include "support/patience.h"

#include <unistd.h>

#define FAR_MS 20000

static void on_due(uv_timer_t *t)
{
	++*(unsigned *)t->data;
	(void)uv_timer_start(t, on_due, FAR_MS, 0);
}

static void patience__ends_when_all_is_due_at_once(void **state)
{
	struct patience p;
	uv_timer_t due;
	uv_loop_t loop;
	unsigned n = 0;
	uint64_t since;

	(void)state;
	assert_int_equal(uv_loop_init(&loop), 0);
	patience_init(&p, &loop);
	assert_int_equal(uv_timer_init(&loop, &due), 0);
	due.data = &n;
	since = time_mono_ns();
	(void)uv_timer_start(&due, on_due, 0, 0);
	patience_start(&p, 20);
	(void)usleep(
		50000); /* both are due in the next round, and nothing else for a long time */
	while (patience_run_once(&p))
		;
	patience_stop(&p);
	(void)uv_timer_start(&due, on_due, 0, 0);
	patience_run(&p, &n, 2, FAR_MS);
	assert_true(time_mono_ns() - since < FAR_MS * NS_PER_MS / 2);
	uv_close((uv_handle_t *)&due, NULL);
	patience_close(&p);
	assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
	assert_int_equal(uv_loop_close(&loop), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(patience__ends_when_all_is_due_at_once),
	};

	return cmocka_run_group_tests_name("patience", tests, NULL, NULL);
}
