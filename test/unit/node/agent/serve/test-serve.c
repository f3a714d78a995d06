/* SPDX-License-Identifier: Apache-2.0 */

/* The HTTP endpoints: the answer of each path, the active counters, and a web server that cannot start. */
#include "support/test.h"

#include "lib/base/fd.h"
#include "lib/base/time.h"
#include "node/agent/serve/internal.h"
#include "support/view-sample.h"
#include "unit/io/web/web-env.h"

#include <limits.h>
#include <unistd.h>

#define XIDS_ROW   "DCGM_EXP_XID_ERRORS_TOTAL, counter, x\n"
#define CLOCKS_ROW "DCGM_EXP_CLOCK_EVENTS_TOTAL, counter, x\n"

struct served {
	struct serve *s;
	struct serve_options options; /* set before open_serve() */
	char *dir;
	char counters[PATH_MAX], web_config[PATH_MAX]; /* not there at first */
	struct web_reply reply;                        /* of get_route() */
};

/* --- the renderers, which note whether the loop could publish meanwhile --- */

static struct serve *serving; /* NULL: not watched */
static unsigned renders, blocked;

static void note_lock(void)
{
	if (!serving)
		return;
	renders++;
	if (pthread_mutex_trylock(&serving->lock) == 0)
		(void)pthread_mutex_unlock(&serving->lock);
	else
		blocked++;
}

int __real_metrics_render(struct buf *out, const struct metrics_request *r, struct error *err);
int __wrap_metrics_render(struct buf *out, const struct metrics_request *r, struct error *err);

int __wrap_metrics_render(struct buf *out, const struct metrics_request *r, struct error *err)
{
	note_lock();
	return __real_metrics_render(out, r, err);
}

char *__real_view_json(const struct view *v, enum view_part part, size_t *ret_len);
char *__wrap_view_json(const struct view *v, enum view_part part, size_t *ret_len);

char *__wrap_view_json(const struct view *v, enum view_part part, size_t *ret_len)
{
	note_lock();
	return __real_view_json(v, part, ret_len);
}

static int set_up(void **state)
{
	struct served *x = calloc(1, sizeof(*x));
	struct error err = ERROR_INIT;

	assert_non_null(x);
	x->dir = test_tmpdir();
	assert_ok(path_join(x->counters, sizeof(x->counters), x->dir, "counters.csv", &err),
		&err);
	assert_ok(path_join(x->web_config, sizeof(x->web_config), x->dir, "web.yml", &err),
		&err);
	x->options.metrics.devices.gpus = true;
	*state = x;
	return 0;
}

static void end_reply(struct served *x)
{
	if (x->reply.release)
		x->reply.release(x->reply.owner);
	x->reply = (struct web_reply){ .type = NULL };
}

static int tear_down(void **state)
{
	struct served *x = *state;

	end_reply(x);
	x->s = serve_free(x->s);
	test_rmdir(x->dir);
	free(x);
	return 0;
}

static void open_serve(struct served *x)
{
	CLEANUP(strv_fini) struct strv warnings = STRV_INIT;
	struct error err = ERROR_INIT;

	assert_ok(serve_new(&x->s, &x->options, &warnings, &err), &err);
}

static void write_served_file(const char *path, const char *text)
{
	struct error err = ERROR_INIT;

	assert_ok(file_write_atomic(path, text, strlen(text), 0600, &err), &err);
}

/* A view of @seq that is as old as that is shown. */
static void show_view(struct served *x, uint64_t seq, bool ready, uint64_t age_ns)
{
	struct error err = ERROR_INIT;
	struct view *v = NULL;

	assert_ok(view_sample(&v, VIEW_SAMPLE_ONE, &err), &err);
	v->seq = seq;
	v->ready = ready;
	v->interval_ns = 5 * NS_PER_SEC;
	v->mono_ns = time_mono_ns() - age_ns;
	serve_show(x->s, v);
	(void)view_unref(v);
}

