/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The stand-in's state as JSON, in the shape that the API server gives it, so that jq filters
 * written for kubectl work; what Kubernetes has no place for (devices of a pod, holders of a
 * device) stands under "gpuslice".
 * Thread: loop.
 */
#include "testbed/standin/standin.h"

#include <jansson.h>

/* A v1 List of pods; NULL means all for each of the filters. NULL: out of memory. */
json_t *view_pods(struct standin *s, const char *namespace_, const char *name);
json_t *view_deployments(struct standin *s, const char *namespace_, const char *name);
json_t *view_config_maps(struct standin *s, const char *namespace_, const char *name);
json_t *view_nodes(struct standin *s);

/* {"items": [{name, capacity, allocatable, granted, requested, connected, endpoint, devices}]} */
json_t *view_resources(struct standin *s);
