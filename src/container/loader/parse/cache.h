/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The loader's cache, /etc/ld.so.cache: the file for each library name on this system. Reads only the format
 * that glibc 2.2 and later write ("glibc-ld.so.cache1.1"), also if the older format precedes it. The functions
 * take bytes and return names. They trust no byte.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__)
#	define CACHE_FLAGS 0x0303 /* ELF of glibc, x86-64 */
#else
#	define CACHE_FLAGS 0x0a03 /* ELF of glibc, AArch64 */
#endif

/* Calls @use with each file of @name for programs of @flags, best first, until @use returns true. The path points
 * into @bytes. False: @use never returned true, or @bytes are no cache. */
bool cache_each(const void *bytes, size_t size, const char *name, uint32_t flags,
	bool (*use)(const char *path, void *arg), void *arg);
