/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"
#include "unit/model/mig/mig-enumerate.h"

#include "model/mig/geometry/geometry.h"
#include "tools/plan/gpus/gpus.h"

static void gpus__are_found_by_catalogue_and_by_label(void **state)
{
	static const struct {
		const char *name, *gpu; /* NULL: none */
	} rows[] = {
		{ "L4", "L4" },
		{ "NVIDIA-L4", "L4" },
		{ "NVIDIA-L4-SHARED", "L4" },
		{ "NVIDIA-L40S", "L40S" },
		{ "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "A100-SXM4-40GB" },
		{ "NVIDIA-L4-", NULL },
		{ "NVIDIA", NULL },
		{ "", NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct plan_gpu *g = plan_gpu_find(rows[i].name);

		if (rows[i].gpu)
			assert_string_equal(g ? g->name : "none", rows[i].gpu);
		else
			assert_null(g);
	}
}

static bool count_set(void *arg, const uint32_t counts[])
{
	(void)counts;
	++*(unsigned *)arg;
	return true;
}

/* M1 of the public figures: 14 maximal, 19 maximal placed, 37 feasible ones of A100; 38, 78, 77 with 1g.10gb. */
static void gpus__a100_has_the_known_geometries(void **state)
{
	static const struct {
		bool doubles;
		unsigned maximal, placed, all;
	} rows[] = { { false, 14, 19, 37 }, { true, 38, 78, 77 } };
	const struct mig_layout *m = plan_gpu_find("A100-SXM4-40GB")->mig;

	(void)state;
	assert_non_null(m);
	for (size_t k = 0; k < ARRAY_LEN(rows); k++) {
		unsigned maximal = 0, all = 0;
		uint32_t profiles = 0;

		for (uint32_t i = 0; i < m->n; i++) {
			const struct mig_gi_profile *p = &m->profiles[i];

			if (!p->name.attributes[0] &&
				(rows[k].doubles || p->size == p->slices || p->slices >= 3))
				profiles |= UINT32_C(1) << i;
		}
		mig_enumerate(m, profiles, true, count_set, &maximal);
		mig_enumerate(m, profiles, false, count_set, &all);
		assert_int_equal(maximal, rows[k].maximal);
		assert_int_equal(mig_enumerate_count_placed(m, profiles), rows[k].placed);
		assert_int_equal(all, rows[k].all);
	}
}

static void gpus__have_valid_layouts(void **state)
{
	struct error err = ERROR_INIT;

	(void)state;
	for (size_t i = 0; i < plan_n_gpus; i++) {
		const struct plan_gpu *g = &plan_gpus[i];

		assert_true(g->multiprocessors >= g->multiprocessors_mig && g->memory_mib > 0 &&
			    g->bandwidth_gb_s > 0);
		assert_ptr_equal(plan_gpu_find(g->name), g);
		assert_ptr_equal(plan_gpu_find(g->product), g);
		if (g->mig && mig_layout_check(g->mig, &err) < 0)
			fail_msg("%s: %s", g->name, err.msg);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gpus__are_found_by_catalogue_and_by_label),
		cmocka_unit_test(gpus__a100_has_the_known_geometries),
		cmocka_unit_test(gpus__have_valid_layouts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
