/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The node as `gpuslice top` sees it: the agent's /api/v1/node (docs/api.md) in flat arrays.
 * node/view/view.h defines devices, replicas and uses (here: usages). An unknown value is the largest
 * number of its type, or "" for text. The model owns the texts. They come from another process;
 * width.h makes them safe for a terminal.
 *
 * Units: nanoseconds, bytes, millionths, nano-units of the currency.
 * Thread: the owner's.
 */
#include "lib/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOP_NONE    UINT32_MAX
#define TOP_UNKNOWN UINT64_MAX

#define TOP_DOCUMENT_MAX (32U << 20) /* bytes */
#define TOP_GPUS_MAX     1024
#define TOP_DEVICES_MAX  64           /* of one GPU */
#define TOP_REPLICAS_MAX 4096         /* of one device; also limits its usages */
#define TOP_ALL_MAX      (256U << 10) /* of all GPUs, for each kind */

struct top_gpu {
	uint32_t index; /* TOP_NONE: the GPU is gone, and another GPU has its index */
	const char *uuid, *name, *bus_id;
	const char *health, *reason, *refused;
	bool present, mig_known, mig_enabled;
	uint32_t last_xid;
	uint64_t cost_nano_per_hour;
	double temperature, power_watts, power_limit_watts; /* NaN: not known */
	uint32_t first_device, n_devices;
	double board_mib, board_used_mib; /* private: the board's own figures; NaN: not known */
	uint64_t memory_total,
		memory_used; /* sums of the devices; in MIG mode those of the board, if known */
	uint32_t busy, allocated; /* sums of the devices, weighted by their shares */
};

struct top_device {
	uint32_t gpu; /* position in .gpus */
	bool mig;
	const char *uuid, *label, *profile, *mode, *resource;
	const char *health, *reason, *refused;
	uint32_t share, allocated, busy, replicas_used;
	uint64_t memory_total, memory_used;
	uint32_t n_replicas;
};

struct top_replica {
	uint32_t device;
	const char *id, *resource;
	uint32_t replica, share;
	uint64_t memory_limit;
	bool healthy;
	uint32_t usage; /* position in .usages; TOP_NONE: free */
	bool first;     /* the first replica of its usage */
};

struct top_usage {
	uint32_t device;
	const char *namespace_, *pod, *container, *uid, *resource, *mode;
	bool live, offered_now, has_replica; /* .has_replica: a replica in this list has it */
	uint32_t share, received;
	uint64_t memory_used, memory_peak, memory_limit;
	uint64_t quanta, waits; /* these and the following: only of a slice */
	bool has_quantum, demoted, stuck, over;
};

struct json_t;

struct top_model {
	struct json_t *document; /* private: owns the texts */
	const char *wall_time, *node, *hostname, *driver_version, *cuda_version, *agent_version;
	bool nvml_up;
	const char *nvml_error;
	bool holders_known;
	const char *holders_error;
	bool priced;
	uint64_t price_nano_per_hour;
	const char *currency;
	uint64_t config_generation;
	const char *config_sharing, *config_error;
	size_t n_warnings;
	const char *warning;                    /* the first warning */
	size_t n_degraded;                      /* components of the agent that do not work */
	const char *degraded, *degraded_reason; /* the first component */
	struct top_gpu *gpus;
	struct top_device *devices;
	struct top_replica *replicas;
	struct top_usage *usages;
	size_t n_gpus, n_devices, n_replicas, n_usages;
};

/* ERR_INVALID: the text names the place in the document, what was expected and what was found.
 * ERR_LIMIT, ERR_NOMEM. */
int top_model_read(struct top_model **ret, const char *json, size_t len,
	struct error *err) MUST_USE;
/* "On", "Off"; "-": the agent could not read it. */
const char *top_mig_mode(const struct top_gpu *g);

struct top_model *top_model_free(struct top_model *m); /* returns NULL */
DEFINE_CLEANUP(struct top_model *, top_model_free)
