/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "lib/base/fd.h"
#include "lib/base/time.h"
#include "io/kubelet/messages/messages.h"
#include "testbed/standin/kubelet/internal.h"
#include "testbed/standin/standin.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define GPU        "nvidia.com/gpu"
#define TIMEOUT_NS (5 * NS_PER_SEC)

/* A scripted device plugin. */
struct plugin {
	struct rpc *rpc;
	struct rpc_server *server;
	char path[128];
	const char *devices; /* "a b !c" */
	const char *prefer;  /* ids to prefer, NULL: no such option */
	const char *allocate_error;
	bool pre_start;
	bool hold_options, hold_allocate; /* keeps the call in .held instead of answering */
	struct rpc_call *held;
	struct rpc_call *streams[8];
	unsigned n_streams, options, preferences, allocations, pre_starts, ended;
	bool answered_before_registered; /* the options call came before Register returned */
	bool registered;
	char register_error[256];
	enum rpc_status register_status;
	unsigned register_answers;
	struct rpc_client *kubelet;
};

struct fixture {
	char *dir;
	uv_loop_t loop;
	uv_timer_t tick;
	struct rpc *rpc;
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
	assert_ok(rpc_new(&f->rpc, &f->loop, &f->err), &f->err);
	assert_ok(standin_start(&f->s, &f->loop, &o, NULL, NULL, &f->err), &f->err);
	return f;
}

static void fixture_free(struct fixture *f)
{
	f->s = standin_stop(f->s);
	f->rpc = rpc_free(f->rpc);
	uv_close((uv_handle_t *)&f->tick, NULL);
	(void)uv_run(&f->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&f->loop), 0);
	test_rmdir(f->dir);
	free(f);
}

#define WAIT_FOR(f, condition)                                                             \
	do {                                                                               \
		uint64_t wait_end_ = time_mono_ns() + TIMEOUT_NS;                          \
		while (!(condition) && time_mono_ns() < wait_end_)                         \
			(void)uv_run(&(f)->loop, UV_RUN_ONCE);                             \
		if (!(condition))                                                          \
			fail_msg("%s:%d: never came: %s", __FILE__, __LINE__, #condition); \
	} while (0)

static void run_for(struct fixture *f, uint64_t ns)
{
	uint64_t end = time_mono_ns() + ns;

	while (time_mono_ns() < end)
		(void)uv_run(&f->loop, UV_RUN_ONCE);
}

/* --- the plugin --- */

/* Words of @text, at most 16; returns how many. */
static size_t split_words(const char *text, char ret[16][24])
{
	size_t n = 0;

	while (*text) {
		size_t len = strcspn(text, " ");

		memcpy(ret[n], text, len);
		ret[n++][len] = '\0';
		text += len + (text[len] == ' ');
	}
	return n;
}

static void send_devices(struct plugin *p, struct rpc_call *call)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(65536);
	struct plugin_device v[16];
	char ids[16][24];
	size_t n = split_words(p->devices, ids);

	for (size_t i = 0; i < n; i++)
		v[i] = (struct plugin_device){ .id = ids[i][0] == '!' ? ids[i] + 1 : ids[i],
			.healthy = ids[i][0] != '!',
			.numa_node = -1 };
	assert_int_equal(plugin_devices_encode(&b, v, n, NULL), 0);
	rpc_stream_send(call, buf_str(&b), b.len);
}

static void set_devices(struct plugin *p, const char *devices)
{
	p->devices = devices;
	for (unsigned i = 0; i < ARRAY_LEN(p->streams); i++) {
		if (p->streams[i])
			send_devices(p, p->streams[i]);
	}
}

static void send_plugin_options(struct plugin *p, struct rpc_call *call)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(4096);
	struct plugin_options o = { .preferred_allocation = p->prefer != NULL,
		.pre_start_required = p->pre_start };

	assert_int_equal(plugin_options_encode(&b, &o, NULL), 0);
	rpc_reply(call, buf_str(&b), b.len);
}

