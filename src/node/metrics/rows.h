/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Families that are members of a struct of the view. One row of a table describes each family, and one loop
 * writes all, family by family as the formats require. A member with all bits set (VIEW_NONE, UINT64_MAX) is not
 * known.
 * Thread: any.
 */
#include "node/metrics/write.h"

struct metrics_row {
	struct metrics_family family;
	uint16_t at;  /* offset of the member */
	uint8_t size; /* 1 (bool), 4 or 8 bytes */
	uint8_t kind; /* enum metrics_kind */
	/* 1 + offset of the bool that says whether the member is known; 0: always. A counter above 0 keeps its line,
	 * so that sums hold. */
	uint16_t known;
	/* Likewise. A counter has no line while its growth is not known: a constant line would mean that nothing
	 * happens. */
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

void metrics_rows(struct metrics_writer *w, const struct metrics_row *rows, size_t n_rows,
	const struct metrics_objects *objects);
