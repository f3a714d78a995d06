/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Whether @bytes, the first @size of a file, begin a shared library for this machine. */
bool file_is_library(const unsigned char *bytes, size_t size);

/* Whether it has our note, as both libraries have in every version. */
bool file_is_ours(const unsigned char *bytes, size_t size);
