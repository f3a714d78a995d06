/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the operator wants, after all defaults and precedence: NVIDIA's `version: v1` sharing
 * configuration plus ours (docs/config.md). src/io/config reads it from YAML, environment and flags;
 * core and the agent only read this. Everything in it is validated. Immutable once made.
 * Thread: any (pure data).
 */
#include "lib/base/buf.h"
#include "lib/base/error.h"
#include "lib/base/strv.h"
#include "model/health/health.h"

#include <stdbool.h>
#include <stdint.h>

#define MPS_DEFAULT_ROOT "/run/nvidia/mps" /* where flags.mpsRoot is empty */

#define RESOURCE_NAME_MAX 80 /* 63 and ".shared" and the end */

/* Where a value stands in its file; line 0: not from a file. Kept for messages that come later. */
struct config_pos {
	uint32_t line, column;
};

enum mig_strategy { MIG_STRATEGY_NONE, MIG_STRATEGY_SINGLE, MIG_STRATEGY_MIXED };
enum device_id_strategy { DEVICE_ID_UUID, DEVICE_ID_INDEX };
enum allocation_policy { ALLOCATION_DISTRIBUTED, ALLOCATION_PACKED };
enum discovery_strategy { DISCOVERY_AUTO, DISCOVERY_NVML, DISCOVERY_TEGRA, DISCOVERY_VFIO };

enum device_list_strategy { /* a set */
	DEVICE_LIST_ENVVAR = 1 << 0,
	DEVICE_LIST_VOLUME_MOUNTS = 1 << 1,
	DEVICE_LIST_CDI_ANNOTATIONS = 1 << 2,
	DEVICE_LIST_CDI_CRI = 1 << 3,
};

/*
 * How a physical device is shared. Entries have the second or the third; on one device MPS goes before
 * time-slicing. `slices` are a strategy of resources, whose devices are shared by MPS or take turns.
 */
enum sharing_strategy { SHARING_NONE, SHARING_TIME_SLICING, SHARING_MPS, SHARING_SLICES };
#define SHARING_KINDS (SHARING_MPS + 1)

/* Pattern of a product name or MIG profile to a resource: whole match, `*` is any run. */
struct resource_pattern {
	char *pattern;
	char name[RESOURCE_NAME_MAX]; /* with "nvidia.com/" */
	struct config_pos pos;
};

enum devices_kind { DEVICES_ALL, DEVICES_COUNT, DEVICES_LIST };

enum isolation_memory {
	ISOLATION_MEMORY_NONE,
	ISOLATION_MEMORY_EQUAL,
	ISOLATION_MEMORY_BYTES,
	ISOLATION_MEMORY_PERMILLE
};
enum isolation_compute {
	ISOLATION_COMPUTE_NONE,
	ISOLATION_COMPUTE_FAIR,
	ISOLATION_COMPUTE_CAPPED
};
enum isolation_unhooked { UNHOOKED_REPORT, UNHOOKED_STOP };
enum slice_class { SLICE_CLASS_BATCH, SLICE_CLASS_LATENCY };

struct isolation {
	bool present;
	enum isolation_memory memory;
	uint64_t memory_value; /* bytes or permille of the GPU, as .memory says */
	enum isolation_compute compute;
	enum slice_class class_;
	enum isolation_unhooked unhooked; /* processes that use the GPU past the libraries */
	struct config_pos pos;
};

/* One entry of sharing.timeSlicing.resources or sharing.mps.resources. */
struct replicated {
	enum sharing_strategy strategy; /* its kind */
	char name[RESOURCE_NAME_MAX];   /* with "nvidia.com/" */
	char rename[RESOURCE_NAME_MAX]; /* "": none */
	enum devices_kind devices;
	uint32_t count;    /* DEVICES_COUNT */
	struct strv list;  /* DEVICES_LIST: UUIDs, "0", "0:0" */
	uint32_t replicas; /* >= 2 (mps: >= 1) */
	struct isolation isolation;
	struct config_pos pos;
};

/* What sharing.timeSlicing, or sharing.mps, says of all its entries. */
struct sharing_kind {
	bool rename_by_default;
	bool fail_requests_greater_than_one;
	struct config_pos pos;
};