static void on_options(struct rpc_call *call, const uint8_t *data, size_t len, void *arg)
{
	struct plugin *p = arg;

	(void)data;
	(void)len;
	p->options++;
	p->answered_before_registered = !p->registered;
	if (p->hold_options)
		p->held = call;
	else
		send_plugin_options(p, call);
}

static void on_stream_end(struct rpc_call *call, void *arg)
{
	struct plugin *p = arg;

	p->ended++;
	p->n_streams--;
	for (unsigned i = 0; i < ARRAY_LEN(p->streams); i++) {
		if (p->streams[i] == call)
			p->streams[i] = NULL;
	}
}

static void on_watch(struct rpc_call *call, const uint8_t *data, size_t len, void *arg)
{
	struct plugin *p = arg;

	(void)data;
	(void)len;
	for (unsigned i = 0; i < ARRAY_LEN(p->streams); i++) {
		if (!p->streams[i]) {
			p->streams[i] = call;
			break;
		}
	}
	p->n_streams++;
	rpc_stream_on_end(call, on_stream_end, p);
	send_devices(p, call);
}

static void on_prefer(struct rpc_call *call, const uint8_t *data, size_t len, void *arg)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(65536);
	CLEANUP(prefer_requests_fini) struct prefer_requests r = { .n = 0 };
	struct plugin *p = arg;
	char ids[16][24];
	const char *v[16];
	struct id_list list = { .v = v };

	p->preferences++;
	assert_int_equal(prefer_request_decode(&r, data, len, NULL), 0);
	assert_int_equal(r.n, 1);
	list.n = split_words(p->prefer, ids);
	for (size_t i = 0; i < list.n; i++)
		v[i] = ids[i];
	assert_int_equal(prefer_response_encode(&b, &list, 1, NULL), 0);
	rpc_reply(call, buf_str(&b), b.len);
}

static void on_allocate(struct rpc_call *call, const uint8_t *data, size_t len, void *arg)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(65536);
	CLEANUP(id_lists_fini) struct id_lists ids = { .n = 0 };
	struct plugin *p = arg;
	char name[] = "DEVICES", value[256] = "";
	struct alloc_env env = { name, value };
	struct allocation a = { .envs = &env, .n_envs = 1 };
	const struct allocation *list = &a;

	p->allocations++;
	assert_int_equal(allocate_request_decode(&ids, data, len, NULL), 0);
	assert_int_equal(ids.n, 1); /* never batched */
	if (p->hold_allocate) {
		p->held = call;
		return;
	}
	if (p->allocate_error) {
		rpc_reply_error(call, RPC_UNKNOWN, p->allocate_error);
		return;
	}
	for (size_t i = 0; i < ids.v[0].n; i++)
		(void)snprintf(value + strlen(value), sizeof(value) - strlen(value), "%s%s",
			i ? "," : "", ids.v[0].v[i]);
	assert_int_equal(allocate_response_encode(&b, &list, 1, NULL), 0);
	rpc_reply(call, buf_str(&b), b.len);
}

static void on_pre_start(struct rpc_call *call, const uint8_t *data, size_t len, void *arg)
{
	struct plugin *p = arg;

	(void)data;
	(void)len;
	p->pre_starts++;
	rpc_reply(call, "", 0);
}

static const struct rpc_method methods[] = {
	{ METHOD_PLUGIN_OPTIONS, false, on_options },
	{ METHOD_LIST_AND_WATCH, true, on_watch },
	{ METHOD_PREFER, false, on_prefer },
	{ METHOD_ALLOCATE, false, on_allocate },
	{ METHOD_PRE_START, false, on_pre_start },
};

static void start_test_plugin(struct fixture *f, struct plugin *p, const char *endpoint)
{
	(void)snprintf(p->path, sizeof(p->path), "%s/device-plugins/%s", f->dir, endpoint);
	assert_ok(
		rpc_serve(f->rpc, p->path, methods, ARRAY_LEN(methods), p, &p->server, &f->err),
		&f->err);
}

