/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Which file a library name means on this system, and what kind of library a file is. The functions take bytes
 * and names, and trust no byte. Thread: any (pure). */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- a file --- */

/* Whether @bytes, the first @size of a file, begin a shared library for this machine. */
bool file_is_library(const unsigned char *bytes, size_t size);

/* Whether the file has gpuslice's note, as both libraries have in every version. */
bool file_is_ours(const unsigned char *bytes, size_t size);

/* Whether a program that opens @path means the library @soname ("libcuda.so.1"). So do libcuda.so and
 * libcuda.so.580.159.04, in any directory; libcuda.so.1.bak and libcudart.so do not. */
bool file_has_name(const char *path, const char *soname);

/* --- the loader's cache --- */

/*
 * The loader's cache, /etc/ld.so.cache: the file for each library name on this system. Reads only the format
 * that glibc 2.2 and later write ("glibc-ld.so.cache1.1"), also if the older format precedes it.
 */
#if defined(__x86_64__)
#	define CACHE_FLAGS 0x0303 /* ELF of glibc, x86-64 */
#else
#	define CACHE_FLAGS 0x0a03 /* ELF of glibc, AArch64 */
#endif

/* Calls @use with each file of @name for programs of @flags, best first, until @use returns true. The path points
 * into @bytes. False: @use never returned true, or @bytes are no cache. */
bool cache_each(const void *bytes, size_t size, const char *name, uint32_t flags,
	bool (*use)(const char *path, void *arg), void *arg);
