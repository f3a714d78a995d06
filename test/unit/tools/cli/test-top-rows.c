/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "tools/cli/top/view/view.h"

#include <math.h>

#define SEC UINT64_C(1000000000)

/* --- a node by hand --- */

#define GPU(units)                                                                  \
	"{\"index\":0,\"uuid\":\"GPU-aa\",\"health\":\"healthy\",\"present\":true," \
	"\"costNanoPerHour\":8000000000,\"sample\":{\"DCGM_FI_DEV_GPU_TEMP\":41,"   \
	"\"DCGM_FI_DEV_POWER_USAGE\":118.5},\"units\":[" units "]}"
#define DEVICE_JSON(uuid, busy, uses, replicas)                                                      \
	"{\"uuid\":\"" uuid "\",\"label\":\"0\",\"part\":500000,\"busy\":" busy                      \
	",\"held\":500000,\"memoryTotal\":1000,\"memoryUsed\":400,\"replicasUsed\":1,"               \
	"\"health\":\"healthy\",\"mode\":\"slices\",\"resource\":\"nvidia.com/gpu\",\"uses\":[" uses \
	"],\"seats\":[" replicas "]}"
#define USE(ns, pod, more)                                                                \
	"{\"namespace\":\"" ns "\",\"pod\":\"" pod "\",\"container\":\"c\",\"resource\":" \
	"\"nvidia.com/gpu.x\",\"live\":true,\"offeredNow\":true," more "}"
#define REPLICA_JSON(use) "{\"id\":\"s\",\"share\":500000,\"healthy\":true,\"use\":" use "}"
#define NODE(gpus)        "{\"node\":\"n\",\"priced\":true,\"gpus\":[" gpus "],\"new\":{\"a\":[1]}}"

static const char two_devices[] = NODE(GPU(DEVICE_JSON("MIG-bb", "800000",
	USE("ns", "zoe",
		"\"share\":250000,\"received\":100000,\"memoryUsed\":300") "," USE("ns", "Amy",
		"\"share\":125000,\"received\":0,\"memoryUsed\":null,\"slice\":{\"turns\":7,"
		"\"waits\":3,\"turn\":true}"),
	REPLICA_JSON("0") "," REPLICA_JSON("0") "," REPLICA_JSON(
		"null")) "," DEVICE_JSON("MIG-cc", "200000",
	USE("other", "bob", "\"share\":500000,\"received\":90000,\"memoryUsed\":100"), "")));

static struct top_model *read_node(const char *json)
{
	struct top_model *m = NULL;
	struct error err = ERROR_INIT;

	assert_ok(top_model_read(&m, json, strlen(json), &err), &err);
	return m;
}

/* The pods in their order, by the first letters: "zoe Amy bob". */
static const char *list_pod_order(const struct top_model *m, const struct top_choice *c)
{
	static char text[256];
	struct top_rows rows;
	struct error err = ERROR_INIT;
	size_t len = 0;

	assert_ok(top_rows_make(&rows, m, c, &err), &err);
	text[0] = '\0';
	for (size_t i = 0; i < rows.n; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s", i ? " " : "",
			rows.v[i].usage ? rows.v[i].usage->pod : "-");
	top_rows_fini(&rows);
	return text;
}

static void top_model__adds_up_the_devices_of_a_gpu(void **state)
{
	CLEANUP(top_model_freep) struct top_model *m = read_node(two_devices);

	(void)state;
	assert_int_equal(m->n_gpus, 1);
	assert_int_equal(m->n_devices, 2);
	assert_int_equal(m->n_usages, 3);
	assert_int_equal(m->n_replicas, 3);
	assert_int_equal(m->gpus[0].memory_total, 2000);
	assert_int_equal(m->gpus[0].memory_used, 800);
	assert_int_equal(m->gpus[0].busy, 500000);
	assert_int_equal(m->gpus[0].allocated, 500000);
	assert_true(m->gpus[0].power_watts > 118.4 && m->gpus[0].power_watts < 118.6);
	assert_true(isnan(m->gpus[0].power_limit_watts));
	assert_true(m->usages[1].has_quantum);
	assert_int_equal(m->usages[0].quanta, TOP_UNKNOWN);
	assert_int_equal(m->usages[1].memory_used, TOP_UNKNOWN);
	assert_int_equal(m->replicas[2].usage, TOP_NONE);
}

