/* SPDX-License-Identifier: Apache-2.0 */

/* Services of the host that are stopped and started again, the list of them that outlives the agent, and reboots. */
#include "unit/node/agent/mig/mig-env.h"

#include "io/config/mig/mig.h"
#include "node/agent/mig/host.h"

#include <unistd.h>

struct host {
	struct mig_env *e;
	struct mig_host h;
	unsigned done;
	struct error err; /* of the last end */
};

static void on_done(void *arg, const struct error *err)
{
	struct host *x = arg;

	assert_int_equal(x->h.step, MIG_HOST_REST);
	x->done++;
	x->err = *err;
}

static void open_host(struct host *x, struct mig_env *e, const char *run_dir)
{
	struct error err = ERROR_INIT;

	*x = (struct host){ .e = e };
	assert_ok(mig_host_init(&x->h, e->loop, e->host, run_dir ? run_dir : e->f->dir, &err),
		&err);
	x->h.done = on_done;
	x->h.arg = x;
	assert_ok(strv_split(&x->h.services, "a.service b.service c.service", ' ', &err), &err);
}

static void close_host(struct host *x)
{
	mig_host_cancel(&x->h);
	mig_host_fini(&x->h);
}

static void wait_done(struct host *x, unsigned n)
{
	agent_fixture_until(x->e->f, x->done >= n);
	assert_int_equal(x->done, n);
}

static void assert_stopped(struct host *x, const char *expected)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(MIG_SERVICES_FILE);

	for (size_t i = 0; i < x->h.stopped.n; i++)
		buf_printf(&b, "%s\n", x->h.stopped.v[i]);
	assert_string_equal(buf_str(&b), expected);
	assert_string_equal(mig_env_read(x->e, "mig-services"), expected);
}

/* --- stop --- */

static void mig_host_stop__saves_each_service_before_it_stops_it(void **state)
{
	struct mig_env *e = *state;
	struct host x;

	mig_env_write(e, "systemd",
		"[ \"$verb $service\" != 'is-active b.service' ] || exit 3\n"
		"[ $verb != stop ] || cp \"$dir/mig-services\" \"$dir/at-$service\"\n");
	open_host(&x, e, NULL);
	mig_host_stop(&x.h);
	assert_int_equal(x.done, 0);
	wait_done(&x, 1);
	assert_int_equal(x.err.code, ERR_NONE);
	assert_calls(e, "is-active a.service\nstop a.service\nis-active b.service\n"
			"is-active c.service\nstop c.service\n");
	assert_string_equal(mig_env_read(e, "at-a.service"), "a.service\n");
	assert_string_equal(mig_env_read(e, "at-c.service"), "a.service\nc.service\n");
	assert_stopped(&x, "a.service\nc.service\n");
	/* Another program has started a service meanwhile: it is stopped again, and is in the list once. */
	mig_host_stop(&x.h);
	wait_done(&x, 2);
	assert_stopped(&x, "a.service\nc.service\n");
	close_host(&x);
}

static void mig_host_stop__ends_at_the_first_service_that_does_not_stop(void **state)
{
	static const struct {
		const char *systemd, *error;
		bool hangs;
	} cases[] = {
		{ "[ $verb != stop ] || { echo 'Job failed.' >&2; exit 4; }\n",
			.error = "stop service a.service: status 4: Job failed." },
		{ "[ $verb != stop ] || kill -9 $$\n",
			.error = "stop service a.service: signal 9" },
		{ "[ $verb != stop ] || exec sleep 600\n",
			"stop service a.service: not done in time", .hangs = true },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct mig_env *e = mig_env_another(state);
		struct host x;

		mig_env_write(e, "systemd", cases[i].systemd);
		open_host(&x, e, NULL);
		mig_host_stop(&x.h);
		agent_fixture_until(e->f, mig_env_count(e, "stop a.service") == 1);
		if (cases[i].hangs)
			proc_expect(x.h.child, 10 * NS_PER_MS);
		wait_done(&x, 1);
		assert_non_null(strstr(x.err.msg, cases[i].error));
		assert_int_equal(mig_env_count(e, "is-active b.service"), 0);
		assert_stopped(&x, "a.service\n"); /* whether it runs is not known */
		close_host(&x);
	}
}

