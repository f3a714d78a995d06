/* SPDX-License-Identifier: Apache-2.0 */
#include "model/mig/layout.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static_assert(MIG_CIS_MAX <= 32 && MIG_GIS_MAX <= 32, "one bit each");

static int check_profile(const struct mig_layout *l, uint32_t i, struct error *err)
{
	const struct mig_gi_profile *p = &l->profiles[i];

	if (!memchr(p->name.attributes, '\0', sizeof(p->name.attributes)))
		return error_set(err, ERR_INVALID,
			"MIG profile %" PRIu32 ": its name has no end", p->number);
	if (p->size == 0 || p->size > l->slots)
		return error_set(err, ERR_INVALID,
			"MIG profile %" PRIu32 ": %" PRIu32
			" memory slots, expected 1 to the GPU's %" PRIu32,
			p->number, p->size, l->slots);
	/* In 64 bits: whether a start is beyond the last one with room for .size slots. */
	if ((uint64_t)p->starts >> (l->slots - p->size + 1))
		return error_set(err, ERR_INVALID,
			"MIG profile %" PRIu32 ": may start where its %" PRIu32
			" memory slots pass the GPU's %" PRIu32,
			p->number, p->size, l->slots);
	return 0;
}

int mig_layout_check(const struct mig_layout *l, struct error *err)
{
	if (l->n > MIG_PROFILES_MAX)
		return error_set(err, ERR_INVALID,
			"%" PRIu32 " MIG profiles, expected at most %d", l->n,
			MIG_PROFILES_MAX);
	if (l->slots > MIG_SLOTS_MAX)
		return error_set(err, ERR_INVALID,
			"%" PRIu32 " MIG memory slots, expected at most %d", l->slots,
			MIG_SLOTS_MAX);
	for (uint32_t i = 0; i < l->n; i++)
		if (check_profile(l, i, err) < 0)
			return -1;
	return 0;
}

/* IDs must be unique, because steps refer to instances by ID. */
static int check_ids(const struct mig_state *s, const struct mig_gi *gi, struct error *err)
{
	bool ok = gi->id != MIG_ID_NONE;

	for (const struct mig_gi *other = s->gi; other < gi; other++)
		ok = ok && other->id != gi->id;
	if (!ok)
		return error_set(err, ERR_INVALID,
			"GPU instance %" PRIu32 ": its id is not its own", gi->id);
	for (uint32_t i = 0; i < gi->n_ci; i++) {
		ok = gi->ci[i].id != MIG_ID_NONE;
		for (uint32_t j = 0; j < i; j++)
			ok = ok && gi->ci[j].id != gi->ci[i].id;
		if (!ok)
			return error_set(err, ERR_INVALID,
				"compute instance %" PRIu32 " of GPU instance %" PRIu32
				": its id is not its own",
				gi->ci[i].id, gi->id);
	}
	return 0;
}

static int check_gi(const struct mig_layout *l, const struct mig_gi *gi, struct error *err)
{
	if (gi->profile >= l->n)
		return error_set(err, ERR_INVALID,
			"GPU instance %" PRIu32 ": its profile is none of this GPU's", gi->id);
	if (gi->start > l->slots - l->profiles[gi->profile].size)
		return error_set(err, ERR_INVALID,
			"GPU instance %" PRIu32 ": starts at memory slot %" PRIu32
			", too late for this GPU's %" PRIu32,
			gi->id, gi->start, l->slots);
	if (gi->n_ci > MIG_CIS_MAX)
		return error_set(err, ERR_INVALID,
			"GPU instance %" PRIu32 ": %" PRIu32
			" compute instances, expected at most %d",
			gi->id, gi->n_ci, MIG_CIS_MAX);
	return 0;
}

int mig_state_check(const struct mig_layout *l, const struct mig_state *s, struct error *err)
{
	if (s->n > MIG_GIS_MAX)
		return error_set(err, ERR_INVALID,
			"%" PRIu32 " GPU instances, expected at most %d", s->n, MIG_GIS_MAX);
	for (uint32_t i = 0; i < s->n; i++)
		if (check_gi(l, &s->gi[i], err) < 0 || check_ids(s, &s->gi[i], err) < 0)
			return -1;
	return 0;
}

static int check_want_gi(const struct mig_layout *l, const struct mig_desired_gi *desired,
	struct error *err)
{
	char name[MIG_PROFILE_NAME_MAX];
	uint64_t slices = 0;

