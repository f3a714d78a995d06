/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "lib/base/fd.h"
#include "support/view-sample.h"
#include "unit/node/metrics/node.h"
#include "unit/node/metrics/strict.h"
#include "node/metrics/write.h"

static void check_metrics_text(const char *name, enum node_kind kind,
	const struct metrics_options *o, const char *csv, enum metrics_format format,
	bool dcgm_only)
{
	CLEANUP(view_unrefp) struct view *v = NULL;
	CLEANUP(freep) char *text = NULL;
	struct error err = ERROR_INIT;

	assert_ok(node_view(&v, kind, &err), &err);
	assert_ok(view_check(v, &err), &err);
	text = node_text(v, o, csv, format);
	(void)strict_read(text, format);
	if (dcgm_only)
		node_extract_dcgm(text);
	node_expect_text(name, text);
}

static void metrics_render__writes_a_whole_gpu(void **state)
{
	(void)state;
	check_metrics_text("h100-whole", NODE_WHOLE, NULL, NULL, METRICS_PROMETHEUS, false);
	check_metrics_text("h100-whole-openmetrics", NODE_WHOLE, NULL, NULL,
		METRICS_OPENMETRICS, false);
	check_metrics_text("h100-idle", NODE_IDLE, NULL, NULL, METRICS_PROMETHEUS, true);
}

static void metrics_render__writes_replicas_of_a_shared_gpu(void **state)
{
	struct metrics_options o = node_options();

	(void)state;
	check_metrics_text("h100-shared", NODE_SHARED, NULL, NULL, METRICS_PROMETHEUS, false);
	o.virtual_gpus = true;
	check_metrics_text("h100-shared-virtual", NODE_SHARED, &o, NULL, METRICS_PROMETHEUS,
		true);
	o = node_options();
	o.kubernetes = false;
	check_metrics_text("h100-shared-no-pods", NODE_SHARED, &o, NULL, METRICS_PROMETHEUS,
		true);
}

static void metrics_render__writes_the_board_of_mig_once(void **state)
{
	struct metrics_options o = node_options();

	(void)state;
	check_metrics_text("h100-mig", NODE_MIG, NULL, NULL, METRICS_PROMETHEUS, false);
	o.per_instance_board = true;
	check_metrics_text("h100-mig-copies", NODE_MIG, &o, NULL, METRICS_PROMETHEUS, true);
}

static void metrics_render__has_no_line_for_unknown_figures(void **state)
{
	(void)state;
	check_metrics_text("t4-old", NODE_OLD, NULL, NULL, METRICS_PROMETHEUS, false);
}

static void metrics_render__has_the_old_names_of_labels(void **state)
{
	struct metrics_options o = node_options();

	(void)state;
	o.old_namespace = true;
	o.hostname = METRICS_HOSTNAME_LOWER;
	o.replace_blanks_in_model_name = true;
	check_metrics_text("h100-old-namespace", NODE_WHOLE, &o, NULL, METRICS_PROMETHEUS,
		true);
}

/* The names as the file has them, in the order of the numbers; labels; the units of dcgm-exporter. */
static void metrics_render__prints_names_as_written(void **state)
{
	static const char csv[] =
		"DCGM_FI_PROF_PCIE_TX_BYTES, gauge, raw\n"
		"DCGM_FI_DEV_GPU_TEMP_CELSIUS, gauge, new name\n"
		"DCGM_FI_DEV_GPU_TEMP, summary, old \\ name\n"
		"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION, counter, \"energy, with a comma\"\n"
		"DCGM_FI_SYSTEM_NVML_VERSION, label, the version\n"
		"DCGM_FI_DEV_SM_CLOCK, label, a number as a label\n"
		"DCGM_EXP_GPU_HEALTH_STATUS, gauge, health\n";
	struct metrics_options o = node_options();

	(void)state;
	o.gpm_raw_units = true;
	o.hostname = METRICS_HOSTNAME_NONE;
	check_metrics_text("h100-names", NODE_WHOLE, &o, csv, METRICS_PROMETHEUS, true);
	check_metrics_text("h100-names-openmetrics", NODE_WHOLE, &o, csv, METRICS_OPENMETRICS,
		true);
}

