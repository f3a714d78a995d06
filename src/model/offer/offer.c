/* SPDX-License-Identifier: Apache-2.0 */
#include "model/offer/offer.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "model/mps/mps.h"
#include "model/offer/selection.h"
#include "model/offer/candidates.h"
#include "model/offer/slices.h"
#include "model/offer/resource.h"
#include "model/slice/slice.h"

/* The part of one candidate in a resource; zero: none. */
struct device_share {
	uint32_t replicas; /* number of replicas or slices */
	uint32_t entry;    /* sharing entry; for slices the position in .slice_groups */
	bool plain;        /* unshared */
};

/* A resource under construction. */
struct resource_draft {
	char name[RESOURCE_NAME_MAX];
	char original[RESOURCE_NAME_MAX];
	bool is_sliced;          /* slices of a profile */
	struct device_share *of; /* [candidates.n] */
};

struct offer_work {
	const struct inventory *inv;
	const struct config *config;
	struct offer *offer;
	struct offer_candidates candidates;
	struct offer_slice_groups slice_groups;
	bool *shared; /* [candidates.n] picked by a sharing entry, or divided into slices */
	bool *sliced; /* [candidates.n] */
	uint32_t *by_entry; /* [candidates.n] the last sharing entry that picked it, + 1 */
	bool *noted;        /* [n_entries] a note about its limits exists */
	struct resource_draft *drafts; /* room for all candidates, entries and slice groups */
	uint32_t n_drafts;
};

static void work_fini(struct offer_work *w)
{
	for (uint32_t i = 0; i < w->n_drafts; i++)
		free(w->drafts[i].of);
	free(w->drafts);
	free(w->candidates.v);
	free(w->slice_groups.v);
	free(w->shared);
	free(w->sliced);
	free(w->by_entry);
	free(w->noted);
	offer_free(w->offer);
}

/* The shares of all candidates in the resource @name. Creates the resource if needed. NULL: out of memory. */
static struct device_share *get_draft_shares(struct offer_work *w, const char *name,
	const char *original, bool cut, struct error *err)
{
	struct resource_draft *d;

	for (uint32_t i = 0; i < w->n_drafts; i++)
		if (strcmp(w->drafts[i].name, name) == 0 && w->drafts[i].is_sliced == cut)
			return w->drafts[i].of;
	d = &w->drafts[w->n_drafts];
	d->of = calloc(w->candidates.n + 1, sizeof(*d->of));
	if (!d->of) {
		(void)error_nomem(err);
		return NULL;
	}
	(void)snprintf(d->name, sizeof(d->name), "%s", name);
	(void)snprintf(d->original, sizeof(d->original), "%s", original);
	d->is_sliced = cut;
	w->n_drafts++;
	return d->of;
}

static int target_name(char *ret, const struct config *config, const struct replicated *e,
	struct error *err)
{
	bool renamed = !e->rename[0] && config->sharing.kinds[e->strategy].rename_by_default;
	const char *suffix = renamed ? ".shared" : "";
	int n = snprintf(ret, RESOURCE_NAME_MAX, "%s%s", e->rename[0] ? e->rename : e->name,
		suffix);

	if (n < 0 || n >= RESOURCE_NAME_MAX)
		return error_set(err, ERR_LIMIT, "resource name '%s%s' is longer than %d bytes",
			e->name, suffix, RESOURCE_NAME_MAX - 1);
	return 0;
}

/* Whether @e takes precedence over the entry that shared the same candidate under the same name. */
static bool is_preferred_entry(const struct offer_work *w, const struct device_share *s,
	const struct replicated *e)
{
	if (s->replicas != e->replicas)
		return s->replicas < e->replicas;
	return !isolation_enforces(&w->config->sharing.entries[s->entry].isolation) &&
	       isolation_enforces(&e->isolation);
}

/* Of @e and @other, one has the fair-share scheduler on @unit and the other does not. The reader of the
 * config already warned if they overlap on every node. */
