/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"

#include "io/config/mig/mig.h"

#include <stdlib.h>
#include <string.h>

/* A checkpoint that is accepted prints, and reads as the same again. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct mig_checkpoint *c = NULL, *d = NULL;
	struct error err = ERROR_INIT;
	int r = mig_checkpoint_parse(&c, "c.json", (const char *)data, size, &err);

	if ((r == 0) != (c != NULL) || (r < 0 && (err.code == ERR_NONE || !*err.msg)))
		abort();
	if (c) {
		char *text = mig_checkpoint_to_json(c), *again = NULL;

		if (!text || mig_checkpoint_parse(&d, "c.json", text, strlen(text), &err) < 0)
			abort();
		again = mig_checkpoint_to_json(d);
		if (!again || strcmp(text, again) != 0)
			abort();
		free(text);
		free(again);
	}
	(void)mig_checkpoint_free(c);
	(void)mig_checkpoint_free(d);
	return 0;
}