static void mig_host_stop__stops_no_service_that_cannot_be_saved(void **state)
{
	struct mig_env *e = *state;
	struct host x;

	open_host(&x, e, "/nowhere");
	mig_host_stop(&x.h);
	wait_done(&x, 1);
	assert_non_null(strstr(x.err.msg, "/nowhere/.mig-services"));
	assert_calls(e, "is-active a.service\n");
	close_host(&x);
}

/* --- start --- */

static void mig_host_start__starts_in_reverse_order_and_removes_the_file(void **state)
{
	struct mig_env *e = *state;
	struct host x;

	mig_env_write(e, "mig-services", "a.service\nb.service");
	open_host(&x, e, NULL);
	mig_host_start(&x.h);
	wait_done(&x, 1);
	assert_int_equal(x.err.code, ERR_NONE);
	assert_calls(e, "start b.service\nstart a.service\n");
	assert_stopped(&x, "");
	mig_host_start(&x.h); /* nothing is left: it has ended already */
	assert_int_equal(x.done, 2);
	close_host(&x);
}

static void mig_host_start__continues_after_a_failed_start(void **state)
{
	static const struct {
		const char *systemd, *error, *left;
	} cases[] = {
		{ "[ $service != b.service ] || { echo 'not found' >&2; exit 5; }\n",
			"start service b.service: status 5: not found", "b.service\n" },
		{ "[ $service = b.service ]\n", "start service c.service: status 1",
			"a.service\nc.service\n" },
		{ "exit 1\n", "start service c.service: status 1",
			"a.service\nb.service\nc.service\n" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct mig_env *e = mig_env_another(state);
		struct host x;

		mig_env_write(e, "systemd", cases[i].systemd);
		mig_env_write(e, "mig-services", "a.service\nb.service\nc.service\n");
		open_host(&x, e, NULL);
		mig_host_start(&x.h);
		wait_done(&x, 1);
		assert_string_equal(x.err.msg, cases[i].error);
		assert_calls(e, "start c.service\nstart b.service\nstart a.service\n");
		assert_stopped(&x, cases[i].left);
		/* The reason of that time is not the reason of the next. */
		mig_env_write(e, "systemd", "");
		mig_host_start(&x.h);
		wait_done(&x, 2);
		assert_int_equal(x.err.code, ERR_NONE);
		assert_stopped(&x, "");
		close_host(&x);
	}
}

static void mig_host_start__continues_after_a_hanging_start(void **state)
{
	struct mig_env *e = *state;
	struct host x;

	mig_env_write(e, "systemd", "[ $service != b.service ] || exec sleep 600\n");
	mig_env_write(e, "mig-services", "a.service\nb.service\n");
	open_host(&x, e, NULL);
	mig_host_start(&x.h);
	agent_fixture_until(e->f, mig_env_count(e, "start b.service") == 1);
	proc_expect(x.h.child, 10 * NS_PER_MS);
	wait_done(&x, 1);
	assert_string_equal(x.err.msg, "start service b.service: not done in time");
	assert_stopped(&x, "b.service\n");
	close_host(&x);
}

static void mig_host__reports_a_program_that_cannot_be_run(void **state)
{
	struct mig_env *e = *state;
	struct host x;

	mig_env_write(e, "mig-services", "a.service\nb.service\n");
	open_host(&x, e, NULL);
	(void)setenv("PATH", e->host, 1);
	mig_host_stop(&x.h);
	assert_int_equal(x.done, 1);
	assert_non_null(strstr(x.err.msg, "chroot"));
	mig_host_start(&x.h);
	assert_int_equal(x.done, 2);
	assert_non_null(strstr(x.err.msg, "chroot"));
	assert_int_equal(x.h.stopped.n, 2);
	mig_host_reload(&x.h);
	assert_int_equal(x.done, 3);
	assert_int_not_equal(x.err.code, ERR_NONE);
	mig_host_reboot(&x.h, "systemctl reboot");
	assert_int_equal(x.done, 4);
	assert_non_null(strstr(x.err.msg, "systemctl"));
	close_host(&x);
}

/* --- the list of an agent before us --- */

static void mig_host_init__ignores_invalid_service_names(void **state)
{
	static const struct {
		const char *text, *services;
	} cases[] = {
		{ "", "" },
		{ "\n\n", "" },
		{ "a.service", "a.service " },
		{ "a.service\n\nb@1.service\n", "a.service b@1.service " },
		{ "--force\na.service\n", "a.service " },
		{ "../a.service\n/b.service\na b.service\n", "" },
		{ "a.service\r\nb.service\n", "b.service " },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct mig_env *e = mig_env_another(state);
		CLEANUP(buf_fini) struct buf b = BUF_INIT(4096);
		struct host x;

		mig_env_write(e, "mig-services", cases[i].text);
		open_host(&x, e, NULL);
		for (size_t k = 0; k < x.h.stopped.n; k++)
			buf_printf(&b, "%s ", x.h.stopped.v[k]);
		assert_string_equal(buf_str(&b), cases[i].services);
		close_host(&x);
	}
}

static void mig_host_init__has_limits(void **state)
{
	struct mig_env *e = *state;
	CLEANUP(buf_fini) struct buf b = BUF_INIT((size_t)4 * MIG_SERVICES_FILE);
	struct host x;

	for (unsigned i = 0; i < MIG_SERVICES_MAX + 2; i++)
		buf_printf(&b, "%u.service\n", i);
	mig_env_write(e, "mig-services", buf_str(&b));
	open_host(&x, e, NULL);
	assert_int_equal(x.h.stopped.n, MIG_SERVICES_MAX);
	close_host(&x);
	while (b.len <= MIG_SERVICES_FILE)
		buf_puts(&b, "and.service\n");
	mig_env_write(e, "mig-services", buf_str(&b));
	open_host(&x, e, NULL);
	assert_int_equal(x.h.stopped.n, 0);
	close_host(&x);
}

/* --- commands --- */

static void mig_host_reboot__runs_the_command_with_its_arguments(void **state)
{
	static const struct {
		const char *command, *calls, *error;
	} cases[] = {
		{ "chroot %s systemctl reboot", "reboot\n", NULL },
		{ "  chroot   %s systemctl  reboot  now ", "reboot now\n", NULL },
		{ "chroot %s reboot", "", "command reboot: status 9" },
		{ "", "", "the reboot command is empty" },
		{ "   ", "", "the reboot command is empty" },
		{ "/nowhere/reboot", "", "/nowhere/reboot" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct mig_env *e = mig_env_another(state);
		char command[2 * PATH_MAX];
		const char *at = strstr(cases[i].command, "%s");
		struct host x;

		(void)snprintf(command, sizeof(command), "%.*s%s%s",
			at ? (int)(at - cases[i].command) : 0, cases[i].command,
			at ? e->host : "", at ? at + 2 : cases[i].command);
		open_host(&x, e, NULL);
		mig_host_reboot(&x.h, command);
		wait_done(&x, 1);
		assert_int_equal(x.err.code != ERR_NONE, cases[i].error != NULL);
		if (cases[i].error)
			assert_non_null(strstr(x.err.msg, cases[i].error));
		assert_calls(e, cases[i].calls);
		close_host(&x);
	}
}

static void mig_host_reboot__truncates_a_command_of_too_many_words(void **state)
{
	struct mig_env *e = *state;
	CLEANUP(buf_fini) struct buf b = BUF_INIT(4096);
	struct host x;

	mig_env_write(e, "count", "echo $# >\"${0%/*}/words\"\n");
	buf_printf(&b, "sh %s/count", e->f->dir);
	for (unsigned i = 0; i < 40; i++)
		buf_puts(&b, " w");
	open_host(&x, e, NULL);
	mig_host_reboot(&x.h, buf_str(&b));
	wait_done(&x, 1);
	assert_int_equal(x.err.code, ERR_NONE);
	assert_string_equal(mig_env_read(e, "words"), "30\n"); /* 32 in all */
	close_host(&x);
}

static void mig_host_reload__reports_its_result(void **state)
{
	struct mig_env *e = *state;
	struct host x;

	open_host(&x, e, NULL);
	mig_host_reload(&x.h);
	wait_done(&x, 1);
	assert_int_equal(x.err.code, ERR_NONE);
	assert_calls(e, "daemon-reload\n");
	mig_env_write(e, "systemd", "echo 'No bus' >&2; exit 1\n");
	mig_host_reload(&x.h);
	wait_done(&x, 2);
	assert_string_equal(x.err.msg, "command daemon-reload: status 1: No bus");
	close_host(&x);
}

static void mig_host_cancel__ends_the_program_without_a_report(void **state)
{
	struct mig_env *e = *state;
	void (*const begin[])(
		struct mig_host * h) = { mig_host_stop, mig_host_start, mig_host_reload };
	struct host x;

	mig_env_write(e, "mig-services", "a.service\n");
	mig_env_write(e, "systemd", "exec sleep 600\n");
	open_host(&x, e, NULL);
	for (size_t i = 0; i < ARRAY_LEN(begin); i++) {
		begin[i](&x.h);
		assert_non_null(x.h.child);
		mig_host_cancel(&x.h);
		assert_null(x.h.child);
		assert_int_equal(x.h.step, MIG_HOST_REST);
		mig_host_cancel(&x.h); /* and again is fine */
	}
	mig_env_write(e, "systemd", "");
	mig_host_start(&x.h); /* the stopped services are still saved */
	wait_done(&x, 1);
	assert_stopped(&x, "");
	close_host(&x);
}

/* --- the layout of the next boot --- */

#define SELECTED(name) "[Service]\nEnvironment=\"MIG_PARTED_SELECTED_CONFIG=" name "\"\n"

static void mig_host_select__writes_only_changes_of_an_existing_file(void **state)
{
	static const struct {
		const char *now, *file; /* .now NULL: there is none */
		int ret;
		const char *then;
	} cases[] = {
		{ NULL, "/etc/x.conf", 1, "" },
		{ "", "/etc/x.conf", 0, SELECTED("all") },
		{ SELECTED("none"), "etc/x.conf", 0, SELECTED("all") },
		{ SELECTED("all"), "/etc/x.conf", 1, SELECTED("all") },
		{ SELECTED("all") "\n", "/etc/x.conf", 0, SELECTED("all") },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct mig_env *e = mig_env_another(state);
		struct error err = ERROR_INIT;
		struct host x;

		open_host(&x, e, NULL);
		if (cases[i].now)
			mig_env_write(e, "host/etc/x.conf", cases[i].now);
		assert_int_equal(mig_host_select(&x.h, cases[i].file, "all", &err),
			cases[i].ret);
		assert_string_equal(mig_env_read(e, "host/etc/x.conf"), cases[i].then);
		close_host(&x);
	}
}

static void mig_host_select__leaves_the_file_when_it_cannot_be_written(void **state)
{
	struct mig_env *e = *state;
	struct error err = ERROR_INIT;
	char name[300], path[PATH_MAX + 1];
	struct host x;

	open_host(&x, e, NULL);
	mig_env_write(e, "host/etc/x.conf", "old");
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	assert_error(mig_host_select(&x.h, "/etc/x.conf", name, &err), &err, "too long");
	assert_string_equal(mig_env_read(e, "host/etc/x.conf"), "old");
	memset(path, 'p', sizeof(path) - 1);
	path[sizeof(path) - 1] = '\0';
	assert_error(mig_host_select(&x.h, path, "all", &err), &err, "");
	assert_error(mig_host_select(&x.h, "/etc", "all", &err), &err, "etc");
	close_host(&x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		MIG_TEST(mig_host_stop__saves_each_service_before_it_stops_it),
		MIG_TEST(mig_host_stop__ends_at_the_first_service_that_does_not_stop),
		MIG_TEST(mig_host_stop__stops_no_service_that_cannot_be_saved),
		MIG_TEST(mig_host_start__starts_in_reverse_order_and_removes_the_file),
		MIG_TEST(mig_host_start__continues_after_a_failed_start),
		MIG_TEST(mig_host_start__continues_after_a_hanging_start),
		MIG_TEST(mig_host__reports_a_program_that_cannot_be_run),
		MIG_TEST(mig_host_init__ignores_invalid_service_names),
		MIG_TEST(mig_host_init__has_limits),
		MIG_TEST(mig_host_reboot__runs_the_command_with_its_arguments),
		MIG_TEST(mig_host_reboot__truncates_a_command_of_too_many_words),
		MIG_TEST(mig_host_reload__reports_its_result),
		MIG_TEST(mig_host_cancel__ends_the_program_without_a_report),
		MIG_TEST(mig_host_select__writes_only_changes_of_an_existing_file),
		MIG_TEST(mig_host_select__leaves_the_file_when_it_cannot_be_written),
	};

	return cmocka_run_group_tests_name("mig-host", tests, NULL, NULL);
}
