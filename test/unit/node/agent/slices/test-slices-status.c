/* SPDX-License-Identifier: Apache-2.0 */

/* What the status shows of slices: the config's side, the arbiter's side, pods without a slice. What the
 * arbiter requests. */
#include "unit/node/agent/slices/slices-env.h"

#include "abi/slice-dir.h"
#include "lib/base/parse.h"
#include "lib/base/time.h"

#include <string.h>
#include <unistd.h>

static const struct isolation none = { .present = true };

static void on_done(void *arg)
{
	(*(unsigned *)arg)++;
}

/* Asks the arbiter, which answers @text. */
static void refresh(struct slices_env *e, const char *text)
{
	unsigned done = 0;

	e->arbiter.answer = text;
	slices_refresh(&e->s, on_done, &done);
	agent_fixture_until(e->f, done == 1);
}

/* An answer of the arbiter: of the only slice, besides its id, and of GPUs. Good until the next call. */
static const char *make_arbiter_answer(const struct slices_env *e, const char *slice,
	const char *gpus)
{
	static char text[4096];

	assert_true(
		(size_t)snprintf(text, sizeof(text),
			"{\"op\":\"status\",\"slices\":[{\"id\":\"%s\"%s%s}],\"gpus\":%s}\n",
			e->s.store.v[0]->file.id, *slice ? "," : "", slice,
			gpus) < sizeof(text));
	return text;
}

static json_t *read_slices_status(const struct slices_env *e)
{
	const struct pod_devices list = { .n = e->n_holders };
	struct pod_devices pod_devices = list;

	pod_devices.v = (struct pod_device *)(uintptr_t)e->holders;
	return slices_status(&e->s, &pod_devices);
}

/* @path of keys and indexes, "list.0.gpus": the value there, which there is. Borrowed. */
static const json_t *get_value_at(const json_t *o, const char *path)
{
	CLEANUP(strv_fini) struct strv parts = STRV_INIT;
	struct error err = ERROR_INIT;
	uint32_t index;

	assert_ok(strv_split(&parts, path, '.', &err), &err);
	for (size_t i = 0; i < parts.n; i++)
		o = parse_u32(parts.v[i], &index) ? json_array_get(o, index)
						  : json_object_get(o, parts.v[i]);
	if (!o)
		fail_msg("nothing at '%s'", path);
	return o;
}

struct expected {
	const char *path, *json;
};

/* What the status has at these paths. */
static void assert_status(const struct slices_env *e, const struct expected *rows, size_t n)
{
	json_t *o = read_slices_status(e);

	for (size_t i = 0; i < n; i++) {
		json_t *want = json_loads(rows[i].json, JSON_DECODE_ANY, NULL);
		const json_t *found = get_value_at(o, rows[i].path);
		char *text;

		assert_non_null(want);
		text = json_dumps(found, JSON_ENCODE_ANY | JSON_COMPACT);
		if (!json_equal(found, want))
			fail_msg("%s is %s, expected %s", rows[i].path, text, rows[i].json);
		free(text);
		json_decref(want);
	}
	json_decref(o);
}

#define ASSERT_STATUS(e, rows) assert_status((e), (rows), ARRAY_LEN(rows))

/* --- without the arbiter --- */

static void slices_status__reports_unknown_state(void **state)
{
	static const struct expected rows[] = {
		{ "wanted", "true" },
		{ "error", "null" },
		{ "arbiter.state", "\"up\"" },
		{ "list.0.devices", "[\"GPU-1::2\"]" },
		{ "list.0.compute", "\"none\"" },
		{ "list.0.known", "false" },
		{ "list.0.holder", "null" },
		{ "list.0.error", "null" },
		{ "list.0.processes", "null" },
		{ "list.0.unhookedProcesses", "null" },
		{ "list.0.stopped", "null" },
		{ "list.0.gpus",
			"[{\"uuid\":\"GPU-1\",\"index\":1,\"limitBytes\":4294967296,\"weight\":null,"
			"\"capMillionths\":null,\"usedBytes\":null,\"peakBytes\":null,"
			"\"unhookedBytes\":null,\"refusals\":null,\"over\":null,\"time\":null,\"quantumEnds\":null,"
			"\"turn\":null,\"demoted\":null,\"stuck\":null}]" },
		{ "gpus", "[]" },
		{ "unlimited", "[]" },
		{ "broken", "[]" },
	};
	struct slices_env *e = *state;

	env_start_isolated(e);
	(void)env_allocate(e, "GPU-1::2");
	ASSERT_STATUS(e, rows);
	/* The arbiter answers, and does not have it. */
	refresh(e, "{\"op\":\"status\",\"slices\":[{\"id\":\"0\"},{\"used\":1},7]}\n");
	ASSERT_STATUS(e, rows);
}

