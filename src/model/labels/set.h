/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Labels in the making: what labels.c and labels/gpus.c share, and nobody else includes.
 *
 * Like a buf, a set remembers the first lack of memory and does nothing after it, so that a row of
 * labels needs one check at its end. What cannot be a label is left out with a note, so that one
 * odd text of a driver does not cost the others.
 * Thread: whoever owns it.
 */
#include "model/labels/labels.h"

#define LABEL_RESOURCE "nvidia.com/gpu" /* what whole GPUs are by default */

struct label_set {
	struct labels *labels;
	size_t cap;
	struct strv *notes; /* borrowed; may be NULL */
	bool failed;        /* no memory */
};

/* Sets PREFIX.SUFFIX to the text; a key that is there already gets the new value. */
void label_set_add(struct label_set *s, const char *prefix, const char *suffix, const char *fmt,
	...) PRINTF(4, 5);

/*
 * Sets PREFIX.SUFFIX to @text made legal, with @end behind it. A text that is too long is cut
 * before @end, since programs look for the end ("-SHARED"), and that is noted.
 */
void label_set_add_text(struct label_set *s, const char *prefix, const char *suffix,
	const char *text, const char *end);

void label_set_add_note(struct label_set *s, const char *fmt, ...) PRINTF(2, 3);

/*
 * NVIDIA's own cleaning, in place: characters outside [A-Za-z0-9_. -] go, runs of blanks become
 * one '-', none at the ends.
 */
void label_sanitise(char *text);

/* What the labels say of the GPUs and MIG devices of each resource (10.3, 10.4). */
void labels_of_gpus(struct label_set *s, const struct inventory *inv,
	const struct config *config);
