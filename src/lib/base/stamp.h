/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Whether a file is still the one that was read. Thread: any. */
#include <stdbool.h>
#include <stdint.h>

/* The identity of a file: kubelets replace whole directories by a link. All zero: the file does not exist. */
struct file_stamp {
	uint64_t dev, ino, size, mtime_ns, ctime_ns;
};

/* Calls stat() once. Take the stamp before reading the file, so that a change in between is noticed. */
struct file_stamp file_stamp_of(const char *path);
bool file_stamp_same(const struct file_stamp *a, const struct file_stamp *b);
