/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The GPU resources that a node offers, from the agent of gpuslice or from the kubelet. Names have no
 * meaning here: a renamed resource counts like any other. Thread: main; blocks up to the time-outs.
 */
#include "lib/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OFFERS_MAX     256
#define OFFER_NAME_MAX 128

struct offered_resource {
	char name[OFFER_NAME_MAX];
	char state[64]; /* "registered"; from the agent only, else "" */
	char reason[192];
	uint64_t devices, healthy; /* advertised devices (replicas) */
};

struct offers {
	struct offered_resource v[OFFERS_MAX];
	size_t n;
};

/* Parses the agent's answer to /v1/status. */
int offers_read_status(struct offers *ret, const char *json, size_t len,
	struct error *err) MUST_USE;

/* Queries the agent. ERR_UNAVAILABLE: no agent answers. */
int offers_of_agent(struct offers *ret, const char *run_dir, struct error *err) MUST_USE;

/*
 * Queries the kubelet's PodResources socket for allocatable devices. Counts resources of nvidia.com,
 * resources that @wanted accepts, and devices whose ID begins with GPU- or MIG-. The kubelet lists
 * healthy devices only.
 */
int offers_of_kubelet(struct offers *ret, const char *kubelet_dir,
	bool (*wanted)(void *arg, const char *name), void *arg, struct error *err) MUST_USE;
