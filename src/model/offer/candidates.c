/* SPDX-License-Identifier: Apache-2.0 */
#include "model/offer/candidates.h"

#include "lib/base/parse.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct candidates_work {
	const struct inventory *inv;
	const struct config *config;
	struct strv *notes;
	struct offer_candidates *candidates; /* room for every GPU and MIG device */
};

/* Adds each text once, since many MIG devices may share a text. *ret_why (may be NULL): position of the
 * note + 1. */
static int add_candidate_note(struct candidates_work *w, uint32_t *ret_why, struct error *err,
	const char *fmt, ...) PRINTF(4, 5) MUST_USE;

static int add_candidate_note(struct candidates_work *w, uint32_t *ret_why, struct error *err,
	const char *fmt, ...)
{
	char text[ERROR_MSG_MAX];
	va_list ap;
	size_t at = 0;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap); /* truncates a long note */
	va_end(ap);
	while (at < w->notes->n && strcmp(w->notes->v[at], text) != 0)
		at++;
	if (at == w->notes->n && strv_add(w->notes, text, err) < 0)
		return -1;
	if (ret_why)
		*ret_why = (uint32_t)at + 1;
	return 0;
}

void offer_candidate_text(const struct offer_candidate *candidate, const struct inventory *inv,
	char ret[OFFER_CANDIDATE_TEXT_MAX])
{
	uint32_t gpu = inv->gpus[candidate->gpu].index;

	if (candidate->mig == OFFER_WHOLE)
		(void)snprintf(ret, OFFER_CANDIDATE_TEXT_MAX, "GPU %" PRIu32, gpu);
	else
		(void)snprintf(ret, OFFER_CANDIDATE_TEXT_MAX, "MIG device %" PRIu32 ":%" PRIu32,
			gpu, inv->mig[candidate->mig].index);
}

static bool is_display(const struct gpu *g)
{
	return strcmp(g->name, "DGX Display") == 0 ||
	       strcmp(g->name, "NVIDIA DGX Display") == 0;
}

/* Of two GPUs with one UUID the later one counts, as in NVIDIA's device map. */
static bool has_later_twin(const struct inventory *inv, uint32_t i)
{
	for (uint32_t j = i + 1; j < inv->n; j++)
		if (strcmp(inv->gpus[i].uuid, inv->gpus[j].uuid) == 0)
			return true;
	return false;
}

static bool mig_has_later_twin(const struct inventory *inv, uint32_t i)
{
	for (uint32_t j = i + 1; j < inv->n_mig; j++)
		if (strcmp(inv->mig[i].uuid, inv->mig[j].uuid) == 0)
			return true;
	return false;
}

bool offer_can_have(const struct inventory *inv, uint32_t i)
{
	const struct gpu *g = &inv->gpus[i];

	return g->uuid[0] && !is_display(g) && !has_later_twin(inv, i);
}

static const char *by_pattern(const struct resource_pattern *patterns, size_t n,
	const char *text)
{
	for (size_t i = 0; i < n; i++)
		if (pattern_match(patterns[i].pattern, text))
			return patterns[i].name;
	return NULL;
}

const char *offer_original_name(const struct config *config, const struct gpu *g)
{
	const char *name = by_pattern(config->gpu_patterns, config->n_gpu_patterns, g->name);

	return name ? name : OFFER_GPU; /* the built-in `*` */
}

/* Whether @profile is a compute instance smaller than its GPU instance. NVIDIA's built-in patterns of
 * strategy mixed have no name for such profiles. */
static bool is_part_of_instance(const char *profile)
{
	size_t digits = strspn(profile, "0123456789");

	return profile[digits] == 'c' && profile[digits + 1] == '.';
}

