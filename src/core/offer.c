/* SPDX-License-Identifier: Apache-2.0 */
#include "core/offer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "core/resource.h"

/* A resource in the making: for each GPU, whether it is in it as a whole and how many replicas. */
struct draft {
	char name[RESOURCE_NAME_MAX];
	char original[RESOURCE_NAME_MAX];
	uint32_t *replicas; /* [n] 0: no replica of this GPU */
	bool *plain;        /* [n] */
};

struct work {
	const struct inventory *inv;
	const struct config *config;
	struct offer *offer;
	char (*names)[RESOURCE_NAME_MAX]; /* [inv->n] resource by pattern; "": not offered */
	bool *shared;                     /* [inv->n] picked by a sharing entry */
	uint32_t *by_entry;               /* [inv->n] the entry that did, + 1 */
	struct draft *drafts;             /* room for every GPU and every entry */
	uint32_t n_drafts;
};

static void work_fini(struct work *w)
{
	for (uint32_t i = 0; i < w->n_drafts; i++) {
		free(w->drafts[i].replicas);
		free(w->drafts[i].plain);
	}
	free(w->drafts);
	free(w->names);
	free(w->shared);
	free(w->by_entry);
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

static bool is_display(const struct gpu *g)
{
	return strcmp(g->name, "DGX Display") == 0 ||
	       strcmp(g->name, "NVIDIA DGX Display") == 0;
}

const char *offer_original_name(const struct config *config, const struct gpu *g)
{
	for (size_t i = 0; i < config->n_gpu_patterns; i++)
		if (pattern_match(config->gpu_patterns[i].pattern, g->name))
			return config->gpu_patterns[i].name;
	return "nvidia.com/gpu"; /* the built-in `*` */
}

/* Of two GPUs with one UUID the later counts, as in NVIDIA's device map. */
static bool has_later_twin(const struct inventory *inv, uint32_t i)
{
	for (uint32_t j = i + 1; j < inv->n; j++)
		if (strcmp(inv->gpus[i].uuid, inv->gpus[j].uuid) == 0)
			return true;
	return false;
}

bool offer_can_have(const struct inventory *inv, uint32_t i)
{
	const struct gpu *g = &inv->gpus[i];

	return g->uuid[0] && !is_display(g) && !has_later_twin(inv, i);
}

static int name_gpus(struct work *w, struct error *err)
{
	for (uint32_t i = 0; i < w->inv->n; i++) {
		const struct gpu *g = &w->inv->gpus[i];
		int r = 0;

		if (is_display(g))
			continue;
		if (!g->uuid[0])
			r = note(w, err,
				"GPU %" PRIu32 ": not offered, its UUID is unknown%s%s",
				g->index, g->reason[0] ? ": " : "", g->reason);
		else if (g->mig_enabled && w->config->mig_strategy != MIG_STRATEGY_NONE)
			r = note(w, err,
				"GPU %" PRIu32 " (%s): not offered, MIG is on and MIG devices "
				"come in a later version",
				g->index, g->uuid);
		else if (has_later_twin(w->inv, i))
			r = note(w, err,
				"GPU %" PRIu32
				" (%s): not offered, another GPU has the same UUID",
				g->index, g->uuid);
		else
			(void)snprintf(w->names[i], RESOURCE_NAME_MAX, "%s",
				offer_original_name(w->config, g));
		if (r < 0)
			return -1;
	}
	return 0;
}

static int draft_get(struct draft **ret, struct work *w, const char *name, const char *original,
	struct error *err)
{
	uint32_t room = w->inv->n ? w->inv->n : 1;
	struct draft *d;

	for (uint32_t i = 0; i < w->n_drafts; i++) {
		if (strcmp(w->drafts[i].name, name) == 0) {
			*ret = &w->drafts[i];
			return 0;
		}
	}
	d = &w->drafts[w->n_drafts++];
	(void)snprintf(d->name, sizeof(d->name), "%s", name);
	(void)snprintf(d->original, sizeof(d->original), "%s", original);
	d->replicas = calloc(room, sizeof(*d->replicas));
	d->plain = calloc(room, sizeof(*d->plain));
	if (!d->replicas || !d->plain)
		return error_nomem(err);
	*ret = d;
	return 0;
}

static bool is_of(const struct work *w, uint32_t i, const struct replicated *e)
{
	return w->names[i][0] && strcmp(w->names[i], e->name) == 0;
}

/* The GPU of entry @e at NVML index @index, or inv->n. One that is gone only if no other has it. */
static uint32_t at_index(const struct work *w, const struct replicated *e, uint32_t index)
{
	uint32_t found = w->inv->n;

	for (uint32_t i = 0; i < w->inv->n; i++) {
		const struct gpu *g = &w->inv->gpus[i];

		if (g->index != index || !is_of(w, i, e))
			continue;
		if (g->fault != GPU_FAULT_GONE)
			return i;
		found = i;
	}
	return found;
}

static int pick_one(struct work *w, const struct replicated *e, const char *ref, bool *picks,
	struct error *err)
{
	bool mig = strncmp(ref, "MIG-", 4) == 0 || strchr(ref, ':');
	uint32_t index, i = w->inv->n;
	bool by_index = false;

	if (parse_u32(ref, &index)) {
		by_index = true;
		i = at_index(w, e, index);
	} else if (!mig) {
		for (i = 0; i < w->inv->n; i++)
			if (is_of(w, i, e) && strcmp(w->inv->gpus[i].uuid, ref) == 0)
				break;
	} else {
		by_index = strncmp(ref, "MIG-", 4) != 0;
	}
	if (i < w->inv->n) {
		picks[i] = true;
		return 0;
	}
	return note_entry(w, e, err, "no matching device %s: %s%s",
		by_index ? "at index" : "with UUID", ref,
		mig ? " (MIG devices come in a later version)" : "");
}

/* Marks in @picks the GPUs that @e means. */
static int pick(struct work *w, const struct replicated *e, bool *picks, struct error *err)
{
	uint32_t have = 0, want = UINT32_MAX;

	for (uint32_t i = 0; i < w->inv->n; i++)
		have += is_of(w, i, e);
	if (!have)
		return note_entry(w, e, err, "this node has no such device");
	if (e->devices == DEVICES_LIST) {
		for (size_t k = 0; k < e->list.n; k++)
			if (pick_one(w, e, e->list.v[k], picks, err) < 0)
				return -1;
		return 0;
	}
	if (e->devices == DEVICES_COUNT)
		want = e->count;
	for (uint32_t i = 0, n = 0; i < w->inv->n && n < want; i++) {
		if (is_of(w, i, e)) {
			picks[i] = true;
			n++;
		}
	}
	if (e->devices == DEVICES_COUNT && want > have)
		return note_entry(w, e, err,
			"requested %" PRIu32 " devices to be replicated, but only %" PRIu32
			" devices available",
			want, have);
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

static int share(struct work *w, uint32_t at, bool *picks, struct error *err)
{
	const struct replicated *e = &w->config->sharing.entries[at];
	char name[RESOURCE_NAME_MAX], other[RESOURCE_NAME_MAX];
	struct draft *d = NULL;
	bool told = false;

	memset(picks, 0, w->inv->n * sizeof(*picks));
	if (target_name(name, w->config, e, err) < 0 || pick(w, e, picks, err) < 0)
		return -1;
	for (uint32_t i = 0; i < w->inv->n; i++) {
		if (!picks[i])
			continue;
		if (!d && draft_get(&d, w, name, e->name, err) < 0)
			return -1;
		if (d->replicas[i] < e->replicas)
			d->replicas[i] = e->replicas;
		w->shared[i] = true;
		if (w->by_entry[i] && !told) {
			if (target_name(other, w->config,
				    &w->config->sharing.entries[w->by_entry[i] - 1], err) < 0)
				return -1;
			told = strcmp(name, other) != 0;
			if (told &&
				note_entry(w, e, err,
					"GPU %" PRIu32 " is offered twice, as '%s' and as '%s'",
					w->inv->gpus[i].index, other, name) < 0)
				return -1;
		}
		w->by_entry[i] = at + 1;
	}
	return 0;
}

static int share_all(struct work *w, struct error *err)
{
	const struct sharing *s = &w->config->sharing;
	CLEANUP(freep) bool *picks = calloc(w->inv->n ? w->inv->n : 1, sizeof(*picks));

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
	struct draft *d;

	for (uint32_t i = 0; i < w->inv->n; i++) {
		if (!w->names[i][0] || w->shared[i])
			continue;
		if (draft_get(&d, w, w->names[i], w->names[i], err) < 0)
			return -1;
		d->plain[i] = true;
	}
	return 0;
}

static int add_device(struct resource *r, const struct inventory *inv, uint32_t gpu,
	uint32_t replica, bool plain, struct error *err)
{
	struct offer_device *d = &r->devices[r->n_devices++];
	const char *uuid = inv->gpus[gpu].uuid;

	d->gpu = gpu;
	d->replica = replica;
	if (plain)
		(void)snprintf(d->id, sizeof(d->id), "%s", uuid);
	else if (!device_id_make(d->id, sizeof(d->id), uuid, replica))
		return error_set(err, ERR_LIMIT, "device ID of '%s' is too long", uuid);
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
	for (uint32_t i = 0; i < w->inv->n; i++) {
		n += (uint64_t)d->plain[i] + d->replicas[i];
		if (d->replicas[i]) {
			r->strategy = s->strategy;
			r->fail_requests_greater_than_one = s->fail_requests_greater_than_one;
		}
		if (d->replicas[i] > r->replicas)
			r->replicas = d->replicas[i];
	}
	*total += n;
	if (*total > OFFER_DEVICES_MAX)
		return error_set(err, ERR_LIMIT,
			"resource '%s': %" PRIu64 " devices make more than %d on this node",
			r->name, n, OFFER_DEVICES_MAX);
	r->devices = calloc(n ? n : 1, sizeof(*r->devices));
	if (!r->devices)
		return error_nomem(err);
	for (uint32_t i = 0; i < w->inv->n; i++) {
		if (d->plain[i] && add_device(r, w->inv, i, 0, /* plain= */ true, err) < 0)
			return -1;
		for (uint32_t k = 0; k < d->replicas[i]; k++)
			if (add_device(r, w->inv, i, k, /* plain= */ false, err) < 0)
				return -1;
	}
	return resource_build_index(r, err);
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
	size_t room = inv->n ? inv->n : 1;

	w.offer = calloc(1, sizeof(*w.offer));
	w.names = calloc(room, sizeof(*w.names));
	w.shared = calloc(room, sizeof(*w.shared));
	w.by_entry = calloc(room, sizeof(*w.by_entry));
	w.drafts = calloc(room + config->sharing.n_entries, sizeof(*w.drafts));
	if (!w.offer || !w.names || !w.shared || !w.by_entry || !w.drafts)
		return error_nomem(err);
	if (name_gpus(&w, err) < 0 || share_all(&w, err) < 0 || keep_plain(&w, err) < 0 ||
		finish_all(&w, err) < 0)
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
