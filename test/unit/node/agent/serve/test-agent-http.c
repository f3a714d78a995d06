/* SPDX-License-Identifier: Apache-2.0 */

/* The unix socket of the agent: health, readiness and status of facts that the test chooses. No agent is linked. */
#include "unit/node/agent/agent-fixture.h"

#include "node/agent/serve/http.h"
#include "lib/base/fd.h"
#include "lib/base/paths.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define ANSWER_MAX (256 * 1024)

struct env {
	struct agent_fixture *f;
	struct components components;
	struct agent_config config;
	struct agent_cdi cdi;
	struct failure failure;
	struct agent_kubelet kubelet;
	struct cluster_client cluster;
	struct mig mig;
	struct mps mps;
	struct slices slices;
	struct agent_http http;

	const char *not_ready;          /* the reason; NULL: ready */
	const struct pod_devices *list; /* what the kubelet answers */
	void (*refreshed)(void *arg);   /* called by the test when the arbiter answers */
	void *refreshed_arg;
	bool arbiter_waits; /* it does not answer at once */

	int fd;
	char answer[ANSWER_MAX + 1];
	size_t len;
	bool ended;
};

/* --- what the agent answers --- */

static bool is_ready_now(void *arg, struct buf *why)
{
	const struct env *e = arg;

	if (e->not_ready)
		buf_printf(why, "%s\n", e->not_ready);
	return !e->not_ready;
}

static void refresh_test_slices(void *arg, void (*done)(void *done_arg), void *done_arg)
{
	struct env *e = arg;

	if (!e->arbiter_waits) {
		done(done_arg);
		return;
	}
	e->refreshed = done;
	e->refreshed_arg = done_arg;
}

static void answer_pod_devices(void *arg,
	void (*done)(void *done_arg, const struct pod_devices *list, const struct error *err),
	void *done_arg)
{
	const struct env *e = arg;
	struct error err = ERROR_INIT;

	if (!e->list)
		(void)error_set(&err, ERR_UNAVAILABLE, "no kubelet");
	done(done_arg, e->list, e->list ? NULL : &err);
}

static int refuse_view(void *arg, struct view **ret, struct error *err)
{
	(void)arg, (void)ret;
	return error_set(err, ERR_UNAVAILABLE, "no view");
}

static const struct agent_http_ops http_ops = {
	.is_ready = is_ready_now,
	.refresh_slices = refresh_test_slices,
	.request_pod_devices = answer_pod_devices,
	.get_view = refuse_view,
};

static bool is_each_device_ok(void *arg, const struct resource *r, const struct offer_device *d,
	const char **ret_why)
{
	(void)arg, (void)r, (void)d;
	if (ret_why)
		*ret_why = "";
	return true;
}

static const struct agent_kubelet_ops kubelet_ops = { .device_ok = is_each_device_ok };

/* --- the servers --- */

static int setup(void **state)
{
	struct env *e = calloc(1, sizeof(*e));

	assert_non_null(e);
	(void)agent_fixture_setup((void **)&e->f);
	e->fd = -1;
	agent_kubelet_init(&e->kubelet, &(struct agent_kubelet_context){ .loop = &e->f->loop,
						.facts = &e->f->facts,
						.reporter = &e->f->reporter,
						.cdi = &e->cdi,
						.wake = &e->f->wake,
						.failure = &e->failure,
						.ops = &kubelet_ops,
						.arg = e });
	e->cluster.c.options = (struct cluster_options){ .node_name = "node-1",
		.startup_taint = "",
		.node_condition = "" };
	e->slices.c.facts = &e->f->facts;
	agent_http_init(&e->http, &(struct agent_http_context){ .loop = &e->f->loop,
					  .reporter = &e->f->reporter,
					  .run_dir = e->f->dir,
					  .listen = "",
					  .status = { .facts = &e->f->facts,
						  .components = &e->components,
						  .config = &e->config,
						  .kubelet = &e->kubelet,
						  .cluster = &e->cluster,
						  .mig = &e->mig,
						  .mps = &e->mps,
						  .slices = &e->slices,
						  .started_wall_ns = NS_PER_SEC },
					  .ops = &http_ops,
					  .arg = e });
	agent_http_sync(&e->http);
	assert_int_equal(e->f->components[COMPONENT_STATUS_SOCKET].code, ERR_NONE);
	*state = e;
	return 0;
}