/* False: strategy and patterns give the MIG device no resource. */
static bool mig_name(char *ret, const struct config *config, const struct gpu_mig *m)
{
	const char *name = by_pattern(config->mig_patterns, config->n_mig_patterns, m->profile);

	if (!name && config->mig_strategy == MIG_STRATEGY_SINGLE)
		name = OFFER_GPU;
	if (name) {
		(void)snprintf(ret, RESOURCE_NAME_MAX, "%s", name);
		return true;
	}
	if (!m->profile[0] || is_part_of_instance(m->profile))
		return false;
	(void)snprintf(ret, RESOURCE_NAME_MAX, OFFER_MIG "%s", m->profile);
	for (char *p = ret; *p; p++)
		if (*p == '+' || *p == ',')
			*p = '.';
	return true;
}

static struct offer_candidate *add_offer_candidate(struct candidates_work *w, uint32_t gpu,
	uint32_t mig)
{
	struct offer_candidate *candidate = &w->candidates->v[w->candidates->n++];
	const struct inventory *inv = w->inv;

	*candidate = (struct offer_candidate){ .gpu = gpu,
		.mig = mig,
		.uuid = mig == OFFER_WHOLE ? inv->gpus[gpu].uuid : inv->mig[mig].uuid };
	return candidate;
}

static struct offer_candidate *add_whole_gpu_candidate(struct candidates_work *w, uint32_t i)
{
	struct offer_candidate *candidate = add_offer_candidate(w, i, OFFER_WHOLE);

	(void)snprintf(candidate->name, sizeof(candidate->name), "%s",
		offer_original_name(w->config, &w->inv->gpus[i]));
	return candidate;
}

static int add_mig(struct candidates_work *w, uint32_t i, struct error *err)
{
	const struct gpu_mig *m = &w->inv->mig[i];
	const struct gpu *g = &w->inv->gpus[m->gpu];
	char name[RESOURCE_NAME_MAX];
	bool named;

	if (!m->uuid[0])
		return add_candidate_note(w, NULL, err,
			"MIG device %" PRIu32 ":%" PRIu32
			": not offered, its UUID is unknown%s%s",
			g->index, m->index, m->reason[0] ? ": " : "", m->reason);
	if (mig_has_later_twin(w->inv, i))
		return add_candidate_note(w, NULL, err,
			"MIG device %" PRIu32 ":%" PRIu32
			" (%s): not offered, another MIG device has the same UUID",
			g->index, m->index, m->uuid);
	named = mig_name(name, w->config, m);
	if (!named && !m->profile[0])
		return add_candidate_note(w, NULL, err,
			"MIG device %" PRIu32 ":%" PRIu32
			" (%s): not offered, its profile is unknown%s%s",
			g->index, m->index, m->uuid, m->reason[0] ? ": " : "", m->reason);
	if (!named)
		return add_candidate_note(w, NULL, err,
			"GPU %" PRIu32
			" (%s): its MIG devices '%s' are not offered, no resource "
			"pattern matches the profile",
			g->index, g->uuid, m->profile);
	memcpy(add_offer_candidate(w, m->gpu, i)->name, name, sizeof(name));
	return 0;
}

/* A GPU with MIG enabled and no known MIG device. */
static int add_empty(struct candidates_work *w, uint32_t i, struct error *err)
{
	const struct gpu *g = &w->inv->gpus[i];
	bool single = w->config->mig_strategy == MIG_STRATEGY_SINGLE;
	bool sick = g->fault != GPU_OK;

	if (g->changing)
		return 0;
	return add_candidate_note(w, single ? &add_whole_gpu_candidate(w, i)->why : NULL, err,
		"GPU %" PRIu32 " (%s): %s, MIG is on and %s%s%s", g->index, g->uuid,
		single ? "unhealthy" : "not offered",
		sick ? "its MIG devices are not known" : "there are no MIG devices",
		sick && g->reason[0] ? ": " : "", sick ? g->reason : "");
}

static int add_mig_candidates(struct candidates_work *w, uint32_t gpu, struct error *err)
{
	bool any = false;

	for (uint32_t i = 0; i < w->inv->n_mig; i++) {
		if (w->inv->mig[i].gpu != gpu)
			continue;
		any = true;
		if (add_mig(w, i, err) < 0)
			return -1;
	}
	return any ? 0 : add_empty(w, gpu, err);
}

