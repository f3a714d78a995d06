/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "model/mig/plan.h"
#include "layouts.h"
#include "mig-enumerate.h"
#include "naive.h"
#include "random-mig.h"

/* A GPU that does each step, and ends the test where a real GPU would refuse. */
struct model {
	const struct mig_layout *layout;
	struct mig_state state;
	uint32_t made[MIG_STEPS_MAX]; /* id of the GI that a step made */
	uint32_t next_id;
	uint32_t number; /* of the case */
};

static void fail_step(const struct model *m, const struct mig_step *step, const char *why)
{
	char text[256];

	mig_step_text(m->layout, step, text, sizeof(text));
	fail_msg("case %u: %s: %s", m->number, text, why);
}

static struct mig_gi *find_model_gi(struct model *m, uint32_t id)
{
	for (uint32_t i = 0; i < m->state.n; i++)
		if (m->state.gi[i].id == id)
			return &m->state.gi[i];
	fail_msg("case %u: there is no GPU instance %u", m->number, id);
	return NULL;
}

static void set_mode(struct model *m, const struct mig_step *step)
{
	if (!m->state.capable)
		fail_step(m, step, "has no MIG");
	if (!step->enabled && m->state.n)
		fail_step(m, step, "in use");
	m->state.enabled = m->state.pending_enabled = step->enabled;
}

static void destroy_ci(struct model *m, const struct mig_step *step)
{
	struct mig_gi *gi = find_model_gi(m, step->gi);
	uint32_t i = 0;

	while (i < gi->n_ci && gi->ci[i].id != step->ci)
		i++;
	if (i == gi->n_ci || gi->ci[i].slices != step->slices)
		fail_step(m, step, "no such CI");
	gi->n_ci--;
	memmove(&gi->ci[i], &gi->ci[i + 1], (gi->n_ci - i) * sizeof(gi->ci[0]));
}

static void destroy_gi(struct model *m, const struct mig_step *step)
{
	struct mig_gi *gi = find_model_gi(m, step->gi);

	if (gi->n_ci)
		fail_step(m, step, "has CIs");
	if (gi->profile != step->profile || gi->start != step->start)
		fail_step(m, step, "is something else");
	m->state.n--;
	memmove(gi, gi + 1, (size_t)(&m->state.gi[m->state.n] - gi) * sizeof(*gi));
}

static uint32_t create_gi(struct model *m, const struct mig_step *step)
{
	struct naive_placement v[MIG_GIS_MAX + 1];
	uint32_t n = 0;

	if (!m->state.enabled)
		fail_step(m, step, "MIG is off");
	if (m->state.n == MIG_GIS_MAX)
		fail_step(m, step, "too many");
	for (; n < m->state.n; n++)
		v[n] = (struct naive_placement){ m->state.gi[n].profile, m->state.gi[n].start };
	v[n] = (struct naive_placement){ step->profile, step->start };
	if (!naive_legal(m->layout, v, n + 1))
		fail_step(m, step, "no room there");
	m->state.gi[m->state.n++] = (struct mig_gi){ .id = m->next_id++,
		.profile = step->profile,
		.start = step->start };
	return m->next_id - 1;
}

static void create_ci(struct model *m, const struct mig_step *step)
{
	struct mig_gi *gi =
		find_model_gi(m, step->gi == MIG_NEW_GI ? m->made[step->made] : step->gi);
	uint32_t slices = step->slices, id = 0;

	for (uint32_t i = 0; i < gi->n_ci; i++)
		slices += gi->ci[i].slices;
	if (slices > m->layout->profiles[gi->profile].slices || gi->n_ci == MIG_CIS_MAX)
		fail_step(m, step, "no slices left");
	if (gi->profile != step->profile || gi->start != step->start)
		fail_step(m, step, "is something else");
	for (uint32_t i = 0; i < gi->n_ci; i++)
		id = gi->ci[i].id >= id ? gi->ci[i].id + 1 : id;
	gi->ci[gi->n_ci++] = (struct mig_ci){ .id = id, .slices = step->slices };
}

