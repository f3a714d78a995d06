/* SPDX-License-Identifier: Apache-2.0 */

/* What the arbiter does where it cannot read the directory of slices, or single slices. The arbiter is in
 * this process. */
#include "unit/node/arbiter/scheduler/scheduler-env.h"

#include "abi/slice-dir.h"
#include "node/arbiter/internal.h"
#include "node/arbiter/scheduler/internal.h"
#include "lib/base/time.h"

#include <unistd.h>

struct scan {
	struct env *e;
	struct arbiter *a;
	uv_loop_t loop;
};

static int setup(void **state)
{
	struct scan *s = calloc(1, sizeof(*s));
	struct arbiter_options o = { .procfs = "/proc" };
	struct error err = ERROR_INIT;

	assert_non_null(s);
	s->e = arbiter_env_new();
	write_share(s->e, 0, 1, 0, "batch");
	(void)snprintf(o.state_dir, sizeof(o.state_dir), "%s", s->e->dir);
	(void)snprintf(o.run_dir, sizeof(o.run_dir), "%s", s->e->run);
	assert_int_equal(uv_loop_init(&s->loop), 0);
	assert_ok(arbiter_start(&s->a, &s->loop, &o, &err), &err);
	scheduler_halt(s->a->sched); /* its accounts are read here */
	*state = s;
	return 0;
}

static int teardown(void **state)
{
	struct scan *s = *state;

	arbiter_stop(s->a);
	(void)uv_run(&s->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&s->loop), 0);
	arbiter_free(s->a);
	arbiter_env_free(s->e);
	free(s);
	return 0;
}

/* The scan that the arbiter does every 10 seconds. */
static void rescan_slices(struct scan *s)
{
	uint64_t end = time_mono_ns() + 20 * NS_PER_SEC;

	uv_timer_set_repeat(&s->a->rescan, 1);
	assert_int_equal(uv_timer_again(&s->a->rescan), 0);
	while (uv_timer_get_due_in(&s->a->rescan) < 100) {
		assert_true(time_mono_ns() < end);
		(void)uv_run(&s->loop, UV_RUN_ONCE);
	}
}

static struct usage_account *charge_account(const struct scan *s, unsigned int slice)
{
	char id[40];

	(void)snprintf(id, sizeof(id), ID_HEAD "%u", slice);
	return usage_account_find(&s->a->sched->accounts, id, s->a->sched->gpus[0].uuid);
}

static void scan__that_failed_ends_no_account(void **state)
{
	struct scan *s = *state;
	char dir[200], away[200];

	assert_non_null(charge_account(s, 0));
	/* The account is of an earlier arbiter: this arbiter has not seen its slice. */
	assert_non_null(
		usage_account(&s->a->sched->accounts, ID_HEAD "1", s->a->sched->gpus[0].uuid));
	(void)snprintf(dir, sizeof(dir), "%s/" SLICES_DIR, s->e->dir);
	(void)snprintf(away, sizeof(away), "%s/away", s->e->dir);
	assert_int_equal(rename(dir, away), 0);
	test_write(s->e->dir, SLICES_DIR, "", 0, 0644);
	rescan_slices(s);
	assert_non_null(charge_account(s, 1));
	assert_non_null(charge_account(s, 0));
	/* The arbiter drops the accounts of removed slices once it can read all slices. */
	assert_int_equal(unlink(dir), 0);
	assert_int_equal(rename(away, dir), 0);
	rescan_slices(s);
	assert_null(charge_account(s, 1));
	assert_non_null(charge_account(s, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(scan__that_failed_ends_no_account, setup,
			teardown),
	};

	log_setup(getenv("TEST_VERBOSE") ? LOG_DEBUG : LOG_ERROR, LOG_TEXT);
	return cmocka_run_group_tests_name("arbiter-scan", tests, NULL, NULL);
}