/* The series of a shared GPU do not change with its pods, not with a single pod either. */
static void metrics_render__keeps_the_series_of_a_shared_gpu(void **state)
{
	static const char *const pod[] = { "pod=", NULL };
	CLEANUP(view_unrefp) struct view *v = NULL;
	CLEANUP(freep) char *text = NULL;
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(node_view(&v, NODE_SHARED, &err), &err);
	v->n_uses = v->devices[0].n_uses = 1;
	text = node_text(v, NULL, NULL, METRICS_PROMETHEUS);
	assert_null(strict_find(text, "DCGM_FI_DEV_GPU_TEMP", pod));
	assert_string_equal(strict_find(text, "DCGM_FI_DEV_GPU_UTIL", NULL), "60");
	assert_string_equal(strict_find(text, "DCGM_FI_DEV_GPU_UTIL", pod), "30.0001");
	/* An unknown ratio is left out; it is not 0. */
	v->uses[0].received = VIEW_NONE;
	free(text);
	text = node_text(v, NULL, NULL, METRICS_PROMETHEUS);
	assert_null(strict_find(text, "DCGM_FI_DEV_GPU_UTIL", pod));
	assert_null(strict_find(text, "gpuslice_container_received_ratio", NULL));
	assert_null(strict_find(text, "gpuslice_slices_used", NULL));
}

/* A counter that does not advance has a gap, and an unknown figure is not 0. */
static void metrics_render__writes_nothing_where_nothing_is_measured(void **state)
{
	static const char *const names[] = { "gpuslice_container_gpu_busy_seconds_total",
		"gpuslice_container_memory_byte_seconds_total", "gpuslice_container_processes",
		"gpuslice_slices_held", "gpuslice_slices_idle", "gpuslice_slices_used",
		"gpuslice_gpu_slices_held", "gpuslice_gpu_held_ratio",
		"gpuslice_gpu_seconds_total", "gpuslice_gpu_idle_seconds_total",
		"gpuslice_gpu_idle_cost_total", "gpuslice_container_memory_peak_bytes",
		"gpuslice_gpu_cost_total", "gpuslice_gpu_ended_seconds_total",
		"gpuslice_gpu_ended_cost_total", "gpuslice_container_gpu_held_seconds_total",
		"gpuslice_container_gpu_seconds_total", "gpuslice_container_gpu_cost_total",
		"gpuslice_container_gpu_hourly_cost" };
	CLEANUP(view_unrefp) struct view *v = NULL;
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(node_view(&v, NODE_SHARED, &err), &err);
	for (int known = 1; known >= 0; known--) {
		CLEANUP(freep) char *text = NULL;

		for (uint32_t i = 0; i < v->n_uses; i++)
			v->uses[i].busy_current = v->uses[i].memory_current =
				v->uses[i].processes_known = v->uses[i].peak_known =
					v->uses[i].allocation_current = known;
		v->devices[0].allocated_known = v->resources[0].allocated_known = known;
		text = node_text(v, NULL, NULL, METRICS_PROMETHEUS);
		for (size_t i = 0; i < ARRAY_LEN(names); i++)
			if ((strict_find(text, names[i], NULL) != NULL) != known)
				fail_msg("%s: known %d", names[i], known);
	}
}

/* NVML has never answered: 0 GPUs would be a count. */
static void metrics_render__counts_no_unknown_gpus(void **state)
{
	static const struct {
		bool nvml_up;
		uint32_t n_gpus;
		bool counted;
	} rows[] = { { false, 0, false }, { true, 0, true }, { false, 1, true } };
	struct metrics_options o = node_options();
	CLEANUP(view_unrefp) struct view *v = NULL;
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(node_view(&v, NODE_WHOLE, &err), &err);
	o.opencost = true;
	v->n_devices = v->n_uses = v->n_replicas = 0;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(freep) char *text = NULL;

		v->nvml_up = rows[i].nvml_up;
		v->n_gpus = rows[i].n_gpus;
		v->gpus[0].n_devices = 0;
		text = node_text(v, &o, NULL, METRICS_PROMETHEUS);
		assert_int_equal(strict_find(text, "node_gpu_count", NULL) != NULL,
			rows[i].counted);
	}
}

/* The parts of a container that are one series: what a part lacks, the sum lacks. */
static void metrics_render__has_no_sum_of_unknown_figures(void **state)
{
	static const char csv[] =
		"DCGM_FI_DEV_FB_USED, gauge, b\nDCGM_FI_DEV_GPU_UTIL, gauge, c\n";
	static const char *const pod[] = { "pod=", NULL };
	CLEANUP(view_unrefp) struct view *v = NULL;
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(node_view(&v, NODE_SHARED, &err), &err);
	v->uses[1].pod = v->uses[0].pod;
	v->n_uses = v->devices[0].n_uses = 2;
	for (int known = 1; known >= 0; known--) {
		CLEANUP(freep) char *text = NULL;

		v->uses[1].memory_known = known;
		v->uses[1].received = known ? 1 : VIEW_NONE;
		text = node_text(v, NULL, csv, METRICS_PROMETHEUS);
		assert_int_equal(strict_find(text, "DCGM_FI_DEV_FB_USED", pod) != NULL, known);
		assert_int_equal(strict_find(text, "DCGM_FI_DEV_GPU_UTIL", pod) != NULL, known);
	}
}

