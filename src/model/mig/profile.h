/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Names of MIG profiles:
 *
 *	[ C "c." ] G "g." N "gb" [ "+" attr { "," attr } | "-" attr { "," attr } ]
 *
 * C compute slices of a GPU instance of G slices and N GB. Without the first part C equals G. Numbers have
 * no leading zeros, and attributes are sorted. So a profile has exactly one name. The exception is
 * "7c.7g.80gb", which is written "7g.80gb".
 * Thread: any (pure).
 */
#include "lib/base/error.h"

#include <stdbool.h>
#include <stdint.h>

#define MIG_PROFILE_NAME_MAX   64
#define MIG_PROFILE_NUMBER_MAX 999 /* limit of C, G and N */
#define MIG_ATTRIBUTES_MAX     32

struct mig_profile {
	uint32_t c, g, gb; /* each 1..MIG_PROFILE_NUMBER_MAX */
	/* with the sign, sorted: "+gfx,me", "-me"; "": none */
	char attributes[MIG_ATTRIBUTES_MAX];
};

/* The whole @text must be a name. ERR_INVALID has the wrong part. The function checks the form only:
 * "4c.2g.10gb" is valid, although no GPU has that profile (mig_profile_shape_ok()). */
int mig_profile_parse(struct mig_profile *ret, const char *text, struct error *err) MUST_USE;

/* "1g.5gb", "1c.3g.20gb", "1g.10gb+me". */
void mig_profile_format(const struct mig_profile *p, char ret[MIG_PROFILE_NAME_MAX]);

/* Whether both have one name: the numbers and the attributes are equal. */
bool mig_profile_equal(const struct mig_profile *a, const struct mig_profile *b);

/* As part of a resource, label or config name: "+" and "," become "." (1g.10gb.me), "-" is unchanged. */
void mig_profile_word(const struct mig_profile *p, char ret[MIG_PROFILE_NAME_MAX]);

/* The eighth of the GPU's memory that @memory_mib reaches into, 1 to 8 for a part of the GPU. 0: a size is
 * 0 or beyond 4 PiB. */
uint32_t mig_profile_eighths(uint64_t memory_mib, uint64_t total_mib);

/* The GB of a name: mig_profile_eighths() of the GPU's GiB, rounded to the nearest GB. 0: too large for a
 * name. */
uint32_t mig_profile_gb(uint64_t memory_mib, uint64_t total_mib);

/* "+me", "", ... for NVML's number of a GPU instance profile (NVML_GPU_INSTANCE_PROFILE_*). NULL: unknown
 * number; NVML's own name has the attributes. Static. */
const char *mig_profile_attributes(uint32_t number);

/* Whether a GPU instance of @g slices can have compute instances of @c slices. */
bool mig_profile_shape_ok(uint32_t c, uint32_t g);
