/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Whether a file is still the one that was read. Thread: any. */
#include <stdbool.h>
#include <stdint.h>

/* By what a file is taken for the same: kubelets replace whole directories by a link. All zero: there is none. */
struct file_stamp {
	uint64_t dev, ino, size, mtime_ns, ctime_ns;
};

/* One stat(). Take it before the file is read, so that a change meanwhile is seen as one. */
struct file_stamp file_stamp_of(const char *path);
bool file_stamp_same(const struct file_stamp *a, const struct file_stamp *b);