/* Finds the route of @path as the web server does. The reply is x->reply. */
static enum web_status get_route(struct served *x, const char *path, const char *accept)
{
	const struct web_request req = { .path = path, .accept = accept, .rest = "" };

	end_reply(x);
	for (size_t i = 0; i < serve_n_routes; i++) {
		const struct web_route *r = &serve_routes[i];
		size_t len = strlen(r->path);

		if (r->path[len - 1] == '*' ? !strncmp(path, r->path, len - 1)
					    : !strcmp(path, r->path))
			return r->get(x->s, &req, &x->reply);
	}
	return WEB_NOT_FOUND;
}

static bool has_served_text(const struct served *x, const char *text)
{
	return memmem(x->reply.body, x->reply.len, text, strlen(text)) != NULL;
}

/* --- paths --- */

static void serve_text__is_rendered_without_the_lock_that_the_loop_needs(void **state)
{
	struct served *x = *state;

	open_serve(x);
	show_view(x, 1, true, 0);
	serving = x->s;
	renders = blocked = 0;
	assert_int_equal(get_route(x, "/metrics", ""), WEB_OK);
	assert_int_equal(get_route(x, "/api/v1/node", ""), WEB_OK);
	serving = NULL;
	assert_int_equal(renders, 2);
	assert_int_equal(blocked, 0);
}

static void serve_routes__answer_before_and_after_the_first_view(void **state)
{
	static const struct {
		const char *path;
		enum web_status first, then;
		const char *says; /* at first */
	} rows[] = {
		{ "/metrics", WEB_UNAVAILABLE, WEB_OK, "nothing has been looked at yet" },
		{ "/api/v1/node", WEB_UNAVAILABLE, WEB_OK, "nothing has been looked at yet" },
		{ "/api/v1/history", WEB_UNAVAILABLE, WEB_OK, "nothing has been looked at" },
		{ "/api/v1/nodes", WEB_NOT_FOUND, WEB_NOT_FOUND, "docs/api.md" },
		{ "/api/v1/", WEB_NOT_FOUND, WEB_NOT_FOUND, "docs/api.md" },
		{ "/", WEB_OK, WEB_OK, "<html" },
		{ "/page/nothing.js", WEB_NOT_FOUND, WEB_NOT_FOUND, "no such page" },
		{ "/page/../metrics", WEB_NOT_FOUND, WEB_NOT_FOUND, "no such page" },
		{ "/health", WEB_OK, WEB_OK, "OK" },
		/* A start that takes long is no reason to kill the agent. */
		{ "/healthz", WEB_OK, WEB_OK, "ok" },
		{ "/readyz", WEB_UNAVAILABLE, WEB_OK, "gpuslice status" },
	};
	struct served *x = *state;

	open_serve(x);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		assert_int_equal(get_route(x, rows[i].path, ""), rows[i].first);
		if (!has_served_text(x, rows[i].says))
			fail_msg("%s: %.*s", rows[i].path, (int)x->reply.len,
				(const char *)x->reply.body);
	}
	show_view(x, 1, true, 0);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (get_route(x, rows[i].path, "") != rows[i].then)
			fail_msg("%s", rows[i].path);
	show_view(x, 2, false, 0);
	assert_int_equal(get_route(x, "/readyz", ""), WEB_UNAVAILABLE);
}

static void serve_routes__report_a_hanging_loop_as_unhealthy(void **state)
{
	struct served *x = *state;

	open_serve(x);
	show_view(x, 1, true,
		24 * NS_PER_SEC); /* three intervals, and ten seconds for slow machines */
	assert_int_equal(get_route(x, "/healthz", ""), WEB_OK);
	show_view(x, 2, true, 60 * NS_PER_SEC);
	assert_int_equal(get_route(x, "/healthz", ""), WEB_UNAVAILABLE);
	assert_true(has_served_text(x, "what is shown is 6"));
	assert_int_equal(get_route(x, "/readyz", ""),
		WEB_OK); /* that is not the kubelet's affair */
}

