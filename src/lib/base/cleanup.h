/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Ownership that the compiler enforces: each owner is declared with its release.
 *
 *	CLEANUP(buf_fini) struct buf b = BUF_INIT(4096);
 *	CLEANUP(freep) char *name = NULL;
 *
 * A variable with CLEANUP always has an initializer. STEAL_PTR() passes the object on and disarms the release.
 * Thread: any.
 */
#include <stdlib.h>

#define CLEANUP(fn)       __attribute__((cleanup(fn)))
#define MUST_USE          __attribute__((warn_unused_result))
#define PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

/* Moves the pointer out of @p, which becomes NULL. */
#define STEAL_PTR(p)                              \
	({                                        \
		__auto_type steal_p_ = &(p);      \
		__auto_type steal_v_ = *steal_p_; \
		*steal_p_ = NULL;                 \
		steal_v_;                         \
	})

/* Defines name##p(), which CLEANUP needs, for a function like `T *name_free(T *)`. */
#define DEFINE_CLEANUP(type, free_fn)          \
	static inline void free_fn##p(type *p) \
	{                                      \
		if (*p)                        \
			(void)free_fn(*p);     \
	}

/* For CLEANUP(freep) on memory from malloc. */
static inline void freep(void *p)
{
	free(*(void **)p);
}

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