static int teardown(void **state)
{
	struct env *e = *state;

	closep(&e->fd);
	agent_http_stop(&e->http);
	agent_kubelet_fini(&e->kubelet);
	(void)agent_fixture_teardown((void **)&e->f);
	free(e);
	return 0;
}

static void send_request(struct env *e, const char *method, const char *path)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	char text[256];
	int n = snprintf(text, sizeof(text),
		"%s %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", method, path);

	assert_int_equal(
		path_join(at.sun_path, sizeof(at.sun_path), e->f->dir, AGENT_SOCKET, NULL), 0);
	closep(&e->fd);
	e->len = 0;
	e->ended = false;
	e->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_true(e->fd >= 0);
	assert_int_equal(connect(e->fd, (const struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(send(e->fd, text, (size_t)n, MSG_NOSIGNAL), n);
}

/* Whether the whole answer is there. */
static bool has_answer(struct env *e)
{
	ssize_t n;

	while (!e->ended &&
		(n = recv(e->fd, e->answer + e->len, ANSWER_MAX - e->len, 0)) >= 0) {
		e->len += (size_t)n;
		e->ended = n == 0;
	}
	e->answer[e->len] = '\0';
	return e->ended;
}

/* Returns the status code of the answer; *ret_body: in .answer. */
static int read_answer(struct env *e, const char **ret_body)
{
	const char *body;
	int code = 0;

	agent_fixture_until(e->f, has_answer(e));
	body = strstr(e->answer, "\r\n\r\n");
	assert_non_null(body);
	assert_int_equal(sscanf(e->answer, "HTTP/1.1 %d", &code), 1);
	*ret_body = body + 4;
	return code;
}

static int request_path(struct env *e, const char *path, const char **ret_body)
{
	send_request(e, "GET", path);
	return read_answer(e, ret_body);
}

/* The caller releases it. */
static json_t *request_status(struct env *e)
{
	const char *body;
	json_t *o;

	assert_int_equal(request_path(e, "/v1/status", &body), 200);
	o = json_loads(body, 0, NULL);
	assert_non_null(o);
	return o;
}

static const char *get_text(const json_t *o, const char *key)
{
	const char *text = json_string_value(json_object_get(o, key));

	assert_non_null(text);
	return text;
}

static json_int_t get_number(const json_t *o, const char *key)
{
	assert_true(json_is_integer(json_object_get(o, key)));
	return json_integer_value(json_object_get(o, key));
}

/* --- health --- */

static void agent_http__healthz_holds_while_the_agent_is_not_ready(void **state)
{
	struct env *e = *state;
	const char *body;

	e->not_ready = "nvml: starting";
	assert_int_equal(request_path(e, "/healthz", &body), 200);
	assert_string_equal(body, "ok\n");
	assert_int_equal(request_path(e, "/readyz", &body), 503);
	assert_string_equal(body, "nvml: starting\n");
	e->not_ready = NULL;
	assert_int_equal(request_path(e, "/readyz", &body), 200);
	assert_string_equal(body, "ok\n");
}

static void agent_http__refuses_other_methods_and_paths(void **state)
{
	struct env *e = *state;
	const char *body;

	assert_int_equal(request_path(e, "/v1/other", &body), 404);
	assert_non_null(strstr(body, "no such path"));
	send_request(e, "DELETE", "/v1/status");
	assert_int_equal(read_answer(e, &body), 405);
	assert_int_equal(request_path(e, "/api/v1/node", &body), 503);
	assert_non_null(strstr(body, "no view"));
}

static void agent_http_sync__replaces_a_socket_that_vanished(void **state)
{
	struct env *e = *state;
	char path[PATH_MAX];
	const char *body;

	assert_int_equal(path_join(path, sizeof(path), e->f->dir, AGENT_SOCKET, NULL), 0);
	assert_int_equal(unlink(path), 0);
	agent_http_sync(&e->http);
	assert_int_equal(request_path(e, "/healthz", &body), 200);
}

/* --- status --- */

static void agent_status_json__has_no_gpu_before_nvml_answers(void **state)
{
	struct env *e = *state;
	json_t *o = request_status(e);

	assert_string_equal(get_text(json_object_get(o, "nvml"), "state"), "starting");
	assert_int_equal(json_array_size(json_object_get(o, "gpus")), 0);
	assert_int_equal(json_array_size(json_object_get(o, "resources")), 0);
	assert_string_equal(get_text(json_object_get(o, "cluster"), "node"), "node-1");
	assert_string_equal(get_text(json_object_get(o, "cluster"), "state"), "off");
	assert_string_equal(get_text(o, "started"), "1970-01-01T00:00:01.000Z");
	json_decref(o);
}

/* Two GPUs, shared by two. */
static const struct resource *know_two(struct env *e)
{
	struct config *c = fixture_config();

	(void)fixture_share(c, "nvidia.com/gpu", NULL, 2, NULL);
	agent_fixture_know(e->f, fixture_inventory(2), c);
	return &e->f->facts.offered.offer->resources[0];
}

static void agent_status_json__counts_replicas_that_pods_have(void **state)
{
	struct env *e = *state;
	const struct resource *r = know_two(e);
	static char namespace_[] = "ns", pod[] = "train", container[] = "main";
	char name[256];
	struct pod_device device = { .namespace_ = namespace_,
		.pod = pod,
		.container = container,
		.resource = name,
		.id = r->devices[0].id };
	const struct pod_devices list = { .v = &device, .n = 1 };
	const json_t *resource, *holder;
	json_t *o;

	(void)snprintf(name, sizeof(name), "%s", r->name);
	e->list = &list;
	o = request_status(e);
	assert_string_equal(get_text(json_object_get(o, "nvml"), "state"), "up");
	assert_int_equal(json_array_size(json_object_get(o, "gpus")), 2);
	resource = json_array_get(json_object_get(o, "resources"), 0);
	assert_string_equal(get_text(resource, "name"), r->name);
	assert_int_equal(get_number(resource, "capacity"), 4);
	assert_int_equal(get_number(resource, "allocatable"), 4);
	assert_int_equal(get_number(resource, "used"), 1);
	holder = json_object_get(json_array_get(json_object_get(resource, "slices"), 0),
		"holder");
	assert_string_equal(get_text(holder, "pod"), "train");
	assert_true(json_is_true(json_object_get(json_object_get(o, "holders"), "known")));
	json_decref(o);

	/* The number is unknown without the kubelet's answer, and the reason is there. */
	e->list = NULL;
	o = request_status(e);
	resource = json_array_get(json_object_get(o, "resources"), 0);
	assert_true(json_is_null(json_object_get(resource, "used")));
	assert_string_equal(
		get_text(json_object_get(json_object_get(o, "holders"), "error"), "message"),
		"no kubelet");
	json_decref(o);
}

static void agent_status_json__hides_resources_after_a_failed_decision(void **state)
{
	struct env *e = *state;
	json_t *o;

	(void)know_two(e);
	(void)error_set(&e->f->facts.offer_error, ERR_INVALID, "no such GPU");
	o = request_status(e);
	assert_int_equal(json_array_size(json_object_get(o, "resources")), 0);
	assert_string_equal(get_text(json_object_get(o, "error"), "message"), "no such GPU");
	json_decref(o);
}

static void agent_status_json__shows_degraded_components(void **state)
{
	struct env *e = *state;
	const json_t *c;
	json_t *o;

	(void)error_set(&e->components.v[COMPONENT_PRICES].why, ERR_INVALID, "no prices");
	o = request_status(e);
	c = json_array_get(json_object_get(o, "components"), COMPONENT_PRICES);
	assert_string_equal(get_text(c, "name"), component_name(COMPONENT_PRICES));
	assert_true(json_is_true(json_object_get(c, "degraded")));
	assert_string_equal(get_text(c, "reason"), "no prices");
	json_decref(o);
}

static void agent_http__status_waits_for_the_arbiter(void **state)
{
	struct env *e = *state;
	const char *body;

	e->arbiter_waits = true;
	send_request(e, "GET", "/v1/status");
	agent_fixture_until(e->f, e->refreshed != NULL);
	assert_false(has_answer(e));
	e->refreshed(e->refreshed_arg);
	assert_int_equal(read_answer(e, &body), 200);
}

#define HTTP_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		HTTP_TEST(agent_http__healthz_holds_while_the_agent_is_not_ready),
		HTTP_TEST(agent_http__refuses_other_methods_and_paths),
		HTTP_TEST(agent_http__status_waits_for_the_arbiter),
		HTTP_TEST(agent_http_sync__replaces_a_socket_that_vanished),
		HTTP_TEST(agent_status_json__has_no_gpu_before_nvml_answers),
		HTTP_TEST(agent_status_json__counts_replicas_that_pods_have),
		HTTP_TEST(agent_status_json__hides_resources_after_a_failed_decision),
		HTTP_TEST(agent_status_json__shows_degraded_components),
	};

	return cmocka_run_group_tests_name("agent-http", tests, NULL, NULL);
}
