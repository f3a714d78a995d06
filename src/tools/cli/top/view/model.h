/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What `gpuslice top` knows of a node: the agent's /api/v1/node (docs/api.md) in flat arrays. Units, seats and uses
 * are as node/view/view.h has them. What is not known is the largest number of its type, or "" for text. Texts are
 * borrowed from the model and come from a stranger: width.h makes them fit for a terminal.
 * Units: nanoseconds, bytes, millionths, nano-units of the currency.
 * Thread: whoever owns it.
 */
#include "lib/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOP_NONE    UINT32_MAX
#define TOP_UNKNOWN UINT64_MAX

#define TOP_DOCUMENT_MAX (32U << 20) /* bytes */
#define TOP_GPUS_MAX     1024
#define TOP_DEVICES_MAX  64           /* of a GPU */
#define TOP_REPLICAS_MAX 4096         /* of a unit; uses as well */
#define TOP_ALL_MAX      (256U << 10) /* of each kind */

struct top_gpu {
	uint32_t index; /* TOP_NONE: it is gone, and another GPU has its index */
	const char *uuid, *name, *bus_id;
	const char *health, *reason, *refused;
	bool present, mig_known, mig_enabled;
	uint32_t last_xid;
	uint64_t cost_nano_per_hour;
	double temperature, power_watts, power_limit_watts; /* NaN: not known */
	uint32_t first_device, n_devices;
	double board_mib, board_used_mib; /* private: as the board says; NaN: not known */
	uint64_t memory_total,
		memory_used;      /* of its units; in MIG mode of the board if that is known */
	uint32_t busy, allocated; /* of its units, by their parts */
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
	bool first;     /* of the seats of that use */
};

struct top_usage {
	uint32_t device;
	const char *namespace_, *pod, *container, *uid, *resource, *mode;
	bool live, offered_now, has_replica; /* it has a seat in this list */
	uint32_t share, received;
	uint64_t memory_used, memory_peak, memory_limit;
	uint64_t quanta, waits; /* of a slice, and what follows */
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
	const char *warning;                    /* the first of them */
	size_t n_degraded;                      /* components of the agent that do not work */
	const char *degraded, *degraded_reason; /* the first of them */
	struct top_gpu *gpus;
	struct top_device *devices;
	struct top_replica *replicas;
	struct top_usage *usages;
	size_t n_gpus, n_devices, n_replicas, n_usages;
};

/* ERR_INVALID names the place in the document, what was expected and what was found. */
int top_model_read(struct top_model **ret, const char *json, size_t len,
	struct error *err) MUST_USE;
/* "On", "Off", or "-" where the agent could not read it. */
const char *top_mig_mode(const struct top_gpu *g);

struct top_model *top_model_free(struct top_model *m); /* returns NULL */
DEFINE_CLEANUP(struct top_model *, top_model_free)
