/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Writes a command's result to the file that -o names. Thread: main; blocks as the file does. */
#include "lib/base/error.h"

#include <stddef.h>

/*
 * Writes the @len bytes of @text to @path. NULL, "" and "-" are standard output.
 *
 * Replaces a regular file as a whole, with mode 0644. Behind a link, the target is replaced and the
 * link stays. Writes into any other file (a device, a FIFO), which stays what it is. ERR_NOT_FOUND: a
 * link without a target.
 */
int output_write(const char *path, const char *text, size_t len, struct error *err) MUST_USE;