	if (desired->profile >= l->n)
		return error_set(err, ERR_INVALID,
			"GPU instance wanted of profile %" PRIu32 ", the GPU has %" PRIu32,
			desired->profile, l->n);
	mig_layout_name(l, desired->profile, 0, name);
	if (desired->n_ci > MIG_CIS_MAX)
		return error_set(err, ERR_INVALID,
			"%" PRIu32 " compute instances wanted in one %s, expected at most %d",
			desired->n_ci, name, MIG_CIS_MAX);
	for (uint32_t i = 0; i < desired->n_ci; i++) {
		if (desired->ci[i] == 0)
			return error_set(err, ERR_INVALID,
				"compute instance of 0 slices wanted in a %s", name);
		slices += desired->ci[i];
	}
	if (slices > l->profiles[desired->profile].slices)
		return error_set(err, ERR_LIMIT,
			"compute instances of %" PRIu64
			" slices wanted in one %s, it has %" PRIu32,
			slices, name, l->profiles[desired->profile].slices);
	return 0;
}

int mig_desired_check(const struct mig_layout *l, const struct mig_desired *desired,
	struct error *err)
{
	if (desired->n > MIG_GIS_MAX)
		return error_set(err, ERR_LIMIT,
			"%" PRIu32 " GPU instances wanted, expected at most %d", desired->n,
			MIG_GIS_MAX);
	if (desired->n && !desired->enabled)
		return error_set(err, ERR_INVALID,
			"%" PRIu32 " GPU instances wanted with MIG disabled", desired->n);
	for (uint32_t i = 0; i < desired->n; i++)
		if (check_want_gi(l, &desired->gi[i], err) < 0)
			return -1;
	return 0;
}

/* Distance, in 1/8 GB, of @gb from the exact size of @eighths of this GPU; UINT64_MAX: more than 4 %, as no
 * driver rounds. */
static uint64_t compute_memory_distance(const struct mig_layout *l, uint32_t eighths,
	uint32_t gb)
{
	uint64_t gib = l->memory_total_mib / 1024 + (l->memory_total_mib % 1024 != 0);
	uint64_t named = 8 * (uint64_t)gb, is = eighths * gib;
	uint64_t off = named > is ? named - is : is - named;

	return off * 25 <= is ? off : UINT64_MAX;
}

int mig_layout_find(const struct mig_layout *l, const struct mig_profile *name, bool *guessed)
{
	uint64_t best = UINT64_MAX;
	int found = -1;

	if (guessed)
		*guessed = false;
	for (uint32_t i = 0; i < l->n; i++) {
		const struct mig_gi_profile *p = &l->profiles[i];
		uint32_t eighths = mig_profile_eighths(p->memory_mib, l->memory_total_mib);
		uint64_t off;

		if (p->name.g != name->g || strcmp(p->name.attributes, name->attributes) != 0)
			continue;
		if (p->name.gb == name->gb) {
			found = (int)i;
			break;
		}
		off = eighths ? compute_memory_distance(l, eighths, name->gb) : UINT64_MAX;
		if (off < best) {
			best = off;
			found = (int)i;
		}
	}
	if (guessed)
		*guessed = found >= 0 && l->profiles[found].name.gb != name->gb;
	return found;
}

void mig_layout_name(const struct mig_layout *l, uint32_t profile, uint32_t ci_slices,
	char ret[MIG_PROFILE_NAME_MAX])
{
	struct mig_profile name;

	if (profile >= l->n) {
		(void)snprintf(ret, MIG_PROFILE_NAME_MAX, "profile %" PRIu32, profile);
		return;
	}
	name = l->profiles[profile].name;
	name.c = ci_slices ? ci_slices : name.g;
	mig_profile_format(&name, ret);
}

void mig_desired_from_state(const struct mig_state *s, struct mig_desired *ret)
{
	*ret = (struct mig_desired){ .enabled = s->capable && s->enabled };
	if (!ret->enabled)
		return;
	for (; ret->n < s->n && ret->n < MIG_GIS_MAX; ret->n++) {
		const struct mig_gi *from = &s->gi[ret->n];
		struct mig_desired_gi *to = &ret->gi[ret->n];

		*to = (struct mig_desired_gi){ .profile = from->profile, .start = from->start };
		for (; to->n_ci < from->n_ci && to->n_ci < MIG_CIS_MAX; to->n_ci++)
			to->ci[to->n_ci] = from->ci[to->n_ci].slices;
	}
}

/* Bit of the first unserved CI of @desired with @slices; 0: none. */
static uint32_t find_unserved_ci(const struct mig_desired_gi *desired, uint32_t served,
	uint32_t slices)
{
	for (uint32_t i = 0; i < desired->n_ci; i++)
		if (desired->ci[i] == slices && !(served >> i & 1))
			return 1u << i;
	return 0;
}

struct mig_ci_match mig_match_cis(const struct mig_gi *gi, const struct mig_desired_gi *desired)
{
	struct mig_ci_match m = { 0 };

	for (int busy = 1; busy >= 0; busy--) {
		for (uint32_t i = gi->n_ci; i-- > 0;) {
			uint32_t bit =
				gi->ci[i].busy == (bool)busy
					? find_unserved_ci(desired, m.served, gi->ci[i].slices)
					: 0;

			m.served |= bit;
			m.kept |= (uint32_t)(bit != 0) << i;
		}
	}
	return m;
}
