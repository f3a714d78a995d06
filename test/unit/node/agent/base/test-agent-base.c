/* SPDX-License-Identifier: Apache-2.0 */

/* What the parts of the agent share: one reconcile per round of the loop, reports, states of components. */
#include "unit/node/agent/agent-fixture.h"

#include "node/agent/base/report.h"
#include "node/agent/base/loop.h"

#include <string.h>

/* --- wake --- */

static void wake_up__calls_once_for_many_requests(void **state)
{
	struct agent_fixture *f = *state;

	wake_up(&f->wake);
	wake_up(&f->wake);
	wake_up(&f->wake);
	assert_int_equal(f->wakes, 0); /* never from inside of the caller of wake_up() */
	agent_fixture_run_once(f);
	assert_int_equal(f->wakes, 1);
	agent_fixture_run_once(f);
	assert_int_equal(f->wakes, 1);
}

struct again {
	struct wake wake;
	unsigned left, calls;
};

static void wake_once_more(void *arg)
{
	struct again *a = arg;

	a->calls++;
	if (a->left-- > 0)
		wake_up(&a->wake);
}

static void wake_up__from_the_call_itself_calls_again_in_the_next_iteration(void **state)
{
	struct agent_fixture *f = *state;
	struct again a = { .left = 2 };

	wake_init(&a.wake, &f->loop, wake_once_more, &a);
	wake_up(&a.wake);
	for (unsigned iteration = 1; iteration <= 3; iteration++) {
		(void)uv_run(&f->loop, UV_RUN_NOWAIT);
		assert_int_equal(a.calls, iteration);
	}
	(void)uv_run(&f->loop, UV_RUN_NOWAIT);
	assert_int_equal(a.calls, 3);
	wake_close(&a.wake);
	agent_fixture_run_once(f);
}

static void on_timer(uv_timer_t *t)
{
	wake_up(t->data);
}

static void wake_up__from_a_timer_does_not_wait_for_the_next_event(void **state)
{
	struct agent_fixture *f = *state;
	uv_timer_t t;

	(void)uv_timer_init(&f->loop, &t);
	t.data = &f->wake;
	(void)uv_timer_start(&t, on_timer, 1, 0);
	agent_fixture_until(f, f->wakes == 1);
	uv_close((uv_handle_t *)&t, NULL);
	agent_fixture_run_once(f);
}

static void wake_close__makes_later_wake_ups_do_nothing(void **state)
{
	struct agent_fixture *f = *state;
	struct again a = { .left = 0 };

	wake_init(&a.wake, &f->loop, wake_once_more, &a);
	wake_up(&a.wake);
	wake_close(&a.wake);
	wake_up(&a.wake);
	agent_fixture_run_once(f);
	assert_int_equal(a.calls, 0);
}

/* --- reports --- */

static void report_event__names_its_object(void **state)
{
	struct agent_fixture *f = *state;
	const struct event_about pod = { .namespace_ = "ml", .pod = "train-0", .uid = "1" };

	report_event(&f->reporter, EVENT_WARNING, "GPUUnhealthy", "GPU %u", 3U);
	report_pod_event(&f->reporter, &pod, EVENT_NORMAL, "MPSFault", "lost");
	assert_string_equal(f->events[0].message, "GPU 3");
	assert_string_equal(f->events[0].about.pod, "");
	assert_string_equal(agent_fixture_last(f, "MPSFault")->about.pod, "train-0");
	assert_int_equal(f->events[1].type, EVENT_NORMAL);
}

static void report_event__is_bounded_utf8_for_any_input(void **state)
{
	struct agent_fixture *f = *state;
	char text[2 * ERROR_MSG_MAX];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	report_event(&f->reporter, EVENT_WARNING, "A", "a\xffz");
	report_event(&f->reporter, EVENT_WARNING, "B", "%s", text);
	assert_string_equal(f->events[0].message, "a?z");
	assert_int_equal(strlen(f->events[1].message), ERROR_MSG_MAX + 63);
}

/* --- components --- */