static void serve_routes__answer_each_client_in_its_format(void **state)
{
	struct served *x = *state;

	open_serve(x);
	show_view(x, 1, true, 0);
	assert_int_equal(get_route(x, "/metrics", ""), WEB_OK);
	assert_string_equal(x->reply.type, metrics_content_type(METRICS_PROMETHEUS));
	assert_false(has_served_text(x, "# EOF"));
	assert_int_equal(get_route(x, "/metrics", "application/openmetrics-text"), WEB_OK);
	assert_string_equal(x->reply.type, metrics_content_type(METRICS_OPENMETRICS));
	assert_true(has_served_text(x, "# EOF\n"));
	assert_int_equal(get_route(x, "/api/v1/gpus", ""), WEB_OK);
	assert_string_equal(x->reply.type, "application/json");
}

static void serve_text__is_made_once_for_each_view_and_stays_while_it_is_sent(void **state)
{
	struct served *x = *state;
	static const char temp[] = "DCGM_FI_DEV_GPU_TEMP, gauge, Used by a test\n";
	struct web_reply first;

	open_serve(x);
	show_view(x, 1, true, 0);
	assert_int_equal(get_route(x, "/metrics", ""), WEB_OK);
	first = x->reply;
	x->reply = (struct web_reply){ .type = NULL }; /* it is still under way */
	assert_int_equal(get_route(x, "/metrics", ""), WEB_OK);
	assert_ptr_equal(x->reply.body, first.body);
	show_view(x, 2, true, 0);
	assert_int_equal(get_route(x, "/metrics", ""), WEB_OK);
	assert_ptr_not_equal(x->reply.body, first.body);
	assert_int_equal(memcmp(first.body, "# HELP", 6), 0); /* as it was */
	first.release(first.owner);
	/* Other counters make another text of the same view. */
	assert_false(has_served_text(x, "Used by a test"));
	serve_counters(x->s, "map", temp, strlen(temp));
	assert_int_equal(get_route(x, "/metrics", ""), WEB_OK);
	assert_true(has_served_text(x, "Used by a test"));
}

/* --- counters --- */

static bool is_down(const struct served *x, const char *text)
{
	struct error why = ERROR_INIT;

	return serve_counters_down(x->s, &why) && strstr(why.msg, text);
}

static bool wants_xids(const struct served *x)
{
	return serve_has_source(x->s, METRICS_FROM_XIDS_TOTAL);
}

static bool wants_clocks(const struct served *x)
{
	return serve_has_source(x->s, METRICS_FROM_CLOCKS_TOTAL);
}

static void serve_check_counters__follows_the_file_and_keeps_the_last_valid_one(void **state)
{
	struct served *x = *state;

	x->options.metrics.collectors = x->counters;
	open_serve(x); /* the built-in ones, until the file is there */
	assert_true(is_down(x, "No such file"));
	assert_false(is_down(x, "the last valid one"));
	assert_true(serve_has_source(x->s, METRICS_FROM_FIELD));
	serve_check_counters(x->s);
	assert_true(is_down(x, "No such file"));
	write_served_file(x->counters, XIDS_ROW);
	serve_check_counters(x->s);
	assert_false(is_down(x, ""));
	assert_true(wants_xids(x));
	assert_false(serve_has_source(x->s, METRICS_FROM_FIELD));
	write_served_file(x->counters, XIDS_ROW CLOCKS_ROW);
	serve_check_counters(x->s);
	assert_true(wants_clocks(x));
	assert_int_equal(unlink(x->counters), 0);
	serve_check_counters(x->s);
	assert_true(
		is_down(x, "the last valid one is in use; a restart would use the built-in"));
	assert_true(wants_clocks(x));
	write_served_file(x->counters, XIDS_ROW);
	serve_check_counters(x->s);
	assert_false(is_down(x, ""));
	assert_false(wants_clocks(x));
}

