/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Families that are members of a struct of the view: one row of a table says which, and one loop writes them all,
 * family by family as the formats want it. A member that is all ones (VIEW_NONE, UINT64_MAX) is not known.
 * Thread: any.
 */
#include "node/metrics/write.h"

struct metrics_row {
	struct metrics_family family;
	uint16_t at;  /* of the member */
	uint8_t size; /* 1 (bool), 4 or 8 bytes */
	uint8_t kind; /* enum metrics_kind */
	uint16_t
		known; /* 1 + where the bool is that says whether it is known; 0: it always is. A counter that
			   has counted stays, so that sums hold. */
	uint16_t
		current; /* the same of a counter that has no line while it is not known whether it grows:
			     one that stands still would say that nothing happens */
};

#define METRICS_MEMBER(type, member, kind_) \
	.at = offsetof(type, member), .size = sizeof(((type *)NULL)->member), .kind = (kind_)
#define METRICS_KNOWN(type, member)   .known = 1 + offsetof(type, member)
#define METRICS_CURRENT(type, member) .current = 1 + offsetof(type, member)

/* Objects of one struct, with the label block of each; one without a block has no lines. */
struct metrics_objects {
	const void *const *object;
	const struct metrics_text *labels;
	uint32_t n;
};

void metrics_rows(struct metrics_writer *w, const struct metrics_row *rows, size_t n_rows,
	const struct metrics_objects *objects);
