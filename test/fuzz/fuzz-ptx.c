/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "testbed/sim/cuda/module/ptx.h"

/* A PTX text: what it declares has names, parameters that lie in order, and an end. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);
	struct ptx_entry e;
	const char *at = text;
	size_t found = 0;

	if (!text)
		return 0;
	if (size)
		memcpy(text, data, size);
	text[size] = '\0';
	if (ptx_is(text) && ptx_is_too_new(text, 90)) {
		free(text);
		return 0;
	}
	while (ptx_next(&at, &e) == 1) {
		size_t end = 0;

		if (++found > size || !e.name[0] || at > text + size)
			__builtin_trap();
		for (size_t i = 0; i < e.param_count; i++) {
			if (e.offsets[i] < end)
				__builtin_trap();
			end = e.offsets[i] + e.sizes[i];
		}
		if (e.kind == PTX_KERNEL && e.bytes < end)
			__builtin_trap();
	}
	free(text);
	return 0;
}
