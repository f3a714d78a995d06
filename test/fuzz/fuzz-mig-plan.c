/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"

#include "model/mig/plan.h"

#include <string.h>

/*
 * A layout and a state as a driver may report them, and a desired state. Each number is one byte. From 250 on, a
 * byte is a value that no GPU has.
 */
struct input {
	const uint8_t *data;
	size_t size;
};

static uint32_t take_number(struct input *in)
{
	static const uint32_t odd[] = { 32, 33, 1u << 31, UINT32_MAX - 1, UINT32_MAX, 17 };
	uint8_t byte = in->size ? *in->data : 0;

	in->data += in->size > 0;
	in->size -= in->size > 0;
	return byte < 250 ? byte : odd[byte - 250];
}

static struct mig_layout layout_of(struct input *in)
{
	struct mig_layout l = { .memory_total_mib = 40960 };

	l.slots = take_number(in);
	l.slices = take_number(in);
	l.n = take_number(in);
	for (uint32_t i = 0; i < l.n && i < MIG_PROFILES_MAX; i++) {
		struct mig_gi_profile *p = &l.profiles[i];

		p->number = take_number(in);
		p->slices = take_number(in);
		p->max = take_number(in);
		p->size = take_number(in);
		p->starts = take_number(in) << 4 ^ take_number(in);
		p->memory_mib = take_number(in);
		p->decoder = take_number(in);
		p->name = (struct mig_profile){ .c = 1, .g = p->slices, .gb = take_number(in) };
		memset(p->name.attributes, 'a', take_number(in) % (MIG_ATTRIBUTES_MAX + 1));
	}
	return l;
}

static struct mig_state state_of(struct input *in)
{
	uint32_t mode = take_number(in);
	struct mig_state s = { .capable = !(mode & 1),
		.enabled = !(mode & 2),
		.pending_enabled = !(mode & 4),
		.n = take_number(in) };

	for (uint32_t i = 0; i < s.n && i < MIG_GIS_MAX; i++) {
		struct mig_gi *gi = &s.gi[i];

		gi->id = take_number(in);
		gi->profile = take_number(in);
		gi->start = take_number(in);
		gi->n_ci = take_number(in);
		for (uint32_t j = 0; j < gi->n_ci && j < MIG_CIS_MAX; j++) {
			gi->ci[j].id = j;
			gi->ci[j].slices = take_number(in);
			gi->ci[j].busy = take_number(in) & 1;
		}
	}
	return s;
}

static struct mig_desired want_of(struct input *in)
{
	struct mig_desired desired = { .enabled = !(take_number(in) & 1),
		.n = take_number(in) };

	for (uint32_t i = 0; i < desired.n && i < MIG_GIS_MAX; i++) {
		struct mig_desired_gi *gi = &desired.gi[i];

		gi->profile = take_number(in);
		gi->start = take_number(in);
		gi->n_ci = take_number(in);
		for (uint32_t j = 0; j < gi->n_ci && j < MIG_CIS_MAX; j++)
			gi->ci[j] = take_number(in);
	}
	return desired;
}

static void trap_unless(bool ok)
{
	if (!ok)
		__builtin_trap();
}

/* Places that are the profiles', and no two on one slot. */
static void check_placements(const struct mig_layout *l, const struct mig_state *s,
	const struct mig_desired *desired, const struct mig_placement *placements)
{
	uint64_t used = 0;

	for (uint32_t i = 0; i < desired->n; i++) {
		const struct mig_gi_profile *p = &l->profiles[desired->gi[i].profile];
		uint64_t slots = ((1ull << p->size) - 1) << placements[i].start;

		trap_unless(
			placements[i].start < l->slots && p->starts >> placements[i].start & 1);
		trap_unless(desired->gi[i].start == MIG_START_ANY ||
			    desired->gi[i].start == placements[i].start);
		trap_unless(!(used & slots));
		used |= slots;
		if (placements[i].kept >= 0)
			trap_unless(
				(uint32_t)placements[i].kept < s->n &&
				s->gi[placements[i].kept].profile == desired->gi[i].profile &&
				s->gi[placements[i].kept].start == placements[i].start);
	}
}

static void check_plan(const struct mig_layout *l, const struct mig_state *s,
	const struct mig_plan *p)
{
	trap_unless(p->n <= MIG_STEPS_MAX && !((uint64_t)p->kept >> s->n) &&
		    !(p->untouched & ~p->kept));
	for (uint32_t i = 0; i < p->n; i++) {
		char text[256];

		mig_step_text(l, &p->steps[i], text, sizeof(text));
		trap_unless(strlen(text) > 0);
		if (p->steps[i].action == MIG_CREATE_CI && p->steps[i].gi == MIG_NEW_GI)
			trap_unless(p->steps[i].made < i &&
				    p->steps[p->steps[i].made].action == MIG_CREATE_GI);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { .data = data, .size = size };
	struct mig_layout l = layout_of(&in);
	struct mig_state s = state_of(&in);
	struct mig_desired desired = want_of(&in), same;
	unsigned flags = take_number(&in);
	struct mig_placement placements[MIG_GIS_MAX];
	struct error err = ERROR_INIT;
	struct mig_plan p;

	if (mig_geometry_place(&l, &s, &desired, MIG_KEEP_MOST, placements, &err) == 0)
		check_placements(&l, &s, &desired, placements);
	else
		trap_unless(err.code == ERR_LIMIT || err.code == ERR_INVALID);
	if (mig_plan_make(&p, &l, &s, &desired, flags, &err) == 0)
		check_plan(&l, &s, &p);
	for (uint32_t i = 0; i <= MIG_PROFILES_MAX; i++)
		trap_unless(mig_geometry_count_free(&l, &s, i) <= MIG_GIS_MAX);
	mig_desired_from_state(&s, &same);
	if (mig_plan_make(&p, &l, &s, &same, 0, &err) == 0) {
		check_plan(&l, &s, &p);
		trap_unless(!s.capable || p.n <= 1); /* the mode, if another one is pending */
	}
	return 0;
}
