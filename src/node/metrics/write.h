/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The two text formats: heads of families, label blocks, numbers. A label block ("a="1",b="2"") is made once for
 * each object and copied to each of its lines: a scrape of 400 slices consists mostly of this copying. Numbers are
 * exact: integers of nano- and micro-units with a decimal point, no doubles.
 * Thread: any (one writer, one thread).
 */
#include "node/metrics/metrics.h"

/* A part of .labels. */
struct metrics_text {
	uint32_t at, len; /* len 0: no block, and no line */
};

struct metrics_writer {
	const struct metrics_request *rq;
	const struct view *v;
	const struct metrics_options *o;
	struct buf *out;
	struct buf labels; /* all label blocks */

	/* The current family. */
	const char *name, *help, *unit;
	enum metrics_type type;
	bool head; /* its head was written */
	char line[160];
	uint32_t line_len; /* the start of its lines: name and '{' */
};

#define METRICS_LABELS_MAX (16U << 20)

/* The caller keeps the strings until the next family begins. */
void metrics_begin(struct metrics_writer *w, const struct metrics_family *f);

/* A family of the counters file: the name as in the file, whatever its type. */
void metrics_begin_dcgm(struct metrics_writer *w, const struct metrics_counter *c);

enum metrics_kind { METRICS_COUNT, METRICS_NANO, METRICS_MICRO };

/* A line of the family. */
void metrics_line(struct metrics_writer *w, struct metrics_text labels, enum metrics_kind kind,
	uint64_t value);
void metrics_line_text(struct metrics_writer *w, struct metrics_text labels, const char *value);

/* Writes "12.5" for 12500000 of METRICS_MICRO; METRICS_NUMBER_MAX bytes with the end. Returns the length. */
#define METRICS_NUMBER_MAX 32
size_t metrics_number(char *buf, enum metrics_kind kind, uint64_t value);

/* A text of the view; "" if not known. */
static inline const char *metrics_str(const char *text)
{
	return text ? text : "";
}

/* --- label blocks --- */

/* Begins a block; metrics_label() adds labels until metrics_labels_end(). One block at a time. */
uint32_t metrics_labels(struct metrics_writer *w);
/* Begins a block with the labels of another. */
uint32_t metrics_labels_from(struct metrics_writer *w, struct metrics_text other);
void metrics_label(struct metrics_writer *w, uint32_t start, const char *name,
	const char *value);
void metrics_label_u64(struct metrics_writer *w, uint32_t start, const char *name,
	uint64_t value);
struct metrics_text metrics_labels_end(const struct metrics_writer *w, uint32_t start);
/* Drops the blocks since @start, which served only a line or two. */
void metrics_labels_drop(struct metrics_writer *w, uint32_t start);
