/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * From GPUs and configuration to what the kubelet is told: resources and their devices. The heart
 * of "decide": a pure function, deterministic, the same for every caller (agent, `config check`,
 * tests). Health is not part of it: an unhealthy GPU keeps its devices, so that they can come back.
 *
 * Steps, as NVIDIA's plugin has them: each usable GPU or MIG device gets a resource by pattern and
 * MIG strategy; each sharing entry in order picks devices of its resource and replicates them,
 * under a new name if so configured. Devices that no entry picks stay plain under the original
 * name.
 *
 * MIG strategies. none: GPUs are whole, whatever their MIG mode. mixed: a GPU with MIG on is its
 * MIG devices, "nvidia.com/mig-<profile>" each. single: the same, all of them "nvidia.com/gpu".
 * The user's patterns for profiles go before those names. Where NVIDIA's plugin ends because the
 * node cannot be like that, here it costs the devices that are in the way (.why), and the rest
 * serves:
 *  - single: a resource holds one type of MIG device, by all of its attributes. The type of which
 *    there are most serves, of equals the one that comes first; other types, and whole GPUs of a
 *    resource that MIG devices serve, are listed and cannot be had;
 *  - a GPU with MIG on and no MIG device: single lists the GPU and it cannot be had; mixed offers
 *    nothing of it; a note either way, unless its layout is being changed (struct gpu.changing);
 *  - mixed: a compute instance smaller than its GPU instance ("1c.3g.20gb") has no name of its own
 *    and is left out with a note, unless a pattern names it.
 *
 * What entries of MPS pick is not time-sliced too: they count first, and where a time-slicing entry means
 * such a device besides, a note says so. One of which there would be more replicas, or slices under MPS, than
 * MPS has clients is listed and cannot be had (model/mps/mps.h).
 *
 * Else entries see the original devices, not each other's result: two entries that share one GPU under
 * the same name give the greater number of replicas, and the isolation of that entry (of equal ones
 * the first that isolates); under different names the GPU is in both (and a note says so). `devices: N` picks the first N by index, those that can be had first.
 *
 * A sharing entry that asks for more than the node has is applied as far as it goes, and a note
 * says what is missing. A count too great takes all devices; of a list, those that exist are
 * shared; what no entry picks stays plain. So a wrong entry never takes a GPU away, and never
 * shares one that it does not mean. What cannot be offered (no UUID, or that of another) is noted,
 * and the others are not touched by it. The display GPU of a DGX station is left out without a
 * note, as with NVIDIA.
 *
 * What `slices` cuts is cut first (model/offer/slices.h), and is neither shared besides nor whole; a note
 * says so where an entry means it too.
 *
 * Memory limits of the replicas of a GPU that come to more than it has are offered as they are
 * written, with a note; one that is more than the whole GPU counts as the whole (model/slice/slice.h).
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
	uint32_t why;   /* position + 1 in the notes of why it is listed but cannot be had; 0 */
	uint32_t share; /* position + 1 in the resource's shares; 0: not shared */
};

/* How the physical devices are shared that a sharing entry has picked, or one that is cut into slices. */
struct offer_share {
	enum sharing_strategy strategy; /* of slices: SHARING_MPS where they run under MPS */
	bool fail_requests_greater_than_one;
	uint32_t replicas; /* of one device; of a profile: slices of it */
	uint32_t weight;   /* of one of them */
	uint64_t weights;  /* of all that the device is divided into, by other profiles too */
	struct isolation isolation;
};

struct resource {
	char name[RESOURCE_NAME_MAX];
	char original
		[RESOURCE_NAME_MAX]; /* before renaming; of the first entry if there are more */
	/* SHARING_NONE: plain devices; SHARING_MPS: some are shared by it, others may be time-sliced or plain;
	 * SHARING_SLICES: a profile, under MPS or not */
	enum sharing_strategy strategy;
	uint32_t replicas;            /* 1 for plain devices; the greatest if they differ */
	struct offer_device *devices; /* sorted by GPU, MIG device, replica */
	uint32_t n_devices;
	struct offer_share *shares; /* of all sharing entries, in their order; of a profile: of
				       each device that has it */
	uint32_t n_shares;
	uint32_t *index; /* hash of ids to positions + 1, for resource_find(); NULL: none */
	uint32_t index_slots; /* a power of two */
};

struct offer {
	struct resource *resources; /* sorted by name */
	uint32_t n;
	struct strv notes; /* for people: what could not be offered and why */
	struct strv
		warnings; /* the same, of what nobody gets or who takes it from the others */
};

/* Total devices of one node; kubelet takes 4 MiB in one message. */
#define OFFER_DEVICES_MAX 40000

/* ERR_LIMIT if there would be more than OFFER_DEVICES_MAX devices or a name is too long. */
int offer_new(struct offer **ret, const struct inventory *inv, const struct config *config,
	struct error *err) MUST_USE;
struct offer *offer_free(struct offer *o); /* returns NULL */
DEFINE_CLEANUP(struct offer *, offer_free)

/*
 * The name of a GPU's resource before sharing: the user's patterns, then "nvidia.com/gpu".
 * Borrowed from @config, or static.
 */
const char *offer_original_name(const struct config *config, const struct gpu *g);

/* Whether the GPU at position @i can be offered at all: not a display, and with a UUID of its own. */
bool offer_can_have(const struct inventory *inv, uint32_t i);

/* Whether @ref is its UUID, or what old drivers call it: "MIG-<UUID of the GPU>/<gi>/<ci>". */
bool offer_mig_is_called(const struct inventory *inv, const struct gpu_mig *m, const char *ref);

const struct resource *offer_find(const struct offer *o,
	const char *name); /* borrowed or NULL */
const struct offer_device *resource_find(const struct resource *r, const char *id);

/* How @d of @r is shared; NULL: not at all. Borrowed. */
const struct offer_share *resource_share(const struct resource *r,
	const struct offer_device *d);

/* The same in all that is offered, and the same positions in the inventory. */
bool resource_equal(const struct resource *a, const struct resource *b);

/* Replica IDs, as NVIDIA's plugin makes them: UUID::N. device_id_make() returns false if the id does not
 * fit. */
bool device_id_make(char *ret, size_t cap, const char *uuid, uint32_t replica);
/*
 * The same of a slice of a profile, whose resource is named @resource: "GPU-...::gpu.small::0". The name is
 * in it, so no two profiles of a device share an id, and each keeps its ids whatever becomes of the others.
 */
bool device_id_make_slice(char *ret, size_t cap, const char *uuid, const char *resource,
	uint32_t number);
bool device_id_is_replica(const char *id);     /* or a slice */
size_t device_id_physical_len(const char *id); /* up to the first "::" */

/* `*` matches any run of characters; the rest is literal; the whole text must match. */
bool pattern_match(const char *pattern, const char *text);
