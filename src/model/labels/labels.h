/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The node labels of GPU feature discovery, from the same inventory and the same config as the
 * offer, so that the two never disagree.
 *
 * Deterministic: with several GPU models the first GPU by index speaks for the node. Values are
 * always legal label values: sanitised as NVIDIA does (10.6), then cut to 63 characters without a
 * trailing '-', '_' or '.'; what was cut is noted. Each key is there once. Health has no part in it:
 * a sick GPU keeps its labels, and one that is gone has them until it is forgotten (model/node/node.h).
 *
 * Who writes them keeps the old timestamp while labels_equal() says that nothing else changed, and
 * the last labels while NVML cannot be used: a driver that restarts is no reason to move pods.
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

/* A vGPU guest's view of its host, from PCI config space (10.7). */
enum vgpu_state { VGPU_UNKNOWN, VGPU_ABSENT, VGPU_PRESENT };

/* What the labels are made from besides GPUs and config. */
struct label_facts {
	const char *machine;  /* text of the machine-type file; NULL: unreadable */
	uint64_t timestamp_s; /* 0: no timestamp label */
	enum vgpu_state vgpu;
	char vgpu_host_version[16], vgpu_host_branch[16];
};

/*
 * @inv may have no GPUs or no driver (""): then only timestamp and vgpu labels come out. @notes
 * collects one line for each oddity (several models, cut values, cliques that differ); may be NULL.
 */
int labels_new(struct labels **ret, const struct inventory *inv, const struct config *config,
	const struct label_facts *facts, struct strv *notes, struct error *err) MUST_USE;
struct labels *labels_free(struct labels *l); /* returns NULL */
DEFINE_CLEANUP(struct labels *, labels_free)

bool labels_equal(const struct labels *a, const struct labels *b); /* all but the timestamp */
const char *labels_get(const struct labels *l, const char *key);   /* borrowed or NULL */
bool label_value_ok(const char *value);
