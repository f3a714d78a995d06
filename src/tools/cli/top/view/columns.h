/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Draws rows in columns. The least important columns are left out first until the rest fits; names
 * share the remaining width.
 * Thread: any (pure).
 */
#include "tools/cli/top/view/canvas.h"
#include "tools/cli/top/view/rows.h"

struct columns_options {
	enum top_table table;
	enum top_sort sort; /* its column has a marked head */
	bool priced;        /* else no column of costs */
};

/* Draws the heads and @n rows from @first on, one line each. */
void columns_draw(struct canvas *c, const struct top_rows *rows, size_t first, size_t n,
	const struct columns_options *style);
