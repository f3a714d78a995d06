/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"

#include "node/metrics/metrics.h"

#include <stdlib.h>
#include <string.h>

/* The Accept header of a remote client. Only a client that names OpenMetrics gets OpenMetrics. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(freep) char *accept = strndup((const char *)data, size);

	if (accept && metrics_format_of_accept(accept) == METRICS_OPENMETRICS &&
		!strcasestr(accept, "application/openmetrics-text"))
		__builtin_trap();
	return 0;
}
