/* SPDX-License-Identifier: Apache-2.0 */
/* The loader's cache and the head of a library's file, as an image may have them. */
#include "fuzz/fuzz.h"

#include "container/loader/parse/file.h"

#include <string.h>

static bool add_path_length(const char *path, void *arg)
{
	*(size_t *)arg += strlen(path);
	return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t total = 0;

	cache_each(data, size, "libcuda.so.1", CACHE_FLAGS, add_path_length, &total);
	if (file_is_ours(data, size) && !file_is_library(data, size))
		__builtin_trap();
	return 0;
}
