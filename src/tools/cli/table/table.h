/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Text in columns as kubectl prints it: heads in upper case, three blanks between columns, no lines.
 * Thread: the owner's. */
#include "lib/base/buf.h"
#include "lib/base/strv.h"

struct table {
	struct strv cells; /* row after row; the first row is the heads */
	size_t columns;
	bool failed; /* out of memory */
};

/* @heads ends with NULL. */
void table_init(struct table *t, const char *const *heads);
void table_fini(struct table *t);
void table_add(struct table *t, const char *text); /* the next cell; NULL is "" */
void table_addf(struct table *t, const char *fmt, ...) PRINTF(2, 3);

/* Whether there is a row besides the heads. */
bool table_has_rows(const struct table *t);
void table_print(const struct table *t, struct buf *b);