static void top_model__has_no_sum_of_unknown_figures(void **state)
{
	CLEANUP(top_model_freep)
	struct top_model *m = read_node(
		"{\"agent\": {\"components\": [{\"name\": \"options\", \"reason\": \"\"}, "
		"{\"name\": \"pod-usage\", \"reason\": \"say it\"}]}, \"gpus\": [{\"units\": ["
		"{\"part\": 500000, \"held\": 1000000, \"busy\": 0, \"memoryTotal\": 1, \"memoryUsed\": 0}, "
		"{\"part\": 500000, \"held\": null, \"busy\": null, \"memoryTotal\": 1, \"memoryUsed\": null}]}]}");

	(void)state;
	assert_int_equal(m->gpus[0].allocated, TOP_NONE);
	assert_int_equal(m->gpus[0].busy, TOP_NONE);
	assert_int_equal(m->gpus[0].memory_used, TOP_UNKNOWN);
	assert_int_equal(m->n_degraded, 1);
	assert_string_equal(m->degraded, "pod-usage");
	assert_string_equal(m->degraded_reason, "say it");
}

/* A present GPU has the index of a missing one. A GPU whose presence is unknown keeps its index. */
static void top_model__does_not_treat_unknown_as_removed(void **state)
{
	static const struct {
		const char *present;
		bool gone;
	} rows[] = { { "true", false }, { "null", false }, { "false", true } };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(top_model_freep) struct top_model *m = NULL;
		char json[256];

		(void)snprintf(json, sizeof(json),
			NODE("{\"index\":0,\"present\":%s},{\"index\":0,\"present\":true}"),
			rows[i].present);
		m = read_node(json);
		assert_int_equal(m->gpus[0].present, !rows[i].gone);
		assert_int_equal(m->gpus[0].index, rows[i].gone ? TOP_NONE : 0);
		assert_int_equal(m->gpus[1].index, 0);
	}
}

/* A replica or usage with unknown flags is not shown as ended, as of an earlier config, or as unhealthy. */
static void top_model__does_not_treat_unknown_as_false(void **state)
{
	static const struct {
		const char *flag;
		bool want;
	} flags[] = { { "true", true }, { "null", true }, { "false", false } };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
		CLEANUP(top_model_freep) struct top_model *m = NULL;
		char json[512];

		(void)snprintf(json, sizeof(json),
			NODE("{\"units\":[{\"uses\":[{\"live\":%s,\"offeredNow\":%s}],"
			     "\"seats\":[{\"healthy\":%s}]}]}"),
			flags[i].flag, flags[i].flag, flags[i].flag);
		m = read_node(json);
		assert_int_equal(m->usages[0].live, flags[i].want);
		assert_int_equal(m->usages[0].offered_now, flags[i].want);
		assert_int_equal(m->replicas[0].healthy, flags[i].want);
	}
}

