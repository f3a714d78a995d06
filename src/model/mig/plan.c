/* SPDX-License-Identifier: Apache-2.0 */
#include "model/mig/plan.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

static_assert(MIG_GIS_MAX < 32, "a bit for each GI of .kept");

/* Input and result of planning. */
struct mig_plan_task {
	const struct mig_state *have;      /* the existing instances; none while MIG is off */
	const struct mig_desired *desired; /* the desired instances, if any */
	struct mig_placement placements[MIG_GIS_MAX];
	struct mig_plan plan;
};

static void add_plan_step(struct mig_plan_task *t, struct mig_step step)
{
	assert(t->plan.n < MIG_STEPS_MAX); /* each GI, CI: one way, once */
	t->plan.steps[t->plan.n++] = step;
}

/* The desired GI that the existing GI @i serves; NULL: none, so GI @i goes. */
static const struct mig_desired_gi *find_served_gi(const struct mig_plan_task *t, uint32_t i)
{
	for (uint32_t j = 0; j < t->desired->n; j++)
		if (t->placements[j].kept == (int32_t)i)
			return &t->desired->gi[j];
	return NULL;
}

/* Adds the steps for the CIs that go, and records which GIs stay. */
static void destroy_cis(struct mig_plan_task *t)
{
	for (uint32_t i = 0; i < t->have->n; i++) {
		const struct mig_gi *gi = &t->have->gi[i];
		const struct mig_desired_gi *desired = find_served_gi(t, i);
		uint32_t kept = desired ? mig_match_cis(gi, desired).kept : 0;
		uint32_t n_kept = (uint32_t)__builtin_popcount(kept);

		t->plan.kept |= (uint32_t)(desired != NULL) << i;
		t->plan.untouched |=
			(uint32_t)(desired && n_kept == gi->n_ci && n_kept == desired->n_ci)
			<< i;
		for (uint32_t j = 0; j < gi->n_ci; j++) {
			if (kept >> j & 1)
				continue;
			add_plan_step(t, (struct mig_step){ .action = MIG_DESTROY_CI,
						 .gi = gi->id,
						 .ci = gi->ci[j].id,
						 .profile = gi->profile,
						 .start = gi->start,
						 .slices = gi->ci[j].slices });
		}
	}
}

static void destroy_gis(struct mig_plan_task *t)
{
	for (uint32_t i = 0; i < t->have->n; i++) {
		const struct mig_gi *gi = &t->have->gi[i];

		if (!(t->plan.kept >> i & 1))
			add_plan_step(t, (struct mig_step){ .action = MIG_DESTROY_GI,
						 .gi = gi->id,
						 .profile = gi->profile,
						 .start = gi->start });
	}
}

static void add_create_steps(struct mig_plan_task *t)
{
	for (uint32_t i = 0; i < t->desired->n; i++) {
		const struct mig_desired_gi *desired = &t->desired->gi[i];
		const struct mig_placement *placement = &t->placements[i];
		struct mig_step step = { .action = MIG_CREATE_GI,
			.gi = MIG_NEW_GI,
			.made = t->plan.n,
			.profile = desired->profile,
			.start = placement->start };
		uint32_t served = 0;

		if (placement->kept >= 0) {
			const struct mig_gi *gi = &t->have->gi[placement->kept];

			served = mig_match_cis(gi, desired).served;
			step.gi = gi->id;
			step.made = 0;
		} else {
			add_plan_step(t, step);
		}
		step.action = MIG_CREATE_CI;
		for (uint32_t j = 0; j < desired->n_ci; j++) {
			step.slices = desired->ci[j];
			if (!(served >> j & 1))
				add_plan_step(t, step);
		}
	}
}

static int check_plan_input(const struct mig_layout *layout, const struct mig_state *have,
	const struct mig_desired *desired, struct error *err)
{
	if (mig_layout_check(layout, err) < 0 || mig_state_check(layout, have, err) < 0 ||
		mig_desired_check(layout, desired, err) < 0)
		return -1;
	if (desired->enabled && !have->capable)
		return error_set(err, ERR_UNSUPPORTED, "MIG wanted, but the GPU has none");
	return 0;
}