static void count_devices(const char *devices, size_t temperatures, size_t memories)
{
	static const char csv[] =
		"DCGM_FI_DEV_GPU_TEMP, gauge, a\nDCGM_FI_DEV_FB_FREE, gauge, b\n";
	CLEANUP(view_unrefp) struct view *v = NULL;
	CLEANUP(freep) char *text = NULL;
	struct metrics_options o = node_options();
	struct error err = ERROR_INIT;

	assert_ok(node_view(&v, NODE_MIG, &err), &err);
	assert_ok(metrics_devices_parse(&o.devices, devices, &err), &err);
	text = node_text(v, &o, csv, METRICS_PROMETHEUS);
	assert_int_equal(strict_sum(text, "DCGM_FI_DEV_GPU_TEMP", NULL),
		temperatures * 38000000);
	assert_int_equal(strict_sum(text, "DCGM_FI_DEV_FB_FREE", NULL), memories * 30000000000);
}

/* A board alone has all that it can have; beside its instances only what they have not. */
static void metrics_render__has_the_selected_devices(void **state)
{
	(void)state;
	count_devices("f", 1, 3);
	count_devices("g", 1, 1);
	count_devices("g:1", 0, 0);
	count_devices("i", 0, 3);
	count_devices("i:1,2", 0, 2);
}

/* --- all nodes, in all formats --- */

static void vary_options(struct metrics_options *o, unsigned bits)
{
	*o = node_options();
	o->old_namespace = bits & 1;
	o->pod_uid = bits & 2;
	o->virtual_gpus = bits & 4;
	o->per_instance_board = bits & 8;
	o->kubernetes = !(bits & 16);
}

static void metrics_render__is_valid_for_all_nodes_and_options(void **state)
{
	static const char all[] =
		"DCGM_FI_DEV_GPU_TEMP, gauge, a\nDCGM_FI_DEV_FB_USED, gauge, b\n"
		"DCGM_FI_DEV_GPU_UTIL, gauge, c\nDCGM_FI_DEV_UUID, label, d\n"
		"DCGM_FI_PROF_GR_ENGINE_ACTIVE, gauge, e\n"
		"DCGM_EXP_GPU_HEALTH_STATUS, counter, f\n"
		"DCGM_FI_DEV_XID_ERRORS, gauge, g\n";

	(void)state;
	for (int k = 0; k < VIEW_SAMPLE_COUNT_; k++) {
		CLEANUP(view_unrefp) struct view *v = NULL;
		struct error err = ERROR_INIT;

		assert_ok(view_sample(&v, (enum view_sample_kind)k, &err), &err);
		for (unsigned bits = 0; bits < 32; bits++) {
			struct metrics_options o;

			vary_options(&o, bits);
			for (int f = METRICS_PROMETHEUS; f <= METRICS_OPENMETRICS; f++) {
				CLEANUP(freep)
				char *text = node_text(v, &o, bits % 3 ? NULL : all,
					(enum metrics_format)f);

				assert_true(strict_read(text, (enum metrics_format)f) > 20);
			}
		}
	}
}

/* --- sums --- */

static void check_sum(const char *text, const char *unit, const char *whole, const char *part,
	const char *ended, const char *rest)
{
	uint64_t total = strict_sum(text, whole, unit);
	uint64_t sum = strict_sum(text, part, unit) + strict_sum(text, ended, unit) +
		       strict_sum(text, rest, unit);

	/* Doubles of the test itself: a few millionths. */
	if (sum > total + 20 || total > sum + 20)
		fail_msg("%s{%s}: %llu, the parts are %llu", whole, unit,
			(unsigned long long)total, (unsigned long long)sum);
}

