/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Decides what to PATCH onto the Node, from its present and its desired state. Pure.
 *
 * Labels go by a JSON merge patch. An annotation beside them lists the keys that the agent wrote. Server-side
 * apply would keep that record itself. However, it takes every key by force from whatever applied the key before,
 * and adds its own record of fields to each Node. A merge patch changes only what it names, and the operator can
 * read the annotation with kubectl.
 *
 * Thread: any.
 */
#include "model/labels/labels.h"

#include <jansson.h>

#define LABEL_RECORD    "gpuslice.io/labels" /* annotation: keys, sorted, with commas */
#define LABEL_TIMESTAMP "nvidia.com/gfd.timestamp"

/*
 * The merge patch that gives a Node with @labels (object or NULL) and @record (the annotation or NULL) the labels
 * of @desired. A new reference; NULL: the Node has them already.
 *
 * The patch removes a key of @record that @desired lacks, if the key is in a label domain of the agent and is not
 * @keep. Labels that the agent did not write stay. A timestamp on the Node stays while nothing else changes.
 *
 * < 0: no memory.
 */
int label_patch(json_t **ret, const struct labels *desired, const char *keep,
	const json_t *labels, const char *record, struct error *err) MUST_USE;

/*
 * The JSON patch that removes the taints with @key from @taints (array or NULL). NULL: there is none with that
 * key. The patch fails on the server if the Node's taints have changed by then.
 */
int taint_patch(json_t **ret, const json_t *taints, const char *key,
	struct error *err) MUST_USE;

/* Whether @taints (array or NULL) has one with @key. */
bool taint_is(const json_t *taints, const char *key);

/* Whether @have (object of strings or NULL) equals @desired, apart from the timestamp. */
bool labels_same(const struct labels *desired, const json_t *have);

/* @desired as an object, with the timestamp of @have if nothing else differs. NULL: no memory. */
json_t *labels_json(const struct labels *desired, const json_t *have);