/* Steps @from to @to of @p. */
static void run_plan_steps(struct model *m, const struct mig_plan *p, uint32_t from,
	uint32_t to)
{
	for (uint32_t i = from; i < to; i++) {
		const struct mig_step *step = &p->steps[i];

		switch (step->action) {
		case MIG_SET_MODE:
			set_mode(m, step);
			break;
		case MIG_DESTROY_CI:
			destroy_ci(m, step);
			break;
		case MIG_DESTROY_GI:
			destroy_gi(m, step);
			break;
		case MIG_CREATE_GI:
			m->made[i] = create_gi(m, step);
			break;
		case MIG_CREATE_CI:
			create_ci(m, step);
			break;
		}
	}
}

static bool same_cis(const struct mig_gi *gi, const struct mig_desired_gi *desired)
{
	uint32_t counts[16] = { 0 };

	for (uint32_t i = 0; i < gi->n_ci; i++)
		counts[gi->ci[i].slices]++;
	for (uint32_t i = 0; i < desired->n_ci; i++)
		counts[desired->ci[i]]--;
	for (uint32_t i = 0; i < ARRAY_LEN(counts); i++)
		if (counts[i])
			return false;
	return true;
}

/* Whether the GPU is in sync with @desired. Instances with a fixed placement are searched first. */
static bool is_as_wanted(const struct mig_state *s, const struct mig_desired *desired)
{
	uint32_t taken = 0;

	if (s->enabled != desired->enabled || s->pending_enabled != desired->enabled ||
		s->n != desired->n)
		return false;
	for (int any = 0; any <= 1; any++) {
		for (uint32_t i = 0; i < desired->n; i++) {
			uint32_t j = 0;

			if ((desired->gi[i].start == MIG_START_ANY) != any)
				continue;
			while (j < s->n &&
				(taken >> j & 1 || s->gi[j].profile != desired->gi[i].profile ||
					(!any && s->gi[j].start != desired->gi[i].start) ||
					!same_cis(&s->gi[j], &desired->gi[i])))
				j++;
			if (j == s->n)
				return false;
			taken |= 1u << j;
		}
	}
	return true;
}

static struct mig_plan make_test_plan(const struct model *m, const struct mig_desired *desired,
	unsigned flags)
{
	struct error err = ERROR_INIT;
	struct mig_plan p;

	if (mig_plan_make(&p, m->layout, &m->state, desired, flags, &err) < 0)
		fail_msg("case %u: %s", m->number, err.msg);
	return p;
}

/* No step names an instance that the plan keeps. */
static void check_kept(const struct model *m, const struct mig_plan *p, unsigned flags)
{
	for (uint32_t i = 0; i < p->n; i++) {
		const struct mig_step *step = &p->steps[i];

		for (uint32_t j = 0; step->action != MIG_SET_MODE && j < m->state.n; j++) {
			const struct mig_gi *gi = &m->state.gi[j];

			if (gi->id != step->gi)
				continue;
			if (p->untouched >> j & 1)
				fail_step(m, step, "is to be untouched");
			if (p->kept >> j & 1 && step->action == MIG_DESTROY_GI)
				fail_step(m, step, "is to be kept");
			for (uint32_t k = 0; k < gi->n_ci; k++)
				if (step->action == MIG_DESTROY_CI &&
					gi->ci[k].id == step->ci && gi->ci[k].busy &&
					!(flags & MIG_PLAN_FORCE))
					fail_step(m, step, "is busy");
		}
	}
	assert_int_equal(p->untouched & ~p->kept, 0);
}

/* Number of instances, of both kinds. */
static uint32_t count_all_instances(const struct mig_state *s,
	const struct mig_desired *desired)
{
	uint32_t n = 0;

	for (uint32_t i = 0; s && i < s->n; i++)
		n += 1 + s->gi[i].n_ci;
	for (uint32_t i = 0; desired && i < desired->n; i++)
		n += 1 + desired->gi[i].n_ci;
	return n;
}

