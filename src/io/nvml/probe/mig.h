/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads the MIG devices of one GPU.
 *
 * A look comes every few seconds and mostly finds what the last one found, so it only asks what
 * would tell a change: for each device its handle, UUID and attributes, three calls. Ids and profile
 * are asked for when one of these is new. Two profiles of one GPU with the same attributes (1g.24gb
 * and 1g.24gb+gfx) may follow each other at one place, which keeps the UUID; devices of such
 * profiles are asked every time. docs/results has the counts.
 *
 * A list with anything new is read until two reads agree, as the devices may change between two calls.
 * Thread: one at a time for each struct probe.
 */
#include "lib/base/buf.h"
#include "io/nvml/probe/probe.h"

#define PROBE_PROFILES_MAX 32 /* GPU instance profiles of one GPU; NVML has 18 numbers so far */
#define PROBE_MIG_TRIES    64 /* indexes of MIG devices that are asked for, whatever NVML says */

/* The capability file, read at most once a look. */
struct probe_caps {
	bool read;
	struct buf text;
	struct error err; /* ERR_NONE: .text is the file */
};

struct probe_profile {
	uint32_t number, id; /* NVML's enumerator, and its id on this GPU */
	uint32_t slices, copy, decoder, encoder, jpeg, ofa;
	uint64_t memory_mib;
	bool has_twin; /* another has the same attributes */
};

/* One GPU, kept from look to look. Zeroed: nothing is known. */
struct probe_mig {
	char uuid[GPU_UUID_MAX]; /* of the GPU that this is about */
	uint32_t max;            /* MIG devices that it can have */
	uint32_t n_profiles;
	struct probe_profile profiles[PROBE_PROFILES_MAX];
	bool known; /* a list of devices has been read */
	uint32_t n;
	struct gpu_mig mig[GPU_MIG_MAX]; /* what probe_mig_devices() found */
	nvmlDeviceAttributes_t attributes[GPU_MIG_MAX];
	bool has_twin[GPU_MIG_MAX]; /* of the device's profile */
};

void probe_caps_init(struct probe_caps *c);
void probe_caps_fini(struct probe_caps *c);
void probe_caps_forget(struct probe_caps *c); /* before a look */

/*
 * Reads the MIG devices of @g, which is in MIG mode and has the handle @d, into keep->mig. A device
 * of which something cannot be read has a .reason. A list that differs at each of several reads stays
 * as the last look found it, and @g is .mig_unsettled. False: the list could not be read, and the
 * fault of @g says why.
 */
bool probe_mig_devices(struct probe *p, struct gpu *g, nvmlDevice_t d, struct probe_caps *caps,
	struct probe_mig *keep);