static void slices_status__reports_the_state_of_the_arbiter(void **state)
{
	static const struct expected off[] = { { "wanted", "false" },
		{ "arbiter", "{\"state\":\"off\",\"pid\":null,\"reason\":\"\"}" },
		{ "libraries", "null" }, { "list", "[]" } };
	static const struct expected away[] = { { "wanted", "true" },
		{ "arbiter.state", "\"away\"" }, { "arbiter.pid", "null" } };
	static const struct expected up[] = { { "arbiter.state", "\"up\"" },
		{ "arbiter.reason", "\"\"" } };
	struct slices_env *e = *state;
	json_t *o;

	env_know(e, env_config(4, &none));
	env_start(e);
	ASSERT_STATUS(e, off);
	fake_arbiter_stop(&e->arbiter);
	agent_fixture_run_once(e->f);
	env_know(e, env_config(4, &env_equal));
	slices_sync(&e->s);
	ASSERT_STATUS(e, away);
	o = read_slices_status(e);
	assert_non_null(
		strstr(json_string_value(get_value_at(o, "arbiter.reason")), "no program"));
	json_decref(o);
	fake_arbiter_listen(&e->arbiter, &e->f->loop, e->run);
	agent_fixture_until(e->f, fake_arbiter_count_received(&e->arbiter, "readings") == 1);
	ASSERT_STATUS(e, up);
	o = read_slices_status(e);
	assert_int_equal(json_integer_value(get_value_at(o, "arbiter.pid")), getpid());
	json_decref(o);
}

static void slices_status__reports_errors_only_while_slices_are_desired(void **state)
{
	static const struct expected wrong[] = { { "error.code", "\"not-found\"" },
		{ "libraries", "null" } };
	static const struct expected fine[] = { { "error", "null" } };
	struct slices_env *e = *state;
	json_t *o;

	env_libraries(e, false);
	env_know(e, env_config(4, &env_equal));
	env_start(e);
	o = read_slices_status(e);
	assert_string_equal(json_string_value(get_value_at(o, "error.message")),
		slices_get_error(&e->s));
	json_decref(o);
	ASSERT_STATUS(e, wrong);
	env_know(e, env_config(4, &none));
	slices_sync(&e->s);
	ASSERT_STATUS(e, fine);
}

static void slices_status__reports_invalid_slice_directories(void **state)
{
	static const char bad[] = SLICES_DIR "/0123456789abcdef0123456789abcdef/" SLICE_FILE;
	struct slices_env *e = *state;
	json_t *o;

	test_write(e->state, bad, "{", 1, 0644);
	env_start_isolated(e);
	o = read_slices_status(e);
	assert_int_equal(json_array_size(get_value_at(o, "broken")), 1);
	assert_non_null(strstr(json_string_value(get_value_at(o, "broken.0")), bad));
	assert_int_equal(json_array_size(get_value_at(o, "list")), 0);
	json_decref(o);
}

/* --- figures of the arbiter --- */

