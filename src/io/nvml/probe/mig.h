/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads the MIG devices of one GPU.
 *
 * Cost. A probe comes every few seconds and mostly finds the devices of the last one. So the probe makes only the
 * three calls for each device that would show a change: handle, UUID and attributes. It reads IDs and profile when
 * one of these is new. Two profiles of one GPU with the same attributes (1g.24gb and 1g.24gb+gfx) may follow each
 * other at one placement, which keeps the UUID. Devices of such profiles are read completely every time.
 * docs/results has the counts.
 *
 * Consistency. The devices may change between two calls, so a list with anything new is read until two reads
 * agree.
 *
 * Thread: one at a time for each struct probe.
 */
#include "lib/base/buf.h"
#include "io/nvml/probe/probe.h"

#define PROBE_PROFILES_MAX 32 /* GPU instance profiles of one GPU; NVML has 18 so far */
#define PROBE_MIG_TRIES    64 /* limit of indexes to try, whatever NVML says */

/* The capability file, read once in a probe at most; again if the list of devices has to be read again. */
struct probe_caps {
	bool read;
	struct buf text;
	struct error err; /* ERR_NONE: .text is the file's content */
};

struct probe_profile {
	uint32_t number, id; /* NVML's enumerator, and its id on this GPU */
	uint32_t slices, copy, decoder, encoder, jpeg, ofa;
	uint64_t memory_mib;
	bool has_twin; /* another profile has the same attributes */
};

/* The MIG state of one GPU, kept from probe to probe. Zeroed: nothing known. */
struct probe_mig {
	char uuid[GPU_UUID_MAX]; /* of the GPU */
	uint32_t max;            /* limit of MIG devices of this GPU */
	uint32_t n_profiles;
	struct probe_profile profiles[PROBE_PROFILES_MAX];
	bool known; /* a list of devices has been read */
	uint32_t n;
	struct gpu_mig mig[GPU_MIG_MAX]; /* what probe_mig_devices() found */
	nvmlDeviceAttributes_t attributes[GPU_MIG_MAX];
	bool has_twin[GPU_MIG_MAX]; /* of the device's profile */
};

void probe_caps_init(struct probe_caps *c);   /* nothing read yet */
void probe_caps_fini(struct probe_caps *c);   /* frees the text */
void probe_caps_forget(struct probe_caps *c); /* before a probe */

/*
 * Reads the MIG devices of @g into keep->mig. @g is in MIG mode and has the handle @d. A device that could not be
 * read completely has a .reason. If several reads all differ, the list of the last probe stays and @g is
 * .mig_unsettled. False: the list could not be read, and the fault of @g says why.
 */
bool probe_mig_devices(struct probe *p, struct gpu *g, nvmlDevice_t d, struct probe_caps *caps,
	struct probe_mig *keep);
