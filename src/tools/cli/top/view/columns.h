/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Rows in columns: all that fit, the least important left out first; names get what room is left.
 * Thread: any (pure).
 */
#include "tools/cli/top/view/canvas.h"
#include "tools/cli/top/view/rows.h"

struct columns_options {
	enum top_table table;
	enum top_sort sort; /* whose head is marked */
	bool priced;        /* else there is no column of costs */
};

/* The head and the @n rows from @first on; a line each. */
void columns_draw(struct canvas *c, const struct top_rows *rows, size_t first, size_t n,
	const struct columns_options *style);