/* Killed after each step: going on, and going back. */
static void check_prefixes(const struct model *start, const struct mig_plan *p,
	const struct mig_desired *desired)
{
	/* A mode that was about to change cannot be wished back: undoing then sets it. */
	bool pending = start->state.pending_enabled != start->state.enabled;
	struct mig_desired before;

	mig_desired_from_state(&start->state, &before);
	for (uint32_t k = 0; k <= p->n; k++) {
		struct model on = *start, back;
		struct mig_plan rest;

		run_plan_steps(&on, p, 0, k);
		back = on;
		rest = make_test_plan(&on, desired, MIG_PLAN_FORCE);
		if (k + rest.n > p->n)
			fail_msg("case %u: %u steps, then %u, but it was %u", start->number, k,
				rest.n, p->n);
		run_plan_steps(&on, &rest, 0, rest.n);
		if (!is_as_wanted(&on.state, desired))
			fail_msg("case %u: not there after %u steps and %u", start->number, k,
				rest.n);
		rest = make_test_plan(&back, &before, MIG_PLAN_FORCE);
		if (rest.n > k + pending)
			fail_msg("case %u: %u steps to undo %u", start->number, rest.n, k);
		run_plan_steps(&back, &rest, 0, rest.n);
		if (!is_as_wanted(&back.state, &before))
			fail_msg("case %u: not undone after %u steps", start->number, k);
		for (uint32_t i = 0; i < start->state.n; i++)
			if (p->kept >> i & 1 && start->state.enabled)
				(void)find_model_gi(&back, start->state.gi[i].id);
	}
}

static struct model random_model(struct chance *c, const struct mig_layout *l, uint32_t number)
{
	struct model m = { .layout = l, .next_id = 1000, .number = number };
	struct naive_placement v[MIG_GIS_MAX];

	m.state = random_state(c, l, 5, number % 2 ? 20 : 0);
	for (uint32_t i = 0; i < m.state.n; i++)
		v[i] = (struct naive_placement){ m.state.gi[i].profile, m.state.gi[i].start };
	while (!naive_legal(l, v, m.state.n))
		m.state.n--;
	if (chance(c, 8) == 0)
		m.state.pending_enabled = false;
	if (chance(c, 8) == 0) {
		m.state.enabled = false;
		m.state.n = 0;
	}
	return m;
}

static bool check_case(uint32_t number)
{
	struct chance c = chance_of(number);
	struct mig_layout l = number % 3
				      ? random_layout(&c)
				      : product_layout((enum product_id)chance(&c, PRODUCTS));
	struct model m = random_model(&c, &l, number), done;
	struct mig_desired desired = random_want(&c, &l, &m.state, 5);
	struct naive_best best;
	struct mig_plan p = { .n = 777 };
	struct error err = ERROR_INIT;
	uint32_t busy = 0, mode;
	int r;

	if (chance(&c, 12) == 0)
		desired = (struct mig_desired){ .enabled = false };
	best = naive_solve(&l, &m.state, &desired);
	for (uint32_t i = 0; i < m.state.n; i++)
		for (uint32_t j = 0; j < m.state.gi[i].n_ci; j++)
			busy += m.state.gi[i].ci[j].busy;
	r = mig_plan_make(&p, &l, &m.state, &desired, 0, &err);
	if (r < 0) {
		assert_int_equal(p.n, 777);
		if (err.code != (best.found ? ERR_UNAVAILABLE : ERR_LIMIT) ||
			(best.found && best.worth.busy == busy))
			fail_msg("case %u: %s", number, err.msg);
		if (!best.found)
			return false;
		p = make_test_plan(&m, &desired, MIG_PLAN_FORCE);
		check_kept(&m, &p, MIG_PLAN_FORCE);
	} else {
		if (!best.found || best.worth.busy != busy)
			fail_msg("case %u: a plan where none should be", number);
		check_kept(&m, &p, 0);
	}
	mode = m.state.enabled != desired.enabled || m.state.pending_enabled != desired.enabled;
	if (p.n != mode + count_all_instances(&m.state, &desired) - 2 * best.worth.steps)
		fail_msg("case %u: %u steps, the fewest are %u", number, p.n,
			mode + count_all_instances(&m.state, &desired) - 2 * best.worth.steps);
	if ((uint32_t)__builtin_popcount(p.kept) != best.worth.gis)
		fail_msg("case %u: keeps %x, should be %u", number, p.kept, best.worth.gis);
	done = m;
	run_plan_steps(&done, &p, 0, p.n);
	if (!is_as_wanted(&done.state, &desired))
		fail_msg("case %u: not as wanted after %u steps", number, p.n);
	assert_int_equal(make_test_plan(&done, &desired, 0).n, 0);
	check_prefixes(&m, &p, &desired);
	return true;
}