static void components_report__emits_one_event_for_each_change(void **state)
{
	struct agent_fixture *f = *state;
	struct components c = { .reporter = &f->reporter };
	struct error why = ERROR_INIT;

	components_report(&c, COMPONENT_PRICES, NULL); /* it works from the start: no news */
	assert_int_equal(f->n_events, 0);
	(void)error_set(&why, ERR_INVALID, "line 3: expected a price");
	components_report(&c, COMPONENT_PRICES, &why);
	components_report(&c, COMPONENT_PRICES, &why);
	assert_int_equal(f->n_events, 1);
	assert_string_equal(agent_fixture_last(f, "ComponentDegraded")->message,
		"prices: line 3: expected a price; devices are not affected");
	assert_true(c.v[COMPONENT_PRICES].since_wall_ns > 0);
	components_report(&c, COMPONENT_PRICES, NULL);
	assert_string_equal(agent_fixture_last(f, "ComponentRecovered")->message,
		"prices works again");
	assert_int_equal(c.v[COMPONENT_PRICES].since_wall_ns, 0);
}

static void components_report__names_the_affected_devices(void **state)
{
	struct agent_fixture *f = *state;
	struct components c = { .reporter = &f->reporter };
	struct error why = ERROR_INIT;

	(void)error_set(&why, ERR_IO, "disk full");
	components_report(&c, COMPONENT_CDI, &why);
	assert_string_equal(f->events[0].message, "cdi: disk full");
}

static void component_set__keeps_the_date_when_the_reason_changes(void **state)
{
	struct component_state s = { .since_wall_ns = 0 };
	struct error why = ERROR_INIT;

	(void)state;
	(void)error_set(&why, ERR_IO, "a");
	assert_true(component_set(&s, &why, 100));
	(void)error_set(&why, ERR_IO, "b");
	assert_true(component_set(&s, &why, 200));
	assert_int_equal(s.since_wall_ns, 100);
	assert_false(component_set(&s, &why, 300));
	assert_true(component_set(&s, NULL, 400));
	assert_false(component_set(&s, NULL, 500));
}

static void component_name__is_unique(void **state)
{
	(void)state;
	for (int i = 0; i < COMPONENT_COUNT_; i++)
		for (int k = 0; k < i; k++)
			assert_string_not_equal(component_name((enum component)i),
				component_name((enum component)k));
}

/* --- the end --- */

static void failure_set__keeps_the_first_reason_and_stops_the_loop(void **state)
{
	struct agent_fixture *f = *state;
	struct failure failure = { .loop = &f->loop };
	struct error first = ERROR_INIT, second = ERROR_INIT;

	(void)error_set(&first, ERR_EXISTS, "first");
	(void)error_set(&second, ERR_IO, "second");
	failure_set(&failure, &first);
	failure_set(&failure, &second);
	assert_string_equal(failure.why.msg, "first");
	/* failure_set() has stopped the loop: uv_run() returns although a timer is active. */
	patience_start(&f->patience, FIXTURE_WAIT_MS);
	assert_int_not_equal(uv_run(&f->loop, UV_RUN_DEFAULT), 0);
	patience_stop(&f->patience);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		AGENT_TEST(wake_up__calls_once_for_many_requests),
		AGENT_TEST(wake_up__from_the_call_itself_calls_again_in_the_next_iteration),
		AGENT_TEST(wake_up__from_a_timer_does_not_wait_for_the_next_event),
		AGENT_TEST(wake_close__makes_later_wake_ups_do_nothing),
		AGENT_TEST(report_event__names_its_object),
		AGENT_TEST(report_event__is_bounded_utf8_for_any_input),
		AGENT_TEST(components_report__emits_one_event_for_each_change),
		AGENT_TEST(components_report__names_the_affected_devices),
		AGENT_TEST(component_set__keeps_the_date_when_the_reason_changes),
		AGENT_TEST(component_name__is_unique),
		AGENT_TEST(failure_set__keeps_the_first_reason_and_stops_the_loop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
