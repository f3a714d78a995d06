/* SPDX-License-Identifier: Apache-2.0 */
#include "model/offer/slices.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/base/buf.h"
#include "model/offer/candidates.h"
#include "model/slice/slice.h"

#define NAMED_MAX 8 /* devices named in one note */

/* Capacity of one device, for its set and for the current profile. */
struct device_capacity {
	uint32_t set;       /* position + 1 of the set that divides the device; 0: none */
	bool known;         /* the memory size is known */
	bool any;           /* has at least one slice */
	uint64_t usable;    /* bytes */
	uint64_t remaining; /* bytes of .usable that are free before the current profile */
	uint32_t count;     /* slices of the current profile */
	bool noted;         /* a note of the current profile names the device */
};

/* A profile without a slice on any device of its set, with the device that has most memory left. */
struct profile_shortage {
	const struct slice_profile *profile;
	uint32_t candidate;
	uint64_t need, remaining, usable; /* bytes */
};

struct slice_groups_work {
	struct offer_slice_groups *slice_groups;
	size_t room_groups; /* of .slice_groups->v */
	const struct offer_candidates *candidates;
	const struct inventory *inv;
	const struct config *config;
	struct strv *notes, *warnings;
	struct device_capacity *capacities; /* [candidates->n] */
	struct profile_shortage *lacks;     /* room for every profile */
	size_t n_lacks;
};

static int add_slice_message(struct strv *to, struct config_pos pos, const char *what,
	const char *name, struct error *err, const char *fmt, va_list ap) PRINTF(6, 0) MUST_USE;

/* "profile 'nvidia.com/gpu.small' (line 7): ..." */
static int add_slice_message(struct strv *to, struct config_pos pos, const char *what,
	const char *name, struct error *err, const char *fmt, va_list ap)
{
	char text[ERROR_MSG_MAX], line[24] = "", all[2 * ERROR_MSG_MAX];

	(void)vsnprintf(text, sizeof(text), fmt, ap); /* truncates a long note */
	if (pos.line)
		(void)snprintf(line, sizeof(line), " (line %" PRIu32 ")", pos.line);
	(void)snprintf(all, sizeof(all), "%s '%s'%s: %s", what, name, line, text);
	return strv_add(to, all, err);
}

static int add_slice_note(struct slice_groups_work *w, struct config_pos pos, const char *what,
	const char *name, struct error *err, const char *fmt, ...) PRINTF(6, 7) MUST_USE;

static int add_slice_note(struct slice_groups_work *w, struct config_pos pos, const char *what,
	const char *name, struct error *err, const char *fmt, ...)
{
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = add_slice_message(w->notes, pos, what, name, err, fmt, ap);
	va_end(ap);
	return r;
}

static int add_slice_warning(struct slice_groups_work *w, const struct slice_profile *p,
	struct error *err, const char *fmt, ...) PRINTF(4, 5) MUST_USE;

static int add_slice_warning(struct slice_groups_work *w, const struct slice_profile *p,
	struct error *err, const char *fmt, ...)
{
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = add_slice_message(w->warnings, p->pos, "profile", p->name, err, fmt, ap);
	va_end(ap);
	return r;
}

/* --- which devices a set means --- */

static bool is_meant(const struct slice_groups_work *w, uint32_t i, const struct slice_set *s)
{
	const struct offer_candidate *candidate = &w->candidates->v[i];

	return strcmp(candidate->name, s->name) == 0 &&
	       (!s->product || pattern_match(s->product, w->inv->gpus[candidate->gpu].name));
}

static int assign_candidate_to_set(struct slice_groups_work *w, uint32_t i, uint32_t set,
	struct error *err)
{
	const struct slice_set *s = &w->config->slices[set];
	struct device_capacity *capacity = &w->capacities[i];
	char unit[OFFER_CANDIDATE_TEXT_MAX];

	if (!capacity->set) {
		capacity->set = set + 1;
		return 0;
	}
	if (capacity->set == set + 1) /* the list has index and UUID */
		return 0;
	offer_candidate_text(&w->candidates->v[i], w->inv, unit);
	return add_slice_note(w, s->pos, "slices of", s->name, err,
		"%s is cut already as line %" PRIu32 " says, and is left so", unit,
		w->config->slices[capacity->set - 1].pos.line);
}