static void slices_status__shows_the_arbiters_figures(void **state)
{
	static const char gpu[] =
		"\"error\":\"e\",\"compute_error\":\"c\",\"stopped\":3,"
		"\"gpus\":[{\"uuid\":\"gpu-0\",\"used\":5,\"peak\":6,\"unhooked_used\":1,"
		"\"refusals\":2,\"over\":true,\"charged_ns\":10,\"queue_ns\":11,\"turns\":12,"
		"\"revocations\":13,\"launches\":14,\"copies\":15,\"bytes\":16,\"waits\":17,"
		"\"wait_ns\":18,\"meter_ns\":19,"
		"\"quantum_ends\":{\"expired\":20,\"idle\":21,\"cap\":\"?\",\"news\":22},"
		"\"turn\":true,\"demoted\":false,\"stuck\":true}],"
		"\"unhooked_processes\":[],"
		"\"processes\":[{\"pid\":7,\"host_pid\":4711,\"name\":\"python3\",\"mps\":true,"
		"\"used\":5,\"peak\":6,\"gpus\":[{\"uuid\":\"GPU-0\",\"used\":5,\"peak\":6,"
		"\"charged_ns\":1,\"stuck\":false},{\"used\":1}]},{\"ended\":true}]";
	static const struct expected rows[] = {
		{ "list.0.known", "true" },
		{ "list.0.error", "\"e\"" },
		{ "list.0.computeError", "\"c\"" },
		{ "list.0.stopped", "3" },
		{ "list.0.gpus.0.usedBytes", "5" },
		{ "list.0.gpus.0.peakBytes", "6" },
		{ "list.0.gpus.0.unhookedBytes", "1" },
		{ "list.0.gpus.0.refusals", "2" },
		{ "list.0.gpus.0.over", "true" },
		{ "list.0.gpus.0.turn", "true" },
		{ "list.0.gpus.0.demoted", "false" },
		{ "list.0.gpus.0.stuck", "true" },
		{ "list.0.gpus.0.time",
			"{\"chargedNs\":10,\"queueNs\":11,\"turns\":12,\"revocations\":13,"
			"\"launches\":14,\"copies\":15,\"copiedBytes\":16,\"waits\":17,"
			"\"waitNs\":18,\"meterNs\":19}" },
		{ "list.0.gpus.0.quantumEnds",
			"{\"expired\":20,\"renewed\":null,\"idle\":21,\"cap\":null,"
			"\"interrupted\":null,\"gang\":null,\"latency\":null,"
			"\"concurrent\":null,\"changed\":null,\"closed\":null}" },
		{ "list.0.unhookedProcesses", "[]" },
		{ "list.0.processes",
			"[{\"pid\":4711,\"containerPid\":7,\"name\":\"python3\",\"ended\":false,"
			"\"mps\":true,\"usedBytes\":5,\"peakBytes\":6,\"gpus\":[{\"uuid\":\"GPU-0\","
			"\"index\":0,\"usedBytes\":5,\"peakBytes\":6,\"time\":{\"chargedNs\":1},"
			"\"stuck\":false}]},"
			"{\"pid\":null,\"containerPid\":null,\"name\":\"\",\"ended\":true,"
			"\"mps\":null,\"usedBytes\":null,\"peakBytes\":null,\"gpus\":[]}]" },
	};
	struct slices_env *e = *state;

	env_start_isolated(e);
	(void)env_allocate(e, "GPU-0::0");
	refresh(e, make_arbiter_answer(e, gpu, "[]"));
	ASSERT_STATUS(e, rows);
}

/* The arbiter is of another release, or broken. */
static void slices_status__ignores_members_of_other_types(void **state)
{
	static const char *const texts[] = {
		"\"gpus\":[{\"uuid\":\"GPU-0\",\"used\":\"5\",\"peak\":1.5,\"over\":1,"
		"\"charged_ns\":null}],\"processes\":{},\"unhooked_processes\":7,\"error\":5,"
		"\"stopped\":\"x\"",
		"\"gpus\":{\"uuid\":\"GPU-0\"},\"processes\":null",
		"\"gpus\":[7,null,{\"uuid\":3}],\"compute_error\":[]",
	};
	static const struct expected rows[] = {
		{ "list.0.known", "true" },
		{ "list.0.error", "null" },
		{ "list.0.computeError", "null" },
		{ "list.0.stopped", "null" },
		{ "list.0.processes", "null" },
		{ "list.0.unhookedProcesses", "null" },
		{ "list.0.gpus.0.usedBytes", "null" },
		{ "list.0.gpus.0.peakBytes", "null" },
		{ "list.0.gpus.0.time", "null" },
	};
	struct slices_env *e = *state;

	env_start_isolated(e);
	(void)env_allocate(e, "GPU-0::0");
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		refresh(e, make_arbiter_answer(e, texts[i], "{}"));
		ASSERT_STATUS(e, rows);
	}
}