static int warn_mixed(struct offer_work *w, const struct replicated *e,
	const struct replicated *other, const char *unit, struct error *err)
{
	const struct replicated *free =
		e->isolation.compute == ISOLATION_COMPUTE_NONE ? e : other;
	char text[ERROR_MSG_MAX], line[24] = "";

	if (!replicated_mix_fair_share(e, other) || replicated_always_overlap(e, other))
		return 0;
	if (free->pos.line)
		(void)snprintf(line, sizeof(line), " (line %" PRIu32 ")", free->pos.line);
	(void)snprintf(text, sizeof(text),
		"sharing of '%s'%s: without isolation.compute who has %s takes no turns on %s, and "
		"takes it from those that do",
		free->name, line, *free->rename ? free->rename : free->name, unit);
	return strv_has(&w->offer->warnings, text) ? 0
						   : strv_add(&w->offer->warnings, text, err);
}

/* Returns > 0 and adds a note if another entry has offered the candidate under a name other than @name. */
static int note_shared_twice(struct offer_work *w, uint32_t i, const struct replicated *e,
	const char *name, struct error *err)
{
	char other[RESOURCE_NAME_MAX], unit[OFFER_CANDIDATE_TEXT_MAX];

	if (!w->by_entry[i])
		return 0;
	if (target_name(other, w->config, &w->config->sharing.entries[w->by_entry[i] - 1],
		    err) < 0)
		return -1;
	if (strcmp(name, other) == 0)
		return 0;
	offer_candidate_text(&w->candidates.v[i], w->inv, unit);
	if (warn_mixed(w, e, &w->config->sharing.entries[w->by_entry[i] - 1], unit, err) < 0)
		return -1;
	return offer_note_entry(&w->offer->notes, e, err,
		       "%s is offered twice, as '%s' and as '%s'", unit, other, name) < 0
		       ? -1
		       : 1;
}

static int share_selected_devices(struct offer_work *w, struct offer_selection *selection,
	uint32_t at, bool *picks, struct error *err)
{
	const struct replicated *e = &w->config->sharing.entries[at];
	char name[RESOURCE_NAME_MAX];
	struct device_share *of = NULL;
	int noted = 0;

	if (target_name(name, w->config, e, err) < 0 ||
		offer_select_entry(selection, at, picks, err) < 0)
		return -1;
	for (uint32_t i = 0; i < w->candidates.n; i++) {
		if (!picks[i])
			continue;
		if (!of)
			of = get_draft_shares(w, name, e->name, false, err);
		if (!of)
			return -1;
		if (is_preferred_entry(w, &of[i], e))
			of[i] = (struct device_share){ .replicas = e->replicas, .entry = at };
		w->shared[i] = true;
		if (!noted)
			noted = note_shared_twice(w, i, e, name, err);
		if (noted < 0)
			return -1;
		w->by_entry[i] = at + 1;
	}
	return 0;
}

static int share_all(struct offer_work *w, struct error *err)
{
	const struct sharing *s = &w->config->sharing;
	CLEANUP(freep) bool *picks = calloc((size_t)w->candidates.n + 1, sizeof(*picks));
	CLEANUP(freep) bool *mps = calloc((size_t)w->candidates.n + 1, sizeof(*mps));
	struct offer_selection selection = { .candidates = &w->candidates,
		.inv = w->inv,
		.config = w->config,
		.notes = &w->offer->notes,
		.sliced = w->sliced,
		.mps = mps };

	if (!picks || !mps)
		return error_nomem(err);
	for (uint32_t k = 0; k < s->n_entries; k++)
		if (share_selected_devices(w, &selection, k, picks, err) < 0)
			return -1;
	return 0;
}