static int assign_listed_devices(struct slice_groups_work *w, uint32_t set, struct error *err)
{
	const struct slice_set *s = &w->config->slices[set];

	for (size_t k = 0; k < s->list.n; k++) {
		const char *ref = s->list.v[k];
		uint32_t i = offer_find_candidate(w->candidates, w->inv, s->name, ref);

		if (i < w->candidates->n
				? assign_candidate_to_set(w, i, set, err) < 0
				: add_slice_note(w, s->pos, "slices of", s->name, err,
					  "no matching device %s: %s",
					  offer_ref_is_index(ref) ? "at index" : "with UUID",
					  ref) < 0)
			return -1;
	}
	return 0;
}

static int assign_matching_candidates(struct slice_groups_work *w, uint32_t set,
	struct error *err)
{
	const struct slice_set *s = &w->config->slices[set];
	bool any = false;

	for (uint32_t i = 0; i < w->candidates->n; i++) {
		if (!is_meant(w, i, s))
			continue;
		any = true;
		if (assign_candidate_to_set(w, i, set, err) < 0)
			return -1;
	}
	if (any)
		return 0;
	if (s->product)
		return add_slice_note(w, s->pos, "slices of", s->name, err,
			"this node has no such device whose product is '%.80s'", s->product);
	return add_slice_note(w, s->pos, "slices of", s->name, err,
		"this node has no such device");
}

/* --- how many fit --- */

/* Bytes of one slice on a device with @usable bytes; 0: no limit, or unknown. */
static uint64_t need_of(const struct slice_profile *p, uint64_t usable)
{
	/* A limit above the device's memory must not fit; slice_limit() would reduce it to the whole. */
	if (p->isolation.memory == ISOLATION_MEMORY_BYTES)
		return p->isolation.memory_value - p->isolation.memory_value % SLICE_GRANULE;
	if (p->isolation.memory == ISOLATION_MEMORY_PERMILLE)
		return slice_limit(&p->isolation, 1, usable, 1);
	return 0;
}

static uint32_t count_fitting_slices(const struct slice_profile *p,
	const struct device_capacity *capacity)
{
	uint64_t need = need_of(p, capacity->usable), max;

	if (p->isolation.memory == ISOLATION_MEMORY_NONE || !capacity->known)
		return p->count; /* without a count: none */
	max = need ? capacity->remaining / need : 0;
	if (p->count)
		return max < p->count ? (uint32_t)max : p->count;
	/* One more than allowed, so that the limit check fails. */
	return max > OFFER_DEVICES_MAX ? OFFER_DEVICES_MAX + 1 : (uint32_t)max;
}

static int add_slice_group(struct slice_groups_work *w, const struct offer_slice_group *group,
	struct error *err)
{
	if (!ARRAY_GROW(&w->slice_groups->v, w->slice_groups->n, &w->room_groups,
		    ARRAY_NO_LIMIT))
		return error_nomem(err);
	w->slice_groups->v[w->slice_groups->n++] = *group;
	return 0;
}

/* --- notes --- */

/* The devices with the same shortage as the device @first: "GPU 0, GPU 1". */
static void name_alike(struct slice_groups_work *w, uint32_t first, uint32_t set,
	struct buf *names)
{
	const struct device_capacity like = w->capacities[first];
	uint32_t n = 0;

	for (uint32_t i = first; i < w->candidates->n; i++) {
		struct device_capacity *capacity = &w->capacities[i];
		char unit[OFFER_CANDIDATE_TEXT_MAX];

		if (capacity->set != set + 1 || capacity->noted ||
			capacity->count != like.count ||
			capacity->remaining != like.remaining ||
			capacity->usable != like.usable)
			continue;
		capacity->noted = true;
		offer_candidate_text(&w->candidates->v[i], w->inv, unit);
		if (n++ < NAMED_MAX)
			buf_printf(names, "%s%s", n > 1 ? ", " : "", unit);
	}
	if (n > NAMED_MAX)
		buf_printf(names, " and %" PRIu32 " more", n - NAMED_MAX);
}

