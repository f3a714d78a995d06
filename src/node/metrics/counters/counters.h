/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which DCGM fields are written and how: dcgm-exporter's counters file, three columns (field, type,
 * help) of CSV, or a built-in set that is the one that dcgm-exporter ships.
 *
 * Each row stands for itself: one that is malformed, or that only DCGM can fill, is left out with a warning, so that
 * a file from elsewhere works. Watching the file is the caller's; a new one that cannot be read leaves the caller with
 * the old object.
 * Thread: any; constant once read.
 */
#include "lib/base/error.h"
#include "lib/base/strv.h"
#include "model/field/field.h"

#include <stdbool.h>
#include <stdint.h>

#define METRICS_COUNTERS_FILE_MAX (256U << 10) /* bytes */

/* Where the value comes from. */
enum metrics_source {
	METRICS_FROM_FIELD,        /* a sample's */
	METRICS_FROM_XID,          /* the last XID that the agent saw */
	METRICS_FROM_XIDS,         /* DCGM_EXP_XID_ERRORS_COUNT: of a window of time */
	METRICS_FROM_XIDS_TOTAL,   /* DCGM_EXP_XID_ERRORS_TOTAL */
	METRICS_FROM_CLOCKS,       /* DCGM_EXP_CLOCK_EVENTS_COUNT: of a window of time */
	METRICS_FROM_CLOCKS_TOTAL, /* DCGM_EXP_CLOCK_EVENTS_TOTAL */
	METRICS_FROM_P2P,          /* DCGM_EXP_P2P_STATUS: of two GPUs */
	METRICS_FROM_HEALTH,       /* DCGM_EXP_GPU_HEALTH_STATUS: the agent's judgement */
};

struct metrics_counter {
	char *name; /* as written, old or new; printed so */
	char *help;
	uint8_t type;   /* enum metrics_type of node/metrics/metrics.h */
	uint8_t source; /* enum metrics_source */
	bool label;     /* not a family, but a label on all others */
	uint16_t id;    /* DCGM's number; the families are in its order */
	uint16_t field; /* position in fields[], of METRICS_FROM_FIELD */
};

struct metrics_counters {
	struct metrics_counter *rows; /* families by id, then labels by name */
	uint32_t n, n_families;

	/* Private: what the file was when it was read. */
	char *path; /* NULL: built-in */
	struct {
		uint64_t device, inode, size;
		int64_t s, ns;
	} file_id;
};

/*
 * Reads @path; NULL or "": the built-in set. A malformed row is left out and the others stay. @warnings (may be
 * NULL) gets a line for each row that was left out or is written otherwise than it says, a hundred at most and then
 * their number. Errors: ERR_LIMIT, what file_read() says.
 */
int metrics_counters_read(struct metrics_counters **ret, const char *path,
	struct strv *warnings, struct error *err) MUST_USE;

/* The same from text; @name stands in messages. */
int metrics_counters_parse(struct metrics_counters **ret, const char *name, const char *text,
	size_t len, struct strv *warnings, struct error *err) MUST_USE;

struct metrics_counters *metrics_counters_free(struct metrics_counters *c); /* returns NULL */
DEFINE_CLEANUP(struct metrics_counters *, metrics_counters_free)

/* Whether the file is another one than was read, or its time or size is, or it is missing: one stat().
 * Blocking. */
bool metrics_counters_changed(const struct metrics_counters *c);

/* Whether a row is from this source. */
bool metrics_counters_have(const struct metrics_counters *c, enum metrics_source source);

/* Marks each field that a sample must have: @wanted has FIELDS_MAX elements, by position in fields[]. */
void metrics_counters_fields(const struct metrics_counters *c, bool *wanted);
