/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Names of MIG profiles (mig.md section 2):
 *
 *	[ C "c." ] G "g." N "gb" [ "+" attr { "," attr } | "-" attr { "," attr } ]
 *
 * C compute slices of a GPU instance of G slices and N GB; without the first part C is G.
 * Thread: any (pure).
 */
#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

#define MIG_PROFILE_NAME_MAX 64
#define MIG_ATTRIBUTES_MAX   32

struct mig_profile {
	uint32_t c, g, gb;                   /* each 1..999 */
	char attributes[MIG_ATTRIBUTES_MAX]; /* with the sign, sorted: "+gfx,me", "-me"; "": none */
};

/* The whole of @text has to be a name; ERR_INVALID says which part of it is not. */
int mig_profile_parse(struct mig_profile *ret, const char *text, struct error *err) MUST_USE;

/* "1g.5gb", "1c.3g.20gb", "1g.10gb+me". */
void mig_profile_format(const struct mig_profile *p, char ret[MIG_PROFILE_NAME_MAX]);

bool mig_profile_equal(const struct mig_profile *a, const struct mig_profile *b);

/* As part of a resource, label or config name: "+" and "," become "." (1g.10gb.me), "-" stays. */
void mig_profile_word(const struct mig_profile *p, char ret[MIG_PROFILE_NAME_MAX]);

/* The GB of a name: the profile's share of the GPU's memory, rounded up to eighths, of its GiB
 * rounded up (section 2.1). 0 if @total_mib is 0. */
uint32_t mig_profile_gb(uint64_t memory_mib, uint64_t total_mib);

/* "+me", "" ... for NVML's number of a GPU instance profile (NVML_GPU_INSTANCE_PROFILE_*); NULL:
 * a number that we do not know, to be read from NVML's own name. Static. */
const char *mig_profile_attributes(uint32_t number);

/* Whether a GPU instance of @g slices is offered with compute instances of @c (section 2.2). */
bool mig_profile_shape_ok(uint32_t c, uint32_t g);