struct sharing {
	struct sharing_kind
		kinds[SHARING_KINDS]; /* by strategy; says nothing without entries */
	bool mps_exclusive; /* sharing.mps.computeMode: GPUs are EXCLUSIVE_PROCESS meanwhile */
	struct replicated *entries; /* those of MPS first, each kind in its order */
	size_t n_entries;
};

#define PROFILE_WEIGHT_MAX 1000

struct slice_profile {
	char name[RESOURCE_NAME_MAX];
	uint32_t count;  /* on each device; 0: as many as fit in what the others leave */
	uint32_t weight; /* 1 to PROFILE_WEIGHT_MAX */
	struct isolation isolation; /* .memory is not EQUAL, .compute is not NONE */
	struct config_pos pos;
};

/* One entry of sharing.slices. */
struct slice_set {
	char name[RESOURCE_NAME_MAX]; /* the resource whose GPUs are cut */
	enum devices_kind devices;    /* not DEVICES_COUNT */
	struct strv list;
	char *product; /* devices: {product: X}, `*` is any run of characters; NULL otherwise */
	bool mps;      /* run side by side under MPS, instead of taking turns */
	struct slice_profile *profiles;
	size_t n_profiles;
	struct config_pos pos;
};

struct config {
	char *path;  /* file it came from, or "" */
	char *entry; /* ConfigMap data entry, or "" */
	enum mig_strategy mig_strategy;
	enum discovery_strategy discovery;
	bool fail_on_init_error;
	bool fail_on_init_error_set; /* somebody asked for it; else we wait for the driver */
	char *mps_root, *driver_root, *dev_root; /* never NULL; the first and the last
						     have their defaults */
	bool gdrcopy, gds, mofed;
	bool pass_device_specs;
	unsigned device_lists; /* enum device_list_strategy */
	enum device_id_strategy device_id;
	enum allocation_policy allocation;
	char *cdi_annotation_prefix, *cdi_hook_path, *container_driver_root;
	bool cdi_hook_path_set; /* somebody asked for NVIDIA's hooks; else we write none */
	struct strv cdi_features, cdi_disabled_hooks; /* words, as given; "all" hooks */
	bool imex_channel0, imex_required;
	struct { /* for labels, later */
		bool oneshot, no_timestamp, use_node_feature_api;
		int64_t sleep_interval_ns; /* INT64_MAX: infinite */
		char *output_file, *machine_type_file;
	} gfd;
	struct resource_pattern *gpu_patterns,
		*mig_patterns; /* the user's; the built-in follow */
	size_t n_gpu_patterns, n_mig_patterns;
	struct sharing sharing;
	struct slice_set *slices;
	size_t n_slices;
	struct health_policy health;
};

/* All defaults of NVIDIA's device plugin, nothing shared. */
int config_new(struct config **ret, struct error *err) MUST_USE;
struct config *config_free(struct config *c); /* returns NULL */
DEFINE_CLEANUP(struct config *, config_free)

/* Whether there is anything in it that a slice enforces. */
bool isolation_enforces(const struct isolation *i);

/* "time-slicing": as in configs, labels and the status. */
const char *sharing_strategy_name(enum sharing_strategy s);

/* What @c shares by: "time-slicing, mps, slices", or those of them that it has; "none". */
void config_sharing_text(const struct config *c, struct buf *text);

/* Whether the config has entries of this kind. */
bool sharing_has(const struct sharing *s, enum sharing_strategy strategy);

/*
 * Whether entries of MPS have all devices of the time-slicing entry @e, whatever the node is like: then it
 * shares nothing.
 */
bool sharing_leaves_nothing(const struct sharing *s, const struct replicated *e);

/* Whether any device may be shared by MPS. */
bool config_wants_mps(const struct config *c);

/*
 * Two entries that would offer a GPU of both under two names, of which only one takes turns: who has the
 * other takes the GPU from it. The second: whether there is such a GPU wherever there are GPUs of theirs;
 * false where only the node can tell, as of two lists.
 */
bool replicated_mix_fair_share(const struct replicated *a, const struct replicated *b);
bool replicated_always_overlap(const struct replicated *a, const struct replicated *b);

/* Whether containers of this config have slices. */
bool config_wants_slices(const struct config *c);

/* True if both say the same; positions, path and entry do not count. */
bool config_equal(const struct config *a, const struct config *b);
