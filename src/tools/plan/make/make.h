/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The objects that implement a plan, as texts of files: sharing and MIG configs, Karpenter's objects or tags for
 * cluster-autoscaler, patches of workloads, and instructions. Pure: writes nothing.
 *
 * Formats: NVIDIA's device plugin config v1 and mig-parted's v1; karpenter.sh/v1 NodePool, karpenter.sh/v1alpha1
 * NodeOverlay, karpenter.k8s.aws/v1 EC2NodeClass; cluster-autoscaler's node-template tags.
 *
 * Thread: any.
 */
#include "lib/base/buf.h"
#include "lib/base/error.h"
#include "tools/plan/pools/pools.h"

#define MAKE_PATH_MAX 160
#define MAKE_FILE_MAX (16U << 20) /* bytes of one file */

#define MAKE_CONFIG_PATH "10-device-plugin-config.yaml"
#define MAKE_CONFIG_MAP  "gpuslice-plan" /* of sharing configs, in MAKE_NAMESPACE */
#define MAKE_MIG_PATH    "15-mig-config.yaml"
#define MAKE_MIG_MAP     "gpuslice-plan-mig"
#define MAKE_NODE_CLASS  "gpuslice-plan"
#define MAKE_NAMESPACE   "gpuslice"

/* A text for the file @path below the directory; @path has at most one folder. */
struct make_file {
	char path[MAKE_PATH_MAX];
	struct buf text;
};

struct make_files {
	struct make_file *v;
	size_t n, room;
};

/*
 * All files, sorted by path; paths are unique. The caller frees *@ret by make_files_fini(), also after an
 * error. ERR_NOMEM.
 */
int make_plan_files(struct make_files *ret, const struct pools *p, struct error *err) MUST_USE;
void make_files_fini(struct make_files *f);

/* --- one kind of object each; nothing if the plan needs none --- */

/* The ConfigMap MAKE_CONFIG_MAP: how the GPUs of each pool are shared. */
void make_sharing_config(struct buf *b, const struct pools *p);
/* The ConfigMap MAKE_MIG_MAP: the MIG layout of each pool. */
void make_mig(struct buf *b, const struct pools *p);
/* The EC2NodeClass MAKE_NODE_CLASS, for nodes to buy. */
void make_node_class(struct buf *b, const struct pools *p);
/* A NodePool for each pool to buy. */
void make_node_pools(struct buf *b, const struct pools *p);
/* A NodeOverlay for each pool to buy whose nodes offer something else, see make_differs(). */
void make_overlays(struct buf *b, const struct pools *p);
/* Tags of node groups, for use with cluster-autoscaler instead of Karpenter. */
void make_tags(struct buf *b, const struct pools *p);

/*
 * The patch of @workload where it requests @resource. A workload that requests several resources in different
 * pools has @parts patches. @part is the number of the patch, from 0. Each but the first is for a copy of the
 * object.
 */
void make_patch(struct buf *b, const struct pools *p, uint32_t workload, const char *resource,
	uint32_t part, uint32_t parts);

/* --- parts --- */

/* Whether the nodes of @p offer something other than the GPUs that the provider declares. */
bool make_differs(const struct plan_pool *p);

/* "# ..." lines: the plan, and its prices. */
void make_head(struct buf *b, const struct pools *p, const char *what);

/* Any text as YAML in double quotes. */
void make_quoted(struct buf *b, const char *text);

/* GPUs from @g on with equal partitions; returns the first with other ones. */
uint32_t make_alike(const struct plan_pool *p, uint32_t g);

/* --- old objects of Karpenter --- */

/*
 * Converts old objects of Karpenter. Each Provisioner of a manifest becomes a NodePool karpenter.sh/v1. Its
 * provider, or the AWSNodeTemplate that it names, becomes an EC2NodeClass karpenter.k8s.aws/v1.
 */

/* Appends the translation of the manifest @text of the file @name to @ret; adds the number of objects to *n. */
int make_translation(struct buf *ret, const char *name, const char *text, size_t len, size_t *n,
	struct error *err) MUST_USE;
