/* SPDX-License-Identifier: Apache-2.0 */

/* Programs that the MIG manager runs: their output, and how they end. */
#include "support/test.h"

#include "lib/proc/child.h"
#include "lib/base/time.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

struct child_output {
	uv_loop_t loop;
	char lines[256];
	unsigned n_lines, ends;
	unsigned pause_us; /* taken by each line */
	bool refuses;      /* the second */
	struct child_end end;
	char words[CHILD_WORDS_MAX];
};

static int on_line(void *arg, const char *line, size_t len, struct error *err)
{
	struct child_output *h = arg;
	size_t used = strlen(h->lines);

	(void)snprintf(h->lines + used, sizeof(h->lines) - used, "%.*s,", (int)len, line);
	if (++h->n_lines == 2 && h->refuses)
		return error_set(err, ERR_INVALID, "no");
	(void)usleep(h->pause_us);
	return 0;
}

static void on_ended(void *arg, const struct child_end *end)
{
	struct child_output *h = arg;

	h->ends++;
	h->end = *end;
	(void)snprintf(h->words, sizeof(h->words), "%s", end->words);
}

static const struct child_ops ops = { .line = on_line, .ended = on_ended };

static struct child *start_script(struct child_output *h, const char *script,
	uint64_t silence_ns)
{
	const char *const argv[] = { "sh", "-c", script, NULL };
	const struct child_spec what = { .argv = argv, .silence_ns = silence_ns };
	struct error err = ERROR_INIT;
	struct child *c = NULL;

	if (uv_loop_init(&h->loop) < 0 || proc_start(&c, &h->loop, &what, &ops, h, &err) < 0)
		fail_msg("%s", err.msg);
	return c;
}

static void finish_loop(struct child_output *h)
{
	(void)uv_run(&h->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&h->loop), 0);
}

static void child__has_its_output_and_status_reported(void **state)
{
	struct child_output h = { .ends = 0 };

	(void)state;
	(void)start_script(&h, "echo one; printf two; echo why >&2; exit 3", 10 * NS_PER_SEC);
	finish_loop(&h);
	assert_string_equal(h.lines, "one,two,");
	assert_string_equal(h.words, "why");
	assert_int_equal(h.ends, 1);
	assert_int_equal(h.end.status, 3);
}

/*
 * A SIGCHLD of any child makes libuv reap all children that have ended. If that happens between the program's last
 * write and the loop's next read, libuv reports the program's end before its last line.
 */
static void run_until_early_end(struct child_output *h)
{
	h->pause_us = 500000;
	(void)start_script(h, "echo one; sleep 0.4; echo two", 10 * NS_PER_SEC);
	(void)usleep(200000);
	(void)raise(SIGCHLD);
	finish_loop(h);
}

static void child__has_its_output_read_after_its_end(void **state)
{
	struct child_output h = { .ends = 0 };

	(void)state;
	run_until_early_end(&h);
	assert_string_equal(h.lines, "one,two,");
	assert_int_equal(h.ends, 1);
	assert_int_equal(h.end.error.code, ERR_NONE);
}

static void child__may_have_its_output_refused_after_its_end(void **state)
{
	struct child_output h = { .refuses = true };

	(void)state;
	run_until_early_end(&h);
	assert_int_equal(h.ends, 1);
	assert_int_equal(h.end.error.code, ERR_INVALID);
}

static void child__without_output_is_ended_with_its_group(void **state)
{
	struct child_output h = { .ends = 0 };

	(void)state;
	(void)start_script(&h, "sleep 50 & wait; echo late", 200 * NS_PER_MS);
	finish_loop(&h);
	assert_true(h.end.was_silent);
	assert_string_equal(h.lines, "");
	assert_int_equal(h.ends, 1);
}

static void child__that_is_stopped_reports_nothing(void **state)
{
	struct child_output h = { .ends = 0 };

	(void)state;
	assert_null(proc_stop(
		start_script(&h, "trap 'echo late' TERM; sleep 50 & wait", 10 * NS_PER_SEC)));
	finish_loop(&h);
	assert_string_equal(h.lines, "");
	assert_int_equal(h.ends, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(child__has_its_output_and_status_reported),
		cmocka_unit_test(child__has_its_output_read_after_its_end),
		cmocka_unit_test(child__may_have_its_output_refused_after_its_end),
		cmocka_unit_test(child__without_output_is_ended_with_its_group),
		cmocka_unit_test(child__that_is_stopped_reports_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