static void on_registered(void *arg, enum rpc_status status, const char *text,
	const uint8_t *reply, size_t len)
{
	struct plugin *p = arg;

	(void)reply;
	(void)len;
	p->register_status = status;
	p->register_answers++;
	p->registered = status == RPC_OK;
	(void)snprintf(p->register_error, sizeof(p->register_error), "%s", text);
}

static void register_as(struct fixture *f, struct plugin *p, const char *version,
	const char *endpoint, const char *resource, uint64_t timeout_ns)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(4096);
	struct register_request r = { .version = version,
		.endpoint = endpoint,
		.resource_name = resource };
	char path[128];

	p->registered = false;
	(void)snprintf(path, sizeof(path), "%s/device-plugins/kubelet.sock", f->dir);
	if (p->kubelet)
		rpc_client_close(p->kubelet);
	assert_ok(rpc_dial(f->rpc, path, &p->kubelet, &f->err), &f->err);
	assert_ok(register_request_encode(&b, &r, &f->err), &f->err);
	assert_ok(rpc_invoke(p->kubelet, METHOD_REGISTER, buf_str(&b), b.len, timeout_ns,
			  on_registered, p, &f->err),
		&f->err);
}

static void plugin_start(struct fixture *f, struct plugin *p, const char *endpoint)
{
	unsigned before = p->register_answers;

	start_test_plugin(f, p, endpoint);
	register_as(f, p, "v1beta1", endpoint, GPU, TIMEOUT_NS);
	WAIT_FOR(f, p->register_answers > before);
	if (!p->registered)
		fail_msg("not registered: %s", p->register_error);
}

static struct resource_count count_resource(struct fixture *f)
{
	struct resource_count c;

	(void)device_manager_count(kubelet_devices(standin_kubelet(f->s)), GPU, &c);
	return c;
}

static void apply_pods(struct fixture *f, unsigned n, unsigned gpus)
{
	CLEANUP(freep) char *text = NULL;
	CLEANUP(manifest_freep) struct manifest *m = NULL;

	if (asprintf(&text,
		    "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec: {replicas: %u, "
		    "selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: "
		    "{containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: %u}}}]}}}\n",
		    n, gpus) < 0)
		abort();
	assert_ok(manifest_parse(&m, "a.yaml", text, strlen(text), &f->err), &f->err);
	assert_ok(standin_apply(f->s, m, NULL, &f->err), &f->err);
}

static struct pod_counts count_standin_pods(struct fixture *f)
{
	return cluster_count_pods(standin_cluster(f->s), NULL);
}

/* --- tests --- */

static void kubelet_start__deletes_sockets_and_nothing_else(void **state)
{
	struct fixture *f = fixture_new();
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	char path[128], other[128];
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct stat st;

	(void)state;
	standin_kill(f->s, /* killed= */ true);
	(void)snprintf(path, sizeof(path), "%s/device-plugins/kubelet.sock", f->dir);
	assert_int_equal(lstat(path, &st), 0); /* a killed kubelet leaves its socket */
	(void)snprintf(other, sizeof(other), "%s/device-plugins/checkpoint", f->dir);
	assert_ok(file_write_atomic(other, "x", 1, 0600, &f->err), &f->err);
	(void)snprintf(a.sun_path, sizeof(a.sun_path), "%s/device-plugins/old.sock", f->dir);
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	(void)close(fd);

	assert_ok(standin_revive(f->s, &f->err), &f->err);
	assert_int_equal(lstat(a.sun_path, &st), -1);
	assert_int_equal(lstat(other, &st), 0);
	assert_int_equal(lstat(path, &st), 0);
	(void)snprintf(path, sizeof(path), "%s/device-plugins", f->dir);
	assert_int_equal(lstat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0750);
	fixture_free(f);
}

