/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Time of one plan for one GPU: from each way to fill the GPU to each other way (maximal multisets, with one
 * compute instance each). One more layout is made with more ways than a search can visit. Fails if a real GPU's
 * plan takes more than 10 ms, or the plan of the made layout more than a second.
 */
#include <inttypes.h>
#include <stdio.h>

#include "lib/base/time.h"
#include "model/mig/plan.h"
#include "unit/model/mig/layouts.h"
#include "unit/model/mig/mig-enumerate.h"

#define MIG_LAYOUTS_MAX 512

struct mig_layout_list {
	const struct mig_layout *layout;
	uint32_t n;
	struct mig_desired v[MIG_LAYOUTS_MAX];
};

static bool record_desired_mig(void *arg, const uint32_t counts[])
{
	struct mig_layout_list *c = arg;
	struct mig_desired *desired = &c->v[c->n++];

	*desired = (struct mig_desired){ .enabled = true };
	for (uint32_t i = 0; i < c->layout->n; i++)
		for (uint32_t j = 0; j < counts[i]; j++)
			desired->gi[desired->n++] = (struct mig_desired_gi){ .profile = i,
				.start = MIG_START_ANY,
				.n_ci = 1,
				.ci = { c->layout->profiles[i].slices } };
	return c->n < MIG_LAYOUTS_MAX;
}

/* @desired on a GPU that was empty. */
static struct mig_state state_of(const struct mig_layout *l, const struct mig_desired *desired)
{
	struct mig_state s = { .capable = true, .enabled = true, .pending_enabled = true };
	struct mig_placement placements[MIG_GIS_MAX];

	if (mig_geometry_place(l, NULL, desired, MIG_KEEP_NOTHING, placements, NULL) < 0)
		return s;
	for (; s.n < desired->n; s.n++)
		s.gi[s.n] = (struct mig_gi){ .id = s.n,
			.profile = desired->gi[s.n].profile,
			.start = placements[s.n].start,
			.n_ci = 1,
			.ci = { { .slices = desired->gi[s.n].ci[0] } } };
	return s;
}

static uint64_t time_plan(const struct mig_layout *l, const struct mig_state *s,
	const struct mig_desired *desired)
{
	struct error err = ERROR_INIT;
	uint64_t start = time_mono_ns();
	struct mig_plan p;

	if (mig_plan_make(&p, l, s, desired, 0, &err) < 0)
		(void)fprintf(stderr, "mig: %s\n", err.msg);
	return time_mono_ns() - start;
}

/* The slowest plan, each the faster of two: what else the machine does only adds. */
static uint64_t measure_product(enum product_id id)
{
	static struct mig_layout_list c;
	struct mig_layout l = product_layout(id);
	uint64_t slowest = 0, sum = 0;

	c = (struct mig_layout_list){ .layout = &l };
	mig_enumerate(&l, UINT32_MAX, /* maximal= */ true, record_desired_mig, &c);
	for (uint32_t from = 0; from < c.n; from++) {
		struct mig_state s = state_of(&l, &c.v[from]);

		for (uint32_t to = 0; to < c.n; to++) {
			uint64_t ns = time_plan(&l, &s, &c.v[to]);
			uint64_t again = time_plan(&l, &s, &c.v[to]);

			ns = again < ns ? again : ns;
			slowest = ns > slowest ? ns : slowest;
			sum += ns;
		}
	}
	printf("%-22s %4" PRIu32 " ways to fill it  mean %7.1f us  slowest %8.1f us\n",
		product_name(id), c.n, (double)sum / c.n / c.n / 1e3, (double)slowest / 1e3);
	return slowest;
}

/* 32 slots, 32 profiles of one slot, 16 instances wanted: all of them fit everywhere. */
static uint64_t measure_hostile_layout(void)
{
	struct mig_layout l = { .slots = MIG_SLOTS_MAX, .slices = 64, .n = MIG_PROFILES_MAX };
	struct mig_state s = { .capable = true, .enabled = true, .pending_enabled = true };
	struct mig_desired desired = { .enabled = true, .n = MIG_GIS_MAX };
	uint64_t ns;

	for (uint32_t i = 0; i < l.n; i++)
		l.profiles[i] = (struct mig_gi_profile){ .slices = 1,
			.max = 16,
			.size = 1,
			.starts = UINT32_MAX };
	for (uint32_t i = 0; i < desired.n; i++)
		desired.gi[i] = (struct mig_desired_gi){ .profile = i, .start = MIG_START_ANY };
	ns = time_plan(&l, &s, &desired);
	printf("%-22s %42s %8.1f us\n", "hostile layout", "", (double)ns / 1e3);
	return ns;
}

int main(void)
{
	bool bad = measure_hostile_layout() > NS_PER_SEC;

	for (enum product_id id = 0; id < PRODUCTS; id++)
		bad |= measure_product(id) > 10 * NS_PER_MS;
	return bad;
}
