/* SPDX-License-Identifier: Apache-2.0 */
#include "container/nvml/figures.h"

#include <string.h>

static int parse_hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

bool figures_uuid(const char *text, uint8_t ret[SLICE_UUID_BYTES])
{
	unsigned int n = 0;

	if (strncmp(text, "GPU-", 4) != 0 && strncmp(text, "MIG-", 4) != 0)
		return false;
	for (text += 4; n < SLICE_UUID_BYTES; n++) {
		int high, low;

		if (*text == '-' && (n == 4 || n == 6 || n == 8 || n == 10))
			text++;
		high = parse_hex_digit(text[0]);
		low = high < 0 ? -1 : parse_hex_digit(text[1]);
		if (low < 0)
			return false;
		ret[n] = (uint8_t)(high << 4 | low);
		text += 2;
	}
	return *text == '\0';
}

struct memory_figures figures_memory(uint64_t limit, uint64_t used, uint64_t usable,
	uint64_t free)
{
	struct memory_figures f = { .total = limit < usable ? limit : usable, .used = used };

	f.free = f.total > f.used ? f.total - f.used : 0;
	if (f.free > free)
		f.free = free;
	return f;
}