static void standin_start__refuses_where_a_kubelet_answers(void **state)
{
	struct fixture *f = fixture_new();
	struct standin_options o = { .dir = f->dir };
	struct standin *second = NULL;

	(void)state;
	assert_error(standin_start(&second, &f->loop, &o, NULL, NULL, &f->err), &f->err,
		"a kubelet answers in");
	assert_int_equal(f->err.code, ERR_EXISTS);
	fixture_free(f);
}

static void kubelet_register__makes_the_checks_of_the_kubelet(void **state)
{
	static const struct {
		const char *version, *resource, *endpoint, *says;
	} rows[] = {
		{ "v1alpha", GPU, "p.sock",
			"requested API version \"v1alpha\" is not supported by "
			"kubelet. Supported version is [\"v1beta1\"]" },
		{ "v1beta1", "gpu", "p.sock", "the ResourceName \"gpu\" is invalid" },
		{ "v1beta1", "kubernetes.io/gpu", "p.sock", "is invalid" },
		{ "v1beta1", "requests.nvidia.com/gpu", "p.sock", "is invalid" },
		{ "v1beta1", GPU, "nobody.sock",
			"failed to get device plugin options: rpc error: "
			"code = Unavailable" },
	};
	struct fixture *f = fixture_new();
	struct plugin p = { .devices = "a" };

	(void)state;
	start_test_plugin(f, &p, "p.sock");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		register_as(f, &p, rows[i].version, rows[i].endpoint, rows[i].resource,
			TIMEOUT_NS);
		WAIT_FOR(f, p.register_answers == i + 1);
		assert_int_equal(p.register_status, RPC_UNKNOWN);
		if (!strstr(p.register_error, rows[i].says))
			fail_msg("'%s' has no '%s'", p.register_error, rows[i].says);
	}
	assert_int_equal(p.options, 0);
	register_as(f, &p, "v1beta1", "p.sock", GPU, TIMEOUT_NS);
	WAIT_FOR(f, p.registered);
	assert_true(p.answered_before_registered);
	WAIT_FOR(f, count_resource(f).allocatable == 1);
	fixture_free(f);
}

static void kubelet__counts_the_devices_of_the_plugin(void **state)
{
	struct fixture *f = fixture_new();
	struct plugin p = { .devices = "a b !c" };

	(void)state;
	plugin_start(f, &p, "p.sock");
	WAIT_FOR(f, count_resource(f).capacity == 3);
	assert_int_equal(count_resource(f).allocatable, 2);
	set_devices(&p, "a b c d");
	WAIT_FOR(f, count_resource(f).allocatable == 4);
	/* The plugin ends: capacity stays, allocatable is 0, pods continue. */
	apply_pods(f, 2, 1);
	WAIT_FOR(f, count_standin_pods(f).running == 2);
	rpc_server_close(p.server);
	WAIT_FOR(f, count_resource(f).allocatable == 0);
	assert_int_equal(count_resource(f).capacity, 4);
	assert_int_equal(count_standin_pods(f).running, 2);
	/* The plugin comes back. */
	plugin_start(f, &p, "p.sock");
	WAIT_FOR(f, count_resource(f).allocatable == 4);
	assert_int_equal(count_resource(f).granted, 2);
	fixture_free(f);
}

static void kubelet__admits_pods_and_leaves_the_rest_pending(void **state)
{
	struct fixture *f = fixture_new();
	struct plugin p = { .devices = "a b c d", .prefer = "c d nonsense" };
	const struct device_grant *g;

	(void)state;
	plugin_start(f, &p, "p.sock");
	WAIT_FOR(f, count_resource(f).allocatable == 4);
	apply_pods(f, 3, 2);
	WAIT_FOR(f, count_standin_pods(f).running == 2 && count_standin_pods(f).pending == 1);
	assert_int_equal(p.allocations, 2);
	assert_int_equal(p.preferences, 2);
	g = device_manager_grant(kubelet_devices(standin_kubelet(f->s)), 0);
	assert_true(strv_has(&g->ids, "c") && strv_has(&g->ids, "d"));
	assert_ok(standin_delete(f->s, OBJECT_DEPLOYMENT, NULL, "d", &f->err), &f->err);
	WAIT_FOR(f, count_standin_pods(f).total == 0);
	assert_int_equal(count_resource(f).granted, 0);
	fixture_free(f);
}

