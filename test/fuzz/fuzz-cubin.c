/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"

#include <string.h>

#include "testbed/sim/cuda/module/cubin.h"

/* A cubin: what it declares has names and an end, and nothing is read beyond what there is. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ptx_entry e;
	struct cubin c;
	size_t found = 0;

	if (!cubin_open(&c, data, size))
		return 0;
	if (c.bytes > size)
		__builtin_trap();
	while (cubin_next(&c, &e) == 1) {
		if (++found > size || !memchr(e.name, '\0', sizeof(e.name)))
			__builtin_trap();
		for (size_t i = 0; i < e.param_count; i++)
			if (e.offsets[i] + e.sizes[i] > e.bytes)
				__builtin_trap();
	}
	return 0;
}