static void check_sums(const struct view *v)
{
	CLEANUP(freep) char *text = node_text(v, NULL, NULL, METRICS_PROMETHEUS);

	for (uint32_t i = 0; i < v->n_gpus; i++) {
		char gpu[40];

		(void)snprintf(gpu, sizeof(gpu), ",gpu=\"%u\",", v->gpus[i].index);
		check_sum(text, gpu, "gpuslice_gpu_busy_seconds_total",
			"gpuslice_container_gpu_busy_seconds_total",
			"gpuslice_gpu_ended_busy_seconds_total",
			"gpuslice_gpu_other_busy_seconds_total");
		check_sum(text, gpu, "gpuslice_gpu_seconds_total",
			"gpuslice_container_gpu_seconds_total",
			"gpuslice_gpu_ended_seconds_total", "gpuslice_gpu_idle_seconds_total");
		check_sum(text, gpu, "gpuslice_gpu_cost_total",
			"gpuslice_container_gpu_cost_total", "gpuslice_gpu_ended_cost_total",
			"gpuslice_gpu_idle_cost_total");
		check_sum(text, gpu, "gpuslice_gpu_memory_used_bytes",
			"gpuslice_container_memory_used_bytes", "none",
			"gpuslice_gpu_memory_other_bytes");
	}
}

static void metrics_render__adds_up(void **state)
{
	(void)state;
	for (int k = 0; k < VIEW_SAMPLE_COUNT_; k++) {
		CLEANUP(view_unrefp) struct view *v = NULL;
		struct error err = ERROR_INIT;

		assert_ok(view_sample(&v, (enum view_sample_kind)k, &err), &err);
		check_sums(v);
	}
}

/* A recreated pod while the former one is still listed: one series, and the sums agree. */
static void metrics_render__has_one_series_for_a_recreated_pod(void **state)
{
	static const char *const who[] = { "pod=\"train-0\"", NULL };
	CLEANUP(view_unrefp) struct view *v = NULL;
	CLEANUP(freep) char *text = NULL;
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(node_view(&v, NODE_WHOLE, &err), &err);
	v->uses[1] = v->uses[0];
	v->n_uses = v->devices[0].n_uses = 2;
	v->uses[1].live = false;
	v->uses[1].busy_ns = 7 * UINT64_C(1000000000);
	v->devices[0].other_busy_ns -= v->uses[1].busy_ns;
	v->devices[0].present_ns += v->uses[1].gpu_ns;
	v->devices[0].idle_cost_nano -= v->uses[1].cost_nano;
	v->devices[0].other_memory = v->devices[0].memory_used - v->uses[0].memory_used;
	assert_ok(view_check(v, &err), &err);
	text = node_text(v, NULL, NULL, METRICS_PROMETHEUS);
	(void)strict_read(text, METRICS_PROMETHEUS);
	assert_string_equal(strict_find(text, "gpuslice_container_gpu_busy_seconds_total", who),
		"100.000000001");
	assert_string_equal(strict_find(text, "gpuslice_gpu_ended_busy_seconds_total", NULL),
		"7");
	check_sums(v);
}

/* --- labels of pods --- */

static void metrics_render__adds_labels_of_pods(void **state)
{
	/* The labels of a series stay, whatever labels the pod has. */
	static const struct view_label labels[] = {
		{ "DCGM_FI_DRIVER_VERSION", "no" },
		{ "UUID", "no" },
		{ "app_kubernetes_io_name", "chat" },
		{ "gpu", "no" },
		{ "mood", "\"fine\" \\o/" },
		{ "pod", "no" },
		{ "team", "x" },
		{ "xid", "no" },
	};
	CLEANUP(view_unrefp) struct view *v = NULL;
	CLEANUP(freep) char *text = NULL;
	CLEANUP(freep) char *without = NULL;
	struct metrics_options o = node_options();
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(node_view(&v, NODE_SHARED, &err), &err);
	v->uses[0].labels = labels;
	v->uses[0].n_labels = ARRAY_LEN(labels);
	without = node_text(v, &o, NULL, METRICS_PROMETHEUS);
	assert_null(strstr(without, "app_kubernetes_io_name"));
	o.pod_labels = true;
	text = node_text(v, &o, NULL, METRICS_PROMETHEUS);
	(void)strict_read(text, METRICS_PROMETHEUS);
	node_extract_dcgm(text);
	node_expect_text("h100-shared-pod-labels", text);
}