static void kubelet__fails_a_pod_whose_allocation_fails(void **state)
{
	struct fixture *f = fixture_new();
	struct plugin p = { .devices = "a", .allocate_error = "invalid allocation request" };
	const struct pod *pod;

	(void)state;
	plugin_start(f, &p, "p.sock");
	WAIT_FOR(f, count_resource(f).allocatable == 1);
	apply_pods(f, 1, 1);
	WAIT_FOR(f, count_standin_pods(f).failed == 1);
	pod = standin_cluster(f->s)->pods[0];
	assert_string_equal(pod->reason, "UnexpectedAdmissionError");
	assert_string_equal(pod->message,
		"Pod was rejected: Allocate failed due to rpc error: code = Unknown desc = invalid "
		"allocation request, which is unexpected");
	assert_string_equal(pod->events[pod->n_events - 1].text,
		"Allocate failed due to rpc error: code = Unknown desc = invalid allocation request, "
		"which is unexpected");
	assert_int_equal(count_resource(f).granted, 0);
	p.allocate_error = NULL;
	WAIT_FOR(f, count_standin_pods(f).running == 1); /* the controller makes another */
	fixture_free(f);
}

static void kubelet__calls_pre_start_where_it_is_required(void **state)
{
	struct fixture *f = fixture_new();
	struct plugin p = { .devices = "a b", .pre_start = true };

	(void)state;
	plugin_start(f, &p, "p.sock");
	WAIT_FOR(f, count_resource(f).allocatable == 2);
	apply_pods(f, 2, 1);
	WAIT_FOR(f, count_standin_pods(f).running == 2);
	assert_int_equal(p.pre_starts, 2);
	fixture_free(f);
}

static void kubelet__restarts_with_its_pods_and_without_its_devices(void **state)
{
	struct fixture *f = fixture_new();
	struct plugin p = { .devices = "a b" };
	struct stat st;

	(void)state;
	plugin_start(f, &p, "p.sock");
	WAIT_FOR(f, count_resource(f).allocatable == 2);
	apply_pods(f, 1, 1);
	WAIT_FOR(f, count_standin_pods(f).running == 1);
	assert_ok(standin_restart(f->s, 0, false, &f->err), &f->err);
	WAIT_FOR(f, p.ended == 1);
	assert_int_equal(count_resource(f).capacity, 0);
	assert_int_equal(count_standin_pods(f).running, 1);
	assert_int_equal(lstat(p.path, &st), -1); /* our socket too is deleted */
	rpc_server_close(p.server);
	plugin_start(f, &p, "p.sock");
	WAIT_FOR(f, count_resource(f).allocatable == 2);
	assert_int_equal(count_resource(f).granted, 1);
	assert_int_equal(count_standin_pods(f).running, 1);
	fixture_free(f);
}

/* Only the kubelet writes the node's status, so the scheduler continues with its last status. */
static void standin_node__stays_while_the_kubelet_is_down(void **state)
{
	struct fixture *f = fixture_new();
	struct plugin p = { .devices = "a b" };

	(void)state;
	plugin_start(f, &p, "p.sock");
	WAIT_FOR(f, count_resource(f).allocatable == 2);
	WAIT_FOR(f, standin_node(f->s)->n_resources == 1);
	standin_kill(f->s, /* killed= */ false);
	assert_int_equal(standin_node(f->s)->resources[0].capacity, 2);
	assert_int_equal(standin_node(f->s)->resources[0].allocatable, 2);
	apply_pods(f, 1, 1);
	WAIT_FOR(f, count_standin_pods(f).starting == 1);
	rpc_server_close(p.server);
	assert_ok(standin_revive(f->s, &f->err), &f->err);
	assert_int_equal(standin_node(f->s)->resources[0].capacity, 0);
	WAIT_FOR(f, count_standin_pods(f).failed ==
			    1); /* bound, and its devices are not there yet */
	fixture_free(f);
}

