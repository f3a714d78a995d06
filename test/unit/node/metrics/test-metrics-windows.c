/* SPDX-License-Identifier: Apache-2.0 */

/* Figures that are counted over a window of time, and in total: XIDs and clock events. */
#include "support/test.h"

#include "unit/node/metrics/node.h"
#include "unit/node/metrics/strict.h"

/* --- XIDs of a window --- */

static void metrics_xids__counts_xids_of_the_window(void **state)
{
	static const char csv[] = "DCGM_EXP_XID_ERRORS_COUNT, gauge, xids\n";
	CLEANUP(view_unrefp) struct view *v = NULL, *later = NULL;
	CLEANUP(metrics_xids_freep) struct metrics_xids *x = NULL;
	CLEANUP(metrics_counters_unrefp) struct metrics_counters *c = NULL;
	CLEANUP(buf_fini) struct buf out = BUF_INIT(1 << 20);
	struct metrics_options o = node_options();
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

/* A view of a GPU whose clocks were limited so, a second after the one before; -1: NVML does not report it. */
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

static void metrics_clocks__counts_samples_of_the_window(void **state)
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
static void metrics_clocks__counts_events_that_begin(void **state)
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
	struct metrics_options o = node_options();
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
	node_extract_dcgm(text);
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
	node_expect_text(name, text);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(metrics_xids__counts_xids_of_the_window),
		cmocka_unit_test(metrics_render__has_all_xids_ever),
		cmocka_unit_test(metrics_clocks__counts_samples_of_the_window),
		cmocka_unit_test(metrics_clocks__counts_events_that_begin),
		cmocka_unit_test(metrics_clocks__drops_the_oldest),
		cmocka_unit_test(metrics_clocks__has_room_for_new_gpus),
		cmocka_unit_test(metrics_render__writes_clock_events_of_boards),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