static int add_gpu_candidates(struct candidates_work *w, uint32_t i, struct error *err)
{
	const struct gpu *g = &w->inv->gpus[i];

	if (is_display(g))
		return 0;
	if (!g->uuid[0])
		return add_candidate_note(w, NULL, err,
			"GPU %" PRIu32 ": not offered, its UUID is unknown%s%s", g->index,
			g->reason[0] ? ": " : "", g->reason);
	if (has_later_twin(w->inv, i))
		return add_candidate_note(w, NULL, err,
			"GPU %" PRIu32 " (%s): not offered, another GPU has the same UUID",
			g->index, g->uuid);
	if (g->mig_enabled && w->config->mig_strategy != MIG_STRATEGY_NONE)
		return add_mig_candidates(w, i, err);
	(void)add_whole_gpu_candidate(w, i);
	return 0;
}

/* --- strategy single: one type of MIG device in a resource --- */

/* The MIG device of candidate @i if its type is known and the candidate is available; else NULL.
 * Temporarily unreadable data is a matter of health. It must not change which type serves. */
static const struct gpu_mig *typed_mig(const struct candidates_work *w, uint32_t i)
{
	const struct offer_candidate *candidate = &w->candidates->v[i];

	if (candidate->mig == OFFER_WHOLE || candidate->why ||
		!w->inv->mig[candidate->mig].profile[0])
		return NULL;
	return &w->inv->mig[candidate->mig];
}

static bool is_beside(const struct candidates_work *w, uint32_t first, uint32_t i)
{
	return strcmp(w->candidates->v[first].name, w->candidates->v[i].name) == 0;
}

/* The first MIG device of the most frequent type in the resource of @first; NULL: none. */
static const struct gpu_mig *find_leading_mig_type(const struct candidates_work *w,
	uint32_t first)
{
	const struct gpu_mig *best = NULL;
	uint32_t max = 0;

	for (uint32_t i = first; i < w->candidates->n; i++) {
		const struct gpu_mig *m = typed_mig(w, i), *o;
		uint32_t n = 0;

		if (!m || !is_beside(w, first, i) || (best && gpu_mig_equal_capacity(m, best)))
			continue;
		for (uint32_t k = first; k < w->candidates->n; k++) {
			o = typed_mig(w, k);
			n += o && is_beside(w, first, k) && gpu_mig_equal_capacity(m, o);
		}
		if (n > max) {
			max = n;
			best = m;
		}
	}
	return best;
}

static int set_candidate_unavailable(struct candidates_work *w,
	struct offer_candidate *candidate, const struct gpu_mig *one, struct error *err)
{
	const struct gpu *g = &w->inv->gpus[candidate->gpu];
	const struct gpu_mig *m;

	if (candidate->mig == OFFER_WHOLE)
		return add_candidate_note(w, &candidate->why, err,
			"GPU %" PRIu32 " (%s): unhealthy, MIG is off there, and with strategy "
			"single '%s' is the MIG devices '%s' of this node",
			g->index, g->uuid, candidate->name, one->profile);
	m = &w->inv->mig[candidate->mig];
	return add_candidate_note(w, &candidate->why, err,
		"GPU %" PRIu32 " (%s): its MIG devices '%s' (%" PRIu32 " SMs, %" PRIu64
		" MiB) are unhealthy, with strategy single '%s' is one type of MIG device, and most "
		"are '%s' (%" PRIu32 " SMs, %" PRIu64 " MiB)",
		g->index, g->uuid, m->profile, m->multiprocessors, m->memory_mib,
		candidate->name, one->profile, one->multiprocessors, one->memory_mib);
}

