/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What kind of library a file is, by its name and its first bytes. The functions trust no byte. */
#include <stdbool.h>
#include <stddef.h>

/* Whether @bytes, the first @size of a file, begin a shared library for this machine. */
bool file_is_library(const unsigned char *bytes, size_t size);

/* Whether the file has gpuslice's note, as both libraries have in every version. */
bool file_is_ours(const unsigned char *bytes, size_t size);

/* Whether a program that opens @path means the library @soname ("libcuda.so.1"). So do libcuda.so and
 * libcuda.so.580.159.04, in any directory; libcuda.so.1.bak and libcudart.so do not. */
bool file_has_name(const char *path, const char *soname);