static void mig_plan_make__reaches_the_layout_from_every_state(void **state)
{
	uint32_t done = 0;

	(void)state;
	for (uint32_t number = 0; number < 6000; number++)
		done += check_case(number);
	assert_in_range(done, 2000, 5000); /* enough of both */
}

/* A tour through all layouts that fit on @l, one after the other, each from the one before. */
struct tour {
	struct model *m;
	uint32_t steps, stops;
};

static bool next_stop(void *arg, const uint32_t counts[])
{
	struct tour *t = arg;
	struct mig_desired desired = { .enabled = true };
	struct mig_plan p;

	for (uint32_t i = 0; i < t->m->layout->n; i++)
		for (uint32_t j = 0; j < counts[i]; j++)
			desired.gi[desired.n++] = (struct mig_desired_gi){ .profile = i,
				.start = MIG_START_ANY,
				.n_ci = 1,
				.ci = { t->m->layout->profiles[i].slices } };
	p = make_test_plan(t->m, &desired, 0);
	run_plan_steps(t->m, &p, 0, p.n);
	assert_true(is_as_wanted(&t->m->state, &desired));
	t->steps += p.n;
	t->stops++;
	return true;
}

static void mig_plan_make__visits_layouts_of_every_product(void **state)
{
	(void)state;
	for (enum product_id id = 0; id < PRODUCTS; id++) {
		struct mig_layout l = product_layout(id);
		struct model m = { .layout = &l, .next_id = 1, .number = id };
		struct tour t = { .m = &m };

		m.state.capable = true;
		mig_enumerate(&l, UINT32_MAX, false, next_stop, &t);
		assert_true(t.stops > 15);
	}
}

/* 3g.20gb at 0 with two CIs, of which the second is busy, and 1g.5gb at 4 and 5. */
static struct model make_partitioned_gpu(struct mig_layout *l)
{
	struct model m = { .layout = l, .next_id = 20 };
	uint32_t small, large;

	*l = product_layout(A100_40);
	small = profile_at(l, "1g.5gb");
	large = profile_at(l, "3g.20gb");
	m.state = (struct mig_state){ .capable = true,
		.enabled = true,
		.pending_enabled = true,
		.n = 3,
		.gi = { { .id = 2,
				.profile = large,
				.start = 0,
				.n_ci = 2,
				.ci = { { .id = 0, .slices = 2 },
					{ .id = 1, .slices = 1, .busy = true } } },
			{ .id = 7,
				.profile = small,
				.start = 4,
				.n_ci = 1,
				.ci = { { .slices = 1 } } },
			{ .id = 8, .profile = small, .start = 5 } } };
	return m;
}

static void mig_plan_make__lists_each_step(void **state)
{
	static const char *const expected[] = {
		"destroy compute instance 0 (2c.3g.20gb) of GPU instance 2 (3g.20gb at 0)",
		"destroy compute instance 0 (1g.5gb) of GPU instance 7 (1g.5gb at 4)",
		"destroy GPU instance 7 (1g.5gb at 4)",
		"destroy GPU instance 8 (1g.5gb at 5)",
		"create GPU instance 2g.10gb at 4",
		"create compute instance 1c.2g.10gb in the new GPU instance 2g.10gb at 4",
		"create compute instance 1c.2g.10gb in the new GPU instance 2g.10gb at 4",
		"create compute instance 1c.3g.20gb in GPU instance 2 (3g.20gb at 0)",
		"create compute instance 1c.3g.20gb in GPU instance 2 (3g.20gb at 0)",
	};
	struct mig_layout l;
	struct model m = make_partitioned_gpu(&l);
	struct mig_desired desired = { .enabled = true,
		.n = 2,
		.gi = { { .profile = profile_at(&l, "2g.10gb"),
				.start = MIG_START_ANY,
				.n_ci = 2,
				.ci = { 1, 1 } },
			{ .profile = profile_at(&l, "3g.20gb"),
				.start = MIG_START_ANY,
				.n_ci = 3,
				.ci = { 1, 1, 1 } } } };
	struct mig_plan p = make_test_plan(&m, &desired, 0);
	char text[128];

	(void)state;
	assert_int_equal(p.n, ARRAY_LEN(expected));
	for (uint32_t i = 0; i < p.n; i++) {
		mig_step_text(&l, &p.steps[i], text, sizeof(text));
		assert_string_equal(text, expected[i]);
	}
	assert_int_equal(p.kept, 1);
	assert_int_equal(p.untouched, 0);
	assert_int_equal(p.steps[5].made, 4);
	assert_int_equal(p.steps[5].gi, MIG_NEW_GI);
	mig_step_text(&l, &p.steps[0], text, 8);
	assert_string_equal(text, "destroy");
}

