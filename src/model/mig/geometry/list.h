/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * "2 x 3g.20gb, 1 x 1g.5gb": a list inside an error, which ends in "..." where it gets too long.
 * For model/mig/geometry/geometry.c and this folder. Thread: whoever owns it.
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
