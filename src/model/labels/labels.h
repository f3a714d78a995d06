/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The node labels of GPU feature discovery. They use the same inventory and config as the offer, so both
 * always agree.
 *
 * Deterministic: with several GPU models the first GPU by index represents the node. Values are always
 * legal: sanitized like NVIDIA's (reference: device-plugin, 10.6), then truncated to 63 characters without
 * a trailing '-', '_' or '.'. A note reports a truncated value. Each key is unique. Health has no
 * influence: an unhealthy GPU keeps its labels. A gone GPU keeps them until the node forgets that GPU
 * (model/node/node.h).
 *
 * The writer of the labels keeps the old timestamp while labels_equal() finds no other change. It keeps the
 * last labels while NVML is unavailable: a driver restart is no reason to move pods.
 * Thread: any (pure).
 */
#include "model/config/config.h"
#include "model/gpu/gpu.h"
#include "model/offer/offer.h"

#define LABEL_KEY_MAX   317 /* prefix 253, '/', name 63 */
#define LABEL_VALUE_MAX 63

struct label {
	char *key, *value;
};

struct labels {
	struct label *v; /* sorted by key */
	size_t n;
};

/* A vGPU guest's view of its host, from PCI config space (reference: device-plugin, 10.7). */
enum vgpu_state { VGPU_UNKNOWN, VGPU_ABSENT, VGPU_PRESENT };

/* Inputs of the labels other than GPUs and config. */
struct label_facts {
	const char *machine;  /* content of the machine-type file; NULL: unreadable */
	uint64_t timestamp_s; /* 0: no timestamp label */
	enum vgpu_state vgpu;
	char vgpu_host_version[16], vgpu_host_branch[16];
};

/* @inv may have no GPUs or no driver (""). Then only the timestamp and vGPU labels come out. @notes
 * collects one line for each finding (several models, truncated values, cliques that differ); may be NULL. */
int labels_new(struct labels **ret, const struct inventory *inv, const struct config *config,
	const struct label_facts *facts, struct strv *notes, struct error *err) MUST_USE;
struct labels *labels_free(struct labels *l); /* returns NULL */
DEFINE_CLEANUP(struct labels *, labels_free)

bool labels_equal(const struct labels *a, const struct labels *b); /* ignores the timestamp */
const char *labels_get(const struct labels *l, const char *key);   /* borrowed or NULL */
bool label_value_ok(const char *value); /* by Kubernetes' rules; "" is legal */