static void mig_plan_make__has_no_step_without_a_change(void **state)
{
	struct mig_layout l;
	struct model m = make_partitioned_gpu(&l);
	struct mig_desired desired;
	struct mig_plan p;

	(void)state;
	mig_desired_from_state(&m.state, &desired);
	p = make_test_plan(&m, &desired, 0);
	assert_int_equal(p.n, 0);
	assert_int_equal(p.kept, 7);
	assert_int_equal(p.untouched, 7);
	for (uint32_t i = 0; i < desired.n; i++)
		desired.gi[i].start = MIG_START_ANY;
	desired.gi[0].ci[0] = 1;
	desired.gi[0].ci[1] = 2; /* another order is no difference */
	assert_int_equal(make_test_plan(&m, &desired, 0).n, 0);
	m.state = (struct mig_state){ .capable = false };
	desired = (struct mig_desired){ .enabled = false };
	assert_int_equal(make_test_plan(&m, &desired, 0).n, 0);
	assert_int_equal(make_test_plan(&m, &desired, MIG_PLAN_MODE_ONLY).n, 0);
}

static void mig_plan_make__sets_the_mode_first_or_last(void **state)
{
	struct mig_layout l;
	struct model m = make_partitioned_gpu(&l);
	struct mig_desired desired = { .enabled = false }, same;
	struct mig_plan p = make_test_plan(&m, &desired, MIG_PLAN_FORCE);
	char text[64];

	(void)state;
	assert_int_equal(p.n, 7); /* 3 CIs, 3 GIs */
	assert_int_equal(p.kept, 0);
	assert_int_equal(p.steps[6].action, MIG_SET_MODE);
	mig_step_text(&l, &p.steps[6], text, sizeof(text));
	assert_string_equal(text, "disable MIG");
	p = make_test_plan(&m, &desired, MIG_PLAN_FORCE | MIG_PLAN_MODE_ONLY);
	assert_int_equal(p.n, 7);
	mig_desired_from_state(&m.state, &same);
	m.state.pending_enabled =
		false; /* another program asked for MIG off after the next reset */
	p = make_test_plan(&m, &same, 0);
	assert_int_equal(p.n, 1);
	assert_int_equal(p.untouched, 7);
	mig_step_text(&l, &p.steps[0], text, sizeof(text));
	assert_string_equal(text, "enable MIG");
	m.state.enabled = false; /* what is listed beside it does not count */
	p = make_test_plan(&m, &same, 0);
	assert_int_equal(p.n, 1 + 3 + 3);
	assert_int_equal(p.steps[0].action, MIG_SET_MODE);
	assert_int_equal(p.kept, 0);
	desired.enabled = true;
	assert_int_equal(make_test_plan(&m, &desired, 0).n, 1);
}

static void mig_plan_make__sets_only_the_mode_if_requested(void **state)
{
	struct mig_layout l;
	struct model m = make_partitioned_gpu(&l);
	struct mig_desired desired = { .enabled = true, .n = UINT32_MAX }; /* not read */
	struct mig_plan p = make_test_plan(&m, &desired, MIG_PLAN_MODE_ONLY);

	(void)state;
	assert_int_equal(p.n, 0);
	assert_int_equal(p.kept, 7);
	assert_int_equal(p.untouched, 7);
	m.state.enabled = m.state.pending_enabled = false;
	m.state.n = 0;
	p = make_test_plan(&m, &desired, MIG_PLAN_MODE_ONLY);
	assert_int_equal(p.n, 1);
	assert_true(p.steps[0].enabled);
}