static void top_model__reports_errors_with_their_place(void **state)
{
	static const struct {
		const char *json, *error;
	} rows[] = {
		{ "", "line 1" },
		{ "[]", "the document: expected an object, found a list" },
		{ "{}", "gpus: expected a list, found nothing" },
		{ "{\"gpus\":7}", "gpus: expected a list, found an integer" },
		{ "{\"gpus\":[],\"node\":1}", "node: expected a text, found an integer" },
		{ "{\"gpus\":[],\"warnings\":[1]}", "warnings[0]: expected a text" },
		{ "{\"gpus\":[],\"agent\":{\"version\":[]}}",
			"agent.version: expected a text, found a list" },
		{ "{\"gpus\":[1]}", "gpus[0]: expected an object, found an integer" },
		{ "{\"gpus\":[{},{\"index\":-1}]}",
			"gpus[1].index: expected 0 to 4294967295, found -1" },
		{ "{\"gpus\":[{\"sample\":{\"DCGM_FI_DEV_GPU_TEMP\":\"x\"}}]}",
			"gpus[0].sample.DCGM_FI_DEV_GPU_TEMP: expected a number, found a text" },
		{ NODE(GPU(DEVICE_JSON("u", "1.5", "", ""))),
			"gpus[0].units[0].busy: expected an integer, found a fraction" },
		{ NODE(GPU(DEVICE_JSON("u", "1", USE("n", "p", "\"share\":true"), ""))),
			"gpus[0].units[0].uses[0].share: expected an integer, found true or false" },
		{ NODE(GPU(DEVICE_JSON("u", "1", USE("n", "p", "\"slice\":{\"turns\":\"1\"}"),
			  ""))),
			"gpus[0].units[0].uses[0].slice.turns: expected an integer, found a text" },
		{ NODE(GPU(DEVICE_JSON("u", "1", USE("n", "p", "\"share\":1"),
			  REPLICA_JSON("1")))),
			"gpus[0].units[0].seats[0].use: expected less than the 1 uses" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct top_model *m = NULL;
		struct error err = ERROR_INIT;

		assert_error(top_model_read(&m, rows[i].json, strlen(rows[i].json), &err), &err,
			rows[i].error);
		assert_null(m);
	}
}

static void top_rows__sort_by_each_column_with_unknown_last(void **state)
{
	static const struct {
		enum top_sort sort;
		bool reverse;
		const char *order;
	} rows[] = {
		{ TOP_BY_GPU, false, "zoe Amy bob" },
		{ TOP_BY_GPU, true, "bob Amy zoe" },
		{ TOP_BY_NAME, false, "Amy zoe bob" },
		{ TOP_BY_NAME, true, "bob zoe Amy" },
		{ TOP_BY_SHARE, false, "bob zoe Amy" },
		{ TOP_BY_RECEIVED, false, "zoe bob Amy" },
		{ TOP_BY_RECEIVED, true, "Amy bob zoe" },
		{ TOP_BY_MEMORY, false, "zoe bob Amy" },
		{ TOP_BY_MEMORY, true, "bob zoe Amy" },
		{ TOP_BY_QUANTA, false, "Amy zoe bob" },
		{ TOP_BY_QUANTA, true, "Amy zoe bob" },
		{ TOP_BY_COST, false, "bob zoe Amy" },
		{ TOP_BY_COST, true, "Amy zoe bob" },
	};
	CLEANUP(top_model_freep) struct top_model *m = read_node(two_devices);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct top_choice c = { .sort = rows[i].sort,
			.reverse = rows[i].reverse };

		assert_string_equal(list_pod_order(m, &c), rows[i].order);
	}
}

static void top_rows__keep_rows_that_match_the_filter(void **state)
{
	static const struct {
		const char *filter, *order;
		enum top_table table;
		bool hide_idle;
	} rows[] = {
		{ "", "zoe Amy bob", TOP_PODS, false },
		{ "AMY", "Amy", TOP_PODS, false },
		{ "ns/zo", "zoe", TOP_PODS, false },
		{ "gpu.x", "zoe Amy bob", TOP_PODS, false },
		{ "mig-CC", "bob", TOP_PODS, false },
		{ "GPU-aa", "zoe Amy bob", TOP_PODS, false },
		{ "nothing", "", TOP_PODS, false },
		{ "", "zoe bob", TOP_PODS, true },
		{ "", "zoe zoe -", TOP_SLICES, false },
		{ "", "zoe zoe", TOP_SLICES, true },
		{ "zoe", "zoe zoe", TOP_SLICES, false },
	};
	CLEANUP(top_model_freep) struct top_model *m = read_node(two_devices);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct top_choice c = { .table = rows[i].table,
			.hide_idle = rows[i].hide_idle };

		(void)snprintf(c.filter, sizeof(c.filter), "%s", rows[i].filter);
		assert_string_equal(list_pod_order(m, &c), rows[i].order);
	}
}

/* A second count would make the sum over the rows too large. */
static void top_rows__count_a_container_with_two_replicas_once(void **state)
{
	CLEANUP(top_model_freep) struct top_model *m = read_node(two_devices);
	const struct top_choice c = { .table = TOP_SLICES };
	struct top_rows rows;
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(top_rows_make(&rows, m, &c, &err), &err);
	assert_int_equal(top_row_received(&rows.v[0]), 100000);
	assert_int_equal(top_row_received(&rows.v[1]), TOP_UNKNOWN);
	assert_int_equal(top_row_memory(&rows.v[1]), TOP_UNKNOWN);
	assert_int_equal(top_row_share(&rows.v[1]), 250000);
	assert_int_equal(top_row_cost(&rows.v[0]), 2000000000);
	top_rows_fini(&rows);
}