static void serve_counters__precede_the_file_until_they_are_withdrawn(void **state)
{
	struct served *x = *state;
	char *large = calloc(1, METRICS_COUNTERS_FILE_MAX + 2);

	assert_non_null(large);
	memset(large, '#', METRICS_COUNTERS_FILE_MAX + 1);
	write_served_file(x->counters, XIDS_ROW);
	x->options.metrics.collectors = x->counters;
	open_serve(x);
	serve_counters(x->s, "map", CLOCKS_ROW, strlen(CLOCKS_ROW));
	assert_true(wants_clocks(x) && !wants_xids(x));
	write_served_file(x->counters, XIDS_ROW "\n");
	serve_check_counters(x->s); /* not theirs to change */
	assert_true(wants_clocks(x));
	/* Invalid ones leave those before, and the file does not come in between. */
	serve_counters(x->s, "map", large, METRICS_COUNTERS_FILE_MAX + 1);
	assert_true(is_down(x, "map"));
	serve_check_counters(x->s);
	assert_true(is_down(x, "map"));
	assert_true(wants_clocks(x));
	/* Taken back while the file is not there: it is used when it is. */
	assert_int_equal(unlink(x->counters), 0);
	serve_counters(x->s, "map", NULL, 0);
	assert_true(is_down(x, "No such file"));
	assert_true(wants_clocks(x));
	write_served_file(x->counters, XIDS_ROW);
	serve_check_counters(x->s);
	assert_false(is_down(x, ""));
	assert_true(wants_xids(x) && !wants_clocks(x));
	serve_counters(x->s, "map", NULL, 0); /* nothing to take back */
	assert_true(wants_xids(x));
	free(large);
}

/* Otherwise a malformed ConfigMap would look valid after a change of the file. */
static void serve_counters__that_were_refused_are_down_whatever_the_file_does(void **state)
{
	struct served *x = *state;
	char *large = calloc(1, METRICS_COUNTERS_FILE_MAX + 2);

	assert_non_null(large);
	memset(large, '#', METRICS_COUNTERS_FILE_MAX + 1);
	write_served_file(x->counters, XIDS_ROW);
	x->options.metrics.collectors = x->counters;
	open_serve(x);
	serve_counters(x->s, "map", large, METRICS_COUNTERS_FILE_MAX + 1);
	assert_true(is_down(x, "map"));
	write_served_file(x->counters, CLOCKS_ROW "\n");
	serve_check_counters(x->s);
	assert_true(wants_clocks(x)); /* the file is in force, so it is followed */
	assert_true(is_down(x, "map"));
	assert_int_equal(unlink(x->counters), 0);
	serve_check_counters(x->s);
	assert_true(is_down(x, "map"));
	serve_counters(x->s, "map", NULL, 0);
	assert_true(is_down(x, "No such file"));
	serve_counters(x->s, "map", XIDS_ROW, strlen(XIDS_ROW));
	assert_false(is_down(x, ""));
	assert_true(wants_xids(x));
	free(large);
}

/* --- the web server --- */

static enum web_state state_of(const struct served *x, struct error *why)
{
	error_clear(why);
	return serve_web_state(x->s, why);
}

