/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a node can offer before sharing: whole GPUs and MIG devices, each with the resource that patterns
 * and the MIG strategy give it. For the parts of the offer and the labels only.
 * Thread: any (pure).
 */
#include "model/offer/offer.h"

struct offer_candidate {
	uint32_t gpu, mig;            /* as in struct offer_device */
	uint32_t why;                 /* as in struct offer_device */
	const char *uuid;             /* borrowed from the inventory */
	char name[RESOURCE_NAME_MAX]; /* resource before sharing */
};

struct offer_candidates {
	struct offer_candidate *v; /* by GPU, then MIG device */
	uint32_t n;
};

/* The caller zeroes *ret before, and frees the array .v with free(). A note reports each device that is
 * left out or unavailable. */
int offer_candidates_make(struct offer_candidates *ret, const struct inventory *inv,
	const struct config *config, struct strv *notes, struct error *err) MUST_USE;

#define OFFER_CANDIDATE_TEXT_MAX 48

/* "GPU 0", "MIG device 0:1". */
void offer_candidate_text(const struct offer_candidate *candidate, const struct inventory *inv,
	char ret[OFFER_CANDIDATE_TEXT_MAX]);

/* --- the `devices` lists of the config --- */

/* Whether @ref is an index: "0" is a GPU by NVML's index, "0:1" one of its MIG devices. Other texts are
 * UUIDs. */
bool offer_ref_is_index(const char *ref);

/* Position of the candidate of the resource @name (before sharing) that @ref refers to; candidates->n:
 * none. An index refers to a gone GPU only if no other GPU has that index. */
uint32_t offer_find_candidate(const struct offer_candidates *candidates,
	const struct inventory *inv, const char *name, const char *ref);