/* The kubelet has not reported the allocations: no replica counts as free, or as idle. */
static void top_rows__show_free_replicas_as_unknown_without_the_pod_list(void **state)
{
	static const struct {
		const char *held;
		bool is_free;
	} rows[] = { { "0", true }, { "null", false } };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct top_choice c = { .table = TOP_SLICES, .hide_idle = true };
		CLEANUP(top_model_freep) struct top_model *m = NULL;
		struct top_rows found;
		struct error err = ERROR_INIT;
		char json[512];

		(void)snprintf(json, sizeof(json),
			NODE("{\"units\":[{\"held\":%s,\"seats\":[" REPLICA_JSON(
				"null") "]}]}"),
			rows[i].held);
		m = read_node(json);
		assert_ok(top_rows_make(&found, m, &c, &err), &err);
		assert_int_equal(found.n, rows[i].is_free ? 0 : 1);
		if (found.n)
			assert_false(top_row_is_free(&found.v[0]));
		top_rows_fini(&found);
	}
}

static void top_rows__show_a_gpu_in_mig_mode_without_devices(void **state)
{
	CLEANUP(top_model_freep)
	struct top_model *m = read_node(NODE("{\"index\":0,\"units\":[]}," GPU(
		DEVICE_JSON("u", "1", "", "")) ",{\"index\":2}"));
	const struct top_choice c = { .table = TOP_GPUS };
	struct top_rows rows;
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(top_rows_make(&rows, m, &c, &err), &err);
	assert_int_equal(rows.n, 3);
	for (size_t i = 0; i < rows.n; i++)
		assert_ptr_equal(rows.v[i].gpu, &m->gpus[i]);
	assert_null(rows.v[0].device);
	assert_non_null(rows.v[1].device);
	top_rows_fini(&rows);
}

/* --- figures --- */

