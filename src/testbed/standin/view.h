/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The stand-in's state as JSON, in the API server's form, so that jq filters written for kubectl work. Data
 * without a place in Kubernetes (devices of a pod, holders of a device) is under "gpuslice". Thread: loop.
 */
#include "testbed/standin/standin.h"

#include <jansson.h>

/* A v1 List of pods; a filter that is NULL selects all. Returns NULL: out of memory. */
json_t *view_pods(struct standin *s, const char *namespace_, const char *name);
json_t *view_deployments(struct standin *s, const char *namespace_, const char *name);
json_t *view_config_maps(struct standin *s, const char *namespace_, const char *name);
json_t *view_nodes(struct standin *s);

/*
 * {"items": [{name, capacity, allocatable, granted, requested, connected, endpoint, preferredAllocation,
 * devices}], "counts": {...}}
 */
json_t *view_resources(struct standin *s);
