/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Where a command's result goes: what -o names. Thread: main; blocks as the file does. */
#include "lib/base/error.h"

#include <stddef.h>

/*
 * Writes the @len bytes of @text to @path; NULL, "" and "-" are standard output. A regular file is
 * replaced as a whole, with mode 0644, and so is the one behind a link: the link stays. What is no
 * regular file (a device, a FIFO) is written to and stays what it is. ERR_NOT_FOUND: a link that
 * leads nowhere.
 */
int output_write(const char *path, const char *text, size_t len, struct error *err) MUST_USE;