static void mig_plan_make__refuses_before_the_first_step(void **state)
{
	struct mig_layout l;
	struct model m = make_partitioned_gpu(&l);
	struct mig_desired desired = { .enabled = false };
	struct error err = ERROR_INIT;
	struct mig_plan p = { .n = 777 };

	(void)state;
	assert_error(mig_plan_make(&p, &l, &m.state, &desired, 0, &err), &err,
		"compute instance 1 of GPU instance 2 (3g.20gb at 0)");
	assert_int_equal(err.code, ERR_UNAVAILABLE);
	assert_error(mig_plan_make(&p, &l, &m.state, &desired, MIG_PLAN_MODE_ONLY, &err), &err,
		"GPU instance 2");
	desired = (struct mig_desired){ .enabled = true,
		.n = 1,
		.gi = { { .profile = profile_at(&l, "7g.40gb"), .start = MIG_START_ANY } } };
	assert_error(mig_plan_make(&p, &l, &m.state, &desired, 0, &err), &err, "in use");
	assert_int_equal(err.code, ERR_UNAVAILABLE);
	desired.n = 2;
	desired.gi[1] = desired.gi[0];
	assert_error(mig_plan_make(&p, &l, &m.state, &desired, MIG_PLAN_FORCE, &err), &err,
		"2 x 7g.40gb wanted, the GPU can have 1");
	assert_int_equal(err.code, ERR_LIMIT);
	desired.n = MIG_GIS_MAX + 1;
	assert_error(mig_plan_make(&p, &l, &m.state, &desired, 0, &err), &err,
		"17 GPU instances");
	desired.n = 0;
	m.state.capable = false;
	assert_error(mig_plan_make(&p, &l, &m.state, &desired, 0, &err), &err,
		"the GPU has none");
	assert_int_equal(err.code, ERR_UNSUPPORTED);
	m.state.n = MIG_GIS_MAX + 1;
	assert_error(mig_plan_make(&p, &l, &m.state, &desired, 0, &err), &err,
		"17 GPU instances");
	assert_int_equal(err.code, ERR_INVALID);
	l.n = MIG_PROFILES_MAX + 1;
	assert_error(mig_plan_make(&p, &l, &m.state, &desired, 0, &err), &err,
		"33 MIG profiles");
	assert_int_equal(p.n, 777);
}

static void mig_plan_make__has_room_for_the_longest_plan(void **state)
{
	struct mig_layout l = { .slots = 32, .slices = 999, .n = 2 };
	struct model m = { .layout = &l, .next_id = 100 };
	struct mig_desired desired = { .enabled = true, .n = MIG_GIS_MAX };
	struct mig_plan p;

	(void)state;
	for (uint32_t i = 0; i < l.n; i++)
		l.profiles[i] = (struct mig_gi_profile){ .slices = 8,
			.max = 16,
			.size = 1,
			.starts = UINT32_MAX };
	m.state = (struct mig_state){ .capable = true, .enabled = true, .n = MIG_GIS_MAX };
	for (uint32_t i = 0; i < MIG_GIS_MAX; i++) {
		m.state.gi[i] = (struct mig_gi){ .id = i,
			.profile = 0,
			.start = i,
			.n_ci = MIG_CIS_MAX };
		desired.gi[i] = (struct mig_desired_gi){ .profile = 1,
			.start = i,
			.n_ci = MIG_CIS_MAX };
		for (uint32_t j = 0; j < MIG_CIS_MAX; j++) {
			m.state.gi[i].ci[j] = (struct mig_ci){ .id = j, .slices = 1 };
			desired.gi[i].ci[j] = 1;
		}
	}
	p = make_test_plan(&m, &desired, 0);
	assert_int_equal(p.n, MIG_STEPS_MAX);
	run_plan_steps(&m, &p, 0, p.n);
	assert_true(is_as_wanted(&m.state, &desired));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mig_plan_make__reaches_the_layout_from_every_state),
		cmocka_unit_test(mig_plan_make__visits_layouts_of_every_product),
		cmocka_unit_test(mig_plan_make__lists_each_step),
		cmocka_unit_test(mig_plan_make__has_no_step_without_a_change),
		cmocka_unit_test(mig_plan_make__sets_the_mode_first_or_last),
		cmocka_unit_test(mig_plan_make__sets_only_the_mode_if_requested),
		cmocka_unit_test(mig_plan_make__refuses_before_the_first_step),
		cmocka_unit_test(mig_plan_make__has_room_for_the_longest_plan),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