static void kubelet__disconnects_the_new_plugin_only_with_the_race(void **state)
{
	(void)state;
	for (int race = 0; race < 2; race++) {
		struct fixture *f = fixture_new();
		struct plugin old = { .devices = "a" }, fresh = { .devices = "b c" };

		kubelet_faults(standin_kubelet(f->s))->reregister_race = race;
		plugin_start(f, &old, "old.sock");
		WAIT_FOR(f, count_resource(f).allocatable == 1);
		plugin_start(f, &fresh, "new.sock");
		WAIT_FOR(f, count_resource(f).allocatable == 2); /* the last one wins */
		rpc_server_close(old.server);
		if (race) {
			WAIT_FOR(f, fresh.ended == 1);
			assert_int_equal(count_resource(f).allocatable, 0);
		} else {
			run_for(f, 50 * NS_PER_MS);
			assert_int_equal(fresh.ended, 0);
			assert_int_equal(count_resource(f).allocatable, 2);
		}
		fixture_free(f);
	}
}

static void standin_fault__makes_registration_fail(void **state)
{
	CLEANUP(buf_fini) struct buf said = BUF_INIT(1024);
	const char *two = "2", *on = "on", *ms = "50";
	struct fixture *f = fixture_new();
	struct plugin p = { .devices = "a" };
	uint64_t start;

	(void)state;
	start_test_plugin(f, &p, "p.sock");
	assert_ok(standin_fault(f->s, "refuse", &two, 1, &said, &f->err), &f->err);
	for (unsigned i = 1; i <= 2; i++) {
		register_as(f, &p, "v1beta1", "p.sock", GPU, TIMEOUT_NS);
		WAIT_FOR(f, p.register_answers == i);
		assert_false(p.registered);
	}
	assert_ok(standin_fault(f->s, "delay", &ms, 1, &said, &f->err), &f->err);
	start = time_mono_ns();
	register_as(f, &p, "v1beta1", "p.sock", GPU, TIMEOUT_NS);
	WAIT_FOR(f, p.registered);
	assert_true(time_mono_ns() - start >= 50 * NS_PER_MS);
	assert_ok(standin_fault(f->s, "clear", NULL, 0, &said, &f->err), &f->err);
	assert_ok(standin_fault(f->s, "never-answer", &on, 1, &said, &f->err), &f->err);
	register_as(f, &p, "v1beta1", "p.sock", GPU, 100 * NS_PER_MS);
	WAIT_FOR(f, p.register_answers == 4);
	assert_int_equal(p.register_status, RPC_DEADLINE_EXCEEDED);
	assert_error(standin_fault(f->s, "nonsense", NULL, 0, &said, &f->err), &f->err,
		"no fault");
	assert_error(standin_fault(f->s, "refuse", &on, 1, &said, &f->err), &f->err,
		"expected a number, found 'on'");
	fixture_free(f);
}

static void standin_fault__breaks_streams_and_sockets(void **state)
{
	CLEANUP(buf_fini) struct buf said = BUF_INIT(1024);
	struct fixture *f = fixture_new();
	struct plugin p = { .devices = "a b" };
	struct stat st;

	(void)state;
	plugin_start(f, &p, "p.sock");
	WAIT_FOR(f, count_resource(f).allocatable == 2);
	assert_ok(standin_fault(f->s, "duplicate-stream", NULL, 0, &said, &f->err), &f->err);
	WAIT_FOR(f, p.n_streams == 2);
	assert_ok(standin_fault(f->s, "slow-reader", NULL, 0, &said, &f->err), &f->err);
	WAIT_FOR(f, p.n_streams == 3);
	set_devices(&p, "a b c"); /* a client that does not read delays no other client */
	WAIT_FOR(f, count_resource(f).allocatable == 3);
	assert_ok(standin_fault(f->s, "delete-sockets", NULL, 0, &said, &f->err), &f->err);
	assert_int_equal(lstat(p.path, &st), -1);
	assert_ok(standin_fault(f->s, "drop-streams", NULL, 0, &said, &f->err), &f->err);
	WAIT_FOR(f, p.ended == 2); /* both of that connection */
	assert_int_equal(count_resource(f).allocatable, 0);
	assert_int_equal(count_resource(f).capacity, 3);
	fixture_free(f);
}