static int note_lack(struct slice_groups_work *w, uint32_t first, uint32_t set,
	const struct slice_profile *p, struct error *err)
{
	CLEANUP(buf_fini) struct buf names = BUF_INIT(1024);
	const struct device_capacity capacity = w->capacities[first];
	uint64_t need = need_of(p, capacity.usable);

	name_alike(w, first, set, &names);
	if (!buf_ok(&names))
		return error_nomem(err);
	if (!capacity.known)
		return add_slice_note(w, p->pos, "profile", p->name, err,
			"the memory of %s is not known, so %s", buf_str(&names),
			p->count ? "pods cannot be given a part of it"
				 : "it cannot be said how many fit");
	if (p->isolation.memory == ISOLATION_MEMORY_PERMILLE && !need)
		return add_slice_note(w, p->pos, "profile", p->name, err,
			"its part of %s is less than 2 MiB", buf_str(&names));
	if (!capacity.count)
		return add_slice_note(w, p->pos, "profile", p->name, err,
			"does not fit on %s: it needs %" PRIu64 " MiB, and %" PRIu64
			" MiB are left of %" PRIu64 " MiB",
			buf_str(&names), need >> 20, capacity.remaining >> 20,
			capacity.usable >> 20);
	return add_slice_note(w, p->pos, "profile", p->name, err,
		"%" PRIu32 " of %" PRIu32 " fit on %s: each needs %" PRIu64 " MiB, and %" PRIu64
		" MiB are left of %" PRIu64 " MiB",
		capacity.count, p->count, buf_str(&names), need >> 20,
		(capacity.remaining - capacity.count * need) >> 20, capacity.usable >> 20);
}

static bool is_lacking(const struct slice_profile *p, const struct device_capacity *capacity)
{
	if (!capacity->known)
		return p->isolation.memory == ISOLATION_MEMORY_PERMILLE || !p->count;
	return capacity->count < (p->count ? p->count : 1);
}

/* Called once for a profile: the devices of a node are mostly alike. */
static int note_small_slice(struct slice_groups_work *w, uint32_t i,
	const struct slice_profile *p, uint64_t need, struct error *err)
{
	char unit[OFFER_CANDIDATE_TEXT_MAX];

	offer_candidate_text(&w->candidates->v[i], w->inv, unit);
	return add_slice_note(w, p->pos, "profile", p->name, err,
		"a slice of %s has %" PRIu64 " MiB, and a program needs %" PRIu64
		" MiB for its first CUDA context: a container must request at least %" PRIu64
		" slices",
		unit, need >> 20, (uint64_t)CUDA_CONTEXT_BYTES >> 20,
		(CUDA_CONTEXT_BYTES + need - 1) / need);
}

/* --- profiles without slices --- */

/* Call after the slices of the profile are counted and before .remaining is reduced. */
static void add_shortage(struct slice_groups_work *w, uint32_t set,
	const struct slice_profile *p)
{
	struct profile_shortage l = { .profile = p, .candidate = UINT32_MAX };

	for (uint32_t i = 0; i < w->candidates->n; i++) {
		const struct device_capacity *capacity = &w->capacities[i];

		if (capacity->set != set + 1)
			continue;
		if (capacity->count || !capacity->known)
			return;
		if (l.candidate != UINT32_MAX && capacity->remaining <= l.remaining)
			continue;
		l.candidate = i;
		l.need = need_of(p, capacity->usable);
		l.remaining = capacity->remaining;
		l.usable = capacity->usable;
	}
	if (l.candidate != UINT32_MAX)
		w->lacks[w->n_lacks++] = l;
}

static bool is_divided_into_slices(const struct slice_groups_work *w, const char *name)
{
	for (size_t i = 0; i < w->slice_groups->n; i++)
		if (!strcmp(w->slice_groups->v[i].profile->name, name))
			return true;
	return false;
}

/* Of a name in several sets, only the first is reported. */
static bool is_lack_noted(const struct slice_groups_work *w, size_t at)
{
	for (size_t i = 0; i < at; i++)
		if (!strcmp(w->lacks[i].profile->name, w->lacks[at].profile->name))
			return true;
	return false;
}

