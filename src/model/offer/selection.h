/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which devices each sharing entry has, for offer.c and the labels. Entries see the original devices and not
 * each other's result, but for two things: what is cut into slices is left so, and what entries of MPS have
 * picked is not time-sliced too. So a count of a time-slicing entry counts what these leave.
 * Thread: any (pure).
 */
#include "model/offer/candidates.h"

struct offer_selection {
	const struct offer_candidates *candidates;
	const struct inventory *inv;
	const struct config *config;
	struct strv *notes; /* what is missing, or left to others; NULL: not told */
	const bool *sliced; /* [units->n]; NULL: nothing is */
	bool *mps; /* [units->n] zeroed before the first entry: picked by an entry of MPS */
};

/*
 * Sets in @picks [units->n] the units that the entry at position @at of the config has, and clears the others.
 * Entries in their order.
 */
int offer_select_entry(struct offer_selection *p, size_t at, bool *picks,
	struct error *err) MUST_USE;

/* A note about a sharing entry, with its line where it has one. @notes may be NULL. */
int offer_note_entry(struct strv *notes, const struct replicated *e, struct error *err,
	const char *fmt, ...) PRINTF(4, 5) MUST_USE;
