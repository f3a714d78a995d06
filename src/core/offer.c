/* SPDX-License-Identifier: Apache-2.0 */
#include "core/offer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "core/offer-units.h"
#include "core/resource.h"
#include "core/slice.h"

/* What of one unit is in a resource; nothing: none. */
struct share {
	uint32_t replicas;
	uint32_t entry; /* that says so */
	bool plain;     /* unshared */
};

/* A resource in the making. */
struct draft {
	char name[RESOURCE_NAME_MAX];
	char original[RESOURCE_NAME_MAX];
	struct share *of; /* [units.n] */
};

struct work {
	const struct inventory *inv;
	const struct config *config;
	struct offer *offer;
	struct offer_units units;
	bool *shared;         /* [units.n] picked by a sharing entry */
	uint32_t *by_entry;   /* [units.n] the entry that did, + 1 */
	bool *noted;          /* [n_entries] that its limits do not fit */
	struct draft *drafts; /* room for every unit and every entry */
	uint32_t n_drafts;
};

static void work_fini(struct work *w)
{
	for (uint32_t i = 0; i < w->n_drafts; i++)
		free(w->drafts[i].of);
	free(w->drafts);
	free(w->units.v);
	free(w->shared);
	free(w->by_entry);
	free(w->noted);
	offer_free(w->offer);
}

static int note(struct work *w, struct error *err, const char *fmt, ...) PRINTF(3, 4) MUST_USE;

static int note(struct work *w, struct error *err, const char *fmt, ...)
{
	char text[ERROR_MSG_MAX];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap); /* a long note may be cut */
	va_end(ap);
	return strv_add(&w->offer->notes, text, err);
}

/* A note about a sharing entry, with its line where it has one. */
static int note_entry(struct work *w, const struct replicated *e, struct error *err,
	const char *fmt, ...) PRINTF(4, 5) MUST_USE;

static int note_entry(struct work *w, const struct replicated *e, struct error *err,
	const char *fmt, ...)
{
	char text[ERROR_MSG_MAX / 2];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (e->pos.line)
		return note(w, err, "sharing of '%s' (line %" PRIu32 "): %s", e->name,
			e->pos.line, text);
	return note(w, err, "sharing of '%s': %s", e->name, text);
}

/* What there is of each unit in the resource @name, which may be a new one; NULL: out of memory. */
static struct share *shares_of(struct work *w, const char *name, const char *original,
	struct error *err)
{
	struct draft *d;

	for (uint32_t i = 0; i < w->n_drafts; i++)
		if (strcmp(w->drafts[i].name, name) == 0)
			return w->drafts[i].of;
	d = &w->drafts[w->n_drafts];
	d->of = calloc(w->units.n + 1, sizeof(*d->of));
	if (!d->of) {
		(void)error_nomem(err);
		return NULL;
	}
	(void)snprintf(d->name, sizeof(d->name), "%s", name);
	(void)snprintf(d->original, sizeof(d->original), "%s", original);
	w->n_drafts++;
	return d->of;
}

static bool is_of(const struct work *w, uint32_t i, const struct replicated *e)
{
	return strcmp(w->units.v[i].name, e->name) == 0;
}

/* "0" is a GPU by NVML's index, "0:1" one of its MIG devices. */
static bool parse_index(const char *ref, uint32_t *gpu, uint32_t *mig)
{
	const char *colon = strchr(ref, ':');
	char first[16];

	*mig = OFFER_WHOLE;
	if (!colon)
		return parse_u32(ref, gpu);
	(void)snprintf(first, sizeof(first), "%.*s", (int)(colon - ref), ref);
	return parse_u32(first, gpu) && parse_u32(colon + 1, mig);
}

/* The unit of entry @e at that index, or units.n. Of a GPU that is gone only if no other has it. */
static uint32_t at_index(const struct work *w, const struct replicated *e, uint32_t gpu,
	uint32_t mig)
{
	uint32_t found = w->units.n;

	for (uint32_t i = 0; i < w->units.n; i++) {
		const struct offer_unit *u = &w->units.v[i];
		const struct gpu *g = &w->inv->gpus[u->gpu];
		uint32_t index =
			u->mig == OFFER_WHOLE ? OFFER_WHOLE : w->inv->mig[u->mig].index;

		if (g->index != gpu || index != mig || !is_of(w, i, e))
			continue;
		if (g->fault != GPU_FAULT_GONE)
			return i;
		found = i;
	}
	return found;
}

