/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/status/view.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* The agent's answer as the command-line tool reads it: whatever it is, no crash, and nothing that
 * drives a terminal. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	const struct status_view_options options = { .slices = true };
	CLEANUP(buf_fini) struct buf b = BUF_INIT(8 << 20);
	struct error err = ERROR_INIT;

	if (status_view(&b, (const char *)data, len, &options, &err) < 0)
		return 0;
	for (size_t i = 0; i < b.len; i++) {
		if ((unsigned char)b.data[i] < 0x20 && b.data[i] != '\n')
			__builtin_trap();
	}
	return 0;
}
