/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * From GPUs and config to resources and their devices, for the kubelet. The core of "decide": a pure,
 * deterministic function, the same for every caller (agent, `config check`, tests). Health has no
 * influence: an unhealthy GPU keeps its devices, so that they can recover.
 *
 * Steps, as in NVIDIA's plugin:
 *  1. Each usable GPU or MIG device gets a resource by pattern and MIG strategy.
 *  2. Each sharing entry, in order, picks devices of its resource and replicates them, under a new name if
 *     configured.
 *  3. Devices that no entry picks stay plain under the original name.
 *
 * MIG strategies. none: GPUs are whole, whatever their MIG mode. mixed: a GPU with MIG enabled is offered
 * as its MIG devices, each as "nvidia.com/mig-<profile>". single: the same, but all MIG devices are
 * "nvidia.com/gpu". The operator's patterns for profiles take precedence over those names. NVIDIA's plugin
 * exits if the node does not fit the strategy. Here only the conflicting devices are unavailable (.why),
 * and the rest serves:
 *  - single: a resource has one type of MIG device, by all attributes. The most frequent type serves; of
 *    equally frequent types the first. Other types, and whole GPUs of a resource with MIG devices, are
 *    listed but unavailable.
 *  - A GPU with MIG enabled and no MIG device: single lists the GPU as unavailable, mixed offers nothing.
 *    Both add a note, unless the layout is changing (struct gpu.changing).
 *  - mixed: a compute instance smaller than its GPU instance ("1c.3g.20gb") has no built-in name. It is
 *    left out with a note, unless a pattern names it.
 *
 * MPS. Devices that MPS entries pick are not time-sliced. MPS entries come first, and a note reports a
 * time-slicing entry that picks such a device. A device with more replicas or MPS slices than MPS has
 * clients is listed but unavailable (model/mps/mps.h).
 *
 * Overlaps. Otherwise entries see the original devices, not the result of other entries. Two entries for
 * one GPU under the same name give the greater number of replicas with the isolation of that entry; of
 * equal numbers, the first entry that isolates. Under different names the GPU is in both resources, with a
 * note. `devices: N` picks the first N by index, available ones first.
 *
 * Missing devices. A sharing entry for more devices than the node has is applied as far as possible, with a
 * note. A count that is too great takes all devices. Of a list, the existing devices are shared. So a wrong
 * entry never removes a GPU and never shares an unintended one. A device that cannot be offered (no UUID,
 * or a duplicate) is noted and does not affect the others. The display GPU of a DGX station is left out
 * without a note, as in NVIDIA's plugin.
 *
 * Slices. Devices of `slices` are divided first (model/offer/slices.h). They are neither shared otherwise
 * nor whole. A note reports an entry that picks such a device.
 *
 * Memory limits. Limits of the replicas of a GPU that exceed its memory in total are offered as written,
 * with a note. A limit greater than the whole GPU counts as the whole (model/slice/slice.h).
 * Thread: any (pure).
 */
#include "model/config/config.h"
#include "model/gpu/gpu.h"

#define DEVICE_ID_MAX 128 /* "<uuid>::<replica>", "<uuid>::<profile>::<number>" */

#define OFFER_WHOLE UINT32_MAX
#define OFFER_GPU   "nvidia.com/gpu"
#define OFFER_MIG   "nvidia.com/mig-"

struct offer_device {
	char id[DEVICE_ID_MAX];
	uint32_t gpu; /* position in the inventory */
	uint32_t mig; /* position in the inventory's MIG devices; OFFER_WHOLE: a whole GPU */
	uint32_t replica; /* 0 for an unshared device */
	/* position + 1 of the note why the listed device is unavailable; 0: available */
	uint32_t why;
	uint32_t share; /* position + 1 in the resource's shares; 0: not shared */
};

/* How a sharing entry shares its devices, or how one device is divided into slices. */
struct offer_share {
	enum sharing_strategy strategy; /* for slices: SHARING_MPS if they run under MPS */
	bool fail_requests_greater_than_one;
	uint32_t replicas; /* of one device; of a profile: its slices */
	uint32_t weight;   /* of one replica or slice */
	uint64_t weights;  /* sum for the device, including other profiles */
	struct isolation isolation;
};

struct resource {
	char name[RESOURCE_NAME_MAX];
	/* before renaming; of the first entry if there are several */
	char original[RESOURCE_NAME_MAX];
	/* SHARING_NONE: plain devices. SHARING_MPS: some devices share by MPS, others may be time-sliced or
	 * plain. SHARING_SLICES: a profile, under MPS or not. */
	enum sharing_strategy strategy;
	uint32_t replicas;            /* 1 for plain devices; the maximum if they differ */
	struct offer_device *devices; /* sorted by GPU, MIG device, replica */
	uint32_t n_devices;
	/* one for each sharing entry, in order; for a profile, one for each device with the profile */
	struct offer_share *shares;
	uint32_t n_shares;
	uint32_t *index; /* hash from IDs to positions + 1, for resource_find(); NULL: none */
	uint32_t index_slots; /* a power of two */
};

struct offer {
	struct resource *resources; /* sorted by name */
	uint32_t n;
	struct strv notes; /* readable texts: what is not offered, and why */
	/* readable texts: what no pod can get, or which entry takes GPU time from others */
	struct strv warnings;
};

/* Total devices of one node; the kubelet accepts 4 MiB in one message. */
#define OFFER_DEVICES_MAX 40000

/* ERR_LIMIT: more than OFFER_DEVICES_MAX devices, or a name that is too long. */
int offer_new(struct offer **ret, const struct inventory *inv, const struct config *config,
	struct error *err) MUST_USE;
struct offer *offer_free(struct offer *o); /* returns NULL */
DEFINE_CLEANUP(struct offer *, offer_free)

/* The resource name of a GPU before sharing: by the operator's patterns, else "nvidia.com/gpu". Borrowed
 * from @config, or static. */
const char *offer_original_name(const struct config *config, const struct gpu *g);

/* Whether the GPU at position @i can be offered: not a display, with a unique UUID. */
bool offer_can_have(const struct inventory *inv, uint32_t i);

/* The resource by its name, and a device of it by its ID; NULL: none. Borrowed. */
const struct resource *offer_find(const struct offer *o, const char *name);
const struct offer_device *resource_find(const struct resource *r, const char *id);

/* How @d of @r is shared; NULL: not shared. Borrowed. */
const struct offer_share *resource_share(const struct resource *r,
	const struct offer_device *d);

/* Replica IDs in the form of NVIDIA's plugin: UUID::N. device_id_make() returns false if the ID does not
 * fit. */
bool device_id_make(char *ret, size_t cap, const char *uuid, uint32_t replica);
/* The ID of a slice of a profile with the resource @resource: "GPU-...::gpu.small::0". It contains the
 * name, so two profiles of a device never share an ID, and each keeps its IDs when the others change. */
bool device_id_make_slice(char *ret, size_t cap, const char *uuid, const char *resource,
	uint32_t number);
bool device_id_is_replica(const char *id);     /* or a slice */
size_t device_id_physical_len(const char *id); /* length up to the first "::" */

/* `*` matches any run of characters, all other characters are literal. The whole text must match. */
bool pattern_match(const char *pattern, const char *text);