/* Runs first: what is divided into slices is not shared otherwise. */
static int cut_all_into_slices(struct offer_work *w, struct error *err)
{
	for (size_t k = 0; k < w->slice_groups.n; k++) {
		const struct offer_slice_group *group = &w->slice_groups.v[k];
		struct device_share *of =
			get_draft_shares(w, group->profile->name, group->set->name, true, err);

		if (!of)
			return -1;
		of[group->candidate] =
			(struct device_share){ .replicas = group->count, .entry = (uint32_t)k };
		w->shared[group->candidate] = true;
		w->sliced[group->candidate] = true;
	}
	return 0;
}

/* --- more clients than MPS takes --- */

static bool is_draft_used_by_mps(const struct offer_work *w, const struct resource_draft *d,
	uint32_t i)
{
	const struct device_share *s = &d->of[i];

	assert(d->of); /* every draft has shares */
	if (!s->replicas)
		return false;
	return d->is_sliced ? w->slice_groups.v[s->entry].set->mps
			    : w->config->sharing.entries[s->entry].strategy == SHARING_MPS;
}

/* As in NVIDIA's plugin, but for each device, over all resources that contain the device. */
static int refuse_crowds(struct offer_work *w, struct error *err)
{
	for (uint32_t i = 0; i < w->candidates.n; i++) {
		struct offer_candidate *candidate = &w->candidates.v[i];
		const struct gpu *g = &w->inv->gpus[candidate->gpu];
		uint32_t max = mps_replicas_max(g->cc_major, g->cc_minor);
		char unit[OFFER_CANDIDATE_TEXT_MAX], text[ERROR_MSG_MAX];
		uint64_t n = 0;

		for (uint32_t k = 0; k < w->n_drafts; k++)
			n += is_draft_used_by_mps(w, &w->drafts[k], i)
				     ? w->drafts[k].of[i].replicas
				     : 0;
		if (candidate->why || n <= max ||
			!g->cc_major) /* 0.0: compute capability unreadable */
			continue;
		offer_candidate_text(candidate, w->inv, unit);
		(void)snprintf(text, sizeof(text),
			"%s (%s): unhealthy, invalid device maximum allowed replicas exceeded: "
			"%" PRIu64 " > %" PRIu32,
			unit, candidate->uuid, n, max);
		if (strv_add(&w->offer->notes, text, err) < 0)
			return -1;
		candidate->why = (uint32_t)w->offer->notes.n;
	}
	return 0;
}

static int add_plain_draft(struct offer_work *w, struct error *err)
{
	struct device_share *of;

	for (uint32_t i = 0; i < w->candidates.n; i++) {
		const char *name = w->candidates.v[i].name;

		if (w->shared[i])
			continue;
		of = get_draft_shares(w, name, name, false, err);
		if (!of)
			return -1;
		of[i].plain = true;
	}
	return 0;
}

/* @share: as in struct offer_device; @profile: resource of the slices, or NULL. */
static int add_offered_device(struct resource *r, const struct offer_candidate *candidate,
	uint32_t replica, uint32_t share, const char *profile, struct error *err)
{
	struct offer_device *d = &r->devices[r->n_devices++];

	d->gpu = candidate->gpu;
	d->mig = candidate->mig;
	d->replica = replica;
	d->why = candidate->why;
	d->share = share;
	if (!share)
		(void)snprintf(d->id, sizeof(d->id), "%s", candidate->uuid);
	else if (profile ? !device_id_make_slice(d->id, sizeof(d->id), candidate->uuid, profile,
				   replica)
			 : !device_id_make(d->id, sizeof(d->id), candidate->uuid, replica))
		return error_set(err, ERR_LIMIT, "device ID of '%s' is too long",
			candidate->uuid);
	return 0;
}

static int add_offered_replicas(struct resource *r, const struct offer_candidate *candidate,
	uint32_t n, uint32_t share, const char *profile, struct error *err)
{
	for (uint32_t k = 0; k < n; k++)
		if (add_offered_device(r, candidate, k, share, profile, err) < 0)
			return -1;
	return 0;
}

