/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What a library's file is, by its name and by its first bytes, of which nothing is trusted. */
#include <stdbool.h>
#include <stddef.h>

/* Whether @bytes, the first @size of a file, begin a shared library for this machine. */
bool file_is_library(const unsigned char *bytes, size_t size);

/* Whether it has our note, as both libraries have in every version. */
bool file_is_ours(const unsigned char *bytes, size_t size);

/* Whether a program that opens @path means the library of @soname ("libcuda.so.1"): libcuda.so and
 * libcuda.so.580.159.04 too, in any directory; not libcuda.so.1.bak, nor libcudart.so. */
bool file_has_name(const char *path, const char *soname);