static void figures__are_short_and_round(void **state)
{
	static const struct {
		char *(*figure)(char ret[FIGURE_MAX], uint64_t value);
		uint64_t value;
		const char *text;
	} rows[] = {
		{ figure_percent, 0, "0.0%" },
		{ figure_percent, 74999, "7.5%" },
		{ figure_percent, 999499, "99.9%" },
		{ figure_percent, 999500, "100%" },
		{ figure_percent, 1000000, "100%" },
		{ figure_percent, TOP_UNKNOWN, "-" },
		{ figure_whole_percent, 4999, "0%" },
		{ figure_whole_percent, 995000, "100%" },
		{ figure_bytes, 0, "0" },
		{ figure_bytes, 512, "0Ki" },
		{ figure_bytes, 1 << 20, "1Mi" },
		{ figure_bytes, (UINT64_C(1) << 30) - 1, "1023Mi" },
		{ figure_bytes, UINT64_C(3) << 29, "1.5Gi" },
		{ figure_bytes, UINT64_C(141) << 30, "141Gi" },
		{ figure_bytes, UINT64_MAX - 1, "15.9Ei" },
		{ figure_bytes, TOP_UNKNOWN, "-" },
		{ figure_mib, UINT64_C(81559) << 20, "81559MiB" },
		{ figure_mib, TOP_UNKNOWN, "N/A" },
		{ figure_count, 99999, "99999" },
		{ figure_count, 123456, "123k" },
		{ figure_count, 1234567, "1.2M" },
		{ figure_count, UINT64_MAX - 1, "18.4E" },
		{ figure_money, 0, "0.0000" },
		{ figure_money, 1229049999, "1.2290" },
		{ figure_money, 99999950000, "100.0000" },
		{ figure_money, TOP_UNKNOWN, "-" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char text[FIGURE_MAX];

		assert_string_equal(rows[i].figure(text, rows[i].value), rows[i].text);
	}
}

/* --- keys --- */

static void top_press__enters_a_filter_and_removes_it(void **state)
{
	struct top_state s = { .choice = { .filter = "old" } };

	(void)state;
	assert_int_equal(top_press(&s, '/'), TOP_REDRAW);
	for (const char *p = "xq\xc3\xa9"; *p; p++)
		assert_int_equal(top_press(&s, (unsigned char)*p), TOP_REDRAW);
	assert_string_equal(s.choice.filter, "oldxq\xc3\xa9");
	(void)top_press(&s, TOP_KEY_BACKSPACE);
	assert_string_equal(s.choice.filter, "oldxq");
	(void)top_press(&s, TOP_KEY_ENTER);
	assert_false(s.typing);
	(void)top_press(&s, '/');
	(void)top_press(&s, 'u' & 0x1f);
	assert_string_equal(s.choice.filter, "");
	(void)top_press(&s, TOP_KEY_BACKSPACE);
	(void)top_press(&s, TOP_KEY_ESCAPE);
	assert_string_equal(s.choice.filter, "oldxq");
	(void)top_press(&s, '/');
	for (int i = 0; i < 200; i++)
		(void)top_press(&s, 'a');
	assert_int_equal(strlen(s.choice.filter), TOP_FILTER_MAX - 1);
}

static void top_press__steps_through_the_columns_of_the_table(void **state)
{
	struct top_state s = { .choice = { .sort = TOP_BY_QUANTA } };

	(void)state;
	(void)top_press(&s, 's');
	assert_int_equal(s.choice.sort, TOP_BY_WAITS);
	(void)top_press(&s, 'g');
	assert_int_equal(s.choice.table, TOP_GPUS);
	assert_int_equal(s.choice.sort, TOP_BY_GPU);
	(void)top_press(&s, 'S');
	assert_int_equal(s.choice.sort, TOP_BY_COST);
	(void)top_press(&s, 'S');
	assert_int_equal(s.choice.sort, TOP_BY_LIMIT);
	(void)top_press(&s, 's');
	(void)top_press(&s, 's');
	assert_int_equal(s.choice.sort, TOP_BY_GPU);
	(void)top_press(&s, 'l');
	assert_int_equal(s.choice.table, TOP_SLICES);
	(void)top_press(&s, 'p');
	assert_int_equal(s.choice.table, TOP_PODS);
}

static void top_press__agrees_with_the_help(void **state)
{
	struct top_state s = { .interval_ns = 2 * SEC, .page = 10 };

	(void)state;
	(void)top_press(&s, 'r');
	(void)top_press(&s, 'i');
	(void)top_press(&s, ' ');
	assert_true(s.choice.reverse && s.choice.hide_idle && s.paused);
	(void)top_press(&s, '+');
	assert_int_equal(s.interval_ns, 5 * SEC);
	for (int i = 0; i < 20; i++)
		(void)top_press(&s, '-');
	assert_int_equal(s.interval_ns, TOP_INTERVAL_MIN_NS);
	(void)top_press(&s, TOP_KEY_PAGE_DOWN);
	(void)top_press(&s, TOP_KEY_DOWN);
	(void)top_press(&s, TOP_KEY_UP);
	assert_int_equal(s.scroll, 9);
	(void)top_press(&s, TOP_KEY_PAGE_UP);
	(void)top_press(&s, TOP_KEY_UP);
	assert_int_equal(s.scroll, 0);
	(void)top_press(&s, TOP_KEY_END);
	(void)top_press(&s, TOP_KEY_DOWN);
	assert_true(s.scroll == SIZE_MAX);
	assert_int_equal(top_press(&s, 'x'), TOP_NOTHING);
	(void)top_press(&s, '?');
	assert_true(s.help);
	(void)top_press(&s, 'r');
	assert_false(s.help);
	assert_true(s.choice.reverse); /* the key only closed the help */
	assert_int_equal(top_press(&s, 'q'), TOP_QUIT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(top_model__adds_up_the_devices_of_a_gpu),
		cmocka_unit_test(top_model__has_no_sum_of_unknown_figures),
		cmocka_unit_test(top_model__does_not_treat_unknown_as_removed),
		cmocka_unit_test(top_model__does_not_treat_unknown_as_false),
		cmocka_unit_test(top_model__reports_errors_with_their_place),
		cmocka_unit_test(top_rows__sort_by_each_column_with_unknown_last),
		cmocka_unit_test(top_rows__keep_rows_that_match_the_filter),
		cmocka_unit_test(top_rows__count_a_container_with_two_replicas_once),
		cmocka_unit_test(top_rows__show_free_replicas_as_unknown_without_the_pod_list),
		cmocka_unit_test(top_rows__show_a_gpu_in_mig_mode_without_devices),
		cmocka_unit_test(figures__are_short_and_round),
		cmocka_unit_test(top_press__enters_a_filter_and_removes_it),
		cmocka_unit_test(top_press__steps_through_the_columns_of_the_table),
		cmocka_unit_test(top_press__agrees_with_the_help),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
