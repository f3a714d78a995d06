/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the MIG manager writes onto our Node, and what it reads of pods: pure decisions.
 *
 * GPU clients are DaemonSets that choose their nodes by a deploy label. While a GPU changes its mode
 * or loses instances the label says "paused-for-mig-change", which takes their pods from the node.
 * The Node itself says which are paused, so that an agent that starts again puts back what another
 * has paused. Values other than "true" stand in an annotation for that time.
 * Thread: any.
 */
#include "lib/base/error.h"

#include <jansson.h>
#include <stdbool.h>

#define MIG_LABEL       "nvidia.com/mig.config"
#define MIG_STATE_LABEL "nvidia.com/mig.config.state"
#define MIG_REASON      "gpuslice.io/mig.config.reason"   /* annotation */
#define MIG_REBOOTED    "gpuslice.io/mig.config.rebooted" /* annotation: for which wish */
#define MIG_PAUSED_OLD  "gpuslice.io/mig.paused"          /* annotation: "key=value,..." */
#define MIG_PAUSED      "paused-for-mig-change"

enum mig_clients { MIG_CLIENTS_UNCHANGED, MIG_CLIENTS_PAUSE, MIG_CLIENTS_RUN };

/* What the Node is to say. */
struct mig_node_labels {
	const char *state;    /* NULL: as it is; "": no such label */
	const char *reason;   /* NULL: as it is; "": no such annotation */
	const char *rebooted; /* the same */
	enum mig_clients clients;
	const char *const *own; /* labels that our own pod needs: never paused; ends with NULL;
				   may be NULL */
};

/* What it says now. */
struct mig_node_labels_actual {
	const json_t *labels;                       /* may be NULL */
	const char *reason, *rebooted, *old_paused; /* annotations; may be NULL */
};

/* The merge patch that makes it so: a new reference; NULL: nothing differs. < 0: no memory. */
int mig_node_labels_patch(json_t **ret, const struct mig_node_labels *desired,
	const struct mig_node_labels_actual *now, struct error *err) MUST_USE;

/* Whether any client could be paused, or is. */
bool mig_clients_any(const json_t *labels, const char *const *own);

/*
 * The first pod of @items (of a PodList) whose node selector has a label that is paused, unless it
 * has ended: "namespace/name" in @ret. False: there is none, all are gone.
 */
bool mig_clients_wait(const json_t *labels, const json_t *items, char *ret, size_t cap);

/* The deploy labels in the node selector of the pod @namespace_/@name of @items. The array has room
 * for MIG_CLIENTS_MAX and NULL. */
#define MIG_CLIENTS_MAX 6
void mig_clients_own(const json_t *items, const char *namespace_, const char *name,
	const char *ret[MIG_CLIENTS_MAX + 1]);

/* Whether the pod is one of the GPU operator's validators, which are to run again. */
bool mig_validator(const json_t *pod);
