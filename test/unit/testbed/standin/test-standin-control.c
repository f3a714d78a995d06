/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "lib/base/fd.h"
#include "lib/base/time.h"
#include "lib/http/client/client.h"
#include "testbed/standin/config-volume.h"
#include "testbed/standin/control.h"

#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#define TIMEOUT_NS (5 * NS_PER_SEC)

/* --- ConfigMap volumes --- */

static void expect_file(const char *dir, const char *name, const char *content)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(4096);
	char path[160];

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	if (!content) {
		assert_int_equal(access(path, F_OK), -1);
		return;
	}
	assert_int_equal(file_read(path, &b, NULL), 0);
	assert_string_equal(buf_str(&b), content);
}

static void config_volume_write__swaps_all_keys_at_once(void **state)
{
	char *base = test_tmpdir(), dir[96], before[256], after[256];
	struct str_map data = { 0 };
	struct error err = ERROR_INIT;
	struct stat st;

	(void)state;
	(void)snprintf(dir, sizeof(dir), "%s/v", base);
	assert_ok(str_map_set(&data, "any", "one", &err), &err);
	assert_ok(str_map_set(&data, "old", "x", &err), &err);
	assert_ok(config_volume_write(dir, &data, &err), &err);
	expect_file(dir, "any", "one");
	expect_file(dir, "..data/any", "one");
	(void)snprintf(before, sizeof(before), "%s/any", dir);
	assert_int_equal(lstat(before, &st), 0);
	assert_true(S_ISLNK(st.st_mode));

	(void)snprintf(after, sizeof(after), "%s/..data", dir);
	assert_true(readlink(after, before, sizeof(before)) > 0);
	str_map_remove(&data, "old");
	assert_ok(str_map_set(&data, "any", "two", &err), &err);
	assert_ok(str_map_set(&data, "new", "y", &err), &err);
	assert_ok(config_volume_write(dir, &data, &err), &err);
	expect_file(dir, "any", "two");
	expect_file(dir, "new", "y");
	expect_file(dir, "old", NULL);
	str_map_fini(&data);
	test_rmdir(base);
}

/* --- the API --- */

struct fixture {
	char *dir;
	uv_loop_t loop;
	uv_timer_t tick;
	struct standin *s;
	struct error err;
};

static void on_tick(uv_timer_t *t)
{
	(void)t; /* so that waiting ends */
}

static struct fixture *fixture_new(void)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct standin_options o;

	f->dir = test_tmpdir();
	o = (struct standin_options){ .dir = f->dir };
	assert_int_equal(uv_loop_init(&f->loop), 0);
	assert_int_equal(uv_timer_init(&f->loop, &f->tick), 0);
	assert_int_equal(uv_timer_start(&f->tick, on_tick, 5, 5), 0);
	assert_ok(standin_start(&f->s, &f->loop, &o, NULL, NULL, &f->err), &f->err);
	return f;
}

static void fixture_free(struct fixture *f)
{
	f->s = standin_stop(f->s);
	uv_close((uv_handle_t *)&f->tick, NULL);
	(void)uv_run(&f->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&f->loop), 0);
	test_rmdir(f->dir);
	free(f);
}

struct request {
	char address[160];
	const char *method, *path, *body;
	int rc;
	struct buf answer;
	struct error err;
	_Atomic bool done;
};

static void *run_request(void *arg)
{
	struct request *r = arg;

	r->rc = http_call_json(r->address, r->method, r->path, r->body, TIMEOUT_NS, &r->answer,
		&r->err);
	r->done = true;
	return NULL;
}

/* One request from another thread while the loop runs here. */
static void request_in_thread(struct fixture *f, struct request *r, const char *method,
	const char *path, const char *body)
{
	pthread_t thread;

	buf_clear(&r->answer);
	r->method = method;
	r->path = path;
	r->body = body;
	r->done = false;
	assert_int_equal(pthread_create(&thread, NULL, run_request, r), 0);
	for (uint64_t end = time_mono_ns() + TIMEOUT_NS; !r->done && time_mono_ns() < end;)
		(void)uv_run(&f->loop, UV_RUN_ONCE);
	assert_true(r->done);
	(void)pthread_join(thread, NULL);
}

static void control__answers_as_documented(void **state)
{
	static const struct {
		const char *method, *path, *body, *says;
		bool fails;
	} rows[] = {
		{ "POST", "/v1/apply",
			"{\"name\":\"a.yaml\",\"manifest\":\"apiVersion: v1\\nkind: Pod\\nmetadata: "
			"{name: p}\\nspec: {containers: [{name: c, image: i}]}\"}",
			"pod/p created", false },
		{ "GET", "/v1/pods", NULL, "\"kind\":\"Pod\"", false },
		{ "GET", "/v1/pods?name=p&namespace=default", NULL, "\"name\":\"p\"", false },
		{ "GET", "/v1/nodes", NULL, "\"kubeletVersion\":\"v1.37.2+gpuslice-stand-in\"",
			false },
		{ "GET", "/v1/resources", NULL, "\"counts\"", false },
		{ "GET", "/v1/deployments", NULL, "\"items\":[]", false },
		{ "GET", "/v1/configmaps", NULL, "\"items\":[]", false },
		{ "POST", "/v1/label", "{\"key\":\"a\",\"value\":\"b\"}", "node/node-1 labeled",
			false },
		{ "POST", "/v1/fault", "{\"name\":\"refuse\",\"args\":[\"1\"]}",
			"the next 1 registrations are refused", false },
		{ "POST", "/v1/restart", "{}", "kubelet restarted", false },
		{ "POST", "/v1/delete", "{\"kind\":\"pod\",\"name\":\"p\"}", "deleted", false },
		{ "POST", "/v1/delete", "{\"kind\":\"pod\",\"name\":\"p\"}",
			"pods \"p\" not found", true },
		{ "POST", "/v1/scale", "{\"name\":\"d\",\"replicas\":-1}", "replicas: expected",
			true },
		{ "POST", "/v1/apply", "{\"manifest\":\"kind: Pod\"}", "apiVersion not set",
			true },
		{ "POST", "/v1/apply", "{", "request:1:", true },
		{ "POST", "/v1/nothing", "{}", "no POST /v1/nothing here", true },
	};
	struct fixture *f = fixture_new();
	struct request r = { .answer = BUF_INIT(1U << 20) };
	struct standin_control *c;

	(void)state;
	assert_ok(standin_control_start(&c, &f->loop, f->s, &f->err), &f->err);
	assert_ok(control_address(r.address, sizeof(r.address), f->dir, &f->err), &f->err);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		request_in_thread(f, &r, rows[i].method, rows[i].path, rows[i].body);
		if ((r.rc < 0) != rows[i].fails)
			fail_msg("%s %s: %d %s", rows[i].method, rows[i].path, r.rc, r.err.msg);
		if (!strstr(rows[i].fails ? r.err.msg : buf_str(&r.answer), rows[i].says))
			fail_msg("%s %s: '%s' has no '%s'", rows[i].method, rows[i].path,
				rows[i].fails ? r.err.msg : buf_str(&r.answer), rows[i].says);
	}
	buf_fini(&r.answer);
	c = standin_control_stop(c);
	fixture_free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(config_volume_write__swaps_all_keys_at_once),
		cmocka_unit_test(control__answers_as_documented),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
