/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The figures of a GPU under the names that dashboards know: DCGM's fields, as far as NVML and its GPM give
 * them. One table says of each its number, name, kind and what it can be of; the worker that asks NVML
 * and whoever writes metrics mean the same row by its position.
 *
 * Numbers, names and units: DCGM 4.6.1 (dcgm_fields.h). The old and the new name of a field are both known, and the
 * lower-case names that dcgm-exporter had before version 2.
 * Thread: any (constant).
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum field_kind {
	FIELD_INT,  /* written as a decimal number */
	FIELD_REAL, /* with six decimals */
	FIELD_TEXT, /* only ever a label */
};

/* What a field can be of. */
#define FIELD_OF_GPU 1U /* a GPU as a whole; of one in MIG mode the board */
#define FIELD_OF_MIG 2U /* a MIG device, by its own handle */
#define FIELD_OF_GI  4U /* a GPU instance, by GPM */

#define FIELD_PROFILING_FIRST 1000 /* numbers of what needs GPM: Hopper and later */
#define FIELD_PROFILING_LAST  1099

struct field {
	uint16_t id;      /* DCGM's number */
	uint8_t kind;     /* enum field_kind */
	uint8_t of;       /* FIELD_OF_... */
	const char *name; /* "DCGM_FI_DEV_GPU_TEMP" */
	const char *
		alias; /* what DCGM 4.6.1 calls it, "DCGM_FI_DEV_GPU_TEMP_CELSIUS"; NULL: the same */
};

#define FIELDS_MAX 320 /* rows that anybody must have room for */

extern const struct field fields[]; /* [n_fields], by number */
extern const size_t n_fields;

/* Position in fields[] of a name, an alias or a lower-case name; -1: there is none that we can give. */
int field_position(const char *name);

/* Whether it is a field of DCGM that NVML cannot give (reference: metrics, 12), so that a message can say so. */
bool field_is_dcgm_only(const char *name);
