/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * For the analyzer only (tools/check-tidy.sh includes it by force): it sees one file at a time and
 * cannot know that these always return -1, so it would follow paths on which an error is none.
 */
#include "lib/base/error.h"

#define error_set(...)                        \
	({                                    \
		(void)error_set(__VA_ARGS__); \
		-1;                           \
	})
#define error_vset(...)                        \
	({                                     \
		(void)error_vset(__VA_ARGS__); \
		-1;                            \
	})
#define error_sys(...)                        \
	({                                    \
		(void)error_sys(__VA_ARGS__); \
		-1;                           \
	})
#define error_nomem(...)                        \
	({                                      \
		(void)error_nomem(__VA_ARGS__); \
		-1;                             \
	})
#define error_prefix(...)                        \
	({                                       \
		(void)error_prefix(__VA_ARGS__); \
		-1;                              \
	})
