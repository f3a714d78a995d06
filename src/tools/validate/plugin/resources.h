/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which GPU resources a node offers, as an agent of ours tells it or the kubelet. Names are what
 * they are: a renamed resource counts like any other. Thread: main; blocks up to the time-outs.
 */
#include "lib/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OFFERS_MAX     256
#define OFFER_NAME_MAX 128

struct offered_resource {
	char name[OFFER_NAME_MAX];
	char state[64]; /* "registered"; of the agent only, else "" */
	char reason[192];
	uint64_t devices, healthy; /* slices */
};

struct offers {
	struct offered_resource v[OFFERS_MAX];
	size_t n;
};

/* Reads the answer of the agent to /v1/status. */
int offers_read_status(struct offers *ret, const char *json, size_t len,
	struct error *err) MUST_USE;

/* Asks the agent. ERR_UNAVAILABLE: none is there. */
int offers_of_agent(struct offers *ret, const char *run_dir, struct error *err) MUST_USE;

/*
 * Asks the kubelet's PodResources socket for what can be allocated. Listed are resources of
 * nvidia.com, those of @wanted, and all whose devices have a GPU's or a MIG device's UUID as ID.
 * The kubelet lists healthy devices only.
 */
int offers_of_kubelet(struct offers *ret, const char *kubelet_dir,
	bool (*wanted)(void *arg, const char *name), void *arg, struct error *err) MUST_USE;
