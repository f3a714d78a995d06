/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which devices each sharing entry has; for offer.c and the labels. Entries see the original devices, not
 * the result of other entries. Two exceptions: devices with slices are never picked, and devices of MPS
 * entries are not time-sliced. So the count of a time-slicing entry counts the remaining devices.
 * Thread: any (pure).
 */
#include "model/offer/candidates.h"

struct offer_selection {
	const struct offer_candidates *candidates;
	const struct inventory *inv;
	const struct config *config;
	struct strv *notes; /* missing or excluded devices; NULL: no notes */
	const bool *sliced; /* [candidates->n]; NULL: none */
	/* [candidates->n] picked by an MPS entry; the caller zeroes it before the first entry */
	bool *mps;
};

/* Sets in @picks [candidates->n] the candidates that the entry at position @at of the config has, and
 * clears the others. Call for the entries in their order. */
int offer_select_entry(struct offer_selection *selection, size_t at, bool *picks,
	struct error *err) MUST_USE;

/* Adds a note about a sharing entry, with its line if known. @notes may be NULL. */
int offer_note_entry(struct strv *notes, const struct replicated *e, struct error *err,
	const char *fmt, ...) PRINTF(4, 5) MUST_USE;
