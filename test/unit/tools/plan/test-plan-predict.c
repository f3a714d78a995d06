/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "tools/plan/fit/fit.h"
#include "tools/plan/gpus/gpus.h"
#include "tools/plan/input/input.h"

#include <math.h>
#include <string.h>

/*
 * Predictions beside what was measured: an H100 80GB HBM3, driver 580.159.04, 2026-11-27, gpuslice profile of each workload and
 * then gpuslice bench. Mean times of all pods of a kind, in milliseconds.
 */
static const char profiles[] =
	"version: gpuslice/plan/v1\n"
	"workloads:\n"
	"- {name: burn, kind: batch, gpu_ref: H100-SXM5-80GB, t_solo: 0.0004, busy: 1, dram: 0, u: 0.9637, u_bw: 0, mem_peak_mib: 0}\n"
	"- {name: decode, kind: batch, gpu_ref: H100-SXM5-80GB, t_solo: 0.00113, busy: 0.9928, dram: 0, u: 0.0651, mem_peak_mib: 0}\n"
	"- {name: small, kind: batch, gpu_ref: H100-SXM5-80GB, t_solo: 0.0000892, busy: 1, dram: 0, u: 0.0081, mem_peak_mib: 0}\n"
	"- {name: latency, kind: inference-open, gpu_ref: H100-SXM5-80GB, t_solo: 0.000214, busy: 0.01, rate: 100, dram: 0, u: 0, "
	"mem_peak_mib: 0}\n"
	"- {name: train, kind: train, gpu_ref: H100-SXM5-80GB, t_solo: 0.032, busy: 0.965, dram: 0.146, u: 0.937, u_bw: 0.062, "
	"mem_peak_mib: 1866}\n"
	"- {name: infer, kind: inference-closed, gpu_ref: H100-SXM5-80GB, t_solo: 0.000789, busy: 0.721, dram: 0.017, u: 0.112, "
	"mem_peak_mib: 166}\n"
	"- {name: bandwidth, kind: batch, gpu_ref: H100-SXM5-80GB, t_solo: 0.0001938, busy: 0.9958, dram: 0.8811, u: 0.071, u_bw: 0.884, "
	"mem_peak_mib: 512}\n"
	"- {name: untimed, kind: batch, busy: 0.5}\n"
	"calibration:\n"
	"- {gpu: H100-SXM5-80GB, time_slicing: 0.11}\n";

enum { BURN, DECODE, SMALL, LATENCY, TRAIN, INFER, BANDWIDTH, UNTIMED };

struct world {
	struct plan_input *in;
	struct fit *fit;
	const struct plan_gpu *gpu;
};

static void world_init(struct world *w, const char *more)
{
	struct error err = ERROR_INIT;

	*w = (struct world){ .gpu = plan_gpu_find("H100-SXM5-80GB") };
	if (plan_input_new(&w->in, &err) < 0 ||
		plan_input_parse(w->in, "profiles", profiles, strlen(profiles), &err) < 0 ||
		(more && plan_input_parse(w->in, "more", more, strlen(more), &err) < 0) ||
		plan_input_end(w->in, &err) < 0 ||
		fit_new(&w->fit, &w->in->policy, w->in->workloads, w->in->n_workloads,
			plan_gpus, plan_n_gpus, &err) < 0)
		fail_msg("%s", err.msg);
}

static void world_fini(struct world *w)
{
	w->fit = fit_free(w->fit);
	w->in = plan_input_free(w->in);
}