static void kubelet_register__waits_for_the_options(void **state)
{
	struct fixture *f = fixture_new();
	struct plugin p = { .devices = "a", .hold_options = true };

	(void)state;
	start_test_plugin(f, &p, "p.sock");
	register_as(f, &p, "v1beta1", "p.sock", GPU, TIMEOUT_NS);
	WAIT_FOR(f, p.held);
	run_for(f, 30 * NS_PER_MS);
	assert_int_equal(p.register_answers, 0);
	assert_int_equal(p.n_streams, 0); /* ListAndWatch comes after it */
	send_plugin_options(&p, p.held);
	WAIT_FOR(f, p.registered && p.n_streams == 1);
	fixture_free(f);
}

static void kubelet__drops_the_admission_of_a_deleted_pod(void **state)
{
	struct fixture *f = fixture_new();
	struct plugin p = { .devices = "a", .hold_allocate = true };

	(void)state;
	plugin_start(f, &p, "p.sock");
	WAIT_FOR(f, count_resource(f).allocatable == 1);
	apply_pods(f, 1, 1);
	WAIT_FOR(f, p.held);
	assert_int_equal(count_standin_pods(f).starting, 1);
	assert_ok(standin_delete(f->s, OBJECT_DEPLOYMENT, NULL, "d", &f->err), &f->err);
	assert_int_equal(count_standin_pods(f).total, 0);
	rpc_reply_error(p.held, RPC_UNKNOWN, "too late");
	run_for(f, 30 * NS_PER_MS);
	assert_int_equal(count_resource(f).granted, 0);
	p.hold_allocate = false;
	apply_pods(f, 1, 1);
	WAIT_FOR(f, count_standin_pods(f).running == 1);
	fixture_free(f);
}

static void kubelet__repeats_an_admission_that_a_restart_interrupted(void **state)
{
	struct fixture *f = fixture_new();
	struct plugin p = { .devices = "a", .hold_allocate = true };

	(void)state;
	plugin_start(f, &p, "p.sock");
	WAIT_FOR(f, count_resource(f).allocatable == 1);
	apply_pods(f, 1, 1);
	WAIT_FOR(f, p.held);
	standin_kill(f->s, /* killed= */ false);
	assert_int_equal(count_standin_pods(f).starting, 1);
	assert_int_equal(count_resource(f).granted, 0);
	rpc_server_close(p.server);
	rpc_reply_error(p.held, RPC_UNKNOWN, "too late");
	p.hold_allocate = false;
	/* Before the plugin is back a pod that was bound cannot be admitted, as on a real node. */
	assert_ok(standin_revive(f->s, &f->err), &f->err);
	WAIT_FOR(f, count_standin_pods(f).failed == 1);
	assert_string_equal(standin_cluster(f->s)->pods[0]->message,
		"Pod was rejected: Allocate failed due to no healthy devices present; cannot allocate "
		"unhealthy devices nvidia.com/gpu, which is unexpected");
	plugin_start(f, &p, "p.sock");
	WAIT_FOR(f, count_standin_pods(f).running == 1);
	fixture_free(f);
}

/* --- PodResources --- */

struct listing {
	unsigned answers, ok, exhausted;
	char text[512];
};

