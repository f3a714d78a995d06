/* SPDX-License-Identifier: Apache-2.0 */
#include "model/offer/selection.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "model/offer/candidates.h"

int offer_note_entry(struct strv *notes, const struct replicated *e, struct error *err,
	const char *fmt, ...)
{
	char text[ERROR_MSG_MAX / 2], line[24] = "", all[ERROR_MSG_MAX];
	va_list ap;

	if (!notes)
		return 0;
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap); /* truncates a long note */
	va_end(ap);
	if (e->pos.line)
		(void)snprintf(line, sizeof(line), " (line %" PRIu32 ")", e->pos.line);
	(void)snprintf(all, sizeof(all), "sharing of '%s'%s: %s", e->name, line, text);
	return strv_add(notes, all, err);
}

static bool is_candidate_of_entry(const struct offer_selection *selection, uint32_t i,
	const struct replicated *e)
{
	return strcmp(selection->candidates->v[i].name, e->name) == 0;
}

/* Whether MPS has the candidate, so that @e cannot have it. */
static bool is_candidate_used_by_mps(const struct offer_selection *selection, uint32_t i,
	const struct replicated *e)
{
	return e->strategy != SHARING_MPS && selection->mps[i];
}

static int pick_list(const struct offer_selection *selection, const struct replicated *e,
	bool *picks, struct error *err)
{
	for (size_t k = 0; k < e->list.n; k++) {
		const char *ref = e->list.v[k];
		uint32_t i = offer_find_candidate(selection->candidates, selection->inv,
			e->name, ref);

		if (i < selection->candidates->n)
			picks[i] = true;
		else if (offer_note_entry(selection->notes, e, err, "no matching device %s: %s",
				 offer_ref_is_index(ref) ? "at index" : "with UUID", ref) < 0)
			return -1;
	}
	return 0;
}

/* Picks the first devices of the entry, available ones first. */
static int pick_count(const struct offer_selection *selection, const struct replicated *e,
	bool *picks, struct error *err)
{
	uint32_t n = 0;

	for (int bad = 0; bad < 2; bad++) {
		for (uint32_t i = 0; i < selection->candidates->n && n < e->count; i++) {
			if (is_candidate_of_entry(selection, i, e) &&
				!is_candidate_used_by_mps(selection, i, e) &&
				!selection->candidates->v[i].why == !bad) {
				picks[i] = true;
				n++;
			}
		}
	}
	if (n == e->count || sharing_leaves_nothing(&selection->config->sharing, e))
		return 0;
	return offer_note_entry(selection->notes, e, err,
		"requested %" PRIu32 " devices to be replicated, but only %" PRIu32
		" devices available",
		e->count, n);
}

/* Removes devices with slices from @picks, with a note. */
static int deselect_sliced(const struct offer_selection *selection, const struct replicated *e,
	bool *picks, struct error *err)
{
	char unit[OFFER_CANDIDATE_TEXT_MAX];

	for (uint32_t i = 0; selection->sliced && i < selection->candidates->n; i++) {
		if (!picks[i] || !selection->sliced[i])
			continue;
		picks[i] = false;
		offer_candidate_text(&selection->candidates->v[i], selection->inv, unit);
		if (offer_note_entry(selection->notes, e, err,
			    "%s is cut into slices, and is left so", unit) < 0)
			return -1;
	}
	return 0;
}

/* Removes devices that MPS has from @picks, with a note. No note if MPS has all devices of the entry on
 * every node: the reader of the config already warned. */
static int deselect_mps(const struct offer_selection *selection, const struct replicated *e,
	bool *picks, struct error *err)
{
	char unit[OFFER_CANDIDATE_TEXT_MAX] = "", more[32] = "";
	uint32_t n = 0;

	for (uint32_t i = 0; i < selection->candidates->n; i++) {
		if (!picks[i] || !is_candidate_used_by_mps(selection, i, e))
			continue;
		picks[i] = false;
		if (n++ == 0)
			offer_candidate_text(&selection->candidates->v[i], selection->inv,
				unit);
	}
	if (!n || sharing_leaves_nothing(&selection->config->sharing, e))
		return 0;
	if (n > 1)
		(void)snprintf(more, sizeof(more), " and %" PRIu32 " more", n - 1);
	return offer_note_entry(selection->notes, e, err,
		"%s%s %s shared by sharing.mps, and not time-sliced too", unit, more,
		n > 1 ? "are" : "is");
}

static int select_entry_devices(const struct offer_selection *selection,
	const struct replicated *e, bool *picks, struct error *err)
{
	uint32_t have = 0;

	for (uint32_t i = 0; i < selection->candidates->n; i++)
		have += is_candidate_of_entry(selection, i, e);
	if (!have)
		return offer_note_entry(selection->notes, e, err,
			"this node has no such device");
	switch (e->devices) {
	case DEVICES_LIST:
		return pick_list(selection, e, picks, err);
	case DEVICES_COUNT:
		return pick_count(selection, e, picks, err);
	case DEVICES_ALL:
		break;
	}
	for (uint32_t i = 0; i < selection->candidates->n; i++)
		picks[i] = is_candidate_of_entry(selection, i, e);
	return 0;
}

int offer_select_entry(struct offer_selection *selection, size_t at, bool *picks,
	struct error *err)
{
	const struct replicated *e = &selection->config->sharing.entries[at];

	memset(picks, 0, selection->candidates->n * sizeof(*picks));
	if (select_entry_devices(selection, e, picks, err) < 0 ||
		deselect_sliced(selection, e, picks, err) < 0 ||
		deselect_mps(selection, e, picks, err) < 0)
		return -1;
	for (uint32_t i = 0; e->strategy == SHARING_MPS && i < selection->candidates->n; i++)
		selection->mps[i] = selection->mps[i] || picks[i];
	return 0;
}