/* A slice may be a different part of each device, so each device has a share. */
static int build_slice_resource(struct offer_work *w, const struct resource_draft *d,
	struct resource *r, struct error *err)
{
	for (uint32_t i = 0; i < w->candidates.n; i++) {
		const struct device_share *s = &d->of[i];
		const struct offer_slice_group *group = &w->slice_groups.v[s->entry];

		if (!s->replicas)
			continue;
		r->shares[r->n_shares++] =
			(struct offer_share){ .strategy = group->set->mps ? SHARING_MPS
									  : SHARING_SLICES,
				.replicas = group->count,
				.weight = group->profile->weight,
				.weights = group->weights,
				.isolation = group->profile->isolation };
		if (add_offered_replicas(r, &w->candidates.v[i], group->count, r->n_shares,
			    d->name, err) < 0)
			return -1;
	}
	return 0;
}

static int finish_shared(struct offer_work *w, const struct resource_draft *d,
	struct resource *r, struct error *err)
{
	const struct sharing *s = &w->config->sharing;

	for (size_t i = 0; i < s->n_entries; i++)
		r->shares[i] = (struct offer_share){ .strategy = s->entries[i].strategy,
			.fail_requests_greater_than_one =
				s->kinds[s->entries[i].strategy].fail_requests_greater_than_one,
			.replicas = s->entries[i].replicas,
			.weight = 1,
			.weights = s->entries[i].replicas,
			.isolation = s->entries[i].isolation };
	r->n_shares = (uint32_t)s->n_entries;
	for (uint32_t i = 0; i < w->candidates.n; i++) {
		const struct offer_candidate *candidate = &w->candidates.v[i];

		if (d->of[i].plain &&
			add_offered_device(r, candidate, 0, /* share= */ 0, NULL, err) < 0)
			return -1;
		if (add_offered_replicas(r, candidate, d->of[i].replicas, d->of[i].entry + 1,
			    NULL, err) < 0)
			return -1;
	}
	return 0;
}

/* The config line that makes most of these devices; 0: not from a file. */
static uint32_t find_draft_line(const struct offer_work *w, const struct resource_draft *d)
{
	const struct device_share *most = NULL;

	for (uint32_t i = 0; i < w->candidates.n; i++)
		if (d->of[i].replicas && (!most || d->of[i].replicas > most->replicas))
			most = &d->of[i];
	if (!most)
		return 0;
	return d->is_sliced ? w->slice_groups.v[most->entry].profile->pos.line
			    : w->config->sharing.entries[most->entry].pos.line;
}

static int set_device_limit_error(const struct offer_work *w, const struct resource_draft *d,
	uint64_t n, struct error *err)
{
	uint32_t line = find_draft_line(w, d);
	char text[24] = "";

	if (line)
		(void)snprintf(text, sizeof(text), " (line %" PRIu32 ")", line);
	return error_set(err, ERR_LIMIT,
		"resource '%s'%s: %" PRIu64 " devices make more than %d on this node", d->name,
		text, n, OFFER_DEVICES_MAX);
}

static int build_offered_resource(struct offer_work *w, const struct resource_draft *d,
	uint64_t *total, struct error *err)
{
	struct resource *r = &w->offer->resources[w->offer->n++];
	const struct sharing *s = &w->config->sharing;
	uint64_t n = 0;

	(void)snprintf(r->name, sizeof(r->name), "%s", d->name);
	(void)snprintf(r->original, sizeof(r->original), "%s", d->original);
	r->replicas = 1;
	for (uint32_t i = 0; i < w->candidates.n; i++) {
		n += (uint64_t)d->of[i].plain + d->of[i].replicas;
		if (d->of[i].replicas && r->strategy != SHARING_MPS)
			r->strategy = d->is_sliced ? SHARING_SLICES
						   : s->entries[d->of[i].entry].strategy;
		if (d->of[i].replicas > r->replicas)
			r->replicas = d->of[i].replicas;
	}
	*total += n;
	if (*total > OFFER_DEVICES_MAX)
		return set_device_limit_error(w, d, n, err);
	r->devices = calloc(n ? n : 1, sizeof(*r->devices));
	r->shares =
		calloc((d->is_sliced ? w->candidates.n : s->n_entries) + 1, sizeof(*r->shares));
	if (!r->devices || !r->shares)
		return error_nomem(err);
	if (d->is_sliced ? build_slice_resource(w, d, r, err) < 0
			 : finish_shared(w, d, r, err) < 0)
		return -1;
	return resource_build_index(r, err);
}

