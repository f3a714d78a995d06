/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Kubernetes manifests, in one or more YAML documents, to objects: Pod, Deployment, ConfigMap, Namespace, and List
 * of them. The parser refuses what a real API server refuses, with the same words after file:line:column. The parser
 * ignores fields that the stand-in does not use. One invalid object makes the whole manifest fail. Thread: any.
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

/* @name is the name of the text in messages. */
int manifest_parse(struct manifest **ret, const char *name, const char *text, size_t len,
	struct error *err) MUST_USE;

/* From a file; "-" is standard input. */
int manifest_load(struct manifest **ret, const char *path, struct error *err) MUST_USE;
struct manifest *manifest_free(struct manifest *m); /* returns NULL */
DEFINE_CLEANUP(struct manifest *, manifest_free)
