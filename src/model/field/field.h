/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * GPU metrics under the names that dashboards use: DCGM's fields, as far as NVML and GPM provide them. One
 * table has the number, name, kind and entities of each field. The worker, which asks NVML, and the writers
 * of metrics refer to a row by its position.
 *
 * Numbers, names and units: DCGM 4.6.1 (dcgm_fields.h). The table knows the old and the new name of a
 * field, and the lower-case names that dcgm-exporter had before version 2.
 * Thread: any (constant).
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum field_kind {
	FIELD_INT,  /* printed as a decimal number */
	FIELD_REAL, /* printed with six decimals */
	FIELD_TEXT, /* used as a label only */
};

/* Entities of a field. */
#define FIELD_OF_GPU 1U /* a whole GPU; in MIG mode the board */
#define FIELD_OF_MIG 2U /* a MIG device, through its own NVML handle */
#define FIELD_OF_GI  4U /* a GPU instance, through GPM */

#define FIELD_PROFILING_FIRST 1000 /* first GPM field (Hopper and later) */
#define FIELD_PROFILING_LAST  1099

struct field {
	uint16_t id;      /* DCGM's number */
	uint8_t kind;     /* enum field_kind */
	uint8_t of;       /* FIELD_OF_... */
	const char *name; /* "DCGM_FI_DEV_GPU_TEMP" */
	/* name in DCGM 4.6.1, "DCGM_FI_DEV_GPU_TEMP_CELSIUS"; NULL: it is .name */
	const char *alias;
};

#define FIELDS_MAX 320 /* rows for which every user has room */

extern const struct field fields[]; /* [n_fields], by number */
extern const size_t n_fields;

/* Position in fields[] of a name, alias or lower-case name; -1: not a field that NVML or GPM provides. */
int field_position(const char *name);

/* Whether @name is a DCGM field that NVML cannot provide (reference: metrics, 12). Used for messages. */
bool field_is_dcgm_only(const char *name);
