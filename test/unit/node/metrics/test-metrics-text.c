/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "lib/base/fd.h"
#include "support/view-sample.h"
#include "unit/node/metrics/node.h"
#include "unit/node/metrics/strict.h"
#include "node/metrics/write.h"

/*
 * Whole texts against files in test/data/metrics. With UPDATE_GOLDEN=1 in the environment the files are written
 * instead; read what git says of them then.
 */
static void compare(const char *name, const char *text)
{
	CLEANUP(buf_fini) struct buf file = BUF_INIT(4 << 20);
	struct error err = ERROR_INIT;
	char path[300];

	(void)snprintf(path, sizeof(path), "%s/test/data/metrics/%s.txt", TEST_SOURCE, name);
	if (getenv("UPDATE_GOLDEN")) {
		assert_ok(file_write_atomic(path, text, strlen(text), 0644, &err), &err);
		return;
	}
	assert_ok(file_read(path, &file, &err), &err);
	assert_string_equal(text, buf_str(&file));
}

/* What is in front of our own families. */
static void extract_dcgm(char *text)
{
	char *own = strstr(text, "# HELP gpuslice_");

	if (own)
		*own = '\0';
}

static struct metrics_options usual(void)
{
	struct metrics_options o;

	metrics_options_default(&o);
	return o;
}

static void check(const char *name, enum node_kind kind, const struct metrics_options *o,
	const char *csv, enum metrics_format format, bool dcgm_only)
{
	CLEANUP(view_unrefp) struct view *v = NULL;
	CLEANUP(freep) char *text = NULL;
	struct error err = ERROR_INIT;

	assert_ok(node_view(&v, kind, &err), &err);
	assert_ok(view_check(v, &err), &err);
	text = node_text(v, o, csv, format);
	(void)strict_read(text, format);
	if (dcgm_only)
		extract_dcgm(text);
	compare(name, text);
}

static void metrics_render__writes_a_whole_gpu(void **state)
{
	(void)state;
	check("h100-whole", NODE_WHOLE, NULL, NULL, METRICS_PROMETHEUS, false);
	check("h100-whole-openmetrics", NODE_WHOLE, NULL, NULL, METRICS_OPENMETRICS, false);
	check("h100-idle", NODE_IDLE, NULL, NULL, METRICS_PROMETHEUS, true);
}

static void metrics_render__writes_parts_of_a_shared_gpu(void **state)
{
	struct metrics_options o = usual();

	(void)state;
	check("h100-shared", NODE_SHARED, NULL, NULL, METRICS_PROMETHEUS, false);
	o.virtual_gpus = true;
	check("h100-shared-virtual", NODE_SHARED, &o, NULL, METRICS_PROMETHEUS, true);
	o = usual();
	o.kubernetes = false;
	check("h100-shared-no-pods", NODE_SHARED, &o, NULL, METRICS_PROMETHEUS, true);
}

static void metrics_render__writes_the_board_of_mig_once(void **state)
{
	struct metrics_options o = usual();

	(void)state;
	check("h100-mig", NODE_MIG, NULL, NULL, METRICS_PROMETHEUS, false);
	o.per_instance_board = true;
	check("h100-mig-copies", NODE_MIG, &o, NULL, METRICS_PROMETHEUS, true);
}

static void metrics_render__has_no_line_for_what_is_not_known(void **state)
{
	(void)state;
	check("t4-old", NODE_OLD, NULL, NULL, METRICS_PROMETHEUS, false);
}

static void metrics_render__has_the_old_names_of_labels(void **state)
{
	struct metrics_options o = usual();

	(void)state;
	o.old_namespace = true;
	o.hostname = METRICS_HOSTNAME_LOWER;
	o.replace_blanks_in_model_name = true;
	check("h100-old-namespace", NODE_WHOLE, &o, NULL, METRICS_PROMETHEUS, true);
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
	struct metrics_options o = usual();

	(void)state;
	o.gpm_raw_units = true;
	o.hostname = METRICS_HOSTNAME_NONE;
	check("h100-names", NODE_WHOLE, &o, csv, METRICS_PROMETHEUS, true);
	check("h100-names-openmetrics", NODE_WHOLE, &o, csv, METRICS_OPENMETRICS, true);
}