/* Finds places for the desired GIs, and checks that no busy instance is in the way. */
static int place_desired_gis(struct mig_plan_task *t, const struct mig_layout *layout,
	bool force, struct error *err)
{
	if (!t->desired->enabled) /* all instances go */
		return force ? 0
			     : mig_geometry_check_busy(layout, t->have, t->desired,
				       t->placements, err);
	return mig_geometry_place(layout, t->have, t->desired,
		force ? MIG_KEEP_MOST : MIG_KEEP_BUSY, t->placements, err);
}

int mig_plan_make(struct mig_plan *ret, const struct mig_layout *layout,
	const struct mig_state *have, const struct mig_desired *desired, unsigned flags,
	struct error *err)
{
	static const struct mig_state empty = { .n = 0 };
	static const struct mig_desired off = { .n = 0 }, on = { .enabled = true };
	const struct mig_step mode = { .action = MIG_SET_MODE, .enabled = desired->enabled };
	bool mode_only = flags & MIG_PLAN_MODE_ONLY, mode_right;
	struct mig_plan_task t = { .have = have->enabled ? have : &empty, .desired = desired };

	if (mode_only)
		t.desired = desired->enabled ? &on : &off;
	if (check_plan_input(layout, have, t.desired, err) < 0)
		return -1;
	mode_right =
		have->enabled == desired->enabled && have->pending_enabled == desired->enabled;
	if (desired->enabled && !mode_right)
		add_plan_step(&t, mode);
	if (mode_only && desired->enabled) {
		t.plan.kept = t.plan.untouched = (1u << t.have->n) - 1;
	} else {
		if (place_desired_gis(&t, layout, flags & MIG_PLAN_FORCE, err) < 0)
			return -1;
		destroy_cis(&t);
		destroy_gis(&t);
		add_create_steps(&t);
	}
	if (!desired->enabled && !mode_right)
		add_plan_step(&t, mode);
	*ret = t.plan;
	return 0;
}

/* "3g.20gb at 4" */
struct gi_text {
	char v[MIG_PROFILE_NAME_MAX + sizeof(" at 4294967295")];
};

static struct gi_text gi_text(const struct mig_layout *layout, const struct mig_step *s)
{
	char name[MIG_PROFILE_NAME_MAX];
	struct gi_text ret;

	mig_layout_name(layout, s->profile, 0, name);
	(void)snprintf(ret.v, sizeof(ret.v), "%s at %" PRIu32, name, s->start);
	return ret;
}

void mig_step_text(const struct mig_layout *layout, const struct mig_step *s, char *ret,
	size_t cap)
{
	struct gi_text gi = gi_text(layout, s);
	char ci[MIG_PROFILE_NAME_MAX];

	mig_layout_name(layout, s->profile, s->slices, ci);
	switch (s->action) {
	case MIG_SET_MODE:
		(void)snprintf(ret, cap, "%s MIG", s->enabled ? "enable" : "disable");
		return;
	case MIG_DESTROY_CI:
		(void)snprintf(ret, cap,
			"destroy compute instance %" PRIu32 " (%s) of GPU instance %" PRIu32
			" (%s)",
			s->ci, ci, s->gi, gi.v);
		return;
	case MIG_DESTROY_GI:
		(void)snprintf(ret, cap, "destroy GPU instance %" PRIu32 " (%s)", s->gi, gi.v);
		return;
	case MIG_CREATE_GI:
		(void)snprintf(ret, cap, "create GPU instance %s", gi.v);
		return;
	case MIG_CREATE_CI:
		if (s->gi == MIG_NEW_GI)
			(void)snprintf(ret, cap,
				"create compute instance %s in the new GPU instance %s", ci,
				gi.v);
		else
			(void)snprintf(ret, cap,
				"create compute instance %s in GPU instance %" PRIu32 " (%s)",
				ci, s->gi, gi.v);
		return;
	}
	(void)snprintf(ret, cap, "?");
}
