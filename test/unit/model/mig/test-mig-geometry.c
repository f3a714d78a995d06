/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "model/mig/geometry/geometry.h"
#include "layouts.h"
#include "mig-enumerate.h"
#include "naive.h"
#include "random-mig.h"

#define ALL UINT32_MAX

static uint32_t parse_layout_number(const char **at)
{
	uint32_t n = 0;

	for (; **at >= '0' && **at <= '9'; ++*at)
		n = n * 10 + (uint32_t)(**at - '0');
	return n;
}

/* "4g.20gb@0 1g.5gb*3 2g.10gb": names, with a start or a count. */
static struct mig_desired want_of(const struct mig_layout *l, const char *text)
{
	struct mig_desired desired = { .enabled = true };

	while (*text) {
		char name[MIG_PROFILE_NAME_MAX];
		size_t len = strcspn(text, " @*");
		char sign = text[len];
		uint32_t start = MIG_START_ANY, n = 1;

		(void)snprintf(name, sizeof(name), "%.*s", (int)len, text);
		text += len + (sign != '\0');
		if (sign == '@')
			start = parse_layout_number(&text);
		if (sign == '*')
			n = parse_layout_number(&text);
		while (n--)
			desired.gi[desired.n++] =
				(struct mig_desired_gi){ .profile = profile_at(l, name),
					.start = start };
		text += *text == ' ';
	}
	return desired;
}

/* The same as a state; everything has a start. */
static struct mig_state state_of(const struct mig_layout *l, const char *text)
{
	struct mig_desired desired = want_of(l, text);
	struct mig_state s = { .capable = true, .enabled = true, .pending_enabled = true };

	for (; s.n < desired.n; s.n++)
		s.gi[s.n] = (struct mig_gi){ .id = 7 + s.n,
			.profile = desired.gi[s.n].profile,
			.start = desired.gi[s.n].start };
	return s;
}

static bool does_fit_empty(const struct mig_layout *l, const char *text)
{
	uint32_t counts[MIG_PROFILES_MAX] = { 0 };
	struct mig_desired desired = want_of(l, text);

	for (uint32_t i = 0; i < desired.n; i++)
		counts[desired.gi[i].profile]++;
	return mig_geometry_fits(l, counts);
}

static bool count_sets(void *arg, const uint32_t counts[])
{
	(void)counts;
	++*(uint32_t *)arg;
	return true;
}

static uint32_t count(const struct mig_layout *l, uint32_t profiles, bool maximal)
{
	uint32_t n = 0;

	mig_enumerate(l, profiles, maximal, count_sets, &n);
	return n;
}

static void mig_enumerate__agrees_with_nvidias_numbers(void **state)
{
	struct mig_layout l = product_layout(A100_40);
	uint32_t plain = ALL & ~(1u << profile_at(&l, "1g.5gb+me"));
	uint32_t old = plain & ~(1u << profile_at(&l, "1g.10gb"));

	(void)state;
	assert_int_equal(count(&l, old, true), 14);
	assert_int_equal(mig_enumerate_count_placed(&l, old), 19);
	assert_int_equal(count(&l, old, false), 37);
	assert_int_equal(count(&l, plain, true), 38);
	assert_int_equal(mig_enumerate_count_placed(&l, plain), 78);
	assert_int_equal(count(&l, plain, false), 77);
}

/* The same by trying all counts and all places. */
struct recount {
	const struct mig_layout *l;
	uint32_t sets, maximal;
};

static bool naive_fits(const struct mig_layout *l, const uint32_t counts[], bool *full)
{
	struct mig_desired desired = { .enabled = true };
	struct naive_placement v[MIG_GIS_MAX + MIG_SLOTS_MAX];
	struct naive_best best = { .found = false };

	for (uint32_t i = 0; i < l->n; i++)
		for (uint32_t j = 0; j < counts[i]; j++)
			desired.gi[desired.n++] =
				(struct mig_desired_gi){ .profile = i, .start = MIG_START_ANY };
	naive_try(l, NULL, &desired, 0, v, &best);
	*full = best.full;
	return best.found;
}

static void recount_sets(struct recount *r, uint32_t i, uint32_t counts[])
{
	bool full = false;

	if (i == r->l->n) {
		r->sets += naive_fits(r->l, counts, &full);
		r->maximal += full;
		return;
	}
	for (counts[i] = 0; naive_fits(r->l, counts, &full); counts[i]++)
		recount_sets(r, i + 1, counts);
	counts[i] = 0;
}

