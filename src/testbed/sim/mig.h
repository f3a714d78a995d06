/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The rules of MIG on one simulated GPU: pure functions on struct sim_gpu, with NVML's codes. The abilities of
 * each product are in catalogue/mig.yaml, compiled in.
 *
 * GPU instances (GI). A GI occupies `size` adjacent memory slots from one of its profile's starts. A GI can be
 * created if a start is free, and compute slices, engines and the profile's own maximum suffice. An .all profile
 * takes all media engines, so only -me profiles fit beside it. Without a requested start the GI goes to the first
 * free start of the profile's `order`. The id depends on the placement alone (`ids`): the same placement always
 * has the same id.
 *
 * Compute instances (CI). A CI occupies slices of its GI. The CI starts at a multiple of its size rounded up to a
 * power of two. Without a requested start it takes the highest free one, so that large holes stay below. Its id
 * is the lowest free number from 0. A CI of C slices exists in a GI of G slices where C is G or 2C <= G+1. In the
 * double-memory 1g its profile is number 7, and number 0 works as well.
 *
 * Mode. Hopper and later change the mode at once. Ampere needs a reset of the GPU; its driver does that by
 * itself, so the mode changes at once, too. While a process is on the GPU or the key mig_busy is set, the change
 * is pending (IN_USE); mig_busy also prevents new GIs. With the key mig_reset_required the change is pending
 * until a reset or reboot. Mode cannot be switched off while there are instances.
 *
 * A reset destroys instances and applies the pending mode. A reboot does that too; after a reboot, Hopper and later
 * have MIG off.
 *
 * Thread: any.
 */
#include "abi/nvml-api.h"
#include "testbed/sim/model.h"

#define SIM_MIG_SLOTS_MAX    12
#define SIM_MIG_PROFILES_MAX 12
#define SIM_MIG_ANY          UINT32_MAX /* start: the driver chooses */
#define SIM_MIG_GI_NUMBERS   17         /* enumerators of GI profiles that driver 580 knows */
#define SIM_MIG_CI_NUMBERS   9
#define SIM_MIG_GI_IDS       15 /* limit; GI ids are below it */
#define SIM_MIG_UUID_MAX     48

enum sim_engine {
	SIM_ENGINE_COPY,
	SIM_ENGINE_DECODE,
	SIM_ENGINE_ENCODE,
	SIM_ENGINE_JPEG,
	SIM_ENGINE_OFA,
	SIM_ENGINE_COUNT
};

struct sim_mig_layout {
	uint8_t slots, slices;
	uint8_t ids[SIM_MIG_SLOTS_MAX + 1][SIM_MIG_SLOTS_MAX]; /* [size][start] */
};

struct sim_mig_profile {
	const char *name; /* "1g.5gb" */
	char evidence;    /* M, S, D or I: see catalogue/mig.yaml */
	uint8_t number, id, slices, max, size, gfx;
	uint32_t starts; /* bit s: may start at slot s */
	uint8_t order_count, order[SIM_MIG_SLOTS_MAX];
	uint16_t sms;
	uint32_t memory_mib;
	uint8_t engines[SIM_ENGINE_COUNT];
};

struct sim_mig_table {
	const char *product;
	const struct sim_mig_layout *layout;
	uint32_t idle_mib; /* used by an instance without processes */
	uint32_t profile_count;
	struct sim_mig_profile profiles[SIM_MIG_PROFILES_MAX]; /* by number */
};

/* One table for each product with MIG; sim_mig_table_count of them. */
extern const struct sim_mig_table sim_mig_tables[];
extern const size_t sim_mig_table_count;

/* NULL: this GPU has no MIG. */
const struct sim_mig_table *sim_mig_table(const struct sim_keys *keys);

/* NULL: the product has no such profile. */
const struct sim_mig_profile *sim_mig_by_number(const struct sim_mig_table *t, uint32_t number);
const struct sim_mig_profile *sim_mig_by_id(const struct sim_mig_table *t, uint32_t id);

/* The profile of an instance of @g. */
const struct sim_mig_profile *sim_gi_profile(const struct sim_gpu *g, const struct sim_gi *gi);

/* How a CI profile fits into a GI. */
struct sim_ci_shape {
	uint32_t slices, max, sms;
	uint32_t starts; /* bit s: may start at slice s */
};
/* The CI profile @number (NVML's enumerator) in a GI of @p. .slices 0: the GI does not offer it. */
struct sim_ci_shape sim_ci_shape(const struct sim_mig_table *t, const struct sim_mig_profile *p,
	uint32_t number);

/* The CI profile that occupies a whole GI of @p. */
uint32_t sim_ci_default(const struct sim_mig_table *t, const struct sim_mig_profile *p);

/* "1g.5gb", "1c.3g.20gb". @ret has SIM_NAME_MAX bytes. */
void sim_mig_name(const struct sim_mig_profile *p, uint32_t ci_slices, char *ret);

/* "MIG-8-4-5...": stable for the same GPU and ids. @ret has SIM_MIG_UUID_MAX bytes. */
void sim_mig_uuid(const struct sim_keys *keys, uint32_t gi, uint32_t ci, char *ret);

/* Instances by id; NULL: not found. */
struct sim_gi *sim_gi_find(struct sim_gpu *g, uint32_t gi);
struct sim_ci *sim_ci_find(struct sim_gi *gi, uint32_t ci);

/* How many further instances of a profile fit. With MIG off all of them fit. */
uint32_t sim_gi_count_free(const struct sim_gpu *g, const struct sim_mig_profile *p);
uint32_t sim_ci_count_free(const struct sim_gpu *g, const struct sim_gi *gi, uint32_t number);

/* Sums over one GI, or one of its CIs (SIM_NO_INSTANCE: all): bytes of processes, percent of load. */
uint64_t sim_mig_process_bytes(const struct sim_gpu *g, uint32_t gi, uint32_t ci);
uint32_t sim_mig_load_percent(const struct sim_gpu *g, uint32_t gi);

/* Share of the whole GPU's SMs that a CI has, percent, rounded up; 100: no such CI. */
uint32_t sim_mig_share_percent(const struct sim_gpu *g, uint32_t gi, uint32_t ci);

/*
 * Changes. The caller has checked that the call is allowed at all, and updates the sums with
 * sim_gpu_sum_processes(). On a code other than NVML_SUCCESS nothing has changed. sim_mig_set_mode() returns
 * NVML_SUCCESS also for a change that stays pending; *activation then has the reason.
 */
nvmlReturn_t sim_mig_set_mode(struct sim_gpu *g, uint32_t mode, nvmlReturn_t *activation);
/* @start SIM_MIG_ANY: the driver chooses, and @size is ignored. */
nvmlReturn_t sim_gi_create(struct sim_gpu *g, uint32_t profile_id, uint32_t start,
	uint32_t size, uint32_t *ret_gi);
/* NVML_ERROR_IN_USE: the GI has CIs. */
nvmlReturn_t sim_gi_destroy(struct sim_gpu *g, uint32_t gi);
nvmlReturn_t sim_ci_create(struct sim_gpu *g, uint32_t gi, uint32_t number, uint32_t start,
	uint32_t size, uint32_t *ret_ci);
/* NVML_ERROR_IN_USE: a process is on the CI. */
nvmlReturn_t sim_ci_destroy(struct sim_gpu *g, uint32_t gi, uint32_t ci);

/* Removes instances and all processes of the GPU; applies the pending mode. */
void sim_mig_reset(struct sim_gpu *g);
/* As sim_mig_reset(). Hopper and later lose the MIG mode. */
void sim_mig_reboot(struct sim_gpu *g);