/* The series of a shared GPU do not change with who comes and goes, not for the only pod on it either. */
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
	/* Not known is not 0. */
	v->uses[0].received = VIEW_NONE;
	free(text);
	text = node_text(v, NULL, NULL, METRICS_PROMETHEUS);
	assert_null(strict_find(text, "DCGM_FI_DEV_GPU_UTIL", pod));
	assert_null(strict_find(text, "gpuslice_container_received_ratio", NULL));
	assert_null(strict_find(text, "gpuslice_slices_used", NULL));
}

/* A counter that does not advance has a gap, and an unknown figure is not 0. */
static void metrics_render__rests_where_nothing_is_measured(void **state)
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
static void metrics_render__counts_no_gpus_that_are_not_known(void **state)
{
	static const struct {
		bool nvml_up;
		uint32_t n_gpus;
		bool counted;
	} rows[] = { { false, 0, false }, { true, 0, true }, { false, 1, true } };
	struct metrics_options o = usual();
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
static void metrics_render__has_no_sum_of_what_is_not_known(void **state)
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
	struct metrics_options o = usual();
	struct error err = ERROR_INIT;

	assert_ok(node_view(&v, NODE_MIG, &err), &err);
	assert_ok(metrics_devices_parse(&o.devices, devices, &err), &err);
	text = node_text(v, &o, csv, METRICS_PROMETHEUS);
	assert_int_equal(strict_sum(text, "DCGM_FI_DEV_GPU_TEMP", NULL),
		temperatures * 38000000);
	assert_int_equal(strict_sum(text, "DCGM_FI_DEV_FB_FREE", NULL), memories * 30000000000);
}

/* A board alone has all that it can have; beside its instances only what they have not. */
static void metrics_render__has_the_devices_that_are_wanted(void **state)
{
	(void)state;
	count_devices("f", 1, 3);
	count_devices("g", 1, 1);
	count_devices("g:1", 0, 0);
	count_devices("i", 0, 3);
	count_devices("i:1,2", 0, 2);
}

/* --- all that there is to look at, in all forms --- */

static void vary(struct metrics_options *o, unsigned bits)
{
	*o = usual();
	o->old_namespace = bits & 1;
	o->pod_uid = bits & 2;
	o->virtual_gpus = bits & 4;
	o->per_instance_board = bits & 8;
	o->kubernetes = !(bits & 16);
}

static void metrics_render__is_right_for_all_nodes_and_options(void **state)
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

			vary(&o, bits);
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

/* A pod of the same name again, while the one before is still listed: one series, and the sums hold. */
static void metrics_render__has_one_series_for_a_pod_made_again(void **state)
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
	/* What a series has of itself stays, whatever the pod says. */
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
	struct metrics_options o = usual();
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
	extract_dcgm(text);
	compare("h100-shared-pod-labels", text);
}