static void on_list(void *arg, enum rpc_status status, const char *text, const uint8_t *reply,
	size_t len)
{
	CLEANUP(pod_entries_fini) struct pod_entries e = { .n = 0 };
	struct listing *l = arg;

	l->answers++;
	l->ok += status == RPC_OK;
	if (status == RPC_RESOURCE_EXHAUSTED) {
		l->exhausted++;
		assert_string_equal(text, "rejected by rate limit");
	}
	if (status != RPC_OK)
		return;
	assert_int_equal(pod_list_decode(&e, reply, len, NULL), 0);
	l->text[0] = '\0';
	for (size_t i = 0; i < e.n; i++)
		(void)snprintf(l->text + strlen(l->text), sizeof(l->text) - strlen(l->text),
			"%s/%s=%s ", e.v[i].namespace_, e.v[i].container,
			e.v[i].id ? e.v[i].id : "-");
}

static void kubelet__lists_pod_devices_at_most_100_times_a_second(void **state)
{
	struct fixture *f = fixture_new();
	struct plugin p = { .devices = "a", .prefer = "a" };
	struct listing l = { .ok = 0 };
	struct rpc_client *c;
	char path[128];

	(void)state;
	plugin_start(f, &p, "p.sock");
	WAIT_FOR(f, count_resource(f).allocatable == 1);
	apply_pods(f, 1, 1);
	WAIT_FOR(f, count_standin_pods(f).running == 1);
	(void)snprintf(path, sizeof(path), "%s/pod-resources/kubelet.sock", f->dir);
	assert_ok(rpc_dial(f->rpc, path, &c, &f->err), &f->err);
	for (int i = 0; i < 40; i++)
		assert_ok(
			rpc_invoke(c, METHOD_POD_LIST, "", 0, TIMEOUT_NS, on_list, &l, &f->err),
			&f->err);
	WAIT_FOR(f, l.answers == 40);
	assert_string_equal(l.text, "default/c=a ");
	assert_true(l.ok >= 10 && l.exhausted > 0);
	rpc_client_close(c);
	fixture_free(f);
}

static void token_bucket_consume__allows_bursts_of_ten(void **state)
{
	struct token_bucket b = { 0 };
	uint64_t now = 5 * NS_PER_SEC;
	unsigned n = 0;

	(void)state;
	for (int i = 0; i < 40; i++)
		n += token_bucket_consume(&b, now);
	assert_int_equal(n, 10);
	assert_false(token_bucket_consume(&b, now + 9 * NS_PER_MS));
	now += 10 * NS_PER_MS;
	assert_true(token_bucket_consume(&b, now));
	for (int i = 0; i < 1000; i++) {
		now += NS_PER_MS;
		n += token_bucket_consume(&b, now);
	}
	assert_in_range(n, 105, 112); /* 100 a second */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kubelet_start__deletes_sockets_and_nothing_else),
		cmocka_unit_test(standin_start__refuses_where_a_kubelet_answers),
		cmocka_unit_test(kubelet_register__makes_the_checks_of_the_kubelet),
		cmocka_unit_test(kubelet__counts_the_devices_of_the_plugin),
		cmocka_unit_test(kubelet__admits_pods_and_leaves_the_rest_pending),
		cmocka_unit_test(kubelet__fails_a_pod_whose_allocation_fails),
		cmocka_unit_test(kubelet__calls_pre_start_where_it_is_required),
		cmocka_unit_test(kubelet__restarts_with_its_pods_and_without_its_devices),
		cmocka_unit_test(standin_node__stays_while_the_kubelet_is_down),
		cmocka_unit_test(kubelet__disconnects_the_new_plugin_only_with_the_race),
		cmocka_unit_test(standin_fault__makes_registration_fail),
		cmocka_unit_test(standin_fault__breaks_streams_and_sockets),
		cmocka_unit_test(kubelet_register__waits_for_the_options),
		cmocka_unit_test(kubelet__drops_the_admission_of_a_deleted_pod),
		cmocka_unit_test(kubelet__repeats_an_admission_that_a_restart_interrupted),
		cmocka_unit_test(kubelet__lists_pod_devices_at_most_100_times_a_second),
		cmocka_unit_test(token_bucket_consume__allows_bursts_of_ten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