/* --- memory limits that do not fit --- */

/* One replica is too small for a program. If a container may request several, a replica is a unit of
 * account, as with a replica for each MiB. The note then has the number that a container needs. */
static int note_small_replica(struct offer_work *w, const struct replicated *e,
	uint32_t replicas, uint64_t usable, const char *unit, struct error *err)
{
	uint32_t min = w->config->sharing.kinds[e->strategy].fail_requests_greater_than_one
			       ? 0
			       : slice_replicas_for(&e->isolation, replicas, usable,
					 CUDA_CONTEXT_BYTES);
	uint64_t one = slice_limit(&e->isolation, replicas, usable, 1);
	char has[48];

	if (one)
		(void)snprintf(has, sizeof(has), "%" PRIu64 " MiB", one >> 20);
	else
		(void)snprintf(has, sizeof(has), "less than %" PRIu64 " MiB",
			(uint64_t)SLICE_GRANULE >> 20);
	if (!min)
		return offer_note_entry(&w->offer->notes, e, err,
			"a replica of %s has %s, and a program needs %" PRIu64
			" MiB for its first CUDA context: it will not start",
			unit, has, (uint64_t)CUDA_CONTEXT_BYTES >> 20);
	return offer_note_entry(&w->offer->notes, e, err,
		"a replica of %s has %s, and a program needs %" PRIu64
		" MiB for its first CUDA context: a container must request at least %" PRIu32
		" replicas",
		unit, has, (uint64_t)CUDA_CONTEXT_BYTES >> 20, min);
}

/* Notes that the replicas of candidate @i, over all resources, may use more memory than it has. Once for
 * each entry, for the first such device: the devices of a node are mostly alike. */
static int note_memory_overcommit(struct offer_work *w, uint32_t i, struct error *err)
{
	const struct replicated *e = NULL;
	uint32_t replicas = 0;
	uint64_t usable = slice_usable(w->inv, w->candidates.v[i].gpu, w->candidates.v[i].mig),
		 sum = 0;
	char unit[OFFER_CANDIDATE_TEXT_MAX];

	for (uint32_t k = 0; k < w->n_drafts; k++) {
		const struct device_share *s = &w->drafts[k].of[i];
		const struct replicated *own;

		if (w->drafts[k].is_sliced || !s->replicas)
			continue;
		own = &w->config->sharing.entries[s->entry];
		if (own->isolation.memory == ISOLATION_MEMORY_NONE)
			continue;
		e = own;
		replicas = s->replicas;
		/* At most 40000 replicas, so the product in MiB fits. The sum saturates. */
		if (__builtin_add_overflow(sum,
			    s->replicas *
				    (slice_limit(&own->isolation, s->replicas, usable, 1) >>
					    20),
			    &sum))
			sum = UINT64_MAX;
	}
	if (!e || w->noted[e - w->config->sharing.entries])
		return 0;
	w->noted[e - w->config->sharing.entries] = true;
	offer_candidate_text(&w->candidates.v[i], w->inv, unit);
	if (!usable)
		return offer_note_entry(&w->offer->notes, e, err,
			"the memory of %s is not known, so pods cannot be given a part of it",
			unit);
	if (e->isolation.memory == ISOLATION_MEMORY_BYTES && e->isolation.memory_value > usable)
		return offer_note_entry(&w->offer->notes, e, err,
			"isolation.memory is more than %s has (%" PRIu64
			" MiB), so it limits nothing there",
			unit, usable >> 20);
	if (sum > usable >> 20 &&
		offer_note_entry(&w->offer->notes, e, err,
			"the memory limits of all replicas of %s come to %" PRIu64
			" MiB, and it has %" PRIu64
			" MiB: a pod may be refused memory that its limit would allow",
			unit, sum, usable >> 20) < 0)
		return -1;
	if (slice_limit(&e->isolation, replicas, usable, 1) < CUDA_CONTEXT_BYTES)
		return note_small_replica(w, e, replicas, usable, unit, err);
	w->noted[e - w->config->sharing.entries] = sum > usable >> 20;
	return 0;
}