/* A pod that requests such a profile waits forever if all nodes are alike. This is a warning, not an error,
 * because other nodes may differ. */
static int warn_lacks(struct slice_groups_work *w, struct error *err)
{
	for (size_t i = 0; i < w->n_lacks; i++) {
		const struct profile_shortage *l = &w->lacks[i];
		char unit[OFFER_CANDIDATE_TEXT_MAX];
		int r;

		if (is_divided_into_slices(w, l->profile->name) || is_lack_noted(w, i))
			continue;
		offer_candidate_text(&w->candidates->v[l->candidate], w->inv, unit);
		if (!l->need)
			r = add_slice_warning(w, l->profile, err,
				"nothing of it is offered on this node: its part of %s, as of the "
				"others, is less than 2 MiB",
				unit);
		else
			r = add_slice_warning(w, l->profile, err,
				"fits nowhere on this node, so nothing of it is offered: it needs %" PRIu64
				" MiB, and %s, which has most left, has %" PRIu64 " of %" PRIu64
				" MiB",
				l->need >> 20, unit, l->remaining >> 20, l->usable >> 20);
		if (r < 0)
			return -1;
	}
	return 0;
}

/* --- a profile, a set --- */

static int add_profile_slices(struct slice_groups_work *w, uint32_t set,
	const struct slice_profile *p, struct error *err)
{
	bool small = false;

	for (uint32_t i = 0; i < w->candidates->n; i++) {
		struct device_capacity *capacity = &w->capacities[i];
		uint64_t need = need_of(p, capacity->usable);
		const struct offer_slice_group group = { .candidate = i,
			.count = count_fitting_slices(p, capacity),
			.profile = p,
			.set = &w->config->slices[set] };

		if (capacity->set != set + 1)
			continue;
		capacity->count = group.count;
		capacity->noted = !is_lacking(p, capacity);
		capacity->any = capacity->any || capacity->count;
		if (capacity->count && add_slice_group(w, &group, err) < 0)
			return -1;
		if (need && need < CUDA_CONTEXT_BYTES && !small) {
			small = true;
			if (note_small_slice(w, i, p, need, err) < 0)
				return -1;
		}
	}
	for (uint32_t i = 0; i < w->candidates->n; i++)
		if (w->capacities[i].set == set + 1 && !w->capacities[i].noted &&
			note_lack(w, i, set, p, err) < 0)
			return -1;
	add_shortage(w, set, p);
	for (uint32_t i = 0; i < w->candidates->n; i++) {
		struct device_capacity *capacity = &w->capacities[i];

		if (capacity->set == set + 1 && capacity->known)
			capacity->remaining -= capacity->count * need_of(p, capacity->usable);
	}
	return 0;
}

/* Devices without any slice stay whole: a wrong size never removes a GPU. */
static int note_whole(struct slice_groups_work *w, uint32_t set, struct error *err)
{
	const struct slice_set *s = &w->config->slices[set];
	CLEANUP(buf_fini) struct buf names = BUF_INIT(1024);
	char unit[OFFER_CANDIDATE_TEXT_MAX];
	uint32_t n = 0;

	for (uint32_t i = 0; i < w->candidates->n; i++) {
		if (w->capacities[i].set != set + 1 || w->capacities[i].any)
			continue;
		offer_candidate_text(&w->candidates->v[i], w->inv, unit);
		if (n++ < NAMED_MAX)
			buf_printf(&names, "%s%s", n > 1 ? ", " : "", unit);
	}
	if (!n)
		return 0;
	if (n > NAMED_MAX)
		buf_printf(&names, " and %" PRIu32 " more", n - NAMED_MAX);
	if (!buf_ok(&names))
		return error_nomem(err);
	return add_slice_note(w, s->pos, "slices of", s->name, err,
		"no profile fits on %s, offered whole", buf_str(&names));
}

