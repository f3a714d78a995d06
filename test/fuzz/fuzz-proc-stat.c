/* SPDX-License-Identifier: Apache-2.0 */
#include "node/arbiter/process/proc.h"
#include "lib/base/cleanup.h"

#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

/* /proc/PID/stat, in which the name is the process's own to choose. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(freep) char *text = malloc(size + 1);
	struct proc_stat st = { .start = 0 }, again = { .start = 0 };

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	if (!proc_stat_parse(text, &st))
		return 0;
	/* Only the text from the end of the name on counts. */
	if (!proc_stat_parse(strrchr(text, ')'), &again) || again.start != st.start ||
		again.parent != st.parent || again.image != st.image)
		abort();
	return 0;
}
