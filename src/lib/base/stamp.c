/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/stamp.h"

#include "lib/base/time.h"

#include <sys/stat.h>

static uint64_t to_ns(struct timespec t)
{
	return (uint64_t)t.tv_sec * NS_PER_SEC + (uint64_t)t.tv_nsec;
}

struct file_stamp file_stamp_of(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return (struct file_stamp){ .dev = 0 };
	return (struct file_stamp){ .dev = st.st_dev,
		.ino = st.st_ino,
		.size = (uint64_t)st.st_size,
		.mtime_ns = to_ns(st.st_mtim),
		.ctime_ns = to_ns(st.st_ctim) };
}

bool file_stamp_same(const struct file_stamp *a, const struct file_stamp *b)
{
	return a->dev == b->dev && a->ino == b->ino && a->size == b->size &&
	       a->mtime_ns == b->mtime_ns && a->ctime_ns == b->ctime_ns;
}