static int add_set_slices(struct slice_groups_work *w, uint32_t set, struct error *err)
{
	const struct slice_set *s = &w->config->slices[set];

	for (int fill = 0; fill < 2; fill++)
		for (size_t k = 0; k < s->n_profiles; k++)
			if (!s->profiles[k].count == (fill == 1) &&
				add_profile_slices(w, set, &s->profiles[k], err) < 0)
				return -1;
	return note_whole(w, set, err);
}

/* Once for a profile: the first device on which its cap is too small. */
static int warn_small_caps(struct slice_groups_work *w, struct error *err)
{
	/* groups of one profile of a set are adjacent */
	const struct slice_profile *noted = NULL;

	for (size_t i = 0; i < w->slice_groups->n; i++) {
		const struct offer_slice_group *group = &w->slice_groups->v[i];
		char unit[OFFER_CANDIDATE_TEXT_MAX];

		if (group->profile == noted ||
			group->profile->isolation.compute != ISOLATION_COMPUTE_CAPPED ||
			(uint64_t)group->profile->weight * SLICE_CAP_ALL >=
				group->weights * SLICE_CAP_MIN)
			continue;
		noted = group->profile;
		offer_candidate_text(&w->candidates->v[group->candidate], w->inv, unit);
		if (add_slice_warning(w, noted, err,
			    "a slice of %s may have %.4f%% of its time, as it weighs %" PRIu32
			    " of %" PRIu64 " and is capped; expected at least %.1f%%",
			    unit, 100.0 * noted->weight / (double)group->weights, noted->weight,
			    group->weights, SLICE_CAP_MIN / 1e4) < 0)
			return -1;
	}
	return 0;
}

/* Sets the total weight of all slices of each device. */
static int add_weights(struct slice_groups_work *w, struct error *err)
{
	CLEANUP(freep) uint64_t *sums = calloc((size_t)w->candidates->n + 1, sizeof(*sums));

	if (!sums)
		return error_nomem(err);
	for (size_t i = 0; i < w->slice_groups->n; i++) {
		const struct offer_slice_group *group = &w->slice_groups->v[i];

		sums[group->candidate] += (uint64_t)group->count * group->profile->weight;
	}
	for (size_t i = 0; i < w->slice_groups->n; i++)
		w->slice_groups->v[i].weights = sums[w->slice_groups->v[i].candidate];
	return 0;
}

static size_t count_profiles(const struct config *config)
{
	size_t n = 0;

	for (size_t i = 0; i < config->n_slices; i++)
		n += config->slices[i].n_profiles;
	return n;
}

int offer_slices_make(struct offer_slice_groups *ret, const struct offer_candidates *candidates,
	const struct inventory *inv, const struct config *config, struct strv *notes,
	struct strv *warnings, struct error *err)
{
	CLEANUP(freep)
	struct device_capacity *capacities =
		calloc((size_t)candidates->n + 1, sizeof(*capacities));
	CLEANUP(freep)
	struct profile_shortage *lacks = calloc(count_profiles(config) + 1, sizeof(*lacks));
	struct slice_groups_work w = { .slice_groups = ret,
		.candidates = candidates,
		.inv = inv,
		.config = config,
		.notes = notes,
		.warnings = warnings,
		.capacities = capacities,
		.lacks = lacks };

	*ret = (struct offer_slice_groups){ .n = 0 };
	if (!capacities || !lacks)
		return error_nomem(err);
	for (uint32_t i = 0; i < candidates->n; i++) {
		capacities[i].usable =
			slice_usable(inv, candidates->v[i].gpu, candidates->v[i].mig);
		capacities[i].remaining = capacities[i].usable;
		capacities[i].known = capacities[i].usable != 0;
	}
	for (uint32_t s = 0; s < config->n_slices; s++)
		if (config->slices[s].devices == DEVICES_LIST
				? assign_listed_devices(&w, s, err) < 0
				: assign_matching_candidates(&w, s, err) < 0)
			return -1;
	for (uint32_t s = 0; s < config->n_slices; s++)
		if (add_set_slices(&w, s, err) < 0)
			return -1;
	if (add_weights(&w, err) < 0 || warn_lacks(&w, err) < 0)
		return -1;
	return warn_small_caps(&w, err);
}