static int settle_single(struct candidates_work *w, struct error *err)
{
	for (uint32_t first = 0; first < w->candidates->n; first++) {
		const struct gpu_mig *one = NULL;
		uint32_t earlier = 0;

		while (earlier < first && !is_beside(w, earlier, first))
			earlier++;
		if (earlier == first)
			one = find_leading_mig_type(w, first);
		for (uint32_t i = first; one && i < w->candidates->n; i++) {
			struct offer_candidate *candidate = &w->candidates->v[i];
			const struct gpu_mig *m = typed_mig(w, i);

			if (candidate->why || !is_beside(w, first, i) ||
				(candidate->mig != OFFER_WHOLE &&
					(!m || gpu_mig_equal_capacity(m, one))))
				continue;
			if (set_candidate_unavailable(w, candidate, one, err) < 0)
				return -1;
		}
	}
	return 0;
}

int offer_candidates_make(struct offer_candidates *ret, const struct inventory *inv,
	const struct config *config, struct strv *notes, struct error *err)
{
	struct candidates_work w = { .inv = inv,
		.config = config,
		.notes = notes,
		.candidates = ret };

	ret->v = calloc((size_t)inv->n + inv->n_mig + 1, sizeof(*ret->v));
	if (!ret->v)
		return error_nomem(err);
	for (uint32_t i = 0; i < inv->n; i++)
		if (add_gpu_candidates(&w, i, err) < 0)
			return -1;
	return config->mig_strategy == MIG_STRATEGY_SINGLE ? settle_single(&w, err) : 0;
}

/* --- patterns of names --- */

/* Greedy match with one fallback position. A star first matches nothing, then one character more each time
 * the rest does not match. Only the last star needs a retry, so the cost is at most |pattern| x |text|. */
bool pattern_match(const char *pattern, const char *text)
{
	const char *star = NULL, *retry = NULL;

	while (*text) {
		if (*pattern == '*') {
			star = pattern++;
			retry = text;
		} else if (*pattern == *text) {
			pattern++;
			text++;
		} else if (star) {
			pattern = star + 1;
			text = ++retry;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return !*pattern;
}

/* --- the `devices` lists of the config --- */

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

bool offer_ref_is_index(const char *ref)
{
	uint32_t gpu, mig;

	return parse_index(ref, &gpu, &mig);
}

/* Whether @ref is the UUID of @m, or its name with old drivers: "MIG-<UUID of the GPU>/<gi>/<ci>". */
static bool offer_mig_is_called(const struct inventory *inv, const struct gpu_mig *m,
	const char *ref)
{
	char legacy[GPU_UUID_MAX + 32];

	if (strcmp(m->uuid, ref) == 0)
		return true;
	(void)snprintf(legacy, sizeof(legacy), "MIG-%s/%" PRIu32 "/%" PRIu32,
		inv->gpus[m->gpu].uuid, m->gi, m->ci);
	return strcmp(legacy, ref) == 0;
}

static bool is_called(const struct offer_candidate *candidate, const struct inventory *inv,
	const char *ref)
{
	if (candidate->mig == OFFER_WHOLE)
		return strcmp(candidate->uuid, ref) == 0;
	return offer_mig_is_called(inv, &inv->mig[candidate->mig], ref);
}

static uint32_t at_index(const struct offer_candidates *candidates, const struct inventory *inv,
	const char *name, uint32_t gpu, uint32_t mig)
{
	uint32_t found = candidates->n;

	for (uint32_t i = 0; i < candidates->n; i++) {
		const struct offer_candidate *candidate = &candidates->v[i];
		const struct gpu *g = &inv->gpus[candidate->gpu];
		uint32_t index = candidate->mig == OFFER_WHOLE ? OFFER_WHOLE
							       : inv->mig[candidate->mig].index;

		if (g->index != gpu || index != mig || strcmp(candidate->name, name) != 0)
			continue;
		if (g->fault != GPU_FAULT_GONE)
			return i;
		found = i;
	}
	return found;
}

uint32_t offer_find_candidate(const struct offer_candidates *candidates,
	const struct inventory *inv, const char *name, const char *ref)
{
	uint32_t gpu, mig, i = 0;

	if (parse_index(ref, &gpu, &mig))
		return at_index(candidates, inv, name, gpu, mig);
	while (i < candidates->n && (strcmp(candidates->v[i].name, name) != 0 ||
					    !is_called(&candidates->v[i], inv, ref)))
		i++;
	return i;
}