static void metrics_render__has_room_for_all_labels_of_a_pod(void **state)
{
	CLEANUP(view_unrefp) struct view *v = NULL;
	CLEANUP(freep) char *text = NULL;
	struct view_label labels[100];
	struct metrics_options o = usual();
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

/* --- XIDs of a window --- */

static void metrics_xids__counts_those_of_the_window(void **state)
{
	static const char csv[] = "DCGM_EXP_XID_ERRORS_COUNT, gauge, xids\n";
	CLEANUP(view_unrefp) struct view *v = NULL, *later = NULL;
	CLEANUP(metrics_xids_freep) struct metrics_xids *x = NULL;
	CLEANUP(metrics_counters_unrefp) struct metrics_counters *c = NULL;
	CLEANUP(buf_fini) struct buf out = BUF_INIT(1 << 20);
	struct metrics_options o = usual();
	struct error err = ERROR_INIT;
	struct metrics_xid got[4];

	(void)state;
	assert_ok(node_view(&v, NODE_OLD, &err), &err);
	assert_ok(node_view(&later, NODE_OLD, &err), &err);
	assert_ok(metrics_xids_new(&x, &err), &err);
	metrics_xids_update(x, v);
	later->gpus[0].xids[0].count += 5;
	later->mono_ns += 1000;
	metrics_xids_update(x, later);
	metrics_xids_update(x, later);
	assert_int_equal(metrics_xids_within(x, v->gpus[0].uuid, later->mono_ns, 1, got, 4), 1);
	assert_int_equal(got[0].xid, 13);
	assert_int_equal(got[0].count, 5);
	assert_int_equal(
		metrics_xids_within(x, v->gpus[0].uuid, later->mono_ns + 10, 5, got, 4), 0);
	assert_int_equal(metrics_xids_within(x, "GPU-other", later->mono_ns, 1, got, 4), 0);

	assert_ok(metrics_counters_parse(&c, "t", csv, strlen(csv), NULL, &err), &err);
	assert_ok(metrics_render(&out,
			  &(struct metrics_request){ .view = later,
				  .counters = c,
				  .options = &o,
				  .xids = x },
			  &err),
		&err);
	assert_non_null(strstr(buf_str(&out),
		"Hostname=\"node1\",window_size_in_ms=\"300000\",xid=\"13\"} 5\n"));
}

static void metrics_render__has_all_xids_ever(void **state)
{
	static const char csv[] = "DCGM_EXP_XID_ERRORS_TOTAL, counter, xids\n";
	CLEANUP(view_unrefp) struct view *v = NULL;
	CLEANUP(freep) char *text = NULL;
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(node_view(&v, NODE_OLD, &err), &err);
	text = node_text(v, NULL, csv, METRICS_PROMETHEUS);
	assert_non_null(strstr(text, "Hostname=\"node1\",xid=\"13\"} 2\n"));
	assert_non_null(strstr(text, "Hostname=\"node1\",xid=\"48\"} 1\n"));
}

/* --- clock events of a window --- */

#define S  UINT64_C(1000000000)
#define US UINT64_C(1000)

/* A view of a GPU whose clocks were limited so, a second after the one before; -1: NVML does not say. */
static struct view *clock_view(enum node_kind kind, uint64_t second, int64_t reasons)
{
	struct view *v = NULL;
	struct error err = ERROR_INIT;

	assert_ok(node_view(&v, kind, &err), &err);
	v->mono_ns = second * S;
	v->sample->devices[0].at_ns = second * S + US;
	if (reasons >= 0)
		node_add(&v->sample->devices[0], "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS",
			(double)reasons);
	return v;
}

static void update_clock_reasons(struct metrics_clocks *c, uint64_t second, int64_t reasons)
{
	CLEANUP(view_unrefp) struct view *v = clock_view(NODE_IDLE, second, reasons);

	metrics_clocks_update(c, v);
	metrics_clocks_update(c, v);
}

static void metrics_clocks__counts_looks_of_the_window(void **state)
{
	CLEANUP(view_unrefp) struct view *v = clock_view(NODE_IDLE, 0, -1);
	CLEANUP(metrics_clocks_freep) struct metrics_clocks *c = NULL;
	const char *uuid = v->gpus[0].uuid;
	struct error err = ERROR_INIT;
	uint64_t got[METRICS_CLOCK_EVENTS];

	(void)state;
	assert_ok(metrics_clocks_new(&c, &err), &err);
	update_clock_reasons(c, 10, 0x1);
	update_clock_reasons(c, 11, 0x104);
	update_clock_reasons(c, 12, -1);
	update_clock_reasons(c, 13, 0x4);
	update_clock_reasons(c, 14, 0);
	metrics_clocks_within(c, uuid, 14 * S, 4 * S, got);
	assert_int_equal(got[0], 1);
	assert_int_equal(got[2], 2);
	assert_int_equal(got[8], 1);
	assert_int_equal(got[1] + got[3] + got[4] + got[5] + got[6] + got[7], 0);
	metrics_clocks_within(c, uuid, 14 * S, 2 * S, got);
	assert_int_equal(got[0] + got[8], 0);
	assert_int_equal(got[2], 1);
	metrics_clocks_within(c, uuid, 14 * S, UINT64_MAX, got);
	assert_int_equal(got[0], 1);
	metrics_clocks_within(c, "GPU-other", 14 * S, 4 * S, got);
	assert_int_equal(got[2], 0);
	metrics_clocks_forget(c);
	metrics_clocks_within(c, uuid, 14 * S, 4 * S, got);
	assert_int_equal(got[2], 0);
}

/* Clock events in the first sample are not known to be new. */
static void metrics_clocks__counts_what_begins(void **state)
{
	CLEANUP(view_unrefp) struct view *v = clock_view(NODE_IDLE, 0, -1);
	CLEANUP(metrics_clocks_freep) struct metrics_clocks *c = NULL;
	static const int64_t reasons[] = { 0x1, 0x5, 0x4, 0x8, 0x8, 0, 0x9 };
	struct error err = ERROR_INIT;
	uint64_t got[METRICS_CLOCK_EVENTS];

	(void)state;
	assert_ok(metrics_clocks_new(&c, &err), &err);
	for (size_t i = 0; i < ARRAY_LEN(reasons); i++)
		update_clock_reasons(c, 1 + i, reasons[i]);
	metrics_clocks_total(c, v->gpus[0].uuid, got);
	assert_int_equal(got[0], 1);
	assert_int_equal(got[2], 1);
	assert_int_equal(got[3], 2);
	assert_int_equal(got[1] + got[4] + got[5] + got[6] + got[7] + got[8], 0);
}

/* A day's samples at one a second do not fit: the last samples stay. */
static void metrics_clocks__drops_the_oldest(void **state)
{
	const uint64_t n = 2 * METRICS_CLOCK_SAMPLES + 100;
	CLEANUP(view_unrefp) struct view *v = clock_view(NODE_IDLE, 0, 0x20);
	CLEANUP(metrics_clocks_freep) struct metrics_clocks *c = NULL;
	struct error err = ERROR_INIT;
	uint64_t got[METRICS_CLOCK_EVENTS];

	(void)state;
	assert_ok(metrics_clocks_new(&c, &err), &err);
	for (uint64_t i = 1; i <= n; i++) {
		v->mono_ns = v->sample->devices[0].at_ns = i * S;
		metrics_clocks_update(c, v);
		metrics_clocks_within(c, v->gpus[0].uuid, i * S, 3 * S, got);
		assert_int_equal(got[5], i < 4 ? i : 4);
	}
	metrics_clocks_within(c, v->gpus[0].uuid, n * S, UINT64_MAX, got);
	assert_int_equal(got[5], METRICS_CLOCK_SAMPLES);
}

/* GPUs that went long ago make room for new ones. */
static void metrics_clocks__has_room_for_new_gpus(void **state)
{
	CLEANUP(view_unrefp) struct view *v = clock_view(NODE_IDLE, 0, 0x2);
	CLEANUP(metrics_clocks_freep) struct metrics_clocks *c = NULL;
	struct error err = ERROR_INIT;
	uint64_t got[METRICS_CLOCK_EVENTS];

	(void)state;
	assert_ok(metrics_clocks_new(&c, &err), &err);
	for (uint64_t i = 0; i < METRICS_CLOCK_GPUS + 3; i++) {
		v->gpus[0].uuid = view_printf(v, "GPU-%02u", (unsigned)i);
		v->mono_ns = v->sample->devices[0].at_ns = (100 + i) * S;
		metrics_clocks_update(c, v);
	}
	for (uint64_t i = 0; i < METRICS_CLOCK_GPUS + 3; i++) {
		metrics_clocks_within(c, view_printf(v, "GPU-%02u", (unsigned)i), 1000 * S,
			1000 * S, got);
		assert_int_equal(got[1], i < 3 ? 0 : 1);
	}
}

static char *clock_text(struct view *v, struct metrics_clocks *c, bool copies)
{
	static const char csv[] = "DCGM_EXP_CLOCK_EVENTS_COUNT, gauge, looks with this reason\n"
				  "DCGM_EXP_CLOCK_EVENTS_TOTAL, counter, times that it began\n";
	CLEANUP(metrics_counters_unrefp) struct metrics_counters *counters = NULL;
	CLEANUP(buf_fini) struct buf out = BUF_INIT(1 << 20);
	struct metrics_options o = usual();
	struct error err = ERROR_INIT;
	char *text;

	o.per_instance_board = copies;
	o.clock_window_ns = 60 * S;
	assert_ok(metrics_counters_parse(&counters, "t", csv, strlen(csv), NULL, &err), &err);
	assert_ok(metrics_render(&out,
			  &(struct metrics_request){ .view = v,
				  .counters = counters,
				  .options = &o,
				  .clocks = c },
			  &err),
		&err);
	text = buf_steal(&out);
	assert_non_null(text);
	(void)strict_read(text, METRICS_PROMETHEUS);
	extract_dcgm(text);
	return text;
}

static void check_clocks(const char *name, enum node_kind kind, bool copies)
{
	static const int64_t reasons[] = { 0x1, 0x0, 0x1ff, 0xfe, 0x0, 0x44 };
	CLEANUP(metrics_clocks_freep) struct metrics_clocks *c = NULL;
	CLEANUP(view_unrefp) struct view *v = NULL;
	CLEANUP(freep) char *text = NULL;
	struct error err = ERROR_INIT;

	assert_ok(metrics_clocks_new(&c, &err), &err);
	for (size_t i = 0; i < ARRAY_LEN(reasons); i++) {
		v = view_unref(v);
		v = clock_view(kind, 1000 + 20 * i, reasons[i]);
		metrics_clocks_update(c, v);
	}
	text = clock_text(v, c, copies);
	compare(name, text);
}

static void metrics_render__writes_clock_events_of_boards(void **state)
{
	CLEANUP(view_unrefp) struct view *v = clock_view(NODE_WHOLE, 1, 0x1);
	CLEANUP(freep) char *text = clock_text(v, NULL, false);

	(void)state;
	assert_string_equal(text, "");
	check_clocks("h100-clock-events", NODE_WHOLE, false);
	check_clocks("h100-clock-events-shared", NODE_SHARED, false);
	check_clocks("h100-clock-events-mig", NODE_MIG, false);
	check_clocks("h100-clock-events-mig-copies", NODE_MIG, true);
}

/* --- pairs of GPUs --- */

static void metrics_render__says_who_reaches_whom(void **state)
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
	extract_dcgm(text);
	compare("h100-p2p", text);
}