static void metrics_render__has_room_for_all_labels_of_a_pod(void **state)
{
	CLEANUP(view_unrefp) struct view *v = NULL;
	CLEANUP(freep) char *text = NULL;
	struct view_label labels[100];
	struct metrics_options o = node_options();
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(node_view(&v, NODE_OLD, &err), &err);
	v = view_unref(v);
	assert_ok(node_view(&v, NODE_WHOLE, &err), &err);
	v->gpus[0].last_xid = 48;
	for (uint32_t i = 0; i < ARRAY_LEN(labels); i++)
		labels[i] = (struct view_label){ view_printf(v, "l%02u", i), "v" };
	v->uses[0].labels = labels;
	v->uses[0].n_labels = ARRAY_LEN(labels);
	o.pod_labels = o.pod_uid = o.virtual_gpus = true;
	text = node_text(v, &o, NULL, METRICS_PROMETHEUS);
	(void)strict_read(text, METRICS_PROMETHEUS);
	assert_non_null(strstr(text, "l63=\"v\""));
}

/* --- pairs of GPUs --- */

static void metrics_render__writes_the_p2p_status_of_each_pair(void **state)
{
	static const char csv[] = "DCGM_EXP_P2P_STATUS, gauge, reach over NVLink\n";
	static const uint8_t p2p[] = { 0, 1, 2, 3, 4, 5, 6, 7, 0 };
	CLEANUP(view_unrefp) struct view *v = NULL;
	CLEANUP(freep) char *none = NULL;
	CLEANUP(freep) char *text = NULL;
	struct error err = ERROR_INIT;
	struct view_gpu *gpus;

	(void)state;
	assert_ok(node_view(&v, NODE_WHOLE, &err), &err);
	none = node_text(v, NULL, csv, METRICS_PROMETHEUS);
	assert_null(strstr(none, "DCGM_EXP_P2P_STATUS"));
	gpus = view_array(v, ARRAY_LEN(p2p), sizeof(*gpus));
	assert_non_null(gpus);
	for (uint32_t i = 0; i < ARRAY_LEN(p2p); i++) {
		gpus[i] = v->gpus[0];
		gpus[i].index = i;
		gpus[i].n_devices = i ? 0 : 1;
		gpus[i].uuid = view_printf(v, "GPU-%u", i);
	}
	v->gpus = gpus;
	v->n_gpus = ARRAY_LEN(p2p);
	gpus[0].p2p = p2p;
	text = node_text(v, NULL, csv, METRICS_PROMETHEUS);
	(void)strict_read(text, METRICS_PROMETHEUS);
	node_extract_dcgm(text);
	node_expect_text("h100-p2p", text);
}

/* --- limits --- */

static void metrics_render__reports_when_it_does_not_fit(void **state)
{
	CLEANUP(view_unrefp) struct view *v = NULL;
	CLEANUP(metrics_counters_unrefp) struct metrics_counters *c = NULL;
	CLEANUP(buf_fini) struct buf out = BUF_INIT(1000);
	struct metrics_options o = node_options();
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(node_view(&v, NODE_WHOLE, &err), &err);
	assert_ok(metrics_counters_read(&c, NULL, NULL, &err), &err);
	assert_error(
		metrics_render(&out,
			&(struct metrics_request){ .view = v, .counters = c, .options = &o },
			&err),
		&err, "longer than 1000 bytes");
	assert_int_equal(err.code, ERR_LIMIT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(metrics_render__writes_a_whole_gpu),
		cmocka_unit_test(metrics_render__writes_replicas_of_a_shared_gpu),
		cmocka_unit_test(metrics_render__writes_the_board_of_mig_once),
		cmocka_unit_test(metrics_render__has_no_line_for_unknown_figures),
		cmocka_unit_test(metrics_render__has_the_old_names_of_labels),
		cmocka_unit_test(metrics_render__prints_names_as_written),
		cmocka_unit_test(metrics_render__keeps_the_series_of_a_shared_gpu),
		cmocka_unit_test(metrics_render__writes_nothing_where_nothing_is_measured),
		cmocka_unit_test(metrics_render__counts_no_unknown_gpus),
		cmocka_unit_test(metrics_render__has_no_sum_of_unknown_figures),
		cmocka_unit_test(metrics_render__has_the_selected_devices),
		cmocka_unit_test(metrics_render__is_valid_for_all_nodes_and_options),
		cmocka_unit_test(metrics_render__adds_up),
		cmocka_unit_test(metrics_render__has_one_series_for_a_recreated_pod),
		cmocka_unit_test(metrics_render__adds_labels_of_pods),
		cmocka_unit_test(metrics_render__has_room_for_all_labels_of_a_pod),
		cmocka_unit_test(metrics_render__writes_the_p2p_status_of_each_pair),
		cmocka_unit_test(metrics_render__reports_when_it_does_not_fit),
	};

	return cmocka_run_group_tests_name("metrics-text", tests, NULL, NULL);
}