bool offer_mig_is_called(const struct inventory *inv, const struct gpu_mig *m, const char *ref)
{
	char legacy[GPU_UUID_MAX + 32];

	if (strcmp(m->uuid, ref) == 0)
		return true;
	(void)snprintf(legacy, sizeof(legacy), "MIG-%s/%" PRIu32 "/%" PRIu32,
		inv->gpus[m->gpu].uuid, m->gi, m->ci);
	return strcmp(legacy, ref) == 0;
}

static bool is_called(const struct work *w, const struct offer_unit *u, const char *ref)
{
	if (u->mig == OFFER_WHOLE)
		return strcmp(u->uuid, ref) == 0;
	return offer_mig_is_called(w->inv, &w->inv->mig[u->mig], ref);
}

static int pick_one(struct work *w, const struct replicated *e, const char *ref, bool *picks,
	struct error *err)
{
	uint32_t gpu, mig, i = w->units.n;
	bool by_index = parse_index(ref, &gpu, &mig);

	if (by_index)
		i = at_index(w, e, gpu, mig);
	else
		for (i = 0; i < w->units.n; i++)
			if (is_of(w, i, e) && is_called(w, &w->units.v[i], ref))
				break;
	if (i < w->units.n) {
		picks[i] = true;
		return 0;
	}
	return note_entry(w, e, err, "no matching device %s: %s",
		by_index ? "at index" : "with UUID", ref);
}

/* The first @want of the entry, those that can be had before the others. */
static void pick_first(struct work *w, const struct replicated *e, uint32_t want, bool *picks)
{
	uint32_t n = 0;

	for (int bad = 0; bad < 2; bad++) {
		for (uint32_t i = 0; i < w->units.n && n < want; i++) {
			if (is_of(w, i, e) && !w->units.v[i].why == !bad) {
				picks[i] = true;
				n++;
			}
		}
	}
}

/* Marks in @picks the units that @e means. */
static int pick(struct work *w, const struct replicated *e, bool *picks, struct error *err)
{
	uint32_t have = 0;

	for (uint32_t i = 0; i < w->units.n; i++)
		have += is_of(w, i, e);
	if (!have)
		return note_entry(w, e, err, "this node has no such device");
	if (e->devices == DEVICES_LIST) {
		for (size_t k = 0; k < e->list.n; k++)
			if (pick_one(w, e, e->list.v[k], picks, err) < 0)
				return -1;
		return 0;
	}
	pick_first(w, e, e->devices == DEVICES_COUNT ? e->count : UINT32_MAX, picks);
	if (e->devices == DEVICES_COUNT && e->count > have)
		return note_entry(w, e, err,
			"requested %" PRIu32 " devices to be replicated, but only %" PRIu32
			" devices available",
			e->count, have);
	return 0;
}

static int target_name(char *ret, const struct config *config, const struct replicated *e,
	struct error *err)
{
	const char *suffix =
		!e->rename[0] && config->sharing.rename_by_default ? ".shared" : "";
	int n = snprintf(ret, RESOURCE_NAME_MAX, "%s%s", e->rename[0] ? e->rename : e->name,
		suffix);

	if (n < 0 || n >= RESOURCE_NAME_MAX)
		return error_set(err, ERR_LIMIT, "resource name '%s%s' is longer than %d bytes",
			e->name, suffix, RESOURCE_NAME_MAX - 1);
	return 0;
}

/* Whether @e counts before the entry that has shared the same unit under the same name. */
static bool replaces(const struct work *w, const struct share *s, const struct replicated *e)
{
	if (s->replicas != e->replicas)
		return s->replicas < e->replicas;
	return w->config->sharing.entries[s->entry].isolation.memory == ISOLATION_MEMORY_NONE &&
	       e->isolation.memory != ISOLATION_MEMORY_NONE;
}