static void mig_enumerate__finds_as_many_as_brute_force(void **state)
{
	static const enum product_id ids[] = { A30, RTX_PRO_6000 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
		struct mig_layout l = product_layout(ids[i]);
		uint32_t counts[MIG_PROFILES_MAX] = { 0 };
		struct recount r = { .l = &l };

		recount_sets(&r, 0, counts);
		assert_int_equal(count(&l, ALL, false), r.sets - 1); /* the empty one */
		assert_int_equal(count(&l, ALL, true), r.maximal);
	}
}

static bool stop_at_three(void *arg, const uint32_t counts[])
{
	(void)counts;
	return ++*(uint32_t *)arg < 3;
}

static void mig_enumerate__stops_when_the_callback_stops_it(void **state)
{
	struct mig_layout l = product_layout(A100_40);
	uint32_t n = 0;

	(void)state;
	mig_enumerate(&l, ALL, false, stop_at_three, &n);
	assert_int_equal(n, 3);
}

static void mig_geometry_count_free__follows_the_observed_sequence(void **state)
{
	static const char *const names[] = { "1g.5gb", "1g.5gb+me", "1g.10gb", "2g.10gb",
		"3g.20gb", "4g.20gb", "7g.40gb" };
	static const struct {
		const char *have;
		uint32_t room[ARRAY_LEN(names)];
	} rows[] = {
		{ "", { 7, 1, 4, 3, 2, 1, 1 } },
		{ "4g.20gb@0", { 3, 1, 2, 1, 1, 0, 0 } },
		{ "4g.20gb@0 2g.10gb@4", { 1, 1, 1, 0, 0, 0, 0 } },
		{ "4g.20gb@0 2g.10gb@4 1g.5gb@6", { 0, 0, 0, 0, 0, 0, 0 } },
		{ "3g.20gb@4", { 4, 1, 2, 2, 1, 1, 0 } },
		{ "3g.20gb@0 3g.20gb@4", { 0, 0, 0, 0, 0, 0, 0 } },
		{ "1g.5gb+me@6", { 6, 0, 3, 3, 1, 1, 0 } },
	};
	struct mig_layout l = product_layout(A100_40);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct mig_state s = state_of(&l, rows[i].have);

		for (size_t j = 0; j < ARRAY_LEN(names); j++) {
			uint32_t room =
				mig_geometry_count_free(&l, &s, profile_at(&l, names[j]));

			if (room != rows[i].room[j])
				fail_msg("'%s': room for %u x %s, expected %u", rows[i].have,
					room, names[j], rows[i].room[j]);
		}
	}
	assert_int_equal(mig_geometry_count_free(&l, NULL, l.n), 0);
}

static void mig_geometry_count_free__is_the_profiles_max_when_empty(void **state)
{
	(void)state;
	for (enum product_id id = 0; id < PRODUCTS; id++) {
		struct mig_layout l = product_layout(id);

		for (uint32_t i = 0; i < l.n; i++) {
			uint32_t counts[MIG_PROFILES_MAX] = { 0 };

			counts[i] = l.profiles[i].max;
			assert_int_equal(mig_geometry_count_free(&l, NULL, i),
				l.profiles[i].max);
			assert_true(mig_geometry_fits(&l, counts));
			counts[i]++;
			assert_false(mig_geometry_fits(&l, counts));
		}
	}
}

