/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A set of labels under construction, shared by labels.c and labels/gpus.c. Private to them.
 *
 * Like a buf, a set records the first lack of memory and then does nothing more. So a row of labels needs
 * one check at its end. A text that cannot become a label is left out with a note. So one odd driver text
 * does not affect the other labels.
 * Thread: owner's.
 */
#include "model/labels/labels.h"

#define LABEL_RESOURCE "nvidia.com/gpu" /* default name of whole GPUs */

struct label_set {
	struct labels *labels;
	size_t room;        /* of .labels->v */
	struct strv *notes; /* borrowed; may be NULL */
	bool failed;        /* no memory */
};

/* Sets PREFIX.SUFFIX to the formatted text. An existing key gets the new value. */
void label_set_add(struct label_set *s, const char *prefix, const char *suffix, const char *fmt,
	...) PRINTF(4, 5);

/* Sets PREFIX.SUFFIX to @text in legal form, followed by @end. A text that is too long is truncated before
 * @end, because programs look for the end ("-SHARED"). A note reports the truncation. */
void label_set_add_text(struct label_set *s, const char *prefix, const char *suffix,
	const char *text, const char *end);

/* Adds a line to .notes, cut at ERROR_MSG_MAX - 1 bytes. Does nothing without .notes. */
void label_set_add_note(struct label_set *s, const char *fmt, ...) PRINTF(2, 3);

/* NVIDIA's sanitizing, in place: removes characters outside [A-Za-z0-9_. -], replaces each inner run of
 * spaces by one '-', and removes spaces at both ends. */
void label_sanitise(char *text);

/* Adds the labels of the GPUs and MIG devices of each resource (reference: device-plugin, 10.3, 10.4). */
void labels_of_gpus(struct label_set *s, const struct inventory *inv,
	const struct config *config);