static void predictions__are_close_to_an_h100(void **state)
{
	static const struct {
		enum predict_way way;
		struct predict_pod pods[4];
		size_t which; /* of the pods */
		double measured_ms, off;
	} rows[] = {
		{ PREDICT_ALONE, { { BURN, 1, false } }, 0, 0.400, 0.01 },
#define FOUR(w) { { w, 1, false }, { w, 2, false }, { w, 3, false }, { w, 4, false } }
		{ PREDICT_TIME_SLICING, FOUR(BURN), 0, 1.77, 0.02 },
		{ PREDICT_TIME_SLICING, FOUR(DECODE), 0, 5.03, 0.03 },
		{ PREDICT_TIME_SLICING, FOUR(SMALL), 0, 0.386, 0.05 },
		{ PREDICT_SLICES, FOUR(BURN), 0, 1.59, 0.03 },
		{ PREDICT_SLICES, FOUR(DECODE), 0, 4.58, 0.03 },
		{ PREDICT_SLICES, FOUR(SMALL), 0, 0.358, 0.03 },
		{ PREDICT_SLICES_WEIGHTED, FOUR(BURN), 0, 4.22, 0.05 },
		{ PREDICT_SLICES_WEIGHTED, FOUR(BURN), 3, 1.01, 0.03 },
		{ PREDICT_SLICES_WEIGHTED, FOUR(SMALL), 1, 0.452, 0.03 },
		{ PREDICT_MPS, FOUR(BURN), 0, 1.50, 0.05 },
		{ PREDICT_MPS, FOUR(DECODE), 0, 1.37, 0.03 },
		{ PREDICT_MPS, FOUR(SMALL), 0, 0.0926, 0.03 },
		{ PREDICT_MPS_LIMITED, FOUR(BURN), 0, 1.57, 0.03 },
		{ PREDICT_MPS_LIMITED, FOUR(SMALL), 0, 0.0923, 0.03 },
		/* Other interference between them is not in the model. */
		{ PREDICT_MPS_LIMITED, FOUR(DECODE), 0, 1.69, 0.25 },
		/* PyTorch, random weights. */
		{ PREDICT_TIME_SLICING, FOUR(TRAIN), 0, 137, 0.03 },
		{ PREDICT_SLICES, FOUR(TRAIN), 0, 132, 0.08 },
		{ PREDICT_MPS, FOUR(TRAIN), 0, 114, 0.12 },
		{ PREDICT_MPS_LIMITED, FOUR(TRAIN), 0, 136, 0.08 },
		{ PREDICT_TIME_SLICING, FOUR(INFER), 0, 2.86, 0.15 },
		{ PREDICT_SLICES, FOUR(INFER), 0, 2.89, 0.25 },
		{ PREDICT_MPS, FOUR(INFER), 0, 1.51, 0.40 },
		{ PREDICT_MPS_LIMITED, FOUR(INFER), 0, 1.49, 0.35 },
		{ PREDICT_TIME_SLICING, FOUR(BANDWIDTH), 0, 0.857, 0.02 },
		{ PREDICT_SLICES, FOUR(BANDWIDTH), 0, 0.783, 0.02 },
		{ PREDICT_MPS, FOUR(BANDWIDTH), 0, 0.747, 0.03 },
		{ PREDICT_MPS_LIMITED, FOUR(BANDWIDTH), 0, 0.746, 0.20 },
#undef FOUR
#define BESIDE \
	{ { LATENCY, 1, true }, { BURN, 1, false }, { BURN, 1, false }, { BURN, 1, false } }
		{ PREDICT_TIME_SLICING, BESIDE, 0, 3.76, 0.10 },
		{ PREDICT_TIME_SLICING, BESIDE, 1, 1.37, 0.05 },
		{ PREDICT_SLICES, BESIDE, 0, 1.35, 0.15 },
		{ PREDICT_SLICES, BESIDE, 1, 1.29, 0.06 },
		{ PREDICT_SLICES_LATENCY, BESIDE, 0, 0.602, 0.25 },
		{ PREDICT_SLICES_LATENCY, BESIDE, 1, 1.31, 0.08 },
		{ PREDICT_MPS_LIMITED, BESIDE, 0, 0.248, 0.15 },
#undef BESIDE
	};
	struct world w;

	(void)state;
	world_init(&w, NULL);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct fit_times t[4];
		struct error err = ERROR_INIT;
		double off;

		if (fit_predict(t, w.fit, w.gpu, rows[i].way, rows[i].pods,
			    rows[i].way == PREDICT_ALONE ? 1 : 4, 0.25, &err) < 0)
			fail_msg("row %zu: %s", i, err.msg);
		assert_true(t[rows[i].which].known);
		off = t[rows[i].which].times.mean_s * 1e3 / rows[i].measured_ms - 1;
		if (fabs(off) > rows[i].off)
			fail_msg("row %zu: %g ms, measured %g", i,
				t[rows[i].which].times.mean_s * 1e3, rows[i].measured_ms);
	}
	world_fini(&w);
}

