/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "lib/http/health/health.h"

/* A request that gets 200 is complete and has a path without query or blanks. Each prefix of it gets 200 or
 * needs more bytes. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct health_request r = { .head = false }, again;
	unsigned status = health_request_parse(&r, (const char *)data, len);

	if (status != 200)
		return 0;
	if (!memmem(data, len, "\r\n\r\n", 4) || !memchr(r.path, '\0', sizeof(r.path)) ||
		(*r.path && *r.path != '/') || strchr(r.path, '?') || strchr(r.path, ' '))
		abort();
	for (size_t i = 0; i < len && i < 64; i++) {
		unsigned early = health_request_parse(&again, (const char *)data, i);

		if (early != 0 && early != 200)
			abort();
	}
	return 0;
}
