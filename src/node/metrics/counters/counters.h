/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The DCGM fields to write, and how: dcgm-exporter's counters file, CSV with three columns (field, type, help),
 * or a built-in set, which is dcgm-exporter's.
 *
 * Each row is independent: a malformed row, or one that only DCGM can fill, is skipped with a warning, so that
 * files from elsewhere work. The caller watches the file. If a new file cannot be read, the caller still has the
 * old object.
 * Thread: any; constant once read.
 */
#include "lib/base/error.h"
#include "lib/base/strv.h"
#include "model/field/field.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define METRICS_COUNTERS_FILE_MAX (256U << 10) /* bytes */

/* The source of a value. */
enum metrics_source {
	METRICS_FROM_FIELD,        /* the sample */
	METRICS_FROM_XID,          /* the last XID that the agent saw */
	METRICS_FROM_XIDS,         /* DCGM_EXP_XID_ERRORS_COUNT: of a window of time */
	METRICS_FROM_XIDS_TOTAL,   /* DCGM_EXP_XID_ERRORS_TOTAL */
	METRICS_FROM_CLOCKS,       /* DCGM_EXP_CLOCK_EVENTS_COUNT: of a window of time */
	METRICS_FROM_CLOCKS_TOTAL, /* DCGM_EXP_CLOCK_EVENTS_TOTAL */
	METRICS_FROM_P2P,          /* DCGM_EXP_P2P_STATUS: of two GPUs */
	METRICS_FROM_HEALTH,       /* DCGM_EXP_GPU_HEALTH_STATUS: the agent's judgment */
};

struct metrics_counter {
	char *name; /* as in the file, an old or a new name */
	char *help;
	uint8_t type;   /* enum metrics_type of node/metrics/metrics.h */
	uint8_t source; /* enum metrics_source */
	bool label;     /* a label on all families */
	uint16_t id;    /* DCGM's number, the order of the families */
	uint16_t field; /* position in fields[], if METRICS_FROM_FIELD */
};

struct metrics_counters {
	struct metrics_counter *rows; /* families by id, then labels by name */
	uint32_t n, n_families;

	/* Private: the references, and the state of the file when it was read. */
	_Atomic uint32_t refs;
	char *path; /* NULL: built-in */
	struct {
		uint64_t device, inode, size;
		int64_t s, ns;
	} file_id;
};

/*
 * Reads @path; NULL or "": the built-in set. A malformed row is skipped, the others stay. @warnings (may be NULL)
 * gets a line for each row that is skipped or changed, at most a hundred, and then their number. ERR_LIMIT;
 * ERR_INVALID if no row is valid; errors of file_read().
 */
int metrics_counters_read(struct metrics_counters **ret, const char *path,
	struct strv *warnings, struct error *err) MUST_USE;

/* metrics_counters_read() of a text of @len bytes. @name: the file's, for messages. */
int metrics_counters_parse(struct metrics_counters **ret, const char *name, const char *text,
	size_t len, struct strv *warnings, struct error *err) MUST_USE;

/* The functions above give the first reference. Several threads may hold and drop references. */
struct metrics_counters *metrics_counters_ref(struct metrics_counters *c);
struct metrics_counters *metrics_counters_unref(struct metrics_counters *c); /* returns NULL */
DEFINE_CLEANUP(struct metrics_counters *, metrics_counters_unref)

/* Whether the file was replaced, changed in time or size, or removed since it was read: one stat(), which may
 * block. */
bool metrics_counters_changed(const struct metrics_counters *c);

/* Whether a row is from this source. */
bool metrics_counters_have(const struct metrics_counters *c, enum metrics_source source);

/* Sets @wanted for each field that a sample must have. @wanted has FIELDS_MAX elements, by position in fields[]. */
void metrics_counters_fields(const struct metrics_counters *c, bool *wanted);