static int draft_cmp(const void *a, const void *b)
{
	return strcmp(((const struct resource_draft *)a)->name,
		((const struct resource_draft *)b)->name);
}

static int finish_all(struct offer_work *w, struct error *err)
{
	uint64_t total = 0;

	qsort(w->drafts, w->n_drafts, sizeof(*w->drafts), draft_cmp);
	w->offer->resources =
		calloc(w->n_drafts ? w->n_drafts : 1, sizeof(*w->offer->resources));
	if (!w->offer->resources)
		return error_nomem(err);
	for (uint32_t i = 0; i < w->n_drafts; i++)
		if (build_offered_resource(w, &w->drafts[i], &total, err) < 0)
			return -1;
	return 0;
}

int offer_new(struct offer **ret, const struct inventory *inv, const struct config *config,
	struct error *err)
{
	CLEANUP(work_fini) struct offer_work w = { .inv = inv, .config = config };
	size_t room;

	w.offer = calloc(1, sizeof(*w.offer));
	if (!w.offer)
		return error_nomem(err);
	if (offer_candidates_make(&w.candidates, inv, config, &w.offer->notes, err) < 0)
		return -1;
	if (offer_slices_make(&w.slice_groups, &w.candidates, inv, config, &w.offer->notes,
		    &w.offer->warnings, err) < 0)
		return -1;
	room = (size_t)w.candidates.n + 1;
	w.shared = calloc(room, sizeof(*w.shared));
	w.sliced = calloc(room, sizeof(*w.sliced));
	w.by_entry = calloc(room, sizeof(*w.by_entry));
	w.noted = calloc(config->sharing.n_entries + 1, sizeof(*w.noted));
	w.drafts =
		calloc(room + config->sharing.n_entries + w.slice_groups.n, sizeof(*w.drafts));
	if (!w.shared || !w.sliced || !w.by_entry || !w.noted || !w.drafts)
		return error_nomem(err);
	if (cut_all_into_slices(&w, err) < 0 || share_all(&w, err) < 0 ||
		refuse_crowds(&w, err) < 0 || add_plain_draft(&w, err) < 0)
		return -1;
	for (uint32_t i = 0; i < w.candidates.n && config->sharing.n_entries; i++)
		if (note_memory_overcommit(&w, i, err) < 0)
			return -1;
	if (finish_all(&w, err) < 0)
		return -1;
	*ret = STEAL_PTR(w.offer);
	return 0;
}

struct offer *offer_free(struct offer *o)
{
	if (!o)
		return NULL;
	for (uint32_t i = 0; o->resources && i < o->n; i++)
		resource_fini(&o->resources[i]);
	free(o->resources);
	strv_fini(&o->notes);
	strv_fini(&o->warnings);
	free(o);
	return NULL;
}

const struct resource *offer_find(const struct offer *o, const char *name)
{
	for (uint32_t i = 0; i < o->n; i++)
		if (strcmp(o->resources[i].name, name) == 0)
			return &o->resources[i];
	return NULL;
}
