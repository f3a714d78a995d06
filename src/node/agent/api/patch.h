/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What to PATCH onto our Node: pure decisions, from the Node as it is and what we want.
 *
 * Labels go by a JSON merge patch, and the keys that are ours stand in an annotation beside them.
 * Server-side apply would keep that record for us, but it takes every key by force from whoever
 * applied it before, and adds its own record of fields to each Node; a merge patch touches what it
 * names and nothing else, and people can read our record with kubectl.
 * Thread: any.
 */
#include "model/labels/labels.h"

#include <jansson.h>

#define LABEL_RECORD    "gpuslice.io/labels" /* annotation: our keys, sorted, with commas */
#define LABEL_TIMESTAMP "nvidia.com/gfd.timestamp"

/*
 * The merge patch that gives a Node with @labels (object or NULL) and @record (the annotation or
 * NULL) the labels of @desired: a new reference, or NULL if it has them already. What the record names
 * and @desired has not is removed, if it is in a label domain of ours and not @keep; labels that we
 * did not write are left alone. A timestamp that the Node has stays while nothing else changes.
 * < 0: no memory.
 */
int label_patch(json_t **ret, const struct labels *desired, const char *keep,
	const json_t *labels, const char *record, struct error *err) MUST_USE;

/*
 * The JSON patch that takes the taints with @key from @taints (array or NULL), and fails on the
 * server if they are other ones by then; NULL: there is none with that key.
 */
int taint_patch(json_t **ret, const json_t *taints, const char *key,
	struct error *err) MUST_USE;

/* Whether @taints (array or NULL) has one with @key. */
bool taint_is(const json_t *taints, const char *key);

/* Whether @have (object of strings or NULL) says what @desired says, but for the timestamp. */
bool labels_same(const struct labels *desired, const json_t *have);

/* @desired as an object, with the timestamp of @have if that is all that differs. NULL: no memory. */
json_t *labels_json(const struct labels *desired, const json_t *have);