static int share(struct work *w, uint32_t at, bool *picks, struct error *err)
{
	const struct replicated *e = &w->config->sharing.entries[at];
	char name[RESOURCE_NAME_MAX], other[RESOURCE_NAME_MAX], unit[UNIT_TEXT_MAX];
	struct share *of = NULL;
	bool told = false;

	memset(picks, 0, w->units.n * sizeof(*picks));
	if (target_name(name, w->config, e, err) < 0 || pick(w, e, picks, err) < 0)
		return -1;
	for (uint32_t i = 0; i < w->units.n; i++) {
		if (!picks[i])
			continue;
		if (!of)
			of = shares_of(w, name, e->name, err);
		if (!of)
			return -1;
		if (replaces(w, &of[i], e))
			of[i] = (struct share){ .replicas = e->replicas, .entry = at };
		w->shared[i] = true;
		if (w->by_entry[i] && !told) {
			if (target_name(other, w->config,
				    &w->config->sharing.entries[w->by_entry[i] - 1], err) < 0)
				return -1;
			told = strcmp(name, other) != 0;
			offer_unit_text(&w->units.v[i], w->inv, unit);
			if (told && note_entry(w, e, err,
					    "%s is offered twice, as '%s' and as '%s'", unit,
					    other, name) < 0)
				return -1;
		}
		w->by_entry[i] = at + 1;
	}
	return 0;
}

static int share_all(struct work *w, struct error *err)
{
	const struct sharing *s = &w->config->sharing;
	CLEANUP(freep) bool *picks = calloc(w->units.n ? w->units.n : 1, sizeof(*picks));

	if (!picks)
		return error_nomem(err);
	if (s->strategy == SHARING_NONE)
		return 0;
	for (uint32_t k = 0; k < s->n_entries; k++)
		if (share(w, k, picks, err) < 0)
			return -1;
	return 0;
}

static int keep_plain(struct work *w, struct error *err)
{
	struct share *of;

	for (uint32_t i = 0; i < w->units.n; i++) {
		const char *name = w->units.v[i].name;

		if (w->shared[i])
			continue;
		of = shares_of(w, name, name, err);
		if (!of)
			return -1;
		of[i].plain = true;
	}
	return 0;
}

/* @share: as in struct offer_device. */
static int add_device(struct resource *r, const struct offer_unit *u, uint32_t replica,
	uint32_t share, struct error *err)
{
	struct offer_device *d = &r->devices[r->n_devices++];

	d->gpu = u->gpu;
	d->mig = u->mig;
	d->replica = replica;
	d->why = u->why;
	d->share = share;
	if (!share)
		(void)snprintf(d->id, sizeof(d->id), "%s", u->uuid);
	else if (!device_id_make(d->id, sizeof(d->id), u->uuid, replica))
		return error_set(err, ERR_LIMIT, "device ID of '%s' is too long", u->uuid);
	return 0;
}

static int finish(struct work *w, const struct draft *d, uint64_t *total, struct error *err)
{
	struct resource *r = &w->offer->resources[w->offer->n++];
	const struct sharing *s = &w->config->sharing;
	uint64_t n = 0;

	(void)snprintf(r->name, sizeof(r->name), "%s", d->name);
	(void)snprintf(r->original, sizeof(r->original), "%s", d->original);
	r->replicas = 1;
	for (uint32_t i = 0; i < w->units.n; i++) {
		n += (uint64_t)d->of[i].plain + d->of[i].replicas;
		if (d->of[i].replicas) {
			r->strategy = s->strategy;
			r->fail_requests_greater_than_one = s->fail_requests_greater_than_one;
		}
		if (d->of[i].replicas > r->replicas)
			r->replicas = d->of[i].replicas;
	}
	*total += n;
	if (*total > OFFER_DEVICES_MAX)
		return error_set(err, ERR_LIMIT,
			"resource '%s': %" PRIu64 " devices make more than %d on this node",
			r->name, n, OFFER_DEVICES_MAX);
	r->devices = calloc(n ? n : 1, sizeof(*r->devices));
	r->shares = calloc(s->n_entries + 1, sizeof(*r->shares));
	if (!r->devices || !r->shares)
		return error_nomem(err);
	for (size_t i = 0; i < s->n_entries; i++)
		r->shares[i] = (struct offer_share){ .replicas = s->entries[i].replicas,
			.isolation = s->entries[i].isolation };
	r->n_shares = (uint32_t)s->n_entries;
	for (uint32_t i = 0; i < w->units.n; i++) {
		if (d->of[i].plain && add_device(r, &w->units.v[i], 0, /* share= */ 0, err) < 0)
			return -1;
		for (uint32_t k = 0; k < d->of[i].replicas; k++)
			if (add_device(r, &w->units.v[i], k, d->of[i].entry + 1, err) < 0)
				return -1;
	}
	return resource_build_index(r, err);
}

