/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the operator configured, after defaults and precedence: NVIDIA's `version: v1` sharing configuration
 * and our additions (docs/config.md). src/io/config reads it from YAML, environment and flags. The model
 * and the agent only read the result. All values are validated. Immutable once made.
 * Thread: any (pure data).
 */
#include "lib/base/buf.h"
#include "lib/base/error.h"
#include "lib/base/strv.h"
#include "model/health/health.h"

#include <stdbool.h>
#include <stdint.h>

#define MPS_DEFAULT_ROOT "/run/nvidia/mps" /* where flags.mpsRoot is empty */

#define RESOURCE_NAME_MAX 80 /* 63, ".shared" and the terminating NUL */

/* Position of a value in its file, for later messages; line 0: not from a file. */
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
 * How a physical device is shared. Sharing entries are SHARING_TIME_SLICING or SHARING_MPS. On one device
 * MPS takes precedence over time-slicing. SHARING_SLICES is the strategy of a profile's resource: its
 * slices share the device by MPS or by the fair-share scheduler.
 */
enum sharing_strategy { SHARING_NONE, SHARING_TIME_SLICING, SHARING_MPS, SHARING_SLICES };
#define SHARING_KINDS (SHARING_MPS + 1)

/* Maps a product name or MIG profile to a resource. Whole match; `*` matches any run of characters. */
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
	uint64_t memory_value; /* bytes or permille of the GPU, see .memory */
	enum isolation_compute compute;
	enum slice_class class_;
	/* for processes that bypass the interception libraries */
	enum isolation_unhooked unhooked;
	struct config_pos pos;
};

/* One entry of sharing.timeSlicing.resources or sharing.mps.resources. */
struct replicated {
	enum sharing_strategy strategy; /* time-slicing or MPS */
	char name[RESOURCE_NAME_MAX];   /* with "nvidia.com/" */
	char rename[RESOURCE_NAME_MAX]; /* "": none */
	enum devices_kind devices;
	uint32_t count;    /* of DEVICES_COUNT */
	struct strv list;  /* of DEVICES_LIST: UUIDs, "0", "0:0" */
	uint32_t replicas; /* >= 2 (MPS: >= 1) */
	struct isolation isolation;
	struct config_pos pos;
};

/* Settings of sharing.timeSlicing or sharing.mps for all its entries. */
struct sharing_kind {
	bool rename_by_default;
	bool fail_requests_greater_than_one;
	struct config_pos pos;
};

struct sharing {
	struct sharing_kind kinds[SHARING_KINDS]; /* by strategy; meaningless without entries */
	bool mps_exclusive; /* sharing.mps.computeMode: MPS GPUs are EXCLUSIVE_PROCESS */
	struct replicated *entries; /* MPS entries first, each kind in file order */
	size_t n_entries;
};

#define PROFILE_WEIGHT_MAX 1000

struct slice_profile {
	char name[RESOURCE_NAME_MAX];
	uint32_t count;  /* on each device; 0: as many as fit in the remaining memory */
	uint32_t weight; /* 1 to PROFILE_WEIGHT_MAX */
	struct isolation isolation; /* .memory is not EQUAL, .compute is not NONE */
	struct config_pos pos;
};

/* One entry of sharing.slices. */
struct slice_set {
	char name[RESOURCE_NAME_MAX]; /* the resource whose GPUs are divided */
	enum devices_kind devices;    /* not DEVICES_COUNT */
	struct strv list;
	/* of `devices: {product: X}`, `*` matches any run of characters; else NULL */
	char *product;
	bool mps; /* slices run concurrently under MPS, not in quanta */
	struct slice_profile *profiles;
	size_t n_profiles;
	struct config_pos pos;
};

struct config {
	char *path;  /* source file, or "" */
	char *entry; /* ConfigMap data entry, or "" */
	enum mig_strategy mig_strategy;
	enum discovery_strategy discovery;
	bool fail_on_init_error;
	bool fail_on_init_error_set; /* explicitly set; else the agent waits for the driver */
	/* Never NULL. An empty setting becomes MPS_DEFAULT_ROOT for .mps_root and .driver_root for
	 * .dev_root. */
	char *mps_root, *driver_root, *dev_root;
	bool gdrcopy, gds, mofed;
	bool pass_device_specs;
	unsigned device_lists; /* enum device_list_strategy */
	enum device_id_strategy device_id;
	enum allocation_policy allocation;
	char *cdi_annotation_prefix, *cdi_hook_path, *container_driver_root;
	/* explicitly set: use NVIDIA's hooks; else the agent writes none */
	bool cdi_hook_path_set;
	/* words as given; "all" disables all hooks */
	struct strv cdi_features, cdi_disabled_hooks;
	bool imex_channel0, imex_required;
	struct { /* of GPU feature discovery, for the node labels */
		bool oneshot, no_timestamp, use_node_feature_api;
		int64_t sleep_interval_ns; /* INT64_MAX: infinite */
		char *output_file, *machine_type_file;
	} gfd;
	/* the operator's; the built-in patterns come after them */
	struct resource_pattern *gpu_patterns, *mig_patterns;
	size_t n_gpu_patterns, n_mig_patterns;
	struct sharing sharing;
	struct slice_set *slices;
	size_t n_slices;
	struct health_policy health;
};

/* All defaults of NVIDIA's device plugin, without sharing. */
int config_new(struct config **ret, struct error *err) MUST_USE;
struct config *config_free(struct config *c); /* returns NULL */
DEFINE_CLEANUP(struct config *, config_free)

/* Whether a slice enforces a part of @i: a memory limit or compute. */
bool isolation_enforces(const struct isolation *i);

/* "time-slicing": the word in configs, labels and the status. */
const char *sharing_strategy_name(enum sharing_strategy s);

/* Appends the strategies that @c uses: any of "time-slicing, mps, slices", or "none". */
void config_sharing_text(const struct config *c, struct buf *text);

/* Whether the config has entries of @strategy. */
bool sharing_has(const struct sharing *s, enum sharing_strategy strategy);

/* Whether MPS entries cover all devices of the time-slicing entry @e on every node. Then @e shares nothing. */
bool sharing_leaves_nothing(const struct sharing *s, const struct replicated *e);

/* Whether the config may share a device by MPS. */
bool config_wants_mps(const struct config *c);

/*
 * replicated_mix_fair_share(): whether two entries would offer one GPU under two names, of which only one
 * has the fair-share scheduler. A container with the other name takes GPU time from the scheduled slices.
 *
 * replicated_always_overlap(): whether such a GPU exists on every node that has GPUs for both entries.
 * False if only the node can tell, as for two lists.
 */
bool replicated_mix_fair_share(const struct replicated *a, const struct replicated *b);
bool replicated_always_overlap(const struct replicated *a, const struct replicated *b);

/* Whether containers of this config have slices. */
bool config_wants_slices(const struct config *c);

/* Whether both have the same meaning. Positions, path and entry are ignored. */
bool config_equal(const struct config *a, const struct config *b);
