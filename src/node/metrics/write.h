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

/* Writes a line of the family, and before its first line its head. Nothing for a block of length 0. */
void metrics_line(struct metrics_writer *w, struct metrics_text labels, enum metrics_kind kind,
	uint64_t value);
/* metrics_line() with a number that is a text already. */
void metrics_line_text(struct metrics_writer *w, struct metrics_text labels, const char *value);

#define METRICS_NUMBER_MAX 32
/* Writes "12.5" for 12500000 of METRICS_MICRO to @buf, of METRICS_NUMBER_MAX bytes. Returns the length. */
size_t metrics_number(char *buf, enum metrics_kind kind, uint64_t value);

/* A text of the view; "" if not known. */
static inline const char *metrics_str(const char *text)
{
	return text ? text : "";
}

/* --- label blocks --- */

/* Begins a block; metrics_label() adds labels until metrics_labels_end(). One block at a time. Returns the start,
 * for the functions below. If .labels runs out of memory, no line is written any more. */
uint32_t metrics_labels(struct metrics_writer *w);
/* Begins a block with the labels of @other. */
uint32_t metrics_labels_from(struct metrics_writer *w, struct metrics_text other);
/* Adds a label. @value: any UTF-8 text, which is escaped; NULL: "". */
void metrics_label(struct metrics_writer *w, uint32_t start, const char *name,
	const char *value);
void metrics_label_u64(struct metrics_writer *w, uint32_t start, const char *name,
	uint64_t value);
/* Returns the block since @start. */
struct metrics_text metrics_labels_end(const struct metrics_writer *w, uint32_t start);
/* Drops the blocks since @start, which served only a line or two. */
void metrics_labels_drop(struct metrics_writer *w, uint32_t start);

/* --- rows --- */

/*
 * Families that are members of a struct of the view. One row of a table describes each family, and one loop
 * writes all, family by family as the formats require. A member with all bits set (VIEW_NONE, UINT64_MAX) is not
 * known.
 */
struct metrics_row {
	struct metrics_family family;
	uint16_t at;  /* offset of the member */
	uint8_t size; /* 1 (bool), 4 or 8 bytes */
	uint8_t kind; /* enum metrics_kind */
	/* 1 + offset of the bool that says whether the member is known; 0: always. A counter above 0 keeps its line,
	 * so that sums hold. */
	uint16_t known;
	/* 1 + offset of the bool that says whether the growth of a counter is known; 0: always. A counter has no line
	 * while its growth is not known: a constant line would mean that nothing happens. */
	uint16_t current;
};

#define METRICS_MEMBER(type, member, kind_) \
	.at = offsetof(type, member), .size = sizeof(((type *)NULL)->member), .kind = (kind_)
#define METRICS_KNOWN(type, member)   .known = 1 + offsetof(type, member)
#define METRICS_CURRENT(type, member) .current = 1 + offsetof(type, member)

/* Objects of one struct, with the label block of each. An object without a block has no lines. */
struct metrics_objects {
	const void *const *object;
	const struct metrics_text *labels;
	uint32_t n;
};

/* Writes one family for each row, with a line for each object that has a block and knows the member. */
void metrics_rows(struct metrics_writer *w, const struct metrics_row *rows, size_t n_rows,
	const struct metrics_objects *objects);