static void mig_geometry_fits__follows_the_corollaries(void **state)
{
	static const struct {
		enum product_id product;
		const char *text;
		bool fits;
	} rows[] = {
		{ A100_40, "3g.20gb*2", true },
		{ A100_40, "3g.20gb 2g.10gb 1g.5gb*2", true },
		{ A100_40, "4g.20gb 3g.20gb", true },
		{ A100_40, "4g.20gb 2g.10gb 1g.5gb", true },
		{ A100_40, "2g.10gb*3 1g.5gb", true },
		{ A100_40, "1g.5gb*7", true },
		{ A100_40, "1g.5gb*6 1g.5gb+me", true },
		{ A100_40, "1g.5gb*7 1g.5gb+me", false },
		{ A100_40, "3g.20gb*2 1g.5gb", false },
		{ A100_40, "1g.10gb*4", true },
		{ A100_40, "1g.10gb*4 1g.5gb", false },
		{ A100_40, "1g.10gb*3 1g.5gb*2", true },
		{ A100_40, "1g.10gb 1g.5gb*6", true }, /* 1g.5gb never at 7 */
		{ A100_40, "4g.20gb*2", false },
		{ A100_40, "4g.20gb 1g.5gb*4", false },
		{ A100_40, "3g.20gb 1g.5gb*4", true },
		{ A100_40, "7g.40gb", true },
		{ A100_40, "7g.40gb 1g.5gb", false },
		{ A100_40, "3g.20gb 2g.10gb 1g.10gb", true },
		{ A100_40, "2g.10gb*3 1g.10gb", true },
		{ A100_40, "2g.10gb*3 1g.5gb+me", true },
		{ H200, "3g.71gb 2g.35gb 1g.18gb*2", true },
		{ B200, "3g.90gb 2g.45gb 1g.23gb*2", true },
		{ B200, "4g.90gb 3g.90gb", true },
		{ B200, "1g.23gb*6 1g.23gb+me", true },
		{ A30, "1g.6gb*4", true },
		{ A30, "2g.12gb 1g.6gb*2", true },
		{ A30, "2g.12gb+me 2g.12gb", true },
		{ A30, "2g.12gb+me 1g.6gb*2", true },
		{ A30, "2g.12gb+me 1g.6gb+me", false }, /* one JPEG engine */
		{ A30, "4g.24gb", true },
		{ A30, "4g.24gb 1g.6gb", false },
		{ RTX_PRO_6000, "1g.24gb+gfx*4", true },
		{ RTX_PRO_6000, "1g.24gb+gfx*2 1g.24gb*2", true },
		{ RTX_PRO_6000, "2g.48gb 1g.24gb*2", true },
		{ RTX_PRO_6000, "2g.48gb 1g.24gb+me 1g.24gb+gfx", true },
		{ RTX_PRO_6000, "1g.24gb+me.all 1g.24gb-me*3", true },
		{ RTX_PRO_6000, "1g.24gb+me.all 2g.48gb-me 1g.24gb-me", true },
		{ RTX_PRO_6000, "2g.48gb+me.all 2g.48gb-me", true },
		{ RTX_PRO_6000, "1g.24gb+me.all 1g.24gb", false },
		{ RTX_PRO_6000, "1g.24gb+me.all 1g.24gb+me", false },
		{ RTX_PRO_6000, "1g.24gb+me.all 1g.24gb+gfx", false },
		{ RTX_PRO_6000, "1g.24gb+me.all 2g.48gb", false },
		{ RTX_PRO_6000, "1g.24gb+me.all 2g.48gb+gfx", false },
		{ RTX_PRO_6000, "1g.24gb+me.all 2g.48gb+me.all", false },
		{ RTX_PRO_6000, "2g.48gb+me.all 1g.24gb", false },
		{ RTX_PRO_6000, "4g.96gb+gfx", true },
		{ RTX_PRO_6000, "4g.96gb 1g.24gb-me", false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct mig_layout l = product_layout(rows[i].product);

		if (does_fit_empty(&l, rows[i].text) != rows[i].fits)
			fail_msg("%s: %s: %d", product_name(rows[i].product), rows[i].text,
				!rows[i].fits);
	}
}

/* The start of @text's first instance, where all instances of @have stay. */
static uint32_t first_start(const struct mig_layout *l, const char *have, const char *text)
{
	struct mig_state s = state_of(l, have);
	struct mig_desired desired = want_of(l, text);
	struct mig_placement placements[MIG_GIS_MAX];
	struct error err = ERROR_INIT;

	assert_ok(mig_geometry_place(l, &s, &desired, MIG_KEEP_BUSY, placements, &err), &err);
	return placements[0].start;
}

static void mig_geometry_place__leaves_large_holes(void **state)
{
	struct mig_layout a100 = product_layout(A100_40), a30 = product_layout(A30);
	struct mig_layout rtx = product_layout(RTX_PRO_6000);

	(void)state;
	assert_int_equal(first_start(&a100, "", "3g.20gb"), 4);
	assert_int_equal(first_start(&a100, "", "1g.5gb"), 6);
	assert_int_equal(first_start(&a100, "", "1g.10gb"), 6);
	assert_int_equal(first_start(&a100, "1g.5gb@6", "1g.5gb 1g.5gb@6"), 4);
	assert_int_equal(first_start(&a100, "3g.20gb@4", "1g.5gb 3g.20gb@4"), 0);
	assert_int_equal(first_start(&a30, "", "1g.6gb"), 0);
	assert_int_equal(first_start(&a30, "", "2g.12gb"), 0);
	assert_int_equal(first_start(&rtx, "", "1g.24gb"), 0);
}

static void mig_geometry_place__moves_nothing_without_need(void **state)
{
	struct mig_layout l = product_layout(A100_40);
	struct mig_state s = state_of(&l, "3g.20gb@0 1g.5gb@4 1g.5gb@5 1g.5gb@6");
	struct mig_desired desired = want_of(&l, "1g.5gb 2g.10gb 3g.20gb");
	struct mig_placement p[MIG_GIS_MAX];
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(mig_geometry_place(&l, &s, &desired, MIG_KEEP_BUSY, p, &err), &err);
	/* The 3g stays at 0, so the 2g has to be at 4, and only the 1g at 6 can stay. */
	assert_int_equal(p[2].kept, 0);
	assert_int_equal(p[1].start, 4);
	assert_int_equal(p[1].kept, -1);
	assert_int_equal(p[0].kept, 3);
	/* One of them can only stay if the 3g goes; that one is busy. */
	desired = want_of(&l, "4g.20gb 1g.5gb");
	s.gi[1].n_ci = 1;
	s.gi[1].ci[0] = (struct mig_ci){ .slices = 1, .busy = true };
	desired.gi[1].n_ci = 1;
	desired.gi[1].ci[0] = 1;
	assert_ok(mig_geometry_place(&l, &s, &desired, MIG_KEEP_BUSY, p, &err), &err);
	assert_int_equal(p[0].start, 0);
	assert_int_equal(p[1].kept, 1);
	assert_ok(mig_geometry_place(&l, &s, &desired, MIG_KEEP_NOTHING, p, &err), &err);
	assert_int_equal(p[1].kept, -1);
	/* A busy instance outweighs any number of others. */
	s = state_of(&l, "3g.20gb@0 3g.20gb@4");
	s.gi[1].n_ci = 1;
	s.gi[1].ci[0] = (struct mig_ci){ .slices = 3, .busy = true };
	desired = want_of(&l, "3g.20gb");
	desired.gi[0].n_ci = 1;
	desired.gi[0].ci[0] = 3;
	assert_ok(mig_geometry_place(&l, &s, &desired, MIG_KEEP_BUSY, p, &err), &err);
	assert_int_equal(p[0].kept, 1);
}

static void mig_geometry_place__prefers_two_kept_gis_to_one_with_its_ci(void **state)
{
	static const struct mig_layout l = { .slots = 6,
		.slices = 9,
		.n = 3,
		.profiles = { { .size = 2, .starts = AT(0) | AT(2), .max = 1, .slices = 1 },
			{ .size = 1, .starts = 0x3f, .max = 2, .slices = 1 },
			{ .size = 2, .starts = AT(0) | AT(4), .max = 1, .slices = 1 } } };
	static const struct mig_state s = { .capable = true,
		.enabled = true,
		.n = 3,
		.gi = { { .id = 1,
				.profile = 0,
				.start = 0,
				.n_ci = 1,
				.ci = { { .slices = 1 } } },
			{ .id = 2, .profile = 1, .start = 4 },
			{ .id = 3, .profile = 1, .start = 5 } } };
	struct mig_desired desired = { .enabled = true, .n = 4 };
	struct mig_placement p[MIG_GIS_MAX];
	struct error err = ERROR_INIT;

	(void)state;
	for (uint32_t i = 0; i < desired.n; i++)
		desired.gi[i] =
			(struct mig_desired_gi){ .profile = i % 3, .start = MIG_START_ANY };
	desired.gi[0].n_ci = desired.gi[0].ci[0] = 1;
	desired.gi[3].profile = 1;
	/* The new one of two slots goes to 0 or to 4: both cost as many steps. */
	assert_ok(mig_geometry_place(&l, &s, &desired, MIG_KEEP_BUSY, p, &err), &err);
	assert_int_equal(p[2].start, 0);
	assert_int_equal(p[0].kept, -1);
	assert_int_equal(p[1].kept + p[3].kept, 3);
}

static void mig_geometry_place__reports_why_it_fails(void **state)
{
	static const struct {
		enum product_id product;
		const char *want, *says;
	} rows[] = {
		{ A100_40, "3g.20gb*3", "3 x 3g.20gb wanted, the GPU can have 2" },
		{ A100_40, "1g.5gb+me*2", "2 x 1g.5gb+me wanted, the GPU can have 1" },
		{ A100_40, "4g.20gb 3g.20gb 1g.5gb",
			"1 x 1g.5gb, 1 x 3g.20gb, 1 x 4g.20gb want 8 compute slices, the GPU has 7" },
		{ A100_40, "3g.20gb*2 1g.5gb",
			"1 x 1g.5gb, 2 x 3g.20gb want 9 memory slots, the GPU has 8" },
		{ A100_40, "3g.20gb@0 1g.5gb*4",
			"1 x 3g.20gb at 0, 4 x 1g.5gb do not fit side by side on the GPU's 8 memory "
			"slots" },
		{ A100_40, "3g.20gb@4 1g.5gb@5 1g.5gb@5",
			"1 x 3g.20gb at 4, 2 x 1g.5gb at 5 do not fit side by side" },
		{ A100_40, "1g.5gb@7",
			"1g.5gb wanted at memory slot 7, it can start at 0, 1, 2, 3, 4, 5, 6" },
		{ A100_40, "4g.20gb@4", "4g.20gb wanted at memory slot 4, it can start at 0" },
		{ A100_40, "1g.5gb@4000000000", "1g.5gb wanted at memory slot 4000000000" },
		{ RTX_PRO_6000, "1g.24gb+me.all 1g.24gb-me 1g.24gb",
			"1 x 1g.24gb, 1 x 1g.24gb+me.all want 5 video decoders, the GPU has 4" },
		{ RTX_PRO_6000, "1g.24gb+me 4g.96gb", "want 5 compute slices" },
		{ A30, "2g.12gb+me 1g.6gb+me", "want 2 JPEG engines, the GPU has 1" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct mig_layout l = product_layout(rows[i].product);
		struct mig_desired desired = want_of(&l, rows[i].want);
		struct mig_placement p[MIG_GIS_MAX] = { { .start = 77 } };
		struct error err = ERROR_INIT;

		assert_error(mig_geometry_place(&l, NULL, &desired, MIG_KEEP_MOST, p, &err),
			&err, rows[i].says);
		assert_int_equal(err.code, ERR_LIMIT);
		assert_int_equal(p[0].start, 77);
	}
}

static void mig_geometry_place__names_instances_in_use(void **state)
{
	struct mig_layout l = product_layout(A100_40);
	struct mig_state s = state_of(&l, "3g.20gb@0 3g.20gb@4");
	struct mig_desired desired = want_of(&l, "7g.40gb");
	struct mig_placement p[MIG_GIS_MAX];
	struct error err = ERROR_INIT;

	(void)state;
	s.gi[0].n_ci = 2;
	s.gi[0].ci[0] = (struct mig_ci){ .id = 4, .slices = 1, .busy = true };
	s.gi[0].ci[1] = (struct mig_ci){ .id = 5, .slices = 1 };
	s.gi[1].n_ci = 1;
	s.gi[1].ci[0] = (struct mig_ci){ .id = 0, .slices = 3, .busy = true };
	assert_error(mig_geometry_place(&l, &s, &desired, MIG_KEEP_BUSY, p, &err), &err,
		"in use, but would have to be destroyed: compute instance 4 of GPU instance 7 (3g.20gb "
		"at 0), compute instance 0 of GPU instance 8 (3g.20gb at 4)");
	assert_int_equal(err.code, ERR_UNAVAILABLE);
	assert_ok(mig_geometry_place(&l, &s, &desired, MIG_KEEP_MOST, p, &err), &err);
	/* Each GI may stay, but not all of its CIs. */
	desired = want_of(&l, "3g.20gb*2");
	desired.gi[0].n_ci = desired.gi[1].n_ci = 1;
	desired.gi[0].ci[0] = 3;
	desired.gi[1].ci[0] = 2;
	assert_error(mig_geometry_place(&l, &s, &desired, MIG_KEEP_BUSY, p, &err), &err,
		"destroyed: compute instance 4 of GPU instance 7 (3g.20gb at 0)");
	assert_null(strstr(err.msg, "instance 8"));
	desired.gi[1].ci[0] = 1;
	assert_ok(mig_geometry_place(&l, &s, &desired, MIG_KEEP_BUSY, p, &err), &err);
	assert_int_equal(p[0].kept, 1);
	assert_int_equal(p[1].kept, 0);
}

static void check_free_count(uint32_t number, const struct mig_layout *l,
	const struct mig_state *s)
{
	struct naive_placement v[MIG_GIS_MAX + MIG_SLOTS_MAX];

	for (uint32_t i = 0; i < s->n; i++)
		v[i] = (struct naive_placement){ s->gi[i].profile, s->gi[i].start };
	for (uint32_t i = 0; i < l->n && naive_enough(l, v, s->n); i++)
		if (mig_geometry_count_free(l, s, i) != naive_count_free(l, v, s->n, i, 0))
			fail_msg("case %u: room for profile %u", number, i);
}

/* One random case against naive.h. */
static bool check_case(uint32_t number)
{
	struct chance c = chance_of(number);
	struct mig_layout l = number % 3
				      ? random_layout(&c)
				      : product_layout((enum product_id)chance(&c, PRODUCTS));
	struct mig_state s = random_state(&c, &l, 5, number % 2 ? 30 : 0);
	struct mig_desired desired = random_want(&c, &l, &s, 5);
	struct naive_best best = naive_solve(&l, &s, &desired);
	struct mig_placement p[MIG_GIS_MAX], again[MIG_GIS_MAX];
	struct naive_placement v[MIG_GIS_MAX + MIG_SLOTS_MAX];
	struct error err = ERROR_INIT;
	int r = mig_geometry_place(&l, &s, &desired, MIG_KEEP_MOST, p, &err);
	struct naive_worth worth;
	uint32_t gis, kept = 0, busy = 0;

	if ((r == 0) != best.found)
		fail_msg("case %u: %d, expected %d solutions: %s", number, r, best.solutions,
			err.msg);
	if (r < 0) {
		assert_int_equal(err.code, ERR_LIMIT);
		return false;
	}
	for (uint32_t i = 0; i < desired.n; i++) {
		v[i] = (struct naive_placement){ desired.gi[i].profile, p[i].start };
		if (desired.gi[i].start != MIG_START_ANY && desired.gi[i].start != p[i].start)
			fail_msg("case %u: not where it is wanted", number);
		if (p[i].kept >= 0)
			kept |= 1u << p[i].kept;
	}
	if (!naive_legal(&l, v, desired.n))
		fail_msg("case %u: not legal", number);
	worth = naive_worth(&l, &s, &desired, v, &gis);
	if (naive_compare(&worth, &best.worth) != 0)
		fail_msg("case %u: keeps %u busy, %u in all, %u GIs; best is %u, %u, %u",
			number, worth.busy, worth.steps, worth.gis, best.worth.busy,
			best.worth.steps, best.worth.gis);
	if (gis != kept)
		fail_msg("case %u: says that it keeps %x, but it is %x", number, kept, gis);
	assert_ok(mig_geometry_place(&l, &s, &desired, MIG_KEEP_MOST, again, &err), &err);
	for (uint32_t i = 0; i < desired.n; i++)
		if (again[i].start != p[i].start || again[i].kept != p[i].kept)
			fail_msg("case %u: another time another place", number);
	for (uint32_t i = 0; i < s.n; i++)
		for (uint32_t j = 0; j < s.gi[i].n_ci; j++)
			busy += s.gi[i].ci[j].busy;
	r = mig_geometry_place(&l, &s, &desired, MIG_KEEP_BUSY, again, &err);
	if ((r == 0) != (busy == best.worth.busy))
		fail_msg("case %u: %u of %u busy can stay, but it is %d: %s", number,
			best.worth.busy, busy, r, err.msg);
	check_free_count(number, &l, &s);
	return true;
}

static void mig_geometry_place__is_as_good_as_brute_force(void **state)
{
	uint32_t placed = 0;

	(void)state;
	for (uint32_t number = 0; number < 6000; number++)
		placed += check_case(number);
	/* Enough of both: with and without a solution. */
	assert_in_range(placed, 1500, 4500);
}

static void mig_geometry__survives_invalid_layouts(void **state)
{
	struct mig_layout l = { .slots = 32, .slices = UINT32_MAX, .n = MIG_PROFILES_MAX };
	struct mig_desired desired = { .enabled = true, .n = MIG_GIS_MAX };
	struct mig_state s = { .capable = true, .enabled = true, .n = MIG_GIS_MAX };
	uint32_t counts[MIG_PROFILES_MAX] = { 17, UINT32_MAX }, n = 0;
	struct mig_placement p[MIG_GIS_MAX];
	struct error err = ERROR_INIT;

	(void)state;
	for (uint32_t i = 0; i < l.n; i++)
		l.profiles[i] = (struct mig_gi_profile){ .slices = i % 2 ? UINT32_MAX : 0,
			.max = UINT32_MAX,
			.copy = UINT32_MAX,
			.size = 1 + i % 3,
			.starts = UINT32_MAX >> (i % 3),
			.name = { .c = UINT32_MAX, .g = UINT32_MAX - 1, .gb = UINT32_MAX } };
	for (uint32_t i = 0; i < desired.n; i++) {
		desired.gi[i] = (struct mig_desired_gi){ .profile = 2 * (i % 3),
			.start = MIG_START_ANY };
		s.gi[i] =
			(struct mig_gi){ .id = i, .profile = 2 * (i % 3), .n_ci = MIG_CIS_MAX };
		for (uint32_t j = 0; j < MIG_CIS_MAX; j++)
			s.gi[i].ci[j].id = j;
	}
	/* The search may stop early, but it returns a legal placement. */
	assert_ok(mig_geometry_place(&l, &s, &desired, MIG_KEEP_BUSY, p, &err), &err);
	for (uint32_t i = 0; i < desired.n; i++)
		assert_true(p[i].start < 32);
	/* 16 of three slots each are 48. */
	for (uint32_t i = 0; i < desired.n; i++)
		desired.gi[i].profile = 2;
	assert_error(mig_geometry_place(&l, &s, &desired, MIG_KEEP_BUSY, p, &err), &err,
		"48 memory slots");
	/* Eight pairs and eight threes that start at even slots only: the search cannot visit all ways. */
	l.profiles[2].starts &= 0x55555555;
	for (uint32_t i = 0; i < desired.n; i++)
		desired.gi[i].profile = i < 5 ? 2 : 4;
	desired.n = 13;
	assert_error(mig_geometry_place(&l, &s, &desired, MIG_KEEP_BUSY, p, &err), &err, "");
	assert_int_equal(err.code, ERR_LIMIT);
	(void)mig_geometry_fits(&l, counts);
	counts[0] = 16;
	counts[1] = 0;
	assert_true(mig_geometry_fits(&l, counts));
	mig_enumerate(&l, ALL, true, stop_at_three, &n); /* ends, whatever it finds */
	n = 0;
	mig_enumerate(&l, ALL, false, stop_at_three, &n);
	assert_int_equal(n, 3);
	(void)mig_enumerate_count_placed(&l, ALL);
	l.n++;
	assert_false(mig_geometry_fits(&l, counts));
	assert_int_equal(mig_geometry_count_free(&l, &s, 0), 0);
	assert_int_equal(mig_enumerate_count_placed(&l, ALL), 0);
	mig_enumerate(&l, ALL, false, stop_at_three, &n);
	assert_int_equal(n, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mig_enumerate__agrees_with_nvidias_numbers),
		cmocka_unit_test(mig_enumerate__finds_as_many_as_brute_force),
		cmocka_unit_test(mig_enumerate__stops_when_the_callback_stops_it),
		cmocka_unit_test(mig_geometry_count_free__follows_the_observed_sequence),
		cmocka_unit_test(mig_geometry_count_free__is_the_profiles_max_when_empty),
		cmocka_unit_test(mig_geometry_fits__follows_the_corollaries),
		cmocka_unit_test(mig_geometry_place__leaves_large_holes),
		cmocka_unit_test(mig_geometry_place__moves_nothing_without_need),
		cmocka_unit_test(mig_geometry_place__prefers_two_kept_gis_to_one_with_its_ci),
		cmocka_unit_test(mig_geometry_place__reports_why_it_fails),
		cmocka_unit_test(mig_geometry_place__names_instances_in_use),
		cmocka_unit_test(mig_geometry_place__is_as_good_as_brute_force),
		cmocka_unit_test(mig_geometry__survives_invalid_layouts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
