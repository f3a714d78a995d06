/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * "2 x 3g.20gb, 1 x 1g.5gb": a list in an error text; ends in "..." if truncated. For
 * model/mig/geometry/geometry.c and this folder.
 * Thread: owner's.
 */
#include "lib/base/cleanup.h"

#include <stdbool.h>
#include <stddef.h>

#define MIG_LIST_MAX 320

struct mig_list {
	char text[MIG_LIST_MAX];
	size_t len;
	bool full;
};

#define MIG_LIST_INIT         \
	{                     \
		.text = { 0 } \
	}

void mig_list_add(struct mig_list *l, const char *fmt, ...) PRINTF(2, 3);