/* --- memory limits that do not fit --- */

/*
 * Tells of a unit whose replicas, of all resources, may use more than it has. Once for each entry, for the
 * first unit: the others of a node are mostly the same.
 */
static int note_limits(struct work *w, uint32_t i, struct error *err)
{
	const struct replicated *e = NULL;
	uint32_t replicas = 0;
	uint64_t usable = slice_usable(w->inv, w->units.v[i].gpu, w->units.v[i].mig), sum = 0;
	char unit[UNIT_TEXT_MAX];

	for (uint32_t k = 0; k < w->n_drafts; k++) {
		const struct share *s = &w->drafts[k].of[i];
		const struct replicated *own = &w->config->sharing.entries[s->entry];

		if (!s->replicas || own->isolation.memory == ISOLATION_MEMORY_NONE)
			continue;
		e = own;
		replicas = s->replicas;
		/* At most 40000 replicas, of at most 2^63 bytes together: as a sum it may be cut. */
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
	offer_unit_text(&w->units.v[i], w->inv, unit);
	if (!usable)
		return note_entry(w, e, err,
			"the memory of %s is not known, so pods cannot be given a part of it",
			unit);
	if (e->isolation.memory == ISOLATION_MEMORY_BYTES && e->isolation.memory_value > usable)
		return note_entry(w, e, err,
			"isolation.memory is more than %s has (%" PRIu64
			" MiB), so it limits nothing there",
			unit, usable >> 20);
	if (sum > usable >> 20)
		return note_entry(w, e, err,
			"the memory limits of all replicas of %s come to %" PRIu64
			" MiB, and it has %" PRIu64
			" MiB: a pod may be refused memory that its limit would allow",
			unit, sum, usable >> 20);
	sum = slice_limit(&e->isolation, replicas, usable, 1);
	if (sum < SLICE_CONTEXT_ROOM)
		return note_entry(w, e, err,
			"a replica of %s has %" PRIu64 " MiB, and a program needs %" PRIu64
			" MiB for its first CUDA context: it will not start",
			unit, sum >> 20, (uint64_t)SLICE_CONTEXT_ROOM >> 20);
	w->noted[e - w->config->sharing.entries] = false;
	return 0;
}

static int draft_cmp(const void *a, const void *b)
{
	return strcmp(((const struct draft *)a)->name, ((const struct draft *)b)->name);
}

static int finish_all(struct work *w, struct error *err)
{
	uint64_t total = 0;

	qsort(w->drafts, w->n_drafts, sizeof(*w->drafts), draft_cmp);
	w->offer->resources =
		calloc(w->n_drafts ? w->n_drafts : 1, sizeof(*w->offer->resources));
	if (!w->offer->resources)
		return error_nomem(err);
	for (uint32_t i = 0; i < w->n_drafts; i++)
		if (finish(w, &w->drafts[i], &total, err) < 0)
			return -1;
	return 0;
}

int offer_new(struct offer **ret, const struct inventory *inv, const struct config *config,
	struct error *err)
{
	CLEANUP(work_fini) struct work w = { .inv = inv, .config = config };
	size_t room;

	w.offer = calloc(1, sizeof(*w.offer));
	if (!w.offer)
		return error_nomem(err);
	if (offer_units_make(&w.units, inv, config, &w.offer->notes, err) < 0)
		return -1;
	room = (size_t)w.units.n + 1;
	w.shared = calloc(room, sizeof(*w.shared));
	w.by_entry = calloc(room, sizeof(*w.by_entry));
	w.noted = calloc(config->sharing.n_entries + 1, sizeof(*w.noted));
	w.drafts = calloc(room + config->sharing.n_entries, sizeof(*w.drafts));
	if (!w.shared || !w.by_entry || !w.noted || !w.drafts)
		return error_nomem(err);
	if (share_all(&w, err) < 0 || keep_plain(&w, err) < 0)
		return -1;
	for (uint32_t i = 0; i < w.units.n && config->sharing.n_entries; i++)
		if (note_limits(&w, i, err) < 0)
			return -1;
	if (finish_all(&w, err) < 0)
		return -1;
	if (config->n_slices &&
		note(&w, err, "sharing.slices: software slices come in a later version") < 0)
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
