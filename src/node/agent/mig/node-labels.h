/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the MIG manager writes to the agent's Node, and what it reads of pods: pure decisions.
 *
 * GPU clients are DaemonSets that choose their nodes by a deploy label. While a GPU changes its mode or loses
 * instances, the label is "paused-for-mig-change", which removes their pods from the node. The Node itself shows
 * which clients are paused, so a restarted agent restores what an earlier agent has paused. An annotation keeps
 * label values other than "true" for that time.
 * Thread: any.
 */
#include "lib/base/error.h"

#include <jansson.h>
#include <stdbool.h>

#define MIG_LABEL       "nvidia.com/mig.config"
#define MIG_STATE_LABEL "nvidia.com/mig.config.state"
#define MIG_REASON      "gpuslice.io/mig.config.reason"   /* annotation */
#define MIG_REBOOTED    "gpuslice.io/mig.config.rebooted" /* annotation: key of the layout */
#define MIG_PAUSED_OLD  "gpuslice.io/mig.paused"          /* annotation: "key=value,..." */
#define MIG_PAUSED      "paused-for-mig-change"

enum mig_clients { MIG_CLIENTS_UNCHANGED, MIG_CLIENTS_PAUSE, MIG_CLIENTS_RUN };

/* What the Node should show. */
struct mig_node_labels {
	const char *state;    /* NULL: unchanged; "": no such label */
	const char *reason;   /* NULL: unchanged; "": no such annotation */
	const char *rebooted; /* NULL: unchanged; "": no such annotation */
	enum mig_clients clients;
	/* labels that the agent's own pod needs, never paused; ends with NULL; may be NULL */
	const char *const *own;
};

/* What the Node shows now. */
struct mig_node_labels_actual {
	const json_t *labels;                       /* may be NULL */
	const char *reason, *rebooted, *old_paused; /* annotations; may be NULL */
};

/* The merge patch to what is desired: a new reference; NULL: nothing differs. < 0: no memory. */
int mig_node_labels_patch(json_t **ret, const struct mig_node_labels *desired,
	const struct mig_node_labels_actual *now, struct error *err) MUST_USE;

/* Whether any client can be paused, or is paused. */
bool mig_clients_any(const json_t *labels, const char *const *own);

/*
 * The first pod of @items (of a PodList) whose node selector has a paused label and that has not ended:
 * "namespace/name" in @ret. False: no such pod, all are gone.
 */
bool mig_clients_wait(const json_t *labels, const json_t *items, char *ret, size_t cap);

/*
 * The deploy labels in the node selector of the pod @namespace_/@name of @items. The array has room for
 * MIG_CLIENTS_MAX and NULL.
 */
#define MIG_CLIENTS_MAX 6
void mig_clients_own(const json_t *items, const char *namespace_, const char *name,
	const char *ret[MIG_CLIENTS_MAX + 1]);

/* Whether the pod is one of the GPU operator's validators, which must run again. */
bool mig_validator(const json_t *pod);