static void slices_status__shows_gpus_with_the_fair_share_scheduler(void **state)
{
	static const struct expected rows[] = { { "gpus",
		"[{\"uuid\":\"MIG-0-0\",\"index\":\"0:0\",\"busyNs\":5,\"together\":true},"
		"{\"uuid\":\"GPU-1\",\"index\":1,\"busyNs\":null,\"together\":false},"
		"{\"uuid\":\"GPU-9\",\"index\":null,\"busyNs\":7,\"together\":false}]" } };
	struct slices_env *e = *state;
	struct inventory *inv;

	env_start_isolated(e);
	inv = fixture_inventory(2);
	(void)fixture_mig(inv, 0, 1, 1, 5);
	agent_fixture_know(e->f, inv, NULL);
	refresh(e, "{\"op\":\"status\",\"slices\":[],\"gpus\":["
		   "{\"uuid\":\"MIG-0-0\",\"busy_ns\":5,\"together\":true},"
		   "{\"uuid\":\"GPU-1\"},{\"busy_ns\":6},"
		   "{\"uuid\":\"GPU-9\",\"busy_ns\":7,\"together\":1}]}\n");
	ASSERT_STATUS(e, rows);
}

static void slices_status__names_compute_as_the_config_does(void **state)
{
	static const struct {
		enum isolation_compute compute;
		enum sharing_strategy strategy;
		const char *name, *weight, *cap;
	} rows[] = {
		{ ISOLATION_COMPUTE_FAIR, SHARING_TIME_SLICING, "\"fair\"", "1", "null" },
		{ ISOLATION_COMPUTE_CAPPED, SHARING_TIME_SLICING, "\"capped\"", "1", "250000" },
		{ ISOLATION_COMPUTE_CAPPED, SHARING_MPS, "\"mps\"", "1", "250000" },
		{ ISOLATION_COMPUTE_NONE, SHARING_TIME_SLICING, "\"none\"", "null", "null" },
	};
	struct slices_env *e = *state;

	env_start_isolated(e);
	(void)env_allocate(e, "GPU-0::0");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct isolation isolation = { .present = true,
			.memory = ISOLATION_MEMORY_EQUAL,
			.compute = rows[i].compute,
			.class_ = SLICE_CLASS_LATENCY,
			.unhooked = UNHOOKED_STOP };
		const struct expected shown[] = { { "list.0.compute", rows[i].name },
			{ "list.0.gpus.0.weight", rows[i].weight },
			{ "list.0.gpus.0.capMillionths", rows[i].cap },
			{ "list.0.unhooked", "\"stop\"" } };
		struct config *c = env_config(4, &isolation);

		fixture_strategy(c, rows[i].strategy);
		env_know(e, c);
		slices_sync(&e->s);
		ASSERT_STATUS(e, shown);
	}
}

/* --- asked again --- */

static void slices_refresh__requests_nothing_where_no_slice_is_desired(void **state)
{
	struct slices_env *e = *state;
	unsigned done = 0;

	env_know(e, env_config(4, &none));
	env_start(e);
	slices_refresh(&e->s, on_done, &done);
	assert_int_equal(done, 1);
	assert_int_equal(e->arbiter.n_peers, 0);
}

static void slices_refresh__drops_figures_of_an_unavailable_arbiter(void **state)
{
	struct slices_env *e = *state;
	unsigned done = 0;

	env_start_isolated(e);
	(void)env_allocate(e, "GPU-0::0");
	refresh(e, make_arbiter_answer(e, "\"stopped\":1", "[{\"uuid\":\"GPU-0\"}]"));
	assert_non_null(e->s.arbiter_slices);
	e->arbiter.answer = NULL;
	slices_refresh(&e->s, on_done, &done);
	agent_fixture_run_once(e->f);
	assert_int_equal(done, 0);
	fake_arbiter_hang_up(&e->arbiter);
	agent_fixture_until(e->f, done == 1);
	assert_null(e->s.arbiter_slices);
	assert_null(e->s.arbiter_gpus);
	assert_non_null(strstr(e->s.arbiter_error.msg, "closed its control connection"));

	/* The arbiter restarts, and the error ends. */
	agent_fixture_until(e->f, fake_arbiter_count_received(&e->arbiter, "readings") == 2);
	refresh(e, make_arbiter_answer(e, "\"stopped\":1", "[]"));
	assert_non_null(e->s.arbiter_slices);
	assert_int_equal(e->s.arbiter_error.code, ERR_NONE);
}