static void predictions__require_figures_and_free_memory(void **state)
{
	const struct predict_pod untimed[] = { { UNTIMED, 1, false }, { BURN, 1, false } };
	struct predict_pod many[PLAN_PODS_MAX + 1] = { { BURN, 1, false } };
	struct predict_pod greedy[60];
	struct fit_times t[PLAN_PODS_MAX];
	struct error err = ERROR_INIT;
	struct world w;

	(void)state;
	world_init(&w, NULL);
	assert_int_equal(fit_predict(t, w.fit, w.gpu, PREDICT_SLICES, untimed, 2, 0.5, &err),
		0);
	assert_false(t[0].known || t[1].known);
	assert_string_equal(t[0].missing, "t_solo");
	assert_int_equal(
		fit_predict(t, w.fit, w.gpu, PREDICT_SLICES, many, ARRAY_LEN(many), 1, &err),
		-1);
	assert_int_equal(err.code, ERR_LIMIT);
	/* A hundred times a second a hundredth of the GPU is all of it. */
	for (size_t i = 0; i < ARRAY_LEN(greedy); i++)
		greedy[i] = (struct predict_pod){ LATENCY, 1, true };
	assert_int_equal(
		fit_predict(t, w.fit, w.gpu, PREDICT_SLICES_LATENCY, greedy, 60, 1, &err), 0);
	world_fini(&w);
}

/* Measured figures of a GPU precede general ones, and the last value counts. */
static void calibration__is_used(void **state)
{
	static const char more[] = "version: gpuslice/plan/v1\n"
				   "calibration:\n"
				   "- {gpu: H100-SXM5-80GB, slices: 0.5, mps_bandwidth: 0.7}\n"
				   "- {gpu: L4, time_slicing: 0.9}\n"
				   "- {gpu: NVIDIA-H100-80GB-HBM3, time_slicing: 0.3}\n";
	const struct plan_gpu *l4 = plan_gpu_find("L4"), *t4 = plan_gpu_find("T4");
	struct world w;

	(void)state;
	world_init(&w, more);
	assert_true(fabs(fit_rotation(w.fit, w.gpu, PLAN_TIME_SLICING, 2).sigma - 0.3) < 1e-9);
	assert_true(fabs(fit_rotation(w.fit, w.gpu, PLAN_SLICES, 2).sigma - 0.5) < 1e-9);
	assert_true(fabs(fit_kappa(w.fit, w.gpu) - 0.7) < 1e-9);
	assert_true(fabs(fit_rotation(w.fit, l4, PLAN_TIME_SLICING, 2).sigma - 0.9) < 1e-9);
	assert_true(fabs(fit_rotation(w.fit, l4, PLAN_SLICES, 2).sigma -
			    MODEL_SIGMA_FAIR_SHARE) < 1e-9);
	assert_true(fabs(fit_rotation(w.fit, t4, PLAN_TIME_SLICING, 2).sigma -
			    MODEL_SIGMA_TIME_SLICING) < 1e-9);
	assert_true(fit_rotation(w.fit, t4, PLAN_MPS, 2).sigma <= 0);
	world_fini(&w);
}

static void calibration__is_checked(void **state)
{
	static const char *const rows[][2] = {
		{ "- {time_slicing: 0.1}",
			"x:3:3: calibration: expected an object with gpu, found {" },
		{ "- {gpu: X1}",
			"x:3:9: gpu: expected a GPU of the catalogue, such as L4 or A100-SXM4-80GB, found \"X1\"" },
		{ "- {gpu: L4, time_slicing: -1}", "x:3:27: time_slicing: expected " },
		{ "- {gpu: L4, sigma: 1}", "x:3:13: calibration: unknown key 'sigma'" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(plan_input_freep) struct plan_input *in = NULL;
		struct error err = ERROR_INIT;
		char text[256];

		(void)snprintf(text, sizeof(text),
			"version: gpuslice/plan/v1\ncalibration:\n%s\n", rows[i][0]);
		assert_int_equal(plan_input_new(&in, &err), 0);
		assert_int_equal(plan_input_parse(in, "x", text, strlen(text), &err), -1);
		if (strncmp(err.msg, rows[i][1], strlen(rows[i][1])) != 0)
			fail_msg("%s: %s", rows[i][0], err.msg);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(predictions__are_close_to_an_h100),
		cmocka_unit_test(predictions__require_figures_and_free_memory),
		cmocka_unit_test(calibration__is_used),
		cmocka_unit_test(calibration__is_checked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