static void serve_start__reports_why_it_cannot_listen(void **state)
{
	static const struct {
		const char *listen, *config; /* NULL: no file */
		const char *cert;
		const char *says; /* NULL: nothing is served, and nothing wrong */
	} rows[] = {
		{ NULL, NULL, NULL, NULL },
		{ "", NULL, NULL, NULL },
		{ "127.0.0.1:0", NULL, NULL, "--web-config-file: web config file: open" },
		{ "127.0.0.1:0", "a: [", NULL, "expected YAML" },
		{ "127.0.0.1:0", "tls_server_config: {cert_file: a, key_file: b}\n", "c",
			"expected one of the two" },
		{ "127.0.0.1:0", "basic_auth_users: {a: b}\n", NULL, "--metrics-token-file" },
		{ "nowhere", "", NULL, "nowhere" },
	};
	struct served *x = *state;
	struct error why = ERROR_INIT;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct web_counts counts;

		(void)unlink(x->web_config);
		if (rows[i].config)
			write_served_file(x->web_config, rows[i].config);
		x->options = (struct serve_options){ .web = { .listen = rows[i].listen,
							     .cert_file = rows[i].cert,
							     .key_file = rows[i].cert },
			.web_config_file = x->web_config };
		open_serve(x);
		serve_start(x->s);
		for (int k = 0; k < 2; k++) {
			assert_int_equal(state_of(x, &why),
				rows[i].says ? WEB_DOWN : WEB_STARTING);
			if (!strstr(why.msg, rows[i].says ? rows[i].says : ""))
				fail_msg("row %zu: %s", i, why.msg);
			serve_retry(x->s); /* and the same again */
		}
		assert_int_equal(serve_port(x->s), 0);
		assert_false(serve_counts(x->s, &counts));
		x->s = serve_free(x->s);
	}
}

static void serve_retry__starts_what_could_not_start_and_checks_what_runs(void **state)
{
	static const char names_one[] = "tls_server_config: {cert_file: a, key_file: b}\n";
	struct served *x = *state;
	struct error why = ERROR_INIT;

	x->options = (struct serve_options){ .web = { .listen = "127.0.0.1:0",
						     .worker_path = TEST_WEB_WORKER },
		.web_config_file = x->web_config };
	open_serve(x);
	serve_start(x->s);
	assert_int_equal(state_of(x, &why), WEB_DOWN);
	write_served_file(x->web_config, "http_server_config: {http2: true}\n");
	serve_retry(x->s);
	for (unsigned i = 0; state_of(x, &why) != WEB_SERVING; i++) {
		assert_true(i < WEB_TIMEOUT_S * 1000);
		web_nap();
	}
	assert_int_equal(why.code, ERR_NONE);
	assert_int_not_equal(serve_port(x->s), 0);
	write_served_file(x->web_config, names_one);
	serve_retry(x->s);
	assert_int_equal(state_of(x, &why), WEB_SERVING);
	assert_non_null(strstr(why.msg, "names another certificate"));
	write_served_file(x->web_config, "a: [");
	serve_retry(x->s);
	assert_int_equal(state_of(x, &why), WEB_SERVING);
	assert_non_null(strstr(why.msg, "a restart would serve nothing"));
	write_served_file(x->web_config, "");
	serve_retry(x->s);
	assert_int_equal(state_of(x, &why), WEB_SERVING);
	assert_int_equal(why.code, ERR_NONE);
}

#define SERVE_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SERVE_TEST(serve_routes__answer_before_and_after_the_first_view),
		SERVE_TEST(serve_routes__report_a_hanging_loop_as_unhealthy),
		SERVE_TEST(serve_routes__answer_each_client_in_its_format),
		SERVE_TEST(serve_text__is_rendered_without_the_lock_that_the_loop_needs),
		SERVE_TEST(serve_text__is_made_once_for_each_view_and_stays_while_it_is_sent),
		SERVE_TEST(serve_check_counters__follows_the_file_and_keeps_the_last_valid_one),
		SERVE_TEST(serve_counters__precede_the_file_until_they_are_withdrawn),
		SERVE_TEST(serve_counters__that_were_refused_are_down_whatever_the_file_does),
		SERVE_TEST(serve_start__reports_why_it_cannot_listen),
		SERVE_TEST(serve_retry__starts_what_could_not_start_and_checks_what_runs),
	};

	return cmocka_run_group_tests_name("serve", tests, NULL, NULL);
}