static void slices_refresh__times_out_after_2_s(void **state)
{
	static const struct expected rows[] = {
		{ "arbiter.state", "\"up\"" },
		{ "arbiter.reason", "\"the arbiter did not answer in time\"" },
		{ "list.0.known", "false" },
	};
	struct slices_env *e = *state;
	unsigned done = 0;

	env_start_isolated(e);
	(void)env_allocate(e, "GPU-0::0");
	e->arbiter.answer = NULL;
	slices_refresh(&e->s, on_done, &done);
	env_now_ns += ARBITER_STATUS_TIMEOUT_MS * NS_PER_MS;
	agent_fixture_until(e->f, done == 1);
	ASSERT_STATUS(e, rows);
}

/* --- their pods --- */

static void slices_status__shows_the_largest_peak_of_a_pod(void **state)
{
	static const struct {
		bool held;
		uint64_t peak; /* of the container; 0: not known */
		const char *arbiter, *shown;
	} rows[] = {
		{ false, 9, "\"gpus\":[{\"uuid\":\"GPU-0\",\"peak\":6}]", "6" },
		{ true, 9, "\"gpus\":[{\"uuid\":\"GPU-0\",\"peak\":6}]", "9" },
		{ true, 5, "\"gpus\":[{\"uuid\":\"GPU-0\",\"peak\":6}]", "6" },
		{ true, 0, "\"gpus\":[{\"uuid\":\"GPU-0\",\"peak\":6}]", "6" },
		{ true, 9, "\"gpus\":[]", "9" },
		{ true, 0, "\"gpus\":[]", "null" },
	};
	struct slices_env *e = *state;

	env_start_isolated(e);
	(void)env_allocate(e, "GPU-0::0");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct expected shown[] = { { "list.0.gpus.0.peakBytes",
			rows[i].shown } };

		e->n_holders = 0;
		if (rows[i].held)
			env_allocate_device(e, "p", "GPU-0::0");
		e->peak = rows[i].peak;
		refresh(e, make_arbiter_answer(e, rows[i].arbiter, "[]"));
		ASSERT_STATUS(e, shown);
	}
}

static void slices_status__names_no_pod_of_a_superseded_slice(void **state)
{
	static const struct expected before[] = { { "list.0.superseded", "false" },
		{ "list.0.holder",
			"{\"namespace\":\"ml\",\"pod\":\"p\",\"container\":\"c\"}" } };
	static const struct expected after[] = { { "list.0.superseded", "true" },
		{ "list.0.holder", "null" } };
	struct slices_env *e = *state;
	const char *id = "GPU-0::0";

	env_start_isolated(e);
	(void)env_allocate(e, id);
	env_allocate_device(e, "p", id);
	ASSERT_STATUS(e, before);
	slice_store_pass(&e->s.store, ENV_RESOURCE, &id, 1, env_now_ns);
	ASSERT_STATUS(e, after);
}

#define ROW(pod, devices)                                                             \
	"{\"namespace\":\"ml\",\"pod\":\"" pod "\",\"container\":\"c\",\"resource\":" \
	"\"nvidia.com/gpu\",\"devices\":" devices "}"

static void slices_status__names_containers_without_a_slice(void **state)
{
	static const struct expected rows[] = { { "unlimited",
		"[" ROW("old", "[\"GPU-0::1\",\"GPU-0::2\"]") "," ROW("earlier",
			"[\"GPU-0::9\"]") "]" } };
	static const struct expected no_rows[] = { { "unlimited", "[]" } };
	static const char *const first[] = { "0", NULL };
	struct slices_env *e = *state;
	struct config *c = fixture_config();

	/* The second GPU is whole. */
	fixture_share(c, ENV_RESOURCE, NULL, 4, first)->isolation = env_equal;
	env_know(e, c);
	env_start(e);
	(void)env_allocate(e, "GPU-0::0");
	ASSERT_STATUS(e, no_rows);
	env_allocate_device(e, "new", "GPU-0::0"); /* has a slice */
	env_allocate_device(e, "old", "GPU-0::1");
	env_allocate_device(e, "old", "GPU-0::2");
	env_allocate_device(e, "earlier", "GPU-0::9"); /* of a config with more replicas */
	env_allocate_device(e, "whole", "GPU-1");
	env_allocate_device(e, "other", "GPU-1::0");
	ASSERT_STATUS(e, rows);

	env_know(e, env_config(4, &none));
	ASSERT_STATUS(e, no_rows);
}

