/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Kubernetes manifests, in one or more YAML documents, to objects: Pod, Deployment, ConfigMap,
 * Namespace, and List of them. What a real API server refuses is refused here with its words and
 * file:line:column before them; fields that the stand-in has no use for are not looked at.
 *
 * All or nothing: a manifest with one bad object gives none.
 * Thread: any.
 */
#include "testbed/standin/object.h"

#include <stddef.h>

#define MANIFEST_FILE_MAX       (3U << 20) /* bytes */
#define MANIFEST_OBJECTS_MAX    1000
#define MANIFEST_REPLICAS_MAX   100000
#define MANIFEST_CONTAINERS_MAX 64
#define MANIFEST_ENV_MAX        1000    /* variables of one container */
#define MANIFEST_QUANTITY_MAX   1000000 /* of one extended resource in one container */

struct manifest {
	struct object *objects;
	size_t n;
};

/* @name is what messages call the text. */
int manifest_parse(struct manifest **ret, const char *name, const char *text, size_t len,
	struct error *err) MUST_USE;

/* From a file; "-" is standard input. */
int manifest_load(struct manifest **ret, const char *path, struct error *err) MUST_USE;
struct manifest *manifest_free(struct manifest *m); /* returns NULL */
DEFINE_CLEANUP(struct manifest *, manifest_free)
