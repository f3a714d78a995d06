/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The loader's cache, /etc/ld.so.cache: which file a library's name means on this system. Only the
 * format that glibc 2.2 and later write ("glibc-ld.so.cache1.1"), also where the older one stands
 * before it. Bytes in, names out: nothing is trusted.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__)
#	define CACHE_FLAGS 0x0303 /* ELF of glibc, x86-64 */
#else
#	define CACHE_FLAGS 0x0a03 /* ELF of glibc, AArch64 */
#endif

/* Calls @use with each file that @name means for programs of @flags, best first, until it says
 * true; the path is @bytes' own. False: none did, or these bytes are no cache. */
bool cache_each(const void *bytes, size_t size, const char *name, uint32_t flags,
	bool (*use)(const char *path, void *arg), void *arg);