/* --- the arbiter's requests --- */

static void read__answers_with_the_processes_of_each_gpu(void **state)
{
	static struct gpu_process list[] = { { .pid = 5, .bytes = 10 },
		{ .pid = 6, .bytes = GPU_BYTES_UNKNOWN } };
	static const struct gpu_processes gpus[] = {
		{ .uuid = "GPU-0", .known = true, .v = list, .n = 2 },
		{ .uuid = "GPU-1", .known = true },
		{ .uuid = "GPU-2", .reason = "stuck" },
	};
	struct slices_env *e = *state;

	env_start_isolated(e);
	e->processes = gpus;
	e->n_processes = ARRAY_LEN(gpus);
	fake_arbiter_send(&e->arbiter,
		"{\"op\":\"read\",\"seq\":17,\"gpus\":[\"GPU-0\",7,\"GPU-2\"]}\n");
	agent_fixture_until(e->f, fake_arbiter_count_received(&e->arbiter, "\"reading\"") == 1);
	assert_int_equal(e->read.n, 2);
	assert_string_equal(e->read.v[1], "GPU-2");
	assert_string_equal(e->arbiter.received.v[e->arbiter.received.n - 1],
		"{\"op\":\"reading\",\"seq\":17,\"gpus\":["
		"{\"uuid\":\"GPU-0\",\"processes\":[{\"pid\":5,\"bytes\":10},{\"pid\":6}]},"
		"{\"uuid\":\"GPU-1\",\"processes\":[]},"
		"{\"uuid\":\"GPU-2\",\"error\":\"stuck\"}]}");
}

/* No GPU, which is not the same as an empty list of processes: the arbiter does not wait for more. */
static void read__answers_with_no_gpu_where_nvml_is_unavailable(void **state)
{
	struct slices_env *e = *state;

	env_start_isolated(e);
	fake_arbiter_send(&e->arbiter, "{\"op\":\"read\",\"seq\":18,\"gpus\":[\"GPU-0\"]}\n");
	agent_fixture_until(e->f, fake_arbiter_count_received(&e->arbiter, "\"reading\"") == 1);
	assert_string_equal(e->arbiter.received.v[e->arbiter.received.n - 1],
		"{\"op\":\"reading\",\"seq\":18,\"gpus\":[]}");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SLICES_TEST(slices_status__reports_unknown_state),
		SLICES_TEST(slices_status__reports_the_state_of_the_arbiter),
		SLICES_TEST(slices_status__reports_errors_only_while_slices_are_desired),
		SLICES_TEST(slices_status__reports_invalid_slice_directories),
		SLICES_TEST(slices_status__shows_the_arbiters_figures),
		SLICES_TEST(slices_status__ignores_members_of_other_types),
		SLICES_TEST(slices_status__shows_gpus_with_the_fair_share_scheduler),
		SLICES_TEST(slices_status__names_compute_as_the_config_does),
		SLICES_TEST(slices_refresh__requests_nothing_where_no_slice_is_desired),
		SLICES_TEST(slices_refresh__drops_figures_of_an_unavailable_arbiter),
		SLICES_TEST(slices_refresh__times_out_after_2_s),
		SLICES_TEST(slices_status__shows_the_largest_peak_of_a_pod),
		SLICES_TEST(slices_status__names_no_pod_of_a_superseded_slice),
		SLICES_TEST(slices_status__names_containers_without_a_slice),
		SLICES_TEST(read__answers_with_the_processes_of_each_gpu),
		SLICES_TEST(read__answers_with_no_gpu_where_nvml_is_unavailable),
	};

	return cmocka_run_group_tests_name("slices-status", tests, NULL, NULL);
}
