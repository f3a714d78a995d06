/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"

#include "config/config.h"

#include <stdlib.h>
#include <string.h>

static const char *no_env(const char *name)
{
	(void)name;
	return NULL;
}

/* One config. What is accepted must print, and say whether it is for a later version. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct config_sources sources = { .env = no_env };
	struct strv warnings = STRV_INIT;
	struct config *c = NULL, *again = NULL;
	struct error err = ERROR_INIT;
	int r = config_parse_any(&c, "c.yaml", 0, (const char *)data, size, &sources, &warnings,
		&err);

	if ((r == 0) != (c != NULL) || (r < 0 && (err.code == ERR_NONE || !*err.msg)))
		abort();
	if (c) {
		char *json = config_to_json(c);

		if (!json)
			abort();
		free(json);
		r = config_unsupported(c, "c.yaml", &err);
		if ((config_parse(&again, "c.yaml", 0, (const char *)data, size, &sources, NULL,
			     &err) == 0) != (r == 0))
			abort();
		if (again && !config_equal(c, again))
			abort();
	}
	(void)config_free(c);
	(void)config_free(again);
	strv_fini(&warnings);
	return 0;
}