/* --- limits, headers --- */

static void metrics_render__says_when_it_does_not_fit(void **state)
{
	CLEANUP(view_unrefp) struct view *v = NULL;
	CLEANUP(metrics_counters_unrefp) struct metrics_counters *c = NULL;
	CLEANUP(buf_fini) struct buf out = BUF_INIT(1000);
	struct metrics_options o = usual();
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

static void metrics_format_of_accept__takes_what_is_wanted_most(void **state)
{
	static const struct {
		const char *accept;
		enum metrics_format format;
	} rows[] = {
		{ NULL, METRICS_PROMETHEUS },
		{ "", METRICS_PROMETHEUS },
		{ "*/*", METRICS_PROMETHEUS },
		{ "text/html,*/*;q=0.8", METRICS_PROMETHEUS },
		{ "application/openmetrics-text", METRICS_OPENMETRICS },
		{ "Application/OpenMetrics-Text; Version=1.0.0", METRICS_OPENMETRICS },
		{ "application/openmetrics-text;version=1.0.0,application/"
		  "openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
			METRICS_OPENMETRICS },
		{ "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
		  "text/plain;version=0.0.4;q=0.5",
			METRICS_OPENMETRICS },
		{ "application/openmetrics-text;q=0.4,text/plain;q=0.5", METRICS_PROMETHEUS },
		{ "application/openmetrics-text;version=2.0.0", METRICS_PROMETHEUS },
		{ "application/openmetrics-text;q=0", METRICS_PROMETHEUS },
		{ "application/openmetrics-text;q=abc", METRICS_PROMETHEUS },
		{ "application/openmetrics-text;q=1.5", METRICS_PROMETHEUS },
		{ ",,;;q=,=;", METRICS_PROMETHEUS },
		{ ",,;;,", METRICS_PROMETHEUS },
		{ "application/json", METRICS_PROMETHEUS },
		{ "application/openmetrics-text ; q=0.125, TEXT/Plain;q=0.1",
			METRICS_OPENMETRICS },
		{ "application/openmetrics-text;q=0.125, TEXT/Plain;q=0.126",
			METRICS_PROMETHEUS },
		{ "text/*;q=0.5, application/openmetrics-text;q=0.25", METRICS_PROMETHEUS },
		{ "text/plain;q=0.25,application/openmetrics-text;q=1.000",
			METRICS_OPENMETRICS },
		{ "application/openmetrics-text;q=", METRICS_PROMETHEUS },
		/* Prometheus 2 and 3 */
		{ "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.4,"
		  "*/*;q=0.3",
			METRICS_OPENMETRICS },
		{ "application/openmetrics-text;version=1.0.0;q=0.5,"
		  "application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,"
		  "*/*;q=0.2",
			METRICS_OPENMETRICS },
		{ "application/openmetrics-textual", METRICS_PROMETHEUS },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (metrics_format_of_accept(rows[i].accept) != rows[i].format)
			fail_msg("Accept: %s", rows[i].accept);
	assert_string_equal(metrics_content_type(METRICS_PROMETHEUS),
		"text/plain; version=0.0.4; charset=utf-8");
}

/* --- docs --- */

static const char *type_name(const struct metrics_family *f)
{
	static const char *const names[] = { "gauge", "counter", "info", "unknown" };

	return names[f->type];
}

static const char *suffix(const struct metrics_family *f)
{
	return f->type == METRICS_COUNTER ? "_total" : f->type == METRICS_INFO ? "_info" : "";
}

/* docs/metrics.md has a row for each family, as the table says it, and no other. */
static void metrics_family_at__is_what_the_docs_say(void **state)
{
	CLEANUP(buf_fini) struct buf docs = BUF_INIT(1 << 20);
	CLEANUP(buf_fini) struct buf row = BUF_INIT(4096);
	struct error err = ERROR_INIT;
	size_t n = 0, rows = 0;

	(void)state;
	assert_ok(file_read(TEST_SOURCE "/docs/metrics.md", &docs, &err), &err);
	for (const struct metrics_family *f; (f = metrics_family_at(n)); n++) {
		buf_clear(&row);
		buf_printf(&row, "\n| `%s%s` | %s | %s | %s |\n", f->name, suffix(f),
			type_name(f), f->extra ? f->extra : "", f->help);
		if (!strstr(buf_str(&docs), buf_str(&row)))
			fail_msg("docs/metrics.md has no row: %s", buf_str(&row));
		assert_true(!f->unit || strstr(f->name, f->unit));
	}
	for (const char *at = buf_str(&docs); (at = strstr(at, "\n| `")); at++)
		rows += !strncmp(at + 4, "gpuslice_", 9) || !strncmp(at + 4, "node_gpu", 8) ||
			!strncmp(at + 4, "container_gpu", 13);
	assert_int_equal(rows, n);
}

static void metrics_number__is_exact(void **state)
{
	static const struct {
		enum metrics_kind kind;
		uint64_t value;
		const char *text;
	} rows[] = {
		{ METRICS_COUNT, 0, "0" },
		{ METRICS_COUNT, UINT64_MAX, "18446744073709551615" },
		{ METRICS_NANO, 1, "0.000000001" },
		{ METRICS_NANO, 1500000000, "1.5" },
		{ METRICS_NANO, UINT64_MAX, "18446744073.709551615" },
		{ METRICS_MICRO, 10, "0.00001" },
		{ METRICS_MICRO, 30001000, "30.001" },
	};
	char text[METRICS_NUMBER_MAX];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		assert_int_equal(metrics_number(text, rows[i].kind, rows[i].value),
			strlen(rows[i].text));
		assert_string_equal(text, rows[i].text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(metrics_render__writes_a_whole_gpu),
		cmocka_unit_test(metrics_render__writes_parts_of_a_shared_gpu),
		cmocka_unit_test(metrics_render__writes_the_board_of_mig_once),
		cmocka_unit_test(metrics_render__has_no_line_for_what_is_not_known),
		cmocka_unit_test(metrics_render__has_the_old_names_of_labels),
		cmocka_unit_test(metrics_render__prints_names_as_written),
		cmocka_unit_test(metrics_render__keeps_the_series_of_a_shared_gpu),
		cmocka_unit_test(metrics_render__rests_where_nothing_is_measured),
		cmocka_unit_test(metrics_render__counts_no_gpus_that_are_not_known),
		cmocka_unit_test(metrics_render__has_no_sum_of_what_is_not_known),
		cmocka_unit_test(metrics_render__has_the_devices_that_are_wanted),
		cmocka_unit_test(metrics_render__is_right_for_all_nodes_and_options),
		cmocka_unit_test(metrics_render__adds_up),
		cmocka_unit_test(metrics_render__has_one_series_for_a_pod_made_again),
		cmocka_unit_test(metrics_render__adds_labels_of_pods),
		cmocka_unit_test(metrics_render__has_room_for_all_labels_of_a_pod),
		cmocka_unit_test(metrics_xids__counts_those_of_the_window),
		cmocka_unit_test(metrics_render__has_all_xids_ever),
		cmocka_unit_test(metrics_clocks__counts_looks_of_the_window),
		cmocka_unit_test(metrics_clocks__counts_what_begins),
		cmocka_unit_test(metrics_clocks__drops_the_oldest),
		cmocka_unit_test(metrics_clocks__has_room_for_new_gpus),
		cmocka_unit_test(metrics_render__writes_clock_events_of_boards),
		cmocka_unit_test(metrics_render__says_who_reaches_whom),
		cmocka_unit_test(metrics_render__says_when_it_does_not_fit),
		cmocka_unit_test(metrics_format_of_accept__takes_what_is_wanted_most),
		cmocka_unit_test(metrics_family_at__is_what_the_docs_say),
		cmocka_unit_test(metrics_number__is_exact),
	};

	return cmocka_run_group_tests_name("metrics-text", tests, NULL, NULL);
}
