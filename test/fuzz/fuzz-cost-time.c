/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include "lib/base/time.h"
#include "tools/cli/cost/view/view.h"

#include <stdlib.h>
#include <string.h>

/* A time on the command line: what is read can be written and read again. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(freep) char *text = malloc(size + 1);
	struct error err = ERROR_INIT;
	char buf[TIME_RFC3339_MAX];
	uint64_t s, again;

	if (!text)
		return 0;
	if (size)
		memcpy(text, data, size);
	text[size] = '\0';
	if (cost_time_parse(&s, "from", text, UINT64_C(1767225600), &err) < 0)
		return 0;
	if (cost_time_parse(&again, "from", cost_time_text(s, buf), 0, &err) < 0 || again != s)
		abort();
	return 0;
}
