/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The rules of MIG on one simulated GPU: pure functions on struct sim_gpu, with NVML's codes. What
 * each product can do is in catalogue/mig.yaml, compiled in.
 *
 * Placement. A GPU instance (GI) lies on `size` neighbouring memory slots from one of its profile's
 * starts. It can be made if a start is free and compute slices, engines and the profile's own
 * maximum suffice. So an .all profile, which takes all media engines, leaves room for -me ones only.
 * Without a wish it goes to the first free start of the profile's `order`; ids are a property of
 * the place (`ids`), so the same place always has the same id.
 *
 * Compute instances (CI) lie on slices of their GI, at multiples of their size rounded up to a power
 * of two; without a wish at the highest that is free, so that large holes stay below. Ids count
 * from 0, the lowest free one is taken. A CI of C slices exists in a GI of G where C is G or
 * 2C <= G+1; in the double-memory 1g its profile is number 7, and number 0 serves as well.
 *
 * Mode. Hopper and later change it at once; Ampere needs a reset of the GPU, which its driver does
 * by itself: then it is at once, too. Both wait while a process is on the GPU or the key mig_busy
 * is set (IN_USE, which keeps GIs from being made as well), and with the key mig_reset_required
 * until a reset or reboot. Mode cannot be
 * switched off while there are instances. A reset destroys instances and makes the pending mode
 * the current one; a reboot does the same, after which Hopper and later are off.
 *
 * Thread: any.
 */
#include "abi/nvml-api.h"
#include "testbed/sim/model.h"

#define SIM_MIG_SLOTS_MAX    12
#define SIM_MIG_PROFILES_MAX 12
#define SIM_MIG_NO_ID        255
#define SIM_MIG_ANY          UINT32_MAX /* start: where the driver likes */
#define SIM_MIG_GI_NUMBERS   17         /* enumerators of GI profiles that driver 580 knows */
#define SIM_MIG_CI_NUMBERS   9
#define SIM_MIG_GI_IDS       15 /* GI ids are below */
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

extern const struct sim_mig_table sim_mig_tables[];
extern const size_t sim_mig_table_count;

/* NULL: MIG cannot be had on this GPU. */
const struct sim_mig_table *sim_mig_table(const struct sim_keys *keys);

/* NULL: the product has no such profile. */
const struct sim_mig_profile *sim_mig_by_number(const struct sim_mig_table *t, uint32_t number);
const struct sim_mig_profile *sim_mig_by_id(const struct sim_mig_table *t, uint32_t id);

/* The profile of an instance of @g. */
const struct sim_mig_profile *sim_gi_profile(const struct sim_gpu *g, const struct sim_gi *gi);

/* What a CI profile is in a GI of @p; slices 0: it is not offered there. */
struct sim_ci_shape {
	uint32_t slices, max, sms;
	uint32_t starts; /* bit s: may start at slice s */
};
struct sim_ci_shape sim_ci_shape(const struct sim_mig_table *t, const struct sim_mig_profile *p,
	uint32_t number);

/* The CI profile that is all of a GI of @p. */
uint32_t sim_ci_default(const struct sim_mig_table *t, const struct sim_mig_profile *p);

/* "1g.5gb", "1c.3g.20gb". @ret has SIM_NAME_MAX bytes. */
void sim_mig_name(const struct sim_mig_profile *p, uint32_t ci_slices, char *ret);

/* "MIG-8-4-5...": the same for the same GPU and ids. @ret has SIM_MIG_UUID_MAX bytes. */
void sim_mig_uuid(const struct sim_keys *keys, uint32_t gi, uint32_t ci, char *ret);

/* Instances by id; NULL: there is none. */
struct sim_gi *sim_gi_find(struct sim_gpu *g, uint32_t gi);
struct sim_ci *sim_ci_find(struct sim_gi *gi, uint32_t ci);

/* How many further instances of a profile fit. Meaningful with MIG off too: then all fit. */
uint32_t sim_gi_count_free(const struct sim_gpu *g, const struct sim_mig_profile *p);
uint32_t sim_ci_count_free(const struct sim_gpu *g, const struct sim_gi *gi, uint32_t number);

/* Sums over one GI, or one of its CIs (SIM_NO_INSTANCE: all): bytes of processes, percent of load. */
uint64_t sim_mig_process_bytes(const struct sim_gpu *g, uint32_t gi, uint32_t ci);
uint32_t sim_mig_load_percent(const struct sim_gpu *g, uint32_t gi);
bool sim_mig_in_use(const struct sim_gpu *g, uint32_t gi, uint32_t ci);

/* Share of the whole GPU's SMs that a CI has, in percent rounded up; 100 if there is none. */
uint32_t sim_mig_share_percent(const struct sim_gpu *g, uint32_t gi, uint32_t ci);

/*
 * Changes. The caller has checked that the call is allowed at all, and keeps the sums with
 * sim_gpu_sum_processes(). On anything but NVML_SUCCESS nothing has changed, but for the pending
 * mode, which *activation says.
 */
nvmlReturn_t sim_mig_set_mode(struct sim_gpu *g, uint32_t mode, nvmlReturn_t *activation);
/* @start SIM_MIG_ANY: the driver chooses, and @size is not looked at. */
nvmlReturn_t sim_gi_create(struct sim_gpu *g, uint32_t profile_id, uint32_t start,
	uint32_t size, uint32_t *ret_gi);
nvmlReturn_t sim_gi_destroy(struct sim_gpu *g, uint32_t gi);
nvmlReturn_t sim_ci_create(struct sim_gpu *g, uint32_t gi, uint32_t number, uint32_t start,
	uint32_t size, uint32_t *ret_ci);
nvmlReturn_t sim_ci_destroy(struct sim_gpu *g, uint32_t gi, uint32_t ci);

/* Instances go, processes on them too; the pending mode comes into force. */
void sim_mig_reset(struct sim_gpu *g);
void sim_mig_reboot(struct sim_gpu *g);
